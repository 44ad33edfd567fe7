"""Clicks and counts as rewards of the sampling policies: what is refused, what is believed, what is kept."""

import numpy as np
import pytest

import tensorbandits as tb
from tensorbandits.testing.case import same

KINDS = [tb.TensorThompsonSampling, tb.TensorEnsembleSampling]
SHAPE = (4, 5, 3)
RATES = 1 / (1 + np.exp(2.0 - np.multiply.outer(np.outer([0.0, 0.5, -0.5, 1.0], np.linspace(-1, 1, 5)), [1, 2, 0])))


def make(kind, reward, **settings):
    more = {"ensemble_size": 4} if kind is tb.TensorEnsembleSampling else {}
    return kind(SHAPE, 2, reward=reward, seed=0, **(more | settings))


def play(policy, rounds, seed=0):
    rng, cells = np.random.default_rng(seed), []
    for _ in range(rounds):
        cell = policy.ask(tuple(int(rng.integers(SHAPE[j])) for j in policy.context))
        policy.tell(cell, float(rng.random() < RATES[cell]))
        cells.append(cell)
    return cells


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reward", ["bernoulli", "binomial"])
@pytest.mark.parametrize("impossible", [0.5, -1, 2, 1.0000001])
def test_clicks_that_are_none_are_refused_and_change_nothing(kind, reward, impossible):
    policy = make(kind, reward)
    play(policy, 5)
    before = policy.state_dict()
    words = rf"{impossible:g}; with reward=\"{reward}\" allowed are 0 and 1; clicks out of several trials go by trials="
    with pytest.raises(ValueError, match=words):
        policy.tell((0, 0, 0), impossible)
    with pytest.raises(ValueError, match=f"reward 1 is {words}"):
        policy.tell_many([(0, 0, 0), (0, 0, 0)], [1, impossible])
    assert same(policy.state_dict(), before)
    for click in (True, False, np.bool_(True), np.int8(0), 1.0):
        policy.tell((0, 0, 0), click)


@pytest.mark.parametrize("impossible", [0.5, -1, 1e16, 2.5])
def test_counts_that_are_none_are_refused(impossible):
    policy = make(tb.TensorThompsonSampling, "count")
    with pytest.raises(ValueError, match=r'with reward="count" allowed are whole numbers from 0 to 1e15'):
        policy.tell((0, 0, 0), impossible)
    policy.tell((0, 0, 0), 12345)
    assert policy.ledger.rounds == 1


@pytest.mark.parametrize(
    ("reward", "count", "total", "squares"),
    [
        ("bernoulli", 3, 1.5, 1.5),
        ("bernoulli", 3, 4, 6),
        ("binomial", 3, 2, 4),
        ("bernoulli", 3, -1, 1),
        ("count", 3, 1.5, 2.0),
        ("count", 3, -1, 3),
        ("count", 3, 2, 1.5),
    ],
)
def test_ledgers_whose_sums_no_such_rewards_have_are_refused(reward, count, total, squares):
    policy = make(tb.TensorThompsonSampling, reward)
    good = tb.Ledger.of(SHAPE, [(0, 0, 0)], [3], [2], [2])
    policy.tell_ledger(good)
    bad = tb.Ledger.of(SHAPE, [(0, 0, 0), (0, 1, 0)], [3, count], [2, total], [2, squares])
    with pytest.raises(ValueError, match=rf"{count} rewards add up to {total:g}.*allowed are"):
        policy.tell_ledger(bad)
    assert policy.ledger == good


def test_a_ledger_that_has_faded_is_taken_though_its_sums_are_not_whole():
    policy, ledger = make(tb.TensorThompsonSampling, "bernoulli"), tb.Ledger(SHAPE)
    ledger.add([(0, 0, 0)] * 3, [1.0, 0.0, 1.0])
    ledger.fade(0.5)
    ledger.add((0, 0, 0), 1.0)
    policy.tell_ledger(ledger)
    assert policy.ledger.rounds == 2.5
    assert len(policy.ask()) == 3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reward", ["bernoulli", "count"])
def test_estimates_are_rates_and_means(kind, reward):
    policy, rng = make(kind, reward), np.random.default_rng(1)
    cells = np.argwhere(np.ones(SHAPE))
    trials = np.full(len(cells), 3000)
    clicks = rng.binomial(trials, RATES[tuple(cells.T)])
    policy.tell_many(cells, clicks, trials=trials)
    np.testing.assert_allclose(policy.estimate(cells), RATES[tuple(cells.T)], atol=0.06)
    assert RATES[policy.best()] > 0.9 * RATES.max()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reward", ["bernoulli", "count"])
def test_a_saved_policy_goes_on_with_a_past_that_fades_and_modes_that_grow(kind, reward, tmp_path):
    policy = make(kind, reward, context=(1,))
    play(policy, 30)
    policy.fade(0.3)
    policy.grow(0)
    policy.save(tmp_path / "policy")
    again = tb.Policy.load(tmp_path / "policy")
    assert again.reward == reward
    policy.tell((4, 1, 2), 1.0)
    again.tell((4, 1, 2), 1.0)
    for _ in range(40):
        policy.fade(0.5)
        again.fade(0.5)
    asked = [[one.ask((k % 5,)) for k in range(20)] for one in (policy, again)]
    assert asked[0] == asked[1]
    assert np.isfinite(policy.estimate([(4, 0, 0), (0, 0, 0)])).all()
    assert policy.ask_many([[0], [1]]) == again.ask_many([[0], [1]])


def test_what_only_gaussian_rewards_have_is_refused_with_others():
    with pytest.raises(ValueError, match=r"noise is 0\.5, but count rewards have none"):
        make(tb.TensorThompsonSampling, "count", noise=0.5)
    with pytest.raises(ValueError, match=r"perturbation is 0\.1, as in the paper, .* the variance is known"):
        make(tb.TensorEnsembleSampling, "bernoulli", perturbation=0.1)
    with pytest.raises(ValueError, match="reward is 'clicks'; allowed are gaussian, bernoulli, binomial, count"):
        make(tb.TensorThompsonSampling, "clicks")


def test_thompson_sampling_finds_the_cell_of_most_clicks():
    """In one run of ten it is at the second best after so few rounds."""
    found = 0
    for seed in range(5):
        cells = play(tb.TensorThompsonSampling(SHAPE, 2, reward="bernoulli", seed=seed), 1500)
        found += np.mean([RATES[cell] for cell in cells[-300:]]) > 0.8 * RATES.max()
    assert found >= 4


@pytest.mark.parametrize("kind", KINDS)
def test_intervals_are_on_the_scale_of_rewards_and_hold_the_estimate(kind):
    policy = make(kind, "bernoulli", **({"ensemble_size": 40} if kind is tb.TensorEnsembleSampling else {}))
    policy.tell_many([(0, 0, 0), (3, 4, 1)], [2, 900], trials=[1000, 1000])
    cells = [(0, 0, 0), (3, 4, 1), (1, 2, 2)]
    before = policy.state_dict()
    half, most = policy.interval(cells, 0.5), policy.interval(cells, 0.9)
    assert same(policy.state_dict(), before)
    assert most.shape == (3, 2)
    assert ((most[:, 0] <= half[:, 0]) & (half[:, 0] <= half[:, 1]) & (half[:, 1] <= most[:, 1])).all()
    assert ((most >= 0) & (most <= 1)).all()
    assert ((most[:, 0] <= policy.estimate(cells)) & (policy.estimate(cells) <= most[:, 1])).all()
    assert np.ptp(most[1]) < np.ptp(most[2])  # of a cell never tried less is known


def test_levels_that_are_none_or_beyond_the_draws_are_refused():
    policy = make(tb.TensorThompsonSampling, "gaussian", draws=20)
    for level in (0, 1, -0.5, float("nan"), True, "0.9"):
        with pytest.raises(ValueError, match="above 0 and below 1"):
            policy.interval([(0, 0, 0)], level)
    with pytest.raises(ValueError, match=r"20 draws tell no more than 0\.905: lower it, or make the policy with 199"):
        policy.interval([(0, 0, 0)], 0.99)
    with pytest.raises(ValueError, match="out of range"):
        policy.interval([(9, 0, 0)])


def test_policies_without_a_posterior_say_which_have_one():
    with pytest.raises(ValueError, match=r"VectorizedUCB has no posterior.*TensorThompsonSampling"):
        tb.VectorizedUCB(SHAPE).interval([(0, 0, 0)])


def test_intervals_of_exchangeable_draws_hold_the_truth_as_often_as_they_say():
    """Means N(0, 1), and one reward of each cell with noise N(0, 1): draws are exactly those of the posterior."""
    truth, rng = np.random.default_rng(1).standard_normal(4000), np.random.default_rng(2)
    rewards = truth + rng.standard_normal(4000)

    def oracle(ledger, rng):
        return rewards / 2 + rng.standard_normal(4000) / np.sqrt(2)

    policy = tb.ApproximateThompsonSampling((4000,), oracle, draws=24, seed=0)
    low, high = policy.interval(np.arange(4000)[:, None], 0.9).T
    assert ((low <= truth) & (truth <= high)).mean() == pytest.approx(0.9, abs=0.02)


def test_the_rarer_clicks_are_the_more_sweeps_lie_between_two_draws():
    ledgers = [tb.Ledger(SHAPE) for _ in range(2)]
    for ledger, clicks in zip(ledgers, (30_000, 100)):
        ledger.add((0, 0, 0), clicks, trials=100_000)
    often, rarely = (make(tb.TensorThompsonSampling, "bernoulli").oracle.likelihood.slowness(one) for one in ledgers)
    assert 1.0 <= often < 1.5
    assert rarely == pytest.approx(1 / (14 * 1e-3), rel=0.1)


def test_what_is_believed_of_rare_clicks_told_at_once_has_left_the_prior():
    """Where clicks are rare a chain moves slowly; its first hundreds of sweeps are no draws from the posterior."""
    policy, cells = make(tb.TensorThompsonSampling, "binomial", draws=20), np.argwhere(np.ones(SHAPE))
    rates = RATES[tuple(cells.T)] / 200
    policy.tell_many(cells, np.round(rates * 10**6), trials=np.full(len(cells), 10**6))
    np.testing.assert_allclose(policy.estimate(cells), rates, rtol=0.3)


@pytest.mark.parametrize("reward", ["gaussian", "bernoulli", "count"])
def test_before_any_reward_is_told_different_cells_are_tried(reward):
    """Rewards may be late by many decisions; were all of them for one cell, the first would say little."""
    policy = tb.TensorThompsonSampling((4, 5), reward=reward, seed=0)
    assert len({policy.ask() for _ in range(40)}) > 8


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
@pytest.mark.parametrize("rank", ["auto", 1, 2])
@pytest.mark.parametrize("reward", ["bernoulli", "count"])
def test_an_ensemble_forgets_where_few_rewards_had_led_its_models(reward, rank, seed):
    """Sums that are perturbed below 0 have no mode, and led models so far that many rewards could not bring back."""
    policy = tb.TensorEnsembleSampling((4, 6), rank, reward=reward, seed=seed)
    rng = np.random.default_rng(seed)
    for _ in range(40):
        policy.tell(policy.ask(), int(rng.random() < 0.3))
    policy.tell_many([(0, 0)] * 1000, rng.permutation([1] * 300 + [0] * 700))
    (estimate,), ((low, high),) = policy.estimate([(0, 0)]), policy.interval([(0, 0)])
    assert 0.2 < low < estimate < high < 0.4
    assert policy.estimate(np.argwhere(np.ones(policy.shape))).max() < 3.0


@pytest.mark.parametrize("reward", ["gaussian", "bernoulli", "binomial", "count"])
def test_an_ensemble_need_not_be_told_a_rank(reward):
    policy = tb.TensorEnsembleSampling(SHAPE, reward=reward, ensemble_size=4, seed=0)
    told = tb.TensorEnsembleSampling(SHAPE, "auto", reward=reward, ensemble_size=4, seed=0)
    assert play(policy, 30) == play(told, 30)
    assert same(policy.state_dict(), told.state_dict())
    assert policy.oracle.rank == (3, 3, 3)


@pytest.mark.parametrize(
    ("reward", "settings"), [("bernoulli", {}), ("count", {}), ("bernoulli", {"structure": "affine"})]
)
def test_a_model_of_an_ensemble_takes_one_step_for_few_rewards_and_many_for_a_batch(reward, settings, monkeypatch):
    """Else a decision takes ten times as long, and after a batch models are not where its rewards are."""
    policy = make(tb.TensorEnsembleSampling, reward, **settings)
    oracle, solves = policy.oracle, []
    solve = oracle._solve
    monkeypatch.setattr(oracle, "_solve", lambda *what: solves.append(solve(*what)))
    rng = np.random.default_rng(0)
    cells = rng.integers(SHAPE, size=(5000, 3))
    rewards = (rng.random(5000) < RATES[tuple(cells.T)]).astype(float)
    policy.tell_many(cells, rewards)
    oracle.update(0, policy.ledger, rng)
    batch = len(solves)
    assert 4 <= batch <= 32
    before = oracle.members[0].model.at(cells)
    oracle._fit(
        *(oracle.members[0].model, oracle._in_units(oracle.members[0].prior, oracle.likelihood.units(policy.ledger))),
        policy.ledger,
        np.sqrt(oracle.likelihood.information(policy.ledger)) * oracle.members[0].perturbation,
        *(oracle.likelihood.units(policy.ledger), 32),
    )
    assert np.abs(oracle.members[0].model.at(cells) - before).max() < 0.2  # it was about where it settles
    solves.clear()
    for cell, reward_ in zip(cells[:20].tolist(), rewards[:20]):
        policy.tell(cell, reward_)
        oracle.update(0, policy.ledger, rng)
    assert len(solves) == 20


def test_what_is_believed_of_counts_lies_within_bounds_though_little_is_known():
    policy = tb.TensorThompsonSampling((3, 4), reward="count", seed=0)
    policy.tell_many([(1, 1)] * 50, [20] * 50)
    cells = np.argwhere(np.ones(policy.shape))
    low, high = policy.interval(cells, 0.5).T
    estimate = policy.estimate(cells)
    assert ((low <= estimate) & (estimate <= high)).all()
    assert np.array_equal(estimate, np.median(policy.samples(cells), axis=0))
    typical = policy.explain().typical[0]
    assert ((typical[:, 1] <= typical[:, 0]) & (typical[:, 0] <= typical[:, 2])).all()


@pytest.mark.parametrize("trials", [5, 20, 100])
def test_an_ensemble_is_not_drawn_to_what_single_cells_have_shown(trials):
    """Rates near 0 and near 1: most cells say less than the levels do together, which models must follow."""
    logits = np.linspace(-4, 4, 10)[:, None, None] + np.linspace(-3, 3, 8)[:, None] + np.linspace(-3, 3, 6)
    rates = 1 / (1 + np.exp(-logits.ravel()))
    cells = np.argwhere(np.ones(logits.shape))
    held = []
    for seed in range(3):
        policy = tb.TensorEnsembleSampling(logits.shape, "auto", structure="additive", reward="binomial", seed=seed)
        clicks = np.random.default_rng(seed).binomial(trials, rates)
        policy.tell_many(cells, clicks, trials=np.full(len(cells), trials))
        low, high = policy.interval(cells, 0.9).T
        held.append(((low <= rates) & (rates <= high)).mean())
    assert np.mean(held) > 0.8

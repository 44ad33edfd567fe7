"""The frame of approximate Thompson sampling, and the two policies built on it."""

import copy

import numpy as np
import pytest

import tensorbandits as tb
from tensorbandits.model.likelihood import Units
from tensorbandits.model.sweep import Model
from tensorbandits.policies.base import Policy
from tensorbandits.policies.ensemble import Member
from tensorbandits.policies.structures import candidates
from tests.plain.policies import plain
from tests.plain.sweep import all_rows, objective, row_by_row

PAPER_PROBLEM = {"p": 6, "signal": 1.0, "rank": 1}
SPACES = [((8, 8, 8), ()), ((5, 4, 6), (1,)), ((3, 4, 2, 3), (0, 3)), ((9, 7), ())]


def test_the_frame_plays_the_best_cell_of_each_draw():
    rng = np.random.default_rng(0)
    tensors = [rng.standard_normal((3, 4)) for _ in range(20)]
    queue = iter(tensors)
    policy = tb.ApproximateThompsonSampling((3, 4), lambda ledger, rng: next(queue), context=(0,))
    for tensor in tensors:
        assert policy.ask((2,)) == (2, int(tensor[2].argmax()))


def test_the_frame_with_the_exact_posterior_of_one_mode_matches_its_arm_frequencies():
    ledger_means, counts = np.array([0.0, 0.5, 0.6]), np.array([3, 2, 1])

    def oracle(ledger, rng):
        N, Y, _ = ledger.dense()
        return Y / (N + 1) + rng.standard_normal(3) / np.sqrt(N + 1)

    policy = tb.ApproximateThompsonSampling((3,), oracle, seed=0, draws=4000)
    for arm, (mean, n) in enumerate(zip(ledger_means, counts)):
        policy.tell_many([(arm,)] * n, [mean] * n)
    exact = np.random.default_rng(1).standard_normal((200_000, 3)) / np.sqrt(counts + 1)
    exact += ledger_means * counts / (counts + 1)
    shares = np.bincount(exact.argmax(axis=1)) / len(exact)
    played = np.bincount([policy.ask()[0] for _ in range(4000)]) / 4000
    np.testing.assert_allclose(played, shares, atol=0.03)
    np.testing.assert_allclose([policy.propensity((i,)) for i in range(3)], shares, atol=0.03)


def test_a_wrong_oracle_is_named():
    with pytest.raises(TypeError, match=r"oracle\(ledger, rng\)"):
        tb.ApproximateThompsonSampling((2, 2), "thompson")
    with pytest.raises(ValueError, match=r"of shape \(3,\); it must return .* shape \(2, 2\)"):
        tb.ApproximateThompsonSampling((2, 2), lambda ledger, rng: np.zeros(3)).ask()
    with pytest.raises(ValueError, match="no finite numbers"):
        tb.ApproximateThompsonSampling((2, 2), lambda ledger, rng: np.full((2, 2), np.nan)).ask()


@pytest.mark.parametrize("kind", [tb.TensorThompsonSampling, tb.TensorEnsembleSampling])
def test_propensities_add_up_and_respect_context(kind):
    policy = kind((3, 4, 2), 2, context=(0,), seed=0)
    tb.simulate(
        policy, tb.TensorEnvironment(np.random.default_rng(0).standard_normal((3, 4, 2)), context=(0,), seed=1), 60
    )
    for level in range(3):
        total = sum(policy.propensity((level, i, j)) for i in range(4) for j in range(2))
        assert total == pytest.approx(1.0)


@pytest.mark.parametrize("kind", [tb.TensorThompsonSampling, tb.TensorEnsembleSampling])
def test_they_find_the_best_cell(kind):
    """In each of 3 problems the cell believed best after 400 rounds is worth at least 90 % of the best."""
    for seed in range(3):
        mean = tb.paper_tensor(**PAPER_PROBLEM, seed=seed)
        policy = kind(mean.shape, 1, seed=seed)
        trace = tb.simulate(policy, tb.TensorEnvironment(mean, seed=seed), 400)
        assert mean[policy.best()] >= 0.9 * mean.max()
        assert trace.regret[-1] - trace.regret[-101] < 0.2 * 100 * mean.max()


def test_rewards_need_not_be_centred():
    mean = 50.0 + tb.paper_tensor(**PAPER_PROBLEM, seed=3)
    for kind in (tb.TensorThompsonSampling, tb.TensorEnsembleSampling):
        policy = kind(mean.shape, 1, seed=0)
        tb.simulate(policy, tb.TensorEnvironment(mean, seed=0), 400)
        assert mean[policy.best()] - 50 >= 0.8 * (mean.max() - 50)
        assert policy.estimate([policy.best()])[0] == pytest.approx(mean[policy.best()], abs=0.5)


def test_thompson_catches_up_after_a_batch():
    """Told a whole log at once, it knows the best cell at the first ask."""
    mean = tb.paper_tensor(**PAPER_PROBLEM, seed=1)
    rng = np.random.default_rng(0)
    cells = rng.integers(6, size=(5000, 3))
    policy = tb.TensorThompsonSampling(mean.shape, 1, seed=0)
    policy.tell_many(cells, mean[tuple(cells.T)] + rng.standard_normal(5000))
    assert mean[policy.ask()] >= 0.85 * mean.max()
    assert mean[policy.best()] >= 0.9 * mean.max()


@pytest.mark.parametrize(("shape", "given", "used"), [((50,) * 3, None, 2), ((100,) * 3, None, 1), ((100,) * 3, 3, 3)])
def test_large_spaces_take_one_sweep_per_reward_unless_said_otherwise(shape, given, used):
    policy = tb.TensorThompsonSampling(shape, 2, sweeps=given)
    policy.ask()
    assert policy.oracle._per_reward(policy.oracle.samplers[0]) == used


def test_thompson_learns_the_noise():
    mean = tb.paper_tensor(**PAPER_PROBLEM, seed=1)
    policy = tb.TensorThompsonSampling(mean.shape, 1, seed=0)
    tb.simulate(policy, tb.TensorEnvironment(mean, noise=0.3, seed=0), 600)
    assert policy.oracle.samplers[0].chain.noise_variance == pytest.approx(0.09, rel=0.35)
    known = tb.TensorThompsonSampling(mean.shape, 1, noise=0.3, seed=0)
    tb.simulate(known, tb.TensorEnvironment(mean, noise=0.3, seed=0), 20)
    assert known.oracle.samplers[0].chain.noise_variance == pytest.approx(0.09)


def test_automatic_ranks_keep_the_core_small():
    def ranks(shape, structure=None):
        return [one.rank for one in candidates("auto", structure or "tucker", shape)]

    assert ranks((15, 15, 15)) == [(2, 2, 2), (3, 3, 3)]
    assert ranks((15, 2, 15)) == [(2, 2, 2), (3, 2, 3)]
    assert ranks((9,) * 6) == [(2,) * 6]
    assert ranks((9,)) == [(1,)]
    assert ranks((5,) * 12) == [(1,) * 12]
    assert ranks((15, 2, 15), "affine") == [(2, 1, 2), (3, 1, 3)]
    assert ranks((15, 1, 15), "additive") == [(1, 0, 1)]
    with pytest.raises(ValueError, match=r"core of 15625 entries.*lower the ranks"):
        candidates(5, "tucker", (9,) * 6)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"noise": 0.0}, "noise is 0.0"),
        ({"decay": 1.5}, "decay is 1.5"),
        ({"decay": -1.0}, "decay is -1.0"),
        ({"sweeps": 0}, "sweeps is 0"),
        ({"max_sweeps": 1.5}, "max_sweeps is 1.5"),
        ({"draws": 0}, "draws is 0"),
        ({"exploration": 0}, "exploration is 0"),
        ({"exploration": float("inf")}, "exploration is inf"),
        ({"structure": "cp"}, "structure is 'cp'; allowed are 'tucker', 'affine', 'additive', 'pairs', and None"),
    ],
)
def test_thompson_refuses_bad_arguments(arguments, match):
    with pytest.raises(ValueError, match=match):
        tb.TensorThompsonSampling((3, 3), 1, **arguments)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"ensemble_size": 0}, "ensemble_size is 0"),
        ({"perturbation": -1.0}, "perturbation"),
        ({"noise": float("nan")}, "noise is nan"),
        ({"noise": "varying"}, "noise is 'varying'; give a number, or None.*TensorThompsonSampling only"),
        ({"core_ridge": 0}, "core_ridge is 0"),
        ({"prior_variance": [1.0]}, "1 entries for 2 modes"),
        ({"prior_variance": 0.0}, "prior_variance is 0.0"),
        ({"prior_mean": [np.zeros((3, 1))]}, r"prior_mean.*\(3, 1\), \(3, 1\)"),
    ],
)
def test_the_ensemble_refuses_bad_arguments(arguments, match):
    with pytest.raises(ValueError, match=match):
        tb.TensorEnsembleSampling((3, 3), 1, **arguments)


def ledger_with(counts):
    cells = np.arange(len(counts))[:, None]
    return tb.Ledger.of((3,), cells, counts, counts, counts)


def test_perturbations_drawn_late_have_the_law_of_those_drawn_at_once():
    """A member that looks after 3, 4 and 5 rewards of a cell holds a sum of 12 standard normals."""
    rng = np.random.default_rng(0)
    sums, ledgers = [], [ledger_with(counts) for counts in ([3.0], [7.0, 2.0], [12.0, 2.0, 1.0])]
    for _ in range(4000):
        member = Member(None)
        for ledger in ledgers:
            last = member.perturb(ledger, rng)
        sums.append(last)
    np.testing.assert_allclose(np.var(sums, axis=0), [12.0, 2.0, 1.0], rtol=0.1)
    np.testing.assert_allclose(np.mean(sums, axis=0), 0.0, atol=0.2)
    np.testing.assert_allclose(np.corrcoef(np.array(sums).T), np.eye(3), atol=0.06)


def test_perturbations_stay_with_the_member():
    """Looking again without new rewards changes nothing."""
    rng = np.random.default_rng(0)
    member = Member(None)
    first = member.perturb(ledger_with([3.0, 1.0]), rng)
    np.testing.assert_array_equal(member.perturb(ledger_with([3.0, 1.0]), rng), first)


def test_perturbations_of_faded_rewards_have_the_variance_of_what_they_count_for():
    """4 rewards, faded by a half, and 3 more: a sum of variance 5, which keeps half of what it was."""
    rng, sums, before = np.random.default_rng(0), [], ledger_with([4.0])
    after = before.copy()
    after.fade(0.5)
    after.add([(0,)] * 3, [1.0] * 3)
    for _ in range(4000):
        member = Member(None)
        first = member.perturb(before, rng)[0]
        sums.append((first, member.perturb(after, rng)[0]))
    np.testing.assert_allclose(np.cov(np.array(sums).T), [[4.0, 2.0], [2.0, 5.0]], rtol=0.15)


def test_an_update_of_the_paper_ensemble_lowers_the_papers_objective():
    """The objective of the paper's section 4, summed over rounds as written there, falls with each update."""
    shape = (4, 3, 3)
    policy = tb.TensorEnsembleSampling.paper(shape, 2, ensemble_size=2, seed=0)
    env = tb.TensorEnvironment(np.random.default_rng(0).standard_normal(shape), seed=0)
    trace = tb.simulate(policy, env, 80)
    oracle = policy.oracle
    member = oracle.members[0]
    prior = member.prior.tensor()
    np.testing.assert_allclose([np.linalg.norm(U, axis=0) for U in prior.factors], 1.0)
    np.testing.assert_array_equal(prior.core, np.ones((2, 2, 2)))

    before = oracle.update(0, policy.ledger, np.random.default_rng(1)).tensor()
    weight = policy.ledger.counts
    target = policy.ledger.totals + np.sqrt(0.1) * member.perturbation

    def as_written(tensor):
        """Rounds one by one; the perturbation of a round is its cell's sum shared evenly."""
        share = dict(zip(map(tuple, policy.ledger.cells.tolist()), np.sqrt(0.1) * member.perturbation / weight))
        loss = sum(
            (y + share[tuple(c)] - tensor.at(np.array([c]))[0]) ** 2
            for c, y in zip(trace.cells.tolist(), trace.rewards)
        )
        loss += sum(((U - M) ** 2).sum() for U, M in zip(tensor.factors, prior.factors))
        return loss + 0.01 * ((tensor.core - 1.0) ** 2).sum()

    model = Model.of(before)
    oracle._fit(model, member.prior, policy.ledger, np.sqrt(0.1) * member.perturbation, Units(0.0, 1.0))
    after = model.tensor()
    drop = as_written(before) - as_written(after)
    assert drop >= -1e-9
    data = prior, [np.ones(2)] * 3, policy.ledger.cells, weight, target
    held = {"variance": 1.0, "core_precision": 0.01, "offset_precision": None}
    assert drop == pytest.approx(objective(before, *data, **held) - objective(after, *data, **held), abs=1e-7)


def test_prior_means_and_variances_are_used():
    means = [np.full((5, 1), 2.0), np.full((4, 1), -3.0)]
    policy = tb.TensorEnsembleSampling(
        (5, 4), 1, prior_mean=means, prior_variance=[1e-6, 1e-6], intercept=False, seed=0
    )
    np.testing.assert_allclose(policy.estimate([(0, 0)]), -1 / np.sqrt(20), rtol=1e-2)


def test_members_disagree_less_as_rewards_come_in():
    mean = tb.paper_tensor(**PAPER_PROBLEM, seed=0)
    policy = tb.TensorEnsembleSampling(mean.shape, 1, ensemble_size=20, seed=0)
    env = tb.TensorEnvironment(mean, seed=0)
    spread = []
    for _ in range(2):
        tb.simulate(policy, env, 300)
        draws = policy._posterior_draws()
        spread.append(np.std([draw.at(np.array([policy.best()]))[0] for draw in draws]))
    assert spread[1] < spread[0]
    assert policy.propensity(policy.best()) > 0.5


def test_copies_do_not_share_state():
    policy = tb.TensorThompsonSampling((3, 3), 1, seed=0)
    policy.tell(policy.ask(), 1.0)
    twin = copy.deepcopy(policy)
    assert [policy.ask() for _ in range(5)] == [twin.ask() for _ in range(5)]


class CountingOracle:
    """A stateful oracle as a user may write one: its state is the number of its calls."""

    def __init__(self):
        self.calls = 0

    def __call__(self, ledger, rng):
        self.calls += 1
        return rng.standard_normal(ledger.shape)

    def state(self):
        return {"calls": self.calls}

    def restore(self, state):
        self.calls = state["calls"]


def test_a_restored_policy_has_an_oracle_of_its_own():
    policy = tb.ApproximateThompsonSampling((2, 3), CountingOracle(), seed=0)
    policy.ask_many(3)
    saved = policy.state_dict()
    expected = policy.ask_many(2)
    twin = Policy.from_state_dict(saved)
    assert twin.oracle is not policy.oracle
    assert (policy.oracle.calls, twin.oracle.calls) == (5, 3)
    assert twin.ask_many(2) == expected
    third = Policy.from_state_dict(saved)
    assert (policy.oracle.calls, twin.oracle.calls, third.oracle.calls) == (5, 5, 3)


def test_a_told_reward_shows_in_the_next_look():
    """Looking keeps its draws; a reward, or many, must make it draw anew."""

    def shrunken_means(ledger, rng):
        N, Y, _ = ledger.dense()
        return Y / (N + 1)

    policy = tb.ApproximateThompsonSampling((2, 3), shrunken_means, seed=0)
    assert policy.estimate([(1, 1)]) == [0.0]
    policy.tell((1, 1), 4.0)
    assert (policy.estimate([(1, 1)]), policy.best(), policy.propensity((1, 1))) == ([2.0], (1, 1), 1.0)
    policy.tell_many([(0, 2)] * 3, [8.0] * 3)
    assert (policy.estimate([(0, 2)]), policy.best(), policy.propensity((1, 1))) == ([6.0], (0, 2), 0.0)


@pytest.mark.parametrize(
    ("rank", "given", "used"),
    [("auto", None, 1.0), (2, None, 1.0), ((2, 2), None, 1.0), ("auto", 0.9, 0.9), (2, 0.3, 0.3)],
)
def test_columns_decay_when_it_is_asked_for(rank, given, used):
    policy = tb.TensorThompsonSampling((5, 4), rank, decay=given)
    tucker = [sampler.candidate for sampler in policy.oracle.samplers if sampler.candidate.structure == "tucker"]
    assert tucker[-1].decay == used


@pytest.mark.parametrize("seed", range(4))
def test_thompson_survives_an_outlier(seed):
    rng = np.random.default_rng(seed)
    policy = tb.TensorThompsonSampling((4, 3, 3), 2, seed=seed)
    for reward in [*rng.standard_normal(50), 1e9, *rng.standard_normal(20)]:
        policy.tell(policy.ask(), float(reward))
    assert policy.ledger.rounds == 71
    assert np.isfinite(policy.estimate(list(np.ndindex(4, 3, 3)))).all()


@pytest.mark.parametrize("scale", [1e9, 1e-9])
@pytest.mark.parametrize("kind", [tb.TensorThompsonSampling, tb.TensorEnsembleSampling])
def test_the_papers_fixed_scale_survives_rewards_of_any_scale(kind, scale):
    """The paper's priors are stated for rewards of size about 1; others are learned badly, but without failure."""
    policy = kind.paper((4, 3, 3), 2, seed=0)
    tb.simulate(policy, tb.TensorEnvironment(np.zeros((4, 3, 3)), noise=scale, seed=0), 60)
    assert np.isfinite(policy.estimate(list(np.ndindex(4, 3, 3)))).all()


def test_paper_values_of_the_ensemble():
    policy = tb.TensorEnsembleSampling.paper((4, 3), 1)
    assert (policy.ensemble_size, policy.perturbation, policy.noise, policy.prior_variance) == (100, 0.1, 1.0, 1.0)
    assert (policy.scale_free, policy.intercept) == (False, False)
    assert tb.TensorEnsembleSampling.paper((4, 3), 1, noise=0.5).noise == 0.5


def test_rows_are_held_to_their_prior_by_one_over_its_variance():
    oracle = tb.TensorEnsembleSampling((4, 3), 2, prior_variance=[0.25, 8.0], seed=0).oracle
    np.testing.assert_array_equal(oracle._precision, [4.0, 4.0, 0.125, 0.125])


@pytest.mark.parametrize("rows", [row_by_row, all_rows])
@pytest.mark.parametrize(("shape", "context"), SPACES)
def test_the_ensemble_plays_the_cells_of_its_plain_twin(shape, context, rows):
    mean = np.random.default_rng(3).standard_normal(shape)
    traces = []
    for policy in (
        tb.TensorEnsembleSampling(shape, 2, context=context, ensemble_size=5, seed=0),
        plain(tb.TensorEnsembleSampling(shape, 2, context=context, ensemble_size=5, seed=0), rows),
    ):
        traces.append(tb.simulate(policy, tb.TensorEnvironment(mean, context=context, seed=1), 60))
    np.testing.assert_array_equal(traces[0].cells, traces[1].cells)


@pytest.mark.parametrize(("structure", "rank"), [("affine", 2), ("additive", "auto")])
@pytest.mark.parametrize(("shape", "context"), [((5, 4, 6), (1,)), ((9, 1, 3), ())])
def test_an_ensemble_with_main_effects_plays_the_cells_of_its_plain_twin(shape, context, structure, rank):
    mean, traces = np.random.default_rng(3).standard_normal(shape), []
    for make in (lambda policy: policy, plain):
        policy = make(
            tb.TensorEnsembleSampling(shape, rank, structure=structure, context=context, ensemble_size=3, seed=0)
        )
        traces.append(tb.simulate(policy, tb.TensorEnvironment(mean, context=context, seed=1), 30))
    np.testing.assert_array_equal(traces[0].cells, traces[1].cells)


@pytest.mark.parametrize("reward", ["bernoulli", "count"])
def test_an_ensemble_of_clicks_or_counts_plays_the_cells_of_its_plain_twin(reward):
    rates, traces = np.random.default_rng(3).uniform(0.1, 0.9, (3, 4, 2)), []
    for make in (lambda policy: policy, plain):
        policy = make(tb.TensorEnsembleSampling((3, 4, 2), 2, reward=reward, ensemble_size=3, seed=0))
        rng, cells = np.random.default_rng(1), []
        for _ in range(12):
            cells.append(policy.ask())
            policy.tell(cells[-1], float(rng.random() < rates[cells[-1]]))
        traces.append(cells)
    assert traces[0] == traces[1]


@pytest.mark.parametrize(("shape", "context"), SPACES)
def test_thompson_plays_the_cells_of_its_plain_twin_until_rounding_has_grown(shape, context):
    """The chain magnifies any difference, rounding included, by a factor of about 3 a round while it knows little."""
    mean = np.random.default_rng(3).standard_normal(shape)
    traces = []
    for policy in (
        tb.TensorThompsonSampling(shape, 2, context=context, residual=False, seed=0),
        plain(tb.TensorThompsonSampling(shape, 2, context=context, residual=False, seed=0)),
    ):
        traces.append(tb.simulate(policy, tb.TensorEnvironment(mean, context=context, seed=1), 12))
    np.testing.assert_array_equal(traces[0].cells, traces[1].cells)


@pytest.mark.parametrize("told", [0, 1, 40])
@pytest.mark.parametrize("kind", [tb.TensorThompsonSampling, tb.TensorEnsembleSampling])
def test_a_batch_is_what_asking_one_by_one_gives(kind, told):
    policies = [kind((4, 5, 3), 2, context=(1,), seed=0) for _ in range(2)]
    rng = np.random.default_rng(0)
    cells, rewards = rng.integers((4, 5, 3), size=(told, 3)), rng.standard_normal(told)
    levels = rng.integers(5, size=(30, 1))
    for policy in policies:
        policy.tell_many(cells.reshape(-1, 3), rewards)
    assert policies[0].ask_many(levels) == [policies[1].ask(row) for row in levels]
    assert policies[0].ask_many(levels[:3]) == [policies[1].ask(row) for row in levels[:3]]
    assert policies[0].ask_many(np.zeros((0, 1), dtype=int)) == []


def test_a_batch_brings_each_member_up_to_date_once():
    policy = tb.TensorEnsembleSampling((4, 5), 1, ensemble_size=3, seed=0)
    policy.tell_many([(0, 0), (1, 1)], [1.0, 2.0])
    fits = []
    fit = policy.oracle._fit
    policy.oracle._fit = lambda *arguments: fits.append(1) or fit(*arguments)
    policy.ask_many(50)
    assert len(fits) == 3


@pytest.mark.parametrize(("perturbation", "noise", "variance"), [(0.1, 1.0, 0.1), (0.1, 3.0, 0.1), ("noise", 2.0, 4.0)])
def test_members_spread_by_the_variance_of_the_perturbations(perturbation, noise, variance):
    """Where data dominate, a fit is the mean of n perturbed rewards: its variance is that of one of them over n."""
    n, members = 1000, 400
    policy = tb.TensorEnsembleSampling(
        (2, 2),
        1,
        ensemble_size=members,
        perturbation=perturbation,
        noise=noise,
        prior_mean=1.0,
        prior_variance=1e-8,  # every member starts from the same tensor
        scale_free=False,
        intercept=False,
        seed=0,
    )
    policy.tell_many([(1, 0)] * n, [2.0] * n)
    fits = [draw.at(np.array([(1, 0)]))[0] for draw in policy._posterior_draws()]
    # A variance of 400 normals is off by sqrt(2 / 400) = 7 % (one deviation).
    assert np.mean(fits) == pytest.approx(2.0, abs=0.02)
    assert np.var(fits) == pytest.approx(variance / n, rel=0.25)


def test_a_batch_respects_the_most_sweeps_and_may_be_drawn_in_parts(monkeypatch):
    policies = [tb.TensorThompsonSampling((4, 5), 2, sweeps=2, max_sweeps=1, seed=0) for _ in range(3)]
    for policy in policies:
        policy.tell_many([(0, 0), (1, 1), (3, 4)], [1.0, 2.0, 0.5])
    one_by_one = [policies[0].ask() for _ in range(10)]
    assert policies[1].ask_many(10) == one_by_one
    monkeypatch.setattr("tensorbandits.policies.thompson._AT_ONCE", 60)
    assert policies[2].ask_many(10) == one_by_one


def test_sweeps_may_be_drawn_in_parts(monkeypatch):
    rows = []
    for at_once in (2**20, 60):
        monkeypatch.setattr("tensorbandits.policies.thompson._AT_ONCE", at_once)
        policy = tb.TensorThompsonSampling((4, 5), 2, seed=0)
        policy.ask()
        policy.tell_many([(0, 0)] * 8, np.arange(8.0))
        policy.ask()
        rows.append(policy.oracle.samplers[0].chain.model.rows)
    np.testing.assert_array_equal(*rows)


def test_a_restored_member_that_is_up_to_date_stays_as_it_is():
    policy = tb.TensorEnsembleSampling((4, 5), 1, ensemble_size=1, seed=0)
    policy.tell(policy.ask(), 1.0)
    policy.ask()
    twin = tb.TensorEnsembleSampling.from_state_dict(policy.state_dict())
    assert twin.ask() == policy.ask()
    assert twin.state_dict()["rng"] == policy.state_dict()["rng"]


@pytest.mark.parametrize("kind", [tb.TensorThompsonSampling, tb.TensorEnsembleSampling])
def test_rewards_that_are_tiny_beyond_reason_are_refused_and_tiny_ones_learned(kind):
    policy = kind((3, 4), 1, seed=0)
    with pytest.raises(ValueError, match="rescale"):
        policy.tell((0, 0), 1e-160)
    mean = np.zeros((3, 4))
    mean[1, 2] = 1e-90
    tb.simulate(policy, tb.TensorEnvironment(mean, noise=1e-92, seed=0), 200)
    assert policy.best() == (1, 2)


def test_new_levels_of_an_ensemble_are_drawn_like_the_others():
    for settings in ({"prior_variance": 1.0}, {"prior_mean": 1.0}, {}):
        policy = tb.TensorEnsembleSampling((50, 50), 2, seed=0, **settings)
        policy.ask_many(30)
        policy.grow(0, 50)
        rows = [member.prior.tensor().factors[0] for member in policy.oracle.members.values()]
        old, new = (np.sqrt(np.mean([U[part] ** 2 for U in rows])) for part in (slice(50), slice(50, 100)))
        assert 0.5 < new / old < 1.5


def test_prior_means_are_the_policys_own():
    means = [np.zeros((4, 1)), np.zeros((4, 1))]
    policies = [
        tb.TensorEnsembleSampling((4, 4), 1, seed=0, prior_mean=given) for given in (means, np.zeros((2, 4, 1)))
    ]
    means[0][0] = 100.0
    assert policies[0].ask_many(10) == policies[1].ask_many(10)
    for settings in ({"prior_mean": 1e200}, {"prior_variance": 1e-322}):
        with pytest.raises(ValueError, match=r"prior_\w+ is"):
            tb.TensorEnsembleSampling((4, 4), 1, **settings)


def test_more_clicks_than_a_float_counts_one_by_one_are_learned_and_saved():
    policy = tb.TensorThompsonSampling((2, 2), 1, reward="binomial", seed=0)
    for _ in range(30):
        policy.tell((0, 0), 1e15, trials=1e15)
    policy.ask()
    again = tb.Policy.from_state_dict(policy.state_dict())
    assert again.estimate([(0, 0)])[0] > 0.9

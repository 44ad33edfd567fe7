"""Several structures side by side, what they are believed by, and cells that deviate from all of them."""

import numpy as np
import pytest

import tensorbandits as tb
from tensorbandits.model._sweep_kernels import values_of_lines
from tensorbandits.model.gibbs import Chain, Units
from tensorbandits.model.residual import Trying
from tensorbandits.policies import structures
from tensorbandits.policies.structures import Candidate, Sampler
from tensorbandits.policies.tuning import USUAL
from tensorbandits.tensor.allowed import Allowed
from tensorbandits.tensor.pairs import columns_once

SHAPE = (5, 4, 3)
AT_ONCE = {"judged_from": 1e-9}  # structures are judged from the first draws on
KINDS = [
    {},
    {"residual": True},
    {"structure": "affine"},
    {"structure": "additive"},
    {"reward": "bernoulli"},
    {"reward": "count", "residual": True},
    {"reward": "bernoulli", "rate": 0.01},
]


def make(**settings):
    return tb.TensorThompsonSampling(SHAPE, **({"context": (1,), "seed": 0} | settings))


def play(policy, rounds, seed=0, rate=None):
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        cell = policy.ask((int(rng.integers(4)),))
        policy.tell(cell, float(rng.random() < (rate or 0.2 + 0.1 * cell[0])))


@pytest.mark.parametrize("settings", KINDS, ids=str)
def test_a_saved_policy_goes_on_identically_whatever_its_structure(settings):
    """Its recent draws, ladders, evidence and deviations are kept, through growth, fading and ledgers too."""
    settings = dict(settings)
    rate = settings.pop("rate", None)
    policy = make(**settings)
    play(policy, 60, rate=rate)
    assert (policy.oracle.worth > 2) == (rate is not None)
    ledger = tb.Ledger(SHAPE)
    ledger.add([(0, 0, 0), (4, 3, 2)], [1.0, 0.0])
    policies = [policy, tb.Policy.from_state_dict(policy.state_dict())]
    cells = []
    for one in policies:
        play(one, 10, seed=1, rate=rate)
        one.tell_ledger(ledger)
        one.fade(0.5)
        one.grow(2)
        one.tell((4, 1, 3), 1.0)
        cells.append([*one.ask_many([(k % 4,) for k in range(12)]), one.best((2,))])
    assert cells[0] == cells[1]
    assert policies[0].oracle.chances.tolist() == policies[1].oracle.chances.tolist()
    assert np.isfinite(policy.interval(list(np.ndindex(policy.shape)))).all()


def test_belief_follows_the_evidence_and_can_turn(monkeypatch):
    policy = make(tuning=AT_ONCE)
    play(policy, 3)
    oracle = policy.oracle
    for better in (1, 0, 1):
        scores = {id(sampler): float(k == better) for k, sampler in enumerate(oracle.samplers)}
        monkeypatch.setattr(Sampler, "log_scores", lambda self, *_, scores=scores: np.array([scores[id(self)]]))
        for cell in np.ndindex(5, 3, 2):
            oracle.observe((cell[0], cell[1], cell[2]), 1.0, 1.0, tb.Ledger(SHAPE))
        assert oracle.chances[better] == oracle.chances.max() > 0.9
        assert oracle.chances.min() >= oracle.tuning.any_structure / len(oracle.samplers)
        assert oracle.chances.sum() == pytest.approx(1.0)


def test_evidence_counts_what_is_new_of_a_cell(monkeypatch):
    """One reward after 99 counts about 1 / 100, and a batch what its rewards count one by one."""
    policy = make(tuning=AT_ONCE | {"farthest": 1e9, "forget": 1e-300})
    play(policy, 3)
    first, second, *_ = policy.oracle.samplers
    monkeypatch.setattr(Sampler, "log_scores", lambda self, cells, counts, *_: -counts * (self is second))

    def lost(batches):
        first.score = second.score = 0.0
        ledger = tb.Ledger(SHAPE)
        for count in batches:
            ledger.merge(tb.Ledger.of(SHAPE, [(0, 0, 0)], [count], [count], [count]))
            policy.oracle.observe((0, 0, 0), count, count, ledger)
        return first.score - second.score

    some = USUAL.news
    assert lost([1.0] * 100) - lost([1.0] * 99) == pytest.approx(some / (some + 99.5), rel=0.01)
    assert lost([1.0] * 100) == pytest.approx(lost([100.0])) == pytest.approx(some * np.log1p(100 / some))
    assert 0.9 < lost([1.0]) < 1.0


def test_telling_many_counts_as_much_evidence_as_telling_one_by_one():
    policies = [make(context=(), tuning=AT_ONCE), make(context=(), tuning=AT_ONCE)]
    for policy in policies:
        for reward in (0.0, 1.0, 0.0, 1.0):
            policy.tell(policy.ask(), reward)
    for _ in range(60):
        policies[0].tell((1, 1, 1), 1.0)
    policies[1].tell_many([(1, 1, 1)] * 60, [1.0] * 60)
    scores = [[sampler.score for sampler in policy.oracle.samplers] for policy in policies]
    np.testing.assert_allclose(scores[0], scores[1])
    assert len(set(scores[0])) > 1


def test_rewards_count_once_until_there_are_some_for_each_number():
    policy = tb.TensorThompsonSampling(SHAPE, 2, seed=0)
    numbers = policy.oracle.samplers[0].numbers
    ledger, weights = tb.Ledger(SHAPE), []
    for _ in range(20 * numbers):
        ledger.record((0, 0, 0), 1.0)
        weights.append(policy.oracle._weight(policy.oracle.samplers[0], ledger))
    assert set(weights[: 4 * numbers]) == {1.0}
    assert np.all(np.diff(weights) >= 0)
    assert set(weights[8 * numbers :]) == {2.0}
    policy.oracle.exploration = 3.0
    assert policy.oracle._weight(policy.oracle.samplers[0], ledger) == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("arguments", "weight"),
    [
        ({}, 2.0),
        ({"reward": "count"}, 2.0),
        ({"reward": "bernoulli"}, 10.0),
        ({"reward": "binomial"}, 10.0),
        ({"reward": "bernoulli", "exploration": 0.25}, 4.0),
    ],
)
def test_clicks_are_explored_less_unless_said_otherwise(arguments, weight):
    policy = tb.TensorThompsonSampling(SHAPE, 2, seed=0, **arguments)
    ledger = tb.Ledger(SHAPE)
    ledger.add([(0, 0, 0)], [50_000.0], [100_000.0])
    assert policy.oracle._weight(policy.oracle.samplers[0], ledger) == pytest.approx(weight)
    again = tb.TensorThompsonSampling.from_state_dict(policy.state_dict())
    assert (again.exploration, again.oracle.exploration) == (arguments.get("exploration"), 1 / weight)


def test_main_effects_are_outgrown_when_there_are_plenty_of_rewards():
    """Then the third structure is affine, also after it was saved and has grown; on fewer rewards it is not."""
    rng = np.random.default_rng(0)
    policy = tb.TensorThompsonSampling((4, 3), seed=0)
    later = policy.oracle.samplers[-1].candidate.later
    kinds = []
    for share in (0.5, 0.6):
        rounds = int(share * USUAL.plenty * later.numbers((4, 3)))
        cells = np.stack([rng.integers(p, size=rounds) for p in (4, 3)], axis=1)
        policy.tell_many(cells, (cells == 1).sum(axis=1) + rng.standard_normal(rounds))
        policy.ask()
        policy.ask()
        kinds.append(policy.oracle.samplers[-1].chain.structure)
    assert kinds == ["additive", "affine"]
    again = tb.Policy.from_state_dict(policy.state_dict())
    for one in (policy, again):
        one.grow(0)
    assert [policy.ask() for _ in range(5)] == [again.ask() for _ in range(5)]
    assert again.oracle.samplers[-1].chain.structure == "affine"
    assert again.oracle.samplers[-1].chain.model.shape == (5, 3)


def test_rare_clicks_are_swept_for_in_bundles():
    """Of 1 click in 50 rewards, five say as much as one normal reward; of heads and tails each does."""
    for rate, worth in ((0.02, 5.0), (0.5, 1.0)):
        policy = tb.TensorThompsonSampling((3, 3), 1, reward="bernoulli", seed=0)
        cells = np.argwhere(np.ones((3, 3)))
        counts = np.full(9, 1000.0)
        totals = counts * rate
        policy.tell_ledger(tb.Ledger.of((3, 3), cells, counts, totals, totals))
        policy.ask()
        assert policy.oracle.worth == pytest.approx(worth, rel=0.05)


def test_evidence_prefers_the_rank_of_the_data():
    rng = np.random.default_rng(0)
    factors = [np.linalg.qr(rng.standard_normal((6, 3)))[0] for _ in range(2)]
    mean = 10.0 * factors[0] @ factors[1].T
    policy = tb.TensorThompsonSampling((6, 6), seed=0)
    for _ in range(250):
        policy.ask()
        cell = tuple(rng.integers(6, size=2).tolist())
        policy.tell(cell, mean[cell] + 0.1 * rng.standard_normal())
    assert [sampler.candidate.rank for sampler in policy.oracle.samplers] == [(2, 2), (3, 3), (1, 1)]
    assert policy.oracle.chances[1] > 0.9


@pytest.mark.parametrize("residual", [False, True])
def test_evidence_stays_finite_whatever_the_rewards(residual):
    policy = make(residual=residual, context=())
    for reward in [*[1e-40] * 3, 2e-40, 1e-40, 1e40, -1e40, 0.0, 1.0]:
        policy.tell(policy.ask(), reward)
    assert np.isfinite([sampler.score for sampler in policy.oracle.samplers]).all()
    assert tb.Policy.from_state_dict(policy.state_dict()).ask() == policy.ask()


@pytest.mark.parametrize("residual", [False, True])
def test_decisions_differ_though_rewards_are_many_and_no_more_come(residual):
    """Two cells of four are equal, as far as 40,000 rewards can tell; each is best in about half of all draws."""
    policy = tb.TensorThompsonSampling((2, 2), 1, residual=residual, seed=0)
    counts = np.full(4, 10_000.0)
    totals = counts * [1.0, 0.0, 0.0, 1.0]
    cells = np.argwhere(np.ones((2, 2)))
    policy.tell_ledger(tb.Ledger.of((2, 2), cells, counts, totals, totals + counts))
    asked = [policy.ask() for _ in range(400)]
    assert {(0, 0), (1, 1)} == set(asked) == set(policy.ask_many(400))
    least = 0.0 if residual else 0.1  # where cells deviate, the last draw is mostly played again
    assert least < policy.propensity((0, 0)) < 1.0 - least


@pytest.mark.parametrize("reward", ["gaussian", "bernoulli", "count"])
def test_cells_deviate_from_a_tensor_of_too_low_a_rank_as_soon_as_that_is_sure(reward):
    """Of a tensor of full rank it is seen from some rewards of each cell on; of one that is right, never."""
    rng = np.random.default_rng(2)
    cells = np.argwhere(np.ones((3, 3, 3)))
    wrong = 2.0 * rng.standard_normal((3, 3, 3)) - 1.0
    right = np.multiply.outer(np.multiply.outer([1.0, 2.0, 1.5], [0.5, 1.0, -1.0]), [1.0, -0.5, 1.0]) - 1.0
    for mean, deviates in ((wrong, True), (right, False)):
        policy = tb.TensorThompsonSampling((3, 3, 3), 1, reward=reward, seed=0, draws=20)
        for each in (1, 200):
            told = np.repeat(cells, each, axis=0)
            x = mean[tuple(told.T)]
            drawn = {
                "gaussian": lambda x: x + 0.3 * rng.standard_normal(len(x)),
                "bernoulli": lambda x: rng.random(len(x)) < 1 / (1 + np.exp(-x)),
                "count": lambda x: rng.poisson(np.exp(x)),
            }
            policy.tell_many(told, drawn[reward](x).astype(float))
            policy.ask()
        sampler = policy.oracle.samplers[0]
        assert sampler.deviates == deviates
        assert all(chain.residual is not None for chain in sampler.ladder.chains) == deviates


def test_with_deviations_every_cell_is_known_as_its_rewards_say():
    rng = np.random.default_rng(2)
    mean = 2.0 * rng.standard_normal((3, 3, 3))
    cells = np.argwhere(np.ones((3, 3, 3)))
    errors = {}
    for residual in (None, False):
        policy = tb.TensorThompsonSampling((3, 3, 3), 1, residual=residual, seed=0, draws=20)
        told = np.repeat(cells, 60, axis=0)
        policy.tell_many(told, mean[tuple(told.T)] + 0.3 * rng.standard_normal(len(told)))
        policy.ask()
        errors[residual] = np.abs(policy.estimate(cells) - mean.ravel()).max()
    assert errors[None] < 0.3 < 1.0 < errors[False]


@pytest.mark.parametrize("settings", [{}, {"structure": "additive"}, {"rank": 1, "residual": True}])
def test_with_many_rewards_every_cell_is_tried_and_a_better_one_is_found(settings):
    mean = np.add.outer(np.arange(4.0), np.arange(4.0)) / 2.0
    mean[0, 0] = 4.0  # where main effects say the least; the best of the others is 3
    policy = tb.TensorThompsonSampling((4, 4), seed=0, **settings)
    counts = np.full(16, 250)
    counts[0] = 0
    cells = np.repeat(np.argwhere(mean > -1), counts, axis=0)
    policy.tell_many(cells, mean[tuple(cells.T)] + np.random.default_rng(0).standard_normal(len(cells)) / 2)
    played = []
    for _ in range(2_000):
        played.append(policy.ask())
        policy.tell(played[-1], mean[played[-1]])
    assert played[-100:].count((0, 0)) > 90


@pytest.mark.parametrize(("size", "each"), [(400, True), (5, False)])
def test_draws_are_recalled_only_when_there_are_some_rewards_for_each_number(size, each):
    policy, rng = tb.TensorThompsonSampling((size,) * 3, 2, seed=0), np.random.default_rng(0)
    policy.tell_many(rng.integers(size, size=(9_000, 3)), rng.standard_normal(9_000))
    swept = []
    for _ in range(40):
        cell = policy.ask()
        swept.append(policy.oracle.seen == policy.ledger.rounds)
        policy.tell(cell, 0.0)
    assert all(swept) == each


@pytest.mark.parametrize("residual", [None, False])
def test_draws_for_cells_that_were_hardly_tried_are_played_but_not_believed(residual):
    policy = tb.TensorThompsonSampling((3, 3), 1, residual=residual, draws=2_000, seed=0)
    cells = np.argwhere(np.ones((3, 3)))[:-1]
    for rewards in (100, 140):  # per cell but for the last: with 214 each cell must have one, with 426 two
        policy.tell_many(np.repeat(cells, rewards, axis=0), np.ones(len(cells) * rewards))
    policy.ask()
    assert not any(isinstance(draw, Trying) for draw in policy._posterior_draws())
    tries = _tries(policy)
    if residual is False:
        assert not tries
        return
    assert sum(chance for chance, _ in tries) == pytest.approx(1 / 200)
    for _, draw in tries:
        assert draw.few.tolist() == [[2, 2]]
        assert draw.best(np.array([-1, -1])) == (2, 2)
        assert draw.best(np.array([0, -1]))[0] == 0
        assert draw.best(np.array([-1, -1]), Allowed.of({0: [0, 1]}, (3, 3))) != (2, 2)
    policy.tell((2, 2), 1.0)
    policy.tell_many(np.repeat(cells, 240, axis=0), np.ones(len(cells) * 240))
    policy.ask()
    assert _tries(policy)[0][1].few.tolist() == [[2, 2]]


def _tries(policy):
    """What the next decision may be made from to try a cell, with its probability."""
    law = policy.oracle.law(policy.ledger, np.random.default_rng(0), 64)
    return [(chance, draw) for chance, draw in law if isinstance(draw, Trying)]


def test_wrong_residuals_and_ranks_are_named():
    for wrong in (1, 0.0, "auto"):
        with pytest.raises(TypeError, match=f"residual is {wrong!r}; give True, False, or None"):
            make(residual=wrong)
    with pytest.raises(ValueError, match=r'rank is 2; structure "additive" has main effects only: give "auto"'):
        make(rank=2, structure="additive")
    with pytest.raises(
        ValueError, match="the rank of mode 2 is 3; beside a constant column its 3 levels allow at most 2"
    ):
        make(rank=(2, 2, 3), structure="affine")
    assert make(rank=1, structure="additive").oracle.samplers[0].candidate == Candidate("additive", (1, 1, 1))


@pytest.mark.parametrize("structure", ["tucker", "affine", "additive"])
def test_the_values_of_recent_draws_are_those_of_their_models(structure):
    rng = np.random.default_rng(0)
    chains = [Chain.from_prior(SHAPE, (2, 1, 2), Units(3.0, 2.0), rng, structure=structure) for _ in range(3)]
    lines = np.array([np.concatenate([one.model.rows, one.model.core, [one.model.offset]]) for one in chains])
    cells = rng.integers(SHAPE, size=(10, 3))
    expected = np.array([one.model.at(cells) for one in chains]).T
    np.testing.assert_allclose(values_of_lines(lines, chains[0].model.dims, cells), expected)


def test_clicks_of_a_billion_cells():
    policy = tb.TensorThompsonSampling((1000,) * 3, 2, reward="bernoulli", seed=0)
    for reward in (0, 1, 0):
        policy.tell(policy.ask(), reward)
    assert policy.ledger.rounds == 3


def test_cells_deviate_only_when_there_is_enough_to_know_of_each():
    """200 clicks of 200,000 trials of one cell say nothing of 59 others."""
    policy = tb.TensorThompsonSampling(SHAPE, 1, reward="binomial", seed=0)
    policy.tell((0, 0, 0), 200, trials=200_000)
    for _ in range(3):
        policy.ask()
    assert not policy.oracle.samplers[0].deviates


def test_numpy_ranks_are_lowered_as_others_are():
    ours = [tb.TensorThompsonSampling((2, 5), rank, structure="affine") for rank in (2, np.int64(2))]
    assert ours[0].oracle.samplers[0].candidate == ours[1].oracle.samplers[0].candidate


@pytest.mark.parametrize("name", ["reward", "structure"])
def test_words_are_words(name):
    for wrong in (np.array(["gaussian"]), np.array(["affine", "tucker"]), 3):
        with pytest.raises(ValueError, match=f"{name} is"):
            make(**{name: wrong})


def test_what_is_corrected_is_learned_also_when_there_are_many_rewards():
    """Decisions between sweeps recall earlier draws, but not for ever those from before a correction."""
    rng = np.random.default_rng(0)
    policy = tb.TensorThompsonSampling((4, 4), 1, seed=0, residual=False)
    ledger = tb.Ledger((4, 4))
    ledger.add(rng.integers(4, size=(20_000, 2)), 0.1 * rng.standard_normal(20_000))
    policy.tell_ledger(ledger)
    policy.tell_many([(2, 3)] * 200, [50.0] * 200)
    assert {policy.ask() for _ in range(20)} == {(2, 3)}
    for _ in range(200):
        policy.correct((2, 3), 50.0, -50.0)
    again = tb.Policy.from_state_dict(policy.state_dict())
    assert [again.ask() for _ in range(20)] == [policy.ask() for _ in range(20)]
    assert (2, 3) not in {policy.ask() for _ in range(50)}


def test_an_affine_core_that_is_slow_is_warned_of_like_any_other():
    with pytest.warns(UserWarning, match="729 entries"):
        tb.TensorThompsonSampling((12, 12, 12), 8, structure="affine")


def test_a_decay_that_leaves_no_columns_is_refused():
    with pytest.raises(ValueError, match=r"decay is 1e-100; it must be from 0\.001 to 1"):
        tb.TensorThompsonSampling((5, 5), 3, decay=1e-100)


def test_a_rank_that_is_an_array_is_shown():
    assert "rank=array([2, 2])" in repr(tb.TensorThompsonSampling((3, 3), np.array([2, 2])))


def test_constants_are_changed_by_name_and_kept_in_files():
    policy = make(tuning={"settled": 100, "any_structure": 0.5}, context=())
    assert policy.oracle.tuning.settled == policy.oracle.samplers[0].tuning.settled == 100.0
    again = tb.Policy.from_state_dict(policy.state_dict())
    assert again.oracle.tuning == policy.oracle.tuning != USUAL
    assert min(again.oracle.chances) >= 0.5 / 3


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"setled": 100}, "tuning names 'setled'; the constants are temperature, "),
        ({"settled": 0}, "settled"),
        ({"any_structure": 2}, "any_structure is 2.0; it is a share"),
        ({"obsolete": 1}, "obsolete is 1.0; it must be above 1"),
        ({"guard": 1.5}, "guard is 1.5; it is a share"),
    ],
)
def test_wrong_constants_are_named(wrong, match):
    with pytest.raises(ValueError, match=match):
        make(tuning=wrong)
    with pytest.raises(TypeError, match="give constants by name"):
        make(tuning=0.5)


def test_a_state_of_pairs_that_had_fewer_complete_modes_goes_on_as_it_was(monkeypatch):
    """More numbers are drawn together now where no rank is told; what was saved before has the columns of then."""
    shape, make = (11, 10, 9, 8), lambda: tb.TensorThompsonSampling((11, 10, 9, 8), structure="pairs", seed=0)
    with monkeypatch.context() as then:
        then.setattr(structures, "usual_columns", columns_once)
        policy = make()
        for reward in (0.0, 1.0, 2.0):
            policy.tell(policy.ask(), reward)
    again = tb.Policy.from_state_dict(policy.state_dict())
    assert again.oracle.samplers[0].candidate.rank == columns_once(shape) != make().oracle.samplers[0].candidate.rank
    assert [again.ask() for _ in range(3)] == [policy.ask() for _ in range(3)]
    assert again.state_dict()["state"]["oracle"]["samplers"]["0"]["chain"].keys()
    third = tb.Policy.from_state_dict(again.state_dict())
    assert third.ask() == again.ask()


@pytest.mark.parametrize("exploration", [0.5, 1.0])
def test_chains_find_what_a_log_says_and_stay_at_no_lesser_mode(exploration):
    """One cell is above all others: after so many rewards no chain would leave another mode of the posterior."""
    found = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        policy = tb.TensorThompsonSampling(
            (2, 3, 2), 1, context=(0,), residual=False, exploration=exploration, seed=seed
        )
        log = tb.Ledger(policy.shape)
        cells = rng.integers(policy.shape, size=(400_000, 3))
        log.add(cells, (cells == 0).all(axis=1) + rng.standard_normal(len(cells)))
        policy.tell_ledger(log)
        for _ in range(20):
            policy.ask((0,))
        found += [draw.at(np.zeros((1, 3), dtype=np.int64)).item() for draw in policy.fresh_draws(8)]
    np.testing.assert_allclose(found, 1.0, atol=0.1)

"""The law that decisions are drawn by: what is logged is what was used."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chisquare

import tensorbandits as tb
from tensorbandits.bandit.draws import Draws
from tensorbandits.bandit.law import Group, RequestLaw, Spread
from tensorbandits.bandit.learner import Learner
from tensorbandits.bandit.shares import Share, Shares
from tensorbandits.model.sweep import Model
from tensorbandits.policies.approximate import best_of
from tensorbandits.tensor import Allowed

SHAPE = (20, 4, 3)


@pytest.fixture(scope="module")
def policy():
    made = tb.TensorThompsonSampling(SHAPE, rank=2, context=(0,), seed=0)
    rng = np.random.default_rng(1)
    cells = np.stack([rng.integers(size, size=60) for size in SHAPE], axis=1)
    made.tell_many(cells, rng.standard_normal(60))
    return made


@pytest.fixture(scope="module")
def ring(policy):
    return Draws(16).joined(policy.fresh_draws(16), SHAPE)


def law(request, ring):
    """The probability of every arm."""
    context = request.query.levels[0]
    arms = [(context, i, j) for i, j in itertools.product(range(4), range(3))]
    return {arm: request.probability(ring, arm) for arm in arms}


SHARES = {
    "nothing else": Shares(),
    "an even floor": Shares(floors=(Share({}, 0.12),)),
    "floors on a level and an arm": Shares(floors=(Share({2: 1}, 0.1), Share({1: 3, 2: 0}, 0.05))),
    "a holdout": Shares(holdout=0.2),
    "a holdout of one arm": Shares(holdout=0.2, baseline=(Share({1: 0, 2: 0}, 1.0),)),
    "a former policy": Shares(holdout=0.3, baseline=(Share({1: 0}, 0.7), Share({1: 1, 2: 2}, 0.3))),
    "floors and a holdout": Shares(floors=(Share({2: 1}, 0.1),), holdout=0.1),
    "a ceiling": Shares(ceilings=(Share({2: 1}, 0.1),)),
    "everything": Shares((Share({}, 0.1),), (Share({2: 1}, 0.1), Share({1: 0}, 0.2)), (Share({}, 1.0),), 0.1),
}


@pytest.mark.parametrize("rule", [None, {1: 2, 2: 1}, {2: 2}], ids=["all allowed", "a combination", "a level"])
@pytest.mark.parametrize("shares", SHARES.values(), ids=SHARES)
def test_probabilities_add_up_to_one_and_floors_and_ceilings_hold(policy, ring, shares, rule):
    allowed = None if rule is None else Allowed.of(Allowed(forbidden=[rule]), SHAPE)
    for context in range(0, 20, 5):
        request = RequestLaw(policy.query((context,), allowed), shares)
        p = law(request, ring)
        assert math.isclose(math.fsum(p.values()), 1.0)
        if rule is not None:
            assert not any(p[arm] for arm in p if all(arm[mode] == level for mode, level in rule.items()))
        for levels, share in shares.floors:
            inside = [arm for arm in p if all(arm[mode] == level for mode, level in levels.items())]
            kept = [arm for arm in inside if allowed is None or allowed.permits(arm)]
            least = share * (1.0 - shares.holdout)
            assert not kept or sum(p[arm] for arm in kept) >= least - 1e-12
            assert all(p[arm] >= least / len(kept) - 1e-12 for arm in kept)
        for levels, share in shares.ceilings:
            assert sum(p[arm] for arm in p if all(arm[m] == level for m, level in levels.items())) <= share + 1e-12


@pytest.mark.parametrize("name", ["floors and a holdout", "a former policy", "everything"])
def test_observed_frequencies_agree_with_the_logged_ones(policy, ring, name):
    """Over 20 contexts; a p-value below one in ten thousand would say that they do not."""
    rng, values = np.random.default_rng(2), []
    for context in range(20):
        request = RequestLaw(policy.query((context,)), SHARES[name])
        p = law(request, ring)
        counts = dict.fromkeys(p, 0)
        for _ in range(1000):
            drawn = request.draw(ring, rng)
            counts[drawn.cell] += 1
            assert drawn.propensity == pytest.approx(p[drawn.cell], abs=1e-12)
        likely = [arm for arm in p if p[arm] * 1000 >= 5]
        rest = [sum(what[arm] for arm in p if arm not in likely) for what in (counts, p)]
        observed, expected = (
            [counts[arm] for arm in likely] + rest[:1],
            [1000 * p[arm] for arm in likely] + [1000 * rest[1]],
        )
        if expected[-1] < 1e-9:
            assert observed.pop() == 0
            expected.pop()
        values.append(chisquare(observed, np.array(expected) * (sum(observed) / sum(expected))).pvalue)
    assert min(values) > 1e-4 / 20
    assert np.mean(values) > 0.2  # nor are they all a little off


def test_a_group_draws_every_allowed_arm_alike_also_where_few_are_allowed():
    forbidden = [{1: i, 2: j} for i, j in itertools.product(range(40), range(40)) if i != j]
    allowed = Allowed.of(Allowed(forbidden=forbidden), (2, 40, 40))
    query = tb.VectorizedUCB((2, 40, 40), context=(0,)).query((1,), allowed)
    group = Group.of(query, {})
    assert group.count == 40
    rng = np.random.default_rng(0)
    drawn = [group.draw(rng) for _ in range(800)]
    assert all(cell in group and cell[1] == cell[2] for cell in drawn)
    assert chisquare(np.bincount([cell[1] for cell in drawn], minlength=40)).pvalue > 1e-4
    assert Group.of(query, {1: 3, 2: 4}) is None
    assert Group.of(query, {0: 0}) is None
    assert (1, 3, 4) not in group


def test_shares_of_arms_that_are_not_allowed_fall_to_the_others():
    query = tb.VectorizedUCB((4, 3)).query((), {0: [1, 2]})
    floors = Spread(query, [Share({0: 0}, 0.2), Share({0: 1}, 0.1)])
    assert floors.total == pytest.approx(0.1)
    baseline = Spread(query, [Share({0: 0}, 0.5), Share({0: 1}, 0.5)], whole=True)
    assert baseline.total == 1.0
    assert baseline.probability((1, 0)) == pytest.approx(1 / 3)
    bare = RequestLaw(query, Shares(holdout=0.5, baseline=(Share({0: 0}, 1.0),)))
    assert bare.holdout == 0.0


def test_too_many_arms_to_count_are_refused():
    allowed = Allowed.of(Allowed(forbidden=[{0: 1, 1: 1}]), (2000, 2000))
    query = tb.TensorThompsonSampling((2000, 2000), rank=1).query((), allowed)
    with pytest.raises(ValueError, match=r"spread over 4e\+06 arms.*give the share to fewer"):
        RequestLaw(query, Shares(floors=(Share({}, 0.1),)))
    assert RequestLaw(query, Shares(floors=(Share({0: 1}, 0.1),))).floors.parts[0][1].count == 1999


def test_a_ceiling_yields_where_nothing_else_is_allowed(policy, ring):
    request = RequestLaw(policy.query((0,), {2: [1]}), Shares(ceilings=(Share({2: 1}, 0.1),)))
    assert sum(law(request, ring).values()) == pytest.approx(1.0)
    assert request.draw(ring, np.random.default_rng(0)).cell[2] == 1


def test_a_learner_keeps_the_last_draws_and_leaves_those_behind_that_know_too_little():
    policy = tb.TensorThompsonSampling((3, 4), rank=1, seed=0)
    learner, numbers = Learner(policy, 4, lambda draws, ahead: None), []
    for _ in range(3):
        learner.refresh(wait=True)
        numbers.append(learner.draws.numbers)
    assert numbers == [(0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5)]
    policy.tell_many([(0, 0)] * 50, np.ones(50))
    learner.refresh(wait=True)
    assert learner.draws.numbers == (6, 7, 8, 9)
    policy.grow(1)
    learner.refresh(wait=True, least=4)
    assert {draw.shape for _, draw in learner.draws.entries} == {(3, 5)}


def test_draws_of_before_a_level_came_are_widened_by_the_mean_of_the_others(policy, ring):
    wide = ring.widened((20, 5, 3))
    assert wide.shape == (20, 5, 3)
    assert max(wide.numbers) < 0  # which no draw to come has
    assert len(set(wide.numbers)) == len(ring.numbers)
    cells = np.array([(7, i, 2) for i in range(5)])
    for (_, draw), (_, before) in zip(wide.entries, ring.entries, strict=True):
        values, known = policy.mean_rewards(draw, cells), policy.mean_rewards(before, cells[:4])
        np.testing.assert_allclose(values[:4], known)
        np.testing.assert_allclose(values[4], known.mean())


def test_only_new_draws_are_searched(policy, ring, monkeypatch):
    searched, best = [], Draws.best
    monkeypatch.setattr(Draws, "best", lambda own, some, query: searched.append(len(some)) or best(own, some, query))
    request = RequestLaw(policy.query((3,)), Shares())
    own = Draws(8).joined([draw for _, draw in ring.entries[:8]], SHAPE)
    rng = np.random.default_rng(0)
    request.draw(own, rng)
    request.draw(own, rng)
    assert searched == [8]
    request.draw(own.joined([ring.entries[9][1]], SHAPE), rng)
    assert searched == [8, 1]


@pytest.mark.parametrize(
    ("name", "known"), [("ucb", True), ("estr", True), ("elimination", False), ("epoch-greedy", False)]
)
def test_policies_that_do_not_sample_say_what_they_know(name, known):
    space = tb.Space({"a": list("xyz"), "b": list("uvw")})
    settings = {"horizon": 200} if name in ("elimination", "estr") else {}
    plain = tb.Bandit(space, name, seed=0, **settings)
    assert [plain.ask().propensity for _ in range(5)] == [1.0 if known else None] * 5
    mixed = tb.Bandit(space, name, floors=0.9, holdout=0.1, seed=0, **settings)
    decisions = [mixed.ask() for _ in range(200)]
    assert {decision.by for decision in decisions} == {"policy", "floor", "holdout"}
    if not known:
        assert {decision.propensity for decision in decisions} == {None}
        return
    low, high = 0.1 / 9 + 0.9 * 0.9 / 9, 0.1 / 9 + 0.9 * (0.9 / 9 + 0.1)
    assert {round(decision.propensity, 12) for decision in decisions} == {round(low, 12), round(high, 12)}
    assert all(decision.propensity > 0.15 for decision in decisions if decision.by == "policy")


def test_the_best_of_all_draws_are_those_of_each(policy, ring):
    """Of several ranks, of cells that deviate, and of arrays; where all is allowed, and where not."""
    auto = tb.TensorThompsonSampling(SHAPE, context=(0,), seed=0)
    auto.tell_many([(0, 0, 0), (1, 2, 1)] * 40, [0.0, 1.0] * 40)
    single = tb.TensorThompsonSampling(SHAPE, 2, context=(0,), residual=True, seed=0)
    single.tell_many([(0, 0, 0), (1, 2, 1)] * 40, [0.0, 1.0] * 40)
    draws = [*(draw for _, draw in ring.entries), *auto.fresh_draws(40, wait=True), *single.fresh_draws(3, wait=True)]
    draws.append(np.random.default_rng(0).standard_normal(SHAPE))
    assert len({draw.rank for draw in draws if isinstance(draw, Model)}) > 1
    for size in (len(draws), 20):
        full = Draws(size)
        for some in (draws[:30], draws[30:]):
            full = full.joined(some, SHAPE)
        for allowed in (None, {1: [0, 2]}, Allowed(forbidden=[{1: 2, 2: 1}])):
            query = policy.query((3,), allowed)
            for count in (1, 2, size // 2, size):
                expected = [best_of(draw, query) for draw in draws[-count:]]
                assert full.best(full.numbers[-count:], query) == expected


@pytest.mark.parametrize("arguments", [{"rank": 2}, {}], ids=["told a rank", "told nothing"])
def test_the_law_of_a_request_that_comes_again_is_that_of_a_new_one(arguments):
    """However many draws came between, of one rank or of several."""
    policy, rng = tb.TensorThompsonSampling(SHAPE, context=(0,), seed=0, **arguments), np.random.default_rng(0)
    learner = Learner(policy, 6, lambda draws, ahead: None)
    requests = [RequestLaw(policy.query((context,)), Shares()) for context in range(5)]
    for _ in range(150):
        learner.refresh(wait=True, least=int(rng.integers(1, 4)))
        context = int(rng.integers(5))
        drawn = [best_of(draw, requests[context].query) for _, draw in learner.draws.entries]
        assert requests[context].law(learner.draws) == pytest.approx({cell: drawn.count(cell) / 6 for cell in drawn})
        policy.tell(drawn[-1], rng.standard_normal())


@pytest.mark.parametrize("masked", [0, 10**6])
@pytest.mark.parametrize("partial", [{}, {1: 2}, {1: 2, 2: 1}, {1: 0, 2: 0}, {2: 3}])
def test_arms_that_rules_forbid_by_combination_are_counted_as_one_by_one(
    masked: int, partial: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tensorbandits.bandit.law._MASKED", masked)
    forbidden = [{1: 2, 2: 1}, {0: 1, 2: 3}, {0: 0, 1: 3}, {1: 1}]
    policy = tb.VectorizedUCB((3, 5, 4), context=(0,))
    for level in range(3):
        query = policy.query((level,), tb.Allowed({1: [0, 1, 2, 3]}, forbidden=forbidden))
        group = Group.of(query, partial)
        cells = [(level, one, other) for one in range(5) for other in range(4)]
        cells = [cell for cell in cells if all(cell[mode] == at for mode, at in partial.items())]
        assert query.allowed is not None
        wanted = [cell for cell in cells if query.allowed.permits(cell)]
        if group is None:
            assert not wanted
            continue
        assert [group.arm(number) for number in range(group.count)] == wanted

"""Revenue: the ledger that keeps conversions and amounts, the posterior of both, and the search for the best cell."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import tensorbandits as tb
from tensorbandits.model import revenue_draw
from tensorbandits.model.residual import Deviating, Trying
from tensorbandits.model.revenue import LogAmounts, Revenue, revenue_of
from tensorbandits.model.revenue_draw import RevenueDraw
from tensorbandits.model.rewards import likelihood_of
from tensorbandits.model.sweep import Model
from tensorbandits.tensor.allowed import Allowed, NothingAllowedError

KINDS = {"revenue": tb.RevenueLedger, "revenue-signed": tb.SignedRevenueLedger}
SHAPE = (2, 3)


# The ledger.


class Rewards:
    """The same rewards one by one: cell, amount, weight."""

    def __init__(self, signed):
        self.signed, self.rows = signed, []

    def sums(self):
        """By cell: count, sum, squares; conversions; count, sum and squares of the sizes of amounts."""
        found = {}
        for cell, reward, weight in self.rows:
            row = found.setdefault(cell, np.zeros(7))
            row[:4] += weight * np.array([1.0, reward, reward**2, reward != 0])
            if reward:
                size = reward if self.signed else math.log(reward)
                row[4:] += weight * np.array([1.0, size, size**2])
        return found


def kept(ledger):
    """The same of a ledger, cells whose amounts are gone aside."""
    found = {}
    for cell, *sums in ledger:
        amounts = ledger.amounts[cell][1:]
        found[cell] = np.array(
            [*sums, ledger.conversions[cell].total, *(amounts if amounts[0] > 1e-9 else np.zeros(3))]
        )
        assert ledger.conversions[cell].rounds == pytest.approx(sums[0], rel=1e-9)
    return found


amounts = st.sampled_from([0.0, 0.0, 0.0, 1.0, 0.02, 30.0, 500.0])
steps = st.lists(
    st.tuples(
        st.sampled_from(["tell", "tell", "tell", "many", "amend", "fade", "merge", "file"]),
        st.integers(0, 1),
        st.integers(0, 2),
        amounts,
        st.booleans(),
    ),
    max_size=25,
)


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=150)
@given(steps=steps)
def test_the_ledger_keeps_the_sums_of_its_rewards(kind, steps):
    ledger, plain = KINDS[kind](SHAPE), Rewards(kind == "revenue-signed")
    for what, i, j, amount, minus in steps:
        reward, cell = (-amount if minus and plain.signed else amount), (i, j)
        if what == "tell":
            ledger.record(cell, reward)
            plain.rows.append((cell, reward, 1.0))
        elif what == "many":
            ledger.add([cell, (0, 0)], [reward, 2.0])
            plain.rows += [(cell, reward, 1.0), ((0, 0), 2.0, 1.0)]
        elif what == "fade":
            ledger.fade(0.75)
            plain.rows = [(c, r, 0.75 * w) for c, r, w in plain.rows]
        elif what == "merge":
            other = KINDS[kind](SHAPE)
            other.add([cell], [reward])
            ledger.merge(other)
            plain.rows.append((cell, reward, 1.0))
        elif what == "file":
            again = tb.Ledger.from_state(ledger.state())
            assert type(again) is type(ledger)
            assert again == ledger
            ledger = again.copy()
        elif plain.rows:
            at = (i + 2 * j) % len(plain.rows)
            c, old, weight = plain.rows[at]
            ledger.replace(c, old, reward, weight, known=True)
            plain.rows[at] = (c, reward, weight)
    expected, found = plain.sums(), kept(ledger)
    assert expected.keys() == found.keys()
    for cell, sums in expected.items():
        np.testing.assert_allclose(found[cell], sums, rtol=1e-6, atol=1e-6 * (1.0 + np.abs(sums).max()))
    assert ledger.amounts.rounds == pytest.approx(sum(sums[4] for sums in expected.values()), abs=1e-6)


def test_what_was_never_told_is_not_replaced_and_nothing_changes():
    ledger = tb.RevenueLedger(SHAPE)
    ledger.add([(0, 0), (0, 0), (1, 1)], [0.0, 4.0, 3.0])
    before = ledger.copy()
    for cell, old, new in (((0, 0), 2.0, 5.0), ((1, 1), 0.0, 1.0), ((0, 1), 0.0, 1.0), ((0, 0), -4.0, 4.0)):
        with pytest.raises(ValueError, match="holds no reward of"):
            ledger.replace(cell, old, new)
        assert ledger == before
    with pytest.raises(ValueError, match=r"reward 0 is -1; revenue is 0 or an amount above 0.*SignedRevenueLedger"):
        ledger.replace((0, 0), 4.0, -1.0)
    for call in (lambda: ledger.add((0, 0), -1.0), lambda: ledger.add([(0, 0), (0, 1)], [1.0, -1.0])):
        with pytest.raises(ValueError, match="revenue is 0 or an amount above 0"):
            call()
    assert ledger == before


def test_a_wrong_amount_that_is_taken_back_leaves_no_trace_in_the_units():
    ledger = tb.RevenueLedger(SHAPE)
    ledger.add([(0, 0), (0, 1), (1, 2)], [20.0, 30.0, 1e9])
    ledger.replace((1, 2), 1e9, 0.0)
    right = tb.RevenueLedger(SHAPE)
    right.add([(0, 0), (0, 1), (1, 2)], [20.0, 30.0, 0.0])
    assert ledger == right
    likelihood = LogAmounts(1.0, learned=True)
    found, wanted = (likelihood.units(one.amounts) for one in (ledger, right))
    assert found.centre == pytest.approx(wanted.centre)
    assert found.scale <= wanted.scale + 1e-9


def test_a_plain_ledger_is_taken_where_its_sums_say_it_all():
    plain, ledger = tb.Ledger(SHAPE), tb.RevenueLedger(SHAPE)
    plain.add([(0, 0), (0, 0), (0, 1), (0, 2), (0, 2)], [0.0, 0.0, 7.0, 3.0, 3.0])
    ledger.merge(plain)
    right = tb.RevenueLedger(SHAPE)
    right.add([(0, 0), (0, 0), (0, 1), (0, 2), (0, 2)], [0.0, 0.0, 7.0, 3.0, 3.0])
    assert ledger == right
    plain.add((0, 0), 5.0)
    with pytest.raises(ValueError, match=r"several rewards that differ.*RevenueLedger\.of_sums"):
        ledger.merge(plain)
    assert ledger == right
    with pytest.raises(TypeError, match=r"use RevenueLedger\.of_sums"):
        tb.RevenueLedger.of(SHAPE, [(0, 0)], [1], [1.0], [1.0])


def test_a_ledger_of_sums_is_that_of_its_rewards():
    rng = np.random.default_rng(0)
    rewards = np.where(rng.random(40) < 0.3, rng.lognormal(3.0, 0.8, 40), 0.0)
    logs = np.log(rewards[rewards > 0])
    sums = [40], [len(logs)], [rewards.sum()], [(rewards**2).sum()]
    for kind, more in ((tb.RevenueLedger, ([logs.sum()], [(logs**2).sum()])), (tb.SignedRevenueLedger, ())):
        one = kind(SHAPE)
        one.add([(1, 2)] * 40, rewards)
        assert kind.of_sums(SHAPE, [(1, 2)], *sums, *more) == one
    signed = tb.SignedRevenueLedger(SHAPE)
    signed.merge(tb.RevenueLedger.of_sums(SHAPE, [(1, 2)], *sums, [logs.sum()], [(logs**2).sum()]))
    assert signed == one
    with pytest.raises(ValueError, match="give log_totals"):
        tb.RevenueLedger.of_sums(SHAPE, [(1, 2)], *sums)
    with pytest.raises(ValueError, match="at most the counts"):
        tb.SignedRevenueLedger.of_sums(SHAPE, [(1, 2)], [3], [4], [5.0], [9.0])
    with pytest.raises(ValueError, match="no logarithms"):
        tb.SignedRevenueLedger.of_sums(SHAPE, [(1, 2)], *sums, [1.0], [1.0])


def test_damaged_parts_are_refused():
    ledger = tb.RevenueLedger(SHAPE)
    ledger.add([(0, 0), (0, 1)], [0.0, 4.0])
    other = tb.RevenueLedger(SHAPE)
    other.add([(0, 0), (1, 1)], [3.0, 4.0])
    state, theirs = ledger.state(), other.state()
    bad = [{"conversions": theirs["conversions"]}, {"amounts": theirs["amounts"]}, {"kind": "revenue-signed"}]
    for change in bad[:2]:
        with pytest.raises(ValueError, match="conversions and amounts are not those"):
            tb.Ledger.from_state(state | change)
    with pytest.raises(ValueError, match="not that of a RevenueLedger"):
        tb.RevenueLedger.from_state(state | bad[2])
    with pytest.raises(ValueError, match="not that of a RevenueLedger"):
        tb.RevenueLedger.from_state({name: part for name, part in state.items() if name != "amounts"})


# The kind.


def test_kinds_are_named_and_others_are_refused():
    assert revenue_of("count") is None
    for kind in KINDS:
        assert revenue_of(kind).name == kind
        with pytest.raises(ValueError, match=f"{kind}.*two tensors; use TensorThompsonSampling"):
            likelihood_of(kind)
        with pytest.raises(ValueError, match=r"noise is 1\.0, but revenue"):
            likelihood_of(kind, noise=1.0)


def test_mean_rewards_are_those_of_single_ones():
    rng = np.random.default_rng(0)
    x, m, variance = -1.0, 2.0, 0.6
    bought = rng.random(2_000_000) < 1 / (1 + np.exp(-x))
    for kind, drawn in (("revenue", np.exp), ("revenue-signed", np.asarray)):
        rewards = bought * drawn(m + np.sqrt(variance) * rng.standard_normal(len(bought)))
        found = Revenue(kind).means(np.array([x]), np.array([m]), variance).item()
        assert found == pytest.approx(rewards.mean(), rel=0.01)


# The posterior.


def importance(ledger, kind, cells, rewards, draws=800_000):
    """Draws of logs of mean rewards of 2 x 2 cells from the prior of rank 1, and their weights, by single rewards."""
    rng = np.random.default_rng(5)

    def values(units):
        core = units.scale * rng.standard_cauchy(draws)
        U, V = rng.standard_normal((2, draws, 2))
        offset = units.centre + units.scale * rng.standard_normal(draws)
        return offset[:, None, None] + core[:, None, None] * U[:, :, None] * V[:, None, :]

    units = kind.amounts.units(ledger.amounts)
    x, m = values(kind.rates.units(ledger.conversions)), values(units)
    variance = 2.0 * units.scale**2 / rng.gamma(4.0, size=draws)
    log_weights = np.zeros(draws)
    for (i, j), reward in zip(cells, rewards, strict=True):
        log_weights += -np.logaddexp(0.0, -x[:, i, j]) if reward else -np.logaddexp(0.0, x[:, i, j])
        if reward:
            log_weights += stats.norm.logpdf(np.log(reward), m[:, i, j], np.sqrt(variance))
    weights = np.exp(log_weights - log_weights.max())
    return -np.logaddexp(0.0, -x) + m + variance[:, None, None] / 2.0, weights / weights.sum()


def test_draws_are_those_of_the_posterior():
    """The law of mean rewards, and of which cell is best, beside importance sampling from the prior."""
    rng = np.random.default_rng(1)
    cells = rng.integers(2, size=(30, 2))
    rates, sizes = np.array([[0.3, 0.5], [0.2, 0.6]]), np.array([[2.0, 2.5], [2.2, 3.0]])
    at = tuple(cells.T)
    rewards = np.where(rng.random(30) < rates[at], np.exp(sizes[at] + 0.5 * rng.standard_normal(30)), 0.0)
    policy = tb.TensorThompsonSampling(
        (2, 2), rank=1, reward="revenue", exploration=1.0, residual=False, sweeps=4, draws=2000, seed=0
    )
    policy.tell_many(cells, rewards)
    exact, weights = importance(policy.ledger, Revenue("revenue"), cells, rewards)
    assert 1.0 / (weights**2).sum() > 500  # effective draws
    everywhere = np.argwhere(np.ones((2, 2)))
    found = np.log(policy.samples(everywhere)).reshape(-1, 2, 2)
    for i, j in everywhere:
        order = np.argsort(exact[:, i, j])
        cumulated = np.cumsum(weights[order])
        for share in (0.1, 0.5, 0.9):
            quantile = exact[order[np.searchsorted(cumulated, share)], i, j]
            assert (found[:, i, j] < quantile).mean() == pytest.approx(share, abs=0.05)
    best = np.bincount(exact.reshape(-1, 4).argmax(axis=1), weights, minlength=4)
    np.testing.assert_allclose(np.bincount(found.reshape(-1, 4).argmax(axis=1), minlength=4) / 2000, best, atol=0.05)


# The search.


def random_model(shape, rank, rng, scale=1.0, *, affine=False):
    rows = []
    for size in shape:
        U = rng.standard_normal((size, rank))
        if affine:
            U[:, 0] = 1.0
        rows.append(U.ravel())
    core = scale * rng.standard_normal(rank ** len(shape))
    return Model(shape, (rank,) * len(shape), np.concatenate(rows), core, float(rng.normal(-2.0)), affine=affine)


def random_draw(shape, rng, kind, *, deviating=False):
    models = [
        random_model(shape, int(rng.integers(1, 4)), rng, rng.choice([0.2, 1.0]), affine=rng.random() < 0.3)
        for _ in "ab"
    ]
    if deviating:
        for at, model in enumerate(models):
            cells = np.unique(rng.integers(shape, size=(4, len(shape))), axis=0)
            models[at] = Deviating(model, cells, rng.normal(0.0, 2.0, len(cells)))
    return RevenueDraw(Revenue(kind), *models, 0.5)


def random_request(shape, rng):
    fixed = np.array([rng.integers(size) if rng.random() < 0.3 else -1 for size in shape])
    levels = {
        j: np.flatnonzero(rng.random(size) < 0.7).tolist() or [0] for j, size in enumerate(shape) if rng.random() < 0.4
    }
    rules = [{j: int(rng.integers(shape[j])) for j in rng.choice(len(shape), 2, replace=False)} for _ in range(3)]
    return fixed, Allowed.of(Allowed(levels, rules), shape) if rng.random() < 0.7 else None


def brute_force(draw, fixed, allowed):
    """The largest mean reward of an allowed cell, looking at each by itself."""
    cells = [
        cell
        for cell in np.ndindex(draw.shape)
        if all(level in (-1, at) for level, at in zip(fixed.tolist(), cell, strict=True))
        and (allowed is None or allowed.permits(cell))
    ]
    if not cells:
        return None
    one, two = draw.tensor()
    x, m = one.full(), two.full()
    for model, values in ((draw.rates, x), (draw.amounts, m)):
        if isinstance(model, Deviating):
            values[tuple(model.cells.T)] = model.seen
    rates = 1 / (1 + np.exp(-x))
    means = rates * m if draw.kind.signed else rates * np.exp(m + draw.variance / 2)
    return max(means[cell] for cell in cells), means


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("many", [False, True], ids=["listed", "searched"])
def test_the_best_cell_is_that_of_brute_force(kind, many, monkeypatch):
    """Where arms are listed, and where they are said to be too many, by branch and bound."""
    if many:
        monkeypatch.setattr(revenue_draw, "LISTED", 0)
        monkeypatch.setattr(revenue_draw, "_LEAF", 3)
    rng = np.random.default_rng(7)
    for trial in range(300):
        shape = tuple(rng.integers(1, 6, size=int(rng.integers(2, 5))).tolist())
        draw = random_draw(shape, rng, kind, deviating=not many and trial % 3 == 0)
        fixed, allowed = random_request(shape, rng)
        wanted = brute_force(draw, fixed, allowed)
        if wanted is None:
            with pytest.raises(ValueError, match="allowed"):
                draw.search(fixed, allowed)
            continue
        found = draw.search(fixed, allowed)
        tolerance = 1e-7 * np.abs(wanted[1]).max()
        assert found.value == pytest.approx(wanted[0], rel=1e-7, abs=tolerance)
        assert wanted[1][found.cell] == pytest.approx(found.value, rel=1e-7, abs=tolerance)
        assert found.bound >= wanted[0] - tolerance
        assert draw.best(fixed, allowed) == found.cell
        assert allowed is None or allowed.permits(found.cell)


def test_a_search_that_is_not_closed_says_how_much_better_the_best_may_be(monkeypatch):
    monkeypatch.setattr(revenue_draw, "LISTED", 0)
    monkeypatch.setattr(revenue_draw, "_LEAF", 1)
    monkeypatch.setattr(revenue_draw, "_BOUNDS", 2)
    rng, open_ones = np.random.default_rng(8), 0
    for _ in range(60):
        draw = random_draw((6, 5, 4), rng, "revenue-signed")
        fixed = np.full(3, -1)
        found, (largest, means) = draw.search(fixed), brute_force(draw, fixed, None)
        assert found.value == pytest.approx(means[found.cell])
        assert found.value <= largest + 1e-9 * abs(largest)
        assert found.bound >= largest - 1e-9 * abs(largest)
        open_ones += found.bound > found.value
    assert open_ones


def test_a_billion_arms_of_rare_conversions_are_searched_exactly():
    """Rates of a few percent: the first cell closes the search; it is the best of random ones and of its neighbours."""
    rng = np.random.default_rng(9)
    shape = (1000, 1000, 1000)
    rates, sizes = (random_model(shape, 2, rng, 0.05) for _ in range(2))
    rates.offset, sizes.offset = -4.0, 3.0
    draw = RevenueDraw(Revenue("revenue"), rates, sizes, 0.6)
    found = draw.search(np.full(3, -1))
    assert found.bound <= found.value * (1 + 1e-6)
    others = rng.integers(1000, size=(200_000, 3))
    others[:3000] = found.cell
    others[np.arange(3000), np.repeat(np.arange(3), 1000)] = np.tile(np.arange(1000), 3)
    assert found.value >= draw.at(others).max() * (1 - 1e-9)


def test_a_cell_that_is_to_be_tried_comes_first():
    rng = np.random.default_rng(3)
    draw = random_draw((3, 4), rng, "revenue", deviating=True)
    trying = RevenueDraw(draw.kind, Trying(draw.rates, np.array([[2, 3], [0, 1]])), draw.amounts, 0.5)
    assert trying.best(np.array([-1, -1])) == (2, 3)
    assert trying.best(np.array([0, -1])) == (0, 1)
    assert trying.best(np.array([1, -1])) == draw.best(np.array([1, -1]))
    assert trying.best(np.array([-1, -1]), Allowed.of({0: [0, 1]}, (3, 4))) == (0, 1)


def test_nothing_allowed_is_refused():
    draw = random_draw((3, 4), np.random.default_rng(3), "revenue")
    with pytest.raises(NothingAllowedError, match="no cell is allowed"):
        draw.best(np.array([-1, -1]), Allowed.of(Allowed({0: [0], 1: [0, 1]}, [{0: 0, 1: 0}, {0: 0, 1: 1}]), (3, 4)))

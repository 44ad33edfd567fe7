"""Exact sums: the same bits in every order, however rewards are cut, added and taken off again."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorbandits as tb
from tensorbandits.lake import exact
from tensorbandits.lake.sums import CellSums

sizes = st.one_of(st.floats(1e-100, 1e100), st.floats(0.1, 10.0))
numbers = st.one_of(st.just(0.0), sizes, sizes.map(lambda value: -value))


def made(cells, rewards, counts=None, **more):
    counts = np.ones(len(rewards), dtype=np.int64) if counts is None else np.array(counts)
    return CellSums.of(np.array(cells).reshape(len(rewards), -1), np.array(rewards, dtype=float), counts, **more)


@given(st.lists(numbers, max_size=30), st.randoms())
def test_a_row_is_the_exact_sum_and_the_same_in_every_order(terms, random):
    row = exact.row_of(terms)
    assert sum(map(Fraction, row)) == sum(map(Fraction, terms))
    shuffled = list(terms)
    random.shuffle(shuffled)
    assert exact.row_of(shuffled) == row
    assert exact.row_of([*terms, *(-part for part in row)]) == []


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=20))
def test_products_lose_nothing(pairs):
    one, other = np.array(pairs).T
    parts = exact.products(one, other)
    for a, b, high, low in zip(one.tolist(), other.tolist(), *(part.tolist() for part in parts)):
        if abs(a * b) > 1e-290 or a * b == 0.0:  # what is smaller than the least float is lost
            assert Fraction(high) + Fraction(low) == Fraction(a) * Fraction(b)


rows = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), numbers, st.integers(1, 3)), max_size=25)


@given(rows, st.integers(0, 25), st.randoms())
def test_parts_add_up_to_the_whole_and_leave_no_trace(some, cut, random):
    def of(part):
        cells = [row[:2] for row in part]
        if not part:
            return CellSums.none(2)
        return made(cells, [row[2] for row in part], [row[3] for row in part])

    whole = of(some)
    shuffled = list(some)
    random.shuffle(shuffled)
    one, other = of(shuffled[:cut]), of(shuffled[cut:])
    assert of(shuffled) == whole == one.plus(other) == other.plus(one)
    assert whole.less(one) == other
    assert whole.less(whole) == CellSums.none(2)
    assert CellSums.from_state(whole.state()) == whole
    for cell, count, total, squares in zip(
        whole.cells.tolist(), whole.counts, whole.rows["totals"], whole.rows["squares"]
    ):
        its = [(reward, many) for a, b, reward, many in some if [a, b] == cell]
        assert count == sum(many for _, many in its)
        assert sum(map(Fraction, total)) == sum(Fraction(reward) * many for reward, many in its)
        assert sum(map(Fraction, squares)) == sum(Fraction(reward) ** 2 * many for reward, many in its)


def test_more_cannot_be_taken_off_than_there_is():
    with pytest.raises(ValueError, match="more rewards were taken off than there are"):
        made([[0]], [1.0]).less(made([[0]], [1.0], [2]))


def test_the_spread_of_rewards_far_from_0_is_not_lost():
    rewards = [1e9 + 0.25, 1e9, 1e9 - 0.25]
    ledger = made([[0], [0], [0]], rewards).ledger((1,))
    assert ledger.within.tolist() == [pytest.approx(0.125, rel=1e-12)]
    assert ledger[0,].total == math.fsum(rewards)


@pytest.mark.parametrize("kind", ["", "revenue", "revenue-signed"])
def test_a_ledger_is_that_of_telling_each_reward(kind):
    rng = np.random.default_rng(0)
    cells, rewards = rng.integers(0, 3, (200, 2)), np.where(rng.random(200) < 0.5, 0.0, rng.gamma(2.0, 7.0, 200))
    told = {"": tb.Ledger, "revenue": tb.RevenueLedger, "revenue-signed": tb.SignedRevenueLedger}[kind]((3, 3))
    told.add(cells, rewards)
    found = made(cells, rewards, logs=kind == "revenue").ledger((3, 3), kind)
    assert type(found) is type(told)
    for one, other in [(found, told)] + (
        [(found.conversions, told.conversions), (found.amounts, told.amounts)] if kind else []
    ):
        for part in ("counts", "totals", "squares", "within"):
            np.testing.assert_allclose(
                getattr(one, part)[one.order], getattr(other, part)[other.order], rtol=1e-9, atol=1e-9
            )


def test_cells_beyond_a_shape_are_left_out_and_counted():
    sums = made([[0, 1], [0, 7], [3, 0]], [1.0, 2.0, 3.0])
    inside, beyond = sums.inside((2, 2))
    assert (inside.cells.tolist(), beyond) == ([[0, 1]], 2)
    assert sums.inside((4, 8)) == (sums, 0)

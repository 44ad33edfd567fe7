import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorbandits import Ledger
from tensorbandits.ledger import by_sizes

SHAPE = (3, 2, 4)
rewards = st.floats(-100, 100).filter(lambda y: y == 0 or abs(y) >= 1e-100)
observations = st.lists(st.tuples(st.tuples(*(st.integers(0, p - 1) for p in SHAPE)), rewards), max_size=30)


def plain(pairs):
    """Count, sum and sum of squares per cell, the obvious way."""
    result = {}
    for cell, y in pairs:
        n, total, squares = result.get(cell, (0.0, 0.0, 0.0))
        result[cell] = (n + 1, total + y, squares + y * y)
    return result


def filled(pairs):
    ledger = Ledger(SHAPE)
    for cell, y in pairs:
        ledger.add(cell, y)
    return ledger


@given(observations)
def test_it_holds_counts_sums_and_squares(pairs):
    ledger = filled(pairs)
    assert {entry.cell: (entry.rounds, entry.total, entry.squares) for entry in ledger} == plain(pairs)
    assert ledger.rounds == len(pairs)


@given(observations)
def test_many_at_once_give_the_same_numbers_as_one_by_one(pairs):
    ledger = Ledger(SHAPE)
    ledger.add([cell for cell, _ in pairs], [y for _, y in pairs])
    assert ledger == filled(pairs)
    np.testing.assert_array_equal(ledger.cells, filled(pairs).cells)


@given(observations, observations)
def test_ledgers_add(one, two):
    merged = filled(one) + filled(two)
    expected = filled(one + two)
    assert set(entry.cell for entry in merged) == set(entry.cell for entry in expected)
    for entry in merged:
        np.testing.assert_allclose(entry[1:], expected[entry.cell][1:], rtol=1e-12, atol=1e-9)
    assert filled(one) == filled(one) + Ledger(SHAPE)


@given(observations)
def test_dense_is_the_same_as_sparse(pairs):
    N, Y, Q = filled(pairs).dense()
    for cell in np.ndindex(*SHAPE):
        assert (N[cell], Y[cell], Q[cell]) == plain(pairs).get(cell, (0.0, 0.0, 0.0))


@given(observations)
def test_moments_match_the_rewards(pairs):
    ledger, rewards = filled(pairs), [y for _, y in pairs]
    if rewards:
        np.testing.assert_allclose(ledger.mean, np.mean(rewards), atol=1e-9)
        np.testing.assert_allclose(ledger.variance, np.var(rewards), atol=1e-8)
    squares, freedom = ledger.repeats()
    groups = {}
    for cell, y in pairs:
        groups.setdefault(cell, []).append(y)
    np.testing.assert_allclose(squares, sum(np.var(g) * len(g) for g in groups.values()), atol=1e-7)
    assert freedom == sum(len(g) - 1 for g in groups.values())


@given(observations)
def test_save_and_load(tmp_path_factory, pairs):
    path = tmp_path_factory.mktemp("ledger") / "a.safetensors"
    filled(pairs).save(path)
    assert Ledger.load(path) == filled(pairs)


def test_loading_something_else_is_refused(tmp_path):
    from safetensors.numpy import save_file

    save_file({"x": np.zeros(3)}, tmp_path / "x.safetensors")
    with pytest.raises(ValueError, match="tensorbandits"):
        Ledger.load(tmp_path / "x.safetensors")


def test_a_huge_space_costs_nothing():
    ledger = Ledger((10**4,) * 3 + (10**9,) * 3)
    ledger.add((9999, 0, 1, 10**9 - 1, 5, 7), 2.0)
    assert len(ledger) == 1
    assert (ledger + ledger)[9999, 0, 1, 10**9 - 1, 5, 7].total == 4.0
    with pytest.raises(ValueError, match=r"too many for a full array.*\.cells"):
        ledger.dense()


def test_it_grows_in_amortised_constant_time():
    """Room doubles, so 5,000 new cells are copied a bounded number of times each, not once per addition."""
    ledger = Ledger((5000,))
    rooms = set()
    for i in range(5000):
        ledger.add((i,), 1.0)
        rooms.add(len(ledger._cells))
    assert len(rooms) <= 10
    assert sum(rooms) <= 4 * 5000


def test_an_empty_ledger_works():
    ledger = Ledger((2, 2))
    assert (len(ledger), ledger.rounds, ledger.mean, ledger.variance) == (0, 0.0, 0.0, 0.0)
    assert ledger.repeats() == (0.0, 0.0)
    assert ledger[0, 0].rounds == 0.0
    ledger.add(np.zeros((0, 2), dtype=int), [])
    assert list(ledger) == []


@pytest.mark.parametrize(
    ("cells", "rewards", "error", "match"),
    [
        ((0, 2), 1.0, ValueError, "mode 1 is 2, out of range; allowed are 0 to 1"),
        ((0,), 1.0, ValueError, "has 1 levels.*2 modes"),
        ((0, 0), float("nan"), ValueError, "nan"),
        ((0, 0), "x", TypeError, "not a number"),
        ([(0, 0), (0, 5)], [1.0, 2.0], ValueError, "row 1.*mode 1 is 5"),
        ([(0, 0), (0, 1)], [1.0], ValueError, "one reward per cell"),
        ([(0, 0), (0, 1)], [1.0, float("inf")], ValueError, "reward 1 is inf"),
        ([(0.5, 0.5)], [1.0], TypeError, "whole numbers"),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(cells, rewards, error, match):
    ledger = Ledger((2, 2))
    ledger.add((1, 1), 3.0)
    before = ledger.copy()
    with pytest.raises(error, match=match):
        ledger.add(cells, rewards)
    assert ledger == before


def test_ledgers_of_different_spaces_do_not_add():
    with pytest.raises(ValueError, match="share one space"):
        Ledger((2,)) + Ledger((3,))


@given(st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 4)), max_size=90), max_size=6))
def test_the_order_is_that_of_the_sorted_cells_however_they_came(batches):
    ledger = Ledger((3, 31, 5))
    for number, batch in enumerate(batches):
        if number % 2:
            for cell in batch:
                ledger.add(cell, 1.0)
        else:
            ledger.add(np.array(batch).reshape(-1, 3), np.ones(len(batch)))
        for other in (ledger, ledger.copy(), ledger + ledger, Ledger.from_state(ledger.state())):
            assert [tuple(cell) for cell in other.cells[other.order].tolist()] == sorted(entry.cell for entry in other)


def test_a_state_without_rewards_for_a_cell_is_refused():
    state = Ledger((2,)).state() | {"cells": [[1]], "sums": np.zeros((5, 1))}
    with pytest.raises(ValueError, match="not above 0"):
        Ledger.from_state(state)
    with pytest.raises(ValueError, match="not above 0"):
        Ledger.of((2,), [[1]], [0.0], [0.0], [0.0])


def test_merged_ledgers_of_rewards_that_differ_by_rounding_can_be_copied() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        one, other = Ledger((1,)), Ledger((1,))
        reward = 10 * rng.random()
        n, m = rng.integers(1, 8, size=2)
        one.add([(0,)] * n, [reward] * n)
        other.add([(0,)] * m, [np.nextafter(reward, 0.0)] * m)
        assert (one + other).copy().rounds == n + m


def test_a_replaced_reward_leaves_what_the_new_one_would_have():
    rng = np.random.default_rng(0)
    for centre in (0.0, 1e3, -1e6):
        rewards = centre + rng.integers(-8, 8, size=40) / 8.0
        cells = rng.integers(3, size=(40, 2))
        told, right = Ledger((3, 3)), Ledger((3, 3))
        told.add(cells, rewards)
        right.add(cells, rewards[::-1])
        for cell, old, new in zip(cells, rewards, rewards[::-1]):
            told.replace(cell, old, new)
        assert told == right
        np.testing.assert_allclose(told.within, right.within, atol=1e-6 * max(abs(centre), 1e-3) * 1e-3)
        assert (told.rounds, told.received) == (40.0, 40.0)
        assert told.version > right.version
        assert Ledger.from_state(told.state()) == told


@pytest.mark.parametrize(
    ("cell", "old", "new"),
    [((1, 1), 1.0, 2.0), ((0, 0), 3.0, 2.0), ((0, 0), 1.0, float("inf")), ((0, 2), 1.0, 2.0), ((0, 0), "1", 2.0)],
)
def test_a_reward_that_is_not_there_is_not_replaced(cell, old, new):
    ledger = Ledger((2, 2))
    ledger.add([(0, 0), (0, 0)], [1.0, 1.0])
    before = ledger.copy()
    with pytest.raises((ValueError, TypeError)):
        ledger.replace(cell, old, new)
    assert ledger == before
    assert ledger.version == before.version


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_a_faded_reward_is_replaced_by_what_is_left_of_it(offset):
    rng = np.random.default_rng(0)
    told, right = Ledger((3,)), Ledger((3,))
    for ledger, sign in ((told, -1.0), (right, 1.0)):
        for t in range(200):
            ledger.fade(0.9)
            ledger.record((t % 3,), offset + sign * (t % 7))
    for t in rng.permutation(200).tolist():
        told.replace((t % 3,), offset - t % 7, offset + t % 7, weight=0.9 ** (199 - t))
    for one, other in zip(told, right, strict=True):
        np.testing.assert_allclose(one[1:], other[1:], rtol=1e-9)
    np.testing.assert_allclose(told.within, right.within, rtol=1e-6)


@pytest.mark.parametrize("weight", [0.0, -0.5, 1.5, float("nan"), None, True, "1"])
def test_weights_that_fading_cannot_leave_are_refused(weight):
    ledger = Ledger((2,))
    ledger.add((0,), 1.0)
    with pytest.raises(ValueError, match="weight is"):
        ledger.replace((0,), 1.0, 0.0, weight=weight)
    assert ledger[(0,)].total == 1.0


def test_a_faded_reward_is_not_replaced():
    ledger = Ledger((2,))
    ledger.add((0,), 1.0)
    ledger.fade(0.5)
    with pytest.raises(ValueError, match=r"in full.* give the weight"):
        ledger.replace((0,), 1.0, 0.0)


def test_a_standardised_ledger_is_that_of_standardised_rewards():
    rng = np.random.default_rng(0)
    cells, rewards = rng.integers(3, size=(200, 2)), 1e6 + 0.01 * rng.standard_normal(200)
    ledger, wanted = Ledger((3, 3)), Ledger((3, 3))
    ledger.add(cells, rewards)
    wanted.add(cells, (rewards - 1e6) / 0.01)
    found = ledger.standardised(1e6, 0.01)
    assert np.array_equal(found.cells, wanted.cells)
    assert np.array_equal(found.counts, wanted.counts)
    assert np.allclose(found.means, wanted.means, atol=1e-5)
    assert np.allclose(found.within, wanted.within, rtol=1e-5)


@pytest.mark.parametrize("typo", [1e3, 1e6, 1e7, 1e8, 1e9, 1e12])
@pytest.mark.parametrize("first", [True, False])
def test_a_large_mistake_is_replaced_as_if_it_had_never_been_told(typo, first, tmp_path):
    """Its square leaves no digits of the others': then those of the other cells say how much rewards vary."""
    rng = np.random.default_rng(0)
    cells = np.repeat(np.argwhere(np.ones((3, 3))), 60, axis=0)
    rewards = cells.prod(axis=1) + rng.standard_normal(len(cells))
    told, right = Ledger((3, 3)), Ledger((3, 3))
    right.add([(2, 2), *cells], [4.5, *rewards])
    for some in ([typo], rewards) if first else (rewards, [typo]):
        told.add(cells if len(some) > 1 else [(2, 2)], some)
    told.replace((2, 2), typo, 4.5)
    told.save(tmp_path / "ledger.safetensors")
    found = Ledger.load(tmp_path / "ledger.safetensors")
    at, wanted = ([tuple(cell) for cell in one.cells.tolist()].index((2, 2)) for one in (found, right))
    assert found.means[at] == pytest.approx(right.means[wanted], abs=1e-5)
    assert found.within[at] == pytest.approx(right.within[wanted], rel=0.02 if typo < 1e8 else 0.5)
    for one in (found, right):
        one.add([(2, 2)] * 50, rewards[:50])  # what comes after is about rewards that are there
    assert found.within[at] == pytest.approx(right.within[wanted], rel=0.02 if typo < 1e8 else 0.5)


def test_a_ledger_that_has_faded_counts_the_same_when_it_is_loaded():
    rng = np.random.default_rng(0)
    ledger = Ledger((4, 4))
    for _ in range(50):
        ledger.fade(0.9)
        ledger.add(rng.integers(4, size=(7, 2)), rng.random(7))
        assert Ledger.from_state(ledger.state()).rounds == ledger.rounds
    with pytest.raises(ValueError, match=r"says 3 rounds; its counts add up to"):
        Ledger.from_state(ledger.state() | {"rounds": 3.0})


def test_a_ledger_whose_rewards_faded_and_were_amended_can_be_read_again():
    """Rounding leaves a sum of squares a little below zero where all rewards are zero."""
    for count in range(1, 30):
        ledger = Ledger((2, 2))
        ledger.add([(1, 1)] * 4, [0.0, 1.0, 0.0, 1.0])
        for _ in range(count):
            ledger.record((0, 0), 1.0)
            ledger.fade(2.0 ** (-1 / 64))
        for age in range(count, 0, -1):
            ledger.replace((0, 0), 1.0, 0.0, weight=2.0 ** (-age / 64))
        assert Ledger.from_state(ledger.state()) == ledger
        assert ledger[0, 0].total == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(("ours", "theirs"), [(0, 300), (300, 300), (2_000, 100), (100, 2_000), (300, 3)])
def test_merging_at_once_is_merging_cell_by_cell(
    ours: int, theirs: int, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(ours + theirs)
    parts = [Ledger((12, 9, 11)) for _ in range(2)]
    for part, count in zip(parts, (ours, theirs), strict=True):
        if count:
            part.add(rng.integers(9, size=(count, 3)), rng.standard_normal(count))
    results = []
    for at_once in (0, 10**9):
        monkeypatch.setattr("tensorbandits.ledger._SORT_AT_ONCE", at_once)
        result = parts[0].copy()
        if known:
            assert (11, 8, 10) not in result
        result.merge(parts[1])
        assert [tuple(cell) for cell in result.cells[result.order].tolist()] == sorted(entry.cell for entry in result)
        assert all(result[entry.cell] == entry for entry in result)
        results.append(result.state())
    for name, value in results[0].items():
        assert np.array_equal(value, results[1][name]), name


def test_a_copy_is_what_its_state_says_and_goes_its_own_way() -> None:
    ledger = Ledger((30, 30))
    ledger.add(np.random.default_rng(0).integers(30, size=(400, 2)), np.arange(400.0))
    ledger.fade(0.5)
    copy, twin = ledger.copy(), Ledger.from_state(ledger.state())
    for one in (copy, twin):
        assert one == ledger
        assert np.array_equal(one.order, ledger.order)
        assert all(np.array_equal(value, ledger.state()[name]) for name, value in one.state().items())
    before = ledger.state()
    for one in (copy, twin):
        for cell in [(29, 29), (0, 29), (29, 0), (3, 3)]:
            one.add(cell, 5.0)
            assert one.cells[one.order].tolist() == sorted(one.cells.tolist())
    assert copy == twin != ledger
    assert all(np.array_equal(value, before[name]) for name, value in ledger.state().items())


@pytest.mark.parametrize("first", [0, 1, 15, 16, 17, 100])
def test_a_ledger_takes_over_however_many_cells_another_one_has(first: int) -> None:
    rng = np.random.default_rng(first)
    ledger, other = Ledger((30, 30)), Ledger((30, 30))
    ledger.add(rng.integers(30, size=(first, 2)), rng.standard_normal(first))
    other.add(rng.integers(30, size=(600, 2)), rng.standard_normal(600))
    assert ledger.gained(other).rounds == pytest.approx(600, abs=first + 1)
    ledger.take_over(other)
    assert all(ledger[entry.cell].rounds == entry.rounds for entry in other)
    assert ledger.rounds == pytest.approx(600)


def test_the_order_by_sizes_is_kept_as_cells_come_one_by_one_in_numbers_in_copies_and_as_modes_grow():
    """Sorted with the smallest mode first, which may become another one."""
    rng, ledger = np.random.default_rng(0), Ledger((6, 3, 4))

    def check(one, modes):
        assert by_sizes(one.shape) == modes
        cells = one.cells[one.order_by_sizes][:, modes].tolist()
        assert cells == sorted(cells)
        assert len(cells) == len(one)
        assert one.cells[one.order].tolist() == sorted(one.cells.tolist())

    check(ledger, (1, 2, 0))
    for _ in range(10):
        ledger.add(tuple(rng.integers(ledger.shape).tolist()), 1.0)
        check(ledger, (1, 2, 0))
    ledger.add(rng.integers(ledger.shape, size=(70, 3)), np.ones(70))
    again = ledger.copy()
    for one in (ledger, again, Ledger.from_state(ledger.state())):
        check(one, (1, 2, 0))
    again.grow(1, 3)
    again.add((5, 5, 3), 1.0)
    check(again, (2, 0, 1))
    check(ledger, (1, 2, 0))
    ascending = Ledger((2, 3))
    ascending.add((1, 1), 1.0)
    check(ascending, (0, 1))
    ascending.grow(0, 5)
    ascending.add([(6, 0), (0, 2)], [1.0, 1.0])
    check(ascending, (1, 0))

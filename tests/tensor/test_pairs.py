"""A tensor of pairs has the values of its sum, and its best allowed cell is that of all cells."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorbandits.tensor.allowed import Allowed
from tensorbandits.tensor.pairs import Pairs, PairsLayout
from tests.plain import pairs as plain


def random_tensor(shape, rank, rng, strength=1.0):
    layout = PairsLayout(shape, rank)
    codes, fixed = rng.standard_normal(layout.coded), layout.fixed_codes()
    codes[fixed != 0.0] = fixed[fixed != 0.0]
    cores = strength * rng.standard_normal(layout.entries)
    return Pairs(layout, rng.standard_normal(layout.levels), codes, cores, float(rng.standard_normal()))


def random_allowed(shape, rng):
    """Some rules of one mode and more, and some levels; ``None`` where they leave nothing."""
    rules = []
    for _ in range(rng.integers(0, 12)):
        modes = rng.choice(len(shape), size=rng.integers(1, len(shape) + 1), replace=False)
        rules.append({int(mode): int(rng.integers(shape[mode])) for mode in modes})
    levels = {j: rng.choice(p, rng.integers(1, p + 1), replace=False).tolist() for j, p in enumerate(shape)}
    try:
        return Allowed.of(Allowed({j: found for j, found in levels.items() if rng.random() < 0.2}, rules), shape)
    except ValueError:
        return None


def check_random_case(seed, largest=5, modes=5):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, largest + 1, size=rng.integers(1, modes + 1)).tolist())
    rank = tuple(int(rng.integers(0, p)) for p in shape)
    tensor = random_tensor(shape, rank, rng)
    cell = tuple(int(rng.integers(p)) for p in shape)
    assert tensor.at(np.array([cell]))[0] == pytest.approx(plain.value(tensor, cell), abs=1e-9)
    fixed = np.array([rng.integers(p) if rng.random() < 0.3 else -1 for p in shape])
    allowed = random_allowed(shape, rng)
    largest_value = plain.best(tensor, fixed.tolist(), allowed)
    if largest_value == -np.inf:
        with pytest.raises(ValueError, match="allowed"):
            tensor.search(fixed, allowed)
        return
    found = tensor.search(fixed, allowed)
    assert found.value == pytest.approx(largest_value, abs=1e-9)
    assert found.bound == pytest.approx(found.value, abs=1e-9)
    assert allowed is None or allowed.permits(found.cell)
    assert all(level in (-1, chosen) for level, chosen in zip(fixed.tolist(), found.cell, strict=True))


@given(st.integers(0, 2**32))
def test_values_and_best_allowed_cells_are_those_of_all_cells(seed):
    check_random_case(seed)


@pytest.mark.slow
def test_twenty_thousand_searches_with_rules_equal_brute_force():
    for seed in range(20_000):
        check_random_case(seed, largest=4, modes=5)


@pytest.mark.parametrize("shape", [(2,) * 12, (5,) * 5, (20, 3, 30)])
def test_messages_leave_the_best_cell_where_it_is(shape):
    """With so many cells value is moved between tables first."""
    rng = np.random.default_rng(1)
    for strength in (0.3, 1.0, 3.0):
        tensor = random_tensor(shape, tuple(min(p - 1, 2) for p in shape), rng, strength)
        found = tensor.search(np.full(len(shape), -1))
        assert found.value == pytest.approx(tensor.full().max(), abs=1e-9)
        assert found.bound == pytest.approx(found.value, abs=1e-9)


@pytest.mark.parametrize("shape", [(2,) * 20, (6,) * 12, (30,) * 6])
def test_spaces_that_nobody_lists_are_searched_to_the_end(shape):
    rng = np.random.default_rng(2)
    tensor = random_tensor(shape, tuple(min(p - 1, 2) for p in shape), rng, 0.3)
    found = tensor.search(np.full(len(shape), -1))
    assert found.bound == pytest.approx(found.value, abs=1e-9)
    for _ in range(1000):  # no single change, and no cell at random, is better
        cell = list(found.cell) if rng.random() < 0.5 else [int(rng.integers(p)) for p in shape]
        mode = int(rng.integers(len(shape)))
        cell[mode] = int(rng.integers(shape[mode]))
        assert plain.value(tensor, cell) <= found.value + 1e-9


def test_a_search_that_is_cut_short_says_how_much_is_open():
    tensor = random_tensor((6,) * 8, (5,) * 8, np.random.default_rng(3), 5.0)
    short, whole = (tensor.search(np.full(8, -1), most=most) for most in (10, 10_000_000))
    assert short.value <= whole.value <= short.bound
    assert short.value < short.bound
    assert whole.bound == pytest.approx(whole.value, abs=1e-6)


def test_a_wider_tensor_has_the_same_values_and_new_levels_are_as_the_others_on_average():
    rng = np.random.default_rng(4)
    for rank in ((3, 1, 2), (3, 1, 4), (0, 0, 0)):
        tensor = random_tensor((4, 2, 5), rank, rng)
        wide = tensor.widened((5, 4, 5)).full()
        np.testing.assert_allclose(wide[:4, :2], tensor.full(), atol=1e-12)
        np.testing.assert_allclose(wide[4, :2], tensor.full().mean(axis=0), atol=1e-12)
        np.testing.assert_allclose(wide[:4, 3], tensor.full().mean(axis=1), atol=1e-12)


def test_a_saved_tensor_comes_back_and_a_damaged_one_is_refused():
    tensor = random_tensor((4, 2, 7), (3, 1, 2), np.random.default_rng(5))
    state = tensor.state()
    np.testing.assert_array_equal(Pairs.from_state(state, PairsLayout((4, 2, 7), (3, 1, 2))).line(), tensor.line())
    with pytest.raises(ValueError, match="damaged"):
        Pairs.from_state({**state, "codes": np.zeros_like(state["codes"])}, PairsLayout((4, 2, 7), (3, 1, 2)))
    with pytest.raises(ValueError, match="shape"):
        Pairs.from_state(state, PairsLayout((4, 2, 7), (3, 1, 3)))

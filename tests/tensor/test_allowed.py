import pickle
from math import isclose

import numpy as np
import pytest

import tensorbandits as tb
from tensorbandits import Allowed
from tensorbandits.model.sweep import Model
from tensorbandits.tensor import Tucker, best_cell
from tests.tensor.test_best import entries

SHAPE = (3, 4, 5)
PAIR, TRIPLE = {1: 3, 2: 4}, {0: 1, 1: 2, 2: 0}


def of(levels=None, forbidden=(), shape=SHAPE, standing=None):
    return Allowed.of(Allowed(levels, forbidden), shape, standing)


def brute_force(shape, fixed, levels, forbidden):
    """Return which cells of all modes are allowed, rule by rule."""
    mask = np.ones(shape, dtype=bool)
    for j, allowed in [*levels.items(), *((j, [level]) for j, level in fixed.items())]:
        here = np.zeros(shape[j], dtype=bool)
        here[allowed] = True
        mask &= here.reshape([-1 if k == j else 1 for k in range(len(shape))])
    for cell in forbidden:
        mask[tuple(cell.get(j, slice(None)) for j in range(len(shape)))] = False
    return mask


def refusal(*arguments):
    try:
        return f"no refusal but {best_cell(*arguments)}"
    except ValueError as error:
        return str(error)


def random_problem(rng):
    shape = tuple(rng.integers(1, 7, rng.integers(1, 5)).tolist())
    modes = range(len(shape))
    ranks = rng.integers(1, 4, len(shape))
    whole = rng.random() < 0.3  # equal rows, equal values
    draw = (lambda *n: rng.integers(-1, 2, n).astype(float)) if whole else (lambda *n: rng.standard_normal(n))
    tensor = Tucker(draw(*ranks), tuple(draw(n, r) for n, r in zip(shape, ranks)))
    fixed = {j: int(rng.integers(shape[j])) for j in modes if rng.random() < 0.25}
    levels = {j: rng.choice(shape[j], rng.integers(1, shape[j] + 1)) for j in modes if rng.random() < 0.3}
    forbidden = []
    for _ in range(rng.integers(0, 30)):
        named = rng.choice(len(shape), min(len(shape), rng.choice([1, 2, 3], p=[0.03, 0.67, 0.3])), replace=False)
        forbidden.append({int(j): int(rng.integers(shape[j])) for j in named})
    return tensor, fixed, levels, forbidden


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 10))])
def test_the_best_allowed_cell_is_that_of_brute_force(seed):
    rng = np.random.default_rng(seed)
    outcomes = {"none": 0, "unrestricted": 0, "restricted": 0}
    for _ in range(1_000):
        tensor, fixed, levels, forbidden = random_problem(rng)
        mask, full = brute_force(tensor.shape, fixed, levels, forbidden), entries(tensor.core, tensor.factors, {})
        allowed = Allowed(levels, forbidden)
        if not mask.any():
            outcomes["none"] += 1
            for given in (tensor, full):
                assert refusal(given, fixed, allowed).endswith(("these rules", "allow it", "forbids one"))
            continue
        largest = full[mask].max()
        for given in (tensor, full):
            cell = best_cell(given, fixed, allowed)
            assert mask[cell]
            assert isclose(full[cell], largest, rel_tol=1e-12, abs_tol=1e-12)
        free = entries(tensor.core, tensor.factors, fixed).max()
        outcomes["unrestricted" if isclose(free, largest) else "restricted"] += 1
    assert min(outcomes.values()) > 100


def test_masks_and_look_ups_say_what_the_rules_say():
    rng = np.random.default_rng(0)
    for _ in range(500):
        tensor, fixed, levels, forbidden = random_problem(rng)
        try:
            allowed = of(levels, forbidden, tensor.shape)
        except ValueError:
            assert not brute_force(tensor.shape, {}, levels, forbidden).any()
            continue
        mask = brute_force(tensor.shape, {}, levels, forbidden)
        if allowed is None:
            assert mask.all()
            continue
        here = mask[tuple(fixed.get(j, slice(None)) for j in range(mask.ndim))]
        np.testing.assert_array_equal(allowed.mask(tensor.shape, fixed), here)
        assert all(allowed.permits(cell) == mask[cell] for cell in np.ndindex(*tensor.shape))


def test_nothing_restricted_is_none():
    standing = of({0: [1]})
    for nothing in (None, {}, Allowed(), {1: range(4)}, {1: np.ones(4, dtype=bool)}):
        assert Allowed.of(nothing, SHAPE) is None
        assert Allowed.of(nothing, SHAPE, standing) is standing


@pytest.mark.parametrize(
    "levels",
    [[0, 2], (2, 0, 2), np.array([0, 2]), {0, 2}, range(0, 4, 2), [True, False, True, False], np.arange(4) % 2 == 0],
)
def test_levels_in_any_form(levels):
    allowed = Allowed.of({np.int64(1): levels}, SHAPE)
    assert allowed.levels == {1: [0, 2]}
    assert [mask is None or mask.tolist() for mask in allowed.masks] == [True, [True, False, True, False], True]


@pytest.mark.parametrize(
    ("levels", "error", "words"),
    [
        ({3: [0]}, ValueError, "names mode 3; the modes are 0 to 2"),
        ({-1: [0]}, ValueError, "a mode of the allowed levels is -1"),
        ({"offer": [0]}, TypeError, "a mode of the allowed levels is 'offer'"),
        ({True: [0]}, TypeError, "a mode of the allowed levels is True"),
        ({1: [4]}, ValueError, "an allowed level of mode 1 is 4, out of range; allowed are 0 to 3"),
        ({1: [-1]}, ValueError, "an allowed level of mode 1 is -1"),
        ({1: []}, ValueError, "an empty list"),
        ({1: np.zeros(4, dtype=bool)}, ValueError, "false throughout"),
        ({1: [True, False, True]}, ValueError, "mask of mode 1 has 3 entries; give one for each of its 4 levels"),
        ({1: [True, 2]}, TypeError, r"allowed levels of mode 1 are \[True, 2\]"),
        ({1: [0.0, 1.0]}, TypeError, "allowed levels of mode 1"),
        ({1: [np.nan]}, TypeError, "allowed levels of mode 1"),
        ({1: [[0], [1, 2]]}, TypeError, "allowed levels of mode 1"),
        ({1: [2**70]}, TypeError, "allowed levels of mode 1"),
        ({1: 2}, TypeError, "allowed levels of mode 1 are 2"),
        ({1: "02"}, TypeError, "allowed levels of mode 1 are '02'"),
        ({1: None}, TypeError, "allowed levels of mode 1 are None"),
        ({1: np.ma.array([0, 1], mask=[0, 1])}, TypeError, "allowed levels of mode 1"),
        ([0, 2], TypeError, r"allowed is \[0, 2\]"),
        ("all", TypeError, "allowed is 'all'"),
    ],
)
def test_levels_that_are_none_are_refused(levels, error, words):
    with pytest.raises(error, match=words):
        Allowed.of(levels, SHAPE)


@pytest.mark.parametrize(
    ("forbidden", "error", "words"),
    [
        ({1: 3, 2: 7}, TypeError, "give a list of partial cells"),
        (7, TypeError, "forbidden is 7"),
        ("ab", TypeError, "forbidden is 'ab'"),
        ([(1, 3)], TypeError, r"forbidden cell \(1, 3\) is no mapping"),
        ([{}], ValueError, "empty, which would forbid everything"),
        ([{3: 0}], ValueError, "names mode 3; the modes are 0 to 2"),
        ([{1: 4, 2: 0}], ValueError, "level of mode 1 in a forbidden cell is 4, out of range; allowed are 0 to 3"),
        ([{1: -1}], ValueError, "-1, out of range"),
        ([{1: True}], TypeError, "is True"),
        ([{1: 1.0}], TypeError, "is 1.0"),
        ([{1: np.nan}], TypeError, "is nan"),
        ([{"a": 0}], TypeError, "is 'a'"),
        ([{1: 2**63}], ValueError, "out of range"),
    ],
)
def test_forbidden_cells_that_are_none_are_refused(forbidden, error, words):
    with pytest.raises(error, match=words):
        of(None, forbidden)


def test_what_leaves_nothing_says_so():
    with pytest.raises(ValueError, match="no level of mode 0 is left"):
        of({0: [1, 2]}, [{0: 1}, {0: 2}])
    with pytest.raises(ValueError, match="no level of mode 0 is left"):
        Allowed.of({0: [1]}, SHAPE, of({0: [0, 2]}))
    tensor = np.ones(SHAPE)
    with pytest.raises(
        ValueError, match=r"levels \{0: 1\} given by mode: the levels left are 4 of mode 1, 1 of mode 2, an"
    ):
        best_cell(tensor, {0: 1}, Allowed({2: [0]}, [{0: 1, 2: 0}]))
    with pytest.raises(ValueError, match="level 1 of mode 0 is given, but not allowed"):
        best_cell(Tucker(np.ones((1,)), (np.ones((3, 1)),)), {0: 1}, {0: [0]})


def test_joining_restricts_by_both_and_copies_no_rules():
    standing, own = of({0: [0, 1], 1: [1, 2]}, [PAIR]), Allowed({1: [2, 3], 2: [0]}, [TRIPLE])
    joined = Allowed.of(own, SHAPE, standing)
    assert joined == of({0: [0, 1], 1: [2], 2: [0]}, [PAIR, TRIPLE])
    assert joined._parts[0] is standing._parts[0]
    assert Allowed.of(own, SHAPE, standing) is joined
    assert not joined.permits((1, 2, 0))
    assert joined.permits((0, 2, 0))
    np.testing.assert_array_equal(joined.mask(SHAPE), standing.mask(SHAPE) & own.mask(SHAPE))


def test_rules_come_and_go():
    allowed = of(None, [PAIR])
    more = allowed.with_forbidden([TRIPLE, {0: 2}])
    assert allowed == of(None, [PAIR])
    assert more.forbidden == [{0: 2}, TRIPLE, PAIR]
    assert [more.permits(cell) for cell in ((2, 0, 0), (1, 2, 0), (0, 3, 4), (0, 0, 0))] == [False, False, False, True]
    assert more.without_forbidden([{0: 2}, TRIPLE]) == allowed
    assert allowed.without_forbidden([PAIR]).permits((0, 3, 4))
    assert best_cell(np.ones(SHAPE), None, allowed.without_forbidden([PAIR])) == (0, 0, 0)
    with pytest.raises(ValueError, match="is not among the forbidden cells"):
        allowed.without_forbidden([TRIPLE])
    with pytest.raises(ValueError, match="no level of mode 0 is left"):
        allowed.with_forbidden([{0: i} for i in range(3)])


def test_what_was_checked_is_checked_anew_for_another_shape():
    allowed = of({1: [0, 3]}, [PAIR, {0: 1}])
    grown = Allowed.of(allowed, (4, 5, 5))
    assert grown == allowed
    assert grown.permits((3, 3, 0))
    assert not grown.permits((3, 4, 0))
    with pytest.raises(ValueError, match="out of range"):
        Allowed.of(allowed, (3, 3, 5))


def test_equality_and_state():
    allowed = Allowed({1: [3, 0, 0]}, [PAIR, {2: 4, 1: 3}, TRIPLE])
    same = Allowed({1: np.array([True, False, False, True])}, [TRIPLE, PAIR])
    assert allowed == same == Allowed.from_state(allowed.state()) == pickle.loads(pickle.dumps(allowed))
    assert hash(allowed) == hash(same)
    assert allowed != Allowed({1: [0]}, [PAIR, TRIPLE])
    assert allowed != Allowed({1: [0, 3]}, [PAIR])
    assert allowed != "allowed"
    assert allowed.state() == {
        "levels": [[1, [0, 3]]],
        "forbidden": [[[0, 1], [1, 2], [2, 0]], [[1, 3], [2, 4]]],
    }
    assert repr(allowed) == "<Allowed: levels 2 of mode 1; 2 forbidden combinations>"


@pytest.mark.parametrize(
    "state", [{}, {"levels": 3, "forbidden": []}, {"levels": [[0, [-1]]], "forbidden": []}, None, {"levels": [[0]]}]
)
def test_a_damaged_state_is_refused(state):
    with pytest.raises(ValueError, match="damaged"):
        Allowed.from_state(state)


def test_nothing_changes_what_is_allowed():
    levels = np.array([0, 1])
    allowed = of({0: levels}, [PAIR])
    levels[0] = 2
    allowed.levels[0].append(2)
    allowed.forbidden.clear()
    assert allowed == of({0: [0, 1]}, [PAIR])
    for mask in (allowed.masks[0], allowed.mask(SHAPE)):
        with pytest.raises(ValueError, match="read-only"):
            mask[0] = False


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_many_levels_and_rules_against_the_full_tensor(rank):
    """Hulls, qhull and bounds are taken here; rules are made hostile by forbidding pairs of the best cell."""
    rng = np.random.default_rng(rank)
    shape = (60, 50, 40)
    tensor = Tucker(rng.standard_normal((rank,) * 3), tuple(rng.standard_normal((n, rank)) for n in shape))
    full, allowed = tensor.full(), of({0: np.arange(60) % 7 > 0}, [{1: 3, 2: j} for j in range(40)], shape)
    mask = allowed.mask(shape).copy()
    for _ in range(60):
        cell = tensor.best(None, allowed)
        assert full[cell] == pytest.approx(full[mask].max(), rel=1e-12)
        j, k = sorted(rng.choice(3, 2, replace=False).tolist())
        allowed = allowed.with_forbidden([{j: cell[j], k: cell[k]}])
        np.moveaxis(mask, (j, k), (0, 1))[cell[j], cell[k]] = False


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")  # which plain Python notices
def test_equal_rows_and_numbers_out_of_range():
    factors = (np.ones((4, 2)), np.ones((5, 1)), np.ones((3, 3)))
    allowed = Allowed({0: [1, 2]}, [{0: i, 1: j} for i in range(4) for j in range(5) if (i, j) != (2, 3)])
    assert Tucker(np.ones((2, 1, 3)), factors).best(None, allowed)[:2] == (2, 3)
    assert Tucker(np.full((2, 1, 3), 1e308), factors).best(None, allowed)[:2] == (2, 3)
    huge = Tucker(np.array([[1e308, -1e308], [1e308, 1e308]]), (np.full((4, 2), 1e200), np.full((5, 2), 1e200)))
    assert huge.best(None, allowed) == (2, 3)


def test_what_was_not_checked_against_the_shape_is_not_searched_with():
    model = Model.of(Tucker(np.ones((1, 1, 1)), tuple(np.ones((n, 1)) for n in SHAPE)))
    for other in (Allowed({0: [1]}), of({0: [1]}, shape=(9, 9, 9))):
        with pytest.raises(ValueError, match="check it anew"):
            model.best(np.full(3, -1), other)
    with pytest.raises(ValueError, match="not checked against a shape yet"):
        Allowed({0: [1]}).permits((0, 0, 0))
    assert model.best(np.full(3, -1), of({0: [1]})) == (1, 0, 0)


def test_the_library_offers_it():
    assert tb.Allowed is Allowed

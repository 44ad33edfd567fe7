from fractions import Fraction

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorbandits.tensor import Tucker, _best_kernels, best
from tests.plain import best as plain

checked = settings(deadline=None, max_examples=150)  # the first example compiles

EPSILON = 2.0**-52


def best_index(core, factors, fixed):
    return Tucker(core, tuple(factors)).best(fixed)


def gaussian(rng, n, r):
    return rng.standard_normal((n, r))


def shifted(rng, n, r):
    return rng.standard_normal((n, r)) + 5 * rng.standard_normal(r)


def repeated(rng, n, r):
    return rng.standard_normal((3, r))[rng.integers(0, 3, n)]


def integers(rng, n, r):
    return rng.integers(-2, 3, (n, r)).astype(float)


def collinear(rng, n, r):
    return rng.integers(-5, 6, (n, 1)) * rng.integers(-3, 4, r) + rng.integers(-3, 4, r).astype(float)


def equal(rng, n, r):
    return np.tile(rng.integers(-3, 4, r).astype(float), (n, 1))


def zeros(rng, n, r):
    return np.zeros((n, r))


def zero_column(rng, n, r):
    U = rng.integers(-9, 10, (n, r)).astype(float)
    U[:, rng.integers(r)] = 0.0
    return U


def affine(rng, n, r):
    return np.hstack([np.ones((n, 1)), rng.standard_normal((n, r - 1))])


def whole_affine(rng, n, r):
    return np.hstack([np.ones((n, 1)), integers(rng, n, r - 1)])


REAL = gaussian, shifted, repeated, affine
WHOLE = integers, collinear, equal, zeros, zero_column, whole_affine
sizes = st.integers(1, 8) | st.sampled_from([1, 4, 8, 40])
ranks = st.integers(1, 5) | st.sampled_from([1, 2, 3, 6, 8])  # the search adds up columns by four, then by two
modes = st.lists(st.tuples(sizes, ranks), min_size=1, max_size=5).filter(lambda m: np.prod([n for n, _ in m]) <= 30_000)
planar = st.lists(st.tuples(st.integers(15, 40), st.integers(1, 2)), min_size=2, max_size=3)  # hulls pay here


@st.composite
def problems(draw, modes, kinds):
    """Draw a core, factors and fixed levels; some factors are huge, others tiny."""
    drawn = draw(modes)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    factors = [draw(st.sampled_from(kinds))(rng, n, r) for n, r in drawn]
    whole = kinds is WHOLE
    core = (
        integers(rng, 1, int(np.prod([r for _, r in drawn]))) if whole else rng.standard_normal([r for _, r in drawn])
    )
    core = core.reshape([r for _, r in drawn])
    for power in draw(
        st.sampled_from([(), (0,), (600,), (-600,), (600, -600)])
    ):  # of two, so that whole numbers stay exact
        j = draw(st.integers(0, len(factors) - 1))
        if np.abs(factors[j]).max() < 1e100:
            factors[j] = np.ldexp(factors[j], power)
    fixed = {j: draw(st.integers(0, n - 1)) for j, (n, _) in enumerate(drawn) if draw(st.integers(0, 3)) == 0}
    return core, factors, fixed


def entries(core, factors, fixed):
    """Return all entries with the fixed levels, and how to index them by a cell."""
    full = core
    for j, U in enumerate(factors):
        full = np.moveaxis(np.tensordot(U[[fixed[j]]] if j in fixed else U, full, axes=(1, j)), 0, j)
    return full


def first_of_equal_rows(cell, factors, fixed):
    return tuple(
        i if j in fixed else int((U[i] == U).all(axis=1).argmax()) for j, (i, U) in enumerate(zip(cell, factors))
    )


def check(core, factors, fixed, exact):
    """Real rows leave no ties but of equal rows; whole numbers do, and all arithmetic with them is exact."""
    cell = best_index(core, factors, fixed)
    assert all(cell[j] == level for j, level in fixed.items())
    assert cell == first_of_equal_rows(cell, factors, fixed)
    if exact:
        full = entries(core, factors, fixed)
        assert full[tuple(0 if j in fixed else i for j, i in enumerate(cell))] == full.max()
        if full.min() == full.max():
            assert cell == tuple(fixed.get(j, 0) for j in range(len(factors)))
    else:
        assert cell == first_of_equal_rows(plain.best_index(core, factors, fixed), factors, fixed)


@pytest.fixture
def qhull_always(monkeypatch):
    monkeypatch.setattr(best, "_QUICK", 0.0)
    monkeypatch.setattr(best, "_pays", lambda counts, ranks, j: ranks[j] >= 2)


@checked
@given(problems(modes, REAL))
def test_the_arm_of_the_plain_contraction(problem):
    check(*problem, exact=False)


@checked
@given(problems(modes, WHOLE))
def test_a_largest_entry_where_many_are_equal(problem):
    check(*problem, exact=True)


@checked
@given(problems(planar, REAL))
def test_the_arm_of_the_plain_contraction_by_hulls_in_the_plane(problem):
    check(*problem, exact=False)


@checked
@given(problems(planar, WHOLE))
def test_a_largest_entry_by_hulls_in_the_plane(problem):
    check(*problem, exact=True)


def test_the_arm_of_the_plain_contraction_by_qhull(qhull_always):
    @checked
    @given(problems(modes, REAL))
    def holds(problem):
        check(*problem, exact=False)

    holds()


def test_a_largest_entry_by_qhull(qhull_always):
    @checked
    @given(problems(modes, WHOLE))
    def holds(problem):
        check(*problem, exact=True)

    holds()


def hull(U):
    index = np.empty(len(U), np.int64)
    count = _best_kernels._hull(np.ravel(U), 0, len(U), index, 0)
    return index[:count]


@checked
@given(st.sampled_from(WHOLE), st.integers(1, 60), st.integers(0, 2**32), st.sampled_from([0, 600, -600]))
def test_a_hull_in_the_plane_has_the_largest_value_of_every_direction(kind, n, seed, power):
    rng = np.random.default_rng(seed)
    U = np.ldexp(kind(rng, n, 2), power)
    values = U @ rng.integers(-9, 10, (2, 50))
    np.testing.assert_array_equal(values[hull(U)].max(axis=0), values.max(axis=0))


@checked
@given(st.integers(1, 5), st.integers(0, 2**32))
def test_a_hull_in_the_plane_keeps_small_rows_between_huge_ones(n, seed):
    """No row is lost by more than its own rounding, however large the others are: in exact arithmetic."""
    rng = np.random.default_rng(seed)
    along = rng.standard_normal(2)
    U = np.vstack([1e12 * along, -1e12 * along, 1e-4 * rng.standard_normal((n, 2))])
    kept = hull(U)
    for w in np.array([[along[1], -along[0]], [-along[1], along[0]]]) * (1 + 1e-16 * rng.integers(-3, 4, (9, 1, 1))):
        for a, b in w:
            values = [Fraction(x) * Fraction(a) + Fraction(y) * Fraction(b) for x, y in U.tolist()]
            top = max(range(len(U)), key=values.__getitem__)
            loss = values[top] - max(values[i] for i in kept)
            assert loss <= Fraction(64 * EPSILON * (abs(U[top, 0] * a) + abs(U[top, 1] * b)))


def test_hulls_leave_few_rows():
    rng = np.random.default_rng(0)
    line = np.outer(rng.standard_normal(1000), [1.0, 3.0]) + 1.0
    circle = rng.standard_normal((2000, 2))
    circle /= np.linalg.norm(circle, axis=1, keepdims=True)
    assert len(hull(rng.standard_normal((1000, 2)))) < 30
    assert len(hull(rng.standard_normal((1000, 2)) @ [[1e3, 1.0], [0.0, 1.0]])) < 30
    assert len(hull(np.outer(np.arange(-500, 500), [1.0, 3.0]))) <= 4
    assert len(hull(line)) < 100
    assert sorted(hull(circle)) == list(range(2000))
    assert len(hull(np.ones((50, 2)))) == 1
    assert len(best._vertices(rng.standard_normal((1000, 3)))) < 80


def test_qhull_keeps_small_rows_beside_huge_ones():
    """All the small rows are one point to qhull, whose rounding is that of the huge ones."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        U = rng.standard_normal((40, 3))
        U[:12, 0] = -np.abs(U[:12, 0]) - 1.0
        U[:12] *= 1e15
        values = U @ (np.array([[3.0], [0.1], [0.1]]) * rng.standard_normal((3, 9)) ** [[0], [1], [1]])
        assert set(values.argmax(axis=0)[values[:12].max(axis=0) < 0]) <= set(best._vertices(U))


def test_constant_columns_cost_no_rows():
    """With the ones of affine models every hull is flat; it must not keep all rows for that."""
    rng = np.random.default_rng(0)
    U = np.hstack([np.ones((1000, 1)), rng.standard_normal((1000, 2))])
    assert best._vertices(U).tolist() == best._vertices(U[:, 1:]).tolist()
    assert best._vertices(U[:, :2]).tolist() == sorted([int(U[:, 1].argmin()), int(U[:, 1].argmax())])
    assert best._vertices(U[:, :1]).tolist() == [0]
    kept = best._reduce(np.tile(U.ravel(), 3), [1000] * 3, [3] * 3, [-1] * 3)
    assert len(kept[0]) < 40 > len(kept[1])  # for what is left it does not pay


@pytest.mark.parametrize("flat", [np.eye(3), np.arange(27.0).reshape(9, 3)])
def test_qhull_keeps_all_rows_of_a_flat_hull(flat):
    assert best._vertices(flat).tolist() == list(range(len(flat)))


@pytest.mark.parametrize(("shape", "rank"), [((200,) * 3, (3, 3, 3)), ((300, 3, 200), (4, 2, 3)), ((3, 5000), (5, 3))])
def test_where_the_cost_model_takes_qhull_the_arm_is_the_same(shape, rank):
    rng = np.random.default_rng(0)
    core, factors = rng.standard_normal(rank), [rng.standard_normal((n, r)) for n, r in zip(shape, rank)]
    for fixed in ({}, {1: 2}):
        assert best_index(core, factors, fixed) == plain.best_index(core, factors, fixed)


def test_qhull_is_taken_for_many_rows_of_low_rank_only():
    def taken(sizes, ranks, fixed):
        rows = np.random.default_rng(0).standard_normal(int(np.dot(sizes, ranks)))
        return sorted(best._reduce(rows, sizes, ranks, fixed))

    assert taken([1000, 1000, 1000], [3, 4, 3], [-1, -1, -1]) == [0, 1, 2]
    assert taken([1000, 1000, 1000], [3, 2, 1], [-1, 0, -1]) == []
    assert taken([20, 20, 20], [3, 3, 3], [-1, -1, -1]) == []
    assert taken([1000, 1000], [8, 8], [-1, -1]) == []


def test_hulls_in_the_plane_are_taken_for_many_cells_only():
    def left(sizes, ranks, fixed):
        sizes, ranks, fixed = np.array(sizes), np.array(ranks), np.array(fixed)
        rows = np.random.default_rng(0).standard_normal(int(sizes @ ranks))
        plan, index = np.empty((7, len(sizes)), np.int64), np.empty(sizes.sum(), np.int64)
        _best_kernels._begin(sizes, ranks, fixed, plan)
        _best_kernels._candidates(rows, sizes, ranks, fixed, plan, index)
        return plan[_best_kernels._COUNT].tolist()

    assert max(left([1000, 1000, 1000], [2, 2, 2], [-1, -1, -1])) < 20
    assert left([1000, 1000, 1000], [2, 1, 1], [-1, -1, -1]) == [1000, 2, 2]
    assert left([1000, 5, 1000], [2, 2, 3], [-1, 3, 0]) == [1000, 1, 1]
    assert left([8, 8, 8], [2, 2, 2], [-1, -1, -1]) == [8, 8, 8]


def test_the_lowest_level_where_levels_make_no_difference():
    factors = [np.arange(1.0, 31.0).reshape(15, 2), np.arange(1.0, 41.0).reshape(20, 2), np.eye(3)]
    assert best_index(np.zeros((2, 2, 3)), factors, {}) == (0, 0, 0)
    assert best_index(np.ones((2, 2, 3)), factors, {}) == (14, 19, 0)
    factors[2][1] = 0.0
    assert best_index(np.ones((2, 2, 3)), factors, {2: 1}) == (0, 0, 1)
    assert best_index(-np.ones((2, 2, 3)), factors, {}) == (0, 0, 1)


def test_the_lowest_level_where_levels_make_no_difference_though_qhull_drops_it(qhull_always):
    factors = [np.random.default_rng(0).standard_normal((40, 3)) for _ in range(2)]
    factors[0][0] = factors[1][0] = 0.0
    assert best_index(np.zeros((3, 3)), factors, {}) == (0, 0)
    assert best_index(np.diag([1.0, 0.0, 0.0]), factors, {0: 0}) == (0, 0)


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="counts what was compiled")
def test_a_tensor_of_any_layout_and_type():
    rng = np.random.default_rng(0)
    core, factors = rng.integers(-9, 9, (2, 3, 2)), [rng.integers(-9, 9, (n, r)) for n, r in ((30, 2), (5, 3), (9, 2))]
    tensor = Tucker(np.asfortranarray(core), tuple(np.asfortranarray(U) for U in factors))
    tensor.core.setflags(write=False)
    compiled = len(_best_kernels.best_index.signatures)
    assert tensor.full()[tensor.best()] == tensor.full().max()
    assert len(_best_kernels.best_index.signatures) == max(1, compiled)


def test_the_plain_contraction_goes_block_by_block(monkeypatch):
    rng = np.random.default_rng(1)
    core, factors = rng.standard_normal((2, 3, 2)), [rng.standard_normal((n, r)) for n, r in ((7, 2), (8, 3), (9, 2))]
    monkeypatch.setattr(plain, "BLOCK", 100)
    full = entries(core, factors, {})
    assert plain.best_index(core, factors, {}) == np.unravel_index(full.argmax(), full.shape)


@pytest.mark.parametrize(
    ("shape", "rank", "fixed"),
    [((4, 5, 6), (2, 2, 2), (-1, 3, -1)), ((7, 3), (1, 2), (-1, -1)), ((60, 60, 60), (3, 3, 3), (-1, -1, -1))],
)
def test_the_best_of_each_of_many_is_the_best_of_one_by_one(shape, rank, fixed):
    """Also where qhull reduces the rows, as it does for the last."""
    rng = np.random.default_rng(0)
    sizes, ranks, levels = (np.array(values, dtype=np.int64) for values in (shape, rank, fixed))
    cores, rows = rng.standard_normal((9, ranks.prod())), rng.standard_normal((9, int(sizes @ ranks)))
    lines, dims = rng.permutation(9)[:6], np.array([sizes, ranks])
    one_by_one = [best.best_packed(cores[line], rows[line], sizes, ranks, levels) for line in lines]
    assert best.best_of_each(cores, rows, lines, dims, levels) == one_by_one

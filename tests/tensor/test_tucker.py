import numpy as np
import pytest
import tensorly as tl
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorly import tenalg

from tensorbandits.tensor import Tucker, best_cell
from tensorbandits.tensor.tucker import (
    inner_product,
    multi_mode_dot,
    orthogonal_complement,
    outer_rows,
    rotation,
    unfold,
)


def random_tucker(rng, shape, rank, offset=0.0):
    return Tucker(rng.standard_normal(rank), tuple(rng.standard_normal((p, r)) for p, r in zip(shape, rank)), offset)


shapes = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 3)), min_size=1, max_size=4)


@given(shapes, st.integers(0, 100))
def test_values_agree_with_the_full_tensor(modes, seed):
    rng = np.random.default_rng(seed)
    tensor = random_tucker(rng, [p for p, _ in modes], [r for _, r in modes], offset=rng.standard_normal())
    full = tensor.full()
    np.testing.assert_allclose(full, tl.tucker_to_tensor((tensor.core, list(tensor.factors))) + tensor.offset)
    cells = np.array(list(np.ndindex(*tensor.shape)))
    np.testing.assert_allclose(tensor.at(cells), full.ravel(), atol=1e-12)


@given(shapes, st.integers(0, 100))
def test_products_and_unfoldings_are_those_of_tensorly(modes, seed):
    tensor = random_tucker(np.random.default_rng(seed), [p for p, _ in modes], [r for _, r in modes])
    expected = tenalg.multi_mode_dot(tensor.core, list(tensor.factors))
    np.testing.assert_array_equal(multi_mode_dot(tensor.core, tensor.factors), expected)
    for mode in range(len(modes)):
        np.testing.assert_array_equal(unfold(tensor.core, mode), tl.unfold(tensor.core, mode))


@settings(deadline=None)  # the first call may compile
@given(shapes, st.integers(0, 100), st.data())
def test_best_is_the_best_of_the_full_tensor_given_the_context(modes, seed, data):
    tensor = random_tucker(np.random.default_rng(seed), [p for p, _ in modes], [r for _, r in modes])
    d = len(modes)
    context = data.draw(st.lists(st.sampled_from(range(d)), unique=True, max_size=d - 1)) if d > 1 else []
    fixed = {j: data.draw(st.integers(0, tensor.shape[j] - 1)) for j in context}
    cell = tensor.best(fixed)
    full = tensor.full()
    assert all(cell[j] == level for j, level in fixed.items())
    assert full[cell] == pytest.approx(
        max(full[c] for c in np.ndindex(*full.shape) if all(c[j] == v for j, v in fixed.items()))
    )
    assert best_cell(full, fixed) == cell or full[best_cell(full, fixed)] == pytest.approx(full[cell])


def test_ties_go_to_the_lowest_index():
    assert Tucker(np.ones((1, 1)), (np.ones((3, 1)), np.ones((2, 1)))).best() == (0, 0)
    assert best_cell(np.zeros((2, 2))) == (0, 0)


@given(shapes, st.integers(0, 100))
def test_inner_product(modes, seed):
    rng = np.random.default_rng(seed)
    shape = [p for p, _ in modes]
    one, two = random_tucker(rng, shape, [r for _, r in modes]), random_tucker(rng, shape, [1] * len(shape))
    assert inner_product(one, two) == pytest.approx(float((one.full() * two.full()).sum()), abs=1e-9)


def test_rotation_is_orthogonal_and_starts_with_U():
    U = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 2)))[0]
    R = rotation(U)
    np.testing.assert_allclose(R.T @ R, np.eye(6), atol=1e-12)
    np.testing.assert_array_equal(R[:, :2], U)
    assert orthogonal_complement(np.eye(3)).shape == (3, 0)


def test_the_rotated_problem_gives_each_arm_the_same_mean():
    """<X x_j [U U_perp]^T, rotated arm> = <X, arm>: the transpose that the paper leaves out is needed."""
    rng = np.random.default_rng(0)
    shape, rank = (4, 5, 3), (2, 2, 1)
    X = rng.standard_normal(shape)
    R = [rotation(np.linalg.qr(rng.standard_normal((p, r)))[0]) for p, r in zip(shape, rank)]
    Y = multi_mode_dot(X, [r.T for r in R])
    for cell in np.ndindex(*shape):
        arm = np.einsum("a,b,c->abc", *(r[i] for r, i in zip(R, cell)))
        assert (Y * arm).sum() == pytest.approx(X[cell])


def test_outer_rows_leave_out_a_mode():
    rng = np.random.default_rng(0)
    tensor = random_tucker(rng, (4, 5, 3), (2, 3, 2))
    cells = np.array([(1, 2, 0), (3, 4, 2)])
    for j in range(3):
        Z = outer_rows(tensor.factors, cells, skip=j) @ tl.unfold(tensor.core, j).T
        np.testing.assert_allclose((Z * tensor.factors[j][cells[:, j]]).sum(axis=1), tensor.at(cells))


ONES = (np.ones((4, 2)), np.ones((5, 3)))


@pytest.mark.parametrize(
    ("core", "factors", "error", "words"),
    [
        (np.ones((6000, 3000)), (np.ones((4, 2)), np.ones((500, 2))), ValueError, r"factor 0 has shape \(4, 2\)"),
        (np.ones((2, 3)), ONES[:1], ValueError, r"factors are 1; a core of shape \(2, 3\) needs 2"),
        (np.ones((2, 3)), None, ValueError, "factors are None"),
        (np.ones((2, 3)), ONES[::-1], ValueError, r"factor 0 has shape \(5, 3\).*needs \(levels of mode 0, 2\)"),
        (np.ones((2, 3)), (np.ones((2, 4)), ONES[1]), ValueError, r"factor 0 has shape \(2, 4\)"),
        (np.ones((2, 3)), (np.ones(2), ONES[1]), ValueError, r"factor 0 has shape \(2,\)"),
        (np.ones((2, 3)), (np.ones((0, 2)), ONES[1]), ValueError, r"factor 0 has shape \(0, 2\)"),
        (np.ones((2, 0)), (ONES[0], np.ones((5, 0))), ValueError, r"core has shape \(2, 0\)"),
        (np.array(1.0), (), ValueError, r"core has shape \(\)"),
        (np.full((2, 3), np.nan), ONES, ValueError, "the core holds NaN or infinite"),
        (np.ones((2, 3)), (np.full((4, 2), np.inf), ONES[1]), ValueError, "factor 0 holds NaN or infinite"),
        (np.ones((2, 3)), (ONES[0], [[1, 2, 3], [1, 2]]), ValueError, "factor 1 has rows of different lengths"),
        (np.ones((2, 3)) * 1j, ONES, TypeError, "the core has type complex128"),
        ("core", ONES, TypeError, "the core has type"),
        (np.ma.array(np.ones((2, 3)), mask=True), ONES, TypeError, "the core is a masked array"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(core, factors, error, words):
    with pytest.raises(error, match=words):
        Tucker(core, factors)


@pytest.mark.parametrize("offset", [np.nan, np.inf, "1", None, True, 10**400])
def test_an_offset_is_a_finite_number(offset):
    with pytest.raises(ValueError, match="offset is"):
        Tucker(np.ones((2, 3)), ONES, offset)


def test_lists_and_whole_numbers_become_floats():
    tensor = Tucker([[1, 2]], ([[1], [2]], [[1, 0], [0, 1]]), 1)
    assert tensor.full().tolist() == [[2.0, 3.0], [3.0, 5.0]]
    assert {part.dtype for part in (tensor.core, *tensor.factors)} == {np.dtype(np.float64)}
    assert isinstance(tensor.offset, float)


def test_numbers_that_fit_are_not_copied():
    core = np.ones((2, 3))
    tensor = Tucker(core, ONES)
    assert tensor.core is core
    assert tensor.factors[1] is ONES[1]
    assert Tucker.trusted(core, ONES, 0.5).full()[0, 0] == tensor.full()[0, 0] + 0.5


def test_cells_in_arrays_are_checked():
    tensor = Tucker(np.ones((2, 3)), ONES)
    with pytest.raises(ValueError, match="the level of mode 0 is -1, out of range"):
        tensor.at(np.array([[-1, -1]]))
    with pytest.raises(ValueError, match="the level of mode 1 is 5, out of range"):
        tensor.at(np.array([[0, 5]]))
    with pytest.raises(TypeError, match="whole numbers"):
        tensor.at(np.array([[0.0, 1.0]]))


@pytest.mark.parametrize(
    ("array", "error", "words"),
    [
        (np.array(1.0), ValueError, "one axis per mode"),
        (np.ones((2, 0)), ValueError, r"shape \(2, 0\)"),
        ([[1.0, np.nan]], ValueError, "holds NaN"),
        ([[1.0], [1.0, 2.0]], ValueError, "rows of different lengths"),
        (np.array([["a"]]), TypeError, "give an array of numbers"),
        (np.ones(2) * 1j, TypeError, "complex128"),
        (np.ma.array([1.0, 2.0], mask=[0, 1]), TypeError, "masked array"),
        (None, TypeError, "give an array of numbers"),
    ],
)
def test_arrays_without_a_best_cell_are_refused(array, error, words):
    with pytest.raises(error, match=words):
        best_cell(array)


def test_the_best_cell_of_a_list():
    assert best_cell([[1, 2], [4, 3]]) == (1, 0)
    assert best_cell([[1, 2], [4, 3]], {0: 0}) == (0, 1)

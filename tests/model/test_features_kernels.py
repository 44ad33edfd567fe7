"""The compiled steps of what features say of rows, held to their plain twins."""

import numpy as np
import pytest

from tensorbandits.model._features_kernels import equations, move_rows, redraw_coefficients
from tensorbandits.model.described import ModeFeatures
from tensorbandits.model.solve import row_equations
from tensorbandits.model.sweep import Model
from tests.plain import features as plain

CASES = [(6, 3, 2, 0), (5, 9, 1, 1), (4, 2, 3, 1), (7, 1, 2, 0)]  # levels, features, free columns, fixed ones


def made(levels, features, q, fixed, seed):
    """Rows of a mode among others, its axes for all levels but two, and numbers."""
    rng = np.random.default_rng(seed)
    rewarded = np.arange(levels) % 3 != 1
    axes = ModeFeatures(rng.standard_normal((levels, features))).axes(rewarded)
    width, before, sizes = q + fixed, 4, np.exp(rng.standard_normal(q))
    rows = rng.standard_normal(before + levels * width + 3)
    place = np.array([before, width, fixed, 2], dtype=np.int64)
    share = rng.uniform(0.05, 0.95)
    tau = 1e-3 if seed == 3 else np.sqrt(1 - share)  # features determine rows
    shapes = ((0.125, 1.0), (1.0, 0.5))[seed % 2]
    numbers = np.array([tau, np.sqrt(1 - tau**2), features, 1e-2, *shapes, 1e-3, 4.0 * (seed % 2), 1.0])
    x = rows[before : before + levels * width].reshape(levels, width)[:, fixed:] / sizes
    return rng, axes, rows, place, sizes, numbers, x


def about(place, sizes, levels, rows, precision):
    """What the mode's rows are about, in units of the sizes, and how precisely."""
    first, width, fixed, column = place
    mean = rows[first : first + levels * width].reshape(levels, width)[:, fixed:] / sizes
    return mean, precision[column + fixed : column + width] * sizes**2


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(4))
def test_coefficients_are_those_of_the_regression(case, seed):
    levels, _, q, fixed = case
    rng, axes, rows, place, sizes, numbers, x = made(*case, seed)
    k = axes.G.shape[1]
    C, noise, steps, tries = (*rng.standard_normal((3, q * k + 3)), rng.standard_exponential(3))
    C = C[: q * k].reshape(q, k)
    expected = plain.redraw(x, axes.levels, axes.G, axes.told, numbers, C[:, -1], noise[: q * k], steps[:3], tries)
    means, precision, kept = np.zeros_like(rows), np.zeros(2 + q + fixed), rows.copy()
    redraw_coefficients(
        *(rows, place, sizes, axes.levels, axes.G, axes.T, axes.squares, axes.told, numbers, C),
        *(noise, steps, tries, means, precision),
    )
    np.testing.assert_allclose(C.T, expected[0], atol=1e-9)
    np.testing.assert_allclose(numbers[:2], expected[1:], rtol=1e-9)
    mean, each = about(place, sizes, levels, means, precision)
    np.testing.assert_allclose(mean, axes.G @ expected[0], atol=1e-9)
    np.testing.assert_allclose(each, expected[1] ** -2.0)
    np.testing.assert_array_equal(rows, kept)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(4))
def test_rows_move_with_their_coefficients(case, seed):
    levels, _, q, fixed = case
    rng, axes, rows, place, sizes, numbers, x = made(*case, seed)
    k = axes.G.shape[1]
    C, M = rng.standard_normal((q, k)), rng.standard_normal((levels, q, q))
    A, b = M @ np.swapaxes(M, 1, 2), rng.standard_normal((levels, q))
    some = np.append(np.sort(rng.choice(axes.told, min(axes.told, 2), replace=False)), k - 1).astype(np.int64)
    noise, tries = rng.standard_normal(3 + q * (levels + len(some))), rng.standard_exponential(5)
    scales = int(seed != 2)
    expected = plain.move(A, b, axes.levels, axes.G, numbers, C.T, some, noise, tries, scales)
    means, precision = np.zeros_like(rows), np.zeros(2 + q + fixed)
    move_rows(
        *(rows, place, sizes, A, b, axes.levels, axes.G, axes.T, numbers, C, some, scales, noise, tries),
        *(means, precision),
    )
    found, _ = about(place, sizes, levels, rows, precision)
    np.testing.assert_allclose(found[axes.levels], expected[0], atol=1e-9)
    rest = np.setdiff1d(np.arange(levels), axes.levels)
    np.testing.assert_array_equal(found[rest], x[rest])
    np.testing.assert_allclose(C.T, expected[1], atol=1e-9)
    np.testing.assert_allclose(numbers[:2], expected[2:], rtol=1e-9)
    np.testing.assert_allclose(about(place, sizes, levels, means, precision)[0], axes.G @ expected[1], atol=1e-9)


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize(("shape", "rank"), [((4, 3, 5), (2, 2, 3)), ((6, 4), (3, 2)), ((5,), (2,))])
def test_equations_are_those_of_all_rows(shape, rank, affine):
    rng = np.random.default_rng(0)
    size = sum(p * r for p, r in zip(shape, rank))
    model = Model(shape, rank, rng.standard_normal(size), rng.standard_normal(int(np.prod(rank))), 0.3, affine=affine)
    factors = model.tensor().factors
    if affine:
        for U in factors:
            U[:, 0] = 1.0
        model = Model(shape, rank, np.concatenate([U.ravel() for U in factors]), model.core, 0.3, affine=True)
    cells = np.stack([rng.integers(p, size=30) for p in shape], axis=1)
    N, Y, tau = rng.uniform(0.5, 3.0, 30), rng.standard_normal(30), 1.7
    for mode, (p, r) in enumerate(zip(shape, rank)):
        q = r - affine
        sizes, A, b = np.exp(rng.standard_normal(q)), np.zeros((p, q, q)), np.zeros((p, q))
        equations(mode, cells, N, Y, 0.3, tau, model.dims, model.rows, model.core, int(affine), sizes, A, b)
        full, says = row_equations(
            model.core.reshape(rank), model.tensor().factors, mode, cells, tau * N, tau * (Y - 0.3 * N)
        )
        if affine:
            full, says = full[:, 1:, 1:], says[:, 1:] - full[:, 1:, 0]
        np.testing.assert_allclose(A, full * np.multiply.outer(sizes, sizes), atol=1e-9)
        np.testing.assert_allclose(b, says * sizes, atol=1e-9)

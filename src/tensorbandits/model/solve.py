"""Weighted least squares for the rows of one factor of a Tucker tensor, with NumPy: for what runs once in a while.

The data are *weighted cells*: per cell a precision ``w`` and a weighted target ``w * y``. Plain rewards
have ``w = N / sigma^2`` and target ``Y / sigma^2``.

Notation
--------
cells (n, d), weight (n,), target (n,)     z_c (r_j,)  what multiplies the row of mode j at cell c
A (p_j, r_j, r_j), b (p_j, r_j)            normal equations of all rows of mode j
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorbandits.tensor.tucker import Floats, Ints, outer_rows, unfold


def row_equations(
    core: Floats, factors: Sequence[Floats], mode: int, cells: Ints, weight: Floats, target: Floats
) -> tuple[Floats, Floats]:
    """Return the normal equations ``A`` (p, r, r) and ``b`` (p, r) of the rows of one mode, given the rest."""
    Z = outer_rows(factors, cells, skip=mode) @ unfold(core, mode).T  # (n, r)
    size, r = factors[mode].shape
    index = cells[:, mode]
    A = np.empty((size, r, r))
    b = np.empty((size, r))
    for a in range(r):
        b[:, a] = np.bincount(index, weights=Z[:, a] * target, minlength=size)
        for c in range(a + 1):
            A[:, a, c] = A[:, c, a] = np.bincount(index, weights=Z[:, a] * Z[:, c] * weight, minlength=size)
    return A, b


def solve_spd(A: Floats, b: Floats) -> Floats:
    """Solve (batches of) symmetric positive definite systems."""
    try:
        L = np.linalg.cholesky(A)
    except np.linalg.LinAlgError:  # weights so large that rounding drowns the prior
        return _solve_scaled(A, b)
    half = np.linalg.solve(L, b[..., None])
    return np.asarray(np.linalg.solve(np.swapaxes(L, -1, -2), half)[..., 0])


def _solve_scaled(A: Floats, b: Floats) -> Floats:
    """Solve as above with the diagonal scaled to 1 and raised by the size of rounding errors."""
    size = A.shape[-1]
    scale = 1.0 / np.sqrt(np.einsum("...ii->...i", A))
    S = A * scale[..., :, None] * scale[..., None, :] + 4 * size * np.finfo(np.float64).eps * np.eye(size)
    return np.asarray(scale * solve_spd(S, b * scale))

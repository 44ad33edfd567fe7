"""Compiled solutions of symmetric equations, with noise: the core of a sweep, and the rows of a factor.

The plain twin is ``solve_spd`` in ``tests/plain/sweep.py``.
"""

from __future__ import annotations

import numpy as np

from tensorbandits.base.compiled import F1, F2, entry, part
from tensorbandits.tensor.tucker import Floats

_ROUNDING = 2.220446049250313e-16


@part
def factorise(A: Floats, columns: Floats) -> bool:
    """Overwrite the lower triangle of a symmetric matrix by its Cholesky factor; say whether that worked.

    ``columns`` is room for four. Four columns are finished at a time and then taken off all later ones at once: the
    innermost loop runs along rows, in vector registers, and passes over the matrix a quarter as often.
    """
    size = len(A)
    for first in range(0, size, 4):
        last = min(first + 4, size)
        for j in range(first, last):
            if not A[j, j] > 0.0:
                return False
            A[j, j] = np.sqrt(A[j, j])
            for i in range(j + 1, size):
                A[i, j] /= A[j, j]
                columns[j - first, i] = A[i, j]
                for k in range(j + 1, min(last, i + 1)):
                    A[i, k] -= A[i, j] * A[k, j]
        if last - first < 4:
            break
        for i in range(last, size - 1, 2):  # two rows at once, which share what is loaded of the columns
            x, y, z, w = A[i, first], A[i, first + 1], A[i, first + 2], A[i, first + 3]
            e, f, g, h = A[i + 1, first], A[i + 1, first + 1], A[i + 1, first + 2], A[i + 1, first + 3]
            for k in range(last, i + 1):
                a, b, c, d = columns[0, k], columns[1, k], columns[2, k], columns[3, k]
                A[i, k] -= x * a + y * b + z * c + w * d
                A[i + 1, k] -= e * a + f * b + g * c + h * d
            A[i + 1, i + 1] -= (
                e * columns[0, i + 1] + f * columns[1, i + 1] + g * columns[2, i + 1] + h * columns[3, i + 1]
            )
        if (size - last) % 2:
            i = size - 1
            x, y, z, w = A[i, first], A[i, first + 1], A[i, first + 2], A[i, first + 3]
            for k in range(last, i + 1):
                A[i, k] -= x * columns[0, k] + y * columns[1, k] + z * columns[2, k] + w * columns[3, k]
    return True


@part
def factorise_scaled(A: Floats, spare: Floats, columns: Floats) -> None:
    """Factorise a matrix whose prior is drowned by rounding, given a copy: raise its diagonal by rounding's size."""
    size = len(A)
    for i in range(size):
        for j in range(i + 1):
            A[i, j] = spare[i, j] / np.sqrt(spare[i, i] * spare[j, j])
        A[i, i] = 1.0 + 4 * size * _ROUNDING
    factorise(A, columns)
    for i in range(size):
        for j in range(i + 1):
            A[i, j] *= np.sqrt(spare[i, i])


@entry((F2, F1, F1, F2))
def draw(A: Floats, b: Floats, noise: Floats, spare: Floats) -> None:
    """Overwrite ``b`` by ``A^-1 b + L^-T noise``, with ``A = L L^T`` given by its lower triangle, which is lost.

    ``spare`` has four lines more than ``A``.
    """
    size = len(b)
    for i in range(size):
        for j in range(i + 1):
            spare[i, j] = A[i, j]
    if not factorise(A, spare[size:]):
        factorise_scaled(A, spare, spare[size:])
    for i in range(size):
        x = b[i]
        for k in range(i):
            x -= A[i, k] * b[k]
        b[i] = x / A[i, i]
    for i in range(size):
        b[i] += noise[i]
    for i in range(size - 1, -1, -1):
        b[i] /= A[i, i]
        for k in range(i):
            b[k] -= A[i, k] * b[i]


@part
def draw_rows(
    E: Floats,
    h: Floats,
    tau: float,
    constant: int,
    precision: Floats,
    mean: Floats,
    noise: Floats,
    start: int,
    rows: Floats,
) -> None:
    """Draw the rows of a mode, given their equations ``E`` (p, r, r), lower triangles, and ``h`` (p, r).

    ``mean``, ``noise`` and ``rows`` have those of the mode from ``start`` on. The first ``constant`` columns, none or
    one, stay as they are.
    """
    p, r = h.shape
    q = r - constant
    A, b, spare = np.empty((q, q)), np.empty(q), np.empty((q + 4, q))
    for i in range(p):
        at = start + i * r
        for a in range(q):
            tie = precision[constant + a]
            x = h[i, constant + a]
            if constant:
                x -= E[i, constant + a, 0] * rows[at]
            b[a] = x * tau + tie * mean[at + constant + a]
            for k in range(a):
                A[a, k] = E[i, constant + a, constant + k] * tau
            A[a, a] = E[i, constant + a, constant + a] * tau + tie
        at += constant
        if q == 2:  # written out, as it takes a third of the time
            pivot = A[1, 1] - A[1, 0] * A[1, 0] / A[0, 0]
            if pivot > 0.0:
                first, last = np.sqrt(A[0, 0]), np.sqrt(pivot)
                ratio = A[1, 0] / first
                x = b[0] / first
                y = ((b[1] - ratio * x) / last + noise[at + 1]) / last
                rows[at] = (x + noise[at] - ratio * y) / first
                rows[at + 1] = y
                continue
        if not draw_few(A, b, noise, at, spare):
            draw(A, b, noise[at : at + q], spare)
        for a in range(q):
            rows[at + a] = b[a]


@part
def draw_few(A: Floats, b: Floats, noise: Floats, at: int, L: Floats) -> bool:
    """Do the same as :func:`draw` with the noise from ``at`` on, sooner if numbers are few; say whether that worked.

    If not, nothing has changed but ``L``, which is room for the Cholesky factor.
    """
    size = len(b)
    for i in range(size):
        for k in range(i + 1):
            x = A[i, k]
            for j in range(k):
                x -= L[i, j] * L[k, j]
            if k < i:
                L[i, k] = x / L[k, k]
            elif x > 0.0:
                L[i, i] = np.sqrt(x)
            else:
                return False
    for i in range(size):
        for k in range(i):
            b[i] -= L[i, k] * b[k]
        b[i] /= L[i, i]
    for i in range(size - 1, -1, -1):
        b[i] += noise[at + i]
        for k in range(i + 1, size):
            b[i] -= L[k, i] * b[k]
        b[i] /= L[i, i]
    return True

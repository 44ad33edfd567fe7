"""Compiled choice of the Polya-Gamma variates that are due, and the moments of those of large shapes.

``tests/model/test_likelihood.py`` does it plainly.
"""

from __future__ import annotations

import numpy as np

from tensorbandits.base.compiled import kernel
from tensorbandits.tensor.tucker import Floats, Ints

_LEAST = 0.02  # of half a tilt: below, powers of it leave few digits of the moments, and differ little from theirs at 0


@kernel
def due(before: Floats, h: Floats, tilt: Floats, turn: int, share: int) -> tuple[Ints, Floats, Floats]:
    """Return the cells whose shape is new, and ``share`` of them from ``turn`` on, all ascending; shapes and tilts."""
    n = len(h)
    cells, shapes, tilts, count = np.empty(n, dtype=np.int64), np.empty(n), np.empty(n), 0
    for c in range(n):
        ahead = c - turn if c >= turn else c - turn + n
        if ahead < share or c >= len(before) or before[c] != h[c]:
            cells[count], shapes[count], tilts[count] = c, h[c], tilt[c]
            count += 1
    return cells[:count], shapes[:count], tilts[:count]


@kernel
def like_gamma(h: Floats, tilt: Floats) -> tuple[Floats, Floats, Floats]:
    """Return shifts, shapes and scales of gamma variates with the first three moments of ``PG(h, tilt)``, each (n,).

    The logarithm of ``E exp(-t omega)`` is ``h (f(z^2 / 4) - f(z^2 / 4 + t / 2))`` with ``f(s) = log cosh sqrt(s)`` and
    ``z`` the tilt, so that the cumulants are the derivatives of ``f`` times ``h / 2``, ``-h / 4`` and ``h / 8``.
    """
    shift, shape, scale = np.empty(len(h)), np.empty(len(h)), np.empty(len(h))
    for c in range(len(h)):
        y = max(tilt[c] / 2.0, _LEAST)
        t = np.tanh(y)
        u = 1.0 - t * t
        mean = h[c] * t / (4.0 * y)
        variance = h[c] * (t - y * u) / (16.0 * y**3)
        third = h[c] * (3.0 * t - 3.0 * y * u - 2.0 * y * y * t * u) / (64.0 * y**5)
        scale[c] = third / (2.0 * variance)
        shape[c] = variance / scale[c] ** 2
        shift[c] = mean - shape[c] * scale[c]
    return shift, shape, scale

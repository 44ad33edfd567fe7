"""Compiled values of a Tucker model at some cells; the plain twin is ``tucker.values_at``."""

from __future__ import annotations

import numpy as np

from tensorbandits.compiled import kernel
from tensorbandits.tensor.tucker import Floats, Ints


@kernel
def values(core: Floats, rows: Floats, dims: Ints, cells: Ints, offset: float) -> Floats:
    """Return the values at cells (n, d), shape (n,), of a model in the layout of the sweeps.

    The core is multiplied by one row per mode, the last mode first, so that what is left stays at its beginning.
    """
    n, d = cells.shape
    start = np.zeros(d + 1, dtype=np.int64)
    for j in range(d):
        start[j + 1] = start[j] + dims[0, j] * dims[1, j]
    left, result = np.empty(len(core)), np.empty(n)
    for c in range(n):
        size = len(core)
        left[:] = core
        for j in range(d - 1, -1, -1):
            r = dims[1, j]
            at = start[j] + cells[c, j] * r
            size //= r
            for q in range(size):
                x = 0.0
                for a in range(r):
                    x += left[q * r + a] * rows[at + a]
                left[q] = x
        result[c] = offset + left[0]
    return result

"""Compiled values of a Tucker model at some cells; the plain twin is ``tucker.values_at``."""

from __future__ import annotations

import numpy as np

from tensorbandits.base.compiled import F1, FLOAT, I1, I2, entry
from tensorbandits.tensor.tucker import Floats, Ints


@entry((F1, F1, I2, I2, I1, FLOAT))
def values(core: Floats, rows: Floats, dims: Ints, cells: Ints, order: Ints, offset: float) -> Floats:
    """Return the values at cells (n, d), shape (n,), of a model in the layout of the sweeps.

    The core is multiplied by one row per mode, the first mode first. In line ``j`` of ``left`` is what is left after
    ``j`` of them; a cell that shares its first levels with the one before, in ``order``, goes on from there.
    """
    n, d = cells.shape
    left, result = np.empty((d + 1, len(core))), np.empty(n)
    for q in range(len(core)):
        left[0, q] = core[q]
    before = -1
    for at in order:
        size, start, same = len(core), 0, before >= 0
        for j in range(d):
            r, level = dims[1, j], cells[at, j]
            size //= r
            same = same and level == cells[before, j]
            if not same:
                u = start + level * r
                for q in range(size):
                    x = 0.0
                    for a in range(r):
                        x += left[j, a * size + q] * rows[u + a]
                    left[j + 1, q] = x
            start += dims[0, j] * r
        before = at
        result[at] = offset + left[d, 0]
    return result

"""Compiled values of a Tucker model at some cells; the plain twin is ``tucker.values_at``."""

from __future__ import annotations

import numpy as np

from tensorbandits.base.compiled import F1, FLOAT, I1, I2, entry
from tensorbandits.tensor.tucker import Floats, Ints


@entry((F1, F1, I2, I1, I1, I2, I1, FLOAT))
def values(
    core: Floats, rows: Floats, dims: Ints, modes: Ints, places: Ints, cells: Ints, order: Ints, offset: float
) -> Floats:
    """Return the values at cells (n, d), shape (n,), of a model in the layout of the sweeps.

    The core is multiplied by one row per mode, as ``modes`` (d,) are sorted; ``places`` (R,) is where the entries of a
    core so sorted stand. In line ``j`` of ``left`` is what is left after ``j`` of them; a cell that shares its first
    levels with the one before, in ``order``, goes on from there. Cells that are not in ``order`` have no value.
    """
    n, d = cells.shape
    left, result = np.empty((d + 1, len(core))), np.empty(n)
    for i in range(len(core)):
        left[0, i] = core[places[i]]
    starts = np.zeros(d + 1, dtype=np.int64)
    for j in range(d):
        starts[j + 1] = starts[j] + dims[0, j] * dims[1, j]
    before = -1
    for at in order:
        size, same = len(core), before >= 0
        for j in range(d):
            mode = modes[j]
            r, level = dims[1, mode], cells[at, mode]
            size //= r
            same = same and level == cells[before, mode]
            if not same:
                u = starts[mode] + level * r
                for q in range(size):
                    x = 0.0
                    for a in range(r):
                        x += left[j, a * size + q] * rows[u + a]
                    left[j + 1, q] = x
        before = at
        result[at] = offset + left[d, 0]
    return result

"""Compiled choice of the Polya-Gamma variates that are due; ``tests/model/test_likelihood.py`` does it plainly."""

from __future__ import annotations

import numpy as np

from tensorbandits.base.compiled import F1, INT, entry
from tensorbandits.tensor.tucker import Floats, Ints


@entry((F1, F1, F1, INT, INT))
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

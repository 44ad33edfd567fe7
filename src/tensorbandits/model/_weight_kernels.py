"""Compiled choice of the Polya-Gamma variates that are due; ``tests/model/test_likelihood.py`` does it plainly."""

from __future__ import annotations

import numpy as np

from tensorbandits.base.compiled import F1, I1, INT, entry
from tensorbandits.tensor.tucker import Floats, Ints


@entry((F1, F1, I1, INT, INT))
def due(before: Floats, h: Floats, order: Ints, turn: int, share: int) -> Ints:
    """Return the cells whose shape is new, and ``share`` of them from ``turn`` on, all as they are in ``order``."""
    n = len(h)
    cells, count = np.empty(n, dtype=np.int64), 0
    for k in range(n):
        ahead, c = k - turn if k >= turn else k - turn + n, order[k]
        if ahead < share or c >= len(before) or before[c] != h[c]:
            cells[count] = c
            count += 1
    return cells[:count]

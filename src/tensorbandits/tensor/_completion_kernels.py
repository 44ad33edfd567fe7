"""The compiled pass of completion over the observed cells. Its plain twin is in ``tests/plain/completion.py``."""

from __future__ import annotations

import numpy as np

from tensorbandits.base.compiled import F1, I2, INT, entry
from tensorbandits.tensor.tucker import Floats, Ints


@entry((I2, F1, I2, F1, INT))
def project_others(cells: Ints, values: Floats, dims: Ints, rows: Floats, mode: int) -> Floats:
    """Return the unfolding along ``mode`` of a sparse tensor projected on all other factors, (p_mode, other ranks).

    ``cells`` (n, d) and ``values`` (n,) are its entries, ``rows`` all factors, raveled and joined mode after mode,
    ``dims`` (2, d) their sizes and ranks.
    """
    n, d = cells.shape
    width = 1
    for j in range(d):
        if j != mode:
            width *= dims[1, j]
    H = np.zeros((dims[0, mode], width))
    if d == 3:  # the usual order, without the list of partial products
        j, k = (1 if mode == 0 else 0), (1 if mode == 2 else 2)
        r, s, second = dims[1, j], dims[1, k], 0
        first = dims[0, 0] * dims[1, 0] if j else 0
        for i in range(k):
            second += dims[0, i] * dims[1, i]
        for c in range(n):
            u, v, i = first + cells[c, j] * r, second + cells[c, k] * s, cells[c, mode]
            for a in range(r):
                y = values[c] * rows[u + a]
                for b in range(s):
                    H[i, a * s + b] += y * rows[v + b]
        return H
    x = np.empty(width)
    for c in range(n):
        x[0] = values[c]
        size, start = 1, 0
        for j in range(d):
            r = dims[1, j]
            if j != mode:
                u = start + cells[c, j] * r
                for q in range(size - 1, -1, -1):
                    y = x[q]
                    for a in range(r - 1, -1, -1):
                        x[q * r + a] = y * rows[u + a]
                size *= r
            start += dims[0, j] * r
        i = cells[c, mode]
        for q in range(width):
            H[i, q] += x[q]
    return H

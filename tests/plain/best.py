"""The best cell of a Tucker tensor by looking at all of them, a block at a time."""

import numpy as np

BLOCK = 2**20  # numbers held at once


def best_index(core, factors, fixed):
    """Return the first cell, in C order, of the largest entry among those with the given levels."""
    factors = [U[[fixed[j]]] if j in fixed else U for j, U in enumerate(factors)]
    rest = np.asarray(core)
    for j, U in enumerate(factors[1:], start=1):
        rest = np.moveaxis(np.tensordot(U, rest, axes=(1, j)), 0, j)
    rest = rest.reshape(core.shape[0], -1)
    rows = max(1, BLOCK // rest.shape[1])
    best_value, best = -np.inf, 0
    for start in range(0, len(factors[0]), rows):
        block = factors[0][start : start + rows] @ rest
        index = int(block.argmax())
        if block.flat[index] > best_value:
            best_value, best = block.flat[index], start * rest.shape[1] + index
    cell = np.unravel_index(best, [len(U) for U in factors])
    return tuple(fixed.get(j, int(i)) for j, i in enumerate(cell))

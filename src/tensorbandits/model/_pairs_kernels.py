"""Compiled steps of the sampler of a tensor of pairs: normal equations that are kept up to date, rows, and scales.

The plain twins are in ``tests/plain/pairs.py``. The notation is that of ``tensor/_pairs_kernels.py``, and::

    beta (K)    the offset, then the main effects of complete modes by column, then all cores
    A, b        normal equations of beta: sums over cells of N f f^T (lower triangle) and of Y f, f a cell's features
    N, Y (n)    precisions of the cells, and their targets times these
"""

from __future__ import annotations

import math

import numpy as np

from tensorbandits.base.compiled import F1, F2, F3, FLOAT, I1, I2, INT, entry, part
from tensorbandits.model._solve_kernels import draw
from tensorbandits.tensor._pairs_kernels import CODE, COLUMNS, HEAD, WIDTH, pair_value
from tensorbandits.tensor.packed import Floats, Ints


@part
def features(
    cell: Ints, plan: Ints, slots: Ints, pair: Ints, codes: Floats, mains: Ints, cores: int, at: Ints, x: Floats
) -> int:
    """Write to ``at`` which entries of beta a cell's value has, ascending, and their factors to ``x``; count them.

    ``mains`` (d,) is where the main effects of each mode start, -1 for a mode that is not complete; ``cores`` where the
    cores start.
    """
    at[0], x[0], count = 0, 1.0, 1
    for j in range(len(cell)):
        if mains[j] >= 0 and plan[WIDTH, j]:
            at[count] = mains[j] + slots[plan[HEAD, j] + cell[j]]
            x[count] = codes[plan[CODE, j] + cell[j]]
            count += 1
    for j in range(len(cell)):
        v, a = plan[WIDTH, j], slots[plan[HEAD, j] + cell[j]]
        here = plan[CODE, j] + cell[j] * v
        for k in range(j + 1, len(cell)):
            if pair[j, k] < 0:
                continue
            w, b = plan[WIDTH, k], slots[plan[HEAD, k] + cell[k]]
            there, start = plan[CODE, k] + cell[k] * w, cores + pair[j, k]
            for s in range(v):
                for t in range(w):
                    at[count] = start + (a + s) * plan[COLUMNS, k] + b + t
                    x[count] = codes[here + s] * codes[there + t]
                    count += 1
    return count


@part
def most_features(plan: Ints) -> int:
    """Return how many entries of beta a cell's value is made of at most."""
    total = 1
    for j in range(plan.shape[1]):
        total += 1
        for k in range(j):
            total += plan[WIDTH, j] * plan[WIDTH, k]
    return total


@entry((I2, F1, I2, I1, I2, F1, I1, INT, F2))
def add_precisions(
    cells: Ints, N: Floats, plan: Ints, slots: Ints, pair: Ints, codes: Floats, mains: Ints, cores: int, A: Floats
) -> None:
    """Add cells of precisions ``N`` (n,), of which many may be 0, to the lower triangle of ``A``."""
    room = most_features(plan)
    at, x = np.empty(room, dtype=np.int64), np.empty(room)
    for c in range(len(cells)):
        if N[c] != 0.0:
            count = features(cells[c], plan, slots, pair, codes, mains, cores, at, x)
            for i in range(count):
                y = N[c] * x[i]
                for j in range(i + 1):
                    A[at[i], at[j]] += y * x[j]


@entry((I2, F1, I2, I1, I2, F1, I1, INT, F1))
def add_targets(
    cells: Ints, Y: Floats, plan: Ints, slots: Ints, pair: Ints, codes: Floats, mains: Ints, cores: int, b: Floats
) -> None:
    """Add cells of targets ``Y`` (n,) to ``b``."""
    room = most_features(plan)
    at, x = np.empty(room, dtype=np.int64), np.empty(room)
    for c in range(len(cells)):
        count = features(cells[c], plan, slots, pair, codes, mains, cores, at, x)
        for i in range(count):
            b[at[i]] += Y[c] * x[i]


@entry((INT, I2, F1, F1, FLOAT, I2, I1, I2, F1, F1, F1, FLOAT, F1, F2, F2, F3, F2))
def redraw_rows(
    mode: int,
    cells: Ints,
    N: Floats,
    Y: Floats,
    tau: float,
    plan: Ints,
    slots: Ints,
    pair: Ints,
    effects: Floats,
    codes: Floats,
    cores: Floats,
    offset: float,
    precision: Floats,
    mean: Floats,
    noise: Floats,
    A: Floats,
    b: Floats,
) -> None:
    """Redraw the main effects and the rows of a mode that is not complete, each level given all others.

    ``Y`` and ``offset`` count from the centre. ``precision`` (1 + q) is the prior's of a main effect and of a row's
    entries, ``mean`` (p, 1 + q) what they are about. ``noise`` (p, 1 + q) is standard normal. ``A`` (p, 1 + q, 1 + q)
    and ``b``, which come with zeros, take the normal equations: what the observations say.
    """
    p, q, d = len(noise), plan[COLUMNS, mode], cells.shape[1]
    head, code = plan[HEAD, mode], plan[CODE, mode]
    z = np.empty(1 + q)
    z[0] = 1.0
    for c in range(len(cells)):
        rest = offset
        for s in range(q):
            z[1 + s] = 0.0
        for j in range(d):
            if j == mode:
                continue
            level = plan[HEAD, j] + cells[c, j]
            rest += effects[level]
            v, a, here = plan[WIDTH, j], slots[level], plan[CODE, j] + cells[c, j] * plan[WIDTH, j]
            for s in range(v if pair[min(j, mode), max(j, mode)] >= 0 else 0):
                for t in range(q):
                    if j < mode:
                        z[1 + t] += cores[pair[j, mode] + (a + s) * q + t] * codes[here + s]
                    else:
                        z[1 + t] += cores[pair[mode, j] + t * plan[COLUMNS, j] + a + s] * codes[here + s]
            for k in range(j):
                if k != mode:
                    other = plan[HEAD, k] + cells[c, k]
                    w = plan[WIDTH, k]
                    there = plan[CODE, k] + cells[c, k] * w
                    rest += pair_value(cores, pair[k, j], plan[COLUMNS, j], codes, there, slots[other], w, here, a, v)
        i, y = cells[c, mode], Y[c] - N[c] * rest
        for s in range(1 + q):
            b[i, s] += y * z[s]
            for t in range(s + 1):
                A[i, s, t] += N[c] * z[s] * z[t]
    L, x, spare = np.empty((1 + q, 1 + q)), np.empty(1 + q), np.empty((q + 5, 1 + q))
    for i in range(p):
        for s in range(1 + q):
            b[i, s] *= tau
            x[s] = b[i, s] + precision[s] * mean[i, s]
            for t in range(s + 1):
                A[i, s, t] *= tau
                A[i, t, s] = A[i, s, t]
                L[s, t] = A[i, s, t]
            L[s, s] += precision[s]
        draw(L, x, noise[i], spare)
        effects[head + i] = x[0]
        for s in range(q):
            codes[code + i * q + s] = x[1 + s]


@entry((F2, F1, FLOAT, F1, I2, F1, F1, F1))
def stretch_blocks(
    A: Floats, b: Floats, tau: float, beta: Floats, blocks: Ints, scales: Floats, hypers: Floats, noise: Floats
) -> None:
    """Redraw the scale of each block of beta together with its entries, which keep their ratios: a non-centred step.

    ``blocks`` (m, 3) has where each starts and ends, and its position in ``scales``; a scale is half-normal with the
    deviation of its ``hypers`` (scales,). So a scale near 0 can be reached and left.
    """
    product, moved = np.zeros(len(beta)), np.empty(len(beta))
    for i in range(len(beta)):  # the product of A and beta, row by row as A stands in memory; it is kept up to date
        x = 0.0
        for j in range(i):
            x += A[i, j] * beta[j]
        product[i] += x
        for j in range(i + 1):
            product[j] += A[i, j] * beta[i]
    for k in range(len(blocks)):
        start, end, which = blocks[k, 0], blocks[k, 1], blocks[k, 2]
        square, slope = 0.0, 0.0
        for i in range(start, end):
            own = 0.0
            for j in range(start, end):
                own += (A[i, j] if j <= i else A[j, i]) * beta[j]
            square += beta[i] * own
            slope += beta[i] * (b[i] - (product[i] - own))
        ratio = scales[which] / hypers[which]
        precision = tau * square + ratio * ratio
        factor = tau * slope / precision + noise[k] / math.sqrt(precision)
        scales[which] = abs(factor) * scales[which]
        for i in range(start, end):
            moved[i] = (factor - 1.0) * beta[i]
            beta[i] *= factor
            for j in range(i + 1):
                product[j] += A[i, j] * moved[i]
            for j in range(i + 1, end):
                product[j] += A[j, i] * moved[i]
        for i in range(end, len(beta)):
            for j in range(start, end):
                product[i] += A[i, j] * moved[j]


@part
def step_scale(
    scale: float, count: int, square: float, hyper: float, least: float, noise: Floats, waits: Floats
) -> float:
    """Return a scale after Metropolis steps on its logarithm, given ``count`` normal numbers with this sum of squares.

    Its prior is half-normal with deviation ``hyper``; it stays above ``least``. ``noise`` is standard normal, ``waits``
    standard exponential, one a step.
    """
    length = 2.0 / math.sqrt(count + 1.0)
    here = max(scale, least)
    for k in range(len(noise)):
        there = here * math.exp(length * noise[k])
        if there < least:
            continue
        gain = (1.0 - count) * (length * noise[k])
        gain -= 0.5 * square * (1.0 / (there * there) - 1.0 / (here * here))
        gain -= 0.5 * (there * there - here * here) / (hyper * hyper)
        if gain > -waits[k]:
            here = there
    return here


@entry((I1, F1, I1, F1, F1, F1, F2, F2))
def step_scales(
    counts: Ints,
    squares: Floats,
    groups: Ints,
    scales: Floats,
    hypers: Floats,
    limits: Floats,
    noise: Floats,
    waits: Floats,
) -> None:
    """Redraw all scales given the numbers of their blocks, then the deviation that each group of scales shares.

    ``groups`` (scales,) says which of the ``hypers`` is a scale's; ``limits`` (1 + hypers,) are the least scale and the
    priors' deviations of the hypers.
    """
    steps = noise.shape[1]
    for k in range(len(scales)):
        if counts[k]:
            scales[k] = step_scale(scales[k], counts[k], squares[k], hypers[groups[k]], limits[0], noise[k], waits[k])
    for g in range(len(hypers)):
        count, square = 0, 0.0
        for k in range(len(scales)):
            if groups[k] == g and counts[k]:
                count += 1
                square += scales[k] * scales[k]
        line = len(scales) + g
        if steps and count:
            hypers[g] = step_scale(hypers[g], count, square, limits[1 + g], limits[0], noise[line], waits[line])

"""Compiled sweeps of a Tucker model over the observed cells: the rows of each mode, then the core with the offset.

One code serves posterior sampling and alternating least squares: a least-squares solution is a draw without noise. The
kernels validate nothing. Their plain twins are in ``tests/plain/sweep.py``.

Cells are sorted by their levels, the smallest mode first, so that fibres are few and long. A *fibre* is a run of cells
that share all levels but the last, a *group* a run of fibres that share all but the last two; so with three modes a
group is a level of the first. What the last mode contributes is summed once a fibre, what the last two contribute once
a group; the rows of all other modes and the core share that. So the last two modes come first in a sweep.

Notation
--------
n, d        observed cells, modes              rows (sum p_j r_j)   all factors, raveled and joined mode after mode
p_j, r_j    sizes and ranks                    core (R)             raveled in C order, R = prod r_j
plan (5,d)  modes as they are sorted: sizes, ranks, constant columns, where rows start, and the prior's columns
N, Y (n)    counts and sums of rewards         x (P)                outer product of the rows of all modes but two
V, W        the factors of the last two modes, of ranks r and s; v and w are rows of theirs
S (P,r,s)   the core with its modes as they are sorted, the leading ones joined
H (.., m (m + 1) / 2), F (.., 2, m)   by group: sums of N (y, y), lower triangles row after row; of N y and of Y y, with
            y = v ⊗ w, m = r s
A, b        normal equations of (offset, core): sums of N f f^T and of Y f over cells, with f = (1, x ⊗ v ⊗ w)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tensorbandits.base.compiled import F1, F2, FLOAT, I1, I2, INT, entry, part, type_of
from tensorbandits.model._solve_kernels import draw, draw_rows
from tensorbandits.tensor.tucker import Floats, Ints

# Positions in ``numbers``, the scalars of a model and of its prior. The offset counts from its prior mean, the centre.
OFFSET, VARIANCE, OFFSET_PRECISION, CENTRE, SCALE, SQUARES, NOISE_RATE = range(7)
FREE, LEARN_GAMMA, LEARN_NOISE = 1, 2, 4  # flags: what a sweep redraws besides rows and core
CONSTANT, ABSENT = -1, -2  # kinds of an entry of the core: the constant of an affine model; one that stays 0

SIZE, RANK, FIXED, START, COLUMN = range(5)  # lines of the plan

Static = tuple[tuple[int, ...], tuple[int, ...]]

# What ``sweeps`` is compiled for: the ranks of the last two modes that a ``Model`` tells the compiler, and any others.
_STATICS: list[Static] = [((), ()), ((0, 0), (0, 0)), ((0, 0, 0), (0, 0, 0))]
_SWEEPS = [
    (I1, I2, F1, F1, I2, I1, I1, type_of(static), F1, F1, F1, F1, F1, F1, I1, F1, F2, F2, INT, F2)
    for static in _STATICS
]


class Tree(NamedTuple):
    """The sorted cells, by groups and fibres; each list of beginnings has the end of the last as one more entry.

    ``N`` are the precisions of the cells, in units of that of a single reward: their counts, if rewards are alike.
    ``Y`` are their targets, each times its precision, about the centre.
    """

    prefixes: Ints  # (groups, d - 2): the levels that a group shares
    groups: Ints  # (groups + 1): the first fibre of each
    seconds: Ints  # (fibres): the level of the last mode but one
    fibres: Ints  # (fibres + 1): the first cell of each
    lasts: Ints  # (n): the level of the last mode
    N: Floats
    Y: Floats


class Sums(NamedTuple):
    """What the last mode contributes to each fibre: sums over its cells, times the row ``w`` once or twice."""

    Nw: Floats  # (fibres, s)
    Nww: Floats  # (fibres, s, s)
    Yw: Floats


class PriorArrays(NamedTuple):
    """The prior means of rows and core, and their precisions.

    That of an entry of a row is the precision of its column; that of an entry of the core is the one of its kind, which
    a sweep may redraw.
    """

    rows: Floats  # (sum p_j r_j)
    core: Floats  # (R)
    precision: Floats  # (sum r_j), mode after mode
    kind: Ints  # (R): a position in gammas, CONSTANT or ABSENT
    gammas: Floats  # (kinds): the core's precisions


@entry((F2, INT))
def measure(table: Floats, n: int) -> tuple[float, float, float]:
    """Return the mean over n cells of their mean reward, that of the square about it, and the sum of squares about it.

    ``table`` is a ledger's: counts, sums and squares of rewards, then their squares about the rewards in the last row.
    """
    centre, square, squares = 0.0, 0.0, 0.0
    for c in range(n):
        centre += table[1, c] / table[0, c]
    centre /= n
    for c in range(n):
        N, mean = table[0, c], table[1, c] / table[0, c]
        shift, deviation = mean - table[4, c], mean - centre
        about = max(table[3, c] - N * shift * shift, 0.0) + N * deviation * deviation
        square += about / N
        squares += about
    return centre, square / n, squares


@entry((F2, F1))
def squared_errors(table: Floats, values: Floats) -> float:
    """Return the sum of squares of all rewards about the ``values`` (n,) of their cells; ``table`` is a ledger's."""
    total = 0.0
    for c in range(len(values)):
        N, mean = table[0, c], table[1, c] / table[0, c]
        shift, deviation = mean - table[4, c], values[c] - mean
        total += max(table[3, c] - N * shift * shift, 0.0) + N * deviation * deviation
    return total


@entry((F1, F1, FLOAT, F1, F1))
def perturb(counts: Floats, before: Floats, faded: float, noise: Floats, total: Floats) -> None:
    """Bring perturbation sums up to date: one for rewards that count for j has variance j.

    Those of ``before`` count ``faded`` times what they did, which leaves their sum too certain by what is added.
    """
    for c in range(len(counts)):
        old = faded * faded * before[c] if c < len(before) else 0.0
        total[c] = faded * total[c] + np.sqrt(max(counts[c] - old, 0.0)) * noise[c]


@part
def lay_out(dims: Ints, modes: Ints) -> Ints:
    """Return the plan of a model whose modes are sorted as ``modes`` says."""
    plan, row, column = np.empty((5, len(modes)), dtype=np.int64), 0, 0
    for j in range(len(modes)):
        for k in range(len(modes)):
            if modes[k] == j:
                plan[SIZE, k], plan[RANK, k], plan[FIXED, k] = dims[SIZE, j], dims[RANK, j], dims[FIXED, j]
                plan[START, k], plan[COLUMN, k] = row, column
        row += dims[SIZE, j] * dims[RANK, j]
        column += dims[RANK, j]
    return plan


@part
def grow(order: Ints, cells: Ints, modes: Ints, precision: Floats, target: Floats, centre: float) -> Tree:
    """Return the tree of the cells (n, d), sorted as ``order`` says, with ``centre`` taken off every target."""
    n, d = cells.shape
    prefixes = np.empty((n, max(d - 2, 0)), dtype=np.int64)
    groups, fibres = np.empty(n + 1, dtype=np.int64), np.empty(n + 1, dtype=np.int64)
    seconds, lasts = np.zeros(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    N, Y = np.empty(n), np.empty(n)
    last, second = modes[d - 1], modes[max(d - 2, 0)]
    g, f = 0, 0
    for c in range(n):
        at = order[c]
        before = order[max(c - 1, 0)]
        new_group = c == 0
        for j in range(d - 2):
            new_group = new_group or cells[at, modes[j]] != cells[before, modes[j]]
        if new_group:
            for j in range(d - 2):
                prefixes[g, j] = cells[at, modes[j]]
            groups[g] = f
            g += 1
        if new_group or (d > 1 and cells[at, second] != cells[before, second]):
            if d > 1:
                seconds[f] = cells[at, second]
            fibres[f] = c
            f += 1
        lasts[c] = cells[at, last]
        N[c] = precision[at]
        Y[c] = target[at] - centre * precision[at]
    groups[g], fibres[f] = f, n
    return Tree(prefixes[:g], groups[: g + 1], seconds[:f], fibres[: f + 1], lasts, N, Y)


# Groups: the modes before the last two.


@part
def leave_out(prefixes: Ints, plan: Ints, rows: Floats, mode: int, g: int, x: Floats, line: int, column: Ints) -> None:
    """Set ``x[line]`` (P) to a group's ``x`` with ones for the row of ``mode``, ``column`` to the column of each entry.

    That is the outer product of the rows of all modes but the last two; without such a mode (-1), of them all.
    """
    x[line, 0], column[0] = 1.0, 0
    size = 1
    for j in range(prefixes.shape[1]):
        r = plan[RANK, j]
        u = plan[START, j] + prefixes[g, j] * r
        for q in range(size - 1, -1, -1):
            y, before = x[line, q], column[q]
            for a in range(r - 1, -1, -1):
                x[line, q * r + a] = y if j == mode else y * rows[u + a]
                column[q * r + a] = a if j == mode else before
        size *= r


@part
def add_groups(prefixes: Ints, plan: Ints, rows: Floats, mode: int, E: Floats, h: Floats, A: Floats, b: Floats) -> None:
    """Add the equations ``E``, ``h`` of the ``x`` of all groups to those of the rows of a mode, ``A`` and ``b``."""
    P = h.shape[1]
    y, column = np.empty((1, P)), np.empty(P, dtype=np.int64)
    for g in range(len(h)):
        leave_out(prefixes, plan, rows, mode, g, y, 0, column)
        level = prefixes[g, mode]
        for i in range(P):
            b[level, column[i]] += y[0, i] * h[g, i]
            for j in range(P):
                A[level, column[i], column[j]] += y[0, i] * y[0, j] * (E[g, i, j] if j <= i else E[g, j, i])


# Fibres: the last two modes. ``static`` carries their ranks r and s as the lengths of tuples, so that the compiler
# knows them and writes out all short loops: twice as fast. Empty tuples stand for ranks that it does not know.


@part
def sum_fibres(tree: Tree, W: Floats, static: Static, sums: Sums) -> None:
    """Sum what the last mode contributes to each fibre; those of few cells are left out, as nobody asks for theirs."""
    s = len(static[1]) or W.shape[1]
    for f in range(len(tree.seconds)):
        if tree.fibres[f + 1] - tree.fibres[f] <= s:
            continue
        for a in range(s):
            sums.Nw[f, a] = sums.Yw[f, a] = 0.0
            for e in range(s):
                sums.Nww[f, a, e] = 0.0
        for c in range(tree.fibres[f], tree.fibres[f + 1]):
            k, N, Y = tree.lasts[c], tree.N[c], tree.Y[c]
            for a in range(s):
                sums.Nw[f, a] += N * W[k, a]
                sums.Yw[f, a] += Y * W[k, a]
                for e in range(s):
                    sums.Nww[f, a, e] += N * W[k, a] * W[k, e]


@part
def set_up_second(
    tree: Tree, sums: Sums, static: Static, M: Floats, p: int, W: Floats, offset: float
) -> tuple[Floats, Floats]:
    """Return the equations of the ``p`` rows of the last mode but one; ``M[g] = S x_1 x`` (r, s).

    A fibre of few cells is added cell by cell, any other by way of the product of ``M`` and the fibre's sums.
    """
    r, s = len(static[0]) or M.shape[1], len(static[1]) or M.shape[2]
    E, h = np.zeros((p, r, r)), np.zeros((p, r))
    z, T = np.empty(r), np.empty((r, s))
    for g in range(len(tree.groups) - 1):
        for f in range(tree.groups[g], tree.groups[g + 1]):
            i = tree.seconds[f]
            if tree.fibres[f + 1] - tree.fibres[f] <= s:
                for c in range(tree.fibres[f], tree.fibres[f + 1]):
                    k, N = tree.lasts[c], tree.N[c]
                    Y = tree.Y[c] - offset * N
                    for a in range(r):
                        x = 0.0
                        for e in range(s):
                            x += M[g, a, e] * W[k, e]
                        z[a] = x
                        h[i, a] += Y * x
                        x *= N
                        for e in range(a + 1):
                            E[i, a, e] += x * z[e]
                continue
            for a in range(r):
                x = 0.0
                for c in range(s):
                    x += M[g, a, c] * (sums.Yw[f, c] - offset * sums.Nw[f, c])
                h[i, a] += x
                for e in range(s):
                    x = 0.0
                    for c in range(s):
                        x += M[g, a, c] * sums.Nww[f, c, e]
                    T[a, e] = x
                for k in range(a + 1):
                    x = 0.0
                    for e in range(s):
                        x += T[a, e] * M[g, k, e]
                    E[i, a, k] += x
    return E, h


@part
def set_up_last(tree: Tree, static: Static, M: Floats, V: Floats, W: Floats, offset: float) -> tuple[Floats, Floats]:
    """Return the equations of the rows of the last mode."""
    r, s = len(static[0]) or M.shape[1], len(static[1]) or M.shape[2]
    E, h, z = np.zeros((len(W), s, s)), np.zeros((len(W), s)), np.empty(s)
    for g in range(len(M)):
        for f in range(tree.groups[g], tree.groups[g + 1]):
            j = tree.seconds[f]
            for c in range(s):
                z[c] = 0.0
                for a in range(r):
                    z[c] += M[g, a, c] * V[j, a]
            for c in range(tree.fibres[f], tree.fibres[f + 1]):
                k, N = tree.lasts[c], tree.N[c]
                Y = tree.Y[c] - offset * N
                for a in range(s):
                    h[k, a] += Y * z[a]
                    for e in range(a + 1):
                        E[k, a, e] += N * z[a] * z[e]
    return E, h


@part
def sum_groups(tree: Tree, sums: Sums, static: Static, V: Floats, W: Floats, H: Floats, F: Floats) -> None:
    """Sum over each group the products of ``y``, the outer product of ``v`` and ``w``, with itself, and ``y`` alone."""
    r, s = len(static[0]) or V.shape[1], len(static[1]) or W.shape[1]
    m, y = r * s, np.empty(r * s)
    for g in range(len(H)):
        for i in range(H.shape[1]):
            H[g, i] = 0.0
        for i in range(m):
            F[g, 0, i] = F[g, 1, i] = 0.0
        for f in range(tree.groups[g], tree.groups[g + 1]):
            v = tree.seconds[f]
            if tree.fibres[f + 1] - tree.fibres[f] <= s:
                for c in range(tree.fibres[f], tree.fibres[f + 1]):
                    k, N, Y = tree.lasts[c], tree.N[c], tree.Y[c]
                    for a in range(r):
                        for e in range(s):
                            y[a * s + e] = V[v, a] * W[k, e]
                    at = 0
                    for i in range(m):
                        x = N * y[i]
                        F[g, 0, i] += x
                        F[g, 1, i] += Y * y[i]
                        for j in range(i + 1):
                            H[g, at + j] += x * y[j]
                        at += i + 1
                continue
            at = 0
            for a in range(r):
                for c in range(s):
                    F[g, 0, a * s + c] += V[v, a] * sums.Nw[f, c]
                    F[g, 1, a * s + c] += V[v, a] * sums.Yw[f, c]
                    for k in range(a + 1):
                        x = V[v, a] * V[v, k]
                        for e in range(s if k < a else c + 1):
                            H[g, at + k * s + e] += x * sums.Nww[f, c, e]
                    at += a * s + c + 1


@part
def set_up_groups(H: Floats, F: Floats, S: Floats, offset: float, static: Static) -> tuple[Floats, Floats]:
    """Return the equations of the ``x`` of all groups, (groups, P, P), lower triangles, and (groups, P)."""
    P, m = len(S), (len(static[0]) or S.shape[1]) * (len(static[1]) or S.shape[2])
    E, h = np.zeros((len(H), P, P)), np.zeros((len(H), P))
    T, full, flat = np.empty(m), np.empty((m, m)), S.reshape((P, m))
    for g in range(len(H)):
        at = 0
        for i in range(m):
            for j in range(i + 1):
                full[i, j] = full[j, i] = H[g, at]
                at += 1
        for a in range(P):
            T[:] = 0.0
            for i in range(m):
                x = flat[a, i]
                h[g, a] += x * (F[g, 1, i] - offset * F[g, 0, i])
                for j in range(m):
                    T[j] += x * full[i, j]
            for k in range(a + 1):
                x = 0.0
                for j in range(m):
                    x += T[j] * flat[k, j]
                E[g, a, k] = x
    return E, h


@part
def redraw_prefixes(
    tree: Tree,
    plan: Ints,
    static: Static,
    rows: Floats,
    S: Floats,
    H: Floats,
    F: Floats,
    offset: float,
    tau: float,
    prior: PriorArrays,
    noise: Floats,
) -> None:
    """Redraw the rows of all modes but the last two, given the sums of groups."""
    modes = plan.shape[1] - 2
    if modes < 1:
        return
    E, h = set_up_groups(H, F, S, offset, static)
    for mode in range(modes):
        p, q, first = plan[SIZE, mode], plan[RANK, mode], plan[COLUMN, mode]
        A, b = np.zeros((p, q, q)), np.zeros((p, q))
        add_groups(tree.prefixes, plan, rows, mode, E, h, A, b)
        ties = prior.precision[first : first + q]
        draw_rows(A, b, tau, plan[FIXED, mode], ties, prior.rows, noise, plan[START, mode], rows)


@part
def set_up_core(tree: Tree, m: int, X: Floats, H: Floats, F: Floats, A: Floats, b: Floats) -> None:
    """Set up the equations ``A`` (lower triangle) and ``b`` of offset and core, given the sums of groups."""
    P = X.shape[1]
    Q = np.zeros((P * (P + 1) // 2, H.shape[1]))  # sums of N times products of x and of y
    for i in range(len(b)):
        b[i] = 0.0
        for k in range(len(b)):
            A[i, k] = 0.0
    for c in range(len(tree.N)):
        A[0, 0] += tree.N[c]
        b[0] += tree.Y[c]
    for g in range(len(X)):
        pair = 0
        for a in range(P):
            for i in range(m):
                A[1 + a * m + i, 0] += X[g, a] * F[g, 0, i]
                b[1 + a * m + i] += X[g, a] * F[g, 1, i]
            for k in range(a + 1):
                x = X[g, a] * X[g, k]
                for i in range(H.shape[1]):
                    Q[pair, i] += x * H[g, i]
                pair += 1
    spread(Q, P, m, A)


@part
def spread(Q: Floats, P: int, m: int, A: Floats) -> None:
    """Put the sums ``Q``, by pairs of entries of ``x`` and of ``y``, to where the equations ``A`` have them."""
    pair = 0
    for a in range(P):
        for k in range(a + 1):
            at = 0
            for i in range(m):
                for j in range(i + 1):
                    x = Q[pair, at]
                    A[1 + a * m + i, 1 + k * m + j] = x
                    A[1 + a * m + j, 1 + k * m + i] = x  # of the last block not needed, but in the way
                    at += 1
            pair += 1


# Whole sweeps.


@part
def redraw_core(
    core: Floats, numbers: Floats, flags: int, prior: PriorArrays, noise: Floats, A: Floats, b: Floats
) -> None:
    """Redraw offset and core, or the core alone, given their equations."""
    fixed = 0 if flags & FREE else 1
    tau, size = 1.0 / numbers[VARIANCE], len(b) - fixed
    L, x = np.empty((size, size)), np.empty(size)
    for i in range(size):
        entry = i + fixed - 1
        kind = CONSTANT if entry < 0 else prior.kind[entry]
        if kind == ABSENT:
            for k in range(i):
                L[i, k] = 0.0
            L[i, i], x[i] = 1.0, 0.0
            continue
        precision = numbers[OFFSET_PRECISION] if kind == CONSTANT else prior.gammas[kind]
        centre = 0.0 if entry < 0 else prior.core[entry]
        for k in range(i + 1):
            L[i, k] = tau * A[i + fixed, k + fixed]
            if k + fixed > 0 and prior.kind[k + fixed - 1] == ABSENT:
                L[i, k] = 0.0
        L[i, i] += precision
        x[i] = tau * b[i + fixed] + precision * centre
    draw(L, x, noise[fixed:], np.empty((size + 4, size)))
    if not fixed:
        numbers[OFFSET] = (numbers[CENTRE] + x[0]) - numbers[CENTRE]  # rounded as it is between two calls
    for i in range(len(core)):
        core[i] = 0.0 if prior.kind[i] == ABSENT else x[i + 1 - fixed]


@part
def redraw_scales(
    core: Floats, numbers: Floats, flags: int, prior: PriorArrays, gammas: Floats, A: Floats, b: Floats
) -> None:
    """Redraw the precisions of the core's prior and the noise variance, given standard gamma variates."""
    if flags & LEARN_GAMMA:
        for k in range(len(prior.gammas)):
            squares = 0.0
            for i in range(len(core)):
                if prior.kind[i] == k:
                    squares += core[i] * core[i]
            prior.gammas[k] = 2.0 * gammas[k] / (numbers[SCALE] ** 2 + squares)
    if flags & LEARN_NOISE:
        offset = numbers[OFFSET]
        errors = numbers[SQUARES] + offset * (offset * A[0, 0] - 2.0 * b[0])
        for i in range(1, len(b)):
            x = offset * A[i, 0] - b[i]
            for k in range(1, i):
                x += A[i, k] * core[k - 1]
            errors += core[i - 1] * (2.0 * x + A[i, i] * core[i - 1])
        numbers[VARIANCE] = (numbers[NOISE_RATE] + max(errors, 0.0) / 2.0) / gammas[-1]


@entry(*_SWEEPS)
def sweeps(
    order: Ints,
    cells: Ints,
    precision: Floats,
    target: Floats,
    dims: Ints,
    modes: Ints,
    places: Ints,
    static: Static,
    rows: Floats,
    core: Floats,
    numbers: Floats,
    prior_rows: Floats,
    prior_core: Floats,
    prior_precision: Floats,
    kind: Ints,
    prior_gammas: Floats,
    noise: Floats,
    gammas: Floats,
    flags: int,
    kept: Floats,
) -> None:
    """Sweep as often as there are lines of ``noise``, changing ``rows``, ``core`` and ``numbers`` in place.

    ``modes`` (d,) is how cells are sorted, ``places`` (R,) where the entries of a core whose modes are in that order
    stand in ``core``. A line of ``noise`` holds standard normal variates for all rows, then for the offset and the core
    with its modes in that order; a line of ``gammas`` standard gamma variates for the core's precisions, then for the
    noise. The lines of ``kept`` take rows, core and offset as they are after equal shares of the sweeps. One mode alone
    gets a second, of a single level whose row stays 1. The parts of the prior come one by one, as a tuple of them takes
    a while to unpack.
    """
    tree = grow(order, cells, modes, precision, target, numbers[CENTRE])
    plan = lay_out(dims, modes)
    R, d = len(core), len(modes)
    own, own_prior, own_kind = np.empty(R), np.empty(R), np.empty(R, dtype=np.int64)
    for i in range(R):
        own[i], own_prior[i], own_kind[i] = core[places[i]], prior_core[places[i]], kind[places[i]]
    prior = PriorArrays(prior_rows, own_prior, prior_precision, own_kind, prior_gammas)
    r, s = (plan[RANK, d - 2] if d > 1 else 1), plan[RANK, d - 1]
    second, third = plan[START, max(d - 2, 0)], plan[START, d - 1]
    P = R // (r * s)
    S = own.reshape((P, r, s))
    V = rows[second : second + plan[SIZE, d - 2] * r].reshape((-1, r)) if d > 1 else np.ones((1, 1))
    W = rows[third : third + plan[SIZE, d - 1] * s].reshape((-1, s))
    X = np.empty((len(tree.groups) - 1, P))
    M = np.empty((len(X), r, s))
    H, F = np.empty((len(X), r * s * (r * s + 1) // 2)), np.empty((len(X), 2, r * s))
    f = len(tree.seconds)
    sums = Sums(np.empty((f, s)), np.empty((f, s, s)), np.empty((f, s)))
    A, b = np.empty((1 + R, 1 + R)), np.empty(1 + R)
    column = np.empty(P, dtype=np.int64)
    sum_fibres(tree, W, static, sums)
    for g in range(len(X)):
        leave_out(tree.prefixes, plan, rows, -1, g, X, g, column)
    for t in range(len(noise)):
        tau, offset = 1.0 / numbers[VARIANCE], numbers[OFFSET]
        multiply(X, S, static, M)
        if d > 1:
            E, h = set_up_second(tree, sums, static, M, len(V), W, offset)
            ties = prior.precision[plan[COLUMN, d - 2] : plan[COLUMN, d - 2] + r]
            draw_rows(E, h, tau, plan[FIXED, d - 2], ties, prior.rows, noise[t], second, rows)
        E, h = set_up_last(tree, static, M, V, W, offset)
        ties = prior.precision[plan[COLUMN, d - 1] : plan[COLUMN, d - 1] + s]
        draw_rows(E, h, tau, plan[FIXED, d - 1], ties, prior.rows, noise[t], third, rows)
        sum_fibres(tree, W, static, sums)
        sum_groups(tree, sums, static, V, W, H, F)
        redraw_prefixes(tree, plan, static, rows, S, H, F, offset, tau, prior, noise[t])
        for g in range(len(X)):
            leave_out(tree.prefixes, plan, rows, -1, g, X, g, column)
        set_up_core(tree, r * s, X, H, F, A, b)
        redraw_core(own, numbers, flags, prior, noise[t, len(rows) :], A, b)
        redraw_scales(own, numbers, flags, prior, gammas[t], A, b)
        if t + 1 == len(noise) or ((t + 1) * len(kept) % len(noise) == 0 and len(kept)):
            for i in range(R):
                core[places[i]] = own[i]
        if (t + 1) * len(kept) % len(noise) == 0 and len(kept):
            at = (t + 1) * len(kept) // len(noise) - 1
            copy(rows, kept, at, 0)
            copy(core, kept, at, len(rows))
            kept[at, -1] = numbers[CENTRE] + numbers[OFFSET]


@part
def copy(numbers: Floats, lines: Floats, line: int, start: int) -> None:
    """Copy numbers to a line, from ``start`` on."""
    for i in range(len(numbers)):
        lines[line, start + i] = numbers[i]


@part
def multiply(X: Floats, S: Floats, static: Static, M: Floats) -> None:
    """Set ``M[g] = S x_1 x`` for the ``x`` of every group."""
    P, r, s = S.shape[0], len(static[0]) or S.shape[1], len(static[1]) or S.shape[2]
    for g in range(len(X)):
        for a in range(r):
            for c in range(s):
                M[g, a, c] = 0.0
                for k in range(P):
                    M[g, a, c] += S[k, a, c] * X[g, k]


@entry((F2, I2, I2))
def values_of_lines(lines: Floats, dims: Ints, cells: Ints) -> Floats:
    """Return the values at cells (n, d) of models whose numbers are ``lines`` (m, rows + core + 1), shape (n, m)."""
    n, d, size, rows = len(cells), dims.shape[1], 1, 0
    for j in range(d):
        size *= dims[1, j]
        rows += dims[0, j] * dims[1, j]
    values, x = np.empty((n, len(lines))), np.empty(size)
    for c in range(n):
        for t in range(len(lines)):
            for q in range(size):
                x[q] = lines[t, rows + q]
            left, start = size, 0
            for j in range(d):
                r = dims[1, j]
                left //= r
                at = start + cells[c, j] * r
                for q in range(left):
                    total = 0.0
                    for a in range(r):
                        total += lines[t, at + a] * x[a * left + q]
                    x[q] = total
                start += dims[0, j] * r
            values[c, t] = lines[t, -1] + x[0]
    return values

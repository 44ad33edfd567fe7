"""Compiled sweeps of a Tucker model over the observed cells: the rows of each mode, then the core with the offset.

One code serves posterior sampling and alternating least squares: a least-squares solution is a draw without noise. The
kernels validate nothing. Their plain twins are in ``tests/plain/sweep.py``.

Cells are sorted by their levels, first mode first. A *fibre* is a run of cells that share all levels but the last, a
*group* a run of fibres that share all but the last two; so with three modes a group is a level of the first. What the
last mode contributes is summed once a fibre, what the last two contribute once a group.

Notation
--------
n, d        observed cells, modes              rows (sum p_j r_j)   all factors, raveled and joined mode after mode
p_j, r_j    sizes and ranks                    core (R)             raveled in C order, R = prod r_j
N, Y (n)    counts and sums of rewards         x (P)                outer product of the rows of all modes but two
V, W        the factors of the last two modes, of ranks r and s; v and w are rows of theirs
S (P,r,s)   the core, its leading modes joined
A, b        normal equations of (offset, core): sums of N f f^T and of Y f over cells, with f = (1, x ⊗ v ⊗ w)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tensorbandits.base.compiled import F1, F2, FLOAT, I1, I2, INT, entry, part, type_of
from tensorbandits.tensor.tucker import Floats, Ints

# Positions in ``numbers``, the scalars of a model and of its prior. The offset counts from its prior mean, the centre.
OFFSET, VARIANCE, OFFSET_PRECISION, CENTRE, SCALE, SQUARES, NOISE_RATE = range(7)
FREE, LEARN_GAMMA, LEARN_NOISE = 1, 2, 4  # flags: what a sweep redraws besides rows and core
CONSTANT, ABSENT = -1, -2  # kinds of an entry of the core: the constant of an affine model; one that stays 0

Static = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]

# What ``sweeps`` is compiled for: the ranks that a ``Model`` tells the compiler, and any others.
_STATICS: list[Static] = [((), (), ()), *(((0,) * 2 ** (d - 2), (0, 0), (0, 0)) for d in (2, 3, 4))]
_SWEEPS = [
    (I1, I2, F1, F1, I2, type_of(static), F1, F1, F1, F1, F1, F1, I1, F1, F2, F2, INT, F2) for static in _STATICS
]

_ROUNDING = 2.220446049250313e-16


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

    N: Floats  # (fibres)
    Nw: Floats  # (fibres, s)
    Nww: Floats  # (fibres, s, s)
    Y: Floats
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
def grow(order: Ints, cells: Ints, precision: Floats, target: Floats, centre: float) -> Tree:
    """Return the tree of the cells (n, d), sorted as ``order`` says, with ``centre`` taken off every target."""
    n, d = cells.shape
    prefixes = np.empty((n, max(d - 2, 0)), dtype=np.int64)
    groups, fibres = np.empty(n + 1, dtype=np.int64), np.empty(n + 1, dtype=np.int64)
    seconds, lasts = np.zeros(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    N, Y = np.empty(n), np.empty(n)
    g, f = 0, 0
    for c in range(n):
        at = order[c]
        before = order[max(c - 1, 0)]
        new_group = c == 0
        for j in range(d - 2):
            new_group = new_group or cells[at, j] != cells[before, j]
        if new_group:
            for j in range(d - 2):
                prefixes[g, j] = cells[at, j]
            groups[g] = f
            g += 1
        if new_group or (d > 1 and cells[at, d - 2] != cells[before, d - 2]):
            if d > 1:
                seconds[f] = cells[at, d - 2]
            fibres[f] = c
            f += 1
        lasts[c] = cells[at, d - 1]
        N[c] = precision[at]
        Y[c] = target[at] - centre * precision[at]
    groups[g], fibres[f] = f, n
    return Tree(prefixes[:g], groups[: g + 1], seconds[:f], fibres[: f + 1], lasts, N, Y)


# Solving.


@part
def factorise(A: Floats, columns: Floats) -> bool:
    """Overwrite the lower triangle of a symmetric matrix by its Cholesky factor; say whether that worked.

    ``columns`` is room for four. Four columns are finished at a time and then taken off all later ones at once: the
    innermost loop runs along rows, in vector registers, and passes over the matrix a quarter as often.
    """
    size = len(A)
    for first in range(0, size, 4):
        last = min(first + 4, size)
        for j in range(first, last):
            if not A[j, j] > 0.0:
                return False
            A[j, j] = np.sqrt(A[j, j])
            for i in range(j + 1, size):
                A[i, j] /= A[j, j]
                columns[j - first, i] = A[i, j]
                for k in range(j + 1, min(last, i + 1)):
                    A[i, k] -= A[i, j] * A[k, j]
        if last - first < 4:
            break
        for i in range(last, size):
            x, y, z, w = A[i, first], A[i, first + 1], A[i, first + 2], A[i, first + 3]
            for k in range(last, i + 1):
                A[i, k] -= x * columns[0, k] + y * columns[1, k] + z * columns[2, k] + w * columns[3, k]
    return True


@part
def factorise_scaled(A: Floats, spare: Floats, columns: Floats) -> None:
    """Factorise a matrix whose prior is drowned by rounding, given a copy: raise its diagonal by rounding's size."""
    size = len(A)
    for i in range(size):
        for j in range(i + 1):
            A[i, j] = spare[i, j] / np.sqrt(spare[i, i] * spare[j, j])
        A[i, i] = 1.0 + 4 * size * _ROUNDING
    factorise(A, columns)
    for i in range(size):
        for j in range(i + 1):
            A[i, j] *= np.sqrt(spare[i, i])


@entry((F2, F1, F1, F2))
def draw(A: Floats, b: Floats, noise: Floats, spare: Floats) -> None:
    """Overwrite ``b`` by ``A^-1 b + L^-T noise``, with ``A = L L^T`` given by its lower triangle, which is lost.

    ``spare`` has four lines more than ``A``.
    """
    size = len(b)
    for i in range(size):
        for j in range(i + 1):
            spare[i, j] = A[i, j]
    if not factorise(A, spare[size:]):
        factorise_scaled(A, spare, spare[size:])
    for i in range(size):
        x = b[i]
        for k in range(i):
            x -= A[i, k] * b[k]
        b[i] = x / A[i, i]
    for i in range(size):
        b[i] += noise[i]
    for i in range(size - 1, -1, -1):
        b[i] /= A[i, i]
        for k in range(i):
            b[k] -= A[i, k] * b[i]


@part
def draw_rows(
    E: Floats,
    h: Floats,
    tau: float,
    constant: int,
    precision: Floats,
    mean: Floats,
    noise: Floats,
    start: int,
    rows: Floats,
) -> None:
    """Draw the rows of a mode, given their equations ``E`` (p, r, r), lower triangles, and ``h`` (p, r).

    ``mean``, ``noise`` and ``rows`` have those of the mode from ``start`` on. The first ``constant`` columns, none or
    one, stay as they are.
    """
    p, r = h.shape
    q = r - constant
    A, b, spare = np.empty((q, q)), np.empty(q), np.empty((q + 4, q))
    for i in range(p):
        at = start + i * r
        for a in range(q):
            tie = precision[constant + a]
            x = h[i, constant + a]
            if constant:
                x -= E[i, constant + a, 0] * rows[at]
            b[a] = x * tau + tie * mean[at + constant + a]
            for k in range(a):
                A[a, k] = E[i, constant + a, constant + k] * tau
            A[a, a] = E[i, constant + a, constant + a] * tau + tie
        at += constant
        if q == 2:  # written out, as it takes a third of the time
            pivot = A[1, 1] - A[1, 0] * A[1, 0] / A[0, 0]
            if pivot > 0.0:
                first, last = np.sqrt(A[0, 0]), np.sqrt(pivot)
                ratio = A[1, 0] / first
                x = b[0] / first
                y = ((b[1] - ratio * x) / last + noise[at + 1]) / last
                rows[at] = (x + noise[at] - ratio * y) / first
                rows[at + 1] = y
                continue
        draw(A, b, noise[at : at + q], spare)
        for a in range(q):
            rows[at + a] = b[a]


# Groups: the modes before the last two.


@part
def leave_out(prefix: Ints, dims: Ints, rows: Floats, mode: int, y: Floats, column: Ints) -> None:
    """Set ``y`` (P) to a group's ``x`` with ones for the row of ``mode``, ``column`` to the column of each entry.

    That is the outer product of the rows of all modes but the last two; without such a mode (-1), of them all.
    """
    y[0], column[0] = 1.0, 0
    size, start = 1, 0
    for j in range(len(prefix)):
        p, r = dims[0, j], dims[1, j]
        u = start + prefix[j] * r
        for q in range(size - 1, -1, -1):
            x, before = y[q], column[q]
            for a in range(r - 1, -1, -1):
                y[q * r + a] = x if j == mode else x * rows[u + a]
                column[q * r + a] = a if j == mode else before
        size *= r
        start += p * r


@part
def add_group(E: Floats, h: Floats, y: Floats, column: Ints, A: Floats, b: Floats) -> None:
    """Add the equations ``E``, ``h`` of a group's ``x`` to those of the row that ``y`` and ``column`` leave out."""
    for i in range(len(y)):
        b[column[i]] += y[i] * h[i]
        for j in range(len(y)):
            A[column[i], column[j]] += y[i] * y[j] * (E[i, j] if j <= i else E[j, i])


# Fibres: the last two modes. ``static`` carries the ranks P, r, s as the lengths of tuples, so that the compiler knows
# them and writes out all short loops: twice as fast. Empty tuples stand for ranks that it does not know.


@part
def sum_fibres(tree: Tree, W: Floats, static: Static, sums: Sums) -> None:
    """Sum what the last mode contributes to each fibre."""
    s = len(static[2]) or W.shape[1]
    for f in range(len(tree.seconds)):
        sums.N[f] = sums.Y[f] = 0.0
        for a in range(s):
            sums.Nw[f, a] = sums.Yw[f, a] = 0.0
            for e in range(s):
                sums.Nww[f, a, e] = 0.0
        for c in range(tree.fibres[f], tree.fibres[f + 1]):
            k, N, Y = tree.lasts[c], tree.N[c], tree.Y[c]
            sums.N[f] += N
            sums.Y[f] += Y
            for a in range(s):
                sums.Nw[f, a] += N * W[k, a]
                sums.Yw[f, a] += Y * W[k, a]
                for e in range(s):
                    sums.Nww[f, a, e] += N * W[k, a] * W[k, e]


@part
def add_fibre(
    sums: Sums, f: int, offset: float, M: Floats, m: int, q: int, s: int, E: Floats, h: Floats, i: int
) -> None:
    """Add a fibre to the equations ``E[i]``, ``h[i]`` of what ``M[m]`` (q, s) multiplies."""
    for a in range(q):
        x = 0.0
        for c in range(s):
            x += M[m, a, c] * (sums.Yw[f, c] - offset * sums.Nw[f, c])
        h[i, a] += x
        for k in range(a + 1):
            x = 0.0
            for c in range(s):
                for e in range(s):
                    x += M[m, a, c] * sums.Nww[f, c, e] * M[m, k, e]
            E[i, a, k] += x


@part
def add_long_fibre(
    sums: Sums, f: int, offset: float, M: Floats, m: int, q: int, s: int, E: Floats, h: Floats, i: int, T: Floats
) -> None:
    """Do the same by way of ``T`` (q, s), the product of ``M[m]`` and the fibre's sums: sooner where q is above s."""
    for a in range(q):
        x = 0.0
        for c in range(s):
            x += M[m, a, c] * (sums.Yw[f, c] - offset * sums.Nw[f, c])
        h[i, a] += x
        for e in range(s):
            x = 0.0
            for c in range(s):
                x += M[m, a, c] * sums.Nww[f, c, e]
            T[a, e] = x
        for k in range(a + 1):
            x = 0.0
            for e in range(s):
                x += T[a, e] * M[m, k, e]
            E[i, a, k] += x


@part
def redraw_prefixes(
    tree: Tree,
    sums: Sums,
    dims: Ints,
    static: Static,
    rows: Floats,
    S: Floats,
    V: Floats,
    offset: float,
    tau: float,
    prior: PriorArrays,
    noise: Floats,
) -> None:
    """Redraw the rows of all modes but the last two."""
    P, r, s = len(static[0]) or S.shape[0], len(static[1]) or S.shape[1], len(static[2]) or S.shape[2]
    M = np.zeros((len(V), P, s))  # S x_2 v
    for j in range(len(V)):
        for a in range(P):
            for k in range(r):
                for c in range(s):
                    M[j, a, c] += S[a, k, c] * V[j, k]
    groups, modes = len(tree.groups) - 1, dims.shape[1] - 2
    E, h = np.zeros((groups, P, P)), np.zeros((groups, P))
    T = np.empty((P, s))
    for g in range(groups if modes else 0):
        for f in range(tree.groups[g], tree.groups[g + 1]):
            if s < P and not len(static[0]):
                add_long_fibre(sums, f, offset, M, tree.seconds[f], P, s, E, h, g, T)
            else:
                add_fibre(sums, f, offset, M, tree.seconds[f], P, s, E, h, g)
    y, column = np.empty(P), np.empty(P, dtype=np.int64)
    start, first = 0, 0
    for mode in range(modes):
        p, q = dims[0, mode], dims[1, mode]
        A, b = np.zeros((p, q, q)), np.zeros((p, q))
        for g in range(groups):
            leave_out(tree.prefixes[g], dims, rows, mode, y, column)
            i = tree.prefixes[g, mode]
            add_group(E[g], h[g], y, column, A[i], b[i])
        draw_rows(A, b, tau, dims[2, mode], prior.precision[first : first + q], prior.rows, noise, start, rows)
        start += p * q
        first += q


@part
def set_up_second(tree: Tree, sums: Sums, static: Static, M: Floats, V: Floats, offset: float) -> tuple[Floats, Floats]:
    """Return the equations of the rows of the last mode but one; ``M[g] = S x_1 x`` (r, s)."""
    r, s = len(static[1]) or M.shape[1], len(static[2]) or M.shape[2]
    E, h = np.zeros((len(V), r, r)), np.zeros((len(V), r))
    for g in range(len(M)):
        for f in range(tree.groups[g], tree.groups[g + 1]):
            j = tree.seconds[f]
            add_fibre(sums, f, offset, M, g, r, s, E, h, j)
    return E, h


@part
def set_up_last(tree: Tree, static: Static, M: Floats, V: Floats, W: Floats, offset: float) -> tuple[Floats, Floats]:
    """Return the equations of the rows of the last mode."""
    r, s = len(static[1]) or M.shape[1], len(static[2]) or M.shape[2]
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
def set_up_core(tree: Tree, sums: Sums, static: Static, X: Floats, V: Floats, A: Floats, b: Floats) -> None:
    """Set up the equations ``A`` (lower triangle) and ``b`` of offset and core."""
    r, s = len(static[1]) or V.shape[1], len(static[2]) or sums.Nw.shape[1]
    H, g_ = np.zeros((r * s, r * s)), np.zeros(r * s)  # sums of N and Y over a group, by (v, w)
    line = np.zeros(r * s)  # and of N times (v, w) alone
    A[:] = 0.0
    b[:] = 0.0
    for g in range(len(X)):
        H[:] = 0.0
        g_[:] = 0.0
        line[:] = 0.0
        for f in range(tree.groups[g], tree.groups[g + 1]):
            j = tree.seconds[f]
            A[0, 0] += sums.N[f]
            b[0] += sums.Y[f]
            for a in range(r):
                for c in range(s):
                    line[a * s + c] += V[j, a] * sums.Nw[f, c]
                    g_[a * s + c] += V[j, a] * sums.Yw[f, c]
                for k in range(a + 1):
                    x = V[j, a] * V[j, k]
                    for c in range(s):
                        for e in range(s):
                            H[a * s + c, k * s + e] += x * sums.Nww[f, c, e]
        join_group(X[g], H, line, g_, A, b)


@part
def join_group(x: Floats, H: Floats, line: Floats, g: Floats, A: Floats, b: Floats) -> None:
    """Add what a group says of offset and core: the outer product of its ``x`` with its sums over two modes."""
    m = len(g)
    for i in range(m):
        for j in range(i):
            H[j, i] = H[i, j]
    for a in range(len(x)):
        for i in range(m):
            row = 1 + a * m + i
            A[row, 0] += x[a] * line[i]
            b[row] += x[a] * g[i]
            for k in range(a + 1):
                y = x[a] * x[k]
                for j in range(m):  # of the last block the upper triangle is not needed, but in the way
                    A[row, 1 + k * m + j] += y * H[i, j]


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

    A line of ``noise`` holds standard normal variates for all rows, then for offset and core; a line of ``gammas``
    standard gamma variates for the core's precisions, then for the noise. The lines of ``kept`` take rows, core and
    offset as they are after equal shares of the sweeps. One mode alone gets a second, of a single level whose row
    stays 1. The parts of the prior come one by one, as a tuple of them takes a while to unpack.
    """
    prior = PriorArrays(prior_rows, prior_core, prior_precision, kind, prior_gammas)
    tree = grow(order, cells, precision, target, numbers[CENTRE])
    d = dims.shape[1]
    r, s = (dims[1, d - 2] if d > 1 else 1), dims[1, d - 1]
    third = len(rows) - dims[0, d - 1] * s
    second = third - dims[0, d - 2] * r if d > 1 else third
    P = len(core) // (r * s)
    S = core.reshape((P, r, s))
    V = rows[second:third].reshape((-1, r)) if d > 1 else np.ones((1, 1))
    W = rows[third:].reshape((-1, s))
    X = np.empty((len(tree.groups) - 1, P))
    M = np.empty((len(X), r, s))
    f = len(tree.seconds)
    sums = Sums(np.empty(f), np.empty((f, s)), np.empty((f, s, s)), np.empty(f), np.empty((f, s)))
    A, b = np.empty((1 + len(core), 1 + len(core))), np.empty(1 + len(core))
    ranks, column = len(prior.precision), np.empty(P, dtype=np.int64)
    sum_fibres(tree, W, static, sums)
    for t in range(len(noise)):
        tau, offset = 1.0 / numbers[VARIANCE], numbers[OFFSET]
        redraw_prefixes(tree, sums, dims, static, rows, S, V, offset, tau, prior, noise[t])
        for g in range(len(X)):
            leave_out(tree.prefixes[g], dims, rows, -1, X[g], column)
        multiply(X, S, static, M)
        if d > 1:
            E, h = set_up_second(tree, sums, static, M, V, offset)
            ties = prior.precision[ranks - r - s : ranks - s]
            draw_rows(E, h, tau, dims[2, d - 2], ties, prior.rows, noise[t], second, rows)
        E, h = set_up_last(tree, static, M, V, W, offset)
        draw_rows(E, h, tau, dims[2, d - 1], prior.precision[ranks - s :], prior.rows, noise[t], third, rows)
        sum_fibres(tree, W, static, sums)
        set_up_core(tree, sums, static, X, V, A, b)
        redraw_core(core, numbers, flags, prior, noise[t, len(rows) :], A, b)
        redraw_scales(core, numbers, flags, prior, gammas[t], A, b)
        if (t + 1) * len(kept) % len(noise) == 0 and len(kept):
            at = (t + 1) * len(kept) // len(noise) - 1
            kept[at, : len(rows)] = rows
            kept[at, len(rows) : -1] = core
            kept[at, -1] = numbers[CENTRE] + numbers[OFFSET]


@part
def multiply(X: Floats, S: Floats, static: Static, M: Floats) -> None:
    """Set ``M[g] = S x_1 x`` for the ``x`` of every group."""
    P, r, s = len(static[0]) or S.shape[0], len(static[1]) or S.shape[1], len(static[2]) or S.shape[2]
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
            x[:] = lines[t, rows : rows + size]
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

"""Compiled search for the largest entry of a Tucker tensor: hulls of factor rows, then all combinations of the rest.

The kernels take flat arrays. ``core`` and ``rows`` (all factors' rows, mode after mode) are in C order, ``fixed`` is -1
in a free mode. A mode's *candidates* are rows among which there is one of a best cell.

Notation
--------
d, m          number of modes, of free modes        y, z             the two innermost modes of the search
r, n          rank, number of rows or candidates    U (r_y, n_y)     candidates of y, as columns
plan (7, d)   what is known of each mode, and       V (r_z, n_z)     candidates of z, as columns, zeros below
              of each level of the search           W (r_z, n_y)     what multiplies V, for each candidate of y
T             the core with some modes contracted   P (3, n)         points in the plane; room for one number each
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tensorbandits.base.compiled import F1, F2, I1, I2, entry, kernel, part

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Rows of the plan. By mode: where its rows start in ``rows``, where its candidates start in ``index``, how many these
# are. By level of the search: the mode, the product of the ranks of inner modes before and after it, the candidate in
# turn.
_START, _SLOT, _COUNT, _MODE, _LEFT, _RIGHT, _AT = range(7)

_EPSILON = 2.0**-52

# The cost model, in nanoseconds, measured on one core of an AMD EPYC (only ratios matter). The search takes so much for
# each combination of all modes but the innermost, and for each cell; a hull so much, and for each row. A hull of
# 20 .. 1,000 Gaussian rows of rank 2 has 7 .. 13 vertices.
_COMBINATION, _CELL = 14.0, 0.15
_HULL, _HULL_ROW, _HULL_SIZE = 300.0, 9.0, 9


@entry((F1, F1, I1, I1, I1, I1))
def best_index(core: Floats, rows: Floats, sizes: Ints, ranks: Ints, fixed: Ints, out: Ints) -> None:
    """Write the cell of the largest entry to ``out`` (d,)."""
    plan = np.empty((7, sizes.size), np.int64)
    m = _begin(sizes, ranks, fixed, plan)
    for j in range(sizes.size):
        out[j] = max(fixed[j], 0)
    T = np.empty((m + 1) * core.size)
    size = _fix(core, rows, ranks, fixed, plan, T)
    if m > 1:
        index = np.empty(plan[_SLOT, -1] + sizes[-1], np.int64)
        _candidates(rows, sizes, ranks, fixed, plan, index)
        _search(T, core.size, rows, ranks, fixed, plan, index, m, out)
    _settle(T, size, core.size, rows, sizes, ranks, fixed, plan, out)


@entry((F2, F2, I1, I1, I1, I1, I2))
def best_indices(cores: Floats, rows: Floats, lines: Ints, sizes: Ints, ranks: Ints, fixed: Ints, out: Ints) -> None:
    """Write the cells of the largest entries of the tensors in lines of ``cores`` and ``rows`` to ``out`` (n, d)."""
    for i in range(lines.size):
        best_index(cores[lines[i]], rows[lines[i]], sizes, ranks, fixed, out[i])


@entry((F1, I1, I1, I1, I1, I1))
def take(rows: Floats, sizes: Ints, ranks: Ints, fixed: Ints, index: Ints, heads: Ints) -> tuple[Floats, Ints]:
    """Return the rows and sizes when of each free mode only the levels ``index[heads[j] : heads[j + 1]]`` are kept.

    A mode without such levels keeps all.
    """
    result, counts = np.empty_like(rows), np.empty_like(sizes)
    start = at = 0
    for j in range(sizes.size):
        r, few = ranks[j], fixed[j] < 0 and heads[j] < heads[j + 1]
        counts[j] = heads[j + 1] - heads[j] if few else sizes[j]
        for i in range(counts[j]):
            row = start + (index[heads[j] + i] if few else i) * r
            for a in range(r):
                result[at + a] = rows[row + a]
            at += r
        start += sizes[j] * r
    return result[:at], counts


@entry((I1, I1, I1, I1))
def put_back(fixed: Ints, index: Ints, heads: Ints, out: Ints) -> None:
    """Turn a cell of the levels that ``take`` kept into one of all levels."""
    for j in range(fixed.size):
        if fixed[j] < 0 and heads[j] < heads[j + 1]:
            out[j] = index[heads[j] + out[j]]


@entry((F1, F1, I1, I1, I1, I1))
def settle(core: Floats, rows: Floats, sizes: Ints, ranks: Ints, fixed: Ints, out: Ints) -> None:
    """Move a best cell, mode after mode, to the first of the levels that have the largest value, the others kept."""
    plan = np.empty((7, sizes.size), np.int64)
    _begin(sizes, ranks, fixed, plan)
    T = np.empty(2 * core.size)
    size = _fix(core, rows, ranks, fixed, plan, T)
    _settle(T, size, core.size, rows, sizes, ranks, fixed, plan, out)


@kernel
def _begin(sizes: Ints, ranks: Ints, fixed: Ints, plan: Ints) -> int:
    """Fill the plan's rows by mode, with all rows as candidates, two at rank 1; return the number of free modes."""
    start = slot = m = 0
    for j in range(sizes.size):
        free = fixed[j] < 0
        plan[_START, j], plan[_SLOT, j] = start, slot
        plan[_COUNT, j] = min(sizes[j], 2 if ranks[j] == 1 else sizes[j]) if free else 1
        start += sizes[j] * ranks[j]
        slot += sizes[j]
        m += free
    return m


@part
def _contract(T: Floats, source: int, target: int, left: int, r: int, right: int, rows: Floats, start: int) -> None:
    """Contract the middle axis of (left, r, right) numbers of T with the row at ``start``; it may be done in place."""
    for p in range(left):
        for q in range(right):
            total = 0.0
            for a in range(r):
                total += rows[start + a] * T[source + (p * r + a) * right + q]
            T[target + p * right + q] = total


@part
def _fix(core: Floats, rows: Floats, ranks: Ints, fixed: Ints, plan: Ints, T: Floats) -> int:
    """Copy the core to the front of T, contract the fixed modes there, and return how many numbers are left."""
    size = right = core.size
    for i in range(size):
        T[i] = core[i]
    for j in range(ranks.size):
        r = ranks[j]
        right //= r
        if fixed[j] >= 0:
            _contract(T, 0, 0, size // (r * right), r, right, rows, plan[_START, j] + fixed[j] * r)
            size //= r
    return size


@kernel
def _candidates(rows: Floats, sizes: Ints, ranks: Ints, fixed: Ints, plan: Ints, index: Ints) -> None:
    """List each free mode's candidates in ``index``: the vertices of the hull of its rows where that pays, else all."""
    for j in range(sizes.size):
        n, start, slot = sizes[j], plan[_START, j], plan[_SLOT, j]
        if fixed[j] >= 0:
            continue
        if ranks[j] == 1 and n > 2:
            _ends(rows, start, n, index, slot)
        elif ranks[j] == 2 and n > _HULL_SIZE and _hull_pays(plan, j):
            plan[_COUNT, j] = _hull(rows, start, n, index, slot)
        else:
            for i in range(n):
                index[slot + i] = i


@part
def _hull_pays(plan: Ints, j: int) -> bool:
    """Return whether the search is shortened by more than the hull of mode j takes."""
    n = plan[_COUNT, j]
    gain = _nanoseconds(plan)
    plan[_COUNT, j] = _HULL_SIZE
    gain -= _nanoseconds(plan)
    plan[_COUNT, j] = n
    return bool(gain > _HULL + _HULL_ROW * n)


@part
def _nanoseconds(plan: Ints) -> float:
    """Return the time that the search takes with the present candidates."""
    cells, widest = 1.0, 1
    for j in range(plan.shape[1]):
        cells *= plan[_COUNT, j]
        widest = max(widest, plan[_COUNT, j])
    return cells * _CELL + cells / widest * _COMBINATION


@part
def _ends(rows: Floats, start: int, n: int, index: Ints, slot: int) -> None:
    """List the first smallest and the first largest of n rows of rank 1."""
    low, high = rows[start], rows[start]
    index[slot] = index[slot + 1] = 0
    for i in range(n):
        value = rows[start + i]
        if value < low:
            low, index[slot] = value, i
        if value > high:
            high, index[slot + 1] = value, i


@kernel
def _hull(rows: Floats, start: int, n: int, index: Ints, slot: int) -> int:
    """List the vertices of the hull of n rows of rank 2, and few others; return how many are listed."""
    P, order = np.empty((3, n)), np.empty(n, np.int64)
    for i in range(n):
        P[0, i], P[1, i], order[i] = rows[start + 2 * i], rows[start + 2 * i + 1], i
    k = _outside(P, order)
    for axis in range(2):  # a power of two per column changes no vertex and no rounding, and keeps products in range
        unit = _unit(P, axis, k)
        for i in range(k):
            P[axis, i] *= unit
    _sort(P, order, k)
    return _chain(P, order, _distinct(P, order, k), index, slot)


@part
def _outside(P: Floats, order: Ints) -> int:
    """Keep the points that are not certainly within the octagon of those extreme in eight directions; return how many.

    A point strictly to the left of all sides of a closed polygon is in its hull, whatever the polygon's shape.
    """
    n = order.size
    east, west = _extreme(P, 1.0, 0.0, n)
    north, south = _extreme(P, 0.0, 1.0, n)
    wide, high = P[0, east] - P[0, west], P[1, north] - P[1, south]
    X, Y = max(P[0, east], -P[0, west]), max(P[1, north], -P[1, south])
    if not (min(wide, high) > 1e-140 and max(X, Y) < 1e140):  # flat, or products could leave the range of numbers
        return n
    north_east, south_west = _extreme(P, 1.0 / wide, 1.0 / high, n)
    north_west, south_east = _extreme(P, -1.0 / wide, 1.0 / high, n)
    corners = (east, north_east, north, north_west, west, south_west, south, south_east, east)
    for i in range(n):
        P[2, i] = np.inf
    for e in range(4):
        a, b, c = _side(P, corners[e], corners[e + 1], X, Y)
        p, q, r = _side(P, corners[e + 4], corners[e + 5], X, Y)
        for i in range(n):
            one, two = a * P[0, i] + b * P[1, i] - c, p * P[0, i] + q * P[1, i] - r
            depth = one if one < two else two
            P[2, i] = depth if depth < P[2, i] else P[2, i]
    kept = 0
    for i in range(n):
        if not P[2, i] > 0.0:
            P[0, kept], P[1, kept], order[kept] = P[0, i], P[1, i], i
            kept += 1
    return kept


@part
def _extreme(P: Floats, a: float, b: float, n: int) -> tuple[int, int]:
    """Return the first of n points that is farthest in direction (a, b), and the first in the opposite direction."""
    most = least = 0
    high = low = a * P[0, 0] + b * P[1, 0]
    for i in range(n):
        value = a * P[0, i] + b * P[1, i]
        if value > high:
            high, most = value, i
        if value < low:
            low, least = value, i
    return most, least


@part
def _side(P: Floats, s: int, t: int, X: float, Y: float) -> tuple[float, float, float]:
    """Return a, b, c such that a x + b y > c only if (x, y) is left of the way from s to t; X, Y bound coordinates."""
    if s == t:
        return 0.0, 0.0, -np.inf
    a, b = P[1, s] - P[1, t], P[0, t] - P[0, s]
    return a, b, a * P[0, s] + b * P[1, s] + 16 * _EPSILON * (abs(a) * X + abs(b) * Y)


@part
def _unit(P: Floats, axis: int, n: int) -> float:
    """Return the power of two that brings the largest of n coordinates to 1/2 .. 1."""
    largest = 0.0
    for i in range(n):
        largest = max(largest, abs(P[axis, i]))
    return math.ldexp(1.0, -math.frexp(largest)[1]) if 1e-290 < largest < 1e290 else 1.0


@part
def _sort(P: Floats, order: Ints, n: int) -> None:
    """Sort n points by first coordinate, then second, then index: by insertion if few, else with Shell's gaps."""
    gap = n
    while gap > 1:
        gap = max(1, gap * 4 // 9) if n > 40 else 1
        for i in range(gap, n):
            x, y, c = P[0, i], P[1, i], order[i]
            k = i
            while k >= gap:
                q = k - gap
                if P[0, q] < x or (P[0, q] == x and (P[1, q] < y or (P[1, q] == y and order[q] < c))):
                    break
                P[0, k], P[1, k], order[k] = P[0, q], P[1, q], order[q]
                k = q
            P[0, k], P[1, k], order[k] = x, y, c


@part
def _distinct(P: Floats, order: Ints, n: int) -> int:
    """Keep the first of each run of equal points of n sorted ones; return how many."""
    kept = 1
    for i in range(1, n):
        if P[0, i] != P[0, kept - 1] or P[1, i] != P[1, kept - 1]:
            P[0, kept], P[1, kept], order[kept] = P[0, i], P[1, i], order[i]
            kept += 1
    return kept


@part
def _chain(P: Floats, order: Ints, k: int, index: Ints, slot: int) -> int:
    """List the hull of k sorted, distinct points, lower chain and then upper; return how many are listed."""
    n = order.size
    hull = np.empty(2 * k, np.int64)
    top = base = 0
    for s in range(2 * k - 1):
        c = s if s < k else 2 * k - 2 - s
        if s == k:
            base = top - 1
        while top - base >= 2 and _needless(P, hull[top - 2], hull[top - 1], c):
            top -= 1
        hull[top] = c
        top += 1
    top = max(1, top - 1)  # the upper chain ends where the lower began
    for i in range(min(top, n)):
        index[slot + i] = order[hull[i]] if top < n else i
    return min(top, n)


@part
def _needless(P: Floats, a: int, b: int, c: int) -> bool:
    """Return whether no direction has its largest value at b alone, of the points a, b, c of a chain.

    b goes if it is certainly inside, or on the line from a to c as far as the rounding of b itself lets one tell.
    Where a and c are so far away that rounding hides on which side b is, it stays.
    """
    x, y = P[0, b], P[1, b]
    ux, uy, vx, vy = x - P[0, a], y - P[1, a], P[0, c] - x, P[1, c] - y
    one, two = ux * vy, uy * vx
    size = abs(one) + abs(two)
    if one - two < -4 * _EPSILON * size:
        return True
    return bool(one <= two and size <= 4 * (abs(x) + abs(y)) * (abs(ux + vx) + abs(uy + vy)))


@part
def _search(
    T: Floats, step: int, rows: Floats, ranks: Ints, fixed: Ints, plan: Ints, index: Ints, m: int, out: Ints
) -> None:
    """Write to ``out`` the best combination of candidates of m >= 2 free modes; level k's part of T is at k * step."""
    _arrange(ranks, fixed, plan, m)
    y, z = plan[_MODE, m - 2], plan[_MODE, m - 1]
    U = _columns(rows, ranks[y], plan, index, y, ranks[y])
    V = _columns(rows, ranks[z], plan, index, z, max(2, ranks[z] + ranks[z] % 2))
    W, part = np.zeros((V.shape[0], U.shape[1])), np.empty(V.shape[1])
    best, level = -np.inf, 0
    plan[_AT, 0] = -1
    while level >= 0:
        if level == m - 2:
            _outer(T, level * step, y < z, U, ranks[z], W)
            value = _pairs(W, V, part, best, plan, m)
            if value > best:
                best = value
                for k in range(m):
                    j = plan[_MODE, k]
                    out[j] = index[plan[_SLOT, j] + plan[_AT, k]]
            level -= 1
            continue
        j = plan[_MODE, level]
        plan[_AT, level] += 1
        if plan[_AT, level] == plan[_COUNT, j]:
            level -= 1
            continue
        start = plan[_START, j] + index[plan[_SLOT, j] + plan[_AT, level]] * ranks[j]
        source = level * step
        _contract(T, source, source + step, plan[_LEFT, level], ranks[j], plan[_RIGHT, level], rows, start)
        level += 1
        plan[_AT, level] = -1


@part
def _order(fixed: Ints, counts: Ints, modes: Ints) -> None:
    """List the free modes in ``modes``, the one with fewest candidates first, otherwise in order."""
    k = 0
    for j in range(fixed.size):
        if fixed[j] < 0:
            i = k
            while i > 0 and counts[modes[i - 1]] > counts[j]:
                modes[i] = modes[i - 1]
                i -= 1
            modes[i] = j
            k += 1


@part
def _arrange(ranks: Ints, fixed: Ints, plan: Ints, m: int) -> None:
    """Fill the plan's rows by level: the mode with most candidates innermost, otherwise in order."""
    _order(fixed, plan[_COUNT], plan[_MODE])
    for level in range(m):
        plan[_LEFT, level] = plan[_RIGHT, level] = 1
        for inner in range(level + 1, m):
            j = plan[_MODE, inner]
            plan[_LEFT if j < plan[_MODE, level] else _RIGHT, level] *= ranks[j]


@part
def _columns(rows: Floats, r: int, plan: Ints, index: Ints, j: int, height: int) -> Floats:
    """Return the candidates of mode j as columns (height, n_j), with zeros below the first r rows."""
    n, start, slot = plan[_COUNT, j], plan[_START, j], plan[_SLOT, j]
    result = np.zeros((height, n))
    for i in range(n):
        for k in range(r):
            result[k, i] = rows[start + index[slot + i] * r + k]
    return result


@part
def _outer(T: Floats, at: int, in_order: bool, U: Floats, r: int, W: Floats) -> None:
    """Fill the first r rows of W with the matrix at ``at``, of the innermost modes, times the columns of U."""
    high, n = U.shape
    one, two = (r, 1) if in_order else (1, high)
    for b in range(r):
        for i in range(n):
            W[b, i] = 0.0
        for a in range(high):
            weight = T[at + a * one + b * two]
            for i in range(n):
                W[b, i] += weight * U[a, i]


@part
def _pairs(W: Floats, V: Floats, part: Floats, best: float, plan: Ints, m: int) -> float:
    """Return the largest of best and all products of columns of W and V, and note the first such pair if above best."""
    i = -1
    while True:
        i = _next_above(W, i + 1, V, part, best)
        if i == W.shape[1]:
            return best
        for k in range(V.shape[1]):
            value = 0.0
            for b in range(V.shape[0]):
                value += W[b, i] * V[b, k]
            if value > best:
                best, plan[_AT, m - 2], plan[_AT, m - 1] = value, i, k


@part
def _next_above(W: Floats, first: int, V: Floats, part: Floats, best: float) -> int:
    """Return the first column of W from ``first`` on whose product with some column of V is above best.

    To count such products runs in vector registers, to find the largest does not.
    """
    high, n = V.shape
    for i in range(first, W.shape[1]):
        found = 0
        a, b = W[0, i], W[1, i]
        if high == 2:
            for k in range(n):
                found += a * V[0, k] + b * V[1, k] > best
        else:
            c, e = W[2, i], W[3, i]
            if high == 4:
                for k in range(n):
                    found += a * V[0, k] + b * V[1, k] + c * V[2, k] + e * V[3, k] > best
            else:
                for k in range(n):
                    part[k] = a * V[0, k] + b * V[1, k] + c * V[2, k] + e * V[3, k]
                for q in range(4, high - 2, 2):
                    a, b = W[q, i], W[q + 1, i]
                    for k in range(n):
                        part[k] += a * V[q, k] + b * V[q + 1, k]
                a, b = W[high - 2, i], W[high - 1, i]
                for k in range(n):
                    found += part[k] + a * V[high - 2, k] + b * V[high - 1, k] > best
        if found > 0:
            return i
    return int(W.shape[1])


@part
def _settle(
    T: Floats, size: int, room: int, rows: Floats, sizes: Ints, ranks: Ints, fixed: Ints, plan: Ints, out: Ints
) -> None:
    """Do what ``settle`` says; the first ``size`` numbers of T are the core, from ``room`` on a copy of it has room."""
    for j in range(sizes.size):
        if fixed[j] >= 0:
            continue
        for i in range(size):
            T[room + i] = T[i]
        left = right = size
        for k in range(sizes.size):
            if fixed[k] >= 0:
                continue
            r = ranks[k]
            right //= r
            if k != j:
                _contract(T, room, room, left // (r * right), r, right, rows, plan[_START, k] + out[k] * r)
                left //= r
        out[j] = _first_largest(rows, plan[_START, j], sizes[j], ranks[j], T, room)


@part
def _first_largest(rows: Floats, start: int, n: int, r: int, T: Floats, at: int) -> int:
    """Return which of n rows has the largest product with the r numbers of T from ``at``; the first if many have."""
    best, first = -np.inf, 0
    a, b = T[at], T[at + r - 1]
    for i in range(n):
        value = a * rows[start + i * r]
        if r > 1:
            value += b * rows[start + i * r + r - 1]
        for k in range(1, r - 1):
            value += T[at + k] * rows[start + i * r + k]
        if value > best:
            best, first = value, i
    return first

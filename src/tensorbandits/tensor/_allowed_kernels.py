"""Compiled search for the largest allowed entry of a Tucker tensor: branch and bound over the levels of its modes.

A level that no rule names can be replaced by any other such level of its mode without breaking a rule. So there is a
best allowed cell each of whose levels is named by some rule, or is a vertex of the hull of those rows of its mode that
no rule names. These are the mode's *candidates*. The search gives the modes a level each, one after the other, the mode
with fewest candidates first. Given the levels so far, a candidate is worth at most what it has with the best
combination of the later modes' hulls, rules left aside. Candidates are tried from the most promising on, until none is
worth more than the best allowed cell yet found. A rule all of whose levels but one were given blocks that last one.

Notation
--------
d, m         number of modes, of free modes        literal      a level of a mode that some rule names, by number
r, n         rank, number of candidates            met (R,)     how many levels of each rule were given
plan (., d)  what is known of each mode, and       left (R,)    the sum of the literals of each rule not yet given
             of each level of the search           blocked      by how many rules each literal is blocked
T            the core with some modes contracted   worth        what the candidates are worth at most
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorbandits.compiled import kernel
from tensorbandits.tensor._best_kernels import _START, _begin, _contract, _ends, _fix, _hull
from tensorbandits.tensor.rules import Table

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Rows of the plan. By mode: where its candidates start, their rows, those for bounds; how many candidates, how many of
# them for bounds. By level of the search: the mode, the candidate in turn; and of a bound's search, the products of
# ranks before and after the mode in turn, and its candidate in turn.
_SLOT, _ROWS, _EDGES, _COUNT, _EDGE_COUNT, _MODE, _AT, _LEFT, _RIGHT, _TURN = range(10)

_MANY = 9  # a hull is looked for among more rows of rank 2; about as many are left


class Candidates(NamedTuple):
    """The candidates of all modes, mode after mode: levels, literals (-1 if no rule names it), rows in C order and
    column by column, room for what each is worth, and which of each mode's suffice for bounds."""

    levels: Ints
    literals: Ints
    rows: Floats
    columns: Floats
    worth: Floats
    edges: Ints


class Rulebook(NamedTuple):
    """Rules by literal, and how far each is met."""

    first: Ints
    rules: Ints
    counts: Ints
    met: Ints
    left: Ints
    blocked: Ints


@kernel
def best_allowed(
    core: Floats,
    rows: Floats,
    sizes: Ints,
    ranks: Ints,
    fixed: Ints,
    free: Ints,
    free_counts: Ints,
    edges: Ints,
    edge_counts: Ints,
    opened: NDArray[np.bool_],
    table: Table,
    out: Ints,
) -> bool:
    """Write the best allowed cell to ``out`` (d,), or return that there is none.

    ``free`` lists the allowed levels that no rule names, mode after mode, ``free_counts`` (d,) of them; ``opened`` says
    of each literal whether its level is allowed. Of modes of rank 3 and more, ``edges`` lists which candidates suffice
    for bounds, none for all.
    """
    known = np.empty((7, sizes.size), np.int64)
    m = _begin(sizes, ranks, fixed, known)
    book = Rulebook(
        table.first,
        table.rules,
        table.counts,
        np.zeros(table.counts.size, np.int64),
        table.sums.copy(),
        np.zeros(table.levels.size, np.int64),
    )
    for j in range(sizes.size):
        out[j] = fixed[j]
        if fixed[j] >= 0 and not _give(book, _find(table, j, fixed[j])):
            return False
    step = core.size
    T = np.empty((2 * m + 2) * step)
    _fix(core, rows, ranks, fixed, known, T)
    plan = np.zeros((10, sizes.size), np.int64)
    room = (table.levels.size + free.size) * np.max(ranks)
    candidates = Candidates(
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(room),
        np.empty(room),
        np.empty(room),
        np.empty(room + edges.size, np.int64),
    )
    if not _list(rows, ranks, fixed, free, free_counts, edges, edge_counts, opened, table, known, plan, candidates):
        return False
    _arrange(fixed, plan, m)
    return _search(T, step, ranks, plan, candidates, book, m, out)


@kernel
def _find(table: Table, j: int, level: int) -> int:
    """Return the literal of a level of mode j, or -1."""
    low, high = table.heads[j], table.heads[j + 1]
    while low < high:
        middle = (low + high) // 2
        if table.levels[middle] < level:
            low = middle + 1
        else:
            high = middle
    return low if low < table.heads[j + 1] and table.levels[low] == level else -1


@kernel
def _give(book: Rulebook, literal: int) -> bool:
    """Note that a level is given; return whether no rule is broken."""
    whole = True
    if literal >= 0:
        for at in range(book.first[literal], book.first[literal + 1]):
            rule = book.rules[at]
            book.met[rule] += 1
            book.left[rule] -= literal
            if book.met[rule] == book.counts[rule] - 1:
                book.blocked[book.left[rule]] += 1
            elif book.met[rule] == book.counts[rule]:
                whole = False
    return whole


@kernel
def _take_back(book: Rulebook, literal: int) -> None:
    """Undo what ``_give`` noted."""
    if literal >= 0:
        for at in range(book.first[literal], book.first[literal + 1]):
            rule = book.rules[at]
            if book.met[rule] == book.counts[rule] - 1:
                book.blocked[book.left[rule]] -= 1
            book.met[rule] -= 1
            book.left[rule] += literal


@kernel
def _list(
    rows: Floats,
    ranks: Ints,
    fixed: Ints,
    free: Ints,
    free_counts: Ints,
    edges: Ints,
    edge_counts: Ints,
    opened: NDArray[np.bool_],
    table: Table,
    known: Ints,
    plan: Ints,
    candidates: Candidates,
) -> bool:
    """List the candidates of each free mode and fill the plan by mode; return whether every mode has some."""
    slot = place = edge = source = given = 0
    for j in range(ranks.size):
        r, start, n = ranks[j], known[_START, j], 0
        if fixed[j] < 0:
            plan[_SLOT, j], plan[_ROWS, j], plan[_EDGES, j] = slot, place, edge
            for literal in range(table.heads[j], table.heads[j + 1]):
                if opened[literal]:
                    candidates.levels[slot + n], candidates.literals[slot + n] = table.levels[literal], literal
                    n += 1
            found = _vertices(rows, start, r, free[source : source + free_counts[j]])
            for i in range(found.size):
                candidates.levels[slot + n], candidates.literals[slot + n] = found[i], -1
                n += 1
            if n == 0:
                return False
            for i in range(n):
                for a in range(r):
                    value = rows[start + candidates.levels[slot + i] * r + a]
                    candidates.rows[place + i * r + a] = candidates.columns[place + a * n + i] = value
            if edge_counts[j] > 0:
                best = edges[given : given + edge_counts[j]]
            else:
                best = _vertices(candidates.rows, place, r, np.arange(n))
            candidates.edges[edge : edge + best.size] = best
            plan[_COUNT, j], plan[_EDGE_COUNT, j] = n, best.size
            slot, place, edge = slot + n, place + n * r, edge + best.size
        source += free_counts[j]
        given += edge_counts[j]
    return True


@kernel
def _vertices(rows: Floats, start: int, r: int, levels: Ints) -> Ints:
    """Return which levels' rows may be vertices of the hull of them all; from rank 3 on all levels."""
    n = levels.size
    if (r == 1 and n > 2) or (r == 2 and n > _MANY):
        points, index = np.empty(n * r), np.empty(n, np.int64)
        for i in range(n):
            for a in range(r):
                points[i * r + a] = rows[start + levels[i] * r + a]
        count = 2
        if r == 1:
            _ends(points, 0, n, index, 0)
        else:
            count = _hull(points, 0, n, index, 0)
        return levels[index[:count]]
    return levels


@kernel
def _arrange(fixed: Ints, plan: Ints, m: int) -> None:
    """Put the free modes in the order of the search, the one with fewest candidates first."""
    k = 0
    for j in range(fixed.size):
        if fixed[j] < 0:
            i = k
            while i > 0 and plan[_COUNT, plan[_MODE, i - 1]] > plan[_COUNT, j]:
                plan[_MODE, i] = plan[_MODE, i - 1]
                i -= 1
            plan[_MODE, i] = j
            k += 1


@kernel
def _search(
    T: Floats, step: int, ranks: Ints, plan: Ints, candidates: Candidates, book: Rulebook, m: int, out: Ints
) -> bool:
    """Write the best allowed combination of candidates to ``out``, or return that there is none."""
    if m == 0:
        return True
    best, found, level = -np.inf, False, 0
    if m > 1:
        _bound(T, step, 0, ranks, plan, candidates, m)
    while level >= 0:
        j = plan[_MODE, level]
        if level == m - 1:
            value, pick = _last(T, level * step, ranks[j], plan, j, candidates, book, best)
            if pick >= 0:
                best, found, plan[_AT, level] = value, True, pick
                for k in range(m):
                    out[plan[_MODE, k]] = candidates.levels[plan[_SLOT, plan[_MODE, k]] + plan[_AT, k]]
            pick = -1
        else:
            pick = _next(plan, j, candidates, best)
        if pick < 0:
            level -= 1
            if level >= 0:
                k = plan[_MODE, level]
                _take_back(book, candidates.literals[plan[_SLOT, k] + plan[_AT, level]])
            continue
        candidates.worth[plan[_SLOT, j] + pick] = -np.inf
        literal = candidates.literals[plan[_SLOT, j] + pick]
        if literal >= 0 and book.blocked[literal] > 0:
            continue
        plan[_AT, level] = pick
        _give(book, literal)
        left, right = _around(ranks, plan, level + 1, j, -1, m)
        row = plan[_ROWS, j] + pick * ranks[j]
        _contract(T, level * step, (level + 1) * step, left, ranks[j], right, candidates.rows, row)
        level += 1
        if level < m - 1:
            _bound(T, step, level, ranks, plan, candidates, m)
    return found


@kernel
def _around(ranks: Ints, plan: Ints, level: int, j: int, other: int, m: int) -> tuple[int, int]:
    """Return the products of the ranks before and after mode j, of the modes from a level on and one other."""
    left = right = 1
    for q in range(level, m + 1):
        k = plan[_MODE, q] if q < m else other
        if k >= 0 and k < j:
            left *= ranks[k]
        elif k > j:
            right *= ranks[k]
    return left, right


@kernel
def _next(plan: Ints, j: int, candidates: Candidates, best: float) -> int:
    """Return the candidate of mode j that is worth most and more than ``best``, or -1."""
    slot, top, pick = plan[_SLOT, j], best, -1
    for i in range(plan[_COUNT, j]):
        if candidates.worth[slot + i] > top:
            top, pick = candidates.worth[slot + i], i
    return pick


@kernel
def _last(
    T: Floats, at: int, r: int, plan: Ints, j: int, candidates: Candidates, book: Rulebook, best: float
) -> tuple[float, int]:
    """Return the largest value above ``best`` of a candidate of mode j that is not blocked, and the candidate or -1."""
    slot, n, pick = plan[_SLOT, j], plan[_COUNT, j], -1
    worth = candidates.worth[slot : slot + n]
    worth[:] = 0.0
    for a in range(r):
        weight = T[at + a]
        column = candidates.columns[plan[_ROWS, j] + a * n : plan[_ROWS, j] + (a + 1) * n]
        for i in range(n):
            worth[i] += weight * column[i]
    for i in range(n):
        value = worth[i]
        if value > best or (pick < 0 and best == -np.inf):
            literal = candidates.literals[slot + i]
            if literal < 0 or book.blocked[literal] == 0:
                best, pick = max(value, -1e308) if value == value else -1e308, i  # numbers may have left their range
    return best, pick


@kernel
def _bound(T: Floats, step: int, level: int, ranks: Ints, plan: Ints, candidates: Candidates, m: int) -> None:
    """Fill in what the candidates of a level's mode are worth at most: the best with the later modes' hulls."""
    j = plan[_MODE, level]
    n, slot, room, t = plan[_COUNT, j], plan[_SLOT, j], (m + 1) * step, level + 1
    worth = candidates.worth[slot : slot + n]
    worth[:] = -np.inf
    for q in range(level + 1, m):
        plan[_LEFT, q], plan[_RIGHT, q] = _around(ranks, plan, q + 1, plan[_MODE, q], j, m)
    plan[_TURN, t] = -1
    while t > level:
        k = plan[_MODE, t]
        plan[_TURN, t] += 1
        if plan[_TURN, t] == plan[_EDGE_COUNT, k]:
            t -= 1
            continue
        source = level * step if t == level + 1 else room + (t - 1) * step
        row = plan[_ROWS, k] + candidates.edges[plan[_EDGES, k] + plan[_TURN, t]] * ranks[k]
        _contract(T, source, room + t * step, plan[_LEFT, t], ranks[k], plan[_RIGHT, t], candidates.rows, row)
        if t == m - 1:
            _raise(T, room + t * step, ranks[j], candidates.columns, plan[_ROWS, j], worth)
        else:
            t += 1
            plan[_TURN, t] = -1
    for i in range(n):
        if worth[i] == -np.inf:  # numbers have left their range: nothing is known
            worth[i] = np.inf


@kernel
def _raise(T: Floats, at: int, r: int, columns: Floats, start: int, worth: Floats) -> None:
    """Raise what candidates are worth to their products with the r numbers of T from ``at``, where these are larger."""
    n = worth.size
    if r == 2:
        a, b = T[at], T[at + 1]
        one, two = columns[start : start + n], columns[start + n : start + 2 * n]
        for i in range(n):
            value = a * one[i] + b * two[i]
            worth[i] = value if value > worth[i] else worth[i]
        return
    for i in range(n):
        value = 0.0
        for a in range(r):
            value += T[at + a] * columns[start + a * n + i]
        worth[i] = value if value > worth[i] else worth[i]

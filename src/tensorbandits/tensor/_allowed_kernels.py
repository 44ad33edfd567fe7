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

from tensorbandits.base.compiled import BOOLS, F1, I1, entry, fields, part
from tensorbandits.tensor._best_kernels import _START, _begin, _contract, _ends, _fix, _hull, _order
from tensorbandits.tensor.rules import RuleTable

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Rows of the plan. By mode: where its candidates start, their rows, those for bounds; how many candidates, how many of
# them for bounds. By level of the search: the mode, the candidate in turn; and of a bound's search, the products of
# ranks before and after the mode in turn, and its candidate in turn.
_SLOT, _ROWS, _EDGES, _COUNT, _EDGE_COUNT, _MODE, _AT, _LEFT, _RIGHT, _TURN = range(10)

_LEAST = -1e308  # stands for numbers below their range
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


class Side(NamedTuple):
    """One of the last two modes of the search: its candidates as columns (r, n) and their literals, those that suffice
    for bounds as rows, and room for what candidates are worth, which of them count, and these as columns."""

    columns: Floats
    literals: Ints
    edges: Floats
    worth: Floats
    chosen: Ints
    packed: Floats


class RuleState(NamedTuple):
    """The rules by literal, how far each is met, and what is blocked."""

    table: RuleTable
    met: Ints
    left: Ints
    blocked: Ints
    marks: Ints


@entry((F1, F1, I1, I1, I1, I1, I1, I1, I1, BOOLS, fields(RuleTable, I1), I1))
def best_allowed(
    core: Floats,
    rows: Floats,
    sizes: Ints,
    ranks: Ints,
    fixed: Ints,
    free: Ints,
    free_heads: Ints,
    edges: Ints,
    edge_heads: Ints,
    opened: NDArray[np.bool_],
    table: RuleTable,
    out: Ints,
) -> bool:
    """Write the best allowed cell to ``out`` (d,), or return that there is none.

    ``free`` lists the allowed levels that no rule names, mode after mode, those of mode j from
    ``free_heads[j]`` on; ``opened`` says of each literal whether its level is allowed. Of modes of rank 3 and more,
    ``edges`` lists in the same way which candidates suffice for bounds, none for all.
    """
    known = np.empty((7, sizes.size), np.int64)
    m = _begin(sizes, ranks, fixed, known)
    literals = table.levels.size
    book = RuleState(
        table,
        np.zeros(table.counts.size, np.int64),
        table.sums.copy(),
        np.zeros(literals, np.int64),
        np.full(literals, -1, np.int64),
    )
    for j in range(sizes.size):
        out[j] = fixed[j]
        if fixed[j] >= 0 and not _give(book, _find(table, j, fixed[j])):
            return False
    step = core.size
    T = np.empty((2 * m + 3) * step)
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
    if not _list(rows, ranks, fixed, free, free_heads, edges, edge_heads, opened, table, known, plan, candidates):
        return False
    _order(fixed, plan[_COUNT], plan[_MODE])
    return m == 0 or _search(T, step, ranks, plan, candidates, book, m, out)


@part
def _find(table: RuleTable, j: int, level: int) -> int:
    """Return the literal of a level of mode j, or -1."""
    low, high = table.heads[j], table.heads[j + 1]
    while low < high:
        middle = (low + high) // 2
        if table.levels[middle] < level:
            low = middle + 1
        else:
            high = middle
    return low if low < table.heads[j + 1] and table.levels[low] == level else -1


@part
def _give(book: RuleState, literal: int) -> bool:
    """Note that a level is given; return whether no rule is broken."""
    if literal < 0:
        return True
    table, whole = book.table, bool(book.blocked[literal] == 0)
    for at in range(table.paired[literal], table.paired[literal + 1]):
        book.blocked[table.partners[at]] += 1
    for at in range(table.first[literal], table.first[literal + 1]):
        rule = table.rules[at]
        book.met[rule] += 1
        book.left[rule] -= literal
        if book.met[rule] == table.counts[rule] - 1:
            book.blocked[book.left[rule]] += 1
    return whole


@part
def _take_back(book: RuleState, literal: int) -> None:
    """Undo what ``_give`` noted."""
    if literal < 0:
        return
    table = book.table
    for at in range(table.paired[literal], table.paired[literal + 1]):
        book.blocked[table.partners[at]] -= 1
    for at in range(table.first[literal], table.first[literal + 1]):
        rule = table.rules[at]
        if book.met[rule] == table.counts[rule] - 1:
            book.blocked[book.left[rule]] -= 1
        book.met[rule] -= 1
        book.left[rule] += literal


@part
def _list(
    rows: Floats,
    ranks: Ints,
    fixed: Ints,
    free: Ints,
    free_heads: Ints,
    edges: Ints,
    edge_heads: Ints,
    opened: NDArray[np.bool_],
    table: RuleTable,
    known: Ints,
    plan: Ints,
    candidates: Candidates,
) -> bool:
    """List the candidates of each free mode and fill the plan by mode; return whether every mode has some."""
    slot = place = edge = 0
    for j in range(ranks.size):
        r, start, n = ranks[j], known[_START, j], 0
        if fixed[j] < 0:
            plan[_SLOT, j], plan[_ROWS, j], plan[_EDGES, j] = slot, place, edge
            for literal in range(table.heads[j], table.heads[j + 1]):
                if opened[literal]:
                    candidates.levels[slot + n], candidates.literals[slot + n] = table.levels[literal], literal
                    n += 1
            found = _vertices(rows, start, r, free[free_heads[j] : free_heads[j + 1]])
            for i in range(found.size):
                candidates.levels[slot + n], candidates.literals[slot + n] = found[i], -1
                n += 1
            if n == 0:
                return False
            for i in range(n):
                for a in range(r):
                    value = rows[start + candidates.levels[slot + i] * r + a]
                    candidates.rows[place + i * r + a] = candidates.columns[place + a * n + i] = value
            best = edges[edge_heads[j] : edge_heads[j + 1]]
            if best.size == 0:
                best = _vertices(candidates.rows, place, r, np.arange(n))
            for i in range(best.size):
                candidates.edges[edge + i] = best[i]
            plan[_COUNT, j], plan[_EDGE_COUNT, j] = n, best.size
            slot, place, edge = slot + n, place + n * r, edge + best.size
    return True


@part
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


@part
def _search(
    T: Floats, step: int, ranks: Ints, plan: Ints, candidates: Candidates, book: RuleState, m: int, out: Ints
) -> bool:
    """Write the best allowed combination of candidates to ``out``, or return that there is none."""
    y, z = _side(ranks, plan, candidates, m - 2), _side(ranks, plan, candidates, m - 1)
    M = np.empty((y.columns.shape[0], z.columns.shape[0]))
    in_order = m < 2 or plan[_MODE, m - 2] < plan[_MODE, m - 1]
    best, found, level = -np.inf, False, 0
    if m > 2:
        _bound(T, step, 0, ranks, plan, candidates, m)
    while level >= 0:
        j = plan[_MODE, level]
        pick = -1
        if level < m - 2:
            pick = _next(plan, j, candidates, best)
        else:
            for a in range(M.shape[0]):
                for b in range(M.shape[1]):
                    M[a, b] = T[level * step + (a * M.shape[1] + b if in_order else b * M.shape[0] + a)]
            value = _pairs(M, y, z, book, best, plan, m)
            if value > best:
                best, found = value, True
                for k in range(m):
                    out[plan[_MODE, k]] = candidates.levels[plan[_SLOT, plan[_MODE, k]] + plan[_AT, k]]
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
        if level < m - 2:
            _bound(T, step, level, ranks, plan, candidates, m)
    return found


@part
def _side(ranks: Ints, plan: Ints, candidates: Candidates, level: int) -> Side:
    """Return the mode of a level for the inner loops; below the first level, a mode of one level and number 1."""
    if level < 0:
        one = np.ones((1, 1))
        return Side(one, np.full(1, -1, np.int64), one, np.empty(1), np.empty(1, np.int64), np.empty((1, 1)))
    j = plan[_MODE, level]
    columns, literals = _columns(ranks, plan, candidates, j)
    edges = np.empty((plan[_EDGE_COUNT, j], ranks[j]))
    for i in range(edges.shape[0]):
        for a in range(ranks[j]):
            edges[i, a] = columns[a, candidates.edges[plan[_EDGES, j] + i]]
    n = literals.size
    return Side(columns, literals, edges, np.empty(n), np.empty(n, np.int64), np.empty_like(columns))


@part
def _columns(ranks: Ints, plan: Ints, candidates: Candidates, j: int) -> tuple[Floats, Ints]:
    """Return the candidates of mode j as columns (r_j, n_j), and their literals."""
    r, n, start, slot = ranks[j], plan[_COUNT, j], plan[_ROWS, j], plan[_SLOT, j]
    result = np.empty((r, n))
    for a in range(r):
        for i in range(n):
            result[a, i] = candidates.columns[start + a * n + i]
    return result, candidates.literals[slot : slot + n].copy()


@part
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


@part
def _next(plan: Ints, j: int, candidates: Candidates, best: float) -> int:
    """Return the candidate of mode j that is worth most and more than ``best``, or -1."""
    slot, top, pick = plan[_SLOT, j], best, -1
    for i in range(plan[_COUNT, j]):
        if candidates.worth[slot + i] > top:
            top, pick = candidates.worth[slot + i], i
    return pick


@part
def _pairs(M: Floats, y: Side, z: Side, book: RuleState, best: float, plan: Ints, m: int) -> float:
    """Return the largest of ``best`` and the values of the last two modes' candidates; note these if above.

    ``M`` (r_y, r_z) is what is left of the core.
    """
    floor = best if best > -np.inf else np.nan  # nothing is at or below NaN
    width, n = _choose(M, z, y, book.blocked, floor), _choose(M.T, y, z, book.blocked, floor)
    # By name, as each look-up in a tuple counts references.
    U, V, values, chosen, others, marks = y.packed, z.packed, z.worth, z.chosen, y.chosen, book.marks
    literals, mine, blocked, table = z.literals, y.literals, book.blocked, book.table
    paired, partners, first = table.paired, table.partners, table.first
    (r, high), w = M.shape, np.empty(M.shape[1])
    for i in range(n):
        for b in range(high):
            total = 0.0
            for a in range(r):
                total += M[a, b] * U[a, i]
            w[b] = total
        _multiply(w, V, width, values)
        given = mine[others[i]]
        marked = given < 0
        wide = not marked and first[given] < first[given + 1]
        for k in range(width):
            if values[k] <= floor:
                continue
            literal = literals[chosen[k]]
            if literal >= 0:
                if not marked:
                    marked = True
                    for at in range(paired[given], paired[given + 1]):
                        marks[partners[at]] = given
                    if wide:
                        _give(book, given)
                if (wide and blocked[literal] > 0) or (given >= 0 and marks[literal] == given):
                    continue
            value = values[k] if values[k] > _LEAST else _LEAST  # numbers may have left their range
            if value > best:
                best = floor = value
                plan[_AT, m - 1] = chosen[k]
                if m > 1:
                    plan[_AT, m - 2] = others[i]
        if wide and marked:
            _take_back(book, given)
    return best


@part
def _choose(M: Floats, side: Side, other: Side, blocked: Ints, floor: float) -> int:
    """Pack the candidates of a side that are not blocked and may be worth more than ``floor``; return how many.

    ``M`` (r_other, r_side) is what is left of the core.
    """
    worth, literals, chosen, packed, columns = side.worth, side.literals, side.chosen, side.packed, side.columns
    edges = other.edges
    (high, r), n, kept = M.shape, literals.size, 0
    w = np.empty(r)
    for i in range(n):
        worth[i] = -np.inf
    for e in range(edges.shape[0]):
        for b in range(r):
            total = 0.0
            for a in range(high):
                total += M[a, b] * edges[e, a]
            w[b] = total
        _raise(w, columns, worth)
    for i in range(n):
        if not -np.inf < worth[i] <= floor and (literals[i] < 0 or blocked[literals[i]] == 0):
            chosen[kept] = i
            kept += 1
    for a in range(r):
        for i in range(kept):
            packed[a, i] = columns[a, chosen[i]]
    return kept


@part
def _multiply(w: Floats, V: Floats, n: int, values: Floats) -> None:
    """Fill in the products of w with the first n columns of V."""
    if V.shape[0] == 1:
        for i in range(n):
            values[i] = w[0] * V[0, i]
        return
    first, second = w[0], w[1]
    for i in range(n):
        values[i] = first * V[0, i] + second * V[1, i]
    for a in range(2, V.shape[0]):
        first = w[a]
        for i in range(n):
            values[i] += first * V[a, i]


@part
def _raise(w: Floats, U: Floats, worth: Floats) -> None:
    """Raise what candidates are worth to their products with w, where these are larger."""
    r, n = U.shape
    if r == 1:
        for i in range(n):
            value = w[0] * U[0, i]
            worth[i] = value if value > worth[i] else worth[i]
    elif r == 2:
        first, second = w[0], w[1]
        for i in range(n):
            value = first * U[0, i] + second * U[1, i]
            worth[i] = value if value > worth[i] else worth[i]
    elif r == 3:
        first, second, third = w[0], w[1], w[2]
        for i in range(n):
            value = first * U[0, i] + second * U[1, i] + third * U[2, i]
            worth[i] = value if value > worth[i] else worth[i]
    else:
        for i in range(n):
            value = w[0] * U[0, i] + w[1] * U[1, i]
            for a in range(2, r):
                value += w[a] * U[a, i]
            worth[i] = value if value > worth[i] else worth[i]


@part
def _bound(T: Floats, step: int, level: int, ranks: Ints, plan: Ints, candidates: Candidates, m: int) -> None:
    """Fill in what the candidates of a level's mode are worth at most: the best with the later modes' hulls."""
    j = plan[_MODE, level]
    n, slot, room, t = plan[_COUNT, j], plan[_SLOT, j], (m + 1) * step, level + 1
    worth, w, U = np.full(n, -np.inf), np.empty(ranks[j]), _columns(ranks, plan, candidates, j)[0]
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
            for a in range(w.size):
                w[a] = T[room + t * step + a]
            _raise(w, U, worth)
        else:
            t += 1
            plan[_TURN, t] = -1
    for i in range(n):  # where numbers have left their range nothing is known
        candidates.worth[slot + i] = worth[i] if worth[i] > -np.inf else np.inf

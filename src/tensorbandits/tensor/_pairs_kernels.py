"""Compiled values of a tensor of pairs, and the search for its best cell: branch and bound over the levels of modes.

The plain twins are in ``tests/plain/pairs.py``.

Notation
--------
d            number of modes                        head (d)        where the levels of a mode start, all modes joined
q, w (d)     columns of a mode, and how many of     slots (levels)  the first column of a level that is not 0
             them are not 0 for one level           codes           the columns of a level that are not 0, w of each
cores        the core of pair (j, k), (q_j, q_k),   pair (d, d)     where that of a pair j < k starts
             raveled, pair after pair                               or -1
m, n (m)     modes that are searched, and their     T (j, k)        the table of a pair, (n_j, n_k), ``at[j, k]`` is
             candidates                                             where it starts in ``tables``
"""

from __future__ import annotations

import numpy as np

from tensorbandits.base.compiled import F1, F2, FLOAT, I1, I2, INT, entry, part
from tensorbandits.tensor.packed import Floats, Ints

HEAD, CODE, COLUMNS, WIDTH = range(4)  # rows of ``plan`` (4, d)


@part
def pair_value(
    cores: Floats, at: int, columns: int, codes: Floats, j: int, a: int, v: int, k: int, b: int, w: int
) -> float:
    """Return ``x' C y`` of a pair whose core starts at ``at``: x has v entries from column a on, y has w from b on.

    They stand in ``codes`` from ``j`` and from ``k`` on. A pair without a core, -1, has 0.
    """
    total = 0.0
    if at < 0:
        return total
    for x in range(v):
        part = 0.0
        for y in range(w):
            part += cores[at + (a + x) * columns + b + y] * codes[k + y]
        total += codes[j + x] * part
    return total


@part
def value_at(cell: Ints, plan: Ints, slots: Ints, pair: Ints, effects: Floats, codes: Floats, cores: Floats) -> float:
    """Return the value at a cell, without the offset."""
    total = 0.0
    for j in range(len(cell)):
        level = plan[HEAD, j] + cell[j]
        total += effects[level]
        v = plan[WIDTH, j]
        here = plan[CODE, j] + cell[j] * v
        for k in range(j):
            other = plan[HEAD, k] + cell[k]
            w = plan[WIDTH, k]
            there = plan[CODE, k] + cell[k] * w
            total += pair_value(
                cores, pair[k, j], plan[COLUMNS, j], codes, there, slots[other], w, here, slots[level], v
            )
    return total


@entry((I2, I2, I1, I2, F1, F1, F1, FLOAT))
def values(
    cells: Ints, plan: Ints, slots: Ints, pair: Ints, effects: Floats, codes: Floats, cores: Floats, offset: float
) -> Floats:
    """Return the values at cells (n, d), shape (n,)."""
    result = np.empty(len(cells))
    for c in range(len(cells)):
        result[c] = offset + value_at(cells[c], plan, slots, pair, effects, codes, cores)
    return result


@entry((F2, I2, I2, I1, I2, INT, INT))
def values_of_lines(
    lines: Floats, cells: Ints, plan: Ints, slots: Ints, pair: Ints, levels: int, entries: int
) -> Floats:
    """Return the values at cells (n, d) of tensors whose numbers are ``lines`` (m, size), shape (n, m).

    A line has effects, codes, cores, offset.
    """
    result = np.empty((len(cells), len(lines)))
    end = levels + entries
    for c in range(len(cells)):
        for t in range(len(lines)):
            line = lines[t]
            value = value_at(cells[c], plan, slots, pair, line[:levels], line[levels:end], line[end:-1])
            result[c, t] = line[-1] + value
    return result


@entry((I1, I1, I1, I1, I2, I1, I2, F1, F1, F1, I2))
def tabulate(
    fixed: Ints,
    modes: Ints,
    n: Ints,
    levels: Ints,
    plan: Ints,
    slots: Ints,
    pair: Ints,
    effects: Floats,
    codes: Floats,
    cores: Floats,
    at: Ints,
) -> tuple[Floats, Floats]:
    """Return what the candidates of each mode are worth beside the fixed levels, joined, and the tables of all pairs.

    ``modes`` (m,) are searched in this order; their candidates are ``levels``, joined, ``n`` of each.
    """
    m = len(modes)
    unary, tables = np.empty(n.sum()), np.empty(at[m - 1, m - 1])
    start = 0
    for s in range(m):
        j = modes[s]
        v = plan[WIDTH, j]
        for i in range(n[s]):
            level = levels[start + i]
            a, here = slots[plan[HEAD, j] + level], plan[CODE, j] + level * v
            total = effects[plan[HEAD, j] + level]
            for k in range(len(fixed)):
                if fixed[k] >= 0:
                    w = plan[WIDTH, k]
                    b, there = slots[plan[HEAD, k] + fixed[k]], plan[CODE, k] + fixed[k] * w
                    if j < k:
                        total += pair_value(cores, pair[j, k], plan[COLUMNS, k], codes, here, a, v, there, b, w)
                    else:
                        total += pair_value(cores, pair[k, j], plan[COLUMNS, j], codes, there, b, w, here, a, v)
            unary[start + i] = total
            other = start + n[s]
            for t in range(s + 1, m):
                k = modes[t]
                w = plan[WIDTH, k]
                for e in range(n[t]):
                    b, there = slots[plan[HEAD, k] + levels[other + e]], plan[CODE, k] + levels[other + e] * w
                    if j < k:
                        x = pair_value(cores, pair[j, k], plan[COLUMNS, k], codes, here, a, v, there, b, w)
                    else:
                        x = pair_value(cores, pair[k, j], plan[COLUMNS, j], codes, there, b, w, here, a, v)
                    tables[at[s, t] + i * n[t] + e] = x
                other += n[t]
        start += n[s]
    return unary, tables


@entry((I1, F1, F1, I2, INT))
def pass_messages(n: Ints, unary: Floats, tables: Floats, at: Ints, rounds: int) -> None:
    """Move value from tables to what candidates are worth, which changes no cell's value and lowers upper bounds.

    Each mode gives an equal share of its worth to the tables of the modes after it (before it, on the way back), and
    takes from each table what the best of the other mode leaves. What a table then has at most is 0.
    """
    m = len(n)
    heads = np.zeros(m + 1, dtype=np.int64)
    for s in range(m):
        heads[s + 1] = heads[s] + n[s]
    for turn in range(2 * rounds):
        for step in range(m):
            s = step if turn % 2 == 0 else m - 1 - step
            share = 1.0 / max(s, m - 1 - s, 1)
            for t in range(m):
                if t != s:
                    collect(n, unary, tables, at, heads, s, t)
            for i in range(n[s]):
                x = unary[heads[s] + i]
                for t in range(m):
                    if (t > s) == (turn % 2 == 0) and t != s:
                        unary[heads[s] + i] -= share * x
                        for e in range(n[t]):
                            tables[at[s, t] + i * n[t] + e if s < t else at[t, s] + e * n[s] + i] += share * x


@part
def collect(n: Ints, unary: Floats, tables: Floats, at: Ints, heads: Ints, s: int, t: int) -> None:
    """Let mode s take, for each of its candidates, the largest entry of its table with mode t."""
    for i in range(n[s]):
        top = -np.inf
        for e in range(n[t]):
            top = max(top, tables[at[s, t] + i * n[t] + e if s < t else at[t, s] + e * n[s] + i])
        unary[heads[s] + i] += top
        for e in range(n[t]):
            tables[at[s, t] + i * n[t] + e if s < t else at[t, s] + e * n[s] + i] -= top


@entry((I1, F1, F1, I2, I1, I1, I2, INT, I1))
def search(
    n: Ints, unary: Floats, tables: Floats, at: Ints, first: Ints, ends: Ints, literals: Ints, most: int, found: Ints
) -> tuple[float, float]:
    """Write the best allowed choice to ``found`` (m,); return its value and an upper bound, equal if it is proved best.

    ``first`` (m + 1,) says which rules have their last literal in each mode; rule r forbids the literals from
    ``ends[r - 1]`` to ``ends[r]``, each a mode and a candidate of it. Where nothing is allowed the value is -inf. The
    search stops after ``most`` steps if something was found by then; the bound is then what was left open.
    """
    m = len(n)
    heads = np.zeros(m + 1, dtype=np.int64)
    for s in range(m):
        heads[s + 1] = heads[s] + n[s]
    ahead = np.zeros(heads[m])  # what tables with later modes have at most, by candidate
    for s in range(m):
        for t in range(s + 1, m):
            for i in range(n[s]):
                top = -np.inf
                for e in range(n[t]):
                    top = max(top, tables[at[s, t] + i * n[t] + e])
                ahead[heads[s] + i] += top
    worth = np.empty((m + 1, heads[m]))  # line s: what candidates are worth given the first s choices
    rest = np.zeros((m + 1, m + 1))  # rest[s, t]: what the modes from t on have at most, given the first s choices
    sofar = np.zeros(m + 1)
    done = np.zeros(heads[m], dtype=np.bool_)
    chosen = np.full(m, -1, dtype=np.int64)
    for c in range(heads[m]):
        worth[0, c] = unary[c] + ahead[c]
    bound_rest(n, heads, worth, rest, 0)
    best, open_bound, steps = -np.inf, -np.inf, 0
    s = 0
    while s >= 0:
        pick, top = -1, -np.inf
        for i in range(n[s]):
            if not done[heads[s] + i] and worth[s, heads[s] + i] > top:
                pick, top = i, worth[s, heads[s] + i]
        bound = sofar[s] + top + rest[s, s + 1] if pick >= 0 else -np.inf
        stops = steps >= most and best > -np.inf
        if bound > best and stops:
            open_bound = max(open_bound, bound)
        if pick < 0 or bound <= best or stops:
            for i in range(n[s]):
                done[heads[s] + i] = False
            chosen[s] = -1
            s -= 1
            continue
        steps += 1
        done[heads[s] + pick] = True
        chosen[s] = pick
        if forbidden(first, ends, literals, chosen, s):
            continue
        sofar[s + 1] = sofar[s] + worth[s, heads[s] + pick] - ahead[heads[s] + pick]
        if s == m - 1:
            best = sofar[m]
            for t in range(m):
                found[t] = chosen[t]
            continue
        for t in range(s + 1, m):
            for e in range(n[t]):
                worth[s + 1, heads[t] + e] = worth[s, heads[t] + e] + tables[at[s, t] + pick * n[t] + e]
        bound_rest(n, heads, worth, rest, s + 1)
        s += 1
    return best, max(best, open_bound)


@part
def bound_rest(n: Ints, heads: Ints, worth: Floats, rest: Floats, s: int) -> None:
    """Set what the modes from each on have at most, given the first s choices."""
    rest[s, len(n)] = 0.0
    for t in range(len(n) - 1, s - 1, -1):
        top = -np.inf
        for e in range(n[t]):
            top = max(top, worth[s, heads[t] + e])
        rest[s, t] = rest[s, t + 1] + top


@part
def forbidden(first: Ints, ends: Ints, literals: Ints, chosen: Ints, s: int) -> bool:
    """Say whether a rule whose last mode is ``s`` forbids the choices so far."""
    for r in range(first[s], first[s + 1]):
        meets = True
        for x in range(ends[r - 1] if r else 0, ends[r]):
            meets = meets and chosen[literals[x, 0]] == literals[x, 1]
        if meets:
            return True
    return False

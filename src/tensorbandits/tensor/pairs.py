"""A tensor of main effects and of interactions of two modes each, and its best cell.

The value of a cell ``i_1 .. i_d`` is::

    offset + sum_j a_j[i_j] + sum_{j<k} u_j[i_j]' C_jk u_k[i_k]

so the numbers grow with the square of the modes, not exponentially as those of a Tucker core do. The row ``u_j[i]`` of
a mode with many levels is learned and has few columns. A mode with few levels is *complete*: its rows are fixed such
that any interaction can be told, one column for each level, or a single one of -1 and 1 for two levels. Then the core
of two complete modes is the table of their interaction itself.

The best cell is found by branch and bound: modes get a level one after the other, and what those to come can add at
most is bounded, mode by mode and pair by pair. Two levels of each of 20 modes take about a millisecond. Interactions
that are strong between all modes and many levels may be beyond it: :meth:`Pairs.search` then returns the best cell
that it found after a number of steps, and a bound of what that may be short of.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from tensorbandits.base.checks import Cell, check_array
from tensorbandits.tensor.allowed import Allowed
from tensorbandits.tensor.packed import Floats, Ints, PackedModel, mean_rows

MOST_ENTRIES = 20_000_000  # of the tables of all pairs of modes; with more, a search would take seconds
_MOST_STEPS = 1_000_000  # of a search, about a tenth of a second
_MANY = 2_000  # choices, from which on passing messages pays
_ROUNDS = 3  # of passing messages
_LARGEST = 1e120  # number of a tensor; those of larger ones multiply to what no float holds
_TOGETHER = 600  # numbers that a sampler draws together, in about five milliseconds
_TOGETHER_ONCE = 400  # that were, of tensors that were saved then
_OPEN_COLUMNS = 2  # of a mode that has too many levels to be complete
_FEW_LEVELS = 64  # of a mode whose main effects are drawn together with all else
_NONE = np.zeros(0, dtype=np.int64)


class Found(NamedTuple):
    """The best cell that a search found, its value, and what the best of all has at most; both are equal if proved."""

    cell: Cell
    value: float
    bound: float


def usual_columns(shape: Cell, together: int = _TOGETHER) -> Cell:
    """Return the columns of each mode where none are told: complete as far as few numbers are drawn ``together``.

    >>> usual_columns((4, 3, 600)), usual_columns((6,) * 12)
    ((3, 2, 2), (2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2))
    """
    ranks = tuple(min(p - 1, 1) for p in shape)
    for most in (0, *sorted(set(shape))):  # modes of up to so many levels are complete
        tried = tuple(p - 1 if p <= most else min(p - 1, _OPEN_COLUMNS) for p in shape)
        layout = PairsLayout(shape, tried)
        mains = sum(q for q, whole in zip(layout.columns, layout.complete, strict=True) if whole)
        if layout.entries + mains > together:
            break
        ranks = tried
    return ranks


def columns_once(shape: Cell) -> Cell:
    """Return the columns that modes had where none were told, when fewer numbers were drawn together.

    >>> usual_columns((11, 10, 9, 8)), columns_once((11, 10, 9, 8))
    ((10, 9, 8, 7), (2, 9, 8, 7))
    """
    return usual_columns(shape, _TOGETHER_ONCE)


class PairsLayout:
    """Where the numbers of a tensor of pairs stand, given its shape and the columns of each mode.

    A mode of ``p`` levels whose rank is ``p - 1`` is complete. Without any column there are main effects only, and
    modes with few levels are complete. ``complete`` says otherwise which modes are.

    >>> layout = PairsLayout((4, 2, 9), (3, 1, 2))
    >>> layout.complete, layout.columns, layout.entries
    ((True, True, False), (4, 1, 2), 14)
    """

    def __init__(self, shape: Cell, rank: Cell, complete: Sequence[bool] | None = None) -> None:
        self.shape, self.rank = shape, rank
        self.paired = any(rank)
        whole = [r >= p - 1 if self.paired else p <= _FEW_LEVELS for p, r in zip(shape, rank, strict=True)]
        self.complete = tuple(whole if complete is None else complete)
        both = list(zip(shape, rank, self.complete, strict=True))
        self.columns = tuple((p if p > 2 else p - 1) if whole else r for p, r, whole in both)
        self.width = tuple(min(q, 1) if whole else q for q, whole in zip(self.columns, self.complete, strict=True))
        self.heads = np.cumsum([0, *shape])
        self.codes = np.cumsum([0, *(p * w for p, w in zip(shape, self.width, strict=True))])
        self.plan: Ints = np.array([self.heads[:-1], self.codes[:-1], self.columns, self.width], dtype=np.int64)
        self.pair: Ints = np.full((len(shape), len(shape)), -1, dtype=np.int64)
        self.pairs = [(j, k) for j in range(len(shape)) for k in range(j + 1, len(shape)) if self.paired]
        self.entries = 0  # of all cores
        for j, k in self.pairs:
            self.pair[j, k] = self.entries
            self.entries += self.columns[j] * self.columns[k]
        self.levels, self.coded = int(self.heads[-1]), int(self.codes[-1])
        self.size = self.levels + self.coded + self.entries + 1  # of a line of all numbers

    @cached_property
    def slots(self) -> Ints:
        """The first column that is not 0 of each level, all modes joined."""
        return np.concatenate(
            [
                np.arange(p) if whole and p > 2 else np.zeros(p)
                for p, whole in zip(self.shape, self.complete, strict=True)
            ]
        ).astype(np.int64)

    def fixed_codes(self) -> Floats:
        """Return the columns that are not 0 of all levels, joined; those of modes that are not complete are 0."""
        parts = []
        for p, whole, w in zip(self.shape, self.complete, self.width, strict=True):
            parts.append((np.array([-1.0, 1.0]) if p == 2 else np.ones(p * w)) if whole else np.zeros(p * w))
        return np.concatenate(parts)

    def code(self, mode: int, codes: Floats) -> Floats:
        """Return the rows of a mode (p, q), given the columns that are not 0 of all levels."""
        p, q, w = self.shape[mode], self.columns[mode], self.width[mode]
        own = codes[self.codes[mode] : self.codes[mode + 1]].reshape(p, w)
        return np.diag(own[:, 0]) if self.complete[mode] and p > 2 else own.reshape(p, q)

    def core(self, j: int, k: int, cores: Floats) -> Floats:
        """Return the core of a pair of modes, ``j < k``, a view (q_j, q_k) of all cores."""
        size = self.columns[j], self.columns[k]
        if not self.paired:
            return np.zeros(size)
        return cores[self.pair[j, k] : self.pair[j, k] + math.prod(size)].reshape(size)


class Pairs(PackedModel):
    """A tensor of main effects and interactions of two modes each.

    ``effects`` (levels,) and ``codes`` are those of all levels, mode after mode; ``cores`` joins the cores of all
    pairs.

    >>> layout = PairsLayout((2, 3), (1, 2))
    >>> tensor = Pairs(layout, np.arange(5.0), layout.fixed_codes(), np.array([0.0, 0.0, 10.0]), offset=0.5)
    >>> tensor.full().tolist(), tensor.best(np.array([-1, -1]))
    ([[2.5, 3.5, -5.5], [3.5, 4.5, 15.5]], (1, 2))
    """

    def __init__(self, layout: PairsLayout, effects: Floats, codes: Floats, cores: Floats, offset: float = 0.0) -> None:
        self.layout, self.shape = layout, layout.shape
        self.effects, self.codes, self.cores, self.offset = effects, codes, cores, offset

    def copy(self) -> Pairs:
        """Return an independent copy."""
        return self.with_numbers(self.line())

    def tensor(self) -> Pairs:
        """Return an independent copy: it can be taken apart as it is."""
        return self.copy()

    def negated(self) -> Pairs:
        """Return the tensor of minus the values."""
        return Pairs(self.layout, -self.effects, self.codes, -self.cores, -self.offset)

    def plus(self, other: Pairs, weight: float = 1.0) -> Pairs:
        """Return ``weight`` times this tensor plus another of the same shape, as one with the columns of both.

        >>> layout = PairsLayout((2, 3), (1, 2))
        >>> one = Pairs(layout, np.arange(5.0), layout.fixed_codes(), np.array([0.0, 0.0, 10.0]), offset=0.5)
        >>> bool(np.allclose(one.plus(one, 2.0).full(), 3.0 * one.full()))
        True
        """
        modes, both = range(len(self.shape)), (self, other)
        rows = [np.hstack([one.rows(j) for one in both]) for j in modes]
        layout = PairsLayout(self.shape, tuple(row.shape[1] for row in rows), [False] * len(rows))
        cores = np.zeros(layout.entries)
        for j, k in layout.pairs:
            q, r = self.layout.columns[j], self.layout.columns[k]
            layout.core(j, k, cores)[:q, :r] = weight * self.core(j, k)
            layout.core(j, k, cores)[q:, r:] = other.core(j, k)
        effects, codes = weight * self.effects + other.effects, np.concatenate([row.ravel() for row in rows])
        return Pairs(layout, effects, codes, cores, weight * self.offset + other.offset)

    def line(self) -> Floats:
        """Return a copy of all numbers: effects, codes, cores, offset."""
        return np.concatenate([self.effects, self.codes, self.cores, [self.offset]])

    def with_numbers(self, line: Floats) -> Pairs:
        """Return a tensor of the same layout with other numbers, of which it keeps views."""
        a, b = self.layout.levels, self.layout.levels + self.layout.coded
        return Pairs(self.layout, line[:a], line[a:b], line[b:-1], float(line[-1]))

    def at(self, cells: Ints, order: Ints | None = None) -> Floats:
        """Return the values at valid cells (n, d), shape (n,)."""
        from tensorbandits.tensor._pairs_kernels import values

        return np.asarray(values(np.ascontiguousarray(cells), *self._arrays, self.offset))

    def at_of_lines(self, lines: Floats, cells: Ints) -> Floats:
        """Return the values at cells (n, d) of tensors whose numbers are ``lines`` (m, size), shape (n, m)."""
        from tensorbandits.tensor._pairs_kernels import values_of_lines

        layout = self.layout
        counts, cells = (layout.levels, layout.coded), np.ascontiguousarray(cells)
        return np.asarray(values_of_lines(lines, cells, layout.plan, layout.slots, layout.pair, *counts))

    @property
    def _arrays(self) -> tuple[Ints, Ints, Ints, Floats, Floats, Floats]:
        layout = self.layout
        return layout.plan, layout.slots, layout.pair, self.effects, self.codes, self.cores

    def full(self) -> Floats:
        """Return all values as an array; for small shapes."""
        cells = np.stack(np.unravel_index(np.arange(math.prod(self.shape)), self.shape), axis=1)
        return self.at(cells).reshape(self.shape)

    def rows(self, mode: int) -> Floats:
        """Return the rows of a mode, (p, q)."""
        return self.layout.code(mode, self.codes)

    def effects_of(self, mode: int) -> Floats:
        """Return the main effects of a mode, (p,)."""
        return self.effects[self.layout.heads[mode] : self.layout.heads[mode + 1]]

    def core(self, j: int, k: int) -> Floats:
        """Return the core of two modes, (q_j, q_k), in either order."""
        return self.layout.core(j, k, self.cores) if j < k else self.layout.core(k, j, self.cores).T

    def best(self, fixed: Ints, allowed: Allowed | None = None) -> Cell:
        """Return the allowed cell of largest value, or the best that a long search found: see :meth:`search`."""
        return self.search(fixed, allowed).cell

    def search(self, fixed: Ints, allowed: Allowed | None = None, most: int = _MOST_STEPS) -> Found:
        """Return the best allowed cell given the levels of the modes that are not -1 in ``fixed`` (d,).

        After ``most`` steps it is the best that was found so far, with a bound.
        """
        from tensorbandits.tensor import _pairs_kernels as kernels

        modes = [j for j, level in enumerate(fixed.tolist()) if level < 0]
        levels, rules = _left(fixed, modes, allowed, self.shape)
        if not modes:
            value = float(self.at(fixed[None])[0])
            return Found(tuple(fixed.tolist()), value, value)
        by = sorted(range(len(modes)), key=lambda s: -len(levels[s]))  # the most candidates first: fewer bounds to make
        modes, levels = [modes[s] for s in by], [levels[s] for s in by]
        n = np.array([len(some) for some in levels], dtype=np.int64)
        at = _table_heads(n)
        joined = np.concatenate([_NONE, *levels])
        order = np.array(modes, dtype=np.int64)
        unary, tables = kernels.tabulate(fixed, order, n, joined, *self._arrays, at)
        if math.prod(n.tolist()) > _MANY:
            kernels.pass_messages(n, unary, tables, at, _ROUNDS)
        found = np.full(len(modes), -1, dtype=np.int64)
        value, bound = kernels.search(n, unary, tables, at, *_by_last_mode(rules, modes, levels), most, found)
        if found[0] < 0:
            assert allowed is not None
            raise allowed.nothing_left(fixed.tolist())
        cell = fixed.copy()
        for mode, some, i in zip(modes, levels, found.tolist(), strict=True):
            cell[mode] = some[i]
        exact = float(self.at(cell[None])[0])
        return Found(tuple(cell.tolist()), exact, exact + (bound - value))

    def widened(self, shape: Cell) -> Pairs:
        """Return the same for modes that gained levels: a new level is as all others of its mode are on average."""
        factors = [mean_rows(np.column_stack([self.effects_of(j), self.rows(j)]), size) for j, size in enumerate(shape)]
        before = self.layout
        grew = [size > p for size, p in zip(shape, self.shape, strict=True)]
        open_rank = tuple(q if more else r for q, r, more in zip(before.columns, before.rank, grew, strict=True))
        whole = [now and not more for now, more in zip(before.complete, grew, strict=True)]
        layout = PairsLayout(shape, open_rank, whole) if before.paired else PairsLayout(shape, before.rank)
        effects = np.concatenate([factor[:, 0] for factor in factors])
        codes = np.concatenate(
            [
                layout.fixed_codes()[layout.codes[j] : layout.codes[j + 1]] if whole else factor[:, 1:].ravel()
                for j, (factor, whole) in enumerate(zip(factors, layout.complete, strict=True))
            ]
        )
        return Pairs(layout, effects, codes, self.cores.copy(), self.offset)

    def state(self) -> dict[str, Any]:
        """Return the tensor as plain arrays."""
        return {
            "effects": self.effects.copy(),
            "codes": self.codes.copy(),
            "cores": self.cores.copy(),
            "offset": self.offset,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], layout: PairsLayout) -> Self:
        """Return the tensor that :meth:`state` described, which must be of this layout."""
        effects = check_array(state["effects"], "the effects", (layout.levels,), largest=_LARGEST)
        codes = check_array(state["codes"], "the rows", (layout.coded,), largest=_LARGEST)
        cores = check_array(state["cores"], "the cores", (layout.entries,), largest=_LARGEST)
        offset = check_array(state["offset"], "the offset", (), largest=_LARGEST).item()
        fixed = layout.fixed_codes()
        if not np.array_equal(codes[fixed != 0.0], fixed[fixed != 0.0]):
            raise ValueError(
                "the rows of a mode that has few levels are not what they always are; the state is damaged"
            )
        return cls(layout, effects.copy(), codes.copy(), cores.copy(), offset)


def _table_heads(n: Ints) -> Ints:
    """Return where the table of each pair of searched modes starts; in the last place, where all end."""
    m = len(n)
    at = np.zeros((m, m), dtype=np.int64)
    end = 0
    for s in range(m):
        for t in range(s + 1, m):
            at[s, t] = end
            end += int(n[s] * n[t])
    at[m - 1, m - 1] = end
    return at


def _left(
    fixed: Ints, modes: list[int], allowed: Allowed | None, shape: Cell
) -> tuple[list[Ints], list[dict[int, int]]]:
    """Return the allowed levels of the modes to search, and the rules that are left given the fixed levels."""
    if allowed is None:
        return [np.arange(shape[j]) for j in modes], []
    if allowed.shape != shape:
        raise ValueError(f"what is allowed was checked against the shape {allowed.shape}, not {shape}; check it anew")
    allowed.check_fixed(fixed.tolist())
    masks = {j: np.ones(shape[j], bool) if (mask := allowed.masks[j]) is None else mask.copy() for j in modes}
    rules = []
    for pattern, found in allowed.rules.several.patterns.items():
        free = [i for i, j in enumerate(pattern) if fixed[j] < 0]
        given = [i for i, j in enumerate(pattern) if fixed[j] >= 0]
        for levels in found:
            if any(levels[i] != fixed[pattern[i]] for i in given):
                continue
            if not free:
                raise allowed.nothing_left(fixed.tolist())
            if len(free) == 1:
                masks[pattern[free[0]]][levels[free[0]]] = False
            else:
                rules.append({pattern[i]: levels[i] for i in free})
    if not all(mask.any() for mask in masks.values()):
        raise allowed.nothing_left(fixed.tolist())
    kept = [rule for rule in rules if all(masks[j][level] for j, level in rule.items())]
    return [np.flatnonzero(masks[j]) for j in modes], kept


def _by_last_mode(rules: list[dict[int, int]], modes: list[int], levels: list[Ints]) -> tuple[Ints, Ints, Ints]:
    """Return rules as the search wants them: how many end before each mode, where each ends, and their literals."""
    place = {mode: s for s, mode in enumerate(modes)}
    at = [{int(level): i for i, level in enumerate(some)} for some in levels]
    ordered = sorted(
        ([(place[mode], at[place[mode]][level]) for mode, level in rule.items()] for rule in rules), key=max
    )
    first = np.searchsorted([max(rule)[0] for rule in ordered], np.arange(len(modes) + 1))
    ends = np.cumsum([len(rule) for rule in ordered], dtype=np.int64)
    literals = np.array([literal for rule in ordered for literal in rule], dtype=np.int64).reshape(-1, 2)
    return first.astype(np.int64), ends, literals

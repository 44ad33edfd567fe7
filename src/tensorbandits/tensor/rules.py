"""Forbidden combinations of levels: hashed to look a cell up, indexed by level to search among cells.

A *pattern* is the modes that a rule names, in order. Rules of one pattern are kept as the set of their levels, so that
a cell is looked up once per pattern however many rules there are. A *literal* is a level of a mode that a rule names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorbandits.base.checks import Cell, check_level

Ints = NDArray[np.int64]
Patterns = Mapping[Cell, frozenset[Cell]]

_NONE = np.zeros(0, dtype=np.int64)


class RuleTable(NamedTuple):
    """Rules by literal, for the compiled search. Literals are sorted by mode, then by level.

    ``heads`` (65,) is where each mode's literals start, ``levels`` the level of each. Rules of two modes pair literal l
    with ``partners[paired[l] : paired[l + 1]]``; those of more modes that name it are
    ``rules[first[l] : first[l + 1]]``. Such a rule has ``counts`` literals, whose numbers add up to ``sums``.
    """

    heads: Ints
    levels: Ints
    paired: Ints
    partners: Ints
    first: Ints
    rules: Ints
    counts: Ints
    sums: Ints


class Rules:
    """An immutable set of forbidden partial cells.

    >>> rules = Rules.of([{1: 3, 2: 7}, {0: 1, 2: 0}])
    >>> len(rules), rules.permit((0, 3, 7)), rules.permit((0, 3, 6))
    (2, False, True)
    """

    def __init__(self, patterns: Patterns) -> None:
        self.patterns = patterns

    @classmethod
    def of(cls, cells: Any) -> Rules:
        """Return the rules of a caller's partial cells, each a mapping from mode to level."""
        if isinstance(cells, (Mapping, str)) or not isinstance(cells, Iterable):
            raise TypeError(
                f"forbidden is {cells!r}; give a list of partial cells, mappings from mode to level: [{{1: 3, 2: 7}}]"
            )
        patterns: dict[Cell, set[Cell]] = {}
        for cell in cells:
            modes, levels = _check_partial(cell)
            patterns.setdefault(modes, set()).add(levels)
        return cls({modes: frozenset(found) for modes, found in patterns.items()})

    def __len__(self) -> int:
        return sum(map(len, self.patterns.values()))

    def __or__(self, other: Rules) -> Rules:
        """Return the rules of both."""
        both = {modes: found | other.patterns.get(modes, frozenset()) for modes, found in self.patterns.items()}
        return Rules({**other.patterns, **both})

    def __sub__(self, other: Rules) -> Rules:
        """Return the rules that the other has not."""
        left = {modes: found - other.patterns.get(modes, frozenset()) for modes, found in self.patterns.items()}
        return Rules({modes: found for modes, found in left.items() if found})

    def single(self) -> dict[int, list[int]]:
        """Return the levels that are forbidden altogether, by mode."""
        return {modes[0]: [level for (level,) in found] for modes, found in self.patterns.items() if len(modes) == 1}

    @cached_property
    def several(self) -> Rules:
        """The rules that name more than one mode."""
        if all(len(modes) > 1 for modes in self.patterns):
            return self
        return Rules({modes: found for modes, found in self.patterns.items() if len(modes) > 1})

    def cells(self) -> list[dict[int, int]]:
        """Return the partial cells, in order."""
        return [
            dict(zip(modes, levels, strict=True))
            for modes, found in sorted(self.patterns.items())
            for levels in sorted(found)
        ]

    def check(self, shape: Cell) -> None:
        """Refuse modes and levels that a shape has not."""
        for modes, found in self.patterns.items():
            if modes[-1] >= len(shape):
                raise ValueError(f"a forbidden cell names mode {modes[-1]}; the modes are 0 to {len(shape) - 1}")
            for mode, top in zip(modes, map(max, zip(*found, strict=True)), strict=True):
                check_level(top, shape[mode], f"the level of mode {mode} in a forbidden cell")

    @cached_property
    def _look_up(self) -> list[tuple[itemgetter[Any], frozenset[Any]]]:
        """How to read each pattern's levels from a cell, and where to look them up."""
        return [(itemgetter(*modes), found) for modes, found in self.several.patterns.items()]

    def permit(self, cell: Cell) -> bool:
        """Return whether no rule of more than one mode forbids a cell."""
        return not any(levels(cell) in found for levels, found in self._look_up)

    def strike(self, mask: NDArray[np.bool_], fixed: Mapping[int, int]) -> None:
        """Set to false, in a mask over all cells of the modes that are not fixed, those that a rule forbids."""
        free = [j for j in range(mask.ndim + len(fixed)) if j not in fixed]
        for modes, found in self.patterns.items():
            levels = np.array(list(found), dtype=np.int64)
            given = [modes.index(j) for j in modes if j in fixed]
            levels = levels[(levels[:, given] == [fixed[modes[i]] for i in given]).all(axis=1)]
            if len(levels):
                left = [i for i, j in enumerate(modes) if j not in fixed]
                axes = [free.index(modes[i]) for i in left]
                np.moveaxis(mask, axes, range(len(axes)))[tuple(levels[:, left].T)] = False

    @cached_property
    def table(self) -> RuleTable:
        """The rules of more than one mode by literal."""
        rules = [
            (np.broadcast_to(modes, (len(found), len(modes))), np.array(list(found), dtype=np.int64))
            for modes, found in sorted(self.several.patterns.items(), key=lambda item: len(item[0]))
        ]
        modes, levels = (np.concatenate([_NONE, *(np.ravel(part[i]) for part in rules)]) for i in (0, 1))
        by = np.lexsort((levels, modes))
        new = np.ones(len(by), dtype=bool)
        new[1:] = (np.diff(modes[by]) != 0) | (np.diff(levels[by]) != 0)
        literals = np.empty(len(by), dtype=np.int64)
        literals[by] = np.cumsum(new) - 1
        count = int(new.sum())
        two = 2 * sum(len(part[0]) for part in rules if part[0].shape[1] == 2)
        pairs = literals[:two].reshape(-1, 2)
        sizes = np.concatenate([_NONE, *(np.full(*part[0].shape) for part in rules if part[0].shape[1] > 2)])
        numbers = np.repeat(np.arange(len(sizes)), sizes)
        return RuleTable(
            np.searchsorted(modes[by][new], np.arange(65)),
            levels[by][new],
            *_index(pairs.ravel(), pairs[:, ::-1].ravel(), count),
            *_index(literals[two:], numbers, count),
            sizes,
            np.bincount(numbers, weights=literals[two:], minlength=len(sizes)).astype(np.int64),
        )


def _index(literals: Ints, values: Ints, count: int) -> tuple[Ints, Ints]:
    """Return the values by literal: where those of each start, and all of them in that order."""
    starts = np.concatenate([[0], np.cumsum(np.bincount(literals, minlength=count))])
    return starts.astype(np.int64), values[np.argsort(literals, kind="stable")]


def _check_partial(cell: Any) -> tuple[Cell, Cell]:
    """Return the modes of a partial cell, in order, and their levels."""
    if not isinstance(cell, Mapping):
        raise TypeError(f"the forbidden cell {cell!r} is no mapping from mode to level; give such as {{1: 3, 2: 7}}")
    if not cell:
        raise ValueError("a forbidden cell is empty, which would forbid everything; name at least one mode's level")
    for value in (*cell, *cell.values()):
        check_level(value, 2**62, f"a mode or level of the forbidden cell {dict(cell)}")
    pairs = sorted((int(mode), int(level)) for mode, level in cell.items())
    return tuple(mode for mode, _ in pairs), tuple(level for _, level in pairs)

"""The rules of a space: which combinations may not be chosen, which alone may be, and which levels are retired.

Everything comes down to forbidden partial cells, as policies take them. In spaces that are small enough it is noted
which cells are left, so that a rule which would leave a context without any choice is refused when it is made, and not
found at some ask weeks later.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorbandits.base.checks import Cell

Partial = dict[int, int]

_NOTED = 200_000  # cells; of larger spaces nothing is noted
_COUNTED, _SAMPLED = 1_000_000, 100_000  # cells that are counted for a share, and that a sample has beyond


class Rule(NamedTuple):
    """Where all levels of ``condition`` are met, the modes of ``only`` may have no other levels than these.

    Without ``only`` nothing may be chosen there. Both are sorted by mode.
    """

    condition: tuple[tuple[int, int], ...]
    only: tuple[tuple[int, Cell], ...] = ()

    @property
    def modes(self) -> set[int]:
        """The modes that the rule names."""
        return {mode for mode, _ in (*self.condition, *self.only)}

    def partials(self, shape: Cell) -> Iterator[Partial]:
        """Yield the partial cells that it forbids.

        >>> list(Rule(((0, 1),), ((1, (0, 2)),)).partials((2, 4)))
        [{0: 1, 1: 1}, {0: 1, 1: 3}]
        """
        if not self.only:
            yield dict(self.condition)
        for mode, kept in self.only:
            yield from ({**dict(self.condition), mode: level} for level in range(shape[mode]) if level not in kept)

    def share(self, shape: Cell) -> float:
        """Return the share of cells that it forbids by itself.

        >>> Rule(((0, 1),), ((1, (0, 2)),)).share((2, 4))
        0.25
        """
        met = math.prod(1.0 / shape[mode] for mode, _ in self.condition)
        left = math.prod(len(kept) / shape[mode] for mode, kept in self.only) if self.only else 0.0
        return met * (1.0 - left)


def forbidden_share(shape: Cell, partials: Sequence[Partial]) -> float:
    """Return the share of cells that partial cells forbid; of more than a million cells, as a sample of them has it.

    >>> forbidden_share((2, 4), [{0: 1, 1: 1}, {1: 1}])
    0.25
    """
    if math.prod(shape) <= _COUNTED:
        return 1.0 - float(_without(np.ones(shape, dtype=bool), partials).mean())
    rng = np.random.default_rng(0)
    cells = np.stack([rng.integers(size, size=_SAMPLED) for size in shape])
    found = np.zeros(_SAMPLED, dtype=bool)
    for partial in partials:
        left = np.flatnonzero(~found)
        met = np.all([cells[mode, left] == level for mode, level in partial.items()], axis=0)
        found[left[met]] = True
    return float(found.mean())


class Exhausted(Exception):  # noqa: N818  (the space says it in its own words)
    """A rule would leave nothing to choose, given these levels of the context modes."""

    def __init__(self, levels: Partial) -> None:
        super().__init__(levels)
        self.levels = levels


class Rulebook:
    """Rules in order, each once, and retired levels.

    >>> book = Rulebook(context=(0,))
    >>> book.add(Rule(((0, 1), (1, 0))), (2, 2))
    >>> book.add(Rule(((1, 1),)), (2, 2))
    Traceback (most recent call last):
    tensorbandits.space.rulebook.Exhausted: {0: 1}
    >>> book.retire(1, 1, (2, 3))
    >>> book.forbidden((2, 3))
    [{0: 1, 1: 0}, {1: 1}]
    """

    def __init__(self, context: Cell = ()) -> None:
        self.context = context
        self.rules: dict[Rule, None] = {}
        self.retired: dict[tuple[int, int], None] = {}
        self._left: NDArray[np.bool_] | None = None  # which cells may be chosen, if that is noted

    def forbidden(self, shape: Cell) -> list[Partial]:
        """Return all that may not be chosen, as partial cells, each once; retired levels of context modes aside."""
        found = {tuple(sorted(partial.items())): partial for rule in self.rules for partial in rule.partials(shape)}
        for mode, level in self.retired:
            if mode not in self.context:
                found.setdefault(((mode, level),), {mode: level})
        return list(found.values())

    def add(self, rule: Rule, shape: Cell) -> None:
        """Add a rule, unless it is there already."""
        if rule not in self.rules:
            self._strike(rule.partials(shape), shape)
            self.rules[rule] = None

    def remove(self, rule: Rule) -> None:
        """Take back a rule that is there."""
        del self.rules[rule]
        self._left = None

    def retire(self, mode: int, level: int, shape: Cell) -> None:
        """Let a level not be chosen any more."""
        if (mode, level) not in self.retired:
            if mode not in self.context:
                self._strike([{mode: level}], shape)
            self.retired[mode, level] = None

    def restore(self, mode: int, level: int) -> None:
        """Let a retired level be chosen again."""
        del self.retired[mode, level]
        self._left = None

    def _strike(self, partials: Iterable[Partial], shape: Cell) -> None:
        """Take partial cells out of what is left, if that leaves something to choose in every context; else refuse."""
        if math.prod(shape) > _NOTED:
            return
        if self._left is None or self._left.shape != shape:
            self._left = _without(np.ones(shape, dtype=bool), self.forbidden(shape))
        left = _without(self._left.copy(), partials)
        bare = ~left.any(axis=tuple(j for j in range(len(shape)) if j not in self.context))
        if bare.any():
            raise Exhausted(dict(zip(sorted(self.context), np.argwhere(bare)[0].tolist(), strict=True)))
        self._left = left


def _without(left: NDArray[np.bool_], partials: Iterable[Partial]) -> NDArray[np.bool_]:
    for partial in partials:
        left[tuple(partial.get(j, slice(None)) for j in range(left.ndim))] = False
    return left

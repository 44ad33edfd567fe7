"""The rules of a space: which combinations may not be chosen, which alone may be, and which levels are retired.

Everything comes down to forbidden partial cells, as policies take them. In spaces that are small enough it is counted
how many of them strike each cell, so that a rule which would leave a context without any choice is refused when it is
made, and not found at some ask weeks later.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorbandits.base.checks import Cell

Partial = dict[int, int]

_COUNTED = 200_000  # cells; of larger spaces nothing is counted


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
        self._strikes: NDArray[np.int32] | None = None  # how many partial cells strike each cell

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

    def remove(self, rule: Rule, shape: Cell) -> None:
        """Take back a rule that is there."""
        del self.rules[rule]
        self._lift(rule.partials(shape), shape)

    def retire(self, mode: int, level: int, shape: Cell) -> None:
        """Let a level not be chosen any more."""
        if (mode, level) not in self.retired:
            if mode not in self.context:
                self._strike([{mode: level}], shape)
            self.retired[mode, level] = None

    def restore(self, mode: int, level: int, shape: Cell) -> None:
        """Let a retired level be chosen again."""
        del self.retired[mode, level]
        if mode not in self.context:
            self._lift([{mode: level}], shape)

    def _strike(self, partials: Iterable[Partial], shape: Cell) -> None:
        """Count partial cells in, if they leave something to choose in every context; else refuse."""
        strikes = self._counted(shape)
        if strikes is None:
            return
        listed = list(partials)
        _count(strikes, listed, 1)
        decided = tuple(j for j in range(len(shape)) if j not in self.context)
        bare = (strikes > 0).all(axis=decided)
        if bare.any():
            _count(strikes, listed, -1)
            modes = sorted(self.context)
            raise Exhausted(dict(zip(modes, np.argwhere(bare)[0].tolist(), strict=True)))

    def _lift(self, partials: Iterable[Partial], shape: Cell) -> None:
        strikes = self._counted(shape, before=True)
        if strikes is not None:
            _count(strikes, partials, -1)

    def _counted(self, shape: Cell, *, before: bool = False) -> NDArray[np.int32] | None:
        """The strikes of each cell; counted anew where modes have gained levels, unless it is too late for that."""
        if math.prod(shape) > _COUNTED:
            self._strikes = None
        elif self._strikes is None or self._strikes.shape != shape:
            self._strikes = None
            if not before:
                self._strikes = np.zeros(shape, dtype=np.int32)
                for rule in self.rules:
                    _count(self._strikes, rule.partials(shape), 1)
                retired = [{mode: level} for mode, level in self.retired if mode not in self.context]
                _count(self._strikes, retired, 1)
        return self._strikes


def _count(strikes: NDArray[np.int32], partials: Iterable[Mapping[int, int]], by: int) -> None:
    for partial in partials:
        strikes[tuple(partial.get(j, slice(None)) for j in range(strikes.ndim))] += by

"""A request to a policy and its answer: the context and what may be chosen, and the cell that was chosen."""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorbandits.base.checks import Cell, check_cells, check_levels, is_sequence
from tensorbandits.tensor.allowed import Allowed, NothingAllowedError


class Query(NamedTuple):
    """What is asked of a policy; made and checked by :meth:`Policy.query`.

    ``fixed`` (d,) holds the level of each context mode and -1 for the modes to decide, which is how context is encoded
    everywhere inside. ``allowed`` joins what the request allows and the policy's standing rules; ``None`` is all cells.

    >>> from tensorbandits import VectorizedUCB
    >>> query = VectorizedUCB((2, 3), context=(0,)).query((1,))
    >>> query.levels, query.fixed.tolist(), query.allowed
    ((1,), [1, -1], None)
    """

    levels: Cell
    fixed: NDArray[np.int64]
    allowed: Allowed | None
    shape: Cell
    given: Any = None  # what the request allows, as it was given

    @property
    def slices(self) -> tuple[int | slice, ...]:
        """The index of all cells that agree with the context in an array over all cells."""
        return tuple(slice(None) if level < 0 else level for level in self.fixed.tolist())

    def cell(self, arm: int) -> Cell:
        """Return the cell of an arm, which counts the cells that agree with the context, in C order."""
        free = [size for size, level in zip(self.shape, self.fixed.tolist(), strict=True) if level < 0]
        chosen = iter(np.unravel_index(arm, free))
        return tuple(int(next(chosen)) if level < 0 else level for level in self.fixed.tolist())

    def arms(self) -> NDArray[np.int64]:
        """The arms that are allowed, in order; for spaces small enough to list them."""
        mask = self.mask()
        if mask is not None:
            return np.flatnonzero(mask)
        free = [size for size, level in zip(self.shape, self.fixed.tolist(), strict=True) if level < 0]
        return np.arange(math.prod(free))

    def mask(self) -> NDArray[np.bool_] | None:
        """Which of the arms are allowed, flat; ``None`` if all are. Refuses a query that allows none."""
        if self.allowed is None:
            return None
        fixed = {j: level for j, level in enumerate(self.fixed.tolist()) if level >= 0}
        mask = self.allowed.mask(self.shape, fixed).ravel()
        if not mask.any():
            raise NothingAllowedError(
                f"no cell is allowed given the context levels {self.levels}; allow more levels, or permit some of the "
                "forbidden combinations"
            )
        return mask

    @classmethod
    def of(cls, levels: Sequence[int], allowed: Any, shape: Cell, context: Cell, standing: Allowed | None) -> Query:
        """Return a request, checked: levels of the context modes, what it allows, and rules that always hold."""
        valid = check_levels(levels, context, shape)
        fixed = np.full(len(shape), -1)
        if valid:
            fixed[list(context)] = valid
        if standing is not None and standing.shape != shape:  # another thread gives a mode more levels just now
            standing = Allowed.of(standing, shape)
        if allowed is not None or standing is not None:
            return cls(valid, fixed, Allowed.of(allowed, shape, standing), shape, allowed)
        return cls(valid, fixed, None, shape)


def check_rows(levels: Any, context: Cell, shape: Cell) -> list[Cell]:
    """Return the context levels of many requests: one row each, or, where there is no context, their number."""
    if isinstance(levels, (int, np.integer)) and not isinstance(levels, bool):
        if context:
            raise ValueError(
                f"{levels} is a number; this policy has context modes {context}: "
                f"give an array of shape (n, {len(context)}), one row of levels per cell wanted"
            )
        if levels < 0:
            raise ValueError(f"cannot ask for {levels} cells; ask for 0 or more")
        return [()] * int(levels)
    if not is_sequence(levels):
        raise TypeError(f"levels is {levels!r}; give one row of context levels per cell wanted, or a number of cells")
    return [check_levels(row, context, shape) for row in levels]


class Choice(NamedTuple):
    """A decision: the cell to play, and a note for the policy, if it wants one.

    The note is plain data (numbers, strings, lists, ``None``) and travels with the decision: it is given to
    :meth:`Policy.issued`, when another process is told of the decision, and to :meth:`Policy.tell` with its reward.

    >>> from tensorbandits import TensorEpochGreedy
    >>> policy = TensorEpochGreedy((2, 3), rank=1, seed=0)
    >>> choice = policy.decide(policy.query())
    >>> policy.tell(choice.cell, 0.5, choice.note)
    """

    cell: Cell
    note: Any = None

    @classmethod
    def of(cls, chosen: Choice | Cell) -> Choice:
        """Return a choice, or a cell as a choice without a note."""
        return chosen if isinstance(chosen, Choice) else cls(chosen)


class Notes:
    """The notes of decisions whose callers do not keep them, by cell; the oldest are forgotten beyond a number.

    >>> notes = Notes(most=2)
    >>> for note in "abc": notes.put((0, 1), note)
    >>> notes.take((0, 1)), notes.take((0, 1)), notes.take((0, 1))
    ('c', 'b', None)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._by_number: OrderedDict[int, tuple[Cell, Any]] = OrderedDict()
        self._by_cell: dict[Cell, deque[int]] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._by_number)

    def put(self, cell: Cell, note: Any) -> None:
        """Keep the note of a decision."""
        if len(self._by_number) == self._most:
            oldest = next(iter(self._by_number))
            self._remove(self._by_number[oldest][0], oldest)
        self._by_number[self._next] = (cell, note)
        self._by_cell.setdefault(cell, deque()).append(self._next)
        self._next += 1

    def take(self, cell: Cell) -> Any:
        """Return the note of the last decision for this cell that has none taken yet, or ``None``."""
        numbers = self._by_cell.get(cell)
        if not numbers:
            return None
        note = self._by_number[numbers[-1]][1]
        self._remove(cell, numbers[-1])
        return note

    def _remove(self, cell: Cell, number: int) -> None:
        numbers = self._by_cell[cell]
        if numbers[-1] == number:
            numbers.pop()
        else:
            numbers.popleft()  # the oldest
        if not numbers:
            del self._by_cell[cell]
        del self._by_number[number]

    def state(self) -> dict[str, Any]:
        """Return cells (n, d) and notes, in order."""
        kept = list(self._by_number.values())
        cells = np.array([cell for cell, _ in kept], dtype=np.int64)
        return {"cells": cells, "notes": [note for _, note in kept]}

    def restore(self, state: Mapping[str, Any], shape: Cell) -> None:
        """Take back what :meth:`state` returned, of cells within a shape."""
        self._by_number, self._by_cell, self._next = OrderedDict(), {}, 0
        for cell, note in zip(check_cells(state["cells"], shape).tolist(), state["notes"], strict=True):
            self.put(tuple(cell), note)

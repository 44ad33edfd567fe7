"""What every tensor that decisions are made from can do: tell its values, and find its best allowed cell."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorbandits.base.checks import Cell
from tensorbandits.tensor.allowed import Allowed

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_MOST_CONTEXTS = 4096  # of which best cells are remembered


class Packed(ABC):
    """A tensor in the layout of compiled code, which is never listed cell by cell unless it is small."""

    shape: Cell

    @abstractmethod
    def at(self, cells: Ints, order: Ints | None = None) -> Floats:
        """Return the values at valid cells (n, d), shape (n,); sooner if their ``order`` by levels (n,) is given."""

    @abstractmethod
    def best(self, fixed: Ints, allowed: Allowed | None = None) -> Cell:
        """Return the allowed cell of largest value given the levels of the modes that are not -1 in ``fixed`` (d,)."""

    @abstractmethod
    def copy(self) -> Packed:
        """Return an independent copy."""

    @abstractmethod
    def tensor(self) -> Any:
        """Return the same as a value that can be taken apart: a ``Tucker``, or ``Pairs``."""

    @abstractmethod
    def widened(self, shape: Cell) -> Packed:
        """Return the same for modes that gained levels: a new level is as all others of its mode are on average."""


class PackedModel(Packed):
    """A packed tensor whose numbers stand in one line, which a sampler redraws and keeps some of."""

    offset: float

    @abstractmethod
    def negated(self) -> PackedModel:
        """Return the model of minus the values."""

    @abstractmethod
    def line(self) -> Floats:
        """Return a copy of all numbers, the offset last."""

    @abstractmethod
    def with_numbers(self, line: Floats) -> PackedModel:
        """Return a model of the same layout with other numbers, of which it keeps views."""

    @abstractmethod
    def at_of_lines(self, lines: Floats, cells: Ints) -> Floats:
        """Return the values at cells (n, d) of models whose numbers are ``lines`` (m, numbers), shape (n, m)."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return the model as plain arrays."""


class Remembering(Packed):
    """A tensor that several decisions are made from, and that nobody changes: it searches once for each context."""

    def __init__(self, base: Packed) -> None:
        self.base, self.shape = base, base.shape
        self._bests: dict[bytes, Cell] = {}

    def copy(self) -> Packed:
        """Return the same: nobody changes it."""
        return self

    def tensor(self) -> Any:
        """Return the tensor itself."""
        return self.base.tensor()

    def widened(self, shape: Cell) -> Packed:
        """Return the same for modes that gained levels."""
        return self.base.widened(shape)

    def at(self, cells: Ints, order: Ints | None = None) -> Floats:
        """Return the values at valid cells (n, d), shape (n,)."""
        return self.base.at(cells, order)

    def best(self, fixed: Ints, allowed: Allowed | None = None) -> Cell:
        """Return the allowed cell of largest value, as remembered if all are allowed."""
        if allowed is not None:
            return self.base.best(fixed, allowed)
        known = fixed.tobytes()
        if (cell := self._bests.get(known)) is None:
            cell = self.base.best(fixed)
            if len(self._bests) < _MOST_CONTEXTS:
                self._bests[known] = cell
        return cell


def mean_rows(factor: Floats, size: int) -> Floats:
    """Return a factor (p, r) with its mean row for each of the levels that it lacks, shape (size, r).

    >>> mean_rows(np.array([[1.0], [3.0]]), 3).tolist()
    [[1.0], [3.0], [2.0]]
    """
    return np.vstack([factor, np.repeat(factor.mean(axis=0)[None], size - len(factor), axis=0)])

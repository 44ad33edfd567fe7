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
    def at_of_lines(self, lines: Floats, cell: Cell) -> Floats:
        """Return the values at a cell of models whose numbers are ``lines`` (m, numbers), shape (m,)."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return the model as plain arrays."""


def mean_rows(factor: Floats, size: int) -> Floats:
    """Return a factor (p, r) with its mean row for each of the levels that it lacks, shape (size, r).

    >>> mean_rows(np.array([[1.0], [3.0]]), 3).tolist()
    [[1.0], [3.0], [2.0]]
    """
    return np.vstack([factor, np.repeat(factor.mean(axis=0)[None], size - len(factor), axis=0)])

"""The ledger: what every estimator needs of the history, and nothing more.

Per *observed* cell it holds the count ``N``, the sum of rewards ``Y`` and the sum of squares ``Q``.
Its size grows with the distinct cells seen, not with the rounds played nor with the size of the space.
"""

from __future__ import annotations

import bisect
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbandits.checks import Cell, check_cell, check_cells, check_reward, check_rewards, check_shape

_DENSE_LIMIT = 10**8
_SORT_AT_ONCE = 64  # this many new cells are sorted with all the rest rather than put in one by one


class Entry(NamedTuple):
    """One observed cell: its levels, its number of rewards, their sum, and their sum of squares."""

    cell: Cell
    rounds: float
    total: float
    squares: float


class Ledger:
    """Counts, sums and sums of squares of rewards per observed cell.

    Parameters
    ----------
    shape : the number of levels of each mode, any order ``d >= 1``. A space of 10^12 cells costs nothing by itself.

    >>> ledger = Ledger((3, 4))
    >>> ledger.add((0, 1), 2.0)
    >>> ledger.add([(0, 1), (2, 3)], [4.0, 1.0])
    >>> len(ledger), ledger.rounds, ledger[0, 1].total
    (2, 3.0, 6.0)
    """

    def __init__(self, shape: Sequence[int]) -> None:
        self.shape: Cell = check_shape(shape)
        self._position: dict[Cell, int] = {}
        self._cells = np.zeros((16, len(self.shape)), dtype=np.int64)
        self._sums = np.zeros((3, 16))  # rows: N, Y, Q
        self._rounds = 0.0
        self._sorted: list[Cell] = []  # cells in order of their levels, as far as `order` has looked
        self._order = np.zeros(16, dtype=np.int64)  # and their positions

    def add(self, cells: ArrayLike, rewards: ArrayLike) -> None:
        """Add one observation (a cell and a number) or many (an (n, d) array and n numbers).

        Takes amortised constant time per observation. Many at once give the same numbers as one by one.
        """
        if not hasattr(rewards, "__len__") or np.ndim(np.asarray(rewards, dtype=object)) == 0:
            self.record(check_cell(cells, self.shape), check_reward(rewards))  # type: ignore[arg-type]
            return
        array = check_cells(cells, self.shape)
        values = check_rewards(rewards, len(array))
        at = [self._locate(tuple(cell)) for cell in array.tolist()]
        np.add.at(self._sums[0], at, 1.0)
        np.add.at(self._sums[1], at, values)
        np.add.at(self._sums[2], at, values * values)
        self._rounds += len(values)

    def record(self, cell: Cell, reward: float) -> None:
        """Add one observation that was checked already: a tuple of ints within the shape, and a finite float."""
        at = self._locate(cell)
        sums = self._sums
        sums[0, at] += 1.0
        sums[1, at] += reward
        sums[2, at] += reward * reward
        self._rounds += 1.0

    def _locate(self, cell: Cell) -> int:
        """Return the position of a cell, making room for it at the end if it is new."""
        at = self._position.get(cell)
        if at is None:
            at = len(self._position)
            if at == len(self._cells):
                self._cells = np.concatenate([self._cells, np.zeros_like(self._cells)])
                self._sums = np.concatenate([self._sums, np.zeros_like(self._sums)], axis=1)
            self._cells[at] = cell
            self._position[cell] = at
        return at

    @property
    def cells(self) -> NDArray[np.int64]:
        """The observed cells in order of first sight, shape (n, d); a view, not to be written to."""
        return self._cells[: len(self._position)]

    @property
    def counts(self) -> NDArray[np.float64]:
        """The number of rewards ``N`` per observed cell, shape (n,); a view."""
        return self._sums[0, : len(self._position)]

    @property
    def totals(self) -> NDArray[np.float64]:
        """The sum of rewards ``Y`` per observed cell, shape (n,); a view."""
        return self._sums[1, : len(self._position)]

    @property
    def squares(self) -> NDArray[np.float64]:
        """The sum of squared rewards ``Q`` per observed cell, shape (n,); a view."""
        return self._sums[2, : len(self._position)]

    @property
    def rounds(self) -> float:
        """The number of rewards seen, ``T``."""
        return self._rounds

    @property
    def order(self) -> NDArray[np.int64]:
        """The positions of the observed cells when sorted by their levels, first mode first, shape (n,); a view.

        >>> ledger = Ledger((3, 4)); ledger.add([(2, 1), (0, 3), (0, 2)], [1.0, 1.0, 1.0])
        >>> ledger.order.tolist()
        [2, 1, 0]
        """
        n, known = len(self._position), len(self._sorted)
        if n - known > _SORT_AT_ONCE:
            self._order = np.lexsort(self.cells.T[::-1]).astype(np.int64)
            self._sorted = [tuple(cell) for cell in self.cells[self._order].tolist()]
        elif n > known:
            if n > len(self._order):
                self._order = np.concatenate([self._order[:known], np.zeros(len(self._cells), dtype=np.int64)])
            for position in range(known, n):
                cell = tuple(self._cells[position].tolist())
                at = bisect.bisect(self._sorted, cell)
                self._sorted.insert(at, cell)
                self._order[at + 1 : position + 1] = self._order[at:position]
                self._order[at] = position
        return self._order[:n]

    @property
    def mean(self) -> float:
        """The mean of all rewards seen; 0 when there are none."""
        return float(self.totals.sum() / self.rounds) if self._position else 0.0

    @property
    def variance(self) -> float:
        """The variance of all rewards seen about their mean; 0 when there are none."""
        if not self._position:
            return 0.0
        mean = self.mean
        within = self.within.sum()
        between = (self.counts * (self.totals / self.counts - mean) ** 2).sum()
        return float((within + between) / self.rounds)

    def noise_variance(self) -> tuple[float, float]:
        """Return the sum of squares within cells and its degrees of freedom (rewards beyond each cell's first)."""
        return float(self.within.sum()), self.rounds - len(self)

    @property
    def within(self) -> NDArray[np.float64]:
        """The sum of squares of each observed cell's rewards about their mean, shape (n,)."""
        return np.maximum(self.squares - self.totals**2 / self.counts, 0.0)

    def __len__(self) -> int:
        return len(self._position)

    def __contains__(self, cell: object) -> bool:
        try:
            return check_cell(cell, self.shape) in self._position  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return False

    def __getitem__(self, cell: Sequence[int]) -> Entry:
        """The entry of one cell, with zeros when it was never observed."""
        key = check_cell(cell, self.shape)
        at = self._position.get(key)
        return Entry(key, 0.0, 0.0, 0.0) if at is None else Entry(key, *self._sums[:, at].tolist())

    def __iter__(self) -> Iterator[Entry]:
        for cell, at in self._position.items():
            yield Entry(cell, *self._sums[:, at].tolist())

    def __repr__(self) -> str:
        return f"Ledger(shape={self.shape}, cells={len(self)}, rounds={self.rounds:g})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ledger) and self.shape == other.shape and set(self) == set(other)

    __hash__ = None  # type: ignore[assignment]

    def copy(self) -> Ledger:
        """Return an independent copy."""
        return Ledger.from_state(self.state())

    def __add__(self, other: Ledger) -> Ledger:
        """Merge two ledgers of the same space: counts, sums and squares add.

        >>> a, b = Ledger((2, 2)), Ledger((2, 2))
        >>> a.add((0, 0), 1.0); b.add((0, 0), 2.0); b.add((1, 1), 3.0)
        >>> (a + b)[0, 0].total, len(a + b)
        (3.0, 2)
        """
        if not isinstance(other, Ledger):
            return NotImplemented
        if self.shape != other.shape:
            raise ValueError(f"ledgers of shapes {self.shape} and {other.shape} do not add; they must share one space")
        result = self.copy()
        at = [result._locate(cell) for cell in other._position]
        result._sums[:, at] += other._sums[:, : len(other)]
        result._rounds += other._rounds
        return result

    def dense(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return ``N, Y, Q`` as full arrays of the ledger's shape; refused above 10^8 cells.

        >>> ledger = Ledger((2, 2)); ledger.add((0, 1), 5.0)
        >>> ledger.dense()[1].tolist()
        [[0.0, 5.0], [0.0, 0.0]]
        """
        size = math.prod(self.shape)
        if size > _DENSE_LIMIT:
            raise ValueError(
                f"the space {self.shape} has {size:.3g} cells, too many for a full array (at most {_DENSE_LIMIT:.0e}); "
                "use .cells, .counts, .totals and .squares, which hold observed cells only"
            )
        result = np.zeros((3, *self.shape))
        result[(slice(None), *self.cells.T)] = self._sums[:, : len(self)]
        return result[0], result[1], result[2]

    def state(self) -> dict[str, Any]:
        """Return the ledger as plain arrays: ``shape``, ``cells`` (n, d) and ``sums`` (3, n)."""
        n = len(self)
        return {
            "shape": np.array(self.shape),
            "cells": self._cells[:n].copy(),
            "sums": self._sums[:, :n].copy(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the ledger that :meth:`state` described."""
        ledger = cls([int(size) for size in state["shape"]])
        cells = check_cells(state["cells"], ledger.shape)
        for cell in cells.tolist():
            ledger._locate(tuple(cell))
        if len(ledger) != len(cells):
            raise ValueError("a ledger's state names a cell twice; merge such parts with + instead")
        ledger._sums[:, : len(cells)] = state["sums"]
        if not (ledger.counts > 0).all() or not np.isfinite(ledger._sums).all():
            raise ValueError("a ledger's state has counts that are not above 0, or sums that are not finite numbers")
        ledger._rounds = float(ledger.counts.sum())
        return ledger

    def save(self, path: str | PathLike[str]) -> None:
        """Write the ledger to a safetensors file."""
        from safetensors.numpy import save_file

        metadata = {"tensorbandits": json.dumps({"kind": "ledger", "version": 1})}
        save_file({name: np.ascontiguousarray(a) for name, a in self.state().items()}, path, metadata=metadata)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a ledger that :meth:`save` wrote."""
        from safetensors import safe_open

        with safe_open(path, framework="numpy") as file:
            metadata = json.loads((file.metadata() or {}).get("tensorbandits", "{}"))
            if metadata.get("kind") != "ledger" or metadata.get("version") != 1:
                raise ValueError(
                    f"{path} is not a ledger of version 1 (it says {metadata}); give a file that Ledger.save wrote"
                )
            return cls.from_state({name: file.get_tensor(name) for name in ("shape", "cells", "sums")})

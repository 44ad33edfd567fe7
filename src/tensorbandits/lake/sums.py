"""Sums of rewards by cell, exact: they add up, and are taken off again, in any order to the same bits.

What a ledger holds of a cell comes from them at the end: how many rewards there are, their sum, their squares, and of
revenue how many are not 0, and logarithms of these and their squares.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tensorbandits.amounts import RevenueLedger, SignedRevenueLedger
from tensorbandits.base.checks import check_array
from tensorbandits.lake import exact
from tensorbandits.ledger import Ledger

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_ROWS = ("totals", "squares", "logs", "log_squares")
_LEDGERS: Mapping[str, type[RevenueLedger]] = {"revenue": RevenueLedger, "revenue-signed": SignedRevenueLedger}


@dataclass(frozen=True, eq=False)
class CellSums:
    """Sums of rewards by cell.

    ``cells`` (n, d) are in order, each once; ``counts`` (n,) are of rewards, ``bought`` (n,) of those that are not 0.
    ``rows`` are the exact sums by name, each (n, k): of rewards and of their squares, and of revenue of the logarithms
    of amounts and of their squares.

    >>> cells = np.array([[0, 1], [0, 1], [1, 0]])
    >>> sums = CellSums.of(cells, np.array([0.1, 0.2, 5.0]), np.array([1, 1, 3]))
    >>> again = CellSums.of(cells[::-1], np.array([5.0, 0.2, 0.1]), np.array([3, 1, 1]))
    >>> sums == again, sums.less(sums) == CellSums.none(2), sums.ledger((2, 2))[1, 0].total
    (True, True, 15.0)
    """

    cells: Ints
    counts: Ints
    bought: Ints
    rows: Mapping[str, Floats]

    @classmethod
    def none(cls, modes: int) -> Self:
        """Return the sums of no rewards."""
        nothing = np.zeros(0, dtype=np.int64)
        return cls(np.zeros((0, modes), dtype=np.int64), nothing, nothing, {name: np.zeros((0, 1)) for name in _ROWS})

    @classmethod
    def of(cls, cells: Ints, rewards: Floats, counts: Ints, *, logs: bool = False) -> Self:
        """Add up rewards (n,) of cells (n, d), each told so many times; the same may come several times.

        With ``logs`` logarithms of amounts are added up too.
        """
        if not len(cells):
            return cls.none(cells.shape[1])
        found, groups = np.unique(cells, axis=0, return_inverse=True)
        groups, weights, some = groups.ravel(), counts.astype(np.float64), rewards != 0.0
        sizes = np.array([math.log(reward) if reward > 0.0 else 0.0 for reward in rewards.tolist()] if logs else [])
        terms = {"totals": [rewards], "squares": list(exact.products(rewards, rewards))}
        terms |= {"logs": [sizes], "log_squares": list(exact.products(sizes, sizes))} if logs else {}
        return cls(
            found.astype(np.int64),
            _counted(groups, len(found), counts),
            _counted(groups, len(found), np.where(some, counts, 0)),
            {name: _weighted(groups, len(found), terms.get(name, []), weights) for name in _ROWS},
        )

    def plus(self, *others: CellSums) -> Self:
        """Return what these and others add up to."""
        return self._joined([self, *others], [1] * (len(others) + 1))

    def less(self, other: CellSums) -> Self:
        """Return what is left when others, which were added, are taken off again."""
        return self._joined([self, other], [1, -1])

    def _joined(self, parts: Sequence[CellSums], signs: Sequence[int]) -> Self:
        cells, groups = np.unique(np.concatenate([part.cells for part in parts]), axis=0, return_inverse=True)
        groups, size = groups.ravel(), len(cells)

        def counted(name: str) -> Ints:
            columns = [sign * getattr(part, name) for part, sign in zip(parts, signs, strict=True)]
            return _counted(groups, size, np.concatenate(columns))

        def summed(name: str) -> Floats:
            width = max(part.rows[name].shape[1] for part in parts)
            signed = [sign * part.rows[name] for part, sign in zip(parts, signs, strict=True)]
            wide = [np.pad(rows, ((0, 0), (0, width - rows.shape[1]))) for rows in signed]
            return exact.grouped(groups, size, np.concatenate(wide).T.copy())

        counts, bought = counted("counts"), counted("bought")
        kept = counts != 0
        if (counts < 0).any() or (bought < 0).any():
            raise ValueError("more rewards were taken off than there are: the sums are of other rewards")
        rows = {name: _narrow(summed(name)[kept]) for name in _ROWS}
        kept_cells = cells[kept].astype(np.int64).reshape(-1, self.cells.shape[1])
        return type(self)(kept_cells, counts[kept], bought[kept], rows)

    def inside(self, shape: Sequence[int]) -> tuple[Self, int]:
        """Return the sums of cells within a shape, and how many rewards are of others."""
        kept = ((self.cells >= 0) & (self.cells < np.array(shape))).all(axis=1)
        if kept.all():
            return self, 0
        rows = {name: _narrow(some[kept]) for name, some in self.rows.items()}
        return type(self)(self.cells[kept], self.counts[kept], self.bought[kept], rows), int(self.counts[~kept].sum())

    def ledger(self, shape: Sequence[int], kind: str = "") -> Ledger:
        """Return the sums as a ledger of a kind, that of a policy: ``policy.ledger.kind``."""
        if not len(self.cells):
            return _LEDGERS[kind](shape) if kind else Ledger(shape)
        N = self.counts.astype(np.float64)
        totals, squares = (self.rows[name][:, 0] for name in ("totals", "squares"))
        single = all(self.rows[name].shape[1] == 1 for name in ("totals", "squares"))
        whole = single and bool((totals == np.floor(totals)).all() and (squares == np.floor(squares)).all())
        about = None if whole else exact.within(N, self.rows["totals"], self.rows["squares"])
        plain = Ledger.of(shape, self.cells, N, totals, squares, about)
        if not kind:
            return plain
        made = _LEDGERS[kind]
        sizes = [self.rows[name][:, 0] for name in (("totals", "squares") if made.signed else ("logs", "log_squares"))]
        return made.of_parts(plain, self.bought.astype(np.float64), *sizes)

    def __eq__(self, other: object) -> bool:
        """Sums are the same when all their bits are."""
        if not isinstance(other, CellSums):
            return NotImplemented
        ours, theirs = self.state(), other.state()
        return all(np.array_equal(ours[name], theirs[name]) for name in ours)

    __hash__ = None  # type: ignore[assignment]

    def state(self) -> dict[str, Any]:
        """Return the sums as plain arrays."""
        return {"cells": self.cells, "counts": self.counts, "bought": self.bought, **self.rows}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the sums that :meth:`state` described."""
        cells = np.asarray(state["cells"], dtype=np.int64)
        size = len(cells)
        counts, bought = (check_array(state[name], name, (size,), integers=True) for name in ("counts", "bought"))
        rows = {name: np.asarray(state[name], dtype=np.float64) for name in _ROWS}
        if cells.ndim != 2 or any(some.ndim != 2 or len(some) != size for some in rows.values()):
            raise ValueError("the sums have parts of several lengths; give what state returned, whole")
        return cls(cells, counts.astype(np.int64), bought.astype(np.int64), rows)


def _counted(groups: Ints, size: int, counts: Ints) -> Ints:
    found = np.zeros(size, dtype=np.int64)
    np.add.at(found, groups, counts)
    return found


def _weighted(groups: Ints, size: int, terms: Sequence[Floats], weights: Floats) -> Floats:
    """The exact sums of terms by group, each so many times: weights are whole numbers."""
    if (weights == 1.0).all():
        return exact.grouped(groups, size, terms)
    return exact.grouped(groups, size, [part for term in terms for part in exact.products(term, weights)])


def _narrow(rows: Floats) -> Floats:
    """Rows without columns that are zero throughout, but for the first."""
    used = np.flatnonzero(rows.any(axis=0))
    return np.ascontiguousarray(rows[:, : max(used[-1] + 1 if len(used) else 1, 1)])

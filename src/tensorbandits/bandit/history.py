"""Rewards in the order in which they were told, added up per cell in blocks that are the longer the older they are.

So recent rewards can be held against older ones, whenever the change was, without keeping them all: of n rewards there
are about 4 log2(n / 128) blocks, each of at most 20,000 cells.
"""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Mapping
from itertools import accumulate
from typing import Any, Self

import numpy as np

from tensorbandits.base.checks import Cell, check_count
from tensorbandits.ledger import Ledger

_BLOCK = 64  # rewards of the newest blocks
_ALIKE = 4  # blocks of the same length, at most
_CELLS = 20_000  # of a block: those that were rewarded most


class History:
    """Blocks of rewards, the oldest first.

    The oldest two of five blocks of the same length become one: lengths fall from the oldest to the newest, and no more
    than four are alike, but for the newest, which still fills. Of revenue only ``conversions`` are kept.

    >>> history = History((2, 3))
    >>> [history.record((0, 1), 1.0) for _ in range(64 * 6 + 1)][-1], history.lengths
    (385, [128, 64, 64, 64, 64, 1])
    >>> history.replace(1, (0, 1), 1.0, 3.0); history.blocks[0][0, 1].total
    130.0
    """

    def __init__(self, shape: Cell, *, conversions: bool = False) -> None:
        self.shape, self.conversions = shape, conversions  # the latter: what counts of a reward is whether it is not 0
        self.blocks: list[Ledger] = []
        self.lengths: list[int] = []  # rewards of each block, also of cells that were left out

    @property
    def told(self) -> int:
        """The number of rewards so far."""
        return sum(self.lengths)

    def record(self, cell: Cell, reward: float) -> int:
        """Add a reward that was checked already; return its number, from 1."""
        if not self.blocks or self.lengths[-1] >= _BLOCK:
            self._merge()
            self.blocks.append(Ledger(self.shape))
            self.lengths.append(0)
        self.blocks[-1].record(cell, self._kept(reward))
        self.lengths[-1] += 1
        return self.told

    def replace(self, number: int, cell: Cell, old: float, new: float) -> None:
        """Put another reward in the place of one, by its number; one whose cell was left out is none."""
        at = bisect.bisect_left(list(accumulate(self.lengths)), number)
        if number > 0 and at < len(self.blocks):
            with contextlib.suppress(ValueError):
                self.blocks[at].replace(cell, self._kept(old), self._kept(new))

    def _kept(self, reward: float) -> float:
        return float(reward != 0.0) if self.conversions else reward

    def _merge(self) -> None:
        at = len(self.lengths) - 1 - _ALIKE  # the oldest of five
        while at >= 0 and self.lengths[at] == self.lengths[at + _ALIKE]:
            self.blocks[at].merge(self.blocks.pop(at + 1))
            self.lengths[at] += self.lengths.pop(at + 1)
            if len(self.blocks[at]) > _CELLS:
                self.blocks[at] = _most(self.blocks[at])
            at -= _ALIKE

    def grow(self, shape: Cell) -> None:
        """Follow modes that gain levels."""
        for block in self.blocks:
            for mode, (now, before) in enumerate(zip(shape, block.shape, strict=True)):
                if now > before:
                    block.grow(mode, now - before)
        self.shape = shape

    def copy(self) -> History:
        """Return an independent copy."""
        return History.from_state(self.state(), self.shape, conversions=self.conversions)

    def state(self) -> dict[str, Any]:
        """Return everything as plain arrays and numbers."""
        return {
            "lengths": list(self.lengths),
            "blocks": {str(at): block.state() for at, block in enumerate(self.blocks)},
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], shape: Cell, *, conversions: bool = False) -> Self:
        """Return what :meth:`state` described, which must be of this shape."""
        history = cls(shape, conversions=conversions)
        history.lengths = [check_count(length, "the length of a block") for length in state["lengths"]]
        history.blocks = [Ledger.from_state(state["blocks"][str(at)]) for at in range(len(history.lengths))]
        if len(state["blocks"]) != len(history.lengths) or any(block.shape != shape for block in history.blocks):
            raise ValueError(f"the history has {len(state['blocks'])} blocks, not all of shape {shape}; give all of it")
        return history


def _most(ledger: Ledger) -> Ledger:
    """Return the cells that have the most rewards."""
    kept = np.sort(np.argsort(-ledger.counts, kind="stable")[:_CELLS])
    sums = (array[kept] for array in (ledger.counts, ledger.totals, ledger.squares, ledger.within))
    return Ledger.of(ledger.shape, ledger.cells[kept], *sums)

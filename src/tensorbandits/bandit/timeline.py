"""What was decided over time and what it earned: a record that stays small however long a bandit runs.

Decisions are counted in blocks of equally many. When there are too many blocks, each two neighbours become one. So
there are from 50 to 100 of them once there are 50 decisions, and the record takes at most 10 KB for each level of each
mode. What the holdout decided, and what a caller's own rule did, is counted apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tensorbandits.bandit.comparison import SIDES
from tensorbandits.base.checks import Cell, check_array, check_count
from tensorbandits.base.frames import Backend, column, to_frame
from tensorbandits.space.labels import Label

Floats = NDArray[np.float64]

_BLOCKS = 100
_EPOCHS = 1_000  # changes of chances that are kept
_DECISIONS, _REWARDS, _TOTAL, _SQUARES = range(4)


class Timeline:
    """Decisions, rewards and sums of rewards, by block, by side (policy, holdout or caller), and by level of each mode.

    A reward counts in the block of its decision, whenever it comes; one that replaces another corrects it there.

    >>> timeline = Timeline(2)
    >>> mark = timeline.enter((0, 1), time=10.0, side=0)
    >>> timeline.reward(mark, (0, 1), None, 2.0, side=0)
    >>> timeline.reward(mark, (0, 1), 2.0, 3.0, side=0)
    >>> timeline.totals[0, 0].tolist(), timeline.levels(1)[0, 0].tolist()
    ([1.0, 1.0, 3.0, 9.0], [[0.0, 1.0], [0.0, 1.0], [0.0, 3.0]])
    """

    def __init__(self, order: int) -> None:
        self.length, self.count = 1, 0  # decisions of a block, and so far
        self.last = 0.0  # the time of the last decision
        self.epochs: list[tuple[int, float, float]] = []  # since which decision the policy, the holdout had a chance
        self._starts = np.zeros(_BLOCKS)
        self._totals = np.zeros((_BLOCKS, len(SIDES), 4))
        self._levels = [np.zeros((_BLOCKS, len(SIDES), 3, 1)) for _ in range(order)]

    def enter(self, cell: Cell, *, time: float, side: int, chances: tuple[float, float] | None = None) -> int:
        """Count a decision, and return the mark by which its reward finds its block.

        ``chances`` are those that the policy, and that the holdout, makes decisions now.
        """
        mark = self.count
        if chances is not None and (not self.epochs or self.epochs[-1][1:] != chances):
            self.epochs = [*self.epochs[-_EPOCHS:], (mark, *chances)]
        if mark >= self.length * _BLOCKS:
            self._merge()
        if not mark % self.length:
            self._starts[mark // self.length] = time
        self.count, self.last = mark + 1, time
        for mode, level in enumerate(cell):
            if level >= self._levels[mode].shape[-1]:
                self._widen(mode, level)
        self._add(mark, cell, side, _DECISIONS, 1.0)
        return mark

    def cancel(self, mark: int, cell: Cell, *, side: int) -> None:
        """Take back a decision that was not carried out."""
        self._add(mark, cell, side, _DECISIONS, -1.0)

    def reward(self, mark: int, cell: Cell, old: float | None, new: float | None, *, side: int) -> None:
        """Count the reward of a decision in the place of the ``old`` one; ``None`` is for no reward."""
        if (old is None) != (new is None):
            self._add(mark, cell, side, _REWARDS, 1.0 if old is None else -1.0)
        before, after = old or 0.0, new or 0.0
        if after != before:
            self._add(mark, cell, side, _TOTAL, after - before)
            self._totals[mark // self.length, side, _SQUARES] += after * after - before * before

    def _add(self, mark: int, cell: Cell, side: int, what: int, value: float) -> None:
        at = mark // self.length
        self._totals[at, side, what] += value
        for counts, level in zip(self._levels, cell, strict=True):
            counts[at, side, what, level] += value

    def _merge(self) -> None:
        """Make one block of each two neighbours."""
        half = _BLOCKS // 2
        self._starts[:half], self._starts[half:] = self._starts[::2].copy(), 0.0
        for sums in (self._totals, *self._levels):
            sums[:half], sums[half:] = sums[::2] + sums[1::2], 0.0
        self.length *= 2

    def _widen(self, mode: int, level: int) -> None:
        old = self._levels[mode]
        self._levels[mode] = np.zeros((*old.shape[:-1], max(level + 1, 2 * old.shape[-1])))
        self._levels[mode][..., : old.shape[-1]] = old

    # Reading.

    def __len__(self) -> int:
        """Return the number of blocks."""
        return -(-self.count // self.length)

    @property
    def starts(self) -> Floats:
        """The time of each block's first decision, shape (blocks,)."""
        return self._starts[: len(self)].copy()

    @property
    def totals(self) -> Floats:
        """Decisions, rewards, their sum and their sum of squares, shape (blocks, sides, 4)."""
        return self._totals[: len(self)].copy()

    def levels(self, mode: int) -> Floats:
        """Return decisions, rewards and their sum by level of a mode, shape (blocks, sides, 3, levels)."""
        return self._levels[mode][: len(self)].copy()

    def chances(self) -> Floats:
        """Return the chances of the sides in each block, shape (blocks, sides); zeros where they changed within it."""
        found = np.zeros((len(self), len(SIDES)))
        starts = [epoch[0] for epoch in self.epochs]
        for (first, policy, holdout), end in zip(self.epochs, [*starts[1:], self.count], strict=True):
            if policy >= 0.0:
                last = len(self) if end >= self.count else end // self.length
                found[-(-first // self.length) : last] = policy, holdout, max(1.0 - policy - holdout, 0.0)
        return found

    def frame(self, mode: int | None = None, labels: Sequence[Label] = (), backend: Backend | None = None) -> Any:
        """Return a data frame with one row per block and side, and per level of a mode if one is given.

        ``first`` is the number of the block's first decision, ``start`` its time; ``mean`` the mean reward, and
        ``error`` its standard error; ``share`` what a level has of the decisions of its block and side.
        """
        if mode is None:
            sums = self.totals[..., None]
        else:
            counts = self.levels(mode)
            sums = np.zeros((*counts.shape[:-1], len(labels)))
            sums[..., : counts.shape[-1]] = counts[..., : len(labels)]
        sides = np.array([side for side in range(len(SIDES)) if not side or self._totals[:, side, _DECISIONS].any()])
        block, which, level = (part.ravel() for part in np.indices((len(sums), len(sides), sums.shape[-1])))
        side = sides[which]
        at = (block, side, slice(None), level)
        whole = self._totals[block, side, _DECISIONS]
        rows = sums[at]
        columns: dict[str, Any] = {
            "block": block,
            "first": block * self.length,
            "start": self._starts[block],
            "by": [SIDES[one] for one in side],
            **({} if mode is None else {"level": column([labels[one] for one in level])}),
            "decisions": rows[:, _DECISIONS],
            **({} if mode is None else {"share": rows[:, _DECISIONS] / np.where(whole > 0, whole, np.nan)}),
            "rewards": rows[:, _REWARDS],
            "total": rows[:, _TOTAL],
        }
        return to_frame(columns | means(rows), backend)

    # Saving and making again.

    def state(self) -> dict[str, Any]:
        """Return the record as plain arrays and numbers."""
        sides = max(side + 1 for side in range(len(SIDES)) if not side or self._totals[:, side].any())
        return {
            "length": self.length,
            "count": self.count,
            "last": self.last,
            "starts": self.starts,
            "epochs": np.array(self.epochs, dtype=float).reshape(-1, 3),
            "totals": self.totals[:, :sides],
            "levels": {str(mode): _used(self.levels(mode)[:, :sides]) for mode in range(len(self._levels))},
        }

    def give(self, one: int, other: int) -> None:
        """Count what a side decided so far as another's."""
        for sums in (self._totals, *self._levels):
            sums[:, other] += sums[:, one]
            sums[:, one] = 0.0

    def restore(self, state: Mapping[str, Any], shape: Cell) -> Self:
        """Take back what :meth:`state` returned, of modes with at most these levels."""
        self.length = check_count(state["length"], "the length of a block")
        self.count = check_count(state["count"], "the count of decisions", 0)
        blocks = len(self)
        if blocks > _BLOCKS:
            raise ValueError(f"a timeline has {self.count} decisions in blocks of {self.length}: too many blocks")
        self.last = check_array(state["last"], "last", ()).item()
        epochs = np.asarray(state.get("epochs", np.zeros((0, 3))), dtype=float)
        self.epochs = [
            (int(mark), policy, holdout)
            for mark, policy, holdout in check_array(epochs, "epochs", (len(epochs), 3)).tolist()
        ]
        self._starts[:blocks] = check_array(state["starts"], "starts", (blocks,))
        sides = min(len(np.asarray(state["totals"])[0]), len(SIDES)) if blocks else 1
        self._totals[:blocks, :sides] = check_array(state["totals"], "totals", (blocks, sides, 4))
        for mode, size in enumerate(shape):
            given = np.asarray(state["levels"][str(mode)])
            width = given.shape[-1]
            counts = check_array(given, "levels", (blocks, sides, 3, width))
            if counts[..., size:].any():
                raise ValueError(f"a timeline has decisions of level {width - 1} of mode {mode}, which has {size}")
            self._widen(mode, width - 1)
            self._levels[mode][:blocks, :sides, :, :width] = counts
        return self


def _used(counts: Floats) -> Floats:
    """Counts up to the last level that has any, so that what is saved does not depend on how room was made."""
    some = np.flatnonzero(counts.any(axis=(0, 1, 2)))
    return counts[..., : some[-1] + 1 if len(some) else 1]


def means(sums: Floats) -> dict[str, Floats]:
    """Return mean rewards and, if their squares are known, standard errors, of rows of sums (n, 3 or 4)."""
    count = np.where(sums[:, _REWARDS] > 0, sums[:, _REWARDS], np.nan)
    mean = sums[:, _TOTAL] / count
    if sums.shape[1] <= _SQUARES:
        return {"mean": mean}
    variance = np.maximum(sums[:, _SQUARES] / count - mean**2, 0.0)
    return {"mean": mean, "error": np.sqrt(variance / np.where(count > 1, count - 1.0, np.nan))}

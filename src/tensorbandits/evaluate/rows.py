"""The decisions of a log: which cell, which reward, with which probability, and what the probabilities may be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from tensorbandits.base.checks import Cell
from tensorbandits.data.log import Log
from tensorbandits.space import Space
from tensorbandits.tensor.allowed import Allowed
from tensorbandits.tensor.tucker import Floats, Ints

Logged = Literal["uniform"]

_MOST_CELLS = 5_000_000  # that are written out, over all contexts
_SLACK = 1e-6  # by which probabilities may sum to more than 1


@dataclass(frozen=True, eq=False)
class Rows:
    """Decisions in order: cells (n, d), rewards (n,) and propensities (n,) or ``None``, in the indices of a space."""

    space: Space
    cells: Ints
    rewards: Floats
    propensities: Floats | None

    @classmethod
    def of(cls, log: Log, context: Sequence[str | int], space: Space | None, logged: Logged | None) -> Rows:
        """Return the decisions of a log, in the space that the policies know, or else in its own."""
        if not isinstance(log, Log):
            raise TypeError(
                f"the log is a {type(log).__name__}; read it first: tb.data.from_log(frame, modes, reward, "
                "propensity=...), or read_log for a file"
            )
        if logged not in (None, "uniform"):
            raise ValueError(f"logged is {logged!r}; give 'uniform' if each combination was as likely, or leave it out")
        if logged is not None and log.propensity is not None:
            raise ValueError(f"the log has propensities in column {log.propensity!r}; leave out logged={logged!r}")
        if space is None:
            space = Space(dict(zip(log.modes, log.levels, strict=True)), context)
        elif not isinstance(space, Space):
            raise TypeError(f"space is {space!r}; give the tb.Space whose indices the policies know")
        elif context:
            raise ValueError(
                "both context and space are given; the space says which modes are context: leave out context"
            )
        cells, rewards, propensities = log.decisions()
        rows = cls(space, _within(log, space, cells), rewards, propensities)
        return rows if logged is None else replace(rows, propensities=rows.uniform)

    @property
    def shape(self) -> Cell:
        """The number of levels of each mode."""
        return self.space.shape

    def __len__(self) -> int:
        return len(self.rewards)

    @cached_property
    def _contexts(self) -> tuple[Ints, Ints]:
        given = self.cells[:, list(self.space.context)]
        found, which = np.unique(given, axis=0, return_inverse=True)
        return found, which.reshape(-1)

    @property
    def contexts(self) -> Ints:
        """The distinct levels of the context modes, (c, number of context modes); one empty row without context."""
        return self._contexts[0]

    @property
    def context_of(self) -> Ints:
        """Which of the contexts each row has, (n,)."""
        return self._contexts[1]

    @cached_property
    def flat(self) -> Ints:
        """The cell of each row as one number, (n,)."""
        return self.number(self.cells)

    def number(self, cells: Ints) -> Ints:
        """Return cells (m, d) as one number each, (m,)."""
        return np.asarray(np.ravel_multi_index(tuple(cells.T), self.shape), dtype=np.int64)

    @cached_property
    def rules(self) -> Allowed | None:
        """The rules of the space, as policies take them."""
        return Allowed.of(Allowed(forbidden=self.space.forbidden), self.shape) if self.space.forbidden else None

    def arms(self, levels: Cell) -> Ints:
        """Return all cells (k, d) that may be chosen given context levels."""
        fixed = dict(zip(self.space.context, levels, strict=True))
        free = [j for j in range(len(self.shape)) if j not in fixed]
        sizes = [self.shape[j] for j in free]
        if math.prod(sizes) * len(self.contexts) > _MOST_CELLS:
            raise ValueError(
                f"{math.prod(sizes):,} combinations in {len(self.contexts):,} contexts are too many to write out, at "
                f"most {_MOST_CELLS:,}: leave out 'uniform' and tables, or keep fewer levels with top= when reading"
            )
        mask = np.ones(sizes, dtype=bool) if self.rules is None else self.rules.mask(self.shape, fixed)
        if not mask.any():
            raise ValueError(
                f"the space allows no combination in the context {levels}; lift a rule, or leave out its rows"
            )
        cells = np.empty((int(mask.sum()), len(self.shape)), dtype=np.int64)
        cells[:, free] = np.argwhere(mask)
        for mode, level in fixed.items():
            cells[:, mode] = level
        return cells

    @cached_property
    def uniform(self) -> Floats:
        """The probability of each row's decision if all that may be chosen are as likely, (n,)."""
        if self.rules is None:
            decided = [size for j, size in enumerate(self.shape) if j not in self.space.context]
            return np.full(len(self), 1.0 / math.prod(decided))
        counts = np.array([len(self.arms(tuple(levels))) for levels in self.contexts.tolist()], dtype=np.float64)
        return np.asarray(1.0 / counts[self.context_of])

    def impossible_sums(self) -> int:
        """Return in how many contexts the propensities of the cells sum to more than 1, where each cell has but one."""
        if self.propensities is None:
            return 0
        _, first, which = np.unique(self.flat, return_index=True, return_inverse=True)
        least, most = (np.full(len(first), start) for start in (np.inf, -np.inf))
        np.minimum.at(least, which, self.propensities)
        np.maximum.at(most, which, self.propensities)
        owners = self.context_of[first]
        sums = np.bincount(owners, least, minlength=len(self.contexts))
        changing = np.bincount(owners, most - least > _SLACK, minlength=len(self.contexts))
        return int(((sums > 1.0 + _SLACK) & (changing == 0)).sum())


def _within(log: Log, space: Space, cells: Ints) -> Ints:
    """Return a log's cells in the indices of a space that has its modes and levels."""
    if set(space.modes) != set(log.modes):
        raise ValueError(
            f"the space has the modes {list(space.modes)}, the log {list(log.modes)}; both must be the same"
        )
    found = np.empty_like(cells)
    for j, (mode, labels) in enumerate(zip(log.modes, log.levels, strict=True)):
        places = np.array([space.level(mode, label) for label in labels], dtype=np.int64)
        found[:, space.position(mode)] = places[cells[:, j]]
    return found

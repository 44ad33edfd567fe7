"""Policies that go through stages, such as exploring first: when the next stage begins, and what deciding sees of it.

A stage ends with the first decision after its last one, so that all rewards until then count. Deciding must change
nothing, however: so the next stage is prepared on a copy of the policy, from which the decision is made, and taken over
when the decision is issued, in this process or in another one.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np

from tensorbandits.base.checks import Cell
from tensorbandits.policies.base import Policy
from tensorbandits.policies.query import Choice, Query


class StagedPolicy(Policy):
    """The frame of policies that go through stages; ``_stage`` names the attributes that make up one."""

    _stage: ClassVar[tuple[str, ...]] = ()
    _issued = 0  # decisions so far
    _prepared: tuple[tuple[int, int], Self] | None = None  # the next stage, given so many rewards and decisions

    @abstractmethod
    def _over(self) -> bool:
        """Say whether the next decision begins another stage."""

    @abstractmethod
    def _begin_stage(self) -> None:
        """Begin the next stage; attributes are replaced, not changed in place."""

    @abstractmethod
    def _choose_within(self, query: Query, rng: np.random.Generator) -> Choice | Cell:
        """Return a decision of this stage, changing nothing."""

    def _count(self, cell: Cell, note: Any) -> None:
        """Count a decision of this stage, if more than their number matters."""

    def _learn(self) -> None:
        self._ahead()

    def _choose(self, query: Query, rng: np.random.Generator) -> Choice | Cell:
        return self._ahead()._choose_within(query, rng)

    def _issue(self, cell: Cell, note: Any) -> None:
        ahead, self._prepared = self._ahead(), None
        if ahead is not self:
            for name in self._stage:
                setattr(self, name, getattr(ahead, name))
        self._count(cell, note)
        self._issued += 1

    def _ahead(self) -> Self:
        """Return the policy as the next decision finds it: itself, or a copy in the next stage."""
        if not self._over():
            return self
        key = (self._ledger.version, self._issued)
        if self._prepared is None or self._prepared[0] != key:
            self._prepared = None
            ahead = copy.copy(self)
            self._lend()
            ahead._begin_stage()
            self._prepared = (key, ahead)
        return self._prepared[1]

    def _lend(self) -> None:
        """Let go of what the copy, which is made already, will change in place."""

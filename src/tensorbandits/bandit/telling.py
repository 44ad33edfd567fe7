"""Telling a policy what the book says: older rewards fade first, and what was told when is kept for later."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tensorbandits.bandit.book import Change, Record
from tensorbandits.bandit.history import History
from tensorbandits.bandit.spans import Fading, Span
from tensorbandits.base.checks import Cell, check_array, check_cells, check_count
from tensorbandits.policies.base import Policy


class Teller:
    """Hands changes to a policy, one after the other.

    Parameters
    ----------
    policy : whom to tell.
    half_life : after which rewards count half, in seconds or in rewards told; ``None`` if they never fade.
    time : from which on they fade.
    settled : returns up to which place in the order of decisions all rewards are known. The history takes them in this
        order, as far as they are known: what earned something is told sooner than what earned nothing, and would look
        as if the world had changed.

    >>> from tensorbandits import VectorizedUCB
    >>> teller = Teller(VectorizedUCB((2, 3)), Span(1.0, rounds=True), 0.0)
    >>> for reward in (4.0, 1.0):
    ...     teller.tell(Change((0, 1), None, reward, None), 0.0)
    >>> teller.policy.ledger[0, 1].total, teller.policy.ledger.rounds
    (3.0, 1.5)
    """

    def __init__(
        self, policy: Policy, half_life: Span | None, time: float, settled: Callable[[], float] = lambda: math.inf
    ) -> None:
        if half_life is not None and (why := policy.keeps()) is not None:
            raise ValueError(f"half_life is given, but {why}")
        self.policy = policy
        self.fading = Fading(half_life, time)
        self.history = History(policy.shape)
        self.told = 0  # rewards so far
        self._settled = settled
        self._early: dict[int, tuple[Cell, float, Record | None]] = {}  # told but not in the history yet, by place
        self._places: list[int] = []  # of these, as a heap

    def overdue(self, time: float) -> bool:
        """Say whether it is time to fade."""
        return self.fading.due(time)

    def fade(self, time: float, *, more: int = 0) -> None:
        """Let what was told so far fade as is due at a time, if so many more rewards are told."""
        if (factor := self.fading.step(self.told + more, time)) < 1.0:
            self.policy.fade(factor)

    def tell(self, change: Change, time: float) -> None:
        """Tell a reward, or correct one, by what fading has left of it."""
        self._follow()
        cell, old, new, note, record = change.cell, change.old, change.new, change.note, change.record
        if old is not None:
            assert record is not None
            self.policy.correct(cell, old, new, note, weight=self.fading.weight(record.era))
            if record.order in self._early:
                self._early[record.order] = cell, new, record
            else:
                self.history.replace(record.number, cell, old, new)
            self._take_known()
            return
        self.fade(time, more=1)
        self.policy.tell(cell, new, note)
        self.told += 1
        if record is None or not record.order:
            number = self.history.record(cell, new)
            if record is not None:
                record.number, record.era = number, self.fading.era
            return
        record.era = self.fading.era
        self._early[record.order] = cell, new, record
        heapq.heappush(self._places, record.order)
        self._take_known()

    def _take_known(self) -> None:
        """Let the history have the rewards before which none is missing."""
        settled = self._settled()
        while self._places and self._places[0] <= settled:
            cell, reward, record = self._early.pop(heapq.heappop(self._places))
            number = self.history.record(cell, reward)
            if record is not None:
                record.number = number

    def _follow(self) -> None:
        """Follow modes that gained levels, of which whoever tells may be the second to know."""
        if self.history.shape != self.policy.shape:
            self.history.grow(self.policy.shape)

    def past(self) -> History:
        """Return a copy of what was told when."""
        self._follow()
        return self.history.copy()

    def state(self) -> dict[str, Any]:
        """Return everything but the policy as plain arrays and numbers."""
        self._follow()
        rows = [self._early[place] for place in sorted(self._places)]
        early = {
            "places": np.array(sorted(self._places), dtype=np.int64),
            "cells": np.array([cell for cell, _, _ in rows], dtype=np.int64).reshape(-1, len(self.policy.shape)),
            "rewards": np.array([reward for _, reward, _ in rows], dtype=np.float64),
        }
        return {"fading": self.fading.state(), "history": self.history.state(), "told": self.told, "early": early}

    def restore(self, state: Mapping[str, Any], decisions: Callable[[list[int]], Mapping[int, Record]]) -> None:
        """Take back what :meth:`state` returned; ``decisions`` returns those that have places."""
        self.fading = Fading.from_state(state["fading"])
        self.history = History.from_state(state["history"], self.policy.shape)
        self.told = check_count(state.get("told", self.history.told), "told", 0)
        if (early := state.get("early")) is None:  # states did not always have it
            return
        places = check_array(early["places"], "places", (len(early["places"]),), integers=True).tolist()
        cells = check_cells(early["cells"], self.policy.shape).tolist()
        rewards = check_array(early["rewards"], "rewards", (len(places),)).tolist()
        known = decisions(places)
        for place, cell, reward in zip(places, cells, rewards, strict=True):
            self._early[place] = tuple(cell), reward, known.get(place)
        self._places = sorted(places)

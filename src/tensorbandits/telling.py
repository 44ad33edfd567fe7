"""Telling a policy what the book says: older rewards fade first, and what was told when is kept for later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorbandits.feedback import Change
from tensorbandits.history import History
from tensorbandits.policies.base import Policy
from tensorbandits.spans import Fading, Span


class Teller:
    """Hands changes to a policy, one after the other.

    Parameters
    ----------
    policy : whom to tell.
    half_life : after which rewards count half, in seconds or in rewards told; ``None`` if they never fade.
    time : from which on they fade.

    >>> from tensorbandits import VectorizedUCB
    >>> teller = Teller(VectorizedUCB((2, 3)), Span(1.0, rounds=True), 0.0)
    >>> for reward in (4.0, 1.0):
    ...     teller.tell(Change((0, 1), None, reward, None), 0.0)
    >>> teller.policy.ledger[0, 1].total, teller.policy.ledger.rounds
    (3.0, 1.5)
    """

    def __init__(self, policy: Policy, half_life: Span | None, time: float) -> None:
        if half_life is not None and (why := policy.keeps()) is not None:
            raise ValueError(f"half_life is given, but {why}")
        self.policy = policy
        self.fading = Fading(half_life, time)
        self.history = History(policy.shape)

    def overdue(self, time: float) -> bool:
        """Say whether it is time to fade."""
        return self.fading.due(time)

    def fade(self, time: float, *, more: int = 0) -> None:
        """Let what was told so far fade as is due at a time, if so many more rewards are told."""
        if (factor := self.fading.step(self.history.told + more, time)) < 1.0:
            self.policy.fade(factor)

    def tell(self, change: Change, time: float) -> None:
        """Tell a reward, or correct one, by what fading has left of it."""
        self._follow()
        cell, old, new, note, record = change.cell, change.old, change.new, change.note, change.record
        if old is not None:
            assert record is not None
            self.policy.correct(cell, old, new, note, weight=self.fading.weight(record.era))
            self.history.replace(record.number, cell, old, new)
            return
        self.fade(time, more=1)
        self.policy.tell(cell, new, note)
        number = self.history.record(cell, new)
        if record is not None:
            record.number, record.era = number, self.fading.era

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
        return {"fading": self.fading.state(), "history": self.history.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take back what :meth:`state` returned."""
        self.fading = Fading.from_state(state["fading"])
        self.history = History.from_state(state["history"], self.policy.shape)

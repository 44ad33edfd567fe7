"""What may happen to a policy, one class for each: a reward, its correction, fading, a decision that was made.

A change first goes into the ledger of all rewards (``record``), then the policy takes note of it (``observe``). Changes
that come while another thread learns wait as such values in a queue, where a later one can look at them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tensorbandits.base.checks import Cell
from tensorbandits.ledger import Ledger

if TYPE_CHECKING:
    from tensorbandits.policies.base import Policy


class Reward(NamedTuple):
    """One reward of a cell or, out of ``trials``, so many successes: that many rewards of 1, and others of 0.

    Without a note it is that of the last decision for the cell that has no reward yet.
    """

    cell: Cell
    reward: float
    trials: float | None = None
    note: Any = None

    def record(self, ledger: Ledger) -> None:
        """Add the reward, or all of them."""
        if self.trials is None:
            ledger.record(self.cell, self.reward)
        else:
            ledger.record_trials(self.cell, self.reward, self.trials)

    def observe(self, policy: Policy) -> None:
        """Have the policy take note of it."""
        note = policy._notes.take(self.cell) if self.note is None else self.note
        policy._observe(self.cell, 1.0 if self.trials is None else self.trials, self.reward, note)


class RewardSums(NamedTuple):
    """Many rewards that are added up already; nobody earned those that are ``pseudo``."""

    ledger: Ledger
    pseudo: bool = False

    def record(self, ledger: Ledger) -> None:
        """Add all of them."""
        self.ledger.grow_to(ledger.shape)  # a mode may have gained levels since it was told
        ledger.merge(self.ledger)

    def observe(self, policy: Policy) -> None:
        """Have the policy take note of them."""
        if self.pseudo:
            none = np.zeros(len(self.ledger))
            policy._pseudo.merge(Ledger.of(self.ledger.shape, self.ledger.cells, self.ledger.counts, none, none, none))
        policy._observe_ledger(self.ledger)


class Correction(NamedTuple):
    """Another reward in the place of one that was told."""

    cell: Cell
    old: float
    new: float
    note: Any = None
    weight: float = 1.0
    known: bool = False  # to have been told, whatever sums tell

    def record(self, ledger: Ledger) -> None:
        """Replace the reward, or refuse to if it was never told, as far as sums tell."""
        ledger.replace(self.cell, self.old, self.new, self.weight, known=self.known)

    def observe(self, policy: Policy) -> None:
        """Have the policy take note of it."""
        policy._correct(*self[:-1])

    def check(self, ledger: Ledger, waiting: Sequence[Any]) -> None:
        """Refuse a reward that was never told, given a ledger and the changes that wait to be made to it."""
        ledger = ledger.part(self.cell)
        for change in waiting:
            if isinstance(change, RewardSums):
                RewardSums(change.ledger.part(self.cell)).record(ledger)
            elif isinstance(change, Fade) or getattr(change, "cell", None) == self.cell:
                change.record(ledger)
        self.record(ledger)


class Fade(NamedTuple):
    """All rewards so far count so much less."""

    factor: float

    def record(self, ledger: Ledger) -> None:
        """Let them count less."""
        ledger.fade(self.factor)

    def observe(self, policy: Policy) -> None:
        """Have the policy take note of it."""
        policy._pseudo.fade(self.factor)
        policy._fade(self.factor)


class Issued(NamedTuple):
    """A decision that was made, here or in another process."""

    cell: Cell
    note: Any = None

    def record(self, ledger: Ledger) -> None:
        """Leave the ledger alone: there is no reward yet."""

    def observe(self, policy: Policy) -> None:
        """Have the policy take note of it."""
        policy._issue(self.cell, self.note)


Change = Reward | RewardSums | Correction | Fade | Issued


def apply(policy: Policy, *changes: Change) -> None:
    """Make changes, while nobody else reads or changes the policy."""
    for change in changes:
        change.record(policy._ledger)
        change.observe(policy)

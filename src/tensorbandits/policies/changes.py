"""What may happen to a policy, one class for each: a reward, its correction, fading, a decision that was made.

A change first goes into the ledger of all rewards (``record``), then the policy takes note of it (``observe``). Changes
that come while another thread learns wait as such values in a queue, where a later one can look at them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tensorbandits.base.checks import Cell
from tensorbandits.ledger import Ledger

if TYPE_CHECKING:
    from tensorbandits.policies.base import Policy


class Reward(NamedTuple):
    """One reward of a cell; without a note it is that of the last decision for the cell that has no reward yet."""

    cell: Cell
    reward: float
    note: Any = None

    def record(self, ledger: Ledger) -> None:
        """Add the reward."""
        ledger.record(self.cell, self.reward)

    def observe(self, policy: Policy) -> None:
        """Have the policy take note of it."""
        policy._observe(self.cell, 1.0, self.reward, _note(policy, self.cell, self.note))


class Trials(NamedTuple):
    """Successes of a cell, out of trials."""

    cell: Cell
    successes: float
    trials: float
    note: Any = None

    def record(self, ledger: Ledger) -> None:
        """Add that many rewards of 1, and others of 0."""
        ledger.record_trials(self.cell, self.successes, self.trials)

    def observe(self, policy: Policy) -> None:
        """Have the policy take note of them."""
        policy._observe(self.cell, self.trials, self.successes, _note(policy, self.cell, self.note))


class Sums(NamedTuple):
    """Many rewards that are added up already."""

    ledger: Ledger

    def record(self, ledger: Ledger) -> None:
        """Add all of them."""
        for mode, (size, given) in enumerate(zip(ledger.shape, self.ledger.shape, strict=True)):
            if size > given:  # a mode has gained levels since it was told
                self.ledger.grow(mode, size - given)
        ledger.merge(self.ledger)

    def observe(self, policy: Policy) -> None:
        """Have the policy take note of them."""
        policy._observe_ledger(self.ledger)


class Correction(NamedTuple):
    """Another reward in the place of one that was told."""

    cell: Cell
    old: float
    new: float
    note: Any = None
    weight: float = 1.0

    def record(self, ledger: Ledger) -> None:
        """Replace the reward, or refuse to if it was never told, as far as sums tell."""
        ledger.replace(self.cell, self.old, self.new, self.weight)

    def observe(self, policy: Policy) -> None:
        """Have the policy take note of it."""
        policy._correct(*self)

    def check(self, ledger: Ledger, waiting: Sequence[Any]) -> None:
        """Refuse a reward that was never told, given a ledger and the changes that wait to be made to it."""
        ledger = ledger.part(self.cell)
        for change in waiting:
            if isinstance(change, Sums):
                Sums(change.ledger.part(self.cell)).record(ledger)
            elif isinstance(change, Fading) or getattr(change, "cell", None) == self.cell:
                change.record(ledger)
        self.record(ledger)


class Fading(NamedTuple):
    """All rewards so far count so much less."""

    factor: float

    def record(self, ledger: Ledger) -> None:
        """Let them count less."""
        ledger.fade(self.factor)

    def observe(self, policy: Policy) -> None:
        """Have the policy take note of it."""
        policy._fade(self.factor)


class Issued(NamedTuple):
    """A decision that was made, here or in another process; ``kept`` says whether its note waits here for a reward."""

    cell: Cell
    note: Any = None
    kept: bool = False

    def record(self, ledger: Ledger) -> None:
        """Leave the ledger alone: there is no reward yet."""

    def observe(self, policy: Policy) -> None:
        """Have the policy take note of it."""
        if self.kept:
            policy._notes.put(self.cell, self.note)
        else:
            policy._issue(self.cell, self.note)


Change = Reward | Trials | Sums | Correction | Fading | Issued


def apply(policy: Policy, *changes: Change) -> None:
    """Make changes, while nobody else reads or changes the policy."""
    for change in changes:
        change.record(policy._ledger)
        change.observe(policy)


def _note(policy: Policy, cell: Cell, note: Any) -> Any:
    return policy._notes.take(cell) if note is None else note

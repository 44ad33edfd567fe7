"""What a store can refuse, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tensorbandits.base.errors import TensorbanditsError

if TYPE_CHECKING:
    from tensorbandits.store.events import Event


class StoreError(TensorbanditsError, RuntimeError):
    """The store cannot be used now; the message says what is the matter and what to do."""


class StoreUnavailableError(StoreError):
    """The store cannot be reached, or another process holds it for too long.

    Raised by a write it may mean that the answer to the commit was lost, which the message says: the events may have
    been written or not. Read the log, or ask for their idempotency keys, before you write them again.
    """


class StoreReadOnlyError(StoreError):
    """The store can be read but not written; nothing was written."""


class StoreFullError(StoreError):
    """No room is left for what was to be written; nothing was written."""


class DamagedError(StoreError):
    """A log is not what was written: an event is missing, was changed, or cannot be read."""

    def __init__(self, bandit: int, seq: int, why: str) -> None:
        super().__init__(
            f"the log of bandit {bandit} is damaged at event {seq}: {why}; 'tensorbandits repair' shows the event and "
            f"can skip it, or restore a backup"
        )
        self.bandit = bandit
        self.seq = seq
        self.why = why

    def __reduce__(self) -> tuple[type[DamagedError], tuple[int, int, str]]:
        return type(self), (self.bandit, self.seq, self.why)


class NameTakenError(TensorbanditsError, ValueError):
    """A bandit of this name exists."""


class UnknownBanditError(TensorbanditsError, LookupError):
    """No bandit has this number, or it was deleted."""


class ConflictError(TensorbanditsError, RuntimeError):
    """Something in the store is in the way of what was to be written; nothing was written."""


class BehindError(ConflictError):
    """The log has events after the ones that the writer knew: somebody else was first; nothing was written.

    ``events`` are the next ones after those that the writer knew, if they came with the refusal. There may be more.
    """

    def __init__(self, message: str, events: Sequence[Event] = ()) -> None:
        super().__init__(message)
        self.events = list(events)


class RepeatedError(ConflictError):
    """An idempotency key, or the id of a decision, is in the log already; nothing was written."""


class FoldedError(TensorbanditsError, LookupError):
    """The events asked for were folded into the base; start again from :meth:`Store.snapshot`."""


class QuarantinedError(StoreError):
    """The log of one bandit cannot be read; the message says what is wrong and where. Other bandits are not touched."""

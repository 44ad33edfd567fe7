"""What a store can refuse, and why."""


class StoreError(RuntimeError):
    """The store cannot be used now; the message says what is the matter and what to do."""


class StoreUnavailableError(StoreError):
    """The store cannot be reached, or another process holds it for too long.

    Raised at the end of a turn it means that the answer to the commit was lost: the events may have been written or
    not. Read the log, or ask for their idempotency keys, before you write them again.
    """


class StoreReadOnlyError(StoreError):
    """The store can be read but not written; nothing was written."""


class StoreFullError(StoreError):
    """No room is left for what was to be written; nothing was written."""


class NameTakenError(ValueError):
    """A bandit of this name exists."""


class UnknownBanditError(LookupError):
    """No bandit has this number, or it was deleted."""


class ConflictError(RuntimeError):
    """An event would take a number or an idempotency key that another has; nothing of the turn was written."""


class FoldedError(LookupError):
    """The events asked for were folded into the base; start again from :meth:`Store.snapshot`."""

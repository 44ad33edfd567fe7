"""Tools of the checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tensorbandits.store import BanditRow, BehindError, Event, Head, New, Store

Make = Callable[[], Store]
_Error = TypeVar("_Error", bound=BaseException)


def refused(kind: type[_Error], call: Callable[..., Any], *arguments: Any) -> _Error:
    """Check that a call is refused, with words, and return the error."""
    raised = None
    try:
        call(*arguments)
    except kind as error:
        raised = error
    assert raised is not None, f"{kind.__name__} was to be raised"
    assert str(raised), f"{kind.__name__} says nothing"
    return raised


def append(store: Store, bandit: BanditRow, news: Sequence[New]) -> list[Event]:
    """Append some events after all that there are."""
    return store.append(bandit.id, store.head(bandit.id), news)


def append_at_last(store: Store, bandit: int, news: Sequence[New], head: Head) -> tuple[Head, list[Event]]:
    """Append as several writers of one log do: read what others were first to write, and try again.

    It returns where the log ends then, and the events of others that were read.
    """
    read: list[Event] = []
    while True:
        try:
            written = store.append(bandit, head, news)
        except BehindError:
            more = list(store.events(bandit, head))
            read += more
            head = Head(more[-1].seq, more[-1].chain) if more else store.head(bandit)  # it was folded meanwhile
        else:
            return Head(written[-1].seq, written[-1].chain), read

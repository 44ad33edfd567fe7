"""Tools of the checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from tensorbandits.store import BanditRow, New, Store

Make = Callable[[], Store]


class Stores:
    """Stores on one database, closed at the end."""

    def __init__(self, make: Make) -> None:
        self._make = make
        self._stack = ExitStack()

    def __enter__(self) -> Store:
        return self.another()

    def another(self) -> Store:
        """Open it once more."""
        return self._stack.enter_context(self._make())

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def refused(kind: type[BaseException], call: Callable[..., Any], *arguments: Any) -> None:
    """Check that a call is refused, with words."""
    words = None
    try:
        call(*arguments)
    except kind as error:
        words = str(error)
    assert words is not None, f"{kind.__name__} was to be raised"
    assert words, f"{kind.__name__} says nothing"


def append(store: Store, bandit: BanditRow, news: Sequence[New], after: int = 0) -> None:
    """Append some events."""
    with store.turn([bandit.id]) as turn:
        events = turn.events(bandit.id, after)
        turn.append(bandit.id, (events[-1].seq if events else after) + 1, news)

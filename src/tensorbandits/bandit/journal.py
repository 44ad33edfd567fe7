"""A journal of changes, by which they can be taken back: commands are tried before they are carried out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_MISSING = object()


class Journal:
    """Makes changes of dictionaries, queues and attributes; while it is open, they are taken back at the end.

    >>> journal, data = Journal(), {"a": 1}
    >>> with journal.trial():
    ...     journal.set(data, "a", 2)
    ...     print(data)
    {'a': 2}
    >>> data
    {'a': 1}
    """

    def __init__(self) -> None:
        self._undo: list[Callable[[], Any]] | None = None

    @property
    def trying(self) -> bool:
        """Whether changes will be taken back."""
        return self._undo is not None

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Take back all changes at the end, the last one first; within another trial, those since this one began."""
        outermost = self._undo is None
        self._undo = [] if self._undo is None else self._undo
        mark = len(self._undo)
        try:
            yield
        finally:
            self.back_to(mark)
            if outermost:
                self._undo = None

    def mark(self) -> int:
        """Return how many changes there are to take back so far."""
        return 0 if self._undo is None else len(self._undo)

    def back_to(self, mark: int) -> None:
        """Take back the changes since a mark, the last one first."""
        while self._undo is not None and len(self._undo) > mark:
            self._undo.pop()()

    def set(self, mapping: dict[Any, Any], key: Any, value: Any) -> None:
        """Set an entry of a dictionary."""
        if self._undo is not None:
            before = mapping.get(key, _MISSING)
            if before is _MISSING:
                self._undo.append(lambda: mapping.pop(key))
            else:
                self._undo.append(lambda: mapping.__setitem__(key, before))
        mapping[key] = value

    def pop(self, mapping: dict[Any, Any], key: Any) -> None:
        """Remove an entry of a dictionary."""
        value = mapping.pop(key)
        if self._undo is not None:
            self._undo.append(lambda: mapping.__setitem__(key, value))

    def append(self, queue: deque[Any], value: Any) -> None:
        """Add to the end of a queue."""
        queue.append(value)
        if self._undo is not None:
            self._undo.append(queue.pop)

    def popleft(self, queue: deque[Any]) -> Any:
        """Take the first of a queue."""
        value = queue.popleft()
        if self._undo is not None:
            self._undo.append(lambda: queue.appendleft(value))
        return value

    def assign(self, owner: Any, name: str, value: Any) -> None:
        """Give an attribute another value."""
        if self._undo is not None:
            before = getattr(owner, name)
            self._undo.append(lambda: setattr(owner, name, before))
        setattr(owner, name, value)

"""Who did what: names of actors, of which each event of a log holds a short number.

A name in each event would make a decision a good tenth larger. So the first event of an actor holds a number and the
name, all later ones hold the number; the state keeps the table, which a snapshot holds. Events of early releases hold
neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

SERVICE = "the service"  # what ends windows, and does what nobody asked for; its number is 0
MARK = "as"  # the word of an event's body under which its actor stands

_LONGEST = 100  # characters of a name

Mark = int | list[Any] | str | None  # a number; a number with its name; a name without a number


def check_actor(name: Any) -> str:
    """Return the name of an actor, as a caller gives it, checked.

    >>> check_actor("Ann")
    'Ann'
    """
    if not isinstance(name, str):
        raise TypeError(f"actor is {name!r}; give a name, as text")
    if not 1 <= len(name.strip()) <= _LONGEST or not name.isprintable():
        raise ValueError(f"actor is {name[:60]!r}; give 1 to {_LONGEST} characters that can be printed")
    return name.strip()


class Actors:
    """Names by number.

    >>> actors = Actors()
    >>> write = actors.writer()
    >>> write("the shop"), write("Ann"), write("the service")
    ([1, 'the shop'], [2, 'Ann'], 0)
    >>> actors.learn([1, "the shop"])
    'the shop'
    >>> actors.writer()("the shop"), actors.read(1), actors.read(7), actors.read(None)
    (1, 'the shop', None, None)
    """

    def __init__(self) -> None:
        self._names: dict[int, str | None] = {0: SERVICE}
        self._numbers: dict[str, int] = {SERVICE: 0}

    def read(self, mark: Mark) -> str | None:
        """Return the name that a mark stands for; ``None`` if that is not known."""
        if isinstance(mark, int):
            return self._names.get(mark)
        return str(mark[1]) if isinstance(mark, list) else mark

    def learn(self, mark: Mark) -> str | None:
        """Take note of a mark in a log, and return its name.

        A number whose name is not known, as the event that had it was left out, is never given to another name.
        """
        if isinstance(mark, list):
            number, name = int(mark[0]), str(mark[1])
            self._names[number] = name
            self._numbers.setdefault(name, number)
        elif isinstance(mark, int) and mark not in self._names:
            self._names[mark] = None
        return self.read(mark)

    def writer(self) -> Callable[[str | None], Mark]:
        """Return what gives the marks of events that are to be appended next; one that is new is told only once."""
        new: dict[str, int] = {}
        free = max(self._names) + 1

        def write(name: str | None) -> Mark:
            if name is None:
                return None
            number = self._numbers.get(name, new.get(name))
            if number is not None:
                return number
            new[name] = free + len(new)
            return [new[name], name]

        return write

    def state(self) -> dict[str, str | None]:
        """Return the names by number, as plain data."""
        return {str(number): name for number, name in self._names.items()}

    @classmethod
    def from_state(cls, state: Mapping[str, str | None]) -> Self:
        """Return what :meth:`state` described."""
        actors = cls()
        for number, name in state.items():
            actors.learn(int(number) if name is None else [int(number), name])
        return actors

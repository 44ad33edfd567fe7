"""The locks of a policy that several threads use: who may change it, and what waits for whom.

What takes long (learning, saving, looking at what is believed) reads the policy while it stands still. Rewards that are
told meanwhile wait in an inbox and are taken in right afterwards, in their order, so that whoever tells never waits for
long and nothing is lost. Decisions read a finished draw and wait for nobody.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any


class Turns:
    """The locks of one policy.

    ``gate`` is held for as long as a short change takes. A policy that does not learn apart from deciding needs nothing
    else (``learns=False``).

    >>> turns, seen = Turns(), []
    >>> with turns.still():
    ...     turns.submit(seen.append, 1)
    ...     print(seen)
    []
    >>> seen
    [1]
    """

    def __init__(self, learns: bool = True) -> None:
        self.learns = learns
        self.gate = threading.Lock()
        self._reading = threading.RLock()
        self._depth = 0
        self._inbox: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def __deepcopy__(self, memo: Any) -> Turns:
        return Turns(self.learns)  # a copy is nobody's yet

    def __reduce__(self) -> Any:
        return Turns, (self.learns,)

    def submit(
        self, change: Callable[..., None], *arguments: Any, check: Callable[[list[Any]], None] | None = None
    ) -> None:
        """Make a change now, or as soon as nobody reads for long.

        A change that may be refused says so with ``check``, before it has to wait: it is given the arguments of all
        changes that wait already.
        """
        with self.gate:
            if self._depth:
                if check is not None:
                    check([given for _, waiting in self._inbox for given in waiting])
                self._inbox.append((change, arguments))
            else:
                change(*arguments)

    def begin(self, *, wait: bool = True) -> bool:
        """Have the policy stand still until :meth:`end`; without waiting, say whether that was possible."""
        if not self._reading.acquire(blocking=wait):
            return False
        with self.gate:
            self._depth += 1
        return True

    def end(self) -> None:
        """Take in what came meanwhile."""
        try:
            with self.gate:
                self._depth -= 1
                if not self._depth and self._inbox:
                    waiting, self._inbox = self._inbox, []
                    _all(waiting)
        finally:
            self._reading.release()

    @contextmanager
    def still(self) -> Iterator[None]:
        """Have the policy stand still for a while."""
        if not self.learns:
            with self.gate:
                yield
            return
        self.begin()
        try:
            yield
        finally:
            self.end()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Have nobody decide either, as far as decisions change the policy."""
        with self.still(), self.gate if self.learns else nullcontext():  # else standing still holds the gate already
            yield


def _all(changes: list[tuple[Callable[..., None], tuple[Any, ...]]]) -> None:
    """Make every change, even if one of them fails; then raise its error."""
    for at, (change, arguments) in enumerate(changes):
        try:
            change(*arguments)
        except BaseException:
            _all(changes[at + 1 :])
            raise

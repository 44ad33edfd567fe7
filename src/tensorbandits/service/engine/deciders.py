"""What a server knows of deciders: how to read the tokens that are ids of their decisions, and who was seen of late."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tensorbandits.bandit.spans import Span
from tensorbandits.decider.tokens import Token, TokenKeys, TokenRefusedError, looks_like_token

_MOST, _LONGEST_NAME = 1_000, 100  # deciders that are remembered, and characters of a name
_OF_LATE = 600.0  # seconds for which one counts as seen
DAY = 86_400.0


class TokenReader:
    """Reads the ids of decisions that were made elsewhere; without keys, it refuses them.

    ``age`` is for how many seconds after a decision its reward is taken, ``now`` returns the time.
    """

    def __init__(self, keys: TokenKeys | None = None, age: float = 30 * DAY, now: Callable[[], float] = time.time):
        self._keys, self.age, self._now = keys, age, now
        self._oldest = Span(age, rounds=False)

    def read(self, number: str, uid: str) -> Token:
        """Return what an id says that is a token of a bandit; refuse one that is forged, foreign or too old."""
        if self._keys is None:
            raise TokenRefusedError(
                "the id is a token of a decider, and this service has no keys to check it; start it with the "
                "TENSORBANDITS_TOKEN_KEYS that its deciders have"
            )
        return Token.read(number, self._keys, uid, oldest=self._oldest, now=self._now())

    @staticmethod
    def could_be(number: object) -> bool:
        """Say whether an id looks like one that a decider made."""
        return looks_like_token(number)


@dataclass
class SeenDecider:
    """A decider that has asked for a snapshot, or sent decisions or rewards, and when it did so last."""

    name: str
    last: float
    version: int | None = None  # of the newest snapshot that it has
    decisions: int = 0  # that it sent


class SeenDeciders:
    """The deciders that a process has seen, by name; of a great many, those that came last.

    >>> seen = SeenDeciders(clock=lambda: 0.0)
    >>> seen.note("web-1", version=7, decisions=20)
    >>> seen.note("web-1", decisions=5)
    >>> [(one["name"], one["version"], one["decisions"]) for one in seen.rows()]
    [('web-1', 7, 25)]
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._seen: dict[str, SeenDecider] = {}

    def note(self, name: str, version: int | None = None, decisions: int = 0) -> None:
        """Take note of a decider that was just heard of."""
        name = name[:_LONGEST_NAME] if name.isprintable() else repr(name)[:_LONGEST_NAME]
        with self._lock:
            one = self._seen.pop(name, None) or SeenDecider(name, 0.0)
            one.last, one.decisions = self._clock(), one.decisions + decisions
            one.version = max((known for known in (one.version, version) if known is not None), default=None)
            self._seen[name] = one  # as the last
            while len(self._seen) > _MOST:
                del self._seen[next(iter(self._seen))]

    def rows(self) -> list[Mapping[str, Any]]:
        """Return those that were seen of late, the last first."""
        if not self._seen:
            return []
        with self._lock:
            some = [one for one in self._seen.values() if self._clock() - one.last < _OF_LATE]
        return [dict(vars(one)) for one in reversed(some)]

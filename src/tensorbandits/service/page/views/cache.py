"""A cache of views, so that looking costs little: answers are kept for a while, the longer the more work they were.

Whoever asks while somebody makes an answer again gets the one that is there.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

KEEP = {"effects": 5.0, "heat": 2.0, "arms": 2.0, "space": 1.0}  # seconds; others a second
_USUAL = 1.0
_SHARE = 20.0  # an answer is kept so many times as long as it took to make
_MOST = 300  # answers


class _Answer:
    """An answer, until when it is good, and the lock of whoever makes it."""

    def __init__(self) -> None:
        self.body: bytes | None = None
        self.until = 0.0
        self.making = threading.Lock()


class ViewCache:
    """Answers by whatever says what they are of, such as a bandit's id, a view and its parameters.

    >>> cache, made = ViewCache(), []
    >>> [cache.get("a", "overview", lambda: made.append(1) or {"n": len(made)}) for _ in range(2)]
    [b'{"n":1}', b'{"n":1}']
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._answers: dict[Any, _Answer] = {}

    def __len__(self) -> int:
        """Return how many answers are kept."""
        return len(self._answers)

    def get(self, key: Any, what: str, make: Callable[[], Mapping[str, Any]]) -> bytes:
        """Return the JSON of a view, as it was made not long ago, or made now."""
        with self._lock:
            answer = self._answers.setdefault(key, _Answer())
            while len(self._answers) > _MOST:
                del self._answers[next(iter(self._answers))]
        if answer.body is not None and self._clock() < answer.until:
            return answer.body
        if not answer.making.acquire(blocking=answer.body is None):
            assert answer.body is not None
            return answer.body
        try:
            if answer.body is None or self._clock() >= answer.until:
                begin = self._clock()
                answer.body = json.dumps(make(), allow_nan=False, separators=(",", ":")).encode()
                end = self._clock()
                answer.until = end + max(KEEP.get(what, _USUAL), _SHARE * (end - begin))
            return answer.body
        finally:
            answer.making.release()

"""Answers of late, by the key of their requests: one that comes again is answered as it was, in this process."""

from __future__ import annotations

from tensorbandits.service.engine.errors import KeyReusedError

_MOST, _BYTES = 10_000, 32 * 2**20  # answers that are remembered, and their bytes


class RepeatedAnswers:
    """The last answers, up to 32 MB, to requests that carry a key, or an id of the caller's.

    >>> repeats = RepeatedAnswers()
    >>> repeats.put("visit-1", "asked", b"answer")
    >>> repeats.find("visit-1", "asked"), repeats.find("visit-2", "asked")
    (b'answer', None)
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, bytes]] = {}
        self._bytes = 0

    def find(self, key: str, fingerprint: str) -> bytes | None:
        """Return the answer to the same request; refuse another one with its key."""
        found = self._known.get(key)
        if found is None:
            return None
        if found[0] != fingerprint:
            raise KeyReusedError(f"the key or id {key[:60]!r} came with another request before; give each its own")
        return found[1]

    def put(self, key: str, fingerprint: str, answer: bytes) -> None:
        """Remember an answer."""
        self._known[key] = fingerprint, answer
        self._bytes += len(answer)
        while len(self._known) > _MOST or self._bytes > _BYTES:
            _, gone = self._known.pop(next(iter(self._known)))
            self._bytes -= len(gone)

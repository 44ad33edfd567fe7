"""Where a decider finds snapshots: an address that is published to, or a service over HTTP."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import NamedTuple

from tensorbandits.bandit.published import PublishedSnapshot, SnapshotRefusedError
from tensorbandits.bandit.publishing import SnapshotPlace, checksum_of, place_of, without_password
from tensorbandits.decider.web import bandit_address, call, headers_of

_POLL = 25.0  # seconds that a service is asked to wait for something new
_SECONDS = 10.0  # that an answer may take beyond that


class FoundSnapshot(NamedTuple):
    """A snapshot, and the mark by which its source tells whether there is a newer one."""

    snapshot: PublishedSnapshot
    mark: str


class SnapshotSource(ABC):
    """Where snapshots of one bandit are found."""

    shown: str  # the address, without a password
    waits: bool  # whether looking waits for something new

    @abstractmethod
    def newer(self, mark: str | None) -> FoundSnapshot | None:
        """Return what is there if it has another mark; ``None`` if nothing new or nothing at all is."""


class GivenSource(SnapshotSource):
    """One snapshot, and no other after it."""

    waits, shown = False, "a snapshot that was given"

    def __init__(self, snapshot: PublishedSnapshot) -> None:
        self._snapshot = snapshot

    def newer(self, mark: str | None) -> FoundSnapshot | None:
        """Return the snapshot once."""
        return FoundSnapshot(self._snapshot, "given") if mark is None else None


class PlaceSource(SnapshotSource):
    """A folder, an address of fsspec, or Redis."""

    waits = False

    def __init__(self, place: SnapshotPlace) -> None:
        self._place, self.shown = place, place.shown

    def newer(self, mark: str | None) -> FoundSnapshot | None:
        """Return what is there if it has another mark."""
        pointer = self._place.pointer()
        if pointer is None or pointer.checksum == mark:
            return None
        content = self._place.content(pointer)
        if checksum_of(content) != pointer.checksum:
            newest = self._place.pointer()  # another one may have been published just now
            if newest is None or newest == pointer:
                raise SnapshotRefusedError(f"{self.shown} has a damaged snapshot, {pointer.file}; publish it again")
            return None
        return FoundSnapshot(PublishedSnapshot.from_bytes(content, f"{self.shown}/{pointer.file}"), pointer.checksum)


class HttpSource(SnapshotSource):
    """A bandit of a service: ``https://server/v1/bandits/NAME``.

    ``key`` is an API key that may read it, ``name`` what the service calls the decider on its page.
    """

    waits = True

    def __init__(self, address: str, key: str | None = None, name: str | None = None) -> None:
        path = bandit_address(address)
        self.shown, self._url = without_password(path), f"{path}/snapshot"
        self._headers = headers_of(key) | ({} if name is None else {"x-decider": name})

    def newer(self, mark: str | None) -> FoundSnapshot | None:
        """Return what is there if it has another mark, after waiting for it."""
        headers, url, seconds = self._headers, self._url, _SECONDS
        if mark is not None:
            headers, url, seconds = {**headers, "if-none-match": mark}, f"{url}?wait={_POLL:g}", seconds + _POLL
        answer = call(url, headers, seconds=seconds, shown=self.shown)
        if answer is None or answer.tag == mark:
            return None
        return FoundSnapshot(PublishedSnapshot.from_bytes(answer.content, self.shown), answer.tag)


def source_of(address: str | os.PathLike[str], *, key: str | None = None, name: str | None = None) -> SnapshotSource:
    """Return the source of an address."""
    text = os.fspath(address) if isinstance(address, (str, os.PathLike)) else ""
    if isinstance(text, str) and text.lower().startswith(("http://", "https://")):
        return HttpSource(text, key, name)
    return PlaceSource(place_of(address))

"""Where published snapshots go: a folder, any address that fsspec knows, or Redis.

A folder has ``NAME-VERSION-CHECKSUM.safetensors``, the last few, and ``latest.json``, which says which of them is the
newest. Both are written aside and then renamed, the pointer last: whoever reads sees a whole snapshot, the old or the
new one. No two publishers write the same file, whatever they publish at once.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from abc import ABC, abstractmethod
from hashlib import blake2b
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

from tensorbandits.bandit.published import PublishedSnapshot, SnapshotRefusedError, check_uid
from tensorbandits.base.checks import check_count, check_installed
from tensorbandits.base.folders import Folder

POINTER = "latest.json"
_REDIS = ("redis", "rediss", "unix")
_SHORT = 8  # letters of a checksum that the name of a file has
_KEPT = 3  # versions of snapshots that a folder has, so that whoever reads the pointer just now finds its file
_FORMS = "a folder, an address of fsspec such as 's3://bucket/offers', or 'redis://host:6379/0?key=offers'"


class Pointer(NamedTuple):
    """Which snapshot is the newest at an address, and what it knows."""

    version: int
    file: str
    checksum: str
    event: int
    time: float
    name: str
    uid: str

    @classmethod
    def of(cls, snapshot: PublishedSnapshot, content: bytes) -> Self:
        """Return the pointer to a snapshot of which this is the content."""
        checksum = checksum_of(content)
        file = f"{snapshot.name}-{snapshot.version}-{checksum[:_SHORT]}.safetensors"
        parts = (snapshot.version, file, checksum, snapshot.event, snapshot.time, snapshot.name)
        return cls(*parts, snapshot.uid)

    def written(self) -> bytes:
        """Return the pointer as JSON."""
        return json.dumps(self._asdict()).encode()

    @classmethod
    def read(cls, content: bytes, source: str) -> Self:
        """Return the pointer that JSON describes."""
        try:
            given = json.loads(content)
            file, name = given["file"], given["name"]
            if not isinstance(file, str) or not isinstance(name, str) or "/" in file or "\\" in file:
                raise ValueError(f"the file is {file!r}")
            return cls(
                version=check_count(given["version"], "version"),
                file=file,
                checksum=str(given["checksum"]),
                event=check_count(given["event"], "event", 0),
                time=float(given["time"]),
                name=name,
                uid=check_uid(given["uid"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise SnapshotRefusedError(
                f"{source} is damaged ({error}); publish again, to this address or to another one"
            ) from None


class SnapshotPlace(ABC):
    """An address that snapshots of one bandit are published to and read from."""

    shown: str  # the address, without a password

    def publish(self, snapshot: PublishedSnapshot, *, replace: bool = False) -> PublishedSnapshot:
        """Publish a snapshot and return it, under a larger number if the address has one of this number already.

        Snapshots of another bandit are not replaced, unless one asks for it.
        """
        try:
            known = self.pointer()
        except SnapshotRefusedError:  # what is damaged helps nobody
            known = None
        if known is not None and (known.uid, known.name) != (snapshot.uid, snapshot.name) and not replace:
            raise ValueError(
                f"{self.shown} has snapshots of another bandit, {known.name!r} with the uid {known.uid}, and this is "
                f"{snapshot.name!r} with the uid {snapshot.uid}: tokens of one are refused by the other. Give another "
                "address, load the bandit that was saved, or replace=True"
            )
        if known is not None and known.version >= snapshot.version:
            snapshot = snapshot.with_version(known.version + 1)
        content = snapshot.to_bytes()
        self.put(Pointer.of(snapshot, content), content)
        return snapshot

    @abstractmethod
    def pointer(self) -> Pointer | None:
        """Return what is the newest here; ``None`` if there is nothing."""

    @abstractmethod
    def put(self, pointer: Pointer, content: bytes) -> None:
        """Put a snapshot here, as the newest."""

    @abstractmethod
    def content(self, pointer: Pointer) -> bytes:
        """Return the content of a snapshot that the pointer said was the newest."""


class FolderPlace(SnapshotPlace):
    """A folder: of this machine, or at any address that fsspec knows."""

    def __init__(self, address: str | os.PathLike[str]) -> None:
        self.shown = without_password(os.fspath(address))
        self._folder = Folder(address)

    def pointer(self) -> Pointer | None:
        """Return what is the newest here; ``None`` if there is nothing."""
        try:
            return Pointer.read(self._folder.read(POINTER), f"{self.shown}/{POINTER}")
        except FileNotFoundError:
            return None

    def put(self, pointer: Pointer, content: bytes) -> None:
        """Put a snapshot here, as the newest."""
        self._folder.write(pointer.file, content)
        self._folder.write(POINTER, pointer.written())
        for name in _outdated(pointer, [file.name for file in self._folder.files()]):
            with contextlib.suppress(OSError):
                self._folder.remove(name)

    def content(self, pointer: Pointer) -> bytes:
        """Return the content of a snapshot that the pointer said was the newest."""
        return self._folder.read(pointer.file)


class RedisPlace(SnapshotPlace):
    """A key of Redis: a hash of the pointer and the content of the newest snapshot, which change together.

    A decider reads the pointer each time, and the content when it is another one.
    """

    def __init__(self, address: str) -> None:
        plain, self._key = _key_of(address)
        self._redis = redis_at(plain)
        self.shown = without_password(address)

    def pointer(self) -> Pointer | None:
        """Return what is the newest here; ``None`` if there is nothing."""
        found = self._redis.hget(self._key, "pointer")
        return None if found is None else Pointer.read(found, self.shown)

    def put(self, pointer: Pointer, content: bytes) -> None:
        """Put a snapshot here, as the newest."""
        self._redis.hset(self._key, mapping={"pointer": pointer.written(), "content": content})

    def content(self, pointer: Pointer) -> bytes:
        """Return the content of the snapshot that is the newest now."""
        return bytes(self._redis.hget(self._key, "content") or b"")


def place_of(address: str | os.PathLike[str]) -> SnapshotPlace:
    """Return the place of an address: a folder, an address of fsspec, or Redis.

    >>> place_of("published/offers").shown
    'published/offers'
    """
    text = os.fspath(address) if isinstance(address, (str, os.PathLike)) else ""
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise ValueError(f"the address is {address!r}; give {_FORMS}")
    kind = text.split("://", 1)[0].lower()
    if kind in ("http", "https"):
        raise ValueError(f"{without_password(text)} is read by deciders, and cannot be published to; give {_FORMS}")
    if kind in _REDIS:
        return RedisPlace(text)
    return FolderPlace(text)


def redis_at(address: str) -> Any:
    """Return a connection to Redis, which is made when it is first used."""
    check_installed("an address of Redis", "redis", extra="redis")
    import redis

    times = {"socket_timeout": 10.0, "socket_connect_timeout": 5.0, "health_check_interval": 30}
    try:
        return redis.Redis.from_url(address, **times)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the address {without_password(address)!r} cannot be used ({error})") from None


def _key_of(address: str) -> tuple[str, str]:
    """An address of Redis without the key that it names, and the key.

    >>> _key_of("redis://localhost:6379/0?key=offers")
    ('redis://localhost:6379/0', 'offers')
    """
    parts = urlsplit(address)
    options = parse_qs(parts.query, keep_blank_values=True)
    given = options.pop("key", [])
    if len(given) != 1 or not given[0]:
        raise ValueError(f"{without_password(address)!r} gives key={given}; give one, as redis://host/0?key=offers")
    return urlunsplit(parts._replace(query=urlencode(options, doseq=True))), given[0]


def without_password(address: str) -> str:
    """Return an address for messages.

    >>> without_password("redis://:secret@host:6379/0?key=a")
    'redis://***@host:6379/0?key=a'
    """
    parts = urlsplit(address)
    if "@" not in parts.netloc:
        return address
    return urlunsplit(parts._replace(netloc=f"***@{parts.netloc.rsplit('@', 1)[1]}"))


def checksum_of(content: bytes) -> str:
    """Return the checksum of a file's content that a pointer has."""
    return blake2b(content, digest_size=32).hexdigest()


def _outdated(pointer: Pointer, names: list[str]) -> list[str]:
    """The files of snapshots that nobody reads any more."""
    found = {}
    for name in names:
        match = re.fullmatch(re.escape(pointer.name) + rf"-(\d+)-[0-9a-f]{{{_SHORT}}}\.safetensors", name)
        if match is not None:
            found[name] = int(match[1])
    kept = sorted({version for version in found.values() if version <= pointer.version}, reverse=True)[:_KEPT]
    return [name for name, version in found.items() if version < min(kept, default=0)]

"""Folders at any address that fsspec understands, in which files are whole or not there."""

from __future__ import annotations

import os
import posixpath
import uuid
from typing import Any, NamedTuple

from tensorbandits.base.checks import check_installed

_TAGS = ("ETag", "etag", "md5Hash", "mtime", "LastModified", "created")  # what file systems say of a content
_PUT_WHOLE = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "memory"}  # where a file appears at once


class FoundFile(NamedTuple):
    """A file as a listing shows it: its name below the folder, and what changes whenever the file does."""

    name: str
    mark: str


class Folder:
    """A folder at an address: a path, or a URL that fsspec opens.

    >>> folder = Folder("memory://lake")
    >>> folder.write("a/one.txt", b"1")
    >>> folder.read("a/one.txt"), folder.files("a")[0].name, folder.files("b")
    (b'1', 'one.txt', [])
    """

    def __init__(self, address: str | os.PathLike[str]) -> None:
        check_installed("a folder at an address", "fsspec", extra="lake")
        import fsspec

        self.address = os.fspath(address)
        try:
            self.system, root = fsspec.core.url_to_fs(self.address)
        except (ImportError, ValueError) as error:
            raise ValueError(
                f"the address {self.address!r} cannot be opened ({error}); give a folder, or a URL that fsspec knows, "
                "such as s3://bucket/lake with s3fs installed"
            ) from None
        self.root = root.rstrip("/")
        names = self.system.protocol
        self.protocols = {names} if isinstance(names, str) else set(names)

    @property
    def local(self) -> bool:
        """Whether it is a folder of this machine."""
        return bool(self.protocols & {"file", "local"})

    def path(self, name: str) -> str:
        """Return the whole path of a file, as the file system has it."""
        return posixpath.join(self.root, name)

    def write(self, name: str, content: bytes) -> None:
        """Write a file, whole or not at all, also when the machine stops meanwhile; what was there stays until then."""
        path = self.path(name)
        if self.protocols & _PUT_WHOLE:
            self.system.pipe_file(path, content)
            return
        head, tail = posixpath.split(path)
        _make_folders(head) if self.local else self.system.makedirs(head, exist_ok=True)
        part = posixpath.join(head, f".{tail}.{uuid.uuid4().hex[:8]}.writing")
        try:
            if self.local:
                _write_through(part, content)
                os.replace(part, path)
                _flush_folder(head)
            else:
                self.system.pipe_file(part, content)
                self.system.mv(part, path)
        except BaseException:
            if self.system.exists(part):
                self.system.rm_file(part)
            raise

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        return bytes(self.system.cat_file(self.path(name)))

    def open(self, name: str) -> Any:
        """Return a file, to be read in pieces."""
        return self.system.open(self.path(name), "rb")

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        if self.system.exists(self.path(name)):
            self.system.rm_file(self.path(name))

    def files(self, name: str = "") -> list[FoundFile]:
        """Return the files of a folder, in order of their names; none of a folder that is not there."""
        return sorted(
            FoundFile(posixpath.basename(one["name"]), _mark(one))
            for one in self._listing(name)
            if one["type"] == "file"
        )

    def folders(self, name: str = "") -> list[str]:
        """Return the names of the folders in a folder, in order; none of one that is not there."""
        return sorted(
            posixpath.basename(one["name"].rstrip("/")) for one in self._listing(name) if one["type"] == "directory"
        )

    def _listing(self, name: str) -> list[dict[str, Any]]:
        path = self.path(name) if name else self.root
        self.system.invalidate_cache()
        try:
            found = self.system.ls(path, detail=True)
        except FileNotFoundError:
            return []
        return [one for one in found if one["name"].rstrip("/") != path]


def _mark(one: dict[str, Any]) -> str:
    """What changes whenever a file does: its size, and its content's tag or else when it was written."""
    known = next((one[name] for name in _TAGS if name in one), "")
    return f"{one.get('size', 0)}:{known}"


def _write_through(path: str, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _make_folders(path: str) -> None:
    """Make a folder and those above it, so that their names outlive a machine that stops."""
    if os.path.isdir(path):
        return
    above = os.path.dirname(path)
    _make_folders(above)
    os.makedirs(path, exist_ok=True)
    _flush_folder(above)


def _flush_folder(path: str) -> None:
    """Have the name of a new file outlive a machine that stops, where the system can do so."""
    if hasattr(os, "O_DIRECTORY"):
        place = os.open(path, os.O_DIRECTORY)
        try:
            os.fsync(place)
        finally:
            os.close(place)

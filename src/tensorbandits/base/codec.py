"""The one way in which policies, ledgers and bandits are kept in files: safetensors with JSON metadata.

A state is plain: dicts with text for keys, lists, tuples, arrays of numbers, numbers, text, ``None``. Each array is a
tensor named by its place (``state.chain.core``); all the rest is one JSON text in the metadata. In it, what JSON lacks
is an object with one key: ``{"$tuple": [..]}``, ``{"$array": place}``, ``{"$int": "0x.."}`` beyond 64 bits. Keys that
begin with ``$`` themselves get another one in front. A file is whole or not there, and reading it runs nothing.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import tempfile
import uuid
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorbandits.base.checks import check_count
from tensorbandits.base.pieces import gently

Arrays = dict[str, NDArray[Any]]

CODEC = 1  # the version of the layout of files; the version of what a class puts into them is its own
_KEY = "tensorbandits"
_DEEPEST = 100  # containers within containers: a state that holds itself ends here
_LONGEST = 100_000_000  # characters in the header of a safetensors file, which holds the JSON
_REMEDIES = {  # by name, as not every system has every number
    "ENOENT": "mend the name, or make its folder first",
    "EISDIR": "give the name of a file in that folder",
    "ENOTDIR": "give a name that does not go through a file",
    "EACCES": "give a place that you may use, or change its permissions",
    "EPERM": "give a place that you may use, or change its permissions",
    "EROFS": "give a place that can be written to",
    "ENOSPC": "free some space, or give a place on another disk",
    "EDQUOT": "free some space, or give a place on another disk",
    "ENAMETOOLONG": "give a shorter name",
}
_FINITE = "a state holds finite numbers only: mend what made it, or put None for a number that is not known"
_PLAIN = "dicts, lists, tuples, arrays, numbers, text and None"


class Saved(NamedTuple):
    """What a file holds: the kind of object, the version of that kind's state, and the state."""

    kind: str
    version: int
    state: dict[str, Any]


def save(path: str | PathLike[str], kind: str, version: int, state: Mapping[str, Any]) -> None:
    """Write a state to a file, whole or not at all; what was there before stays until then.

    The arrays must not change meanwhile. When several save to one path at once, the last one's file stays, whole.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     save(f"{folder}/a.safetensors", "example", 1, {"shape": (2, 3), "core": np.eye(2)})
    ...     load(f"{folder}/a.safetensors")
    Saved(kind='example', version=1, state={'shape': (2, 3), 'core': array([[1., 0.], [0., 1.]])})
    """
    place = _check_path(path)
    _write(place, pack(kind, version, state))


def pack(kind: str, version: int, state: Mapping[str, Any]) -> bytes:
    """Return what :func:`save` writes.

    >>> unpack(pack("example", 1, {"core": np.eye(1)}))
    Saved(kind='example', version=1, state={'core': array([[1.]])})
    """
    from safetensors.numpy import save as serialize

    head = _head(kind, version)
    described, arrays = _flatten(state)
    content = json.dumps({**head, "checksum": _digest([head, described], arrays), "state": described})
    file = serialize(arrays, metadata={_KEY: content})
    header = int.from_bytes(file[:8], "little")
    if header > _LONGEST:
        raise ValueError(
            f"the state takes {header:.3g} characters besides its arrays; a file holds at most {_LONGEST:.3g}: "
            "keep long lists of numbers as arrays"
        )
    return bytes(file)


def unpack(content: bytes) -> Saved:
    """Return what :func:`pack` packed, as :func:`load` does."""
    with tempfile.TemporaryDirectory() as folder:  # safetensors reads metadata from files only
        place = Path(folder) / "packed"
        place.write_bytes(content)
        return load(place)


def load(path: str | PathLike[str]) -> Saved:
    """Read what :func:`save` wrote; a file that is damaged, foreign or of a newer release is refused.

    >>> load("nowhere.safetensors")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] .../nowhere.safetensors cannot be read (No such file or directory); mend the name, ...
    """
    place = _check_path(path)
    content, arrays = _read(place)
    try:
        head = _head(content["kind"], content["version"])
        state = _plain(content["state"], arrays)
        described, placed = _flatten(state)  # checks it too
        whole = not arrays and content["checksum"] == _digest([head, described], placed)
    except (KeyError, TypeError, ValueError, RecursionError):
        whole = False
    if not whole:
        raise _damaged(place)
    return Saved(head["kind"], head["version"], state)


def checksum(state: Mapping[str, Any]) -> str:
    """Return a text that two states share only when they are the same; equal in every process.

    >>> checksum({"a": 1, "b": (2,)}) == checksum({"b": (2,), "a": 1}) != checksum({"a": 1, "b": [2]})
    True
    """
    return _digest(*_flatten(state))


def _head(kind: Any, version: Any) -> dict[str, Any]:
    if type(kind) is not str or not kind:
        raise ValueError(f"kind is {kind!r}; give the name of what is saved, for example 'ledger'")
    return {"codec": CODEC, "kind": kind, "version": check_count(version, "version")}


# From a state to JSON and arrays.


def _flatten(state: Mapping[str, Any]) -> tuple[Any, Arrays]:
    """The state as what JSON holds, and its arrays by place."""
    if not isinstance(state, Mapping):
        raise TypeError(f"the state is a {type(state).__name__}; give a dict")
    arrays: Arrays = {}
    return _describe(state, "state", arrays, 0), arrays


def _describe(value: Any, place: str, arrays: Arrays, depth: int) -> Any:
    """One value as what JSON holds; its arrays are added to those by place."""
    if value is None or type(value) in (bool, str):
        return value
    if type(value) is int:
        return value if -(2**63) <= value < 2**64 else {"$int": hex(value)}
    if type(value) is float:
        if not math.isfinite(value):
            raise ValueError(f"{place} is {value}; {_FINITE}")
        return value
    if depth == _DEEPEST:
        raise ValueError(f"{place} lies {_DEEPEST} containers deep, or the state holds itself; make it flatter")
    if type(value) in (list, tuple):
        items = [_describe(item, f"{place}[{i}]", arrays, depth + 1) for i, item in enumerate(value)]
        return items if type(value) is list else {"$tuple": items}
    if type(value) is dict or isinstance(value, Mapping):
        return {
            _mark(key, place): _describe(item, _below(place, key), arrays, depth + 1) for key, item in value.items()
        }
    if type(value) in (np.ndarray, np.memmap):
        arrays[place] = _check_array(value, place)
        return {"$array": place}
    if isinstance(value, (np.bool_, np.integer, np.floating, np.str_)) and type(value) is not np.longdouble:
        return _describe(value.item(), place, arrays, depth)
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    raise TypeError(f"{place} is a {kind}, which cannot be saved; a state is made of {_PLAIN}: put it into those")


def _check_array(array: NDArray[Any], place: str) -> NDArray[Any]:
    """The array in C order, low byte first."""
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise TypeError(
            f"{place} is an array of type {array.dtype}, which cannot be saved; "
            "convert it to whole numbers, floats of up to 64 bits, or bool"
        )
    if array.dtype.kind == "f":
        finite = np.isfinite(array)
        if not finite.all():
            index = tuple(int(i) for i in np.argwhere(~finite)[0])
            raise ValueError(f"{place} holds {array[index]} at {index}; {_FINITE}")
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def _below(place: str, key: str) -> str:
    """The place of what a key names: no two places of a state have the same text."""
    return f"{place}.{key}" if key.isidentifier() and key.isascii() else f"{place}[{json.dumps(key)}]"


def _mark(key: Any, place: str) -> str:
    if type(key) is not str:
        raise TypeError(f"{place} has the key {key!r}, a {type(key).__name__}; keys are text: use str(key)")
    return f"${key}" if key.startswith("$") else key


def _digest(described: Any, arrays: Arrays) -> str:
    """A checksum of what JSON holds and of the arrays: their places, types, shapes and bytes."""
    names = sorted(arrays)
    kinds = [[name, arrays[name].dtype.name, arrays[name].shape] for name in names]
    text = json.dumps([described, kinds], sort_keys=True, separators=(",", ":"), allow_nan=False)
    digest = hashlib.blake2b(text.encode(), digest_size=32)
    for name in gently(names):
        digest.update(arrays[name].reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


# And back.


def _plain(value: Any, arrays: Arrays) -> Any:
    """The value that :func:`_describe` described; takes each array out of those given."""
    if isinstance(value, list):
        return [_plain(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"$tuple": list(items)}:
            return tuple(_plain(item, arrays) for item in items)
        case {"$array": str(name)}:
            return arrays.pop(name)
        case {"$int": str(digits)}:
            return int(digits, 16)
    return {key.removeprefix("$"): _plain(item, arrays) for key, item in value.items()}


# Files.


def _check_path(path: Any) -> Path:
    """The file itself, not a link to it, which would be replaced rather than written to."""
    if not isinstance(path, (str, PathLike)):
        raise TypeError(f"path is {path!r}; give the name of a file")
    return Path(os.path.realpath(path))


def _write(path: Path, content: bytes) -> None:
    """Put a file in its place, whole or not at all."""
    aside = path.parent / f".{uuid.uuid4().hex}.part"
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with aside.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except OSError as error:
        raise _explained(error, f"{path} cannot be written") from None
    finally:
        with contextlib.suppress(OSError):  # there is none, as a rule
            aside.unlink()


def _read(path: Path) -> tuple[dict[str, Any], Arrays]:
    """The JSON and the arrays of a file of this codec, not yet checked against the checksum."""
    from safetensors import SafetensorError, safe_open

    try:
        if not path.is_file():
            wrong = errno.EISDIR if path.is_dir() else errno.EINVAL if path.exists() else errno.ENOENT
            raise OSError(wrong, os.strerror(wrong))  # a device or a pipe could be read for ever
        with safe_open(path, framework="numpy") as file:
            content = _parse(file.metadata(), path)
            try:
                return content, {name: _tensor(file, name) for name in file.keys()}  # noqa: SIM118  (it is no dict)
            except (AttributeError, TypeError, ValueError):  # a type or a shape that NumPy does not know
                raise _damaged(path) from None
    except SafetensorError as error:
        raise _damaged(path, f"; {error}") from None
    except OSError as error:
        raise _explained(error, f"{path} cannot be read") from None


def _tensor(file: Any, name: str) -> NDArray[Any]:
    array: NDArray[Any] = file.get_tensor(name)
    return array.view(np.uint8).astype(bool) if array.dtype == bool else array  # a byte may be neither 0 nor 1


def _parse(metadata: Mapping[str, str] | None, path: Path) -> dict[str, Any]:
    if not metadata or _KEY not in metadata:
        raise ValueError(f"{path} is a safetensors file of another program; give one that tensorbandits saved")
    try:
        content = json.loads(metadata[_KEY])
        codec = check_count(content["codec"], "codec")
    except (KeyError, TypeError, ValueError, RecursionError):
        raise _damaged(path) from None
    if codec > CODEC:
        raise ValueError(
            f"{path} has layout {codec}, but this release reads up to {CODEC}: "
            "it was written by a newer release; upgrade tensorbandits"
        )
    return dict(content)


def _damaged(path: Path, detail: str = "") -> ValueError:
    return ValueError(
        f"{path} is damaged, cut short, or not a file that tensorbandits saved{detail}; "
        "take another copy of it, or save it again"
    )


def _explained(error: OSError, what: str) -> OSError:
    """The same error, of the same class and number, with what to do about it."""
    number = errno.errorcode.get(error.errno or 0, "")
    return OSError(error.errno, f"{what} ({error.strerror or error}); {_REMEDIES.get(number, 'give another place')}")

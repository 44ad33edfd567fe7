"""Digests of what decides a run, the same in every process: of values, of policies, of environments, of code.

A value is walked by its contents, never by its identity or by the order of a set, so that equal values have equal
digests tomorrow and on another machine. Code counts too: the package's by its files, an installed library's by its
version, and anyone else's classes and functions by what they were compiled to and by all that they read: the constants
and helpers of their modules, and what these read in turn.
"""

from __future__ import annotations

import functools
import hashlib
import types
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tensorbandits.policies.base import Policy
from tensorbandits.sim.reads import Read, is_library, library_version, reads
from tensorbandits.sim.sources import PACKAGE, modules_below, source_digest

_SCALARS = (type(None), bool, int, float, complex, str, bytes)
_PLAIN = (*_SCALARS, list, tuple, dict, np.ndarray)
_CODE = (types.FunctionType, staticmethod, classmethod, property, functools.cached_property)


def digest(value: Any) -> str:
    """Return 32 hexadecimal digits that depend on all of a value.

    >>> digest({"a": 1, "b": {2.0, "x"}}) == digest({"b": {"x", 2.0}, "a": 1})
    True
    >>> digest(np.zeros(2)) == digest(np.zeros(3))
    False
    """
    hasher = hashlib.blake2b(digest_size=16)
    for piece in _all_pieces(value):
        hasher.update(piece)
    return hasher.hexdigest()


def policy_digest(policy: Policy) -> str:
    """Return the digest of a policy and of all that it starts with: arguments, ledger, generator.

    >>> from tensorbandits.policies.ucb import VectorizedUCB
    >>> policy_digest(VectorizedUCB((2, 3), seed=0)) == policy_digest(VectorizedUCB((2, 3), seed=0))
    True
    """
    return digest([type(policy), policy.state_dict()])


def _all_pieces(value: Any) -> Iterator[bytes]:
    """The pieces of a value, and then, sorted by name, those of everything that its code reads by name."""
    walk = _Walk()
    yield from walk.pieces(value, ())
    read: list[bytes] = []
    while walk.unread:
        name, item = walk.unread.pop()
        try:
            pieces = b"".join(walk.pieces(item, ()))
        except (TypeError, AttributeError, ValueError, RecursionError):
            pieces = f"some {_name(type(item))}".encode()  # no constant, such as a lock or an open file
        read.append(f"{name} {len(pieces)} ".encode() + pieces)
    yield from sorted(read)


class _Walk:
    """A walk through a value; ``unread`` is what code that it met reads, by name, and was not walked yet."""

    def __init__(self) -> None:
        self.unread: list[tuple[str, Any]] = []
        self._met: set[tuple[str, int]] = set()

    def pieces(self, value: Any, above: tuple[int, ...]) -> Iterator[bytes]:
        """Yield bytes that tell a value from every other one; ``above`` are the ids of the objects it lies in."""
        if isinstance(value, _SCALARS):
            text = value if isinstance(value, bytes) else repr(value).encode()
            yield f"{type(value).__name__} {len(text)} ".encode() + text
            return
        if id(value) in above:
            yield f"above {above.index(id(value))} ".encode()
            return
        inside = (*above, id(value))
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            yield f"array {value.dtype.descr} {value.shape} ".encode()
            yield np.ascontiguousarray(value).tobytes()
        elif isinstance(value, (list, tuple)):
            yield f"{_name(type(value))} {len(value)} ".encode()
            for item in value:
                yield from self.pieces(item, inside)
        elif isinstance(value, (Mapping, set, frozenset)):
            items = value.items() if isinstance(value, Mapping) else value
            yield f"{_name(type(value))} {len(value)} ".encode()
            yield from sorted(b"".join(self.pieces(item, inside)) for item in items)
        else:
            yield f"{_name(type(value))} ".encode()
            yield from self.pieces(self._parts(value), inside)

    def _parts(self, value: Any) -> Any:
        """What a value consists of, as simpler values."""
        if isinstance(value, types.CodeType):
            return [value.co_code, value.co_consts, value.co_names, value.co_varnames, value.co_freevars]
        if isinstance(value, types.FunctionType):
            self._put_down(reads(value))
            cells = [cell.cell_contents for cell in value.__closure__ or () if not _is_empty(cell)]
            return [_name(value), value.__code__, value.__defaults__, value.__kwdefaults__, cells]
        if isinstance(value, type):
            return self._parts_of_class(value)
        if isinstance(value, types.ModuleType):
            return [value.__name__, *_library(value.__name__)]
        if isinstance(value, (property, functools.cached_property)):
            return [value.fget, value.fset, value.fdel] if isinstance(value, property) else value.func
        if hasattr(value, "__wrapped__"):  # what a decorator made: a static method, a cache, a compiled kernel
            return value.__wrapped__
        if isinstance(value, np.random.Generator):
            return value.bit_generator.state
        if isinstance(value, np.random.BitGenerator):
            return value.state
        return _taken_apart(value)

    def _parts_of_class(self, kind: type) -> Any:
        """The name of a class, and for a class outside the package and the libraries, its contents and its bases."""
        if is_library(kind.__module__):
            return [_name(kind), *_library(kind.__module__)]
        body = {name: part for name, part in vars(kind).items() if isinstance(part, _CODE) or not name.startswith("__")}
        own = {name: part for name, part in body.items() if isinstance(part, (*_CODE, *_PLAIN))}
        # Of the rest, what cannot be told apart counts by its type: it is no constant.
        self._put_down((f"{_name(kind)}.{name}", part, id(kind)) for name, part in body.items() if name not in own)
        return [_name(kind), own, kind.__bases__]

    def _put_down(self, found: Iterator[Read]) -> None:
        for name, value, owner in found:
            if (name, owner) not in self._met:
                self._met.add((name, owner))
                self.unread.append((name, value))


def _library(module: str) -> list[Any]:
    """What tells one state of a library from another; nothing for one whose version counts for every run anyway."""
    if module.partition(".")[0] == PACKAGE:
        return [] if module in modules_below() else [source_digest(module)]
    return library_version(module) if is_library(module) else []


def _taken_apart(value: Any) -> Any:
    """What pickle would take a value apart into, or refuse to."""
    if isinstance(value, Iterator):
        raise TypeError(f"{_name(type(value))} is used up by walking it")
    reduced = value.__reduce_ex__(4)
    if isinstance(reduced, str):
        return reduced
    make, arguments, *rest = reduced
    return [_name(make), arguments, *(list(part) if isinstance(part, Iterator) else part for part in rest)]


def _name(thing: Any) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"


def _is_empty(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return True
    return False

"""Digests of what decides a run, the same in every process: of values, of policies, of environments, of code.

A value is walked by its contents, never by its identity or by the order of a set, so that equal values have equal
digests tomorrow and on another machine. Code counts by the text of the files that it comes from and of those that they
import (:mod:`~tensorbandits.sim.sources`), an installed library by its version.
"""

from __future__ import annotations

import functools
import hashlib
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tensorbandits.policies.base import Policy
from tensorbandits.sim.sources import PACKAGE, library_version, modules_below, own_file, source_digest

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
    for piece in _pieces(value, ()):
        hasher.update(piece)
    return hasher.hexdigest()


def policy_digest(policy: Policy) -> str:
    """Return the digest of a policy and of all that it starts with: arguments, ledger, generator.

    >>> from tensorbandits.policies.ucb import VectorizedUCB
    >>> policy_digest(VectorizedUCB((2, 3), seed=0)) == policy_digest(VectorizedUCB((2, 3), seed=0))
    True
    """
    return digest([type(policy), policy.state_dict()])


def _pieces(value: Any, above: tuple[int, ...]) -> Iterator[bytes]:
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
        yield f"{qualified_name(type(value))} {len(value)} ".encode()
        for item in value:
            yield from _pieces(item, inside)
    elif isinstance(value, (Mapping, set, frozenset)):
        items = value.items() if isinstance(value, Mapping) else value
        yield f"{qualified_name(type(value))} {len(value)} ".encode()
        yield from sorted(b"".join(_pieces(item, inside)) for item in items)
    else:
        yield f"{qualified_name(type(value))} ".encode()
        yield from _pieces(_parts(value), inside)


def _parts(value: Any) -> Any:
    """What a value consists of, as simpler values."""
    if isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if not _is_empty(cell)]
        place = list(value.__code__.co_positions())  # tells one lambda of a file from the next
        return [qualified_name(value), *_code(value.__module__), place, value.__defaults__, value.__kwdefaults__, cells]
    if isinstance(value, type):
        return _parts_of_class(value)
    if isinstance(value, types.ModuleType):
        return [value.__name__, *_code(value.__name__)]
    if isinstance(value, (property, functools.cached_property)):
        return [value.fget, value.fset, value.fdel] if isinstance(value, property) else value.func
    if hasattr(value, "__wrapped__"):  # what a decorator made: a static method, a cache, a compiled kernel
        return value.__wrapped__
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    if isinstance(value, np.random.BitGenerator):
        return value.state
    return _taken_apart(value)


def _parts_of_class(kind: type) -> Any:
    """The name and the code of a class; for one of yours also its bases, and what was given to it as it was made."""
    code = _code(kind.__module__)
    if own_file(kind.__module__) is None or kind.__module__.partition(".")[0] == PACKAGE:
        return [qualified_name(kind), *code]
    body = {name: part for name, part in vars(kind).items() if isinstance(part, _CODE) or not name.startswith("__")}
    own = {name: part for name, part in body.items() if isinstance(part, (*_CODE, *_PLAIN))}
    return [qualified_name(kind), *code, own, kind.__bases__]


def _code(module: str) -> list[str]:
    """What tells one state of the code of a module from another; nothing where that counts for every run anyway."""
    top = module.partition(".")[0]
    if top == PACKAGE:
        return [] if module == PACKAGE or module in modules_below() else [source_digest(module)]
    if own_file(module) is not None:
        return [source_digest(module)]
    if module == "__main__" or module not in sys.modules:
        raise TypeError(f"{module} has no file that holds its code, as in a notebook: put it into a module")
    return [library_version(module)]


def _taken_apart(value: Any) -> Any:
    """What pickle would take a value apart into, or refuse to."""
    if isinstance(value, Iterator):
        raise TypeError(f"{qualified_name(type(value))} is used up by walking it")
    reduced = value.__reduce_ex__(4)
    if isinstance(reduced, str):
        return reduced
    make, arguments, *rest = reduced
    return [qualified_name(make), arguments, *(list(part) if isinstance(part, Iterator) else part for part in rest)]


def qualified_name(thing: Any) -> str:
    """Return the name of a class or function, with its module.

    >>> qualified_name(Mapping)
    'collections.abc.Mapping'
    """
    return f"{thing.__module__}.{thing.__qualname__}"


def _is_empty(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return True
    return False

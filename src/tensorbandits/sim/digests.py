"""Digests of what decides a run, the same in every process: of values, of policies, of environments, of code.

A value is walked by its contents, never by its identity or by the order of a set, so that equal values have equal
digests tomorrow and on another machine. Code counts too: the package's by its files, anyone else's classes and
functions by what they were compiled to.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import sys
import threading
import types
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any

import numpy as np

from tensorbandits.policies.base import Policy

PACKAGE = "tensorbandits"

_SCALARS = (type(None), bool, int, float, complex, str, bytes)
_PLAIN = (*_SCALARS, list, tuple, dict, np.ndarray)
_CODE = (types.FunctionType, staticmethod, classmethod, property, functools.cached_property)

# The parts of the package that decide the numbers of a run; a change of another part discards no results.
_DECIDING = (
    "compiled.py",
    "checks.py",
    "ledger.py",
    "tensor",
    "policies",
    "theory.py",
    "sim/environment.py",
    "sim/jobs.py",
    "sim/log_world.py",
    "sim/loop.py",
)

_reading = threading.Lock()  # Python 3.11 cannot parse in two threads at once


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


def source_digest() -> str:
    """Return the digest of the package's code that decides the numbers of a run; comments and docstrings do not count.

    >>> len(source_digest())
    32
    """
    with _reading:
        return _source_digest()


@functools.cache
def _source_digest() -> str:
    root = resources.files(PACKAGE)
    return digest([(name, text) for part in _DECIDING for name, text in _sources(root, part)])


def _sources(folder: Any, name: str) -> Iterator[tuple[str, str]]:
    """The names and the code of a file, or of all files of a folder; nothing where there is neither."""
    place = folder.joinpath(name)
    if place.is_dir():
        for below in sorted(item.name for item in place.iterdir()):
            if below.endswith(".py") or place.joinpath(below).is_dir():
                yield from ((f"{name}/{inner}", text) for inner, text in _sources(place, below))
    elif place.is_file():
        yield name, _bare(place.read_text(encoding="utf-8"))


def _bare(source: str) -> str:
    """Python code without its comments, docstrings and layout."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node, clean=False):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


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
        yield f"{_name(type(value))} {len(value)} ".encode()
        for item in value:
            yield from _pieces(item, inside)
    elif isinstance(value, (Mapping, set, frozenset)):
        items = value.items() if isinstance(value, Mapping) else value
        yield f"{_name(type(value))} {len(value)} ".encode()
        yield from sorted(b"".join(_pieces(item, inside)) for item in items)
    else:
        yield f"{_name(type(value))} ".encode()
        yield from _pieces(_parts(value), inside)


def _parts(value: Any) -> Any:
    """What a value consists of, as simpler values."""
    if isinstance(value, types.CodeType):
        return [value.co_code, value.co_consts, value.co_names, value.co_varnames, value.co_freevars]
    if isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if not _is_empty(cell)]
        return [_name(value), value.__code__, value.__defaults__, value.__kwdefaults__, cells]
    if isinstance(value, type):
        return _parts_of_class(value)
    if isinstance(value, types.ModuleType):
        return value.__name__
    if isinstance(value, (property, functools.cached_property)):
        return value.fget if isinstance(value, property) else value.func
    if hasattr(value, "__wrapped__"):  # what a decorator made: a static method, a cache, a compiled kernel
        return value.__wrapped__
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    if isinstance(value, np.random.BitGenerator):
        return value.state
    reduced = value.__reduce_ex__(4)  # how pickle would take it apart, and refuse to
    if isinstance(reduced, str):
        return reduced
    make, arguments, *rest = reduced
    return [_name(make), arguments, *(list(part) if isinstance(part, Iterator) else part for part in rest)]


def _parts_of_class(kind: type) -> Any:
    """The name of a class, and for a class outside the package and the libraries below it, its code and its bases."""
    module = kind.__module__.partition(".")[0]
    if module in (PACKAGE, "numpy", "scipy") or module in sys.stdlib_module_names:
        return _name(kind)
    body = {name: part for name, part in vars(kind).items() if isinstance(part, _CODE) or not name.startswith("__")}
    known = {name: part for name, part in body.items() if isinstance(part, (*_CODE, *_PLAIN))}
    return [_name(kind), known, kind.__bases__]


def _name(thing: Any) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"


def _is_empty(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return True
    return False

"""The package's own code, as what a run depends on: the files that others import, found by reading them.

What decides the numbers of a run is all that the module of jobs imports, and what that imports; a change of another
file, such as one that draws or prints, discards no results.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import threading
from collections.abc import Iterator
from importlib import resources
from importlib.util import resolve_name
from typing import Any

PACKAGE = "tensorbandits"
_JOBS = f"{PACKAGE}.sim.jobs"

_reading = threading.RLock()  # Python 3.11 cannot parse in two threads at once


def source_digest(module: str = _JOBS) -> str:
    """Return the digest of the code of a module of the package and of all below it, by default of jobs.

    Comments and docstrings do not count.

    >>> len(source_digest())
    32
    """
    with _reading:
        return _source_digest(module)


def modules_below(module: str = _JOBS) -> tuple[str, ...]:
    """Return the modules of the package whose code a module depends on, itself among them.

    >>> "tensorbandits.policies.thompson" in modules_below(), "tensorbandits.sim.plots" in modules_below()
    (True, False)
    """
    with _reading:
        return _modules_below(module)


@functools.cache
def _modules_below(module: str) -> tuple[str, ...]:
    found, waiting = set[str](), [module]
    while waiting:
        name = waiting.pop()
        if name not in found and _file(name) is not None:
            found.add(name)
            waiting.extend(_imports(name))
    return tuple(sorted(found))


@functools.cache
def _source_digest(module: str) -> str:
    hasher = hashlib.blake2b(digest_size=16)
    for name in modules_below(module):
        text = bare(_file(name).read_text(encoding="utf-8"))
        hasher.update(f"{name} {len(text)} {text}".encode())
    return hasher.hexdigest()


def _file(module: str) -> Any:
    """The file of a module of the package, or ``None``."""
    place, *parts = module.split(".")
    if place != PACKAGE or not parts:  # the package itself only names what it holds
        return None
    root = resources.files(PACKAGE)
    for file in (root.joinpath(*parts[:-1], f"{parts[-1]}.py"), root.joinpath(*parts, "__init__.py")):
        if file.is_file():
            return file
    return None


def _imports(module: str) -> list[str]:
    """What may be modules of the package among the names that a module imports, wherever it does."""
    file = _file(module)
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    names = []
    for node in _running(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package) if node.level else node.module or ""
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return names


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those below ``if TYPE_CHECKING``, which never run."""
    yield node
    unseen = node.body if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING") else []
    for child in ast.iter_child_nodes(node):
        if child not in unseen:
            yield from _running(child)


def bare(source: str) -> str:
    """Return Python code without its comments, docstrings and layout.

    >>> bare("x   = 1  # one")
    'x = 1'
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node, clean=False):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)

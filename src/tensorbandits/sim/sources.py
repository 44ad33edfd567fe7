"""The code that decides a run, by the text of its files: those of a module and of every module that it imports in turn.

Files of this package count, and files of yours. Of an installed library its version counts. Comments and docstrings do
not, nor does a file that nothing here imports, such as one that draws or prints: changing it discards no results.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import struct
import sys
import sysconfig
import threading
import uuid
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec, resolve_name
from pathlib import Path

PACKAGE = "tensorbandits"
_JOBS = f"{PACKAGE}.sim.jobs"
_ROOT = Path(__file__).resolve().parent.parent
_SESSION = uuid.uuid4().hex

_reading = threading.RLock()  # Python 3.11 cannot parse in two threads at once


def source_digest(module: str = _JOBS) -> str:
    """Return the digest of the text of a module and of all below it, by default of the module that runs jobs.

    >>> len(source_digest())
    32
    """
    with _reading:
        return (_package_digest if _is_ours(module) else _digest)(module)


def modules_below(module: str = _JOBS) -> tuple[str, ...]:
    """Return the modules whose text a module depends on, itself among them.

    >>> "tensorbandits.policies.thompson" in modules_below(), "tensorbandits.sim.plots" in modules_below()
    (True, False)
    """
    with _reading:
        return (_package_below if _is_ours(module) else _below)(module)


def own_file(module: str) -> Path | None:
    """Return the file of a module of this package or of yours; ``None`` for a library, and where there is no file.

    >>> own_file("tensorbandits.sim.jobs").name, own_file("numpy"), own_file("json")
    ('jobs.py', None, None)
    """
    top, *parts = module.split(".")
    if top == PACKAGE:  # the package itself only names what it holds
        files = (_ROOT.joinpath(*parts[:-1], f"{parts[-1]}.py"), _ROOT.joinpath(*parts, "__init__.py")) if parts else ()
        return next((file for file in files if file.is_file()), None)
    if module != "__main__" and top in sys.stdlib_module_names:
        return None
    try:
        loaded = sys.modules.get(module)
        name = loaded.__file__ if loaded is not None else find_spec(module).origin  # type: ignore[union-attr]
    except Exception:  # whatever a package of yours raises when it is imported; or there is no such module
        return None
    file = Path(name or "").resolve()
    return file if file.suffix == ".py" and file.is_file() and not _is_installed(file) else None


def library_version(module: str) -> str:
    """Return the version of the library that a module belongs to; nothing for Python's own, and for this package.

    >>> library_version("json"), library_version("numpy.linalg") == __import__("numpy").__version__
    ('', True)
    """
    top = module.partition(".")[0]
    if top == PACKAGE or top in sys.stdlib_module_names:
        return ""
    try:
        return metadata.version(top)
    except metadata.PackageNotFoundError:
        return str(getattr(sys.modules.get(top), "__version__", ""))


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


def _is_ours(module: str) -> bool:
    return module.startswith(f"{PACKAGE}.")


def _below(module: str) -> tuple[str, ...]:
    found, waiting = set[str](), [module]
    while waiting:
        name = waiting.pop()
        if _is_ours(name) and not _is_ours(module):
            found.update(_package_below(name))
            continue
        file = own_file(name) if name not in found else None
        if file is not None:
            found.add(name)
            waiting.extend(_resolved(_read(file, _stamp(file))[1], name, file))
    return tuple(sorted(found))


def _digest(module: str) -> str:
    hasher = hashlib.blake2b(digest_size=16)
    for name in modules_below(module):
        file = own_file(name)
        assert file is not None
        text, imports = _read(file, _stamp(file))
        if not _is_ours(name):
            libraries = {library.partition(".")[0] for level, library, _ in imports if not level}
            text += "".join(f"\n{library} {library_version(library)}" for library in sorted(libraries))
            text += f"\n{_SESSION}" * _changed_since(name, file)
        hasher.update(f"{name} {len(text)} {text}".encode())
    return hasher.hexdigest()


_package_below, _package_digest = functools.cache(_below), functools.cache(_digest)  # files that stay as they are

_Import = tuple[int, str, tuple[str, ...]]  # how many dots, the module, the names taken from it


@functools.lru_cache(maxsize=4096)
def _read(file: Path, stamp: tuple[int, int]) -> tuple[str, tuple[_Import, ...]]:
    """The code of a file as it stands, and what it imports, wherever it does."""
    text = file.read_text(encoding="utf-8")
    found: list[_Import] = []
    for node in _running(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [(0, alias.name, ()) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append((node.level, node.module or "", tuple(alias.name for alias in node.names)))
    return bare(text), tuple(found)


def _stamp(file: Path) -> tuple[int, int]:
    status = file.stat()
    return status.st_mtime_ns, status.st_size


def _resolved(imports: tuple[_Import, ...], module: str, file: Path) -> Iterator[str]:
    """What may be modules among the names that a module imports."""
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for level, name, taken in imports:
        try:
            base = resolve_name("." * level + name, package) if level else name
        except ImportError:  # more dots than packages
            continue
        yield base
        yield from (f"{base}.{part}" for part in taken)


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those below ``if TYPE_CHECKING``, which never run."""
    yield node
    unseen = node.body if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING") else []
    for child in ast.iter_child_nodes(node):
        if child not in unseen:
            yield from _running(child)


def _is_installed(file: Path) -> bool:
    standard = (Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib"))
    beside = {"site-packages", "dist-packages"} & set(file.parts)
    return bool(beside) or any(file.is_relative_to(place) for place in standard)


def _changed_since(module: str, file: Path) -> bool:
    """Whether a file was changed after it was imported, so that its text is not what runs; Python noted its time."""
    try:
        kept = Path(sys.modules[module].__cached__ or "").read_bytes()[4:16]
    except (KeyError, AttributeError, OSError):
        return False
    flags, seconds, size = struct.unpack("<III", kept)
    status = file.stat()
    return flags == 0 and (seconds, size) != (int(status.st_mtime) & 0xFFFFFFFF, status.st_size & 0xFFFFFFFF)

"""What a function reads that is not its own: names of its module, and of modules that it names or imports."""

from __future__ import annotations

import dis
import functools
import importlib
import sys
import sysconfig
import types
from collections.abc import Iterator
from importlib import metadata
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

from tensorbandits.sim.sources import PACKAGE, bare

Read = tuple[str, Any, int]  # the qualified name of what is read, its value, the id of what it is a name of


def reads(function: types.FunctionType) -> Iterator[Read]:
    """Yield all that the code of a function may read by name; nothing for one of the package or of a library.

    A name that the code itself assigns is no constant, and is left out.

    >>> code = compile("SIZE + 1", "", "eval")
    >>> [name for name, *_ in reads(types.FunctionType(code, {"SIZE": 3, "__name__": "mine"}))]
    ['mine.SIZE']
    """
    known = function.__globals__
    place = str(known.get("__name__"))
    if is_library(place):
        return
    codes = list(_codes(function.__code__))
    steps = [list(dis.get_instructions(code)) for code in codes]
    assigned = {step.argval for some in steps for step in some if step.opname == "STORE_GLOBAL"}
    names = {name for code in codes for name in code.co_names} - assigned
    imported = [module for some in steps for module in _imported(some, known)]
    for name in sorted(names & set(known)):
        if isinstance(known[name], types.ModuleType):
            imported.append(known[name])
        else:
            yield f"{place}.{name}", known[name], id(known)
    for module in imported:
        yield from _read_of_module(module, names, ())


def _read_of_module(module: types.ModuleType, names: set[str], above: tuple[str, ...]) -> Iterator[Read]:
    """What is read of a module: of a library its name alone, of any other one what the names find in it."""
    if is_library(module.__name__):
        yield module.__name__, module, id(module)
        return
    for name in sorted(names & set(vars(module))):
        value = vars(module)[name]
        if not isinstance(value, types.ModuleType):
            yield f"{module.__name__}.{name}", value, id(vars(module))
        elif value.__name__ not in above:
            yield from _read_of_module(value, names, (*above, module.__name__))


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code of a function, and of the functions and classes inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _imported(steps: list[dis.Instruction], known: dict[str, Any]) -> Iterator[types.ModuleType]:
    """The modules that code imports when it runs; one that cannot be imported is its own affair."""
    for at, step in enumerate(steps):
        if step.opname == "IMPORT_NAME":
            level = steps[at - 2].argval if at > 1 and isinstance(steps[at - 2].argval, int) else 0
            try:
                name = resolve_name("." * level + step.argval, known.get("__package__")) if level else step.argval
                yield importlib.import_module(name)
            except Exception:
                continue


@functools.cache
def is_library(module: str) -> bool:
    """Say whether a module is of this package, of Python's own library, or installed beside it.

    >>> is_library("numpy.linalg"), is_library("json"), is_library("__main__")
    (True, True, False)
    """
    top = module.partition(".")[0]
    file = getattr(sys.modules.get(module), "__file__", None)
    if top == PACKAGE:
        return True
    if module == "__main__" or file is None:
        return top in sys.stdlib_module_names
    place = Path(file).resolve()
    standard = (Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib"))
    return bool({"site-packages", "dist-packages"} & set(place.parts)) or any(
        place.is_relative_to(at) for at in standard
    )


@functools.cache
def library_version(module: str) -> list[str]:
    """Return what tells one state of an installed library from another: its version, and the code of the module.

    >>> library_version("json")
    []
    """
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names or top in ("numpy", "scipy", "numba"):  # their versions count for every run
        return []
    try:
        version = metadata.version(top)
    except metadata.PackageNotFoundError:
        version = str(getattr(sys.modules.get(top), "__version__", ""))
    file = Path(getattr(sys.modules.get(module), "__file__", None) or "")
    return [version, bare(file.read_text(encoding="utf-8")) if file.suffix == ".py" else ""]

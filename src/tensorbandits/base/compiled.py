"""How the compiled kernels are made: by Numba, at first use, once for each machine.

Kernels live in ``_.._kernels.py`` files beside the code that calls them. They see valid arrays and numbers only.
Import such a file inside the function that needs it: Numba itself takes longer to import than all the rest.

What was compiled is kept in files. Numba runs what it finds there as it is, and hands on every error of a disk; here a
file that is damaged, or of another kernel, is compiled again, and a disk that is full or closed costs time only.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba import types
from numba.core import caching, codegen, compiler, event, serialize
from numba.extending import register_jitable

__all__ = ["BOOLS", "F1", "F2", "F3", "FLOAT", "I1", "I2", "INT", "entry", "fields", "kernel", "part", "type_of"]

Kernel = TypeVar("Kernel", bound=Callable[..., Any])
Types = tuple[Any, ...]  # of the arguments of a kernel

# The types that kernels are called with: contiguous arrays of one and two dimensions, and numbers.
F1, F2, I1, I2 = types.float64[::1], types.float64[:, ::1], types.int64[::1], types.int64[:, ::1]
F3 = types.float64[:, :, ::1]
BOOLS, FLOAT, INT = types.boolean[::1], types.float64, types.int64

# A product and a sum may be rounded once instead of twice. Sums keep their order: letting the compiler change it gains
# little here, and makes the numbers depend on whether a kernel was just compiled or loaded from disk.
_FASTMATH = {"contract"}
_LOG = logging.getLogger("tensorbandits.compile")
_REMEDY = "set NUMBA_CACHE_DIR to a folder with space that you may write to"


def kernel(function: Kernel) -> Kernel:
    """Compile a function of arrays and numbers at its first call, and keep the result on disk.

    >>> @kernel
    ... def double(x):
    ...     return 2 * x
    >>> double(21)
    42
    """
    options: dict[str, Any] = {"fastmath": _FASTMATH, "nogil": True, "no_cfunc_wrapper": True}
    dispatcher: Any = numba.njit(**options)(function)
    # Without a folder to keep it in, as on a read-only file system, it is compiled in every process.
    with contextlib.suppress(RuntimeError, OSError):
        dispatcher._cache = _Cache(function)  # as `cache=True` does, with a cache of ours
    return cast(Kernel, dispatcher)


def entry(*signatures: Types) -> Callable[[Kernel], Kernel]:
    """Declare a kernel that Python calls, and the types of arguments that it is called with.

    ``compile_ahead`` compiles it for these. Others would be compiled at their first call, while somebody waits.

    >>> @entry((F1, FLOAT))
    ... def largest(values, least):
    ...     return max(values.max(), least)
    >>> largest.declared
    [(Array(float64, 1, 'C', False, aligned=True), float64)]
    """

    def declare(function: Kernel) -> Kernel:
        dispatcher: Any = kernel(function)
        dispatcher.declared = list(signatures)
        return cast(Kernel, dispatcher)

    return declare


def part(function: Kernel) -> Kernel:
    """Declare a function that only kernels call: it is compiled into each of them, and runs as it is in Python.

    That takes far less time than a kernel of its own, which needs a way in from Python, machine code, and a file.
    """
    return register_jitable(fastmath=_FASTMATH, no_cfunc_wrapper=True, **_AS_PARTS)(function)


class _PartLibrary(codegen.JITCodeLibrary):
    """The code of a part, which is optimised and turned into machine code as a piece of each kernel, and not before.

    Numba would do both for the part alone, with all parts in it, though nobody runs it: once more for each level that
    parts are nested. The numbers are the same.
    """

    def finalize(self) -> None:
        """Join what this calls."""
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return that nothing can be called."""
        return 0

    @property
    def codegen(self) -> _NoMachine:
        """Where an environment would be given to machine code."""
        return _NoMachine()


class _NoMachine:
    def set_env(self, name: str, environment: Any) -> None:
        """Do nothing: there is no machine code that would look for it."""


class _PartCompiler(compiler.Compiler):
    def compile_extra(self, function: Callable[..., Any]) -> Any:
        self.state.library = _PartLibrary(self.state.targetctx.codegen(), function.__qualname__)
        return super().compile_extra(function)


# Numba before 0.63 keeps what a library holds in another way: there parts take longer to compile, and are as fast.
_AS_PARTS: dict[str, Any] = {"pipeline_class": _PartCompiler} if numba.version_info.short >= (0, 63) else {}


def fields(record: type, each: Any) -> Any:
    """Return the type of a named tuple whose fields all have one type."""
    return types.BaseTuple.from_types((each,) * len(cast(Any, record)._fields), record)


def type_of(value: Any) -> Any:
    """Return the type that a value has as an argument."""
    return numba.typeof(value)


def is_kept(dispatcher: Any, signature: Types) -> bool:
    """Say whether a kernel is compiled for these types, in a file."""
    try:
        return bool(dispatcher._cache.holds(signature, dispatcher.targetctx))
    except Exception:  # no cache, or one that is damaged, which compiling mends
        return False


def compilations() -> list[str]:
    """Return the names of what this process has compiled, rather than loaded, so far."""
    return list(_notices.compiled)


class _Cache(caching.FunctionCache):
    """Numba's cache of a kernel, which never stands in the way of compiling it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        name = f"{self._impl.filename_base}.sealed"  # not that of files that Numba wrote by itself
        self._cache_file = _SealedFile(self._cache_path, name, _stamp(Path(function.__code__.co_filename)))

    def holds(self, sig: Any, target_context: Any) -> bool:
        """Say whether there is a file for these types; it is not read."""
        return self._index_key(sig, target_context.codegen()) in self._cache_file._load_index()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # damaged bytes can raise anything
            _notices.complain(self._cache_path, error)
            with contextlib.suppress(Exception):
                self.flush()  # an index that cannot be read could not be added to
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except Exception as error:
            _notices.complain(self._cache_path, error)


def _stamp(source: Path) -> tuple[Any, ...]:
    """Return what tells whether a kernel must be compiled anew: the times and sizes of it and of those beside it.

    Parts of a kernel may be in another file.
    """
    files = {source, *source.parent.glob("_*_kernels.py")}
    return tuple((file.name, file.stat().st_mtime, file.stat().st_size) for file in sorted(files))


class _SealedFile(caching.IndexDataCacheFile):
    """Files of a cache that say what they hold.

    A bit that flipped on disk is noticed, and so is code of another signature, or of older source, which stays behind
    a new index when a process dies or a disk is full between the two writes, or two processes write at once.
    """

    def save(self, key: Any, data: Any) -> None:
        content = serialize.dumps(data)
        super().save(key, (self._seal(key, content), content))

    def load(self, key: Any) -> Any:
        found = super().load(key)
        if found is None:
            return None
        seal, content = found
        if seal != self._seal(key, content):
            raise ValueError("a file is damaged, or of another kernel")
        return pickle.loads(content)

    def _seal(self, key: Any, content: bytes) -> bytes:
        known_by = repr((self._source_stamp, sorted(_FASTMATH), key))
        return hashlib.blake2b(known_by.encode() + content, digest_size=16).digest()


class _Notices(event.Listener):
    """Says once per process that kernels are being compiled, which looks like hanging, and what is wrong with files."""

    def __init__(self) -> None:
        self.said: set[str] = set()
        self.compiled: list[str] = []

    def on_start(self, event: Any) -> None:
        dispatcher = event.data["dispatcher"]
        self.compiled.append(f"{dispatcher.py_func.__module__}.{dispatcher.py_func.__name__}")
        if dispatcher.py_func.__module__.startswith("tensorbandits"):
            kept = "once, and is then kept on disk" if dispatcher.stats.cache_path else f"each time: {_REMEDY}"
            self._say("compiling", f"compiling for this machine; this takes up to a minute in all, {kept}")

    def on_end(self, event: Any) -> None:
        pass

    def complain(self, folder: str, error: Exception) -> None:
        self._say(
            "cache",
            f"the compiled code in {folder} is damaged, or cannot be read or kept ({error!r}); "
            f"compiling it again, with the same results. If you read this again, {_REMEDY}",
        )

    def _say(self, topic: str, text: str) -> None:
        if topic not in self.said:
            self.said.add(topic)
            if _read():
                _LOG.info(text)
            else:
                print(f"tensorbandits: {text}", file=sys.stderr, flush=True)


def _read() -> bool:
    """Say whether somebody reads what this package logs."""
    at: logging.Logger | None = _LOG
    while at is not None and _LOG.isEnabledFor(logging.INFO):
        if any(not isinstance(one, logging.NullHandler) for one in at.handlers):
            return True
        at = at.parent if at.propagate else None
    return False


_notices = _Notices()
event.register("numba:compile", _notices)

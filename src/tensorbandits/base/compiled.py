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
from typing import Any, TypeVar, cast

import numba
from numba.core import caching, event, serialize

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

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
    dispatcher: Any = numba.njit(fastmath=_FASTMATH, nogil=True)(function)
    # Without a folder to keep it in, as on a read-only file system, it is compiled in every process.
    with contextlib.suppress(RuntimeError, OSError):
        dispatcher._cache = _Cache(function)  # as `cache=True` does, with a cache of ours
    return cast(Kernel, dispatcher)


class _Cache(caching.FunctionCache):
    """Numba's cache of a kernel, which never stands in the way of compiling it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        name = f"{self._impl.filename_base}.sealed"  # not that of files that Numba wrote by itself
        self._cache_file = _SealedFile(self._cache_path, name, self._impl.locator.get_source_stamp())

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

    def on_start(self, event: Any) -> None:
        dispatcher = event.data["dispatcher"]
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

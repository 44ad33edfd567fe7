"""How the compiled kernels are made: by Numba, at first use, once for each machine.

Kernels live in ``_.._kernels.py`` files beside the code that calls them. They see valid arrays and numbers only.
Import such a file inside the function that needs it: Numba itself takes longer to import than all the rest.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core import event

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

# A product and a sum may be rounded once instead of twice. Sums keep their order: letting the compiler change it gains
# little here, and makes the numbers depend on whether a kernel was just compiled or loaded from disk.
_FASTMATH = {"contract"}


def kernel(function: Kernel) -> Kernel:
    """Compile a function of arrays and numbers at its first call, and keep the result on disk.

    >>> @kernel
    ... def double(x):
    ...     return 2 * x
    >>> double(21)
    42
    """
    try:
        return cast(Kernel, numba.njit(cache=True, fastmath=_FASTMATH, nogil=True)(function))
    except RuntimeError:  # no folder to keep it in, as on a read-only file system: it is compiled in every process
        return cast(Kernel, numba.njit(fastmath=_FASTMATH, nogil=True)(function))


class _Announcement(event.Listener):
    """Says once per process that kernels are being compiled, since that takes seconds and looks like hanging."""

    said = False

    def on_start(self, event: Any) -> None:
        dispatcher = event.data["dispatcher"]
        if not self.said and dispatcher.py_func.__module__.startswith("tensorbandits"):
            self.said = True
            kept = ", once, and is then kept on disk" if dispatcher.stats.cache_path else ""
            print(
                f"tensorbandits: compiling for this machine; this takes some seconds{kept}",
                file=sys.stderr,
                flush=True,
            )

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:compile", _Announcement())  # type: ignore[no-untyped-call]

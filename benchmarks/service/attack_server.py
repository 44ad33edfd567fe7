"""A server of the service whose clock can be set wrong: ``python -m benchmarks.service.attack_server`` starts it.

The environment variable ``ATTACK_CLOCK`` names a file that holds the seconds to add to the time. The process ends when
the one that started it has gone, so that an attack that is killed leaves no servers behind.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
import threading
import time
from pathlib import Path

_LOOK = 0.02  # seconds between two looks at the file


def set_clock(file: Path) -> None:
    """Let ``time.time`` and ``time.time_ns`` add what a file says."""
    right, right_ns, ticks = time.time, time.time_ns, time.monotonic
    known = [-1.0, 0.0]  # when the file was read, and what it said

    def offset() -> float:
        now = ticks()
        if now - known[0] >= _LOOK:
            known[0] = now
            with contextlib.suppress(OSError, ValueError):  # it is just being written
                known[1] = float(file.read_text() or 0)
        return known[1]

    time.time = lambda: right() + offset()
    time.time_ns = lambda: right_ns() + int(offset() * 1e9)


def end_with(parent: int) -> None:
    """End this process when the one that started it is gone."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    end_with(os.getppid())
    set_clock(Path(os.environ["ATTACK_CLOCK"]))
    sys.argv = ["tensorbandits", "serve"]
    runpy.run_module("tensorbandits", run_name="__main__", alter_sys=True)

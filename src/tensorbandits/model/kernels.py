"""Compiling all kernels ahead, so that nobody waits for it later; whatever was compiled is kept, and is not done again.

Several processes compile at once, as the compiler uses one core. Each keeps what it has compiled in files, from which
this process loads it. Stopped at any time, the next one goes on where this one was.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, NamedTuple

# All files with kernels, those that take longest first. A process compiles a whole file, whose kernels share parts.
FILES = (
    "tensorbandits.model._sweep_kernels",
    "tensorbandits.tensor._allowed_kernels",
    "tensorbandits.model._features_kernels",
    "tensorbandits.tensor._best_kernels",
    "tensorbandits.tensor._pairs_kernels",
    "tensorbandits.model._pairs_kernels",
    "tensorbandits.tensor._completion_kernels",
    "tensorbandits.model._solve_kernels",
    "tensorbandits.model._value_kernels",
    "tensorbandits.model._weight_kernels",
)

# Those by which decisions are made from draws that are there.
DECIDING = (
    "tensorbandits.tensor._allowed_kernels",
    "tensorbandits.tensor._best_kernels",
    "tensorbandits.tensor._pairs_kernels",
    "tensorbandits.model._value_kernels",
)


class Ahead(NamedTuple):
    """A kernel for one of the signatures that it declares."""

    file: str
    kernel: str
    at: int  # among its signatures

    @property
    def name(self) -> str:
        """A word for it, by which a process is told to compile it."""
        return f"{self.file}:{self.kernel}:{self.at}"

    def dispatcher(self) -> Any:
        """Return the kernel."""
        return getattr(importlib.import_module(self.file), self.kernel)

    def kept(self) -> bool:
        """Say whether it is compiled already, in a file."""
        from tensorbandits.base.compiled import is_kept

        dispatcher = self.dispatcher()
        return is_kept(dispatcher, dispatcher.declared[self.at])

    def loaded(self) -> bool:
        """Say whether this process has it."""
        dispatcher = self.dispatcher()
        return dispatcher.declared[self.at] in dispatcher.overloads

    def compile(self) -> None:
        """Load it, or compile it."""
        dispatcher = self.dispatcher()
        dispatcher.compile(dispatcher.declared[self.at])


def entries() -> list[Ahead]:
    """Return all that there is to compile.

    >>> len(entries()) > 20
    True
    """
    return list(_declared())


def _declared() -> Iterator[Ahead]:
    for file in FILES:
        for name, value in vars(importlib.import_module(file)).items():
            if getattr(value, "__module__", None) == file:
                for at in range(len(getattr(value, "declared", ()))):
                    yield Ahead(file, name, at)


def compile_ahead(
    report: Callable[[str], Any] = lambda text: None, processes: int | None = None, files: Sequence[str] | None = None
) -> int:
    """Load all kernels, or those of some files, and compile what is not kept yet; return how many these were.

    ``report`` is told what is going on, in words. As many ``processes`` compile as there are cores, unless it is said.
    """
    every = [one for one in entries() if files is None or one.file in files]
    missing = [one for one in every if not one.loaded() and not one.kept()]
    if missing:
        report(f"compiling {len(missing)} of {len(every)} kernels for this machine, once; this takes up to a minute")
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        several = min(processes or cores, len(missing))
        if several > 1 and all(hasattr(one.dispatcher()._cache, "holds") for one in missing):
            _Apart(missing, several, report).compile()
    for one in every:
        one.compile()
    return len(missing)


def not_kept() -> list[Ahead]:
    """Return those that are in no file, so that each process would compile them."""
    return [one for one in entries() if not one.kept()]


def undeclared() -> list[str]:
    """Return the kernels that were called with types for which nothing was compiled ahead."""
    dispatchers = {one.name: one.dispatcher() for one in entries()}
    return [name for name, one in dispatchers.items() if not set(one.overloads) <= set(one.declared)]


class _Apart:
    """Processes that compile some entries, a file at a time. They end with this one, whatever it ends of."""

    def __init__(self, missing: Sequence[Ahead], processes: int, report: Callable[[str], Any]) -> None:
        self._report, self._count = report, len(missing)
        units = [[one for one in missing if one.file == file] for file in FILES]
        self._units = deque(unit for unit in units if unit)
        self._processes = min(processes, len(self._units))
        self._lock, self._done, self._stopped = threading.Lock(), 0, False
        self._running: set[subprocess.Popen[str]] = set()

    def compile(self) -> None:
        """Compile all; what a process fails at is left to whoever loads it."""
        with ThreadPoolExecutor(self._processes) as pool:
            try:
                list(pool.map(self._run, range(self._processes)))
            finally:
                with self._lock:
                    self._stopped = True
                    for process in self._running:
                        process.terminate()

    def _run(self, _: int) -> None:
        """Have one process compile units until none is left, or it ends."""
        with self._lock:
            if self._stopped:
                return
            process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            self._running.add(process)
        with contextlib.suppress(BrokenPipeError, IndexError), process:
            while process.poll() is None:
                for one in self._units.popleft():
                    self._compile(one, process)
        with self._lock:
            self._running.discard(process)

    def _compile(self, one: Ahead, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{one.name}\n")
        process.stdin.flush()
        if process.stdout.readline():
            with self._lock:
                self._done += 1
                self._report(f"compiled {self._done} of {self._count}")


def _listen(words: SimpleQueue[str]) -> None:
    for line in sys.stdin:
        words.put(line.strip())
    os._exit(1)  # the parent has ended, or needs no more


if __name__ == "__main__":
    gc.set_threshold(50_000, 20, 100)  # looking for cycles more often takes a tenth of the time, and finds little
    words: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_listen, args=(words,), daemon=True).start()
    while True:
        word = words.get()
        file, kernel, at = word.split(":")
        Ahead(file, kernel, int(at)).compile()
        print(word, flush=True)

"""Suite ``waits``: the slowest of many decisions while everything else that takes long runs beside them."""

from __future__ import annotations

import gc
import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import tensorbandits as tb
from benchmarks.report import Findings, command
from benchmarks.run import ROOT
from benchmarks.service.served import Caller, free_port, processor
from benchmarks.store import Options, Result, Settings, Store
from tensorbandits.report.page import Part, Table, Text

NAME = "waits"
ALONE, ONE_CORE = True, False
TITLE = "Waits: decisions while others learn, save and look"
MEASURED = "tensorbandits.service.run"

ASKS, REWARDS, SIZE, LEARNING = 10_000, 50_000, 100, 2.0
TIMES, MORE = 10.0, 0.020  # the slowest may take so many medians, and so many seconds more

# A server whose policy takes seconds for each draw, as that of a far larger problem would.
_LAUNCH = """
import sys, time
from tensorbandits.policies.thompson import TensorThompsonSampling as Policy
quick, seconds = Policy._learn, float(sys.argv.pop())
def learn(self):
    if self.shape[0] > 50: time.sleep(seconds)
    quick(self)
Policy._learn = learn
from tensorbandits.cli import main
main()
"""


class Slow(tb.TensorThompsonSampling):
    """Thompson sampling that takes seconds for each draw."""

    def _learn(self) -> None:
        time.sleep(LEARNING)
        super()._learn()


def plan(options: Options) -> list[Settings]:
    asks = 500 if options.quick else ASKS
    return [{"task": task, "asks": asks} for task in ("library", "library, frozen", "http")]


def label(settings: Settings) -> str:
    return str(settings["task"])


def measure(settings: Settings) -> Result:
    if settings["task"] == "http":
        return http(settings["asks"])
    return library(settings["asks"], frozen="frozen" in settings["task"])


def _modes() -> dict[str, list[str]]:
    return {mode: [f"{mode}{at}" for at in range(SIZE)] for mode in ("a", "b", "c")}


def _log() -> dict[str, list[Any]]:
    """Rewards of random cells."""
    rng = np.random.default_rng(0)
    cells = rng.integers(SIZE, size=(REWARDS, 3))
    rewards = np.sin(cells).sum(axis=1) + rng.standard_normal(REWARDS)
    return {mode: [f"{mode}{at}" for at in cells[:, j]] for j, mode in enumerate("abc")} | {"reward": rewards.tolist()}


class Beside(threading.Thread):
    """Everything that takes long, one after the other, again and again."""

    def __init__(self, works: list[Callable[[], Any]]) -> None:
        super().__init__(daemon=True)
        self.works, self.done, self._stop_it = works, 0, threading.Event()

    def run(self) -> None:
        while not self._stop_it.is_set():
            self.works[self.done % len(self.works)]()
            self.done += 1

    def stop(self) -> None:
        """End after what is being done."""
        self._stop_it.set()
        self.join()


def _timed(ask: Callable[[], Any], asks: int, beside: Beside) -> Result:
    for _ in range(20):
        ask()
    beside.start()
    times = np.empty(asks)
    for at in range(asks):
        started = time.perf_counter()
        ask()
        times[at] = time.perf_counter() - started
        time.sleep(0.002)  # so that much else is done meanwhile
    beside.stop()
    return {"times": np.sort(times)[::-1][:200].tolist(), "median": float(np.median(times)), "busy": processor(),
            "worst": float(times.max()), "p99": float(np.quantile(times, 0.99)), "done": beside.done}  # fmt: skip


def library(asks: int, frozen: bool = False) -> Result:
    """Ask a bandit of this process; ``frozen`` keeps Python from looking for garbage in what was loaded."""
    import pyarrow as pa

    space, log = tb.Space(_modes()), pa.table(_log())
    bandit = tb.Bandit(space, Slow(space.shape, rank=2, seed=0), learning="thread", seed=0)
    bandit.tell_log(log, "reward")
    told = [bandit.ask().id for _ in range(50)]
    for one in told:
        bandit.tell(one, 0.0)
    numbers = iter(range(10**9))
    with TemporaryDirectory() as folder:
        works = [
            lambda: bandit.save(Path(folder) / "bandit"),
            lambda: bandit.tell(told[next(numbers) % 50], float(next(numbers)), amend=True),
            lambda: bandit.add_level("a", f"new {next(numbers)}", like="a1"),
            lambda: bandit.explain(arms=1, level=0.8),
            lambda: bandit.tell_log(log.slice(0, 5_000), "reward"),
            lambda: bandit.diagnose(max_rank=1),
        ]
        if frozen:
            for work in works:
                work()  # which imports what it needs
            gc.collect()
            gc.freeze()
        return _timed(bandit.ask, asks, Beside(works))


def http(asks: int) -> Result:
    """Ask a server, in a process of its own."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with TemporaryDirectory() as folder:
        port = free_port()
        arguments = ["serve", "--store", f"{folder}/store.db", "--port", str(port), "--log-level", "error"]
        environment = os.environ | {"TENSORBANDITS_RATE": "0", "TENSORBANDITS_SNAPSHOT_INTERVAL": "1"}
        process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, *arguments, str(LEARNING)], cwd=ROOT, env=environment
        )
        try:
            with Caller([port]) as one, Caller([port], timeout=120.0) as other:
                one.patiently("GET", "/readyz")
                one.patiently("POST", "/v1/bandits", {"name": "x", "modes": _modes(), "rank": 2})
                sink = io.BytesIO()
                pq.write_table(pa.table(_log()), sink)
                imported = "/v1/bandits/x/import?reward=reward"
                _send(port, imported, sink.getvalue())
                told = [one.once("POST", "/v1/bandits/x/ask", {"context": {}})["id"] for _ in range(50)]
                for each in told:
                    one.once("POST", "/v1/bandits/x/tell", {"id": each, "reward": 0})
                numbers = iter(range(10**9))

                def amend() -> None:
                    body = {"id": told[next(numbers) % 50], "reward": next(numbers), "amend": True}
                    other.once("POST", "/v1/bandits/x/tell", body)

                def level(number: int) -> dict[str, Any]:
                    return {"mode": "a", "label": f"new {number}", "like": "a1"}

                works = [
                    amend,
                    lambda: other.once("POST", "/v1/bandits/x/levels", level(next(numbers))),
                    lambda: other.once("POST", "/v1/bandits/x/explain", {"arms": 1, "level": 0.8}),
                    lambda: _send(port, imported, sink.getvalue()),
                    lambda: other.once("POST", "/v1/bandits/x/diagnose", {}),
                ]  # fmt: skip
                return _timed(lambda: one.once("POST", "/v1/bandits/x/ask", {"context": {}}), asks, Beside(works))
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()


def _send(port: int, path: str, content: bytes) -> None:
    import urllib.request

    headers = {"Content-Type": "application/vnd.apache.parquet"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", content, headers, method="POST")
    with urllib.request.urlopen(request, timeout=120):
        pass


def section(store: Store, options: Options) -> Findings:
    found = {settings["task"]: result for settings in plan(options) if (result := store.get(settings)) is not None}
    rows = []
    for task, one in found.items():
        most = TIMES * one["median"] + MORE
        verdict = "holds" if one["worst"] <= most else "does not hold here"
        numbers = [f"{1e3 * one[part]:.2f}" for part in ("median", "p99", "worst")]
        rows.append([task, *numbers, f"{1e3 * most:.1f}", verdict, f"{one['done']:,}"])
    parts: list[Part] = [
        Text(
            f"{SIZE} x {SIZE} x {SIZE} cells, {REWARDS:,} rewards, a learner that takes {LEARNING:g} s for a draw. "
            "Another thread saves (a server keeps snapshots), amends, adds levels like others, explains, imports and "
            "diagnoses, one after the other, all the while. A server, and the library in its second line, have told "
            "Python not to look for garbage in what was loaded (`gc.freeze()`): such a look stops all threads of a "
            "program with these libraries for 50 ms. The slowest decision may take "
            f"{TIMES:g} medians and {1e3 * MORE:g} ms."
        ),
        command(NAME, *options.flags),
        Table(["asked", "median ms", "p99 ms", "slowest ms", "at most", "verdict", "other calls"], rows),
    ]
    return parts, found

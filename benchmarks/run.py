"""How measurements are run: each by its suite's ``measure``, a function of its settings.

Timing suites run alone: one measurement after the other, each in a fresh process with one thread for linear algebra, so
that memory is its own and nothing else runs. Others may run side by side.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from benchmarks.store import Result, Settings, Store

if TYPE_CHECKING:
    from rich.console import Console

ROOT = Path(__file__).parent.parent
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL")}
Skip = Callable[[Settings], bool]


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a fresh process, from the repository, with one thread for linear algebra."""
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | ONE_THREAD | environment, capture_output=True, text=True, check=False
    )


def peak_megabytes() -> float:
    """The most memory that this process has held, in units of a million bytes.

    Where Linux says it for this program alone, that is taken: what ``getrusage`` says includes the parent's memory at
    the time of the fork.
    """
    status = Path("/proc/self/status")
    for line in status.read_text().splitlines() if status.exists() else []:
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    import resource  # not on every system

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def measure(module: str, settings: Settings) -> tuple[Result, float]:
    """Make one measurement of a suite, named by its module, in this process; return it and how long it took."""
    start = perf_counter()
    result = importlib.import_module(module).measure(settings)
    return result, perf_counter() - start


def measure_alone(module: str, settings: Settings) -> tuple[Result, float]:
    """Make one measurement in a fresh process."""
    start = perf_counter()
    done = python("-m", "benchmarks.run", module, json.dumps(settings))
    if done.returncode:
        raise RuntimeError(f"{module}: {json.dumps(settings)} failed ({done.returncode}):\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1]), perf_counter() - start


def run_all(suite: Any, wanted: list[Settings], store: Store, jobs: int, console: Console) -> None:
    """Make the measurements that are missing, and keep each as it finishes."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

    missing = [settings for settings in wanted if settings not in store]
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress("{task.description}", *columns, console=console) as bar:
        task = bar.add_task(f"{suite.NAME}: {len(wanted) - len(missing)} kept", total=len(wanted))
        bar.update(task, completed=len(wanted) - len(missing))
        for settings, result, seconds in _results(suite, missing, store, jobs):
            store.add(settings, result, seconds)
            bar.update(task, advance=1, description=f"{suite.NAME}: {suite.label(settings)}")
        bar.update(task, description=suite.NAME, completed=len(wanted))


def _results(suite: Any, missing: list[Settings], store: Store, jobs: int) -> Iterator[tuple[Settings, Result, float]]:
    if suite.ALONE:
        for settings in missing:
            yield settings, *measure_alone(suite.__name__, settings)
        return
    skip: Skip = getattr(suite, "skip", lambda settings, store: False)
    chosen = (settings for settings in missing if not skip(settings, store))  # asked when its turn comes
    yield from side_by_side(suite.__name__, chosen, jobs)


def side_by_side(module: str, chosen: Iterable[Settings], jobs: int) -> Iterator[tuple[Settings, Result, float]]:
    """Make measurements in several processes; yield each as it is ready."""
    from joblib import Parallel, delayed

    parallel = Parallel(n_jobs=jobs, batch_size=1, pre_dispatch="n_jobs", return_as="generator_unordered")
    yield from parallel(delayed(_with_settings)(module, settings) for settings in chosen)


def _with_settings(module: str, settings: Settings) -> tuple[Settings, Result, float]:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        return settings, *measure(module, settings)


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], json.loads(sys.argv[2]))[0], allow_nan=False))

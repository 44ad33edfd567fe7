"""How far a comparison is, as a bar on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from time import perf_counter

from tensorbandits.base.checks import check_installed
from tensorbandits.sim.jobs import Run

Report = Callable[[Run], None]
_SECONDS = 20.0  # between lines where there is no terminal


@contextmanager
def reporting(progress: bool | Callable[[Run], None] | None, total: int, horizon: int) -> Iterator[Report]:
    """Give a function to call with each run.

    >>> with reporting(print, 1, 10) as report:
    ...     report("a run")
    a run
    """
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise TypeError(f"progress is {progress!r}; give True for a bar, a function of a Run, or None")
    if callable(progress):
        yield progress
        return
    done = count(1)
    with rounds_bar(total * horizon, bool(progress)) as advance:
        yield lambda run: advance(f"{next(done)}/{total} runs", run)


@contextmanager
def rounds_bar(total: int, show: bool = True) -> Iterator[Callable[[str, Run], None]]:
    """Give a function to call with what is being done and each finished run, until ``total`` rounds are played.

    On a terminal it moves a bar; elsewhere it prints a line now and then.

    >>> with rounds_bar(100, show=False) as advance:
    ...     advance("figure 2", None)
    """
    if not show:
        yield lambda label, run: None
        return
    check_installed("a progress bar", "rich")
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeElapsedColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (BarColumn(), TaskProgressColumn(), "{task.fields[rate]}", TimeElapsedColumn(), "elapsed,")
    start = last = perf_counter()
    with Progress("{task.description}", *columns, TimeRemainingColumn(), "left", console=console) as bar:
        task = bar.add_task("", total=total, rate="")

        def advance(label: str, run: Run) -> None:
            nonlocal last
            bar.update(task, advance=int(run.rounds[-1]), description=label)
            state, now = bar.tasks[task], perf_counter()
            bar.update(task, rate=f"{state.speed or 0:,.0f} rounds/s")
            if not console.is_terminal and now - last > _SECONDS:
                last = now
                share = state.percentage or 0.0
                left = f"{state.time_remaining / 60:.0f}" if state.time_remaining else "?"
                console.print(
                    f"{label}: {share:.0f} %, {state.speed or 0:,.0f} rounds/s, "
                    f"{(now - start) / 60:.1f} minutes elapsed, {left} left",
                    highlight=False,
                )

        yield advance

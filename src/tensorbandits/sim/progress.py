"""How far a comparison is, as a bar on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from time import perf_counter
from typing import TYPE_CHECKING

from tensorbandits.checks import check_installed
from tensorbandits.sim.jobs import Run

if TYPE_CHECKING:
    from rich.progress import Progress

Report = Callable[[Run, bool], None]
_SECONDS = 20.0  # between lines where there is no terminal


@contextmanager
def reporting(progress: bool | Callable[[Run], None] | None, total: int, horizon: int) -> Iterator[Report]:
    """Give a function to call with each run, and with whether it was kept from earlier.

    >>> with reporting(print, 1, 10) as report:
    ...     report("a run", False)
    a run
    """
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise TypeError(f"progress is {progress!r}; give True for a bar, a function of a Run, or None")
    if callable(progress):
        yield lambda run, kept: progress(run)
    elif not progress:
        yield lambda run, kept: None
    else:
        check_installed("a progress bar", "rich")
        with _bar() as bar:
            task = bar.add_task("runs", total=total, rounds=0, horizon=horizon)

            def advance(run: Run, kept: bool) -> None:
                fresh = 0 if kept else horizon
                bar.update(task, advance=1, rounds=bar.tasks[task].fields["rounds"] + fresh)

            yield advance


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TimeElapsedColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        """Rounds per second, of the runs that were not kept from earlier."""

        def render(self, task: Task) -> Text:
            rate = task.fields["rounds"] / task.elapsed if task.elapsed else 0.0
            return Text(f"{rate:,.0f} rounds/s")

    class Left(ProgressColumn):
        """The time left at the rate so far. rich looks at the last runs only, and workers end several at a time."""

        def render(self, task: Task) -> Text:
            fresh = task.fields["rounds"] / task.fields["horizon"]
            seconds = int((task.remaining or 0) * (task.elapsed or 0) / fresh) if fresh else None
            if not task.remaining:
                seconds = 0
            return Text("-:--:-- left" if seconds is None else f"{timedelta(seconds=seconds)} left")

    columns = ("runs", BarColumn(), MofNCompleteColumn(), Rate(), TimeElapsedColumn(), "elapsed,", Left())
    return Progress(*columns, console=Console(stderr=True))


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

"""``tensorbandits learn`` and ``move``: learn a bandit from a lake; move events from Redis Streams into one."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from tensorbandits.base.checks import check_installed
from tensorbandits.cli.common import check_least, naming_options, one_line_errors


def learn(
    bandit: Annotated[
        Path, typer.Argument(help="The file of a bandit, as Bandit.save wrote it; saved again each time.")
    ],
    decisions: Annotated[str, typer.Option(help="The folder of decisions, or its URL: lake/decisions.")],
    rewards: Annotated[str, typer.Option(help="The folder of rewards, or its URL: lake/rewards.")],
    publish: Annotated[str | None, typer.Option(help="Where snapshots go: a folder, a URL, or Redis.")] = None,
    name: Annotated[
        str | None, typer.Option(help="The bandit's name in the lake; by default that of its file: offers.")
    ] = None,
    engine: Annotated[str, typer.Option(help="duckdb, or spark, which needs Java 17.")] = "duckdb",
    every: Annotated[
        float | None, typer.Option(help="Seconds from round to round; one round, and no more, if not given.")
    ] = None,
    kept: Annotated[
        str | None, typer.Option(help="A folder for sums between rounds; by default beside the bandit: FILE.learned.")
    ] = None,
    look_back: Annotated[
        str | None,
        typer.Option(help="How long ago hours may have begun to be looked at again after the first round: '2 days'."),
    ] = None,
    draws: Annotated[
        int | None, typer.Option(help="Posterior draws of a snapshot; as many as the bandit's ring.")
    ] = None,
    foreign: Annotated[
        bool,
        typer.Option("--foreign", help="Take files of other writers too, which do not say of which bandit they are."),
    ] = False,
    threads: Annotated[int | None, typer.Option(help="Threads of the engine; by default one for each core.")] = None,
) -> None:
    """Join decisions with their rewards, add them up, learn from the sums, and publish a snapshot.

    Only hours with new files, or in which windows have ended, are joined anew. It may be stopped at any moment: the
    same command goes on, and comes to the same sums.
    """
    with one_line_errors(), naming_options("name", "engine", "kept", "look_back", "draws"):
        check_installed("learning from a lake", "duckdb", "fsspec", "pyarrow", extra="lake")
        check_least(draws=(draws, 1), threads=(threads, 1))
        if every is not None and not every > 0.0:
            raise ValueError(f"--every is {every:g}; give seconds above 0, or leave it out to learn once")
        from tensorbandits.lake.engines import engine_of
        from tensorbandits.lake.learning import LakeLearner

        learner = LakeLearner(
            bandit,
            name=bandit.name.partition(".")[0] if name is None else name,
            decisions=decisions,
            rewards=rewards,
            publish=publish,
            kept=kept,
            engine=engine_of(engine, threads=threads),
            look_back=look_back,
            draws=draws,
            foreign=foreign,
        )
        try:
            if every is None:
                _say(learner.learn())
                return
            with _until_stopped() as stopped:
                for done in learner.run(every, until=stopped):
                    _say(done)
        finally:
            learner.close()


def move(
    source: Annotated[str, typer.Argument(help="The address of Redis: redis://localhost:6379/0.")],
    bandit: Annotated[
        str, typer.Argument(help="The name of the bandit, whose streams are NAME:decisions and NAME:rewards.")
    ],
    lake: Annotated[str, typer.Argument(help="The folder of the lake, or its URL.")],
    name: Annotated[str, typer.Option(help="Of this mover among others: the same again after a restart.")] = "mover",
    rows: Annotated[int, typer.Option(help="Events that are moved at once, at most.")] = 50_000,
    seconds: Annotated[
        float, typer.Option(help="For which events gather, so that files are not many and small.")
    ] = 5.0,
    keep: Annotated[bool, typer.Option("--keep", help="Leave events in the streams, for other readers.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Move what there is now, and no more.")] = False,
) -> None:
    """Move decisions and rewards from Redis Streams into a lake.

    Files are written before events are acknowledged: whenever it is stopped, nothing is lost, and what is written twice
    counts once.
    """
    with one_line_errors():
        check_installed("moving events", "fsspec", "pyarrow", extra="lake")
        check_least(rows=(rows, 1))
        from tensorbandits.lake.streams import MovedEvents, StreamMover

        mover = StreamMover(source, bandit, lake, name=name, rows=rows, seconds=seconds, delete=not keep)
        try:
            if once:
                while (done := mover.move()) != MovedEvents():
                    _say_moved(done)
                return
            with _until_stopped() as stopped:
                for done in mover.run(until=stopped):
                    _say_moved(done)
        finally:
            mover.close()


def _say(done: Any) -> None:
    typer.echo(str(done))
    for path, why in done.refused.items():
        typer.echo(f"left out {path}: {why}", err=True)
    for hour in done.kept:
        typer.echo(
            f"files of {hour} are gone; what was learned of that hour stays, and nothing new of it counts", err=True
        )


def _say_moved(done: Any) -> None:
    if done.events or done.refused:
        refused = f"; {done.refused:,} entries hold no event" if done.refused else ""
        typer.echo(f"moved {done.decisions:,} decisions and {done.rewards:,} rewards into {done.files} files{refused}")


@contextmanager
def _until_stopped() -> Iterator[Callable[[], bool]]:
    """Yield what says whether to stop, and let a round that is under way end when a signal comes."""
    stop = threading.Event()
    before = {one: signal.signal(one, lambda *_: stop.set()) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop.is_set
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)

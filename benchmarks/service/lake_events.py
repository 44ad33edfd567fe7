"""What an event costs on its way into a lake: told as a reward, through Redis Streams, or straight into a file."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorbandits as tb
from benchmarks.service.lake_costs import processor_of
from benchmarks.service.lake_worker import KEYS, MODES, NAME
from benchmarks.store import Options, Result, Settings
from tensorbandits.decider.sending import EventBatch
from tensorbandits.report.page import Part, Table

WAYS = ("lake", "redis")


def plan(options: Options) -> list[Settings]:
    return [{"task": "events", "way": way, "events": 2_000 if options.quick else 200_000} for way in WAYS]


def label(settings: Settings) -> str:
    return f"events by {settings['way']}"


class _Timed:
    """A sink that says how long cores have run for it."""

    def __init__(self, sink: Any) -> None:
        self.sink, self.rows, self.seconds, self.spent = sink, sink.rows, 3_600.0, {"decisions": 0.0, "rewards": 0.0}

    def write(self, batch: EventBatch) -> int:
        began = time.thread_time()
        refused: int = self.sink.write(batch)
        self.spent[batch.kind] += time.thread_time() - began
        return refused

    def own_again(self) -> None:
        self.sink.own_again()

    def close(self) -> None:
        self.sink.close()


def measure(settings: Settings) -> Result:
    """Decide and tell, and say how many microseconds of a core each step takes of an event."""
    from tests.servers import Redis

    with tempfile.TemporaryDirectory(prefix="tb-lake-") as place:
        if settings["way"] == "lake":
            return _told(tb.ParquetSink(place, rows=50_000), settings["events"])
        server = Redis(durable=True)
        try:
            server.start()
            before = processor_of(server.pid)
            found = _told(tb.RedisSink(server.url, rows=1_000), settings["events"])
            found["redis"] = _each(processor_of(server.pid) - before, 2 * settings["events"])
            return found | _moved(server.url, Path(place), settings["events"])
        finally:
            server.close()


def _told(sink: Any, events: int) -> Result:
    bandit = tb.Bandit(tb.Space(MODES, context=["segment"]), rank=2, reward="bernoulli", holdout=0.05, seed=0)
    timed = _Timed(sink)
    with tb.Decider(bandit.snapshot(name=NAME), keys=KEYS, sink=timed, buffer=3 * events, seed=0) as decider:
        segments = MODES["segment"]
        made: list[str] = []
        asked = _spent(lambda: made.extend(decider.ask(segment=segments[at % 10]).id for at in range(events)))
        told = _spent(lambda: [decider.tell(number, 1) for number in made])
        if not decider.flush(600.0):
            raise RuntimeError("the sink did not take what waits")
    return {
        "ask": _each(asked, events),
        "tell": _each(told, events),
        **{f"write {kind}": _each(seconds, events) for kind, seconds in timed.spent.items()},
    }


def _moved(url: str, lake: Path, events: int) -> Result:
    from tensorbandits.lake.streams import StreamMover

    mover = StreamMover(url, NAME, lake)
    moved = [0]

    def move() -> None:
        while (done := mover.move()).events:
            moved[0] += done.events

    spent = _spent(move)
    mover.close()
    if moved[0] != 2 * events:
        raise RuntimeError(f"{moved[0]:,} of {2 * events:,} events were moved")
    return {"move": _each(spent, moved[0])}


def _spent(work: Callable[[], Any]) -> float:
    """Seconds for which this thread has run: what it waited for, and other threads, do not count."""
    began = time.thread_time()
    work()
    return time.thread_time() - began


def _each(seconds: float, events: int) -> float:
    return seconds * 1e6 / events


def parts(found: list[tuple[Settings, Result]]) -> list[Part]:
    """Return what the report says of it."""
    if not found:
        return []
    names = {
        "ask": "ask",
        "tell": "tell, with its token checked",
        "write decisions": "a decision into the sink",
        "write rewards": "a reward into the sink",
        "redis": "Redis, for an event",
        "move": "the mover, for an event",
    }
    rows = [
        [words, *(f"{result[name]:.1f}" if name in result else "–" for _, result in found)]
        for name, words in names.items()
    ]
    header = ["microseconds of a core", *({"lake": "files", "redis": "Redis"}[one["way"]] for one, _ in found)]
    return [Table(header, rows, f"What an event costs on its way, of {found[0][0]['events']:,} of each kind")]

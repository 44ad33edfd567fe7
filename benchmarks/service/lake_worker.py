"""What works in the run through a lake: deciders, a mover and a learner, each a process that may be killed at any time.

A decider writes down what it hands to its sink, before and after, in a journal of its own; what a process wrote stays
when it is killed. Time runs ``speed`` times as fast as on a clock, so that a run of minutes fills hours of a lake.
"""

from __future__ import annotations

import binascii
import heapq
import json
import mmap
import os
import random
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tensorbandits as tb
from tensorbandits.decider.sending import EventBatch, Sink
from tensorbandits.lake.sinks import ParquetSink, RedisSink

NAME = "offers"
KEYS = {"run": b"a secret of the run through a lake"}
MODES = {
    "segment": [f"s{at}" for at in range(10)],
    "offer": [f"o{at}" for at in range(60)],
    "channel": [f"c{at}" for at in range(5)],
}
SHAPE = tuple(map(len, MODES.values()))
PRICES = (0.1, 4.99, 9.95, 19.9, 49.99, 129.95)  # none of which a float is exactly
CHUNK = 200  # decisions between two looks at what else is to be done
MOST_WAITING = 30_000  # events that may wait for a sink before a decider waits too
LIVES = 64  # of a decider, at most
DECISION = np.dtype([("key", "u8"), ("time", "i8"), ("cell", "i4")])
REWARD = np.dtype([("key", "u8"), ("time", "i8"), ("reward", "f8"), ("amend", "u1"), ("cell", "i4")])
RECORDS = {"decisions": DECISION, "rewards": REWARD}
_HEAD = struct.Struct("<cBIQ")  # intent or done, kind, events, number


class Run:
    """The settings of a run, and its places."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = json.loads((folder / "run.json").read_text())
        self.bandit = folder / f"{NAME}.safetensors"
        self.lake, self.published = folder / "lake", folder / "published"

    def clock(self) -> float:
        """The time of the run."""
        began, speed = self.settings["began"], self.settings["speed"]
        return began + (time.time() - began) * speed

    def journal(self, decider: int, life: int) -> Path:
        """What a decider wrote down in one of its lives."""
        return self.folder / f"journal-{decider}-{life}"

    def counters(self) -> mmap.mmap:
        """Numbers that outlive a process: decisions made and rewards told, of each life of each decider."""
        path = self.folder / "counters"
        size = self.settings["deciders"] * LIVES * 16
        if not path.exists():
            path.write_bytes(bytes(size))
        with open(path, "r+b") as file:
            return mmap.mmap(file.fileno(), size)


def place_of(decider: int, life: int) -> int:
    """Where the numbers of a decider's life stand."""
    return (decider * LIVES + life) * 16


def keys_of(ids: Sequence[str]) -> np.ndarray:
    """A number for each id, from its last letters, which are of its signature: no two are alike."""
    text = "".join([one[-12:] for one in ids]).replace("-", "+").replace("_", "/")
    content = np.frombuffer(binascii.a2b_base64(text), dtype=np.uint8).reshape(len(ids), 9)
    return np.ascontiguousarray(content[:, 1:]).view(np.uint64).ravel()


class WitnessedSink:
    """A sink whose batches are written down before and after, so that it is known what was flushed."""

    def __init__(self, sink: Sink, journal: Path) -> None:
        self.sink, self.rows, self.seconds = sink, sink.rows, sink.seconds
        self._file = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._intended = 0

    def write(self, batch: EventBatch) -> int:
        """Write a batch."""
        kind = ("decisions", "rewards").index(batch.kind)
        if batch.number != self._intended:
            content = records_of(batch).tobytes()
            os.write(self._file, _HEAD.pack(b"I", kind, len(batch.events), batch.number) + content)
            self._intended = batch.number
        refused = self.sink.write(batch)
        os.write(self._file, _HEAD.pack(b"D", kind, 0, batch.number))
        return refused

    def own_again(self) -> None:
        """Be of use in a child process; there is none."""

    def close(self) -> None:
        """Let go of connections."""
        self.sink.close()


def records_of(batch: EventBatch) -> np.ndarray:
    """What a journal has of events."""
    found = np.empty(len(batch.events), dtype=RECORDS[batch.kind])
    found["key"] = keys_of([event.id for event in batch.events])
    if batch.kind == "decisions":
        found["time"] = np.array([event.milliseconds for event in batch.events]) * 1_000
        cells = [event.arm.drawn.cell for event in batch.events]
    else:
        found["time"] = [round(event.time * 1e6) for event in batch.events]
        found["reward"] = [event.reward for event in batch.events]
        found["amend"] = [event.amend for event in batch.events]
        cells = [event.token.cell for event in batch.events]
    found["cell"] = np.ravel_multi_index(tuple(np.array(cells).T), SHAPE)
    return found


def read_journal(path: Path) -> list[tuple[str, np.ndarray, bool]]:
    """The batches of a journal: kind, events, and whether the sink had them; what was cut off at the end is passed."""
    content = path.read_bytes() if path.exists() else b""
    found: dict[int, tuple[str, np.ndarray, bool]] = {}
    at = 0
    while at + _HEAD.size <= len(content):
        mark, number, events, batch = _HEAD.unpack_from(content, at)
        kind = ("decisions", "rewards")[number]
        size = events * RECORDS[kind].itemsize
        if at + _HEAD.size + size > len(content):
            break
        if mark == b"I":
            found[batch] = (kind, np.frombuffer(content, RECORDS[kind], events, at + _HEAD.size), False)
        else:
            found[batch] = (*found[batch][:2], True)
        at += _HEAD.size + size
    return list(found.values())


# A decider.


class Rewarding:
    """Rewards that are to come of decisions: late, twice, contradicted, amended, by another decider, never."""

    def __init__(self, run: Run, decider: int, rng: random.Random) -> None:
        self._run, self._rng = run, rng
        self.coming: list[tuple[float, int, str, float, bool]] = []
        self._count = 0
        others = run.settings["deciders"]
        self._handed = os.open(run.folder / f"handed-{decider}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._from = run.folder / f"handed-{(decider - 1) % others}"
        self._read = 0

    def plan(self, number: str, now: float, good: bool) -> None:
        """Plan the rewards of a decision."""
        rng = self._rng
        fate = rng.random()
        if fate < 0.35:
            return  # none will come
        worth = rng.choice(PRICES) if rng.random() < (0.4 if good else 0.1) else 0.0
        due = now + (rng.expovariate(1 / 120.0) if fate < 0.92 else rng.uniform(600.0, 2_700.0))
        if fate > 0.98:  # another decider tells it
            os.write(self._handed, f"{number} {worth}\n".encode())
            return
        self._push(due, number, worth)
        if rng.random() < 0.12:  # told again
            self._push(due + rng.expovariate(1 / 60.0), number, worth)
        if rng.random() < 0.04:  # contradicted, which changes nothing
            self._push(due + rng.expovariate(1 / 60.0), number, rng.choice(PRICES))
        if rng.random() < 0.06:
            self._push(due + rng.expovariate(1 / 300.0), number, rng.choice(PRICES), amend=True)

    def _push(self, due: float, number: str, worth: float, amend: bool = False) -> None:
        self._count += 1
        heapq.heappush(self.coming, (due, self._count, number, worth, amend))

    def due(self, now: float) -> list[tuple[str, float, bool]]:
        """What is to be told by now, with what another decider handed over."""
        found = []
        while self.coming and self.coming[0][0] <= now and len(found) < 20 * CHUNK:
            _, _, number, worth, amend = heapq.heappop(self.coming)
            found.append((number, worth, amend))
        return found + self._taken_over()

    def _taken_over(self) -> list[tuple[str, float, bool]]:
        if not self._from.exists() or self._from.stat().st_size == self._read:
            return []
        with open(self._from, "rb") as file:
            file.seek(self._read)
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        self._read += len(whole)
        rows = [line.split() for line in whole.decode().splitlines()]
        return [(number, float(worth), False) for number, worth in rows]


def decide(run: Run, decider: int, life: int) -> None:
    """Decide until the share of this decider is made, and tell all rewards."""
    settings = run.settings
    redis = decider < settings["on_redis"]
    options = {"rows": settings["rows"], "seconds": settings["seconds"]}
    sink: Sink = RedisSink(settings["redis"], rows=1_000, seconds=0.5) if redis else ParquetSink(run.lake, **options)
    witnessed = WitnessedSink(sink, run.journal(decider, life))
    counters = run.counters()
    made, told = place_of(decider, life), place_of(decider, life) + 8
    done = sum(struct.unpack_from("<q", counters, place_of(decider, one))[0] for one in range(life))
    left, at, rewards = settings["share"] - done, 0, 0
    rng = random.Random(f"{settings['seed']}-{decider}-{life}")
    segments = MODES["segment"]
    with tb.Decider(run.published, keys=KEYS, sink=witnessed, clock=run.clock, expires=None) as deciding:
        coming = Rewarding(run, decider, rng)

        def tell(until: float) -> None:
            nonlocal rewards
            for number, worth, amend in coming.due(until):
                deciding.tell(number, worth, amend=amend)
                rewards += 1
                struct.pack_into("<q", counters, told, rewards)

        while at < left:
            _wait(deciding)
            for _ in range(min(CHUNK, left - at)):
                segment = rng.choice(segments)
                one = deciding.ask(segment=segment)
                at += 1
                struct.pack_into("<q", counters, made, at)
                coming.plan(one.id, one.time, (int(segment[1:]) + int(one.arm["offer"][1:])) % 7 == 0)
            tell(run.clock())
        while coming.coming:
            _wait(deciding)
            tell(float("inf"))
        if not deciding.close(60.0):
            raise RuntimeError("the sink did not take what waits")


def _wait(deciding: tb.Decider) -> None:
    """Wait while too many events wait for the sink, so that no decision is dropped."""
    while deciding.status()["waiting"] > MOST_WAITING:
        time.sleep(0.02)


# A mover, and a learner.


def move(run: Run) -> None:
    """Move events from Redis into the lake until told to stop, and then until there are none."""
    from tensorbandits.lake.streams import MovedEvents, StreamMover

    mover = StreamMover(run.settings["redis"], NAME, run.lake, rows=20_000)
    for _ in mover.run(until=_stopped()):
        pass
    while mover.move() != MovedEvents():
        pass


def learn(run: Run) -> None:
    """Learn each so many seconds until told to stop, and write down what each round took."""
    learner = learner_of(run, publish=run.published)
    with open(run.folder / "rounds", "a", buffering=1) as file:
        for done in learner.run(run.settings["every"], until=_stopped()):
            file.write(json.dumps([done.seconds, len(done.joined), done.counts["decisions"], done.version]) + "\n")


def learner_of(run: Run, engine: Any = None, **more: Any) -> Any:
    """A learner of the run."""
    from tensorbandits.lake.engines import DuckEngine
    from tensorbandits.lake.learning import LakeLearner

    folders = {kind: run.lake / kind for kind in ("decisions", "rewards")}
    options = {"name": NAME, "clock": run.clock, "draws": 16, **folders, **more}
    return LakeLearner(run.bandit, engine=engine or DuckEngine(threads=1), **options)


def _stopped() -> Callable[[], bool]:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    return stop.is_set


if __name__ == "__main__":
    the_run, role = Run(Path(sys.argv[1])), sys.argv[2]
    if role == "decider":
        decide(the_run, int(sys.argv[3]), int(sys.argv[4]))
    else:
        {"mover": move, "learner": learn}[role](the_run)

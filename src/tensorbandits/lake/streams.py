"""Redis Streams: how an event stands in one, and the mover, which writes what it reads into a lake.

A mover reads as one of a consumer group, so that several share the work. It writes files first and acknowledges then:
whenever it is killed, events that were not acknowledged are written again, and the join counts an id once.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, NamedTuple

from tensorbandits.bandit.publishing import redis_at, without_password
from tensorbandits.base.checks import check_count, check_installed, check_positive
from tensorbandits.base.folders import Folder
from tensorbandits.lake import records
from tensorbandits.lake.engines import KINDS
from tensorbandits.lake.files import write_records
from tensorbandits.lake.records import Kind

_LOG = logging.getLogger("tensorbandits.lake")
_ROW, _UID = "row", "uid"  # fields of an entry
_IDLE = 60_000  # milliseconds after which what another mover did not acknowledge is taken over
_PAUSE = 1_000  # milliseconds to wait for events
_LONGEST_PAUSE = 2.0  # seconds between two attempts while Redis or the lake is away
_WRONG = (TypeError, ValueError, OverflowError)  # what values of a wrong type raise


def stream_of(bandit: str, kind: Kind) -> str:
    """Return the name of the stream of a bandit's decisions, or rewards.

    >>> stream_of("offers", "rewards")
    'offers:rewards'
    """
    return f"{records.check_bandit_name(bandit)}:{records.check_kind(kind)}"


def entry_of(row: Mapping[str, Any], uid: str) -> dict[str, str]:
    """Return the fields of an entry: a row with the names of the records' columns, times in microseconds.

    >>> entry_of({"id": "a", "reward": 1.0, "cell": (0, 1)}, "00ff")
    {'uid': '00ff', 'row': '{"id":"a","reward":1.0,"cell":[0,1]}'}
    """
    return {_UID: uid, _ROW: json.dumps(row, separators=(",", ":"))}


def row_of(fields: Mapping[Any, Any], kind: Kind) -> tuple[str, dict[str, Any]]:
    """Return the uid and the row of an entry; raise for one that holds no such row.

    >>> decision = {"id": "a", "time": 7, "snapshot": 1, "draw": None, "by": "policy", "propensity": 0.5}
    >>> decision |= {"policy_chance": 1.0, "holdout_chance": 0.0, "cell": [0, 1]}
    >>> row_of(entry_of(decision, "00ff"), "decisions") == ("00ff", decision)
    True
    """
    texts = {_text(name): _text(value) for name, value in fields.items()}
    row = json.loads(texts[_ROW])
    names = records.columns(kind)
    if not isinstance(row, dict) or set(row) != set(names):
        raise ValueError(f"the row has {sorted(row)}; {kind} have {names}")
    return texts[_UID], row


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


class MovedEvents(NamedTuple):
    """How many events were moved into files, and how many entries held none that can be."""

    decisions: int = 0
    rewards: int = 0
    files: int = 0
    refused: int = 0

    @property
    def events(self) -> int:
        """All that were moved."""
        return self.decisions + self.rewards


class StreamMover:
    """Moves a bandit's events from Redis Streams into a lake.

    Parameters
    ----------
    address : of Redis, such as ``"redis://localhost:6379/0"``.
    bandit : the name of the bandit; its streams are ``NAME:decisions`` and ``NAME:rewards``.
    lake : the root of the lake, a folder or a URL of fsspec.
    name : of this mover among others: one that is started again under its name goes on with what it had in hand.
    rows : how many entries are moved at once, at most.
    seconds : how long :meth:`run` lets entries gather between two moves, unless there are as many as ``rows``: each
        move writes a file for each hour that it has decisions of.
    delete : whether entries leave the stream when they are in the lake; otherwise they stay for other readers.

    Entries that hold no event go to the stream ``NAME:refused``, with the reason.
    """

    def __init__(
        self,
        address: str,
        bandit: str,
        lake: str | PathLike[str],
        *,
        name: str = "mover",
        rows: int = 50_000,
        seconds: float = 5.0,
        delete: bool = True,
    ) -> None:
        check_installed("moving events from Redis", "redis", extra="redis")
        check_installed("a lake", "pyarrow", extra="lake")
        import redis

        self.bandit, self.name, self.rows, self.delete = bandit, name, check_count(rows, "rows"), delete
        self.seconds = check_positive(seconds, "seconds")
        self._streams = {kind: stream_of(bandit, kind) for kind in KINDS}
        self._folder = Folder(lake)
        self._redis, self._shown = redis_at(address), without_password(address)
        self._away = redis.RedisError
        self._exists = redis.ResponseError  # which says that a group is there already
        self._group = "tensorbandits-lake"
        self._writer, self._number = uuid.uuid4().hex[:12], 0
        self._begun = False

    def move(self, *, wait: bool = False) -> MovedEvents:
        """Move what there is, up to ``rows`` entries of each stream, and say how much; ``wait`` a moment for some."""
        try:
            self._begin()
            found = [self._move(kind, self._entries(kind)) for kind in KINDS]
            done = MovedEvents(*map(sum, zip(*found, strict=True)))
            if wait and not done.events:
                self._redis.xread(dict.fromkeys(self._streams.values(), "$"), block=_PAUSE, count=1)
        except self._away as error:
            raise ConnectionError(f"Redis at {self._shown} cannot be used: {error}") from error
        return done

    def run(self, *, until: Callable[[], bool] = lambda: False) -> Iterator[MovedEvents]:
        """Yield what was moved, again and again; while Redis or the lake is away, say so and try again."""
        failures = 0
        while not until():
            due = time.monotonic() + self.seconds
            try:
                done = self.move(wait=True)
            except OSError as error:
                if not failures:
                    _LOG.warning(
                        "events of %s cannot be moved just now, and stay where they are: %s", self.bandit, error
                    )
                self._begun = False
                time.sleep(min(_PAUSE / 1e3 * 2.0 ** min(failures, 5) / 8, _LONGEST_PAUSE))
                failures += 1
                continue
            if failures:
                _LOG.info("events of %s are moved again", self.bandit)
            failures = 0
            if done != MovedEvents():
                yield done
            while max(done.decisions, done.rewards) < self.rows and time.monotonic() < due and not until():
                time.sleep(min(0.2, self.seconds))

    def _begin(self) -> None:
        """Make the consumer group if there is none, and take over what others left unfinished."""
        if self._begun:
            return
        for stream in self._streams.values():
            with contextlib.suppress(self._exists):
                self._redis.xgroup_create(stream, self._group, id="0", mkstream=True)
        self._begun = True

    def _entries(self, kind: Kind) -> list[tuple[Any, Mapping[Any, Any]]]:
        """Entries in hand: those that this mover did not acknowledge, those that others left, or new ones."""
        stream = self._streams[kind]
        mine = self._read(stream, "0")
        if len(mine) < self.rows:
            _, left, *_ = self._redis.xautoclaim(
                stream, self._group, self.name, min_idle_time=_IDLE, start_id="0-0", count=self.rows - len(mine)
            )
            mine = list({number: fields for number, fields in [*mine, *left]}.items())
        return mine or self._read(stream, ">")

    def _read(self, stream: str, start: str) -> list[tuple[Any, Mapping[Any, Any]]]:
        found: Any = self._redis.xreadgroup(self._group, self.name, {stream: start}, count=self.rows)
        return [entry for _, entries in found for entry in entries]

    def _move(self, kind: Kind, entries: Sequence[tuple[Any, Mapping[Any, Any]]]) -> tuple[int, int, int, int]:
        """Write entries into files, then acknowledge them; how many decisions, rewards, files and refused ones."""
        if not entries:
            return 0, 0, 0, 0
        by_file: dict[tuple[str, str], list[tuple[Any, dict[str, Any]]]] = defaultdict(list)
        refused, files, moved = 0, 0, 0
        for number, fields in entries:
            if not fields:  # it was deleted meanwhile
                continue
            try:
                uid, row = row_of(fields, kind)
                decided = row["time" if kind == "decisions" else "decided"]
                by_file[uid, records.hour_of(decided / 1e6)].append((number, row))
            except (KeyError, TypeError, ValueError, OverflowError, OSError) as error:
                refused += 1
                self._refuse(number, fields, kind, error)
        for (uid, hour), rows in sorted(by_file.items()):
            good = self._good(rows, kind, uid)
            refused += len(rows) - good.num_rows
            if good.num_rows:
                write_records(self._folder, kind, hour, self._writer, self._number, good)
                self._number, files, moved = self._number + 1, files + 1, moved + good.num_rows
        numbers = [number for number, _ in entries]
        with self._redis.pipeline(transaction=True) as pipe:
            pipe.xack(self._streams[kind], self._group, *numbers)
            if self.delete:
                pipe.xdel(self._streams[kind], *numbers)
            pipe.execute()
        return (moved if kind == "decisions" else 0), (moved if kind == "rewards" else 0), files, refused

    def _good(self, rows: Sequence[tuple[Any, dict[str, Any]]], kind: Kind, uid: str) -> Any:
        """A table of the rows that have values of the right types; others are refused."""
        with contextlib.suppress(*_WRONG):
            return self._table([row for _, row in rows], kind, uid)
        good = []
        for number, row in rows:
            try:
                self._table([row], kind, uid)
                good.append(row)
            except _WRONG as error:
                self._refuse(number, entry_of(row, uid), kind, error)
        return self._table(good, kind, uid)

    def _table(self, rows: Sequence[Mapping[str, Any]], kind: Kind, uid: str) -> Any:
        columns = {name: [row[name] for row in rows] for name in records.columns(kind)}
        return records.table(kind, columns, self.bandit, uid)

    def _refuse(self, number: Any, fields: Mapping[Any, Any], kind: Kind, error: Exception) -> None:
        why = " ".join(str(error).split())[:200] or type(error).__name__
        _LOG.warning("entry %s of %s holds none of the %s: %s", _text(number), self._streams[kind], kind, why)
        self._redis.xadd(f"{self.bandit}:refused", {**fields, "kind": kind, "why": why})

    def close(self) -> None:
        """Let go of the connection."""
        self._redis.close()

"""Sinks: where deciders hand their decisions and rewards: a lake, Redis Streams, a service, or a function."""

from __future__ import annotations

import json
import math
import os
import uuid
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from tensorbandits.bandit.publishing import redis_at, without_password
from tensorbandits.base.checks import check_count, check_installed, check_positive
from tensorbandits.base.folders import Folder
from tensorbandits.decider.sending import KINDS, EventBatch, Sink
from tensorbandits.decider.web import bandit_address, call, headers_of

_SECONDS = 30.0  # that a service has to answer
_MOST = 1_000  # rewards of one request to a service


class _Rolled:
    """When a batch is handed over: after so many events, or so many seconds."""

    knows_ids = False  # whether rewards of ids that are no tokens may be handed over too

    def __init__(self, rows: int, seconds: float) -> None:
        self.rows, self.seconds = check_count(rows, "rows"), check_positive(seconds, "seconds")

    def own_again(self) -> None:
        """Be of use in a child process."""

    def close(self) -> None:
        """Let go of connections."""


class ParquetSink(_Rolled):
    """Writes Parquet files into a lake: one for each batch, kind and hour, whole or not at all.

    Parameters
    ----------
    address : a folder, or any address of fsspec. ``tensorbandits learn`` reads it.
    rows, seconds : a file is written after so many events, or after so many seconds, if there are any. What was not
        written when the process dies is lost.

    >>> ParquetSink("memory://lake", rows=10_000, seconds=5.0)
    ParquetSink('memory://lake')
    """

    def __init__(self, address: str | os.PathLike[str], *, rows: int = 50_000, seconds: float = 10.0) -> None:
        super().__init__(rows, seconds)
        check_installed("a lake", "pyarrow", extra="lake")
        from tensorbandits.lake import records

        self._folder = Folder(address)
        self._writer = uuid.uuid4().hex[:12]
        for kind in KINDS:  # what writing loads is loaded now, and not while the first decisions wait to be written
            names = records.schema(kind, "any", "00").names
            records.packed(records.table(kind, {name: [] for name in names}, "any", "00"))

    def own_again(self) -> None:
        """Write files of other names than the parent process."""
        self._writer = uuid.uuid4().hex[:12]

    def write(self, batch: EventBatch) -> int:
        """Write a batch; written again, it takes its own place."""
        from tensorbandits.lake import records
        from tensorbandits.lake.files import write_records

        by_hour: defaultdict[int, list[int]] = defaultdict(list)
        for at, moment in enumerate(batch.decided):
            by_hour[math.floor(moment / records.HOUR)].append(at)
        for hour, places in by_hour.items():
            some = batch if len(by_hour) == 1 else batch.only(places)
            table = records.table(batch.kind, some.columns(), batch.bandit, batch.uid)
            name = records.hour_of(hour * records.HOUR)
            write_records(self._folder, batch.kind, name, self._writer, batch.number, table)
        return 0

    def __repr__(self) -> str:
        return f"ParquetSink({self._folder.address!r})"


class RedisSink(_Rolled):
    """Adds events to two Redis Streams of a bandit, one entry each: ``NAME:decisions`` and ``NAME:rewards``.

    ``tensorbandits move`` writes them into a lake; other readers find the columns of the lake as JSON in the field
    ``row``.

    Parameters
    ----------
    address : ``"redis://host:6379/0"``.
    rows, seconds : as for :class:`~tensorbandits.ParquetSink`.

    >>> RedisSink("redis://:secret@localhost:6379/0", rows=500)
    RedisSink('redis://***@localhost:6379/0')
    """

    def __init__(self, address: str, *, rows: int = 1_000, seconds: float = 0.5) -> None:
        super().__init__(rows, seconds)
        check_installed("records of decisions", "pyarrow", extra="lake")
        self._redis, self._shown = redis_at(address), without_password(address)

    def write(self, batch: EventBatch) -> int:
        """Add a batch to its stream."""
        from tensorbandits.lake.streams import entry_of, stream_of

        name = stream_of(batch.bandit, batch.kind)
        with self._redis.pipeline(transaction=True) as pipe:  # so that Redis flushes a batch at once
            for row in batch.rows():
                pipe.xadd(name, entry_of(row, batch.uid))
            pipe.execute()
        return 0

    def close(self) -> None:
        """Let go of connections."""
        self._redis.close()

    def __repr__(self) -> str:
        return f"RedisSink({self._shown!r})"


class HttpSink(_Rolled):
    """Sends decisions and rewards to a bandit of a service, which adopts them: its windows, defaults and page go on.

    Parameters
    ----------
    address : ``"https://server/v1/bandits/NAME"``.
    api_key : an API key that may decide for this bandit.
    name : what the page of the service calls this decider.
    rows, seconds : as for :class:`~tensorbandits.ParquetSink`.

    Rewards of ids that are no tokens go there too: the service knows those of its own decisions.

    >>> HttpSink("https://bandits.example/v1/bandits/offers", api_key="tb_...", name="web-1")
    HttpSink('https://bandits.example/v1/bandits/offers')
    """

    knows_ids = True

    def __init__(
        self,
        address: str,
        *,
        api_key: str | None = None,
        name: str | None = None,
        rows: int = 1_000,
        seconds: float = 0.5,
    ) -> None:
        super().__init__(min(check_count(rows, "rows"), _MOST), seconds)
        self._url, self._headers, self._name = bandit_address(address), headers_of(api_key), name

    def write(self, batch: EventBatch) -> int:
        """Send a batch; the service takes each decision and each reward once."""
        if batch.kind == "decisions":
            body: dict[str, Any] = {"decisions": [event.id for event in batch.events]}
            body |= {} if self._name is None else {"decider": self._name}
            return len(self._call("decisions", body)["refused"])
        rewards = [{"id": event.id, "reward": event.reward, "amend": event.amend} for event in batch.events]
        return sum("error" in one for one in self._call("tell-many", {"rewards": rewards})["results"])

    def _call(self, route: str, body: dict[str, Any]) -> Any:
        answer = call(f"{self._url}/{route}", self._headers, body, seconds=_SECONDS, shown=without_password(self._url))
        return json.loads(answer.content) if answer is not None else {}

    def __repr__(self) -> str:
        return f"HttpSink({without_password(self._url)!r})"


class FunctionSink(_Rolled):
    """Gives batches to a function of yours, in a thread of its own.

    Parameters
    ----------
    function : is called with ``"decisions"`` or ``"rewards"``, and a list of rows: mappings of the columns that the
        lake has. What it raises is said by ``decider.status()``, and the batch comes again.
    rows, seconds : as for :class:`~tensorbandits.ParquetSink`.

    >>> from tensorbandits import Bandit, Decider, Space
    >>> snapshot = Bandit(Space({"offer": ["a", "b"]}), reward="bernoulli", seed=0).snapshot(name="offers")
    >>> sink = FunctionSink(lambda kind, rows: print(len(rows), kind))
    >>> with Decider(snapshot, keys={"2026-11": b"a secret of 16 bytes or more"}, sink=sink) as decider:
    ...     decider.tell(decider.ask(), 1)
    1 decisions
    1 rewards
    """

    def __init__(
        self, function: Callable[[str, list[dict[str, Any]]], Any], *, rows: int = 1_000, seconds: float = 0.5
    ) -> None:
        super().__init__(rows, seconds)
        if not callable(function):
            raise TypeError(f"function is {function!r}; give what takes a kind and a list of rows")
        self._function = function

    def write(self, batch: EventBatch) -> int:
        """Give the function a batch."""
        self._function(batch.kind, batch.rows())
        return 0


def sink_of(address: str | os.PathLike[str], *, api_key: str | None = None, name: str | None = None) -> Sink:
    """Return the sink of an address: Redis, a bandit of a service, or else a lake.

    >>> sink_of("redis://localhost:6379/0"), sink_of("memory://lake")
    (RedisSink('redis://localhost:6379/0'), ParquetSink('memory://lake'))
    """
    text = os.fspath(address)
    if text.startswith(("redis://", "rediss://", "unix://")):
        return RedisSink(text)
    if text.startswith(("http://", "https://")):
        return HttpSink(text, api_key=api_key, name=name)
    return ParquetSink(text)

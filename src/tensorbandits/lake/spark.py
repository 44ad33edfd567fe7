"""Spark: the join on a cluster, in batches or as files come. Only who uses it imports this file: it needs pyspark."""

from __future__ import annotations

import os
import shutil
import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from tensorbandits.base.checks import check_installed
from tensorbandits.base.folders import Folder
from tensorbandits.lake import records
from tensorbandits.lake.engines import KINDS
from tensorbandits.lake.join import Dialect
from tensorbandits.lake.learning import LakeLearner, LearnedRound
from tensorbandits.lake.records import Kind

_COLUMNS = {
    "decisions": "id STRING, time TIMESTAMP, by STRING, cell ARRAY<INT>",
    "rewards": "id STRING, time TIMESTAMP, reward DOUBLE, amend BOOLEAN, decided TIMESTAMP, cell ARRAY<INT>, by STRING",
}
_DECIDED = {"decisions": "time", "rewards": "decided"}
_STARTED = "_stream"  # a file that makes a folder be there before its first records; Spark passes over such names


class SparkEngine:
    """Spark, in a session of the caller's, or in one on this machine with so many ``threads`` and so much ``memory``.

    Addresses of a lake must be known to Spark too: a path, or a URL of Hadoop such as ``s3a://bucket/lake/decisions``.
    """

    dialect = Dialect("unix_micros({time})", "get(cell, {mode})", "size(cell)", "`by`")

    def __init__(self, session: Any = None, *, threads: int | None = None, memory: str | None = None) -> None:
        check_installed("learning with Spark", "fsspec", "pyarrow", extra="lake")
        check_installed("learning with Spark", "pyspark", extra="spark")
        self._owned = session is None
        self.session = local_session(threads, memory) if session is None else session

    def query(self, sql: str, files: Mapping[Kind, Sequence[str]], folders: Mapping[Kind, Folder]) -> Any:
        """Return the answer of a query, a PyArrow table, over files of each kind: paths below their folders."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            for kind in KINDS:
                self._view(kind, files[kind], folders[kind])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of pandas, which has no part in it
                return self.session.sql(sql).toArrow()
        except (PySparkException, Py4JError) as error:
            raise RuntimeError(f"Spark could not join: {error}") from error

    def _view(self, kind: Kind, files: Sequence[str], folder: Folder) -> None:
        columns = f"{_COLUMNS[kind]}, bandit STRING, hour STRING"
        if files:
            reader = self.session.read.schema(columns).option("basePath", place_of(folder))
            rows = reader.parquet(*(_escaped(f"{place_of(folder)}/{name}") for name in files))
        else:
            rows = self.session.createDataFrame([], columns)
        rows.createOrReplaceTempView(kind)

    def close(self) -> None:
        """Stop the session, if it was made here."""
        if self._owned:
            self.session.stop()


def local_session(threads: int | None = None, memory: str | None = None) -> Any:
    """Return a Spark session on this machine, with ``memory`` such as "4g"; refuse to without Java."""
    if shutil.which("java") is None:
        raise ModuleNotFoundError(
            "Spark needs Java 17 or newer, which is not installed here; install it (Debian: openjdk-17-jre-headless)"
        )
    from pyspark.sql import SparkSession

    many = "*" if threads is None else str(threads)
    builder = SparkSession.builder.master(f"local[{many}]").appName("tensorbandits")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": _memory() if memory is None else memory,
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _memory() -> str:
    """A quarter of what the machine has, from 1 to 16 GB; for hours of millions Spark's own default is too little."""
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # a system that does not say
        return "2g"
    return f"{min(max(whole // 4, 1 << 30), 16 << 30) >> 20}m"


def place_of(folder: Folder) -> str:
    """Return the address of a folder as Spark has it."""
    return f"file://{folder.root}" if folder.local else folder.address.rstrip("/")


def _escaped(path: str) -> str:
    """A path whose signs are taken as they are, not as a pattern."""
    return "".join(f"\\{sign}" if sign in "*?[]{}\\" else sign for sign in path)


class LakeStream:
    """Structured Streaming over a lake: each trigger joins the hours of which there are new files, and teaches them.

    ``learner`` has an engine of Spark. ``lateness`` is how long after an hour's end, such as ``"2 hours"``, rows of it
    are still taken: the watermark, by the time of decisions. What comes later is left to :meth:`learn_all`, which looks
    at all files. ``checkpoint`` is a folder in which Spark keeps what it has seen.

    Spark says only which hours have news; what they add up to is joined from their files, all of them. So a trigger
    that is carried out twice, as after a crash, changes nothing.
    """

    def __init__(self, learner: LakeLearner, *, lateness: str, checkpoint: str) -> None:
        if not isinstance(learner.engine, SparkEngine):
            raise TypeError(f"the learner's engine is a {type(learner.engine).__name__}; make it with a SparkEngine")
        self.learner, self.lateness, self.checkpoint = learner, lateness, checkpoint
        self.rounds: list[LearnedRound] = []  # so far
        self._session = learner.engine.session
        self._turn = threading.Lock()  # held while learning

    def start(self, *, every: float | None = None) -> Any:
        """Start the stream, and return Spark's query; ``every`` is seconds, ``None`` for what there is now alone.

        Stop it with its ``stop``; ``processAllAvailable`` and ``awaitTermination`` wait for it.
        """
        writer = self._news().writeStream.outputMode("update").option("checkpointLocation", self.checkpoint)
        when = {"availableNow": True} if every is None else {"processingTime": f"{max(round(every), 1)} seconds"}
        return writer.trigger(**when).foreachBatch(self._learn).start()

    def _news(self) -> Any:
        """The hours that have rows, with how many: one of which there are more rows comes again."""
        from pyspark.sql import functions as f

        frames = []
        for kind in KINDS:
            folder = self.learner.folders[kind]
            folder.write(f"{records.bandit_folder(self.learner.name)}/{_STARTED}", b"")
            place = place_of(folder)
            files = self._session.readStream.schema(f"{_COLUMNS[kind]}, hour STRING")
            rows = files.parquet(f"{_escaped(place)}/{records.bandit_folder(self.learner.name)}")
            # A decider whose clock is ahead must not close hours for all others.
            decided = f.least(f.col(_DECIDED[kind]), f.current_timestamp())
            frames.append(rows.select("hour", decided.alias("decided")))
        both = frames[0].union(frames[1]).withWatermark("decided", self.lateness)
        return both.groupBy("hour", f.window("decided", "1 hour")).count()

    def _learn(self, news: Any, number: int) -> None:
        hours = sorted({row["hour"] for row in news.select("hour").distinct().collect()})
        if hours:
            with self._turn:
                self.rounds.append(self.learner.learn(hours=hours))

    def learn_all(self) -> LearnedRound:
        """Learn what is new in all files, whether the stream runs or not: what came later, and windows that ended."""
        with self._turn:
            return self.learner.learn()

"""What Prometheus reads: counts and times of requests, decisions, rewards, commits and learning."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_LONG = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)
_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
_METHODS = {"GET", "POST", "PATCH", "DELETE", "HEAD", "OPTIONS", "PUT"}


@contextmanager
def several_processes(workers: int) -> Iterator[None]:
    """Let processes that are started inside count together, through files of a new folder; one process needs none.

    To be entered before any of them imports ``prometheus_client``, which looks once.
    """
    if workers < 2 or os.environ.get(_FOLDER):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="tensorbandits-metrics-", ignore_cleanup_errors=True) as folder:
        os.environ[_FOLDER] = folder
        try:
            yield
        finally:
            os.environ.pop(_FOLDER, None)


class Metrics:
    """The metrics of one app; every name starts with ``tensorbandits_``.

    >>> metrics = Metrics(version="1.0")
    >>> metrics.decided("shop", 3)
    >>> 'tensorbandits_decisions_total{bandit="shop"} 3.0' in metrics.text().decode()
    True
    """

    def __init__(self, version: str = "") -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

        self._registry = registry = CollectorRegistry()

        def counter(name: str, help: str, *labels: str) -> Counter:
            return Counter(f"tensorbandits_{name}", help, labels, registry=registry)

        def histogram(name: str, help: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"tensorbandits_{name}", help, labels, buckets=buckets, registry=registry)

        def gauge(name: str, help: str, *labels: str) -> Gauge:
            return Gauge(f"tensorbandits_{name}", help, labels, registry=registry, multiprocess_mode="livemax")

        self._requests = histogram(
            "request_seconds", "Requests and how long they took.", _SECONDS, "method", "route", "status"
        )
        self._refused = counter("refused_total", "Requests that were refused before they were looked at.", "reason")
        self._decisions = counter("decisions_total", "Decisions made and durable.", "bandit")
        self._rewards = counter("rewards_total", "Rewards told and durable.", "bandit")
        self._events = counter("events_committed_total", "Events written to the store by this service.")
        self._batches = histogram("commit_events", "Events in one transaction.", _SIZES)
        self._commits = histogram("commit_seconds", "Seconds of one transaction, with the wait for its turn.", _SECONDS)
        self.learned = histogram("learning_seconds", "Seconds of one turn of learning.", _LONG).observe
        self.followed = counter("events_followed_total", "Events of other processes that were folded in.").inc
        self._lag = gauge("lag_events", "Events in the store that a process has not read yet.", "bandit")
        self._open = gauge("open_decisions", "Decisions that wait for their reward.", "bandit")
        self._adopted = counter("decisions_adopted_total", "Decisions of deciders that are durable here.", "bandit")
        self._published = counter("snapshots_published_total", "Snapshots put at their address.", "bandit")
        self._unpublished = counter("publish_errors_total", "Snapshots that could not be made or published.", "bandit")
        self._snapshot_age = gauge("snapshot_age_seconds", "Age of the newest snapshot that deciders get.", "bandit")
        self._deciders = gauge("deciders", "Deciders that this process has seen in ten minutes.", "bandit")
        self._learning_lag = gauge("learning_lag_seconds", "Since when decisions do not know what came.", "bandit")
        self._failures = counter("store_errors_total", "What the store refused or failed at.", "kind")
        self.compiled = counter("compilations_total", "Kernels compiled after the start: there should be none.").inc
        self.ready = gauge("ready", "1 while a process says that requests may come, 0 otherwise.").set
        self.quarantined = gauge("quarantined", "Bandits whose log cannot be read.").set
        self.free = gauge("store_free_bytes", "Space that is left where the SQLite file is.").set
        self.serving = gauge("bandits", "Bandits that are served.").set
        self.keys_read = gauge("keys_age_seconds", "How long ago the API keys were read from the store.").set
        gauge("info", "The version that runs.", "version").labels(version).set(1)
        ProcessCollector(registry=registry)  # process_*: memory, processor time, open files
        self._by_bandit: dict[tuple[Any, str], Any] = {}
        self._last: dict[tuple[Any, str], float] = {}
        self._series: dict[tuple[str, str, int], Any] = {}  # as finding one by its labels takes longer than counting

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request, by the template of its route."""
        series = self._series.get((method, route, status))
        if series is None:
            method = method if method in _METHODS else "other"
            series = self._requests.labels(method, route, str(status))
            self._series[method, route, status] = series
        series.observe(seconds)

    def _of(self, metric: Any, bandit: str) -> Any:
        """The series of a bandit, for what is counted with every event."""
        series = self._by_bandit.get((metric, bandit))
        if series is None:
            series = self._by_bandit[metric, bandit] = metric.labels(bandit)
        return series

    def refused(self, reason: str) -> None:
        """Count a request that was refused: too_large, too_many, unauthorized, host."""
        self._refused.labels(reason).inc()

    def decided(self, bandit: str, count: int = 1) -> None:
        """Count decisions."""
        self._of(self._decisions, bandit).inc(count)

    def rewarded(self, bandit: str, count: int = 1) -> None:
        """Count rewards."""
        self._of(self._rewards, bandit).inc(count)

    def committed(self, events: int, seconds: float) -> None:
        """Count a transaction, and its events."""
        self._events.inc(events)
        self._batches.observe(events)
        self._commits.observe(seconds)

    def behind(self, bandit: str, events: int) -> None:
        """Say how many events of the store are not folded in yet."""
        self._lag.labels(bandit).set(events)

    def waiting(self, bandit: str, decisions: int) -> None:
        """Say how many decisions wait for their reward."""
        self._set(self._open, bandit, decisions)

    def adopted(self, bandit: str, count: int) -> None:
        """Count decisions that were made elsewhere."""
        self._of(self._adopted, bandit).inc(count)

    def published(self, bandit: str) -> None:
        """Count a snapshot that was put at its address."""
        self._published.labels(bandit).inc()

    def unpublished(self, bandit: str) -> None:
        """Count a snapshot that could not be made, or put at its address."""
        self._unpublished.labels(bandit).inc()

    def learning_lag(self, bandit: str, seconds: float) -> None:
        """Say since when decisions do not know what was told."""
        self._set(self._learning_lag, bandit, seconds)

    def deciding_elsewhere(self, bandit: str, age: float | None, deciders: int) -> None:
        """Say how old the newest snapshot is, if there is one, and how many deciders were seen."""
        if age is not None:
            self._set(self._snapshot_age, bandit, age)
        if age is not None or deciders:
            self._set(self._deciders, bandit, deciders)

    def _set(self, metric: Any, bandit: str, value: float) -> None:
        """Set a gauge of a bandit, unless it has that value: most bandits are as they were a second ago."""
        if self._last.get((metric, bandit)) != value:
            self._last[metric, bandit] = value
            metric.labels(bandit).set(value)

    def failed(self, error: BaseException | None = None) -> None:
        """Count an error of the store, by its kind."""
        self._failures.labels("StoreError" if error is None else type(error).__name__).inc()

    def forget(self, bandit: str) -> None:
        """Show a deleted bandit no more; where several processes count together its last numbers stay."""
        gauges = (self._lag, self._open, self._snapshot_age, self._deciders, self._learning_lag)
        for gauge in gauges:
            self._last.pop((gauge, bandit), None)
        if _FOLDER in os.environ:
            for gauge in gauges:
                gauge.labels(bandit).set(0)
            return
        counters = (self._decisions, self._rewards, self._adopted, self._published, self._unpublished)
        for metric in (*counters, *gauges):
            self._by_bandit.pop((metric, bandit), None)
            with suppress(KeyError):
                metric.remove(bandit)

    def text(self) -> bytes:
        """Return all of them as Prometheus reads them, added up over the processes."""
        from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
        from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

        if _FOLDER not in os.environ:
            return generate_latest(self._registry)
        for process in _gone(Path(os.environ[_FOLDER])):
            mark_process_dead(process)  # type: ignore[no-untyped-call]  # or its gauges would be shown for ever
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        ProcessCollector(registry=together)  # of the process that answers: each knows itself only
        return generate_latest(together)

    @property
    def content_type(self) -> str:
        """The media type of :meth:`text`."""
        from prometheus_client import CONTENT_TYPE_LATEST

        return CONTENT_TYPE_LATEST


def _gone(folder: Path) -> set[int]:
    """The processes that left gauges there and run no more."""
    numbers = {path.stem.rpartition("_")[2] for path in folder.glob("gauge_live*.db")}
    return {int(number) for number in numbers if number.isdigit() and not _runs(int(number))}


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True

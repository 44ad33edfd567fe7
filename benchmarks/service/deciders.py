"""Suite ``deciders``: deciding from snapshots beside the durable service, what it costs, and what age costs."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.service import deciding, staleness
from benchmarks.service.decider_costs import cost, costs, sizes
from benchmarks.service.deciders_said import section as section
from benchmarks.service.deciding import Process, fit, processes, records
from benchmarks.service.load import _kind as summary
from benchmarks.service.load import generating
from benchmarks.service.served import NAME as CAMPAIGN
from benchmarks.service.served import Service, call, path, placed, processor, serving
from benchmarks.store import Options, Result, Settings
from tensorbandits.bandit.published import PublishedSnapshot
from tensorbandits.bandit.publishing import Pointer, place_of
from tensorbandits.decider.sources import HttpSource

NAME = "deciders"
ALONE, ONE_CORE = True, False
TITLE = "Deciders: decisions from snapshots, beside the durable service"
MEASURED = "tensorbandits.decider.decider"

SEED, SEEDS = 9_800, 30  # of the first world of campaigns of some minutes, and how many there are
LONG, FEW = 9_730, 3  # the same of campaigns of hours
# Seconds between snapshots, how many of these they come later, and their posterior draws: 16 are a bandit's own.
WAYS = [[2, 0, 16], [10, 0, 64], [10, 1, 64]]
AGES = [[60, 0, 16], [600, 0, 16], [3_600, 0, 16]]


def plan(options: Options) -> list[Settings]:
    """Return all that is measured, what takes longest last."""
    quick = options.quick
    slices = {"slices": 1, "seconds": 0.5} if quick else {"slices": 8, "seconds": 2.0}
    found: list[Settings] = [
        *({"task": task, **slices} for task in ("service", "processes", "server")),
        {"task": "swaps", "every": 1.0, "pace": 0.0, **slices},
        {"task": "swaps", "every": 1.0, "pace": 0.001, **slices},
        *costs(quick),
        {"task": "sizes", "count": 5_000 if quick else 200_000},
        {"task": "lost", "times": 2 if quick else 10},
    ]
    if not quick:
        found += _played(LONG, FEW, 100, 7_200, AGES) + _played(LONG, FEW, 10_000, 7_200, AGES)
    return found + (_played(SEED, 2, 100, 60, WAYS) if quick else _played(SEED, SEEDS, 100, 720, WAYS))


def _played(first: int, seeds: int, rate: int, seconds: int, ways: list[list[int]]) -> list[Settings]:
    campaign = {"task": "age", "rate": rate, "seconds": seconds}
    return [
        {**campaign, "seed": seed, "every": every, "late": late, "draws": draws}
        for seed in range(first, first + seeds)
        for every, late, draws in ways
    ]


def label(settings: Settings) -> str:
    return " ".join(str(value) for value in settings.values())


def measure(settings: Settings) -> Result:
    """Make one measurement."""
    tasks = {"service": service, "processes": side_by_side, "server": decide_server, "swaps": swaps, "cost": cost}
    found = {**tasks, "sizes": sizes, "lost": lost, "age": age}[settings["task"]](settings)
    return found | {"busy": processor()}


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="tb-deciders-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Watcher:
    """Keeps every snapshot that a bandit of a service publishes, by its version."""

    def __init__(self, address: str) -> None:
        self.seen: dict[int, PublishedSnapshot] = {}
        self._source, self._stop = HttpSource(address), threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        mark = None
        while not self._stop.is_set():
            with contextlib.suppress(OSError):
                found = self._source.newer(mark)
                if found is not None:
                    mark, self.seen[found.snapshot.version] = found.mark, found.snapshot
            self._stop.wait(0.1)

    def stop(self) -> None:
        self._stop.set()


def service(settings: Settings) -> Result:
    """Decide in a durable service on SQLite and in a decider that follows it, in turns, and hold arms to the law."""
    body = {"name": CAMPAIGN, "modes": deciding.MODES, "context": ["segment"], "reward": "bernoulli", "rank": 2}
    with _folder() as folder, placed("sqlite") as place, serving(place, 1) as [server]:
        call(server, "POST", "/v1/bandits", body | deciding.SHARES)
        call(server, "POST", path("rules"), {"forbid": deciding.RULE})
        address = f"http://127.0.0.1:{server.port}{path()}".rstrip("/")
        watcher, lake = Watcher(address), folder / "lake"
        with generating([server], [CAMPAIGN]) as shoot, processes(1, address, str(lake), folder) as [decider]:
            shoot("ask", 1.0, [server.port])
            durable, here = [], []
            for _ in range(settings["slices"]):
                found = shoot("ask", settings["seconds"], [server.port])
                durable.append(found["count"] / found["seconds"])
                decider.send("decide", seconds=settings["seconds"])
                here.append(decider.read())
            made = decider.made
        watcher.stop()
        rates = [one["count"] / one["seconds"] for one in here]
        return {
            "durable": durable,
            "decider": rates,
            "before flushing": [one["count"] / one["decided"] for one in here],
            "ratio": float(np.median(rates) / np.median(durable)),
            "microseconds": 1e6 * sum(one["ran"] for one in here) / sum(one["count"] for one in here),
            "dropped": here[-1]["dropped"],
            "made": made,
            "snapshots": len(watcher.seen),
            "fit": fit(records(lake), watcher.seen),
        }


def _published(folder: Path, **settings: Any) -> list[tuple[Pointer, bytes]]:
    """Publish the first of some snapshots of one bandit, each of which knows more, and return the others."""
    bandit = deciding.bandit(2_000, **settings)
    bandit.publish(folder / "published", name="offers")
    others = []
    for at in range(2, 12):
        deciding.tell(bandit, 2_000 * at, 0)
        snapshot = bandit.snapshot(name="offers")
        content = snapshot.to_bytes()
        others.append((Pointer.of(snapshot, content), content))
    return others


def side_by_side(settings: Settings) -> Result:
    """Decide in one process, and in two at once, in turns."""
    with _folder() as folder:
        _published(folder)
        with processes(2, str(folder / "published"), str(folder / "lake"), folder) as both:
            rates: dict[str, list[float]] = {"one": [], "two": []}
            spent: dict[str, list[float]] = {"one": [], "two": []}
            for _ in range(settings["slices"]):
                for name, some in (("one", both[:1]), ("two", both)):
                    for process in some:
                        process.send("decide", seconds=settings["seconds"])
                    found = [process.read() for process in some]
                    rates[name].append(sum(one["count"] / one["seconds"] for one in found))
                    spent[name].append(sum(one["count"] / one["ran"] for one in found))
            ratios = [two / one for one, two in zip(rates["one"], rates["two"], strict=True)]
            made = sum(process.made for process in both)
        logged = sum(table.num_rows for table in records(folder / "lake"))
    by_core = float(np.median(spent["two"]) / np.median(spent["one"]))
    both_rates = {**rates, "ratio": float(np.median(ratios)), "ratios": ratios}
    return both_rates | {"spent": spent, "by core": by_core, "made": made, "logged": logged}


def decide_server(settings: Settings) -> Result:
    """Ask a decide server over HTTP, in turns with a route that does nothing."""
    with _folder() as folder:
        _published(folder)
        server = Service("sqlite:///unused.db", folder, token_keys=f"2026-11={deciding.KEYS['2026-11'].decode()}")
        server.command = ("decide", "--from", str(folder / "published"), "--sink", str(folder / "lake"))
        server.start()
        try:
            server.wait()
            with generating([server], ["offers"]) as shoot:
                kinds: dict[str, list[Any]] = {"noop": [], "ask": []}
                for what in kinds:
                    shoot(what, 1.0, [server.port])
                for _ in range(settings["slices"]):
                    for what, kept in kinds.items():
                        before, _ = server.spent()
                        found = shoot(what, settings["seconds"], [server.port])
                        kept.append(found | {"ran": server.spent()[0] - before})
        finally:
            server.kill()
    return {what: summary(kept) for what, kept in kinds.items()}


def swaps(settings: Settings) -> Result:
    """Time each decision while snapshots are swapped, and while they are not, in turns."""
    kept: dict[str, list[Any]] = {"still": [], "swapped": []}
    with _folder() as folder:
        others = iter(_published(folder))
        place = place_of(folder / "published")
        with processes(1, str(folder / "published"), str(folder / "lake"), folder) as [decider]:
            decider.send("decide", seconds=2.0 * settings["seconds"])  # as one that has run for a while
            decider.read()
            for _ in range(min(settings["slices"], 5)):
                for name in kept:
                    decider.send("time", seconds=settings["seconds"], pace=settings["pace"])
                    end = time.monotonic() + settings["seconds"] - 0.3
                    while name == "swapped" and time.monotonic() < end:
                        if (following := next(others, None)) is not None:
                            place.put(*following)
                        time.sleep(min(settings["every"], max(end - time.monotonic(), 0.0)))
                    kept[name].append(decider.read())
    found: Result = {}
    for name, slices in kept.items():
        found[name] = _quantiles([one["times"] for one in slices])
        found[name] |= {"swaps": sum(one["swaps"] for one in slices)}
        found[f"{name} control"] = _quantiles([one["control"] for one in slices])
    return found


def _quantiles(slices: list[list[int]]) -> Result:
    """Return quantiles of all times, in microseconds, and p99 beside the median in each slice."""
    times = np.concatenate(slices) / 1e3
    quantiles = np.quantile(times, [0.5, 0.9, 0.99, 0.999])
    tails = [float(np.divide(*np.quantile(one, [0.99, 0.5]))) for one in slices]
    named = dict(zip(("p50", "p90", "p99", "p99.9"), quantiles.tolist(), strict=True))
    return named | {"count": len(times), "most": float(times.max()), "tails": tails}


def lost(settings: Settings) -> Result:
    """Kill deciders at moments of no choice, and count what they had decided and the lake does not have."""
    rng, rows = np.random.default_rng(SEED), []
    with _folder() as folder:
        _published(folder)
        for at in range(settings["times"]):
            lake = folder / f"lake-{at}"
            process = Process(str(folder / "published"), str(lake), folder)
            try:
                process.read()
                process.send("decide", seconds=60.0)
                wait = 1.5 + 3.0 * rng.random()
                time.sleep(wait)
            finally:
                process.kill()
            tables = records(lake)
            ids = [one for table in tables for one in table["id"].to_pylist()]
            rows.append({"made": process.made, "logged": len(ids), "twice": len(ids) - len(set(ids)), "after": wait})
            print(rows[-1], file=sys.stderr, flush=True)
    return {"kills": rows}


def age(settings: Settings) -> Result:
    """Play one campaign with snapshots of one age."""
    given = {name: settings[name] for name in ("rate", "seconds", "every", "late", "draws")}
    return dict(staleness.play(settings["seed"], **given))

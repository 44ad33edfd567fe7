"""Suite ``soak``: a million rounds through one server; what it holds in memory, and how soon it answers, over time.

A round is a decision and its reward. A few clients ask and tell for a hundred at once, so that a million rounds take
minutes rather than hours; one more asks and tells one by one, and its waits are the ones that are reported.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.report import Findings, command
from benchmarks.service import figures
from benchmarks.service.served import (
    BANDIT,
    MODES,
    SHARED,
    Caller,
    Place,
    Service,
    call,
    path,
    placed,
    processor,
    serving,
)
from benchmarks.store import Options, Result, Settings, Store
from tensorbandits.report.page import Part, Picture, Table, Text

NAME = "soak"
ALONE, ONE_CORE = True, False
TITLE = "Soak: a million rounds"
MEASURED = "tensorbandits.service.run"

ROUNDS, QUICK_ROUNDS, POINTS = 1_000_000, 4_000, 50
CROWD, MANY = 3, 100  # clients that ask for many at once, and for how many
SETTLED = 0.3  # of the rounds, after which memory must be flat: then all that is remembered is full
GROWTH = 0.1  # that is called flat


def plan(options: Options) -> list[Settings]:
    return [{"store": "sqlite", "rounds": QUICK_ROUNDS if options.quick else ROUNDS, "points": POINTS}]


def label(settings: Settings) -> str:
    return f"{settings['rounds']:,} rounds on {settings['store']}"


class Rounds:
    """How many rounds are to be played, and were; what waits were seen since somebody looked."""

    def __init__(self, wanted: int) -> None:
        self._lock = threading.Lock()
        self.wanted, self.taken, self.done = wanted, 0, 0
        self.asks: list[float] = []
        self.tells: list[float] = []
        self.failures: list[Exception] = []

    def take(self, count: int) -> int:
        """Return how many of so many may be played."""
        with self._lock:
            given = min(count, self.wanted - self.taken)
            self.taken += given
            return given

    def play(self, port: int, seed: int, count: int) -> None:
        """Play rounds until there are none left."""
        rng = random.Random(seed)
        try:
            with Caller([port], seed) as caller:
                while given := self.take(count):
                    ask, tell = _one(caller, rng) if count == 1 else _many(caller, rng, given)
                    with self._lock:
                        self.done += given
                        if count == 1:
                            self.asks.append(ask)
                            self.tells.append(tell)
        except Exception as error:
            self.failures.append(error)

    def waits(self) -> tuple[list[float], list[float]]:
        """Return the waits since the last call."""
        with self._lock:
            found, self.asks, self.tells = (self.asks, self.tells), [], []
        return found


def _context(rng: random.Random) -> dict[str, Any]:
    return {"context": {"segment": rng.choice(MODES["segment"])}}


def _one(caller: Caller, rng: random.Random) -> tuple[float, float]:
    began = time.perf_counter()
    decision = caller.patiently("POST", path("ask"), _context(rng))
    asked = time.perf_counter()
    caller.patiently("POST", path("tell"), {"id": decision["id"], "reward": _reward(decision, rng)})
    return asked - began, time.perf_counter() - asked


def _many(caller: Caller, rng: random.Random, count: int) -> tuple[float, float]:
    requests = {"requests": [_context(rng) for _ in range(count)]}
    decisions = caller.patiently("POST", path("ask-many"), requests)["decisions"]
    rewards = {"rewards": [{"id": one["id"], "reward": _reward(one, rng)} for one in decisions]}
    results = caller.patiently("POST", path("tell-many"), rewards)["results"]
    assert all(one["changed"] for one in results)
    return 0.0, 0.0


def _reward(decision: dict[str, Any], rng: random.Random) -> int:
    """A click, with a probability that depends on the offer."""
    return int(rng.random() < 0.02 * (1 + MODES["offer"].index(decision["arm"]["offer"])))


def measure(settings: Settings) -> Result:
    """Play, and look at the server every so many rounds."""
    with placed(settings["store"]) as place, serving(place, log_level="warning") as [service]:
        call(service, "POST", "/v1/bandits", BANDIT)
        rounds = Rounds(settings["rounds"])
        sizes = [MANY] * CROWD + [1]
        threads = [
            threading.Thread(target=rounds.play, args=(service.port, seed, size), daemon=True)
            for seed, size in enumerate(sizes)
        ]
        for thread in threads:
            thread.start()
        points = _watch(rounds, service, place, settings, threads)
        if rounds.failures:
            raise RuntimeError(f"a client failed: {rounds.failures[0]!r}")
        summary = call(service, "GET", path())
        counts = {name: summary[name] for name in ("decisions", "rewards", "waiting", "seq")}
        service.kill()
        began = time.monotonic()
        service.start().wait()
        restart = time.monotonic() - began
        again = call(service, "GET", path())
        same = all(again[name] == value for name, value in counts.items())
    return {"points": points, "counts": counts, "restart": restart, "same": same, "busy": processor()}


def _watch(
    rounds: Rounds, service: Service, place: Place, settings: Settings, threads: list[threading.Thread]
) -> list[dict[str, Any]]:
    """Return a point for every so many rounds."""
    points: list[dict[str, Any]] = []
    began = time.monotonic()
    step = settings["rounds"] / settings["points"]
    while any(thread.is_alive() for thread in threads) or len(points) < settings["points"]:
        alive = any(thread.is_alive() for thread in threads)
        if rounds.done < step * (len(points) + 1) and alive:
            time.sleep(0.05)
            continue
        asks, tells = rounds.waits()
        ran, _ = service.spent()
        point = {"rounds": rounds.done, "seconds": time.monotonic() - began, "megabytes": service.memory()}
        points.append(point | {"ran": ran, "asks": _quantiles(asks), "tells": _quantiles(tells), "disk": place.size()})
        print(points[-1], file=sys.stderr, flush=True)
        if not alive:
            break
    return points


def _quantiles(waits: list[float]) -> dict[str, float] | None:
    if not waits:
        return None
    p50, p99 = 1e3 * np.quantile(waits, [0.5, 0.99])
    return {"p50": float(p50), "p99": float(p99), "count": len(waits)}


def section(store: Store, options: Options) -> Findings:
    found = [(settings, result) for settings in plan(options) if (result := store.get(settings)) is not None]
    parts: list[Part] = [
        Text(
            f"One server on SQLite, with its defaults: {CROWD} clients ask and tell for {MANY} at once, one more one "
            "by one, until all rounds are played. Of every fiftieth of the rounds the figure shows the memory of the "
            f"server and the waits of the client that asks one by one. {SHARED}"
        ),
        command(NAME, *options.flags),
    ]
    for settings, result in found:
        parts += [
            Picture("soak", partial(figures.soak, result["points"]), "Memory and waits over the rounds."),
            Table(
                ["of", "then", "at the end", "beside"], _rows(settings, result["points"]), _caption(settings, result)
            ),
        ]
    return parts, [{**settings, **result} for settings, result in found]


def _caption(settings: Settings, result: Result) -> str:
    seconds = result["points"][-1]["seconds"]
    same = "the same" if result["same"] else "not the same"
    return (
        f"{settings['rounds']:,} rounds in {seconds / 60:,.0f} minutes, {settings['rounds'] / seconds:,.0f} a second. "
        f"Then the server was killed: it was ready again after {result['restart']:.1f} seconds, and knew {same}"
    )


def _rows(settings: Settings, points: list[dict[str, Any]]) -> list[list[str]]:
    """Compare the time after everything that is remembered was full with the end."""
    later = [point for point in points if point["rounds"] >= SETTLED * settings["rounds"]]
    fifth = max(len(later) // 5, 1)
    first, last = later[:fifth], later[-fifth:]
    rows = []
    for words, value, unit in (
        ("memory", lambda point: point["megabytes"], "MB"),
        ("ask, p50", lambda point: point["asks"] and point["asks"]["p50"], "ms"),
        ("ask, p99", lambda point: point["asks"] and point["asks"]["p99"], "ms"),
        ("tell, p50", lambda point: point["tells"] and point["tells"]["p50"], "ms"),
    ):
        then, end = (
            np.median([v for point in some if (v := value(point)) is not None] or [np.nan]) for some in (first, last)
        )
        rows.append([f"{words}, {unit}", f"{then:,.1f}", f"{end:,.1f}", _ratio(end, then)])
    rates = [(b["rounds"] - a["rounds"]) / max(b["ran"] - a["ran"], 1e-9) for a, b in pairwise(points)] or [np.nan]
    share = max(len(rates) // 5, 1)
    then, end = np.median(rates[share : 2 * share] or rates), np.median(rates[-share:])
    return [*rows, ["rounds per second that the server ran", f"{then:,.0f}", f"{end:,.0f}", _ratio(end, then)]]


def _ratio(end: float, then: float) -> str:
    """A ratio in words; a short run may have counted nothing."""
    return f"{end / then:.2f}" if then > 0 else "–"

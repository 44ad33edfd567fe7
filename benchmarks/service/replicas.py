"""Suite ``replicas``: two servers on one PostgreSQL, fed halves of the traffic, beside one server with all of it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.report import Findings, command
from benchmarks.service.folded import fold, ledger_of
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
from tensorbandits.report.page import Part, Table, Text
from tensorbandits.service.engine.loading import unpack
from tensorbandits.store import Store as Events

NAME = "replicas"
ALONE, ONE_CORE = True, False
TITLE = "Replicas: halves of the traffic, and all of it"
MEASURED = "tensorbandits.service.run"

SEEDS, ROUNDS, STREAMS = 24, 1_000, 2
AT_ONCE = 4  # worlds that are played side by side
NOISE = 0.5  # of a reward, where means have a standard deviation of 1
WITHIN = 1.2  # regret of a server with half of the traffic beside one with all
PAUSE = 0.02  # seconds of a stream between two rounds at least: learning is not to be outrun on a busy machine
_NEVER = 1e6  # seconds between snapshots: the only ones are those of the end
SHAPE = tuple(len(labels) for labels in MODES.values())


def plan(options: Options) -> list[Settings]:
    seeds, rounds = (2, 200) if options.quick else (SEEDS, ROUNDS)
    return [{"seeds": seeds, "rounds": rounds}]


def label(settings: Settings) -> str:
    return f"{settings['seeds']} worlds"


def means_of(seed: int) -> np.ndarray:
    """Return the mean reward of each cell, of rank 2."""
    rng = np.random.default_rng([seed, 17])
    factors = [1.0 + rng.standard_normal((size, 2)) for size in SHAPE]
    values = np.einsum("ia,ja,ka->ijk", *factors)
    return np.asarray(values / values.std())


class Stream:
    """Visitors of one server, one after the other."""

    def __init__(self, port: int, name: str, means: np.ndarray, rounds: int, seed: list[int]) -> None:
        self._port, self._name, self._means, self._rounds = port, name, means, rounds
        self._rng = np.random.default_rng(seed)
        self.regrets: list[float] = []
        self.best: list[bool] = []
        self.failure: Exception | None = None

    def play(self) -> None:
        try:
            with Caller([self._port]) as caller:
                for _ in range(self._rounds):
                    began = time.monotonic()
                    self._round(caller)
                    time.sleep(max(0.0, PAUSE - (time.monotonic() - began)))
        except Exception as error:
            self.failure = error

    def _round(self, caller: Caller) -> None:
        segment = int(self._rng.integers(SHAPE[0]))
        body = {"context": {"segment": MODES["segment"][segment]}}
        decision = caller.patiently("POST", path("ask", self._name), body)
        arm = [MODES[mode].index(decision["arm"][mode]) for mode in ("offer", "channel")]
        mean, most = self._means[segment, arm[0], arm[1]], self._means[segment].max()
        reward = float(mean + NOISE * self._rng.standard_normal())
        caller.patiently("POST", path("tell", self._name), {"id": decision["id"], "reward": reward})
        self.regrets.append(float(most - mean))
        self.best.append(bool(mean == most))


def play(services: list[Service], seeds: Sequence[int], rounds: int) -> list[list[Stream]]:
    """Play some worlds with a stream of visitors per server each; one server has all the streams."""
    worlds = []
    for seed in seeds:
        name, means = f"world-{seed}-{len(services)}", means_of(seed)
        given = {"name": name, "reward": "gaussian", "rank": 2}
        call(services[0], "POST", "/v1/bandits", BANDIT | given)
        ports = [services[at % len(services)].port for at in range(STREAMS)]
        each = rounds // STREAMS
        worlds.append([Stream(port, name, means, each, [seed, at]) for at, port in enumerate(ports)])
    threads = [threading.Thread(target=stream.play) for streams in worlds for stream in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for stream in (stream for streams in worlds for stream in streams):
        if stream.failure is not None:
            raise stream.failure
    return worlds


def measure(settings: Settings) -> Result:
    """Play every world with one server and with two; then compare what the two know."""
    worlds = []
    with placed("postgresql") as place, serving(place, 2, snapshot_interval=_NEVER) as services:
        for first in range(0, settings["seeds"], AT_ONCE):
            seeds = range(first, min(first + AT_ONCE, settings["seeds"]))
            ones = play(services[:1], seeds, settings["rounds"])
            twos = play(services, seeds, settings["rounds"])
            worlds += [
                {"one": _found(one), "two": _found(two), "each": [_found([stream]) for stream in two]}
                for one, two in zip(ones, twos, strict=True)
            ]
            print(worlds[-len(seeds) :], file=sys.stderr, flush=True)
        same, events = _same(place, services)
    return {"worlds": worlds, "same": same, "bandits": 2 * settings["seeds"], "events": events, "busy": processor()}


def _found(streams: list[Stream]) -> dict[str, float]:
    """Return the regret per decision, and the share of the best arm among the last quarter of the decisions."""
    last = [flag for stream in streams for flag in stream.best[-len(stream.best) // 4 :]]
    return {
        "regret": float(np.mean([one for stream in streams for one in stream.regrets])),
        "best": float(np.mean(last)),
    }


def _same(place: Place, services: list[Service]) -> tuple[int, int]:
    """Stop the servers one by one; return of how many bandits all knew the ledger that the log says, and the events."""
    folded: dict[str, Any] = {}
    with Events.open(place.url) as store:
        for row in store.bandits():
            folded[row.name] = fold(None, store.events(row.id))
        heads = {row.name: folded[row.name].state.seq for row in store.bandits()}
        _follow(services, heads)
        agreed = dict.fromkeys(folded, True)
        for service in services:
            store.drop_snapshots()  # so that what is found was known by this server
            service.stop()
            for row in store.bandits():
                found = store.snapshot(row.id)
                known = None if found is None else unpack(found[1])
                agreed[row.name] &= (
                    known is not None
                    and known.state.seq == heads[row.name]
                    and ledger_of(known) == ledger_of(folded[row.name])
                )
    return sum(agreed.values()), sum(heads.values())


def _follow(services: list[Service], heads: dict[str, int], seconds: float = 60.0) -> None:
    """Wait until all servers have folded the last event of each bandit."""
    end = time.monotonic() + seconds
    for service in services:
        for name, head in heads.items():
            while call(service, "GET", path(name=name))["seq"] != head and time.monotonic() < end:
                time.sleep(0.02)


def section(store: Store, options: Options) -> Findings:
    found = [(settings, result) for settings in plan(options) if (result := store.get(settings)) is not None]
    parts: list[Part] = [
        Text(
            f"{STREAMS} streams of visitors go to one server, or one to each of two servers on the same PostgreSQL; "
            f"there are {SHAPE[1]} x {SHAPE[2]} arms for {SHAPE[0]} segments, with means of rank 2 and a deviation of "
            f"1, and noise of {NOISE:g}. Regret is what the best arm would have earned more, per decision. It holds if "
            "two standard errors above the ratio do. After the last event each "
            f"server is stopped, and its ledger compared with the log folded from its beginning. {SHARED}"
        ),
        command(NAME, *options.flags),
    ]
    for settings, result in found:
        parts += [Table(["servers", "worlds", "regret per decision", "beside one server", "required", "verdict",
                         "best arm at the end"], _rows(settings, result, options))]  # fmt: skip
        parts += [
            Text(
                f"Both servers had the same ledger as the log for {result['same']} of {result['bandits']} bandits, "
                f"after {result['events']:,} events."
            )
        ]
    return parts, [{**settings, **result} for settings, result in found]


def _rows(settings: Settings, result: Result, options: Options) -> list[list[str]]:
    worlds = result["worlds"]
    one = np.array([world["one"]["regret"] for world in worlds])
    rows = [["one, all the traffic", one, None, [world["one"]["best"] for world in worlds]]]
    for words, pick in (
        ("two, half each", lambda world: world["two"]),
        ("the first of two", lambda world: world["each"][0]),
        ("the second of two", lambda world: world["each"][1]),
    ):
        some = np.array([pick(world)["regret"] for world in worlds])
        rows.append([words, some, some, [pick(world)["best"] for world in worlds]])
    written = []
    for words, regret, against, best in rows:
        beside, required, verdict = "", "", ""
        if against is not None:
            ratio = float(against.mean() / one.mean())
            error = float(np.std(against - ratio * one, ddof=1) / np.sqrt(len(one)) / one.mean())
            beside, required = f"{ratio:.2f} ± {error:.2f}", f"at most {WITHIN:g}"
            verdict = "none: too few" if options.quick else _verdict(ratio, error)
        written.append([words, str(settings["seeds"]), f"{regret.mean():.4f}", beside, required, verdict,
                        f"{np.mean(best):.0%}"])  # fmt: skip
    return written


def _verdict(ratio: float, error: float) -> str:
    if ratio + 2 * error <= WITHIN:
        return "holds"
    return "does not hold here" if ratio - 2 * error > WITHIN else "not decided"

"""Suite ``load``: durable decisions per second beside a route that does nothing, of the same server in the same run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from benchmarks.report import Findings, command
from benchmarks.run import ROOT
from benchmarks.service import figures
from benchmarks.service.served import BANDIT, SHARED, Service, call, placed, processor, serving
from benchmarks.service.shots import TELL_EVERY, TELL_MOST
from benchmarks.store import Options, Result, Settings, Store
from tensorbandits.report.page import Part, Picture, Table, Text

NAME = "load"
ALONE, ONE_CORE = True, False
TITLE = "Load: durable decisions beside a route that does nothing"
MEASURED = "tensorbandits.service.run"

CLIENTS, SLICES, SECONDS = 8, 20, 1.5
LEAST, MOST = 0.5, 5.0  # asks per no-op, and p99 of asks per p99 of no-ops
SCALES = 1.6  # what two servers should do beside one
KINDS = ("noop", "ask", "keyed")
WORDS = {"noop": "GET /healthz", "ask": "ask", "keyed": "ask with a key"}


def plan(options: Options) -> list[Settings]:
    size = {"slices": 2, "seconds": 0.5} if options.quick else {"slices": SLICES, "seconds": SECONDS}
    alone = [{"task": "ratio", "store": store, **size} for store in ("sqlite", "postgresql")]
    return alone + [{"task": "servers", "bandits": bandits, **size} for bandits in (1, 2)]


def label(settings: Settings) -> str:
    return f"{settings['task']}, {settings.get('store', 'two servers')}"


def measure(settings: Settings) -> Result:
    return ratio(settings) if settings["task"] == "ratio" else servers(settings)


@contextmanager
def generating(services: list[Service], names: list[str]) -> Iterator[Any]:
    """Yield a function that has a generator, in a process of its own, send requests for a while."""
    program = [sys.executable, "-m", "benchmarks.service.shots"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(program, cwd=ROOT, start_new_session=True, **pipes) as process:

        def shoot(what: str, seconds: float, ports: list[int]) -> Any:
            _write(process.stdin, {"what": what, "seconds": seconds, "ports": ports, "clients": CLIENTS})
            return json.loads(_line(process.stdout))

        try:
            ports = [service.port for service in services]
            _write(process.stdin, {"ports": ports, "clients": CLIENTS, "names": names})
            _line(process.stdout)
            yield shoot
        finally:
            process.kill()


def _line(pipe: Any) -> str:
    line: str = pipe.readline()
    if not line:
        raise RuntimeError("the generator ended")
    return line


def _write(pipe: Any, what: Any) -> None:
    pipe.write(json.dumps(what) + "\n")
    pipe.flush()


def ratio(settings: Settings) -> Result:
    """Send no-ops, asks, and asks with keys in turns, while rewards come and learning runs."""
    with placed(settings["store"]) as place, serving(place) as [service]:
        call(service, "POST", "/v1/bandits", BANDIT)
        with generating([service], [BANDIT["name"]]) as shoot:
            for what in KINDS:
                shoot(what, 1.0, [service.port])
            turns = [what for _ in range(settings["slices"]) for what in KINDS]
            slices = [_slice(shoot, service, what, settings["seconds"]) for what in turns]
    return {"kinds": {what: _kind([one for one in slices if one["what"] == what]) for what in KINDS},
            "busy": processor()}  # fmt: skip


def _slice(shoot: Any, service: Service, what: str, seconds: float) -> Result:
    before, _ = service.spent()
    found = shoot(what, seconds, [service.port])
    return found | {"ran": service.spent()[0] - before}


def _kind(slices: list[Result]) -> Result:
    """Return what the slices of a kind of request say together."""
    times = np.concatenate([one["times"] for one in slices])
    rates = [one["count"] / one["seconds"] for one in slices]
    milliseconds = 1e3 * np.quantile(times, [0.5, 0.9, 0.99, 0.999])
    return {
        "rate": float(np.median(rates)),
        "rates": rates,
        "count": len(times),
        "milliseconds": dict(zip(("p50", "p90", "p99", "p99.9"), milliseconds.tolist(), strict=True)),
        "server_microseconds": 1e6 * sum(one["ran"] for one in slices) / len(times),
        "generator_busy": float(np.mean([one["busy"] for one in slices])),
        "slice_p99": [float(1e3 * np.quantile(one["times"], 0.99)) for one in slices],
    }


def servers(settings: Settings) -> Result:
    """Send asks to one server and to two in turns; each server may have a bandit of its own."""
    names = [BANDIT["name"], "other"][: settings["bandits"]]
    with placed("postgresql") as place, serving(place, 2) as services:
        for name in names:
            call(services[0], "POST", "/v1/bandits", BANDIT | {"name": name})
        ports = [service.port for service in services]
        with generating(services, names) as shoot:
            shoot("ask", 1.0, ports)
            slices: dict[int, list[Result]] = {1: [], 2: []}
            for _ in range(settings["slices"]):
                for count, kept in slices.items():
                    kept.append(shoot("ask", settings["seconds"], ports[:count]) | {"ran": 0.0})
    found = {str(count): _kind(kept) for count, kept in slices.items()}
    return {"servers": found, "ratio": found["2"]["rate"] / found["1"]["rate"], "busy": processor()}


def section(store: Store, options: Options) -> Findings:
    found = [(settings, result) for settings in plan(options) if (result := store.get(settings)) is not None]
    ratios = [(settings["store"], result) for settings, result in found if settings["task"] == "ratio"]
    scaled = [(settings["bandits"], result) for settings, result in found if settings["task"] == "servers"]
    parts: list[Part] = [
        Text(
            f"{CLIENTS} clients send the next request as soon as they have the answer to the last, for slices of "
            f"{SECONDS:g} seconds in turns: a route that does nothing (`GET /healthz`), asks, and asks with an "
            "idempotency key. A decision is answered when it is durable (SQLite with `synchronous=FULL`, PostgreSQL "
            f"with `fsync`). All the while a ninth connection tells {TELL_MOST / TELL_EVERY:.0f} rewards a second in "
            "batches, so that rewards are written and learning runs in the slices of all kinds. Settings are the "
            f"defaults, but for the limit of requests a second. {SHARED}"
        ),
        command(NAME, *options.flags),
        Picture("load", partial(figures.load, ratios), "Decisions and no-ops per second, slice by slice."),
        Table(
            [
                "store",
                "requests",
                "a second",
                "beside no-ops",
                "p50 ms",
                "p99 ms",
                "p99 beside no-ops",
                "server's µs each",
                "generator ran",
            ],
            [_row(place, what, result) for place, result in ratios for what in KINDS],
            "Rates are medians of slices; the server's microseconds are those of all its threads, learning included",
        ),
        Table(["store", "required", "measured", "verdict"], [row for one in ratios for row in _verdicts(*one)]),
        Text(
            f"Two servers on one PostgreSQL should decide {SCALES:g} times what one does, where there are cores for "
            "them. Here two cores are shared by two servers, PostgreSQL and the generator."
        ),
        Table(
            ["bandits", "one server", "two servers", "ratio", "p99 ms of one", "p99 ms of two"],
            [_scaled(bandits, result) for bandits, result in scaled],
            "Asks a second; with two bandits each server decides for its own",
        ),
    ]
    return parts, {"ratios": dict(ratios), "servers": {str(bandits): result for bandits, result in scaled}}


def _row(place: str, what: str, result: Result) -> list[str]:
    kind, noop = result["kinds"][what], result["kinds"]["noop"]
    p50, p99 = (kind["milliseconds"][name] for name in ("p50", "p99"))
    beside = [f"{kind['rate'] / noop['rate']:.2f}", f"{p99 / noop['milliseconds']['p99']:.1f}"]
    numbers = [f"{kind['rate']:,.0f}", beside[0], f"{p50:.1f}", f"{p99:.1f}", beside[1]]
    return [place, WORDS[what], *numbers, f"{kind['server_microseconds']:,.0f}", f"{kind['generator_busy']:.0%}"]


def _verdicts(place: str, result: Result) -> list[list[str]]:
    noop, ask = result["kinds"]["noop"], result["kinds"]["ask"]
    rate = ask["rate"] / noop["rate"]
    tail = ask["milliseconds"]["p99"] / noop["milliseconds"]["p99"]
    verdicts = ["holds" if held else "does not hold here" for held in (rate >= LEAST, tail <= MOST)]
    return [
        [place, f"asks at least {LEAST:g} of no-ops", f"{rate:.2f}", verdicts[0]],
        [place, f"p99 at most {MOST:g} times that of no-ops", f"{tail:.1f}", verdicts[1]],
    ]


def _scaled(bandits: int, result: Result) -> list[str]:
    one, two = (result["servers"][count] for count in "12")
    rates = [f"{one['rate']:,.0f}", f"{two['rate']:,.0f}", f"{result['ratio']:.2f}"]
    return [str(bandits), *rates, *(f"{each['milliseconds']['p99']:.1f}" for each in (one, two))]

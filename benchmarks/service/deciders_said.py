"""What the suite ``deciders`` says of its measurements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.report import Findings, command
from benchmarks.service.served import SHARED
from benchmarks.service.staleness import beside
from benchmarks.store import Options, Result, Settings, Store
from tensorbandits.report.page import Part, Table, Text

TIMES, TAIL, SCALES, WITHIN = 20.0, 2.0, 1.7, 1.05  # what is required of rates, of p99, of two processes, of regret
Found = list[tuple[Settings, Result]]


def section(store: Store, options: Options) -> Findings:
    """Return what was measured, in tables, and the numbers."""
    from benchmarks.service.deciders import NAME, plan

    found = [(settings, result) for settings in plan(options) if (result := store.get(settings)) is not None]
    parts: list[Part] = [
        Text(
            "A decider draws from a published snapshot in its own process; the durable service writes each decision to "
            f"its log, on SQLite with `synchronous=FULL`, before it answers. {SHARED}"
        ),
        command(NAME, *options.flags),
    ]
    says = {"service": _rates, "processes": _processes, "server": _server, "swaps": _swaps, "cost": _costs}
    for task, say in {**says, "sizes": _sizes, "lost": _lost, "age": _ages}.items():
        some = [(settings, result) for settings, result in found if settings["task"] == task]
        parts += say(some, options) if some else []
    return parts, [{**settings, **result} for settings, result in found]


def _verdict(held: bool, options: Options) -> str:
    return "none: too few" if options.quick else "holds" if held else "does not hold here"


def _rates(found: Found, options: Options) -> list[Part]:
    [(settings, result)] = found
    fit, here, durable = result["fit"], np.median(result["decider"]), np.median(result["durable"])
    rows = [
        [f"decisions a second, at least {TIMES:g} times", f"{result['ratio']:.0f} times",
         _verdict(result["ratio"] >= TIMES, options)],
        ["frequencies of arms against the law, in 20 segments", f"chi-square {fit['statistic']:.0f} with "
         f"{fit['freedom']:.0f} degrees of freedom, p = {fit['p']:.2f}; the least of 20 segments {fit['least']:.3f}",
         _verdict(fit["p"] > 1e-3, options)],
        ["propensities logged, beside the law of their snapshot", f"at most {fit['wrong']:.0e} apart",
         _verdict(fit["wrong"] < 1e-9, options)],
    ]  # fmt: skip
    return [
        Text(
            f"In turns of {settings['seconds']:g} seconds, 8 clients ask the durable service as fast as it answers, "
            "and one process decides one by one, with a rule, floors of 5 %, a holdout of 5 % and a lake as its "
            "sink; it follows the snapshots of that same service. The time of a decider's turn ends when its last "
            f"decision lies in the lake. Medians: {durable:,.0f} decisions a second in the service, {here:,.0f} in "
            f"the decider ({result['microseconds']:.1f} µs of processor time each, with writing files). All "
            f"{result['made']:,} decisions were logged but {result['made'] - fit['decisions']:,.0f}, and "
            f"{result['dropped']:,} were dropped; {result['snapshots']} snapshots came."
        ),
        Table(["required", "measured", "verdict"], rows),
    ]


def _processes(found: Found, options: Options) -> list[Part]:
    [(_, result)] = found
    one, two = np.median(result["one"]), np.median(result["two"])
    spent = result["spent"]
    rows = [
        ["of the clock", f"{one:,.0f}", f"{two:,.0f}", f"{result['ratio']:.2f}", f"at least {SCALES:g}",
         _verdict(result["ratio"] >= SCALES, options)],
        ["of processor time", f"{np.median(spent['one']):,.0f}", f"{np.median(spent['two']):,.0f}",
         f"{result['by core']:.2f}", f"at least {SCALES:g}", _verdict(result["by core"] >= SCALES, options)],
    ]  # fmt: skip
    said = (
        f"Medians of turns, each until the last decision lies in the lake ({result['logged']:,} of "
        f"{result['made']:,} do); two processes need two cores that are free. What two processes decide in a second "
        f"of processor time each is what they do where nothing else runs. Now: {result['busy']}"
    )
    return [Table(["a second", "one process", "two processes", "ratio", "required", "verdict"], rows, said)]


def _server(found: Found, options: Options) -> list[Part]:
    [(_, result)] = found
    rows = []
    for what, words in (("noop", "GET /healthz"), ("ask", "ask")):
        one = result[what]
        rows.append([words, f"{one['rate']:,.0f}", *(f"{one['milliseconds'][p]:.1f}" for p in ("p50", "p99")),
                     f"{one['server_microseconds']:,.0f}"])  # fmt: skip
    said = (
        "One process of `tensorbandits decide` over HTTP, with a lake as its sink and 8 clients, which share its two "
        f"cores. Now: {result['busy']}"
    )
    return [Table(["requests to a decide server", "a second", "p50 ms", "p99 ms", "server's µs each"], rows, said)]


def _swaps(found: Found, options: Options) -> list[Part]:
    rows = []
    for settings, result in found:
        how = "as fast as it can" if not settings["pace"] else "one, then a pause of 1 ms"
        for name, words in (("still", "none"), ("swapped", "one a second")):
            one, control = result[name], result[f"{name} control"]
            tail, usual = np.median(one["tails"]), np.median(control["tails"])
            verdict = "" if settings["pace"] else _verdict(tail <= TAIL, options)
            rows.append(
                [how, f"{words}: {one['swaps']}", f"{one['count']:,}", f"{one['p50']:.1f}", f"{one['p99']:.1f}",
                 f"{one['p99.9']:,.1f}", f"{tail:.2f}", f"{usual:.2f}", verdict]
            )  # fmt: skip
    head = ["decides", "new snapshots", "decisions", "p50 µs", "p99 µs", "p99.9 µs", "p99 / p50", "of nothing"]
    said = (
        "Time of single decisions, with a lake as the sink. Ratios are medians of slices; `of nothing` is that of "
        "eight digests of 80 bytes, timed after each decision, which shows what other processes do to so short a "
        "time; after a pause the processor's caches are others'. Now: "
        + "; ".join(result["busy"] for _, result in found)
    )
    return [Table([*head, f"at most {TAIL:g}"], rows, said)]


def _costs(found: Found, options: Options) -> list[Part]:
    rows = []
    for settings, one in found:
        shape = " x ".join(f"{size:,}" for size in settings["shape"])
        shares = "5 % each" if settings["shares"] else "none"
        rows.append([shape, str(settings["rank"]), str(settings["rules"]), shares, f"{one['microseconds']:.1f}",
                     f"{one['new']:,.0f}", str(one["draws"]), _bytes(one["snapshot"]), f"{one['token']}"])  # fmt: skip
    head = ["combinations", "rank", "rules", "floors, holdout", "µs a decision", "µs, new request", "draws", "snapshot",
            "token"]  # fmt: skip
    said = (
        "Processor time of one core without a sink; a request is new the first time that a segment is asked for "
        "after a snapshot, which a decider does ahead for those of late; it takes longer with more draws. Tokens in "
        "characters"
    )
    return [Table(head, rows, said)]


def _bytes(count: float) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"


def _sizes(found: Found, options: Options) -> list[Part]:
    [(_, one)] = found
    rows = [
        [
            kind,
            f"{one['lake'][kind]:.0f}",
            f"{one['redis'][kind]:.0f}",
            f"{one['events'][kind]:,} in {one['files'][kind]}",
        ]
        for kind in ("decisions", "rewards")
    ]
    said = (
        f"A decision that waits for the sink takes {one['waiting']:.0f} bytes of memory; its token has {one['token']} "
        "characters"
    )
    return [Table(["events", "bytes in a lake", "bytes in Redis", "events and files of the lake"], rows, said)]


def _lost(found: Found, options: Options) -> list[Part]:
    [(_, result)] = found
    kills = result["kills"]
    lost = [one["made"] - one["logged"] for one in kills]
    twice = sum(one["twice"] for one in kills)
    return [
        Text(
            f"{len(kills)} deciders that decided as fast as they could, with a sink that writes every second or "
            "50,000 events, were killed (`SIGKILL`) after 1.5 to 4.5 seconds. Of "
            f"{sum(one['made'] for one in kills):,} decisions {sum(lost):,} were not in the lake, at most "
            f"{max(lost):,} of one decider, and {twice} were there twice; all files were whole."
        )
    ]


def _ages(found: Found, options: Options) -> list[Part]:
    parts: list[Part] = [
        Text(
            "The campaign of the tutorial (8 x 30 x 6, a rule, floors of 10 %, a holdout of 10 %, a window of 5 "
            "minutes, clicks 10 minutes late on average, one in 20 lost) at more visitors a second, without changes of "
            "levels. Decisions between two snapshots are drawn together, as they have one law. Learning in process is "
            "learning every 2 seconds, with the 16 draws of a bandit. An age of 0 to 10 s is a snapshot every 10 s "
            "that is used at once; 10 to 20 s, one that is used 10 s late. Until the first window ends, after 5 "
            "minutes, only clicks are known. Worlds are the same in all lines of a table. ± is a standard error of the "
            "ratio."
        )
    ]
    for rate, seconds in sorted({(settings["rate"], settings["seconds"]) for settings, _ in found}):
        worlds: dict[int, dict[str, Result]] = {}
        ways: dict[str, Settings] = {}
        for settings, result in found:
            if (settings["rate"], settings["seconds"]) == (rate, seconds):
                name = f"{settings['every']} {settings['late']} {settings['draws']}"
                ways[name] = settings
                worlds.setdefault(settings["seed"], {})[name] = result
        runs = [world for world in worlds.values() if world.keys() == ways.keys()]
        if not runs:
            continue
        first = next(iter(ways))
        head = ["age of snapshots, s", "draws", "regret a decision", "beside the first", "the policy's own",
                "beside the first", f"at most {WITHIN:g}"]  # fmt: skip
        said = (
            f"{len(runs)} campaigns of {seconds / 60:g} minutes at {rate:,} decisions a second "
            f"({rate * seconds:,} each); the best arm earns {np.mean([run[first]['possible'] for run in runs]):.3f}"
        )
        parts.append(Table(head, [_aged(runs, first, name, way, options) for name, way in ways.items()], said))
    return parts


def _aged(runs: list[Any], first: str, name: str, way: Settings, options: Options) -> list[str]:
    every, late = way["every"], way["late"]
    row = [f"{every * late:g} to {every * (late + 1):g}", str(way["draws"])]
    held = ""
    for which in ("regret", "own"):
        ratio, error = beside(runs, which, first, name)
        row.append(f"{np.mean([run[name][which] for run in runs]):.4f}")
        row.append("" if name == first else f"{ratio:.3f}" + ("" if math.isnan(error) else f" ± {error:.3f}"))
        if which == "regret" and name != first and way["every"] <= 10 and not math.isnan(error):
            held = _within(ratio, error, options)
    return [*row, held]


def _within(ratio: float, error: float, options: Options) -> str:
    if options.quick:
        return "none: too few"
    if ratio + 2.0 * error <= WITHIN:
        return "holds"
    return "does not hold here" if ratio - 2.0 * error > WITHIN else "not decided"

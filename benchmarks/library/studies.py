"""Suite ``studies``: what a study says of logs whose truth is known, whether policies agree, how long it takes."""

from __future__ import annotations

import resource
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.library.study_logs import NAMES, adverts, clicks, lucky
from benchmarks.report import Findings, command
from benchmarks.run import ROOT, python
from benchmarks.store import Options, Result, Settings, Store
from tensorbandits.report.evidence import amount, paired, show_ratio
from tensorbandits.report.page import Part, Table, Text

NAME = "studies"
ALONE = True
MEASURED = "tensorbandits.study"
TITLE = "Studies of logs whose truth is known"

ROWS, QUICK_ROWS = 300_000, 30_000
SEEDS, QUICK_SEEDS = 3, 1
SIZE = 0.5  # of the interactions
EXPECTED = {True: "Low rank is worth it here", False: "Main effects suffice"}
ROUNDS, QUICK_ROUNDS, RUNS = 50_000, 2_000, 3
OURS, BASELINE = "Thompson sampling, told nothing", "vectorized UCB"
PLAYERS = {
    OURS: "thompson:reward=bernoulli",
    "Thompson sampling, main effects only": "thompson:structure=additive,reward=bernoulli",
    BASELINE: "ucb",  # whose cells stand for themselves, as cell means do
}
TIMED_ROWS, QUARTER = 30_000, 0.25


def plan(options: Options) -> list[Settings]:
    """Verdicts, lucky cells, the advertiser's log and the policies on it, and the time beside another commit."""
    from benchmarks.library.against import resolve

    rows, seeds = (QUICK_ROWS, QUICK_SEEDS) if options.quick else (ROWS, SEEDS)
    rounds = QUICK_ROUNDS if options.quick else ROUNDS
    verdicts = [
        {"task": "verdict", "rows": rows, "interactions": size, "weekday": weekday, "seed": seed}
        for size in (SIZE, 0.0)
        for weekday in (False, True)
        for seed in range(seeds)
    ]
    fortunes = [{"task": "lucky", "seed": seed} for seed in range(seeds)]
    curve = [{"task": "adverts", "rounds": rounds, "seed": 0}]
    played = [
        {"task": "play", "policy": recipe, "rounds": rounds, "replication": i, "seed": 0}
        for i in range(1 if options.quick else RUNS)
        for recipe in PLAYERS.values()
    ]
    commits = ["", *([resolve(options.commit)] if options.commit else [])]
    times = [{"task": "time", "commit": commit, "rows": TIMED_ROWS, "quick": options.quick} for commit in commits]
    return [*verdicts, *fortunes, *curve, *played, *times]


def label(settings: Settings) -> str:
    return ", ".join(f"{name} {value}" if name != "task" else str(value) for name, value in settings.items())


def measure(settings: Settings) -> Result:
    task = {"verdict": _verdict, "lucky": _lucky, "adverts": _adverts, "play": _play, "time": _time}[settings["task"]]
    return task(settings)


def _verdict(settings: Settings) -> Result:
    """Profile a log of clicks, one row per impression."""
    from tensorbandits.data import from_log, profile

    weekday = settings["weekday"]
    table = clicks(settings["rows"], interactions=settings["interactions"], weekday=weekday, seed=settings["seed"])
    log = from_log(table, [*NAMES, *(["weekday"] if weekday else [])], "clicks")
    start = perf_counter()
    facts = profile(log)
    return {
        "words": facts.verdict,
        "suggested": str(facts.suggested),
        "gain": facts.gain,
        "seconds": perf_counter() - start,
    }


def _lucky(settings: Settings) -> Result:
    """Name the best cells of a log in which a few had one impression and one click."""
    from tensorbandits.data import from_log

    table, few = lucky(settings["seed"])
    log = from_log(table, ["a", "b", "c"], "clicks", trials="shown")
    result: dict[str, Any] = {}
    for name, shrinkage in (("raw", 0.0), ("steadied", None)):
        mean = log.world(shrinkage=shrinkage).mean
        best = [np.unravel_index(at, mean.shape) for at in np.argsort(mean, axis=None)[::-1][:10]]
        result[name] = sum(tuple(map(int, cell)) in few for cell in best)
        result[f"{name} best"] = float(mean.max())
    return result


def _adverts(settings: Settings) -> Result:
    """Profile the advertiser's log for a bandit that will have so many rounds."""
    from tensorbandits.data import profile

    start = perf_counter()
    facts = profile(_adverts_log(settings["seed"]), rewards=settings["rounds"])
    curve = facts.curve
    low = [str(structure) for structure in curve.candidates]
    points = [
        {"rewards": point.rewards}
        | {model: curve.learned(point, model) for model in ("main effects", "cell means")}
        | {"low rank": max(curve.learned(point, model) for model in low)}
        for point in curve.points
    ]
    return {
        "words": facts.verdict,
        "suggested": str(facts.suggested),
        "points": points,
        "seconds": perf_counter() - start,
    }


def _adverts_log(seed: int) -> Any:
    from tensorbandits.data import from_log

    return from_log(adverts(seed), ["campaign", "slot", "weekday"], "clicks", trials="shown")


def _play(settings: Settings) -> Result:
    """Let a policy choose campaigns, given slot and weekday, on the advertiser's rewards."""
    from tensorbandits.sim import Job, PolicyRecipe, run_job

    recipe = PolicyRecipe.parse(settings["policy"])
    shifted = recipe.policy == "ucb"  # whose bonus is made for noise of about 1
    world = _adverts_log(settings["seed"]).world(["slot", "weekday"], standardise=shifted)
    run = run_job(Job("log", str(recipe), settings["replication"], world, recipe, settings["rounds"]))
    return {"regret": world.scale * run.final, "seconds": run.seconds}


def _time(settings: Settings) -> Result:
    """Study a log with trials from the command line, as many times as it takes to be compiled: the second counts."""
    import pyarrow.parquet as pq

    from benchmarks.library.against import tree

    sources = tree(settings["commit"]) if settings["commit"] else ROOT / "src"
    with tempfile.TemporaryDirectory() as place:
        table = clicks(settings["rows"], interactions=SIZE, weekday=False, seed=0, most_shown=20)
        pq.write_table(table, Path(place) / "log.parquet")
        options = ["--modes", ",".join(NAMES), "--reward", "clicks", "--trials", "shown", "--jobs", "1"]
        arguments = ["-m", "tensorbandits", "study", f"{place}/log.parquet", *options]
        few = ["--rounds", "60", "--replications", "1"]
        for more in (few, few if settings["quick"] else []):
            start, used = perf_counter(), _children()
            done = python(*arguments, *more, "--out", f"{place}/{len(more)}{start}", PYTHONPATH=str(sources))
            if done.returncode:
                raise RuntimeError(f"the study failed:\n{done.stderr}")
    return {"seconds": perf_counter() - start, "cpu_seconds": _children() - used}


def _children() -> float:
    """The seconds of a processor that finished child processes have used."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def section(store: Store, options: Options) -> Findings:
    found = [(settings, result) for settings in plan(options) if (result := store.get(settings)) is not None]
    by_task: dict[str, list[tuple[Settings, Result]]] = {}
    for settings, result in found:
        by_task.setdefault(settings["task"], []).append((settings, result))
    parts: list[Part] = [
        Text(
            "Simulated logs of clicks, of which the truth is known: 8 x 30 x 6 levels with main effects and rank-2 "
            "interactions on the logistic scale, or none; a log in which a few cells have one impression and one "
            "click; and one like an advertiser's, of 25 million impressions."
        ),
        command(NAME, *options.flags),
    ]
    data: dict[str, Any] = {}
    for task, write in (
        ("verdict", verdict_rows),
        ("lucky", _fortunes),
        ("adverts", _curve),
        ("play", _played),
        ("time", _times),
    ):
        if task in by_task:
            said, numbers = write(by_task[task])
            parts += said
            data[task] = numbers
    return parts, data


Found = list[tuple[Settings, Result]]


def verdict_rows(found: Found) -> Findings:
    rows = []
    for settings, result in found:
        words = result["words"].replace("**", "")
        right = words.startswith(EXPECTED[settings["interactions"] > 0])
        rows.append(
            [
                f"{'rank-2' if settings['interactions'] else 'no'} interactions"
                + (", idle weekday" if settings["weekday"] else ""),
                str(settings["seed"]),
                words.partition(":")[0].partition(",")[0],
                "yes" if right else "NO",
                result["suggested"],
                f"{result['gain']:.0%}",
                f"{result['seconds']:.1f}",
            ]
        )
    header = ["log", "seed", "verdict", "right", "suggested", "gain", "seconds"]
    caption = f"{found[0][0]['rows']:,} rows of one impression each, for a bandit with 10,000 rewards"
    return [Table(header, rows, caption)], [row[3] == "yes" for row in rows]


def _fortunes(found: Found) -> Findings:
    rows = [
        [
            str(settings["seed"]),
            str(result["raw"]),
            f"{result['raw best']:.3f}",
            str(result["steadied"]),
            f"{result['steadied best']:.3f}",
        ]
        for settings, result in found
    ]
    header = ["seed", "raw: lucky among the ten best", "best mean", "steadied: lucky among the ten best", "best mean"]
    caption = "four cells of 600 with one impression and one click, where rates are about 2 %"
    return [Table(header, rows, caption)], [result for _, result in found]


def _curve(found: Found) -> Findings:
    settings, result = found[0]
    header = ["rewards", "main effects", "cell means", "low rank"]
    rows = [
        [f"{point['rewards']:,}", *(f"{100 * point[name]:.0f} %" for name in header[1:])] for point in result["points"]
    ]
    words = f"The advertiser's log, in {result['seconds']:.0f} seconds, for {settings['rounds']:,} rewards: "
    return [Text(words + result["words"]), Table(header, rows, "share of what can be learned")], result


def _played(found: Found) -> Findings:
    names = {recipe: name for name, recipe in PLAYERS.items()}
    regret = {
        recipe: np.array([result["regret"] for settings, result in found if settings["policy"] == recipe])
        for recipe in names
    }
    rows = [
        [names[recipe], str(len(values)), amount(float(values.mean())) if len(values) else "–"]
        for recipe, values in regret.items()
    ]
    theirs = regret[PLAYERS[BASELINE]]
    ratios = []
    for name in (name for name in PLAYERS if name != BASELINE):
        ours = regret[PLAYERS[name]]
        shared = min(len(ours), len(theirs))
        ratios.append(f"{name}: {show_ratio(paired(ours[:shared], theirs[:shared])) if shared else 'unknown'}")
    caption = f"clicks lost after {found[0][0]['rounds']:,} rounds on that log, given slot and weekday"
    parts: list[Part] = [
        Table(["policy", "runs", "regret"], rows, caption),
        Text(f"Ratios to {BASELINE}: {'; '.join(ratios)}."),
    ]
    return parts, {names[recipe]: values.tolist() for recipe, values in regret.items()}


def _times(found: Found) -> Findings:
    rows = [
        [settings["commit"][:9] or "now", f"{result['cpu_seconds']:.0f}", f"{result['seconds']:.0f}"]
        for settings, result in found
    ]
    parts: list[Part] = [
        Table(["code", "CPU seconds", "seconds"], rows, f"a study of {TIMED_ROWS:,} rows with trials, one process")
    ]
    if len(found) == 2:
        share = found[0][1]["cpu_seconds"] / found[1][1]["cpu_seconds"]
        parts.append(Text(f"That is {share:.2f} of the time before; at most {QUARTER} was asked for."))
    return parts, [result for _, result in found]

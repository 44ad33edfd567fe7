"""Suite ``rounds``: microseconds per round of each policy as rounds, sizes and ranks grow, beside plain NumPy."""

from __future__ import annotations

import math
from functools import partial
from time import perf_counter
from typing import Any

from benchmarks import figures
from benchmarks.report import Findings, command, dash
from benchmarks.store import Options, Result, Settings, Store
from benchmarks.timing import NOISE, POLICIES, SIGNAL, UNEVEN, game, per_round, warm_up, window
from tensorbandits.policies.approximate import ApproximateThompsonSampling
from tensorbandits.policies.registry import records
from tensorbandits.report.evidence import amount
from tensorbandits.report.page import Part, Picture, Table, Text

NAME = "rounds"
ALONE = True
TITLE = "Time per round"

SIZES = [{"p": p, "order": 3, "rank": 2} for p in (10, 15, 20, 50, 100)] + [{"p": 15, "order": 4, "rank": 2}]
RANKS = [{"p": 15, "order": 3, "rank": rank} for rank in (3, 4, 5)]
FULL = {"checkpoints": [100, 1_000, 10_000, 100_000], "budget": 20.0, "twin_budget": 3.0, "seed": 0}
QUICK = {"checkpoints": [100, 1_000, 10_000], "budget": 2.0, "twin_budget": 0.3, "seed": 0}
WORKING = 2_000  # a round at which elimination neither explores nor is done, at most of the sizes
QUICK_SIZES = [SIZES[0], SIZES[1]]
SAMPLING = [record.name for record in records() if issubclass(record.kind, ApproximateThompsonSampling)]


def plan(options: Options) -> list[Settings]:
    sizes, ranks, how = (QUICK_SIZES, [], QUICK) if options.quick else (SIZES, RANKS, FULL)
    cases = [{"policy": policy} | size | how for policy in POLICIES for size in sizes]
    cases += [{"policy": policy} | size | how for policy in SAMPLING for size in ranks]
    for case in cases:
        if case["policy"] == "elimination":
            case["checkpoints"] = sorted({*case["checkpoints"], WORKING})
    return cases


def label(settings: Settings) -> str:
    return f"{settings['policy']}, {problem(settings)}"


def problem(settings: Settings) -> str:
    return f"p = {settings['p']}, d = {settings['order']}, r = {settings['rank']}"


def measure(settings: Settings) -> Result:
    """Play until the last checkpoint or the end of the budget, and look at the rounds before each checkpoint."""
    policy, order, rank = settings["policy"], settings["order"], settings["rank"]
    checkpoints, left = settings["checkpoints"], settings["budget"]
    try:
        ours = game(policy, settings["p"], order=order, rank=rank, horizon=checkpoints[-1], seed=settings["seed"])
    except ValueError as error:
        return {"refused": str(error), "points": []}
    warm_up(policy, order=order, rank=rank)
    points, twins = [], {}
    for checkpoint in checkpoints:
        start = perf_counter()
        if not ours.play(checkpoint, left):
            break
        left -= perf_counter() - start
        point = {"round": checkpoint, "microseconds": per_round(policy, ours.times[-window(checkpoint) :])}
        twin, facts = _twin(ours, policy, settings["twin_budget"])
        twins[checkpoint] = twin
        points.append(point | facts)
    for point in points:
        twin = twins[point["round"]]
        if twin is not None and len(ours.cells) > point["round"]:
            point["agree"] = [ours.agrees(twin, point["round"]), min(len(twin.cells), len(ours.cells) - point["round"])]
    return {"played": len(ours.times), "points": points}


def _twin(ours: Any, policy: str, budget: float) -> tuple[Any, dict[str, Any]]:
    """Let the twin go on from here for a few rounds; return it and what it took."""
    from benchmarks.library.twins import TWINS, NoTwinError

    if policy not in TWINS:
        return None, {}
    try:
        twin = ours.beside(TWINS[policy](ours.player))
    except NoTwinError as reason:
        return None, {"no_twin": str(reason)}
    twin.play(2)  # the first one touches memory that is new, and is not counted
    twin.play(max(2, min(500, getattr(twin.player, "left", 500))), budget)
    twin.player = None  # its memory is free
    return twin, {"twin": per_round(policy, twin.times[1:]), "twin_rounds": len(twin.times) - 1}


def section(store: Store, options: Options) -> Findings:
    wanted = plan(options)
    parts: list[Part] = [*map(Text, _introduction(wanted[0])), command(NAME, *options.flags)]
    data: list[dict[str, Any]] = []
    for policy, name in POLICIES.items():
        cases = [(settings, store.get(settings)) for settings in wanted if settings["policy"] == policy]
        cases = [(settings, result) for settings, result in cases if result is not None]
        data += [{"settings": settings, **result} for settings, result in cases]
        parts += _table(name, cases)
    if any(case["points"] for case in data):
        twins = "for each policy and its plain twin"
        words = f"Microseconds per round against the round, {twins}, on 15 x 15 x 15 cells"
        parts.append(Picture("rounds", partial(figures.rounds, data), words))
        parts.append(
            Picture("sizes", partial(figures.sizes, data), f"Microseconds per round against the size, {twins}")
        )
    return parts, data


def _introduction(settings: Settings) -> tuple[str, str]:
    uneven = " and ".join(POLICIES[name] for name in UNEVEN)
    return (
        f"Microseconds that `ask` and `tell` take together, on the paper's problem (w = {SIGNAL:g}, noise {NOISE:g}, "
        f"seed {settings['seed']}), in the last 10 % of the rounds before the one named, at most 500: their median, "
        f"and for {uneven}, whose rounds are unlike each other, their mean. A run has {settings['budget']:g} seconds; "
        "a round it does not reach has a dash. Elimination and ESTR are given the last round as their horizon; "
        f"elimination is looked at in round {WORKING:,} too, since at the others it may explore or be done.",
        "Plain is a twin in NumPy that goes on from a copy of the same state, at the last round at which there is "
        "one: for the sampling policies with the same draws, row by row; for epoch-greedy with completions from the "
        "spectral start; for elimination and ESTR with a dense matrix over all cells and one rank-one change per pull.",
    )


def _table(name: str, cases: list[tuple[Settings, Result]]) -> list[Part]:
    checkpoints = cases[0][0]["checkpoints"]
    has_twin = any("twin" in point or "no_twin" in point for _, result in cases for point in result["points"])
    header = ["problem", *(f"round {checkpoint:,}" for checkpoint in checkpoints)]
    header += ["plain", "at round", "times faster"] if has_twin else []
    rows, notes = [], []
    for settings, result in cases:
        points = {point["round"]: point for point in result["points"]}
        row = [problem(settings), *(amount(points.get(c, {}).get("microseconds", math.nan)) for c in checkpoints)]
        if "refused" in result:
            notes.append(f"- {problem(settings)}: refused. {result['refused']}")
        if has_twin:
            row += _twin_columns(result["points"])
            notes += [f"- {problem(settings)}: {reason}" for reason in _no_twin(result["points"])]
        rows.append(row)
    return [Table(header, rows, f"{name[0].upper()}{name[1:]}"), *([Text("\n".join(notes))] if notes else [])]


def _no_twin(points: list[dict[str, Any]]) -> list[str]:
    """Why there is no twin, and at which rounds."""
    reasons: dict[str, list[str]] = {}
    for point in points:
        if "no_twin" in point:
            reasons.setdefault(point["no_twin"], []).append(f"{point['round']:,}")
    return [f"no twin at round {' and '.join(at)}, since {why}." for why, at in reasons.items()]


def _twin_columns(points: list[dict[str, Any]]) -> list[str]:
    timed = [point for point in points if "twin" in point]
    if not timed:
        return [dash] * 3
    last = timed[-1]
    ratio = last["twin"] / last["microseconds"]
    return [amount(last["twin"]), f"{last['round']:,}", f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.1f}"]

"""What a decision alone costs, apart from learning: beside one line of NumPy, and when cells are forbidden."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

import tensorbandits as tb
from benchmarks.library import restricted
from benchmarks.library.slices import NOISE, SIGNAL, paper_tucker
from benchmarks.report import dash
from benchmarks.store import Result, Settings
from benchmarks.timing import make, median_interval
from tensorbandits.policies.registry import find, records
from tensorbandits.report.evidence import amount, decide
from tensorbandits.report.page import Part, Table, Text

ARMS, RANK, HORIZON = 8_000, 2, 10_000
MOST = {20: 1.0, 1_000: 5.0}  # times the line, by levels of each of three modes
RESTRICTED = 3.0  # times the search among all cells
ROUNDS, QUICK_ROUNDS = 2_000, 200  # played before decisions are timed
TIMED, QUICK_TIMED = 500, 100
RULES, QUICK_RULES = 1_000, 100


def plan(quick: bool) -> list[Settings]:
    rounds, timed, rules = (QUICK_ROUNDS, QUICK_TIMED, QUICK_RULES) if quick else (ROUNDS, TIMED, RULES)
    decisions = [
        {"task": "decide", "policy": record.name, "p": p, "rounds": rounds, "timed": timed}
        for p in MOST
        for record in records()
        if record.refusal((p, p, p), RANK) is None
    ]
    return [*decisions, {"task": "restricted", "rank": RANK, "rules": rules, "size": restricted.SIZE, "seed": 0}]


def label(settings: Settings) -> str:
    if settings["task"] == "restricted":
        return f"{settings['rules']:,} forbidden pairs"
    return f"a decision of {settings['policy']}, p = {settings['p']:,}"


def measure(settings: Settings) -> Result:
    if settings["task"] == "restricted":
        return restricted.measure(*(settings[name] for name in ("rank", "rules", "size", "seed")))
    return decisions(settings)


def decisions(settings: Settings) -> Result:
    """Play, then time decisions in turns with the line; each decision is from what was just learned."""
    p, rounds, timed = settings["p"], settings["rounds"], settings["timed"]
    policy: Any = make(settings["policy"], (p, p, p), RANK, horizon=HORIZON)
    env = tb.TensorEnvironment(paper_tucker(p, SIGNAL, 3, RANK, seed=0), noise=NOISE, seed=0)
    rng = np.random.default_rng(0)
    n = rng.integers(1, 5, ARMS).astype(np.float64)
    mean, t = rng.standard_normal(ARMS), float(n.sum())
    times, lines = [], []
    for i in range(rounds + timed):
        if i >= rounds:
            policy.learn()
            query = policy.query()
            start = perf_counter()
            policy.decide(query)
            decided = perf_counter()
            int(np.argmax(mean + np.sqrt(2 * np.log(t) / n)))
            lines.append(1e6 * (perf_counter() - decided))
            times.append(1e6 * (decided - start))
        cell = policy.ask()
        policy.tell(cell, env.pull(cell))
    return {"decisions": times, "lines": lines}


def section(found: list[tuple[Settings, Result]]) -> tuple[list[Part], dict[str, Any]]:
    lines = [_line(settings, result) for settings, result in found if settings["task"] == "decide"]
    searches = [(settings, result) for settings, result in found if settings["task"] == "restricted"]
    parts = _decisions(lines) if lines else []
    parts += [_searches(settings, result) for settings, result in searches]
    return parts, {"decisions": lines, "searches": [result for _, result in searches]}


def _decisions(lines: list[dict[str, Any]]) -> list[Part]:
    header = ["policy", "p", "decide", "the line", "ratio", "95 % interval", "required", "verdict"]
    rows = [
        [
            find(line["policy"]).label,
            f"{line['p']:,}",
            amount(line["decide"]),
            amount(line["line"]),
            f"{line['ratio']:.2f}",
            " to ".join(f"{value:.2f}" for value in line["interval"]),
            f"at most {MOST[line['p']]:g}",
            line["verdict"],
        ]
        for line in lines
    ]
    words = (
        "A decision alone (`decide`, after `learn`; microseconds, medians) in turns with the one line of a "
        f"hand-written UCB, `int(np.argmax(mean + np.sqrt(2 * np.log(t) / n)))`, over {ARMS:,} arms: the median of the "
        "ratios of turns, and its 95 % interval."
    )
    return [Text(words), Table(header, rows, "Decisions alone")]


def _searches(settings: Settings, result: Result) -> Table:
    """Each search over the one among all cells; what is required is said of forbidden pairs."""
    rows = []
    for name, value in result.items():
        ratio = value / result["unrestricted"]
        row = [name, amount(value), f"{ratio:.2f}", dash, "reported"]
        if "pairs" in name:
            within = "holds" if ratio <= RESTRICTED else "does not hold here"
            verdict = within if settings["rules"] == RULES else f"none: of {settings['rules']:,} pairs"
            row[3:] = [f"at most {RESTRICTED:g}", verdict]
        rows.append(row)
    caption = (
        f"The best allowed of {settings['size']:,}^3 cells, rank {settings['rank']}, {settings['rules']:,} forbidden "
        "pairs of levels (microseconds, the least of many calls)"
    )
    return Table(["search", "time", "over unrestricted", "required", "verdict"], rows, caption)


def _line(settings: Settings, result: Result) -> dict[str, Any]:
    ratios = np.array(result["decisions"]) / np.array(result["lines"])
    interval = median_interval(ratios)
    return {
        "policy": settings["policy"],
        "p": settings["p"],
        "decide": float(np.median(result["decisions"])),
        "line": float(np.median(result["lines"])),
        "ratio": float(np.median(ratios)),
        "interval": list(interval),
        "verdict": decide([interval], MOST[settings["p"]]),
    }

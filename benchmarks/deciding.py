"""What a decision alone costs, apart from learning: beside one line of NumPy that a hand-written UCB needs."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

import tensorbandits as tb
from benchmarks.slices import NOISE, SIGNAL, paper_tucker
from benchmarks.store import Result, Settings
from benchmarks.timing import make, median_interval
from tensorbandits.evidence import amount, decide
from tensorbandits.policies.registry import find, records
from tensorbandits.report import Part, Table, Text

ARMS, RANK, HORIZON = 8_000, 2, 10_000
MOST = {20: 1.0, 1_000: 5.0}  # times the line, by levels of each of three modes
ROUNDS, QUICK_ROUNDS = 2_000, 200  # played before decisions are timed
TIMED, QUICK_TIMED = 500, 100


def plan(quick: bool) -> list[Settings]:
    rounds, timed = (QUICK_ROUNDS, QUICK_TIMED) if quick else (ROUNDS, TIMED)
    return [
        {"task": "decide", "policy": record.name, "p": p, "rounds": rounds, "timed": timed}
        for p in MOST
        for record in records()
        if hasattr(record.kind, "decide") and record.refusal((p, p, p), RANK) is None
    ]


def label(settings: Settings) -> str:
    return f"a decision of {settings['policy']}, p = {settings['p']:,}"


def measure(settings: Settings) -> Result:
    """Play, then time decisions in turns with the line; each decision is from what was just learned."""
    p, rounds, timed = settings["p"], settings["rounds"], settings["timed"]
    policy: Any = make(settings["policy"], (p, p, p), RANK, horizon=HORIZON)
    env = tb.TensorEnvironment(paper_tucker(p, SIGNAL, 3, RANK, seed=0), noise=NOISE, seed=0)
    rng = np.random.default_rng(0)
    n = rng.integers(1, 5, ARMS).astype(np.float64)
    mean, t = rng.standard_normal(ARMS), float(n.sum())
    decisions, lines = [], []
    for i in range(rounds + timed):
        if i >= rounds:
            policy.learn()
            query = policy.query()
            start = perf_counter()
            policy.decide(query)
            decided = perf_counter()
            int(np.argmax(mean + np.sqrt(2 * np.log(t) / n)))
            lines.append(1e6 * (perf_counter() - decided))
            decisions.append(1e6 * (decided - start))
        cell = policy.ask()
        policy.tell(cell, env.pull(cell))
    return {"decisions": decisions, "lines": lines}


def section(found: list[tuple[Settings, Result]]) -> tuple[list[Part], dict[str, Any]]:
    lines = [_line(settings, result) for settings, result in found if settings["task"] == "decide"]
    if not lines:
        return [], {"decisions": []}
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
    return [Text(words), Table(header, rows, "Decisions alone")], {"decisions": lines}


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

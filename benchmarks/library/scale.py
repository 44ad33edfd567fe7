"""Suite ``scale``: Thompson sampling on up to a billion cells, whose means are never written out."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import Any

import numpy as np

import tensorbandits as tb
from benchmarks import figures
from benchmarks.library.slices import paper_tucker
from benchmarks.report import Findings, command, dash
from benchmarks.run import peak_megabytes
from benchmarks.store import Options, Result, Settings, Store
from benchmarks.timing import Game, warm_up
from tensorbandits.report.evidence import amount
from tensorbandits.report.page import Part, Picture, Table, Text

NAME = "scale"
ALONE = True
TITLE = "Scale: up to a billion combinations"

RANK, SIGNAL, NOISE, WINDOW, ENOUGH = 2, 0.5, 1.0, 1_000, 0.9
ROUNDS = {100: 5_000, 300: 10_000, 1_000: 15_000}
SEEDS = 5
QUICK_ROUNDS = {100: 2_000, 300: 1_500, 1_000: 1_000}


def plan(options: Options) -> list[Settings]:
    rounds, count = (QUICK_ROUNDS, 1) if options.quick else (ROUNDS, SEEDS)
    seeds = range(options.seed, options.seed + count)
    problem = {"rank": RANK, "signal": SIGNAL, "noise": NOISE}
    return [{"p": p, "rounds": n, "seed": seed} | problem for p, n in rounds.items() for seed in seeds]


def label(settings: Settings) -> str:
    return f"{settings['p']:,}^3 cells, seed {settings['seed']}"


def measure(settings: Settings) -> Result:
    """Play all rounds; return times, memory, and mean rewards of the played cells as a share of the best's."""
    p, rounds, seed = settings["p"], settings["rounds"], settings["seed"]
    mean = paper_tucker(p, settings["signal"], 3, settings["rank"], seed)
    env = tb.TensorEnvironment(mean, noise=settings["noise"], seed=seed)
    warm_up("thompson", rank=settings["rank"])
    game = Game(tb.TensorThompsonSampling((p, p, p), settings["rank"], seed=seed), env)
    game.play(rounds)
    peak = peak_megabytes()  # before anything is evaluated
    times = 1e6 * np.array(game.times)
    share = mean.at(np.array(game.cells)) / env.best_mean()
    sums = np.concatenate([[0.0], np.cumsum(share)])
    window = min(WINDOW, rounds)
    trailing = (sums[window:] - sums[:-window]) / window  # of the rounds that end at window, window + 1, ..
    reached = np.flatnonzero(trailing >= ENOUGH)
    at = np.arange(window, rounds + 1, 100)
    blocks = [float(np.median(block)) for block in np.array_split(times, max(1, rounds // 1_000))]
    return {
        "median": float(np.median(times)),
        "mean": float(times.mean()),
        "slowest": float(times.max()),
        "by_1000": blocks,
        "peak_megabytes": peak,
        "share_at": at.tolist(),
        "share": [round(float(value), 5) for value in trailing[at - window]],
        "last": float(trailing[-1]),
        "reached": int(reached[0]) + window if len(reached) else None,
        "best_mean": env.best_mean(),
    }


def section(store: Store, options: Options) -> Findings:
    wanted = plan(options)
    found = [(settings, result) for settings in wanted if (result := store.get(settings)) is not None]
    sizes = [
        {"p": p, "rounds": group[0][0]["rounds"], "runs": [{"seed": s["seed"], **r} for s, r in group]}
        for p, group in ((p, list(group)) for p, group in groupby(found, key=lambda pair: pair[0]["p"]))
    ]
    seeds = len({settings["seed"] for settings in wanted})
    parts: list[Part] = [
        Text(
            f"Thompson sampling with its defaults, rank {RANK}, on the paper's tensors (w = {SIGNAL:g}, noise "
            f"{NOISE:g}), seeds from {options.seed}, {seeds} in all, each run in a process of its own. The best is the "
            f"mean reward of the best cell; what is averaged over the last {WINDOW:,} rounds are the mean rewards of "
            "the cells played, without noise."
        ),
        command(NAME, *options.flags),
        _table(sizes),
        _by_round(sizes),
        _needed(sizes),
    ]
    if sizes:
        words = "Share of the best cell's reward by round, for three sizes, with the range over seeds"
        parts.append(Picture("scale", partial(figures.scale, sizes), words))
    return parts, {"sizes": sizes}


def values(size: dict[str, Any], name: str) -> list[Any]:
    return [run[name] for run in size["runs"]]


def _table(sizes: list[dict[str, Any]]) -> Table:
    header = [
        "cells",
        "rounds",
        "median round (µs)",
        "mean round (µs)",
        "peak memory (MB)",
        "last 1,000: share of the best",
    ]
    header.append("worst seed")
    rows = [
        [
            f"{size['p']:,} x {size['p']:,} x {size['p']:,}",
            f"{size['rounds']:,}",
            amount(float(np.median(values(size, "median")))),
            amount(float(np.mean(values(size, "mean")))),
            amount(max(values(size, "peak_megabytes"))),
            f"{np.mean(values(size, 'last')):.1%}",
            f"{min(values(size, 'last')):.1%}",
        ]
        for size in sizes
    ]
    return Table(header, rows)


def _by_round(sizes: list[dict[str, Any]]) -> Table:
    marks = [1_000, 2_000, 5_000, 10_000, 15_000]
    rows = []
    for size in sizes:
        blocks = np.median(np.array(values(size, "by_1000")), axis=0)
        cells = [amount(blocks[m // 1_000 - 1]) if m <= 1_000 * len(blocks) else dash for m in marks]
        rows.append([f"{size['p']:,}^3", *cells])
    caption = "Time of a round as rounds go by, the median of each thousand (microseconds, the median over seeds)"
    return Table(["cells", *(f"up to round {m:,}" for m in marks)], rows, caption)


def _needed(sizes: list[dict[str, Any]]) -> Table:
    rows = []
    for size in sizes:
        parameters = 3 * size["p"] * RANK
        reached = [round_ for round_ in values(size, "reached") if round_ is not None]
        enough = len(reached) * 2 > len(size["runs"])
        median = float(np.median(reached)) if enough else None
        rows.append(
            [
                f"{size['p']:,}^3",
                f"{parameters:,}",
                dash if median is None else f"{median:,.0f}",
                f"{min(reached):,} to {max(reached):,}" if reached else dash,
                dash if median is None else f"{median / parameters:.2g}",
                f"{len(reached)} of {len(size['runs'])}",
            ]
        )
    caption = (
        f"Rounds until the last {WINDOW:,} earned {ENOUGH:.0%} of the best, beside the number of parameters, the sum "
        "of p_j r_j over the modes"
    )
    header = ["cells", "parameters", "rounds (median)", "over seeds", "rounds per parameter", "seeds that got there"]
    return Table(header, rows, caption)

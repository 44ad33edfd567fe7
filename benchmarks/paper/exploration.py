"""Suite ``exploration``: what a lower temperature of Thompson sampling buys in the median, and costs in the tail.

It plays on the beds of the suite ``beds``, told nothing but the kind of reward. The default was chosen by it, so its
worlds are those of the seeds 0, 1, .., and not those on which the default is judged.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import figures
from benchmarks.paper import beds
from benchmarks.paper.bed_lines import BEDS, OURS
from benchmarks.report import Findings, command
from benchmarks.store import Options
from tensorbandits.report.evidence import amount
from tensorbandits.report.page import Part, Picture, Table, Text
from tensorbandits.sim.compare import Comparison
from tensorbandits.sim.recipes import PolicyRecipe

NAME = "exploration"
TITLE = "Exploration: the median against the tail"

TEMPERATURES = (1.0, 0.5, 0.25, 0.1)  # the first is the posterior itself
ALL = "geometric mean"
RATIOS = ("median_ratio", "worst_ratio")


def choose(options: Options) -> list[str]:
    """Return the beds named, or the usual ones; raise for one that is unknown."""
    return list(beds.choose(replace(options, only="")))


def run(options: Options, folder: Path, jobs: int) -> Comparison:
    """Play what is missing in the folder, bed by bed."""
    recipes = {
        bed: {
            f"{value:g}": PolicyRecipe("thompson", BEDS[bed].lines[OURS].settings | {"exploration": value})
            for value in TEMPERATURES
        }
        for bed in choose(options)
    }
    return beds.play(recipes, options.seed, options, folder, jobs)


def section(comparison: Comparison, options: Options) -> Findings:
    """Report the trade as a figure and as a table."""
    rows = trade(comparison)
    parts: list[Part] = [
        Text(
            "Thompson sampling, told nothing but the kind of reward, at temperatures from 1, the posterior itself, "
            "down: the median and the worst of the final regrets, both over the median at temperature 1. Replication i "
            f"plays in the world of seed {options.seed} + i."
        ),
        command(NAME, *options.flags, *_extra(options)),
        Picture("exploration", partial(figures.trade, rows), "Median and worst final regret by temperature."),
        table(rows),
    ]
    return parts, {"seed": options.seed, "rows": rows}


def trade(comparison: Comparison) -> list[dict[str, Any]]:
    """The median and the worst of each bed and temperature, over the median at the first one, and their means."""
    rows = []
    for bed in comparison.environments:
        first = float(np.median(comparison.at(comparison.policies[0], bed)))
        for line in comparison.policies:
            values = comparison.at(line, bed)
            row = {"bed": bed, "exploration": float(line), "replications": len(values), "mean": float(values.mean())}
            row |= {"median": float(np.median(values)), "worst": float(values.max())}
            rows.append(row | {"median_ratio": row["median"] / first, "worst_ratio": row["worst"] / first})
    for line in comparison.policies:
        here = [row for row in rows if row["exploration"] == float(line)]
        means = {name: float(np.exp(np.mean(np.log([row[name] for row in here])))) for name in RATIOS}
        rows.append({"bed": ALL, "exploration": float(line)} | means)
    return rows


def table(rows: list[dict[str, Any]]) -> Table:
    """The rows in words."""
    header = ["bed", "exploration", "replications", "mean", "median", "worst", "median / that at 1", "worst / that"]
    lines = []
    for row in rows:
        counted = [str(row.get("replications", ""))]
        counted += [amount(row[name]) if name in row else "" for name in ("mean", "median", "worst")]
        lines.append([row["bed"], f"{row['exploration']:g}", *counted, *(f"{row[name]:.2f}" for name in RATIOS)])
    return Table(header, lines, "Final regret by temperature")


def _extra(options: Options) -> Iterable[str]:
    usual = Options()
    names = ("beds", "seed", "replications", "slow_replications")
    return [
        f"--{name.replace('_', '-')} {getattr(options, name)}"
        for name in names
        if getattr(options, name) != getattr(usual, name)
    ]

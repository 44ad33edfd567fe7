"""Suite ``regret``: final regrets of every policy on the paper's smaller problem, beside what is required of them.

p = 15, w = 0.5, noise 1, true rank 2, n = 10,000 rounds; replication i plays on the tensor of seed i (with --seed s,
of seed s + i: tensors on which no default was chosen). Runs are those of ``tensorbandits.compare``, which keeps them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import Findings, command, dash
from benchmarks.store import Options, read_lines
from benchmarks.timing import median_interval
from tensorbandits.policies.registry import find
from tensorbandits.report.evidence import FEW, amount, decide, paired, student
from tensorbandits.report.page import Part, Table, Text
from tensorbandits.sim.compare import Comparison, compare
from tensorbandits.sim.recipes import PaperWorld, PolicyRecipe
from tensorbandits.sim.where import Where

NAME = "regret"
TITLE = "Final regret"

WORLD, ROUNDS = PaperWorld(p=15, signal=0.5, rank=2), 10_000
QUICK_ROUNDS, QUICK_REPLICATIONS, QUICK_SLOW = 2_000, 3, 1
REFERENCE = Path(__file__).parent / "reference" / "regret.jsonl"
SAME = 1e-9  # relative difference of final regrets that count as the same
SLOW = ("elimination", "estr")  # policies that may have fewer replications
ESTR_GRID = (0.1, 0.01, 0.001)
KNOWN: dict[str, Any] = {"rank": WORLD.rank}

# The lines of the table: the recipe, and what is special about it.
ENTRIES: dict[str, tuple[PolicyRecipe, str]] = {
    "thompson": (PolicyRecipe("thompson", KNOWN), "defaults"),
    "thompson-3": (PolicyRecipe("thompson", {"rank": 3}), "rank 3"),
    "thompson-4": (PolicyRecipe("thompson", {"rank": 4}), "rank 4"),
    "thompson-auto": (PolicyRecipe("thompson", {"rank": "auto"}), 'rank "auto"'),
    "ensemble": (PolicyRecipe("ensemble", KNOWN), "defaults"),
    "ensemble-paper": (PolicyRecipe("ensemble", KNOWN | {"paper": True}), "paper"),
    "epoch-greedy": (PolicyRecipe("epoch-greedy", KNOWN), "defaults"),
    "epoch-greedy-paper": (PolicyRecipe("epoch-greedy", KNOWN | {"paper": True}), "paper"),
    "ucb": (PolicyRecipe("ucb"), "defaults"),
    "elimination": (PolicyRecipe("elimination", KNOWN), "defaults"),
    "elimination-paper": (PolicyRecipe("elimination", KNOWN | {"paper": True}), "paper"),
    "estr": (PolicyRecipe("estr", KNOWN), "radius x 1 (theory)"),
} | {f"estr-{m}": (PolicyRecipe("estr", KNOWN | {"multiplier": m}), f"radius x {m}") for m in ESTR_GRID}


@dataclass(frozen=True)
class Requirement:
    """The mean or median of a policy's final regrets, or its mean over another's, must lie within bounds.

    ``"tail"`` is the worst of them over the median. Means, medians and ratios of means are judged by 95 % intervals, as
    :mod:`tensorbandits.report.evidence` says; a tail is what it was, from some replications on.
    """

    text: str
    policy: str
    statistic: str
    most: float
    least: float = 0.0
    over: str = ""

    @property
    def policies(self) -> set[str]:
        return {self.policy, self.over or self.policy}

    @property
    def bounds(self) -> str:
        return f"{self.least:,g} to {self.most:,g}" if self.least else f"at most {self.most:,g}"

    def measure(self, finals: dict[str, np.ndarray]) -> tuple[float, tuple[float, float]]:
        """The number and its interval, NaN where there is none."""
        mine = finals[self.policy]
        if self.over:
            count = min(len(mine), len(finals[self.over]))
            pair = paired(mine[:count], finals[self.over][:count])
            return pair.ratio, pair.interval
        if self.statistic == "mean":
            mean, half = student(mine)
            return mean, (mean - half, mean + half)
        middle = float(np.median(mine))
        if self.statistic == "median":
            return middle, median_interval(mine)
        tail = float(mine.max()) / middle
        return tail, (tail, tail) if len(mine) >= FEW else (math.nan, math.nan)

    def verdict(self, interval: tuple[float, float]) -> str:
        low, high = interval
        return decide([(low - self.most, high - self.most), (self.least - high, self.least - low)])


REQUIREMENTS = [
    Requirement("Thompson: mean", "thompson", "mean", 1_900),
    Requirement("Thompson: worst over median", "thompson", "tail", 3),
    Requirement("ensemble, paper: median", "ensemble-paper", "median", 2_300),
    Requirement("ensemble: mean", "ensemble", "mean", 2_700),
    Requirement("ensemble: worst over median", "ensemble", "tail", 3),
    Requirement("elimination: mean over that of UCB", "elimination", "mean", 0.5, over="ucb"),
    Requirement("UCB: mean", "ucb", "mean", 24_000, least=19_000),
    Requirement("Thompson, rank 3: mean over rank 2's", "thompson-3", "mean", 2, over="thompson"),
    Requirement("Thompson, rank 4: mean over rank 2's", "thompson-4", "mean", 2, over="thompson"),
    Requirement("Thompson, rank auto: mean over rank 2's", "thompson-auto", "mean", 1.5, over="thompson"),
]


def label(key: str) -> str:
    recipe, words = ENTRIES[key]
    return f"{find(recipe.policy).label}, {words}"


def choose(options: Options) -> list[str]:
    """Return the entries named, or all of them; raise for one that is unknown or cannot play so few rounds."""
    keys = [key.strip() for key in options.only.split(",") if key.strip()] or list(ENTRIES)
    unknown = [key for key in keys if key not in ENTRIES]
    if unknown:
        raise ValueError(f"--only: {', '.join(unknown)} unknown; choose from {', '.join(ENTRIES)}")
    for key in keys:
        try:
            ENTRIES[key][0].make(WORLD(0), rounds_of(options))
        except ValueError as error:
            raise ValueError(f"--rounds {options.rounds} is too few for {key}: {error}") from None
    return [key for key in ENTRIES if key in keys]


def rounds_of(options: Options) -> int:
    return QUICK_ROUNDS if options.quick else options.rounds


def run(options: Options, folder: Path, jobs: int) -> Comparison:
    """Play what is missing in the folder; the quick policies first."""
    chosen = choose(options)
    counts = (QUICK_REPLICATIONS, QUICK_SLOW) if options.quick else (options.replications, options.slow_replications)
    runs = []
    for slow, count in enumerate(counts):
        recipes = {key: ENTRIES[key][0] for key in chosen if (ENTRIES[key][0].policy in SLOW) == bool(slow)}
        if recipes:
            runs += compare(
                recipes,
                {"paper": WORLD},
                horizon=rounds_of(options),
                replications=count,
                seed=options.seed,
                where=Where(jobs),
                folder=folder,
                progress=True,
            ).runs
    return Comparison(tuple(run for key in chosen for run in runs if run.policy == key))


def section(comparison: Comparison, options: Options) -> Findings:
    rounds = rounds_of(options)
    finals = {key: comparison.at(key) for key in comparison.policies}
    given, before = judge(finals) if rounds == ROUNDS else [], beside_reference(finals, options)
    first = f"{options.seed} + " if options.seed else ""
    parts: list[Part] = [
        Text(
            f"{WORLD.p} x {WORLD.p} x {WORLD.p} cells, w = {WORLD.signal}, noise {WORLD.noise:g}, rank {WORLD.rank}, "
            f"{rounds:,} rounds; replication i plays on the tensor of seed {first}i, and every policy meets the same "
            "noise. Times are of runs side by side, and of some the first use of compiled code; the next section has "
            "better ones."
        ),
        command(NAME, *options.flags, *_extra(options)),
        _table(comparison),
    ]
    tuned = {m: finals[f"estr-{m}"] for m in ESTR_GRID if f"estr-{m}" in finals}
    if tuned:
        best = min(tuned, key=lambda m: tuned[m].mean())
        parts.append(
            Text(
                f"ESTR tuned in hindsight: of the radius multipliers {', '.join(map(str, tuned))} the best is "
                f"{best}, with mean {tuned[best].mean():,.0f} ({len(tuned[best])} replications)."
            )
        )
    if rounds != ROUNDS:
        parts.append(Text(f"The requirements are stated for {ROUNDS:,} rounds, so none is checked here."))
    parts += [verdict_table(given)] if given else []
    parts += [_before_table(before)] if before else []
    # JSON has no NaN, so a standard error of one replication is left out
    lines = [{k: v for k, v in asdict(row).items() if v == v} for row in comparison.table()]
    return parts, {
        "rounds": rounds,
        "seed": options.seed,
        "rows": lines,
        "requirements": given,
        "previous": before,
    }


def _extra(options: Options) -> Iterable[str]:
    given = {"--only": options.only, "--rounds": options.rounds, "--seed": options.seed}
    given |= {"--replications": options.replications, "--slow-replications": options.slow_replications}
    usual = {"--only": "", "--rounds": ROUNDS, "--seed": 0, "--replications": 30, "--slow-replications": 30}
    return [f"{name} {value}" for name, value in given.items() if value != usual[name]]


def _table(comparison: Comparison) -> Table:
    header = ["policy", "replications", "mean", "standard error", "median", "worst", "microseconds per round"]
    lines = []
    for row in comparison.table():
        numbers = (row.mean, row.standard_error, row.median, row.worst, row.microseconds)
        lines.append([label(row.policy), str(row.replications), *map(amount, numbers)])
    return Table(header, lines)


def judge(finals: dict[str, np.ndarray], requirements: Iterable[Requirement] = REQUIREMENTS) -> list[dict[str, Any]]:
    """Return each requirement that was measured, with its number, its interval, and whether it holds."""
    result = []
    for requirement in requirements:
        if requirement.policies <= finals.keys():
            value, interval = requirement.measure(finals)
            result.append(
                {
                    "requirement": requirement.text,
                    "bounds": requirement.bounds,
                    "value": value,
                    "interval": None if math.isnan(interval[0]) else list(interval),
                    "replications": min(len(finals[key]) for key in requirement.policies),
                    "verdict": requirement.verdict(interval),
                }
            )
    return result


def verdict_table(given: list[dict[str, Any]]) -> Table:
    lines = []
    for line in given:
        interval = line["interval"]
        shown = dash if interval is None or interval[0] == interval[1] else " to ".join(map(amount, interval))
        number = amount(line["value"])
        lines.append([line["requirement"], number, shown, line["bounds"], str(line["replications"]), line["verdict"]])
    header = ["requirement", "value", "95 % interval", "required", "replications", "verdict"]
    return Table(header, lines, "What is required")


def beside_reference(finals: dict[str, np.ndarray], options: Options) -> list[dict[str, Any]]:
    """Return, per policy, final regrets beside those of release 0.1.0, if its file is there."""
    if rounds_of(options) != ROUNDS or options.seed:
        return []
    old = {(r["policy"], int(r["replication"])): float(r["final"]) for r in read_lines(REFERENCE) if "final" in r}
    lines = []
    for key, values in finals.items():
        pairs = [(old[key, i], value) for i, value in enumerate(values) if (key, i) in old]
        if pairs:
            before, after = np.array(pairs).T
            same = int((np.abs(after - before) <= SAME * np.abs(before)).sum())
            line = {"policy": key, "replications": len(pairs), "same": same}
            lines.append(line | {"before": float(before.mean()), "after": float(after.mean())})
    return lines


def _before_table(lines: list[dict[str, Any]]) -> Table:
    header = ["policy", "replications", "mean before", "mean now", "now / before", "the same to 1e-9"]
    rows = [
        [
            label(line["policy"]),
            str(line["replications"]),
            amount(line["before"]),
            amount(line["after"]),
            f"{line['after'] / line['before']:.3f}",
            f"{line['same']} of {line['replications']}",
        ]
        for line in lines
    ]
    return Table(header, rows, "Beside the previous release, on the replications that both have")

"""Suite ``beds``: Thompson sampling that is told nothing but the kind of reward, on beds of many kinds.

Beside it play the paper's ensemble sampling, which is told the rank, UCB, separate arms (clicks), main effects alone,
and a menu of fixed structures. Replication i plays in the world of seed 12000 + i, past those that were looked at
before the defaults were settled: no default was chosen on it.
Runs are those of ``tensorbandits.compare``, which keeps them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.paper.bed_findings import section
from benchmarks.paper.bed_lines import BEDS, LABELS, MENU, OTHERS, first_seed
from benchmarks.store import Options
from tensorbandits.report.evidence import amount
from tensorbandits.report.page import Table
from tensorbandits.sim.compare import Comparison, compare
from tensorbandits.sim.jobs import EnvironmentFactory, Run
from tensorbandits.sim.recipes import PolicyRecipe
from tensorbandits.sim.results import read_runs
from tensorbandits.sim.where import Where

__all__ = ["NAME", "TITLE", "choose", "run", "section"]

NAME = "beds"
TITLE = "Told nothing, on beds of many kinds"

LONG, QUICK_ROUNDS, QUICK_REPLICATIONS = 10_000, 300, 2  # beds of more rounds than the first are long
PROBE_TOLD, PROBE_PLAYED = 10_000, 20  # rounds, at most, from which the time of a run is estimated


def choose(options: Options) -> dict[str, list[str]]:
    """Return the lines to play in each bed; raise for a bed or a line that is unknown."""
    named, only = ([name.strip() for name in text.split(",") if name.strip()] for text in (options.beds, options.only))
    for flag, given, known in (("--beds", named, list(BEDS)), ("--only", only, list(LABELS))):
        if unknown := [name for name in given if name not in known]:
            raise ValueError(f"{flag}: {', '.join(unknown)} unknown; choose from {', '.join(known)}")
    beds = [name for name, bed in BEDS.items() if (name in named if named else bed.usual)]
    chosen = {name: [line for line in BEDS[name].lines if not only or line in only] for name in beds}
    if empty := [name for name, lines in chosen.items() if not lines]:
        raise ValueError(
            f"--only {options.only} leaves nothing to play in {', '.join(empty)}; name another bed or line"
        )
    return chosen


def rounds_of(name: str, options: Options) -> int:
    return QUICK_ROUNDS if options.quick else BEDS[name].rounds


def replications_of(name: str, line: str, options: Options) -> int:
    """How often a line is played in a bed: a menu line and a long bed may be played less often."""
    if options.quick:
        return QUICK_REPLICATIONS
    most = [options.replications]
    most += [options.menu_replications] if line in MENU else []
    most += [options.slow_replications] if BEDS[name].rounds > LONG else []
    return min(most)


def run(options: Options, folder: Path, jobs: int) -> Comparison:
    """Play what is missing in the folder, bed by bed."""
    chosen = choose(options)
    if not options.quick:
        Console(stderr=True).print(cost(chosen, options, jobs).markdown(), markup=False)
    recipes = {bed: {line: BEDS[bed].lines[line] for line in lines} for bed, lines in chosen.items()}
    return play(recipes, first_seed(options.fresh_seed), options, folder, jobs)


def play(
    recipes: Mapping[str, Mapping[str, PolicyRecipe]],
    seed: int,
    options: Options,
    folder: Path,
    jobs: int,
) -> Comparison:
    """Play recipes by bed and line, from a seed on, as often as the options say; the other policies apart from ours."""
    runs: list[Run] = []
    for bed, lines in recipes.items():
        groups: dict[tuple[str, int], dict[str, PolicyRecipe]] = {}
        for line, recipe in lines.items():
            role = "others" if line in OTHERS else "ours"
            groups.setdefault((role, replications_of(bed, line, options)), {})[line] = recipe
        for (role, count), some in groups.items():
            place, rounds = folder / bed / role, rounds_of(bed, options)
            kept = read_kept(place, some, rounds, count, seed) if options.keep and role == "others" else []
            runs += (
                kept
                or compare(
                    some,
                    {bed: BEDS[bed].world},
                    horizon=rounds,
                    replications=count,
                    seed=seed,
                    where=Where(1 if options.quick else jobs),  # starting processes takes longer than a quick run
                    folder=place,
                    progress=not options.quick,
                ).runs
            )
    return Comparison(tuple(runs))


def read_kept(folder: Path, lines: Collection[str], rounds: int, count: int, seed: int) -> list[Run]:
    """Return the runs of the last comparison in a folder if it was of these lines and rounds, whatever the code was."""
    file = folder / "comparison.json"
    said = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if (said.get("horizon"), said.get("seed")) != (rounds, seed) or said["replications"] < count:
        return []
    if not set(lines) <= {policy["name"] for policy in said["policies"]}:
        return []
    return [run for run in read_runs(folder) if run.policy in lines and run.replication < count]


def cost(chosen: Mapping[str, list[str]], options: Options, jobs: int) -> Table:
    """Say how long everything will take, less what is kept, from a few rounds of each line."""
    rows, total = [], 0.0
    for bed, lines in chosen.items():
        for line in lines:
            count, rounds = replications_of(bed, line, options), rounds_of(bed, options)
            each = probe(BEDS[bed].world, BEDS[bed].lines[line], told=min(rounds // 3, PROBE_TOLD))
            total += (minutes := count * rounds * each / 60)
            rows.append([bed, line, str(count), f"{rounds:,}", amount(1e6 * each), amount(minutes)])
    caption = f"About {total / jobs:,.0f} minutes on {jobs} cores, less what is kept"
    return Table(
        ["bed", "line", "replications", "rounds", "microseconds per round", "minutes of one core"], rows, caption
    )


def probe(world: EnvironmentFactory, recipe: PolicyRecipe, told: int) -> float:
    """Return about how many seconds a round takes once so many rewards of cells drawn at random are known."""
    environment, rng = world(0), np.random.default_rng(0)
    policy: Any = recipe.make(environment, LONG, seed=0)
    cells = np.stack([rng.integers(size, size=told) for size in environment.shape], axis=1)
    policy.tell_many(cells, [environment.pull(cell) for cell in cells.tolist()])
    spent = 0.0
    for turn in range(PROBE_PLAYED + 1):
        levels, start = environment.context(), process_time()
        cell = policy.ask(levels)
        policy.tell(cell, environment.pull(cell))
        spent += (process_time() - start) * (turn > 0)  # the first catches up with all that was told
    return spent / PROBE_PLAYED

"""``tensorbandits simulate``: any policies in any environments, here or on a cluster."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
import typer
from rich.console import Console

from tensorbandits.cli.common import (
    check_experiments,
    check_least,
    check_out,
    check_where,
    naming_options,
    one_line_errors,
    print_table,
)
from tensorbandits.cli.options import Replications, Rounds, TensorSeed
from tensorbandits.data.open_data import FLIGHTS_MIN_COUNT, FLIGHTS_SHRINKAGE, bikes, flights
from tensorbandits.policies.registry import records
from tensorbandits.report.page import markdown_table
from tensorbandits.sim.compare import Comparison, compare
from tensorbandits.sim.jobs import EnvironmentFactory, Job
from tensorbandits.sim.plots import band_words, plot_regret
from tensorbandits.sim.recipes import PaperWorld, PolicyRecipe

_NAMES = ", ".join(record.name for record in records())
_POLICIES = ["thompson", "ensemble:rank=2", "elimination:rank=2", "epoch-greedy:rank=2", "ucb"]
_ENVIRONMENTS = ["paper:p=15,signal=0.5"]
_OPEN_DATA: dict[str, Callable[[], EnvironmentFactory]] = {
    "bikes": lambda: bikes().world(shrinkage=0.0, standardise=True),
    "bikes-given-time": lambda: bikes().world(["time:weekday", "time:3h"], shrinkage=0.0, standardise=True),
    "flights": lambda: flights().world(min_count=FLIGHTS_MIN_COUNT, shrinkage=FLIGHTS_SHRINKAGE, standardise=True),
}

Made = TypeVar("Made")


def simulate(
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help=f"A policy, with settings if wanted: estr:multiplier=0.001,rank=2. One of "
            f"{_NAMES}, or module:Class; paper=true takes the paper's values. Repeat it for several. "
            f"By default {', '.join(_POLICIES)}."
        ),
    ] = None,
    environment: Annotated[
        list[str] | None,
        typer.Option(
            help=f"An environment: the paper's, with settings if wanted, or {', '.join(_OPEN_DATA)}, which pay "
            f"real rewards. Repeat it for several. By default {_ENVIRONMENTS[0]}."
        ),
    ] = None,
    rounds: Rounds = 3_000,
    replications: Replications = 10,
    seed: TensorSeed = 0,
    baseline: Annotated[
        str | None, typer.Option(help="The policy that ratios are to, as given to --policy; by default the last.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Runs at the same time; by default one per core, or per worker of a cluster.")
    ] = None,
    backend: Annotated[str, typer.Option(help="Where to run: local, dask or ray.")] = "local",
    address: Annotated[
        str | None,
        typer.Option(
            help="Of the Dask scheduler or Ray head; without it, the one in use or named outside, else one here."
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for the results; a later command with the same one goes on from there.")
    ] = Path("out/simulate"),
) -> None:
    """Compare policies in environments; print a table, keep every run, write a figure."""
    with one_line_errors(out), naming_options("backend", "address", n_jobs="jobs", horizon="rounds"):
        check_experiments("simulate")
        recipes = _parse("policy", policy or _POLICIES, PolicyRecipe.parse)
        worlds = _parse("environment", environment or _ENVIRONMENTS, _environment)
        check_least(rounds=(rounds, 1), replications=(replications, 1), seed=(seed, 0))
        where = check_where(jobs, backend, address)
        reference = _check(recipes, worlds, rounds, seed, baseline)
        comparison = compare(
            recipes,
            worlds,
            horizon=rounds,
            replications=replications,
            seed=seed,
            folder=check_out(out),
            where=where,
            progress=True,
        )
        _show(comparison, out, reference, f"{rounds:,} rounds, {replications} replications, seed {seed}")


def _parse(option: str, texts: Sequence[str], parse: Callable[[str], Made]) -> dict[str, Made]:
    """Return what the values of an option describe, by their text."""
    made: dict[str, Made] = {}
    for text in texts:
        if text in made:
            raise ValueError(f"--{option} {text} is given twice; give it once")
        try:
            made[text] = parse(text)
        except (ValueError, TypeError) as error:
            raise ValueError(f"--{option} {text}: {error}") from None
        except Exception as error:  # of a module of the user's
            raise ValueError(f"--{option} {text}: {type(error).__name__}: {error}") from None
    return made


def _environment(text: str) -> EnvironmentFactory:
    """Return the environments that a text names: the paper's with settings, or those of an open data set."""
    if text in _OPEN_DATA:
        return _OPEN_DATA[text]()
    name = text.partition(":")[0]
    if name != "paper":
        raise ValueError(f"there is no environment {name!r}; allowed are paper, {', '.join(_OPEN_DATA)}")
    return PaperWorld.parse(text)


def _check(
    recipes: dict[str, PolicyRecipe],
    worlds: dict[str, EnvironmentFactory],
    rounds: int,
    seed: int,
    baseline: str | None,
) -> str:
    """Return the baseline, or raise an error that names the option at fault."""
    if baseline is not None and baseline not in recipes:
        raise ValueError(f"--baseline is {baseline!r}; give one of the policies: {', '.join(recipes)}")
    for world, make_world in worlds.items():
        for name, recipe in recipes.items():
            job = Job(world, name, 0, make_world, recipe, rounds, seed)
            try:
                job.player(job.world())
            except (ValueError, TypeError) as error:
                raise ValueError(f"--policy {name} in --environment {world} with --rounds {rounds}: {error}") from None
    return baseline or list(recipes)[-1]


def _show(comparison: Comparison, out: Path, baseline: str, title: str) -> None:
    header, lines = _lines(comparison, baseline)
    console = Console()
    if comparison.kept:
        console.print(f"{comparison.kept} of {len(comparison.runs)} runs kept from earlier", highlight=False)
    print_table(console, title, header, lines)
    (out / "table.md").write_text(f"{title}\n\n{markdown_table(header, lines)}\n", encoding="utf-8")
    plot_regret(comparison, out / "regret.png", title=f"{title}: mean {band_words(comparison)}")
    console.print(f"wrote {out / 'table.md'}, {out / 'regret.png'} and {out / 'comparison.json'}", highlight=False)


def _lines(comparison: Comparison, baseline: str) -> tuple[list[str], list[list[str]]]:
    """The table as text; the environment is a column only if there are several."""
    several = len(comparison.environments) > 1
    header = ["environment"] * several + ["policy", "mean", "standard error", "median", "worst"]
    header += [f"ratio to {baseline}", "microseconds per round"]
    return header, [
        [row.environment] * several
        + [
            row.policy,
            f"{row.mean:,.0f}",
            _number(row.standard_error, ",.0f"),
            f"{row.median:,.0f}",
            f"{row.worst:,.0f}",
            _number(row.ratio, ".3f"),
            _number(row.microseconds, ",.0f"),
        ]
        for row in comparison.table(baseline=baseline)
    ]


def _number(value: Any, form: str) -> str:
    return "–" if value is None or np.isnan(value) else format(value, form)

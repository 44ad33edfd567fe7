"""``tensorbandits simulate``: any policies in any of the paper's environments, here or on a cluster."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np

from tensorbandits.sim.backends import check_backend
from tensorbandits.sim.compare import Comparison, compare, markdown_table
from tensorbandits.sim.jobs import Job
from tensorbandits.sim.plots import plot_regret
from tensorbandits.sim.recipes import PaperWorld, PolicyRecipe

if TYPE_CHECKING:
    import typer

_POLICIES = ["thompson", "ensemble:rank=2", "elimination:rank=2", "epoch-greedy:rank=2", "ucb"]
_ENVIRONMENTS = ["paper:p=15,signal=0.5"]

Made = TypeVar("Made")


def register(app: "typer.Typer") -> None:
    """Add the command ``simulate`` to the application."""
    import typer

    @app.command("simulate")
    def simulate(
        policy: Annotated[
            list[str] | None,
            typer.Option(
                help=f"A policy, with settings if wanted: estr:multiplier=0.001,rank=2. One of "
                f"{', '.join(PolicyRecipe.kinds)}; paper=true takes the paper's values. Repeat it for several. "
                f"By default {', '.join(_POLICIES)}."
            ),
        ] = None,
        environment: Annotated[
            list[str] | None,
            typer.Option(help=f"An environment of the paper. Repeat it for several. By default {_ENVIRONMENTS[0]}."),
        ] = None,
        rounds: Annotated[int, typer.Option(help="Rounds of each run.")] = 3_000,
        replications: Annotated[int, typer.Option(help="Runs of each policy, each on its own tensor.")] = 10,
        seed: Annotated[int, typer.Option(help="Seed of the first tensor; the next ones follow.")] = 0,
        baseline: Annotated[
            str | None, typer.Option(help="The policy that ratios are to, as given to --policy; by default the last.")
        ] = None,
        jobs: Annotated[
            int | None, typer.Option(help="Runs at the same time; by default one per core, or per worker of a cluster.")
        ] = None,
        backend: Annotated[str, typer.Option(help="Where to run: local, dask or ray.")] = "local",
        address: Annotated[
            str | None, typer.Option(help="Of the Dask scheduler or Ray head; without it, one is started here.")
        ] = None,
        out: Annotated[
            Path, typer.Option(help="Folder for the results; a later command with the same one goes on from there.")
        ] = Path("out/simulate"),
    ) -> None:
        """Compare policies in environments of the paper; print a table, keep every run, write a figure."""
        try:
            recipes = _parse("policy", policy or _POLICIES, PolicyRecipe.parse)
            worlds = _parse("environment", environment or _ENVIRONMENTS, PaperWorld.parse)
            reference = _check(recipes, worlds, rounds, replications, seed, baseline, jobs, backend, address)
            comparison = compare(
                recipes,
                worlds,
                horizon=rounds,
                replications=replications,
                n_jobs=-1 if jobs is None else jobs,
                seed=seed,
                folder=_check_out(out),
                backend=backend,
                address=address,
                progress=True,
            )
        except KeyboardInterrupt:
            typer.echo(
                f"interrupted: what is finished is in {out}; the same command again goes on from there", err=True
            )
            raise typer.Exit(130) from None
        except (ValueError, OSError, ModuleNotFoundError) as error:
            typer.echo(f"error: {_one_line(error)}", err=True)
            raise typer.Exit(2) from None
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
    return made


def _check(
    recipes: dict[str, PolicyRecipe],
    worlds: dict[str, PaperWorld],
    rounds: int,
    replications: int,
    seed: int,
    baseline: str | None,
    jobs: int | None,
    backend: str,
    address: str | None,
) -> str:
    """Return the baseline, or raise an error that names the option at fault."""
    for option, value, least in (("rounds", rounds, 1), ("replications", replications, 1), ("seed", seed, 0)):
        if value < least:
            raise ValueError(f"--{option} is {value}; give {least} or more")
    if jobs == 0:
        raise ValueError("--jobs is 0; give 1 or more, or -1 for every core")
    if baseline is not None and baseline not in recipes:
        raise ValueError(f"--baseline is {baseline!r}; give one of the policies: {', '.join(recipes)}")
    try:
        check_backend(backend, address, jobs)
    except ValueError as error:
        raise ValueError(f"--{error}") from None
    for world, make_world in worlds.items():
        for name, recipe in recipes.items():
            job = Job(world, name, 0, make_world, recipe, rounds, seed)
            try:
                job.player(job.world())
            except (ValueError, TypeError) as error:
                raise ValueError(f"--policy {name} in --environment {world} with --rounds {rounds}: {error}") from None
    return baseline or list(recipes)[-1]


def _check_out(out: Path) -> Path:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ValueError(f"--out is {out}, which is or lies in a file; give a folder") from None
    except OSError as error:
        raise ValueError(f"--out is {out}, which cannot be made ({error.strerror}); give another folder") from None
    return out


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _show(comparison: Comparison, out: Path, baseline: str, title: str) -> None:
    from rich.console import Console
    from rich.table import Table

    header, lines = _lines(comparison, baseline)
    table = Table(title=title)
    for at, column in enumerate(header):
        width = max(len(text) for text in (*column.split(), *(line[at] for line in lines)))
        table.add_column(column, justify="right" if at > len(header) - 7 else "left", min_width=width)
    for line in lines:
        table.add_row(*line)
    console = Console()
    if comparison.kept:
        console.print(f"{comparison.kept} of {len(comparison.runs)} runs kept from earlier", highlight=False)
    console.print(table)
    (out / "table.md").write_text(f"{title}\n\n{markdown_table(header, lines)}\n", encoding="utf-8")
    plot_regret(comparison, out / "regret.png", title=f"{title}: mean and 95 % confidence band")
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

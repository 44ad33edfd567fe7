"""``tensorbandits demo``: every policy on one problem of the paper."""

from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np

from tensorbandits.policies.elimination import TensorElimination
from tensorbandits.policies.ensemble import TensorEnsembleSampling
from tensorbandits.policies.epoch_greedy import TensorEpochGreedy
from tensorbandits.policies.estr import MatricizedESTR
from tensorbandits.policies.thompson import TensorThompsonSampling
from tensorbandits.policies.ucb import VectorizedUCB
from tensorbandits.sim.compare import Comparison, PolicyFactory, compare, markdown_table
from tensorbandits.sim.environment import TensorEnvironment, paper_tensor
from tensorbandits.sim.plots import plot_regret

if TYPE_CHECKING:
    import typer

_P, _SIGNAL, _NOISE, _RANK = 15, 0.5, 1.0, 2  # the paper's smaller problem
_SHAPE = (_P, _P, _P)
_ROUNDS = 3_000  # by default; enough for every policy of the demo
_BASELINE = "Vectorized UCB"
_HEADER = [
    "policy",
    "mean final regret",
    "standard error",
    "ratio to UCB",
    "microseconds per round",
]


def register(app: "typer.Typer") -> None:
    """Add the command ``demo`` to the application."""
    import typer

    @app.command("demo")
    def demo(
        out: Annotated[Path, typer.Option(help="Folder for the table and the figure.")] = Path("out"),
        rounds: Annotated[int, typer.Option(help="Rounds of each run.")] = _ROUNDS,
        replications: Annotated[int, typer.Option(help="Runs of each policy, each on its own tensor.")] = 4,
        seed: Annotated[int, typer.Option(help="Seed of the first tensor; the next ones follow.")] = 0,
        jobs: Annotated[int, typer.Option(help="Processes to use.")] = 2,
    ) -> None:
        """Run every policy on one problem of the paper; print a table, write it and a figure."""
        try:
            policies = _check_demo(out, rounds, replications, seed, jobs)
        except (ValueError, OSError) as error:
            typer.echo(f"error: {' '.join(str(error).split())}", err=True)
            raise typer.Exit(2) from None
        _demo(policies, out, rounds, replications, seed, jobs)


def demo_policies(rounds: int) -> dict[str, PolicyFactory]:
    """Return the six policies of the demo with their defaults, as functions of a seed, by name.

    >>> list(demo_policies(2_000))[0]
    'Tensor Thompson sampling'
    """
    return {
        "Tensor Thompson sampling": lambda seed: TensorThompsonSampling(_SHAPE, _RANK, seed=seed),
        "Tensor ensemble sampling": lambda seed: TensorEnsembleSampling(_SHAPE, _RANK, seed=seed),
        "Tensor elimination": lambda seed: TensorElimination(_SHAPE, _RANK, horizon=rounds, seed=seed),
        "Tensor epoch-greedy": lambda seed: TensorEpochGreedy(_SHAPE, _RANK, seed=seed),
        "Matricized ESTR": lambda seed: MatricizedESTR(_SHAPE, _RANK, horizon=rounds, seed=seed),
        _BASELINE: lambda seed: VectorizedUCB(_SHAPE, seed=seed),
    }


def _check_demo(out: Path, rounds: int, replications: int, seed: int, jobs: int) -> dict[str, PolicyFactory]:
    """Return the policies after making the folder, or raise an error that names the option at fault."""
    for option, value, least in (("rounds", rounds, 1), ("replications", replications, 1), ("seed", seed, 0)):
        if value < least:
            raise ValueError(f"--{option} is {value}; give {least} or more")
    if jobs == 0:
        raise ValueError("--jobs is 0; give 1 or more, or -1 for every core")
    short = _too_short(rounds)
    if short:
        least = 1 + bisect_left(range(1, _ROUNDS), True, key=lambda number: not _too_short(number))
        raise ValueError(f"--rounds is {rounds}, too few for {' and '.join(short)}; give {least} or more")
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out is {out}, which is a file; give a folder, or remove the file")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"--out is {out}, which cannot be made ({error.strerror}); give another folder") from None
    return demo_policies(rounds)


def _too_short(rounds: int) -> list[str]:
    """The policies of the demo whose exploration leaves none of so many rounds."""
    refused = []
    for name, make in demo_policies(rounds).items():
        try:
            make(np.random.SeedSequence(0))
        except ValueError:
            refused.append(name)
    return refused


def _demo(policies: dict[str, PolicyFactory], out: Path, rounds: int, replications: int, seed: int, jobs: int) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn
    from rich.table import Table

    title = f"{_P} x {_P} x {_P} cells, signal {_SIGNAL}, noise {_NOISE:g}, {rounds:,} rounds"
    bar = Progress(
        "runs",
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        "elapsed,",
        TimeRemainingColumn(),
        "left",
        console=Console(stderr=True),
    )
    with bar:
        task = bar.add_task("runs", total=len(policies) * replications)
        comparison = compare(
            policies,
            lambda i: TensorEnvironment(paper_tensor(_P, _SIGNAL, rank=_RANK, seed=i), noise=_NOISE, seed=i),
            horizon=rounds,
            replications=replications,
            n_jobs=jobs,
            seed=seed,
            progress=lambda run: bar.advance(task),
        )
    title += f", {replications} replication{'s' if replications > 1 else ''}"
    lines = _demo_lines(comparison)
    table = Table(title=title)
    for at, column in enumerate(_HEADER):
        width = max(len(text) for text in (*column.split(), *(line[at] for line in lines)))
        table.add_column(column, justify="right" if at else "left", width=width)
    for line in lines:
        table.add_row(*line)
    console = Console()
    console.print(table)
    (out / "demo.md").write_text(f"{title}\n\n{markdown_table(_HEADER, lines)}\n", encoding="utf-8")
    plot_regret(comparison, out / "demo.png", title=f"{title}: mean and 95 % confidence band")
    console.print(f"wrote {out / 'demo.md'} and {out / 'demo.png'}", highlight=False)


def _demo_lines(comparison: Comparison) -> list[Sequence[str]]:
    """The rows of the table as text, the lowest regret first."""
    return [
        (
            row.policy,
            f"{row.mean:,.0f}",
            "–" if np.isnan(row.standard_error) else f"{row.standard_error:,.0f}",
            f"{row.ratio:.3f}",
            f"{row.microseconds:,.0f}",
        )
        for row in sorted(comparison.table(baseline=_BASELINE), key=lambda row: row.mean)
    ]

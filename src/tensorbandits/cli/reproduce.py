"""``tensorbandits reproduce``: the paper's figures and tables, and an honest report."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from tensorbandits.cli.common import check_experiments, check_least, check_out, check_where, one_line_errors
from tensorbandits.cli.options import Address, Backend, Seed
from tensorbandits.paper.evaluation import ITEMS


def command(
    items: Annotated[list[str] | None, typer.Argument(help=f"{', '.join(ITEMS)}, or all (the default).")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few replications, short horizons.")] = False,
    replications: Annotated[int | None, typer.Option(help="Runs of each policy; 30, or 3 when quick.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for results and report.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes; every core here, every worker of a cluster.")] = None,
    seed: Seed = 0,
    backend: Backend = "local",
    address: Address = None,
) -> None:
    """Run the paper's evaluation; write figures, tables and verdicts as HTML and Markdown."""
    from tensorbandits.paper.evaluation import choose_items, reproduce

    place = out or Path("out/reproduce-quick" if quick else "out/reproduce")
    with one_line_errors(place):
        check_experiments("reproduce")
        check_least(replications=(replications, 1), seed=(seed, 0))
        where = check_where(jobs, backend, address)
        names = [item.name for item in choose_items(items or ["all"])]
        written = reproduce(
            names,
            check_out(place),
            quick=quick,
            replications=replications,
            seed=seed,
            where=where,
            progress=True,
            command=shlex.join(["tensorbandits", *sys.argv[1:]]),
        )
        typer.echo(f"wrote {written.page} and {written.twin}; {written.tally()}")

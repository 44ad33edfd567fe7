"""Options that several commands have."""

from typing import Annotated

import typer

Modes = Annotated[
    str,
    typer.Option(
        help="Columns that make a combination: segment,offer,time:weekday,time:3h (times are binned). A name "
        "that has a comma goes in quotes: '\"x,y\",offer'."
    ),
]
Context = Annotated[str, typer.Option(help="Modes that are given rather than decided: segment,time:3h.")]
Top = Annotated[str, typer.Option(help="Keep only the most frequent levels: 20, or offer=20,segment=10.")]
Missing = Annotated[str, typer.Option(help="Rows with missing values: error or drop.")]
Clean = Annotated[
    str | None,
    typer.Option(
        help="Make labels alike that differ by spaces (strip), by case (casefold) or by both: strip,casefold."
    ),
]
Kind = Annotated[
    str | None,
    typer.Option(help="revenue, if rewards are mostly 0, else an amount; revenue-signed, if amounts may be negative."),
]
Rounds = Annotated[int, typer.Option(help="Rounds of each run.")]
Replications = Annotated[int, typer.Option(help="Runs of each policy, each on its own tensor.")]
TensorSeed = Annotated[int, typer.Option(help="Seed of the first tensor; the next ones follow.")]
Seed = Annotated[int, typer.Option(help="Seed of the first replication; the next ones follow.")]
Backend = Annotated[str, typer.Option(help="local, dask or ray.")]
Address = Annotated[str | None, typer.Option(help="Address of the cluster.")]
Url = Annotated[str | None, typer.Option("--store", help="The store: a file, or a URL of PostgreSQL.")]

"""``tensorbandits study``: what a log of yours holds, how the policies fare on it, and what to do."""

import csv
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tensorbandits.cli.common import (
    check_experiments,
    check_least,
    check_out,
    check_where,
    naming_options,
    one_line_errors,
)
from tensorbandits.cli.options import Address, Backend, Clean, Context, Kind, Missing, Modes, Rounds, Seed, Top

_SHARED = (  # options that are arguments of the library too
    *("modes", "reward", "trials", "policy", "context", "top", "missing", "kind", "clean"),
    *("min_count", "shrinkage", "rank", "rounds", "replications", "seed"),
)


def command(
    log: Annotated[Path, typer.Argument(help="A .csv or .parquet file, one row per event.")],
    modes: Modes,
    reward: Annotated[str, typer.Option(help="The column of rewards, for example clicks.")],
    trials: Annotated[str | None, typer.Option(help="The column of trials, for example impressions.")] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="A policy that plays, with settings if wanted: thompson:rank=3, or one of yours as module:Class. "
            "Repeat it for several. By default all that can play; ucb always does, as the baseline."
        ),
    ] = None,
    context: Context = "",
    top: Top = "",
    missing: Missing = "error",
    kind: Kind = None,
    clean: Clean = None,
    min_count: Annotated[int, typer.Option(help="Cells with fewer rewards have none of their own.")] = 1,
    shrinkage: Annotated[
        float | None,
        typer.Option(help="Rewards of the whole log that are mixed into each cell; by default estimated from it."),
    ] = None,
    rank: Annotated[
        int | None, typer.Option(help="What policies are told that need one; by default what the log suggests.")
    ] = None,
    rounds: Rounds = 5_000,
    rewards: Annotated[int, typer.Option(help="How many a bandit will have; low rank is judged for so many.")] = 10_000,
    features: Annotated[
        list[str] | None,
        typer.Option(
            help="What the levels of a mode are like: offer=offers.csv, a .csv or .parquet file with a column of the "
            "mode's labels. Repeat it for several modes."
        ),
    ] = None,
    replications: Annotated[int, typer.Option(help="The most runs of each policy; fewer if they suffice.")] = 10,
    out: Annotated[Path, typer.Option(help="Folder for results and report.")] = Path("out/study"),
    jobs: Annotated[int | None, typer.Option(help="Processes; by default every core, or worker.")] = None,
    seed: Seed = 0,
    backend: Backend = "local",
    address: Address = None,
) -> None:
    """Profile a log, run the policies on its rewards, say what to do, and write a report as HTML and Markdown."""
    from tensorbandits.study import read_log, study

    with one_line_errors(out), naming_options(*_SHARED, horizon="rounds"):
        check_experiments("study")
        check_least(rounds=(rounds, 1), rewards=(rewards, 1), replications=(replications, 1))
        check_least(seed=(seed, 0), rank=(rank, 1))
        where = check_where(jobs, backend, address)
        options = {"trials": trials, "top": top_of(top), "missing": missing, "kind": kind, "clean": clean}
        found = read_log(log, names_of(modes), reward, **options)
        paths = study(
            found,
            check_out(out),
            context=names_of(context),
            policies=policy or (),
            rank=rank,
            rounds=rounds,
            rewards=rewards,
            replications=replications,
            min_count=min_count,
            shrinkage=shrinkage,
            features=features_of(features or []),
            seed=seed,
            where=where,
            progress=True,
            command=shlex.join(["tensorbandits", *sys.argv[1:]]),
            source=log,
            say=lambda words: typer.echo(f"\n{words}"),
        )
        typer.echo(f"wrote {paths[0]} and {paths[1]}")


def features_of(given: list[str]) -> dict[str, Any] | None:
    """Return the tables of features by mode that options name, or ``None``."""
    from tensorbandits.data.file import read_features

    found = {}
    for text in given:
        mode, _, path = text.rpartition("=")
        if not mode:
            raise ValueError(f"--features is {text!r}; give a mode and a file: offer=offers.csv")
        found[mode] = read_features(path, mode)
    return found or None


def names_of(text: str) -> list[str]:
    """Return names that commas part; one that has a comma itself is quoted.

    >>> names_of('segment, offer,"x,y"')
    ['segment', 'offer', 'x,y']
    """
    return [name.strip() for line in csv.reader([text], skipinitialspace=True) for name in line if name.strip()]


def top_of(text: str) -> int | dict[str, int] | None:
    """Return what ``--top`` says: nothing, a number for all modes, or numbers by mode.

    >>> top_of("20"), top_of("offer=20,segment=10"), top_of("")
    (20, {'offer': 20, 'segment': 10}, None)
    """
    if not text:
        return None
    if text.isdigit():
        return int(text)
    pairs = [part.rpartition("=") for part in names_of(text)]
    if not all(name and number.isdigit() for name, _, number in pairs):
        raise ValueError(f"--top is {text!r}; give a number, or numbers by mode: offer=20,segment=10")
    return {name: int(number) for name, _, number in pairs}

"""``tensorbandits evaluate``: what policies would have earned per decision, from a log of decisions."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from tensorbandits.cli.common import check_experiments, check_least, check_out, naming_options, one_line_errors
from tensorbandits.cli.options import Clean, Context, Kind, Missing, Modes, Top
from tensorbandits.cli.study import names_of, top_of
from tensorbandits.policies.base import Policy

if TYPE_CHECKING:
    from tensorbandits.space import Space

_SHARED = ("modes", "reward", "propensity", "logged", "context", "top", "missing", "kind", "clean", "level", "seed")
_DEFAULT = ("uniform", "thompson")


def command(
    log: Annotated[Path, typer.Argument(help="A .csv or .parquet file, one row per decision, in order.")],
    modes: Modes,
    reward: Annotated[str, typer.Option(help="The column of rewards, for example click.")],
    propensity: Annotated[
        str | None, typer.Option(help="The column of the probabilities with which decisions were made.")
    ] = None,
    logged: Annotated[
        str | None,
        typer.Option(help="uniform, if each combination was as likely; then no propensities are needed."),
    ] = None,
    context: Context = "",
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="What to evaluate: uniform; a policy that learns along the log, with settings if wanted "
            "(thompson:rank=3), or one of yours as module:Class; or the file of a saved policy. Repeat it for "
            "several. By default uniform and thompson."
        ),
    ] = None,
    arm: Annotated[
        list[str] | None,
        typer.Option(help="A fixed decision to evaluate: offer=a,channel=sms. Repeat it for several."),
    ] = None,
    top: Top = "",
    missing: Missing = "error",
    kind: Kind = None,
    clean: Clean = None,
    level: Annotated[float, typer.Option(help="The probability with which an interval holds a value.")] = 0.9,
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("out/evaluate"),
    seed: Annotated[int, typer.Option(help="Seed of draws, and of how the log is parted.")] = 0,
) -> None:
    """Estimate what policies would have earned per decision, compare them with the log, and write a report."""
    from tensorbandits.data.file import read_log
    from tensorbandits.evaluate import evaluate
    from tensorbandits.evaluate.sections import answer
    from tensorbandits.report.page import plain_words

    with one_line_errors(), naming_options(*_SHARED):
        check_experiments("evaluate")
        check_least(seed=(seed, 0))
        options = {"propensity": propensity, "top": top_of(top), "missing": missing, "kind": kind, "clean": clean}
        rows = read_log(log, names_of(modes), reward, **options)
        found = evaluate(
            rows,
            _policies(policy, arm, rows.space),
            context=names_of(context),
            logged=cast(Any, logged),  # which is checked there
            level=level,
            seed=seed,
        )
        for words in answer(found):
            typer.echo(plain_words(words))
        for words in found.warnings:
            typer.echo(f"warning: {words}", err=True)
        paths = found.write(check_out(out), shlex.join(["tensorbandits", *sys.argv[1:]]))
        typer.echo(f"wrote {paths[0]} and {paths[1]}")


def _policies(policies: list[str] | None, arms: list[str] | None, space: "Space") -> dict[str, Any]:
    """Return what to evaluate, by name: what ``--policy`` and ``--arm`` say, or the default if neither is given."""
    named: dict[str, Any] = {}
    for text in policies or (() if arms else _DEFAULT):
        _add(named, text, Policy.load(text) if Path(text).is_file() else text)
    for text in arms or ():
        pairs = [part.partition("=") for part in names_of(text)]
        if not pairs or not all(mode and sign and label for mode, sign, label in pairs):
            raise ValueError(f"--arm is {text!r}; give a label for each decided mode: offer=a,channel=sms")
        _add(named, text, {mode.strip(): _label(space, mode.strip(), label.strip()) for mode, _, label in pairs})
    return named


def _add(named: dict[str, Any], name: str, policy: Any) -> None:
    if name in named:
        raise ValueError(f"{name!r} is given twice; give it once")
    named[name] = policy


def _label(space: "Space", mode: str, text: str) -> Any:
    """Return the label that a text stands for, which is a number in some files."""
    return next((label for label in space.levels[space.position(mode)] if str(label) == text), text)

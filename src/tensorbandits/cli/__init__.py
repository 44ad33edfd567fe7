"""The command line: parse, call, print. One file per command."""

import os
import sys
from importlib import metadata
from typing import TYPE_CHECKING, Annotated

from tensorbandits.base.checks import check_installed
from tensorbandits.cli.stop import Stopped, stopping

if TYPE_CHECKING:
    import typer


def main() -> None:
    """Be the program: run the command line, or say how to install what it needs, or that it was stopped."""
    with stopping():
        try:
            check_installed("the command line", "rich", "typer")
            sys.path.append(os.getcwd())  # so that a policy of yours, as module:Class, is found beside your data
            application()(prog_name="tensorbandits")
        except ModuleNotFoundError as error:
            print(f"error: {error}", file=sys.stderr)
            raise SystemExit(2) from None
        except Stopped as stop:  # between commands; they say more themselves
            print(stop.word, file=sys.stderr)
            raise SystemExit(stop.code) from None


def application() -> "typer.Typer":
    """Return the command-line application.

    >>> " ".join(command.name for command in application().registered_commands[:9])
    'demo simulate reproduce study evaluate serve decide warm backup'
    """
    import typer

    from tensorbandits.cli import (
        backup,
        decide,
        demo,
        evaluate,
        forget,
        keys,
        learn,
        repair,
        report,
        reproduce,
        serve,
        simulate,
        study,
        warm,
    )

    app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)

    def show_version(wanted: bool) -> None:
        if wanted:
            typer.echo(f"tensorbandits {metadata.version('tensorbandits')}")
            raise typer.Exit

    @app.callback()
    def options(
        version: Annotated[
            bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version.")
        ] = False,
    ) -> None:
        """Choose the best combination online, when mean rewards form a low-rank tensor."""

    app.command("demo")(demo.demo)
    app.command("simulate")(simulate.simulate)
    app.command("reproduce")(reproduce.command)
    app.command("study")(study.command)
    app.command("evaluate")(evaluate.command)
    for command in (
        serve.serve,
        decide.decide,
        warm.warm,
        backup.backup,
        backup.restore,
        backup.replay,
        backup.fold,
        backup.retain,
        repair.repair,
        forget.forget,
        report.report,
        learn.learn,
        learn.move,
    ):
        app.command(command.__name__)(command)
    app.add_typer(keys.keys, name="keys")
    return app

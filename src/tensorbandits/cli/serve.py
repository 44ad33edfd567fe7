"""``tensorbandits serve``: the decision service."""

from __future__ import annotations

import os
from contextlib import ExitStack
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from tensorbandits.base.checks import check_installed
from tensorbandits.cli.common import one_line_errors

if TYPE_CHECKING:
    from tensorbandits.service.settings import Settings

NEEDS = ("alembic", "argon2", "fastapi", "prometheus_client", "sqlalchemy", "structlog", "uvicorn")


def serve(
    store: Annotated[str | None, typer.Option(help="Where events are kept: a file, or a URL of PostgreSQL.")] = None,
    host: Annotated[str | None, typer.Option(help="The address to listen on; 127.0.0.1 unless given.")] = None,
    port: Annotated[int | None, typer.Option(help="The port to listen on; 8000 unless given.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes that serve.")] = None,
    idle_seconds: Annotated[
        float | None, typer.Option(help="Seconds after which a silent connection is closed; 75 unless given.")
    ] = None,
    config: Annotated[str | None, typer.Option(help="A file of settings, in TOML.")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Say what the settings are and what is wrong; do not start.")
    ] = False,
    demo: Annotated[bool, typer.Option("--demo", help="Begin with a campaign whose simulated users click.")] = False,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
    log_format: Annotated[str | None, typer.Option(help="json, or console for people.")] = None,
) -> None:
    """Serve decisions over HTTP, durably, and show in a browser what is learned.

    All settings can be given as environment variables too (TENSORBANDITS_STORE, TENSORBANDITS_PORT, and so on), and in
    a file, which --config or TENSORBANDITS_CONFIG names: store = "events.db", port = 9000. Options go before variables,
    and these before the file.
    A demonstration that is given no store forgets everything when it stops.
    """
    with one_line_errors(), ExitStack() as until_the_end:
        check_installed("the service", *NEEDS, extra="service")
        from tensorbandits.service.run import run
        from tensorbandits.service.settings import PREFIX, Settings

        if demo and store is None and not os.environ.get(f"{PREFIX}STORE"):
            folder = until_the_end.enter_context(TemporaryDirectory(prefix="tensorbandits-demo-"))
            store = f"{folder}/demo.db"
        place = {"store": store, "host": host, "port": port, "workers": workers}
        how = {"idle_seconds": idle_seconds, "log_level": log_level, "log_format": log_format, "demo": demo or None}
        settings, places = Settings.traced(None, config, **place, **how)
        if check:
            from tensorbandits.service.checkup import checked

            for line in checked(settings, places):
                typer.echo(line)
            typer.echo("the service could start")
            return
        run(settings, lambda: _greet(settings))


def _greet(settings: Settings) -> None:
    typer.echo(f"tensorbandits serves at {settings.address}; open it in a browser, and stop it with Ctrl-C", err=True)

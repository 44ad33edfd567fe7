"""``tensorbandits decide``: a server that decides from published snapshots, without a database."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tensorbandits.base.checks import check_installed
from tensorbandits.cli.common import one_line_errors

_NEEDS = ("argon2", "fastapi", "prometheus_client", "pyarrow", "structlog", "uvicorn")


def decide(
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            help="Where a bandit's snapshots are published: a folder, an address of fsspec, redis://HOST/0?key=NAME, "
            "or https://SERVER/v1/bandits/NAME. Repeat it for several bandits.",
        ),
    ] = None,
    sink: Annotated[
        str | None,
        typer.Option(
            help="Where decisions and rewards go: a lake (a folder, or an address of fsspec), redis://HOST/0, or "
            "https://SERVER/v1/bandits/NAME."
        ),
    ] = None,
    host: Annotated[str | None, typer.Option(help="The address to listen on; 127.0.0.1 unless given.")] = None,
    port: Annotated[int | None, typer.Option(help="The port to listen on; 8000 unless given.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes that serve; they know nothing of each other.")] = None,
    every: Annotated[float | None, typer.Option(help="Seconds between two looks for a new snapshot; 1.")] = None,
    buffer: Annotated[
        int | None, typer.Option(help="Decisions, and rewards, that may wait for the sink in each process; 100,000.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="What the page of a service calls this decider.")] = None,
    new_key: Annotated[bool, typer.Option("--new-key", help="Print a new API key, and do nothing else.")] = False,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
    log_format: Annotated[str | None, typer.Option(help="json, or console for people.")] = None,
) -> None:
    """Decide over HTTP from published snapshots, without a database: ask and tell as at the service.

    TENSORBANDITS_TOKEN_KEYS has the secrets that sign the ids of decisions, TENSORBANDITS_API_KEYS the keys of callers
    (name=tb_.., with commas between), and TENSORBANDITS_SERVICE_KEY the key by which a service is asked and told. All
    other settings of the service that make sense here (rate, workers, origins, ..) hold too.
    """
    with one_line_errors():
        check_installed("a decide server", *_NEEDS, extra="service")
        from tensorbandits.service.deciding.options import DecideOptions
        from tensorbandits.service.deciding.run import run_decide
        from tensorbandits.service.http.keyring import make_key
        from tensorbandits.service.settings import Settings

        if new_key:
            typer.echo(make_key("decide", "decide")[1])
            return
        given: dict[str, Any] = {
            "host": host,
            "port": port,
            "workers": workers,
            "log_level": log_level,
            "log_format": log_format,
        }
        settings = Settings.read(**given)
        options = DecideOptions.read(source or (), sink, every, buffer, name)
        run_decide(settings, options, lambda: typer.echo(f"tensorbandits decides at {settings.address}", err=True))

"""``tensorbandits report``: what a bandit earned and learned of late, as one file, for who never opens the page."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Annotated

import typer

from tensorbandits.base.checks import check_installed
from tensorbandits.cli.backup import find_bandit, open_store
from tensorbandits.cli.common import naming_options, one_line_errors
from tensorbandits.cli.options import Url


def report(
    bandit: Annotated[str, typer.Argument(help="The bandit.")],
    since: Annotated[
        str,
        typer.Option(help="When it begins: a duration before now, such as 7d, or a date, such as 2026-11-01."),
    ] = "7d",
    out: Annotated[
        Path | None, typer.Option(help="The file, .html or .md; NAME-report.html here unless given.")
    ] = None,
    store: Url = None,
    url: Annotated[
        str | None, typer.Option(help="Ask a service that runs there, http://HOST:PORT, rather than read its store.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(help="An API key that may read, if --url needs one; by default the variable TENSORBANDITS_KEY."),
    ] = None,
) -> None:
    """Write what a bandit earned and learned, what moved, and what to do next, as one HTML or Markdown file.

    It is read from the store, which a service may be using meanwhile, or asked of a service with --url. Nothing is
    changed.
    """
    with one_line_errors(), naming_options("since", "out"):
        from tensorbandits.bandit import reporting

        if store is not None and url is not None:
            raise ValueError("--store and --url are both given; give one: where events are kept, or who serves them")
        if key is not None and url is None:
            raise ValueError("--key is given, but no --url; a store is read without a key")
        path = out if out is not None else Path(f"{re.sub(r'[^A-Za-z0-9._-]+', '-', bandit)}-report.html")
        reporting.form_of(path)
        begin = reporting.began(since, time.time())  # before any work
        if url is not None:
            _asked(bandit, since, path, url, key or os.environ.get("TENSORBANDITS_KEY"))
        else:
            with open_store(store) as opened:
                from tensorbandits.service.engine import loading

                row = find_bandit(opened, bandit)
                core = loading.rebuild(opened, row)
                reporting.write(reporting.gather(core, name=row.name, begin=begin, now=time.time()), path)
        typer.echo(f"wrote {path}")


def _asked(bandit: str, since: str, path: Path, url: str, key: str | None) -> None:
    """Have a service make it."""
    check_installed("--url", "httpx", extra="client")
    from tensorbandits.client import Client, UnknownBanditError

    with Client(url, key) as client:
        try:
            client.bandit(bandit).report(path, since=since)
        except UnknownBanditError as error:
            raise ValueError(str(error)) from None

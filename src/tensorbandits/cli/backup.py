"""``tensorbandits backup``, ``restore``, ``replay`` and ``fold``: what whoever runs the service does with its store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorbandits.base.checks import check_installed, nearest
from tensorbandits.cli.common import one_line_errors
from tensorbandits.cli.options import Url
from tensorbandits.cli.serve import NEEDS

if TYPE_CHECKING:
    from tensorbandits.store import BanditRow, Store


def backup(
    file: Annotated[Path, typer.Argument(help="The file to write; there must be none.")], store: Url = None
) -> None:
    """Copy a store, as it is at one moment, into a new file, while the service goes on."""
    with one_line_errors(), open_store(store) as opened:
        opened.backup(file)
        _say(opened, f"{file}: a copy of {opened.url}")


def restore(
    file: Annotated[Path, typer.Argument(help="A file that backup wrote.")],
    store: Annotated[str, typer.Option(help="The store to fill, which must be empty: a file, or a URL.")],
) -> None:
    """Fill an empty store from a copy: SQLite or PostgreSQL, whichever the copy was of."""
    with one_line_errors(), open_store(str(file)) as source, open_store(store, new=True) as target:
        target.copy_from(source)
        _say(target, f"{target.url}: all of {file}")


def replay(
    bandit: Annotated[str | None, typer.Argument(help="A bandit; all of them without it.")] = None,
    store: Url = None,
    until: Annotated[int | None, typer.Option(min=1, help="The last event to fold.")] = None,
) -> None:
    """Fold the events of bandits again, without snapshots, and say what they add up to.

    Where a snapshot says something else than its events, that is said, the snapshots of that bandit are dropped, as
    they are only a cache, and the exit code is 1; as it is where a log cannot be read.
    """
    differs = False
    with one_line_errors(), open_store(store) as opened:
        from tensorbandits.service.engine import loading
        from tensorbandits.store import StoreError

        for row in [find_bandit(opened, bandit)] if bandit is not None else opened.bandits():
            try:
                core = loading.rebuild(opened, row, until, caches=False)
            except StoreError as error:
                typer.echo(f"{row.name}: {error}")
                differs = True
                continue
            state, ledger = core.state, core.policy.copy_ledger()
            words = f"{row.name}: {state.seq:,} events, {state.decisions:,} decisions, {ledger.received:,g} rewards"
            words += f" that add up to {ledger.totals.sum():g}, {core.waiting:,} decisions wait"
            if not loading.agrees(opened, row, core):
                opened.drop_snapshots(row.id)
                words, differs = f"{words}; a snapshot said otherwise, and was dropped", True
            typer.echo(words)
    if differs:
        raise typer.Exit(1)


def fold(
    bandit: Annotated[str, typer.Argument(help="The bandit.")],
    export: Annotated[Path, typer.Option(help="The Parquet file to write the events to first; there must be none.")],
    store: Url = None,
    before: Annotated[int | None, typer.Option(min=1, help="The last event to fold; all of them without it.")] = None,
) -> None:
    """Write old events to a file, and let the store keep only what they add up to; the service may run."""
    with one_line_errors(), open_store(store) as opened:
        from tensorbandits.service.engine import loading
        from tensorbandits.service.engine.engine import Engine
        from tensorbandits.service.engine.host import Host
        from tensorbandits.service.http import export as exporting
        from tensorbandits.service.metrics import Metrics

        engine, row = Engine(opened, Metrics()), find_bandit(opened, bandit)
        if export.exists():
            raise ValueError(f"{export} exists; give the name of a new file, so that no events are lost")
        host = Host(row, loading.rebuild(opened, row))
        last = host.seq if before is None else before
        with open(export, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:  # its owner's only
            for piece in exporting.events(opened, host, opened.base(row.id), until=last):
                file.write(piece)
        count, base = engine.fold(host, last)
        typer.echo(f"{row.name}: {count:,} events up to {base:,} are in {export}, and added up in the store")


def open_store(url: str | None, *, new: bool = False) -> Store:
    """Open a store, which must be there unless it may be new."""
    check_installed("the service", *NEEDS, extra="service")
    from tensorbandits.service.settings import Settings
    from tensorbandits.store import Store
    from tensorbandits.store.address import parse

    place = Settings.read(store=url).store
    parts = parse(place)
    if not new and parts.get_backend_name() == "sqlite" and not Path(parts.database or "").is_file():
        raise ValueError(f"there is no file {parts.database}; give the store of a service, or a copy of it")
    return Store.open(place)


def find_bandit(store: Store, name: str) -> BanditRow:
    """Return a bandit of a store by its name, or say which there are."""
    row = store.find(name)
    if row is None:
        known = [one.name for one in store.bandits()]
        hint: Any = nearest(name, known) or "give one of them"
        raise ValueError(f"there is no bandit {name!r} in {store.url}, but {known}: {hint}")
    return row


def _say(store: Store, words: str) -> None:
    heads = store.heads()
    typer.echo(f"{words}, with {len(heads):,} bandits and {sum(heads.values()):,} events")

"""``tensorbandits backup``, ``restore``, ``replay``, ``fold``, ``retain``: what one does with a service's store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorbandits.base.checks import check_installed, nearest
from tensorbandits.cli.common import naming_options, one_line_errors
from tensorbandits.cli.options import Url
from tensorbandits.cli.serve import NEEDS

if TYPE_CHECKING:
    from tensorbandits.service.engine.engine import Engine
    from tensorbandits.service.engine.host import Host
    from tensorbandits.store import BanditRow, Store


def backup(
    file: Annotated[Path, typer.Argument(help="The file to write; there must be none.")],
    store: Url = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Restore the copy into a scratch store, and add all its events up again.")
    ] = False,
) -> None:
    """Copy a store, as it is at one moment, into a new file, while the service goes on."""
    with one_line_errors(), open_store(store) as opened:
        before = opened.heads()
        opened.backup(file)
        _say(opened, f"{file}: a copy of {opened.url}")
        if verify:
            typer.echo(_verified(file, opened, before))


def _verified(file: Path, source: Store, before: Mapping[int, int]) -> str:
    """Restore a copy into a scratch store and fold it there; return what was found, or raise for what is wrong."""
    from tensorbandits.service.engine import loading
    from tensorbandits.store import Store, StoreError

    with (
        TemporaryDirectory(prefix="tensorbandits-verify-") as folder,
        open_store(str(file)) as copied,
        Store.open(f"{folder}/restored.db") as restored,
    ):
        restored.copy_from(copied)
        heads, now = restored.heads(), source.heads()
        if heads != copied.heads():
            raise ValueError(f"{file} does not restore to what it holds: {heads} is not {copied.heads()}")
        for bandit, seq in before.items():
            if bandit in now and not seq <= heads.get(bandit, -1) <= now[bandit]:
                raise ValueError(f"{file} has {heads.get(bandit, 0)} events of bandit {bandit}, but there were {seq}")
        rows, events, rewards, wrong = restored.bandits(), 0, 0.0, []
        for row in rows:
            try:
                core = loading.rebuild(restored, row, caches=False)
            except StoreError as error:
                wrong.append(str(error))
                continue
            if core.state.seq != heads[row.id] or not loading.agrees(restored, row, core):
                wrong.append(f"the events of {row.name!r} do not add up to what its snapshot says")
            events, rewards = events + core.state.seq, rewards + core.state.rewards
        if wrong:
            raise ValueError(f"{file}: of {len(rows):,} bandits {len(wrong):,} cannot be restored: {'; '.join(wrong)}")
    return (
        f"verified: restored, and {events:,} events of {len(rows):,} bandits, {rewards:,.15g} rewards, added up again"
    )


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
        engine, row = _engine(opened), find_bandit(opened, bandit)
        count, base = _fold(engine, read_bandit(opened, row), before, export)
        typer.echo(f"{row.name}: {count:,} events up to {base:,} are in {export}, and added up in the store")


def _engine(store: Store) -> Engine:
    """The engine of a store, which keeps events for as long as the tokens of deciders are taken."""
    from tensorbandits.service.engine.deciders import DAY
    from tensorbandits.service.engine.engine import Engine
    from tensorbandits.service.metrics import Metrics
    from tensorbandits.service.settings import Settings

    return Engine(store, Metrics(), token_age=Settings.read().token_days * DAY)


def _fold(engine: Engine, host: Host, before: int | None, place: Path) -> tuple[int, int]:
    """Write events to a new file, then let them go; return how many, and up to which."""
    from tensorbandits.service.http import export as exporting

    if place.exists():
        raise ValueError(f"{place} exists; give the name of a new file, so that no events are lost")
    last = host.seq if before is None else before
    with open(place, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:  # its owner's only
        for piece in exporting.events(engine.store, host, engine.store.base(host.id), until=last):
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())  # before the store forgets them
    return engine.fold(host, last)


def retain(
    older_than: Annotated[str, typer.Option(help="The age of events that go, such as '90 days' or '12 weeks'.")],
    export: Annotated[
        Path | None, typer.Option(help="The folder for Parquet files with the events; needed unless --dry-run.")
    ] = None,
    store: Url = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, and change nothing.")] = False,
) -> None:
    """Let the old events of all bandits go: write them to files, and keep what they add up to; the service may run.

    What was learned, and decisions that wait for their reward, stay. A bandit whose log cannot be read stays as it is,
    and the exit code is 1. See `fold` for one bandit.
    """
    unread = 0
    with one_line_errors(), open_store(store) as opened:
        from tensorbandits.bandit.spans import Span
        from tensorbandits.store import StoreError

        with naming_options("older_than"):
            age = Span.of(older_than, "older_than")
        assert age is not None  # words are a span, or refused
        if not dry_run and export is None:
            raise ValueError("give --export FOLDER for the events that go, or --dry-run to see which these are")
        engine, before, total = _engine(opened), opened.clock() - age.length, 0
        for row in opened.bandits():
            last, base = opened.last_before(row.id, before), opened.base(row.id)
            if last <= base:
                continue
            try:
                host = read_bandit(opened, row)
            except StoreError as error:
                typer.echo(f"{row.name}: left as it is, as {error}")
                unread += 1
                continue
            total += last - base
            words = f"{row.name}: {last - base:,} events, up to {last:,}"
            if dry_run or export is None:
                typer.echo(f"{words}, would go")
                continue
            export.mkdir(parents=True, exist_ok=True)
            place = export / f"{row.name}-{row.id}-{base + 1}-{last}.parquet"
            _fold(engine, host, last, place)
            typer.echo(f"{words}, are in {place}")
        typer.echo(f"{total:,} events {'would go' if dry_run else 'went'}; what they add up to stays")
    if unread:
        raise typer.Exit(1)


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


def read_bandit(store: Store, row: BanditRow) -> Host:
    """Return a bandit as its log says it is, or raise why the log cannot be read."""
    from tensorbandits.service.engine import loading
    from tensorbandits.service.engine.host import Host

    return Host(row, loading.rebuild(store, row))


def _say(store: Store, words: str) -> None:
    heads = store.heads()
    typer.echo(f"{words}, with {len(heads):,} bandits and {sum(heads.values()):,} events")

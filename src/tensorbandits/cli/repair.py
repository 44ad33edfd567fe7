"""``tensorbandits repair``: show why the log of a bandit cannot be read, and leave an event out, on somebody's word."""

from __future__ import annotations

import json
import time
from typing import Annotated

import typer

from tensorbandits.cli.backup import find_bandit, open_store
from tensorbandits.cli.common import one_line_errors
from tensorbandits.cli.options import Url

_SHOWN = 2_000  # characters of an event


def repair(
    bandit: Annotated[str, typer.Argument(help="The bandit.")],
    store: Url = None,
    skip: Annotated[int | None, typer.Option(min=2, help="The number of the event to leave out.")] = None,
    who: Annotated[str | None, typer.Option("--who", "--as", help="Who decides to leave it out.")] = None,
    why: Annotated[str | None, typer.Option(help="Why.")] = None,
) -> None:
    """Show the event at which the log of a bandit cannot be read, or leave it out, by an event that says who and why.

    Restart the servers afterwards. What the event said is lost for the bandit, but stays in the store.
    """
    with one_line_errors(), open_store(store) as opened:
        from tensorbandits.bandit.events import Skipped
        from tensorbandits.service.engine import loading
        from tensorbandits.store import New

        row = find_bandit(opened, bandit)
        found = loading.trouble(opened, row)
        if found is None:
            if skip is not None:
                raise ValueError(f"the log of {bandit!r} can be read; event {skip} is not left out")
            typer.echo(f"{bandit}: the log can be read, up to event {opened.head(row.id).seq:,}")
            return
        if skip is None:
            typer.echo(f"{bandit}: event {found.seq} cannot be read: {found.why}")
            typer.echo(_event(loading.raw_event(opened, row, found.seq)))
            typer.echo(f"To leave it out: tensorbandits repair {bandit} --skip {found.seq} --who NAME --why REASON")
            raise typer.Exit(1)
        if not (who or "").strip() or not (why or "").strip():
            raise ValueError("an event is left out on somebody's word: say --who decides it, and --why")
        if skip != found.seq:
            raise ValueError(f"event {skip} is not the one that cannot be read, which is {found.seq}; give that one")
        event = Skipped(time.time(), skip, str(who), str(why))
        opened.append(row.id, opened.head(row.id), [New(event.kind, event.time, event.body(), event.decision)])
        typer.echo(f"{bandit}: event {skip} is left out from now on, as {who} says: {why}. Restart the servers")
        if (more := loading.trouble(opened, row)) is not None:
            typer.echo(f"{bandit}: event {more.seq} cannot be read either: {more.why}")


def _event(event: object) -> str:
    """Show an event as it is stored."""
    if event is None:
        return "It is not there."
    words = json.dumps(event._asdict(), default=str)  # type: ignore[attr-defined]
    return words if len(words) <= _SHOWN else f"{words[:_SHOWN]} ..."

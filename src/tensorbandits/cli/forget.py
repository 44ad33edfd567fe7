"""``tensorbandits forget``: remove a person's data from a store, while the service runs or not."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from tensorbandits.cli.backup import find_bandit, open_store, read_bandit
from tensorbandits.cli.common import one_line_errors
from tensorbandits.cli.options import Url


def forget(
    bandit: Annotated[str | None, typer.Argument(help="A bandit; all of them without it.")] = None,
    decision: Annotated[str | None, typer.Option(help="The id of one decision.")] = None,
    subject: Annotated[str | None, typer.Option(help="A subject: all decisions that were made for it.")] = None,
    why: Annotated[str | None, typer.Option(help="The reason, which stays in the log: name nobody in it.")] = None,
    who: Annotated[str | None, typer.Option("--as", help="Who does it; by default the name of your account.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    store: Url = None,
) -> None:
    """Remove a person's data: ids, subject and idempotency keys of their decisions. Counts and rewards stay.

    That it was done, by whom and why, is an event of the log. Backups of before and exported files are out of reach.
    A bandit whose log cannot be read is left as it is, which is said, and the exit code is 1.
    """
    unread = 0
    with one_line_errors(), open_store(store) as opened:
        from tensorbandits.bandit.actors import check_actor
        from tensorbandits.service.engine import forgetting, loading
        from tensorbandits.store import StoreError

        if why is None and not dry_run:
            raise ValueError("that data are removed is written down with the reason: say --why")
        clock, actor = loading.StoreClock(opened), check_actor(_account() if who is None else who)
        reason, given = why or "a dry run", {"decision": decision, "subject": subject, "dry_run": dry_run}
        rows = opened.bandits() if bandit is None else [find_bandit(opened, bandit)]
        total = 0
        for row in rows:
            try:
                host = read_bandit(opened, row)
            except StoreError as error:
                typer.echo(f"{row.name}: nothing was looked for, as {error}")
                unread += 1
                continue
            found = forgetting.forget(opened, host, clock.now, actor=actor, why=reason, **given)  # type: ignore[arg-type]
            total += found.decisions
            if found.decisions:
                done = "would be forgotten" if dry_run else "forgotten"
                typer.echo(
                    f"{row.name}: {found.decisions:,} decisions with {found.events:,} events {done}"
                    f"{f', {found.cancelled:,} of which waited for a reward' if found.cancelled else ''}"
                )
        if not total:
            elsewhere = " in what could be read" if unread else ""
            typer.echo(f"nothing is known of {decision or subject!r} in {opened.url}{elsewhere}")
    if unread:
        raise typer.Exit(1)


def _account() -> str:
    """The name of the operator's account."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # as in a container whose user has no name
        raise ValueError("your account has no name here; say --as NAME") from None

"""``tensorbandits keys``: make, list and revoke the API keys of a service, in its store."""

import time
from typing import Annotated

import typer
from rich.console import Console

from tensorbandits.cli.backup import open_store
from tensorbandits.cli.common import one_line_errors, print_table

_HEADER = ["id", "name", "role", "bandits", "made", "revoked"]
_WHERE = (
    "The store of the service: a file, sqlite:///FILE, or postgresql://USER@HOST/DATABASE; by default the variable "
    "TENSORBANDITS_STORE, else tensorbandits.db here."
)
KeyStoreUrl = Annotated[str | None, typer.Option("--store", help=_WHERE)]

keys = typer.Typer(no_args_is_help=True, help="Make, list and revoke the API keys of a service, in its store.")


@keys.command("add")
def add(
    name: Annotated[str, typer.Argument(help="Who gets the key, for people.")],
    role: Annotated[str, typer.Option(help="decide (ask and tell), read (see everything) or admin (everything).")],
    bandit: Annotated[
        list[str] | None, typer.Option(help="Limit the key to this bandit. Repeat it for several.")
    ] = None,
    store: KeyStoreUrl = None,
) -> None:
    """Make a key and print it, this once: only a hash is kept."""
    with one_line_errors(), open_store(store, new=True) as opened:
        from tensorbandits.service.http.keyring import make_key

        row, key = make_key(name, role, bandit or None)
        first = not opened.keys()
        opened.add_key(row)
        typer.echo(key)
        typer.echo(f"made the key {row.id}; it is not shown again, so keep it now", err=True)
        if first:
            typer.echo("it is the first: from now on everybody needs a key", err=True)
            if role != "admin" or bandit:
                typer.echo("to make bandits, an admin key is needed too: keys add NAME --role admin", err=True)


@keys.command("list")
def listed(store: KeyStoreUrl = None) -> None:
    """List all keys, revoked ones too."""
    with one_line_errors(), open_store(store, new=True) as opened:
        rows = opened.keys()
        lines = [
            (row.id, row.name, row.role, ", ".join(row.bandits or ["all"]), _day(row.created), _day(row.revoked))
            for row in rows
        ]
        if lines:
            print_table(Console(), f"Keys of {opened.url}", _HEADER, lines)
        else:
            typer.echo(f"{opened.url} has no keys: everybody may do everything, from this machine only")


@keys.command("revoke")
def revoke(
    id: Annotated[str, typer.Argument(help="The key's id, as keys list shows it.")],
    store: KeyStoreUrl = None,
) -> None:
    """Revoke a key; services that run refuse it within seconds."""
    with one_line_errors(), open_store(store, new=True) as opened:
        number = id.split("_")[1] if id.startswith("tb_") and id.count("_") >= 2 else id  # the whole key was given
        rows = opened.keys()
        found = [row for row in rows if row.id == number]
        if not found:
            raise ValueError(f"there is no key {number!r} in {opened.url}; tensorbandits keys list shows them")
        done = opened.revoke_key(number, time.time())
        typer.echo(f"{'revoked' if done else 'was revoked before:'} {number} ({found[0].name})")


def _day(seconds: float | None) -> str:
    return "–" if seconds is None else time.strftime("%Y-%m-%d %H:%M", time.gmtime(seconds))

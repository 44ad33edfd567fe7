"""Write the tables of the service's pages from the service itself: python docs/service_tables.py."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from tensorbandits.report.page import markdown_table
from tensorbandits.service.http.access import table
from tensorbandits.service.http.errors import CODES
from tensorbandits.service.settings import PREFIX, Settings

PAGES = [Path(__file__).parent / "how-to" / name for name in ("run-the-service.md", "operate-the-service.md")]


def access() -> str:
    """Who may do what."""
    rows = [(f"`{route}`", roles, limited) for route, roles, limited in table()]
    return markdown_table(["route", "roles", "a key for some bandits"], rows)


def settings() -> str:
    """The settings, as environment variables."""
    rows = [
        (
            f"`{PREFIX}{each.name.upper()}`",
            each.metadata["help"],
            f"`{shown(each.default, each.name.endswith('_limit'))}`" if each.default else "",
        )
        for each in fields(Settings)
    ]
    return markdown_table(["variable", "what", "default"], rows)


def shown(value: object, size: bool) -> str:
    """A default as one would write it; ``size`` says that it is a number of bytes."""
    if isinstance(value, int) and size:
        return f"{value // 2**20} MiB"
    return f"{value:g}" if isinstance(value, float) else str(value)


def errors() -> str:
    """The codes of errors."""
    rows = [(f"`{code}`", str(status), what) for code, (status, what) in CODES.items()]
    return markdown_table(["code", "status", "what"], rows)


def written(text: str) -> str:
    """Return a page with its tables as they must be."""
    for make in (access, settings, errors):
        before, mark, rest = text.partition(f"<!-- {make.__name__} -->\n")
        if mark:
            _, end, after = rest.partition("<!-- end -->\n")
            text = f"{before}{mark}\n{make()}\n\n{end}{after}"
    return text


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(written(page.read_text(encoding="utf-8")), encoding="utf-8")

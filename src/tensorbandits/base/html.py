"""Small tables of HTML for notebooks: escaped, and in the colours of the notebook, be it dark or light."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import Any

SHOWN = 10  # rows of a table
_LINE = "1px solid rgba(128, 128, 128, 0.35)"
_TABLE = "border-collapse: collapse; color: inherit; background: transparent; font-size: 90%; margin: 0.3em 0 0.6em"
_CELL = f"border: none; border-bottom: {_LINE}; padding: 0.2em 0.7em 0.2em 0; color: inherit"


def block(title: str, *parts: str, words: Iterable[str] = ()) -> str:
    """Return a title, sentences and tables as one piece of HTML; tables are HTML already, all else is escaped.

    >>> block("Space", words=["2 <modes>"])
    '<div style="color: inherit"><strong>Space</strong><div>2 &lt;modes&gt;</div></div>'
    """
    said = "".join(f"<div>{escaped(word)}</div>" for word in words)
    return f'<div style="color: inherit"><strong>{escaped(title)}</strong>{said}{"".join(parts)}</div>'


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], *, most: int = SHOWN, what: str = "rows") -> str:
    """Return rows as a table, the first of them if there are more; numbers stand at the right.

    >>> shown = table(["offer"], [["<b>"], ["c"]], most=1, what="offers")
    >>> "<b>" in shown, "&lt;b&gt;" in shown, "and 1 more offers" in shown
    (False, True, True)
    """
    listed = list(rows)
    first = "".join(f'<th scope="col" style="{_CELL}; text-align: left">{escaped(name)}</th>' for name in head)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in listed[:most])
    more = len(listed) - most
    left = f'<div style="opacity: 0.7; font-size: 90%">and {more:,} more {escaped(what)}</div>' if more > 0 else ""
    return f'<table style="{_TABLE}"><thead><tr>{first}</tr></thead><tbody>{body}</tbody></table>{left}'


def _cell(value: Any) -> str:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    align = "right; font-variant-numeric: tabular-nums" if number else "left"
    return f'<td style="{_CELL}; text-align: {align}">{escaped(_words(value) if number else value)}</td>'


def _words(number: float) -> str:
    if not math.isfinite(number):
        return "–"
    return f"{number:,}" if isinstance(number, int) else f"{number:,.4g}"


def bounded(numbers: Sequence[float]) -> str:
    """Return a number with its bounds in words.

    >>> bounded((0.25, 0.2, 0.31))
    '0.25 (0.2 to 0.31)'
    """
    mean, low, high = map(float, numbers)
    return f"{_words(mean)} ({_words(low)} to {_words(high)})" if math.isfinite(mean) else "–"


def listed(values: Sequence[Any], most: int = 6) -> str:
    """Return labels in one line, the first of them if there are more.

    >>> listed(["a", 2, "c"], most=2)
    'a, 2, … (3)'
    """
    shown = ", ".join(str(value) for value in values[:most])
    return shown if len(values) <= most else f"{shown}, … ({len(values):,})"


def escaped(value: Any) -> str:
    """Return a value as text in which nothing is a tag.

    >>> escaped("<script>"), escaped(7)
    ('&lt;script&gt;', '7')
    """
    return html.escape(str(value))

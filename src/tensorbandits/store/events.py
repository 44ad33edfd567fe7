"""What a store holds, as plain values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Any, NamedTuple

DELETED = "Deleted"  # the kind of the last event of a bandit that was deleted

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class Event(NamedTuple):
    """One thing that happened to a bandit; ``seq`` counts 1, 2, 3, .. per bandit, without gaps."""

    bandit: int
    seq: int
    time: float
    kind: str
    decision: str | None
    key: str | None
    body: dict[str, Any]


class New(NamedTuple):
    """An event that has no number yet.

    ``body`` is what JSON can write. ``key`` is an idempotency key: no two events of a bandit have the same one.
    """

    kind: str
    time: float
    body: dict[str, Any] = {}  # noqa: RUF012, nobody changes a body
    decision: str | None = None
    key: str | None = None


class BanditRow(NamedTuple):
    """A bandit as the store knows it: its number, which is never used again, and its name."""

    id: int
    name: str
    created: float


class KeyRow(NamedTuple):
    """An API key; only a hash of it is kept. ``bandits`` limits it to some names; None does not."""

    id: str
    name: str
    hash: str
    role: str
    bandits: list[str] | None
    created: float
    revoked: float | None = None


def rows_of(bandit: int, first: int, news: Sequence[New]) -> list[dict[str, Any]]:
    """Return the rows of new events, numbered from ``first`` on.

    >>> rows_of(1, 5, [New("Rewarded", 12.5, {"reward": 1}, "d1")])[0]["body"]
    '{"reward":1}'
    """
    return [
        {
            "bandit": bandit,
            "seq": seq,
            "time": _finite(new),
            "kind": new.kind,
            "decision": check_text(new.decision, "a decision's id"),
            "key": check_text(new.key, "an idempotency key"),
            "body": _written(new),
        }
        for seq, new in enumerate(news, first)
    ]


def events_of(bandit: int, rows: Iterable[Sequence[Any]]) -> list[Event]:
    """Return the events of rows (seq, time, kind, decision, key, body).

    >>> events_of(1, [(5, 12.5, "Rewarded", "d1", None, '{"reward":1}')])[0].body
    {'reward': 1}
    """
    return [
        Event(bandit, seq, time, kind, decision, key, json.loads(body)) for seq, time, kind, decision, key, body in rows
    ]


def check_text(text: str | None, what: str) -> str | None:
    """Return the text, which a database must be able to hold: PostgreSQL has no zero characters.

    >>> check_text("a" + chr(0), "a name")
    Traceback (most recent call last):
    ...
    ValueError: a name is 'a\\x00'; it holds a zero character, which a store cannot keep: leave it out
    """
    if text is not None:
        if "\0" in text:
            raise ValueError(f"{what} is {text!r}; it holds a zero character, which a store cannot keep: leave it out")
        if not text.isascii():
            text.encode()  # refuses halves of characters
    return text


def _finite(new: New) -> float:
    """Return the time, which must be a number."""
    if not isfinite(new.time):
        raise ValueError(f"the time of {new.kind} is {new.time!r}; give seconds since 1970")
    return new.time


def _written(new: New) -> str:
    """Return the body as JSON, which knows no infinite numbers."""
    try:
        return _encode(new.body)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the body of {new.kind} cannot be written as JSON: {error}; the body is {new.body!r}"
        ) from error

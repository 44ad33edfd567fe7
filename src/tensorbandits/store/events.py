"""What a store holds, as plain values, and the checksums by which a log is known to be whole."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from math import isfinite
from typing import Any, NamedTuple

from tensorbandits.store.errors import DamagedError, StoreError

DECIDED = "Decided"  # the kind of an event that makes a decision; no two of a bandit have the same id
DELETED = "Deleted"  # the kind of the last event of a bandit that was deleted

FORGOTTEN = "Forgotten"  # the kind of an event that says whose data were removed from earlier ones
SEAL = "sealed"  # the word of a body under which an event whose data were removed has a checksum of what is left

Row = Sequence[Any]  # seq, time, kind, decision, key, body, chain

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class Head(NamedTuple):
    """Where a log ends, as a reader knows it.

    ``seq`` is the number of the last event, 0 for none; ``chain`` is its checksum, None where it is not known.
    """

    seq: int = 0
    chain: str | None = None


class Event(NamedTuple):
    """One thing that happened to a bandit; ``seq`` counts 1, 2, 3, .. per bandit, without gaps.

    ``chain`` is a checksum of this event and of all before it. Events of early releases have none.
    """

    bandit: int
    seq: int
    time: float
    kind: str
    decision: str | None
    key: str | None
    body: dict[str, Any]
    chain: str | None = None


class New(NamedTuple):
    """An event that has no number yet.

    ``body`` is what JSON can write. ``key`` is an idempotency key: no two events of a bandit have the same one.
    ``subject`` is who a decision is made for; it is kept apart from the log.
    """

    kind: str
    time: float
    body: dict[str, Any] = {}  # noqa: RUF012, nobody changes a body
    decision: str | None = None
    key: str | None = None
    subject: str | None = None


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


class Standing(NamedTuple):
    """How a log stands: the last event that was folded into the base, the last event, and whether it was deleted."""

    base: Head
    head: Head
    deleted: bool

    @classmethod
    def of(cls, row: Row) -> Standing:
        """Return it from a row of the statement of the same name."""
        folded, folded_chain, deleted, last, chain = row
        if type(folded) is not int or type(last) not in (int, type(None)):
            raise StoreError(f"a log goes from event {folded!r} to {last!r}: the database is damaged; restore a backup")
        base = Head(folded, folded_chain)
        return cls(base, base if last is None else Head(last, chain), deleted is not None)


def checksum(before: str | None, row: Row) -> str:
    """Return the checksum of an event, chained to that of the event before it.

    No text of an event holds a zero character, so that what stands between two of them is in none.

    >>> checksum(None, (1, 12.5, "Rewarded", "d1", None, '{"reward":1}'))
    '96d04a8875ada5bd'
    """
    seq, time, kind, decision, key, body = row[:6]
    named = "\0" if decision is None else f"\0={decision}"
    keyed = "\0" if key is None else f"\0={key}"
    text = f"{before or ''}\0{seq}\0{time!r}\0{kind}{named}{keyed}\0{body}"
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def rows_of(bandit: int, head: Head, news: Sequence[New]) -> list[dict[str, Any]]:
    """Return the rows of new events, numbered and chained from a head on.

    >>> rows_of(1, Head(4), [New("Rewarded", 12.5, {"reward": 1}, "d1")])[0]["body"]
    '{"reward":1}'
    """
    rows, chain = [], head.chain
    for seq, new in enumerate(news, head.seq + 1):
        kind, decision = check_text(new.kind, "a kind"), check_text(new.decision, "a decision's id")
        time, key, body = _finite(new), check_text(new.key, "an idempotency key"), _written(new)
        chain = checksum(chain, (seq, time, kind, decision, key, body))
        rows.append(
            {
                "bandit": bandit,
                "seq": seq,
                "time": time,
                "kind": kind,
                "decision": decision,
                "key": key,
                "body": body,
                "chain": chain,
            }
        )
    return rows


def events_of(bandit: int, rows: Iterable[Row]) -> list[Event]:
    """Return the events of rows, whether or not their checksums are right.

    >>> events_of(1, [(5, 12.5, "Rewarded", "d1", None, '{"reward":1}', None)])[0].body
    {'reward': 1}
    """
    return [_event(bandit, row) for row in rows]


def raw_events_of(bandit: int, rows: Iterable[Row]) -> list[Event]:
    """Return the events of rows for repair: a body that cannot be read is shown as it is.

    >>> raw_events_of(1, [(5, 12.5, "Rewarded", "d1", None, "[1", None)])[0].body
    {'unreadable': "'[1'"}
    """
    return [_event(bandit, row, raw=True) for row in rows]


def verified(bandit: int, head: Head, rows: Iterable[Row]) -> list[Event]:
    """Return the events of rows that follow a head; a :class:`DamagedError` unless they are what was written."""
    events = []
    for row in rows:
        seq, chain = row[0], row[6]
        if seq != head.seq + 1:
            raise DamagedError(bandit, head.seq + 1, f"it is missing, and event {seq} comes next")
        if chain is None and head.chain is not None:
            raise DamagedError(bandit, seq, "it has no checksum, but the event before it has one")
        if chain is not None and chain != checksum(head.chain, row) and not _is_sealed(row):
            raise DamagedError(bandit, seq, "its checksum is wrong: it, or an event before it, was changed")
        events.append(_event(bandit, row))
        head = Head(seq, chain)
    return events


def redacted(event: Event, name: str) -> str:
    """Return the body that is left of an event of a decision whose id is replaced by a name.

    The checksum of the event stays: those that follow build on it, and it can no longer be worked out from the event.
    So what is left has a checksum of its own, which builds on that.
    """
    body = {part: value for part, value in event.body.items() if part not in ("request", SEAL)}
    if event.chain is None:
        return _encode(body)
    left = (event.seq, event.time, event.kind, name, None, _encode(body))
    return _encode({**body, SEAL: checksum(event.chain, left)})


def _is_sealed(row: Row) -> bool:
    """Say whether data were removed from an event, and what is left is what was left then."""
    seq, time, kind, decision, key, text, chain = row
    try:
        body = json.loads(text)
        seal = body.pop(SEAL)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return False
    return bool(seal == checksum(chain, (seq, time, kind, decision, key, _encode(body))))


def _event(bandit: int, row: Row, raw: bool = False) -> Event:
    """Return the event of a row."""
    seq, time, kind, decision, key, text, chain = row
    try:
        body = json.loads(text)
        if type(body) is not dict:
            raise ValueError("it is no JSON object")
    except (TypeError, ValueError, RecursionError) as error:
        if not raw:
            raise DamagedError(bandit, seq, f"its body cannot be read ({error})") from error
        body = {"unreadable": repr(text)}
    return Event(bandit, seq, time, kind, decision, key, body, chain)


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
    """Return the time, which must be a number; databases know no negative zero."""
    if not isfinite(new.time):
        raise ValueError(f"the time of {new.kind} is {new.time!r}; give seconds since 1970")
    return float(new.time) + 0.0


def _written(new: New) -> str:
    """Return the body as JSON, which knows no infinite numbers."""
    try:
        return _encode(new.body)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the body of {new.kind} cannot be written as JSON: {error}; the body is {new.body!r}"
        ) from error

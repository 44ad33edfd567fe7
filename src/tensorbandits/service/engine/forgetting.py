"""Removing a person's data: ids of decisions, the subject they were for and idempotency keys, everywhere in a store.

What was counted stays: a decision goes on under a name that means nothing, with its cell, its probability, its times
and its reward, so that the log folds to what it did. That it was done, by whom and why, is an event of its own. A
server that runs learns of it by that event, and no snapshot of before is kept after it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tensorbandits.bandit import commands as c
from tensorbandits.bandit import events as e
from tensorbandits.bandit.actors import MARK
from tensorbandits.bandit.changes import check_reason
from tensorbandits.decider.tokens import TokenExpiredError, TokenRefusedError
from tensorbandits.service.engine import loading
from tensorbandits.service.engine.host import Host
from tensorbandits.store import BehindError, New, Store

_TOGETHER = 500  # decisions of an event


@dataclass(frozen=True)
class Forgot:
    """What was removed, or would be: decisions, their events, and decisions that waited and were cancelled for it."""

    decisions: int
    events: int
    cancelled: int
    dry_run: bool


def forget(
    store: Store,
    host: Host,
    now: Callable[[], float],
    *,
    actor: str,
    why: str,
    decision: str | None = None,
    subject: str | None = None,
    dry_run: bool = False,
) -> Forgot:
    """Remove the data of one decision, or of all that were made for a subject; nothing if there are none."""
    reason = check_reason(why)
    if (decision is None) == (subject is None):
        raise ValueError("give either the id of a decision or a subject, whose decisions are all meant")
    ids = [decision] if decision is not None else store.of_subject(host.id, str(subject))
    with host.turn:
        host.catch_up(store)
        made, events, waiting = _found(store, host, ids)
        if made and not dry_run:
            for part in _parts(sorted(made.items())):
                _forget(store, host, now, actor, reason, part)
            store.put_snapshot(host.id, *loading.pack(host.core))  # as those of before are gone
    return Forgot(len(made), events, waiting, dry_run)


def _found(store: Store, host: Host, ids: Sequence[str]) -> tuple[dict[str, float], int, int]:
    """Return when the decisions were made that are known, how many events they have, and how many of them wait."""
    made: dict[str, float] = {}
    written = store.of_decisions(host.id, ids)
    with host.core.lock:
        book = host.core.state.book
        records = {number: record for number in ids if (record := book.get(number)) is not None}
    for number in ids:
        if written.get(number) and written[number][0].kind == "Decided":
            made[number] = written[number][0].body.get("made", written[number][0].time)
        elif number in records:  # whose event was folded away
            made[number] = records[number].time
    waiting = sum(record.state in ("inactive", "open") for record in records.values())
    return made, sum(len(written.get(number, ())) for number in made), waiting


def _moments(host: Host, number: str, made: float) -> list[float]:
    """The times by which a decision is found: a token has one of its own, later if a decider's clock was ahead."""
    if host.tokens.could_be(number):
        with contextlib.suppress(TokenRefusedError, TokenExpiredError):  # which is refused wherever it comes again
            return sorted({made, host.tokens.read(number, host.uid).time})
    return [made]


def _parts(some: Sequence[tuple[str, float]]) -> Iterator[Sequence[tuple[str, float]]]:
    return (some[at : at + _TOGETHER] for at in range(0, len(some), _TOGETHER))


def _forget(
    store: Store, host: Host, now: Callable[[], float], actor: str, why: str, made: Sequence[tuple[str, float]]
) -> None:
    """Say in the log that some decisions are forgotten, and then remove what is known of them; the turn is held."""
    names = {number: f"forgotten-{os.urandom(8).hex()}" for number, _ in made}
    found = [(number, names[number], moment) for number, time in made for moment in _moments(host, number, time)]
    command = c.Forget(found, os.urandom(16).hex(), why)
    while True:
        state = host.core.state
        with host.core.lock:
            planned, mark = state.plan(command, now()), state.actors.writer()
        news = [New(one.kind, one.time, {**one.body(), MARK: mark(actor)}, one.decision) for one in planned]
        try:
            written = store.append(host.id, host.head, news)
            break
        except BehindError:
            host.catch_up(store)
    host.follow(written)
    store.redact(host.id, names)
    event = planned[0]
    assert isinstance(event, e.Forgotten)
    _clean_base(store, host, event)


def _clean_base(store: Store, host: Host, event: e.Forgotten) -> None:
    """Remove the ids from the base too, if there is one; another server may move it meanwhile."""
    while base := store.base(host.id):
        found = store.snapshot(host.id, base)
        if found is None or found[0] != base:
            continue
        core = loading.unpack(found[1])
        names = event.found(core.state.book.times())
        if not names:
            return
        core.state.forget(event)
        if store.replace_base(host.id, *loading.pack(core)):
            return

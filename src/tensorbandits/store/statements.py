"""The statements that a store runs, written once for all databases. Parameters have the names of what they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Double,
    Insert,
    LargeBinary,
    Text,
    bindparam,
    delete,
    false,
    func,
    insert,
    literal_column,
    null,
    select,
    true,
    update,
)

from tensorbandits.store.events import FORGOTTEN
from tensorbandits.store.schema import bandits, events, keys, snapshots, subjects

LARGEST = 2**63 - 1  # number that a database holds
CACHES = 2  # snapshots that are kept beside the base
Among = Callable[[ColumnElement[Any], str], ColumnElement[bool]]

_of_bandit = events.c.bandit == bindparam("bandit")
log_columns = (
    events.c.seq,
    events.c.time,
    events.c.kind,
    events.c.decision,
    events.c.key,
    events.c.body,
    events.c.chain,
)
_seq = bindparam("seq", type_=BigInteger)
first_from = select(func.min(events.c.seq)).where(_of_bandit, events.c.time >= bindparam("time", type_=Double))
_chain = bindparam("chain", type_=Text)
_limit = bindparam("limit", type_=BigInteger)
_none: ColumnElement[int] = literal_column(
    "0"
)  # SQLAlchemy gives SQLite an offset in any case, by default as a parameter of its own
_last = select(func.max(events.c.seq)).where(events.c.bandit == bandits.c.id).scalar_subquery()
_last_chain = (
    select(events.c.chain)
    .where(events.c.bandit == bandits.c.id)
    .order_by(events.c.seq.desc())
    .limit(literal_column("1"))
    .offset(_none)
    .scalar_subquery()
)
_head = func.coalesce(_last, bandits.c.folded)
_present = bandits.c.deleted.is_(None)
_this = bandits.c.id == bindparam("bandit")

# Events.
log = (
    select(*log_columns)
    .where(_of_bandit, events.c.seq > bindparam("after"), events.c.seq <= bindparam("until"))
    .order_by(events.c.seq)
    .limit(_limit)
    .offset(_none)
)
tail = select(*log_columns).where(_of_bandit).order_by(events.c.seq.desc()).limit(_limit).offset(_none)
append = insert(events)
forget = delete(events).where(_of_bandit, events.c.seq <= _seq)
chain_at = select(events.c.chain).where(_of_bandit, events.c.seq == _seq)

# Bandits.
present = select(bandits.c.id, bandits.c.name, bandits.c.created).where(_present).order_by(bandits.c.id)
named = select(bandits.c.id, bandits.c.name, bandits.c.created).where(_present, bandits.c.name == bindparam("name"))
heads = select(bandits.c.id, _head).where(_present)
standing = select(bandits.c.folded, bandits.c.folded_chain, bandits.c.deleted, _last, _last_chain).where(_this)
create = insert(bandits).values(name=bindparam("name"), created=bindparam("created")).returning(bandits.c.id)
# Deleting appends an event in the same transaction; where it could not, this does nothing.
remove = (
    update(bandits)
    .where(_this, select(events.c.seq).where(_of_bandit, events.c.seq == _seq, events.c.chain == _chain).exists())
    .values(deleted=bindparam("time"))
)
ended = (
    select(bandits.c.id)
    .join(events, events.c.bandit == bandits.c.id)
    .where(events.c.key == bindparam("key"), events.c.kind == bindparam("kind"), bandits.c.name == bindparam("name"))
)
move_base = (
    update(bandits)
    .where(_this, bandits.c.folded < _seq)
    .values(
        folded=_seq,
        folded_chain=select(events.c.chain).where(_of_bandit, events.c.seq == _seq).scalar_subquery(),
    )
    .returning(bandits.c.id)
)

# Snapshots: the base, and caches.
_state_of = snapshots.c.bandit == bindparam("bandit")
_cache = snapshots.c.base.is_(False)
newest_snapshot = (
    select(snapshots.c.seq, snapshots.c.state)
    .where(_state_of, snapshots.c.seq <= bindparam("until"))
    .order_by(snapshots.c.seq.desc(), snapshots.c.base.desc())
    .limit(literal_column("1"))
    .offset(_none)
)
_caches = select(snapshots.c.seq).where(_state_of, _cache)
drop_cached = delete(snapshots).where(_state_of, _cache, snapshots.c.seq == _seq)
_kept = _caches.order_by(snapshots.c.seq.desc()).limit(literal_column(str(CACHES))).offset(_none).subquery()
drop_old_caches = delete(snapshots).where(
    _state_of, _cache, snapshots.c.seq < select(func.min(_kept.c.seq)).scalar_subquery()
)
drop_caches = delete(snapshots).where(_state_of, _cache)
drop_all_caches = delete(snapshots).where(_cache)
drop_states = delete(snapshots).where(_state_of, snapshots.c.seq <= _seq)


def _put(base: bool, *conditions: ColumnElement[bool]) -> Insert:
    """Return the statement that writes a state, if the bandit is as the conditions say."""
    given: list[ColumnElement[Any]] = [bandits.c.id, true() if base else false(), _seq]
    given += [bindparam("time", type_=Double), bindparam("state", type_=LargeBinary)]
    return insert(snapshots).from_select(
        ["bandit", "base", "seq", "time", "state"], select(*given).where(_this, *conditions)
    )


_newer = select(func.count()).select_from(_caches.where(snapshots.c.seq > _seq).subquery()).scalar_subquery()
put_base = _put(True, bandits.c.folded == _seq)
# A state of before a person's data were removed is not kept any more.
_forgotten_since = select(events.c.seq).where(
    events.c.bandit == bandits.c.id, events.c.seq > _seq, events.c.kind == literal_column(f"'{FORGOTTEN}'")
)
put_cache = _put(
    False, bandits.c.folded < _seq, _newer < literal_column(str(CACHES)), ~_forgotten_since.correlate(bandits).exists()
)
replace_base = (
    update(snapshots)
    .where(_state_of, snapshots.c.base.is_(True), snapshots.c.seq == _seq)
    .values(state=bindparam("state", type_=LargeBinary))
)

# Subjects.
_subject = bindparam("subject", type_=Text)
_decision = bindparam("decision", type_=Text)
_written = select(events.c.seq).where(
    events.c.bandit == bandits.c.id, events.c.seq == _seq, events.c.chain == bindparam("chain", type_=Text)
)
# Goes with an append; where that could not be, this does nothing.
put_subject = insert(subjects).from_select(
    ["bandit", "subject", "decision"],
    select(bandits.c.id, _subject, _decision).where(_this, _written.correlate(bandits).exists()),
)
of_subject = (
    select(subjects.c.decision)
    .where(subjects.c.bandit == bindparam("bandit"), subjects.c.subject == _subject)
    .order_by(subjects.c.decision)
)
drop_subject = delete(subjects).where(subjects.c.bandit == bindparam("bandit"), subjects.c.decision == _decision)
redact = (
    update(events)
    .where(_of_bandit, events.c.seq == _seq)
    .values(decision=bindparam("name", type_=Text), key=null(), body=bindparam("redacted", type_=Text))
)

# Keys.
put_key = insert(keys)
all_keys = select(keys).order_by(keys.c.created, keys.c.id)
revoke_key = (
    update(keys)
    .where(keys.c.id == bindparam("key"), keys.c.revoked.is_(None))
    .values(revoked=bindparam("time"))
    .returning(keys.c.id)
)


class Listed:
    """The statements whose parameter is a list, which each database takes in its own way.

    ``bandit`` is the column of that name, as the database wants it to use the index of the list's column.
    """

    def __init__(self, among: Among, bandit: ColumnElement[int]) -> None:
        mine = bandit == bindparam("bandit")
        self.keyed = select(*log_columns).where(mine, among(events.c.key, "keys"))
        until = events.c.seq <= bindparam("until")
        self.of_kinds = select(*log_columns).where(mine, until, among(events.c.kind, "kinds")).order_by(events.c.seq)
        self.of_decisions = select(*log_columns).where(mine, among(events.c.decision, "ids")).order_by(events.c.seq)

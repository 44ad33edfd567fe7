"""The statements that a store runs, written once for all databases. Parameters have the names of what they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, bindparam, delete, func, insert, literal_column, select, update

from tensorbandits.store.schema import bandits, events, keys, snapshots

LARGEST = 2**63 - 1  # number that a database holds
Among = Callable[[ColumnElement[Any], str], ColumnElement[bool]]

_of_bandit = events.c.bandit == bindparam("bandit")
_columns = (events.c.seq, events.c.time, events.c.kind, events.c.decision, events.c.key, events.c.body)
_limit = bindparam("limit", type_=BigInteger)
_none: ColumnElement[int] = literal_column(
    "0"
)  # SQLAlchemy gives SQLite an offset in any case, by default as a parameter of its own
_last = select(func.max(events.c.seq)).where(events.c.bandit == bandits.c.id).scalar_subquery()
_head = func.coalesce(_last, bandits.c.folded)
_present = bandits.c.deleted.is_(None)

# Events.
log = (
    select(*_columns)
    .where(_of_bandit, events.c.seq > bindparam("after"), events.c.seq <= bindparam("until"))
    .order_by(events.c.seq)
    .limit(_limit)
    .offset(_none)
)
tail = select(*_columns).where(_of_bandit).order_by(events.c.seq.desc()).limit(_limit).offset(_none)
append = insert(events)
forget = delete(events).where(_of_bandit, events.c.seq <= bindparam("seq"))

# Bandits.
present = select(bandits.c.id, bandits.c.name, bandits.c.created).where(_present).order_by(bandits.c.id)
named = select(bandits.c.id, bandits.c.name, bandits.c.created).where(_present, bandits.c.name == bindparam("name"))
heads = select(bandits.c.id, _head).where(_present)
standing = select(bandits.c.folded, bandits.c.deleted, _head).where(bandits.c.id == bindparam("bandit"))
create = insert(bandits).values(name=bindparam("name"), created=bindparam("created")).returning(bandits.c.id)
remove = update(bandits).where(bandits.c.id == bindparam("bandit")).values(deleted=bindparam("time"))
ended = (
    select(bandits.c.id)
    .join(events, events.c.bandit == bandits.c.id)
    .where(events.c.key == bindparam("key"), events.c.kind == bindparam("kind"), bandits.c.name == bindparam("name"))
)
move_base = update(bandits).where(bandits.c.id == bindparam("bandit")).values(folded=bindparam("seq"))

# Snapshots: the base, and caches.
_state_of = snapshots.c.bandit == bindparam("bandit")
_cache = snapshots.c.base.is_(False)
put_snapshot = insert(snapshots)
newest_snapshot = (
    select(snapshots.c.seq, snapshots.c.state)
    .where(_state_of, snapshots.c.seq <= bindparam("until"))
    .order_by(snapshots.c.seq.desc(), snapshots.c.base.desc())
    .limit(literal_column("1"))
    .offset(_none)
)
cached = select(snapshots.c.seq).where(_state_of, _cache).order_by(snapshots.c.seq.desc())
drop_cached = delete(snapshots).where(_state_of, _cache, snapshots.c.seq == bindparam("seq"))
drop_caches = delete(snapshots).where(_state_of, _cache)
drop_all_caches = delete(snapshots).where(_cache)
drop_states = delete(snapshots).where(_state_of, snapshots.c.seq <= bindparam("seq"))

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
        self.keyed = select(*_columns).where(mine, among(events.c.key, "keys"))
        self.of_decisions = select(*_columns).where(mine, among(events.c.decision, "ids")).order_by(events.c.seq)

"""The statements by which PostgreSQL appends to a log; all others are written once for all databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Insert,
    Integer,
    Select,
    TableValuedAlias,
    Text,
    and_,
    bindparam,
    cast,
    func,
    insert,
    literal_column,
    or_,
    select,
)
from sqlalchemy.dialects.postgresql import insert as insert_or_not
from sqlalchemy.sql.base import Executable

from tensorbandits.store.schema import bandits, events
from tensorbandits.store.statements import log_columns

_bandit = bindparam("bandit", type_=Integer)
_after = bindparam("after", type_=BigInteger)  # the number of the last event that the writer knows
_chain = bindparam("chain", type_=Text)  # and its checksum
_names = [column.name for column in events.c]


def _given() -> TableValuedAlias:
    """Return the rows of events, which come as one JSON text: the quickest way for a few rows."""
    columns = [Column(column.name, column.type) for column in events.c]
    rows = func.json_to_recordset(cast(bindparam("rows", type_=Text), JSON)).table_valued(*columns)
    return rows.render_derived(with_types=True)


def _append() -> Select[Any]:
    """Return the statement that writes events, and says whether it did.

    It does nothing where the number of the first is taken: the server would note an error in its log, with all events.
    """
    rows = select(_given()).cte("given")
    start = insert_or_not(events).from_select(_names, select(*rows.c).where(rows.c.seq == _after + literal_column("1")))
    start = start.on_conflict_do_nothing(index_elements=[events.c.bandit, events.c.seq])
    first = start.returning(events.c.seq).cte("first")
    more = select(*rows.c).where(rows.c.seq > _after + literal_column("1"), select(first.c.seq).exists())
    rest = insert(events).from_select(_names, more).cte("rest")
    return select(func.count()).select_from(first).add_cte(rest)


append = _append()

# Fails, by dividing by zero, unless the log is the one that the writer knows, and so undoes what was appended. It comes
# after the append as it must see a base that moved in between: the event in its way may have been folded away.
_there = select(events.c.seq).where(events.c.bandit == _bandit, events.c.seq == _after)
_same = events.c.chain.is_not_distinct_from(_chain)
check = select(literal_column("1") / func.count()).where(
    bandits.c.id == _bandit,
    bandits.c.deleted.is_(None),
    or_(
        and_(bandits.c.folded == _after, bandits.c.folded_chain.is_not_distinct_from(_chain)),
        and_(bandits.c.folded < _after, _there.where(_same).exists()),
    ),
)

# The next events, unless the first of them is ours.
_ours = select(events.c.seq).where(
    events.c.bandit == _bandit,
    events.c.seq == _after + literal_column("1"),
    events.c.chain == bindparam("first", type_=Text),
)
others = (
    select(*log_columns)
    .where(
        events.c.bandit == _bandit,
        events.c.seq > _after,
        events.c.seq <= bindparam("until", type_=BigInteger),
        ~_ours.correlate(None).exists(),
    )
    .order_by(events.c.seq)
)


def _first_events() -> Insert:
    """Return the statement that writes the events of a bandit which was made in the same message."""
    rows = _given()
    values = [bandits.c.id if name == "bandit" else rows.c[name] for name in _names]
    made = and_(bandits.c.name == bindparam("name"), bandits.c.deleted.is_(None))
    return insert(events).from_select(_names, select(*values).where(made))


first_events = _first_events()


# An append runs these three, by the names under which a connection knows them.
_PREPARED: dict[str, tuple[Executable, dict[str, str]]] = {
    "tensorbandits_append": (append, {"after": "bigint", "rows": "text"}),
    "tensorbandits_check": (check, {"bandit": "integer", "after": "bigint", "chain": "text"}),
    "tensorbandits_others": (
        others,
        {"bandit": "integer", "after": "bigint", "until": "bigint", "first": "text"},
    ),
}
EXECUTE = [
    f"EXECUTE {name} ({', '.join(f'%({parameter})s' for parameter in types)})" for name, (_, types) in _PREPARED.items()
]


def prepare(text: Callable[[Executable], str]) -> Iterator[str]:
    """Yield the statements that make the three known to a connection; ``text`` gives a statement's words."""
    for name, (statement, types) in _PREPARED.items():
        places = {parameter: f"${place}" for place, parameter in enumerate(types, 1)}
        yield f"PREPARE {name} ({', '.join(types.values())}) AS {text(statement) % places}"

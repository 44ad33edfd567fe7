"""Exports, written while they are sent: decisions with their rewards, or the events of the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any

from tensorbandits.service.engine.host import Host
from tensorbandits.service.engine.loading import pages
from tensorbandits.service.http import formats
from tensorbandits.service.http.formats import FORMATS
from tensorbandits.space.labels import Label
from tensorbandits.store import Event, Store

PAGE = 5_000  # rows that are written at once
_ENDS = {"Rewarded": "rewarded", "Amended": "rewarded", "TimedOut": "timed out", "Cancelled": "cancelled"}
FIXED = ("decision", "decided", "by", "propensity", "status", "reward", "rewarded")


def decisions(store: Store, host: Host, after: int = 0, form: formats.Name = "parquet") -> Iterator[bytes]:
    """Yield a file of one row per decision, in order, with its labels and what became of it until now."""
    import pyarrow as pa

    space, last = host.core.space, host.seq  # later events may have levels of another kind
    names = [mode if mode not in FIXED else f"{mode} (mode)" for mode in space.modes]
    kinds = [_kind(labels) for labels in space.levels]
    fields = [("decision", pa.string()), ("decided", pa.float64()), *zip(names, map(_column, kinds), strict=True)]
    fields += [("by", pa.string()), ("propensity", pa.float64()), ("status", pa.string())]
    fields += [("reward", pa.float64()), ("rewarded", pa.float64())]

    def rows(page: Sequence[Event]) -> list[dict[str, Any]]:
        made = [event for event in page if event.kind == "Decided"]
        found = store.of_decisions(host.id, [event.decision for event in made if event.decision is not None])
        return [_row(event, found[event.decision or ""], space, dict(zip(names, kinds, strict=True))) for event in made]

    found = store.events(host.id, after=after, until=last, verify=False)
    yield from FORMATS[form].write(pa.schema(fields), (rows(page) for page in pages(found, PAGE)))


def _kind(labels: Sequence[Label]) -> type:
    """The kind of all labels of a mode; text, if they are of several.

    >>> _kind([1, 2.5]), _kind([True, False]), _kind([1, "1"])
    (<class 'float'>, <class 'bool'>, <class 'str'>)
    """
    kinds = {type(label) for label in labels}
    if kinds == {int} and any(abs(label) >= 2**63 for label in labels if isinstance(label, int)):
        return str
    if kinds == {datetime} and any(label.tzinfo is not None for label in labels if isinstance(label, datetime)):
        return str
    return kinds.pop() if len(kinds) == 1 else float if kinds == {int, float} else str


def _column(kind: type) -> Any:
    import pyarrow as pa

    kinds = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), date: pa.date32(), datetime: pa.timestamp("us")}
    return kinds.get(kind, pa.string())


def _row(event: Event, events: Sequence[Event], space: Any, kinds: Mapping[str, type]) -> dict[str, Any]:
    cell = space.labels(event.body["cell"]).values()
    labels = [kind(label) if kind in (str, float) else label for kind, label in zip(kinds.values(), cell, strict=True)]
    ends = [one for one in events if one.kind in _ENDS]
    waiting = "open" if event.body.get("active", True) or len(events) > 1 else "inactive"
    return {
        "decision": event.decision,
        "decided": event.body.get("made", event.time),
        **dict(zip(kinds, labels, strict=True)),
        "by": event.body["by"],
        "propensity": event.body["p"],
        "status": _ENDS[ends[-1].kind] if ends else waiting,
        "reward": ends[-1].body.get("reward") if ends else None,
        "rewarded": ends[-1].time if ends and ends[-1].kind != "Cancelled" else None,
    }


def events(
    store: Store, host: Host, after: int = 0, form: formats.Name = "parquet", until: int | None = None
) -> Iterator[bytes]:
    """Yield a file of one row per event, up to one."""
    import pyarrow as pa

    kinds = [("seq", pa.int64()), ("time", pa.float64()), ("kind", pa.string())]
    schema = pa.schema([*kinds, ("decision", pa.string()), ("actor", pa.string()), ("body", pa.string())])

    def rows(page: Sequence[Event]) -> list[dict[str, Any]]:
        return [host.shown(event) for event in page]

    found = store.events(host.id, after=after, until=until, verify=False)
    yield from FORMATS[form].write(schema, (rows(page) for page in pages(found, PAGE)))

"""What happened, as Parquet that is written while it is sent: decisions with their rewards, or events as they are."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from typing import Any

from tensorbandits.service.hosted import Hosted
from tensorbandits.service.hosts import pages
from tensorbandits.store import Event, Store

_PAGE = 5_000  # rows that are written at once
_ENDS = {"Rewarded": "rewarded", "Amended": "rewarded", "TimedOut": "timed out", "Cancelled": "cancelled"}
FIXED = ("decision", "decided", "by", "propensity", "status", "reward", "rewarded")


def decisions(store: Store, host: Hosted, after: int = 0) -> Iterator[bytes]:
    """Yield a Parquet file of one row per decision, in order, with its labels and what became of it until now."""
    import pyarrow as pa

    space = host.replica.space
    names = [mode if mode not in FIXED else f"{mode} (mode)" for mode in space.modes]
    fields = [("decision", pa.string()), ("decided", pa.float64()), *((name, pa.string()) for name in names)]
    fields += [("by", pa.string()), ("propensity", pa.float64()), ("status", pa.string())]
    fields += [("reward", pa.float64()), ("rewarded", pa.float64())]

    def rows(page: Sequence[Event]) -> list[dict[str, Any]]:
        made = [event for event in page if event.kind == "Decided"]
        found = store.of_decisions(host.id, [event.decision for event in made if event.decision is not None])
        return [_row(event, found[event.decision or ""], space, names) for event in made]

    yield from _parquet(pa.schema(fields), (rows(page) for page in pages(store.events(host.id, after=after), _PAGE)))


def _row(event: Event, events: Sequence[Event], space: Any, names: Sequence[str]) -> dict[str, Any]:
    labels = [str(label) for label in space.labels(event.body["cell"]).values()]
    ends = [one for one in events if one.kind in _ENDS]
    waiting = "open" if event.body.get("active", True) or len(events) > 1 else "inactive"
    return {
        "decision": event.decision,
        "decided": event.time,
        **dict(zip(names, labels, strict=True)),
        "by": event.body["by"],
        "propensity": event.body["p"],
        "status": _ENDS[ends[-1].kind] if ends else waiting,
        "reward": ends[-1].body.get("reward") if ends else None,
        "rewarded": ends[-1].time if ends and ends[-1].kind != "Cancelled" else None,
    }


def events(store: Store, host: Hosted, after: int = 0, until: int | None = None) -> Iterator[bytes]:
    """Yield a Parquet file of one row per event, up to one."""
    import pyarrow as pa

    kinds = [("seq", pa.int64()), ("time", pa.float64()), ("kind", pa.string())]
    schema = pa.schema([*kinds, ("decision", pa.string()), ("body", pa.string())])

    def rows(page: Sequence[Event]) -> list[dict[str, Any]]:
        return [
            {"seq": one.seq, "time": one.time, "kind": one.kind, "decision": one.decision, "body": json.dumps(one.body)}
            for one in page
        ]

    found = store.events(host.id, after=after, until=until)
    yield from _parquet(schema, (rows(page) for page in pages(found, _PAGE)))


class _Sink(io.RawIOBase):
    """Takes what is written, to be handed on in pieces."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[bytes] = []
        self._at = 0

    def writable(self) -> bool:
        return True

    def write(self, piece: Any) -> int:
        self._pieces.append(bytes(piece))
        self._at += len(self._pieces[-1])
        return len(self._pieces[-1])

    def tell(self) -> int:
        return self._at

    def taken(self) -> bytes:
        """Return what was written since."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


def _parquet(schema: Any, tables: Iterator[list[dict[str, Any]]]) -> Iterator[bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = _Sink()
    with pq.ParquetWriter(pa.PythonFile(sink, mode="w"), schema) as writer:
        for rows in tables:
            if rows:
                writer.write_table(pa.Table.from_pylist(rows, schema=schema))
            yield sink.taken()
    yield sink.taken()

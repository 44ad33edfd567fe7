"""Kinds of files that exports are written as, row by row while they are sent: Parquet, CSV, JSON lines."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from tensorbandits.space.labels import written

Name = Literal["parquet", "csv", "jsonl"]
Row = Mapping[str, Any]
Tables = Iterator[list[dict[str, Any]]]

PARQUET, CSV, LINES = "application/vnd.apache.parquet", "text/csv", "application/x-ndjson"
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


class Format(NamedTuple):
    """A kind of file: its media type, and what writes rows of a schema in pieces."""

    media: str
    write: Callable[[Any, Tables], Iterator[bytes]]


class _Sink(io.BytesIO):
    """Takes what is written, to be handed on in pieces."""

    _before = 0  # bytes that were handed on

    def tell(self) -> int:
        return self._before + super().tell()

    def taken(self) -> bytes:
        """Return what was written since."""
        piece = self.getvalue()
        self._before += len(piece)
        self.seek(0)
        self.truncate()
        return piece


def _table(rows: list[dict[str, Any]], schema: Any) -> Any:
    """Rows as a table; what is nested is JSON text, as these files have only plain columns."""
    import pyarrow as pa

    flat = [{name: _encode(one) if isinstance(one, dict) else one for name, one in row.items()} for row in rows]
    return pa.Table.from_pylist(flat, schema=schema)


def _parquet(schema: Any, tables: Tables) -> Iterator[bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = _Sink()
    with pq.ParquetWriter(pa.PythonFile(sink, mode="w"), schema) as writer:
        for rows in tables:
            if rows:
                writer.write_table(_table(rows, schema))
            yield sink.taken()
    yield sink.taken()


def _csv(schema: Any, tables: Tables) -> Iterator[bytes]:
    import pyarrow as pa
    import pyarrow.csv as pc

    sink = _Sink()
    with pc.CSVWriter(pa.PythonFile(sink, mode="w"), schema) as writer:
        for rows in tables:
            if rows:
                writer.write_table(_table(rows, schema))
            yield sink.taken()
    yield sink.taken()


def _lines(schema: Any, tables: Tables) -> Iterator[bytes]:
    for rows in tables:
        yield "".join(_encode({name: written(row[name]) for name in schema.names}) + "\n" for row in rows).encode()


FORMATS: dict[Name, Format] = {
    "parquet": Format(PARQUET, _parquet),
    "csv": Format(CSV, _csv),
    "jsonl": Format(LINES, _lines),
}

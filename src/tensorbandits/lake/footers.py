"""Whether a file of a lake can be used: whole, of this bandit, of columns that are known, in the folder of its hour."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from tensorbandits.base.folders import Folder
from tensorbandits.lake import records
from tensorbandits.lake.records import Kind, Origin

_DECIDED = {"decisions": "time", "rewards": "decided"}  # the column that says when it was decided


class Wanted(NamedTuple):
    """Of which bandit files have to be; of ``foreign`` ones, which other writers wrote, the folder says it."""

    bandit: str
    uid: str
    foreign: bool = False


def refusal(folder: Folder, name: str, kind: Kind, hour: str, wanted: Wanted) -> str | None:
    """Return why a file cannot be used, or ``None``; only what it says of itself is read."""

    def read(file: pq.ParquetFile) -> str | None:
        why = _refused_schema(file.schema_arrow, kind, wanted)
        return why or _misplaced(file, kind, hour)

    return _opened(folder, name, read)


def damage(folder: Folder, name: str) -> str | None:
    """Return why a file cannot be read to its end, or ``None``; all of it is read."""

    def read(file: pq.ParquetFile) -> str | None:
        for _ in file.iter_batches():
            pass
        return None

    return _opened(folder, name, read)


def _opened(folder: Folder, name: str, read: Callable[[pq.ParquetFile], str | None]) -> str | None:
    try:
        with folder.open(name) as stream:
            return read(pq.ParquetFile(stream))
    except (pa.ArrowException, OSError, ValueError) as error:
        words = " ".join(str(error).split())[:200]
        return f"it is damaged, or was not written to its end ({words}); write it anew, or remove it"


def _refused_schema(schema: Any, kind: Kind, wanted: Wanted) -> str | None:
    origin = Origin.of(schema)
    if origin is None and not wanted.foreign:
        return (
            "it does not say of which bandit it is; write it with records.table, as the sinks do, or say that files of "
            "other writers are to be taken: foreign=True"
        )
    return (None if origin is None else _refused_origin(origin, kind, wanted)) or _refused_columns(schema, kind, wanted)


def _refused_origin(origin: Origin, kind: Kind, wanted: Wanted) -> str | None:
    if origin.version > records.VERSION:
        return (
            f"it has records of version {origin.version}, written by a newer release; this one reads up to "
            f"{records.VERSION}: upgrade tensorbandits"
        )
    if origin.kind != kind:
        return f"it holds {origin.kind}, in a folder of {kind}; move it"
    if origin.bandit != wanted.bandit:
        return f"it is of the bandit {origin.bandit!r}, not of {wanted.bandit!r}; move it"
    if origin.uid != wanted.uid:
        return (
            f"it is of another bandit of the name {origin.bandit!r} (uid {origin.uid}; this one has {wanted.uid}): "
            "remove what that one left, or give the new bandit a name of its own"
        )
    return None


def _refused_columns(schema: Any, kind: Kind, wanted: Wanted) -> str | None:
    known = records.schema(kind, wanted.bandit, wanted.uid)
    for field in known:
        at = schema.get_field_index(field.name)
        if at < 0:
            return f"it lacks the column {field.name!r}; {kind} have {known.names}"
        if schema.field(at).type != field.type and not _alike(schema.field(at).type, field.type):
            return f"its column {field.name!r} is of type {schema.field(at).type}, not {field.type}"
    return None


def _alike(one: Any, other: Any) -> bool:
    """Whether two types are lists of the same, whatever their entries are called, or times of any precision."""
    if pa.types.is_timestamp(one) and pa.types.is_timestamp(other):
        return one.tz in (None, "UTC")  # what other writers do not say is UTC in Parquet
    lists = pa.types.is_list(one) and pa.types.is_list(other)
    return bool(lists and one.value_type == other.value_type)


def _misplaced(file: pq.ParquetFile, kind: Kind, hour: str) -> str | None:
    """Say whether a file has decisions of another hour than its folder."""
    first, last = _span(file, _DECIDED[kind])
    if first is None or last is None:
        return None
    start = records.hour_start(hour)
    first, last = (one if one.tzinfo else one.replace(tzinfo=UTC) for one in (first, last))
    if start <= first.timestamp() and last.timestamp() < start + records.HOUR:
        return None
    return (
        f"it has decisions from {first:%Y-%m-%d %H:%M:%S} to {last:%Y-%m-%d %H:%M:%S} UTC in the folder of the hour "
        f"{hour}: rewards lie with the hour of their decision"
    )


def _span(file: pq.ParquetFile, column: str) -> tuple[datetime | None, datetime | None]:
    """The first and the last time in a column; ``None`` for one without any."""
    metadata = file.metadata
    at = file.schema_arrow.get_field_index(column)
    found = [metadata.row_group(group).column(at).statistics for group in range(metadata.num_row_groups)]
    if all(one is not None and one.has_min_max for one in found):
        firsts, lasts = [one.min for one in found], [one.max for one in found]
    else:
        values = file.read(columns=[column]).column(0).drop_null().to_pylist()
        firsts = lasts = values
    return min(firsts, default=None), max(lasts, default=None)

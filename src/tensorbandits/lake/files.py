"""Files of a lake: which hours there are, and how a table of records is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tensorbandits.base.folders import Folder
from tensorbandits.lake import records
from tensorbandits.lake.records import Kind


def hours_of(folder: Folder, bandit: str) -> Iterator[str]:
    """Yield the hours of which a folder of decisions, or of rewards, holds something of a bandit."""
    for name in folder.folders(records.bandit_folder(bandit)):
        if (hour := records.hour_in(name)) is not None:
            yield hour


def write_records(folder: Folder, kind: Kind, hour: str, writer: str, number: int, table: Any) -> str:
    """Write a table of records of one hour below the root of a lake, whole or not at all; return the file's name."""
    origin = records.Origin.of(table.schema)
    if origin is None or origin.kind != kind:
        raise ValueError(f"the table holds no {kind}; make it with records.table({kind!r}, ...)")
    name = f"{records.folder(kind, origin.bandit, hour)}/{records.file_name(writer, number)}"
    folder.write(name, records.packed(table))
    return name

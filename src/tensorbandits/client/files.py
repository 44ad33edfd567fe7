"""Data frames as Parquet, on their way to the service and back, and as lists of records."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from tensorbandits.base.checks import check_installed
from tensorbandits.base.frames import to_frame
from tensorbandits.space.labels import read


def to_parquet(frame: Any) -> bytes:
    """Return a data frame of any kind as a Parquet file."""
    check_installed("sending a log", "narwhals", "pyarrow")
    import narwhals as nw
    import pyarrow.parquet as pq

    from tensorbandits.data.source import open_frame

    opened = open_frame(frame)
    table = opened.collect("pyarrow") if isinstance(opened, nw.LazyFrame) else opened
    buffer = io.BytesIO()
    pq.write_table(table.to_arrow(), buffer, compression="zstd")
    return buffer.getvalue()


def from_parquet(body: bytes) -> Any:
    """Return a Parquet file as a data frame: of pandas if it is installed, else of polars, else a pyarrow table.

    >>> import pyarrow as pa
    >>> from_parquet(to_parquet(pa.table({"offer": ["a", "b"], "clicks": [3, 1]}))).shape
    (2, 2)
    """
    check_installed("reading an export", "pyarrow")
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(body))
    if find_spec("pandas") is not None:
        return table.to_pandas()
    if find_spec("polars") is not None:
        import polars

        return polars.from_arrow(table)
    return table


def from_records(records: Sequence[Mapping[str, Any]]) -> Any:
    """Return records as a data frame, with labels as they were before JSON held them.

    >>> from_records([{"level": "a", "effect": 0.5}, {"level": "b", "effect": None}]).shape
    (2, 2)
    """
    names = list(records[0]) if records else []
    return to_frame({name: [_value(record.get(name)) for record in records] for name in names})


def _value(value: Any) -> Any:
    return read(value) if isinstance(value, dict) and len(value) == 1 else value

"""Data frames as Parquet, on their way to the service and back, and as lists of records."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, get_args

from tensorbandits.base.checks import check_installed
from tensorbandits.base.frames import Backend, check_backend, to_frame
from tensorbandits.data.cleaning import Clean, Step, applied, check_clean
from tensorbandits.space.labels import read


def to_parquet(frame: Any, clean: Clean | None = None, columns: Mapping[str, str] | None = None) -> bytes:
    """Return a data frame of any kind as a Parquet file, with labels made alike if that is asked for.

    >>> import pyarrow as pa
    >>> log = pa.table({"offer": ["a ", "A"], "clicks": [3, 1]})
    >>> from_parquet(to_parquet(log, "strip,casefold"), "pyarrow")["offer"].to_pylist()
    ['a', 'a']
    """
    check_installed("sending a log", "narwhals", "pyarrow")
    import narwhals as nw
    import pyarrow.parquet as pq

    from tensorbandits.data.source import open_frame

    opened = open_frame(frame)
    table = opened.collect("pyarrow") if isinstance(opened, nw.LazyFrame) else opened
    arrow, buffer = table.to_arrow(), io.BytesIO()
    for mode, steps in check_clean(
        clean, arrow.column_names if not isinstance(clean, Mapping) else list(clean)
    ).items():
        arrow = _cleaned(arrow, (columns or {}).get(mode, mode), steps)
    pq.write_table(arrow, buffer, compression="zstd")
    return buffer.getvalue()


def _cleaned(table: Any, name: str, steps: Sequence[Step]) -> Any:
    """A table with the labels of a column of text made alike; another column, or none of the name, is left alone."""
    import pyarrow as pa

    kind = table.schema.field(name).type if name in table.column_names else None
    kind = kind.value_type if kind is not None and pa.types.is_dictionary(kind) else kind
    if kind is None or not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return table
    encoded = table[name].cast(pa.string()).combine_chunks().dictionary_encode()
    spelled = [None if label is None else applied(label, steps) for label in encoded.dictionary.to_pylist()]
    made = pa.DictionaryArray.from_arrays(encoded.indices, pa.array(spelled, pa.string())).dictionary_decode()
    return table.set_column(table.column_names.index(name), name, made)


def from_parquet(body: bytes, backend: Backend | None = None) -> Any:
    """Return a Parquet file as a data frame: of pandas if it is installed, else of polars, else a pyarrow table.

    >>> import pyarrow as pa
    >>> from_parquet(to_parquet(pa.table({"offer": ["a", "b"], "clicks": [3, 1]}))).shape
    (2, 2)
    """
    check_installed("reading an export", "pyarrow")
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(body))
    wanted = check_backend(backend) or next(name for name in get_args(Backend) if find_spec(name) is not None)
    if wanted == "pandas":
        return table.to_pandas()
    if wanted == "polars":
        import polars

        return polars.from_arrow(table)
    return table


def from_records(records: Sequence[Mapping[str, Any]], backend: Backend | None = None) -> Any:
    """Return records as a data frame, with labels as they were before JSON held them.

    >>> from_records([{"level": "a", "effect": 0.5}, {"level": "b", "effect": None}]).shape
    (2, 2)
    """
    names = list(records[0]) if records else []
    return to_frame({name: [_value(record.get(name)) for record in records] for name in names}, backend)


def _value(value: Any) -> Any:
    return read(value) if isinstance(value, dict) and len(value) == 1 else value

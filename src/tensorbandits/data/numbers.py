"""Numbers of a log as a mode: columns become regions, in the engine that holds the log.

Only who reads a log imports this file, as it needs narwhals.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw

from tensorbandits.data.columns import unknown_column
from tensorbandits.data.source import Frame, open_frame
from tensorbandits.space.numeric import Numeric
from tensorbandits.space.regions import Regions

_WORDS = re.compile(r"(?P<columns>.+):(?P<regions>\d+) regions")
_LEVEL, _NEAR, _AWAY = "tensorbandits_level", "tensorbandits_near", "tensorbandits_away"


def column_names(mode: str) -> list[str] | None:
    """Return the columns of a mode that is named with so many regions; ``None`` for any other.

    >>> column_names("age:8 regions"), column_names("age+tenure:12 regions"), column_names("time:3h")
    (['age'], ['age', 'tenure'], None)
    """
    found = _WORDS.fullmatch(mode)
    return None if found is None else found["columns"].split("+")


def texts(frame: Any) -> set[str]:
    """Return the names of the columns of a log that are text."""
    schema = open_frame(frame).collect_schema()
    return {name for name, kind in schema.items() if isinstance(kind, (nw.String, nw.Categorical, nw.Enum))}


def declared(frame: Frame, modes: Sequence[Any], given: Mapping[str, Any] | None) -> dict[str, Numeric]:
    """Return the modes of numbers: those that are given by name, and those named with so many regions."""
    schema = frame.collect_schema()
    found: dict[str, Numeric] = {}
    for mode, one in (given or {}).items():
        if mode not in modes:
            raise ValueError(f"numeric says what {mode!r} is, but the modes are {list(modes)}; name it there too")
        if not isinstance(one, Numeric):
            raise TypeError(f"numeric says that {mode!r} is {one!r}; give a tb.Numeric")
        found[mode] = one.named(mode)
    for mode in modes:
        columns = column_names(mode) if isinstance(mode, str) and mode not in schema and mode not in found else None
        if columns is not None:
            found[mode] = Numeric(*columns, regions=int(mode.rpartition(":")[2].split()[0]))
    for one in found.values():
        for column in one.numbers:
            if column not in schema:
                raise unknown_column(column, "number", schema)
    return {mode: one if one.partition is not None else one.learn(frame) for mode, one in found.items()}


def with_regions(frame: Frame, name: str, regions: Regions, columns: Sequence[str]) -> Frame:
    """Return a log with a column, of that name, that has the index of the region of each row's numbers.

    ``columns`` are those of the numbers, in their order.

    >>> import pyarrow as pa
    >>> frame = open_frame(pa.table({"age": [20, None, 90]}))
    >>> ages = Numeric("age", cuts=[18, 35, 65]).regions_of("age")
    >>> with_regions(frame, "region", ages, ["age"]).to_dict(as_series=False)["region"]
    [0, 4, 3]
    """
    schema = frame.collect_schema()
    for column in columns:
        if column not in schema:
            raise unknown_column(column, "number", schema)
        if not schema[column].is_numeric():
            raise TypeError(f"column {column!r} is of type {schema[column]}; give one of numbers, or convert it")
    raw = [nw.col(column).cast(nw.Float64()) for column in columns]
    lacking = [value.is_null() | value.is_nan() for value in raw]
    lacks = lacking[0]
    for one in lacking[1:]:
        lacks = lacks | one
    own = [f"{_LEVEL}_{j}" for j in range(len(columns))]
    values = zip(raw, lacking, own, strict=True)
    frame = frame.with_columns(
        *(nw.when(~gone).then(value).otherwise(nw.lit(0.0)).alias(to) for value, gone, to in values),
        nw.when(lacks).then(nw.lit(1)).otherwise(nw.lit(0)).alias(_AWAY),
    )
    frame = _placed(frame, regions, own)
    for split in regions.splits:
        here, below = nw.col(_LEVEL) == split.level, nw.col(own[split.number]) < split.at
        part = nw.when(below).then(nw.lit(split.below)).otherwise(nw.lit(split.below + 1))
        frame = frame.with_columns(nw.when(here).then(part).otherwise(nw.col(_LEVEL)).alias(_LEVEL))
    level = nw.when(nw.col(_AWAY) == 1).then(nw.lit(regions.missing)).otherwise(nw.col(_LEVEL))
    return frame.with_columns(level.cast(nw.Int64()).alias(name)).drop(*own, _LEVEL, _AWAY)


def _placed(frame: Frame, regions: Regions, own: Sequence[str]) -> Frame:
    """A log with the level that a partition has for each row, if no number lacks."""
    known, first = regions.partition, regions.first
    if known is None:
        return frame.with_columns(nw.lit(0).alias(_LEVEL))
    beyond = nw.lit(first + len(known))
    if len(own) == 1:
        value = nw.col(own[0])
        part = nw.lit(first)
        for edge in known.edges[1:-1].tolist():
            part = part + (value >= edge).cast(nw.Int64())
        above = nw.when(value > float(known.high[0])).then(beyond + 1).otherwise(part)
        return frame.with_columns(nw.when(value < float(known.low[0])).then(beyond).otherwise(above).alias(_LEVEL))
    scaled = list(zip(own, known.mean.tolist(), known.deviation.tolist(), strict=True))
    for k, centre in enumerate(known.standardised(known.centres).tolist()):
        away = sum(((nw.col(one) - m) / d - c) ** 2 for (one, m, d), c in zip(scaled, centre, strict=True))
        new = {_NEAR: away, _LEVEL: nw.lit(first + k)}
        if k:
            nearer = away < nw.col(_NEAR)
            new = {name: nw.when(nearer).then(value).otherwise(nw.col(name)) for name, value in new.items()}
        frame = frame.with_columns(value.alias(name) for name, value in new.items())
    outside = [
        (nw.col(one) < low) | (nw.col(one) > high)
        for one, low, high in zip(own, known.low.tolist(), known.high.tolist(), strict=True)
    ]
    level = nw.when(nw.any_horizontal(*outside, ignore_nulls=False)).then(beyond).otherwise(nw.col(_LEVEL))
    return frame.with_columns(level.alias(_LEVEL)).drop(_NEAR)


def placed_frame(frame: Any, regions: Mapping[str, tuple[Regions, Sequence[str]]]) -> Frame:
    """Return a log of any kind with a column for each mode of numbers, which is called like the mode."""
    opened = open_frame(frame)
    for mode, (one, columns) in regions.items():
        opened = with_regions(opened, mode, one, columns)
    return opened

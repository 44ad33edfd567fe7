"""What is asked of the engine that holds a log: two aggregations, and the first row that is no good.

The log's columns become a few of our own (the keys of the modes, the reward, the trials), with values that cannot be
used turned into nulls, as all engines sum past nulls. Nothing larger than one row per group is brought to Python.

Only who reads a log imports this file, as it needs narwhals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from tensorbandits.base import pieces
from tensorbandits.base.checks import LARGEST_REWARD, SMALLEST_REWARD
from tensorbandits.data.columns import Mode, Schema, check_kind, parse_modes, unknown_column
from tensorbandits.tensor.tucker import Floats

Frame = nw.DataFrame[Any] | nw.LazyFrame[Any]

_ROW = "tensorbandits_row"
_WHOLE = 2.0**53  # from which on every float is a whole number
_NUMBER = r"^\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\s*$"
_DROP = "correct it, or leave such rows out with missing='drop'"


def open_frame(frame: Any) -> Frame:
    """Return any data frame as one of narwhals'."""
    try:
        return nw.from_native(frame)  # type: ignore[no-any-return]
    except nw.exceptions.DuplicateError as error:
        found = " ".join(str(error).split())
        raise ValueError(f"the log has columns of the same name ({found}); rename or drop one of each") from None
    except TypeError:
        hint = "; open the file first: duckdb.read_parquet(path)" if isinstance(frame, str) else ""
        raise TypeError(
            f"the log is a {type(frame).__name__}, not a data frame; give a pandas, polars or dask frame, "
            f"a pyarrow table, a duckdb relation or a Spark frame{hint}"
        ) from None


@dataclass(frozen=True, eq=False)
class Groups:
    """One row per group: ``keys`` (one list per mode), ``missing`` (n,) if a key is null, and the numbers asked for."""

    keys: list[list[Any]]
    missing: NDArray[np.bool_]
    numbers: dict[str, Floats]


@dataclass(frozen=True, eq=False)
class Source:
    """A log in its engine, with the roles of its columns."""

    frame: Frame
    modes: tuple[Mode, ...]
    reward: str
    trials: str | None
    propensity: str | None
    kind: str | None = None  # of revenue

    @property
    def of_amounts(self) -> tuple[str, ...]:
        """The sums over rewards that are not 0 that are asked for."""
        return {None: (), "revenue": ("bought", "log", "log_square")}.get(self.kind, ("bought",))

    @cached_property
    def schema(self) -> Schema:
        """The types of the columns."""
        return self.frame.collect_schema()

    @cached_property
    def _keys(self) -> list[str]:
        return [f"mode{j}" for j in range(len(self.modes))]

    def _number(self, column: str) -> nw.Expr:
        """Return a column as a float, null where it is NaN."""
        column_as_is = nw.col(column)
        if isinstance(self.schema[column], nw.Boolean):  # DuckDB would read a CSV file's words as floats at once
            column_as_is = column_as_is.cast(nw.Int64())
        value = column_as_is.cast(nw.Float64())
        if not self.schema[column].is_float():
            return value
        return nw.when(~value.is_nan()).then(value)

    @cached_property
    def _prepared(self) -> Frame:
        """The log as keys and numbers; a row whose reward, trials or propensity are missing has none of them."""
        keys = [mode.key(self.schema).alias(name) for mode, name in zip(self.modes, self._keys, strict=True)]
        columns = {"reward": self.reward, "trials": self.trials, "propensity": self.propensity}
        numbers = {name: self._number(column) for name, column in columns.items() if column is not None}
        frame = self.frame.select(*keys, *(number.alias(name) for name, number in numbers.items()))
        if len(numbers) > 1:
            whole = nw.all_horizontal(*(~nw.col(name).is_null() for name in numbers), ignore_nulls=False)
            frame = frame.with_columns(nw.when(whole).then(nw.col(name)).alias(name) for name in numbers)
        if self.trials is not None:
            return frame.with_columns(
                self._wrong_trials("reward", "trials").cast(nw.Int64()).alias("wrong"),
                (nw.col("trials") == 0).cast(nw.Int64()).alias("idle"),
            )
        value, off = nw.col("reward"), nw.col("reward") - self.centre
        wrong = _wrong_reward(value)
        if self.propensity is not None:
            wrong = wrong | _wrong_propensity(nw.col("propensity"))
        if self.kind == "revenue":
            wrong = wrong | (value < 0.0)
        frame = frame.with_columns(
            (value * value).alias("square"),
            (off * off).alias("about"),
            wrong.cast(nw.Int64()).alias("wrong"),
        )
        if self.kind is None:
            return frame
        frame = frame.with_columns((value.abs() > 0.0).cast(nw.Int64()).alias("bought"))
        if self.kind != "revenue":
            return frame
        frame = frame.with_columns(nw.when(value > 0.0).then(value).otherwise(nw.lit(1.0)).log().alias("log"))
        return frame.with_columns((nw.col("log") * nw.col("log")).alias("log_square"))

    @cached_property
    def centre(self) -> float:
        """A reward of the log, about which squares are summed, as those about 0 lose a spread far below the mean."""
        rewards = self.frame.select(self._number(self.reward).alias("reward")).filter(~nw.col("reward").is_null())
        first = pieces.floats(_collected(rewards.head(1))["reward"])
        return float(first[0]) if len(first) and abs(first[0]) <= LARGEST_REWARD else 0.0

    def _wrong_trials(self, reward: str, trials: str) -> nw.Expr:
        """Say which rows cannot be that many successes of that many trials."""
        successes, tries = nw.col(reward), nw.col(trials)
        wrong = (successes < 0) | (tries < successes)
        for column, value in ((self.reward, successes), (self.trials, tries)):
            if column is not None and not self.schema[column].is_integer():
                small = (
                    nw.when(value.abs() < _WHOLE).then(value).otherwise(0.0)
                )  # what is larger is whole, or no number
                wrong = wrong | (small > small.floor())
        return wrong

    def cells(self) -> Groups:
        """Return one row per observed cell: ``rows``, ``kept``, ``total``, ``wrong``, and what depends on trials.

        These are ``trials`` and ``idle``, the rows that have none, or ``square`` and ``about``, the sum of squares
        about the centre.
        The one pass over the log: what would show values that cannot be used is summed along.
        """
        sums = *(("wrong", "square", "about") if self.trials is None else ("wrong", "trials", "idle")), *self.of_amounts
        grouped = self._prepared.group_by(*self._keys, drop_null_keys=False).agg(
            nw.len().alias("rows"),
            nw.col("reward").count().alias("kept"),
            nw.col("reward").sum().alias("total"),
            *(nw.col(name).sum() for name in sums),
        )
        return self._collect(grouped, ("rows", "kept", "total", *sums))

    def values(self, kept: Sequence[Sequence[Any] | None], limit: int) -> Groups | None:
        """Return one row per observed cell and reward: ``reward`` and ``rows``; ``None`` if more than the limit.

        ``kept`` are the keys of each mode to look at, or ``None`` for all.
        """
        frame = self._prepared.filter(~nw.col("reward").is_null())
        for name, keys in zip(self._keys, kept, strict=True):
            if keys is not None:
                frame = frame.filter(nw.col(name).is_in(list(keys)))
        grouped = frame.group_by(*self._keys, "reward", drop_null_keys=False).agg(nw.len().alias("rows"))
        groups = self._collect(grouped.head(limit + 1), ("reward", "rows"))
        return None if len(groups.missing) > limit else groups

    def rows(self) -> Groups:
        """Return every row in the engine's order: ``reward`` and ``propensity``, if there is one; NaN where missing."""
        numbers = ("reward", "propensity") if self.propensity else ("reward",)
        return self._collect(self._prepared.select(*self._keys, *numbers), numbers)

    def _collect(self, grouped: Frame, numbers: Sequence[str]) -> Groups:
        table = _collected(grouped)
        keys, missing = [], np.zeros(len(table), dtype=bool)
        for name in self._keys:
            keys.append(list(pieces.entries(table[name])))
            missing |= np.fromiter(pieces.entries(table[name].is_null()), bool, len(table))
            missing |= np.fromiter((isinstance(key, float) and key != key for key in keys[-1]), bool, len(table))
        return Groups(keys, missing, {name: pieces.floats(table[name]) for name in numbers})

    # Rows to complain of. These run only when something is wrong.

    def missing_row(self) -> ValueError:
        """Return the error that names the first row with a missing value."""
        others = filter(None, [self.trials, self.propensity])
        columns = list(dict.fromkeys([*(mode.column for mode in self.modes), self.reward, *others]))
        lacking = nw.any_horizontal(*map(self._is_missing, columns), ignore_nulls=False)
        where, row = self._first(lacking, columns)
        column = next(name for name in columns if row[name] is None)
        return ValueError(f"column {column!r} has no value (null or NaN) in {where}; {_DROP}")

    def wrong_row(self) -> ValueError:
        """Return the error that names the first row whose reward, trials or propensity are not allowed."""
        columns = [self.reward, *filter(None, [self.trials, self.propensity])]
        condition = _wrong_reward(nw.col(columns[0]).cast(nw.Float64()))
        if self.kind == "revenue":
            condition = condition | (nw.col(columns[0]).cast(nw.Float64()) < 0.0)
        if self.trials is not None:
            condition = condition | ~(nw.col(self.trials).cast(nw.Float64()).abs() <= LARGEST_REWARD)
            condition = condition | self._wrong_trials(self.reward, self.trials)
        if self.propensity is not None:
            condition = condition | _wrong_propensity(nw.col(self.propensity).cast(nw.Float64()))
        for column in dict.fromkeys([*columns, *(mode.column for mode in self.modes)]):
            condition = condition & ~self._is_missing(column)  # left out already
        where, row = self._first(condition, columns)
        reward = row[self.reward]
        if self.propensity is not None and not 0 < float(row[self.propensity]) <= 1:
            return ValueError(
                f"column {self.propensity!r} is {row[self.propensity]} in {where}; a propensity is the probability "
                "with which the row's decision was made, above 0 and at most 1: correct it, or take such rows out of "
                "the log"
            )
        if self.kind == "revenue" and float(reward) < 0.0:
            return ValueError(
                f"column {self.reward!r} is {reward} in {where}; revenue is 0 or an amount above 0: correct it, or "
                "read the log with kind='revenue-signed', if amounts may be negative"
            )
        if self.trials is None:
            return ValueError(
                f"column {self.reward!r} is {reward} in {where}; rewards are finite numbers, 0 or of a size from "
                "1e-100 to 1e100: correct it, or take such rows out of the log"
            )
        trials = row[self.trials]
        given = f"column {self.reward!r} is {reward} and column {self.trials!r} is {trials} in {where}"
        return ValueError(
            f"{given}; with trials, rewards are successes: whole numbers, at least 0 and at most the trials. "
            "Correct the row, or leave out trials if the rewards are no counts of successes"
        )

    def _is_missing(self, column: str) -> nw.Expr:
        missing = nw.col(column).is_null()
        if not self.schema[column].is_float():
            return missing
        return missing | nw.col(column).is_nan()

    def _first(self, condition: nw.Expr, columns: Sequence[str]) -> tuple[str, dict[str, Any]]:
        """Return the first row that meets a condition: in words, and its values; ``None`` for missing ones."""
        shown = list(dict.fromkeys([*columns, *(mode.column for mode in self.modes)]))
        number = _ROW
        while number in (name.lower() for name in shown):  # DuckDB takes no notice of case
            number += "_"
        numbered = _numbered(self.frame.select(*shown), number)
        if numbered is None:
            table = _collected(self.frame.select(*shown).filter(condition).head(1))
        else:
            table = _collected(numbered.filter(condition).sort(number).head(1))
        row = {name: None if _is_nothing(table[name]) else table[name].to_list()[0] for name in shown}
        if numbered is None:
            return f"the row {row} (this engine does not number rows)", row
        return f"row {int(table[number].to_list()[0])} (counted from 0)", row


def make_source(
    frame: Any,
    modes: Sequence[str],
    reward: str,
    trials: str | None,
    propensity: str | None,
    known: bool,
    kind: str | None = None,
    regions: Mapping[str, tuple[str, ...]] | None = None,
) -> Source:
    """Return the log, its columns checked against their roles; ``known`` says that a space has the levels already.

    ``regions`` are the names of regions, by mode, of columns that have their indices.
    """
    opened = open_frame(frame)
    schema = opened.collect_schema()
    parsed = parse_modes(modes, schema, least=1 if known else 2)
    parsed = tuple(replace(mode, regions=(regions or {}).get(mode.name, ())) for mode in parsed)
    for mode in parsed:
        check_kind(mode, schema, known)
    source = Source(opened, parsed, reward, trials, propensity, kind)
    for column, what in ((reward, "reward"), (trials, "trials"), (propensity, "propensity")):
        if column is None and what != "reward":
            continue
        if not isinstance(column, str) or column not in schema:
            raise unknown_column(column, what, schema)
        if column in (mode.column for mode in parsed):
            raise ValueError(f"column {column!r} is both {what} and a mode; give another column as one of the two")
        _check_number(source, column, what)
    if reward == trials:
        raise ValueError(f"column {reward!r} is both reward and trials; reward is the successes, of so many trials")
    if reward == propensity:
        raise ValueError(f"column {reward!r} is both reward and propensity; give another column as one of the two")
    if trials is not None and propensity is not None:
        raise ValueError(
            f"both trials={trials!r} and propensity={propensity!r} are given; a propensity is that of one decision: "
            "give a log with one row per decision, and leave out trials"
        )
    return source


def _check_number(source: Source, column: str, what: str) -> None:
    """Refuse a column that holds no numbers, and show the first value that is none."""
    kind = source.schema[column]
    if isinstance(kind, nw.Boolean) and source.trials is not None:
        raise TypeError(
            f"the {what} column {column!r} holds true and false; with trials={source.trials!r} it must hold numbers, "
            "of successes and of trials: convert it, or leave out trials"
        )
    if kind.is_numeric() or isinstance(kind, nw.Boolean):
        return
    found = ""
    if isinstance(kind, nw.String):
        text = nw.col(column)
        try:
            where, row = source._first(~text.is_null() & ~text.str.contains(_NUMBER), [column])
            found = f": {row[column]!r} in {where} is no number"
        except IndexError:
            found = ", though each is a number"
            try:
                source._first(text.is_null() | ~text.is_null(), [column])
            except IndexError:
                raise ValueError("the log is empty; give one with at least one row per level") from None
    elif isinstance(source.frame, nw.DataFrame):
        entries = enumerate(source.frame[column].to_list())
        wrong = [(i, value) for i, value in entries if isinstance(value, (str, bytes))][:1]
        found = "".join(f": {value!r} in row {i} (counted from 0) is no number" for i, value in wrong)
    raise TypeError(
        f"the {what} column {column!r} is of type {kind}{found}; convert the column to numbers before reading the log"
    )


def _wrong_reward(value: nw.Expr) -> nw.Expr:
    """Say which rewards are infinite, or of a size that cannot be squared."""
    size = value.abs()
    return (size > LARGEST_REWARD) | ((size > 0.0) & (size < SMALLEST_REWARD))  # false for NaN


def _wrong_propensity(value: nw.Expr) -> nw.Expr:
    """Say which numbers are no probability of something that happened."""
    return (value <= 0.0) | (value > 1.0)


def _numbered(frame: Frame, name: str) -> Frame | None:
    """Return a frame with the number of each row, by that name; ``None`` if the engine keeps no order of rows."""
    if isinstance(frame, nw.DataFrame):
        return frame.with_row_index(name)
    native: Any = frame.to_native()
    if frame.implementation.is_polars():
        return nw.from_native(native.with_row_index(name))  # type: ignore[no-any-return]
    if frame.implementation.is_duckdb():
        return nw.from_native(native.project(f"*, row_number() over () - 1 as {name}"))  # type: ignore[no-any-return]
    if frame.implementation.is_dask():
        ones = native.assign(**{name: 1})
        return nw.from_native(ones.assign(**{name: ones[name].cumsum() - 1}))  # type: ignore[no-any-return]
    return None


def _collected(frame: Frame) -> nw.DataFrame[Any]:
    if isinstance(frame, nw.DataFrame):
        return frame
    if frame.implementation.is_polars():
        return frame.collect(engine="streaming")  # in pieces, so that memory stays bounded
    return frame.collect()


def _is_nothing(column: nw.Series[Any]) -> bool:
    """Say whether the one value of a column is null or NaN."""
    value = column.to_list()[0]
    return bool(column.is_null().to_list()[0]) or (isinstance(value, float) and value != value)

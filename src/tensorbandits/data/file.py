"""Logs in files: CSV and Parquet, which DuckDB reads in pieces, with labels as they are written."""

from __future__ import annotations

import csv
import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tensorbandits.base.checks import check_installed, is_sequence
from tensorbandits.data.columns import parse_modes
from tensorbandits.data.log import Log, from_log
from tensorbandits.space import Numeric

# Nothing of this is guessed, as a wrong guess leaves out lines.
_CSV: dict[str, Any] = {"header": True, "comment": "", "quotechar": '"', "escapechar": '"'}


def read_log(path: str | os.PathLike[str], modes: Sequence[str], reward: str, **options: Any) -> Log:
    """Return the log in a CSV or Parquet file; ``options`` are those of :func:`tensorbandits.data.from_log`.

    A CSV file has the names of its columns in the first line, and is UTF-8. Its modes are text, as written: ``1E5``,
    ``1e05`` and ``100000`` are three levels. Only times that are binned are read as times. Columns of a Parquet file
    have types, and keep them.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = Path(folder, "log.csv")
    ...     _ = place.write_text("ad,site,clicks\\n007,x,1\\n7,x,0\\n7,y,1\\n")
    ...     read_log(place, ["ad", "site"], "clicks").levels
    (('007', '7'), ('x', 'y'))
    """
    check_installed("reading a log", "duckdb", "narwhals")
    import duckdb

    place = _check_file(path)
    with _one_line(place):
        name = glob.escape(str(place))  # DuckDB takes names as patterns
        if place.suffix.lower() == ".parquet":
            return from_log(duckdb.read_parquet(name), modes, reward, **options)
        others = [options.get("trials"), options.get("propensity")]
        return from_log(_open_csv(place, name, modes, reward, others, options.get("numeric")), modes, reward, **options)


def read_features(path: str | os.PathLike[str], mode: str) -> Any:
    """Return the features of the levels of a mode in a CSV or Parquet file, as a data frame with a column of labels.

    Labels in a CSV file are text, as written, as those of :func:`read_log` are.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = Path(folder, "offers.csv")
    ...     _ = place.write_text("offer,price\\n007,9.5\\n7,3\\n")
    ...     read_features(place, "offer").to_pydict()
    {'offer': ['007', '7'], 'price': [9.5, 3.0]}
    """
    check_installed("reading features", "duckdb", "pyarrow")
    import duckdb

    place = _check_file(path)
    with _one_line(place):
        name = glob.escape(str(place))
        if place.suffix.lower() == ".parquet":
            return duckdb.read_parquet(name).to_arrow_table()
        found = duckdb.read_csv(name, **_CSV)
        if mode not in found.columns:
            listed = ", ".join(map(repr, found.columns))
            raise ValueError(f"{place} has no column {mode!r}, which says of which level a row is; it has {listed}")
        return duckdb.read_csv(name, **_CSV, dtype={mode: "VARCHAR"}).to_arrow_table()


def _check_file(path: str | os.PathLike[str]) -> Path:
    place = Path(path)
    if place.suffix.lower() not in (".csv", ".parquet"):
        raise ValueError(f"{place} is neither a .csv nor a .parquet file; convert it to one of them")
    if place.is_dir():
        raise ValueError(f"{place} is a folder; give the path of one .csv or .parquet file")
    if not place.is_file():
        raise FileNotFoundError(f"there is no file {place}; give the path of a .csv or .parquet file")
    if not place.stat().st_size:
        raise ValueError(f"{place} is empty; give a file with one row per event")
    return place


def _open_csv(
    place: Path,
    name: str,
    modes: Sequence[str],
    reward: str,
    others: Sequence[str | None],
    numeric: Mapping[str, Numeric] | None = None,
) -> Any:
    """Return a CSV file as a relation whose modes are text, unless they are times, and whose numbers are floats."""
    import duckdb
    import narwhals as nw

    from tensorbandits.data.numbers import column_names

    found = duckdb.read_csv(name, **_CSV)
    _check_names(place, _header(place, len(found.columns)), [*(modes if is_sequence(modes) else ()), reward, *others])
    schema = nw.from_native(found).collect_schema()
    declared = {mode: list(one.named(mode).numbers) for mode, one in (numeric or {}).items()}
    named = [one for one in modes if isinstance(one, str)] if is_sequence(modes) else []
    columns = {mode: declared.get(mode) or (None if mode in schema else column_names(mode)) for mode in named}
    plain = [mode for mode in modes if not isinstance(mode, str) or not columns[mode]] if named else modes
    types = {
        mode.column: "VARCHAR"
        for mode in (parse_modes(plain, schema, least=1) if plain else ())
        if not isinstance(schema[mode.column], (nw.Datetime, nw.Date))
    }
    types |= {number: "DOUBLE" for some in columns.values() for number in some or () if number in schema}
    for column in filter(None, (reward, *others)):  # the first lines may be whole numbers, and a later one not
        if column in schema and column not in types and schema[column].is_numeric():
            types[column] = "DOUBLE"
    return duckdb.read_csv(name, **_CSV, dtype=types)


def _header(place: Path, columns: int) -> list[str]:
    """Return the names in the first line; refuse a file in which DuckDB saw another number of columns than it has.

    Where lines differ in length, DuckDB takes each for one value, or leaves out the first ones.
    """
    with place.open(newline="", encoding="utf-8-sig", errors="replace") as file:
        first = next(filter(str.strip, file), "")
        if not first:
            raise ValueError(f"{place} has blank lines only; give a file with one row per event")
        parsed = {sign: _parted(first, sign) for sign in ",;\t|"}
        fitting = [names for names in parsed.values() if len(names) == columns > 1]
        if fitting:
            return fitting[0]
        sign = max(parsed, key=lambda sign: len(parsed[sign]))
        for number, row in enumerate(csv.reader(file, delimiter=sign), start=2):
            if row and len(row) != len(parsed[sign]):
                raise ValueError(
                    f"{place} has another number of values in line {number} ({len(row)}) than names in its first line "
                    f"({len(parsed[sign])}); mend that line, or give a file that is a table"
                )
    return parsed[sign]


def _parted(line: str, sign: str) -> list[str]:
    """Return the values of a line; none where a sign parts so few that one of them is too long."""
    try:
        return next(csv.reader([line], delimiter=sign), [])
    except csv.Error:
        return []


def _check_names(place: Path, header: Sequence[str], wanted: Sequence[Any]) -> None:
    """Refuse to take one of several columns whose names are the same but for case, as DuckDB renames them."""
    for name in (name for name in wanted if isinstance(name, str)):
        twins = [other for other in header if other.lower() in (name.lower(), name.lower().rpartition(":")[0])]
        if len(twins) > 1 and twins[0]:
            raise ValueError(f"{place} has the columns {twins}, which differ at most by case; rename all but one")


@contextmanager
def _one_line(place: Path) -> Iterator[None]:
    """Turn what DuckDB says of a file into a line that says what to do."""
    import duckdb

    try:
        yield
    except csv.Error as error:
        raise ValueError(f"{place} is no table: {error}; give a file with one row per event") from None
    except duckdb.Error as error:
        words = [line.strip() for line in str(error).splitlines() if line.strip()]
        if "not utf-8" in str(error):
            what = "is not encoded in UTF-8; convert it first, for example: iconv -f latin1 -t utf-8"
        elif "sniffing" in words[0]:
            what = "cannot be made out as a CSV file: see that it is a table of text, with names in its first line"
        else:  # a line far down that does not fit what the first ones were
            what = f"cannot be read as {place.suffix[1:].lower()}: {'; '.join(words[:3])}. Mend that, or leave it out"
        raise ValueError(f"{place} {what}") from None

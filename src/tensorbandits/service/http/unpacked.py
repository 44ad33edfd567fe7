"""Files of a request as they are read: unpacked if they are compressed, and JSON lines as tables, within limits.

A gzip file of a kilobyte can stand for a gigabyte, and a line of JSON can name columns that no other has. So unpacking
ends at a limit, and only the columns that are needed become values.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from tensorbandits.base.pieces import gently
from tensorbandits.service.http.errors import Problem
from tensorbandits.space.labels import read

GZIP = b"\x1f\x8b"
SPOOL = 8 * 2**20  # bytes of a file that are kept in memory
_PIECE = 2**20  # bytes that are unpacked at once
_LONGEST = 2**20  # bytes of a line
_ROWS = 65_536  # rows of which columns are made at once
_PAUSE = 2_000  # rows after which other threads have their turn
_MOST_NAMES = 1_000  # of columns, that are remembered for a message
_DAY = len("2026-02-28")


@contextmanager
def unpacked(file: IO[bytes], most: int) -> Iterator[tuple[IO[bytes], int]]:
    """Give a file as it is, or unpacked if it is compressed by gzip, and how many lines were unpacked."""
    file.seek(0)
    mark = file.read(len(GZIP))
    file.seek(0)
    if mark != GZIP:
        yield file, 0
        return
    with SpooledTemporaryFile(SPOOL) as whole, gzip.GzipFile(fileobj=file, mode="rb") as packed:
        size = lines = 0
        try:
            while piece := packed.read(_PIECE):
                size += len(piece)
                lines += max(piece.count(b"\n"), piece.count(b"\r"))
                if size > most:
                    raise Problem(
                        "too_large",
                        f"the file unpacks to more than {most / 2**20:g} MiB, the most that is read at once; send it "
                        "in parts",
                    )
                whole.write(piece)
        except (EOFError, OSError, zlib.error) as error:
            raise ValueError(f"the body is no whole gzip file ({error}); send it again") from None
        whole.seek(0)
        yield whole, lines


def lines_table(
    file: IO[bytes], wanted: Sequence[str], texts: Sequence[str], check: Callable[[int, int], None]
) -> tuple[Any, list[str]]:
    """Return columns of a file of JSON lines as a table, and the names of all its columns.

    Of ``wanted`` columns ``at:weekday`` stands for ``at``. ``texts`` are text as written; elsewhere text that is a day
    or a time becomes one. ``check`` is told after each piece how many rows and bytes there are.
    """
    import pyarrow as pa

    picked = dict.fromkeys(part for name in wanted for part in (name, name.rpartition(":")[0]) if part)
    names: dict[str, None] = {}
    pieces: list[Any] = []
    columns: dict[str, list[Any]] = {name: [] for name in picked}
    count = size = 0

    def close() -> None:
        nonlocal size
        pieces.append(pa.table({name: _array(name, values, count) for name, values in columns.items()}))
        size += pieces[-1].nbytes
        for values in columns.values():
            values.clear()

    for number, row in gently(_rows(file), every=_PAUSE):
        if len(names) < _MOST_NAMES:
            names |= dict.fromkeys(row)
        for name, values in columns.items():
            value = row.get(name)
            values.append(_label(value, number) if isinstance(value, dict) else value)
        count += 1
        if count % _ROWS == 0:
            close()
            check(count, size)
    close()
    check(count, size)
    try:
        found = pa.concat_tables(pieces, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ValueError(f"a column has values of several kinds ({str(error)[:200]}); give one kind in each") from None
    kept = [name for name in found.column_names if name in names]
    return pa.table({name: _timed(found[name]) if name not in texts else found[name] for name in kept}), list(names)


def _rows(file: IO[bytes]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file, with the numbers of their lines."""
    number = 0
    while line := file.readline(_LONGEST + 1):
        number += 1
        if len(line) > _LONGEST:
            raise Problem("too_large", f"line {number:,} is longer than {_LONGEST:,} bytes, the most that is read")
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise ValueError(f"line {number:,} is no JSON object; send one on each line, with a member for each column")
        yield number, row


def _label(value: dict[str, Any], number: int) -> Any:
    try:
        return read(value)
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            f"line {number:,} has the value {str(value)[:60]}; give text, numbers, truth values, or "
            '{"date": ..} and {"time": ..}'
        ) from None


def _array(name: str, values: list[Any], count: int) -> Any:
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise ValueError(
            f"column {name!r} has values of several kinds, or numbers out of range, in the lines up to {count:,} "
            f"({str(error)[:100]}); give one kind"
        ) from None


def _timed(column: Any) -> Any:
    """Text that is a day or a time everywhere as such, as it would be read from a CSV file."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as kinds

    if not kinds.is_string(column.type) or column.null_count == len(column):
        return column
    longest = pc.max(pc.binary_length(column)).as_py()
    try:
        return column.cast(pa.date32() if longest <= _DAY else pa.timestamp("us"))
    except pa.ArrowInvalid:
        return column

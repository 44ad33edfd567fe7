"""Imports of logs, as Parquet or CSV files or JSON lines: received into a file, and read within limits.

A Parquet file of some kilobytes can stand for billions of values. So its own account of its rows is looked at first,
only the columns that are needed are read, piece by piece, and reading ends when the pieces grow too large.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from tensorbandits.service.http.errors import Problem
from tensorbandits.service.http.unpacked import SPOOL, lines_table, unpacked

MEMORY = 2**30  # bytes that the columns of a log may take once they are read
_PIECE = 2**20  # bytes that are put into it at once
_ROWS = 65_536  # rows of a Parquet file that are read at once


@dataclass
class Upload:
    """The file in a request's body, what was seen of it as it came, and a hash of it and of ``how`` it is read."""

    file: IO[bytes]
    how: str
    size: int = 0
    lines: int = 0

    def __post_init__(self) -> None:
        self._hash = hashlib.sha256(self.how.encode())

    @property
    def digest(self) -> str:
        """The same for the same file that is read in the same way."""
        return self._hash.hexdigest()

    def add(self, piece: bytes) -> None:
        """Take more of the file."""
        self.file.write(piece)
        self._hash.update(piece)
        self.size += len(piece)
        self.lines += max(piece.count(b"\n"), piece.count(b"\r"))


@asynccontextmanager
async def received(request: Request, how: str) -> AsyncIterator[Upload]:
    """Receive the body of a request into a file, which only this process can read and which is gone afterwards."""
    with SpooledTemporaryFile(SPOOL) as file:
        upload, piece = Upload(file, how), bytearray()
        async for some in request.stream():
            piece += some
            if len(piece) >= _PIECE:
                await run_in_threadpool(upload.add, bytes(piece))
                piece.clear()
        await run_in_threadpool(upload.add, bytes(piece))
        yield upload


@contextmanager
def table(upload: Upload, columns: Sequence[str], texts: Sequence[str], rows: int, most: int) -> Iterator[Any]:
    """Give these columns of a file as a table; ``texts`` are text, as written. Memory goes back after.

    A file that is compressed by gzip is unpacked to at most so many bytes.

    A table without rows, of all columns, stands for a file that lacks one of them, or has one of a kind that is no
    label and no number: whoever reads the table says what is wrong.
    """
    import pyarrow as pa

    if not upload.size:
        raise ValueError(
            "the body is empty; send a Parquet file, a CSV file with its columns' names on top, or JSON lines"
        )
    try:
        with unpacked(upload.file, most) as (file, lines):
            try:
                found = _read(Upload(file, upload.how, upload.size, lines or upload.lines), columns, texts, rows)
            except (pa.ArrowException, OSError, ValueError) as error:
                words = " ".join(str(error).split())[:200]
                raise ValueError(
                    f"the body is no Parquet file, no CSV file and no JSON lines that can be read ({words})"
                ) from None
        yield found
    finally:
        found = None
        pa.default_memory_pool().release_unused()


@contextmanager
def whole_table(upload: Upload, texts: Sequence[str], rows: int, most: int) -> Iterator[Any]:
    """Give all columns of a Parquet or CSV file as a table; ``texts`` are text, as written. Memory goes back after."""
    import pyarrow as pa
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    found = None
    try:
        with unpacked(upload.file, most) as (file, lines):
            start = file.read(4)
            file.seek(0)
            if start == b"PAR1":
                metadata = pq.read_metadata(file)
                _check_rows(metadata.num_rows, rows)
                _check_memory(sum(metadata.row_group(at).total_byte_size for at in range(metadata.num_row_groups)))
                file.seek(0)
                found = pq.read_table(file, use_threads=False)
            else:
                _check_rows((lines or upload.lines) - 1, rows)
                kinds = {name: pa.string() for name in texts}
                found = pc.read_csv(
                    file, convert_options=pc.ConvertOptions(column_types=kinds, strings_can_be_null=True)
                )
        _check_memory(found.nbytes)
        yield found
    except (pa.ArrowException, OSError) as error:
        words = " ".join(str(error).split())[:200]
        raise ValueError(f"the body is no Parquet file and no CSV file that can be read ({words})") from None
    finally:
        found = None
        pa.default_memory_pool().release_unused()


def _read(upload: Upload, wanted: Sequence[str], texts: Sequence[str], rows: int) -> Any:
    """The table of a file, of the kind that its first bytes say."""
    start = upload.file.read(64)
    upload.file.seek(0)
    if start.startswith(b"PAR1"):
        return _parquet(upload, wanted, rows)
    if start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return _lines(upload, wanted, texts, rows)
    return _csv(upload, wanted, texts, rows)


def _lines(upload: Upload, wanted: Sequence[str], texts: Sequence[str], most: int) -> Any:
    import pyarrow as pa

    def check(count: int, size: int) -> None:
        _check_rows(count, most)
        _check_memory(size)

    found, names = lines_table(upload.file, wanted, texts, check)
    chosen = _chosen(names, wanted)
    if chosen is None or not all(_is_plain(found.schema.field(name).type) for name in chosen):
        return pa.schema([(name, pa.null()) for name in names]).empty_table()
    return found.select(chosen)


def _parquet(upload: Upload, wanted: Sequence[str], most: int) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pq.read_schema(upload.file)
    names = _chosen(schema.names, wanted)
    if names is None or not all(_is_plain(schema.field(name).type) for name in names):
        return schema.empty_table()
    upload.file.seek(0)
    # Text stays a table of its different values until it is known how long all of them are together.
    texts = [name for name in names if _is_text(schema.field(name).type)]
    file = pq.ParquetFile(upload.file, read_dictionary=texts)
    _check_rows(file.metadata.num_rows, most)
    _check_memory(_unpacked(file.metadata, names))
    pieces: list[Any] = []
    try:
        size = count = 0
        for piece in file.iter_batches(_ROWS, columns=names, use_threads=False):
            count += len(piece)
            size += sum(_size(column) for column in piece.columns)
            _check_rows(count, most)
            _check_memory(size)
            pieces.append(_decoded(piece))
    except BaseException:
        pieces.clear()  # which the error would hold on to
        raise
    if not pieces:
        return pa.schema([schema.field(name) for name in names]).empty_table()
    return pa.Table.from_batches(pieces)


def _csv(upload: Upload, wanted: Sequence[str], texts: Sequence[str], most: int) -> Any:
    import pyarrow as pa
    import pyarrow.csv as pc

    _check_rows(upload.lines - 1, most)
    schema = pc.open_csv(upload.file, pc.ReadOptions(use_threads=False)).schema
    names = _chosen(schema.names, wanted)
    if names is None:
        return schema.empty_table()
    upload.file.seek(0)
    kinds = {name: pa.string() for name in _chosen(schema.names, texts) or ()}
    kinds = {name: kind for name, kind in kinds.items() if name in texts}  # not those that are binned
    return pc.read_csv(upload.file, convert_options=pc.ConvertOptions(column_types=kinds, include_columns=names))


def _chosen(names: Sequence[str], wanted: Sequence[str]) -> list[str] | None:
    """The columns that are wanted, once each; ``None`` if one is not there, or is there twice.

    >>> _chosen(["at", "offer", "click"], ["at:weekday", "offer", "click"]), _chosen(["a", "a"], ["a"])
    (['at', 'offer', 'click'], None)
    """
    found = dict.fromkeys(name if name in names else name.rpartition(":")[0] for name in wanted)
    return list(found) if all(list(names).count(name) == 1 for name in found) else None


def _is_text(kind: Any) -> bool:
    import pyarrow.types as kinds

    return bool(kinds.is_string(kind) or kinds.is_large_string(kind))


def _is_plain(kind: Any) -> bool:
    """Whether a value takes a few bytes, or is text."""
    import pyarrow.types as kinds

    if kinds.is_dictionary(kind):
        return _is_text(kind.value_type)
    return _is_text(kind) or kinds.is_null(kind) or kinds.is_decimal(kind) or bool(kinds.is_primitive(kind))


def _size(column: Any) -> int:
    """The bytes of a column, of text once it is written out."""
    import pyarrow.compute as pc
    import pyarrow.types as kinds

    if not kinds.is_dictionary(column.type):
        return int(column.nbytes)
    lengths = pc.binary_length(column.dictionary)
    return int(pc.sum(lengths.take(column.indices).cast("int64")).as_py() or 0) + 8 * len(column)


def _decoded(piece: Any) -> Any:
    import pyarrow as pa
    import pyarrow.types as kinds

    columns = [one.dictionary_decode() if kinds.is_dictionary(one.type) else one for one in piece.columns]
    return pa.record_batch(columns, names=piece.schema.names)


def _unpacked(metadata: Any, names: Sequence[str]) -> int:
    """What a Parquet file says that these columns take, not compressed any more."""
    size = 0
    for at in range(metadata.num_row_groups):
        group = metadata.row_group(at)
        for column in map(group.column, range(group.num_columns)):
            size += column.total_uncompressed_size if column.path_in_schema in names else 0
    return size


def _check_rows(count: int, most: int) -> None:
    if count > most:
        raise Problem(
            "too_large",
            f"the file has {count:,} rows or more, and at most {most:,} are read at once; send it in parts, or add up "
            "the rewards of equal rows first, and name the column of their number as trials",
        )


def _check_memory(size: int) -> None:
    if size > MEMORY:
        raise Problem(
            "too_large",
            f"the columns that are needed take more than {MEMORY / 2**20:,.0f} MiB once they are unpacked, the most "
            "that is read at once; send the file in parts",
        )

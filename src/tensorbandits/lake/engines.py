"""Engines that run the join: DuckDB in this process; Spark is in a file of its own."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tensorbandits.base.checks import check_installed
from tensorbandits.base.folders import Folder
from tensorbandits.lake.join import Dialect
from tensorbandits.lake.records import Kind, schema

KINDS: tuple[Kind, Kind] = ("decisions", "rewards")


class JoinEngine(Protocol):
    """What runs the join; ``dialect`` is how it says what engines say differently."""

    dialect: Dialect

    def query(self, sql: str, files: Mapping[Kind, Sequence[str]], folders: Mapping[Kind, Folder]) -> Any:
        """Return the answer of a query, a PyArrow table, over files of each kind: paths below their folders."""
        ...

    def close(self) -> None:
        """Give back what the engine holds."""
        ...


class DuckEngine:
    """DuckDB in this process; ``threads`` and ``memory`` (such as "4GB") are what it may use, all if not given."""

    dialect = Dialect("epoch_us({time})", "cell[{mode} + 1]", "len(cell)", '"by"')

    def __init__(self, *, threads: int | None = None, memory: str | None = None) -> None:
        check_installed("learning from a lake", "duckdb", "fsspec", "pyarrow", extra="lake")
        import duckdb

        self._connection, self._wrong = duckdb.connect(":memory:"), duckdb.Error
        for name, value in (("threads", threads), ("memory_limit", memory)):
            if value is not None:
                self._connection.execute(f"SET {name} = '{value}'")
        self._connection.execute("SET TimeZone = 'UTC'")
        self._known: set[str] = set()  # protocols that the connection can read

    def query(self, sql: str, files: Mapping[Kind, Sequence[str]], folders: Mapping[Kind, Folder]) -> Any:
        """Return the answer of a query, a PyArrow table, over files of each kind: paths below their folders."""
        try:
            for kind in KINDS:
                self._view(kind, files[kind], folders[kind])
            return self._connection.sql(sql).to_arrow_table()
        except self._wrong as error:
            raise RuntimeError(f"DuckDB could not join: {error}") from error

    def _view(self, kind: Kind, files: Sequence[str], folder: Folder) -> None:
        if files:
            paths = [self._path(folder, name) for name in files]
            hive = "hive_partitioning = true, hive_types = {'hour': VARCHAR}"
            rows = self._connection.sql(f"SELECT * FROM read_parquet(?, {hive})", params=[paths])
        else:
            import pyarrow as pa

            empty = schema(kind, "none", "").empty_table()
            rows = self._connection.from_arrow(empty.append_column("hour", pa.array([], pa.string())))
        rows.create_view(kind, replace=True)

    def _path(self, folder: Folder, name: str) -> str:
        """The path of a file as the connection can open it; signs that would make it a pattern are taken as such."""
        path = "".join(f"[{sign}]" if sign in "*?[" else sign for sign in folder.path(name))
        if folder.local:
            return path
        protocol = sorted(folder.protocols)[0]
        if protocol not in self._known:
            self._connection.register_filesystem(folder.system)
            self._known.add(protocol)
        return f"{protocol}://{path.lstrip('/')}"

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def engine_of(name: str, **options: Any) -> JoinEngine:
    """Return the engine of a name: ``"duckdb"`` or ``"spark"``."""
    if name == "duckdb":
        return DuckEngine(**options)
    if name == "spark":
        from tensorbandits.lake.spark import SparkEngine

        spark: JoinEngine = SparkEngine(**options)
        return spark
    raise ValueError(f"engine is {name!r}; give 'duckdb' or 'spark'")


def hour_folder(bandit_folder: str, hour: str) -> str:
    """Return the folder of an hour below one of decisions, or of rewards."""
    return posixpath.join(bandit_folder, f"hour={hour}")

"""Suite ``logs``: a log of 50 million rows read through two engines, beside each engine's own bare GROUP BY."""

from __future__ import annotations

import sys
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

from benchmarks.report import Findings, command
from benchmarks.run import ROOT, peak_megabytes, python
from benchmarks.store import Options, Result, Settings, Store
from tensorbandits.report.evidence import amount
from tensorbandits.report.page import Part, Table, Text

NAME = "logs"
ALONE = True
MEASURED = "tensorbandits.data"  # the part of the library whose code decides
ONE_CORE = False  # engines use every core, which a load average takes for other processes
TITLE = "Logs: tens of millions of rows into a ledger"

ROWS, QUICK_ROWS, REPEATS = 50_000_000, 2_000_000, 3
ENGINES = ("duckdb", "polars")
WAYS = ("bare", "from_log")
MODES, REWARD = ["ad", "site", "time:weekday"], "clicks"  # 50 x 40 x 7 levels
FOLDER = ROOT / "out" / "bench"


def plan(options: Options) -> list[Settings]:
    rows, repeats = (QUICK_ROWS, 1) if options.quick else (ROWS, REPEATS)
    return [
        {"rows": rows, "engine": engine, "way": way, "repeat": i}
        for i in range(repeats)  # in turn, so that both ways meet the machine in the same state
        for engine in ENGINES
        for way in WAYS
    ]


def label(settings: Settings) -> str:
    return f"{settings['rows']:,} rows, {settings['engine']}, {settings['way']}"


def measure(settings: Settings) -> Result:
    """Read the log once; return the seconds, the peak memory of the process, and what the sums are."""
    path = _file(settings["rows"])
    _warm(path)
    read = {"bare": _bare, "from_log": _from_log}[settings["way"]]
    frame = _open(settings["engine"], path)  # and import everything
    before = peak_megabytes()
    start, used = perf_counter(), process_time()
    result = read(settings["engine"], frame)
    seconds, cpu_seconds = perf_counter() - start, process_time() - used
    memory = {"imports_megabytes": before, "peak_megabytes": peak_megabytes()}
    return {"seconds": seconds, "cpu_seconds": cpu_seconds, **memory, **result()}


def _open(engine: str, path: Path) -> Any:
    import narwhals  # noqa: F401
    import pyarrow  # noqa: F401

    import tensorbandits.data  # noqa: F401

    if engine == "polars":
        import polars as pl

        return pl.scan_parquet(path)
    import duckdb

    return duckdb.connect().read_parquet(str(path))


def _bare(engine: str, frame: Any) -> Any:
    """The engine's own query: count, sum and sum of squares by the same columns."""
    if engine == "polars":
        import polars as pl

        reward = pl.col(REWARD)
        sums = [pl.len().alias("n"), reward.sum().alias("y"), (reward * reward).sum().alias("q")]
        keys = ["ad", "site", pl.col("time").dt.weekday().alias("weekday")]
        rows = frame.group_by(keys).agg(sums).collect(engine="streaming").select("n", "y", "q").rows()
    else:
        sums = f"count(*), sum({REWARD}), sum({REWARD} * {REWARD})"
        query = f"select ad, site, isodow(time), {sums} from log group by all"
        rows = [row[3:] for row in frame.query("log", query).fetchall()]
    return lambda: _sums(len(rows), np.array(rows, dtype=np.float64).T)


def _from_log(engine: str, frame: Any) -> Any:
    from tensorbandits.data import from_log

    log = from_log(frame, MODES, REWARD)
    ledger = log.ledger
    return lambda: _sums(len(ledger), np.array([ledger.counts, ledger.totals, ledger.squares]))


def _sums(cells: int, sums: np.ndarray) -> Result:
    return {"cells": cells, "sums": sums.sum(axis=1).tolist()}


def _file(rows: int) -> Path:
    """The log, made by a process of its own if it is not there yet."""
    path = FOLDER / f"log-{rows}.parquet"
    if not path.exists():
        done = python("-m", "benchmarks.library.logs", str(rows), str(path))
        if done.returncode:
            raise RuntimeError(f"the log of {rows:,} rows was not made:\n{done.stderr}")
    return path


def make_file(rows: int, path: Path) -> None:
    """Write the log in pieces, each row from a hash of its number: the same file each time, in little memory."""
    import duckdb

    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    connection = duckdb.connect(config={"memory_limit": "2GB", "preserve_insertion_order": "false"})
    query = f"""
        select 'ad-' || lpad((h % 50)::varchar, 2, '0') as ad,
               ((h // 50) % 40)::integer as site,
               timestamp '2024-01-01' + to_seconds(((h // 2000) % 31536000)::bigint) as time,
               ((h // 50) % 3 * (hash(h) % 4))::integer as {REWARD}
        from (select hash(range) as h from range({rows}))
    """
    connection.execute(f"copy ({query}) to '{part}' (format parquet)")
    part.rename(path)


def _warm(path: Path) -> None:
    """Read the file once, so that no measurement waits for the disk."""
    with path.open("rb") as file:
        while file.read(1 << 24):
            pass


def section(store: Store, options: Options) -> Findings:
    wanted = plan(options)
    found = [(settings, result) for settings in wanted if (result := store.get(settings)) is not None]
    rows = wanted[0]["rows"]
    engines = []
    for engine in ENGINES:
        runs = {way: [r for s, r in found if (s["engine"], s["way"]) == (engine, way)] for way in WAYS}
        if all(runs.values()):
            engines.append({"engine": engine, **{way: _best(runs[way]) for way in WAYS}})
    answers = {(result["cells"], *result["sums"]) for _, result in found}
    parts: list[Part] = [
        Text(
            f"A Parquet file of {rows:,} rows (text, whole numbers, a time stamp, whole rewards; 50 x 40 x 7 cells, "
            "the 7 being weekdays of the time) into a ledger by `from_log`, through a duckdb relation and a polars "
            "scan. Beside it the engine's own query for count, sum and sum of squares by the same columns, without "
            f"any check. Each in a process of its own, in turn, runs: {len(wanted) // 4}; the quickest counts. CPU "
            "seconds are of all threads, and depend little on what else runs. "
            + ("All gave the same sums." if len(answers) == 1 else "THE SUMS DIFFER.")
        ),
        command(NAME, *options.flags),
        _table(rows, engines),
    ]
    data = {"rows": rows, "engines": engines, "same_sums": len(answers) == 1}
    return parts, data


def _best(runs: list[Result]) -> Result:
    quickest = min(runs, key=lambda run: run["seconds"])
    least, most = min(run["cpu_seconds"] for run in runs), max(run["peak_megabytes"] for run in runs)
    return quickest | {"cpu_seconds": least, "peak_megabytes": most}


def _table(rows: int, engines: list[dict[str, Any]]) -> Table:
    header = [
        "engine",
        "from_log (s)",
        "rows per second",
        "bare GROUP BY (s)",
        "ratio",
        "CPU: from_log (s)",
        "CPU: bare (s)",
        "CPU: ratio",
        "peak memory (MB)",
        "bare: peak (MB)",
        "of that, imports (MB)",
    ]
    lines = [
        [
            entry["engine"],
            f"{entry['from_log']['seconds']:.2f}",
            f"{rows / entry['from_log']['seconds'] / 1e6:.1f} million",
            f"{entry['bare']['seconds']:.2f}",
            f"{entry['from_log']['seconds'] / entry['bare']['seconds']:.2f}",
            f"{entry['from_log']['cpu_seconds']:.2f}",
            f"{entry['bare']['cpu_seconds']:.2f}",
            f"{entry['from_log']['cpu_seconds'] / entry['bare']['cpu_seconds']:.2f}",
            amount(entry["from_log"]["peak_megabytes"]),
            amount(entry["bare"]["peak_megabytes"]),
            amount(entry["bare"]["imports_megabytes"]),
        ]
        for entry in engines
    ]
    return Table(header, lines)


if __name__ == "__main__":
    make_file(int(sys.argv[1]), Path(sys.argv[2]))

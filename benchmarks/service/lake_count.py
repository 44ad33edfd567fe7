"""The independent count of a run through a lake: from what deciders wrote down, by NumPy, without engine or join."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.service.lake_worker import LIVES, RECORDS, SHAPE, Run, keys_of, read_journal

Sums = dict[tuple[int, ...], tuple[float, float, float]]


def in_lake(run: Run, kind: str) -> np.ndarray:
    """The keys and times of all rows of a kind in the lake: the times of decisions, or at which rewards were told."""
    found = []
    for file in sorted(run.lake.glob(f"{kind}/bandit=*/hour=*/part-*.parquet")):
        rows = pq.ParquetFile(file).read(["id", "time"])
        some = np.empty(rows.num_rows, dtype=[("key", "u8"), ("time", "i8")])
        some["key"] = keys_of(pc.utf8_slice_codeunits(rows["id"], -12).to_pylist())
        some["time"] = rows["time"].cast("int64").to_numpy()
        found.append(some)
    return np.concatenate(found) if found else np.empty(0, dtype=[("key", "u8"), ("time", "i8")])


def written_down(run: Run) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """By kind all events that deciders began to hand over, and whether the sink is known to have had each."""
    events: dict[str, list[np.ndarray]] = defaultdict(list)
    had: dict[str, list[np.ndarray]] = defaultdict(list)
    for decider in range(run.settings["deciders"]):
        for life in range(LIVES):
            for kind, some, done in read_journal(run.journal(decider, life)):
                events[kind].append(some)
                had[kind].append(np.full(len(some), done))
    return {
        kind: (np.concatenate([np.empty(0, dtype), *events[kind]]), np.concatenate([np.zeros(0, bool), *had[kind]]))
        for kind, dtype in RECORDS.items()
    }


def count(run: Run, now: float, window: float, default: float) -> tuple[Sums, dict[str, Any]]:
    """Return the sums that must be learned by cell, and what was found of the events on their way.

    Events count that the sink had, and those of unfinished batches that lie in the lake.
    """
    facts: dict[str, Any] = {}
    counted = {}
    for kind, (events, had) in written_down(run).items():
        lying = in_lake(run, kind)
        pairs, known = _pairs(events), np.unique(_pairs(lying))
        there = np.isin(pairs, known)
        facts[kind] = {
            "flushed": int(np.unique(pairs[had]).size),
            "flushed and lost": int(np.unique(pairs[had & ~there]).size),
            "made up": int((~np.isin(known, pairs)).sum()),
            "in the lake": int(known.size),
            "rows": int(lying.size),
        }
        counted[kind] = events[had | there]
    return sums_of(counted["decisions"], counted["rewards"], now * 1e6, window * 1e6, default), facts


def _pairs(events: np.ndarray) -> np.ndarray:
    """A number for each event: of its key and its time."""
    mixed = events["key"] * np.uint64(0x9E3779B97F4A7C15) + events["time"].astype(np.uint64)
    return mixed ^ (mixed >> np.uint64(29))


def sums_of(decisions: np.ndarray, rewards: np.ndarray, now: float, window: float, default: float) -> Sums:
    """What each cell has earned: a reward for each decision, exactly added up."""
    keys, first = np.unique(decisions["key"], return_index=True)
    amends = rewards[rewards["amend"] == 1]
    amends = amends[np.lexsort((-amends["reward"], -amends["time"], amends["key"]))]
    plain = rewards[rewards["amend"] == 0]
    plain = plain[np.lexsort((plain["reward"], plain["time"], plain["key"]))]
    both = np.concatenate([amends, plain])  # where a reward was amended, the last that amends comes first
    told, at = np.unique(both["key"], return_index=True)
    known = both[at]
    silent = decisions[first][~np.isin(keys, told)]
    silent = silent[silent["time"] + window < now]
    cells = np.concatenate([known["cell"], silent["cell"]])
    values = np.concatenate([known["reward"], np.full(len(silent), default)])
    pairs = np.empty(len(cells), dtype=[("cell", "i4"), ("reward", "f8")])
    pairs["cell"], pairs["reward"] = cells, values
    exact: dict[int, list[Fraction]] = defaultdict(lambda: [Fraction(0)] * 3)
    for (cell, reward), many in zip(*(one.tolist() for one in np.unique(pairs, return_counts=True)), strict=True):
        value = Fraction(reward)
        sums = exact[cell]
        exact[cell] = [sums[0] + many, sums[1] + many * value, sums[2] + many * value * value]
    places = {cell: tuple(int(level) for level in np.unravel_index(cell, SHAPE)) for cell in exact}
    return {places[cell]: (float(a), float(b), float(c)) for cell, (a, b, c) in exact.items()}


def learned(ledger: Any) -> Sums:
    """What a ledger says of each cell."""
    return {entry.cell: tuple(map(float, entry[1:])) for entry in ledger}


def size_of(folder: Path) -> int:
    """How many bytes of files lie in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("part-*.parquet"))

"""What a decision costs in a decider, by shape, rank and rules; and how large snapshots and events are."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np

import tensorbandits as tb
from benchmarks.service.deciding import KEYS, records
from benchmarks.store import Result, Settings
from tensorbandits.lake.streams import entry_of

WARM, CONTEXTS = 2_000, 200  # decisions before the clock runs; labels of the context that are asked for, at most
_RULES = 200  # combinations at most


def costs(quick: bool) -> list[Settings]:
    """Return what is measured: shapes, ranks, rules and shares, each beside the same campaign."""
    shapes = [(10, 60, 5), (8, 30, 6), (50, 200, 20), (1_000, 1_000, 1_000)]
    plain: dict[str, Any] = {"rank": 2, "rules": 0, "shares": False, "count": 2_000 if quick else 30_000}
    wanted = [{"shape": list(shape)} for shape in (shapes[:1] if quick else shapes)]
    if not quick:
        wanted += [{"shape": [10, 60, 5], "rank": rank} for rank in (1, 4, 8)]
        wanted += [{"shape": [10, 60, 5], "rules": rules} for rules in (1, 20, _RULES)]
        wanted += [{"shape": [10, 60, 5], "shares": True}, {"shape": [10, 60, 5], "shares": True, "rules": 20}]
        wanted += [{"shape": [1_000, 1_000, 1_000], "shares": True, "rules": 20}]
    return [{"task": "cost", **plain, **one} for one in wanted]


def made(shape: list[int], rank: int = 2, rules: int = 0, shares: bool = False, seed: int = 0) -> tb.Bandit:
    """Return a bandit of a shape that has learned a little; its first mode is the context."""
    names = ["segment", "offer", "channel"]
    space = tb.Space(
        {name: [f"{name} {at}" for at in range(size)] for name, size in zip(names, shape, strict=True)},
        context=["segment"],
    )
    rng = np.random.default_rng(seed)
    for at in range(rules):
        space.forbid(offer=f"offer {at * 7 % shape[1]}", channel=f"channel {at * 3 % shape[2]}")
    given: dict[str, Any] = {"floors": 0.05, "holdout": 0.05} if shares else {}
    bandit = tb.Bandit(space, reward="bernoulli", rank=rank, seed=seed, **given)
    ledger, factors = tb.Ledger(tuple(shape)), [rng.normal(0.0, 1.0, size) for size in shape]
    cells = np.column_stack([rng.integers(size, size=20_000) for size in shape])
    odds = -2.0 + sum(factor[cells[:, at]] for at, factor in enumerate(factors))
    ledger.add(cells, (rng.random(len(cells)) < 1.0 / (1.0 + np.exp(-odds))).astype(float))
    bandit.bring_rewards(ledger)
    return bandit


def cost(settings: Settings) -> Result:
    """Measure one core's microseconds for a decision, of a request that is known and of one that is new."""
    shape, count = settings["shape"], settings["count"]
    bandit = made(shape, settings["rank"], settings["rules"], settings["shares"])
    began = time.perf_counter()
    snapshot = bandit.snapshot(name="offers")
    publishing = time.perf_counter() - began
    content = snapshot.to_bytes()
    segments = [f"segment {at}" for at in range(min(shape[0], CONTEXTS))]
    with tb.Decider(snapshot, keys=KEYS, seed=0) as decider:
        decider.ask(segment=segments[0])
        began = time.thread_time()
        for segment in segments[1:]:
            decider.ask(segment=segment)
        new = (time.thread_time() - began) / max(len(segments) - 1, 1)
        contexts = [segments[at % len(segments)] for at in range(count)]
        for segment in contexts[:WARM]:
            decider.ask(segment=segment)
        began, wall = time.thread_time(), time.perf_counter()
        for segment in contexts:
            token = decider.ask(segment=segment).id
        spent, wall = time.thread_time() - began, time.perf_counter() - wall
    return {
        "microseconds": 1e6 * spent / count,
        "wall": 1e6 * wall / count,
        "new": 1e6 * new,
        "snapshot": len(content),
        "draws": len(snapshot.draws.entries),
        "publishing": 1e3 * publishing,
        "token": len(token),
    }


def sizes(settings: Settings) -> Result:
    """Measure the bytes of decisions and of rewards: in memory, in a lake, and in Redis Streams."""
    count, folder = settings["count"], Path(tempfile.mkdtemp(prefix="tb-sizes-"))
    rows: dict[str, list[dict[str, Any]]] = {"decisions": [], "rewards": []}
    snapshot = made([10, 60, 5], shares=True).snapshot(name="offers")
    try:
        lake = tb.ParquetSink(folder, rows=50_000, seconds=3_600.0)
        with tb.Decider(snapshot, keys=KEYS, sink=lake, seed=0, buffer=10**7) as decider:
            segments = [f"segment {at}" for at in range(10)]
            for segment in segments:
                decider.ask(segment=segment)
            tracemalloc.start()
            before = tracemalloc.get_traced_memory()[0]
            few = min(20_000, count)
            ids = [decider.ask(segment=segments[at % 10]).id for at in range(few)]
            waiting = (tracemalloc.get_traced_memory()[0] - before) / few
            tracemalloc.stop()
            ids += [decider.ask(segment=segments[at % 10]).id for at in range(count - few)]
            decider.tell_many([(one, at % 10 == 0) for at, one in enumerate(ids)])
        found = {kind: records(folder, kind) for kind in rows}
        some = tb.FunctionSink(lambda kind, told: rows[kind].extend(told))
        with tb.Decider(snapshot, keys=KEYS, sink=some, seed=0) as decider:
            for at in range(1_000):
                decider.tell(decider.ask(segment=segments[at % 10]).id, at % 10 == 0)
        entries = {kind: [len(json.dumps(entry_of(row, snapshot.uid))) for row in some] for kind, some in rows.items()}
        return {
            "token": len(ids[0]),
            "waiting": waiting,
            "files": {kind: len(tables) for kind, tables in found.items()},
            "events": {kind: sum(table.num_rows for table in tables) for kind, tables in found.items()},
            "lake": {
                kind: sum(file.stat().st_size for file in folder.glob(f"{kind}/*/*/part-*.parquet"))
                / sum(table.num_rows for table in tables)
                for kind, tables in found.items()
            },
            "redis": {kind: float(np.mean(lengths)) for kind, lengths in entries.items()},
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)

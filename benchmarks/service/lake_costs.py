"""What the join costs: seconds of a machine for a million decisions with their rewards, by engine and cores."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import tensorbandits as tb
from benchmarks.run import peak_megabytes
from benchmarks.service.lake_worker import KEYS, MODES, NAME, SHAPE
from benchmarks.store import Options, Result, Settings
from tensorbandits.bandit.commands import Drawn
from tensorbandits.decider.tokens import TokenHeads, TokenKeys, make_token
from tensorbandits.lake import records
from tensorbandits.report.page import Part, Table, Text

REWARDED = 0.6  # of decisions
HOURS = 4
TRIES = 3  # of which the best counts
ROWS = 50_000  # of a file, as deciders write them


def plan(options: Options) -> list[Settings]:
    engines = ["duckdb"] if options.quick else ["duckdb", "spark"]
    joins = [
        {"task": "join", "engine": engine, "cores": cores, "decisions": 10_000 if options.quick else 1_000_000}
        for engine in engines
        for cores in (1, 2)
    ]
    return [*joins, {"task": "idle", "hours": 20 if options.quick else 24 * 60}]


def label(settings: Settings) -> str:
    if settings["task"] == "idle":
        return "a round with nothing new"
    return f"{settings['engine']} with {settings['cores']} cores"


def measure(settings: Settings) -> Result:
    with tempfile.TemporaryDirectory(prefix="tb-lake-") as place:
        return (idle if settings["task"] == "idle" else join)(Path(place), settings)


def join(place: Path, settings: Settings) -> Result:
    """Learn a lake anew some times, then a round of one hour that has news."""
    from tensorbandits.lake.engines import engine_of
    from tensorbandits.lake.learning import LakeLearner

    uid = bandit(place)
    rows = fill(place / "lake", uid, settings["decisions"])
    engine = engine_of(settings["engine"], threads=settings["cores"])
    folders = {kind: place / "lake" / kind for kind in ("decisions", "rewards")}
    times: dict[str, list[float]] = {name: [] for name in ("all", "all_ran", "hour", "hour_ran")}

    def round_of(learner: LakeLearner, what: str) -> None:
        began = processor()
        times[what].append(learner.learn(START + 86_400).seconds)
        times[f"{what}_ran"].append(processor() - began)

    for number in range(TRIES):
        kept = place / f"kept-{number}"
        learner = LakeLearner(place / "offers.safetensors", name=NAME, engine=engine, kept=kept, **folders)
        round_of(learner, "all")
        write(place / "lake", uid, f"late{number}", 0, *_events(ROWS // 10, number + 1_000, hours=1))
        round_of(learner, "hour")
    engine.close()
    sizes = {
        kind: sum(file.stat().st_size for file in (place / "lake" / kind).rglob("part-w*.parquet"))
        for kind in ("decisions", "rewards")
    }
    return {
        "times": times,
        "load": os.getloadavg()[0],
        "megabytes": peak_megabytes(),
        "rows": rows,
        "bytes": {kind: sizes[kind] / rows[kind] for kind in sizes},
    }


def idle(place: Path, settings: Settings) -> Result:
    """Learn a lake of many hours, then time rounds with nothing new: of the same learner, and of one started anew."""
    from tensorbandits.lake.learning import LakeLearner

    uid = bandit(place)
    for hour in range(settings["hours"]):
        write(place / "lake", uid, f"h{hour}", 0, *_events(20, hour, hours=1, first=hour))
    folders = {kind: place / "lake" / kind for kind in ("decisions", "rewards")}
    now = START + 3_600 * (settings["hours"] + 24)

    def made(**more: Any) -> LakeLearner:
        return LakeLearner(place / "offers.safetensors", name=NAME, **folders, **more)

    learner = made()
    first = learner.learn(now).seconds
    again = learner.learn(now).seconds
    began = time.perf_counter()
    anew = made(look_back="2 days")
    anew.learn(now)
    started = time.perf_counter() - began
    return {"first": first, "again": again, "started": started, "look_back": anew.learn(now).seconds}


START = records.hour_start("2026-01-01T00")


def bandit(place: Path) -> str:
    """Save a bandit, and return its uid."""
    space = tb.Space(MODES, context=["segment"])
    made = tb.Bandit(space, rank=2, reward="bernoulli", window="10 min", default=0, ring=2, seed=0)
    made.save(place / "offers.safetensors")
    return made.uid


def fill(lake: Path, uid: str, decisions: int) -> dict[str, int]:
    """Write files of decisions and rewards as deciders would; return how many rows."""
    found = {"decisions": 0, "rewards": 0}
    for number in range(max(decisions // ROWS, 1)):
        some = _events(min(ROWS, decisions), number)
        write(lake, uid, f"w{number % 4}", number, *some)
        found["decisions"] += len(some[0]["id"])
        found["rewards"] += len(some[1]["id"])
    return found


def _events(count: int, seed: int, hours: int = HOURS, first: int = 0) -> tuple[dict[str, Any], dict[str, Any]]:
    """Decisions with tokens as ids, and rewards of some of them."""
    rng = np.random.default_rng([seed, count])
    times = ((START + 3_600 * first) * 1_000 + np.sort(rng.integers(0, 3_600_000 * hours, count))) * 1_000
    cells = np.column_stack([rng.integers(0, size, count) for size in SHAPE])
    some = np.flatnonzero(rng.random(count) < REWARDED)
    chance = rng.choice([0.25, 0.5, 0.125], count)
    heads = TokenHeads(TokenKeys(KEYS), "00" * 8, 7)
    pairs = zip(map(tuple, cells.tolist()), chance.tolist(), (times // 1_000).tolist(), strict=True)
    made_of = [(heads.head(Drawn(cell, share, "policy", draw=3)), moment) for cell, share, moment in pairs]
    tokens = [make_token(head, heads.keys, moment, rng.bytes(8)) for head, moment in made_of]
    ids = np.array(tokens, dtype=object)
    made = {"id": ids, "time": times, "by": ["policy"] * count, "propensity": chance, "cell": cells.tolist()}
    made |= {"snapshot": [7] * count, "draw": rng.integers(0, 16, count).tolist()}
    made |= {"policy_chance": [1.0] * count, "holdout_chance": [0.0] * count}
    told = {name: [made[name][at] for at in some] for name in ("by", "cell")}
    told |= {"id": ids[some], "decided": times[some], "time": times[some] + rng.integers(10**6, 10**9, len(some))}
    told |= {"reward": (rng.random(len(some)) < 0.2).astype(float), "amend": [False] * len(some)}
    return made, told | {"propensity": chance[some]}


def write(lake: Path, uid: str, writer: str, number: int, *kinds: dict[str, Any]) -> None:
    """Write events into the files of their hours."""
    from tensorbandits.base.folders import Folder
    from tensorbandits.lake.files import write_records

    for kind, columns in zip(("decisions", "rewards"), kinds, strict=True):
        table = records.table(kind, columns, NAME, uid)  # type: ignore[arg-type]
        hours = np.asarray(columns["time" if kind == "decisions" else "decided"]) // (records.HOUR * 10**6)
        for hour in np.unique(hours):
            name = records.hour_of(float(hour) * records.HOUR)
            write_records(Folder(lake), kind, name, writer, number, table.filter(hours == hour))  # type: ignore[arg-type]


def processor() -> float:
    """Seconds for which cores have run this process, and those that it started and that run still, such as Java's."""
    spent, todo = time.process_time(), _children(os.getpid())
    while todo:
        pid = todo.pop()
        with contextlib.suppress(OSError):
            spent += processor_of(pid)
            todo += _children(pid)
    return spent


def processor_of(pid: int) -> float:
    """Seconds for which cores have run a process."""
    parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


def _children(pid: int) -> list[int]:
    found = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(child) for child in (task / "children").read_text().split()]
    return found


def parts(found: list[tuple[Settings, Result]]) -> list[Part]:
    """Return what the report says of it."""
    joins = [pair for pair in found if pair[0]["task"] == "join"]
    rows = []
    for settings, result in joins:
        millions = settings["decisions"] / 1e6
        figures = [
            min(result["times"][name]) * many / millions
            for name, many in (("all", 1), ("all_ran", 1), ("hour", HOURS), ("hour_ran", HOURS))
        ]
        memory = f"{result['megabytes']:,.0f}" if settings["engine"] == "duckdb" else "–"
        shown = [f"{figure:.1f}" for figure in figures]
        rows.append([settings["engine"], str(settings["cores"]), *shown, memory, f"{result['load']:.0f}"])
    said: list[Part] = []
    if joins:
        settings, result = joins[0]
        said += [
            Text(
                f"A lake of {settings['decisions']:,} decisions and {result['rows']['rewards']:,} rewards in {HOURS} "
                f"hours, in files of {ROWS:,} rows, is learned from nothing: files are looked at, joined, added up, "
                f"and the bandit learns, of {' x '.join(map(str, SHAPE))} cells. Then a tenth of a file more comes for "
                f"one of the hours, which is joined anew. The best of {TRIES} counts; beside the time is what cores "
                "ran for it, which does not depend on what else the machine did. A decision takes "
                f"{result['bytes']['decisions']:.0f} bytes of the lake, a reward {result['bytes']['rewards']:.0f}."
            ),
            Table(
                ["engine", "cores", "s, all", "cores ran s", "s, hour with news", "cores ran s", "MB", "load"],
                rows,
                "What a round costs for a million decisions with their rewards",
            ),
        ]
    for settings, result in found:
        if settings["task"] == "idle":
            said.append(
                Text(
                    f"A round with nothing new, of a lake of {settings['hours']:,} hours, takes {result['again']:.2f} "
                    f's where all hours are looked at, and {result["look_back"]:.3f} s with `--look-back "2 days"`; a '
                    f"learner that is started anew takes {result['started']:.2f} s."
                )
            )
    return said

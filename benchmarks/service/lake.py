"""Suite ``lake``: decisions and rewards through a lake, from end to end with kills, and what the join costs.

Deciders decide from snapshots and write into a lake, some through Redis Streams; a learner joins, adds up and
publishes. They are killed at random. At the end what was learned must be what an independent count says, to the last
reward.
"""

from __future__ import annotations

from typing import Any

from benchmarks.report import Findings, command
from benchmarks.service import lake_costs, lake_events, lake_run
from benchmarks.store import Options, Result, Settings, Store
from tensorbandits.report.page import Part, Table, Text

NAME = "lake"
ALONE, ONE_CORE = True, False
TITLE = "Learning from a lake"
MEASURED = "tensorbandits.lake.learning"


def plan(options: Options) -> list[Settings]:
    common = {"task": "whole", "deciders": 4, "on_redis": 1, "seed": 0}
    if options.quick:
        small = {"decisions": 8_000, "kills": 4, "speed": 900.0, "every": 2.0, "engines": ["duckdb"]}
        return [common | small, *lake_costs.plan(options), *lake_events.plan(options)]
    whole = common | {"kills": 20, "speed": 60.0, "every": 30.0, "engines": ["duckdb", "spark"]}
    sizes = [whole | {"decisions": decisions} for decisions in (3_000_000, 10_000_000)]
    return [sizes[0], *lake_costs.plan(options), *lake_events.plan(options), sizes[1]]


def label(settings: Settings) -> str:
    if settings["task"] == "whole":
        return f"from end to end, {settings['decisions']:,} decisions"
    return _module(settings).label(settings)


def measure(settings: Settings) -> Result:
    return lake_run.measure(settings) if settings["task"] == "whole" else _module(settings).measure(settings)


def _module(settings: Settings) -> Any:
    return lake_events if settings["task"] == "events" else lake_costs


def section(store: Store, options: Options) -> Findings:
    found = [(settings, result) for settings in plan(options) if (result := store.get(settings)) is not None]
    whole = [pair for pair in found if pair[0]["task"] == "whole"]
    parts: list[Part] = [command(NAME, *options.flags)]
    for settings, result in whole:
        parts += _whole(settings, result)
    parts += lake_costs.parts([pair for pair in found if pair[0]["task"] in ("join", "idle")])
    parts += lake_events.parts([pair for pair in found if pair[0]["task"] == "events"])
    return parts, [{**settings, **result} for settings, result in found]


def _whole(settings: Settings, result: Result) -> list[Part]:
    kills = sum(result["killed"].values())
    killed = ", ".join(f"{what} {many} times" for what, many in result["killed"].items())
    counts = result["counts"]
    text = Text(
        f"{settings['deciders']} deciders, processes of their own, make decisions from snapshots that they follow; "
        f"{settings['on_redis']} of them hands its events to Redis Streams, from which a mover writes them into the "
        "lake, the others write files. Rewards come late, after their window too, twice, contradicted, amended, at "
        f"another decider, or never. A learner joins each {settings['every']:g} seconds with DuckDB and publishes. "
        f"`kill -9` ends one of them at random, {kills} times in all ({killed}), and it is started again. A decider "
        "writes down each batch before and after it hands it to its sink; what the sink had, and what of unfinished "
        "batches lies in the lake, is counted by NumPy, without engine and join. What the learner has must be equal "
        "to that, cell by cell: counts, sums and sums of squares, of prices that no float has exactly."
    )
    return [text, _flow(result), _learned(result, counts)]


def _flow(result: Result) -> Table:
    facts = result["facts"]
    rows = []
    for kind, told in (("decisions", result["made"]), ("rewards", result["told"])):
        one = facts[kind]
        lost = f"{told - one['in the lake']:,}" if kind == "decisions" else "–"
        rows.append(
            [
                *(kind, f"{told:,}", f"{one['flushed']:,}", f"{one['flushed and lost']:,}", f"{one['made up']:,}"),
                *(f"{one['in the lake']:,}", f"{one['rows']:,}", lost),
            ]
        )
    header = ["", "made", "flushed", "of these lost", "made up", "in the lake", "rows", "not flushed when killed"]
    return Table(header, rows, "From deciders into the lake")


def _learned(result: Result, counts: dict[str, int]) -> Table:
    rows = [[how, "exact" if one["exact"] else "WRONG", *_bits(one)] for how, one in result["learned"].items()]
    caption = (
        f"What was learned: {counts['decisions']:,} decisions and {counts['rewards']:,} with a reward, of which "
        f"{counts['unlogged']:,} of decisions that were not logged; {counts['defaults']:,} defaults; "
        f"{counts['repeated_decisions'] + counts['repeated_rewards']:,} rows repeated; {result['cells']:,} cells in "
        f"{result['hours']} hours"
    )
    return Table(["learned", "beside the independent count", "bits", "seconds"], rows, caption)


def _bits(one: dict[str, Any]) -> list[str]:
    if "seconds" not in one:
        return [one.get("failed", "–"), "–"]
    return ["the same" if one["same bits"] else "OTHERS", f"{one['seconds']:.0f}"]

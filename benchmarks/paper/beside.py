"""Suite ``peers``: our policies and other libraries on the same problem, used as :mod:`benchmarks.paper.peers` says."""

from __future__ import annotations

import importlib.metadata
import inspect
from collections.abc import Callable
from functools import partial
from time import process_time
from typing import Any

import numpy as np

from benchmarks import figures
from benchmarks.paper import peers
from benchmarks.paper.peers import NOISE, PEERS, RANK, ROUNDS, SIGNAL, Peer
from benchmarks.report import Findings, command, dash
from benchmarks.store import Options, Result, Settings, Store
from benchmarks.timing import POLICIES, make, warm_up_all
from tensorbandits.report.evidence import amount
from tensorbandits.report.page import Part, Picture, Table, Text

NAME = "peers"
ALONE = False
TITLE = "Beside other libraries"

SIZES, REPLICATIONS = (10, 15), 10
BUDGET = 100.0  # seconds of processor time per line and size; one replication is run in any case
QUICK_SIZES, QUICK_ROUNDS = (10,), 300
_CAPTION = "Final regret against time per round, our policies filled, other libraries hollow; lower left is better"


def _maker(key: str) -> Callable[..., Any]:
    return lambda shape, rounds, seed: make(key, shape, RANK, rounds, seed)


OURS = {key: Peer(key, "tensorbandits", label, "Its defaults.", _maker(key)) for key, label in POLICIES.items()}
PLAYERS: dict[str, Peer] = OURS | PEERS


def settings(player: Peer, p: int, replication: int, rounds: int) -> Settings:
    """Everything that decides a result; a peer's own settings are what its maker was made with."""
    problem = {"signal": SIGNAL, "noise": NOISE, "rank": RANK, "rounds": rounds, "p": p, "replication": replication}
    arguments = repr(sorted(inspect.getclosurevars(player.make).nonlocals.items()))
    version = "" if player.key in OURS else importlib.metadata.version(player.library)
    return {"player": player.key, "arguments": arguments, "version": version} | problem


def plan(options: Options) -> list[Settings]:
    sizes, rounds, count = (QUICK_SIZES, QUICK_ROUNDS, 1) if options.quick else (SIZES, ROUNDS, REPLICATIONS)
    there = [player for player in PLAYERS.values() if peers.missing(player) is None]
    return [settings(player, p, i, rounds) for i in range(count) for p in sizes for player in there]


def label(settings: Settings) -> str:
    return f"{settings['player']}, p = {settings['p']}, replication {settings['replication']}"


def skip(settings: Settings, store: Store) -> bool:
    """Whether another replication would not fit into the budget, as far as the earlier ones say."""
    kept = [store.get(settings | {"replication": i}) for i in range(settings["replication"])]
    if any(result and "failed" in result for result in kept):
        return True
    spent = [result["processor_seconds"] for result in kept if result]
    return bool(spent) and sum(spent) + float(np.mean(spent)) > BUDGET


def measure(settings: Settings) -> Result:
    if settings["player"] in OURS:
        warm_up_all()
    start = process_time()
    try:
        result = peers.play(
            PLAYERS[settings["player"]], settings["p"], settings["replication"], rounds=settings["rounds"]
        )
    except Exception as error:  # of a library that is not ours
        if settings["player"] in OURS:
            raise
        return {"failed": f"{type(error).__name__}: {error}"}
    return result | {"processor_seconds": process_time() - start}


def section(store: Store, options: Options) -> Findings:
    wanted = plan(options)
    rounds, sizes = wanted[0]["rounds"], sorted({case["p"] for case in wanted})
    parts: list[Part] = [
        Text(
            f"The paper's problem (w = {SIGNAL:g}, noise {NOISE:g}, rank {RANK}), {rounds:,} rounds; replication i "
            "plays on the tensor of seed i. "
            f"{'One replication' if options.quick else f'Up to {REPLICATIONS} replications'}, as many as fit into "
            f"{BUDGET:g} seconds of processor time per line, at least one. Our policies have their defaults; the rank "
            "is given to those that use it. Every setting of the other libraries was chosen at p = 10 on other "
            "tensors (seeds 1000 to 1002), and not again at p = 15; `benchmarks/paper/peers.py` says how each is used, "
            "what was tried and what that lost. The effort was uneven, 4 to 7 settings each and about 30 for Vowpal "
            "Wabbit with crossed features, and some choices lie at the edge of what was tried: do not read much into "
            "the order of neighbouring lines. Sorted by regret; ours are bold."
        ),
        command(NAME, *options.flags),
    ]
    data: list[dict[str, Any]] = []
    for p in sizes:
        rows = [
            _row(key, p, rounds, [c for c in wanted if (c["p"], c["player"]) == (p, key)], store) for key in PLAYERS
        ]
        rows.sort(key=lambda row: (row["mean"] is None, row["mean"] or 0.0))
        data += rows
        parts += _table(rows, f"{p} x {p} x {p} cells")
    parts.append(Text("\n".join(f"- **{peer.label}**: {peer.how}" for peer in PEERS.values())))
    if any(row["mean"] is not None for row in data):
        parts.append(Picture("peers", partial(figures.peers, data), _CAPTION))
    return parts, data


def _row(key: str, p: int, rounds: int, cases: list[Settings], store: Store) -> dict[str, Any]:
    results = [result for case in cases if (result := store.get(case)) is not None]
    failed = next((result["failed"] for result in results if "failed" in result), None)
    runs = [result for result in results if "failed" not in result]
    row: dict[str, Any] = {"key": key, "name": PLAYERS[key].label, "ours": key in OURS, "p": p, "rounds": rounds}
    row |= {"replications": len(runs), "mean": None, "standard_error": None, "microseconds": None}
    if not runs:
        return row | {"note": f"failed: {failed}" if failed else peers.missing(PLAYERS[key]) or "not run"}
    finals = np.array([run["final"] for run in runs])
    seconds = float(np.mean([run["seconds"] for run in runs]))
    row |= {"version": runs[0]["version"], "mean": float(finals.mean()), "microseconds": 1e6 * seconds / rounds}
    if len(runs) > 1:
        row["standard_error"] = float(finals.std(ddof=1) / np.sqrt(len(runs)))
    return row


def _table(rows: list[dict[str, Any]], caption: str) -> list[Part]:
    lines, notes = [], []
    for row in rows:
        if row["mean"] is None:
            notes.append(f"- {row['name']}: {row['note']}.")
        error = dash if row["standard_error"] is None else amount(row["standard_error"])
        name = (
            f"**{row['name']}**" if row["ours"] else f"{row['name']} ({row['version']})" if row["mean"] else row["name"]
        )
        numbers = [dash if row[k] is None else amount(row[k]) for k in ("mean", "microseconds")]
        lines.append([name, str(row["replications"]), numbers[0], error, numbers[1]])
    header = ["policy", "replications", "mean final regret", "standard error", "microseconds per round"]
    return [Table(header, lines, caption), *([Text("\n".join(notes))] if notes else [])]

"""Suite ``kinds``: what a round of Thompson sampling costs when it is told less, and when rewards are clicks or counts.

Players of all kinds take turns, slice by slice, in one process, so that whatever slows the machine slows all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorbandits as tb
from benchmarks.library.slices import NOISE, SIGNAL, Player, paper_tucker
from benchmarks.report import Findings, command, dash
from benchmarks.store import Options, Result, Settings, Store
from benchmarks.timing import median_interval
from tensorbandits.report.evidence import amount, decide
from tensorbandits.report.page import Part, Table, Text

NAME = "kinds"
ALONE = True
TITLE = "Kinds of rewards: time per round"

TOLD = "normal, told rank 2"
KINDS: dict[str, dict[str, Any]] = {
    TOLD: {"rank": 2},
    "normal, told nothing": {},
    "clicks, told rank 2": {"rank": 2, "reward": "bernoulli"},
    "clicks, told nothing": {"reward": "bernoulli"},
    "counts, told rank 2": {"rank": 2, "reward": "count"},
    "counts, told nothing": {"reward": "count"},
}
# Which round may cost at most how many times which other one.
MOST = (
    ("normal, told nothing", TOLD, 4.0),
    ("clicks, told rank 2", TOLD, 3.0),
    ("clicks, told nothing", "clicks, told rank 2", 4.0),
    ("counts, told rank 2", TOLD, None),
    ("counts, told nothing", "counts, told rank 2", 4.0),
)
SIZE, HUGE = 20, 1_000
DISTINCT = 500  # cells of which all are told, where these are the same
CENTRE = -2.0  # log-odds of the mean click rate, and the logarithm of the mean count


class Rewards(tb.TensorEnvironment):
    """A tensor of values with rewards of a kind: clicks whose log-odds are the tensor about a centre, and the like.

    Of counts it holds the logarithms of means, of revenue the log-odds that there is an amount, of normal ones means.
    """

    def __init__(
        self,
        mean: tb.Tucker | np.ndarray,
        reward: str,
        context: tuple[int, ...] = (),
        centre: float = CENTRE,
    ) -> None:
        super().__init__(mean, noise=NOISE, context=context, seed=0)
        self.reward, self.centre = reward, centre

    def pull(self, cell: Any) -> float:
        """Draw the reward of a cell."""
        if self.reward == "gaussian":
            return super().pull(cell)
        level = float(np.exp(self.centre + self.mean_at(cell)))
        if self.reward == "count":
            return float(self._reward_rng.poisson(level))
        came = bool(self._reward_rng.random() < level / (1.0 + level))
        return float(np.exp(self._reward_rng.standard_normal())) if came and self.reward == "revenue" else float(came)


class Elsewhere:
    """A policy that is told the rewards of other cells than it asks for, so that all know as much."""

    def __init__(self, policy: Any, cells: np.ndarray) -> None:
        self.policy, self._cells, self._rng = policy, [tuple(cell) for cell in cells.tolist()], np.random.default_rng(2)

    def ask(self, levels: Any) -> Any:
        """Have the policy decide, and return a cell of the list."""
        self.policy.ask(levels)
        return self._cells[int(self._rng.integers(len(self._cells)))]

    def tell(self, cell: Any, reward: float) -> None:
        """Pass the reward on."""
        self.policy.tell(cell, reward)


def player(p: int, arguments: dict[str, Any]) -> Player:
    """A policy of some arguments, with rewards that it can have."""
    one = Player({"class": "TensorThompsonSampling", "p": p, "paper": False, "arguments": arguments})
    one.env = Rewards(paper_tucker(p, SIGNAL, 3, 2, seed=0), arguments.get("reward", "gaussian"))
    return one


def plan(options: Options) -> list[Settings]:
    slices, rounds = (10, 20) if options.quick else (100, 50)
    usual = {"p": SIZE, "kinds": list(KINDS), "slices": slices, "rounds": rounds}
    huge = {"p": HUGE, "kinds": [TOLD, "clicks, told rank 2"], "slices": slices, "rounds": 10, "same": False}
    return [usual | {"same": True}, usual | {"same": False}, huge]


def label(settings: Settings) -> str:
    cells = "the same cells" if settings["same"] else "cells that they choose"
    return f"{len(settings['kinds'])} kinds in turns, {cells}, p = {settings['p']:,}"


def measure(settings: Settings) -> Result:
    """Let all players play in turns; return the microseconds per round of each of their slices.

    With the same cells, whatever they choose they are told rewards of cells that are drawn for all of them.
    """
    for name in settings["kinds"]:
        player(6, KINDS[name]).play(400)  # has everything compiled
    players = {name: player(settings["p"], KINDS[name]) for name in settings["kinds"]}
    if settings["same"]:
        drawn = np.random.default_rng(1).integers(settings["p"], size=(DISTINCT, 3))
        for one in players.values():
            one.policy = Elsewhere(one.policy, drawn)  # type: ignore[assignment]
    times: Result = {name: [] for name in players}
    for _ in range(settings["slices"]):
        for name, one in players.items():
            times[name].append(1e6 * one.play(settings["rounds"]) / settings["rounds"])
    return times


def section(store: Store, options: Options) -> Findings:
    parts: list[Part] = [
        Text(
            "A round (`ask` and `tell`, microseconds of processor time) of Thompson sampling on the paper's tensor of "
            f"w = {SIGNAL:g}, rank 2: with normal rewards, with clicks whose log-odds are the tensor about {CENTRE:g}, "
            "and with counts whose logarithms are. Ratios are medians over slices that were played in turns, with "
            "their 95 % intervals, by which a verdict goes. A sweep costs what the distinct cells cost, and clicks say "
            f"so little that far more cells are tried: so all are first told of the same {DISTINCT:,} cells, whatever "
            "they choose, by which what is required is judged, and then play by themselves."
        ),
        command(NAME, *options.flags),
    ]
    data: dict[str, Any] = {}
    for settings in plan(options):
        if (result := store.get(settings)) is None:
            continue
        judged = [
            (name, over, most if settings["same"] or settings["p"] == HUGE else None) for name, over, most in MOST
        ]
        lines = [line for pair in judged if (line := compared(result, *pair)) is not None]
        data[label(settings)] = lines
        parts.append(table(settings, result, lines))
    return parts, data


def compared(times: Result, name: str, over: str, most: float | None) -> dict[str, Any] | None:
    """One kind over another, slice by slice, if both were played."""
    if name not in times or over not in times:
        return None
    ratios = np.array(times[name]) / np.array(times[over])
    interval = median_interval(ratios)
    line = {"kind": name, "over": over, "ratio": float(np.median(ratios)), "interval": list(interval), "most": most}
    return line | {"verdict": decide([interval], most) if most else "reported"}


def table(settings: Settings, times: Result, lines: list[dict[str, Any]]) -> Table:
    """What a round of each kind takes, and how many rounds of another that is."""
    found = {line["kind"]: line for line in lines}
    rows = []
    for name in settings["kinds"]:
        row = [name, amount(float(np.median(times[name])))]
        if (line := found.get(name)) is None:
            rows.append([*row, dash, dash, dash, dash, dash])
            continue
        required = f"at most {line['most']:g}" if line["most"] else dash
        low, high = line["interval"]
        rows.append([*row, line["over"], f"{line['ratio']:.2f}", f"{low:.2f} to {high:.2f}", required, line["verdict"]])
    header = ["rewards", "microseconds", "over", "ratio", "95 % interval", "required", "verdict"]
    played = settings["slices"] * settings["rounds"]
    cells = "told of the same cells" if settings["same"] else "told of what they choose"
    return Table(header, rows, f"A round of {settings['p']:,}^3 cells, {cells}, over the first {played:,} rounds")

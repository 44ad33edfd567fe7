"""Suite ``application``: what names, ids and known chances cost beside the policy, and what open decisions take."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

import numpy as np

import tensorbandits as tb
from benchmarks.report import Findings, command
from benchmarks.run import peak_megabytes
from benchmarks.store import Options, Result, Settings, Store
from tensorbandits.report import Part, Table, Text

NAME = MODULE = "application"
MEASURED = "tensorbandits.bandit"
ALONE = True
TITLE = "A bandit beside its policy: time of a decision, memory of open ones"

P, MOST = 20, 1.5
CASES = {
    "normal rewards, rank 2": {"rank": 2},
    "normal rewards, told nothing": {},
    "clicks, rank 2": {"rank": 2, "reward": "bernoulli"},
    "clicks, told nothing": {"reward": "bernoulli"},
}


def plan(options: Options) -> list[Settings]:
    """Each kind of policy, and open decisions."""
    slices, rounds, count = (3, 20, 1_000) if options.quick else (20, 100, 1_000_000)
    timed = [{"case": case, "slices": slices, "rounds": rounds} for case in CASES]
    return [*timed, {"case": "open decisions", "count": count}]


def label(settings: Settings) -> str:
    """A measurement in words."""
    return str(settings["case"])


def measure(settings: Settings) -> Result:
    """Time rounds of a bandit and of its policy in turns, or hold open decisions."""
    if settings["case"] == "open decisions":
        return _open(settings["count"])
    policy, bandit = _players(CASES[settings["case"]])
    for play in (policy, bandit):
        play(300)
    times = [(policy(settings["rounds"]), bandit(settings["rounds"])) for _ in range(settings["slices"])]
    return {"policy": [one for one, _ in times], "bandit": [other for _, other in times]}


def _players(arguments: Settings) -> tuple[Callable[[int], float], Callable[[int], float]]:
    """Return two functions of a number of rounds that play these and return the processor time of one, in seconds."""
    rng = np.random.default_rng(0)
    levels = [str(level) for level in range(P)]
    space = tb.Space({"a": levels, "b": levels, "c": levels}, context=["a"])
    policy = tb.TensorThompsonSampling(space.shape, context=space.context, seed=0, **arguments)
    bandit = tb.Bandit(space, seed=0, window=1_000, default=0, **arguments)

    def bare(rounds: int) -> float:
        start = process_time()
        for _ in range(rounds):
            cell = policy.ask((int(rng.integers(P)),))
            policy.tell(cell, float(rng.random() < 0.1))
        return (process_time() - start) / rounds

    def whole(rounds: int) -> float:
        start = process_time()
        for _ in range(rounds):
            decision = bandit.ask(a=levels[int(rng.integers(P))])
            bandit.tell(decision.id, float(rng.random() < 0.1))
        return (process_time() - start) / rounds

    return bare, whole


def _open(count: int) -> Result:
    """Return how many million bytes the process held before and with so many decisions that wait."""
    space = tb.Space({"a": range(100), "b": range(100)}, context=["a"])
    bandit = tb.Bandit(space, "ucb", capacity=count, seed=0)
    bandit.ask(a=0)
    before = peak_megabytes()
    for k in range(count - 1):
        bandit.ask(a=k % 100)
    return {"count": bandit.waiting, "before": before, "with": peak_megabytes()}


def section(store: Store, options: Options) -> Findings:
    """Report the ratios and the bytes of an open decision."""
    found = {settings["case"]: store.get(settings) for settings in plan(options)}
    held = found.pop("open decisions")
    rows = [_row(case, result) for case, result in found.items() if result is not None]
    parts: list[Part] = [
        Text(
            f"A round, ask and tell, of a bandit over {P} x {P} x {P} labels, one mode given, and of its policy alone, "
            f"in alternating slices of one process: median processor time of a slice. At most {MOST} is wanted."
        ),
        command(NAME, *options.flags),
        Table(["policy", "alone, microseconds", "in a bandit", "ratio"], rows),
    ]
    if held is not None:
        each = (held["with"] - held["before"]) * 1e6 / held["count"]
        parts.append(
            Text(f"{held['count']:,} open decisions take {each:,.0f} bytes each, {held['with']:,.0f} MB in all.")
        )
    return parts, {"rounds": found, "open": held}


def _row(case: str, result: Result) -> list[str]:
    alone, whole = (float(np.median(result[name])) * 1e6 for name in ("policy", "bandit"))
    return [case, f"{alone:,.0f}", f"{whole:,.0f}", f"{whole / alone:.2f}"]

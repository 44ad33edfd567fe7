"""Suite ``cost``: whether a reward costs what the library says that it does, and the constants of what it says.

Some problems are there to find the constants. Of the others, on which no constant is found, some were looked at while
it was chosen what is counted, and some were measured only after that: these say most of problems that nobody tried.
Times are those of the processor inside ``ask`` and ``tell``. The constants that are found here are printed, to be
pasted into ``tensorbandits/policies/cost.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

import tensorbandits as tb
from benchmarks.library.kinds import Rewards
from benchmarks.library.slices import SIGNAL, Player
from benchmarks.paper.worlds import Layouts
from benchmarks.report import Findings, command
from benchmarks.store import Options, Result, Settings, Store
from tensorbandits.policies.cost import MICROSECONDS, RATE, Workload, microseconds, terms_of
from tensorbandits.policies.registry import find
from tensorbandits.report.evidence import amount
from tensorbandits.report.page import Code, Part, Table, Text

NAME = "cost"
ALONE = True
TITLE = "What a reward costs, beside what is predicted"

_PAGE = (4, 3, 4, 2, 6, 3, 5, 2, 3, 2, 2, 3)
FACTOR = 2.0  # within which predictions should be
Found = list[tuple[Settings, Result]]


def case(policy: str, shape: tuple[int, ...], rounds: int, **more: Any) -> Settings:
    """Return a problem: the policy, its arguments, and until which round it is played."""
    return {"policy": policy, "shape": list(shape), "rounds": rounds, "arguments": more}


CALIBRATION = [
    case("thompson", (15,) * 3, 10_000, rank=2),
    case("thompson", (15,) * 3, 100_000, rank=2),
    case("thompson", (8, 12, 6), 50_000, reward="bernoulli"),
    case("thompson", (20,) * 3, 10_000),
    case("thompson", (100,) * 3, 3_000, rank=2),
    case("thompson", (1_000,) * 3, 1_000, rank=2),
    case("thompson", (15,) * 3, 3_000, rank=4),
    case("thompson", (6,) * 4, 5_000, rank=2),
    case("thompson", (15,) * 3, 5_000, structure="affine", rank=2),
    case("thompson", (80,) * 3, 2_000, rank=3),
    case("thompson", (20, 30), 10_000),
    case("thompson", (10, 6, 60, 5), 5_000, reward="bernoulli", context=[0, 1]),
    case("thompson", (8, 12, 6), 10_000, reward="bernoulli"),
    case("thompson", (12, 40, 8), 5_000, rank=2, reward="bernoulli", context=[0]),
    case("thompson", (12, 7, 300), 3_000, reward="count", context=[0, 1]),
    case("thompson", (10, 10, 10), 5_000, reward="count"),
    case("thompson", _PAGE[:5], 10_000, reward="bernoulli"),
    case("thompson", _PAGE[:8], 5_000, reward="bernoulli"),
    case("thompson", _PAGE[:8], 20_000),
    case("thompson", _PAGE, 2_000, reward="bernoulli"),
    case("thompson", (20, 4, 3, 30, 4), 3_000, reward="bernoulli", context=[0]),
    case("thompson", (4,) * 10, 3_000),
    case("thompson", (5,) * 5, 3_000),
    case("thompson", (5, 8, 10), 5_000, rank=2, reward="count"),
    case("thompson", (20, 7, 20), 5_000, rank=2, context=[0, 1]),
    case("thompson", (10, 60, 5), 5_000, reward="revenue", context=[0]),
    case("ucb", (10,) * 3, 5_000),
    case("ucb", (60,) * 3, 2_000),
    case("ucb", (20, 7, 20), 5_000, context=[0, 1]),
    case("ensemble", (15,) * 3, 3_000, rank=2),
    case("ensemble", (20,) * 3, 2_000),
    case("ensemble", (100,) * 3, 1_000, rank=2),
    case("ensemble", (12, 40, 8), 2_000, rank=2, reward="bernoulli", context=[0]),
    case("ensemble", (8, 12, 6), 2_000, reward="bernoulli"),
    case("epoch-greedy", (10,) * 3, 10_000, rank=2),
    case("epoch-greedy", (50,) * 3, 10_000, rank=2),
    case("epoch-greedy", (15,) * 3, 10_000, rank=4),
    case("epoch-greedy", (12, 40, 8), 10_000, rank=2, context=[0]),
    case("elimination", (8,) * 3, 10_000, rank=2),
    case("elimination", (15,) * 3, 10_000, rank=2),
    case("elimination", (20,) * 3, 10_000, rank=2),
]
SEEN = [  # while it was chosen what is counted
    case("thompson", (25,) * 3, 10_000, rank=2),
    case("thompson", (12,) * 3, 20_000),
    case("thompson", (20, 7, 20), 10_000, context=[0, 1]),
    case("thompson", (24, 15, 9), 10_000, context=[0]),
    case("thompson", (200,) * 3, 2_000, rank=3),
    case("thompson", (80, 24, 7), 10_000, reward="bernoulli", context=[1, 2]),
    case("thompson", (7, 5, 12, 9), 5_000, rank=2, reward="count"),
    case("thompson", (6, 5, 3, 4, 3, 2, 2), 10_000),
    case("thompson", (12, 3, 4, 25, 5, 3), 5_000, reward="bernoulli", context=[0, 1, 2]),
    case("thompson", (8, 30, 6), 10_000, reward="revenue", context=[0]),
    case("ucb", (30,) * 3, 10_000),
    case("ensemble", (25,) * 3, 2_000, rank=2),
    case("ensemble", (12, 20, 9), 2_000, reward="bernoulli"),
    case("epoch-greedy", (30,) * 3, 10_000, rank=2),
    case("elimination", (12,) * 3, 10_000, rank=2),
]
UNSEEN = [
    case("thompson", (40, 25, 10), 10_000),
    case("thompson", (9, 14, 6, 5), 10_000, context=[1]),
    case("thompson", (60, 60), 20_000, rank=3),
    case("thompson", (300, 40, 12), 5_000, rank=2, reward="bernoulli"),
    case("thompson", (5, 30, 7), 20_000, reward="bernoulli", context=[2]),
    case("thompson", (16, 9, 11), 5_000, reward="count", context=[0]),
    case("thompson", (6, 4, 5, 3, 4), 10_000, context=[1]),
    case("thompson", (3, 4, 2, 5, 3, 3, 2, 2, 4), 3_000, reward="bernoulli"),
    case("thompson", (6, 20, 4, 3), 5_000, reward="revenue", context=[0]),
    case("ensemble", (18, 30, 7), 4_000, rank=2, context=[0]),
    case("ensemble", (9, 11, 10), 3_000, reward="count"),
    case("epoch-greedy", (25, 12, 18), 20_000, rank=3),
    case("elimination", (10, 14, 17), 20_000, rank=2),
    case("ucb", (45, 30, 20), 30_000, context=[2]),
    case("ensemble", (12, 40, 8), 10_000, reward="bernoulli", context=[0]),
    case("thompson", (12, 40, 8), 50_000, reward="bernoulli", context=[0]),
]
CHECKS = SEEN + UNSEEN
QUICK_ROUNDS = 200


def plan(options: Options) -> list[Settings]:
    if options.quick:
        return [one | {"rounds": QUICK_ROUNDS} for one in CALIBRATION + CHECKS if one["policy"] == "ucb"]
    return [*CALIBRATION, *CHECKS]


def label(settings: Settings) -> str:
    return f"{settings['policy']}, {problem(settings)}, {settings['rounds']:,} rounds"


def problem(settings: Settings) -> str:
    """Return a problem in words.

    >>> problem(case("thompson", (5, 4), 100, rank=2, context=[0]))
    '5 x 4, rank=2, context=[0]'
    """
    told = [f"{name}={value}" for name, value in settings["arguments"].items()]
    return ", ".join([" x ".join(map(str, settings["shape"])), *told])


def workload(settings: Settings) -> Workload:
    """Return the problem as the library's model is told it."""
    arguments = settings["arguments"] | {"context": tuple(settings["arguments"].get("context", ()))}
    return Workload(tuple(settings["shape"]), settings["rounds"], **arguments)


def measure(settings: Settings) -> Result:
    """Play; return the microseconds that a reward took on average, and how many cells were played."""
    _player(settings | {"shape": [min(6, size) for size in settings["shape"]]}).play(QUICK_ROUNDS)  # compiles
    player = _player(settings)
    seconds = player.play(settings["rounds"])
    return {"microseconds": 1e6 * seconds / settings["rounds"], "cells": len(player.policy.ledger)}


def _player(settings: Settings) -> Player:
    """Return a policy in a world that is as the structures suppose."""
    shape, arguments = tuple(settings["shape"]), settings["arguments"]
    context, reward = tuple(arguments.get("context", ())), arguments.get("reward", "gaussian")
    player = object.__new__(Player)
    player.policy = find(settings["policy"]).make(shape, horizon=settings["rounds"], seed=0, **arguments)
    player.env = Rewards(
        _values(shape), reward, context, float(np.log(RATE / (1 - RATE))) if reward != "count" else 1.0
    )
    return player


def _values(shape: tuple[int, ...]) -> tb.Tucker | np.ndarray:
    """Return a tensor as the paper's is, and for many modes main effects and pairs."""
    if len(shape) > 4:
        rates = np.asarray(Layouts(shape)(0).mean)
        return np.log(20 * rates)
    rng = np.random.default_rng(0)
    rank = min(2, *shape)
    factors = tuple(np.linalg.qr(rng.standard_normal((size, rank)))[0] for size in shape)
    core = np.zeros((rank,) * len(shape))
    core[(np.arange(rank),) * len(shape)] = SIGNAL * np.sqrt(np.prod(np.array(shape, dtype=float)))
    return tb.Tucker(core, factors)


def calibrated(found: Found) -> dict[str, dict[str, float]]:
    """Return the microseconds of each term of each policy, so that predictions are off by the smallest shares."""
    from scipy.optimize import nnls

    constants = {}
    for policy in dict.fromkeys(settings["policy"] for settings, _ in found):
        mine = [one for one in found if one[0]["policy"] == policy]
        counted = [terms_of(policy, workload(settings)) or {} for settings, _ in mine]
        names = list(dict.fromkeys(name for terms in counted for name in terms))
        table = np.array([[terms.get(name, 0.0) for name in names] for terms in counted])
        times = np.array([result["microseconds"] for _, result in mine])
        each, _ = nnls(table / times[:, None], np.ones(len(times)))
        constants[policy] = {name: float(f"{value:.3g}") for name, value in zip(names, each, strict=True) if value > 0}
    return constants


def to_paste(constants: Mapping[str, Mapping[str, float]]) -> str:
    """Return the constants as lines of Python."""
    lines = ["MICROSECONDS: dict[str, dict[str, float]] = {"]
    for policy, each in constants.items():
        lines += [f'    "{policy}": {{', *(f'        "{name}": {value!r},' for name, value in each.items()), "    },"]
    return "\n".join([*lines, "}"])


def rows(found: Found, constants: Mapping[str, Mapping[str, float]]) -> tuple[list[list[str]], list[float]]:
    """Return the lines of a table of what was measured and predicted, and their ratios."""
    lines, ratios = [], []
    for settings, result in found:
        predicted = microseconds(settings["policy"], workload(settings), constants)
        assert predicted is not None
        ratios.append(predicted / result["microseconds"])
        numbers = [amount(result["microseconds"]), amount(predicted), f"{ratios[-1]:.2f}"]
        lines.append([settings["policy"], problem(settings), f"{settings['rounds']:,}", *numbers])
    return lines, ratios


def within(ratios: Iterable[float]) -> str:
    """Say how many predictions are within the factor.

    >>> within([0.4, 0.6, 1.9])
    '2 of 3 within a factor of 2, the farthest off by 2.5'
    """
    off = [max(ratio, 1.0 / ratio) for ratio in ratios]
    good = sum(one <= FACTOR for one in off)
    return f"{good} of {len(off)} within a factor of {FACTOR:g}, the farthest off by {max(off):.1f}"


def _group(settings: Settings) -> str:
    """Return what a problem is there for, whatever its rounds."""
    what = {name: value for name, value in settings.items() if name != "rounds"}
    for name, some in (("unseen", UNSEEN), ("seen", SEEN)):
        if any(what.items() <= one.items() for one in some):
            return name
    return "calibration"


def section(store: Store, options: Options) -> Findings:
    found = [(settings, result) for settings in plan(options) if (result := store.get(settings)) is not None]
    groups: dict[str, Found] = {"unseen": [], "seen": [], "calibration": []}
    for settings, result in found:
        groups[_group(settings)].append((settings, result))
    constants, data = calibrated(groups["calibration"]), {}
    header = ["policy", "problem", "rounds", "measured", "predicted", "ratio"]
    parts: list[Part] = [
        Text(
            "Microseconds of the processor that a reward costs, from `ask` to `tell`, on average over all rounds, and "
            "what `tb.recommend` and studies say of it. Clicks and conversions come at 5 % or so."
        ),
        command(NAME, *options.flags),
    ]
    for name, used, some in (
        ("never seen before, with the library's constants", MICROSECONDS, groups["unseen"]),
        ("never seen before, with the constants that are found here", constants, groups["unseen"]),
        ("seen while it was chosen what is counted, with the constants that are found here", constants, groups["seen"]),
        ("problems on which constants are found here, with these", constants, groups["calibration"]),
    ):
        some = [one for one in some if one[0]["policy"] in used]
        if some:
            lines, ratios = rows(some, used)
            parts += [Table(header, lines, name), Text(f"{within(ratios).capitalize()}.")]
            data[name] = lines
    parts += [Text("The constants that are found here, in microseconds:"), Code(to_paste(constants), "python")]
    return parts, data | {"constants": constants}

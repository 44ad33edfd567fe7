"""Suite ``revenue``: what telling that rewards are mostly 0 and else an amount is worth, beside telling other kinds."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorbandits as tb
from benchmarks.paper.worlds import Revenue
from benchmarks.report import Findings, command
from benchmarks.store import Options, Result, Settings, Store
from tensorbandits.report.page import Part, Table, Text

NAME = "revenue"
ALONE = False
TITLE = "Revenue: mostly nothing, else an amount"

ROUNDS, REPLICATIONS = 20_000, 3
WORLDS = {"amounts differ": 0.5, "amounts alike": 0.0}  # standard deviation of log-amounts over cells
PLAYERS: dict[str, dict[str, Any]] = {
    "revenue": {"reward": "revenue"},
    "normal": {"reward": "gaussian"},
    "clicks alone": {"reward": "bernoulli"},  # told whether there was an amount, not how large
}


def plan(options: Options) -> list[Settings]:
    seeds = range(options.fresh_seed, options.fresh_seed + (2 if options.quick else REPLICATIONS))
    rounds = 500 if options.quick else ROUNDS
    return [
        {"world": world, "player": player, "seed": seed, "rounds": rounds}
        for seed in seeds
        for world in WORLDS
        for player in PLAYERS
    ]


def label(settings: Settings) -> str:
    return f"{settings['world']}, told {settings['player']}, seed {settings['seed']}"


def measure(settings: Settings) -> Result:
    """Play a world; return the regret, and what the last tenth earned of what was possible, by mean rewards."""
    env = Revenue(WORLDS[settings["world"]])(settings["seed"])
    policy = tb.TensorThompsonSampling(env.shape, context=(0,), seed=settings["seed"], **PLAYERS[settings["player"]])
    earned, possible = np.zeros((2, settings["rounds"]))
    for t in range(settings["rounds"]):
        levels = env.context()
        cell = policy.ask(levels)
        reward = env.pull(cell)
        policy.tell(cell, float(reward > 0.0) if policy.reward == "bernoulli" else reward)
        earned[t], possible[t] = env.mean_at(cell), env.best_mean(levels)
    last = slice(-settings["rounds"] // 10, None)
    return {
        "regret": float((possible - earned).sum()),
        "share": float(earned.sum() / possible.sum()),
        "late": float(earned[last].sum() / possible[last].sum()),
        "uniform": float(env.mean.mean() * len(earned) / possible.sum()),  # type: ignore[union-attr]
    }


def section(store: Store, options: Options) -> Findings:
    rows = []
    for world in WORLDS:
        found = {
            player: [
                result
                for settings in plan(options)
                if (settings["world"], settings["player"]) == (world, player)
                and (result := store.get(settings)) is not None
            ]
            for player in PLAYERS
        }
        for player, results in found.items():
            if results:
                rows.append(row(world, player, results, found["normal"]))
    header = ["world", "told", "worlds", "regret", "worst", "over normal", "earned", "in the last tenth", "at random"]
    shape = Revenue().shape
    parts: list[Part] = [
        Text(
            f"Thompson sampling, told nothing but the kind of reward, plays {plan(options)[0]['rounds']:,} visitors of "
            f"{shape[0]} segments with {shape[1]} offers x {shape[2]} prices. 1 to 6 % buy; an amount is log-normal, "
            "with a standard deviation of 0.8 of its logarithm, and either differs from cell to cell or not. Regrets "
            "and what is earned are by mean rewards, shares are of what the best cells would have earned."
        ),
        command(NAME, *options.flags),
        Table(header, rows),
    ]
    return parts, {"rows": rows}


def row(world: str, player: str, results: list[Result], normal: list[Result]) -> list[str]:
    """One player of one world, over its worlds."""
    regrets = [result["regret"] for result in results]
    over = "–" if len(normal) != len(results) else f"{np.sum(regrets) / np.sum([one['regret'] for one in normal]):.2f}"
    shares = [f"{np.mean([result[name] for result in results]):.1%}" for name in ("share", "late", "uniform")]
    return [world, player, str(len(results)), f"{np.mean(regrets):,.0f}", f"{max(regrets):,.0f}", over, *shares]

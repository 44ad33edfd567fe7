"""Suite ``stuck``: why some runs stay at a wrong cell, in the paper's worlds with the true rank told.

Either the sampler does not get to where its posterior is, which a better one would mend; or the rewards so far speak
for that cell, and then whoever believes them stays. So in every run the posterior (temperature 1) is drawn from, once
from where the policy is and once from the true tensor: they agree if the sampler gets about. And the probability that
the cell which is played is the best one, averaged over runs, is the share of runs where it is, if the posterior is
worth its name.
"""

from __future__ import annotations

import copy
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tensorbandits as tb
from benchmarks.report import Findings, command
from benchmarks.store import Options, Result, Settings, Store, read_lines
from tensorbandits.base.checks import Cell
from tensorbandits.model.sweep import Model
from tensorbandits.report.evidence import amount
from tensorbandits.report.page import Part, Table, Text
from tensorbandits.sim.recipes import PaperWorld
from tensorbandits.tensor.tucker import unfold

NAME = "stuck"
ALONE = False
TITLE = "Stuck: runs that stay at a wrong cell"

WORLDS = ((15, 0.5), (15, 0.8), (20, 0.5), (20, 0.8))
TEMPERATURES = (0.5, 1.0)  # the default, and the posterior itself
PAST = 6_000  # seeds, from the first fresh one on, of worlds that were looked at
REPLICATIONS, ROUNDS, LOOK, LATELY = 60, 10_000, 1_500, 300
DRAWS, APART = 1_000, 3  # of the posterior, and draws from one that is looked at to the next
LOST = 3.0  # times the median regret
TOGETHER = 30  # runs of which the worst is looked at
REFERENCE = Path(__file__).parent / "reference" / "stuck.jsonl"  # of Thompson sampling before it chose structures
STARTS = ("policy", "truth")


def plan(options: Options) -> list[Settings]:
    first = options.fresh_seed + (0 if options.quick else PAST)
    small = {"rounds": 400, "look": 300, "draws": 50} if options.quick else {}
    lengths = {"rounds": ROUNDS, "look": LOOK, "draws": DRAWS} | small
    return [
        {"p": p, "signal": signal, "exploration": exploration, "seed": seed} | lengths
        for seed in range(first, first + (3 if options.quick else REPLICATIONS))
        for p, signal in WORLDS[: 1 if options.quick else None]
        for exploration in TEMPERATURES
    ]


def label(settings: Settings) -> str:
    return "p = {p}, w = {signal}, temperature {exploration:g}, seed {seed}".format_map(settings)


def measure(settings: Settings) -> Result:
    """Play, look at the posterior on the way, and return what it says of the cell that is played then."""
    world = PaperWorld(settings["p"], settings["signal"])
    environment = world(settings["seed"])
    policy = tb.TensorThompsonSampling(
        environment.shape, world.rank, exploration=settings["exploration"], seed=settings["seed"]
    )
    mean, regret, lately = np.asarray(environment.mean), 0.0, Counter[Cell]()
    result: Result = {}
    for t in range(settings["rounds"]):
        cell = policy.ask()
        policy.tell(cell, environment.pull(cell))
        regret += environment.regret(cell)
        if t >= settings["look"] - LATELY:
            lately[cell] += 1
        if t + 1 == settings["look"]:
            played = lately.most_common(1)[0][0]
            found = {start: _look(policy, played, mean, start, settings) for start in STARTS}
            result = {"short": environment.regret(played), "value": float(mean[played])} | found
    return result | {"regret": regret}


def _look(policy: tb.Policy, played: Cell, mean: NDArray[Any], start: str, settings: Settings) -> dict[str, float]:
    """Draw from the posterior given what a policy was told, starting from its own draw or from the true tensor."""
    oracle, rng = copy.deepcopy(policy.oracle), np.random.default_rng([settings["seed"], 11])
    oracle.detach()
    if start == "truth":
        oracle.samplers[0].chain.model = true_model(mean, policy.rank)
    best = np.unravel_index(mean.argmax(), mean.shape)
    ahead, values = 0, []
    for draw in range(-settings["draws"] // 5, settings["draws"]):  # the first fifth is not looked at
        for _ in range(APART):
            tensor = oracle(policy.ledger, rng)
        if draw >= 0:
            full = tensor.full()
            ahead += int(np.unravel_index(full.argmax(), full.shape) == played)
            values.append(full[best])
    return {"believed": ahead / len(values), "best": float(np.mean(values))}


def true_model(mean: NDArray[Any], rank: int) -> Model:
    """The true tensor, with columns of the size that the prior gives them.

    >>> mean = np.arange(6.0).reshape(2, 3)
    >>> bool(np.allclose(true_model(mean, 2).tensor().full(), mean))
    True
    """
    bases = [np.linalg.svd(unfold(mean, j), full_matrices=False)[0][:, :rank] for j in range(mean.ndim)]
    core = tb.Tucker(mean, tuple(U.T for U in bases)).full()
    grown = tuple(U * np.sqrt(len(U)) for U in bases)
    return Model.of(tb.Tucker(core / np.sqrt(mean.size), grown))


def section(store: Store, options: Options) -> Findings:
    found = [(settings, result) for settings in plan(options) if (result := store.get(settings)) is not None]
    look = plan(options)[0]["look"]
    before = {(line["p"], line["signal"], line["seed"]): line["regret"] for line in read_lines(REFERENCE)}
    rows, wrong = [], []
    for p, signal in WORLDS:
        for value in TEMPERATURES:
            keys = {"p": p, "signal": signal, "exploration": value}
            here = [(settings, result) for settings, result in found if keys.items() <= settings.items()]
            if here:
                median = float(np.median([result["regret"] for _, result in here]))
                known = [before.get((p, signal, settings["seed"])) for settings, _ in here]
                was = "" if None in known else amount(float(np.mean([regret for regret in known if regret])))
                rows.append([f"p = {p}, w = {signal:g}", f"{value:g}", *_row([result for _, result in here], was)])
                wrong += [_wrong(*one, median) for one in here if one[1]["regret"] > LOST * median]
    header = ["world", "temperature", "runs", "mean", "mean before", "median", f"worst of {TOGETHER} / median"]
    header += [f"above {LOST:g} medians", "right", "believed"]
    parts: list[Part] = [
        Text(
            "Thompson sampling in the paper's worlds, told the true rank: final regrets at the default temperature and "
            "at 1, the posterior itself, beside the mean in the same worlds before it chose structures and tempered "
            f"its chains, with the worst of each {TOGETHER} runs over their median. After {look:,} rounds the cell "
            "that is played most is looked at: in what share of the runs it is the best of all (*right*), and with "
            "what probability the posterior given the same rewards says so (*believed*, its mean over runs). If the "
            "two agree, the policy is as sure as it may be."
        ),
        command(NAME, *options.flags),
        Table(header, rows),
        Text(
            f"The runs above {LOST:g} medians, with what was believed after {look:,} rounds: the probability that the "
            "played cell is the best, and the value of the cell that is, by draws of the posterior which start from "
            "the policy's own and by draws which start from the true tensor. Where these agree the sampler gets "
            "about, and it is the rewards that speak for the wrong cell."
        ),
        Table(
            ["run", "regret", "plays", "best", "believed", "from the truth", "value of the best", "from the truth"],
            wrong,
        ),
    ]
    return parts, {"rows": rows, "wrong": wrong}


def _row(results: list[Result], before: str) -> list[str]:
    regrets = np.array([result["regret"] for result in results])
    right = np.mean([result["short"] <= 0.0 for result in results])
    believed = np.mean([result["policy"]["believed"] for result in results])
    parts = [regrets[start : start + TOGETHER] for start in range(0, len(regrets), TOGETHER)]
    worst = ", ".join(f"{part.max() / np.median(part):.1f}" for part in parts)
    figures = [amount(regrets.mean()), before, amount(np.median(regrets)), worst]
    lost = (regrets > LOST * np.median(regrets)).sum()
    return [str(len(results)), *figures, str(lost), f"{right:.2f}", f"{believed:.2f}"]


def _wrong(settings: Settings, result: Result, median: float) -> list[str]:
    plays = f"{result['value']:.1f}"
    beliefs = [f"{result[start]['believed']:.2f}" for start in STARTS]
    values = [f"{result[start]['best']:.1f}" for start in STARTS]
    times = f"{amount(result['regret'])} ({result['regret'] / median:.1f} medians)"
    return [label(settings), times, plays, f"{result['value'] + result['short']:.1f}", *beliefs, *values]

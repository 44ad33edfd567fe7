"""Suite ``evaluation``: on logs whose truth is known, do intervals of off-policy values hold it?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

import tensorbandits as tb
from benchmarks.report import Findings, command
from benchmarks.store import Options, Result, Settings, Store
from tensorbandits.report.page import Part, Table, Text

NAME = "evaluation"
MEASURED = "tensorbandits.evaluate"
ALONE = False
TITLE = "Evaluation from logs: do intervals hold the truth, and is the model worth it?"

LEVEL, LOGS, ROWS, SHAPE, RANK = 0.9, 200, 1_000, (4, 5, 4), 2
EXPLORING = 0.3  # the share of the log's decisions that are uniform, so that no weight is huge
MODES, CONTEXT = ("segment", "offer", "channel"), 0
WORLDS = {
    "low rank": "a tensor of rank 2, as the model believes",
    "no structure": "every cell a number of its own, so that the model is wrong",
    "clicks": "log-odds of rank 2 about 10 %",
}
METHODS = ("IPS", "SNIPS", "DR", "direct")
HELD = (0.85, 0.95)  # of the intervals by IPS, SNIPS and DR should hold the truth
GAIN, LOSS = 2.0, 1.2  # variance of IPS over that of DR where the model is right, and the other way where it is wrong


def plan(options: Options) -> list[Settings]:
    logs = range(options.fresh_seed, options.fresh_seed + (3 if options.quick else LOGS))
    return [{"world": world, "rows": ROWS, "seed": seed} for seed in logs for world in WORLDS]


def label(settings: Settings) -> str:
    return f"{settings['world']}, log {settings['seed']}"


def measure(settings: Settings) -> Result:
    """Simulate a log and evaluate a policy that is not the one that made it; return errors and whether bounds hold."""
    rng = np.random.default_rng([settings["seed"], list(WORLDS).index(settings["world"])])
    means = world(settings["world"], rng)
    logging, target = EXPLORING / np.prod(SHAPE[1:]) + (1.0 - EXPLORING) * law(rng), law(rng)
    log = simulated(means, logging, settings["rows"], rng, clicks=settings["world"] == "clicks")
    truth = float((means * target).sum() / SHAPE[CONTEXT])
    found = tb.evaluate(log, {"target": target}, context=[MODES[CONTEXT]], level=LEVEL, seed=settings["seed"])
    result: Result = {}
    for method in METHODS:
        one = found.of("target", method)
        result[method] = {"error": one.value - truth, "half": (one.high - one.low) / 2}
        result[method]["held"] = bool(one.low <= truth <= one.high)
    result["DR, true means"] = {"error": _best_possible(log, means, target) - truth}
    beside = found.difference("target")
    gain = truth - float((means * logging).sum() / SHAPE[CONTEXT])
    result["difference"] = {"error": beside.value - gain, "half": (beside.high - beside.low) / 2}
    result["difference"]["held"] = bool(beside.low <= gain <= beside.high)
    return result


def _best_possible(log: Any, means: np.ndarray, target: np.ndarray) -> float:
    """What DR says if its model is the truth itself, which no model can do better than."""
    cells, rewards, propensities = log.decisions()
    at, given = tuple(cells.T), (means * target).sum(axis=(1, 2))[cells[:, CONTEXT]]
    return float((given + target[at] / propensities * (rewards - means[at])).mean())


def world(kind: str, rng: np.random.Generator) -> np.ndarray:
    """Mean rewards of all cells."""
    if kind == "no structure":
        return 1.0 + rng.standard_normal(SHAPE)
    factors = tuple(rng.standard_normal((size, RANK)) for size in SHAPE)
    values = tb.Tucker(rng.standard_normal((RANK,) * len(SHAPE)), factors).full()
    values = (values - values.mean()) / values.std()
    return 1.0 + values if kind == "low rank" else 1.0 / (1.0 + np.exp(2.2 - 0.8 * values))


def law(rng: np.random.Generator) -> np.ndarray:
    """Probabilities of decisions in each context."""
    chances = np.exp(rng.standard_normal(SHAPE))
    return chances / chances.sum(axis=(1, 2), keepdims=True)


def simulated(means: np.ndarray, logging: np.ndarray, rows: int, rng: np.random.Generator, *, clicks: bool) -> Any:
    """A log of decisions by a law, contexts being as likely as each other, read as any log is."""
    context = rng.integers(SHAPE[CONTEXT], size=rows)
    ends = np.cumsum(logging.reshape(SHAPE[CONTEXT], -1), axis=1)
    arms = [min(int(np.searchsorted(ends[c], u)), ends.shape[1] - 1) for c, u in zip(context, rng.random(rows))]
    at = (context, *np.unravel_index(arms, SHAPE[1:]))
    reward = rng.random(rows) < means[at] if clicks else means[at] + rng.standard_normal(rows)
    columns = dict(zip(MODES, at)) | {"reward": reward.astype(float), "propensity": logging[at]}
    return tb.data.from_log(pa.table(columns), MODES, "reward", propensity="propensity")


def section(store: Store, options: Options) -> Findings:
    groups: dict[str, list[Result]] = {kind: [] for kind in WORLDS}
    for settings in plan(options):
        if (result := store.get(settings)) is not None:
            groups[settings["world"]].append(result)
    rows = [
        _row(kind, method, results)
        for kind, results in groups.items()
        if results
        for method in (*METHODS, "DR, true means", "difference")
    ]
    judged = [judged_row(kind, results) for kind, results in groups.items() if results]
    header = ["rewards", "method", "logs", "intervals that hold the truth", "half width", "variance of IPS / its own"]
    parts: list[Part] = [
        Text(
            f"Logs of {ROWS:,} decisions among {SHAPE[1]} x {SHAPE[2]} combinations in {SHAPE[0]} contexts, made by "
            f"one policy, {EXPLORING:.0%} of them uniform; another is evaluated, both random. How often the "
            f"{LEVEL:.0%} interval holds the true value per decision, its mean half width, and how many times the mean "
            "squared error of IPS is that of the method. DR with the true means as its model says how much any model "
            "could gain. The difference is that from the logged policy, by DR. "
            + "; ".join(f"{kind}: {words}" for kind, words in WORLDS.items())
            + "."
        ),
        command(NAME, *options.flags),
        Table(header, rows),
        Text(
            f"Wanted are intervals by IPS, SNIPS and DR that hold the truth in {HELD[0]:.0%} to {HELD[1]:.0%} of the "
            f"logs, and a variance of DR that is at most 1 / {GAIN:g} of that of IPS where the model is right, and at "
            f"most {LOSS:g} times as much where it is wrong."
        ),
        Table(["rewards", "least and most that hold", "verdict", "variance of IPS / DR", "wanted", "verdict"], judged),
    ]
    return parts, {"rows": [dict(zip(header, row)) for row in rows], "verdicts": judged}


def judged_row(kind: str, results: list[Result]) -> list[str]:
    """One line of verdicts."""
    held = [float(np.mean([result[method]["held"] for result in results])) for method in METHODS[:3]]
    ratio, least = _ratio(results, "DR"), 1.0 / LOSS if kind == "no structure" else GAIN
    verdicts = ["holds" if good else "does not hold here" for good in (_within(held), ratio >= least)]
    if (most := _ratio(results, "DR, true means")) < least:
        verdicts[1] += f"; no model could, {most:.2f} at most"
    return [
        kind,
        f"{min(held):.1%} and {max(held):.1%}",
        verdicts[0],
        f"{ratio:.2f}",
        f"at least {least:.2g}",
        verdicts[1],
    ]


def _within(shares: list[float]) -> bool:
    return HELD[0] <= min(shares) and max(shares) <= HELD[1]


def _ratio(results: list[Result], method: str) -> float:
    """How many times the mean squared error of IPS is that of a method."""
    squares = [np.mean([result[name]["error"] ** 2 for result in results]) for name in ("IPS", method)]
    return float(squares[0] / squares[1])


def _row(kind: str, method: str, results: list[Result]) -> list[str]:
    ratio = "–" if method == "difference" else f"{_ratio(results, method):.2f}"
    if "held" not in results[0][method]:
        return [kind, method, str(len(results)), "–", "–", ratio]
    held = np.mean([result[method]["held"] for result in results])
    half = np.mean([result[method]["half"] for result in results])
    return [kind, method, str(len(results)), f"{held:.1%}", f"{half:.3g}", ratio]

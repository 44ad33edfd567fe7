"""Suite ``calibration``: how often the 90 % intervals of cell means hold the means, for each kind of rewards."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorbandits as tb
from benchmarks.paper.worlds import Floats, main_effects, pair_effects, unit
from benchmarks.report import Findings, command
from benchmarks.store import Options, Result, Settings, Store
from tensorbandits.report.page import Part, Table, Text

NAME = "calibration"
ALONE = False
TITLE = "Calibration: do intervals hold what they say?"

SHAPE, RANK, LEVEL, REPLICATIONS = (10, 8, 6), 2, 0.9, 30
WITHIN = (0.85, 0.95)  # of cells whose mean is within its interval
PAGE = (4, 3, 4, 2, 6)  # the shape of worlds of pairs
# Of each kind: the mean and the spread of the tensor's values, asks, and trials that are told of each.
KINDS: dict[str, dict[str, Any]] = {
    "gaussian": {"reward": "gaussian", "centre": 1.0, "spread": 1.0, "asks": 2_000, "trials": 1},
    "clicks of 10 %": {"reward": "bernoulli", "centre": -2.2, "spread": 0.8, "asks": 5_000, "trials": 1},
    "clicks of 1 in 1,000": {"reward": "binomial", "centre": -6.9, "spread": 0.8, "asks": 480, "trials": 10_000},
    "counts, dispersion 2": {"reward": "count", "centre": 1.0, "spread": 0.8, "asks": 2_000, "trials": 1},
    "counts, dispersion 0.5": {"reward": "count", "centre": 1.0, "spread": 0.8, "asks": 2_000, "trials": 1},
    "counts of 100,000, dispersion 2": {"reward": "count", "centre": 11.5, "spread": 0.8, "asks": 2_000, "trials": 1},
    "pairs of 5 modes": {"reward": "gaussian", "centre": 1.0, "spread": 1.0, "asks": 1_000, "trials": 1},
    "pairs of 5 modes, clicks": {"reward": "bernoulli", "centre": -2.2, "spread": 0.8, "asks": 5_000, "trials": 1},
    "revenue": {"reward": "revenue", "centre": -2.2, "spread": 0.8, "asks": 3_000, "trials": 1},
}
AMOUNTS, NOISE_OF_AMOUNTS = (3.0, 0.5), 0.6  # of revenue: the mean and spread of logs of medians, and of single amounts
DISPERSION = {"counts, dispersion 2": 2.0, "counts, dispersion 0.5": 0.5, "counts of 100,000, dispersion 2": 2.0}
DATA = ("uniform", "bandit")


def plan(options: Options) -> list[Settings]:
    seeds = range(options.fresh_seed, options.fresh_seed + (2 if options.quick else REPLICATIONS))
    asks = 300 if options.quick else None
    return [
        {"kind": kind, "data": data, "seed": seed} | given | ({"asks": asks} if asks else {})
        for seed in seeds
        for kind, given in KINDS.items()
        for data in DATA
    ]


def label(settings: Settings) -> str:
    return f"{settings['kind']}, {settings['data']} data, seed {settings['seed']}"


def measure(settings: Settings) -> Result:
    """Play, or tell rewards of uniform cells; return how many means are within their intervals, and how wide those are.

    A world has the rank that the policy is told, and rows that are normal; its scale and its centre are not told.
    """
    rng = np.random.default_rng([settings["seed"], 7])
    values = _values(settings, settings["centre"], settings["spread"], rng)
    medians = np.exp(_values(settings, *AMOUNTS, rng)) if settings["reward"] == "revenue" else None
    told: dict[str, Any] = {"structure": "pairs"} if _is_pairs(settings) else {"rank": RANK}
    policy = tb.TensorThompsonSampling(values.shape, **told, reward=settings["reward"], seed=settings["seed"])
    for _ in range(settings["asks"]):
        cell = policy.ask() if settings["data"] == "bandit" else tuple(rng.integers(values.shape).tolist())
        _tell(policy, cell, values[cell], settings, rng, None if medians is None else float(medians[cell]))
    cells = np.argwhere(np.ones(values.shape))
    means = _means(policy, values, medians)[tuple(cells.T)]
    low, high = policy.interval(cells, LEVEL).T
    held = (low <= means) & (means <= high)
    counts = policy.ledger.dense()[0][tuple(cells.T)]
    most = counts >= np.sort(counts)[-20]
    return {
        "held": float(held.mean()),
        "held_of_most_played": float(held[most].mean()),
        "held_of_unplayed": float(held[counts == 0].mean()) if (counts == 0).any() else None,
        "width": float(np.median((high - low) / means.std())),
    }


def _is_pairs(settings: Settings) -> bool:
    return settings["kind"].startswith("pairs")


def _values(settings: Settings, centre: float, spread: float, rng: np.random.Generator) -> Floats:
    """The values of a world: a random tensor of the given rank, or main effects and pairs; centre, spread."""
    if _is_pairs(settings):
        tensor = 0.75 * unit(main_effects(PAGE, rng)) + 0.5 * unit(pair_effects(PAGE, None, rng))
    else:
        factors = tuple(rng.standard_normal((size, RANK)) for size in SHAPE)
        tensor = tb.Tucker(rng.standard_normal((RANK,) * len(SHAPE)), factors).full()
    return np.asarray(centre + spread * unit(tensor))


def _means(policy: tb.TensorThompsonSampling, values: Floats, medians: Floats | None) -> Floats:
    """The mean rewards of all cells."""
    if medians is None:
        return policy.oracle.likelihood.rewards(values)
    return np.asarray(medians * np.exp(NOISE_OF_AMOUNTS**2 / 2) / (1 + np.exp(-values)))


def _tell(
    policy: tb.Policy,
    cell: tuple[int, ...],
    value: float,
    settings: Settings,
    rng: np.random.Generator,
    median: float | None,
) -> None:
    if median is not None:
        bought = rng.random() < 1 / (1 + np.exp(-value))
        policy.tell(cell, median * float(np.exp(NOISE_OF_AMOUNTS * rng.standard_normal())) if bought else 0.0)
    elif settings["reward"] == "gaussian":
        policy.tell(cell, value + rng.standard_normal())
    elif settings["reward"] == "count":
        r = DISPERSION[settings["kind"]]
        policy.tell(cell, float(rng.negative_binomial(r, r / (r + np.exp(value)))))
    else:
        trials = settings["trials"]
        policy.tell(cell, int(rng.binomial(trials, 1 / (1 + np.exp(-value)))), trials=trials)


def section(store: Store, options: Options) -> Findings:
    groups: dict[tuple[str, str], list[Result]] = {(kind, data): [] for kind in KINDS for data in DATA}
    for settings in plan(options):
        if (result := store.get(settings)) is not None:
            groups[settings["kind"], settings["data"]].append(result)
    rows = [interval_row(kind, data, results) for (kind, data), results in groups.items() if results]
    header = [
        "rewards",
        "data",
        "worlds",
        "all cells",
        "worst world",
        "20 most played",
        "never played",
        "width",
        "verdict",
    ]
    parts: list[Part] = [
        Text(
            f"Thompson sampling, told rank {RANK}, on random tensors of {' x '.join(map(str, SHAPE))} cells of that "
            f"rank; pairs, told so, on {' x '.join(map(str, PAGE))} cells of main effects and interactions of pairs; "
            "of revenue there are two such tensors, of rates and of amounts. The share of cells whose mean is within "
            f"the {LEVEL:.0%} interval, after rewards of cells drawn uniformly and after rewards of the cells that "
            "the policy itself chose; and the median width of intervals, in units of the standard deviation of means "
            "over cells. A policy leaves a cell that looks worse than it is, and plays one that looks better until it "
            "knows: so after its own choices errors are not symmetric, and of cells that it hardly plays the intervals "
            "are the prior's. Required is that on average over worlds "
            f"{WITHIN[0]:.0%} to {WITHIN[1]:.0%} of all cells are within."
        ),
        command(NAME, *options.flags),
        Table(header, rows),
    ]
    return parts, {"groups": [[kind, data, results] for (kind, data), results in groups.items()]}


def interval_row(kind: str, data: str, results: list[Result]) -> list[str]:
    def mean(name: str) -> str:
        known = [result[name] for result in results if result[name] is not None]
        return f"{np.mean(known):.1%}" if known else "–"

    worst = min(result["held"] for result in results)
    shares = [mean("held"), f"{worst:.1%}", mean("held_of_most_played"), mean("held_of_unplayed")]
    width = f"{np.mean([result['width'] for result in results]):.2g}"
    within = WITHIN[0] <= np.mean([result["held"] for result in results]) <= WITHIN[1]
    return [kind, data, str(len(results)), *shares, width, "holds" if within else "does not hold here"]

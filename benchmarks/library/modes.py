"""Suite ``modes``: twenty modes of two levels at play, and the search for the best cell of many modes by itself.

Mean rewards, or the log-odds of clicks, are main effects and interactions of all pairs of modes. Thompson sampling is
told nothing but the kind of reward.
"""

from __future__ import annotations

import math
from time import process_time

import numpy as np

import tensorbandits as tb
from benchmarks.paper.worlds import Floats, Layouts, main_effects, pair_effects, unit
from benchmarks.report import Findings, command
from benchmarks.store import Options, Result, Settings, Store
from tensorbandits.report.evidence import amount
from tensorbandits.report.page import Part, Table, Text
from tensorbandits.tensor.pairs import Pairs, PairsLayout

NAME = "modes"
ALONE = False
TITLE = "Many modes: twenty of two levels, and how long the best cell is searched for"

SHAPE, ROUNDS, WINDOW, WORLDS = (2,) * 20, 20_000, 1_000, 10
MARKS = (0.1, 0.25, 0.5, 1.0)  # of the rounds, at which the share of the best is shown
MAIN, PAIRS, MOST_MILLISECONDS = 0.9, 0.8, 5.0
KINDS = ("gaussian", "bernoulli")
SEARCHED = {"2^20": (2,) * 20, "6^12": (6,) * 12, "30^6": (30,) * 6}
RULES, TENSORS = 30, 50


def plan(options: Options) -> list[Settings]:
    seeds = range(options.fresh_seed, options.fresh_seed + (1 if options.quick else min(WORLDS, options.replications)))
    modes, rounds, tensors = (8, 60, 2) if options.quick else (len(SHAPE), ROUNDS, TENSORS)
    played = [
        {"task": "play", "reward": kind, "seed": seed, "modes": modes, "rounds": rounds}
        for kind in KINDS
        for seed in seeds
    ]
    searched = [
        {"task": "search", "shape": name, "pairs": pairs, "rank": rank, "rules": rules, "tensors": tensors}
        | {"seed": options.fresh_seed}
        for name in SEARCHED
        for rank in (None, 2)
        for pairs in (PAIRS, 4.0 * PAIRS)
        for rules in (0, RULES)
    ]
    return [*searched[:2], *played] if options.quick else [*searched, *played]


def label(settings: Settings) -> str:
    if settings["task"] == "play":
        return f"{settings['modes']} modes, {settings['reward']}, world {settings['seed']}"
    words = f"the best of {settings['shape']}, {_rank(settings['rank'])}, pairs of {settings['pairs']:g}"
    return f"{words}, {settings['rules']} rules"


def _rank(rank: int | None) -> str:
    return "any tables" if rank is None else f"tables of rank {rank}"


def measure(settings: Settings) -> Result:
    """Play, or search."""
    return play(settings) if settings["task"] == "play" else search(settings)


def world(shape: tuple[int, ...], reward: str, seed: int) -> tb.TensorEnvironment:
    """Return an environment of main effects and pairs: normal rewards with noise 1, or clicks at about 5 %."""
    if reward == "bernoulli":
        return Layouts(shape, main=MAIN, pairs=PAIRS)(seed)
    rng = np.random.default_rng([seed, 9])
    mean = MAIN * unit(main_effects(shape, rng)) + PAIRS * unit(pair_effects(shape, None, rng))
    return tb.TensorEnvironment(mean, seed=seed)


def play(settings: Settings) -> Result:
    """Return the share of the best by round, and milliseconds of decisions, with what is learned before and without."""
    env = world((2,) * settings["modes"], settings["reward"], settings["seed"])
    policy = tb.TensorThompsonSampling(env.shape, reward=settings["reward"], seed=settings["seed"])
    mean, rounds = np.asarray(env.mean), settings["rounds"]
    share, asked, decided = np.zeros((3, rounds))
    best = float(mean.max())
    for t in range(rounds):
        start = process_time()
        policy.learn()
        learned = process_time()
        cell = policy.decide(policy.query()).cell
        end = process_time()
        asked[t], decided[t] = 1e3 * (end - start), 1e3 * (end - learned)
        share[t] = mean[cell] / best
        policy.tell(cell, env.pull(cell))
    window = min(WINDOW, rounds)
    sums = np.concatenate([[0.0], np.cumsum(share)])
    ends = [max(int(mark * rounds), window) for mark in MARKS]
    return {
        "share": [float(sums[end] - sums[end - window]) / window for end in ends],
        "found": bool(mean[policy.best()] == best),
        "believed": float(mean[policy.best()] / best),
        "asked": _times(asked[1:]),  # the first loads what is compiled
        "decided": _times(decided[1:]),
    }


def _times(values: Floats) -> list[float]:
    """The median, 99 of 100, and the longest."""
    return [float(np.quantile(values, q)) for q in (0.5, 0.99, 1.0)]


def tensor(shape: tuple[int, ...], pairs: float, rank: int | None, rng: np.random.Generator) -> Pairs:
    """Return a tensor with main effects, and with a complete or low-rank normal table for each pair of modes.

    ``MAIN`` and ``pairs`` are about the standard deviations over cells of all main effects and all tables together.
    """
    modes = len(shape)
    columns = tuple(p - 1 if rank is None else min(rank, p - 1) for p in shape)
    layout = PairsLayout(shape, columns)
    codes = np.concatenate(
        [
            layout.fixed_codes()[start:end] if whole else rng.standard_normal(end - start)
            for start, end, whole in zip(layout.codes[:-1], layout.codes[1:], layout.complete, strict=True)
        ]
    )
    each = pairs / math.sqrt(math.comb(modes, 2) * (1 if rank is None else rank**2))
    effects = MAIN / math.sqrt(modes) * rng.standard_normal(layout.levels)
    return Pairs(layout, effects, codes, each * rng.standard_normal(layout.entries))


def search(settings: Settings) -> Result:
    """Return milliseconds of the search for the best cell, and how often it was proved to be the best."""
    shape, rng = SEARCHED[settings["shape"]], np.random.default_rng([settings["seed"], 10])
    free, times, proved = np.full(len(shape), -1), [], 0
    for k in range(settings["tensors"] + 1):
        one = tensor(shape, settings["pairs"], settings["rank"], rng)
        allowed = _allowed(shape, settings["rules"], rng)
        start = process_time()
        found = one.search(free, allowed)
        if k:  # the first loads what is compiled
            times.append(1e3 * (process_time() - start))
            proved += found.bound <= found.value + 1e-9 * (1.0 + abs(found.value))
    return {"times": times, "proved": proved}


def _allowed(shape: tuple[int, ...], rules: int, rng: np.random.Generator) -> tb.Allowed | None:
    """Forbid so many pairs of levels, none of which the cell of first levels has, so that one is left."""
    forbidden: list[dict[int, int]] = []
    while len(forbidden) < rules:
        j, k = rng.choice(len(shape), 2, replace=False).tolist()
        pair = {j: int(rng.integers(shape[j])), k: int(rng.integers(shape[k]))}
        if any(pair.values()):
            forbidden.append(pair)
    return tb.Allowed.of(tb.Allowed(forbidden=forbidden), shape) if rules else None


def section(store: Store, options: Options) -> Findings:
    wanted = plan(options)
    found = [(settings, result) for settings in wanted if (result := store.get(settings)) is not None]
    played = [row for kind in KINDS if (row := _played(kind, found))]
    searched = [_searched(settings, result) for settings, result in found if settings["task"] == "search"]
    modes = next(settings["modes"] for settings in wanted if settings["task"] == "play")
    marks = [f"at {mark:.0%}" for mark in MARKS]
    parts: list[Part] = [
        Text(
            f"{modes} modes of two levels, {2**modes:,} cells, main effects and all pairs (standard deviations "
            f"{MAIN:g} and {PAIRS:g} over cells, of log-odds about 5 % for clicks, with noise 1 otherwise). The share "
            f"of the best cell's mean reward over the last {WINDOW:,} rounds, at parts of all rounds; the worlds in "
            "which the cell believed best after the last round is the best; and milliseconds of a decision, with "
            "learning from the last reward before it and without: median, 99 of 100, longest. At most "
            f"{MOST_MILLISECONDS:g} are wanted for the median with learning, and 99 of 100 without."
        ),
        command(NAME, *options.flags),
        Table(
            ["reward", "rounds", "worlds", *marks, "worst", "best found", "with learning", "decision alone", "verdict"],
            played,
        ),
        Text(
            "The search for the best cell of random tensors of main effects and pairs, exactly, with a number of rules "
            "that forbid pairs of levels; *pairs* is the standard deviation of all of them together, beside "
            f"{MAIN:g} of main effects."
        ),
        Table(["cells", "tables", "pairs", "rules", "median, ms", "longest, ms", "proved"], searched),
    ]
    return parts, {"played": played, "searched": searched}


def _played(kind: str, found: list[tuple[Settings, Result]]) -> list[str]:
    here = [(s, result) for s, result in found if s["task"] == "play" and s["reward"] == kind]
    if not here:
        return []
    results = [result for _, result in here]
    shares = np.array([result["share"] for result in results])
    asked, decided = (np.array([result[name] for result in results]) for name in ("asked", "decided"))
    fine = np.median(asked[:, 0]) <= MOST_MILLISECONDS and np.median(decided[:, 1]) <= MOST_MILLISECONDS
    times = [
        ", ".join(f"{value:.2f}" for value in (*np.median(t, axis=0)[:2], t[:, 2].max())) for t in (asked, decided)
    ]
    best = f"{sum(result['found'] for result in results)} of {len(results)}"
    row = [kind, f"{here[0][0]['rounds']:,}", str(len(results)), *(f"{share:.1%}" for share in shares.mean(axis=0))]
    return [*row, f"{shares[:, -1].min():.1%}", best, *times, "holds" if fine else "does not hold here"]


def _searched(settings: Settings, result: Result) -> list[str]:
    times = [amount(float(value)) for value in (np.median(result["times"]), max(result["times"]))]
    words = [settings["shape"], _rank(settings["rank"]), f"{settings['pairs']:g}", str(settings["rules"])]
    return [*words, *times, f"{result['proved']} of {len(result['times'])}"]

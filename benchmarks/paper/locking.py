"""Suite ``locking``: whether play that is colder than the posterior stays at a wrong cell, beside other temperatures.

In each world, for several streams of rewards: the regret of Thompson sampling as it comes, which is cold and guarded,
and at temperatures 0.5 and 1; above all of the worst run, and what is lost in the last third of the rounds, as a share
of what cells at random lose. Where that is much, the posterior may be sure of what is played, and then whoever believes
the rewards stays; so it is asked about the cell that loses most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np

import tensorbandits as tb
from benchmarks.paper.worlds import Campaign, Floats, FullRank, Layouts, interaction, main_effects, unit
from benchmarks.report import Findings, command
from benchmarks.store import Options, Result, Settings, Store
from tensorbandits.base.checks import Cell
from tensorbandits.report.evidence import amount
from tensorbandits.report.page import Part, Table, Text
from tensorbandits.sim.recipes import PaperWorld

NAME = "locking"
ALONE = False
TITLE = "Locking: cold play and its guard"

PLAIN = {"default": None, "0.5": 0.5, "1": 1.0}  # the default is 0.1 for clicks; other temperatures
WORLDS, STREAMS = 4, 10
LOST = 0.1  # of what cells at random lose, in the last third: what no run should lose


@dataclass(frozen=True)
class Crossed:
    """Clicks about a rate of 5 %, whose log-odds are main effects and an interaction of rank 2, both of one size."""

    context: tuple[int, ...] = ()
    shape: tuple[int, ...] = (8, 12, 6)
    size: float = 0.5

    def __call__(self, seed: int) -> tb.TensorEnvironment:
        """Return the environment of a seed."""
        rng = np.random.default_rng([seed, 8])
        logits = _COMMON + self.size * (unit(main_effects(self.shape, rng)) + unit(interaction(self.shape, 2, rng)))
        return tb.TensorEnvironment(_rates(logits), family="bernoulli", context=self.context, seed=seed)


@dataclass(frozen=True)
class Adverts:
    """Clicks at 0.5 to 5 % of 20 adverts, which are decided, at 7 hours on 4 devices, which are given."""

    def __call__(self, seed: int) -> tb.TensorEnvironment:
        """Return the environment of a seed."""
        rates = Campaign(0.005, 0.05, main=True, shape=(4, 7, 20))(seed).mean
        return tb.TensorEnvironment(rates, family="bernoulli", context=(0, 1), seed=seed)


BEDS: dict[str, tuple[Callable[[int], tb.TensorEnvironment], int]] = {
    "pages": (Layouts(main=0.45, pairs=0.45), 30_000),
    "crossed": (Crossed(), 30_000),
    "crossed-given": (Crossed(context=(0,)), 30_000),
    "adverts": (Adverts(), 30_000),
    "campaign-main": (Campaign(0.005, 0.15, main=True), 30_000),
    "campaign-plain": (Campaign(0.002, 0.06, main=False), 30_000),
    "paper-15-0.5": (PaperWorld(15, 0.5), 10_000),
    "paper-15-0.8": (PaperWorld(15, 0.8), 10_000),
    "full-rank": (FullRank(), 20_000),
}
_COMMON = float(np.log(0.05 / 0.95))


def plan(options: Options) -> list[Settings]:
    chosen = options.beds.split(",") if options.beds else list(BEDS)
    if unknown := sorted(set(chosen) - set(BEDS)):
        raise ValueError(f"there is no bed {', '.join(unknown)} in {NAME}; allowed are {', '.join(BEDS)}")
    return [
        {"bed": bed, "seed": options.fresh_seed + world, "stream": stream, "exploration": value}
        | {"rounds": 300 if options.quick else BEDS[bed][1]}
        for bed in (chosen[:1] if options.quick else chosen)
        for world in range(1 if options.quick else WORLDS)
        for stream in range(4 if options.quick else min(STREAMS, options.replications))
        for value in _temperatures(options)
    ]


def _temperatures(options: Options) -> list[float | None]:
    """Return the temperatures that are asked for, by default all of them."""
    asked = options.only.split(",") if options.only else list(PLAIN)
    if unknown := sorted(set(asked) - set(PLAIN)):
        raise ValueError(f"--only: {', '.join(unknown)} unknown in {NAME}; choose from {', '.join(PLAIN)}")
    return [PLAIN[name] for name in asked]


def label(settings: Settings) -> str:
    return "{bed}, world {seed}, stream {stream}, exploration {exploration}".format_map(settings)


def measure(settings: Settings) -> Result:
    """Play, and return the regret, what is lost in the last third, and what the posterior says of what is played."""
    world, seeds = BEDS[settings["bed"]][0](settings["seed"]), [settings["seed"], settings["stream"]]
    mean, context, clicks = np.asarray(world.mean), world.context_modes, world.family == "bernoulli"
    environment = tb.TensorEnvironment(
        mean,
        noise=world.noise,
        family="bernoulli" if clicks else "gaussian",
        context=context,
        seed=np.random.SeedSequence([*seeds, 1]),
    )
    policy = tb.TensorThompsonSampling(
        mean.shape,
        context=context,
        reward="bernoulli" if clicks else "gaussian",
        exploration=settings["exploration"],
        seed=np.random.SeedSequence([*seeds, 2]),
    )
    losses, lost, played = np.empty(settings["rounds"]), dict[Cell, float](), Counter[Cell]()
    third = len(losses) // 3
    for t in range(len(losses)):
        cell = policy.ask(environment.context())
        policy.tell(cell, environment.pull(cell))
        losses[t] = environment.regret(cell)
        if t >= len(losses) - third:
            lost[cell] = lost.get(cell, 0.0) + losses[t]
            played[cell] += 1
    decided = tuple(j for j in range(mean.ndim) if j not in context)
    blind = float((mean.max(axis=decided, keepdims=True) - mean).mean())
    worst = max(played, key=lambda cell: (lost[cell], played[cell]))
    return {
        "regret": float(losses.sum()),
        "last": float(losses[-third:].mean()) / blind,
        "share": lost[worst] / max(sum(lost.values()), 1e-12),
        **_believed(policy, worst),
    }


def _believed(policy: tb.TensorThompsonSampling, cell: Cell) -> Result:
    """Return what the posterior believes of a cell given its context: the probability that it is the best, and of all
    cells together that are better by a tenth of what cells at random lose.
    """
    levels = [[cell[j]] if j in policy.context else range(n) for j, n in enumerate(policy.shape)]
    cells = np.array(list(product(*levels)))
    at = int((cells == cell).all(axis=1).argmax())
    draws = policy.samples(cells)
    best = draws.max(axis=1)
    far = LOST * (best - draws.mean(axis=1))
    return {
        "believed": float((draws[:, at] >= best).mean()),
        "doubted": float((best - draws[:, at] > far).mean()),
    }


def section(store: Store, options: Options) -> Findings:
    found = [(settings, result) for settings in plan(options) if (result := store.get(settings)) is not None]
    rows, lost = [], []
    for bed in BEDS:
        for value in PLAIN.values():
            here = [one for one in found if one[0]["bed"] == bed and one[0]["exploration"] == value]
            if here:
                regrets = np.array([result["regret"] for _, result in here])
                figures = [amount(float(f(regrets))) for f in (np.mean, np.median, np.max)]
                last = [result["last"] for _, result in here]
                over = sum(share > LOST for share in last)
                rows.append([bed, _name(value), str(len(here)), *figures, f"{max(last):.2f}", str(over)])
                lost += [_lost(*one) for one in here if value is None and one[1]["last"] > LOST]
    parts: list[Part] = [
        Text(
            "Final regrets of Thompson sampling by default, cold (temperature 0.1 for clicks, 0.5 for normal rewards) "
            "with its guard, and at other temperatures, in worlds with several streams of rewards each. *Last third*: "
            "what the worst run loses in the last third of the rounds, as a share of what cells at random lose, and "
            f"the runs in which that is above {LOST:g}."
        ),
        command(NAME, *options.flags),
        Table(["world", "exploration", "runs", "mean", "median", "worst", "last third", f"above {LOST:g}"], rows),
        Text(
            "Those runs of the default. Which share of what they lose in the last third one cell loses, and what the "
            "posterior (temperature 1) believes of that cell after the last round: the probability that it is the "
            f"best one of its context, and that another is better by more than {LOST:g} of what cells at random lose."
        ),
        Table(["run", "regret", "last third", "by one cell", "believed", "doubted"], lost),
    ]
    return parts, {"rows": rows, "lost": lost}


def _name(exploration: float | None) -> str:
    return "default" if exploration is None else f"{exploration:g}"


def _lost(settings: Settings, result: Result) -> list[str]:
    said = [f"{result[name]:.2f}" for name in ("last", "share", "believed", "doubted")]
    return [label(settings), amount(result["regret"]), *said]


def _rates(logits: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-logits)))

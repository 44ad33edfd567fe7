"""Suite ``sensitivity``: what halving and doubling each constant of Thompson sampling does to its regret.

All values of a constant play in the same worlds, with the same seeds, so that regrets are compared pair by pair.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from time import process_time
from typing import Any

import numpy as np

import tensorbandits as tb
from benchmarks.paper import bed_lines
from benchmarks.paper.bed_lines import Bed
from benchmarks.paper.locking import Crossed
from benchmarks.paper.worlds import Floats, FullRank, Revenue
from benchmarks.report import Findings, command, dash
from benchmarks.store import Options, Result, Settings, Store
from tensorbandits.policies.tuning import Tuning
from tensorbandits.report.evidence import Pair, paired
from tensorbandits.report.page import Part, Table, Text

NAME = "sensitivity"
ALONE = False
TITLE = "Constants: halved and doubled"

BEDS: dict[str, Bed] = {
    "paper": replace(bed_lines.BEDS["paper-15-0.5"], rounds=5_000),
    "campaign": replace(bed_lines.BEDS["campaign-main"], rounds=10_000),
    "crossed": Bed("clicks on 8 x 12 x 6 cells, main effects and rank 2", Crossed(), 2, 10_000, "bernoulli"),
    "layouts": replace(bed_lines.BEDS["layouts-5-pairs"], rounds=10_000),
    "keywords": replace(bed_lines.BEDS["keywords"], rounds=3_000),
    "revenue": Bed("revenue of 10 x 60 x 5 cells, amounts differ", Revenue(), 2, 6_000, "revenue"),
    "few-cells": Bed("main effects and a residual, 4 x 4 x 4 cells", FullRank((4, 4, 4)), 3, 20_000),
}
FACTORS = (0.5, 2.0)
QUICK_CONSTANTS, QUICK_WORLDS, QUICK_ROUNDS = 2, 2, 150
_WARM_UP = 20  # rounds
SURE = 0.05  # chance that a constant without effect is called clear, over all beds and both factors
NOT_REACHED, NOISE, CLEAR, OPEN = "no effect", "within noise", "clear", "not decided"


def changed(name: str, factor: float) -> float:
    """Return a constant times a factor; of one that must stay above 1, what it has above 1 is multiplied.

    >>> changed("settled", 0.5), round(changed("obsolete", 2.0), 3)
    (2000.0, 1.2)
    """
    usual = float(getattr(Tuning(), name))
    try:
        Tuning.of({name: min(FACTORS) * usual})
    except ValueError:
        return 1.0 + factor * (usual - 1.0)
    return factor * usual


def constants(options: Options) -> list[str]:
    """Return the constants that are asked for, by default all that are more than 0, which cannot be halved."""
    known = [one.name for one in fields(Tuning) if getattr(Tuning(), one.name)]
    asked = options.only.split(",") if options.only else known
    if unknown := sorted(set(asked) - set(known)):
        raise ValueError(f"there is no constant {', '.join(unknown)} in {NAME}; allowed are {', '.join(known)}")
    return asked[:QUICK_CONSTANTS] if options.quick else asked


def beds(options: Options) -> list[str]:
    """Return the beds that are asked for, by default all of them."""
    asked = options.beds.split(",") if options.beds else list(BEDS)
    if unknown := sorted(set(asked) - set(BEDS)):
        raise ValueError(f"there is no bed {', '.join(unknown)} in {NAME}; allowed are {', '.join(BEDS)}")
    return asked[:1] if options.quick else asked


def _seeds(options: Options) -> range:
    return range(options.fresh_seed, options.fresh_seed + (QUICK_WORLDS if options.quick else options.replications))


def _case(bed: str, seed: int, options: Options, constant: str | None = None, factor: float = 1.0) -> Settings:
    value = changed(constant, factor) if constant else None
    return {"bed": bed, "seed": seed, "rounds": _rounds(bed, options), "constant": constant, "value": value}


def _rounds(bed: str, options: Options) -> int:
    return QUICK_ROUNDS if options.quick else BEDS[bed].rounds


def plan(options: Options) -> list[Settings]:
    """Return all runs, world by world, so that an interrupted run has something to say of every constant."""
    return [
        case
        for seed in _seeds(options)
        for bed in beds(options)
        for case in (
            _case(bed, seed, options),
            *(_case(bed, seed, options, name, factor) for name in constants(options) for factor in FACTORS),
        )
    ]


def label(settings: Settings) -> str:
    what = "as usual" if settings["constant"] is None else "{constant} = {value:g}".format_map(settings)
    return f"{settings['bed']}, world {settings['seed']}, {what}"


def measure(settings: Settings) -> Result:
    """Play a world with a constant of another value; return the regret and the processor's seconds."""
    _play(settings | {"rounds": _WARM_UP, "constant": None})  # has everything read and compiled
    start = process_time()
    return {"regret": _play(settings), "seconds": process_time() - start}


def _play(settings: Settings) -> float:
    bed = BEDS[settings["bed"]]
    env = bed.world(settings["seed"])
    policy = tb.TensorThompsonSampling(
        env.shape,
        context=env.context_modes,
        reward=bed.reward,  # type: ignore[arg-type]
        tuning=None if settings["constant"] is None else {settings["constant"]: settings["value"]},
        seed=settings["seed"],
    )
    return float(tb.simulate(policy, env, settings["rounds"]).regret[-1])


@dataclass(frozen=True)
class Effect:
    """Regrets and seconds with a constant times a factor, beside the usual ones of the same worlds of a bed."""

    bed: str
    factor: float
    regrets: Floats
    usual: Floats
    seconds: tuple[float, float]  # with the changed constant, and as usual

    @cached_property
    def pair(self) -> Pair:
        """The ratio of the mean regrets, with its error."""
        return paired(self.regrets, self.usual)

    @property
    def none(self) -> bool:
        """Whether not a single decision was another one."""
        return bool((self.regrets == self.usual).all())

    @property
    def chance(self) -> float:
        """The probability of a ratio as far from 1, if the constant did nothing; NaN with one world."""
        return 1.0 if self.none and len(self.usual) > 1 else self.pair.against(1.0)[1]

    def __str__(self) -> str:
        if self.none:
            return "1"
        error = "" if np.isnan(self.pair.error) else f" ± {self.pair.ratio * self.pair.error:.2f}"
        return f"{self.pair.ratio:.2f}{error}"


def verdict(effects: list[Effect]) -> str:
    """Say whether a constant matters on any bed, so that one in twenty which do not is called clear."""
    if all(effect.none for effect in effects):
        return NOT_REACHED
    chances = np.array([effect.chance for effect in effects])
    if np.isnan(chances).any():
        return OPEN
    return CLEAR if chances.min() < SURE / len(chances) else NOISE


def section(store: Store, options: Options) -> Findings:
    rows, verdicts, numbers = [], [], []
    for name in constants(options):
        places = [(bed, factor) for bed in beds(options) for factor in FACTORS]
        effects = [found for place in places if (found := _effect(store, options, name, *place))]
        if not effects:
            continue
        said = verdict(effects)
        sure = [effect for effect in effects if effect.chance < SURE / len(effects)]
        where = sorted({effect.bed for effect in sure})
        verdicts.append([name, f"{getattr(Tuning(), name):g}", said, ", ".join(where)])
        numbers += [_numbers(name, effect) for effect in effects]
        for factor in FACTORS:
            here = {effect.bed: effect for effect in effects if effect.factor == factor}
            shown = [f"**{here[bed]}**" if here.get(bed) in sure else str(here.get(bed, dash)) for bed in beds(options)]
            rows.append([name, f"{changed(name, factor):g}", *shown, _work(list(here.values())) if here else dash])
    parts: list[Part] = [
        Text(
            "Regret of Thompson sampling, told nothing but the kind of reward, with one constant of `Tuning` halved "
            "and doubled (of `obsolete`, what it has above 1), over the regret with the usual one in the same "
            f"{len(_seeds(options))} worlds with the same seeds, with standard errors. 1 without an error: every "
            "decision was the same. Bold: if the constant did nothing, such a ratio would come by chance in fewer "
            f"than {SURE / (2 * len(beds(options))):.1%} of all cases. *Work*: processor seconds over the usual ones, "
            "the geometric mean over beds."
        ),
        Text("\n".join(f"- {name}: {BEDS[name].words}, {_rounds(name, options):,} rounds" for name in beds(options))),
        command(NAME, *options.flags),
        Table(["constant", "value", *beds(options), "work"], rows),
        Text(
            f"What follows for each constant. *{NOISE}*: on no bed is there more than chance would bring, so that it "
            f"could be another one, or be removed; *{NOT_REACHED}*: these beds never get where it makes a difference."
        ),
        Table(["constant", "usual", "effect", "beds"], verdicts),
    ]
    return parts, {"ratios": numbers, "verdicts": verdicts}


def _effect(store: Store, options: Options, name: str, bed: str, factor: float) -> Effect | None:
    """Return what a factor does on a bed, over the worlds in which both were played."""
    both = [
        (ours, usual)
        for seed in _seeds(options)
        if (ours := store.get(_case(bed, seed, options, name, factor)))
        and (usual := store.get(_case(bed, seed, options)))
    ]
    if not both:
        return None
    regrets, seconds = (np.array([[one[what] for one in pair] for pair in both]) for what in ("regret", "seconds"))
    ours, usual = seconds.sum(axis=0).tolist()
    return Effect(bed, factor, regrets[:, 0], regrets[:, 1], (ours, usual))


def _work(effects: list[Effect]) -> str:
    ratios = [effect.seconds[0] / effect.seconds[1] for effect in effects]
    return f"{np.exp(np.mean(np.log(ratios))):.2f}"


def _numbers(name: str, effect: Effect) -> dict[str, Any]:
    error = effect.pair.error
    return {
        "constant": name,
        "factor": effect.factor,
        "bed": effect.bed,
        "worlds": len(effect.usual),
        "ratio": effect.pair.ratio,
        "error": None if np.isnan(error) else effect.pair.ratio * error,
        "work": effect.seconds[0] / effect.seconds[1],
    }

"""Suite ``ring``: what it costs that a bandit decides from several posterior draws, which makes its chances known.

A bandit plays the best arm of one of its last ``ring`` draws, so that most are some decisions old. Bandits with rings
of 16 (the default) and 4, and the policy by itself, as which a ring of 1 plays, meet the same worlds and contexts.
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

import numpy as np

import tensorbandits as tb
from benchmarks.paper.worlds import Campaign, Layouts
from benchmarks.report import Findings, command, dash
from benchmarks.store import Options, Result, Settings, Store
from tensorbandits.base.checks import Cell
from tensorbandits.report.evidence import amount
from tensorbandits.report.page import Part, Table, Text
from tensorbandits.sim.recipes import PaperWorld

NAME = "ring"
MEASURED = "tensorbandits.bandit.bandit"
ALONE = False
TITLE = "The ring: a bandit's regret beside its policy's"

ALONE_POLICY = 0  # for a ring: the policy by itself
RINGS = (ALONE_POLICY, 4, 16)  # a ring of 1 is the policy, decision by decision
BEDS: dict[str, tuple[Callable[[int], tb.TensorEnvironment], int]] = {
    "layouts": (Layouts(), 30_000),
    "campaign": (Campaign(0.005, 0.15, main=True), 30_000),
    "paper": (PaperWorld(15, 0.5), 10_000),
}
Play = tuple[Callable[[Cell], Cell], Callable[[float], None]]


def plan(options: Options) -> list[Settings]:
    chosen = [name.strip() for name in options.beds.split(",") if name.strip()] or list(BEDS)
    if unknown := sorted(set(chosen) - set(BEDS)):
        raise ValueError(f"there is no bed {', '.join(unknown)} in {NAME}; allowed are {', '.join(BEDS)}")
    return [
        {"bed": bed, "seed": options.fresh_seed + i, "ring": ring, "rounds": 200 if options.quick else BEDS[bed][1]}
        for bed in (chosen[:1] if options.quick else chosen)
        for i in range(2 if options.quick else options.replications)
        for ring in RINGS
    ]


def label(settings: Settings) -> str:
    return f"{settings['bed']}, world {settings['seed']}, {_name(settings['ring'])}"


def _name(ring: int) -> str:
    return f"ring {ring}" if ring else "policy, ring 1"


def measure(settings: Settings) -> Result:
    """Play, and return the regret and the time of a round."""
    env, seed = BEDS[settings["bed"]][0](settings["seed"]), settings["seed"]
    reward = "bernoulli" if env.family == "bernoulli" else "gaussian"
    policy = tb.TensorThompsonSampling(env.shape, context=env.context_modes, reward=reward, seed=seed)
    ask, tell = _bandit(policy, settings["ring"], seed) if settings["ring"] else _alone(policy)
    losses, spent = np.empty(settings["rounds"]), 0.0
    for t in range(len(losses)):
        levels = env.context()
        start = process_time()
        cell = ask(levels)
        spent += process_time() - start
        reward = env.pull(cell)
        start = process_time()
        tell(reward)
        spent += process_time() - start
        losses[t] = env.regret(cell)
    parts = [float(part.sum()) for part in np.array_split(losses, 10)]
    return {"regret": float(losses.sum()), "tenths": parts, "microseconds": 1e6 * spent / len(losses)}


def _alone(policy: tb.Policy) -> Play:
    """The policy by itself."""
    played: list[Cell] = []

    def ask(levels: Cell) -> Cell:
        played[:] = [policy.ask(levels)]
        return played[0]

    return ask, lambda reward: policy.tell(played[0], reward)


def _bandit(policy: tb.Policy, ring: int, seed: int) -> Play:
    """The policy in a bandit, by labels that are numbers."""
    names = [f"mode {j}" for j in range(len(policy.shape))]
    modes = {name: range(size) for name, size in zip(names, policy.shape, strict=True)}
    given = [names[j] for j in policy.context]
    bandit, played = tb.Bandit(tb.Space(modes, context=given), policy, ring=ring, seed=seed), [""]

    def ask(levels: Cell) -> Cell:
        decision = bandit.ask(dict(zip(given, levels, strict=True)))
        played[0], whole = decision.id, decision.arm | decision.context
        return tuple(int(whole[name]) for name in names)

    return ask, lambda reward: bandit.tell(played[0], reward)


def section(store: Store, options: Options) -> Findings:
    wanted = plan(options)
    found = {(s["bed"], s["ring"], s["seed"]): result for s in wanted if (result := store.get(s)) is not None}
    rows = []
    for bed in dict.fromkeys(settings["bed"] for settings in wanted):
        for ring in RINGS:
            here = {seed: result for (b, r, seed), result in found.items() if (b, r) == (bed, ring)}
            if here:
                alone = {seed: found.get((bed, ALONE_POLICY, seed)) for seed in here}
                rows.append(_row(bed, ring, here, alone))
    header = ["world", "player", "runs", "regret", "median", "worst", "first tenth", "more than the policy", "ratio"]
    parts: list[Part] = [
        Text(
            "Final regrets, means with standard errors, of Thompson sampling told the kind of reward only, by itself "
            "and in a bandit whose decisions are drawn from a ring of posterior draws. World by world, the same "
            "contexts and seeds of rewards; what a bandit loses more than its policy is the mean of the differences."
        ),
        command(NAME, *options.flags),
        Table([*header, "microseconds"], rows),
    ]
    return parts, {"rows": rows}


def _row(bed: str, ring: int, here: dict[int, Result], alone: dict[int, Result | None]) -> list[str]:
    regrets = np.array([result["regret"] for result in here.values()])
    first = float(np.mean([result["tenths"][0] for result in here.values()]))
    pairs = [(here[seed]["regret"], other["regret"]) for seed, other in alone.items() if other is not None]
    more, ratio = dash, dash
    if ring and pairs:
        ours, theirs = np.array(pairs).T
        more, ratio = _with_error(ours - theirs), f"{ours.mean() / theirs.mean():.2f}"
    time = float(np.median([result["microseconds"] for result in here.values()]))
    figures = [_with_error(regrets), amount(float(np.median(regrets))), amount(float(regrets.max())), amount(first)]
    return [bed, _name(ring), str(len(here)), *figures, more, ratio, amount(time)]


def _with_error(values: np.ndarray) -> str:
    """A mean and its standard error."""
    error = f" ± {values.std(ddof=1) / np.sqrt(len(values)):,.1f}" if len(values) > 1 else ""
    return f"{values.mean():,.1f}{error}"

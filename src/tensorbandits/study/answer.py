"""The answer of a study: is low rank worth it, who should play, what would it have earned, and how to start it."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any, NamedTuple

import numpy as np

from tensorbandits.data.log import Log
from tensorbandits.data.profile import Profile
from tensorbandits.model.effects import kind_of
from tensorbandits.policies.cost import words
from tensorbandits.report.evidence import amount, student
from tensorbandits.report.page import Code, Part, Section, Text, escape, plain_words
from tensorbandits.sim.compare import Comparison
from tensorbandits.sim.log_world import World
from tensorbandits.sim.recipes import PolicyRecipe
from tensorbandits.study.lineup import BASELINE, FLAGSHIP, cost_of, takes_as_they_are
from tensorbandits.study.remarks import alike_words

_ARGUMENTS = ("allowed", "activate", "id", "played", "propensity", "self")  # of an ask, which no mode can be
_NORMAL = 1.96  # half of the width of a 95 % interval, in standard errors


class Amount(NamedTuple):
    """A sum of rewards and its 95 % interval, which is NaN where one run says nothing of it."""

    value: float
    half: float

    def __str__(self) -> str:
        if np.isnan(self.half):
            return amount(self.value)
        return f"{amount(self.value)} ({amount(self.value - self.half)} to {amount(self.value + self.half)})"


def earned(comparison: Comparison, world: World, name: str) -> Amount:
    """Return what a policy earns on average: what the best cells would pay, less its regret."""
    regret, half = student(comparison.at(name))
    return Amount(comparison.horizon * best_mean(world) - regret, half)


def best_mean(world: World) -> float:
    """Return the mean reward of always playing the best cell, in contexts as often as they come."""
    if world.context_weights is None:
        return float(world.mean.max())
    given = len(world.context)
    ordered = np.moveaxis(world.mean, world.context, range(given))  # the context modes come first
    best = ordered.max(axis=tuple(range(given, ordered.ndim)))
    return float((world.context_weights * best).sum() / world.context_weights.sum())


def log_earned(log: Log, rounds: int) -> Amount:
    """Return what the log itself earned over so many rounds."""
    error = np.sqrt(log.ledger.variance / log.ledger.rounds)
    return Amount(rounds * log.ledger.mean, _NORMAL * rounds * float(error))


@dataclass(frozen=True)
class Answer:
    """What a study found, in words; ``code`` are the lines of Python that start what it recommends."""

    lines: tuple[str, ...]
    remarks: tuple[str, ...]
    code: str

    @classmethod
    def of(
        cls,
        log: Log,
        facts: Profile,
        world: World,
        comparison: Comparison,
        playing: Mapping[str, PolicyRecipe],
        remarks: Sequence[str],
        source: str | os.PathLike[str] | None = None,
        shifted: World | None = None,
    ) -> Answer:
        """Put together what a study found; in the shifted world play those who are not told the kind of reward."""
        regrets = {name: float(comparison.at(name).mean()) for name in comparison.policies}
        best = min(regrets, key=lambda name: regrets[name])
        alike = len(regrets) > 1 and math.isclose(regrets[best], max(regrets.values()))
        baseline = next(name for name, recipe in playing.items() if recipe.policy == BASELINE)
        rounds = comparison.horizon
        beside = "" if best == baseline or alike else f", and {escape(baseline)} {earned(comparison, world, baseline)}"
        few = "" if len(comparison.select(best)) > 1 else " A single run has no interval."
        start = best
        if facts.curve.nothing_to_learn:
            start = next((name for name, recipe in playing.items() if recipe.policy == FLAGSHIP), best)
        if facts.curve.nothing_to_learn and not alike:
            few += " As no combination is known to be better than another, these differences may be luck alone."
        policy = (
            "All that played had the same regret."
            if alike
            else f"**{escape(best[:1].upper() + best[1:])}** had the lowest regret of those that played."
        )
        earnings = (
            f"Over {rounds:,} rounds {'each' if alike else 'it'} would have earned "
            f"**{earned(comparison, world, best)} {escape(log.reward, 40)}** where the log earned "
            f"{log_earned(log, rounds)}{beside}; the best cells, known from the start, "
            f"{amount(rounds * best_mean(world))}. Brackets are 95 % intervals, of policies over runs alone: the "
            f"means of the log are taken as they are.{few}"
        )
        cost = _cost(playing[start], playing[baseline], world, facts.bandit_rewards)
        first = alike_words(log)
        lines = tuple(filter(None, [first, facts.verdict, _structure(facts), f"{policy} {earnings}", cost]))
        return cls(lines, tuple(remarks), start_lines(log, world, playing[start], rounds, source, shifted))

    def section(self) -> Section:
        """Return the answer as the first section of a report."""
        parts: list[Part] = [Text("\n".join(f"- {line}" for line in self.lines))]
        if self.remarks:
            parts += [Text("To look at in the log:"), Text("\n".join(f"- {remark}" for remark in self.remarks))]
        return Section("The answer", [*parts, Text("To start it:"), Code(self.code, "python")])

    def plain(self) -> str:
        """Return the answer as plain text, for a screen."""
        lines = list(self.lines)
        if self.remarks:
            lines += ["To look at in the log:", *(f"  - {remark}" for remark in self.remarks)]
        code = "\n".join(f"    {line}" for line in self.code.splitlines())
        return "\n".join([*map(plain_words, lines), "To start it:", "", code, ""])


def _cost(recipe: PolicyRecipe, baseline: PolicyRecipe, world: World, rewards: int) -> str:
    """Say what a reward costs, where that is known."""
    ours, theirs = cost_of(recipe, world, rewards), cost_of(baseline, world, rewards)
    if ours is None:
        return ""
    beside = f", {escape(baseline.record.label)} {words(theirs)}" if theirs is not None and recipe != baseline else ""
    return (
        f"To decide and to learn from a reward, {escape(recipe.record.label)} takes about {words(ours)} of one core "
        f"on average over {rewards:,} rewards{beside}: predicted for this shape, often off by up to a factor of 2."
    )


def _structure(facts: Profile) -> str:
    """Say which structure to take; nothing where there is nothing to learn."""
    if facts.curve.nothing_to_learn:
        return ""
    kind, rank = facts.suggested
    point = facts.curve.at(facts.bandit_rewards)
    limit = ", the most that this log can tell of" if point.rewards < facts.bandit_rewards else ""
    after = f"Structure after {point.rewards:,} rewards{limit}"
    what = {
        "tucker": f"a Tucker tensor of rank {rank}",
        "affine": f"main effects with low-rank interactions (affine) of rank {rank}",
        "additive": "main effects only (additive)",
        "pairs": "main effects and interactions of two modes each (pairs)",
    }[kind]
    if kind == "additive" or facts.curve.lead(point)[1]:
        return f"{after}: {what}."
    return f"{after}: every cell by itself; of the low-rank ones, {what}."


def start_lines(
    log: Log,
    world: World,
    recipe: PolicyRecipe,
    rounds: int,
    source: str | os.PathLike[str] | None = None,
    shifted: World | None = None,
) -> str:
    """Return lines of Python that start a bandit on what a log knows; they run as they are if the file is known.

    One that played in a shifted world is told rewards as they were there, unless their scale is nothing to it.
    """
    record = recipe.record
    settings = dict(recipe.settings)
    make: Any = record.kind
    if record.takes("rank"):
        settings.setdefault("rank", "auto")
        own = inspect.signature(make.paper if settings.get("paper") else make).parameters.get("rank")
        if own is not None and settings["rank"] == own.default:
            del settings["rank"]
    if record.takes("horizon"):
        settings.setdefault("horizon", rounds)
    module, kind = record.kind.__module__, record.kind.__name__
    ours = module.startswith("tensorbandits.")
    given = "".join(f", {key}={value!r}" for key, value in settings.items() if value is not False or key != "paper")
    read_with = ({"trials": log.trials} if log.trials else {}) | dict(log.options)
    options = "".join(f", {key}={value!r}" for key, value in read_with.items())
    context = [log.modes[j] for j in world.context]
    reward = "1.0" if log.ledger.kind or kind_of(log.ledger) == "gaussian" else "1"
    tell = ["bandit.tell_log(log)  # what the log knows; without this line it starts afresh"]
    if shifted is not None and recipe.policy != FLAGSHIP and not takes_as_they_are(recipe):
        reward = f"({reward} - centre) / scale"
        tell = [
            f"centre, scale = {shifted.centre!r}, {shifted.scale!r}  # {kind} expects rewards about 0, of spread 1",
            "bandit.policy.tell_ledger(log.ledger.standardised(centre, scale))"
            "  # what the log knows; without this line it starts afresh",
        ]
    read = f"read_log({os.fspath(source)!r}" if source is not None else "from_log(frame"
    numbers = " | log.numeric" if log.numeric and set(log.numeric) <= set(context) else ""
    lines = [
        "import tensorbandits as tb",
        *([] if ours else [f"from {module} import {kind}"]),
        f"from tensorbandits.data import {'read_log' if source is not None else 'from_log'}",
        "",
        f"log = {read}, {list(log.modes)!r}, {log.reward!r}{options})",
        f"space = tb.Space(dict(zip(log.modes, log.levels)){numbers}{f', context={context!r}' if context else ''})",
        f"bandit = tb.Bandit(space, {recipe.policy!r}{given})" if ours else f"bandit = tb.Bandit(space, {kind}{given})",
        *tell,
        f"decision = bandit.ask({_asked(log, context)})",
        "print(decision.arm)",
        f"bandit.tell(decision.id, {reward})  # the reward, when it comes",
    ]
    return "\n".join(lines)


def _asked(log: Log, context: Sequence[str]) -> str:
    """The arguments of an ask: the first level of each context mode."""
    labels: dict[str, Any] = {mode: log.levels[log.modes.index(mode)][0] for mode in context}
    if log.numeric and set(log.numeric) <= set(context):
        for mode, one in log.numeric.items():
            del labels[mode]
            if one.partition is not None:
                labels |= dict(zip(one.numbers, one.partition.middles[0].tolist(), strict=True))
    if all(mode.isidentifier() and not iskeyword(mode) and mode not in _ARGUMENTS for mode in labels):
        return ", ".join(f"{mode}={label!r}" for mode, label in labels.items())
    return repr(labels)

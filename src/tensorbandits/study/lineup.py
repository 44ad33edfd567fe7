"""Who plays in a study, and how often: as many runs as it takes to tell each policy from the baseline."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tensorbandits.base.checks import is_sequence
from tensorbandits.model.rewards import Reward
from tensorbandits.policies.cost import RATE, Workload
from tensorbandits.policies.registry import find, records
from tensorbandits.report.evidence import paired
from tensorbandits.sim.compare import Comparison, compare
from tensorbandits.sim.jobs import Run
from tensorbandits.sim.log_world import World
from tensorbandits.sim.recipes import PolicyRecipe

BASELINE = "ucb"  # which the others are compared with
FLAGSHIP = "thompson"  # which plays twice, told nothing and told the structure
_FIRST = 3  # runs of each policy, before any is compared
_CLEAR = 0.01  # with a p below it a policy is told from the baseline, and needs no more runs;
_FAR = 1.5  # nor does it if in every run its regret is so many times less, or more


def lineup(
    world: World,
    rank: int,
    horizon: int,
    policies: Sequence[Any] = (),
    kind: Reward = "gaussian",
    structure: str = "tucker",
) -> tuple[dict[str, PolicyRecipe], dict[str, str]]:
    """Return the policies that can play in a world, by label, and why the others cannot.

    ``policies`` are names, texts such as ``"thompson:rank=3"``, classes or recipes; by default all that are registered,
    with our defaults, Thompson sampling once told nothing but the kind of reward and once structure and rank, of which
    main effects have none. Every other policy that takes a rank is told it, unless it says one. The baseline joins if
    it is not among them. Others than Thompson sampling are not told the kind of reward, as that may take far longer:
    ensemble sampling of clicks made a study five times as long.
    """
    if not is_sequence(policies):
        raise TypeError(f"policies is {policies!r}; give a list of names, classes or recipes: ['thompson', 'ucb']")
    asked = [_recipe(policy, rank, kind) for policy in policies or [record.name for record in records()]]
    if all(recipe.policy != BASELINE for recipe in asked):
        asked.append(_recipe(BASELINE, rank, kind))
    labels = [recipe.record.label for recipe in asked]
    named = {
        label if labels.count(label) == 1 else str(recipe): recipe for label, recipe in zip(labels, asked, strict=True)
    }
    if not policies:
        told = (
            {"structure": structure} if structure in ("additive", "pairs") else {"rank": rank, "structure": structure}
        )
        words = " ".join(map(str, reversed(told.values())))
        named[f"{find(FLAGSHIP).label}, {words}"] = _recipe(PolicyRecipe(FLAGSHIP, told), rank, kind)
    refused, environment = {}, world(0)
    for name, recipe in named.items():
        try:
            recipe.make(environment, horizon)
        except ValueError as error:
            if policies or recipe.policy == BASELINE:
                raise ValueError(f"policy {str(recipe)!r} cannot play this log: {error}") from error
            refused[name] = str(error)
    return {name: recipe for name, recipe in named.items() if name not in refused}, refused


def _recipe(policy: Any, rank: int, kind: Reward) -> PolicyRecipe:
    if isinstance(policy, str):
        policy = PolicyRecipe.parse(policy)
    recipe = policy if isinstance(policy, PolicyRecipe) else PolicyRecipe(policy)
    given: dict[str, Any] = {}
    if recipe.policy != FLAGSHIP and "rank" in inspect.signature(recipe.record.kind).parameters:
        given["rank"] = rank
    if recipe.policy == FLAGSHIP and kind != "gaussian" and not recipe.settings.get("paper"):
        given["reward"] = kind
    return replace(recipe, settings=given | dict(recipe.settings))


def play(
    playing: Mapping[str, PolicyRecipe], plain: World, shifted: World, folder: Path, replications: int, **options: Any
) -> Comparison:
    """Let policies play in the world of a log, and return their runs, with regrets in units of its rewards.

    Each runs a few times, and those that are neither clearly better or worse than the baseline by then nor clearly
    worse than the best, again, up to so many replications. Runs are kept in the folder; ``options`` are those of
    :func:`tensorbandits.compare`. Rewards are shifted and divided by their spread, except for a policy that knows what
    kind of reward they are.
    """
    baseline = next(name for name, recipe in playing.items() if recipe.policy == BASELINE)
    found: dict[str, list[Run]] = {}
    open_ones, count = list(playing), min(_FIRST, replications)
    while True:
        for place, world in (("as-they-are", plain), ("shifted", shifted)):
            some = {name: playing[name] for name in open_ones if takes_as_they_are(playing[name]) == (world is plain)}
            if some:
                more = compare(some, {"log": world}, folder=folder / place, replications=count, **options)
                for name in some:
                    found[name] = [replace(run, regret=world.scale * run.regret) for run in more.select(name)]
        runs = Comparison(tuple(run for name in playing for run in found[name]))
        best = min(playing, key=lambda name: float(runs.at(name).mean()))
        open_ones = [
            name
            for name in playing
            if name != baseline and not any(clear(runs, name, other) for other in {baseline, best} - {name})
        ]
        if count == replications or not open_ones:
            return runs
        open_ones.append(baseline)
        count = min(2 * count, replications)


def takes_as_they_are(recipe: PolicyRecipe) -> bool:
    """Whether a policy knows what kind of reward it gets, so that it need not be shifted and scaled."""
    return str(recipe.settings.get("reward", "gaussian")) != "gaussian"


def cost_of(recipe: PolicyRecipe, world: World, rewards: int) -> float | None:
    """Return about how many microseconds of one core a reward costs a policy, where there is a model of that."""
    settings = recipe.settings
    if settings.get("paper"):
        return None
    said = {name: settings[name] for name in ("rank", "structure", "reward") if settings.get(name) is not None}
    rate = float(world.mean.mean()) if said.get("reward") in ("bernoulli", "binomial") else RATE
    return recipe.record.microseconds(Workload(world.shape, rewards, context=world.context, rate=rate, **said))


def together(comparison: Comparison, name: str, other: str) -> Comparison:
    """Return the runs of two policies in the replications that both have."""
    shared = min(len(comparison.select(name)), len(comparison.select(other)))
    return Comparison(tuple(run for run in comparison.runs if run.policy in (name, other) and run.replication < shared))


def clear(comparison: Comparison, name: str, baseline: str) -> bool:
    """Whether a policy is clearly better or worse than the baseline."""
    both = together(comparison, name, baseline)
    ours, theirs = both.at(name), both.at(baseline)
    if len(ours) > 2 and ((_FAR * ours < theirs).all() or (ours > _FAR * theirs).all()):
        return True
    pair = paired(ours, theirs)
    return bool(pair.degrees) and pair.against(1.0)[1] < _CLEAR

"""What an item of the evaluation is: comparisons to run, as data, and a function that reads the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from tensorbandits.policies.registry import find
from tensorbandits.report.page import Picture, Section
from tensorbandits.sim.compare import Comparison
from tensorbandits.sim.jobs import EnvironmentFactory
from tensorbandits.sim.plots import Panel, band_words, plot_panels
from tensorbandits.sim.recipes import PolicyRecipe
from tensorbandits.tensor.tucker import Floats

# The policies by the names that figures and tables give them. Without more words: the paper's values.
THOMPSON = f"{find('thompson').label} (ours)"
ENSEMBLE, ELIMINATION, EPOCH_GREEDY, UCB, ESTR = (
    find(name).label for name in ("ensemble", "elimination", "epoch-greedy", "ucb", "estr")
)
OURS = ", our defaults"
TUNED = f"{ESTR}, radius tuned in hindsight"

SHOWN = [THOMPSON, ENSEMBLE, ELIMINATION, EPOCH_GREEDY, UCB, ESTR, TUNED]  # where all play

# How each is drawn, in every figure: numbers of a colour and of a line style. Our defaults are solid lines.
LOOKS = {name: (i, i) for i, name in enumerate((THOMPSON, ENSEMBLE, ELIMINATION, EPOCH_GREEDY, UCB, ESTR))}
LOOKS |= {name + OURS: (LOOKS[name][0], 0) for name in (ENSEMBLE, ELIMINATION, EPOCH_GREEDY)} | {TUNED: (6, 0)}

MULTIPLIERS = (0.01, 0.001)  # of ESTR's squared radius; theory has 1


@dataclass(frozen=True)
class Experiment:
    """One comparison to run: every policy in every environment.

    >>> Experiment("small", {}, {}, 100).horizon
    100
    """

    name: str
    policies: Mapping[str, PolicyRecipe]
    environments: Mapping[str, EnvironmentFactory]
    horizon: int


@dataclass(frozen=True)
class Results:
    """What was run: the experiments and their comparisons, by name, and the seed of the first replication."""

    experiments: Mapping[str, Experiment]
    comparisons: Mapping[str, Comparison]
    seed: int = 0

    def __getitem__(self, name: str) -> Comparison:
        """The comparison of an experiment."""
        return self.comparisons[name]

    def mean(self, name: str, environment: str) -> Floats:
        """The mean rewards of an environment of an experiment, in the first replication, of its shape."""
        mean = self.experiments[name].environments[environment](self.seed).mean
        return mean if isinstance(mean, np.ndarray) else mean.full()


class Item(Protocol):
    """A figure or table of the paper: a module with these two functions."""

    def experiments(self, quick: bool) -> Sequence[Experiment]:
        """Say what to run."""

    def analyse(self, results: Results) -> Section:
        """Make a section of the report of what was run."""


def picture(
    name: str,
    rows: Sequence[Sequence[Panel]],
    title: str,
    caption: str = "",
    *,
    looks: Mapping[str, tuple[int, int]] | None = LOOKS,
) -> Picture:
    """Return a figure with a grid of panels; without a caption it is one of mean cumulative regret.

    Policies that have no look of their own are named by a legend in each panel.
    """
    words = caption or f"Mean cumulative regret {band_words(*(panel.comparison for row in rows for panel in row))}."
    return Picture(name, lambda path: plot_panels(rows, path, title, looks=looks, separate=looks is None), words)


def tuned(multiplier: float) -> str:
    """The name of ESTR with a multiplier of its squared radius.

    >>> tuned(0.01)
    'matricized ESTR, radius x 0.01'
    """
    return f"{ESTR}, radius x {multiplier:g}"


def all_policies(rank: int) -> dict[str, PolicyRecipe]:
    """Return every policy, with the paper's values and with ours, told the rank.

    >>> list(all_policies(2))[:2]
    ['Thompson sampling (ours)', 'ensemble sampling']
    """
    known = {"rank": rank}
    paper = {"rank": rank, "paper": True}
    return {
        THOMPSON: PolicyRecipe("thompson", known),
        ENSEMBLE: PolicyRecipe("ensemble", paper),
        ENSEMBLE + OURS: PolicyRecipe("ensemble", known),
        ELIMINATION: PolicyRecipe("elimination", paper),
        ELIMINATION + OURS: PolicyRecipe("elimination", known),
        EPOCH_GREEDY: PolicyRecipe("epoch-greedy", paper),
        EPOCH_GREEDY + OURS: PolicyRecipe("epoch-greedy", known),
        UCB: PolicyRecipe("ucb", {"paper": True}),
        ESTR: PolicyRecipe("estr", paper),
    } | {tuned(m): PolicyRecipe("estr", paper | {"multiplier": m}) for m in MULTIPLIERS}


def choose(policies: Mapping[str, PolicyRecipe], *names: str) -> dict[str, PolicyRecipe]:
    """Return some of the policies.

    >>> list(choose(all_policies(2), UCB))
    ['vectorized UCB']
    """
    return {name: policies[name] for name in names}


def merge(*comparisons: Comparison, until: int | None = None) -> Comparison:
    """Return the runs of several comparisons as one, each cut after some rounds."""
    runs = [run for comparison in comparisons for run in comparison.runs]
    if until is not None:
        runs = [
            replace(run, rounds=run.rounds[: (k := int((run.rounds <= until).sum()))], regret=run.regret[:k])
            for run in runs
        ]
    return Comparison(tuple(runs))


def with_hindsight(comparison: Comparison) -> Comparison:
    """Add, per environment, ESTR with the multiplier that turned out best, under the name ``TUNED``."""
    runs = list(comparison.runs)
    for environment in comparison.environments:
        best = best_multiplier(comparison, environment)
        runs += [replace(run, policy=TUNED) for run in comparison.select(tuned(best), environment)]
    return Comparison(tuple(runs))


def best_multiplier(comparison: Comparison, environment: str) -> float:
    """The multiplier with the lowest mean final regret."""
    return min(MULTIPLIERS, key=lambda m: float(comparison.at(tuned(m), environment).mean()))

"""Figure S1: how sensitive three algorithms are to their constants, at p = 20 and w = 0.8."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np

from tensorbandits.paper.figure2 import RANK, world
from tensorbandits.paper.item import Experiment, Results, picture
from tensorbandits.policies.registry import find
from tensorbandits.report.evidence import LEVEL, judge, paired, show_ratio
from tensorbandits.report.page import Claim, Claims, Part, Section, Table, Text
from tensorbandits.sim.compare import Comparison
from tensorbandits.sim.plots import Panel
from tensorbandits.sim.recipes import PolicyRecipe

P, SIGNAL = 20, 0.8
HORIZON, QUICK = 10_000, 1_000
ALIKE = 1.25  # means that differ by at most this factor count as insensitive
# By experiment: the policy, its constant as code and as text, and the values; the paper does not say its own.
CONSTANTS = {
    "figureS1-C_2": (find("epoch-greedy"), "C_2", "C_2", (1.0, 50.0, 200.0, 1000.0)),
    "figureS1-c_0": (find("elimination"), "c_0", "c_0", (0.1, 0.3, 0.5, 0.7, 0.9)),
    "figureS1-sigma": (find("ensemble"), "perturbation", "perturbation variance", (0.01, 0.05, 0.1, 0.5, 1.0)),
}
WHY = {
    "figureS1-C_2": "A larger constant makes the greedy phases longer than one round, and fewer rounds are uniform; "
    "up to 1 the length rounds up to 1 and nothing changes at all.",
    "figureS1-c_0": "The constant multiplies the uniform rounds before elimination begins: fewer of them cost less, "
    "and give it poorer subspaces to work in.",
    "figureS1-sigma": "Less perturbation explores less: cheap in most runs, and dear in those that lock onto a wrong "
    "cell.",
}


def experiments(quick: bool) -> list[Experiment]:
    """One experiment per constant."""
    return [
        Experiment(
            name,
            {
                f"{label} = {value:g}": PolicyRecipe(policy.name, {"rank": RANK, "paper": True, argument: value})
                for value in values
            },
            dict([world(P, SIGNAL)]),
            QUICK if quick else HORIZON,
        )
        for name, (policy, argument, label, values) in CONSTANTS.items()
    ]


def analyse(results: Results) -> Section:
    """Figure, table and claims."""
    panels = [
        Panel(results[name], results[name].environments[0], policy.label) for name, (policy, *_) in CONSTANTS.items()
    ]
    parts: list[Part] = [
        Text(
            f"The paper's values with one constant changed at a time, p = {P}, w = {SIGNAL:g}. The paper does not say "
            f"which values it tried. Means that differ by a factor of at most {ALIKE:g} count as insensitive here, "
            "judged by the intervals of the ratios of all pairs; beside that Friedman's test over replications, of the "
            "null that the constant does not matter."
        ),
        picture("figureS1", [panels], f"Figure S1: one constant at a time, p = {P}, w = {SIGNAL:g}", looks=None),
        Claims([claim(results[name], name) for name in CONSTANTS]),
        *(_table(results[name], name) for name in CONSTANTS),
    ]
    return Section("Figure S1: sensitivity to constants", parts)


def claim(comparison: Comparison, name: str) -> Claim:
    """Is the regret insensitive to a constant?"""
    finals = [comparison.at(policy) for policy in comparison.policies]
    pairs = [paired(high, low) for high, low in permutations(finals, 2)]
    widest = max(pairs, key=lambda pair: pair.ratio)
    policy, _, label, _ = CONSTANTS[name]
    numbers = ", ".join(f"{p}: {values.mean():,.0f}" for p, values in zip(comparison.policies, finals, strict=True))
    return Claim(
        f"{policy.label} is not sensitive to {label}",
        "Section S.5, Figure S1",
        judge(pairs, ALIKE),
        f"{numbers}; largest over smallest mean {show_ratio(widest)}",
        _friedman(finals),
        WHY[name],
    )


def _friedman(finals: Sequence[np.ndarray]) -> str:
    distinct = [values for i, values in enumerate(finals) if not any(np.array_equal(values, v) for v in finals[:i])]
    if len(distinct) < 3 or len(finals[0]) < 3:
        return "no test: fewer than three values that differ, or fewer than three replications"
    from scipy.stats import friedmanchisquare

    test = friedmanchisquare(*distinct)
    word = "differ" if test.pvalue < LEVEL else "are not shown to differ"
    return f"Friedman's test: p = {test.pvalue:.1g}, the values {word}"


def _table(comparison: Comparison, name: str) -> Table:
    rows = [
        [row.policy, f"{row.mean:,.0f}", f"{row.standard_error:,.0f}", f"{row.median:,.0f}", f"{row.worst:,.0f}"]
        for row in comparison.table()
    ]
    count = comparison.table()[0].replications
    caption = f"{CONSTANTS[name][0].label}: regret after {comparison.horizon:,} rounds, {count} replications"
    return Table(["constant", "mean", "standard error", "median", "worst"], rows, caption)

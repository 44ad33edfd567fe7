"""Figure 3: contextual real data. Bike arrivals in Oslo stand in for the paper's private advertising data."""

from __future__ import annotations

from functools import partial

from tensorbandits.paper.item import (
    ENSEMBLE,
    EPOCH_GREEDY,
    OURS,
    THOMPSON,
    UCB,
    Experiment,
    Results,
    all_policies,
    choose,
    picture,
)
from tensorbandits.report.evidence import below, judge, paired, regret_table, show_ratio, show_test
from tensorbandits.report.page import Claim, Claims, Section, Text
from tensorbandits.sim.compare import Comparison
from tensorbandits.sim.plots import regret_panels

RANK = 3  # of the bikes' unfoldings: three columns hold at least 90 % of the variance of the cell means in each
HORIZON, QUICK = 10_000, 1_000
NAME = "bikes: weekday and slot given, station decided"
SHOWN = [THOMPSON, ENSEMBLE, ENSEMBLE + OURS, EPOCH_GREEDY, EPOCH_GREEDY + OURS, UCB]
SOURCE = "Section 6, Figure 3"
UNIT = "standard deviations of a reward"


def experiments(quick: bool) -> list[Experiment]:
    """The policies that take context, on the bikes of Oslo."""
    from tensorbandits.data.open_data import bikes

    world = bikes().world(["time:weekday", "time:3h"], shrinkage=0.0, standardise=True)
    return [Experiment("figure3", choose(all_policies(RANK), *SHOWN), {NAME: world}, QUICK if quick else HORIZON)]


def analyse(results: Results) -> Section:
    """Figure, table and claims."""
    comparison = results["figure3"]
    return Section(
        "Figure 3: contextual real data",
        [
            Text(
                "The paper's tensor (20 users x 7 weekdays | 20 advertisements, impressions) is private. In its "
                "role: arrivals at the 20 busiest bike stations of Oslo in 2021, by weekday and three-hour slot, "
                "which are given, from the open data that the package `matcouply` carries "
                "(`tensorbandits.data.bikes`). A reward is a real day's count drawn from its cell. Counts are "
                "shifted by their mean and divided by the standard deviation within cells, since the paper's values "
                f"suppose noise of variance 1 and centred rewards; regret is in these units. Rank {RANK} is told to "
                "all: three columns hold at least 90 % of the variance of the cell means in each unfolding."
            ),
            picture(
                "figure3",
                [regret_panels(comparison, NAME, policies=SHOWN, unit=UNIT)],
                "Figure 3: Oslo bikes, weekday and slot given, station decided",
            ),
            Claims(claims(comparison)),
            regret_table(comparison, UCB, NAME, SHOWN),
        ],
    )


def claims(comparison: Comparison) -> list[Claim]:
    """What the paper says of Figure 3."""
    claim = partial(below, source=SOURCE, comparison=comparison)
    return [
        claim(
            "Ensemble sampling has the lowest regret at a long horizon",
            low=ENSEMBLE,
            high=[EPOCH_GREEDY, UCB],
            why="A tensor of real means is only approximately of low rank: what three columns cannot say of a cell, "
            "a policy that trusts them never learns, whereas UCB does in time.",
        ),
        *(reduction(comparison, low, UCB, 0.75) for low in (ENSEMBLE, ENSEMBLE + OURS, THOMPSON)),
        *(reduction(comparison, low, EPOCH_GREEDY, 0.856) for low in (ENSEMBLE, ENSEMBLE + OURS, THOMPSON)),
        claim(
            "Epoch-greedy is better than UCB at a short horizon (bikes, contextual)",
            low=EPOCH_GREEDY,
            high=[UCB],
            at=comparison.horizon // 10,
            why="Half of its rounds are uniform with the paper's schedule, and UCB has only 20 arms per context.",
        ),
    ]


def reduction(comparison: Comparison, low: str, high: str, share: float) -> Claim:
    """A claim of the form "so many per cent lower"."""
    pair = paired(comparison.at(low), comparison.at(high))
    return Claim(
        f"{low} is {share:.1%} below {high} at the end".replace(".0%", "%"),
        f"{SOURCE}, there of ensemble sampling",
        judge([pair], 1 - share),
        f"{1 - pair.ratio:.1%} below: {pair.low:,.0f} against {pair.high:,.0f}, ratio {show_ratio(pair)}",
        show_test([pair], 1 - share),
        "Other data, so another number is no surprise; the direction is what can be compared.",
    )

"""Figure 2: cumulative regret on simulated tensors of two sizes and two strengths, all algorithms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from tensorbandits.paper.item import (
    ELIMINATION,
    ENSEMBLE,
    EPOCH_GREEDY,
    ESTR,
    MULTIPLIERS,
    OURS,
    SHOWN,
    THOMPSON,
    UCB,
    Experiment,
    Results,
    all_policies,
    best_multiplier,
    choose,
    merge,
    picture,
    with_hindsight,
)
from tensorbandits.report.evidence import FEW, below, decide, paired, regret_table, show_ratio
from tensorbandits.report.page import Claim, Claims, Part, Section, Text, Verdict
from tensorbandits.sim.compare import Comparison
from tensorbandits.sim.plots import Panel
from tensorbandits.sim.recipes import PaperWorld

RANK = 2
SETTINGS = [(15, 0.5), (20, 0.5), (15, 0.8), (20, 0.8)]
HORIZON, LONG = 10_000, 50_000
QUICK, QUICK_LONG = 2_000, 4_000
SAMPLERS = (THOMPSON, ENSEMBLE)  # played for long, since their tails show late
BOTH = [name + suffix for name in (ENSEMBLE, ELIMINATION, EPOCH_GREEDY) for suffix in ("", OURS)]
SOURCE = "Section 5, Figure 2"


def world(p: int, signal: float) -> tuple[str, PaperWorld]:
    """An environment of the paper, and its name.

    >>> world(15, 0.5)[0]
    'p = 15, w = 0.5'
    """
    return f"p = {p}, w = {signal:g}", PaperWorld(p, signal, rank=RANK)


def experiments(quick: bool) -> list[Experiment]:
    """All policies for as long as shows their order, and the sampling policies for longer."""
    worlds = dict(world(p, signal) for p, signal in SETTINGS)
    policies = all_policies(RANK)
    others = choose(policies, *(name for name in policies if name not in SAMPLERS))
    return [
        Experiment("figure2", others, worlds, QUICK if quick else HORIZON),
        Experiment("figure2-long", choose(policies, *SAMPLERS), worlds, QUICK_LONG if quick else LONG),
    ]


def analyse(results: Results) -> Section:
    """Figures, tables and claims."""
    long = results["figure2-long"]
    horizon = results["figure2"].horizon
    comparison = with_hindsight(merge(long, results["figure2"], until=horizon))
    worlds = comparison.environments
    parts: list[Part] = [
        Text(
            "Tensors of the paper: d = 3, rank 2 (known to the policies), diagonal core, noise N(0, 1). The paper "
            f"does not say its horizons; {horizon:,} rounds show the order of all algorithms, and the sampling "
            f"policies play on to {long.horizon:,}, because runs that lock onto a wrong cell show "
            "late. Lines without more words use the paper's values; the paper does not say its confidence width for "
            "elimination, ours is 1.5. ESTR at its theory radius mostly explores; its multiplier tuned in hindsight "
            "is a line of its own."
        ),
        picture("figure2", _grid(comparison, SHOWN), "Figure 2: cumulative regret"),
        picture(
            "figure2-log",
            [_log_panels(comparison, name) for name in worlds],
            "Figure 2 on logarithmic axes",
            "The same on logarithmic axes, and regret per round.",
        ),
        picture(
            "figure2-long",
            _grid(long, SAMPLERS),
            "Figure 2, played on: sampling policies",
            "The sampling policies, played for longer.",
        ),
        Text(
            "The ratio of Thompson sampling's mean to ensemble sampling's falls over long horizons, as some of the "
            f"latter's runs never recover; the {LONG:,} rounds of the full form were chosen knowing that. After "
            f"{horizon:,} it is "
            + ", ".join(
                f"{show_ratio(paired(long.at(THOMPSON, name, horizon), long.at(ENSEMBLE, name, horizon)))} at {name}"
                for name in worlds
            )
            + "."
        ),
        Claims(claims(comparison, long)),
        *(regret_table(comparison, UCB, name, [*SHOWN, *(n for n in BOTH if n not in SHOWN)]) for name in worlds),
        Text(
            f"The multipliers of ESTR's squared radius tried were {', '.join(f'{m:g}' for m in (1.0, *MULTIPLIERS))}; "
            "the best were " + ", ".join(f"{best_multiplier(comparison, name):g} ({name})" for name in worlds) + "."
        ),
    ]
    return Section("Figure 2: simulated tensors", parts)


def claims(comparison: Comparison, long: Comparison) -> list[Claim]:
    """What the paper says of Figure 2, and what is said of our Thompson sampling."""
    early = comparison.horizon // 10
    theirs, ours = partial(below, source=SOURCE, comparison=comparison), partial(below, source="this project")
    return [
        theirs(
            "Ensemble sampling outperforms all other methods in all settings",
            low=ENSEMBLE,
            high=[ELIMINATION, EPOCH_GREEDY, ESTR, UCB],
        ),
        ours(
            "The same for ensemble sampling with our defaults, against elimination and epoch-greedy with ours",
            comparison=comparison,
            low=ENSEMBLE + OURS,
            high=[ELIMINATION + OURS, EPOCH_GREEDY + OURS, ESTR, UCB],
        ),
        theirs(
            "Elimination is second: better than the others at a long horizon",
            low=ELIMINATION,
            high=[EPOCH_GREEDY, ESTR, UCB],
        ),
        theirs(
            "Epoch-greedy is better early: below elimination",
            low=EPOCH_GREEDY,
            high=[ELIMINATION],
            at=early,
            why="With the paper's values half of epoch-greedy's rounds are uniform, and its completions of a few "
            "hundred rewards are too poor for the other half to gain much.",
        ),
        _early_advantage(comparison, early),
        ours(
            "Thompson sampling's mean is at most 0.6 of that of ensemble sampling with the paper's values",
            comparison=long,
            low=THOMPSON,
            high=[ENSEMBLE],
            most=0.6,
        ),
        _tail(long),
    ]


def _early_advantage(comparison: Comparison, early: int) -> Claim:
    """Is epoch-greedy's early ratio to elimination below 1, and lower for the larger tensors?"""
    ratios = {
        name: paired(comparison.at(EPOCH_GREEDY, name, early), comparison.at(ELIMINATION, name, early))
        for name in comparison.environments
    }
    intervals = []
    for signal in (0.5, 0.8):
        small, large = (ratios[world(p, signal)[0]] for p in (15, 20))
        growth = math.log(large.ratio / small.ratio)
        half = 1.96 * math.hypot(small.error, large.error)
        intervals += [(growth - half, growth + half), (large.interval[0] - 1, large.interval[1] - 1)]
    return Claim(
        "Epoch-greedy has an early advantage over elimination, and more of it for larger p",
        SOURCE,
        decide(intervals),
        f"ratio after {early:,} rounds: " + "; ".join(f"{name}: {show_ratio(pair)}" for name, pair in ratios.items()),
        "95 % intervals of the ratios at p = 20, and of their change from p = 15 to 20",
        "Both spend most of their early rounds on uniform play.",
    )


def _tail(long: Comparison) -> Claim:
    """Is Thompson sampling's worst replication within three times its median?"""
    rows = [row for row in long.table() if row.policy == THOMPSON]
    holds = all(row.worst <= 3 * row.median for row in rows)
    verdict: Verdict = "not decided" if rows[0].replications < FEW else "holds" if holds else "does not hold here"
    return Claim(
        "Thompson sampling's worst replication is at most 3 times its median",
        "this project",
        verdict,
        "; ".join(
            f"{row.environment}: worst {row.worst:,.0f}, median {row.median:,.0f} (ratio {row.worst / row.median:.2f})"
            for row in rows
        ),
        "",
        "The worst tensors have a best cell far above what the data of the first rounds suggest; the posterior then "
        "finds it improbable that anything beats the cell found first, and looks further only now and then.",
    )


def _grid(comparison: Comparison, policies: Sequence[str]) -> list[list[Panel]]:
    """A panel for each environment, two in a row."""
    panels = [Panel(comparison, name, name, policies) for name in comparison.environments]
    return [panels[:2], panels[2:]]


def _log_panels(comparison: Comparison, name: str) -> list[Panel]:
    return [
        Panel(comparison, name, f"{name}, logarithmic axes", SHOWN, scale="log"),
        Panel(comparison, name, f"{name}, regret per round", SHOWN, scale="log", quantity="per round"),
    ]

"""Whether the features of a log's levels are worth collecting, in words and as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tensorbandits.data.log import Log
from tensorbandits.data.profile import Profile
from tensorbandits.model.worth import Gain, Worth, worth
from tensorbandits.report.page import Section, Table, Text, escape
from tensorbandits.space import Space
from tensorbandits.space.features import levels_of
from tensorbandits.tensor.tucker import Floats

_SIZES = 3  # numbers of rewards that are looked at, at most


def features_of(log: Log, features: Mapping[str, Any] | None) -> dict[int, Floats]:
    """Return the features of the log's levels as columns of numbers, by position of the mode.

    Levels that the log does not have are left out; those of which nothing is said have missing values.
    """
    known: dict[str, list[tuple[Any, Any]]] = {}
    for mode, given in (features or {}).items():
        if mode not in log.modes:
            raise ValueError(f"features of {mode!r} are given; the log has the modes {', '.join(map(repr, log.modes))}")
        levels = set(log.levels[log.modes.index(mode)])
        pairs = levels_of(given, mode)
        known[mode] = [pair for pair in pairs if pair[0] in levels]
        if not known[mode]:
            first = ", ".join(repr(label) for label, _ in pairs[:3]) or "none"
            raise ValueError(
                f"no level of {mode!r} in the log has features; they are of {first}, the log's levels are such as "
                f"{log.levels[log.modes.index(mode)][0]!r}: give them by the same labels"
            )
    return Space(dict(zip(log.modes, log.levels, strict=True)), features=known).feature_numbers() if known else {}


def features_worth(log: Log, facts: Profile, numbers: dict[int, Floats], seed: int) -> list[Worth]:
    """Return what the features of each mode are worth, after numbers of rewards up to what a bandit will have."""
    most = facts.curve.at(facts.bandit_rewards).rewards
    sizes = [point.rewards for point in facts.curve.points if point.rewards <= most][-_SIZES:]
    return worth(log.rewards(), facts.kind, facts.low_rank, numbers, sizes, seed)


def worth_words(log: Log, found: Sequence[Worth]) -> list[str]:
    """Say of each mode in a sentence whether its features are worth collecting."""
    words = []
    for mode in dict.fromkeys(one.mode for one in found):
        here = [one for one in found if one.mode == mode]
        sure = [
            what
            for what, gains in (("known levels", [x.known for x in here]), ("new ones", [x.new for x in here if x.new]))
            if any(gain.sure for gain in gains)
        ]
        name = escape(log.modes[mode])
        if sure:
            words.append(f"Features of {name} are worth collecting: they surely help to predict {' and '.join(sure)}.")
        else:
            words.append(f"That features of {name} help to predict rewards was not found: they need not be collected.")
    return words


def worth_section(log: Log, found: Sequence[Worth]) -> Section:
    """Return the section of a report about features."""
    rows = [
        [escape(log.modes[one.mode]), f"{one.rewards:,}", *_cells(one.known), *(_cells(one.new) if one.new else "––")]
        for one in found
    ]
    return Section(
        "Are features worth collecting",
        [
            Text("\n".join(f"- {line}" for line in worth_words(log, found))),
            Table(["mode", "rewards", "known levels", "sure", "new levels", "sure"], rows),
            Text(
                "The gain in the mean log density of held-out rewards by the features of a mode, with its standard "
                "error, after so many rewards, and as a share of what is learned beyond the overall mean. For *known* "
                "levels one quarter of the rewards is held out after the other, for *new* ones all rewards of one "
                "quarter of the levels, of which only features are known then."
            ),
        ],
    )


def _cells(gain: Gain) -> list[str]:
    share = f" ({gain.share:.0%})" if gain.learned > 0.0 else ""
    return [f"{gain.ahead:.2g} ± {gain.error:.1g}{share}", "yes" if gain.sure else "no"]

"""What can be done about what a checkup found: in words, in Python, and as a change that a service can make."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tensorbandits.space import Space
from tensorbandits.space.labels import Label, written

_LEAST = 300.0  # rewards of a half-life that is suggested
_FLOOR = 0.02  # share of decisions of a level whose comeback may matter
_MOST_FLOORS = 3


class Action(NamedTuple):
    """Something to do: its words, the line of Python that does it to ``bandit``, and the change that does it.

    ``change`` is the name of a method of a bandit with its arguments, as JSON has them; ``None`` for what cannot be
    done to a bandit that runs. ``undo`` is what takes it back, in the same way.
    """

    words: str
    python: str
    change: dict[str, Any] | None = None
    undo: dict[str, Any] | None = None


def retire(space: Space, mode: str, label: Label) -> Action | None:
    """Return how to choose a level no more, if others are left to be chosen."""
    gone = space.retired.get(mode, [])
    if (
        space.position(mode) in space.context
        or label in gone
        or len(space.levels[space.position(mode)]) - len(gone) < 2
    ):
        return None
    body = {"mode": mode, "label": written(label)}
    words = f"stop choosing {mode} {label!r}, if it is broken or gone for good"
    python = f"bandit.retire_level({mode!r}, {label!r})"
    return Action(words, python, {"retire_level": body}, {"restore_level": body})


def forget(ago: int) -> Action:
    """Return how to let old rewards fade, where something moved so many rewards ago."""
    length = max(float(ago), _LEAST)
    digits = 10.0 ** max(0, math.floor(math.log10(length)) - 1)
    half_life = int(round(length / digits) * digits)
    return Action(
        f"let old rewards fade, so that the bandit follows by itself: one counts half after {half_life:,} others",
        f"bandit.change(half_life={half_life})",
        {"change": {"half_life": half_life}},
        {"change": {"half_life": None}},
    )


def try_again(levels: Mapping[str, Sequence[Label]]) -> Action | None:
    """Return how to keep trying levels that are hardly played, if there are a few of them."""
    some = [(mode, label) for mode, labels in levels.items() for label in labels]
    if not 0 < len(some) <= _MOST_FLOORS:
        return None
    listed = ", ".join(f"{mode} {label!r}" for mode, label in some)
    return Action(
        f"keep trying {listed} in {_FLOOR:.0%} of decisions, if a comeback matters",
        f"bandit.change(floors={[({mode: label}, _FLOOR) for mode, label in some]!r})",
        {"change": {"floors": [{"labels": {mode: written(label)}, "share": _FLOOR} for mode, label in some]}},
        {"change": {"floors": None}},
    )


def rebuild(structure: str | None) -> Action:
    """Return how to go on with another structure, which a bandit that runs cannot take."""
    given = "" if structure is None else f", structure={structure!r}"
    what = "with main effects only" if structure == "additive" else "that learns by itself which structure fits"
    return Action(
        f"go on with another bandit {what}, which takes over all rewards: one that runs keeps its structure",
        f"new = tb.Bandit(bandit.space{given}); new.tell_bandit(bandit)",
    )

"""What can be asked of a bandit, as values: each is checked at the edge once, and then planned as events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tensorbandits.bandit.apprentice import Shadow
from tensorbandits.bandit.visitors import Place
from tensorbandits.bandit.warm_start import Past
from tensorbandits.base.checks import Cell
from tensorbandits.space.labels import Label
from tensorbandits.space.partition import Partition

Numbers = tuple[tuple[int, tuple[float | None, ...]], ...]


class Ask(NamedTuple):
    """A request for a decision, in levels: the context's, and those that may be chosen, by position of the mode.

    ``played`` is the cell that a caller's own rule plays, if the bandit is an apprentice, with its ``propensity``.
    ``subject`` is who it is for, by an id of the caller's, and ``place`` on which side that puts them; ``numbers`` are
    what it brought of modes whose regions are still to be learned, by position.
    """

    levels: Cell = ()
    chosen: tuple[tuple[int, Cell], ...] = ()
    id: str | None = None
    active: bool = True
    played: Cell | None = None
    propensity: float | None = None
    subject: str | None = None
    place: Place | None = None
    numbers: Numbers = ()


class Drawn(NamedTuple):
    """What was drawn for a request: the cell, its probability if that is known, by what, and the policy's note.

    ``version`` is that of the rules and settings that it was drawn by; ``would`` is what an apprentice would have done;
    ``draw`` is the number of the posterior draw that decided, if one did; ``chances`` are those that the policy, and
    that the holdout, would make it; ``part`` is that of the visitor, where a draw between sides was made by it.
    """

    cell: Cell
    propensity: float | None
    by: str
    note: Any = None
    version: Any = None
    would: Shadow | None = None
    draw: int | None = None
    chances: tuple[float, float] = (1.0, 0.0)
    part: int | None = None


@dataclass(frozen=True, slots=True)
class Decide:
    """Enter a decision that was drawn, under an id, with the numbers that regions are still to be learned from."""

    drawn: Drawn
    id: str
    active: bool = True
    numbers: Numbers = ()


@dataclass(frozen=True, slots=True)
class Tell:
    """Tell the reward of a decision, replace it (``amend``), or add to it."""

    id: Any
    reward: Any
    amend: bool = False
    add: bool = False


@dataclass(frozen=True, slots=True)
class TellCell:
    """Tell the reward of a cell without a decision; with ``trials``, so many of which ``reward`` succeeded."""

    cell: Cell
    reward: Any
    trials: Any = None


@dataclass(frozen=True, slots=True)
class Activate:
    """Say that a decision was shown."""

    id: Any


@dataclass(frozen=True, slots=True)
class Cancel:
    """Say that a decision was not carried out."""

    id: Any


@dataclass(frozen=True, slots=True)
class Adopt:
    """Enter a decision that a decider made elsewhere at a ``time``, unless it is known already; ``then`` tells of it.

    What was drawn comes from the token that is its id, whose signature somebody has checked.
    """

    id: str
    drawn: Drawn
    time: float
    then: Tell | Activate | Cancel | None = None


@dataclass(frozen=True, slots=True)
class Forget:
    """Put names in the place of the ids of decisions: each has its id, its name and the time when it was made.

    ``salt`` is random text, ``why`` what the log says of the reason.
    """

    decisions: Sequence[tuple[str, str, float]]
    salt: str
    why: str


@dataclass(frozen=True, slots=True)
class Expire:
    """Close decisions whose window has ended, and those that are too many; at most so many at once."""

    most: int | None = None


@dataclass(frozen=True, slots=True)
class AddLevel:
    """Give a mode another level, which may start like another one, with what is known of its features."""

    mode: Any
    label: Label
    like: Label | None = None
    rewards: Any = None
    features: Any = None


@dataclass(frozen=True, slots=True)
class Describe:
    """Say what levels of a mode are like: features by label, ``None`` for none; ``anew`` in the place of all."""

    mode: Any
    features: Any
    anew: bool = False


@dataclass(frozen=True, slots=True)
class RetireLevel:
    """Choose a level no more."""

    mode: Any
    label: Label


@dataclass(frozen=True, slots=True)
class RestoreLevel:
    """Choose a retired level again."""

    mode: Any
    label: Label


@dataclass(frozen=True, slots=True)
class LearnRegions:
    """Learn the regions of a mode of numbers from the requests so far, if these are enough, or as a log says them."""

    mode: Any
    partition: Partition | None = None


@dataclass(frozen=True, slots=True)
class SplitRegion:
    """Split a region of a mode of numbers in two, at a value of one of the numbers."""

    mode: Any
    region: Any
    at: Any = None
    number: Any = None


@dataclass(frozen=True, slots=True)
class ChangeRule:
    """Make a rule (``{"forbid": {...}}`` or ``{"allow": {...}}``), or take it back."""

    rule: Mapping[str, Any]
    add: bool


@dataclass(frozen=True, slots=True)
class ChangeSettings:
    """Change shares, windows, or whether the bandit is an apprentice."""

    given: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Import:
    """Tell the rewards of a log from elsewhere, which was read already."""

    past: Past
    fixed: Any = None
    unknown: Any = None
    weight: float = 1.0

    def how(self) -> dict[str, Any]:
        """Return how it is to be told."""
        return {"fixed": self.fixed, "unknown": self.unknown, "weight": self.weight}


Command = (
    Decide
    | Tell
    | TellCell
    | Activate
    | Cancel
    | Adopt
    | Forget
    | Expire
    | AddLevel
    | Describe
    | RetireLevel
    | RestoreLevel
    | LearnRegions
    | SplitRegion
    | ChangeRule
    | ChangeSettings
    | Import
)
# After these much is otherwise.
ALONE = (AddLevel, Describe, RetireLevel, RestoreLevel, LearnRegions, SplitRegion, ChangeRule, ChangeSettings, Import)


def chosen(allowed: Mapping[int, Sequence[int]]) -> tuple[tuple[int, Cell], ...]:
    """Return levels that may be chosen, by mode, in the form that requests have.

    >>> chosen({2: [1, 0], 1: [3]})
    ((1, (3,)), (2, (1, 0)))
    """
    return tuple((mode, tuple(allowed[mode])) for mode in sorted(allowed))

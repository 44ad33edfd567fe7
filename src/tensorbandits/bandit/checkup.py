"""What a bandit's own rewards say of how it is made, and of whether the world is still the same, with labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorbandits.bandit import actions, matters
from tensorbandits.bandit.actions import Action
from tensorbandits.bandit.drift import NEWS, Drift, Move, drift
from tensorbandits.bandit.history import History
from tensorbandits.bandit.matters import Matters
from tensorbandits.bandit.sensitivity import Sensitivity, said_of, sensitivity
from tensorbandits.ledger import Ledger
from tensorbandits.model.curve import FEWEST
from tensorbandits.model.effects import Kind, kind_of, kind_of_reward
from tensorbandits.model.enough import rounded
from tensorbandits.policies.diagnosis import Diagnosis, diagnose
from tensorbandits.space import Space
from tensorbandits.space.labels import Label

_LISTED = 5  # levels that a sentence lists
_MILLION = 1e6


class Moved(NamedTuple):
    """A level whose rewards have changed; mode and label are ``None`` where all levels alike have.

    ``ago`` is how many rewards were told since, about. ``before`` and ``after`` are mean rewards of the same ``cells``,
    weighted alike, of revenue their conversion rates. ``share`` is how much of the evidence for a change speaks for
    this level rather than another.
    """

    mode: str | None
    label: Label | None
    ago: int
    before: float
    after: float
    cells: int
    share: float


class Movement(NamedTuple):
    """What moved, whether it could have been noticed, and what to do.

    ``verdict`` is ``"moved"``, ``"still"`` where a level that earned half, or twice, what it did would mostly have been
    noticed, or ``"too few"``; ``needed`` is about how many rewards it takes to tell, of clicks that have not come yet
    how many clicks (``in_events``). ``unjudged`` are levels of which it cannot be known, by mode.
    """

    verdict: Literal["moved", "still", "too few"]
    moved: tuple[Moved, ...]
    evidence: float
    rewards: int
    needed: float
    in_events: bool
    unjudged: dict[str, tuple[Label, ...]]
    words: str


@dataclass(frozen=True, repr=False)
class Checkup:
    """Which structure the rewards of a bandit speak for, and which levels have moved.

    ``structure`` is what :meth:`~tensorbandits.TensorThompsonSampling.diagnose` returns, of rewards as far as they
    still count. ``moved`` is empty where nothing has. ``evidence`` is how many times better rewards are explained by
    some level's having moved than by none: 20 is news, which it is in at most one of 20 worlds in which nothing ever
    moves, however often one looks. ``rewards`` are those that were compared. ``words`` says it in a sentence. Of
    revenue all of it is about conversions: whether amounts have moved is not looked at.

    ``matters`` is how much modes matter alone and together: the page shows no other. ``drift`` is whether a move would
    have been noticed; that too few rewards are there to tell is an answer. ``actions`` are what can be done about it.
    """

    structure: Diagnosis
    moved: tuple[Moved, ...]
    evidence: float
    rewards: int
    words: str
    matters: Matters
    drift: Movement
    actions: tuple[Action, ...]

    def __repr__(self) -> str:
        todo = [f"What to do: {one.words}: {one.python}" for one in self.actions]
        return "\n".join([self.words, *todo, repr(self.structure)])


class Known(NamedTuple):
    """What a bandit knows, and what its policy makes of it: all that a checkup looks at."""

    space: Space
    ledger: Ledger
    history: History
    reward: str | None
    playing: Mapping[str, float]
    together: NDArray[np.float64] | None  # the share of modes acting together that is believed, with bounds
    structure: str | None  # that was given to the policy
    forgets: bool | None  # whether rewards fade; None for a policy that cannot forget
    floors: bool


def checkup(known: Known, *, max_rank: int, seed: int) -> Checkup:
    """Return what rewards say of structures, beside those that a policy plays, and which levels moved."""
    kind = _kind(known.ledger, known.history, known.reward)
    if known.ledger.rounds < FEWEST:
        matter = matters.too_few(known.space.shape, kind, known.ledger.rounds, FEWEST)
        structure = Diagnosis(kind, 0, {}, {}, None, None, matter.words, needed=matter.needed)
    else:
        reward = known.reward or kind
        structure = diagnose(known.ledger, reward, max_rank=max_rank, seed=seed, playing=known.playing)
        matter = Matters.of(structure, known.together, known.ledger.rounds)
        structure = replace(structure, words=matter.words)  # one voice: held-out rewards alone may say otherwise
    movement = _movement(known, kind)
    return Checkup(
        structure=structure,
        moved=movement.moved,
        evidence=movement.evidence,
        rewards=movement.rewards,
        words=movement.words,
        matters=matter,
        drift=movement,
        actions=tuple(_actions(known, matter, movement)),
    )


def _kind(ledger: Ledger, history: History, reward: str | None) -> Kind:
    """The kind of reward that is known, or that rewards which have not faded show."""
    if reward is not None:
        return kind_of_reward(reward, ledger)[0]
    whole = Ledger(history.shape)
    for block in history.blocks:
        whole.merge(block)
    return kind_of(whole if len(whole) else ledger)


def _movement(known: Known, kind: Kind) -> Movement:
    found, noticed = drift(known.history, kind), sensitivity(known.history, kind)
    moved = tuple(_named(known.space, move) for move in found.moves)
    unjudged = {
        mode: tuple(
            label
            for level, label in enumerate(known.space.levels[at])
            if level not in noticed.levels[at] and label not in known.space.retired.get(mode, [])
        )
        for at, mode in enumerate(known.space.modes)
    }
    unjudged = {mode: labels for mode, labels in unjudged.items() if labels}
    what = "conversion rates" if known.ledger.kind else "mean rewards"
    verdict: Literal["moved", "still", "too few"]
    if moved:
        verdict, words = "moved", _moved_words(found, moved, what)
    elif noticed.enough:
        verdict, words = "still", _still_words(found, kind, unjudged)
    else:
        verdict, words = "too few", _too_few_words(found, kind, noticed)
    return Movement(verdict, moved, found.evidence, found.rewards, noticed.needed, noticed.in_events, unjudged, words)


def _named(space: Space, move: Move) -> Moved:
    mode = label = None
    if move.mode is not None and move.level is not None:
        mode, label = space.modes[move.mode], space.levels[move.mode][move.level]
    return Moved(mode, label, move.ago, move.before, move.after, move.cells, move.share)


def _moved_words(found: Drift, moved: tuple[Moved, ...], what: str) -> str:
    parts = [
        f"{'everything' if one.mode is None else f'{one.mode} {one.label!r}'} has moved, about {one.ago:,} rewards ago "
        f"({what} of the same cells: {one.before:.3g} before, {one.after:.3g} since)"
        for one in moved
    ]
    words = "; ".join(parts)
    evidence = f"{found.evidence:.2g}" if found.evidence < _MILLION else "more than a million"
    return f"{words[0].upper()}{words[1:]}. The evidence is {evidence}, and {NEWS:g} is news."


def _still_words(found: Drift, kind: Kind, unjudged: Mapping[str, tuple[Label, ...]]) -> str:
    words = (
        f"No level has moved: one that moved {said_of(kind)}, half way through {found.rewards:,} rewards, would "
        f"mostly have been noticed. The evidence is {found.evidence:.2g}, and {NEWS:g} would be news."
    )
    if unjudged:
        words += f" Too little was played to tell of {_listed(unjudged)}."
    return words


def _listed(levels: Mapping[str, tuple[Label, ...]]) -> str:
    """Levels by mode, of many how many there are."""
    return "; ".join(
        f"{mode} {', '.join(repr(label) for label in labels)}"
        if len(labels) <= _LISTED
        else f"{len(labels):,} levels of {mode}"
        for mode, labels in levels.items()
    )


def _too_few_words(found: Drift, kind: Kind, noticed: Sensitivity) -> str:
    what = ("clicks" if kind == "bernoulli" else "rewards other than 0") if noticed.in_events else "rewards"
    have = f"{found.rewards:,} reward{'' if found.rewards == 1 else 's'} so far"
    have += ", all of them 0" if noticed.in_events and found.rewards else ""
    return (
        f"Too few to tell whether anything has moved: {have}. From about {rounded(noticed.needed)} {what} on, a "
        f"level that moves {said_of(kind)} is mostly noticed; what moves more is found sooner."
    )


def _actions(known: Known, matter: Matters, movement: Movement) -> Iterator[Action]:
    fallen = [(m.mode, m.label) for m in movement.moved if m.mode is not None and m.after < m.before]
    for mode, label in fallen:
        if label is not None and (found := actions.retire(known.space, mode, label)) is not None:
            yield found
    if movement.moved and known.forgets is not None and not known.forgets:
        yield actions.forget(max(one.ago for one in movement.moved))
    if movement.verdict == "still" and not known.floors:
        decided = {
            mode: labels
            for mode, labels in movement.unjudged.items()
            if known.space.position(mode) not in known.space.context
        }
        if (floors := actions.try_again(decided)) is not None:
            yield floors
    if known.structure == "additive" and matter.verdict == "together":
        yield actions.rebuild(None)
    elif known.structure not in (None, "additive") and matter.verdict == "alone":
        yield actions.rebuild("additive")

"""What a bandit's own rewards say of how it is made, and of whether the world is still the same, with labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tensorbandits.bandit.drift import NEWS, Drift, Move, drift
from tensorbandits.bandit.history import History
from tensorbandits.ledger import Ledger
from tensorbandits.model.effects import Kind, kind_of, kind_of_reward
from tensorbandits.policies.diagnosis import Diagnosis, diagnose
from tensorbandits.space import Space
from tensorbandits.space.labels import Label


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


@dataclass(frozen=True, repr=False)
class Checkup:
    """Which structure the rewards of a bandit speak for, and which levels have moved.

    ``structure`` is what :meth:`~tensorbandits.TensorThompsonSampling.diagnose` returns, of rewards as far as they
    still count. ``moved`` is empty where nothing has. ``evidence`` is how many times better rewards are explained by
    some level's having moved than by none: 20 is news, which it is in at most one of 20 worlds in which nothing ever
    moves, however often one looks. ``rewards`` are those that were compared. ``words`` says it in a sentence. Of
    revenue all of it is about conversions: whether amounts have moved is not looked at.
    """

    structure: Diagnosis
    moved: tuple[Moved, ...]
    evidence: float
    rewards: int
    words: str

    def __repr__(self) -> str:
        return f"{self.words}\n{self.structure!r}"


def checkup(
    space: Space,
    ledger: Ledger,
    history: History,
    reward: str | None,
    playing: Mapping[str, float],
    *,
    max_rank: int,
    seed: int,
) -> Checkup:
    """Return what a ledger says of structures, beside those that a policy plays, and a history of levels that moved."""
    kind = _kind(ledger, history, reward)
    structure = diagnose(ledger, reward or kind, max_rank=max_rank, seed=seed, playing=playing)
    found = drift(history, kind)
    moved = tuple(_named(space, move) for move in found.moves)
    what = "conversion rates" if ledger.kind else "mean rewards"
    return Checkup(structure, moved, found.evidence, found.rewards, _words(found, moved, what))


def _kind(ledger: Ledger, history: History, reward: str | None) -> Kind:
    """The kind of reward that is told, or that rewards which have not faded show."""
    if reward is not None:
        return kind_of_reward(reward, ledger)[0]
    whole = Ledger(history.shape)
    for block in history.blocks:
        whole.merge(block)
    return kind_of(whole if len(whole) else ledger)


def _named(space: Space, move: Move) -> Moved:
    mode = label = None
    if move.mode is not None and move.level is not None:
        mode, label = space.modes[move.mode], space.levels[move.mode][move.level]
    return Moved(mode, label, move.ago, move.before, move.after, move.cells, move.share)


def _words(found: Drift, moved: tuple[Moved, ...], what: str) -> str:
    if not moved:
        return (
            f"No level has moved, as far as {found.rewards:,} rewards tell: the evidence is {found.evidence:.2g}, and "
            f"{NEWS:g} would be news."
        )
    parts = [
        f"{'everything' if one.mode is None else f'{one.mode} {one.label!r}'} has moved, about {one.ago:,} rewards ago "
        f"({what} of the same cells: {one.before:.3g} before, {one.after:.3g} since)"
        for one in moved
    ]
    words = "; ".join(parts)
    return f"{words[0].upper()}{words[1:]}. The evidence is {found.evidence:.2g}, and {NEWS:g} is news."

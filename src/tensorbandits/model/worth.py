"""What features of levels are worth: held-out scores of a structure with them, beside the same structure without.

Two questions are asked of a log. *Known* levels: after so many rewards, how much better are others of the same levels
predicted? And *new* levels: all rewards of a quarter of the levels are held out, so that of these nothing is known but
their features. Scores are mean log densities per reward, as in ``model/scores.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tensorbandits.model.curve import MATTERS, SURE, divisions
from tensorbandits.model.described import NOT_DESCRIBED, DescribedModes, described
from tensorbandits.model.effects import Family, Kind
from tensorbandits.model.held_out import Rewards
from tensorbandits.model.scores import OVERALL, Form, Scores, predictions
from tensorbandits.tensor.tucker import Floats, Ints

_FOLDS = 4  # quarters of the levels, each of which is held out once
_WITH, _WITHOUT = "with", "without"


class Gain(NamedTuple):
    """How much better rewards are predicted with features than without, per reward, with its standard error.

    ``learned`` is how much better than by the overall mean they are predicted by the better of both.

    >>> Gain(0.02, 0.005, 0.1).sure, Gain(0.02, 0.015, 0.1).sure, Gain(0.0001, 0.00001, 0.1).sure
    (True, False, False)
    """

    ahead: float
    error: float
    learned: float

    @property
    def sure(self) -> bool:
        """Whether features surely help, by so much that it matters."""
        return self.ahead > max(SURE * self.error, MATTERS * self.learned)

    @property
    def share(self) -> float:
        """The gain as a share of what is learned with the better of both."""
        return self.ahead / self.learned if self.learned > 0.0 else 0.0


class Worth(NamedTuple):
    """What the features of a mode are worth when models learn from so many rewards."""

    mode: int
    rewards: int
    known: Gain
    new: Gain | None  # None where there are too few levels to hold some out


def worth(
    rewards: Rewards, kind: Kind, structure: Form, features: dict[int, Floats], sizes: Sequence[int], seed: int
) -> list[Worth]:
    """Return what the features (p_j, m_j) of each mode are worth by themselves, for each number of rewards.

    >>> rng = np.random.default_rng(0); numbers = rng.standard_normal((12, 1)); cells = np.argwhere(np.ones((12, 3)))
    >>> rates = 1 / (1 + np.exp(-2.0 * numbers[cells[:, 0], 0] * (cells[:, 1] - 1.0))); ones = rng.binomial(40, rates)
    >>> counts = np.column_stack([40 - ones, ones]).ravel()
    >>> rewards = Rewards((12, 3), np.repeat(cells, 2, axis=0), np.tile([0.0, 1.0], 36), counts)
    >>> (found,) = worth(rewards, "bernoulli", Form("tucker", 1), {0: numbers}, [400], 0)
    >>> found.new.sure, found.known.ahead < found.new.ahead
    (True, True)
    """
    found = []
    for number, (mode, numbers) in enumerate(features.items()):
        for step, size in enumerate(sizes):
            one, two = np.random.SeedSequence([seed, number, step]).spawn(2)
            given = described({mode: numbers})
            known = _gain(rewards, kind, structure, given, divided(rewards, size, one))
            new = None
            if rewards.shape[mode] >= 2 * _FOLDS:
                new = _gain(rewards, kind, structure, given, without_levels(rewards, mode, size, two), by=mode)
            found.append(Worth(mode, size, known, new))
    return found


Parts = Iterator[tuple[Rewards, Rewards, np.random.Generator]]  # what is learned from, what is held out


def divided(rewards: Rewards, size: int, seed: np.random.SeedSequence) -> Parts:
    """Yield parts of the rewards with one quarter of them held out after the other."""
    dealt, drawn = seed.spawn(2)
    rng = np.random.default_rng(drawn)
    for (part,), held_out in divisions(rewards, [size], dealt):
        yield part, held_out, rng


def without_levels(rewards: Rewards, mode: int, size: int, seed: np.random.SeedSequence) -> Parts:
    """Yield parts of the rewards with those of one quarter of the levels of a mode held out after the other."""
    rng = np.random.default_rng(seed)
    fold = rng.permutation(np.arange(rewards.shape[mode]) % _FOLDS)
    for quarter in range(_FOLDS):
        out = fold[rewards.cells[:, mode]] == quarter
        rest = rewards._replace(counts=np.where(out, 0, rewards.counts))
        held_out = rewards._replace(counts=np.where(out, rewards.counts, 0))
        if rest.total and held_out.total:
            part, _ = rest.deal([min(size, rest.total)], rng)
            yield part, held_out, rng


def _gain(
    rewards: Rewards, kind: Kind, structure: Form, given: DescribedModes, parts: Parts, by: int | None = None
) -> Gain:
    """Return what features gain; rewards of one level of the mode ``by`` are not independent of each other."""
    found = []
    for part, held_out, rng in parts:
        train, asked = part.ledger(), held_out.ledger()
        family = Family.of(train + asked, kind)
        scores: dict[str, Floats] = {}
        for name, features in ((_WITH, given), (_WITHOUT, NOT_DESCRIBED)):
            means = predictions(train, asked.cells, family, [structure], rng, features)
            scores[name] = family.log_scores(asked, means[str(structure)])
            scores[OVERALL] = family.log_scores(asked, means[OVERALL])
        counts = asked.counts
        if by is not None:
            levels = asked.cells[:, by]
            scores = {name: _summed(levels, each) for name, each in scores.items()}
            counts = _summed(levels, counts)
        found.append(Scores.of(part.total, scores, counts))
    joined = Scores.join(found)
    ahead, error = joined.ahead(_WITH, _WITHOUT)
    return Gain(ahead, error, max(joined[_WITH], joined[_WITHOUT]) - joined[OVERALL])


def _summed(levels: Ints, numbers: Floats) -> Floats:
    """Return sums by level, of levels that have some."""
    sums = np.bincount(levels, numbers)
    return np.asarray(sums[np.bincount(levels) > 0])

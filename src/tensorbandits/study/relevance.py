"""Which modes matter: held-out scores of models that know a mode, beside models that do not."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tensorbandits.tensor.curve import divisions
from tensorbandits.tensor.dealing import Rewards
from tensorbandits.tensor.effects import Family, Kind
from tensorbandits.tensor.scores import EFFECTS, Form, Scores, predictions
from tensorbandits.tensor.tucker import Floats

_SURE = 2.0  # standard errors


class Relevance(NamedTuple):
    """By how much a mode raises the held-out score, per reward, and the standard error of that."""

    mode: int
    lead: float
    error: float

    @property
    def matters(self) -> bool:
        """Whether models that know the mode surely predict better."""
        return self.lead > _SURE * self.error


def relevance(
    rewards: Rewards, kind: Kind, structure: Form, size: int, seed: np.random.SeedSequence
) -> list[Relevance]:
    """Return the relevance of each mode, for models that learn from ``size`` rewards: main effects, or a structure.

    >>> cells = np.argwhere(np.ones((4, 3, 3))); rates = 0.2 + 0.2 * cells[:, 0]
    >>> counts = np.column_stack([500 - (500 * rates).astype(int), (500 * rates).astype(int)]).ravel()
    >>> rewards = Rewards((4, 3, 3), np.repeat(cells, 2, axis=0), np.tile([0.0, 1.0], len(cells)), counts)
    >>> found = relevance(rewards, "bernoulli", Form("tucker", 1), 9000, np.random.SeedSequence(0))
    >>> [item.matters for item in found]
    [True, False, False]
    """
    order = len(rewards.shape)
    if order < 3:  # with one mode left there is no combination to learn of
        return []
    models = EFFECTS, str(structure)
    dealt, drawn = seed.spawn(2)
    rng, found = np.random.default_rng(drawn), []
    for (train,), held_out in divisions(rewards, [size], dealt):
        asked = held_out.ledger()
        family = Family.of(train.ledger() + asked, kind)
        by_cell: dict[str, Floats] = {}
        for j in (None, *range(order)):
            cells = asked.cells if j is None else np.delete(asked.cells, j, axis=1)
            seen = (train if j is None else without(train, j)).ledger()
            means = predictions(seen, cells, family, [structure], rng)
            by_cell |= {f"{model} without {j}": family.log_scores(asked, means[model]) for model in models}
        found.append(Scores.of(train.total, by_cell, asked.counts))
    scores = Scores.join(found)
    best = {
        j: max((f"{model} without {j}" for model in models), key=lambda name: scores[name])
        for j in (None, *range(order))
    }
    return [Relevance(j, *scores.ahead(best[None], best[j])) for j in range(order)]


def without(rewards: Rewards, mode: int) -> Rewards:
    """Return the same rewards as those of a space without a mode.

    >>> without(Rewards((2, 3), np.array([[0, 2], [1, 0]]), np.ones(2), np.ones(2, int)), 0).cells.tolist()
    [[0], [2]]
    """
    cells = np.delete(rewards.cells, mode, axis=1)
    order = np.lexsort(cells.T[::-1])
    shape = tuple(size for j, size in enumerate(rewards.shape) if j != mode)
    return Rewards(shape, cells[order], rewards.values[order], rewards.counts[order])

"""Which modes matter: held-out scores of models that know a mode, beside models that do not."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array, diags_array
from scipy.special import chdtrc, chndtrinc

from tensorbandits.ledger import Ledger
from tensorbandits.model.curve import MATTERS, SURE, divisions
from tensorbandits.model.effects import Family, Kind
from tensorbandits.model.held_out import Rewards
from tensorbandits.model.scores import EFFECTS, OVERALL, Form, Scores, predictions
from tensorbandits.tensor.tucker import Floats

_UNSURE = 0.025  # probability of what is surely not so
_ROUNDING = 1e-14  # of sums, per level
_CHANCE = 0.01  # below it a difference between levels is not by chance
SMALL = 0.05  # of what can be learned: a mode that surely adds less can be left out


class Relevance(NamedTuple):
    """What a mode adds: whether a difference between its levels is sure, and the largest share that it may well be.

    That no difference was found is not yet a reason to leave a mode out, as little may be known of it.

    >>> Relevance(0, sure=False, most=0.01).matters, Relevance(0, sure=False, most=0.2).matters
    (False, True)
    """

    mode: int
    sure: bool
    most: float  # of what can be learned

    @property
    def matters(self) -> bool:
        """Whether the mode is better kept."""
        return self.sure or self.most >= SMALL


def relevance(
    rewards: Rewards, kind: Kind, structure: Form, size: int, seed: np.random.SeedSequence
) -> list[Relevance]:
    """Return the relevance of each mode, for models that learn from ``size`` rewards: main effects, or a structure.

    Held-out scores say what a mode adds, to main effects or in combinations. Models leave out small effects, so that
    such scores alone do not tell little from nothing: main effects are tested too.

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
            by_cell |= {f"{model} without {j}": family.log_scores(asked, means[model]) for model in (OVERALL, *models)}
        found.append(Scores.of(train.total, by_cell, asked.counts))
    scores = Scores.join(found)
    best = {
        j: max((f"{model} without {j}" for model in models), key=lambda name: scores[name])
        for j in (None, *range(order))
    }
    learned, _ = scores.ahead(best[None], f"{OVERALL} without None")
    ledger, relevances = rewards.ledger(), []
    for j in range(order):
        lead, error = scores.ahead(best[None], best[j], by_cells=True)
        chance, most = between_levels(ledger, j)
        ahead = lead > max(SURE * error, MATTERS * learned)
        share = max(lead + SURE * error, most) / learned if learned > 0 else math.inf
        relevances.append(Relevance(j, ahead or chance < _CHANCE, share))
    return relevances


def between_levels(ledger: Ledger, mode: int) -> tuple[float, float]:
    """Return how probable such differences between the levels of a mode are by chance, and the most they may add.

    Rewards are compared where all other modes are the same, whatever these do (the generalised test of Cochran, Mantel
    and Haenszel). What is added is the mean log density of a reward; the most is a 97.5 % bound.

    >>> cells = np.argwhere(np.ones((2, 2, 100)))[:, :2]
    >>> ledger = Ledger((2, 2)); ledger.add(cells, cells[:, 0] + np.tile([1.0, -1.0], 200))
    >>> [round(number, 3) for number in between_levels(ledger, 0)]
    [0.0, 0.148]
    """
    counts, levels = ledger.counts, ledger.cells[:, mode]
    _, rest = np.unique(np.delete(ledger.cells, mode, axis=1), axis=0, return_inverse=True)
    table = csr_array((counts, (rest, levels)), shape=(rest.max() + 1, ledger.shape[mode]))
    total = np.bincount(rest, counts)
    mean = np.bincount(rest, ledger.totals) / total
    squares = np.bincount(rest, ledger.within + counts * (ledger.means - mean[rest]) ** 2)
    variance = squares / np.maximum(total - 1.0, 1.0)
    differences = np.bincount(levels, counts * (ledger.means - mean[rest]), minlength=table.shape[1])
    spread = np.diag(variance @ table) - (table.T @ diags_array(variance / total) @ table).toarray()
    shares = table.sum(axis=0) / total.sum()
    compared = (total - np.bincount(rest, counts**2) / total).sum() / (1.0 - shares @ shares)  # as if levels were even
    sizes, axes = np.linalg.eigh(spread)
    told = sizes > _ROUNDING * len(sizes) * max(sizes[-1], 0.0)
    degrees = int(told.sum())
    if not degrees or compared <= 0:
        return 1.0, 0.0 if compared > 0 else math.inf
    statistic = float(((differences @ axes[:, told]) ** 2 / sizes[told]).sum())
    least = max(statistic, degrees)  # levels that are closer than chance would have it are not the more alike for it
    most = float(chndtrinc(least, degrees, _UNSURE)) / (2.0 * float(compared))
    return float(chdtrc(degrees, statistic)), most


def without(rewards: Rewards, mode: int) -> Rewards:
    """Return the same rewards as those of a space without a mode.

    >>> without(Rewards((2, 3), np.array([[0, 2], [1, 0]]), np.ones(2), np.ones(2, int)), 0).cells.tolist()
    [[0], [2]]
    """
    cells = np.delete(rewards.cells, mode, axis=1)
    order = np.lexsort(cells.T[::-1])
    shape = tuple(size for j, size in enumerate(rewards.shape) if j != mode)
    return Rewards(shape, cells[order], rewards.values[order], rewards.counts[order])

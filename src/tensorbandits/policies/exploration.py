"""Exploring at random: cells drawn with known probabilities, and the tensor estimated from what they paid.

Elimination and epoch-greedy both complete a tensor from rewards of cells that were drawn independently of what was
learned, each weighted by the inverse of its probability. Where not all cells are allowed, one is drawn among those that
are: its probability is then larger by the number of tries that the law of all cells would take on average to meet one.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tensorbandits.base.checks import Cell, Rank, check_array, check_at_least, check_shape
from tensorbandits.ledger import Ledger
from tensorbandits.policies.query import Query
from tensorbandits.tensor.best import best_packed
from tensorbandits.tensor.completion import Completion, cell_probabilities, complete
from tensorbandits.tensor.tucker import Floats, Ints

_TRIES = 1000  # after which an allowed cell is looked for otherwise


class Exploration:
    """The rewards of uniform rounds, and the law by which their cells were drawn.

    ``weights`` has one vector of probabilities per mode that is no context, or is ``None``: uniform.

    >>> exploration = Exploration((2, 2))
    >>> exploration.record((0, 1), 3.0, 1.0)
    >>> exploration.ledger.rounds, exploration.probabilities(exploration.ledger) is None
    (1.0, True)
    """

    def __init__(self, shape: Cell, context: Cell = (), weights: Sequence[Floats] | None = None) -> None:
        self.shape, self.context, self.weights = shape, context, weights
        self.decided = [j for j in range(len(shape)) if j not in context]
        self.ledger = Ledger(shape)
        self.tries = 0.0  # of all cells in the ledger together
        self.eras: list[tuple[Cell, float]] = []  # shapes before a mode gained levels, and rewards of that time

    def draw(self, query: Query, rng: np.random.Generator) -> tuple[Cell, float]:
        """Return an allowed cell drawn by the law, and the number of tries that the law of all cells would take."""
        if query.allowed is not None:
            query.allowed.check_fixed(query.fixed.tolist())
        kept, share = self._kept(query)
        laws = dict(zip(self.decided, self.weights, strict=True)) if self.weights is not None else {}
        before = {} if query.allowed is None else rng.bit_generator.state
        for tries in range(1, _TRIES + 1):
            cell = tuple(
                level if level >= 0 else _draw_level(size, laws.get(j), kept.get(j), rng)
                for j, (level, size) in enumerate(zip(query.fixed.tolist(), query.shape, strict=True))
            )
            if query.allowed is None or query.allowed.permits(cell):
                return cell, tries / share
        # However rare allowed cells are, the best one of a random tensor is found, or it is said that there is none.
        sizes = np.array(query.shape, dtype=np.int64)
        rows = rng.standard_normal(int(sizes.sum()))
        try:
            return best_packed(np.ones(1), rows, sizes, np.ones_like(sizes), query.fixed, query.allowed), _TRIES / share
        except ValueError:
            rng.bit_generator.state = before  # a request that cannot be met changes nothing
            raise

    def _kept(self, query: Query) -> tuple[dict[int, Ints], float]:
        """The allowed levels of the decided modes that are restricted, and the law's share of cells that have them."""
        kept, share = {}, 1.0
        masks = query.allowed.masks if query.allowed is not None else ()
        for at, j in enumerate(self.decided if masks else ()):
            if (mask := masks[j]) is not None:
                kept[j] = np.flatnonzero(mask)
                share *= float(mask.mean() if self.weights is None else self.weights[at][mask].sum())
        return kept, share

    def record(self, cell: Cell, reward: float, tries: float) -> None:
        """Add the reward of a cell."""
        self.ledger.record(cell, reward)
        self.tries += tries

    def correct(self, cell: Cell, old: float, new: float, weight: float) -> None:
        """Replace a reward by another, if it was one of a uniform round."""
        with contextlib.suppress(ValueError):  # it was not
            self.ledger.replace(cell, old, new, weight)

    def fade(self, factor: float) -> None:
        """Let all rewards so far count less."""
        before = self.ledger.rounds
        self.ledger.fade(factor)
        left = self.ledger.rounds / before if before else 1.0  # not the factor, where counts fade no further
        self.tries *= left
        self.eras = [(shape, left * rounds) for shape, rounds in self.eras]

    def refusal_to_grow(self) -> str | None:
        """Return why a mode cannot gain levels, or ``None``."""
        if self.weights is None:
            return None
        return (
            "the exploration has weights, which say nothing of a new level; make a new policy with one more weight, "
            "and give it what was learned with tell_ledger"
        )

    def grow(self, shape: Cell) -> None:
        """Follow modes that gain levels; what was drawn before could not be one of them."""
        before = sum(rounds for _, rounds in self.eras)
        self.eras.append((self.shape, self.ledger.rounds - before))
        self.ledger.grow_to(shape)
        self.shape = shape

    def complete(self, ledger: Ledger, rank: Rank, *, centre: bool, init: Sequence[Floats] | None = None) -> Completion:
        """Return the completion of some of the rewards, about their mean if they are to be centred."""
        probabilities = self.probabilities(ledger)
        mean = 0.0
        if centre and len(ledger):
            inverse = np.ones(len(ledger)) if probabilities is None else 1.0 / probabilities
            mean = float((inverse * ledger.totals).sum() / (inverse * ledger.counts).sum())
        return complete(ledger, rank, probabilities=probabilities, centre=mean, init=init)

    def probabilities(self, ledger: Ledger) -> Floats | None:
        """Return the probability of each cell of a ledger of such rewards; ``None`` if all cells have the same."""
        tries = self.tries / self.ledger.rounds if self.ledger.rounds else 1.0
        if not self.context and self.weights is None and not self.eras and tries == 1.0:
            return None
        chosen = np.minimum(self._chosen(ledger) * tries, 1.0)
        if not self.context or not len(ledger):
            return chosen
        _, at = np.unique(ledger.cells[:, list(self.context)], axis=0, return_inverse=True)
        seen = np.bincount(at.ravel(), weights=ledger.counts)
        return np.asarray(chosen * np.minimum((seen / ledger.rounds)[at.ravel()], 1.0))

    def _chosen(self, ledger: Ledger) -> Floats:
        """The probability of the decided part of each cell, over the times since the first."""
        cells = ledger.cells[:, self.decided]
        if not self.eras:
            return cell_probabilities(self.weights, cells, self._sizes(self.shape))
        total = self.ledger.rounds
        eras = [*self.eras, (self.shape, total - sum(rounds for _, rounds in self.eras))]
        result = np.zeros(len(cells))
        for shape, rounds in eras:
            sizes = self._sizes(shape)
            result += (cells < np.array(sizes)).all(axis=1) * (max(rounds, 0.0) / total / math.prod(sizes))
        return np.maximum(result, 1.0 / math.prod(self._sizes(self.shape)) / max(self.ledger.received, 1.0))

    def _sizes(self, shape: Cell) -> Cell:
        return tuple(shape[j] for j in self.decided)

    def state(self) -> dict[str, Any]:
        """Return the rewards and the law as plain data."""
        eras = [[list(shape), rounds] for shape, rounds in self.eras]
        return {"ledger": self.ledger.state(), "tries": self.tries, "eras": eras}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take back what :meth:`state` returned."""
        self.ledger = Ledger.from_state(state["ledger"])
        if self.ledger.shape != self.shape:
            raise ValueError(f"the explored rewards have shape {self.ledger.shape} instead of {self.shape}")
        self.tries = check_at_least(
            check_array(state["tries"], "tries", ()).item(), "tries", 0.999 * self.ledger.rounds
        )
        self.eras = [(check_shape(shape), check_array(rounds, "rounds", ()).item()) for shape, rounds in state["eras"]]


def _draw_level(size: int, law: Floats | None, kept: Ints | None, rng: np.random.Generator) -> int:
    """Draw one level of a mode, among those that are kept if not all are."""
    if kept is None:
        return int(rng.integers(size) if law is None else rng.choice(size, p=law))
    if law is None:
        return int(kept[rng.integers(len(kept))])
    return int(rng.choice(kept, p=law[kept] / law[kept].sum()))

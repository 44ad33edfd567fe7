"""Worlds of the suite ``features``: tensors of rank 2 in which features explain a share of the rows of the offers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import tensorbandits as tb
from benchmarks.paper.worlds import Floats

RANK, SEGMENTS, CHANNELS, OFFER = 2, 5, 3, 1  # OFFER is the position of the mode that has features
NOISE, LOG = 1.0, 600  # of a reward, where cells deviate by 1; rewards of a log
TINY = 1e-6  # of the variance of rows, that determining features leave to each level
# Ways to use features: whether they are given, and what is fixed of how much they say.
WAYS: dict[str, dict[str, Any] | None] = {
    "ignored": None,
    "guiding": {},
    "determining": {"tuning": {"explained": 1.0 - TINY}},
}


@dataclass(frozen=True)
class World:
    """Mean rewards (segments, offers, channels), and the features (offers, m) of the offers."""

    mean: Floats
    features: Floats

    @classmethod
    def drawn(cls, offers: int, count: int, explained: float, rng: np.random.Generator) -> World:
        """Draw one; so much of the variance of the offers' rows is explained by ``count`` features."""
        features = rng.standard_normal((offers, count))
        guided = features @ rng.standard_normal((count, RANK)) / np.sqrt(count)
        rows = np.sqrt(explained) * guided + np.sqrt(1.0 - explained) * rng.standard_normal((offers, RANK))
        others = [rng.standard_normal((size, RANK)) for size in (SEGMENTS, CHANNELS)]
        core = rng.standard_normal((RANK,) * 3)
        mean = np.einsum("abc,ia,jb,kc->ijk", core, others[0], rows, others[1])
        return cls((mean - mean.mean()) / mean.std(), features)

    def with_features(self, features: Floats) -> World:
        """Return the same with other features."""
        return replace(self, features=features)

    def policy(self, features: Floats | None, seed: int, offers: int | None = None, **more: Any) -> tb.Policy:
        """Return Thompson sampling told the rank, for all offers or the first ones, given features or not."""
        shape = (SEGMENTS, offers or self.mean.shape[OFFER], CHANNELS)
        given = {} if features is None else {"features": {OFFER: features[: shape[OFFER]]}}
        return tb.TensorThompsonSampling(shape, RANK, context=(0,), seed=seed, **given, **more)

    def tell_log(self, policy: tb.Policy, known: int, rewards: int, rng: np.random.Generator, first: int = 0) -> None:
        """Tell a policy rewards of cells drawn uniformly, of so many offers from the ``first`` on."""
        sizes = (SEGMENTS, known, CHANNELS)
        cells = np.stack([rng.integers(size, size=rewards) for size in sizes], axis=1)
        cells[:, OFFER] += first
        policy.tell_many(cells, self.mean[tuple(cells.T)] + NOISE * rng.standard_normal(rewards))

    def play(
        self, policy: tb.Policy, rounds: int, rng: np.random.Generator, offers: list[int] | None = None
    ) -> tuple[Floats, Floats]:
        """Play rounds with all offers or some; return the regret of each, and the offers that were played."""
        losses, played = np.empty(rounds), np.empty(rounds)
        means = self.mean if offers is None else self.mean[:, offers]
        best = means.max(axis=(1, 2))
        allowed = None if offers is None else {OFFER: offers}
        for t in range(rounds):
            segment = int(rng.integers(SEGMENTS))
            cell = policy.ask((segment,), allowed)
            losses[t], played[t] = best[segment] - self.mean[cell], cell[OFFER]
            policy.tell(cell, float(self.mean[cell] + NOISE * rng.standard_normal()))
        return losses, played

"""Policies to compare with that the library has no use for: separate Beta-Bernoulli arms, and the paper's ensemble on
rewards that are not of its scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tensorbandits as tb
from tensorbandits.base.checks import Cell


class BetaBernoulliArms(tb.Policy):
    """Thompson sampling of clicks with unrelated arms: the rate of each cell has a posterior of its own.

    The prior of every rate is uniform. A round draws the rates of all cells of its context and plays the largest.
    """

    def __init__(
        self,
        shape: Sequence[int],
        *,
        context: Sequence[int] = (),
        seed: int | np.random.SeedSequence | None = None,
    ) -> None:
        super().__init__(shape, context=context, seed=seed)
        self._tables = np.ones((2, *self.shape))  # of Beta: 1 + clicks, 1 + rewards without

    def _choose(self, query: tb.Query, rng: np.random.Generator) -> Cell:
        clicks, others = (table[query.slices].ravel() for table in self._tables)
        return query.cell(_largest(rng.beta(clicks, others), query))

    def _observe(self, cell: Cell, count: float, total: float, note: Any) -> None:
        self._tables[(0, *cell)] += total
        self._tables[(1, *cell)] += count - total

    def _best(self, query: tb.Query) -> Cell:
        clicks, others = (table[query.slices].ravel() for table in self._tables)
        return query.cell(_largest(clicks / (clicks + others), query))

    def _estimate(self, cells: NDArray[np.int64]) -> NDArray[np.float64]:
        clicks, others = self._tables[(slice(None), *cells.T)]
        return np.asarray(clicks / (clicks + others))

    def _state(self) -> dict[str, Any]:
        return {"tables": self._tables.copy()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._tables = np.array(state["tables"], dtype=np.float64).reshape(self._tables.shape)


class StandardisedEnsemble(tb.Policy):
    """The paper's ensemble sampling, told rewards minus ``centre`` over ``scale``.

    The paper's values suppose noise of variance 1 and centred rewards, which clicks and counts have not.
    """

    def __init__(
        self,
        shape: Sequence[int],
        rank: int,
        *,
        centre: float,
        scale: float,
        context: Sequence[int] = (),
        seed: int | np.random.SeedSequence | None = None,
    ) -> None:
        super().__init__(shape, context=context, seed=seed)
        self.rank, self.centre, self.scale = rank, centre, scale
        self._ensemble = tb.TensorEnsembleSampling.paper(shape, rank, context=context, seed=seed)

    def _choose(self, query: tb.Query, rng: np.random.Generator) -> Cell:
        return self._ensemble.ask(query.levels)

    def _observe(self, cell: Cell, count: float, total: float, note: Any) -> None:
        assert count == 1, "rewards that were added up have lost their perturbations"
        self._ensemble.tell(cell, (total - self.centre) / self.scale)

    def _best(self, query: tb.Query) -> Cell:
        return self._ensemble.best(query.levels)

    def _estimate(self, cells: NDArray[np.int64]) -> NDArray[np.float64]:
        return self.centre + self.scale * self._ensemble.estimate(cells)

    def _state(self) -> dict[str, Any]:
        return {"ensemble": self._ensemble.state_dict()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._ensemble = tb.TensorEnsembleSampling.from_state_dict(state["ensemble"])


def _largest(values: NDArray[np.float64], query: tb.Query) -> int:
    """Return the allowed arm with the largest value."""
    allowed = query.mask()
    return int((values if allowed is None else np.where(allowed, values, -np.inf)).argmax())

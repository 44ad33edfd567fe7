"""Logistic Thompson sampling with main effects, or with all pairwise terms: what page-testing teams use.

The posterior of all coefficients is taken for normal about its mode (Laplace), the prior's scale of each group of
coefficients is learned as the evidence says, by one step of expectation-maximisation a fit, and a round draws
coefficients and plays their best cell, which is found exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.special import expit

import tensorbandits as tb
from tensorbandits.base.checks import Cell
from tensorbandits.model import _pairs_kernels as kernels
from tensorbandits.model.pairs import Blocks
from tensorbandits.tensor.pairs import Pairs, PairsLayout

Floats = NDArray[np.float64]

GROWTH, FEWEST = 1.05, 20  # a fit is due when there are so many times as many rewards, and so many more
NEWTON = 4  # steps of a fit, from the last one
FIRST, WORTH = 0.5, 2.0  # the prior's scale at first, and how many coefficients that counts as


class LogisticThompson(tb.Policy):
    """Thompson sampling of clicks with a logistic model.

    Parameters
    ----------
    shape, context, seed : as for every policy.
    pairs : whether there are terms for all pairs of levels, or main effects only.
    variance : times the posterior's, of what is drawn; below 1 explores less.
    """

    def __init__(
        self,
        shape: Sequence[int],
        *,
        context: Sequence[int] = (),
        pairs: bool = True,
        variance: float = 1.0,
        seed: int | np.random.SeedSequence | None = None,
    ) -> None:
        super().__init__(shape, context=context, seed=seed)
        self.pairs, self.variance = pairs, variance
        self._layout = PairsLayout(
            self.shape, tuple(p - 1 if pairs else 0 for p in self.shape), [True] * len(self.shape)
        )
        self._blocks = Blocks(self._layout)
        self._mode = np.zeros(self._blocks.size)
        self._scales = np.full(len(self._blocks.counts), FIRST)
        self._factor: Floats | None = None
        self._fitted = 0.0

    def _choose(self, query: tb.Query, rng: np.random.Generator) -> Cell:
        return self.draw(rng).best(query.fixed, query.allowed)

    def draw(self, rng: np.random.Generator) -> Pairs:
        """Draw the log-odds of all cells, after a fit if one is due."""
        received = self.ledger.received
        if self._factor is None or received >= max(GROWTH * self._fitted, self._fitted + FEWEST):
            self._fit()
        assert self._factor is not None
        noise = np.sqrt(self.variance) * rng.standard_normal(len(self._mode))
        return self._tensor(self._mode + solve_triangular(self._factor, noise, lower=True, trans="T"))

    def _fit(self) -> None:
        """Climb to the mode, and learn the scales."""
        layout, blocks, ledger = self._layout, self._blocks, self.ledger
        where = layout.plan, layout.slots, layout.pair, layout.fixed_codes(), blocks.mains, blocks.cores
        if not self._fitted and len(ledger):
            rate = (ledger.totals.sum() + 0.5) / (ledger.rounds + 1.0)
            self._mode[0] = np.log(rate / (1 - rate))
        for _ in range(NEWTON):
            prior = np.full(blocks.size, 1e-2)  # of the constant
            for start, end, which in blocks.blocks.tolist():
                prior[start:end] = self._scales[which] ** -2.0
            rates = expit(self._tensor(self._mode).at(ledger.cells))
            H, slope = np.zeros((blocks.size, blocks.size)), np.zeros(blocks.size)
            kernels.add_precisions(ledger.cells, ledger.counts * rates * (1 - rates), *where, H)
            kernels.add_targets(ledger.cells, ledger.totals - ledger.counts * rates, *where, slope)
            H[np.diag_indices_from(H)] += prior
            self._factor = cholesky(H, lower=True)
            step = cho_solve((self._factor, True), slope - prior * self._mode)
            self._mode = self._mode + step / max(1.0, np.abs(step).max())
        spread = (solve_triangular(self._factor, np.eye(blocks.size), lower=True) ** 2).sum(axis=0)
        for start, end, which in blocks.blocks.tolist():
            squares = float((self._mode[start:end] ** 2 + spread[start:end]).sum())
            self._scales[which] = np.sqrt((squares + WORTH * FIRST**2) / (end - start + WORTH))
        self._fitted = ledger.received

    def _tensor(self, beta: Floats) -> Pairs:
        layout, blocks = self._layout, self._blocks
        effects = np.zeros(layout.levels)
        for mode, start in enumerate(blocks.mains.tolist()):
            some = beta[start : start + layout.columns[mode]]
            here = slice(layout.heads[mode], layout.heads[mode + 1])
            effects[here] = some if layout.shape[mode] > 2 else np.outer([-1.0, 1.0], some).sum(axis=1)
        return Pairs(layout, effects, layout.fixed_codes(), beta[blocks.cores :], float(beta[0]))

    def _best(self, query: tb.Query) -> Cell:
        return self._tensor(self._mode).best(query.fixed, query.allowed)

    def _estimate(self, cells: NDArray[np.int64]) -> Floats:
        return np.asarray(expit(self._tensor(self._mode).at(cells)))

    def _restore(self, state: Any) -> None:
        self._fitted = 0.0

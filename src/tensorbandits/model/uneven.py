"""Normal rewards whose noise differs from cell to cell: busy stations vary more than quiet ones.

The noise variance of a cell is a common one times a ratio for each of its levels, so that cells that were hardly tried
borrow theirs from those that share a level. All are drawn: given the errors of the fit each ratio is inverse gamma.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from tensorbandits.base.checks import Cell, check_array, check_positive
from tensorbandits.ledger import Ledger
from tensorbandits.model.likelihood import Gaussian, Observations, Units
from tensorbandits.tensor.tucker import Floats, Ints

_SHAPE = 4.0  # of the inverse gamma prior of a ratio, and its rate: about 1, and hardly ever beyond a factor of 5


@dataclass
class Uneven(Gaussian):
    """Rewards with normal noise whose variance at a cell is ``variance`` times a ratio for each of its levels.

    >>> noise = Uneven(2.0, learned=True, ratios=[np.array([1.0, 3.0]), np.array([0.5, 1.0])])
    >>> noise.variances_at(np.array([[1, 0]])).item()
    3.0
    """

    ratios: list[Floats] = field(default_factory=list)  # one (p_j,) for each mode
    augmented: ClassVar[bool] = True

    def grow(self, shape: Cell, rng: np.random.Generator) -> None:
        """Draw the ratios of levels that have none yet from the prior."""
        before = self.ratios or [np.zeros(0)] * len(shape)
        self.ratios = [
            np.concatenate([ratio, _SHAPE / rng.standard_gamma(_SHAPE, size - len(ratio))])
            for ratio, size in zip(before, shape, strict=True)
        ]

    def variances_at(self, cells: Ints) -> Floats:
        """Return the variance of a reward of each of some cells (n, d), shape (n,)."""
        return np.asarray(self.variance * self._at(cells))

    def observe(
        self, ledger: Ledger, units: Units, values: Floats, rng: np.random.Generator, *, weight: float = 1.0
    ) -> Observations:
        """Redraw the ratios given the present draw; return counts and sums of rewards over them."""
        cells, counts = ledger.cells, weight * ledger.counts
        errors = weight * _squares(ledger, values) / (2.0 * self.variance)
        at = self._at(cells)
        for mode, ratio in enumerate(self.ratios):
            levels, size = cells[:, mode], len(ratio)
            at /= ratio[levels]
            rate = _SHAPE + np.bincount(levels, errors / at, size)
            self.ratios[mode] = rate / rng.standard_gamma(_SHAPE + 0.5 * np.bincount(levels, counts, size))
            at *= self.ratios[mode][levels]
        squares = weight * float((_squares(ledger, units.centre) / at).sum())
        target = weight * ledger.totals / at
        order, rounds = ledger.order_by_sizes, weight * ledger.rounds
        return Observations(order, cells, counts / at, target, units.centre, squares, rounds)

    def _at(self, cells: Ints) -> Floats:
        """Return the products of the ratios of valid cells (n, d), shape (n,)."""
        return np.asarray(np.prod([ratio[cells[:, mode]] for mode, ratio in enumerate(self.ratios)], axis=0))

    def log_density(self, ledger: Ledger, values: Floats) -> float:
        """Return the logarithm of the rewards' density given their means, up to a constant of the ledger."""
        variances = self.variances_at(ledger.cells)
        return -0.5 * float((ledger.counts * np.log(variances) + _squares(ledger, values) / variances).sum())

    def state(self) -> dict[str, Any]:
        """Return the likelihood as plain numbers."""
        return super().state() | {"ratios": {str(mode): ratio.copy() for mode, ratio in enumerate(self.ratios)}}

    def restored(self, state: Mapping[str, Any]) -> Self:
        """Return the likelihood that :meth:`state` described."""
        found, given = super().restored(state), state["ratios"]
        for mode in range(len(given)):
            ratio = check_array(given[str(mode)], f"the noise ratios of mode {mode}", (len(given[str(mode)]),))
            for one in ratio.tolist():
                check_positive(one, f"a noise ratio of mode {mode}")
            found.ratios.append(ratio.copy())
        return found


def _squares(ledger: Ledger, values: Floats | float) -> Floats:
    """Return the sums over the rewards of each cell of their squares about its value, shape (n,)."""
    return np.asarray(ledger.within + ledger.counts * (ledger.means - values) ** 2)

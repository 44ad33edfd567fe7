"""Posterior sampling of a Tucker tensor from weighted cells, by Gibbs sweeps with exact conditionals.

The prior, with ``m`` and ``s`` the centre and scale of the rewards::

    U_j[i, l]         ~ N(0, decay^(2 l))            row i, column l = 0, 1, ..
    core entries      ~ N(0, 1 / gamma),             gamma ~ Gamma(1/2, rate s^2 / 2)
    offset            ~ N(m, OFFSET_VARIANCE s^2)
    noise variance    known, or ~ InverseGamma(NOISE_SHAPE, NOISE_SHAPE s^2)

With ``decay = 1`` all columns are alike. Below 1, later columns are smaller a priori, so that a rank that is set
too high costs little and a needed column is still learned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from tensorbandits.checks import Cell
from tensorbandits.ledger import Ledger
from tensorbandits.tensor.solve import core_equations, row_equations, solve_spd
from tensorbandits.tensor.tucker import Floats, Ints, Tucker

OFFSET_VARIANCE = 1.0
NOISE_SHAPE = 0.5


class Units(NamedTuple):
    """The centre and the scale of rewards, in which the prior is stated."""

    centre: float
    scale: float

    @classmethod
    def of(cls, ledger: Ledger) -> Units:
        """Measure them over observed cells, each counting once, so that they settle although play concentrates."""
        if not len(ledger):
            return cls(0.0, 1.0)
        centre = float((ledger.totals / ledger.counts).mean())
        spread = float((ledger.squares / ledger.counts).mean()) - centre**2
        if spread <= 1e-14 * centre**2:
            return cls(centre, abs(centre) or 1.0)
        return cls(centre, float(np.sqrt(spread)))


@dataclass
class Chain:
    """The state of the sampler: one draw of the tensor, and of the prior's and the noise's variance."""

    factors: list[Floats]
    core: Floats
    offset: float
    gamma: float
    noise_variance: float
    decay: float = 1.0

    @classmethod
    def from_prior(
        cls,
        shape: Cell,
        rank: Cell,
        units: Units,
        rng: np.random.Generator,
        *,
        noise_variance: float | None = None,
        decay: float = 1.0,
    ) -> Self:
        """Draw everything from the prior; a given noise variance is kept."""
        factors = [decay ** np.arange(r) * rng.standard_normal((p, r)) for p, r in zip(shape, rank, strict=True)]
        gamma = rng.gamma(0.5) / (units.scale**2 / 2)
        core = rng.standard_normal(rank) / np.sqrt(gamma)
        offset = units.centre + units.scale * np.sqrt(OFFSET_VARIANCE) * rng.standard_normal()
        if noise_variance is None:
            noise_variance = NOISE_SHAPE * units.scale**2 / rng.gamma(NOISE_SHAPE)
        return cls(factors, core, float(offset), float(gamma), float(noise_variance), decay)

    @property
    def tensor(self) -> Tucker:
        """The tensor of this draw."""
        return Tucker(self.core, tuple(self.factors), self.offset)

    def sweep(self, cells: Ints, weight: Floats, target: Floats, units: Units, rng: np.random.Generator) -> None:
        """Redraw the rows of each mode, then offset and core together, then gamma, each given all the rest.

        ``weight`` (n,) is the precision of each cell, ``target`` (n,) its precision times its mean.
        """
        centred = target - weight * self.offset
        for j, U in enumerate(self.factors):
            A, b = row_equations(self.core, self.factors, j, cells, weight, centred)
            A += np.diag(self.decay ** (-2.0 * np.arange(U.shape[1])))
            self.factors[j] = solve_spd(A, b, rng.standard_normal(b.shape))
        A, b = core_equations(self.factors, cells, weight, target)
        offset_precision = 1.0 / (OFFSET_VARIANCE * units.scale**2)
        A[np.diag_indices(len(A))] += np.array([offset_precision] + [self.gamma] * self.core.size)
        b[0] += offset_precision * units.centre
        draw = solve_spd(A, b, rng.standard_normal(b.shape))
        self.offset = float(draw[0])
        self.core = draw[1:].reshape(self.core.shape)
        rate = (units.scale**2 + float((self.core**2).sum())) / 2
        self.gamma = float(rng.gamma((1 + self.core.size) / 2) / rate)

    def redraw_noise(self, ledger: Ledger, units: Units, rng: np.random.Generator) -> None:
        """Redraw the noise variance given the tensor and the rewards."""
        N, Y, Q = ledger.counts, ledger.totals, ledger.squares
        fit = self.tensor.at(ledger.cells)
        errors = float(np.maximum(Q - fit * (2 * Y - N * fit), 0.0).sum())
        rate = NOISE_SHAPE * units.scale**2 + errors / 2
        self.noise_variance = float(rate / rng.gamma(NOISE_SHAPE + ledger.rounds / 2))

    def state(self) -> dict[str, Any]:
        """Return the draw as plain arrays and numbers."""
        return {
            "factors": {str(j): U.copy() for j, U in enumerate(self.factors)},
            "core": self.core.copy(),
            "numbers": [self.offset, self.gamma, self.noise_variance, self.decay],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the draw that :meth:`state` described."""
        factors: Sequence[Floats] = [np.array(state["factors"][str(j)]) for j in range(len(state["factors"]))]
        return cls(list(factors), np.array(state["core"]), *(float(x) for x in state["numbers"]))

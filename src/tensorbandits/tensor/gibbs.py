"""Posterior sampling of a Tucker tensor from a ledger, by Gibbs sweeps with exact conditionals.

The prior, with ``m`` and ``s`` the centre and scale of the rewards::

    U_j[i, l]         ~ N(0, decay^(2 l))            row i, column l = 0, 1, ..
    core entries      ~ N(0, 1 / gamma),             gamma ~ Gamma(1/2, rate s^2 / 2)
    offset            ~ N(m, OFFSET_VARIANCE s^2)
    noise variance    known, or ~ InverseGamma(NOISE_SHAPE, NOISE_SHAPE s^2)

With ``decay = 1`` all columns are alike. Below 1, later columns are smaller a priori, so that a rank that is set
too high costs little and a needed column is still learned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from tensorbandits.checks import Cell
from tensorbandits.ledger import Ledger
from tensorbandits.tensor.sweep import Learn, Model, sweep
from tensorbandits.tensor.tucker import Floats

OFFSET_VARIANCE = 1.0
NOISE_SHAPE = 0.5
_SMALLEST = 1e-140  # scale: its square, and that of what is divided by it, must be above 0


class Units(NamedTuple):
    """The centre and the scale of rewards, in which the prior is stated, and their sum of squares about the centre."""

    centre: float
    scale: float
    squares: float = 0.0

    @classmethod
    def of(cls, ledger: Ledger) -> Units:
        """Measure them over observed cells, each counting once, so that they settle although play concentrates."""
        if not len(ledger):
            return cls(0.0, 1.0)
        from tensorbandits.tensor._sweep_kernels import measure

        centre, square, squares = measure(ledger.counts, ledger.totals, ledger.squares)
        spread = square - centre**2
        if spread <= 1e-14 * centre**2:
            return cls(centre, max(abs(centre), _SMALLEST) if centre else 1.0, squares)
        return cls(centre, max(math.sqrt(spread), _SMALLEST), squares)


@dataclass
class Chain:
    """The state of the sampler: one draw of the tensor, and of the prior's and the noise's variance."""

    model: Model
    gamma: float
    noise_variance: float
    decay: float = 1.0

    def __post_init__(self) -> None:
        model = self.model
        columns = np.concatenate([np.arange(r) for r in model.rank])
        self._precision: Floats = self.decay ** (-2.0 * columns)
        self._prior = Model(model.shape, model.rank, np.zeros_like(model.rows), np.zeros_like(model.core))

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
        core = rng.standard_normal(int(np.prod(rank))) / np.sqrt(gamma)
        offset = units.centre + units.scale * np.sqrt(OFFSET_VARIANCE) * rng.standard_normal()
        if noise_variance is None:
            noise_variance = NOISE_SHAPE * units.scale**2 / rng.gamma(NOISE_SHAPE)
        rows = np.concatenate([U.ravel() for U in factors])
        return cls(Model(shape, rank, rows, core, float(offset)), float(gamma), float(noise_variance), decay)

    def sweep(
        self, ledger: Ledger, units: Units, rng: np.random.Generator, *, sweeps: int, learn_noise: bool, keep: int = 0
    ) -> Floats:
        """Redraw, ``sweeps`` times, the rows of each mode, offset and core together, gamma, and the noise variance.

        Each is drawn given all the rest. Returns the rows and the core after each of ``keep`` equal shares of the
        sweeps, one line each.
        """
        model = self.model
        noise, gammas = np.empty((sweeps, len(model.rows) + 1 + len(model.core))), np.empty((sweeps, 2))
        for line, pair in zip(noise, gammas, strict=True):
            rng.standard_normal(out=line)
            pair[0] = rng.standard_gamma((1 + len(model.core)) / 2)
            if learn_noise:
                pair[1] = rng.standard_gamma(NOISE_SHAPE + ledger.rounds / 2)
        self._prior.offset = units.centre
        self.gamma, self.noise_variance, kept = sweep(
            *(model, self._prior, self._precision, ledger, ledger.totals, noise),
            variance=self.noise_variance,
            core_precision=self.gamma,
            offset_precision=1.0 / (OFFSET_VARIANCE * units.scale**2),
            learn=Learn(units.scale, units.squares, NOISE_SHAPE * units.scale**2 if learn_noise else None),
            gammas=gammas,
            keep=keep,
        )
        return kept

    def log_likelihood(self, ledger: Ledger) -> float:
        """Return the logarithm of the rewards' density given the draw, up to a constant of the ledger."""
        means = self.model.tensor().at(ledger.cells)
        squares = ledger.within.sum() + (ledger.counts * (means - ledger.totals / ledger.counts) ** 2).sum()
        return -0.5 * (ledger.rounds * math.log(self.noise_variance) + float(squares) / self.noise_variance)

    def state(self) -> dict[str, Any]:
        """Return the draw as plain arrays and numbers."""
        model = self.model.state()
        numbers = [model.pop("offset"), self.gamma, self.noise_variance, self.decay]
        return model | {"numbers": numbers}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the draw that :meth:`state` described."""
        offset, gamma, noise_variance, decay = (float(x) for x in state["numbers"])
        return cls(Model.from_state({**state, "offset": offset}), gamma, noise_variance, decay)

"""Posterior sampling of a Tucker tensor from a ledger, by Gibbs sweeps with exact conditionals.

The prior, with ``m`` and ``s`` the centre and scale of the tensor's values::

    U_j[i, l]         ~ N(0, decay^(2 l))            row i, column l = 0, 1, ..
    core entries      ~ N(0, 1 / gamma),             gamma ~ Gamma(1/2, rate s^2 / 2)
    offset            ~ N(m, OFFSET_VARIANCE s^2)
    noise variance    known, or ~ InverseGamma(NOISE_SHAPE, NOISE_SHAPE s^2)

With ``decay = 1`` all columns are alike. Below 1, later columns are smaller a priori, so that a rank that is set
too high costs little and a needed column is still learned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from tensorbandits.checks import Cell, check_array, check_positive
from tensorbandits.ledger import Ledger
from tensorbandits.tensor.likelihood import NOISE_SHAPE, Gaussian, Likelihood, Units
from tensorbandits.tensor.sweep import Learn, Model, sweep
from tensorbandits.tensor.tucker import Floats

__all__ = ["NOISE_SHAPE", "OFFSET_VARIANCE", "Chain", "Units"]

OFFSET_VARIANCE = 1.0


@dataclass
class Chain:
    """The state of the sampler: one draw of the tensor, of the prior's variance, and of the likelihood's parameters."""

    model: Model
    gamma: float
    likelihood: Likelihood
    decay: float = 1.0

    def __post_init__(self) -> None:
        model = self.model
        columns = np.concatenate([np.arange(r) for r in model.rank])
        self._precision: Floats = self.decay ** (-2.0 * columns)
        self._prior = Model(model.shape, model.rank, np.zeros_like(model.rows), np.zeros_like(model.core))

    @property
    def noise_variance(self) -> float:
        """The variance of a single reward about its mean."""
        return self.likelihood.variance

    @classmethod
    def from_prior(
        cls,
        shape: Cell,
        rank: Cell,
        units: Units,
        rng: np.random.Generator,
        *,
        likelihood: Likelihood | None = None,
        decay: float = 1.0,
    ) -> Self:
        """Draw everything from the prior, the parameters of the likelihood too; by default it is Gaussian."""
        factors = [_prior_rows(p, r, decay, rng) for p, r in zip(shape, rank, strict=True)]
        gamma = rng.gamma(0.5) / (units.scale**2 / 2)
        core = rng.standard_normal(int(np.prod(rank))) / np.sqrt(gamma)
        offset = units.centre + units.scale * np.sqrt(OFFSET_VARIANCE) * rng.standard_normal()
        likelihood = (likelihood or Gaussian(1.0, learned=True)).drawn(units, rng)
        rows = np.concatenate([U.ravel() for U in factors])
        return cls(Model(shape, rank, rows, core, float(offset)), float(gamma), likelihood, decay)

    def sweep(
        self, ledger: Ledger, units: Units, rng: np.random.Generator, *, sweeps: int, learn_noise: bool, keep: int = 0
    ) -> Floats:
        """Redraw, ``sweeps`` times, the rows of each mode, offset and core together, gamma, and the noise variance.

        Each is drawn given all the rest. Returns the model's numbers after each of ``keep`` equal shares of the
        sweeps, one line each.
        """
        if not self.likelihood.augmented:
            return self._sweep(ledger, units, rng, sweeps, learn_noise, keep)
        kept = []
        for done in range(1, sweeps + 1):
            lines = self._sweep(ledger, units, rng, 1, learn_noise, 1)
            if done * keep % sweeps < keep:
                kept.append(lines)
        return np.concatenate(kept) if kept else np.empty((0, 0))

    def _sweep(
        self, ledger: Ledger, units: Units, rng: np.random.Generator, sweeps: int, learn_noise: bool, keep: int
    ) -> Floats:
        """Sweep over the same observations all the time."""
        model = self.model
        observations = self.likelihood.observe(ledger, units, model, rng)
        noise, gammas = np.empty((sweeps, len(model.rows) + 1 + len(model.core))), np.empty((sweeps, 2))
        for line, pair in zip(noise, gammas, strict=True):
            rng.standard_normal(out=line)
            pair[0] = rng.standard_gamma((1 + len(model.core)) / 2)
            if learn_noise:
                pair[1] = rng.standard_gamma(NOISE_SHAPE + observations.rounds / 2)
        self._prior.offset = units.centre
        self.gamma, self.likelihood.variance, kept = sweep(
            *(model, self._prior, self._precision, observations, noise),
            variance=self.likelihood.variance,
            core_precision=self.gamma,
            offset_precision=1.0 / (OFFSET_VARIANCE * units.scale**2),
            learn=Learn(units.scale, NOISE_SHAPE * units.scale**2 if learn_noise else None),
            gammas=gammas,
            keep=keep,
        )
        return kept

    def log_likelihood(self, ledger: Ledger) -> float:
        """Return the logarithm of the rewards' density given the draw, up to a constant of the ledger."""
        return self.likelihood.log_density(ledger, self.model.at(ledger.cells))

    def grow(self, shape: Cell, rng: np.random.Generator) -> None:
        """Give the modes more levels, with rows drawn from the prior."""
        model = self.model
        sizes = zip(shape, model.shape, model.rank, strict=True)
        self.model = model.grown([_prior_rows(p - before, r, self.decay, rng) for p, before, r in sizes])
        self.__post_init__()

    def state(self) -> dict[str, Any]:
        """Return the draw as plain arrays and numbers."""
        return self.model.state() | {
            "gamma": self.gamma,
            "decay": self.decay,
            "likelihood": self.likelihood.state(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], shape: Cell, rank: Cell, likelihood: Likelihood) -> Self:
        """Return the draw that :meth:`state` described, which must be of this shape, rank and kind of likelihood."""
        gamma, decay = (
            check_positive(check_array(state[name], name, ()).item(), f"the chain's {name}")
            for name in ("gamma", "decay")
        )
        return cls(Model.from_state(state, shape, rank), gamma, likelihood.restored(state["likelihood"]), decay)


def _prior_rows(count: int, rank: int, decay: float, rng: np.random.Generator) -> Floats:
    """Return rows of a factor (count, rank) drawn from the prior."""
    return np.asarray(decay ** np.arange(rank) * rng.standard_normal((count, rank)))

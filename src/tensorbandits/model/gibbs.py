"""Posterior sampling of a Tucker tensor from a ledger, by Gibbs sweeps with exact conditionals.

The prior, with ``m`` and ``s`` the centre and scale of the tensor's values::

    U_j[i, l]         ~ N(0, decay^(2 l))            row i, column l = 0, 1, ..
    core entries      ~ N(0, 1 / gamma_k),           gamma_k ~ Gamma(1/2, rate s^2 / 2), for each kind k of entry
    offset            ~ N(m, OFFSET_VARIANCE s^2)
    noise variance    known, or ~ InverseGamma(NOISE_SHAPE, NOISE_RATE s^2)

The rows of a mode whose levels have features are about what these say (``model/features.py``).

With ``decay = 1`` all columns are alike. Below 1, later columns are smaller a priori, so that a rank that is set
too high costs little and a needed column is still learned.

The *structure* says which entries of the core there are. ``"tucker"``: all, of one kind. ``"affine"``: every factor has
a column of ones besides its free ones, so that an entry with one free index is a main effect, with two an interaction
of two modes, and so on; the kind is the number of free indices, and the entry with none is the offset. ``"additive"``:
the same with main effects only. ``"pairs"`` has no such core: see ``model/pairs.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from tensorbandits.base.checks import Cell, check_array, check_positive
from tensorbandits.ledger import Ledger
from tensorbandits.model.borrowing import own_shares
from tensorbandits.model.described import NOT_DESCRIBED, DescribedModes
from tensorbandits.model.features import MOVING, FeaturePrior, RowPlace, check_modes, rewarded_levels
from tensorbandits.model.likelihood import NOISE_RATE, NOISE_SHAPE, Gaussian, Likelihood, Observations, Units, Values
from tensorbandits.model.residual import Residual
from tensorbandits.model.sweep import Learn, Model, Prior, sweep
from tensorbandits.tensor.tucker import Floats, Ints

__all__ = ["NOISE_RATE", "NOISE_SHAPE", "OFFSET_VARIANCE", "Chain", "Structure", "Units", "core_kinds"]

Structure = Literal["tucker", "affine", "additive", "pairs"]

OFFSET_VARIANCE = 1.0
_NO_VALUES: Floats = np.zeros(0)


def core_kinds(rank: Cell, structure: Structure) -> Ints:
    """Return the kind of each entry of a core, flat: a position in the gammas, or what stands for none (see ``Prior``).

    >>> core_kinds((2, 2), "tucker").tolist(), core_kinds((2, 2), "affine").tolist()
    ([0, 0, 0, 0], [-1, 0, 0, 1])
    >>> core_kinds((2, 2), "additive").tolist()
    [-1, 0, 0, -2]
    """
    if structure == "tucker":
        return np.zeros(int(np.prod(rank)), dtype=np.int64)
    order = (np.indices(rank) > 0).sum(axis=0).ravel() - 1
    return np.where(order > 0, -2, order) if structure == "additive" else order


@dataclass
class Chain:
    """The state of the sampler: one draw of the tensor, of the prior's variances, and of the likelihood's parameters.

    With a ``residual`` every observed cell may deviate from the tensor, by as much as the rewards say. ``features`` are
    the priors of the modes whose levels have some.
    """

    model: Model
    gammas: Floats  # one for each kind of entry of the core
    likelihood: Likelihood
    decay: float = 1.0
    structure: Structure = "tucker"
    residual: Residual | None = None
    features: dict[int, FeaturePrior] = field(default_factory=dict)

    def __post_init__(self) -> None:
        model = self.model
        columns = np.concatenate([np.arange(r) - int(model.affine) for r in model.rank])
        self._sizes = self.decay ** np.maximum(columns, 0)  # of each column, mode after mode
        precision = self._sizes**-2.0
        kind = core_kinds(model.rank, self.structure)
        self._kinds = [int((kind == k).sum()) for k in range(len(self.gammas))]
        zeros = np.zeros_like(model.rows), np.zeros_like(model.core)
        self._prior = Prior(*zeros, 0.0, precision, kind, self.gammas)
        self._places = {mode: self._place(mode) for mode in self.features}
        for mode, one in self.features.items():
            one.follow(self._places[mode], self._prior.rows, precision)
        self._modes = list(self.features)
        self._rewarded: dict[
            int, tuple[int, NDArray[np.bool_]]
        ] = {}  # levels with rewards, and how many cells had some

    @property
    def noise_variance(self) -> float:
        """The variance of a single reward about its mean."""
        return self.likelihood.variance

    @property
    def joint(self) -> bool:
        """Whether all numbers but scales are drawn together, so that the chain cannot be stuck: they are not."""
        return False

    @property
    def entries(self) -> int:
        """How many numbers all factors have."""
        return len(self.model.rows)

    @property
    def precision(self) -> Floats:
        """The prior's precision of the columns of all factors, mode after mode."""
        return self._prior.precision

    @classmethod
    def from_prior(
        cls,
        shape: Cell,
        rank: Cell,
        units: Units,
        rng: np.random.Generator,
        *,
        structure: Structure = "tucker",
        likelihood: Likelihood | None = None,
        decay: float = 1.0,
        residual: bool = False,
        features: DescribedModes = NOT_DESCRIBED,
    ) -> Self:
        """Draw everything from the prior, the parameters of the likelihood too; by default it is Gaussian.

        The rank counts free columns. ``features`` are those of the levels, by position of the mode.
        """
        affine = structure != "tucker"
        priors = {j: FeaturePrior.drawn(one, rank[j], rng) for j, one in features.items() if rank[j]}
        sizes = enumerate(zip(shape, rank, strict=True))
        factors = [_prior_rows(p, r, decay, rng, priors.get(j), affine=affine) for j, (p, r) in sizes]
        ranks = tuple(r + affine for r in rank)
        kind = core_kinds(ranks, structure)
        gammas = np.array([rng.gamma(0.5) / (units.scale**2 / 2) for _ in range(int(kind.max(initial=-1)) + 1)])
        core = rng.standard_normal(len(kind))
        for k, gamma in enumerate(gammas):
            core[kind == k] /= np.sqrt(gamma)
        core[kind < 0] = 0.0
        offset = units.centre + units.scale * np.sqrt(OFFSET_VARIANCE) * rng.standard_normal()
        likelihood = (likelihood or Gaussian(1.0, learned=True)).drawn(units, rng)
        likelihood.grow(shape, rng)
        rows = np.concatenate([U.ravel() for U in factors])
        model = Model(shape, ranks, rows, core, float(offset), affine=affine)
        return cls(model, gammas, likelihood, decay, structure, Residual.start(units) if residual else None, priors)

    @property
    def finite(self) -> bool:
        """Whether floats hold what was drawn last: the core, for which rows that no float holds leave no numbers."""
        return math.isfinite(self.model.core.sum() + self.model.offset)

    def calm(self, units: Units) -> Self:
        """Start from nothing upward: a chain of clicks or counts far out in the prior's tail comes down too slowly."""
        self.model.core[:] = 0.0
        self.model.offset = units.centre
        self.gammas[:] = 1.0 / units.scale**2
        return self

    def sweep(
        self,
        ledger: Ledger,
        units: Units,
        rng: np.random.Generator,
        *,
        sweeps: int,
        keep: int = 0,
        weight: float = 1.0,
    ) -> Floats:
        """Redraw, ``sweeps`` times, the rows of each mode, offset and core together, gammas, and the noise variance.

        Each is drawn given all the rest; rewards count ``weight`` times. Returns the model's numbers after each of
        ``keep`` equal shares of the sweeps, one line each.
        """
        alike = not self.likelihood.augmented and self.residual is None
        if alike and not self.features:
            return self._sweep(ledger, units, rng, sweeps, keep, weight)
        kept, done = [], 0
        while done < sweeps:
            some = 2 if alike and sweeps - done > 1 and (done + 1) * keep % sweeps >= keep else 1
            done += some
            lines = self._sweep(ledger, units, rng, some, 1, weight, often=sweeps > 2)
            if done * keep % sweeps < keep:
                kept.append(lines)
        return np.concatenate(kept) if kept else np.empty((0, 0))

    def _sweep(
        self,
        ledger: Ledger,
        units: Units,
        rng: np.random.Generator,
        sweeps: int,
        keep: int,
        weight: float,
        *,
        often: bool = False,
    ) -> Floats:
        """Sweep over the same observations all the time; rows with features move together with these ``often``."""
        model, likelihood, kinds, residual = self.model, self.likelihood, self._kinds, self.residual
        if residual is not None:
            residual.align(len(ledger))
        values = self._looked_at(ledger) if likelihood.augmented else _NO_VALUES
        observations = likelihood.observe(ledger, units, values, rng, weight=weight)
        learn_noise = likelihood.learned and residual is None
        fitted_to = observations
        if residual is not None:
            fitted = model.at(ledger.cells, ledger.order_by_sizes)
            residual.redraw_variance(observations, fitted, units, likelihood.variance, rng)
            fitted_to = residual.soften(observations, likelihood.variance)
        noise = np.empty((sweeps, len(model.rows) + 1 + len(model.core)))
        gammas = np.empty((sweeps, len(kinds) + 1))
        for line, some in zip(noise, gammas, strict=True):
            rng.standard_normal(out=line)
            for k, count in enumerate(kinds):
                some[k] = rng.standard_gamma((1 + count) / 2)
            if learn_noise:
                some[-1] = rng.standard_gamma(NOISE_SHAPE + observations.rounds / 2)
        if model.affine:  # its offset is an entry of the core, about the centre
            model.core[0] += model.offset - units.centre
            model.offset = units.centre
        if self.features:
            self._redraw_features(fitted_to, rng, often=often)
        likelihood.variance, kept = sweep(
            *(model, self._prior, fitted_to, noise),
            variance=likelihood.variance,
            offset_precision=1.0 / (OFFSET_VARIANCE * units.scale**2),
            learn=Learn(units.scale, NOISE_RATE * units.scale**2 if learn_noise else None),
            gammas=gammas,
            keep=keep,
        )
        if residual is not None:
            fitted = model.at(ledger.cells, ledger.order_by_sizes)
            likelihood.variance = residual.redraw(observations, fitted, units, likelihood, rng)
        return kept

    def _place(self, mode: int) -> RowPlace:
        """Return where the free rows of a mode are."""
        model, free = self.model, int(self.model.affine)
        column, r = sum(model.rank[:mode]), model.rank[mode]
        first = int((model.dims[0, :mode] * model.dims[1, :mode]).sum())
        at = np.array([first, r, free, column], dtype=np.int64)
        return RowPlace(at, self._sizes[column + free : column + r].copy())

    def _redraw_features(self, seen: Observations, rng: np.random.Generator, *, often: bool) -> None:
        """Redraw what features say of the rows of a mode given these, and now and then together with them.

        If it is to be ``often``, that of every mode, and of one together with its rows. The rows of levels without
        rewards are out of date until they are redrawn, which the sweep does next.
        """
        model, prior, modes = self.model, self._prior, self._modes
        mode = modes[int(len(modes) * rng.random())]
        for k in modes if often else (mode,):
            known, rewarded = self._rewarded.get(k, (-1, None))
            if known != len(seen.cells) or rewarded is None:  # cells are only ever added
                rewarded = rewarded_levels(seen.cells, k, model.shape[k])
                self._rewarded[k] = len(seen.cells), rewarded
            self.features[k].redraw(rewarded, self._places[k], model.rows, prior.rows, prior.precision, rng)
        scales, one = often or rng.random() < MOVING, self.features[mode]
        if scales or one.determined:  # whether scales are redrawn must not depend on these
            place = self._places[mode]
            equations = self._equations(mode, place, seen)
            one.move(place, model.rows, *equations, prior.rows, prior.precision, rng, scales=scales)

    def _equations(self, mode: int, place: RowPlace, seen: Observations) -> tuple[Floats, Floats]:
        """Return the normal equations of the free rows of a mode: what observations say of them, given all else."""
        from tensorbandits.model._features_kernels import equations

        model, q = self.model, len(place.sizes)
        A, b = np.zeros((model.shape[mode], q, q)), np.zeros((model.shape[mode], q))
        observed = seen.cells, seen.precision, seen.target, model.offset, 1.0 / self.likelihood.variance
        tensor = model.dims, model.rows, model.core, int(model.affine)
        equations(mode, *observed, *tensor, place.sizes, A, b)
        return A, b

    def values(self, ledger: Ledger) -> Floats:
        """Return the draw's values at the ledger's cells, shape (n,)."""
        values = self.model.at(ledger.cells, ledger.order_by_sizes)
        return values if self.residual is None else values + self.residual.align(len(ledger))

    def _looked_at(self, ledger: Ledger) -> Values:
        """Return the draw's values as the likelihood takes them: all, or where it looks."""
        if not self.likelihood.sparse or self.residual is not None:
            return self.values(ledger)
        return partial(self.model.at, ledger.cells)

    def log_likelihood(self, ledger: Ledger) -> float:
        """Return the logarithm of the rewards' density given the draw, up to a constant of the ledger."""
        return self.likelihood.log_density(ledger, self.values(ledger))

    def own_shares(self, seen: Observations) -> list[Floats]:
        """Return for each mode how much the levels' own rewards decide of their rows, (p_j,)."""
        return own_shares(self.model, seen, self.noise_variance, self.precision)

    def grow(self, shape: Cell, rank: Cell, rng: np.random.Generator, features: DescribedModes = NOT_DESCRIBED) -> None:
        """Give the modes more levels, with rows drawn from the prior given their ``features``; the rank stays."""
        model = self.model
        self._describe(features, rng)
        sizes = enumerate(zip(shape, model.shape, model.rank, strict=True))
        affine, priors = model.affine, self.features
        self.likelihood.grow(shape, rng)
        self.model = model.grown(
            [
                _prior_rows(p - before, r - affine, self.decay, rng, priors.get(j), affine=affine)
                for j, (p, before, r) in sizes
            ]
        )
        self.__post_init__()

    def describe(self, features: DescribedModes) -> None:
        """Go on with other features of the levels, in as many columns; what was learned of the columns stays."""
        self._describe(features, None)
        self.__post_init__()

    def _describe(self, features: DescribedModes, rng: np.random.Generator | None) -> None:
        known = self.features.items()
        self.features = {mode: one.grown(features.get(mode, one.described), rng) for mode, one in known}

    def state(self) -> dict[str, Any]:
        """Return the draw as plain arrays and numbers."""
        return self.model.state() | {
            "gammas": self.gammas.copy(),
            "decay": self.decay,
            "structure": self.structure,
            "likelihood": self.likelihood.state(),
            "residual": self.residual.state() if self.residual else {},
            **({"features": {str(j): one.state() for j, one in self.features.items()}} if self.features else {}),
        }

    @classmethod
    def from_state(
        cls,
        state: Mapping[str, Any],
        shape: Cell,
        rank: Cell,
        likelihood: Likelihood,
        features: DescribedModes = NOT_DESCRIBED,
    ) -> Self:
        """Return the draw that :meth:`state` described, which must be of this shape, rank and kind of likelihood."""
        structure = state["structure"]
        affine = structure != "tucker"
        ranks = tuple(r + affine for r in rank)
        kinds = int(core_kinds(ranks, structure).max(initial=-1)) + 1
        gammas = check_array(state["gammas"], "the chain's gammas", (kinds,))
        for gamma in gammas.tolist():
            check_positive(gamma, "a gamma of the chain")
        decay = check_positive(check_array(state["decay"], "decay", ()).item(), "the chain's decay")
        model = Model.from_state(state, shape, ranks, affine=affine)
        residual = Residual.from_state(state["residual"]) if state["residual"] else None
        wanted = {j: one for j, one in features.items() if rank[j]}
        found = check_modes(state, wanted)
        priors = {j: FeaturePrior.from_state(found[str(j)], one, rank[j]) for j, one in wanted.items()}
        return cls(model, gammas, likelihood.restored(state["likelihood"]), decay, structure, residual, priors)


def _prior_rows(
    count: int,
    rank: int,
    decay: float,
    rng: np.random.Generator,
    features: FeaturePrior | None = None,
    *,
    affine: bool = False,
) -> Floats:
    """Return rows of a factor (count, rank) drawn from the prior, after a column of ones if it is affine.

    They are those of the last levels that ``features`` knows, if these are given.
    """
    noise = rng.standard_normal((count, rank))
    rows = np.asarray(decay ** np.arange(rank) * (noise if features is None else features.rows(noise)))
    return np.hstack([np.ones((count, 1)), rows]) if affine else rows

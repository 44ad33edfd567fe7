"""Tensor ensemble sampling: one of many models decides, each fitted to rewards with its own noise (Algorithm 3)."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from tensorbandits.base.checks import (
    LARGEST_REWARD,
    SMALLEST_REWARD,
    Cell,
    Rank,
    check_array,
    check_count,
    check_level,
    check_noise,
    check_positive,
    check_shape,
    is_finite,
    is_sequence,
)
from tensorbandits.ledger import Ledger
from tensorbandits.model.gibbs import Structure, core_kinds
from tensorbandits.model.likelihood import Observations, Units
from tensorbandits.model.rewards import Reward, likelihood_of
from tensorbandits.model.sweep import Model, Prior, sweep
from tensorbandits.policies.approximate import Draw, ModelSampling, Oracle
from tensorbandits.policies.structures import candidates, check_structure, refused
from tensorbandits.tensor.tucker import Floats, Tucker

_STEPS = 32  # to bring a model of clicks or counts up to date on plenty of rewards that are all new to it; on few, 1
_PLENTY = 4.0  # rewards for each number of a model
_SETTLED = 0.05  # change of a value in a step, in units of the prior's scale, with which they end
_PRIOR_REWARDS = 2.0  # how many rewards the first guess of the noise variance counts for


class Member:
    """One model: its prior draw, its current fit, and its perturbations, in units of the perturbing deviation."""

    def __init__(self, prior: Model) -> None:
        self.prior = prior  # core and offset in units of the rewards
        self.model: Model | None = None
        self.counts: Floats = np.zeros(0)  # rewards per cell when last brought up to date
        self.perturbation: Floats = np.zeros(0)  # sum of one standard normal per such reward
        self.log_faded = 0.0  # and how much had faded then
        self.version = -1  # of the ledger then

    def perturb(self, ledger: Ledger, rng: np.random.Generator) -> Floats:
        """Draw the perturbation sums of the rewards that came since: a sum of j has variance j."""
        from tensorbandits.model._sweep_kernels import perturb

        total = np.zeros(len(ledger))
        total[: len(self.perturbation)] = self.perturbation
        faded = math.exp(ledger.log_faded - self.log_faded)
        perturb(ledger.counts, self.counts, faded, rng.standard_normal(len(ledger)), total)
        self.counts, self.perturbation, self.log_faded = ledger.counts.copy(), total, ledger.log_faded
        return total

    def steps(self, ledger: Ledger) -> int:
        """Return how many steps may be taken to bring the fit up to date: the more, the more rewards are new to it."""
        known = math.exp(ledger.log_faded - self.log_faded) * float(self.counts.sum())
        new = max(ledger.rounds - known, 0.0)
        plenty = _PLENTY * (len(self.prior.rows) + len(self.prior.core))
        return max(1, math.ceil(_STEPS * new / ledger.rounds * min(new / plenty, 1.0)))

    def grow(self, fresh: Sequence[Floats]) -> None:
        """Take the rows of new levels into the prior draw and, as a start, into the fit."""
        self.prior = self.prior.grown(fresh)
        self.model = self.model.grown(fresh) if self.model else None
        self.version = -1

    def state(self) -> dict[str, Any]:
        """Return the member as plain arrays."""
        state: dict[str, Any] = {"counts": self.counts.copy(), "perturbation": self.perturbation.copy()}
        state |= {"log_faded": self.log_faded, "version": self.version, "prior": self.prior.state()}
        return state | ({"model": self.model.state()} if self.model else {})

    @classmethod
    def from_state(cls, state: Mapping[str, Any], shape: Cell, rank: Cell, *, affine: bool = False) -> Self:
        """Return the member that :meth:`state` described, which must be of this shape and rank."""
        member = cls(Model.from_state(state["prior"], shape, rank, affine=affine))
        member.model = Model.from_state(state["model"], shape, rank, affine=affine) if "model" in state else None
        member.counts = check_array(state["counts"], "a member's counts", (len(state["counts"]),))
        member.perturbation = check_array(state["perturbation"], "a member's perturbations", member.counts.shape)
        member.log_faded = check_array(state["log_faded"], "a member's log_faded", ()).item()
        member.version = check_array(state["version"], "a member's version", (), integers=True).item()
        return member


class EnsembleOracle:
    """Draws a member uniformly, brings it up to date on all rewards, and returns its tensor."""

    def __init__(self, policy: TensorEnsembleSampling, shape: Cell, rank: Cell) -> None:
        self.size = policy.ensemble_size
        self.likelihood = likelihood_of(policy.reward, noise=policy.noise)
        self.structure: Structure = policy.structure or "tucker"
        self.perturbation = policy.perturbation
        self.scale_free = policy.scale_free
        self.intercept = policy.intercept
        self.core_ridge = policy.core_ridge
        self.sweeps = policy.sweeps
        self._priors = policy.prior_variance, policy.prior_mean
        self._size(shape, rank)
        self.members: dict[int, Member] = {}

    def _size(self, shape: Cell, rank: Cell) -> None:
        self.shape, self.rank = shape, rank
        self.prior_variance = _per_mode(self._priors[0], shape)
        self.prior_mean = _prior_means(self._priors[1], shape, rank)
        ranks = self._ranks
        self._precision = np.repeat(1.0 / np.array(self.prior_variance), ranks)  # of each column of each factor
        self._kind = np.minimum(core_kinds(ranks, self.structure), 0)  # one ridge for interactions of all orders
        sizes = sum(p * r for p, r in zip(shape, ranks, strict=True)) + 1 + math.prod(ranks)
        self._no_noise = np.zeros((self.sweeps, sizes))  # a draw without noise is a solution

    @property
    def _affine(self) -> bool:
        return self.structure != "tucker"

    @property
    def _ranks(self) -> Cell:
        """The columns of each factor, with the constant one."""
        return tuple(r + self._affine for r in self.rank)

    def __call__(self, ledger: Ledger, rng: np.random.Generator) -> Tucker:
        """Return an up-to-date member drawn uniformly."""
        return self.advance(ledger, rng).tensor()

    def advance(self, ledger: Ledger, rng: np.random.Generator) -> Model:
        """Do the same, and return the member's model itself."""
        return self.update(int(rng.integers(self.size)), ledger, rng)

    def grow(self, shape: Cell, rank: Cell, rng: np.random.Generator) -> None:
        """Draw the rows of new levels from each member's prior; where the rank is another one, all start afresh."""
        before = self.shape
        if rank != self.rank:
            self.members = {}
        self._size(shape, rank)
        for member in self.members.values():
            member.grow(
                [
                    self._with_ones(
                        (mean[size:] + math.sqrt(variance) * rng.standard_normal(mean[size:].shape))
                        / np.sqrt((mean**2 + variance).sum(axis=0))  # as columns are normalised
                    )
                    for mean, variance, size in zip(self.prior_mean, self.prior_variance, before, strict=True)
                ]
            )

    def more(self, ledger: Ledger, rng: np.random.Generator, count: int) -> Iterator[Model]:
        """Yield ``count`` further members given the same ledger; one that is up to date already costs nothing."""
        for _ in range(count):
            yield self.advance(ledger, rng)

    def update(self, index: int, ledger: Ledger, rng: np.random.Generator) -> Model:
        """Bring one member up to date on all rewards, if it is not, and return its model."""
        if index not in self.members:
            self.members[index] = Member(self._prior_draw(rng))
        member = self.members[index]
        if member.model is not None and member.version == ledger.version:
            return member.model
        units = self.likelihood.units(ledger) if self.scale_free else Units(0.0, 1.0)
        prior = self._in_units(member.prior, units)
        if not len(ledger):
            return prior
        if self.likelihood.learned:
            self.likelihood.variance = _noise_variance(ledger, units)
        spread = self.likelihood.information(ledger) if self.perturbation == "noise" else self.perturbation
        steps = member.steps(ledger) if self.likelihood.augmented else 1
        perturbation = np.sqrt(spread) * member.perturb(ledger, rng)
        member.model = member.model or prior.copy()
        member.version = ledger.version
        self._fit(member.model, prior, ledger, perturbation, units, steps)
        return member.model

    def _fit(
        self, model: Model, prior: Model, ledger: Ledger, perturbation: Floats, units: Units, steps: int = 1
    ) -> None:
        """Solve for the blocks of a model in turn, as often as ``sweeps`` says, given the perturbations of targets.

        Where observations depend on the model, they are taken at it before, which makes that a step of Newton's method;
        there are as many steps as it takes to settle, up to a limit.
        """
        about = units._replace(centre=prior.offset if self.intercept else model.offset)
        if model.affine:  # its offset is an entry of the core, about the prior's
            model.core[0] += model.offset - prior.offset
            model.offset = prior.offset
        if not self.likelihood.augmented:
            self._solve(model, prior, self.likelihood.expect(ledger, about, perturbation), perturbation, units)
            return
        before = model.at(ledger.cells, ledger.order_by_sizes)
        for left in range(steps - 1, -1, -1):
            push, slopes = self.likelihood.held(ledger, before, perturbation)
            seen = self.likelihood.expect(ledger, about, before)
            seen = seen._replace(precision=seen.precision + slopes, target=seen.target + slopes * before)
            self._solve(model, prior, seen, push, units)
            if left:
                after = model.at(ledger.cells, ledger.order_by_sizes)
                if np.abs(after - before).max() < _SETTLED * units.scale:
                    return
                before = after

    def _solve(
        self, model: Model, prior: Model, observations: Observations, perturbation: Floats, units: Units
    ) -> None:
        ridge = np.array([self.core_ridge / units.scale**2])
        held = Prior(prior.rows, prior.core, prior.offset, self._precision, self._kind, ridge)
        sweep(
            *(model, held, observations._replace(target=observations.target + perturbation), self._no_noise),
            variance=self.likelihood.variance,
            offset_precision=units.scale**-2 if self.intercept else None,
        )

    def _prior_draw(self, rng: np.random.Generator) -> Model:
        """Rows N(mu, sigma_k^2 I), columns normalised, after a column of ones if affine; core all ones."""
        rows = []
        for mean, variance in zip(self.prior_mean, self.prior_variance, strict=True):
            U = mean + math.sqrt(variance) * rng.standard_normal(mean.shape)
            rows.append(self._with_ones(U / np.linalg.norm(U, axis=0)).ravel())
        offset = float(rng.standard_normal()) if self.intercept else 0.0
        core = np.where(self._kind < 0, 0.0, 1.0)
        return Model(self.shape, self._ranks, np.concatenate(rows), core, offset, affine=self._affine)

    def _with_ones(self, U: Floats) -> Floats:
        return np.hstack([np.ones((len(U), 1)), U]) if self._affine else U

    def _in_units(self, prior: Model, units: Units) -> Model:
        """A member's prior in the units of the rewards."""
        offset = units.centre + units.scale * prior.offset if self.intercept else 0.0
        return Model(self.shape, self._ranks, prior.rows, units.scale * prior.core, offset, affine=self._affine)

    def state(self) -> dict[str, Any]:
        """Return all members that were used so far."""
        return {str(index): member.state() for index, member in self.members.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take back what :meth:`state` returned."""
        self.members = {
            check_level(int(index), self.size, "a member"): Member.from_state(
                member, self.shape, self._ranks, affine=self._affine
            )
            for index, member in state.items()
        }


class TensorEnsembleSampling(ModelSampling):
    """An ensemble of low-rank models; each round one of them, drawn uniformly, decides.

    Each reward enters every model with its own Gaussian perturbation, so that the spread of the models stands in for
    the posterior. A model is brought up to date when it is drawn, by alternating exact solves.

    Parameters
    ----------
    shape, context, seed : as for every policy.
    rank : an int (a cap, lowered for smaller modes), a tuple, or ``"auto"``: 3, or less in many modes.
    structure : ``"tucker"``, ``"affine"`` or ``"additive"``, as for :class:`TensorThompsonSampling`.
    reward : what a reward is: ``"gaussian"``, ``"bernoulli"``, ``"binomial"`` or ``"count"``, not revenue. With clicks
        and counts a model is a mode of the posterior, of sums that are perturbed by as much as such rewards vary.
    ensemble_size : the number of models ``M``; the paper uses 100.
    perturbation : the variance ``sigma_tilde^2`` of the perturbations. ``"noise"`` uses the noise variance, which
        keeps models from locking onto a wrong cell; the paper uses 0.1.
    noise : the standard deviation ``sigma`` of a Gaussian reward; ``None`` estimates it from cells seen repeatedly.
    prior_mean : the prior means ``mu_k`` of the factor rows: a number, or one array (p_k, r_k) per mode.
    prior_variance : their prior variances ``sigma_k^2``: a number, or one per mode. ``None`` is ``1 / p_k``, the spread
        that entries of normalised columns have, so that models stay as far apart as their prior draws until rewards
        say otherwise; the paper leaves it open, and its constructor here sets 1.
    core_ridge : weight of the ridge that holds the core to its start, all ones.
    scale_free : state the prior in units of the rewards seen; the paper does not.
    intercept : let each model have a constant besides its tensor; the paper does not.
    sweeps : alternating passes over rows and core when a model is brought up to date, from where it stood.

    >>> policy = TensorEnsembleSampling((3, 4, 5), rank=2, seed=0)
    >>> cell = policy.ask()
    >>> policy.tell(cell, 0.7)
    >>> 0.0 <= policy.propensity(policy.best()) <= 1.0
    True
    """

    oracle: EnsembleOracle

    def __init__(
        self,
        shape: Sequence[int],
        rank: Rank = "auto",
        *,
        context: Sequence[int] = (),
        structure: Structure | None = None,
        reward: Reward = "gaussian",
        ensemble_size: int = 100,
        perturbation: float | Literal["noise"] = "noise",
        noise: float | None = None,
        prior_mean: float | Sequence[ArrayLike] = 0.0,
        prior_variance: float | Sequence[float] | None = None,
        core_ridge: float = 0.01,
        scale_free: bool = True,
        intercept: bool = True,
        sweeps: int = 3,
        seed: int | np.random.SeedSequence | None = None,
    ) -> None:
        self.rank, self.structure = rank, check_structure(structure, allowed=("tucker", "affine", "additive"))
        self.reward: Reward = reward
        self.ensemble_size = check_count(ensemble_size, "ensemble_size")
        if perturbation != "noise":
            check_positive(perturbation, 'perturbation (a variance, or "noise")')
            if reward != "gaussian":
                raise ValueError(
                    f"perturbation is {perturbation!r}, as in the paper, whose rewards are normal; of {reward} rewards "
                    'the variance is known: use "noise", the default'
                )
        self.perturbation = perturbation
        if isinstance(noise, str):
            raise ValueError(
                f"noise is {noise!r}; give a number, or None, which estimates it: by level it differs in "
                "TensorThompsonSampling only"
            )
        self.noise = check_noise(noise)
        self.prior_mean, self.prior_variance = copy.deepcopy(prior_mean), prior_variance
        self.core_ridge = check_positive(core_ridge, "core_ridge")
        self.scale_free, self.intercept = bool(scale_free), bool(intercept)
        self.sweeps = check_count(sweeps, "sweeps")
        sizes = check_shape(shape)
        if self.structure is not None and self.structure != "tucker" and not self.intercept:
            raise ValueError(f'intercept is False; structure "{self.structure}" has a constant: leave intercept True')
        oracle = EnsembleOracle(self, sizes, self._columns(sizes))
        super().__init__(sizes, oracle, context=context, draws=self.ensemble_size, seed=seed)

    @classmethod
    def paper(cls, shape: Sequence[int], rank: Rank, **arguments: Any) -> Self:
        """Return the policy with the paper's values: M = 100, sigma_tilde^2 = 0.1, sigma = sigma_k = 1."""
        values: dict[str, Any] = {
            "ensemble_size": 100,
            "perturbation": 0.1,
            "noise": 1.0,
            "prior_variance": 1.0,
            "scale_free": False,
            "intercept": False,
        }
        return cls(shape, rank, **(values | arguments))

    def _columns(self, shape: Cell) -> Cell:
        return candidates(self.rank, self.structure or "tucker", shape)[-1].rank

    def refusal_to_grow(self, shape: Sequence[int]) -> str | None:
        """Return why no model can follow to a larger shape, or ``None``."""
        if (why := super().refusal_to_grow(shape)) is not None:
            return why
        if not isinstance(self.prior_mean, Real):
            return (
                "prior_mean was given row by row, and says nothing of a new level; make a new policy with one more "
                "row, and give it what was learned with tell_ledger"
            )
        return refused(self._columns, check_shape(shape))

    def _grow(self, shape: Cell) -> None:
        super()._grow(shape)
        self.oracle.grow(shape, self._columns(shape), self._rng)

    def _next_draws(self) -> list[tuple[float, Draw]]:
        return [(1.0, draw) for draw in self._posterior_draws()]

    def _draw_copies(self, oracle: Oracle) -> list[Draw]:
        """Every member once, as the next ask would have it: so propensities are shares of the whole ensemble."""
        assert isinstance(oracle, EnsembleOracle)
        served = copy.deepcopy(self._rng)
        index = int(served.integers(self.ensemble_size))
        others = self._aside()
        return [
            oracle.update(member, self._ledger, served if member == index else others).copy()
            for member in range(self.ensemble_size)
        ]


def _noise_variance(ledger: Ledger, units: Units) -> float:
    """The variance of a reward, pooled within cells with the overall scale as a first guess."""
    squares, freedom = ledger.repeats()
    return (squares + _PRIOR_REWARDS * units.scale**2) / (freedom + _PRIOR_REWARDS)


def _per_mode(variance: float | Sequence[float] | None, shape: Cell) -> list[float]:
    if variance is None:
        return [1.0 / size for size in shape]
    if not isinstance(variance, Real) and not is_sequence(variance):
        raise TypeError(f"prior_variance is {variance!r}; give a number above 0, or one per mode of {shape}")
    values = [variance] * len(shape) if isinstance(variance, Real) else list(variance)
    if len(values) != len(shape):
        raise ValueError(
            f"prior_variance has {len(values)} entries for {len(shape)} modes; give a number, or one per mode"
        )
    found = [check_positive(value, "prior_variance") for value in values]
    if not all(SMALLEST_REWARD <= value <= LARGEST_REWARD for value in found):
        raise ValueError(f"prior_variance is {variance!r}; sizes from 1e-100 to 1e100 are allowed")
    return found


def _prior_means(means: float | Sequence[ArrayLike], shape: Cell, rank: Cell) -> list[Floats]:
    wanted = list(zip(shape, rank, strict=True))
    refusal = f"prior_mean is {means!r}; give a finite number, or finite arrays of shapes {wanted}"
    if isinstance(means, Real):
        if not is_finite(means) or abs(float(means)) > LARGEST_REWARD:
            raise ValueError(refusal)
        return [np.full(size, float(means)) for size in wanted]
    if not is_sequence(means):
        raise TypeError(refusal)
    try:
        arrays = [np.array(mean, dtype=np.float64) for mean in means]
    except (TypeError, ValueError, OverflowError):
        raise ValueError(refusal) from None
    if [mean.shape for mean in arrays] != wanted or not all((np.abs(mean) <= LARGEST_REWARD).all() for mean in arrays):
        raise ValueError(
            f"prior_mean has arrays of shapes {[mean.shape for mean in arrays]}; "
            f"give a number, or finite arrays of shapes {wanted}"
        )
    return arrays

"""Worlds beside the paper's: click campaigns, a tensor of full rank, counts with a heavy tail, revenue, open data.

Each is a small value that is called with a seed and returns an environment, as :func:`tensorbandits.compare` wants it.
The simulated ones have new means for each seed; of the open data the means are the data's, and the seed draws rewards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

import tensorbandits as tb
from tensorbandits.data import Log, open_data
from tensorbandits.sim.log_world import World

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Campaign:
    """Clicks: 12 segments, which are given, and 40 offers x 8 channels, which are decided, or another shape.

    The logits of the click rates are main effects plus ``interactions`` times an interaction of rank 2, both with
    standard deviation 1 over the cells, stretched so that the rates go from ``low`` to ``high``. With ``main=False``
    there are no main effects: the mean of the logits over any mode is the same for all that remains.
    """

    low: float
    high: float
    main: bool
    interactions: float = 0.4
    shape: tuple[int, ...] = (12, 40, 8)
    context: tuple[int, ...] = (0,)

    def __call__(self, seed: int) -> tb.TensorEnvironment:
        """Return the environment of a seed."""
        rng = np.random.default_rng([seed, 1])
        logits = unit(interaction(self.shape, rank=2, rng=rng))
        if self.main:
            logits = unit(main_effects(self.shape, rng)) + self.interactions * logits
        ends = np.log([self.low / (1 - self.low), self.high / (1 - self.high)])
        share = (logits - logits.min()) / (logits.max() - logits.min())
        rates = 1 / (1 + np.exp(-(ends[0] + (ends[1] - ends[0]) * share)))
        return tb.TensorEnvironment(rates, family="bernoulli", context=self.context, seed=seed)


@dataclass(frozen=True)
class FullRank:
    """Normal rewards with noise 1 around main effects and an independent residual of each cell, so of full rank."""

    shape: tuple[int, ...] = (12, 12, 12)
    main: float = 0.75  # standard deviation of the sum of the main effects
    residual: float = 0.5

    def __call__(self, seed: int) -> tb.TensorEnvironment:
        """Return the environment of a seed."""
        rng = np.random.default_rng([seed, 2])
        mean = self.main * unit(main_effects(self.shape, rng)) + self.residual * rng.standard_normal(self.shape)
        return tb.TensorEnvironment(mean, seed=seed)


@dataclass(frozen=True)
class Keywords:
    """Clicks a day of keywords, which are decided, by month and weekday, which are given.

    Keywords have lognormal levels, so that a few earn most. Each has a season of its own (a wave over the months) and
    likes weekends more or less. A day's count is negative binomial with variance mean + mean^2 / ``size``.
    """

    keywords: int = 300
    median: float = 3.0
    tail: float = 1.5  # standard deviation of the logarithm of the levels
    size: float = 3.0

    def __call__(self, seed: int) -> CountEnvironment:
        """Return the environment of a seed."""
        rng = np.random.default_rng([seed, 3])
        level, season, weekend = rng.standard_normal((3, self.keywords))
        angle = 2 * math.pi * np.arange(12)[:, None] / 12 - rng.uniform(0, 2 * math.pi, self.keywords)
        months = 0.4 * np.abs(season) * np.cos(angle) + 0.2 * rng.standard_normal((12, 1))
        weekdays = 0.3 * weekend * (np.arange(7)[:, None] >= 5) + 0.1 * rng.standard_normal((7, 1))
        mean = self.median * np.exp(self.tail * level + months[:, None, :] + weekdays[None, :, :])
        return CountEnvironment(mean, self.size, context=(0, 1), seed=seed)


@dataclass(frozen=True)
class Layouts:
    """Clicks on layouts of a page: all modes are decided, and log-odds are main effects and interactions about a base.

    ``main``, ``pairs`` and ``triple`` are the standard deviations over cells of all main effects together, of all
    interactions of two modes, and of one of three modes. With a ``rank`` each interaction of two modes is of that rank.
    """

    shape: tuple[int, ...] = (4, 3, 4, 2, 6)
    main: float = 0.9
    pairs: float = 0.8
    rank: int | None = None
    triple: float = 0.0
    base: float = 0.05

    def __call__(self, seed: int) -> tb.TensorEnvironment:
        """Return the environment of a seed."""
        rng, modes = np.random.default_rng([seed, 4]), len(self.shape)
        logits = math.log(self.base / (1 - self.base)) + self.main * unit(main_effects(self.shape, rng))
        logits = logits + self.pairs * unit(pair_effects(self.shape, self.rank, rng))
        if self.triple:
            three = tuple(sorted(rng.choice(modes, 3, replace=False).tolist()))
            cube = rng.standard_normal([self.shape[mode] for mode in three])
            logits = logits + self.triple * unit(_along(cube, three, modes))
        return tb.TensorEnvironment(1 / (1 + np.exp(-logits)), family="bernoulli", seed=seed)


class CountEnvironment(tb.TensorEnvironment):
    """An environment whose rewards are negative binomial counts with variance mean + mean^2 / ``size``."""

    def __init__(self, mean: Floats, size: float, *, context: Sequence[int], seed: int) -> None:
        super().__init__(mean, noise=0.0, family="poisson", context=context, seed=seed)
        self.family, self.size = "negative binomial", size

    def pull(self, cell: Sequence[int]) -> float:
        """Draw the count of a cell."""
        mean = self.mean_at(cell)
        return float(self._reward_rng.negative_binomial(self.size, self.size / (self.size + mean)))


@dataclass(frozen=True)
class Revenue:
    """Purchases: 10 segments, which are given, and 60 offers x 5 prices, which are decided; most buy nothing.

    The log-odds of buying are main effects plus an interaction of rank 2, stretched so that rates go from ``low`` to
    ``high``. So are the logarithms of amounts, drawn apart, with the standard deviation ``differ`` over cells: with 0,
    amounts are alike everywhere. A single amount is log-normal, with the standard deviation ``noise`` of its logarithm.
    """

    differ: float = 0.5
    low: float = 0.01
    high: float = 0.06
    noise: float = 0.8
    median: float = 30.0
    interactions: float = 0.4
    shape: tuple[int, int, int] = (10, 60, 5)

    def __call__(self, seed: int) -> RevenueEnvironment:
        """Return the environment of a seed."""
        rng = np.random.default_rng([seed, 4])
        logits, sizes = (
            unit(main_effects(self.shape, rng)) + self.interactions * unit(interaction(self.shape, rank=2, rng=rng))
            for _ in range(2)
        )
        ends = np.log([self.low / (1 - self.low), self.high / (1 - self.high)])
        share = (logits - logits.min()) / (logits.max() - logits.min())
        rates = 1 / (1 + np.exp(-(ends[0] + (ends[1] - ends[0]) * share)))
        amounts = self.median * np.exp(self.differ * unit(sizes))
        return RevenueEnvironment(rates, amounts, self.noise, context=(0,), seed=seed)


class RevenueEnvironment(tb.TensorEnvironment):
    """An environment whose rewards are 0, or with a cell's rate a log-normal amount about its median."""

    def __init__(
        self,
        rates: Floats,
        medians: Floats,
        noise: float,
        *,
        context: Sequence[int],
        seed: int,
        context_weights: Sequence[Floats] | None = None,
    ) -> None:
        mean = rates * medians * math.exp(noise**2 / 2)
        super().__init__(mean, noise=noise, context=context, context_weights=context_weights, seed=seed)
        self.family, self.rates, self.medians = "revenue", rates, medians

    def pull(self, cell: Sequence[int]) -> float:
        """Draw the reward of a cell."""
        at = tuple(cell)
        if self._reward_rng.random() >= self.rates[at]:
            return 0.0
        return float(self.medians[at] * math.exp(self.noise * self._reward_rng.standard_normal()))


@dataclass(frozen=True)
class Programme:
    """An e-mail and push programme: country, device and daypart are given, creative, discount and channel are decided.

    About 3 % of those who are written to at random buy. The log-odds of buying are main effects, which for discounts
    rise with them, and interactions of rank 1 of all pairs of modes. Amounts are log-normal; their medians are what is
    left after the discount of a price that depends on creative and country.
    """

    shape: tuple[int, ...] = (12, 3, 4, 28, 5, 3)
    discounts: tuple[float, ...] = (0.0, 0.05, 0.1, 0.2, 0.3)
    base: float = 0.02
    main: float = 0.5  # standard deviation over cells of all main effects, and of all interactions
    pairs: float = 0.4
    lift: float = 2.0  # of the log-odds, at a discount of 100 %
    median: float = 75.0
    differ: float = 0.3  # standard deviation of log-prices over cells
    noise: float = 0.6  # and of a single amount

    def __call__(self, seed: int) -> RevenueEnvironment:
        """Return the environment of a seed."""
        rng = np.random.default_rng([seed, 6])
        discount = np.array(self.discounts)[:, None]  # along the last mode but one
        logits = math.log(self.base / (1 - self.base)) + self.lift * discount
        logits = logits + self.main * unit(main_effects(self.shape, rng))
        logits = logits + self.pairs * unit(pair_effects(self.shape, 1, rng))
        country, creative = (rng.standard_normal(self.shape[mode]) for mode in (0, 3))
        prices = unit(_along(country, (0,), 6) + _along(creative, (3,), 6))
        medians = self.median * (1.0 - discount) * np.exp(self.differ * prices) * np.ones(self.shape)
        weights = [1.0 / np.arange(1.0, self.shape[0] + 1), np.array([0.6, 0.3, 0.1]), np.array([0.2, 0.3, 0.2, 0.3])]
        rates = 1 / (1 + np.exp(-logits))
        return RevenueEnvironment(rates, medians, self.noise, context=(0, 1, 2), seed=seed, context_weights=weights)


@dataclass(frozen=True)
class OpenData:
    """Bikes or flights, with the rewards standardised as in the reproduction of Figures 3 and 4."""

    data: str
    context: tuple[str, ...] = ()

    def __call__(self, seed: int) -> tb.TensorEnvironment:
        """Return the environment of a seed."""
        return _open_world(self)(seed)


@cache
def _open_world(chosen: OpenData) -> World:
    log = _open_log(chosen.data)
    if chosen.data == "bikes":
        return log.world(chosen.context, shrinkage=0.0, standardise=True)
    least, pseudo = open_data.FLIGHTS_MIN_COUNT, open_data.FLIGHTS_SHRINKAGE
    return log.world(chosen.context, min_count=least, shrinkage=pseudo, standardise=True)


@cache
def _open_log(data: str) -> Log:
    return {"bikes": open_data.bikes, "flights": open_data.flights}[data]()


def spread(environment: tb.TensorEnvironment) -> tuple[float, float]:
    """Return the mean over all cells, and the standard deviation of rewards within them."""
    mean = environment.mean
    assert isinstance(mean, np.ndarray)
    if environment.family == "bernoulli":
        variance = mean * (1 - mean)
    elif isinstance(environment, CountEnvironment):
        variance = mean + mean**2 / environment.size
    else:
        variance = np.full(mean.shape, environment.noise**2)
    return float(mean.mean()), math.sqrt(float(variance.mean()))


def unit(values: Floats) -> Floats:
    """Shift and stretch to mean 0 and standard deviation 1 over all cells."""
    return np.asarray((values - values.mean()) / values.std())


def main_effects(shape: Sequence[int], rng: np.random.Generator) -> Floats:
    """Add up one normal effect per level of each mode."""
    grids = np.meshgrid(*(rng.standard_normal(size) for size in shape), indexing="ij", sparse=True)
    return np.asarray(sum(grids))


def pair_effects(shape: Sequence[int], rank: int | None, rng: np.random.Generator) -> Floats:
    """Add up one normal table for each pair of modes, or with a rank one of that rank."""
    tables = np.zeros(shape)
    for pair in combinations(range(len(shape)), 2):
        table = rng.standard_normal([shape[mode] for mode in pair])
        if rank is not None:
            left, right = (rng.standard_normal((shape[mode], rank)) for mode in pair)
            table = left @ right.T
        tables += _along(table, pair, len(shape))
    return tables


def _along(values: Floats, modes: Sequence[int], of: int) -> Floats:
    """Return an array over some modes, ascending, as one over all of them, with axes of length 1 for the others."""
    sizes = dict(zip(modes, values.shape, strict=True))
    return values.reshape([sizes.get(mode, 1) for mode in range(of)])


def interaction(shape: Sequence[int], rank: int, rng: np.random.Generator) -> Floats:
    """Return a tensor of a rank with two equal singular values, whose mean over any mode is 0."""
    factors = []
    for size in shape:
        columns = rng.standard_normal((size, rank))
        factors.append(np.linalg.qr(columns - columns.mean(axis=0))[0])
    core = np.zeros((rank,) * len(shape))
    core[(np.arange(rank),) * len(shape)] = 1.0
    return tb.Tucker(core, tuple(factors)).full()

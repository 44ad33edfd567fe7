"""Counts: rewards that are 0, 1, 2, .. and may vary far more than a Poisson count of the same mean.

A reward of a cell whose value is ``x`` has the negative binomial law of mean ``m = e^x`` and variance ``m + m^2 / r``.
The sum of ``N`` of them is negative binomial too, and says all that they say of ``x``. The *dispersion* ``r`` is one
number for all cells, learned from those sums and from the squares within cells; the larger, the closer to Poisson.

Of a mean far above ``r`` a reward says ``r`` at most, however large it is; but Polya-Gamma variates of ``Y + rN`` hold
the chain as fast as if all events had come by themselves. So only a share ``q`` of the events is counted there. As
events of which a share is kept have the same law with the same dispersion, the mean that is most likely stays where it
is, and all but ``r / (q m + r)`` of what the reward says is left.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from tensorbandits.base.checks import check_array, check_count, check_positive
from tensorbandits.ledger import Ledger
from tensorbandits.model.likelihood import ROUNDING, Likelihood, Observations, Units, whole, within_reach
from tensorbandits.model.polya_gamma import Weights, mean_weights
from tensorbandits.tensor.tucker import Floats

_LEAST = 256  # variates that are redrawn in a sweep: with fewer, counts that are nearly Poisson settle too slowly
_SCALE = 1.0  # of logarithms of means in the prior
_SPREAD = 2.0  # scale of the Cauchy prior of log r, about 0
_SMALLEST = 0.01  # dispersion
_LARGEST = 100.0  # dispersion, in units of the largest mean: beyond, counts are Poisson and a chain only gets slower
_STEPS = (0.02, 2.0)  # of the proposals of log r, drawn in between on a logarithmic scale
_EVENTS = 30.0  # times the dispersion: a cell's mean beyond which a share of the events says all but a 31st
_MOST = 1e15  # reward: not every larger float is a whole number
_OFTEN = 500  # with more cells the dispersion does not move in every sweep
_HIGHEST = 230.0  # value: rewards beyond e^230 are none


@dataclass
class Counts(Likelihood):
    """Negative binomial rewards with one dispersion, which is learned.

    >>> ledger = Ledger((2,)); ledger.add([(0,), (0,), (1,)], [3.0, 5.0, 0.0])
    >>> Counts().rewards(np.log([4.0, 1.0])).round(6).tolist()
    [4.0, 1.0]
    """

    dispersion: float = 1.0
    variance: float = 1.0
    weights: Weights = field(default_factory=Weights, compare=False, repr=False)
    calls: int = field(default=0, compare=False, repr=False)  # of observe
    augmented: ClassVar[bool] = True
    allowed: ClassVar[str] = "whole numbers from 0 to 1e15"

    def drawn(self, units: Units, rng: np.random.Generator) -> Self:
        """Return the likelihood with a dispersion drawn from its prior."""
        low, high = _bounds(units)
        log_r = _SPREAD * rng.standard_cauchy()
        return type(self)(math.exp(min(max(log_r, math.log(low)), math.log(high))))

    def units(self, ledger: Ledger) -> Units:
        """Return the mean over observed cells of the logarithms of their means, each shrunk towards the pooled one."""
        if not len(ledger):
            return Units(0.0, _SCALE)
        return Units(float(np.log(_shrunk_means(ledger)).mean()), _SCALE)

    def observe(
        self, ledger: Ledger, units: Units, values: Floats, rng: np.random.Generator, *, weight: float = 1.0
    ) -> Observations:
        """Redraw the dispersion; return a Polya-Gamma precision and a target per cell, given the present draw."""
        values = np.minimum(values, _HIGHEST)
        if self.calls % (1 + len(ledger) // _OFTEN) == 0:  # then all variates are redrawn
            self._redraw(ledger, units, values, rng, weight)
        self.calls += 1
        # The law of a sum is e^(Y z) / (1 + e^z)^(Y + rN) in z = x - log r.
        r, share = self.dispersion, _share(_shrunk_means(ledger), self.dispersion)
        N, Y, log_r = weight * ledger.counts, weight * share * ledger.totals, np.log(r / share)
        tilts, order = values - log_r, ledger.order_by_sizes
        omega = self.weights.redraw(Y + r * N, lambda cells: tilts, order, rng, least=_LEAST)
        target = (Y - r * N) / 2.0 + omega * log_r
        return Observations(order, ledger.cells, omega, target, units.centre, 0.0, weight * ledger.rounds)

    def expect(self, ledger: Ledger, units: Units, values: Floats) -> Observations:
        """Return what takes a solve a step towards the mode, at the dispersion that squares within cells suggest."""
        self.dispersion = r = estimate_dispersion(ledger)
        values = np.minimum(values, _HIGHEST)
        means = np.exp(values)
        share = r / (means + r)
        information = ledger.counts * np.maximum(means * share, self.information(ledger))
        return Observations.towards(ledger, units, values, (ledger.totals - ledger.counts * means) * share, information)

    def information(self, ledger: Ledger) -> Floats:
        """Return what one reward of each cell says of its value, about: the variance of its score, shape (n,)."""
        means, r = _shrunk_means(ledger), estimate_dispersion(ledger)
        return np.asarray(means * r / (means + r))

    def _redraw(self, ledger: Ledger, units: Units, values: Floats, rng: np.random.Generator, weight: float) -> None:
        """Move the dispersion by a Metropolis step of random length, on a logarithmic scale."""
        low, high = _bounds(units)
        steps = np.log(_STEPS)
        length = math.exp(rng.uniform(steps[0], steps[1]))
        proposal = self.dispersion * math.exp(length * rng.standard_normal())
        chance = -rng.standard_exponential()
        if low <= proposal <= high:
            before, after = (
                weight * Counts(r).log_density(ledger, values) - math.log1p((math.log(r) / _SPREAD) ** 2)
                for r in (self.dispersion, proposal)
            )
            if after - before > chance:
                self.dispersion = proposal
        self.dispersion = min(max(self.dispersion, low), high)

    def slowness(self, ledger: Ledger) -> float:
        """Return the precision that a draw is given over the information of the rewards, of the median cell."""
        if not len(ledger):
            return 1.0
        r, means = estimate_dispersion(ledger), _shrunk_means(ledger)
        kept = _share(means, r) * means
        weights = mean_weights(kept + r, np.log(kept / r))
        return float(np.median(weights * (kept + r) / (kept * r)))

    def may_be(self, reward: float) -> bool:
        """Take 0, 1, 2, and so on."""
        return 0.0 <= reward <= _MOST and reward.is_integer()

    def may_add_up(self, counts: Floats, totals: Floats, squares: Floats, *, faded: bool = False) -> NDArray[np.bool_]:
        """Take sums of whole numbers, whose squares are no smaller than they are."""
        near = ROUNDING * (1.0 + counts)
        possible = (totals >= -near) & (totals <= _MOST * counts) & (squares >= totals * (1.0 - ROUNDING) - near)
        return possible if faded else possible & whole(counts, totals)

    def rewards(self, values: Floats) -> Floats:
        """Return the means."""
        return np.asarray(np.exp(np.minimum(values, _HIGHEST)))

    def typical(self, rewards: Floats) -> Floats:
        """Return the median of the draws: where little is known their mean is that of the largest alone."""
        return np.asarray(np.median(rewards, axis=0))

    def held(self, ledger: Ledger, values: Floats, perturbation: Floats) -> tuple[Floats, Floats]:
        """Return them cut, far out, to what the slope of the log-likelihood can make up for."""
        seen, most = np.log(_shrunk_means(ledger)), estimate_dispersion(ledger) * ledger.counts
        return within_reach(seen, values, perturbation, ledger.totals, most)

    def pulls(self, ledger: Ledger, values: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the squares of how far the sums of counts are from what the values say, over their variances."""
        r, means = self.dispersion, np.exp(np.clip(values, -_HIGHEST, _HIGHEST))
        share = r / (means + r)
        information = ledger.counts * means * share
        squares = ((ledger.totals - ledger.counts * means) * share) ** 2 / information
        return squares, information, 2.0 + 6.0 / (r * ledger.counts) + share**2 / information

    def log_density(self, ledger: Ledger, values: Floats) -> float:
        """Return the logarithm of the counts' density given the values at the ledger's cells, up to a constant.

        The density of a cell's sum is exact. Given the sum, that of the squares ``W`` within the cell is taken to be
        gamma, with their exact mean and with the shape that the kurtosis of such counts gives for large ``N``; the
        shape is the ledger's, so that it is the same for every draw.
        """
        r, N, Y = self.dispersion, ledger.counts, ledger.totals
        above = np.logaddexp(values, math.log(r))  # log(m + r)
        sums = gammaln(Y + r * N) - gammaln(r * N) + Y * (values - above) + r * N * (math.log(r) - above)
        more = (N > 1.0) & (Y > 0.0)
        N, Y = N[more], Y[more]
        expected = Y * (1.0 - 1.0 / N) * (Y + r * N) / (1.0 + r * N)
        squares = _shapes(ledger)[more] * (np.log(expected) + ledger.within[more] / expected)
        return float(sums.sum() - squares.sum())

    def log_scores(self, values: Floats, counts: Floats, totals: Floats, variances: Floats) -> Floats:
        """Return the log densities of the sums of the counts."""
        r = self.dispersion
        above = np.logaddexp(values, math.log(r))
        own = gammaln(totals + r * counts) - gammaln(r * counts) + r * counts * math.log(r)
        return np.asarray(own + totals * (values - above) - r * counts * above)

    def state(self) -> dict[str, Any]:
        """Return the likelihood as plain numbers."""
        return {"dispersion": self.dispersion, "weights": self.weights.state(), "calls": self.calls}

    def restored(self, state: Mapping[str, Any]) -> Self:
        """Return the likelihood that :meth:`state` described."""
        given = check_array(state["dispersion"], "the dispersion", ()).item()
        calls = check_count(state["calls"], "the calls of a likelihood", 0)
        weights = Weights.from_state(state["weights"])
        return type(self)(check_positive(given, "the dispersion"), weights=weights, calls=calls)


def estimate_dispersion(ledger: Ledger) -> float:
    """Return the dispersion at which the squares within cells are what is expected; 1 where nothing is known.

    >>> ledger = Ledger((1,)); ledger.add(np.zeros((4, 1), dtype=int), [0.0, 0.0, 0.0, 8.0])
    >>> round(estimate_dispersion(ledger), 3)
    0.375
    """
    N, means = ledger.counts, ledger.means
    freedom, weight = np.maximum(N - 1.0, 0.0), 1.0 / np.maximum(means + means**2, 1e-100)
    extra = float((weight * (ledger.within - freedom * means)).sum())
    whole = float((weight * freedom * means**2).sum())
    estimate = (whole + 1.0) / (max(extra, 0.0) + 1.0)
    largest = _LARGEST * max(1.0, float(means.max())) if len(means) else _LARGEST
    return min(max(estimate, _SMALLEST), largest)


def _shapes(ledger: Ledger) -> Floats:
    """Return the shape of the gamma law of each cell's squares about its mean, from variance and excess kurtosis."""
    r, N, means = estimate_dispersion(ledger), ledger.counts, _shrunk_means(ledger)
    kurtosis = 6.0 / r + 1.0 / (means + means**2 / r)
    freedom = np.maximum(N - 1.0, 0.0)
    return np.asarray(freedom / (2.0 + kurtosis * freedom / N))


def _shrunk_means(ledger: Ledger) -> Floats:
    """Return the mean of each observed cell, to which one event at the pooled mean is added."""
    pooled = (ledger.totals.sum() + 0.5) / (ledger.rounds + 1.0)
    rounds = 1.0 / pooled
    return np.asarray((ledger.totals + rounds * pooled) / (ledger.counts + rounds))


def _share(means: Floats, dispersion: float) -> Floats:
    """Return the share of events that is counted in cells of such means: all, unless they are far above the dispersion.

    >>> _share(np.array([5.0, 6000.0]), 2.0).tolist()
    [1.0, 0.01]
    """
    return np.minimum(1.0, _EVENTS * dispersion / means)


def _bounds(units: Units) -> tuple[float, float]:
    """Return the range of the dispersion, given that means are about e^centre."""
    return _SMALLEST, _LARGEST * max(1.0, math.exp(min(units.centre, _HIGHEST)))

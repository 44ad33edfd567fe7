"""Clicks: rewards that are 0 or 1, or counts of ones out of trials, whose rates are logistic in the tensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from tensorbandits.ledger import Ledger
from tensorbandits.model.likelihood import ROUNDING, Likelihood, Observations, Units, Values, whole, within_reach
from tensorbandits.model.polya_gamma import Weights, mean_weights
from tensorbandits.tensor.tucker import Floats

_SCALE = 1.0  # of log-odds in the prior: rates of a campaign differ by a factor of 3 or so
_LARGEST_RATE = 1.0 - 1e-15  # below 1, so that its log-odds are finite
_LEAST_INFORMATION = 1e-12  # of a cell, so that one that says nothing can be divided by
_LEAST = 64  # variates that are redrawn in a sweep


@dataclass
class Clicks(Likelihood):
    """``Y`` of ``N`` rewards of a cell are 1, each with probability ``1 / (1 + e^-x)`` at the value ``x`` of the cell.

    >>> ledger = Ledger((2,)); ledger.add([(0,), (0,), (1,)], [1.0, 0.0, 0.0])
    >>> clicks = Clicks()
    >>> round(clicks.log_density(ledger, np.zeros(2)), 4), clicks.rewards(np.zeros(2)).tolist()
    (-2.0794, [0.5, 0.5])
    """

    variance: float = 1.0
    weights: Weights = field(default_factory=Weights, compare=False, repr=False)
    augmented: ClassVar[bool] = True
    sparse: ClassVar[bool] = True
    rates: ClassVar[bool] = True
    allowed: ClassVar[str] = (
        "0 and 1; clicks out of several trials go by trials=, of a policy's tell or of a bandit's tell_log"
    )

    def drawn(self, units: Units, rng: np.random.Generator) -> Self:
        """Return the same: there is nothing to draw."""
        return type(self)()

    def units(self, ledger: Ledger) -> Units:
        """Return the mean over observed cells of their log-odds, each rate shrunk by one click towards the pooled one.

        So a cell that was hardly tried says nothing, and one that is played most of the time no more than another.
        """
        if not len(ledger):
            return Units(0.0, _SCALE)
        return Units(float(logit(_shrunk_rates(ledger)).mean()), _SCALE)

    def observe(
        self, ledger: Ledger, units: Units, values: Values, rng: np.random.Generator, *, weight: float = 1.0
    ) -> Observations:
        """Return a Polya-Gamma precision and a target per cell, given the present draw."""
        tilt = values if callable(values) else lambda cells: values
        order = ledger.order_by_sizes
        omega = self.weights.redraw(weight * ledger.counts, tilt, order, rng, least=_LEAST)
        target = weight * (ledger.totals - 0.5 * ledger.counts)
        return Observations(order, ledger.cells, omega, target, units.centre, 0.0, weight * ledger.rounds)

    def expect(self, ledger: Ledger, units: Units, values: Floats) -> Observations:
        """Return what takes a solve a step towards the mode."""
        rates = expit(values)
        information = ledger.counts * np.maximum(rates * (1.0 - rates), self.information(ledger))
        return Observations.towards(ledger, units, values, ledger.totals - ledger.counts * rates, information)

    def information(self, ledger: Ledger) -> Floats:
        """Return what one reward of each cell says of its value, about: the variance of its score, shape (n,)."""
        rates = _shrunk_rates(ledger)
        return np.asarray(rates * (1.0 - rates))

    def slowness(self, ledger: Ledger) -> float:
        """Return the precision that a draw is given over the information of the rewards: 1 / (14 rate) for rare clicks.

        It is that of the median cell.
        """
        weights = mean_weights(np.ones(len(ledger)), logit(_shrunk_rates(ledger)))
        return float(np.median(weights / self.information(ledger))) if len(ledger) else 1.0

    def may_be(self, reward: float) -> bool:
        """Take 0 and 1."""
        return reward in (0.0, 1.0)

    def may_add_up(self, counts: Floats, totals: Floats, squares: Floats, *, faded: bool = False) -> NDArray[np.bool_]:
        """Take sums of zeros and ones, which are those of their squares too."""
        near = ROUNDING * (1.0 + counts)
        possible = (totals >= -near) & (totals <= counts + near) & (np.abs(squares - totals) <= near)
        return possible if faded else possible & whole(counts, totals)

    def rewards(self, values: Floats) -> Floats:
        """Return the rates."""
        return np.asarray(expit(values))

    def held(self, ledger: Ledger, values: Floats, perturbation: Floats) -> tuple[Floats, Floats]:
        """Return them cut, far out, to what leaves from no clicks to one for every reward."""
        seen, clicks = logit(_shrunk_rates(ledger)), ledger.totals
        return within_reach(seen, values, perturbation, clicks, ledger.counts - clicks)

    def pulls(self, ledger: Ledger, values: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the squares of how many clicks there are more than the values say, over their variances."""
        rates = expit(values)
        information = np.maximum(ledger.counts * rates * expit(-values), _LEAST_INFORMATION)
        return (ledger.totals - ledger.counts * rates) ** 2 / information, information, 2.0 + 1.0 / information

    def log_density(self, ledger: Ledger, values: Floats) -> float:
        """Return the logarithm of the probability of the clicks, given the values at the ledger's cells."""
        return float((ledger.totals * values - ledger.counts * np.logaddexp(0.0, values)).sum())

    def log_scores(self, values: Floats, counts: Floats, totals: Floats, variances: Floats) -> Floats:
        """Return the log probabilities of so many clicks."""
        return np.asarray(totals * values - counts * np.logaddexp(0.0, values))

    def state(self) -> dict[str, Any]:
        """Return the Polya-Gamma variates: there are no parameters."""
        return {"weights": self.weights.state()}

    def restored(self, state: Mapping[str, Any]) -> Self:
        """Return the likelihood that :meth:`state` described."""
        return type(self)(weights=Weights.from_state(state["weights"]))


def _shrunk_rates(ledger: Ledger) -> Floats:
    """Return the rate of each observed cell, to which a click or its lack at the pooled rate is added."""
    clicks = ledger.totals.sum()
    pooled = (clicks + 0.5) / (ledger.rounds + 1.0)
    trials = (ledger.rounds + 1.0) / (min(clicks, max(ledger.rounds - clicks, 0.0)) + 0.5)
    rates = (ledger.totals + trials * pooled) / (ledger.counts + trials)
    return np.asarray(np.minimum(rates, _LARGEST_RATE))

"""Revenue: rewards that are mostly 0 and else an amount, as two tensors: one of rates, one of amounts.

A reward is ``y = z a`` with ``z`` 1 with probability ``p = 1 / (1 + e^-x)``, else 0, and ``a`` an amount::

    "revenue"           log a ~ N(m, s^2)       mean reward  p exp(m + s^2 / 2)
    "revenue-signed"    a ~ N(m, s^2)           mean reward  p m

``x`` and ``m`` are values of a cell in two tensors, which are independent of each other a priori, and so given rewards:
whether there is an amount says nothing of how large it would be. Each is drawn as that of clicks, or of normal rewards,
from the sums of a :class:`~tensorbandits.RevenueLedger`; a draw of both is a draw of the mean reward of every cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit

from tensorbandits.amounts import RevenueLedger, SignedRevenueLedger
from tensorbandits.base.checks import Cell
from tensorbandits.ledger import Ledger
from tensorbandits.model.clicks import Clicks
from tensorbandits.model.likelihood import Gaussian, Likelihood, Units
from tensorbandits.tensor.tucker import Floats

RevenueKind = Literal["revenue", "revenue-signed"]

_SCALE = 1.0  # of logarithms of amounts in the prior, as of log-odds
_HIGHEST = 230.0  # logarithm of a mean reward: beyond 1e100 rewards are none


class LogAmounts(Gaussian):
    """Logarithms of amounts, with normal noise; how far cells differ is known beforehand, about, as it is of rates."""

    def units(self, ledger: Ledger) -> Units:
        """Return the centre of logarithms over observed cells, and the scale on which cells differ.

        The spread of the cells' own means would be that of single amounts for long, as most cells have one or two.
        """
        return Units.of(ledger)._replace(scale=_SCALE)


@dataclass(frozen=True)
class Revenue:
    """A kind of revenue: what its rewards may be, its two likelihoods, and the mean reward that two values make.

    >>> kind = Revenue("revenue")
    >>> kind.means(np.zeros(1), np.log([10.0]), 0.0).round(9).tolist()
    [5.0]
    """

    name: RevenueKind
    augmented: ClassVar[bool] = True

    @property
    def signed(self) -> bool:
        """Whether amounts may be negative."""
        return self.name == "revenue-signed"

    @property
    def rates(self) -> Likelihood:
        """The likelihood of conversions."""
        return Clicks()

    @property
    def amounts(self) -> Likelihood:
        """The likelihood of the sizes of amounts."""
        return Gaussian(1.0, learned=True) if self.signed else LogAmounts(1.0, learned=True)

    def ledger(self, shape: Cell) -> RevenueLedger:
        """Return an empty ledger for such rewards."""
        return (SignedRevenueLedger if self.signed else RevenueLedger)(shape)

    @property
    def allowed(self) -> str:
        """What a reward may be, in words."""
        amounts = "all numbers" if self.signed else '0 and amounts above 0 (below: reward="revenue-signed")'
        ledger = "SignedRevenueLedger" if self.signed else "RevenueLedger"
        return f"{amounts}; several that differ say too little by their sum: tell each, or tell_ledger a {ledger}"

    def may_be(self, reward: float) -> bool:
        """Say whether a finite number can be a reward."""
        return self.signed or reward >= 0.0

    def may_add_up(self, counts: Floats, totals: Floats, squares: Floats, *, faded: bool = False) -> NDArray[np.bool_]:
        """Take sums of rewards that are all the same; those of others do not say how many were 0."""
        kind = SignedRevenueLedger if self.signed else RevenueLedger
        return kind.says_enough(counts, totals, squares)

    def means(self, log_odds: Floats, sizes: Floats, variance: float) -> Floats:
        """Return the mean rewards of values of the two tensors, with the variance of the sizes of amounts."""
        if self.signed:
            return np.asarray(expit(log_odds) * sizes)
        return np.exp(np.minimum(self.ranked(log_odds, sizes, variance), _HIGHEST))

    def ranked(self, log_odds: Floats, sizes: Floats, variance: float) -> Floats:
        """Return numbers that are the larger the larger the mean reward is; logarithms, where there are any."""
        if self.signed:
            return self.means(log_odds, sizes, variance)
        return np.asarray(log_expit(log_odds) + sizes + variance / 2.0)

    def rewards(self, values: Floats) -> Floats:
        """Return mean rewards, which a draw of revenue has as its values."""
        return values

    def typical(self, rewards: Floats) -> Floats:
        """Return the median of draws of mean rewards along the first axis; of amounts below 0 too, their mean."""
        return np.asarray(rewards.mean(axis=0) if self.signed else np.median(rewards, axis=0))

    def worth(self, ledger: Ledger) -> float:
        """Return how many rewards say as much as one normal one does, about, of the rates."""
        return self.rates.worth(_parts(ledger).conversions)

    def slowness(self, ledger: Ledger) -> float:
        """Return how many sweeps a chain needs to forget a value, about: those of rates need the more."""
        return self.rates.slowness(_parts(ledger).conversions)


def revenue_of(reward: str, noise: object = None) -> Revenue | None:
    """Return the kind of revenue, or ``None`` for another kind of rewards; refuse a ``noise`` of revenue.

    >>> revenue_of("revenue-signed"), revenue_of("count")
    (Revenue(name='revenue-signed'), None)
    """
    if not isinstance(reward, str) or reward not in get_args(RevenueKind):
        return None
    if noise is not None:
        raise ValueError(f"noise is {noise!r}, but {reward} rewards have none of their own; leave it out")
    return Revenue(reward)  # type: ignore[arg-type]


def _parts(ledger: Ledger) -> RevenueLedger:
    assert isinstance(ledger, RevenueLedger)
    return ledger

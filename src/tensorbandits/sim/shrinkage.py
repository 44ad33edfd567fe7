"""Empirical Bayes shrinkage: each cell mean is drawn toward what the main effects say of it.

Over cells, true means scatter about the main effects ``mu``: rates as ``Beta(k mu, k (1 - mu))``, other means as
``N(mu, variance / k)``, with ``variance`` that of a single reward. The strength ``k``, found by maximum likelihood, is
a number of pseudo-rewards: a cell with ``n`` rewards of its own has the posterior mean ``(sum + k mu) / (n + k)``.
"""

from __future__ import annotations

import math

import numpy as np

from tensorbandits.ledger import Ledger
from tensorbandits.model.effects import Family, Kind, main_effects
from tensorbandits.tensor.tucker import Floats

_FITS = 3  # of main effects and strength, in turn
_STRENGTHS = (1e-2, 1e8)  # pseudo-rewards; more than the upper end say that cells do not differ from the main effects


def fit_prior(ledger: Ledger, kind: Kind = "gaussian") -> tuple[Floats, float]:
    """Return what main effects say of each cell, of the ledger's shape, and how many rewards of a cell that is worth.

    >>> ledger = Ledger((2, 2))
    >>> ledger.add([(0, 0), (0, 1), (1, 0)] * 50 + [(1, 1)], [0.0, 1.0, 1.0] * 50 + [1.0])
    >>> prior, strength = fit_prior(ledger, "bernoulli")
    >>> prior.shape, strength < 50
    ((2, 2), True)
    """
    weighted = ledger
    for _ in range(_FITS):
        fit = main_effects(weighted, kind)
        strength = _strength(ledger, fit.at(ledger.cells), fit.family)
        weighted = _weighted(ledger, strength)
    return fit.full(), strength


def _weighted(ledger: Ledger, strength: float) -> Ledger:
    """Return a ledger whose cells count as much as they say of the main effects: a full cell no more than others."""
    share = strength / (ledger.counts + strength)
    parts = (share * part for part in (ledger.counts, ledger.totals, ledger.squares, ledger.within))
    return Ledger.of(ledger.shape, ledger.cells, *parts)


def _strength(ledger: Ledger, prior: Floats, family: Family) -> float:
    """Return the strength of largest likelihood."""
    from scipy.optimize import minimize_scalar

    minus = _minus_rates if family.kind == "bernoulli" else _minus_means
    low, high = map(math.log, _STRENGTHS)
    grid = np.linspace(low, high, 40)  # there may be a plateau, on which a search alone would stop
    start = int(np.argmin([minus(math.exp(x), ledger, prior, family) for x in grid]))
    found = minimize_scalar(
        lambda x: minus(math.exp(x), ledger, prior, family),
        bounds=(grid[max(start - 1, 0)], grid[min(start + 1, len(grid) - 1)]),
        method="bounded",
    )
    return math.exp(found.x)


def _minus_rates(strength: float, ledger: Ledger, prior: Floats, family: Family) -> float:
    """Minus the logarithm of the beta-binomial likelihood, up to a constant."""
    from scipy.special import betaln

    inside = np.clip(prior, 1e-9, 1 - 1e-9)
    a, b = strength * inside, strength * (1.0 - inside)
    return -float((betaln(a + ledger.totals, b + ledger.counts - ledger.totals) - betaln(a, b)).sum())


def _minus_means(strength: float, ledger: Ledger, prior: Floats, family: Family) -> float:
    """Minus the logarithm of the normal likelihood of the cell means, up to a constant."""
    single = family.variance if family.kind == "gaussian" else _count_variance(ledger)
    variance = single * (1.0 / strength + 1.0 / ledger.counts)
    return 0.5 * float((np.log(variance) + (ledger.means - prior) ** 2 / variance).sum())


def _count_variance(ledger: Ledger) -> float:
    within, freedom = ledger.repeats()
    return (within / freedom if freedom else ledger.variance) or 1.0

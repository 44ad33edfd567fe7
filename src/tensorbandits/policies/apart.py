"""Draws of every cell by its own rewards alone, as if there were no tensor: what structures cannot expect is found so.

A cell far above what its row and column say is no part of what any tensor of low rank doubts: once it was tried in
vain, no posterior of such a tensor would have it tried again. Where there are rewards enough to look at every cell
(:attr:`Tuning.apart_from` for each), the guard of cold play has some of its decisions made by these draws.
"""

from __future__ import annotations

import numpy as np

from tensorbandits.ledger import Ledger
from tensorbandits.tensor.tucker import Floats, Ints

_FEW = (
    10.0  # rewards of a cell, from which on its mean counts as any other's in the prior: what is played is no measure
)

_RAREST = 1e-9  # rate


def cells_by_draws(ledger: Ledger, rng: np.random.Generator, *, rates: bool) -> Ints:
    """Return all cells (m, d) in the order of draws of their means, the largest first.

    Rates, of clicks among trials, have a Beta prior of one click at the usual rate, which is about as spread as it is
    large; other means a normal one as spread as they are. What is usual is said by all observed cells alike.
    """
    counts, totals, squares = (each.ravel() for each in ledger.dense())
    draws = _rates(counts, totals, rng) if rates else _means(counts, totals, squares, rng)
    return np.stack(np.unravel_index(np.argsort(-draws), ledger.shape), axis=1)


def _rates(trials: Floats, clicks: Floats, rng: np.random.Generator) -> Floats:
    usual, _ = _usual(trials, clicks)
    without = 1.0 / min(max(usual, _RAREST), 0.5) - 1.0  # trials without a click for the one of the prior
    return rng.beta(1.0 + clicks, without + np.maximum(trials - clicks, 0.0))


def _means(counts: Floats, totals: Floats, squares: Floats, rng: np.random.Generator) -> Floats:
    usual, spread = _usual(counts, totals)
    pulls = np.maximum(counts, 1.0)
    within = float(np.maximum(squares - totals**2 / pulls, 0.0).sum())
    noise = within / max(counts.sum() - np.count_nonzero(counts), 1.0)
    own = counts * spread  # beside the noise: how much the rewards of a cell say of its mean
    share = np.divide(own, own + noise, out=np.zeros_like(own), where=own > 0.0)
    centre = usual + share * (totals / pulls - usual)
    return np.asarray(centre + rng.standard_normal(len(counts)) * np.sqrt(spread * (1.0 - share)))


def _usual(counts: Floats, totals: Floats) -> tuple[float, float]:
    """Return the mean of the means of observed cells and their variance, however often each was played."""
    seen = counts > 0.0
    weights, means = np.minimum(counts[seen], _FEW), totals[seen] / counts[seen]
    usual = float(weights @ means / weights.sum())
    return usual, float(weights @ (means - usual) ** 2 / weights.sum())

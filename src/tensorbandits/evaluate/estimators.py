"""Estimators of a policy's value per decision from the decisions of another, each as one contribution per row.

Notation: of row i, ``w`` is the probability with which the policy would have made its decision, divided by the one
with which it was made; ``r`` is the reward; ``q`` is what a model that never saw the row expects of its cell, and
``v`` what that model expects of the policy in its context. The mean of the contributions is the estimate, and their
spread its standard error; those of two policies on the same log are subtracted row by row to compare them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tensorbandits.tensor.tucker import Floats


def ips(w: Floats, r: Floats) -> Floats:
    """Inverse propensity scoring: no bias if all propensities are right, whatever the rewards; all are (n,).

    >>> ips(np.array([2.0, 0.0]), np.array([3.0, 5.0])).tolist()
    [6.0, 0.0]
    """
    return w * r


def snips(w: Floats, r: Floats) -> Floats:
    """Self-normalised: the weighted mean of rewards, linearised about itself; NaN if all weights are 0.

    >>> snips(np.array([2.0, 0.0, 2.0]), np.array([3.0, 5.0, 1.0])).tolist()
    [3.5, 2.0, 0.5]
    """
    total = float(w.sum())
    if total == 0.0:
        return np.full(len(w), math.nan)
    value = float(w @ r) / total
    return np.asarray(value + w * (r - value) * (len(w) / total))


def doubly_robust(w: Floats, r: Floats, q: Floats, v: Floats) -> Floats:
    """The model's value, corrected by the weighted errors of the model: no bias if propensities or model are right.

    >>> doubly_robust(*(np.array(part) for part in ([2.0, 0.0], [3.0, 5.0], [2.5, 5.0], [2.5, 2.5]))).tolist()
    [3.5, 2.5]
    """
    return v + w * (r - q)


def effective_rows(w: Floats) -> float:
    """Return how many rows of equal weight would say as much: ``sum(w) ** 2 / sum(w ** 2)``.

    >>> effective_rows(np.array([1.0, 1.0, 0.0])), effective_rows(np.zeros(3))
    (2.0, 0.0)
    """
    largest = float(w.max(initial=0.0))
    if largest == 0.0:
        return 0.0
    scaled = w / largest  # squares of large weights may be no float
    return float(scaled.sum() ** 2 / (scaled @ scaled))


class Interval(NamedTuple):
    """An estimate, its standard error, and the bounds between which the value is believed to be."""

    value: float
    error: float
    low: float
    high: float


def interval(contributions: Floats, effective: float, level: float, model_variance: float = 0.0) -> Interval:
    """Return the mean of contributions (n,) and Student's interval, with one degree less than the effective rows.

    A few rows with large weights decide how far the mean is off, so that it is their number that counts, not that of
    all rows. ``model_variance`` is what a model adds.

    >>> [round(number, 2) for number in interval(np.array([1.0, 2.0, 3.0]), 3.0, 0.9)]
    [2.0, 0.58, 0.31, 3.69]
    """
    from scipy import stats

    n = len(contributions)
    value = float(contributions.mean())
    if n < 2 or math.isnan(value) or effective < 1.0:
        return Interval(value, math.nan, math.nan, math.nan)
    error = math.sqrt(float(contributions.var(ddof=1)) / n + model_variance)
    half = float(stats.t.ppf(0.5 + level / 2, max(effective - 1.0, 1.0))) * error
    return Interval(value, error, value - half, value + half)

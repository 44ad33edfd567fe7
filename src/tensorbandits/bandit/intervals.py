"""Intervals of means and of their differences: valid at every look, or at one time that was fixed beforehand.

Who looks again and again, until an interval of 95 % leaves out zero, is wrong far more often than in 5 % of cases. A
*confidence sequence* holds at all looks together. Here it is the asymptotic one of Waudby-Smith, Arbour, Sinha, Kennedy
and Ramdas (2024), the normal mixture of Robbins: after rewards with the sum of variances ``V`` their sum is off by at
most::

    sqrt( 2 (V r^2 + 1) / r^2  log( sqrt(V r^2 + 1) / alpha ) )

``r`` is chosen so that it is tightest at 100 events. It is wide at the start: of clicks nothing is said to be above 0
before there are nine. Of rates the variance is that of the rate which is asked about, so that few clicks and none are
right too; of other rewards time is counted in rewards other than 0. Fixed intervals are Wilson's, and the normal one.

Notation: ``alpha`` is one less the level; ``c = r^2`` in units of one event's variance; ``v`` is ``V`` in these units.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

Floats = NDArray[np.float64]
Looks = Literal["anytime", "fixed"]

RATES = ("bernoulli", "binomial")  # kinds of reward of which means are shares
_TIGHTEST = 100.0  # events at which a sequence is tightest
_HALVINGS = 50  # to find where a rate is as unlikely as may be
_SMALLEST = 1e-9  # relative; what is nearer to 0 is 0


class Bounds(NamedTuple):
    """Means and what they lie between, each an array of the same shape."""

    mean: Floats
    low: Floats
    high: Floats


def check_looks(intervals: Any) -> Looks:
    """Return which intervals a caller wants."""
    if intervals not in get_args(Looks):
        raise ValueError(
            f"intervals is {intervals!r}; give 'anytime', valid at every look, or 'fixed', valid at one time that was "
            "fixed beforehand"
        )
    return intervals  # type: ignore[no-any-return]


def _rate_of(alpha: float) -> float:
    """``c``, which makes the sequence tightest at so many events."""
    tail = -2.0 * math.log(alpha)
    return (tail + math.log(tail + 1.0)) / _TIGHTEST


def errors(events: ArrayLike, level: float, looks: Looks) -> Floats:
    """Return how many standard errors an interval has on each side, after so many events.

    >>> errors([1.0, 10.0, 100.0, 10_000.0], 0.95, "anytime").round(2).tolist()
    [9.08, 3.86, 3.04, 3.56]
    >>> errors([1.0, 100.0], 0.95, "fixed").round(2).tolist()
    [1.96, 1.96]
    """
    events, alpha = np.asarray(events, dtype=float), 1.0 - level
    if looks == "fixed":
        return np.full(events.shape, -ndtri(alpha / 2.0))
    with np.errstate(divide="ignore"):
        v = events * _rate_of(alpha)
        return np.where(v > 0, np.sqrt(2.0 * (1.0 + 1.0 / v) * (0.5 * np.log1p(v) - math.log(alpha))), np.inf)


def rate(mean: ArrayLike, count: ArrayLike, level: float = 0.95, looks: Looks = "anytime") -> Bounds:
    """Return the bounds of rates, of means of so many rewards that are 0 or 1.

    >>> found = rate(0.0, 1000.0, looks="fixed")
    >>> found.low.item(), round(found.high.item(), 5)
    (0.0, 0.00383)
    >>> found = rate([0.0, 0.05], 1000.0)
    >>> found.low.round(4).tolist(), found.high.round(4).tolist()
    ([0.0, 0.0322], [0.0131, 0.0755])
    """
    mean, count = np.broadcast_arrays(np.asarray(mean, dtype=float), np.asarray(count, dtype=float))
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.clip(mean, 0.0, 1.0)
        if looks == "fixed":
            ratio = float(ndtri((1.0 - level) / 2.0)) ** 2 / count
            middle = (share + ratio / 2.0) / (1.0 + ratio)
            half = np.sqrt(share * (1.0 - share) * ratio + (ratio / 2.0) ** 2) / (1.0 + ratio)
            low, high = middle - half, middle + half
        else:
            low, high = (_furthest(share, count, end, 1.0 - level) for end in (0.0, 1.0))
    known = count > 0
    low, high = np.minimum(low, mean).clip(0.0), np.maximum(high, mean)
    return Bounds(mean, np.where(known, low, np.nan), np.where(known, high, np.nan))


def _furthest(share: Floats, count: Floats, end: float, alpha: float) -> Floats:
    """The rate furthest towards an end at which so many clicks are not too unlikely, by halving."""
    c = _rate_of(alpha)

    def likely(p: Floats) -> NDArray[np.bool_]:
        v = count * p * (1.0 - p) * c
        most = 2.0 * (v + 1.0) / c * (0.5 * np.log1p(v) - math.log(alpha))
        found: NDArray[np.bool_] = (count * (p - share)) ** 2 <= most
        return found

    inside, outside = share.copy(), np.full(share.shape, end)
    whole = likely(outside)
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2.0
        fits = likely(middle)
        inside, outside = np.where(fits, middle, inside), np.where(fits, outside, middle)
    return np.where(whole, end, inside)


def amount(
    mean: ArrayLike, error: ArrayLike, events: ArrayLike, level: float = 0.95, looks: Looks = "anytime"
) -> Bounds:
    """Return the bounds of means of other rewards, of which the standard errors are known, after so many events.

    Without any event nothing is known, whatever the standard error seems to be.
    """
    mean, error, events = (np.asarray(one, dtype=float) for one in (mean, error, events))
    with np.errstate(invalid="ignore"):
        half = np.where(events > 0, errors(np.maximum(events, 1e-9), level, looks) * error, np.inf)
    return Bounds(mean, mean - half, mean + half)


def difference(one: Bounds, two: Bounds) -> Bounds:
    """Return the bounds of a difference of means, from those of both (Zou and Donner 2008)."""
    mean = one.mean - two.mean
    with np.errstate(invalid="ignore"):
        low = mean - np.hypot(one.mean - one.low, two.high - two.mean)
        high = mean + np.hypot(one.high - one.mean, two.mean - two.low)
    return Bounds(mean, low, high)


def ratio(one: Bounds, two: Bounds) -> Bounds | None:
    """Return the bounds of how much higher a mean is relative to another (Donner and Zou 2012); none near 0.

    >>> one, two = (Bounds(*map(np.array, numbers)) for numbers in ((0.12, 0.1, 0.14), (0.1, 0.09, 0.11)))
    >>> [round(part.item(), 3) for part in ratio(one, two)]
    [0.2, -0.023, 0.447]
    """
    if not (two.low > 0 and one.low >= 0 and np.isfinite([one.high, two.high]).all()):
        return None
    means = one.mean.item(), two.mean.item()
    low = _end_of_ratio(*means, one.low.item(), two.high.item(), -1.0)
    high = _end_of_ratio(*means, one.high.item(), two.low.item(), 1.0)
    return Bounds(np.array(means[0] / means[1] - 1.0), np.array(low), np.array(high))


def _end_of_ratio(one: float, two: float, at: float, by: float, sign: float) -> float:
    """A bound of a ratio of means, less 1, from opposite bounds of both."""
    below = by * (2.0 * two - by)
    if abs(below) < _SMALLEST * two * two:  # the limit: of the lower bound it is finite
        return math.inf if sign > 0 else at * (2.0 * one - at) / (2.0 * max(one, _SMALLEST) * two) - 1.0
    root = math.sqrt(max((one * two) ** 2 - at * (2.0 * one - at) * below, 0.0))
    return (one * two + sign * root) / below - 1.0

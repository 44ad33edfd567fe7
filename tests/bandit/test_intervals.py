"""Intervals: rates held to a plain search, differences that keep their order, and people who look all the time."""

import numpy as np
import pytest

from tensorbandits.bandit import intervals


def likely(p, share, count, alpha=0.05):
    """Whether a rate is within the sequence, as its formula says, with r^2 chosen to be tightest at 100 events."""
    tail = -2 * np.log(alpha)
    r2 = (tail + np.log(tail + 1)) / 100
    v = count * p * (1 - p) * r2
    return (count * (p - share)) ** 2 <= 2 * (v + 1) / r2 * np.log(np.sqrt(v + 1) / alpha)


@pytest.mark.parametrize(("clicks", "count"), [(0, 10), (0, 5000), (3, 400), (40, 100), (100, 100), (5000, 40_000)])
def test_the_bounds_of_a_rate_are_where_the_formula_ends(clicks, count):
    found = intervals.rate(clicks / count, count)
    grid = np.linspace(0.0, 1.0, 200_001)
    inside = grid[likely(grid, clicks / count, count)]
    assert found.low == pytest.approx(inside.min(), abs=1e-5)
    assert found.high == pytest.approx(inside.max(), abs=1e-5)
    fixed = intervals.rate(clicks / count, count, looks="fixed")
    assert found.low <= fixed.low <= fixed.mean <= fixed.high <= found.high


def test_a_sequence_is_tightest_where_it_was_made_to_be_and_wide_before():
    events = np.geomspace(1, 1e6, 200)
    widths = intervals.errors(events, 0.95, "anytime") / np.sqrt(events)
    assert (np.diff(widths) < 0).all()
    factors = intervals.errors(events, 0.95, "anytime")
    assert 50 < events[factors.argmin()] < 200
    assert np.isinf(intervals.errors(0.0, 0.95, "anytime"))


def test_nothing_is_known_without_an_event():
    none = intervals.amount(0.0, 0.0, 0.0)
    assert (none.low, none.high) == (-np.inf, np.inf)
    assert intervals.ratio(intervals.rate(0.5, 100), intervals.rate(0.0, 100)) is None


@pytest.mark.parametrize("rate", [0.02, 0.5])
def test_who_looks_all_the_time_is_rarely_wrong(rate):
    rng = np.random.default_rng(0)
    clicks = np.cumsum(rng.random((300, 2000)) < rate, axis=1)[:, ::5]
    count = np.arange(1, 2001)[::5]
    always = intervals.rate(clicks / count, count)
    once = intervals.rate(clicks / count, count, looks="fixed")
    missed = [((one.low > rate) | (one.high < rate)).any(axis=1).mean() for one in (always, once)]
    assert missed[0] <= 0.05
    assert missed[1] > 0.2  # which is why

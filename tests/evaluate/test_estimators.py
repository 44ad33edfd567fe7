"""The estimators by themselves: exact on small cases that can be worked out by hand."""

import math

import numpy as np
import pytest

from tensorbandits.evaluate.estimators import doubly_robust, effective_rows, interval, ips, snips

RNG = np.random.default_rng(0)


def test_weights_of_one_give_the_mean_of_rewards():
    rewards, ones = RNG.normal(size=50), np.ones(50)
    for contributions in (ips(ones, rewards), snips(ones, rewards), doubly_robust(ones, rewards, ones, ones)):
        assert contributions.mean() == pytest.approx(rewards.mean())
    assert effective_rows(ones) == 50


def test_self_normalised_contributions_have_the_error_of_a_ratio():
    weights, rewards = RNG.exponential(size=400), RNG.normal(size=400)
    value = weights @ rewards / weights.sum()
    contributions = snips(weights, rewards)
    assert contributions.mean() == pytest.approx(value)
    error = math.sqrt((weights**2 * (rewards - value) ** 2).sum()) / weights.sum()  # the delta method's
    assert contributions.std() / math.sqrt(400) == pytest.approx(error)


def test_a_perfect_model_leaves_no_error():
    weights, expected = RNG.exponential(size=30), RNG.normal(size=30)
    assert (doubly_robust(weights, expected, expected, np.full(30, 2.0)) == 2.0).all()


def test_no_weight_says_nothing():
    assert np.isnan(snips(np.zeros(4), np.ones(4))).all()
    assert effective_rows(np.zeros(4)) == 0
    assert math.isnan(interval(ips(np.zeros(4), np.ones(4)), 0.0, 0.9).low)


def test_huge_weights_do_not_overflow():
    assert effective_rows(np.array([1e200, 1e200, 0.0])) == pytest.approx(2.0)


def test_few_effective_rows_widen_the_interval():
    values = RNG.normal(size=100)
    wide, narrow = interval(values, 3.0, 0.9), interval(values, 100.0, 0.9)
    assert wide.high - wide.low > 1.5 * (narrow.high - narrow.low)
    assert wide.value == narrow.value

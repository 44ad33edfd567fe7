"""Draws of every cell by its own rewards alone: they are those of the posterior of each, and cold play follows them."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

import tensorbandits as tb
from tensorbandits.model.residual import Trying
from tensorbandits.policies.apart import cells_by_draws

SHAPE = (3, 2)
CELLS = list(product(*map(range, SHAPE)))


def told(counts, totals, squares=None):
    """Return a ledger of sums of rewards of the six cells."""
    seen = [k for k, count in enumerate(counts) if count]
    sums = [np.array(each, dtype=float)[seen] for each in (counts, totals, totals if squares is None else squares)]
    return tb.Ledger.of(SHAPE, np.array(CELLS)[seen], *sums)


def first_shares(ledger, *, rates, draws=4_000):
    """Return how often each cell is the first of a draw."""
    rng = np.random.default_rng(5)
    firsts = [tuple(cells_by_draws(ledger, rng, rates=rates)[0]) for _ in range(draws)]
    return np.array([firsts.count(cell) for cell in CELLS]) / draws


def chance_to_be_largest(laws, points):
    """Return for independent laws the probability of each to be the largest, by adding up over points."""
    cdfs = np.array([law.cdf(points) for law in laws])
    middles = np.array([np.diff(law.cdf(points)) for law in laws])
    others = np.array([np.delete(cdfs, k, axis=0).prod(axis=0) for k in range(len(laws))])
    return (middles * (others[:, 1:] + others[:, :-1]) / 2).sum(axis=1)


def test_every_cell_comes_once():
    cells = cells_by_draws(told([5, 0, 1, 0, 0, 200], [1, 0, 0, 0, 0, 30]), np.random.default_rng(0), rates=True)
    assert sorted(map(tuple, cells.tolist())) == CELLS


def test_rates_are_drawn_from_a_beta_posterior_of_each_cell():
    counts, clicks = [5, 0, 1, 2, 10, 200], [1, 0, 0, 0, 2, 30]
    weights = np.minimum(counts, 10)
    usual = sum(w * y / n for w, y, n in zip(weights, clicks, counts, strict=True) if n) / weights.sum()
    laws = [stats.beta(1 + y, 1 / usual - 1 + n - y) for n, y in zip(counts, clicks, strict=True)]
    wanted = chance_to_be_largest(laws, np.linspace(0, 1, 20_001))
    assert first_shares(told(counts, clicks), rates=True) == pytest.approx(wanted, abs=0.025)


def test_means_are_drawn_from_a_normal_posterior_of_each_cell():
    counts, totals = np.array([5, 0, 1, 2, 10, 200.0]), np.array([2.0, 0, 1, -1, 8, 150])
    means = totals / np.maximum(counts, 1)
    squares = counts * means**2 + np.maximum(counts - 1, 0) * 1.5
    weights = np.minimum(counts, 10)
    usual = weights @ means / weights.sum()
    spread = weights @ (means - usual) ** 2 / weights.sum()
    noise = (squares - counts * means**2).sum() / (counts.sum() - 5)
    precisions = 1 / spread + counts / noise
    laws = [stats.norm((usual / spread + y / noise) / p, p**-0.5) for y, p in zip(totals, precisions, strict=True)]
    wanted = chance_to_be_largest(laws, np.linspace(-10, 10, 20_001))
    assert first_shares(told(counts, totals, squares), rates=False) == pytest.approx(wanted, abs=0.025)


@pytest.mark.parametrize("rates", [True, False])
@pytest.mark.parametrize("totals", [[0, 0, 0], [3, 1, 9]])
def test_rewards_that_are_all_alike_are_no_trouble(rates, totals):
    counts = [3, 1, 9] if any(totals) else [4, 4, 4]
    ledger = told([*counts, 0, 0, 0], [*totals, 0, 0, 0])
    assert len(cells_by_draws(ledger, np.random.default_rng(0), rates=rates)) == 6


def test_cold_play_comes_back_to_a_cell_that_no_tensor_expects():
    """One click in two, tried once in vain, in the row and the column that pay least; all else was tried often."""
    rates = np.full((5, 4), 0.1) + np.linspace(0.08, 0.0, 5)[:, None]
    rates[4, 3] = 0.5
    clicks = np.round(rates * 60)
    counts = np.full((5, 4), 60.0)
    clicks[4, 3], counts[4, 3] = 0.0, 1.0
    cells = np.argwhere(np.ones((5, 4)))
    ledger = tb.Ledger.of((5, 4), cells, counts.ravel(), clicks.ravel(), clicks.ravel())
    rng, found = np.random.default_rng(0), 0
    for seed in range(4):
        policy = tb.TensorThompsonSampling((5, 4), reward="bernoulli", seed=seed)
        policy.tell_ledger(ledger)
        for _ in range(1_000):
            cell = policy.ask()
            policy.tell(cell, float(rng.random() < rates[cell]))
        found += policy.ledger[4, 3].rounds > 100
    assert found >= 3


def test_a_draw_of_many_cells_does_not_list_them_all():
    """It would stand in every saved bandit and snapshot."""
    shape = (20, 15, 14)
    cells = np.argwhere(np.ones(shape))
    counts = np.full(len(cells), 6.0)
    policy = tb.TensorThompsonSampling(shape, 1, reward="bernoulli", seed=0)
    policy.tell_ledger(tb.Ledger.of(shape, cells, counts, np.ones(len(cells)), np.ones(len(cells))))
    policy.ask()
    policy.oracle.guard.share = 1.0
    drawn = [model for _, model in policy.oracle.law(policy.ledger, np.random.default_rng(0), 8)]
    assert drawn
    assert not any(isinstance(model, Trying) for model in drawn)

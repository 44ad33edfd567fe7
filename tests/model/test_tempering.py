"""Parallel tempering: exchanges leave the posterior alone, and a chain that is stuck gets away."""

import numpy as np
import pytest
from scipy import stats

from tensorbandits import Ledger
from tensorbandits.model.gibbs import Chain, Units
from tensorbandits.model.likelihood import Gaussian
from tensorbandits.model.tempering import RUNGS, Ladder
from tests.plain.sweep import PlainChain

UNITS = Units(0.0, 1.0)


def two_cells():
    """A 2 x 2 rank-1 tensor of which the diagonal is known well: its factors have either sign, and two sizes fit."""
    ledger = Ledger((2, 2))
    for cell, reward in (((0, 0), 2.0), ((1, 1), 2.0), ((0, 1), 1.0)):
        ledger.add(np.array([cell] * 2), np.full(2, reward))
    return ledger


def start(units, rng):
    return Chain.from_prior((2, 2), (1, 1), units, rng, likelihood=Gaussian(0.25, learned=False))


def posterior_by_importance(ledger, statistic, count=1_000_000):
    """The mean of a statistic of the tensor's values, from draws of the prior weighted with their likelihoods."""
    rng = np.random.default_rng(1)
    u, v = rng.standard_normal((2, count, 2))
    core = rng.standard_normal(count) / np.sqrt(rng.gamma(0.5, size=count) / 0.5)
    full = rng.standard_normal(count)[:, None, None] + core[:, None, None] * u[:, :, None] * v[:, None, :]
    at = full[:, ledger.cells[:, 0], ledger.cells[:, 1]]
    assert at.shape == (count, 3)
    log = -(ledger.counts * (at - ledger.means) ** 2).sum(axis=1) / (2 * 0.25)
    weight = np.exp(log - log.max())
    return (weight[:, None] * statistic(full)).sum(axis=0) / weight.sum()


def best_cells(full):
    return np.eye(4)[full.reshape(len(full), 4).argmax(axis=1)]


def test_exchanges_leave_the_posterior_alone():
    """Best-cell probabilities of a posterior with several modes, against weighted draws of the prior."""
    ledger, rng = two_cells(), np.random.default_rng(0)
    ladder, chain, draws = Ladder(start, 6), start(UNITS, rng), []
    for _ in range(8_000):
        chain.sweep(ledger, UNITS, rng, sweeps=1)
        chain = ladder.step(chain, ledger, UNITS, rng)
        draws.append(chain.model.tensor().full())
    found = best_cells(np.array(draws[500:])).mean(axis=0)
    np.testing.assert_allclose(found, posterior_by_importance(ledger, best_cells), atol=0.04)


def test_a_chain_with_its_ladder_fits_as_well_as_the_truth():
    """Exchanges must not hand it what fits worse: 60 numbers make its fit better or worse by some 30 nats."""
    rng = np.random.default_rng(3)
    shape, rank = (8, 8, 8), (2, 2, 2)
    units = Units(0.0, 1.0)
    for seed in range(2):
        truth = Chain.from_prior(shape, rank, units, np.random.default_rng(seed), likelihood=Gaussian(0.01, False))
        cells = rng.integers(8, size=(1500, 3))
        ledger = Ledger(shape)
        ledger.add(cells, truth.model.at(cells) + 0.1 * rng.standard_normal(len(cells)))
        level = truth.log_likelihood(ledger)

        def begin(units, rng):
            return Chain.from_prior(shape, rank, units, rng, likelihood=Gaussian(0.01, learned=False))

        chain = begin(units, rng)
        ladder = Ladder(begin, 60)
        for _ in range(1500):
            chain.sweep(ledger, units, rng, sweeps=1)
            chain = ladder.step(chain, ledger, units, rng)
        assert chain.log_likelihood(ledger) > level - 60


def test_weights_reach_down_to_as_many_rewards_as_unknowns():
    weights = Ladder(start, 50).weights(5_000)
    assert len(weights) == RUNGS + 1
    assert weights[0] == 1.0
    assert 50 <= weights[-1] * 5_000 < 1.1 * 50
    np.testing.assert_allclose(np.diff(np.log(weights)), np.log(weights[-1]) / RUNGS)
    assert set(Ladder(start, 50).weights(20)) == {1.0}


def test_weights_are_held_while_there_are_few_more_rewards():
    """Else what a rung drew for its weight would be of no use at its next turn."""
    every = [tuple(Ladder(start, 50).weights(rounds)) for rounds in range(1_000, 2_000)]
    assert len(set(every)) <= 9
    assert every == sorted(every, reverse=True)


def test_state_is_refused_where_it_is_no_ladder():
    ladder = Ladder(start, 6)
    ladder.step(start(UNITS, np.random.default_rng(0)), two_cells(), UNITS, np.random.default_rng(0))
    state = ladder.state()
    again = Ladder(start, 6)
    again.restore(state, lambda one: Chain.from_state(one, (2, 2), (1, 1), Gaussian(0.25, learned=False)))
    assert again.state()["turn"] == 1
    np.testing.assert_array_equal(again.chains[2].model.rows, ladder.chains[2].model.rows)
    with pytest.raises(ValueError, match="chains"):
        again.restore({"turn": 9, "chains": {}}, None)


def large_problem():
    rng = np.random.default_rng(1)
    chain = Chain.from_prior((6, 5, 4), (2, 2, 2), UNITS, rng, likelihood=Gaussian(1.0, learned=True))
    cells = rng.integers((6, 5, 4), size=(400, 3))
    rewards = 4 * chain.model.at(cells) + rng.standard_normal(400)
    ledger = Ledger((6, 5, 4))
    ledger.add(cells, rewards)
    return ledger, cells, rewards


def begun(ledger, sweeps, rng):
    chain = Chain.from_prior(ledger.shape, (2, 2, 2), Units.of(ledger), rng)
    if sweeps:
        chain.sweep(ledger, Units.of(ledger), rng, sweeps=sweeps)
    return chain


def test_likelihoods_differ_as_those_of_single_rewards_do():
    ledger, cells, rewards = large_problem()
    rng = np.random.default_rng(3)
    one, two = (begun(ledger, 5, rng) for _ in range(2))

    def single(chain):
        return stats.norm.logpdf(rewards, chain.model.at(cells), np.sqrt(chain.noise_variance)).sum()

    difference = one.log_likelihood(ledger) - two.log_likelihood(ledger)
    assert difference == pytest.approx(single(one) - single(two), rel=1e-9)
    assert abs(difference) > 1e-3
    plain = [PlainChain(chain).log_likelihood(ledger) for chain in (one, two)]
    assert difference == pytest.approx(plain[0] - plain[1], rel=1e-9)


@pytest.mark.parametrize("poor", ["chain", "rung"])
def test_the_better_of_two_neighbours_becomes_the_cooler(poor):
    """A chain that knows nothing goes up, and one that knows much is kept against a rung that knows nothing."""
    ledger, _, _ = large_problem()
    rng = np.random.default_rng(4)
    good, bad = begun(ledger, 300, rng), begun(ledger, 0, rng)
    bad.likelihood.variance = good.likelihood.variance
    ladder = Ladder(lambda units, rng: begun(ledger, 0, rng), 40)
    ladder.chains, ladder.turn = (
        [bad if poor == "rung" else good, *(begun(ledger, 0, rng) for _ in range(RUNGS - 1))],
        1,
    )

    class FirstPair:
        """A generator that has the first two rungs exchange."""

        def __getattr__(self, name):
            return getattr(rng, name)

        def integers(self, high):
            return 0

    kept = ladder.step(good if poor == "rung" else bad, ledger, Units.of(ledger), FirstPair())
    assert kept is good
    assert ladder.chains[0] is bad

"""Noise that differs by level: recovered, used, saved, and refused where it cannot be."""

import numpy as np
import pytest
from scipy import stats

import tensorbandits as tb
from tensorbandits import Ledger
from tensorbandits.model.gibbs import Chain
from tensorbandits.model.likelihood import Units
from tensorbandits.model.uneven import Uneven

SHAPE, RATIOS = (4, 3), [np.array([0.25, 1.0, 1.0, 4.0]), np.array([1.0, 1.0, 3.0])]


def told(rng, rounds=6000):
    """A ledger of a tensor of rank 1 whose noise differs by level, the cells and the rewards."""
    mean = np.outer(rng.standard_normal(4), rng.standard_normal(3))
    cells = np.stack([rng.integers(p, size=rounds) for p in SHAPE], axis=1)
    deviation = np.sqrt(RATIOS[0][cells[:, 0]] * RATIOS[1][cells[:, 1]])
    rewards = mean[tuple(cells.T)] + deviation * rng.standard_normal(rounds)
    ledger = Ledger(SHAPE)
    ledger.add(cells, rewards)
    return ledger, cells, rewards


def test_the_noise_of_every_cell_is_recovered():
    rng = np.random.default_rng(0)
    ledger, _, _ = told(rng)
    units = Units.of(ledger)
    chain = Chain.from_prior(SHAPE, (1, 1), units, rng, likelihood=Uneven(1.0, learned=True))
    draws = []
    for turn in range(400):
        chain.sweep(ledger, units, rng, sweeps=1)
        if turn >= 100:
            draws.append(chain.likelihood.variances_at(np.argwhere(np.ones((4, 3)))).reshape(4, 3))
    np.testing.assert_allclose(np.mean(draws, axis=0), np.outer(*RATIOS), rtol=0.25)


def test_its_density_is_that_of_single_rewards():
    rng = np.random.default_rng(1)
    ledger, cells, rewards = told(rng, 60)

    def apart(values, ratios, variance):
        likelihood = Uneven(variance, learned=True, ratios=ratios)
        deviations = np.sqrt(likelihood.variances_at(cells))
        single = stats.norm.logpdf(rewards, values[tuple(cells.T)], deviations).sum()
        return likelihood.log_density(ledger, values[tuple(ledger.cells.T)]), single

    ours, plain = zip(
        *(
            apart(rng.standard_normal(SHAPE), ratios, v)
            for ratios, v in ((RATIOS, 2.0), ([np.ones(4), np.ones(3)], 1.0))
        )
    )
    assert ours[0] - ours[1] == pytest.approx(plain[0] - plain[1], rel=1e-9)


def test_what_is_told_of_a_quiet_level_counts_more():
    rng = np.random.default_rng(2)
    ledger, _, _ = told(rng)
    likelihood = Uneven(1.0, learned=True, ratios=[ratio.copy() for ratio in RATIOS])
    units = Units.of(ledger)
    observed = likelihood.observe(ledger, units, ledger.means, rng, weight=2.0)
    at = np.prod([ratio[ledger.cells[:, mode]] for mode, ratio in enumerate(likelihood.ratios)], axis=0)
    np.testing.assert_allclose(observed.precision, 2.0 * ledger.counts / at)
    np.testing.assert_allclose(observed.target, 2.0 * ledger.totals / at)
    squares = ledger.within + ledger.counts * (ledger.means - units.centre) ** 2
    assert observed.squares == pytest.approx(2.0 * (squares / at).sum())
    assert observed.rounds == 2.0 * ledger.rounds


def test_a_policy_saves_it_and_grows(tmp_path):
    policy = tb.TensorThompsonSampling((3, 3), noise="varying", seed=0)
    for turn in range(60):
        policy.tell(policy.ask(), float(turn % 5))
    policy.save(tmp_path / "policy")
    again = tb.TensorThompsonSampling.load(tmp_path / "policy")
    assert again.noise == "varying"
    assert [again.ask() for _ in range(5)] == [policy.ask() for _ in range(5)]
    again.grow(0)
    for turn in range(20):
        again.tell(again.ask(), float(turn % 5))
    assert [len(ratio) for ratio in again.oracle.samplers[0].chain.likelihood.ratios] == [4, 3]


@pytest.mark.parametrize("arguments", [{"noise": "loud"}, {"noise": "varying", "reward": "count"}])
def test_other_words_are_refused(arguments):
    with pytest.raises(ValueError, match="noise is"):
        tb.TensorThompsonSampling((3, 3), **arguments)


def test_a_state_without_its_ratios_is_refused():
    state = Uneven(1.0, learned=True, ratios=[np.array([1.0, -1.0])]).state()
    with pytest.raises(ValueError, match="noise ratio"):
        Uneven(1.0, learned=True).restored(state)

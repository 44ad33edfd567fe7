"""The rival of Thompson sampling's chain: how two chains are compared, and which one goes on."""

import numpy as np
import pytest
from scipy import stats
from tests.plain.sweep import PlainChain

import tensorbandits as tb
from tensorbandits.policies.thompson import _RIVAL_SWEEPS, GibbsOracle
from tensorbandits.tensor.gibbs import Chain, Units
from tensorbandits.tensor.rewards import likelihood_of

SHAPE, RANK = (6, 5, 4), (2, 2, 2)


def ledger_of(mean, rounds, seed=0):
    rng = np.random.default_rng(seed)
    cells = rng.integers(mean.shape, size=(rounds, mean.ndim))
    rewards = mean[tuple(cells.T)] + rng.standard_normal(rounds)
    ledger = tb.Ledger(mean.shape)
    ledger.add(cells, rewards)
    return ledger, cells, rewards


@pytest.fixture
def problem():
    mean = (
        4
        * tb.Tucker(
            np.random.default_rng(1).standard_normal(RANK),
            tuple(np.random.default_rng(2).standard_normal((p, 2)) for p in SHAPE),
        ).full()
    )
    return ledger_of(mean, 400)


def chains(ledger, count, sweeps):
    rng = np.random.default_rng(3)
    units = Units.of(ledger)
    made = [Chain.from_prior(SHAPE, RANK, units, rng) for _ in range(count)]
    for chain in made:
        if sweeps:
            chain.sweep(ledger, units, rng, sweeps=sweeps, learn_noise=True)
    return made


def test_likelihoods_differ_as_those_of_single_rewards_do(problem):
    ledger, cells, rewards = problem

    def single(chain):
        means = chain.model.tensor().at(cells)
        return stats.norm.logpdf(rewards, means, np.sqrt(chain.noise_variance)).sum()

    one, two = chains(ledger, 2, sweeps=5)
    difference = one.log_likelihood(ledger) - two.log_likelihood(ledger)
    assert difference == pytest.approx(single(one) - single(two), rel=1e-9)
    assert abs(difference) > 1e-3
    plain = [PlainChain(chain).log_likelihood(ledger) for chain in (one, two)]
    assert difference == pytest.approx(plain[0] - plain[1], rel=1e-9)


def oracle_with(chain, ledger):
    oracle = GibbsOracle(SHAPE, RANK, likelihood=likelihood_of("gaussian"), decay=1.0, sweeps=1, max_sweeps=100)
    oracle.chain, oracle.seen = chain, ledger.rounds
    return oracle


def test_a_poor_chain_is_replaced(problem):
    ledger, _, _ = problem
    (poor,) = chains(ledger, 1, sweeps=0)  # drawn from the prior, knows nothing
    oracle = oracle_with(poor, ledger)
    oracle._challenge(ledger, Units.of(ledger), np.random.default_rng(0), _RIVAL_SWEEPS)
    assert oracle.chain is not poor
    assert oracle.rival is None
    assert oracle.rival_due == pytest.approx(1.1 * ledger.rounds)


def test_a_good_chain_is_kept_against_a_poor_rival(problem):
    ledger, _, _ = problem
    (good,) = chains(ledger, 1, sweeps=300)
    (poor,) = chains(ledger, 1, sweeps=0)
    poor.likelihood.variance = good.likelihood.variance
    oracle = oracle_with(good, ledger)
    oracle.rival, oracle.rival_sweeps = poor, _RIVAL_SWEEPS  # as if it had never moved
    oracle._challenge(ledger, Units.of(ledger), np.random.default_rng(0), 0)
    assert oracle.chain is good


def test_rivals_wait_for_more_rewards_than_unknowns_and_sweep_once_per_reward():
    policy = tb.TensorThompsonSampling(SHAPE, 2, seed=0)
    unknowns = 2 * sum(SHAPE) + 1 + 8
    rng = np.random.default_rng(0)
    for t in range(unknowns + 10):
        policy.tell(policy.ask(), rng.standard_normal())
        assert (policy.oracle.rival is None) == (t < unknowns)
    assert policy.oracle.rival_sweeps == 10  # the last reward was not followed by a decision
    policy.ask()
    policy.ask()  # no new reward, so nothing moves it
    assert policy.oracle.rival_sweeps == 11


def test_a_policy_saved_in_the_middle_of_a_rival_goes_on_identically():
    policy = tb.TensorThompsonSampling(SHAPE, 2, seed=0)
    rng = np.random.default_rng(0)
    rewards = rng.standard_normal(200)
    for reward in rewards[:80]:
        policy.tell(policy.ask(), reward)
    assert 0 < policy.oracle.rival_sweeps < _RIVAL_SWEEPS
    twin = tb.Policy.from_state_dict(policy.state_dict())
    for reward in rewards[80:]:
        cell = policy.ask()
        assert twin.ask() == cell
        policy.tell(cell, reward)
        twin.tell(cell, reward)


@pytest.mark.slow
def test_the_policy_leaves_the_mode_that_its_chain_alone_never_left():
    """On this tensor a single chain plays a cell of mean 4.32 for good; the best has 5.02."""
    env = tb.TensorEnvironment(tb.paper_tensor(20, 0.5, rank=2, seed=4), seed=4)
    policy = tb.TensorThompsonSampling(env.shape, 2, seed=np.random.SeedSequence(0, spawn_key=(4,)))
    tb.simulate(policy, env, 2_500)
    late = tb.simulate(policy, env, 500)
    assert late.regret[-1] / 500 < 0.35  # 0.7 where it was stuck

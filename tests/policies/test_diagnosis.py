"""What a policy's rewards say of its structure."""

import numpy as np
import pytest

import tensorbandits as tb
from tensorbandits import Ledger
from tensorbandits.model.held_out import Rewards
from tensorbandits.model.scores import structures
from tensorbandits.policies.diagnosis import diagnose
from tensorbandits.policies.registry import find


def played(mean, reward, rounds=1_500, seed=0):
    """A policy that was told rewards of random cells."""
    rng = np.random.default_rng(seed)
    policy = tb.TensorThompsonSampling(mean.shape, rank=1, reward=reward, seed=seed)
    cells = rng.integers(mean.shape, size=(rounds, mean.ndim))
    rewards = mean[tuple(cells.T)] + rng.standard_normal(rounds)
    if reward == "bernoulli":
        rewards = (rng.random(rounds) < mean[tuple(cells.T)]).astype(float)
    policy.tell_many(cells, rewards)
    return policy


def test_low_rank_and_main_effects_are_told_apart():
    a, b = np.linspace(-2, 2, 7), np.cos(np.arange(8))
    low = played(0.4 * np.outer(a, b), "gaussian").diagnose(max_rank=1)
    assert "Low rank is worth it here" in low.words
    assert low.rank == 1
    assert low.learned["main effects"] < 0.3
    assert low.scores["cell means"] < max(low.scores["tucker 1"], low.scores["affine 1"])
    additive = played(1 / (1 + np.exp(2 - a[:, None] - b)), "bernoulli").diagnose(max_rank=1)
    assert (additive.structure, additive.rank, additive.kind) == ("additive", None, "bernoulli")
    assert "Main effects suffice" in repr(additive)
    assert "Suggested structure: additive." in repr(additive)


def test_a_few_clicks_are_too_few_to_diagnose():
    found = played(np.full((8, 7, 6), 0.005), "bernoulli").diagnose(max_rank=1)
    assert found.words.startswith("Too few to tell: from 1,500 rewards with")
    assert "Come back with about" in found.words
    assert set(found.learned.values()) == {0.0}
    assert (found.structure, found.rank) == (None, None)
    assert "Suggested" not in repr(found)


def test_a_diagnosis_changes_nothing_and_repeats_itself():
    policy = played(np.outer(np.arange(3.0), np.arange(4.0)), "gaussian", rounds=200)
    before = policy.state_dict()
    first, second = (policy.diagnose(max_rank=1) for _ in range(2))
    assert first == second
    after = policy.state_dict()
    assert str(before) == str(after)


def test_too_few_rewards_and_wrong_settings_are_refused():
    policy = tb.TensorThompsonSampling((3, 3), seed=0)
    with pytest.raises(ValueError, match=r"there are 0 rewards; .* tell the policy at least 8"):
        policy.diagnose()
    policy.tell_many([(0, 0), (1, 1)] * 10, [1.0, 2.0] * 10)
    with pytest.raises(ValueError, match="max_rank is 0"):
        policy.diagnose(max_rank=0)
    with pytest.raises(ValueError, match="the kind of reward is 'clicks'"):
        diagnose(policy.ledger, "clicks")


@pytest.mark.parametrize("name", ["ucb", "elimination", "epoch-greedy", "estr", "ensemble"])
def test_every_policy_is_diagnosed_by_what_it_was_told(name):
    told = played(np.outer(np.arange(3.0), np.arange(4.0)), "gaussian", rounds=100)
    policy = find(name).make((3, 4), rank=1, horizon=5_000, seed=0) if name != "ucb" else tb.VectorizedUCB((3, 4))
    policy.tell_ledger(told.ledger)
    assert policy.diagnose(max_rank=1) == told.diagnose(max_rank=1)


def test_policies_with_an_oracle_of_ones_own_are_diagnosed_too():
    policy = tb.ApproximateThompsonSampling((2, 3), lambda ledger, rng: rng.standard_normal((2, 3)), seed=0)
    policy.tell_many([(0, 0), (1, 1)] * 10, [1.0, 0.0] * 10)
    assert policy.diagnose(max_rank=1).kind == "bernoulli"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("dispersion", "mean"), [(0.02, 5.0), (0.5, 0.2), (5.0, 40.0)])
def test_counts_are_diagnosed_as_whole_numbers(dispersion, mean):
    rng = np.random.default_rng(0)
    cells = rng.integers((5, 6), size=(600, 2))
    rewards = rng.poisson(mean * rng.gamma(dispersion, size=600) / dispersion)
    ledger = Ledger((5, 6))
    ledger.add(cells, rewards.astype(float))
    single = Rewards.of(ledger, rng, whole_numbers=True)
    again = single.ledger()
    assert (single.values >= 0).all()
    assert (single.values == np.round(single.values)).all()
    np.testing.assert_array_equal(again.dense()[0], ledger.dense()[0])
    np.testing.assert_allclose(again.dense()[1], ledger.dense()[1])
    found = diagnose(ledger, "count", max_rank=1)
    assert np.isfinite(list(found.scores.values())).all()


def test_a_mode_of_one_level_and_narrow_modes_are_scored_as_a_policy_would_have_them():
    rng = np.random.default_rng(0)
    for shape in ((5, 1), (10, 2, 2)):
        policy = tb.TensorThompsonSampling(shape, seed=0)
        cells = rng.integers(shape, size=(300, len(shape)))
        policy.tell_many(cells, cells[:, 0] + rng.standard_normal(300))
        assert "affine 1" in policy.diagnose(max_rank=1).scores
    assert [str(form) for form in structures((10, 2, 2))][-3:] == ["affine 1", "affine 2", "affine 3"]


def test_faded_counts_that_are_next_to_nothing_are_too_few():
    policy = tb.TensorThompsonSampling((5, 5), reward="count", seed=0)
    policy.tell_many(np.argwhere(np.ones((5, 5))), np.ones(25))
    policy.fade(0.4)
    with pytest.raises(ValueError, match="rewards"):
        policy.diagnose()


def test_rewards_of_a_space_that_no_integer_counts_are_diagnosed():
    rng = np.random.default_rng(0)
    policy = tb.TensorThompsonSampling((1000,) * 7, rank=1, seed=0)
    cells = rng.integers(1000, size=(40, 7))
    policy.tell_many(cells, rng.standard_normal(40))
    assert policy.diagnose(max_rank=1).scores["overall mean"] < 0

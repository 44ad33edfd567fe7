from fractions import Fraction

import numpy as np
import pytest

from tensorbandits import Ledger, TensorEnsembleSampling, TensorEpochGreedy, VectorizedUCB
from tensorbandits.base.checks import (
    check_cell,
    check_context,
    check_levels,
    check_positive,
    check_reward,
    check_rewards,
    check_seed,
    check_shape,
    check_weights,
    resolve_rank,
)
from tensorbandits.tensor.tucker import Tucker, best_cell

TENSOR = Tucker(np.ones((1, 1)), (np.ones((2, 1)), np.arange(3.0)[:, None]))


@pytest.mark.parametrize(
    ("check", "match"),
    [
        (check_shape, "one size per mode"),
        (lambda value: check_context(value, (3, 4)), "positions of the context modes"),
        (lambda value: check_levels(value, (0,), (3, 4)), "one level per context mode"),
        (lambda value: check_cell(value, (3, 4)), "one level per mode"),
        (lambda value: resolve_rank(value, (3, 4)), "one per mode"),
        (lambda value: check_weights(value, (3, 4)), "list of vectors"),
    ],
)
def test_an_array_without_entries_is_no_sequence(check, match):
    with pytest.raises(TypeError, match=match):
        check(np.array(2))


@pytest.mark.parametrize("size", [2**62 + 1, 10**30, 10**1000])
def test_a_size_must_fit(size):
    with pytest.raises(ValueError, match=r"mode 1 has a size above 2\*\*62.*fewer levels"):
        check_shape((3, size))
    assert check_shape((2**62,)) == (2**62,)


@pytest.mark.parametrize("reward", [10**400, -(10**1000), Fraction(10**400), 1e200, -1.1e100, np.float64(1e300)])
def test_a_reward_whose_square_overflows_is_refused(reward):
    with pytest.raises(ValueError, match=r"the reward is .*rescale"):
        check_reward(reward)
    with pytest.raises(ValueError, match=r"reward 1 is .*rescale"):
        check_rewards([1.0, reward], 2)
    policy = VectorizedUCB((2, 2))
    with pytest.raises(ValueError, match="rescale"):
        policy.tell((0, 0), reward)
    with pytest.raises(ValueError, match="rescale"):
        policy.tell_many([(0, 0), (0, 1)], [1.0, reward])
    assert len(policy.ledger) == 0
    assert check_reward(-1e100) == check_rewards([-1e100], 1)[0] == -1e100


def test_numbers_in_an_object_array_are_rewards():
    rewards = check_rewards(np.array([1, 2.5, Fraction(1, 4), np.float32(3), True], dtype=object), 5)
    assert rewards.dtype == np.float64
    assert rewards.tolist() == [1.0, 2.5, 0.25, 3.0, 1.0]


@pytest.mark.parametrize(
    ("rewards", "match"),
    [
        ([1.0, [2.0, 3.0]], r"reward 1 is \[2.0, 3.0\], not a number"),
        ([[1.0], [2.0, 3.0]], r"reward 0 is \[1.0\], not a number"),
        ([np.zeros((2, 1)), np.zeros((2, 3))], "reward 0 is array"),
        ([1.0, "x"], "reward 1 is 'x', not a number"),
        ([1.0, None], "reward 1 is None, not a number"),
        ([1.0, 2j], "reward 1 is 2j, not a number"),
        (np.array([1, 2], dtype="m8[ns]"), "timedelta64"),
    ],
)
def test_rewards_that_are_no_numbers_are_refused(rewards, match):
    with pytest.raises(TypeError, match=match):
        check_rewards(rewards, 2)


def test_a_parameter_beyond_floats_is_refused():
    with pytest.raises(ValueError, match="finite number above 0"):
        check_positive(10**400, "noise")


@pytest.mark.parametrize("one", [np.float32(1), np.int64(1), Fraction(1)])
def test_priors_may_be_any_real_number(one):
    oracle = TensorEnsembleSampling((2, 3), 1, prior_variance=one, prior_mean=one).oracle
    assert oracle.prior_variance == [1.0, 1.0]
    assert [mean.tolist() for mean in oracle.prior_mean] == [[[1.0]] * 2, [[1.0]] * 3]


@pytest.mark.parametrize(
    ("prior", "error", "match"),
    [
        ({"prior_mean": float("nan")}, ValueError, "prior_mean is nan; give a finite number"),
        ({"prior_mean": 10**400}, ValueError, "give a finite number"),
        ({"prior_mean": "a"}, TypeError, "prior_mean is 'a'"),
        ({"prior_mean": [["a"], ["b"]]}, ValueError, "prior_mean is .*finite arrays of shapes"),
        ({"prior_variance": float("nan")}, ValueError, "prior_variance is nan"),
        ({"prior_variance": np.array(1.0)}, TypeError, "one per mode"),
        ({"prior_variance": "ab"}, TypeError, "prior_variance is 'ab'"),
    ],
)
def test_priors_that_are_no_finite_numbers_are_refused(prior, error, match):
    with pytest.raises(error, match=match):
        TensorEnsembleSampling((2, 3), 1, **prior)


@pytest.mark.parametrize(
    ("weights", "error", "match"),
    [
        (5, TypeError, "weights is 5; give a list of vectors of lengths"),
        (["a", "b"], TypeError, "weight vector 0 is 'a'; give 2 finite numbers"),
        ([[1, 1], ["a", "b", "c"]], ValueError, "weight vector 1 is .*give 3 finite numbers"),
        ([[1, 1], [1, [1], 1]], ValueError, "weight vector 1 is"),
        ([[1, 1], [1, 0, 1]], ValueError, "weight vector 1 is .*never drawn"),
        ([[1, 1]], ValueError, "1 weight vectors given for 2 modes"),
    ],
)
def test_weights_are_one_vector_per_mode_to_decide(weights, error, match):
    with pytest.raises(error, match=match):
        check_weights(weights, (2, 3))
    with pytest.raises(error, match=match):
        TensorEpochGreedy((4, 2, 3), 1, context=(0,), weights=weights)


@pytest.mark.parametrize("cell", [(0, 1), [0, 1], np.array([0, 1])])
def test_a_cell_of_any_sequence_can_be_looked_up(cell):
    ledger = Ledger((2, 3))
    ledger.add((0, 1), 1.0)
    assert cell in ledger
    assert [1, 0] not in ledger
    assert all(other not in ledger for other in ([0, 9], [0], "ab", None, np.array(0), [[0], [1]]))


def test_values_at_a_list_of_cells():
    assert TENSOR.at([(0, 0), (1, 2)]).tolist() == TENSOR.at(np.array([(0, 0), (1, 2)])).tolist() == [0.0, 2.0]
    with pytest.raises(ValueError, match="row 1, the level of mode 1 is 3, out of range"):
        TENSOR.at([(0, 0), (1, 3)])


@pytest.mark.parametrize("tensor", [TENSOR, TENSOR.full()], ids=["tucker", "array"])
@pytest.mark.parametrize(
    ("fixed", "error", "match"),
    [
        ({9: 0}, ValueError, "a fixed mode is 9, out of range; allowed are 0 to 1"),
        ({-1: 0}, ValueError, "a fixed mode is -1"),
        ({"a": 0}, TypeError, "a fixed mode is 'a'"),
        ({1: 3}, ValueError, "the fixed level of mode 1 is 3, out of range; allowed are 0 to 2"),
        ({1: 0.0}, TypeError, "the fixed level of mode 1 is 0.0"),
        ([0], TypeError, "fixed levels by mode"),
    ],
)
def test_fixed_levels_must_exist(tensor, fixed, error, match):
    with pytest.raises(error, match=match):
        best_cell(tensor, fixed)


@pytest.mark.parametrize("tensor", [TENSOR, TENSOR.full()], ids=["tucker", "array"])
def test_every_mode_may_be_fixed(tensor):
    assert best_cell(tensor, {np.int64(0): np.int64(1), 1: 0}) == (1, 0)
    assert best_cell(tensor, {}) == best_cell(tensor) == (0, 2)


def test_seeds():
    sequence = np.random.SeedSequence(3)
    assert [check_seed(seed) for seed in (None, 0, np.int64(5), sequence)] == [None, 0, 5, sequence]
    for seed in ("abc", 1.5, True, [1, 2], np.array(1)):
        with pytest.raises(TypeError, match=r"seed is .*whole number of at least 0, a SeedSequence, or None"):
            check_seed(seed)
    with pytest.raises(ValueError, match="seed is -1; seeds are at least 0"):
        check_seed(-1)

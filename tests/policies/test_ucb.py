import numpy as np
import pytest

from tensorbandits import TensorEnvironment, VectorizedUCB, simulate


def ucb1(mean, rewards):
    """UCB1 in ten lines: ``rewards(arm)`` draws one; yields the arms it plays."""
    n, s = np.zeros(mean.size), np.zeros(mean.size)
    t = 0
    while True:
        arm = t if t < mean.size else int(np.argmax(s / n + np.sqrt(2 * np.log(t) / n)))
        yield arm
        s[arm] += rewards(arm)
        n[arm] += 1
        t += 1


def test_it_equals_ucb1():
    mean = np.random.default_rng(0).standard_normal((3, 4))
    trace = simulate(VectorizedUCB((3, 4)), TensorEnvironment(mean, seed=5), 400)
    told = iter(trace.rewards)
    plain = ucb1(mean, lambda arm: next(told))
    assert [next(plain) for _ in range(400)] == np.ravel_multi_index(tuple(trace.cells.T), (3, 4)).tolist()


def test_each_context_has_a_table_of_its_own():
    """With a context, the cells of one context are chosen as if the others did not exist."""
    shape = (2, 5)
    rng = np.random.default_rng(1)
    mean = rng.standard_normal(shape)
    policy = VectorizedUCB(shape, context=(0,))
    alone = [VectorizedUCB((5,)) for _ in range(2)]
    for _ in range(300):
        level = int(rng.integers(2))
        cell = policy.ask((level,))
        assert cell[1:] == alone[level].ask()
        reward = mean[cell] + rng.standard_normal()
        policy.tell(cell, reward)
        alone[level].tell(cell[1:], reward)


def test_arms_without_a_reward_are_tried_in_turn():
    policy = VectorizedUCB((3,))
    assert [policy.ask() for _ in range(7)] == [(0,), (1,), (2,), (0,), (1,), (2,), (0,)]
    for _ in range(4):
        policy.tell((0,), 1.0)
        policy.tell((2,), 1.0)
    assert policy.ask() == (1,)


def test_an_arm_that_never_reports_does_not_capture_the_traffic():
    policy = VectorizedUCB((3,))
    cells = []
    for _ in range(400):
        cells.append(policy.ask())
        if cells[-1] != (1,):
            policy.tell(cells[-1], 1.0)
    assert 2 <= cells.count((1,)) <= 21


def test_too_many_arms_are_refused():
    with pytest.raises(ValueError, match=r"too many for VectorizedUCB.*TensorThompsonSampling"):
        VectorizedUCB((10**4,) * 3)


def test_the_scale_multiplies_the_bonus():
    mean = np.array([[0.0, 1.0], [2.0, 3.0]])
    plain = simulate(VectorizedUCB((2, 2)), TensorEnvironment(mean, seed=1), 200)
    large = simulate(VectorizedUCB((2, 2), scale=1024.0), TensorEnvironment(1024 * mean, noise=1024.0, seed=1), 200)
    np.testing.assert_array_equal(plain.cells, large.cells)

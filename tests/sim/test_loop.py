import numpy as np
import pytest

from tensorbandits.policies.base import Policy
from tensorbandits.policies.ucb import VectorizedUCB
from tensorbandits.sim.environment import TensorEnvironment
from tensorbandits.sim.loop import simulate


class Scripted(Policy):
    """Plays the cells of a list, whatever happens, and remembers what it was asked and told."""

    def __init__(self, shape, *, cells, context=(), seed=None):
        super().__init__(shape, context=context, seed=seed)
        self.cells = list(cells)
        self.asked, self.told = [], []

    def _choose(self, query, rng):
        self.asked.append(query.levels)
        decided = iter(self.cells[len(self.asked) - 1])
        return tuple(next(decided) if level < 0 else level for level in query.fixed.tolist())

    def _observe(self, cell, count, total, note):
        self.told.append((cell, total))

    def _best(self, query):
        return (0,) * len(self.shape)

    def _estimate(self, cells):
        return np.zeros(len(cells))


MEAN = np.array([[0.0, 1.0, 4.0], [2.0, 5.0, 3.0]])


def test_the_trace_holds_what_was_played_and_paid_and_the_summed_regret():
    env = TensorEnvironment(MEAN, noise=0.5, seed=0)
    policy = Scripted((2, 3), cells=[(0, 0), (1, 1), (1, 2)])
    trace = simulate(policy, env, 3)
    assert trace.cells.tolist() == [[0, 0], [1, 1], [1, 2]]
    assert trace.regret.tolist() == [5.0, 5.0, 7.0]
    assert policy.told == [
        (tuple(cell), reward) for cell, reward in zip(trace.cells.tolist(), trace.rewards, strict=True)
    ]
    assert len(trace) == 3
    assert 0 < trace.seconds < 1
    assert trace.microseconds == pytest.approx(1e6 * trace.seconds / 3)


def test_the_policy_is_asked_with_the_context_that_was_drawn():
    env = TensorEnvironment(MEAN, noise=0.0, context=(0,), seed=3)
    policy = Scripted((2, 3), context=(0,), cells=[(1,)] * 40)
    trace = simulate(policy, env, 40)
    assert [(level,) for level in trace.cells[:, 0]] == policy.asked
    assert {0, 1} == set(trace.cells[:, 0].tolist())
    # In row 0 the best mean is 4 and column 1 pays 1; in row 1 column 1 is the best.
    np.testing.assert_allclose(np.diff(trace.regret, prepend=0.0), np.where(trace.cells[:, 0] == 0, 3.0, 0.0))


def test_the_same_seeds_give_the_same_trace():
    traces = [simulate(VectorizedUCB((2, 3)), TensorEnvironment(MEAN, seed=1), 200) for _ in range(2)]
    assert np.array_equal(traces[0].rewards, traces[1].rewards)
    assert np.array_equal(traces[0].regret, traces[1].regret)


def test_a_simulation_goes_on_where_it_stopped():
    env, policy = TensorEnvironment(MEAN, seed=1), VectorizedUCB((2, 3))
    parts = [simulate(policy, env, 60), simulate(policy, env, 140)]
    whole = simulate(VectorizedUCB((2, 3)), TensorEnvironment(MEAN, seed=1), 200)
    assert np.array_equal(np.concatenate([part.rewards for part in parts]), whole.rewards)


def test_progress_counts_the_rounds():
    seen = []
    simulate(VectorizedUCB((2, 3)), TensorEnvironment(MEAN), 5, progress=seen.append)
    assert seen == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("horizon", [0, -1, 2.5, True])
def test_a_horizon_below_one_is_refused(horizon):
    with pytest.raises(ValueError, match=r"horizon is .* at least 1"):
        simulate(VectorizedUCB((2, 3)), TensorEnvironment(MEAN), horizon)


def test_a_policy_of_another_shape_is_refused():
    with pytest.raises(ValueError, match=r"\(3, 2\).*\(2, 3\).*same shape"):
        simulate(VectorizedUCB((3, 2)), TensorEnvironment(MEAN), 10)


def test_a_policy_of_another_context_is_refused():
    with pytest.raises(ValueError, match=r"\(1,\).*\(0,\).*same context"):
        simulate(VectorizedUCB((2, 3), context=(1,)), TensorEnvironment(MEAN, context=(0,)), 10)

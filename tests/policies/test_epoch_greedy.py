import itertools
import math

import numpy as np
import pytest

import tensorbandits as tb
from tensorbandits import Ledger, TensorEnvironment, TensorEpochGreedy, complete, simulate, theory
from tensorbandits.tensor.completion import Completion, CompletionInfo, choose_rank


def note_of(policy, cell):
    """The note of the last ask: the number of tries of a uniform one, 0 of a greedy one."""
    kept = policy._notes.state()
    assert tuple(kept["cells"][-1]) == cell
    return kept["notes"][-1]


def test_the_papers_schedule_is_followed_round_by_round():
    """``s_1`` uniform rounds, then in epoch k first ``s_2k`` greedy rounds and then one uniform round."""
    shape, C_2 = (4, 4, 4), 60.0
    policy = TensorEpochGreedy.paper(shape, 2, C_2=C_2, seed=0)
    s_1 = theory.initial_rounds(shape, 2)
    expected = [True] * s_1
    for k in range(8):
        expected += [False] * theory.exploitation_rounds(k, shape, 2, s_1=s_1, C_2=C_2) + [True]
    explored = []
    for _ in expected:
        cell = policy.ask()
        explored.append(note_of(policy, cell) > 0)
        policy.tell(cell, float(sum(cell)))
    assert explored == expected
    assert expected.count(False) > 16


def test_only_uniform_rounds_feed_the_completion():
    mean = np.random.default_rng(0).standard_normal((4, 3, 3))
    policy = TensorEpochGreedy((4, 3, 3), 2, centre=False, seed=1)
    uniform = Ledger((4, 3, 3))
    rng = np.random.default_rng(2)
    for _ in range(300):
        cell = policy.ask()
        reward = mean[cell] + rng.standard_normal()
        if note_of(policy, cell) > 0:
            uniform.add(cell, reward)
        policy.tell(cell, reward)
    policy.tell((0, 0, 0), 100.0)
    assert policy.explored == uniform
    assert 10 < uniform.rounds < 200
    fresh = complete(uniform, 2)
    np.testing.assert_allclose(policy.estimate([(1, 1, 1)]), fresh.at(np.array([(1, 1, 1)])), rtol=1e-3)
    assert policy.best() == fresh.best()


def test_a_completion_goes_on_from_the_last_and_is_no_worse_than_a_fresh_one():
    """Warm starts settle where spectral starts do, or at a larger core, and take far fewer iterations."""
    mean = tb.paper_tensor(8, 0.8, seed=0)
    policy = TensorEpochGreedy.paper(mean.shape, 2, anew=False, seed=0)
    env = tb.TensorEnvironment(mean, seed=0)
    warm, cold, shortfall = 0, 0, []
    for _ in range(300):
        tb.simulate(policy, env, 1)
        if policy.explored.rounds > 50 and policy._fit is None:
            kept, fresh = policy._completion(), complete(policy.explored, 2)
            warm, cold = warm + kept.info.iterations, cold + fresh.info.iterations
            shortfall.append(1.0 - np.linalg.norm(kept.core) / np.linalg.norm(fresh.core))
    assert len(shortfall) > 80
    assert warm < 0.5 * cold
    assert np.mean(shortfall) < 0.02


def test_looking_at_a_completion_does_not_move_where_the_next_one_starts():
    mean = tb.paper_tensor(6, 0.8, seed=0)
    quiet, watched = (TensorEpochGreedy(mean.shape, 2, seed=0) for _ in range(2))
    worlds = [tb.TensorEnvironment(mean, seed=0) for _ in range(2)]
    for _ in range(200):
        one = tb.simulate(quiet, worlds[0], 1).cells
        watched.best()
        watched.measured_error()
        np.testing.assert_array_equal(tb.simulate(watched, worlds[1], 1).cells, one)


def test_a_late_uniform_reward_still_counts_as_uniform():
    policy = TensorEpochGreedy((3, 3), 1, initial=5, seed=0)
    cells = [policy.ask() for _ in range(30)]
    assert policy.explored.rounds == 0
    for cell in reversed(cells):
        policy.tell(cell, 1.0)
    assert policy.ledger.rounds == 30
    assert 5 <= policy.explored.rounds < 30
    assert not len(policy._notes)


def test_skewed_contexts_do_not_bias_the_completion():
    """A context seen 8 times as often as another must not look 8 times as large."""
    mean = np.outer([1.0, 1.0, 1.0], [1.0, 2.0, 3.0, -1.0])
    env = TensorEnvironment(mean, noise=0.3, context=(0,), context_weights=[[0.8, 0.1, 0.1]], seed=0)
    policy = TensorEpochGreedy((3, 4), 1, context=(0,), initial=20_000, seed=0)
    simulate(policy, env, 20_000)
    cells = np.array(list(np.ndindex(3, 4)))
    np.testing.assert_allclose(policy.estimate(cells), mean.ravel(), atol=0.2)


def test_weighted_exploration_is_weighted_back():
    mean = np.outer([1.0, 2.0], [1.0, -1.0, 3.0])
    weights = [[0.8, 0.2], [0.6, 0.3, 0.1]]
    policy = TensorEpochGreedy((2, 3), 1, initial=20_000, weights=weights, centre=False, seed=0)
    simulate(policy, TensorEnvironment(mean, noise=0.3, seed=0), 20_000)
    N = policy.explored.dense()[0]
    np.testing.assert_allclose(N / N.sum(), np.outer(*weights), atol=0.02)
    # A cell of probability 0.02 is drawn about 400 times, so that its weight alone is off by 5 % (one deviation).
    np.testing.assert_allclose(policy.estimate(list(np.ndindex(2, 3))), mean.ravel(), rtol=0.2)
    with pytest.raises(ValueError, match="weight vector 1 is"):
        TensorEpochGreedy((2, 3), 1, weights=[[1, 1], [1, 0, 1]])


def test_the_measured_error_is_close_to_the_true_one_and_falls():
    mean = 2.0 * np.einsum("i,j,k->ijk", *np.random.default_rng(0).standard_normal((3, 5)))
    policy = TensorEpochGreedy((5, 5, 5), 1, initial=8000, seed=0)
    env = TensorEnvironment(mean, seed=0)
    assert policy.measured_error() == 1.0
    simulate(policy, env, 500)
    early = policy.measured_error()
    simulate(policy, env, 7000)
    late = policy.measured_error()
    cells = np.array(list(np.ndindex(5, 5, 5)))
    true = np.linalg.norm(policy.estimate(cells) - mean.ravel()) / np.linalg.norm(mean)
    assert late < 0.5 * early
    assert 0.4 * true < late < 2.5 * true


def test_the_measured_error_is_right_on_average():
    """Measured over true error is 1 +- 0.2 in a single run, so that the mean of 8 runs is 1 +- 0.07 (one deviation)."""
    signs = np.tile([-1.0, 1.0], 4)  # of mean 0: the problem stays of rank 1 when rewards are centred
    mean = np.einsum("i,j,k->ijk", signs, signs, signs)
    ratios = []
    for seed in range(8):
        policy = TensorEpochGreedy((8, 8, 8), 1, initial=1500, seed=seed)
        simulate(policy, TensorEnvironment(mean, seed=100 + seed), 1500)
        true = np.linalg.norm(policy.estimate(np.argwhere(mean)) - mean.ravel()) / np.linalg.norm(mean)
        ratios.append(policy.measured_error() / true)
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.25)


@pytest.mark.parametrize("error", [1.0, 0.3, 0.07])
def test_adaptive_epochs_are_longer_the_smaller_the_error_and_the_later_the_epoch(error):
    policy = TensorEpochGreedy((4, 4, 4), 1, C_2=3.0, seed=0)
    policy._measured = (1e9, error)  # so many rounds that nothing is measured anew
    policy._issued = 10**6
    for epoch in (0, 1, 7, 100):
        policy._epoch = epoch
        assert policy._greedy_rounds() == math.ceil(3.0 * math.sqrt(epoch + 1) / error)


def test_an_epoch_is_never_longer_than_all_before_it():
    policy = TensorEpochGreedy((4, 4, 4), 1, seed=0)
    policy._measured, policy._issued = (1e9, 1e-12), 77
    assert policy._greedy_rounds() == 77


def test_adaptive_exploration_dwindles():
    mean = 3.0 * np.einsum("i,j,k->ijk", *np.random.default_rng(0).standard_normal((3, 4)))
    policy = TensorEpochGreedy((4, 4, 4), 1, seed=0)
    env = TensorEnvironment(mean, seed=0)
    simulate(policy, env, 1000)
    early = policy.explored.rounds / 1000
    simulate(policy, env, 3000)
    assert (policy.explored.rounds - 1000 * early) / 3000 < 0.6 * early


def test_an_unknown_schedule_is_refused():
    with pytest.raises(ValueError, match='allowed are "adaptive" and "paper"'):
        TensorEpochGreedy((2, 2), 1, schedule="never")


def test_lost_rewards_do_not_inflate_greedy_cells():
    """A greedy reward must not stand in for a uniform one that was lost: its cell would seem larger."""
    mean = np.full((4, 4), 0.9)
    mean[1, 2] = 1.0
    policy = TensorEpochGreedy((4, 4), 1, schedule="paper", centre=False, seed=0)
    rng = np.random.default_rng(1)
    for _ in range(6000):
        cell = policy.ask()
        if rng.random() < 0.4:
            policy.tell(cell, mean[cell])
    N = policy.explored.dense()[0]
    expected = N.sum() / 16
    assert expected > 20
    assert np.abs(N - expected).max() < 4 * np.sqrt(expected)


@pytest.mark.parametrize("offset", [0.0, 50.0])
def test_rewards_need_not_be_centred(offset):
    mean = offset + 2.0 * np.einsum("i,j,k->ijk", *np.random.default_rng(0).standard_normal((3, 4)))
    policy = TensorEpochGreedy((4, 4, 4), 1, initial=2000, seed=0)
    simulate(policy, TensorEnvironment(mean, seed=0), 2000)
    error = policy.estimate(list(np.ndindex(4, 4, 4))) - mean.ravel()
    assert np.linalg.norm(error) < 0.4 * np.linalg.norm(mean - mean.mean())
    assert mean[policy.best()] > mean.max() - 1.0


def settled(rounds, seed=0, rank=2, p=8):
    mean = tb.paper_tensor(p, 0.8, seed=seed)
    policy = TensorEpochGreedy.paper(mean.shape, rank, anew=False, seed=seed)
    tb.simulate(policy, tb.TensorEnvironment(mean, seed=seed), rounds)
    return policy


def test_a_completion_starts_from_the_spectra_again_when_a_tenth_more_was_explored(monkeypatch):
    starts = []

    def spy(*arguments, init=None, **more):
        starts.append((policy.explored.rounds, init is None))
        return complete(*arguments, init=init, **more)

    mean = tb.paper_tensor(8, 0.8, seed=0)
    policy = TensorEpochGreedy.paper(mean.shape, 2, anew=False, seed=0)
    monkeypatch.setattr("tensorbandits.policies.exploration.complete", spy)
    tb.simulate(policy, tb.TensorEnvironment(mean, seed=0), 400)
    cold = [rounds for rounds, fresh in starts if fresh]
    warm = [rounds for rounds, fresh in starts if not fresh]
    assert len(warm) > 3 * len(cold) > 15
    assert all(1.1 * a <= b < 1.1 * a + 2 for a, b in itertools.pairwise(cold))


def test_the_papers_completions_start_anew_in_a_policy_that_was_saved_too():
    """Greedy rounds play the best cell of the completion of all that was explored, whatever was completed before."""
    mean = tb.paper_tensor(8, 0.5, seed=1)
    env = tb.TensorEnvironment(mean, seed=1)
    policy, other = TensorEpochGreedy.paper(mean.shape, 2, seed=1), TensorEpochGreedy(mean.shape, 2, seed=1)
    assert policy.anew
    assert not other.anew
    differing = 0
    for round_ in range(500):
        if round_ == 200:
            policy = TensorEpochGreedy.from_state_dict(policy.state_dict())
        warm = policy._last
        policy.learn()
        cell, note = policy.decide(policy.query())
        if note <= 0:  # a greedy round
            assert cell == complete(policy.explored, 2).best()
            if warm is not None:
                differing += complete(policy.explored, 2, init=warm.factors).best() != cell
        policy.tell(cell, env.pull(cell), note)
    assert differing  # else starting anew would be no different


def test_a_poor_start_does_not_stay():
    """From factors that have nothing to do with the data, the next spectral start finds the way back."""
    policy = settled(600)
    rng = np.random.default_rng(0)
    factors = tuple(np.linalg.qr(rng.standard_normal((8, 2)))[0] for _ in range(3))
    bad = Completion(np.zeros((2, 2, 2)), factors, 0.0, CompletionInfo((2, 2, 2), 0, (), True))
    policy._last, policy._fit, policy._restarted = bad, None, policy.explored.rounds / 2
    fresh = complete(policy.explored, 2)
    assert np.linalg.norm(policy._completion().core) >= (1 - 1e-9) * np.linalg.norm(fresh.core)


def test_an_automatic_rank_may_fall_again():
    """A completion of higher rank always has the larger core, but must not win for that."""
    policy = settled(600, rank="auto")
    rank = choose_rank(policy.explored)
    higher = complete(policy.explored, tuple(r + 1 for r in rank))
    policy._last, policy._fit, policy._restarted = higher, None, policy.explored.rounds / 2
    assert policy._completion().info.rank == rank


def test_a_restored_policy_has_the_same_completion_to_the_last_bit():
    policy = settled(300)
    while policy._fit is None or policy._fit is not policy._last:
        policy.tell(policy.ask(), 0.3)
        policy.ask()
    twin = TensorEpochGreedy.from_state_dict(policy.state_dict())
    cells = list(np.ndindex(8, 8, 8))
    np.testing.assert_array_equal(twin.estimate(cells), policy.estimate(cells))


@pytest.mark.parametrize(("delay", "lose"), [(0, 0.0), (100, 0.0), (0, 0.97)])
@pytest.mark.parametrize(("shape", "rounds", "seeds"), [((2, 2), 800, 8), ((15, 15, 15), 1600, 3)], ids=str)
def test_it_goes_on_exploring_whatever_late_and_few_rewards_say(shape, rounds, seeds, delay, lose):
    """Halves of the data that say nothing, or the same, must not be taken for an error of 0."""
    mean = tb.paper_tensor(p=shape[0], order=len(shape), rank=1, seed=0)
    for seed in range(seeds):
        policy, rng, waiting, uniform = TensorEpochGreedy(shape, rank=1, seed=seed), np.random.default_rng(seed), [], []
        for _ in range(rounds):
            policy.learn()
            choice = policy.decide(policy.query())
            uniform.append(choice.note > 0)
            waiting.append(choice)
            if len(waiting) > delay:
                told = waiting.pop(0)
                if rng.random() >= lose:
                    policy.tell(told.cell, float(mean[told.cell] + rng.standard_normal()), told.note)
        assert sum(uniform[rounds // 4 :]) > 0, f"seed {seed} stopped after {sum(uniform)} uniform rounds"
        assert policy._greedy_left <= rounds

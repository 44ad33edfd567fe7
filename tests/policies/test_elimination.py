"""Tensor elimination against a dense ridge regression in the rotated basis, written out with no shortcut."""

import copy
import math
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorly.tenalg import multi_mode_dot

from tensorbandits import theory
from tensorbandits.ledger import Ledger
from tensorbandits.model.likelihood import noise_level
from tensorbandits.policies import design as design_module
from tensorbandits.policies import subspace as subspace_module
from tensorbandits.policies.base import Policy
from tensorbandits.policies.design import Design, WidestFirst, _widest
from tensorbandits.policies.elimination import TensorElimination
from tensorbandits.policies.subspace import SubspaceRidge, first_largest
from tensorbandits.tensor.completion import complete
from tensorbandits.tensor.tucker import rotation
from tests.plain.dense import DenseRidge, inverse, penalty


def inside(policy):
    """What a policy holds beyond its ledger, as it is saved."""
    return policy.state_dict()["state"]


CASES = [((4, 3, 5), (2, 1, 2)), ((5, 6), (2, 2)), ((3, 4, 2, 3), (1, 2, 2, 1)), ((2, 5, 3), (2, 2, 1))]


def random_factors(shape, rank, rng):
    return tuple(np.linalg.qr(rng.standard_normal((p, r)))[0] for p, r in zip(shape, rank, strict=True))


def inside_mask(shape, rank):
    indices = np.indices(shape).reshape(len(shape), -1)
    return (indices < np.array(rank)[:, None]).any(axis=0)


def rotated_arms(factors, shape):
    """Row i is arm i in the basis [U_j, U_j_perp], the vectorised outer product of the paper."""
    if not factors:
        return np.eye(math.prod(shape))
    result = np.ones((1, 1))
    for U in factors:
        result = np.kron(result, rotation(U))
    return result


class DenseElimination:
    """Algorithm 1 after the exploration, with an explicit V over all rotated coordinates."""

    def __init__(self, policy, history, issued):
        ridge = policy._ridge
        self.arms = rotated_arms(ridge.factors, ridge.shape)
        inside = np.ones(len(self.arms), dtype=bool)
        if ridge.factors:
            inside = inside_mask(ridge.shape, [U.shape[1] for U in ridge.factors])
        self.penalty = np.diag(np.where(inside, ridge.lambda_1, ridge.lambda_2))
        self.q = int(inside.sum())
        self.policy, self.history, self.issued = policy, history, issued
        self.active = np.arange(len(self.arms))
        self.phase, self.pulled, self.told = 1, 0, []
        self.open()

    def open(self):
        data = self.history if self.policy.reuse_data else []
        self.pulled, self.opened, self.told = 0, self.issued, []
        self.V = self.penalty + sum((self.outer(arm) for arm, _ in data), np.zeros_like(self.penalty))

    def outer(self, arm):
        return np.outer(self.arms[arm], self.arms[arm])

    def solve(self, data):
        V = self.penalty + sum((self.outer(arm) for arm, _ in data), np.zeros_like(self.penalty))
        b = np.linalg.solve(V, sum((self.arms[arm] * y for arm, y in data), np.zeros(len(V))))
        return self.arms @ b, self.widths(V)

    def widths(self, V):
        return np.sqrt(np.einsum("ij,ji->i", self.arms, np.linalg.solve(V, self.arms.T)))

    def length(self):
        if not self.policy.reuse_data:
            return 2 ** (self.phase - 1)
        return max(1, math.ceil(0.1 * self.opened))

    def ask(self):
        if len(self.active) > 1 and self.pulled >= self.length():
            self.close()
        self.issued += 1
        if len(self.active) == 1:
            return self.active[0]
        squares = self.widths(self.V)[self.active] ** 2
        arm = self.active[(squares >= (1 - 1e-10) * squares.max()).argmax()]  # ties to the lowest index
        self.V = self.V + self.outer(arm)
        self.pulled += 1
        return arm

    def close(self):
        data = self.history if self.policy.reuse_data else self.told
        if not self.policy.reuse_data or len(data) >= max(10, self.q):
            mean, width = self.solve(data)
            mean, width = mean[self.active], self.policy.confidence * self.policy.noise * width[self.active]
            self.active = self.active[mean + width >= (mean - width).max()]
        self.phase += 1
        self.open()

    def tell(self, arm, reward):
        self.told.append((arm, reward))


def low_rank(shape, rank, rng):
    core = rng.standard_normal(rank)
    return np.asarray(multi_mode_dot(core, [rng.standard_normal(s) for s in zip(shape, rank, strict=True)]))


@pytest.mark.parametrize(("shape", "rank"), CASES)
def test_the_rotated_problem_gives_each_arm_its_mean(shape, rank):
    rng = np.random.default_rng(0)
    X = rng.standard_normal(shape)
    factors = random_factors(shape, rank, rng)
    Y = multi_mode_dot(X, [rotation(U).T for U in factors])
    np.testing.assert_allclose(rotated_arms(factors, shape) @ Y.ravel(), X.ravel(), atol=1e-12)


@pytest.mark.parametrize(("shape", "rank"), CASES)
def test_q_counts_the_coordinates_inside(shape, rank):
    mask = inside_mask(shape, rank)
    ridge = SubspaceRidge(shape, random_factors(shape, rank, np.random.default_rng(0)), 0.1, 1.0)
    assert mask.sum() == theory.inside_coordinates(shape, rank) == ridge.inside


def orthonormal(kind, p, r, rng):
    """Rows of a factor are unlike, or alike, or zero: the last two make widths that are equal."""
    if kind == "random":
        return np.linalg.qr(rng.standard_normal((p, r)))[0]
    if kind == "axes":
        return np.eye(p)[:, rng.permutation(p)[:r]]
    return np.linalg.qr(np.hstack([np.ones((p, 1)), rng.standard_normal((p, r - 1))]))[0]


@st.composite
def ridges(draw):
    """Small spaces of any order, modes of size 1 among them, with each order of the two penalties."""
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=4).filter(lambda s: math.prod(s) <= 90)))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    kinds = [draw(st.sampled_from(["random", "axes", "alike"])) for _ in shape]
    factors = tuple(orthonormal(kind, p, draw(st.integers(1, min(3, p))), rng) for kind, p in zip(kinds, shape))
    lambda_1 = draw(st.sampled_from([0.001, 0.1, 2.0]))
    lambda_2 = lambda_1 * draw(st.sampled_from([0.01, 0.3, 1.0, 1.0 + 1e-9, 4.0, 300.0]))
    return SubspaceRidge(shape, draw(st.sampled_from([factors, factors, ()])), lambda_1, lambda_2)


def some_counts(data, K):
    counts = st.sampled_from([0, 0, 0, 1, 2, 17, 10**6])
    return np.array(data.draw(st.lists(counts, min_size=K, max_size=K)), dtype=np.float64)


def sizes_of_everything(data):
    """Make what is done at once, or kept as a product, as small as it may be."""
    return (
        patch.object(design_module, "_FEW", data.draw(st.sampled_from([1, 3, 64]))),
        patch.object(design_module, "_HELD", data.draw(st.sampled_from([1, 200, 2**18]))),
        patch.object(design_module, "_TILE", data.draw(st.sampled_from([1, 3, 256]))),
        patch.object(subspace_module, "_COLUMNS", data.draw(st.sampled_from([0, 8]))),
    )


@settings(deadline=None, max_examples=150)
@given(ridges(), st.data())
def test_widths_and_estimates_equal_the_dense_inverse(ridge, data):
    rng = np.random.default_rng(0)
    K = math.prod(ridge.shape)
    V = penalty(ridge.shape, ridge.factors, ridge.lambda_1, ridge.lambda_2)
    counts = np.zeros(K)
    few, held, tile, columns = sizes_of_everything(data)
    with few, held, tile, columns:
        design = Design(ridge)
        for _ in range(data.draw(st.integers(0, 4))):
            times = some_counts(data, K)
            taken_back = data.draw(st.sampled_from([0.0, 0.0, 0.5]))  # some of what was counted, of the other arms
            times = np.where((times == 0) & (rng.random(K) < taken_back), -np.minimum(counts, 2.0), times)
            design.count(np.flatnonzero(times), times[times != 0])
            counts += times
        W = inverse(V + np.diag(counts))
        np.testing.assert_array_equal(design.counts, counts)
        np.testing.assert_allclose(design.variance, W.diagonal(), rtol=1e-8)
        arms = np.sort(rng.permutation(K)[: K // 2 + 1])
        block = design.covariance(arms, design.rows(arms))
        scale = np.sqrt(np.outer(W.diagonal()[arms], W.diagonal()[arms]))
        np.testing.assert_allclose(block / scale, W[np.ix_(arms, arms)] / scale, atol=1e-8)
    sums = counts * rng.standard_normal(K)
    np.testing.assert_allclose(ridge.mean(counts, sums), W @ sums, rtol=1e-8, atol=1e-8)


@settings(deadline=None, max_examples=150)
@given(ridges(), st.data())
def test_pulls_in_blocks_equal_one_rank_one_change_per_pull(ridge, data):
    K = math.prod(ridge.shape)
    counts = some_counts(data, K)
    active = np.flatnonzero(data.draw(st.lists(st.booleans(), min_size=K, max_size=K)))
    active = active if len(active) else np.arange(K)
    dense = DenseRidge(penalty(ridge.shape, ridge.factors, ridge.lambda_1, ridge.lambda_2), counts)
    rounds = data.draw(st.integers(1, 60))
    few, held, tile, columns = sizes_of_everything(data)
    with few, held, tile, columns:
        design = Design.given(ridge, counts)
        planned, largest = data.draw(st.integers(1, 60)), data.draw(st.sampled_from([1, 2, 3, 7, 20, 128]))
        with patch.object(design_module, "_SMALLEST", 1):
            widest = WidestFirst(design, active, planned, largest)
            pulls = [widest.pull() for _ in range(rounds)]
        assert pulls == [dense.pull_widest(active) for _ in range(rounds)]
        widest.settle()
        widest.settle()
    np.testing.assert_array_equal(design.counts, counts + np.bincount(active[pulls], minlength=K))
    np.testing.assert_allclose(design.variance, dense.variance, rtol=1e-8)


@pytest.mark.parametrize("largest", [8, 32, 128])
@pytest.mark.parametrize("kind", ["random", "alike", "axes"])
def test_pulls_of_a_larger_space_equal_one_rank_one_change_per_pull(kind, largest):
    """More pulls than coordinates inside, so that G becomes a matrix."""
    rng = np.random.default_rng(0)
    shape, active = (7, 6, 8), np.sort(rng.permutation(336)[:300])
    factors = tuple(orthonormal(kind, p, 2, rng) for p in shape)
    ridge = SubspaceRidge(shape, factors, 0.1, 0.5)
    dense = DenseRidge(penalty(shape, factors, 0.1, 0.5))
    design = Design(ridge)
    widest = WidestFirst(design, active, 400, largest)
    assert [widest.pull() for _ in range(400)] == [dense.pull_widest(active) for _ in range(400)]
    assert design._G is not None
    widest.settle()
    np.testing.assert_allclose(design.variance, dense.variance, rtol=1e-9)


def test_blocks_serve_many_pulls_even_when_all_widths_are_equal():
    """Else each pull would cost as much as a block."""
    for factors in ((), tuple(np.full((p, 1), p**-0.5) for p in (8, 9, 7))):
        widest = WidestFirst(Design(SubspaceRidge((8, 9, 7), factors, 0.1, 0.4)), np.arange(504), 200, 64)
        with patch.object(WidestFirst, "_make_block", autospec=True, side_effect=WidestFirst._make_block) as made:
            for _ in range(200):
                widest.pull()
        assert made.call_count < 80


def test_a_block_holds_the_widest_arms_and_the_one_that_comes_first():
    widths = np.array([1.0, 3.0, 2.0, 5.0, 2.0, 2.0])
    assert _widest(widths, 3, include=3).tolist() == [1, 2, 3]
    assert _widest(widths, 4, include=3).tolist() == [1, 2, 3, 4]
    assert _widest(widths, 9, include=3).tolist() == [0, 1, 2, 3, 4, 5]
    nearly = 1.0 + 1e-10 * np.array([0.0, 4.0, 8.0])  # near enough to fill a block in order, too far to be a tie
    assert _widest(nearly, 1, include=first_largest(nearly)).tolist() == [0, 2]


@pytest.mark.parametrize("ratio", [1e-6, 1e6, 1e9])
def test_far_apart_penalties_work(ratio):
    rng = np.random.default_rng(0)
    factors = random_factors((5, 4, 6), (2, 1, 2), rng)
    ridge = SubspaceRidge((5, 4, 6), factors, 0.1, 0.1 * ratio)
    counts = rng.integers(0, 4, 120).astype(float)
    W = inverse(penalty((5, 4, 6), factors, 0.1, 0.1 * ratio) + np.diag(counts))
    sums = counts * rng.standard_normal(120)
    np.testing.assert_allclose(Design.given(ridge, counts).variance, W.diagonal(), rtol=1e-5)
    np.testing.assert_allclose(ridge.mean(counts, sums), W @ sums, rtol=1e-5, atol=1e-5)


def play(policy, X, rounds, seed=0, noise=1.0, lost=0.0, latest=0, compare=False):
    """Play with rewards lost or late; return the cells, and compare each with the dense oracle if asked to."""
    rng = np.random.default_rng(seed)
    waiting, history, cells, oracle = [], [], [], None
    for t in range(rounds):
        cell = policy.ask()
        cells.append(cell)
        if compare and policy._ridge is not None and t < policy.horizon:
            oracle = oracle or DenseElimination(policy, history, t)
            agree(policy, oracle, cell, t)
        reward = float(X[cell]) + noise * float(rng.standard_normal())
        delay = int(rng.integers(latest + 1))
        if rng.random() >= lost:
            waiting.append((t + delay, cell, reward))
        due = [item for item in waiting if item[0] <= t]
        waiting = [item for item in waiting if item[0] > t]
        for _, told, value in due:
            policy.tell(told, value)
            history.append((int(np.ravel_multi_index(told, X.shape)), value))
            if oracle:
                oracle.tell(*history[-1])
    return cells


def agree(policy, oracle, cell, t):
    assert oracle.ask() == np.ravel_multi_index(cell, policy.shape), f"round {t}"
    assert inside(policy)["active"].tolist() == oracle.active.tolist()
    if len(oracle.active) > 1:
        widths = oracle.widths(oracle.V)[oracle.active]
        widest = policy._widest
        np.testing.assert_allclose(np.sqrt(widest._W.diagonal()), widths[widest._block], atol=1e-9)
        kept = policy._design.variance[inside(policy)["active"]]  # as the block was made
        assert (np.sqrt(kept) >= widths - 1e-9).all()
    if t % 20 == 0:
        cells = np.stack(np.unravel_index(np.arange(math.prod(policy.shape)), policy.shape), axis=1)
        np.testing.assert_allclose(policy.estimate(cells), oracle.solve(oracle.history)[0], atol=1e-9)


@pytest.mark.parametrize("reuse_data", [True, False])
@pytest.mark.parametrize(("lost", "latest"), [(0.0, 0), (0.2, 9)])
@pytest.mark.parametrize(
    ("shape", "rank"), [((4, 3, 5), (2, 1, 2)), ((5, 6), 2), ((7,), 1), ((3, 1, 4, 1), 1), ((1, 5, 1), 1)]
)
def test_pulls_equal_the_dense_algorithm(shape, rank, reuse_data, lost, latest):
    X = 4.0 * low_rank(shape, tuple(min(2, p) for p in shape), np.random.default_rng(3))
    left = []
    for seed in range(2):
        policy = TensorElimination(
            shape, rank, horizon=160, exploration=12, reuse_data=reuse_data, noise=1.0, seed=seed
        )
        play(policy, X, 170, lost=lost, latest=latest, compare=True)
        left.append(len(inside(policy)["active"]))
    assert min(left) < math.prod(shape)  # else elimination itself was not compared


def test_default_and_paper_lengths_of_phases():
    X = np.zeros((4, 4))
    ours = TensorElimination((4, 4), 1, horizon=400, exploration=100, seed=0)
    play(ours, X, 105)
    assert (inside(ours)["phase"], ours._length()) == (1, 11)
    paper = TensorElimination.paper((4, 4), 1, horizon=400, exploration=100, confidence=9.0, seed=0)
    play(paper, X, 104 + 1 + 2 + 4 + 3)
    assert (inside(paper)["phase"], paper._length(), len(inside(paper)["pulls"])) == (4, 8, 3)


@pytest.mark.parametrize("confidence", [1.5, "theory"])
@pytest.mark.parametrize("factor", [2.0**30, 2.0**-30])
@pytest.mark.parametrize("arguments", [{}, {"reuse_data": False}, {"rank": "auto"}])
def test_scale_of_rewards_changes_nothing(confidence, factor, arguments):
    X = low_rank((5, 4, 4), (2, 2, 2), np.random.default_rng(0))
    make = {"rank": 2, "horizon": 300, "confidence": confidence, "seed": 3} | arguments
    plain, scaled = TensorElimination((5, 4, 4), **make), TensorElimination((5, 4, 4), **make)
    assert play(plain, X, 310) == play(scaled, factor * X, 310, noise=factor)
    cells = np.argwhere(np.ones((5, 4, 4)))
    np.testing.assert_array_equal(factor * plain.estimate(cells), scaled.estimate(cells))


@pytest.mark.parametrize("rounds", [10, 40, 75, 130, 290])
@pytest.mark.parametrize("reuse_data", [True, False])
def test_a_restored_policy_goes_on_identically(rounds, reuse_data):
    X = low_rank((5, 4, 3), (2, 2, 2), np.random.default_rng(0))
    policy = TensorElimination((5, 4, 3), 2, horizon=280, reuse_data=reuse_data, confidence=0.8, seed=5)
    play(policy, X, rounds, lost=0.1)
    twin = Policy.from_state_dict(copy.deepcopy(policy.state_dict()))
    assert twin.best() == policy.best()
    assert play(policy, X, 150, seed=1) == play(twin, X, 150, seed=1)
    np.testing.assert_array_equal(policy.estimate([[0, 0, 0], [4, 3, 2]]), twin.estimate([[0, 0, 0], [4, 3, 2]]))


@pytest.mark.parametrize("reuse_data", [True, False])
def test_a_policy_restored_at_any_pull_of_a_phase_goes_on_identically(reuse_data):
    X = low_rank((5, 4, 3), (2, 2, 2), np.random.default_rng(0))
    make = {"horizon": 200, "exploration": 20, "reuse_data": reuse_data, "confidence": 50.0, "noise": 1.0, "seed": 5}
    for rounds in range(40, 75, 3):
        policy = TensorElimination((5, 4, 3), 2, **make)
        play(policy, X, rounds, lost=0.1)
        twin = Policy.from_state_dict(policy.state_dict())
        assert play(policy, X, 40, seed=1) == play(twin, X, 40, seed=1)
        assert len(inside(policy)["active"]) > 1


def test_a_design_goes_on_into_the_next_phase():
    """Else each phase would start with the cost of all rewards before it, even if a few rewards are late."""
    X = low_rank((5, 4, 3), (2, 2, 2), np.random.default_rng(0))
    for lost, latest in ((0.0, 0), (0.2, 0), (0.0, 5)):
        policy = TensorElimination((5, 4, 3), 2, horizon=300, exploration=20, confidence=50.0, noise=1.0, seed=5)
        with patch.object(Design, "given", side_effect=Design.given) as given_counts:
            play(policy, X, 200, lost=lost, latest=latest)
        assert inside(policy)["phase"] > 10
        assert given_counts.call_count == 1


@pytest.mark.parametrize("rounds", [0, 10, 120])
def test_looking_changes_nothing(rounds):
    X = low_rank((5, 4), (2, 2), np.random.default_rng(0))
    one, other = (TensorElimination((5, 4), 2, horizon=200, seed=0) for _ in range(2))
    play(one, X, rounds)
    play(other, X, rounds)
    for _ in range(3):
        one.best(), one.estimate([[0, 0], [4, 3]])
    assert play(one, X, 80, seed=1) == play(other, X, 80, seed=1)


def test_finds_the_best_arm_and_stays_with_it():
    X = 5.0 * np.einsum("i,j,k", [0.2, 1.0, -0.5, 0.1, 0.0], [1.0, 0.3, -1.0, 0.5], [-0.3, 0.2, 1.0, 0.6])
    policy = TensorElimination((5, 4, 4), 1, horizon=600, seed=0)
    cells = play(policy, X, 650)
    assert set(cells[-100:]) == {(1, 0, 2)} == {policy.best()}
    assert inside(policy)["active"].tolist() == [np.ravel_multi_index((1, 0, 2), (5, 4, 4))]


@pytest.mark.parametrize("value", [0.0, 1.0, -3.0, 1e9, 1e-9])
@pytest.mark.parametrize("shape", [(4, 3, 2), (5,), (1, 1), (2, 2, 2, 2, 2, 2)])
def test_constant_rewards_work(value, shape):
    policy = TensorElimination(shape, 2, horizon=150, seed=0)
    play(policy, np.full(shape, value), 160, noise=0.0)
    assert np.isfinite(policy.estimate([policy.best()])).all()


def test_no_reward_at_all_works():
    policy = TensorElimination((4, 5), 2, horizon=100, seed=0)
    cells = [policy.ask() for _ in range(120)]
    assert len(cells) == 120
    assert inside(policy)["phase"] > 0
    assert policy.best() == (0, 0)
    assert not policy.estimate([[1, 1]]).any()


def test_a_reward_nobody_asked_for_counts_but_not_in_the_completion():
    policy = TensorElimination((4, 5), 1, horizon=100, seed=0)
    policy.tell((0, 0), 5.0)
    assert (policy.ledger.rounds, policy._explored.rounds) == (1, 0)
    cell = policy.ask()
    policy.tell(cell, 1.0)
    policy.tell(cell, 1.0)
    assert (policy.ledger.rounds, policy._explored.rounds) == (3, 1)


def test_a_late_reward_joins_the_open_phase():
    policy = TensorElimination((4, 5), 1, horizon=100, exploration=5, reuse_data=False, noise=1.0, seed=0)
    first = policy.ask()
    while policy._ridge is None:
        cell = policy.ask()
    policy.tell(first, 2.0)
    assert policy._explored.rounds == 0
    assert inside(policy)["told"][:, np.ravel_multi_index(first, (4, 5))].tolist() == [1.0, 2.0]
    policy.tell(cell, 1.0)
    assert inside(policy)["told"][0].sum() == 2


def test_weights_steer_the_exploration():
    weights = [[8, 1, 1], [1, 1, 1, 7]]
    policy = TensorElimination((3, 4), 1, horizon=1000, initial=300, exploration=0, weights=weights, seed=0)
    cells = play(policy, np.ones((3, 4)), 300)
    assert 0.7 < np.mean([cell[0] == 0 for cell in cells]) < 0.9
    assert 0.6 < np.mean([cell[1] == 3 for cell in cells]) < 0.8
    estimates = policy.estimate(np.argwhere(np.ones((3, 4))))
    assert np.abs(estimates.mean() - 1.0) < 0.3


def test_weighted_exploration_is_weighted_back():
    """A cell of probability 0.06 is drawn about 240 times, so that its weight is off by 6 % (one deviation)."""
    mean, weights = np.outer([1.0, 2.0], [1.0, -1.0, 3.0]), [[0.7, 0.3], [0.5, 0.3, 0.2]]
    policy = TensorElimination((2, 3), 1, horizon=9000, initial=4000, exploration=0, weights=weights, seed=0)
    play(policy, mean, 4000, noise=0.0)
    np.testing.assert_allclose(policy.estimate(list(np.ndindex(2, 3))), mean.ravel(), rtol=0.2)


@pytest.mark.parametrize(
    ("shape", "rank", "q"),
    [((4, 3, 5), (2, 1, 2), 60 - 2 * 2 * 3), ((4, 1, 5), 1, 20 - 3 * 4), ((5, 6), 2, 30 - 3 * 4)],
)
def test_the_penalty_outside_is_the_papers(shape, rank, q):
    n, lambda_1 = 300, 0.4
    policy = TensorElimination(shape, rank, horizon=n, lambda_1=lambda_1, exploration=20, seed=0)
    play(policy, np.ones(shape), 60)
    assert policy._ridge.lambda_1 == lambda_1
    assert policy._ridge.lambda_2 == pytest.approx(n / (q * math.log(1 + n / lambda_1)), rel=1e-12)
    given = TensorElimination(shape, rank, horizon=n, lambda_2=0.7, exploration=20, seed=0)
    play(given, np.ones(shape), 60)
    assert given._ridge.lambda_2 == 0.7


@pytest.mark.parametrize(("delta", "used"), [(None, 1 / 300), (0.05, 0.05)])
def test_the_theorys_radius_is_lemma_1(delta, used):
    """The noise times ``2 sqrt(14 log(2/delta))``, and ``sqrt(lambda_1)`` times the norm of the completed tensor."""
    X = 2.0 * low_rank((4, 3, 5), (1, 1, 1), np.random.default_rng(0))
    policy = TensorElimination(
        (4, 3, 5), 1, horizon=300, exploration=80, confidence="theory", lambda_1=0.4, noise=0.7, delta=delta, seed=0
    )
    play(policy, X, 120, noise=0.7)
    norm = np.linalg.norm(complete(policy._explored, 1).full())
    assert norm > 1.0
    by_hand = 0.7 * 2 * math.sqrt(14 * math.log(2 / used)) + math.sqrt(0.4) * norm
    assert policy._radius(policy._ridge) == pytest.approx(by_hand, rel=1e-9)


def test_exploration_goes_on_until_the_rewards_say_it_is_enough():
    X = 0.3 * low_rank((8, 8, 8), (2, 2, 2), np.random.default_rng(0))
    policy = TensorElimination((8, 8, 8), 2, horizon=4000, seed=0)
    s_1 = theory.initial_rounds((8, 8, 8), 2)
    assert inside(policy)["target"] == s_1
    while policy._ridge is None:
        play(policy, X, 1, seed=inside(policy)["issued"])
    assert s_1 < inside(policy)["issued"] <= theory.inside_coordinates((8, 8, 8), 2) + 1
    known = TensorElimination((8, 8, 8), 2, horizon=4000, sigma=(9.0, 9.0, 9.0))
    assert inside(known)["target"] == s_1 + theory.exploration_rounds((8, 8, 8), 2, 4000, (9.0, 9.0, 9.0))


def test_noise_is_estimated_within_cells():
    rng = np.random.default_rng(0)
    ledger = Ledger((10,))
    ledger.add(np.repeat(np.arange(10), 20)[:, None], np.repeat(100.0 * np.arange(10), 20) + rng.standard_normal(200))
    assert 0.8 < noise_level(ledger) ** 2 - 2 * ledger.variance / 192 < 1.3
    assert noise_level(Ledger((3,))) == 0.0


def test_paper_values():
    policy = TensorElimination.paper((5, 5), 2, horizon=500, c_0=0.3)
    assert not policy.reuse_data
    assert (policy.noise, policy.lambda_1, policy.C_0, policy.c_0) == (1.0, 0.1, 1.0, 0.3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"horizon": 0}, "horizon is 0"),
        ({"horizon": 2.5}, "whole number"),
        ({"context": (0,)}, "takes no context"),
        ({"rank": 0}, "rank is 0"),
        ({"rank": (2, 2, 5)}, "mode 2 is 5"),
        ({"rank": (3, 1, 1)}, "no tensor has rank"),
        ({"rank": "many"}, "auto"),
        ({"confidence": "practice"}, "theory"),
        ({"confidence": -1.0}, "confidence is -1"),
        ({"growth": "slow"}, "doubling"),
        ({"growth": 0.0}, "growth is 0"),
        ({"lambda_1": 0}, "lambda_1 is 0"),
        ({"lambda_2": math.inf}, "lambda_2 is inf"),
        ({"C_0": -1}, "C_0 is -1"),
        ({"c_0": math.nan}, "c_0 is nan"),
        ({"initial": -1}, "initial is -1"),
        ({"exploration": 1.5}, "exploration is 1.5"),
        ({"sigma": (1.0,)}, "one number above 0 per mode"),
        ({"sigma": (1.0, 0.0, 1.0)}, "sigma of mode 1"),
        ({"noise": 0.0}, "noise is 0"),
        ({"delta": 1.5}, "probability"),
        ({"weights": [[1, 1]]}, "1 weight vectors given for 3 modes"),
        ({"shape": (4, 0, 3)}, "mode 1 has size 0"),
        ({"shape": (101, 100, 100)}, r"1010000 cells.*at most 1000000.*TensorThompsonSampling"),
        ({"shape": (60, 60, 60)}, r"coordinates inside subspaces of rank .*at most 15000.*lower the rank"),
        ({"horizon": 8}, r"s_1 = 11 .*at least 12"),
        ({"horizon": 60, "exploration": 50}, r"n_1 = 50 .*at least 62"),
        ({"horizon": 20, "sigma": (0.5, 0.5, 0.5)}, r"horizon is 20.*at least \d+"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        TensorElimination(**({"shape": (4, 5, 3), "rank": 2, "horizon": 500} | arguments))


def test_the_horizon_asked_for_is_the_shortest_that_is_accepted():
    make = {"shape": (4, 5, 3), "rank": 2, "sigma": (0.5, 0.5, 0.5)}
    with pytest.raises(ValueError, match="at least") as error:
        TensorElimination(horizon=20, **make)
    needed = int(str(error.value).split("at least ")[1].split(",")[0])
    TensorElimination(horizon=needed, **make)
    with pytest.raises(ValueError, match=f"at least {needed}"):
        TensorElimination(horizon=needed - 1, **make)


@pytest.mark.parametrize("reward", [math.nan, math.inf, "1", None])
def test_bad_rewards_leave_the_policy_as_it_was(reward):
    policy = TensorElimination((4, 5), 1, horizon=100, seed=0)
    cell = policy.ask()
    with pytest.raises((ValueError, TypeError)):
        policy.tell(cell, reward)
    with pytest.raises(ValueError, match="levels"):
        policy.tell((0,), 1.0)
    with pytest.raises(ValueError, match="without context"):
        policy.ask((1,))
    assert (policy.ledger.rounds, policy._explored.rounds, inside(policy)["pending"].sum()) == (0, 0, 1)


@pytest.mark.parametrize("lambda_1", [1e-6, 1e-9])
def test_lost_rewards_do_not_spoil_a_design_with_a_small_penalty(lambda_1):
    """Pulls that were never told are not taken back from a design when that would lose digits."""
    policy = TensorElimination((6, 5, 6), 2, horizon=700, exploration=60, lambda_1=lambda_1, seed=0)
    rng = np.random.default_rng(1)
    mean = rng.standard_normal((6, 5, 6))
    for _ in range(400):
        cell = policy.ask()
        if rng.random() < 0.5:
            policy.tell(cell, float(mean[cell] + rng.standard_normal()))
    fresh = Design.given(policy._ridge, policy._design.counts)
    np.testing.assert_allclose(policy._design.variance, fresh.variance, rtol=1e-5)


def test_a_mode_whose_rank_is_its_size_leaves_nothing_outside_and_costs_nothing():
    """At (5000, 2) and rank 2 every coordinate is inside: no matrix over 10,000 of them is made."""
    policy = TensorElimination((5000, 2), 2, horizon=30_000, initial=50, exploration=50, seed=0)
    for _ in range(300):
        cell = policy.ask()
        policy.tell(cell, float(cell[1]))
    assert policy._ridge.factors == ()
    assert policy.best()[1] == 1


def test_a_matrix_that_takes_long_is_announced():
    with pytest.warns(UserWarning, match="will take about 35 s"):
        TensorElimination((5000, 3), 2, horizon=30_000, seed=0)

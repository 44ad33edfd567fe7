"""Matricized ESTR against LowOFUL with an explicit V over all rotated coordinates."""

import copy
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorbandits.ledger import Ledger
from tensorbandits.model.recovery import matrix_rank, recover
from tensorbandits.policies.base import Policy
from tensorbandits.policies.estr import MatricizedESTR
from tensorbandits.policies.low_oful import LowOFUL
from tensorbandits.tensor.tucker import rotation
from tests.plain.dense import DenseRidge, inverse, penalty


def inside(policy):
    """What a policy holds beyond its ledger, as it is saved."""
    return policy.state_dict()["state"]


class DenseLowOFUL:
    """LowOFUL as the paper states it: rotated arms, V = diag(lambda) + sum a a^T, solved anew each time."""

    def __init__(self, U, W, lambda_1, lambda_perp):
        self.arms = np.kron(rotation(U), rotation(W))
        row, column = np.indices((len(U), len(W))).reshape(2, -1)
        inside = (row < U.shape[1]) | (column < W.shape[1])
        self.V_0 = np.diag(np.where(inside, lambda_1, lambda_perp))
        self.inside = int(inside.sum())
        self.counts, self.sums = np.zeros(len(self.arms)), np.zeros(len(self.arms))

    def tell(self, arm, reward):
        self.counts[arm] += 1
        self.sums[arm] += reward

    def solve(self):
        V = self.V_0 + self.arms.T @ (self.arms * self.counts[:, None])
        theta = self.arms @ np.linalg.solve(V, self.arms.T @ self.sums)
        widths = np.sqrt(np.einsum("ij,ji->i", self.arms, np.linalg.solve(V, self.arms.T)))
        return theta, widths, np.linalg.slogdet(V)[1] - np.linalg.slogdet(self.V_0)[1]


def unfold_arm(cell, shape, mode):
    order = [mode, *(j for j in range(len(shape)) if j != mode)]
    return int(np.ravel_multi_index([cell[j] for j in order], [shape[j] for j in order]))


def play(policy, X, rounds, seed=0, noise=1.0, lost=0.0, latest=0, after_ask=lambda cell, t: None, heard=None):
    rng = np.random.default_rng(seed)
    waiting, cells = [], []
    for t in range(rounds):
        cell = policy.ask()
        cells.append(cell)
        after_ask(cell, t)
        reward = float(X[cell]) + noise * float(rng.standard_normal())
        if rng.random() >= lost:
            waiting.append((t + int(rng.integers(latest + 1)), cell, reward))
        for _, told, value in [item for item in waiting if item[0] <= t]:
            policy.tell(told, value)
            if heard is not None:
                heard.append((unfold_arm(told, X.shape, policy.mode), value))
        waiting = [item for item in waiting if item[0] > t]
    return cells


@pytest.mark.parametrize(("lost", "latest"), [(0.0, 0), (0.2, 9)])
@pytest.mark.parametrize("multiplier", [1.0, 0.01])
@pytest.mark.parametrize(
    ("shape", "rank", "mode", "lambda_1"),
    [
        ((4, 3, 5), 1, 0, 0.1),
        ((4, 3, 5), 2, 1, 2.0),
        ((4, 3, 5), (2, 2, 2), 2, 0.1),
        ((5, 7), 2, 0, 0.1),
        ((8,), 1, 0, 0.1),
        ((3, 1, 4), 2, 1, 0.1),
    ],
)
def test_pulls_equal_dense_lowoful(shape, rank, mode, lambda_1, multiplier, lost, latest):
    X = np.random.default_rng(0).standard_normal(shape)
    arguments = {"mode": mode, "lambda_1": lambda_1, "multiplier": multiplier, "noise": 0.7, "norm": 3.0}
    policy = MatricizedESTR(shape, rank, horizon=120, seed=2, **arguments)
    heard, oracles = [], []

    def compare(cell, t):
        if policy._stage_2 is None or t >= policy.horizon:
            return
        fast = policy._stage_2
        if not oracles:
            k = theory_inside(policy)
            remaining = policy.horizon - t
            perp = remaining / (k * math.log(1 + remaining / lambda_1))
            r = fast.W.shape[1]
            oracles.append(DenseLowOFUL(fast.left[:, :r], fast.W, lambda_1, perp))
            assert oracles[0].inside == k == len(fast.G)
        oracle = oracles[0]
        oracle.counts[:], oracle.sums[:] = 0, 0
        for arm, value in heard:
            oracle.tell(arm, value)
        theta, widths, logdet = oracle.solve()
        np.testing.assert_allclose(fast.theta.ravel(), theta, atol=1e-8)
        np.testing.assert_allclose(np.sqrt(fast.variance.ravel()), widths, atol=1e-8)
        assert fast.logdet == pytest.approx(logdet, abs=1e-8)
        root_beta = 0.7 * math.sqrt(logdet + math.log(1 / 0.2**2)) + math.sqrt(lambda_1) * 3.0
        bounds = theta + math.sqrt(multiplier) * root_beta * widths
        expected = int((bounds >= bounds.max() - 1e-10 * np.abs(bounds).max()).argmax())
        assert unfold_arm(cell, shape, mode) == expected

    play(policy, X, 125, lost=lost, latest=latest, after_ask=compare, heard=heard)
    assert oracles


def theory_inside(policy):
    p = policy.shape[policy.mode]
    P = math.prod(policy.shape) // p
    r = policy._stage_2.W.shape[1]
    return (p + P) * r - r * r


@st.composite
def updates(draw):
    """A matrix, its subspaces, penalties in each order, and rewards of entries, the same ones again and again."""
    p, P = draw(st.integers(1, 6)), draw(st.integers(1, 9))
    r = draw(st.integers(1, min(3, p, P)))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    axes = draw(st.booleans())
    U, W = (np.eye(n)[:, :r] if axes else np.linalg.qr(rng.standard_normal((n, r)))[0] for n in (p, P))
    lambda_1 = draw(st.sampled_from([0.01, 0.1, 2.0]))
    perp = lambda_1 * draw(st.sampled_from([0.1, 1.0, 4.0, 100.0]))
    counts = draw(st.sampled_from([(1.0, 3.0), (1.0, 17.0, 1e6)]))
    rewards = st.tuples(st.integers(0, p * P - 1), st.sampled_from(counts), st.floats(-5, 5))
    return U, W, lambda_1, perp, draw(st.lists(rewards, min_size=1, max_size=40))


@settings(deadline=None, max_examples=150)
@given(updates())
def test_lowoful_equals_a_dense_inverse_with_rank_one_changes(problem):
    U, W, lambda_1, perp, rewards = problem
    P = len(W)
    fast = LowOFUL(rotation(U), W, lambda_1, perp)
    V = penalty((len(U), P), (U, W), lambda_1, perp)
    changed, counts = DenseRidge(V), np.zeros(len(V))
    for arm, count, mean in rewards:
        fast.update(*divmod(arm, P), count, mean)
        changed.tell(arm, mean, count)
        counts[arm] += count
    anew = inverse(V + np.diag(counts))
    np.testing.assert_allclose(fast.theta.ravel(), anew @ changed.sums, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(fast.variance.ravel(), anew.diagonal(), rtol=1e-8, atol=1e-11)
    if counts.max() < 1000:  # a million rewards at once blur a rank-one change of the dense inverse
        np.testing.assert_allclose(fast.theta.ravel(), changed.mean, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(fast.variance.ravel(), changed.variance, rtol=1e-8, atol=1e-11)
    assert fast.logdet == pytest.approx(changed.logdet, rel=1e-8)


@pytest.mark.parametrize("perp", [0.02, 0.1, 5.0])
def test_many_updates_do_not_drift(perp):
    rng = np.random.default_rng(0)
    U, W = np.linalg.qr(rng.standard_normal((4, 2)))[0], np.linalg.qr(rng.standard_normal((9, 2)))[0]
    fast, dense = LowOFUL(rotation(U), W, 0.1, perp), DenseLowOFUL(U, W, 0.1, perp)
    for arm in rng.integers(36, size=20_000) ** 2 // 36:
        value = float(rng.standard_normal())
        fast.update(*divmod(int(arm), 9), 1.0, value)
        dense.tell(arm, value)
    theta, widths, logdet = dense.solve()
    np.testing.assert_allclose(fast.theta.ravel(), theta, atol=1e-9)
    np.testing.assert_allclose(np.sqrt(fast.variance.ravel()), widths, rtol=1e-7)
    assert fast.logdet == pytest.approx(logdet, rel=1e-10)


def test_several_rewards_at_once_equal_one_by_one():
    rng = np.random.default_rng(0)
    U, W = np.linalg.qr(rng.standard_normal((4, 1)))[0], np.linalg.qr(rng.standard_normal((5, 1)))[0]
    one, many = LowOFUL(rotation(U), W, 0.1, 0.8), LowOFUL(rotation(U), W, 0.1, 0.8)
    for value in (1.0, 2.0, 6.0):
        one.update(2, 3, 1.0, value)
    many.update(2, 3, 3.0, 3.0)
    np.testing.assert_allclose(one.theta, many.theta, atol=1e-12)
    np.testing.assert_allclose(one.variance, many.variance, atol=1e-12)
    assert one.logdet == pytest.approx(many.logdet)


@pytest.mark.parametrize(("shape", "mode"), [((4, 3, 2), 0), ((4, 6), 1), ((5, 7), 0), ((1, 4), 0), ((6,), 0)])
def test_stage_1_spreads_its_pulls_evenly(shape, mode):
    policy = MatricizedESTR(shape, 1, horizon=1000, mode=mode, seed=0)
    p, P = policy._sizes
    entries = np.array([policy._spread(t) for t in range(2 * p * P)])
    for once in (entries[: p * P], entries[p * P :]):
        assert len({tuple(entry) for entry in once.tolist()}) == p * P
    for t in range(1, p * P):
        for axis, size in enumerate((p, P)):
            counts = np.bincount(entries[:t, axis], minlength=size)
            assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize("method", ["alternating", "spectral"])
def test_recovery_finds_the_subspaces(method):
    rng = np.random.default_rng(0)
    U, W = np.linalg.qr(rng.standard_normal((8, 2)))[0], np.linalg.qr(rng.standard_normal((30, 2)))[0]
    truth = U @ np.diag([40.0, 25.0]) @ W.T
    cells = rng.integers((8, 30), size=(4000, 2))
    ledger = Ledger((8, 30))
    ledger.add(cells, truth[tuple(cells.T)] + 0.1 * rng.standard_normal(4000))
    fit = recover(ledger, 2, method=method)
    for mine, true in zip(fit.factors, (U, W), strict=True):
        np.testing.assert_allclose(mine.T @ mine, np.eye(2), atol=1e-10)
        assert np.linalg.norm(true - mine @ (mine.T @ true), 2) < 0.35
    error = np.linalg.norm(fit.full() - truth) / np.linalg.norm(truth)
    assert error < {"alternating": 0.06, "spectral": 0.5}[method]
    assert np.isfinite(recover(Ledger((3, 4)), 2, method=method).full()).all()


@pytest.mark.parametrize("factor", [2.0**30, 2.0**-30])
@pytest.mark.parametrize("arguments", [{"rank": 1}, {"rank": 2, "mode": 1}, {"rank": "auto"}])
def test_scale_of_rewards_changes_nothing(factor, arguments):
    X = np.random.default_rng(0).standard_normal((5, 4, 4))
    make = {"horizon": 200, "multiplier": 0.1, "seed": 3} | arguments
    plain, scaled = MatricizedESTR((5, 4, 4), **make), MatricizedESTR((5, 4, 4), **make)
    assert play(plain, X, 210) == play(scaled, factor * X, 210, noise=factor)


@pytest.mark.parametrize("rounds", [0, 9, 60, 190])
def test_a_restored_policy_goes_on_identically(rounds):
    X = np.random.default_rng(0).standard_normal((5, 4, 3))
    policy = MatricizedESTR((5, 4, 3), 2, horizon=180, mode=1, multiplier=0.1, seed=5)
    play(policy, X, rounds, lost=0.1)
    state = copy.deepcopy(policy.state_dict())
    if "G" in state["state"]:
        np.testing.assert_array_equal(state["state"]["G"], state["state"]["G"].T)  # whatever half is kept up to date
    twin = Policy.from_state_dict(state)
    assert twin.best() == policy.best()
    assert play(policy, X, 100, seed=1) == play(twin, X, 100, seed=1)
    cells = np.argwhere(np.ones((5, 4, 3)))
    np.testing.assert_array_equal(policy.estimate(cells), twin.estimate(cells))


@pytest.mark.parametrize("rounds", [0, 10, 80])
def test_looking_changes_nothing(rounds):
    X = np.random.default_rng(0).standard_normal((5, 6))
    one, other = (MatricizedESTR((5, 6), 2, horizon=200, multiplier=0.1, seed=0) for _ in range(2))
    play(one, X, rounds)
    play(other, X, rounds)
    for _ in range(3):
        one.best(), one.estimate([[0, 0], [4, 3]])
    assert play(one, X, 50, seed=1) == play(other, X, 50, seed=1)


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_it_mostly_finds_the_best_arm(mode):
    """Its radius does not cover a poor recovery of stage 1, so a run may lock onto another arm."""
    X = 5.0 * np.einsum("i,j,k", [0.2, 1.0, -0.5, 0.1, 0.0], [1.0, 0.3, -1.0, 0.5], [-0.3, 0.2, 1.0, 0.6])
    found = 0
    for seed in range(8):
        policy = MatricizedESTR((5, 4, 4), 1, horizon=600, mode=mode, multiplier=0.1, c_0=0.9, seed=seed)
        play(policy, X, 600)
        found += policy.best() == (1, 0, 2) == policy.ask()
    assert found >= 4


@pytest.mark.parametrize("value", [0.0, 1.0, -3.0, 1e9, 1e-9])
@pytest.mark.parametrize("shape", [(4, 3, 2), (5,), (1, 1), (2, 2, 2, 2, 2, 2)])
def test_constant_rewards_work(value, shape):
    policy = MatricizedESTR(shape, 2, horizon=150, seed=0)
    play(policy, np.full(shape, value), 160, noise=0.0)
    assert np.isfinite(policy.estimate([policy.best()])).all()


def test_no_reward_at_all_works():
    policy = MatricizedESTR((4, 5), 2, horizon=50, seed=0)
    assert len([policy.ask() for _ in range(60)]) == 60
    assert policy.best() == (0, 0)
    assert not policy.estimate([[1, 1]]).any()


@pytest.mark.parametrize(
    ("shape", "rank", "mode", "expected"),
    [
        ((4, 3, 5), 9, 0, 4),
        ((20, 3), 9, 0, 3),
        ((4, 3, 5), (1, 2, 2), 2, 2),
        ((6,), 3, 0, 1),
        ((4, 5), "auto", 0, None),
    ],
)
def test_rank_is_that_of_the_unfolding(shape, rank, mode, expected):
    assert MatricizedESTR(shape, rank, horizon=1000, mode=mode)._rank == expected


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_rank_is_found_in_noise(rank):
    rng = np.random.default_rng(rank)
    X = 3.0 * rng.standard_normal((12, rank)) @ rng.standard_normal((rank, 40))
    ledger = Ledger((12, 40))
    cells = np.argwhere(rng.random((12, 40)) < 0.9)
    ledger.add(cells, X[tuple(cells.T)] + rng.standard_normal(len(cells)))
    assert matrix_rank(ledger) == rank
    assert matrix_rank(Ledger((3, 4))) == 1


def test_rank_auto_explores_for_the_rank_it_finds():
    rng = np.random.default_rng(0)
    X = 10.0 * rng.standard_normal((6, 3)) @ rng.standard_normal((3, 30))
    policy = MatricizedESTR((6, 30), "auto", horizon=2000, c_0=5.0, seed=0)
    assert inside(policy)["target"] == 5 * (36 - 1)
    play(policy, X, 900)
    rank = policy._stage_2.W.shape[1]
    assert 1 < rank <= 3
    assert inside(policy)["target"] == 5 * (36 * rank - rank**2)


@pytest.mark.parametrize("norm", [None, 3.0])
def test_the_radius_has_the_norm_of_the_recovered_matrix_unless_it_is_given(norm):
    """``sqrt(m) (R sqrt(logdet V - logdet V_0 + log(1/delta^2)) + sqrt(lambda) ||Theta||_F)``, with V written out."""
    X = 2.0 * np.outer(np.arange(1.0, 6.0), [1.0, -1.0, 2.0, 0.5])
    policy = MatricizedESTR(
        (5, 4), 1, horizon=100, multiplier=0.3, c_0=1.0, lambda_1=0.4, delta=0.1, noise=0.7, norm=norm, seed=0
    )
    play(policy, X, inside(policy)["target"])
    recovered = recover(policy.ledger, 1)
    play(policy, X, 15)
    expected = np.linalg.norm(recovered.full()) if norm is None else norm
    assert expected > 1.0
    assert inside(policy)["norm"] == pytest.approx(expected, rel=1e-9)
    k, left_over = (5 + 4) * 1 - 1, 100 - inside(policy)["target"]
    dense = DenseLowOFUL(*recovered.factors, 0.4, left_over / (k * math.log(1 + left_over / 0.4)))
    dense.counts += policy.ledger.dense()[0].ravel()
    spread = 0.7 * math.sqrt(dense.solve()[2] + math.log(1 / 0.1**2))
    assert policy._radius() == pytest.approx(math.sqrt(0.3) * (spread + math.sqrt(0.4) * expected), rel=1e-9)


def test_paper_values():
    policy = MatricizedESTR.paper((5, 5), 2, horizon=500, c_0=0.3)
    assert (policy.multiplier, policy.noise, policy.lambda_1, policy.delta, policy.c_0) == (1.0, 1.0, 0.1, 0.2, 0.3)
    assert inside(policy)["target"] == math.ceil(0.3 * (2 * 10 - 4))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"horizon": 0}, "horizon is 0"),
        ({"context": (0,)}, "takes no context"),
        ({"rank": 0}, "rank is 0"),
        ({"rank": (2, 2, 5)}, "mode 2 is 5"),
        ({"rank": (3, 1, 1)}, "no tensor has rank"),
        ({"rank": "many"}, "auto"),
        ({"rank": 2.0}, "rank is 2.0"),
        ({"mode": 3}, "from 0 to 2"),
        ({"mode": -1}, "from 0 to 2"),
        ({"mode": True}, "from 0 to 2"),
        ({"multiplier": 0}, "multiplier is 0"),
        ({"c_0": -1}, "c_0 is -1"),
        ({"lambda_1": math.nan}, "lambda_1 is nan"),
        ({"delta": 1.0}, "probability"),
        ({"noise": 0.0}, "noise is 0"),
        ({"norm": -1.0}, "norm is -1"),
        ({"recovery": "magic"}, "alternating"),
        ({"shape": (4, 0, 3)}, "mode 1 has size 0"),
        ({"shape": (100, 200, 100)}, r"40196 coordinates.*12.9 GB.*TensorThompsonSampling"),
        ({"horizon": 17}, r"T_1 = 17 .*at least 18"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        MatricizedESTR(**({"shape": (4, 5, 3), "rank": 2, "horizon": 500} | arguments))


@pytest.mark.parametrize("reward", [math.nan, math.inf, "1", None])
def test_bad_rewards_leave_the_policy_as_it_was(reward):
    policy = MatricizedESTR((4, 5), 1, horizon=100, seed=0)
    for _ in range(20):
        cell = policy.ask()
    theta = policy._stage_2.theta.copy()
    with pytest.raises((ValueError, TypeError)):
        policy.tell(cell, reward)
    with pytest.raises(ValueError, match="levels"):
        policy.tell((0,), 1.0)
    assert policy.ledger.rounds == 0
    np.testing.assert_array_equal(policy._stage_2.theta, theta)

import numpy as np
import pytest

from tensorbandits.sim.environment import TensorEnvironment, paper_tensor
from tensorbandits.tensor.allowed import Allowed
from tensorbandits.tensor.tucker import Tucker


def tucker(shape=(4, 5, 3), rank=2, seed=0, offset=0.0):
    rng = np.random.default_rng(seed)
    factors = tuple(rng.standard_normal((size, rank)) for size in shape)
    return Tucker(rng.standard_normal((rank,) * len(shape)), factors, offset)


# The paper's tensor.


@pytest.mark.parametrize(("order", "rank"), [(1, 1), (2, 2), (3, 2), (4, 3)])
def test_paper_tensor_has_the_stated_ranks_and_singular_values(order, rank):
    mean = paper_tensor(p=6, signal=0.5, order=order, rank=rank, seed=3)
    assert mean.shape == (6,) * order
    for mode in range(order):
        values = np.linalg.svd(np.moveaxis(mean, mode, 0).reshape(6, -1), compute_uv=False)
        values = np.append(values, 0.0)
        if order > 1:
            np.testing.assert_allclose(values[:rank], 0.5 * 6 ** (order / 2))
        np.testing.assert_allclose(values[rank:], 0.0, atol=1e-12)


def test_paper_tensor_depends_on_its_seed_alone():
    assert np.array_equal(paper_tensor(seed=1), paper_tensor(seed=1))
    assert not np.allclose(paper_tensor(seed=1), paper_tensor(seed=2))


@pytest.mark.parametrize("wrong", [{"p": 0}, {"p": 1, "rank": 3}, {"order": 0}, {"signal": -1.0}, {"rank": 0}])
def test_paper_tensor_refuses_impossible_settings(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong)) if len(wrong) == 1 else "rank is 3"):
        paper_tensor(**wrong)


# Rewards.


def test_rewards_have_the_mean_and_spread_of_their_family():
    n = 20_000
    cases = [("gaussian", 0.7, 0.5**2), ("bernoulli", 0.7, 0.7 * 0.3), ("poisson", 0.7, 0.7)]
    for family, mean, variance in cases:
        env = TensorEnvironment(np.full((2, 2), mean), noise=0.5, family=family, seed=1)
        rewards = np.array([env.pull((0, 1)) for _ in range(n)])
        assert abs(rewards.mean() - mean) < 4 * np.sqrt(variance / n)
        assert rewards.var() == pytest.approx(variance, rel=0.06)
        if family == "bernoulli":
            assert set(rewards) == {0.0, 1.0}


def test_no_noise_pays_the_mean():
    mean = np.arange(6.0).reshape(2, 3)
    env = TensorEnvironment(mean, noise=0.0)
    assert [env.pull((1, j)) for j in range(3)] == [3.0, 4.0, 5.0]
    assert type(env.pull((0, 0))) is float


def test_the_environment_keeps_its_own_means():
    mean = np.zeros((2, 2))
    env = TensorEnvironment(mean, noise=0.0)
    mean[:] = 9.0
    assert env.mean_at((0, 0)) == 0.0


def test_the_noise_is_not_the_tensor_of_the_same_seed():
    """The same seed draws the factors of the tensor and seeds the environment; the streams must differ."""
    env = TensorEnvironment(np.zeros(2), seed=7)
    noise = [env.pull((0,)) for _ in range(30)]
    assert not np.isin(noise, np.random.default_rng(7).standard_normal(1_000)).any()


# Regret.


@pytest.mark.parametrize("context", [(), (1,), (2, 0)])
def test_regret_compares_with_the_best_cell_of_the_same_context(context):
    tensor = tucker()
    full = tensor.full()
    for env in (TensorEnvironment(full, context=context), TensorEnvironment(tensor, context=context)):
        for cell in np.ndindex(full.shape):
            index = tuple(cell[j] if j in context else slice(None) for j in range(3))
            assert env.best_mean([cell[j] for j in context]) == pytest.approx(full[index].max())
            assert env.regret(cell) == pytest.approx(full[index].max() - full[cell])


def test_a_billion_cells_are_never_written_out():
    env = TensorEnvironment(tucker((1000, 1000, 1000)), context=(1,), seed=0)
    levels = env.context()
    cell = (3, *levels, 999)
    assert env.shape == (1000, 1000, 1000)
    assert np.isfinite(env.pull(cell))
    assert env.regret(cell) >= 0


# Context.


def frequencies(env, n=20_000):
    counts: dict[tuple[int, ...], int] = {}
    for _ in range(n):
        levels = env.context()
        counts[levels] = counts.get(levels, 0) + 1
    return {levels: count / n for levels, count in counts.items()}


def test_without_context_the_levels_are_empty():
    assert TensorEnvironment(np.zeros((2, 2))).context() == ()


@pytest.mark.parametrize("kind", ["uniform", "per mode", "joint"])
def test_contexts_follow_their_distribution(kind):
    joint = np.full((3, 2), 1 / 6)
    weights = None
    if kind == "per mode":
        weights = [[1, 2, 1], [3, 1]]
        joint = np.outer([0.25, 0.5, 0.25], [0.75, 0.25])
    if kind == "joint":
        weights = joint = np.array([[0.5, 0.0], [0.0, 0.3], [0.2, 0.0]])
    env = TensorEnvironment(np.zeros((2, 4, 3)), context=(2, 0), context_weights=weights, seed=5)
    found = frequencies(env)
    assert set(found) == {tuple(map(int, cell)) for cell in np.argwhere(joint > 0)}
    for cell, share in found.items():
        assert share == pytest.approx(joint[cell], abs=0.02)


def test_contexts_do_not_depend_on_what_is_played():
    one, two = (TensorEnvironment(np.ones((5, 3)), family="poisson", context=(0,), seed=2) for _ in range(2))
    for t in range(50):
        assert one.context() == two.context()
        one.pull((0, 0))
        for _ in range(t % 3):
            two.pull((1, 1))


def test_a_seed_sequence_serves_twice():
    seed = np.random.SeedSequence(4)
    one, two = (TensorEnvironment(np.zeros((5, 3)), context=(0,), seed=seed) for _ in range(2))
    assert [(one.context(), one.pull((0, 0))) for _ in range(5)] == [
        (two.context(), two.pull((0, 0))) for _ in range(5)
    ]


# What is refused.


@pytest.mark.parametrize("as_tucker", [False, True])
@pytest.mark.parametrize(("family", "value"), [("bernoulli", 1.5), ("bernoulli", -0.1), ("poisson", -0.1)])
def test_means_outside_a_family_are_refused_with_their_cell(family, value, as_tucker):
    mean = np.full((2, 3), 0.5)
    mean[1, 2] = value
    given = Tucker(mean, (np.eye(2), np.eye(3))) if as_tucker else mean
    with pytest.raises(ValueError, match=r"cell \(1, 2\).*" + str(value) + ".*rescale"):
        TensorEnvironment(given, family=family)


def test_rounding_outside_a_family_is_forgiven():
    env = TensorEnvironment(np.array([-1e-17, 1 + 1e-12]), family="bernoulli", seed=0)
    assert (env.pull((0,)), env.pull((1,))) == (0.0, 1.0)
    assert TensorEnvironment(np.array([-1e-17, 1.0]), family="poisson").pull((0,)) == 0.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mean": np.array([0.0, np.nan])}, "NaN or infinite"),
        ({"mean": np.array(3.0)}, "one axis per mode"),
        ({"mean": np.zeros((2, 0))}, "at least one level"),
        ({"noise": -1.0}, "noise is -1.0.*at least 0"),
        ({"noise": np.nan}, "noise is nan"),
        ({"family": "cauchy"}, "'cauchy'.*'gaussian', 'bernoulli', 'poisson'"),
        ({"context": (5,)}, "context mode 5 does not exist"),
        ({"context": (0, 1)}, "nothing is left to decide"),
        ({"context_weights": [[1, 1]]}, "without context"),
        ({"context": (0,), "context_weights": [[1, 1, 1]]}, r"context mode 0 have shape \(3,\).*\(2,\)"),
        ({"context": (0,), "context_weights": [1, 1]}, "one vector per context mode"),
        ({"context": (0,), "context_weights": [[0, 0]]}, "sum 0.*not all of them 0"),
        ({"context": (0,), "context_weights": [[2, -1]]}, "at least 0"),
        ({"context": (0,), "context_weights": [[np.nan, 1]]}, "sum nan"),
        ({"context": (0,), "context_weights": np.ones((3, 3))}, r"shape \(3, 3\).*shape \(2,\)"),
    ],
)
def test_bad_input_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        TensorEnvironment(**({"mean": np.zeros((2, 3))} | arguments))


def test_means_that_are_not_numbers_are_refused():
    with pytest.raises(TypeError, match="array of numbers"):
        TensorEnvironment(np.array(["a", "b"]))


def test_cells_and_levels_are_checked():
    env = TensorEnvironment(np.zeros((2, 3)), context=(0,))
    for call in (env.pull, env.mean_at, env.regret):
        with pytest.raises(ValueError, match="out of range"):
            call((0, 3))
    with pytest.raises(ValueError, match="out of range"):
        env.best_mean((2,))


@pytest.mark.parametrize("as_tucker", [False, True])
def test_regret_is_against_the_best_allowed_cell(as_tucker):
    mean = np.arange(24.0).reshape(2, 3, 4)
    given = Tucker(mean, (np.eye(2), np.eye(3), np.eye(4))) if as_tucker else mean
    env = TensorEnvironment(given, context=(0,))
    allowed = Allowed({2: [0, 1]}, forbidden=[{1: 2, 2: 1}, {0: 1, 1: 2}])
    assert env.best_mean((0,)) == 11.0
    for _ in range(2):  # looked up the second time
        assert env.best_mean((0,), allowed) == 8.0
        assert env.best_mean((1,), allowed) == 17.0
        assert env.best_mean((1,), {1: [0]}) == 15.0
    assert env.regret((0, 1, 1)) == 6.0
    assert env.regret((0, 1, 1), allowed) == 3.0
    assert env.regret((0, 2, 0), allowed) == 0.0
    assert env.best_mean((0,)) == 11.0
    with pytest.raises(ValueError, match=r"cell \(1, 2, 0\) is not allowed"):
        env.regret((1, 2, 0), allowed)
    with pytest.raises(ValueError, match="no cell is allowed"):
        env.best_mean((1,), Allowed({1: [2]}, forbidden=[{0: 1, 1: 2}]))
    with pytest.raises(ValueError, match="allowed names mode 3"):
        env.best_mean((1,), {3: [2]})

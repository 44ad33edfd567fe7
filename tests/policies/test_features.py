"""Features of levels: what they say is learned, also of levels that were never tried; bad ones are refused."""

import numpy as np
import pytest

import tensorbandits as tb

KINDS = [
    {"rank": 2},
    {"rank": 2, "structure": "affine"},
    {"structure": "additive"},
    {"structure": "pairs"},
    {"rank": "auto"},
]
SHAPE = (4, 12, 3)


def world(explained, structure="tucker", seed=0, shape=SHAPE):
    """A tensor of a structure whose second mode is explained by two features to a share, and these features."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((shape[1], 2))
    rows = [rng.standard_normal((p, 2)) for p in shape]
    rows[1] = np.sqrt(explained) * features + np.sqrt(1.0 - explained) * rows[1]
    if structure == "tucker":
        mean = np.einsum("abc,ia,jb,kc->ijk", rng.standard_normal((2, 2, 2)), *rows)
    else:
        mean = np.add.outer(np.add.outer(rows[0][:, 0], rows[1][:, 0]), rows[2][:, 0])
        mean += (structure != "additive") * (rows[0] @ rows[1].T)[:, :, None]
    return mean / mean.std(), features


def structure_of(kind):
    return kind.get("structure", "tucker")


def told(mean, features, known, *, rounds=1_200, **arguments):
    """A policy that has rewards of the first levels of the second mode only."""
    rng = np.random.default_rng(1)
    cells = np.stack([rng.integers(known if j == 1 else p, size=rounds) for j, p in enumerate(mean.shape)], axis=1)
    policy = tb.TensorThompsonSampling(
        mean.shape, features=features, exploration=1, max_sweeps=400, seed=2, **arguments
    )
    policy.tell_many(cells, mean[tuple(cells.T)] + 0.3 * rng.standard_normal(rounds))
    return policy


def new_cells(known):
    return np.array([(i, j, k) for i in range(SHAPE[0]) for j in range(known, SHAPE[1]) for k in range(SHAPE[2])])


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_level_that_was_never_tried_is_like_those_that_it_resembles(kind):
    new, errors = new_cells(9), []
    for seed in range(3):
        mean, features = world(1.0, structure_of(kind), seed)
        guesses = [told(mean, one, 9, **kind).estimate(new) for one in ({1: features}, None)]
        errors.append([np.mean((guess - mean[tuple(new.T)]) ** 2) for guess in guesses])
    guided, alone = np.mean(errors, axis=0)
    assert guided < 0.5 * alone


def test_features_that_say_nothing_are_unlearned():
    mean, _ = world(0.0)
    noise = np.random.default_rng(9).standard_normal((SHAPE[1], 5))
    cells = new_cells(0)
    known, alone = (told(mean, one, SHAPE[1], rank=2).estimate(cells) for one in ({1: noise}, None))
    np.testing.assert_allclose(known, alone, atol=0.15)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_levels_come_with_their_features(kind):
    mean, features = world(1.0, structure_of(kind))
    policy = tb.TensorThompsonSampling((4, 9, 3), features={1: features[:9]}, exploration=1, seed=2, **kind)
    rng = np.random.default_rng(1)
    cells = np.stack([rng.integers(p, size=1_200) for p in (4, 9, 3)], axis=1)
    policy.tell_many(cells, mean[tuple(cells.T)] + 0.3 * rng.standard_normal(1_200))
    policy.ask()
    policy.grow(1, 3)
    assert policy.features["1"][9:].tolist() == [[0.0] * 2] * 3
    policy.describe(1, features)
    new = new_cells(9)
    assert np.corrcoef(policy.estimate(new), mean[tuple(new.T)])[0, 1] > 0.7
    policy.ask()


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_saved_policy_goes_on_as_it_would_have(kind, tmp_path):
    mean, features = world(0.7)
    policy = told(mean, {1: features, 2: np.eye(3)}, 12, rounds=300, **kind)
    policy.ask()
    policy.save(tmp_path / "policy.safetensors")
    again = tb.Policy.load(tmp_path / "policy.safetensors")
    np.testing.assert_array_equal(again.features["1"], features)
    for _ in range(3):
        cell = policy.ask()
        assert again.ask() == cell
        policy.tell(cell, 0.5)
        again.tell(cell, 0.5)


def test_other_features_take_the_place_of_those_before():
    mean, features = world(1.0)
    policy = told(mean, {1: features[:, :1]}, 9, rank=2)
    policy.ask()
    policy.describe(1, features)  # more of them: learned anew
    new = new_cells(9)
    assert np.corrcoef(policy.estimate(new), mean[tuple(new.T)])[0, 1] > 0.7
    policy.describe(1, None)
    assert policy.features is None
    assert np.ptp(policy.estimate(new)) < np.ptp(mean[tuple(new.T)])
    policy.ask()


@pytest.mark.parametrize("reward", ["bernoulli", "count", "revenue"])
def test_rewards_of_every_kind_have_features(reward):
    rng = np.random.default_rng(0)
    policy = tb.TensorThompsonSampling((3, 6), 1, reward=reward, features={1: rng.standard_normal((6, 2))}, seed=0)
    for _ in range(60):
        cell = policy.ask()
        policy.tell(cell, float(rng.random() < 0.4))
    assert np.isfinite(policy.estimate([(0, 5), (2, 1)])).all()
    policy.grow(1)
    policy.describe(1, rng.standard_normal((7, 2)))
    policy.tell(policy.ask(), 1.0)


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ([[1.0]], "give lines of numbers by mode"),
        ({2: [[1.0]]}, "a mode"),
        ({1: [[1.0], [2.0]]}, r"has shape \(2, 1\); it has 3 levels|have shape \(2, 1\); it has 3 levels"),
        ({1: [1.0, 2.0, 3.0]}, "one line of numbers for each"),
        ({1: np.zeros((3, 0))}, "one line of numbers for each"),
        ({1: [[1.0], [np.nan], [0.0]]}, "features of mode 1"),
        ({1: [[1.0], [np.inf], [0.0]]}, "features of mode 1"),
        ({1: [[1.0], [1e9], [0.0]]}, "features of mode 1"),
        ({1: np.zeros((3, 2_000))}, "at most 1,000"),
    ],
)
def test_wrong_features_are_refused(features, words):
    with pytest.raises((TypeError, ValueError), match=words):
        tb.TensorThompsonSampling((2, 3), features=features)


def test_wrong_descriptions_change_nothing():
    policy = tb.TensorThompsonSampling((2, 3), features={1: np.ones((3, 1))}, seed=0)
    for wrong in ([[1.0]], [["a"]] * 3, [[np.nan]] * 3):
        with pytest.raises(ValueError, match=r"features|could not convert"):
            policy.describe(1, wrong)
    with pytest.raises(ValueError, match="mode"):
        policy.describe(2, [[1.0]])
    np.testing.assert_array_equal(policy.features["1"], np.ones((3, 1)))
    with pytest.raises(ValueError, match="takes no features; use TensorThompsonSampling"):
        tb.VectorizedUCB((2, 3)).describe(1, np.ones((3, 1)))

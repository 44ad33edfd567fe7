"""What a policy says of single modes: true effects, and what is known of a level from its own rewards."""

import numpy as np
import pytest

import tensorbandits as tb
from tensorbandits.policies.explanation import acting_together, explain
from tensorbandits.tensor.tucker import Tucker

ROWS, COLUMNS = np.array([-1.0, -1.0, 0.0, 2.0]), np.array([0.5, 0.0, -0.5])


def told(reward="gaussian", count=200, **settings):
    rng = np.random.default_rng(0)
    mean = np.add.outer(ROWS, COLUMNS)
    policy = tb.TensorThompsonSampling((4, 3), reward=reward, seed=0, **settings)
    cells = np.repeat(np.argwhere(np.ones((4, 3))), count, axis=0)
    at = mean[tuple(cells.T)]
    if reward == "gaussian":
        policy.tell_many(cells, at + 0.5 * rng.standard_normal(len(at)))
    else:
        policy.tell_many(cells, (rng.random(len(at)) < 1 / (1 + np.exp(-at))).astype(float))
    policy.ask()
    return policy


def test_effects_of_a_sum_are_its_terms_and_nothing_interacts():
    found = told().explain(0.9)
    for effect, truth in zip(found.effects, (ROWS, COLUMNS)):
        np.testing.assert_allclose(effect[:, 0], truth, atol=0.15)
        assert (effect[:, 1] <= effect[:, 0]).all()
        assert (effect[:, 0] <= effect[:, 2]).all()
    assert found.shares[0, 1][0] < 0.02
    assert sum(share[0] for share in found.shares.values()) == pytest.approx(1.0)
    assert found.alike[0] == ((0, 1),)
    np.testing.assert_allclose(found.typical[0][:, 0], ROWS, atol=0.2)


def test_clicks_are_explained_as_log_odds_and_as_rates():
    found = told("bernoulli", 2000).explain()
    np.testing.assert_allclose(found.effects[0][:, 0], ROWS, atol=0.25)
    np.testing.assert_allclose(found.typical[0][:, 0], 1 / (1 + np.exp(-ROWS)), atol=0.06)


@pytest.mark.parametrize("settings", [{}, {"rank": 1, "structure": "affine"}, {"structure": "additive"}])
def test_a_level_that_was_never_tried_borrows_everything(settings):
    policy = told(**settings)
    policy.grow(0)
    policy.ask()
    own = policy.explain().own
    assert own[0][4] == 0.0
    assert own[0][:4].min() > 0.5
    assert len(own[0]) == 5


def test_it_changes_nothing_and_wrong_levels_are_named():
    policies = [told(count=5), told(count=5)]
    policies[0].explain()
    assert [policies[0].ask() for _ in range(5)] == [policies[1].ask() for _ in range(5)]
    for level in (0, 1, True, "0.9", np.nan):
        with pytest.raises(ValueError, match="level is"):
            policies[0].explain(level)


def test_ensembles_are_explained_too():
    policy = tb.TensorEnsembleSampling((4, 3), 1, ensemble_size=20, seed=0)
    rng = np.random.default_rng(0)
    cells = np.repeat(np.argwhere(np.ones((4, 3))), 50, axis=0)
    policy.tell_many(cells, np.outer(ROWS, [1.0, 2.0, 3.0])[tuple(cells.T)] + 0.1 * rng.standard_normal(600))
    policy.ask()
    found = policy.explain()
    assert found.own is None
    np.testing.assert_allclose(found.effects[0][:, 0], 2.0 * ROWS, atol=0.2)
    assert found.shares[0, 1][0] > 0.02


def test_what_three_modes_do_together_is_the_rest():
    rng = np.random.default_rng(0)
    tensor = Tucker(rng.standard_normal((2, 2, 2)), tuple(rng.standard_normal((p, 2)) for p in (3, 4, 2)))
    found = explain([tensor] * 20, 0.8, lambda values: values)
    full = tensor.full()
    fewer = full - full.mean((0, 1, 2))
    for axes in ((1, 2), (0, 2), (0, 1)):
        fewer = fewer - (full.mean(axes, keepdims=True) - full.mean())
    pairs = sum(share[0] for modes, share in found.shares.items() if len(modes) == 2)
    assert (pairs + found.shares[()][0]) == pytest.approx((fewer**2).mean() / full.var())


def test_bounds_that_so_few_draws_cannot_have_are_refused_as_those_of_intervals_are():
    policy = tb.TensorThompsonSampling((3, 3), 2, draws=4, seed=0)
    policy.tell((0, 0), 1.0)
    for ask in (lambda: policy.explain(0.99), lambda: policy.interval([(0, 0)], 0.99)):
        with pytest.raises(ValueError, match=r"level is 0\.99; 4 draws tell no more than 0\.6"):
            ask()
    enough = tb.TensorThompsonSampling((3, 3), 2, draws=19, seed=0)
    enough.tell((0, 0), 1.0)
    assert enough.interval([(0, 0)], 0.9).shape == (1, 2)


def test_a_share_lies_within_its_bounds_also_if_few_draws_are_far_from_the_others():
    alone = Tucker(np.ones((1, 1)), (np.array([[0.0], [1.0]]), np.ones((2, 1))))
    together = Tucker(np.ones((1, 1)), (np.array([[-1.0], [1.0]]), np.array([[-1.0], [1.0]])))
    found = explain([alone] * 99 + [together], 0.9, lambda values: values)
    for middle, low, high in (*found.shares.values(), acting_together([alone] * 99 + [together], 0.9)):
        assert low <= middle <= high
    assert found.shares[0, 1][0] == pytest.approx(0.01)


def test_main_effects_that_are_played_mostly_do_not_say_that_modes_act_alone():
    """Structures are weighed by what they predicted; of shares one is asked that can have them."""
    rng, shape = np.random.default_rng(2), (4, 6, 3)
    policy = tb.TensorThompsonSampling(shape, reward="bernoulli", seed=2)
    effects = np.add.outer(np.add.outer(rng.standard_normal(4), rng.standard_normal(6)), rng.standard_normal(3))
    for _ in range(12):
        cells = np.column_stack([rng.integers(size, size=50) for size in shape])
        policy.tell_many(cells, (rng.random(50) < 1 / (1 + np.exp(1.0 - effects[tuple(cells.T)]))).astype(float))
        policy.ask()
    assert policy.playing()["additive"] > 0.9
    before = policy.state_dict()
    middle, low, high = policy.acting_together()
    assert 0.01 < low < middle < high < 0.9
    assert high > 0.15, "so few clicks leave it open"
    shares = policy.explain(0.9).shares
    alone = sum(share[0] for part, share in shares.items() if len(part) == 1)
    assert 1.0 - alone == pytest.approx(middle), "one source for both"
    after = policy.state_dict()
    assert before["rng"] == after["rng"]
    assert policy.explain(0.9).shares[0,][0] == shares[0,][0], "looking changes nothing"

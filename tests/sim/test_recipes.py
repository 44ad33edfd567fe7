import pickle

import numpy as np
import pytest

import tensorbandits as tb
from tensorbandits.policies.registry import find, records


@pytest.mark.parametrize("name", [record.name for record in records()])
def test_a_recipe_fits_any_environment(name):
    for world in (tb.PaperWorld(p=5), tb.PaperWorld(p=4, order=2)):
        policy = tb.PolicyRecipe(name).make(world(0), horizon=2_000, seed=0)
        assert type(policy) is find(name).kind
        assert policy.shape == world(0).shape
        assert getattr(policy, "horizon", 2_000) == 2_000
        assert getattr(policy, "rank", "auto") == "auto"


def test_a_recipe_takes_the_context_of_the_environment():
    world = tb.TensorEnvironment(np.zeros((3, 4)), context=(1,), seed=0)
    assert tb.PolicyRecipe("thompson").make(world, 10).context == (1,)
    with pytest.raises(ValueError, match="takes no context"):
        tb.PolicyRecipe("estr").make(world, 100)


@pytest.mark.parametrize("name", [record.name for record in records()])
def test_the_papers_values_are_those_of_the_class(name):
    world, rank = tb.PaperWorld(p=5)(0), {} if name == "ucb" else {"rank": 2}
    horizon = {"horizon": 3_000} if name in ("elimination", "estr") else {}
    made = tb.PolicyRecipe(name, {"paper": True} | rank).make(world, 3_000, 0)
    direct = find(name).kind.paper(world.shape, seed=0, **rank, **horizon)
    assert made.state_dict()["arguments"] == direct.state_dict()["arguments"]


def test_settings_override_the_horizon_and_the_papers_values():
    recipe = tb.PolicyRecipe.parse("ensemble:paper=true,ensemble_size=7,rank=1")
    policy = recipe.make(tb.PaperWorld(p=3)(0), 10)
    assert (policy.ensemble_size, policy.perturbation) == (7, 0.1)
    assert tb.PolicyRecipe("elimination", {"horizon": 500}).make(tb.PaperWorld(p=3)(0), 900).horizon == 500


def test_the_same_seed_makes_the_same_policy():
    recipe, world = tb.PolicyRecipe("thompson"), tb.PaperWorld(p=3)(0)
    assert recipe.make(world, 9, 5).ask() == recipe.make(world, 9, 5).ask()


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("thompson", {}),
        ("thompson:", {}),
        ("thompson: rank=auto , noise=0.5", {"rank": "auto", "noise": 0.5}),
        ("thompson:rank=2x3x2,decay=none", {"rank": (2, 3, 2), "decay": None}),
        ("ensemble:scale_free=false,ensemble_size=20", {"scale_free": False, "ensemble_size": 20}),
        ("estr:multiplier=1e-3,rank=2", {"multiplier": 1e-3, "rank": 2}),
    ],
)
def test_texts_are_read_and_written(text, settings):
    recipe = tb.PolicyRecipe.parse(text)
    assert recipe.settings == settings
    assert tb.PolicyRecipe.parse(str(recipe)) == recipe
    assert pickle.loads(pickle.dumps(recipe)) == recipe


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("thomson", "'thomson'; allowed are thompson, ensemble"),
        ("thompson:rank", "'rank' in 'thompson:rank' is no setting"),
        ("thompson:rank=", "is no setting; write name:key=value"),
        ("thompson:rank=1,rank=2", "sets 'rank' twice"),
        ("thompson:ranks=1", "'ranks' is no setting of policy 'thompson': allowed are paper, rank"),
        ("thompson:shape=3", "taken from the environment"),
        ("thompson:paper=1", "paper is 1; allowed are true"),
    ],
)
def test_a_wrong_policy_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        tb.PolicyRecipe.parse(text)


def test_settings_must_be_by_name():
    with pytest.raises(TypeError, match="by name"):
        tb.PolicyRecipe("ucb", ["scale"])


def test_the_world_is_the_papers():
    world = tb.PaperWorld(p=6, signal=0.8, noise=0.3)(4)
    assert np.array_equal(world.mean, tb.paper_tensor(6, 0.8, seed=4))
    other = tb.TensorEnvironment(tb.paper_tensor(6, 0.8, seed=4), noise=0.3, seed=4)
    assert [world.pull((0, 0, 0)) for _ in range(3)] == [other.pull((0, 0, 0)) for _ in range(3)]


@pytest.mark.parametrize("text", ["paper", "paper:p=20", "paper:p=4,signal=0.8,order=2,rank=1,noise=0.0"])
def test_worlds_are_read_and_written(text):
    assert str(tb.PaperWorld.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("papers:p=3", "names no environment; allowed is paper"),
        ("paper:q=3", "'q' is no setting of 'paper:q=3': allowed are p, signal"),
        ("paper:p=0", "p is 0"),
        ("paper:p=1.5", r"p is 1\.5"),
        ("paper:p=3,rank=4", "rank is 4"),
        ("paper:signal=-1", "signal is -1"),
        ("paper:noise=x", "noise is 'x'"),
    ],
)
def test_a_wrong_world_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        tb.PaperWorld.parse(text)

"""Which policy is recommended, why, and that it can be made."""

import math

import numpy as np
import pytest

import tensorbandits as tb
from tensorbandits.policies.cost import words


def test_low_rank_means_thompson():
    advice = tb.recommend((15, 15, 15), 2, 10_000)
    assert advice.policy == "TensorThompsonSampling"
    assert advice.arguments == {"shape": (15, 15, 15), "rank": 2, "context": ()}
    assert advice.alternatives == (
        "TensorEnsembleSampling",
        "TensorElimination",
        "TensorEpochGreedy",
        "VectorizedUCB",
    )
    for number in ("3375 cells", "98 low-rank parameters", "horizon 10000"):
        assert number in advice.reason


def test_context_and_short_horizons_shorten_the_alternatives():
    with_context = tb.recommend([20, 7, 20], "auto", 2000, [0, 1])
    assert with_context.policy == "TensorThompsonSampling"
    assert with_context.arguments == {"shape": (20, 7, 20), "rank": "auto", "context": (0, 1)}
    assert with_context.alternatives == ("TensorEnsembleSampling", "TensorEpochGreedy")
    assert "102 low-rank parameters at rank 2" in with_context.reason
    assert tb.recommend((100, 100, 100), 2, 1000).alternatives == ("TensorEnsembleSampling",)


def test_one_mode_means_ucb_when_every_arm_can_be_tried():
    advice = tb.recommend((50,), 1, 5000)
    assert advice.policy == "VectorizedUCB"
    assert advice.arguments == {"shape": (50,), "context": ()}
    assert advice.alternatives == ("TensorThompsonSampling",)
    assert tb.recommend((1, 50, 1), 1, 5000).policy == "VectorizedUCB"
    assert tb.recommend((50,), 1, 49).policy == "TensorThompsonSampling"
    assert tb.recommend((1,), 1, 1).policy == "VectorizedUCB"


def test_no_gain_from_low_rank():
    assert tb.recommend((4, 4, 4), 4, 640).policy == "VectorizedUCB"
    assert tb.recommend((4, 4, 4), 4, 640, (0,)).arguments == {"shape": (4, 4, 4), "context": (0,)}
    short = tb.recommend((4, 4, 4), 4, 639)
    assert (short.policy, short.alternatives) == ("TensorThompsonSampling", ("VectorizedUCB",))
    assert "low rank saves little" in short.reason


def test_goal_guarantee():
    advice = tb.recommend((15, 15, 15), (2, 2, 2), 10_000, goal="guarantee")
    assert advice.policy == "TensorElimination"
    theorem = {"confidence": "theory", "reuse_data": False, "lambda_1": 1 / 3375}
    made = {"shape": (15, 15, 15), "rank": (2, 2, 2), "context": (), "horizon": 10_000}
    assert advice.arguments == made | theorem
    assert "1178" in advice.reason
    short = tb.recommend((15, 15, 15), 2, 2000, goal="guarantee")
    assert (short.policy, "needs a low rank, no context" in short.reason) == ("TensorThompsonSampling", True)
    assert tb.recommend((15, 15, 15), 2, 10_000, (0,), goal="guarantee").policy == "TensorThompsonSampling"
    assert tb.recommend((15, 15, 15), 2, 40_000, (0,), goal="guarantee").policy == "VectorizedUCB"


def test_goal_compute():
    advice = tb.recommend((15, 15, 15), 2, 200, (1,), goal="compute")
    assert advice.policy == "TensorEpochGreedy"
    assert advice.arguments == {"shape": (15, 15, 15), "rank": 2, "context": (1,)}
    short = tb.recommend((15, 15, 15), 2, 83, goal="compute")
    assert (short.policy, "more than 83 rounds" in short.reason) == ("TensorThompsonSampling", True)


@pytest.mark.parametrize("goal", ["regret", "guarantee", "compute"])
@pytest.mark.parametrize("horizon", [1, 50, 3000, 10**7])
@pytest.mark.parametrize("shape", [(1,), (30,), (30, 30), (6, 1, 9, 2), (5,) * 6, (10**4,) * 3])
def test_every_case_gets_advice_with_its_numbers(shape, horizon, goal):
    for rank in (1, 3, "auto"):
        advice = tb.recommend(shape, rank, horizon, goal=goal)
        assert advice.policy not in ("MatricizedESTR", *advice.alternatives)
        assert f"{math.prod(shape)} cells" in advice.reason
        assert f"horizon {horizon}" in advice.reason


@pytest.mark.parametrize(
    ("call", "given", "remedy"),
    [
        (lambda: tb.recommend((3, 3), 1, 0), "horizon is 0", "at least 1"),
        (lambda: tb.recommend((3, 3), 1, 1e3), "horizon is 1000.0", "whole number"),
        (lambda: tb.recommend((), 1, 9), "shape is empty", "at least one mode"),
        (lambda: tb.recommend((3, 3), "best", 9), "rank is 'best'", '"auto"'),
        (lambda: tb.recommend((3, 3), (1, 1, 1), 9), "rank (1, 1, 1)", "2 modes"),
        (lambda: tb.recommend((3, 3), 1, 9, (2,)), "context mode 2", "0 to 1"),
        (lambda: tb.recommend((3, 3), 1, 9, (-1,)), "context mode -1", "0 to 1"),
        (lambda: tb.recommend((3, 3, 3), 1, 9, (0, 0)), "context (0, 0)", "once"),
        (lambda: tb.recommend((3, 3), 1, 9, (0, 1)), "every mode is context", "leave at least one"),
        (lambda: tb.recommend((3, 3), 1, 9, 0), "context is 0", "for example (0,)"),
        (lambda: tb.recommend((3, 3), 1, 9, goal="fame"), "goal is 'fame'", "'guarantee'"),
        (lambda: tb.recommend((3, 3), 1, 9, reward="fun"), "reward is 'fun'", "'bernoulli'"),
    ],
)
def test_bad_input_is_named_with_a_remedy(call, given, remedy):
    with pytest.raises((TypeError, ValueError)) as error:
        call()
    assert given in str(error.value)
    assert remedy in str(error.value)


def test_numpy_numbers_are_welcome():
    assert tb.recommend((20, 20, 20), 2, np.int64(9), np.array([0])).arguments["context"] == (0,)


@pytest.mark.parametrize("goal", ["regret", "guarantee", "compute"])
@pytest.mark.parametrize(
    ("shape", "rank", "horizon"),
    [
        ((40, 40, 40), 2, 10**6),
        ((9,) * 6, 5, 10**4),
        ((2 * 10**8,), 1, 10**9),
        ((15, 15, 15), 2, 10**4),
        ((3, 3), 3, 10**5),
    ],
)
def test_what_is_recommended_can_be_made(shape, rank, horizon, goal):
    import tensorbandits as tb

    advice = tb.recommend(shape, rank, horizon, goal=goal)
    assert getattr(tb, advice.policy)(**advice.arguments).shape == shape
    for name in advice.alternatives:
        more = {"horizon": horizon} if name == "TensorElimination" else {}
        ranks = {} if name == "VectorizedUCB" else {"rank": rank}
        assert getattr(tb, name)(shape, **ranks, **more).shape == shape


def test_what_is_recommended_stands_for_a_policy_by_name():
    advice = tb.recommend((15, 15, 15), 2, 10_000, goal="guarantee")
    recipe = tb.PolicyRecipe(advice)
    assert (recipe.policy, recipe.settings["confidence"]) == ("elimination", "theory")
    assert tb.PolicyRecipe(advice.policy).policy == "elimination"
    assert advice.make(seed=0).horizon == 10_000


def test_a_core_that_takes_seconds_is_not_recommended_and_is_announced():
    assert tb.recommend((2,) * 12, 2, 1000).policy == "TensorEpochGreedy"
    with pytest.warns(UserWarning, match="a decision will take about"):
        tb.TensorThompsonSampling((2,) * 10, 2)


def test_what_a_reward_costs_is_said_with_the_reason():
    cheap, dear = (
        tb.recommend((12, 40, 8), "auto", 10_000, (0,), reward=reward) for reward in ("gaussian", "bernoulli")
    )
    assert 10 < cheap.microseconds < dear.microseconds < 10_000
    assert f"about {words(dear.microseconds)} of one core" in dear.reason
    assert dear.arguments["reward"] == dear.make(seed=0).reward == "bernoulli"
    assert "reward" not in cheap.arguments
    assert tb.recommend((50,), 1, 5000, reward="bernoulli").arguments == {"shape": (50,), "context": ()}  # takes none
    least = tb.recommend((15, 15, 15), 2, 10_000, goal="compute")
    assert least.microseconds < tb.recommend((15, 15, 15), 2, 10_000).microseconds

"""The schedules and bounds against hand-computed values, their growth rates, and the choice of a policy."""

import math
from itertools import pairwise

import numpy as np
import pytest

from tensorbandits import theory

PAPER = (20, 20, 20)
SIGMA = [0.8 * 20**1.5] * 3  # the paper's tensors: every core entry is w p^1.5


def slope(function, points):
    """Fitted exponent of a function that grows like a power."""
    values = [function(point) for point in points]
    return np.polyfit([math.log(x) for x in points], np.log(values), 1)[0]


# ------------------------------------------------------------------------------------------ schedules


@pytest.mark.parametrize(
    ("shape", "rank", "expected"),
    [
        ((20, 20, 20), 2, 127),  # sqrt(2) * 8000^(1/2) = 126.5
        ((16, 16), 3, 16),  # r^0 * 16, with no rounding error above it
        ((9,), 1, 3),
        ((4,) * 6, 2, 256),  # 2^2 * 4^3
        ((2, 8, 4), 1, 8),
        ((1, 1, 1), 1, 1),
        ((5, 1, 5), 2, 7),  # ranks (2, 1, 2): 4^(1/6) * 25^(1/2) = 6.3
    ],
)
def test_initial_rounds(shape, rank, expected):
    assert theory.initial_rounds(shape, rank) == expected


def test_initial_rounds_of_the_appendix():
    assert theory.initial_rounds(PAPER, 2, exponent="appendix") == math.ceil(math.sqrt(2) * 20)
    assert theory.initial_rounds((20,), 1, exponent="appendix") == 1  # 1/20, never less than a round
    assert theory.initial_rounds((10, 10, 10, 10), 2, C_0=3, exponent="appendix") == 600


def test_exploration_rounds_with_the_whole_product_raised():
    product = 1e5 * 2**3 / (0.8 * 20**1.5) ** 3 * 20**6 * math.log(20) ** 1.5
    assert theory.exploration_rounds(PAPER, 2, 100_000, SIGMA, c_0=1) == math.ceil(product**0.4)
    assert theory.exploration_rounds(PAPER, 2, 100_000, SIGMA) == math.ceil(0.5 * math.ceil(product**0.4))


def test_exploration_rounds_as_printed_exceed_the_horizon():
    printed = theory.exploration_rounds(PAPER, 2, 100_000, SIGMA, c_0=1, power="horizon")
    assert printed == pytest.approx(7.2e5, rel=0.02)


def test_exploration_rounds_of_unequal_modes_and_singular_values():
    p = (3 * 4 * 5 * 6) ** 0.25
    product = 1000 * (2 * 2 * 3 * 2) / (1 * 2 * 3 * 4) * p**10 * math.log(p) ** 2
    rounds = theory.exploration_rounds((3, 4, 5, 6), (2, 2, 3, 2), 1000, [1, 2, 3, 4], c_0=1)
    assert rounds == math.ceil(product ** (1 / 3))


def test_exploration_rounds_of_one_mode_and_of_many():
    assert theory.exploration_rounds((1,), 1, 8, [1.0], c_0=1) == math.ceil((8 * math.log(2) ** 0.5) ** (2 / 3))
    assert theory.exploration_rounds((10,) * 60, 1, 10**6, [1e30] * 60) >= 1  # intermediate values overflow
    assert theory.exploration_rounds((2, 2), 1, 1, [1e9, 1e9]) == 1


def test_exploitation_rounds():
    expected = math.ceil(300 * 20**-2 * (2 * math.log(20)) ** -0.5 * math.sqrt(500 + 127))
    assert theory.exploitation_rounds(500, PAPER, 2, s_1=127, C_2=300) == expected
    assert {theory.exploitation_rounds(k, PAPER, 2, s_1=127) for k in (0, 1, 1000, 100_000)} == {1}
    assert theory.exploitation_rounds(0, (1,), 1, s_1=1) == math.ceil(math.log(2) ** -0.5)


@pytest.mark.parametrize(
    ("shape", "rank", "expected"),
    [
        (PAPER, 2, 2168),
        ((15, 15, 15), 2, 1178),
        ((7,), 1, 1),
        ((7,), 5, 1),  # the only unfolding of a vector has rank 1
        ((4, 6), 2, 24 - 2 * 4),
        ((4, 6), (2, 2), 24 - 2 * 4),
        ((3, 10), 9, 30),  # lowered to (3, 3): nothing is perpendicular
        ((1, 5, 5), 3, 25),
        ((3,) * 6, 1, 729 - 64),
    ],
)
def test_inside_coordinates(shape, rank, expected):
    assert theory.inside_coordinates(shape, rank) == expected


def test_perpendicular_penalty():
    assert theory.perpendicular_penalty(1000, 10) == pytest.approx(100 / math.log(10_001))
    assert theory.perpendicular_penalty(1000, 10, lambda_1=1000) == pytest.approx(100 / math.log(2))


def test_confidence_multiplier():
    xi = theory.confidence_multiplier(delta=2 / math.e, lambda_1=4, lambda_2=9, norm_inside=5, norm_perpendicular=7)
    assert xi == pytest.approx(2 * math.sqrt(14) + 10 + 21)
    # p = 15, w = 0.5, n = 10,000: the noise alone makes it about 23, too wide to eliminate anything.
    noise = theory.confidence_multiplier(delta=1e-4, lambda_1=0.1, lambda_2=0.7, norm_inside=0, norm_perpendicular=0)
    assert noise == pytest.approx(23.55, abs=0.01)


def test_schedules_move_the_right_way():
    def grows(values):
        return all(low < high for low, high in pairwise(values))

    assert grows([theory.initial_rounds((p,) * 3, 2) for p in (5, 10, 20, 40)])
    assert grows([theory.initial_rounds((20,) * 3, r) for r in (1, 2, 3)])
    assert grows([theory.exploration_rounds(PAPER, 2, n, SIGMA) for n in (10**3, 10**4, 10**5)])
    assert grows([-theory.exploration_rounds(PAPER, 2, 10**4, [s] * 3) for s in (1, 10, 100)])
    assert grows([theory.exploitation_rounds(k, (5, 5, 5), 2, s_1=16, C_2=50) for k in (0, 100, 1000)])
    assert grows([theory.inside_coordinates(PAPER, r) for r in (1, 2, 5, 20)])
    assert grows([theory.perpendicular_penalty(n, 100) for n in (10, 100, 1000)])


@pytest.mark.parametrize("shape", [(12,), (3, 12), (12, 1, 3), (2, 3, 1, 4, 5, 2)])
def test_order_of_the_modes_does_not_matter(shape):
    back = shape[::-1]
    sigma = [1.0 + j for j in range(len(shape))]
    assert theory.initial_rounds(shape, 2) == theory.initial_rounds(back, 2)
    assert theory.inside_coordinates(shape, 2) == theory.inside_coordinates(back, 2)
    assert theory.exploration_rounds(shape, 2, 999, sigma) == theory.exploration_rounds(back, 2, 999, sigma[::-1])
    assert theory.elimination_bound(shape, 2, 999, sigma) == pytest.approx(
        theory.elimination_bound(back, 2, 999, sigma[::-1])
    )
    assert theory.epoch_greedy_bound(shape, 2, 999) == pytest.approx(theory.epoch_greedy_bound(back, 2, 999))


# ------------------------------------------------------------------------------------------ bounds


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("epoch-greedy", 100**1.5 + 100 ** (4 / 3) * 1000 ** (2 / 3)),
        ("elimination", 100**1.5 + 100 * 1000**0.5),
        ("ucb", 100**3 + 100**1.5 * 1000**0.5),
        ("estr", 100**2 + 100**3 * 1000**0.5),
    ],
)
def test_table1_takes_the_largest_size(policy, expected):
    assert theory.table1_bound(policy, (1, 100, 7), 1000) == pytest.approx(expected)


@pytest.mark.parametrize("d", [3, 6])
@pytest.mark.parametrize("policy", ["epoch-greedy", "elimination", "ucb", "estr"])
def test_table1_grows_as_stated(policy, d):
    in_n, in_p = {
        "epoch-greedy": (2 / 3, (d + 1) / 3),
        "elimination": (1 / 2, (d - 1) / 2),
        "ucb": (1 / 2, d / 2),
        "estr": (1 / 2, 3 * (d - 1) / 2),
    }[policy]
    assert slope(lambda n: theory.table1_bound(policy, (10,) * d, n), [10**e for e in range(20, 26)]) == (
        pytest.approx(in_n, abs=1e-3)
    )
    assert slope(lambda p: theory.table1_bound(policy, (p,) * d, 10**40), [10, 20, 40, 80]) == (
        pytest.approx(in_p, abs=1e-3)
    )


def test_table1_crosses_where_the_paper_says():
    # Epoch-greedy has the smaller rate only for n below p^(d-5): never for d = 3, for some n at d = 7.
    for n in (1, 100, 10**6):
        assert theory.table1_bound("epoch-greedy", PAPER, n) >= theory.table1_bound("elimination", PAPER, n)
    shape = (20,) * 7
    assert theory.table1_bound("epoch-greedy", shape, 300) < theory.table1_bound("elimination", shape, 300)
    assert theory.table1_bound("epoch-greedy", shape, 500) > theory.table1_bound("elimination", shape, 500)


def test_elimination_bound():
    first = 40**1.5
    second = (1e5 * 8 / (0.8 * 20**1.5) ** 3 * math.log(20) ** 1.5) ** 0.4 * 20 ** (12 / 5)
    third = (3 * math.log(20) + math.log(1e5)) * math.sqrt(20**2 * 1e5)
    assert theory.elimination_bound(PAPER, 2, 100_000, SIGMA) == pytest.approx(first + second + third)
    assert theory.elimination_bound(PAPER, 2, 100_000, SIGMA, C=3) == pytest.approx(3 * (first + second + third))


@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_bounds_grow_as_their_theorems_say(d):
    shape, horizons = (10,) * d, [10**e for e in range(40, 46)]
    # The middle term of theorem 1 dominates when the singular values are tiny.
    tiny = slope(lambda n: theory.elimination_bound(shape, 1, n, [1e-90] * d), horizons[:3])
    assert tiny == pytest.approx(2 / (d + 2), abs=1e-3)
    # With huge ones the last term does: the root of n, times log n.
    huge = slope(
        lambda n: theory.elimination_bound(shape, 1, n, [1e90] * d) / (d * math.log(10) + math.log(n)),
        horizons,
    )
    assert huge == pytest.approx(1 / 2, abs=1e-3)
    assert slope(lambda n: theory.epoch_greedy_bound(shape, 1, n), horizons) == pytest.approx(2 / 3, abs=1e-3)
    in_p = slope(lambda p: theory.epoch_greedy_bound((p,) * d, 1, 10**40) / math.log(p) ** (1 / 3), [10, 20, 40, 80])
    assert in_p == pytest.approx((d + 1) / 3, abs=1e-3)
    assert slope(lambda n: theory.thompson_bayes_bound(shape, n), horizons) == pytest.approx(1 / 2)


def test_epoch_greedy_bound():
    expected = 5 * math.sqrt(2) * 20**1.5 + 8 * 1e6 ** (2 / 3) * 20 ** (4 / 3) * (2 * math.log(20)) ** (1 / 3)
    assert theory.epoch_greedy_bound(PAPER, 2, 10**6, C_0=5) == pytest.approx(expected)


def test_thompson_bayes_bound():
    assert theory.thompson_bayes_bound((4, 5), 1000) == pytest.approx(math.sqrt(20 * math.log(20) * 500))
    assert theory.thompson_bayes_bound((4, 5), 1000, entropy=0.5, hellinger=7) == pytest.approx(math.sqrt(5000) + 14)
    assert theory.thompson_bayes_bound((1, 1), 1000) == 0
    assert theory.thompson_bayes_bound((4, 5), 10, entropy=math.log(20)) == theory.thompson_bayes_bound((4, 5), 10)


# ------------------------------------------------------------------------------------------ bad input


def xi(**change):
    good = {"delta": 0.1, "lambda_1": 0.1, "lambda_2": 1.0, "norm_inside": 1.0, "norm_perpendicular": 0.0}
    return theory.confidence_multiplier(**(good | change))


@pytest.mark.parametrize(
    ("call", "given", "remedy"),
    [
        (lambda: theory.initial_rounds((), 1), "shape is empty", "(10,)"),
        (lambda: theory.initial_rounds(20, 1), "shape is 20", "(15, 15, 15)"),
        (lambda: theory.initial_rounds((3, 0), 1), "mode 1 has size 0", "at least one level"),
        (lambda: theory.initial_rounds((3, 2.5), 1), "size 2.5", "whole numbers"),
        (lambda: theory.initial_rounds((3, 3), 0), "rank is 0", "at least 1"),
        (lambda: theory.initial_rounds((3, 3), True), "rank is True", "whole number"),
        (lambda: theory.initial_rounds((3, 3), 1.5), "rank is 1.5", "whole number"),
        (lambda: theory.initial_rounds((3, 3), "auto"), 'rank is "auto"', "one rank per mode"),
        (lambda: theory.initial_rounds((3, 3), (1, 1, 1)), "rank (1, 1, 1)", "2 modes"),
        (lambda: theory.initial_rounds((3, 3), (0, 1)), "the rank of mode 0 is 0", "1 to its size 3"),
        (lambda: theory.initial_rounds((3, 9), (5, 5)), "the rank of mode 0 is 5", "1 to its size 3"),
        (lambda: theory.initial_rounds((9, 9, 9), (5, 2, 2)), "no tensor has rank (5, 2, 2)", "at most 4"),
        (lambda: theory.initial_rounds((9,), (2,)), "no tensor has rank (2,)", "at most 1"),
        (lambda: theory.initial_rounds((3, 3), 1, C_0=0), "C_0 is 0", "above 0"),
        (lambda: theory.initial_rounds((3, 3), 1, exponent="x"), "exponent is 'x'", "'appendix'"),
        (lambda: theory.exploration_rounds((3, 3), 1, 0, [1, 1]), "horizon is 0", "at least 1"),
        (lambda: theory.exploration_rounds((3, 3), 1, 9, [1]), "sigma is [1]", "2 finite numbers above 0"),
        (lambda: theory.exploration_rounds((3, 3), 1, 9, [1, 0]), "sigma is [1, 0]", "above 0"),
        (lambda: theory.exploration_rounds((3, 3), 1, 9, [1, math.nan]), "sigma is [1, nan]", "above 0"),
        (lambda: theory.exploration_rounds((3, 3), 1, 9, 2.0), "sigma is 2.0", "one per mode"),
        (lambda: theory.exploration_rounds((3, 3), 1, 9, [1, 1], c_0=-1), "c_0 is -1", "above 0"),
        (lambda: theory.exploration_rounds((3, 3), 1, 9, [1, 1], power="all"), "power is 'all'", "'whole'"),
        (lambda: theory.exploitation_rounds(-1, (3, 3), 1, s_1=3), "k is -1", "at least 0"),
        (lambda: theory.exploitation_rounds(0, (3, 3), 1, s_1=0), "s_1 is 0", "at least 1"),
        (lambda: theory.exploitation_rounds(0, (3, 3), 1, s_1=1, C_2=math.inf), "C_2 is inf", "finite"),
        (lambda: theory.inside_coordinates((3, 3), (1,)), "rank (1,)", "2 modes"),
        (lambda: theory.perpendicular_penalty(0, 5), "horizon is 0", "at least 1"),
        (lambda: theory.perpendicular_penalty(5, 0), "q is 0", "at least 1"),
        (lambda: theory.perpendicular_penalty(5, 5, lambda_1=0), "lambda_1 is 0", "above 0"),
        (lambda: xi(delta=0), "delta is 0", "1/horizon"),
        (lambda: xi(delta=1), "delta is 1", "below 1"),
        (lambda: xi(delta=math.nan), "delta is nan", "below 1"),
        (lambda: xi(lambda_1=-1), "lambda_1 is -1", "above 0"),
        (lambda: xi(lambda_2=0), "lambda_2 is 0", "above 0"),
        (lambda: xi(norm_inside=-1), "norm_inside is -1", "at least 0"),
        (lambda: xi(norm_perpendicular=math.inf), "norm_perpendicular is inf", "finite"),
        (lambda: theory.table1_bound("thompson", (3, 3), 9), "policy is 'thompson'", "'estr'"),
        (lambda: theory.table1_bound("ucb", (3, 3), 0), "horizon is 0", "at least 1"),
        (lambda: theory.elimination_bound((3, 3), 1, 0, [1, 1]), "horizon is 0", "at least 1"),
        (lambda: theory.elimination_bound((3, 3), 1, 9, [1, -1]), "sigma is [1, -1]", "above 0"),
        (lambda: theory.elimination_bound((3, 3), 1, 9, [1, 1], C=0), "C is 0", "above 0"),
        (lambda: theory.epoch_greedy_bound((3, 3), 1, 0), "horizon is 0", "at least 1"),
        (lambda: theory.epoch_greedy_bound((3, 3), 1, 9, C_0=-2), "C_0 is -2", "above 0"),
        (lambda: theory.thompson_bayes_bound((3, 3), 0), "horizon is 0", "at least 1"),
        (lambda: theory.thompson_bayes_bound((3, 3), 9, entropy=3), "entropy is 3", "log(9)"),
        (lambda: theory.thompson_bayes_bound((3, 3), 9, entropy=-1), "entropy is -1", "nats"),
        (lambda: theory.thompson_bayes_bound((3, 3), 9, hellinger=-1), "hellinger is -1", "at least 0"),
    ],
)
def test_bad_input_is_named_with_a_remedy(call, given, remedy):
    with pytest.raises((ValueError, TypeError), match=r"[;:,] ") as error:
        call()
    assert given in str(error.value)
    assert remedy in str(error.value)


def test_numpy_numbers_are_welcome():
    shape = np.array([20, 20, 20])
    assert theory.initial_rounds(shape, np.int64(2)) == 127
    assert theory.exploration_rounds(shape, np.array([2, 2, 2]), np.int64(100_000), np.array(SIGMA)) == 1750

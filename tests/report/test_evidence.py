import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tensorbandits.report.evidence import below, how_section, judge, paired, regret_table, show_ratio, show_test
from tensorbandits.sim.compare import Comparison
from tensorbandits.sim.jobs import Run

RNG = np.random.default_rng(0)
LOW, HIGH = RNG.normal(10, 1, 30), RNG.normal(20, 2, 30)


def comparison(**finals):
    """One environment "here"; each policy's regret is half of its final one at round 50."""
    runs = [
        Run("here", name.replace("_", " "), i, np.array([50, 100]), np.array([value / 2, value]), 0.1)
        for name, values in finals.items()
        for i, value in enumerate(values)
    ]
    return Comparison(tuple(runs))


def test_without_a_common_scale_the_test_is_near_that_of_differences():
    pair = paired(LOW, HIGH)
    assert pair.low == LOW.mean()
    assert pair.ratio == pytest.approx(LOW.mean() / HIGH.mean())
    close = RNG.normal(10.4, 1, 30)
    t, p = paired(LOW, close).against(1.0)
    expected = stats.ttest_rel(LOW, close)
    assert t == pytest.approx(expected.statistic, rel=0.1)
    assert p == pytest.approx(expected.pvalue, rel=0.3)


def test_test_and_interval_agree():
    rng = np.random.default_rng(2)
    for shift in np.linspace(-1, 1, 41):
        pair = paired(10 + shift + rng.normal(0, 1, 30), 10 + rng.normal(0, 1, 30))
        t, p = pair.against(1.0)
        assert (p < 0.05) == (not pair.interval[0] <= 1 <= pair.interval[1])
        assert (t < 0) == (pair.ratio < 1)


def test_the_interval_of_a_ratio_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(1)
    shared = rng.normal(0, 1, (1000, 30))  # what both policies of a replication have in common
    hits = 0
    for common in shared:
        pair = paired(10 + common + rng.normal(0, 1, 30), 20 + 2 * common + rng.normal(0, 1, 30))
        hits += pair.interval[0] <= 0.5 <= pair.interval[1]
    assert 920 <= hits <= 975  # 950 expected, standard deviation 7


@given(st.lists(st.floats(1, 100), min_size=2, max_size=8), st.floats(0.1, 10))
def test_ratios_have_no_unit(values, unit):
    low = np.array(values)
    high = low[::-1] + np.arange(1, len(low) + 1)
    one, two = paired(low, high), paired(unit * low, unit * high)
    assert two.ratio == pytest.approx(one.ratio)
    assert two.interval == pytest.approx(one.interval, rel=1e-6)


def test_a_single_replication_is_not_tested():
    pair = paired(np.array([1.0]), np.array([2.0]))
    assert pair.ratio == 0.5
    assert judge([pair]) == "not decided"
    assert show_ratio(pair) == "0.50"
    assert "nothing can be tested" in show_test([pair])


def test_no_regret_at_all_decides_nothing_and_warns_of_nothing():
    none = paired(np.zeros(3), np.zeros(3))
    assert (none.ratio, judge([none])) == (1.0, "not decided")
    assert judge([paired(np.array([0.0, 1.0]), np.array([1.0, 2.0]))]) == "not decided"
    assert show_ratio(paired(np.ones(2), np.zeros(2))) == "unknown"


def test_ratios_without_spread_are_decided_without_warnings():
    assert judge([paired(np.ones(5), 2 * np.ones(5))]) == "holds"
    assert judge([paired(2 * np.ones(5), np.ones(5))]) == "does not hold here"
    assert judge([paired(np.ones(5), np.ones(5))]) == "not decided"
    assert paired(np.ones(5), np.ones(5)).against(1.0) == (0.0, 1.0)


def test_equal_policies_are_seldom_told_apart():
    """Either verdict on equal policies is an error of the first kind; the level is 5 %, both ways together."""
    rng = np.random.default_rng(3)
    verdicts = [judge([paired(rng.normal(10, 2, 30), rng.normal(10, 2, 30))]) for _ in range(1000)]
    assert 25 <= sum(verdict != "not decided" for verdict in verdicts) <= 80  # 50 expected, standard deviation 7


@pytest.mark.parametrize(
    ("low", "high", "most", "verdict"),
    [
        (LOW, HIGH, 1.0, "holds"),
        (HIGH, LOW, 1.0, "does not hold here"),
        (LOW, LOW[::-1] + 1e-3, 1.0, "not decided"),
        (LOW + 1e-3, LOW[::-1], 1.0, "not decided"),
        (LOW, HIGH, 0.6, "holds"),
        (LOW, HIGH, 0.4, "does not hold here"),
        (LOW, HIGH, 0.49, "not decided"),  # the ratio of the means is 0.4807
        (LOW, HIGH, 0.47, "not decided"),
        (LOW, LOW[::-1], 1.25, "holds"),
        (HIGH, LOW, 1.25, "does not hold here"),
    ],
)
def test_verdicts(low, high, most, verdict):
    claim = below("words", "source", comparison(a=low, b=high), "a", ["b"], most=most, why="because")
    assert claim.verdict == verdict
    assert claim.why == ("because" if verdict == "does not hold here" else "")


def test_a_mean_below_a_number_is_not_enough_beside_an_interval_with_it_inside():
    """One dear run among the others: the mean is a third, and might as well have been anything."""
    cheap, dear = np.full(10, 10.0), np.array([10.0] * 9 + [200.0])
    claim = below("at most 0.6", "source", comparison(a=cheap, b=dear), "a", ["b"], most=0.6, why="because")
    pair = paired(cheap, dear)
    assert pair.ratio < 0.6 < pair.interval[1]
    assert (claim.verdict, claim.why) == ("not decided", "")
    assert show_ratio(pair) in claim.measured


def test_one_rival_that_is_not_beaten_is_enough():
    claim = below("words", "source", comparison(a=LOW, b=HIGH, c=LOW - 1), "a", ["b", "c"])
    assert claim.verdict == "does not hold here"
    assert "weakest of 2 t-tests" in claim.test


def test_claims_can_be_about_an_earlier_round():
    claim = below("words", "source", comparison(a=LOW, b=HIGH), "a", ["b"], at=50)
    assert f"{LOW.mean() / 2:.3g} against" in claim.measured
    assert "after 50 rounds" in claim.measured


def test_the_table_has_the_lowest_regret_first():
    table = regret_table(comparison(b=HIGH, a=LOW), "b", "here", ["a", "b"])
    assert [row[0] for row in table.rows] == ["a", "b"]
    assert table.rows[1][-1] == "1.000"
    assert "100 rounds, 30 replications" in table.caption


def test_how_it_was_run_names_versions_and_no_machine():
    import platform

    words = how_section(7, 90.0, "").parts[0].words
    assert "seed 7 + i" in words
    assert "1.5 minutes" in words
    assert f"numpy {np.__version__}" in words
    assert platform.node() not in words

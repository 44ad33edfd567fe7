"""What a reward is said to cost."""

from dataclasses import replace

import numpy as np
import pytest

import tensorbandits as tb
from tensorbandits.policies.cost import MICROSECONDS, Workload, microseconds, terms_of, words
from tensorbandits.policies.registry import find, records

USUAL = Workload((12, 20, 8), 10_000, rank=2)
MODELLED = ["thompson", "ensemble", "elimination", "epoch-greedy", "ucb"]


@pytest.mark.parametrize("policy", MODELLED)
def test_more_levels_and_higher_ranks_cost_more(policy):
    shapes = [(12, 20, 8), (24, 20, 8), (24, 40, 30), (200, 200, 200)]
    by_size = [microseconds(policy, replace(USUAL, shape=shape)) for shape in shapes]
    assert by_size == sorted(by_size)
    by_rank = [microseconds(policy, replace(USUAL, rank=rank)) for rank in (1, 2, 3, 4)]
    assert by_rank == sorted(by_rank)


@pytest.mark.parametrize("policy", MODELLED)
@pytest.mark.parametrize("reward", ["gaussian", "bernoulli", "count"])
def test_a_longer_horizon_costs_more_in_all(policy, reward):
    horizons = [10, 100, 3_000, 10_000, 100_000, 10**7]
    total = [n * microseconds(policy, replace(USUAL, horizon=n, reward=reward)) for n in horizons]
    assert total == sorted(total)


def test_clicks_counts_and_revenue_cost_more_than_normal_rewards_and_arms_are_fewer_given_context():
    normal = microseconds("thompson", USUAL)
    for reward in ("bernoulli", "binomial", "count", "revenue", "revenue-signed"):
        assert microseconds("thompson", replace(USUAL, reward=reward)) > normal
    assert microseconds("ucb", replace(USUAL, context=(0, 1))) < microseconds("ucb", USUAL)


@pytest.mark.parametrize("shape", [(1,), (5,), (3, 1, 4), (2,) * 20, (6,) * 12, (10**4,) * 3, (70, 3, 80, 2, 2, 2)])
@pytest.mark.filterwarnings("ignore:rank")  # of what is slow
@pytest.mark.parametrize("structure", [None, "tucker", "affine", "additive", "pairs"])
@pytest.mark.parametrize("reward", ["gaussian", "bernoulli", "revenue"])
def test_there_is_a_figure_wherever_the_policy_can_be_made(shape, structure, reward):
    found = microseconds("thompson", Workload(shape, 1000, reward=reward, structure=structure))
    try:
        tb.TensorThompsonSampling(shape, structure=structure, reward=reward)
    except ValueError:
        assert found is None
    else:
        assert 0.0 < found < np.inf


@pytest.mark.parametrize("rate", [0.0, 1e-9, 0.5, 1.0])
def test_rates_at_the_ends_have_a_figure(rate):
    assert 0.0 < microseconds("thompson", replace(USUAL, reward="bernoulli", rate=rate)) < np.inf


def test_cells_are_at_most_as_many_as_rewards_and_as_there_are():
    rewards = np.geomspace(1.0, 1e6, 50)
    for work in (USUAL, replace(USUAL, reward="bernoulli", context=(0,))):
        cells = work.cells(rewards, numbers=100)
        assert (np.diff(cells) > 0.0).all()
        assert (cells <= np.minimum(rewards, 12 * 20 * 8)).all()


def test_every_constant_is_of_a_term_that_is_counted():
    works = [USUAL, replace(USUAL, rank="auto"), replace(USUAL, reward="bernoulli"), replace(USUAL, reward="count")]
    works += [replace(USUAL, reward="revenue", context=(0,)), Workload((5,) * 5, 1000), Workload((4,) * 10, 1000)]
    for policy, constants in MICROSECONDS.items():
        counted = {name for work in works for name in terms_of(policy, work)}
        assert set(constants) <= counted
        assert min(constants.values()) > 0.0


def test_nothing_is_said_where_there_is_no_model():
    assert [record.name for record in records() if record.microseconds(USUAL) is None] == ["estr"]
    assert terms_of("estr", USUAL) is None

    class Ours(tb.VectorizedUCB): ...

    assert find(Ours).microseconds(USUAL) is None


@pytest.mark.parametrize(
    ("cost", "text"),
    [
        (7.04, "7 microseconds"),
        (86.4, "86 microseconds"),
        (994.0, "990 microseconds"),
        (996.0, "1 milliseconds"),
        (14_633.0, "15 milliseconds"),
        (2.5e6, "2.5 seconds"),
        (4.2e8, "420 seconds"),
    ],
)
def test_figures_have_two_digits(cost, text):
    assert words(cost) == text

"""What every policy must do, run over the list in conformance.py."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import tensorbandits as tb

_spec = importlib.util.spec_from_file_location("conformance", Path(__file__).with_name("conformance.py"))
conformance = importlib.util.module_from_spec(_spec)
sys.modules["conformance"] = conformance
_spec.loader.exec_module(conformance)
POLICIES = conformance.POLICIES

SHAPES = [(5,), (4, 3), (3, 4, 2), (3, 2, 2, 3)]
CONTEXTS = [((4, 3), (0,)), ((3, 4, 2), (1,)), ((3, 4, 2), (2, 0)), ((3, 2, 2, 3), (0, 1, 3))]


@pytest.fixture(params=POLICIES, ids=lambda case: case.name)
def case(request):
    return request.param


def mean_of(shape, seed=0):
    rng = np.random.default_rng(seed)
    factors = [rng.standard_normal(p) for p in shape]
    result = np.ones(())
    for factor in factors:
        result = np.multiply.outer(result, factor)
    return result


def play(policy, rounds, *, mean=None, seed=1, scale=1.0, delay=0, lose=0.0):
    """Play some rounds with noisy rewards, told late, out of order, and some never; return the cells."""
    rng = np.random.default_rng(seed)
    mean = mean_of(policy.shape) if mean is None else mean
    cells, waiting = [], []
    for _ in range(rounds):
        levels = tuple(int(rng.integers(policy.shape[j])) for j in policy.context)
        cell = policy.ask(levels)
        assert tuple(cell[j] for j in policy.context) == levels
        assert len(cell) == len(policy.shape)
        assert all(type(i) is int and 0 <= i < p for i, p in zip(cell, policy.shape, strict=True))
        cells.append(cell)
        waiting.append((cell, scale * (mean[cell] + 0.5 * rng.standard_normal())))
        if len(waiting) > delay:
            cell, reward = waiting.pop(int(rng.integers(len(waiting))))
            if rng.random() >= lose:
                policy.tell(cell, reward)
    return cells


def same(one, two):
    """Compare nested states of dicts, lists, arrays and numbers."""
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(same(one[key], two[key]) for key in one)
    if isinstance(one, np.ndarray):
        return np.array_equal(one, two, equal_nan=True)
    if isinstance(one, (list, tuple)):
        return len(one) == len(two) and all(map(same, one, two))
    return one == two


@pytest.mark.parametrize("shape", [*SHAPES, (1,), (1, 1), (4, 1, 3), (2,) * 6], ids=str)
def test_any_order_works(case, shape):
    policy = case.make(shape)
    cells = play(policy, 60)
    assert policy.ledger.rounds == 60
    assert policy.ledger == _ledger_of(policy, cells)
    assert len(policy.best()) == len(shape)
    estimates = policy.estimate(cells[:5])
    assert estimates.shape == (5,)
    assert np.isfinite(estimates).all()


def _ledger_of(policy, cells):
    """The same cells and counts as were played; sums are the policy's own."""
    expected = tb.Ledger(policy.shape)
    for cell in cells:
        expected.add(cell, 0.0)
    counts = {entry.cell: entry.rounds for entry in expected}
    assert counts == {entry.cell: entry.rounds for entry in policy.ledger}
    return policy.ledger


@pytest.mark.parametrize(("shape", "context"), CONTEXTS, ids=str)
def test_context(case, shape, context):
    if not case.takes_context:
        with pytest.raises(ValueError, match=r"takes no context.*TensorThompsonSampling"):
            case.make(shape, context=context)
        return
    policy = case.make(shape, context=context)
    play(policy, 60)
    levels = tuple(shape[j] - 1 for j in context)
    assert tuple(policy.best(levels)[j] for j in context) == levels


@pytest.mark.parametrize("rank", [1, 3, (2, 2, 1), "auto"], ids=str)
def test_ranks(case, rank):
    if not case.takes_rank:
        pytest.skip("this policy has no rank")
    policy = case.make((4, 5, 3), rank=rank)
    play(policy, 80)
    assert np.isfinite(policy.estimate([(0, 0, 0)])).all()


def test_a_seed_decides_everything(case):
    shape = (3, 4, 2)
    assert play(case.make(shape, seed=3), 80) == play(case.make(shape, seed=3), 80)
    seeded = np.random.SeedSequence(5)
    assert play(case.make(shape, seed=seeded), 30) == play(case.make(shape, seed=np.random.SeedSequence(5)), 30)


def test_looking_changes_nothing(case):
    shape = (3, 4, 2)
    plain, looked_at = case.make(shape), case.make(shape)
    expected = play(plain, 40) + play(plain, 40, seed=2)
    cells = play(looked_at, 40)
    before = looked_at.state_dict()
    looked_at.best()
    looked_at.estimate([(0, 0, 0), (1, 1, 1)])
    assert same(before, looked_at.state_dict())
    assert cells + play(looked_at, 40, seed=2) == expected


def test_a_batch_equals_one_by_one(case):
    shape, context = (3, 4, 2), ((1,) if case.takes_context else ())
    one, many = case.make(shape, context=context), case.make(shape, context=context)
    rng = np.random.default_rng(0)
    for size in (1, 7, 30, 3, 50):
        levels = [tuple(int(rng.integers(shape[j])) for j in context) for _ in range(size)]
        cells = [one.ask(row) for row in levels]
        assert many.ask_many(levels if context else size) == cells
        rewards = rng.standard_normal(size)
        for cell, reward in zip(cells, rewards, strict=True):
            one.tell(cell, reward)
        many.tell_many(cells, rewards)
    assert same(one.state_dict(), many.state_dict())


def test_late_lost_and_unordered_rewards(case):
    shape = (3, 4, 2)
    policy = case.make(shape)
    cells = play(policy, 150, delay=20, lose=0.2)
    assert 0 < policy.ledger.rounds < 135
    assert len(cells) == 150
    silent = case.make(shape)
    assert len(play(silent, 40, lose=1.0)) == 40
    assert silent.ledger.rounds == 0
    assert len(silent.best()) == 3


def test_rewards_that_were_never_asked_for_are_kept(case):
    policy = case.make((3, 4, 2))
    policy.tell((1, 1, 1), 2.0)
    policy.tell_many([(0, 0, 0), (1, 1, 1)], [1.0, 3.0])
    assert policy.ledger[1, 1, 1].total == 5.0
    play(policy, 30)
    assert policy.ledger.rounds == 33


@pytest.mark.parametrize("rounds", [0, 3, 45, 120])
def test_a_saved_policy_goes_on_identically(case, rounds):
    shape = (3, 4, 2)
    policy = case.make(shape)
    play(policy, rounds, delay=5)
    state = policy.state_dict()
    again = tb.Policy.from_state_dict(state)
    assert type(again) is case.kind
    assert same(state, again.state_dict())
    assert play(policy, 60, seed=9) == play(again, 60, seed=9)
    assert policy.best() == again.best()


def test_a_state_holds_only_plain_things(case):
    """Arrays, numbers, strings, lists and dicts: what JSON with arrays beside it can hold (an own oracle aside)."""

    def plain(value):
        return (
            {k: plain(v) for k, v in value.items()}
            if isinstance(value, dict)
            else (value.tolist() if isinstance(value, np.ndarray) else value)
        )

    policy = case.make((3, 4, 2))
    play(policy, 70)
    state = policy.state_dict()
    state["arguments"].pop("oracle", None)
    assert json.loads(json.dumps(plain(state)))["policy"] == f"tensorbandits.{case.kind.__name__}"


def test_a_state_of_another_kind_or_version_is_refused(case):
    state = case.make((3, 4, 2)).state_dict()
    other = tb.VectorizedUCB if case.kind is not tb.VectorizedUCB else tb.TensorEpochGreedy
    with pytest.raises(ValueError, match="use that class, or Policy"):
        other.from_state_dict(state)
    with pytest.raises(ValueError, match="version"):
        case.kind.from_state_dict(state | {"version": 99})
    with pytest.raises(ValueError, match=r"lacks .*rng"):
        case.kind.from_state_dict({key: value for key, value in state.items() if key != "rng"})


@pytest.mark.parametrize("value", [0.0, 5.0, -1e9, 1e-9])
def test_constant_rewards(case, value):
    policy = case.make((3, 4, 2))
    for _ in range(80):
        policy.tell(policy.ask(), value)
    assert np.isfinite(policy.estimate([policy.best()])).all()


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_tiny_and_huge_rewards(case, scale):
    policy = case.make((3, 4, 2))
    play(policy, 120, scale=scale)
    assert np.isfinite(policy.estimate([policy.best()])).all()


@pytest.mark.parametrize("power", [-30, 30])
def test_the_unit_of_rewards_does_not_matter(case, power):
    """Multiplying all rewards by a power of two, which is exact, must not change a single choice."""
    if not case.scale_free:
        pytest.skip("this policy takes rewards as they are")
    shape = (3, 4, 2)
    assert play(case.make(shape), 120, scale=2.0**power) == play(case.make(shape), 120)


def test_far_more_observations_than_cells(case):
    policy = case.make((2, 2), horizon=4000)
    rng = np.random.default_rng(0)
    cells = rng.integers(2, size=(3000, 2))
    mean = np.array([[0.0, 1.0], [0.5, 3.0]])
    policy.tell_many(cells, mean[tuple(cells.T)] + rng.standard_normal(3000))
    assert play(policy, 50, mean=mean)
    if case.name != "epoch-greedy":  # which learns from its own uniform rounds only
        assert policy.best() == (1, 1)


def test_it_learns(case):
    """After many rounds on an easy problem, the cell believed best is a good one."""
    mean = 3.0 * np.multiply.outer([0.2, 1.0, -0.5, 0.1], [0.3, 1.2, -1.0])
    rounds = 3000 if case.name == "epoch-greedy" else 600  # it learns from its few uniform rounds only
    policy = case.make((4, 3), rank=1, horizon=rounds)
    cells = play(policy, rounds, mean=mean)
    assert mean[policy.best()] > 0.8 * mean.max()
    late = np.mean([mean[cell] for cell in cells[-100:]])
    assert late > (0.5 if case.name in ("epoch-greedy", "estr") else 0.7) * mean.max()


def bad_inputs(context):
    """Calls that must fail: (levels, error, message) for ask, (cell, reward, error, message) for tell."""
    nan, inf = float("nan"), float("inf")
    wrong_levels = [((), ValueError, "one level for each"), ((0, 0), ValueError, "one level for each")]
    out_of_range = [((9,), ValueError, "out of range; allowed are 0 to 3"), ((-1,), ValueError, "out of range")]
    asks = [*wrong_levels, *out_of_range, (("a",), TypeError, "whole numbers"), (("b"), TypeError, "sequence")]
    if not context:
        asks = [((0,), ValueError, "policy without context; call it without levels")]
    tells = [
        ((0, 1), 1.0, ValueError, "has 2 levels.*3 modes"),
        ((0, 1, 9), 1.0, ValueError, "mode 2 is 9, out of range; allowed are 0 to 1"),
        ((0, 1, 0.5), 1.0, TypeError, "whole numbers"),
        ((0, 1, 1), nan, ValueError, "reward is nan"),
        ((0, 1, 1), inf, ValueError, "reward is inf"),
        ((0, 1, 1), "1", TypeError, "not a number"),
        ((0, 1, 1), None, TypeError, "not a number"),
    ]
    return asks, tells


@pytest.mark.parametrize("with_context", [False, True])
def test_bad_input_is_refused_and_leaves_the_policy_as_it_was(case, with_context):
    if with_context and not case.takes_context:
        pytest.skip("this policy takes no context")
    context = (1,) if with_context else ()
    policy, twin = case.make((3, 4, 2), context=context), case.make((3, 4, 2), context=context)
    asks, tells = bad_inputs(context)
    play(policy, 40)
    play(twin, 40)
    for levels, error, match in asks:
        for call in (policy.ask, policy.best):
            with pytest.raises(error, match=match):
                call(levels)
        if levels != "b":
            with pytest.raises((ValueError, TypeError)):
                policy.ask_many([levels])
    for cell, reward, error, match in tells:
        with pytest.raises(error, match=match):
            policy.tell(cell, reward)
        with pytest.raises((ValueError, TypeError)):
            policy.tell_many([(0, 0, 0), cell], [0.0, reward])
    with pytest.raises(ValueError, match="one reward per cell"):
        policy.tell_many([(0, 0, 0)], [1.0, 2.0])
    with pytest.raises(ValueError, match=r"shape \(n, 3\)"):
        policy.estimate([(0, 0)])
    if with_context:
        with pytest.raises(ValueError, match="is a number; this policy has context modes"):
            policy.ask_many(3)
    assert same(policy.state_dict(), twin.state_dict())
    assert play(policy, 40, seed=4) == play(twin, 40, seed=4)


@pytest.mark.parametrize(
    ("shape", "error", "match"),
    [
        ((), ValueError, "at least one mode"),
        ((3, 0), ValueError, "mode 1 has size 0"),
        ((3, -1), ValueError, "mode 1 has size -1"),
        ((3, 2.5), TypeError, "whole numbers"),
        (7, TypeError, "one size per mode"),
        ("33", TypeError, "one size per mode"),
    ],
)
def test_bad_shapes(case, shape, error, match):
    with pytest.raises(error, match=match):
        case.make(shape)


@pytest.mark.parametrize(
    ("context", "match"),
    [((0, 1, 2), "nothing is left to decide"), ((5,), "does not exist"), ((0, 0), "twice"), ((-1,), "does not exist")],
)
def test_bad_contexts(case, context, match):
    with pytest.raises(ValueError, match=match if case.takes_context else "takes no context"):
        case.make((3, 4, 2), context=context)


@pytest.mark.parametrize(
    ("rank", "error", "match"),
    [
        (0, ValueError, "at least 1"),
        (-2, ValueError, "at least 1"),
        (1.5, TypeError, "whole number"),
        ("best", ValueError, '"auto"'),
        ((2, 2), ValueError, "2 entries.*3 modes"),
        ((4, 2, 2), ValueError, "rank of mode 0 is 4; allowed are 1 to its size 3"),
        ((0, 2, 2), ValueError, "rank of mode 0 is 0"),
        ((3, 1, 2), ValueError, "no tensor has rank.*lower it to at most 2"),
    ],
)
def test_bad_ranks(case, rank, error, match):
    if not case.takes_rank:
        pytest.skip("this policy has no rank")
    with pytest.raises(error, match=match):
        case.make((3, 4, 2), rank=rank)


@pytest.mark.parametrize("horizon", [0, -5, 1])
def test_a_horizon_that_is_too_short_is_refused(case, horizon):
    if not case.takes_horizon:
        pytest.skip("this policy needs no horizon")
    with pytest.raises(ValueError, match="horizon"):
        case.make((6, 6, 6), horizon=horizon)


def test_papers_values_at_once(case):
    if not hasattr(case.kind, "paper"):
        pytest.skip("the paper has no values for this policy")
    arguments = {"seed": 0} | ({"horizon": 4000} if case.takes_horizon else {})
    policy = case.kind.paper((4, 4, 3), 2, **arguments) if case.takes_rank else case.kind.paper((4, 4, 3), **arguments)
    play(policy, 60)
    assert policy.ledger.rounds == 60


def test_a_policy_and_a_world_of_the_same_seed_share_no_numbers(case):
    """Else a policy could start from the true factors, or explore in step with the contexts."""
    policy = case.make((5, 5, 5), seed=0)
    world = tb.TensorEnvironment(np.zeros((5, 5, 5)), context=(0,), seed=0)
    streams = [np.random.default_rng(0), world._context_rng, world._reward_rng]
    fresh = type(policy)(**policy._arguments(), seed=0)._rng.random(200)
    for rng in streams:
        assert not set(fresh) & set(rng.random(500))

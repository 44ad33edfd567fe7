"""Worlds of a log: the rewards paid are the log's own, as often as they occurred."""

import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorbandits as tb
from tensorbandits.data import from_log
from tensorbandits.sim import World
from tensorbandits.sim.log_world import Pool

pa = pytest.importorskip("pyarrow")


def log_of(rows):
    """The log of rows (a, b, c, reward)."""
    a, b, c, r = (list(column) for column in zip(*rows))
    return from_log(pa.table({"a": a, "b": b, "c": c, "r": r}), ["a", "b", "c"], "r")


def random_log(n=600, seed=0):
    rng = np.random.default_rng(seed)
    cells = rng.integers((3, 4, 5), size=(n, 3))
    rewards = rng.integers(0, 6, n) + cells.sum(axis=1)
    return log_of([*np.column_stack([cells, rewards]).tolist(), (2, 3, 9, 100)])


def test_rewards_come_as_often_as_in_the_log():
    log = random_log()
    env = log.world(shrinkage=0)(3)
    cells, values, counts = log.values()
    cell = (1, 2, 3)
    mine = (cells == cell).all(axis=1)
    drawn = Counter(env.pull(cell) for _ in range(20_000))
    assert set(drawn) == set(values[mine].tolist())
    for value, count in zip(values[mine], counts[mine]):
        assert drawn[value] / 20_000 == pytest.approx(count / counts[mine].sum(), abs=0.015)


@pytest.mark.parametrize("shrinkage", [0.0, 0.5, 20.0])
@pytest.mark.parametrize("min_count", [1, 11])
def test_means_are_those_of_what_is_paid(shrinkage, min_count):
    log = random_log()
    world = log.world(min_count=min_count, shrinkage=shrinkage)
    env = world(1)
    N, Y, _ = log.ledger.dense()
    kept = np.where(min_count <= N, N, 0)
    with np.errstate(invalid="ignore"):
        expected = (np.where(kept > 0, Y, 0) + shrinkage * log.ledger.mean) / (kept + shrinkage)
    expected = np.where(kept > 0, expected, log.ledger.mean)
    np.testing.assert_allclose(world.mean, expected, rtol=1e-12)
    pooled = set(log.values()[1].tolist())
    for cell in [(0, 0, 0), (0, 0, 5), (2, 3, 5), (1, 1, 1)]:  # the second has no reward, the third has one
        rewards = np.array([env.pull(cell) for _ in range(8_000)])
        assert set(rewards) <= pooled
        assert abs(rewards.mean() - env.mean_at(cell)) < 4.5 * max(rewards.std(), 0.01) / np.sqrt(8_000)


@pytest.mark.parametrize("standardise", [False, True])
def test_steadied_means_are_those_of_what_is_paid(standardise):
    log = random_log(200)
    world = log.world(standardise=standardise)
    env = world(1)
    pooled = {round(value, 9) for value in log.values()[1].tolist()}
    fullest = np.unravel_index(int(world.counts.argmax()), world.shape)
    for cell in [(0, 0, 5), (2, 3, 5), (1, 1, 1), tuple(map(int, fullest))]:
        rewards = np.array([env.pull(cell) for _ in range(8_000)])
        assert {round(value, 9) for value in (world.centre + world.scale * rewards).tolist()} <= pooled
        assert abs(rewards.mean() - env.mean_at(cell)) < 4.5 * rewards.std() / np.sqrt(8_000)


def clicks_log(shown=400, lucky=5, seed=0, shape=(6, 7, 5)):
    """Clicks of which a few cells have one impression and one click, others many and few."""
    rng = np.random.default_rng(seed)
    cells = np.argwhere(np.ones(shape))
    number = rng.integers(shown // 2, shown, len(cells))
    clicks = rng.binomial(number, 0.01 + 0.04 * (cells.sum(axis=1) / sum(shape)))
    chosen = rng.choice(len(cells), lucky, replace=False)
    number[chosen] = clicks[chosen] = 1
    table = {name: cells[:, j] for j, name in enumerate("abc")} | {"shown": number, "clicks": clicks}
    return from_log(pa.table(table), ["a", "b", "c"], "clicks", trials="shown"), cells[chosen]


def test_a_lucky_impression_makes_no_best_cell():
    log, chosen = clicks_log()
    raw, world = log.world(shrinkage=0), log.world()
    assert raw.mean.max() == 1.0
    assert world.mean.max() < 0.15
    assert (world.mean[tuple(chosen.T)] < 0.08).all()
    assert {world(0).pull(tuple(cell)) for cell in chosen for _ in range(200)} <= {0.0, 1.0}
    assert abs(world.mean - raw.mean)[world.counts > 100].max() < 0.05


def test_cells_that_differ_are_left_as_they_are_and_cells_that_do_not_are_not():
    rng = np.random.default_rng(1)
    cells = rng.integers((6, 7, 3), size=(40_000, 3))
    own, effects = rng.standard_normal((6, 7, 3)), rng.standard_normal(6)[:, None, None] + np.zeros((6, 7, 3))
    for mean, far in ((10 * own, 0.25), (effects, 0.1)):
        rewards = mean[tuple(cells.T)] + 3 * rng.standard_normal(len(cells))
        table = {name: cells[:, j] for j, name in enumerate("abc")} | {"r": rewards.round(2)}
        world = from_log(pa.table(table), ["a", "b", "c"], "r").world()
        assert np.sqrt(((world.mean - mean) ** 2).mean()) < far
        assert (world.shrinkage < 1) == (mean is not effects)


def test_a_cell_without_rewards_pays_what_its_levels_say():
    """A cell that was never shown has the mean of its row and column, not of the whole log."""
    cells = [(i, j, 0) for i in range(4) for j in range(4) if (i, j) != (3, 3)] * 20
    log = log_of([(*cell, 10 * cell[0] + cell[1]) for cell in cells] + [(0, 0, 1, 0)])
    assert log.world().mean[3, 3, 0] > 27
    assert log.world(shrinkage=0).mean[3, 3, 0] == pytest.approx(log.ledger.mean)


def test_a_world_of_equal_rewards_pays_them():
    log = log_of([(i, j, k, 2.5) for i in range(2) for j in range(2) for k in range(2)])
    world = log.world()
    np.testing.assert_allclose(world.mean, 2.5)
    assert world(0).pull((0, 1, 1)) == 2.5


def test_a_cell_without_rewards_draws_from_all():
    log = random_log(300)
    env = log.world(shrinkage=0)(0)
    drawn = {env.pull((0, 0, 5)) for _ in range(20_000)}
    assert drawn == set(log.values()[1].tolist())


@pytest.mark.slow
@given(
    st.lists(st.tuples(*[st.integers(0, 1)] * 3, st.integers(-4, 4)), min_size=1, max_size=30),
    st.floats(0, 5),
    st.integers(1, 3),
    st.booleans(),
)
def test_every_reward_is_one_of_the_log(rows, shrinkage, min_count, standardise):
    rows = [(0, 0, 0, 1), (1, 1, 1, 2), (1, 1, 1, 2), (1, 1, 1, 3), *rows]
    log = log_of(rows)
    world = log.world(min_count=min_count, shrinkage=shrinkage, standardise=standardise)
    env = world(0)
    paid = {world.centre + world.scale * env.pull(cell) for cell in np.ndindex(2, 2, 2) for _ in range(5)}
    assert {round(value, 9) for value in paid} <= {float(row[3]) for row in rows}


def test_standardised_worlds():
    log = random_log()
    world, plain = log.world(standardise=True, shrinkage=2.0), log.world(shrinkage=2.0)
    within, freedom = log.ledger.repeats()
    assert world.centre == pytest.approx(log.ledger.mean)
    assert world.scale == pytest.approx(np.sqrt(within / freedom))
    assert (plain.centre, plain.scale, world.noise) == (0.0, 1.0, pytest.approx(1.0))
    assert plain.noise == pytest.approx(world.scale)
    np.testing.assert_allclose(world.centre + world.scale * world.mean, plain.mean)
    one, two = world(4), plain(4)
    for cell in np.ndindex(3, 4, 5):
        assert world.centre + world.scale * one.pull(cell) == pytest.approx(two.pull(cell))


def test_a_world_without_spread_has_scale_one():
    world = log_of([(0, 0, 0, 5), (1, 1, 1, 7)]).world(standardise=True)
    assert (world.centre, world.scale, world.noise) == (6.0, 1.0, 0.0)


def test_clicks_are_ones_and_zeros():
    table = pa.table({"a": [0, 1, 1], "b": [0, 0, 1], "clicks": [0, 3, 2], "shown": [5, 4, 2]})
    world = from_log(table, ["a", "b"], "clicks", trials="shown").world(shrinkage=0)
    assert world.mean.tolist() == [[0.0, 5 / 11], [0.75, 1.0]]
    env = world(0)
    assert {env.pull((1, 0)) for _ in range(50)} == {0.0, 1.0}


# Contexts.


def test_contexts_come_as_often_as_in_the_log():
    log = random_log()
    N = log.ledger.dense()[0]
    for context in (["c", "a"], [2, 0], ["c", 0]):
        env = log.world(context)(0)
        assert env.context_modes == (2, 0)
        drawn = Counter(env.context() for _ in range(20_000))
        joint = N.sum(axis=1).T / N.sum()
        assert set(drawn) <= set(map(tuple, np.argwhere(joint > 0).tolist()))
        for levels, count in drawn.items():
            assert count / 20_000 == pytest.approx(joint[levels], abs=0.015)


def test_contexts_do_not_depend_on_what_is_played():
    world = random_log().world(["a"], shrinkage=1.0)
    one, two = world(5), world(5)
    for t in range(50):
        assert one.context() == two.context()
        one.pull((0, 0, 0))
        for _ in range(t % 3):
            two.pull((1, 1, 5))


def test_the_stream_of_rewards_does_not_depend_on_what_is_played():
    world = random_log().world(shrinkage=3.0)
    one, two = world(5), world(5)
    for cell in np.ndindex(3, 4, 5):
        one.pull(cell)
        two.pull((2, 3, 5))
    assert one.pull((0, 0, 0)) == two.pull((0, 0, 0))


# As an environment.


def test_worlds_are_pickled_and_repeat_themselves():
    world = random_log().world(["b"], shrinkage=1.0)
    copy = pickle.loads(pickle.dumps(world))
    one, two = world(7), copy(7)
    assert [(one.context(), one.pull((1, 1, 1))) for _ in range(30)] == [
        (two.context(), two.pull((1, 1, 1))) for _ in range(30)
    ]


def test_policies_are_compared_in_a_world():
    world = random_log().world(["a"], standardise=True)
    results = [
        tb.compare(
            {"ucb": lambda seed: tb.VectorizedUCB((3, 4, 6), context=(0,), seed=seed)},
            world,
            horizon=60,
            replications=2,
            n_jobs=jobs,
        )
        for jobs in (1, 2)
    ]
    assert [run.final for run in results[0].runs] == [run.final for run in results[1].runs]
    assert all(run.final > 0 for run in results[0].runs)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"context": ["d"]}, ValueError, r"context names the mode 'd'.*the modes are \['a', 'b', 'c'\]"),
        ({"context": [3]}, ValueError, "context mode 3 does not exist"),
        ({"context": "ab"}, TypeError, "context is 'ab'; give a list"),
        ({"context": ["a", 0]}, ValueError, "twice"),
        ({"context": ["a", "b", "c"]}, ValueError, "nothing is left to decide"),
        ({"min_count": 0}, ValueError, "min_count is 0"),
        ({"min_count": 10**6}, ValueError, r"no cell has at least min_count = 1000000.*fullest has \d+; lower"),
        ({"shrinkage": -1.0}, ValueError, "shrinkage is -1.0.*at least 0"),
        ({"shrinkage": float("nan")}, ValueError, "shrinkage is nan"),
    ],
)
def test_bad_input_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        random_log().world(**arguments)


def test_more_cells_than_can_be_written_out_are_refused():
    n = 500
    log = from_log(pa.table({name: list(range(n)) for name in "abcr"}), ["a", "b", "c"], "r")
    with pytest.raises(ValueError, match=r"1.25e\+08 cells.*keep fewer levels with top="):
        log.world()


def test_a_world_says_what_it_is():
    log = random_log()
    world = log.world(["b"])
    assert isinstance(world, World)
    np.testing.assert_array_equal(world.mean, World.of(log, ["b"]).mean)
    assert repr(world) == "World(shape=(3, 4, 6), context=(1,), rewards=601)"


def test_an_environment_of_a_log_says_that_its_rewards_are_those_of_a_log():
    assert random_log().world()(0).family == "log"


def test_only_logs_make_worlds():
    with pytest.raises(TypeError, match="the log is a ndarray; give one that from_log has read"):
        World.of(np.zeros((2, 2)))


@pytest.mark.parametrize(("values", "mean", "found"), [([1.0, 2.0, 5.0], 6.0, 5.0), ([0.1, 0.7, 1.3], -2.0, 0.1)])
def test_no_mean_of_a_pool_lies_beyond_all_rewards(values, mean, found):
    pool = Pool.of(np.array(values), np.full(3, 700), np.array([mean, np.mean(values)]))
    np.testing.assert_allclose(pool.means(), [found, np.mean(values)], rtol=1e-9)
    assert {pool.draw(uniform, (0,)) for uniform in (0.0, 0.5, 0.999)} == {found}

"""Suites of whole applications: a programme of six modes, many modes, and the ring of a bandit beside its policy."""

import numpy as np
import pytest

import tensorbandits as tb
from benchmarks.library import modes, programme, ring
from benchmarks.library.programme_rivals import LinearThompson, LogisticPrices
from benchmarks.paper.worlds import Programme
from benchmarks.store import Options, Store
from tests.benchmarks.test_benchmarks import run

SMALL = (3, 3, 2, 5, 3, 3)
LEVELS = (2, programme.DESKTOP, 1)


def test_about_three_of_a_hundred_buy_at_random_and_discounts_cost():
    env = Programme()(5)
    assert env.shape == (12, 3, 4, 28, 5, 3)
    assert 0.015 < env.rates.mean() < 0.05
    ratio = env.medians[..., 4, :] / env.medians[..., 0, :]
    assert ratio == pytest.approx(np.full(ratio.shape, 0.7))
    first = [env.context()[0] for _ in range(4_000)].count(0)
    assert first / 4_000 == pytest.approx(1 / sum(1 / k for k in range(1, 13)), abs=0.03)  # countries differ in size
    assert np.array_equal(env.mean, Programme()(5).mean)


def test_rivals_keep_the_rules_and_shares_that_the_bandit_keeps():
    values, rng = np.random.default_rng(0).random(SMALL[3:]), np.random.default_rng(1)
    values[:, -1] += 1.0  # whoever has these would always give the largest discount
    shares = programme.Shares(SMALL, creatives=4)
    played = [shares.draw(values, LEVELS, rng) for _ in range(4_000)]
    assert all(shares.allowed(LEVELS)[arm] for arm in played)
    assert not any(creative == 4 or channel == programme.PUSH for creative, _, channel in played)
    largest = np.mean([discount == 2 for _, discount, _ in played])
    assert largest == pytest.approx(programme.CEILING, abs=0.025)
    means = np.random.default_rng(2).random(SMALL[3:])
    earned, blind = shares.earned(means, values, LEVELS)
    assert earned == pytest.approx(np.mean([means[arm] for arm in played]), abs=0.02)
    assert blind == pytest.approx(means[shares.allowed(LEVELS)].mean())
    player = programme.BanditPlayer(SMALL, 4, seed=0)
    cells = [player.ask(LEVELS)[1] for _ in range(200)]
    assert all(cell[:3] == LEVELS and shares.allowed(LEVELS)[cell[3:]] for cell in cells)
    player.add(4)
    assert player.bandit.space.shape == SMALL


@pytest.mark.parametrize("model", [LinearThompson, LogisticPrices])
def test_a_rival_learns_main_effects_of_revenue(model):
    rng, one = np.random.default_rng(0), model(SMALL)
    rates = 0.1 + 0.2 * np.arange(3)  # by discount
    for _ in range(4_000):
        cell = tuple(int(rng.integers(size)) for size in SMALL)
        one.tell(cell, float(rng.random() < rates[cell[4]]) * (1.0 + cell[5]) * 10.0)
    drawn = np.mean([one.values((0, 0, 0), rng) for _ in range(50)], axis=0)
    truth = 10.0 * rates[:, None] * (1.0 + np.arange(3))
    assert np.unravel_index(drawn.argmax(), drawn.shape)[1:] == (2, 2)
    assert np.corrcoef(drawn.mean(axis=0).ravel(), truth.ravel())[0, 1] > (0.9 if model is LinearThompson else 0.98)


def test_what_is_possible_is_above_what_is_played_and_rewards_come_late():
    settings = {"player": "linear", "seed": 5, "rounds": 200, "day": 20}
    result = programme.measure(settings)
    assert {name: len(result[name]) for name in ("earned", "possible", "random")} == {
        "earned": 10,
        "possible": 10,
        "random": 10,
    }
    assert sum(result["random"]) < sum(result["possible"])
    assert all(one < two for one, two in zip(result["random"], result["possible"], strict=True))
    env, told = Programme()(5), []

    class Listening:
        def ask(self, levels):
            return len(told), (*levels, 0, 0, 0)

        def tell(self, decision, reward):
            told.append(decision)

        def add(self, creative):
            assert creative in (25, 26, 27)

    programme.play(Listening(), env, settings | {"rounds": 100})
    assert told[0] == 0
    assert len(told) == 100 - 2 * 20


@pytest.mark.parametrize(
    ("suite", "rows"), [pytest.param(programme, "rows", marks=pytest.mark.slow), (modes, "played"), (ring, "rows")]
)
def test_quick_runs_report_every_player(suite, rows, tmp_path):
    result = run(suite.NAME, "--quick", "--jobs", "1", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    store, options = Store(tmp_path, suite.NAME), Options(quick=True, fresh_seed=0)
    assert all(settings in store for settings in suite.plan(options))
    expected = {"programme": len(programme.LABELS), "modes": len(modes.KINDS), "ring": len(ring.RINGS)}
    assert len(suite.section(store, options)[1][rows]) == expected[suite.NAME]


def test_players_and_beds_that_are_not_there_are_refused():
    with pytest.raises(ValueError, match="nobody unknown in programme; choose from default"):
        programme.plan(Options(only="linear,nobody"))
    with pytest.raises(ValueError, match="no bed nowhere in ring"):
        ring.plan(Options(beds="nowhere"))
    assert {settings["player"] for settings in programme.plan(Options(only="linear"))} == {"linear"}


def test_a_ring_of_one_is_the_policy_itself():
    settings = {"bed": "paper", "seed": 3, "rounds": 60}
    alone, one, many = (ring.measure(settings | {"ring": size})["regret"] for size in (0, 1, 16))
    assert alone == one != many


def test_rings_are_judged_by_the_differences_from_their_policy(tmp_path):
    store, options = Store(tmp_path, "ring"), Options(quick=True)
    for settings in ring.plan(options):
        more = 0.0 if not settings["ring"] else settings["ring"] + settings["seed"] % 2
        loss = 100.0 + 50.0 * (settings["seed"] % 2) + more
        store.add(settings, {"regret": loss, "tenths": [loss / 10] * 10, "microseconds": 5.0}, 1.0)
    rows = ring.section(store, options)[1]["rows"]
    assert [row[7:9] for row in rows] == [["–", "–"], ["4.5 ± 0.5", "1.04"], ["16.5 ± 0.5", "1.13"]]


def test_the_searched_tensors_have_the_spread_they_say_and_rules_leave_a_cell():
    rng = np.random.default_rng(0)
    for rank in (None, 2):
        values = [modes.tensor((3, 4, 5), 0.8, rank, rng).full() for _ in range(200)]
        assert np.mean([one.var() for one in values]) == pytest.approx(modes.MAIN**2 + 0.8**2, rel=0.35)
    allowed = modes._allowed((2,) * 6, 40, rng)
    assert allowed.permits((0,) * 6)
    found = modes.search({"shape": "2^20", "rank": None, "pairs": 0.8, "rules": 5, "tensors": 2, "seed": 0})
    assert found["proved"] == len(found["times"]) == 2


@pytest.mark.parametrize("reward", modes.KINDS)
def test_worlds_of_many_modes_are_main_effects_and_pairs(reward):
    mean = modes.world((2,) * 5, reward, 3).mean
    assert isinstance(modes.world((2,) * 5, reward, 3), tb.TensorEnvironment)
    values = np.log(mean / (1 - mean)) if reward == "bernoulli" else mean
    signs = np.array([-1.0, 1.0])
    triple = np.einsum("abcde,a,b,c->de", values, signs, signs, signs)
    assert np.abs(triple).max() < 1e-9
    assert values.std() == pytest.approx(np.hypot(modes.MAIN, modes.PAIRS), rel=0.35)

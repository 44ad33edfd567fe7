"""A decider draws each arm with exactly the probability that it says, and with that of the bandit itself."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy import stats

import tensorbandits as tb
from tensorbandits.bandit.commands import Ask
from tensorbandits.decider.arms import ReadySnapshot
from tensorbandits.decider.tokens import TokenKeys
from tests.decider.published import MODES, decider, told

SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "floors": {"floors": 0.2},
    "floors of some": {"floors": [({"channel": "sms"}, 0.1), ({"offer": "c"}, 0.15)]},
    "overlapping floors": {"floors": [({"offer": "a"}, 0.1), ({"channel": "mail"}, 0.1), ({}, 0.1)]},
    "holdout": {"holdout": 0.3},
    "holdout with a baseline": {"holdout": 0.3, "baseline": {"offer": "a", "channel": "mail"}, "floors": 0.1},
    "ceilings": {"ceilings": [({"offer": "b"}, 0.3)], "floors": 0.1, "holdout": 0.1},
    "all floors": {"floors": 1.0},
    "paused": {"paused": True, "baseline": [({"offer": "a"}, 0.5), ({}, 0.5)], "floors": 0.1},
    "paused with a holdout": {"paused": True, "holdout": 0.2},
}
ALLOWED = (None, {"offer": ["a", "video"]}, {"channel": ["sms"]}, {"offer": ["c"], "channel": ["push"]})


def chances_of(bandit: tb.Bandit, ask: Ask) -> dict[tuple[int, ...], float]:
    """The probabilities of all arms as the bandit's own snapshot says them: the plain twin."""
    shape = bandit.space.shape
    cells = [(ask.levels[0], offer, channel) for offer in range(shape[1]) for channel in range(shape[2])]
    law = bandit._core.current().law(ask)
    draws = bandit._core.current().draws
    allowed = law.query.allowed
    fine = [cell for cell in cells if allowed is None or allowed.permits(cell)]
    if law.paused:
        return {cell: law.baseline.probability(cell) for cell in fine}
    return {cell: law.probability(draws, cell) for cell in fine}


@pytest.mark.parametrize("name", SETTINGS)
def test_the_intervals_of_arms_are_as_long_as_their_propensities(name: str) -> None:
    bandit = told(**SETTINGS[name])
    bandit.retire_level("offer", "c") if name == "floors" else None
    published = bandit.snapshot(name="offers", draws=16)  # the bandit's own
    ready = ReadySnapshot(published, TokenKeys({"a": bytes(16)}))
    rng = np.random.default_rng(0)
    for segment in (0, 3):
        for allowed in ALLOWED:
            chosen = (
                ()
                if allowed is None
                else tuple(sorted((at, tuple(levels)) for at, levels in bandit.space.allowed(allowed).items()))
            )
            ask = Ask((segment,), chosen)
            try:
                wanted = chances_of(bandit, ask)
            except ValueError:
                with pytest.raises(ValueError, match="retired"):
                    ready.request(ask)
                continue
            request = ready.request(ask)
            found: Counter[tuple[int, ...]] = Counter()
            said: dict[tuple[int, ...], float | None] = {}
            for at in ((np.arange(3_000) + 0.5) / 3_000).tolist():
                drawn = request.draw(at, rng).drawn
                found[drawn.cell] += 1
                said[drawn.cell] = drawn.propensity
            for cell, chance in wanted.items():
                assert found[cell] / 3_000 == pytest.approx(chance, abs=8 / 3_000), (name, ask, cell)
                assert said.get(cell, chance) == pytest.approx(chance, abs=1e-12)
            assert sum(wanted.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("count", [4_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_arms_come_as_often_as_they_say_in_twenty_contexts(count: int) -> None:
    modes = {"segment": [f"s{i}" for i in range(20)], "offer": ["a", "b", "c"], "channel": ["mail", "sms"]}
    space = tb.Space(modes, context=["segment"])
    space.forbid(offer="c", channel="sms")
    bandit = tb.Bandit(space, reward="bernoulli", rank=1, floors=0.1, holdout=0.2, seed=3)
    rng = np.random.default_rng(5)
    for _ in range(60):
        one = bandit.ask(segment=f"s{rng.integers(20)}")
        bandit.tell(one.id, int(rng.random() < 0.5))
    values = []
    with decider(bandit.snapshot(name="offers"), seed=11) as deciding:
        for segment in modes["segment"]:
            found: Counter[tuple[Any, ...]] = Counter()
            said: dict[tuple[Any, ...], float] = {}
            for _ in range(count):
                one = deciding.ask(segment=segment)
                key = tuple(one.arm.values())
                found[key] += 1
                assert one.propensity is not None
                said[key] = one.propensity
            assert sum(said.values()) == pytest.approx(1.0)  # each of the five arms has come
            assert len(said) == 5
            expected = np.array([said[key] * count for key in said])
            values.append(stats.chisquare([found[key] for key in said], expected * count / expected.sum()).pvalue)
    assert stats.kstest(values, "uniform").pvalue > 1e-4
    assert min(values) > 1e-5


@pytest.mark.parametrize("rollout", [0.0, 0.25, 1.0])
def test_an_apprentice_decides_the_share_that_it_may(rollout: float) -> None:
    bandit = told(apprentice=True, rollout=rollout, floors=0.1)
    played, count = {"offer": "c", "channel": "push"}, 4_000
    with decider(bandit.snapshot(name="offers")) as deciding:
        found = [deciding.ask(segment="s1", played=played, propensity=0.5) for _ in range(count)]
        with pytest.raises(ValueError, match="say which arm your own rule plays"):
            deciding.ask(segment="s1")
        with pytest.raises(ValueError, match="propensity"):
            deciding.ask(segment="s1", played=played, propensity=2.0)
    by = Counter(one.by for one in found)
    assert by["caller"] / count == pytest.approx(1.0 - rollout, abs=0.04)
    for one in found:
        if one.by == "caller":
            assert (one.arm, one.propensity) == (played, 0.5)
        else:
            assert one.would == one.arm
        assert set(one.would) == {"offer", "channel"}
    with decider(told().snapshot()) as plain, pytest.raises(ValueError, match="this bandit is no apprentice"):
        plain.ask(segment="s1", played=played)


def test_a_paused_apprentice_lets_the_callers_rule_decide() -> None:
    bandit = told(apprentice=True, rollout=1.0)
    bandit.change(paused=True)
    with decider(bandit.snapshot(name="offers")) as deciding:
        made = {deciding.ask(segment="s1", played={"offer": "c", "channel": "push"}).by for _ in range(50)}
    assert made == {"caller"}


def test_the_same_seed_decides_alike_and_ids_differ() -> None:
    snapshot = told(floors=0.2).snapshot(name="offers")
    with decider(snapshot, seed=5) as one, decider(snapshot, seed=5) as two, decider(snapshot, seed=6) as three:
        contexts = [{"segment": f"s{at % 5}"} for at in range(300)]
        first, second, third = (each.ask_many(contexts) for each in (one, two, three))
    assert [each.arm for each in first] == [each.arm for each in second] != [each.arm for each in third]
    assert len({each.id for each in [*first, *second, *third]}) == 900
    assert MODES["segment"] == sorted({str(each.context["segment"]) for each in first})

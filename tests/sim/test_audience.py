"""People who are simulated: rates are what they are said to be, and clicks come when they are said to come."""

import math

import numpy as np
import pytest

import tensorbandits as tb


@pytest.fixture
def space():
    modes = {"segment": ["new", "old"], "offer": list("abc"), "channel": ["mail", "sms"]}
    return tb.Space(modes, context=["segment"])


def decided(number, context, **arm):
    return tb.Decision(str(number), arm, context, None, "policy", "", 0.0)


def test_rates_are_main_effects_and_an_interaction_of_rank_two(space):
    people = tb.Audience(space, rate=0.2, effects=0.3, interaction=0.7, seed=3)
    rates = np.array([people.rate(space.labels(cell)) for cell in np.ndindex(space.shape)]).reshape(space.shape)
    numbers = [
        np.array([people._of(mode, label) for label in labels]) for mode, labels in zip(space.modes, space.levels)
    ]
    plain = np.empty(space.shape)
    for cell in np.ndindex(space.shape):
        rows = [some[level] for some, level in zip(numbers, cell)]
        mixed = sum(math.prod(row[1 + r] for row in rows) for r in range(2)) / math.sqrt(2)
        plain[cell] = math.log(0.2 / 0.8) + 0.3 * sum(row[0] for row in rows) + 0.7 * mixed
    np.testing.assert_allclose(np.log(rates / (1 - rates)), plain)


def test_the_best_rate_is_that_of_what_is_allowed(space):
    people = tb.Audience(space, effects=1.0, seed=0)
    for _ in range(3):
        for segment in ("new", "old"):
            arms = [space.labels((space.level("segment", segment), o, c)) for o in range(3) for c in range(2)]
            rules = [rule["forbid"].items() for rule in space.rules]
            allowed = [arm for arm in arms if not any(rule <= arm.items() for rule in rules)]
            best = max(allowed, key=people.rate)
            assert people.best_rate({"segment": segment}) == pytest.approx(people.rate(best))
        space.forbid(best)


def test_a_level_keeps_its_rate_when_others_are_added(space):
    people = tb.Audience(space, seed=1)
    before = people.rate({"segment": "new", "offer": "a", "channel": "sms"})
    space.add_level("offer", "d")
    assert people.rate({"segment": "new", "offer": "a", "channel": "sms"}) == before
    assert people.rate({"segment": "new", "offer": "d", "channel": "sms"}) != before


def test_clicks_are_as_many_as_rates_say_some_lost_some_twice(space):
    people = tb.Audience(space, rate=0.3, delay=50.0, lost=0.2, twice=0.25, pace=2.0, seed=0)
    made, arrived = 0, []
    for number in range(4_000):
        context = people.visit()
        made += people.show(decided(number, context, offer="abc"[number % 3], channel="mail"))
        arrived += people.clicks()
    people.wait(5_000.0)
    arrived += people.clicks()
    assert people.shown == 4_000
    assert people.now == 13_000.0
    assert abs(made - people.earned) < 4 * math.sqrt(people.earned)
    assert people.earned < people.possible
    assert abs(len(set(arrived)) - 0.8 * made) < 4 * math.sqrt(0.16 * made)
    assert abs(len(arrived) - 1.25 * len(set(arrived))) < 4 * math.sqrt(0.19 * len(set(arrived)))


def test_clicks_arrive_in_order_and_later(space):
    people = tb.Audience(space, rate=0.9, delay=100.0, seed=0)
    people.show(decided(0, people.visit(), offer="a", channel="mail"))
    assert people.clicks() == []
    for number in range(1, 300):
        people.show(decided(number, people.visit(), offer="a", channel="mail"))
        for clicked in people.clicks():
            assert int(clicked) <= number


def test_retired_segments_come_no_more(space):
    people = tb.Audience(space, seed=0)
    space.retire_level("segment", "old")
    assert {people.visit()["segment"] for _ in range(30)} == {"new"}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"rate": 0}, "rate is 0"),
        ({"rate": 1.5}, "rate is 1.5"),
        ({"effects": -1}, "effects is -1"),
        ({"delay": 0}, "delay is 0"),
        ({"lost": 2}, "lost is 2"),
        ({"twice": math.nan}, "twice is nan"),
        ({"pace": "fast"}, "pace is 'fast'"),
    ],
)
def test_what_cannot_be_is_refused(space, wrong, words):
    with pytest.raises((TypeError, ValueError), match=words):
        tb.Audience(space, **wrong)


def test_a_space_is_wanted():
    with pytest.raises(TypeError, match="give a Space"):
        tb.Audience({"segment": ["new"]})

"""What decisions are drawn from: new draws are prepared before they are used, and memory of decisions stops nobody."""

import gc

import numpy as np
import pytest

import tensorbandits as tb
from tensorbandits.bandit import law as laws
from tensorbandits.bandit.commands import AddLevel, Ask
from tensorbandits.bandit.core import Core
from tensorbandits.bandit.making import new_state

SPACE = {"segment": ["new", "old"], "offer": ["a", "b", "c"], "channel": ["mail", "sms"]}


@pytest.fixture
def core():
    core = Core(new_state(tb.Space(SPACE, context=["segment"]), "thompson", rank=1, seed=0, time=0.0), 4)
    core.learner.refresh(wait=True)
    return core


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def searches(monkeypatch):
    """The requests for which best arms were searched, one for each time."""
    found = []
    original = laws.Draws.best

    def best(self, numbers, query):
        found.append(tuple(query.fixed.tolist()))
        return original(self, numbers, query)

    monkeypatch.setattr(laws.Draws, "best", best)
    return found


def test_laws_of_recent_requests_are_worked_out_before_new_draws_are_used(core, searches, rng):
    before = core.snapshot
    before.decide(Ask((0,)), rng)
    searches.clear()
    core.learner.refresh(wait=True, ahead=True)
    assert searches == [(0, -1, -1)]  # of the one request that came, and of no other
    assert core.snapshot is not before
    core.snapshot.decide(Ask((0,)), rng)
    before.decide(Ask((0,)), rng)  # by a thread that has the draws of before: they are not searched again either
    assert len(searches) == 1
    core.snapshot.decide(Ask((1,)), rng)
    assert len(searches) == 2


def test_requests_of_long_ago_are_not_prepared_for(core, searches, rng):
    core.snapshot.decide(Ask((0,)), rng)
    core.learner.refresh(wait=True)
    core.snapshot.decide(Ask((1,)), rng)
    searches.clear()
    core.learner.refresh(wait=True, ahead=True)
    assert searches == [(1, -1, -1)]


def test_who_asks_prepares_nothing_for_others(core, searches, rng):
    core.snapshot.decide(Ask((0,)), rng)
    searches.clear()
    core.learner.refresh(wait=True)
    assert searches == []


def test_new_draws_after_a_new_level_are_as_many_and_none_is_taken_for_one_of_before(core, rng):
    with core.learner.still():  # the learner is busy: until it has drawn anew, draws of before are widened
        core.apply(core.state.plan(AddLevel("offer", "new"), 1.0))
        core.current().decide(Ask((0,)), rng)
        before = core.snapshot.draws
    core.learner.take_in()
    core.learner.refresh(wait=True, ahead=True)
    draws, law = core.snapshot.draws, core.snapshot.law(Ask((0,)))
    assert draws.shape == (2, 4, 2)
    assert len(draws.numbers) == draws.size == 4
    assert not set(draws.numbers) & set(before.numbers)
    best = draws.best(draws.numbers, law.query)
    assert law.law(draws) == {cell: best.count(cell) / 4 for cell in best}


def test_draws_that_are_ahead_of_the_snapshot_wait_for_it(core, monkeypatch):
    sync, learned = Core.sync, []

    def late(self):  # the learner has the new level, and publishes, before the snapshot knows it
        learned.append(core.learner.refresh(wait=True, ahead=True))
        sync(self)

    monkeypatch.setattr(Core, "sync", late)
    core.apply(core.state.plan(AddLevel("offer", "new"), 1.0))
    monkeypatch.undo()
    assert learned == [True]
    assert core.snapshot.draws.numbers == core.learner.draws.numbers
    assert core.snapshot.draws.shape == core.snapshot.shape == (2, 4, 2)


def test_decisions_that_are_kept_are_no_work_for_the_garbage_collector():
    bandit = tb.Bandit(tb.Space(SPACE, context=["segment"]), rank=1, reward="bernoulli", window="10 min", seed=0)
    for _ in range(50):
        bandit.tell(bandit.ask(segment="new").id, 0)
    gc.collect()
    before = len(gc.get_objects())
    for at in range(2_000):
        decision = bandit.ask(segment="new" if at % 3 else "old")
        if at % 2:
            bandit.tell(decision.id, 0)
    gc.collect()
    assert len(gc.get_objects()) - before < 200

"""A state is the fold of its log: what is planned applies, and it does not matter who folds, when, or from where on."""

import random
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorbandits as tb
from tensorbandits.bandit import commands as c
from tensorbandits.bandit import events as e
from tensorbandits.bandit.commands import Ask
from tensorbandits.bandit.snapshot import NotLearnedError
from tests.bandit.histories import MODES, Histories, bits, made, snapshot

SETTINGS = {
    "modes": MODES,
    "context": ["segment"],
    "reward": "bernoulli",
    "rank": 1,
    "window": "10 min",
    "default": 0,
    "apprentice": False,
}
RNG = np.random.default_rng(0)


def check_folds(history):
    """Assert that the log of a history folds to its state: from empty, from snapshots, in groups of any size."""
    rng, expected, count = history.rng, bits(history.core), len(history.log)
    assert bits(history.folded()) == expected
    assert bits(history.folded(groups=lambda: rng.choice([1, 2, 10, 500]))) == expected
    cuts = [rng.randint(0, count) for _ in range(3)]
    assert bits(history.folded(cuts=cuts, groups=lambda: rng.choice([1, 3]))) == expected


@settings(max_examples=40)
@given(st.randoms(use_true_random=False), st.integers(1, 25))
def test_what_is_planned_applies_and_the_log_folds_to_the_same_state(rng, groups):
    history = Histories(rng)
    for _ in range(groups):
        history.go_on()
    check_folds(history)


@pytest.mark.parametrize("seed", range(5))
def test_a_longer_history_folds_to_the_same_state(seed):
    history = Histories(random.Random(seed))
    while history.done < 400:
        history.go_on(check=history.groups % 10 == 0)
    assert 0 < history.refused < history.done
    check_folds(history)


@pytest.mark.slow
def test_a_hundred_thousand_random_commands_are_planned_and_folded():
    for seed in range(20):
        history = Histories(random.Random(1000 + seed))
        while history.done < 5_000:
            history.go_on(check=history.groups % 25 == 0)
        check_folds(history)


class Log:
    """A bandit, and the log of what was done with it."""

    def __init__(self, **more):
        self.settings = {**SETTINGS, **more}
        self.core, self.events, self.now = made(self.settings), [], 0.0

    @property
    def state(self):
        return self.core.state

    @property
    def ledger(self):
        return self.core.policy.ledger

    def plan(self, command):
        return self.state.plan(command, self.now)

    def do(self, command):
        events = self.plan(command)
        self.events += events
        self.core.apply(events)
        self.core.learner.take_in()
        return events

    def draw(self, ask=None):
        return self.core.current().decide(Ask((0,)) if ask is None else ask, RNG)

    def ask(self):
        number = self.state.book.ids.issue(self.state.book)
        self.do(c.Decide(self.draw(), number))
        return number

    def again(self):
        core = made(self.settings)
        core.apply(self.events)
        core.learner.take_in()
        return core


@pytest.fixture
def log():
    one = Log()
    one.core.learner.refresh(wait=True)
    return one


def test_there_is_no_decision_before_something_was_learned():
    log = Log()
    with pytest.raises(NotLearnedError):
        log.draw()
    assert log.core.learner.stale
    log.core.learner.refresh(wait=True)
    assert not log.core.learner.stale
    assert log.draw().propensity > 0


def test_planning_changes_nothing_and_applying_does(log):
    number = log.ask()
    log.now = 5.0
    assert log.plan(c.Tell(number, 1)) == [e.Rewarded(5.0, number, 1.0)]
    assert log.ledger.rounds == 0
    assert log.state.book[number].state == "open"
    log.do(c.Tell(number, 1))
    assert log.ledger.rounds == 1
    assert log.state.book[number].state == "rewarded"
    assert log.plan(c.Tell(number, 1)) == []
    with pytest.raises(ValueError, match="has the reward 1 already"):
        log.plan(c.Tell(number, 0))
    [amended] = log.do(c.Tell(number, 0, amend=True))
    assert amended.kind == "Amended"
    assert log.ledger.totals.sum() == 0


def test_commands_of_a_trial_see_those_before_and_leave_nothing(log):
    number, before = log.ask(), bits(log.core)
    with log.state.trial():
        for event in log.plan(c.Tell(number, 1)):
            log.state.enter(event)
        assert log.plan(c.Tell(number, 1)) == []
        with pytest.raises(ValueError, match="has the reward 1 already"):
            log.plan(c.Tell(number, 0))
        log.state.enter(e.Decided(0.0, "mine", (0, 0, 0), None, "policy"))
        with pytest.raises(ValueError, match="has the id 'mine' already"):
            log.plan(c.Decide(log.draw(), "mine"))
    assert bits(log.core) == before
    assert "mine" not in log.state.book


def test_a_decision_that_was_tried_before_it_was_made_ends_once(log):
    for at, time in enumerate((0.0, -100.0, 50.0)):  # tried, as others were first, and tried again
        log.now = time
        with log.state.trial():
            for event in log.plan(c.Decide(log.draw(), "mine")):
                log.state.enter(event)
            log.now = 1e6
            assert [event.id for event in log.plan(c.Expire())] == ["mine"], at
    log.now = 50.0
    log.do(c.Decide(log.draw(), "mine"))
    log.now = 610.0
    assert log.plan(c.Expire()) == []  # it is made 50 seconds later than the first trial said
    log.now = 651.0
    assert log.plan(c.Expire()) == [e.TimedOut(651.0, "mine", 0.0)]


def test_a_decision_times_out_by_events_only_and_a_late_reward_takes_the_default_s_place(log):
    number = log.ask()
    log.now = 599.0
    assert log.plan(c.Expire()) == []
    log.now = 601.0
    assert log.state.book[number].state == "open"
    log.do(c.Expire())
    assert log.state.book[number].state == "timed out"
    assert (log.ledger.rounds, log.ledger.totals.sum()) == (1, 0)
    log.do(c.Tell(number, 1))
    assert (log.ledger.rounds, log.ledger.totals.sum()) == (1, 1)
    assert bits(log.core) == bits(log.again())


@pytest.mark.parametrize("window", [None, 3], ids=["none", "rounds"])
def test_decisions_keep_the_window_that_they_were_made_with_also_in_a_snapshot(log, window):
    number = log.ask()
    log.do(c.ChangeSettings({"window": window, "default": None}))
    for core in (log.core, snapshot(log.core)):
        assert core.state.plan(c.Expire(), 599.0) == []
        assert core.state.plan(c.Expire(), 601.0) == [e.TimedOut(601.0, number, None)]


def test_the_same_rewards_give_the_ledger_of_a_bandit_that_is_told_them(log):
    bandit = tb.Bandit(tb.Space(MODES, ["segment"]), rank=1, reward="bernoulli", window="10 min", default=0, seed=0)
    rng = np.random.default_rng(0)
    for _ in range(40):
        number, reward = log.ask(), int(rng.random() < 0.3)
        log.do(c.Tell(number, reward))
        labels = log.core.space.labels(log.state.book[number].cell)
        context = {"segment": labels.pop("segment")}
        bandit.tell(arm=labels, context=context, reward=reward)
    assert log.core.policy.copy_ledger() == bandit.policy.copy_ledger()


def test_draws_learn_what_was_told(log):
    for _ in range(300):
        log.do(c.TellCell((0, 1, 0), 1))
        log.do(c.TellCell((0, 0, 0), 0))
    assert log.core.learner.stale
    for _ in range(8):
        log.core.learner.refresh(wait=True)
    ask = Ask((0,), c.chosen({1: [0, 1], 2: [0]}))
    assert sum(log.draw(ask).cell == (0, 1, 0) for _ in range(50)) > 40


def test_deciding_goes_on_while_another_thread_learns_and_a_third_applies(log):
    stop, failed = threading.Event(), []

    def work(step):
        while not stop.is_set():
            try:
                step()
            except Exception as error:
                failed.append(error)
                return

    steps = [lambda: log.core.learner.refresh(wait=True), lambda: log.draw(Ask((1,))), lambda: log.core.frozen()()]
    threads = [threading.Thread(target=work, args=(step,)) for step in steps]
    for thread in threads:
        thread.start()
    for _ in range(200):
        log.do(c.Tell(log.ask(), 1))
    log.do(c.AddLevel("offer", "d"))
    assert log.draw(Ask((0,), c.chosen({1: [3]}))).cell[1] == 3  # at once, from the draws there were
    stop.set()
    for thread in threads:
        thread.join()
    assert failed == []
    log.core.learner.take_in()
    assert log.ledger.rounds == 200
    assert bits(log.core) == bits(log.again())


def test_what_cannot_be_is_refused_before_it_is_written(log):
    log.do(c.ChangeRule({"forbid": {"channel": "mail"}}, add=True))
    before = bits(log.core)
    for command, words in [
        (c.AddLevel("ofer", "d"), "did you mean 'offer'"),
        (c.AddLevel("offer", "a"), "'a'"),
        (c.ChangeRule({"forbid": {"channel": "sms"}}, add=True), "nothing would be left"),
        (c.ChangeRule({"forbid": {"offer": "a"}}, add=False), "no rule here"),
        (c.ChangeSettings({"rank": 2}), "'rank' cannot be changed"),
        (c.ChangeSettings({"holdout": 2}), "holdout"),
        (c.TellCell((0, 0, 0), 0.5), "0 and 1"),
    ]:
        with pytest.raises(ValueError, match=words):
            log.plan(command)
    assert bits(log.core) == before

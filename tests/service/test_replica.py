"""A replica is the fold of its log: what it learned does not depend on who folded, when, or from which snapshot."""

import contextlib
import json
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorbandits as tb
from tensorbandits.bandit.book import ClosedDecisionError
from tensorbandits.service.engine.replica import NotLearnedError, Replica
from tensorbandits.store import Event

GOLDEN = Path(__file__).parent.parent / "golden"
MODES = {"segment": ["new", "old"], "offer": ["a", "b", "c"], "channel": ["mail", "sms"]}
SETTINGS = {"modes": MODES, "context": ["segment"], "reward": "bernoulli", "rank": 1, "window": "10 min", "default": 0}


class Log:
    """A log in memory, and what is folded of it."""

    def __init__(self, **more):
        self.events = [Event(1, 1, 0.0, "Created", None, None, {"settings": {**SETTINGS, **more}})]
        self.replica = Replica.created(self.events[0])
        self.now = 0.0

    def write(self, news):
        first = len(self.events) + 1
        made = [
            Event(1, first + at, one.time, one.kind, one.decision, one.key, one.body) for at, one in enumerate(news)
        ]
        self.events += made
        self.replica.fold(made)
        return made

    def ask(self, number=None, active=True, played=None):
        number = number or self.replica.issue()
        if not self.replica._ring.draws or self.replica._ring.draws[0][1].shape != self.replica.space.shape:
            self.replica.refresh(wait=True)  # a mode has gained levels
        drawing = self.replica.draw({"segment": "new"}, None, played)
        [event] = self.write([self.replica.decided(number, drawing, time=self.now, active=active, key=None)])
        return event

    def tell(self, number, reward, amend=False, add=False):
        return self.write(self.replica.plan_tell(number, reward, amend=amend, add=add, time=self.now, key=None))

    def again(self, upto=None):
        """Fold everything anew."""
        replica = Replica.created(self.events[0])
        replica.fold(self.events[1:upto])
        return replica


def learned(**more):
    log = Log(**more)
    log.replica.refresh(wait=True)
    return log


def same(one, two):
    assert one.seq == two.seq
    assert one.policy.copy_ledger() == two.policy.copy_ledger()
    assert one.space == two.space
    assert one.waiting == two.waiting
    assert one.decisions == two.decisions
    np.testing.assert_array_equal(one.timeline().totals, two.timeline().totals)
    assert (one.apprentice.count, one.apprentice._sums.tolist()) == (
        two.apprentice.count,
        two.apprentice._sums.tolist(),
    )


def test_there_is_no_decision_before_something_was_learned():
    log = Log()
    with pytest.raises(NotLearnedError):
        log.replica.draw({"segment": "new"}, None)
    assert log.replica.stale
    log.replica.refresh(wait=True)
    assert not log.replica.stale
    assert log.replica.draw({"segment": "new"}, None).drawn.propensity > 0


def test_planning_changes_nothing_and_folding_does():
    log = learned()
    event = log.ask()
    news = log.replica.plan_tell(event.decision, 1, amend=False, add=False, time=5.0, key=None)
    assert [(one.kind, one.body) for one in news] == [("Rewarded", {"reward": 1.0})]
    assert log.replica.policy.ledger.rounds == 0
    assert log.replica.status(event.decision) == "open"
    log.write(news)
    assert log.replica.policy.ledger.rounds == 1
    assert log.replica.status(event.decision) == "rewarded"
    assert log.replica.plan_tell(event.decision, 1, amend=False, add=False, time=6.0, key=None) == []
    with pytest.raises(ValueError, match="has the reward 1 already"):
        log.replica.plan_tell(event.decision, 0, amend=False, add=False, time=6.0, key=None)
    [amended] = log.tell(event.decision, 0, amend=True)
    assert amended.kind == "Amended"
    assert log.replica.policy.ledger.totals.sum() == 0


def test_a_decision_times_out_by_events_only_and_a_late_reward_takes_the_default_s_place():
    log = learned()
    event = log.ask()
    log.now = 601.0
    assert log.replica.status(event.decision) == "open"
    assert log.replica.plan_expire(time=599.0) == []
    log.write(log.replica.plan_expire(time=log.now))
    assert log.replica.status(event.decision) == "timed out"
    assert (log.replica.policy.ledger.rounds, log.replica.policy.ledger.totals.sum()) == (1, 0)
    log.tell(event.decision, 1)
    assert (log.replica.policy.ledger.rounds, log.replica.policy.ledger.totals.sum()) == (1, 1)
    same(log.replica, log.again())


def test_events_are_folded_once_and_without_gaps():
    log = learned()
    event = log.ask()
    [told] = log.tell(event.decision, 1)
    log.replica.fold([event, told])
    assert log.replica.policy.ledger.rounds == 1
    with pytest.raises(ValueError, match="gap"):
        log.replica.fold([told._replace(seq=told.seq + 2)])


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_any_history_folds_to_the_same_state_also_from_a_snapshot(data):
    log = learned(apprentice=True, half_life=20)
    decisions = []
    for _ in range(data.draw(st.integers(1, 25))):
        log.now += data.draw(st.sampled_from([0.0, 1.0, 300.0]))
        what = data.draw(st.sampled_from(["ask", "ask", "tell", "tell", "amend", "expire", "told", "level", "rule"]))
        if what == "ask":
            decisions.append(log.ask(active=data.draw(st.booleans()), played=({"offer": "a", "channel": "mail"}, 0.5)))
        elif what in ("tell", "amend") and decisions:
            number = data.draw(st.sampled_from(decisions)).decision
            with contextlib.suppress(ClosedDecisionError):  # it has another reward
                log.tell(number, data.draw(st.integers(0, 1)), amend=what == "amend")
        elif what == "expire":
            log.write(log.replica.plan_expire(time=log.now))
        elif what == "told":
            trials = data.draw(st.sampled_from([None, 5]))
            log.write(log.replica.plan_told((1, 2, 0), 1, trials, time=log.now, key=None))
        elif what == "level":
            count = len(log.replica.space.levels[1])
            like = data.draw(st.sampled_from([None, "a"]))
            log.write(
                log.replica.plan_level("LevelAdded", "offer", f"offer {count}", like=like, time=log.now, key=None)
            )
        elif what == "rule":
            add = not log.replica.space.rules
            log.write(
                log.replica.plan_rule({"forbid": {"offer": "c", "channel": "sms"}}, add=add, time=log.now, key=None)
            )
    cut = data.draw(st.integers(1, len(log.events)))
    same(log.replica, log.again())
    resumed = Replica.restored(log.again(cut).snapshot()[1])
    assert resumed.seq == cut
    resumed.fold(log.events)
    same(log.replica, resumed)


def test_the_same_rewards_give_the_ledger_of_a_bandit_that_is_told_them():
    log = learned()
    bandit = tb.Bandit(tb.Space(MODES, ["segment"]), rank=1, reward="bernoulli", window="10 min", default=0, seed=0)
    rng = np.random.default_rng(0)
    for _ in range(40):
        event = log.ask()
        reward = int(rng.random() < 0.3)
        log.tell(event.decision, reward)
        labels = log.replica.space.labels(event.body["cell"])
        bandit.tell(
            arm={m: labels[m] for m in ("offer", "channel")}, context={"segment": labels["segment"]}, reward=reward
        )
    assert log.replica.policy.copy_ledger() == bandit.policy.copy_ledger()


def test_draws_learn_what_was_told():
    log = learned()
    for _ in range(300):
        log.write(log.replica.plan_told((0, 1, 0), 1, None, time=log.now, key=None))
        log.write(log.replica.plan_told((0, 0, 0), 0, None, time=log.now, key=None))
    assert log.replica.stale
    for _ in range(8):
        log.replica.refresh(wait=True)
    arms = [
        log.replica.draw({"segment": "new"}, {"offer": ["a", "b"], "channel": ["mail"]}).drawn.cell for _ in range(50)
    ]
    assert sum(cell == (0, 1, 0) for cell in arms) > 40


def test_deciding_goes_on_while_another_thread_learns_and_a_third_folds():
    log = learned()
    stop, failed = threading.Event(), []

    def work(step):
        while not stop.is_set():
            try:
                step()
            except Exception as error:
                failed.append(error)
                return

    threads = [threading.Thread(target=work, args=(lambda: log.replica.refresh(wait=True),))]
    threads.append(threading.Thread(target=work, args=(lambda: log.replica.draw({"segment": "old"}, None),)))
    for thread in threads:
        thread.start()
    for _ in range(200):
        log.tell(log.ask().decision, 1)
    log.write(log.replica.plan_level("LevelAdded", "offer", "d", time=log.now, key=None))
    deadline = time.monotonic() + 60
    while not log.replica._ring.draws and time.monotonic() < deadline:
        time.sleep(0.01)
    stop.set()
    for thread in threads:
        thread.join()
    assert [error for error in failed if not isinstance(error, NotLearnedError)] == []
    assert log.replica.policy.ledger.rounds == 200
    same(log.replica, log.again())


def test_what_cannot_be_is_refused_before_it_is_written():
    log = learned()
    replica, now = log.replica, {"time": 0.0, "key": None}
    log.write(replica.plan_rule({"forbid": {"channel": "mail"}}, add=True, **now))
    with pytest.raises(ValueError, match="did you mean 'offer'"):
        replica.plan_level("LevelAdded", "ofer", "d", **now)
    with pytest.raises(ValueError, match="'a'"):
        replica.plan_level("LevelAdded", "offer", "a", **now)
    with pytest.raises(ValueError, match="nothing would be left"):
        replica.plan_rule({"forbid": {"channel": "sms"}}, add=True, **now)
    with pytest.raises(ValueError, match="no rule here"):
        replica.plan_rule({"forbid": {"offer": "a"}}, add=False, **now)
    with pytest.raises(ValueError, match="'rank' cannot be changed"):
        replica.plan_change({"rank": 2}, **now)
    with pytest.raises(ValueError, match="holdout"):
        replica.plan_change({"holdout": 2}, **now)
    with pytest.raises(ValueError, match="0 and 1"):
        replica.plan_told((0, 0, 0), 0.5, None, **now)
    assert replica.seq == 2


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("replica-*.safetensors")), ids=lambda path: path.name)
def test_a_snapshot_of_any_release_is_what_it_was_and_goes_on(path):
    said = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    replica = Replica.restored(path.read_bytes())
    ledger = replica.policy.ledger
    assert (replica.seq, ledger.rounds, ledger.totals.sum()) == pytest.approx(
        (said["seq"], said["rounds"], said["total"])
    )
    states = [replica.status(f"order {at}") for at in range(6)]
    assert states == ["rewarded", "open", "rewarded", "cancelled", "open", "inactive"]
    assert replica.space.levels[1] == ("a", "b", "c")
    assert replica.apprentice.count == 1  # the second decision is not known yet
    [event] = replica.plan_tell("order 1", 1, amend=False, add=False, time=20.0, key=None)
    replica.fold([Event(1, replica.seq + 1, event.time, event.kind, event.decision, None, event.body)])
    assert replica.apprentice.count == 3
    replica.refresh(wait=True)
    assert replica.draw({"segment": "old"}, {"offer": ["b", "c"]}).drawn.propensity > 0

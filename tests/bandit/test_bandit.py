"""What an application does with a bandit, and what it must not be able to do."""

import threading
from datetime import date, timedelta

import numpy as np
import pytest

import tensorbandits as tb
from tensorbandits.bandit.book import (
    CancelledDecisionError,
    ClosedDecisionError,
    ExpiredDecisionError,
    UnknownDecisionError,
)

MODES = {"segment": ["new", "old"], "offer": ["a", "b", "c"], "channel": ["mail", "sms"]}


class Clock:
    def __init__(self):
        self.time = 1000.0

    def __call__(self):
        return self.time


def space():
    return tb.Space(MODES, context=["segment"])


def bandit(policy="ucb", **settings):
    return tb.Bandit(settings.pop("space", None) or space(), policy, **{"seed": 0} | settings)


def totals(one):
    return {entry.cell: (entry.rounds, entry.total) for entry in one.policy.ledger}


# Asking.


def test_a_decision_says_everything():
    clock = Clock()
    one = bandit(clock=clock)
    decision = one.ask(segment="old")
    assert (decision.arm, decision.context) == ({"offer": "a", "channel": "mail"}, {"segment": "old"})
    assert (decision.propensity, decision.by, decision.policy, decision.time) == (
        1.0,
        "policy",
        "VectorizedUCB",
        1000.0,
    )
    assert tb.Decision.from_json(decision.to_json()) == decision
    assert one.ask({"segment": "old"}).id != decision.id
    assert one.waiting == 2


def test_labels_may_be_anything_and_modes_have_any_name():
    days = tb.Space(
        {"day of week": [1, 2], "from": [date(2024, 1, 1), date(2024, 2, 1)], "on": [True, False]}, ["from"]
    )
    one = tb.Bandit(days, "ucb")
    decision = one.ask({"from": date(2024, 2, 1)}, allowed={"day of week": [2]})
    assert decision.arm == {"day of week": 2, "on": True}
    one.tell(decision, 1.0)
    one.tell(one.ask({"from": date(2024, 2, 1)}, allowed={"day of week": [1]}), 0.0)
    assert one.best({"from": date(2024, 2, 1)}) == {"day of week": 2, "on": True}


@pytest.mark.parametrize("policy", ["thompson", "ensemble", "epoch-greedy", "ucb"])
def test_every_policy_with_context_decides_within_the_rules(policy):
    settings = {} if policy == "ucb" else {"rank": 1}
    one = bandit(policy, floors=0.2, holdout=0.2, **settings)
    one.space.forbid(offer="c", channel="sms")
    one.space.allow(segment="new", offer=["b", "c"])
    for at in range(60):
        decision = one.ask(segment="new", allowed={"channel": ["sms"]}) if at % 2 else one.ask(segment="new")
        assert decision.arm["offer"] != "a"
        assert decision.arm != {"offer": "c", "channel": "sms"}
        assert not at % 2 or decision.arm["channel"] == "sms"
        one.tell(decision.id, float(at % 3))
    assert one.policy.ledger.rounds == 60
    assert one.best(segment="new")["offer"] in ("b", "c")


@pytest.mark.parametrize("policy", ["elimination", "estr"])
def test_policies_without_context_decide_too(policy):
    one = tb.Bandit(tb.Space({"offer": list("abcd"), "channel": list("xyz")}), policy, rank=1, horizon=100, seed=0)
    for _ in range(50):
        one.tell(one.ask().id, 1.0)
    assert one.policy.ledger.rounds == 50
    with pytest.raises(ValueError, match="takes no context"):
        bandit(policy, rank=1, horizon=100)


@pytest.mark.parametrize(
    ("ask", "match"),
    [
        ({}, "no label is given for 'segment'"),
        ({"segment": "nwe"}, "did you mean 'new'"),
        ({"segmnt": "new"}, "did you mean 'segment'"),
        ({"segment": "new", "offer": "a"}, "'offer' is decided, not given"),
        ({"segment": "new", "allowed": {"ofer": ["a"]}}, "did you mean 'offer'"),
        ({"segment": "new", "allowed": {"offer": ["z"]}}, "no level of mode 'offer'"),
        ({"segment": "new", "allowed": {"offer": "a"}}, "give a list"),
        ({"segment": "new", "allowed": {"offer": []}}, "at least one"),
        ({"segment": "new", "allowed": {"segment": ["new"]}}, "'segment' is given, not decided"),
        (
            {"segment": "new", "allowed": {"offer": ["b"], "channel": ["sms"]}},
            r"nothing may be chosen given {'segment': 'new'} and with allowed={'offer': \['b'\], 'channel': \['sms'\]}",
        ),
        ({"segment": "new", "activate": "no"}, "activate is 'no'"),
        ({"segment": "new", "allowed": 7}, "labels is 7"),
    ],
)
@pytest.mark.parametrize("policy", ["ucb", "thompson"])
def test_what_cannot_be_asked_is_refused_and_changes_nothing(policy, ask, match):
    one = bandit(policy)
    one.space.forbid(offer="b", channel="sms")
    one.ask(segment="new")
    before = one.waiting, one.state_dict()["book"]["rounds"]
    with pytest.raises((TypeError, ValueError), match=match):
        one.ask(**ask)
    assert (one.waiting, one.state_dict()["book"]["rounds"]) == before
    assert one.ask(segment="new").id.endswith("-1")


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"policy": "thomson"}, "policy is 'thomson'"),
        ({"policy": 7}, "policy is 7"),
        ({"policy": tb.VectorizedUCB((2, 3, 2))}, r"context=space\.context"),
        ({"policy": tb.VectorizedUCB((2, 3, 2), context=(0,)), "scale": 2.0}, "made already"),
        ({"space": {"a": [1]}}, "give a Space"),
        ({"clock": 5.0}, r"time\.time"),
        ({"ring": 0}, "ring is 0"),
        ({"floors": 1.5}, "from 0 to 1"),
        ({"floors": -0.1}, "from 0 to 1"),
        ({"floors": [({"offer": "a"}, 0.6), ({"offer": "b"}, 0.6)]}, "add up to 1.2"),
        ({"floors": [({"ofer": "a"}, 0.6)]}, "did you mean 'offer'"),
        ({"floors": [{"offer": "a"}]}, "pairs of labels"),
        ({"floors": "all"}, "pairs of labels"),
        ({"holdout": 1.0}, "holdout is 1"),
        ({"holdout": True}, "holdout is True"),
        ({"baseline": [({"offer": "a"}, 0.6)]}, "add up to 0.6"),
        ({"baseline": "none"}, "pairs of labels"),
        ({"baseline": {"offer": "a"}}, "nothing is held out for it"),
        ({"policy": "thompson", "floors": 0.4, "ceilings": [({"channel": "sms"}, 0.1)]}, "alone give these arms 0.2"),
        (
            {"policy": "thompson", "holdout": 0.5, "baseline": {"offer": "a"}, "ceilings": [({"offer": "a"}, 0.4)]},
            "the ceiling of {'offer': 'a'} is 0.4.*alone give these arms 0.5",
        ),
        ({"window": "10 months"}, "seconds, minutes, hours, days or weeks"),
        ({"window": "5 ms"}, "window is '5 ms'"),
        ({"half_life": "2 dogs"}, "half_life is '2 dogs'"),
        ({"adds": "yes"}, "adds is 'yes'"),
        ({"windw": 5}, "'windw' is no argument of a bandit or of VectorizedUCB: did you mean 'window'"),
        ({"policy": "thompson", "rnk": 5}, "did you mean 'rank'"),
        ({"xyzzy": 5}, "allowed are space, policy, ring"),
        ({"ceilings": [({"offer": "a"}, 0.6)]}, "draws by itself"),
        ({"window": 600.0}, "window is 600"),
        ({"default": 0.0}, "no window is given"),
        ({"default": "zero", "window": 5}, "not a number"),
        ({"policy": "thompson", "reward": "bernoulli", "default": 0.5, "window": 5}, "allowed are 0 and 1"),
        ({"capacity": 0}, "capacity is 0"),
        ({"rank": 2}, "rank"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_what_cannot_be_made_is_refused(settings, match):
    with pytest.raises((TypeError, ValueError), match=match):
        tb.Bandit(settings.pop("space", space()), settings.pop("policy", "ucb"), **settings)


# Telling.


@pytest.mark.parametrize("policy", ["ucb", "thompson"])
def test_rewards_late_twice_changed_and_missing_leave_what_they_should(policy):
    clock = Clock()
    one = bandit(policy, window="10 min", default=0, clock=clock)
    first, second, third, fourth = (one.ask(segment="new") for _ in range(4))
    one.tell(first.id, 1)
    one.tell(first.id, 1.0)
    with pytest.raises(ClosedDecisionError, match="amend=True"):
        one.tell(first.id, 0.5)
    one.tell(first, 0.5, amend=True)
    clock.time += 601
    one.tell(second.id, 1)
    one.cancel(one.ask(segment="old"))
    assert [one.status(each) for each in (first, second, third, fourth)] == ["rewarded", "rewarded", *["timed out"] * 2]
    assert one.policy.ledger.rounds == 4
    assert one.policy.ledger.totals.sum() == 1.5
    one.tell(third.id, 1)
    assert one.policy.ledger.totals.sum() == 2.5
    assert one.waiting == 0


def test_an_amended_reward_changes_what_is_best():
    one = bandit("thompson", rank=1, window=5, default=0)
    for _ in range(3):
        for offer in "abc":
            one.tell(arm={"offer": offer, "channel": "mail"}, context={"segment": "new"}, reward=float(offer == "a"))
    decisions = [one.ask(segment="new", allowed={"offer": ["b"], "channel": ["sms"]}) for _ in range(12)]
    one.expire()
    assert one.best(segment="new") == {"offer": "a", "channel": "mail"}
    for decision in decisions:
        one.tell(decision.id, 5.0)
    assert one.best(segment="new") == {"offer": "b", "channel": "sms"}
    assert one.policy.ledger[0, 1, 1].total == 60.0


def test_windows_of_rounds_and_of_time_end_by_themselves():
    one = bandit(window=3, default=0.0)
    first = one.ask(segment="new")
    hidden = one.ask(segment="new", activate=False)
    for _ in range(4):
        one.ask(segment="old")
    assert (one.status(first), one.status(hidden)) == ("timed out", "inactive")
    assert one.policy.ledger.rounds == 1
    one.activate(hidden)
    for _ in range(4):
        one.ask(segment="old")
    assert one.status(hidden.id) == "timed out"
    timed = bandit(window=timedelta(seconds=1), default=0.0, clock=(clock := Clock()))
    timed.ask(segment="new")
    clock.time += 2
    timed.expire()
    assert timed.policy.ledger.rounds == 1


def test_rewards_add_up():
    one = bandit(adds=True)
    decision = one.ask(segment="new")
    for _ in range(3):
        one.tell(decision.id, 3.5, add=True)
    assert totals(one) == {(0, 0, 0): (1.0, 10.5)}


@pytest.mark.parametrize(
    ("told", "error", "match"),
    [
        ({"decision": "nobody", "reward": 1}, UnknownDecisionError, "no decision has the id"),
        ({"decision": 5, "reward": 1}, TypeError, r"decision\.id"),
        ({"reward": 1}, TypeError, "tell either"),
        ({"decision": "x", "reward": 1, "arm": {"offer": "a"}}, TypeError, "tell either"),
        ({"decision": "x", "reward": 1, "context": {"segment": "new"}}, TypeError, "leave it out"),
        ({"arm": {"offer": "a", "channel": "mail"}, "reward": 1}, ValueError, "'segment'"),
        ({"arm": {"offer": "a", "channel": "smss"}, "context": {"segment": "new"}, "reward": 1}, ValueError, "'sms'"),
        ({"arm": {"offer": "a"}, "context": {"segment": "new"}, "reward": 1, "amend": True}, ValueError, "its id"),
        ({"arm": "a", "context": {"segment": "new"}, "reward": 1}, TypeError, "arm is 'a'; give labels by mode"),
        ({"arm": {"offer": "a", "channel": "mail"}, "context": "new", "reward": 1}, TypeError, "context is 'new'"),
        (
            {"arm": {"segment": "new", "offer": "a", "channel": "mail"}, "context": {"segment": "old"}, "reward": 1},
            *(ValueError, "'segment' is given twice"),
        ),
        ({"decision": "x", "reward": 1, "amend": True, "add": True}, ValueError, "both True"),
        ({"arm": {"offer": "a", "channel": "mail"}, "context": {"segment": "new"}}, TypeError, "not a number"),
    ],
)
def test_what_cannot_be_told_is_refused_and_changes_nothing(told, error, match):
    one = bandit()
    one.ask(segment="new")
    with pytest.raises(error, match=match):
        one.tell(**told)
    assert (one.waiting, one.policy.ledger.rounds) == (1, 0.0)


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), "1", None, 0.5, -1, 10**400, [1]])
def test_a_reward_that_cannot_be_leaves_the_decision_open(reward):
    one = bandit("thompson", rank=1, reward="bernoulli")
    decision = one.ask(segment="new")
    with pytest.raises((TypeError, ValueError)):
        one.tell(decision.id, reward)
    assert one.status(decision) == "open"
    one.tell(decision.id, 1)


def test_what_has_timed_out_is_told_even_if_the_call_is_refused():
    one = bandit(window="1 s", default=0.0, clock=(clock := Clock()))
    one.ask(segment="new")
    clock.time += 5
    with pytest.raises(UnknownDecisionError):
        one.tell("nobody", 1)
    assert one.policy.ledger.rounds == 1


def test_cancelled_and_forgotten_decisions_say_so():
    one = bandit(capacity=2, remember=1)
    decisions = [one.ask(segment="new") for _ in range(5)]
    with pytest.raises(ExpiredDecisionError, match="at most 2 decisions wait, and 1 closed"):
        one.tell(decisions[0].id, 1)
    one.cancel(decisions[4].id)
    with pytest.raises(CancelledDecisionError):
        one.tell(decisions[4].id, 1)
    assert one.policy.ledger.rounds == 0


def test_a_clock_that_is_none_is_found():
    with pytest.raises(ValueError, match="the clock says nan"):
        bandit(clock=lambda: float("nan"))
    times = iter([0.0, float("inf")])
    one = bandit(clock=lambda: next(times))
    with pytest.raises(ValueError, match="the clock says inf"):
        one.ask(segment="new")


# The law.


def test_logged_propensities_are_those_of_the_decisions():
    """Each arm's mean of 1 / propensity over the decisions that chose it is 1, while the policy learns."""
    one = bandit("thompson", rank=1, floors=0.5, holdout=0.2, ring=8)
    rng = np.random.default_rng(0)
    weights = {}
    for at in range(600):
        decision = one.ask(segment=MODES["segment"][at % 2])
        arm = tuple(decision.arm.values())
        weights.setdefault(arm, []).append(1.0 / decision.propensity)
        one.tell(decision.id, float(rng.random() < 0.2 + 0.5 * (arm == ("b", "sms"))))
    assert len(weights) == 6
    for inverse in weights.values():
        assert abs(sum(inverse) / 600 - 1.0) < 4.0 * np.sqrt(np.sum(np.square(inverse))) / 600


def test_a_ceiling_is_honoured_in_expectation():
    one = bandit("thompson", rank=1, ceilings=[({"channel": "sms"}, 0.1)], ring=10)
    for _ in range(40):
        one.tell(arm={"offer": "b", "channel": "sms"}, context={"segment": "new"}, reward=9.0)
        one.tell(arm={"offer": "b", "channel": "mail"}, context={"segment": "new"}, reward=1.0)
    chosen = [one.ask(segment="new").arm["channel"] for _ in range(300)]
    assert 10 <= chosen.count("sms") <= 50


def test_the_same_seed_makes_the_same_decisions():
    def arms():
        one = bandit("thompson", rank=1, floors=0.2, seed=5)
        return [one.ask(segment="new").arm for _ in range(20)]

    assert arms() == arms()


# Levels and rules.


@pytest.mark.parametrize("policy", ["ucb", "thompson", "ensemble", "epoch-greedy"])
def test_levels_come_and_go_without_losing_what_was_learned(policy):
    one = bandit(policy, **({} if policy == "ucb" else {"rank": 1}))
    for _ in range(20):
        one.tell(one.ask(segment="new").id, 1.0)
    open_decision = one.ask(segment="new")
    one.add_level("offer", "summer")
    one.retire_level("offer", "a")
    chosen = {one.ask(segment="new").arm["offer"] for _ in range(150)}
    assert "a" not in chosen
    assert policy != "ucb" or "summer" in chosen
    one.tell(open_decision.id, 1.0)
    one.tell(arm={"offer": "summer", "channel": "sms"}, context={"segment": "new"}, reward=5.0)
    assert one.policy.ledger.rounds == 22
    assert one.ask(segment="new", allowed={"offer": ["summer"]}).arm["offer"] == "summer"
    with pytest.raises(ValueError, match=r"all of mode 'offer' that is allowed, \['a'\], is retired; allow others too"):
        one.ask(segment="new", allowed={"offer": ["a"]})
    one.restore_level("offer", "a")
    assert one.ask(segment="new", allowed={"offer": ["a"]}).arm["offer"] == "a"


def test_levels_of_context_come_and_go():
    one = bandit()
    one.add_level("segment", "vip")
    assert one.ask(segment="vip").context == {"segment": "vip"}
    one.retire_level("segment", "new")
    with pytest.raises(ValueError, match="'new' of mode 'segment' is retired"):
        one.ask(segment="new")
    one.restore_level("segment", "new")
    one.ask(segment="new")


def test_levels_that_cannot_be_added_or_retired_change_nothing():
    one = tb.Bandit(tb.Space({"offer": ["a", "b"]}), "elimination", rank=1, horizon=50)
    with pytest.raises(ValueError, match="cannot follow"):
        one.add_level("offer", "c")
    with pytest.raises(ValueError, match="has the level 'a' already"):
        bandit().add_level("offer", "a")
    assert one.space.shape == one.policy.shape == (2,)
    one.retire_level("offer", "a")
    with pytest.raises(ValueError, match="nothing would be left to choose"):
        one.retire_level("offer", "b")
    with pytest.raises(ValueError, match="is not retired"):
        one.restore_level("offer", "b")
    assert one.ask().arm == {"offer": "b"}


def test_rules_of_the_space_hold_from_the_next_ask_on():
    one = bandit()
    one.space.forbid(offer="a")
    one.space.add_level("channel", "push")  # on the space itself
    assert {one.ask(segment="new").arm["offer"] for _ in range(20)} == {"b", "c"}
    assert one.policy.shape == (2, 3, 3)
    one.space.remove_rule({"forbid": {"offer": "a"}})
    assert "a" in {one.ask(segment="new").arm["offer"] for _ in range(20)}


# Saving.


@pytest.mark.parametrize("policy", ["ucb", "thompson", "epoch-greedy"])
def test_a_bandit_made_again_goes_on(policy, tmp_path):
    clock, path = Clock(), tmp_path / "bandit.safetensors"
    floors = [({"channel": "sms"}, 0.1)]
    settings = {"window": "1 h", "default": 0, "floors": floors, "holdout": 0.1, "baseline": {"offer": "a"}}
    one = bandit(policy, clock=clock, **settings | ({} if policy == "ucb" else {"rank": 1}))
    one.space.forbid(offer="c", channel="sms")
    one.space.allow(segment="old", offer=["a", "b"])
    for at in range(30):
        one.tell(one.ask(segment="new").id, float(at % 2))
    one.add_level("offer", "summer")
    one.retire_level("offer", "b")
    waiting, told = one.ask(segment="new"), one.ask(segment="old")
    hidden, gone = one.ask(segment="new", activate=False), one.ask(segment="new")
    one.tell(told.id, 1.0)
    one.cancel(gone)
    one.save(path)
    loaded = [tb.Bandit.load(path, clock=clock, fresh=fresh) for fresh in (False, False, True)]
    for again in loaded:
        assert again.space == one.space
        assert again.policy.ledger == one.policy.ledger
        assert again.state_dict()["shares"] == one.state_dict()["shares"]
        assert [again.status(each) for each in (waiting, told, hidden, gone)] == [
            *("open", "rewarded", "inactive", "cancelled")
        ]
        again.tell(told.id, 1.0)
        with pytest.raises(ClosedDecisionError):
            again.tell(told.id, 0.5)
        again.tell(waiting.id, 1.0)
        assert again.policy.ledger.rounds == 32
    ids = {each.ask(segment="new").id for each in (one, *loaded)}
    assert len(ids) == 4
    first, second, _ = ([each.ask(segment="new").arm for _ in range(10)] for each in loaded)
    assert first == second
    clock.time += 3601
    loaded[0].expire()
    assert loaded[0].waiting == 1  # the one that was never shown
    assert loaded[0].policy.ledger.rounds == 32 + 11


def test_other_files_and_damaged_states_are_refused(tmp_path):
    one, path = bandit(), tmp_path / "a.safetensors"
    one.policy.save(path)
    with pytest.raises(ValueError, match="not a bandit"):
        tb.Bandit.load(path)
    state = one.state_dict()
    for part in state:
        with pytest.raises(ValueError, match=f"lacks.*{part}.*what state_dict returned"):
            tb.Bandit.from_state_dict({name: value for name, value in state.items() if name != part})


# Threads.


@pytest.mark.parametrize("policy", ["ucb", "thompson"])
def test_any_thread_may_use_a_bandit(policy):
    """Six threads ask, tell, tell again and amend; the ledger holds what each decision was told last."""
    one = bandit(policy, window=10, default=0.0, **({} if policy == "ucb" else {"rank": 1}))
    expected, failed, lock = {}, [], threading.Lock()

    def work(seed):
        rng = np.random.default_rng(seed)
        try:
            for at in range(40):
                decision = one.ask(segment=MODES["segment"][int(rng.integers(2))])
                cell = one.space.cell({**decision.arm, **decision.context})
                reward = float(rng.integers(1, 5))
                if rng.random() < 0.8:
                    one.tell(decision.id, reward)
                    one.tell(decision.id, reward)
                    if rng.random() < 0.3:
                        reward += 1.0
                        one.tell(decision.id, reward, amend=True)
                else:
                    reward = 0.0
                with lock:
                    expected.setdefault(cell, []).append(reward)
                if seed == 0 and at % 10 == 0:
                    one.state_dict()
                    one.space.forbid(offer="c") if at % 20 else one.space.allow(segment="new", offer=["a", "b", "c"])
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    for _ in range(12):
        one.cancel(one.ask(segment="new", activate=False))
    extra = [one.ask(segment="new", allowed={"offer": ["a"], "channel": ["mail"]}) for _ in range(11)]
    one.expire()
    assert totals(one) == {cell: (float(len(told)), sum(told)) for cell, told in expected.items()}
    assert len({decision.id for decision in extra}) == 11


def test_the_reward_of_a_decision_is_what_it_is_now():
    now = [0.0]
    bandit = tb.Bandit(tb.Space({"offer": ["a", "b"]}), "ucb", window="1 min", default=0, seed=0, clock=lambda: now[0])
    first, second = bandit.ask(), bandit.ask()
    assert bandit.reward(first) is None
    bandit.tell(first, 2.5)
    now[0] = 90.0
    assert (bandit.reward(first), bandit.reward(second.id)) == (2.5, 0.0)
    bandit.tell(second, 1)
    assert bandit.reward(second) == 1.0
    with pytest.raises(LookupError, match="no decision has the id"):
        bandit.reward("x-1")


def test_a_caller_may_give_ids_of_their_own_each_once():
    bandit = tb.Bandit(tb.Space({"offer": ["a", "b"]}), "thompson", rank=1, seed=0)
    decision = bandit.ask(id="order 17-03")
    assert decision.id == "order 17-03"
    with pytest.raises(ClosedDecisionError, match="'order 17-03' already"):
        bandit.ask(id="order 17-03")
    for wrong in ("", "two\nlines", "x" * 201):
        with pytest.raises(ValueError, match=r"the id is .* give 1 to 200"):
            bandit.ask(id=wrong)
    with pytest.raises(TypeError, match="the id is 17"):
        bandit.ask(id=17)
    assert bandit.waiting == 1
    again = tb.Bandit.from_state_dict(bandit.state_dict())
    again.tell("order 17-03", 1.0)
    assert again.status("order 17-03") == "rewarded"
    with pytest.raises(ClosedDecisionError):
        again.ask(id="order 17-03")


def test_a_reward_that_rounding_has_hidden_can_be_amended():
    """Of two rewards, 1 and 10,000, no digits are left that tell whether one of them was 0.3."""
    bandit = tb.Bandit(tb.Space({"offer": ["a"], "channel": ["x"]}), rank=1, seed=0)
    bandit.tell(arm={"offer": "a", "channel": "x"}, reward=1.0)
    decision = bandit.ask()
    for at, reward in enumerate([1e4, 0.3, 1.0]):
        bandit.tell(decision, reward, amend=bool(at))
    assert bandit.policy.ledger[0, 0].total == pytest.approx(2.0)
    assert bandit.reward(decision) == 1.0


def test_amendments_of_money_are_never_refused():
    rng = np.random.default_rng(0)
    bandit = tb.Bandit(tb.Space({"offer": ["a", "b"]}), "ucb", half_life=50, seed=0)
    rewards = {}
    for _ in range(2_000):
        if rewards and rng.random() < 0.6:
            number = str(rng.choice(list(rewards)[-20:]))
            rewards[number] = float(rng.choice([0.0, rewards[number] / 3, np.exp(rng.normal(3.0, 3.0))]))
            bandit.tell(number, rewards[number], amend=True)
        else:
            number = bandit.ask().id
            rewards[number] = float(np.exp(rng.normal(3.0, 3.0)))
            bandit.tell(number, rewards[number])
    assert bandit.policy.ledger.totals.min() >= -1e-6

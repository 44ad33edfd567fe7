from datetime import timedelta

import pytest

from tensorbandits.bandit.book import (
    Book,
    CancelledDecisionError,
    ClosedDecisionError,
    ExpiredDecisionError,
    UnknownDecisionError,
)
from tensorbandits.bandit.spans import Span

CELL = (1, 2)


def book(**settings):
    return Book(**{"window": Span.of("1 min", "window"), "default": 0.0} | settings)


def opened(one, cell=CELL, note=None, *, time=0.0, active=True):
    """Enter a decision under an id of the book's own, and return it."""
    number = one.ids.issue(one)
    one.open(number, cell, note, time=time, active=active)
    return number


def told(one, number, reward, **how):
    """Tell a reward; return the reward of before and the new one, or ``None`` if nothing changed."""
    value = one.plan_tell(number, reward, **how)
    if value is None:
        return None
    before = one.enter(number, value)
    assert (one[number].cell, one[number].note) == (before.cell, before.note)
    return before.reward, value


def ended(one, time):
    """Close all that is overdue; return the cells of decisions that were shown."""
    shown, unshown = one.overdue(time=time)
    cells = [one.time_out(number, one.default).cell for number in shown]
    for number in unshown:
        one.cancel(number)
    return cells


def test_a_reward_is_told_once_and_the_same_again_changes_nothing():
    one = book()
    number = opened(one, note="note")
    assert told(one, number, 1.0) == (None, 1.0)
    assert told(one, number, 1.0) is None
    assert told(one, number, 1.0, amend=True) is None
    record = one[number]
    assert (record.state, record.reward, record.cell, record.note) == ("rewarded", 1.0, CELL, "note")
    assert len(one) == 0


def test_another_reward_needs_to_be_an_amendment():
    one = book()
    number = opened(one)
    told(one, number, 1.0)
    with pytest.raises(ClosedDecisionError, match=r"has the reward 1 already, and 2 is told.*amend=True"):
        one.plan_tell(number, 2.0)
    assert one[number].reward == 1.0
    assert told(one, number, 2.0, amend=True) == (1.0, 2.0)
    assert told(one, number, 2.0) is None


def test_rewards_add_up_where_that_was_said():
    one = book(adds=True)
    number = opened(one)
    assert told(one, number, 3.5, add=True) == (None, 3.5)
    assert told(one, number, 3.5, add=True) == (3.5, 7.0)
    with pytest.raises(ClosedDecisionError, match="add=True"):
        one.plan_tell(number, 3.5)
    strict = book()
    number = opened(strict)
    with pytest.raises(ValueError, match="adds=True"):
        strict.plan_tell(number, 1.0, add=True)
    assert strict[number].state == "open"


def test_the_check_is_of_what_the_ledger_would_hold_and_planning_changes_nothing():
    def at_most_one(value):
        if value > 1:
            raise ValueError("too much")
        return float(value)

    one = book(adds=True)
    number = opened(one)
    with pytest.raises(ValueError, match="too much"):
        one.plan_tell(number, 2, check=at_most_one)
    assert one.plan_tell(number, 1, check=at_most_one) == 1.0
    assert one[number].state == "open"
    told(one, number, 1, check=at_most_one)
    with pytest.raises(ValueError, match="too much"):
        one.plan_tell(number, 1, add=True, check=at_most_one)
    assert one[number].reward == 1.0


def test_a_window_of_time_ends_with_the_default_which_a_later_reward_replaces():
    one = book()
    first, second = opened(one), opened(one, (0, 0), time=30.0)
    assert ended(one, 60.0) == []  # it may still come at the very end
    assert ended(one, 61.0) == [CELL]
    assert (one[first].state, one[first].reward, one[second].state) == ("timed out", 0.0, "open")
    assert told(one, first, 1.0) == (0.0, 1.0)
    assert ended(one, 1e9) == [(0, 0)]
    assert told(one, second, 0.0) == (0.0, 0.0)  # the default was right
    assert one[second].state == "rewarded"


def test_windows_end_each_at_its_time_also_where_the_clock_was_put_back():
    one = book()
    ahead, now = opened(one, time=86_400.0), opened(one, (0, 0), time=0.0)
    assert ended(one, 61.0) == [(0, 0)]
    assert (one[ahead].state, one[now].state) == ("open", "timed out")


def test_without_a_default_nothing_is_told_and_a_later_reward_is_the_first():
    one = book(default=None)
    number = opened(one)
    assert ended(one, 100.0) == [CELL]
    assert (one[number].state, one[number].reward) == ("timed out", None)
    assert told(one, number, 2.0) == (None, 2.0)


def test_a_window_of_rounds_counts_decisions_that_were_shown():
    one = book(window=Span.of(2, "window"))
    number = opened(one)
    for _ in range(2):
        opened(one, (0, 0), time=1e9)
        opened(one, (0, 1), time=1e9, active=False)
    assert ended(one, 1e9) == []
    opened(one, (0, 0), time=1e9)
    assert ended(one, 1e9) == [CELL]
    assert one[number].state == "timed out"


def test_only_active_decisions_time_out_and_their_window_begins_when_they_are_shown():
    one = book()
    number = opened(one, active=False)
    assert ended(one, 1e6) == []
    assert one[number].state == "inactive"
    assert one.plan_activate(number)
    one.activate(number, time=1e6)
    assert not one.plan_activate(number)
    one.activate(number, time=1e6 + 59)  # again is no matter
    assert ended(one, 1e6 + 60) == []
    assert ended(one, 1e6 + 61) == [CELL]
    one.activate(number, time=2e6)
    assert one[number].state == "timed out"


def test_a_reward_of_a_decision_that_nobody_said_was_shown_is_taken():
    one = book()
    assert told(one, opened(one, active=False), 1.0) == (None, 1.0)


def test_a_cancelled_decision_takes_no_reward_and_never_times_out():
    one = book()
    shown, hidden = opened(one), opened(one, active=False)
    for number in (shown, hidden):
        assert one.plan_cancel(number)
        one.cancel(number)
        assert not one.plan_cancel(number)
        assert one[number].state == "cancelled"
        with pytest.raises(CancelledDecisionError, match="was cancelled; it takes no reward"):
            one.plan_tell(number, 1.0)
        with pytest.raises(CancelledDecisionError, match="ask again"):
            one.plan_activate(number)
    assert ended(one, 1e9) == []


def test_what_has_a_reward_cannot_be_cancelled():
    one = book()
    rewarded, late = opened(one), opened(one)
    told(one, rewarded, 1.0)
    assert ended(one, 100.0) == [CELL]
    for number in (rewarded, late):
        with pytest.raises(ClosedDecisionError, match="cannot be cancelled; amend it"):
            one.plan_cancel(number)


CALLS = {
    "tell": lambda one, number: one.plan_tell(number, 1.0),
    "cancel": lambda one, number: one.plan_cancel(number),
    "activate": lambda one, number: one.plan_activate(number),
    "look": lambda one, number: one[number],
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_unknown_and_expired_ids_get_errors_of_their_own(call):
    one, other = book(remember=1), book()
    ids = [opened(one) for _ in range(2)]
    for number in ids:
        told(one, number, 1.0)
    with pytest.raises(ExpiredDecisionError, match=r"forgotten.*at most 1,000,000 decisions wait, and 1 closed"):
        call(one, ids[0])
    for unknown in (opened(other), "", "x-1", ids[0] + "9", ids[0].split("-")[0] + "--1"):
        with pytest.raises(UnknownDecisionError, match="no decision has the id"):
            call(one, unknown)
    for wrong in (7, None, b"x"):
        with pytest.raises(TypeError, match=r"decision\.id"):
            call(one, wrong)


def test_memory_is_bounded_and_what_is_too_much_is_closed_like_what_is_too_late():
    one = book(window=None, capacity=3, remember=2)
    ids = [opened(one, (0, at)) for at in range(5)]
    hidden = [opened(one, (1, at), active=False) for at in range(4)]
    assert one.overdue(time=0.0) == (ids[:2], hidden[:1])
    assert ended(one, 0.0) == [(0, 0), (0, 1)]
    assert len(one) == 6
    assert one.closed == 2
    with pytest.raises(ExpiredDecisionError):
        one.plan_tell(ids[0], 1.0)
    assert told(one, ids[1], 1.0) == (0.0, 1.0)
    with pytest.raises(CancelledDecisionError):
        one.plan_tell(hidden[0], 1.0)


def test_an_id_that_is_forgotten_may_be_used_again():
    one = book(remember=0)
    for cell in ((0, 0), (0, 1)):
        one.open("mine", cell, time=0.0, active=False)
        with pytest.raises(ClosedDecisionError, match="has the id 'mine' already"):
            one.refuse_taken("mine")
        if cell == (0, 0):
            one.cancel("mine")
            assert one.refuse_taken("mine") == "mine"
    assert [number for number, _ in one.oldest(10)] == ["mine"]
    again = book(remember=0).restore(one.state(), (5, 5))
    assert again["mine"].cell == (0, 1)


def test_a_book_made_again_goes_on_with_ids_of_another_kind():
    one = book(adds=True)
    ids = [opened(one, (at, at), {"tries": at} if at else None, time=float(at), active=at < 4) for at in range(5)]
    told(one, ids[0], 2.0)
    one.cancel(ids[1])
    again = book(adds=True).restore(one.state(), (5, 5))
    assert [again[number].state for number in ids] == ["rewarded", "cancelled", "open", "open", "inactive"]
    assert told(again, ids[0], 1.0, add=True) == (2.0, 3.0)
    assert again.overdue(time=62.5) == ([ids[2]], [])
    assert again.time_out(ids[2], 0.0).note == {"tries": 2}
    assert told(again, ids[4], 1.0) == (None, 1.0)
    assert again[ids[4]].note == {"tries": 4}
    fresh, other = opened(again), opened(one)
    assert fresh != other
    with pytest.raises(UnknownDecisionError):
        again.plan_tell(other.rpartition("-")[0] + "-5", 1.0)


@pytest.mark.parametrize(
    ("value", "length", "rounds"),
    [
        ("10 min", 600, False),
        ("90s", 90, False),
        ("1.5 hours", 5400, False),
        ("2d", 172800, False),
        (timedelta(minutes=1), 60, False),
        (5000, 5000, True),
    ],
)
def test_windows_are_durations_or_rounds(value, length, rounds):
    assert Span.of(value, "window") == (length, rounds)


@pytest.mark.parametrize("value", [0, -1, "soon", "10", "-5 min", 600.0, True, timedelta(0), [], "0 s"])
def test_other_windows_are_refused(value):
    with pytest.raises((TypeError, ValueError), match=r"window is .*give a duration"):
        Span.of(value, "window")

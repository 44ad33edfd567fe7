from datetime import timedelta

import pytest

from tensorbandits.bandit.book import (
    Book,
    CancelledDecisionError,
    Change,
    ClosedDecisionError,
    ExpiredDecisionError,
    UnknownDecisionError,
)
from tensorbandits.bandit.spans import Span

CELL = (1, 2)


def book(**settings):
    return Book(**{"window": Span.of("1 min", "window"), "default": 0.0} | settings)


def test_a_reward_is_told_once_and_the_same_again_changes_nothing():
    one = book()
    number = one.open(CELL, "note", time=0.0)
    assert one.tell(number, 1.0) == Change(CELL, None, 1.0, "note")
    assert one.tell(number, 1.0) is None
    assert one.tell(number, 1.0, amend=True) is None
    assert (one.status(number), one.reward(number), len(one)) == ("rewarded", 1.0, 0)


def test_another_reward_needs_to_be_an_amendment():
    one = book()
    number = one.open(CELL, time=0.0)
    one.tell(number, 1.0)
    with pytest.raises(ClosedDecisionError, match=r"has the reward 1 already, and 2 is told.*amend=True"):
        one.tell(number, 2.0)
    assert one.reward(number) == 1.0
    assert one.tell(number, 2.0, amend=True) == Change(CELL, 1.0, 2.0, None)
    assert one.tell(number, 2.0) is None


def test_rewards_add_up_where_that_was_said():
    one = book(adds=True)
    number = one.open(CELL, time=0.0)
    assert one.tell(number, 3.5, add=True) == Change(CELL, None, 3.5, None)
    assert one.tell(number, 3.5, add=True) == Change(CELL, 3.5, 7.0, None)
    with pytest.raises(ClosedDecisionError, match="add=True"):
        one.tell(number, 3.5)
    strict = book()
    number = strict.open(CELL, time=0.0)
    with pytest.raises(ValueError, match="adds=True"):
        strict.tell(number, 1.0, add=True)
    assert strict.status(number) == "open"


def test_the_check_is_of_what_the_ledger_would_hold_and_comes_before_any_change():
    def at_most_one(value):
        if value > 1:
            raise ValueError("too much")
        return float(value)

    one = book(adds=True)
    number = one.open(CELL, time=0.0)
    with pytest.raises(ValueError, match="too much"):
        one.tell(number, 2, check=at_most_one)
    assert one.status(number) == "open"
    one.tell(number, 1, check=at_most_one)
    with pytest.raises(ValueError, match="too much"):
        one.tell(number, 1, add=True, check=at_most_one)
    assert one.reward(number) == 1.0


def test_a_window_of_time_ends_with_the_default_which_a_later_reward_replaces():
    one = book()
    first, second = one.open(CELL, time=0.0), one.open((0, 0), time=30.0)
    assert one.expire(time=60.0) == []  # it may still come at the very end
    assert one.expire(time=61.0) == [Change(CELL, None, 0.0, None)]
    assert (one.status(first), one.status(second)) == ("timed out", "open")
    assert one.tell(first, 1.0) == Change(CELL, 0.0, 1.0, None)
    assert one.expire(time=1e9) == [Change((0, 0), None, 0.0, None)]
    assert one.tell(second, 0.0) is None  # the default was right
    assert one.status(second) == "rewarded"


def test_without_a_default_nothing_is_told_and_a_later_reward_is_the_first():
    one = book(default=None)
    number = one.open(CELL, time=0.0)
    assert one.expire(time=100.0) == []
    assert one.status(number) == "timed out"
    assert one.tell(number, 2.0) == Change(CELL, None, 2.0, None)


def test_a_window_of_rounds_counts_decisions_that_were_shown():
    one = book(window=Span.of(2, "window"))
    number = one.open(CELL, time=0.0)
    for _ in range(2):
        one.open((0, 0), time=1e9)
        one.open((0, 1), time=1e9, active=False)
    assert one.expire(time=1e9) == []
    one.open((0, 0), time=1e9)
    assert one.expire(time=1e9) == [Change(CELL, None, 0.0, None)]
    assert one.status(number) == "timed out"


def test_only_active_decisions_time_out_and_their_window_begins_when_they_are_shown():
    one = book()
    number = one.open(CELL, time=0.0, active=False)
    assert one.expire(time=1e6) == []
    assert one.status(number) == "inactive"
    one.activate(number, time=1e6)
    one.activate(number, time=1e6 + 59)  # again is no matter
    assert one.expire(time=1e6 + 60) == []
    assert len(one.expire(time=1e6 + 61)) == 1
    one.activate(number, time=2e6)
    assert one.status(number) == "timed out"


def test_a_reward_of_a_decision_that_nobody_said_was_shown_is_taken():
    one = book()
    number = one.open(CELL, time=0.0, active=False)
    assert one.tell(number, 1.0) == Change(CELL, None, 1.0, None)


def test_a_cancelled_decision_takes_no_reward_and_never_times_out():
    one = book()
    shown, hidden = one.open(CELL, time=0.0), one.open(CELL, time=0.0, active=False)
    for number in (shown, hidden, shown):
        one.cancel(number)
        assert one.status(number) == "cancelled"
        with pytest.raises(CancelledDecisionError, match="was cancelled; it takes no reward"):
            one.tell(number, 1.0)
        with pytest.raises(CancelledDecisionError, match="ask again"):
            one.activate(number, time=0.0)
    assert one.expire(time=1e9) == []


def test_what_has_a_reward_cannot_be_cancelled():
    one = book()
    told, late = one.open(CELL, time=0.0), one.open(CELL, time=0.0)
    one.tell(told, 1.0)
    one.expire(time=100.0)
    for number in (told, late):
        with pytest.raises(ClosedDecisionError, match="cannot be cancelled; amend it"):
            one.cancel(number)


@pytest.mark.parametrize("call", ["tell", "cancel", "activate", "status"])
def test_unknown_and_expired_ids_get_errors_of_their_own(call):
    one, other = book(remember=1), book()
    ids = [one.open(CELL, time=0.0) for _ in range(2)]
    for number in ids:
        one.tell(number, 1.0)
    more = {"tell": {"reward": 1.0}, "activate": {"time": 0.0}}.get(call, {})
    with pytest.raises(ExpiredDecisionError, match=r"forgotten.*at most 1,000,000 decisions wait, and 1 closed"):
        getattr(one, call)(ids[0], **more)
    for unknown in (other.open(CELL, time=0.0), "", "x-1", ids[0] + "9", ids[0].split("-")[0] + "--1"):
        with pytest.raises(UnknownDecisionError, match="no decision has the id"):
            getattr(one, call)(unknown, **more)
    for wrong in (7, None, b"x"):
        with pytest.raises(TypeError, match=r"decision\.id"):
            getattr(one, call)(wrong, **more)


def test_memory_is_bounded_and_what_is_too_much_is_closed_like_what_is_too_late():
    one = book(window=None, capacity=3, remember=2)
    ids = [one.open((0, at), time=0.0) for at in range(5)]
    hidden = [one.open((1, at), time=0.0, active=False) for at in range(4)]
    assert one.expire(time=0.0) == [Change((0, at), None, 0.0, None) for at in range(2)]
    assert len(one) == 6
    assert len(one._closed) == 2
    with pytest.raises(ExpiredDecisionError):
        one.tell(ids[0], 1.0)
    assert one.tell(ids[1], 1.0) == Change((0, 1), 0.0, 1.0, None)
    with pytest.raises(CancelledDecisionError):
        one.tell(hidden[0], 1.0)


def test_a_book_made_again_goes_on_with_ids_of_another_kind():
    one = book(adds=True)
    ids = [one.open((at, at), {"tries": at} if at else None, time=float(at), active=at < 4) for at in range(5)]
    one.tell(ids[0], 2.0)
    one.cancel(ids[1])
    again = book(adds=True).restore(one.state(), (5, 5))
    assert [again.status(number) for number in ids] == ["rewarded", "cancelled", "open", "open", "inactive"]
    assert again.tell(ids[0], 1.0, add=True) == Change((0, 0), 2.0, 3.0, None)
    assert again.expire(time=62.5) == [Change((2, 2), None, 0.0, {"tries": 2})]
    assert again.tell(ids[4], 1.0) == Change((4, 4), None, 1.0, {"tries": 4})
    fresh, other = again.open(CELL, time=0.0), one.open(CELL, time=0.0)
    assert fresh != other
    with pytest.raises(UnknownDecisionError):
        again.tell(other.rpartition("-")[0] + "-5", 1.0)


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

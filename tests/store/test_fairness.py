"""A writer that was first leaves others the time they need, and none where nobody else writes."""

import pytest

from tensorbandits.store import New, Store, fairness


class Clock:
    """Time that passes when somebody sleeps."""

    def __init__(self):
        self.now = 0.0
        self.slept = []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(fairness, "time", made)
    return made


def appended(pauses, clock, times=50):
    """Append to bandit 1 some times, each for a millisecond; return how long the pauses before were."""
    clock.slept.clear()
    for _ in range(times):
        pauses.keep(1)
        clock.now += 0.001
        pauses.won(1, clock.now - 0.001)
    return list(clock.slept)


def test_who_is_alone_does_not_pause(clock):
    assert appended(fairness.Pauses(), clock) == []


def test_who_met_others_pauses_for_about_as_long_as_they_need_and_not_for_ever(clock):
    pauses = fairness.Pauses()
    pauses.asked(2, 9.0)
    assert appended(pauses, clock) == []  # another log
    pauses.asked(1, 0.004)
    paused = appended(pauses, clock)
    assert max(paused) > 0.004
    assert max(paused) <= 2 * (0.001 + 0.004) + 1e-9
    pauses.asked(1, 9.0)
    assert 0.0 < max(appended(pauses, clock)) <= fairness.LONGEST + 1e-9
    clock.now += 2.0
    pauses.keep(1)
    pauses.won(1, clock.now)
    assert appended(pauses, clock) == []


def test_who_was_late_says_what_it_needs(clock):
    pauses = fairness.Pauses()
    assert pauses.need(1) is None
    pauses.lost(1)
    clock.now += 0.25
    assert pauses.need(1) == 0.25
    pauses.won(1, clock.now)
    assert pauses.need(1) is None


def test_a_process_that_was_late_is_heard_by_the_others(postgres_url, monkeypatch):
    asked = []
    monkeypatch.setattr(fairness.Pauses, "asked", lambda _, bandit, seconds: asked.append((bandit, seconds)))
    monkeypatch.setattr("tensorbandits.store.postgres._QUIET", -1.0)
    with Store.open(postgres_url) as first, Store.open(postgres_url) as late:
        bandit = first.create("a", [New("Created", 0.0)]).id
        while first.wait(0.0):
            pass
        known = late.head(bandit)
        first.append(bandit, known, [New("x", 0.0)])
        for _ in range(2):
            with pytest.raises(RuntimeError):
                late.append(bandit, known, [New("x", 0.0)])
        while not asked:
            assert first.wait(60.0)
        assert asked[0][0] == bandit

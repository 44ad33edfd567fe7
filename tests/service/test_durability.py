"""Servers that are killed under load: the short form of what ``python -m benchmarks durability`` does at length."""

import pytest

from benchmarks.service import durability, telling
from benchmarks.service.witnesses import Record, Tally
from tensorbandits.store import Event


def killed(what, store, kills=2, servers=1):
    settings = {"what": what, "store": store, "servers": servers, "kills": kills, "clients": 4}
    found = durability.kill(settings, load=(0.1, 0.4))
    assert found["wrong"] == 0
    assert found["checks"] == kills + 1
    assert found["states"] == servers
    assert found["decisions"] > kills  # those who waited for it to serve again got their answers


@pytest.mark.parametrize("kills", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_nothing_is_lost_when_a_server_on_sqlite_is_killed(kills):
    killed("a server on SQLite", "sqlite", kills)


@pytest.mark.slow
@pytest.mark.usefixtures("postgres")
def test_nothing_is_lost_when_one_of_two_servers_is_killed_and_then_postgresql():
    killed("both", "postgresql", servers=2)


@pytest.mark.parametrize("tells", [1_000, pytest.param(5_000, marks=pytest.mark.slow)])
def test_of_tells_that_are_repeated_in_any_order_none_counts_twice(tells):
    found = telling.measure({"store": "sqlite", "tells": tells})
    assert found["sent"] >= tells
    assert found["distinct"] == found["new"] == found["in_log"] == found["counted"] == 2 * tells // 3
    assert found["refused"] == found["wrong"] == 0
    assert found["exact"]


def decided(seq, number="d1", key="k1"):
    return Event(1, seq, 0.0, "Decided", number, key, {"cell": [0, 1, 2]})


def rewarded(seq, reward, kind="Rewarded", key=None):
    return Event(1, seq, 0.0, kind, "d1", key, {"reward": reward})


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([decided(1), rewarded(2, 1)], None),
        ([decided(1), rewarded(2, 0), rewarded(3, 1, "Amended")], None),
        ([decided(1), rewarded(2, 1), rewarded(3, 1, "Unchanged", "k2")], None),
        ([decided(1), rewarded(2, 1), rewarded(3, 0, "Unchanged", "k2")], "d1 was left at 0; it is 1"),
        ([decided(1)], "reward of d1 is None, acknowledged was 1"),
        ([decided(1), rewarded(2, 0)], "reward of d1 is 0, acknowledged was 1"),
        ([decided(1), rewarded(2, 1), rewarded(3, 1)], "d1: Rewarded, but rewarded before: True"),
        ([decided(1), rewarded(3, 1)], "event 3 follows event 1"),
        ([decided(1, "d2"), rewarded(2, 1)], "lost decision d1"),
        ([decided(1), rewarded(2, 1), decided(3, "d3", "k3")], "nobody sent k3"),
    ],
)
def test_a_log_that_lost_or_doubled_something_is_found_out(events, words):
    record = Record()
    record.sent, record.decisions = {"k1"}, {"d1": ((0, 1, 2), "k1")}
    record.rewards, record.rewarded = {"d1": {0, 1}}, {"d1": 1}
    tally = Tally()
    tally.take(events)
    found = tally.check(record)
    assert (words in found) if words else not found

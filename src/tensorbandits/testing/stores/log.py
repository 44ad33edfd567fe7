"""Bandits and their logs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tensorbandits.store import (
    BanditRow,
    BehindError,
    DamagedError,
    Head,
    NameTakenError,
    New,
    RepeatedError,
    Store,
    UnknownBanditError,
)
from tensorbandits.testing.stores.case import Make, append, append_at_last, refused


def check_what_is_appended_is_read_as_it_was(make: Make) -> None:
    """Numbers, times, texts and bodies come back exactly, from a store that was opened again too."""
    body = {
        "cell": [0, 3],
        "p": 0.1,
        "deep": {"text": "naïve ☃ \0 \U0001f600", "none": None, "yes": True},
        "big": 2**60,
    }
    with make() as store:
        bandit = store.create("a", [New("Created", 1794883113.1234567, body)])
        news = [New("Decided", 0.1, {"x": 1e-300}, "d ☃", "key'; --"), New("Empty", -1.5)]
        appended = append(store, bandit, news)
        with make() as other:
            events = list(other.events(bandit.id))
            assert [tuple(event[:7]) for event in events] == [
                (bandit.id, 1, 1794883113.1234567, "Created", None, None, body),
                (bandit.id, 2, 0.1, "Decided", "d ☃", "key'; --", {"x": 1e-300}),
                (bandit.id, 3, -1.5, "Empty", None, None, {}),
            ]
            assert events[1:] == appended
            assert other.tail(bandit.id, 2) == events[:0:-1]
            assert other.head(bandit.id) == Head(3, events[-1].chain)
            assert other.heads() == {bandit.id: 3}


def check_large_events(make: Make) -> None:
    """An import puts a whole ledger into one event, and many events come at once."""
    with make() as store:
        bandit = store.create("a", [New("Created", 0.0)])
        large = [New("Imported", 0.0, {"ledger": "ab" * 4_000_000}), New("Created", 0.0, {"labels": ["ü"] * 100_000})]
        append(store, bandit, large)
        append(store, bandit, [New("x", 0.0, {"at": at}, f"d{at}", f"k{at}") for at in range(20_000)])
        assert [event.body for event in store.events(bandit.id, after=1, limit=2)] == [new.body for new in large]
        store.put_snapshot(bandit.id, 2, bytes(20_000_000))
        assert store.snapshot(bandit.id) == (2, bytes(20_000_000))
        ids = [f"d{at}" for at in range(20_000)]
        assert len(store.of_decisions(bandit.id, ids)) == 20_000
        assert len(store.keyed(bandit.id, [f"k{at}" for at in range(20_000)])) == 20_000


def check_events_are_read_in_pages_and_parts(make: Make) -> None:
    """Any range, however long the log."""
    from tensorbandits.store.database import PAGE

    count = 2 * PAGE + 3
    with make() as store:
        bandit = store.create("a", [New("Created", 0.0)] * count).id
        other = store.create("b", [New("Created", 0.0)]).id
        assert [event.seq for event in store.events(bandit)] == list(range(1, count + 1))
        assert [event.seq for event in store.events(bandit, after=PAGE - 1, until=PAGE + 2)] == [
            PAGE,
            PAGE + 1,
            PAGE + 2,
        ]
        assert [event.seq for event in store.events(bandit, after=1, limit=PAGE + 1)] == list(range(2, PAGE + 3))
        assert list(store.events(bandit, after=count)) == list(store.events(bandit, limit=0)) == []
        assert list(store.events(other + 1)) == []
        reading = store.events(bandit)
        next(reading)
        append(store, BanditRow(bandit, "a", 0.0), [New("Late", 1.0)])  # a reader that stands still holds up nobody
        assert [event.kind for event in reading][-1] == "Late"


def check_names(make: Make) -> None:
    """A name belongs to one bandit until it is deleted; the number never to another."""
    with make() as store:
        first = store.create("a", [New("Created", 5.0)])
        assert first == BanditRow(first.id, "a", 5.0) == store.find("a")
        assert store.find("b") is None
        refused(NameTakenError, store.create, "a", [New("Created", 6.0)])
        second = store.create("A", [])
        assert store.bandits() == [first, second]
        assert store.heads() == {first.id: 1, second.id: 0}
        refused(ValueError, store.delete, first.id, New("Changed", 7.0))
        refused(BehindError, store.delete, first.id, New("Deleted", 7.0, key="end"), Head())
        deleted = store.delete(first.id, New("Deleted", 7.0, key="end"), store.head(first.id))
        assert deleted == store.tail(first.id, 1)[0]
        assert store.bandits() == [second]
        assert store.find("a") is None
        assert first.id not in store.heads()
        assert [event.kind for event in store.events(first.id)] == ["Created", "Deleted"]
        refused(UnknownBanditError, store.delete, first.id, New("Deleted", 8.0))
        for head in (Head(), Head(1), store.head(first.id)):
            refused(UnknownBanditError, store.append, first.id, head, [New("Late", 9.0)])
        again = store.create("a", [New("Created", 10.0, key="end")])
        asked = [("a", "end"), ("a", "other"), ("A", "end"), ("a\0", "end")]
        assert [store.ended(*one) for one in asked] == [True, False, False, False]
        assert again.id not in (first.id, second.id)
        refused(UnknownBanditError, store.delete, again.id + 1, New("Deleted", 8.0))


def check_a_writer_that_is_behind_writes_nothing(make: Make) -> None:
    """An event gets the next number or none; whoever does not know the last one is told so."""
    with make() as store:
        bandit = store.create("a", [New("Created", 0.0)]).id
        first = store.head(bandit)
        [x, y] = store.append(bandit, first, [New("x", 0.0), New("y", 0.0)])
        assert (x.seq, y.seq) == (2, 3)
        for head in (Head(), Head(1), first, Head(2, x.chain)):
            behind = refused(BehindError, store.append, bandit, head, [New("z", 0.0)])
            assert behind.events == list(store.events(bandit, head))[: len(behind.events)]
        refused(DamagedError, store.append, bandit, Head(7, y.chain), [New("z", 0.0)])  # it knows more than there is
        refused(DamagedError, store.append, bandit, Head(3, x.chain), [New("z", 0.0)])  # or another log
        refused(UnknownBanditError, store.append, bandit + 1, Head(), [New("z", 0.0)])
        refused(UnknownBanditError, store.head, bandit + 1)
        assert store.append(bandit, Head(3, y.chain), []) == []
        assert [event.seq for event in store.append(bandit, Head(3), [New("z", 0.0)])] == [4]  # a number will do
        assert [event.kind for event in store.events(bandit)] == ["Created", "x", "y", "z"]


def check_readers_know_where_they_are(make: Make) -> None:
    """A number may be beyond the end; a head must be in the log."""
    with make() as store:
        bandit = store.create("a", [New("x", float(at)) for at in range(5)]).id
        all_of_it = list(store.events(bandit))
        for event in all_of_it:
            assert list(store.events(bandit, Head(event.seq, event.chain))) == all_of_it[event.seq :]
            assert list(store.events(bandit, Head(event.seq))) == all_of_it[event.seq :]
        assert list(store.events(bandit, 9)) == []
        assert list(store.events(bandit, verify=False)) == all_of_it
        refused(DamagedError, list, store.events(bandit, Head(9)))
        refused(DamagedError, list, store.events(bandit, Head(4, all_of_it[2].chain)))
        refused(DamagedError, list, store.events(bandit, Head(5, all_of_it[2].chain)))
        refused(DamagedError, list, store.events(bandit + 1, Head(1)))
        assert store.check() == []


def check_an_append_is_all_or_nothing(make: Make) -> None:
    """Of events one of which cannot be written none is."""
    with make() as store:
        one, two = store.create("a", [New("Created", 0.0)]), store.create("b", [New("Created", 0.0)])
        bad: list[tuple[type[Exception], New]] = [
            (RepeatedError, New("x", 0.0, key="k")),
            (ValueError, New("x", 0.0, {"p": float("nan")})),
            (ValueError, New("x", float("inf"))),
            (ValueError, New("x", 0.0, decision="a\0")),
            (ValueError, New("x\0", 0.0)),
            (ValueError, New("x", 0.0, key="\ud800")),
        ]
        for kind, new in bad:
            refused(kind, append, store, one, [New("x", 0.0, key="k"), new])
        assert store.heads() == {one.id: 1, two.id: 1}
        for bandit in (one, two):  # the same key in two bandits is no conflict
            append(store, bandit, [New("x", 0.0, key="k")])
        assert store.heads() == {one.id: 2, two.id: 2}


def check_a_decision_is_made_once(make: Make) -> None:
    """An id is decided once in a bandit, and may have many other events."""
    with make() as store:
        one, two = store.create("a", [New("Created", 0.0)]), store.create("b", [New("Created", 0.0)])
        for bandit in (one, two):
            append(store, bandit, [New("Decided", 0.0, decision="d"), New("Rewarded", 0.0, decision="d")])
        append(store, one, [New("Amended", 0.0, decision="d"), New("Amended", 0.0, decision="d")])
        refused(RepeatedError, append, store, one, [New("x", 0.0), New("Decided", 1.0, decision="d")])
        refused(RepeatedError, append, store, one, [New("Decided", 1.0, decision="e")] * 2)
        assert store.heads() == {one.id: 5, two.id: 3}


def check_keys_and_decisions_are_found(make: Make) -> None:
    """By idempotency key and by decision."""
    with make() as store:
        bandit, other = store.create("a", [New("Created", 0.0, key="k0")]), store.create("b", [New("Created", 0.0)])
        many = [New("Decided", 1.0, {"at": at}, f"d{at}", f"k{at + 1}") for at in range(1000)]
        append(store, bandit, many)
        found = store.keyed(bandit.id, [f"k{at}" for at in range(0, 2000, 2)])
        assert {key: event.seq for key, event in found.items()} == {f"k{at}": at + 1 for at in range(0, 1001, 2)}
        assert store.keyed(bandit.id, []) == store.keyed(bandit.id, ["k"]) == store.keyed(other.id, ["k0"]) == {}
        append(store, bandit, [New("Rewarded", 2.0, {"reward": 1}, "d7", "again")])
        assert store.keyed(bandit.id, ["again"])["again"].body == {"reward": 1}
        of = store.of_decisions(bandit.id, ["d7", "d8", "d9999", "d'"])
        assert {name: [event.seq for event in events] for name, events in of.items()} == {
            "d7": [9, 1002],
            "d8": [10],
        }
        assert store.of_decisions(other.id, ["d7"]) == store.of_decisions(bandit.id, []) == {}
        refused(RepeatedError, append, store, bandit, [New("x", 0.0, key="k5")])


def check_writers_do_not_lose_events(make: Make) -> None:
    """Threads of two stores append to the same logs; each event gets a number of its own."""
    with make() as store, make() as other:
        one, two = store.create("a", []), store.create("b", [])

        def work(mine: Store, order: list[int]) -> None:
            heads = dict.fromkeys(order, Head())
            for _ in range(15):
                for bandit in order:
                    before = heads[bandit].seq
                    news = [New("x", 0.0), New("y", 0.0)]
                    heads[bandit], read = append_at_last(mine, bandit, news, heads[bandit])
                    assert [event.seq for event in read] == list(range(before + 1, heads[bandit].seq - 1))

        orders = [[one.id, two.id], [two.id, one.id], [one.id]]
        with ThreadPoolExecutor(6) as pool:
            threads = [pool.submit(work, mine, order) for mine in (store, other) for order in orders]
        for thread in threads:
            thread.result()
        assert store.heads() == {one.id: 6 * 15 * 2, two.id: 4 * 15 * 2}
        assert [event.kind for event in other.events(one.id)] == ["x", "y"] * 90

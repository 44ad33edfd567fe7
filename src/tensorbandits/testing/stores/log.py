"""Bandits, their logs, and turns."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from tensorbandits.store import BanditRow, ConflictError, NameTakenError, New, Store, UnknownBanditError
from tensorbandits.testing.stores.case import Make, Stores, append, refused


def check_what_is_appended_is_read_as_it_was(make: Make) -> None:
    """Numbers, times, texts and bodies come back exactly, from a store that was opened again too."""
    body = {
        "cell": [0, 3],
        "p": 0.1,
        "deep": {"text": "naïve ☃ \0 \U0001f600", "none": None, "yes": True},
        "big": 2**60,
    }
    with Stores(make) as store:
        bandit = store.create("a", [New("Created", 1794883113.1234567, body)])
        append(store, bandit, [New("Decided", 0.1, {"x": 1e-300}, "d ☃", "key'; --"), New("Empty", -1.5)])
        with Stores(make) as other:
            events = list(other.events(bandit.id))
            assert [tuple(event) for event in events] == [
                (bandit.id, 1, 1794883113.1234567, "Created", None, None, body),
                (bandit.id, 2, 0.1, "Decided", "d ☃", "key'; --", {"x": 1e-300}),
                (bandit.id, 3, -1.5, "Empty", None, None, {}),
            ]
            assert other.tail(bandit.id, 2) == events[:0:-1]
            assert other.heads() == {bandit.id: 3}


def check_large_events(make: Make) -> None:
    """An import puts a whole ledger into one event, and many events come at once."""
    with Stores(make) as store:
        bandit = store.create("a", [New("Created", 0.0)])
        large = [New("Imported", 0.0, {"ledger": "ab" * 4_000_000}), New("Created", 0.0, {"labels": ["ü"] * 100_000})]
        append(store, bandit, large)
        append(store, bandit, [New("x", 0.0, {"at": at}, f"d{at}", f"k{at}") for at in range(20_000)])
        assert [event.body for event in store.events(bandit.id, after=1, limit=2)] == [new.body for new in large]
        store.put_snapshot(bandit.id, 2, bytes(20_000_000))
        assert store.snapshot(bandit.id) == (2, bytes(20_000_000))
        ids = [f"d{at}" for at in range(20_000)]
        assert len(store.of_decisions(bandit.id, ids)) == 20_000
        with store.turn([bandit.id]) as turn:
            assert len(turn.keyed(bandit.id, [f"k{at}" for at in range(20_000)])) == 20_000


def check_events_are_read_in_pages_and_parts(make: Make) -> None:
    """Any range, however long the log."""
    from tensorbandits.store.database import PAGE

    count = 2 * PAGE + 3
    with Stores(make) as store:
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
    with Stores(make) as store:
        first = store.create("a", [New("Created", 5.0)])
        assert first == BanditRow(first.id, "a", 5.0) == store.find("a")
        assert store.find("b") is None
        refused(NameTakenError, store.create, "a", [New("Created", 6.0)])
        second = store.create("A", [])
        assert store.bandits() == [first, second]
        assert store.heads() == {first.id: 1, second.id: 0}
        refused(ValueError, store.delete, first.id, New("Changed", 7.0))
        store.delete(first.id, New("Deleted", 7.0, key="end"))
        assert store.bandits() == [second]
        assert store.find("a") is None
        assert first.id not in store.heads()
        assert [event.kind for event in store.events(first.id)] == ["Created", "Deleted"]
        refused(UnknownBanditError, store.delete, first.id, New("Deleted", 8.0))
        for after in (0, 1, 2):
            refused(UnknownBanditError, append, store, first, [New("Late", 9.0)], after)
        again = store.create("a", [New("Created", 10.0, key="end")])
        asked = [("a", "end"), ("a", "other"), ("A", "end"), ("a\0", "end")]
        assert [store.ended(*one) for one in asked] == [True, False, False, False]
        assert again.id not in (first.id, second.id)
        refused(UnknownBanditError, store.delete, again.id + 1, New("Deleted", 8.0))


def check_numbers_have_no_gaps(make: Make) -> None:
    """An event gets the next number or none."""
    with Stores(make) as store:
        bandit = store.create("a", [New("Created", 0.0)])
        for number in (0, 1, 3):
            with store.turn([bandit.id]) as turn:
                refused(ConflictError, turn.append, bandit.id, number, [New("x", 0.0)])
                turn.events(bandit.id, 1)
                refused(ConflictError, turn.append, bandit.id, number, [New("x", 0.0)])
        with store.turn([bandit.id]) as turn:
            turn.append(bandit.id, 2, [New("x", 0.0), New("y", 0.0)])
            turn.append(bandit.id, 4, [])
            turn.append(bandit.id, 4, [New("z", 0.0)])
            assert [event.seq for event in turn.events(bandit.id, 1)] == [2, 3, 4]
            assert [event.seq for event in turn.events(bandit.id, 0)] == [1, 2, 3, 4]
            assert turn.events(bandit.id, 4) == []
        with store.turn([bandit.id]) as turn:
            refused(RuntimeError, turn.events, bandit.id, 5)  # the caller knows more than the store
            refused(ValueError, turn.events, bandit.id + 1, 0)
            refused(ValueError, turn.append, bandit.id + 1, 1, [New("x", 0.0)])
        with store.turn([bandit.id + 1]) as turn:
            refused(UnknownBanditError, turn.events, bandit.id + 1, 0)
        assert store.heads() == {bandit.id: 4}


def check_a_turn_is_all_or_nothing(make: Make) -> None:
    """What was appended before an error is not there, also if the error was caught inside."""
    with Stores(make) as store:
        one, two = store.create("a", [New("Created", 0.0)]), store.create("b", [New("Created", 0.0)])

        def fail(news: Sequence[New], error: Exception | None) -> None:
            with store.turn([two.id, one.id, two.id]) as turn:
                turn.append(two.id, 2, [New("x", 0.0, key="k")])
                try:
                    turn.append(one.id, 2, news)
                    turn.events(one.id, 0)  # where a database answers late, it answers now
                except ConflictError:
                    pass
                if error is not None:
                    raise error

        refused(KeyError, fail, [New("x", 0.0)], KeyError("of the caller"))
        refused(ConflictError, fail, [New("x", 0.0, key="k"), New("y", 0.0, key="k")], None)
        refused(ValueError, fail, [New("x", 0.0), New("x", float("nan"), {"p": float("nan")})], None)
        refused(ValueError, fail, [New("x", float("inf"))], None)
        refused(ValueError, fail, [New("x", 0.0, decision="a\0")], None)
        refused(ValueError, fail, [New("x", 0.0, key="\ud800")], None)
        assert store.heads() == {one.id: 1, two.id: 1}
        fail([New("x", 0.0, key="k")], None)  # the same key in two bandits is no conflict
        assert store.heads() == {one.id: 2, two.id: 2}


def check_keys_and_decisions_are_found(make: Make) -> None:
    """By idempotency key and by decision, in the turn and outside."""
    with Stores(make) as store:
        bandit, other = store.create("a", [New("Created", 0.0, key="k0")]), store.create("b", [New("Created", 0.0)])
        many = [New("Decided", 1.0, {"at": at}, f"d{at}", f"k{at + 1}") for at in range(1000)]
        append(store, bandit, many)
        with store.turn([bandit.id, other.id]) as turn:
            found = turn.keyed(bandit.id, [f"k{at}" for at in range(0, 2000, 2)])
            assert {key: event.seq for key, event in found.items()} == {f"k{at}": at + 1 for at in range(0, 1001, 2)}
            assert turn.keyed(bandit.id, []) == turn.keyed(bandit.id, ["k"]) == turn.keyed(other.id, ["k0"]) == {}
            turn.append(bandit.id, 1002, [New("Rewarded", 2.0, {"reward": 1}, "d7", "again")])
            assert [event.kind for event in turn.of_decisions(bandit.id, ["d7"])["d7"]] == ["Decided", "Rewarded"]
            assert turn.keyed(bandit.id, ["again"])["again"].body == {"reward": 1}
        of = store.of_decisions(bandit.id, ["d7", "d8", "d9999", "d'"])
        assert {name: [event.seq for event in events] for name, events in of.items()} == {
            "d7": [9, 1002],
            "d8": [10],
        }
        assert store.of_decisions(other.id, ["d7"]) == store.of_decisions(bandit.id, []) == {}
        refused(ConflictError, append, store, bandit, [New("x", 0.0, key="k5")])


def check_turns_exclude_each_other(make: Make) -> None:
    """Threads of two stores count to a number without losing one."""
    with Stores(make) as store, Stores(make) as other:
        one, two = store.create("a", [New("Created", 0.0)]), store.create("b", [New("Created", 0.0)])
        errors: list[BaseException] = []

        def work(mine: Store, order: list[int]) -> None:
            try:
                seen = dict.fromkeys(order, 0)
                for _ in range(15):
                    with mine.turn(order) as turn:
                        for bandit in order:
                            events = turn.events(bandit, seen[bandit])
                            assert [event.seq for event in events] == [
                                seen[bandit] + 1 + at for at in range(len(events))
                            ]
                            seen[bandit] += len(events) + 2
                            turn.append(bandit, seen[bandit] - 1, [New("x", 0.0), New("y", 0.0)])
            except BaseException as error:
                errors.append(error)

        orders = [[one.id, two.id], [two.id, one.id], [one.id]]
        threads = [threading.Thread(target=work, args=(mine, order)) for mine in (store, other) for order in orders]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors, errors
        assert store.heads() == {one.id: 1 + 6 * 15 * 2, two.id: 1 + 4 * 15 * 2}
        assert [event.seq for event in other.events(one.id)] == list(range(1, 182))


CHECKS = [
    check_what_is_appended_is_read_as_it_was,
    check_large_events,
    check_events_are_read_in_pages_and_parts,
    check_names,
    check_numbers_have_no_gaps,
    check_a_turn_is_all_or_nothing,
    check_keys_and_decisions_are_found,
    check_turns_exclude_each_other,
]

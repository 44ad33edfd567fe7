"""Snapshots, folding, waiting, keys, copies, closing."""

from __future__ import annotations

import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from tensorbandits.store import (
    BehindError,
    ConflictError,
    DamagedError,
    FoldedError,
    Head,
    KeyRow,
    New,
    Store,
    UnknownBanditError,
)
from tensorbandits.testing.stores.case import Make, append, append_at_last, refused


def check_snapshots_are_caches(make: Make) -> None:
    """The newest two are kept, and can be dropped."""
    with make() as store:
        bandit, other = store.create("a", [New("x", 0.0)] * 9).id, store.create("b", [New("x", 0.0)] * 9).id
        assert store.snapshot(bandit) is None
        state = bytes(range(256)) * 1000
        for seq in (3, 5, 7, 7, 4):
            store.put_snapshot(bandit, seq, state + bytes([seq]))
        store.put_snapshot(other, 1, b"")
        assert store.snapshot(bandit) == (7, state + b"\7")
        assert store.snapshot(bandit, until=6) == (5, state + b"\5")
        assert store.snapshot(bandit, until=4) is None
        refused(ValueError, store.put_snapshot, bandit, 10, b"more than happened")
        refused(UnknownBanditError, store.put_snapshot, other + 1, 1, b"")
        store.drop_snapshots(bandit)
        assert store.snapshot(bandit) is None
        assert store.snapshot(other) == (1, b"")
        store.drop_snapshots()
        assert store.snapshot(other) is None


def check_folding(make: Make) -> None:
    """Events become the base; who reads on from before it is told so, and numbers go on."""
    with make() as store:
        bandit = store.create("a", [New("x", float(at), key=f"k{at}", decision="d") for at in range(1, 10)])
        [last] = store.tail(bandit.id, 1)
        for seq in (3, 8):
            store.put_snapshot(bandit.id, seq, b"cache")
        assert store.base(bandit.id) == 0
        for seq in (0, 10):
            refused(ValueError, store.fold, bandit.id, seq, b"")
        reading = store.events(bandit.id, limit=3)
        assert store.fold(bandit.id, 5, b"base") == 5
        assert (store.base(bandit.id), store.heads()) == (5, {bandit.id: 9})
        assert [event.seq for event in reading] == [6, 7, 8]
        assert (store.snapshot(bandit.id), store.snapshot(bandit.id, 7)) == ((8, b"cache"), (5, b"base"))
        assert store.snapshot(bandit.id, 4) is None
        refused(ValueError, store.fold, bandit.id, 5, b"")
        refused(FoldedError, list, store.events(bandit.id, after=4))
        assert [event.seq for event in store.events(bandit.id, after=5)] == [6, 7, 8, 9]
        store.drop_snapshots()
        assert store.fold(bandit.id, 9, b"all") == 4
        assert (store.snapshot(bandit.id), store.heads()) == ((9, b"all"), {bandit.id: 9})
        store.put_snapshot(bandit.id, 9, b"no need")
        assert store.snapshot(bandit.id) == (9, b"all")
        refused(FoldedError, list, store.events(bandit.id, after=8))
        refused(BehindError, store.append, bandit.id, Head(8), [New("y", 0.0)])
        assert list(store.events(bandit.id, after=9)) == list(store.events(bandit.id)) == []
        assert not store.keyed(bandit.id, ["k3"])
        assert not store.of_decisions(bandit.id, ["d"])
        assert store.head(bandit.id) == Head(9, last.chain)
        refused(DamagedError, store.append, bandit.id, Head(9, "0" * 16), [New("y", 0.0)])
        store.append(bandit.id, Head(9, last.chain), [New("y", 0.0, key="k3")])
        assert list(store.events(bandit.id, Head(9, last.chain))) == list(store.events(bandit.id))
        refused(DamagedError, list, store.events(bandit.id, Head(9, "0" * 16)))
        assert [event.seq for event in store.events(bandit.id)] == [10]


def check_a_fold_amid_reading_is_told(make: Make) -> None:
    """A reader that has begun does not skip what is folded away under it."""
    from tensorbandits.store.database import PAGE

    with make() as store:
        bandit = store.create("a", [New("x", 0.0)] * (3 * PAGE)).id
        reading = store.events(bandit)
        next(reading)
        store.fold(bandit, 2 * PAGE, b"base")
        refused(FoldedError, list, reading)


def check_folding_beside_appending(make: Make) -> None:
    """Events that are appended while others are folded away keep their numbers, and none is lost."""
    with make() as store, make() as other:
        bandit = store.create("a", []).id

        def write(mine: Store) -> None:
            head, written = Head(), 0
            while written < 40:
                try:
                    head, _ = append_at_last(mine, bandit, [New("x", 0.0), New("y", 0.0)], head)
                    written += 1
                except FoldedError:
                    head = mine.head(bandit)

        with ThreadPoolExecutor(3) as pool:
            threads = [pool.submit(write, mine) for mine in (store, other, store)]
            while not all(thread.done() for thread in threads):
                with suppress(ValueError):  # nothing is new
                    store.fold(bandit, store.head(bandit).seq, b"base")
        for thread in threads:
            thread.result()
        assert store.head(bandit).seq == 3 * 40 * 2
        assert len(list(store.events(bandit))) == 240 - store.base(bandit)


def check_waiting(make: Make) -> None:
    """A write of another store ends the waiting; our own does not have to."""
    with make() as store, make() as other:
        bandit = store.create("a", [New("Created", 0.0)])
        while store.wait(0.0):
            pass  # what there was
        assert not store.wait(0.0)
        writer = threading.Timer(0.1, append, (other, bandit, [New("x", 0.0)]))
        writer.start()
        assert store.wait(60.0)
        writer.join()
        while store.wait(0.0):
            pass
        append(other, bandit, [New("x", 0.0)])  # before the waiting begins
        assert store.wait(60.0)


def check_api_keys(make: Make) -> None:
    """Keys are listed with what they may, and revoked once."""
    with make() as store:
        rows = [
            KeyRow("a1", "ann", "$argon2id$..", "admin", None, 1.0),
            KeyRow("b2", "ann", "x", "decide", ["campaign", "ünï"], 2.5, None),
            KeyRow("c3", "", "x", "read", [], 3.0, 4.0),
        ]
        assert store.keys() == []
        for row in reversed(rows):
            store.add_key(row)
        assert store.keys() == rows
        refused(ConflictError, store.add_key, rows[0])
        assert store.revoke_key("b2", 9.0)
        assert [store.revoke_key(key, 10.0) for key in ("b2", "c3", "d4")] == [False, False, False]
        listed = store.keys()
        assert [row.revoked for row in listed] == [None, 9.0, 4.0]


def check_backups(make: Make) -> None:
    """A backup is a store with the same contents, which another can be filled from."""
    with make() as store, tempfile.TemporaryDirectory() as directory:
        bandit = store.create("a", [New("x", float(at), {"at": at}, f"d{at}", f"k{at}") for at in range(5000)])
        store.delete(store.create("b", []).id, New("Deleted", 1.0))
        store.fold(bandit.id, 100, b"base")
        store.put_snapshot(bandit.id, 200, b"cache")
        store.add_key(KeyRow("a1", "ann", "x", "decide", ["a"], 1.0))
        path = Path(directory) / "copy.db"
        store.backup(path)
        refused(FileExistsError, store.backup, path)
        assert [entry.name for entry in Path(directory).iterdir()] == [path.name]
        with Store.open(path) as copy, Store.open("sqlite://") as restored:
            restored.copy_from(copy)
            for other in (copy, restored):
                assert list(other.events(bandit.id, 100)) == list(store.events(bandit.id, 100))
                assert (other.bandits(), other.keys(), other.heads()) == (store.bandits(), store.keys(), store.heads())
                assert (other.base(bandit.id), other.snapshot(bandit.id)) == (100, (200, b"cache"))
                refused(RuntimeError, other.copy_from, store)
                assert other.create("c", []).id > bandit.id + 1


def check_data_of_persons_are_removed(make: Make) -> None:
    """Ids, keys and subjects go, what is left can be read and checked, and no state of before is kept any more."""
    with make() as store:
        made = [New("Decided", float(at), {"at": at, "request": "f"}, f"d{at}", f"k{at}", "ann") for at in range(3)]
        bandit = store.create("a", [New("Created", 0.0)])
        append(store, bandit, [*made, New("Decided", 3.0, {}, "d3", None, "bob"), New("Rewarded", 4.0, {}, "d1")])
        refused(BehindError, store.append, bandit.id, Head(1), [New("Decided", 3.0, {}, "d4", None, "ann")])
        assert store.of_subject(bandit.id, "ann") == ["d0", "d1", "d2"]
        before = list(store.events(bandit.id))
        store.put_snapshot(bandit.id, 3, b"state with ids")
        append(store, bandit, [New("Forgotten", 5.0)])
        assert store.redact(bandit.id, {"d0": "x0", "d1": "x1"}) == 3
        assert store.snapshot(bandit.id) is None
        store.put_snapshot(bandit.id, 4, b"state of before")  # as a server that does not know yet does
        assert store.snapshot(bandit.id) is None
        left = list(store.events(bandit.id))
        assert [event.decision for event in left] == [None, "x0", "x1", "d2", "d3", "x1", None]
        assert [event.key for event in left] == [None, None, None, "k2", None, None, None]
        assert [event.body.get("at") for event in left] == [event.body.get("at") for event in before] + [None]
        assert [event.chain for event in left[:-1]] == [event.chain for event in before]
        assert (store.of_subject(bandit.id, "ann"), store.of_subject(bandit.id, "bob")) == (["d2"], ["d3"])
        append(store, bandit, [New("x", 6.0)])
        store.fold(bandit.id, 7, b"base")
        assert store.replace_base(bandit.id, 7, b"cleaned")
        assert not store.replace_base(bandit.id, 6, b"no base")
        assert store.snapshot(bandit.id) == (7, b"cleaned")


def check_a_backup_can_be_restored_here(make: Make) -> None:
    """An empty store takes in all of another, and goes on."""
    with make() as store, Store.open("sqlite://") as source:
        bandits = [source.create(name, [New("Created", 1.0, {"name": name})] * 3) for name in "abc"]
        store.copy_from(source)
        assert store.bandits() == bandits
        assert list(store.events(bandits[1].id)) == list(source.events(bandits[1].id))
        assert store.create("d", []).id == bandits[-1].id + 1
        append(store, bandits[0], [New("x", 0.0)])
        refused(RuntimeError, store.copy_from, source)


def check_a_closed_store_is_closed(make: Make) -> None:
    """It says so, and closing it twice does no harm."""
    with make() as store:
        store.close()
        store.close()
        refused(RuntimeError, store.bandits)
        refused(RuntimeError, store.create, "a", [])
        refused(RuntimeError, store.wait, 0.0)

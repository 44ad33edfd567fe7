"""A process that is stopped, or cut off from PostgreSQL, at any point holds up nobody."""

import contextlib
import os
import random
import signal
import threading
import time

import psycopg
import pytest

from tensorbandits.store import (
    BehindError,
    ConflictError,
    Head,
    NameTakenError,
    New,
    Store,
    StoreError,
    UnknownBanditError,
    postgres,
)
from tests.store import workers
from tests.store.proxies import Proxy
from tests.store.test_processes import process

AT_MOST = 5.0  # seconds that others may be delayed
LARGE = {"text": "x" * 300_000}


@pytest.fixture
def impatient(monkeypatch):
    """Stores that say after a while which they would have to wait for; opened later, by this process."""
    monkeypatch.setitem(postgres._SETTINGS, "lock_timeout", f"{AT_MOST:g}s")


def test_a_process_that_is_stopped_at_any_moment_holds_up_nobody(postgres_url, impatient):
    chance = random.Random(5)
    with Store.open(postgres_url) as store:
        same, other = (store.create(name, [New("Created", 0.0)]).id for name in "ab")
        with process(workers.write_everything, postgres_url, same) as (writer, told):
            assert told.recv() == "open"
            for number in range(40):
                time.sleep(chance.uniform(0.0, 0.02))
                os.kill(writer.pid, signal.SIGSTOP)
                for bandit in (other, same):
                    started = time.monotonic()
                    append(store, bandit)
                    assert time.monotonic() - started < AT_MOST
                made = store.create(f"mine {number}", [New("Created", 0.0)])
                store.put_snapshot(other, store.head(other).seq, b"state")
                store.fold(other, store.head(other).seq, b"base")
                store.delete(made.id, New("Deleted", 0.0))
                os.kill(writer.pid, signal.SIGCONT)
        assert len(list(store.events(same))) == store.head(same).seq - store.base(same)


def append(store, bandit):
    """Append as a writer does that is not alone."""
    while True:
        try:
            return store.append(bandit, store.head(bandit), [New("x", 0.0)])
        except BehindError:
            pass


@pytest.fixture
def proxy(postgres):
    made = Proxy(postgres)
    yield made
    made.close()


WRITES = {
    "append": lambda store, bandit, head: store.append(bandit, head, [New("x", 0.0, LARGE), New("y", 0.0)]),
    "fold": lambda store, bandit, head: store.fold(bandit, head.seq, bytes(300_000)),
    "put_snapshot": lambda store, bandit, head: store.put_snapshot(bandit, head.seq, bytes(300_000)),
    "delete": lambda store, bandit, head: store.delete(bandit, New("Deleted", 0.0, LARGE), head),
    "create": lambda store, bandit, head: store.create("new", [New("Created", 0.0, LARGE)]),
}


def ends(sent):
    """Return the kinds of the messages that a client sent, and the numbers of bytes after which each ends."""
    kinds, places, at = "", [], 0
    while at < len(sent):
        kinds += chr(sent[at])
        at += 1 + int.from_bytes(sent[at + 1 : at + 5], "big")
        places.append(at)
    return kinds, places


@pytest.mark.parametrize("write", WRITES)
def test_a_connection_that_is_cut_at_any_byte_holds_up_nobody(write, proxy, postgres_url, impatient):
    chance = random.Random(write)
    with Store.open(proxy.url(postgres_url)) as cut, Store.open(postgres_url) as store:
        for number in range(20):
            same, other = (store.create(f"{name}{number}", [New("Created", 0.0)] * 3).id for name in "ab")
            head = cut.head(same)
            if number < 2:  # it tells where messages end; the first prepares statements as well
                proxy.sent.clear()
                WRITES[write](cut, same, head)
                places = ends(proxy.sent)[1]
                if write == "create":
                    store.delete(store.find("new").id, New("Deleted", 0.0))
                continue
            end = chance.choice(places)
            proxy.hold(
                chance.choice([end, max(end - 20, 1), chance.randrange(1, 2000), chance.randrange(1, places[-1])])
            )
            writing = threading.Thread(target=attempt, args=(WRITES[write], cut, same, head))
            writing.start()
            while writing.is_alive() and not proxy.held(0.05):
                pass  # a message may be a little shorter than the one before
            for bandit in (other, same):
                started = time.monotonic()
                attempt(append, store, bandit)
                assert time.monotonic() - started < AT_MOST
            with contextlib.suppress(NameTakenError):
                store.create("new", [])
            proxy.release()
            writing.join(60)
            assert not writing.is_alive()
            store.delete(store.find("new").id, New("Deleted", 0.0))
            assert [event.seq for event in store.events(other)] == [1, 2, 3, 4]


GIVEN_UP = {
    **{name: WRITES[name] for name in ("append", "create", "delete")},
    "read": lambda store, bandit, head: list(store.events(bandit)),
    "look up a key": lambda store, bandit, head: store.keyed(bandit, ["k"]),
    "look at the clock": lambda store, bandit, head: store.clock(),
}


@pytest.mark.parametrize("call", GIVEN_UP)
def test_a_database_that_never_answers_is_given_up(call, proxy, postgres_url, monkeypatch):
    """Nothing passes any more, with all connections open: whoever asks is told so, and it works again later."""
    monkeypatch.setattr(postgres, "_ANSWER", 0.3)
    caught = []

    def ask():
        try:
            GIVEN_UP[call](cut, bandit, head)
        except Exception as error:
            caught.append(error)

    with Store.open(proxy.url(postgres_url)) as cut:
        bandit = cut.create("a", [New("Created", 0.0)]).id
        head = cut.append(bandit, cut.head(bandit), [New("x", 0.0)])[-1]
        head = Head(head.seq, head.chain)
        proxy.hold(0)
        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        asking.join(60)
        [error] = caught  # else it waits for ever
        assert isinstance(error, StoreError), error
        assert "no answer came for 0.3 seconds" in str(error)
        proxy.release()
        assert cut.head(bandit).seq >= head.seq  # what was held may come late


def attempt(write, *arguments):
    """Write what others may have made impossible meanwhile, but not by holding it up."""
    with contextlib.suppress(ConflictError, UnknownBanditError, ValueError):
        write(*arguments)


def test_an_append_is_one_message(proxy, postgres_url, monkeypatch):
    with Store.open(proxy.url(postgres_url)) as store:
        head = Head()
        bandit = store.create("a", []).id
        for number in range(10):
            proxy.sent.clear()
            [event] = store.append(bandit, head, [New("Decided", 0.0, {"number": number}, f"d{number}", f"k{number}")])
            head = Head(event.seq, event.chain)
            if number:  # the first has the statements prepared
                assert ends(proxy.sent)[0] == "Q"
        proxy.sent.clear()
        with pytest.raises(BehindError) as caught:
            store.append(bandit, Head(1, next(store.events(bandit)).chain), [New("x", 0.0)])
        assert [event.seq for event in caught.value.events] == list(range(2, 11))


def test_locks_of_upkeep_are_none_that_an_append_waits_for(postgres_url, monkeypatch):
    """Should a fold or a deletion take long, those who append go on."""
    monkeypatch.setitem(postgres._SETTINGS, "lock_timeout", "100ms")
    with Store.open(postgres_url) as store, psycopg.connect(postgres_url) as holder:
        bandit = store.create("a", [New("Created", 0.0)] * 3).id
        holder.execute("UPDATE bandits SET folded = folded, deleted = deleted")
        holder.execute("DELETE FROM events WHERE seq < 3")
        holder.execute("INSERT INTO snapshots VALUES (%s, false, 1, 0.0, 'x')", [bandit])
        append(store, bandit)
        holder.rollback()
        assert [event.seq for event in store.events(bandit)] == [1, 2, 3, 4]


def test_who_hangs_in_an_upgrade_is_thrown_out(postgres_url):
    """Tables that are being changed are free again when the process that changes them does nothing."""
    with Store.open(postgres_url) as store:
        bandit = store.create("a", []).id
        with pytest.raises(StoreError, match="cannot be reached"):
            change_tables_and(lambda: append(store, bandit), store)  # which waits until the other is thrown out
        assert [event.seq for event in store.events(bandit)] == [1]


def change_tables_and(do, store):
    """Do something else in the middle of an upgrade."""
    with store._backend.exclusive(idle=0.2) as connection:
        connection.exec_driver_sql("ALTER TABLE events ADD COLUMN more TEXT")
        do()
        connection.exec_driver_sql("SELECT 1")

"""Several processes share a store; some are killed."""

import contextlib
import multiprocessing
import os
import signal
import threading
import time

import pytest

from tensorbandits.store import New, Store, StoreError, StoreUnavailableError
from tests import servers
from tests.store import workers

SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    return request.getfixturevalue("postgres_url")


def test_writes_of_processes_leave_no_gap_and_no_duplicate(url):
    with Store.open(url) as store:
        bandits = [store.create(name, []).id for name in "abc"]
        tasks = [(url, f"process {at}", bandits, 40) for at in range(3)]
        with SPAWN.Pool(3) as pool:
            ours = pool.map(workers.append_beside_others, tasks, chunksize=1)
        for bandit in bandits:
            events = list(store.events(bandit))
            assert [event.seq for event in events] == list(range(1, len(events) + 1))
            assert len({event.key for event in events}) == len(events)
            for (_, name, _, _), counts in zip(tasks, ours):
                assert sum(event.body["by"] == name for event in events) == counts[bandit]


@contextlib.contextmanager
def process(target, *arguments):
    """A process that is killed at the end; yields it and what it tells."""
    told, tell = SPAWN.Pipe(duplex=False)
    started = SPAWN.Process(target=target, args=(*arguments, tell), daemon=True)
    started.start()
    tell.close()
    try:
        yield started, told
    finally:
        if started.is_alive():
            os.kill(started.pid, signal.SIGKILL)
        started.join()
        told.close()


def test_a_killed_writer_loses_nothing_that_was_committed(url):
    with Store.open(url) as store:
        bandit = store.create("a", []).id
        for number in range(3):
            with process(workers.append_until_killed, url, bandit, f"life {number}") as (writer, told):
                last = [told.recv() for _ in range(5 + 7 * number)][-1]
                os.kill(writer.pid, signal.SIGKILL)
                with contextlib.suppress(EOFError):
                    while True:
                        last = told.recv()
                writer.join()
            events = list(store.events(bandit))
            assert len(events) >= last
            assert [event.seq for event in events] == list(range(1, len(events) + 1))
            assert len(events) % 2 == 0  # appends are whole


@contextlib.contextmanager
def holding(url):
    """A process that holds the lock which a write needs, as ours never do for long."""
    if url.startswith("sqlite"):
        started = process(workers.hold_the_file, url.removeprefix("sqlite:///"))
    else:
        started = process(workers.hold_the_tables, url)
    with started as (holder, told):
        assert told.recv() == "mine"
        yield holder


def test_the_lock_of_a_killed_process_is_free(url):
    with Store.open(url) as store:
        bandit = store.create("a", [New("Created", 0.0)]).id
        with holding(url) as holder:
            os.kill(holder.pid, signal.SIGKILL)
            append(store, bandit, "k")


def test_a_lock_that_is_held_too_long_is_said(url, monkeypatch):
    from tensorbandits.store import postgres, sqlite

    monkeypatch.setattr(sqlite, "PATIENCE", 0.2)
    monkeypatch.setitem(postgres._SETTINGS, "lock_timeout", "200ms")
    with Store.open(url) as store:
        bandit = store.create("a", [New("Created", 0.0)]).id
        head = store.head(bandit)
        words = r"held.* by another process|another process held"
        with holding(url), pytest.raises(StoreUnavailableError, match=words):
            store.append(bandit, head, [New("x", 0.0)])
        append(store, bandit, "k")


def append(store, bandit, key):
    """Append an event with a key."""
    store.append(bandit, store.head(bandit), [New("x", 0.0, key=key)])


def test_notifications_end_the_waiting_and_polling_is_behind_them(postgres_url, monkeypatch):
    from tensorbandits.store import postgres

    with Store.open(postgres_url) as store, Store.open(postgres_url) as other:
        bandit = store.create("a", []).id
        while store.wait(0.0):
            pass
        with monkeypatch.context() as patch:
            patch.setattr(postgres, "_POLL", 3600.0)
            append(store, bandit, "ours")
            assert not store.wait(0.0)
            append(other, bandit, "theirs")
            assert store.wait(600.0)
            assert not store.wait(0.0)
        with monkeypatch.context() as patch:
            patch.setattr(postgres, "_notify", "SELECT %(sender)s")
            append(other, bandit, "unheard")
        assert store.wait(600.0)


def test_one_notification_tells_of_many_commits_and_none_is_left_out(postgres_url, monkeypatch):
    """The first of several is told at once, the others together, by whoever waits in the process that made them."""
    from tensorbandits.store import postgres

    monkeypatch.setattr(postgres, "_POLL", 600.0)
    monkeypatch.setattr(postgres, "_QUIET", 0.5)
    with Store.open(postgres_url) as store, Store.open(postgres_url) as other:
        for one in (store, other):
            while one.wait(0.0):
                pass
        time.sleep(0.5)  # nothing was told of late
        for count in range(3):
            other.create(f"b{count}", [New("Created", 0.0, {})])
        assert store.wait(600.0)  # of the first
        assert not store.wait(0.0)
        waiting = threading.Thread(target=other.wait, args=(5.0,))
        waiting.start()
        assert store.wait(600.0)  # of the others
        waiting.join()
        assert not store.wait(0.0)


@pytest.fixture
def own_postgres(postgres):
    """A server that may be killed."""
    server = servers.Postgres()
    try:
        yield server.start()
    finally:
        server.close()


def test_a_killed_postgres_loses_nothing_and_is_used_again(own_postgres):
    with Store.open(own_postgres.create("a")) as store:
        bandit = store.create("a", []).id
        committed, stop = [], threading.Event()

        def write():
            number = 0
            while not stop.is_set():
                with contextlib.suppress(StoreError):  # committed or not, it is not acknowledged
                    append(store, bandit, f"{number}")
                    committed.append(f"{number}")
                number += 1

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(3):
                goal = len(committed) + 20
                while len(committed) < goal:
                    store.wait(0.01)
                own_postgres.kill()
                with pytest.raises(StoreUnavailableError):
                    store.heads()
                assert not store.wait(0.01)
                own_postgres.start()
            goal = len(committed) + 20
            while len(committed) < goal:
                store.wait(0.01)
        finally:
            stop.set()
            writer.join()
        events = list(store.events(bandit))
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert set(committed) <= {event.key for event in events}


def test_a_restarted_postgres_is_served_at_the_first_try(own_postgres):
    url = own_postgres.create("a")
    with Store.open(url) as store, Store.open(url) as other:
        bandit = store.create("a", []).id
        while store.wait(0.0):
            pass
        own_postgres.stop()
        own_postgres.start()
        append(store, bandit, "first")  # the connections that were kept are noticed to be dead
        append(other, bandit, "second")
        assert store.wait(60.0)  # listening again
        assert store.heads() == {bandit: 2}

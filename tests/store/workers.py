"""What other processes do in tests; they import it."""

import itertools
import os
import random
import sqlite3
import time

from tensorbandits.store import Head, New, Store
from tensorbandits.testing.stores.case import append_at_last


def open_and_create(task):
    """Open a store and add a bandit; return its number."""
    url, name = task
    with Store.open(url) as store:
        return store.create(name, [New("Created", 0.0)]).id


def append_beside_others(task):
    """Append to some bandits, reading what others were first to append; return how many events of each were ours."""
    url, name, bandits, rounds = task
    ours = dict.fromkeys(bandits, 0)
    heads = dict.fromkeys(bandits, Head())
    chance = random.Random(name)
    with Store.open(url) as store:
        for number in range(rounds):
            for bandit in bandits:
                before, count = heads[bandit].seq, chance.randrange(1, 4)
                news = [New("x", 0.0, {"by": name}, key=f"{name} {number} {at}") for at in range(count)]
                heads[bandit], read = append_at_last(store, bandit, news, heads[bandit])
                assert [event.seq for event in read] == list(range(before + 1, heads[bandit].seq - count + 1))
                ours[bandit] += count
    return ours


def append_until_killed(url, bandit, name, told):
    """Append two events after the other, and tell the number of the last as soon as they are committed."""
    store = Store.open(url)
    head = Head()
    while True:
        news = [New("x", 0.0, {"by": name}), New("y", 0.0, {"by": name})]
        head, _ = append_at_last(store, bandit, news, head)
        told.send(head.seq)


def write_everything(url, bandit, told):
    """Write without end in all ways there are, to a bandit and to new ones."""
    store = Store.open(url)
    head, chance = Head(), random.Random(1)
    told.send("open")
    for number in itertools.count():
        large = number % 20 == 0
        news = [New("x", 0.0, {"text": "x" * (300_000 if large else 10)})] * chance.randrange(1, 5)
        head, _ = append_at_last(store, bandit, news, head)
        if number % 5 == 0:
            store.put_snapshot(bandit, head.seq, bytes(1_000_000 if large else 10))
            store.fold(bandit, head.seq, b"base")
            made = store.create(f"new {number}", [New("Created", 0.0)])
            store.delete(made.id, New("Deleted", 0.0))


def hold_the_file(path, told):
    """Hold the lock of an SQLite file."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    told.send("mine")
    time.sleep(600)


def hold_the_tables(url, told):
    """Hold the tables of a PostgreSQL database."""
    import psycopg

    connection = psycopg.connect(url)
    connection.execute("LOCK TABLE events IN ACCESS EXCLUSIVE MODE")
    told.send("mine")
    time.sleep(600)


def as_nobody(url, told):
    """Try to open and to write a store as a user without rights; tell the kinds and words of the errors."""
    with Store.open("sqlite://"):
        pass  # all that is imported late is imported now: nobody may not read it
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    try:
        with Store.open(url) as store:
            store.create("b", [])
    except Exception as error:
        told.send((type(error).__name__, str(error)))
    else:
        told.send(("nothing", ""))

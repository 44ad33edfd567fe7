"""What other processes do in tests; they import it."""

import os
import random
import time

from tensorbandits.store import New, Store


def open_and_create(task):
    """Open a store and add a bandit; return its number."""
    url, name = task
    with Store.open(url) as store:
        return store.create(name, [New("Created", 0.0)]).id


def append_in_turns(task):
    """Append to some bandits in turns, reading what others appended; return how many events of each were ours."""
    url, name, bandits, rounds = task
    ours = dict.fromkeys(bandits, 0)
    last = dict.fromkeys(bandits, 0)
    chance = random.Random(name)
    with Store.open(url) as store:
        for number in range(rounds):
            some = [bandit for bandit in bandits if chance.random() < 0.7] or bandits[:1]
            with store.turn(some) as turn:
                for bandit in some:
                    seen = turn.events(bandit, last[bandit])
                    assert [event.seq for event in seen] == [last[bandit] + 1 + at for at in range(len(seen))]
                    count = chance.randrange(1, 4)
                    news = [New("x", 0.0, {"by": name}, key=f"{name} {number} {at}") for at in range(count)]
                    turn.append(bandit, last[bandit] + len(seen) + 1, news)
                    last[bandit] += len(seen) + count
                    ours[bandit] += count
    return ours


def append_until_killed(url, bandit, name, told):
    """Append one event after the other, and tell the number of each as soon as it is committed."""
    store = Store.open(url)
    last = 0
    while True:
        with store.turn([bandit]) as turn:
            seen = turn.events(bandit, last)
            last += len(seen) + 2
            turn.append(bandit, last - 1, [New("x", 0.0, {"by": name}), New("y", 0.0, {"by": name})])
        told.send(last)


def hold_a_turn(url, bandit, told):
    """Append in a turn that does not end."""
    store = Store.open(url)
    with store.turn([bandit]) as turn:
        seen = turn.events(bandit, 0)
        turn.append(bandit, len(seen) + 1, [New("never", 0.0)])
        turn.events(bandit, 0)
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

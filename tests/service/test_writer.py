"""The writer: one transaction for many orders, none of which sees half of another, and nobody left waiting."""

import asyncio
import itertools
import threading
import time
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from tensorbandits.bandit.commands import Ask
from tensorbandits.service.engine import gathering, loading, orders
from tensorbandits.service.engine import writer as writing
from tensorbandits.service.engine.engine import Engine
from tensorbandits.service.engine.errors import KeyReusedError
from tensorbandits.service.engine.gathering import Gathering
from tensorbandits.service.engine.host import Host
from tensorbandits.service.engine.orders import LookUp, Order
from tensorbandits.service.engine.writer import TOGETHER, Writer
from tensorbandits.service.metrics import Metrics
from tensorbandits.store import New, Store, StoreError, StoreFullError, StoreUnavailableError

SETTINGS = {"modes": {"offer": ["a", "b"], "channel": ["mail", "sms"]}, "rank": 1, "reward": "bernoulli", "adds": True}


def taught(hosted):
    """The policy of a host, once it has taken in what was written."""
    with hosted.core.learner.still():
        return hosted.core.policy


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "events.db") as opened:
        yield opened


def host(store, name="offers", settings=SETTINGS):
    row = store.find(name) or store.create(name, [New("Created", 0.0, {"settings": settings})])
    found = Host(row, loading.rebuild(store, row))
    found.refresh(wait=True)
    return found


def ask(host, key=None, **more):
    return orders.ask(host, Ask(**more), key, f"ask {more}")


def tell(host, reward, number=None, key=None, **more):
    given = {"id": number, "reward": reward, **more}
    return orders.tell(host, given, key, f"tell {given}")


@pytest.fixture
def writer(store):
    made = Writer(store).start()
    yield made
    made.stop()


class Gate:
    """An order that holds the writer up, so that those behind it come together."""

    def __init__(self, writer, hosted):
        self._open, self._reached = threading.Event(), threading.Event()
        self.done = writer.submit(Order(hosted, self._plan, lambda order: None))
        assert self._reached.wait(60)

    def _plan(self, now):
        self._reached.set()
        self._open.wait(60)
        return []

    def open(self):
        self._open.set()
        self.done.result()


def test_orders_that_come_together_share_a_transaction(store):
    batches = []
    writer = Writer(store, committed=lambda orders, seconds: batches.append(len(orders))).start()
    hosted = host(store)
    gate = Gate(writer, hosted)
    asked = [writer.submit(ask(hosted)) for _ in range(20)]
    gate.open()
    ids = [one.result()["id"] for one in asked]
    writer.stop()
    assert len(set(ids)) == 20
    assert batches == [1, 20]
    assert [event.decision for event in store.events(hosted.id, after=1)] == ids


@pytest.mark.parametrize("same", [True, False], ids=["of the same bandit", "of another"])
def test_orders_that_waited_too_long_for_others_are_refused(store, monkeypatch, same):
    """Else a store that does not answer would let the last of many bandits wait for all before it."""
    monkeypatch.setattr(writing, "_LONGEST", 0.2)
    writer, hosts = Writer(store).start(), [host(store), host(store, "others")]
    gate = Gate(writer, hosts[0])
    late = [writer.submit(ask(hosts[0 if same else 1])) for _ in range(3)]
    time.sleep(0.3)
    gate.open()
    for one in late:
        with pytest.raises(StoreUnavailableError, match="waited for too long; ask again, or another server"):
            one.result(60)
    assert writer.submit(ask(hosts[0])).result()["id"]  # and it goes on
    with hosts[1].turn, pytest.raises(StoreUnavailableError, match="waited for too long"):
        writer.submit(ask(hosts[1])).result(60)  # somebody reads the log, which takes long
    assert writer.submit(ask(hosts[1])).result()["id"]
    writer.stop()


def test_decisions_of_one_request_are_made_all_or_none(store, writer):
    """A rule may come after they were drawn: a caller that is refused must not have made the others."""
    hosted = host(store)
    gate = Gate(writer, hosted)
    rule = writer.submit(orders.rule(hosted, {"forbid": {"offer": "a"}}, add=True))
    many = [ask(hosted), ask(hosted, chosen=((0, (0,)),)), ask(hosted)]  # the second may choose "a" only
    for one in many:
        one.together = many
    other = ask(hosted)
    done = [writer.submit(one) for one in (*many, other)]
    gate.open()
    rule.result()
    for one in done[:3]:
        with pytest.raises(ValueError, match="nothing may be chosen"):
            one.result()
    assert [event.decision for event in store.events(hosted.id, after=2)] == [done[3].result()["id"]]


def test_many_rewards_that_came_first_do_not_hold_decisions_up(store):
    batches = []
    writer = Writer(store, committed=lambda orders, seconds: batches.append([order.soon for order in orders])).start()
    hosted = host(store)
    ids = [writer.submit(ask(hosted)).result()["id"] for _ in range(2 * TOGETHER + 5)]
    batches.clear()
    gate = Gate(writer, hosted)
    told = [writer.submit(tell(hosted, 1, one)) for one in ids]
    asked = [writer.submit(ask(hosted)) for _ in range(3)]
    gate.open()
    assert all(one.result()["changed"] for one in told)
    assert len({one.result()["id"] for one in asked}) == 3
    writer.stop()
    assert [(len(batch), sum(batch)) for batch in batches[1:]] == [(TOGETHER + 3, 3), (TOGETHER, 0), (5, 0)]


class Loop:
    """An event loop that goes round when it is told to, and the orders that were gathered and handed over."""

    def __init__(self):
        self.soon, self.handed = [], []
        self.gathering = Gathering(self.handed.append)

    def call_soon(self, call):
        self.soon.append(call)

    def enter(self, count):
        for _ in range(count):
            self.gathering.enter([Order(None, None, None, waiter=(self, None))])

    def go_round(self, rounds=1):
        for _ in range(rounds):
            due, self.soon = self.soon, []
            for call in due:
                call()

    def settle(self):
        """Go round until nothing is left to do, which takes at most a moment."""
        while self.soon:
            self.go_round()

    def answer(self):
        """Have the writer answer what it was handed last; nobody waits."""
        done = Future()
        done.set_result(None)
        self.gathering.wake([(done, None, None)] * len(self.handed[-1]))

    @property
    def sizes(self):
        return [len(orders) for orders in self.handed]


def test_what_is_read_at_one_go_is_handed_over_together():
    loop = Loop()
    loop.enter(3)
    assert loop.sizes == []
    loop.go_round()
    assert loop.sizes == [3]


def test_while_the_writer_is_at_work_orders_are_gathered():
    loop = Loop()
    loop.enter(1)
    loop.go_round()
    loop.enter(2)
    loop.go_round(10)
    assert loop.sizes == [1]
    loop.answer()
    loop.settle()
    assert loop.sizes == [1, 2]


def test_callers_who_ask_again_when_they_are_answered_end_up_in_one_transaction(monkeypatch):
    monkeypatch.setattr(gathering, "MOMENT", 600.0)
    monkeypatch.setattr(gathering, "LONGEST", 600.0)
    loop = Loop()
    loop.enter(4)
    loop.go_round()
    loop.enter(4)  # others, while these are being written
    for _ in range(12):
        back = len(loop.handed[-1])
        loop.answer()
        loop.go_round()
        loop.enter(back)
        loop.go_round()
    assert loop.sizes[-1] == 8


def test_callers_who_do_not_come_back_are_not_waited_for_again_and_again(monkeypatch):
    """Two come together, then one, for ever: after each two, another is expected, in vain."""
    ticks = itertools.count()
    monkeypatch.setattr(gathering, "time", SimpleNamespace(perf_counter=lambda: 1e-4 * next(ticks)))
    loop, waited = Loop(), []
    for _ in range(200):
        for count in (2, 1):
            loop.enter(count)
            loop.go_round()
            waited.append(bool(loop.soon))
            loop.settle()
            loop.answer()
    assert loop.sizes == [2, 1] * 200
    assert 1 <= sum(waited[:20]) <= 6
    assert sum(waited[200:]) <= 6


def test_rewards_of_one_decision_are_taken_one_after_the_other(store, writer):
    hosted = host(store)
    number = writer.submit(ask(hosted)).result()["id"]
    gate = Gate(writer, hosted)
    told = [writer.submit(tell(hosted, 1, number)) for _ in range(5)]
    other = writer.submit(tell(hosted, 0, number))
    gate.open()
    assert sum(one.result()["changed"] for one in told) == 1
    with pytest.raises(ValueError, match="has the reward 1 already"):
        other.result()
    assert taught(hosted).ledger.rounds == 1
    assert [event.kind for event in store.events(hosted.id)] == ["Created", "Decided", "Rewarded"]


def test_a_key_is_carried_out_once_also_twice_in_one_batch(store, writer):
    hosted = host(store)
    gate = Gate(writer, hosted)
    arm = {"offer": "a", "channel": "mail"}
    told = [writer.submit(tell(hosted, 1, key="one", arm=arm)) for _ in range(4)]
    asked = [writer.submit(ask(hosted, "two")) for _ in range(3)]
    reused = writer.submit(ask(hosted, "one"))
    gate.open()
    assert [one.result()["changed"] for one in told] == [True, False, False, False]
    assert len({one.result()["id"] for one in asked}) == 1
    with pytest.raises(KeyReusedError, match="another request"):
        reused.result()
    assert taught(hosted).ledger.rounds == 1


def test_a_level_that_is_added_waits_for_what_came_before_and_others_for_it(store, writer):
    hosted = host(store)
    gate = Gate(writer, hosted)
    before = writer.submit(ask(hosted))
    added = writer.submit(orders.level(hosted, "LevelAdded", {"mode": "offer", "label": "c"}))
    arm = {"offer": "b", "channel": "sms"}
    after = writer.submit(tell(hosted, 1, arm=arm))
    gate.open()
    for one in (before, added, after):
        one.result()
    assert [event.kind for event in store.events(hosted.id, after=1)] == ["Decided", "LevelAdded", "Told"]
    assert taught(hosted).shape == (3, 2)


def test_two_writers_on_one_store_agree(store):
    hosts, writers = [host(store), host(store)], [Writer(store).start(), Writer(store).start()]

    def work(hosted, writer):
        for _ in range(30):
            number = writer.submit(ask(hosted)).result()["id"]
            writer.submit(tell(hosted, 1, number)).result()

    threads = [threading.Thread(target=work, args=pair) for pair in zip(hosts, writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [event.seq for event in store.events(hosts[0].id)] == list(range(1, 122))
    for hosted, writer in zip(hosts, writers):
        writer.submit(orders.cancel(hosted, writer.submit(ask(hosted)).result()["id"])).result()
        writer.stop()
    with hosts[0].turn:
        hosts[0].catch_up(store)
    assert taught(hosts[0]).copy_ledger() == taught(hosts[1]).copy_ledger()
    assert taught(hosts[0]).ledger.rounds == 60


def test_a_store_that_fails_loses_nothing_and_is_used_again(store, monkeypatch):
    hosted = host(store)
    writer = Writer(store).start()
    append = Store.append

    def full(self, *given):
        raise StoreFullError("no room is left on the disk; make room")

    monkeypatch.setattr(Store, "append", full)
    with pytest.raises(StoreFullError, match="make room"):
        writer.submit(ask(hosted, id="mine")).result()
    assert hosted.seq == 1
    monkeypatch.setattr(Store, "append", append)
    assert writer.submit(ask(hosted, id="mine")).result()["id"] == "mine"
    writer.stop()
    assert hosted.seq == 2


def test_an_order_that_fails_fails_alone(store, writer):
    hosted = host(store)

    def broken(now):
        raise RuntimeError("a mistake of ours")

    gate = Gate(writer, hosted)
    wrong = writer.submit(Order(hosted, broken, lambda order: None))
    settled = writer.submit(Order(hosted, _forgotten, lambda order: None, look_up=lambda order, store: "known"))
    right = writer.submit(ask(hosted))
    gate.open()
    with pytest.raises(RuntimeError, match="of ours"):
        wrong.result()
    assert settled.result() == "known"
    assert right.result()["id"]


def _forgotten(now):
    raise LookUp(LookupError("which the store knows"))


def test_what_memory_forgets_within_a_transaction_is_answered_all_the_same(store):
    writer = Writer(store).start()
    hosted = host(store, settings=SETTINGS | {"remember": 2})
    ids = [writer.submit(ask(hosted)).result()["id"] for _ in range(6)]
    for one in ids[:2]:
        writer.submit(tell(hosted, 1, one)).result()
    gate = Gate(writer, hosted)
    told = [writer.submit(tell(hosted, 1, one)) for one in ids]
    gate.open()
    found = [one.result() for one in told]
    writer.stop()
    assert [one["id"] for one in found] == ids
    assert [one["changed"] for one in found] == [False, False, True, True, True, True]
    assert {(one["status"], one["reward"]) for one in found} == {("rewarded", 1.0)}


def test_a_decision_that_memory_has_forgotten_is_looked_up(store):
    row = store.create("short", [New("Created", 0.0, {"settings": {**SETTINGS, "remember": 1}})])
    hosted, writer = host(store, row.name), Writer(store).start()
    numbers = [writer.submit(ask(hosted, id=f"order {at}")).result()["id"] for at in range(3)]
    for number in numbers:
        writer.submit(tell(hosted, 1, number)).result()
    again = writer.submit(tell(hosted, 1, numbers[0])).result()
    assert again == {"id": "order 0", "status": "rewarded", "reward": 1.0, "changed": False}
    with pytest.raises(LookupError, match="closed long ago"):
        writer.submit(tell(hosted, 0, numbers[0], amend=True)).result()
    with pytest.raises(LookupError, match="no decision has the id"):
        writer.submit(tell(hosted, 0, "order 9")).result()
    same = writer.submit(ask(hosted, id="order 0")).result()
    assert same["id"] == "order 0"
    writer.stop()
    assert taught(hosted).ledger.rounds == 3


class SlowStore:
    """A store that writes to one bandit only once it is let."""

    writers = 2

    def __init__(self, store):
        self._store, self.slow, self.inside, self.let = store, None, threading.Event(), threading.Event()

    def __getattr__(self, name):
        return getattr(self._store, name)

    def append(self, bandit, head, news):
        if bandit == self.slow:
            self.inside.set()
            assert self.let.wait(60)
        return self._store.append(bandit, head, news)


def test_a_bandit_that_is_written_slowly_holds_up_no_other():
    """Their orders come from one event loop, and must neither be gathered nor written behind each other."""

    def asked(host):
        order = orders.ask(host, host.request({}))
        loop = asyncio.get_running_loop()
        order.waiter = loop, loop.create_future()
        engine.writer.enter([order])
        return order.waiter[1]

    async def ask():
        slow = asked(hosts[0])
        await asyncio.to_thread(store.inside.wait, 60)
        for _ in range(3):
            assert (await asyncio.wait_for(asked(hosts[1]), 60))["id"]
        assert not slow.done()
        store.let.set()
        assert (await asyncio.wait_for(slow, 60))["id"]

    with Store.open("sqlite://") as opened:
        store = SlowStore(opened)
        engine = Engine(store, Metrics())
        hosts = [engine.create(name, {"modes": {"offer": ["a", "b"]}, "rank": 1}, None) for name in ("one", "two")]
        for host in hosts:
            host.refresh(wait=True)
        engine.writer.start()
        store.slow = hosts[0].id
        asyncio.run(ask())
        engine.writer.stop()


def test_what_was_gathered_when_it_stops_is_written_and_nobody_is_left_waiting(store):
    """The event loop hands over what it has; the threads end elsewhere, and touch nothing of the loop's."""
    writer, hosted = Writer(store).start(), host(store)

    def entered():
        order = ask(hosted)
        loop = asyncio.get_running_loop()
        order.waiter = loop, loop.create_future()
        writer.enter([order])
        return order.waiter[1]

    async def stopped():
        waiting = [entered() for _ in range(5)]
        writer.flush()
        await asyncio.to_thread(writer.stop)
        found = await asyncio.wait_for(asyncio.gather(*waiting), 60)
        with pytest.raises(StoreError, match="the service is stopping"):
            entered()
        with pytest.raises(StoreError, match="the service is stopping"):
            await asyncio.to_thread(writer.submit(ask(hosted)).result, 60)
        return [one["id"] for one in found]

    assert asyncio.run(stopped()) == [event.decision for event in store.events(hosted.id, after=1)]

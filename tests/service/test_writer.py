"""The writer: one transaction for many orders, none of which sees half of another, and nobody left waiting."""

import itertools
import threading
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from tensorbandits.service.engine import desk
from tensorbandits.service.engine.desk import Desk
from tensorbandits.service.engine.hosted import Ask, Hosted, Tell
from tensorbandits.service.engine.replica import Replica
from tensorbandits.service.engine.writer import TOGETHER, Order, Settled, Writer
from tensorbandits.service.http.errors import KeyReusedError
from tensorbandits.store import New, Store, StoreFullError

SETTINGS = {"modes": {"offer": ["a", "b"], "channel": ["mail", "sms"]}, "rank": 1, "reward": "bernoulli", "adds": True}


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "events.db") as opened:
        yield opened


def host(store, name="offers", settings=SETTINGS):
    row = store.find(name) or store.create(name, [New("Created", 0.0, {"settings": settings})])
    events = list(store.events(row.id))
    replica = Replica.created(events[0])
    replica.fold(events[1:])
    replica.refresh(wait=True)
    return Hosted(row, replica)


@pytest.fixture
def writer(store):
    made = Writer(store).start()
    yield made
    made.stop()


class Gate:
    """An order that holds the writer up, so that those behind it come together."""

    def __init__(self, writer, hosted):
        self._open, self._reached = threading.Event(), threading.Event()
        self.done = writer.submit(Order(hosted, self._plan, lambda events: None, lambda event: None))
        assert self._reached.wait(60)

    def _plan(self, turn):
        self._reached.set()
        self._open.wait(60)
        return []

    def open(self):
        self._open.set()
        self.done.result()


def test_orders_that_come_together_share_a_transaction(store):
    batches = []
    writer = Writer(store, lambda orders, seconds: batches.append(len(orders))).start()
    hosted = host(store)
    gate = Gate(writer, hosted)
    asked = [writer.submit(hosted.ask(Ask({}))) for _ in range(20)]
    gate.open()
    ids = [one.result()["id"] for one in asked]
    writer.stop()
    assert len(set(ids)) == 20
    assert batches == [1, 20]
    assert [event.decision for event in store.events(hosted.id, after=1)] == ids


def test_many_rewards_that_came_first_do_not_hold_decisions_up(store):
    batches = []
    writer = Writer(store, lambda orders, seconds: batches.append([order.soon for order in orders])).start()
    hosted = host(store)
    ids = [writer.submit(hosted.ask(Ask({}))).result()["id"] for _ in range(2 * TOGETHER + 5)]
    batches.clear()
    gate = Gate(writer, hosted)
    told = [writer.submit(hosted.tell(Tell(1, id=one))) for one in ids]
    asked = [writer.submit(hosted.ask(Ask({}))) for _ in range(3)]
    gate.open()
    assert all(one.result()["changed"] for one in told)
    assert len({one.result()["id"] for one in asked}) == 3
    writer.stop()
    assert [(len(batch), sum(batch)) for batch in batches[1:]] == [(TOGETHER + 3, 3), (TOGETHER, 0), (5, 0)]


class Loop:
    """An event loop that goes round when it is told to, and the orders of its desk that were handed over."""

    def __init__(self):
        self.soon, self.handed = [], []
        self.desk = Desk(self.handed.append)

    def call_soon(self, call):
        self.soon.append(call)

    def enter(self, count):
        for _ in range(count):
            self.desk.enter(Order(None, None, None, None, waiter=(self, None)))

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
        self.desk.wake([(done, None, None)] * len(self.handed[-1]))

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
    monkeypatch.setattr(desk, "_MOMENT", 600.0)
    monkeypatch.setattr(desk, "_LONGEST", 600.0)
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
    monkeypatch.setattr(desk, "time", SimpleNamespace(perf_counter=lambda: 1e-4 * next(ticks)))
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
    number = writer.submit(hosted.ask(Ask({}))).result()["id"]
    gate = Gate(writer, hosted)
    told = [writer.submit(hosted.tell(Tell(1, number))) for _ in range(5)]
    other = writer.submit(hosted.tell(Tell(0, number)))
    gate.open()
    assert sum(one.result()["changed"] for one in told) == 1
    with pytest.raises(ValueError, match="has the reward 1 already"):
        other.result()
    assert hosted.replica.policy.ledger.rounds == 1
    assert [event.kind for event in store.events(hosted.id)] == ["Created", "Decided", "Rewarded"]


def test_a_key_is_carried_out_once_also_twice_in_one_batch(store, writer):
    hosted = host(store)
    gate = Gate(writer, hosted)
    arm = {"offer": "a", "channel": "mail"}
    told = [writer.submit(hosted.tell(Tell(1, arm=arm), "one")) for _ in range(4)]
    asked = [writer.submit(hosted.ask(Ask({}), "two")) for _ in range(3)]
    reused = writer.submit(hosted.ask(Ask({}), "one"))
    gate.open()
    assert [one.result()["changed"] for one in told] == [True, False, False, False]
    assert len({one.result()["id"] for one in asked}) == 1
    with pytest.raises(KeyReusedError, match="another request"):
        reused.result()
    assert hosted.replica.policy.ledger.rounds == 1


def test_a_level_that_is_added_waits_for_what_came_before_and_others_for_it(store, writer):
    hosted = host(store)
    gate = Gate(writer, hosted)
    before = writer.submit(hosted.ask(Ask({})))
    added = writer.submit(hosted.level("LevelAdded", {"mode": "offer", "label": "c"}))
    arm = {"offer": "b", "channel": "sms"}
    after = writer.submit(hosted.tell(Tell(1, arm=arm)))
    gate.open()
    for one in (before, added, after):
        one.result()
    assert [event.kind for event in store.events(hosted.id, after=1)] == ["Decided", "LevelAdded", "Told"]
    assert hosted.replica.policy.shape == (3, 2)


def test_two_writers_on_one_store_agree(store):
    hosts, writers = [host(store), host(store)], [Writer(store).start(), Writer(store).start()]

    def work(hosted, writer):
        for _ in range(30):
            number = writer.submit(hosted.ask(Ask({}))).result()["id"]
            writer.submit(hosted.tell(Tell(1, number))).result()

    threads = [threading.Thread(target=work, args=pair) for pair in zip(hosts, writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [event.seq for event in store.events(hosts[0].id)] == list(range(1, 122))
    for hosted, writer in zip(hosts, writers):
        writer.submit(hosted.cancel(writer.submit(hosted.ask(Ask({}))).result()["id"])).result()
        writer.stop()
    hosts[0].replica.fold(list(store.events(hosts[0].id, after=hosts[0].replica.seq)))
    assert hosts[0].replica.policy.copy_ledger() == hosts[1].replica.policy.copy_ledger()
    assert hosts[0].replica.policy.ledger.rounds == 60


def test_a_store_that_fails_loses_nothing_and_is_used_again(store, monkeypatch):
    hosted = host(store)
    writer = Writer(store).start()
    turn = type(store).turn

    def full(self, bandits):
        raise StoreFullError("no room is left on the disk; make room")

    monkeypatch.setattr(Store, "turn", full)
    with pytest.raises(StoreFullError, match="make room"):
        writer.submit(hosted.ask(Ask({}, id="mine"))).result()
    assert hosted.replica.seq == 1
    monkeypatch.setattr(Store, "turn", turn)
    assert writer.submit(hosted.ask(Ask({}, id="mine"))).result()["id"] == "mine"
    writer.stop()
    assert hosted.replica.seq == 2


def test_an_order_that_fails_fails_alone(store, writer):
    hosted = host(store)

    def broken(turn):
        raise RuntimeError("a mistake of ours")

    gate = Gate(writer, hosted)
    wrong = writer.submit(Order(hosted, broken, lambda events: None, lambda event: None))
    settled = writer.submit(Order(hosted, _settled, lambda events: None, lambda event: None))
    right = writer.submit(hosted.ask(Ask({})))
    gate.open()
    with pytest.raises(RuntimeError, match="of ours"):
        wrong.result()
    assert settled.result() == "known"
    assert right.result()["id"]


def _settled(turn):
    raise Settled("known")


def test_what_memory_forgets_within_a_transaction_is_answered_all_the_same(store):
    writer = Writer(store).start()
    hosted = host(store, settings=SETTINGS | {"remember": 2})
    ids = [writer.submit(hosted.ask(Ask({}))).result()["id"] for _ in range(6)]
    for one in ids[:2]:
        writer.submit(hosted.tell(Tell(1, id=one))).result()
    gate = Gate(writer, hosted)
    told = [writer.submit(hosted.tell(Tell(1, id=one))) for one in ids]
    gate.open()
    found = [one.result() for one in told]
    writer.stop()
    assert [one["id"] for one in found] == ids
    assert [one["changed"] for one in found] == [False, False, True, True, True, True]
    assert {(one["status"], one["reward"]) for one in found} == {("rewarded", 1.0)}


def test_a_decision_that_memory_has_forgotten_is_looked_up(store):
    row = store.create("short", [New("Created", 0.0, {"settings": {**SETTINGS, "remember": 1}})])
    hosted, writer = host(store, row.name), Writer(store).start()
    numbers = [writer.submit(hosted.ask(Ask({}, id=f"order {at}"))).result()["id"] for at in range(3)]
    for number in numbers:
        writer.submit(hosted.tell(Tell(1, number))).result()
    again = writer.submit(hosted.tell(Tell(1, numbers[0]))).result()
    assert again == {"id": "order 0", "status": "rewarded", "reward": 1.0, "changed": False}
    with pytest.raises(LookupError, match="closed long ago"):
        writer.submit(hosted.tell(Tell(0, numbers[0], amend=True))).result()
    with pytest.raises(LookupError, match="no decision has the id"):
        writer.submit(hosted.tell(Tell(0, "order 9"))).result()
    same = writer.submit(hosted.ask(Ask({}, id="order 0"))).result()
    assert same["id"] == "order 0"
    writer.stop()
    assert hosted.replica.policy.ledger.rounds == 3

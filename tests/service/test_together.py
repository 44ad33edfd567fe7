"""Requests that meet: what shares a transaction, a log, a server or a moment, and must not harm the other."""

import sqlite3
import threading
import time
from concurrent.futures import Future

import pytest

from tensorbandits.bandit import commands as c
from tensorbandits.bandit import events as e
from tensorbandits.bandit.commands import Ask
from tensorbandits.service.engine import loading, orders
from tensorbandits.service.engine.engine import Engine
from tensorbandits.service.engine.loading import new_core
from tensorbandits.service.metrics import Metrics
from tensorbandits.store import Store
from tests.service.served import Service, until

NEW, OLD = {"context": {"segment": "new"}}, {"context": {"segment": "old"}}


@pytest.fixture
def own(tmp_path):
    with Service(tmp_path / "own.db") as service:
        yield service


def in_one_transaction(service, bandit, *sends):
    """The answers to requests that gather while another one waits for its turn."""
    all_sends = [("/ask", NEW), *sends]
    host, answers, threads = service.engine.find(bandit.name), [None] * len(all_sends), []

    def send(at, path, body):
        answers[at] = bandit.send("POST", path, json=body)

    with host.turn:
        for at, (path, body) in enumerate(all_sends):
            threads.append(threading.Thread(target=send, args=(at, path, body)))
            threads[-1].start()
            time.sleep(0.2)
    for thread in threads:
        thread.join()
    return [answer.status_code for answer in answers[1:]]


def decided(bandit):
    return [event["decision"] for event in bandit.events() if event["kind"] == "Decided"]


def test_nobody_builds_on_what_a_refused_request_planned(own):
    bandit = own.create()
    bandit.ask(id="taken")
    many = {"requests": [NEW | {"id": "x"}, OLD | {"id": "taken"}]}
    assert in_one_transaction(own, bandit, ("/ask-many", many), ("/tell", {"id": "x", "reward": 1})) == [409, 404]
    again = {"requests": [NEW | {"id": "sibling"}, NEW | {"id": "x"}]}
    assert in_one_transaction(own, bandit, ("/ask-many", many), ("/ask-many", again)) == [409, 200]
    assert {"sibling", "x"} <= set(decided(bandit))
    bandit.ask()


def test_an_id_of_another_request_refuses_all_of_many(own):
    bandit = own.create()
    many = {"requests": [NEW | {"id": "sibling"}, OLD | {"id": "x"}]}
    assert in_one_transaction(own, bandit, ("/ask", NEW | {"id": "x"}), ("/ask-many", many)) == [200, 409]
    assert "sibling" not in decided(bandit)
    bandit.post("/fold", {})
    before = bandit.detail()["decisions"]
    assert bandit.send("POST", "/ask-many", json={"requests": [NEW, NEW | {"id": "x"}]}).status_code == 409
    assert bandit.detail()["decisions"] == before


def test_a_key_of_another_request_does_not_delete(own):
    bandit = own.create()
    bandit.ask(key="one")
    answer = bandit.send("DELETE", key="one")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "key_reused")
    bandit.ask()


def test_windows_end_though_another_bandit_is_quarantined(own, tmp_path):
    sick, well = (own.create(window="1 s", default=0, reward="bernoulli") for _ in range(2))
    sick.ask(id="a")
    with sqlite3.connect(tmp_path / "own.db") as database:
        database.execute("UPDATE events SET chain = 'damaged' WHERE decision = 'a'")
    database.close()
    until(lambda: own.engine.find(sick.name).quarantined, seconds=20)
    well.ask(id="b")
    until(lambda: well.look_up("b")["status"] == "timed out", seconds=20)


REWARDED = "bandit = 1 AND kind = 'Rewarded'"
DAMAGE = {
    "body that is no text": f"UPDATE events SET body = CAST(x'ff7b7d' AS TEXT) WHERE {REWARDED}",
    "kind that is no text": f"UPDATE events SET kind = CAST(x'ff52' AS TEXT) WHERE {REWARDED}",
    "checksum that is no text": f"UPDATE events SET chain = CAST(x'ff52' AS TEXT) WHERE {REWARDED}",
    "time in words": f"UPDATE events SET time = 'abc' WHERE {REWARDED}",
    "base in words": "UPDATE bandits SET folded = 'abc' WHERE id = 1",
    "number in words": f"UPDATE events SET seq = 'abc' WHERE {REWARDED}",
    "endless reward, no checksums": f"""UPDATE events SET chain = NULL,
        body = CASE WHEN {REWARDED} THEN '{{"reward":1e999}}' ELSE body END WHERE bandit = 1""",
    "snapshot in words": "UPDATE snapshots SET state = 'text' WHERE bandit = 1",
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_to_one_bandit_is_its_own(what, tmp_path):
    place = tmp_path / "two.db"
    with Service(place) as service:
        sick, _ = service.create("sick", reward="gaussian"), service.create("well")
        sick.ask(id="a")
        sick.tell("a", 1.0)
    database = sqlite3.connect(place)
    if "snapshot" not in what:
        database.execute("DELETE FROM snapshots")
    assert database.execute(DAMAGE[what]).rowcount
    database.commit()
    database.close()
    with Service(place) as service:
        service.bandit("well").ask()
        assert service.bandit("sick").send("POST", "/ask", json=NEW).status_code == (200 if "snapshot" in what else 503)


def test_a_reward_that_rounding_has_hidden_is_amended_and_a_restart_knows_it(tmp_path):
    place = tmp_path / "own.db"
    with Service(place) as service:
        bandit = service.create("money", {"offer": ["a"], "channel": ["x"]}, reward="gaussian")
        bandit.ask(None, id="other")
        bandit.tell("other", 1.0)
        bandit.ask(None, id="d")
        for at, reward in enumerate([1e4, 0.3, 1.0]):
            assert bandit.tell("d", reward, amend=bool(at))["reward"] == reward
        until(lambda: abs(bandit.ledger()["sums"][1][0] - 2.0) < 1e-9, seconds=20)
    with sqlite3.connect(place) as database:
        database.execute("DELETE FROM snapshots")  # as after a crash
    database.close()
    with Service(place) as service:
        assert service.bandit("money").ledger()["sums"][1][0] == pytest.approx(2.0)


@pytest.fixture
def engine():
    with Store.open("sqlite://") as store:
        engine = Engine(store, Metrics(), snapshots=0)
        engine.start()
        yield engine
        engine.stop()


def test_what_cannot_be_written_fails_alone_and_nothing_is_written_twice(engine):
    host = engine.create("b", {"modes": {"offer": ["a", "b"]}, "remember": 0}, None)
    host.refresh(wait=True)
    engine.submit(orders.ask(host, Ask(id="x"), None, "f")).result(timeout=10)
    engine.submit(orders.tell(host, {"id": "x", "reward": 1.0})).result(timeout=10)  # forgotten here, not in the log
    batch = [
        orders.tell(host, {"arm": {"offer": "a"}, "reward": 5.0}),
        orders.Order(host, lambda now: [e.Told(now, (0,), float("nan"))], lambda order: None),  # JSON has no NaN
        orders.ask(host, Ask(id="x"), None, "f"),
    ]
    for order in batch:
        order.done = Future()
    before = host.seq
    engine.writer.take(batch)
    assert batch[0].done.result(timeout=10)["reward"] == 5.0
    assert isinstance(batch[1].done.exception(timeout=10), ValueError)
    assert batch[2].done.result(timeout=10)["id"] == "x"
    assert [event.kind for event in engine.store.events(host.id, before)] == ["Told"]


def test_a_request_that_waited_too_long_is_refused_whole(engine):
    host = engine.create("b", {"modes": {"offer": ["a", "b"]}}, None)
    host.refresh(wait=True)
    made = [orders.ask(host, Ask()) for _ in range(3)]
    for order in made:
        order.together, order.since, order.done = made, time.monotonic() - 60.0, Future()
    engine.writer.take([*made, one := orders.ask(host, Ask())])
    one.done = Future()
    assert all(order.done.exception(timeout=10) is not None for order in made)
    assert engine.submit(orders.ask(host, Ask())).result(timeout=10)["arm"]


@pytest.fixture
def folded_as_it_is_read(engine, monkeypatch):
    """A bandit with five decisions, whose log another server folds just before it is read for the next time."""
    host = engine.create("b", {"modes": {"offer": ["a", "b"]}}, None)
    host.refresh(wait=True)
    for _ in range(5):
        engine.submit(orders.ask(host, Ask())).result(timeout=10)
    events, last = Store.events, host.seq

    def folded_first(self, *arguments, **more):
        monkeypatch.undo()
        assert engine.fold(host, last) == (last, last)
        return events(self, *arguments, **more)

    monkeypatch.setattr(Store, "events", folded_first)
    return host


def test_a_fold_that_another_server_did_meanwhile_is_done(engine, folded_as_it_is_read):
    host = folded_as_it_is_read
    assert engine.fold(host, host.seq) == (0, host.seq)


def test_a_log_that_is_folded_while_it_is_read_is_read_again(engine, folded_as_it_is_read):
    assert loading.rebuild(engine.store, folded_as_it_is_read.row).state.decisions == 5


def test_draws_of_a_level_that_was_left_out_are_not_gone_on_from():
    settings = {"modes": {"offer": ["a", "b"], "channel": ["x", "y"]}}
    old, new = new_core(settings, 0.0), new_core(settings, 0.0)
    old.apply(old.state.plan(c.AddLevel("offer", "c"), 1.0))
    old.learner.refresh(wait=True)
    new.go_on_from(old)
    new.learner.refresh(wait=True)
    assert new.snapshot.draws.shape == (2, 2)


def test_a_reward_that_is_only_tried_is_not_shown(own):
    bandit = own.create()
    number, host = bandit.ask()["id"], own.engine.find(bandit.name)
    tried, core = threading.Event(), host.core

    def try_it():
        with core.lock, core.state.trial():
            core.state.enter(e.Rewarded(time=1.0, id=number, reward=1.0))
            tried.set()
            time.sleep(0.5)

    thread = threading.Thread(target=try_it)
    thread.start()
    tried.wait()
    assert host.status(number)["status"] == "open"
    thread.join()

"""Several processes on one store: each decides alone, and all know the same, exactly once."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tensorbandits.service.engine import engine, orders
from tests.service.served import MODES, Service, until

ARM = {"arm": {"offer": "b", "channel": "sms"}, "context": {"segment": "old"}}


@pytest.fixture
def two(place):
    """Two services of one store, in SQLite and in PostgreSQL."""
    with Service(place) as one, Service(place) as other:
        yield one, other


def seq(bandit):
    return bandit.service.engine.find(bandit.name).seq


def agree(first, second):
    """Wait until both have folded everything, and assert that they know the same."""
    last = max(seq(first), seq(second))
    until(lambda: seq(first) >= last and seq(second) >= last)
    assert first.detail() == second.detail()
    assert first.ledger() == second.ledger()


@contextlib.contextmanager
def deaf(service, monkeypatch):
    """Let a service not hear of what others write, until it writes itself."""
    silence, store = threading.Event(), service.engine.store
    with monkeypatch.context() as patch:
        patch.setattr(store, "wait", lambda seconds: silence.wait(0.05))
        with monkeypatch.context() as inner:
            inner.setattr(store, "heads", lambda: {host.id: 0 for host in service.engine.all()})
            yield


def test_each_folds_what_the_other_wrote(two):
    one, other = two
    here = one.create("offers", reward="gaussian", adds=True, window="1 h")
    there = other.bandit("offers")
    decision = here.ask()
    assert there.look_up(decision["id"])["status"] == "open"
    assert there.tell(decision["id"], 2)["changed"] is True
    assert here.tell(decision["id"], 2)["changed"] is False
    there.tell(decision["id"], 3, add=True, key="more")
    here.tell(decision["id"], 3, add=True, key="more")
    assert here.look_up(decision["id"])["reward"] == 5
    assert there.ask(id="mine") == here.ask(id="mine")
    asked = here.ask(key="once")
    assert there.ask(key="once") == asked
    agree(here, there)
    assert here.detail()["decisions"] == 3

    def visit(at):
        bandit = (here, there)[at % 2]
        found = bandit.ask("new" if at // 2 % 3 else "old", id=f"visit-{at // 2}" if at % 5 else None)
        (there, here)[at % 2].tell(found["id"], 1, add=True, key=f"reward-{found['id']}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(visit, range(80)))
    agree(here, there)
    events = here.events()
    made = [event["decision"] for event in events if event["kind"] == "Decided"]
    rewarded = [event["decision"] for event in events if event["kind"] == "Rewarded"]
    assert len(made) == len(set(made))
    assert len(rewarded) == len(set(rewarded)) == len(made) - 2  # all but two of those before
    assert here.detail()["rewards"] == len(rewarded)


def test_a_window_ends_once_whoever_notices(two, monkeypatch):
    monkeypatch.setattr(engine, "TICK", 0.02)
    one, other = two
    here, there = one.create("offers", reward="bernoulli", window=2, default=0), other.bandit("offers")
    ids = [(here, there)[at % 2].ask()["id"] for at in range(20)]
    until(lambda: here.detail()["waiting"] == there.detail()["waiting"] == 3)
    ended = [event["decision"] for event in here.events() if event["kind"] == "TimedOut"]
    assert sorted(ended) == sorted(ids[:-3])
    assert there.tell(ids[0], 1)["changed"] is True  # late, and in the place of the default
    agree(here, there)
    assert here.detail()["rewards"] == 17


def test_bandits_rules_and_levels_are_seen_by_the_other(two):
    one, other = two
    here = one.create("offers", reward="bernoulli")
    there = other.bandit("offers")
    assert there.ask()["id"]  # which finds it at once
    assert other.http.post("/v1/bandits", json={"name": "offers", "modes": MODES}).status_code == 409
    here.post("/levels", {"mode": "offer", "label": "d"})
    until(lambda: len(there.detail()["levels"]["offer"]) == 4)
    assert there.ask(allowed={"offer": ["d"]})["arm"]["offer"] == "d"
    there.post("/rules", {"allow": {"segment": "new", "offer": ["d"]}})
    until(lambda: here.detail()["rules"])
    assert here.ask("new")["arm"]["offer"] == "d"
    here.post("/levels/retire", {"mode": "offer", "label": "a"})
    until(lambda: there.detail()["levels"]["offer"][0]["retired"])
    assert there.ask("old")["arm"]["offer"] != "a"
    there.patch(apprentice=True)
    until(lambda: here.detail()["apprentice"])
    here.refused("/ask", {"context": {"segment": "new"}}, 422, "invalid")
    agree(here, there)
    assert there.send("DELETE").status_code == 204
    until(lambda: here.send("GET").status_code == 404)
    here.refused("/ask", {"context": {"segment": "new"}}, 404, "unknown_bandit")
    assert [one["name"] for one in one.http.get("/v1/bandits").json()["bandits"]] == []
    one.create("offers", {"offer": ["x", "y"]})
    assert until(lambda: there.detail())["modes"] == {"offer": 2}
    until(lambda: [bandit["name"] for bandit in other.http.get("/v1/bandits").json()["bandits"]] == ["offers"])


def test_a_bandit_that_another_has_deleted(two, monkeypatch):
    one, other = two
    here, bystander = one.create("gone"), one.create("stays")
    until(lambda: {host.name for host in other.engine.all()} == {"gone", "stays"})
    there = other.bandit("gone")
    decision = here.ask()
    with deaf(one, monkeypatch):
        assert there.send("DELETE").status_code == 204
        futures = _asked(one, "gone", "stays")
        assert futures[1].result(60)["arm"]  # one bandit's end is no other's
        with pytest.raises(LookupError):
            futures[0].result(60)
        here.refused("/tell", {"id": decision["id"], "reward": 1}, 404, "unknown_bandit")
        here.refused("/ask", {"context": {"segment": "new"}}, 404, "unknown_bandit")
        assert bystander.ask()["id"]


def test_one_that_slept_while_the_log_was_folded(two, monkeypatch):
    one, other = two
    here, there = one.create("offers"), other.bandit("offers")
    bystander = one.create("bystander")
    there.tell(there.ask()["id"], 1)
    with deaf(one, monkeypatch):
        for _ in range(5):
            there.tell(there.ask()["id"], 1)
        there.post("/levels", {"mode": "offer", "label": "d"})
        count = seq(there)
        assert there.post("/fold") == {"folded": count, "base": count}
        there.ask()
        assert bystander.ask()["id"]
        futures = _asked(one, "offers", "bystander")
        assert [future.result(60)["context"] for future in futures] == [{"segment": "new"}] * 2
        assert here.ask(allowed={"offer": ["d"]})["arm"]["offer"] == "d"
        assert bystander.ask()["id"]
    agree(here, there)
    with deaf(one, monkeypatch):
        there.ask()
        there.post("/fold")
    there.ask()
    agree(here, there)  # by following alone


def test_a_draw_of_before_a_level_came(two, monkeypatch):
    """What was drawn before a level was added elsewhere is drawn again, from the draws there are."""
    one, other = two
    here, there = one.create("offers"), other.bandit("offers")
    here.ask()
    with deaf(one, monkeypatch):
        there.post("/levels", {"mode": "offer", "label": "d"})
        assert here.ask()["id"]
        there.post("/rules", {"forbid": {"offer": "d"}})
        assert here.ask()["id"]
        there.post("/levels/retire", {"mode": "segment", "label": "new"})
        assert "retired" in here.refused("/ask", {"context": {"segment": "new"}}, 422, "invalid")
        there.post("/levels", {"mode": "channel", "label": "push"})
        assert len(here.post("/ask-many", {"requests": [{"context": {"segment": "old"}}] * 5})["decisions"]) == 5
    agree(here, there)


def _asked(service, *names):
    """Ask several bandits at once, and return the futures of their answers."""
    hosts = [service.engine.known(name) for name in names]
    asked = [orders.ask(host, host.request({"segment": "new"})) for host in hosts]
    return [service.engine.submit(order) for order in asked]

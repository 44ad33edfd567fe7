"""Windows and defaults, rewards that come late, and clocks that jump."""

import time

import pytest

from tensorbandits.service.engine import engine
from tensorbandits.service.engine.loading import StoreClock
from tensorbandits.store import Store
from tests.service.served import Service, until


class Clock:
    """The time of events, which passes when told to."""

    def __init__(self):
        self.now = 1_800_000_000.0


@pytest.fixture(scope="module")
def clock():
    """A clock for all events of this module; decisions time out at once when it is their time."""
    with pytest.MonkeyPatch.context() as patch:
        clock = Clock()
        patch.setattr(StoreClock, "now", lambda self: clock.now)
        patch.setattr(engine, "TICK", 0.02)
        yield clock


@pytest.fixture(scope="module")
def service(clock, tmp_path_factory):
    with Service(tmp_path_factory.mktemp("time") / "time.db") as service:
        yield service


def status(bandit, one):
    return bandit.look_up(one)["status"]


def test_defaults_and_what_comes_late(service, clock):
    bandit = service.create(reward="bernoulli", window="10 min", default=0)
    ids = [bandit.ask()["id"] for _ in range(4)]
    hidden = bandit.ask(activate=False)["id"]
    clock.now += 300
    bandit.tell(ids[0], 1)
    late = bandit.ask()["id"]
    clock.now += 301
    until(lambda: status(bandit, ids[3]) == "timed out")
    known = [bandit.look_up(one) for one in (*ids, hidden, late)]
    assert [one["status"] for one in known] == ["rewarded", *["timed out"] * 3, "inactive", "open"]
    assert [one["reward"] for one in known] == [1.0, 0.0, 0.0, 0.0, None, None]
    assert (bandit.detail()["rewards"], bandit.detail()["waiting"]) == (4, 2)
    assert bandit.tell(ids[1], 1) == {"id": ids[1], "status": "rewarded", "reward": 1.0, "changed": True}
    assert bandit.tell(ids[2], 0)["status"] == "rewarded"  # which is what was taken for granted
    bandit.refused("/tell", {"id": ids[1], "reward": 0}, 409, "closed_decision")
    assert bandit.detail()["rewards"] == 4
    assert sum(bandit.ledger()["sums"][1]) == 2
    bandit.post("/activate", {"id": hidden})  # from now on its window runs
    clock.now += 599
    until(lambda: status(bandit, late) == "timed out")
    assert status(bandit, hidden) == "open"
    clock.now += 2
    until(lambda: status(bandit, hidden) == "timed out")
    assert "cannot be cancelled" in bandit.refused("/cancel", {"id": hidden}, 409, "closed_decision")


def test_a_window_without_default(service, clock):
    bandit = service.create(window="1 min")
    one, other = bandit.ask()["id"], bandit.ask()["id"]
    clock.now += 61
    until(lambda: status(bandit, other) == "timed out")
    assert (bandit.look_up(one)["reward"], bandit.detail()["rewards"]) == (None, 0)
    assert bandit.tell(one, 2.5)["changed"] is True
    assert bandit.post("/cancel", {"id": other})["status"] == "cancelled"
    assert bandit.detail()["rewards"] == 1


def test_a_window_of_rounds(service):
    bandit = service.create(reward="bernoulli", window=3, default=0)
    ids = [bandit.ask()["id"] for _ in range(6)]
    until(lambda: status(bandit, ids[1]) == "timed out")
    assert [status(bandit, one) for one in ids[2:]] == ["open"] * 4


def test_a_window_that_is_changed(service, clock):
    bandit = service.create(reward="bernoulli", window="1 h", default=0)
    one = bandit.ask()["id"]
    bandit.patch(window="1 min", default=1)
    other = bandit.ask()["id"]
    clock.now += 61
    time.sleep(0.1)
    assert status(bandit, one) == "open"  # it waits as it was told when it was made
    clock.now += 3600
    until(lambda: status(bandit, one) == "timed out" and status(bandit, other) == "timed out")
    assert bandit.look_up(other)["reward"] == 1


def test_memory_is_bounded_but_the_store_knows(service, clock):
    bandit = service.create(reward="bernoulli", window="1 min", default=0, capacity=3, remember=2)
    ids = [bandit.ask(key=f"ask-{at}")["id"] for at in range(8)]
    until(lambda: bandit.detail()["waiting"] == 3)
    assert [status(bandit, one) for one in ids] == ["timed out"] * 5 + ["open"] * 3
    bandit.tell(ids[5], 1, key="first")
    bandit.tell(ids[6], 1)
    bandit.tell(ids[7], 1)
    assert bandit.look_up(ids[5])["reward"] == 1  # from the store: memory keeps two
    assert bandit.tell(ids[5], 1)["changed"] is False
    assert bandit.tell(ids[5], 1, key="first") == {
        "id": ids[5], "status": "rewarded", "reward": 1.0, "changed": False,
    }  # fmt: skip
    assert "closed long ago" in bandit.refused("/tell", {"id": ids[5], "reward": 0}, 410, "expired_decision")
    bandit.refused("/tell", {"id": ids[0], "reward": 1}, 410, "expired_decision")
    assert bandit.ask(key="ask-0")["id"] == ids[0]
    assert bandit.detail()["rewards"] == 8


@pytest.mark.parametrize("jump", [-86_400.0, 86_400.0 * 3650], ids=["back a day", "ahead ten years"])
def test_a_clock_that_jumps(clock, tmp_path, jump):
    with Service(tmp_path / "own.db") as service:
        bandit = service.create("offers", reward="bernoulli", window="1 h", default=0, half_life="7 d")
        ids = [bandit.ask()["id"] for _ in range(3)]
        bandit.tell(ids[0], 1)
        began, clock.now = clock.now, clock.now + jump
        bandit.tell(ids[1], 1)
        later = [bandit.ask()["id"] for _ in range(3)]
        bandit.tell(later[0], 1)
        view = bandit.send("GET", "/view/decisions")
        assert view.status_code == 200, view.text
        for what in ("overview", "reward", "events"):
            assert bandit.send("GET", f"/view/{what}").status_code == 200
        clock.now = began + 10  # and back
        ids.append(bandit.ask()["id"])
        bandit.tell(ids[3], 1)
        assert bandit.detail()["decisions"] == 7
        clock.now += 2 * 3600 + max(jump, 0)
        until(lambda: bandit.detail()["waiting"] == 0)
        assert bandit.detail()["rewards"] == 7
        before = bandit.detail(), bandit.ledger()
    with Store.open(tmp_path / "own.db") as store:
        store.drop_snapshots()
    with service.restarted() as service:
        bandit = service.bandit("offers")
        assert (bandit.detail(), bandit.ledger()) == before
        bandit.tell(bandit.ask()["id"], 1)
    clock.now = 1_800_000_000.0

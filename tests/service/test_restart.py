"""What was acknowledged is there after a restart, with snapshots and without them, and goes on from there."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tensorbandits.store import Store
from tests.service.served import Service

ARM = {"arm": {"offer": "b", "channel": "sms"}, "context": {"segment": "old"}}


def live(bandit):
    """Let about everything happen to a bandit, and return the ids of its decisions."""
    ids = [bandit.ask("new" if at % 2 else "old")["id"] for at in range(12)]
    ids.append(bandit.ask(id="order 17/ä", activate=False)["id"])
    ids.append(bandit.ask(id="kept", activate=False)["id"])
    for at, one in enumerate(ids[:6]):
        bandit.tell(one, at % 2)
    bandit.tell(ids[0], 1, amend=True)
    bandit.post("/cancel", {"id": ids[6]})
    bandit.post("/activate", {"id": "kept"})
    bandit.post("/tell", ARM | {"reward": 1})
    bandit.post("/tell", ARM | {"reward": 3, "trials": 5}, key="told")
    bandit.post("/levels", {"mode": "offer", "label": "d", "like": "a"})
    bandit.post("/levels", {"mode": "segment", "label": {"date": "2026-02-28"}})
    bandit.post("/levels/retire", {"mode": "offer", "label": "c"})
    bandit.post("/levels/retire", {"mode": "offer", "label": "b"})
    bandit.post("/levels/restore", {"mode": "offer", "label": "b"})
    bandit.post("/rules", {"forbid": {"segment": "new", "offer": "a"}})
    bandit.post("/rules", {"allow": {"segment": "old", "channel": ["mail"]}})
    bandit.post("/rules", {"forbid": {"channel": "mail", "offer": "b"}})
    bandit.post("/rules/remove", {"forbid": {"channel": "mail", "offer": "b"}})
    bandit.patch(holdout=0.25, floors=[{"labels": {"offer": "a"}, "share": 0.125}], window="2 h", default=0)
    out = io.BytesIO()
    pq.write_table(pa.table({"segment": ["new"], "offer": ["z"], "channel": ["sms"], "click": [1]}), out)
    answer = bandit.send("POST", "/import", params={"reward": "click", "unknown": "add"}, content=out.getvalue())
    assert answer.status_code == 200, answer.text
    ids += [bandit.ask("new")["id"] for _ in range(3)]
    return ids


def state(bandit, ids):
    """Return all that can be known of a bandit."""
    host = bandit.service.engine.find(bandit.name)
    return {
        "detail": bandit.detail(),
        "ledger": bandit.ledger(),
        "decisions": [bandit.look_up(one) for one in ids],
        "history": pa.table(host.core.history()).to_pydict(),
        "oldest": host.oldest(100),
        "apprentice": {name: str(value) for name, value in host.core.state.apprentice.state().items()},
    }


@pytest.mark.parametrize("snapshots", [True, False], ids=["snapshots", "events alone"])
def test_everything_is_there_again(place, snapshots):
    with Service(place) as service:
        bandit = service.create("offers", reward="bernoulli", window="1 h", half_life="1 d")
        apprentice = service.create("apprentice", apprentice=True)
        gone = service.create("gone")
        ids = live(bandit)
        before = state(bandit, ids)
        shadows = [apprentice.ask(played={"offer": "a", "channel": "sms"}, propensity=0.5)["id"] for _ in range(5)]
        for one in shadows[:3]:
            apprentice.tell(one, 2)
        shadow_before = state(apprentice, shadows)
        assert gone.send("DELETE").status_code == 204
        first = bandit.ask(key="asked", id="by key")
        ids.append("by key")
        before = state(bandit, ids)
    with Store.open(place) as store:
        assert all(store.snapshot(row.id) is not None for row in store.bandits())
        if not snapshots:
            store.drop_snapshots()
            assert all(store.snapshot(row.id) is None for row in store.bandits())
    with service.restarted() as service:
        bandit, apprentice = service.bandit("offers"), service.bandit("apprentice")
        assert state(bandit, ids) == before
        assert state(apprentice, shadows) == shadow_before
        assert service.bandit("gone").send("GET").status_code == 404
        assert bandit.ask(key="asked", id="by key") == first
        assert bandit.post("/tell", ARM | {"reward": 3, "trials": 5}, key="told")["changed"] is False
        assert bandit.tell("kept", 1)["changed"] is True
        assert bandit.tell("kept", 1)["changed"] is False
        assert bandit.ask("new")["id"] not in ids
        assert bandit.detail()["rewards"] == before["detail"]["rewards"] + 1
        bandit.refused("/tell", {"id": ids[6], "reward": 1}, 409, "cancelled_decision")


def test_a_broken_snapshot_is_no_loss(tmp_path):
    place = tmp_path / "own.db"
    with Service(place) as service:
        bandit = service.create("offers")
        bandit.tell(bandit.ask()["id"], 1)
        before = bandit.detail()
    with Store.open(place) as store:
        [row] = store.bandits()
        store.put_snapshot(row.id, 2, b"broken")
        store.put_snapshot(row.id, 3, b"zlib:broken too")
    with service.restarted() as service:
        assert service.bandit("offers").detail() == before


@pytest.mark.parametrize("all_of_it", [True, False], ids=["all", "half"])
def test_folding_keeps_what_was_learned(place, all_of_it):
    with Service(place) as service:
        bandit = service.create("offers", reward="bernoulli", window="1 h", remember=1000)
        ids = live(bandit)
        before, count = state(bandit, ids), bandit.detail()["seq"]
        wanted = None if all_of_it else count // 2
        assert bandit.post("/fold", {"before": wanted}) == {"folded": wanted or count, "base": wanted or count}
        assert bandit.post("/fold", {"before": wanted}) == {"folded": 0, "base": wanted or count}
        assert bandit.post("/fold", {"before": 2}) == {"folded": 0, "base": wanted or count}
        assert [event["seq"] for event in bandit.events()] == list(range((wanted or count) + 1, count + 1))
        for part in ("detail", "ledger", "oldest", "history"):
            assert state(bandit, [])[part] == before[part], part
        open_one = next(one["id"] for one in before["decisions"] if one["status"] == "open")
        bandit.tell(open_one, 1)
        bandit.tell(ids[1], 0, amend=True)
        bandit.ask("new", id="new one")
        bandit.refused("/ask", {"context": {"segment": "new"}, "id": "order 17/ä"}, 409, "closed_decision")
        before = state(bandit, [])
    with service.restarted() as service:
        bandit = service.bandit("offers")
        assert state(bandit, []) == before
        assert bandit.tell(open_one, 1)["changed"] is False
        bandit.tell("new one", 1)
        assert bandit.send("GET", f"/decisions/{ids[6]}").status_code == 410
        assert bandit.look_up("new one")["status"] == "rewarded"
    with Store.open(place) as store:
        store.drop_snapshots()  # the base stays
    with service.restarted() as service:
        assert service.bandit("offers").detail()["rewards"] == before["detail"]["rewards"] + 1

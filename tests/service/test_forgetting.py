"""A person's data are removed everywhere, on both stores, beside a replica; counts stay, and the log is whole."""

import json
import sqlite3
import subprocess
import sys
import zlib

import pytest

from tensorbandits.service.engine import loading
from tensorbandits.service.engine.host import Host
from tensorbandits.store import Store
from tests.bandit.histories import bits
from tests.service.served import Service, until

WHY = "they asked us to"
THEIRS = ("customer-7", "order-7-1", "order-7-2", "key-of-7")


def everything(place):
    """All text and bytes that a store holds."""
    from tensorbandits.store.database import _backend
    from tensorbandits.store.schema import metadata

    backend, found = _backend(place), []
    with backend.engine.connect() as connection:
        for table in metadata.sorted_tables:
            for row in connection.execute(table.select()):
                for value in row:
                    packed = bytes(value) if isinstance(value, bytes | memoryview) else b""
                    text = zlib.decompress(packed[5:]) if packed.startswith(b"zlib:") else packed
                    found.append(text.decode("latin-1") + str(value))
    backend.close()
    return "\n".join(found)


def known(core, names=()):
    """What a core knows, with the ids of some decisions, which are names now, made alike."""
    state = bits(core)
    state["oldest"] = [record for _, record in state["oldest"]]
    ids = bytes(core.frozen()()["book"]["ids"]).decode().split("\n")
    state["ids"] = ["removed" if one in names or one.startswith("forgotten-") else one for one in ids]
    state["state"] = {
        name: part
        for name, part in state["state"].items()
        if name not in ("seq", "chain", "moment", "changelog", "actors", "changes", "forgotten")
    }
    state["state"]["book"] = {name: part for name, part in state["state"]["book"].items() if name not in ("ids",)}
    return state


def test_a_person_is_forgotten_and_all_else_is_as_before(place):
    with Service(place) as service, Service(place) as replica:
        bandit = service.create("offers", reward="bernoulli", window="1 h", default=0)
        store, host = service.app.state.serving.store, service.engine.find("offers")
        for at in range(6):
            bandit.tell(bandit.ask(subject="customer-1")["id"], at % 2)
        bandit.ask(id="order-7-1", subject="customer-7", key="key-of-7")
        bandit.tell("order-7-1", 1, key="key-of-7-told")
        bandit.post("/fold", {"before": host.seq})
        bandit.ask(id="order-7-2", subject="customer-7")
        bandit.tell("order-7-2", 0)
        bandit.tell("order-7-2", 1, amend=True)
        last = bandit.ask()["id"]
        store.put_snapshot(host.id, *loading.pack(host.core))
        until(lambda: replica.engine.find("offers").seq == host.seq)
        before, numbers = known(host.core, THEIRS), bandit.detail()
        assert all(word in everything(place) for word in THEIRS[:3])

        asked = {"subject": "customer-7", "why": WHY}
        said = bandit.post("/forget", asked | {"dry_run": True})
        assert said == {"decisions": 2, "events": 3, "cancelled": 0, "dry_run": True}
        assert known(host.core, THEIRS) == before
        assert bandit.post("/forget", asked) == said | {"dry_run": False}
        assert bandit.post("/forget", asked)["decisions"] == 0  # again: nothing happens

        left = everything(place)
        assert [word for word in THEIRS if word in left] == []
        assert "customer-1" in left
        assert known(host.core) == before
        assert {**bandit.detail(), "seq": 0} == {**numbers, "seq": 0}
        twin = replica.engine.find("offers")
        until(lambda: twin.seq == host.seq)
        assert known(twin.core) == before
        for caches in (True, False):  # and every checksum is right
            assert known(loading.rebuild(store, host.row, caches=caches)) == before
        assert bandit.send("GET", "/decisions/order-7-2").status_code == 404
        bandit.refused("/tell", {"id": "order-7-2", "reward": 1}, 404, "unknown_decision")
        change = bandit.send("GET", "/changes").json()["changes"][0]
        assert (change["kind"], change["actor"]) == ("Forgotten", "everybody")
        assert change["words"] == f"2 decisions forgotten: {WHY}"

        assert bandit.post("/forget", {"decision": last, "why": WHY})["cancelled"] == 1
        assert bandit.detail()["waiting"] == 0
        until(lambda: twin.seq == host.seq)
        assert known(twin.core) == known(host.core) == known(loading.rebuild(store, host.row, caches=False))
        bandit.tell(bandit.ask()["id"], 1)


def test_a_server_that_was_behind_starts_again(tmp_path):
    """It knows a decision by its id, and finds its reward under the name that came since."""
    with Service(tmp_path / "own.db") as service:
        bandit = service.create("offers", reward="bernoulli")
        store, row = service.app.state.serving.store, service.engine.find("offers").row
        bandit.ask(id="order-7")
        behind = Host(row, loading.rebuild(store, row))
        bandit.tell("order-7", 1)
        bandit.post("/forget", {"decision": "order-7", "why": WHY})
        with behind.turn:
            behind.catch_up(store)
        assert behind.quarantined is None
        assert known(behind.core) == known(service.engine.find("offers").core)


def test_a_log_that_was_changed_by_other_hands_is_still_found_out(tmp_path):
    with Service(tmp_path / "own.db") as service:
        bandit = service.create("offers")
        bandit.tell(bandit.ask(id="order-7")["id"], 1)
        bandit.post("/forget", {"decision": "order-7", "why": WHY})
    with sqlite3.connect(tmp_path / "own.db") as database:
        [(seq, body)] = database.execute("SELECT seq, body FROM events WHERE kind = 'Rewarded'").fetchall()
        forged = json.dumps({**json.loads(body), "reward": 5.0}, separators=(",", ":"))
        database.execute("UPDATE events SET body = ? WHERE seq = ?", (forged, seq))
    with Store.open(tmp_path / "own.db") as store:
        row = store.find("offers")
        assert loading.trouble(store, row).seq == seq


@pytest.mark.parametrize(
    "body",
    [
        {"why": WHY},
        {"decision": "a", "subject": "b", "why": WHY},
        {"decision": "a"},
        {"decision": "a", "why": ""},
        {"subject": "x" * 201, "why": WHY},
        {"subject": "a\nb", "why": "because\n"},
        {"decision": "a", "why": WHY, "dry": True},
    ],
)
def test_wrong_requests_are_refused(service, body):
    bandit = service.create()
    before = bandit.events()
    assert bandit.send("POST", "/forget", json=body).status_code == 422
    assert bandit.events() == before


@pytest.mark.parametrize("subject", ["", "a\tb", "x" * 201, 7])
def test_wrong_subjects_are_refused(service, subject):
    bandit = service.create()
    answer = bandit.send("POST", "/ask", json={"context": {"segment": "new"}, "subject": subject})
    assert answer.status_code == 422


@pytest.mark.slow
def test_the_command_line_forgets_in_all_bandits(tmp_path):
    place = tmp_path / "own.db"
    with Service(place) as service:
        for name in ("news", "shop"):
            service.create(name).ask(subject="customer-7")

    def command(*given):
        line = [sys.executable, "-m", "tensorbandits", "forget", "--store", str(place), *given]
        return subprocess.run(line, capture_output=True, text=True)

    assert "say --why" in command("--subject", "customer-7").stderr
    dry = command("--subject", "customer-7", "--dry-run")
    assert "shop: 1 decisions with 1 events would be forgotten" in dry.stdout, dry.stderr
    done = command("--subject", "customer-7", "--why", WHY, "--as", "Ann")
    assert "news: 1 decisions with 1 events forgotten, 1 of which waited for a reward" in done.stdout, done.stderr
    assert "nothing is known of 'customer-7'" in command("--subject", "customer-7", "--why", WHY).stdout
    with Service(place) as service:
        changes = service.bandit("news").send("GET", "/changes").json()["changes"]
        assert (changes[0]["actor"], changes[0]["kind"]) == ("Ann", "Forgotten")

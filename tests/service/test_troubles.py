"""A store that is full, read-only, held by others or away: clear words, nothing lost, and it works again afterwards."""

import contextlib
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest

from tensorbandits.store import backend, sqlite
from tests.service.served import MODES, Service, until

NEW = {"context": {"segment": "new"}}
ARM = {"arm": {"offer": "a", "channel": "sms"}, "context": {"segment": "new"}}


@pytest.fixture
def connections(monkeypatch):
    """The connections to SQLite that were made since the test began, those of the service."""
    made, connect = [], sqlite3.dbapi2.connect

    def noted(*given, **more):
        made.append(connect(*given, **more))
        return made[-1]

    monkeypatch.setattr(sqlite3.dbapi2, "connect", noted)
    return made


def set_all(connections, pragma):
    """Set something on all connections that are still open."""
    for connection in connections:
        with contextlib.suppress(sqlite3.ProgrammingError):
            connection.execute(f"PRAGMA {pragma}").fetchall()


@pytest.fixture
def service(tmp_path, connections):
    with Service(tmp_path / "own.db") as service:
        yield service


def refused(answer):
    """Return the words of an answer that asks to come again later."""
    assert answer.status_code == 503, answer.text
    assert answer.json()["error"]["code"] == "unavailable"
    assert int(answer.headers["retry-after"]) >= 1
    return answer.json()["error"]["message"]


def every_write(bandit, one):
    """Yield the answers of all requests that would write."""
    yield bandit.send("POST", "/ask", json=NEW)
    yield bandit.send("POST", "/ask-many", json={"requests": [NEW, NEW]})
    yield bandit.send("POST", "/tell", json={"id": one, "reward": 1})
    yield bandit.send("POST", "/tell", json=ARM | {"reward": 1})
    yield bandit.send("POST", "/tell-many", json={"rewards": [ARM | {"reward": 1}]})
    yield bandit.send("POST", "/cancel", json={"id": one})
    yield bandit.send("POST", "/levels", json={"mode": "offer", "label": "x"})
    yield bandit.send("POST", "/levels/retire", json={"mode": "offer", "label": "a"})
    yield bandit.send("POST", "/rules", json={"forbid": {"offer": "a"}})
    yield bandit.send("PATCH", json={"holdout": 0.1})
    yield bandit.send("POST", "/import", params={"reward": "r"}, content=b"segment,offer,channel,r\nnew,a,sms,1\n")
    yield bandit.send("POST", "/fold", json={})
    yield bandit.send("DELETE")
    yield bandit.service.http.post("/v1/bandits", json={"name": "more", "modes": MODES})
    yield bandit.service.http.post("/v1/keys", json={"name": "me", "role": "admin"})


def still_reads(bandit, one, before):
    """Assert that all is as it was, and can be looked at."""
    assert bandit.detail() == before[0]
    assert bandit.ledger() == before[1]
    assert bandit.look_up(one)["status"] == "open"
    assert bandit.post("/best", NEW)["arm"]
    assert bandit.send("GET", "/export").status_code == 200
    assert bandit.service.http.get("/healthz").status_code == 200
    assert len(bandit.service.http.get("/v1/bandits").json()["bandits"]) == 1


def works_again(service, bandit, one, before):
    """Assert that nothing was lost or counted, and that requests go on, also after a restart."""
    assert bandit.tell(one, 1)["changed"] is True
    asked = bandit.ask(key="later")
    after = bandit.detail()
    assert (after["decisions"], after["rewards"]) == (before[0]["decisions"] + 1, before[0]["rewards"] + 1)
    assert after["seq"] == before[0]["seq"] + 2
    return asked


@pytest.mark.parametrize("trouble", ["full", "read-only"])
def test_a_disk_that_is_full_or_read_only(service, connections, trouble):
    bandit = service.create("offers")
    one = bandit.ask()["id"]
    bandit.tell(bandit.ask()["id"], 1)
    before = bandit.detail(), bandit.ledger()
    if trouble == "full":
        with contextlib.closing(sqlite3.connect(service.store)) as other:
            pages = other.execute("PRAGMA page_count").fetchone()[0]
        set_all(connections, f"max_page_count = {pages}")
        big = {"rewards": [{**ARM, "reward": at / 7} for at in range(1000)]}
        for _ in range(50):  # until no room is left
            if (answer := bandit.send("POST", "/tell-many", json=big)).status_code != 200:
                break
        assert "no room is left" in refused(answer)
        before = bandit.detail(), bandit.ledger()
        told = [event for event in service.engine.store.events(1) if event.kind == "Told"]
        assert before[0]["rewards"] == 1 + len(told)  # of many some may have been written before
    else:
        set_all(connections, "query_only = ON")
        for answer in every_write(bandit, one):
            assert "cannot be written" in refused(answer), answer.request.url
    still_reads(bandit, one, before)
    assert "cannot be written" in refused(service.http.get("/readyz"))
    service.engine.health.look()  # which finds that it still cannot
    assert "cannot be written" in refused(service.http.get("/readyz"))
    set_all(connections, "max_page_count = 1000000")
    set_all(connections, "query_only = OFF")
    until(lambda: service.http.get("/readyz").status_code == 200)
    asked = works_again(service, bandit, one, before)
    last = bandit.detail()
    service.__exit__()
    with service.restarted() as again:
        assert again.bandit("offers").detail() == last
        assert again.bandit("offers").ask(key="later") == asked
    service.__enter__()  # for the fixture, which ends it


def test_a_store_that_another_process_holds(service, connections, monkeypatch):
    monkeypatch.setattr(sqlite, "PATIENCE", 0.2)
    monkeypatch.setattr(backend, "PATIENCE", 0.2)
    bandit = service.create("offers")
    one = bandit.ask()["id"]
    before = bandit.detail(), bandit.ledger()
    set_all(connections, "busy_timeout = 200")
    with sqlite3.connect(service.store, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        assert "held by another process" in refused(bandit.send("POST", "/ask", json=NEW))
        still_reads(bandit, one, before)
        other.execute("ROLLBACK")
    other.close()
    works_again(service, bandit, one, before)


def test_a_file_that_is_read_only_at_the_start(tmp_path):
    from tensorbandits.store import Store, StoreError

    path = tmp_path / "none" / "own.db"
    with pytest.raises(StoreError, match="is not there; make it first"):
        Store.open(path)
    (tmp_path / "own.db").write_bytes(b"this is no database, but a text of some length, and so it has to be refused")
    with pytest.raises(StoreError, match="no SQLite database"):
        Store.open(tmp_path / "own.db")


def test_a_database_that_goes_away_and_comes_back(postgres_url):
    """PostgreSQL is killed under load; what was acknowledged is there, and what was asked again counts once."""
    from tests import servers

    server = servers.Postgres()
    try:
        server.start()
        with Service(server.create("away"), store_away=1) as service:
            bandit = service.create("offers", adds=True)
            ids = [bandit.ask()["id"] for _ in range(5)]
            server.kill()
            assert refused(bandit.send("POST", "/ask", json=NEW))
            assert refused(bandit.send("POST", "/tell", json={"id": ids[0], "reward": 1}))
            assert refused(service.bandit("unknown").send("GET"))
            assert refused(bandit.send("GET", "/events"))
            assert bandit.detail()["decisions"] == 5
            assert service.http.get("/healthz").status_code == 200
            away = until(lambda: (found := service.http.get("/readyz")).status_code == 503 and found)
            assert "the store has not answered for" in refused(away)

            def stubborn(at):
                body = {"id": ids[at % 5], "reward": 1, "add": True}
                answer = until(lambda: _good(bandit.send("POST", "/tell", json=body, key=f"tell-{at}")))
                return answer["changed"]

            with ThreadPoolExecutor(5) as pool:
                told = [pool.submit(stubborn, at) for at in range(15)]
                server.start()
                assert len([one.result() for one in told]) == 15
            assert [bandit.look_up(one)["reward"] for one in ids] == [3.0] * 5
            assert bandit.detail()["rewards"] == 5
            last = bandit.detail()
        with service.restarted() as again:
            assert again.bandit("offers").detail() == last
    finally:
        server.close()


def _good(answer):
    assert answer.status_code in (200, 503), answer.text
    return answer.json() if answer.status_code == 200 else None

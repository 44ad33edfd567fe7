"""A deadline of a request: refused when it passes, nothing half done, and what was made durable anyway is there."""

import threading

import pytest

from tests.service.served import until

NAME = "X-Request-Timeout"


@pytest.fixture
def bandit(service):
    bandit = service.create(reward="bernoulli")
    bandit.ask()
    return bandit


def sent(bandit, path, body, seconds, **headers):
    place = f"/v1/bandits/{bandit.name}{path}"
    return bandit.service.http.post(place, json=body, headers={NAME: str(seconds), **headers})


def test_in_time_nothing_is_different(bandit):
    answer = sent(bandit, "/ask", {"context": {"segment": "new"}, "id": "in-time"}, 30)
    assert answer.status_code == 200
    assert sent(bandit, "/tell", {"id": "in-time", "reward": 1}, 30).json()["status"] == "rewarded"
    answer = bandit.service.http.get("/v1/bandits", headers={NAME: "30"})
    assert answer.status_code == 200


@pytest.mark.parametrize("given", ["0", "-1", "soon", "nan", "inf", "3601", ""])
def test_what_is_no_time_is_refused(bandit, given):
    answer = sent(bandit, "/ask", {"context": {"segment": "new"}}, given)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    assert "give seconds, above 0 and at most 3600" in answer.json()["detail"]
    assert answer.json()["errors"][0]["header"] == "x-request-timeout"


@pytest.mark.parametrize("path", ["/ask", "/ask-many"])
def test_what_waits_for_its_turn_is_not_written_any_more(bandit, path):
    host, before = bandit.service.engine.find(bandit.name), bandit.detail()["seq"]
    one = {"context": {"segment": "new"}, "id": f"late{path}"}
    with host.turn:  # somebody else writes, for long
        answer = sent(bandit, path, {"requests": [one]} if path == "/ask-many" else one, 0.1)
        assert (answer.status_code, answer.json()["code"]) == (504, "deadline")
        assert "the 0.1 s of x-request-timeout have passed" in answer.json()["detail"]
    decision = bandit.ask()  # goes behind it
    assert bandit.send("GET", f"/decisions/late{path}").json()["code"] == "unknown_decision"
    assert bandit.detail()["seq"] == before + 1
    assert bandit.ask(id=f"late{path}")["id"] != decision["id"], "the id is free"


def test_what_was_being_written_is_there_and_the_same_again_says_so(bandit, monkeypatch):
    store, go = bandit.service.engine.writer._store, threading.Event()
    append = store.append

    def slow(*given):
        go.wait(30)
        return append(*given)

    monkeypatch.setattr(store, "append", slow)
    body, key = {"context": {"segment": "new"}, "id": "durable"}, {"Idempotency-Key": "visit-1"}
    answer = sent(bandit, "/ask", body, 0.2, **key)
    assert (answer.status_code, answer.json()["code"]) == (504, "deadline")
    go.set()
    until(lambda: bandit.send("GET", "/decisions/durable").status_code == 200)
    again = sent(bandit, "/ask", body, 30, **key)
    assert again.status_code == 200
    assert again.json()["id"] == "durable"
    assert [event["decision"] for event in bandit.events()].count("durable") == 1

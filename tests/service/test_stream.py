"""Server-sent events: changes and alerts of a bandit, as they happen and after coming back."""

import json
import threading

import pytest

from tensorbandits.service.http.routes import stream
from tests.service.served import Service, until

LISTEN = {"Accept": "text/event-stream"}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(stream, "PAUSE", 0.02)
    monkeypatch.setattr(stream, "ALIVE", 0.1)


def read(text):
    """The events of a text: kind, id, data."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and not line.startswith(":"))
        if "event" in fields:
            found.append((fields["event"], fields.get("id"), json.loads(fields["data"])))
    return found


def heard(bandit, do, count, **headers):
    """The events that a listener hears until there are so many, while something is done."""
    place, events, text = f"/v1/bandits/{bandit.name}/stream", [], ""
    with bandit.service.http.stream("GET", place, headers=LISTEN | headers) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        doing = threading.Thread(target=do)
        doing.start()
        for piece in answer.iter_text():
            text += piece
            events = read(text)
            if len(events) >= count:
                break
        doing.join()
    return events


def test_changes_are_told_as_they_happen_and_none_twice(service):
    bandit = service.create(reward="bernoulli")

    def change():
        bandit.ask()
        bandit.patch(holdout=0.1)
        bandit.post("/levels", {"mode": "offer", "label": "d"})

    events = heard(bandit, change, 3)
    assert [(kind, data["kind"]) for kind, _, data in events] == [
        ("change", "Created"), ("change", "Changed"), ("change", "LevelAdded"),
    ]  # fmt: skip
    assert [id for _, id, _ in events] == ["1", "2", "3"]
    assert events[1][2]["words"] == bandit.send("GET", "/changes").json()["changes"][1]["words"]
    again = heard(bandit, lambda: bandit.patch(holdout=0.2), 1, **{"Last-Event-ID": "3"})
    assert [id for _, id, _ in again] == ["4"]
    until(lambda: service.app.state.serving.listeners == 0)


def test_who_does_not_listen_gets_what_there_is(service):
    bandit = service.create()
    bandit.patch(holdout=0.1)
    answer = bandit.send("GET", "/stream")
    assert [id for _, id, _ in read(answer.text)] == ["1", "2"]
    assert read(bandit.send("GET", "/stream?after=2").text) == []
    assert bandit.send("GET", "/stream?after=-1").status_code == 422
    assert service.http.get("/v1/bandits/nobody/stream", headers=LISTEN).status_code == 404


def test_alerts_and_the_end(service):
    bandit = service.create()
    host = service.engine.find(bandit.name)

    def wrong():
        host.quarantine(7, "the event is damaged")

    events = heard(bandit, wrong, 2)
    assert (events[1][0], events[1][2]["kind"]) == ("alert", "quarantined")
    assert "event 7 of its log" in events[1][2]["words"]
    other = service.create()
    events = heard(other, lambda: other.send("DELETE"), 2)
    assert events[-1][0] == "end"
    watch = stream.Watch(host, 0)
    better = {"verdict": "better", "words": "more"}
    assert [list(watch.judged(one)) != [] for one in (None, {"verdict": "open"}, better, better)] == [
        False, False, True, False,
    ]  # fmt: skip


def test_there_is_a_limit_and_a_server_that_stops_waits_for_no_listener(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "MOST", 1)
    with Service(tmp_path / "own.db") as service:
        bandit = service.create()
        place = f"/v1/bandits/{bandit.name}/stream"
        with service.http.stream("GET", place, headers=LISTEN) as answer:
            pieces = answer.iter_text()
            next(pieces)
            refused = service.http.get(place, headers=LISTEN)
            assert (refused.status_code, refused.json()["code"]) == (429, "too_many")
            service._server.should_exit = True
            service._thread.join(9)
            assert not service._thread.is_alive()
            answer.close()

"""Bodies of requests: what is large is read beside everything else, and what is out of all measure is refused."""

import json
import threading
import time

import httpx
import pytest

from tensorbandits.service.http.bodies import LARGE
from tests.service.processes import PATIENCE, server

MIB = 2**20
SEGMENT = {"context": {"segment": "new"}}


@pytest.fixture
def bandit(service):
    return service.create()


def sized(item, size):
    """As many of an item as fill so many bytes of JSON."""
    return [item] * (size // len(json.dumps(item) + ", "))


def raw(bandit, content, kind="application/json"):
    """Send a body to ask as it is."""
    path = f"/v1/bandits/{bandit.name}/ask"
    return bandit.service.http.post(path, content=content, headers={"Content-Type": kind})


def allowed(labels):
    return SEGMENT | {"allowed": {"offer": labels}}


def test_a_large_body_is_taken_like_a_small_one(bandit):
    labels = ["a"] * 10_000
    assert len(json.dumps(labels)) > LARGE
    decision = bandit.ask(allowed={"offer": labels})
    assert decision["arm"]["offer"] == "a"
    asks = [allowed(["b"] * 100)] * 1_000
    assert {one["arm"]["offer"] for one in bandit.post("/ask-many", {"requests": asks})["decisions"]} == {"b"}
    assert raw(bandit, json.dumps(allowed(labels)), "text/plain").status_code == 422


def test_errors_of_a_large_body_are_those_of_a_small_one(bandit):
    for wrong in (
        SEGMENT | {"allwed": 1},
        allowed(["a", None]),
        {"context": {"segment": 7}},
        allowed(["nowhere"]),
        [],
        3,
    ):
        small = bandit.send("POST", "/ask", json=wrong)
        large = raw(bandit, json.dumps(wrong) + " " * 2 * LARGE)
        assert (small.status_code, large.status_code) == (422, 422)
        assert small.json()["error"]["message"] == large.json()["error"]["message"]
    for broken in ("{", "[" * 100_000, '{"a": "\\x"}', "nan", b"\xff\xfe"):
        padded = broken + (b" " if isinstance(broken, bytes) else " ") * 2 * LARGE
        answers = [raw(bandit, content) for content in (broken, padded)]
        assert [answer.status_code for answer in answers] == [422, 422], broken
        assert [answer.json()["error"]["code"] for answer in answers] == ["invalid", "invalid"]


def test_what_is_out_of_measure_is_refused_in_plain_words(bandit):
    for path, body, words in (
        ("/ask", allowed(["a"] * 10_001), "allowed.offer has more than 10,000 entries"),
        ("/ask", SEGMENT | {f"x{at}": 1 for at in range(49_999)}, "an object of 50,000 fields; give at most 1,000"),
        ("/ask", {"context": {f"x{at}": 1 for at in range(50_000)}}, "an object of 50,000 fields; give at most 1,000"),
        ("/ask-many", {"requests": [allowed(["a"] * 1_000)] * 101}, "101,000 labels in allowed; give at most 100,000"),
        ("/ask-many", {"requests": [SEGMENT] * 1_001}, "requests has more than 1,000 entries"),
    ):
        assert words in bandit.refused(path, body, 422, "invalid")
    assert "larger than 1 MiB" in bandit.refused("/ask", allowed(sized("a", 2 * MIB)), 413, "too_large")
    assert "larger than 8 MiB" in bandit.refused("/ask-many", {"requests": sized(SEGMENT, 9 * MIB)}, 413, "too_large")
    assert bandit.detail()["seq"] == 1


WORST = {
    "many labels": ("/ask", allowed(sized("a", 8 * MIB - 4096))),
    "nulls": ("/ask", allowed(sized(None, MIB - 4096))),
    "days": ("/best", allowed(sized({"date": "2026-02-28"}, MIB - 4096))),
    "fields": ("/tell", {f"x{at}": None for at in range(50_000)}),
    "many nulls": ("/ask-many", {"requests": sized(None, 8 * MIB - 4096)}),
    "many lists of nulls": ("/ask-many", {"requests": [allowed([None] * 1_000)] * 1_000}),
    "many days": ("/ask-many", {"requests": [allowed([{"date": "2026-02-28"}] * 250)] * 1_000}),
    "no rewards": ("/tell-many", {"rewards": [{"id": {"x": [None] * 500}}] * 1_000}),
}


def test_others_are_answered_while_such_bodies_are_read(tmp_path):
    with server(tmp_path) as port, httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as http:
        modes = {"segment": ["new", "old"], "offer": ["a", "b"]}
        assert http.post("/v1/bandits", json={"name": "shop", "modes": modes, "context": ["segment"]}).is_success
        contents = [(path, json.dumps(body).encode()) for path, body in WORST.values()]
        assert all(len(content) < 8 * MIB for _, content in contents)
        answers, done = [], threading.Event()

        def send():
            with httpx.Client(base_url=http.base_url, timeout=10 * PATIENCE) as own:
                for path, content in contents:
                    answer = own.post(
                        f"/v1/bandits/shop{path}", content=content, headers={"Content-Type": "application/json"}
                    )
                    answers.append((path, answer.status_code))
            done.set()

        thread = threading.Thread(target=send)
        thread.start()
        slowest = 0.0
        while not done.is_set() and thread.is_alive():
            began = time.monotonic()
            assert http.get("/healthz").status_code == 200
            slowest = max(slowest, time.monotonic() - began)
            time.sleep(0.02)
        thread.join()
    assert [status in (413, 422) for _, status in answers] == [True] * len(contents), answers
    assert slowest < 5, "one request stopped all others"

"""A decide server answers as the service does, from snapshots alone, and says what it cannot do."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import uvicorn

import tensorbandits as tb
from tensorbandits.service.deciding import repeats
from tensorbandits.service.deciding.options import DecideOptions, GivenKeys
from tensorbandits.service.deciding.run import create_decide_app
from tensorbandits.service.http.keyring import make_key
from tensorbandits.service.run import server_options
from tensorbandits.service.settings import Settings
from tests.decider.published import told

SECRET = "0123456789abcdef0123"
KEYS = f"2026-11={SECRET}"
PATH = "/v1/bandits/offers"


@contextmanager
def deciding(*sources: Path | str, keys: str = "", sink: str | None = None, **settings: Any) -> Iterator[httpx.Client]:
    """Serve decisions from snapshots in a thread of this process, and yield a client."""
    known = Settings.read({}, token_keys=KEYS, log_level="error", key_seconds=0.1, **settings)
    options = DecideOptions(tuple(map(str, sources)), sink=sink, every=0.02, api_keys=keys)
    config = uvicorn.Config(
        create_decide_app(known, options), host="127.0.0.1", port=0, lifespan="on", **server_options(known)
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            thread.join(0.01)
            assert thread.is_alive(), "the decide server did not start"
        port = server.servers[0].sockets[0].getsockname()[1]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
            yield http
    finally:
        server.should_exit = True
        thread.join()


def lake_of(folder: Path, kind: str) -> list[dict[str, Any]]:
    """All records of a kind in a lake."""
    files = sorted(folder.glob(f"{kind}/bandit=offers/hour=*/part-*.parquet"))
    return pa.concat_tables([pq.ParquetFile(file).read() for file in files]).to_pylist() if files else []


def ready(http: httpx.Client) -> None:
    end = time.monotonic() + 60
    while http.get("/readyz").status_code != 200:
        assert time.monotonic() < end, http.get("/readyz").text
        time.sleep(0.02)


def test_it_asks_and_tells_as_the_service_does(tmp_path: Path) -> None:
    told(holdout=0.2).publish(tmp_path / "p", name="offers")
    with deciding(tmp_path / "p", sink=str(tmp_path / "lake")) as http:
        ready(http)
        with tb.Client(str(http.base_url).rstrip("/")) as client:
            bandit = client.bandit("offers")
            one = bandit.ask(segment="s1", allowed={"offer": ["a", "b"]})
            assert one.arm["offer"] in ("a", "b")
            assert one.context == {"segment": "s1"}
            assert one.propensity is not None
            many = bandit.ask_many([{"segment": "s1"}, {"segment": "s2"}])
            assert [each.context["segment"] for each in many] == ["s1", "s2"]
            bandit.tell(one.id, 1)
            bandit.tell(one.id, 0, amend=True)
            bandit.tell_many([(each.id, 1) for each in many])
            assert set(bandit.best(segment="s1")) == {"offer", "channel"}
            detail = bandit.detail()
            assert (detail["name"], detail["version"], detail["context"]) == ("offers", 1, ["segment"])
            assert detail["modes"]["channel"] == ["mail", "sms", "push"]
            assert [rule["forbid"] for rule in detail["rules"]] == [{"offer": "video", "channel": "sms"}]
        answer = http.post(f"{PATH}/ask", json={"context": {"segment": "s1"}}).json()
        assert set(answer) == {
            *("id", "arm", "context", "propensity", "by", "policy", "time", "snapshot", "draw"),
        }
        assert answer["policy"] == detail["policy"] == "thompson"  # as the service has it
        assert http.get("/v1/bandits").json()["bandits"][0]["name"] == "offers"
    rows = lake_of(tmp_path / "lake", "decisions")
    assert [row["id"] for row in rows] == [one.id, *(each.id for each in many), answer["id"]]
    rewards = lake_of(tmp_path / "lake", "rewards")
    assert [(row["id"], row["reward"], row["amend"]) for row in rewards] == [
        *((one.id, 1.0, False), (one.id, 0.0, True)),
        *((each.id, 1.0, False) for each in many),
    ]


def test_it_is_ready_once_there_is_a_snapshot_and_serves_several_bandits(tmp_path: Path) -> None:
    told().publish(tmp_path / "offers", name="offers")
    with deciding(tmp_path / "offers", tmp_path / "prices", sink=str(tmp_path / "lake")) as http:
        assert http.get("/healthz").json() == {"status": "ok"}
        answer = http.get("/readyz")
        assert answer.status_code == 503
        assert "there is no snapshot yet of" in answer.json()["detail"]
        assert http.post("/v1/bandits/prices/ask", json={"context": {"segment": "s1"}}).status_code == 503
        told(seed=1).publish(tmp_path / "prices", name="prices")
        ready(http)
        found = {one["name"] for one in http.get("/v1/bandits").json()["bandits"]}
        assert found == {"offers", "prices"}
        for name in found:
            one = http.post(f"/v1/bandits/{name}/ask", json={"context": {"segment": "s1"}}).json()
            other = ({*found} - {name}).pop()
            answer = http.post(f"/v1/bandits/{other}/tell", json={"id": one["id"], "reward": 1})
            assert (answer.status_code, answer.json()["code"]) == (422, "refused_token")
        assert http.post("/v1/bandits/nobody/ask", json={}).json()["code"] == "unknown_bandit"
        metrics = http.get("/metrics").text
        assert 'tensorbandits_decisions_total{bandit="offers"} 1.0' in metrics
        assert 'tensorbandits_snapshot_age_seconds{bandit="prices"}' in metrics
        assert 'tensorbandits_decisions_dropped_total{bandit="offers"} 0.0' in metrics
        assert 'route="/v1/bandits/{name}/ask"' in metrics


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/ask", {"context": {"segment": "nobody"}}, 422, "invalid"),
        ("/ask", {"context": {}}, 422, "invalid"),
        ("/ask", {"contexts": {}}, 422, "invalid"),
        ("/ask", {"context": {"segment": "s1"}, "activate": False}, 422, "invalid"),
        ("/ask", {"context": {"segment": "s1"}, "subject": "ann"}, 422, "invalid"),
        ("/ask", {"context": {"segment": "s1"}, "played": {"offer": "a", "channel": "sms"}}, 422, "invalid"),
        ("/tell", {"id": "visit-1", "reward": 1}, 422, "refused_token"),
        ("/tell", {"arm": {"offer": "a", "channel": "sms"}, "context": {"segment": "s1"}, "reward": 1}, 422, "invalid"),
        ("/tell", {"id": "x", "reward": 1, "add": True}, 422, "invalid"),
        ("/activate", {"id": "x"}, 404, "not_found"),
        ("/levels", {"mode": "offer", "label": "z"}, 404, "not_found"),
    ],
)
def test_what_it_cannot_do_it_refuses_in_clear_words(
    tmp_path: Path, path: str, body: dict[str, Any], status: int, code: str
) -> None:
    told(rounds=0).publish(tmp_path / "p", name="offers")
    with deciding(tmp_path / "p", sink=str(tmp_path / "lake")) as http:
        ready(http)
        answer = http.post(PATH + path, json=body)
        assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert answer.headers["content-type"] == "application/problem+json"
    assert lake_of(tmp_path / "lake", "decisions") == lake_of(tmp_path / "lake", "rewards") == []


def test_other_bodies_methods_and_sizes_are_refused(tmp_path: Path) -> None:
    told(rounds=0).publish(tmp_path / "p", name="offers")
    with deciding(tmp_path / "p", body_limit=2**20, import_limit=2**20) as http:
        ready(http)
        json_type = {"content-type": "application/json"}
        assert http.get(f"{PATH}/ask").status_code == 405
        assert http.post("/readyz").status_code == 405
        assert http.post(f"{PATH}/ask", content=b"{}").json()["code"] == "invalid"
        assert http.post(f"{PATH}/ask", content=b"{", headers=json_type).json()["code"] == "invalid"
        assert http.post(f"{PATH}/ask", content=b" " * 2**21, headers=json_type).json()["code"] == "too_large"
        assert http.get("/elsewhere").json()["code"] == "not_found"
        assert http.head("/healthz").content == b""
        good, bad = {"context": {"segment": "s1"}}, {"context": {"segment": "nobody"}}
        answer = http.post(f"{PATH}/ask-many", json={"requests": [good, bad]})
        assert answer.json()["code"] == "invalid"
        assert 'decisions_total{bandit="offers"}' not in http.get("/metrics").text


def test_a_request_that_comes_again_is_answered_as_it_was(tmp_path: Path) -> None:
    told(rounds=0).publish(tmp_path / "p", name="offers")
    with deciding(tmp_path / "p", sink=str(tmp_path / "lake")) as http:
        ready(http)
        body = {"context": {"segment": "s1"}}
        key = {"Idempotency-Key": "k1"}
        first, second = (http.post(f"{PATH}/ask", json=body, headers=key).json() for _ in range(2))
        assert first == second
        third, fourth = (http.post(f"{PATH}/ask", json=body | {"id": "visit-1"}).json() for _ in range(2))
        assert third == fourth
        assert third["id"] not in ("visit-1", first["id"])
        other = http.post(f"{PATH}/ask", json={"context": {"segment": "s2"}}, headers=key)
        assert other.json()["code"] == "key_reused"
        assert http.post(f"{PATH}/ask", json=body, headers={"Idempotency-Key": "a b"}).json()["code"] == "invalid"
    assert len(lake_of(tmp_path / "lake", "decisions")) == 2


def test_answers_that_are_remembered_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "_BYTES", 1_000)
    known = repeats.RepeatedAnswers()
    for at in range(50):
        known.put(f"k{at}", "same", bytes(100))
    found = [at for at in range(50) if known.find(f"k{at}", "same") is not None]
    assert found == list(range(40, 50))
    known.put("large", "same", bytes(5_000))  # more than all of it
    assert known.find("large", "same") is None
    known.put("k", "same", b"1")
    assert known.find("k", "same") == b"1"


def test_callers_need_a_key_where_there_are_keys(tmp_path: Path) -> None:
    told(rounds=0).publish(tmp_path / "p", name="offers")
    decide, read = (make_key("test", role)[1] for role in ("decide", "read"))
    with deciding(tmp_path / "p", keys=f"web={decide}, people:read={read}") as http:
        ready(http)
        body = {"context": {"segment": "s1"}}

        def status(key: str | None, path: str = f"{PATH}/ask") -> int:
            headers = {} if key is None else {"Authorization": f"Bearer {key}"}
            sent = (
                http.get(path, headers=headers) if path == "/metrics" else http.post(path, json=body, headers=headers)
            )
            return sent.status_code

        assert [status(key) for key in (decide, read, None, decide[:-1] + "x")] == [200, 403, 401, 401]
        assert [status(key, "/metrics") for key in (decide, read, None)] == [403, 200, 401]


@pytest.mark.parametrize("text", ["web", "web=tb_short", "=tb_x", f"web:boss={'tb_' + 'a' * 10 + '_' + 'A' * 43}"])
def test_keys_of_callers_that_cannot_be_are_refused_and_not_shown(text: str) -> None:
    with pytest.raises(ValueError, match="TENSORBANDITS_API_KEYS has a key") as refused:
        GivenKeys(text)
    assert "A" * 43 not in str(refused.value)


def test_options_come_from_arguments_and_variables() -> None:
    variables = {"TENSORBANDITS_DECIDE_FROM": "p1 redis://h/0?key=a", "TENSORBANDITS_SINK": "lake"}
    options = DecideOptions.read(environment=variables)
    assert (options.sources, options.sink) == (("p1", "redis://h/0?key=a"), "lake")
    again = DecideOptions.read(environment=options.environment())
    assert again == options
    assert DecideOptions.read(("p2",), every=3.0, environment=variables).sources == ("p2",)
    for wrong, says in (
        ({}, "no snapshots are named"),
        ({"TENSORBANDITS_DECIDE_FROM": "http://x"}, "address"),
        (variables | {"TENSORBANDITS_SINK": "http://x/v1/bandits/a"}, "takes events of one bandit"),
        (variables | {"TENSORBANDITS_BUFFER": "much"}, "no number"),
        (variables | {"TENSORBANDITS_LOOK_EVERY": "0"}, "every is 0"),
    ):
        with pytest.raises(ValueError, match=says):
            DecideOptions.read(environment=wrong)


class DecideProcess:
    """A decide server in a process of its own, as the command line starts it."""

    def __init__(self, *options: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        environment = {**os.environ, "TENSORBANDITS_TOKEN_KEYS": KEYS, "TENSORBANDITS_LOG_LEVEL": "error"}
        command = [sys.executable, "-m", "tensorbandits", "decide", "--port", str(port), *options]
        self.process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)
        end = time.monotonic() + 120
        while True:
            assert self.process.poll() is None, self.process.communicate()[1]
            assert time.monotonic() < end
            try:
                if self.http.get("/readyz").status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.05)

    def end(self, how: signal.Signals) -> int:
        self.process.send_signal(how)
        self.process.communicate(timeout=60)
        self.http.close()
        return self.process.returncode

    def ask(self, count: int) -> list[str]:
        body = {"requests": [{"context": {"segment": "s1"}}] * count}
        return [one["id"] for one in self.http.post(f"{PATH}/ask-many", json=body).json()["decisions"]]


def test_what_waits_is_written_when_it_is_told_to_stop_and_lost_when_it_is_killed(tmp_path: Path) -> None:
    told(rounds=0).publish(tmp_path / "p", name="offers")
    options = ("--from", str(tmp_path / "p"), "--sink", str(tmp_path / "lake"))
    one = DecideProcess(*options)
    lost = one.ask(20)
    assert one.http.post(f"{PATH}/tell", json={"id": lost[0], "reward": 1}).status_code == 200
    one.end(signal.SIGKILL)  # less than the sink's 10 seconds later
    assert lake_of(tmp_path / "lake", "decisions") == lake_of(tmp_path / "lake", "rewards") == []
    two = DecideProcess(*options)
    kept = two.ask(20)
    for number in (kept[0], lost[1]):  # the token of a decision that was lost says what it was
        assert two.http.post(f"{PATH}/tell", json={"id": number, "reward": 1}).status_code == 200
    two.end(signal.SIGTERM)
    assert [row["id"] for row in lake_of(tmp_path / "lake", "decisions")] == kept
    assert [row["id"] for row in lake_of(tmp_path / "lake", "rewards")] == [kept[0], lost[1]]

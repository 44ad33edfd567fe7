"""The guard: ids, limits, headers, counts, the log, and errors that must not get out."""

import io
import json
import logging
import re
import socket
import threading
import time

import httpx
import pytest

from tensorbandits.service import logs
from tensorbandits.service.http import complaints
from tensorbandits.service.http.guard import HEADERS
from tensorbandits.service.http.limits import Buckets, network_of
from tensorbandits.service.metrics import Metrics
from tests.service.calls import SECRET, placed, served, talk

ASK = "/v1/bandits/shop/ask"
GOOD = {"reward": 1.0}
NAMES = [name.decode() for name, _ in HEADERS]


@pytest.fixture
def place():
    with placed() as place:
        yield place


@pytest.fixture
def key(place):
    return place.key()


def code(response):
    return response.json()["error"]["code"]


def test_a_request_gets_an_id_that_the_log_has_too(place, key):
    response = place.call("POST", ASK, key, json=GOOD)
    assert response.status_code == 200
    given = response.headers["x-request-id"]
    assert re.fullmatch("[0-9a-f]{16}", given)
    line = place.log()[-1]
    assert line["request"] == given
    assert {line[name] for name in ("method", "route", "status")} == {"POST", "/v1/bandits/{name}/ask", 200}
    assert line["key"] == key.split("_")[1]
    assert line["ms"] > 0
    assert place.call("POST", ASK, key, json=GOOD).headers["x-request-id"] != given


def test_a_well_formed_id_of_the_caller_is_taken(place, key):
    for given in ("abc-1", "A.b:c_9", "x" * 64):
        assert place.call("POST", ASK, key, json=GOOD, headers={"X-Request-Id": given}).headers["x-request-id"] == given
    for given in ("a b", "x" * 65, "a\tb", '"quoted"', "é", key):
        found = place.call("POST", ASK, key, json=GOOD, headers={"X-Request-Id": given.encode()})
        assert found.headers["x-request-id"] != given


def test_errors_carry_the_id_too(place, key):
    response = place.call("POST", ASK, key, json={}, headers={"X-Request-Id": "mine"})
    assert response.status_code == 422
    assert response.json()["error"]["request"] == "mine"


def test_every_answer_has_the_headers_that_keep_browsers_safe(place, key):
    answers = [
        place.call("GET", "/healthz"),
        place.call("POST", ASK, key, json=GOOD),
        place.call("POST", ASK, key, json={}),
        place.call("POST", ASK, json=GOOD),
        place.call("GET", "/no/such/place"),
        place.call("POST", "/v1/bandits/internal/explain", key),
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 422, 401, 404, 500]
    for answer in answers:
        assert all(len(answer.headers.get_list(name)) == 1 for name in [*NAMES, "x-request-id"])
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert "unsafe-eval" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert "no-store" in answers[1].headers["cache-control"]
    assert "www-authenticate" in answers[3].headers


def test_a_body_that_says_it_is_too_large_is_not_read():
    with placed(body_limit=2_000, import_limit=100_000) as place:
        key = place.key()
        large = place.call("POST", ASK, key, content=b"x" * 2_001)
        assert (large.status_code, code(large)) == (413, "too_large")
        assert "2000 bytes" in large.json()["error"]["message"]
        assert place.call("POST", ASK, key, json=GOOD).status_code == 200
        assert place.call("POST", "/v1/bandits/shop/import", key, content=b"x" * 99_000).json() == {"size": 99_000}
        assert place.call("POST", "/v1/bandits/shop/import", key, content=b"x" * 100_001).status_code == 413


@pytest.mark.parametrize("path", [ASK, "/v1/bandits/shop/import"])
def test_a_body_that_comes_in_pieces_is_counted(path):
    read = []

    async def pieces():
        for _ in range(1_000):
            read.append(1)
            yield b"x" * 1_000

    with placed(body_limit=5_000, import_limit=5_000) as place:
        key = place.key()
        headers = {"Content-Type": "application/json"}
        response = place.call("POST", path, key, content=pieces(), headers=headers)
        assert (response.status_code, code(response)) == (413, "too_large")
        assert len(read) < 10
        assert place.log()[-1]["status"] == 413


def test_a_caller_without_a_key_is_refused_before_the_body_is_read(place):
    place.key()
    read = []

    async def pieces():
        read.append(1)
        yield b"{broken"

    assert place.call("POST", ASK, content=pieces()).status_code == 401
    assert not read
    assert place.call("GET", "/v1/nothing").status_code == 401
    assert place.call("GET", "/healthz").status_code == 200


def test_too_many_requests_of_a_key_are_refused_and_others_are_not():
    with placed(rate=0.001, burst=3) as place:
        key, other = place.key(), place.key()
        found = [place.call("POST", ASK, key, json=GOOD) for _ in range(5)]
        assert [each.status_code for each in found] == [200, 200, 200, 429, 429]
        assert code(found[-1]) == "too_many"
        assert int(found[-1].headers["retry-after"]) >= 1
        assert place.call("POST", ASK, other, json=GOOD).status_code == 200
        assert b'tensorbandits_refused_total{reason="too_many"} 2.0' in place.metrics.text()


def test_too_many_requests_of_an_address_without_key_are_refused():
    with placed(rate=0.001, burst=2) as place:
        assert [place.call("GET", "/healthz").status_code for _ in range(3)] == [200, 200, 429]


def test_buckets_refill_and_are_bounded():
    now = 0.0
    buckets = Buckets(2.0, 4.0, most=100, clock=lambda: now)
    assert [buckets.take("a") for _ in range(4)] == [0.0] * 4
    assert buckets.take("a") == pytest.approx(0.5)
    assert buckets.wait("a") == pytest.approx(0.5)
    now = 0.5
    assert buckets.wait("a") == 0.0
    assert buckets.take("a") == 0.0
    assert buckets.take("a") > 0
    for number in range(1_000):
        buckets.take(f"caller {number}")
    assert len(buckets) <= 100
    now = 1_000.0
    assert buckets.take("a") == 0.0
    assert all(Buckets(0.0, 1.0).take("a") == 0.0 for _ in range(100))
    assert network_of("fe80::1%eth0") == "fe80::"
    assert network_of("::ffff:10.0.0.1") == "10.0.0.1"
    assert network_of("no:address") == "no:address"


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1:80", "[::1]:8000", "[::1]", "LOCALHOST"])
def test_without_keys_this_machine_is_answered(place, host):
    assert place.call("POST", ASK, json=GOOD, headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["example.org", "example.org:8000", "10.0.0.7", "127.0.0.1.example.org", "", "[::]"])
def test_without_keys_no_other_name_is_answered(place, host):
    refused = place.call("POST", ASK, json=GOOD, headers={"Host": host})
    assert (refused.status_code, code(refused)) == (403, "forbidden")
    assert "tensorbandits keys add" in refused.json()["error"]["message"]
    key = place.key()
    assert place.call("POST", ASK, key, json=GOOD, headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://example.org"},
        {"Origin": "null"},
        {"Origin": "http://localhost:3000"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_without_keys_pages_of_other_sites_are_refused(place, headers):
    assert place.call("POST", ASK, json=GOOD, headers=headers).status_code == 403
    own = {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
    assert place.call("POST", ASK, json=GOOD, headers=own).status_code == 200


def test_an_error_of_ours_tells_the_caller_nothing_and_the_log_everything_but_secrets(place, key):
    for name in ("internal", "key"):
        response = place.call("POST", f"/v1/bandits/{name}/explain", key)
        assert response.status_code == 500
        assert code(response) == "internal"
        assert not re.search("hunter2|Traceback|postgresql|KeyError|calls.py", response.text)
        mine = [line for line in place.log() if line["request"] == response.headers["x-request-id"]]
        assert [line["event"] for line in mine] == ["internal error", "request"]
        assert "Traceback" in mine[0]["exception"]
    assert "hunter2" not in place.lines.getvalue()
    assert "postgresql://me:***@db/bandits" in place.lines.getvalue()


def test_an_answer_that_breaks_off_does_not_look_whole(place, key):
    head = f"GET /v1/bandits/shop/export HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n"
    with served(place.app) as port:
        seen = talk(port, head.encode())
    assert b"half of it" in seen
    assert not seen.endswith(b"0\r\n\r\n")
    assert SECRET.encode() not in seen


def test_no_secret_reaches_any_line_or_answer(place):
    key = place.key("decide", name="web")
    secret = key.split("_")[2]
    wrong = key[:-3] + "xyz"
    answers = [
        place.call("POST", f"{ASK}?key={key}", key, json=GOOD),
        place.call("POST", ASK, wrong, json=GOOD),
        place.call("POST", f"/v1/bandits/{key}/ask", key, json=GOOD, headers={"X-Request-Id": key}),
        place.call("GET", f"/no/{key}", key),
        place.call("POST", ASK, key, json={"reward": f"Bearer {key}"}),
        place.call(
            "POST", ASK, key, content=f'{{"reward": "{key}'.encode(), headers={"Content-Type": "application/json"}
        ),
        place.call("POST", "/v1/bandits/x/fold", key, json={}),
    ]
    logging.getLogger("uvicorn.error").error("lost %s at postgresql://me:%s@db", key, SECRET)
    place.log()
    text = place.lines.getvalue()
    assert "uvicorn.error" in text
    for hidden in (secret, wrong.split("_")[2], SECRET, "?key", "argon2id"):
        assert hidden not in text
        assert not any(hidden in answer.text for answer in answers[1:2] + answers[3:])
    assert "reward" not in text, "bodies are not logged"


def test_a_level_silences_requests_that_went_well():
    with placed(log_level="warning") as place:
        key = place.key()
        place.call("POST", ASK, key, json=GOOD)
        assert place.log() == []
        place.call("POST", "/v1/bandits/internal/explain", key)
        assert [line["event"] for line in place.log()] == ["internal error", "request"]
    with placed(log_level="info") as place:
        place.call("GET", "/healthz")
        assert place.log() == []


def test_the_log_for_people(place, key):
    logs.configure("info", "console", place.lines)
    log = logs.get("part")
    try:
        raise ValueError(f"tb_0123456789_{SECRET}")
    except ValueError as error:
        log.error("went wrong", exc_info=error, many=[1, 2])
    logs.Requests().write("info", "r1", "GET", "/healthz", 200, 0.001, "")
    text = place.lines.getvalue()
    assert "went wrong" in text
    assert "Traceback" in text
    assert "tb_0123456789_***" in text
    assert "hunter2" not in text
    assert "request=r1" in text


def test_lines_of_odd_methods_are_json_and_a_broken_stream_stops_nothing(place):
    logs.Requests().write("info", "r1", 'A"B', "/x", 200, 0.5, "k")
    assert place.log()[-1]["method"] == 'A"B'
    broken = io.StringIO()
    logs.configure("info", "json", broken)
    requests = logs.Requests()
    broken.close()
    requests.write("info", "r1", "GET", "/x", 200, 0.5, "k")
    logs.flush()


class Stuck(io.StringIO):
    """A stream that nobody reads from, until it is released."""

    def __init__(self):
        super().__init__()
        self.release = threading.Event()

    def write(self, text):
        self.release.wait(60)
        return super().write(text)


def test_a_log_that_is_stuck_delays_no_request_and_keeps_the_newest_lines(monkeypatch):
    monkeypatch.setattr(logs, "MOST", 100)
    stream = Stuck()
    logs.configure("info", "json", stream)
    requests = logs.Requests()
    for number in range(1_000):
        requests.write("info", f"r{number}", "GET", "/x", 200, 0.5, "k")
    stream.release.set()
    logs.flush()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert lines[-1]["request"] == "r999"
    assert len(lines) <= 300


def test_lines_are_written_soon_and_in_order(place):
    requests = logs.Requests()
    requests.write("info", "r1", "GET", "/x", 200, 0.5, "k")
    for _ in range(600):
        if place.lines.getvalue():
            break
        time.sleep(0.05)
    requests.write("info", "r2", "GET", "/x", 200, 0.5, "k")
    logs.get("part").warning("then this")
    assert [line.get("request", line["event"]) for line in place.log()] == ["r1", "r2", "then this"]


def test_requests_are_counted_by_template_and_status(place, key):
    for name in ("a", "b"):
        place.call("POST", f"/v1/bandits/{name}/ask", key, json=GOOD)
    place.call("POST", ASK, key, json={})
    place.call("GET", ASK, key)
    place.call("GET", "/made/up/1")
    place.call("GET", "/made/up/2")
    text = place.metrics.text().decode()
    ask = 'tensorbandits_request_seconds_count{method="%s",route="/v1/bandits/{name}/ask",status="%d"} %.1f'
    assert ask % ("POST", 200, 2) in text
    assert ask % ("POST", 422, 1) in text
    assert ask % ("GET", 405, 1) in text
    assert 'tensorbandits_request_seconds_count{method="GET",route="other",status="404"} 2.0' in text
    assert "made/up" not in text


def test_what_is_refused_is_counted_by_template_too(place, key):
    answer = place.call("POST", ASK, json=GOOD)
    assert "Authorization: Bearer tb_..;" in answer.json()["error"]["message"], "which is no secret"
    assert "of the form tb_ID_SECRET;" in place.call("POST", ASK, "wrong", json=GOOD).json()["error"]["message"]
    series = 'tensorbandits_request_seconds_count{method="POST",route="/v1/bandits/{name}/ask",status="401"} 2.0'
    assert series in place.metrics.text().decode()
    assert place.log()[-1]["route"] == "/v1/bandits/{name}/ask"


def test_odd_methods_make_no_new_series():
    metrics = Metrics()
    for number in range(50):
        metrics.request(f"M{number}", "other", 405, 0.1)
    assert metrics.text().decode().count("tensorbandits_request_seconds_count{") == 1


def test_other_metrics_are_there():
    metrics = Metrics("1.2")
    metrics.decided("shop", 2)
    metrics.rewarded("shop")
    metrics.committed(7, 0.003)
    metrics.learned(0.2)
    metrics.followed(3)
    metrics.behind("shop", 4)
    metrics.waiting("shop", 5)
    metrics.failed(OSError())
    metrics.serving(1)
    metrics.keys_read(0.5)
    text = metrics.text().decode()
    for line in (
        'decisions_total{bandit="shop"} 2.0',
        'rewards_total{bandit="shop"} 1.0',
        "events_committed_total 7.0",
        "commit_events_count 1.0",
        "commit_seconds_sum 0.003",
        "learning_seconds_count 1.0",
        "events_followed_total 3.0",
        'lag_events{bandit="shop"} 4.0',
        'open_decisions{bandit="shop"} 5.0',
        'store_errors_total{kind="OSError"} 1.0',
        'info{version="1.2"} 1.0',
    ):
        assert f"\ntensorbandits_{line}\n" in text
    metrics.forget("shop")
    metrics.forget("never seen")
    assert 'bandit="shop"' not in metrics.text().decode()


def request(key, body=b'{"reward": 1}', more=""):
    head = (
        f"POST {ASK} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
        f"{more}"
    )
    return head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body


def statuses(seen):
    return [int(found) for found in re.findall(rb"HTTP/1\.1 (\d+)", seen)]


def test_pipelined_requests_are_answered_in_order(place, key):
    parts = [request(key), request("wrong"), request(key, b"{}"), request(key, more="X-Request-Id: last\r\n")]
    with served(place.app) as port:
        seen = talk(port, b"".join(parts), until=(b"HTTP/1.1", 4))
    assert statuses(seen) == [200, 401, 422, 200]
    assert seen.rindex(b"x-request-id: last") > seen.rindex(b"HTTP/1.1")


def test_a_refused_body_is_passed_over_and_the_connection_goes_on(place, key):
    with served(place.app) as port:
        seen = talk(port, request("wrong", b"x" * 10_000), request(key), until=(b"HTTP/1.1", 2))
    assert statuses(seen) == [401, 200]


def test_chunked_bodies_over_a_connection():
    with placed(body_limit=2_000, import_limit=2_000) as place:
        key = place.key()
        head = request(key).split(b"Content-Length")[0] + b"Transfer-Encoding: chunked\r\n\r\n"
        chunk = b"3e8\r\n" + b" " * 1_000 + b"\r\n"
        with served(place.app) as port:
            fine = talk(port, head, chunk, b'd\r\n{"reward": 1}\r\n0\r\n\r\n', until=(b"}", 1))
            large = talk(port, head, chunk * 3)
        assert statuses(fine) == [200]
        assert statuses(large) == [413]
        assert b"connection: close" in large.lower()
        assert json.loads(large.split(b"\r\n\r\n", 1)[1])["error"]["code"] == "too_large"


def test_callers_who_leave_are_no_errors(place, key):
    half = request(key, b"x" * 1_000)[:-500]
    with served(place.app) as port:
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(half)
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(request(key) * 3)
        base = f"http://127.0.0.1:{port}"
        with httpx.Client(base_url=base, headers={"Authorization": f"Bearer {key}"}, trust_env=False) as client:
            assert client.post(ASK, json=GOOD).status_code == 200
            assert client.get("/healthz").status_code == 200
    assert all(line["status"] < 500 for line in place.log() if line["event"] == "request")
    assert not [line for line in place.log() if line["event"] == "internal error"]


def test_an_answer_of_5xx_has_its_reason_in_one_line_and_many_alike_are_counted(place, key, monkeypatch):
    monkeypatch.setattr(complaints, "SECONDS", 0.2)
    answers = place.calls([("POST", "/v1/bandits/readonly/explain", key, {})] * 60)
    assert {answer.status_code for answer in answers} == {503}
    place.calls([("POST", "/v1/bandits/readonly/explain", key, {})])
    time.sleep(0.5)  # its loop has ended, so that the next one sums up
    place.call("POST", "/v1/bandits/readonly/explain", key)
    lines = place.log()
    alike = [line for line in lines if line["event"] == "request" and line["status"] == 503]
    assert len(alike) <= 4 * complaints.FIRST
    assert {(line["code"], line["bandit"], line["level"]) for line in alike} == {("unavailable", "readonly", "error")}
    assert all("the store is read-only" in line["reason"] for line in alike)
    assert {line["request"] for line in alike} <= {answer.headers["x-request-id"] for answer in answers} | {
        line["request"] for line in alike[-2:]
    }
    summed = [line["count"] for line in lines if line["event"] == "more requests failed alike"]
    assert sum(summed) + len(alike) == 62

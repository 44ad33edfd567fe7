"""Snapshots are followed in whichever process, until the decider is closed, and over HTTP."""

import contextlib
import http.server
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tensorbandits as tb
from tensorbandits.decider.decider import DeciderClosedError
from tensorbandits.decider.following import Follower, NoSnapshotError
from tensorbandits.decider.sources import FoundSnapshot, HttpSource, SnapshotSource
from tensorbandits.decider.tokens import TokenKeys
from tests.decider.published import KEYS, Kept, decider, told
from tests.decider.test_decider import until


class Slow(SnapshotSource):
    """A source that answers when it is let."""

    waits, shown = True, "a slow source"

    def __init__(self) -> None:
        self.asked, self.go = threading.Event(), threading.Event()
        self.snapshot = told(rounds=0).snapshot()

    def newer(self, mark: str | None) -> FoundSnapshot | None:
        self.asked.set()
        assert self.go.wait(60)
        return FoundSnapshot(self.snapshot, "one")


def test_a_snapshot_that_comes_after_the_end_is_not_decided_from() -> None:
    source = Slow()
    follower = Follower(source, TokenKeys(KEYS), 0.01)
    follower.start()
    assert source.asked.wait(60)
    follower.close()
    source.go.set()
    assert follower._thread is not None
    follower._thread.join(60)
    assert not follower._thread.is_alive()
    assert follower.ready is None


def test_a_closed_decider_stays_closed_whatever_is_published(tmp_path: Path) -> None:
    bandit = told(rounds=0)
    bandit.publish(tmp_path)
    deciding = decider(tmp_path)
    assert deciding.close()
    bandit.publish(tmp_path)
    deciding.refresh()
    with pytest.raises(DeciderClosedError):
        deciding.ask(segment="s1")


def child(work: Any) -> int:
    """Fork, run something in the child, and return how it ended."""
    number = os.fork()
    if number == 0:  # pragma: no cover - in the child
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_that_only_takes_rewards_sends_them(tmp_path: Path) -> None:
    sink = Kept(seconds=0.02)
    with decider(told(rounds=0).snapshot(), sink=sink) as deciding:
        made = deciding.ask(segment="s1").id

        def work() -> None:
            deciding.tell(made, 1)
            until(lambda: sink.ids("rewards") == [made])

        assert child(work) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_of_a_decider_without_a_snapshot_finds_the_first_one(tmp_path: Path) -> None:
    bandit = told(rounds=0)
    with decider(tmp_path, wait=0) as deciding:

        def work() -> None:
            with pytest.raises(NoSnapshotError):
                deciding.ask(segment="s1")
            bandit.publish(tmp_path)
            until(lambda: deciding.snapshot is not None)
            assert deciding.best(segment="s1")

        assert child(work) == 0


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers every request with what the server was given."""

    def do_GET(self) -> None:
        self.server.seen.append((self.path, dict(self.headers)))  # type: ignore[attr-defined]
        status, headers, content = self.server.answer  # type: ignore[attr-defined]
        if status == 0:
            self.wfile.write(b"no HTTP at all\r\n\r\n")
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def answering(status: int, headers: dict[str, str] | None = None, content: bytes = b"") -> Iterator[Any]:
    """Serve one answer, whatever is asked; ``address`` is that of a bandit."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.answer, server.seen = (status, headers or {}, content), []  # type: ignore[attr-defined]
    server.address = f"http://127.0.0.1:{server.server_port}/v1/bandits/offers"  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_redirect_is_not_followed_as_it_would_give_the_key_away() -> None:
    with answering(200) as other, answering(307, {"Location": other.address}) as moved:
        with pytest.raises(ConnectionError, match=r"answers 307: it has moved to http://127.*; give that address"):
            HttpSource(moved.address, "tb_secret").newer(None)
        assert not other.seen
        [(_, headers)] = moved.seen
        assert headers["Authorization"] == "Bearer tb_secret"


@pytest.mark.parametrize(
    ("status", "content", "says"),
    [
        (0, b"", "is not reached"),
        (500, b'{"detail": "the store is away"}', "answers 500: the store is away"),
        (404, b"nothing", "answers 404: nothing"),
        (200, b"no snapshot", "is damaged or cut short"),
    ],
)
def test_what_a_service_answers_that_is_no_snapshot_is_said(status: int, content: bytes, says: str) -> None:
    with answering(status, {}, content) as server, decider(server.address, wait=0) as deciding:
        until(lambda: deciding.status()["problem"])
        assert says in deciding.status()["problem"]
        assert "127.0.0.1" in deciding.status()["problem"]


def test_a_snapshot_over_http_that_is_cut_short_is_asked_for_again() -> None:
    content = told(rounds=0).snapshot(name="offers").to_bytes()
    whole = {"ETag": '"1-aa"', "Content-Length": str(len(content))}
    with answering(200, whole, content[: len(content) // 2]) as server, decider(server.address, wait=0) as deciding:
        until(lambda: deciding.status()["problem"])
        server.answer = (200, whole, content)
        until(lambda: deciding.status()["version"] == 1)
        assert isinstance(deciding.ask(segment="s1"), tb.Decision)


def test_what_a_service_that_is_away_did_not_take_is_sent_when_it_is_there() -> None:
    with answering(503, {}, b'{"detail": "the store is away"}') as server:
        sink = tb.HttpSink(server.address, rows=10, seconds=0.01)
        with decider(told(rounds=0).snapshot(), sink=sink) as deciding:
            made = [deciding.ask(segment="s1").id for _ in range(15)]
            until(lambda: deciding.status()["sink_problem"])
            assert "answers 503: the store is away" in deciding.status()["sink_problem"]
            assert deciding.status()["waiting"] == 15
            server.answer = (200, {}, b'{"refused": [{"at": 0}]}')
            assert deciding.flush()
            assert deciding.status()["sent"]["decisions"] + deciding.status()["refused"] == len(made)
            assert deciding.status()["refused"] == sum("decisions" in path for path, _ in server.seen[-2:])

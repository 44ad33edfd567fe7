"""Connections of a server in a process of its own: half-closed ones, silent ones, slow ones, and too many."""

import contextlib
import select
import socket
import time

import pytest

from tests.service.processes import PATIENCE, server

IDLE = 1.0
GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
MODES = '{"name": "shop", "modes": {"offer": ["a", "b"], "channel": ["mail", "sms"]}}'


@pytest.fixture(scope="module", params=["httptools", pytest.param("h11", marks=pytest.mark.slow)])
def port(request, tmp_path_factory):
    if request.param == "httptools":
        pytest.importorskip("httptools")
    with server(tmp_path_factory.mktemp("connections"), request.param, idle_seconds=IDLE) as port:
        yield port


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)


def rest(connection):
    """All that comes until the server closes the connection; fails when it never does."""
    seen = b""
    with contextlib.suppress(ConnectionResetError):
        while more := connection.recv(65_536):
            seen += more
    return seen


def post(path, body, length=None):
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body) if length is None else length}\r\n\r\n{body}".encode()


def test_a_caller_that_has_said_all_is_answered(port):
    asked = post("/v1/bandits/shop/ask", "{}")
    for sent, answers in ((GET, 1), (GET * 3, 3), (post("/v1/bandits", MODES), 1), (asked, 1), (GET + asked + GET, 3)):
        with connect(port) as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            seen = rest(connection)  # and the server closes then
        assert seen.count(b"HTTP/1.1 20") == answers, (sent, seen)


@pytest.mark.parametrize(
    "sent", [b"", GET[:-2], post("/v1/bandits", MODES, length=1_000)], ids=["none", "head", "body"]
)
def test_a_caller_that_has_said_half_and_no_more_is_not(port, sent):
    with connect(port) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        assert b"HTTP/1.1 20" not in rest(connection)


@pytest.mark.parametrize(
    ("sent", "answers"),
    [(b"", 0), (GET[:10], 0), (GET[:-2], 0), (GET, 1), (GET + GET[:10], 1), (post("/v1/bandits", "{", length=10), 0)],
    ids=["nothing", "a line", "a head", "a whole request", "one and a half", "half a body"],
)
def test_a_silent_caller_is_left(port, sent, answers):
    with connect(port) as connection:
        began = time.monotonic()
        connection.sendall(sent)
        assert rest(connection).count(b"HTTP/1.1 200") == answers
        assert time.monotonic() - began > IDLE / 2, "it was left too soon"


def left(connection, more):
    """Send something again and again, and return whether the server closes the connection."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            connection.sendall(more)
        except OSError:
            return True
        time.sleep(IDLE / 10)
    return False


def test_a_head_that_trickles_is_bounded_as_a_whole(port):
    with connect(port) as connection:
        connection.sendall(GET[:-2])
        assert left(connection, b"X-More: 1\r\n")


def answered(connection, mark=b'"ok"}'):
    """What comes up to a mark, or until the server closes."""
    seen = b""
    while mark not in seen and (more := connection.recv(65_536)):
        seen += more
    return seen


def paced(port, parts):
    """Send parts with pauses far below what is allowed, and return the connection; again if the machine stalled."""
    for _ in range(20):
        connection, last, longest = connect(port), time.monotonic(), 0.0
        for part in parts:
            with contextlib.suppress(OSError):
                connection.sendall(part)
            time.sleep(IDLE / 8)
            longest, last = max(longest, time.monotonic() - last), time.monotonic()
        if longest < IDLE / 2:
            return connection
        connection.close()
    pytest.skip("the machine is too busy for pauses of a fraction of a second")


def test_a_body_may_take_long_as_long_as_some_of_it_comes(port):
    body = '{"name": "other"}   '
    sent = post("/v1/bandits", body)
    with paced(port, [sent[: -len(body)], *(sign.encode() for sign in body)]) as connection:  # 2.5 times as long
        assert b"HTTP/1.1 422" in answered(connection, b"}}")


def test_requests_go_on_over_a_connection_that_is_used(port):
    with paced(port, [GET] * 20) as connection:
        connection.shutdown(socket.SHUT_WR)
        assert rest(connection).count(b"HTTP/1.1 200") == 20


def test_a_caller_that_does_not_take_its_answers_is_left(port):
    file = b"GET /static/plotly.min.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(PATIENCE)
        connection.connect(("127.0.0.1", port))
        connection.sendall(file * 20)
        assert left(connection, b"\r\n")  # heard, but not what is waited for


def test_of_too_many_connections_the_idle_ones_are_closed(tmp_path):
    with server(tmp_path, connections=20, idle_seconds=1_000) as port, contextlib.ExitStack() as all_of_them:
        idle = [all_of_them.enter_context(connect(port)) for _ in range(60)]
        with connect(port) as connection:
            connection.sendall(GET)
            assert b"HTTP/1.1 200" in answered(connection)
        end, closed = time.monotonic() + PATIENCE, []
        while len(closed) < 40 and time.monotonic() < end:
            closed, _, _ = select.select(idle, [], [], 0.1)  # nothing was asked over them: they can but end
        assert 40 <= len(closed) <= 50
        assert all(one.recv(1) == b"" for one in closed)

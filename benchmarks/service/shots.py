"""A load generator: a process with a few connections that are kept, each of which sends the next request at once.

It reads one JSON line per slice, and writes one with what it saw. Sockets and bytes are handled by hand, so that it
takes a small part of what a server takes for the same request; ``busy`` says which part of the time it ran.
"""

from __future__ import annotations

import json
import selectors
import socket
import sys
import time
import uuid
from collections import deque
from typing import Any

import numpy as np

from benchmarks.service.served import MODES, NAME

TELL_EVERY, TELL_MOST = 0.1, 50  # seconds between batches of rewards, and how many: in slices of all kinds the same
KEPT = 200_000  # decisions that wait for their reward at most


def request(method: str, path: str, body: Any = None, key: str | None = None) -> bytes:
    """Return a request as bytes."""
    content = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(content)}"]
    lines += ["Content-Type: application/json"] if content else []
    lines += [f"Idempotency-Key: {key}"] if key else []
    return "\r\n".join([*lines, "", ""]).encode() + content


class Line:
    """One connection, and when its last request was sent."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sent, self.busy, self._parts = 0.0, False, b""

    def send(self, content: bytes) -> None:
        self.busy = True
        self.sent = time.perf_counter()
        self.socket.sendall(content)

    def read(self) -> bytes | None:
        """Return the answer once all of it is there."""
        some = self.socket.recv(1 << 20)
        if not some:
            raise ConnectionError("the server has closed a connection")
        self._parts += some
        head = self._parts.find(b"\r\n\r\n")
        if head < 0:
            return None
        at = self._parts.lower().find(b"content-length:", 0, head)
        length = int(self._parts[at + 15 : self._parts.find(b"\r\n", at)])
        if len(self._parts) < head + 4 + length:
            return None
        answer, self._parts, self.busy = self._parts, b"", False
        if not answer.startswith(b"HTTP/1.1 2"):
            raise RuntimeError(answer.decode(errors="replace"))
        return answer


class Generator:
    """Clients of servers, and one more that tells rewards of what they were decided, in batches."""

    def __init__(self, ports: list[int], clients: int, names: list[str]) -> None:
        self._lines = {port: [Line(port) for _ in range(clients)] for port in ports}
        self._teller = Line(ports[0])
        self._names, self._ports = names, ports
        self._waiting: dict[str, deque[str]] = {name: deque(maxlen=KEPT) for name in names}
        self._due, self._turn = 0.0, 0
        self._rng = np.random.default_rng(0)
        self._count = 0
        self._stem = uuid.uuid4().hex[:12]

    def _request(self, what: str, name: str) -> bytes:
        if what == "noop":
            return request("GET", "/healthz")
        self._count += 1
        segment = MODES["segment"][self._count % len(MODES["segment"])]
        key = f"{self._stem}-{self._count}" if what == "keyed" else None
        return request("POST", f"/v1/bandits/{name}/ask", {"context": {"segment": segment}}, key)

    def slice(self, what: str, seconds: float, ports: list[int], clients: int, **rest: Any) -> dict[str, Any]:
        """Send as fast as answers come; return the times of all answers."""
        each = clients // len(ports)
        lines = [line for port in ports for line in self._lines[port][:each]]
        names = {id(line): self._names[self._ports.index(port) % len(self._names)]
                 for port in ports for line in self._lines[port]}  # fmt: skip
        choose = selectors.DefaultSelector()
        for line in [*lines, self._teller]:
            choose.register(line.socket, selectors.EVENT_READ, line)
        times: list[float] = []
        began, ran = time.perf_counter(), time.process_time()
        end = began + seconds
        for line in lines:
            line.send(self._request(what, names[id(line)]))
        while any(line.busy for line in lines):
            for chosen, _ in choose.select(TELL_EVERY):
                line = chosen.data
                answer = line.read()
                now = time.perf_counter()
                if answer is None or line is self._teller:
                    continue
                times.append(now - line.sent)
                if what != "noop":
                    self._note(answer, names[id(line)])
                if now < end:
                    line.send(self._request(what, names[id(line)]))
            self._tell()
        spent = time.perf_counter() - began
        choose.close()
        busy = (time.process_time() - ran) / spent
        return {"what": what, "count": len(times), "seconds": spent, "times": times, "busy": busy}

    def _note(self, answer: bytes, name: str) -> None:
        """Remember a decision, to reward it."""
        at = answer.find(b'"id":"') + 6
        self._waiting[name].append(answer[at : answer.find(b'"', at)].decode())

    def _tell(self) -> None:
        now = time.perf_counter()
        if now < self._due or self._teller.busy:
            return
        self._due, self._turn = now + TELL_EVERY, self._turn + 1
        name = self._names[self._turn % len(self._names)]
        waiting = self._waiting[name]
        rewards = [
            {"id": waiting.popleft(), "reward": int(self._rng.integers(2))} for _ in range(min(TELL_MOST, len(waiting)))
        ]
        if rewards:
            self._teller.send(request("POST", f"/v1/bandits/{name}/tell-many", {"rewards": rewards}))


def main() -> None:
    given = json.loads(sys.stdin.readline())
    generator = Generator(given["ports"], given["clients"], given.get("names", [NAME]))
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(generator.slice(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()

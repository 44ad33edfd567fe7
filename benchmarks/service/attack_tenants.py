"""The tenants of an attack: bandits with settings of many kinds, their keys, and how requests are sent for them."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.service.attack_records import BOUND, SOON, Diary, Exchange, Json, Life, mark

KINDS: dict[str, Json] = {  # what differs between the tenants
    "aloof": {"reward": "bernoulli"},  # its clients use the first server only, which is never stopped
    "polite": {"reward": "gaussian", "holdout": 0.1, "floors": 0.05},  # all that its clients send must succeed
    "forgetful": {"reward": "gaussian", "remember": 1, "capacity": 50},
    "crowded": {"reward": "bernoulli", "remember": 5, "capacity": 3},
    "hasty": {"reward": "bernoulli", "remember": 50, "window": "1 s", "default": 0},
    "patient": {"reward": "bernoulli", "window": "1 h", "default": 0},  # nothing times out during an attack
    "adding": {"reward": "gaussian", "remember": 50, "capacity": 200, "adds": True},
    "apprentice": {"reward": "bernoulli", "remember": 50, "apprentice": True},
    "fading": {"reward": "bernoulli", "half_life": 200},
    "reckless": {"reward": "gaussian", "remember": 20},  # its rewards are as large as numbers are
}
STRICT = ("aloof", "polite")
_KEPT = 2.0  # seconds that a connection is kept without use; servers close them after some
ALOOF_SOON = 4.0  # seconds within which a bandit is answered that no troubled server has anything to do with


class Gate:
    """Lets clients of a tenant work, and one manager wait until nobody does."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside, self._open = 0, True

    @contextlib.contextmanager
    def passing(self) -> Iterator[None]:
        """Be inside; wait while the gate is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._open, timeout=120)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def closed(self, seconds: float) -> Iterator[bool]:
        """Keep everybody out; yield whether all have left in time."""
        with self._changed:
            self._open = False
            left = self._changed.wait_for(lambda: self._inside == 0, timeout=seconds)
        try:
            yield left
        finally:
            with self._changed:
                self._open = True
                self._changed.notify_all()


@dataclass
class Tenant:
    """A bandit, with keys of its own."""

    number: int
    kind: str
    decide: str = ""
    manage: str = ""
    gate: Gate = field(default_factory=Gate)
    life: Life = field(default_factory=lambda: Life(0))
    decisions: list[str] = field(default_factory=list)  # ids of the last ones, which any client may tell rewards of
    apprentice: bool = False  # as far as clients know

    @property
    def name(self) -> str:
        return f"{self.kind}-bandit"

    @property
    def modes(self) -> dict[str, list[str]]:
        own = mark(self.number)
        sizes = {"segment": 2, "offer": 4, "channel": 3}
        return {mode: [f"{mode} {at} {own}" for at in range(size)] for mode, size in sizes.items()}

    @property
    def settings(self) -> Json:
        """What the bandit is made with."""
        return {"name": self.name, "modes": self.modes, "context": ["segment"], "rank": 1, **KINDS[self.kind]}

    @property
    def soon(self) -> float:
        return ALOOF_SOON if self.kind == "aloof" else SOON

    def path(self, what: str = "") -> str:
        return f"/v1/bandits/{self.name}" + (f"/{what}" if what else "")


def tenants(kinds: Sequence[str]) -> list[Tenant]:
    """Return a tenant of each kind."""
    found = [Tenant(at, kind) for at, kind in enumerate(kinds)]
    for one in found:
        one.apprentice = bool(KINDS[one.kind].get("apprentice"))
    return found


class Sender:
    """Sends requests of one thread, and writes down all of them with their answers."""

    def __init__(self, diary: Diary, tenant: Tenant, ports: Sequence[int], seed: str) -> None:
        self.diary, self.tenant, self.rng = diary, tenant, random.Random(seed)
        self._ports = list(ports[:1]) if tenant.kind == "aloof" else list(ports)
        self._connections: dict[tuple[int, float], tuple[float, http.client.HTTPConnection]] = {}

    def beside(self) -> Sender:
        """Return a sender for another thread."""
        found = Sender(self.diary, self.tenant, self._ports, self.fresh())
        found.rng = random.Random(self.rng.random())
        return found

    @property
    def servers(self) -> int:
        """How many servers it sends to."""
        return len(self._ports)

    def port(self, replica: int) -> int:
        """Return the port of a server."""
        return self._ports[replica]

    def fresh(self, what: str = "") -> str:
        """Return a key or an id that was not used before."""
        return f"{what}{self.diary.number()}-{mark(self.tenant.number)}"

    def replica(self) -> int:
        """Return a server to ask: mostly one that nothing is being done to."""
        some = range(len(self._ports))
        well = [at for at in some if not self.diary.trouble.now(at)]
        return self.rng.choice(well if well and self.rng.random() < 0.9 else list(some))

    def send(
        self, what: str, method: str, path: str, body: Any = None, *, key: str | None = None, group: str | None = None,
        expects: Sequence[int] = range(200, 500), first: float | None = None, replica: int | None = None,
        secret: str | None = None, borrowed: bool = False, keep: bool = True,
    ) -> Exchange:  # fmt: skip
        """Send a request once; ``keep`` it for the checks of the log, if it may have changed something."""
        at = self.replica() if replica is None else replica
        now = time.monotonic()
        one = Exchange(
            self.tenant.number, what, at, method, path, body, key, group or key or f"once-{self.diary.number()}",
            now if first is None else first, now, frozenset(expects), borrowed,
        )  # fmt: skip
        timeout = (
            3.0 if {"stopped", "killed"} & set(self.diary.trouble.now(at)) else BOUND * min(self.diary.patience, 2) + 2
        )
        with self.diary.flight(at):
            try:
                one.status, one.answer = self._exchange(at, timeout, one, secret or self.tenant.decide)
            except (OSError, http.client.HTTPException) as error:
                one.answer = repr(error)
        one.ended = time.monotonic()
        self.diary.judge(one, self.tenant.name, self.tenant.soon)
        if isinstance(body, (bytes, str)):
            one.body = str(body[:200])
        if keep and method != "GET":
            self.tenant.life.exchanges.append(one)
        return one

    def patiently(self, what: str, method: str, path: str, body: Any = None, tries: int = 8, **more: Any) -> Exchange:
        """Send a request with a key until it is answered, at changing servers, at most so many times."""
        more.setdefault("key", self.fresh("key-"))
        one = self.send(what, method, path, body, **more)
        for _ in range(tries - 1):
            if not one.lost:
                break
            time.sleep(0.1 + 0.4 * self.rng.random())
            one = self.send(what, method, path, body, **{**more, "first": one.first, "replica": None})
        return one

    def _exchange(self, at: int, timeout: float, one: Exchange, secret: str) -> tuple[int, Any]:
        connection = self._connection(at, timeout)
        headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
        if one.key:
            headers["Idempotency-Key"] = one.key
        content = one.body if one.body is None or isinstance(one.body, bytes) else json.dumps(one.body).encode()
        try:
            connection.request(one.method, one.path, content, headers)
            response = connection.getresponse()
            found = response.read()
        except BaseException:
            connection.close()
            raise
        self._connections[at, timeout] = time.monotonic(), connection
        if response.headers.get_content_type() != "application/json":
            return response.status, None
        return response.status, json.loads(found) if found else None

    def _connection(self, at: int, timeout: float) -> http.client.HTTPConnection:
        """Return a connection to a server: the last one, unless the server may have closed it since."""
        used, connection = self._connections.pop((at, timeout), (0.0, None))
        now = time.monotonic()
        if connection is not None and now - used < _KEPT and not self.diary.trouble.during(at, used, now):
            return connection
        if connection is not None:
            connection.close()
        return http.client.HTTPConnection("127.0.0.1", self._ports[at], timeout=timeout)

    def close(self) -> None:
        """Close all connections."""
        for _, connection in self._connections.values():
            connection.close()
        self._connections.clear()

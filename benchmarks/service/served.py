"""The service as it runs for others: processes of their own that are started and killed, their stores, and callers."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from benchmarks.run import ONE_THREAD, ROOT

SHARED = (
    "Servers, database and clients share the machine's two cores, now and then with another computation, so times are "
    "longer than on machines of their own, and the ratios of one run say more than the times."
)
NAME = "campaign"
MODES = {
    "segment": [f"segment {at}" for at in range(4)],
    "offer": [f"offer {at}" for at in range(10)],
    "channel": [f"channel {at}" for at in range(5)],
}
BANDIT = {"name": NAME, "modes": MODES, "context": ["segment"], "reward": "bernoulli"}
_PATIENCE = 120.0  # seconds that anything may take on a busy machine
_PAUSE, _LONGEST_PAUSE = 0.02, 0.25  # seconds between two tries, at first and later
Json = dict[str, Any]


class RefusedError(RuntimeError):
    """The service answered that it will not do it."""

    def __init__(self, status: int, answer: Any) -> None:
        super().__init__(f"{status}: {answer}")
        self.status, self.code = status, answer["error"]["code"]


class LostError(RuntimeError):
    """No answer came, so whether it was done is not known."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Service:
    """A server in a process of its own, with a session and a group of its own, as the command starts it."""

    command: Sequence[str] = ("serve",)

    def __init__(self, store: str, folder: Path, **settings: Any) -> None:
        self.port = free_port()
        self.log = folder / f"server-{self.port}.log"
        given = {"store": store, "port": self.port, "rate": 0, **settings}
        ours = {f"TENSORBANDITS_{name.upper()}": str(value) for name, value in given.items()}
        self._environment = {**os.environ, **ONE_THREAD, **ours}
        self._environment.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed is compiled once
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start it; it is not ready yet."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tensorbandits", *self.command],
                cwd=ROOT, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        return self

    def wait(self, path: str = "/readyz") -> Self:
        """Return when it answers that it is ready."""
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            self.check()
            with contextlib.suppress(LostError), Caller([self.port]) as caller:
                caller.once("GET", path)
                return self
            time.sleep(_PAUSE)
        raise RuntimeError(f"the server was not ready within {_PATIENCE:g} seconds:\n{self.words()}")

    def check(self) -> None:
        """Raise if it has ended by itself."""
        assert self.process is not None
        if self.process.poll() is not None:
            raise RuntimeError(f"the server ended ({self.process.returncode}):\n{self.words()}")

    def words(self) -> str:
        """The end of what it has written."""
        return self.log.read_text(errors="replace")[-3000:] if self.log.exists() else ""

    def errors(self) -> str:
        """What it has written of errors, or else its last words."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join([line for line in lines if '"level":"error"' in line.replace(" ", "")][-3:]) or self.words()

    def kill(self) -> None:
        """End it and all its processes at once: no clean-up, no last words."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it in order."""
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)
        try:
            self.process.wait(_PATIENCE)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process = None

    def memory(self) -> float:
        """Return how much memory it holds now, in units of a million bytes."""
        assert self.process is not None
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024 / 1e6
        return 0.0

    def spent(self) -> tuple[float, float]:
        """Return the seconds for which its threads have run, and the seconds for which its first one waited to run."""
        assert self.process is not None
        tasks = Path(f"/proc/{self.process.pid}/task")
        ran, waited = 0.0, 0.0
        for task in tasks.iterdir():
            with contextlib.suppress(OSError):
                on, off, _ = map(int, (task / "schedstat").read_text().split())
                ran += on / 1e9
                waited = off / 1e9 if task.name == str(self.process.pid) else waited
        return ran, waited


class Caller:
    """Sends requests on one connection that is kept; several ports are servers of one store, tried in turn."""

    def __init__(self, ports: Sequence[int], seed: int = 0, timeout: float = 30.0) -> None:
        self._ports, self._timeout = list(ports), timeout
        self.rng = random.Random(seed)
        self._at = seed % len(self._ports)
        self._connection: http.client.HTTPConnection | None = None
        self.tries = 0  # that were in vain

    def once(self, method: str, path: str, body: Any = None, key: str | None = None) -> Any:
        """Send a request; raise :class:`LostError` if no answer came, or one that says to ask again."""
        if self._connection is None:
            port = self._ports[self._at % len(self._ports)]
            self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=self._timeout)
        headers = {"Content-Type": "application/json"} | ({"Idempotency-Key": key} if key else {})
        try:
            self._connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = self._connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise LostError(repr(error)) from None
        answer = json.loads(content) if content else None
        if response.status == 503:
            self.close()
            raise LostError(str(answer))
        if response.status >= 400:
            raise RefusedError(response.status, answer)
        return answer

    def patiently(self, method: str, path: str, body: Any = None, key: str | None = None) -> Any:
        """Send a request again and again, with the same key, until it is answered."""
        end, pause = time.monotonic() + _PATIENCE, _PAUSE
        while True:
            try:
                return self.once(method, path, body, key)
            except LostError as error:
                self.tries += 1
                if time.monotonic() > end:
                    raise RuntimeError(f"nobody answered {path} for {_PATIENCE:g} seconds; last: {error}") from None
                time.sleep(pause * (0.5 + self.rng.random()))
                pause = min(2 * pause, _LONGEST_PAUSE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the next request goes to the next port."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            self._at += 1


def path(what: str = "", name: str = NAME) -> str:
    """Return the path of a route of a bandit."""
    return f"/v1/bandits/{name}" + (f"/{what}" if what else "")


class Place:
    """Where a store is: an SQLite file, or a PostgreSQL that is started for it."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.folder = kind, folder
        self.postgres: Any = None
        self.url = f"sqlite:///{folder / 'store.db'}"
        if kind == "postgresql":
            from tests.servers import Postgres

            self.postgres = Postgres(durable=True)
            self.postgres.start()
            self.url = self.postgres.create("service")

    def size(self) -> float:
        """Return how much of a disk it takes, in units of a million bytes."""
        if self.postgres is not None:
            return float(self.postgres.execute("SELECT pg_database_size('service')")[0][0]) / 1e6
        return sum(file.stat().st_size for file in self.folder.glob("store.db*")) / 1e6


@contextlib.contextmanager
def placed(kind: str) -> Iterator[Place]:
    """Yield a new store of a kind, ``sqlite`` or ``postgresql``; it is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="tb-served-") as folder:
        place = Place(kind, Path(folder))
        try:
            yield place
        finally:
            if place.postgres is not None:
                place.postgres.close()


@contextlib.contextmanager
def serving(place: Place, count: int = 1, **settings: Any) -> Iterator[list[Service]]:
    """Yield servers of a place that are ready; they are killed at the end."""
    services = [Service(place.url, place.folder, **settings) for _ in range(count)]
    try:
        for service in services:
            service.start()
        yield [service.wait() for service in services]
    except BaseException as error:
        for service in services:
            error.add_note(f"the server at port {service.port} wrote:\n{service.errors()}")
        raise
    finally:
        for service in services:
            service.kill()


def call(service: Service, method: str, path: str, body: Any = None, key: str | None = None) -> Any:
    """Send one request to a server, patiently."""
    with Caller([service.port]) as caller:
        return caller.patiently(method, path, body, key)


def processor() -> str:
    """Return how busy the machine is, in words."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"

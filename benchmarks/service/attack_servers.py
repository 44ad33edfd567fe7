"""The servers of an attack, their store, and a proxy before PostgreSQL that can be paused, cut and slowed."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

ROOT = Path(__file__).resolve().parents[2]
READY = 90.0  # seconds in which a server must be ready, also on a busy machine
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
_PIECE = 65_536


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a process: this one's, one thread for linear algebra, and some more."""
    return {**os.environ, **_ONE_THREAD, **more}


def command(*words: str, seconds: float = 120.0) -> subprocess.CompletedProcess[str]:
    """Run a command of tensorbandits."""
    return subprocess.run(
        [sys.executable, "-m", "tensorbandits", *words], cwd=ROOT, env=environment(), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=seconds,
    )  # fmt: skip


class Server:
    """A server in a process of its own, whose clock can be set wrong."""

    def __init__(self, store: str, folder: Path, **settings: Any) -> None:
        self.port = free_port()
        self.log = folder / f"server-{self.port}.log"
        self.clock = folder / f"clock-{self.port}"
        self.set_clock(0)
        given = {
            "store": store,
            "port": self.port,
            "rate": 0,
            "log_level": "warning",
            "snapshot_interval": 5,
        } | settings
        ours = {f"TENSORBANDITS_{name.upper()}": str(value) for name, value in given.items()}
        self._environment = environment(ATTACK_CLOCK=str(self.clock), **ours)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it is not ready yet."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.service.attack_server"], cwd=ROOT, env=self._environment,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def wait(self, seconds: float = READY) -> bool:
        """Return whether it got ready in time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.runs:
            url = f"http://127.0.0.1:{self.port}/readyz"
            with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
                if answer.status == 200:
                    return True
            time.sleep(0.05)
        return False

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def send_signal(self, number: int) -> None:
        """Send it a signal."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def end(self, number: int = signal.SIGKILL, seconds: float = 30.0) -> bool:
        """End it by a signal; say whether it ended by it in time, and kill it in any case."""
        if self._process is None:
            return True
        self.send_signal(number)
        try:
            self._process.wait(seconds)
            return True
        except subprocess.TimeoutExpired:
            return False
        finally:
            self.send_signal(signal.SIGKILL)
            self._process.wait(30)
            self._process = None

    def set_clock(self, seconds: float) -> None:
        """Set its clock so many seconds ahead."""
        self.clock.write_text(str(seconds))

    def words(self) -> str:
        """The last errors that it wrote."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join([line for line in lines if "rror" in line][-3:] or lines[-3:])[-1500:]


class Proxy:
    """Passes on what comes to a port to the socket of PostgreSQL: at once, slowly, not now, or not at all."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._flows, self.delay = threading.Event(), 0.0
        self._flows.set()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def pause(self) -> None:
        """Hold back everything, with all connections open."""
        self._flows.clear()

    def resume(self) -> None:
        """Pass on everything again, also what was held back."""
        self.delay = 0.0
        self._flows.set()

    def cut(self) -> None:
        """Close all connections."""
        for pair in list(self._pairs):
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Take no more connections, and close those there are."""
        self.resume()
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(near,), daemon=True).start()

    def _carry(self, near: socket.socket) -> None:
        self._flows.wait()
        far = socket.socket(socket.AF_UNIX)
        try:
            far.connect(self._target)
        except OSError:
            near.close()
            return
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pair = (near, far)
        self._pairs.add(pair)
        other = {near: far, far: near}
        try:
            with selectors.DefaultSelector() as selector:
                for end in pair:
                    selector.register(end, selectors.EVENT_READ)
                while True:
                    for key, _ in selector.select():
                        self._flows.wait()
                        time.sleep(self.delay) if self.delay else None
                        piece = key.fileobj.recv(_PIECE)
                        if not piece:
                            return
                        other[key.fileobj].sendall(piece)
        except OSError:
            return
        finally:
            self._pairs.discard(pair)
            for end in pair:
                end.close()


class Place:
    """A store, and as many servers of it as wanted; those on PostgreSQL have a proxy each."""

    def __init__(self, kind: str, folder: Path, replicas: int) -> None:
        self.kind, self.folder = kind, folder
        self.postgres: Any = None
        self.proxies: list[Proxy] = []
        self.url = f"sqlite:///{folder / 'store.db'}"
        urls = [self.url] * replicas
        if kind == "postgres":
            from tests.servers import PASSWORD, USER, Postgres

            self.postgres = Postgres(durable=False)
            self.postgres.start()
            self.url = self.postgres.create("service")
            self.proxies = [Proxy(str(self.postgres.directory / ".s.PGSQL.5432")) for _ in range(replicas)]
            at = [f"{USER}:{quote(PASSWORD)}@127.0.0.1:{proxy.port}" for proxy in self.proxies]
            urls = [f"postgresql://{one}/service" for one in at]
        self.servers = [Server(url, folder) for url in urls]

    @property
    def ports(self) -> list[int]:
        return [server.port for server in self.servers]

    def close(self) -> None:
        """End everything, whatever state it is in."""
        for server in self.servers:
            server.end()
        for proxy in self.proxies:
            proxy.close()
        if self.postgres is not None:
            self.postgres.close()


@contextlib.contextmanager
def placed(kind: str, folder: Path, replicas: int) -> Iterator[Place]:
    """Yield a place whose servers are ready."""
    place = Place(kind, folder, replicas)
    try:
        yield place
    finally:
        place.close()

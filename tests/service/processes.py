"""Servers in processes of their own, as the command line starts them: to be killed, paused, or given a wrong clock."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import NamedTuple

import httpx
from typer.testing import CliRunner

from tensorbandits.cli import application
from tests.service.served import MODES, Served

PATIENCE = 60.0  # seconds that anything may take on a busy machine; only what hangs takes as long
_LAUNCH = """
import sys, time
real, ahead = time.time, float(sys.argv.pop())
time.time = lambda: real() + ahead
from tensorbandits.cli import main
main()
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Said(NamedTuple):
    """What a command said, and its exit code."""

    words: str
    code: int


def command(*arguments):
    """Run the command line in this process, which takes less long than in another."""
    done = CliRunner().invoke(application(), [str(one) for one in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Said(done.output, done.exit_code)


class Server:
    """A server over a store; ``ahead`` is by how many seconds its clock is wrong, ``settings`` are as in the docs."""

    def __init__(self, store, *, ahead=0.0, **settings):
        self.port, self.store = free_port(), str(store)
        self.url = f"http://127.0.0.1:{self.port}"
        given = {"store": store, "port": self.port, "rate": 0, "log_level": "error", "key_seconds": 0.1} | settings
        ours = {f"TENSORBANDITS_{name.upper()}": str(value) for name, value in given.items()}
        threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
        program = ["-c", _LAUNCH, "serve", str(ahead)] if ahead else ["-m", "tensorbandits", "serve"]
        self._folder = Path(tempfile.mkdtemp(prefix="tb-server-"))
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *program], env={**os.environ, **threads, **ours},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        self.http = httpx.Client(base_url=self.url, timeout=PATIENCE)

    @property
    def pid(self):
        return self._process.pid

    def ready(self):
        """Return when it serves."""
        end = time.monotonic() + 2 * PATIENCE
        while True:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{self.url}/readyz", timeout=PATIENCE).status_code == 200:
                    return self
            assert self._process.poll() is None, f"the server ended:\n{self.words()}"
            assert time.monotonic() < end, f"the server was not ready:\n{self.words()}"
            time.sleep(0.05)

    def words(self):
        """Return the end of what it wrote."""
        return (self._folder / "log").read_text(errors="replace")[-3000:]

    def pause(self):
        """Stop it in the middle of whatever it does; its connections stay open."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self):
        """Let it go on."""
        os.kill(self._process.pid, signal.SIGCONT)

    def signal(self, number):
        """Tell it something."""
        os.kill(self._process.pid, number)

    def wait(self, seconds):
        """Wait until it has ended."""
        self._process.wait(seconds)

    def stop(self):
        """End it in order."""
        self._end(signal.SIGTERM)

    def kill(self):
        """End it at once."""
        self._end(signal.SIGKILL)

    def _end(self, number):
        self.http.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGCONT)
            os.kill(self._process.pid, number)
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self):
        try:
            return self.ready()
        except BaseException:
            self.kill()
            raise

    def __exit__(self, *_):
        self.stop()

    def create(self, name, modes=MODES, *, context=("segment",), **settings):
        """Make a bandit, and return it."""
        body = {"name": name, "modes": modes, "context": [mode for mode in context if mode in modes], "rank": 1}
        answer = self.http.post("/v1/bandits", json=body | settings)
        assert answer.status_code == 201, answer.text
        return Served(self, name)

    def bandit(self, name):
        """Return a bandit by its name, whether it is there or not."""
        return Served(self, name)

    def memory(self, what="VmRSS"):
        """Return how much memory it holds, or has held at most (``VmHWM``), in bytes."""
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith(f"{what}:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError(f"the system does not say {what}")


@contextlib.contextmanager
def servers(*several):
    """Servers that were started at the same time, once all of them serve; they are stopped afterwards."""
    with contextlib.ExitStack() as stack:
        for one in several:
            stack.callback(one.stop)
        for one in several:
            one.ready()
        yield several


class Proxy:
    """A TCP proxy before a socket of the file system, which can hold back all bytes while connections stay open."""

    def __init__(self, target):
        self._target = str(target)
        self._flowing = threading.Event()
        self._flowing.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._ends = []
        threading.Thread(target=self._accept, daemon=True).start()

    def pause(self):
        """Hold back all bytes, both ways."""
        self._flowing.clear()

    def resume(self):
        """Let them go."""
        self._flowing.set()

    def close(self):
        """End it, and all its connections."""
        self._flowing.set()
        self._listener.close()
        for one in self._ends:
            with contextlib.suppress(OSError):
                one.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                far.connect(self._target)
                self._ends += [near, far]
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=(source, sink), daemon=True).start()

    def _carry(self, source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                self._flowing.wait()
                sink.sendall(data)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


def all_events(bandit):
    """Return all events of a bandit, however many."""
    found = []
    while more := bandit.events(after=found[-1]["seq"] if found else 0):
        found += more
    return found


def talk(port, data, *, wait=PATIENCE, half_close=False):
    """Send bytes over a connection, and return all that comes back until the server closes it."""
    with socket.create_connection(("127.0.0.1", port), timeout=wait) as connection:
        connection.sendall(data)
        if half_close:
            connection.shutdown(socket.SHUT_WR)
        seen = b""
        with contextlib.suppress(ConnectionResetError):
            while more := connection.recv(65_536):
                seen += more
        return seen


def post(path, body):
    """Return the bytes of a request that sends JSON, after whose answer the connection is closed."""
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(content) + content


# On a parser of choice, "httptools" or "h11"; the faster one that is installed if none is named.
START = """
import sys
from uvicorn.protocols.http import auto, h11_impl
if sys.argv[1] == "h11":
    auto.AutoHTTPProtocol = h11_impl.H11Protocol
from tensorbandits.service.http.connections import Connection
assert sys.argv[1] != "h11" or issubclass(Connection, h11_impl.H11Protocol)
from tensorbandits.service.run import run
from tensorbandits.service.settings import Settings
run(Settings.read())
"""


@contextlib.contextmanager
def server(folder, parser="", **settings):
    """A server that keeps its store in a folder, by its port."""
    port = free_port()
    given = {"store": f"{folder}/store.db", "port": port, "log_level": "error", **settings}
    environment = {**os.environ, **{f"TENSORBANDITS_{name.upper()}": str(value) for name, value in given.items()}}
    process = subprocess.Popen([sys.executable, "-c", START, parser], env=environment)
    try:
        end = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):
                break
            assert process.poll() is None, "the server ended"
            assert time.monotonic() < end, "the server did not start"
            time.sleep(0.05)
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE)
        finally:
            process.kill()

"""A real PostgreSQL, and Redis, for tests and measurements: in a temporary directory, killed and restarted at will."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from glob import glob
from pathlib import Path
from urllib.parse import quote

USER, PASSWORD = "tester", "open sesame"
_PLACES = ["/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin", "/opt/homebrew/opt/postgresql*/bin"]
_SETTINGS = {"listen_addresses": "", "shared_buffers": "32MB", "max_connections": "100", "timezone": "UTC"}


def programs():
    """Return the directory of the newest PostgreSQL that is installed, or None."""
    found = [path for pattern in _PLACES for path in glob(pattern) if Path(path, "initdb").exists()]
    if shutil.which("initdb"):
        found.append(str(Path(shutil.which("initdb")).parent))
    return max(found, key=_version, default=None)


def _version(path):
    """Return the number in a path, to order by."""
    return int("".join(letter for letter in path if letter.isdigit()) or 0)


class Postgres:
    """A server of its own, reached by a socket in its directory.

    ``durable=False`` leaves out flushing to disk: what was committed survives the death of the server, but not of the
    machine, and tests are quicker.
    """

    def __init__(self, durable=False, **settings):
        self._programs = Path(programs())
        self.directory = Path(tempfile.mkdtemp(prefix="tb-pg-"))  # short: the path of a socket has at most 107 letters
        self._settings = _SETTINGS | ({} if durable else {"fsync": "off", "full_page_writes": "off"}) | settings
        self._process = None
        # The server refuses to run as root; the packages of most systems make a user for it.
        self._as = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
        if self._as:
            shutil.chown(self.directory, "postgres", "postgres")
        secret = self.directory / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self._run("initdb", "-D", self.directory / "data", "-U", USER, "--pwfile", secret, "-A", "scram-sha-256",
                  "-E", "UTF8", "--locale=C", "--no-sync")  # fmt: skip

    def start(self):
        """Start the server, and return when it answers."""
        options = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        end = time.monotonic() + 120
        while True:
            with open(self.directory / "log", "ab") as log:
                self._process = subprocess.Popen(
                    [self._programs / "postgres", "-D", self.directory / "data", "-k", self.directory, *options],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.directory, **self._as,
                )  # fmt: skip
            while self._process.poll() is None:
                if self._answers():
                    return self
                if time.monotonic() > end:
                    self.kill()
                    break
                time.sleep(0.02)
            # After a kill the old one's children may need a moment to go.
            if time.monotonic() > end:
                raise RuntimeError("PostgreSQL does not start:\n" + (self.directory / "log").read_text()[-2000:])
            time.sleep(0.05)

    def stop(self):
        """Stop the server in order; connections are ended."""
        self._end(signal.SIGINT)

    def kill(self):
        """End the server and all its processes at once, as a crash does."""
        children = _children(self._process.pid)
        self._end(signal.SIGKILL)
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)

    def close(self):
        """Kill the server, and remove all it wrote."""
        if self._process is not None:
            self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def url(self, database="postgres", user=USER, password=PASSWORD):
        """Return the address of a database."""
        return f"postgresql://{user}:{quote(password)}@/{database}?host={self.directory}"

    def create(self, database):
        """Make a database and return its address."""
        self.execute(f'CREATE DATABASE "{database}" TEMPLATE template0')
        return self.url(database)

    def drop(self, database):
        """Remove a database, whoever is connected to it."""
        self.execute(f'DROP DATABASE IF EXISTS "{database}" WITH (FORCE)')

    def execute(self, sql, database="postgres"):
        """Run a statement and return its rows."""
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def _answers(self):
        """Say whether the server takes connections."""
        import psycopg

        try:
            psycopg.connect(self.url(), connect_timeout=10).close()
        except psycopg.OperationalError:
            return False
        return True

    def _end(self, number):
        """Send the server a signal and wait for its end."""
        self._process.send_signal(number)
        self._process.wait()

    def _run(self, program, *arguments):
        """Run a program of PostgreSQL."""
        done = subprocess.run(
            [self._programs / program, *arguments], cwd=self.directory, capture_output=True, text=True, **self._as
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr}")


class Redis:
    """A Redis of its own. ``durable`` flushes each write to disk before it is acknowledged; else nothing is kept."""

    def __init__(self, durable=False):
        self.directory = Path(tempfile.mkdtemp(prefix="tb-redis-"))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        keeps = ["--appendonly", "yes", "--appendfsync", "always"] if durable else ["--appendonly", "no"]
        self._options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(self.directory)]
        self._options += keeps
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._process = None

    def start(self):
        """Start the server, and return when it has read what it kept."""
        with open(self.directory / "log", "ab") as log:
            program = shutil.which("redis-server")
            self._process = subprocess.Popen(
                [program, *self._options], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        end = time.monotonic() + 120
        while not self._answers():
            if time.monotonic() > end or self._process.poll() is not None:
                raise RuntimeError("Redis does not start:\n" + (self.directory / "log").read_text()[-2000:])
            time.sleep(0.02)
        return self

    @property
    def pid(self):
        """The process."""
        return self._process.pid

    def kill(self):
        """End the server at once, as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self):
        """Kill the server, and remove all it wrote."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _answers(self):
        """Say whether the server takes commands; it does not while it reads what it kept."""
        import redis

        try:
            with redis.Redis.from_url(self.url, socket_timeout=10) as client:
                return client.ping()
        except redis.RedisError:
            return False


def _children(pid):
    """Return the processes that a process started, where the system says."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []

"""A server that hangs, stopped or cut from PostgreSQL with its connections open, delays the others by seconds at most.

What it was about to write when it hung is either written before the others go on, or never acknowledged.
"""

import contextlib
import random
import threading
import time
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import httpx
import pytest

from tests.servers import PASSWORD, USER
from tests.service.processes import PATIENCE, Proxy, Server, all_events, servers
from tests.service.served import until

TRIES = 40  # moments that are tried until a server hangs in the middle of a transaction, if it can
LEASE, MARGIN = 5.0, 5.0  # seconds that a server that hangs may cost others, and what a busy machine adds
UNDELAYED = 3.0  # seconds: less than waiting for one that hangs, much more than a decision takes
BODY = {"context": {"segment": "new"}}


class Replicas:
    """Three servers over one database; the way of one to the database can be cut."""

    def __init__(self, postgres):
        self._postgres, self._database = postgres, f"hung_{uuid.uuid4().hex}"
        name = self._database
        url = postgres.create(name)
        self.proxy = Proxy(postgres.directory / ".s.PGSQL.5432")
        away = f"postgresql://{USER}:{quote(PASSWORD)}@127.0.0.1:{self.proxy.port}/{name}"
        self.good = Server(url).ready()  # which makes the tables
        self.stopped, self.cut = Server(url), Server(away)

    def transactions(self):
        """Return which connections are in the middle of a transaction now, and since when."""
        query = "SELECT pid, xact_start FROM pg_stat_activity WHERE datname = '{}' AND xact_start IS NOT NULL"
        return set(self._postgres.execute(query.format(self._database)))

    def hang(self, pause, resume, rng):
        """Pause a server at a random moment; in the middle of a transaction, unless none is found after many tries."""
        for left in reversed(range(TRIES)):
            time.sleep(rng.uniform(0.0, 0.03))
            pause()
            if not left or self._still(self.transactions()):
                return
            resume()

    def _still(self, before):
        """Whether a transaction is as it was a moment ago."""
        time.sleep(0.03)
        return bool(before & self.transactions())


@pytest.fixture(scope="module")
def replicas(postgres):
    replicas = Replicas(postgres)
    try:
        with servers(replicas.stopped, replicas.cut, replicas.good):
            yield replicas
    finally:
        replicas.proxy.close()


class Load:
    """Threads that ask a server and tell it rewards, without a pause, and note what it acknowledged."""

    def __init__(self, url, name, threads=6):
        self._url, self._path = url, f"/v1/bandits/{name}"
        self.acknowledged, self.rewarded, self.odd = [], [], []
        self._over, self._threads = threading.Event(), threads
        self._pool = ThreadPoolExecutor(threads)

    def __enter__(self):
        self._work = [self._pool.submit(self._run) for _ in range(self._threads)]
        return self

    def __exit__(self, *_):
        self._over.set()
        for one in self._work:
            one.result(2 * PATIENCE)
        self._pool.shutdown()

    def wait(self, count):
        """Return when so many more decisions were acknowledged."""
        wanted, end = len(self.acknowledged) + count, time.monotonic() + PATIENCE
        while len(self.acknowledged) < wanted:
            assert time.monotonic() < end, "the server does not decide"
            time.sleep(0.002)

    def _run(self):
        with httpx.Client(base_url=self._url, timeout=PATIENCE) as client:
            while not self._over.is_set():
                with contextlib.suppress(httpx.TransportError):
                    answer = client.post(f"{self._path}/ask", json=BODY)
                    if answer.status_code == 200:
                        one = answer.json()["id"]
                        self.acknowledged.append(one)
                        told = client.post(f"{self._path}/tell", json={"id": one, "reward": 1})
                        if told.status_code == 200:
                            self.rewarded.append(one)
                        elif told.status_code != 503:
                            self.odd.append(told.text)
                    elif answer.status_code != 503:
                        self.odd.append(answer.text)


def ask_until_decided(bandit, within):
    """Ask until there is a decision, whatever was said before, and return its id."""
    end = time.monotonic() + within
    with httpx.Client(base_url=bandit.service.url, timeout=within) as client:
        while time.monotonic() < end:
            with contextlib.suppress(httpx.TimeoutException):
                answer = client.post(f"/v1/bandits/{bandit.name}/ask", json=BODY)
                assert answer.status_code in (200, 503), answer.text
                if answer.status_code == 200:
                    return answer.json()["id"]
            time.sleep(0.02)
    raise AssertionError(f"nothing was decided within {within:g} seconds, while another server hangs")


def ask_throughout(bandit, over):
    """Ask a hundred times a second until it is over; return what was answered, and the longest that any took."""
    statuses, slowest = Counter(), 0.0
    with httpx.Client(base_url=bandit.service.url, timeout=LEASE + MARGIN) as client:
        while not over.is_set() or not statuses:
            began = time.monotonic()
            try:
                statuses[client.post(f"/v1/bandits/{bandit.name}/ask", json=BODY).status_code] += 1
            except httpx.TimeoutException:
                statuses["nothing"] += 1
            slowest = max(slowest, time.monotonic() - began)
            time.sleep(0.01)
    return statuses, slowest


def hang(replicas, server, pause, resume, *, times, seed):
    """Let a server hang under load, some times, at moments that differ; check what the others can do meanwhile."""
    rng, own = random.Random(seed), uuid.uuid4().hex[:8]
    replicas.good.create(f"shared-{own}")
    other = replicas.good.create(f"other-{own}")
    shared = replicas.good.bandit(f"shared-{own}")
    mine = []
    with Load(server.url, shared.name) as load, ThreadPoolExecutor(1) as pool:
        for _ in range(times):
            load.wait(5)
            over = threading.Event()
            replicas.hang(pause, resume, rng)
            try:
                elsewhere = pool.submit(ask_throughout, other, over)
                try:
                    for _ in range(5):
                        mine.append(ask_until_decided(shared, LEASE + MARGIN))
                finally:
                    over.set()
                statuses, slowest = elsewhere.result(PATIENCE)
            finally:
                resume()
            assert set(statuses) == {200}
            assert slowest < UNDELAYED
        load.wait(1)  # the one that hung serves again
    assert not load.odd
    events = all_events(shared)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    decided = Counter(event["decision"] for event in events if event["kind"] == "Decided")
    rewarded = Counter(event["decision"] for event in events if event["kind"] == "Rewarded")
    assert max(decided.values()) == 1
    assert not {*load.acknowledged, *mine} - decided.keys()
    assert not set(load.rewarded) - rewarded.keys()
    assert max(rewarded.values()) == 1
    for server in (replicas.stopped, replicas.cut, replicas.good):
        bandit = server.bandit(shared.name)
        until(lambda bandit=bandit: _counted(bandit) == (len(decided), len(rewarded)))


def _counted(bandit):
    detail = bandit.detail()
    return detail["decisions"], detail["rewards"]


@pytest.mark.parametrize("times", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_a_server_that_is_stopped_delays_the_others_by_seconds_only(replicas, times):
    hung = replicas.stopped
    hang(replicas, hung, hung.pause, hung.resume, times=times, seed=times)


@pytest.mark.parametrize("times", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_a_server_that_is_cut_from_the_database_delays_the_others_by_seconds_only(replicas, times):
    hang(replicas, replicas.cut, replicas.proxy.pause, replicas.proxy.resume, times=times, seed=times)

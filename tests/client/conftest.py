"""Clients of both kinds with one interface, so that every test is of both; and a clock that does not wait."""

import asyncio
import functools
import inspect
from types import SimpleNamespace

import httpx
import pytest

import tensorbandits as tb
from tensorbandits.client import http
from tests.client.fake import Fake

URL = "http://service.test"


class Awaited:
    """An awaited client, or a bandit of one, each of whose calls is run to its end."""

    def __init__(self, of, runner):
        self.of, self.runner = of, runner

    def __getattr__(self, name):
        found = getattr(self.of, name)
        if not callable(found):
            return found

        def call(*args, **kwargs):
            result = found(*args, **kwargs)
            if inspect.iscoroutine(result):
                result = self.runner.run(_awaited(result))
            return Awaited(result, self.runner) if type(result).__name__ == "AsyncRemoteBandit" else result

        return call

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.close()

    def __repr__(self):
        return repr(self.of)


async def _awaited(coroutine):
    return await coroutine


class Clock:
    """The time in seconds, which passes only when somebody sleeps."""

    def __init__(self):
        self.now, self.pauses = 1000.0, []

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.pauses.append(seconds)
        self.now += seconds

    async def slept(self, seconds):
        self.sleep(seconds)


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(http, "time", SimpleNamespace(sleep=clock.sleep))
    monkeypatch.setattr(http, "anyio", SimpleNamespace(sleep=clock.slept))
    return clock


@pytest.fixture
def runner():
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(params=["blocking", "awaited"])
def kind(request):
    return request.param


def client_of(kind, runner, url, key=None, **settings):
    """A client of a kind, whose methods return what is awaited."""
    if kind == "blocking":
        return tb.Client(url, key, **settings)
    return Awaited(tb.AsyncClient(url, key, **settings), runner)


@pytest.fixture
def connect(kind, runner):
    """A function that makes a client of the kind."""
    return functools.partial(client_of, kind, runner)


@pytest.fixture
def fake():
    return Fake()


@pytest.fixture
def client(fake, kind, connect, clock):
    """A function that makes a client of the fake, with settings."""
    opened = []

    def client(**settings):
        if kind == "blocking":
            own = httpx.Client(transport=httpx.MockTransport(fake))
        else:
            own = httpx.AsyncClient(transport=httpx.MockTransport(fake.awaited))
        made = connect(URL, "tb_secret", http=own, **settings)
        retries = (made if kind == "blocking" else made.of)._exchange.retries
        retries._clock = clock
        opened.append(own)
        return made

    yield client
    for own in opened:
        if kind == "blocking":
            own.close()

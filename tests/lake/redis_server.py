"""A Redis server for tests, started where it is installed; tests that need it say so when they are skipped."""

import shutil
from collections.abc import Iterator

import pytest

from tests.lake.needs import missing
from tests.servers import Redis


@pytest.fixture(scope="session")
def redis_address() -> Iterator[str]:
    """The address of a server of this session; its data end with it."""
    if shutil.which("redis-server") is None:
        missing("redis-server is not installed (Debian: apt-get install redis-server); Redis was not tested")
    try:
        import redis  # noqa: F401
    except ImportError:
        missing("the redis package is not installed (pip install 'tensorbandits[redis]'); Redis was not tested")
    server = Redis()
    try:
        yield server.start().url
    finally:
        server.close()

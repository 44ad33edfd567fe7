"""Settings of all tests."""

import gc
import os
import uuid

import pytest
from hypothesis import settings

from tests import tiers

# No deadline: the first example of a test may wait for kernels to be compiled. The same examples each time: among
# numbers that differ by rounding only, one in a million is farther apart than any fixed tolerance.
settings.register_profile("tensorbandits", deadline=None, derandomize=True)
settings.load_profile("tensorbandits")
os.environ.setdefault("TENSORBANDITS_DRAIN_SECONDS", "0")  # servers that tests stop need not wait for a load balancer


def pytest_ignore_collect(collection_path, config):
    """Do not even import what ``make quick`` and ``make test`` leave out: that takes as long as many tests."""
    inside, wanted = collection_path.relative_to(config.rootpath).as_posix(), config.option.markexpr
    left_out = [("not medium", tiers.MEDIUM), ("not slow", tiers.SLOW)]
    return True if any(words in wanted and tiers.is_in(inside, places) for words, places in left_out) else None


def pytest_collection_modifyitems(items):
    """Mark what ``make quick`` and ``make test`` leave out, as ``tests/tiers.py`` has it."""
    for item in items:
        starts = any(engine in item.name for engine in (*tiers.ENGINES, "postgres"))
        if tiers.is_in(item.nodeid, tiers.MEDIUM) or starts or tiers.FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.medium)
        if tiers.is_slow(item.nodeid):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish():
    """Leave the thousands of collected tests, and all that they import, out of every garbage collection."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish():
    gc.unfreeze()


@pytest.fixture(autouse=True)
def registry_as_it_was():
    """What a test registers is forgotten after it."""
    from tensorbandits.policies import registry

    before = dict(registry._RECORDS)
    yield
    registry._RECORDS.clear()
    registry._RECORDS.update(before)


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server for all tests of this process. Where none is installed they are skipped, but not in CI."""
    from tests import servers

    if servers.programs() is None:
        if os.environ.get("CI"):
            pytest.fail("PostgreSQL is not installed, and CI runs every test; install it (Debian: postgresql)")
        pytest.skip("needs PostgreSQL, which is not installed (Debian: apt-get install postgresql)")
    server = servers.Postgres()
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture
def postgres_url(postgres):
    """The address of a new and empty PostgreSQL database."""
    name = f"test_{uuid.uuid4().hex}"
    yield postgres.create(name)
    postgres.drop(name)

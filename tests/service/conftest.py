"""A service for the tests of a module, and stores of both kinds for those that need their own."""

import pytest

from tests.service.served import Service


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A service that the tests of a module share; each makes bandits of its own."""
    with Service(tmp_path_factory.mktemp("service") / "shared.db") as service:
        yield service


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    """The address of an empty store, in SQLite and in PostgreSQL."""
    return tmp_path / "own.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")

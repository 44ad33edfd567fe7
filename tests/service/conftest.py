"""A service for the tests of a module, and stores of both kinds for those that need their own."""

import pytest

from tests.service.browsing import ALL_SCREENS, Page, driver, launched
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


@pytest.fixture(scope="module")
def browser():
    """One browser for the tests of a module: while it is driven, no other test may run an event loop."""
    with driver() as playwright:
        found = launched(playwright)
        yield found
        found.close()


@pytest.fixture
def visit(browser):
    contexts = []

    def visit(url, screen="desktop light", **options):
        width, height, scheme = ALL_SCREENS[screen]
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, **options)
        context.set_default_timeout(60_000)
        contexts.append(context)
        return Page(context, url)

    yield visit
    for context in contexts:
        context.close()

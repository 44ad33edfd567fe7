"""The contract of stores, over every database there is."""

import pytest

from tensorbandits.store import Store
from tensorbandits.testing import stores


@pytest.mark.parametrize("check", stores.checks, ids=lambda check: check.__name__)
def test_sqlite(check, tmp_path):
    check(lambda: Store.open(tmp_path / "store.db"))


@pytest.mark.parametrize("check", stores.checks, ids=lambda check: check.__name__)
def test_postgres(check, postgres_url):
    check(lambda: Store.open(postgres_url))

"""Tables are made and upgraded, by one process at a time, all or nothing."""

import multiprocessing
import shutil
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from tensorbandits.store import Head, New, RepeatedError, Store, StoreError, migrate, migrations, schema
from tests.store import workers

STEPS = Path(migrations.__file__).parent

NEXT = """
import sqlalchemy as sa
from alembic import op

revision, down_revision = "next", "{last}"


def upgrade():
    op.add_column("bandits", sa.Column("owner", sa.Text))
    op.create_table("owners", sa.Column("id", sa.Integer, primary_key=True))
    {then}
"""


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    return request.getfixturevalue("postgres_url")


def execute(url, sql):
    """Run a statement behind the store's back."""
    from tensorbandits.store.database import _backend

    backend = _backend(url)
    with backend.engine.begin() as connection:
        connection.exec_driver_sql(sql)
    backend.close()


def test_the_steps_lead_to_the_tables(url):
    with Store.open(url) as store, store._backend.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": schema.VERSION_TABLE})
        assert compare_metadata(context, schema.metadata) == []
        assert context.get_current_revision() == schema.REVISION
    assert ScriptDirectory(str(STEPS)).get_current_head() == schema.REVISION


def test_opening_again_changes_nothing(url):
    with Store.open(url) as store:
        bandit = store.create("a", [New("Created", 0.0)])
    with Store.open(url) as store:
        assert store.bandits() == [bandit]


def test_a_newer_database_is_refused(url):
    Store.open(url).close()
    execute(url, f"UPDATE {schema.VERSION_TABLE} SET version_num = '999'")
    with pytest.raises(
        StoreError, match=r"revision 999, which a newer release of tensorbandits made.*install the newer"
    ):
        Store.open(url)


def test_a_database_of_others_is_refused(url):
    execute(url, "CREATE TABLE events (what TEXT)")
    with pytest.raises(StoreError, match=r"tables which tensorbandits did not make \(events\); give it a database of"):
        Store.open(url)


def test_several_start_at_once(url):
    context = multiprocessing.get_context("spawn")
    with context.Pool(3) as pool:
        opened = pool.map(workers.open_and_create, [(url, f"bandit {at}") for at in range(6)], chunksize=1)
    with Store.open(url) as store:
        assert sorted(opened) == sorted(row.id for row in store.bandits())


@pytest.fixture
def steps(tmp_path, monkeypatch):
    """A directory of steps with one more, which ends as the test says."""
    place = tmp_path / "migrations"

    def put(then):
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(STEPS, place, ignore=shutil.ignore_patterns("__pycache__"))
        (place / "versions" / "v_next.py").write_text(NEXT.format(then=then, last=schema.REVISION))

    monkeypatch.setattr(migrate, "REVISION", "next")
    monkeypatch.setattr(migrate.migrations, "__file__", str(place / "__init__.py"))
    return put


def test_an_upgrade_is_all_or_nothing(url, steps, monkeypatch):
    steps("pass")
    with monkeypatch.context() as first:
        first.setattr(migrate, "REVISION", schema.REVISION)
        with Store.open(url) as store:
            bandit = store.create("a", [New("Created", 0.0)])
    steps("raise KeyError('lost')")
    with pytest.raises(KeyError, match="lost"):
        Store.open(url)
    steps("pass")  # the table of the broken step is not in the way
    with Store.open(url) as store:
        assert store.bandits() == [bandit]
        with store._backend.engine.connect() as connection:
            assert migrate.revision(connection) == "next"


GOLDEN = Path(__file__).parents[1] / "golden" / "store-1.db"


def test_several_upgrade_at_once(tmp_path):
    path = shutil.copy(GOLDEN, tmp_path / "store.db")
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        opened = pool.map(workers.open_and_create, [(str(path), f"bandit {at}") for at in range(6)], chunksize=1)
    with Store.open(path) as store:
        assert set(opened) < {row.id for row in store.bandits()}
        assert all(event.chain is None for event in store.events(1))


def test_old_logs_may_hold_a_decision_twice_but_new_ones_may_not(tmp_path):
    path = shutil.copy(GOLDEN, tmp_path / "store.db")
    execute(path, "UPDATE events SET decision = 'd1' WHERE bandit = 1 AND kind = 'Decided'")
    with Store.open(path) as store:
        head = store.head(1)
        assert head.chain is None
        [event] = store.append(1, head, [New("Decided", 0.0, decision="d1")])  # nobody knows which was meant
        with pytest.raises(RepeatedError, match="the id of a decision, is in the log already"):
            store.append(1, Head(event.seq, event.chain), [New("Decided", 0.0, decision="d1")])
        assert [one.chain is None for one in store.events(1)] == [True] * head.seq + [False]

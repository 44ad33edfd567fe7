"""What is asked often is found by an index, however long the logs are."""

import pytest

from tensorbandits.store import New, Store, statements

FEW = {"bandit": 1, "after": 2990, "until": statements.LARGEST, "limit": 1000}


def filled(url):
    store = Store.open(url)
    for name in "ab":
        store.create(name, [New("Decided", 0.0, {}, f"d{at}", f"k{at}") for at in range(3000)])
    return store


def asked(store):
    listed, wanted = store._backend.listed, ["d1", "d5"]
    given = store._backend.listing(wanted)
    yield "events_decision", listed.of_decisions, {"bandit": 1, "ids": given}
    yield "events_key", listed.keyed, {"bandit": 1, "keys": given}
    yield "PRIMARY KEY|events_pkey", statements.log, FEW
    yield "PRIMARY KEY|events_pkey", statements.tail, {"bandit": 1, "limit": 10}
    yield "PRIMARY KEY|events_pkey", statements.heads, {}
    yield "PRIMARY KEY|events_pkey", statements.standing, {"bandit": 1}
    yield "PRIMARY KEY|events_pkey", statements.chain_at, {"bandit": 1, "seq": 2000}


def plan(store, statement, parameters, explain):
    with store._backend.borrowed() as connection:
        cursor = connection.driver_connection.cursor()
        cursor.execute(f"{explain} {store._backend.text(statement)}", parameters)
        return [str(row[-1]) for row in cursor.fetchall()]


def uses(steps, index):
    return any(one in step for step in steps for one in index.split("|"))


def test_sqlite(tmp_path):
    with filled(tmp_path / "store.db") as store:
        for index, statement, parameters in asked(store):
            steps = plan(store, statement, parameters, "EXPLAIN QUERY PLAN")
            assert uses([step for step in steps if step.startswith("SEARCH events USING")], index), steps
            assert not [step for step in steps if step.startswith("SCAN events")], steps


@pytest.mark.parametrize("analyzed", [False, True])
def test_postgres(postgres_url, analyzed):
    with filled(postgres_url) as store:
        with store._backend.borrowed() as connection:
            connection.driver_connection.execute("ANALYZE" if analyzed else "SELECT 1")
        for index, statement, parameters in asked(store):
            steps = plan(store, statement, parameters, "EXPLAIN")
            assert uses(steps, index), steps
            assert not [step for step in steps if "Seq Scan on events" in step], steps

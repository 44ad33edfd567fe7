"""The commands of whoever runs the service: backup, restore, replay, fold, report."""

import contextlib
import io
import re
import sqlite3

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tensorbandits.cli import application
from tensorbandits.service.engine import loading, orders
from tensorbandits.service.engine.engine import Engine
from tensorbandits.service.metrics import Metrics
from tensorbandits.store import Store
from tests.service.served import Service

SETTINGS = {"modes": {"offer": ["a", "b"], "channel": ["mail", "sms"]}, "rank": 1, "reward": "bernoulli"}


def run(*words):
    result = CliRunner().invoke(application(), [str(word) for word in words])
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A store with a bandit of 30 decisions, 20 of which are rewarded, and a key."""
    path = tmp_path_factory.mktemp("store") / "events.db"
    with Store.open(path) as store:
        engine = Engine(store, Metrics())
        engine.start()
        host = engine.create("offers", SETTINGS, None)
        host.refresh(wait=True)
        numbers = [engine.submit(orders.ask(host, host.request({}))).result()["id"] for _ in range(30)]
        for at, number in enumerate(numbers[:20]):
            engine.submit(orders.tell(host, {"id": number, "reward": at % 2})).result()
        engine.stop()
    return path


def ledger(path):
    with Store.open(path) as store:
        return loading.rebuild(store, store.find("offers")).policy.copy_ledger()


def test_a_copy_restores_to_the_same(full, tmp_path):
    code, words = run("backup", tmp_path / "copy.db", "--store", full)
    assert code == 0
    assert "1 bandits and 51 events" in words
    code, words = run("restore", tmp_path / "copy.db", "--store", tmp_path / "new.db")
    assert code == 0
    assert ledger(tmp_path / "new.db") == ledger(full)
    code, words = run("restore", tmp_path / "copy.db", "--store", tmp_path / "new.db")
    assert code == 2
    assert "empty" in words
    assert run("backup", tmp_path / "copy.db", "--store", full)[0] == 2


def test_replay_says_what_events_add_up_to_and_finds_a_wrong_snapshot(full, tmp_path):
    run("backup", tmp_path / "copy.db", "--store", full)
    code, words = run("replay", "--store", tmp_path / "copy.db")
    assert (code, words.strip()) == (
        0,
        "offers: 51 events, 30 decisions, 20 rewards that add up to 10, 10 decisions wait",
    )
    with Store.open(tmp_path / "copy.db") as store:
        row = store.find("offers")
        wrong = loading.rebuild(store, row, 45)
        wrong.policy.tell((0, 0), 1.0)
        wrong.state.seq, wrong.state.chain = 51, store.head(row.id).chain
        store.put_snapshot(row.id, *loading.pack(wrong))
    code, words = run("replay", "offers", "--store", tmp_path / "copy.db")
    assert code == 1
    assert "said otherwise" in words
    assert run("replay", "--store", tmp_path / "copy.db")[0] == 0


def test_folding_keeps_what_was_learned_and_writes_the_events_first(full, tmp_path):
    run("backup", tmp_path / "copy.db", "--store", full)
    code, words = run(
        "fold", "offers", "--export", tmp_path / "old.parquet", "--before", 41, "--store", tmp_path / "copy.db"
    )
    assert code == 0, words
    assert (tmp_path / "old.parquet").stat().st_mode & 0o777 == 0o600
    assert pq.read_table(io.BytesIO((tmp_path / "old.parquet").read_bytes()))["seq"].to_pylist() == list(range(1, 42))
    assert ledger(tmp_path / "copy.db") == ledger(full)
    with Store.open(tmp_path / "copy.db") as store:
        assert [event.seq for event in store.events(store.find("offers").id)] == list(range(42, 52))
    assert run("replay", "--store", tmp_path / "copy.db")[0] == 0
    assert run("fold", "offers", "--export", tmp_path / "old.parquet", "--store", tmp_path / "copy.db")[0] == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["backup", "copy.db", "--store", "nowhere.db"], "there is no file nowhere.db"),
        (["restore", "nowhere.db", "--store", "new.db"], "there is no file nowhere.db"),
        (["replay", "--store", "mysql://x"], "mysql"),
    ],
)
def test_wrong_places_are_refused(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, printed = run(*words)
    assert code == 2
    assert said in printed
    assert list(tmp_path.iterdir()) == []


def test_a_misspelt_bandit_gets_a_hint(full):
    code, words = run("replay", "ofers", "--store", full)
    assert code == 2
    assert "did you mean 'offers'" in words


def test_a_report_is_written_from_a_store_or_by_a_service(full, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, words = run("report", "offers", "--store", full)
    assert (code, words.strip()) == (0, "wrote offers-report.html")
    assert "30 decisions, 20 of them with a reward" in (tmp_path / "offers-report.html").read_text()
    assert run("report", "offers", "--store", full, "--since", "2026-01-01", "--out", "week.md")[0] == 0
    assert (tmp_path / "week.md").read_text().startswith("# offers: what it earned and learned\n")
    with Service(full) as service:
        assert run("report", "offers", "--url", service.url, "--out", "asked.md")[0] == 0
        assert "30 decisions, 20 of them with a reward" in (tmp_path / "asked.md").read_text()
        code, words = run("report", "nobody", "--url", service.url)
        assert code == 2
        assert "nobody" in words
    for wrong, said in (
        (["ofers", "--store", full], "did you mean 'offers'"),
        (["offers", "--store", full, "--since", "soon"], "--since is 'soon'; give a duration"),
        (["offers", "--store", full, "--out", "week.pdf"], "ends in .html or .md"),
        (["offers", "--store", full, "--url", "http://127.0.0.1:1"], "give one"),
        (["offers", "--store", full, "--key", "tb_x"], "no --url"),
    ):
        code, words = run("report", *wrong)
        assert code == 2
        assert said in " ".join(words.split())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["asked.md", "offers-report.html", "week.md"]


def test_a_backup_is_verified_by_restoring_it(full, tmp_path):
    code, words = run("backup", tmp_path / "copy.db", "--verify", "--store", full)
    assert code == 0, words
    assert "verified: restored, and 51 events of 1 bandits, 20 rewards, added up again" in words


def test_a_copy_that_does_not_add_up_is_no_backup(full, tmp_path):
    run("backup", tmp_path / "broken.db", "--store", full)
    with contextlib.closing(sqlite3.connect(tmp_path / "broken.db")) as connection, connection:
        connection.execute("DELETE FROM events WHERE seq = 7")
        connection.execute("DELETE FROM snapshots")
    code, words = run("backup", tmp_path / "copy.db", "--verify", "--store", tmp_path / "broken.db")
    assert code == 2
    assert "at event 7" in words


def test_old_events_of_all_bandits_go_after_a_dry_run(full, tmp_path):
    run("backup", tmp_path / "own.db", "--store", full)
    before, place = ledger(tmp_path / "own.db"), ("--store", tmp_path / "own.db")
    nothing = "0 events would go; what they add up to stays\n"
    assert run("retain", "--older-than", "1 day", "--dry-run", *place) == (0, nothing)
    code, words = run("retain", "--older-than", "0.01 s", "--dry-run", *place)
    assert (code, words.splitlines()[-1]) == (0, "51 events would go; what they add up to stays")
    assert run("retain", "--older-than", "0.01 s", *place)[0] == 2
    code, words = run("retain", "--older-than", "many", "--dry-run", *place)
    assert code == 2
    assert "--older-than" in words
    code, words = run("retain", "--older-than", "0.01 s", "--export", tmp_path / "old", *place)
    assert code == 0, words
    (file,) = (tmp_path / "old").iterdir()
    assert pq.read_table(file).num_rows == 51
    assert ledger(tmp_path / "own.db") == before
    assert run("retain", "--older-than", "0.01 s", "--export", tmp_path / "old", *place)[1].startswith("0 events")


@pytest.fixture
def hurt(full, tmp_path):
    """A copy of the store, with a second bandit in front of which one stands whose log cannot be read."""
    path = tmp_path / "hurt.db"
    assert run("backup", path, "--store", full)[0] == 0
    with Service(path) as service:
        for name in ("hurt", "sound"):
            bandit = service.create(name, reward="bernoulli")
            for at in range(4):
                bandit.tell(bandit.ask(subject="ann", id=f"{name}-{at}")["id"], 1)
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        file.execute("DELETE FROM snapshots WHERE bandit = (SELECT id FROM bandits WHERE name = 'hurt')")
        file.execute("DELETE FROM events WHERE seq = 3 AND bandit = (SELECT id FROM bandits WHERE name = 'hurt')")
    return path


def test_a_log_that_cannot_be_read_stops_no_work_on_the_others_and_is_said(hurt, tmp_path):
    place = ["--store", hurt]
    code, words = run("backup", tmp_path / "copy.db", "--verify", *place)
    assert code == 2
    assert "of 3 bandits 1 cannot be restored" in words
    assert "at event 3, it is missing" in words
    for more in (["--dry-run"], ["--why", "as asked"]):
        code, words = run("forget", "--subject", "ann", *more, *place)
        assert code == 1
        assert "hurt: nothing was looked for, as bandit 'hurt' is not served" in words
        assert "sound: 4 decisions" in words
    for more in (["--dry-run"], ["--export", tmp_path / "old"]):
        code, words = run("retain", "--older-than", "0.001 s", *more, *place)
        assert code == 1
        assert "hurt: left as it is" in words
        assert re.search(r"^sound: [\d]+ events", words, flags=re.MULTILINE)
    assert sorted(file.name.split("-")[0] for file in (tmp_path / "old").iterdir()) == ["offers", "sound"]

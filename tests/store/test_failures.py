"""Disks that are full or read-only, servers that refuse, addresses that are wrong: a clear error, nothing lost."""

import os
import stat
import subprocess
import tempfile
from pathlib import Path

import psycopg
import pytest

from tensorbandits.store import (
    DamagedError,
    FoldedError,
    Head,
    New,
    Store,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
    statements,
)
from tensorbandits.store.backend import Session
from tensorbandits.store.postgres_errors import explain
from tests.servers import PASSWORD, USER
from tests.store import workers
from tests.store.test_processes import process


def append(store, bandit, count=1, body=None):
    store.append(bandit, store.head(bandit), [New("x", 0.0, body or {})] * count)


def append_for_ever(store, bandit):
    while True:
        append(store, bandit)


def pragma(store, text):
    """Set something on the connection that writes."""
    backend = store._backend
    with backend._mine:
        backend._writer().connection.driver_connection.execute(f"PRAGMA {text}")


def test_a_full_database_is_said_and_used_again(tmp_path):
    with Store.open(tmp_path / "store.db") as store:
        bandit = store.create("a", [New("Created", 0.0)]).id
        pragma(store, "max_page_count = 40")
        with pytest.raises(StoreFullError, match=r"no room is left for sqlite:///.*store\.db; free some on its disk"):
            append(store, bandit, 100, {"text": "x" * 5000})
        assert store.heads() == {bandit: 1}
        append(store, bandit)
        pragma(store, "max_page_count = 100000")
        append(store, bandit, 100, {"text": "x" * 5000})
        assert store.heads() == {bandit: 102}


@pytest.fixture
def small_disk():
    """A file system of 400 kB."""
    with tempfile.TemporaryDirectory() as place:
        command = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", place]
        if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode:
            pytest.skip("needs the right to mount a small disk")
        try:
            yield Path(place)
        finally:
            subprocess.run(["umount", place], check=True)


def test_a_full_disk_is_said_and_used_again(small_disk):
    with Store.open(small_disk / "store.db") as store:
        bandit = store.create("a", [New("Created", 0.0)]).id
        ballast = small_disk / "ballast"
        with open(ballast, "wb") as file:
            free = os.statvfs(small_disk)
            file.write(bytes(free.f_bavail * free.f_bsize - 20_000))
        with pytest.raises(StoreFullError, match="no room is left"):
            append_for_ever(store, bandit)
        done = store.heads()[bandit]
        assert [event.seq for event in store.events(bandit)] == list(range(1, done + 1))
        with pytest.raises((StoreError, OSError)):
            store.backup(small_disk / "copy.db")
        assert sorted(path.name for path in small_disk.iterdir() if "copy" in path.name) == []
        ballast.unlink()
        append(store, bandit)
        assert [event.seq for event in store.events(bandit)] == list(range(1, done + 2))


def test_a_store_that_became_read_only_is_said_and_read(tmp_path):
    with Store.open(tmp_path / "store.db") as store:
        bandit = store.create("a", [New("Created", 0.0)]).id
        pragma(store, "query_only = ON")
        with pytest.raises(StoreReadOnlyError, match="cannot be written; let this user write the file"):
            append(store, bandit)
        assert len(list(store.events(bandit))) == 1
        pragma(store, "query_only = OFF")
        append(store, bandit)


@pytest.mark.parametrize("what", ["file", "directory"])
def test_a_file_or_directory_without_rights_is_said(what):
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "store.db")
        Store.open(path).close()
        Path(place).chmod(0o777 if what == "file" else 0o555)
        path.chmod(0o444 if what == "file" else 0o666)
        with process(workers.as_nobody, str(path)) as (_, told):
            kind, words = told.recv()
        Path(place).chmod(0o700)
    assert kind == "StoreReadOnlyError"
    assert "let this user write" in words


def test_places_that_cannot_be(tmp_path):
    with pytest.raises(StoreUnavailableError, match="is a directory; give the path of a file in it"):
        Store.open(tmp_path)
    with pytest.raises(
        StoreUnavailableError, match=r"the directory .*nowhere of store\.db is not there; make it first"
    ):
        Store.open(tmp_path / "nowhere" / "store.db")
    (tmp_path / "text").write_text("this is no database, but long enough to be looked at by SQLite" * 30)
    with pytest.raises(StoreError, match=r"is damaged, or no SQLite database .*restore a backup"):
        Store.open(tmp_path / "text")
    with Store.open(tmp_path / "store.db") as store, pytest.raises(StoreError, match="of the backup is not there"):
        store.backup(tmp_path / "nowhere" / "copy.db")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://root:hush@db/x", "cannot be of kind 'mysql'; give 'sqlite:///"),
        ("", "give 'sqlite:///"),
        ("sqlite:store.db", "has no '//'"),
        ("postgresql:hush@db", "has no '//'"),
        ("sqlite://store.db", "SQLite has no host"),
        ("sqlite:///store.db?mode=ro", "no options"),
        ("postgresql://ann:hush@db", "names no database"),
        ("postgresql://ann:hush@db:port/x", "cannot be read"),
        ("postgresql://ann:hush@localhost/x?color=red", "an option that PostgreSQL does not know"),
    ],
)
def test_addresses_that_cannot_be(url, words):
    with pytest.raises(ValueError, match="store") as caught:
        Store.open(url)
    assert words in str(caught.value)
    assert "hush" not in str(caught.value)


def test_a_server_that_is_not_there():
    with pytest.raises(StoreUnavailableError, match="cannot be reached; see that the server runs") as caught:
        Store.open("postgresql://ann:hush@127.0.0.1:1/x")
    assert "hush" not in str(caught.value)


def test_servers_that_refuse(postgres, postgres_url):
    cases = [
        (postgres.url(password="hush"), "refuses this user and password"),
        (postgres.url(user="nobody", password="hush"), "refuses this user and password"),
        (postgres.url("nowhere"), "make the database or the user, or name another"),
        (postgres.url().replace(":" + PASSWORD.replace(" ", "%20"), ""), "wants a password"),
    ]
    for url, words in cases:
        with pytest.raises(StoreUnavailableError) as caught:
            Store.open(url)
        assert words in str(caught.value)
        assert "hush" not in str(caught.value)
        assert PASSWORD not in str(caught.value)
    with Store.open(postgres_url) as store:
        assert f"{USER}:***@" in store.url
        assert "sesame" not in repr(store._backend.engine)


def test_a_read_only_server_is_said_and_used_again(postgres, postgres_url):
    with Store.open(postgres_url) as store:
        bandit = store.create("a", [New("Created", 0.0)]).id
    name = postgres_url.split("@/")[1].split("?")[0]
    postgres.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    with Store.open(postgres_url) as store:
        with pytest.raises(StoreReadOnlyError, match="takes no writes; give the address of the primary"):
            append(store, bandit)
        assert len(list(store.events(bandit))) == 1
    postgres.execute(f'ALTER DATABASE "{name}" RESET default_transaction_read_only')
    with Store.open(postgres_url) as store:
        append(store, bandit)


def test_a_database_with_another_encoding_is_refused(postgres):
    postgres.execute("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
    try:
        with pytest.raises(StoreError, match="is encoded in LATIN1; make it with ENCODING 'UTF8'"):
            Store.open(postgres.url("latin"))
    finally:
        postgres.drop("latin")


def test_what_a_server_cannot_be_made_to_say_here():
    assert type(explain(psycopg.errors.DiskFull("no space"), "db", True)) is StoreFullError
    lost = explain(psycopg.OperationalError("server closed the connection"), "db", True)
    assert type(lost) is StoreUnavailableError
    assert "not known whether it was written" in str(lost)
    assert type(explain(psycopg.errors.TooManyConnections("no"), "db", False)) is StoreUnavailableError


def test_a_fold_between_two_statements_of_a_reader_is_told(tmp_path, monkeypatch):
    with Store.open(tmp_path / "store.db") as store:
        bandit = store.create("a", [New("x", 0.0)] * 9).id
        rows, folded = Session.rows, []

        def fold_first(session, statement, **parameters):
            if statement is statements.log and not folded:
                folded.append(7)
                store.fold(bandit, 7, b"base")
            return rows(session, statement, **parameters)

        monkeypatch.setattr(Session, "rows", fold_first)
        with pytest.raises(FoldedError, match="up to 7 were folded"):
            list(store.events(bandit, after=2))
        assert [event.seq for event in store.events(bandit)] == [8, 9]


def test_a_log_that_an_older_copy_replaced_is_noticed(tmp_path):
    with Store.open(tmp_path / "store.db") as store:
        bandit = store.create("a", [New("x", 0.0)] * 3).id
        store.backup(tmp_path / "copy.db")
        [known] = store.append(bandit, store.head(bandit), [New("x", 0.0)])
    with Store.open(tmp_path / "copy.db") as store:
        head = Head(known.seq, known.chain)
        for use in (lambda: list(store.events(bandit, head)), lambda: store.append(bandit, head, [New("x", 0.0)])):
            with pytest.raises(DamagedError, match=r"event 4: .* replaced by an older copy; restart all servers"):
                use()
        append(store, bandit, body={"other": 1})
        with pytest.raises(DamagedError, match="event 4: its checksum is not the one that was read before"):
            list(store.events(bandit, head))


def rights(directory):
    """Return what others may do with the files of a directory."""
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}


def test_new_files_are_private_and_old_ones_stay_as_they_are(tmp_path):
    (tmp_path / "new").mkdir()
    with Store.open(tmp_path / "new" / "store.db") as store:
        bandit = store.create("a", [New("Created", 0.0)]).id
        store.backup(tmp_path / "new" / "copy.db")
        assert {"store.db", "store.db-wal", "store.db-shm", "copy.db"} <= rights(tmp_path / "new").keys()
        assert set(rights(tmp_path / "new").values()) == {0o600}
    (tmp_path / "new" / "store.db").chmod(0o664)
    with Store.open(tmp_path / "new" / "store.db") as store:
        append(store, bandit)
        found = rights(tmp_path / "new")
        assert [found[name] for name in ("store.db", "store.db-wal", "store.db-shm")] == [0o664] * 3


def test_a_backup_of_a_server_is_private(postgres_url, tmp_path):
    with Store.open(postgres_url) as store:
        store.create("a", [New("Created", 0.0)])
        store.backup(tmp_path / "copy.db")
    assert rights(tmp_path) == {"copy.db": 0o600}


def test_a_process_that_was_stopped_as_the_next_in_line_does_not_stop_others(tmp_path):
    fcntl = pytest.importorskip("fcntl")
    with Store.open(tmp_path / "store.db") as store:
        bandit = store.create("a", [New("Created", 0.0)]).id
        with open(tmp_path / "store.db-queue", "r+") as queue:
            fcntl.flock(queue, fcntl.LOCK_EX)
            append(store, bandit)
        assert store.heads() == {bandit: 2}

"""Damaged copies of a store: a server of one must say that it is damaged, or know what the undamaged one knows."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import signal
import sqlite3
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from benchmarks.service.attack_records import Diary, Json
from benchmarks.service.attack_servers import Place, Server, command
from benchmarks.service.attack_tenants import KINDS

PROMISE = "a damaged log is not served as if it were whole"
_PAGE = 4_096


def attack(diary: Diary, place: Place, root: str, rng: random.Random) -> None:
    """Copy the store, damage the copy, and compare what a server says of it with what the copy held before."""
    with tempfile.TemporaryDirectory(prefix="tb-copy-", dir=place.folder) as folder:
        whole, damaged = Path(folder, "whole.db"), Path(folder, "damaged.db")
        if command("backup", str(whole), "--store", place.url).returncode:
            return  # the database is just not there
        truth = _truth(whole)
        shutil.copy(whole, damaged)
        words = rng.choice([_other_reward, _without_an_event, _zeroed_page, _garbled_page])(damaged, rng)
        if words is None:
            return
        server = Server(f"sqlite:///{damaged}", Path(folder))
        try:
            server.start()
            if server.wait(60):
                for name, (seq, decisions) in truth.items():
                    _compare(diary, server, root, name, seq, decisions, words)
        finally:
            server.end(signal.SIGKILL)


def _truth(file: Path) -> dict[str, tuple[int, dict[str, Json]]]:
    """Return the last number of each bandit, and the body of each event that is left."""
    with contextlib.closing(sqlite3.connect(file)) as connection:
        found = {}
        for bandit, name in connection.execute("SELECT id, name FROM bandits WHERE deleted IS NULL").fetchall():
            rows = connection.execute(
                "SELECT seq, kind, decision, body FROM events WHERE bandit = ? ORDER BY seq", (bandit,)
            ).fetchall()
            bodies = {seq: (kind, decision, json.loads(body)) for seq, kind, decision, body in rows}
            found[name] = (max(bodies, default=0), bodies)
    return found


def _compare(diary: Diary, server: Server, root: str, name: str, seq: int, truth: Any, damage: str) -> None:
    """Compare what is served of a bandit with what its undamaged log says; an error is an honest answer."""
    detail = _get(server, root, f"/v1/bandits/{name}")
    if detail is None or name.rpartition("-")[0] not in KINDS:
        return
    if detail["seq"] < seq:
        diary.findings.add(PROMISE, f"{damage}: served up to event {detail['seq']} of {seq}", name)
    after = 0
    while True:
        page = _get(server, root, f"/v1/bandits/{name}/events?after={after}&limit=1000")
        if page is None or not page["events"]:
            return
        for event in page["events"]:
            said = (event["kind"], event["decision"], event["body"])
            if event["seq"] <= seq and said != truth.get(event["seq"]):
                words = f"{damage}: event {event['seq']} is served as {said}, it was {truth.get(event['seq'])}"
                diary.findings.add(PROMISE, words, name)
                return
        after = page["events"][-1]["seq"]


def _get(server: Server, root: str, path: str) -> Any:
    """Return an answer, or None if the server says that it cannot."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.port}{path}", headers={"Authorization": f"Bearer {root}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)
    except (urllib.error.HTTPError, OSError):
        return None


# Each damages a file, and returns what it did, or None if it could not.


def _other_reward(file: Path, rng: random.Random) -> str | None:
    """Write another reward, or another arm, into an event, and let no snapshot hide it."""
    with contextlib.closing(sqlite3.connect(file)) as connection:
        rows = connection.execute(
            "SELECT bandit, seq, kind, body FROM events WHERE kind IN ('Rewarded', 'Decided', 'Told')"
        ).fetchall()
        if not rows:
            return None
        bandit, seq, kind, body = rng.choice(rows)
        read = json.loads(body)
        if kind == "Decided":
            read["cell"] = [0 for _ in read["cell"]] if any(read["cell"]) else [1 for _ in read["cell"]]
        else:
            read["reward"] = 1 - read["reward"]
        connection.execute(
            "UPDATE events SET body = ? WHERE bandit = ? AND seq = ?",
            (json.dumps(read, separators=(",", ":")), bandit, seq),
        )
        _drop_caches(connection)
    return f"another {kind} was written"


def _without_an_event(file: Path, rng: random.Random) -> str | None:
    """Take an event out of the middle of a log."""
    with contextlib.closing(sqlite3.connect(file)) as connection:
        rows = connection.execute(
            "SELECT bandit, seq FROM events e WHERE seq > 1 AND seq < "
            "(SELECT max(seq) FROM events f WHERE f.bandit = e.bandit)"
        ).fetchall()
        if not rows:
            return None
        bandit, seq = rng.choice(rows)
        connection.execute("DELETE FROM events WHERE bandit = ? AND seq = ?", (bandit, seq))
        _drop_caches(connection)
    return "an event was taken out"


def _drop_caches(connection: sqlite3.Connection) -> None:
    """Remove snapshots that events can replace."""
    with contextlib.suppress(sqlite3.Error):
        connection.execute("DELETE FROM snapshots WHERE base = 0")
    connection.commit()


def _zeroed_page(file: Path, rng: random.Random) -> str | None:
    return _overwritten(file, rng, bytes(_PAGE), "a page was zeroed")


def _garbled_page(file: Path, rng: random.Random) -> str | None:
    return _overwritten(file, rng, rng.randbytes(200), "200 bytes were overwritten")


def _overwritten(file: Path, rng: random.Random, content: bytes, words: str) -> str | None:
    """Overwrite a part of the file that holds events."""
    whole = bytearray(file.read_bytes())
    starts = [at for at in range(_PAGE, len(whole), _PAGE) if b'"reward":' in whole[at : at + _PAGE]]
    if not starts:
        return None
    start = rng.choice(starts) + rng.randrange(0, _PAGE - len(content) + 1)
    whole[start : start + len(content)] = content
    file.write_bytes(whole)
    return words

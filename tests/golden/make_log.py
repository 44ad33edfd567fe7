"""Write the log of two bandits that about everything happened to, over HTTP: ``python -m tests.golden.make_log 2``.

What was decided and learned can be had from such a log only, so that it must be read for ever. It refuses to replace
any. ``log-1`` is of the last release whose events had no checksums.
"""

import io
import json
import sqlite3
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.service.served import Service, until

HERE = Path(__file__).parent
ARM = {"arm": {"offer": "b", "channel": "sms"}, "context": {"segment": "old"}}


def live(bandit):
    """Let about everything happen to a bandit, and return the ids of its decisions."""
    ids = [bandit.ask("new" if at % 2 else "old")["id"] for at in range(12)]
    ids.append(bandit.ask(id="order 17/ä", activate=False)["id"])
    ids.append(bandit.ask(id="kept", activate=False)["id"])
    until(lambda: bandit.look_up(ids[3])["status"] == "timed out")
    for at, one in enumerate(ids[:6]):
        bandit.tell(one, at % 2)
    bandit.tell(ids[0], 1, amend=True)
    bandit.post("/cancel", {"id": ids[11]})
    bandit.post("/activate", {"id": "kept"})
    bandit.post("/tell", ARM | {"reward": 1})
    bandit.post("/tell", ARM | {"reward": 3, "trials": 5}, key="told")
    bandit.post("/levels", {"mode": "offer", "label": "d", "like": "a"})
    bandit.post("/levels", {"mode": "segment", "label": {"date": "2026-02-28"}})
    bandit.post("/levels/retire", {"mode": "offer", "label": "c"})
    bandit.post("/levels/retire", {"mode": "offer", "label": "b"})
    bandit.post("/levels/restore", {"mode": "offer", "label": "b"})
    bandit.post("/rules", {"forbid": {"segment": "new", "offer": "a"}})
    bandit.post("/rules", {"allow": {"segment": "old", "channel": ["mail"]}})
    bandit.post("/rules", {"forbid": {"channel": "mail", "offer": "b"}})
    bandit.post("/rules/remove", {"forbid": {"channel": "mail", "offer": "b"}})
    bandit.patch(holdout=0.25, floors=[{"labels": {"offer": "a"}, "share": 0.125}], window="2 h", default=0)
    out = io.BytesIO()
    pq.write_table(pa.table({"segment": ["new"], "offer": ["z"], "channel": ["sms"], "click": [1]}), out)
    answer = bandit.send("POST", "/import", params={"reward": "click", "unknown": "add"}, content=out.getvalue())
    assert answer.status_code == 200, answer.text
    return ids + [bandit.ask("new")["id"] for _ in range(3)]


def shadowed(bandit):
    """Let an apprentice learn beside a rule, and return the ids of its decisions."""
    ids = [bandit.ask(played={"offer": "a", "channel": "sms"}, propensity=0.5)["id"] for _ in range(5)]
    for one in ids[:3]:
        bandit.tell(one, 2)
    return ids


def said(bandit, ids):
    """Return what must be found in the log again."""
    detail = bandit.detail()
    return {
        "ids": ids,
        "statuses": [bandit.look_up(one)["status"] for one in ids],
        "levels": detail["levels"],
        "rules": detail["rules"],
        "settings": detail["settings"],
        "decisions": detail["decisions"],
        "waiting": detail["waiting"],
        "seq": detail["seq"],
        "ledger": {name: bandit.ledger()[name] for name in ("cells", "sums", "log_faded", "received")},
    }


def main(number):
    path = HERE / f"log-{number}.db"
    if path.exists():
        raise SystemExit(f"{path} is there already; golden files are never replaced: give another number")
    with tempfile.TemporaryDirectory() as folder:
        with Service(Path(folder) / "log.db", snapshot_interval=0) as service:
            bandit = service.create("offers", reward="bernoulli", window=6, default=0, half_life=20)
            apprentice = service.create("apprentice", apprentice=True)
            found = {"offers": said(bandit, live(bandit)), "apprentice": said(apprentice, shadowed(apprentice))}
        with sqlite3.connect(Path(folder) / "log.db") as made:
            made.execute("DELETE FROM snapshots")
            made.commit()
            made.execute("VACUUM INTO ?", (str(path),))
        made.close()
    path.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(int(sys.argv[1]))

"""Data that goes out and comes in: exports as Parquet, imports of logs, and files that are none."""

import datetime
import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tensorbandits.service.http import export
from tests.service.served import MODES, Service

ROWS = {"segment": ["new", "new", "old"], "offer": ["a", "b", "a"], "channel": ["sms", "sms", "mail"]}


@pytest.fixture
def bandit(service):
    return service.create(reward="bernoulli", window="1 h", default=0)


def parquet(**columns):
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


def exported(bandit, **params):
    answer = bandit.send("GET", "/export", params=params)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/vnd.apache.parquet"
    assert "attachment" in answer.headers["content-disposition"]
    return pq.read_table(io.BytesIO(answer.content)).to_pylist()


def imported(bandit, content, status=200, **params):
    answer = bandit.send("POST", "/import", params={"reward": "click"} | params, content=content)
    assert answer.status_code == status, answer.text
    return answer.json() if status == 200 else answer.json()["error"]["message"]


def test_decisions_with_what_became_of_them(bandit):
    made = [bandit.ask("new" if at % 2 else "old") for at in range(5)]
    made.append(bandit.ask(activate=False))
    shown = bandit.ask(activate=False)
    bandit.post("/activate", {"id": shown["id"]})
    made.append(shown)
    bandit.tell(made[0]["id"], 1)
    bandit.tell(made[1]["id"], 1)
    bandit.tell(made[1]["id"], 0, amend=True)
    bandit.post("/cancel", {"id": made[2]["id"]})
    bandit.post("/tell", {"arm": made[0]["arm"], "context": made[0]["context"], "reward": 1})
    rows = exported(bandit)
    assert [row["decision"] for row in rows] == [one["id"] for one in made]
    assert [row["status"] for row in rows] == [
        "rewarded", "rewarded", "cancelled", "open", "open", "inactive", "open",
    ]  # fmt: skip
    assert [row["reward"] for row in rows] == [1, 0, None, None, None, None, None]
    for row, one in zip(rows, made, strict=True):
        assert {mode: row[mode] for mode in MODES} == {**one["context"], **one["arm"]}
        assert (row["propensity"], row["by"], row["decided"]) == (one["propensity"], one["by"], one["time"])
    assert [row["decision"] for row in exported(bandit, after=4)] == [one["id"] for one in made[3:]]
    assert exported(bandit, after=10**9) == []
    events = exported(bandit, what="events")
    known = bandit.events()
    assert [(row["seq"], row["kind"], json.loads(row["body"])) for row in events] == [
        (event["seq"], event["kind"], event["body"]) for event in known
    ]


def test_an_export_is_sent_while_it_is_made(service, bandit, monkeypatch):
    monkeypatch.setattr(export, "PAGE", 10)
    ids = [one["id"] for one in bandit.post("/ask-many", {"requests": [{"context": {"segment": "new"}}] * 60})[
        "decisions"
    ]]  # fmt: skip
    pieces = export.decisions(service.engine.store, service.engine.find(bandit.name))
    first = next(pieces)
    bandit.ask()  # which the file, begun before, does not have
    assert len(list(pieces)) >= 6
    assert first
    with service.http.stream("GET", f"/v1/bandits/{bandit.name}/export") as answer:
        assert answer.headers.get("transfer-encoding") == "chunked"
        content = answer.read()
    file = pq.ParquetFile(io.BytesIO(content))
    assert file.num_row_groups > 5
    assert file.read().column("decision").to_pylist()[:60] == ids


def test_labels_of_any_kind_come_back(service):
    day = {"date": "2024-02-29"}
    modes = {
        "slot": [1, 2], "price": [0.5, 2], "new": [True, False], "day": [day, {"date": "2024-03-01"}],
        "at": [{"time": "2024-02-29T12:00:00"}, {"time": "2024-02-29T13:30:00"}], "mixed": ["1", 1, True, day],
        "reward": ["x"], "decision": ["<b>"],
    }  # fmt: skip
    bandit = service.create(modes=modes)
    decision = bandit.ask(None)
    bandit.tell(decision["id"], 2.5)
    [row] = exported(bandit)
    arm = decision["arm"]
    assert {mode: row[mode] for mode in ("slot", "price", "new")} == {
        mode: arm[mode] for mode in ("slot", "price", "new")
    }
    assert row["day"] == datetime.date.fromisoformat(arm["day"]["date"])
    assert row["at"] == datetime.datetime.fromisoformat(arm["at"]["time"])
    assert isinstance(row["mixed"], str)
    assert (row["reward"], row["reward (mode)"], row["decision (mode)"]) == (2.5, "x", "<b>")
    columns = {"reward": "reward (mode)", "decision": "decision (mode)"}
    content = bandit.send("GET", "/export").content
    how = {"reward": "reward", "columns": json.dumps(columns), "unknown": "add"}
    assert imported(service.create(modes=modes), content, **how)["cells"] == 1


def test_parquet_and_csv(bandit):
    found = imported(bandit, parquet(**ROWS, click=[1, 0, 1]))
    assert found == {"rewards": 3, "cells": 3, "rows": 3, "added": {}, "skipped": {}, "changed": True}
    lines = "segment,offer,channel,click\nnew,a,sms,1\nold,b,mail,0\n"
    assert imported(bandit, lines.encode())["rewards"] == 2
    assert imported(bandit, ("\ufeff" + lines).encode())["rewards"] == 2
    sums = parquet(**ROWS, click=[9, 0, 4], shown=[100, 10, 5])
    assert imported(bandit, sums, trials="shown")["rewards"] == 115
    named = parquet(who=["new"], offer=["a"], click=[1])
    how = {"columns": json.dumps({"segment": "who"}), "fixed": json.dumps({"channel": "mail"})}
    assert imported(bandit, named, **how)["cells"] == 1
    assert bandit.detail()["rewards"] == 123
    assert bandit.kinds()[1:] == ["Imported"] * 5
    assert imported(bandit, parquet(**ROWS, click=[1, 0, 1]), weight=0.5)["rows"] == 3


def test_csv_of_numbers_and_days(service):
    days = [{"date": "2024-02-28"}, {"date": "2024-02-29"}]
    bandit = service.create(modes={"slot": [1, 2, 3], "text": ["1", "2"], "day": days, "on": [True, False]})
    lines = "slot,text,day,on,click\n1,2,2024-02-29,true,3.5\n3,1,2024-02-28,false,1\n"
    assert imported(bandit, lines.encode())["cells"] == 2
    assert sorted(bandit.ledger()["cells"]) == [[0, 1, 1, 0], [2, 0, 0, 1]]


def test_labels_that_are_not_known(bandit):
    content = parquet(segment=["new", "gone", "old"], offer=["z", "a", "b"], channel=["sms"] * 3, click=[1, 0, 1])
    message = imported(bandit, content, 422)
    assert "'z'" in message or "'gone'" in message
    assert bandit.detail()["seq"] == 1
    found = imported(bandit, content, unknown="skip")
    assert (found["rewards"], found["rows"]) == (1, 3)
    assert {mode: set(labels) for mode, labels in found["skipped"].items()} == {"segment": {"gone"}, "offer": {"z"}}
    found = imported(bandit, content, unknown="add")
    assert (found["rewards"], found["added"]) == (3, {"segment": ["gone"], "offer": ["z"]})
    assert [level["label"] for level in bandit.detail()["levels"]["offer"]] == ["a", "b", "c", "z"]
    assert bandit.ask("gone", allowed={"offer": ["z"]})["arm"]["offer"] == "z"
    assert imported(bandit, content)["rewards"] == 3
    assert "unknown" in imported(bandit, content, 422, unknown="perhaps")


def test_missing_values(bandit):
    content = parquet(segment=["new", None], offer=["a", "a"], channel=["sms", "sms"], click=[1, 0])
    imported(bandit, content, 422)
    assert imported(bandit, content, missing="drop")["rewards"] == 1


WRONG = {
    "nothing": b"",
    "noise": bytes(range(256)) * 4,
    "half a file": parquet(**ROWS, click=[1, 0, 1])[:-40],
    "only the mark": b"PAR1",
    "another format": b"PK\x03\x04" + b"\0" * 60,
    "json": b'{"segment": "new"}',
    "a csv without the columns": b"a,b\n1,2\n",
    "a csv of one column short": b"segment,offer,channel,click\nnew,a,sms\n",
    "a reward that is text": b"segment,offer,channel,click\nnew,a,sms,yes\n",
    "a reward that is half": b"segment,offer,channel,click\nnew,a,sms,0.5\n",
    "a reward that is infinite": b"segment,offer,channel,click\nnew,a,sms,inf\n",
    "a reward that is none": parquet(segment=["new"], offer=["a"], channel=["sms"], click=pa.array([None], pa.int64())),
    "lists": parquet(segment=[["new"]], offer=["a"], channel=["sms"], click=[1]),
    "bytes": parquet(segment=[b"new"], offer=["a"], channel=["sms"], click=[1]),
    "too many columns of a name": b"segment,segment,offer,channel,click\nnew,new,a,sms,1\n",
}


@pytest.mark.parametrize("what", WRONG)
def test_files_that_are_none(bandit, what):
    assert imported(bandit, WRONG[what], 422)
    assert bandit.detail()["seq"] == 1


def test_other_wrong_imports(bandit):
    content = parquet(**ROWS, click=[1, 0, 1])
    for params in (
        {"reward": "clicks"}, {"trials": "shown"}, {"columns": "{"}, {"columns": "[]"}, {"columns": '{"segment": 1}'},
        {"columns": '{"segment": "who"}'}, {"fixed": '{"x": 1}'}, {"fixed": "3"},
        {"fixed": '{"segment": ["new"]}'}, {"fixed": '{"segment": {"date": "never"}}'}, {"weight": 0},
        {"fixed": '{"segment": {"a": 1, "b": 2}}'}, {"fixed": '{"segment": {"hour": "x"}}'}, {"weight": "nan"},
        {"reward": "segment"}, {"trials": "click"}, {"columns": '{"segment": "offer:weekday"}'},
    ):  # fmt: skip
        answer = bandit.send("POST", "/import", params={"reward": "click"} | params, content=content)
        assert answer.status_code == 422, (params, answer.text)
    assert bandit.send("POST", "/import", content=content).status_code == 422
    assert bandit.detail()["seq"] == 1


def packed(rows, together=500_000, **values):
    """A Parquet file of many rows that are all the same, and so of few bytes."""
    columns = {name: pa.DictionaryArray.from_arrays(pa.repeat(0, together), [value]) for name, value in values.items()}
    piece, file = pa.table(columns), io.BytesIO()
    with pq.ParquetWriter(file, piece.schema, store_schema=False) as writer:
        for _ in range(rows // together):
            writer.write_table(piece)
    return file.getvalue()


def test_a_small_file_of_too_many_rows_is_refused_before_it_is_read(bandit):
    content = packed(20_000_000, segment="new", offer="a", channel="sms", click=1)
    assert len(content) < 2**20
    pool = pa.default_memory_pool()
    held, most = pool.bytes_allocated(), pool.max_memory()
    message = imported(bandit, content, 413)
    assert "20,000,000 rows" in message
    assert "at most 5,000,000" in message
    assert pool.bytes_allocated() <= held + 16 * 2**20
    assert pool.max_memory() < most + 50 * 2**20
    assert bandit.detail()["seq"] == 1


def test_a_small_file_of_long_text_is_refused_before_it_is_written_out(bandit):
    content = packed(500_000, segment="new" * 100_000, offer="a", channel="sms", click=1)
    assert len(content) < 2**20
    pool = pa.default_memory_pool()
    held, most = pool.bytes_allocated(), pool.max_memory()
    assert "more than 1,024 MiB" in imported(bandit, content, 413)
    assert pool.bytes_allocated() <= held + 16 * 2**20
    assert pool.max_memory() < most + 200 * 2**20


def test_columns_that_are_not_needed_are_not_read(bandit):
    content = packed(100_000, 100_000, segment="new", offer="a", channel="sms", click=1, more="x" * 100_000)
    assert imported(bandit, content)["rows"] == 100_000
    lines = "segment,more,offer,channel,click\n" + "new,x,a,sms,1\n" * 3
    assert imported(bandit, lines.encode())["rows"] == 3


def test_rows_are_limited_by_the_setting(tmp_path):
    with Service(tmp_path / "own.db", import_rows=1_000) as service:
        bandit = service.create(modes=MODES, reward="bernoulli")
        for rows, status in ((1_000, 200), (1_001, 413)):
            lines = "segment,offer,channel,click\n" + "new,a,sms,1\n" * rows
            imported(bandit, lines.encode(), status)
            imported(bandit, packed(rows, rows, segment="new", offer="a", channel="sms", click=1), status)
        assert bandit.detail()["rewards"] == 2_000


def test_memory_goes_back_after_an_import(bandit):
    pool = pa.default_memory_pool()
    held = pool.bytes_allocated()
    assert imported(bandit, packed(1_000_000, segment="new", offer="a", channel="sms", click=1))["rows"] == 1_000_000
    assert pool.bytes_allocated() <= held + 16 * 2**20


def test_files_larger_than_what_is_kept_in_memory(bandit):
    rows = 800_000
    lines = b"segment,offer,channel,click\n" + b"new,a,sms,1\n" * rows
    assert len(lines) > 9 * 2**20
    assert imported(bandit, lines)["rewards"] == rows
    noise = np.random.default_rng(0).normal(size=rows + 800_000)
    file = parquet(
        **{name: [labels[0]] * len(noise) for name, labels in MODES.items()}, click=[1] * len(noise), x=noise
    )
    assert len(file) > 9 * 2**20
    assert imported(bandit, file)["rewards"] == len(noise)


def test_a_report_says_the_same_as_the_views(bandit):
    for at in range(12):
        bandit.post("/tell", {"context": {"segment": "new"}, "arm": {"offer": "a", "channel": "sms"}, "reward": at % 2})
    page = bandit.send("GET", "/report")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.text.startswith("<!doctype html>")
    text = bandit.send("GET", "/report", params={"format": "md", "since": "2026-01-01"}).text
    drift = bandit.send("GET", "/view/drift").json()
    effects = bandit.send("GET", "/view/effects").json()
    assert drift["words"] in text
    assert effects["matters"]["words"] == drift["matters"]["words"] == drift["structure"]
    assert effects["matters"]["words"] in text
    assert (drift["verdict"], drift["moved"], drift["actions"]) == ("too few", [], [])
    for wrong in ({"since": "soon"}, {"since": "2999-01-01"}, {"format": "pdf"}, {"from": "7d"}):
        answer = bandit.send("GET", "/report", params=wrong)
        assert answer.status_code == 422, wrong
        assert next(iter(wrong)) in answer.json()["detail"]

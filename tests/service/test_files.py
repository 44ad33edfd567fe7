"""CSV and JSON lines beside Parquet, out and in, compressed too, and files that unpack to more than is read."""

import csv
import gzip
import io
import json

import pytest

from tensorbandits.service.http import unpacked
from tests.service.served import Service

ROWS = [
    {"segment": "new", "offer": "a", "channel": "sms", "click": 1},
    {"segment": "new", "offer": "b", "channel": "sms", "click": 0},
    {"segment": "old", "offer": "a", "channel": "mail", "click": 1},
]


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def sent(bandit, content, **params):
    return bandit.send("POST", "/import", params={"reward": "click"} | params, content=content)


@pytest.fixture
def bandit(service):
    return service.create(reward="bernoulli", window="1 h", default=0)


def test_exports_say_the_same_in_every_format(bandit):
    made = [bandit.ask() for _ in range(3)]
    bandit.tell(made[0]["id"], 1)
    answer = bandit.send("GET", "/export?format=jsonl")
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.headers["content-disposition"].endswith('-decisions.jsonl"')
    rows = [json.loads(line) for line in answer.text.splitlines()]
    assert [row["decision"] for row in rows] == [one["id"] for one in made]
    assert [row["reward"] for row in rows] == [1.0, None, None]
    assert rows[0]["offer"] == made[0]["arm"]["offer"]
    answer = bandit.send("GET", "/export?format=csv")
    assert answer.headers["content-type"].startswith("text/csv")
    table = list(csv.DictReader(io.StringIO(answer.text)))
    assert [(row["decision"], row["reward"]) for row in table] == [
        (row["decision"], "1" if row["reward"] else "") for row in rows
    ]
    events = [json.loads(line) for line in bandit.send("GET", "/export?what=events&format=jsonl").text.splitlines()]
    assert events == bandit.events()
    table = list(csv.DictReader(io.StringIO(bandit.send("GET", "/export?what=events&format=csv").text)))
    assert [json.loads(row["body"]) for row in table] == [event["body"] for event in events]
    assert bandit.send("GET", "/export?format=xml").status_code == 422


def test_the_same_log_in_every_format_teaches_the_same(service):
    plain = ["segment,offer,channel,click", *(",".join(map(str, row.values())) for row in ROWS)]
    text = "\n".join(plain).encode()
    bodies = [text, gzip.compress(text), lines(ROWS), gzip.compress(lines(ROWS)), b"\xef\xbb\xbf\n" + lines(ROWS)[:-1]]
    learned = []
    for body in bodies[:4]:
        bandit = service.create(reward="bernoulli")
        answer = sent(bandit, body)
        assert answer.status_code == 200, answer.text
        assert answer.json()["rewards"] == 3
        learned.append(bandit.ledger())
    assert all(one == learned[0] for one in learned)


def test_labels_of_json_lines_keep_their_kinds(service):
    modes = {"day": [{"date": "2026-02-28"}, {"date": "2026-03-01"}], "size": [1, 2], "on": [True, False]}
    for day in ({"date": "2026-02-28"}, "2026-02-28"):
        bandit = service.create(modes=modes)
        rows = [
            {"day": day, "size": 1, "on": True, "click": 0.5, "more": {"a": []}},
            {"click": 2, "size": 2, "on": False, "day": day},
        ]
        answer = sent(bandit, lines(rows))
        assert answer.status_code == 200, answer.text
        assert answer.json()["cells"] == 2
    exported = bandit.send("GET", "/export?format=jsonl").text
    assert exported == ""


def test_an_export_can_be_imported(service, bandit):
    for at in range(4):
        bandit.tell(bandit.ask()["id"], at % 2)
    other = service.create(reward="bernoulli")
    for form in ("parquet", "csv", "jsonl"):
        answer = sent(other, bandit.send("GET", f"/export?format={form}").content, reward="reward")
        assert (answer.status_code, answer.json()["rewards"]) == (200, 4), answer.text


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"segment": "new"\n', "line 1 is no JSON object; send one on each line"),
        (lines(ROWS) + b"[1]\n", "line 4 is no JSON object"),
        (lines([*ROWS, ROWS[0] | {"offer": 3}]), "several kinds"),
        (lines([ROWS[0] | {"offer": {"x": 1}}]), 'line 1 has the value {"x": 1}'),
        (lines([{"segment": "new", "offer": "a", "click": 1}]), "mode 'channel' is not a column of the log"),
        (lines([ROWS[0] | {"click": "yes"}]), "click"),
        (lines([ROWS[0] | {"click": 10**400}]), "out of range"),
        (gzip.compress(lines(ROWS), mtime=0)[:-9], "no whole gzip file"),
        (b"\x1f\x8b nothing", "no whole gzip file"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(bandit, content, words):
    answer = sent(bandit, content)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid"), answer.text
    assert words in answer.json()["detail"]
    assert bandit.detail()["rewards"] == 0


def test_what_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    with Service(tmp_path / "own.db", body_limit="32k", import_limit="64k", import_rows=1_000) as service:
        bandit = service.create(reward="bernoulli")
        for content, words in (
            (gzip.compress(lines(ROWS) * 2_000), "unpacks to more than 0.0625 MiB"),
            (gzip.compress(b"{}\n" * 2_000), "2,000 rows or more"),
            (gzip.compress(b"a,b\n" + b"1,2\n" * 2_000), "2,000 rows or more"),
        ):
            answer = sent(bandit, content)
            assert (answer.status_code, answer.json()["code"]) == (413, "too_large"), answer.text
            assert words in answer.json()["detail"]
        monkeypatch.setattr(unpacked, "_LONGEST", 100)
        answer = sent(bandit, lines([ROWS[0] | {"other": "x" * 100}]))
        assert (answer.status_code, answer.json()["detail"]) == (
            413,
            "line 1 is longer than 100 bytes, the most that is read",
        )

"""What goes over the wire and comes back: labels, decisions, errors, logs; and that the two clients are twins."""

import datetime
import enum
import inspect
import io
import json
import subprocess
import sys

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tensorbandits as tb
from tensorbandits import client as package
from tensorbandits.bandit.book import (
    CancelledDecisionError,
    ClosedDecisionError,
    ExpiredDecisionError,
    UnknownDecisionError,
)
from tensorbandits.base import checks
from tensorbandits.client import NameTakenError, ServerError, UnknownBanditError, wire
from tests.client.fake import error

DAY = datetime.date(2024, 2, 29)


class Segment(enum.StrEnum):
    NEW = "new"


def test_a_question_and_its_decision(client, fake):
    bandit = client().bandit("offers")
    decision = bandit.ask({"time:day": DAY, "size": np.int64(3)}, segment=Segment.NEW, allowed={"offer": ("a", "b")})
    assert isinstance(decision, tb.Decision)
    assert fake.bodies[-1] == {
        "context": {"time:day": {"date": "2024-02-29"}, "size": 3, "segment": "new"},
        "allowed": {"offer": ["a", "b"]},
    }
    assert decision.arm == {"offer": "b", "day": DAY}
    assert decision.context == {"time:day": DAY, "size": 3, "segment": "new"}
    assert (decision.propensity, decision.by, decision.time) == (0.5, "policy", 1e9)
    bandit.ask(activate=False, id="order 17", played={"offer": "a"}, propensity=0.25)
    more = {"activate": False, "id": "order 17", "played": {"offer": "a"}, "propensity": 0.25}
    assert fake.bodies[-1] == {"context": {}, **more}
    assert bandit.best(segment="new", allowed={"offer": ["a"]}) == {"day": DAY}
    assert fake.bodies[-1] == {"context": {"segment": "new"}, "allowed": {"offer": ["a"]}}


def test_names_with_any_characters(client, fake):
    bandit = client().bandit("spring/summer ü")
    decision = bandit.ask(id="a/b ?")
    assert fake.seen[-1][1] == "/v1/bandits/spring%2Fsummer%20%C3%BC/ask"
    assert bandit.status(decision) == "open"
    assert fake.seen[-1][1].endswith("/decisions/a%2Fb%20%3F")


def test_rewards(client, fake):
    bandit = client().bandit("offers")
    decision = bandit.ask()
    assert bandit.tell(decision, np.float32(0.5)) is None
    assert fake.bodies[-1] == {"id": decision.id, "reward": 0.5}
    bandit.tell(decision.id, 2, amend=True)
    assert fake.bodies[-1] == {"id": decision.id, "reward": 2.0, "amend": True}
    assert (bandit.status(decision), bandit.reward(decision.id)) == ("rewarded", 2.0)
    bandit.tell(arm={"day": DAY}, reward=3, trials=10)
    assert fake.bodies[-1] == {"arm": {"day": {"date": "2024-02-29"}}, "context": {}, "reward": 3.0, "trials": 10}


def test_what_is_wrong_is_refused_before_it_is_sent(client, fake):
    bandit = client().bandit("offers")
    wrong = [
        (TypeError, "tell either the id", lambda: bandit.tell(reward=1)),
        (TypeError, "tell either the id", lambda: bandit.tell("x", 1, arm={"offer": "a"})),
        (ValueError, "amend and add change", lambda: bandit.tell(arm={"offer": "a"}, reward=1, add=True)),
        (TypeError, "context is given beside", lambda: bandit.tell("x", 1, context={})),
        (TypeError, "trials are given beside", lambda: bandit.tell("x", 1, trials=3)),
        (ValueError, "tell a finite number", lambda: bandit.tell("x", float("nan"))),
        (TypeError, "not a number", lambda: bandit.tell("x", "much")),
        (TypeError, "the id is 7", lambda: bandit.tell(7, 1)),
        (TypeError, "the id is None", lambda: bandit.cancel(None)),
        (TypeError, "labels is 'new'", lambda: bandit.ask("new")),
        (ValueError, "'a' is given twice", lambda: bandit.ask({"a": 1}, a=1)),
        (TypeError, "has the label None", lambda: bandit.ask(segment="new", played={"offer": None})),
        (TypeError, "has the label None", lambda: bandit.forbid(segment=None)),
        (TypeError, "has the label <object", lambda: bandit.ask(age=object())),
        (TypeError, "allowed is 'a'", lambda: bandit.ask(allowed="a")),
        (TypeError, "give a list of labels", lambda: bandit.ask(allowed={"offer": "a"})),
        (TypeError, "fallback is 'a'", lambda: bandit.ask(fallback="a")),
        (ValueError, "ids has 1 entries for 2 contexts", lambda: bandit.ask_many([{}, {}], ids=["x"])),
        (ValueError, "subjects has 1 entries for 2 contexts", lambda: bandit.ask_many([{}, {}], subjects=["x"])),
        (TypeError, "of rewards is 'x'; give pairs", lambda: bandit.tell_many(["x"])),
        (ValueError, "is no rule", lambda: bandit.remove_rule({"forbids": {}})),
    ]
    for kind, words, call in wrong:
        with pytest.raises(kind, match=words):
            call()
    assert fake.seen == []


def test_many_go_in_parts_of_a_thousand(client, fake):
    bandit = client().bandit("offers")
    decisions = bandit.ask_many([{"segment": "new"}] * 2001, ids=[f"d{at}" for at in range(2001)])
    assert [one.id for one in decisions] == [f"d{at}" for at in range(2001)]
    assert [len(body["requests"]) for body in fake.bodies] == [1000, 1000, 1]
    bandit.tell_many((one, 1) for one in decisions)
    assert set(fake.rewards.values()) == {1.0}
    bandit.ask_many([{"segment": "new"}] * 2, subjects=["ann", None])
    assert [body.get("subject") for body in fake.bodies.pop()["requests"]] == ["ann", None]
    with pytest.raises(ExceptionGroup, match="of 3 rewards 2 were refused, the others taken") as raised:
        bandit.tell_many([("d0", 2), ("d1", 1), ("nobody", 1)])
    closed, unknown = raised.value.exceptions
    assert isinstance(closed, ClosedDecisionError)
    assert isinstance(unknown, UnknownDecisionError)
    assert closed.__notes__ == ["of the reward 2 of decision 'd0'"]
    assert bandit.ask_many([]) == []
    bandit.tell_many([])


def test_many_go_as_data_frames_too(client, fake):
    bandit = client().bandit("offers")
    decisions = bandit.ask_many(
        pl.DataFrame({"segment": ["new", "old"]}),
        ids=["p", "q"],
        played=pa.table({"offer": ["a", "b"]}),
        propensities=[0.5, 1],
    )
    assert fake.bodies[-1]["requests"] == [
        {"context": {"segment": "new"}, "id": "p", "played": {"offer": "a"}, "propensity": 0.5},
        {"context": {"segment": "old"}, "id": "q", "played": {"offer": "b"}, "propensity": 1},
    ]
    assert decisions.to_frame(backend="polars")["id"].to_list() == ["p", "q"]
    bandit.tell_many(pl.DataFrame({"decision": ["p", "q"], "clicked": [1, 0]}), id="decision", reward="clicked")
    assert fake.bodies[-1]["rewards"] == [{"id": "p", "reward": 1.0}, {"id": "q", "reward": 0.0}]


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (422, "invalid", ValueError),
        (404, "unknown_bandit", UnknownBanditError),
        (404, "unknown_decision", UnknownDecisionError),
        (410, "expired_decision", ExpiredDecisionError),
        (409, "cancelled_decision", CancelledDecisionError),
        (409, "closed_decision", ClosedDecisionError),
        (409, "name_taken", NameTakenError),
        (401, "unauthorized", PermissionError),
        (403, "forbidden", PermissionError),
        (413, "too_large", ValueError),
        (404, "not_found", LookupError),
        (405, "method", ServerError),
        (500, "internal", ServerError),
    ],
)
def test_errors_come_back_as_they_were(client, fake, status, code, kind):
    fake.troubles.append(error(status, code, "what is wrong; what to do"))
    with pytest.raises(kind) as raised:
        client().bandit("offers").tell("x", 1)
    assert type(raised.value) is kind
    assert str(raised.value) == "what is wrong; what to do"
    assert raised.value.__notes__ == ["the service knows this request as r-17"]


@pytest.mark.parametrize(
    ("status", "body"), [(404, b"<html>nginx"), (301, b""), (200, b"<html>welcome"), (400, b'{"detail": "?"}')]
)
def test_what_is_no_service_is_named(client, fake, status, body):
    fake.troubles.append((status, {}, body))
    with pytest.raises(ServerError, match="address"):
        client().bandits()


def test_a_decision_that_is_none(client, fake):
    fake.troubles.append((200, {}, b'{"id": "x"}'))
    with pytest.raises(ServerError, match="is no decision"):
        client().bandit("offers").ask()


def test_addresses_and_keys(connect):
    for url in ("127.0.0.1:8000", "ftp://x", "http://", None):
        with pytest.raises(ValueError, match="give the address of a service"):
            connect(url)
    for key in ("", "tb_é", "tb\n", 3):
        with pytest.raises(ValueError, match="no key of the service"):
            connect("http://x", key)
    with pytest.raises(TypeError, match="name is ''"):
        connect("http://x").bandit("")
    made = connect("http://x/under/", "tb_secret")
    for shown in (repr(made), repr(made.bandit("offers")), str(vars(made))):
        assert "tb_secret" not in shown
    assert "http://x/under" in repr(made.bandit("offers"))


# Bandits, keys, levels and rules.


def test_making_a_bandit_of_a_space(client, fake):
    space = tb.Space({"segment": ["new", "old"], "offer": ["a", "b", DAY], "channel": [1, 2]}, ["segment"])
    space.forbid(offer=DAY, channel=2)
    space.allow(segment="new", offer=["a", "b"])
    space.retire_level("channel", 1)
    made = client()
    bandit = made.create(
        *("offers", space),
        reward="bernoulli",
        rank=2,
        window=datetime.timedelta(minutes=10),
        default=0,
        floors=[({"channel": 2}, 0.05)],
        baseline={"offer": DAY},
        exploration=0.5,
        apprentice=True,
    )
    assert bandit.name == "offers"
    day = {"date": "2024-02-29"}
    assert fake.bodies[0] == {
        "name": "offers",
        "modes": {"segment": ["new", "old"], "offer": ["a", "b", day], "channel": [1, 2]},
        "context": ["segment"],
        "rules": [{"forbid": {"offer": day, "channel": 2}}, {"allow": {"segment": "new", "offer": ["a", "b"]}}],
        "reward": "bernoulli",
        "rank": 2,
        "window": "600.000000 s",
        "default": 0,
        "floors": [{"labels": {"channel": 2}, "share": 0.05}],
        "baseline": {"offer": day},
        "apprentice": True,
        "settings": {"exploration": 0.5},
    }
    assert fake.paths == ["bandits", "retire"]
    assert fake.bodies[1] == {"mode": "channel", "label": 1}
    with pytest.raises(TypeError, match="context is given beside a Space"):
        made.create("more", space, context=["offer"])


def test_making_a_bandit_of_modes(client, fake):
    made = client()
    made.create("offers", {"segment": ["new"], "offer": iter("ab")}, context=["segment"], holdout=0.1)
    assert fake.bodies[-1] == {
        "name": "offers",
        "modes": {"segment": ["new"], "offer": ["a", "b"]},
        "context": ["segment"],
        "rules": [],
        "holdout": 0.1,
    }
    with pytest.raises(ValueError, match="name each level once"):
        made.create("offers", {"offer": ["a", "a"]})
    assert made.bandits() == [{"name": "offers"}]
    assert made.delete("offers") is None
    assert (fake.seen[-1][0], fake.seen[-1][1]) == ("DELETE", "/v1/bandits/offers")


def test_levels_rules_and_settings(client, fake):
    bandit = client().bandit("offers")
    bandit.add_level("day", DAY, like="a", rewards=20)
    bandit.retire_level("offer", "a")
    bandit.restore_level("offer", "a")
    bandit.forbid(offer="a", channel="sms")
    bandit.allow({"offer": "a"}, channel=["mail"])
    bandit.remove_rule({"allow": {"offer": "a", "channel": ["mail"]}})
    bandit.change(holdout=0.2, floors=[({"channel": "sms"}, 0.1)])
    bandit.fold(17)
    paths = [(method, path.removeprefix("/v1/bandits/offers")) for method, path, _, _ in fake.seen]
    assert paths == [
        *(("POST", "/levels"), ("POST", "/levels/retire"), ("POST", "/levels/restore")),
        *(("POST", "/rules"), ("POST", "/rules"), ("POST", "/rules/remove"), ("PATCH", ""), ("POST", "/fold")),
    ]
    assert fake.bodies == [
        {"mode": "day", "label": {"date": "2024-02-29"}, "like": "a", "rewards": 20},
        *[{"mode": "offer", "label": "a"}] * 2,
        {"forbid": {"offer": "a", "channel": "sms"}},
        *[{"allow": {"offer": "a", "channel": ["mail"]}}] * 2,
        {"holdout": 0.2, "floors": [{"labels": {"channel": "sms"}, "share": 0.1}]},
        {"before": 17},
    ]
    assert len(set(fake.keys)) == len(fake.seen)


def answer(fake, data):
    fake.troubles.append((200, {}, data if isinstance(data, bytes) else json.dumps(data).encode()))


def test_keys_and_who_one_is(client, fake):
    made = client()
    answer(fake, {"role": "admin", "bandits": None, "open": False, "version": "0.1.0"})
    assert made.me()["role"] == "admin"
    answer(fake, {"keys": [{"id": "k1", "name": "shop", "role": "decide"}]})
    assert made.keys()[0]["id"] == "k1"
    answer(fake, {"id": "k2", "key": "tb_new"})
    assert made.create_key("shop", "decide", bandits=["offers"])["key"] == "tb_new"
    assert fake.bodies[-1] == {"name": "shop", "role": "decide", "bandits": ["offers"]}
    made.revoke_key("k2")
    assert fake.seen[-1][:2] == ("DELETE", "/v1/keys/k2")


# Logs and frames.


@pytest.mark.parametrize("make", [pa.table, lambda columns: pa.table(columns).to_pandas(), pl.DataFrame, pl.LazyFrame])
def test_a_log_goes_as_parquet(client, fake, make):
    columns = {"offer_id": ["a", "b"], "clicks": [3, 1], "shown": [90, 80]}
    answer(fake, {"rewards": 170, "cells": 2, "rows": 2, "added": {"offer": [{"date": "2024-02-29"}]}, "skipped": {}})
    start = (
        client()
        .bandit("offers")
        .tell_log(
            make(columns), "clicks", trials="shown", columns={"offer": "offer_id"}, fixed={"day": DAY}, unknown="add"
        )
    )
    _, path, headers, body = fake.seen[-1]
    assert headers["content-type"] == "application/vnd.apache.parquet"
    assert pq.read_table(io.BytesIO(body)).to_pydict() == columns
    query = dict(part.split("=") for part in path.partition("?")[2].split("&"))
    assert set(query) == {"reward", "trials", "columns", "fixed", "unknown"}
    assert (start.rewards, start.rows, start.added) == (170, 2, {"offer": (DAY,)})
    assert "told 170 rewards of 2 cells" in repr(start)


def test_no_frame_is_refused(client, fake):
    with pytest.raises(TypeError, match="not a data frame"):
        client().bandit("offers").tell_log([1, 2], "clicks")


def parquet(columns):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue().to_pybytes()


def test_an_export_as_a_file_or_a_frame(client, fake, tmp_path):
    bandit = client(retries=1).bandit("offers")
    file = parquet({"id": ["x", "y"], "reward": [1.0, None]})
    answer(fake, file)
    assert bandit.export().shape == (2, 2)
    fake.troubles.append("away")
    answer(fake, file)
    path = tmp_path / "decisions.parquet"
    assert bandit.export(str(path), what="events", after=7) == path
    assert fake.seen[-1][1].endswith("/export?what=events&after=7")
    assert path.read_bytes() == file
    assert path.stat().st_mode & 0o777 == 0o600
    fake.troubles.append(error(404, "unknown_bandit", "there is no bandit 'offers'"))
    with pytest.raises(UnknownBanditError, match="no bandit"):
        bandit.export(tmp_path / "other.parquet")
    assert [one.name for one in tmp_path.iterdir()] == ["decisions.parquet"]


def test_what_is_believed_as_frames(client, fake):
    bandit = client().bandit("offers")
    said = {
        "effects": [{"mode": "day", "level": {"date": "2024-02-29"}, "effect": 0.5}],
        "interactions": [{"part": "day", "share": 1.0}],
        "alike": [],
        "arms": [{"day": {"date": "2024-02-29"}, "place": 1}],
        "words": "Beliefs from 3 rewards",
    }
    answer(fake, said)
    believed = bandit.explain(segment="new", arms=3)
    assert fake.bodies[-1] == {"level": 0.9, "arms": 3, "context": {"segment": "new"}}
    assert repr(believed) == "Beliefs from 3 rewards"
    assert list(believed.effects["level"]) == [DAY]
    assert believed.alike.shape[0] == 0
    answer(fake, {"words": "No level has moved", "structure": "rank 1", "moved": [{"mode": "offer"}]})
    examined = bandit.diagnose()
    assert repr(examined) == "No level has moved"
    assert examined.moved == ({"mode": "offer"},)
    answer(fake, {"events": [{"seq": 1, "kind": "Created"}]})
    assert bandit.events(newest=True, limit=5)[0]["seq"] == 1
    assert fake.seen[-1][1].endswith("/events?after=0&limit=5&newest=true")


# The two clients.


def public(kind):
    return {name: found for name, found in inspect.getmembers(kind) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("blocking", "awaited"),
    [(tb.Client, tb.AsyncClient), (package.RemoteBandit, package.AsyncRemoteBandit)],
)
def test_the_clients_are_twins(blocking, awaited):
    one, other = public(blocking), public(awaited)
    assert list(one) == list(other)
    for name, method in one.items():
        if callable(method) and name not in ("bandit", "create"):
            assert inspect.signature(method) == inspect.signature(other[name]), name
            assert inspect.iscoroutinefunction(other[name]), name
            assert inspect.getdoc(method) == inspect.getdoc(other[name]), name
    assert str(inspect.signature(package.RemoteBandit.ask)).endswith("-> 'Decision'")


def test_a_bandit_of_the_service_has_the_interface_of_a_bandit():
    """All but what is for one process only, as saving is; what an apprentice says is a view."""
    own = {"save", "load", "state_dict", "from_state_dict", "plot", "timeline", "expire", "waiting", "tell_bandit"}
    own |= {"policy", "space", "judge"}
    own |= {"publish", "snapshot", "uid"}  # the server publishes by its settings; deciders follow its route
    own |= {"bring_rewards"}  # for a learner that adds rewards up in its own process, in the place of a log
    missing = {name for name in public(tb.Bandit) if name not in own} - set(public(package.RemoteBandit))
    assert missing == set()
    for name in set(public(tb.Bandit)) & set(public(package.RemoteBandit)):
        here = inspect.signature(getattr(tb.Bandit, name)).parameters
        there = inspect.signature(getattr(package.RemoteBandit, name)).parameters
        lacking = set(here) - set(there) - ({"max_rank", "seed"} if name == "diagnose" else set())
        lacking -= {"actor"} if name != "changes" else set()  # which the key says
        lacking -= {"name"} if name == "report" else set()  # which the service knows
        assert not lacking, f"{name} lacks {lacking}"


def test_a_client_without_httpx_says_how_to_install_it(monkeypatch):
    found = checks.find_spec
    monkeypatch.setattr(checks, "find_spec", lambda name: None if name == "httpx" else found(name))
    for kind in (tb.Client, tb.AsyncClient):
        with pytest.raises(ModuleNotFoundError, match=r"needs httpx.*pip install 'tensorbandits\[client\]'"):
            kind("http://127.0.0.1:8000")


def test_importing_the_library_brings_in_no_client():
    heavy = ("httpx", "anyio", "tensorbandits.client")
    code = f"import sys, tensorbandits as tb; print([m for m in {heavy} if m in sys.modules]); tb.Client"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_a_decision_leaves_out_what_it_does_not_know_of():
    data = {"id": "x", "arm": {}, "context": {}, "propensity": None, "by": "caller", "policy": "p", "time": 0.0}
    assert wire.decision({**data, "later": 1}) == tb.Decision(**data)


def test_an_apprentice_says_what_it_would_have_played():
    data = {
        "id": "x",
        "arm": {"day": "a"},
        "context": {},
        "propensity": 0.5,
        "by": "caller",
        "policy": "p",
        "time": 0.0,
    }
    advice = wire.decision({**data, "would": {"day": {"date": "2024-02-29"}}})
    assert isinstance(advice, tb.Decision)
    assert advice.would == {"day": DAY}
    assert tb.Decision.from_json(advice.to_json()) == tb.Decision(**data)
    assert len({advice, advice}) == 1

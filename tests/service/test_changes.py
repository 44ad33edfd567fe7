"""Who did what: every event has its actor, and the history of changes says who changed a bandit, when and how."""

import csv
import io
import json

import httpx
import pytest

from tensorbandits.service.engine import loading
from tensorbandits.service.http.keyring import make_key
from tensorbandits.store import Store
from tests.service.served import Served, Service, until


class Person:
    """A caller with a key of their own."""

    def __init__(self, service, name, role="admin"):
        row, key = make_key(name, role)
        service.app.state.serving.store.add_key(row)
        service.app.state.serving.keys.read()
        self.http = httpx.Client(base_url=service.url, headers={"Authorization": f"Bearer {key}"}, timeout=60)
        self.key = key

    def bandit(self, name):
        return Served(self, name)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("changes") / "store.db"


@pytest.fixture(scope="module")
def people(place):
    """A service that two people use, Ann and the shop."""
    with Service(place) as service:
        ann, shop = Person(service, "Ann"), Person(service, "the shop's web servers", "decide")
        yield service, ann, shop
        ann.http.close()
        shop.http.close()


@pytest.fixture(scope="module")
def offers(people):
    """The name of a bandit that everything was done to once."""
    _, ann, shop = people
    body = {"name": "offers", "modes": {"offer": ["a", "b", "c"], "channel": ["mail", "sms"]}, "reward": "bernoulli"}
    assert ann.http.post("/v1/bandits", json=body | {"holdout": 0.1, "window": "1 h"}).status_code == 201
    mine, theirs = ann.bandit("offers"), shop.bandit("offers")
    first, second, _ = (theirs.ask(None, id=f"order-{at}")["id"] for at in (1, 2, 3))
    theirs.tell(first, 1)
    mine.tell(first, 0, amend=True)
    theirs.post("/cancel", {"id": second})
    theirs.ask(None, id="order-4", activate=False)
    theirs.post("/activate", {"id": "order-4"})
    theirs.post("/tell", {"arm": {"offer": "a", "channel": "mail"}, "reward": 1})
    mine.patch(holdout=0.2)
    mine.patch(window=None, floors=[{"labels": {"offer": "a"}, "share": 0.05}])
    mine.post("/levels", {"mode": "offer", "label": "summer", "like": "a"})
    mine.post("/levels/retire", {"mode": "offer", "label": "b"})
    mine.post("/levels/restore", {"mode": "offer", "label": "b"})
    mine.post("/rules", {"forbid": {"offer": "c", "channel": "sms"}})
    mine.post("/rules/remove", {"forbid": {"offer": "c", "channel": "sms"}})
    log = b"offer,channel,click\na,mail,1\nb,sms,0\n"
    kind = {"Content-Type": "text/csv"}
    sent = ann.http.post("/v1/bandits/offers/import", params={"reward": "click"}, content=log, headers=kind)
    assert sent.status_code == 200, sent.text
    return "offers"


def read(bandit, **query):
    answer = bandit.send("GET", "/changes", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_every_event_has_its_actor(people, offers):
    _, ann, shop = people
    found = [(event["kind"], event["actor"]) for event in ann.bandit(offers).events()]
    web = "the shop's web servers"
    assert found == [
        *[("Created", "Ann"), ("Decided", web), ("Decided", web), ("Decided", web), ("Rewarded", web)],
        *[("Amended", "Ann"), ("Cancelled", web), ("Decided", web), ("Activated", web), ("Told", web)],
        *[("Changed", "Ann"), ("Changed", "Ann"), ("LevelAdded", "Ann"), ("LevelRetired", "Ann")],
        *[("LevelRestored", "Ann"), ("RuleChanged", "Ann"), ("RuleChanged", "Ann"), ("Imported", "Ann")],
    ]
    assert all("as" not in event["body"] for event in ann.bandit(offers).events())
    raw = list(people[0].app.state.serving.store.events(1))
    assert not any(person.key[-20:] in json.dumps(event.body) for event in raw for person in (ann, shop))


def test_a_window_that_ends_is_the_doing_of_the_service(people):
    _, ann, shop = people
    body = {"name": "short", "modes": {"offer": ["a", "b"]}, "window": 1, "default": 0}
    assert ann.http.post("/v1/bandits", json=body).status_code == 201
    first, *_ = (shop.bandit("short").ask(None)["id"] for _ in range(3))
    story = until(lambda: (known := ann.bandit("short").look_up(first))["status"] == "timed out" and known)["story"]
    assert [(one["kind"], one["actor"], one["reward"]) for one in story] == [
        ("Decided", "the shop's web servers", None),
        ("TimedOut", "the service", 0.0),
    ]


def test_a_decision_has_a_story(people, offers):
    story = people[1].bandit(offers).look_up("order-1")["story"]
    web = "the shop's web servers"
    assert [(one["kind"], one["actor"], one["reward"]) for one in story] == [
        *[("Decided", web, None), ("Rewarded", web, 1.0), ("Amended", "Ann", 0.0)]
    ]
    assert [one["seq"] for one in story] == sorted(one["seq"] for one in story)


def test_the_history_says_who_changed_what_before_and_after(people, offers):
    found = read(people[1].bandit(offers))
    assert (found["total"], found["next"], found["since"], found["lost"]) == (9, None, 0, 0)
    assert found["actors"] == ["Ann"]
    said = {one["kind"]: one["words"] for one in found["changes"]}
    assert said["LevelAdded"] == "summer added to offer, starting like a"
    assert said["Imported"] == "2 rewards of 2 rows of a log"
    assert said["Created"] == "made, of 3 offer x 2 channel"
    numbers = {one["number"]: one for one in found["changes"]}
    assert numbers[2]["items"] == [{"what": "holdout", "before": 0.1, "after": 0.2}]
    parts = [{"labels": {"offer": "a"}, "share": 0.05}]
    assert sorted(numbers[3]["items"], key=lambda item: item["what"]) == [
        {"what": "floors", "before": None, "after": parts},
        {"what": "window", "before": "1 h", "after": None},
    ]
    assert "window: from 1 h to not set" in numbers[3]["words"]
    assert "floors: from not set to offer a 0.05" in numbers[3]["words"]
    rule = "never where offer is c and channel is sms"
    assert numbers[7]["items"] == [{"what": "rule", "before": None, "after": rule}]
    assert numbers[8]["items"] == [{"what": "rule", "before": rule, "after": None}]
    assert [one["number"] for one in found["changes"]] == list(range(9, 0, -1))


def test_pages_filters_and_files(people, offers):
    bandit = people[1].bandit(offers)
    one = read(bandit, limit=5)
    two = read(bandit, limit=5, before=one["next"])
    assert [change["number"] for change in one["changes"] + two["changes"]] == list(range(9, 0, -1))
    assert two["next"] is None
    assert read(bandit, kind=["Changed", "Created"])["total"] == 3
    assert read(bandit, actor="nobody")["total"] == 0
    third = read(bandit)["changes"][-3]["time"]
    assert read(bandit, since=third)["total"] == 7
    assert read(bandit, until=third)["total"] == 3
    rows = list(csv.DictReader(io.StringIO(bandit.send("GET", "/changes/export").text)))
    assert [row["number"] for row in rows if row["kind"] == "Changed"] == ["2", "3", "3"]
    assert {row["actor"] for row in rows} == {"Ann"}
    lines = bandit.send("GET", "/changes/export", params={"format": "jsonl", "kind": "Changed"})
    assert [json.loads(line)["number"] for line in lines.text.splitlines()] == [2, 3]
    assert lines.headers["content-type"].startswith("application/x-ndjson")


@pytest.mark.parametrize("query", [{"kind": "Decided"}, {"limit": 0}, {"before": 0}, {"since": "inf"}, {"until": -1}])
def test_wrong_queries_are_refused(people, offers, query):
    assert people[1].bandit(offers).send("GET", "/changes", params=query).status_code == 422


def test_another_server_and_another_start_know_the_same(people, offers, place):
    service, ann, _ = people
    known = read(ann.bandit(offers))
    with Store.open(place) as store:
        core = loading.rebuild(store, store.find(offers), caches=False)
    assert core.state.changelog.state() == service.engine.find(offers).core.state.changelog.state()
    with Service(place) as replica:
        replica.http.headers.update(ann.http.headers)
        assert read(replica.bandit(offers)) == known
        ann.bandit(offers).patch(holdout=0.3)
        last = until(lambda: (found := read(replica.bandit(offers))["changes"])[0]["number"] == 10 and found[0])
        assert (last["actor"], last["words"]) == ("Ann", "holdout: from 0.2 to 0.3")


def test_changes_outlive_the_events_that_are_folded_away(people):
    service, ann, shop = people
    assert ann.http.post("/v1/bandits", json={"name": "folded", "modes": {"offer": ["a", "b"]}}).status_code == 201
    bandit, host = ann.bandit("folded"), service.engine.find("folded")
    shop.bandit("folded").ask(None)
    bandit.patch(holdout=0.5)
    before = read(bandit)
    assert bandit.post("/fold", {})["folded"] == 3
    shop.bandit("folded").ask(None)
    assert [event["actor"] for event in bandit.events()] == ["the shop's web servers"]  # of whom the log has a number
    host.become(loading.rebuild(service.app.state.serving.store, host.row, caches=False))
    assert read(bandit) == before
    assert [event["actor"] for event in bandit.events()] == ["the shop's web servers"]

"""The short form of ``python -m benchmarks.service.attack``, and proof that its checks find what is wrong."""

import json
import time

import pytest

from benchmarks.service import attack, attack_checks
from benchmarks.service.attack_log import Story
from benchmarks.service.attack_records import Diary, Exchange, Life, Trouble
from benchmarks.service.attack_tenants import tenants

SECONDS = 8  # of commands and faults; starting, checking and a restart take as long again


def attacked(store, seed, seconds=SECONDS, **settings):
    given = attack.Settings(store, seconds, seed, clients=1, patience=4, **settings)
    found = attack.report([attack.attack(given)])
    assert found["violations"] == {}, json.dumps(found["violations"], indent=1)[:6000]
    assert sum(counts.get("acknowledged", 0) for counts in found["commands"].values()) > 50
    assert found["faults"]


def test_a_short_attack_on_sqlite_breaks_no_promise():
    """With two of the tenants, and no damaged copy, which is a server more."""
    attacked("sqlite", 1, seconds=3, copies=0, kinds=("polite", "hasty"))


@pytest.mark.slow
def test_an_attack_on_sqlite_breaks_no_promise():
    attacked("sqlite", seed=1)


@pytest.mark.slow
@pytest.mark.usefixtures("postgres")
def test_an_attack_on_postgresql_breaks_no_promise():
    attacked("postgres", seed=2)


# A log of two decisions, of which one was rewarded and amended, and what clients know of it; then something is changed.

(TENANT,) = tenants(["patient"])
MODES = TENANT.modes
ARM = {"offer": MODES["offer"][1], "channel": MODES["channel"][2]}
CONTEXT = {"segment": MODES["segment"][0]}
LEVELS = {mode: [{"label": label, "retired": False} for label in labels] for mode, labels in MODES.items()}


def event(seq, kind, decision, **body):
    return {"seq": seq, "time": float(seq), "kind": kind, "decision": decision, "body": body}


def log():
    cell = {"cell": [0, 1, 2], "p": 0.25, "by": "policy"}
    return [
        event(1, "Created", None),
        event(2, "Decided", "a", **cell),
        event(3, "Decided", "b", **cell),
        event(4, "Rewarded", "a", reward=1),
        event(5, "Amended", "a", reward=0),
        event(6, "Told", None, cell=[0, 1, 2], reward=1),
    ]


def exchange(what, body, answer, status=200, key=None):
    now = time.monotonic()
    group = key or repr(body)
    path = TENANT.path(what)
    return Exchange(0, what, 0, "POST", path, body, key, group, now, now, ended=now, status=status, answer=answer)


def decision(number, **other):
    return {"id": number, "arm": ARM, "context": CONTEXT, "propensity": 0.25, "by": "policy", "time": 2.0, **other}


def told(number, reward, *, changed=True, **body):
    answer = {"id": number, "status": "rewarded", "reward": reward, "changed": changed}
    return exchange("tell", {"id": number, "reward": reward, **body}, answer)


def exchanges():
    return [
        exchange("ask", {"context": CONTEXT}, decision("a"), key="first"),
        exchange("ask", {"context": CONTEXT, "id": "b"}, decision("b")),
        told("a", 1),
        told("a", 0, amend=True),
        exchange("tell", {"arm": ARM, "context": CONTEXT, "reward": 1}, {"id": None, "changed": True}),
    ]


def broken(events=None, more=(), detail=None, history=None, claims=(), without=()):
    """Return the names of the checks that find something wrong."""
    life = Life(0)
    life.exchanges = [one for at, one in enumerate(exchanges()) if at not in without] + list(more)
    life.claims = list(claims)
    said = {"levels": LEVELS, "seq": 6, "decisions": 2, "waiting": 1, "rewards": 2, **(detail or {})}
    story = Story(TENANT, life, log() if events is None else events, said, history, Trouble())
    return {check.__name__ for check in attack_checks.CHECKS if list(check(story))}


def changed(at, **other):
    """The log with another body of one event."""
    events = log()
    events[at]["body"] |= other
    return events


def test_a_log_that_explains_every_answer_breaks_no_promise():
    assert broken() == set()


@pytest.mark.parametrize(
    ("check", "what"),
    [
        ("numbers_have_no_gaps", {"events": log()[:4] + log()[5:]}),
        ("acknowledged_decisions_are_kept", {"events": log()[:1] + log()[2:]}),
        ("acknowledged_decisions_are_kept", {"events": changed(1, p=0.5)}),
        ("acknowledged_decisions_are_kept", {"events": changed(1, cell=[0, 1, 1])}),
        ("decisions_are_made_once", {"events": [*log(), {**log()[1], "seq": 7}]}),
        ("decisions_are_made_once", {"more": [exchange("ask", {"context": CONTEXT}, decision("a"))]}),
        ("decisions_were_asked_for", {"without": [0]}),
        (
            "repeated_requests_get_the_same_decision",
            {"more": [exchange("ask", {"context": CONTEXT}, decision("b"), key="first")]},
        ),
        (
            "decisions_are_as_requested",
            {"more": [exchange("ask", {"allowed": {"offer": ["other"]}}, decision("a"), key="first")]},
        ),
        ("decisions_are_as_requested", {"more": [exchange("ask", {}, decision("a", propensity=0.0), key="first")]}),
        ("rewards_are_those_that_were_told", {"events": log()[:4] + log()[5:]}),
        ("rewards_are_those_that_were_told", {"events": [*log(), event(7, "Amended", "a", reward=1)]}),
        ("rewards_are_those_that_were_told", {"more": [told("b", 1)]}),
        ("arms_are_told_once", {"events": log()[:5]}),
        ("arms_are_told_once", {"events": [*log(), {**log()[5], "seq": 7}]}),
        ("closings_are_kept", {"more": [exchange("cancel", {"id": "b"}, {"changed": True})]}),
        ("windows_do_not_end_early", {"events": [*log(), event(7, "TimedOut", "b", reward=0)]}),
        ("detail_is_that_of_the_log", {"detail": {"decisions": 3}}),
        ("history_is_that_of_the_log", {"history": [{"total": 1.0}]}),
    ],
)
def test_what_a_log_does_not_explain_is_found(check, what):
    assert check in broken(**what)


@pytest.mark.parametrize(
    ("kind", "about"),
    [
        ("forbid", (ARM["offer"], ARM["channel"])),
        ("retired", ARM["offer"]),
        ("ceiling", ARM["channel"]),
        ("holdout", ARM),
        ("apprentice", True),
    ],
)
def test_a_decision_that_does_not_obey_a_change_is_found(kind, about):
    life = Life(0)
    life.claim(kind, about, "a change")
    assert broken(more=[exchange("ask", {"context": CONTEXT}, decision("a"), key="first")], claims=life.claims) == {
        "changes_are_obeyed"
    }
    life.suspend(kind)  # before the next change is sent
    assert broken(more=[exchange("ask", {"context": CONTEXT}, decision("a"), key="first")], claims=life.claims) == set()


def answered(status, *, seconds=0.1, faults=(), answer=None, expects=(200,)):
    """Return which promises an answer breaks by itself."""
    diary = Diary()
    for fault in faults:
        diary.trouble.begin(fault, [0])
    one = exchange("ask", {}, answer, status)
    one.sent, one.expects = one.ended - seconds, frozenset(expects)
    diary.judge(one, TENANT.name)
    return set(diary.findings.counts)


def test_an_answer_is_judged_by_what_was_done_to_its_server():
    must = {"a request is answered as it must be, whatever other tenants and other servers do"}
    assert answered(200) == set()
    assert answered(503) == answered(422) == answered(None) == must
    assert answered(503, faults=["killed"]) == answered(None, faults=["stopped"]) == set()
    assert answered(422, faults=["killed"]) == must
    assert "no request ends in an internal error" in answered(500, faults=["database killed"])
    assert answered(200, seconds=10) == {"a server is not held up"}
    assert answered(200, seconds=10, faults=["database paused"]) == set()
    assert answered(503, seconds=25, faults=["database paused"]) == {"a request is answered or fails in bounded time"}
    assert answered(200, answer={"message": "offer 1 zq7zq"}) == {"no answer names values of other tenants"}

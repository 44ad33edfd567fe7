"""Loading a bandit from its log: the same from events, snapshots and a base, and refused where it does not fit."""

import contextlib
import json
import random
from pathlib import Path

import numpy as np
import pytest

from tensorbandits.bandit import commands as c
from tensorbandits.bandit.commands import Ask
from tensorbandits.bandit.events import Created
from tensorbandits.base import codec
from tensorbandits.service.engine import loading
from tensorbandits.service.engine.host import Host
from tensorbandits.service.engine.loading import CannotApplyError
from tensorbandits.store import Event, New, Store
from tests.bandit.histories import Histories, bits

GOLDEN = Path(__file__).parent.parent / "golden"
MODES = {"segment": ["new", "old"], "offer": ["a", "b", "c"], "channel": ["mail", "sms"]}
SETTINGS = {"modes": MODES, "context": ["segment"], "reward": "bernoulli", "rank": 1, "window": "10 min", "default": 0}


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "events.db") as opened:
        yield opened


def written(store, history, name="offers"):
    """Write the log of a history into a store, transaction by transaction as it was planned."""
    news = [New("Created", 0.0, {"settings": history.settings})]
    row = store.create(name, news)
    head = store.head(row.id)
    history.core.state.changelog.note(Created(0.0, history.settings))
    while True:
        events, _ = history.go_on(check=False)
        rows = store.append(row.id, head, [New(kind, time, body, decision) for kind, time, decision, body in events])
        if rows:
            head = store.head(row.id)
            yield row, rows[-1].seq
        if history.done > 150:
            return


def known(core):
    """What a core knows of its bandit, but where its log stands: the history here has no event for its making."""
    found = bits(core)
    found["state"] = {name: part for name, part in found["state"].items() if name not in ("seq", "chain", "ring")}
    return found


def same(one, two):
    assert known(one) == known(two)


@pytest.mark.parametrize("seed", range(4))
def test_a_bandit_is_what_its_log_says_with_and_without_snapshots(store, seed):
    history, rng = Histories(random.Random(seed), unique=True), random.Random(seed)
    kept = 0
    for row, seq in written(store, history):
        if rng.random() < 0.1:
            core = loading.rebuild(store, row)
            assert core.state.seq == seq
            store.put_snapshot(row.id, *loading.pack(core))
            kept += 1
    assert kept
    same(loading.rebuild(store, row), history.core)
    same(loading.rebuild(store, row, caches=False), history.core)
    half = loading.rebuild(store, row, seq // 2)
    assert half.state.seq == seq // 2
    base, packed = loading.pack(half)
    assert base == seq // 2
    store.fold(row.id, base, packed)
    store.drop_snapshots(row.id)
    same(loading.rebuild(store, row), history.core)


def test_a_snapshot_of_before_changes_were_listed_finds_them_in_the_log(place):
    with Store.open(place) as store:
        *_, (row, _) = written(store, Histories(random.Random(3), unique=True))
        core = loading.rebuild(store, row)
        state = {
            name: part for name, part in core.frozen()().items() if name not in ("actors", "changelog", "subjects")
        }
        store.put_snapshot(row.id, core.state.seq, codec.pack("replica", 2, state))
        found = loading.rebuild(store, row).state.changelog
        assert found.state() == core.state.changelog.state()
        assert found.since == 0
        assert len(found) > 3


def test_a_bandit_that_follows_knows_what_one_does_that_is_loaded(store):
    history = Histories(random.Random(7), unique=True)
    host = None
    for row, seq in written(store, history):
        host = host or Host(row, loading.rebuild(store, row, 1))
        if seq % 3 == 0:
            with host.turn:
                host.catch_up(store)
    with host.turn:
        host.catch_up(store)
        assert host.catch_up(store) == 0
    same(host.core, history.core)
    assert host.head == store.head(row.id)


def test_events_are_taken_in_once(store):
    row = store.create("offers", [New("Created", 0.0, {"settings": SETTINGS})])
    store.append(row.id, store.head(row.id), [New("Told", 1.0, {"cell": [0, 0, 0], "reward": 1.0})] * 2)
    core = loading.rebuild(store, row)
    for event in store.events(row.id):
        loading.step(core, event)
    core.learner.take_in()
    assert core.policy.ledger.rounds == 2


@pytest.mark.parametrize(
    ("kind", "decision", "body", "words"),
    [
        ("Rewarded", "nobody", {"reward": 1.0}, "no decision has the id 'nobody'"),
        ("Rewarded", "d1", {}, "reward"),
        ("Unheard", None, {}, "upgrade this one too"),
        ("Created", "d1", {"settings": {}}, None),
        ("LevelAdded", None, {"mode": "offer", "label": "a"}, "'a'"),
    ],
)
def test_an_event_that_does_not_fit_is_named(kind, decision, body, words):
    core = loading.new_core(SETTINGS, 0.0)
    before = known(core)
    event = Event(1, 2, 0.0, kind, decision, None, body)
    with contextlib.nullcontext() if words is None else pytest.raises(CannotApplyError, match=f"event 2.*{words}"):
        loading.step(core, event)
    assert known(core) == before


def test_the_first_event_makes_the_bandit():
    with pytest.raises(CannotApplyError, match="the first event of a log makes the bandit"):
        loading.step(None, Event(1, 1, 0.0, "Told", None, None, {"cell": [0, 0, 0], "reward": 1.0}))


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("replica-*.safetensors")), ids=lambda path: path.name)
def test_a_snapshot_of_any_release_is_what_it_was_and_goes_on(path):
    said = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    core = loading.unpack(path.read_bytes())
    state, ledger = core.state, core.policy.ledger
    assert (state.seq, ledger.rounds, ledger.totals.sum()) == pytest.approx(
        (said["seq"], said["rounds"], said["total"])
    )
    states = [state.book[f"order {at}"].state for at in range(6)]
    assert states == ["rewarded", "open", "rewarded", "cancelled", "open", "inactive"]
    assert core.space.levels[1] == ("a", "b", "c")
    assert state.apprentice.count == 1  # the second decision is not known yet
    assert (state.decisions, state.moment) == (6, 14.0)
    core.apply(state.plan(c.Tell("order 1", 1), 20.0))
    core.learner.take_in()
    assert state.apprentice.count == 3
    assert [event.id for event in state.plan(c.Expire(), 605.0)] == ["order 4"]  # it was shown at 4, for 10 minutes
    assert core.learner.refresh(wait=True)
    ask = Ask((1,), c.chosen({1: [1, 2]}), played=(1, 1, 0), propensity=0.5)
    drawn = core.current().decide(ask, np.random.default_rng(0))
    assert drawn.would.cell[1] in (1, 2)
    again = loading.unpack(loading.pack(core)[1])
    same(again, core)

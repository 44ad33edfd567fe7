"""Files that earlier versions wrote can be loaded, say what they said, and go on."""

import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import tensorbandits as tb
from tensorbandits.bandit.commands import Tell
from tensorbandits.bandit.published import PublishedSnapshot
from tensorbandits.decider.tokens import Token, TokenKeys
from tensorbandits.policies import registry
from tensorbandits.service.engine import loading
from tensorbandits.service.engine.host import Host
from tensorbandits.store import New, Store

GOLDEN = Path(__file__).parent
EXPECTED = {
    name: said
    for page in sorted(GOLDEN.glob("expected-*.json"))
    for name, said in json.loads(page.read_text(encoding="utf-8")).items()
}


@pytest.fixture(scope="module")
def make():
    spec = importlib.util.spec_from_file_location("golden_make", GOLDEN / "make.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_is_a_file_of_every_policy_and_all_are_small():
    assert {record.name for record in registry.records()} <= {name.rsplit("-", 1)[0] for name in EXPECTED}
    for path in GOLDEN.glob("*.safetensors"):
        assert path.name in EXPECTED or path.name.startswith(("ledger", "bandit", "replica", "snapshot"))
        assert path.stat().st_size < 20_000


@pytest.mark.parametrize("name", EXPECTED)
def test_a_saved_policy_is_what_it_was_and_goes_on(name, make):
    said = EXPECTED[name]
    policy = tb.Policy.load(GOLDEN / name, **({"oracle": make.oracle} if name.startswith("own-oracle") else {}))
    assert policy.shape == make.SHAPE
    assert policy.forbidden == [{0: 2, 2: 0}]
    np.testing.assert_allclose(policy.ledger.rounds, said["rounds"], rtol=1e-12)
    np.testing.assert_allclose(policy.ledger.totals.sum(), said["total"], rtol=1e-12)
    # What follows is drawn and solved by code that may change; what the rewards say does not.
    largest = np.abs(policy.ledger.means).max()
    np.testing.assert_allclose(policy.estimate(make.CELLS), said["estimate"], atol=0.2 * largest)
    cells = make.play(policy, 12, 2)
    assert not [cell for cell in cells if (cell[0], cell[2]) == (2, 0)]
    assert policy.ledger.rounds == pytest.approx(said["rounds"] + 12)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("ledger-*.safetensors")), ids=lambda path: path.name)
def test_a_saved_ledger_is_what_it_was(path):
    ledger = tb.Ledger.load(path)
    assert ledger.shape == (3, 2, 3)
    assert ledger.rounds == 1.5
    assert ledger[0, 1, 1][1:] == (1.0, 0.875, 0.5 * (1.5**2 + 0.25**2))
    assert ledger[2, 0, 1].total == -1.0
    ledger.add((2, 1, 2), 4.0)
    assert ledger.received == 4.0


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("bandit-*.safetensors")), ids=lambda path: path.name)
def test_a_saved_bandit_is_what_it_was_and_goes_on(path):
    ids = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    now = 1500.0
    bandit = tb.Bandit.load(path, clock=lambda: now)
    assert [bandit.status(one) for one in ids] == ["rewarded", "cancelled", "open", "inactive", "open"]
    assert bandit.space.retired == {"offer": ["b"]}
    assert bandit.policy.ledger.rounds == bandit.policy.ledger.totals.sum() == 2.0
    bandit.tell(ids[2], 1)
    bandit.tell(ids[0], 0, amend=True)
    now = 1601.0
    assert bandit.status(ids[4]) == "timed out"
    assert (bandit.policy.ledger.rounds, bandit.policy.ledger.totals.sum()) == (4.0, 2.0)
    decisions = [bandit.ask(segment="old") for _ in range(20)]
    assert all(decision.arm["offer"] != "b" and decision.propensity > 0 for decision in decisions)
    assert {"offer": "c", "channel": "sms"} not in [decision.arm for decision in decisions]


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("snapshot-*.safetensors")), ids=lambda path: path.name)
def test_a_published_snapshot_decides_as_it_did_and_its_tokens_say_what_was_decided(path):
    spec = importlib.util.spec_from_file_location("golden_make_snapshot", GOLDEN / "make_snapshot.py")
    make = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make)
    said = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    snapshot = PublishedSnapshot.from_bytes(path.read_bytes())
    assert (snapshot.name, snapshot.uid, snapshot.version, snapshot.event) == (
        *("offers", said["uid"], said["version"], said["event"]),
    )
    assert make.chances(snapshot) == pytest.approx(said["chances"], rel=1e-12)
    assert {one["by"] for one in said["tokens"].values()} == {"policy", "floor", "holdout"}
    for token, one in said["tokens"].items():
        found = Token.read(token, TokenKeys(make.KEYS), snapshot.uid)
        labels = snapshot.space.labels(found.cell)
        assert {mode: labels[mode] for mode in one["arm"]} == one["arm"]
        assert (found.by, found.propensity, found.draw, found.time) == (
            *(one["by"], one["propensity"], one["draw"], one["time"]),
        )


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("log-*.db")), ids=lambda path: path.name)
def test_a_log_of_any_release_folds_to_what_was_known_then_and_goes_on(path, tmp_path):
    shutil.copy(path, tmp_path / "log.db")
    expected = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    with Store.open(tmp_path / "log.db") as store:
        assert [row.name for row in store.bandits()] == list(expected)
        for row in store.bandits():
            said, host = expected[row.name], Host(row, loading.rebuild(store, row))
            detail = host.detail()
            assert [host.status(one)["status"] for one in said["ids"]] == said["statuses"]
            assert {name: detail[name] for name in ("levels", "rules", "settings", "decisions", "waiting", "seq")} == {
                name: said[name] for name in ("levels", "rules", "settings", "decisions", "waiting", "seq")
            }
            ledger = host.core.policy.copy_ledger().state()
            for name, value in said["ledger"].items():
                np.testing.assert_allclose(ledger[name], value, rtol=1e-12, err_msg=name)
            changes, kinds = host.core.state.changelog.rows(), [event.kind for event in store.events(row.id)]
            assert [one["kind"] for one in changes] == [kind for kind in kinds if kind in loading.CHANGE_KINDS]
            assert {one["actor"] for one in changes} == {None}
            decided = said["ids"][-1]
            planned = host.core.state.plan(Tell(decided, 1), host.core.state.moment + 1.0)
            news = [New(event.kind, event.time, event.body(), event.decision) for event in planned]
            written = store.append(row.id, host.head, news)
            with host.turn:
                assert host.follow(written) == 1
            assert host.status(decided)["status"] == "rewarded"
            host.core.learner.take_in()
            assert loading.rebuild(store, row).policy.copy_ledger() == host.core.policy.copy_ledger()


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("numbers-*.json")), ids=lambda path: path.name)
def test_numbers_fall_where_they_did(path):
    said = json.loads(path.read_text(encoding="utf-8"))
    space = tb.Space.from_state(said["space"])
    for age, tenure, labels in said["rows"]:
        levels = space.given(age=age, tenure=tenure, hour=15, basket=age)
        assert space.labels((*levels, 0)) == labels
    assert json.loads(json.dumps(space.state())) == said["space"]


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("features-*.json")), ids=lambda path: path.name)
def test_features_become_the_columns_that_they_did(path):
    said = json.loads(path.read_text(encoding="utf-8"))
    space = tb.Space.from_state(said["space"])
    assert np.allclose(space.features["offer"].numbers, said["numbers"], rtol=1e-12, atol=1e-12)
    assert json.loads(json.dumps(space.state())) == said["space"]

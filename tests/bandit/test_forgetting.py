"""A bandit in process forgets whom its decisions were for, and nothing that it was told."""

import copy

import pytest

import tensorbandits as tb


@pytest.fixture
def bandit():
    made = tb.Bandit(tb.Space({"offer": ["a", "b", "c"]}), "ucb", window="1 h", default=0, clock=lambda: 5.0)
    for at in range(4):
        made.tell(made.ask(subject=f"customer-{at % 2}", id=f"order-{at}"), 1)
    made.ask(subject="customer-1", id="order-4")
    return made


def test_a_subject_is_forgotten(bandit):
    assert bandit.forget(subject="customer-1", why="asked", dry_run=True)["decisions"] == 3
    assert bandit.status("order-1") == "rewarded"
    before = bandit.policy.ledger.totals.tolist()
    expected = {"decisions": 3, "cancelled": 1, "dry_run": False}
    assert bandit.forget(subject="customer-1", why="asked", actor="Ann") == expected
    assert bandit.policy.ledger.totals.tolist() == before
    state = str(copy.deepcopy(bandit).state_dict())
    assert "customer-1" not in state
    assert "customer-0" in state
    ids = bytes(bandit.state_dict()["book"]["ids"]).decode()
    assert [name for name in ("order-1", "order-3", "order-4") if name in ids] == []
    assert bandit.waiting == 0
    with pytest.raises(LookupError, match="no decision has the id 'order-1'"):
        bandit.tell("order-1", 0, amend=True)
    assert bandit.changes()[0]["words"] == "3 decisions forgotten: asked"
    assert bandit.changes()[0]["actor"] == "Ann"
    assert bandit.forget(subject="customer-1", why="asked")["decisions"] == 0
    assert bandit.forget(decision="order-0", why="asked")["decisions"] == 1


def test_what_is_wrong_is_refused_and_changes_nothing(bandit):
    with pytest.raises(TypeError, match="either a decision or a subject"):
        bandit.forget(why="asked")
    with pytest.raises(ValueError, match="give the reason"):
        bandit.forget(subject="customer-1", why=" ")
    with pytest.raises(ValueError, match="the subject is"):
        bandit.ask(subject="a\nb")
    with pytest.raises(TypeError, match="the subject is 7"):
        bandit.ask(subject=7)
    assert bandit.waiting == 1


def test_changes_are_saved_with_their_actors(bandit, tmp_path):
    bandit.change(holdout=0.2, actor="Ann")
    bandit.add_level("offer", "d", actor="Bob")
    bandit.retire_level("offer", "a")
    bandit.save(tmp_path / "a.safetensors")
    found = tb.Bandit.load(tmp_path / "a.safetensors", clock=lambda: 5.0).changes()
    assert [(one["kind"], one["actor"]) for one in found] == [
        *[("LevelRetired", None), ("LevelAdded", "Bob"), ("Changed", "Ann")]
    ]
    with pytest.raises(ValueError, match="actor is ''"):
        bandit.change(holdout=0.1, actor="")
    assert len(bandit.changes(kinds=["Changed"])) == len(bandit.changes(actor="Ann")) == 1

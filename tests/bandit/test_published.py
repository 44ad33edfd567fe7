"""A published snapshot decides as the bandit does, and what is damaged, foreign or newer is refused."""

import dataclasses

import numpy as np
import pytest

import tensorbandits as tb
from tensorbandits.bandit.commands import Ask
from tensorbandits.bandit.plain_draws import draws_from_state, draws_state
from tensorbandits.bandit.published import (
    VERSION,
    CannotPublishError,
    PublishedSnapshot,
    SnapshotRefusedError,
)
from tensorbandits.base import codec

MODES = {"segment": ["new", "old"], "offer": ["a", "b", "video"], "channel": ["mail", "sms"]}


def told(reward: str = "bernoulli", rounds: int = 60, **settings: object) -> tb.Bandit:
    space = tb.Space(MODES, context=["segment"])
    space.forbid(offer="video", channel="sms")
    bandit = tb.Bandit(space, reward=reward, seed=0, **settings)  # type: ignore[arg-type]
    rng = np.random.default_rng(1)
    for _ in range(rounds):
        decision = bandit.ask(segment=str(rng.choice(["new", "old"])))
        good = decision.arm["offer"] == "b"
        bandit.tell(decision.id, float(rng.random() < 0.2 + 0.5 * good) * (1.0 if reward == "bernoulli" else 2.0))
    return bandit


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"rank": (2, 2, 2)},
        {"structure": "additive"},
        {"structure": "affine"},
        {"structure": "pairs"},
        {"reward": "gaussian"},
        {"reward": "count", "rounds": 20},
        {"reward": "revenue"},
        {"reward": "revenue-signed", "rounds": 20},
        {"residual": True},
    ],
    ids=str,
)
def test_a_snapshot_decides_as_the_bandit_does_when_it_comes_back_from_bytes(settings: dict[str, object]) -> None:
    bandit = told(**settings, floors=0.1, holdout=0.2, ceilings=[({"channel": "sms"}, 0.5)])  # type: ignore[arg-type]
    one = bandit.snapshot(name="offers")
    two = PublishedSnapshot.from_bytes(one.to_bytes())
    here, there = one.snapshot(), two.snapshot()
    for ask in (Ask((0,)), Ask((1,)), Ask((0,), ((1, (0, 2)),))):
        cells = [(ask.levels[0], offer, channel) for offer in range(3) for channel in range(2)]
        assert there.chances(ask, cells) == here.chances(ask, cells)
        drawn = [snapshot.decide(ask, np.random.default_rng(3)) for snapshot in (here, there)]
        assert drawn[0] == drawn[1]
        assert drawn[0].propensity == here.chances(ask, [drawn[0].cell])[0]
    cells = [(0, 1, 0), (1, 2, 0)]
    assert two.believed(cells).tolist() == one.believed(cells).tolist()


def test_a_snapshot_keeps_what_it_was_made_with() -> None:
    bandit = told(window="10 min", default=0, floors=0.1)
    bandit.add_level("offer", "summer")
    bandit.retire_level("offer", "a")
    one = bandit.snapshot(name="offers")
    two = PublishedSnapshot.from_bytes(one.to_bytes())
    for field in dataclasses.fields(PublishedSnapshot):
        if field.name != "draws":
            assert getattr(two, field.name) == getattr(one, field.name), field.name
    assert (two.name, two.version, two.event, two.reward, two.default) == ("offers", 1, 60, "bernoulli", 0.0)
    assert two.space.retired == {"offer": ["a"]}
    assert draws_state(two.draws)["numbers"] == list(one.draws.numbers)


def test_a_new_level_may_be_decided_from_a_snapshot_made_before_the_policy_drew_anew() -> None:
    bandit = told()
    bandit.add_level("offer", "summer")
    snapshot = PublishedSnapshot.from_bytes(bandit.snapshot(name="offers").to_bytes())
    assert snapshot.space.shape == (2, 4, 2)
    assert snapshot.snapshot().decide(Ask((0,)), np.random.default_rng(0)).propensity


def test_more_draws_are_made_for_a_snapshot_if_one_asks() -> None:
    bandit = told()
    numbers = bandit.snapshot(name="offers", draws=40).draws.numbers
    assert len(numbers) == len(set(numbers)) == 40
    assert len(bandit.snapshot(name="offers").draws.numbers) == 64


def test_all_draws_of_a_snapshot_know_the_last_rewards() -> None:
    bandit = told(rounds=200)
    before = set(bandit.snapshot(draws=16).draws.numbers)  # as many as the bandit has
    assert set(bandit.snapshot(draws=16).draws.numbers) == before  # nothing is new
    bandit.tell(arm={"offer": "a", "channel": "mail"}, context={"segment": "new"}, reward=1)
    after = bandit.snapshot(draws=16).draws.numbers
    assert len(after) == 16
    assert not before & set(after)


def test_draws_of_a_users_own_oracle_are_published() -> None:
    def oracle(ledger: tb.Ledger, rng: np.random.Generator) -> np.ndarray:
        return rng.standard_normal(ledger.shape)

    def tucker(ledger: tb.Ledger, rng: np.random.Generator) -> tb.Tucker:
        factors = tuple(rng.standard_normal((p, 1)) for p in ledger.shape)
        return tb.Tucker(np.ones((1,) * len(ledger.shape)), factors)

    for one in (oracle, tucker):
        policy = tb.ApproximateThompsonSampling((2, 3, 2), one, context=(0,), seed=0)
        bandit = tb.Bandit(tb.Space(MODES, context=["segment"]), policy, seed=0)
        snapshot = bandit.snapshot()
        again = PublishedSnapshot.from_bytes(snapshot.to_bytes())
        cells = [(0, 1, 0), (1, 2, 1)]
        assert again.believed(cells).tolist() == snapshot.believed(cells).tolist()
        assert again.check_reward(0.3) == 0.3


@pytest.mark.parametrize("policy", ["ucb", "epoch-greedy"])
def test_a_policy_that_does_not_sample_cannot_be_published(policy: str) -> None:
    bandit = tb.Bandit(tb.Space(MODES, context=["segment"]), policy, seed=0)
    with pytest.raises(
        CannotPublishError, match=r"does not decide from posterior draws.*policy 'thompson' or 'ensemble'"
    ):
        bandit.snapshot()


def test_what_is_damaged_or_cut_short_is_refused_in_clear_words() -> None:
    content = told().snapshot(name="offers").to_bytes()
    rng = np.random.default_rng(0)
    damaged = [content[:cut] for cut in (0, 7, 100, len(content) // 2, len(content) - 1)]
    for at in rng.integers(len(content), size=30).tolist():
        damaged.append(content[:at] + bytes((content[at] ^ 0xFF,)) + content[at + 1 :])
    for wrong in [*damaged, b"{}", b"\x00" * 200]:
        with pytest.raises(SnapshotRefusedError, match=r"the snapshot is (damaged or cut short|of a newer)"):
            PublishedSnapshot.from_bytes(wrong)


def test_a_snapshot_of_a_newer_release_is_refused_in_clear_words() -> None:
    state = codec.unpack(told().snapshot(name="offers").to_bytes()).state
    newer = codec.pack("snapshot", VERSION + 1, state)
    with pytest.raises(SnapshotRefusedError, match=rf"format {VERSION + 1}.*reads up to format {VERSION}.*upgrade"):
        PublishedSnapshot.from_bytes(newer)
    more = codec.pack("snapshot", VERSION, state | {"a later addition": 1})
    assert PublishedSnapshot.from_bytes(more).name == "offers"


def test_another_file_of_ours_is_no_snapshot() -> None:
    with pytest.raises(SnapshotRefusedError, match="holds a 'ledger', no published snapshot"):
        PublishedSnapshot.from_bytes(codec.pack("ledger", 1, tb.Ledger((2, 2)).state()))


@pytest.mark.parametrize(
    "change",
    [
        {"uid": "12"},
        {"version": 0},
        {"reward": "smiles"},
        {"space": {}},
        {"holdout": 2.0},
        {"time": "today"},
        {"name": "../offers"},
        {"draws": None},
        {"forbidden": [[[7, "x"]]]},
    ],
    ids=str,
)
def test_a_whole_file_that_says_what_cannot_be_is_refused(change: dict[str, object]) -> None:
    state = codec.unpack(told(rounds=2).snapshot(name="offers").to_bytes()).state
    with pytest.raises(SnapshotRefusedError, match="damaged or cut short"):
        PublishedSnapshot.from_bytes(codec.pack("snapshot", VERSION, state | change))


def test_draws_that_cannot_be_are_refused() -> None:
    bandit = told(rounds=2, structure="pairs", residual=True)
    good = draws_state(bandit.snapshot().draws)
    assert draws_from_state(good, (2, 3, 2)).numbers == tuple(good["numbers"])
    for wrong in (
        {"numbers": good["numbers"][1:]},
        {"draws": good["draws"][:1] * 64, "numbers": [1] * 64},
        {"last": 1.5},
    ):
        with pytest.raises(ValueError, match=r"draw|number"):
            draws_from_state(good | wrong, (2, 3, 2))
    with pytest.raises(ValueError, match="numbers of a draw"):
        draws_from_state(good, (2, 4, 2))


def test_rewards_are_checked_as_the_policy_checks_them() -> None:
    clicks = told(rounds=2).snapshot()
    assert clicks.check_reward(True) == 1.0
    with pytest.raises(ValueError, match=r'the reward is 0.5; with reward="bernoulli" allowed are'):
        clicks.check_reward(0.5)
    revenue = told("revenue", rounds=2).snapshot()
    with pytest.raises(ValueError, match=r'the reward is -1; with reward="revenue" allowed are'):
        revenue.check_reward(-1)


@pytest.mark.parametrize("name", ["", "../x", "a b", None, "x" * 101])
def test_a_name_that_cannot_be_is_refused(name: object) -> None:
    with pytest.raises(ValueError, match="the bandit's name is"):
        told(rounds=0).snapshot(name=name)  # type: ignore[arg-type]


def test_a_saved_bandit_goes_on_as_the_same_one(tmp_path: object) -> None:
    bandit = told(rounds=2)
    one = bandit.snapshot()
    bandit.save(f"{tmp_path}/b.safetensors")
    two = tb.Bandit.load(f"{tmp_path}/b.safetensors").snapshot()
    assert (two.uid, two.version) == (one.uid, one.version + 1)
    assert told(rounds=0).snapshot().uid != one.uid
    state = bandit.state_dict()
    old = {part: one for part, one in state.items() if part not in ("adopted", "forgotten", "published")}
    assert tb.Bandit.from_state_dict(old).snapshot().uid != one.uid
    with pytest.raises(ValueError, match=r"published is 7|the uid is"):
        tb.Bandit.from_state_dict(state | {"published": 7})

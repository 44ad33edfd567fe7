"""A decider decides by name, takes rewards by token, follows what is published, and goes on whatever happens to it."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tensorbandits as tb
from tensorbandits.bandit.published import PublishedSnapshot
from tensorbandits.bandit.publishing import POINTER, Pointer, place_of
from tensorbandits.base import codec
from tensorbandits.decider.decider import DeciderClosedError, SnapshotDecision
from tensorbandits.decider.following import NoSnapshotError
from tensorbandits.decider.tokens import Token, TokenExpiredError, TokenKeys, TokenRefusedError
from tests.decider.published import KEYS, Kept, decider, told


def until(done: Any, seconds: float = 20.0) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


# Deciding.


def test_a_decision_is_like_any_other_and_its_id_says_what_it_was() -> None:
    with decider(told().snapshot(name="offers"), clock=lambda: 1_795_000_000.1234) as deciding:
        decision = deciding.ask(segment="s1")
        assert isinstance(decision, tb.Decision)
        assert isinstance(decision, SnapshotDecision)
        assert decision.context == {"segment": "s1"}
        assert set(decision.arm) == {"offer", "channel"}
        assert decision.policy == "TensorThompsonSampling"
        again = tb.Decision.from_json(decision.to_json())
        assert (again.id, again.arm, again.propensity, again.time) == (
            *(decision.id, decision.arm, decision.propensity, decision.time),
        )
        token = Token.read(decision.id, TokenKeys(KEYS), deciding.snapshot.uid)  # type: ignore[union-attr]
        space = deciding.snapshot.space  # type: ignore[union-attr]
        assert space.labels(token.cell) == {**decision.context, **decision.arm}
        assert (token.time, token.by, token.propensity, token.version, token.draw) == (
            *(decision.time, decision.by, decision.propensity, decision.snapshot, decision.draw),
        )
        assert decision.time == 1_795_000_000.123


def test_what_a_caller_changes_of_a_decision_changes_no_other() -> None:
    with decider(told().snapshot()) as deciding:
        for _ in range(100):
            decision = deciding.ask(segment="s1")
            assert decision.arm.get("offer") is not None
            decision.arm.clear()
            decision.context.clear()
        assert deciding.ask(segment="s1").context == {"segment": "s1"}


def test_context_may_be_given_in_any_way_that_a_bandit_takes() -> None:
    with decider(told().snapshot()) as deciding:
        for ask in (
            lambda: deciding.ask(segment="s1"),
            lambda: deciding.ask({"segment": "s1"}),
            lambda: deciding.ask({}, segment="s1"),
            lambda: deciding.ask(segment="s1", allowed=None),
        ):
            assert {ask().context["segment"] for _ in range(3)} == {"s1"}
        allowed = {deciding.ask(segment="s1", allowed={"offer": ["c"]}).arm["offer"] for _ in range(50)}
        assert allowed == {"c"}


def test_labels_of_all_kinds_are_told_apart() -> None:
    modes = {"day": ["1", 1, True, 2.5, "x"], "offer": ["a", "b"]}
    bandit = tb.Bandit(tb.Space(modes, context=["day"]), reward="bernoulli", seed=0)
    with decider(bandit.snapshot()) as deciding:
        for _ in range(3):  # also when a request is known already
            for label in modes["day"]:
                found = deciding.ask(day=label).context["day"]
                assert (type(found), found) == (type(label), label)
        assert deciding.ask(day=1.0).context["day"] == 1


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "no label is given for 'segment'"),
        ({"segment": "s9"}, "'s9' is no level of mode 'segment'"),
        ({"segment": ["s1"]}, "has the label"),
        ({"segmnt": "s1"}, "did you mean 'segment'"),
        ({"segment": "s1", "offer": "a"}, "'offer' is decided, not given"),
        ({"segment": "s1", "allowed": {"offer": ["z"]}}, "'z' is no level"),
        ({"segment": "s1", "allowed": {"offer": ["video"], "channel": ["sms"]}}, "nothing may be chosen given"),
    ],
)
def test_a_request_that_cannot_be_decided_is_refused_like_one_of_a_bandit(given: dict[str, Any], says: str) -> None:
    sink = Kept()
    bandit = told()
    with decider(bandit.snapshot(), sink=sink) as deciding:
        for _ in range(2):
            with pytest.raises((TypeError, ValueError), match=says):
                deciding.ask(**given)
        with pytest.raises((TypeError, ValueError), match=says):
            bandit.ask(**given)
        with pytest.raises((TypeError, ValueError)):
            deciding.ask("s1")  # type: ignore[arg-type]
    assert sink.ids() == []


def test_many_are_decided_or_none() -> None:
    sink = Kept()
    with decider(told().snapshot(), sink=sink) as deciding:
        found = deciding.ask_many(pa.table({"segment": ["s1", "s4", "s1"], "user": [1, 2, 3]}))
        assert [one.context["segment"] for one in found] == ["s1", "s4", "s1"]
        assert found.to_frame(backend="pyarrow").num_rows == 3
        with pytest.raises(ValueError, match=r"(?s)row 1.*'s9' is no level"):
            deciding.ask_many([{"segment": "s1"}, {"segment": "s9"}])
    assert sink.ids() == [one.id for one in found]


def test_numbers_as_context_fall_into_the_regions_of_the_snapshot() -> None:
    modes = {"age": tb.Numeric(cuts=[18, 35, 65]), "place": tb.Numeric("x", "y"), "offer": ["a", "b"]}
    bandit = tb.Bandit(tb.Space(modes, context=["age", "place"]), reward="bernoulli", seed=0)
    with decider(PublishedSnapshot.from_bytes(bandit.snapshot().to_bytes())) as deciding:
        frame = pa.table({"age": [17.0, 18.0, None], "x": [1.0, 2.0, 3.0], "y": [1.0, 2.0, None], "user": [1, 2, 3]})
        wanted = [one.context for one in bandit.ask_many(frame)]
        assert [one.context for one in deciding.ask_many(frame)] == wanted
        assert [deciding.ask(row).context for row in frame.drop_columns("user").to_pylist()] == wanted
        with pytest.raises(ValueError, match="age"):
            deciding.ask(x=1, y=2)


def test_the_best_arm_is_the_one_that_the_draws_believe_in_most() -> None:
    bandit = told(rounds=300)
    sink = Kept()
    with decider(bandit.snapshot(), sink=sink) as deciding:
        best = [deciding.best(segment=f"s{at}") for at in range(5)]
        assert sum(one["offer"] == "b" for one in best) >= 4
        assert deciding.best({"segment": "s1"}, allowed={"offer": ["c"]})["offer"] == "c"
    assert not sink.batches


# Rewards.


def test_a_reward_needs_no_look_up_and_says_what_was_decided() -> None:
    one, two = Kept(), Kept()
    snapshot = told().snapshot(name="offers")
    with decider(snapshot, sink=one) as deciding, decider(snapshot, sink=two) as other:
        decision = deciding.ask(segment="s1")
        other.tell(decision.id, 1)
        other.tell(decision, 0, amend=True)
    [event, amended] = [event for batch in two.batches for event in batch.events]
    assert (event.id, event.reward, event.amend) == (decision.id, 1.0, False)
    assert (amended.reward, amended.amend) == (0.0, True)
    assert snapshot.space.labels(event.token.cell) == {**decision.context, **decision.arm}
    [batch] = two.batches
    assert batch.columns()["propensity"] == [decision.propensity] * 2
    assert batch.rows()[0]["decided"] == pytest.approx(decision.time * 1e6, abs=1)
    assert (batch.bandit, batch.uid, batch.kind) == ("offers", snapshot.uid, "rewards")


def test_a_reward_that_cannot_be_is_refused_and_nothing_is_written() -> None:
    sink, now = Kept(), [1_795_000_000.0]
    snapshot = told().snapshot()
    with (
        decider(snapshot, sink=sink, clock=lambda: now[0], expires="1 h") as deciding,
        decider(told(seed=1).snapshot(), clock=lambda: now[0]) as other,
        decider(snapshot, keys={"2026-11": b"another secret of ours"}, clock=lambda: now[0]) as forger,
    ):
        decision = deciding.ask(segment="s1")
        deciding.flush()
        sink.batches.clear()
        for wrong in (0.5, "much", float("nan"), None):
            with pytest.raises((TypeError, ValueError), match="reward"):
                deciding.tell(decision.id, wrong)
        with pytest.raises(TokenRefusedError, match="of another bandit"):
            deciding.tell(other.ask(segment="s1").id, 1)
        with pytest.raises(TokenRefusedError, match="not signed"):
            deciding.tell(forger.ask(segment="s1").id, 1)
        with pytest.raises(TokenRefusedError, match="is no token"):
            deciding.tell("3f2a-7", 1)
        with pytest.raises(TypeError, match="amend"):
            deciding.tell(decision.id, 1, amend="yes")  # type: ignore[arg-type]
        with pytest.raises(TokenRefusedError):
            deciding.tell_many([(decision.id, 1), ("3f2a-7", 1)])
        now[0] += 3_601
        with pytest.raises(TokenExpiredError, match="rewards are taken for 60 minutes"):
            deciding.tell(decision.id, 1)
        assert deciding.flush()
        assert not sink.batches
        now[0] -= 3_600
        deciding.tell_many([(decision.id, 1), (decision, 1)])
    assert sink.ids("rewards") == [decision.id] * 2


def test_without_a_sink_a_reward_is_refused_in_clear_words() -> None:
    with decider(told().snapshot()) as deciding, pytest.raises(ValueError, match=r"has no sink.*ParquetSink"):
        deciding.tell(deciding.ask(segment="s1").id, 1)


# Following.


def test_it_follows_what_is_published(tmp_path: Path) -> None:
    bandit = told()
    bandit.publish(tmp_path, name="offers")
    with decider(tmp_path) as deciding:
        assert deciding.ask(segment="s1").snapshot == 1
        bandit.add_level("segment", "s5")
        bandit.retire_level("segment", "s0")
        deciding.ask(segment="s0")
        bandit.publish(tmp_path, name="offers")
        until(lambda: deciding.status()["version"] == 2)
        assert deciding.ask(segment="s5").snapshot == 2
        with pytest.raises(ValueError, match="'s0' of mode 'segment' is retired"):
            deciding.ask(segment="s0")
        status = deciding.status()
    assert (status["bandit"], status["problem"], status["snapshots"]) == ("offers", None, 2)
    assert 0 <= status["age"] < 60
    assert 0 <= status["looked"] < 60


def test_a_decider_waits_for_the_first_snapshot_and_says_that_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(NoSnapshotError, match="nothing is published there yet; publish the bandit"):
        decider(tmp_path / "nowhere", wait=0.1)
    with decider(tmp_path, wait=0) as deciding:
        for call in (
            lambda: deciding.ask(segment="s1"),
            lambda: deciding.ask_many([{"segment": "s1"}]),
            lambda: deciding.best(segment="s1"),
            lambda: deciding.tell("x", 1),
        ):
            with pytest.raises(NoSnapshotError, match="there is no snapshot at"):
                call()
        assert deciding.status()["version"] is None
        told().publish(tmp_path)
        until(lambda: deciding.status()["version"] == 1)
        assert deciding.ask(segment="s1").snapshot == 1


def damaged(content: bytes) -> bytes:
    return content[:200] + bytes((content[200] ^ 1,)) + content[201:]


def newer(content: bytes) -> bytes:
    return codec.pack("snapshot", 99, codec.unpack(content).state)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (damaged, "has a damaged snapshot"),
        (lambda content: content[: len(content) // 2], "has a damaged snapshot"),
        (lambda content: b"", "has a damaged snapshot"),
    ],
    ids=["damaged", "truncated", "empty"],
)
def test_what_is_damaged_is_said_and_the_last_good_snapshot_goes_on(tmp_path: Path, change: Any, says: str) -> None:
    bandit = told()
    bandit.publish(tmp_path, name="offers")
    with decider(tmp_path) as deciding:
        bandit.publish(tmp_path / "aside", name="offers")
        [file] = (tmp_path / "aside").glob("offers-2-*.safetensors")
        content = file.read_bytes()
        (tmp_path / file.name).write_bytes(change(content))
        os.replace(tmp_path / "aside" / POINTER, tmp_path / POINTER)
        until(lambda: deciding.status()["problem"])
        assert says in deciding.status()["problem"]
        assert deciding.ask(segment="s1").snapshot == 1
        (tmp_path / file.name).write_bytes(content)
        until(lambda: deciding.status()["version"] == 2 and deciding.status()["problem"] is None, 60)


def test_a_snapshot_of_another_bandit_or_of_a_newer_release_is_said_and_not_used(tmp_path: Path) -> None:
    bandit = told()
    bandit.publish(tmp_path, name="offers")
    with decider(tmp_path) as deciding:
        told(seed=1).publish(tmp_path, name="offers", replace=True)
        until(lambda: deciding.status()["problem"])
        assert "has a snapshot of another bandit now" in deciding.status()["problem"]
        assert deciding.ask(segment="s1").snapshot == 1
        published = bandit.snapshot(name="offers").with_version(9)
        content = newer(published.to_bytes())
        place_of(tmp_path).put(Pointer.of(published, content), content)
        until(lambda: "format 99" in (deciding.status()["problem"] or ""), 60)
        assert "upgrade tensorbandits" in deciding.status()["problem"]
        assert deciding.ask(segment="s1").snapshot == 1
        assert deciding.status()["version"] == 1


def test_decisions_go_on_while_the_publisher_is_away_for_an_hour(tmp_path: Path) -> None:
    bandit, now = told(), [time.time()]
    bandit.publish(tmp_path / "p", name="offers")
    with decider(tmp_path / "p", clock=lambda: now[0]) as deciding:
        (tmp_path / "p").rename(tmp_path / "away")
        (tmp_path / "p").write_text("no folder any more")
        until(lambda: deciding.status()["problem"])
        now[0] += 3_600
        assert deciding.ask(segment="s1").snapshot == 1
        assert 3_590 <= deciding.status()["age"] < 3_700
        (tmp_path / "p").unlink()
        (tmp_path / "away").rename(tmp_path / "p")
        bandit.publish(tmp_path / "p", name="offers")
        until(lambda: deciding.status()["version"] == 2 and deciding.status()["problem"] is None, 60)


def test_an_older_snapshot_is_not_gone_back_to(tmp_path: Path) -> None:
    bandit = told()
    for _ in range(2):
        bandit.publish(tmp_path, name="offers")
    with decider(tmp_path) as deciding:
        [file] = tmp_path.glob("offers-1-*.safetensors")
        old = PublishedSnapshot.from_bytes(file.read_bytes())
        content = old.to_bytes()
        (tmp_path / POINTER).write_bytes(Pointer.of(old, content).written())
        deciding.refresh()
        assert deciding.status()["version"] == 2
        assert deciding.status()["problem"] is None


def test_requests_of_late_are_ready_before_a_new_snapshot_is_used(tmp_path: Path) -> None:
    bandit = told()
    bandit.publish(tmp_path)
    with decider(tmp_path) as deciding:
        for segment in ("s1", "s2"):
            deciding.ask(segment=segment)
        bandit.publish(tmp_path)
        until(lambda: deciding.status()["version"] == 2)
        ready = deciding._follower.ready
        assert ready is not None
        assert {request.ask.levels for request in ready._requests.values()} == {(1,), (2,)}
        assert set(ready.by_words) == {(("segment", "s1"),), (("segment", "s2"),)}
        before = deciding.snapshot
        deciding.ask(segment="s2")
        bandit.publish(tmp_path)
        until(lambda: deciding.snapshot is not before)
        assert {request.ask.levels for request in deciding._follower.ready._requests.values()} == {(2,)}  # type: ignore[union-attr]


def test_more_requests_than_are_kept_are_decided_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorbandits.decider import arms

    monkeypatch.setattr(arms, "REQUESTS", 3)
    with decider(told().snapshot()) as deciding:
        for at in range(60):
            assert deciding.ask(segment=f"s{at % 5}").context == {"segment": f"s{at % 5}"}
        assert len(deciding._follower.ready.by_words) <= 3  # type: ignore[union-attr]


# Threads, processes, the end.


def test_any_thread_may_ask_and_tell_while_snapshots_are_swapped(tmp_path: Path) -> None:
    bandit, sink = told(), Kept(rows=50)
    bandit.publish(tmp_path, name="offers")
    with decider(tmp_path, sink=sink) as deciding:
        stop = threading.Event()

        def work(number: int) -> list[str]:
            made = []
            while not stop.is_set():
                decision = deciding.ask(segment=f"s{number}")
                deciding.tell(decision.id, 1)
                made.append(decision.id)
                time.sleep(0.0005)
            return made

        with ThreadPoolExecutor(5) as pool:
            found = [pool.submit(work, number) for number in range(5)]
            for version in range(2, 6):
                bandit.publish(tmp_path, name="offers")
                until(lambda version=version: deciding.status()["version"] == version)
            stop.set()
            made = [one for each in found for one in each.result()]
    assert len(set(made)) == len(made)
    assert sorted(sink.ids()) == sorted(sink.ids("rewards")) == sorted(made)
    assert sink.closed


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_children_of_a_fork_repeat_neither_ids_nor_arms_and_send_their_own_events(tmp_path: Path) -> None:
    bandit, sink = told(floors=1.0), Kept(seconds=60.0)
    bandit.publish(tmp_path / "p", name="offers")
    with decider(tmp_path / "p", sink=sink, seed=7) as deciding:
        waiting = deciding.ask(segment="s1").id
        children = []
        for number in range(2):
            child = os.fork()
            if child == 0:  # pragma: no cover - in the child
                code = 1
                try:
                    made = [deciding.ask(segment="s1") for _ in range(40)]
                    deciding.flush()
                    sent = sink.ids()
                    bandit.publish(tmp_path / "p", name="offers", replace=True)
                    until(lambda: deciding.status()["version"] != 1)
                    lines = [f"{one.id} {sorted(one.arm.items())}" for one in made]
                    (tmp_path / f"{number}.txt").write_text("\n".join(lines))
                    code = 0 if sent == [one.id for one in made] else 2
                finally:
                    os._exit(code)
            children.append(child)
        assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0]
        here = [deciding.ask(segment="s1") for _ in range(40)]
        deciding.flush()
        assert sink.ids() == [waiting, *(one.id for one in here)]
    lines = [(tmp_path / f"{number}.txt").read_text().splitlines() for number in range(2)]
    both = [[line.split(" ", 1) for line in some] for some in lines]
    ids = {one.id for one in here} | {waiting} | {line[0] for some in both for line in some}
    assert len(ids) == 121
    arms = [[line[1] for line in some] for some in both] + [[str(sorted(one.arm.items())) for one in here]]
    assert arms[0] != arms[1] != arms[2] != arms[0]


def test_a_closed_decider_says_so() -> None:
    deciding = decider(told().snapshot(), sink=Kept())
    decision = deciding.ask(segment="s1")
    assert deciding.close()
    assert deciding.close()
    with pytest.raises(DeciderClosedError):
        deciding.ask(segment="s1")
    with pytest.raises(DeciderClosedError):
        deciding.tell(decision.id, 1)


def test_a_decider_that_nobody_has_any_more_sends_what_waits_and_ends_its_threads(tmp_path: Path) -> None:
    told().publish(tmp_path)
    sink = Kept(seconds=60.0)
    deciding = decider(tmp_path, sink=sink)
    threads = {deciding._follower._thread, deciding._sender._thread}  # type: ignore[union-attr]
    made = deciding.ask(segment="s1").id
    del deciding
    until(lambda: sink.ids() == [made])
    until(lambda: not any(thread is not None and thread.is_alive() for thread in threads))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"keys": {"a": b"short"}}, "too short"),
        ({"every": 0}, "every is 0"),
        ({"wait": -1}, "wait is -1"),
        ({"expires": 100}, "expires is 100; give a duration"),
        ({"expires": "soon"}, "expires is 'soon'"),
        ({"buffer": 0}, "buffer is 0"),
        ({"seed": -1}, "seed"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        decider(told(rounds=0).snapshot(), **settings)


@pytest.mark.parametrize("source", ["", None, "http://server/offers", "http:///v1/bandits/x", "ftp1://x"])
def test_a_source_that_cannot_be_is_refused(source: Any) -> None:
    with pytest.raises(ValueError, match="address"):
        decider(source, wait=0)


def test_keys_must_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TENSORBANDITS_TOKEN_KEYS", raising=False)
    with pytest.raises(ValueError, match=r"no token keys are given.*set TENSORBANDITS_TOKEN_KEYS"):
        tb.Decider(told(rounds=0).snapshot())

"""Events reach a sink in batches, once each, and what cannot be sent is kept, counted, or refused."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tensorbandits.decider.sending import SinkFullError
from tensorbandits.decider.tokens import TokenRefusedError
from tests.decider.published import Kept, decider, told


def until(done: Any, seconds: float = 20.0) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def test_a_batch_is_handed_over_when_it_is_full() -> None:
    sink = Kept(rows=10, seconds=3_600)
    with decider(told().snapshot(), sink=sink) as deciding:
        made = [deciding.ask(segment="s1").id for _ in range(25)]
        until(lambda: len(sink.ids()) == 20)
        assert {len(batch.events) for batch in sink.batches} == {10}
        assert deciding.status()["waiting"] == 5
    assert sink.ids() == made
    assert [batch.number for batch in sink.batches] == [1, 2, 3]


def test_a_batch_is_handed_over_after_its_seconds() -> None:
    sink = Kept(rows=1_000, seconds=0.05)
    with decider(told().snapshot(), sink=sink) as deciding:
        made = deciding.ask(segment="s1").id
        until(lambda: sink.ids() == [made])
        assert deciding.status()["sent"] == {"decisions": 1, "rewards": 0}
        assert deciding.status()["waiting"] == 0


def test_no_answer_waits_for_the_sink_and_memory_is_bounded() -> None:
    sink = Kept(rows=10, seconds=0.01)
    sink.gate.clear()  # a write that never ends
    with decider(told().snapshot(), sink=sink, buffer=50) as deciding:
        deciding.ask(segment="s1")
        until(lambda: deciding._sender._batch is not None)  # type: ignore[union-attr]
        held = len(deciding._sender._batch.events)  # type: ignore[union-attr]
        decisions = [deciding.ask(segment="s1") for _ in range(200)]
        status = deciding.status()
        assert status["waiting"] == 50 + held
        assert status["dropped"] == 150
        for one in decisions[:50]:
            deciding.tell(one.id, 1)
        with pytest.raises(SinkFullError, match=r"50 rewards wait for the sink.*nothing was taken: tell it again"):
            deciding.tell(decisions[50].id, 1)
        with pytest.raises(SinkFullError):
            deciding.tell_many([(one.id, 1) for one in decisions[50:60]])
        sink.gate.set()
        assert deciding.flush()
        deciding.tell(decisions[50].id, 1)  # also of a decision that was dropped
    assert sink.ids("rewards") == [one.id for one in decisions[:51]]
    assert len(sink.ids()) == 50 + held
    assert len(set(sink.ids())) == 50 + held


def test_a_full_disk_is_said_and_nothing_is_lost_or_written_twice() -> None:
    sink = Kept(rows=10, seconds=0.01)
    sink.fails = 3
    with decider(told().snapshot(), sink=sink) as deciding:
        made = [deciding.ask(segment="s1").id for _ in range(5)]
        until(lambda: deciding.status()["sink_problem"])
        assert "No space left on device" in deciding.status()["sink_problem"]
        made += [deciding.ask(segment="s1").id for _ in range(5)]
        until(lambda: deciding.status()["sent"]["decisions"] == 10)
        assert deciding.status()["sink_problem"] is None
    assert sink.ids() == made


def test_what_cannot_be_sent_before_the_end_is_said() -> None:
    sink = Kept(rows=10, seconds=3_600)
    sink.fails = 10**9
    deciding = decider(told().snapshot(), sink=sink)
    deciding.ask(segment="s1")
    assert not deciding.flush(0.1)
    assert not deciding.close(0.1)
    assert deciding.status()["waiting"] == 1


def test_a_sink_that_hangs_is_not_waited_for_longer_than_one_says() -> None:
    sink = Kept(rows=1, seconds=0.01)
    sink.gate.clear()
    deciding = decider(told(rounds=0).snapshot(), sink=sink)
    deciding.ask(segment="s1")
    until(lambda: deciding._sender._writing.locked())  # type: ignore[union-attr]
    began = time.monotonic()
    assert not deciding.flush(0.1)
    assert not deciding.close(0.1)
    assert time.monotonic() - began < 20.0
    assert not sink.closed  # while it writes
    sink.gate.set()


def test_an_id_that_is_no_token_goes_to_a_sink_that_knows_such_ids_only() -> None:
    one, two = Kept(), Kept()
    two.knows_ids = True  # type: ignore[attr-defined]
    snapshot = told(rounds=0).snapshot()
    with decider(snapshot, sink=one) as deciding, decider(snapshot, sink=two) as other:
        with pytest.raises(TokenRefusedError, match="is no token"):
            deciding.tell("order 17", 1)
        other.tell("order 17", 1)
        with pytest.raises(ValueError, match=r"the reward is 0\.5"):
            other.tell("order 18", 0.5)
        forged = decider(snapshot, keys={"2026-11": bytes(32)}).ask(segment="s1").id
        with pytest.raises(TokenRefusedError, match="not signed"):
            other.tell(forged, 1)
    assert (one.ids("rewards"), two.ids("rewards")) == ([], ["order 17"])


def test_a_batch_has_columns_and_rows_as_the_lake_has_them() -> None:
    sink = Kept()
    with decider(told(holdout=0.25).snapshot(name="offers"), sink=sink, clock=lambda: 1_795_000_000.5) as deciding:
        made = [deciding.ask(segment="s1") for _ in range(40)]
    rows = [row for batch in sink.batches for row in batch.rows()]
    for one, row in zip(made, rows, strict=True):
        assert row["id"] == one.id
        assert row["time"] == 1_795_000_000_500_000
        assert (row["snapshot"], row["draw"], row["by"], row["propensity"]) == (1, one.draw, one.by, one.propensity)
        assert (row["policy_chance"], row["holdout_chance"]) == (0.75, 0.25)
        assert (row["draw"] is None) == (one.by == "holdout")
    assert {row["by"] for row in rows} == {"policy", "holdout"}


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["", "raise SystemExit(3)", "1 / 0"])
def test_a_program_that_ends_by_itself_hands_over_what_waits(ends: str, tmp_path: Path) -> None:
    told(rounds=0).publish(tmp_path / "p", name="offers")
    program = (
        "import tensorbandits as tb\n"
        f"sink = tb.ParquetSink({str(tmp_path / 'lake')!r}, seconds=3600)\n"
        f"decider = tb.Decider({str(tmp_path / 'p')!r}, keys={{'a': bytes(16)}}, sink=sink)\n"
        f"for _ in range(7): decider.ask(segment='s1')\n{ends}\n"
    )
    subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, timeout=120)
    [file] = (tmp_path / "lake").glob("decisions/*/*/*.parquet")
    assert pq.ParquetFile(file).metadata.num_rows == 7

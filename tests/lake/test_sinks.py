"""What deciders hand to sinks is what a lake, Redis Streams or a function gets, once and whole."""

import errno
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tensorbandits as tb
from tensorbandits.base.folders import Folder
from tensorbandits.lake import records
from tensorbandits.lake.streams import StreamMover
from tests.decider.published import decider, told
from tests.lake.redis_server import redis_address

__all__ = ["redis_address"]
NOON = 1_795_003_200.0  # a full hour


def lake_of(folder: Path | str, kind: str) -> pa.Table:
    """Return all records of a kind in a lake."""
    files = sorted(Path(folder).glob(f"{kind}/bandit=offers/hour=*/part-*.parquet"))
    return pa.concat_tables([pq.ParquetFile(file).read() for file in files])


def test_a_lake_gets_each_decision_and_each_reward_in_the_hour_of_the_decision(tmp_path: Path) -> None:
    now = [NOON - 1.0]
    sink = tb.ParquetSink(tmp_path, rows=30, seconds=3_600)
    with decider(told(holdout=0.2).snapshot(name="offers"), sink=sink, clock=lambda: now[0]) as deciding:
        made = [deciding.ask(segment="s1") for _ in range(10)]
        now[0] += 2.0
        made += [deciding.ask(segment="s2") for _ in range(40)]
        now[0] += 7_200.0
        for one in made:
            deciding.tell(one.id, 1)
        deciding.tell(made[0].id, 0, amend=True)
    decisions, rewards = lake_of(tmp_path, "decisions"), lake_of(tmp_path, "rewards")
    assert sorted(decisions["id"].to_pylist()) == sorted(one.id for one in made)
    assert rewards.num_rows == 51
    hours = {path.name: path for path in (tmp_path / "decisions" / "bandit=offers").iterdir()}
    first, second = (f"hour={records.hour_of(moment)}" for moment in (NOON - 1, NOON))
    assert set(hours) == {path.name for path in (tmp_path / "rewards" / "bandit=offers").iterdir()} == {first, second}
    by_id = {one.id: one for one in made}
    for row in decisions.to_pylist():
        one = by_id[row["id"]]
        assert (row["by"], row["propensity"], row["draw"], row["snapshot"]) == (
            *(one.by, one.propensity, one.draw, one.snapshot),
        )
        assert row["time"].timestamp() == pytest.approx(one.time)
    for row in rewards.to_pylist():
        one = by_id[row["id"]]
        assert row["decided"].timestamp() == pytest.approx(one.time)
        assert (row["by"], row["propensity"]) == (one.by, one.propensity)
    origin = records.Origin.of(pq.read_schema(next(hours[first].iterdir())))
    assert origin is not None
    assert (origin.kind, origin.bandit, len(origin.uid)) == ("decisions", "offers", 16)


def test_a_disk_that_is_full_on_the_way_leaves_no_half_file_and_no_second_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, left = [NOON - 1.0], [1]
    write = Folder.write

    def short(self: Folder, name: str, content: bytes) -> None:
        if left[0] == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        left[0] -= 1
        write(self, name, content)

    monkeypatch.setattr(Folder, "write", short)
    sink = tb.ParquetSink(tmp_path, rows=100, seconds=3_600)
    with decider(told().snapshot(name="offers"), sink=sink, clock=lambda: now[0]) as deciding:
        made = [deciding.ask(segment="s1").id for _ in range(3)]
        now[0] += 2.0
        made += [deciding.ask(segment="s1").id for _ in range(3)]
        assert not deciding.flush(0.1)  # of two files the first was written
        assert "No space left" in deciding.status()["sink_problem"]
        assert len(lake_of(tmp_path, "decisions")) == 3
        made.append(deciding.ask(segment="s1").id)  # decisions go on
        left[0] = 100
        assert deciding.flush()
    assert sorted(lake_of(tmp_path, "decisions")["id"].to_pylist()) == sorted(made)


def test_two_processes_write_files_of_different_names(tmp_path: Path) -> None:
    one = tb.ParquetSink(tmp_path)
    before = one._writer
    one.own_again()
    assert len({before, one._writer, tb.ParquetSink(tmp_path)._writer}) == 3


def test_what_redis_streams_get_is_moved_into_a_lake(redis_address: str, tmp_path: Path) -> None:
    sink = tb.RedisSink(redis_address, rows=20, seconds=3_600)
    with decider(told(floors=0.2).snapshot(name="offers"), sink=sink) as deciding:
        made = [deciding.ask(segment="s1") for _ in range(50)]
        for one in made[:5]:
            deciding.tell(one, 1)
        status = deciding.status()
        assert status["problem"] is None
    mover = StreamMover(redis_address, "offers", tmp_path)
    mover.move()
    decisions = lake_of(tmp_path, "decisions").to_pylist()
    assert [(row["id"], row["propensity"], row["by"], row["draw"]) for row in decisions] == [
        (one.id, one.propensity, one.by, one.draw) for one in made
    ]
    assert lake_of(tmp_path, "rewards")["id"].to_pylist() == [one.id for one in made[:5]]
    mover.close()


def test_snapshots_are_published_to_redis_and_followed(redis_address: str) -> None:
    bandit, address = told(), f"{redis_address}?key=published-offers"
    bandit.publish(address, name="offers")
    with decider(address) as deciding:
        assert deciding.ask(segment="s1").snapshot == 1
        bandit.publish(address, name="offers")
        deciding.refresh()
        assert deciding.ask(segment="s1").snapshot == 2
        with pytest.raises(ValueError, match="another bandit"):
            told(seed=1).publish(address, name="offers")


def test_redis_that_is_away_is_said_and_decisions_go_on() -> None:
    sink = tb.RedisSink("redis://:secret@127.0.0.1:1/0", rows=1, seconds=0.01)
    with decider(told().snapshot(name="offers"), sink=sink) as deciding:
        for _ in range(20):
            deciding.ask(segment="s1")
        assert not deciding.flush(0.1)
        assert deciding.status()["waiting"] == 20
        assert "secret" not in deciding.status()["sink_problem"]
        assert not deciding.close(0.1)


def test_a_function_gets_rows() -> None:
    found: list[tuple[str, dict[str, Any]]] = []
    sink = tb.FunctionSink(lambda kind, rows: found.extend((kind, row) for row in rows), seconds=0.01)
    with decider(told().snapshot(name="offers"), sink=sink) as deciding:
        one = deciding.ask(segment="s1")
        deciding.tell(one, 1)
    assert [(kind, row["id"]) for kind, row in found] == [("decisions", one.id), ("rewards", one.id)]
    assert json.dumps(found)  # rows are plain data
    with pytest.raises(TypeError, match="function is 7"):
        tb.FunctionSink(7)  # type: ignore[arg-type]


@pytest.mark.parametrize(("rows", "seconds"), [(0, 1.0), (1.5, 1.0), (10, 0.0), (10, -1)])
def test_batches_that_cannot_be_are_refused(rows: Any, seconds: Any) -> None:
    with pytest.raises(ValueError, match=r"rows|seconds"):
        tb.FunctionSink(print, rows=rows, seconds=seconds)

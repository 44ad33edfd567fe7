"""The mover: what stands in Redis Streams lies in the lake, once or twice, never less, whatever is killed."""

import logging
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tensorbandits.base.folders import Folder
from tensorbandits.lake.streams import MovedEvents, StreamMover, entry_of, stream_of
from tests.lake import lakes
from tests.lake.redis_server import redis_address
from tests.servers import Redis

__all__ = ["redis_address"]
LATER = lakes.START + 3 * 3600


@pytest.fixture
def client(redis_address):
    """A connection to Redis, with nothing in it."""
    import redis

    with redis.Redis.from_url(redis_address) as client:
        client.flushall()
        yield client


@pytest.fixture
def mover(tmp_path, redis_address):
    """What makes movers, which are closed at the end."""
    made = []

    def make(name="mover", address=redis_address, **options):
        made.append(StreamMover(address, lakes.NAME, tmp_path / "lake", name=name, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def rows(found, uid):
    """The rows of a history, by kind."""
    return {
        kind: lakes.table(kind, some, uid).cast(_plain(kind, some, uid)).to_pylist()
        for kind, some in (("decisions", found.decisions), ("rewards", found.rewards))
    }


def _plain(kind, some, uid):
    schema = lakes.table(kind, some, uid).schema
    return pa.schema([(one.name, pa.int64() if pa.types.is_timestamp(one.type) else one.type) for one in schema])


def add(client, found, uid, name=lakes.NAME):
    with client.pipeline(transaction=False) as pipe:
        for kind, some in rows(found, uid).items():
            for row in some:
                pipe.xadd(stream_of(name, kind), entry_of(row, uid))
        pipe.execute()


def ids(lake, kind, name=lakes.NAME):
    """The ids of all records of a kind in a lake."""
    files = sorted(Path(lake).glob(f"{kind}/bandit={name}/*/part-*.parquet"))
    return sorted(one for file in files for one in pq.ParquetFile(file).read(["id"])["id"].to_pylist())


def test_all_that_is_moved_is_learned_once(tmp_path, client, mover):
    _, uid = lakes.bandit(tmp_path)
    found = lakes.history(31, 200)
    add(client, found, uid)
    moving = mover(rows=70)
    done = []
    while (one := moving.move()) != MovedEvents():
        done.append(one)
    assert sum(one.decisions for one in done) == len(found.decisions)
    assert sum(one.rewards for one in done) == len(found.rewards)
    assert all(client.xlen(stream_of(lakes.NAME, kind)) == 0 for kind in ("decisions", "rewards"))
    learner = lakes.learner(tmp_path, tmp_path / "lake")
    learner.learn(LATER)
    assert lakes.counted(learner.ledger) == lakes.exact(found.wanted(LATER))


class Killed(BaseException):
    """What stands for the death of a mover."""


@pytest.mark.parametrize("when", ["before a file", "after some files", "before acknowledging"])
def test_a_mover_that_is_killed_loses_nothing(tmp_path, client, mover, monkeypatch, when):
    import redis

    _, uid = lakes.bandit(tmp_path)
    found = lakes.history(32, 100)
    add(client, found, uid)
    left, write = [{"before a file": 0, "after some files": 3}.get(when, 99)], Folder.write

    def dying(self, name, content):
        left[0] -= 1
        if left[0] < 0:
            raise Killed
        write(self, name, content)

    def no_end(self, *given, **more):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "write", dying)
        if when == "before acknowledging":
            patch.setattr(redis.client.Pipeline, "execute", no_end)
        with pytest.raises(Killed):
            mover().move()
    again = mover()  # under the same name
    again.move()
    again.move()
    assert set(ids(tmp_path / "lake", "decisions")) == {row[0] for row in found.decisions}
    learner = lakes.learner(tmp_path, tmp_path / "lake")
    done = learner.learn(LATER)
    assert lakes.counted(learner.ledger) == lakes.exact(found.wanted(LATER))
    once = sum(map(len, found)) - done.counts["decisions"] - done.counts["rewards"]
    repeated = done.counts["repeated_decisions"] + done.counts["repeated_rewards"]
    assert (repeated > once) == (when != "before a file")


def test_what_another_mover_left_is_taken_over(tmp_path, client, mover, monkeypatch):
    from tensorbandits.lake import streams

    monkeypatch.setattr(streams, "_IDLE", 0)
    found = lakes.history(33, 30)
    add(client, found, "00" * 8)
    stream = stream_of(lakes.NAME, "decisions")
    client.xgroup_create(stream, "tensorbandits-lake", id="0")
    client.xreadgroup("tensorbandits-lake", "dead", {stream: ">"}, count=10)  # and then it was no more
    mover(name="alive").move()
    moving = mover(name="alive")
    moving.move()
    assert ids(tmp_path / "lake", "decisions") == sorted(row[0] for row in found.decisions)


def test_several_movers_share_the_work(tmp_path, client, mover):
    found = lakes.history(34, 120)
    add(client, found, "00" * 8)
    movers = [mover(name=name, rows=40) for name in "ab"]
    done = [moving.move() for _ in range(6) for moving in movers]
    assert min(sum(one.decisions for one in done[at::2]) for at in (0, 1)) > 0
    assert ids(tmp_path / "lake", "decisions") == sorted(row[0] for row in found.decisions)


def test_entries_that_hold_no_event_are_kept_apart_with_the_reason(tmp_path, client, mover):
    stream = stream_of(lakes.NAME, "decisions")
    [good] = rows(lakes.History([("a", int(lakes.START * 1e6), (0, 0, 0))], []), "00")["decisions"]
    bad = [{"row": "no json"}, {"row": "{}", "uid": "00"}, entry_of(good | {"time": 1e300}, "00")]
    bad += [entry_of(good | {"propensity": "much"}, "00"), entry_of({**good, "more": 1}, "00")]
    for fields in [*bad, entry_of(good, "00")]:
        client.xadd(stream, fields)
    moving = mover()
    done = moving.move()
    assert (done.decisions, done.refused) == (1, len(bad))
    refused = client.xrange(f"{lakes.NAME}:refused")
    assert len(refused) == len(bad)
    assert all(fields[b"why"] and fields[b"kind"] == b"decisions" for _, fields in refused)
    assert client.xlen(stream) == 0


def test_entries_that_were_deleted_meanwhile_are_passed_over(tmp_path, client, mover):
    stream = stream_of(lakes.NAME, "decisions")
    add(client, lakes.History([("a", int(lakes.START * 1e6), (0, 0, 0))], []), "00")
    client.xgroup_create(stream, "tensorbandits-lake", id="0")
    client.xreadgroup("tensorbandits-lake", "mover", {stream: ">"})
    client.xtrim(stream, 0)  # while a mover had it in hand
    moving = mover()
    assert moving.move().refused == 0
    assert client.xlen(f"{lakes.NAME}:refused") == 0
    assert client.xpending(stream, "tensorbandits-lake")["pending"] == 0


def test_entries_stay_for_others_when_one_says_so(tmp_path, client, mover):
    add(client, lakes.history(35, 20), "00" * 8)
    many = client.xlen(stream_of(lakes.NAME, "decisions"))
    moving = mover(delete=False)
    assert moving.move().decisions == many
    assert client.xlen(stream_of(lakes.NAME, "decisions")) == many
    assert moving.move() == MovedEvents()


def test_redis_that_is_killed_and_comes_back_is_waited_for(mover, caplog):
    import redis

    server = Redis(durable=True)
    try:
        found, rounds = lakes.history(36, 40), []
        with redis.Redis.from_url(server.start().url) as client:
            add(client, found, "00" * 8)
        server.kill()
        moving = mover(address=server.url, seconds=0.1)
        looks = []

        def until():
            looks.append(1)
            if len(looks) == 3:
                server.start()
            return bool(rounds)

        with caplog.at_level(logging.WARNING, logger="tensorbandits"):  # whatever a test before had it be
            for done in moving.run(until=until):
                rounds.append(done)
        assert rounds[0].decisions == len(found.decisions)
        assert len([one for one in caplog.records if "cannot be moved just now" in one.message]) == 1
    finally:
        server.close()


def test_a_mover_that_runs_lets_events_gather(mover, client):
    moving, looks = mover(seconds=3_600), []

    def until():
        looks.append(1)
        if len(looks) < 4:
            add(client, lakes.History([(f"{len(looks)}", int(lakes.START * 1e6), (0, 0, 0))], []), "00" * 8)
        return len(looks) >= 5

    assert [done.decisions for done in moving.run(until=until)] == [1]
    assert client.xlen(stream_of(lakes.NAME, "decisions")) == 2
    full = mover(rows=2, seconds=3_600)
    assert next(full.run()).decisions == 2
    with pytest.raises(ValueError, match="seconds"):
        mover(seconds=0)

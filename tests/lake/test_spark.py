"""Spark runs the same join: the same sums as DuckDB to the last bit, in batches and as files come."""

import shutil

import pytest

from tensorbandits.lake.engines import DuckEngine, engine_of
from tensorbandits.lake.spark import LakeStream, SparkEngine
from tests.lake import lakes
from tests.lake.spark_session import spark

__all__ = ["spark"]
pytestmark = pytest.mark.slow  # Spark needs many seconds to start
END = lakes.START + 2 * 3600
LATER = END + 4000


def same_as_duckdb(place, lake, engine, now, **options):
    """Learn with an engine and with DuckDB, and return what both came to."""
    one = lakes.learner(place, lake, engine=engine, kept=place / "kept-spark", **options)
    two = lakes.learner(place, lake, engine=DuckEngine(threads=1), kept=place / "kept-duckdb", **options)
    done, other = one.learn(now), two.learn(now)
    assert one.total.sums == two.total.sums
    assert one.total.makers == two.total.makers
    assert (done.counts, done.makers, done.beyond) == (other.counts, other.makers, other.beyond)
    return one, done


def gaussian(rng):
    return float(rng.normal(3.0, 1e-3))


def test_spark_comes_to_the_sums_of_duckdb_and_of_a_plain_loop(tmp_path, spark):
    _, uid = lakes.bandit(tmp_path, reward="gaussian", default=0.1)
    found = lakes.history(21, 150, reward=gaussian)
    lakes.write(tmp_path / "lake [1]", found, uid)  # signs that a pattern of paths has
    learner, done = same_as_duckdb(tmp_path, tmp_path / "lake [1]", SparkEngine(spark), END)
    assert lakes.counted(learner.ledger) == lakes.exact(found.wanted(END, default=0.1))
    assert 0 < done.counts["waiting"] < done.counts["defaults"]


@pytest.mark.parametrize("kind", ["bernoulli", "binomial", "count", "revenue", "revenue-signed"])
def test_spark_takes_the_rewards_that_duckdb_takes(tmp_path, spark, kind):
    _, uid = lakes.bandit(tmp_path, reward=kind)
    moment = int(lakes.START * 1e6)
    values = [0.0, -0.0, 1.0, 0.5, 2.0, -1.0, 1e15, 1e15 + 2, 1e100, 1e101, 1e-100, 1e-101, float("inf"), float("nan")]
    rewards = [(f"{at}", moment + 1, value, False, (0, at % 3, 0), moment) for at, value in enumerate(values)]
    rewards += [("m", moment + 1, 1.0, False, (0, 0), moment), ("n", moment + 1, 1.0, False, (0, 0, -1), moment)]
    lakes.write(tmp_path / "lake", lakes.History([("d", moment, (0, 0, 0, 0))], rewards), uid)
    _, done = same_as_duckdb(tmp_path, tmp_path / "lake", SparkEngine(spark), LATER)
    assert done.counts["unusable_rewards"] > 2


def test_spark_and_duckdb_take_turns_in_rounds_of_one_learner(tmp_path, spark):
    _, uid = lakes.bandit(tmp_path)
    first, more = lakes.history(22), lakes.history(23)
    lakes.write(tmp_path / "lake", first, uid)
    one = lakes.learner(tmp_path, tmp_path / "lake", engine=SparkEngine(spark))
    one.learn(END)
    lakes.write(tmp_path / "lake", more, uid, writer="more")
    two = lakes.learner(tmp_path, tmp_path / "lake")
    two.learn(LATER)
    whole = lakes.History(first.decisions + more.decisions, first.rewards + more.rewards)
    assert lakes.counted(two.ledger) == lakes.exact(whole.wanted(LATER))


def streamed(learner, place, **options):
    """Let a stream learn what there is now, and return its rounds."""
    stream = LakeStream(learner, checkpoint=f"{place}/checkpoint", **{"lateness": "1 hour"} | options)
    query = stream.start()
    query.awaitTermination()
    assert query.exception() is None
    return stream.rounds


def test_a_stream_comes_to_the_sums_of_a_batch_whatever_is_cut(tmp_path, spark):
    _, uid = lakes.bandit(tmp_path)
    lake = tmp_path / "lake"
    parts = [lakes.history(seed, 120) for seed in (24, 25, 26)]
    for at, part in enumerate(parts):
        lakes.write(lake, part, uid, writer=f"w{at}")
        learner = lakes.learner(tmp_path, lake, engine=SparkEngine(spark), clock=lambda: LATER)
        rounds = streamed(learner, tmp_path)  # each time anew, as after a restart
        assert sorted({hour for one in rounds for hour in one.joined}) == ["2026-11-19T04", "2026-11-19T05"]
    assert streamed(learner, tmp_path) == []  # nothing new, nothing joined
    whole = lakes.History(*([row for part in parts for row in part[at]] for at in (0, 1)))
    assert lakes.counted(learner.ledger) == lakes.exact(whole.wanted(LATER))
    shutil.rmtree(tmp_path / "checkpoint")  # all triggers are carried out again
    again = lakes.learner(tmp_path, lake, engine=SparkEngine(spark), clock=lambda: LATER)
    assert all(one.joined == [] for one in streamed(again, tmp_path))
    assert again.ledger == learner.ledger


def test_the_watermark_closes_hours_and_a_batch_opens_them_again(tmp_path, spark):
    _, uid = lakes.bandit(tmp_path)
    lake, clock = tmp_path / "lake", [lakes.START + 10 * 3600.0]
    rows = {hour: [(f"{hour}", int((lakes.START + 3600 * hour + 60) * 1e6), (0, hour % 3, 0))] for hour in range(5)}
    learner = lakes.learner(tmp_path, lake, engine=SparkEngine(spark), clock=lambda: clock[0])

    def come(name, *some):
        for hour in some:
            lakes.write(lake, lakes.History(rows[hour], []), uid, writer=f"{name}{hour}")
        return [hour for one in streamed(learner, tmp_path, lateness="2 hours") for hour in one.joined]

    assert come("first", 0, 4) == ["2026-11-19T04", "2026-11-19T08"]
    late = [("late", rows[0][0][1] + 1, (1, 0, 0))]
    lakes.write(lake, lakes.History(late, []), uid, writer="late")  # beyond the watermark, which is at 06:01
    assert come("in_time", 3) == ["2026-11-19T07"]
    assert learner.ledger[1, 0, 0].rounds == 0
    all_files = LakeStream(learner, lateness="2 hours", checkpoint="none").learn_all()
    assert all_files.joined == ["2026-11-19T04"]
    assert learner.ledger[1, 0, 0].rounds == 1
    assert learner.ledger.rounds == 4


def test_a_decider_whose_clock_is_ahead_closes_no_hours(tmp_path, spark):
    _, uid = lakes.bandit(tmp_path)
    lake = tmp_path / "lake"
    ahead = [("ahead", int((lakes.START + 10 * 365 * 86_400) * 1e6), (0, 0, 0))]
    learner = lakes.learner(tmp_path, lake, engine=SparkEngine(spark), clock=lambda: LATER)
    lakes.write(lake, lakes.History(ahead, []), uid)
    assert len(streamed(learner, tmp_path, lateness="10000 days")[0].joined) == 1
    now = [("now", int(lakes.START * 1e6), (0, 1, 0))]
    lakes.write(lake, lakes.History(now, []), uid, writer="now")
    assert streamed(learner, tmp_path, lateness="10000 days")[0].joined == ["2026-11-19T04"]


def test_files_that_spark_wrote_are_learned_when_one_says_so(tmp_path, spark):
    """As a stream of Spark's own would write them, from Kafka for instance."""
    _, uid = lakes.bandit(tmp_path)
    found = lakes.history(27, 100)
    lakes.write(tmp_path / "source", found, uid)
    for kind in ("decisions", "rewards"):
        rows = spark.read.option("basePath", f"{tmp_path}/source/{kind}").parquet(f"{tmp_path}/source/{kind}")
        rows.write.partitionBy("bandit", "hour").parquet(f"{tmp_path}/lake/{kind}")
    learner, done = same_as_duckdb(tmp_path, tmp_path / "lake", SparkEngine(spark), LATER, foreign=True)
    assert done.refused == {}
    assert lakes.counted(learner.ledger) == lakes.exact(found.wanted(LATER))
    strict = lakes.learner(tmp_path, tmp_path / "lake", kept=tmp_path / "kept-strict")
    assert all("foreign=True" in why for why in strict.learn(LATER).refused.values())


def test_a_stream_needs_spark(tmp_path):
    lakes.bandit(tmp_path)
    with pytest.raises(TypeError, match="the learner's engine is a DuckEngine; make it with a SparkEngine"):
        LakeStream(lakes.learner(tmp_path, tmp_path / "lake"), lateness="1 hour", checkpoint="c")


def test_spark_without_java_says_what_to_install(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="Spark needs Java 17 or newer, which is not installed here"):
        engine_of("spark")

"""The suite of lakes: what it counts without engines, that it sees what is lost or made up, and a run with kills."""

import json
import os
import struct

import numpy as np
import pytest

from benchmarks.service import lake, lake_costs, lake_count, lake_run, lake_worker
from benchmarks.service.lake_worker import SHAPE, Run, WitnessedSink, keys_of, read_journal
from benchmarks.store import Options, Store
from tensorbandits.decider.sending import EventBatch, ToldEvent
from tensorbandits.decider.tokens import Token
from tests.lake import lakes
from tests.lake.needs import missing
from tests.plain import lake as plain

NOW = lakes.START + 3 * 3600.0


@pytest.fixture
def run(tmp_path):
    """An empty run of one decider."""
    (tmp_path / "run.json").write_text(json.dumps({"deciders": 1, "began": 0.0, "speed": 1.0}))
    return Run(tmp_path)


def told(count, seed=0):
    """Rewards as they wait for a sink."""
    rng = np.random.default_rng(seed)
    events = []
    for _ in range(count):
        cell = tuple(int(rng.integers(size)) for size in SHAPE)
        token = Token("00" * 8, lakes.START + float(rng.random()), 1, None, "policy", cell, 0.5, (1.0, 0.0), b"")
        events.append(ToldEvent(rng.bytes(40).hex(), token.time + 1.0, float(rng.integers(2)), False, token))
    return events


class Failing:
    """A sink that fails as often as it is told to."""

    rows, seconds = 10, 1.0

    def __init__(self):
        self.fails, self.batches = 0, []

    def write(self, batch):
        if self.fails:
            self.fails -= 1
            raise OSError("away")
        self.batches.append(batch)
        return 0

    def close(self):
        pass


def test_a_journal_says_what_the_sink_had_and_what_it_may_have(run):
    sink = Failing()
    witnessed = WitnessedSink(sink, run.journal(0, 0))
    batches = [EventBatch("rewards", "offers", "00" * 8, number, told(5, number)) for number in (1, 2, 3)]
    witnessed.write(batches[0])
    sink.fails = 2
    for _ in range(2):
        with pytest.raises(OSError, match="away"):
            witnessed.write(batches[1])
    witnessed.write(batches[1])  # again, as it was
    sink.fails = 1
    with pytest.raises(OSError, match="away"):
        witnessed.write(batches[2])
    content = run.journal(0, 0).read_bytes()
    found = read_journal(run.journal(0, 0))
    assert [(kind, len(events), done) for kind, events, done in found] == [
        *[("rewards", 5, True)] * 2,
        ("rewards", 5, False),
    ]
    assert found[0][1]["key"].tolist() == keys_of([event.id for event in batches[0].events]).tolist()
    run.journal(0, 0).write_bytes(content[:-7])  # killed while it wrote
    assert [done for _, _, done in read_journal(run.journal(0, 0))] == [True, True]


def test_the_count_is_that_of_a_plain_loop():
    found = lakes.history(51, 500, shape=SHAPE, reward=lambda rng: float(rng.choice(lake_worker.PRICES)))
    places = {number: at for at, number in enumerate(sorted({row[0] for row in found.decisions + found.rewards}))}
    flat = [int(np.ravel_multi_index(row[2], SHAPE)) for row in found.decisions]
    decisions = [(places[row[0]], row[1], cell) for row, cell in zip(found.decisions, flat, strict=True)]
    rewards = [(places[row[0]], row[1], row[2], row[3], np.ravel_multi_index(row[4], SHAPE)) for row in found.rewards]
    made = np.array(decisions, dtype=lake_worker.DECISION)
    said = np.array(rewards, dtype=lake_worker.REWARD)
    sums = lake_count.sums_of(made, said, NOW * 1e6, lakes.WINDOW * 1e6, 0.1)
    assert sums == lakes.exact(found.wanted(NOW, default=0.1))
    assert len(plain.sums(found.wanted(NOW, default=0.1))) == len(sums)


def test_what_is_lost_and_what_is_made_up_is_seen(run):
    events = told(6)
    batch = EventBatch("rewards", "offers", "00" * 8, 1, events)
    WitnessedSink(Failing(), run.journal(0, 0)).write(batch)

    def write(some):
        rows = [(one.id, round(one.time * 1e6), one.reward, False, one.token.cell) for one in some]
        decided = int(lakes.START * 1e6)
        lakes.write(run.lake, lakes.History([], [(*row, decided) for row in rows]), "00" * 8, pieces=1)

    write(events)
    facts = lake_count.count(run, NOW, 600.0, 0.0)[1]["rewards"]
    assert (facts["flushed"], facts["flushed and lost"], facts["made up"], facts["in the lake"]) == (6, 0, 0, 6)
    write([*events[:4], *told(3, 9)])  # over the file before
    facts = lake_count.count(run, NOW, 600.0, 0.0)[1]["rewards"]
    assert (facts["flushed"], facts["flushed and lost"], facts["made up"], facts["in the lake"]) == (6, 2, 3, 7)


def test_what_is_killed_has_its_share_of_each_kind():
    import random

    kills = lake_run.kills_of(20, random.Random(0))
    assert {what: kills.count(what) for what in lake_run.VICTIMS} == lake_run.VICTIMS
    assert len(lake_run.kills_of(4, random.Random(0))) == 4


def test_numbers_of_lives_do_not_overlap():
    places = [lake_worker.place_of(decider, life) for decider in range(3) for life in range(lake_worker.LIVES)]
    assert places == list(range(0, 3 * lake_worker.LIVES * struct.calcsize("<qq"), struct.calcsize("<qq")))


@pytest.mark.slow
def test_a_short_run_with_kills_comes_to_the_independent_count(tmp_path):
    if os.system("command -v redis-server > /dev/null"):
        missing("redis-server is not installed (Debian: apt-get install redis-server); the run was not tested")
    options = Options(quick=True)
    store = Store(tmp_path, lake.NAME)
    for settings in lake.plan(options):
        small = {"hours": 3} if settings["task"] == "idle" else {}
        result = lake.measure(settings | small)
        store.add(settings, result, 1.0)
        if settings["task"] == "whole":
            assert sum(result["killed"].values()) == settings["kills"]
            assert result["made"] == settings["decisions"]
            for kind in ("decisions", "rewards"):
                assert (result["facts"][kind]["flushed and lost"], result["facts"][kind]["made up"]) == (0, 0)
            assert all(one["exact"] for one in result["learned"].values())
            assert result["learned"]["duckdb"]["same bits"]
            assert result["rewards_counted"] == result["counts"]["rewards"] + result["counts"]["defaults"]
    parts, data = lake.section(store, options)
    assert len(data) == len(lake.plan(options))
    assert len(parts) > 4


def test_the_join_is_measured_with_every_engine_and_number_of_cores():
    tasks = [settings for settings in lake_costs.plan(Options()) if settings["task"] == "join"]
    assert {(settings["engine"], settings["cores"]) for settings in tasks} == {
        *(("duckdb", 1), ("duckdb", 2), ("spark", 1), ("spark", 2))
    }
    assert len({lake.label(settings) for settings in lake.plan(Options())}) == len(lake.plan(Options()))

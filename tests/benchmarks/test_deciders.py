"""What the suite of deciders concludes: arms that come as the law says, and what is known of a campaign, and when."""

import itertools
from pathlib import Path

import numpy as np
import pytest

import tensorbandits as tb
from benchmarks.service import deciders, deciders_said, staleness
from benchmarks.service.deciding import KEYS, MODES, bandit, fit, records
from benchmarks.store import Options, Store


def words(parts):
    return "\n".join(part.markdown() for part in parts)


def test_arms_are_held_to_the_law_of_their_snapshot(tmp_path: Path):
    made = bandit(2_000)
    snapshots = {}
    with tb.Decider(made.publish(tmp_path / "p"), keys=KEYS, sink=tb.ParquetSink(tmp_path / "lake"), seed=1) as decider:
        snapshots[1] = decider.snapshot
        for at in range(3_000):
            decider.ask(segment=MODES["segment"][at % 20])
    tables = records(tmp_path / "lake")
    found = fit(tables, snapshots)
    assert (found["decisions"], found["compared"], found["wrong"]) == (3_000, 3_000, pytest.approx(0.0, abs=1e-12))
    assert found["p"] > 1e-6
    other = bandit(2_000, floors=0.9, seed=1).snapshot()
    wrong = fit(tables, {1: other})
    assert wrong["p"] < 1e-6
    assert wrong["wrong"] > 0.01
    assert fit(tables, {})["compared"] == 0


@pytest.mark.parametrize("every", [1.0, 10.0, 70.0, 600.0, 3_600.0])
def test_everything_becomes_known_once_and_not_before_its_time(every: float):
    rng, slices = np.random.default_rng(0), max(round(600 / every), 1)
    waiting, decided = staleness.Waiting(3, every), np.array([40, 0, 2_000])
    rates = np.array([0.5, 0.5, 0.1])
    for at in range(slices):
        waiting.add(at, decided, rates, rng)
    counts, sums, known = np.zeros(3), np.zeros(3), []
    for at in itertools.count():
        news = waiting.known(at)
        if news is not None:
            counts, sums = counts + news[0], sums + news[1]
        known.append(counts.sum())
        if not waiting._counts and not waiting._sums:
            break
    assert counts.tolist() == (slices * decided).tolist()
    clicks = slices * decided * rates * (1.0 - staleness.LOST)
    assert np.abs(sums - clicks).max() < 6.0 * np.sqrt(clicks.max())
    assert known[0] == 0.0  # nothing is known before the first slice has passed
    full = round(staleness.WINDOW / every)
    if every < staleness.WINDOW:  # within the window only clicks are known
        assert known[max(full - 1, 0)] <= sums.sum()


def test_campaigns_are_played_by_the_laws_of_their_snapshots():
    found = staleness.play(3, rate=20, seconds=400, every=100)
    assert found["decisions"] == 8_000
    assert 0.0 < found["own"] < found["possible"]
    assert 0 < found["rewards"] < 8_000
    space, _ = staleness.campaign(3)
    published = tb.Bandit(space, reward="bernoulli", floors=0.1, holdout=0.1, seed=0).snapshot()
    own, rest = staleness.Laws(space).of(published)
    assert (own + rest).sum(axis=1) == pytest.approx(np.ones(8))
    assert rest.sum(axis=1) == pytest.approx(np.full(8, 0.19))


def test_what_was_measured_is_said_and_missing_measurements_are_left_out(tmp_path: Path):
    options = Options(quick=True)
    store = Store(tmp_path, deciders.NAME, module=deciders.MEASURED)
    parts, numbers = deciders_said.section(store, options)
    assert numbers == []
    one = {"regret": 0.2, "own": 0.1, "possible": 0.3, "decisions": 6_000.0, "rewards": 5.0}
    for settings in deciders.plan(options):
        if settings["task"] == "age":
            store.add(settings, one | {"regret": 0.2 + 0.001 * settings["every"], "busy": "load 1"}, 1.0)
    parts, numbers = deciders_said.section(store, options)
    assert len(numbers) == 2 * len(deciders.WAYS)
    assert "| 10 to 20 | 64 | 0.2100 | 1.040 ± 0.000 |" in words(parts)


@pytest.mark.slow
def test_the_short_run_measures_everything(tmp_path: Path):
    options = Options(quick=True)
    store = Store(tmp_path, deciders.NAME, module=deciders.MEASURED)
    for settings in deciders.plan(options):
        store.add(settings, deciders.measure(settings), 1.0)
    parts, numbers = deciders_said.section(store, options)
    assert len(numbers) == len(deciders.plan(options))
    assert "in the decider" in words(parts)

"""The suites that hold what is said beside the truth: the quick form of each runs, and reports every line."""

import json

import pytest

from benchmarks import store
from benchmarks.library import checkups, trust
from tests.benchmarks.test_benchmarks import run


def test_a_quick_run_of_trust_reports_every_world(tmp_path, monkeypatch):
    monkeypatch.setattr(trust, "DECISIONS", 2_000)  # whatever it concludes is of the whole run
    monkeypatch.setattr(trust, "PART", 5)
    monkeypatch.setattr(trust, "LOOKS", 5)
    monkeypatch.setattr(trust, "LOOKS_BACK", 5)
    monkeypatch.setattr(trust, "SEEN", 200)
    monkeypatch.setattr(trust, "ASKED", 200)
    result = run("trust", "--quick", "--jobs", "1", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "results.json").read_text())["trust"]
    assert [len(found[name]) for name in ("watched", "returning", "covered", "judged", "beside")] == [10, 10, 5, 20, 4]
    for row in found["watched"]:
        assert row["ever called better"].endswith("%")
    for row in found["judged"]:
        assert row["wrong"] == "0"
    assert "the demonstration" in (tmp_path / "report.md").read_text()


def test_a_seed_names_other_worlds_and_the_first_ones_are_those_without():
    plans = {seed: [store.key(one) for one in trust.plan(store.Options(seed=seed))] for seed in (0, 500)}
    assert len(plans[0]) == len(plans[500]) > 0
    assert not set(plans[0]) & set(plans[500])
    few = {"what": "covered", "rewards": "clicks", "worlds": 2}
    assert trust.measure(few) == trust.measure(few | {"first": 0}) != trust.measure(few | {"first": 2})


def test_a_quick_run_of_checkup_says_of_no_rewards_and_of_a_hundred_that_they_are_too_few(tmp_path, monkeypatch):
    monkeypatch.setattr(checkups, "KINDS", ("gaussian",))
    result = run("checkup", "--quick", "--jobs", "1", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "results.json").read_text())["checkup"]
    assert len(found["structure"]) == 2 * len(checkups.TRUTHS) * len(checkups.KINDS)
    for row in found["structure"] + found["drift"]:
        assert row["wrong"].startswith("0 of ")
    for row in found["drift"]:
        assert (row["still"], row["moved"]) == ("0", "0")


@pytest.mark.parametrize("truth", checkups.TRUTHS)
def test_worlds_are_what_they_are_called(truth):
    import numpy as np

    values = checkups.values(truth, np.random.default_rng(0))
    main = values - values.mean()
    for axis in range(3):
        main = main - main.mean(axis=tuple(other for other in range(3) if other != axis), keepdims=True)
    together = (main**2).mean() / max(values.var(), 1e-12)
    assert together == pytest.approx({"interactions": 2 / 3}.get(truth, 0.0), abs=0.15)

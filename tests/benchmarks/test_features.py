"""The suite of features: its quick form runs every task, and verdicts are those of its numbers."""

import json

import numpy as np
import pytest

from benchmarks.library import features
from benchmarks.library.features_worlds import OFFER, World
from tests.benchmarks.test_benchmarks import run


def test_a_quick_run_reports_every_task(tmp_path):
    result = run("features", "--quick", "--jobs", "1", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "results.json").read_text())["features"]
    assert set(found) == {"new", "rolling", "noise", "misled", "covers", "time"}
    assert [row["explained"] for row in found["new"]] == ["0%", "30%", "70%", "100%"]


@pytest.mark.parametrize("share", [0.0, 0.7, 1.0])
def test_features_explain_that_share_of_the_offers_rows(share):
    world = World.drawn(2_000, 100, share, np.random.default_rng(0))
    rows = np.moveaxis(world.mean, OFFER, 0).reshape(2_000, -1)
    rows = rows - rows.mean(axis=0)
    design = np.column_stack([world.features, np.ones(2_000)])
    fit = design @ np.linalg.lstsq(design, rows, rcond=None)[0]
    assert (fit**2).sum() / (rows**2).sum() == pytest.approx(share, abs=0.1)


def test_a_ratio_is_that_of_means_with_the_error_of_paired_numbers():
    rng = np.random.default_rng(0)
    worlds = rng.uniform(1.0, 10.0, size=(2_000, 30))
    found = np.array([features.ratio(0.5 * one + rng.standard_normal(30), one) for one in worlds])
    assert found[:, 0].mean() == pytest.approx(0.5, abs=0.01)
    assert found[:, 0].std() == pytest.approx(found[:, 1].mean(), rel=0.1)


def test_the_better_way_is_chosen_by_its_mean_and_what_is_within_the_error_is_said():
    found = [
        ({"task": "new", "share": 0.3, "new": 10, "rounds": 400, "way": way, "seed": seed}, {"regret": r, "first": r})
        for seed in range(20)
        for way, r in (("ignored", 30.0 + seed), ("guiding", 21.0 + seed), ("determining", 20.0 + seed))
    ]
    _, header, (row,) = features.of_new(found)
    said = dict(zip(header, row))
    assert (said["better"], said["guiding beside it"], said["verdict"]) == ("determining", "1.03 ± 0.00", "holds")

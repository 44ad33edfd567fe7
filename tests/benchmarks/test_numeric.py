"""Flights to new destinations: what a policy is taught and judged by, and that each one plays."""

import numpy as np
import pytest

from benchmarks.library import numeric
from benchmarks.store import Options, Store

SIZES = {"log": 400, "rounds": 30}


def test_the_log_has_none_of_the_destinations_that_are_planned_for():
    log, online = numeric.world(3, 400, 100)
    assert not set(log.columns["dest"]) & set(online.columns["dest"])
    assert (len(log.columns), online.earns.shape) == (400, (100, len(numeric.MINUTES)))
    took = online.columns["air_time"].to_numpy()
    for row, minutes in zip(online.earns, took, strict=True):
        best = numeric.MINUTES[row.argmax()]
        assert row.max() == 0.0 or best == numeric.MINUTES[minutes <= numeric.MINUTES].min()
    again, _ = numeric.world(3, 400, 100)
    np.testing.assert_array_equal(again.earns, log.earns)


@pytest.mark.parametrize("policy", [name for name in numeric.PLAYERS if "bayesianbandits" not in name])
def test_every_policy_plays_and_is_reported(policy, tmp_path):
    result = numeric.measure({"policy": policy, "seed": 1, **SIZES})
    assert 0.0 <= result["all"] <= 1.0
    options = Options(quick=True, fresh_seed=1)
    store = Store(tmp_path, numeric.NAME, True, numeric.MEASURED)
    for settings in numeric.plan(options):
        store.add(settings, {"all": 0.1 * settings["seed"] + (settings["policy"] == numeric.OURS), "first": 0.2}, 1.0)
    _, said = numeric.section(store, options)
    less = {line["policy"]: line["less"] for line in said["lines"]}
    assert less[numeric.OURS] == [0.0, 0.0]
    assert all(
        mean == pytest.approx(1.0) and half < 1e-9 for name, (mean, half) in less.items() if name != numeric.OURS
    )

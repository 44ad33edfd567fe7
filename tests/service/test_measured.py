"""The suites that measure the service run, and say what they found; the numbers are for a run of them at length."""

import pytest

from benchmarks.service import load, replicas, soak
from benchmarks.store import Options, Store


def kept(suite, folder, settings, result):
    """A store in which the first measurement of a short run has a result."""
    store = Store(folder, suite.NAME, module=suite.MEASURED)
    store.add(settings, result, 1.0)
    return store


def words(parts):
    return "\n".join(part.markdown() for part in parts)


@pytest.mark.slow
def test_load_compares_decisions_with_a_route_that_does_nothing(tmp_path):
    options = Options(quick=True)
    settings = load.plan(options)[0] | {"slices": 1, "seconds": 0.2}
    result = load.measure(settings)
    assert all(kind["count"] >= load.CLIENTS for kind in result["kinds"].values())
    parts, numbers = load.section(kept(load, tmp_path, load.plan(options)[0], result), options)
    assert "asks at least 0.5 of no-ops" in words(parts)
    assert numbers["ratios"]["sqlite"]["kinds"]["ask"]["rate"] > 0
    for part in parts:
        if hasattr(part, "draw"):
            part.draw(tmp_path / "figure.png")
            assert (tmp_path / "figure.png").stat().st_size > 1000


@pytest.mark.parametrize("rounds", [100, pytest.param(500, marks=pytest.mark.slow)])
def test_a_soak_plays_all_rounds_and_a_killed_server_knows_them_again(rounds, tmp_path):
    options = Options(quick=True)
    settings = soak.plan(options)[0]
    result = soak.measure(settings | {"rounds": rounds, "points": 4})
    assert result["counts"] == {"decisions": rounds, "rewards": rounds, "waiting": 0, "seq": 2 * rounds + 1}
    assert result["same"]
    parts, _ = soak.section(kept(soak, tmp_path, settings, result), options)
    assert "memory, MB" in words(parts)


@pytest.mark.slow
@pytest.mark.usefixtures("postgres")
def test_replicas_that_were_fed_halves_of_the_traffic_know_the_same(tmp_path):
    options = Options(quick=True)
    settings = replicas.plan(options)[0]
    result = replicas.measure(settings | {"seeds": 2, "rounds": 40})
    assert result["same"] == result["bandits"] == 4
    assert result["events"] == 4 * (1 + 2 * 40)
    parts, _ = replicas.section(kept(replicas, tmp_path, settings, result), options)
    assert "Both servers had the same ledger as the log for 4 of 4 bandits" in words(parts)

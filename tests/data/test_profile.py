"""Profiles: the structure that held-out rewards speak for, and what a low-rank model gains."""

import narwhals as nw
import numpy as np
import pytest

import tensorbandits as tb
from tensorbandits.base import frames
from tensorbandits.data import from_log, profile

pa = pytest.importorskip("pyarrow")


def rank_two_log(n, shape=(12, 13, 14), noise=1.0, seed=0, offset=3.0):
    rng = np.random.default_rng(seed)
    factors = [np.linalg.qr(rng.standard_normal((p, 2)))[0] for p in shape]
    core = np.zeros((2, 2, 2))
    core[0, 0, 0], core[1, 1, 1] = 1.2 * np.sqrt(np.prod(shape)), np.sqrt(np.prod(shape))
    mean = tb.Tucker(core, factors).full() + offset
    cells = rng.integers(shape, size=(n, 3))
    rewards = mean[tuple(cells.T)] + noise * rng.standard_normal(n)
    table = pa.table({"a": cells[:, 0], "b": cells[:, 1], "c": cells[:, 2], "r": rewards})
    return from_log(table, ["a", "b", "c"], "r")


def test_the_rank_is_found_and_low_rank_is_ahead():
    result = profile(rank_two_log(10_000), rewards=5_000, max_rank=2)
    assert result.suggested_rank == 2
    assert result.worth_it
    assert result.gain > 0.2
    assert "**Low rank is worth it here**" in result.verdict
    point = result.curve.at(5_000)
    assert point["tucker 2"] > max(point["tucker 1"], point["cell means"], point["main effects"])


def test_the_spectra_stand_out_of_the_noise():
    result = profile(rank_two_log(10_000), max_rank=1)
    for values, noise in zip(result.singular_values, result.noise_singular_values):
        assert values.shape == noise.shape
        assert (values[:2] > 2 * noise[0]).all()
        assert values[3] < 1.3 * noise[0]


def test_facts_of_the_log():
    log = rank_two_log(500, shape=(3, 4, 5))
    result = profile(log, max_rank=1)
    assert (result.modes, result.shape, result.density, result.rewards) == (log.modes, (3, 4, 5), log.density, 500)
    assert result.rewards_per_cell[0.0] == log.ledger.counts.min()
    assert result.rewards_per_cell[0.5] == np.median(log.ledger.counts)
    assert (result.mean, result.kind) == (log.ledger.mean, "gaussian")
    assert result.spread == pytest.approx(1.0, rel=0.1)
    assert [point.rewards for point in result.curve.points] == [375]
    assert profile(log, max_rank=1).to_frame().equals(result.to_frame())


def test_additive_logs_are_found_by_main_effects():
    rng = np.random.default_rng(1)
    cells = rng.integers((8, 9), size=(4_000, 2))
    rewards = np.arange(8)[cells[:, 0]] - 2.0 * np.arange(9)[cells[:, 1]] + rng.standard_normal(4_000)
    log = from_log(pa.table({"a": cells[:, 0], "b": cells[:, 1], "r": rewards}), ["a", "b"], "r")
    result = profile(log, max_rank=2)
    assert not result.worth_it
    assert result.gain < 0.02
    assert "**Main effects suffice**" in result.verdict
    assert (str(result.suggested), result.suggested.kind) == ("additive", "additive")
    assert result.suggested_rank == result.low_rank.rank == 1


def test_bad_input_is_refused():
    with pytest.raises(TypeError, match=r"give one that from_log has read"):
        profile(np.zeros((2, 2)))
    for wrong in ("max_rank", "rewards"):
        with pytest.raises(ValueError, match=f"{wrong} is 0"):
            profile(rank_two_log(500, shape=(3, 4, 5)), **{wrong: 0})
    big = from_log(pa.table({name: list(range(300)) for name in "abcr"}), ["a", "b", "c"], "r")
    with pytest.raises(ValueError, match=r"2.7e\+07 cells.*keep fewer levels with top="):
        profile(big)


def test_models_come_as_a_frame_of_what_is_installed(monkeypatch):
    facts = profile(rank_two_log(500, shape=(3, 4, 5)), max_rank=1)
    there = {"pandas", "polars", "pyarrow"}
    real = frames.find_spec
    monkeypatch.setattr(frames, "find_spec", lambda name: real(name) if name in there else None)
    for expected in ("pandas", "polars", "pyarrow"):
        frame = facts.to_frame()
        assert type(frame).__module__.partition(".")[0] == expected
        columns = nw.from_native(frame, eager_only=True).to_dict(as_series=False)
        assert columns["model"] == ["overall mean", "main effects", "cell means", "tucker 1", "affine 1"]
        assert columns["rewards"] == [375] * 5
        assert columns["score"] == list(facts.curve.points[0].as_dict().values())
        assert max(columns["learned"]) == 1.0
        there.remove(expected)
    assert len(repr(facts)) < 100


@pytest.mark.parametrize("reward", [0, 1, 7, 0.5])
def test_rewards_that_are_all_the_same_teach_nothing(reward):
    table = pa.table({"a": ["x", "y"] * 100, "b": ["u", "u", "v", "v"] * 50, "r": [reward] * 200})
    result = profile(from_log(table, ["a", "b"], "r"))
    words = "Too few to tell" if reward in (0, 1) else "Nothing to learn was found"  # clicks may come yet
    assert result.verdict.startswith(f"**{words}**: all 200 rewards are the same, {reward}.")
    assert not result.worth_it
    assert result.gain == 0


def test_too_few_rewards_to_hold_some_out_are_refused():
    table = pa.table({"a": [0, 1, 0, 1, 0], "b": [0, 0, 1, 1, 0], "r": [0, 1, 0, 1, 0]})
    with pytest.raises(ValueError, match=r"there are 5 rewards; some are held out .*at least 8"):
        profile(from_log(table, ["a", "b"], "r"))


def test_the_verdict_names_the_model_whose_share_it_says():
    rng = np.random.default_rng(0)
    shape = (10, 8, 6)
    effects = [values - values.mean() for values in map(rng.standard_normal, shape)]
    cells = rng.integers(shape, size=(6_000, 3))
    means = np.prod([effect[column] for effect, column in zip(effects, cells.T)], axis=0)
    rewards = 0.3 * means / means.std() + rng.standard_normal(len(cells))
    table = pa.table({"a": cells[:, 0], "b": cells[:, 1], "c": cells[:, 2], "r": rewards})
    found = profile(from_log(table, ["a", "b", "c"], "r"), max_rank=1)
    point = found.curve.at(found.bandit_rewards)
    rival = found.curve.rival(point)
    assert f"the best model without it {max(found.curve.learned(point, rival), 0.0):.0%} ({rival})" in found.verdict

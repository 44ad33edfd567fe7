"""What a bandit says it believes: held to plain sums over all combinations."""

import threading

import numpy as np
import pytest

import tensorbandits as tb
from tensorbandits.bandit import beliefs

MODES = {"segment": ["new", "old"], "offer": ["a", "b", "c", "d"], "channel": ["mail", "sms", "web"]}
SHAPE = (2, 4, 3)
CELLS = np.argwhere(np.ones(SHAPE))


def told(policy="thompson", rewards=900, modes=MODES, **settings):
    rng = np.random.default_rng(0)
    space = tb.Space(modes, context=[next(iter(modes))])
    one = tb.Bandit(space, policy, **{"rank": 2, "seed": 0} | settings)
    rows, columns = rng.standard_normal((4, 2)), rng.standard_normal((3, 2))
    rows[1] = rows[0]
    mean = 1.0 + np.einsum("ar,br,cr->abc", rng.standard_normal((2, 2)), rows, columns)
    cells = CELLS[rng.integers(len(CELLS), size=rewards)]
    values = mean[tuple(cells.T)] + 0.1 * rng.standard_normal(rewards)
    if settings.get("reward") == "bernoulli":
        values = (rng.random(rewards) < 1 / (1 + np.exp(-values))).astype(float)
    one.policy.tell_many(cells, values)
    return one


@pytest.fixture(scope="module")
def bandit():
    return told()


def bounds(samples, level=0.9):
    """Mean and bounds over draws, the first axis, as a last axis."""
    low, high = np.quantile(samples, [0.5 - level / 2, 0.5 + level / 2], axis=0, method="weibull")
    return np.stack([samples.mean(axis=0), low, high], axis=-1)


def tensors(bandit):
    return bandit.policy.samples(CELLS).reshape(-1, *SHAPE)


def test_effects_are_those_of_all_combinations(bandit):
    frame = bandit.explain().effects
    samples = tensors(bandit)
    assert frame["level"].tolist() == [label for labels in MODES.values() for label in labels]
    for mode, name in enumerate(MODES):
        rows = frame[frame["mode"] == name]
        others = tuple(1 + j for j in range(3) if j != mode)
        by_level = samples.mean(axis=others)
        effect = bounds(by_level - samples.mean(axis=(1, 2, 3))[:, None])
        np.testing.assert_allclose(rows[["effect", "low", "high"]], effect, atol=1e-9)
        np.testing.assert_allclose(rows[["reward", "reward_low", "reward_high"]], bounds(by_level), atol=1e-9)
        ledger = bandit.policy.ledger
        assert rows["rewards"].tolist() == np.bincount(ledger.cells[:, mode], ledger.counts).tolist()
        assert ((rows["own"] > 0.5) & (rows["own"] + rows["borrowed"] == 1.0)).all()


def test_shares_are_those_of_the_variance(bandit):
    frame = bandit.explain(level=0.8).shares.set_index("part")
    parts = {name: [] for name in ("segment", "offer × channel", "more than two together")}
    for tensor in tensors(bandit):
        centred = tensor - tensor.mean()
        main = [centred.mean(axis=tuple(j for j in range(3) if j != mode), keepdims=True) for mode in range(3)]
        pairs = [
            centred.mean(axis=third, keepdims=True) - sum(main[j] for j in range(3) if j != third) for third in range(3)
        ]
        rest = centred - sum(main) - sum(pairs)
        for name, part in zip(parts, (main[0], pairs[0], rest)):
            parts[name].append((np.broadcast_to(part, SHAPE) ** 2).mean() / tensor.var())
    for name, values in parts.items():
        found = frame.loc[name, ["share", "low", "high"]].to_numpy(float)
        np.testing.assert_allclose(found, bounds(np.array(values), 0.8), atol=1e-9)
    assert frame["share"].sum() == pytest.approx(1.0)
    assert frame["modes"].tolist() == [1, 1, 1, 2, 2, 2, 0]


def test_factors_are_singular_vectors_and_alike_levels_are_found(bandit):
    found = bandit.explain()
    frame = found.factors
    estimate = bandit.policy.estimate(CELLS).reshape(SHAPE)
    for mode, name in enumerate(MODES):
        rows = frame[frame["mode"] == name]
        flat = np.moveaxis(estimate, mode, 0).reshape(SHAPE[mode], -1)
        U, S, _ = np.linalg.svd((flat - flat.mean(axis=0)) / np.sqrt(flat.shape[1]), full_matrices=False)
        np.testing.assert_allclose(np.abs(rows[["factor_1", "factor_2"]]), np.abs(U[:, :2] * S[:2]), atol=1e-6)
        np.testing.assert_allclose(rows[["strength_1", "strength_2"]].iloc[0], (S**2 / (S**2).sum())[:2], atol=1e-6)
        main = flat.mean(axis=1) - flat.mean()
        assert (main @ rows[["factor_1", "factor_2"]].to_numpy() > -1e-9).all()
    assert found.alike[found.alike["mode"] == "offer"]["level"].tolist() == ["a", "b"]
    assert "alike: a, b" in repr(found)


def test_best_arms_are_sorted_estimates_within_the_rules():
    one = told()
    one.space.forbid(offer="a", channel="mail")
    one.retire_level("channel", "web")
    frame = one.explain(arms=3).arms
    assert list(frame.columns) == ["segment", "offer", "channel", "place", "estimate", "low", "high", "rewards"]
    for at, segment in enumerate(MODES["segment"]):
        rows = frame[frame["segment"] == segment]
        cells = [cell for cell in CELLS.tolist() if cell[0] == at and cell[2] != 2 and cell[1:] != [0, 0]]
        estimate = one.policy.estimate(cells)
        order = np.argsort(-estimate)[:3]
        best = np.array(cells)[order]
        assert rows["offer"].tolist() == [MODES["offer"][cell[1]] for cell in best]
        assert rows["channel"].tolist() == [MODES["channel"][cell[2]] for cell in best]
        np.testing.assert_allclose(rows["estimate"], estimate[order])
        np.testing.assert_allclose(rows[["low", "high"]], one.policy.interval(best, 0.9))
        assert rows["rewards"].tolist() == [one.policy.ledger[cell].rounds for cell in best.tolist()]
        assert rows["place"].tolist() == [1, 2, 3]
        named = one.explain(segment=segment, arms=1).arms
        assert dict(named.iloc[0][["offer", "channel"]]) == one.best(segment=segment)
    assert len(one.explain({"segment": "new"}, arms=100).arms) == 7


def test_best_arms_among_too_many_to_list_are_searched(monkeypatch):
    one = told()
    expected = one.explain(arms=4).arms
    monkeypatch.setattr(beliefs, "_LISTED", 3)
    found = one.explain(arms=4).arms
    assert found["offer"].tolist() == expected["offer"].tolist()
    np.testing.assert_allclose(found["estimate"], expected["estimate"])
    assert len(one.explain(segment="new", arms=50).arms) <= 12


def test_clicks_have_effects_as_log_odds_and_rewards_as_rates():
    found = told(reward="bernoulli", rewards=2000).explain()
    assert found.scale == "log-odds"
    frame = found.effects
    expected = 1 / (1 + np.exp(-(found.mean[0] + frame["effect"])))
    np.testing.assert_allclose(frame["reward"], expected, atol=0.02)
    assert frame["reward"].between(0, 1).all()
    assert "(log-odds)" in repr(found)


def test_many_contexts_need_one_named():
    modes = {"user": range(150), "offer": ["a", "b"]}
    one = tb.Bandit(tb.Space(modes, ["user"]), rank=1, seed=0)
    one.tell(one.ask(user=3), 1.0)
    found = one.explain()
    assert len(found.effects) == 152
    with pytest.raises(ValueError, match=r"explain\(user=\.\.\.\)"):
        _ = found.arms
    assert len(one.explain(user=3).arms) == 2


def test_modes_and_labels_of_any_kind_have_frames():
    modes = {"low": [1, "one", True], "rewards": [2.5, 3], "estimate": ["x", "y"]}
    one = tb.Bandit(tb.Space(modes), rank=1, seed=0)
    one.tell(one.ask(), 1.0)
    found = one.explain()
    assert found.arms["low_level"].isin(["1", "one", "True"]).all()
    assert set(found.arms["rewards_level"]) <= {2.5, 3}
    assert found.arms["rewards"].sum() == 1.0
    pair = tb.Bandit(tb.Space({"a": ["x", "y"], "b": ["u", "v"]}), rank=1, seed=0).explain()  # of no reward at all
    assert pair.shares["modes"].tolist() == [1, 1, 2]
    assert "together" not in repr(pair)


def test_what_is_explained_is_of_one_moment_whatever_other_threads_do():
    one, done = told(rewards=100, rank=1), threading.Event()

    def change():
        for number in range(1000):
            if number < 20:
                one.add_level("offer", number)
            one.tell(one.ask(segment="new"), 1.0)
            if done.is_set():
                return

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(4):
            found = one.explain(arms=2)
            assert len(found.effects) == sum(map(len, found.levels))
            assert len(found.arms) == 4
            assert len(one.history("offer")["level"].unique()) >= 4
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize("policy", ["ucb", "epoch-greedy"])
def test_policies_that_cannot_explain_say_so(policy):
    settings = {} if policy == "ucb" else {"rank": 1}
    one = tb.Bandit(tb.Space(MODES, ["segment"]), policy, **settings)
    with pytest.raises(ValueError, match="use 'thompson' or 'ensemble'"):
        one.explain()


def test_an_ensemble_explains_too():
    one = told("ensemble", rewards=200, ensemble_size=20)
    found = one.explain(level=0.8)
    assert found.effects["own"].isna().all()
    assert "best arms" in repr(found)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"level": 1.0}, "level is 1"),
        ({"level": "high"}, "level"),
        ({"arms": 0}, "arms is 0"),
        ({"segment": "nwe"}, "did you mean 'new'"),
        ({"offer": "a"}, "is decided, not given"),
    ],
)
def test_what_cannot_be_explained_is_named(bandit, arguments, match):
    with pytest.raises((TypeError, ValueError), match=match):
        bandit.explain(**arguments)


def test_tables_average_over_the_other_modes_or_fix_them(bandit):
    samples = tensors(bandit)
    space, policy = bandit.space, bandit.policy
    found = beliefs.table(space, policy, ("channel", "offer"), None, 0.9)
    expected = bounds(samples.mean(axis=1).transpose(0, 2, 1))
    np.testing.assert_allclose(found.estimate, expected[..., 0])
    np.testing.assert_allclose(found.width, expected[..., 2] - expected[..., 1])
    assert (found.labels[0], found.others) == (("mail", "sms", "web"), "averaged over segment")
    fixed = beliefs.table(space, policy, ("channel", "offer"), {"segment": "old"}, None)
    np.testing.assert_allclose(fixed.estimate, bandit.policy.estimate(CELLS).reshape(SHAPE)[1].T)
    assert (fixed.width, fixed.others) == (None, "segment = old")


def test_tables_show_what_may_not_be_chosen_and_say_what_they_left_out(monkeypatch):
    one = told()
    one.space.forbid(offer="a", channel="mail")
    one.space.forbid(offer="b", channel="sms", segment="old")
    one.retire_level("channel", "web")
    found = beliefs.table(one.space, one.policy, ("offer", "channel"), None, None).estimate
    assert np.isnan(found[:, 2]).all()
    assert np.isnan(found[0, 0])
    assert np.isfinite(found[1:, :2]).all()
    assert np.isnan(beliefs.table(one.space, one.policy, None, {"segment": "old"}, None).estimate[1, 1])
    averaged = beliefs.table(one.space, one.policy, ("segment", "offer"), None, None).estimate
    kept = one.policy.estimate(CELLS).reshape(SHAPE)[..., :2].mean(axis=2)  # without the level that is retired
    np.testing.assert_allclose(averaged, kept)
    monkeypatch.setattr(beliefs, "_AVERAGED", 8)
    few = beliefs.table(one.space, one.policy, ("segment", "offer"), None, None)
    assert few.others == "averaged over channel (1 of 2 combinations)"


@pytest.mark.parametrize(
    ("modes", "fixed", "match"),
    [
        (("offer", "ofer"), None, "did you mean 'offer'"),
        (("offer", "offer"), None, "name two of"),
        (("offer",), None, "name two of"),
        ("offer", None, "name two of"),
        (("offer", "channel"), {"offer": "a"}, "shown and fixed"),
        (("offer", "channel"), {"segment": "nwe"}, "did you mean 'new'"),
        (("offer", "channel"), "new", "labels is 'new'"),
    ],
)
def test_wrong_tables_are_refused(bandit, modes, fixed, match):
    with pytest.raises((TypeError, ValueError), match=match):
        beliefs.table(bandit.space, bandit.policy, modes, fixed, None)

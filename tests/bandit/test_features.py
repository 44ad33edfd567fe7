"""Features of levels in a bandit: new levels start from what was learned of them, and they stay with everything."""

import copy

import numpy as np
import pyarrow as pa
import pytest

import tensorbandits as tb

OFFERS = {f"offer {at}": {"price": float(at)} for at in range(8)}
SPACE = {"segment": ["new", "old"], "offer": list(OFFERS)}


def shop(offers=OFFERS, **more):
    space = tb.Space({"segment": ["new", "old"], "offer": list(offers)}, ["segment"], features={"offer": offers})
    return tb.Bandit(space, rank=1, seed=0, **more)


def told(bandit, offers, *, rounds=40, seed=0):
    """Tell rewards that grow with the price."""
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        for name, values in offers.items():
            reward = values["price"] + 0.1 * rng.standard_normal()
            bandit.tell(arm={"offer": name}, context={"segment": "new"}, reward=reward)
    return bandit


def mean(bandit, offer):
    cell = bandit.space.cell(segment="new", offer=offer)
    return bandit.policy.estimate([cell])[0], bandit.policy.interval([cell])[0]


def test_a_new_level_starts_from_what_its_features_say():
    bandit = told(shop(), OFFERS, rounds=10)
    bandit.add_level("offer", "cheap", features={"price": 0.5})
    bandit.add_level("offer", "dear", features={"price": 6.5})
    bandit.add_level("offer", "unknown")
    (cheap, _), (dear, (low, high)) = mean(bandit, "cheap"), mean(bandit, "dear")
    assert cheap < 2.5 < 4.5 < dear
    assert low < 6.5 < high
    wide = mean(bandit, "unknown")[1]
    assert wide[1] - wide[0] > 2 * (high - low)
    bandit.describe("offer", {"cheap": {"price": 7.5}, "unknown": {"price": 7.0}})
    assert min(mean(bandit, "cheap")[0], mean(bandit, "unknown")[0]) > 4.5


def test_features_are_in_files_and_copies(tmp_path):
    bandit = told(shop(), OFFERS, rounds=2)
    bandit.add_level("offer", "summer", features={"price": 3.5})
    bandit.ask(segment="new")
    bandit.save(tmp_path / "bandit")
    for again in (tb.Bandit.load(tmp_path / "bandit", fresh=False), copy.deepcopy(bandit)):
        assert again.space == bandit.space
        assert np.array_equal(again.policy.features["1"], bandit.policy.features["1"])
        again.add_level("offer", "autumn", features={"price": 3.5})
        assert np.array_equal(again.policy.features["1"][-1], bandit.policy.features["1"][-1])


def test_levels_and_features_that_other_hands_change_on_the_space_reach_the_policy():
    bandit = shop()
    bandit.space.add_level("offer", "summer", {"price": 7.0})
    bandit.space.describe("offer", {"offer 0": {"price": 7.0}})
    bandit.ask(segment="new")
    numbers = bandit.policy.features["1"][:, 0]
    assert numbers[0] == numbers[7] == numbers[8]
    bandit.space.describe("offer", None)
    bandit.ask(segment="new")
    assert bandit.policy.features is None


def test_a_bandit_without_features_gets_some_and_loses_them():
    bandit = tb.Bandit(tb.Space(SPACE, ["segment"]), rank=1, seed=0)
    told(bandit, OFFERS, rounds=5)
    bandit.describe("offer", OFFERS, actor="Ann")
    bandit.describe("offer", {"offer 1": {"price": 1.5}})
    bandit.describe("offer", {"offer 1": {"price": 1.5}})  # which changes nothing
    bandit.describe("offer", {name: {"size": at % 3} for at, name in enumerate(OFFERS)}, anew=True)
    bandit.ask(segment="new")
    assert bandit.policy.features["1"].shape == (8, 2)
    bandit.describe("offer", None)
    assert bandit.policy.features is None
    rows = bandit.changes(kinds=["Described"])
    assert [(row["actor"], row["words"]) for row in rows] == [
        (None, "features of offer taken away"),
        (None, "features of offer all new, of 8 levels: size"),
        (None, "features of offer changed, of 1 levels: price"),
        ("Ann", "features of offer all new, of 8 levels: price"),
    ]
    assert rows[2]["items"] == [{"what": "offer offer 1: price", "before": 1.0, "after": 1.5}]


def test_policies_that_take_no_features_refuse_them():
    space = tb.Space(SPACE, ["segment"], features={"offer": OFFERS})
    with pytest.raises(ValueError, match="VectorizedUCB takes none; use 'thompson'"):
        tb.Bandit(space, "ucb")
    with pytest.raises(TypeError, match="features are given beside a space that has its own"):
        tb.Bandit(space, features={1: np.ones((8, 1))})
    bandit = tb.Bandit(tb.Space(SPACE, ["segment"]), "ucb")
    with pytest.raises(ValueError, match="VectorizedUCB takes none; use 'thompson'"):
        bandit.describe("offer", OFFERS)
    with pytest.raises(ValueError, match="mode 'offer' has none"):
        bandit.add_level("offer", "summer", features={"price": 1})
    made = tb.Bandit(space, tb.TensorThompsonSampling(space.shape, 1, context=space.context, seed=0))
    assert made.policy.features["1"].shape == (8, 2)


@pytest.mark.parametrize("values", [{"price": "much"}, {"prize": 1}, {"price": np.inf}, [1.0, 2.0]])
def test_features_that_cannot_be_change_nothing(values):
    bandit = told(shop(), OFFERS, rounds=1)
    before, version = bandit.space.state(), bandit.space.version
    with pytest.raises(ValueError, match=r"feature|number|kind"):
        bandit.add_level("offer", "summer", features=values)
    with pytest.raises(ValueError, match=r"feature|number|kind"):
        bandit.describe("offer", {"offer 1": {"price": 3}, "offer 2": values})
    assert (bandit.space.state(), bandit.space.version) == (before, version)
    assert bandit.policy.shape == (2, 8)
    assert bandit.changes() == []


NEW = {f"new {at}": {"price": at + 0.5} for at in range(7)}


def check_starts_warm(bandit):
    for _ in range(40):
        assert bandit.ask(segment="new").arm["offer"] in NEW
    means = [mean(bandit, name)[0] for name in NEW]
    assert np.all(np.diff(means) > 0)
    assert bandit.best(segment="new") == {"offer": "new 6"}
    low, high = mean(bandit, "new 3")[1]
    assert low < 3.5 < high


def test_a_bandit_whose_levels_are_all_new_starts_from_what_another_learned():
    bandit = shop(NEW)
    start = bandit.tell_bandit(told(shop(), OFFERS, rounds=10))
    assert (start.retired, len(start.added["offer"])) == (("offer",), 8)
    check_starts_warm(bandit)
    assert len(bandit.space.retired["offer"]) == 8


@pytest.mark.parametrize("apart", [False, True], ids=["columns of the log", "a mapping"])
def test_a_log_with_features_teaches_them(apart):
    rng, bandit = np.random.default_rng(0), shop(NEW)
    prices = np.repeat(np.arange(8.0), 10)
    columns = {"offer": [f"offer {at:g}" for at in prices], "price": prices, "colour": ["red"] * 80}
    frame = pa.table({**columns, "sale": prices + 0.1 * rng.standard_normal(80)})
    features = OFFERS if apart else ["price", "colour"]
    bandit.tell_log(frame, "sale", fixed={"segment": "new"}, features={"offer": features})
    check_starts_warm(bandit)


def test_levels_without_features_here_or_there_stay_unknown():
    old = told(shop(), OFFERS, rounds=1)
    plain = tb.Bandit(tb.Space({"segment": ["new", "old"], "offer": list(NEW)}, ["segment"]), rank=1, seed=0)
    sizes = shop({name: {"size": at} for at, name in enumerate(NEW)})
    for bandit in (plain, sizes):
        with pytest.raises(ValueError, match=r"labels that the space does not know: offer 'offer 0'.*unknown='retire'"):
            bandit.tell_bandit(old)
        assert bandit.space.shape == (2, 7)
        bandit.tell_bandit(old, unknown="retire")
        assert (bandit.space.shape, bandit.policy.ledger.rounds) == ((2, 15), 8)
    with pytest.raises(ValueError, match="unknown is 'both'; allowed are 'error'"):
        plain.tell_bandit(old, unknown="both")
    with pytest.raises(ValueError, match=r"'price' of mode 'offer' is 0.0, but it was text before"):
        shop({name: {"price": "much" if at else "little"} for at, name in enumerate(NEW)}).tell_bandit(old)
    added = shop(NEW)
    added.tell_bandit(old, unknown="add")
    assert added.space.retired == {}
    assert added.space.features["offer"].rows[-1] == {"price": 7.0}


@pytest.mark.parametrize("rank", [1, "auto"])
def test_it_is_said_how_much_features_explain_and_which(rank):
    rng = np.random.default_rng(3)
    offers = {f"o{at}": {"price": at - 10.0, "noise": at % 3} for at in range(20)}
    offers["o0"] = {"noise": 0}
    own = {name: (6.0 if name == "o9" else 0.0) + values.get("price", 0.0) for name, values in offers.items()}
    space = tb.Space({"segment": ["new", "old"], "offer": list(offers)}, ["segment"], features={"offer": offers})
    bandit = tb.Bandit(space, rank=rank, seed=0)
    for name, value in own.items():
        for _ in range(10):
            bandit.tell(arm={"offer": name}, context={"segment": "new"}, reward=value + 0.3 * rng.standard_normal())
            bandit.tell(arm={"offer": name}, context={"segment": "old"}, reward=value + 0.3 * rng.standard_normal())
    for _ in range(20):
        bandit.ask(segment="new")
    found = bandit.explain(backend="pyarrow")
    shares = {row["feature"]: row for row in found.features.to_pylist()}
    assert set(shares) == {"", "price", "noise"}
    assert shares["price"]["share"] > 0.4 > 0.2 > shares["noise"]["share"]
    assert all(row["low"] <= row["share"] <= row["high"] for row in shares.values())
    assert shares["price"]["share"] + shares["noise"]["share"] == pytest.approx(shares[""]["share"])
    rows = {row["level"]: row for row in found.effects.to_pylist() if row["mode"] == "offer"}
    for row in rows.values():
        assert row["by_features"] + row["by_itself"] == pytest.approx(row["effect"])
        assert row["by_features_low"] <= row["by_features"] <= row["by_features_high"]
    assert rows["o9"]["by_itself_low"] > 1.0
    assert max(row["by_itself"] for name, row in rows.items() if name != "o9") < rows["o9"]["by_itself"] / 2
    segment = next(row for row in found.effects.to_pylist() if row["mode"] == "segment")
    assert np.isnan(segment["by_features"])
    assert "features of offer explain" in repr(found)
    pytest.importorskip("matplotlib")
    [axes] = bandit.plot("features").axes
    bars = dict(zip([text.get_text() for text in axes.get_yticklabels()], axes.patches, strict=True))
    shown = {name: bar.get_width() / 100 for name, bar in bars.items()}
    assert shown == pytest.approx({name or "all features": row["share"] for name, row in shares.items()})


def test_what_features_say_of_revenue_is_said_of_rates_and_amounts():
    bandit = shop(reward="revenue")
    rng = np.random.default_rng(0)
    for name, values in list(OFFERS.items()) * 20:
        reward = float(rng.random() < 0.1 + 0.1 * values["price"]) * np.exp(rng.normal())
        bandit.tell(arm={"offer": name}, context={"segment": "new"}, reward=reward)
    bandit.ask(segment="new")
    found = bandit.explain(backend="pyarrow")
    assert found.rate.features.num_rows == found.amount.features.num_rows == 2
    assert found.features.num_rows == 0


def test_without_features_nothing_is_said_of_them():
    bandit = tb.Bandit(tb.Space(SPACE, ["segment"]), rank=1, seed=0)
    bandit.ask(segment="new")
    found = bandit.explain(backend="pyarrow")
    assert found.features.num_rows == 0
    assert "by_features" not in found.effects.column_names
    with pytest.raises(ValueError, match="no mode has features"):
        bandit.plot("features")

"""Features of levels in a bandit: new levels start from what was learned of them, and they stay with everything."""

import copy

import numpy as np
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

"""Numbers as context: bandits place them, learn their regions, split them, forget nothing, and share between them."""

import numpy as np
import pyarrow as pa
import pytest

import tensorbandits as tb

OFFERS = ["a", "b", "c"]


def bandit(numeric=None, **more):
    space = tb.Space({"age": numeric or tb.Numeric(cuts=[20, 40, 60, 80]), "offer": OFFERS}, ["age"])
    return tb.Bandit(space, **{"rank": 1, "seed": 0, "max_sweeps": 40, **more})


def learned(one):
    return not one.space.regions["age"].learning


def test_numbers_become_regions_wherever_labels_are_given():
    one = bandit()
    decision = one.ask(age=31.5)
    assert decision.context == {"age": "age 20 to 40"}
    one.tell(decision, 1.0)
    one.tell(arm={"offer": "a"}, context={"age": 59.9}, reward=1.0)
    many = one.ask_many(pa.table({"age": [10.0, None, 80.0], "user": [1, 2, 3]}))
    assert [each.context["age"] for each in many] == ["age below 20", "age missing", "age 60 to 80"]
    assert one.ask({"age": None}).context == {"age": "age missing"}
    assert one.best(age=25) == one.best(age="age 20 to 40")
    assert len(one.explain(age=25).best().cells) == 3
    with pytest.raises(TypeError, match="; give a number, or None"):
        one.ask(age=[31])
    with pytest.raises(ValueError, match="'31' is no level of mode 'age'"):
        one.ask(age="31")


def test_rules_floors_and_saved_files_know_regions(tmp_path):
    one = bandit(floors=[({"age": "age missing", "offer": "b"}, 1.0)])
    one.space.forbid(age="age below 20", offer="a")
    assert {one.ask(age=19).arm["offer"] for _ in range(20)} <= {"b", "c"}
    assert {one.ask(age=None).arm["offer"] for _ in range(9)} == {"b"}
    one.save(tmp_path / "one.safetensors")
    again = tb.Bandit.load(tmp_path / "one.safetensors")
    assert again.space == one.space
    assert again.ask(age=79).context == {"age": "age 60 to 80"}
    with pytest.raises(ValueError, match="'age missing' has no numbers"):
        again.split_region("age", "age missing", 3)
    other = bandit(floors=[({"age": "age 20 to 40", "offer": "b"}, 0.5)])
    with pytest.raises(ValueError, match="floors, ceilings or the baseline name 'age 20 to 40'"):
        other.split_region("age", "age 20 to 40")


def test_regions_are_learned_from_as_many_requests_as_was_said(tmp_path):
    one = bandit(tb.Numeric(regions=3, requests=12))
    numbers = [20, 30, 40, 50, 60, 70]
    for age in [*numbers, None]:
        one.tell(one.ask(age=age), 1.0)
    one.save(tmp_path / "one.safetensors")
    for again in (one, tb.Bandit.load(tmp_path / "one.safetensors")):
        again.ask_many([{"age": age} for age in numbers[:5]])
        assert not learned(again)  # what lacks does not count
        waiting = again.ask(age=35)
        assert learned(again)
        assert again.space.levels[0][2:] == again.space.regions["age"].labels[2:]
        assert len(again.space.levels[0]) == 2 + 3 + 2
        again.tell(waiting, 0.0)  # of the region that there was
        rewards = np.bincount(again.policy.ledger.cells[:, 0], again.policy.ledger.counts)
        assert rewards[0] == 7.0
        assert rewards[1] == 1.0
        assert abs(rewards[2:5].sum() - 6.0) < 1e-6  # what was told before, and no more, is where the parts start
        assert again.ask(age=35).context["age"] in again.space.levels[0][2:5]
        assert [row["words"] for row in again.changes()] == ["3 regions of age learned"]


def test_what_was_learned_of_a_region_stays_with_its_parts():
    one = bandit()
    cells = {"age": ["age 20 to 40"] * 80, "offer": (["a"] * 40) + (["b"] * 40)}
    one.tell_log(pa.table({**cells, "reward": [1.0] * 40 + [-1.0] * 40}), "reward", columns={"age": "age"})
    before = one.ask(age=25)
    one.split_region("age", "age 20 to 40", 30)
    one.tell(before, 0.5)
    assert one.ask(age=25).context == {"age": "age 20 to 30"}
    assert one.best(age=25) == one.best(age=35) == {"offer": "a"}
    ledger = one.policy.ledger
    assert ledger.rounds - one.policy.pseudo.rounds == 81.0
    assert one.policy.pseudo.rounds == pytest.approx(60.0)  # at most what 30 rewards say, for each part
    assert one.policy.features["0"].shape[0] == one.space.shape[0]
    for _ in range(60):
        one.tell(arm={"offer": "a"}, context={"age": 35}, reward=-3.0)
    assert one.best(age=25) == {"offer": "a"}
    assert one.best(age=35) != {"offer": "a"}


def test_regions_that_other_hands_split_have_features_too():
    one = bandit()
    one.tell(one.ask(age=25), 1.0)
    one.space.split_region("age", "age 20 to 40", 30)
    assert one.ask(age=25).context == {"age": "age 20 to 30"}
    np.testing.assert_array_equal(one.policy.features["0"], one.space.regions["age"].features)


def test_neighbours_share_strength():
    """A region without rewards of its own is believed to be between those beside it, and not so without features."""
    wave = lambda age: np.sin(age / 12.0)  # noqa: E731
    rng = np.random.default_rng(0)
    cuts = np.linspace(10.0, 90.0, 17)
    space = tb.Space({"age": tb.Numeric(cuts=cuts.tolist()), "offer": OFFERS}, ["age"])
    errors = {}
    for features in (True, False):
        policy = tb.TensorThompsonSampling(
            space.shape, 1, context=(0,), structure="additive", exploration=1, max_sweeps=400, seed=1,
            features={0: space.regions["age"].features} if features else None,
        )  # fmt: skip
        known = np.delete(np.arange(16), [4, 9, 12])
        cells = np.stack([rng.choice(known, 400), rng.integers(3, size=400)], axis=1)
        policy.tell_many(cells, wave(10.0 + 5.0 * cells[:, 0]) + 0.2 * rng.standard_normal(400))
        new = np.array([[level, 0] for level in (4, 9, 12)])
        errors[features] = np.abs(policy.estimate(new) - wave(10.0 + 5.0 * new[:, 0])).mean()
    assert errors[True] < 0.5 * errors[False]


def test_logs_have_columns_of_numbers(tmp_path):
    rng = np.random.default_rng(0)
    log = {"age": rng.uniform(18, 82, 60).tolist(), "offer": rng.choice(OFFERS, 60).tolist(), "clicks": [1] * 60}
    log["age"][0] = None
    one = bandit()
    start = one.tell_log(pa.table(log), "clicks")
    assert start.rewards == 60
    placed = one.space.cells({"age": log["age"], "offer": log["offer"]})
    expected = tb.Ledger(one.space.shape)
    expected.add(placed, [1.0] * 60)
    assert one.policy.copy_ledger() == expected
    years = bandit()
    years.tell_log(pa.table({**log, "years": log["age"]}).drop(["age"]), "clicks", columns={"age": "years"})
    assert years.policy.copy_ledger() == expected
    late = bandit(tb.Numeric(regions=3, requests=40))
    late.tell_log(pa.table(log), "clicks")
    assert learned(late)  # from the log
    assert late.policy.ledger.rounds == 60


def test_policies_that_cannot_follow_are_told_of_beforehand():
    for policy in ("ucb", "ensemble", "epoch-greedy"):
        space = tb.Space({"age": tb.Numeric(cuts=[20, 40]), "offer": OFFERS}, ["age"])
        given = {"rank": 1} if policy != "ucb" else {}
        one = tb.Bandit(space, policy, seed=0, **given)
        one.tell(one.ask(age=30), 1.0)  # without features, as they take none
        if one.policy.traits.grows:
            one.split_region("age", "age 20 to 40")
            one.tell(one.ask(age=30), 1.0)
        else:
            with pytest.raises(ValueError, match=r"still to be learned, but"):
                tb.Bandit(tb.Space({"age": tb.Numeric(), "offer": OFFERS}, ["age"]), policy, seed=0, **given)


def test_a_bandit_of_other_regions_has_levels_that_are_not_known_here():
    one, other = bandit(), bandit(tb.Numeric(cuts=[0, 50, 100]))
    other.tell(arm={"offer": "a"}, context={"age": 3}, reward=1.0)
    with pytest.raises(ValueError, match="'age 0 to 50'"):
        one.tell_bandit(other)
    with pytest.raises(ValueError, match="regions of numbers"):
        one.tell_bandit(other, unknown="add")
    assert one.space == bandit().space
    late = bandit(tb.Numeric())  # whose regions are still to be learned, and become the other's
    late.tell_bandit(other)
    assert late.space.regions["age"].labels[2:] == ("age 0 to 50", "age 50 to 100", "age below 0", "age above 100")
    assert late.policy.ledger.rounds == 1.0


@pytest.mark.parametrize("cuts", [[18, 35], [0.0, 1e-9], [-1e9, 1e9]])
def test_one_region_beside_what_is_beyond_the_range_is_enough(cuts):
    space = tb.Space({"age": tb.Numeric(cuts=cuts), "offer": ["a", "b"]}, context=["age"])
    one = tb.Bandit(space, seed=0)
    for age in (cuts[0], cuts[0] - 1, cuts[1] + 1, None):
        one.tell(one.ask(age=age), 1.0)
    assert one.policy.ledger.rounds == 4

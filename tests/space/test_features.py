"""Features of levels: values of all kinds become columns that stay what they are, and what cannot be is refused."""

import copy
import json
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorbandits import Space
from tensorbandits.space.features import LevelFeatures

OFFERS = {
    "a": {"price": 2.0, "sale": True, "brand": "Acme", "about": "red summer shoes", "image": [0.5, 1.0, -2.0]},
    "b": {"price": 4.0, "sale": False, "brand": "Acme", "about": "blue shoes", "image": [0.0, 3.0, 1.0]},
    "c": {"price": 9.0, "sale": True, "brand": "Bolt", "about": "a red hat", "image": [1.5, -1.0, 0.5]},
}


def space(features=OFFERS, levels=("a", "b", "c")):
    return Space({"offer": levels, "channel": ["mail", "sms"]}, features={"offer": features})


def offers(**options):
    return space(**options).features["offer"]


def test_each_kind_becomes_columns_of_the_same_weight():
    found = offers()
    assert found.kinds == {"price": "number", "sale": "truth", "brand": "category", "about": "text", "image": "numbers"}
    assert [place.stop - place.start for _, place in found.places] == [1, 1, 2 + 4, 32, 3]
    assert found.numbers.shape == (3, found.columns)
    for _, place in found.places:
        part = found.numbers[:, place]
        assert np.allclose(part.mean(axis=0), 0.0)
        assert (part**2).sum(axis=1).mean() == pytest.approx(found.columns / len(found.features))


def test_a_level_that_comes_and_one_that_changes_leave_the_columns_of_the_others():
    one = space()
    before = one.features["offer"].numbers
    one.add_level("offer", "d", {"price": 4.0, "brand": "Acme", "sale": False})
    one.describe("offer", {"a": {"price": 9.0, "about": None}})
    after = one.features["offer"].numbers
    assert np.array_equal(after[1:3], before[1:3])
    assert np.array_equal(after[3, :8], before[1, :8])
    assert not after[3, 8:-1].any()  # what is missing is the mean
    assert after[3, -1] ** 2 == pytest.approx(2 * after.shape[1] / 5)  # of which the last column says how much that is
    assert after[0, -1] ** 2 == pytest.approx(after.shape[1] / 5)
    assert not after[1:3, -1].any()
    assert one.features["offer"].missing == {"price": 0, "sale": 0, "brand": 0, "about": 2, "image": 1}
    assert after[0, 0] == before[2, 0]
    fresh = Space.from_state(one.state()).features["offer"]
    assert np.array_equal(fresh.numbers, after)  # worked out anew, or kept and changed


def test_categories_that_come_later_share_a_column_and_words_are_hashed_alike():
    one = space()
    for at, brand in enumerate(["Core", "Core", "Dash"]):
        one.add_level("offer", at, {"brand": brand, "about": f"{brand} shoes"})
    numbers = one.features["offer"].numbers
    assert np.array_equal(numbers[3], numbers[4])
    assert not np.array_equal(numbers[4], numbers[5])


def test_a_number_far_beyond_all_others_counts_by_its_logarithm():
    one, previous = space(), 0.0
    for power in range(1, 101, 9):
        one.add_level("offer", power, {"price": 10.0**power})
        price = one.features["offer"].numbers[-1, 0]
        assert previous < price < 1000.0
        previous = price


def test_missing_values_are_the_mean_and_said_in_a_column():
    found = offers(features={"a": {"price": 1.0}, "b": {"price": math.nan}, "c": {"price": 3.0}})
    assert found.missing == {"price": 1}
    assert (found.numbers[:, 0] / found.numbers[2, 0]).tolist() == [-1.0, 0.0, 1.0]
    assert found.numbers[1, 1] > 0 > found.numbers[0, 1] == found.numbers[2, 1]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_of_all_libraries_say_the_same(library):
    columns = {"offer": ["c", "a", "b"], "price": [9.0, 2.0, 4.0], "brand": ["Bolt", None, "Bolt"], "new": [1, 2, 2]}
    columns["image"] = [OFFERS[one]["image"] for one in "cab"]
    frame = pa.table(columns) if library == "pyarrow" else pytest.importorskip(library).DataFrame(columns)
    with pytest.raises(ValueError, match="'brand' of mode 'offer' is 'Bolt' for all 2 levels that have it"):
        offers(features=frame)
    columns["brand"] = ["Bolt", "Acme", "Acme"]
    frame = pa.table(columns) if library == "pyarrow" else pytest.importorskip(library).DataFrame(columns)
    same = {one: {name: columns[name][at] for name in list(columns)[1:]} for at, one in enumerate("cab")}
    assert offers(features=frame) == offers(features=same)


REFUSED = {
    "wrong length": (
        {**OFFERS, "b": {"image": [1.0]}},
        ValueError,
        "a list of 3 numbers for one level and a list of 1",
    ),
    "unknown level": ({**OFFERS, "e": {"price": 1}}, ValueError, "'e' is no level of mode 'offer'"),
    "all missing": ({"a": {"price": None}, "b": {}}, ValueError, "no feature of mode 'offer' is given"),
    "one all missing": (pa.table({"offer": ["a", "b"], "price": [None, math.nan]}), ValueError, "no feature"),
    "constant": ({one: {"price": 3} for one in "abc"}, ValueError, "is 3.0 for all 3 levels that have it"),
    "one level only": ({"a": {"price": 3}}, ValueError, "is 3.0 for all 1 levels that have it"),
    "infinite": ({"a": {"price": math.inf}, "b": {"price": 1}}, ValueError, "price.* is inf; give finite numbers"),
    "infinite in a list": ({"a": [1, math.inf], "b": [1, 2]}, ValueError, "is inf; give finite"),
    "missing in a list": ({"a": [1, None], "b": [1, 2]}, ValueError, "none is missing"),
    "two types": ({"a": {"price": 1}, "b": {"price": "much"}}, ValueError, "is 1.0 for one level and 'much'"),
    "no kind": ({"a": {"price": {1}}, "b": {"price": 1}}, TypeError, "of type set; features are numbers"),
    "no mapping": (7, TypeError, "give a mapping by label"),
    "no values": ({"a": 7, "b": 8}, TypeError, "give values by name"),
    "no name": ({"a": {1: 7}}, TypeError, "names are text"),
    "a frame without labels": (pa.table({"price": [1.0]}), ValueError, "without a column 'offer'"),
    "twice": (pa.table({"offer": ["a", "a"], "price": [1.0, 2.0]}), ValueError, "name a level twice"),
    "too many": ({"a": [0.0] * 1001, "b": [1.0] * 1001, "c": None}, ValueError, "make 1,003 columns; at most 1,000"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_features_that_say_nothing_or_cannot_be_are_refused(what):
    features, error, words = REFUSED[what]
    with pytest.raises(error, match=words):
        space(features=features)
    one = space()
    before, version = one.state(), one.version
    with pytest.raises(error, match=words):
        one.describe("offer", features, anew=True)
    assert (one.state(), one.version) == (before, version)


LATER = {
    "wrong length": ({"image": [1.0]}, "is a list of 1 numbers, but it was 3 numbers before"),
    "another type": ({"price": "much"}, "is 'much', but it was a number before"),
    "truth for a number": ({"price": True}, "is True, but it was a number before"),
    "a number for text": ({"about": 3}, "is 3.0, but it was text before"),
    "a number for a category": ({"brand": 3}, "is 3.0, but it was text before"),
    "unknown": ({"prize": 3}, "'prize' is no feature of mode 'offer', .*: did you mean 'price'"),
    "infinite": ({"price": -math.inf}, "is -inf; give finite numbers"),
}


@pytest.mark.parametrize("what", LATER)
def test_later_values_are_of_the_kinds_that_there_are(what):
    one = space()
    values, words = LATER[what]
    before, version = one.state(), one.version
    with pytest.raises(ValueError, match=words):
        one.add_level("offer", "d", values)
    with pytest.raises(ValueError, match=words):
        one.describe("offer", {"a": {"price": 3.0}, "b": values})
    assert (one.state(), one.version) == (before, version)


def test_modes_without_features_take_none_of_a_level_and_lose_none():
    one = space()
    with pytest.raises(ValueError, match="mode 'channel' has none; give those of all its levels first"):
        one.add_level("channel", "web", {"price": 1})
    with pytest.raises(ValueError, match="takes them away, but mode 'channel' has none"):
        one.describe("channel", None)
    with pytest.raises(ValueError, match="is no mode"):
        one.describe("color", None)
    with pytest.raises(TypeError, match="give them by mode"):
        Space({"offer": ["a"]}, features=[{}])
    assert one.shape == (3, 2)
    one.describe("channel", {"mail": {"cost": 1}, "sms": {"cost": 7}})
    one.describe("offer", None)
    assert list(one.features) == ["channel"]


def test_labels_of_other_kinds_than_text_have_features_of_their_own():
    one = Space({"slot": [1, "1", True]})
    one.describe("slot", [(1, {"x": 1}), ("1", {"x": 2}), (True, {"x": 3})])
    assert [row["x"] for row in one.features["slot"].rows] == [1.0, 2.0, 3.0]


def test_features_are_part_of_a_space_and_of_its_copies():
    one = space()
    again = Space.from_state(json.loads(json.dumps(one.state(), allow_nan=False)))
    assert one == again == copy.deepcopy(one) == one.copy()
    assert again.features["offer"].numbers.tobytes() == one.features["offer"].numbers.tobytes()
    again.describe("offer", {"a": {"price": 7}})
    assert one != again
    assert "with features" in repr(one)
    assert "category" not in repr(one.features["offer"])
    assert "brand: 2 categories" in repr(one.features["offer"])
    assert "brand" in one.features["offer"]._repr_html_()
    damaged = one.state()
    damaged["features"]["0"]["features"][0]["scale"] = 0.0
    with pytest.raises(ValueError, match="this is no state of a space"):
        Space.from_state(damaged)


values = st.fixed_dictionaries(
    {},
    optional={
        "number": st.floats(-1e100, 1e100) | st.none(),
        "truth": st.booleans(),
        "text": st.text(max_size=8),
        "vector": st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=2),
    },
)


@given(st.lists(values, min_size=2, max_size=8), values)
def test_whatever_is_taken_has_finite_columns_and_survives_json(rows, more):
    one = Space({"offer": range(len(rows))})
    try:
        one.describe("offer", dict(enumerate(rows)))
    except ValueError:  # constant, or missing of all
        assert one.features == {}
        return
    names = one.features["offer"].names
    one.add_level("offer", "new", {name: value for name, value in more.items() if name in names})
    found = one.features["offer"]
    assert isinstance(found, LevelFeatures)
    assert np.isfinite(found.numbers).all()
    assert np.abs(found.numbers).max() < 1e4
    again = Space.from_state(json.loads(json.dumps(one.state(), allow_nan=False))).features["offer"]
    assert np.array_equal(again.numbers, found.numbers)

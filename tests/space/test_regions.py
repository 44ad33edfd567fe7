"""Regions of numbers: every number has one, parts have what they were learned for, and splits keep what there was."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorbandits.space.partition import Partition, fit, of_edges
from tensorbandits.space.regions import Regions

FINITE = st.floats(-1e9, 1e9)
ANY = st.one_of(FINITE, st.integers(-50, 50).map(float), st.just(math.nan), st.just(math.inf), st.just(-math.inf))


def rows(count, least=1, entries=FINITE):
    return st.lists(st.lists(entries, min_size=count, max_size=count), min_size=least, max_size=40)


@st.composite
def regions(draw):
    """Regions that were learned, at once or later, and split at random."""
    count = draw(st.integers(1, 3))
    numbers = tuple("abc"[:count])
    found = Regions.start(numbers, draw(st.integers(2, 6)), 10)
    partition = found.fit(draw(rows(count)))
    found = found.learned(partition) if draw(st.booleans()) else Regions.of(numbers, partition)
    for _ in range(draw(st.integers(0, 4))):
        label, number = draw(st.sampled_from(found.labels)), draw(st.sampled_from(numbers))
        try:
            found = found.split(label, draw(st.one_of(st.none(), FINITE)), number)
        except ValueError:
            continue
    return found


def plain_place(one, row):
    """The level of a line of numbers, by the words of what regions are."""
    if any(x != x for x in row):
        level = one.missing
    elif (known := one.partition) is None:
        level = 0
    elif any(not low <= x <= high for x, low, high in zip(row, known.low, known.high, strict=True)):
        level = one.first + len(known) + (len(row) == 1 and row[0] > known.high[0])
    elif len(row) == 1:
        level = one.first + sum(row[0] >= edge for edge in known.edges[1:-1])
    else:
        z = known.standardised(np.array([row]))
        level = one.first + int(((known.standardised(known.centres) - z) ** 2).sum(axis=1).argmin())
    while (split := next((s for s in one.splits if s.level == level), None)) is not None:
        level = split.below + (not row[split.number] < split.at)
    return level


@settings(max_examples=60)
@given(regions(), st.data())
def test_every_number_is_placed_as_the_words_say(one, data):
    some = data.draw(rows(len(one.numbers), entries=ANY))
    placed = one.place(some)
    assert placed.tolist() == [plain_place(one, row) for row in some]
    assert not set(placed.tolist()) & set(one.gone)
    for row, level in zip(some, placed.tolist(), strict=True):
        if level != one.missing:
            assert all(low <= x <= high for x, (low, high) in zip(row, one.bounds(level), strict=True))


@settings(max_examples=60)
@given(regions())
def test_labels_are_unique_and_regions_come_back_from_json(one):
    assert len(set(one.labels)) == len(one.labels)
    again = Regions.from_state(json.loads(json.dumps(one.state())))
    assert again.state() == one.state()
    if one.features is not None:
        np.testing.assert_array_equal(again.features, one.features)


@settings(max_examples=60)
@given(regions())
def test_features_describe_each_level_and_a_split_adds_levels_only(one):
    features = one.features
    assert len(features) == len(one.labels)
    assert np.isfinite(features).all()
    assert np.abs(features).max() < 100
    label = one.labels[one.first]
    try:
        more = one.split(label, None, one.numbers[0])
    except ValueError:  # a region of one value, or one that was split already
        return
    assert more.features.shape == (len(features) + 2, features.shape[1])
    np.testing.assert_array_equal(more.features[: len(features)], features)
    inside = more.points[-2:]
    assert (more.place(inside) == [len(features), len(features) + 1]).all() or len(one.numbers) > 1


def test_neighbours_have_like_features_and_those_far_apart_other_ones():
    one = Regions.of(["x"], of_edges(np.arange(9.0)))
    inner = one.features[:8]
    alike = inner @ inner.T / inner.shape[1]
    assert alike[3, 4] > 0.35 * alike[3, 3]
    assert alike[0, 7] < 0.2 * alike[0, 0]
    assert 0.4 < np.diag(alike).mean() < 1.6  # about the size that rows are expected to have


@given(st.lists(FINITE, min_size=30, max_size=200, unique=True), st.integers(2, 8))
def test_quantiles_have_about_as_much_each(values, parts):
    known = fit(np.array(values)[:, None], parts)
    counts = np.bincount(known.place(np.array(values)[:, None]), minlength=len(known))
    assert counts.sum() == len(values)  # nothing that was learned from is beyond the range
    np.testing.assert_allclose(counts / len(values), known.shares)
    assert counts.max() <= 2 * len(values) / parts + 2


def test_few_values_have_a_region_each():
    known = fit([[0], [1], [1], [3]], 8)
    assert known.names(["items"]) == ["items 0 to 1", "items 1 to 3", "items 3"]
    assert known.place([[0], [1], [3], [2], [4]]).tolist() == [0, 1, 2, 1, -1]


def test_groups_of_several_numbers_are_found_in_units_of_their_own():
    rng = np.random.default_rng(0)
    middles = np.array([(20.0, 0.001), (20.0, 0.009), (60.0, 0.005)])
    some = middles[rng.integers(3, size=300)] + rng.standard_normal((300, 2)) * (1.0, 0.0002)
    known = fit(some, 3)
    near = np.abs(known.centres[:, None] - middles).argmin(axis=0)
    np.testing.assert_allclose(known.centres[near[:, 0] * 0 + [0, 1, 2]][:, 0].round(-1), [20, 20, 60])
    assert len(set(known.names(["age", "rate"]))) == 3
    assert fit(some, 3).state() == known.state()


def test_numbers_that_are_constant_or_few_are_no_trouble():
    assert fit([[5.0]] * 9, 4).names(["a"]) == ["a 5"]
    assert len(fit([[5.0, 1.0]] * 9, 4)) == 1
    assert fit([[1e300], [1.0], [math.nan], [2.0]], 4).names(["a"]) == ["a 1 to 2", "a 2"]
    with pytest.raises(ValueError, match="no numbers to learn regions from"):
        fit([[math.nan]], 4)


@pytest.mark.parametrize(
    ("label", "at", "words"),
    [
        ("age 20 to 30", 30, "is not between 20 and 30"),
        ("age 20 to 30", math.nan, "is not between"),
        ("age 20 to 30", "x", "is not between"),
        ("age missing", 3, "has no numbers"),
        ("age 20 to 31", 25, "did you mean 'age 20 to 30'"),
        ("age below 20", None, "say where"),
    ],
)
def test_what_cannot_be_split_is_refused(label, at, words):
    one = Regions.of(["age"], of_edges([20.0, 30.0, 50.0]))
    with pytest.raises(ValueError, match=words):
        one.split(label, at)


def test_beyond_the_range_can_be_split_too_and_what_was_split_cannot():
    one = Regions.of(["age"], of_edges([20.0, 30.0, 50.0])).split("age above 50", 65)
    assert one.labels[-2:] == ("age 50 to 65", "age 65 or more")
    assert one.place([[50], [51], [65], [1e9]]).tolist() == [1, 5, 6, 6]
    with pytest.raises(ValueError, match="was split, or replaced, already"):
        one.split("age above 50", 60)
    with pytest.raises(ValueError, match="nothing says which number"):
        Regions.of(["a", "b"], fit([[1, 2], [3, 4]], 2)).split("a about 1, b about 2", 2)
    with pytest.raises(ValueError, match="still being learned"):
        Regions.start(["a"], 4, 100).split("any a", 2)


@pytest.mark.parametrize("wrong", [True, "31", [1], object()])
def test_what_is_no_number_is_refused(wrong):
    with pytest.raises(TypeError, match="'age' is"):
        Regions.start(["age"], 4, 100).read({"age": wrong})


def test_states_that_cannot_be_are_refused():
    good = Regions.of(["age"], of_edges([20.0, 30.0, 50.0])).split("age 20 to 30", 25).state()
    for part, wrong in [
        ("labels", good["labels"][:-1]),
        ("missing", 99),
        ("splits", [[0, 0, 25.0, 3]]),
        ("splits", [[0, 1, 25.0, 5]]),
        ("partition", {**good["partition"], "edges": [30.0, 20.0, 50.0]}),
        ("partition", {**good["partition"], "deviation": [0.0]}),
        ("partition", {"shares": [1.0]}),
        ("partition", {}),
    ]:
        with pytest.raises(ValueError, match=r"\w"):
            Regions.from_state({**good, part: wrong})
    assert Partition.from_state(good["partition"], 1).edges.tolist() == [20.0, 30.0, 50.0]


@pytest.mark.parametrize(
    "values", [[0.0, 2e-311], [0.0, 2e-311, 1.0], [0.0, 1e-320, 5e-324], [-1e15, 1e15, 1e-310], [7.0, 7.0]]
)
def test_numbers_of_any_size_have_finite_features(values):
    one = Regions.start(("a",), 2, 10)
    found = Regions.of(("a",), one.fit(np.array(values)[:, None])).features
    assert np.isfinite(found).all()
    assert np.abs(found).max() < 100

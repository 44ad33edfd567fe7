"""Modes of numbers: declared, learned from logs, placed in requests and columns, and kept with the space."""

import copy
import json
import math

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tensorbandits import Numeric, Space

AGES = {"age": Numeric(cuts=[18, 35, 65]), "offer": ["a", "b"]}


def ages():
    return Space(AGES, ["age"])


def people():
    log = {"age": [20, 22, 21, 60, 64, 58, None], "tenure": [1.0, 0.0, 2.0, 30.0, 31.0, 29.0, 3.0]}
    who = Numeric("age", "tenure", regions=2).learn(log)
    return Space({"offer": ["a", "b"], "who": who, "channel": ["mail", "sms"]}, ["who"])


def test_requests_bring_numbers_or_the_region_itself():
    space = people()
    assert space.requested == ("age", "tenure")
    assert space.levels[1] == (
        "age about 21, tenure about 1",
        "age about 61, tenure about 30",
        "age or tenure beyond the range",
        "age or tenure missing",
    )
    young = {"age": 25, "tenure": np.float32(4)}
    assert space.given(young) == space.given(who="age about 21, tenure about 1") == (0,)
    assert space.given(age=None, tenure=3) == space.given(age=math.nan, tenure=3) == (3,)
    assert space.given(age=math.inf, tenure=3) == space.given(age=25, tenure=99) == (2,)
    assert space.cell({"offer": "b", "channel": "sms"}, age=60, tenure=29.5) == (1, 1, 1)
    columns = {"offer": ["a", "b"], "channel": ["mail", "sms"], "age": [20, None], "tenure": [0, 1]}
    assert space.cells(columns).tolist() == [[0, 0, 0], [1, 3, 1]]
    names = {**columns, "who": ["age or tenure missing"] * 2}
    del names["age"], names["tenure"]
    assert space.cells(names)[:, 1].tolist() == [3, 3]


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({"age": 30}, "no number is given for 'tenure'"),
        ({"age": 30, "tenure": "2"}, "'tenure' is '2'; give a number"),
        ({"age": True, "tenure": 2}, "'age' is True"),
        ({"age": 30, "tenure": 2, "who": "age or tenure missing"}, "given twice"),
        ({"who": "age about 22, tenure about 1"}, "did you mean 'age about 21, tenure about 1'"),
        ({}, "no label is given for 'who'"),
    ],
)
def test_wrong_numbers_are_refused(labels, words):
    with pytest.raises((TypeError, ValueError), match=words):
        people().given(labels)


@pytest.mark.parametrize(
    ("modes", "context", "words"),
    [
        ({"age": Numeric(), "offer": ["a"]}, [], "is no context; name it"),
        ({"who": Numeric("offer"), "offer": ["a"]}, ["who"], "has the name of mode 'offer'"),
        ({"x": Numeric("age"), "y": Numeric("age"), "offer": ["a"]}, ["x", "y"], "has the name of mode 'x'"),
    ],
)
def test_modes_of_numbers_that_cannot_be_are_refused(modes, context, words):
    with pytest.raises(ValueError, match=words):
        Space(modes, context)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"regions": 1}, "regions"),
        ({"regions": 500}, "at most 200"),
        ({"requests": 3}, "requests"),
        ({"requests": 10**9}, "learn regions from a log"),
        ({"cuts": [3]}, "at least two numbers"),
        ({"cuts": [3, 2]}, "in order"),
        ({"cuts": [3, math.nan]}, "at least two numbers"),
    ],
)
def test_declarations_that_cannot_be_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        Numeric("age", **arguments)
    for wrong, error in ((("a", "a"), ValueError), ((7,), TypeError), (("",), TypeError)):
        with pytest.raises(error, match="name"):
            Numeric(*wrong)
    with pytest.raises(ValueError, match="cuts are of one number"):
        Numeric("a", "b", cuts=[1, 2])
    with pytest.raises(ValueError, match="says nothing of a mode of numbers"):
        Numeric.read({"number": ["age"]})


@pytest.mark.parametrize(
    "make",
    [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table, dict, "duckdb"],
    ids=["pandas", "polars", "polars lazy", "pyarrow", "dict", "duckdb"],
)
def test_regions_are_learned_from_logs_of_any_kind(make):
    rng = np.random.default_rng(0)
    columns = {"age": rng.uniform(18, 80, 200).tolist(), "offer": ["a"] * 200}
    columns["age"][3] = None
    table = pa.table(columns)
    frame = duckdb.from_arrow(table) if make == "duckdb" else make(columns)
    found = Numeric("age", regions=4).learn(frame)
    assert found == Numeric("age", regions=4).learn(columns)
    np.testing.assert_allclose(found.partition.shares, 0.25, atol=0.03)
    with pytest.raises(ValueError, match="has no column 'tenure'"):
        Numeric("tenure").learn(frame)
    with pytest.raises(TypeError, match="'offer'"):
        Numeric("offer").learn(frame)


def test_spaces_with_numbers_come_back_from_json_with_splits_and_rules():
    space = people()
    space.forbid(who="age about 21, tenure about 1", channel="sms")
    space.split_region("who", "age about 21, tenure about 1", 21, "age")
    again = Space.from_state(json.loads(json.dumps(space.state(), allow_nan=False)))
    assert again == space == copy.deepcopy(space) == space.copy()
    assert again != people()
    assert again.given(age=20, tenure=1) == (4,)
    assert again.given(age=22, tenure=1) == (5,)
    assert again.retired == {"who": ["age about 21, tenure about 1"]}
    assert {rule["forbid"]["who"] for rule in again.rules} == {
        "age about 21, tenure about 1",
        "age about 21, tenure about 1; age below 21",
        "age about 21, tenure about 1; age 21 or more",
    }
    state = space.state()
    state["numeric"]["1"]["labels"][0] = "another"
    with pytest.raises(ValueError, match="others than its regions"):
        Space.from_state(state)


def test_regions_that_are_learned_later_keep_what_there_was():
    space = Space({"age": Numeric(regions=2), "offer": ["a", "b"]}, ["age"])
    space.forbid(age="any age", offer="a")
    assert space.given(age=31.5) == (0,)
    assert space.numbers_to_learn(age=None) == ((0, (None,)),)
    before = space.version
    space.learn_regions("age", space.regions["age"].fit([[20], [30], [40], [50]]))
    assert space.version != before
    assert space.numbers_to_learn(age=31.5) == ()
    assert space.given(age=31.5) == (2,)
    assert {0: 2, 1: 0} in space.forbidden  # the rule is that of the new regions too
    with pytest.raises(ValueError, match="were learned already"):
        space.learn_regions("age", space.regions["age"].partition)


def test_levels_of_numbers_are_not_changed_by_hand():
    space = ages()
    for change in (space.add_level, space.retire_level, space.restore_level):
        with pytest.raises(ValueError, match="which come from the numbers; split"):
            change("age", "age 18 to 35")
    with pytest.raises(ValueError, match="modes of numbers are \\['age'\\]"):
        space.split_region("offer", "a")
    assert space == ages()

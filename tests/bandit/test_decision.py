import copy
import dataclasses
import datetime
import json
import pickle

import pytest

from tensorbandits import Decision

DECISION = Decision(
    "3f2a-7",
    {"offer": "a", "day": datetime.date(2024, 2, 29), "slot": 3, "hot": True},
    {"at": datetime.datetime(2024, 2, 29, 12, 30), "top": float("inf")},
    0.125,
    "floor",
    "VectorizedUCB",
    1e9 + 0.25,
)


def test_a_decision_survives_json_with_labels_of_every_kind():
    again = Decision.from_json(DECISION.to_json())
    assert again == DECISION
    assert [type(label) for label in again.arm.values()] == [type(label) for label in DECISION.arm.values()]
    assert Decision.from_dict(json.loads(json.dumps(DECISION.to_dict()))) == DECISION
    assert Decision.from_json(DECISION.to_json().encode()) == DECISION
    unknown = dataclasses.replace(DECISION, propensity=None)
    assert Decision.from_json(unknown.to_json()) == unknown


def test_a_decision_is_a_frozen_value():
    with pytest.raises(dataclasses.FrozenInstanceError):
        DECISION.propensity = 1.0
    assert {DECISION: 1}[copy.deepcopy(DECISION)] == 1
    assert pickle.loads(pickle.dumps(DECISION)) == DECISION


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"propensity": "0.5"},
        {"propensity": float("nan")},
        {"propensity": 1.5},
        {"propensity": 0.0},
        {"by": "nobody"},
        {"time": None},
        {"id": 7},
        {"arm": ["a"]},
        {"arm": {"offer": ["a"]}},
        {"context": {"at": {"time": "noon"}}},
        {"more": 1},
    ],
)
def test_what_is_no_decision_is_refused(broken):
    data = DECISION.to_dict() | broken if broken else {"id": "3f2a-7"}
    with pytest.raises(ValueError, match="is no decision"):
        Decision.from_dict(data)


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", None, "3"])
def test_what_is_no_json_of_a_decision_is_refused(text):
    with pytest.raises(ValueError, match="no"):
        Decision.from_json(text)

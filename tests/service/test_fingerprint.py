"""Fingerprints of requests: the same for the same request however it is written, and another for any other."""

import json
import re
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorbandits.service.http import schemas
from tensorbandits.service.http.fingerprint import fingerprint

ASK = {"context": {"segment": "new", "day": {"date": "2026-02-28"}}, "allowed": {"offer": ["a", "b"]}}


def of(route, schema, body):
    return fingerprint(route, schema.model_validate(body).meant())


def test_it_is_short_and_stays():
    assert re.fullmatch("[0-9a-f]{16}", fingerprint("ask", {}))
    assert fingerprint("ask", {"context": {"segment": "new"}}) == "93eecc553a632e03"


NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False).filter(lambda value: value % 1)
PLAIN = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.text(), st.dictionaries(st.text(), PLAIN))
def test_it_is_the_hash_of_sorted_json(route, request):
    plain = json.dumps([route, request], sort_keys=True, separators=(",", ":"))
    assert fingerprint(route, request) == blake2b(plain.encode(), digest_size=8).hexdigest()


def test_how_a_request_is_written_makes_no_difference():
    ask = of("ask", schemas.AskBody, ASK)
    for same in (
        dict(reversed(ASK.items())),
        ASK | {"context": dict(reversed(ASK["context"].items()))},
        ASK | {"activate": True, "id": None, "played": None, "propensity": None},
    ):
        assert of("ask", schemas.AskBody, same) == ask
    told = of("tell", schemas.TellBody, {"id": "a", "reward": 1})
    assert of("tell", schemas.TellBody, {"reward": 1.0, "add": False, "id": "a"}) == told


@pytest.mark.parametrize(
    "other",
    [
        ASK | {"allowed": {"offer": ["a"]}},
        ASK | {"allowed": {"offer": ["b", "a"]}},
        ASK | {"allowed": {"channel": ["a", "b"]}},
        ASK | {"allowed": None},
        ASK | {"context": {"segment": "old", "day": {"date": "2026-02-28"}}},
        ASK | {"context": {"segment": "new", "day": "2026-02-28"}},
        ASK | {"activate": False},
        ASK | {"id": "mine"},
    ],
)
def test_another_request_has_another(other):
    assert of("ask", schemas.AskBody, other) != of("ask", schemas.AskBody, ASK)


def test_so_has_another_route_and_another_value():
    rewards = [{"id": "a", "reward": 1, "add": True}, {"id": "a", "reward": 5, "add": True}, {"id": "a", "reward": 1}]
    assert len({of("tell", schemas.TellBody, one) for one in rewards}) == 3
    assert of("activate", schemas.Which, {"id": "a"}) != of("cancel", schemas.Which, {"id": "a"})
    levels = [{"mode": "slot", "label": label} for label in (1, True, "1", 1.5)]
    assert len({of("add_level", schemas.Level, one) for one in levels}) == 4


def test_a_setting_that_is_taken_away_is_not_one_that_is_left():
    changes = [{}, {"window": None}, {"window": "10 min"}, {"default": None}]
    assert len({of("change_bandit", schemas.Changes, one) for one in changes}) == 4

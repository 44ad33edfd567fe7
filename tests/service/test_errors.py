"""Errors as answers: one form for all, the library's own words, and nothing that is not the caller's business."""

import json
from typing import Annotated, Literal

import pytest
from fastapi import FastAPI, Header, HTTPException, Query
from pydantic import BaseModel, Field, ValidationError, field_validator

import tensorbandits as tb
from tensorbandits.bandit.book import (
    CancelledDecisionError,
    ClosedDecisionError,
    ExpiredDecisionError,
    UnknownDecisionError,
)
from tensorbandits.service.http.errors import CODES, COMMON, MEDIA, Problem, ProblemDocument, explain, responses
from tensorbandits.service.http.validation import short
from tensorbandits.store.errors import (
    NameTakenError,
    QuarantinedError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
    UnknownBanditError,
)
from tests.service.calls import placed

JSON = {"Content-Type": "application/json"}


class Thing(BaseModel):
    model_config = {"extra": "forbid"}
    reward: float
    role: Literal["decide", "read"] = "read"
    count: Annotated[int, Field(ge=1, le=5)] = 1
    name: Annotated[str, Field(max_length=3)] = "a"
    default: float | str | None = None
    items: list[dict[str, int]] = []

    @field_validator("name")
    @classmethod
    def _check(cls, name):
        if name == "bad":
            raise ValueError("the name is bad; give a good one")
        return name


def rows(app):
    @app.post("/v1/things", name="create_bandit")
    async def post(
        body: Thing, after: Annotated[int, Query(ge=0)] = 0, key: Annotated[str | None, Header(max_length=3)] = None
    ):
        return {}

    @app.get("/teapot", name="page")
    async def teapot():
        raise HTTPException(418, "I am a teapot")

    @app.get("/broken", name="page")
    async def broken():
        raise HTTPException(502, "postgresql://me:hunter2@db")


@pytest.fixture(scope="module")
def place():
    with placed(rows=rows) as place:
        yield place


def problem(place, *call, **given):
    response = place.call(*call, **given)
    assert response.headers["content-type"] == MEDIA
    body = ProblemDocument.model_validate(response.json())
    assert body.request == response.headers["x-request-id"]
    assert body.instance.endswith(f":{body.request}")
    assert body.type.endswith(body.code)
    assert CODES[body.code][0] == response.status_code == body.status
    assert response.json()["error"] == {"code": body.code, "message": body.detail, "request": body.request}
    return response.status_code, body.code, body.detail


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (ValueError("words"), 422, "invalid"),
        (TypeError("words"), 422, "invalid"),
        (UnknownDecisionError("words"), 404, "unknown_decision"),
        (ExpiredDecisionError("words"), 410, "expired_decision"),
        (CancelledDecisionError("words"), 409, "cancelled_decision"),
        (ClosedDecisionError("words"), 409, "closed_decision"),
        (NameTakenError("words"), 409, "name_taken"),
        (UnknownBanditError("words"), 404, "unknown_bandit"),
        (StoreUnavailableError("words"), 503, "unavailable"),
        (StoreReadOnlyError("words"), 503, "unavailable"),
        (StoreFullError("words"), 503, "unavailable"),
        (QuarantinedError("words"), 503, "quarantined"),
        (Problem("key_reused", "words"), 409, "key_reused"),
    ],
)
def test_library_errors_keep_their_words(error, status, code):
    found = explain(error)
    assert (found.status, found.code, found.message) == (status, code, "words")
    assert ("Retry-After" in found.headers) is (code == "unavailable")  # quarantine ends only when somebody mends it


@pytest.mark.parametrize(
    "error", [RuntimeError("secret"), KeyError("secret"), OSError("secret"), AssertionError("secret")]
)
def test_errors_of_ours_say_nothing(error):
    found = explain(error)
    assert (found.status, found.code) == (500, "internal")
    assert "secret" not in found.message


def test_real_errors_of_the_library():
    bandit = tb.Bandit(tb.Space({"offer": ["a", "b"]}), seed=0)
    with pytest.raises(LookupError) as caught:
        bandit.tell("nobody", 1.0)
    assert explain(caught.value).code == "unknown_decision"
    assert explain(caught.value).message == caught.value.args[0].removesuffix(": decision.id")
    with pytest.raises(ValueError, match="finite") as wrong:
        bandit.tell(bandit.ask().id, float("inf"))
    assert explain(wrong.value).message == str(wrong.value)


def test_notes_belong_to_the_words():
    error = ValueError("a row is wrong")
    error.add_note("in line 7")
    assert explain(error).message == "a row is wrong (in line 7)"
    assert explain(ValueError()).message == "ValueError"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "reward is missing; give it"),
        ({"reward": 1, "colour": 2}, "colour is not known here; leave it out, or look at its spelling"),
        ({"reward": "a lot"}, 'reward is "a lot"; it should be a valid number, unable to parse string as a number'),
        ({"reward": None}, "reward is null; it should be a valid number"),
        ({"reward": 1, "role": "king"}, "role is \"king\"; it should be 'decide' or 'read'"),
        ({"reward": 1, "count": 9}, "count is 9; it should be less than or equal to 5"),
        ({"reward": 1, "name": "long"}, 'name is "long"; it should have at most 3 characters'),
        ({"reward": 1, "name": "bad"}, "the name is bad; give a good one"),
        ({"reward": 1, "items": [{"a": 1}, {"b": "x"}]}, 'items[1].b is "x"; it should be a valid integer'),
        ({"reward": 1, "default": []}, "default is []; give a number or a string"),
        ([1, 2], "the body is [1, 2]; give a JSON object"),
        ({"reward": 1, "count": 0, "role": 3}, "(and 1 more)"),
        ({"reward": "x" * 10_000}, f'reward is "{"x" * 60}.."'),
        ({"reward": {"a": [1] * 1_000}}, "reward is {'a': [1, 1, 1, 1, ...]}"),
    ],
)
def test_what_is_wrong_in_a_body_is_said_in_plain_words(place, body, words):
    status, code, message = problem(place, "POST", "/v1/things", json=body)
    assert (status, code) == (422, "invalid")
    assert words in message
    assert "Input" not in message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"reward": 1', "the body is no JSON (Expecting ',' delimiter at character"),
        (b"", "the body is missing; give it"),
        (b"\xc3\x28", "the body cannot be read; send JSON, in UTF-8"),
        (b"[" * 100_000, "the body cannot be read"),
        (b'{"reward": ' + b"9" * 5_000 + b"}", "the body cannot be read"),
        (b'{"reward": "\\ud800"}', 'reward is "\ud800"; it should be a valid string'),
        (b'{"reward": 1, "\\u0000": 1}', "\x00 is not known here"),
    ],
)
def test_broken_bodies(place, content, words):
    status, code, message = problem(place, "POST", "/v1/things", content=content, headers=JSON)
    assert (status, code) == (422, "invalid")
    assert words in message


def test_bodies_that_are_not_said_to_be_json(place):
    for headers in ({}, {"Content-Type": "text/plain"}):
        _, code, message = problem(place, "POST", "/v1/things", content=b'{"reward": 1}', headers=headers)
        assert code == "invalid"
        assert "Content-Type: application/json" in message


def test_queries_and_headers_are_named(place):
    _, _, message = problem(place, "POST", "/v1/things?after=-1", json={"reward": 1})
    assert message == 'the query parameter after is "-1"; it should be greater than or equal to 0'
    _, _, message = problem(place, "POST", "/v1/things", json={"reward": 1}, headers={"key": "long"})
    assert message == 'the header key is "long"; it should have at most 3 characters'


def test_what_the_framework_refuses(place):
    assert problem(place, "GET", "/nothing")[:2] == (404, "not_found")
    status, code, message = problem(place, "GET", "/v1/things")
    assert (status, code) == (405, "method")
    assert "allowed is POST" in message
    assert place.call("GET", "/v1/things").headers["allow"] == "POST"
    status, _, message = problem(place, "GET", "/broken")
    assert status == 500
    assert "hunter2" not in message
    assert problem(place, "GET", "/teapot") == (422, "invalid", "I am a teapot")


def test_a_model_that_was_read_by_hand():
    with pytest.raises(ValidationError) as caught:
        Thing.model_validate({"reward": 1, "items": [{"a": "x"}]})
    found = explain(caught.value)
    assert found.code == "invalid"
    assert found.message.startswith('items[0].a is "x"; it should be a valid integer')


def test_secrets_are_struck_out_of_words_that_are_the_librarys():
    with placed() as place:
        key = place.key()
        response = place.call("POST", "/v1/bandits/secret/explain", key)
        assert response.status_code == 422
        assert "hunter2" not in response.text
        assert "postgresql://me:***@db" in response.text
        response = place.call("POST", "/v1/bandits/readonly/explain", key)
        assert response.status_code == 503
        assert response.headers["retry-after"]
        assert response.json()["error"]["message"] == "the store is read-only; nothing was written"


def test_long_words_are_cut_and_any_text_can_be_sent():
    assert len(Problem("invalid", "x" * 100_000).body("r")) < 4_600
    assert json.loads(Problem("invalid", "\ud800\0").body("r"))["error"]["message"] == "\ud800\0"
    assert short(float("nan")) == "nan"
    assert len(short(b"x" * 10_000)) < 100


def test_openapi_says_which_errors_there_are():
    app = FastAPI()

    @app.get("/v1/bandits/{name}", name="get_bandit", responses=COMMON | responses("unknown_bandit"))
    async def get(name: str):
        return {}

    found = app.openapi()["paths"]["/v1/bandits/{name}"]["get"]["responses"]
    assert set(found) == {"200", "401", "403", "404", "413", "422", "429", "500", "503", "504"}
    for status in set(found) - {"200"}:
        content = found[status]["content"][MEDIA]
        assert content["schema"] == {"$ref": "#/components/schemas/ProblemDocument"}
        for code, example in content["examples"].items():
            assert CODES[code][0] == int(status)
            ProblemDocument.model_validate(example["value"])

"""Errors as HTTP answers: every body is ``{"error": {"code", "message", "request"}}``, in the words of the library."""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from tensorbandits.bandit.book import (
    CancelledDecisionError,
    ClosedDecisionError,
    ExpiredDecisionError,
    InactiveDecisionError,
    UnknownDecisionError,
)
from tensorbandits.service.engine.errors import KeyReusedError
from tensorbandits.service.http.redact import redact
from tensorbandits.store.errors import (
    ConflictError,
    FoldedError,
    NameTakenError,
    QuarantinedError,
    StoreError,
    UnknownBanditError,
)

if TYPE_CHECKING:
    from fastapi import FastAPI


CODES = {  # code: status, and what it means
    "invalid": (422, "Something in the request is not as it must be; the message says what, and what is allowed."),
    "unknown_bandit": (404, "There is no such bandit, or the key is not for it."),
    "unknown_decision": (404, "No decision has this id."),
    "not_found": (404, "There is nothing at this address."),
    "expired_decision": (410, "The decision was closed so long ago that it is forgotten."),
    "cancelled_decision": (409, "The decision was cancelled, and takes no reward."),
    "inactive_decision": (409, "The event was not activated, and takes no reward before it is."),
    "closed_decision": (409, "Another reward of this decision was told already."),
    "name_taken": (409, "There is a bandit of this name already."),
    "key_reused": (409, "The Idempotency-Key was used for another request."),
    "unauthorized": (401, "The key is missing or wrong."),
    "forbidden": (403, "The key may not do this."),
    "method": (405, "The address has no such method."),
    "too_large": (413, "The body is larger than allowed."),
    "too_many": (429, "Too many requests; Retry-After says when to try again."),
    "unavailable": (503, "The service cannot do this now; Retry-After says when to try again."),
    "quarantined": (
        503,
        "The log of this bandit cannot be read; the others are served. The message says what is wrong and where.",
    ),
    "internal": (500, "Something went wrong in the service; its log has the trace under the request's id."),
}
INTERNAL = "something went wrong here, and was written down under this request's id; tell it to who runs the service"

_OF_STATUS = {400: "invalid", 401: "unauthorized", 403: "forbidden", 404: "not_found", 405: "method"}
_OF_STATUS |= {409: "key_reused", 413: "too_large", 415: "invalid", 422: "invalid", 429: "too_many", 503: "unavailable"}
_OF_KIND: dict[type[Exception], str] = {  # the first that fits
    UnknownDecisionError: "unknown_decision",
    ExpiredDecisionError: "expired_decision",
    CancelledDecisionError: "cancelled_decision",
    InactiveDecisionError: "inactive_decision",
    ClosedDecisionError: "closed_decision",
    UnknownBanditError: "unknown_bandit",
    NameTakenError: "name_taken",
    KeyReusedError: "key_reused",
    FoldedError: "invalid",
    ConflictError: "unavailable",
    QuarantinedError: "quarantined",
    StoreError: "unavailable",
    ValueError: "invalid",
    TypeError: "invalid",
}
_SHORT = reprlib.Repr()
_SHORT.maxstring, _SHORT.maxother, _SHORT.maxlevel = 60, 60, 2
_SHORT.maxlist = _SHORT.maxdict = _SHORT.maxtuple = 4
_LONGEST = 2_000  # characters of a message


class Problem(Exception):  # noqa: N818  # it is an answer
    """A request that is refused: a code of :data:`CODES`, what to say, and in how many seconds to try again."""

    def __init__(self, code: str, message: str, *, retry: float | None = None, headers: Mapping[str, str] = {}) -> None:
        super().__init__(message)
        self.code, self.status, self.message = code, CODES[code][0], message
        self.headers = dict(headers)
        if retry is not None:
            self.headers["Retry-After"] = str(max(1, round(retry + 0.5)))
        if code == "unauthorized":
            self.headers["WWW-Authenticate"] = 'Bearer realm="tensorbandits"'

    def body(self, request: str) -> bytes:
        """Return the JSON of the answer; all in ASCII, as a message may show half of a character that somebody sent."""
        words = redact(self.message if len(self.message) <= _LONGEST else f"{self.message[:_LONGEST]} ..")
        return json.dumps({"error": {"code": self.code, "message": words, "request": request}}).encode()


def unknown_bandit(name: str) -> Problem:
    """Return the answer for a bandit that is not there, or that the caller's key is not for: the same for both."""
    return Problem("unknown_bandit", f"no bandit has the name {name[:200]!r}; GET /v1/bandits lists those there are")


class ErrorDetail(BaseModel):
    """What went wrong."""

    code: str = Field(description="For programs.", examples=["invalid"])
    message: str = Field(description="For people.", examples=["the reward is inf; tell a finite number"])
    request: str = Field(description="The id of the request, as in the header X-Request-Id.", examples=["6f1c0c5e9a41"])


class ErrorBody(BaseModel):
    """The body of every answer that is no success."""

    error: ErrorDetail


Responses = dict[int | str, dict[str, Any]]  # what OpenAPI says of answers, by their status


def responses(*codes: str) -> Responses:
    """Return what OpenAPI says of these errors of a route, an example of each.

    >>> sorted(responses("unknown_bandit", "unknown_decision", "expired_decision"))
    [404, 410]
    """
    found: Responses = {}
    for code in codes:
        status, meaning = CODES[code]
        one = found.setdefault(status, {"model": ErrorBody, "description": "", "content": {}})
        one["description"] = f"{one['description']} {meaning}".strip()
        examples = one["content"].setdefault("application/json", {"examples": {}})["examples"]
        examples[code] = {"value": {"error": {"code": code, "message": meaning, "request": "6f1c0c5e9a41"}}}
    return found


COMMON = responses(
    "invalid", "unauthorized", "forbidden", "too_large", "too_many", "unavailable", "quarantined", "internal"
)


def short(value: Any) -> str:
    """Return a value as a message shows it.

    >>> short("a" * 100), short(None), short([1, 2, 3, 4, 5, 6])
    ('"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.."', 'null', '[1, 2, 3, 4, ...]')
    """
    if isinstance(value, str):
        return json.dumps(value if len(value) <= 60 else f"{value[:60]}..", ensure_ascii=False)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return _SHORT.repr(value)


def explain(error: BaseException) -> Problem:
    """Return what the caller is told of an exception: the library's own words, or none of an error of ours."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, (RequestValidationError, ValidationError)):
        return Problem("invalid", _validation(error))
    if isinstance(error, HTTPException):
        return _http(error)
    code = next((code for kind, code in _OF_KIND.items() if isinstance(error, kind)), "internal")
    if code == "internal":
        return Problem("internal", INTERNAL)
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    words = error.args[0] if error.args and isinstance(error.args[0], str) else str(error)  # KeyError quotes its own
    return Problem(code, f"{words}{notes}" or type(error).__name__, retry=1 if code == "unavailable" else None)


def _http(error: HTTPException) -> Problem:
    """What the framework refused."""
    code = _OF_STATUS.get(error.status_code, "internal" if error.status_code >= 500 else "invalid")
    words = str(error.detail)
    if error.status_code == 400:
        words = "the body cannot be read; send JSON, in UTF-8 and not deeper than a few hundred levels"
    elif code == "not_found" and words == "Not Found":
        words = "there is nothing at this address; /openapi.json lists what there is"
    elif code == "method":
        allowed = (error.headers or {}).get("Allow", "")
        words = f"this address has no such method{f'; allowed is {allowed}' if allowed else ''}"
    elif code == "internal":
        words = INTERNAL
    return Problem(code, words, headers=error.headers or {})


def _validation(error: RequestValidationError | ValidationError) -> str:
    """The first of the errors in plain words, and how many more there are."""
    errors = error.errors(include_url=False) if isinstance(error, ValidationError) else list(error.errors())
    words = _words(errors[0]) if errors else "the request is not as it must be"
    return words if len(errors) < 2 else f"{words} (and {len(errors) - 1} more)"


def _words(error: Mapping[str, Any]) -> str:
    kind, given, context = error["type"], error.get("input"), error.get("ctx") or {}
    place = error.get("loc", ())
    if kind == "json_invalid":
        at = f" at character {place[1]}" if len(place) > 1 and isinstance(place[1], int) else ""
        return f"the body is no JSON ({context.get('error', 'broken')}{at}); send one JSON object"
    if place == ("body",) and isinstance(given, bytes):
        return "the body is not said to be JSON; send the header Content-Type: application/json"
    name = _name(place)
    if kind == "missing":
        return f"{name} is missing; give it"
    if kind == "extra_forbidden":
        return f"{name} is not known here; leave it out, or look at its spelling"
    if kind in ("model_type", "model_attributes_type"):
        return f"{name} is {short(given)}; give a JSON object"
    if kind == "too_long" and isinstance(most := context.get("max_length"), int):
        return f"{name} has more than {most:,} entries; give at most so many"
    if kind in ("value_error", "assertion_error") and isinstance(context.get("error"), Exception):
        return str(context["error"])
    message = re.sub(r"^[A-Z]\w*( \w+)? should ", "it should ", str(error["msg"]))
    return f"{name} is {short(given)}; {message[:1].lower()}{message[1:]}"


_TAGS = {
    *("int", "float", "str", "bool", "none", "list", "dict", "bytes", "date", "datetime", "tuple", "set"),
    "constrained-str",
}
_PLACES = {"body": "", "query": "the query parameter", "path": "the path's", "header": "the header"}


def _name(place: tuple[Any, ...]) -> str:
    """The name of what is wrong, as the caller wrote it.

    >>> _name(("body", "rewards", 3, "id")), _name(("query", "after")), _name(("body", "default", "float"))
    ('rewards[3].id', 'the query parameter after', 'default')
    """
    first, rest = (str(place[0]), list(place[1:])) if place else ("", [])
    if first not in _PLACES:  # a model that was read by hand
        first, rest = "body", list(place)
    while len(rest) > 1 and isinstance(rest[-1], str) and (rest[-1] in _TAGS or "[" in rest[-1]):
        rest.pop()  # the kind that a union tried
    words = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in rest).lstrip(".")
    if first == "body":
        return words or "the body"
    return f"{_PLACES[first]} {words}"


def install(app: FastAPI) -> None:
    """Let an app answer with these errors. What is left, errors of ours, is for the guard around it."""

    async def handle(request: Request, error: Exception) -> Response:
        visit = request.scope.get("tensorbandits")
        problem = explain(error)
        content = problem.body(visit.id if visit is not None else "")
        return Response(content, problem.status, problem.headers, media_type="application/json")

    for kind in (*_OF_KIND, Problem, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, handle)

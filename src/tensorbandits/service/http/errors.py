"""Errors as HTTP answers: problem documents as RFC 9457 describes them, in the library's words as HTTP has them.

Beside the standard's members a document has ours: ``code``, ``request``, ``errors``, the places of a request that are
wrong, and ``error``, in which clients of earlier releases look.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
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
from tensorbandits.decider.tokens import TokenExpiredError, TokenRefusedError
from tensorbandits.service.engine.errors import DeadlineError, KeyReusedError
from tensorbandits.service.http.access import methods
from tensorbandits.service.http.redact import redact
from tensorbandits.service.http.validation import MOST, Wrong, wrong_with
from tensorbandits.service.http.wording import in_http
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
    "refused_token": (422, "The id is a token that no known key has signed, that was altered, or of another bandit."),
    "expired_token": (410, "The id is a token of a decision that was made so long ago that its reward is not taken."),
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
    "deadline": (504, "The time that the request gave itself has passed; the message says what may have been done."),
    "internal": (500, "Something went wrong in the service; its log has the trace under the request's id."),
}
INTERNAL = "something went wrong here, and was written down under this request's id; tell it to who runs the service"

_OF_STATUS = {400: "invalid", 401: "unauthorized", 403: "forbidden", 404: "not_found", 405: "method"}
_OF_STATUS |= {
    409: "key_reused",
    413: "too_large",
    415: "invalid",
    422: "invalid",
    429: "too_many",
    503: "unavailable",
    504: "deadline",
}
_OF_KIND: dict[type[Exception], str] = {  # the first that fits
    UnknownDecisionError: "unknown_decision",
    ExpiredDecisionError: "expired_decision",
    CancelledDecisionError: "cancelled_decision",
    InactiveDecisionError: "inactive_decision",
    ClosedDecisionError: "closed_decision",
    TokenRefusedError: "refused_token",
    TokenExpiredError: "expired_token",
    UnknownBanditError: "unknown_bandit",
    NameTakenError: "name_taken",
    KeyReusedError: "key_reused",
    DeadlineError: "deadline",
    FoldedError: "invalid",
    ConflictError: "unavailable",
    QuarantinedError: "quarantined",
    StoreError: "unavailable",
    ValueError: "invalid",
    TypeError: "invalid",
}
_LONGEST = 2_000  # characters of a message


class Problem(Exception):  # noqa: N818  # it is an answer
    """A request that is refused: a code of :data:`CODES`, what to say, and in how many seconds to try again."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        retry: float | None = None,
        headers: Mapping[str, str] = {},
        wrong: Sequence[Wrong] = (),
    ) -> None:
        super().__init__(message)
        self.code, self.status, self.message, self.wrong = code, CODES[code][0], message, wrong
        self.headers = dict(headers)
        if retry is not None:
            self.headers["Retry-After"] = str(max(1, round(retry + 0.5)))
        if code == "unauthorized":
            self.headers["WWW-Authenticate"] = 'Bearer realm="tensorbandits"'

    def body(self, request: str) -> bytes:
        """Return the JSON of the answer; all in ASCII, as a message may show half of a character that somebody sent."""
        words = _shown(self.message)
        found: dict[str, Any] = {
            "type": type_of(self.code),
            "title": title_of(self.code),
            "status": self.status,
            "detail": words,
            "instance": f"urn:tensorbandits:request:{request}",
            "code": self.code,
            "request": request,
        }
        if self.wrong:
            found["errors"] = [{**one.to_dict(), "detail": _shown(one.words)} for one in self.wrong[:MOST]]
        found["error"] = {"code": self.code, "message": words, "request": request}
        return json.dumps(found).encode()


def _shown(words: str) -> str:
    """Words without secrets, and not too many of them."""
    return redact(words if len(words) <= _LONGEST else f"{words[:_LONGEST]} ..")


def type_of(code: str) -> str:
    """Return the address, at the service itself, of what is said of a kind of problem."""
    return f"/docs#error-{code}"


def title_of(code: str) -> str:
    """Return a kind of problem in short.

    >>> title_of("too_many"), title_of("unknown_decision")
    ('Too many requests', 'No decision has this id')
    """
    return re.split(r"[;.]", CODES[code][1])[0]


def unknown_bandit(name: str) -> Problem:
    """Return the answer for a bandit that is not there, or that the caller's key is not for: the same for both."""
    return Problem("unknown_bandit", f"no bandit has the name {name[:200]!r}; GET /v1/bandits lists those there are")


class ErrorDetail(BaseModel):
    """What went wrong, as earlier releases said it."""

    code: str = Field(json_schema_extra={"enum": list(CODES)}, examples=["invalid"])
    message: str = Field(description="As detail.", examples=["the reward is inf; tell a finite number"])
    request: str = Field(description="As request.", examples=["6f1c0c5e9a41"])


class WrongPlace(BaseModel):
    """What is wrong at one place of a request: of its body, or in a parameter or a header."""

    detail: str = Field(examples=["rewards[3].id is missing; give it"])
    pointer: str | None = Field(None, description="Into the body, a JSON pointer.", examples=["#/rewards/3/id"])
    parameter: str | None = Field(None, description="The parameter of the query or the path.")
    header: str | None = None


class ProblemDocument(BaseModel):
    """The body of every answer that is no success, as RFC 9457 describes problem documents."""

    type: str = Field(description="Where the service explains this kind.", examples=[type_of("invalid")])
    title: str = Field(description="The kind of problem, for people.", examples=[title_of("invalid")])
    status: int = Field(description="As the status of the answer.", examples=[422])
    detail: str = Field(
        description="What is wrong this time, and what to do, for people.",
        examples=["the reward is inf; tell a finite number"],
    )
    instance: str = Field(description="The request.", examples=["urn:tensorbandits:request:6f1c0c5e9a41"])
    code: str = Field(
        description="The kind of problem, for programs.", json_schema_extra={"enum": list(CODES)}, examples=["invalid"]
    )
    request: str = Field(description="The id of the request, as in the header X-Request-Id.", examples=["6f1c0c5e9a41"])
    errors: list[WrongPlace] | None = Field(None, description="Each place of the request that is wrong.")
    error: ErrorDetail = Field(description="The same, for clients of earlier releases.", deprecated=True)


MEDIA = "application/problem+json"
Responses = dict[int | str, dict[str, Any]]  # what OpenAPI says of answers, by their status


def responses(*codes: str) -> Responses:
    """Return what OpenAPI says of these errors of a route, an example of each.

    >>> sorted(responses("unknown_bandit", "unknown_decision", "expired_decision"))
    [404, 410]
    """
    found: Responses = {}
    for code in codes:
        status, meaning = CODES[code]
        schema = {"$ref": f"#/components/schemas/{ProblemDocument.__name__}"}
        one = found.setdefault(status, {"description": "", "content": {MEDIA: {"schema": schema, "examples": {}}}})
        one["description"] = f"{one['description']} {meaning}".strip()
        one["content"][MEDIA]["examples"][code] = {"value": json.loads(Problem(code, meaning).body("6f1c0c5e9a41"))}
    return found


COMMON = responses(
    "invalid",
    "unauthorized",
    "forbidden",
    "too_large",
    "too_many",
    "unavailable",
    "quarantined",
    "internal",
    "deadline",
)


def explain(error: BaseException) -> Problem:
    """Return what the caller is told of an exception: the library's own words, or none of an error of ours."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, (RequestValidationError, ValidationError)):
        return _validation(error)
    if isinstance(error, HTTPException):
        return _http(error)
    code = next((code for kind, code in _OF_KIND.items() if isinstance(error, kind)), "internal")
    if code == "internal":
        return Problem("internal", INTERNAL)
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    words = error.args[0] if error.args and isinstance(error.args[0], str) else str(error)  # KeyError quotes its own
    words = in_http(f"{words}{notes}"[: _LONGEST + 1]) or type(error).__name__
    return Problem(code, words, retry=1 if code == "unavailable" else None)


def _validation(error: RequestValidationError | ValidationError) -> Problem:
    """The first of what is wrong in plain words, and how much more there is."""
    wrong = wrong_with(error)
    words = wrong[0].words if wrong else "the request is not as it must be"
    return Problem("invalid", words if len(wrong) < 2 else f"{words} (and {len(wrong) - 1} more)", wrong=wrong)


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


def install(app: FastAPI) -> None:
    """Let an app answer with these errors. What is left, errors of ours, is for the guard around it."""

    async def handle(request: Request, error: Exception) -> Response:
        visit = request.scope.get("tensorbandits")
        if isinstance(error, HTTPException) and (known := methods(request.scope["path"])) and error.status_code == 405:
            error.headers = {**(error.headers or {}), "Allow": ", ".join(known)}  # of all routes, not of the first
        problem = explain(error)
        if visit is not None:
            visit.problem = problem
        content = problem.body(visit.id if visit is not None else "")
        return Response(content, problem.status, problem.headers, media_type=MEDIA)

    for kind in (*_OF_KIND, Problem, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, handle)

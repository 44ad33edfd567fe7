"""Errors of the service as the exceptions that the library itself raises, with the same words."""

from __future__ import annotations

import json
from typing import Any

from tensorbandits.bandit.book import (
    CancelledDecisionError,
    ClosedDecisionError,
    ExpiredDecisionError,
    UnknownDecisionError,
)
from tensorbandits.base.errors import TensorbanditsError
from tensorbandits.client.messages import HttpAnswer, HttpRequest


class ServerAwayError(TensorbanditsError, ConnectionError):
    """The service gave no answer, or was too busy for one, within the budget.

    ``reached`` says whether it may have got the request, and done what was asked, all the same.
    """

    def __init__(self, why: str, *, reached: bool = False) -> None:
        super().__init__(why)
        self.reached = reached


class ServerError(TensorbanditsError, RuntimeError):
    """The service failed inside, or what answered is not the service."""


class UnknownBanditError(TensorbanditsError, LookupError):
    """The service has no bandit of this name, or none that the key may see."""


class NameTakenError(TensorbanditsError, ValueError):
    """A bandit has this name already."""


class KeyReusedError(TensorbanditsError, ValueError):
    """The key of this write was used for another one."""


_ERRORS: dict[str, type[Exception]] = {
    "invalid": ValueError,
    "too_large": ValueError,
    "unknown_bandit": UnknownBanditError,
    "unknown_decision": UnknownDecisionError,
    "expired_decision": ExpiredDecisionError,
    "refused_token": ValueError,
    "expired_token": ExpiredDecisionError,
    "cancelled_decision": CancelledDecisionError,
    "closed_decision": ClosedDecisionError,
    "name_taken": NameTakenError,
    "key_reused": KeyReusedError,
    "not_found": LookupError,
    "unauthorized": PermissionError,
    "forbidden": PermissionError,
}


def error_of(code: str, message: str, request: str | None = None) -> Exception:
    """Return the exception for an error of the service.

    >>> error_of("closed_decision", "decision 'x-1' has the reward 1 already")
    ClosedDecisionError("decision 'x-1' has the reward 1 already")
    """
    error = _ERRORS.get(code, ServerError)(message)
    if request:
        error.add_note(f"the service knows this request as {request}")
    return error


def words(answer: HttpAnswer) -> tuple[str, str, str | None]:
    """Return the code, the message and the request id of an answer that is an error."""
    number = answer.headers.get("x-request-id")
    try:
        found = json.loads(answer.body)["error"]
        return str(found["code"]), str(found["message"]), found.get("request") or number
    except (ValueError, KeyError, TypeError):
        start = answer.body[:80].decode(errors="replace").strip()
        return "", f"{answer.status} {start!r}", number


def check(answer: HttpAnswer, request: HttpRequest, url: str) -> HttpAnswer:
    """Return an answer that is none of an error; raise the exception for one that is."""
    if 200 <= answer.status < 300 or (request.method == "DELETE" and answer.status == 404 and answer.again):
        return answer  # what an earlier try has deleted is not there any more
    code, message, number = words(answer)
    if not code:
        message = (
            f"{request.method} {url}{request.path} was answered with {message}, which are no words of the service; "
            "check that the address is that of a tensorbandits service, without a path unless a proxy adds one"
        )
    raise error_of(code, message, number)


def read(answer: HttpAnswer) -> Any:
    """Return what the JSON of an answer says; nothing of an empty one."""
    if not answer.body:
        return None
    try:
        return json.loads(answer.body)
    except ValueError:
        start = answer.body[:80].decode(errors="replace").strip()
        raise ServerError(f"the answer {start!r} is no JSON; check that the address is that of a service") from None

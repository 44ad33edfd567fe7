"""JSON bodies of requests: a small one is read at once, a large one in a thread, so that nobody waits for it.

The event loop answers everybody, and reading megabytes would stop it. What is out of all measure is refused before it
is compared with what a route takes, as saying what is wrong with each of a million values would take minutes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, get_type_hints

from anyio.to_thread import run_sync
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError

from tensorbandits.base.checks import nearest
from tensorbandits.service.http.errors import Problem
from tensorbandits.service.http.validation import Wrong

LARGE = 16 * 1024  # bytes from which a body is read in a thread
MOST_FIELDS = 1_000  # of one object in a large body
FREE_QUERIES = frozenset(("view",))  # routes that look at their parameters themselves
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def parse(schema: type[BaseModel], content: bytes) -> BaseModel:
    """Return JSON as a schema, or raise what is wrong with it.

    >>> from tensorbandits.service.http.schemas import Fold
    >>> parse(Fold, b'{"before": 7}').before
    7
    """
    try:
        data = json.loads(content)
    except json.JSONDecodeError as error:
        found = {
            "type": "json_invalid",
            "loc": ("body", error.pos),
            "msg": "",
            "input": {},
            "ctx": {"error": error.msg},
        }
        raise RequestValidationError([found]) from None
    except (ValueError, RecursionError):
        raise Problem(
            "invalid", "the body cannot be read; send JSON, in UTF-8 and not deeper than a few hundred levels"
        ) from None
    _check_fields(data)
    try:
        return schema.model_validate(data)
    except ValidationError as error:
        raise RequestValidationError(error.errors(include_url=False), body=data) from None


def _check_fields(data: Any) -> None:
    """Refuse objects of more fields than any request has."""
    left = [data]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            if len(one) > MOST_FIELDS:
                raise Problem(
                    "invalid", f"the body has an object of {len(one):,} fields; give at most {MOST_FIELDS:,} in one"
                )
            one = one.values()
        elif not isinstance(one, list):
            continue
        left += [part for part in one if isinstance(part, dict | list)]


class BodyRoute(APIRoute):
    """A route that reads a large body in a thread: ``APIRouter(route_class=BodyRoute)``; all else is as usual."""

    def get_route_handler(self) -> Handler:
        """Return what answers a request."""
        usual = self._strict(super().get_route_handler())
        schema = get_type_hints(self.endpoint).get("body")
        if not (isinstance(schema, type) and issubclass(schema, BaseModel)):
            return usual

        async def handle(request: Request) -> Response:
            content = await request.body()
            if len(content) < LARGE or not _is_json(request.headers.get("content-type", "")):
                return await usual(request)
            threads = request.app.state.serving.body_threads
            return await usual(_Read(request, await run_sync(parse, schema, content, limiter=threads)))

        return handle

    def _strict(self, usual: Handler) -> Handler:
        """Refuse parameters of the query that the route does not know: who misspells one would wait for its effect."""
        known = [one.alias for one in self.dependant.query_params]
        if self.name in FREE_QUERIES:
            return usual

        async def handle(request: Request) -> Response:
            if request.scope["query_string"]:
                refuse_unknown(request.query_params, known)
            return await usual(request)

        return handle


def refuse_unknown(given: Iterable[str], known: Sequence[str]) -> None:
    """Refuse parameters of a query that are not known.

    >>> refuse_unknown(["after"], ["after", "limit"])
    >>> refuse_unknown(["page"], ["after", "limit"])
    Traceback (most recent call last):
    tensorbandits.service.http.errors.Problem: the query parameter page is not known here; known are after, limit
    """
    wrong = []
    for name in dict.fromkeys(given):
        if name in known:
            continue
        hint = nearest(name, known) or (f"known are {', '.join(known)}" if known else "this address takes none")
        place = ("query", name if len(name) <= 60 else f"{name[:60]}..")
        wrong.append(Wrong(place, f"the query parameter {place[1]} is not known here; {hint}"))
    if wrong:
        more = "" if len(wrong) < 2 else f" (and {len(wrong) - 1} more)"
        raise Problem("invalid", wrong[0].words + more, wrong=wrong)


class _Read(Request):
    """A request whose body was read already."""

    def __init__(self, request: Request, value: BaseModel) -> None:
        super().__init__(request.scope, request.receive)
        self._value = value

    async def body(self) -> bytes:
        return b"{}"  # which only says that there is one

    async def json(self) -> Any:
        return self._value


def _is_json(kind: str) -> bool:
    """Whether a body is said to be JSON.

    >>> _is_json("application/json; charset=utf-8"), _is_json("application/a+json"), _is_json("text/csv"), _is_json("")
    (True, True, False, False)
    """
    main, _, sub = kind.partition(";")[0].strip().lower().partition("/")
    return main == "application" and (sub == "json" or sub.endswith("+json"))

"""The fast path of the two routes that are called all the time, ask and tell.

The framework in between takes longer than a decision does. What is quite as usual is answered here; everything else, a
body that is wrong, a key that may not, a bandit that is not in memory, goes the long way, whose answers are the rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from pydantic import ValidationError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tensorbandits.service.engine.host import Host
from tensorbandits.service.engine.orders import Order
from tensorbandits.service.http import errors, schemas
from tensorbandits.service.http.access import may
from tensorbandits.service.http.bodies import LARGE
from tensorbandits.service.http.security import VISIT, Visit
from tensorbandits.service.http.serving import Serving, ask_order, tell_order, to_json

PATH = re.compile(r"/v1/bandits/([A-Za-z0-9][A-Za-z0-9._-]{0,99})/(ask|tell)")
_KEY = re.compile(r"[\x21-\x7e]{1,200}")
_IS_JSON = {"Content-Type": "application/json"}
_JSON = (b"application/json", b"application/json; charset=utf-8")


class _Route(NamedTuple):
    """What a request comes to: its name, for the log and the metrics, what reads its body, and what makes its order."""

    name: str
    read: Callable[[bytes], schemas.Body]
    order: Callable[[Host, Any, str | None], Order]


_ROUTES = {
    "ask": _Route("ask", schemas.AskBody.model_validate_json, ask_order),
    "tell": _Route("tell", schemas.TellBody.model_validate_json, tell_order),
}


class FastPath:
    """ASGI middleware, between the guard and the framework."""

    def __init__(self, app: ASGIApp, *, serving: Serving) -> None:
        self.app, self._serving = app, serving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or let the framework do so."""
        found = PATH.fullmatch(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        host = self._serving.engine.known(found[1]) if found is not None else None
        if found is None or host is None or scope["query_string"]:
            return await self.app(scope, receive, send)
        visit: Visit = scope[VISIT]
        usual, key = _headers(scope["headers"])
        if not usual or visit.grant is None or not may(visit.grant, found[2], host.name):
            return await self.app(scope, receive, send)
        message = await receive()
        route = _ROUTES[found[2]]
        try:
            whole = message["type"] == "http.request" and not message.get("more_body")
            whole = whole and len(message.get("body", b"")) < LARGE  # a larger one is read in a thread
            body = route.read(message.get("body", b"")) if whole else None
        except ValidationError:
            body = None
        if body is None:
            return await self.app(scope, _again(message, receive), send)
        scope["route"] = route
        await _send(send, *await self.answer(route, host, body, key, visit))

    async def answer(
        self, route: _Route, host: Host, body: schemas.Body, key: str | None, visit: Visit
    ) -> tuple[int, bytes, dict[str, str]]:
        """Return a status, a body and headers."""
        try:
            found = await self._serving.carry_out(host, route.order, body, key)
        except Exception as error:
            problem = errors.explain(error)
            if problem.code == "internal":
                raise
            visit.problem = problem
            return problem.status, problem.body(visit.id), {**problem.headers, "Content-Type": errors.MEDIA}
        return 200, to_json(found), _IS_JSON


def _headers(headers: list[tuple[bytes, bytes]]) -> tuple[bool, str | None]:
    """Return whether the headers are as usual, and the idempotency key."""
    kinds = [value for name, value in headers if name == b"content-type"]
    keys = [value.decode("latin-1") for name, value in headers if name == b"idempotency-key"]
    usual = len(kinds) == 1 and kinds[0].lower() in _JSON
    usual = usual and (not keys or (len(keys) == 1 and _KEY.fullmatch(keys[0]) is not None))
    return usual, keys[0] if keys else None


def _again(message: Message, receive: Receive) -> Receive:
    """Receive a message again that was taken already, then the others."""
    taken = [message]

    async def again() -> Message:
        return taken.pop() if taken else await receive()

    return again


async def _send(send: Send, status: int, content: bytes, more: dict[str, str]) -> None:
    headers: list[Any] = [(b"content-length", b"%d" % len(content))]
    headers += [(name.lower().encode(), value.encode()) for name, value in more.items()]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})

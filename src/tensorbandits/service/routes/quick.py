"""Routes whose requests are read by hand: FastAPI describes them, but would take longer to read them than to decide."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Coroutine
from typing import Any, get_type_hints

from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from tensorbandits.service.errors import Problem, short
from tensorbandits.service.security import authorise

_HAND = {"name", "body", "service", "key"}  # the arguments that can be handed on without more ado
_KEY = re.compile(r"[\x21-\x7e]{1,200}")


class QuickRoute(APIRoute):
    """Reads the body, the name, the key and the caller's role itself if the endpoint takes no more than these.

    The endpoint, its model and its answers are declared as those of any other route. The name of the route is that by
    which the table of roles knows it.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what is called with a request."""
        arguments = inspect.signature(self.endpoint).parameters
        if "body" not in arguments or not set(arguments) <= _HAND:
            return super().get_route_handler()
        model: type[BaseModel] = get_type_hints(self.endpoint)["body"]
        endpoint, what, keyed = self.endpoint, self.name, "key" in arguments

        async def handle(request: Request) -> Response:
            authorise(request.scope, what)
            headers = request.headers
            given: dict[str, Any] = {"name": request.path_params["name"], "service": request.app.state.serving}
            if keyed:
                given["key"] = _key(headers.get("idempotency-key"))
            given["body"] = _body(model, await request.body(), headers.get("content-type", ""))
            answer: Response = await endpoint(**given)
            return answer

        return handle


def _body(model: type[BaseModel], content: bytes, kind: str) -> BaseModel:
    main = kind.partition(";")[0].strip().lower()
    if content and main != "application/json" and not (main.startswith("application/") and main.endswith("+json")):
        raise Problem("invalid", "the body is not said to be JSON; send the header Content-Type: application/json")
    if not content:
        raise Problem("invalid", "the body is missing; give it")
    return model.model_validate_json(content)


def _key(given: str | None) -> str | None:
    if given is not None and _KEY.fullmatch(given) is None:
        raise Problem(
            "invalid",
            f"the header Idempotency-Key is {short(given)}; give 1 to 200 letters, digits and signs, without spaces",
        )
    return given

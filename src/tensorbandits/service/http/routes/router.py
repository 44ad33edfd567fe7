"""The router of all routes: each takes its method, its path and its right from the table of access."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path
from fastapi.types import DecoratedCallable

from tensorbandits.service.http.access import ACCESS
from tensorbandits.service.http.bodies import BodyRoute
from tensorbandits.service.http.errors import COMMON, Responses, responses
from tensorbandits.service.http.security import Require

Name = Annotated[str, Path(description="The name of the bandit.", examples=["offers"])]
_ANY = responses("forbidden", "too_large", "too_many", "internal")  # before it is known what is asked


class Router(APIRouter):
    """Routes of one theme, which OpenAPI lists under a tag."""

    def __init__(self, tag: str) -> None:
        super().__init__(tags=[tag], route_class=BodyRoute)

    def route_of(
        self, name: str, *codes: str, more: Responses | None = None, **options: Any
    ) -> Callable[[DecoratedCallable], DecoratedCallable]:
        """Let a function answer the route of this name in :data:`~tensorbandits.service.http.access.ACCESS`.

        ``codes`` are the errors that it has beyond those of all routes, ``more`` says more of its answers, and other
        options are FastAPI's.
        """
        access = ACCESS[name]
        found = (COMMON if access.roles else _ANY) | (more or {})
        return self.api_route(
            access.path,
            methods=[access.method],
            name=name,
            responses=found | responses(*(["unknown_bandit"] if "{name}" in access.path else []), *codes),
            dependencies=[Depends(Require(name))] if access.roles else [],
            **options,
        )

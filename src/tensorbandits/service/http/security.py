"""Authorisation: whether the caller of a request may use a route, by what the guard found out about its API key."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Annotated, Any

from fastapi import Depends
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase
from starlette.requests import Request

from tensorbandits.service.http.access import ACCESS, ROLES, Grant, may
from tensorbandits.service.http.errors import Problem, unknown_bandit
from tensorbandits.service.http.keyring import refusal_without_key
from tensorbandits.service.tracing import TraceContext

VISIT = "tensorbandits"  # of the visit in the scope


class Visit:
    """One request: its id, its trace, what the caller may do, why nothing if nothing, and the problem it came to."""

    __slots__ = ("grant", "id", "problem", "refusal", "trace")

    def __init__(self, id: str) -> None:
        self.id = id
        self.grant: Grant | None = None
        self.refusal: Problem | None = None
        self.problem: Problem | None = None
        self.trace: TraceContext | None = None


def authorise(scope: MutableMapping[str, Any], what: str) -> Grant:
    """Return what the caller may do, or refuse: ``what`` is the name of the route.

    A bandit that the key is not for looks as if it did not exist.
    """
    here: Visit = scope[VISIT]
    grant = here.grant
    if grant is None:
        raise here.refusal or refusal_without_key()
    bandit = scope["path_params"].get("name")
    if may(grant, what, bandit):
        return grant
    access = ACCESS[what]
    if grant.role in access.roles and access.limited and bandit is not None and not grant.sees(bandit):
        raise unknown_bandit(bandit)
    allowed = " or ".join(role for role in ROLES if role in access.roles)
    limited = "" if grant.role not in access.roles else ", not limited to some bandits"
    raise Problem(
        "forbidden",
        f"the key {grant.name!r} ({grant.id}) has the role {grant.role}"
        f"{'' if grant.bandits is None else ', limited to some bandits'}; {access.method} {access.path} needs a key of "
        f"role {allowed}{limited}",
    )


class Require(SecurityBase):
    """The dependency that lets only callers through who may use a route: ``Depends(Require("ask"))``.

    OpenAPI shows it as the need of a key.
    """

    def __init__(self, what: str) -> None:
        if what not in ACCESS:
            raise ValueError(f"there is no route {what!r} in the table of who may do what; add it there")
        self.what = what
        self.model = HTTPBearer(description="An API key, tb_ID_SECRET; none is needed while the service has none.")
        self.scheme_name = "key"

    async def __call__(self, request: Request) -> Grant:
        """Return what the caller may do, or refuse."""
        return authorise(request.scope, self.what)


async def caller(request: Request) -> Grant:
    """Return what the caller of a request may do that :class:`Require` let through."""
    visit: Visit = request.scope[VISIT]
    assert visit.grant is not None
    return visit.grant


Caller = Annotated[Grant, Depends(caller)]

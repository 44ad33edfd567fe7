"""Routes that handle API keys, and the one that says what the caller's own may do."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated, Any, Literal

from fastapi import Path, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from tensorbandits.service.http.examples import ANSWERS, BODIES
from tensorbandits.service.http.routes.router import Router
from tensorbandits.service.http.schemas import Body, Name
from tensorbandits.service.http.security import Caller
from tensorbandits.service.http.serving import Served

router = Router("keys")

_SHOWN: dict[str, Any] = {"id": "7m3k9x2q4a", "name": "the shop's web servers", "role": "decide", "bandits": ["offers"]}
_ROW: dict[str, Any] = {**_SHOWN, "created": 1767225600.0, "revoked": None}
_SECRET = f"tb_{_SHOWN['id']}_{'x' * 43}"

Role = Literal["decide", "read", "admin"]
Bandits = Annotated[list[Name], Field(min_length=1, max_length=1_000)]


class NewKey(Body):
    """A key to be made."""

    model_config = ConfigDict(json_schema_extra={"examples": list(BODIES["create_key"].values())})
    name: str = Field(min_length=1, max_length=100, description="For people: who has the key.")
    role: Role = Field(description="decide: ask and tell; read: see everything; admin: do everything.")
    bandits: Bandits | None = Field(None, description="The only bandits that the key is for; all without it.")


class KeyAnswer(BaseModel):
    """A key, without its secret."""

    model_config = ConfigDict(json_schema_extra={"examples": [_ROW]})
    id: str
    name: str
    role: Role
    bandits: list[str] | None
    created: float = Field(description="Seconds since 1970.")
    revoked: float | None = Field(description="When it was revoked, in seconds since 1970; null if it is good.")


class MadeKey(KeyAnswer):
    """A new key, with its secret, which is shown this once."""

    model_config = ConfigDict(json_schema_extra={"examples": [{**_ROW, "key": _SECRET}]})
    key: str


class KeysAnswer(BaseModel):
    """All keys."""

    keys: list[KeyAnswer]


class Me(BaseModel):
    """What the caller may do."""

    model_config = ConfigDict(json_schema_extra={"examples": [ANSWERS["me"]]})
    role: Role
    bandits: list[str] | None = Field(description="The only bandits that the key is for; null for all.")
    name: str
    open: bool = Field(description="Whether there are no keys, so that everybody may do everything.")
    version: str = Field(description="The version of the service.")


@router.route_of("me")
async def me(service: Served, grant: Caller) -> Me:
    """Say what the caller's key may do."""
    bandits = None if grant.bandits is None else sorted(grant.bandits)
    found = {"role": grant.role, "bandits": bandits, "name": grant.name}
    return Me.model_validate({**found, "open": service.keys.open, "version": version("tensorbandits")})


@router.route_of("list_keys")
async def list_keys(service: Served) -> KeysAnswer:
    """List all keys, revoked ones too; secrets are not kept, and so not shown."""
    rows = await run_in_threadpool(service.store.keys)
    return KeysAnswer(keys=[KeyAnswer.model_validate(row._asdict()) for row in rows])


@router.route_of("create_key", status_code=201)
async def create_key(body: NewKey, service: Served) -> MadeKey:
    """Make a key. The answer is the only place where it is shown: a hash is kept.

    An Idempotency-Key is of no use here, as the secret cannot be shown again: if the answer is lost, revoke the key,
    which the list shows, and make another.
    """
    row, key = await run_in_threadpool(service.keys.add, body.name, body.role, body.bandits)
    return MadeKey.model_validate({**row._asdict(), "key": key})


@router.route_of("revoke_key", "not_found", status_code=204)
async def revoke_key(
    id: Annotated[str, Path(max_length=100, description="The key's id.", examples=[_SHOWN["id"]])], service: Served
) -> Response:
    """Revoke a key, at once here and within seconds in other processes; revoking it again changes nothing."""
    await run_in_threadpool(service.keys.revoke, id)
    return Response(status_code=204)

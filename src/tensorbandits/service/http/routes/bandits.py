"""Routes that make, change and end bandits."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Response
from starlette.concurrency import run_in_threadpool

from tensorbandits.service.engine import orders
from tensorbandits.service.engine.host import Host
from tensorbandits.service.engine.orders import Order
from tensorbandits.service.http import schemas
from tensorbandits.service.http.access import Grant
from tensorbandits.service.http.bodies import BodyRoute
from tensorbandits.service.http.errors import COMMON, responses
from tensorbandits.service.http.routes.decisions import Name
from tensorbandits.service.http.security import require
from tensorbandits.service.http.serving import Key, Served, Serving, marked, reply

router = APIRouter(prefix="/v1/bandits", tags=["bandits"], route_class=BodyRoute)

_ONE = COMMON | responses("unknown_bandit", "key_reused")


@router.get("", name="list_bandits", response_model=schemas.SummariesAnswer, responses=COMMON)
async def list_bandits(service: Served, grant: Grant = Depends(require("list_bandits"))) -> Response:  # noqa: B008
    """List the bandits that the key is for."""
    return reply({"bandits": [host.summary() for host in service.engine.all() if grant.sees(host.name)]})


@router.post(
    "",
    name="create_bandit",
    status_code=201,
    response_model=schemas.Detail,
    responses=COMMON | responses("name_taken"),
    dependencies=[Depends(require("create_bandit"))],
)
async def create_bandit(body: schemas.CreateBandit, service: Served, key: Key = None) -> Response:
    """Make a bandit, which decides from the next request on."""
    settings = body.given()
    settings["rules"] = [_rule(rule) for rule in body.rules]
    host = await run_in_threadpool(service.engine.create, settings.pop("name"), settings, key)
    await run_in_threadpool(host.refresh, wait=True)
    return reply(host.detail(), 201)


@router.get(
    "/{name}",
    name="get_bandit",
    response_model=schemas.Detail,
    responses=COMMON | responses("unknown_bandit"),
    dependencies=[Depends(require("get_bandit"))],
)
async def get_bandit(name: Name, service: Served) -> Response:
    """Return a bandit, and how it is made."""
    return reply((await service.host(name)).detail())


@router.patch(
    "/{name}",
    name="change_bandit",
    response_model=schemas.Detail,
    responses=_ONE,
    dependencies=[Depends(require("change_bandit"))],
)
async def change_bandit(name: Name, body: schemas.Changes, service: Served, key: Key = None) -> Response:
    """Change shares, windows, or whether it is an apprentice, from the next decision on."""
    host = await service.host(name)
    return await _changed(service, host, orders.settings(host, body.given(), key, marked("change", body, key)))


@router.delete(
    "/{name}",
    name="delete_bandit",
    status_code=204,
    responses=COMMON | responses("unknown_bandit"),
    dependencies=[Depends(require("delete_bandit"))],
)
async def delete_bandit(name: Name, service: Served, key: Key = None) -> Response:
    """End a bandit: its name is free again. Its events stay in the store."""
    if key is None or not await run_in_threadpool(service.store.ended, name, key):
        host = await service.host(name)
        await run_in_threadpool(service.engine.delete, host, key)
    return Response(status_code=204)


@router.post(
    "/{name}/levels",
    name="add_level",
    response_model=schemas.Detail,
    responses=_ONE,
    dependencies=[Depends(require("add_level"))],
)
async def add_level(name: Name, body: schemas.NewLevel, service: Served, key: Key = None) -> Response:
    """Give a mode another level; what was learned of the others stays."""
    host = await service.host(name)
    return await _changed(service, host, _level(host, "LevelAdded", body, key))


@router.post(
    "/{name}/levels/retire",
    name="retire_level",
    response_model=schemas.Detail,
    responses=_ONE,
    dependencies=[Depends(require("retire_level"))],
)
async def retire_level(name: Name, body: schemas.Level, service: Served, key: Key = None) -> Response:
    """Choose a level no more; rewards of decisions that have it are still taken."""
    host = await service.host(name)
    return await _changed(service, host, _level(host, "LevelRetired", body, key))


@router.post(
    "/{name}/levels/restore",
    name="restore_level",
    response_model=schemas.Detail,
    responses=_ONE,
    dependencies=[Depends(require("restore_level"))],
)
async def restore_level(name: Name, body: schemas.Level, service: Served, key: Key = None) -> Response:
    """Choose a retired level again, with all that was learned of it."""
    host = await service.host(name)
    return await _changed(service, host, _level(host, "LevelRestored", body, key))


@router.post(
    "/{name}/rules",
    name="add_rule",
    response_model=schemas.Detail,
    responses=_ONE,
    dependencies=[Depends(require("add_rule"))],
)
async def add_rule(name: Name, body: schemas.RuleBody, service: Served, key: Key = None) -> Response:
    """Make a rule. One that leaves nothing to choose in some context is refused."""
    host = await service.host(name)
    return await _changed(service, host, _changed_rule(host, body, key, add=True))


@router.post(
    "/{name}/rules/remove",
    name="remove_rule",
    response_model=schemas.Detail,
    responses=_ONE,
    dependencies=[Depends(require("remove_rule"))],
)
async def remove_rule(name: Name, body: schemas.RuleBody, service: Served, key: Key = None) -> Response:
    """Take back a rule, given as the bandit lists it."""
    host = await service.host(name)
    return await _changed(service, host, _changed_rule(host, body, key, add=False))


def _level(host: Host, what: str, body: schemas.Body, key: str | None) -> Order:
    return orders.level(host, what, body.given(), key, marked(what, body, key))


def _changed_rule(host: Host, body: schemas.RuleBody, key: str | None, *, add: bool) -> Order:
    mark = marked("add_rule" if add else "remove_rule", body, key)
    return orders.rule(host, _rule(body), add=add, key=key, fingerprint=mark)


def _rule(body: schemas.RuleBody) -> dict[str, object]:
    given = {what: labels for what, labels in body.given().items() if labels is not None}
    if len(given) != 1:
        raise ValueError(f"the rule is {given!r}; give either forbid or allow, with labels by mode")
    return given


async def _changed(service: Serving, host: Host, order: Order) -> Response:
    await service.write(order)
    return reply(host.detail())

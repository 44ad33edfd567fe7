"""Routes that make, change and end bandits."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import Response
from starlette.concurrency import run_in_threadpool

from tensorbandits.service.engine import orders
from tensorbandits.service.engine.host import Host
from tensorbandits.service.engine.loading import new_core
from tensorbandits.service.engine.orders import Order
from tensorbandits.service.http import previews, schemas
from tensorbandits.service.http.routes.router import Name, Router
from tensorbandits.service.http.security import Caller
from tensorbandits.service.http.serving import Key, Served, Serving, fingerprint_of, reply
from tensorbandits.service.page import preview
from tensorbandits.service.page.views.parts import plain

router = Router("bandits")


@router.route_of("list_bandits", response_model=schemas.SummariesAnswer)
async def list_bandits(service: Served, grant: Caller) -> Response:
    """List the bandits that the key is for."""
    return reply({"bandits": [host.summary() for host in service.engine.all() if grant.sees(host.name)]})


@router.route_of("create_bandit", "name_taken", status_code=201, response_model=schemas.Detail)
async def create_bandit(body: schemas.CreateBandit, service: Served, key: Key = None) -> Response:
    """Make a bandit, which decides from the next request on."""
    settings = body.given()
    settings["rules"] = [rule.rule() for rule in body.rules]
    host = await run_in_threadpool(service.engine.create, settings.pop("name"), settings, key)
    await run_in_threadpool(host.refresh, wait=True)
    return reply(host.detail(), 201)


@router.route_of("preview_bandit", response_model=previews.PreviewedBandit)
async def preview_bandit(body: previews.PreviewBandit, service: Served) -> Response:
    """Say what a bandit would be like, and make none: its combinations, and how many rewards it will need."""
    settings = body.given()
    settings["rules"] = [rule.rule() for rule in body.rules]
    name, rate = settings.pop("name"), settings.pop("rate", None)
    core = await run_in_threadpool(new_core, settings, service.engine.clock.now())
    found = plain(await run_in_threadpool(preview.new, core, rate))
    return reply({**found, "taken": any(host.name == name for host in service.engine.all())})


@router.route_of("preview_change", response_model=previews.PreviewedChange)
async def preview_change(name: Name, body: previews.PreviewChange, service: Served) -> Response:
    """Say what a change would do, and make none: settings, who decides, and what could be chosen, before and after."""
    host = await service.host(name)
    kind, given = body.change()
    found = await run_in_threadpool(preview.change, host.core, kind, given, service.engine.clock.now())
    return reply(plain(found))


@router.route_of("get_bandit", response_model=schemas.Detail)
async def get_bandit(name: Name, service: Served) -> Response:
    """Return a bandit, and how it is made."""
    return reply((await service.host(name)).detail())


@router.route_of("change_bandit", "key_reused", response_model=schemas.Detail)
async def change_bandit(name: Name, body: schemas.Changes, service: Served, key: Key = None) -> Response:
    """Change shares, windows, or whether it is an apprentice, from the next decision on."""
    mark = fingerprint_of("change", body, key)
    return await _changed(service, name, lambda host: orders.settings(host, body.given(), key, mark))


@router.route_of("delete_bandit", status_code=204)
async def delete_bandit(name: Name, service: Served, key: Key = None) -> Response:
    """End a bandit: its name is free again. Its events stay in the store."""
    if key is None or not await run_in_threadpool(service.store.ended, name, key):
        host = await service.host(name)
        await run_in_threadpool(service.engine.delete, host, key)
    return Response(status_code=204)


@router.route_of("add_level", "key_reused", response_model=schemas.Detail)
async def add_level(name: Name, body: schemas.NewLevel, service: Served, key: Key = None) -> Response:
    """Give a mode another level; what was learned of the others stays."""
    return await _level(service, name, "LevelAdded", body, key)


@router.route_of("retire_level", "key_reused", response_model=schemas.Detail)
async def retire_level(name: Name, body: schemas.Level, service: Served, key: Key = None) -> Response:
    """Choose a level no more; rewards of decisions that have it are still taken."""
    return await _level(service, name, "LevelRetired", body, key)


@router.route_of("restore_level", "key_reused", response_model=schemas.Detail)
async def restore_level(name: Name, body: schemas.Level, service: Served, key: Key = None) -> Response:
    """Choose a retired level again, with all that was learned of it."""
    return await _level(service, name, "LevelRestored", body, key)


@router.route_of("split_region", "key_reused", response_model=schemas.Detail)
async def split_region(name: Name, body: schemas.SplitRegionBody, service: Served, key: Key = None) -> Response:
    """Split a region of a mode of numbers in two. Both start like it, and it stays as a retired level."""
    mark = fingerprint_of("split_region", body, key)
    return await _changed(service, name, lambda host: orders.split_region(host, body.given(), key, mark))


@router.route_of("add_rule", "key_reused", response_model=schemas.Detail)
async def add_rule(name: Name, body: schemas.RuleBody, service: Served, key: Key = None) -> Response:
    """Make a rule. One that leaves nothing to choose in some context is refused."""
    return await _changed_rule(service, name, body, key, add=True)


@router.route_of("remove_rule", "key_reused", response_model=schemas.Detail)
async def remove_rule(name: Name, body: schemas.RuleBody, service: Served, key: Key = None) -> Response:
    """Take back a rule, given as the bandit lists it."""
    return await _changed_rule(service, name, body, key, add=False)


async def _level(service: Serving, name: str, what: str, body: schemas.Level, key: str | None) -> Response:
    mark = fingerprint_of(what, body, key)
    return await _changed(service, name, lambda host: orders.level(host, what, body.given(), key, mark))


async def _changed_rule(service: Serving, name: str, body: schemas.RuleBody, key: str | None, *, add: bool) -> Response:
    mark = fingerprint_of("add_rule" if add else "remove_rule", body, key)
    return await _changed(
        service, name, lambda host: orders.rule(host, body.rule(), add=add, key=key, fingerprint=mark)
    )


async def _changed(service: Serving, name: str, order: Callable[[Host], Order]) -> Response:
    """Have the order of a change written, and return the bandit as it is then."""
    host = await service.host(name)
    await service.write(order(host))
    return reply(host.detail())

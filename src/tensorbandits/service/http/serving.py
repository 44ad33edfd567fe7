"""What every route needs: the bandits of this process, by name, and how to write without blocking the others."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from importlib.metadata import version
from typing import Annotated, Any, TypeVar

from anyio import CapacityLimiter
from fastapi import Depends, Header, Request, Response
from starlette.concurrency import run_in_threadpool

from tensorbandits.bandit.settings import labels_of, named
from tensorbandits.bandit.snapshot import NotLearnedError
from tensorbandits.service.engine import orders
from tensorbandits.service.engine.engine import Engine
from tensorbandits.service.engine.host import Host
from tensorbandits.service.engine.orders import Order
from tensorbandits.service.http import schemas
from tensorbandits.service.http.fingerprint import fingerprint
from tensorbandits.service.http.keyring import Keys
from tensorbandits.service.metrics import Metrics
from tensorbandits.service.page.views import ViewCache
from tensorbandits.service.settings import Settings
from tensorbandits.space.labels import Label
from tensorbandits.store import Store, UnknownBanditError

Made = TypeVar("Made")
Asked = TypeVar("Asked", bound=schemas.Body)

_dumps = json.JSONEncoder(separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode


class Serving:
    """The state of a process that serves."""

    def __init__(self, settings: Settings, store: Store, engine: Engine, keys: Keys, metrics: Metrics) -> None:
        self.settings, self.store, self.engine, self.keys, self.metrics = settings, store, engine, keys, metrics
        self.view_cache = ViewCache()
        self.listeners = 0  # to server-sent events
        self.waiting = 0  # for the next snapshot
        self.view_threads = CapacityLimiter(2)  # of their own: some views take seconds
        self.body_threads = CapacityLimiter(2)  # that read large bodies
        self.imports = CapacityLimiter(1)  # one after the other, as they take memory
        self._started = time.time()

    async def host(self, name: str) -> Host:
        """Return a bandit by its name."""
        known = self.engine.known(name)
        return await run_in_threadpool(self.engine.find, name) if known is None else known

    async def write(self, order: Order) -> Any:
        """Have an order written, and return its answer once it is durable."""
        loop = asyncio.get_running_loop()
        order.waiter = loop, loop.create_future()
        self.engine.writer.enter([order])
        return await order.waiter[1]

    async def write_together(self, made: Sequence[Order]) -> list[Any]:
        """Have the orders of one request written, all or none, and return their answers once they are durable."""
        loop = asyncio.get_running_loop()
        for order in made:
            order.together, order.since, order.waiter = made, made[0].since, (loop, loop.create_future())
        if made:
            self.engine.writer.enter(made)
        return await all_of(order.waiter[1] for order in made if order.waiter is not None)

    async def carry_out(
        self, host: Host, make: Callable[[Host, Asked, str | None], Order], body: Asked, key: str | None
    ) -> Any:
        """Have the order of a request made and written, and return its answer; the first draws are waited for.

        It is of the bandit that has the name now, if another server deleted this one.
        """
        while True:
            try:
                return await self.write(await self.made(host, partial(make, host, body, key)))
            except NotLearnedError:
                await run_in_threadpool(host.refresh, wait=True)
            except UnknownBanditError:
                found = await run_in_threadpool(self.engine.successor, host)
                if found is None:
                    raise
                host = found

    async def made(self, host: Host, make: Callable[[], Made]) -> Made:
        """Return what is made of a request; what other servers know by now is taken in before one is refused."""
        while True:
            before = host.seq
            try:
                return make() if host.core.snapshot.samples else await run_in_threadpool(make)
            except NotLearnedError:
                await run_in_threadpool(host.refresh, wait=True)
            except (LookupError, ValueError):
                await run_in_threadpool(self.engine.catch_up, host)
                if host.seq == before:
                    raise

    def health(self, host: Host) -> dict[str, Any]:
        """Return how this process and a bandit in it are doing."""
        core = host.core
        return {
            "version": version("tensorbandits"),
            "store": self.store.url,
            "process": os.getpid(),
            "up_seconds": time.time() - self._started,
            "memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "events": host.seq,
            "events_since_snapshot": host.seq - host.kept,
            "rewards_not_learned": core.learner.behind,
            "open_decisions": core.waiting,
            "cells_seen": len(core.policy.ledger),
        }

    def deciders(self, host: Host) -> dict[str, Any]:
        """Return what this process knows of the snapshots of a bandit and of those who decide from them."""
        return {
            **self.engine.publisher.said(host),
            "deciders": host.deciders.rows(),
            "events_a_second": host.events_a_second,
            "learning_lag": host.learning_lag,
        }


def ask_order(host: Host, body: schemas.AskBody, key: str | None) -> Order:
    """Return the order of a decision that JSON describes, drawn now."""
    given = body.given()
    request = host.request(
        named(given.get("context")),
        allowed_labels(given),
        id=given.get("id"),
        active=given.get("activate", True),
        played=None if given.get("played") is None else named(given["played"]),
        propensity=given.get("propensity"),
        subject=given.get("subject"),
    )
    meant = {name: value for name, value in body.meant().items() if name != "subject"}  # of which the log says nothing
    mark = fingerprint("ask", meant) if key is not None or request.id is not None else None
    return orders.ask(host, request, key, mark)


def tell_order(host: Host, body: schemas.TellBody, key: str | None) -> Order:
    """Return the order of a reward that JSON describes."""
    given = body.given()
    has_id, has_arm = given.get("id") is not None, given.get("arm") is not None
    if has_id == has_arm:
        raise ValueError("tell either the id of a decision and its reward, or arm, context and reward")
    if has_id and (given.get("context") is not None or given.get("trials") is not None):
        raise ValueError("context and trials go with an arm; a decision has a context already: leave them out")
    if has_arm and (given.get("amend") or given.get("add")):
        raise ValueError("amend and add change the reward of a decision; give its id rather than an arm")
    return orders.tell(host, given, key, fingerprint_of("tell", body, key), host.token_of(given.get("id")))


def allowed_labels(given: dict[str, Any]) -> dict[str, list[Label]] | None:
    """Return the labels that a request allows, by mode; ``None`` if it allows all."""
    allowed = given.get("allowed")
    return None if allowed is None else {mode: labels_of(labels) for mode, labels in allowed.items()}


def fingerprint_of(route: str, body: schemas.Body, key: str | None) -> str | None:
    """Return the fingerprint of a request that has a key."""
    return None if key is None else fingerprint(route, body.meant())


async def all_of(some: Iterable[Awaitable[Any]]) -> list[Any]:
    """Return what all return, or raise what the first that failed did, once none is at work any more."""
    found = await asyncio.gather(*some, return_exceptions=True)
    for one in found:
        if isinstance(one, BaseException):
            raise one
    return found


async def serving(request: Request) -> Serving:  # a plain function would be run in a thread
    """Return what the application was started with."""
    found: Serving = request.app.state.serving
    return found


Served = Annotated[Serving, Depends(serving)]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="A text of your choice: the same request with the same key is carried out once.",
    ),
]


def to_json(content: Any) -> bytes:
    """Return plain data as JSON."""
    return _dumps(content).encode()


def reply(content: Any, status: int = 200) -> Response:
    """Return an answer of plain data."""
    return Response(to_json(content), status, media_type="application/json")

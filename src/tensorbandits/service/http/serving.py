"""What every route needs: the bandits of this process, by name, and how to write without blocking the others."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Header, Request, Response
from starlette.concurrency import run_in_threadpool

from tensorbandits.service.engine.hosted import Ask, Hosted
from tensorbandits.service.engine.hosts import Hosts
from tensorbandits.service.engine.replica import NotLearnedError
from tensorbandits.service.engine.writer import Order
from tensorbandits.service.metrics import Metrics
from tensorbandits.service.page.views import Looks
from tensorbandits.service.settings import Settings
from tensorbandits.store import Store

Made = TypeVar("Made")

_dumps = json.JSONEncoder(separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode


class Serving:
    """The state of a process that serves."""

    def __init__(self, settings: Settings, store: Store, hosts: Hosts, metrics: Metrics) -> None:
        self.settings, self.store, self.hosts, self.metrics = settings, store, hosts, metrics
        self.looks = Looks()
        self._lookers = ThreadPoolExecutor(2, "looker")  # of their own: some looks take seconds
        self.started = time.time()

    async def host(self, name: str) -> Hosted:
        """Return a bandit by its name."""
        known = self.hosts.known(name)
        return await run_in_threadpool(self.hosts.find, name) if known is None else known

    async def write(self, order: Order) -> Any:
        """Have an order written, and return its answer once it is durable."""
        loop = asyncio.get_running_loop()
        order.waiter = loop, loop.create_future()
        self.hosts.enter(order)
        return await order.waiter[1]

    async def looked(self, look: Callable[[], Made]) -> Made:
        """Return what somebody looks at, made beside everything else."""
        return await asyncio.get_running_loop().run_in_executor(self._lookers, look)

    async def drawn(self, host: Hosted, make: Callable[[], Made]) -> Made:
        """Return orders that take a draw; the first draws of a bandit are waited for."""
        while True:
            try:
                return make()
            except NotLearnedError:
                await run_in_threadpool(host.replica.refresh, wait=True)

    async def decided(self, host: Hosted, request: Ask, key: str | None, order: Order | None = None) -> Any:
        """Have a decision made and written; drawn again if levels came between, which needs new draws first."""
        while True:
            try:
                if order is None:
                    order = await self.drawn(host, lambda: host.ask(request, key))
                return await self.write(order)
            except NotLearnedError:
                order = None
                await run_in_threadpool(host.replica.refresh, wait=True)

    def health(self, host: Hosted) -> dict[str, Any]:
        """Return how this process and a bandit in it are doing."""
        replica = host.replica
        return {
            "version": version("tensorbandits"),
            "store": self.store.url,
            "process": os.getpid(),
            "up_seconds": time.time() - self.started,
            "memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "events": replica.seq,
            "events_since_snapshot": replica.seq - host.kept,
            "rewards_not_learned": max(replica.told - max(replica.learned, 0.0), 0.0),
            "open_decisions": replica.waiting,
            "cells_seen": len(replica.policy.ledger),
        }


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


def written(content: Any) -> bytes:
    """Return plain data as JSON."""
    return _dumps(content).encode()


def reply(content: Any, status: int = 200) -> Response:
    """Return an answer of plain data."""
    return Response(written(content), status, media_type="application/json")

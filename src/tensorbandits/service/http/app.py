"""The web application: its routes, the middleware around them, and what starts and stops with it."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from types import FrameType
from typing import Any

from fastapi import FastAPI, Response
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

from tensorbandits.decider.tokens import TokenKeys
from tensorbandits.service import logs
from tensorbandits.service.engine.deciders import DAY
from tensorbandits.service.engine.demo import Demo
from tensorbandits.service.engine.engine import Engine
from tensorbandits.service.http import errors, openapi
from tensorbandits.service.http.errors import Problem
from tensorbandits.service.http.fast_path import FastPath
from tensorbandits.service.http.guard import Guard
from tensorbandits.service.http.keyring import Keys
from tensorbandits.service.http.routes import (
    bandits,
    changes,
    data,
    decisions,
    features,
    keys,
    pages,
    rank,
    snapshots,
    stream,
)
from tensorbandits.service.http.routes.router import Router
from tensorbandits.service.http.serving import Served, Serving, reply
from tensorbandits.service.metrics import Metrics
from tensorbandits.service.settings import Settings, is_loopback
from tensorbandits.store import Store

_WORDS = """Choose the best combination, and learn from each reward.

Make a bandit, **ask** it for a decision, show what it says, and **tell** the reward by the decision's id: at once,
late, twice or never. Every write takes an `Idempotency-Key`, so that it can be repeated without counting twice.
"""

health = Router("health")


@health.route_of("healthz", response_model=dict[str, str])
async def healthz() -> Response:
    """Say that the process lives."""
    return reply({"status": "ok"})


@health.route_of("readyz", "unavailable", response_model=dict[str, Any])
async def readyz(service: Served) -> Response:
    """Say whether requests may come: not while the store is away or cannot be written, nor before the service stops."""
    if not service.engine.ready:
        raise Problem("unavailable", "bandits are being loaded, or the service stops; try again in a second", retry=1)
    if troubles := service.engine.health.troubles():
        raise Problem("unavailable", f"not ready: {'; '.join(troubles)}", retry=1)
    quarantined = [host.name for host in service.engine.quarantined()]
    return reply({"status": "ready", "bandits": len(service.engine.all()), "quarantined": quarantined})


@health.route_of(
    "metrics", more={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}, response_class=Response
)
async def metrics(service: Served) -> Response:
    """Return numbers for Prometheus."""
    text = await run_in_threadpool(service.metrics.text)  # which may read files of other processes
    return Response(text, media_type=service.metrics.content_type)


class _App(FastAPI):
    """An application whose OpenAPI document has examples, and in which the guard is the first to see a request.

    Nothing is around the guard, as it lets no exception out; what the framework has there would take a good part of
    the time of a decision.
    """

    def build_middleware_stack(self) -> ASGIApp:
        stack: Any = super().build_middleware_stack()
        while not isinstance(stack, Guard):
            stack = stack.app
        return stack

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self.middleware_stack is None:
            return await super().__call__(scope, receive, send)
        scope["app"] = self
        await self.middleware_stack(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.openapi_schema = openapi.finish(super().openapi())
        return self.openapi_schema


def _drain_first(engine: Engine, seconds: float) -> None:
    """At SIGTERM say that this process is not ready, and stop only a while later; at once when told a second time.

    Whoever sends requests here needs that while to notice. Ctrl-C stops at once: nobody is in between.
    """
    if not seconds or threading.current_thread() is not threading.main_thread():
        return
    stop, loop = signal.getsignal(signal.SIGTERM), asyncio.get_running_loop()
    if not callable(stop):
        return

    def drain() -> None:
        engine.health.drain()
        logs.get("health").info("told to stop: not ready any more", serves_for=seconds)
        loop.call_later(seconds, stop, signal.SIGTERM, None)

    def told(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, stop)
        loop.call_soon_threadsafe(drain)  # a handler may take no lock, as the log does

    signal.signal(signal.SIGTERM, told)


def create_app(settings: Settings, store: Store | None = None, started: Callable[[], None] | None = None) -> FastAPI:
    """Return the application over a store, which is opened when it starts unless one is given.

    ``started`` is called once all bandits are loaded, before anything is answered.
    """
    logs.configure(settings.log_level, settings.log_format)
    place = store or Store.open(settings.store)
    measured = Metrics(version("tensorbandits"))
    known = Keys(place, seconds=settings.key_seconds, exposed=not is_loopback(settings.host), metrics=measured)
    engine = Engine(
        place,
        measured,
        learning=settings.learning_share,
        snapshots=settings.snapshot_interval,
        away=settings.store_away,
        tokens=TokenKeys.of(settings.token_keys) if settings.token_keys else None,
        token_age=settings.token_days * DAY,
        publish=settings.publish,
        publish_every=settings.publish_every,
    )

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(known.start)
        await asyncio.to_thread(engine.start)
        if started is not None:
            started()
        _drain_first(engine, settings.drain_seconds)
        demo = Demo(engine) if settings.demo else None
        if demo is not None:
            demo.start()
        yield
        if demo is not None:
            await asyncio.to_thread(demo.stop)
        engine.writer.flush()
        await asyncio.to_thread(engine.stop)
        await asyncio.to_thread(known.stop)
        if store is None:
            place.close()

    app = _App(
        title="tensorbandits",
        version=version("tensorbandits"),
        description=_WORDS,
        lifespan=lifespan,
        docs_url=None,  # they would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.serving = Serving(settings, place, engine, known, measured)
    for router in (
        decisions.router,
        rank.router,
        health,
        bandits.router,
        data.router,
        stream.router,
        snapshots.router,
        changes.router,
        features.router,
        keys.router,
        pages.router,
    ):  # busiest first
        app.include_router(router)
    errors.install(app)
    guard: Any = Guard
    fast_path: Any = FastPath
    app.add_middleware(fast_path, serving=app.state.serving)
    app.add_middleware(guard, keys=known, settings=settings, metrics=measured)
    return app

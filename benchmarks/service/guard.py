"""What the guard and the check of a key add to a request, in process: python -m benchmarks.service.guard.

Apps that differ in one thing each take turns in one process, and CPU time counts, so that a busy machine matters less.
"""

from __future__ import annotations

import asyncio
import os
import sys
from statistics import median
from time import perf_counter, process_time
from typing import Any

from fastapi import Depends, FastAPI
from pydantic import BaseModel

from tensorbandits.service import logs
from tensorbandits.service.http import errors
from tensorbandits.service.http.guard import Guard
from tensorbandits.service.http.keyring import Keys, make_key
from tensorbandits.service.http.security import Require
from tensorbandits.service.metrics import Metrics
from tensorbandits.service.settings import Settings
from tensorbandits.store import Store

ROUNDS, REQUESTS = 60, 300
BODY = b'{"context": {"segment": "new"}}'


class Ask(BaseModel):
    """A body as that of an ask."""

    context: dict[str, str]


def make(keys: Keys | None, checked: bool) -> FastAPI:
    """Return an app of one route that does nothing, behind a guard if there are keys, which checks roles if wanted."""
    app = FastAPI(openapi_url=None)

    @app.post("/v1/bandits/{name}/ask", name="ask", dependencies=[Depends(Require("ask"))] if checked else [])
    async def ask(name: str, body: Ask) -> dict[str, int]:
        return {"a": 1}

    errors.install(app)
    if keys is not None:
        guard: Any = Guard
        app.add_middleware(guard, keys=keys, settings=Settings(), metrics=Metrics())
    return app


async def send(app: Any, key: str, count: int) -> float:
    """Return microseconds of CPU time that a request takes."""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": BODY, "more_body": False}

    async def answer(message: Any) -> None:
        status = message.get("status", 200)
        assert status == 200, status

    headers = {"host": "localhost", "authorization": f"Bearer {key}", "content-type": "application/json"}
    raw = [(name.encode(), value.encode()) for name, value in (headers | {"content-length": str(len(BODY))}).items()]
    fixed = {"type": "http", "method": "POST", "path": "/v1/bandits/offers/ask", "root_path": "", "scheme": "http"}
    fixed |= {"query_string": b"", "http_version": "1.1", "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8000)}
    began = process_time()
    for _ in range(count):
        await app({**fixed, "headers": raw}, receive, answer)
    return 1e6 * (process_time() - began) / count


async def measure() -> None:
    """Print what each layer adds."""
    with Store.open("sqlite://") as store, open(os.devnull, "w") as nowhere:
        logs.configure("info", "json", nowhere)
        row, key = make_key("web", "decide")
        store.add_key(row)
        keys = Keys(store)
        keys.read()
        began = perf_counter()
        await keys.grant(key.encode(), "127.0.0.1")
        print(f"a key that is new to the process: {1000 * (perf_counter() - began):.0f} ms, in a thread")
        apps = {"the route alone": make(None, False), "guard": make(keys, False), "guard and roles": make(keys, True)}
        times: dict[str, list[float]] = {name: [] for name in apps}
        for _ in range(ROUNDS):
            for name, app in apps.items():
                times[name].append(await send(app, key, REQUESTS))
        keys.stop()
    for name, found in times.items():
        print(f"{name}: {median(found):.0f} µs of CPU time (least {min(found):.0f})")


if __name__ == "__main__":
    sys.exit(asyncio.run(measure()))

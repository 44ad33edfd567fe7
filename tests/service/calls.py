"""What tests of the service have in common: a few routes behind the guard, calls in process, a server."""

import asyncio
import contextlib
import io
import json
import socket
import threading
import time
from types import SimpleNamespace

import httpx
import uvicorn
from fastapi import Depends, FastAPI, Request
from pydantic import BaseModel
from starlette.responses import StreamingResponse

from tensorbandits.service import logs
from tensorbandits.service.http import errors
from tensorbandits.service.http.guard import Guard
from tensorbandits.service.http.keyring import Keys, make_key
from tensorbandits.service.http.routes import keys as key_routes
from tensorbandits.service.http.security import Require
from tensorbandits.service.metrics import Metrics
from tensorbandits.service.settings import Settings
from tensorbandits.store import Store
from tensorbandits.store.errors import StoreReadOnlyError

SECRET = "hunter2-of-the-database"


class Body(BaseModel):
    model_config = {"extra": "forbid"}
    reward: float
    labels: dict[str, str] = {}


def routes(app):
    """Routes as the service has them, of every way to go wrong."""

    @app.get("/healthz", name="healthz")
    async def healthz():
        return {"status": "ok"}

    @app.post("/v1/bandits/{name}/ask", name="ask", dependencies=[Depends(Require("ask"))])
    async def ask(name: str, body: Body):
        return {"name": name, "reward": body.reward}

    @app.post("/v1/bandits/{name}/import", name="import_log", dependencies=[Depends(Require("import_log"))])
    async def import_log(name: str, request: Request):
        return {"size": len(await request.body())}

    @app.post("/v1/bandits/{name}/explain", name="explain", dependencies=[Depends(Require("explain"))])
    async def explain(name: str):
        raise {
            "value": ValueError("the reward is inf; tell a finite number"),
            "readonly": StoreReadOnlyError("the store is read-only; nothing was written"),
            "internal": RuntimeError(f"could not reach postgresql://me:{SECRET}@db/bandits"),
            "secret": ValueError(f"cannot use postgresql://me:{SECRET}@db/bandits"),
            "key": KeyError("a bug"),
        }[name]

    @app.get("/v1/bandits/{name}/export", name="export", dependencies=[Depends(Require("export"))])
    async def export(name: str):
        async def rows():
            yield b"half of it"
            await asyncio.sleep(0.01)
            raise RuntimeError(f"broke off at {SECRET}")

        return StreamingResponse(rows())


class Place:
    """An app behind its guard, over a store, with what it logged."""

    def __init__(self, *, rows=routes, log_level="debug", clock=time.monotonic, store=None, **given):
        self.lines = io.StringIO()
        logs.configure(log_level, "json", self.lines)
        self.settings = Settings(**given)
        self.store = store or Store.open("sqlite://")
        self.metrics = Metrics()
        self.keys = Keys(self.store, clock=clock)
        self.keys.read()
        self.app = FastAPI()
        self.app.state.serving = SimpleNamespace(keys=self.keys, store=self.store)
        rows(self.app)
        self.app.include_router(key_routes.router)
        errors.install(self.app)
        self.app.add_middleware(Guard, keys=self.keys, settings=self.settings, metrics=self.metrics)

    def key(self, role="admin", bandits=None, name="somebody"):
        """Make a key, and return it."""
        row, key = make_key(name, role, bandits)
        self.store.add_key(row)
        self.keys.read()
        return key

    def log(self):
        """Return the lines of the log."""
        logs.flush()
        return [json.loads(line) for line in self.lines.getvalue().splitlines()]

    def call(self, method, path, key=None, **given):
        """Send one request, in process."""
        return self.calls([(method, path, key, given)])[0]

    def calls(self, requests):
        """Send requests at once."""

        async def send():
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:

                async def one(method, path, key, given):
                    headers = dict(given.get("headers", {}))
                    if key is not None:
                        headers["Authorization"] = f"Bearer {key}"
                    rest = {name: value for name, value in given.items() if name != "headers"}
                    return await client.request(method, path, headers=headers, **rest)

                return await asyncio.gather(*(one(*request) for request in requests))

        return asyncio.run(send())

    def close(self):
        self.keys.stop()
        self.store.close()


@contextlib.contextmanager
def placed(**given):
    """A place that is put away afterwards."""
    place = Place(**given)
    try:
        yield place
    finally:
        place.close()


@contextlib.contextmanager
def served(app):
    """A real server on a free port, and that port."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, access_log=False, ws="none", lifespan="off")
    server = uvicorn.Server(config)
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])), daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()


def talk(port, *parts, until=None, wait=30.0):
    """Send bytes over a connection, and return what comes back until the server closes it, or a mark was seen."""
    with socket.create_connection(("127.0.0.1", port), timeout=wait) as connection:
        for part in parts:
            connection.sendall(part)
        seen = b""
        with contextlib.suppress(ConnectionResetError):
            while (until is None or seen.count(until[0]) < until[1]) and (more := connection.recv(65_536)):
                seen += more
        return seen

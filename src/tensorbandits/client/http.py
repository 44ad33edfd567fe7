"""Transports by httpx: one that blocks, and one that is awaited. All that sends and sleeps is here."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import anyio
import httpx

from tensorbandits.client.messages import HttpAnswer, HttpRequest, Lost

_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=30.0)
_NOT_REACHED = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)


def headers_of(key: str | None) -> dict[str, str]:
    """Return the headers of every request."""
    if key is not None and not (isinstance(key, str) and key.isascii() and key.isprintable() and key):
        raise ValueError("the key is no key of the service, which are plain text such as 'tb_...'")
    found = {"accept": "application/json", "user-agent": f"tensorbandits/{version('tensorbandits')}"}
    return found if key is None else {**found, "authorization": f"Bearer {key}"}


class _Service:
    """Where the service is, and what every request has."""

    def __init__(self, url: str, key: str | None) -> None:
        self._url, self._headers = url, headers_of(key)

    def _arguments(self, request: HttpRequest, seconds: float) -> dict[str, Any]:
        headers = dict(self._headers)
        if request.body is not None:
            headers["content-type"] = request.kind
        if request.key is not None:
            headers["idempotency-key"] = request.key
        address = self._url + request.path
        found = {"method": request.method, "url": address, "content": request.body, "headers": headers}
        return {**found, "timeout": seconds}


class Blocking(_Service):
    """The transport of a client that blocks: its coroutines never wait for an event loop. Any number of threads may.

    Parameters
    ----------
    url, key : of the service.
    http : a client of httpx that the caller made and will close; ``None`` to make one.
    """

    def __init__(self, url: str, key: str | None, http: httpx.Client | None = None) -> None:
        super().__init__(url, key)
        self._http, self._own = http or httpx.Client(limits=_LIMITS), http is None

    async def send(self, request: HttpRequest, seconds: float) -> HttpAnswer:
        """Send a request and return its answer."""
        try:
            with self._http.stream(**self._arguments(request, seconds)) as response:
                if request.into is None or not response.is_success:
                    return _answer(response, response.read())
                with _written(request.into) as file:
                    for chunk in response.iter_bytes():
                        file.write(chunk)
                return _answer(response, b"")
        except httpx.TransportError as error:
            raise _lost(error) from error

    async def sleep(self, seconds: float) -> None:
        """Do nothing for so many seconds."""
        time.sleep(seconds)

    async def close(self) -> None:
        """Close the connections."""
        if self._own:
            self._http.close()


class Awaiting(_Service):
    """The transport of a client that is awaited.

    Parameters
    ----------
    url, key : of the service.
    http : an asynchronous client of httpx that the caller made and will close; ``None`` to make one.
    """

    def __init__(self, url: str, key: str | None, http: httpx.AsyncClient | None = None) -> None:
        super().__init__(url, key)
        self._http, self._own = http or httpx.AsyncClient(limits=_LIMITS), http is None

    async def send(self, request: HttpRequest, seconds: float) -> HttpAnswer:
        """Send a request and return its answer."""
        try:
            async with self._http.stream(**self._arguments(request, seconds)) as response:
                if request.into is None or not response.is_success:
                    return _answer(response, await response.aread())
                with _written(request.into) as file:
                    async for chunk in response.aiter_bytes():
                        file.write(chunk)
                return _answer(response, b"")
        except httpx.TransportError as error:
            raise _lost(error) from error

    async def sleep(self, seconds: float) -> None:
        """Do nothing for so many seconds."""
        await anyio.sleep(seconds)

    async def close(self) -> None:
        """Close the connections."""
        if self._own:
            await self._http.aclose()


def _lost(error: httpx.TransportError) -> Lost:
    words = str(error) or "it took too long"
    return Lost(f"{type(error).__name__}: {words}", reached=not isinstance(error, _NOT_REACHED))


def _answer(response: httpx.Response, body: bytes) -> HttpAnswer:
    return HttpAnswer(response.status_code, dict(response.headers), body)


@contextlib.contextmanager
def _written(path: Path) -> Iterator[IO[bytes]]:
    """Write a file, whole or not at all."""
    partial = path.with_name(f"{path.name}.part")
    try:
        with open(partial, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:  # its owner's only
            yield file
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)

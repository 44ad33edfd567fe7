"""The steps of an operation, done with httpx: blocking, or awaited. All that sends and sleeps is here."""

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

from tensorbandits.client.steps import Answer, Lost, Pause, Send, Step, Steps, T, advance

_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=30.0)
_NOT_REACHED = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)


def headers_of(key: str | None) -> dict[str, str]:
    """Return the headers of every request."""
    if key is not None and not (isinstance(key, str) and key.isascii() and key.isprintable() and key):
        raise ValueError("the key is no key of the service, which are plain text such as 'tb_...'")
    found = {"accept": "application/json", "user-agent": f"tensorbandits/{version('tensorbandits')}"}
    return found if key is None else {**found, "authorization": f"Bearer {key}"}


class _Transport:
    """Where the service is, and what every request has."""

    def __init__(self, url: str, key: str | None) -> None:
        self._url, self._headers = url, headers_of(key)

    def _arguments(self, step: Send) -> dict[str, Any]:
        request = step.request
        headers = dict(self._headers)
        if request.body is not None:
            headers["content-type"] = request.kind
        if request.key is not None:
            headers["idempotency-key"] = request.key
        address = self._url + request.path
        found = {"method": request.method, "url": address, "content": request.body, "headers": headers}
        return {**found, "timeout": step.seconds}


class Blocking(_Transport):
    """Does steps one after the other, in the thread that calls; any number of threads may.

    Parameters
    ----------
    url, key : of the service.
    http : a client of httpx that the caller made and will close; ``None`` to make one.
    """

    def __init__(self, url: str, key: str | None, http: httpx.Client | None = None) -> None:
        super().__init__(url, key)
        self._http, self._own = http or httpx.Client(limits=_LIMITS), http is None

    def run(self, steps: Steps[T]) -> T:
        """Do all steps, and return the result."""
        outcome, first = None, True
        with contextlib.closing(steps):
            while True:
                try:
                    step = advance(steps, outcome, first=first)
                except StopIteration as stop:
                    return stop.value  # type: ignore[no-any-return]
                outcome, first = self._do(step), False

    def _do(self, step: Step) -> Answer | Lost | None:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        with _losses() as lost, self._http.stream(**self._arguments(step)) as response:
            if step.request.into is None or not response.is_success:
                return _answer(response, response.read())
            with _written(step.request.into) as file:
                for chunk in response.iter_bytes():
                    file.write(chunk)
            return _answer(response, b"")
        return lost[0]

    def close(self) -> None:
        """Close the connections."""
        if self._own:
            self._http.close()


class Awaiting(_Transport):
    """Does steps one after the other, awaited.

    Parameters
    ----------
    url, key : of the service.
    http : an asynchronous client of httpx that the caller made and will close; ``None`` to make one.
    """

    def __init__(self, url: str, key: str | None, http: httpx.AsyncClient | None = None) -> None:
        super().__init__(url, key)
        self._http, self._own = http or httpx.AsyncClient(limits=_LIMITS), http is None

    async def run(self, steps: Steps[T]) -> T:
        """Do all steps, and return the result."""
        outcome, first = None, True
        with contextlib.closing(steps):
            while True:
                try:
                    step = advance(steps, outcome, first=first)
                except StopIteration as stop:
                    return stop.value  # type: ignore[no-any-return]
                outcome, first = await self._do(step), False

    async def _do(self, step: Step) -> Answer | Lost | None:
        if isinstance(step, Pause):
            await anyio.sleep(step.seconds)
            return None
        with _losses() as lost:
            async with self._http.stream(**self._arguments(step)) as response:
                if step.request.into is None or not response.is_success:
                    return _answer(response, await response.aread())
                with _written(step.request.into) as file:
                    async for chunk in response.aiter_bytes():
                        file.write(chunk)
                return _answer(response, b"")
        return lost[0]

    async def close(self) -> None:
        """Close the connections."""
        if self._own:
            await self._http.aclose()


@contextlib.contextmanager
def _losses() -> Iterator[list[Lost]]:
    """Turn what httpx raises when no answer comes into something to be returned."""
    lost: list[Lost] = []
    try:
        yield lost
    except httpx.TransportError as error:
        words = str(error) or "it took too long"
        lost.append(Lost(f"{type(error).__name__}: {words}", reached=not isinstance(error, _NOT_REACHED)))


def _answer(response: httpx.Response, body: bytes) -> Answer:
    return Answer(response.status_code, dict(response.headers), body)


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

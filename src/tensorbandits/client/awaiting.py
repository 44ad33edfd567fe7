"""The client that is awaited: the twin of :class:`~tensorbandits.client.Client`, with the same names."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Self

from tensorbandits.base.checks import check_installed
from tensorbandits.client.exchange import Exchange, Fallback
from tensorbandits.client.management import ClientOperations
from tensorbandits.client.remote_bandit import AsyncRemoteBandit
from tensorbandits.client.retries import Retries

if TYPE_CHECKING:
    import httpx


class AsyncClient(ClientOperations):
    """Talks to a decision service as :class:`~tensorbandits.Client` does, awaited.

    The arguments and methods are those of :class:`~tensorbandits.Client`; all but :meth:`bandit` are awaited. Close it
    with ``await client.close()``, or use ``async with``.

    >>> import asyncio, httpx
    >>> away = httpx.MockTransport(lambda request: httpx.Response(503))
    >>> http = httpx.AsyncClient(transport=away)
    >>> async def decide():
    ...     async with AsyncClient("http://127.0.0.1:8000", retries=0, http=http) as client:
    ...         return await client.bandit("offers", fallback={"offer": "a"}).ask(segment="new")
    >>> asyncio.run(decide()).arm
    {'offer': 'a'}
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout: float = 5.0,
        retries: int = 8,
        budget: float = 15.0,
        rest: float = 1.0,
        buffer: int = 0,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        check_installed("tensorbandits.AsyncClient", "httpx", extra="client")
        from tensorbandits.client.http import Awaiting

        tries = Retries(timeout, retries, budget, rest)
        super().__init__(Exchange(url, tries, buffer, lambda address: Awaiting(address, key, http)))

    def bandit(self, name: str, *, fallback: Fallback | None = None) -> AsyncRemoteBandit:
        """Return a bandit by its name, without asking whether it is there; not awaited, as nothing is sent."""
        return AsyncRemoteBandit(self._exchange, name, fallback)

    async def create(self, name: str, space: Any, **settings: Any) -> AsyncRemoteBandit:
        """Make a bandit and return it: of a :class:`tensorbandits.Space`, or of modes and their levels."""
        await self._create(name, space, settings)
        return self.bandit(name)

    async def close(self) -> None:
        """Send what waits, if the service is there, and close the connections; what is lost by that is warned of."""
        if (words := await self._close()) is not None:
            warnings.warn(words, RuntimeWarning, stacklevel=2)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncClient({self._exchange.url})"

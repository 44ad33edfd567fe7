"""The client that is awaited: the twin of :class:`~tensorbandits.client.Client`, with the same names."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from tensorbandits.base.checks import check_installed
from tensorbandits.client import wire
from tensorbandits.client.exchange import Exchange, Fallback
from tensorbandits.client.outbox import Flushed
from tensorbandits.client.remote_bandit import AsyncRemoteBandit
from tensorbandits.client.retries import Retries
from tensorbandits.space import Space

if TYPE_CHECKING:
    import httpx


class ClientOperations:
    """What a client can do, awaited.

    Parameters
    ----------
    exchange : how to reach the service.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def bandit(self, name: str, *, fallback: Fallback | None = None) -> AsyncRemoteBandit:
        """Return a bandit by its name, without asking whether it is there; not awaited, as nothing is sent."""
        return AsyncRemoteBandit(self._exchange, name, fallback)

    async def bandits(self) -> list[dict[str, Any]]:
        """Return what the service has: the name, modes and numbers of each bandit that the key may see."""
        said = await self._exchange.call(wire.get(wire.place("bandits")))
        return list(said["bandits"])

    async def create(self, name: str, space: Any, **settings: Any) -> AsyncRemoteBandit:
        """Make a bandit and return it: of a :class:`tensorbandits.Space`, or of modes and their levels."""
        if isinstance(space, Space):
            if given := [one for one in ("context", "features") if one in settings]:
                raise TypeError(f"{given[0]} is given beside a Space, which has it already; leave it out")
        else:
            space = Space(space, settings.pop("context", ()), features=settings.pop("features", None))
        await self._exchange.call(wire.write(wire.place("bandits"), wire.create(name, space, settings)))
        bandit = self.bandit(name)
        named = {mode: labels for mode, labels in space.retired.items() if mode not in space.regions}
        for mode, labels in named.items():
            for label in labels:
                await bandit.retire_level(mode, label)
        return bandit

    async def delete(self, name: str) -> None:
        """Delete a bandit, so that its name is free; its events stay in the store."""
        await self._exchange.call(wire.write(wire.place("bandits", name), method="DELETE"))

    async def me(self) -> dict[str, Any]:
        """Return what the key may do, and the version of the service."""
        said: dict[str, Any] = await self._exchange.call(wire.get(wire.place("me")))
        return said

    async def keys(self) -> list[dict[str, Any]]:
        """Return all keys, without the secrets."""
        said = await self._exchange.call(wire.get(wire.place("keys")))
        return list(said["keys"])

    async def create_key(self, name: str, role: str, *, bandits: Sequence[str] | None = None) -> dict[str, Any]:
        """Make a key with a role, ``"decide"``, ``"read"`` or ``"admin"``, for all bandits or for some.

        The secret is under ``"key"`` in what is returned, and nowhere else. This alone is tried once, as the secret is
        shown once: if the answer is lost, revoke the key, which :meth:`keys` lists, and make another.
        """
        body: dict[str, Any] = {"name": name, "role": role}
        if bandits is not None:
            body["bandits"] = list(bandits)
        said: dict[str, Any] = await self._exchange.call(wire.post(wire.place("keys"), body), once=True)
        return said

    async def revoke_key(self, id: str) -> None:
        """Let a key, given by its id, be good for nothing from now on."""
        await self._exchange.call(wire.write(wire.place("keys", id), method="DELETE"))

    async def flush(self) -> Flushed:
        """Send the writes that wait in the buffer, in order, and return what became of them.

        It takes as much time as any call if the service is still away; what cannot be sent goes on waiting. What the
        service refuses is in ``refused``, also if that was at another time since the last flush.
        """
        await self._exchange.send_waiting()
        return self._exchange.outbox.report()

    @property
    def waiting(self) -> int:
        """How many writes wait in the buffer."""
        return len(self._exchange.outbox)

    async def _close(self) -> str | None:
        """Send what waits and close the connections; return the words for what could not be sent, if there is any."""
        try:
            flushed = await self.flush()
        finally:
            await self._exchange.transport.close()
        if not flushed.waiting and not flushed.refused:
            return None
        refused = f"; refused were: {'; '.join(map(str, flushed.refused))}" if flushed.refused else ""
        return (
            f"the client closes with {flushed.waiting:,} writes that could not be sent, which are lost, and "
            f"{len(flushed.refused):,} that were refused{refused}. Call flush() first to see and keep them"
        )


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

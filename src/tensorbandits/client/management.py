"""Making and listing bandits and keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tensorbandits.client import wire
from tensorbandits.client.exchange import Exchange
from tensorbandits.client.outbox import Flushed
from tensorbandits.client.remote_bandit import AsyncRemoteBandit
from tensorbandits.space import Space


class ClientOperations:
    """What a client can do besides handing out bandits, awaited.

    Parameters
    ----------
    exchange : how to reach the service.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def bandits(self) -> list[dict[str, Any]]:
        """Return what the service has: the name, modes and numbers of each bandit that the key may see."""
        said = await self._exchange.call(wire.get(wire.place("bandits")))
        return list(said["bandits"])

    async def _create(self, name: str, space: Any, settings: Mapping[str, Any]) -> None:
        """Make a bandit over a space, or over modes and their levels."""
        given = dict(settings)
        if isinstance(space, Space):
            if "context" in given:
                raise TypeError("context is given beside a Space, which has it already; leave it out")
        else:
            space = Space(space, given.pop("context", ()))
        await self._exchange.call(wire.write(wire.place("bandits"), wire.create(name, space, given)))
        bandit = AsyncRemoteBandit(self._exchange, name)
        for mode, labels in space.retired.items():
            for label in labels:
                await bandit.retire_level(mode, label)

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

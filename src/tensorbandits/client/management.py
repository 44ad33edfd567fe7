"""Making and listing bandits and keys, as steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tensorbandits.client import wire
from tensorbandits.client.exchange import Exchange
from tensorbandits.client.outbox import Flushed
from tensorbandits.client.patience import Patience
from tensorbandits.client.steps import Steps
from tensorbandits.client.upkeep import BanditSteps
from tensorbandits.space import Space


class ClientSteps:
    """What a client can do besides handing out bandits.

    Parameters
    ----------
    exchange : how to reach the service.
    """

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange

    @classmethod
    def of(cls, url: str, *, timeout: float, retries: int, budget: float, rest: float, buffer: int) -> ClientSteps:
        """Return those of a client with these settings, checked."""
        return cls(Exchange(url, Patience(timeout, retries, budget, rest), buffer))

    def bandits(self) -> Steps[list[dict[str, Any]]]:
        """Return what the service has: the name, modes and numbers of each bandit that the key may see."""
        said = yield from self.exchange.call(wire.get(wire.place("bandits")))
        return list(said["bandits"])

    def create(self, name: str, space: Any, settings: Mapping[str, Any]) -> Steps[None]:
        """Make a bandit over a space, or over modes and their levels."""
        given = dict(settings)
        if isinstance(space, Space):
            if "context" in given:
                raise TypeError("context is given beside a Space, which has it already; leave it out")
        else:
            space = Space(space, given.pop("context", ()))
        yield from self.exchange.call(wire.write(wire.place("bandits"), wire.create(name, space, given)))
        bandit = BanditSteps(self.exchange, name)
        for mode, labels in space.retired.items():
            for label in labels:
                yield from bandit.retire_level(mode, label)

    def delete(self, name: str) -> Steps[None]:
        """Delete a bandit, so that its name is free; its events stay in the store."""
        yield from self.exchange.call(wire.write(wire.place("bandits", name), method="DELETE"))

    def me(self) -> Steps[dict[str, Any]]:
        """Return what the key may do, and the version of the service."""
        said: dict[str, Any] = yield from self.exchange.call(wire.get(wire.place("me")))
        return said

    def keys(self) -> Steps[list[dict[str, Any]]]:
        """Return all keys, without the secrets."""
        said = yield from self.exchange.call(wire.get(wire.place("keys")))
        return list(said["keys"])

    def create_key(self, name: str, role: str, *, bandits: Sequence[str] | None = None) -> Steps[dict[str, Any]]:
        """Make a key with a role, ``"decide"``, ``"read"`` or ``"admin"``, for all bandits or for some.

        The secret is under ``"key"`` in what is returned, and nowhere else. This alone is tried once, as the secret is
        shown once: if the answer is lost, revoke the key, which :meth:`keys` lists, and make another.
        """
        body: dict[str, Any] = {"name": name, "role": role}
        if bandits is not None:
            body["bandits"] = list(bandits)
        said: dict[str, Any] = yield from self.exchange.call(wire.post(wire.place("keys"), body), once=True)
        return said

    def revoke_key(self, id: str) -> Steps[None]:
        """Let a key, given by its id, be good for nothing from now on."""
        yield from self.exchange.call(wire.write(wire.place("keys", id), method="DELETE"))

    def flush(self) -> Steps[Flushed]:
        """Send the writes that wait in the buffer, in order, and return what became of them.

        It takes as much time as any call if the service is still away; what cannot be sent goes on waiting. What the
        service refuses is in ``refused``, also if that was at another time since the last flush.
        """
        yield from self.exchange.flush()
        return self.exchange.outbox.report()


def unsent(flushed: Flushed) -> str | None:
    """Return the words for what a client that closes could not send, if there is anything."""
    if not flushed.waiting and not flushed.refused:
        return None
    refused = f"; refused were: {'; '.join(map(str, flushed.refused))}" if flushed.refused else ""
    return (
        f"the client closes with {flushed.waiting:,} writes that could not be sent, which are lost, and "
        f"{len(flushed.refused):,} that were refused{refused}. Call flush() first to see and keep them"
    )

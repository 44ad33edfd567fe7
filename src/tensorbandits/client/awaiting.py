"""The client that is awaited: the twin of :class:`~tensorbandits.client.Client`, with the same names."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from tensorbandits.base.checks import check_installed
from tensorbandits.client.exchange import Fallback
from tensorbandits.client.management import ClientSteps, unsent
from tensorbandits.client.steps import Steps, described
from tensorbandits.client.upkeep import BanditSteps

if TYPE_CHECKING:
    import httpx

    from tensorbandits.client.http import Awaiting

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


def awaiting(method: Callable[Concatenate[S, P], Steps[T]]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return a method that does the steps of an operation, awaited, and returns its result."""

    @functools.wraps(method)
    async def run(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = await self._http.run(method(self._steps, *args, **kwargs))
        return result

    described(run, method)
    return run


class AsyncRemoteBandit:
    """A bandit of the service whose methods are awaited; from :meth:`AsyncClient.bandit`."""

    def __init__(self, http: Awaiting, steps: BanditSteps) -> None:
        self._http, self._steps = http, steps

    @property
    def name(self) -> str:
        """The name of the bandit."""
        return self._steps.name

    def __repr__(self) -> str:
        return f"AsyncRemoteBandit({self.name!r} at {self._steps.exchange.url})"

    ask = awaiting(BanditSteps.ask)
    ask_many = awaiting(BanditSteps.ask_many)
    tell = awaiting(BanditSteps.tell)
    tell_many = awaiting(BanditSteps.tell_many)
    activate = awaiting(BanditSteps.activate)
    cancel = awaiting(BanditSteps.cancel)
    status = awaiting(BanditSteps.status)
    reward = awaiting(BanditSteps.reward)
    look_up = awaiting(BanditSteps.look_up)
    best = awaiting(BanditSteps.best)
    detail = awaiting(BanditSteps.detail)
    explain = awaiting(BanditSteps.explain)
    diagnose = awaiting(BanditSteps.diagnose)
    history = awaiting(BanditSteps.history)
    events = awaiting(BanditSteps.events)
    export = awaiting(BanditSteps.export)
    add_level = awaiting(BanditSteps.add_level)
    retire_level = awaiting(BanditSteps.retire_level)
    restore_level = awaiting(BanditSteps.restore_level)
    forbid = awaiting(BanditSteps.forbid)
    allow = awaiting(BanditSteps.allow)
    remove_rule = awaiting(BanditSteps.remove_rule)
    change = awaiting(BanditSteps.change)
    tell_log = awaiting(BanditSteps.tell_log)
    fold = awaiting(BanditSteps.fold)


class AsyncClient:
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

        self._steps = ClientSteps.of(url, timeout=timeout, retries=retries, budget=budget, rest=rest, buffer=buffer)
        self._http = Awaiting(self._steps.exchange.url, key, http)

    def bandit(self, name: str, *, fallback: Fallback | None = None) -> AsyncRemoteBandit:
        """Return a bandit by its name, without asking whether it is there; not awaited, as nothing is sent."""
        return AsyncRemoteBandit(self._http, BanditSteps(self._steps.exchange, name, fallback))

    async def create(self, name: str, space: Any, **settings: Any) -> AsyncRemoteBandit:
        """Make a bandit and return it: of a :class:`tensorbandits.Space`, or of modes and their levels."""
        await self._http.run(self._steps.create(name, space, settings))
        return self.bandit(name)

    bandits = awaiting(ClientSteps.bandits)
    delete = awaiting(ClientSteps.delete)
    me = awaiting(ClientSteps.me)
    keys = awaiting(ClientSteps.keys)
    create_key = awaiting(ClientSteps.create_key)
    revoke_key = awaiting(ClientSteps.revoke_key)
    flush = awaiting(ClientSteps.flush)

    @property
    def waiting(self) -> int:
        """How many writes wait in the buffer."""
        return len(self._steps.exchange.outbox)

    async def close(self) -> None:
        """Send what waits, if the service is there, and close the connections; what is lost by that is warned of."""
        try:
            words = unsent(await self.flush())
        finally:
            await self._http.close()
        if words is not None:
            warnings.warn(words, RuntimeWarning, stacklevel=2)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncClient({self._steps.exchange.url})"

"""The client that blocks: each of its methods runs the coroutine of the same name of the client that is awaited.

That coroutine sends and sleeps by a transport that blocks, and so comes to its end without an event loop.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from tensorbandits.base.checks import check_installed
from tensorbandits.client.awaiting import ClientOperations
from tensorbandits.client.exchange import Exchange, Fallback
from tensorbandits.client.remote_bandit import AsyncRemoteBandit
from tensorbandits.client.retries import Retries

if TYPE_CHECKING:
    import httpx

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


def run(operation: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that has nothing to wait for, as its transport blocks."""
    try:
        operation.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise RuntimeError("an operation of the client that blocks waits for an event loop, which it must not")


def blocking(method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """Return a method that runs an awaited one, and returns its result."""

    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run(method(self._awaited, *args, **kwargs))

    return call


class RemoteBandit:
    """A bandit of the service, with the interface of :class:`tensorbandits.Bandit`; from :meth:`Client.bandit`."""

    def __init__(self, awaited: AsyncRemoteBandit) -> None:
        self._awaited = awaited

    @property
    def name(self) -> str:
        """The name of the bandit."""
        return self._awaited.name

    def __repr__(self) -> str:
        return repr(self._awaited).removeprefix("Async")

    ask = blocking(AsyncRemoteBandit.ask)
    ask_many = blocking(AsyncRemoteBandit.ask_many)
    tell = blocking(AsyncRemoteBandit.tell)
    tell_many = blocking(AsyncRemoteBandit.tell_many)
    activate = blocking(AsyncRemoteBandit.activate)
    cancel = blocking(AsyncRemoteBandit.cancel)
    status = blocking(AsyncRemoteBandit.status)
    reward = blocking(AsyncRemoteBandit.reward)
    look_up = blocking(AsyncRemoteBandit.look_up)
    best = blocking(AsyncRemoteBandit.best)
    detail = blocking(AsyncRemoteBandit.detail)
    explain = blocking(AsyncRemoteBandit.explain)
    diagnose = blocking(AsyncRemoteBandit.diagnose)
    uplift = blocking(AsyncRemoteBandit.uplift)
    history = blocking(AsyncRemoteBandit.history)
    events = blocking(AsyncRemoteBandit.events)
    changes = blocking(AsyncRemoteBandit.changes)
    forget = blocking(AsyncRemoteBandit.forget)
    export = blocking(AsyncRemoteBandit.export)
    report = blocking(AsyncRemoteBandit.report)
    add_level = blocking(AsyncRemoteBandit.add_level)
    describe = blocking(AsyncRemoteBandit.describe)
    features = blocking(AsyncRemoteBandit.features)
    retire_level = blocking(AsyncRemoteBandit.retire_level)
    restore_level = blocking(AsyncRemoteBandit.restore_level)
    split_region = blocking(AsyncRemoteBandit.split_region)
    forbid = blocking(AsyncRemoteBandit.forbid)
    allow = blocking(AsyncRemoteBandit.allow)
    remove_rule = blocking(AsyncRemoteBandit.remove_rule)
    change = blocking(AsyncRemoteBandit.change)
    tell_log = blocking(AsyncRemoteBandit.tell_log)
    fold = blocking(AsyncRemoteBandit.fold)


class Client:
    """Talks to a decision service; its bandits have the interface of :class:`tensorbandits.Bandit`.

    Parameters
    ----------
    url : the address of the service, such as ``"http://127.0.0.1:8000"``.
    key : what the service knows the caller by, if it wants one: ``"tb_..."``.
    timeout : seconds that one try may take to connect, and then to bring anything of its answer.
    retries : further tries, at most, when no answer comes, or the service says that it is busy.
    budget : seconds for all tries of a call and the pauses between them. Pauses double, with some chance in them.
    rest : seconds after which a service that was away beyond the budget is tried again by calls that can do without it,
        as they have a fallback or a buffer.
    buffer : how many writes (rewards, activations, cancellations) may wait in memory while the service is away. They
        are sent before the next one, by :meth:`flush`, and when the client closes. Without a buffer a write raises
        :class:`~tensorbandits.client.ServerAwayError`, as it does when the buffer is full.
    http : a client of httpx of your own, for proxies or certificates; you close it yourself.

    Every write has a key of its own, which all its tries carry, so that it counts once however often it is sent. Errors
    are those of the library, in the same words. Any thread may use it; connections are kept. Close it, or use ``with``.

    >>> import httpx
    >>> away = httpx.MockTransport(lambda request: httpx.Response(503))
    >>> with Client("http://127.0.0.1:8000", retries=0, http=httpx.Client(transport=away)) as client:
    ...     decision = client.bandit("offers", fallback={"offer": "a"}).ask(segment="new")
    >>> decision.arm, decision.by, decision.propensity
    ({'offer': 'a'}, 'fallback', None)
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
        http: httpx.Client | None = None,
    ) -> None:
        check_installed("tensorbandits.Client", "httpx", extra="client")
        from tensorbandits.client.http import Blocking

        tries = Retries(timeout, retries, budget, rest)
        self._exchange = Exchange(url, tries, buffer, lambda address: Blocking(address, key, http))
        self._awaited = ClientOperations(self._exchange)

    def bandit(self, name: str, *, fallback: Fallback | None = None) -> RemoteBandit:
        """Return a bandit by its name, without asking whether it is there.

        ``fallback`` is what :meth:`RemoteBandit.ask` decides while the service is away, an arm or a function of the
        context.
        """
        return RemoteBandit(self._awaited.bandit(name, fallback=fallback))

    def create(self, name: str, space: Any, **settings: Any) -> RemoteBandit:
        """Make a bandit and return it: of a :class:`tensorbandits.Space`, or of modes and their levels.

        ``settings`` are the arguments of :class:`tensorbandits.Bandit`, with ``context`` if modes are given, and
        ``apprentice=True`` for a bandit that learns from what others play.
        """
        return RemoteBandit(run(self._awaited.create(name, space, **settings)))

    bandits = blocking(ClientOperations.bandits)
    delete = blocking(ClientOperations.delete)
    me = blocking(ClientOperations.me)
    keys = blocking(ClientOperations.keys)
    create_key = blocking(ClientOperations.create_key)
    revoke_key = blocking(ClientOperations.revoke_key)
    flush = blocking(ClientOperations.flush)

    @property
    def waiting(self) -> int:
        """How many writes wait in the buffer."""
        return self._awaited.waiting

    def close(self) -> None:
        """Send what waits, if the service is there, and close the connections; what is lost by that is warned of."""
        if (words := run(self._awaited._close())) is not None:
            warnings.warn(words, RuntimeWarning, stacklevel=2)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._exchange.url})"

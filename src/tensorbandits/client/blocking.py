"""The client that blocks: a method of it does the steps of the operation of the same name, and returns the result."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from tensorbandits.base.checks import check_installed
from tensorbandits.client.exchange import Fallback
from tensorbandits.client.management import ClientSteps, unsent
from tensorbandits.client.steps import Steps, described
from tensorbandits.client.upkeep import BanditSteps

if TYPE_CHECKING:
    import httpx

    from tensorbandits.client.http import Blocking

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


def blocking(method: Callable[Concatenate[S, P], Steps[T]]) -> Callable[Concatenate[Any, P], T]:
    """Return a method that does the steps of an operation, and returns its result."""

    @functools.wraps(method)
    def run(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = self._http.run(method(self._steps, *args, **kwargs))
        return result

    described(run, method)
    return run


class RemoteBandit:
    """A bandit of the service, with the interface of :class:`tensorbandits.Bandit`; from :meth:`Client.bandit`."""

    def __init__(self, http: Blocking, steps: BanditSteps) -> None:
        self._http, self._steps = http, steps

    @property
    def name(self) -> str:
        """The name of the bandit."""
        return self._steps.name

    def __repr__(self) -> str:
        return f"RemoteBandit({self.name!r} at {self._steps.exchange.url})"

    ask = blocking(BanditSteps.ask)
    ask_many = blocking(BanditSteps.ask_many)
    tell = blocking(BanditSteps.tell)
    tell_many = blocking(BanditSteps.tell_many)
    activate = blocking(BanditSteps.activate)
    cancel = blocking(BanditSteps.cancel)
    status = blocking(BanditSteps.status)
    reward = blocking(BanditSteps.reward)
    look_up = blocking(BanditSteps.look_up)
    best = blocking(BanditSteps.best)
    detail = blocking(BanditSteps.detail)
    explain = blocking(BanditSteps.explain)
    diagnose = blocking(BanditSteps.diagnose)
    history = blocking(BanditSteps.history)
    events = blocking(BanditSteps.events)
    export = blocking(BanditSteps.export)
    add_level = blocking(BanditSteps.add_level)
    retire_level = blocking(BanditSteps.retire_level)
    restore_level = blocking(BanditSteps.restore_level)
    forbid = blocking(BanditSteps.forbid)
    allow = blocking(BanditSteps.allow)
    remove_rule = blocking(BanditSteps.remove_rule)
    change = blocking(BanditSteps.change)
    tell_log = blocking(BanditSteps.tell_log)
    fold = blocking(BanditSteps.fold)


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

        self._steps = ClientSteps.of(url, timeout=timeout, retries=retries, budget=budget, rest=rest, buffer=buffer)
        self._http = Blocking(self._steps.exchange.url, key, http)

    def bandit(self, name: str, *, fallback: Fallback | None = None) -> RemoteBandit:
        """Return a bandit by its name, without asking whether it is there.

        ``fallback`` is what :meth:`RemoteBandit.ask` decides while the service is away, an arm or a function of the
        context.
        """
        return RemoteBandit(self._http, BanditSteps(self._steps.exchange, name, fallback))

    def create(self, name: str, space: Any, **settings: Any) -> RemoteBandit:
        """Make a bandit and return it: of a :class:`tensorbandits.Space`, or of modes and their levels.

        ``settings`` are the arguments of :class:`tensorbandits.Bandit`, with ``context`` if modes are given, and
        ``apprentice=True`` for a bandit that learns from what others play.
        """
        self._http.run(self._steps.create(name, space, settings))
        return self.bandit(name)

    bandits = blocking(ClientSteps.bandits)
    delete = blocking(ClientSteps.delete)
    me = blocking(ClientSteps.me)
    keys = blocking(ClientSteps.keys)
    create_key = blocking(ClientSteps.create_key)
    revoke_key = blocking(ClientSteps.revoke_key)
    flush = blocking(ClientSteps.flush)

    @property
    def waiting(self) -> int:
        """How many writes wait in the buffer."""
        return len(self._steps.exchange.outbox)

    def close(self) -> None:
        """Send what waits, if the service is there, and close the connections; what is lost by that is warned of."""
        try:
            words = unsent(self.flush())
        finally:
            self._http.close()
        if words is not None:
            warnings.warn(words, RuntimeWarning, stacklevel=2)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._steps.exchange.url})"

"""What all calls of a client share: its retries, the writes that wait, and the decisions that a fallback made."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from tensorbandits.bandit.decision import Decision
from tensorbandits.client import wire
from tensorbandits.client.errors import ServerAwayError, check, error_of, read
from tensorbandits.client.messages import HttpAnswer, HttpRequest, Transport
from tensorbandits.client.outbox import Outbox, Waiting
from tensorbandits.client.retries import Retries
from tensorbandits.space.labels import Label

Fallback = Mapping[str, Label] | Callable[[dict[str, Any]], Mapping[str, Label]]

_REMEMBERED = 10_000  # decisions of fallbacks that are known by their id alone


class Exchange:
    """Sends the requests of one client, again where that helps.

    Parameters
    ----------
    url : where the service is.
    retries : how long to try.
    buffer : how many writes may wait while the service is away.
    transport : makes what sends requests, given the address of the service.
    """

    def __init__(self, url: str, retries: Retries, buffer: int, transport: Callable[[str], Transport]) -> None:
        self.url, self.retries, self.outbox = _address(url), retries, Outbox(buffer)
        self.transport = transport(self.url)
        self._local: dict[str, Decision] = {}  # what fallbacks decided, the oldest first
        self._lock = threading.Lock()

    async def call(self, request: HttpRequest, *, spared: bool = False, once: bool = False) -> Any:
        """Send a request and return what its answer says."""
        answer = await self.answer(request, spared=spared, once=once)
        return read(answer)

    async def answer(self, request: HttpRequest, *, spared: bool = False, once: bool = False) -> HttpAnswer:
        """Send a request and return its answer; one that can be ``spared`` is not sent while the service rests."""
        if spared and self.retries.resting:
            raise ServerAwayError(f"the service was away less than {self.retries.rest:g} s ago, and is not tried yet")
        answer = await self.retries.answer(self.transport, request, once=once)
        return check(answer, request, self.url)

    # Writes that may wait.

    async def write(self, request: HttpRequest, count: int = 1) -> Any:
        """Send a write and return what the answer says; ``None`` if it waits, or goes behind some that do."""
        if not self.outbox.bound:
            return await self.call(request)
        if len(self.outbox):
            self._keep(Waiting(request, count), None)
            if not self.retries.resting:
                await self.send_waiting(once=True)
            return None
        try:
            return await self.call(request, spared=True)
        except ServerAwayError as away:
            self._keep(Waiting(request, count), away)
            return None

    def _keep(self, write: Waiting, away: ServerAwayError | None) -> None:
        if not self.outbox.add(write):
            raise ServerAwayError(
                f"the service is away, and {len(self.outbox):,} writes wait already, of at most {self.outbox.bound:,}; "
                "this one was not sent: give the client a larger buffer, or tell it again later",
                reached=away is not None and away.reached,
            ) from away

    async def send_waiting(self, *, once: bool = False) -> None:
        """Send all that waits, trying each as often as any call, or once; what cannot be sent goes on waiting."""
        if not self.outbox.begin():
            return  # another thread is sending, and takes what was added
        sending = True
        try:
            while (write := self.outbox.next()) is not None:
                try:
                    said = await self.call(write.request, once=once)
                except ServerAwayError:
                    return
                except Exception as error:  # the service has refused it: nothing is gained by keeping it
                    self.outbox.drop([error])
                else:
                    self.outbox.drop(refusals(said))
            sending = False
        finally:
            if sending:
                self.outbox.end()

    # Decisions without the service.

    def fall_back(self, bandit: str, fallback: Fallback, body: Mapping[str, Any], away: Exception) -> Decision:
        """Return the decision of a fallback, and see to it that the service has none of the same id."""
        number, context = body["id"], wire.unwritten(body["context"])
        arm = dict(fallback(context) if callable(fallback) else fallback)
        for mode, label in arm.items():
            allowed = (body.get("allowed") or {}).get(mode)
            if wire.label_or_list(mode, label) not in (allowed or [wire.label_or_list(mode, label)]):
                away.add_note(f"the fallback {arm} was not used, as the request allows of mode {mode!r} only {allowed}")
                raise away
        if getattr(away, "reached", True):  # the service may have decided, and nobody will carry that out
            cancel = wire.write(wire.place("bandits", bandit, "cancel"), {"id": number})
            self.outbox.add(Waiting(cancel, quiet=True))
        decision = Decision(number, arm, context, None, "fallback", "fallback", time.time())
        with self._lock:
            self._local[number] = decision
            while len(self._local) > _REMEMBERED:
                del self._local[next(iter(self._local))]
        return decision

    def local(self, decision: str | Decision | None) -> Decision | None:
        """Return a decision, given as itself or by its id, if a fallback made it: the service does not know of it."""
        if isinstance(decision, Decision):
            return decision if decision.by == "fallback" else None
        return self._local.get(decision) if isinstance(decision, str) else None

    def forget(self, number: str) -> None:
        """Forget a decision of a fallback."""
        with self._lock:
            self._local.pop(number, None)


def refusals(said: Any, bodies: Sequence[Mapping[str, Any]] = ()) -> list[Exception]:
    """Return the errors of single rewards in what a call said that told many, each with the reward it is of."""
    results = said.get("results", ()) if isinstance(said, Mapping) else ()
    found = []
    for at, result in enumerate(results):
        if "error" in result:
            error = error_of(result["error"]["code"], result["error"]["message"])
            if at < len(bodies):
                error.add_note(f"of the reward {bodies[at]['reward']:g} of decision {bodies[at]['id']!r}")
            found.append(error)
    return found


def _address(url: Any) -> str:
    if not isinstance(url, str) or not url.startswith(("http://", "https://")) or not urlsplit(url).hostname:
        raise ValueError(f"url is {url!r}; give the address of a service, such as 'http://127.0.0.1:8000'")
    return url.rstrip("/")

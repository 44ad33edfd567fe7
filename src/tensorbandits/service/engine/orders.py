"""Orders: what requests want written, how each is planned on the state at its turn, and how it is answered.

Every order is planned after those before it, on the state that they leave. What it may not do is its own error. An
order with an idempotency key, or with an id that its caller chose, carries a fingerprint of its request: the same
request again is answered as it was, and another one with the same key or id is refused.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from tensorbandits.bandit import commands as c
from tensorbandits.bandit import events as e
from tensorbandits.bandit.actors import MARK, Mark
from tensorbandits.bandit.book import ClosedDecisionError, ExpiredDecisionError, UnknownDecisionError, check_id
from tensorbandits.bandit.settings import labels_of, pairs_of, read_rule
from tensorbandits.decider.tokens import Token
from tensorbandits.service.engine.actor import ACTOR
from tensorbandits.service.engine.deadline import UNTIL
from tensorbandits.service.engine.errors import KeyReusedError
from tensorbandits.service.engine.host import Host, changed
from tensorbandits.space.partition import Partition
from tensorbandits.store import Event, New, Store

_EXPIRED_AT_ONCE = 2_000  # decisions that one transaction times out
_LEVELS: dict[str, type[Any]] = {
    "LevelAdded": c.AddLevel,
    "LevelRetired": c.RetireLevel,
    "LevelRestored": c.RestoreLevel,
}


class LookUp(Exception):  # noqa: N818  (it is no error)
    """Raised by a plan when memory has forgotten what only the store knows; ``error`` is the answer if it does not."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(eq=False, slots=True)
class Order:
    """What somebody wants written.

    ``plan`` returns events, given the time, on the state as it is then. ``answer`` makes the answer once the order has
    its events as they were written; ``repeat`` that of a request which the log has already, from the event that has its
    key or id; ``look_up`` that of one which needs the store.
    """

    host: Host
    plan: Callable[[float], Sequence[e.BanditEvent]]
    answer: Callable[[Order], Any]
    repeat: Callable[[Event], Any] = lambda event: None
    look_up: Callable[[Order, Store], Any] | None = None
    key: str | None = None
    request: str | None = None  # the fingerprint
    chosen_id: str | None = None  # the id of a decision to be made, if the caller chose it
    alone: bool = False  # what changes levels, rules, settings: the others of its bandit wait
    soon: bool = False  # a decision, which somebody waits for: it is written before many rewards that came at once
    waiter: tuple[asyncio.AbstractEventLoop, asyncio.Future[Any]] | None = None  # of whoever awaits it
    done: Future[Any] | None = None  # of whoever waits in a thread
    actor: str = field(default_factory=ACTOR.get)  # who wants it
    subject: str | None = None  # who a decision is made for
    until: float = field(default_factory=UNTIL.get)  # after which it is not written any more
    since: float = field(default_factory=time.monotonic)  # when it came
    together: Sequence[Order] = ()  # those of one request, this one too, which are carried out all or none
    # Ids of decisions to be adopted that the log has already, though memory has forgotten them.
    written: set[str] = field(default_factory=set)
    planned: list[e.BanditEvent] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    before: Event | None = None  # of a request that the log has already
    raised: Exception | None = None

    @property
    def names(self) -> list[tuple[str, str]]:
        """What it may be found by in the log: its key, and the id of a decision that the caller chose."""
        if self.key is None and self.chosen_id is None:  # as of nearly all
            return []
        found = (("key", self.key), ("id", self.chosen_id))
        return [(kind, name) for kind, name in found if name is not None]

    @property
    def seen(self) -> bool:
        """Whether later orders of its transaction have to see what it does: none follows one that is alone, and nobody
        knows the id of a decision before it is answered, unless the caller chose it."""
        return not self.alone and (not self.soon or self.chosen_id is not None)

    def news(self, mark: Callable[[str], Mark]) -> list[New]:
        """Return the events to be written, with the mark of who did it.

        The first has the key, and the fingerprint where it will be needed; of a decision that is adopted and told of,
        what is told.
        """
        found = []
        main = next((at for at, event in enumerate(self.planned) if not adopts(event)), 0)
        for at, event in enumerate(self.planned):
            body, key = event.body(), self.key if at == main else None
            if not isinstance(event, e.TimedOut):  # which nobody but the service does
                body[MARK] = mark(self.actor)
            if at == main and self.request is not None and (key is not None or self.chosen_id is not None):
                body["request"] = self.request
            found.append(New(event.kind, event.time, body, event.decision, key, self.subject))
        return found

    def refusal(self) -> Exception | None:
        """Return why it is not carried out, as far as that is known before anything is written."""
        if isinstance(self.raised, LookUp) and self.before is None:  # unless it is one of the same request once more
            twins = (one for one in self.together if one is not self and one.chosen_id == self.chosen_id)
            same = any(one.request == self.request and (one.planned or one.before) for one in twins)
            return None if same else self.raised.error
        if self.before is None:
            return self.raised
        try:
            self._repeated(self.before)
        except Exception as error:
            return error
        new = self.key is not None and self.before.key == self.key and any(one.before is None for one in self.together)
        return reused(self.before) if new else None  # its request asks for more than the one of before

    def _repeated(self, event: Event) -> Any:
        """Return the answer of a request that the log has already, or raise if that was another one."""
        self._refuse_other(event)
        return self.repeat(event)

    def outcome(self, store: Store) -> Any:
        """Return the answer, or raise, after all is durable and applied."""
        if self.before is not None:
            return self._repeated(self.before)
        if isinstance(self.raised, LookUp):
            found = None if self.look_up is None else self.look_up(self, store)
            if found is None:
                raise self.raised.error
            return found
        if self.raised is not None:
            raise self.raised
        return self.answer(self)

    def _refuse_other(self, event: Event) -> None:
        """Refuse a request whose key or id the log has for another one."""
        known = event.body.get("request")
        if known is not None and self.request is not None and known != self.request:
            raise reused(event)


def reused(event: Event) -> KeyReusedError:
    """Return the error of a key or an id that comes again with another request."""
    what = f"the key {event.key!r}" if event.key is not None else f"the id {event.decision!r}"
    return KeyReusedError(
        f"{what} was used for another request ({event.kind}, event {event.seq}); give each write its own, and the same "
        "one only to repeat it"
    )


def ask(
    host: Host,
    request: c.Ask,
    key: str | None = None,
    fingerprint: str | None = None,
    draw: Callable[[c.Ask], c.Drawn] | None = None,
) -> Order:
    """Return the order of a decision, drawn now from the draws there are, and again if rules have changed at its turn.

    A request with a key, or an id of its caller's, may repeat one that was possible before: that is found at its turn.
    """
    draw = draw or host.draw
    if request.id is not None:
        check_id(request.id)
    if request.subject is not None:
        check_id(request.subject, "subject")
    drawn: c.Drawn | None = None
    try:
        drawn = draw(request)
    except ValueError:
        if key is None and request.id is None:
            raise

    def plan(now: float) -> Sequence[e.BanditEvent]:
        state = host.core.state
        if request.id is not None and request.id in state.book:
            words = f"a decision has the id {request.id!r} already; give each its own, or none"
            raise LookUp(ClosedDecisionError(words))
        current = drawn if drawn is not None and drawn.version == state.version else draw(request)
        number = state.book.ids.issue(state.book, secret=True) if request.id is None else request.id
        return state.plan(c.Decide(current, number, request.active, request.numbers), now)

    def repeat(event: Event) -> dict[str, Any]:
        if event.kind != "Decided" or (request.id is not None and event.decision != request.id):
            raise reused(event)
        if "request" not in event.body:
            if event.chain is not None:  # it was made under an id that was not its caller's
                raise reused(event)
            _refuse_another_cell(host, event, request)  # it was made before there were fingerprints
        return host.decision(event)

    def look_up(order: Order, store: Store) -> Any:
        assert request.id is not None
        found = store.of_decisions(host.id, [request.id]).get(request.id, [])
        if not found or found[0].kind != "Decided":
            return None
        order._refuse_other(found[0])
        return repeat(found[0])

    answer = lambda order: host.decision(order.events[0])  # noqa: E731
    return Order(host, plan, answer, repeat, look_up, key, fingerprint, request.id, soon=True, subject=request.subject)


def _refuse_another_cell(host: Host, event: Event, request: c.Ask) -> None:
    """Refuse to repeat a decision of another context, or of another arm that a caller's rule played."""
    cell, space = tuple(event.body["cell"]), host.core.space
    same = tuple(cell[mode] for mode in space.context) == request.levels
    if not same or (request.played is not None and cell != request.played):
        raise KeyReusedError(
            f"decision {event.decision!r} was made for another context or arm; to repeat a request, give the same, and "
            "to make another, another id and another key"
        )


def adopts(event: e.BanditEvent) -> bool:
    """Say whether an event enters a decision that was made elsewhere."""
    return isinstance(event, e.Decided) and event.made is not None


def adopt(host: Host, tokens: Mapping[str, Token]) -> Order:
    """Return the order of decisions that were made elsewhere, by their ids; those that are known stay as they are."""
    written: set[str] = set()
    refused: dict[str, Exception] = {}

    def plan(now: float) -> Sequence[e.BanditEvent]:
        refused.clear()
        events: list[e.BanditEvent] = []
        for number, token in tokens.items():
            try:
                events += host.core.state.plan(_adoption(number, token), now) if number not in written else []
            except (LookupError, ValueError) as error:
                refused[number] = error
        return events

    def answer(order: Order) -> dict[str, Any]:
        adopted = len(order.events)
        return {"adopted": adopted, "known": len(tokens) - adopted - len(refused), "refused": refused}

    return Order(host, plan, answer, written=written)


def _adoption(number: str, token: Token, then: c.Tell | c.Activate | c.Cancel | None = None) -> c.Adopt:
    drawn = c.Drawn(token.cell, token.propensity, token.by, chances=token.chances)
    return c.Adopt(number, drawn, token.time, then)


def tell(
    host: Host,
    given: Mapping[str, Any],
    key: str | None = None,
    fingerprint: str | None = None,
    token: Token | None = None,
) -> Order:
    """Return the order of a reward: of a decision by its ``id``, or of an arm and a context.

    A ``token`` says what a decision was that was made elsewhere, in case it is not known here yet.
    """
    if given.get("id") is not None:
        command = c.Tell(given["id"], given.get("reward"), bool(given.get("amend")), bool(given.get("add")))
        return _about(host, command, key, fingerprint, "Rewarded Amended TimedOut", token)
    space = host.core.space
    labels = {mode: labels_of(label) for part in ("context", "arm") for mode, label in (given.get(part) or {}).items()}
    cell, reward, trials = space.cell(labels), given.get("reward"), given.get("trials")

    def said(event: Event, *, changed: bool) -> dict[str, Any]:
        return {"id": None, "status": "rewarded", "reward": event.body["reward"], "changed": changed}

    def repeat(event: Event) -> dict[str, Any]:
        body = {"cell": list(cell), "reward": reward, "trials": trials}
        told = {name: event.body.get(name) for name in body}
        if event.kind != "Told" or ("request" not in event.body and told != body):
            raise reused(event)
        return said(event, changed=False)

    def plan(now: float) -> Sequence[e.BanditEvent]:
        return host.core.state.plan(c.TellCell(cell, reward, trials), now)

    return Order(host, plan, lambda order: said(order.events[0], changed=True), repeat, key=key, request=fingerprint)


def activate(
    host: Host, number: str, key: str | None = None, fingerprint: str | None = None, token: Token | None = None
) -> Order:
    """Return the order that a decision was shown."""
    return _about(host, c.Activate(number), key, fingerprint, "Activated Decided", token)


def cancel(
    host: Host, number: str, key: str | None = None, fingerprint: str | None = None, token: Token | None = None
) -> Order:
    """Return the order that a decision was not carried out."""
    return _about(host, c.Cancel(number), key, fingerprint, "Cancelled", token)


def _about(
    host: Host,
    command: c.Tell | c.Activate | c.Cancel,
    key: str | None,
    fingerprint: str | None,
    kinds: str,
    token: Token | None,
) -> Order:
    """Return an order about a decision that was made, here or elsewhere."""
    number = command.id
    unchanged: dict[str, Any] = {}  # what is answered when nothing changes
    written: set[str] = set()

    def plan(now: float) -> Sequence[e.BanditEvent]:
        state = host.core.state
        adopting = token is not None and number not in written
        try:
            events = state.plan(_adoption(number, token, command) if adopting else command, now)  # type: ignore[arg-type]
        except (UnknownDecisionError, ExpiredDecisionError) as error:
            raise LookUp(error) from error
        if not events:
            unchanged.update(host.status(number))
            if key is not None:
                return [e.Unchanged(now, number, unchanged["status"], unchanged["reward"])]
        return events

    def answer(order: Order) -> dict[str, Any]:
        first = order.planned[-1] if order.planned else None
        return unchanged if first is None or isinstance(first, e.Unchanged) else changed(first, number)

    def repeat(event: Event) -> dict[str, Any]:
        if event.decision != number or event.kind not in ("Unchanged", *kinds.split()):
            raise reused(event)
        if event.kind == "Unchanged":
            return {"id": number, "status": event.body["status"], "reward": event.body["reward"], "changed": False}
        told = isinstance(command, c.Tell) and not command.add and command.reward
        if "request" not in event.body and told is not False and event.body["reward"] != told:  # written long ago
            raise reused(event)
        typed = e.read_event(event.kind, event.time, event.decision, event.body)
        return {**changed(typed, number), "changed": False}

    def look_up(order: Order, store: Store) -> Any:
        return _forgotten(host, store, command)

    return Order(host, plan, answer, repeat, look_up, key, fingerprint, written=written)


def _forgotten(host: Host, store: Store, command: c.Tell | c.Activate | c.Cancel) -> Any:
    """Answer what is said of a decision that memory has forgotten, but not the store; None if that does not know it."""
    number = command.id
    events = store.of_decisions(host.id, [number]).get(number, [])
    if not events or events[0].kind != "Decided":
        return None
    rewards = [event.body["reward"] for event in events if event.kind in ("Rewarded", "Amended")]
    told = isinstance(command, c.Tell) and not command.add and host.core.policy.check_reward(command.reward)
    if rewards and told is not False and rewards[-1] == told:
        return {"id": number, "status": "rewarded", "reward": rewards[-1], "changed": False}
    raise ExpiredDecisionError(
        f"decision {number!r} was closed long ago, and its reward can no longer be changed; make the bandit "
        "with a larger remember, or tell arm, context and reward, which needs no decision"
    )


def expire(host: Host) -> Order:
    """Return the order that closes decisions which were not rewarded in time."""
    return Order(
        host, lambda now: host.core.state.plan(c.Expire(_EXPIRED_AT_ONCE), now), lambda order: len(order.events)
    )


def level(
    host: Host, what: str, given: Mapping[str, Any], key: str | None = None, fingerprint: str | None = None
) -> Order:
    """Return the order of a level that is added, retired or restored."""
    more: dict[str, Any] = {}
    if what == "LevelAdded":
        like = None if given.get("like") is None else labels_of(given["like"])
        more = {"like": like, "rewards": given.get("rewards"), "features": given.get("features")}
    command = _LEVELS[what](given["mode"], labels_of(given["label"]), **more)

    def same(event: Event) -> bool:
        said = {part: event.body.get(part) for part in ("mode", "label", "like", "rewards", "features")}
        return said == {"like": None, "rewards": None, "features": None, **given}

    return _alone(host, command, what, key, fingerprint, same)


def learn_regions(host: Host, mode: str, partition: Partition | None = None) -> Order:
    """Return the order that learns the regions of a mode of numbers, from requests or as a log says them."""

    def plan(now: float) -> Sequence[e.BanditEvent]:
        done = not host.core.space.regions[mode].learning  # by another server, or another log
        return [] if done else host.core.state.plan(c.LearnRegions(mode, partition), now)

    return Order(host, plan, lambda order: None, alone=True)


def split_region(host: Host, given: Mapping[str, Any], key: str | None = None, fingerprint: str | None = None) -> Order:
    """Return the order of a region that is split."""
    command = c.SplitRegion(given["mode"], given["region"], given.get("at"), given.get("number"))
    same = lambda event: all(event.body[part] == given[part] for part in ("mode", "region"))  # noqa: E731
    return _alone(host, command, "RegionSplit", key, fingerprint, same)


def describe(host: Host, given: Mapping[str, Any], key: str | None = None, fingerprint: str | None = None) -> Order:
    """Return the order of other features of levels."""
    command = c.Describe(given["mode"], pairs_of(given["levels"]), given.get("anew", False))
    return _alone(host, command, "Described", key, fingerprint, lambda event: False)


def rule(
    host: Host, given: Mapping[str, Any], *, add: bool, key: str | None = None, fingerprint: str | None = None
) -> Order:
    """Return the order of a rule that is made, or taken back."""
    read = read_rule(given)

    def same(event: Event) -> bool:
        return event.body["add"] == add and read_rule(event.body["rule"]) == read

    return _alone(host, c.ChangeRule(read, add), "RuleChanged", key, fingerprint, same)


def settings(host: Host, given: Mapping[str, Any], key: str | None = None, fingerprint: str | None = None) -> Order:
    """Return the order of other settings."""
    same = lambda event: event.body["settings"] == dict(given)  # noqa: E731
    return _alone(host, c.ChangeSettings(given), "Changed", key, fingerprint, same)


def import_log(host: Host, command: c.Import, digest: str, key: str | None = None) -> Order:
    """Return the order of a log from elsewhere that was read already; ``digest`` is of all that the caller sent.

    It takes long to plan, which is done here, where nobody waits for it, and again only if the space is another then.
    """

    def made(now: float) -> tuple[Any, e.Imported]:
        version = host.core.state.version
        [event] = host.core.state.plan(command, now)
        assert isinstance(event, e.Imported)
        event = replace(event, time=now, said={**event.said, "digest": digest}, start=None, packed=[])
        event.body()
        return version, event

    version, before = made(0.0)

    def plan(now: float) -> Sequence[e.BanditEvent]:
        return [before.at(now) if version == host.core.state.version else made(now)[1]]

    def said(event: Event, *, changed: bool) -> dict[str, Any]:
        parts = ("rewards", "cells", "rows", "added", "skipped")
        return {**{part: event.body[part] for part in parts}, "changed": changed}

    def repeat(event: Event) -> dict[str, Any]:
        if event.kind != "Imported" or event.body["digest"] != digest:
            raise reused(event)
        return said(event, changed=False)

    return Order(host, plan, lambda order: said(order.events[0], changed=True), repeat, key=key, alone=True)


def _alone(
    host: Host, command: c.Command, kind: str, key: str | None, fingerprint: str | None, same: Callable[[Event], bool]
) -> Order:
    def repeat(event: Event) -> None:
        if event.kind != kind or ("request" not in event.body and not same(event)):
            raise reused(event)

    plan = lambda now: host.core.state.plan(command, now)  # noqa: E731
    return Order(host, plan, lambda order: None, repeat, key=key, request=fingerprint, alone=True)

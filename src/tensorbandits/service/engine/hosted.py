"""A bandit as a process serves it: what requests become orders to the writer, and how they are answered."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tensorbandits.bandit import warm_start
from tensorbandits.bandit.book import ClosedDecisionError, ExpiredDecisionError, UnknownDecisionError, check_id
from tensorbandits.service.engine.making import labels_of, named, read_rule, written_rule
from tensorbandits.service.engine.planning import Drawing
from tensorbandits.service.engine.replica import Replica
from tensorbandits.service.engine.writer import Order, Settled
from tensorbandits.service.http.errors import KeyReusedError
from tensorbandits.service.page.views.parts import plain
from tensorbandits.space.labels import Label, written
from tensorbandits.store import BanditRow, Event, New, Turn

_MANY, _SOME = 20_000, 1_000  # events after which a snapshot is kept, at once and after a while
_EXPIRED_AT_ONCE = 2_000  # decisions that one transaction times out


class Ask(NamedTuple):
    """A request for a decision."""

    context: dict[str, Label]
    allowed: dict[str, list[Label]] | None = None
    id: str | None = None
    activate: bool = True
    played: dict[str, Label] | None = None
    propensity: float | None = None


class Tell(NamedTuple):
    """A reward: of a decision by its id, or of an arm and a context."""

    reward: Any
    id: str | None = None
    amend: bool = False
    add: bool = False
    arm: dict[str, Label] | None = None
    context: dict[str, Label] | None = None
    trials: int | None = None


class Hosted:
    """A bandit of the store, with its state here."""

    def __init__(self, row: BanditRow, replica: Replica) -> None:
        self.id, self.name, self.created = row.id, row.name, row.created
        self.replica = replica
        self._given = [replica.space.modes[mode] for mode in replica.space.context]
        self.keep(replica.seq)

    # Decisions.

    def ask(self, request: Ask, key: str | None = None) -> Order:
        """Decide now, from the draws there are, and have it written."""
        replica = self.replica
        number = replica.issue() if request.id is None else check_id(request.id)
        drawing = self._draw(request)

        def plan(turn: Turn) -> Sequence[New]:
            if request.id is not None:
                self._settle_known(turn, number, request)
            current = drawing if drawing.version == replica.space.version else self._draw(request)
            return [replica.decided(number, current, time=time.time(), active=request.activate, key=key)]

        answer, repeat = lambda events: self.decision(events[0]), self._repeats(request)
        return Order(self, plan, answer, repeat, key, request.id, soon=True)

    def _draw(self, request: Ask) -> Drawing:
        settings = self.replica.settings
        if bool(settings.get("apprentice")) != (request.played is not None):
            if request.played is None:
                raise ValueError(
                    "this bandit is an apprentice: say which arm your own rule plays, played={...}, or switch the "
                    "bandit on with apprentice=false"
                )
            raise ValueError("played is given, but this bandit is no apprentice: it decides itself; leave it out")
        if request.propensity is not None and (request.played is None or not 0 < request.propensity <= 1):
            raise ValueError(
                f"propensity is {request.propensity!r}; it is the probability with which your own rule played what it "
                "played, above 0 and at most 1, and goes with played"
            )
        played = None if request.played is None else (request.played, request.propensity)
        return self.replica.draw(request.context, request.allowed, played)

    def _settle_known(self, turn: Turn, number: str, request: Ask) -> None:
        """Answer with the decision that has this id already, if it was the same request."""
        found = turn.of_decisions(self.id, [number]).get(number, [])
        if found and found[0].kind == "Decided":
            raise Settled(self._repeats(request)(found[0]))
        if self.replica.knows(number):
            raise ClosedDecisionError(f"a decision has the id {number!r} already; give each its own, or none")

    def _repeats(self, request: Ask) -> Any:
        def repeat(event: Event) -> dict[str, Any]:
            if event.kind != "Decided" or (request.id is not None and event.decision != request.id):
                raise _reused(event)
            decision = self.decision(event)
            for part, given in (("context", request.context), ("arm", request.played)):
                if given is not None and decision[part] != {mode: written(label) for mode, label in given.items()}:
                    raise KeyReusedError(
                        f"decision {event.decision!r} was made for the {part} {decision[part]}; to repeat a request, "
                        f"give the same {part}, and to make another, another id and another key"
                    )
            return decision

        return repeat

    def decision(self, event: Event) -> dict[str, Any]:
        """Return the decision of an event as plain data, as ``Decision.to_dict`` does."""
        body, space = event.body, self.replica.space
        arm = {mode: written(label) for mode, label in space.labels(body["cell"]).items()}
        given = {mode: arm.pop(mode) for mode in self._given}
        answer = {"id": event.decision, "arm": arm, "context": given, "propensity": body["p"], "by": body["by"]}
        answer |= {"policy": type(self.replica.policy).__name__, "time": event.time}
        if "would" in body:
            would = space.labels(body["would"]["cell"])
            answer["would"] = {mode: written(label) for mode, label in would.items() if mode not in given}
        return answer

    # Rewards.

    def tell(self, request: Tell, key: str | None = None) -> Order:
        """Have a reward written."""
        replica = self.replica
        if request.id is None:
            cell = replica.space.cell({**(request.context or {}), **(request.arm or {})})

            def plan_told(turn: Turn) -> Sequence[New]:
                return replica.plan_told(cell, request.reward, request.trials, time=time.time(), key=key)

            def answer_told(events: Sequence[Event]) -> dict[str, Any]:
                return {"id": None, "status": "rewarded", "reward": events[0].body["reward"], "changed": True}

            def repeat_told(event: Event) -> dict[str, Any]:
                body = {"cell": list(cell), "reward": request.reward, "trials": request.trials}
                if event.kind != "Told" or {"trials": None, **event.body} != body:
                    raise _reused(event)
                return {**answer_told([event]), "changed": False}

            return Order(self, plan_told, answer_told, repeat_told, key)
        number = request.id

        def plan(turn: Turn) -> Sequence[New]:
            try:
                how = {"amend": request.amend, "add": request.add}
                return replica.plan_tell(number, request.reward, **how, time=time.time(), key=key)
            except (UnknownDecisionError, ExpiredDecisionError):
                self._settle_forgotten(turn, request)
                raise

        reward = None if request.add else request.reward  # events say what rewards have added up to
        return self._about(number, plan, "Rewarded|Amended", key, reward)

    def _settle_forgotten(self, turn: Turn, request: Tell) -> None:
        """Answer a reward that is told again of a decision that memory has forgotten, but not the store."""
        assert request.id is not None
        events = turn.of_decisions(self.id, [request.id]).get(request.id, [])
        if not events:
            return
        rewards = [event.body["reward"] for event in events if event.kind in ("Rewarded", "Amended")]
        if rewards and not request.add and rewards[-1] == self.replica.policy.check_reward(request.reward):
            raise Settled({"id": request.id, "status": "rewarded", "reward": rewards[-1], "changed": False})
        raise ExpiredDecisionError(
            f"decision {request.id!r} was closed long ago, and its reward can no longer be changed; make the bandit "
            "with a larger remember, or tell arm, context and reward, which needs no decision"
        )

    def activate(self, number: str, key: str | None = None) -> Order:
        """Have it written that a decision was shown."""
        replica = self.replica
        return self._about(
            number, lambda turn: replica.plan_activate(number, time=time.time(), key=key), "Activated", key
        )

    def cancel(self, number: str, key: str | None = None) -> Order:
        """Have it written that a decision was not carried out."""
        replica = self.replica
        return self._about(
            number, lambda turn: replica.plan_cancel(number, time=time.time(), key=key), "Cancelled", key
        )

    def _about(self, number: str, plan: Any, kinds: str, key: str | None, reward: Any = None) -> Order:
        before: dict[str, Any] = {}  # what is answered when nothing changes

        def planned(turn: Turn) -> Sequence[New]:
            news: Sequence[New] = plan(turn)
            if not news:
                before.update(self.status(number, changed=False))
            return news

        def repeat(event: Event) -> dict[str, Any]:
            if event.kind not in kinds.split("|") or event.decision != number:
                raise _reused(event)
            if reward is not None and event.body["reward"] != reward:
                raise _reused(event)
            try:
                return self.status(number, changed=False)
            except (UnknownDecisionError, ExpiredDecisionError):  # memory has forgotten it since
                return {"id": number, **became([event]), "changed": False}

        def answer(events: Sequence[Event]) -> dict[str, Any]:
            if not events:
                return before
            try:
                return self.status(number, changed=True)
            except (UnknownDecisionError, ExpiredDecisionError):  # others of the same transaction took its place
                return {"id": number, **became(events), "changed": True}

        return Order(self, planned, answer, repeat, key, number)

    def status(self, number: str, *, changed: bool) -> dict[str, Any]:
        """Return the state of a decision as plain data."""
        replica = self.replica
        return {"id": number, "status": replica.status(number), "reward": replica.reward(number), "changed": changed}

    def expire(self, now: float) -> Order | None:
        """Have it written which decisions were not rewarded in time, if there are any."""
        if not self.replica.plan_expire(time=now):
            return None

        def plan(turn: Turn) -> Sequence[New]:
            return self.replica.plan_expire(time=now)[:_EXPIRED_AT_ONCE]

        return Order(self, plan, len, lambda event: 0, alone=True)

    # Levels, rules, settings, logs.

    def level(self, what: str, given: Mapping[str, Any], key: str | None = None) -> Order:
        """Have a level added, retired or restored."""
        like = None if given.get("like") is None else labels_of(given["like"])
        label = labels_of(given["label"])

        def plan(turn: Turn) -> Sequence[New]:
            how = {"like": like, "rewards": given.get("rewards")}
            return self.replica.plan_level(what, given["mode"], label, **how, time=time.time(), key=key)

        def same(event: Event) -> bool:
            said = {part: event.body.get(part) for part in ("mode", "label", "like", "rewards")}
            return said == {"like": None, "rewards": None, **given}

        return self._alone(plan, what, key, same)

    def rule(self, rule: Mapping[str, Any], *, add: bool, key: str | None = None) -> Order:
        """Have a rule made, or taken back."""
        read = read_rule(rule)

        def plan(turn: Turn) -> Sequence[New]:
            return self.replica.plan_rule(read, add=add, time=time.time(), key=key)

        def same(event: Event) -> bool:
            return event.body["add"] == add and read_rule(event.body["rule"]) == read

        return self._alone(plan, "RuleChanged", key, same)

    def change(self, given: Mapping[str, Any], key: str | None = None) -> Order:
        """Have settings changed."""

        def plan(turn: Turn) -> Sequence[New]:
            return self.replica.plan_change(given, time=time.time(), key=key)

        return self._alone(plan, "Changed", key, lambda event: event.body["settings"] == dict(given))

    def import_log(self, past: warm_start.Past, how: Mapping[str, Any], digest: str, key: str | None = None) -> Order:
        """Have a log told that was read already; ``digest`` is of all that the caller sent."""

        def plan(turn: Turn) -> Sequence[New]:
            [event], start = self.replica.plan_import(past, how, time=time.time(), key=key)
            skipped = {
                mode: {str(label): count for label, count in some.items()} for mode, some in start.skipped.items()
            }
            more = {"rewards": start.rewards, "cells": start.cells, "skipped": skipped, "digest": digest}
            return [event._replace(body={**event.body, **plain(more)})]

        def answer(events: Sequence[Event]) -> dict[str, Any]:
            parts = ("rewards", "cells", "rows", "added", "skipped")
            return {**{part: events[0].body[part] for part in parts}, "changed": True}

        def repeat(event: Event) -> dict[str, Any]:
            if event.kind != "Imported" or event.body["digest"] != digest:
                raise _reused(event)
            return {**answer([event]), "changed": False}

        return Order(self, plan, answer, repeat, key, alone=True)

    def _alone(self, plan: Any, kind: str, key: str | None, same: Callable[[Event], bool]) -> Order:
        def repeat(event: Event) -> None:
            if event.kind != kind or not same(event):
                raise _reused(event)

        return Order(self, plan, lambda events: None, repeat, key, alone=True)

    # Snapshots.

    def keep(self, seq: int) -> None:
        """Say that a snapshot has all up to an event, from now on."""
        self.kept, self._kept_at = seq, time.monotonic()

    def due(self, seconds: float) -> bool:
        """Say whether a snapshot should be kept: after many events, or after some time with a few."""
        more = self.replica.seq - self.kept
        return more >= _MANY or (more >= _SOME and time.monotonic() - self._kept_at >= seconds)

    # What it is.

    def summary(self) -> dict[str, Any]:
        """Return what a list of bandits says of this one."""
        replica = self.replica
        space = replica.space
        return {
            "name": self.name,
            "modes": dict(zip(space.modes, space.shape, strict=True)),
            "context": [space.modes[mode] for mode in space.context],
            "policy": replica.settings.get("policy") or "thompson",
            "reward": replica.settings.get("reward") or "gaussian",
            "apprentice": bool(replica.settings.get("apprentice")),
            "decisions": replica.decisions,
            "rewards": replica.rewards,
            "waiting": replica.waiting,
            "seq": replica.seq,
            "created": self.created,
        }

    def detail(self) -> dict[str, Any]:
        """Return everything that a caller may know of how the bandit is made."""
        space = self.replica.space
        levels = {
            mode: [{"label": written(label), "retired": label in space.retired.get(mode, [])} for label in labels]
            for mode, labels in zip(space.modes, space.levels, strict=True)
        }
        hidden = ("name", "modes", "context", "rules")
        settings = {name: value for name, value in self.replica.settings.items() if name not in hidden}
        return {
            **self.summary(),
            "levels": levels,
            "rules": [written_rule(rule) for rule in space.rules],
            "settings": settings,
        }


def asked(body: Mapping[str, Any]) -> Ask:
    """Return the request that JSON describes."""
    allowed = body.get("allowed")
    return Ask(
        named(body.get("context")),
        None if allowed is None else {mode: labels_of(list(some)) for mode, some in allowed.items()},
        body.get("id"),
        body.get("activate", True),
        None if body.get("played") is None else named(body["played"]),
        body.get("propensity"),
    )


def told(body: Mapping[str, Any]) -> Tell:
    """Return the reward that JSON describes."""
    has_id, has_arm = body.get("id") is not None, body.get("arm") is not None
    if has_id == has_arm:
        raise ValueError("tell either the id of a decision and its reward, or arm, context and reward")
    if has_id and (body.get("context") is not None or body.get("trials") is not None):
        raise ValueError("context and trials go with an arm; a decision has a context already: leave them out")
    if has_arm and (body.get("amend") or body.get("add")):
        raise ValueError("amend and add change the reward of a decision; give its id rather than an arm")
    labels = {name: named(body[name]) if body.get(name) is not None else None for name in ("arm", "context")}
    amend, add = bool(body.get("amend")), bool(body.get("add"))
    return Tell(body.get("reward"), body.get("id"), amend, add, labels["arm"], labels["context"], body.get("trials"))


def became(events: Sequence[Event]) -> dict[str, Any]:
    """Return what became of a decision, as its events say."""
    words = {"Rewarded": "rewarded", "Amended": "rewarded", "TimedOut": "timed out", "Cancelled": "cancelled"}
    ends = [event for event in events if event.kind in words]
    return {"status": words[ends[-1].kind] if ends else "open", "reward": ends[-1].body.get("reward") if ends else None}


def _reused(event: Event) -> KeyReusedError:
    return KeyReusedError(
        f"the key {event.key!r} was used for another request ({event.kind}, event {event.seq}); give each write its "
        "own key, and the same one only to repeat it"
    )

"""A bandit's log, read through the route of events, beside the answers that its clients got."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.service.attack_records import Exchange, Json, Life, Trouble

if TYPE_CHECKING:
    from benchmarks.service.attack_tenants import Sender, Tenant

REWARDS = ("Rewarded", "Amended")
CLOSED = (*REWARDS, "TimedOut", "Cancelled")
_PAGE = 1_000


def read_log(sender: Sender, after: int = 0, seconds: float = 30.0) -> list[Json] | None:
    """Return the events after a number, or None if nobody answers for so long."""
    found: list[Json] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        path = sender.tenant.path(f"events?after={after}&limit={_PAGE}")
        one = sender.send("events", "GET", path, secret=sender.tenant.manage, expects=(200,))
        if one.done:
            page = one.answer["events"]
            found += page
            after = page[-1]["seq"] if page else after
            if len(page) < _PAGE:
                return found
        else:
            time.sleep(0.3)
    return None


class Part(NamedTuple):
    """A request, or one of many: what was asked for, in which group of tries, and how it was answered."""

    body: Json
    group: str
    status: int | None
    answer: Any
    of: Exchange

    @property
    def lost(self) -> bool:
        return self.status is None or self.status >= 500


@dataclass
class Story:
    """A bandit's log, and what clients know of it."""

    tenant: Tenant
    life: Life
    events: list[Json]
    detail: Json
    history: list[Json] | None  # None if it was not asked for
    trouble: Trouble

    def __post_init__(self) -> None:
        self.asks = list(self._parts(("ask", "ask-many"), "requests", "decisions"))
        self.tells = list(self._parts(("tell", "tell-many"), "rewards", "results"))
        self.decided = {event["decision"]: event for event in self.events if event["kind"] == "Decided"}
        self.levels = {mode: [one["label"] for one in some] for mode, some in self.detail["levels"].items()}
        self.rewards: dict[str, list[Json]] = defaultdict(list)
        for event in self.events:
            if event["kind"] in (*REWARDS, "TimedOut"):
                self.rewards[event["decision"]].append(event)

    def _parts(self, routes: Sequence[str], plural: str, answers: str) -> Iterator[Part]:
        paths = [self.tenant.path(route) for route in routes]
        for one in self.life.exchanges:
            if not isinstance(one.body, dict):
                continue
            if one.path == paths[0]:
                yield Part(one.body, one.group, one.status, one.answer, one)
            elif one.path == paths[1]:
                bodies = one.body.get(plural, [])
                found = one.answer[answers] if one.done else [one.answer] * len(bodies)
                for at, (body, answer) in enumerate(zip(bodies, found, strict=True)):
                    refused = one.done and "error" in answer
                    yield Part(body, f"{one.group} {at}", 409 if refused else one.status, answer, one)

    def made(self) -> Iterator[Part]:
        """Yield the decisions that were acknowledged."""
        return (part for part in self.asks if part.status == 200)

    def labels(self, cell: Sequence[int]) -> dict[str, Any]:
        """Return the labels of a cell."""
        return {mode: labels[at] for (mode, labels), at in zip(self.levels.items(), cell, strict=True)}


def count(events: Iterable[Json]) -> dict[str, float]:
    """Return what events add up to."""
    open_ids: set[str] = set()
    rewards: dict[str, float] = {}
    decisions, more, total = 0, 0.0, 0.0
    for event in events:
        kind, number, body = event["kind"], event["decision"], event["body"]
        if kind == "Decided":
            decisions += 1
            open_ids.add(number)
        elif kind in CLOSED:
            open_ids.discard(number)
            if body.get("reward") is not None:
                rewards[number] = body["reward"]
        elif kind == "Told":
            more, total = more + (body.get("trials") or 1), total + body["reward"]
        elif kind == "Imported":
            more, total = more + body["rewards"], total + body["rewards"]
    total += sum(rewards.values())
    return {"decisions": decisions, "waiting": len(open_ids), "rewards": len(rewards) + more, "sum": total}

"""Many tells of which a third are retries, out of order, from several clients: none may count twice."""

from __future__ import annotations

import random
import sys
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.service.folded import ledger_of
from benchmarks.service.served import BANDIT, MODES, NAME, Caller, call, path, placed, serving
from benchmarks.service.witnesses import Cell, Tally, cell_of, reward_of
from benchmarks.store import Result, Settings
from tensorbandits.report.page import Part, Table, Text
from tensorbandits.store import Store as Events

CLIENTS = 8
WAVE = 20_000  # decisions that wait at once
MOST = 1_000  # in one request
FREE, SINGLY, OLD = 0.2, 0.05, 0.3  # shares: without a decision; each in a request of its own; retries of past waves
Batch = tuple[str, list[dict[str, Any]]]  # a key, and rewards


class Crowd:
    """Clients that send batches side by side; counts what the answers say was new."""

    def __init__(self, port: int) -> None:
        self._callers = [Caller([port], seed=at) for at in range(CLIENTS)]
        self._pool = ThreadPoolExecutor(CLIENTS)
        self.new, self.refused = 0, 0

    def close(self) -> None:
        """Let the clients go."""
        self._pool.shutdown()
        for caller in self._callers:
            caller.close()

    def ask(self, count: int, rng: random.Random) -> list[str]:
        """Return the ids of new decisions."""
        sizes = [MOST] * (count // MOST) + ([count % MOST] if count % MOST else [])
        bodies = [
            {"requests": [{"context": {"segment": rng.choice(MODES["segment"])}} for _ in range(size)]}
            for size in sizes
        ]
        answers = self._all([("ask-many", body, uuid.uuid4().hex) for body in bodies])
        return [decision["id"] for answer in answers for decision in answer["decisions"]]

    def tell(self, batches: list[Batch]) -> None:
        """Send batches; one of a single reward goes to the route for one."""
        requests = [
            ("tell", rewards[0], key) if len(rewards) == 1 else ("tell-many", {"rewards": rewards}, key)
            for key, rewards in batches
        ]
        for answer in self._all(requests):
            for one in answer.get("results", [answer]):
                self.new += bool(one.get("changed"))
                self.refused += "error" in one

    def _all(self, requests: list[tuple[str, Any, str]]) -> list[Any]:
        parts = [requests[at::CLIENTS] for at in range(CLIENTS)]

        def send(at: int) -> list[Any]:
            caller = self._callers[at]
            return [caller.patiently("POST", path(what), body, key) for what, body, key in parts[at]]

        return [answer for part in self._pool.map(send, range(CLIENTS)) for answer in part]


def batches(rewards: list[dict[str, Any]], rng: random.Random) -> Iterator[Batch]:
    """Cut rewards into requests of random sizes."""
    at = 0
    alone = int(SINGLY * len(rewards))
    while at < len(rewards):
        size = 1 if at < alone else rng.randint(2, MOST)
        yield uuid.uuid4().hex, rewards[at : at + size]
        at += size


def measure(settings: Settings) -> Result:
    """Tell; then compare the ledger that was served, and the log, with each reward counted once."""
    wanted, rng = settings["tells"], random.Random(1)
    distinct = 2 * wanted // 3
    began = time.monotonic()
    with placed(settings["store"]) as place, serving(place, log_level="warning") as [service]:
        call(service, "POST", "/v1/bandits", BANDIT, "made-once")
        crowd, told = Crowd(service.port), Told(rng)
        while told.distinct < distinct:
            share = min(WAVE, distinct - told.distinct)
            free = int(FREE * share)
            told.wave(crowd, share - free, free)
            print(f"{told.sent:,} tells, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        told.last(crowd, wanted)
        seconds, size = time.monotonic() - began, place.size()
        summary = call(service, "GET", path())
        crowd.close()
        service.stop()
        with Events.open(place.url) as store:
            bandit = store.find(NAME)
            tally = Tally()
            tally.take(store.events(bandit.id))
            served = ledger_of(store.snapshot(bandit.id)[1])
    expected = told.ledger(tally)
    return {
        "sent": told.sent,
        "distinct": told.distinct,
        "new": crowd.new,
        "refused": crowd.refused,
        "in_log": len(tally.rewarded) + len(tally.told),
        "counted": summary["rewards"],
        "wrong": len(tally.wrong),
        "exact": bool(served == expected and tally.ledger() == expected),
        "seconds": seconds,
        "told_seconds": told.seconds,
        "megabytes": size,
    }


class Told:
    """What was told so far."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.decisions: list[str] = []
        self.free: list[tuple[Cell, int]] = []
        self._past: list[Batch] = []  # batches without decisions, to be repeated
        self.sent, self.distinct, self.seconds = 0, 0, 0.0

    def wave(self, crowd: Crowd, decisions: int, free: int) -> None:
        """Tell new rewards, and half as many that are retries, in any order."""
        rng = self._rng
        fresh = crowd.ask(decisions, rng)
        retries = (decisions + free) // 2
        again = [rng.choice(fresh) for _ in range(retries - int(OLD * retries) - free // 2)]
        again += [rng.choice(self.decisions or fresh) for _ in range(int(OLD * retries))]
        rewards = [{"id": one, "reward": reward_of(one)} for one in fresh + again]
        rng.shuffle(rewards)
        sent = list(batches(rewards, rng))
        without = list(batches([self._without() for _ in range(free)], rng))
        self._past = [batch for batch in without if rng.random() < 0.5]
        sent += without + self._past
        rng.shuffle(sent)
        self._send(crowd, sent)
        self.decisions += fresh
        self.distinct += decisions + free

    def last(self, crowd: Crowd, wanted: int) -> None:
        """Retry until as many were told as were to be."""
        while self.sent < wanted:
            some = [self._rng.choice(self.decisions) for _ in range(min(wanted - self.sent, WAVE))]
            self._send(crowd, list(batches([{"id": one, "reward": reward_of(one)} for one in some], self._rng)))

    def _send(self, crowd: Crowd, sent: list[Batch]) -> None:
        began = time.monotonic()
        crowd.tell(sent)
        self.seconds += time.monotonic() - began
        self.sent += sum(len(rewards) for _, rewards in sent)

    def _without(self) -> dict[str, Any]:
        labels = {mode: self._rng.choice(some) for mode, some in MODES.items()}
        reward = self._rng.randrange(2)
        self.free.append((cell_of(labels), reward))
        context = {"segment": labels.pop("segment")}
        return {"arm": labels, "context": context, "reward": reward}

    def ledger(self, tally: Tally) -> Any:
        """Return what the ledger must be: the cells are those that the log says were decided."""
        expected = Tally()
        expected.decided = tally.decided
        expected.rewarded = {one: reward_of(one) for one in self.decisions}
        expected.told = {str(at): what for at, what in enumerate(self.free)}
        return expected.ledger()


def parts(found: list[tuple[Settings, Result]]) -> list[Part]:
    """Return what the report says of it."""
    rows = []
    for settings, one in found:
        twice = one["in_log"] - one["distinct"]
        ledger = "exact" if one["exact"] and not one["wrong"] else "wrong"
        rate = one["sent"] / one["told_seconds"]
        numbers = [f"{one['sent']:,}", f"{one['distinct']:,}", f"{one['new']:,}", f"{twice:,}", ledger, f"{rate:,.0f}"]
        rows.append([settings["store"], *numbers, f"{one['megabytes']:,.0f}"])
    header = ["store", "tells", "distinct", "new by the answers", "counted twice", "ledger", "tells a second", "MB"]
    return [
        Text(
            f"{CLIENTS} clients tell rewards of which a third are retries: in any order, also by two clients at once, "
            "also of decisions that memory has forgotten, most in requests of up to 1,000 and some one by one; rewards "
            "without decisions are repeated with their idempotency key."
        ),
        Table(header, rows, "Retries"),
    ]

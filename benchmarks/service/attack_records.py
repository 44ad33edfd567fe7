"""What an attack remembers: requests with their answers, when something was made to fail, and what was found wrong."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
SOON = 7.0  # seconds within which a server that nothing was done to answers: 5, and 2 for a busy machine
BOUND = 20.0  # seconds within which any server that runs answers or fails, whatever was done to its database
GRACE = 5.0  # seconds after a fault in which its servers may still fail
_MARK = re.compile(r"zq(\d+)zq")
_EXAMPLES, _ALIKE = 40, 3  # that are kept of a promise, and of those with the same words
_FAULTLESS = frozenset(range(200, 500))


def mark(tenant: int) -> str:
    """Return letters that all labels, ids and keys of a tenant hold, so that others who see them are noticed."""
    return f"zq{tenant}zq"


@dataclass(slots=True)
class Exchange:
    """A request, or one part of a request for many, and its answer.

    ``group`` is the same for all tries of one logical request, and ``first`` is when the first of them was sent.
    ``expects`` are the statuses that a healthy service may answer with.
    """

    tenant: int
    what: str
    replica: int
    method: str
    path: str
    body: Any
    key: str | None
    group: str
    first: float
    sent: float
    expects: frozenset[int] = _FAULTLESS
    borrowed: bool = False  # whether it holds values of other tenants
    ended: float = 0.0
    status: int | None = None  # None if no answer came
    answer: Any = None

    @property
    def lost(self) -> bool:
        """Whether it is unknown if the request was carried out."""
        return self.status is None or self.status >= 500

    @property
    def done(self) -> bool:
        """Whether it was acknowledged."""
        return self.status is not None and 200 <= self.status < 300

    def words(self) -> str:
        """The request and its answer, in short."""
        body = self.body if isinstance(self.body, str) else json.dumps(self.body, default=repr)
        key = f" key={self.key}" if self.key else ""
        took = self.ended - self.sent
        return (
            f"replica {self.replica}: {self.method} {self.path} {body[:300]}{key} -> {self.status} after {took:.2f} s "
            f"{json.dumps(self.answer, default=repr)[:300]}"
        )


@dataclass(slots=True)
class Claim:
    """What decisions have to obey from the acknowledgement of a change until the next one is sent."""

    kind: str
    about: Any
    since: float
    until: float = float("inf")
    said: str = ""  # the change

    def covers(self, exchange: Exchange) -> bool:
        """Say whether a request was first sent after the acknowledgement, and answered before the next change."""
        return self.since <= exchange.first and exchange.ended <= self.until


class Life:
    """One bandit of a tenant, from its creation to its end."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.exchanges: list[Exchange] = []
        self.claims: list[Claim] = []
        self.archive: list[Json] = []  # events that were folded away since
        self.unsure: set[str] = set()  # kinds of claims after a change of unknown outcome
        self.begun = time.monotonic()

    def suspend(self, kind: str, about: Any = None) -> None:
        """Claim nothing of a kind from now on: a change of it is about to be sent."""
        now = time.monotonic()
        for claim in self.claims:
            if claim.kind == kind and (about is None or claim.about == about):
                claim.until = min(claim.until, now)

    def claim(self, kind: str, about: Any, said: str) -> None:
        """Claim something from now on: a change was acknowledged."""
        if kind not in self.unsure:
            self.claims.append(Claim(kind, about, time.monotonic(), said=said))


class Trouble:
    """Which servers something was done to, and when."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans: list[list[Any]] = []  # what, replicas or None for all, from, to
        self.wrong_clocks: list[list[Any]] = []  # replica, from, to

    def begin(self, what: str, replicas: Iterable[int] | None) -> list[Any]:
        """Say that something is about to be done to some servers, or to all."""
        span = [what, None if replicas is None else frozenset(replicas), time.monotonic(), float("inf")]
        with self._lock:
            self._spans.append(span)
        return span

    def end(self, span: list[Any]) -> None:
        """Say that it is over; requests are excused for a while yet."""
        span[3] = time.monotonic() + GRACE

    def during(self, replica: int, since: float, until: float) -> list[str]:
        """Return what was done to a server between two times."""
        with self._lock:
            return [
                what
                for what, replicas, start, end in self._spans
                if (replicas is None or replica in replicas) and start <= until and since <= end
            ]

    def now(self, replica: int) -> list[str]:
        """Return what is being done to a server."""
        at = time.monotonic()
        return self.during(replica, at, at)

    def clock_was_wrong(self, exchange: Exchange) -> bool:
        """Say whether the clock of the server that answered was, or had just been, wrong."""
        return any(
            replica == exchange.replica and start <= exchange.ended and exchange.sent <= end + 1.0
            for replica, start, end in self.wrong_clocks
        )


class Findings:
    """What was found wrong, by the promise that was broken."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        self.examples: dict[str, list[Json]] = defaultdict(list)
        self._begun = time.monotonic()
        self._alike: Counter[tuple[str, str]] = Counter()

    def add(self, check: str, words: str, tenant: str | None = None, of: Exchange | None = None) -> None:
        """Note that something is wrong; of each promise some examples are kept."""
        with self._lock:
            self.counts[check] += 1
            alike = check, re.sub(r"[-\w]*\d[-\w.]*", "", words)[:60]  # but for numbers and ids
            self._alike[alike] += 1
            if self._alike[alike] <= _ALIKE and len(self.examples[check]) < _EXAMPLES:
                at = round((time.monotonic() if of is None else of.ended) - self._begun, 2)
                request = of.words() if of is not None else None
                self.examples[check].append({"at": at, "words": words, "tenant": tenant, "request": request})

    @property
    def total(self) -> int:
        return sum(self.counts.values())


@dataclass
class Diary:
    """Everything that one run of an attack writes down."""

    trouble: Trouble = field(default_factory=Trouble)
    findings: Findings = field(default_factory=Findings)
    commands: Counter[tuple[str, str]] = field(default_factory=Counter)  # by command and outcome
    faults: Counter[str] = field(default_factory=Counter)
    servers: list[str] = field(default_factory=list)  # the last errors that each wrote
    flying: Counter[int] = field(default_factory=Counter)  # requests that wait for their answers, by server
    starved: list[tuple[float, float]] = field(default_factory=list)  # when this process itself did not run
    patience: float = 1.0  # times the limits, for machines that others use too
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _numbers: Any = field(default_factory=itertools.count)

    def number(self) -> int:
        """Return a number that was not given before."""
        return next(self._numbers)

    @contextlib.contextmanager
    def flight(self, replica: int) -> Iterator[None]:
        """Count a request as one that waits for its answer."""
        with self._lock:
            self.flying[replica] += 1
        try:
            yield
        finally:
            with self._lock:
                self.flying[replica] -= 1

    def judge(self, one: Exchange, tenant: str, soon: float = SOON) -> None:
        """Count an exchange, and find what is wrong with it by itself."""
        outcome = "unknown outcome" if one.lost else "acknowledged" if one.done else "refused"
        with self._lock:
            self.commands[one.what, outcome] += 1
        for check in (_internal_errors, _foreign_words, _unanswered):
            words = check(one, self.trouble.during(one.replica, one.sent, one.ended))
            if words:
                self.findings.add(check.__doc__ or "", words, tenant, one)
        self._slow(one, tenant, soon)

    def _slow(self, one: Exchange, tenant: str, soon: float) -> None:
        troubled = self.trouble.during(one.replica, one.sent, one.ended)
        limit = self.patience * (BOUND if troubled else soon)
        silent = {"stopped", "killed"} & set(troubled)  # who cannot answer need not
        starved = sum(min(end, one.ended) - max(start, one.sent) for start, end in self.starved
                      if start < one.ended and one.sent < end)  # fmt: skip
        took = one.ended - one.sent - starved
        if took > limit and not silent:
            promise = "a request is answered or fails in bounded time" if troubled else "a server is not held up"
            self.findings.add(promise, f"{one.what} took {took:.1f} s, allowed are {limit:.0f}", tenant, one)


def _internal_errors(one: Exchange, troubled: list[str]) -> str | None:
    """no request ends in an internal error"""
    return f"{one.what} was answered with {one.status}" if one.status is not None and one.status == 500 else None


def _foreign_words(one: Exchange, troubled: list[str]) -> str | None:
    """no answer names values of other tenants"""
    if one.borrowed or one.answer is None:
        return None
    others = {found for found in _MARK.findall(json.dumps(one.answer, default=repr)) if int(found) != one.tenant}
    return f"the answer names values of tenant {', '.join(sorted(others))}" if others else None


def _unanswered(one: Exchange, troubled: list[str]) -> str | None:
    """a request is answered as it must be, whatever other tenants and other servers do"""
    if troubled and one.lost:
        return None
    if one.status is None:
        return f"no answer to {one.what}: {one.answer}"
    if one.status not in one.expects:
        return f"{one.what} was answered with {one.status}, allowed are {sorted(one.expects)[:6]}"
    return None

"""What requests may be answered, worked out once for each snapshot: arms, exact propensities, beginnings of tokens.

Drawing an answer is then one random number and a look into a list.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from tensorbandits.bandit.commands import Ask, Drawn
from tensorbandits.bandit.law import OtherPart
from tensorbandits.bandit.published import PublishedSnapshot
from tensorbandits.bandit.snapshot import Snapshot, keep
from tensorbandits.base.checks import Cell
from tensorbandits.base.pieces import gently
from tensorbandits.decider.tokens import TokenHeads, TokenKeys
from tensorbandits.space.labels import Label
from tensorbandits.tensor.allowed import NothingAllowedError

REQUESTS = 4_096  # of which what was worked out is kept, each with its arms
REST = 100_000  # arms of floors and of the holdout that are kept for all requests together, about 500 bytes each
_REPEATED = 10_000  # arms of a floor or of the holdout of which those of late are worked out for the next snapshot too
_LISTED = 10_000  # arms of a floor or of the holdout that are numbered where rules forbid some by combination
_AT_ONCE = 4  # requests that are worked out before other threads have a moment

Words = tuple[tuple[str, Any], ...]  # a request by its labels, as it was given


class ReadyArm(NamedTuple):
    """An arm as a decision names it, what was drawn, and what all tokens of it begin with."""

    head: bytes
    labels: dict[str, Label]
    drawn: Drawn
    version: int  # of the snapshot


class ArmNames:
    """Names the arms of one snapshot, and writes what their tokens begin with. It knows no request."""

    def __init__(self, published: PublishedSnapshot, keys: TokenKeys) -> None:
        self.published, self._heads = published, TokenHeads(keys, published.uid, published.version)
        space = published.space
        self._levels = space.levels  # which a space lists anew each time
        self.given = [(at, space.modes[at]) for at in space.context]
        self.free = [(at, name) for at, name in enumerate(space.modes) if at not in space.context]
        self.room = REST  # for arms of floors and of the holdout; threads that count at once may be one off

    def context(self, levels: Cell) -> dict[str, Label]:
        """Return the labels of the context modes."""
        pairs = zip(self.given, levels, strict=True)
        return {name: self._levels[at][level] for (at, name), level in pairs}

    def arm(self, cell: Cell) -> dict[str, Label]:
        """Return the labels of the other modes."""
        return {name: self._levels[at][cell[at]] for at, name in self.free}

    def ready(self, drawn: Drawn) -> ReadyArm:
        """Return an arm that was drawn, ready to be decided."""
        return ReadyArm(self._heads.head(drawn), self.arm(drawn.cell), drawn, self.published.version)


class OtherArms:
    """The arms of a floor, or of the holdout, that a request draws from, of which some are ready, by their numbers.

    Random numbers from ``begin`` to below ``end`` draw one of them.
    """

    __slots__ = ("begin", "known", "last", "numbered", "part", "scale")

    def __init__(self, part: OtherPart, begin: float, end: float, known: dict[int, ReadyArm]) -> None:
        group = part.group
        self.part, self.begin, self.known = part, begin, known
        self.scale, self.last = group.count / (end - begin), group.count - 1
        self.numbered = not group.combined or group.count <= _LISTED


class ReadySnapshot:
    """A published snapshot, with what was worked out of requests so far. Any thread may decide from it."""

    def __init__(self, published: PublishedSnapshot, keys: TokenKeys) -> None:
        self.published, self.names = published, ArmNames(published, keys)
        self.snapshot = published.snapshot()
        self.version, self.policy, self.rollout = published.version, published.policy, published.shares.rollout
        self.given, self.free = self.names.given, self.names.free
        self.by_words: dict[Words, ReadyRequest] = {}  # of labels that are all text
        self._requests: dict[tuple[Cell, Any], ReadyRequest] = {}

    def request(self, ask: Ask) -> ReadyRequest:
        """Return a request, ready to be drawn from; refuse one that could not be decided."""
        found = self._requests.get((ask.levels, ask.chosen))
        if found is None:
            found = ReadyRequest(self.snapshot, self.names, ask)
            keep(self._requests, (ask.levels, ask.chosen), found, REQUESTS)
        return found

    def remember(self, words: Words, request: ReadyRequest) -> None:
        """Find a request by its labels from now on, if they are all text: others may be equal and yet not the same."""
        if all(type(label) is str for _, label in words):
            keep(self.by_words, words, request, REQUESTS)

    def prepare(self, before: ReadySnapshot) -> None:
        """Work out the requests that were decided from the snapshot before this one."""
        used = [request for request in list(before._requests.values()) if request.used]
        ready: dict[int, ReadyRequest] = {}
        for request in gently(used, _AT_ONCE):
            try:
                found = ready[id(request)] = self.request(request.ask)
                found.prepare(request)
            except (IndexError, ValueError):  # a level is retired now; whoever asks again is told so
                continue
        for words, request in gently(list(before.by_words.items()), 64 * _AT_ONCE):
            if id(request) in ready:
                self.by_words[words] = ready[id(request)]


class ReadyRequest:
    """The law of one request, ready to be drawn from. Any thread may draw.

    It does not know the snapshot that keeps it, so that both are gone as soon as nobody decides from them.
    """

    def __init__(self, snapshot: Snapshot, names: ArmNames, ask: Ask) -> None:
        self.ask = ask
        self.used = False  # since the snapshot is decided from
        self._names, self._draws = names, names.published.draws
        try:
            self._law = snapshot.law(ask)
            outcomes = [(share, drawn) for share, drawn in self._law.outcomes(self._draws) if share > 0.0]
        except NothingAllowedError:
            raise ValueError(snapshot.nothing(ask)) from None
        self.context = names.context(ask.levels)
        self._arms = [names.ready(drawn) for _, drawn in outcomes]
        others = self._law.others()
        self._ends = [0.0, *accumulate([*(share for share, _ in outcomes), *(part.share for part in others)])]
        self._ends[-1] = 1.0  # sums of shares may be a bit less
        begins, ends = self._ends[len(self._arms) :], self._ends[len(self._arms) + 1 :]
        self._others = [OtherArms(*given, {}) for given in zip(others, begins, ends, strict=False)]

    def prepare(self, before: ReadyRequest) -> None:
        """Work out the arms of floors and of the holdout that came of late, of which others will come again."""
        for others, those in zip(self._others, before._others, strict=False):
            if others.last == those.last < _REPEATED:
                for number in gently(list(those.known), 16 * _AT_ONCE):
                    self._other(others, number)

    def draw(self, at: float, rng: np.random.Generator) -> ReadyArm:
        """Return an arm, given a random number from 0 to below 1; ``rng`` is for arms that are too many to number."""
        place = bisect_right(self._ends, at) - 1
        if place < len(self._arms):
            return self._arms[place]
        others = self._others[place - len(self._arms)]
        if others.numbered:
            number = min(int((at - others.begin) * others.scale), others.last)
            return others.known.get(number) or self._other(others, number)
        return self._names.ready(self._law.other(others.part, others.part.group.draw(rng), self._draws))

    def _other(self, others: OtherArms, number: int) -> ReadyArm:
        """Return an arm of a floor or of the holdout, by its number, and keep it if there is room."""
        found = self._names.ready(self._law.other(others.part, others.part.group.arm(number), self._draws))
        if self._names.room > 0:
            self._names.room -= 1
            others.known[number] = found
        return found

    def played(self, cell: Cell, propensity: float | None) -> ReadyArm:
        """Return the arm that a caller's own rule plays."""
        return self._names.ready(Drawn(cell, propensity, "caller", chances=self._law.chances))

    def best(self) -> dict[str, Label]:
        """Return the arm believed best, of those that are best in one of the draws."""
        cells = sorted(set(self._draws.best(self._draws.numbers, self._law.query)))
        return self._names.arm(cells[int(self._names.published.believed(cells).argmax())])

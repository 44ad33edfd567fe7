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
from tensorbandits.base.checks import Cell
from tensorbandits.base.pieces import gently
from tensorbandits.decider.tokens import TokenHeads, TokenKeys
from tensorbandits.space.labels import Label
from tensorbandits.tensor.allowed import NothingAllowedError

REQUESTS = 4_096  # of which what was worked out is kept, each with its arms
_REST = 1_024  # arms of a floor or of the holdout that are kept for a request
_LISTED = 10_000  # arms of a floor or of the holdout that are numbered where rules forbid some by combination
_AT_ONCE = 4  # requests that are worked out before other threads have a moment

Words = tuple[tuple[str, Any], ...]  # a request by its labels, as it was given


class ReadyArm(NamedTuple):
    """An arm as a decision names it, what was drawn, and what all tokens of it begin with."""

    head: bytes
    labels: dict[str, Label]
    drawn: Drawn
    version: int  # of the snapshot


class ReadySnapshot:
    """A published snapshot, with what was worked out of requests so far. Any thread may decide from it."""

    def __init__(self, published: PublishedSnapshot, keys: TokenKeys) -> None:
        self.published, self.heads = published, TokenHeads(keys, published.uid, published.version)
        self.snapshot = published.snapshot()
        self.version, self.policy, self.rollout = published.version, published.policy, published.shares.rollout
        space = published.space
        self.levels = space.levels  # which a space lists anew each time
        self.given = [(at, space.modes[at]) for at in space.context]
        self.free = [(at, name) for at, name in enumerate(space.modes) if at not in space.context]
        self.by_words: dict[Words, ReadyRequest] = {}  # of labels that are all text
        self._requests: dict[tuple[Cell, Any], ReadyRequest] = {}

    def request(self, ask: Ask) -> ReadyRequest:
        """Return a request, ready to be drawn from; refuse one that could not be decided."""
        found = self._requests.get((ask.levels, ask.chosen))
        if found is None:
            found = ReadyRequest(self, ask)
            _keep(self._requests, (ask.levels, ask.chosen), found)
        return found

    def remember(self, words: Words, request: ReadyRequest) -> None:
        """Find a request by its labels from now on, if they are all text: others may be equal and yet not the same."""
        if all(type(label) is str for _, label in words):
            _keep(self.by_words, words, request)

    def prepare(self, before: ReadySnapshot) -> None:
        """Work out the requests that were decided from the snapshot before this one."""
        used = [request for request in list(before._requests.values()) if request.used]
        ready: dict[int, ReadyRequest] = {}
        for request in gently(used, _AT_ONCE):
            try:
                ready[id(request)] = self.request(request.ask)
            except (IndexError, ValueError):  # a level is retired now; whoever asks again is told so
                continue
        for words, request in gently(list(before.by_words.items()), 64 * _AT_ONCE):
            if (found := ready.get(id(request))) is not None:
                self.by_words[words] = found


class ReadyRequest:
    """The law of one request, ready to be drawn from. Any thread may draw."""

    def __init__(self, ready: ReadySnapshot, ask: Ask) -> None:
        self.ask = ask
        self.used = False  # since the snapshot is decided from
        self._ready, self._draws = ready, ready.published.draws
        try:
            self._law = ready.snapshot.law(ask)
            outcomes = self._law.outcomes(self._draws)
        except NothingAllowedError:
            raise ValueError(ready.snapshot.nothing(ask)) from None
        pairs = zip(ready.given, ask.levels, strict=True)
        self.context: dict[str, Label] = {name: ready.levels[at][level] for (at, name), level in pairs}
        self._arms = [self._arm(drawn) for _, drawn in outcomes]
        self._others: list[tuple[OtherPart, dict[int, ReadyArm]]] = [(part, {}) for part in self._law.others()]
        shares = [*(share for share, _ in outcomes), *(part.share for part, _ in self._others)]
        self._ends = [0.0, *accumulate(shares)]
        self._ends[-1] = 1.0  # sums of shares may be a bit less

    def draw(self, at: float, rng: np.random.Generator) -> ReadyArm:
        """Return an arm, given a random number from 0 to below 1; ``rng`` is for arms that are too many to number."""
        place = bisect_right(self._ends, at) - 1
        if place < len(self._arms):
            return self._arms[place]
        part, known = self._others[place - len(self._arms)]
        begin, group = self._ends[place], part.group
        if group.combined and group.count > _LISTED:
            return self._arm(self._law.other(part, group.draw(rng), self._draws))
        number = min(int((at - begin) / (self._ends[place + 1] - begin) * group.count), group.count - 1)
        found = known.get(number)
        if found is None:
            found = self._arm(self._law.other(part, group.arm(number), self._draws))
            if len(known) < _REST:
                known[number] = found
        return found

    def played(self, cell: Cell, propensity: float | None) -> ReadyArm:
        """Return the arm that a caller's own rule plays."""
        return self._arm(Drawn(cell, propensity, "caller", chances=self._law.chances))

    def best(self) -> dict[str, Label]:
        """Return the arm believed best, of those that are best in one of the draws."""
        cells = sorted(set(self._draws.best(self._draws.numbers, self._law.query)))
        cell = cells[int(self._ready.published.believed(cells).argmax())]
        return {name: self._ready.levels[at][cell[at]] for at, name in self._ready.free}

    def _arm(self, drawn: Drawn) -> ReadyArm:
        ready, cell = self._ready, drawn.cell
        return ReadyArm(
            ready.heads.head(drawn), {name: ready.levels[at][cell[at]] for at, name in ready.free}, drawn, ready.version
        )


def _keep(kept: dict[Any, Any], key: Any, value: Any) -> None:
    while len(kept) >= REQUESTS:  # other threads may remove one meanwhile
        kept.pop(next(iter(kept), None), None)
    kept[key] = value

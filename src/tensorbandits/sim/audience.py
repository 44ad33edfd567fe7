"""Simulated people for trying an application: who comes, and clicks that come late, come twice, or get lost."""

from __future__ import annotations

import heapq
import math
import zlib
from collections.abc import Mapping, Sequence

import numpy as np

from tensorbandits.bandit.decision import Decision
from tensorbandits.base.checks import Cell, check_at_least, check_positive, check_probability, check_seed
from tensorbandits.space import Space
from tensorbandits.space.labels import Label
from tensorbandits.tensor.allowed import Allowed
from tensorbandits.tensor.tucker import Floats

_RANK = 2  # of the interaction


class Audience:
    """People who come one after the other, each with a context, and click or do not.

    The log-odds of a click are those of ``rate``, plus a main effect of each label, plus an interaction of rank 2 of
    all modes. Each label has numbers of its own, by its name and the seed, so that levels may be added at any time.

    Parameters
    ----------
    space : the modes, levels and context.
    rate : the click rate of a combination in the middle.
    effects, interaction : the standard deviations of a main effect and of the interaction, in log-odds.
    delay : the mean time from showing to a click, in seconds; exponential.
    lost, twice : the probability that a click never arrives, and that it arrives twice, the second time later.
    pace : seconds from one visit to the next.
    seed : an int, a ``SeedSequence``, or ``None`` for fresh randomness.

    ``now`` is the time in seconds, ``shown`` how many decisions were shown, and ``earned`` the sum of their rates,
    which is what clicks are on average; ``possible`` is the same for the best allowed arm each time.

    >>> space = Space({"segment": ["new", "old"], "offer": ["a", "b"]}, context=["segment"])
    >>> audience = Audience(space, rate=0.5, delay=60, seed=0)
    >>> context = audience.visit()
    >>> decision = Decision("1", {"offer": "a"}, context, None, "policy", "", audience.now)
    >>> audience.show(decision), audience.clicks()  # there will be a click, but none has arrived
    (True, [])
    >>> audience.wait(600)
    >>> audience.clicks()
    ['1']
    >>> 0 < audience.rate({**context, "offer": "a"}) < 1
    True
    """

    def __init__(
        self,
        space: Space,
        *,
        rate: float = 0.05,
        effects: float = 0.5,
        interaction: float = 0.5,
        delay: float = 600.0,
        lost: float = 0.0,
        twice: float = 0.0,
        pace: float = 1.0,
        seed: int | np.random.SeedSequence | None = None,
    ) -> None:
        if not isinstance(space, Space):
            raise TypeError(f"space is {space!r}; give a Space of named modes and levels")
        self.space = space
        share = check_probability(rate, "rate")
        self._middle = math.log(share / (1.0 - share))
        self.effects = check_at_least(effects, "effects")
        self.interaction = check_at_least(interaction, "interaction")
        self.delay, self.pace = check_positive(delay, "delay"), check_positive(pace, "pace")
        self.lost, self.twice = (
            check_probability(value, name) if value else 0.0 for value, name in ((lost, "lost"), (twice, "twice"))
        )
        self._rng = np.random.default_rng(check_seed(seed))
        self._salt = int(self._rng.integers(2**32))
        self.now, self.shown, self.earned, self.possible = 0.0, 0, 0.0, 0.0
        self._numbers: dict[tuple[str, Label], Floats] = {}
        self._best: dict[tuple[int, Cell], float] = {}
        self._coming: list[tuple[float, int, str]] = []  # a heap: when, after how many shown, of which

    def visit(self) -> dict[str, Label]:
        """Let somebody come, a moment later; return the labels of the context, each as likely as the others."""
        self.now += self.pace
        found = {}
        for mode in self.space.context:
            name = self.space.modes[mode]
            gone = self.space.retired.get(name, [])
            labels = [label for label in self.space.levels[mode] if label not in gone]
            found[name] = labels[int(self._rng.integers(len(labels)))]
        return found

    def show(self, decision: Decision) -> bool:
        """Show a decision to who came; return whether there will be a click, though it may never arrive."""
        rate = self.rate({**decision.context, **decision.arm})
        self.shown += 1
        self.earned += rate
        self.possible += self.best_rate(decision.context)
        if self._rng.random() >= rate:
            return False
        if self._rng.random() >= self.lost:
            at = self.now
            for _ in range(1 + int(self._rng.random() < self.twice)):
                at += self._rng.exponential(self.delay)
                heapq.heappush(self._coming, (at, self.shown, decision.id))
        return True

    def clicks(self) -> list[str]:
        """Return the ids of the decisions whose clicks have arrived since the last call, in the order of arrival."""
        found = []
        while self._coming and self._coming[0][0] <= self.now:
            found.append(heapq.heappop(self._coming)[2])
        return found

    def wait(self, seconds: float) -> None:
        """Let time pass without visits."""
        self.now += check_positive(seconds, "seconds")

    def rate(self, labels: Mapping[str, Label]) -> float:
        """Return the true click rate of a combination, given a label of every mode."""
        cell = self.space.cell(labels)  # which refuses what is no combination
        return self._rates([[levels[at]] for levels, at in zip(self.space.levels, cell, strict=True)]).item()

    def best_rate(self, context: Mapping[str, Label]) -> float:
        """Return the largest click rate that is allowed in a context."""
        levels = self.space.given(context)
        key = self.space.version, levels
        if key not in self._best:
            fixed = dict(zip(self.space.context, levels, strict=True))
            rates = self._rates(
                [[labels[fixed[mode]]] if mode in fixed else labels for mode, labels in enumerate(self.space.levels)]
            )
            allowed = Allowed.of(Allowed(forbidden=self.space.forbidden), self.space.shape)
            rates = np.squeeze(rates, axis=self.space.context)
            self._best[key] = float((rates if allowed is None else rates[allowed.mask(self.space.shape, fixed)]).max())
        return self._best[key]

    def _rates(self, labels: Sequence[Sequence[Label]]) -> Floats:
        """The rates of all combinations of labels, given for each mode."""
        log_odds, mixed = np.asarray(self._middle), np.full(_RANK, self.interaction / math.sqrt(_RANK))
        for mode, some in zip(self.space.modes, labels, strict=True):
            numbers = np.array([self._of(mode, label) for label in some])
            log_odds = log_odds[..., None] + self.effects * numbers[:, 0]
            mixed = mixed[..., None, :] * numbers[:, 1:]
        return np.asarray(1.0 / (1.0 + np.exp(-log_odds - mixed.sum(axis=-1))))

    def _of(self, mode: str, label: Label) -> Floats:
        """The numbers of a label: its main effect, and its row of the interaction."""
        if (mode, label) not in self._numbers:
            name = zlib.crc32(repr((mode, label)).encode())
            self._numbers[mode, label] = np.random.default_rng([self._salt, name]).standard_normal(1 + _RANK)
        return self._numbers[mode, label]

"""How many rewards it takes to tell whether levels differ: for those whose log has too few of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from tensorbandits.model.effects import Kind
from tensorbandits.model.held_out import Rewards

DIFFERENCE = 0.3  # how far levels of a mode differ (standard deviation of their effects) that is to be noticed
_CHANCE = 0.025  # with which noise passes for something that was learned
_MISSED = 0.2  # with which such levels are not noticed yet
MEANWHILE = (
    "Until then no combination is known to be better than another: let a bandit decide, which tries them and learns as "
    "rewards come, or go on as you do."
)


class Enough(NamedTuple):
    """How much there is to learn from, and how much it takes to notice levels that differ by about 30 %.

    ``events`` of the ``rewards`` are not the ``usual`` one, which is the most common: the clicks, if these are rare.
    ``needed`` is how many rewards it takes, infinite if all are the same; ``needed_events`` how many of rare clicks or
    counts other than the usual one.
    """

    kind: Kind = "gaussian"
    events: float = math.inf
    rewards: float = math.inf
    needed: float = 0.0
    usual: float = math.nan
    needed_events: float = math.inf

    @classmethod
    def of(cls, rewards: Rewards, kind: Kind, models: int) -> Enough:
        """Return it for some rewards, of which so many models are scored.

        With ``d`` modes whose effects have the standard deviation ``s``, the right model gains ``d s^2 i / 2`` of score
        per reward, where ``i`` is what a reward tells of an effect: the variance of a click, for its log odds; the
        squared mean over the variance of a count, for its logarithm; 1 for other rewards, in units of their spread.
        The gain varies by ``sqrt(d s^2 i)``, and learning k numbers costs ``k / 2`` in all. So of ``x = n d s^2 i``
        it takes as much as makes ``(x - k) / 2`` so many standard errors ``sqrt(x)`` that noise seldom is there, and
        such effects mostly are.

        >>> clicks = Rewards((2, 2), np.array([[0, 0], [1, 1]]), np.array([0.0, 1.0]), np.array([99, 1]))
        >>> found = Enough.of(clicks, "bernoulli", 1)
        >>> found.events, found.rewards, round(found.needed, -2)
        (1.0, 100.0, 19800.0)
        """
        total = float(rewards.counts.sum())
        events, usual = events_of(rewards)
        mean = float(rewards.counts @ rewards.values) / total
        variance = float(rewards.counts @ (rewards.values - mean) ** 2) / total
        told = 1.0 if events else 0.0
        if kind == "bernoulli":
            told = variance
        elif kind == "count" and events:
            told = mean**2 / variance
        whole = at_first(rewards.shape, models)
        rare = whole if kind == "bernoulli" or (kind == "count" and not usual) else math.inf
        return cls(kind, events, total, whole / told if told else math.inf, usual, rare)

    @property
    def lacking(self) -> bool:
        """Whether there are too few rewards to say that there is nothing to learn; rare clicks may have yet to come."""
        return self.rewards < self.needed if self.events else math.isfinite(self.needed_events)

    def limit(self, models: int) -> float:
        """Return by how many standard errors one of some models must be ahead, so that it is not luck.

        It is Student's, for the error is known from as many events only.
        """
        return float(-special.stdtrit(max(min(self.events - 1.0, 1e9), 1.0), _CHANCE / models))

    def words(self) -> str:
        """Say that nothing was learned, why, how much would do, and what to do meanwhile."""
        if not self.events and self.lacking:
            return (
                f"**Too few to tell**: all {self.rewards:,.0f} rewards are the same, {self.usual:g}. Come back with "
                f"about {rounded(self.needed_events)} others: so many mostly show levels that differ by 30 %. "
                f"{MEANWHILE}"
            )
        if not self.events:
            return f"**Nothing to learn was found**: all {self.rewards:,.0f} rewards are the same, {self.usual:g}."
        differ = "30 % of the spread of single rewards" if self.kind == "gaussian" else "30 %"
        if not self.lacking:
            return (
                "**Nothing to learn was found**: no model predicts surely better than the overall mean, though "
                f"{self.rewards:,.0f} rewards mostly show levels that differ by {differ}. So what is chosen makes "
                "little difference here; take what is cheapest, or try other levels."
            )
        have, want = f"{self.rewards:,.0f} rewards", f"{rounded(self.needed)} rewards"
        if self.events < self.rewards / 2:
            share = self.events / self.rewards
            have += f" with {self.events:,.0f} other than {self.usual:g}"
            want += f" ({rounded(self.needed * share)} of them other than {self.usual:g})"
        return (
            f"**Too few to tell**: from {have} no model predicts surely better than the overall mean. Come back with "
            f"about {want}: so many mostly show levels that differ by {differ}, and fewer do where there are fewer "
            f"levels. {MEANWHILE}"
        )


def at_first(shape: Sequence[int], models: int) -> float:
    """Return how many rewards it takes, each of which tells as much as one normal reward does, or one rare click.

    >>> round(at_first((4, 6, 3), 9))
    262
    """
    errors = special.ndtri(1.0 - _CHANCE / models) + special.ndtri(1.0 - _MISSED)
    numbers, modes = sum(size - 1 for size in shape), sum(size > 1 for size in shape)
    wanted = (errors + math.sqrt(errors**2 + numbers)) ** 2
    return float(wanted / (modes * DIFFERENCE**2)) if modes else math.inf


def events_of(rewards: Rewards) -> tuple[float, float]:
    """Return how many of some rewards are not the most common one, and that one."""
    values, which = np.unique(rewards.values, return_inverse=True)
    often = np.bincount(which, rewards.counts)
    return float(rewards.counts.sum() - often.max()), float(values[np.argmax(often)])


def rounded(number: float) -> str:
    """Return a number in words, with two digits.

    >>> rounded(2_130_000), rounded(4_321)
    ('2.1 million', '4,300')
    """
    if number >= 1e6:
        return f"{number / 1e6:.2g} million"
    digits = max(0, int(math.log10(max(number, 1))) - 1)
    return f"{round(number, -digits):,.0f}"

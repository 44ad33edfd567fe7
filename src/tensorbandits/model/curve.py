"""Learning curves: how well each model predicts held-out rewards after 300, 1,000, 3,000, .. others, and what follows.

The question is not which model predicts best from all of a log, but from as many rewards as a bandit will have. Cell
means win in the end, and with few rewards per cell they are worth nothing; in between low rank may be ahead.

What a model has *learned* is said as a share: 0 is the overall mean, 1 the best that any model here reaches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from tensorbandits.model.effects import Kind
from tensorbandits.model.enough import MEANWHILE, Enough, events_of, rounded
from tensorbandits.model.held_out import Rewards
from tensorbandits.model.scores import EFFECTS, OVERALL, PLAIN, Form, Scores, held_out_scores

_STEPS = [digit * 10**power for power in range(2, 16) for digit in (1, 3)][1:]  # 300, 1,000, 3,000, ..
_APART = 1.6  # factor by which a step must differ from the numbers that were asked for
FEWEST = 8  # rewards, of which two are held out at a time
_FOLDS = 4  # quarters of the rewards, each of which is held out once
_MANY = 50_000  # rewards from which two quarters are enough,
_EVENTS = 2_000  # if so many of them are not the most common one
Verdict = Literal["too few", "nothing", "alone", "together", "open"]
SURE = 2.0  # standard errors by which a score must be ahead
MATTERS = 0.01  # and the share of what can be learned
_MUCH = 0.5  # of what can be learned; main effects do not suffice if low rank may know so much more


def curve_sizes(total: int, wanted: int | None = None) -> list[int]:
    """Return from how many rewards models are to learn, up to three quarters of all; what is wanted is among them.

    >>> curve_sizes(20_000, 4_000), curve_sizes(100)
    ([300, 1000, 4000, 15000], [75])
    """
    most = total - -(-total // _FOLDS)
    asked = {min(wanted or most, most), most}
    steps = {step for step in _STEPS if step < most and all(abs(math.log(step / n)) > math.log(_APART) for n in asked)}
    return sorted(steps | asked)


def divisions(
    rewards: Rewards, sizes: Sequence[int], seed: np.random.SeedSequence
) -> Iterator[tuple[list[Rewards], Rewards]]:
    """Yield, with one quarter of the rewards held out after the other, nested parts of the rest, and that quarter."""
    rng, total = np.random.default_rng(seed), rewards.total
    folds = min(_FOLDS, total)
    quarters = rewards.deal([(total + i) // folds for i in range(folds - 1)], rng)
    for held_out in quarters[:2] if total >= _MANY and events_of(rewards)[0] >= _EVENTS else quarters:
        rest = rewards._replace(counts=rewards.counts - held_out.counts)
        ends = [min(size, rest.total) for size in sizes]
        *parts, _ = rest.deal(np.diff([0, *ends]).tolist(), rng)
        counts = np.cumsum([part.counts for part in parts], axis=0)
        yield [rest._replace(counts=some) for some in counts], held_out


def learning_curve(
    rewards: Rewards,
    kind: Kind,
    candidates: Sequence[Form],
    sizes: Sequence[int],
    seed: np.random.SeedSequence,
) -> Curve:
    """Return the learning curve of some rewards; ``sizes`` are increasing, none above three quarters of all.

    >>> cells = np.argwhere(np.ones((6, 6))); rates = 0.1 + 0.8 * np.outer(np.arange(6), np.arange(6)).ravel() / 25
    >>> counts = np.column_stack([1000 - (1000 * rates).astype(int), (1000 * rates).astype(int)]).ravel()
    >>> rewards = Rewards((6, 6), np.repeat(cells, 2, axis=0), np.tile([0.0, 1.0], 36), counts)
    >>> curve = learning_curve(rewards, "bernoulli", [Form("tucker", 1)], [500, 5000], np.random.SeedSequence(0))
    >>> [point.rewards for point in curve.points], curve.learned(curve.points[1], "tucker 1") > 0.5
    ([500, 5000], True)
    """
    if rewards.total < FEWEST:
        raise ValueError(
            f"there are {rewards.total} rewards; some are held out from what models learn from, so give at least "
            f"{FEWEST}"
        )
    found = []
    dealt, drawn = seed.spawn(2)
    rng = np.random.default_rng(drawn)
    for parts, held_out in divisions(rewards, sizes, dealt):
        ledgers = [part.ledger() for part in parts]
        found.append(held_out_scores(ledgers, held_out.ledger(), kind, candidates, rng))
    points = tuple(map(Scores.join, zip(*found, strict=True)))
    return Curve(points, tuple(candidates), Enough.of(rewards, kind, len(points[0].models) - 1))


class Stretch(NamedTuple):
    """From how many rewards to how many low rank is ahead; ``None`` where the curve does not show an end."""

    start: float | None
    end: float | None


@dataclass(frozen=True, eq=False)
class Curve:
    """The scores of all models at each number of rewards, smallest first, and what they say of low rank."""

    points: tuple[Scores, ...]
    candidates: tuple[Form, ...]
    enough: Enough = field(default_factory=Enough)  # how much there is to learn from

    @cached_property
    def _span(self) -> tuple[float, float]:
        """The score of the overall mean, and the best of all."""
        last = self.points[-1]
        return last[OVERALL], max(float(max(point.as_dict().values())) for point in self.points)

    def learned(self, point: Scores, model: str) -> float:
        """Return the share of what can be learned that a model has at a point.

        0 is what the overall mean of the most rewards has, 1 the best model anywhere on the curve. Where nothing to
        learn was found, all have 0.
        """
        low, high = self._span
        return 0.0 if self.nothing_to_learn else (point[model] - low) / (high - low)

    def at(self, rewards: float) -> Scores:
        """Return the point that is nearest to so many rewards, by their ratio."""
        return min(self.points, key=lambda point: abs(math.log(point.rewards / rewards)))

    def low_rank(self, point: Scores) -> Form:
        """Return the smallest structure that is not surely behind the best at a point."""
        ordered = sorted(self.candidates, key=lambda structure: (structure.rank, structure.kind == "affine"))
        name = point.best([str(structure) for structure in ordered], SURE)
        return next(structure for structure in ordered if str(structure) == name)

    def rival(self, point: Scores) -> str:
        """Return the best model without low rank at a point; the simplest of those that are as good."""
        return point.best(PLAIN)

    def lead(self, point: Scores) -> tuple[float, bool]:
        """Return the share by which low rank is ahead of all models without it at a point, and whether that is sure."""
        share, margin = self._lead(point)
        return share, margin > 0

    def _lead(self, point: Scores) -> tuple[float, float]:
        """Return the share by which low rank is ahead at a point, and by how much more than it takes to be sure."""
        if self.nothing_to_learn:
            return 0.0, -MATTERS
        ours = max(map(str, self.candidates), key=lambda name: point[name])
        theirs = max(PLAIN, key=lambda name: point[name])
        _, error = point.ahead(ours, theirs)
        share, (low, high) = self.learned(point, ours) - self.learned(point, theirs), self._span
        return share, share - max(MATTERS, SURE * error / (high - low))

    def suggested(self, point: Scores) -> Form:
        """Return the structure to take at a point: main effects alone where low rank is not ahead of what they know."""
        if not self.lead(point)[1] and self.rival(point) in (EFFECTS, OVERALL):
            return Form("additive", 1)
        return self.low_rank(point)

    @property
    def worth_it(self) -> bool:
        """Whether low rank is surely ahead after some number of rewards."""
        return any(self.lead(point)[1] for point in self.points)

    @cached_property
    def nothing_to_learn(self) -> bool:
        """Whether no model is surely better than the overall mean, after as many rewards as there are to learn from.

        With few events, and the more models the more, one is ahead by luck; so it must be by more than two errors.
        """
        return not self.enough.events or not self._known(self.points[-1])

    def _known(self, point: Scores) -> list[str]:
        """Return the models that are surely better than the overall mean at a point, the best first."""
        models = [model for model in point.models if model != OVERALL]
        limit = self.enough.limit(len(models))
        ahead = {model: point.ahead(model, OVERALL) for model in models}
        sure = [model for model, (by, error) in ahead.items() if by > limit * error and by > 0]
        return sorted(sure, key=lambda model: -ahead[model][0])

    def verdict(self, rewards: float) -> tuple[Verdict, float]:
        """Return what is known of how modes act, and how many rewards it takes to know more; 0 where nothing lacks."""
        point = self.at(rewards)
        rival = self.rival(point)
        if self.nothing_to_learn:
            return ("too few", self.enough.needed) if self.enough.lacking else ("nothing", 0.0)
        if self.lead(point)[1] or rival not in (OVERALL, EFFECTS):
            return "together", 0.0
        if rival == OVERALL:
            return "too few", max(self.enough.needed, 2.0 * self.enough.rewards)
        needed = self._undecided(point)
        return ("open", needed) if needed else ("alone", 0.0)

    def stretches(self) -> list[Stretch]:
        """Return between which numbers of rewards low rank is ahead, with ends where its lead is no longer sure."""
        margins = [self._lead(point)[1] for point in self.points]
        sure = [margin > 0 for margin in margins]
        starts = [i for i, ahead in enumerate(sure) if ahead and not (i and sure[i - 1])]
        ends = [i for i, ahead in enumerate(sure) if ahead and not (i + 1 < len(sure) and sure[i + 1])]
        return [
            Stretch(
                self._crossing(margins, first - 1) if first else None,
                self._crossing(margins, last) if last + 1 < len(sure) else None,
            )
            for first, last in zip(starts, ends, strict=True)
        ]

    def _crossing(self, margins: Sequence[float], i: int) -> float:
        """The number of rewards between two points at which the margin is 0, on a logarithmic axis."""
        a, b = (math.log(point.rewards) for point in self.points[i : i + 2])
        return math.exp(a + (b - a) * margins[i] / (margins[i] - margins[i + 1]))

    def sentence(self, rewards: float) -> str:
        """Say in words whether low rank is worth it for one who will have so many rewards."""
        if self.nothing_to_learn:
            return self.enough.words()
        point = self.at(rewards)
        rival, after = self.rival(point), f"after {point.rewards:,} rewards"
        low = [str(structure) for structure in self.candidates]
        ours, theirs = (max(0.0, *(self.learned(point, model) for model in models)) for models in (low, [rival]))
        if self.lead(point)[1]:
            return (
                f"**Low rank is worth it here**: {after} it has learned {_share(ours)} of what can be learned, the "
                f"best model without it {_share(theirs)} ({rival}).{self._ends()}"
            )
        beside = (
            f"{after} {rival} have learned {_share(theirs)} of what can be learned, and low rank, with {_share(ours)}, "
            "not surely more"
        )
        if rival == OVERALL:
            beside = f"{after} there is too little to learn from, and no model is surely better than the overall mean"
        if any(self.lead(other)[1] for other in self.points if other.rewards > point.rewards):
            return f"**Low rank is worth it here**, with more rewards; {beside}.{self._ends()}"
        if self.worth_it:
            return f"**Low rank is worth it only with fewer rewards**: {beside}.{self._ends()}"
        if rival == OVERALL:
            return f"**Too few to tell**: {beside}. {self._first_known(point)} {MEANWHILE}"
        if rival == EFFECTS and (needed := self._undecided(point)):
            return (
                f"**Main effects are all that is known so far**: {after} they predict better than the overall mean, "
                "but whether combinations of levels are better or worse than their levels say cannot be told. Come "
                f"back with about {rounded(needed)} rewards; until then take main effects."
            )
        if rival == EFFECTS:
            return (
                "**Main effects suffice**: combinations of levels were found neither better nor worse than their "
                f"levels say. {after.capitalize()} they have learned {_share(theirs)} of what can be learned, low rank "
                f"{_share(ours)}."
            )
        nowhere = ", and low rank is ahead after no number of rewards" if len(self.points) > 1 else ""
        return f"**Low rank gains nothing here**: {beside}{nowhere}."

    def _first_known(self, point: Scores) -> str:
        """Say how many rewards it takes from a point on until some model is surely better than the overall mean."""
        for later in self.points:
            if later.rewards > point.rewards and (known := self._known(later)):
                return f"About {rounded(later.rewards)} will do: from so many '{known[0]}' predicts surely better."
        needed = max(self.enough.needed, 2.0 * self.enough.rewards)
        return f"Come back with about {rounded(needed)}." if math.isfinite(needed) else "Come back with more."

    def _undecided(self, point: Scores) -> float:
        """Return how many rewards it takes to tell low rank from main effects; 0 if what there are tell it.

        They do if low rank surely has not learned half as much more again. Otherwise the error, which halves with four
        times the rewards, must be less than what is between the lead that was found and that half, or none.
        """
        ours = max(map(str, self.candidates), key=lambda name: point[name])
        by, error = point.ahead(ours, EFFECTS)
        low, high = self._span
        share, doubt = by / (high - low), SURE * error / (high - low)
        return 0.0 if share + doubt <= _MUCH else point.rewards * (doubt / max(_MUCH - share, share)) ** 2

    def _ends(self) -> str:
        if len(self.points) == 1:
            return ""
        least, most = self.points[0].rewards, self.points[-1].rewards
        parts = [
            (f"from about {rounded(start)} rewards" if start else f"from {least:,} rewards or fewer")
            + (f" until about {rounded(end)}" if end else f" to the end of the curve, {most:,}")
            for start, end in self.stretches()
        ]
        return f" It is ahead {', and '.join(parts)}."


def _share(share: float) -> str:
    """A share in words, none of which is said to be nothing.

    >>> _share(0.463), _share(0.003), _share(0.0)
    ('46%', 'less than 1%', '0%')
    """
    return "less than 1%" if 0.0 < share < 0.005 else f"{share:.0%}"

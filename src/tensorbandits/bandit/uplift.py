"""Uplift: how much more the bandit's own decisions earned than the baseline or the caller's rule, as in an experiment.

Which side decides is drawn with known chances, so a difference of means is what the side makes, and nothing else. Where
shares were changed, decisions of the other side are weighed by the ratio of both chances in their stratum (inverse
propensity of assignment), so that both means are of the same visitors: those of the bandit. Decisions that could not
have gone to the other side are left out: what was before, and what came after, is no experiment.

Notation: sums (strata, 3, 5) are of :mod:`~tensorbandits.bandit.comparison`; ``w`` is the weight of a stratum, ``n`` is
how many rewards a weighted mean is worth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from tensorbandits.bandit import intervals, timeline
from tensorbandits.bandit.comparison import (
    CALLER,
    DECISIONS,
    EVENTS,
    HOLDOUT,
    POLICY,
    REWARDS,
    SIDES,
    SQUARES,
    TOTAL,
    Compared,
    Floats,
)
from tensorbandits.bandit.intervals import RATES, Bounds, Looks
from tensorbandits.bandit.visitors import spread
from tensorbandits.base import html

Verdict = Literal["better", "worse", "open", "too few", "suspect", "none"]

_SHARED = 20.0  # events' worth of the variance of both sides, which the variance of each is drawn to
_SURE = 0.999  # that the sides' shares are wrong, before it is said
_STIFF = 100.0  # decisions by which shares are taken to be about right beforehand
_NOT_NEGATIVE = ("bernoulli", "binomial", "count", "revenue")


class SideMean(NamedTuple):
    """What a side decided and earned, of decisions that are settled: their number, rewards, and mean with bounds."""

    decisions: int
    rewards: int
    mean: float
    low: float
    high: float


class SampleRatio(NamedTuple):
    """The share of decisions that the other side has, beside what was set; ``fits`` is wrong where chance cannot be.

    The test is valid at every look: it warns in at most one of a thousand bandits whose shares are right.
    """

    seen: float
    expected: float
    evidence: float  # how many times likelier the shares are under another chance
    fits: bool


@dataclass(frozen=True, repr=False)
class Uplift:
    """How much more a decision of the bandit earns than one of the other side, with its interval.

    Parameters
    ----------
    over : whom it is compared with: ``"holdout"``, ``"caller"`` (the caller's own rule), or ``None`` for nobody.
    verdict : ``"better"``, ``"worse"``, ``"open"`` while the interval has zero in it, ``"too few"`` rewards to tell,
        ``"suspect"`` where shares are not what was set, or ``"none"`` where nothing can be compared.
    mean, low, high : the difference of mean rewards per decision; NaN where it is not known.
    relative : the same relative to the other side's mean, as bounds, where that is surely above 0.
    intervals, level : ``"anytime"``, valid at every look, or ``"fixed"``, at one time that was fixed beforehand.
    policy, other : the two sides, of the decisions that are compared.
    to_come : decisions of both sides whose reward may still come: they are not in the means yet.
    unrewarded : settled decisions without any reward, which are left out of the means.
    ratio : whether both sides have their shares.
    words : all of that in a few sentences.
    """

    over: str | None
    verdict: Verdict
    mean: float
    low: float
    high: float
    relative: tuple[float, float, float] | None
    intervals: Looks
    level: float
    policy: SideMean | None
    other: SideMean | None
    to_come: int
    unrewarded: int
    ratio: SampleRatio | None
    words: str

    def __repr__(self) -> str:
        return f"Uplift({self.words})"

    def _repr_html_(self) -> str:
        sides = {"the bandit": self.policy, "your own rule" if self.over == "caller" else "the holdout": self.other}
        rows = [
            [name, side.decisions, side.rewards, html.bounded((side.mean, side.low, side.high))]
            for name, side in sides.items()
            if side is not None
        ]
        shown = html.table(["side", "decisions", "rewards", "mean reward"], rows) if rows else ""
        return html.block(f"Uplift: {self.verdict}", shown, words=[self.words])

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data that JSON can hold; what is not known is ``None``."""
        return {one.name: _plain(getattr(self, one.name)) for one in fields(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return what :meth:`to_dict` described."""
        given = {one.name: data[one.name] for one in fields(cls)}
        given |= {name: math.nan if given[name] is None else given[name] for name in ("mean", "low", "high")}
        kinds: dict[str, Any] = {"policy": SideMean, "other": SideMean, "ratio": SampleRatio}
        for name, kind in kinds.items():
            if given[name] is not None:
                given[name] = kind(**{part: math.nan if one is None else one for part, one in given[name].items()})
        if given["relative"] is not None:
            given["relative"] = tuple(math.inf if one is None else one for one in given["relative"])
        return cls(**given)


def _plain(value: Any) -> Any:
    if isinstance(value, SideMean | SampleRatio):
        return {name: _plain(one) for name, one in value._asdict().items()}
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class Weighed(NamedTuple):
    """The weighted mean of a side, its variance, what it is worth in rewards and in rewards other than 0."""

    mean: float
    variance: float
    n: float
    events: float
    residual: float  # the plain sum of squares around it
    rewards: float

    def thinned(self, spread: float) -> Weighed:
        """The same mean, worth fewer rewards, as those of one visitor go together."""
        if spread <= 1.0 or not self.rewards:
            return self
        return self._replace(variance=self.variance * spread, n=self.n / spread, events=self.events / spread)


def weighed(sums: Floats, weights: Floats, parts: Floats | None = None) -> Weighed:
    """Return the mean of a side, of sums (strata, 5), weights (strata,) and parts of known visitors."""
    counts = sums[:, REWARDS]
    whole, squares = weights @ counts, (weights**2) @ counts
    if whole <= 0:
        return Weighed(math.nan, math.nan, 0.0, 0.0, 0.0, 0.0)
    mean = weights @ sums[:, TOTAL] / whole
    residual = np.maximum(sums[:, SQUARES] - 2.0 * mean * sums[:, TOTAL] + mean**2 * counts, 0.0)
    n = float(whole**2 / squares)
    variance = (weights**2) @ residual / whole**2 * (n / (n - 1.0) if n > 1 else math.nan)
    events = sums[:, EVENTS].sum() * n / counts.sum()
    found = Weighed(float(mean), float(variance), n, float(events), float(residual.sum()), float(counts.sum()))
    return found.thinned(spread(parts, weights, found.mean, float((weights**2) @ residual)))


def _shared_variance(sides: list[Weighed]) -> float:
    """The variance of a reward whichever side it is of: around the one mean that both have if there is no uplift."""
    known = [side for side in sides if side.rewards]
    count = sum(side.rewards for side in known)
    middle = sum(side.rewards * side.mean for side in known) / count
    spread = sum(side.residual + side.rewards * (side.mean - middle) ** 2 for side in known)
    return spread / max(count - 1.0, 1.0)


def side_bounds(side: Weighed, shared: float, kind: str | None, level: float, looks: Looks) -> Bounds:
    """Return the bounds of the mean of a side; ``shared`` is the variance of a reward whichever side it is of.

    A side of few rewards that has not seen the rare large ones takes its variance to be small just when its mean is too
    low. So it is drawn to that of both sides, which counts as much as twenty events.
    """
    if kind in RATES:
        n = side.n
        if side.variance > 0:
            n = min(n, max(side.mean * (1.0 - side.mean), 0.0) / side.variance + 1.0)
        return intervals.rate(side.mean, n, level, looks)
    own = side.variance * side.n if side.n > 1 else shared
    drawn = (side.events * own + _SHARED * shared) / (side.events + _SHARED)
    error = math.sqrt(max(own, drawn) / side.n) if side.n else math.nan
    found = intervals.amount(side.mean, error, side.events, level, looks)
    return found._replace(low=np.maximum(found.low, 0.0)) if kind in _NOT_NEGATIVE else found


def mean_bounds(
    sums: Floats, kind: str | None, events: float = 1.0, level: float = 0.95, looks: Looks = "anytime"
) -> Bounds:
    """Return the bounds of means, of rows (n, 4) of decisions, rewards, their sum and that of their squares.

    ``events`` is the share of rewards that are not 0. Of rewards that are never below 0 no bound is.

    >>> low = mean_bounds(np.array([[40.0, 40.0, 9.0, 60.0]]), "revenue", 0.1).low.item()
    >>> low, mean_bounds(np.array([[40.0, 40.0, 9.0, 60.0]]), "gaussian", 0.1).low.item() < 0
    (0.0, True)
    """
    found, count = timeline.means(sums), sums[:, 1]
    if kind in RATES:
        return intervals.rate(found["mean"], count, level, looks)
    bounds = intervals.amount(found["mean"], found["error"], count * events, level, looks)
    return bounds._replace(low=np.maximum(bounds.low, 0.0)) if kind in _NOT_NEGATIVE else bounds


def between(
    policy: Floats,
    other: Floats,
    weights: Floats,
    kind: str | None,
    level: float,
    looks: Looks,
    spreads: tuple[float, float] = (1.0, 1.0),
) -> tuple[Bounds, Bounds, Bounds]:
    """Return the bounds of the policy's mean, of the other side's, and of the difference, of sums (n, 5) each.

    ``weights`` (n,) are the policy's chances over the other side's; ``spreads`` are those of :func:`spreads`.
    """
    sides = [weighed(policy, np.ones(len(policy))), weighed(other, weights)]
    sides = [side.thinned(wider) for side, wider in zip(sides, spreads, strict=True)]
    shared = _shared_variance(sides) if any(one.rewards for one in sides) else math.nan
    one, two = (side_bounds(side, shared, kind, level, looks) for side in sides)
    return one, two, intervals.difference(one, two)


def means(compared: Compared, kind: str | None, level: float = 0.95, looks: Looks = "anytime") -> dict[str, SideMean]:
    """Return what each side decided and earned at all, whoever could have decided; of those that decided anything."""
    whole = compared.sums.sum(axis=0) if len(compared.sums) else np.zeros((3, 5))
    parts = None if compared.parts is None else compared.parts.sum(axis=0, keepdims=True)
    found = [weighed(whole[side][None], np.ones(1), None if parts is None else parts[:, side]) for side in range(3)]
    shared = _shared_variance(found) if any(one.rewards for one in found) else math.nan
    return {
        name: _side(whole[at], side_bounds(found[at], shared, kind, level, looks))
        for at, name in enumerate(SIDES)
        if whole[at, DECISIONS] > 0
    }


def _side(sums: Floats, bounds: Bounds) -> SideMean:
    numbers = (one.item() for one in bounds)
    return SideMean(round(float(sums[DECISIONS])), round(float(sums[REWARDS])), *numbers)


def spreads(compared: Compared, other: int) -> tuple[float, float]:
    """Return by how much the variances of the policy's and of another side's mean are larger as visitors come back.

    A side of few visitors knows its own badly. So it is drawn up to the other side's, which counts as much as twenty
    visitors.
    """
    if compared.parts is None:
        return 1.0, 1.0
    able, weights = _drawn(compared, other)
    found, worth = [], []
    for side, weight in ((POLICY, np.ones(len(weights))), (other, weights)):
        mean, residual = _around(compared.sums[able, side][:, [REWARDS, TOTAL, SQUARES]], weight)
        found.append(spread(compared.side(side, able), weight, mean, residual))
        counts = compared.sums[able, side, REWARDS]
        worth.append(float((weight @ counts) ** 2 / max((weight**2) @ counts, 1e-300)) / found[-1])
    most = max(found)
    one, two = (max(own, (n * own + _SHARED * most) / (n + _SHARED)) for own, n in zip(found, worth, strict=True))
    return one, two


def _around(sums: Floats, weights: Floats) -> tuple[float, float]:
    """The weighed mean of counts, sums and sums of squares (strata, 3), and the weighed sum of squares around it."""
    counts, totals, squares = sums.T
    mean = float(weights @ totals / (weights @ counts)) if weights @ counts > 0 else math.nan
    return mean, float((weights**2) @ np.maximum(squares - 2.0 * mean * totals + mean**2 * counts, 0.0))


def _repeats(compared: Compared, able: Any, other: int) -> float:
    """How many decisions of known visitors are worth one in a check of the shares, at least 1."""
    if compared.parts is None:
        return 1.0
    both, theirs = compared.parts[able][:, [POLICY, other]][..., 0].sum(axis=1), compared.side(other, able)
    assert theirs is not None
    counted = np.stack([both, theirs[..., 0], theirs[..., 0]], axis=-1)  # 1 for each decision of the other side
    sums = compared.sums[able][..., DECISIONS]
    whole = np.stack([sums[:, [POLICY, other]].sum(axis=1), sums[:, other], sums[:, other]], axis=-1)
    one = np.ones(len(sums))
    return spread(counted, one, *_around(whole, one), which=(0, 1, 2))


def sample_ratio(chances: Floats, decisions: Floats, other: int, repeats: float = 1.0) -> SampleRatio:
    """Return whether sides have their shares, of chances and decisions (strata, 3); valid at every look.

    The evidence is that of a Dirichlet mixture of other shares around those that were set (Lindon and Malek 2022);
    ``repeats`` decisions count as one, as sides are drawn for visitors who come back.
    """
    evidence = 0.0
    for chance, seen in zip(chances, decisions / repeats, strict=True):
        able = chance > 0
        a, x = _STIFF * chance[able], seen[able]
        evidence += float(gammaln(a.sum()) - gammaln(a.sum() + x.sum()) + (gammaln(a + x) - gammaln(a)).sum())
        evidence -= float(x @ np.log(chance[able]))
    pair = [POLICY, other]
    both = decisions[:, pair].sum()
    fair = chances[:, other] / chances[:, pair].sum(axis=1)
    expected = float((fair * decisions[:, pair].sum(axis=1)).sum() / both) if both else math.nan
    seen = float(decisions[:, other].sum() / both) if both else math.nan
    return SampleRatio(seen, expected, math.exp(min(evidence, 700.0)), evidence < -math.log(1.0 - _SURE))


def uplift(
    compared: Compared,
    kind: str | None,
    *,
    over: str | None = None,
    level: float = 0.95,
    looks: Looks = "anytime",
) -> Uplift:
    """Return how much more decisions of the policy earn than those of another side that the same draws could make.

    ``over`` names it; by default it is the caller's rule if the last draws could give it decisions, else the holdout.
    """
    other = _other(compared, over)
    if other is None:
        return _nothing(over, level, looks)
    able, weights = _drawn(compared, other)
    chances, sums, waiting = compared.chances[able], compared.sums[able], compared.waiting[able]
    ratio = sample_ratio(chances, sums[..., DECISIONS] + waiting, other, _repeats(compared, able, other))
    one, two, gap = between(sums[:, POLICY], sums[:, other], weights, kind, level, looks, spreads(compared, other))
    relative = intervals.ratio(one, two)
    counted = sums[:, [POLICY, other]]
    unrewarded = round(float((counted[..., DECISIONS] - counted[..., REWARDS]).sum()))
    lopsided = unrewarded > 0 and _lopsided(compared, able, weights, other)
    mean, low, high = (part.item() for part in gap)
    made = Uplift(
        over=SIDES[other],
        verdict=_verdict(mean, low, high, fits=ratio.fits and not lopsided),
        mean=mean,
        low=low,
        high=high,
        relative=None if relative is None else (relative.mean.item(), relative.low.item(), relative.high.item()),
        intervals=looks,
        level=level,
        policy=_side(sums[:, POLICY].sum(axis=0), one),
        other=_side(sums[:, other].sum(axis=0), two),
        to_come=round(float(waiting[:, [POLICY, other]].sum())),
        unrewarded=unrewarded,
        ratio=ratio,
        words="",
    )
    return _said(made, kind, lopsided=lopsided)


def _drawn(compared: Compared, other: int) -> tuple[NDArray[np.bool_], Floats]:
    """Which strata were drawn between the policy and another side, (strata,), and the other side's weights there."""
    able = (compared.chances[:, POLICY] > 0) & (compared.chances[:, other] > 0)
    return able, compared.chances[able, POLICY] / compared.chances[able, other]


def _other(compared: Compared, over: str | None) -> int | None:
    """The side to compare with, if the policy can be compared with it."""
    some = (compared.sums[..., DECISIONS] + compared.waiting).sum(axis=1) > 0
    able = {
        side: some & (compared.chances[:, POLICY] > 0) & (compared.chances[:, side] > 0) for side in (CALLER, HOLDOUT)
    }
    if over is not None:
        if over not in SIDES[1:]:
            raise ValueError(f"over is {over!r}; give 'holdout', or 'caller' for a caller's own rule")
        wanted = SIDES.index(over)
        return wanted if able[wanted].any() else None
    last = {side: int(np.flatnonzero(found)[-1]) for side, found in able.items() if found.any()}
    return max(last, key=lambda side: (last[side], side)) if last else None


def _lopsided(compared: Compared, able: Any, weights: Floats, other: int) -> bool:
    """Whether rewards are missing more often on one side, beyond chance: then means are of different visitors."""
    told, sums = {}, compared.sums[able]
    for side, weight in ((POLICY, np.ones(len(weights))), (other, weights)):
        some = sums[:, side][:, [DECISIONS, REWARDS, REWARDS]]
        wider = spread(compared.side(side, able), weight, *_around(some, weight), which=(0, 1, 1))
        decided = weight @ sums[:, side, DECISIONS]
        if decided <= 0:
            return False
        share = min(float(weight @ sums[:, side, REWARDS] / decided), 1.0)
        n = decided**2 / ((weight**2) @ sums[:, side, DECISIONS]) / wider
        told[side] = intervals.rate(share, n, _SURE, "anytime")
    found = intervals.difference(told[POLICY], told[other])
    return bool(found.low > 0 or found.high < 0)


def _verdict(mean: float, low: float, high: float, *, fits: bool) -> Verdict:
    if not fits:
        return "suspect"
    if not (math.isfinite(mean) and math.isfinite(low) and math.isfinite(high)):
        return "too few"
    return "better" if low > 0 else "worse" if high < 0 else "open"


def _nothing(over: str | None, level: float, looks: Looks) -> Uplift:
    words = (
        "nothing to compare with: no decision was drawn between the bandit and "
        + ("a caller's own rule" if over == "caller" else "a holdout" if over == "holdout" else "anybody else")
        + "; keep a holdout, such as holdout=0.05, or start gradually beside your own rule, with rollout=0.05"
    )
    unknown = math.nan
    return Uplift(over, "none", unknown, unknown, unknown, None, looks, level, None, None, 0, 0, None, words)


_OTHER = {"holdout": "the holdout", "caller": "your own rule"}


def _said(found: Uplift, kind: str | None, *, lopsided: bool) -> Uplift:
    """Add the words to an uplift."""
    assert found.ratio is not None
    assert found.other is not None
    assert found.policy is not None
    other, ratio, parts = _OTHER[str(found.over)], found.ratio, []
    if not ratio.fits:
        parts.append(
            f"{other} has {100 * ratio.seen:.3g} % of the decisions, where {100 * ratio.expected:.3g} % was set, and "
            "chance does not explain it: find out why before you believe any difference. Are decisions of one side "
            "cancelled, or not shown, more often?"
        )
    if lopsided:
        parts.append(
            "rewards are missing more often on one side than on the other, so that means are of different visitors; "
            "if no reward means 0, say so with a window and a default"
        )
    parts.append(_numbers(found, kind, other))
    if found.to_come:
        parts.append(f"{found.to_come:,} decisions are too young to count: their rewards may still come")
    if found.unrewarded:
        parts.append(f"{found.unrewarded:,} decisions got no reward, and are left out")
    return replace(found, words=". ".join(part[0].upper() + part[1:] for part in parts))


def _numbers(found: Uplift, kind: str | None, other: str) -> str:
    """The difference in words."""
    assert found.other is not None
    assert found.policy is not None
    over = f"{found.policy.rewards:,} rewards of the bandit and {found.other.rewards:,} of {other}"
    if found.verdict == "too few" or not math.isfinite(found.low):
        return f"too few rewards to tell: {over}"
    shown = _points if kind in RATES else _number
    words = {"better": f"better than {other}: ", "worse": f"worse than {other}: ", "suspect": "not to be trusted: "}
    valid = "valid at every look" if found.intervals == "anytime" else "valid at one time that was fixed beforehand"
    return (
        f"{words.get(found.verdict, 'not decided yet: ')}{shown(found.mean)} per decision "
        f"({100 * found.level:g} %: {shown(found.low)} to {shown(found.high)}, {valid}), from {over}"
    )


def _points(value: float) -> str:
    return f"{100 * value:+.3g} pp"


def _number(value: float) -> str:
    return f"{value:+.3g}"

"""What a policy believes, in numbers that a person can read: main effects, which modes interact, levels that are alike.

All of it is worked out for posterior draws of the tensor, one by one, so that everything has an interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import NamedTuple

import numpy as np

from tensorbandits.base.checks import Cell
from tensorbandits.base.pieces import gently
from tensorbandits.model.anova import Part, Tensor, coordinates, distances, part, total_variance, variance
from tensorbandits.model.guided import Guided
from tensorbandits.model.revenue_draw import RevenueDraw, weighted_sum
from tensorbandits.tensor.tucker import Floats, Tucker

_ALIKE = 0.25  # of what two levels of a mode differ by at random: levels that differ by less are alike
_SURE = 0.9  # share of draws in which they are
_FACTORS = 2  # coordinates of levels, as many as a figure shows
_MOST_CELLS = 20_000  # of amounts that may be negative: all mean rewards are written out
_NONE: Mapping[int, Guided] = {}
_MOST_LEVELS = 300  # of a mode in which pairs of levels are compared


def _mean(draws: Floats) -> Floats:
    return np.asarray(draws.mean(axis=0))


class FeatureShares(NamedTuple):
    """What the features of the levels of a mode say of them, with bounds.

    ``share`` (3,) is how much of what levels differ by they explain, ``parts`` (features, 3) what each of them does;
    ``said`` and ``own`` (p, 3) are the two parts of the main effects: what features say, and what is a level's own.
    """

    share: Floats
    parts: Floats
    said: Floats
    own: Floats


@dataclass(frozen=True)
class Explanation:
    """Main effects, interactions and levels that are alike, as a policy believes them.

    Numbers come as believed mean, lower and upper bound. Effects are on the scale on which the tensor is: that of
    rewards, of log-odds for clicks, of logarithms for counts; for revenue that of log-odds and logarithms of amounts
    added up, which is that of the logarithm of mean rewards as long as conversions are rare. ``typical`` are mean
    rewards of a level whose partners have no effects.

    Attributes
    ----------
    mean : of the tensor over all cells, (3,).
    effects, typical : for each mode (p_j, 3).
    shares : by modes, of the variance between cells: what single modes, two together, and all larger sets together
        have beyond smaller sets. The last has the key ``()``; shares add up to 1.
    own : for each mode (p_j,), how much of what is believed of a level comes from its own rewards; the rest is borrowed
        from the other levels. ``None`` for a policy that cannot tell.
    alike : for each mode the groups of levels that are interchangeable, as far as is known.
    factors : for each mode (p_j, 2), coordinates of its levels in the mean tensor, the more telling first: levels that
        are near each other behave alike.
    strengths : for each mode (2,), the share that each coordinate has of what levels differ by.
    rate, amount : of revenue, the same of the conversion rate, and of the amount of those who convert.
    features : what the features of levels say, by mode; of revenue only rate and amount have it.
    """

    mean: Floats
    effects: tuple[Floats, ...]
    typical: tuple[Floats, ...]
    shares: dict[Part, Floats]
    own: tuple[Floats, ...] | None
    alike: tuple[tuple[Cell, ...], ...]
    factors: tuple[Floats, ...]
    strengths: tuple[Floats, ...]
    rate: Explanation | None = None
    amount: Explanation | None = None
    features: dict[int, FeatureShares] = field(default_factory=dict)


def explain(
    draws: Sequence[Tensor],
    level: float,
    rewards: Callable[[Floats], Floats],
    own: Sequence[Floats] | None = None,
    typical: Callable[[Floats], Floats] = _mean,
    features: Mapping[int, Guided] = _NONE,
) -> Explanation:
    """Return what draws of a tensor have in common; ``features`` is what those of levels say in each of them.

    ``rewards`` maps its values to mean rewards, of which ``typical`` says what is believed, given draws of them.

    >>> from tensorbandits import Tucker
    >>> tensor = Tucker(np.ones((1, 1)), (np.array([[1.0], [1.0], [4.0]]), np.array([[2.0], [0.0]])))
    >>> found = explain([tensor] * 20, 0.9, lambda values: values)
    >>> found.mean.tolist(), found.effects[0][:, 0].tolist(), found.alike
    ([2.0, 2.0, 2.0], [-1.0, -1.0, 2.0], (((0, 1),), ()))
    >>> {modes: round(float(share[0]), 2) for modes, share in found.shares.items()}
    {(0,): 0.25, (1,): 0.5, (0, 1): 0.25, (): 0.0}
    """
    modes = range(len(draws[0].shape))
    found = [coordinates(draws, mode, _FACTORS) for mode in modes]
    means = np.array([part(draw, ()).item() for draw in gently(draws, every=8)])
    effects = [np.array([part(draw, (mode,)) for draw in gently(draws, every=8)]) for mode in modes]
    return Explanation(
        mean=_summary(means, level),
        effects=tuple(_summary(effect, level) for effect in effects),
        typical=tuple(_summary(rewards(means[:, None] + effect), level, typical) for effect in effects),
        shares=shares_of(draws, level),
        own=None if own is None else tuple(own),
        alike=tuple(_alike(draws, mode) for mode in modes),
        factors=tuple(rows for rows, _ in found),
        strengths=tuple(shares for _, shares in found),
        features={mode: feature_shares(one, level) for mode, one in features.items()},
    )


def shares_of(draws: Sequence[Tensor], level: float) -> dict[Part, Floats]:
    """Return the shares that single modes, pairs of them, and all larger sets together have of the variance of cells.

    >>> from tensorbandits import Tucker
    >>> tensor = Tucker(np.ones((1, 1)), (np.array([[1.0], [1.0], [4.0]]), np.array([[2.0], [0.0]])))
    >>> {modes: round(float(share[0]), 2) for modes, share in shares_of([tensor] * 20, 0.9).items()}
    {(0,): 0.25, (1,): 0.5, (0, 1): 0.25, (): 0.0}
    """
    modes = range(len(draws[0].shape))
    parts: list[Part] = [(mode,) for mode in modes] + list(combinations(modes, 2))
    variances = np.array(
        [[variance(draw, modes) for modes in parts] + [total_variance(draw)] for draw in gently(draws)]
    )
    total = np.maximum(variances[:, -1:], 1e-300)
    shares = np.hstack([variances[:, :-1], np.maximum(total - variances[:, :-1].sum(axis=1, keepdims=True), 0.0)])
    return dict(zip([*parts, ()], _summary(shares / total, level), strict=True))


def feature_shares(found: Guided, level: float) -> FeatureShares:
    """Return what draws of what features say have in common."""
    return FeatureShares(*(_summary(one, level) for one in found))


def acting_together(draws: Sequence[Tensor], level: float) -> Floats:
    """Return the share of the variance between cells that modes have together beyond single ones, (3,).

    >>> from tensorbandits import Tucker
    >>> tensor = Tucker(np.ones((1, 1)), (np.array([[1.0], [1.0], [4.0]]), np.array([[2.0], [0.0]])))
    >>> acting_together([tensor] * 20, 0.9).round(2).tolist()
    [0.25, 0.25, 0.25]
    """
    found = []
    for draw in gently(draws):
        alone = sum(variance(draw, (mode,)) for mode in range(len(draw.shape)))
        found.append(1.0 - min(alone / max(total_variance(draw), 1e-300), 1.0))
    return _summary(np.array(found), level)


def explain_revenue(
    draws: Sequence[RevenueDraw],
    level: float,
    own: Sequence[Floats] | None = None,
    features: tuple[Mapping[int, Guided], Mapping[int, Guided]] = (_NONE, _NONE),
) -> Explanation:
    """Return what draws of revenue have in common, of mean rewards, and of rates and amounts.

    ``own`` has shares of rates for each mode, then of amounts; of mean rewards it is the smaller one. Of amounts that
    may be negative effects are on the scale of rewards, which are written out: at most 20,000 cells.
    """
    kind, modes = draws[0].kind, range(len(draws[0].shape))
    noise = np.array([draw.variance for draw in draws])
    tensors = [draw.tensor() for draw in draws]
    owns = (None, None) if own is None else (own[: len(modes)], own[len(modes) :])
    lowest = None if own is None else [np.minimum(*pair) for pair in zip(owns[0] or (), owns[1] or (), strict=True)]

    def amounts(values: Floats) -> Floats:
        return values if kind.signed else np.exp(np.minimum(values + noise[:, None] / 2.0, 230.0))

    rate = explain([one for one, _ in tensors], level, kind.rates.rewards, owns[0], features=features[0])
    amount = explain([two for _, two in tensors], level, amounts, owns[1], kind.typical, features[1])
    if kind.signed:
        if math.prod(draws[0].shape) > _MOST_CELLS:
            raise ValueError(
                f"the space has {math.prod(draws[0].shape):,} cells; with amounts that may be negative all mean "
                f"rewards are written out to be explained, at most {_MOST_CELLS:,}"
            )
        whole = [_written_out(kind.means(one.full(), two.full(), 0.0)) for one, two in tensors]
        found = explain(whole, level, kind.rewards, lowest)
    else:
        whole = []
        for draw in draws:
            both = weighted_sum(draw.rates, 1.0, draw.amounts)
            both.offset += draw.variance / 2.0
            whole.append(both.tensor())
        found = explain(whole, level, np.exp, lowest, kind.typical)
    typical = []
    for mode in modes:
        ours = [np.array([part(pair[k], ()).item() + part(pair[k], (mode,)) for pair in tensors]) for k in (0, 1)]
        means = kind.means(ours[0], ours[1] + (0.0 if kind.signed else noise[:, None] / 2.0), 0.0)
        typical.append(_summary(means, level, kind.typical))
    return replace(found, typical=tuple(typical), rate=rate, amount=amount)


def _written_out(values: Floats) -> Tucker:
    """Return an array as a tensor of full rank."""
    return Tucker.trusted(values, tuple(np.eye(size) for size in values.shape))


def _summary(values: Floats, level: float, typical: Callable[[Floats], Floats] = _mean) -> Floats:
    """Return what is believed and bounds over the draws, the first axis, as a new last axis.

    A few draws that are far from all others can take a mean beyond their quantiles: bounds then reach to the mean.
    """
    low, high = np.quantile(values, [0.5 - level / 2, 0.5 + level / 2], axis=0, method="weibull")
    middle = typical(values)
    return np.stack([middle, np.minimum(low, middle), np.maximum(high, middle)], axis=-1)


def _alike(draws: Sequence[Tensor], mode: int) -> tuple[Cell, ...]:
    """Return groups of levels of which any two are alike in nearly all draws, larger groups first."""
    size = draws[0].shape[mode]
    if not 1 < size <= _MOST_LEVELS:
        return ()
    counts = np.zeros((size, size))
    for draw in gently(draws, every=4):
        apart = distances(draw, mode)
        counts += apart <= _ALIKE * np.sqrt((apart**2).sum() / (size * (size - 1)))
    close = counts >= _SURE * len(draws)
    groups: list[list[int]] = []
    for level in range(size):
        home = next((group for group in groups if close[level, group].all()), None)
        if home is None:
            groups.append([level])
        else:
            home.append(level)
    return tuple(sorted((tuple(group) for group in groups if len(group) > 1), key=len, reverse=True))

"""Main effects of the levels of each mode, fitted to a ledger: the model without any interaction.

On the scale of a *kind* of reward (the rewards themselves, the logit of a rate, the logarithm of a count)::

    eta[cell] = offset + sum_j b_j[level of mode j],        b_j[i] ~ N(0, 1 / precision_j)

The precisions are learned, so that a mode that does not matter gets none. The fit is variational: the levels of a mode
are independent given the other modes, so that each step is a weighted mean, and the whole costs what the cells cost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from tensorbandits.amounts import RevenueLedger
from tensorbandits.ledger import Ledger
from tensorbandits.model.likelihood import noise_level
from tensorbandits.tensor.tucker import Floats, Ints

Kind = Literal["gaussian", "bernoulli", "count"]

_STEPS = 30  # of Newton's method
_SWEEPS = 10  # over the modes, within a step
_CLOSE = 1e-4  # changes below it, in units of what effects may be, end the fit
_FURTHEST = 30.0  # from 0: exp of it is still a number
_POISSON = 1e8  # a size of the negative binomial at which it is Poisson's law


def check_kind(kind: str) -> Kind:
    """Return a kind of reward, or refuse what is none.

    >>> check_kind("bernoulli")
    'bernoulli'
    """
    if kind not in get_args(Kind):
        raise ValueError(f"the kind of reward is {kind!r}; allowed are {', '.join(map(repr, get_args(Kind)))}")
    return kind  # type: ignore[return-value]


def kind_of_reward(reward: str, ledger: Ledger) -> tuple[Kind, Ledger]:
    """Return the kind of reward that a policy was told, and the sums by which its structure is judged.

    Clicks out of trials are zeros and ones; of revenue it is conversions that are looked at, as there are far fewer
    amounts, which vary the more.

    >>> kind_of_reward("binomial", Ledger((2, 2)))[0]
    'bernoulli'
    """
    if isinstance(ledger, RevenueLedger):
        return "bernoulli", ledger.conversions
    return check_kind("bernoulli" if reward == "binomial" else reward), ledger


def kind_of(ledger: Ledger) -> Kind:
    """Return the kind of reward that a ledger's sums show: 0 or 1, counts that vary as counts do, or plain numbers.

    >>> ledger = Ledger((2, 2)); ledger.add([(0, 0), (1, 1)], [1.0, 0.0])
    >>> kind_of(ledger)
    'bernoulli'
    """
    N, Y, Q = ledger.counts, ledger.totals, ledger.squares
    if not len(ledger) or (Y < 0).any():
        return "gaussian"
    if np.array_equal(Q, Y) and (Y <= N).all():
        return "bernoulli"
    whole = bool((np.floor(Y) == Y).all() and (np.floor(Q) == Q).all() and ((Q - Y) % 2 == 0).all())
    within, freedom = ledger.repeats()
    return "count" if whole and freedom and within / freedom >= ledger.mean / 2 else "gaussian"


@dataclass(frozen=True, eq=False)
class Family:
    """How a kind of reward is distributed about its mean, with what is common to all cells fixed.

    ``variance`` is that of single rewards about their mean (gaussian), ``size`` that of the negative binomial (count).
    """

    kind: Kind
    variance: float = 1.0
    size: float = _POISSON

    @classmethod
    def of(cls, ledger: Ledger, kind: Kind) -> Family:
        """Return the family with the spread that a ledger's repeated rewards have."""
        if kind == "count":
            within, freedom = ledger.repeats()
            excess = (within / freedom if freedom else ledger.variance) - ledger.mean
            square = float(ledger.counts @ ledger.means**2) / ledger.rounds
            return cls(kind, size=min(square / excess, _POISSON) if excess > 0 else _POISSON)
        level = noise_level(ledger)
        return cls(kind, variance=level**2 if level > 0 else 1.0)

    def mean(self, eta: Floats) -> Floats:
        """Return the mean rewards at values on the scale of the effects."""
        if self.kind == "gaussian":
            return eta
        bounded = np.clip(eta, -_FURTHEST, _FURTHEST)
        return np.asarray(1.0 / (1.0 + np.exp(-bounded)) if self.kind == "bernoulli" else np.exp(bounded))

    def weight(self, mean: Floats) -> tuple[Floats, Floats]:
        """Return the information of one reward on its value, and by how much the mean rises with it."""
        if self.kind == "gaussian":
            return np.full_like(mean, 1.0 / self.variance), np.ones_like(mean)
        slope = mean * (1.0 - mean) if self.kind == "bernoulli" else mean
        return (slope, slope) if self.kind == "bernoulli" else (slope / (1.0 + mean / self.size), slope)

    def start(self, mean: float) -> float:
        """Return the value that belongs to an overall mean."""
        if self.kind == "gaussian":
            return mean
        if self.kind == "count":
            return math.log(max(mean, math.exp(-_FURTHEST)))
        inside = min(max(mean, 1e-12), 1 - 1e-12)
        return math.log(inside / (1.0 - inside))

    def log_scores(self, ledger: Ledger, mean: Floats) -> Floats:
        """Return, by cell (n,), the logarithm of the density of its rewards given their means (n,).

        Of counts it leaves out what does not depend on the mean, which is the same for all models.
        """
        N, Y = ledger.counts, ledger.totals
        if self.kind == "gaussian":
            squares = ledger.within + N * (ledger.means - mean) ** 2
            return -0.5 * (N * math.log(2 * math.pi * self.variance) + squares / self.variance)
        if self.kind == "bernoulli":
            inside = np.clip(mean, 1e-12, 1 - 1e-12)
            return np.asarray(Y * np.log(inside) + (N - Y) * np.log1p(-inside))
        positive = np.maximum(mean, 1e-12)
        share = np.log1p(positive / self.size)
        return np.asarray(Y * (np.log(positive) - share) - N * self.size * share)


@dataclass(frozen=True, eq=False)
class Effects:
    """A fit: an offset and an effect of each level of each mode, on the scale of a family."""

    family: Family
    offset: float
    effects: tuple[Floats, ...]

    def at(self, cells: Ints) -> Floats:
        """Return the mean rewards of cells (n, d), shape (n,)."""
        eta = np.full(len(cells), self.offset)
        for j, b in enumerate(self.effects):
            eta += b[cells[:, j]]
        return self.family.mean(eta)

    def full(self) -> Floats:
        """Return the mean rewards of all cells."""
        eta = np.full(tuple(map(len, self.effects)), self.offset)
        for j, b in enumerate(self.effects):
            eta += b.reshape([-1 if k == j else 1 for k in range(eta.ndim)])
        return self.family.mean(eta)


def main_effects(ledger: Ledger, kind: Kind = "gaussian", family: Family | None = None) -> Effects:
    """Fit main effects to a ledger, which must have a reward; their sizes are learned mode by mode.

    >>> ledger = Ledger((2, 3)); ledger.add([(0, 0), (1, 1), (0, 2)] * 9, [1.0, 3.0, 1.0] * 9)
    >>> fit = main_effects(ledger)
    >>> bool(fit.effects[0][1] > fit.effects[0][0]), fit.full().shape
    (True, (2, 3))
    """
    if not len(ledger):
        raise ValueError("the ledger is empty; main effects need at least one reward")
    family = family or Family.of(ledger, check_kind(kind))
    offset, effects = family.start(ledger.mean), [np.zeros(p) for p in ledger.shape]
    fit = _Fit(ledger, family, [1.0 / _scale(ledger, family) ** 2] * len(effects))
    value = -math.inf
    for _ in range(_STEPS):
        before, precisions = (offset, [b.copy() for b in effects]), list(fit.precisions)
        offset, effects = fit.step(*before)
        after, share = fit.objective(offset, effects, precisions), 1.0
        while after < value and share > 1e-3:  # too far: go back half of the way
            share /= 2
            offset = (before[0] + offset) / 2
            effects = [(old + new) / 2 for old, new in zip(before[1], effects, strict=True)]
            after = fit.objective(offset, effects, precisions)
        value = fit.objective(offset, effects, fit.precisions)
        moved = max(float(np.abs(new - old).max()) for new, old in zip(effects, before[1], strict=True))
        if moved < _CLOSE * _scale(ledger, family):
            break
    return Effects(family, offset, tuple(effects))


def _scale(ledger: Ledger, family: Family) -> float:
    """How large effects may be before anything is known: as rewards vary, or 1 for odds and ratios."""
    return (math.sqrt(ledger.variance) or 1.0) if family.kind == "gaussian" else 1.0


class _Fit:
    """What the steps share: the ledger, its family, and the present precision of the effects of each mode."""

    def __init__(self, ledger: Ledger, family: Family, precisions: list[float]) -> None:
        self.ledger, self.family, self.precisions = ledger, family, precisions
        self.columns = [np.ascontiguousarray(column) for column in ledger.cells.T]
        self.least = 1e-8 * _scale(ledger, family) ** 2  # variance of a mode's effects; with none it would stay at 0

    def step(self, offset: float, effects: list[Floats]) -> tuple[float, list[Floats]]:
        """Return the effects fitted to the rewards as they look from the present ones, weighted by information."""
        ledger, shape = self.ledger, self.ledger.shape
        eta = offset + sum(b[c] for b, c in zip(effects, self.columns, strict=True))
        mean = self.family.mean(eta)
        weight, slope = self.family.weight(mean)
        W = np.maximum(ledger.counts * weight, 1e-300)
        rest = (ledger.means - mean) / slope  # what is left of the target, as effects move
        sums = [np.bincount(c, W, minlength=p) for c, p in zip(self.columns, shape, strict=True)]
        total, effects = W.sum(), [b.copy() for b in effects]
        for _ in range(_SWEEPS):
            shift = float(W @ rest / total)
            offset, rest, moved = offset + shift, rest - shift, 0.0
            for j, (column, p) in enumerate(zip(self.columns, shape, strict=True)):
                posterior = sums[j] + self.precisions[j]
                new = (np.bincount(column, W * rest, minlength=p) + sums[j] * effects[j]) / posterior
                rest -= (new - effects[j])[column]
                moved, effects[j] = max(moved, float(np.abs(new - effects[j]).max())), new
                square = float(new @ new + (1.0 / posterior).sum()) / p
                self.precisions[j] = 1.0 / max(square, self.least)
            if moved < _CLOSE * _scale(ledger, self.family):
                break
        return offset, effects

    def objective(self, offset: float, effects: list[Floats], precisions: list[float]) -> float:
        """Return the rewards' log density with the effects' own, which a step must not lower."""
        mean = self.family.mean(offset + sum(b[c] for b, c in zip(effects, self.columns, strict=True)))
        prior = sum(precision * float(b @ b) for precision, b in zip(precisions, effects, strict=True))
        return float(self.family.log_scores(self.ledger, mean).sum()) - prior / 2

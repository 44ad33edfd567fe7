"""A draw of revenue: one of rates and one of amounts, and the search for the cell of the largest mean reward.

Where the cells that agree with the context can be listed, all are. Beyond, a branch and bound over the modes: with
``s`` the slope of the logarithm of the rate at some ``x0``, which is concave in the log-odds::

    log p(x) + m <= log p(x0) + s (x - x0) + m

whose right side is one tensor of low rank, of which the largest entry is known exactly. Where rates are small it is
next to what it bounds, and the first cell found closes the search. Of amounts that may be negative, the product of both
maxima is the bound. A search that is not closed after so many bounds ends with the best cell so far, and its bound.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
from scipy.special import expit, log_expit

from tensorbandits.base.checks import Cell
from tensorbandits.model.residual import Deviating, Trying
from tensorbandits.model.revenue import Revenue
from tensorbandits.model.sweep import Model
from tensorbandits.tensor.allowed import Allowed, NothingAllowedError
from tensorbandits.tensor.packed import Packed, PackedModel, Remembering
from tensorbandits.tensor.pairs import Found, Pairs
from tensorbandits.tensor.tucker import Floats, Ints

LISTED = 10**6  # arms that are looked at one by one
_LEAF = 10**5  # arms of a part of the search that are
_BOUNDS = 400  # parts of which a bound is worked out, before a search ends
_TANGENTS = 3  # of the rate's logarithm, tried for a bound
_CORE = 4096  # entries of the core of both tensors together; of more, the product of both maxima is the bound
_CLOSED = 1e-9  # a bound that is no more above the best cell is reached
_KEPT = 50_000  # values of listed arms that a draw keeps


class RevenueDraw(Packed):
    """Rates and amounts of all cells: two models of log-odds and of sizes of amounts, and the variance of the latter.

    >>> flat = Model((2, 3), (1, 1), np.ones(5), np.zeros(1), offset=0.0)
    >>> sizes = Model((2, 3), (1, 1), np.array([1.0, 2.0, 1.0, 3.0, 2.0]), np.ones(1))
    >>> draw = RevenueDraw(Revenue("revenue"), flat, sizes, 0.0)
    >>> draw.best(np.array([-1, -1])), draw.at(np.array([[0, 0]])).round(3).tolist()
    ((1, 1), [1.359])
    """

    def __init__(self, kind: Revenue, rates: Packed, amounts: Packed, variance: float) -> None:
        self.kind, self.rates, self.amounts, self.variance = kind, rates, amounts, variance
        self.shape = rates.shape
        self._known: dict[bytes, Floats] = {}  # values of listed arms, by context
        self._room = _KEPT

    def copy(self) -> RevenueDraw:
        """Return an independent copy."""
        return RevenueDraw(self.kind, self.rates.copy(), self.amounts.copy(), self.variance)

    def tensor(self) -> tuple[Any, Any]:
        """Return the tensors of log-odds and of sizes of amounts."""
        return self.rates.tensor(), self.amounts.tensor()

    def widened(self, shape: Cell) -> RevenueDraw:
        """Return the same for modes that gained levels: a new level is as all others of its mode are on average."""
        return RevenueDraw(self.kind, self.rates.widened(shape), self.amounts.widened(shape), self.variance)

    def at(self, cells: Ints, order: Ints | None = None) -> Floats:
        """Return the mean rewards of valid cells (n, d), shape (n,)."""
        return self.kind.means(self.rates.at(cells), self.amounts.at(cells), self.variance)

    def _ranked(self, cells: Ints) -> Floats:
        return self.kind.ranked(self.rates.at(cells), self.amounts.at(cells), self.variance)

    def best(self, fixed: Ints, allowed: Allowed | None = None) -> Cell:
        """Return the allowed cell of largest mean reward given the levels of the modes that are not -1 in ``fixed``.

        Of more than 10^6 arms it is the best that was found; see :meth:`search`.
        """
        if isinstance(self.rates, Trying) and (cell := self.rates.first(fixed, allowed)) is not None:
            return cell
        return self._listed(fixed, allowed) if _arms(self.shape, fixed) <= LISTED else self.search(fixed, allowed).cell

    def search(self, fixed: Ints, allowed: Allowed | None = None) -> Found:
        """Return the best allowed cell that is found, with a bound on what the best can be; see the module.

        The bound is the value itself if the search was closed, which it always is for up to 10^6 arms.
        """
        if _arms(self.shape, fixed) <= LISTED:
            cell = self._listed(fixed, allowed)
            value = float(self.at(np.array([cell]))[0])
            return Found(cell, value, value)
        found = _Search(self, allowed).run(np.array(fixed))
        value, bound = (v if self.kind.signed else math.exp(min(v, 700.0)) for v in found[1:])
        return Found(found.cell, value, bound)

    def _listed(self, fixed: Ints, allowed: Allowed | None) -> Cell:
        """The best of all allowed arms."""
        levels = fixed.tolist()
        if allowed is None:
            return _cell(self.shape, levels, int(self._values(fixed).argmax()))
        allowed.check_fixed(levels)
        mask = allowed.mask(self.shape, {j: level for j, level in enumerate(levels) if level >= 0}).ravel()
        if not mask.any():
            raise allowed.nothing_left(levels)
        arms = np.flatnonzero(mask)
        return _cell(self.shape, levels, int(arms[self._values(fixed)[arms].argmax()]))

    def _values(self, fixed: Ints) -> Floats:
        """What all arms of a context are ranked by, in C order."""
        key = fixed.tobytes()
        values = self._known.get(key)
        if values is None:
            values = self._ranked(_all_arms(self.shape, fixed.tolist()))
            if len(values) <= self._room:
                self._room -= len(values)
                self._known[key] = values
        return values


class _Search:
    """A branch and bound over the modes of a draw, by what cells are ranked by."""

    def __init__(self, draw: RevenueDraw, allowed: Allowed | None) -> None:
        self.draw, self.allowed, self.kind = draw, allowed, draw.kind
        self.rates, self.amounts = _smooth(draw.rates), _smooth(draw.amounts)
        self.cell: Cell | None = None
        self.value = -math.inf

    def run(self, fixed: Ints) -> Found:
        """Return the best cell, its rank, and a bound."""
        self._try_observed(fixed)
        number, bounds = count(), 1
        parts = [(-self._bound(fixed), next(number), fixed)]  # a request that allows nothing is refused here
        while parts and self._open(-parts[0][0]) and bounds < _BOUNDS:
            _, _, part = heapq.heappop(parts)
            for smaller in self._split(part):
                try:
                    if _arms(self.draw.shape, smaller) <= _LEAF:
                        self._try(np.array([self.draw._listed(smaller, self.allowed)]))
                        continue
                    bounds += 1
                    bound = self._bound(smaller)
                except NothingAllowedError:
                    continue
                if self._open(bound):
                    heapq.heappush(parts, (-bound, next(number), smaller))
        left = -parts[0][0] if parts and self._open(-parts[0][0]) else self.value
        assert self.cell is not None
        return Found(self.cell, self.value, max(left, self.value))

    def _open(self, bound: float) -> bool:
        """Say whether a part with this bound may have a better cell."""
        return bound > self.value + _CLOSED * (1.0 + abs(self.value))

    def _try(self, cells: Ints) -> None:
        """Keep the best of some allowed cells, if it is better."""
        values = self.draw._ranked(cells)
        at = int(values.argmax())
        if values[at] > self.value or self.cell is None:
            self.cell, self.value = tuple(cells[at].tolist()), float(values[at])

    def _try_observed(self, fixed: Ints) -> None:
        """Try the cells that deviate from the tensors, which no bound knows of."""
        for model in (self.draw.rates, self.draw.amounts):
            if isinstance(model, Deviating):
                here = model.cells[((model.cells == fixed) | (fixed < 0)).all(axis=1)]
                fine = [cell for cell in here.tolist() if self.allowed is None or self.allowed.permits(tuple(cell))]
                if fine:
                    self._try(np.array(fine))

    def _split(self, fixed: Ints) -> Iterator[Ints]:
        """The parts in which the smallest mode that is left has one level."""
        free = [j for j in np.flatnonzero(fixed < 0).tolist() if self.draw.shape[j] > 1]
        mode = min(free, key=lambda j: self.draw.shape[j])
        mask = None if self.allowed is None else self.allowed.masks[mode]
        for level in range(self.draw.shape[mode]) if mask is None else np.flatnonzero(mask).tolist():
            smaller = fixed.copy()
            smaller[mode] = level
            yield smaller

    def _bound(self, fixed: Ints) -> float:
        """Return what no cell of a part is above; cells on the way are tried."""
        if self.kind.signed or not _adds_up(self.rates, self.amounts):
            return self._product(fixed)
        bound, at = math.inf, self.cell
        for _ in range(_TANGENTS):
            start = float(self.rates.at(np.array([at]))[0]) if at is not None else self.rates.offset
            slope = float(expit(-start))
            at = weighted_sum(self.rates, slope, self.amounts).best(fixed, self.allowed)
            self._try(np.array([at]))
            x, m = (float(model.at(np.array([at]))[0]) for model in (self.rates, self.amounts))
            here = float(log_expit(start)) + slope * (x - start) + m + self.draw.variance / 2.0
            closer, bound = here < bound - _CLOSED, min(bound, here)
            if not (closer and self._open(bound)):
                break
        return bound

    def _product(self, fixed: Ints) -> float:
        """Return the product of the largest rate and the largest amount; of amounts below 0, that of the least rate."""
        cells = np.array([model.best(fixed, self.allowed) for model in (self.rates, self.amounts)])
        self._try(cells)
        x, m = self.rates.at(cells[:1]), self.amounts.at(cells[1:])
        if self.kind.signed and m[0] < 0.0:
            least = self.rates.negated().best(fixed, self.allowed)
            x = self.rates.at(np.array([least]))
        return float(self.kind.ranked(x, m, self.draw.variance)[0])


def _smooth(draw: Packed) -> PackedModel:
    """Return the tensor of a draw without deviations of single cells, or cells that are to be tried."""
    while isinstance(draw, (Deviating, Trying, Remembering)):
        draw = draw.base
    assert isinstance(draw, PackedModel)
    return draw


def _adds_up(one: PackedModel, two: PackedModel) -> bool:
    """Say whether two models make one whose best cell is found soon."""
    if isinstance(one, Model) and isinstance(two, Model):
        return math.prod(r + q for r, q in zip(one.rank, two.rank, strict=True)) <= _CORE
    return isinstance(one, Pairs) and isinstance(two, Pairs)


def weighted_sum(one: Packed, weight: float, two: Packed) -> PackedModel:
    """Return ``weight`` times one tensor plus another, both of pairs or neither, as one of all columns of both."""
    first, second = one.tensor(), two.tensor()
    if isinstance(first, Pairs):
        return first.plus(second, weight)
    factors = [np.hstack(pair) for pair in zip(first.factors, second.factors, strict=True)]
    rank = tuple(U.shape[1] for U in factors)
    core = np.zeros(rank)
    core[tuple(slice(r) for r in first.rank)] = weight * first.core
    core[tuple(slice(r, None) for r in first.rank)] = second.core
    rows = np.concatenate([U.ravel() for U in factors])
    return Model(first.shape, rank, rows, core.ravel(), weight * first.offset + second.offset)


def _arms(shape: Cell, fixed: Ints) -> int:
    return math.prod(size for size, level in zip(shape, fixed.tolist(), strict=True) if level < 0)


def _cell(shape: Cell, levels: list[int], arm: int) -> Cell:
    """The cell of an arm, which counts the cells that agree with fixed levels, in C order."""
    free = [size for size, level in zip(shape, levels, strict=True) if level < 0]
    chosen = iter(np.unravel_index(arm, free) if free else ())
    return tuple(int(next(chosen)) if level < 0 else level for level in levels)


def _all_arms(shape: Cell, levels: list[int]) -> Ints:
    """All cells (n, d) that agree with fixed levels, in C order."""
    axes = [np.arange(size) if level < 0 else np.array([level]) for size, level in zip(shape, levels, strict=True)]
    return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)

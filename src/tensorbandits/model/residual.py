"""What single cells have that no low-rank tensor says: a deviation of each observed cell, of a size that is learned.

With ``x_c`` the tensor's value at a cell, its true value is ``x_c + delta_c``, where ``delta_c ~ N(0, tau^2)``. What an
observation of precision ``w / v`` (``v`` is the variance of a single reward) then says of ``x_c`` is what one of
precision ``1 / (v / w + tau^2)`` would: ``tau`` and the tensor are drawn with the deviations integrated out, and then
these given the new tensor: then its values and theirs add up to a draw of what the cell is worth. So cells that are
seen for ever do not make the tensor ever surer of what it only approximates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from tensorbandits.base.checks import Cell, check_array, check_positive
from tensorbandits.ledger import Ledger
from tensorbandits.model.likelihood import NOISE_RATE, NOISE_SHAPE, Likelihood, Observations, Units
from tensorbandits.tensor.allowed import Allowed
from tensorbandits.tensor.packed import Packed
from tensorbandits.tensor.tucker import Floats, Ints

_SMALL = 0.1  # of the scale: the prior's median of tau
_SMALLEST = 1e-6  # of the scale: tau
_USUAL = 0.3  # of the scale: deviations that are looked for
_ALL = 1e100  # information in their units that is more than enough
_NUMBERED = 2**62  # cells that can be numbered
_STEPS = 2  # of tau, a sweep
_STEP = 0.5  # its length in log tau^2


class Deviating(Packed):
    """A tensor, ``base``, whose observed ``cells`` (n, d) have values of their own, ``seen`` (n,)."""

    def __init__(self, base: Packed, cells: Ints, seen: Floats) -> None:
        self.base, self.shape, self.cells, self.seen = base, base.shape, cells, seen

    def copy(self) -> Packed:
        """Return the same: nobody changes it."""
        return self

    def tensor(self) -> Any:
        """Return the tensor without the deviations."""
        return self.base.tensor()

    def widened(self, shape: Cell) -> Packed:
        """Return the same for modes that gained levels, none of which was observed."""
        return Deviating(self.base.widened(shape), self.cells, self.seen)

    def at(self, cells: Ints, order: Ints | None = None) -> Floats:
        """Return the values at valid cells (n, d), shape (n,)."""
        values = self.base.at(cells, order)
        if len(self.cells) and math.prod(self.shape) < _NUMBERED:
            mine, theirs = (np.ravel_multi_index(tuple(some.T), self.shape) for some in (self.cells, cells))
            order = np.argsort(mine)
            at = order[np.minimum(np.searchsorted(mine, theirs, sorter=order), len(mine) - 1)]
            return np.where(mine[at] == theirs, self.seen[at], values)
        own = {tuple(cell): value for cell, value in zip(self.cells.tolist(), self.seen.tolist(), strict=True)}
        return np.array([own.get(tuple(cell), value) for cell, value in zip(cells.tolist(), values, strict=True)])

    def best(self, fixed: Ints, allowed: Allowed | None = None) -> Cell:
        """Return the allowed cell of largest value: the best observed one, or the tensor's best of the others.

        Observed cells that the tensor overrates are in the way of a search for the latter, and are forbidden in it.
        """
        here = np.flatnonzero(((self.cells == fixed) | (fixed < 0)).all(axis=1))
        cell, own, value = self.base.best(fixed, allowed), None, -math.inf
        for k in here[np.argsort(-self.seen[here], kind="stable")]:
            own, value = tuple(self.cells[k].tolist()), float(self.seen[k])
            if allowed is None or allowed.permits(own):
                break
        else:
            return cell
        if self.base.at(np.array([cell]))[0] <= value:
            return own
        if not (self.cells[here] == cell).all(axis=1).any():
            return cell
        overrated = self.cells[here[self.base.at(self.cells[here]) > value]]
        try:
            others = Allowed.of(Allowed({}, (dict(enumerate(row)) for row in overrated.tolist())), self.shape, allowed)
            cell = self.base.best(fixed, others)
        except ValueError:  # no other cell is left
            return own
        return cell if self.base.at(np.array([cell]))[0] > value else own


class Trying(Packed):
    """A tensor, ``base``, of which some cells are to be tried first: ``few`` (m, d), the first that is allowed."""

    def __init__(self, base: Packed, few: Ints) -> None:
        self.base, self.shape, self.few = base, base.shape, few

    def copy(self) -> Packed:
        """Return the same: nobody changes it."""
        return self

    def tensor(self) -> Any:
        """Return the tensor itself."""
        return self.base.tensor()

    def widened(self, shape: Cell) -> Packed:
        """Return the same for modes that gained levels."""
        return Trying(self.base.widened(shape), self.few)

    def at(self, cells: Ints, order: Ints | None = None) -> Floats:
        """Return the values at valid cells (n, d), shape (n,)."""
        return self.base.at(cells, order)

    def best(self, fixed: Ints, allowed: Allowed | None = None) -> Cell:
        """Return the first allowed cell that is to be tried, or else the allowed cell of largest value."""
        cell = self.first(fixed, allowed)
        return self.base.best(fixed, allowed) if cell is None else cell

    def first(self, fixed: Ints, allowed: Allowed | None = None) -> Cell | None:
        """Return the first allowed cell that is to be tried, if there is one."""
        for row in self.few[((self.few == fixed) | (fixed < 0)).all(axis=1)].tolist():
            if allowed is None or allowed.permits(tuple(row)):
                return tuple(row)
        return None


@dataclass
class Residual:
    """The deviations of the observed cells, in the order of the ledger, and the variance of their law."""

    variance: float  # tau^2
    delta: Floats

    @classmethod
    def start(cls, units: Units) -> Self:
        """Return no deviations yet."""
        return cls((_SMALL * units.scale) ** 2, np.zeros(0))

    def align(self, count: int) -> Floats:
        """Return the deviations of so many cells; one that is new has none yet."""
        if len(self.delta) < count:
            self.delta = np.concatenate([self.delta, np.zeros(count - len(self.delta))])
        return self.delta

    def model(self, model: Packed, ledger: Ledger) -> Deviating:
        """Return a tensor with the deviations, as it is now."""
        values = model.at(ledger.cells, ledger.order_by_sizes) + self.align(len(ledger))
        return Deviating(model.copy(), ledger.cells.copy(), values)

    def redraw(
        self, observations: Observations, fitted: Floats, units: Units, likelihood: Likelihood, rng: np.random.Generator
    ) -> float:
        """Redraw the deviations from the values ``fitted`` (n,), then the noise variance, which is returned."""
        own, gap = _what_cells_say(observations, fitted, likelihood.variance)
        shrunk = self.variance / (self.variance + own)
        self.delta = shrunk * gap + np.sqrt(shrunk * own) * rng.standard_normal(len(gap))
        if not likelihood.learned:
            return likelihood.variance
        at = fitted + self.delta - observations.centre
        total = observations.target - observations.centre * observations.precision
        errors = observations.squares + float((at * (observations.precision * at - 2.0 * total)).sum())
        rate = NOISE_RATE * units.scale**2 + max(errors, 0.0) / 2.0
        return float(rate / rng.standard_gamma(NOISE_SHAPE + observations.rounds / 2.0))

    def redraw_variance(
        self, observations: Observations, fitted: Floats, units: Units, noise: float, rng: np.random.Generator
    ) -> None:
        """Take Metropolis steps in log tau^2 with the deviations integrated out; tau is half-Cauchy a priori."""
        own, gap = _what_cells_say(observations, fitted, noise)
        squares, scale = gap**2, units.scale

        def log_density(log_variance: float) -> float:
            variance = math.exp(log_variance)
            spread = own + variance
            prior = 0.5 * log_variance - math.log1p(variance / (_SMALL * scale) ** 2)
            return prior - 0.5 * float((np.log(spread) + squares / spread).sum())

        lowest = 2.0 * math.log(_SMALLEST * scale)
        here = max(math.log(self.variance), lowest)  # the scale may have grown
        density = log_density(here)
        for _ in range(_STEPS):
            there = here + _STEP * rng.standard_normal()
            other = log_density(there) if there > lowest else -math.inf
            if other - density > -rng.standard_exponential():
                here, density = there, other
        self.variance = math.exp(here)

    def soften(self, observations: Observations, variance: float) -> Observations:
        """Return what the cells say of the tensor alone."""
        softened = 1.0 / (1.0 / observations.precision + self.variance / variance)
        target = observations.target * (softened / observations.precision)
        return observations._replace(precision=softened, target=target)

    def state(self) -> dict[str, Any]:
        """Return the deviations as plain arrays."""
        return {"variance": self.variance, "delta": self.delta.copy()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return what :meth:`state` described."""
        variance = check_array(state["variance"], "the residual's variance", ()).item()
        delta = check_array(state["delta"], "the residuals", (len(state["delta"]),))
        return cls(check_positive(variance, "the residual's variance"), delta)


def misfit(ledger: Ledger, values: Floats, likelihood: Likelihood, units: Units) -> float:
    """Return how surely observed cells deviate from ``values`` (n,), a draw of a tensor: standard errors above none.

    Were the tensor right, the square of what pulls at a cell would be its variance on average. Cells count as they
    would if deviations were 0.3 of the scale, so that the one that is played most does not drown all others.
    """
    squares, information, variance = likelihood.pulls(ledger, values)
    known = np.minimum(information * (_USUAL * units.scale) ** 2, _ALL)
    weights = known / (1.0 + known) ** 2
    error = math.sqrt(float((weights**2 * variance).sum()))
    return float((weights * (squares - 1.0)).sum()) / error if error > 0.0 else 0.0


def _what_cells_say(observations: Observations, fitted: Floats, noise: float) -> tuple[Floats, Floats]:
    """Return the variance of what each cell says of its value, and how far that is above ``fitted``, all (n,)."""
    return noise / observations.precision, observations.target / observations.precision - fitted

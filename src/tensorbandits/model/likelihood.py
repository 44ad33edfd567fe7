"""What rewards say of the mean tensor: a likelihood turns a ledger into what a sweep is fitted to.

A sweep knows only *observations*: per observed cell a precision and a target. A likelihood makes them from a ledger and
the present draw, redraws its own parameters, and maps the values of the tensor to mean rewards. With Gaussian rewards
the precision of a cell is its count, in units of that of a single reward, its target the sum of its rewards, and both
scales are the same.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tensorbandits.base.checks import Cell, check_array, check_positive
from tensorbandits.ledger import Ledger
from tensorbandits.tensor.tucker import Floats, Ints

NOISE_SHAPE = 4.0  # of the prior of the noise variance: fewer rewards than unknowns must not pass for exact ones
NOISE_RATE = 2.0  # its rate, in units of the variance of rewards
ENOUGH = 0.1  # information, in units of the prior's, that one normal reward has at least
ROUNDING = 1e-9  # by which sums of whole numbers may be off
_BEYOND = 3.0  # where values are farther than this beyond all that was observed, perturbations begin to be cut
_FADING = 5.0  # and so much farther they are cut in full
_SMALLEST = 1e-140  # scale: its square, and that of what is divided by it, must be above 0
_FARTHEST = 1e100  # of a reward from its mean, in deviations: the square of what is farther may be no float
_SHRINKAGE = 2.0  # the total variance counts as this many degrees of freedom of the noise variance
_ROUNDING = 1e-30  # a square about the centre that is this small beside the centre's is none


class Units(NamedTuple):
    """The centre and the scale of rewards, in which the prior is stated, and their sum of squares about the centre."""

    centre: float
    scale: float
    squares: float = 0.0

    @classmethod
    def of(cls, ledger: Ledger) -> Units:
        """Measure them over observed cells, each counting once, so that they settle although play concentrates."""
        if not len(ledger):
            return cls(0.0, 1.0)
        from tensorbandits.model._sweep_kernels import measure

        centre, square, squares = measure(ledger.table, len(ledger))
        if square <= _ROUNDING * centre**2:
            return cls(centre, max(abs(centre), _SMALLEST) if centre else 1.0, squares)
        return cls(centre, max(math.sqrt(square), _SMALLEST), squares)


def noise_level(ledger: Ledger, given: float | None = None) -> float:
    """Return the noise's standard deviation: as given, or estimated from repeated pulls of the same cells.

    The variance within cells is pooled and shrunk towards the total variance, an upper bound, which decides when no
    cell was seen twice.

    >>> ledger = Ledger((2, 2)); ledger.add([(0, 0), (1, 1)], [1.0, 3.0])
    >>> noise_level(ledger), noise_level(ledger, 0.5)
    (1.0, 0.5)
    """
    if given is not None:
        return given
    within, freedom = ledger.repeats()
    return math.sqrt((within + _SHRINKAGE * ledger.variance) / (freedom + _SHRINKAGE))


class Observations(NamedTuple):
    """What a sweep is fitted to: per observed cell a precision and a target.

    ``order`` (n,) sorts the ``cells`` (n, d) by their levels. ``precision`` (n,) is in units of that of a single
    reward; ``target`` (n,) is what a cell says of its value, times its precision. The sweep takes ``centre`` off every
    target. ``squares`` is the sum over single rewards of their squares about the centre, and ``rounds`` their number:
    what the noise variance is learned from.
    """

    order: Ints
    cells: Ints
    precision: Floats
    target: Floats
    centre: float
    squares: float
    rounds: float

    @classmethod
    def of(cls, ledger: Ledger, target: Floats, centre: float, squares: float = 0.0) -> Observations:
        """Return those of rewards that are all alike, given their sums; views of the ledger, valid until it changes."""
        return cls(ledger.order_by_sizes, ledger.cells, ledger.counts, target, centre, squares, ledger.rounds)

    @classmethod
    def towards(cls, ledger: Ledger, units: Units, values: Floats, slope: Floats, information: Floats) -> Observations:
        """Return those with which a solve makes a step of Newton's from ``values``, all (n,).

        ``slope`` and ``information`` are the first derivative of the log-likelihood and about minus the second. No cell
        asks for a step of more than 1, as the second may be far smaller here than where the step ends.
        """
        precision = np.maximum(information, np.abs(slope))
        target = precision * values + slope
        return cls(ledger.order_by_sizes, ledger.cells, precision, target, units.centre, 0.0, ledger.rounds)


def within_reach(seen: Floats, values: Floats, perturbation: Floats, down: Floats, up: Floats) -> tuple[Floats, Floats]:
    """Return perturbations of sums of rewards (n,), cut where values are far beyond all that was ``seen``, and slopes.

    A sum that is perturbed down by more than ``down``, or up by more than ``up``, no value accounts for, however small
    or large: it would push the same for ever. So far out perturbations are no larger, either way, so that they do not
    push back on average. The slopes say by how much a push lessens as the value moves on.
    """
    below, above = ((beyond - _BEYOND) / _FADING for beyond in (seen.min() - values, values - seen.max()))
    cut = np.where(below > above, np.clip(perturbation, -down, down), np.clip(perturbation, -up, up))
    share = np.maximum(below, above)
    slopes = np.where((share > 0.0) & (share < 1.0), np.abs(perturbation - cut) / _FADING, 0.0)
    return np.asarray(perturbation + np.clip(share, 0.0, 1.0) * (cut - perturbation)), slopes


def whole(counts: Floats, totals: Floats) -> NDArray[np.bool_]:
    """Say of each sum of a whole number of rewards whether it is whole, up to rounding, (n,)."""
    return np.asarray((counts != np.round(counts)) | (np.abs(totals - np.round(totals)) <= ROUNDING * (1.0 + totals)))


Values = Floats | Callable[[Ints], Floats]


class Likelihood(ABC):
    """What a sampler needs to know of rewards; what is not overridden is as for rewards whose means are the values.

    ``variance`` is that of a single reward about its mean, in units of which precisions are stated; ``learned`` says
    whether a sweep redraws it. ``augmented`` says whether observations depend on the present draw, so that every sweep
    needs its own; ``sparse`` whether they look at the draw at some cells only; ``rates`` whether means are rates of
    clicks; ``allowed`` what a reward may be, in words.
    """

    variance: float
    learned: bool = False
    augmented: ClassVar[bool] = False
    sparse: ClassVar[bool] = False
    rates: ClassVar[bool] = False
    allowed: ClassVar[str] = "all numbers"

    @abstractmethod
    def drawn(self, units: Units, rng: np.random.Generator) -> Self:
        """Return a likelihood of the same kind, with parameters drawn from their prior."""

    def grow(self, shape: Cell, rng: np.random.Generator) -> None:  # noqa: B027
        """Draw the parameters of levels that have none yet from their prior, if levels have any."""

    def units(self, ledger: Ledger) -> Units:
        """Return the centre and the scale of the tensor's values, in which the prior is stated."""
        return Units.of(ledger)

    @abstractmethod
    def observe(
        self, ledger: Ledger, units: Units, values: Any, rng: np.random.Generator, *, weight: float = 1.0
    ) -> Observations:
        """Redraw its own parameters, and return what the next sweep is fitted to, given the present draw.

        Its ``values`` at all cells are an array (n,), or for a ``sparse`` likelihood also a function that returns one
        which has those of some cells. Rewards count ``weight`` times.
        """

    def variances_at(self, cells: Ints) -> Floats:
        """Return the variance of a single reward of each of some cells (n, d), where it is a parameter, shape (n,)."""
        return np.full(len(cells), self.variance)

    @abstractmethod
    def expect(self, ledger: Ledger, units: Units, values: Floats) -> Observations:
        """Return what the next solve is fitted to, on its way to the mode, with nothing drawn."""

    def information(self, ledger: Ledger) -> Floats | float:
        """Return the variance of what a single reward adds to the target of its cell, about: (n,), or one for all."""
        return self.variance

    def worth(self, ledger: Ledger) -> float:
        """Return how many rewards say as much of a value as one normal reward does, about, at least 1."""
        return max(1.0, ENOUGH / float(np.mean(self.information(ledger)))) if len(ledger) else 1.0

    def slowness(self, ledger: Ledger) -> float:
        """Return how many sweeps a chain needs to forget a value because of what observations keep of it, about."""
        return 1.0

    def may_be(self, reward: float) -> bool:
        """Say whether a finite number can be a reward."""
        return True

    def may_add_up(self, counts: Floats, totals: Floats, squares: Floats, *, faded: bool = False) -> NDArray[np.bool_]:
        """Say of each entry whether so many rewards can have this sum, and this one of squares: (n,).

        What has ``faded`` need not be whole.
        """
        return np.ones(len(counts), dtype=bool)

    def rewards(self, values: Floats) -> Floats:
        """Return the mean rewards that belong to values of the tensor."""
        return values

    def typical(self, rewards: Floats) -> Floats:
        """Return what is believed of mean rewards, given draws of them along the first axis."""
        return np.asarray(rewards.mean(axis=0))

    def held(self, ledger: Ledger, values: Floats, perturbation: Floats) -> tuple[Floats, Floats]:
        """Return perturbations of sums of rewards (n,), without what would take values ever farther out, and slopes."""
        return perturbation, np.zeros_like(perturbation)

    @abstractmethod
    def pulls(self, ledger: Ledger, values: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the square of what pulls at the value of each cell, over its mean if these values are the true ones.

        What pulls is the derivative of the log-likelihood. With it come that mean, the information of the rewards, and
        the variance of the first, all (n,).
        """

    @abstractmethod
    def log_density(self, ledger: Ledger, values: Floats) -> float:
        """Return the logarithm of the rewards' density, up to a constant, given the values at the ledger's cells."""

    @abstractmethod
    def log_scores(self, values: Floats, counts: Floats, totals: Floats, variances: Floats) -> Floats:
        """Return the log densities of ``counts`` rewards that add up to ``totals``, at some ``values`` of their cells.

        All are of shapes that fit each other. It is up to a constant of these rewards. ``variances`` are those of
        single rewards, where they are parameters.
        """

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return the parameters as plain numbers."""

    @abstractmethod
    def restored(self, state: Mapping[str, Any]) -> Self:
        """Return the likelihood that :meth:`state` described."""


@dataclass
class Gaussian(Likelihood):
    """Rewards with normal noise of one variance, which is known, or learned with a prior in units of the rewards.

    >>> likelihood = Gaussian(0.25, learned=False).drawn(Units(0.0, 1.0), np.random.default_rng(0))
    >>> likelihood.variance
    0.25
    """

    variance: float
    learned: bool = field()  # to be given

    def drawn(self, units: Units, rng: np.random.Generator) -> Self:
        """Return the likelihood with a variance that is known, or drawn from its prior."""
        if not self.learned:
            return type(self)(self.variance, learned=False)
        return type(self)(NOISE_RATE * units.scale**2 / rng.gamma(NOISE_SHAPE), learned=True)

    def observe(
        self, ledger: Ledger, units: Units, values: Floats, rng: np.random.Generator, *, weight: float = 1.0
    ) -> Observations:
        """Return counts and sums of rewards; they do not depend on the draw."""
        return Observations(
            *(ledger.order_by_sizes, ledger.cells, weight * ledger.counts, weight * ledger.totals),
            *(units.centre, weight * units.squares, weight * ledger.rounds),
        )

    def expect(self, ledger: Ledger, units: Units, values: Floats) -> Observations:
        """Return counts and sums of rewards."""
        return Observations.of(ledger, ledger.totals, units.centre, units.squares)

    def worth(self, ledger: Ledger) -> float:
        """Return 1: it is a normal one."""
        return 1.0

    def pulls(self, ledger: Ledger, values: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the squares of how far the sums of rewards are from what the values say, over their variances."""
        variances = self.variances_at(ledger.cells)
        squares = (ledger.totals - ledger.counts * values) ** 2 / (ledger.counts * variances)
        return squares, ledger.counts / variances, np.full(len(squares), 2.0)

    def log_density(self, ledger: Ledger, values: Floats) -> float:
        """Return the logarithm of the rewards' density given their means, up to a constant of the ledger."""
        from tensorbandits.model._sweep_kernels import squared_errors

        return -0.5 * (ledger.rounds * math.log(self.variance) + squared_errors(ledger.table, values) / self.variance)

    def log_scores(self, values: Floats, counts: Floats, totals: Floats, variances: Floats) -> Floats:
        """Return the log densities of the mean of the rewards."""
        gap = np.minimum(np.abs(totals / counts - values) / np.sqrt(variances), _FARTHEST)
        return np.asarray(-0.5 * counts * (np.log(variances) + gap * gap))

    def state(self) -> dict[str, Any]:
        """Return the likelihood as plain numbers."""
        return {"variance": self.variance, "learned": self.learned}

    def restored(self, state: Mapping[str, Any]) -> Self:
        """Return the likelihood that :meth:`state` described."""
        variance = check_positive(check_array(state["variance"], "the noise variance", ()).item(), "the noise variance")
        return type(self)(variance, bool(state["learned"]))

"""A Tucker model in the layout of the compiled sweeps, and its prior: what posterior sampling and least squares share.

A model is fitted block by block to rewards ``y`` of observed cells, whose variance about the tensor is ``variance``::

    sum (y - offset - X[cell])^2 / variance + sum_j ||(U_j - M_j) diag(precision_j)^(1/2)||^2
        + sum_k gamma_k ||S_k - S_0k||^2 + offset_precision (offset - offset_0)^2

with ``S_k`` the entries of the core that are of one kind; all are of the same, but for an affine model, where the kind
is the order of the interaction. Each block has an exact minimum given the rest, and with standard normal noise an exact
draw from its conditional law.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from tensorbandits.base.checks import Cell, check_array
from tensorbandits.ledger import by_sizes
from tensorbandits.model.likelihood import Observations
from tensorbandits.tensor.allowed import Allowed
from tensorbandits.tensor.best import best_packed
from tensorbandits.tensor.packed import PackedModel, mean_rows
from tensorbandits.tensor.tucker import Floats, Ints, Tucker

_LARGEST = 1e120  # number of a model; those of larger ones multiply to what no float holds


class Model(PackedModel):
    """A Tucker tensor plus a constant, as flat arrays that a sweep changes in place.

    ``rows`` joins all factors, raveled, mode after mode; ``core`` is raveled too. Of an ``affine`` model the first
    column of every factor is 1 and stays so; the rank counts it.

    >>> model = Model((2, 3), (1, 1), np.ones(5), np.array([2.0]), offset=0.5)
    >>> model.tensor().full().tolist()
    [[2.5, 2.5, 2.5], [2.5, 2.5, 2.5]]
    """

    def __init__(
        self, shape: Cell, rank: Cell, rows: Floats, core: Floats, offset: float = 0.0, *, affine: bool = False
    ) -> None:
        self.shape, self.rank, self.affine = shape, rank, affine
        self.dims: Ints = np.array([shape, rank, [int(affine)] * len(rank)], dtype=np.int64)
        self.rows, self.core, self.offset = rows, core, offset
        self.modes: Ints = np.array(by_sizes(shape), dtype=np.int64)  # as sweeps go through them
        # Where the entries of a core whose modes are so sorted stand.
        self.places: Ints = np.arange(math.prod(rank)).reshape(rank).transpose(self.modes).ravel()
        # The compiler writes out the short loops when it knows the ranks of the last two modes, if these are 2 or 3;
        # the code for all other ranks is compiled once.
        last = [rank[j] for j in self.modes.tolist()[-2:]]
        self.static = ((0,) * last[0], (0,) * last[1]) if last in ([2, 2], [3, 3]) else ((), ())

    @classmethod
    def of(cls, tensor: Tucker) -> Self:
        """Return a model of the same numbers."""
        rows = np.concatenate([U.ravel() for U in tensor.factors])
        return cls(tensor.shape, tensor.rank, rows, tensor.core.ravel().copy(), tensor.offset)

    def tensor(self) -> Tucker:
        """Return the tensor as it is now."""
        return Tucker.trusted(self.core.reshape(self.rank).copy(), tuple(self._split(self.rows.copy())), self.offset)

    def copy(self) -> Model:
        """Return an independent copy."""
        return self._with(rows=self.rows.copy(), core=self.core.copy())

    def _with(self, **numbers: Any) -> Model:
        """Return the same with other numbers."""
        result = Model.__new__(Model)  # several times as fast as making one, and on the way of every decision
        result.__dict__ = {**self.__dict__, **numbers}
        return result

    def at(self, cells: Ints, order: Ints | None = None) -> Floats:
        """Return the values at valid cells (n, d), shape (n,); sooner if their ``order`` by sizes (n,) is given.

        Of an order that leaves out some cells, the values of these are not worked out.
        """
        from tensorbandits.model._value_kernels import values

        order = np.arange(len(cells)) if order is None else order
        cells = np.ascontiguousarray(cells)  # the kernel is compiled for these
        return np.asarray(values(self.core, self.rows, self.dims, self.modes, self.places, cells, order, self.offset))

    def negated(self) -> Model:
        """Return the model of minus the values."""
        return self._with(core=-self.core, offset=-self.offset)

    def line(self) -> Floats:
        """Return a copy of all numbers: rows, core, offset."""
        return np.concatenate([self.rows, self.core, [self.offset]])

    def at_of_lines(self, lines: Floats, cells: Ints) -> Floats:
        """Return the values at cells (n, d) of models whose numbers are ``lines`` (m, numbers), shape (n, m)."""
        from tensorbandits.model._sweep_kernels import values_of_lines

        return np.asarray(values_of_lines(lines, self.dims, np.ascontiguousarray(cells)))

    def with_numbers(self, line: Floats) -> Model:
        """Return a model of the same shape with other numbers: rows, core and offset in one line."""
        return self._with(rows=line[: len(self.rows)], core=line[len(self.rows) : -1], offset=float(line[-1]))

    def best(self, fixed: Ints, allowed: Allowed | None = None) -> Cell:
        """Return the allowed cell of largest value given the levels of the modes that are not -1 in ``fixed`` (d,)."""
        return best_packed(self.core, self.rows, self.dims[0], self.dims[1], fixed, allowed)

    def _split(self, rows: Floats) -> list[Floats]:
        ends = np.cumsum(self.dims[0] * self.dims[1])[:-1]
        return [part.reshape(-1, r) for part, r in zip(np.split(rows, ends), self.rank, strict=True)]

    def state(self) -> dict[str, Any]:
        """Return the model as plain arrays."""
        tensor = self.tensor()
        factors = {str(j): U for j, U in enumerate(tensor.factors)}
        return {"core": tensor.core, "offset": tensor.offset, "factors": factors}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], shape: Cell, rank: Cell, *, affine: bool = False) -> Self:
        """Return the model that :meth:`state` described, which must be of this shape and rank."""
        rows = [
            check_array(state["factors"][str(j)], f"factor {j}", size, largest=_LARGEST).ravel()
            for j, size in enumerate(zip(shape, rank, strict=True))
        ]
        core = check_array(state["core"], "the core", rank, largest=_LARGEST).ravel()
        offset = check_array(state["offset"], "the offset", (), largest=_LARGEST).item()
        return cls(shape, rank, np.concatenate(rows), core, offset, affine=affine)

    def widened(self, shape: Cell) -> Model:
        """Return the same for modes that gained levels: a new level is as all others of its mode are on average."""
        factors = zip(self._split(self.rows), shape, strict=True)
        return self.grown([mean_rows(U, size)[len(U) :] for U, size in factors])

    def grown(self, fresh: Sequence[Floats]) -> Model:
        """Return a model whose modes have more levels, with the rows ``fresh[j]`` (new levels, r_j) of theirs.

        >>> Model((1, 1), (1, 1), np.ones(2), np.ones(1)).grown([np.zeros((0, 1)), np.full((2, 1), 3.0)]).rows.tolist()
        [1.0, 1.0, 3.0, 3.0]
        """
        factors = [np.vstack([U, more]) for U, more in zip(self._split(self.rows), fresh, strict=True)]
        shape = tuple(len(U) for U in factors)
        rows = np.concatenate([U.ravel() for U in factors])
        return Model(shape, self.rank, rows, self.core.copy(), self.offset, affine=self.affine)


class Prior(NamedTuple):
    """The prior means of rows, core and offset, and what their precisions are made of.

    That of an entry of a row is the ``precision`` (sum r_j) of its column; that of an entry of the core is the one of
    its ``kind`` (R,) in ``gammas``, which a sweep may redraw in place. Of kind -1 is the constant of an affine model,
    whose precision is the offset's; one of kind -2 stays 0.
    """

    rows: Floats
    core: Floats
    offset: float
    precision: Floats
    kind: Ints
    gammas: Floats


class Learn(NamedTuple):
    """What a sampler needs to redraw the precisions of the core's prior and, unless ``None``, the noise variance."""

    scale: float  # of the rewards: the rate of the core's precisions is scale^2 / 2
    noise_rate: float | None


def sweep(
    model: Model,
    prior: Prior,
    observations: Observations,
    noise: Floats,
    *,
    variance: float,
    offset_precision: float | None,
    learn: Learn | None = None,
    gammas: Floats | None = None,
    keep: int = 0,
) -> tuple[float, Floats]:
    """Sweep a model over observations, in place, once per line of ``noise`` (sweeps, sum p_j r_j + 1 + R).

    The observations are about the prior's offset or, if the model is affine or ``offset_precision`` is ``None``, about
    the model's, which then stays where it is. Noise of zeros solves for each block, standard normal noise draws it. To
    ``learn`` takes a line of standard ``gammas`` a sweep, one for each of the core's precisions, which are changed in
    place, and one for the noise. Returns the variance, and the model's numbers (rows, core, offset) after each of
    ``keep`` shares of the sweeps.
    """
    from tensorbandits.model._sweep_kernels import FREE, LEARN_GAMMA, LEARN_NOISE, OFFSET, VARIANCE, sweeps

    free = offset_precision is not None and not model.affine
    centre = observations.centre
    scale, rate = learn or (0.0, None)
    flags = FREE * free | LEARN_GAMMA * (learn is not None) | LEARN_NOISE * (rate is not None)
    start = (model.offset - centre, variance, offset_precision or 0.0, centre, scale)
    numbers = np.array((*start, observations.squares, rate or 0.0))
    kept = np.empty((keep, noise.shape[1]))
    sweeps(
        *(*observations[:4], model.dims, model.modes, model.places, model.static, model.rows, model.core, numbers),
        *(prior.rows, prior.core, prior.precision, prior.kind, prior.gammas),
        *(noise, np.zeros((len(noise), 1 + len(prior.gammas))) if gammas is None else gammas),
        *(flags, kept),
    )
    model.offset = centre + numbers.item(OFFSET)
    return numbers.item(VARIANCE), kept

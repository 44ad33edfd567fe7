"""Tucker tensors: values at cells, the full array, and the best cell.

Notation
--------
d           number of modes                      U_j (p_j, r_j)   factor of mode j
p_j, r_j    size and rank of mode j              S (r_1 .. r_d)   core
cells       integer array (n, d)                 X = S x_1 U_1 .. x_d U_d + offset
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbandits.base.checks import Cell, check_cells, check_level, is_finite, is_sequence
from tensorbandits.tensor.allowed import Allowed, Levels
from tensorbandits.tensor.best import best_packed

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Tucker:
    """A tensor of low Tucker rank, plus a constant.

    ``core`` has shape (r_1, .., r_d), ``factors[j]`` has shape (p_j, r_j).

    >>> ones = Tucker(np.ones((1, 1)), (np.ones((2, 1)), np.arange(3.0)[:, None]), offset=0.5)
    >>> ones.full().tolist()
    [[0.5, 1.5, 2.5], [0.5, 1.5, 2.5]]
    >>> ones.best(), ones.best({1: 0})
    ((0, 2), (0, 0))
    """

    core: Floats
    factors: tuple[Floats, ...]
    offset: float = 0.0

    def __post_init__(self) -> None:
        core = check_numbers(self.core, "the core")
        if core.ndim == 0 or core.size == 0:
            raise ValueError(f"the core has shape {core.shape}; give one axis per mode, each of at least one number")
        if not is_sequence(self.factors) or len(self.factors) != core.ndim:
            given = len(self.factors) if is_sequence(self.factors) else repr(self.factors)
            raise ValueError(f"factors are {given}; a core of shape {core.shape} needs {core.ndim}, one per mode")
        factors = tuple(check_numbers(U, f"factor {j}") for j, U in enumerate(self.factors))
        for j, (U, r) in enumerate(zip(factors, core.shape, strict=True)):
            if U.ndim != 2 or U.shape[1] != r or len(U) == 0:
                raise ValueError(
                    f"factor {j} has shape {U.shape}; a core of shape {core.shape} needs (levels of mode {j}, {r})"
                )
        if isinstance(self.offset, bool) or not is_finite(self.offset):
            raise ValueError(f"offset is {self.offset!r}; give a finite number")
        self.__dict__.update(core=core, factors=factors, offset=float(self.offset))

    @classmethod
    def trusted(cls, core: Floats, factors: tuple[Floats, ...], offset: float = 0.0, **more: Any) -> Self:
        """Return a tensor of numbers that are known to fit, without a look at them: it is made for every decision."""
        result = cls.__new__(cls)
        result.__dict__.update(core=core, factors=factors, offset=offset, **more)
        return result

    @property
    def shape(self) -> Cell:
        """The number of levels of each mode."""
        return tuple(len(U) for U in self.factors)

    @property
    def rank(self) -> Cell:
        """The Tucker rank per mode."""
        return self.core.shape

    def full(self) -> Floats:
        """Return all values as an array of shape (p_1, .., p_d)."""
        return multi_mode_dot(self.core, self.factors) + self.offset

    def at(self, cells: ArrayLike) -> Floats:
        """Return the values at cells (n, d), shape (n,)."""
        return values_at(self, check_cells(cells, self.shape))

    def best(
        self, fixed: Mapping[int, int] | None = None, allowed: Allowed | Mapping[int, Levels] | None = None
    ) -> Cell:
        """Return the cell of largest value among those with the given levels that are allowed.

        Of equal rows the lowest level is taken; of different cells that have the same value it may be any, as it may
        where combinations are forbidden. ``ValueError`` if no cell is allowed.
        """
        shape = self.shape
        given = _check_fixed(fixed, shape)
        rows = np.concatenate([np.ravel(U) for U in self.factors], dtype=np.float64)
        core = np.array(self.core, dtype=np.float64, order="C").ravel()  # read-only ones would be compiled for anew
        levels = np.array([given.get(j, -1) for j in range(len(shape))], dtype=np.int64)
        sizes, ranks = np.array(shape, dtype=np.int64), np.array(self.rank, dtype=np.int64)
        return best_packed(core, rows, sizes, ranks, levels, Allowed.of(allowed, shape))


def _check_fixed(fixed: Mapping[int, int] | None, shape: Cell) -> dict[int, int]:
    """Return the fixed levels by mode as ints, each mode one of the shape's and each level one of the mode's."""
    if fixed is None:
        return {}
    if not isinstance(fixed, Mapping):
        raise TypeError(f"fixed is {fixed!r}; give the fixed levels by mode, for example {{0: 2}}, or None")
    modes = {mode: check_level(mode, len(shape), "a fixed mode") for mode in fixed}
    return {j: check_level(fixed[mode], shape[j], f"the fixed level of mode {j}") for mode, j in modes.items()}


def best_cell(
    tensor: Tucker | Floats,
    fixed: Mapping[int, int] | None = None,
    allowed: Allowed | Mapping[int, Levels] | None = None,
) -> Cell:
    """Return the best allowed cell of a Tucker tensor or of a full array, given fixed context levels.

    >>> best_cell(np.array([[1.0, 2.0], [4.0, 3.0]]), {0: 0})
    (0, 1)
    >>> best_cell(np.array([[1.0, 2.0], [4.0, 3.0]]), allowed={1: [1]})
    (1, 1)
    """
    if isinstance(tensor, Tucker):
        return tensor.best(fixed, allowed)
    array = _check_full(tensor)
    given, shape = _check_fixed(fixed, array.shape), array.shape
    values = array[tuple(given.get(j, slice(None)) for j in range(len(shape)))]
    checked = Allowed.of(allowed, shape)
    if checked is not None:
        mask = checked.mask(shape, given)
        if not mask.any():
            raise checked.nothing_left([given.get(j, -1) for j in range(len(shape))])
        values = np.where(mask, values, -np.inf)
    largest = int(values.argmax())  # that of a NaN, if there is one
    if np.isnan(values.flat[largest]):
        raise ValueError("the array holds NaN, which is neither more nor less than any other; give finite values")
    free = iter(np.unravel_index(largest, values.shape))
    return tuple(given[j] if j in given else int(next(free)) for j in range(len(shape)))


def _check_full(tensor: ArrayLike) -> Floats:
    """Return a full tensor as an array of floats with at least one axis and one cell."""
    array = as_numbers(tensor, "the array")
    if array.ndim == 0 or array.size == 0:
        raise ValueError(f"the array has shape {array.shape}; give one axis per mode, each of at least one level")
    return array


def check_numbers(values: ArrayLike, what: str) -> Floats:
    """Return finite numbers as an array of floats."""
    array = as_numbers(values, what)
    if not np.isfinite(array).all():
        raise ValueError(f"{what} holds NaN or infinite values; give finite numbers")
    return array


def as_numbers(values: ArrayLike, what: str) -> Floats:
    """Return numbers as an array of floats, the same one if it is such."""
    if np.ma.isMaskedArray(values):
        raise TypeError(f"{what} is a masked array, of which NumPy would use what is masked; give plain numbers")
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"{what} has rows of different lengths; give an array of numbers") from None
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{what} has type {array.dtype}; give an array of numbers")
    return np.asarray(array, dtype=np.float64)


def values_at(tensor: Tucker | Floats, cells: Ints) -> Floats:
    """Return the values of a Tucker tensor or of a full array at valid cells (n, d)."""
    if isinstance(tensor, Tucker):
        return np.asarray(outer_rows(tensor.factors, cells) @ tensor.core.ravel()) + tensor.offset
    return np.asarray(tensor[tuple(cells.T)])


def outer_rows(factors: Sequence[Floats], cells: Ints, skip: int | None = None) -> Floats:
    """Return, per cell, the outer product of its factor rows, flattened in C order: shape (n, prod r_j).

    With ``skip`` that mode is left out, so that the result times ``unfold(core, skip).T`` is what
    multiplies the row of mode ``skip``.
    """
    result = np.ones((len(cells), 1))
    for j, U in enumerate(factors):
        if j != skip:
            result = (result[:, :, None] * U[cells[:, j]][:, None, :]).reshape(len(cells), result.shape[1] * U.shape[1])
    return result


def multi_mode_dot(core: Floats, matrices: Sequence[Floats]) -> Floats:
    """Return ``core x_1 matrices[0] x_2 matrices[1] ..``."""
    for mode, matrix in enumerate(matrices):
        rest = core.shape[:mode] + core.shape[mode + 1 :]
        core = np.moveaxis((matrix @ unfold(core, mode)).reshape(len(matrix), *rest), 0, mode)
    return core


def unfold(tensor: Floats, mode: int) -> Floats:
    """Return the unfolding along a mode: its levels are the rows, all other modes the columns, in C order."""
    return np.moveaxis(tensor, mode, 0).reshape(tensor.shape[mode], -1)


def inner_product(one: Tucker, two: Tucker) -> float:
    """Return the sum of products of all entries of two tensors of one shape, offsets left out, without forming them.

    >>> ones = Tucker(np.ones((1, 1)), (np.ones((2, 1)), np.ones((3, 1))))
    >>> inner_product(ones, ones)
    6.0
    """
    mixed = multi_mode_dot(one.core, [V.T @ U for U, V in zip(one.factors, two.factors, strict=True)])
    return float((mixed * two.core).sum())


def orthogonal_complement(U: Floats) -> Floats:
    """Return an orthonormal basis (p, p - r) of the complement of the column space of ``U`` (p, r).

    >>> orthogonal_complement(np.array([[1.0], [0.0]])).shape
    (2, 1)
    """
    if U.shape[0] == U.shape[1]:
        return np.zeros((U.shape[0], 0))
    from scipy.linalg import null_space

    return np.asarray(null_space(U.T))


def rotation(U: Floats) -> Floats:
    """Return the orthogonal matrix ``[U, U_perp]`` (p, p) of an orthonormal ``U`` (p, r)."""
    return np.hstack([U, orthogonal_complement(U)])


def smallest_singular_values(tensor: Tucker) -> Floats:
    """Return the smallest of the leading ``r_j`` singular values of each unfolding, shape (d,).

    The offset is left out, and the factors must be orthonormal, as completion returns them.
    """
    return np.array([np.linalg.svd(unfold(tensor.core, j), compute_uv=False).min() for j in range(tensor.core.ndim)])

"""Mean rewards of all cells by ridge regression that trusts the low-rank part of the tensor more than the rest.

Tensor elimination rotates the cells into the basis ``[U_j, U_j_perp]`` and penalises a coordinate by ``lambda_1``
if at least one of its indices lies in an estimated subspace, by ``lambda_2`` otherwise. Back in the original
coordinates cells are unit vectors, and nothing needs to be rotated:

    V = diag(N) + lambda_1 I + (lambda_2 - lambda_1) P = D - (lambda_2 - lambda_1) B B^T,    D = diag(N) + lambda_2 I
    P = (I - U_1 U_1^T) x .. x (I - U_d U_d^T) = I - B B^T

``B`` may be any orthonormal basis of the inside space. The one used here is made of ``d`` Kronecker products and is
mostly zeros: what is inside in the first mode, then what is outside there and inside in the second, and so on,

    B = [ U_1 x I x .. x I,    U_1_perp x U_2 x I x .. x I,    ..,    U_1_perp x U_2_perp x .. x U_d ]

Notation
--------
K           number of cells                       U_j (p_j, r_j)   orthonormal factor of mode j
arms (m,)   flat indices of cells, C order        q                coordinates inside: prod p_j - prod (p_j - r_j)
N, Y (K,)   counts and sums of rewards            B (K, q)         basis of the inside space
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tensorbandits import theory
from tensorbandits.base.checks import Cell
from tensorbandits.tensor.tucker import Floats, Ints, orthogonal_complement

INSIDE_LIMIT = 15_000  # coordinates inside the subspaces: the matrices over them take 3 GB
TIE = 1e-10  # numbers closer than this share of the largest are equal up to rounding
_RESIDUAL = 1e-16  # of conjugate gradients, as a share of the right-hand side: nothing is left beyond rounding
_STEPS = 20_000  # never needed: 50 are usual, 500 for penalties that are 10^9 apart
_COLUMNS = 8  # up to this many coefficients per cell are added one by one, more by matrix products


class _Part(NamedTuple):
    """One Kronecker product of the basis: outside in ``head`` modes, inside in one, anything in the rest."""

    start: int  # its first column
    size: int  # coefficients per cell, prod_{l<j} (p_l - r_l) * r_j
    tail: int  # levels of the later modes together, prod_{l>j} p_l


class InsideBasis:
    """The orthonormal basis ``B`` of the inside space, as an operator; never formed.

    ``factors`` holds ``U_j`` of shape (p_j, r_j) with orthonormal columns for every mode, or is ``()`` for a basis
    without columns.

    >>> U = np.array([[1.0], [0.0]])
    >>> basis = InsideBasis((2, 2), (U, U))  # of all cells but the last
    >>> basis.size, np.abs(basis.rows(np.arange(4)).full()).tolist()
    (3, [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    """

    def __init__(self, shape: Cell, factors: tuple[Floats, ...]) -> None:
        self.shape, self.factors = shape, factors
        self.perpendicular = tuple(orthogonal_complement(U) for U in factors)
        self.parts: list[_Part] = []
        self.size = 0
        head = 1
        for j, U in enumerate(factors):
            p, r = U.shape
            if not head:
                break  # nothing is outside
            self.parts.append(_Part(self.size, head * r, math.prod(shape[j + 1 :])))
            self.size += head * r * self.parts[-1].tail
            head *= p - r

    def rows(self, arms: Ints) -> BasisRows:
        """Return the rows of ``B`` that belong to arms."""
        head, coefficients = np.ones((len(arms), 1)), []
        levels = np.unravel_index(arms, self.shape)
        for _, U, U_perp, i in zip(self.parts, self.factors, self.perpendicular, levels, strict=False):
            coefficients.append((head[:, :, None] * U[i][:, None, :]).reshape(len(arms), -1))
            head = (head[:, :, None] * U_perp[i][:, None, :]).reshape(len(arms), -1)
        return BasisRows(self, arms, coefficients)

    def times(self, rows: Floats) -> Floats:
        """Return ``B x`` for each row ``x`` of shape (n, q), shape (n, K): one small matrix product per mode."""
        n = len(rows)
        if not self.parts:
            return np.zeros((n, math.prod(self.shape)))
        inner: Floats | None = None
        modes = zip(self.parts, self.factors, self.perpendicular, strict=False)
        for (start, size, tail), U, U_perp in reversed(list(modes)):
            r, head = U.shape[1], size // U.shape[1]
            part = rows[:, start : start + size * tail].reshape(n, head, r, tail)
            if inner is not None:
                inner = np.hstack([U, U_perp]) @ np.concatenate([part, inner.reshape(n, head, -1, tail)], axis=2)
            else:  # the last part; what is outside here as well is not in the basis
                inner = U @ part if tail > 1 else part[..., 0] @ U.T
        assert inner is not None
        return inner.reshape(n, -1)


class BasisRows(NamedTuple):
    """Some rows of the basis, without their zeros."""

    basis: InsideBasis
    arms: Ints  # (m,)
    coefficients: list[Floats]  # per part, (m, its size)

    def full(self) -> Floats:
        """Return the rows with their zeros, shape (m, q)."""
        m = len(self.arms)
        result = np.zeros((m, self.basis.size))
        for (start, size, tail), values in zip(self.basis.parts, self.coefficients, strict=True):
            part = result[:, start : start + size * tail].reshape(m, size, tail)
            part[np.arange(m), :, self.arms % tail] = values
        return result

    def dot(self, M: Floats) -> Floats:
        """Return the rows times ``M`` of shape (q, n), C order, shape (m, n): no work is done for zeros."""
        result = np.zeros((len(self.arms), M.shape[1]))
        for (start, size, tail), values in zip(self.basis.parts, self.coefficients, strict=True):
            part, at = M[start : start + size * tail].reshape(size, tail, M.shape[1]), self.arms % tail
            if tail == 1:
                result += values @ part[:, 0]
            elif size <= _COLUMNS:
                for column, block in zip(values.T, part, strict=True):
                    result += column[:, None] * block[at]
            else:
                order = np.argsort(at, kind="stable")
                for some in np.split(order, np.flatnonzero(np.diff(at[order])) + 1):
                    result[some] += values[some] @ part[:, at[some[0]]]
        return result


@dataclass(frozen=True)
class SubspaceRidge:
    """The penalty ``V - diag(N)`` of a tensor of the given shape with estimated subspaces.

    ``factors`` holds ``U_j`` of shape (p_j, r_j) with orthonormal columns for every mode; ``()`` says that everything
    is inside, as for a vector, which has no low-rank structure. Leave modes of size 1 out of the shape: such a mode
    has no complement, so every coordinate would count as inside.

    >>> ridge = SubspaceRidge((2, 2), (np.eye(2)[:, :1], np.eye(2)[:, :1]), lambda_1=0.1, lambda_2=0.5)
    >>> ridge.inside, ridge.share.tolist()
    (3, [1.0, 1.0, 1.0, 0.0])
    >>> ridge.mean(np.array([0.9, 0, 0, 0.5]), np.array([2.0, 0, 0, 2.0])).round(9).tolist()
    [2.0, 0.0, 0.0, 2.0]
    """

    shape: Cell
    factors: tuple[Floats, ...]
    lambda_1: float
    lambda_2: float
    basis: InsideBasis = field(init=False, repr=False)  # of what is penalised otherwise than the rest
    share: Floats = field(init=False, repr=False)  # squared norms of the rows of the basis, (K,)

    def __post_init__(self) -> None:
        same = self.lambda_1 == self.lambda_2
        basis = InsideBasis(self.shape, () if same else self.factors)
        outside = np.ones(())
        for U in basis.factors:
            outside = np.multiply.outer(outside, 1.0 - (U**2).sum(axis=1))
        share = (1.0 - outside).ravel() if basis.factors else np.zeros(math.prod(self.shape))
        object.__setattr__(self, "basis", basis)
        object.__setattr__(self, "share", share)

    @property
    def inside(self) -> int:
        """The number ``q`` of coordinates inside."""
        if not self.factors:
            return math.prod(self.shape)
        return theory.inside_coordinates(self.shape, [U.shape[1] for U in self.factors])

    @property
    def outer(self) -> float:
        """The penalty of what is not in the basis."""
        return self.lambda_2 if self.factors else self.lambda_1

    def mean(self, counts: Floats, sums: Floats) -> Floats:
        """Return the estimates ``V^-1 Y`` of all cells given ``N`` and ``Y``, shape (K,), by conjugate gradients.

        ``D^-1 V`` has its eigenvalues between 1 and ``lambda_1 / lambda_2`` whatever the counts are, so that few steps
        leave nothing but rounding.
        """
        D = counts + self.outer
        unit = float(np.abs(sums).max())  # apart, so that squares of rewards neither vanish nor overflow
        if not self.basis.factors or unit == 0.0:
            return np.asarray(sums / D)
        result, rest = np.zeros_like(D), sums / unit
        step = rest / D
        size = first = float(rest @ step)
        for _ in range(_STEPS):
            if not size > _RESIDUAL**2 * first:
                break
            image = D * step - (self.lambda_2 - self.lambda_1) * self._project(step)
            length = size / float(step @ image)
            result += length * step
            rest = rest - length * image
            scaled = rest / D
            size, last = float(rest @ scaled), size
            step = scaled + (size / last) * step
        return result * unit

    def _project(self, x: Floats) -> Floats:
        """Return ``B B^T x`` for ``x`` of shape (K,)."""
        outside = x
        for U in self.factors:  # each turn moves its mode from first to last
            matrix = outside.reshape(len(U), -1).T
            outside = matrix - (matrix @ U) @ U.T
        return x - outside.ravel()


def first_largest(values: Floats) -> int:
    """Return the lowest flat index of the largest value, taking values that differ by rounding only as equal.

    Ties are common among cells that are alike, and rounding would break them differently on each machine.

    >>> first_largest(np.array([1.0, 3.0, 3.0 + 1e-14]))
    1
    """
    flat = values.ravel()
    largest = flat.max()
    return int(np.argmax(flat >= largest - TIE * max(largest, -flat.min())))

"""Ridge regression over cells, lightly penalised inside estimated subspaces and more outside.

Tensor elimination rotates the cells into the basis ``[U_j, U_j_perp]`` and penalises a coordinate by ``lambda_1``
if at least one of its indices lies in an estimated subspace, by ``lambda_2`` otherwise. Back in the original
coordinates cells are unit vectors, and nothing needs to be rotated:

    V     = diag(N) + lambda_1 I + (lambda_2 - lambda_1) P,    P = (I - U_1 U_1^T) x .. x (I - U_d U_d^T)
    V_0^-1 = (1/lambda_1) I + (1/lambda_2 - 1/lambda_1) P

``V_0^-1`` is a prior covariance between cells, whose entry for two cells is a product of ``d`` numbers. Given counts
``N`` and sums ``Y``, ``V^-1`` is the posterior covariance and ``V^-1 Y`` the posterior mean of a Gaussian process
with unit noise, so only the blocks of cells that were seen or are asked for are ever formed.

Notation
--------
K           number of cells                       U_j (p_j, r_j)   orthonormal factor of mode j
arms (m,)   flat indices of cells, C order        q                coordinates inside: prod p_j - prod (p_j - r_j)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import blas, cholesky, solve_triangular

from tensorbandits import theory
from tensorbandits.checks import Cell
from tensorbandits.ledger import Ledger
from tensorbandits.tensor.tucker import Floats, Ints

_ROWS = 1024  # rows of a block of the prior formed at once
_TIE = 1e-10  # numbers closer than this share of the largest are equal up to rounding
_SHRINKAGE = 2.0  # the total variance counts as this many degrees of freedom of the noise variance


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
    within, freedom = ledger.noise_variance()
    return math.sqrt((within + _SHRINKAGE * ledger.variance) / (freedom + _SHRINKAGE))


@dataclass(frozen=True)
class SubspaceRidge:
    """The penalty ``V_0`` of a tensor of the given shape with estimated subspaces.

    ``factors`` holds ``U_j`` of shape (p_j, r_j) with orthonormal columns for every mode; ``()`` says that everything
    is inside, as for a vector, which has no low-rank structure. Leave modes of size 1 out of the shape: such a mode
    has no complement, so every coordinate would count as inside.

    >>> ridge = SubspaceRidge((2, 2), (np.eye(2)[:, :1], np.eye(2)[:, :1]), lambda_1=0.1, lambda_2=0.5)
    >>> ridge.prior(np.array([0, 3]), np.array([0, 1, 2, 3])).round(6).tolist()
    [[10.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 2.0]]
    """

    shape: Cell
    factors: tuple[Floats, ...]
    lambda_1: float
    lambda_2: float
    complements: tuple[Floats, ...] = field(init=False, repr=False)  # I - U_j U_j^T

    def __post_init__(self) -> None:
        object.__setattr__(self, "complements", tuple(np.eye(len(U)) - U @ U.T for U in self.factors))

    @property
    def inside(self) -> int:
        """The number ``q`` of coordinates inside."""
        if not self.factors:
            return math.prod(self.shape)
        return theory.inside_coordinates(self.shape, [U.shape[1] for U in self.factors])

    def prior(self, left: Ints, right: Ints) -> Floats:
        """Return the block of ``V_0^-1`` between two lists of arms, shape (len(left), len(right)), Fortran order."""
        block = np.zeros((len(left), len(right)), order="F")
        columns = np.unravel_index(right, self.shape)
        for start in range(0, len(right), _ROWS):
            some = slice(start, start + _ROWS)
            block[:, some] = self._outside(left, [index[some] for index in columns])
            block[:, some] += np.equal.outer(left, right[some]) / self.lambda_1
        return block

    def _outside(self, left: Ints, columns: Sequence[Ints]) -> Floats:
        """Return the part ``(1/lambda_2 - 1/lambda_1) P`` of a block."""
        if not self.complements:
            return np.zeros((len(left), len(columns[0])))
        result = np.full((len(left), len(columns[0])), 1.0 / self.lambda_2 - 1.0 / self.lambda_1)
        for matrix, i, j in zip(self.complements, np.unravel_index(left, self.shape), columns, strict=True):
            result *= matrix[np.ix_(i, j)]
        return result

    def prior_variance(self, arms: Ints) -> Floats:
        """Return the diagonal of ``V_0^-1`` at arms, shape (m,)."""
        if not self.complements:
            return np.full(len(arms), 1.0 / self.lambda_1)
        outside = np.full(len(arms), 1.0 / self.lambda_2 - 1.0 / self.lambda_1)
        for matrix, i in zip(self.complements, np.unravel_index(arms, self.shape), strict=True):
            outside *= matrix[i, i]
        return outside + 1.0 / self.lambda_1

    def given(self, counts: Floats, sums: Floats) -> RidgeFit:
        """Return the fit given counts ``N`` and sums ``Y`` over all cells, each of shape (K,)."""
        seen = np.flatnonzero(counts)
        S = self.prior(seen, seen)
        means = sums[seen] / counts[seen]
        if not len(seen):
            return RidgeFit(self, seen, S, means)
        S.flat[:: len(seen) + 1] += 1.0 / counts[seen]
        root = cholesky(S, lower=True, overwrite_a=True, check_finite=False)
        return RidgeFit(self, seen, root, solve_triangular(root, means, lower=True, check_finite=False))


@dataclass(frozen=True)
class RidgeFit:
    """The ridge solution given data: estimates ``<b, a>`` and squared widths ``||a||^2`` in the norm of ``V^-1``.

    >>> ridge = SubspaceRidge((3,), (), lambda_1=0.5, lambda_2=0.5)
    >>> fit = ridge.given(np.array([3.5, 0, 0]), np.array([4.0, 0, 0]))
    >>> [values.round(6).tolist() for values in fit.at(np.array([0, 1]))]
    [[1.0, 0.0], [0.25, 2.0]]
    """

    ridge: SubspaceRidge
    seen: Ints  # arms with data, (n,)
    root: Floats  # Cholesky factor of the covariance of their mean rewards, (n, n)
    whitened: Floats  # root^-1 times their mean rewards, (n,)

    def at(self, arms: Ints) -> tuple[Floats, Floats]:
        """Return estimates and squared widths at arms, each of shape (m,)."""
        Z = self._project(arms)
        variance = self.ridge.prior_variance(arms) - np.einsum("ij,ij->j", Z, Z)
        return Z.T @ self.whitened, np.maximum(variance, 0.0)

    def mean(self, arms: Ints) -> Floats:
        """Return estimates at arms, shape (m,)."""
        if not len(self.seen):
            return np.zeros(len(arms))
        weights = solve_triangular(self.root, self.whitened, lower=True, trans=1, check_finite=False)
        blocks = [self.ridge.prior(arms[i : i + _ROWS], self.seen) @ weights for i in range(0, len(arms), _ROWS)]
        return np.concatenate(blocks)

    def covariance(self, arms: Ints) -> Floats:
        """Return the block of ``V^-1`` at arms, shape (m, m), Fortran order."""
        W = self.ridge.prior(arms, arms)
        Z = self._project(arms)
        if len(Z):
            W = blas.dgemm(-1.0, Z, Z, beta=1.0, c=W, trans_a=1, overwrite_c=1)
        return np.asarray(W)

    def _project(self, arms: Ints) -> Floats:
        block = self.ridge.prior(self.seen, arms)
        if not len(self.seen):
            return block
        return np.asarray(solve_triangular(self.root, block, lower=True, overwrite_b=True, check_finite=False))


def count_pull(W: Floats, at: int) -> None:
    """Count a pull of the arm at a position of ``W``, in place: ``V`` becomes ``V + a a^T`` (Sherman, Morrison).

    ``W`` is the block of ``V^-1`` at the active arms, shape (m, m), Fortran order.

    >>> W = np.asfortranarray(np.eye(2))
    >>> count_pull(W, 0)
    >>> W.tolist()
    [[0.5, 0.0], [0.0, 1.0]]
    """
    column = W[:, at].copy()
    blas.dger(-1.0 / (1.0 + column[at]), column, column, a=W, overwrite_a=1)


def first_largest(values: Floats) -> int:
    """Return the lowest flat index of the largest value, taking values that differ by rounding only as equal.

    Ties are common among cells that are alike, and rounding would break them differently on each machine.

    >>> first_largest(np.array([1.0, 3.0, 3.0 + 1e-14]))
    1
    """
    flat = values.ravel()
    return int(np.argmax(flat >= flat.max() - _TIE * np.abs(flat).max()))

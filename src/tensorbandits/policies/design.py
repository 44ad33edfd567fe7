"""Which arm tensor elimination pulls next: the one whose mean is least certain, kept up to date as pulls are counted.

    V^-1 = D^-1 + D^-1 B G B^T D^-1,    G = ((lambda_2 - lambda_1)^-1 I - B^T D^-1 B)^-1

so that counting ``n`` pulls of each of some arms ``S`` is a change of ``G`` of rank ``|S|`` (Woodbury),

    G' = G - X^T E^-1 X,    X = B_S G,    E = B_S G B_S^T + diag(D (D + n) / n)

Widths do not depend on rewards, and counting a pull only lowers them. So pulls are found in blocks: among the few
arms of largest width one by one, on their part of ``V^-1`` alone, for as long as that width exceeds what the others had
when the block was made; then all of them are counted at once. The pulls are those of one rank-one change of the
whole ``V^-1`` per pull.

Notation (see also :mod:`.subspace`)
--------
D (K,)      counts + lambda_2       G (q, q)    alpha I at first, with alpha = lambda_2 (lambda_2/lambda_1 - 1)
W (m, m)    V^-1 at the m arms of a block           g (K,)      diagonal of B G B^T; squared widths are 1/D + g/D^2
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import blas, cholesky, solve_triangular

from tensorbandits.policies.subspace import TIE, SubspaceRidge, first_largest
from tensorbandits.tensor.tucker import Floats, Ints

_NEAR = 10 * TIE  # widths this close may be equal
_ROUNDING = 0.01 * TIE
_SMALLEST, _LARGEST = 16, 128  # arms of a block
_HELD = 2**18  # numbers held at once while something is done for all cells
_TILE = 256  # rows of a symmetric matrix that are completed at once
_AT_ONCE = 256  # arms whose pulls are counted at once
_FEW = 64  # changes of G that are always kept as a product


class _Rows(NamedTuple):
    """What is known of some arms: ``B G = base - F Y``, and ``E = B G B^T`` among them."""

    base: Floats  # (m, q)
    F: Floats  # (m, t)
    E: Floats  # (m, m)


class Design:
    """Squared widths ``||a||^2`` in the norm of ``V^-1``, given counts.

    ``G`` is kept as ``alpha I - Y^T diag(s) Y`` while few pulls are counted, and from then on with a matrix in place of
    ``alpha I``. The signs ``s`` are 1, and -1 where pulls were taken back.

    >>> ridge = SubspaceRidge((2, 2), (np.eye(2)[:, :1], np.eye(2)[:, :1]), lambda_1=0.5, lambda_2=2.0)
    >>> design = Design(ridge)
    >>> design.variance.tolist()
    [2.0, 2.0, 2.0, 0.5]
    >>> design.count(np.array([0, 3]), np.array([1.0, 2.0]))
    >>> design.variance.round(9).tolist()
    [0.666666667, 2.0, 2.0, 0.25]
    """

    def __init__(self, ridge: SubspaceRidge) -> None:
        self.ridge = ridge
        self.counts = np.zeros(len(ridge.share))
        self._alpha = ridge.lambda_2 * (ridge.lambda_2 / ridge.lambda_1 - 1.0)
        self._g: Floats = self._alpha * ridge.share
        q = ridge.basis.size
        self._G: Floats | None = None
        self._Y: Floats = np.empty((max(_FEW, q // 4), q))
        self._signs = np.empty(len(self._Y))
        self._used = 0  # rows of Y

    @classmethod
    def given(cls, ridge: SubspaceRidge, counts: Floats) -> Design:
        """Return the design with counts ``N`` of shape (K,)."""
        design = cls(ridge)
        seen = np.flatnonzero(counts)
        design.count(seen, counts[seen])
        return design

    @property
    def D(self) -> Floats:
        """Counts plus the penalty outside, shape (K,)."""
        return self.counts + self.ridge.outer

    @property
    def variance(self) -> Floats:
        """The squared widths of all arms, shape (K,)."""
        D = self.D
        return np.maximum((1.0 + self._g / D) / D, 0.0)

    def count(self, arms: Ints, times: Floats) -> None:
        """Count pulls of distinct arms, each as many times as given; take back those given as less than 0."""
        for positive in (True, False):
            alike = np.flatnonzero((times > 0.0) == positive)
            for some in np.split(alike, range(_AT_ONCE, len(alike), _AT_ONCE)):
                if len(some):
                    self._change(arms[some], times[some], self.rows(arms[some]), slice(None))

    def covariance(self, arms: Ints, rows: _Rows) -> Floats:
        """Return the part of ``V^-1`` that belongs to arms, shape (m, m), Fortran order."""
        D = self.D[arms]
        W = np.asfortranarray(rows.E / np.outer(D, D))
        W.flat[:: len(arms) + 1] += 1.0 / D
        return W

    def rows(self, arms: Ints) -> _Rows:
        """Return what a block of arms, or counting them, needs of ``G``."""
        rows = self.ridge.basis.rows(arms)
        B = rows.full()
        base = self._alpha * B if self._G is None else rows.dot(self._G)
        F = B @ self._Y[: self._used].T
        signed = F * self._signs[: self._used]
        return _Rows(base, signed, base @ B.T - signed @ F.T)

    def _change(self, arms: Ints, times: Floats, rows: _Rows, at: Ints | slice) -> None:
        """Count pulls of arms, or take them back, given rows of which theirs are those at some positions."""
        if self.ridge.basis.size:
            D = self.D[arms]
            E = rows.E[at][:, at] + np.diag(D * (D + times) / times)
            X = rows.base[at] - rows.F[at] @ self._Y[: self._used]
            sign = 1.0 if times[0] > 0.0 else -1.0
            root = cholesky(sign * E, lower=True, overwrite_a=True, check_finite=False)
            self._keep(solve_triangular(root, X, lower=True, overwrite_b=True, check_finite=False), sign)
        self.counts[arms] += times

    def _keep(self, change: Floats, sign: float) -> None:
        """Subtract the product of a matrix (m, q), transposed, with itself from ``G``, or add it."""
        step = max(1, _HELD // len(self.counts))
        for start in range(0, len(change), step):
            image = self.ridge.basis.times(change[start : start + step])
            self._g -= sign * np.einsum("ij,ij->j", image, image)
        room = len(self._Y)
        for start in range(0, len(change), room):
            some = change[start : start + room]
            if self._used + len(some) > room:
                self._fold()
            self._Y[self._used : self._used + len(some)] = some
            self._signs[self._used : self._used + len(some)] = sign
            self._used += len(some)

    def _fold(self) -> None:
        """Make ``G`` a matrix without a product beside it."""
        q = self._Y.shape[1]
        if self._G is None:
            self._G = np.zeros((q, q))
            np.fill_diagonal(self._G, self._alpha)
        Y, signs = self._Y[: self._used], self._signs[: self._used]
        for sign in np.unique(signs):
            some = Y if (signs == sign).all() else Y[signs == sign]
            # BLAS sees the transpose of an array in C order: its upper triangle is the lower one here.
            blas.dsyrk(-sign, some.T, beta=1.0, c=self._G.T, overwrite_c=1)
        for start in range(0, q, _TILE):
            stop = min(start + _TILE, q)
            corner = np.tril(self._G[start:stop, start:stop])
            self._G[start:stop, start:stop] = corner + np.tril(corner, -1).T
            self._G[start:stop, stop:] = self._G[stop:, start:stop].T
        self._used = 0


class WidestFirst:
    """Pulls the active arm of largest width again and again, ties to the lowest index, counting each pull.

    Pulls are in the design after :meth:`settle`.

    >>> design = Design(SubspaceRidge((3,), (), lambda_1=0.5, lambda_2=0.5))
    >>> widest = WidestFirst(design, np.array([0, 2]), planned=5)
    >>> [widest.pull() for _ in range(4)]  # positions among the active arms
    [0, 1, 0, 1]
    >>> widest.widest(), widest.widest()  # until it is counted, the next one is the same
    (0, 0)
    >>> widest.count(0)
    >>> widest.settle()
    >>> design.counts.tolist()
    [3.0, 0.0, 2.0]
    """

    def __init__(self, design: Design, active: Ints, planned: int, largest: int = _LARGEST) -> None:
        self.design, self.active = design, active
        self._left = planned  # pulls to come, as far as known
        self._size = self._largest = largest
        self._block: Ints = np.zeros(0, dtype=np.int64)  # positions among the active arms, ascending
        self._times = np.zeros(0)  # their pulls since the block was made
        self._W = np.zeros((0, 0))  # the part of V^-1 that belongs to them
        self._rows: _Rows | None = None
        self._level, self._first = 0.0, 0
        self._next = -1  # the position in the block of the next pull, once it is known

    def pull(self) -> int:
        """Return the position of the next arm among the active ones, and count its pull."""
        position = self.widest()
        self.count(position)
        return position

    def widest(self) -> int:
        """Return the position of the next arm among the active ones."""
        if self._next < 0:
            at = first_largest(self._W.diagonal()) if len(self._block) else -1
            if not self._decided(at):
                self.settle()
                position = self._make_block()  # right after counting every width is exact
                at = int(np.searchsorted(self._block, position))
            self._next = at
        return int(self._block[self._next])

    def count(self, position: int) -> None:
        """Count a pull of the arm at a position among the active ones."""
        at = int(np.searchsorted(self._block, position))
        self._next = -1
        self._left -= 1
        if at == len(self._block) or self._block[at] != position:  # another one than the widest
            self.settle()
            self.design.count(self.active[[position]], np.ones(1))
            return
        column = self._W[:, at].copy()
        blas.dger(-1.0 / (1.0 + column[at]), column, column, a=self._W, overwrite_a=1)
        self._times[at] += 1.0

    def _decided(self, at: int) -> bool:
        """Whether no arm outside the block can come before the one at a position of it."""
        if at < 0:
            return False
        width = self._W[at, at]
        if width > self._level * (1.0 + _NEAR):
            return True
        return bool(width >= self._level * (1.0 - _ROUNDING) and self._block[at] < self._first)

    def settle(self) -> None:
        """Count all pulls in the design."""
        at = np.flatnonzero(self._times)
        if self._rows is not None and len(at):
            self.design._change(self.active[self._block[at]], self._times[at], self._rows, at)
            self._size = int(min(max(2 * self._times.sum(), _SMALLEST), self._largest))
        self._block, self._rows, self._next = self._block[:0], None, -1

    def _make_block(self) -> int:
        """Choose the arms of largest width; return the position of the first of all."""
        widths = self.design.variance[self.active]
        position = first_largest(widths)
        self._block = _widest(widths, min(self._size, max(_SMALLEST, self._left + self._left // 4)), position)
        outside = np.ones(len(widths), dtype=bool)
        outside[self._block] = False
        self._level = float(widths.max(where=outside, initial=0.0))
        self._first = int(np.argmax(outside & (widths >= self._level * (1.0 - 2.0 * _NEAR))))
        arms = self.active[self._block]
        self._rows = self.design.rows(arms)
        self._W = self.design.covariance(arms, self._rows)
        self._times = np.zeros(len(arms))
        return position


def _widest(widths: Floats, size: int, include: int) -> Ints:
    """Return the ascending positions of about ``size`` largest widths, of equal ones the first."""
    if size >= len(widths):
        return np.arange(len(widths))
    least = np.partition(widths, -size)[-size]
    above = widths > least * (1.0 + _NEAR)
    equal = np.flatnonzero(~above & (widths >= least * (1.0 - _NEAR)))
    above[equal[: size - int(above.sum())]] = True
    above[include] = True
    return np.flatnonzero(above)

"""LowOFUL, the second stage of ESTR: estimates and error widths of all entries of a matrix that is nearly of low rank.

Arms are unit vectors, so with ``B`` an orthonormal basis of the inside space and ``D = diag(N) + lambda_perp I``

    V^-1 = D^-1 + D^-1 B G B^T D^-1,      G = ((lambda_perp - lambda)^-1 I - B^T D^-1 B)^-1

and a reward is a rank-one change of the small matrix ``G``. Most of an entry's row of ``B`` is zero.

Notation
--------
p, P        rows and columns of the matrix              U (p, r), W (P, r)     its singular subspaces
k           coordinates inside, (p + P) r - r^2         B (p P, k)             columns U x I and U_perp x W
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from tensorbandits.base.checks import check_array
from tensorbandits.tensor.tucker import Floats


class LowOFUL:
    """The ridge estimate ``theta`` and squared widths of all entries of a matrix, kept up to date reward by reward.

    ``left`` is ``[U, U_perp]`` (p, p), ``W`` is (P, r); ``theta`` and ``variance`` have shape (p, P), and
    ``logdet`` is ``logdet V - logdet V_0``.

    >>> ridge = LowOFUL(np.eye(2), np.eye(2)[:, :1], 0.5, 2.0)
    >>> ridge.variance.tolist()
    [[2.0, 2.0], [2.0, 0.5]]
    >>> ridge.update(1, 1, 1.0, 3.0)
    >>> ridge.theta.round(9).tolist(), round(ridge.logdet, 6) == round(math.log(3.0 / 2.0), 6)
    ([[0.0, 0.0], [0.0, 1.0]], True)
    """

    def __init__(self, left: Floats, W: Floats, lambda_1: float, lambda_perp: float) -> None:
        p, (P, r) = len(left), W.shape
        self.left, self.W = left, W
        k = r * P + (p - r) * r
        # Only its lower triangle is kept up to date. BLAS sees the transpose of an array in C order, so its upper one.
        self.G: Floats = np.zeros((k, k))
        np.fill_diagonal(self.G, lambda_perp * (lambda_perp - lambda_1) / lambda_1)
        self.D = np.full((p, P), lambda_perp)
        inside = 1.0 - np.outer((left[:, r:] ** 2).sum(1), 1.0 - (W**2).sum(1))
        self.variance: Floats = 1.0 / lambda_perp + (1.0 / lambda_1 - 1.0 / lambda_perp) * inside
        self.theta = np.zeros((p, P))
        self.logdet = 0.0

    def update(self, row: int, column: int, count: float, mean: float) -> None:
        """Learn ``count`` rewards of one entry, given their mean."""
        from scipy.linalg import blas  # slow to import, and only the first time

        Gb, bGb = self._column(row, column)
        D = self.D[row, column]
        w = self._inverse(row, column, Gb)
        width = w[row, column]
        change = count / (D * (D + count))
        blas.dsyr(-change / (1.0 + change * bGb), Gb, a=self.G.T, overwrite_a=1)
        scale = 1.0 / count + width
        self.theta += w * ((mean - self.theta[row, column]) / scale)
        np.multiply(w, w, out=w)
        w /= scale
        np.subtract(self.variance, w, out=self.variance)
        np.maximum(self.variance, 0.0, out=self.variance)
        self.logdet += math.log1p(count * width)
        self.D[row, column] += count

    def shift(self, row: int, column: int, change: float) -> None:
        """Learn that the rewards of one entry add up to so much more than was told."""
        self.theta += change * self._inverse(row, column, self._column(row, column)[0])

    def _inverse(self, row: int, column: int, Gb: Floats) -> Floats:
        """Return the column of ``V^-1`` that belongs to an entry, as a matrix (p, P)."""
        D = self.D[row, column]
        w = self._apply(Gb)
        w /= self.D * D
        w[row, column] += 1.0 / D
        return w

    def _column(self, row: int, column: int) -> tuple[Floats, float]:
        """Return ``G b``, shape (k,), and ``b^T G b`` for the row ``b`` of ``B`` that belongs to an entry.

        ``b`` holds ``U[row]`` at one column per direction of ``U``, then ``U_perp[row] x W[column]``; the rest is zero.
        """
        from scipy.linalg import blas

        P, r = self.W.shape
        rest = (self.left[row, r:, None] * self.W[column]).ravel()
        corner = self.G[r * P :, r * P :]
        Gb = np.empty(len(self.G))
        Gb[: r * P] = rest @ self.G[r * P :, : r * P]
        Gb[r * P :] = blas.dsymv(1.0, corner.T, rest) if len(rest) else 0.0
        for u, at in zip(self.left[row, :r], range(column, r * P, P), strict=True):
            Gb[:at] += u * self.G[at, :at]
            Gb[at:] += u * self.G[at:, at]
        return Gb, float(self.left[row, :r] @ Gb[column : r * P : P] + rest @ Gb[r * P :])

    def _apply(self, g: Floats) -> Floats:
        """Return ``B g`` as a matrix (p, P), using that ``B`` is made of Kronecker products."""
        P, r = self.W.shape
        first, second = g[: r * P].reshape(r, P), g[r * P :].reshape(-1, r)
        return np.asarray(self.left[:, :r] @ first + self.left[:, r:] @ second @ self.W.T)

    def state(self) -> dict[str, Any]:
        """Return all numbers."""
        state: dict[str, Any] = {name: getattr(self, name).copy() for name in ("left", "W", "D", "theta", "variance")}
        return state | {"G": np.tril(self.G) + np.tril(self.G, -1).T, "logdet": self.logdet}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], p: int, P: int) -> Self:
        """Return what :meth:`state` described, of a matrix with ``p`` rows and ``P`` columns."""
        W = np.asarray(state["W"])
        r = W.shape[-1] if W.ndim == 2 else -1
        if not 0 < r <= min(p, P):
            raise ValueError(f"W is of shape {W.shape}; it must have {P} rows and up to {min(p, P)} columns")
        self = cls(check_array(state["left"], "left", (p, p)), check_array(W, "W", (P, r)), 1.0, 1.0)
        for name in ("G", "D", "theta", "variance"):
            setattr(self, name, np.ascontiguousarray(check_array(state[name], name, getattr(self, name).shape)))
        if (self.D <= 0).any() or (self.variance < 0).any() or (np.diag(self.G) < 0).any():
            raise ValueError("D is not above 0, or variances are below 0")
        self.logdet = check_array(state["logdet"], "logdet", ()).item()
        return self

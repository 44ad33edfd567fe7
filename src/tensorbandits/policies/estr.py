"""Matricized ESTR (the paper's section 5; Jun, Willett, Nowak and Wright 2019): a matrix bandit on one unfolding.

Stage 1 explores the entries of the unfolding and recovers its subspaces, stage 2 (LowOFUL) is an optimistic linear
bandit that penalises what lies outside them. Arms are unit vectors, so with ``B`` an orthonormal basis of the inside
space and ``D = diag(N) + lambda_perp I``

    V^-1 = D^-1 + D^-1 B G B^T D^-1,      G = ((lambda_perp - lambda)^-1 I - B^T D^-1 B)^-1

and a reward is a rank-one change of the small matrix ``G``. Most of an entry's row of ``B`` is zero.

Notation
--------
p_j, P      rows and columns of the unfolding           U (p_j, r), W (P, r)   its singular subspaces
T_1, T_2    rounds of the two stages                    B (p_j P, k)           columns U x I and U_perp x W
k           coordinates inside, (p_j + P) r - r^2       R                      standard deviation of the noise
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tensorbandits import theory
from tensorbandits.checks import Cell, Rank, check_count, check_positive, check_shape, resolve_rank
from tensorbandits.ledger import Ledger
from tensorbandits.policies.base import Policy, refuse_context
from tensorbandits.policies.subspace import INSIDE_LIMIT, first_largest, noise_level
from tensorbandits.tensor.solve import row_equations, solve_spd
from tensorbandits.tensor.tucker import Floats, Tucker, rotation

_SWEEPS = 30
_RECOVERIES = ("alternating", "spectral")
_MAX_RANK = 6  # the largest that "auto" looks for
_NULL_DRAWS = 10
_NULL_MARGIN = 1.1


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
        w = self._apply(Gb)
        w /= self.D * D  # the column of V^-1 that belongs to the entry
        w[row, column] += 1.0 / D
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


def recover(ledger: Ledger, rank: int, *, method: str = "alternating") -> Tucker:
    """Recover a matrix of low rank from a ledger of its entries: orthonormal factors and a diagonal core.

    ``"spectral"`` keeps the leading singular values of the rescaled zero-filled matrix; ``"alternating"`` starts there
    and alternates ridge regressions of rows and columns on the observed entries.

    >>> rng = np.random.default_rng(0)
    >>> u, w = np.array([0.6, 0.8, 0.0, 0.0]), np.ones(9)
    >>> cells = np.argwhere(rng.random((4, 9)) < 0.8)
    >>> ledger = Ledger((4, 9)); ledger.add(cells, np.outer(u, w)[tuple(cells.T)])
    >>> fit = recover(ledger, 1)
    >>> bool(abs(fit.factors[0][:, 0] @ u) > 0.99)
    True
    """
    p, P = ledger.shape
    scale = math.sqrt(ledger.squares.sum() / max(ledger.rounds, 1.0))  # apart, so that it changes nothing else
    filled = np.zeros((p, P))
    if scale > 0.0:
        filled[tuple(ledger.cells.T)] = (p * P / ledger.rounds) * (ledger.totals / scale)
    U, s, Vt = np.linalg.svd(filled, full_matrices=False)
    U, s, V = U[:, :rank], s[:rank], Vt[:rank].T
    if method == "alternating" and scale > 0.0:
        penalty = max((noise_level(ledger) / scale) ** 2 * math.sqrt(rank), 1e-6) * np.eye(rank)
        factors = [U * np.sqrt(s), V * np.sqrt(s)]
        for sweep in range(2 * _SWEEPS):
            mode = sweep % 2
            target = ledger.totals / scale
            A, b = row_equations(np.eye(rank), factors, mode, ledger.cells, ledger.counts, target)
            factors[mode] = solve_spd(A + penalty, b)
        (Q, M), (H, N) = (np.linalg.qr(factor) for factor in factors)
        inner, s, outer = np.linalg.svd(M @ N.T)
        U, V = Q @ inner, H @ outer.T
    return Tucker(np.diag(s * scale), (U, V))


def matrix_rank(ledger: Ledger, *, max_rank: int = _MAX_RANK, seed: int = 0) -> int:
    """Choose the rank of a matrix from a ledger of its entries, spread evenly: at least 1.

    A singular value of the zero-filled matrix counts while it exceeds what the rest, with random signs, would reach.
    (Completion's choice of rank is for independent draws, not for entries that are pulled once each.)

    >>> ledger = Ledger((20, 30)); cells = np.argwhere(np.ones((20, 30)))
    >>> ledger.add(cells, np.cos(cells[:, 0] - cells[:, 1]))  # cos(a - b) = cos a cos b + sin a sin b
    >>> matrix_rank(ledger)
    2
    """
    rest = np.zeros(ledger.shape)
    rest[tuple(ledger.cells.T)] = ledger.totals / ledger.counts
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(_NULL_DRAWS, *ledger.shape))
    U, s, Vt = np.linalg.svd(rest, full_matrices=False)
    for rank in range(min(max_rank, len(s))):
        # The rest has lost a row and a column per value, which random signs give back: the same energy, spread wider.
        lost = _edge(np.subtract(ledger.shape, rank)) / _edge(np.array(ledger.shape))
        if s[rank] <= _NULL_MARGIN * lost * max(np.linalg.norm(rest * sign, 2) for sign in signs):
            return max(rank, 1)
        rest = rest - s[rank] * np.outer(U[:, rank], Vt[rank])
    return min(max_rank, len(s))


def _edge(size: NDArray[np.int64]) -> float:
    """The largest singular value of a noise matrix of the given size and unit energy."""
    return float(np.sqrt(size).sum() / np.sqrt(size.prod()))


class MatricizedESTR(Policy):
    """Explore an unfolding, recover its subspaces, then be optimistic with a ridge estimate that favours them.

    Stage 2 plays the entry of largest ``<theta,a> + sqrt(m beta_t) ||a||``, the norm that of ``V^-1``, with
    ``sqrt(beta_t) = R sqrt(logdet V_t - logdet V_0 + log(1/delta^2)) + sqrt(lambda) ||Theta||_F``, ties to the lowest
    entry. It starts from the rewards of stage 1, which ends when its pulls are issued; every later reward counts when
    it is told. After the horizon the best entry is played.

    Parameters
    ----------
    shape, seed : as for every policy. ``context`` must be empty.
    rank : ``r`` of the unfolding, an int, lowered to its size; a tuple, of which the entry of ``mode`` counts; or
        ``"auto"``: from the spectrum of stage 1, which then goes on for as long as that rank asks.
    horizon : ``n``, the number of rounds planned.
    mode : the mode whose levels are the rows; all the others together are the columns.
    multiplier : ``m``, multiplies the squared radius. Theory has 1, with which the policy mostly explores; between 0.01
        and 0.001 it does far better.
    c_0 : ``T_1 = ceil(c_0 ((p_j + P) r - r^2))``. The paper takes the best of 0.1, 0.3, 0.5, 0.7 and 0.9.
    lambda_1 : ``lambda``, the ridge penalty inside; outside it is ``lambda_perp = T_2 / (k log(1 + T_2/lambda))``.
    delta : the probability with which the radius may fail.
    noise : ``R``; ``None`` is estimated from repeated pulls.
    norm : ``||Theta||_F``; ``None`` is estimated from stage 1.
    recovery : ``"alternating"`` (ridge) or ``"spectral"``, see :func:`recover`.

    >>> policy = MatricizedESTR((4, 3, 5), rank=1, horizon=300, multiplier=0.1, seed=0)
    >>> for _ in range(300):
    ...     cell = policy.ask()
    ...     policy.tell(cell, cell[0] * cell[1] * cell[2] / 24)
    >>> policy.best()
    (3, 2, 4)
    """

    def __init__(
        self,
        shape: Sequence[int],
        rank: Rank,
        *,
        horizon: int,
        mode: int = 0,
        context: Sequence[int] = (),
        multiplier: float = 1.0,
        c_0: float = 0.5,
        lambda_1: float = 0.1,
        delta: float = 0.2,
        noise: float | None = None,
        norm: float | None = None,
        recovery: str = "alternating",
        seed: int | np.random.SeedSequence | None = None,
    ) -> None:
        refuse_context("MatricizedESTR", context)
        super().__init__(shape, context=context, seed=seed)
        self.rank = rank
        self.horizon = check_count(horizon, "horizon")
        self.mode = _check_mode(mode, len(self.shape))
        self.multiplier = check_positive(multiplier, "multiplier")
        self.c_0, self.lambda_1 = check_positive(c_0, "c_0"), check_positive(lambda_1, "lambda_1")
        self.delta = check_positive(delta, "delta")
        if self.delta >= 1:
            raise ValueError(f"delta is {delta!r}; it is a probability: give a number above 0 and below 1")
        self.noise = None if noise is None else check_positive(noise, "noise")
        self.norm = None if norm is None else check_positive(norm, "norm")
        if recovery not in _RECOVERIES:
            raise ValueError(f"recovery is {recovery!r}; choose one of {_RECOVERIES}")
        self.recovery = recovery
        size = self.shape[self.mode]
        self._sizes = (size, math.prod(self.shape) // size)
        self._rank = _matrix_rank(rank, self.shape, self.mode)
        if (why := self.refusal(self.shape, rank, self.mode)) is not None:
            raise ValueError(why)
        self._target = self._stage_1(self._rank or 1)
        if self.horizon <= self._target:
            raise ValueError(
                f"horizon is {self.horizon}, but stage 1 takes T_1 = {self._target} rounds; give a horizon of at least "
                f"{self._target + 1}, or shorten stage 1 with a smaller c_0 or rank"
            )
        self._order = [self._rng.permutation(length) for length in self._sizes]
        self._issued = 0
        self._stage_2: LowOFUL | None = None
        self._norm = 0.0
        self._fit: tuple[float, Tucker] | None = None

    @classmethod
    def refusal(cls, shape: Sequence[int], rank: Rank = "auto", mode: int = 0) -> str | None:
        """Return why there are too many coordinates in the unfolding along a mode, or ``None``."""
        given = check_shape(shape)
        sizes = (given[mode], math.prod(given) // given[mode])
        r = _matrix_rank(rank, given, mode) or min(_MAX_RANK, *sizes)
        inside = theory.inside_coordinates(sizes, (r, r))
        if inside <= INSIDE_LIMIT:
            return None
        return (
            f"the unfolding of {given} has {inside} coordinates inside its subspaces; MatricizedESTR keeps a "
            f"matrix over them, which takes {8e-9 * inside**2:.3g} GB (at most {INSIDE_LIMIT} are allowed); "
            "unfold along another mode, lower the rank, or use TensorThompsonSampling, TensorEnsembleSampling or "
            "TensorEpochGreedy"
        )

    @classmethod
    def paper(cls, shape: Sequence[int], rank: Rank, *, horizon: int, **overrides: Any) -> Self:
        """Return the policy with the paper's values: the theory's radius, with noise 1 taken as known.

        >>> MatricizedESTR.paper((15, 15, 15), 2, horizon=10_000).multiplier
        1.0
        """
        values = {"multiplier": 1.0, "c_0": 0.5, "lambda_1": 0.1, "delta": 0.2, "noise": 1.0}
        return cls(shape, rank, horizon=horizon, **(values | overrides))

    def _inside(self, rank: int) -> int:
        return theory.inside_coordinates(self._sizes, (rank, rank))

    def _stage_1(self, rank: int) -> int:
        return max(1, math.ceil(self.c_0 * self._inside(rank) * (1 - 1e-12)))

    def _choose(self, levels: Cell) -> Cell:
        if self._stage_2 is None and self._issued >= self._target:
            self._end_stage_1()
        if self._stage_2 is None:
            entry = self._spread(self._issued)
        elif self._issued >= self.horizon:
            entry = self._argmax(self._stage_2.theta)
        else:
            entry = self._argmax(self._stage_2.theta + self._radius() * np.sqrt(self._stage_2.variance))
        self._issued += 1
        return self._cell(entry)

    def _spread(self, t: int) -> tuple[int, int]:
        """Return entry ``t`` of stage 1: along shifted diagonals, so rows and columns come evenly and entries once."""
        p, P = self._sizes
        row, column = t % p, (t + t // math.lcm(p, P)) % P
        return int(self._order[0][row]), int(self._order[1][column])

    def _end_stage_1(self) -> None:
        """Start stage 2 from what was told, unless a rank that was to be found asks for more rounds."""
        fit = self._recovered()
        rank = fit.rank[0]
        longer = min(self._stage_1(rank), self.horizon // 2)
        if longer > self._issued:
            self._target = longer
            return
        left_over = max(self.horizon - self._issued, 1)
        penalty = theory.perpendicular_penalty(left_over, self._inside(rank), lambda_1=self.lambda_1)
        self._stage_2 = LowOFUL(rotation(fit.factors[0]), fit.factors[1], self.lambda_1, penalty)
        self._norm = float(np.linalg.norm(fit.core)) if self.norm is None else self.norm
        data = self._matrix_ledger()
        for (row, column), count, total in zip(data.cells, data.counts, data.totals, strict=True):
            self._stage_2.update(int(row), int(column), float(count), float(total / count))

    def _radius(self) -> float:
        """Return ``sqrt(m beta_t)``."""
        assert self._stage_2 is not None
        R = noise_level(self.ledger, self.noise)
        spread = R * math.sqrt(self._stage_2.logdet + math.log(1.0 / self.delta**2))
        return math.sqrt(self.multiplier) * (spread + math.sqrt(self.lambda_1) * self._norm)

    def _observe(self, cell: Cell, reward: float) -> None:
        if self._stage_2 is not None:
            self._stage_2.update(*self._entry(cell), 1.0, reward)

    def _best(self, levels: Cell) -> Cell:
        if self._stage_2 is not None:
            return self._cell(self._argmax(self._stage_2.theta))
        row, column = self._recovered().best()
        return self._cell((row, column))

    def _estimate(self, cells: NDArray[np.int64]) -> NDArray[np.float64]:
        entries = self._entries(cells)
        if self._stage_2 is not None:
            return np.asarray(self._stage_2.theta[tuple(entries.T)])
        return self._recovered().at(entries)

    def _recovered(self) -> Tucker:
        """Return the recovery of stage 1 from what was told; it is kept until there is more."""
        if self._fit is None or self._fit[0] != self.ledger.rounds:
            data = self._matrix_ledger()
            rank = self._rank or matrix_rank(data)
            self._fit = (self.ledger.rounds, recover(data, rank, method=self.recovery))
        return self._fit[1]

    # Cells of the tensor and entries of its unfolding.

    def _matrix_ledger(self) -> Ledger:
        state = self.ledger.state()
        return Ledger.from_state({"shape": self._sizes, "cells": self._entries(state["cells"]), "sums": state["sums"]})

    def _entries(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        order = [self.mode, *(j for j in range(len(self.shape)) if j != self.mode)]
        moved = np.ravel_multi_index(tuple(cells[:, order].T), tuple(self.shape[j] for j in order))
        return np.stack(np.divmod(moved, self._sizes[1]), axis=1)

    def _entry(self, cell: Cell) -> tuple[int, int]:
        column = 0
        for j, level in enumerate(cell):
            if j != self.mode:
                column = column * self.shape[j] + level
        return cell[self.mode], column

    def _cell(self, entry: tuple[int, int]) -> Cell:
        others = [size for j, size in enumerate(self.shape) if j != self.mode]
        levels = [int(i) for i in np.unravel_index(entry[1], others)] if others else []
        levels.insert(self.mode, entry[0])
        return tuple(levels)

    def _argmax(self, values: Floats) -> tuple[int, int]:
        row, column = divmod(first_largest(values), self._sizes[1])
        return row, column

    # Saving and making again.

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = {"issued": self._issued, "target": self._target, "norm": self._norm}
        state |= {"rows": self._order[0].copy(), "columns": self._order[1].copy(), "stage": 1}
        if self._stage_2 is not None:
            state |= {"stage": 2, "logdet": self._stage_2.logdet}
            state |= {name: getattr(self._stage_2, name).copy() for name in _STAGE_2}
            state["G"] = np.tril(state["G"]) + np.tril(state["G"], -1).T
        return state

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._issued, self._target = int(state["issued"]), int(state["target"])
        self._norm = float(state["norm"])
        self._order = [np.array(state["rows"], dtype=np.int64), np.array(state["columns"], dtype=np.int64)]
        self._fit, self._stage_2 = None, None
        if int(state["stage"]) == 2:
            self._stage_2 = LowOFUL(np.array(state["left"]), np.array(state["W"]), self.lambda_1, self.lambda_1)
            for name in _STAGE_2:
                setattr(self._stage_2, name, np.array(state[name], dtype=np.float64))
            self._stage_2.G = np.ascontiguousarray(self._stage_2.G)
            self._stage_2.logdet = float(state["logdet"])


_STAGE_2 = ("left", "W", "G", "D", "theta", "variance")


def _matrix_rank(rank: Rank, shape: Cell, mode: int) -> int | None:
    """The rank of the unfolding along a mode; ``None`` stands for ``"auto"``."""
    sizes = (shape[mode], math.prod(shape) // shape[mode])
    if isinstance(rank, Integral):
        ranks = resolve_rank(rank, sizes)
        return None if ranks is None else ranks[0]
    ranks = resolve_rank(rank, shape)
    return None if ranks is None else min(ranks[mode], *sizes)


def _check_mode(mode: int, order: int) -> int:
    if isinstance(mode, bool) or not isinstance(mode, Integral) or not 0 <= mode < order:
        raise ValueError(f"mode is {mode!r}; it names the mode to unfold along: give one from 0 to {order - 1}")
    return int(mode)

"""Matricized ESTR, a baseline: a bandit for low-rank matrices, given the tensor unfolded into one (Jun et al. 2019).

Stage 1 explores the entries of the unfolding and recovers its subspaces (:mod:`tensorbandits.model.recovery`), stage 2
is an optimistic linear bandit that penalises what lies outside them (:mod:`.low_oful`).

Notation
--------
p_j, P      rows and columns of the unfolding           T_1, T_2    rounds of the two stages
k           coordinates inside, (p_j + P) r - r^2       R           standard deviation of the noise
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tensorbandits import theory
from tensorbandits.base.checks import (
    Cell,
    Rank,
    check_array,
    check_count,
    check_noise,
    check_positive,
    check_probability,
    check_shape,
    resolve_rank,
)
from tensorbandits.ledger import Ledger
from tensorbandits.model.likelihood import noise_level
from tensorbandits.model.recovery import MAX_RANK, matrix_rank, recover
from tensorbandits.policies.low_oful import LowOFUL
from tensorbandits.policies.query import Query
from tensorbandits.policies.staged import StagedPolicy
from tensorbandits.policies.subspace import INSIDE_LIMIT, first_largest
from tensorbandits.policies.traits import Traits
from tensorbandits.tensor.tucker import Floats, Tucker, rotation

_RECOVERIES = ("alternating", "spectral")
_REBUILD = 0.9


class MatricizedESTR(StagedPolicy):
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

    traits = Traits(contextual=False, plans=True, deterministic=True)
    _stage = ("_target", "_stage_2", "_norm", "_penalty", "_kept", "_fit")

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
        super().__init__(shape, context=context, seed=seed)
        self.rank = rank
        self.horizon = check_count(horizon, "horizon")
        self.mode = _check_mode(mode, len(self.shape))
        self.multiplier = check_positive(multiplier, "multiplier")
        self.c_0, self.lambda_1 = check_positive(c_0, "c_0"), check_positive(lambda_1, "lambda_1")
        self.delta = check_probability(delta, "delta")
        self.noise = check_noise(noise)
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
        self._stage_2: LowOFUL | None = None
        self._norm, self._penalty = 0.0, self.lambda_1
        self._kept = 1.0  # what is left of the weight of what stage 2 knows, after fading
        self._fit: tuple[int, Tucker] | None = None  # with the version of the ledger that it is of

    @classmethod
    def refusal(cls, shape: Sequence[int], rank: Rank = "auto", mode: int = 0) -> str | None:
        """Return why there are too many coordinates in the unfolding along a mode, or ``None``."""
        given = check_shape(shape)
        sizes = (given[mode], math.prod(given) // given[mode])
        r = _matrix_rank(rank, given, mode) or min(MAX_RANK, *sizes)
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

    def _over(self) -> bool:
        return self._issued >= self._target if self._stage_2 is None else self._kept < _REBUILD

    def _begin_stage(self) -> None:
        if self._stage_2 is None:
            self._end_stage_1()
        else:
            self._start_stage_2(self._stage_2.left, self._stage_2.W)

    def _choose_within(self, query: Query, rng: np.random.Generator) -> Cell:
        allowed = self._allowed(query)
        if self._stage_2 is None:
            entry = self._spread(self._issued)
            if allowed is not None:
                later = (self._spread(t) for t in range(self._issued, self._issued + allowed.size))
                entry = next((one for one in later if allowed[one]), self._argmax(allowed.astype(np.float64), allowed))
        elif self._issued >= self.horizon:
            entry = self._argmax(self._stage_2.theta, allowed)
        else:
            entry = self._argmax(self._stage_2.theta + self._radius() * np.sqrt(self._stage_2.variance), allowed)
        return self._cell(entry)

    def _allowed(self, query: Query) -> NDArray[np.bool_] | None:
        """Which entries of the unfolding are allowed, (p_j, P); ``None`` if all are."""
        mask = query.mask()
        return None if mask is None else np.moveaxis(mask.reshape(self.shape), self.mode, 0).reshape(self._sizes)

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
        self._penalty = theory.perpendicular_penalty(left_over, self._inside(rank), lambda_1=self.lambda_1)
        self._norm = float(np.linalg.norm(fit.core)) if self.norm is None else self.norm
        self._start_stage_2(rotation(fit.factors[0]), fit.factors[1])

    def _start_stage_2(self, left: Floats, W: Floats) -> None:
        """Start stage 2, in given subspaces, from all that was told, as far as it still counts."""
        self._stage_2 = LowOFUL(left, W, self.lambda_1, self._penalty)
        self._kept = 1.0
        data = self._matrix_ledger()
        for (row, column), count, total in zip(data.cells, data.counts, data.totals, strict=True):
            self._stage_2.update(int(row), int(column), float(count), float(total / count))

    def _radius(self) -> float:
        """Return ``sqrt(m beta_t)``."""
        assert self._stage_2 is not None
        R = noise_level(self._ledger, self.noise)
        spread = R * math.sqrt(self._stage_2.logdet + math.log(1.0 / self.delta**2))
        return math.sqrt(self.multiplier) * (spread + math.sqrt(self.lambda_1) * self._norm)

    def _observe(self, cell: Cell, count: float, total: float, note: Any) -> None:
        if self._stage_2 is not None:
            self._stage_2.update(*self._entry(cell), count, total / count)

    def _correct(self, cell: Cell, old: float, new: float, note: Any, weight: float) -> None:
        if self._stage_2 is not None:
            # Stage 2 counts what it was started from as of then, and what came since in full.
            self._stage_2.shift(*self._entry(cell), min(weight / self._kept, 1.0) * (new - old))

    def _fade(self, factor: float) -> None:
        """Stage 2 is started anew, at the next decision, whenever its past has lost a tenth of its weight."""
        self._kept *= factor

    def _best(self, query: Query) -> Cell:
        allowed = self._allowed(query)
        if self._stage_2 is not None:
            return self._cell(self._argmax(self._stage_2.theta, allowed))
        if allowed is not None:
            return self._cell(self._argmax(self._recovered().full(), allowed))
        row, column = self._recovered().best()
        return self._cell((row, column))

    def _estimate(self, cells: NDArray[np.int64]) -> NDArray[np.float64]:
        entries = self._entries(cells)
        if self._stage_2 is not None:
            return np.asarray(self._stage_2.theta[tuple(entries.T)])
        return self._recovered().at(entries)

    def _recovered(self) -> Tucker:
        """Return the recovery of stage 1 from what was told; it is kept until there is more."""
        if self._fit is None or self._fit[0] != self._ledger.version:
            data = self._matrix_ledger()
            rank = self._rank or matrix_rank(data)
            self._fit = (self._ledger.version, recover(data, rank, method=self.recovery))
        return self._fit[1]

    # Cells of the tensor and entries of its unfolding.

    def _matrix_ledger(self) -> Ledger:
        state = self._ledger.state()
        return Ledger.from_state(state | {"shape": self._sizes, "cells": self._entries(state["cells"])})

    def _entries(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.stack(self._entry(cells.T), axis=1)

    def _entry(self, cell: Any) -> tuple[Any, Any]:
        """Return the row and the column of a cell, or of many (d, n)."""
        column = 0 * cell[0]
        for j, level in enumerate(cell):
            if j != self.mode:
                column = column * self.shape[j] + level
        return cell[self.mode], column

    def _cell(self, entry: tuple[int, int]) -> Cell:
        others = [size for j, size in enumerate(self.shape) if j != self.mode]
        levels = [int(i) for i in np.unravel_index(entry[1], others)] if others else []
        levels.insert(self.mode, entry[0])
        return tuple(levels)

    def _argmax(self, values: Floats, allowed: NDArray[np.bool_] | None) -> tuple[int, int]:
        if allowed is None:
            return divmod(first_largest(values), self._sizes[1])
        some = np.flatnonzero(allowed)
        return divmod(int(some[first_largest(values.ravel()[some])]), self._sizes[1])

    # Saving and making again.

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = {
            name: getattr(self, f"_{name}") for name in ("issued", "target", "norm", "penalty", "kept")
        }
        state |= {"rows": self._order[0].copy(), "columns": self._order[1].copy()}
        return state | {"stage_2": self._stage_2.state() if self._stage_2 else {}}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._issued, self._target = (check_count(state[name], name, 0) for name in ("issued", "target"))
        self._norm, self._penalty, self._kept = (
            check_array(state[name], name, ()).item() for name in ("norm", "penalty", "kept")
        )
        names = zip(("rows", "columns"), self._sizes, strict=True)
        self._order = [check_array(state[name], name, (size,), integers=True) for name, size in names]
        if any((np.sort(order) != np.arange(len(order))).any() for order in self._order):
            raise ValueError("rows and columns are not each in some order")
        self._fit = None
        self._stage_2 = LowOFUL.from_state(state["stage_2"], *self._sizes) if state["stage_2"] else None


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

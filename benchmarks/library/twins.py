"""Plain NumPy twins that go on from the state of a policy at play, for ratios of speed.

The sampling policies draw the same numbers as their twins, and elimination and ESTR pull the same arms as theirs, which
keep a dense matrix over all cells and change it by one pull at a time. Epoch-greedy's twin completes from the spectral
start each time.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import lapack

import tensorbandits as tb
from tensorbandits.base.checks import resolve_rank
from tensorbandits.model.likelihood import noise_level
from tensorbandits.policies.epoch_greedy import TensorEpochGreedy
from tensorbandits.policies.exploration import Exploration
from tensorbandits.tensor.completion import Completion, CompletionInfo, _leading, _weigh, choose_rank
from tests.plain.completion import iterate
from tests.plain.dense import DenseRidge
from tests.plain.policies import plain
from tests.plain.sweep import PlainChain, row_by_row

DENSE_CELLS = 8_000  # a matrix over all of them takes 512 MB


class NoTwinError(Exception):
    """Says why there is nothing to compare with."""


def sampling(policy: Any, rows: Callable[..., Any] = row_by_row) -> Any:
    """Thompson or ensemble sampling with the rows of each mode one at a time, or all at once."""
    twin = plain(tb.Policy.from_state_dict(policy.state_dict()), rows)
    for sampler in getattr(twin.oracle, "samplers", []):
        sampler.chain = PlainChain(sampler.chain, rows) if sampler.chain else None
        sampler.ladder.chains = [PlainChain(chain, rows) for chain in sampler.ladder.chains]
    return twin


class PlainExploration(Exploration):
    """Explored rewards that are completed in plain NumPy, from the spectral start."""

    def complete(self, ledger, rank, *, centre, init=None):
        mean = float(ledger.totals.sum() / ledger.rounds) if centre and len(ledger) else 0.0
        ranks = resolve_rank(rank, self.shape) or choose_rank(ledger, centre=mean)
        draws = _weigh(ledger, None, mean)
        start = [_leading(draws, j, r)[1] for j, r in enumerate(ranks)]
        core, factors = iterate(draws.cells, draws.values, start, ranks)
        return Completion(core, tuple(factors), mean, CompletionInfo(tuple(ranks), 0, (), True))


class PlainEpochGreedy(TensorEpochGreedy):
    """Epoch-greedy whose completions start anew each time, and whose best cell is looked for."""

    def _completion(self):
        if self._fit is None:
            self._fit = self._exploration.complete(self.explored, self.rank, centre=self.centre)
        return self._fit

    def _best_of(self, fit, query):
        full = fit.full()
        return tuple(int(i) for i in np.unravel_index(int(full.argmax()), full.shape))


def epoch_greedy(policy: Any) -> PlainEpochGreedy:
    twin = copy.deepcopy(policy)
    twin.__class__, twin._exploration.__class__ = PlainEpochGreedy, PlainExploration
    return twin


class DenseElimination:
    """An open phase of elimination: the widest arm, one rank-one change of the whole inverse per pull.

    ``left`` is how many pulls the phase still has; it is not closed here.
    """

    def __init__(self, policy: tb.TensorElimination) -> None:
        _check_cells(policy.shape)
        ridge = policy._ridge
        if ridge is None:
            raise NoTwinError("it still explores uniformly")
        if len(policy._active) == 1:
            raise NoTwinError("one arm is left")
        counts = policy._start.copy()
        np.add.at(counts, policy._active[policy._pulls], 1.0)
        self.shape, self.active = policy.shape, policy._active.copy()
        self.left = policy._length() - len(policy._pulls)
        self.ridge = dense_ridge(ridge.factors, ridge.lambda_1, ridge.lambda_2, counts)

    def ask(self) -> tuple[int, ...]:
        arm = self.active[self.ridge.pull_widest(self.active)]
        return tuple(int(i) for i in np.unravel_index(arm, self.shape))

    def tell(self, cell: tuple[int, ...], reward: float) -> None:
        """A width does not depend on rewards."""


class DenseESTR:
    """Stage 2 of ESTR: estimates and widths of all entries from one inverse over all of them."""

    def __init__(self, policy: tb.MatricizedESTR) -> None:
        _check_cells(policy.shape)
        stage = policy._stage_2
        if stage is None:
            raise NoTwinError("it is still in stage 1")
        self.policy, self.ledger = policy, copy.deepcopy(policy.ledger)
        self.columns, self.norm = policy._sizes[1], policy._norm
        data = policy._matrix_ledger()
        counts, sums, _ = (part.ravel() for part in data.dense())
        r = stage.W.shape[1]
        penalty = float(stage.D.ravel()[0] - counts[0])
        self.ridge = dense_ridge((stage.left[:, :r], stage.W), policy.lambda_1, penalty, counts)
        self.ridge.sums, self.ridge.logdet = sums.copy(), stage.logdet

    def ask(self) -> tuple[int, ...]:
        policy = self.policy
        spread = noise_level(self.ledger, policy.noise) * math.sqrt(self.ridge.logdet + math.log(policy.delta**-2))
        radius = math.sqrt(policy.multiplier) * (spread + math.sqrt(policy.lambda_1) * self.norm)
        values = self.ridge.mean + radius * np.sqrt(self.ridge.variance)
        arm = int(np.argmax(values >= values.max() - 1e-10 * np.abs(values).max()))
        return policy._cell(divmod(arm, self.columns))

    def tell(self, cell: tuple[int, ...], reward: float) -> None:
        row, column = self.policy._entry(cell)
        self.ledger.record(cell, reward)
        self.ridge.tell(row * self.columns + column, reward)


def dense_ridge(factors: tuple[Any, ...], lambda_1: float, lambda_2: float, counts: Any) -> DenseRidge:
    """Return the dense ridge regression with given counts; its inverse is made in place, since it may take 512 MB."""
    K = len(counts)
    outside = np.ones((1, 1)) if factors else np.zeros((K, K))
    for U in factors:
        outside = np.kron(outside, np.eye(len(U)) - U @ U.T)
    outside *= lambda_2 - lambda_1
    outside.flat[:: K + 1] += lambda_1 + counts
    root, failed = lapack.dpotrf(outside.T, lower=1, overwrite_a=1)
    W, singular = lapack.dpotri(root, lower=1, overwrite_c=1)
    if failed or singular:
        raise ArithmeticError("the ridge matrix over all cells has no inverse")
    for start in range(0, K, 256):  # only its lower triangle was made
        some = slice(start, start + 256)
        corner = np.tril(W[some, some])
        W[some, some] = corner + np.tril(corner, -1).T
        W[some, start + 256 :] = W[start + 256 :, some].T
    ridge = DenseRidge(np.eye(1))
    ridge.W, ridge.sums = W.T, np.zeros(K)
    return ridge


def _check_cells(shape: tuple[int, ...]) -> None:
    cells = math.prod(shape)
    if cells > DENSE_CELLS:
        raise NoTwinError(f"a dense matrix over {cells:,} cells would take {8e-9 * cells**2:,.1f} GB")


TWINS: dict[str, Callable[..., Any]] = {
    "thompson": sampling,
    "ensemble": sampling,
    "epoch-greedy": epoch_greedy,
    "elimination": DenseElimination,
    "estr": DenseESTR,
}

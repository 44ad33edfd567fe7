"""The reward model: the low-rank posterior given a log, and given parts of it, for rows that it has not seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tensorbandits.evaluate.rows import Rows
from tensorbandits.model.rewards import Reward
from tensorbandits.policies.thompson import TensorThompsonSampling
from tensorbandits.tensor.tucker import Floats, Ints

FOLDS = 5
_PARTS = (0.4, 0.6, 0.8, 1.0)  # of the rows, told one after the other, so that structures are scored by what follows


@dataclass(frozen=True, eq=False)
class RewardModel:
    """What is expected of cells, which are known by their sorted numbers (u,).

    ``draws`` (m, u) are posterior draws of their mean rewards given all rows; ``held_out`` (folds, u) are the mean
    rewards given all rows but those of a fold; ``fold`` (n,) says which fold a row is of. ``expected`` (u,) is what is
    believed of them given all rows: the mean of draws, of revenue their median.
    """

    numbers: Ints
    draws: Floats
    expected: Floats
    held_out: Floats
    fold: Ints

    @classmethod
    def of(cls, rows: Rows, cells: Ints, kind: Reward, seed: np.random.SeedSequence, *, folds: bool) -> RewardModel:
        """Fit the model for cells (m, d), and once for each fold, if they are wanted."""
        *sources, dealing = seed.spawn(FOLDS + 2)
        numbers = np.unique(rows.number(cells))
        distinct = np.column_stack(np.unravel_index(numbers, rows.shape)).astype(np.int64)
        fold = np.random.default_rng(dealing).permutation(np.arange(len(rows)) % FOLDS)
        held_out = [
            _fitted(rows, fold != k, kind, source).estimate(distinct)
            for k, source in enumerate(sources[:FOLDS])
            if folds
        ]
        policy = _fitted(rows, np.ones(len(rows), dtype=bool), kind, sources[FOLDS])
        draws = policy.samples(distinct)
        expected = policy.typical(draws) if policy.ledger.kind else draws.mean(axis=0)
        return cls(numbers, draws, expected, np.array(held_out), fold)

    def places(self, rows: Rows, cells: Ints) -> Ints:
        """Return where cells (m, d) are among those that the model knows, (m,)."""
        return np.searchsorted(self.numbers, rows.number(cells))


def _fitted(rows: Rows, use: NDArray[np.bool_], kind: Reward, seed: np.random.SeedSequence) -> TensorThompsonSampling:
    """Return the posterior given the rows to be used, in an order of its own."""
    order, own = (np.random.default_rng(source) for source in seed.spawn(2))
    chosen = order.permutation(np.flatnonzero(use))
    # Cells may deviate from the tensor, so that a wrong structure costs little where the log says much.
    policy = TensorThompsonSampling(
        rows.shape, reward=kind, exploration=1.0, residual=True, seed=int(own.integers(2**32))
    )
    ends = [round(part * len(chosen)) for part in _PARTS]
    for begin, end in zip([0, *ends], ends, strict=False):
        part = policy.ledger.empty()
        part.add(rows.cells[chosen[begin:end]], rows.rewards[chosen[begin:end]])
        policy.tell_ledger(part)
        policy.learn()
    return policy

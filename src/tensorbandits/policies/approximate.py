"""Approximate Thompson sampling: play the best cell of a draw of the tensor (the paper's section S.4, Algorithm 4).

The frame of all sampling policies. An *oracle* maps the history to a random draw of the mean tensor; the closer
the law of its best cell is to the posterior law, the lower the regret (Theorem 3).
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tensorbandits.checks import Cell, Rank, check_cells, check_count, check_shape, feasible_rank, resolve_rank
from tensorbandits.ledger import Ledger
from tensorbandits.policies.base import Policy
from tensorbandits.tensor.sweep import Model
from tensorbandits.tensor.tucker import Floats, Tucker, best_cell, values_at

Draw = Tucker | Floats

SLOW_CORE = 512  # with more entries of the core a decision takes more than a tenth of a second
_LARGEST_CORE = 4096
_CORE_SECONDS = 2e-10  # per cubed entry of the core
_AUTO_CORE = 100
_AUTO_RANK = 4


class Oracle(Protocol):
    """What approximate Thompson sampling needs: a draw of the mean tensor given the ledger.

    A draw is a :class:`~tensorbandits.tensor.Tucker` or an array of the policy's shape. A plain function will do.
    """

    def __call__(self, ledger: Ledger, rng: np.random.Generator, /) -> Draw:
        """Return one draw of the mean tensor, given all rewards so far."""
        ...


class ApproximateThompsonSampling(Policy):
    """Thompson sampling with an oracle of your own.

    Parameters
    ----------
    shape, context, seed : as for every policy.
    oracle : ``oracle(ledger, rng)`` returns a random draw of the mean tensor: a ``Tucker`` or an array of ``shape``.
        It may keep state, in which case it must survive ``copy.deepcopy``.
    draws : how many draws ``best``, ``estimate`` and ``propensity`` average over.

    >>> def oracle(ledger, rng):
    ...     N, Y, _ = ledger.dense()
    ...     return Y / (N + 1) + rng.standard_normal(N.shape) / np.sqrt(N + 1)
    >>> policy = ApproximateThompsonSampling((2, 3), oracle, seed=0)
    >>> cell = policy.ask()
    >>> policy.tell(cell, 1.0)
    """

    def __init__(
        self,
        shape: Sequence[int],
        oracle: Oracle,
        *,
        context: Sequence[int] = (),
        draws: int = 64,
        seed: int | np.random.SeedSequence | None = None,
    ) -> None:
        super().__init__(shape, context=context, seed=seed)
        if not callable(oracle):
            raise TypeError(
                f"oracle is {oracle!r}; give a function oracle(ledger, rng) that returns a draw of the tensor"
            )
        self.oracle = oracle
        self.draws = check_count(draws, "draws")
        self._posterior: list[Draw] | None = None

    def _choose(self, levels: Cell) -> Cell:
        self._posterior = None
        return best_cell(self._checked(self.oracle(self.ledger, self._rng)), self._fixed(levels))

    def _observe(self, cell: Cell, reward: float) -> None:
        self._posterior = None

    def propensity(self, cell: Sequence[int]) -> float:
        """Return the share of draws that would choose this cell given its context levels.

        An estimate of the probability that the next ``ask`` returns it; nothing is changed.
        """
        (valid,) = check_cells([cell], self.shape).tolist()
        fixed = {j: valid[j] for j in self.context}
        chosen = [best_cell(draw, fixed) == tuple(valid) for draw in self._posterior_draws()]
        return float(np.mean(chosen))

    def _best(self, levels: Cell) -> Cell:
        """The cell of largest mean over the draws, among the cells that are best in one of them."""
        draws = self._posterior_draws()
        candidates = sorted({best_cell(draw, self._fixed(levels)) for draw in draws})
        return candidates[int(self._estimate(np.array(candidates)).argmax())]

    def _estimate(self, cells: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.asarray(np.mean([values_at(draw, cells) for draw in self._posterior_draws()], axis=0))

    def _posterior_draws(self) -> list[Draw]:
        """Draws given the ledger as it is, made on copies so that neither oracle nor generator moves."""
        if self._posterior is None:
            self._posterior = self._draw_copies(copy.deepcopy(self.oracle), copy.deepcopy(self._rng))
        return self._posterior

    def _draw_copies(self, oracle: Oracle, rng: np.random.Generator) -> list[Draw]:
        return [self._checked(oracle(self.ledger, rng)) for _ in range(self.draws)]

    def _checked(self, draw: Draw) -> Draw:
        if getattr(draw, "shape", None) != self.shape:
            raise ValueError(
                f"the oracle returned {type(draw).__name__} of shape {getattr(draw, 'shape', None)}; "
                f"it must return a Tucker tensor or an array of shape {self.shape}"
            )
        if isinstance(draw, np.ndarray) and not np.isfinite(draw).all():
            raise ValueError(
                "the oracle returned numbers that are not finite; every mean of a draw must be a finite number"
            )
        return draw

    def _state(self) -> dict[str, Any]:
        state = getattr(self.oracle, "state", None)
        return {"oracle": state()} if state else {}

    def _restore(self, state: Mapping[str, Any]) -> None:
        restore = getattr(self.oracle, "restore", None)
        if restore:
            restore(state["oracle"])


def sampling_rank(rank: Rank, shape: Cell) -> Cell:
    """Return the rank a sampler works with; ``"auto"`` is a generous cap, which a decaying prior then prunes."""
    ranks = resolve_rank(rank, shape)
    if ranks is None:
        cap = next(r for r in range(_AUTO_RANK, 0, -1) if r == 1 or r ** len(shape) <= _AUTO_CORE)
        ranks = feasible_rank([min(cap, size) for size in shape])
    if (why := core_refusal(ranks)) is not None:
        raise ValueError(why)
    if (entries := math.prod(ranks)) > SLOW_CORE:
        warnings.warn(
            f"rank {ranks} makes a core of {entries} entries, for which each sweep solves: a decision will take about "
            f"{_CORE_SECONDS * entries**3:.2g} s; lower the ranks if that is too long",
            stacklevel=4,
        )
    return ranks


def core_refusal(ranks: Cell) -> str | None:
    """Return why a core is too large to be sampled, or ``None``."""
    if math.prod(ranks) <= _LARGEST_CORE:
        return None
    return (
        f"rank {ranks} makes a core of {math.prod(ranks)} entries; at most {_LARGEST_CORE} are allowed, "
        "since each round solves for all of them: lower the ranks"
    )


class ModelOracle(Oracle, Protocol):
    """An oracle that keeps a model and changes it in place, so that a decision need not copy it."""

    def advance(self, ledger: Ledger, rng: np.random.Generator, /) -> Model:
        """Return the model of the next draw; it is valid until the oracle is used again."""
        ...

    def more(self, ledger: Ledger, rng: np.random.Generator, count: int, /) -> Iterator[Model]:
        """Yield the models of further draws given the same ledger, each valid until the next."""
        ...


class ModelSampling(ApproximateThompsonSampling):
    """Approximate Thompson sampling with a model oracle: the frame of the library's own sampling policies."""

    oracle: ModelOracle

    def _choose(self, levels: Cell) -> Cell:
        self._posterior = None
        return self.oracle.advance(self.ledger, self._rng).best(self._levels(levels))

    def _choose_many(self, rows: Sequence[Cell]) -> list[Cell]:
        if not rows:
            return []
        first = self._choose(rows[0])
        models = self.oracle.more(self.ledger, self._rng, len(rows) - 1)
        return [first, *(model.best(self._levels(row)) for row, model in zip(rows[1:], models, strict=True))]

    @classmethod
    def refusal(cls, shape: Sequence[int], rank: Rank = "auto") -> str | None:
        """Return why the core is too large, or ``None``."""
        ranks = resolve_rank(rank, check_shape(shape))
        return None if ranks is None else core_refusal(ranks)

    def _levels(self, levels: Cell) -> NDArray[np.int64]:
        """The context levels by mode, -1 where the mode is decided, shape (d,)."""
        fixed = np.full(len(self.shape), -1)
        if levels:
            fixed[list(self.context)] = levels
        return fixed

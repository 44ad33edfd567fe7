"""Tensor epoch-greedy: uniform rounds feed a completion, and greedy rounds play its best cell (Algorithm 2)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbandits import theory
from tensorbandits.checks import (
    Cell,
    Rank,
    check_count,
    check_positive,
    check_weights,
    feasible_rank,
    resolve_rank,
)
from tensorbandits.ledger import Ledger
from tensorbandits.policies.base import Policy
from tensorbandits.tensor.completion import Completion, CompletionInfo, cell_probabilities, complete
from tensorbandits.tensor.tucker import Floats, inner_product

_WAITING = 32  # greedy asks of one cell that are remembered while their rewards have not come
_RESTART = 1.1  # a completion starts from the spectra again when this much more has been explored
_REMEASURE = 1.05  # the error is measured again when this much more has been explored


class TensorEpochGreedy(Policy):
    """Explore uniformly for ``s_1`` rounds; then repeat: some greedy rounds, one uniform round.

    Only uniform rounds feed the completion, since it needs cells drawn independently of what was learned. A reward
    belongs to the last ask of its cell that has none yet; one that nobody asked for is kept in the ledger only.

    Parameters
    ----------
    shape, context, seed : as for every policy. Given a context, a uniform round draws the decided modes only, and the
        completion weights cells by the context frequencies seen.
    rank : an int (a cap, lowered for smaller modes), a tuple, or ``"auto"`` (chosen anew when a tenth more
        was explored).
    schedule : ``"paper"`` takes ``s_2k`` greedy rounds in epoch ``k`` (Theorem 2), which is 1 at any practical size, so
        that half of all rounds explore for ever; ``"adaptive"`` takes ``C_2 sqrt(k + 1) / error``, with the
        relative error of the completion measured between the completions of two halves of its data.
    C_0 : multiplies the number of initial rounds ``s_1``.
    C_2 : multiplies the number of greedy rounds.
    initial : the number of initial rounds ``s_1`` itself; ``None`` is the theory's.
    weights : one vector of sampling weights per *decided* mode, in order, instead of uniform draws.
    centre : complete the rewards about their mean, which then is a constant besides the tensor; the paper does not.
        Sampling cells at random blurs a completion in proportion to the size of rewards, so a large mean must go; the
        rank is then that of the deviations from it.

    >>> policy = TensorEpochGreedy((3, 4, 5), rank=2, context=(1,), seed=0)
    >>> cell = policy.ask((2,))
    >>> policy.tell(cell, 0.3)
    >>> cell[1]
    2
    """

    def __init__(
        self,
        shape: Sequence[int],
        rank: Rank,
        *,
        context: Sequence[int] = (),
        schedule: Literal["adaptive", "paper"] = "adaptive",
        C_0: float = 1.0,
        C_2: float = 1.0,
        initial: int | None = None,
        weights: Sequence[ArrayLike] | None = None,
        centre: bool = True,
        seed: int | np.random.SeedSequence | None = None,
    ) -> None:
        super().__init__(shape, context=context, seed=seed)
        if schedule not in ("adaptive", "paper"):
            raise ValueError(f'schedule is {schedule!r}; allowed are "adaptive" and "paper"')
        self.rank, self.schedule = rank, schedule
        self.C_0, self.C_2 = check_positive(C_0, "C_0"), check_positive(C_2, "C_2")
        self.initial = None if initial is None else check_count(initial, "initial")
        self.weights, self.centre = weights, bool(centre)
        self._weights = check_weights(weights, tuple(self.shape[j] for j in self.decided))
        ranks = resolve_rank(rank, self.shape)
        self._rank = ranks or feasible_rank([min(2, size) for size in self.shape])  # for the schedules only
        self._s_1 = self.initial or theory.initial_rounds(self.shape, self._rank, C_0=self.C_0)
        self.explored = Ledger(self.shape)
        self._halves = (Ledger(self.shape), Ledger(self.shape))
        self._pending: dict[Cell, list[bool]] = {}  # asks without a reward, by cell: whether each was uniform
        self._uniform_left = self._s_1
        self._greedy_left = 0
        self._epoch = 0
        self._measured = (0.0, 1.0)  # explored rounds, and error, when the error was last measured
        self._last: Completion | None = None  # of the last greedy round, where the next one starts from
        self._restarted = 0.0  # explored rounds when a completion last started from the spectra
        self._fit: Completion | None = None  # of the present data

    @classmethod
    def paper(cls, shape: Sequence[int], rank: Rank, **arguments: Any) -> Self:
        """Return the policy with the paper's values: its schedule, C_0 = C_2 = 1."""
        values: dict[str, Any] = {"schedule": "paper", "C_0": 1.0, "C_2": 1.0, "centre": False}
        return cls(shape, rank, **(values | arguments))

    def _choose(self, levels: Cell) -> Cell:
        if self._uniform_left == 0 and self._greedy_left == 0:  # the last uniform round is over: a new epoch
            self._greedy_left = self._greedy_rounds()
            self._epoch += 1
        uniform = self._uniform_left > 0
        if uniform:
            self._uniform_left -= 1
            cell = self._explore(levels)
        else:
            self._greedy_left -= 1
            self._uniform_left = int(self._greedy_left == 0)
            cell = self._best(levels)
            if self._last is not self._fit:
                self._restarted = self.explored.rounds if self._restart_due() else self._restarted
                self._last = self._fit
        waiting = self._pending.setdefault(cell, [])
        waiting.append(uniform)
        if not uniform and waiting.count(False) > _WAITING:
            waiting.remove(False)
        return cell

    def _explore(self, levels: Cell) -> Cell:
        fixed = self._fixed(levels)
        for at, j in enumerate(self.decided):
            if self._weights is None:
                fixed[j] = int(self._rng.integers(self.shape[j]))
            else:
                fixed[j] = int(self._rng.choice(self.shape[j], p=self._weights[at]))
        return tuple(fixed[j] for j in range(len(self.shape)))

    def _observe(self, cell: Cell, reward: float) -> None:
        waiting = self._pending.get(cell)
        if not waiting:
            return
        uniform = waiting.pop()
        if not waiting:
            del self._pending[cell]
        if not uniform:
            return
        self._halves[int(self.explored.rounds) % 2].add(cell, reward)
        self.explored.add(cell, reward)
        self._fit = None

    def _greedy_rounds(self) -> int:
        """The number of greedy rounds of the epoch that begins."""
        if self.schedule == "paper":
            return theory.exploitation_rounds(self._epoch, self.shape, self._rank, s_1=self._s_1, C_2=self.C_2)
        if self.explored.rounds >= _REMEASURE * self._measured[0]:
            self._measured = (self.explored.rounds, self.measured_error())
        return math.ceil(self.C_2 * math.sqrt(self._epoch + 1) / self._measured[1])

    def measured_error(self) -> float:
        """Return the relative error of the completion, measured between the completions of two halves of its data.

        Each half has an error larger by the square root of 2, and their difference again: hence a half of it. It is 1
        when nothing is known.
        """
        whole = float(np.linalg.norm(self._completion().core))
        if whole == 0.0 or min(len(half) for half in self._halves) == 0:
            return 1.0
        one, two = (self._complete(half, self._completion().info.rank) for half in self._halves)
        square = (one.core**2).sum() + (two.core**2).sum() - 2.0 * inner_product(one, two)
        return min(1.0, math.sqrt(max(float(square), 1e-24 * whole**2)) / (2.0 * whole))

    def _completion(self) -> Completion:
        """The completion of the present data.

        It goes on from the last greedy round's. Whenever there are a tenth more data than when it last did, it starts
        from the spectra as well, and the better one is kept: power iteration may stay near a start that was poor.
        """
        if self._fit is None:
            last, fits = self._last, []
            if last is None or self._restart_due():
                fits.append(self._complete(self.explored, self.rank))
            if last is not None and all(fit.info.rank == last.info.rank for fit in fits):
                fits.append(self._complete(self.explored, last.info.rank, init=last.factors))
            self._fit = max(fits, key=lambda fit: float(np.linalg.norm(fit.core)))
        return self._fit

    def _restart_due(self) -> bool:
        """Whether a completion of the present data starts from the spectra as well."""
        return self.explored.rounds >= max(_RESTART * self._restarted, 1.0)

    def _complete(self, ledger: Ledger, rank: Rank, init: Sequence[Floats] | None = None) -> Completion:
        probabilities = self._probabilities(ledger)
        mean = 0.0
        if self.centre and len(ledger):
            inverse = np.ones(len(ledger)) if probabilities is None else 1.0 / probabilities
            mean = float((inverse * ledger.totals).sum() / (inverse * ledger.counts).sum())
        return complete(ledger, rank, probabilities=probabilities, centre=mean, init=init)

    def _probabilities(self, ledger: Ledger) -> Floats | None:
        """The probability of each explored cell: its context's frequency times the law of the uniform draw."""
        if not self.context and self._weights is None:
            return None
        cells = ledger.cells
        decided = tuple(self.shape[j] for j in self.decided)
        chosen = cell_probabilities(self._weights, cells[:, list(self.decided)], decided)
        if not self.context or not len(ledger):
            return chosen
        _, at = np.unique(cells[:, list(self.context)], axis=0, return_inverse=True)
        seen = np.bincount(at.ravel(), weights=ledger.counts)
        return np.asarray(chosen * (seen / ledger.rounds)[at.ravel()])

    def _best(self, levels: Cell) -> Cell:
        return self._completion().best(self._fixed(levels))

    def _estimate(self, cells: NDArray[np.int64]) -> NDArray[np.float64]:
        return self._completion().at(cells)

    def _state(self) -> dict[str, Any]:
        return {
            "explored": self.explored.state(),
            "halves": {str(i): half.state() for i, half in enumerate(self._halves)},
            "pending": [[list(cell), list(waiting)] for cell, waiting in self._pending.items()],
            "counters": [self._uniform_left, self._greedy_left, self._epoch],
            "measured": list(self._measured),
            "last": _save(self._last) if self._last else {},
            "restarted": self._restarted,
            "current": self._last is not None and self._fit is self._last,
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.explored = Ledger.from_state(state["explored"])
        self._halves = (Ledger.from_state(state["halves"]["0"]), Ledger.from_state(state["halves"]["1"]))
        self._pending = {tuple(cell): list(waiting) for cell, waiting in state["pending"]}
        self._uniform_left, self._greedy_left, self._epoch = (int(n) for n in state["counters"])
        self._measured = (float(state["measured"][0]), float(state["measured"][1]))
        self._last = _load(state["last"]) if state.get("last") else None
        self._restarted = float(state.get("restarted", 0.0))
        self._fit = self._last if state.get("current") else None


def _save(fit: Completion) -> dict[str, Any]:
    factors = {str(j): U.copy() for j, U in enumerate(fit.factors)}
    return {"core": fit.core.copy(), "factors": factors, "offset": fit.offset}


def _load(state: Mapping[str, Any]) -> Completion:
    core = np.array(state["core"], dtype=np.float64)
    factors = tuple(np.array(state["factors"][str(j)], dtype=np.float64) for j in range(core.ndim))
    return Completion(core, factors, float(state["offset"]), CompletionInfo(core.shape, 0, (), True))

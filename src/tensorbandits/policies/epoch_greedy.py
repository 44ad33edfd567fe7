"""Tensor epoch-greedy: random rounds estimate the tensor, greedy rounds play its best cell (Algorithm 2)."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbandits import theory
from tensorbandits.base.checks import (
    Cell,
    Rank,
    check_array,
    check_count,
    check_positive,
    check_weights,
    feasible_rank,
    is_finite,
    resolve_rank,
)
from tensorbandits.ledger import Ledger
from tensorbandits.model.sweep import Model
from tensorbandits.policies.base import Policy
from tensorbandits.policies.exploration import Exploration
from tensorbandits.policies.query import Choice, Query
from tensorbandits.policies.traits import Traits
from tensorbandits.tensor.completion import Completion, CompletionInfo
from tensorbandits.tensor.tucker import inner_product

_GREEDY = 0.0  # the note of a greedy round, or -n if n of them are planned from it on; that of a uniform one is the
# number of tries, at least 1
_NOTHING = 1e-9  # a completion of a half that is this small beside the whole one says nothing
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
    anew : start each completion from the spectra, as in the paper, instead of from the last one's factors and from the
        spectra only when a tenth more was explored.

    >>> policy = TensorEpochGreedy((3, 4, 5), rank=2, context=(1,), seed=0)
    >>> cell = policy.ask((2,))
    >>> policy.tell(cell, 0.3)
    >>> cell[1]
    2
    """

    traits = Traits(grows=True, fades=True, learns_apart=True, learns_from_logs=False)

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
        anew: bool = False,
        seed: int | np.random.SeedSequence | None = None,
    ) -> None:
        super().__init__(shape, context=context, seed=seed)
        if schedule not in ("adaptive", "paper"):
            raise ValueError(f'schedule is {schedule!r}; allowed are "adaptive" and "paper"')
        self.rank, self.schedule = rank, schedule
        self.C_0, self.C_2 = check_positive(C_0, "C_0"), check_positive(C_2, "C_2")
        self.initial = None if initial is None else check_count(initial, "initial")
        self.weights, self.centre, self.anew = weights, bool(centre), bool(anew)
        self._weights = check_weights(weights, tuple(self.shape[j] for j in self.decided))
        ranks = resolve_rank(rank, self.shape)
        self._rank = ranks or feasible_rank([min(2, size) for size in self.shape])  # for the schedules only
        self._s_1 = self.initial or theory.initial_rounds(self.shape, self._rank, C_0=self.C_0)
        self._exploration = Exploration(self.shape, self.context, self._weights)
        self._halves = (Ledger(self.shape), Ledger(self.shape))
        self._uniform_left = self._s_1
        self._greedy_left = 0
        self._epoch = 0
        self._issued = 0
        self._measured = (0.0, 1.0)  # explored rounds, and error, when the error was last measured
        self._last: Completion | None = None  # what greedy rounds are decided from, and the next completion starts from
        self._packed: Model | None = None  # the same, for a quick search
        self._restarted = 0.0  # explored rounds when a completion last started from the spectra
        self._fit: Completion | None = None  # of the present data

    @classmethod
    def paper(cls, shape: Sequence[int], rank: Rank, **arguments: Any) -> Self:
        """Return the policy with the paper's values: its schedule, C_0 = C_2 = 1, completions that start anew."""
        values: dict[str, Any] = {"schedule": "paper", "C_0": 1.0, "C_2": 1.0, "centre": False, "anew": True}
        return cls(shape, rank, **(values | arguments))

    @property
    def explored(self) -> Ledger:
        """The rewards of uniform rounds."""
        return self._exploration.ledger

    def _ready(self) -> bool:
        return self._last is not None or self._uniform_left > 0

    def _learn(self) -> None:
        """Complete what was explored if a greedy round is next, and measure the error if an epoch begins with it."""
        if self._uniform_left:
            return
        fit = self._completion()
        measured = self.schedule == "adaptive" and not self._greedy_left
        if measured and self.explored.rounds >= _REMEASURE * self._measured[0]:
            self._measured = (self.explored.rounds, self._error())
        if self._last is not fit:
            self._restarted = self.explored.rounds if self._restart_due() else self._restarted
            self._last, self._packed = fit, Model.of(fit)

    def _choose(self, query: Query, rng: np.random.Generator) -> Choice:
        if self._uniform_left or self._packed is None:
            return Choice(*self._exploration.draw(query, rng))
        cell = self._packed.best(query.fixed, query.allowed)
        return Choice(cell, _GREEDY if self._greedy_left else -float(self._greedy_rounds()))

    def _issue(self, cell: Cell, note: Any) -> None:
        uniform = self._uniform_left > 0 if note is None else note > _GREEDY
        if self._uniform_left == 0 and self._greedy_left == 0:  # the last uniform round is over: an epoch begins
            self._greedy_left = self._greedy_rounds() if uniform or not note else round(-note)
            self._epoch += 1
        self._issued += 1
        if uniform:
            self._uniform_left = max(self._uniform_left - 1, 0)
        elif self._greedy_left and not self._uniform_left:  # else it was decided elsewhere, before others were known
            self._greedy_left -= 1
            self._uniform_left = int(self._greedy_left == 0)

    def _observe(self, cell: Cell, count: float, total: float, note: Any) -> None:
        if note is None or note <= _GREEDY:
            return
        reward = total / count  # a decision is one draw, however many trials it had
        self._halves[int(self.explored.received) % 2].record(cell, reward)
        self._exploration.record(cell, reward, float(note))
        self._fit = None

    def _correct(self, cell: Cell, old: float, new: float, note: Any, weight: float) -> None:
        if note is not None and note <= _GREEDY:
            return
        self._exploration.correct(cell, old, new, weight)
        for half in self._halves:  # which of them had it does not matter where both could have
            with contextlib.suppress(ValueError):
                half.replace(cell, old, new, weight)
                break
        self._fit = None

    def _check_note(self, note: Any) -> None:
        if not is_finite(note) or _GREEDY < note < 1 or (note < _GREEDY and note != round(note)):
            raise ValueError(f"the note is {note!r}; give the one of the decision, which decide returned, or None")

    def _observe_ledger(self, ledger: Ledger) -> None:
        """Rewards of cells that wait for some are taken for theirs, each as the mean of its cell's."""
        for entry in ledger:
            for _ in range(int(entry.rounds)):
                if (note := self._notes.take(entry.cell)) is None:
                    break
                self._observe(entry.cell, 1.0, entry.total / entry.rounds, note)

    def _fade(self, factor: float) -> None:
        self._exploration.fade(factor)
        for half in self._halves:
            half.fade(factor)
        # What was explored when the error was measured counts less as well: so new rewards are noticed beside it.
        self._measured = (factor * self._measured[0], self._measured[1])
        self._restarted *= factor
        self._fit = None

    def _grow(self, shape: Cell) -> None:
        """Explore as many rounds as the new cells are of all, then go on; what is believed of them is the mean."""
        self._exploration.grow(shape)
        for half in self._halves:
            half.grow_to(shape)
        ranks = resolve_rank(self.rank, shape)
        self._rank = ranks or feasible_rank([min(2, size) for size in shape])
        self._s_1 = self.initial or theory.initial_rounds(shape, self._rank, C_0=self.C_0)
        self._uniform_left += math.ceil(self._s_1 * (1.0 - math.prod(self.shape) / math.prod(shape)))
        self._greedy_left, self._measured, self._fit = 0, (0.0, 1.0), None
        if self._last is not None:
            kept = ranks is None or self._last.info.rank == ranks
            self._last = _grown(self._last, shape) if kept else None
            self._packed = Model.of(self._last) if self._last else None

    def refusal_to_grow(self, shape: Sequence[int]) -> str | None:
        """Return why the exploration cannot follow a new level, or ``None``."""
        return super().refusal_to_grow(shape) or self._exploration.refusal_to_grow()

    def _greedy_rounds(self) -> int:
        """The number of greedy rounds of the epoch that begins: never more than all rounds before it."""
        if self.schedule == "paper":
            return theory.exploitation_rounds(self._epoch, self.shape, self._rank, s_1=self._s_1, C_2=self.C_2)
        return min(math.ceil(self.C_2 * math.sqrt(self._epoch + 1) / self._measured[1]), max(self._issued, 1))

    def measured_error(self) -> float:
        """Return the relative error of the completion, measured between the completions of two halves of its data.

        Each half has an error larger by the square root of 2, and their difference again: hence a half of it. It is 1
        when nothing is known, as when one of the halves says nothing.
        """
        with self._turns.still():
            return self._error()

    def _error(self) -> float:
        whole = float(np.linalg.norm(self._completion().core))
        if whole == 0.0 or min(len(half) for half in self._halves) == 0:
            return 1.0
        rank = self._completion().info.rank
        one, two = (self._exploration.complete(half, rank, centre=self.centre) for half in self._halves)
        if min(np.linalg.norm(one.core), np.linalg.norm(two.core)) <= _NOTHING * whole:
            return 1.0
        square = (one.core**2).sum() + (two.core**2).sum() - 2.0 * inner_product(one, two)
        return min(1.0, math.sqrt(max(float(square), 1e-24 * whole**2)) / (2.0 * whole))

    def _completion(self) -> Completion:
        """The completion of the present data.

        Unless each is to start anew, it goes on from the last greedy round's. Whenever there are a tenth more data than
        when it last did, it starts from the spectra as well, and the better one is kept: power iteration may stay near
        a start that was poor.
        """
        if self._fit is None:
            last, fits = None if self.anew else self._last, []
            if last is None or self._restart_due():
                fits.append(self._exploration.complete(self.explored, self.rank, centre=self.centre))
            if last is not None and all(fit.info.rank == last.info.rank for fit in fits):
                rank, init = last.info.rank, last.factors
                fits.append(self._exploration.complete(self.explored, rank, centre=self.centre, init=init))
            self._fit = max(fits, key=lambda fit: float(np.linalg.norm(fit.core)))
        return self._fit

    def _restart_due(self) -> bool:
        """Whether a completion of the present data starts from the spectra as well."""
        return self.explored.rounds >= max(_RESTART * self._restarted, 1.0)

    def _best(self, query: Query) -> Cell:
        return Model.of(self._completion()).best(query.fixed, query.allowed)

    def _estimate(self, cells: NDArray[np.int64]) -> NDArray[np.float64]:
        return self._completion().at(cells)

    def _state(self) -> dict[str, Any]:
        return {
            "exploration": self._exploration.state(),
            "halves": {str(i): half.state() for i, half in enumerate(self._halves)},
            "counters": [self._uniform_left, self._greedy_left, self._epoch, self._issued],
            "measured": list(self._measured),
            "last": _save(self._last) if self._last else {},
            "restarted": self._restarted,
            "current": self._last is not None and self._fit is self._last,
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._exploration.restore(state["exploration"])
        one, two = (Ledger.from_state(state["halves"][name]) for name in ("0", "1"))
        if not one.shape == two.shape == self.shape:
            raise ValueError(f"the halves have shapes {one.shape} and {two.shape} instead of {self.shape}")
        self._halves = (one, two)
        counters = [check_count(number, "a counter", 0) for number in state["counters"]]
        self._uniform_left, self._greedy_left, self._epoch, self._issued = counters
        rounds, error = check_array(state["measured"], "measured", (2,)).tolist()
        self._measured = (rounds, check_positive(error, "the measured error"))
        self._last = _load(state["last"], self.shape) if state["last"] else None
        self._packed = Model.of(self._last) if self._last else None
        self._restarted = check_array(state["restarted"], "restarted", ()).item()
        self._fit = self._last if state["current"] else None


def _grown(fit: Completion, shape: Cell) -> Completion:
    """A completion with more levels, of which nothing is known."""
    rows = [np.zeros((p - len(U), U.shape[1])) for p, U in zip(shape, fit.factors, strict=True)]
    factors = tuple(np.vstack([U, more]) for U, more in zip(fit.factors, rows, strict=True))
    return Completion(fit.core, factors, fit.offset, fit.info)


def _save(fit: Completion) -> dict[str, Any]:
    factors = {str(j): U.copy() for j, U in enumerate(fit.factors)}
    return {"core": fit.core.copy(), "factors": factors, "offset": fit.offset}


def _load(state: Mapping[str, Any], shape: Cell) -> Completion:
    rank = np.shape(state["core"])
    if len(rank) != len(shape):
        raise ValueError(f"the core has {len(rank)} modes instead of {len(shape)}")
    fit = Model.from_state(state, shape, rank).tensor()
    return Completion(fit.core, fit.factors, fit.offset, CompletionInfo(rank, 0, (), True))

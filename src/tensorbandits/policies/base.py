"""The contract of every policy: ask for a cell, tell its reward, in any order, at any time, or never.

A policy sees integer cells only. A subclass implements ``_choose``, ``_best`` and ``_estimate``; when it holds more
than the ledger, ``_observe``, ``_state`` and ``_restore``; when a batch can share work, ``_choose_many``. Each argument
of its constructor is kept under its own name, which is how a saved policy is made again.
"""

from __future__ import annotations

import copy
import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbandits.checks import (
    Cell,
    Rank,
    check_cell,
    check_cells,
    check_context,
    check_levels,
    check_reward,
    check_rewards,
    check_seed,
    check_shape,
    is_sequence,
)
from tensorbandits.ledger import Ledger

STATE_VERSION = 1
_SALT = 0x7E9507


class Policy(ABC):
    """What every policy can do.

    Parameters
    ----------
    shape : the number of levels of each mode.
    context : positions of the modes that are given rather than decided; ``()`` means none.
    seed : an int, a ``SeedSequence``, or ``None`` for fresh randomness.

    >>> from tensorbandits import VectorizedUCB
    >>> policy = VectorizedUCB((2, 3), context=(0,))
    >>> cell = policy.ask((1,))  # the whole cell; its first level is the context's
    >>> policy.tell(cell, 0.5)
    >>> policy.tell_many([(0, 0), (0, 2)], [0.1, 0.9])
    >>> policy.best((0,)), policy.estimate([(0, 2), (1, 0)]).tolist()
    ((0, 2), [0.9, 0.5])
    >>> again = Policy.from_state_dict(policy.state_dict())
    >>> again.ask((1,)) == policy.ask((1,))
    True
    """

    _kinds: ClassVar[dict[str, type[Policy]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Policy._kinds[cls.__name__] = cls

    def __init__(
        self,
        shape: Sequence[int],
        *,
        context: Sequence[int] = (),
        seed: int | np.random.SeedSequence | None = None,
    ) -> None:
        self.shape = check_shape(shape)
        self.context = check_context(context, self.shape)
        self.decided: Cell = tuple(j for j in range(len(self.shape)) if j not in self.context)
        self.ledger = Ledger(self.shape)
        # An int is salted: a policy and a world that are given the same seed must not draw the same numbers.
        checked = check_seed(seed)
        self._rng = np.random.default_rng([checked, _SALT] if isinstance(checked, int) else checked)

    # What a subclass implements.

    @abstractmethod
    def _choose(self, levels: Cell) -> Cell:
        """Return the cell to play, given valid context levels."""

    def _choose_many(self, rows: Sequence[Cell]) -> list[Cell]:
        """Return the cells to play, given valid context levels each; a policy that can share work does so here."""
        return [self._choose(row) for row in rows]

    def _observe(self, cell: Cell, reward: float) -> None:  # noqa: B027  (most policies need only the ledger)
        """Take note of a valid reward; the ledger already holds it."""

    def _state(self) -> dict[str, Any]:
        """Return what the policy holds beyond its ledger and generator: arrays, numbers, strings, nested dicts."""
        return {}

    def _restore(self, state: Mapping[str, Any]) -> None:  # noqa: B027
        """Take back what ``_state`` returned."""

    @abstractmethod
    def _best(self, levels: Cell) -> Cell:
        """Return the cell believed best, given valid context levels, without changing anything."""

    @abstractmethod
    def _estimate(self, cells: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the believed mean rewards of valid cells (n, d), shape (n,), without changing anything."""

    # What a caller uses.

    @classmethod
    def refusal(cls, shape: Sequence[int], rank: Rank = "auto") -> str | None:
        """Return why no such policy can be made for a problem of this size, or ``None``."""
        return None

    def ask(self, levels: Sequence[int] = ()) -> Cell:
        """Return the cell to play, a tuple of ints, given the levels of the context modes in order."""
        return self._choose(check_levels(levels, self.context, self.shape))

    def tell(self, cell: Sequence[int], reward: float) -> None:
        """Learn the reward of a cell: any time later, in any order, or never."""
        valid, value = check_cell(cell, self.shape), check_reward(reward)
        self.ledger.record(valid, value)
        self._observe(valid, value)

    def ask_many(self, levels: ArrayLike | int) -> list[Cell]:
        """Return one cell per row of context levels (n, number of context modes), as asking one by one would.

        A policy without context takes the number of cells wanted.
        """
        return self._choose_many(self._check_many(levels))

    def tell_many(self, cells: ArrayLike, rewards: ArrayLike) -> None:
        """Learn many rewards, as telling one by one would; one invalid row refuses them all."""
        valid = check_cells(cells, self.shape)
        values = check_rewards(rewards, len(valid))
        self.ledger.add(valid, values)
        for cell, value in zip(valid.tolist(), values.tolist(), strict=True):
            self._observe(tuple(cell), value)

    def best(self, levels: Sequence[int] = ()) -> Cell:
        """Return the cell believed best given the context levels; explores nothing and changes nothing."""
        return self._best(check_levels(levels, self.context, self.shape))

    def estimate(self, cells: ArrayLike) -> NDArray[np.float64]:
        """Return the believed mean rewards of cells (n, d), shape (n,)."""
        return self._estimate(check_cells(cells, self.shape))

    def _check_many(self, levels: Any) -> list[Cell]:
        if isinstance(levels, (int, np.integer)) and not isinstance(levels, bool):
            if self.context:
                raise ValueError(
                    f"{levels} is a number; this policy has context modes {self.context}: "
                    f"give an array of shape (n, {len(self.context)}), one row of levels per cell wanted"
                )
            if levels < 0:
                raise ValueError(f"cannot ask for {levels} cells; ask for 0 or more")
            return [()] * int(levels)
        if not is_sequence(levels):
            raise TypeError(
                f"levels is {levels!r}; give one row of context levels per cell wanted, or a number of cells"
            )
        return [check_levels(row, self.context, self.shape) for row in levels]

    def _fixed(self, levels: Cell) -> dict[int, int]:
        """The context levels by mode."""
        return dict(zip(self.context, levels, strict=True))

    # Saving and making again.

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on exactly from here: arrays, numbers, strings and nested dicts."""
        return {
            "policy": type(self).__name__,
            "version": STATE_VERSION,
            "arguments": self._arguments(),
            "rng": self._rng.bit_generator.state,
            "ledger": self.ledger.state(),
            "state": self._state(),
        }

    def _arguments(self) -> dict[str, Any]:
        names = [name for name in inspect.signature(type(self).__init__).parameters if name not in ("self", "seed")]
        return {name: copy.deepcopy(getattr(self, name)) for name in names}

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any]) -> Self:
        """Return the policy that :meth:`state_dict` described; it goes on identically."""
        kind = Policy._kinds.get(str(state.get("policy")))
        if kind is None or not issubclass(kind, cls):
            raise ValueError(
                f"the state is of a {state.get('policy')!r}, not of {cls.__name__}; "
                f"use that class, or Policy, which knows {sorted(Policy._kinds)}"
            )
        missing = [key for key in ("arguments", "rng", "ledger", "state") if key not in state]
        if missing:
            raise ValueError(f"the state lacks {missing}; give what state_dict returned, whole")
        if state.get("version") != STATE_VERSION:
            raise ValueError(
                f"the state has version {state.get('version')!r}; this release reads version {STATE_VERSION}"
            )
        policy = kind(**copy.deepcopy(dict(state["arguments"])))
        policy._rng.bit_generator.state = state["rng"]
        policy.ledger = Ledger.from_state(state["ledger"])
        policy._restore(state["state"])
        return policy


def refuse_context(policy: str, context: Sequence[int]) -> None:
    """Raise the error of a policy that cannot take context."""
    if not is_sequence(context) or len(context):
        raise ValueError(
            f"{policy} takes no context, but context={context!r} was given; use TensorThompsonSampling, "
            "TensorEnsembleSampling, TensorEpochGreedy or VectorizedUCB, which do"
        )

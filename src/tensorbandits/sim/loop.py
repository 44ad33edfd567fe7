"""The one round loop, for every policy and every environment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorbandits.base.checks import check_count
from tensorbandits.base.frames import Backend, to_frame
from tensorbandits.policies.base import Policy
from tensorbandits.sim.environment import TensorEnvironment


@dataclass(frozen=True)
class Trace:
    """What happened in ``n`` rounds.

    ``cells`` (n, d) are the cells played, contexts included; ``rewards`` (n,) what they paid; ``regret`` (n,)
    is cumulative and free of noise; ``seconds`` is the time spent inside the policy, in ask and tell.

    >>> trace = Trace(np.array([[0, 1]]), np.array([0.5]), np.array([0.25]), 1e-6)
    >>> trace
    Trace(rounds=1, regret=0.25, microseconds=1)
    """

    cells: NDArray[np.int64]
    rewards: NDArray[np.float64]
    regret: NDArray[np.float64]
    seconds: float

    def __len__(self) -> int:
        return len(self.rewards)

    def __repr__(self) -> str:
        if not len(self):
            return "Trace(rounds=0)"
        return f"Trace(rounds={len(self)}, regret={self.regret[-1]:.6g}, microseconds={self.microseconds:.3g})"

    def to_frame(self, backend: Backend | None = None) -> Any:
        """Return a row per round: the level of each mode, the reward and the cumulative regret.

        ``backend`` is ``"pandas"``, ``"polars"`` or ``"pyarrow"``; by default the first of these that is installed.

        >>> Trace(np.array([[0, 1]]), np.array([0.5]), np.array([0.25]), 1e-6).to_frame().shape
        (1, 5)
        """
        modes = {f"mode_{j}": self.cells[:, j] for j in range(self.cells.shape[1])}
        numbers = {"reward": self.rewards, "regret": self.regret}
        return to_frame({"round": np.arange(1, len(self) + 1), **modes, **numbers}, backend)

    @property
    def microseconds(self) -> float:
        """The mean time of a round inside the policy, in microseconds."""
        return 1e6 * self.seconds / len(self)


def simulate(
    policy: Policy, env: TensorEnvironment, horizon: int, *, progress: Callable[[int], None] | None = None
) -> Trace:
    """Let a policy play ``horizon`` rounds in an environment and return the :class:`Trace`.

    Both go on from where they are: call it again to play on. ``progress`` is called after each round with the
    number of rounds played.

    >>> from tensorbandits.policies.ucb import VectorizedUCB
    >>> env = TensorEnvironment(np.array([[0.0, 1.0], [2.0, 5.0]]), noise=0.1, seed=0)
    >>> trace = simulate(VectorizedUCB((2, 2)), env, horizon=100)
    >>> trace.cells.shape, bool(trace.regret[-1] < 40)
    ((100, 2), True)
    """
    rounds = check_count(horizon, "horizon")
    _check_match(policy, env)
    cells = np.zeros((rounds, len(env.shape)), dtype=np.int64)
    rewards, regret, seconds = np.zeros(rounds), np.zeros(rounds), 0.0
    for t in range(rounds):
        levels = env.context()
        start = perf_counter()
        cell = policy.ask(levels)
        seconds += perf_counter() - start
        reward = env.pull(cell)
        start = perf_counter()
        policy.tell(cell, reward)
        seconds += perf_counter() - start
        cells[t], rewards[t], regret[t] = cell, reward, env.regret(cell)
        if progress is not None:
            progress(t + 1)
    return Trace(cells, rewards, np.cumsum(regret), seconds)


def _check_match(policy: Policy, env: TensorEnvironment) -> None:
    if policy.shape != env.shape:
        raise ValueError(
            f"the policy has shape {policy.shape}, the environment {env.shape}; make both with the same shape"
        )
    if policy.context != env.context_modes:
        raise ValueError(
            f"the policy has context modes {policy.context}, the environment {env.context_modes}; "
            "give both the same context, in the same order"
        )

"""The clock of the timing suites: a policy at play, the time of each of its rounds, and a twin beside it."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from functools import cache
from time import perf_counter
from typing import Any

import numpy as np

import tensorbandits as tb
from tensorbandits.policies.registry import find, records

SIGNAL, NOISE = 0.5, 1.0
POLICIES = {record.name: record.label for record in records()}
# Their rounds are unlike each other, so a median would leave out what is done in a few of them.
UNEVEN = ("epoch-greedy", "elimination")


def make(policy: str, shape: tuple[int, ...], rank: int, horizon: int, seed: int = 0, **arguments: Any) -> tb.Policy:
    """Return a policy with its defaults, told the rank if it uses one."""
    record = find(policy)
    told = {"rank": rank} if record.takes("rank") else {}
    return record.make(shape, horizon=horizon, seed=seed, **told, **arguments)


@dataclass
class Game:
    """A player, anything with ask and tell, in an environment; ``times`` holds the seconds of each round."""

    player: Any
    env: tb.TensorEnvironment
    times: list[float] = field(default_factory=list)
    cells: list[tuple[int, ...]] = field(default_factory=list)

    def play(self, until: int, seconds: float = np.inf) -> bool:
        """Play up to a round, or until the time is used up; return whether the round was reached."""
        stop = perf_counter() + seconds
        while len(self.times) < until and perf_counter() < stop:
            self.step()
        return len(self.times) >= until

    def step(self) -> float:
        """Play one round; return what ask and tell took."""
        start = perf_counter()
        cell = self.player.ask()
        asked = perf_counter() - start
        reward = self.env.pull(cell)
        start = perf_counter()
        self.player.tell(cell, reward)
        self.times.append(asked + perf_counter() - start)
        self.cells.append(cell)
        return self.times[-1]

    def beside(self, twin: Any) -> Game:
        """A twin that goes on from here, in a copy of the environment."""
        return Game(twin, copy.deepcopy(self.env))

    def agrees(self, twin: Game, since: int) -> int:
        """How many of the twin's first pulls are ours after a round."""
        same = [one == two for one, two in zip(self.cells[since:], twin.cells)]
        return same.index(False) if False in same else len(same)


def game(
    policy: str, p: int, *, order: int = 3, rank: int = 2, horizon: int = 10_000, seed: int = 0, **arguments: Any
) -> Game:
    """A policy on the paper's problem."""
    player = make(policy, (p,) * order, rank, horizon, seed, **arguments)
    mean = tb.paper_tensor(p, SIGNAL, order=order, rank=rank, seed=seed)
    return Game(player, tb.TensorEnvironment(mean, noise=NOISE, seed=seed))


def warm_up(policy: str, *, order: int = 3, rank: int = 2) -> None:
    """Have everything compiled that a policy uses."""
    game(policy, max(4, rank + 1), order=order, rank=rank, horizon=2_000).play(300, 10.0)


@cache
def warm_up_all() -> None:
    """Have everything compiled, once per process."""
    for policy in POLICIES:
        warm_up(policy)


def window(checkpoint: int) -> int:
    """How many rounds before a checkpoint are looked at."""
    return min(500, max(1, checkpoint // 10))


def per_round(policy: str, times: list[float]) -> float:
    """Microseconds per round: the median, or the mean of a policy whose rounds are unlike each other."""
    return 1e6 * float(np.mean(times) if policy in UNEVEN else np.median(times))


def median_interval(values: np.ndarray) -> tuple[float, float]:
    """The 95 % interval of the median between two of the values, as many from each end; NaN where none is so sure."""
    from scipy import stats

    out = int(stats.binom.ppf(0.025, len(values), 0.5)) - 1
    ordered = np.sort(values)
    return (math.nan, math.nan) if out < 0 else (float(ordered[out]), float(ordered[-1 - out]))

"""One policy in one environment, once: a pure function of its settings, whichever process runs it."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tensorbandits.base.checks import check_installed
from tensorbandits.policies.base import Policy
from tensorbandits.sim.environment import TensorEnvironment
from tensorbandits.sim.loop import simulate
from tensorbandits.sim.recipes import PolicyRecipe
from tensorbandits.tensor.tucker import Floats, Ints

PolicyFactory = Callable[[np.random.SeedSequence], Policy]
EnvironmentFactory = Callable[[int], TensorEnvironment]

_EVEN, _EARLY = 300, 200  # points of a regret curve that are kept: evenly spaced, and more of them early on


@dataclass(frozen=True)
class Job:
    """One policy in one environment, once: everything that :func:`run_job` needs.

    Replication ``i`` plays in ``make_environment(seed + i)`` with the policy
    ``make_policy(SeedSequence(seed, spawn_key=(i,)))``: every policy meets the same mean tensor, the same
    contexts and the same stream of noise. A :class:`PolicyRecipe` in place of the function sees the environment too.

    >>> job = Job("small", "ucb", 3, lambda seed: None, lambda seed: None, horizon=10)
    >>> job.environment, job.replication
    ('small', 3)
    """

    environment: str
    policy: str
    replication: int
    make_environment: EnvironmentFactory
    make_policy: PolicyFactory | PolicyRecipe
    horizon: int
    seed: int = 0

    def world(self) -> TensorEnvironment:
        """Return a fresh environment."""
        return self.make_environment(self.seed + self.replication)

    def player(self, environment: TensorEnvironment) -> Policy:
        """Return a fresh policy for the environment."""
        seed = np.random.SeedSequence(self.seed, spawn_key=(self.replication,))
        if isinstance(self.make_policy, PolicyRecipe):
            return self.make_policy.make(environment, self.horizon, seed)
        return self.make_policy(seed)


@dataclass(frozen=True)
class Run:
    """What a job gave: cumulative ``regret`` (k,) after ``rounds`` (k,), and the seconds inside the policy.

    >>> run = Run("small", "ucb", 0, np.array([5, 10]), np.array([2.0, 3.0]), 1e-5)
    >>> run.final, run.microseconds
    (3.0, 1.0)
    """

    environment: str
    policy: str
    replication: int
    rounds: Ints
    regret: Floats
    seconds: float

    def __repr__(self) -> str:
        last = f"rounds={int(self.rounds[-1])}, final={self.final:.6g}" if len(self.rounds) else "rounds=0"
        return f"Run({self.environment!r}, {self.policy!r}, replication={self.replication}, {last})"

    @property
    def final(self) -> float:
        """The cumulative regret after the last round."""
        return float(self.regret[-1])

    @property
    def microseconds(self) -> float:
        """The mean time of a round inside the policy, in microseconds."""
        return 1e6 * self.seconds / int(self.rounds[-1])


def run_job(job: Job) -> Run:
    """Run one job in this process, with one thread for linear algebra.

    >>> from tensorbandits.policies.ucb import VectorizedUCB
    >>> make = lambda seed: TensorEnvironment(np.eye(2), noise=0.0, seed=seed)
    >>> run_job(Job("eye", "ucb", 0, make, lambda seed: VectorizedUCB((2, 2)), horizon=4)).final
    2.0
    """
    check_installed("running a comparison", "threadpoolctl")
    with one_thread(), named(job):
        environment = job.world()
        policy = job.player(environment)
        _rehearse(policy)
        trace = simulate(policy, environment, job.horizon)
    rounds = points(job.horizon)
    return Run(job.environment, job.policy, job.replication, rounds, trace.regret[rounds - 1], trace.seconds)


def points(horizon: int) -> Ints:
    """Return the rounds after which the regret is kept: among them 1, 2, .., 9, 10, 20, .., 90, 100, .. and the last.

    >>> points(12).tolist()
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    """
    even, early = np.linspace(1, horizon, min(_EVEN, horizon)), np.geomspace(1, horizon, _EARLY)
    round_numbers = np.array([digit * 10.0**power for power in range(10) for digit in range(1, 10)])
    points = np.concatenate([even, early, round_numbers[round_numbers <= horizon]])
    return np.unique(points.round().astype(np.int64))


@contextmanager
def named(job: Job) -> Iterator[None]:
    """Add to an error which job it comes from."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in replication {job.replication} of policy {job.policy!r} in {job.environment!r}")
        raise


class one_thread:  # noqa: N801  (used as a context manager, like the function it wraps)
    """Hold linear algebra to one thread while any job of this process runs, and lift that after the last of them.

    The limit is a setting of the whole process, and a process may run several jobs in threads of its own.

    >>> with one_thread(), one_thread():
    ...     one_thread.inside
    2
    >>> one_thread.inside
    0
    """

    inside: ClassVar[int] = 0
    _lock: ClassVar[threading.Lock] = threading.Lock()
    _all_left: ClassVar[threading.Event]
    _keeper: ClassVar[threading.Thread]

    def __enter__(self) -> None:
        # A library that is loaded later, in the middle of a job, would not be limited: SciPy brings its own.
        import scipy.linalg  # noqa: F401
        from threadpoolctl import threadpool_limits

        with self._lock:
            if one_thread.inside == 0:
                self._start_keeper()
            one_thread.inside += 1
        self._own = threadpool_limits(limits=1)  # for libraries whose limit holds for the thread that sets it
        self._own.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._own.__exit__(*error)
        with self._lock:
            one_thread.inside -= 1
            if one_thread.inside == 0:
                one_thread._all_left.set()
                one_thread._keeper.join()

    @staticmethod
    def _start_keeper() -> None:
        """Let a thread of its own keep the limit of the process: only the thread that set it can lift it again."""
        from threadpoolctl import threadpool_limits

        limited, all_left = threading.Event(), threading.Event()

        def keep() -> None:
            with threadpool_limits(limits=1):
                limited.set()
                all_left.wait()

        one_thread._all_left, one_thread._keeper = all_left, threading.Thread(target=keep, daemon=True)
        one_thread._keeper.start()
        limited.wait()


def _rehearse(policy: Policy) -> None:
    """Let a copy of the policy decide and learn once, so that compiling and loading count in no measured time."""
    twin, levels = copy.deepcopy(policy), (0,) * len(policy.context)
    twin.tell(twin.ask(levels), 0.0)
    twin.ask(levels)
    twin.best(levels)

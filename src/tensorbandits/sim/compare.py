"""Policies side by side: independent jobs, each a pure function of its settings, and what they add up to."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral

import numpy as np
from numpy.typing import NDArray

from tensorbandits.checks import check_count, check_installed
from tensorbandits.policies.base import Policy
from tensorbandits.sim.environment import TensorEnvironment
from tensorbandits.sim.loop import simulate

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
PolicyFactory = Callable[[np.random.SeedSequence], Policy]
EnvironmentFactory = Callable[[int], TensorEnvironment]

_POINTS = 500  # of a regret curve that are kept


@dataclass(frozen=True)
class Job:
    """One policy in one environment, once: everything that :func:`run_job` needs.

    Replication ``i`` plays in ``make_environment(seed + i)`` with the policy
    ``make_policy(SeedSequence(seed, spawn_key=(i,)))``: every policy meets the same mean tensor, the same
    contexts and the same stream of noise.

    >>> job = Job("small", "ucb", 3, lambda seed: None, lambda seed: None, horizon=10)
    >>> job.environment, job.replication
    ('small', 3)
    """

    environment: str
    policy: str
    replication: int
    make_environment: EnvironmentFactory
    make_policy: PolicyFactory
    horizon: int
    seed: int = 0


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

    @property
    def final(self) -> float:
        """The cumulative regret after the last round."""
        return float(self.regret[-1])

    @property
    def microseconds(self) -> float:
        """The mean time of a round inside the policy, in microseconds."""
        return 1e6 * self.seconds / int(self.rounds[-1])


@dataclass(frozen=True)
class Row:
    """One policy in one environment, over its replications: final regrets and the time of a round.

    ``standard_error`` is NaN with one replication; ``ratio`` is the mean over the baseline's, or ``None``.

    >>> Row("small", "ucb", 30, 100.0, 2.0, 99.0, 130.0, 1.0, 12.5).mean
    100.0
    """

    environment: str
    policy: str
    replications: int
    mean: float
    standard_error: float
    median: float
    worst: float
    ratio: float | None
    microseconds: float


@dataclass(frozen=True)
class Comparison:
    """All runs of a comparison, in the order of the environments, policies and replications.

    >>> runs = [Run("small", "ucb", i, np.array([5, 10]), np.array([2.0, 3.0 + i]), 1e-5) for i in range(3)]
    >>> comparison = Comparison(tuple(runs))
    >>> comparison.table(baseline="ucb")[0].mean, comparison.table(baseline="ucb")[0].ratio
    (4.0, 1.0)
    >>> rounds, mean, half_width = comparison.curves("ucb")
    >>> mean.tolist()
    [2.0, 4.0]
    """

    runs: tuple[Run, ...]

    @cached_property
    def environments(self) -> list[str]:
        """The names of the environments."""
        return list(dict.fromkeys(run.environment for run in self.runs))

    @cached_property
    def policies(self) -> list[str]:
        """The names of the policies."""
        return list(dict.fromkeys(run.policy for run in self.runs))

    def select(self, policy: str, environment: str | None = None) -> list[Run]:
        """Return the runs of a policy in an environment, which need not be named when it is the only one."""
        if environment is None and len(self.environments) > 1:
            raise ValueError(f"there are several environments; name one of {self.environments}")
        where = self.environments[0] if environment is None else environment
        found = [run for run in self.runs if run.policy == policy and run.environment == where]
        if not found:
            raise ValueError(
                f"no run of policy {policy!r} in environment {where!r}; "
                f"there are the policies {self.policies} and the environments {self.environments}"
            )
        return found

    def table(self, baseline: str | None = None) -> list[Row]:
        """Return one row per environment and policy; ``ratio`` is to the mean regret of the baseline."""
        rows = []
        for environment in self.environments:
            reference = None if baseline is None else _finals(self.select(baseline, environment)).mean()
            for policy in dict.fromkeys(run.policy for run in self.runs if run.environment == environment):
                runs = self.select(policy, environment)
                finals = _finals(runs)
                rows.append(
                    Row(
                        environment=environment,
                        policy=policy,
                        replications=len(runs),
                        mean=float(finals.mean()),
                        standard_error=float(_standard_error(finals)),
                        median=float(np.median(finals)),
                        worst=float(finals.max()),
                        ratio=None if reference is None else float(_ratio(finals.mean(), reference)),
                        microseconds=float(np.mean([run.microseconds for run in runs])),
                    )
                )
        return rows

    def curves(self, policy: str, environment: str | None = None) -> tuple[Ints, Floats, Floats]:
        """Return rounds, mean cumulative regret and the half-width of its 95 % confidence band, each (k,).

        The band is Student's, over replications; it is NaN with one replication.
        """
        from scipy.special import stdtrit

        runs = self.select(policy, environment)
        regret = np.array([run.regret for run in runs])
        quantile = float(stdtrit(len(runs) - 1, 0.975)) if len(runs) > 1 else np.nan
        return runs[0].rounds, regret.mean(axis=0), quantile * _standard_error(regret)


def compare(
    policies: Mapping[str, PolicyFactory],
    environments: EnvironmentFactory | Mapping[str, EnvironmentFactory],
    *,
    horizon: int,
    replications: int = 30,
    n_jobs: int = 1,
    seed: int = 0,
    progress: Callable[[Run], None] | None = None,
) -> Comparison:
    """Let each policy play in each environment, several times, and return the :class:`Comparison`.

    Parameters
    ----------
    policies : by name, a function from a ``SeedSequence`` to a policy.
    environments : a function from an int to a :class:`TensorEnvironment`, or several by name. Replication
        ``i`` gets ``seed + i``, so that with ``seed=0`` the paper's tensors have the seeds 0, 1, ..
    horizon, replications : rounds of each run, and runs of each policy in each environment.
    n_jobs : processes; -1 takes every core. The regrets do not depend on it.
    progress : called with each :class:`Run` as it finishes, in any order.

    >>> from tensorbandits.policies.ucb import VectorizedUCB
    >>> result = compare(
    ...     {"ucb": lambda seed: VectorizedUCB((3, 3), seed=seed)},
    ...     lambda seed: TensorEnvironment(np.eye(3), noise=0.1, seed=seed),
    ...     horizon=50, replications=2,
    ... )
    >>> result.table()[0].replications
    2
    """
    if not isinstance(policies, Mapping) or not policies or not all(callable(make) for make in policies.values()):
        raise TypeError(
            f"policies is {policies!r}; give at least one function from a seed to a policy, by name: "
            "{'ucb': lambda seed: VectorizedUCB(shape, seed=seed)}"
        )
    worlds = environments if isinstance(environments, Mapping) else {"environment": environments}
    if not worlds or not all(callable(make) for make in worlds.values()):
        raise TypeError(
            f"environments is {environments!r}; give a function from an int to an environment, or several by "
            "name: lambda seed: TensorEnvironment(paper_tensor(seed=seed), seed=seed)"
        )
    rounds, count = check_count(horizon, "horizon"), check_count(replications, "replications")
    jobs = [
        Job(world, name, i, worlds[world], policies[name], rounds, check_count(seed, "seed", least=0))
        for i in range(count)
        for world in worlds
        for name in policies
    ]
    runs = []
    for run in run_jobs(jobs, n_jobs):
        runs.append(run)
        if progress is not None:
            progress(run)
    places, names = list(worlds), list(policies)
    runs.sort(key=lambda run: (places.index(run.environment), names.index(run.policy), run.replication))
    return Comparison(tuple(runs))


def run_job(job: Job) -> Run:
    """Run one job in this process, with one thread for linear algebra.

    >>> from tensorbandits.policies.ucb import VectorizedUCB
    >>> make = lambda seed: TensorEnvironment(np.eye(2), noise=0.0, seed=seed)
    >>> run_job(Job("eye", "ucb", 0, make, lambda seed: VectorizedUCB((2, 2)), horizon=4)).final
    2.0
    """
    check_installed("running a comparison", "threadpoolctl")
    from threadpoolctl import threadpool_limits

    try:
        with threadpool_limits(limits=1):
            policy = job.make_policy(np.random.SeedSequence(job.seed, spawn_key=(job.replication,)))
            _rehearse(policy)
            trace = simulate(policy, job.make_environment(job.seed + job.replication), job.horizon)
    except Exception as error:
        error.add_note(f"in replication {job.replication} of policy {job.policy!r} in {job.environment!r}")
        raise
    rounds = np.unique(np.linspace(1, job.horizon, min(_POINTS, job.horizon)).round().astype(np.int64))
    return Run(job.environment, job.policy, job.replication, rounds, trace.regret[rounds - 1], trace.seconds)


def _rehearse(policy: Policy) -> None:
    """Let a copy of the policy decide and learn once, so that compiling and loading count in no measured time."""
    twin, levels = copy.deepcopy(policy), (0,) * len(policy.context)
    twin.tell(twin.ask(levels), 0.0)
    twin.ask(levels)
    twin.best(levels)


def run_jobs(jobs: Iterable[Job], n_jobs: int = 1) -> Iterator[Run]:
    """Run jobs in ``n_jobs`` processes and yield each result as it is ready.

    >>> list(run_jobs([]))
    []
    """
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs == 0:
        raise ValueError(f"n_jobs is {n_jobs!r}; give a number of processes of at least 1, or -1 for every core")
    check_installed("running a comparison", "joblib", "threadpoolctl")
    from joblib import Parallel, delayed

    parallel = Parallel(n_jobs=int(n_jobs), batch_size=1, return_as="generator_unordered")
    yield from parallel(delayed(run_job)(job) for job in jobs)


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table whose first column is text and whose others are numbers.

    >>> print(markdown_table(["policy", "regret"], [["ucb", "12"]]))
    | policy | regret |
    |:--|--:|
    | ucb | 12 |
    """
    lines = [" | ".join(header), *(" | ".join(row) for row in rows)]
    rule = "|:--|" + "--:|" * (len(header) - 1)
    return "\n".join([f"| {lines[0]} |", rule, *(f"| {line} |" for line in lines[1:])])


def _finals(runs: Sequence[Run]) -> Floats:
    return np.array([run.final for run in runs])


def _ratio(value: float, reference: float) -> float:
    return value / reference if reference else np.nan


def _standard_error(values: Floats) -> Floats:
    """The standard error of the mean over the first axis; NaN for a single replication."""
    if len(values) < 2:
        return np.full(values.shape[1:], np.nan)
    return np.asarray(values.std(axis=0, ddof=1) / np.sqrt(len(values)))

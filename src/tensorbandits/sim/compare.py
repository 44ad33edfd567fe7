"""Policies side by side: which jobs a comparison consists of, and what their runs add up to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import Any, Self, cast

import numpy as np

from tensorbandits.advice import Recommendation
from tensorbandits.base.checks import check_count
from tensorbandits.base.frames import Backend, to_frame
from tensorbandits.policies.base import Policy
from tensorbandits.sim.backends import run_jobs
from tensorbandits.sim.jobs import EnvironmentFactory, Job, PolicyFactory, Run
from tensorbandits.sim.progress import reporting
from tensorbandits.sim.recipes import PolicyRecipe
from tensorbandits.sim.results import ResultsFolder, read_runs
from tensorbandits.sim.where import Where
from tensorbandits.tensor.tucker import Floats, Ints

_SHOWN = 8  # names that are written out when a comparison is shown
_POLICIES = "{'ucb': lambda seed: VectorizedUCB(shape, seed=seed), 'thompson': 'thompson:rank=2'}"


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

    ``kept`` counts those that were read from a folder instead of run.

    >>> runs = [Run("small", "ucb", i, np.array([5, 10]), np.array([2.0, 3.0 + i]), 1e-5) for i in range(3)]
    >>> comparison = Comparison(tuple(runs))
    >>> comparison
    Comparison(3 runs of at most 10 rounds: policies 'ucb'; environments 'small')
    >>> comparison.table(baseline="ucb")[0].mean, comparison.table(baseline="ucb")[0].ratio
    (4.0, 1.0)
    >>> rounds, mean, half_width = comparison.curves("ucb")
    >>> mean.tolist()
    [2.0, 4.0]
    """

    runs: tuple[Run, ...]
    kept: int = field(default=0, compare=False)

    @classmethod
    def read(cls, folder: str | PathLike[str]) -> Self:
        """Return the last comparison that was run with this ``folder``."""
        runs = read_runs(folder)
        return cls(tuple(runs), kept=len(runs))

    def __repr__(self) -> str:
        return (
            f"Comparison({len(self.runs)} runs of at most {self.horizon:,} rounds: "
            f"policies {_listed(self.policies)}; environments {_listed(self.environments)})"
        )

    def to_frame(self, backend: Backend | None = None) -> Any:
        """Return a row per point that was kept of each run: environment, policy, replication, round and regret.

        ``backend`` is ``"pandas"``, ``"polars"`` or ``"pyarrow"``; by default the first of these that is installed.

        >>> Comparison((Run("small", "ucb", 0, np.array([5, 10]), np.array([2.0, 3.0]), 1e-5),)).to_frame().shape
        (2, 5)
        """
        points = [(run, at) for run in self.runs for at in range(len(run.rounds))]
        return to_frame(
            {
                "environment": [run.environment for run, _ in points],
                "policy": [run.policy for run, _ in points],
                "replication": [run.replication for run, _ in points],
                "round": [int(run.rounds[at]) for run, at in points],
                "regret": [float(run.regret[at]) for run, at in points],
            },
            backend,
        )

    @cached_property
    def horizon(self) -> int:
        """The rounds of the longest run."""
        return max((int(run.rounds[-1]) for run in self.runs), default=0)

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
            reference = None if baseline is None else self.at(baseline, environment).mean()
            for policy in dict.fromkeys(run.policy for run in self.runs if run.environment == environment):
                runs, finals = self.select(policy, environment), self.at(policy, environment)
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
        runs = self.select(policy, environment)
        regret = np.array([run.regret for run in runs])
        return runs[0].rounds, regret.mean(axis=0), half_width(regret)

    def at(self, policy: str, environment: str | None = None, rounds: int | None = None) -> Floats:
        """Return the cumulative regret of each replication after some rounds, or at the end, shape (replications,).

        Curves keep some hundred points; the last one at or before the round asked for counts.

        >>> runs = [Run("small", "ucb", i, np.array([5, 10]), np.array([2.0, 3.0 + i]), 1e-5) for i in range(2)]
        >>> Comparison(tuple(runs)).at("ucb").tolist(), Comparison(tuple(runs)).at("ucb", rounds=7).tolist()
        ([3.0, 4.0], [2.0, 2.0])
        """
        runs = self.select(policy, environment)
        first = int(runs[0].rounds[0])
        if rounds is not None and rounds < first:
            raise ValueError(f"rounds is {rounds}; the first point that was kept is after round {first}")
        at = [-1 if rounds is None else int(np.searchsorted(run.rounds, rounds, side="right")) - 1 for run in runs]
        return np.array([run.regret[k] for run, k in zip(runs, at, strict=True)])

    def rates(self, policy: str, environment: str | None = None, *, windows: int = 24) -> tuple[Floats, Floats, Floats]:
        """Return regret per round, averaged over windows of equal length on a logarithmic axis.

        The middle of each window, the mean over replications, and the half-width of its 95 % band, each (k,); nothing
        for a single round.

        >>> runs = [Run("small", "ucb", i, np.array([1, 4, 16]), np.array([2.0, 5.0, 11.0]), 1e-5) for i in range(2)]
        >>> [part.tolist() for part in Comparison(tuple(runs)).rates("ucb", windows=2)]
        [[2.0, 8.0], [1.0, 0.5], [0.0, 0.0]]
        """
        runs = self.select(policy, environment)
        rounds = runs[0].rounds
        wanted = np.geomspace(rounds[0], rounds[-1], windows + 1)
        edges = np.unique(np.abs(rounds[:, None] - wanted).argmin(axis=0))
        rates = np.diff(np.array([run.regret[edges] for run in runs]), axis=1) / np.diff(rounds[edges])
        middle = np.sqrt(rounds[edges[:-1]] * rounds[edges[1:]].astype(np.float64))
        return middle, rates.mean(axis=0), half_width(rates)


def compare(
    policies: Mapping[str, PolicyFactory | PolicyRecipe | type[Policy] | str | Recommendation],
    environments: EnvironmentFactory | Mapping[str, EnvironmentFactory],
    *,
    horizon: int,
    replications: int = 30,
    n_jobs: int | None = None,
    seed: int = 0,
    folder: str | PathLike[str] | None = None,
    backend: str = "local",
    address: str | None = None,
    where: Where | None = None,
    progress: bool | Callable[[Run], None] | None = None,
) -> Comparison:
    """Let each policy play in each environment, several times, and return the :class:`Comparison`.

    Parameters
    ----------
    policies : by name, a function from a ``SeedSequence`` to a policy; or what fits the shape and the context of each
        environment: a :class:`PolicyRecipe`, its text (``"ensemble:rank=2"``), the class of a policy, or what
        :func:`tensorbandits.recommend` returned.
    environments : a function from an int to a :class:`TensorEnvironment`, such as a :class:`PaperWorld`, or several
        by name. Replication ``i`` gets ``seed + i``: with ``seed=0`` the paper's tensors have the seeds 0, 1, ..
    horizon, replications : rounds of each run, and runs of each policy in each environment.
    n_jobs : how many run at the same time; -1 takes every core. ``None`` is 1 here, and every worker of a cluster.
        The regrets do not depend on it.
    folder : keeps each run as a Parquet file as soon as it is finished. The same comparison again reads them, more
        replications add to them, and one that was stopped goes on.
    backend, address : ``"local"`` processes, or the workers of a ``"dask"`` or ``"ray"`` cluster. Without an address
        the cluster is the one this process is connected to, or else one started here for as long as it is needed.
    where : ``n_jobs``, ``backend`` and ``address`` as one value, for programs that hand them on.
    progress : ``True`` for a bar on standard error, or a function that is called with each :class:`Run`: first those
        kept from earlier, then each one as it finishes, in any order.

    >>> from tensorbandits import TensorEnvironment, VectorizedUCB
    >>> result = compare(
    ...     {"ucb": lambda seed: VectorizedUCB((3, 3), seed=seed), "thompson": "thompson:rank=1"},
    ...     lambda seed: TensorEnvironment(np.eye(3), noise=0.1, seed=seed),
    ...     horizon=50, replications=2,
    ... )
    >>> [(row.policy, row.replications) for row in result.table()]
    [('ucb', 2), ('thompson', 2)]
    """
    makers, worlds = _check_policies(policies), _check_environments(environments)
    rounds, count = check_count(horizon, "horizon"), check_count(replications, "replications")
    place = Where.chosen(where, n_jobs, backend, address)
    jobs = [
        Job(world, name, i, worlds[world], makers[name], rounds, check_count(seed, "seed", least=0))
        for i in range(count)
        for world in worlds
        for name in makers
    ]
    results = None if folder is None else ResultsFolder(folder, jobs)
    runs, missing = ([], jobs) if results is None else (results.kept(), results.missing())
    with reporting(progress, len(jobs), rounds) as report:
        for run in runs:
            report(run)
        with closing(run_jobs(missing, place)) as finished:  # also when it is left early: workers end at once
            for run in finished:
                if results is not None:
                    results.write(run)
                runs.append(run)
                report(run)
    places, names = list(worlds), list(makers)
    runs.sort(key=lambda run: (places.index(run.environment), names.index(run.policy), run.replication))
    return Comparison(tuple(runs), kept=len(jobs) - len(missing))


def _check_policies(policies: object) -> dict[str, PolicyFactory | PolicyRecipe]:
    """Return what makes each policy, by name."""
    if not isinstance(policies, Mapping) or not policies:
        raise TypeError(f"policies is {policies!r}; give at least one by name: {_POLICIES}")
    return {_check_name(name): _maker(name, given) for name, given in policies.items()}


def _maker(name: str, given: Any) -> PolicyFactory | PolicyRecipe:
    """Return a function or a recipe that makes what was given."""
    try:
        if isinstance(given, str):
            return PolicyRecipe.parse(given)
        if isinstance(given, Recommendation) or (isinstance(given, type) and issubclass(given, Policy)):
            return PolicyRecipe(cast(Any, given))
    except (ValueError, TypeError) as error:
        raise type(error)(f"policies[{name!r}]: {error}") from None
    if isinstance(given, PolicyRecipe) or (callable(given) and not isinstance(given, type)):
        return cast(PolicyFactory | PolicyRecipe, given)
    again = ": one policy cannot start anew for each run" if isinstance(given, Policy) else ""
    raise TypeError(
        f"policies[{name!r}] is {given!r}{again}; give a function, a recipe, a class or a name: {_POLICIES}"
    )


def _check_environments(environments: object) -> Mapping[str, EnvironmentFactory]:
    """Return the environments by name."""
    worlds: Mapping[str, Any] = environments if isinstance(environments, Mapping) else {"environment": environments}
    if not worlds or not all(callable(make) for make in worlds.values()):
        raise TypeError(
            f"environments is {environments!r}; give a function from an int to an environment, or several by "
            "name: lambda seed: TensorEnvironment(paper_tensor(seed=seed), seed=seed)"
        )
    return {_check_name(name): make for name, make in worlds.items()}


def _check_name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"the name {name!r} is no string; name policies and environments by strings")
    return name


def _listed(names: Sequence[str]) -> str:
    """Some names in words."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (", ".join(map(repr, names[:_SHOWN])) or "none") + more


def _ratio(value: float, reference: float) -> float:
    return value / reference if reference else np.nan


def half_width(values: Floats) -> Floats:
    """Return half of the width of Student's 95 % confidence interval of the mean over the first axis; NaN for one.

    >>> round(float(half_width(np.array([1.0, 2.0, 3.0]))), 2)
    2.48
    """
    from scipy.special import stdtrit

    quantile = float(stdtrit(len(values) - 1, 0.975)) if len(values) > 1 else np.nan
    return quantile * _standard_error(values)


def _standard_error(values: Floats) -> Floats:
    """The standard error of the mean over the first axis; NaN for a single replication."""
    if len(values) < 2:
        return np.full(values.shape[1:], np.nan)
    return np.asarray(values.std(axis=0, ddof=1) / np.sqrt(len(values)))

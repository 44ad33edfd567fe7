"""Where the run of each job belongs in a results folder, and what is said about it there in words."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

import numpy as np

from tensorbandits.policies.base import Policy
from tensorbandits.sim.digests import digest, policy_digest, qualified_name
from tensorbandits.sim.environment import TensorEnvironment
from tensorbandits.sim.jobs import Job, named
from tensorbandits.sim.recipes import PaperWorld
from tensorbandits.sim.sources import source_digest

_FORMAT = 2  # of a run and its file: a change of it makes every run anew
_SHOWN = 20  # entries of an array that are written out in words

Key = tuple[str, str, int]  # environment, policy, replication


class Plan:
    """The file and the digest of each job's run, and the settings of each folder of runs.

    ``entries`` maps (environment, policy, replication) to both; ``settings`` is by the name of the folder.

    >>> from tensorbandits.sim.recipes import PaperWorld, PolicyRecipe
    >>> plan = Plan([Job("small", "ucb", i, PaperWorld(p=2), PolicyRecipe("ucb"), horizon=9) for i in range(2)])
    >>> file, digest = plan.entries["small", "ucb", 1]
    >>> file
    'runs/small-ucb-.../00001.parquet'
    >>> [settings["horizon"] for settings in plan.settings.values()]
    [9]
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.entries: dict[Key, tuple[str, str]] = {}
        self.settings: dict[str, dict[str, Any]] = {}
        self._names: dict[tuple[str, str], str] = {}
        worlds: dict[tuple[str, int], tuple[TensorEnvironment, str]] = {}
        for job in jobs:
            at = job.environment, job.replication
            with named(job):
                if at not in worlds:  # made once for all policies, and kept no longer than for one replication
                    worlds = {key: world for key, world in worlds.items() if key[1] == job.replication}
                    worlds[at] = self._world(job)
                self._enter(job, *worlds[at])

    def _world(self, job: Job) -> tuple[TensorEnvironment, str]:
        world = job.world()
        known_by = _refusing(lambda: digest(world), f"the environment {job.environment!r}")
        if (
            not any(job.environment == environment for environment, _ in self._names)
            and digest(job.world()) != known_by
        ):
            raise ValueError(
                f"the environment {job.environment!r} is another one each time it is made from the same number, so its "
                "runs could not be found again; use that number for all that is random: "
                "lambda seed: TensorEnvironment(paper_tensor(seed=seed), seed=seed)"
            )
        return world, known_by

    def _enter(self, job: Job, world: TensorEnvironment, world_digest: str) -> None:
        policy = job.player(world)
        policy_known_by = _refusing(lambda: policy_digest(policy), f"the policy {job.policy!r}")
        names = job.environment, job.policy
        if names not in self._names:
            if policy_digest(job.player(world)) != policy_known_by:
                raise ValueError(
                    f"the policy {job.policy!r} starts otherwise each time it is made from the same seed, so its runs "
                    "could not be found again; pass the seed on: lambda seed: VectorizedUCB(shape, seed=seed)"
                )
            self._names[names] = self._name(job, policy, world, world_digest)
        name = self._names[names]
        known_by = digest([name, job.replication, world_digest, policy_known_by])
        self.entries[*names, job.replication] = f"runs/{name}/{job.replication:05d}.parquet", known_by

    def _name(self, job: Job, policy: Policy, world: TensorEnvironment, world_digest: str) -> str:
        """Return the name of the folder of a policy in an environment, and put down its settings."""
        state = policy.state_dict()
        start = [state["policy"], type(policy), state["arguments"], world_digest, job.horizon, job.seed]
        libraries = {name: version for name, version in software().items() if name != "python"}
        known_by = digest([_FORMAT, source_digest(), libraries, job.environment, job.policy, *start])
        words = re.sub(r"[^A-Za-z0-9.=]+", "-", f"{job.environment}-{job.policy}").strip("-")[:60]
        name, kind = f"{words}-{known_by[:16]}", qualified_name(type(policy))
        self.settings[name] = {
            "environment": {"name": job.environment} | describe_environment(world, job.make_environment),
            "policy": {"name": job.policy, "class": kind, "arguments": describe(state["arguments"])},
            "horizon": job.horizon,
            "seed": job.seed,
            "source": source_digest(),
        }
        return name

    def summary(self, replications: int) -> dict[str, Any]:
        """Return what the whole comparison was, in words."""
        several = list(self.settings.values())
        return {
            "horizon": several[0]["horizon"],
            "replications": replications,
            "seed": several[0]["seed"],
            "environments": list({each["environment"]["name"]: each["environment"] for each in several}.values()),
            "policies": [each["policy"] | {"environment": each["environment"]["name"]} for each in several],
            "source": several[0]["source"],
        }


def software() -> dict[str, str]:
    """Return the versions of what computes: Python, this package, and the libraries below it.

    >>> sorted(software())
    ['numba', 'numpy', 'python', 'scipy', 'tensorbandits']
    """
    packages = ("tensorbandits", "numpy", "scipy", "numba")
    return {"python": platform.python_version()} | {name: metadata.version(name) for name in packages}


def circumstances() -> dict[str, Any]:
    """Return when and with what something was computed; no name of a machine or a user, no path.

    >>> sorted(circumstances())
    ['date', 'platform', 'versions']
    """
    system = f"{platform.system()} {platform.machine()}"
    return {"versions": software(), "platform": system, "date": datetime.now(UTC).isoformat(timespec="seconds")}


def describe_environment(world: TensorEnvironment, make: Any) -> dict[str, Any]:
    """Return an environment in words and numbers that fit into JSON.

    >>> describe_environment(PaperWorld(p=2)(0), PaperWorld(p=2))["made_by"]
    'paper:p=2'
    """
    return {
        "class": qualified_name(type(world)),
        "shape": list(world.shape),
        "noise": world.noise,
        "family": world.family,
        "context": list(world.context_modes),
        "made_by": str(make)
        if isinstance(make, PaperWorld)
        else qualified_name(make if hasattr(make, "__name__") else type(make)),
    }


def describe(value: Any) -> Any:
    """Return a value in words and numbers that fit into JSON; of large arrays the shape.

    >>> describe({"rank": (2, 2), "weights": np.zeros((5, 9)), "oracle": describe})
    {'rank': [2, 2], 'weights': 'array of shape (5, 9)', 'oracle': 'tensorbandits.sim.plan.describe'}
    """
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.ndarray):
        return value.tolist() if value.size <= _SHOWN else f"array of shape {value.shape}"
    if isinstance(value, Mapping):
        return {str(key): describe(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [describe(item) for item in value]
    return qualified_name(value if hasattr(value, "__qualname__") else type(value))


def _refusing(make: Any, what: str) -> str:
    """Return a digest, or say that there can be none."""
    try:
        result: str = make()
    except (TypeError, AttributeError, ValueError, RecursionError) as error:
        raise TypeError(
            f"{what} holds something that cannot be told from anything else ({error}), so its runs could not be found "
            "again; make it of numbers, arrays, functions and plain objects, or leave out folder"
        ) from error
    return result

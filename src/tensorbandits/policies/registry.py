"""The list of policies: one record each, with its short name, class and label, which all other lists are made from.

A new policy is one file, one record here, and one case of the conformance suite. A user's own joins with
:func:`register`, or by its place: ``"package.module:Class"`` wherever a policy's name is taken.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from tensorbandits.policies.base import Policy
from tensorbandits.policies.cost import Workload, microseconds
from tensorbandits.policies.elimination import TensorElimination
from tensorbandits.policies.ensemble import TensorEnsembleSampling
from tensorbandits.policies.epoch_greedy import TensorEpochGreedy
from tensorbandits.policies.estr import MatricizedESTR
from tensorbandits.policies.thompson import TensorThompsonSampling
from tensorbandits.policies.traits import Traits
from tensorbandits.policies.ucb import VectorizedUCB

_FROM_THE_PROBLEM = ("shape", "context", "seed")


@dataclass(frozen=True)
class PolicyRecord:
    """What is known of a policy: its short name, its class, its label for people, and what it takes.

    >>> record = find("epoch-greedy")
    >>> record.kind.__name__, record.label, record.context, record.takes("rank"), record.takes("horizon")
    ('TensorEpochGreedy', 'epoch-greedy', True, True, False)
    """

    name: str
    kind: type[Policy]
    label: str
    context: bool  # whether modes may be given rather than decided

    def takes(self, argument: str) -> bool:
        """Say whether the constructor takes an argument, such as ``"rank"`` or ``"horizon"``."""
        parameters = inspect.signature(self.kind).parameters
        return argument in parameters or (argument in _FROM_THE_PROBLEM and self.takes_any)

    @property
    def traits(self) -> Traits:
        """What the policy can do."""
        return self.kind.traits

    @property
    def takes_any(self) -> bool:
        """Whether the constructor takes any argument by name."""
        return any(one.kind is one.VAR_KEYWORD for one in inspect.signature(self.kind).parameters.values())

    @property
    def has_paper(self) -> bool:
        """Whether the class can be made with the paper's values."""
        return callable(getattr(self.kind, "paper", None))

    @property
    def settings(self) -> list[str]:
        """The arguments that are not given by the problem."""
        return [name for name in inspect.signature(self.kind).parameters if name not in _FROM_THE_PROBLEM]

    def refusal(self, shape: Sequence[int], rank: Any = "auto") -> str | None:
        """Return why the policy cannot be made for a problem of this size, or ``None``.

        >>> find("ucb").refusal((10, 10)) is None, find("ucb").refusal((1000, 1000, 1000)) is None
        (True, False)
        """
        return self.kind.refusal(shape, rank)

    def microseconds(self, work: Workload) -> float | None:
        """Return about how many microseconds of one core a reward costs, or ``None`` where nothing is known of that.

        >>> find("ucb").microseconds(Workload((10, 10), 1000)) < find("thompson").microseconds(Workload((10, 10), 1000))
        True
        """
        return microseconds(self.name, work)

    def make(
        self,
        shape: Sequence[int],
        *,
        context: Sequence[int] = (),
        horizon: int | None = None,
        seed: int | np.random.SeedSequence | None = None,
        paper: bool = False,
        **settings: Any,
    ) -> Policy:
        """Return the policy for a problem; it gets the horizon if it takes one, and rank ``"auto"`` unless told.

        >>> find("thompson").make((3, 4), context=(0,), horizon=100, seed=0).context
        (0,)
        """
        if self.takes("rank"):
            settings.setdefault("rank", "auto")
        if self.takes("horizon") and horizon is not None:
            settings.setdefault("horizon", horizon)
        if context or self.takes("context"):
            settings["context"] = context
        make: Any = self.kind
        if paper:
            if not self.has_paper:
                raise ValueError(f"policy {self.name!r} has no values of the paper; leave out paper")
            make = make.paper
        if self.takes("seed"):
            settings["seed"] = seed
        return cast(Policy, make(shape, **settings))


def _record(kind: type[Policy], name: str, label: str | None = None, context: bool | None = None) -> PolicyRecord:
    """Return the record of a class, as its constructor and its traits say."""
    takes = kind.traits.contextual and "context" in inspect.signature(kind).parameters
    return PolicyRecord(name, kind, label or name, takes if context is None else context)


_RECORDS = {
    record.name: record
    for record in (
        _record(TensorThompsonSampling, "thompson", "Thompson sampling"),
        _record(TensorEnsembleSampling, "ensemble", "ensemble sampling"),
        _record(TensorElimination, "elimination"),
        _record(TensorEpochGreedy, "epoch-greedy"),
        _record(VectorizedUCB, "ucb", "vectorized UCB"),
        _record(MatricizedESTR, "estr", "matricized ESTR"),
    )
}


def records() -> tuple[PolicyRecord, ...]:
    """Return the records of all policies, the library's first.

    >>> [record.name for record in records()]
    ['thompson', 'ensemble', 'elimination', 'epoch-greedy', 'ucb', 'estr']
    """
    return tuple(_RECORDS.values())


def register(kind: type[Policy], name: str, *, label: str | None = None, context: bool | None = None) -> PolicyRecord:
    """Make a policy of your own known by a short name, and return its record.

    ``label`` is what figures and tables call it; ``context`` says whether it takes context, by default whether its
    constructor and its traits do. Registering the same class again changes its record; a name that another class has is
    refused.

    >>> class Ours(VectorizedUCB): ...
    >>> register(Ours, "ours").label
    'ours'
    >>> find("ours").make((2, 3)).ask()
    (0, 0)
    >>> del _RECORDS["ours"]
    """
    if not (inspect.isclass(kind) and issubclass(kind, Policy)) or inspect.isabstract(kind):
        raise TypeError(f"{kind!r} is no policy; register a class derived from tensorbandits.Policy")
    if not isinstance(name, str) or not name or set(name) & set(":,=") or any(letter.isspace() for letter in name):
        raise ValueError(f"name is {name!r}; give a short name without spaces, colons, commas and equals signs")
    taken = _RECORDS.get(name)
    if taken is None:
        taken = next((record for record in _RECORDS.values() if record.kind.__name__ == name), None)
    if taken is not None and (taken.kind.__module__, taken.kind.__qualname__) != (kind.__module__, kind.__qualname__):
        raise ValueError(f"the name {name!r} is that of {taken.kind.__name__}; choose another")
    _RECORDS[name] = _record(kind, name, label, context)
    return _RECORDS[name]


def find(policy: Any) -> PolicyRecord:
    """Return the record of a policy, by short name, class name, class, ``"module:Class"``, or a recommendation.

    >>> find("ucb") is find("VectorizedUCB") is find(VectorizedUCB) is find("tensorbandits.policies.ucb:VectorizedUCB")
    True
    """
    if inspect.isclass(policy) and issubclass(policy, Policy):
        known = [record for record in _RECORDS.values() if record.kind is policy]
        return known[0] if known else _record(policy, f"{policy.__module__}:{policy.__qualname__}", policy.__name__)
    name = getattr(policy, "policy", policy)
    if not isinstance(name, str):
        raise TypeError(
            f"policy is {policy!r}; give a name, a class derived from Policy, or a recommendation: {_known()}"
        )
    if name in _RECORDS:
        return _RECORDS[name]
    for record in _RECORDS.values():
        if record.kind.__name__ == name:
            return record
    if ":" in name:
        return find(_import(name))
    raise ValueError(f"policy is {name!r}; allowed are {_known()}")


def _known() -> str:
    return f"{', '.join(_RECORDS)}, or a class of your own as module:Class"


def _import(place: str) -> type[Policy]:
    module, _, name = place.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # whatever a module that is not ours may raise
        what = f"{type(error).__name__}: {error}"
        raise ValueError(f"policy is {place!r}, which cannot be imported ({what}); give module:Class") from error
    if not (inspect.isclass(found) and issubclass(found, Policy)) or inspect.isabstract(found):
        raise ValueError(f"policy is {place!r}, which is {found!r}; give a class derived from tensorbandits.Policy")
    return found

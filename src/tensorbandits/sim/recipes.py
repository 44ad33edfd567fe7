"""Policies and worlds as data: a name and readable settings, which any process can make the same thing from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np

from tensorbandits.base.checks import check_at_least, check_count, check_positive
from tensorbandits.policies.base import Policy
from tensorbandits.policies.registry import PolicyRecord, find, records
from tensorbandits.sim.environment import TensorEnvironment, paper_tensor

_FROM_THE_ENVIRONMENT = ("shape", "context", "seed")
_WORDS = {"true": True, "false": False, "none": None}


@dataclass(frozen=True)
class PolicyRecipe:
    """A policy by name and settings, to be made for any environment.

    Parameters
    ----------
    policy : ``"thompson"``, ``"ensemble"``, ``"elimination"``, ``"epoch-greedy"``, ``"ucb"`` or ``"estr"``; the name
        that :func:`tensorbandits.register` gave a policy of your own, its class, or ``"module:Class"``; or what
        :func:`tensorbandits.recommend` returned, whose settings are then taken over.
    settings : keyword arguments of its class. ``"paper": True`` starts from the paper's values instead of ours.
        Shape and context come from the environment, and the horizon, unless given, from the comparison. Without
        ``"rank"`` the rank is ``"auto"``; elimination and ESTR do better when they are told it.

    >>> recipe = PolicyRecipe("ensemble", {"paper": True, "rank": 2})
    >>> world = TensorEnvironment(np.eye(3), context=(0,), seed=0)
    >>> policy = recipe.make(world, horizon=100, seed=0)
    >>> policy.shape, policy.context, policy.perturbation
    ((3, 3), (0,), 0.1)
    >>> PolicyRecipe.parse("ensemble:paper=true,rank=2") == recipe, str(recipe)
    (True, 'ensemble:paper=true,rank=2')
    """

    policy: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    record: PolicyRecord = field(init=False, repr=False, compare=False)  # held, so that another process has it too

    def __post_init__(self) -> None:
        given, record = self.policy, find(self.policy)
        object.__setattr__(self, "policy", record.name)
        object.__setattr__(self, "record", record)
        if not isinstance(self.settings, Mapping):
            raise TypeError(f"settings is {self.settings!r}; give keyword arguments by name: {{'rank': 2}}")
        advised = getattr(given, "arguments", {})
        taken = {name: value for name, value in advised.items() if name not in (*_FROM_THE_ENVIRONMENT, "horizon")}
        object.__setattr__(self, "settings", taken | dict(self.settings))
        allowed = ["paper", *record.settings]
        for name, value in self.settings.items():
            if name not in allowed:
                given = "; it is taken from the environment" if name in _FROM_THE_ENVIRONMENT else ""
                raise ValueError(
                    f"{name!r} is no setting of policy {self.policy!r}{given}: allowed are {', '.join(allowed)}"
                )
            if name == "paper" and not isinstance(value, bool):
                raise ValueError(f"paper is {value!r}; allowed are true (the paper's values) and false (ours)")

    def make(
        self, environment: TensorEnvironment, horizon: int, seed: int | np.random.SeedSequence | None = None
    ) -> Policy:
        """Return the policy for an environment: its shape and context, and the horizon if the policy needs one."""
        settings: dict[str, Any] = {"horizon": horizon} | dict(self.settings)
        return self.record.make(environment.shape, context=environment.context_modes, seed=seed, **settings)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the recipe that a text like ``"estr:multiplier=0.001,rank=2"`` describes.

        Numbers, ``true``, ``false`` and ``none`` are what they look like, ``2x3x2`` is a tuple, anything else a string.

        >>> PolicyRecipe.parse("thompson:rank=2x3x2").settings
        {'rank': (2, 3, 2)}
        """
        if text.partition(":")[0] not in (record.name for record in records()) and ":" in text:  # module:Class
            module, kind, *rest = text.split(":", 2)
            _, settings = _parse(":".join(["", *rest]))
            return cls(f"{module}:{kind}", settings)
        return cls(*_parse(text))

    def __str__(self) -> str:
        return _text(self.policy, self.settings)


@dataclass(frozen=True)
class PaperWorld:
    """The paper's simulated environments: call it with a seed.

    ``p``, ``signal``, ``order`` and ``rank`` are those of :func:`paper_tensor`, ``noise`` is the standard deviation of
    a reward.

    >>> world = PaperWorld(p=4, signal=0.8)
    >>> world(0).shape, str(world), PaperWorld.parse("paper:p=4,signal=0.8") == world
    ((4, 4, 4), 'paper:p=4,signal=0.8', True)
    """

    p: int = 15
    signal: float = 0.5
    order: int = 3
    rank: int = 2
    noise: float = 1.0

    def __post_init__(self) -> None:
        for name in ("p", "order", "rank"):
            check_count(getattr(self, name), name)
        check_positive(self.signal, "signal")
        if self.rank > self.p:
            raise ValueError(f"rank is {self.rank}; a mode of {self.p} levels allows at most {self.p}: lower it")
        check_at_least(self.noise, "noise")

    def __call__(self, seed: int) -> TensorEnvironment:
        """Return the environment of a seed, which decides the mean rewards and the noise."""
        mean = paper_tensor(self.p, self.signal, self.order, self.rank, seed=seed)
        return TensorEnvironment(mean, noise=self.noise, seed=seed)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the world that a text like ``"paper:p=15,signal=0.5"`` describes."""
        name, settings = _parse(text)
        allowed = [item.name for item in fields(cls)]
        if name != "paper":
            raise ValueError(f"{text!r} names no environment; allowed is paper, for example paper:p=15,signal=0.5")
        unknown = [key for key in settings if key not in allowed]
        if unknown:
            raise ValueError(f"{unknown[0]!r} is no setting of {text!r}: allowed are {', '.join(allowed)}")
        return cls(**settings)

    def __str__(self) -> str:
        chosen = {item.name: getattr(self, item.name) for item in fields(self)}
        return _text("paper", {name: value for name, value in chosen.items() if value != getattr(type(self), name)})


def _parse(text: str) -> tuple[str, dict[str, Any]]:
    """Split ``name:key=value,key=value`` into the name and its settings."""
    name, _, rest = text.partition(":")
    settings: dict[str, Any] = {}
    for part in filter(None, (piece.strip() for piece in rest.split(","))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not key or not value:
            raise ValueError(f"{part!r} in {text!r} is no setting; write name:key=value,key=value")
        if key in settings:
            raise ValueError(f"{text!r} sets {key!r} twice; set it once")
        settings[key] = _value(value)
    return name.strip(), settings


def _value(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    parts = text.split("x")
    if len(parts) > 1 and all(part.isdigit() for part in parts):
        return tuple(int(part) for part in parts)
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _text(name: str, settings: Mapping[str, Any]) -> str:
    """The inverse of :func:`_parse`."""
    words = {value: word for word, value in _WORDS.items()}
    parts = []
    for key, value in settings.items():
        if value is None or isinstance(value, bool):
            value = words[value]
        elif isinstance(value, tuple):
            value = "x".join(map(str, value))
        parts.append(f"{key}={value}")
    return f"{name}:{','.join(parts)}" if parts else name

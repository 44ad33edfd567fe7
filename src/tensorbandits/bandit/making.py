"""How a bandit's state is made from what a caller gives: checked, with defaults, and with a policy over its space."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from tensorbandits.bandit.book import Book
from tensorbandits.bandit.settings import Settings, described
from tensorbandits.bandit.shares import Shares
from tensorbandits.bandit.spans import Fading, Span
from tensorbandits.bandit.state import State
from tensorbandits.bandit.warm_start import check_featured
from tensorbandits.base.checks import check_flag, nearest
from tensorbandits.policies import registry
from tensorbandits.policies.base import Policy
from tensorbandits.space import Space
from tensorbandits.space.labels import Label

_NOT_GIVEN = ("more", "time", "settings")
Part = tuple[Mapping[str, Label], float]


def new_state(
    space: Space,
    policy: Any = "thompson",
    *,
    floors: float | Sequence[Part] = (),
    ceilings: Sequence[Part] = (),
    holdout: float = 0.0,
    baseline: str | Mapping[str, Label] | Sequence[Part] = "uniform",
    rollout: float | None = None,
    paused: bool = False,
    window: Any = None,
    default: float | None = None,
    adds: bool = False,
    half_life: Any = None,
    capacity: int = 1_000_000,
    remember: int = 100_000,
    seed: Any = None,
    time: float,
    settings: Settings | None = None,
    **more: Any,
) -> State:
    """Return the state of a new bandit; the arguments are those of :class:`~tensorbandits.Bandit`."""
    if not isinstance(space, Space):
        raise TypeError(f"space is {space!r}; give a Space of named modes and levels")
    made = _policy(space, policy, seed, more)
    shares = Shares.of(
        space,
        floors=floors,
        ceilings=ceilings,
        baseline=baseline,
        holdout=holdout,
        rollout=rollout,
        paused=paused,
    )
    if (shares.ceilings or rollout is not None) and not made.traits.samples:
        wants = "ceilings are" if shares.ceilings else "apprentice is"
        raise ValueError(
            f"{wants} given, but {type(made).__name__} draws by itself; use a policy that samples, "
            "such as 'thompson', or forbid arms"
        )
    length = Span.of(window, "window")
    if default is not None and length is None:
        raise ValueError(f"default is {default!r}, but no window is given, after which to tell it: give window='1 h'")
    told = None if default is None else made.check_reward(default)
    adds = check_flag(adds, "adds")
    book = Book(window=length, default=told, adds=adds, capacity=capacity, remember=remember)
    fading = Fading.of(made, Span.of(half_life, "half_life", whole=False), time)
    known = described(space, shares, length, told, fading.half_life) if settings is None else settings
    return State(space, made, book=book, shares=shares, fading=fading, settings=known)


def _policy(space: Space, policy: Any, seed: Any, settings: dict[str, Any]) -> Policy:
    """Return the policy itself, or one made for the space, with the features of its levels."""
    if not isinstance(policy, Policy):
        record = registry.find(policy)
        known = ["paper", *record.settings]
        for name in settings:
            if name not in known and not record.takes_any:
                taken = [one for one in inspect.signature(new_state).parameters if one not in _NOT_GIVEN]
                own = [*taken[:2], "ring", *taken[2:], "clock", "learning"]
                hint = nearest(name, [*own, *known]) or f"allowed are {', '.join([*own, *known])}"
                raise TypeError(f"{name!r} is no argument of a bandit or of {record.kind.__name__}: {hint}")
        _refuse_unlearned(space, record.kind)
        if space.features:
            if "features" in settings:
                raise TypeError("features are given beside a space that has its own; leave them out of one")
            check_featured(record.kind)
        if record.kind.traits.featured and (described := space.feature_numbers()):
            settings = {**settings, "features": {**described, **(settings.get("features") or {})}}
        return record.make(space.shape, context=space.context, seed=seed, **settings)
    if settings:
        raise TypeError(f"{sorted(settings)} are settings of a policy that is made already; give its name instead")
    if (policy.shape, policy.context) != (space.shape, space.context):
        raise ValueError(
            f"the policy has shape {policy.shape} and context {policy.context}, the space {space.shape} and "
            f"{space.context}; make it with shape=space.shape and context=space.context"
        )
    _refuse_unlearned(space, type(policy))
    if space.features:
        check_featured(policy)
    for mode, numbers in space.feature_numbers().items() if policy.traits.featured else ():
        policy.describe(mode, numbers)
    return policy


def _refuse_unlearned(space: Space, kind: type[Policy]) -> None:
    """Refuse regions that are still to be learned, for a policy that cannot follow them."""
    learning = [mode for mode, one in space.regions.items() if one.learning]
    if learning and not kind.traits.grows:
        raise ValueError(
            f"the regions of mode {learning[0]!r} are still to be learned, but {kind.__name__} cannot follow levels "
            "that come later; learn them from a log, Numeric(..).learn(log), give cuts, or use 'thompson'"
        )

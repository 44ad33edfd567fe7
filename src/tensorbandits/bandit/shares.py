"""Shares of decisions that some arms have whatever the policy says: floors, ceilings, the baseline of the holdout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

from tensorbandits.base.checks import check_flag, is_finite, is_sequence
from tensorbandits.space import Space

_SOME = 1e-300  # of the decisions: a holdout that takes nothing, to check the baseline of one
_PARTS = "give pairs of labels and a share, such as [({'channel': 'sms'}, 0.05)]"


class Share(NamedTuple):
    """A share of decisions for the arms that have some levels, spread evenly over those that are allowed."""

    levels: dict[int, int]  # by position of the mode; none for all arms
    share: float


class Shares(NamedTuple):
    """What decisions are drawn by besides the policy."""

    floors: tuple[Share, ...] = ()
    ceilings: tuple[Share, ...] = ()
    baseline: tuple[Share, ...] = (Share({}, 1.0),)
    holdout: float = 0.0
    rollout: float | None = None  # of an apprentice: what it decides itself, beside a caller's rule
    paused: bool = False  # meanwhile the baseline decides, or the caller's rule of an apprentice

    @classmethod
    def of(
        cls,
        space: Space,
        *,
        floors: Any,
        ceilings: Any,
        baseline: Any,
        holdout: Any,
        rollout: Any = None,
        paused: Any = False,
    ) -> Self:
        """Return the shares that a caller gives by label, checked.

        >>> space = Space({"offer": ["a", "b"], "channel": ["mail", "sms"]})
        >>> Shares.of(space, floors=0.1, ceilings=[({"channel": "sms"}, 0.5)], baseline={"offer": "a"}, holdout=0.2)
        Shares(floors=(Share(levels={}, share=0.1),), ceilings=(Share(levels={1: 1}, share=0.5),), \
baseline=(Share(levels={0: 0}, share=1.0),), holdout=0.2, rollout=None, paused=False)
        """
        least = [({}, floors)] if is_finite(floors) and not isinstance(floors, bool) else floors
        made = (
            [({}, 1.0)] if baseline == "uniform" else [(baseline, 1.0)] if isinstance(baseline, Mapping) else baseline
        )
        found = {"floors": least, "ceilings": ceilings, "baseline": made}
        parts = {name: tuple(_parts(space, name, value)) for name, value in found.items()}
        if (total := sum(one.share for one in parts["floors"])) > 1.0:
            raise ValueError(f"the floors add up to {total:g}; they are shares of all decisions, at most 1 together")
        if abs((total := sum(one.share for one in parts["baseline"])) - 1.0) > 1e-9:
            raise ValueError(f"the shares of the baseline add up to {total:g}; they must add up to 1")
        if not holdout and not check_flag(paused, "paused") and baseline != "uniform":
            raise ValueError(f"baseline is {baseline!r}, but nothing is held out for it; give a share: holdout=0.1")
        if isinstance(holdout, bool) or not is_finite(holdout) or not 0 <= holdout < 1:
            raise ValueError(
                f"holdout is {holdout!r}; it is the share of decisions for the baseline, from 0 to below 1"
            )
        if rollout is not None and (isinstance(rollout, bool) or not is_finite(rollout) or not 0 <= rollout <= 1):
            raise ValueError(
                f"rollout is {rollout!r}; it is the share of decisions that the bandit makes beside your own rule, "
                "from 0 to 1"
            )
        own = None if rollout is None else float(rollout)
        shares = cls(**parts, holdout=float(holdout), rollout=own, paused=check_flag(paused, "paused"))
        for one in shares.ceilings:
            if (least := shares._least(space, one.levels)) > one.share + 1e-9:
                labels = {space.modes[mode]: space.levels[mode][level] for mode, level in one.levels.items()}
                raise ValueError(
                    f"the ceiling of {labels} is {one.share:g}, but floors and holdout alone give these arms "
                    f"{least:.3g} of the decisions; raise it, or lower them"
                )
        return shares

    def _least(self, space: Space, wanted: dict[int, int]) -> float:
        """What floors and baseline give to the arms with some levels, where all arms are allowed."""
        return sum(
            (self.holdout if part is self.baseline else 1.0 - self.holdout) * share * _inside(space, wanted, levels)
            for part in (self.floors, self.baseline)
            for levels, share in part
        )

    @property
    def chances(self) -> tuple[float, float]:
        """The chances that the policy, and that the holdout, makes a decision; the rest is the caller's rule's."""
        own = 1.0 if self.rollout is None else self.rollout
        if self.paused:
            return 0.0, float(self.rollout is None)
        return own * (1.0 - self.holdout), own * self.holdout

    def state(self) -> list[Any]:
        """Return floors, ceilings and baseline as plain data."""
        return [[[[list(pair) for pair in levels.items()], share] for levels, share in part] for part in self[:3]]

    @classmethod
    def from_state(
        cls, state: Sequence[Any], holdout: Any, space: Space, rollout: Any = None, paused: Any = False
    ) -> Self:
        """Return the shares that :meth:`state` described, which must be possible in a space.

        >>> space = Space({"offer": ["a", "b"]})
        >>> Shares.from_state([[[[], -0.25]], [], [[[], 1.0]]], 0.0, space)
        Traceback (most recent call last):
        ...
        ValueError: floors has the share -0.25; shares are from 0 to 1
        """
        names = ("floors", "ceilings", "baseline")
        if not is_sequence(state) or len(state) != len(names) or not all(map(is_sequence, state)):
            raise ValueError(f"the shares are {state!r}; give what state returned: floors, ceilings and baseline")
        named = {}
        for name, part in zip(names, state, strict=True):
            try:
                named[name] = [(_named(space, dict(pairs)), share) for pairs, share in part]
            except (IndexError, TypeError, ValueError) as error:
                raise ValueError(f"{name} are {part!r}, which is of no levels of this space ({error})") from None
        if not holdout:  # the baseline of a holdout that is gone may wait for the next one
            cls.of(space, **{**named, "baseline": "uniform"}, holdout=holdout, rollout=rollout, paused=paused)
            found = cls.of(space, **named, holdout=_SOME, rollout=rollout, paused=paused)._replace(holdout=0.0)
            return found
        return cls.of(space, **named, holdout=holdout, rollout=rollout, paused=paused)


def _named(space: Space, levels: dict[int, int]) -> dict[str, Any]:
    """Labels of levels by position of the mode."""
    found = {}
    for mode, level in levels.items():
        if not 0 <= mode < len(space.modes) or not 0 <= level < space.shape[mode]:
            raise IndexError(f"there is no level {level} of mode {mode}")
        found[space.modes[mode]] = space.levels[mode][level]
    return found


def _inside(space: Space, wanted: dict[int, int], levels: dict[int, int]) -> float:
    """The share of the arms with some levels that have the wanted ones too, in a context that has them."""
    found = 1.0
    for mode, level in wanted.items():
        if mode in levels:
            found *= levels[mode] == level
        elif mode not in space.context:
            found /= space.shape[mode]
    return found


def _parts(space: Space, name: str, value: Any) -> list[Share]:
    if not is_sequence(value):
        raise TypeError(f"{name} is {value!r}; {_PARTS}")
    parts = []
    for part in value:
        if not is_sequence(part) or len(part) != 2 or not isinstance(part[0], Mapping):
            raise TypeError(f"{name} has the part {part!r}; {_PARTS}")
        if isinstance(part[1], bool) or not is_finite(part[1]) or not 0 <= part[1] <= 1:
            raise ValueError(f"{name} has the share {part[1]!r}; shares are from 0 to 1")
        parts.append(Share(space.partial(part[0]), float(part[1])))
    return parts

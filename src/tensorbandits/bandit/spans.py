"""How long things last, in time or in rounds: how long a decision waits, and how soon rewards count half."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple, Self

import numpy as np

from tensorbandits.base.checks import check_array, is_finite

_WORDS = {1.0: "s sec second", 60.0: "m min minute", 3600.0: "h hr hour", 86400.0: "d day", 604800.0: "w week"}
_UNITS = {
    form: seconds
    for seconds, words in _WORDS.items()
    for word in words.split()
    for form in ([word, f"{word}s"] if len(word) > 1 else [word])  # as "ms" are no minutes
}
_DURATION = (
    "give a duration in seconds, minutes, hours, days or weeks, such as timedelta(minutes=10) or '10 min', or a {} of "
    "rounds"
)
STEPS = 64  # in which a half-life is faded
_LEAST = 1e-100  # what a step leaves at least, however long it was: a ledger keeps no less


class Span(NamedTuple):
    """A length, in seconds or in rounds.

    >>> Span.of("10 min", "window"), Span.of(500, "window")
    (Span(length=600.0, rounds=False), Span(length=500.0, rounds=True))
    """

    length: float
    rounds: bool

    @classmethod
    def of(cls, value: Any, name: str, *, whole: bool = True) -> Span | None:
        """Return what a caller gave under a name; ``None`` if that is what it is. Rounds may have to be whole."""
        what = _DURATION.format("whole number" if whole else "number")
        if value is None:
            return None
        if isinstance(value, timedelta):
            length, rounds = value.total_seconds(), False
        elif isinstance(value, str):
            match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", value.lower())
            if match is None or match[2] not in _UNITS:
                raise ValueError(f"{name} is {value!r}; {what}")
            length, rounds = float(match[1]) * _UNITS[match[2]], False
        elif isinstance(value, (int, np.integer) if whole else (int, float, np.number)) and not isinstance(value, bool):
            length, rounds = float(value), True
        else:
            raise TypeError(f"{name} is {value!r}; {what}")
        if not is_finite(length) or length <= 0:
            raise ValueError(f"{name} is {value!r}, which leaves no time; {what}")
        return cls(length, rounds)

    @classmethod
    def written(cls, value: Any) -> Span | None:
        """Return the one that was saved as a list."""
        return None if value is None else cls(float(value[0]), bool(value[1]))


class Fading:
    """When the past fades, and by how much: a reward that was told a half-life ago counts half.

    It fades in steps, 64 to a half-life, and what was told within one counts alike: so a reward counts within 1.1 % of
    ``2^(-age / half_life)``, for a sixty-fourth of a half-life's cost. Rounds are rewards that were told.

    >>> fading = Fading(Span.of(128, "half_life"))
    >>> [fading.step(rewards, 0.0) for rewards in (1, 2, 3, 4)] == [1.0, 2 ** (-1 / 64), 1.0, 2 ** (-1 / 64)]
    True
    >>> fading.era, fading.weight(0) == 2 ** (-2 / 64)
    (2, True)
    """

    def __init__(self, half_life: Span | None, time: float = 0.0) -> None:
        self.half_life = half_life
        self._before = 0  # steps of half-lives of before, less those that the one of now would have made meanwhile
        self.era = self._era(0, time)  # steps so far

    @classmethod
    def of(cls, policy: Any, half_life: Span | None, time: float) -> Self:
        """Return how what a policy was told fades, or refuse where it would not be forgotten."""
        if half_life is not None and (why := policy.keeps()) is not None:
            raise ValueError(f"half_life is given, but {why}")
        return cls(half_life, time)

    def _era(self, rewards: int, time: float) -> int:
        if self.half_life is None:
            return self._before
        passed = rewards if self.half_life.rounds else time
        return self._before + math.floor(passed * STEPS / self.half_life.length)

    def change(self, half_life: Span | None, rewards: int, time: float) -> None:
        """Fade by another half-life from now on, after so many rewards; what has faded so far stays as it is.

        >>> fading = Fading(None)
        >>> fading.change(Span.of(64, "half_life"), 1_000, 0.0)
        >>> fading.step(1_000, 0.0), fading.step(1_001, 0.0) == 2 ** (-1 / 64)
        (1.0, True)
        """
        self.half_life, self._before = half_life, 0
        self._before = self.era - self._era(rewards, time)

    def due(self, time: float) -> bool:
        """Say whether time alone asks for a step."""
        return self.half_life is not None and not self.half_life.rounds and self._era(0, time) > self.era

    def step(self, rewards: int, time: float) -> float:
        """Go on to so many rewards and a time; return the factor by which what was told before is to fade."""
        era = max(self._era(rewards, time), self.era)  # a clock may be put back
        steps, self.era = era - self.era, era
        return _left(steps)

    def weight(self, era: int) -> float:
        """Return what a reward counts for that was told in an era."""
        return _left(self.era - era)

    def state(self) -> dict[str, Any]:
        """Return everything as plain numbers."""
        return {
            "half_life": None if self.half_life is None else list(self.half_life),
            "era": self.era,
            "before": self._before,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return what :meth:`state` described."""
        fading = cls(Span.written(state["half_life"]))
        fading._before = int(check_array(state.get("before", 0), "before", (), integers=True).item())  # 0 at first
        fading.era = int(check_array(state["era"], "era", (), integers=True).item())
        return fading


def _left(steps: int) -> float:
    return max(2.0 ** (-steps / STEPS), _LEAST) if steps > 0 else 1.0

"""What all views share: values that JSON holds, labels as text, intervals, and parameters of a request."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorbandits.base.checks import check_probability, nearest
from tensorbandits.space import Space
from tensorbandits.space.labels import Label, written

Floats = NDArray[np.float64]

NORMAL = 1.959964  # standard errors on each side that hold 95 %
MOST = 40  # levels of a mode that a person can read
RATES = ("bernoulli", "binomial")  # kinds of reward of which means are shares


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it; what is no finite number becomes ``None``.

    >>> plain({"a": np.array([1.0, np.nan]), "b": (np.int64(2), float("inf"))})
    {'a': [1.0, None], 'b': [2, None]}
    """
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return written(value)


def text(label: Label) -> str:
    """Return a label as people read it; the page names levels by their index, so that texts need not differ."""
    return str(label)


def texts(labels: Sequence[Label]) -> list[str]:
    """Return labels as people read them."""
    return [text(label) for label in labels]


def retired(space: Space, mode: int) -> set[int]:
    """Return the indices of the levels of a mode that are retired."""
    name = space.modes[mode]
    return {space.level(name, label) for label in space.retired.get(name, [])}


def bounds(sums: Floats, kind: str | None) -> dict[str, Floats]:
    """Return mean rewards with their 95 % intervals, of rows of decisions, rewards, their sum and that of squares.

    Of clicks it is Wilson's interval, which is right for few and for none of them too.

    >>> found = bounds(np.array([[10.0, 8.0, 0.0, 0.0]]), "bernoulli")
    >>> found["mean"].item(), found["low"].item(), round(found["high"].item(), 2)
    (0.0, 0.0, 0.32)
    """
    count = np.where(sums[:, 1] > 0, sums[:, 1], np.nan)
    mean = sums[:, 2] / count
    if kind in RATES:
        share = np.clip(mean, 0.0, 1.0)
        middle = (share + NORMAL**2 / (2 * count)) / (1 + NORMAL**2 / count)
        half = np.sqrt(share * (1 - share) / count + (NORMAL / (2 * count)) ** 2) * NORMAL / (1 + NORMAL**2 / count)
        return {"mean": mean, "low": np.minimum(middle - half, mean).clip(0), "high": np.maximum(middle + half, mean)}
    half = NORMAL * errors(sums)
    return {"mean": mean, "low": mean - half, "high": mean + half}


def errors(sums: Floats) -> Floats:
    """Return the standard errors of mean rewards, of rows as :func:`bounds` takes them."""
    count = np.where(sums[:, 1] > 1, sums[:, 1], np.nan)
    variance = np.maximum(sums[:, 3] / count - (sums[:, 2] / count) ** 2, 0.0)
    return np.asarray(np.sqrt(variance / (count - 1.0)))


class Params:
    """The parameters of a request, each read once; :meth:`done` refuses those that nobody has read."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._left = dict(values)
        self._known: list[str] = []

    def _take(self, name: str) -> str | None:
        self._known.append(name)
        return self._left.pop(name, None)

    def word(self, name: str) -> str | None:
        """Return a text, or ``None`` if it is not given or empty."""
        return self._take(name) or None

    def count(self, name: str, usual: int, most: int) -> int:
        """Return a whole number from 1 to ``most``."""
        value = self._take(name)
        if value is None:
            return usual
        if not (value.isascii() and value.isdigit() and len(value) < 10 and 1 <= int(value) <= most):
            raise ValueError(f"{name} is {value!r}; give a whole number from 1 to {most}")
        return int(value)

    def probability(self, name: str, usual: float) -> float:
        """Return a number between 0 and 1."""
        value = self._take(name)
        if value is None:
            return usual
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        return check_probability(number, name)

    def levels(self, name: str, space: Space) -> dict[str, Label]:
        """Return labels by mode, from a JSON object of the index of a level by the name of its mode."""
        value = self._take(name)
        if not value:
            return {}
        what = f'{name} is {value[:60]!r}; give indices of levels by mode, as JSON: {{"{space.modes[0]}": 0}}'
        try:
            given = json.loads(value)
        except (ValueError, RecursionError):
            raise ValueError(what) from None
        if not isinstance(given, dict):
            raise ValueError(what)
        found: dict[str, Label] = {}
        for mode, level in given.items():
            labels = space.levels[space.position(mode)]
            if isinstance(level, bool) or not isinstance(level, int) or not 0 <= level < len(labels):
                raise ValueError(
                    f"{name} has the level {level!r} of {mode!r}; give an index from 0 to {len(labels) - 1}"
                )
            found[mode] = labels[level]
        return found

    def done(self) -> None:
        """Refuse what is left."""
        for name in self._left:
            hint = nearest(name, self._known) or "leave it out"
            raise ValueError(f"this view has no parameter {name!r}, but {self._known}: {hint}")

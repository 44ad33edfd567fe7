"""What all views share: values that JSON holds, intervals, and parameters of a request."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from tensorbandits.bandit.intervals import RATES, Looks, check_looks
from tensorbandits.bandit.uplift import mean_bounds
from tensorbandits.base.checks import check_probability
from tensorbandits.model.enough import at_first
from tensorbandits.space import Space
from tensorbandits.space.labels import Label, written

Floats = NDArray[np.float64]

MOST = 40  # levels of a mode that a person can read


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


def retired(space: Space, mode: int) -> set[int]:
    """Return the indices of the levels of a mode that are retired."""
    name = space.modes[mode]
    return {space.level(name, label) for label in space.retired.get(name, [])}


def bounds(sums: Floats, kind: str | None, events: float = 1.0, looks: Looks = "anytime") -> dict[str, Floats]:
    """Return mean rewards with their 95 % intervals, of rows of decisions, rewards, their sum and that of squares.

    ``events`` is the share of rewards that are not 0.

    >>> found = bounds(np.array([[10.0, 8.0, 0.0, 0.0]]), "bernoulli", looks="fixed")
    >>> found["mean"].item(), found["low"].item(), round(found["high"].item(), 2)
    (0.0, 0.0, 0.32)
    """
    return mean_bounds(sums, kind, events, looks=looks)._asdict()


USUAL_RATE = 0.05  # of decisions that earn something, where nobody knows yet


def needed(space: Space, kind: str | None, rate: float | None) -> int | None:
    """Return how many rewards mostly show levels that differ by about 30 %; so many of them (``rate``) are not 0.

    >>> needed(Space({"offer": ["a", "b"], "channel": ["mail", "sms"]}), "bernoulli", 0.05)
    4127
    """
    share, known = USUAL_RATE if rate is None else rate, kind or "gaussian"
    if known in RATES or known.startswith("revenue"):
        told = share * (1.0 - share)
    else:
        told = share if known == "count" else 1.0
    whole = at_first(space.shape, 1)
    return math.ceil(whole / told) if told and math.isfinite(whole) else None


def looks(name: str, value: str | None, space: Space) -> Looks:
    """Read which intervals are wanted: valid at every look, or at one time."""
    if value is not None and value not in get_args(Looks):
        raise ValueError(f"{name} is {value!r}; give 'anytime', valid at every look, or 'fixed', valid at one time")
    return check_looks(value or "anytime")


# Parameters of a request: what reads one, given its name, its text if there is any, and the space.

Reader = Callable[[str, str | None, Space], Any]


def word(name: str, value: str | None, space: Space) -> str | None:
    """Read a text; ``None`` if it is not given or empty."""
    return value or None


def count(usual: int, most: int) -> Reader:
    """Return what reads a whole number from 1 to ``most``."""

    def read(name: str, value: str | None, space: Space) -> int:
        if value is None:
            return usual
        if not (value.isascii() and value.isdigit() and len(value) < 10 and 1 <= int(value) <= most):
            raise ValueError(f"{name} is {value!r}; give a whole number from 1 to {most}")
        return int(value)

    return read


def probability(usual: float) -> Reader:
    """Return what reads a number between 0 and 1."""

    def read(name: str, value: str | None, space: Space) -> float:
        try:
            number = usual if value is None else float(value)
        except ValueError:
            number = math.nan
        return check_probability(number, name)

    return read


def levels(name: str, value: str | None, space: Space) -> dict[str, Label]:
    """Read labels by mode, from a JSON object of the index of a level by the name of its mode."""
    try:
        given = json.loads(value) if value else {}
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        example = f'{{"{space.modes[0]}": 0}}'
        raise ValueError(f"{name} is {str(value)[:60]!r}; give indices of levels by mode, as JSON: {example}")
    found: dict[str, Label] = {}
    for mode, level in given.items():
        labels = space.levels[space.position(mode)]
        if isinstance(level, bool) or not isinstance(level, int) or not 0 <= level < len(labels):
            raise ValueError(f"{name} has the level {level!r} of {mode!r}; give an index from 0 to {len(labels) - 1}")
        found[mode] = labels[level]
    return found

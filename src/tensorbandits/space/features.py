"""What the levels of a mode are like: features by name, and the numbers that a policy is given for them.

A feature is a number, a truth value, a category, text, or a list of numbers such as an embedding. How each becomes
columns of numbers is settled once, from the levels that it is given for first, and stays as it is when levels come or
change: what a policy has learned of a column goes on meaning the same.

==========  =======================================================================================================
kind        columns
==========  =======================================================================================================
number      1: in deviations from the mean; what is beyond 3 of them grows by its logarithm
truth       the same of 0 and 1
numbers     one each: about their means, in deviations of all of them
category    one for each that there was at first, and 4 into which those that come later are hashed
text        32 into which its words are hashed
==========  =======================================================================================================

Text is a category if two levels share one and there are at most 50. All features have the same weight, however many
columns. A missing value is the mean; where values of a feature are missing at first, one more column says of which
levels. A last column says how many other features are missing, so that a level of which nothing is known is not
believed to be average for sure.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from numbers import Real
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from tensorbandits.base import html
from tensorbandits.base.checks import is_sequence, nearest
from tensorbandits.base.frames import columns_of, is_frame
from tensorbandits.space.labels import Label, plain

Floats = NDArray[np.float64]
Kind = Literal["number", "truth", "numbers", "category", "text"]
Values = Mapping[str, Any]  # those of one level, by the name of the feature; what is missing is left out

MOST_COLUMNS = 1_000  # of a mode
MOST_CATEGORIES = 50
VECTOR = "vector"  # the name of a list of numbers that is given without one
_LATER = 4  # columns of categories that come later
_HASHED = 32  # columns of words
_FAR = 3.0  # deviations, beyond which a number counts by its logarithm
_LARGEST = 1e100
_SHOWN = 8
_WORDS = re.compile(r"\w+")
_KIND_WORDS = {"number": "a number", "truth": "a truth value", "numbers": "a list of numbers", "text": "text"}


@dataclass(frozen=True, eq=False)
class Feature:
    """A feature of the levels of a mode, and how it becomes columns: ``(value - centre) / scale``."""

    name: str
    kind: Kind
    centre: Floats  # (size,)
    scale: float
    missing: float = 0.0  # the share of levels that it was missing of at first
    categories: tuple[str, ...] = ()

    @property
    def columns(self) -> int:
        """How many columns it has."""
        return len(self.centre) + (self.missing > 0.0)

    @property
    def weights(self) -> int:
        """How many columns of weight 1 it stands for."""
        return 1 + (self.missing > 0.0)

    @classmethod
    def of(cls, name: str, values: Sequence[Any], mode: str) -> Self:
        """Return a feature as the values of the levels have it, ``None`` for those of which it is missing."""
        known = [value for value in values if value is not None]
        what = f"the feature {name!r} of mode {mode!r}"
        if not known:
            raise ValueError(f"{what} is missing of all {len(values)} levels; leave it out")
        if all(np.array_equal(value, known[0]) for value in known):
            raise ValueError(
                f"{what} is {_shown(known[0])} for all {len(known)} levels that have it, so that it says nothing; give "
                "levels that differ, or leave it out"
            )
        kind, categories = kind_of(known[0]), ()
        if kind == "text" and len(found := sorted(set(known))) < min(len(known), MOST_CATEGORIES + 1):
            kind, categories = "category", tuple(found)
        size = len(known[0]) if kind == "numbers" else 1
        one = cls(name, kind, np.zeros(size), 1.0, categories=categories)
        raw = np.array([one.raw(value) for value in known])
        centre = raw.mean(axis=0)
        square = float(((raw - centre) ** 2).sum(axis=1).mean()) / (size if kind == "numbers" else 1)
        return cls(name, kind, centre, math.sqrt(square) or 1.0, 1.0 - len(known) / len(values), categories)

    def raw(self, value: Any) -> Floats:
        """Return a value as numbers before they are centred, (size,)."""
        if self.kind in ("number", "truth", "numbers"):
            return np.atleast_1d(np.asarray(value, dtype=np.float64))
        if self.kind == "category":
            found = np.zeros(len(self.categories) + _LATER)
            if value in self.categories:
                found[self.categories.index(value)] = 1.0
            else:
                at, sign = _hashed(value, _LATER)
                found[len(self.categories) + at] = sign
            return found
        found = np.zeros(_HASHED)
        for word in _WORDS.findall(value.lower()):
            at, sign = _hashed(word, _HASHED)
            found[at] += sign
        return found / (math.sqrt(float(found @ found)) or 1.0)

    def encoded(self, value: Any) -> Floats:
        """Return the columns of a value, (columns,)."""
        numbers = np.zeros(len(self.centre))
        if value is not None:
            numbers = (self.raw(value) - self.centre) / self.scale
            if self.kind in ("number", "truth", "numbers"):
                size, far = np.abs(numbers), np.abs(numbers) > _FAR
                numbers[far] = np.sign(numbers[far]) * (_FAR + np.log1p(size[far] - _FAR))
                numbers /= math.sqrt(len(numbers))
        if not self.missing:
            return numbers
        mark = ((value is None) - self.missing) / math.sqrt(self.missing * (1.0 - self.missing))
        return np.append(numbers, mark)

    def check(self, value: Any, mode: str) -> None:
        """Refuse a value of another kind than the feature has."""
        found = kind_of(value)
        wanted = "text" if self.kind == "category" else self.kind
        if found != wanted or (found == "numbers" and len(value) != len(self.centre)):
            had = f"{len(self.centre)} numbers" if wanted == found else _KIND_WORDS[wanted]
            raise ValueError(
                f"the feature {self.name!r} of mode {mode!r} is {_shown(value)}, but it was {had} before; give the "
                "same kind, or all features anew (describe with anew=True)"
            )

    def words(self) -> str:
        """Return what it is in words."""
        counts = {"numbers": len(self.centre), "category": len(self.categories)}
        unit = {"numbers": "numbers", "category": "categories"}
        return f"{counts[self.kind]} {unit[self.kind]}" if self.kind in counts else self.kind

    def state(self) -> dict[str, Any]:
        """Return it as plain data that JSON can hold."""
        return {
            "name": self.name,
            "kind": self.kind,
            "centre": self.centre.tolist(),
            "scale": self.scale,
            "missing": self.missing,
            "categories": list(self.categories),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the feature that :meth:`state` described."""
        centre, scale, missing = np.array(state["centre"], dtype=np.float64), state["scale"], state["missing"]
        categories = tuple(str(one) for one in state["categories"])
        sizes = {"category": len(categories) + _LATER, "text": _HASHED, "numbers": len(centre)}
        whole = centre.ndim == 1 and len(centre) == sizes.get(state["kind"], 1) and state["kind"] in get_args(Kind)
        if not whole or not np.isfinite(centre).all() or not 0 < scale < math.inf or not 0 <= missing < 1:
            raise ValueError(f"the feature {state['name']!r} has no columns that could be")
        return cls(str(state["name"]), state["kind"], centre, float(scale), float(missing), categories)


class LevelFeatures:
    """The features of the levels of a mode: their values as they were given, and as columns of numbers.

    It never changes: other values make another one.

    >>> found = LevelFeatures.of("offer", [{"price": 2.0, "colour": "red"}, {"price": 4.0}, {"colour": "red"}, {}])
    Traceback (most recent call last):
    ...
    ValueError: the feature 'colour' of mode 'offer' is 'red' for all 2 levels that have it, so that it says nothing; \
give levels that differ, or leave it out
    >>> found = LevelFeatures.of("offer", [{"price": 2.0}, {"price": 4.0}, {}])
    >>> found, found.missing
    (Features(price: number, missing of 1 level), {'price': 1})
    >>> found.numbers.round(2).tolist()
    [[-1.22, -0.87, 0.0], [1.22, -0.87, 0.0], [0.0, 1.73, 0.0]]
    """

    def __init__(self, mode: str, features: tuple[Feature, ...], rows: tuple[Values, ...]) -> None:
        self.mode, self.features, self.rows = mode, features, rows
        self._by_name = {one.name: one for one in features}
        if self.columns > MOST_COLUMNS:
            raise ValueError(
                f"the features of mode {mode!r} make {self.columns:,} columns; at most {MOST_COLUMNS:,} are allowed: "
                "leave some out"
            )

    @classmethod
    def of(cls, mode: str, rows: Sequence[Values]) -> Self:
        """Return the features of all levels, in order, and settle how they become columns."""
        names = list(dict.fromkeys(name for row in rows for name in row))
        if not names:
            raise ValueError(f"no feature of mode {mode!r} is given; give values by name: {{'price': 9.9}}")
        for name in names:
            known = [(row[name], kind_of(row[name])) for row in rows if name in row]
            other = next((value for value, kind in known if kind != known[0][1]), None)
            if other is not None or len({len(value) for value, kind in known if kind == "numbers"}) > 1:
                other = other or next(value for value, _ in known if len(value) != len(known[0][0]))
                raise ValueError(
                    f"the feature {name!r} of mode {mode!r} is {_shown(known[0][0])} for one level and {_shown(other)} "
                    "for another; give values of one kind, and lists of one length"
                )
        return cls(mode, tuple(Feature.of(name, [row.get(name) for row in rows], mode) for name in names), tuple(rows))

    @property
    def names(self) -> list[str]:
        """The names of the features."""
        return [one.name for one in self.features]

    @property
    def kinds(self) -> dict[str, str]:
        """What each feature is: a number, truth, numbers, a category or text."""
        return {one.name: one.kind for one in self.features}

    @property
    def columns(self) -> int:
        """How many columns of numbers there are."""
        return sum(one.columns for one in self.features) + 1

    @property
    def missing(self) -> dict[str, int]:
        """Of how many levels each feature is missing."""
        return {name: sum(name not in row for row in self.rows) for name in self.names}

    def said(self) -> list[dict[str, Any]]:
        """Return what each feature is, as plain data: name, kind, columns, and of how many levels it is missing."""
        counts = self.missing
        return [
            {"name": one.name, "kind": one.kind, "columns": one.columns, "missing": counts[one.name]}
            for one in self.features
        ]

    @property
    def places(self) -> list[tuple[str, slice]]:
        """The columns of each feature, that which says where it is missing included; the last column is of none."""
        ends = np.cumsum([one.columns for one in self.features]).tolist()
        return [(one.name, slice(end - one.columns, end)) for one, end in zip(self.features, ends, strict=True)]

    @cached_property
    def numbers(self) -> Floats:
        """The columns of all levels, (levels, columns)."""
        return np.array([self._encoded(row) for row in self.rows]).reshape(len(self.rows), self.columns)

    def _encoded(self, row: Values) -> Floats:
        weight = math.sqrt(self.columns / sum(one.weights for one in self.features))
        unsaid = sum(not one.missing and one.name not in row for one in self.features)
        columns = [one.encoded(row.get(one.name)) for one in self.features]
        return weight * np.concatenate([*columns, [math.sqrt(unsaid)]])

    def checked(self, values: Values) -> Values:
        """Return the values of a level, if they are of features that there are, and of their kinds."""
        for name, value in values.items():
            if name not in self._by_name:
                hint = nearest(name, self.names) or "name one of them, or give all features anew"
                raise ValueError(f"{name!r} is no feature of mode {self.mode!r}, which has {self._listed()}: {hint}")
            if value is not None:
                self._by_name[name].check(value, self.mode)
        return values

    def _listed(self) -> str:
        more = len(self.names) - _SHOWN
        return ", ".join(map(repr, self.names[:_SHOWN])) + (f" and {more:,} more" if more > 0 else "")

    def added(self, values: Values) -> LevelFeatures:
        """Return the same with one level more; what is not given of it is missing."""
        row = present(self.checked(values))
        return self._with((*self.rows, row), {len(self.rows): row})

    def changed(self, values: Mapping[int, Values]) -> LevelFeatures:
        """Return the same with other values of some levels; ``None`` is missing, and what is not named stays."""
        rows, new = list(self.rows), {}
        for level, some in values.items():
            new[level] = rows[level] = present({**rows[level], **self.checked(some)})
        return self._with(tuple(rows), new)

    def _with(self, rows: tuple[Values, ...], new: Mapping[int, Values]) -> LevelFeatures:
        other = LevelFeatures(self.mode, self.features, rows)
        if "numbers" in vars(self):
            numbers = np.vstack([self.numbers, np.zeros((len(rows) - len(self.rows), self.columns))])
            for level, row in new.items():
                numbers[level] = self._encoded(row)
            vars(other)["numbers"] = numbers
        return other

    def written(self, level: int) -> dict[str, Any]:
        """Return the values of a level as JSON can hold them."""
        return written_values(self.rows[level])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LevelFeatures) and self.state() == other.state()

    __hash__ = None  # type: ignore[assignment]

    def __deepcopy__(self, memo: Any) -> LevelFeatures:
        return self

    def __repr__(self) -> str:
        parts = [
            f"{one.name}: {one.words()}" + (f", missing of {n:,} level{'s' * (n != 1)}" if n else "")
            for one, n in zip(self.features, self.missing.values(), strict=True)
        ]
        return f"Features({'; '.join(parts)})"

    def _repr_html_(self) -> str:
        missing = self.missing
        rows = [[one.name, one.words(), one.columns, missing[one.name]] for one in self.features]
        table = html.table(["feature", "is", "columns", "missing of"], rows, what="features")
        return html.block(f"Features of {self.mode}", table)

    def state(self) -> dict[str, Any]:
        """Return everything as plain data that JSON can hold."""
        return {
            "features": [one.state() for one in self.features],
            "levels": [written_values(row) for row in self.rows],
        }

    @classmethod
    def from_state(cls, mode: str, state: Mapping[str, Any]) -> Self:
        """Return the features that :meth:`state` described."""
        made = cls(mode, tuple(map(Feature.from_state, state["features"])), ())
        return cls(mode, made.features, tuple(present(made.checked(values_of(row, mode))) for row in state["levels"]))


def levels_of(given: Any, mode: str) -> list[tuple[Label, Values]]:
    """Return the labels and values of some levels, from a mapping by label, pairs of both, or a data frame.

    >>> levels_of({"a": {"price": 2}, "b": [0.5, 1.5]}, "offer")
    [('a', {'price': 2.0}), ('b', {'vector': (0.5, 1.5)})]
    """
    if is_frame(given):
        columns = columns_of(given, None, f"the features of mode {mode!r}")
        if mode not in columns:
            raise ValueError(
                f"the features of mode {mode!r} are a data frame without a column {mode!r}, which says of which level "
                f"each row is; it has {', '.join(map(repr, columns)) or 'none'}: rename one"
            )
        labels = columns.pop(mode)
        rows = [{name: column[at] for name, column in columns.items()} for at in range(len(labels))]
        return [(label, values_of(row, mode)) for label, row in zip(labels, rows, strict=True)]
    pairs = list(given.items()) if isinstance(given, Mapping) else given
    if not isinstance(pairs, list) or not all(isinstance(one, (tuple, list)) and len(one) == 2 for one in pairs):
        raise TypeError(
            f"the features of mode {mode!r} are {_shown(given)}; give a mapping by label, such as "
            f"{{'a': {{'price': 9.9}}}}, or a data frame with a column {mode!r}"
        )
    return [(label, values_of(values, mode)) for label, values in pairs]


def values_of(given: Any, mode: str) -> Values:
    """Return the values of the features of one level, by name; ``None`` for what is missing."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        if kind_of(given) != "numbers":
            raise TypeError(
                f"the features of a level of mode {mode!r} are {_shown(given)}; give values by name, such as "
                "{'price': 9.9}, or a list of numbers"
            )
        given = {VECTOR: given}
    found: dict[str, Any] = {}
    for name, value in given.items():
        if not isinstance(name, str) or not name:
            raise TypeError(f"a feature of mode {mode!r} has the name {name!r}; names are text, and not empty")
        found[name] = _value(value, f"the feature {name!r} of mode {mode!r}")
    return found


def written_values(values: Values) -> dict[str, Any]:
    """Return the values of a level as JSON can hold them."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def kind_of(value: Any) -> Any:
    """Return what a value is: a number, truth, numbers or text; ``None`` for anything else.

    >>> kind_of(1.5), kind_of(True), kind_of("red"), kind_of([1, 2])
    ('number', 'truth', 'text', 'numbers')
    """
    value = plain(value)
    if isinstance(value, bool):
        return "truth"
    if isinstance(value, (Real, Decimal)):
        return "number"
    if isinstance(value, str):
        return "text"
    return "numbers" if is_sequence(value) or isinstance(value, np.ndarray) else None


def _value(value: Any, what: str) -> Any:
    """Return a value as plain data: a float, truth, text, a tuple of floats, or ``None``; refuse anything else."""
    if _is_missing(value):
        return None
    kind, found = kind_of(value), plain(value)
    if kind in ("text", "truth"):
        return found
    if kind == "number":
        return _finite(found, what)
    if kind == "numbers":
        found = found.tolist() if isinstance(found, np.ndarray) else found
        if found and set(map(type, found)) == {float} and all(abs(one) <= _LARGEST for one in found):  # nearly all are
            return tuple(found)
        numbers = [None if _is_missing(one) or kind_of(one) != "number" else one for one in found]
        if not numbers or None in numbers:
            raise ValueError(f"{what} is {_shown(value)}; a list has numbers only, at least one, and none is missing")
        return tuple(_finite(one, what) for one in numbers)
    raise TypeError(
        f"{what} is {value!r}, of type {type(value).__name__}; features are numbers, truth values, text, lists of "
        "numbers, and None where they are missing: make it one of them, a time the days since some day"
    )


def _finite(value: Any, what: str) -> float:
    try:
        number = float(value)
    except OverflowError:  # of whole numbers, which have no limit
        number = math.inf
    if not abs(number) <= _LARGEST:
        raise ValueError(f"{what} is {number:g}; give finite numbers up to {_LARGEST:g}, and None where one is missing")
    return number


def _is_missing(value: Any) -> bool:
    """Whether a value stands for none: ``None``, not-a-number, and what pandas has for it."""
    if value is None or type(value).__name__ == "NAType":
        return True
    return isinstance(value, Real | Decimal) and value != value if kind_of(value) == "number" else _is_no_time(value)


def _is_no_time(value: Any) -> bool:
    return type(value).__name__ == "NaTType"


def present(values: Values) -> Values:
    """Return the values that are not missing."""
    return {name: value for name, value in values.items() if value is not None}


def _hashed(word: str, columns: int) -> tuple[int, float]:
    """Return the column that a word falls into, and its sign; the same on every machine."""
    number = int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
    return (number >> 1) % columns, 1.0 if number & 1 else -1.0


def _shown(value: Any) -> str:
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping)):
        return f"a list of {len(list(value))} numbers" if kind_of(value) == "numbers" else repr(value)[:80]
    return repr(value)[:80]

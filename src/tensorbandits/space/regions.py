"""Regions: the levels of a mode whose labels are numbers that requests bring.

At first there is one region for all numbers, until a partition is learned; or the partition is there from the start.
A region can be split later, and its parts be split again. A region that was split stays as a level, as its rewards are
its own, but no number is placed in it any more. Numbers that lack, and numbers beyond the range, have regions of their
own. Regions never change: what changes them returns others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from tensorbandits.base.checks import check_level, is_finite, nearest
from tensorbandits.space.partition import LARGEST, Floats, Ints, Partition, fit, interval, shown

_SMOOTH = 6  # features that say what neighbours share
_NEAR = 1e-6  # of the largest: what says less is left out
_WIDTH = 1.25  # of the distance to the next middle: how far smooth functions reach
_APART = 0.25  # deviations of a number between the cut and the middle of a part of a region of several numbers


class Split(NamedTuple):
    """A region that was split in two at a value of one of the numbers: ``below`` it, and the rest, as levels."""

    level: int
    number: int
    at: float
    below: int


@dataclass(frozen=True)
class Regions:
    """The regions of some numbers, each of them a level.

    Parameters
    ----------
    numbers : names of the numbers.
    labels : of the levels, in order.
    wanted : how many regions are to be learned.
    requests : from how many requests they are learned.
    partition : what was learned, its parts from level ``first`` on, followed by what lies beyond the range.
    missing : the level of numbers that lack.
    splits : of regions, in order.

    >>> ages = Regions.start(("age",), 2, 100)
    >>> ages.labels, ages.place([[31.5], [float("nan")]]).tolist()
    (('any age', 'age missing'), [0, 1])
    >>> ages = ages.learned(ages.fit([[20], [30], [40], [50]]))
    >>> ages.labels[2:], ages.place([[31.5], [float("nan")], [70]]).tolist()
    (('age 20 to 35', 'age 35 to 50', 'age below 20', 'age above 50'), [2, 1, 5])
    >>> ages = ages.split("age 20 to 35", 30)
    >>> ages.labels[6:], ages.place([[20], [31.5]]).tolist(), ages.gone
    (('age 20 to 30', 'age 30 to 35'), [6, 7], (0, 2))
    """

    numbers: tuple[str, ...]
    labels: tuple[str, ...]
    wanted: int
    requests: int | None
    partition: Partition | None = None
    first: int = 0
    missing: int = 1
    splits: tuple[Split, ...] = ()

    @classmethod
    def start(cls, numbers: Sequence[str], wanted: int, requests: int | None) -> Self:
        """Return one region for all numbers, and one for those that lack."""
        return cls(tuple(numbers), (f"any {', '.join(numbers)}", _lacking(numbers)), wanted, requests)

    @classmethod
    def of(cls, numbers: Sequence[str], partition: Partition) -> Self:
        """Return the regions of a partition that is known from the start."""
        labels = (*_named(numbers, partition), _lacking(numbers))
        return cls(tuple(numbers), labels, len(partition), None, partition, 0, len(labels) - 1)

    @property
    def learning(self) -> bool:
        """Whether the partition is still to be learned."""
        return self.partition is None

    @property
    def gone(self) -> tuple[int, ...]:
        """Levels that no number is placed in any more, as others took their place."""
        whole = () if self.partition is None or not self.first else (0,)
        return (*whole, *(one.level for one in self.splits))

    def fit(self, numbers: ArrayLike) -> Partition:
        """Return the partition that numbers (n, numbers) speak for."""
        return fit(numbers, self.wanted)

    def learned(self, partition: Partition) -> Regions:
        """Return the regions once the partition was learned; what there were stay as levels."""
        if self.partition is not None:
            raise ValueError(f"the regions of {', '.join(self.numbers)} were learned already; split those too large")
        labels = (*self.labels, *_named(self.numbers, partition))
        return replace(self, labels=labels, partition=partition, first=len(self.labels))

    # Placing numbers.

    def read(self, given: Mapping[str, Any]) -> list[float]:
        """Return the numbers of a request in order, NaN where one lacks; refuse what is no number."""
        found = []
        for name in self.numbers:
            value = given[name]
            if value is None or (isinstance(value, (float, np.floating)) and value != value):
                found.append(math.nan)
            elif isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
                raise TypeError(f"{name!r} is {value!r}; give a number, or None (in JSON null) where it is not known")
            else:
                found.append(float(value))
        return found

    def place(self, numbers: ArrayLike) -> Ints:
        """Return the level of each line of numbers, (n, numbers), of which those that lack are NaN."""
        x = np.asarray(numbers, dtype=np.float64).reshape(-1, len(self.numbers))
        found, lacking = np.zeros(len(x), dtype=np.int64), np.isnan(x).any(axis=1)
        if self.partition is not None:
            found = self.first + self.partition.place(x)
            beyond = found < self.first
            found[beyond] = self.first + len(self.partition)
            if len(self.numbers) == 1:
                found[beyond & (x[:, 0] > self.partition.high[0])] += 1
        found[lacking] = self.missing
        for one in self.splits:
            at = np.flatnonzero(found == one.level)
            found[at] = np.where(x[at, one.number] < one.at, one.below, one.below + 1)
        return found

    # Splitting.

    def level(self, label: str) -> int:
        """Return the level of a region."""
        if label not in self.labels:
            hint = nearest(label, self.labels) or "name one of them"
            raise ValueError(f"{label!r} is no region; the regions are {list(self.labels)}: {hint}")
        return self.labels.index(label)

    def split(self, label: str, at: float | None = None, number: str | None = None) -> Regions:
        """Return the regions with one of them split, at its middle unless a value of a number is given."""
        level, column = self.level(label), self._column(number)
        if self.partition is None:
            raise ValueError(f"the regions of {', '.join(self.numbers)} are still being learned; split them afterwards")
        if level in self.gone or level == self.missing:
            why = "has no numbers" if level == self.missing else "was split, or replaced, already"
            raise ValueError(f"{label!r} {why}; split another region: {self._splittable()}")
        low, high = self.bounds(level)[column]
        cut = self.points[level, column] if at is None else at
        if isinstance(cut, bool) or not is_finite(cut) or not low < cut < high or abs(cut) > LARGEST:
            where = f"{shown(low)} and {shown(high)}"
            raise ValueError(f"{label!r} would be split at {cut!r}, which is not between {where}; say where: at=...")
        name, cut = self.numbers[column], float(cut)
        if len(self.numbers) == 1:
            parts = interval(name, low, cut), interval(name, cut, high)
        else:
            parts = f"{label}; {interval(name, -math.inf, cut)}", f"{label}; {interval(name, cut, math.inf)}"
        if taken := [part for part in parts if part in self.labels]:
            raise ValueError(f"{taken[0]!r} is a region already; split {label!r} at another value")
        one = Split(level, column, cut, len(self.labels))
        return replace(self, labels=(*self.labels, *parts), splits=(*self.splits, one))

    def _column(self, number: str | None) -> int:
        if number is None and len(self.numbers) > 1:
            raise ValueError(f"nothing says which number is cut; give one of {list(self.numbers)}: number=...")
        if number is not None and number not in self.numbers:
            raise ValueError(f"{number!r} is none of the numbers {list(self.numbers)}; name one of them")
        return 0 if number is None else self.numbers.index(number)

    def _splittable(self) -> list[str]:
        gone = {*self.gone, self.missing}
        return [label for level, label in enumerate(self.labels) if level not in gone]

    @cached_property
    def _bounds(self) -> tuple[tuple[tuple[float, float], ...], ...]:
        """Between which values each number lies that is placed in a level, as far as cuts and edges say."""
        found = [((-math.inf, math.inf),) * len(self.numbers)] * len(self.labels)
        if self.partition is not None and len(self.numbers) == 1:
            edges, first = self.partition.edges.tolist(), self.first
            pairs = [*pairwise(edges), (-math.inf, edges[0]), (edges[-1], math.inf)]
            found[first : first + len(pairs)] = [(pair,) for pair in pairs]
        for one in self.splits:
            for part, within in ((0, (-math.inf, one.at)), (1, (one.at, math.inf))):
                both = list(found[one.level])
                low, high = both[one.number]
                both[one.number] = max(low, within[0]), min(high, within[1])
                found[one.below + part] = tuple(both)
        return tuple(found)

    def bounds(self, level: int) -> tuple[tuple[float, float], ...]:
        """Return between which values each number of a level lies, as far as edges and cuts say."""
        return self._bounds[level]

    # What features say.

    @cached_property
    def points(self) -> Floats:
        """The middle of each level within the range, (levels, numbers); NaN of numbers that lack, or are not placed."""
        found = np.full((len(self.labels), len(self.numbers)), np.nan)
        if (known := self.partition) is None:
            return found
        beyond = [known.low, known.high] if len(self.numbers) == 1 else [known.mean]
        found[self.first : self.first + len(known) + len(beyond)] = [*known.middles, *beyond]
        for one in self.splits:
            j = one.number
            for part, sign in enumerate((-1.0, 1.0)):
                point = found[one.level].copy()
                if len(self.numbers) == 1:
                    low, high = np.clip(self._bounds[one.below + part][0], known.low[0], known.high[0])
                    point[j] = (low + high) / 2.0
                else:
                    off = one.at + sign * _APART * known.deviation[j]
                    point[j] = min(point[j], off) if part == 0 else max(point[j], off)
                found[one.below + part] = point
        return found

    @property
    def features(self) -> Floats | None:
        """What describes the levels, (levels, features), so that neighbours share strength; ``None`` while learning.

        Where the middle of each region lies, smooth functions of that about all middles, whether it lies beyond the
        range, and whether numbers lack. A split adds levels and no features.
        """
        if (known := self.partition) is None:
            return None
        described = np.isfinite(self.points.sum(axis=1))
        where = known.coordinates(np.where(described[:, None], self.points, known.middles[0]))
        about = known.coordinates(known.middles)
        linear = (where - about.mean(axis=0)) / math.sqrt(where.shape[1])
        parts = [np.hstack([linear, _smooth(where, about)]) * described[:, None] / math.sqrt(2.0)]
        parts += [np.isin(np.arange(len(self.labels)), some)[:, None] for some in (self._beyond, [self.missing])]
        found = np.hstack(parts)
        return np.asarray(found * math.sqrt(found.shape[1]))

    @property
    def places(self) -> list[tuple[str, slice]]:
        """The columns of features, by what they say: where numbers lie, that they are beyond the range, or lack."""
        count = 0 if self.features is None else self.features.shape[1]
        ends = (", ".join(self.numbers), slice(0, count - 2)), ("beyond the range", slice(count - 2, count - 1))
        return [*ends, ("missing", slice(count - 1, count))]

    @cached_property
    def _beyond(self) -> list[int]:
        """Levels that lie beyond the range."""
        assert self.partition is not None
        start = self.first + len(self.partition)
        found = [start, start + 1] if len(self.numbers) == 1 else [start]
        for one in self.splits:
            found += [one.below, one.below + 1] if one.level in found else []
        return found

    # As plain data.

    def state(self) -> dict[str, Any]:
        """Return the regions as plain data that JSON can hold."""
        return {
            "numbers": list(self.numbers),
            "labels": list(self.labels),
            "regions": self.wanted,
            "requests": self.requests,
            "partition": None if self.partition is None else self.partition.state(),
            "first": self.first,
            "missing": self.missing,
            "splits": [list(one) for one in self.splits],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the regions that :meth:`state` described, checked."""
        numbers, labels = (tuple(map(str, state[name])) for name in ("numbers", "labels"))
        partition = None if state["partition"] is None else Partition.from_state(state["partition"], len(numbers))
        first, missing = (
            check_level(state[name], len(labels), f"the level {name} of regions") for name in ("first", "missing")
        )
        count = 2 if partition is None else len(partition) + 1 + (len(numbers) == 1) + (2 if first else 1)
        splits = []
        for level, number, at, below in state["splits"]:
            check_level(level, count, "a region that was split")
            check_level(number, len(numbers), "the number that a region was split by")
            if below != count or not is_finite(at):
                raise ValueError(f"the region {level} was split at {at!r} into level {below!r}; give a whole state")
            splits.append(Split(level, number, float(at), count))
            count += 2
        if count != len(labels) or len(set(labels)) < count or first not in (0, 2):
            raise ValueError(f"there are {len(labels)} labels of {count} regions; give a whole state")
        return cls(numbers, labels, int(state["regions"]), state["requests"], partition, first, missing, tuple(splits))


def _smooth(where: Floats, about: Floats) -> Floats:
    """Smooth functions of places (n, numbers), alike for those that are near; over the middles about 0, of size 1."""
    gaps = ((about[:, None] - about[None]) ** 2).sum(axis=-1)
    nearest_gap = np.median(np.where(np.eye(len(gaps), dtype=bool), np.inf, gaps).min(axis=0))
    width = max(float(nearest_gap), 1e-12) * _WIDTH**2 if len(gaps) > 1 else 1.0

    def alike(squares: Floats) -> Floats:
        return np.asarray(np.exp(-squares / (2.0 * width)))

    values, vectors = np.linalg.eigh(alike(gaps))
    kept = np.flatnonzero(values > _NEAR * values[-1])[::-1][:_SMOOTH]
    scaled = vectors[:, kept] / np.sqrt(values[kept])
    middle = alike(gaps) @ scaled
    found = alike(((where[:, None] - about[None]) ** 2).sum(axis=-1)) @ scaled - middle.mean(axis=0)
    size = math.sqrt(float(((middle - middle.mean(axis=0)) ** 2).sum(axis=1).mean()))
    return np.asarray(found / (size if size > _NEAR else 1.0))  # one region alone differs from no other


def _named(numbers: Sequence[str], partition: Partition) -> tuple[str, ...]:
    """The labels of the parts of a partition, and of what lies beyond its range."""
    names = partition.names(numbers)
    if len(numbers) == 1:
        name, high = numbers[0], shown(float(partition.high[0]))
        return (*names, interval(name, -math.inf, float(partition.low[0])), f"{name} above {high}")
    return (*names, f"{' or '.join(numbers)} beyond the range")


def _lacking(numbers: Sequence[str]) -> str:
    return f"{' or '.join(numbers)} missing"

"""A partition of numbers: quantiles of one number, or centres of several together, as they were learned once.

Numbers that are missing are NaN. The parts of one number are intervals between edges; those of several are what is
nearest to a centre, each number in units of its standard deviation. What lies beyond the range that was learned from
belongs to none of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbandits.base.checks import check_array

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST = 200  # parts
LARGEST = 1e100  # number
_SAMPLE = 20_000  # rows that centres are learned from
_ROUNDS = 30  # of moving centres
_AT_ONCE = 65_536  # rows that are placed together
_MOST_DIGITS = 300  # after the point: of more, no float has a power of ten
_ROUNDED = 0.05  # of the distance to the next edge, or of a deviation, by which a number may be rounded
_DIGITS = 15


@dataclass(frozen=True, eq=False)
class Partition:
    """Parts of the numbers that requests bring.

    Parameters
    ----------
    edges : of one number, (parts + 1,), in order; the last part has its upper edge too.
    centres : of several numbers, (parts, numbers).
    low, high : the range that was learned from, (numbers,).
    mean, deviation : by which numbers are standardised, (numbers,).
    shares : of the numbers that were learned from, how many each part had, (parts,).

    >>> ages = fit([[18], [22], [25], [31], [40], [44], [52], [70]], 4)
    >>> ages.names(["age"])
    ['age 18 to 24', 'age 24 to 36', 'age 36 to 46', 'age 46 to 70']
    >>> ages.place([[18], [35.5], [36], [70], [17], [71], [float("nan")]]).tolist()
    [0, 1, 2, 3, -1, -1, -1]
    """

    edges: Floats
    centres: Floats
    low: Floats
    high: Floats
    mean: Floats
    deviation: Floats
    shares: Floats

    def __len__(self) -> int:
        return len(self.shares)

    def place(self, numbers: ArrayLike) -> Ints:
        """Return the part that each line of numbers (n, numbers) belongs to; -1 beyond the range and if any lacks."""
        x = np.asarray(numbers, dtype=np.float64)
        within = ((x >= self.low) & (x <= self.high)).all(axis=1)
        found = np.full(len(x), -1, dtype=np.int64)
        if len(self.low) == 1:
            found[within] = np.searchsorted(self.edges[1:-1], x[within, 0], side="right")
            return found
        rows, centres = np.flatnonzero(within), self.standardised(self.centres)
        for start in range(0, len(rows), _AT_ONCE):
            some = rows[start : start + _AT_ONCE]
            found[some] = _nearest(self.standardised(x[some]), centres)
        return found

    def standardised(self, numbers: Floats) -> Floats:
        """Return numbers (n, numbers) in units of their deviation, about their mean, as they lie within the range."""
        x = np.clip(numbers, self.low, self.high)
        return np.asarray((x - self.mean) / self.deviation)

    def coordinates(self, numbers: Floats) -> Floats:
        """Return where numbers (n, numbers) lie, as features say it: one by its rank, several standardised."""
        if len(self.low) > 1:
            return self.standardised(numbers)
        x = np.clip(numbers[:, 0], self.edges[0], self.edges[-1])
        part = np.clip(np.searchsorted(self.edges, x, side="right") - 1, 0, len(self.edges) - 2)
        gaps = np.diff(self.edges)[part]  # np.interp divides by them alone, which the smallest ones are too small for
        within = np.divide(x - self.edges[part], gaps, out=np.ones_like(x), where=gaps > 0.0)
        rank = (part + within) / (len(self.edges) - 1)
        return np.asarray(math.sqrt(12.0) * (rank - 0.5))[:, None]

    @property
    def middles(self) -> Floats:
        """The middle of each part, (parts, numbers)."""
        if len(self.low) > 1:
            return self.centres
        return np.asarray((self.edges[1:] + self.edges[:-1]) / 2.0)[:, None]

    def names(self, numbers: Sequence[str]) -> list[str]:
        """Return what each part is called."""
        if len(numbers) == 1:
            pairs = zip(self.edges[:-1].tolist(), self.edges[1:].tolist(), strict=True)
            return [interval(numbers[0], low, high) for low, high in pairs]
        for digits in range(1, _DIGITS + 1):
            near = [[_to_digits(x, digits) for x in row] for row in self.centres.tolist()]
            small = np.abs(np.array(near) - self.centres) <= _ROUNDED * self.deviation
            found = [
                ", ".join(f"{name} about {shown(x)}" for name, x in zip(numbers, row, strict=True)) for row in near
            ]
            if small.all() and len(set(found)) == len(found):
                break
        return found

    def state(self) -> dict[str, Any]:
        """Return the partition as plain data that JSON can hold."""
        parts = {"edges": self.edges} if len(self.low) == 1 else {"centres": self.centres}
        parts |= {"low": self.low, "high": self.high, "mean": self.mean, "deviation": self.deviation}
        return {name: one.tolist() for name, one in {**parts, "shares": self.shares}.items()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], count: int) -> Self:
        """Return the partition of so many numbers that :meth:`state` described, checked.

        >>> ages = fit([[18], [22], [25], [31]], 2)
        >>> Partition.from_state(ages.state(), 1).state() == ages.state()
        True
        """
        if not isinstance(state, Mapping) or not isinstance(state.get("shares"), list):
            raise ValueError(f"the partition is {state!r}; give what a Numeric that was learned wrote")
        parts = len(state["shares"])
        sizes: dict[str, tuple[int, ...]] = {name: (count,) for name in ("low", "high", "mean", "deviation")}
        sizes |= {"shares": (parts,), **({"edges": (parts + 1,)} if count == 1 else {"centres": (parts, count)})}
        if not 1 <= parts <= MOST or (lacking := [name for name in sizes if name not in state]):
            raise ValueError(f"the partition lacks {lacking if parts else 'parts'}, or has too many; at most {MOST}")
        found = {
            name: check_array(state[name], f"{name} of the partition", size, largest=LARGEST)
            for name, size in sizes.items()
        }
        found = {name: np.array(one, dtype=np.float64) for name, one in found.items()}
        fine: Any = (
            (found["deviation"] > 0).all() and (found["low"] <= found["high"]).all() and (found["shares"] >= 0).all()
        )
        if count == 1:
            edges = found["edges"]
            fine = fine and (np.diff(edges)[:-1] > 0).all() and edges[-1] >= edges[-2]
            fine = fine and (found["low"][0], found["high"][0]) == (edges[0], edges[-1])
        if not fine:
            raise ValueError("the partition has edges, a range or deviations in no order; give what a Numeric wrote")
        return cls(**{"edges": np.zeros(0), "centres": np.zeros((0, count)), **found})


def fit(numbers: ArrayLike, parts: int) -> Partition:
    """Return a partition of so many parts, or fewer, learned from numbers (n, numbers); missing ones are left out.

    It is a function of the numbers: the same give the same.

    >>> people = [[20, 1], [22, 0], [21, 2], [60, 30], [64, 31], [58, 29]]
    >>> fit(people, 2).names(["age", "tenure"])
    ['age about 21, tenure about 1', 'age about 61, tenure about 30']
    """
    x = np.asarray(numbers, dtype=np.float64)
    x = x[(np.abs(x) <= LARGEST).all(axis=1)]
    if not len(x):
        raise ValueError("there are no numbers to learn regions from; give some rows that lack none of them")
    return of_edges(_quantiles(x[:, 0], parts), x[:, 0]) if x.shape[1] == 1 else _clustered(x, parts)


def of_edges(edges: Sequence[float] | Floats, numbers: Floats | None = None) -> Partition:
    """Return the partition of one number by its edges, with what each part has of some numbers.

    >>> of_edges([18.0, 30.0, 65.0]).names(["age"])
    ['age 18 to 30', 'age 30 to 65']
    """
    found = np.array(edges, dtype=np.float64)
    counts = np.ones(len(found) - 1)
    if numbers is not None:
        at = np.searchsorted(found[1:-1], numbers, side="right")
        counts = np.bincount(at, minlength=len(counts)).astype(np.float64)
    middle = np.array([(found[0] + found[-1]) / 2.0])
    size = np.array([(found[-1] - found[0]) / math.sqrt(12.0) or 1.0])
    return Partition(found, np.zeros((0, 1)), found[:1], found[-1:], middle, size, counts / counts.sum())


def _quantiles(x: Floats, parts: int) -> Floats:
    """Edges of parts that have as much each of a number (n,), as numbers with few digits."""
    values = np.unique(x)
    if len(values) <= parts:  # a part for each
        return np.append(values, values[-1])
    edges = np.unique(np.quantile(x, np.linspace(0.0, 1.0, parts + 1)))
    gaps = np.diff(edges)
    least = np.minimum(np.append(gaps[:1], gaps), np.append(gaps, gaps[-1:]))
    return np.array([_short(e, g, at, len(edges)) for at, (e, g) in enumerate(zip(edges, least, strict=True))])


def _short(edge: float, gap: float, at: int, count: int) -> float:
    """An edge with few digits, moved by little of its distance to the next; the outer ones move outwards only."""
    towards = {0: math.floor, count - 1: math.ceil}.get(at, round)
    start = math.ceil(-math.log10(gap)) if gap > 0 else 0
    if start > _MOST_DIGITS:
        return float(edge)
    for digits in range(start - 1, start + _DIGITS):
        scale = 10.0**digits if digits >= 0 else 1.0 / 10.0**-digits
        near = towards(edge * scale) / scale
        outwards = (at > 0 or near <= edge) and (at < count - 1 or near >= edge)
        if math.isfinite(near) and outwards and abs(near - edge) <= _ROUNDED * gap:
            return near
    return float(edge)


def _clustered(x: Floats, parts: int) -> Partition:
    """Parts about centres that are near the numbers (n, numbers)."""
    from scipy.cluster.vq import kmeans2

    mean, deviation = x.mean(axis=0), x.std(axis=0)
    deviation = np.where(deviation > 0.0, deviation, 1.0)
    rng = np.random.default_rng(0)
    some = x if len(x) <= _SAMPLE else x[np.sort(rng.choice(len(x), _SAMPLE, replace=False))]
    z = (some - mean) / deviation
    distinct = np.unique(z, axis=0)
    centres = distinct if len(distinct) <= parts else _moved(kmeans2, z, parts, rng)
    centres = centres[np.lexsort(centres.T[::-1])]
    at = _nearest((x - mean) / deviation, centres)
    used = np.unique(at)
    counts = np.bincount(at, minlength=len(centres))[used].astype(np.float64)
    found = centres[used] * deviation + mean
    low, high = x.min(axis=0), x.max(axis=0)
    return Partition(np.zeros(0), np.clip(found, low, high), low, high, mean, deviation, counts / counts.sum())


def _moved(kmeans2: Any, z: Floats, parts: int, rng: np.random.Generator) -> Floats:
    """Centres that were moved until they stay; those that nothing is near are left out."""
    centres, at = kmeans2(z, parts, iter=_ROUNDS, minit="++", missing="warn", seed=rng, check_finite=False)
    return np.asarray(centres[np.unique(at)])


def _nearest(z: Floats, centres: Floats) -> Ints:
    """Which centre (k, numbers) is nearest to each line (n, numbers)."""
    squares = np.zeros((len(z), len(centres)))
    for column, centre in zip(z.T, centres.T, strict=True):
        squares += (column[:, None] - centre) ** 2
    return np.asarray(squares.argmin(axis=1))


# Names.


def interval(name: str, low: float, high: float) -> str:
    """Return what the numbers from one to another are called.

    >>> interval("age", 20.0, 34.5), interval("age", -math.inf, 18.0), interval("items", 3.0, 3.0)
    ('age 20 to 34.5', 'age below 18', 'items 3')
    """
    if low == high:
        return f"{name} {shown(low)}"
    if math.isinf(low):
        return f"{name} below {shown(high)}"
    return f"{name} {shown(low)} or more" if math.isinf(high) else f"{name} {shown(low)} to {shown(high)}"


def shown(number: float) -> str:
    """Return a number in few characters that lose nothing.

    >>> shown(35.0), shown(0.25), shown(1e21), shown(-0.0)
    ('35', '0.25', '1e+21', '0')
    """
    short = f"{number:.12g}"
    text = short if float(short) == number else repr(float(number))
    return "0" if text == "-0" else text


def _to_digits(x: float, digits: int) -> float:
    return float(f"{x:.{digits}g}")

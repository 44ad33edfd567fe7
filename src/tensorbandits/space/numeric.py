"""Numbers as context: a mode whose levels are regions of numbers, as it is declared, and as a space has it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np

from tensorbandits.base.checks import check_count, check_installed, is_finite, is_sequence
from tensorbandits.space.partition import LARGEST, MOST, Floats, Partition, fit, of_edges
from tensorbandits.space.regions import Regions

_REGIONS, _REQUESTS = 8, 200
_FEWEST, _LATEST = 10, 100_000  # requests that regions are learned from
_WORDS = ("numbers", "regions", "requests", "cuts", "partition", "splits")


class Numeric:
    """A mode whose labels are numbers that requests bring; its levels are regions that the numbers fall into.

    Parameters
    ----------
    numbers : their names, which requests give: ``ask(age=31.5, tenure=2)``. Without names it is that of the mode.
    regions : how many regions are to be learned: quantiles of one number, or what is near to centres of several
        numbers together, each in units of its standard deviation. There may be fewer.
    requests : from how many requests they are learned. Until then there is one region for all numbers.
    cuts : of one number, between which values its regions lie; nothing is to be learned then.

    Numbers beyond the range, and numbers that are missing, have levels of their own. Regions are learned from a log by
    :meth:`learn`, or else from the first requests. A bandit splits them later: :meth:`Bandit.split_region
    <tensorbandits.Bandit.split_region>`.

    >>> from tensorbandits import Space
    >>> space = Space({"age": Numeric(cuts=[18, 35, 65]), "offer": ["a", "b"]}, context=["age"])
    >>> space.levels[0]
    ('age 18 to 35', 'age 35 to 65', 'age below 18', 'age above 65', 'age missing')
    >>> space.given(age=31.5), space.given(age=None), space.given(age="age above 65")
    ((0,), (4,), (3,))
    """

    def __init__(
        self,
        *numbers: str,
        regions: int = _REGIONS,
        requests: int = _REQUESTS,
        cuts: Sequence[float] | None = None,
    ) -> None:
        for name in numbers:
            if not isinstance(name, str) or not name:
                raise TypeError(f"a number has the name {name!r}; give names, as requests have them: Numeric('age')")
        if len(set(numbers)) < len(numbers):
            raise ValueError(f"the numbers are {list(numbers)}; name each once")
        self.numbers = numbers
        self.regions = check_count(regions, "regions", 2)
        if self.regions > MOST:
            raise ValueError(f"regions is {regions}; at most {MOST} are allowed, as each has rewards of its own")
        self.requests = check_count(requests, "requests", _FEWEST)
        if self.requests > _LATEST:
            raise ValueError(
                f"requests is {requests:,}; at most {_LATEST:,} are kept: learn regions from a log instead"
            )
        self.partition: Partition | None = None if cuts is None else of_edges(_cuts(cuts, numbers))
        self.splits: tuple[tuple[str, float, str], ...] = ()  # region, value, number

    def learn(self, log: Any) -> Self:
        """Return the same with regions that were learned from a log, which has a column for each number.

        ``log`` is a data frame of pandas, polars, pyarrow, duckdb, dask or Spark, or a mapping of columns. Rows that
        lack one of the numbers are left out.

        >>> import pyarrow as pa
        >>> ages = Numeric("age", regions=3).learn(pa.table({"age": [18, 22, 31, 35, 44, 70]}))
        >>> Space = __import__("tensorbandits").Space
        >>> Space({"age": ages, "offer": ["a", "b"]}, ["age"]).levels[0][:3]
        ('age 18 to 28', 'age 28 to 38', 'age 38 to 70')
        """
        if not self.numbers:
            raise ValueError("the numbers have no names, by which the log has columns; give them: Numeric('age')")
        found = type(self)(*self.numbers, regions=self.regions, requests=self.requests)
        found.partition = fit(number_columns(log, self.numbers), self.regions)
        return found

    def named(self, mode: str) -> Numeric:
        """Return the same with the name of the mode, if its number has none."""
        found = Numeric(*(self.numbers or (mode,)), regions=self.regions, requests=self.requests)
        found.partition, found.splits = self.partition, self.splits
        return found

    @classmethod
    def of(cls, regions: Regions) -> Self:
        """Return the mode that starts with these regions, but for those of before they were learned."""
        requests = _REQUESTS if regions.requests is None else regions.requests
        found = cls(*regions.numbers, regions=max(regions.wanted, 2), requests=requests)
        found.partition = regions.partition
        found.splits = tuple((regions.labels[one.level], one.at, regions.numbers[one.number]) for one in regions.splits)
        return found

    def regions_of(self, mode: str) -> Regions:
        """Return the regions that a mode of this name starts with."""
        numbers = self.numbers or (mode,)
        if self.partition is None:
            return Regions.start(numbers, self.regions, self.requests)
        found = Regions.of(numbers, self.partition)
        for region, at, number in self.splits:
            found = found.split(region, at, number)
        return found

    def written(self) -> dict[str, Any]:
        """Return it as JSON has it, in the settings of a bandit.

        >>> Numeric("age", "tenure", regions=12).written()
        {'numbers': ['age', 'tenure'], 'regions': 12, 'requests': 200}
        """
        found: dict[str, Any] = {"numbers": list(self.numbers), "regions": self.regions, "requests": self.requests}
        if self.partition is not None:
            found["partition"] = self.partition.state()
        return found | ({"splits": [list(one) for one in self.splits]} if self.splits else {})

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> Self:
        """Return what :meth:`written` wrote, or a caller gives in JSON.

        >>> Numeric.read({"numbers": ["age"], "cuts": [18, 35, 65]}).partition.names(["age"])
        ['age 18 to 35', 'age 35 to 65']
        """
        if unknown := sorted(set(written) - set(_WORDS)):
            raise ValueError(f"{unknown[0]!r} says nothing of a mode of numbers; give some of {', '.join(_WORDS)}")
        numbers = written.get("numbers") or ()
        if not is_sequence(numbers):
            raise TypeError(f"numbers is {numbers!r}; give a list of names: ['age', 'tenure']")
        given = {name: written[name] for name in ("regions", "requests", "cuts") if written.get(name) is not None}
        found = cls(*numbers, **given)
        if (partition := written.get("partition")) is not None:
            found.partition = Partition.from_state(partition, max(len(numbers), 1))
        found.splits = tuple((str(region), at, str(number)) for region, at, number in written.get("splits") or ())
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Numeric) and self.written() == other.written()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        names = "".join(f"{name!r}, " for name in self.numbers)
        known = "" if self.partition is None else ", learned"
        return f"Numeric({names}regions={self.regions if self.partition is None else len(self.partition)}{known})"


class NumericModes:
    """The modes of a space that are numbers, with their regions, by position."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self.regions: dict[int, Regions] = {}

    def __bool__(self) -> bool:
        return bool(self.regions)

    def check(self, context: Sequence[int]) -> None:
        """Refuse numbers that nobody brings, or that share a name."""
        seen: dict[str, str] = {}
        for at, one in self.regions.items():
            mode = self._names[at]
            if at not in context:
                raise ValueError(
                    f"mode {mode!r} is of numbers, which requests bring, but is no context; name it: context=[{mode!r}]"
                )
            for name in one.numbers:
                other = seen.get(name, name if name != mode and name in self._names else None)
                if other is not None:
                    raise ValueError(f"the number {name!r} of mode {mode!r} has the name of mode {other!r}; rename one")
                seen[name] = mode

    def requested(self, at: int) -> tuple[str, ...]:
        """Return what requests give of a context mode: its numbers, or its label by its name."""
        return self.regions[at].numbers if at in self.regions else (self._names[at],)

    def _given(self, labels: Mapping[str, Any]) -> Iterator[tuple[int, Regions, dict[str, Any]]]:
        """Yield the modes of which numbers are given, rather than a label, with these."""
        for at, one in self.regions.items():
            mode = self._names[at]
            found = {name: labels[name] for name in one.numbers if name in labels}
            if mode in found and isinstance(found[mode], str):
                continue  # the label of a region
            if not found:
                continue
            if lacking := [name for name in one.numbers if name not in found]:
                raise ValueError(
                    f"no number is given for {', '.join(map(repr, lacking))}; give one for each, or None (in "
                    "JSON null) where it is not known"
                )
            if mode in labels and mode not in found:
                raise ValueError(f"mode {mode!r} is given twice, as numbers and as a region; give it once")
            yield at, one, found

    def placed(self, labels: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return labels with regions in the place of numbers."""
        for at, one, found in list(self._given(labels)):
            level = int(one.place([one.read(found)])[0])
            labels = {name: label for name, label in labels.items() if name not in found}
            labels[self._names[at]] = one.labels[level]
        return labels

    def to_learn(self, labels: Mapping[str, Any]) -> tuple[tuple[int, tuple[float | None, ...]], ...]:
        """Return the numbers, ``None`` where one lacks, of modes whose regions are still to be learned."""
        return tuple(
            (at, tuple(None if math.isnan(x) else x for x in one.read(found)))
            for at, one, found in self._given(labels)
            if one.learning
        )

    def columns(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Return columns of labels, with regions in the place of columns of numbers."""
        found = dict(columns)
        for at, one in self.regions.items():
            mode, numbers = self._names[at], [name for name in one.numbers if name in columns]
            if not numbers or (numbers == [mode] and any(isinstance(label, str) for label in columns[mode])):
                continue
            if len(numbers) < len(one.numbers):
                raise ValueError(f"the numbers of mode {mode!r} are {list(one.numbers)}; give a column of each")
            levels = one.place(number_columns({name: found.pop(name) for name in numbers}, one.numbers))
            found[mode] = [one.labels[level] for level in levels.tolist()]
        return found

    def state(self) -> dict[str, Any]:
        """Return the regions by position of their mode, as plain data."""
        return {str(at): one.state() for at, one in self.regions.items()}


def number_columns(log: Any, names: Sequence[str]) -> Floats:
    """Return columns of numbers of a log, (rows, numbers), NaN where one lacks.

    >>> number_columns({"age": [31, None], "tenure": [2.5, 0]}, ["age", "tenure"]).tolist()
    [[31.0, 2.5], [nan, 0.0]]
    """
    if not isinstance(log, Mapping):
        log = _columns_of(log, names)
    if lacking := [name for name in names if name not in log]:
        raise ValueError(f"the log has no column {lacking[0]!r}; it has {', '.join(map(repr, log)) or 'none'}")
    found = []
    for name in names:
        try:
            column = np.array([math.nan if x is None else x for x in log[name]])
            if column.dtype.kind not in "iuf" and (len(column) or column.dtype.kind != "f"):
                raise TypeError(f"it holds {column.dtype} values")
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"column {name!r} holds no numbers ({error}); convert it, with None or NaN where one lacks"
            ) from None
        found.append(column.astype(np.float64))
    if len({len(column) for column in found}) > 1:
        raise ValueError(f"the columns have {[len(column) for column in found]} numbers; give as many of each")
    return np.column_stack(found)


def _columns_of(frame: Any, names: Sequence[str]) -> dict[str, Any]:
    """Columns of a data frame of any kind as arrays of floats."""
    check_installed("reading a log", "narwhals")
    import narwhals as nw

    try:
        opened: Any = nw.from_native(frame)
    except TypeError:
        raise TypeError(f"the log is a {type(frame).__name__}; give a data frame, or a mapping of columns") from None
    schema = opened.collect_schema()
    if lacking := [name for name in names if name not in schema]:
        raise ValueError(f"the log has no column {lacking[0]!r}; it has {', '.join(map(repr, schema)) or 'none'}")
    for name in names:
        if not schema[name].is_numeric():
            raise TypeError(f"column {name!r} is of type {schema[name]}; give one of numbers")
    some = opened.select(*(nw.col(name).cast(nw.Float64()) for name in names))
    table = some if isinstance(some, nw.DataFrame) else some.collect()
    return {name: np.asarray(table[name].to_list(), dtype=np.float64) for name in names}


def _cuts(cuts: Any, numbers: Sequence[str]) -> list[float]:
    """Cuts of one number, checked."""
    if len(numbers) > 1:
        raise ValueError(
            f"cuts are of one number, but there are {list(numbers)}; make a mode of each, or learn regions"
        )
    if not is_sequence(cuts) or not all(is_finite(x) and not isinstance(x, bool) for x in cuts) or len(cuts) < 2:
        raise ValueError(f"cuts is {cuts!r}; give at least two numbers, the ends of the range too: [18, 35, 65]")
    found = [float(x) for x in cuts]
    if any(b <= a for a, b in pairwise(found)) or max(map(abs, found)) > LARGEST:
        raise ValueError(f"cuts is {list(cuts)}; give them in order, each larger than the one before")
    if len(found) > MOST + 1:
        raise ValueError(
            f"there are {len(found):,} cuts; at most {MOST + 1} are allowed, as each region has rewards of its own"
        )
    return found

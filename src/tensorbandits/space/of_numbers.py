"""What a space does with modes of numbers: places requests in regions, and has these learned and split."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from tensorbandits.base.checks import Cell
from tensorbandits.space.labels import Label
from tensorbandits.space.numeric import NumericModes
from tensorbandits.space.partition import Partition
from tensorbandits.space.regions import Regions
from tensorbandits.space.rulebook import Rulebook


class SpaceOfNumbers(ABC):
    """The regions of modes of numbers; :class:`~tensorbandits.Space` has these methods."""

    _names: tuple[str, ...]
    _context: Cell
    _book: Rulebook
    _numeric: NumericModes
    _lock: threading.RLock
    _version: int

    @property
    @abstractmethod
    def shape(self) -> Cell:
        """The number of levels of each mode."""

    @abstractmethod
    def position(self, mode: str) -> int:
        """Return the position of a mode."""

    @abstractmethod
    def partial(self, labels: Mapping[str, Label] | None, named: Mapping[str, Label] = ...) -> dict[int, int]:
        """Return the levels of some modes, by position of the mode."""

    @abstractmethod
    def _append(self, at: int, label: Label) -> int:
        """Add a level at the end of a mode."""

    @property
    def regions(self) -> dict[str, Regions]:
        """The regions of the modes that are numbers."""
        with self._lock:
            return {self._names[at]: one for at, one in self._numeric.regions.items()}

    @property
    def requested(self) -> tuple[str, ...]:
        """What a request gives: the names of the context modes, with those of numbers in the place of their mode.

        >>> from tensorbandits import Numeric, Space
        >>> Space({"who": Numeric("age", "tenure"), "offer": ["a", "b"]}, ["who"]).requested
        ('age', 'tenure')
        """
        return tuple(name for at in self._context for name in self._numeric.requested(at))

    def numbers_to_learn(
        self, labels: Mapping[str, Any] | None = None, /, **named: Any
    ) -> tuple[tuple[int, tuple[float | None, ...]], ...]:
        """Return the numbers of a request that regions are still to be learned from, by position of the mode.

        >>> from tensorbandits import Numeric, Space
        >>> space = Space({"age": Numeric("age"), "offer": ["a", "b"]}, ["age"])
        >>> space.numbers_to_learn(age=31.5), space.numbers_to_learn(age="any age")
        (((0, (31.5,)),), ())
        """
        return self._numeric.to_learn(merged(labels, named)) if self._numeric else ()

    def split_region(self, mode: str, region: str, at: float | None = None, number: str | None = None) -> None:
        """Split a region of a mode of numbers in two, at its middle unless a value of a ``number`` is given.

        Both parts are new levels, and rules of the region are theirs too. The region stays as a level, retired: no
        number falls into it any more, while its rewards, and those that are late, are its own.

        >>> from tensorbandits import Numeric, Space
        >>> space = Space({"age": Numeric(cuts=[18, 35, 65]), "offer": ["a", "b"]}, ["age"])
        >>> space.split_region("age", "age 18 to 35", 25)
        >>> space.given(age=20), space.levels[0][5:], space.retired
        ((5,), ('age 18 to 25', 'age 25 to 35'), {'age': ['age 18 to 35']})
        """
        self._become(mode, self._regions(mode).split(region, at, number))

    def learn_regions(self, mode: str, partition: Partition) -> None:
        """Have the regions of a mode of numbers that were learned; the one for all numbers stays as a retired level."""
        self._become(mode, self._regions(mode).learned(partition))

    def _regions(self, mode: str) -> Regions:
        found = self._numeric.regions.get(self.position(mode))
        if found is None:
            known = list(self.regions) or "none"
            raise ValueError(f"mode {mode!r} has labels, not regions of numbers; modes of numbers are {known}")
        return found

    def _become(self, mode: str, regions: Regions) -> None:
        """Take other regions of a mode, with more levels."""
        at, before = self.position(mode), self._regions(mode)
        with self._lock:
            new = [self._append(at, label) for label in regions.labels[len(before.labels) :]]
            gone = [level for level in regions.gone if level not in before.gone]
            for rule in [rule for rule in self._book.rules if any((at, level) in rule.condition for level in gone)]:
                for level in new:
                    condition = [(mode, level if mode == at else one) for mode, one in rule.condition]
                    self._book.add(rule._replace(condition=tuple(condition)), self.shape)
            for level in gone:
                self._book.retire(at, level, self.shape)
            self._numeric.regions[at] = regions  # last, as others place numbers meanwhile
            self._version += 1

    def _named(self, mode: str) -> int:
        """The position of a mode whose levels are given by their labels."""
        at = self.position(mode)
        if at in self._numeric.regions:
            raise ValueError(
                f"mode {mode!r} has regions of numbers, which come from the numbers; split one that is too large: "
                f"split_region({mode!r}, ..)"
            )
        return at

    def _placed(self, labels: Mapping[str, Any] | None, named: Mapping[str, Any]) -> dict[int, int]:
        """Return the levels of labels, and of numbers, by position of the mode."""
        return (
            self.partial(self._numeric.placed(merged(labels, named))) if self._numeric else self.partial(labels, named)
        )


def merged(labels: Mapping[str, Any] | None, named: Mapping[str, Any]) -> dict[str, Any]:
    """Return labels that are given as a mapping and as keywords."""
    if labels is None:
        return dict(named)
    if not isinstance(labels, Mapping):
        raise TypeError(f"labels is {labels!r}; give labels by mode: {{'offer': 'a'}}, or offer='a'")
    if named and (twice := sorted(set(labels) & set(named))):
        raise ValueError(f"mode {twice[0]!r} is given twice; give it once")
    return {**labels, **named}

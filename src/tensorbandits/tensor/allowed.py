"""Which cells may be chosen: allowed levels of each mode, and forbidden combinations of levels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, reduce
from operator import or_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorbandits.base.checks import Cell, check_level, is_sequence
from tensorbandits.base.errors import TensorbanditsError
from tensorbandits.tensor.rules import Rules

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Levels = Sequence[int] | NDArray[Any]

_NONE = np.zeros(0, dtype=np.int64)
_LEVELS = "give the allowed levels, for example [0, 2], or one true or false per level"


class NothingAllowedError(TensorbanditsError, ValueError):
    """What is allowed and what is forbidden leave no cell to choose."""


class Allowed:
    """Which cells may be chosen. It is immutable.

    Parameters
    ----------
    levels : the allowed levels by mode: whole numbers, or one true or false per level of the mode. Modes that are not
        named are free.
    forbidden : partial cells, each a mapping from mode to level: ``{1: 3, 2: 7}`` forbids every cell that has level 3
        of mode 1 together with level 7 of mode 2, ``{1: 3}`` forbids level 3 of mode 1 altogether.

    What is made so knows no shape yet; :meth:`of` checks it against one, and only then can cells be searched with it.

    >>> allowed = Allowed.of(Allowed({0: [0, 2]}, forbidden=[{0: 2, 1: 1}]), shape=(3, 2))
    >>> [cell for cell in np.ndindex(3, 2) if allowed.permits(cell)]
    [(0, 0), (0, 1), (2, 0)]
    >>> allowed.with_forbidden([{0: 0}]) == Allowed({0: [0, 2]}, forbidden=[{0: 2, 1: 1}, {0: 0}])
    True
    """

    shape: Cell | None = None  # what it was checked against
    masks: tuple[Mask | None, ...] = ()  # by mode, once checked: which levels are allowed; None for all

    def __init__(self, levels: Mapping[int, Levels] | None = None, forbidden: Iterable[Mapping[int, int]] = ()) -> None:
        given = {} if levels is None else levels
        if not isinstance(given, Mapping):
            raise TypeError(f"levels is {levels!r}; give the allowed levels by mode, such as {{0: [0, 2]}}, or None")
        modes = {mode: check_level(mode, 2**62, "a mode of the allowed levels") for mode in given}
        parsed = {j: _check_levels(given[mode], j) for mode, j in modes.items()}
        self._levels: dict[int, Ints] = {j: found for j, (found, _) in parsed.items()}
        self._sizes = {j: size for j, (_, size) in parsed.items() if size is not None}  # what masks say of their modes
        self._parts: tuple[Rules, ...] = (
            Rules.of(forbidden),
        )  # more when joined: thousands of standing rules must not be copied
        self._last: dict[str, Any] = {}  # what was worked out last

    @classmethod
    def of(cls, value: Any, shape: Cell, standing: Allowed | None = None) -> Allowed | None:
        """Return a caller's value checked against a shape and joined with what stands; ``None`` if all is allowed.

        ``value`` is ``None``, a mapping from mode to levels, or an ``Allowed``; ``standing`` is checked already.
        """
        if value is None:
            return standing
        if not isinstance(value, Allowed):
            if not isinstance(value, Mapping):
                raise TypeError(
                    f"allowed is {value!r}; give the allowed levels by mode, for example {{0: [0, 2]}}, "
                    "an Allowed, or None"
                )
            value = cls(value)
        own = value._checked(shape)
        return (own or standing) if own is None or standing is None else standing._join(own)

    def permits(self, cell: Cell) -> bool:
        """Return whether a cell, of levels that exist, may be chosen."""
        if self.shape is None:
            raise ValueError("what is allowed was not checked against a shape yet; call Allowed.of(allowed, shape)")
        for mask, level in zip(self.masks, cell, strict=True):
            if mask is not None and not mask[level]:
                return False
        return all(rules.permit(cell) for rules in self._parts)

    def mask(self, shape: Cell, fixed: Mapping[int, int] | None = None) -> Mask:
        """Return which cells of the modes that are not fixed may be chosen, as an array over all of them, read-only.

        >>> Allowed({0: [0, 2]}, forbidden=[{0: 2, 1: 1}]).mask((3, 2), {1: 1}).tolist()
        [True, False, False]
        """
        checked, given = self._checked(shape), dict(fixed or {})
        key, known = (shape, given), self._last.get("mask")
        if known is not None and known[0] == key:
            return known[1]  # type: ignore[no-any-return]
        free = [j for j in range(len(shape)) if j not in given]
        dense = np.ones([shape[j] for j in free], dtype=bool)
        if checked is not None:
            checked._strike(dense, free, given)
        dense.setflags(write=False)
        self._last["mask"] = key, dense
        return dense

    def _strike(self, dense: Mask, free: list[int], fixed: dict[int, int]) -> None:
        """Set to false, in a mask over all cells of the free modes, those that may not be chosen."""
        for j, mask in enumerate(self.masks):
            if mask is not None and j in fixed:
                dense &= mask[fixed[j]]
            elif mask is not None:
                dense &= mask.reshape([-1 if k == j else 1 for k in free])
        for rules in self._parts:
            rules.several.strike(dense, fixed)

    def with_forbidden(self, cells: Iterable[Mapping[int, int]]) -> Allowed:
        """Return the same with more forbidden partial cells, checked if this was."""
        return self._again(self.rules | Rules.of(cells))

    def without_forbidden(self, cells: Iterable[Mapping[int, int]]) -> Allowed:
        """Return the same with some of the forbidden partial cells lifted, checked if this was."""
        lifted = Rules.of(cells)
        missing = lifted - self.rules
        if len(missing):
            raise ValueError(f"{missing.cells()[0]} is not among the forbidden cells; lift only what was forbidden")
        return self._again(self.rules - lifted)

    def _again(self, rules: Rules) -> Allowed:
        changed = self._copy(self._levels, (rules,))
        return changed if self.shape is None else changed._checked(self.shape) or changed._place(self.shape, ())

    @property
    def levels(self) -> dict[int, list[int]]:
        """The allowed levels of the modes that are restricted by levels."""
        return {j: found.tolist() for j, found in sorted(self._levels.items())}

    @property
    def forbidden(self) -> list[dict[int, int]]:
        """The forbidden partial cells, in order."""
        return self.rules.cells()

    @cached_property
    def rules(self) -> Rules:
        """All forbidden partial cells as one set."""
        return reduce(or_, self._parts)

    @cached_property
    def combined(self) -> bool:
        """Whether combinations of levels are forbidden."""
        return any(rules.several.patterns for rules in self._parts)

    @cached_property
    def kept(self) -> tuple[Ints, Ints]:
        """The allowed levels of the modes that have a mask, mode after mode, and where those of each mode start."""
        return flat([_NONE if mask is None else np.flatnonzero(mask) for mask in self.masks])

    @cached_property
    def opened(self) -> Mask:
        """Whether each level that a rule names is allowed, in the order of the rules' table."""
        table = self.rules.table
        opened = np.ones(len(table.levels), dtype=bool)
        for j, mask in enumerate(self.masks):
            if mask is not None:
                here = slice(table.heads[j], table.heads[j + 1])
                opened[here] = mask[table.levels[here]]
        return opened

    @cached_property
    def free(self) -> tuple[Ints, Ints]:
        """The allowed levels that no rule names, mode after mode, and where those of each mode start."""
        table, found = self.rules.table, []
        for j, (size, mask) in enumerate(zip(self.shape or (), self.masks, strict=True)):
            left = np.ones(size, dtype=bool) if mask is None else mask.copy()
            left[table.levels[table.heads[j] : table.heads[j + 1]]] = False
            found.append(np.flatnonzero(left))
        return flat(found)

    def check_fixed(self, levels: Sequence[int]) -> None:
        """Refuse given levels (-1 for a free mode) that are not allowed."""
        for j, mask in enumerate(self.masks):
            if mask is not None and levels[j] >= 0 and not mask[levels[j]]:
                raise ValueError(f"level {levels[j]} of mode {j} is given, but not allowed; give another, or allow it")

    def nothing_left(self, levels: Sequence[int]) -> ValueError:
        """Return the error that says that no cell with the given levels (-1 for a free mode) is allowed."""
        given = {j: level for j, level in enumerate(levels) if level >= 0}
        counts = ", ".join(
            f"{size if mask is None else int(mask.sum())} of mode {j}"
            for j, (size, mask) in enumerate(zip(self.shape or (), self.masks, strict=True))
            if j not in given
        )
        where = f" with the levels {given} given by mode" if given else ""
        return NothingAllowedError(
            f"no cell is allowed{where}: the levels left are {counts}, and "
            f" {len(self.rules.several)} forbidden combinations exclude every cell of them; "
            "allow more levels, or lift some of these rules"
        )

    def state(self) -> dict[str, Any]:
        """Return what is allowed as plain lists of whole numbers."""
        return {
            "levels": [[j, found] for j, found in self.levels.items()],
            "forbidden": [[[j, level] for j, level in cell.items()] for cell in self.forbidden],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Allowed:
        """Return what :meth:`state` described, to be checked against a shape by :meth:`of`."""
        try:
            return cls({j: found for j, found in state["levels"]}, [dict(cell) for cell in state["forbidden"]])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"this is no state of what is allowed, or a damaged one: {error}") from None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Allowed):
            return NotImplemented
        if self is other:
            return True
        return self.levels == other.levels and self.rules.patterns == other.rules.patterns

    def __hash__(self) -> int:
        return hash((tuple(self.levels), len(self.rules)))

    def __repr__(self) -> str:
        restricted = ", ".join(f"{len(found)} of mode {j}" for j, found in sorted(self._levels.items()))
        return f"<Allowed: levels {restricted or 'of no mode restricted'}; {len(self.rules)} forbidden combinations>"

    def _checked(self, shape: Cell) -> Allowed | None:
        """Return the same with masks that fit a shape, or ``None`` if nothing is restricted."""
        if self.shape == shape:
            return self
        known = self._last.get("checked")
        if known is not None and known.shape == shape:
            return known  # type: ignore[no-any-return]
        self._check(shape)
        masks: list[Mask | None] = [None] * len(shape)
        single = self.rules.single()
        for j in sorted(self._levels.keys() | single.keys()):
            mask = np.full(shape[j], j not in self._levels)
            if j in self._levels:
                mask[self._levels[j]] = True
            mask[single.get(j, [])] = False
            masks[j] = None if mask.all() else mask
        if all(mask is None for mask in masks) and not any(rules.patterns for rules in self._parts):
            return None
        result = self._copy(self._levels, self._parts)._place(shape, masks)
        self._last["checked"] = result
        return result

    def _check(self, shape: Cell) -> None:
        """Refuse what does not fit a shape."""
        for j, found in self._levels.items():
            if j >= len(shape):
                raise ValueError(f"allowed names mode {j}; the modes are 0 to {len(shape) - 1}")
            if self._sizes.get(j, shape[j]) != shape[j]:
                raise ValueError(
                    f"the mask of mode {j} has {self._sizes[j]} entries; give one for each of its {shape[j]} levels"
                )
            check_level(int(found[-1]), shape[j], f"an allowed level of mode {j}")
        for rules in self._parts:
            rules.check(shape)

    def _join(self, own: Allowed) -> Allowed:
        """Return what both allow, both checked; the rules of each stay as they are."""
        known = self._last.get("joined")
        if known is not None and known[0] is own:
            return known[1]  # type: ignore[no-any-return]
        levels = self._levels | own._levels
        for j in self._levels.keys() & own._levels.keys():
            levels[j] = np.intersect1d(self._levels[j], own._levels[j])
        masks = [a if b is None else b if a is None else a & b for a, b in zip(self.masks, own.masks, strict=True)]
        parts = tuple(rules for rules in self._parts + own._parts if rules.patterns) or self._parts
        joined = self._copy(levels, parts)._place(own.shape or (), masks)
        self._last["joined"] = own, joined
        return joined

    @classmethod
    def _copy(cls, levels: dict[int, Ints], parts: tuple[Rules, ...]) -> Allowed:
        result = cls.__new__(cls)  # nothing is left to check
        result._levels, result._sizes, result._parts, result._last = levels, {}, parts, {}
        return result

    def _place(self, shape: Cell, masks: Sequence[Mask | None]) -> Allowed:
        """Take over a shape and the masks that fit it, which must leave something of each mode."""
        for j, mask in enumerate(masks):
            if mask is None:
                continue
            mask.setflags(write=False)
            if not mask.any():
                raise NothingAllowedError(
                    f"no level of mode {j} is left, as what is allowed and what is forbidden exclude each other; "
                    "allow more of its levels, or lift a rule that forbids one"
                )
        self.shape, self.masks = shape, tuple(masks) or (None,) * len(shape)
        return self


def flat(parts: list[Ints]) -> tuple[Ints, Ints]:
    """Return arrays joined, and where each starts and the last ends."""
    return np.concatenate(parts), np.cumsum([0, *map(len, parts)])


def _check_levels(levels: Any, mode: int) -> tuple[Ints, int | None]:
    """Return allowed levels sorted, each once, and the length of the mask if they were given as one."""
    what = f"the allowed levels of mode {mode}"
    if isinstance(levels, (set, frozenset, range)):
        levels = list(levels)
    if not is_sequence(levels) or np.ma.isMaskedArray(levels):
        raise TypeError(f"{what} are {levels!r}; {_LEVELS}")
    if len(levels) == 0:
        raise ValueError(f"{what} are an empty list, which leaves no cell; {_LEVELS}, or leave the mode out")
    try:
        array = np.asarray(levels)
    except ValueError:  # entries of different lengths
        array = np.empty((0, 0))
    if array.ndim != 1 or array.dtype.kind not in "biu" or (array.dtype != bool and _has_bool(levels)):
        raise TypeError(f"{what} are {levels!r}; {_LEVELS}")
    if array.dtype == bool:
        if not array.any():
            raise ValueError(f"the mask of mode {mode} is false throughout, which leaves no cell; allow some level")
        return np.flatnonzero(array), len(array)
    found = np.unique(array)
    check_level(int(found[0]), 2**62, f"an allowed level of mode {mode}")
    check_level(int(found[-1]), 2**62, f"an allowed level of mode {mode}")
    return found.astype(np.int64), None


def _has_bool(levels: Any) -> bool:
    return not isinstance(levels, np.ndarray) and any(isinstance(level, (bool, np.bool_)) for level in levels)

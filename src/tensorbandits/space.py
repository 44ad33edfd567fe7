"""The space of combinations by name: modes, their levels, which modes are context, and what may not be combined.

Labels live here and at the edge; everything inside the library is positions of modes and indices of levels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbandits.checks import Cell, check_cell, check_cells, check_context, check_level, is_sequence, nearest

Label = str | int | float | bool | date | datetime
Key = tuple[str, Any]

_SHOWN = 8  # labels that an error lists
_SEARCHED = 10_000  # labels among which an error looks for the nearest


class Space:
    """Named modes and their levels, in order; which modes are context; and which combinations are forbidden.

    Parameters
    ----------
    modes : the labels of the levels of each mode, by the mode's name.
    context : names (or positions) of the modes that are given rather than decided.

    A label is text, a number, a truth value, a date or a time. Equal numbers are one label, so that 1 and 1.0 find the
    same level, as columns of whole numbers come as floats from some files. Otherwise the kind counts: the number 1, the
    text ``"1"`` and ``True`` are three labels. Labels come back as they were given.

    >>> modes = {"segment": ["new", "old"], "offer": ["a", "b", "video"], "channel": ["mail", "sms"]}
    >>> space = Space(modes, context=["segment"])
    >>> space
    Space(segment: 2 (context), offer: 3, channel: 2)
    >>> space.shape, space.context, space.cell(segment="old", offer="a", channel="sms")
    ((2, 3, 2), (0,), (1, 0, 1))
    >>> space.labels((1, 0, 1))
    {'segment': 'old', 'offer': 'a', 'channel': 'sms'}
    """

    def __init__(self, modes: Mapping[str, Iterable[Label]], context: Sequence[str | int] = ()) -> None:
        if not isinstance(modes, Mapping):
            raise TypeError(f"modes is {modes!r}; give the levels of each mode by name: {{'offer': ['a', 'b']}}")
        if not modes:
            raise ValueError("modes is empty; give the levels of at least one mode: {'offer': ['a', 'b']}")
        for name in modes:
            if not isinstance(name, str) or not name:
                raise TypeError(f"a mode has the name {name!r}; names are text, and not empty")
        self._names = tuple(modes)
        self._positions = {name: j for j, name in enumerate(self._names)}
        self._labels: list[list[Label]] = [[] for _ in self._names]
        self._indices: list[dict[Key, int]] = [{} for _ in self._names]
        self._forbidden: dict[tuple[tuple[int, int], ...], None] = {}  # (mode, level) pairs; a set in order
        for name, labels in modes.items():
            for label in _listed(name, labels):
                self.add_level(name, label)
        self._context = self._check_context(context)

    @property
    def modes(self) -> tuple[str, ...]:
        """The names of the modes."""
        return self._names

    @property
    def levels(self) -> tuple[tuple[Label, ...], ...]:
        """The labels of each mode, in the order of their indices."""
        return tuple(map(tuple, self._labels))

    @property
    def shape(self) -> Cell:
        """The number of levels of each mode, as policies and ledgers take it."""
        return tuple(map(len, self._labels))

    @property
    def context(self) -> Cell:
        """The positions of the context modes, as policies and environments take them."""
        return self._context

    @property
    def forbidden(self) -> tuple[dict[int, int], ...]:
        """What :meth:`forbid` recorded, as partial cells: for each rule, indices of levels by position of the mode."""
        return tuple(dict(rule) for rule in self._forbidden)

    def position(self, mode: str) -> int:
        """Return the position of a mode.

        >>> Space({"offer": ["a", "b"], "channel": ["mail", "sms"]}).position("chanel")
        Traceback (most recent call last):
        ValueError: 'chanel' is no mode; the modes are ['offer', 'channel']: did you mean 'channel'?
        """
        try:
            return self._positions[mode]
        except (KeyError, TypeError):
            hint = nearest(mode, self._names) or "name one of them"
            raise ValueError(f"{mode!r} is no mode; the modes are {list(self._names)}: {hint}") from None

    def level(self, mode: str, label: Label) -> int:
        """Return the index of a mode's level."""
        at = self.position(mode)
        index = self._indices[at].get(_key(label, mode))
        if index is None:
            raise ValueError(self._unknown(at, label))
        return index

    def cell(self, labels: Mapping[str, Label] | None = None, /, **named: Label) -> Cell:
        """Return the cell of labels, one per mode: as keywords, or as a mapping where names are no Python names.

        >>> Space({"time:weekday": ["Mon", "Tue"], "slot": [1, 2, 3]}).cell({"time:weekday": "Tue"}, slot=3)
        (1, 2)
        """
        partial = self._partial(labels, named)
        self._check_whole(partial, range(len(self._names)))
        return tuple(partial[j] for j in range(len(self._names)))

    def given(self, labels: Mapping[str, Label] | None = None, /, **named: Label) -> Cell:
        """Return the levels of the context modes, in the order of :attr:`context`, as ``ask`` takes them.

        >>> Space({"segment": ["new", "old"], "offer": ["a", "b"]}, ["segment"]).given(segment="old")
        (1,)
        """
        partial = self._partial(labels, named)
        for mode in partial:
            if mode not in self._context:
                listed = [self._names[j] for j in self._context]
                raise ValueError(f"{self._names[mode]!r} is decided, not given; the context modes are {listed}")
        self._check_whole(partial, self._context)
        return tuple(partial[j] for j in self._context)

    def allowed(
        self, labels: Mapping[str, Iterable[Label]] | None = None, /, **named: Iterable[Label]
    ) -> dict[int, list[int]]:
        """Return the levels that may be chosen, by position of the mode, as ``ask(allowed=...)`` takes them.

        >>> Space({"segment": ["new", "old"], "offer": ["a", "b", "c"]}, ["segment"]).allowed(offer=["a", "c"])
        {1: [0, 2]}
        """
        return {
            self.position(mode): [self.level(mode, label) for label in _listed(mode, chosen)]
            for mode, chosen in _merged(labels, named).items()
        }

    def cells(self, columns: Mapping[str, Sequence[Label]]) -> NDArray[np.int64]:
        """Return many cells as an array of shape (n, d), from one column of n labels per mode.

        >>> space = Space({"offer": ["a", "b"], "channel": ["mail", "sms"]})
        >>> space.cells({"offer": ["b", "a"], "channel": ["sms", "sms"]})
        array([[1, 1],
               [0, 1]])
        """
        found = {self.position(mode): [self.level(mode, label) for label in labels] for mode, labels in columns.items()}
        self._check_whole(found, range(len(self._names)))
        lengths = {self._names[j]: len(found[j]) for j in range(len(self._names))}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"the columns have {lengths} labels; give as many of each mode")
        return np.array([found[j] for j in range(len(self._names))], dtype=np.int64).T

    def labels(self, cell: Sequence[int]) -> dict[str, Label]:
        """Return the labels of a cell, by mode."""
        valid = check_cell(cell, self.shape)
        return {name: labels[i] for name, labels, i in zip(self._names, self._labels, valid, strict=True)}

    def columns(self, cells: ArrayLike) -> dict[str, list[Label]]:
        """Return the labels of many cells, given as an array of shape (n, d): one column of n labels per mode.

        >>> Space({"offer": ["a", "b"], "channel": ["mail", "sms"]}).columns([(1, 1), (0, 1)])
        {'offer': ['b', 'a'], 'channel': ['sms', 'sms']}
        """
        array = check_cells(cells, self.shape)
        return {
            name: [labels[i] for i in array[:, j].tolist()]
            for j, (name, labels) in enumerate(zip(self._names, self._labels, strict=True))
        }

    def forbid(self, labels: Mapping[str, Label] | None = None, /, **named: Label) -> None:
        """Record a rule: cells with all of these labels may not be chosen. A rule that is there already is left.

        >>> space = Space({"offer": ["a", "video"], "channel": ["mail", "sms"]})
        >>> space.forbid(offer="video", channel="sms")
        >>> space.forbidden
        ({0: 1, 1: 1},)
        """
        self._forbid(self._partial(labels, named))

    def _forbid(self, rule: Mapping[int, int]) -> None:
        for mode, level in rule.items():
            check_level(level, len(self._labels[mode]), f"the level of mode {mode}")
        if not set(rule) - set(self._context):
            decided = [name for j, name in enumerate(self._names) if j not in self._context]
            raise ValueError(
                f"the rule names {[self._names[j] for j in rule]}, none of which is decided, so that nothing could be "
                f"chosen where it applies; name one of {decided}"
            )
        self._forbidden[tuple(sorted(rule.items()))] = None

    def add_level(self, mode: str, label: Label) -> int:
        """Add a level at the end of a mode, and return its index. Ledgers and policies of the space must grow too.

        >>> space = Space({"offer": ["a", "b"], "channel": ["mail", "sms"]})
        >>> space.add_level("offer", "summer"), space.shape
        (2, (3, 2))
        """
        at, key, value = self.position(mode), _key(label, mode), _plain(label)
        if key in self._indices[at]:
            known = self._labels[at][self._indices[at][key]]
            same = "" if repr(known) == repr(value) else f", as {known!r}"
            raise ValueError(f"mode {mode!r} has the level {value!r} already{same}; name each level once")
        self._labels[at].append(value)
        self._indices[at][key] = len(self._labels[at]) - 1
        return self._indices[at][key]

    def __eq__(self, other: object) -> bool:
        """Say whether names, labels, context and rules are the same; the order of the rules says nothing."""
        return isinstance(other, Space) and self._parts() == other._parts()

    def _parts(self) -> tuple[Any, ...]:
        return self._names, [list(keys) for keys in self._indices], self._context, set(self._forbidden)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        sizes = (
            f"{name}: {len(labels):,}{' (context)' if j in self._context else ''}"
            for j, (name, labels) in enumerate(zip(self._names, self._labels, strict=True))
        )
        rules = f"; {len(self._forbidden):,} forbidden" if self._forbidden else ""
        return f"Space({', '.join(sizes)}{rules})"

    def state(self) -> dict[str, Any]:
        """Return the space as plain data that JSON can hold: ``modes``, ``levels``, ``context`` and ``forbidden``."""
        return {
            "modes": list(self._names),
            "levels": [[_written(label) for label in labels] for labels in self._labels],
            "context": list(self._context),
            "forbidden": [[list(pair) for pair in rule] for rule in self._forbidden],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the space that :meth:`state` described.

        >>> space = Space({"offer": ["a", 2, True]})
        >>> Space.from_state(space.state()) == space
        True
        """
        try:
            pairs = zip(state["modes"], state["levels"], strict=True)
            space = cls({name: [_read(label) for label in labels] for name, labels in pairs}, state["context"])
            for rule in state["forbidden"]:
                space._forbid(
                    {check_level(mode, len(space._names), "the mode of a rule"): level for mode, level in rule}
                )
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise ValueError(f"this is no state of a space ({error}); give what Space.state returned") from None
        return space

    def _check_context(self, context: Any) -> Cell:
        if not is_sequence(context):
            raise TypeError(f"context is {context!r}; give a list of modes, of {list(self._names)}")
        positions = [self.position(mode) if isinstance(mode, str) else mode for mode in context]
        return check_context(positions, self.shape)

    def _partial(self, labels: Mapping[str, Label] | None, named: Mapping[str, Label]) -> dict[int, int]:
        """Return indices of levels by position of the mode."""
        return {self.position(mode): self.level(mode, label) for mode, label in _merged(labels, named).items()}

    def _check_whole(self, found: Mapping[int, Any], wanted: Iterable[int]) -> None:
        missing = [self._names[j] for j in wanted if j not in found]
        if missing:
            raise ValueError(f"no label is given for {', '.join(map(repr, missing))}; give one for each mode")

    def _unknown(self, at: int, label: Any) -> str:
        """The words for a label that a mode does not have, with the nearest that it has."""
        known = self._labels[at][:_SEARCHED]
        twins = [other for other in known if str(other) == str(label)]  # the number 1, and the text
        hint = f"did you mean {twins[0]!r}?" if twins else nearest(label, known)
        more = len(self._labels[at]) - _SHOWN
        listed = ", ".join(map(repr, known[:_SHOWN])) + (f" and {more:,} more" if more > 0 else "")
        return f"{label!r} is no level of mode {self._names[at]!r}, which has {listed}: {hint or 'give one of them'}"


def _merged(labels: Mapping[str, Any] | None, named: Mapping[str, Any]) -> dict[str, Any]:
    if labels is None:
        return dict(named)
    if not isinstance(labels, Mapping):
        raise TypeError(f"labels is {labels!r}; give labels by mode: {{'offer': 'a'}}, or offer='a'")
    twice = sorted(set(labels) & set(named))
    if twice:
        raise ValueError(f"mode {twice[0]!r} is given twice; give it once")
    return {**labels, **named}


def _listed(mode: str, labels: Any) -> list[Any]:
    if isinstance(labels, (str, bytes, set, frozenset, Mapping)) or not isinstance(labels, Iterable):
        raise TypeError(
            f"the levels of mode {mode!r} are {labels!r}; give a list of labels, as levels are numbered in its order"
        )
    listed = list(labels)
    if not listed:
        raise ValueError(f"mode {mode!r} has no levels; give at least one label")
    return listed


def _plain(label: Any) -> Any:
    """Return a label of NumPy's, of pandas' or of an enumeration as the Python value that it stands for."""
    if isinstance(label, np.datetime64) and np.datetime_data(label)[0] != "D":
        return label.astype("datetime64[us]").item()  # as the item of nanoseconds is a number
    if isinstance(label, (np.generic, np.ndarray)) and np.ndim(label) == 0:
        return label.item()
    if isinstance(label, datetime):
        return datetime.fromisoformat(label.isoformat())
    if isinstance(label, str):
        return str.__str__(label)
    return int(label) if isinstance(label, int) and not isinstance(label, bool) else label


def _key(label: Any, mode: str) -> Key:
    """Return what a label is looked up by: its kind and its value, as Python takes True for 1."""
    value = _plain(label)
    if isinstance(value, bool):
        return "truth", value
    if isinstance(value, (int, float)) and value == value:
        return "number", value
    for kind in (str, datetime, date):
        if isinstance(value, kind):
            return kind.__name__, value
    raise TypeError(
        f"mode {mode!r} has the label {label!r}, of type {type(label).__name__}; "
        "labels are text, numbers (not NaN), truth values, dates and times: make it one of them"
    )


def _written(label: Label) -> Any:
    """Return a label as JSON can hold it."""
    if isinstance(label, datetime):
        return {"time": label.isoformat()}
    if isinstance(label, date):
        return {"date": label.isoformat()}
    if isinstance(label, float) and label in (float("inf"), float("-inf")):
        return {"number": repr(label)}
    return label


def _read(written: Any) -> Label:
    if not isinstance(written, dict):
        return written  # type: ignore[no-any-return]  # checked when it is added
    ((kind, text),) = written.items()
    readers: dict[str, Any] = {"time": datetime.fromisoformat, "date": date.fromisoformat, "number": float}
    return readers[kind](text)  # type: ignore[no-any-return]

"""The space of combinations by name: modes, their levels and features, which are context, what may not be combined.

Labels live here and at the edge; everything inside the library is positions of modes and indices of levels.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbandits.base import html
from tensorbandits.base.checks import Cell, check_cell, check_cells, check_context, check_level, is_sequence, nearest
from tensorbandits.space.features import LevelFeatures, levels_of, present, values_of
from tensorbandits.space.labels import Key, Label, key, plain, read, written
from tensorbandits.space.numeric import Numeric, NumericModes
from tensorbandits.space.of_numbers import SpaceOfNumbers, merged
from tensorbandits.space.regions import Regions
from tensorbandits.space.rulebook import Exhausted, Rule, Rulebook, forbidden_share

_SHOWN = 8  # labels that an error lists
_NONE: dict[str, Any] = {}
_SEARCHED = 10_000  # labels among which an error looks for the nearest


class Space(SpaceOfNumbers):
    """Named modes and their levels, in order; what these are like; which are context; which combinations are forbidden.

    Parameters
    ----------
    modes : the labels of the levels of each mode, by the mode's name; or a :class:`~tensorbandits.Numeric`, for numbers
        that requests bring.
    context : names (or positions) of the modes that are given rather than decided.
    features : what the levels of some modes are like, by the mode's name: a mapping from labels to values by name, or a
        data frame with a column for the mode and one for each feature. See :meth:`describe`.

    A label is text, a number, a truth value, a date or a time. Equal numbers are one label, so that 1 and 1.0 find the
    same level, as columns of whole numbers come as floats from some files. Otherwise the kind counts: the number 1, the
    text ``"1"`` and ``True`` are three labels. Labels come back as they were given, but members of an ``Enum`` as what
    they stand for: their value if that is text, or if they are text or numbers themselves, and else their name. Any
    thread may change levels and rules.

    >>> modes = {"segment": ["new", "old"], "offer": ["a", "b", "video"], "channel": ["mail", "sms"]}
    >>> space = Space(modes, context=["segment"])
    >>> space
    Space(segment: 2 (context), offer: 3, channel: 2)
    >>> space.shape, space.context, space.cell(segment="old", offer="a", channel="sms")
    ((2, 3, 2), (0,), (1, 0, 1))
    >>> space.labels((1, 0, 1))
    {'segment': 'old', 'offer': 'a', 'channel': 'sms'}
    """

    def __init__(
        self,
        modes: Mapping[str, Iterable[Label] | Numeric],
        context: Sequence[str | int] = (),
        *,
        features: Mapping[str, Any] | None = None,
    ) -> None:
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
        self._features: dict[int, LevelFeatures] = {}
        self._version, self._lock = 0, threading.RLock()  # which those hold who read or change more than one thing
        self._numeric = NumericModes(self._names)
        for name, labels in modes.items():
            numeric = labels.regions_of(name) if isinstance(labels, Numeric) else None
            for label in _listed(name, labels) if numeric is None else numeric.labels:
                self._append(self._positions[name], label)
            if numeric is not None:
                self._numeric.regions[self._positions[name]] = numeric
        self._context = self.positions(context)
        self._numeric.check(self._context)
        self._book = Rulebook(self._context)
        if features is not None and not isinstance(features, Mapping):
            raise TypeError(f"features is {features!r}; give them by mode: {{'offer': {{'a': {{'price': 9.9}}}}}}")
        for name, given in (features or {}).items():
            self.describe(name, given, anew=True)

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
    def features(self) -> dict[str, LevelFeatures]:
        """The features of the levels, of the modes that have some.

        >>> space = Space({"offer": ["a", "b", "c"]}, features={"offer": {"a": {"price": 5}, "b": {"price": 7}}})
        >>> space.features
        {'offer': Features(price: number, missing of 1 level)}
        """
        with self._lock:
            return {self._names[at]: one for at, one in sorted(self._features.items())}

    def feature_numbers(self) -> dict[int, NDArray[np.float64]]:
        """Return the features as policies take them: columns of numbers, (levels, columns), by position of the mode.

        Regions of numbers have features of their own.

        >>> space = Space({"offer": ["a", "b"]}, features={"offer": {"a": {"price": 5}, "b": {"price": 7}}})
        >>> space.feature_numbers()[0].tolist()
        [[-1.4142135623730951, 0.0], [1.4142135623730951, 0.0]]
        """
        found = {self.position(mode): one.numbers for mode, one in self.features.items()}
        known = {self.position(mode): one.features for mode, one in self.regions.items()}
        return found | {at: numbers for at, numbers in known.items() if numbers is not None}

    @property
    def version(self) -> int:
        """A number that is another one after every change of levels, features and rules."""
        return self._version

    @property
    def forbidden(self) -> tuple[dict[int, int], ...]:
        """All that may not be chosen, as partial cells: indices of levels by position of the mode.

        What :meth:`forbid` and :meth:`allow` recorded, and the retired levels of modes that are decided.
        """
        with self._lock:
            return tuple(self._book.forbidden(self.shape))

    @property
    def rules(self) -> tuple[dict[str, dict[str, Any]], ...]:
        """The rules that :meth:`forbid` and :meth:`allow` recorded, in order, as data.

        >>> space = Space({"offer": ["a", "video"], "channel": ["mail", "sms"]})
        >>> space.forbid(offer="video", channel="sms")
        >>> space.allow(offer="a", channel=["mail"])
        >>> space.rules
        ({'forbid': {'offer': 'video', 'channel': 'sms'}}, {'allow': {'offer': 'a', 'channel': ['mail']}})
        >>> space.remove_rule(space.rules[0]); len(space.rules)
        1
        """
        with self._lock:
            return tuple(self._shown(rule) for rule in self._book.rules)

    @property
    def retired(self) -> dict[str, list[Label]]:
        """The levels that :meth:`retire_level` retired, by mode."""
        found: dict[str, list[Label]] = {}
        with self._lock:
            retired = sorted(self._book.retired)
        for mode, level in retired:
            found.setdefault(self._names[mode], []).append(self._labels[mode][level])
        return found

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
        index = self._indices[at].get(key(label, mode))
        if index is None:
            raise ValueError(self._unknown(at, label))
        return index

    def cell(self, labels: Mapping[str, Label | None] | None = None, /, **named: Label | None) -> Cell:
        """Return the cell of labels, one per mode: as keywords, or as a mapping where names are no Python names.

        >>> Space({"time:weekday": ["Mon", "Tue"], "slot": [1, 2, 3]}).cell({"time:weekday": "Tue"}, slot=3)
        (1, 2)
        """
        partial = self._placed(labels, named)
        self._check_whole(partial, range(len(self._names)))
        return tuple(partial[j] for j in range(len(self._names)))

    def given(self, labels: Mapping[str, Label | None] | None = None, /, **named: Label | None) -> Cell:
        """Return the levels of the context modes, in the order of :attr:`context`, as ``ask`` takes them.

        >>> Space({"segment": ["new", "old"], "offer": ["a", "b"]}, ["segment"]).given(segment="old")
        (1,)
        """
        partial = self._placed(labels, named)
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
        found = {
            self.position(mode): [self.level(mode, label) for label in _listed(mode, chosen)]
            for mode, chosen in merged(labels, named).items()
        }
        for mode in found:
            if mode in self._context:
                decided = [name for j, name in enumerate(self._names) if j not in self._context]
                raise ValueError(f"{self._names[mode]!r} is given, not decided; allow levels of {decided}")
        return found

    def cells(self, columns: Mapping[str, Sequence[Label]]) -> NDArray[np.int64]:
        """Return many cells as an array of shape (n, d), from one column of n labels per mode.

        >>> space = Space({"offer": ["a", "b"], "channel": ["mail", "sms"]})
        >>> space.cells({"offer": ["b", "a"], "channel": ["sms", "sms"]})
        array([[1, 1],
               [0, 1]])
        """
        columns = self._numeric.columns(columns) if self._numeric else columns
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
        self._add(Rule(tuple(sorted(self.partial(labels, named).items()))))

    def allow(self, labels: Mapping[str, Any] | None = None, /, **named: Any) -> None:
        """Record a rule: where all the single labels are met, of the modes with a list only the listed may be chosen.

        A level that is added later is not in the list. With single labels only, it takes back what :meth:`forbid` was
        told in the same words.

        >>> space = Space({"segment": ["new", "old"], "offer": ["a", "b", "c"]}, context=["segment"])
        >>> space.allow(segment="new", offer=["a", "b"])
        >>> space.forbidden
        ({0: 0, 1: 2},)
        """
        rule = self._rule(merged(labels, named))
        if rule.only:
            self._add(rule)
        elif rule in self._book.rules:
            self._remove(rule, "forbid")
        else:
            raise ValueError(
                f"{{'forbid': {self._words(rule)}}}, which this would take back, is no rule here; the rules are "
                f"{list(self.rules)[:_SHOWN]}: to allow nothing but some labels of a mode, list them: channel=['mail']"
            )

    def remove_rule(self, rule: Mapping[str, Mapping[str, Any]]) -> None:
        """Take back a rule, given as :attr:`rules` lists it."""
        if not isinstance(rule, Mapping) or len(rule) != 1 or set(rule) - {"forbid", "allow"}:
            raise ValueError(f"{rule!r} is no rule; give one as rules lists it, such as {{'forbid': {{'offer': 'a'}}}}")
        ((kind, labels),) = rule.items()
        self._remove(self._rule(merged(labels, {})), kind)

    def forbidden_share(self, rule: Mapping[str, Mapping[str, Any]] | None = None) -> float:
        """Return the share of combinations that may not be chosen, or that a rule, whether made or not, forbids alone.

        Beyond a million combinations the first is that of a sample, within 0.005.

        >>> space = Space({"offer": ["a", "video"], "channel": ["mail", "sms"]})
        >>> space.forbid(offer="video", channel="sms")
        >>> space.forbidden_share(), space.forbidden_share({"forbid": {"offer": "a"}})
        (0.25, 0.5)
        """
        if rule is None:
            return forbidden_share(self.shape, self.forbidden)
        ((_, labels),) = rule.items()
        return self._rule(merged(labels, {})).share(self.shape)

    def _rule(self, given: Mapping[str, Any]) -> Rule:
        single, only = {}, {}
        for mode, label in given.items():
            if is_sequence(label):
                only[self.position(mode)] = tuple(sorted({self.level(mode, one) for one in _listed(mode, label)}))
            else:
                single[self.position(mode)] = self.level(mode, label)
        return Rule(tuple(sorted(single.items())), tuple(sorted(only.items())))

    def _add(self, rule: Rule) -> None:
        for mode, level in rule.condition:
            check_level(level, len(self._labels[mode]), f"the level of mode {mode}")
        wanted = {mode for mode, _ in rule.only} or rule.modes
        if not wanted - set(self._context) or (rule.only and wanted & set(self._context)):
            decided = [name for j, name in enumerate(self._names) if j not in self._context]
            raise ValueError(
                f"the rule names {[self._names[j] for j in sorted(wanted)]}, none of which is decided, so that nothing "
                f"could be chosen where it applies; name one of {decided}"
            )
        with self._lock:
            try:
                self._book.add(rule, self.shape)
            except Exhausted as empty:
                raise ValueError(self._exhausted(f"the rule {self._shown(rule)}", empty.levels)) from None
            self._version += 1

    def _remove(self, rule: Rule, kind: str) -> None:
        with self._lock:
            if rule not in self._book.rules or (kind == "forbid") == bool(rule.only):
                given, known = {kind: self._words(rule)}, list(self.rules)[:_SHOWN]
                raise ValueError(f"{given} is no rule here; the rules are {known}: give one of them")
            self._book.remove(rule)
            self._version += 1

    def _shown(self, rule: Rule) -> dict[str, dict[str, Any]]:
        return {"allow" if rule.only else "forbid": self._words(rule)}

    def _words(self, rule: Rule) -> dict[str, Any]:
        words: dict[str, Any] = {self._names[mode]: self._labels[mode][level] for mode, level in rule.condition}
        return words | {self._names[mode]: [self._labels[mode][level] for level in kept] for mode, kept in rule.only}

    def _exhausted(self, what: str, levels: Mapping[int, int]) -> str:
        given = {self._names[mode]: self._labels[mode][level] for mode, level in levels.items()}
        where = f" given {given}" if given else ""
        return f"with {what} nothing would be left to choose{where}; leave it out, or take back another rule first"

    def retire_level(self, mode: str, label: Label) -> None:
        """Let a level not be chosen any more, or not be given if its mode is context; its rewards stay what they are.

        >>> space = Space({"offer": ["a", "b"], "channel": ["mail", "sms"]})
        >>> space.retire_level("offer", "a"); space.retired, space.forbidden
        ({'offer': ['a']}, ({0: 0},))
        >>> space.restore_level("offer", "a"); space.retired
        {}
        """
        at, level = self._named(mode), self.level(mode, label)
        with self._lock:
            try:
                self._book.retire(at, level, self.shape)
            except Exhausted as empty:
                raise ValueError(self._exhausted(f"{label!r} of mode {mode!r} retired", empty.levels)) from None
            self._version += 1

    def restore_level(self, mode: str, label: Label) -> None:
        """Let a level that was retired be chosen again."""
        at, level = self._named(mode), self.level(mode, label)
        with self._lock:
            if (at, level) not in self._book.retired:
                raise ValueError(f"{label!r} of mode {mode!r} is not retired; retired are {self.retired or 'none'}")
            self._book.restore(at, level)
            self._version += 1

    def add_level(self, mode: str, label: Label, features: Any = None) -> int:
        """Add a level at the end of a mode, and return its index. Ledgers and policies of the space must grow too.

        ``features`` are its values by name, if the mode has features; what is not given is missing.

        >>> space = Space({"offer": ["a", "b"], "channel": ["mail", "sms"]})
        >>> space.add_level("offer", "summer"), space.shape
        (2, (3, 2))
        """
        return self._append(self._named(mode), label, features)

    def _append(self, at: int, label: Label, features: Any = None) -> int:
        mode, value = self._names[at], plain(label)
        found = key(label, mode)
        with self._lock:
            if found in self._indices[at]:
                known = self._labels[at][self._indices[at][found]]
                same = "" if repr(known) == repr(value) else f", as {known!r}"
                raise ValueError(f"mode {mode!r} has the level {value!r} already{same}; name each level once")
            if at in self._features:
                self._features[at] = self._features[at].added(values_of(features, mode))
            elif features is not None:
                raise ValueError(
                    f"features of {value!r} are given, but mode {mode!r} has none; give those of all its levels first, "
                    f"with describe({mode!r}, ..)"
                )
            self._labels[at].append(value)
            self._indices[at][found] = len(self._labels[at]) - 1
            self._version += 1
            return self._indices[at][found]

    def describe(self, mode: str, features: Any, *, anew: bool = False) -> None:
        """Say what levels of a mode are like, from now on.

        Of a mode that has features already only what is named changes, a value ``None`` says that it is missing, and
        columns stay what they are. With ``anew``, or if the mode has none, these are all features that there are, of
        all levels, and how they become columns is settled by them.

        Parameters
        ----------
        mode : whose levels they are of.
        features : values by label: ``{"a": {"price": 9.9, "colour": "red"}}``, or ``{"a": [0.1, 0.7]}`` for a list of
            numbers; or a data frame with a column for the mode. A value is a number, a truth value, text, or a list of
            numbers; ``None`` where it is missing. ``None`` in the place of all takes the features of the mode away.
        anew : whether they take the place of all features of the mode.

        >>> space = Space({"offer": ["a", "b"]}, features={"offer": {"a": {"price": 5}, "b": {"price": 7}}})
        >>> space.describe("offer", {"b": {"price": 6.5}})
        >>> space.features["offer"].rows
        ({'price': 5.0}, {'price': 6.5})
        """
        at = self._named(mode)
        given = None if features is None else levels_of(features, mode)
        with self._lock:
            if given is None:
                if self._features.pop(at, None) is None:
                    raise ValueError(f"features is None, which takes them away, but mode {mode!r} has none")
            else:
                values = {self.level(mode, label): one for label, one in given}
                if len(values) < len(given):
                    raise ValueError(f"the features of mode {mode!r} name a level twice; name each level once")
                if at in self._features and not anew:
                    self._features[at] = self._features[at].changed(values)
                else:
                    rows = [values.get(level, {}) for level in range(len(self._labels[at]))]
                    self._features[at] = LevelFeatures.of(mode, list(map(present, rows)))
            self._version += 1

    def copy(self) -> Space:
        """Return an independent copy, of the same version."""
        other = Space.__new__(Space)
        other.__setstate__(self.__getstate__())
        return other

    def own_again(self) -> None:
        """Be of use in a child process, in which no thread of the parent goes on."""
        self._lock = threading.RLock()

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {name: copy.deepcopy(part) for name, part in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.RLock())

    def __eq__(self, other: object) -> bool:
        """Say whether names, labels, context and rules are the same; the order of the rules says nothing."""
        return isinstance(other, Space) and self._parts() == other._parts()

    def _parts(self) -> tuple[Any, ...]:
        with self._lock:
            keys = [list(indices) for indices in self._indices]
            rules, retired = set(self._book.rules), set(self._book.retired)
            parts = self._names, keys, self._context, rules, retired
            return *parts, self._numeric.state(), dict(self._features)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        sizes = (
            f"{name}: {len(labels):,}{' (context)' if j in self._context else ''}"
            f"{' with features' if j in self._features else ''}"
            for j, (name, labels) in enumerate(zip(self._names, self._labels, strict=True))
        )
        count = len(self.forbidden)
        rules = f"; {count:,} forbidden" if count else ""
        return f"Space({', '.join(sizes)}{rules})"

    def _repr_html_(self) -> str:
        retired = self.retired
        rows = [
            [name, "given" if j in self._context else "decided", len(labels), html.listed(labels)]
            + ([html.listed(retired.get(name, []))] if retired else [])
            for j, (name, labels) in enumerate(zip(self._names, self.levels, strict=True))
        ]
        head = ["mode", "is", "levels", "which", *(["retired"] if retired else [])]
        rules = [f"rules that say what may not be chosen: {len(self.rules):,}"] if self.rules else []
        return html.block("Space", html.table(head, rows, what="modes"), words=rules)

    def state(self) -> dict[str, Any]:
        """Return the space as plain data that JSON can hold: modes, levels, context, rules and retired levels."""
        with self._lock:
            features = {str(at): one.state() for at, one in sorted(self._features.items())}
            return {
                "modes": list(self._names),
                "levels": [[written(label) for label in labels] for labels in self._labels],
                "context": list(self._context),
                "forbidden": [[list(pair) for pair in rule.condition] for rule in self._book.rules if not rule.only],
                "only": [
                    [[list(pair) for pair in rule.condition], [[mode, list(kept)] for mode, kept in rule.only]]
                    for rule in self._book.rules
                    if rule.only
                ],
                "retired": [list(pair) for pair in sorted(self._book.retired)],
                **({"numeric": self._numeric.state()} if self._numeric else {}),
                **({"features": features} if features else {}),
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
            space = cls({name: [read(label) for label in labels] for name, labels in pairs}, state["context"])
            for condition, only in [*([rule, []] for rule in state["forbidden"]), *state.get("only", [])]:
                space._add(Rule(space._pairs(condition), tuple((j, space._kept(j, kept)) for j, kept in only)))
            for mode, level in space._pairs(state.get("retired", [])):
                space.retire_level(space._names[mode], space._labels[mode][level])
            for at, regions in state.get("numeric", {}).items():
                space._numeric.regions[int(at)] = Regions.from_state(regions)
                if tuple(space._labels[int(at)]) != space._numeric.regions[int(at)].labels:
                    raise ValueError(f"the levels of mode {at} are others than its regions")
            space._numeric.check(space._context)
            for mode, one in sorted(state.get("features", {}).items()):
                at = check_level(int(mode), len(space._names), "the mode of features")
                space._features[at] = LevelFeatures.from_state(space._names[at], one)
                if len(space._features[at].rows) != space.shape[at]:
                    raise ValueError(f"features of mode {space._names[at]!r} are of another number of levels")
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise ValueError(f"this is no state of a space ({error}); give what Space.state returned") from None
        return space

    def _pairs(self, pairs: Any) -> tuple[tuple[int, int], ...]:
        """Return pairs of modes and levels that exist, sorted."""
        modes = [check_level(mode, len(self._names), "the mode of a rule") for mode, _ in pairs]
        levels = [level for _, level in pairs]
        for mode, level in zip(modes, levels, strict=True):
            check_level(level, self.shape[mode], "the level of a rule")
        return tuple(sorted(zip(modes, levels, strict=True)))

    def _kept(self, mode: int, levels: Any) -> Cell:
        return tuple(sorted({level for _, level in self._pairs([(mode, level) for level in levels])}))

    def positions(self, context: Sequence[str | int]) -> Cell:
        """Return the positions of context modes, given by name or position: some modes, not all, each once.

        >>> Space({"segment": ["new", "old"], "offer": ["a", "b"]}).positions(["offer"])
        (1,)
        """
        if not is_sequence(context):
            raise TypeError(f"context is {context!r}; give a list of modes, of {list(self._names)}")
        found = []
        for mode in context:
            try:
                found.append(self.position(mode) if isinstance(mode, str) else mode)
            except ValueError as error:
                raise ValueError(f"context names the mode {mode!r}, but {error}") from None
        if any(found.count(mode) > 1 for mode in found):
            raise ValueError(f"context is {list(context)}, which names a mode twice; name each once")
        return check_context(found, self.shape)

    def partial(self, labels: Mapping[str, Label] | None, named: Mapping[str, Label] = _NONE) -> dict[int, int]:
        """Return the levels of some modes, by position of the mode."""
        return {self.position(mode): self.level(mode, label) for mode, label in merged(labels, named).items()}

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


def _listed(mode: str, labels: Any) -> list[Any]:
    if isinstance(labels, (str, bytes, set, frozenset, Mapping)) or not isinstance(labels, Iterable):
        raise TypeError(
            f"the levels of mode {mode!r} are {labels!r}; give a list of labels, as levels are numbered in its order"
        )
    listed = list(labels)
    if not listed:
        raise ValueError(f"mode {mode!r} has no levels; give at least one label")
    return listed

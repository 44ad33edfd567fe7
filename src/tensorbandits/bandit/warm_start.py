"""Warm starts: rewards of a log, or of another bandit, matched by label with the space of the bandit that learns them.

Everything is checked here, before anything is told: which labels the space lacks, whether the policy takes such
rewards, and whether it can follow levels that are added.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from tensorbandits.base.checks import check_installed, check_positive, is_finite, is_sequence
from tensorbandits.base.frames import columns_of, is_frame
from tensorbandits.data.cleaning import Clean
from tensorbandits.data.log import Log, Missing, from_known
from tensorbandits.ledger import Ledger
from tensorbandits.policies.base import Policy
from tensorbandits.space import Space
from tensorbandits.space.features import Values, levels_of, values_of
from tensorbandits.space.labels import Key, Label, key
from tensorbandits.space.numeric import number_columns
from tensorbandits.space.partition import Partition
from tensorbandits.space.regions import Regions

Unknown = Literal["error", "skip", "add", "retire"]
Counts = dict[str, dict[Label, float]]

_START = 30.0  # normal rewards' worth of another level, as which a new one starts
_WHOLE = 1.0 - 1e-12  # of rewards of which all are taken: as they have faded, their sums need not be whole
_SHOWN = 6  # unknown labels of a mode that an error lists
_SLIGHTLY = -1e-300  # the logarithm of what has faded, of a ledger of which some part has


class Past(NamedTuple):
    """Rewards from elsewhere: the labels of each mode, by name, a ledger over them, and the rows it was made of."""

    levels: Mapping[str, tuple[Label, ...]]
    ledger: Ledger
    rows: int | None = None
    dropped: Mapping[str, int] = {}
    features: Mapping[str, Sequence[tuple[Label, Values]]] = {}  # of levels, by mode


@dataclass(frozen=True)
class WarmStart:
    """What a warm start told a bandit.

    ``rewards`` is what they count for together, after their weight, in so many ``cells``; ``rows`` are those of the
    log, ``None`` if there was none. Left out were rows by reason (``dropped``), and rewards with labels that the space
    does not know (``skipped`` by mode and label; one with two such labels counts for both). ``added`` are labels that
    became levels, by mode; those of the modes in ``retired`` are chosen no more, and only teach what features say.

    >>> WarmStart(rewards=120.0, cells=7, rows=130, skipped={"offer": {"old": 10.0}})
    WarmStart(told 120 rewards of 7 cells, from 130 rows; skipped: offer 'old' (10))
    """

    rewards: float
    cells: int
    rows: int | None = None
    dropped: Mapping[str, int] = field(default_factory=dict)
    skipped: Mapping[str, Mapping[Label, float]] = field(default_factory=dict)
    added: Mapping[str, tuple[Label, ...]] = field(default_factory=dict)
    retired: tuple[str, ...] = ()

    def said(self) -> dict[str, Any]:
        """Return it as plain data that JSON can hold."""
        skipped = {mode: {str(label): float(n) for label, n in some.items()} for mode, some in self.skipped.items()}
        return {"rows": self.rows, "rewards": float(self.rewards), "cells": self.cells, "skipped": skipped}

    def __repr__(self) -> str:
        rows = "" if self.rows is None else f", from {self.rows:,} rows"
        parts = [f"told {self.rewards:,g} rewards of {self.cells:,} cells{rows}"]
        if self.dropped:
            parts.append("dropped rows: " + ", ".join(f"{why} ({count:,})" for why, count in self.dropped.items()))
        if self.skipped:
            parts.append("skipped: " + _listed(self.skipped))
        for words, there in (("added", False), ("added as retired levels", True)):
            if some := {
                mode: dict.fromkeys(one) for mode, one in self.added.items() if (mode in self.retired) == there
            }:
                parts.append(f"{words}: {_listed(some)}")
        return f"WarmStart({'; '.join(parts)})"


class WarmStartPlan(NamedTuple):
    """A warm start that can be made: the ledger over the space as it will be, and what is to be said of it."""

    ledger: Ledger
    start: WarmStart
    features: Mapping[str, list[Values]] = {}  # of levels that are added, in their order


def past_of_log(
    space: Space,
    policy: Policy,
    frame: Any,
    reward: str | None,
    trials: str | None,
    columns: Any,
    fixed: Any,
    missing: Missing,
    clean: Clean | None = None,
    features: Any = None,
) -> Past:
    """Read a log whose columns have the names of the space's modes, or those that ``columns`` says.

    It is added up as the policy keeps rewards. One that was read already is taken as it is.
    """
    known = _check_mapping(space, features, "features", "{'offer': ['price']}")
    given = _check_mapping(space, columns, "columns", "{'offer': 'offer_id'}", numbers=True)
    said = {mode: _features_of(frame, mode, given.get(mode, mode), one) for mode, one in known.items()}
    if isinstance(frame, Log):
        past = _past_of_read(frame, reward, {"trials": trials, "columns": columns, "clean": clean}, missing)
        return past._replace(features=said)
    if reward is None:
        raise TypeError("reward is not given; name the column of rewards, as in tell_log(frame, 'clicks')")
    constant = _check_mapping(space, fixed, "fixed", "{'channel': 'mail'}")
    if both := sorted(set(given) & set(constant)):
        raise ValueError(f"mode {both[0]!r} is in columns and in fixed; give its labels in one of them")
    modes = [mode for mode in space.modes if mode not in constant]
    kind: Any = policy.ledger.kind or None
    regions = number_columns_of(space, frame, given, constant)
    names = [mode if mode in regions else given.get(mode, mode) for mode in modes]
    log = from_known(frame, names, reward, trials=trials, missing=missing, kind=kind, clean=clean, regions=regions)
    return Past(dict(zip(modes, log.levels, strict=True)), log.ledger, log.rows, log.dropped, said)


def _features_of(frame: Any, mode: str, column: str, given: Any) -> list[tuple[Label, Values]]:
    """Return the features of levels that are given apart, or that stand in columns of the log itself, by their names.

    Of a level whose rows differ in them the last one counts.
    """
    if not is_sequence(given) or not all(isinstance(one, str) for one in given):
        return levels_of(given, mode)
    if not is_frame(frame):
        raise TypeError(
            f"the features of mode {mode!r} are columns of the log, {list(given)}, but the log is no data frame of "
            "pandas, polars or pyarrow; give them by label, or as a data frame of their own"
        )
    found = columns_of(frame, [column, *given], "the log")
    last = {key(label, mode): at for at, label in enumerate(found[column]) if label is not None}
    return [(found[column][at], values_of({name: found[name][at] for name in given}, mode)) for at in last.values()]


def number_columns_of(
    space: Space, frame: Any, columns: Mapping[str, str] | None, fixed: Mapping[str, Any] | None
) -> dict[str, tuple[Regions, list[str]]]:
    """Return the regions of modes of numbers, each with the columns of a log that have its numbers.

    A mode is left out of which the log has the names of regions, as text.
    """
    wanted = {mode: one for mode, one in space.regions.items() if mode not in (fixed or {})}
    if not wanted:
        return {}
    check_installed("reading a log", "narwhals")
    from tensorbandits.data.numbers import texts

    given = _check_mapping(space, columns, "columns", "{'offer': 'offer_id'}", numbers=True)
    labels = texts(frame)
    return {
        mode: (one, [given.get(name, name) for name in one.numbers])
        for mode, one in wanted.items()
        if given.get(mode, mode) not in labels
    }


def to_learn(
    space: Space, frame: Any, columns: Mapping[str, str] | None, fixed: Mapping[str, Any] | None
) -> dict[str, Partition]:
    """Return what a log says of regions that are still to be learned, by mode."""
    if not any(one.learning for one in space.regions.values()):
        return {}
    if isinstance(frame, Log):
        known = {mode: one.partition for mode, one in frame.numeric.items() if mode in space.regions}
        return {mode: one for mode, one in known.items() if one is not None and space.regions[mode].learning}
    some = number_columns_of(space, frame, columns, fixed)
    return {mode: one.fit(number_columns(frame, names)) for mode, (one, names) in some.items() if one.learning}


def _past_of_read(log: Log, reward: str | None, others: Mapping[str, Any], missing: Missing) -> Past:
    said = [name for name, value in others.items() if value is not None] + ["missing"] * (missing != "error")
    if reward not in (None, log.reward) or said:
        what = said[0] if said else "reward"
        raise ValueError(f"{what} is given beside a log that is read already, and has its own; leave it out")
    return Past(dict(zip(log.modes, log.levels, strict=True)), log.ledger, log.rows, log.dropped)


def plan(
    space: Space, policy: Policy, past: Past, *, fixed: Any, unknown: Unknown | None, weight: float
) -> WarmStartPlan:
    """Return the warm start that can be made, or refuse it."""
    if unknown is not None and unknown not in get_args(Unknown):
        raise ValueError(
            f"unknown is {unknown!r}; allowed are 'error', 'skip' and 'add', and 'retire', which adds them retired"
        )
    if isinstance(weight, bool) or not is_finite(weight) or not 0 < weight <= 1:
        raise ValueError(f"weight is {weight!r}; it is what a reward counts for, above 0 and at most 1")
    constant = _check_mapping(space, fixed, "fixed", "{'channel': 'mail'}")
    levels = {**past.levels, **{mode: (label,) for mode, label in constant.items()}}
    _check_modes(space, past, constant)
    found = _unknown(space, past)
    if regions := [mode for mode in found if mode in space.regions and unknown in ("add", "retire")]:
        raise ValueError(
            f"there are rewards with regions of numbers that mode {regions[0]!r} does not have: {_listed(found)}; none "
            "can be added: leave them out with unknown='skip', or tell a log that has the numbers"
        )
    alike = {mode: _known_values(space, mode, past.features[mode]) for mode in found if mode in past.features}
    refused = {
        mode: some for mode, some in found.items() if unknown == "error" or (not unknown and not alike.get(mode))
    }
    if refused:
        raise ValueError(
            f"there are rewards with labels that the space does not know: {_listed(refused)}; leave them out with "
            "unknown='skip', add them to the space with unknown='add', or as levels that are chosen no more and only "
            "teach what features say with unknown='retire'"
        )
    added = {mode: tuple(labels) for mode, labels in found.items()} if unknown != "skip" else {}
    features = {mode: [alike.get(mode, {}).get(key(one, mode), {}) for one in some] for mode, some in added.items()}
    retired = tuple(added) if unknown != "add" else ()
    add_levels(space.copy(), added, features, retired)  # which refuses what cannot be
    known = {mode: (*space.levels[space.position(mode)], *added.get(mode, ())) for mode in space.modes}
    ledger = _placed(past, [_positions(mode, levels[mode], known[mode]) for mode in space.modes], known)
    if weight < 1:
        ledger.fade(weight)
    policy.check_ledger(ledger)
    if added and (why := type(policy).refusal(ledger.shape, getattr(policy, "rank", "auto"))) is not None:
        raise ValueError(why)
    skipped = {} if added else found
    start = WarmStart(ledger.rounds, len(ledger), past.rows, past.dropped, skipped, added, retired)
    return WarmStartPlan(ledger, start, {mode: some for mode, some in features.items() if any(some)})


def add_levels(
    space: Space, added: Mapping[str, Sequence[Label]], features: Mapping[str, Sequence[Values]], retired: Sequence[str]
) -> None:
    """Add levels with their features to a space, and let those of some modes not be chosen."""
    for mode, labels in added.items():
        for label, values in zip(labels, features.get(mode) or [{}] * len(labels), strict=True):
            space.add_level(mode, label, values or None)
    for mode in retired:
        for label in added[mode]:
            space.retire_level(mode, label)


def _known_values(space: Space, mode: str, features: Sequence[tuple[Label, Values]]) -> dict[Key, Values]:
    """Return the values of levels by label, of features that the space has too; none if it has none of them."""
    known = space.features[mode].names if mode in space.features else []
    found: dict[Key, Values] = {
        key(label, mode): {name: one for name, one in values.items() if name in known} for label, values in features
    }
    return found if any(found.values()) else {}


def check_like(policy: Policy, like: bool, rewards: Any) -> None:
    """Refuse what cannot be said of how a new level starts."""
    if not like and rewards is not None:
        raise ValueError(f"rewards is {rewards!r}, but nothing says whose rewards; name a level: like='spring'")
    if like and not policy.traits.learns_from_logs:
        raise ValueError(
            f"{type(policy).__name__} learns only from cells that it chose itself, so that no level can start like "
            "another; leave out like, or use TensorThompsonSampling"
        )
    if rewards is not None:
        check_positive(rewards, "rewards")


def check_featured(policy: Policy | type[Policy]) -> None:
    """Refuse features for a policy that takes none."""
    if not policy.traits.featured:
        name = policy.__name__ if isinstance(policy, type) else type(policy).__name__
        raise ValueError(f"features are given, but {name} takes none; use 'thompson', which learns how much they say")


def like(policy: Policy, mode: int, level: int | None, rewards: float | None, share: float = 1.0) -> Ledger | None:
    """Return what a policy is told of a mode's next level that is to start like another one, if there is anything.

    It is so much of that one's rewards that they count as ``rewards`` together; ``None`` is as many as say what 30
    normal ones do, or that ``share`` of them if these are fewer.
    """
    check_like(policy, level is not None, rewards)
    if level is None:
        return None
    wanted = None if rewards is None else check_positive(rewards, "rewards")
    past = policy.copy_ledger()
    its = past.cells[:, mode] == level
    if not its.any():
        return None
    if wanted is None:
        likelihood = getattr(getattr(policy, "oracle", None), "likelihood", None)
        wanted = _START * (likelihood.worth(past) if likelihood is not None else 1.0)
        wanted = min(wanted, share * float(past.counts[its].sum()))
    last, shape = past.shape[mode], [size + (j == mode) for j, size in enumerate(past.shape)]
    at = np.arange(len(shape)) == mode
    ledger = past.excerpt(shape, lambda cells: np.where(at, np.where(cells == level, last, -1), cells))
    ledger.fade(min(wanted / ledger.rounds, _WHOLE))
    try:
        policy.check_ledger(ledger)
    except ValueError:  # large rewards that were amended left no digits of the others: too little is known of the level
        return None
    return ledger


def _check_mapping(space: Space, value: Any, name: str, example: str, *, numbers: bool = False) -> dict[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise TypeError(f"{name} is {value!r}; give a value for some modes, such as {example}")
    known = [number for one in space.regions.values() for number in one.numbers] if numbers else []
    for mode in value or {}:
        if mode not in known:
            space.position(mode)
    return dict(value or {})


def _check_modes(space: Space, past: Past, constant: Mapping[str, Label]) -> None:
    for mode in past.levels:
        space.position(mode)
        if mode in constant:
            raise ValueError(f"mode {mode!r} is in fixed, but the rewards have levels of it; leave it out of fixed")
    for mode, label in constant.items():
        space.level(mode, label)
    if missing := [mode for mode in space.modes if mode not in past.levels and mode not in constant]:
        raise ValueError(
            f"nothing says which levels of {', '.join(map(repr, missing))} the rewards are of; if all are of one, name "
            f"it: fixed={{{missing[0]!r}: {space.levels[space.position(missing[0])][0]!r}}}"
        )


def _unknown(space: Space, past: Past) -> Counts:
    """The labels that the space lacks, in their order, each with the number of its rewards."""
    found: Counts = {}
    for at, (mode, labels) in enumerate(past.levels.items()):
        known = {key(label, mode) for label in space.levels[space.position(mode)]}
        counts = np.bincount(past.ledger.cells[:, at], past.ledger.counts, minlength=len(labels))
        some = {
            label: count
            for label, count in zip(labels, counts.tolist(), strict=False)
            if count and key(label, mode) not in known
        }
        if some:
            found[mode] = some
    return found


def _positions(mode: str, labels: tuple[Label, ...], known: tuple[Label, ...]) -> NDArray[np.int64]:
    """Where labels are among known ones; -1 for those that are not."""
    at = {key(label, mode): index for index, label in enumerate(known)}
    return np.array([at.get(key(label, mode), -1) for label in labels], dtype=np.int64)


def _placed(past: Past, positions: list[NDArray[np.int64]], known: Mapping[str, tuple[Label, ...]]) -> Ledger:
    """The ledger over known labels, without the rewards of labels that are not among them."""
    column, shape = {mode: at for at, mode in enumerate(past.levels)}, tuple(map(len, known.values()))

    def placed(state: Mapping[str, Any]) -> dict[str, Any]:
        cells = np.column_stack(
            [
                where[state["cells"][:, column[mode]]] if mode in column else np.full(len(state["cells"]), where[0])
                for mode, where in zip(known, positions, strict=True)
            ]
        )
        kept = (cells >= 0).all(axis=1)
        sums = state["sums"][:, kept]
        whole = bool((sums[0] == np.round(sums[0])).all())
        faded = state["log_faded"] if whole else min(state["log_faded"], _SLIGHTLY)
        parts = {name: placed(part) for name, part in state.items() if isinstance(part, Mapping)}
        counts = {"rounds": float(sums[0].sum()), "received": math.fsum(sums[0]), "log_faded": faded}
        return {**state, "shape": shape, "cells": cells[kept], "sums": sums, **counts, **parts}

    found = placed(past.ledger.state())
    if len(past.ledger) and not len(found["cells"]):
        raise ValueError("no reward is left to tell; check the labels of the space against those of the rewards")
    return Ledger.from_state(found)


def _listed(counts: Mapping[str, Mapping[Label, float | None]]) -> str:
    """Labels by mode in words, with their counts."""
    words = []
    for mode, labels in counts.items():
        shown = [
            f"{label!r}" + ("" if count is None else f" ({count:,g})") for label, count in list(labels.items())[:_SHOWN]
        ]
        more = f" and {len(labels) - _SHOWN:,} more" if len(labels) > _SHOWN else ""
        words.append(f"{mode} {', '.join(shown)}{more}")
    return "; ".join(words)

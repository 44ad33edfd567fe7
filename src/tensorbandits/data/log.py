"""Event logs: any data frame becomes a space and a ledger of its cells, summed up where the data is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tensorbandits.base import pieces
from tensorbandits.base.checks import Cell, check_installed, check_probability, check_seed, is_sequence
from tensorbandits.data.cleaning import Clean, Step, applied, check_clean
from tensorbandits.data.columns import Mode, check_top
from tensorbandits.ledger import Ledger
from tensorbandits.model.held_out import Rewards, summed
from tensorbandits.model.revenue import Revenue, RevenueKind
from tensorbandits.space import Numeric, Space
from tensorbandits.space.labels import Label
from tensorbandits.space.regions import Regions
from tensorbandits.tensor.tucker import Floats, Ints

if TYPE_CHECKING:
    from tensorbandits.data.source import Groups, Source

Missing = Literal["error", "drop"]

_MOST_VALUES = 5_000_000  # distinct rewards, over all cells


@dataclass(frozen=True, eq=False, repr=False)
class Log:
    """A log as :func:`from_log` read it: the space of its named modes and levels, and the ledger of its rewards.

    ``reward``, ``trials`` and ``propensity`` are the names of those columns; ``rows`` how many rows were read;
    ``dropped`` how many of them were left out, by reason; ``options`` what it was read with: ``top``, ``missing``,
    ``kind`` and ``clean``, if they were given; ``numeric`` the modes that are of numbers, as a space takes
    them.

    >>> import pyarrow as pa
    >>> table = pa.table({"ad": ["a", "b", "a"], "site": ["x", "x", "y"], "clicks": [1, 0, 3], "shown": [9, 4, 5]})
    >>> log = from_log(table, ["ad", "site"], "clicks", trials="shown")
    >>> log
    Log(ad: 2, site: 2; 18 rewards in 3 of 4 cells, from 3 rows)
    >>> log.levels, log.ledger[0, 1].total, log.density
    ((('a', 'b'), ('x', 'y')), 3.0, 0.75)
    """

    space: Space
    ledger: Ledger
    reward: str
    trials: str | None
    propensity: str | None
    rows: int
    dropped: Mapping[str, int]
    options: Mapping[str, Any]
    _source: Source = field(repr=False)
    _lookups: tuple[dict[Any, int], ...] = field(repr=False)  # of the engine's keys to indices, per mode
    _top: frozenset[str] = field(repr=False)
    numeric: Mapping[str, Numeric] = field(default_factory=dict)

    make_world: ClassVar[Callable[..., Any]]  # `World.of`, put here by the simulation, of which a log knows nothing

    @property
    def modes(self) -> tuple[str, ...]:
        """The names of the modes, as given."""
        return self.space.modes

    @property
    def levels(self) -> tuple[tuple[Label, ...], ...]:
        """The labels of each mode, in the order of the ledger's indices."""
        return self.space.levels

    @property
    def shape(self) -> Cell:
        """The number of levels of each mode."""
        return self.ledger.shape

    @property
    def density(self) -> float:
        """The share of all cells that have a reward."""
        return len(self.ledger) / math.prod(self.shape)

    @property
    def merged(self) -> dict[str, dict[Label, tuple[Any, ...]]]:
        """Labels that cleaning made one level: by mode and level, as the log has them."""
        found: dict[str, dict[Label, tuple[Any, ...]]] = {}
        for mode, labels, lookup in zip(self.modes, self.levels, self._lookups, strict=True):
            spellings: dict[int, list[Any]] = {}
            for key, index in lookup.items():
                spellings.setdefault(index, []).append(key)
            several = {labels[at]: tuple(keys) for at, keys in sorted(spellings.items()) if len(keys) > 1}
            if several:
                found[mode] = several
        return found

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}: {size:,}" for name, size in zip(self.modes, self.shape, strict=True))
        cells = f"{len(self.ledger):,} of {math.prod(self.shape):,} cells"
        return f"Log({sizes}; {self.ledger.rounds:,.0f} rewards in {cells}, from {self.rows:,} rows)"

    def label(self, cell: Sequence[int]) -> dict[str, Label]:
        """Return the labels of a cell, by mode."""
        return self.space.labels(cell)

    def values(self) -> tuple[Ints, Floats, Ints]:
        """Return the distinct rewards of each cell: cells (m, d), values (m,) and how often each occurs (m,).

        They are sorted by cell and value. The engine counts them on first use, in a second pass over the log, which
        must be as it was; at most 5 million of them.
        """
        return self._values

    @cached_property
    def _values(self) -> tuple[Ints, Floats, Ints]:
        if self.trials is not None:
            ledger = self.ledger
            counts = np.column_stack([ledger.counts - ledger.totals, ledger.totals]).ravel()
            cells, values = np.repeat(ledger.cells, 2, axis=0), np.tile([0.0, 1.0], len(ledger))
        else:
            kept = [
                list(lookup) if name in self._top else None
                for name, lookup in zip(self.modes, self._lookups, strict=True)
            ]
            groups = self._source.values(kept, _MOST_VALUES)
            if groups is None:
                raise ValueError(
                    f"column {self.reward!r} has more than {_MOST_VALUES:,} distinct rewards over all cells, too many "
                    "to keep; round the rewards to fewer digits before reading the log"
                )
            cells, (values, counts) = _gather(groups, self._lookups, groups.numbers["reward"], groups.numbers["rows"])
            new = np.r_[True, (cells[1:] != cells[:-1]).any(axis=1) | (values[1:] != values[:-1])]
            at = np.flatnonzero(new[: len(cells)])  # of labels that are one there may be several rows
            cells, values, counts = cells[at], values[at], np.add.reduceat(counts, at) if len(at) else counts
        self._check_same(counts.sum())
        return cells[counts > 0], values[counts > 0], counts[counts > 0].astype(np.int64)

    def _check_same(self, rewards: float) -> None:
        """Refuse a log that has another number of rewards than when it was read."""
        if rewards != self.ledger.rounds:
            raise RuntimeError(
                f"the log now has {rewards:,.0f} rewards, but had {self.ledger.rounds:,.0f} when it was read; "
                "read it again with from_log"
            )

    def split(self, fraction: float = 0.5, seed: int | np.random.SeedSequence | None = 0) -> tuple[Ledger, Ledger]:
        """Split the rewards at random into two ledgers, the first with that fraction of them.

        Each way to divide the log's single rewards into two parts of these sizes is equally likely.

        >>> import pyarrow as pa
        >>> table = pa.table({"a": [0, 1, 1, 0], "b": [0, 0, 1, 1], "reward": [1, 2, 3, 4]})
        >>> log = from_log(table, ["a", "b"], "reward")
        >>> train, held_out = log.split()
        >>> len(train), train + held_out == log.ledger
        (2, True)
        """
        share, total = check_probability(fraction, "fraction"), int(self.values()[2].sum())
        size = round(share * total)
        if size in (0, total):
            raise ValueError(
                f"fraction is {fraction} of {total} rewards, so that one part is empty; give another fraction"
            )
        train, held_out = self.rewards().deal([size], np.random.default_rng(check_seed(seed)))
        return train.ledger(), held_out.ledger()

    def rewards(self) -> Rewards:
        """Return the single rewards, to be dealt into parts; they are counted as for :meth:`values`."""
        return Rewards(self.shape, *self.values())

    def decisions(self) -> tuple[Ints, Floats, Floats | None]:
        """Return the single rows in order: cells (n, d), rewards (n,) and propensities (n,), if the log has them.

        They are read in another pass over the log, which must be as it was, and must fit into memory.

        >>> import pyarrow as pa
        >>> table = pa.table({"ad": ["b", "a"], "site": ["x", "y"], "click": [1, 0], "p": [0.5, 0.25]})
        >>> cells, rewards, propensities = from_log(table, ["ad", "site"], "click", propensity="p").decisions()
        >>> cells.tolist(), rewards.tolist(), propensities.tolist()
        ([[1, 0], [0, 1]], [1.0, 0.0], [0.5, 0.25])
        """
        if self.trials is not None:
            raise ValueError(
                f"the log has trials={self.trials!r}, so that a row is many decisions; give one with a row per decision"
            )
        groups = self._source.rows()
        cells, rewards = _placed(groups, self._lookups), groups.numbers["reward"]
        use = (cells >= 0).all(axis=1) & ~np.isnan(rewards)
        self._check_same(use.sum())
        chances = groups.numbers.get("propensity")
        return cells[use], rewards[use], None if chances is None else chances[use]

    def world(
        self,
        context: Sequence[str | int] = (),
        *,
        min_count: int = 1,
        shrinkage: float | None = None,
        standardise: bool = False,
    ) -> Any:
        """Return a world that pays this log's own rewards, cells with few of them steadied, to compare policies in.

        The same as :meth:`tensorbandits.sim.World.of`, which says what the arguments mean.
        """
        return type(self).make_world(self, context, min_count=min_count, shrinkage=shrinkage, standardise=standardise)


def from_log(
    frame: Any,
    modes: Sequence[str],
    reward: str,
    *,
    trials: str | None = None,
    propensity: str | None = None,
    top: int | Mapping[str, int] | None = None,
    missing: Missing = "error",
    kind: RevenueKind | None = None,
    clean: Clean | None = None,
    numeric: Mapping[str, Numeric] | None = None,
) -> Log:
    """Read a log of rewards, one row per event, and return it as a :class:`Log`.

    Parameters
    ----------
    frame : a pandas, polars (eager or lazy), dask or Spark frame, a pyarrow table, or a duckdb relation. It is summed
        up in its engine, in one pass; only one row per observed cell is brought to Python.
    modes : names of columns of text or numbers, or of times with a bin: ``"time:weekday"``, ``"time:hour"``,
        ``"time:month"``, or ``"time:3h"`` for slots of so many hours. One column may serve several modes. Times are
        read as their column states them; those with a time zone in that zone (duckdb, Spark: the session's). Numbers
        fall into regions that are learned from the log: ``"age:8 regions"``, or ``"age+tenure:12 regions"`` of several
        together.
    reward : a column of numbers.
    trials : a column of numbers of trials, if ``reward`` counts the successes among them (clicks of impressions).
        Each trial is then a reward of 1 or 0. Rows with 0 trials name their levels, say nothing else, and are counted.
    propensity : a column with the probability with which each row's decision was made, above 0
        and at most 1, for estimates of what other policies would have earned.
    top : how many levels to keep, of every mode or by mode: those with the most rewards. Rows of others are left out.
    missing : ``"error"`` names the first row that lacks a value; ``"drop"`` leaves such rows out, and counts them.
    kind : ``"revenue"`` if rewards are mostly 0 and else an amount above 0, ``"revenue-signed"`` if amounts may be
        negative: conversions and amounts are then added up too, in a :class:`~tensorbandits.RevenueLedger`, which a
        policy with that ``reward`` needs.
    clean : ``"strip"``, ``"casefold"`` or ``"strip,casefold"``: labels that differ by spaces, or by case, or by either
        are one level, of all modes or by mode: ``{"country": "strip"}``. :attr:`Log.merged` says which;
        :func:`clean_label` does the same to the label of a request.
    numeric : modes of numbers as :class:`~tensorbandits.Numeric`, by name, for regions that are known already, as those
        of a bandit.

    Levels are in natural order: numbers by value, text by its characters, weekdays from Monday, slots by time.

    >>> import datetime, pyarrow as pa
    >>> hours = [datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=hour) for hour in range(48)]
    >>> table = pa.table({"time": hours, "sold": range(48)})
    >>> log = from_log(table, ["time:weekday", "time:12h"], "sold")
    >>> log.levels
    (('Mon', 'Tue'), ('00-12', '12-24'))
    >>> log.ledger[0, 1].total == sum(range(12, 24))
    True
    """
    check_installed("reading a log", "narwhals")
    from tensorbandits.data.numbers import declared
    from tensorbandits.data.source import open_frame

    opened = open_frame(frame)
    known = declared(opened, modes, numeric) if is_sequence(modes) else {}
    regions = {mode: (one.regions_of(mode), one.numbers) for mode, one in known.items()}
    log = _read(opened, modes, reward, trials, propensity, top, missing, kind, clean, regions=regions)
    return replace(log, numeric=known) if known else log


def from_known(
    frame: Any,
    modes: Sequence[str],
    reward: str,
    *,
    trials: str | None = None,
    missing: Missing = "error",
    kind: RevenueKind | None = None,
    clean: Clean | None = None,
    regions: Mapping[str, tuple[Regions, Sequence[str]]] | None = None,
) -> Log:
    """Read a log whose levels a space has already: the same, but one mode, one level and plain times will do.

    ``regions`` are those of modes of numbers, each with the columns of its numbers.

    >>> import pyarrow as pa
    >>> from_known(pa.table({"offer": ["b", "b"], "clicks": [1, 0]}), ["offer"], "clicks")
    Log(offer: 1; 2 rewards in 1 of 1 cells, from 2 rows)
    """
    return _read(frame, modes, reward, trials, None, None, missing, kind, clean, known=True, regions=regions)


def _read(
    frame: Any,
    modes: Sequence[str],
    reward: str,
    trials: str | None,
    propensity: str | None,
    top: int | Mapping[str, int] | None,
    missing: Missing,
    kind: RevenueKind | None = None,
    clean: Clean | None = None,
    known: bool = False,
    regions: Mapping[str, tuple[Regions, Sequence[str]]] | None = None,
) -> Log:
    """Sum up a log in its engine."""
    check_installed("reading a log", "narwhals")
    from tensorbandits.data.source import make_source

    if kind not in (None, *get_args(RevenueKind)):
        raise ValueError(
            f"kind is {kind!r}; allowed are 'revenue' and 'revenue-signed': for other rewards leave it out"
        )
    if kind is not None and trials is not None:
        raise ValueError(
            f"both trials={trials!r} and revenue were asked for; successes out of trials say nothing of amounts: give "
            "a log with one row per decision and its amount, or 0, and leave out trials"
        )
    if regions:
        from tensorbandits.data.numbers import placed_frame

        frame = placed_frame(frame, regions)
    labels = {mode: one.labels for mode, (one, _) in (regions or {}).items()}
    source = make_source(frame, modes, reward, trials, propensity, known, kind, labels)
    fewest = 1 if known or propensity is not None else 2  # decisions of a log may all have been alike
    if missing not in get_args(Missing):
        raise ValueError(f"missing is {missing!r}; allowed are 'error' and 'drop'")
    wanted, steps = check_top(top, source.modes), check_clean(clean, [mode.name for mode in source.modes])
    groups = source.cells()
    numbers = groups.numbers
    if not numbers["rows"].sum():
        raise ValueError("the log is empty; give one with at least one row per level")
    rows, kept = int(numbers["rows"].sum()), np.where(groups.missing, 0.0, numbers["kept"])
    if missing == "error" and kept.sum() < rows:
        raise source.missing_row()
    _check_sums(source, groups, kept)
    counts = kept if trials is None else np.where(groups.missing, 0.0, numbers["trials"])
    found = [
        _levels(mode, keys, kept > 0, counts, wanted.get(mode.name), fewest, steps.get(mode.name, ()))
        for mode, keys in zip(source.modes, groups.keys, strict=True)
    ]
    lookups, levels = (tuple(part) for part in zip(*found, strict=True))
    squares, about = (numbers[name] if trials is None else numbers["total"] for name in ("square", "about"))
    idle = numbers.get("idle", np.zeros_like(kept))
    amounts = [numbers[name] for name in source.of_amounts]
    cells, sums = _gather(groups, lookups, counts, numbers["total"], squares, about, kept, idle, *amounts)
    options = (("top", top, None), ("missing", missing, "error"), ("kind", kind, None), ("clean", clean, None))
    dropped = {"missing value": int(rows - kept.sum()), "not in top": int(kept.sum() - sums[4].sum())}
    dropped["no trials"] = int(sums[5].sum())
    dropped = {reason: count for reason, count in dropped.items() if count}
    if not sums[0].any():
        why = ", ".join(f"{count:,}: {reason}" for reason, count in dropped.items())
        raise ValueError(f"no reward is left of the log's {rows:,} rows ({why}); keep more levels, or more trials")
    ledger = summed(tuple(map(len, levels)), cells, sums[:4], source.centre if trials is None else 0.0)
    return Log(
        space=Space(dict(zip((mode.name for mode in source.modes), levels, strict=True))),
        ledger=ledger if kind is None else _with_amounts(ledger, kind, cells, sums[6:]),
        reward=reward,
        trials=trials,
        propensity=propensity,
        rows=rows,
        dropped=dropped,
        options={name: value for name, value, usual in options if value != usual},
        _source=source,
        _lookups=lookups,
        _top=frozenset(wanted),
    )


def _with_amounts(ledger: Ledger, kind: RevenueKind, cells: Ints, sums: Floats) -> Ledger:
    """The ledger with conversions, and of amounts above 0 sums of logarithms and their squares, all by cell (n,)."""
    found = np.zeros((len(sums), len(ledger)))
    place = {tuple(cell): at for at, cell in enumerate(ledger.cells.tolist())}
    at = np.array([place.get(tuple(cell), -1) for cell in cells.tolist()], dtype=np.int64)
    for row, column in zip(found, sums, strict=True):
        np.add.at(row, at[at >= 0], column[at >= 0])
    made = Revenue(kind).ledger(ledger.shape)
    return made.of_parts(ledger, found[0], *(found[1:] if len(found) > 1 else (ledger.totals, ledger.squares)))


def _check_sums(source: Source, groups: Groups, kept: Floats) -> None:
    """Refuse a log whose sums show that some row cannot be used."""
    if not kept.sum():
        raise ValueError(
            f"each of the log's {int(groups.numbers['rows'].sum()):,} rows lacks a value in "
            f"{', '.join(repr(mode.column) for mode in source.modes)}, {source.reward!r}"
            f"{f' or {(source.trials or source.propensity)!r}' if source.trials or source.propensity else ''}, so that "
            "none is left; check the columns"
        )
    fine = np.isfinite([groups.numbers[name] for name in ("total", "trials") if name in groups.numbers]).all(axis=0)
    fine &= groups.numbers["wrong"] == 0
    if not fine[kept > 0].all():
        raise source.wrong_row()


def _levels(
    mode: Mode,
    keys: list[Any],
    kept: NDArray[np.bool_],
    counts: Floats,
    top: int | None,
    fewest: int,
    steps: Sequence[Step] = (),
) -> tuple[dict[Any, int], tuple[Label, ...]]:
    """Return the indices of a mode's keys, in natural order, and their labels; the ``top`` ones if that is given."""
    found: dict[Any, Any] = {}  # what keys are after cleaning
    rewards: dict[Any, float] = {}
    for key, keep, count in zip(keys, pieces.rows(kept), pieces.rows(counts), strict=True):
        if keep:
            if (name := found.get(key)) is None:
                name = found[key] = applied(key, steps) if steps and not mode.wide else key
            rewards[name] = rewards.get(name, 0.0) + count
    chosen = sorted(rewards, key=mode.position)
    if top is not None:
        chosen = sorted(sorted(chosen, key=lambda name: -rewards[name])[:top], key=mode.position)
    if len(chosen) < fewest:
        raise ValueError(
            f"mode {mode.name!r} has one level only, {mode.label(chosen[0])!r}, so that there is nothing to decide; "
            "leave the mode out, or give a log with other levels too"
        )
    index = {name: i for i, name in enumerate(chosen)}
    lookup = {key: index[name] for key, name in found.items() if name in index}
    return lookup, tuple(mode.label(name) for name in chosen)


def _placed(groups: Groups, lookups: Sequence[dict[Any, int]]) -> Ints:
    """Return the cells (n, d) of groups, with -1 for keys that are missing or not kept."""
    cells = np.empty((len(groups.missing), len(lookups)), dtype=np.int64)
    for j, lookup in enumerate(lookups):
        found = (
            -1 if gone else lookup.get(key, -1)
            for key, gone in zip(groups.keys[j], pieces.rows(groups.missing), strict=True)
        )
        cells[:, j] = np.fromiter(found, np.int64, len(cells))
    return cells


def _gather(groups: Groups, lookups: Sequence[dict[Any, int]], *numbers: Floats) -> tuple[Ints, Floats]:
    """Return the cells (n, d) of groups whose keys are all kept, sorted, and their numbers (k, n)."""
    cells, stacked = _placed(groups, lookups), np.array(numbers)
    use = (cells >= 0).all(axis=1)
    cells, stacked = cells[use], stacked[:, use]
    order = np.lexsort((stacked[0], *cells.T[::-1]))
    return cells[order], stacked[:, order]

"""The ledger: what every estimator needs of the history, and nothing more.

Per *observed* cell it holds the count ``N``, the sum of rewards ``Y`` and the sum of squares ``Q``; and once more the
sum of squares ``E`` about the cell's first reward ``a``, since ``Q - Y^2 / N`` loses all digits when rewards are far
from 0. Its size grows with the distinct cells seen, not with the rounds played nor with the size of the space.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbandits.base import codec, pieces
from tensorbandits.base.checks import (
    LARGEST_REWARD,
    Cell,
    check_array,
    check_at_least,
    check_cell,
    check_cells,
    check_clicks,
    check_count,
    check_level,
    check_reward,
    check_rewards,
    check_shape,
    check_weight,
)

_DENSE_LIMIT = 10**8
_ROOM = 16  # cells that a new ledger has room for
_SORT_AT_ONCE = 64  # this many new cells are sorted with all the rest rather than put in one by one
_FEW = 8  # one by one, so many times fewer cells are found sooner than all are sorted
_NEGLIGIBLE = 1e-12  # a count that is this small fades no further, so that it can still be divided by
_MOST_IN_ALL = 1e18  # rewards of one cell
_ROUNDING, _EPSILON = 1e-9, 1e-14  # of a sum of squares about a reward, and of a plain sum, in their own sizes
_LOST = 1e-14  # share of a square that is lost when it is added and taken off again, for each reward
_KNOWN = 1.001  # times what a cell counts for, which a reward that is known to have been told may by rounding
_FADED = 1e-90  # a weight of which next to nothing is left, and nobody can say how little
_NEAR = 1e-3  # share of a sum of squares that matters
_REBASE = 64  # after this many fadings the first rewards have lost their weight, and sums move to the present means
_VERSION = 2  # of a saved ledger
_N, _Y, _Q, _E, _A = range(5)  # rows of the sums


class Entry(NamedTuple):
    """One observed cell: its levels, its number of rewards, their sum, and their sum of squares."""

    cell: Cell
    rounds: float
    total: float
    squares: float


class Repeats(NamedTuple):
    """What repeated rewards of the same cells say of the noise: a sum of squares, and its degrees of freedom."""

    squares: float
    freedom: float


def by_sizes(shape: Cell) -> Cell:
    """Return the modes of a shape, that with the fewest levels first; of equal ones the first.

    >>> by_sizes((10, 6, 60, 6))
    (1, 3, 0, 2)
    """
    return tuple(sorted(range(len(shape)), key=lambda mode: shape[mode]))


class _Sorting:
    """The order of cells by their levels, some mode first, kept as cells come."""

    def __init__(self, modes: Cell, order: NDArray[np.int64] | None = None) -> None:
        self.modes = modes  # by which they are sorted, the first one first
        self._at = np.zeros(_ROOM, dtype=np.int64) if order is None else order  # positions of the cells, sorted
        self._count = 0 if order is None else len(order)  # cells that are among them
        self._cells: list[Cell] | None = None  # and they themselves, once one is to be put among them

    def of(self, cells: NDArray[np.int64], n: int) -> NDArray[np.int64]:
        """Return the positions of the first ``n`` cells (n or more, d), sorted; a view."""
        known, modes = self._count, list(self.modes)
        if n - known > _SORT_AT_ONCE:
            self._at, self._cells = np.lexsort(cells[:n, modes[::-1]].T).astype(np.int64), None
        elif n > known:
            if self._cells is None:
                self._cells = [tuple(cell) for cell in pieces.rows(cells[self._at[:known]][:, modes])]
            if n > len(self._at):
                self._at = np.concatenate([self._at[:known], np.zeros(len(cells), dtype=np.int64)])
            for position in range(known, n):
                cell = tuple(cells[position, modes].tolist())
                at = bisect.bisect(self._cells, cell)
                self._cells.insert(at, cell)
                self._at[at + 1 : position + 1] = self._at[at:position]
                self._at[at] = position
        self._count = n
        return self._at[:n]

    def copy(self) -> _Sorting:
        """Return an independent copy."""
        return _Sorting(self.modes, self._at[: self._count].copy())


class Ledger:
    """Counts, sums and sums of squares of rewards per observed cell.

    Parameters
    ----------
    shape : the number of levels of each mode, any order ``d >= 1``. A space of 10^12 cells costs nothing by itself.

    >>> ledger = Ledger((3, 4))
    >>> ledger.add((0, 1), 2.0)
    >>> ledger.add([(0, 1), (2, 3)], [4.0, 1.0])
    >>> len(ledger), ledger.rounds, ledger[0, 1].total
    (2, 3.0, 6.0)
    """

    kind: ClassVar[str] = ""  # of a ledger that keeps more than these sums
    _kinds: ClassVar[dict[str, type[Ledger]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "kind" in vars(cls):
            Ledger._kinds[cls.kind] = cls

    def __init__(self, shape: Sequence[int]) -> None:
        self.shape: Cell = check_shape(shape)
        self._size = 0  # observed cells
        self._known: dict[Cell, int] | None = {}  # their positions; None until they are asked for
        self._cells = np.zeros((_ROOM, len(self.shape)), dtype=np.int64)
        self._sums = np.zeros((5, _ROOM))  # rows: N, Y, Q, E, a
        self._rounds = 0.0
        self._received = 0.0
        self._version = 0
        self._fadings = 0
        self._log_faded = 0.0
        self._by_levels = _Sorting(tuple(range(len(self.shape))))
        self._by_sizes = self._by_levels  # or another, once it is asked for ..
        self._sized: Cell = ()  # .. and the shape that it is for
        self._within: tuple[int, NDArray[np.float64]] = (-1, np.zeros(0))  # of a version

    def empty(self, shape: Sequence[int] | None = None) -> Self:
        """Return a ledger of the same kind that holds nothing, of the same shape or another.

        >>> Ledger((2, 3)).empty()
        Ledger(shape=(2, 3), cells=0, rounds=0)
        """
        return type(self)(self.shape if shape is None else shape)

    def add(self, cells: ArrayLike, rewards: ArrayLike, trials: ArrayLike | None = None) -> None:
        """Add one observation (a cell and a number) or many (an (n, d) array and n numbers).

        With ``trials``, an observation is so many rewards that are 0 or 1, of which as many are 1 as ``rewards`` says.
        Takes amortised constant time per observation. Many at once give the same numbers as one by one.

        >>> ledger = Ledger((2, 3)); ledger.add((0, 1), 3, trials=1000)
        >>> ledger[0, 1].rounds, ledger[0, 1].total, ledger.means.tolist()
        (1000.0, 3.0, [0.003])
        """
        if trials is not None:
            given: list[Any] = [cells, rewards, trials]
            if np.ndim(trials) == 0 and np.ndim(rewards) == 0:
                given = [[one] for one in given]
            array = check_cells(given[0], self.shape)
            clicks, counts = check_clicks(given[1], given[2], len(array))
            for cell, ones, count in zip(*map(pieces.rows, (array, clicks, counts)), strict=True):
                self.record_trials(tuple(cell), ones, count)
            return
        if not hasattr(rewards, "__len__") or np.ndim(np.asarray(rewards, dtype=object)) == 0:
            self.record(check_cell(cells, self.shape), check_reward(rewards))  # type: ignore[arg-type]
            return
        array = check_cells(cells, self.shape)
        values = check_rewards(rewards, len(array))
        at = self._located(map(tuple, pieces.rows(array)), values)
        deviations = values - self._sums[_A, at]
        for row, terms in ((_N, 1.0), (_Y, values), (_Q, values * values), (_E, deviations * deviations)):
            np.add.at(self._sums[row], at, terms)
        self._rounds += len(values)
        self._received += len(values)
        self._version += len(values)

    def record(self, cell: Cell, reward: float) -> None:
        """Add one observation that was checked already: a tuple of ints within the shape, and a finite float."""
        at = self._locate(cell, reward)
        sums = self._sums
        deviation = reward - sums.item(_A, at)
        sums[_N, at] += 1.0
        sums[_Y, at] += reward
        sums[_Q, at] += reward * reward
        sums[_E, at] += deviation * deviation
        self._rounds += 1.0
        self._received += 1.0
        self._version += 1

    def record_trials(self, cell: Cell, clicks: float, trials: float) -> None:
        """Add many observations of a cell that are 0 or 1, checked already: how many are 1, and how many there are."""
        at = self._locate(cell, float(clicks == trials))
        first = self._sums.item(_A, at)
        about = clicks * (1.0 - first) ** 2 + (trials - clicks) * first**2
        self._sums[:_A, at] += trials, clicks, clicks, about
        self._rounds += trials
        self._received += trials
        self._version += 1

    def replace(self, cell: Sequence[int], old: float, new: float, weight: float = 1.0, *, known: bool = False) -> None:
        """Put another reward in the place of one that was told: sums and squares change, counts do not.

        ``weight`` is what the reward still counts for, if it has faded. A cell that holds no such reward of such a
        weight, as far as its sums tell, is refused. Of one that is ``known`` to have been told only the weight is held
        against it: beside far larger rewards rounding may have left sums that could not have it.

        >>> ledger = Ledger((2, 3)); ledger.add([(0, 1), (0, 1)], [0.0, 2.0])
        >>> ledger.replace((0, 1), 0.0, 4.0)
        >>> ledger[0, 1]
        Entry(cell=(0, 1), rounds=2.0, total=6.0, squares=20.0)
        >>> ledger.fade(0.5); ledger.replace((0, 1), 4.0, 8.0, weight=0.5)
        >>> ledger[0, 1]
        Entry(cell=(0, 1), rounds=1.0, total=5.0, squares=34.0)
        """
        check_weight(weight)
        key, before, after = check_cell(cell, self.shape), check_reward(old, "the old reward"), check_reward(new)
        at = self._position().get(key)
        N, Y, Q, E, a = self._sums[:, at].tolist() if at is not None else (0.0,) * 5
        if known and N < weight <= max(_KNOWN * N, _FADED):
            weight = N
        Y, Q = Y + weight * (after - before), Q + weight * (after * after - before * before)
        about = (before - a) ** 2
        E = E + weight * ((after - a) ** 2 - about)
        # Sums of squares about the mean are never below 0, and 0 for one reward, as far as rounding lets them.
        slack = _ROUNDING * N * (abs(E) + about) + _EPSILON * abs(Y) * (abs(Y - a * N) + _EPSILON * abs(Y))
        spread = N * E - (Y - a * N) ** 2
        alone = abs(N - weight) <= _ROUNDING * weight
        fits = spread >= -slack and (not alone or spread <= slack)
        if known and alone and not fits:
            Y, Q, E, a, spread = N * after, N * after * after, 0.0, after, 0.0
        if at is None or (weight > N and not alone) or not (fits or known):
            still = "in full" if weight == 1.0 else f"for {weight:.4g}"
            raise ValueError(
                f"cell {key} holds no reward of {before:g} that still counts {still}; replace a reward that was told, "
                "and give the weight that fading has left of it"
            )
        within, mean = max(spread, 0.0) / N, Y / N
        if within < N * (a - mean) ** 2 * _NEAR:  # squares are about a reward that is gone, far from those to come
            E, a = within, mean
        error = _LOST * N * max(about, (self._sums[_A, at] - mean) ** 2)
        if within < error and error > (usual := self._usual(at, N)):
            E, Q, a = usual, usual + Y * mean, mean  # a large reward left no digits of the others
        self._sums[:, at] = N, Y, max(Q, Y * mean), max(E, 0.0), a  # rounding may take squares below those of the mean
        self._version += 1

    def _usual(self, at: int, count: float) -> float:
        """What squares of so many rewards about their mean add up to on average in the other cells."""
        freedom = np.maximum(np.delete(self.counts, at) - 1.0, 0.0).sum()
        return float(max(count - 1.0, 0.0) * np.delete(self.within, at).sum() / freedom) if freedom else 0.0

    def merge(self, other: Ledger) -> None:
        """Add all that another ledger of the same space holds.

        >>> a, b = Ledger((2, 2)), Ledger((2, 2))
        >>> a.add((0, 0), 1.0); b.add((0, 0), 2.0); b.add((1, 1), 3.0)
        >>> a.merge(b)
        >>> a[0, 0].total, len(a)
        (3.0, 2)
        """
        if not isinstance(other, Ledger):
            raise TypeError(f"{other!r} is no Ledger; give one of shape {self.shape}")
        if self.shape != other.shape:
            raise ValueError(f"ledgers of shapes {self.shape} and {other.shape} do not add; they must share one space")
        theirs = other._sums[:, : len(other)].copy()  # which may be our own
        at = self._joined(other.cells, theirs[_A])
        shift = theirs[_A] - self._sums[_A, at]
        theirs[_E] += shift * (2.0 * theirs[_Y] - theirs[_N] * (theirs[_A] + self._sums[_A, at]))
        np.maximum(theirs[_E], 0.0, out=theirs[_E])  # where rewards differ by rounding, the sum may
        self._sums[:_A, at] += theirs[:_A]
        self._rounds += other._rounds
        self._received += other._rounds
        self._version += 1

    def take_over(self, other: Ledger) -> None:
        """Hold what another ledger of the same space holds, and nothing else; cells keep their places.

        Of a cell that the other one lacks next to nothing is left: what a count may fade to.

        >>> ledger, other = Ledger((2, 2)), Ledger((2, 2))
        >>> ledger.add((0, 1), 5.0); other.add([(1, 1), (0, 1)], [1.0, 2.0])
        >>> ledger.take_over(other)
        >>> ledger == other, ledger.cells.tolist(), ledger.received
        (True, [[0, 1], [1, 1]], 3.0)
        """
        if self.shape != other.shape:
            raise ValueError(f"ledgers of shapes {self.shape} and {other.shape} cannot take each other's place")
        before = self._sums[:, : self._size].copy()
        left, mean = _NEGLIGIBLE, other.mean
        self._sums[:, : self._size] = np.array([[left], [left * mean], [left * mean * mean], [0.0], [mean]])
        theirs = other._sums[:, : len(other)].copy()
        at = self._joined(other.cells, theirs[_A])  # which may give the sums more room
        self._sums[:, at] = theirs
        change = self._sums[:, : self._size].copy()
        change[:, : before.shape[1]] -= before
        corrected = (change[_N] == 0.0) & (change[[_Y, _Q]] != 0.0).any(axis=0)
        self._received += float(np.abs(change[_N]).sum() + corrected.sum())  # so that chains have news to follow
        self._rounds = float(self.counts.sum())
        self._log_faded = min(self._log_faded, other._log_faded)
        self._version += 1

    def gained(self, later: Ledger) -> Ledger:
        """Return what a later ledger has more: rewards of cells that have more of them, where sums can say so.

        >>> ledger, later = Ledger((2, 2)), Ledger((2, 2))
        >>> ledger.add((0, 1), 5.0); later.add([(0, 1), (0, 1), (1, 1)], [5.0, 1.0, 2.0])
        >>> list(ledger.gained(later))
        [Entry(cell=(0, 1), rounds=1.0, total=1.0, squares=1.0), Entry(cell=(1, 1), rounds=1.0, total=2.0, squares=4.0)]
        """
        known = self.copy()
        known.take_over(later)
        n, cells = len(self), known.cells
        N, Y, Q = (sums.copy() for sums in (known.counts, known.totals, known.squares))
        for sums, before in ((N, self.counts), (Y, self.totals), (Q, self.squares)):
            sums[:n] -= before
        more = (N > 0.5) & (N * Q >= (1.0 - 1e-9) * Y * Y)
        return Ledger.of(self.shape, cells[more], N[more], Y[more], Q[more])

    def taken(self, other: Ledger) -> Ledger:
        """Return another ledger as one of this kind, or refuse one that does not say enough."""
        return other

    def fade(self, factor: float) -> None:
        """Let everything seen so far count ``factor`` times what it did, above 0 and at most 1.

        Called once a round it discounts the past: a reward of ``k`` rounds ago counts ``factor^k``. Takes time in
        proportion to the cells seen, some nanoseconds each.

        >>> ledger = Ledger((2,)); ledger.add((1,), 4.0); ledger.fade(0.5); ledger.add((1,), 1.0)
        >>> ledger[1,].rounds, ledger[1,].total, ledger.rounds
        (1.5, 3.0, 1.5)
        """
        check_weight(factor, "factor")
        n = self._size
        sums = self._sums[:_A, :n]
        self._fadings += 1
        if self._fadings % _REBASE == 0:
            self._sums[_E, :n], self._sums[_A, :n] = self.within, self.means
        np.multiply(sums, np.where(sums[_N] > _NEGLIGIBLE, float(factor), 1.0), out=sums)
        self._rounds = float(sums[_N].sum())
        self._log_faded += math.log(factor)
        self._version += 1

    def grow(self, mode: int, count: int = 1) -> None:
        """Give a mode more levels, after those that it has.

        >>> ledger = Ledger((2, 3)); ledger.grow(1); ledger.add((0, 3), 1.0); ledger.shape
        (2, 4)
        """
        at = check_level(mode, len(self.shape), "mode")
        shape = list(self.shape)
        shape[at] += check_count(count, "count")
        self.shape = check_shape(shape)
        self._version += 1

    def grow_to(self, shape: Cell) -> None:
        """Give modes more levels, so that there are as many as in a larger shape."""
        for mode, (new, old) in enumerate(zip(shape, self.shape, strict=True)):
            if new > old:
                self.grow(mode, new - old)

    def _locate(self, cell: Cell, first: float) -> int:
        """Return the position of a cell, making room for it at the end, about its first reward, if it is new."""
        known = self._position() if self._known is None else self._known
        at = known.get(cell)
        if at is None:
            at = self._size
            if at == len(self._cells):
                self._make_room(at + 1)
            self._cells[at] = cell
            self._sums[_A, at] = first
            known[cell] = at
            self._size += 1
        return at

    def _position(self) -> dict[Cell, int]:
        """Return where each cell is. Most ledgers of many cells are never asked: they are only added up and read."""
        if self._known is None:
            self._known = {tuple(cell): at for at, cell in enumerate(pieces.rows(self.cells))}
        return self._known

    def _make_room(self, count: int) -> None:
        """Have room for so many cells."""
        while count > len(self._cells):
            self._cells = np.concatenate([self._cells, np.zeros_like(self._cells)])
            self._sums = np.concatenate([self._sums, np.zeros_like(self._sums)], axis=1)

    def _located(self, cells: Iterable[Cell], firsts: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the positions of cells, of which several may be the same, making room for those that are new."""
        found = (self._locate(cell, first) for cell, first in zip(cells, pieces.rows(firsts), strict=True))
        return np.fromiter(found, np.int64, len(firsts))

    def _joined(self, cells: NDArray[np.int64], firsts: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the positions of cells (m, d), each of which is there once, making room for those that are new."""
        if len(cells) <= _SORT_AT_ONCE or (self._known is not None and _FEW * len(cells) < self._size):
            return self._located(map(tuple, pieces.rows(cells)), firsts)
        n, numbers = self._size, pieces.numbered(np.concatenate([self.cells, cells]))
        place = np.full(len(numbers), -1)
        place[numbers[:n]] = np.arange(n)
        at = place[numbers[n:]]
        new = at < 0
        self._size += int(new.sum())
        self._make_room(self._size)
        at[new] = np.arange(n, self._size)
        self._cells[n : self._size], self._sums[_A, n : self._size] = cells[new], firsts[new]
        if self._known is not None:
            self._known.update((tuple(cell), j) for j, cell in enumerate(pieces.rows(self._cells[n : self._size]), n))
        return at

    @property
    def version(self) -> int:
        """A number that is another one after every change."""
        return self._version

    @property
    def received(self) -> float:
        """The number of rewards ever taken in, however much they have faded since."""
        return self._received

    @property
    def log_faded(self) -> float:
        """The logarithm of all factors so far by which the past was faded."""
        return self._log_faded

    @property
    def cells(self) -> NDArray[np.int64]:
        """The observed cells in order of first sight, shape (n, d); a view, not to be written to."""
        return self._cells[: self._size]

    @property
    def counts(self) -> NDArray[np.float64]:
        """The number of rewards ``N`` per observed cell, shape (n,); a view. Fractions come from fading."""
        return self._sums[_N, : self._size]

    @property
    def totals(self) -> NDArray[np.float64]:
        """The sum of rewards ``Y`` per observed cell, shape (n,); a view."""
        return self._sums[_Y, : self._size]

    @property
    def squares(self) -> NDArray[np.float64]:
        """The sum of squared rewards ``Q`` per observed cell, shape (n,); a view."""
        return self._sums[_Q, : self._size]

    @property
    def means(self) -> NDArray[np.float64]:
        """The mean reward ``Y / N`` of each observed cell, shape (n,)."""
        return np.asarray(self.totals / self.counts)

    @property
    def within(self) -> NDArray[np.float64]:
        """The sum of squares of each observed cell's rewards about their mean, shape (n,)."""
        if self._within[0] != self._version:
            N, Y, _, E, a = self._sums[:, : self._size]
            self._within = (self._version, np.maximum(E - (Y - a * N) ** 2 / N, 0.0))
        return self._within[1]

    @property
    def table(self) -> NDArray[np.float64]:
        """``N, Y, Q, E, a`` as rows, shape (5, n or more), with room for more cells; for compiled code."""
        return self._sums

    @property
    def rounds(self) -> float:
        """The number of rewards seen, ``T``; after fading, what they still count for."""
        return self._rounds

    @property
    def order(self) -> NDArray[np.int64]:
        """The positions of the observed cells when sorted by their levels, first mode first, shape (n,); a view.

        >>> ledger = Ledger((3, 4)); ledger.add([(2, 1), (0, 3), (0, 2)], [1.0, 1.0, 1.0])
        >>> ledger.order.tolist()
        [2, 1, 0]
        """
        return self._by_levels.of(self._cells, self._size)

    @property
    def order_by_sizes(self) -> NDArray[np.int64]:
        """The same with the smallest mode first: so most cells share all levels but the last with the one before.

        >>> ledger = Ledger((4, 3)); ledger.add([(2, 1), (0, 2), (3, 0)], [1.0, 1.0, 1.0])
        >>> ledger.order_by_sizes.tolist()
        [2, 0, 1]
        """
        if self._sized != self.shape:
            modes, self._sized = by_sizes(self.shape), self.shape
            if self._by_sizes.modes != modes:
                self._by_sizes = self._by_levels if modes == self._by_levels.modes else _Sorting(modes)
        return self._by_sizes.of(self._cells, self._size)

    @property
    def mean(self) -> float:
        """The mean of all rewards seen; 0 when there are none."""
        return float(self.totals.sum() / self.rounds) if self._size else 0.0

    @property
    def variance(self) -> float:
        """The variance of all rewards seen about their mean; 0 when there are none."""
        if not self._size:
            return 0.0
        within = self.within.sum()
        between = (self.counts * (self.means - self.mean) ** 2).sum()
        return float((within + between) / self.rounds)

    def repeats(self) -> Repeats:
        """Return the sum of squares within cells and its degrees of freedom: rewards beyond each cell's first.

        >>> ledger = Ledger((2,)); ledger.add([(0,), (0,), (1,)], [1.0, 3.0, 7.0])
        >>> ledger.repeats()
        Repeats(squares=2.0, freedom=1.0)
        """
        return Repeats(float(self.within.sum()), float(np.maximum(self.counts - 1.0, 0.0).sum()))

    def __len__(self) -> int:
        return self._size

    def __contains__(self, cell: object) -> bool:
        try:
            return check_cell(cell, self.shape) in self._position()  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return False

    def __getitem__(self, cell: Sequence[int]) -> Entry:
        """The entry of one cell, with zeros when it was never observed."""
        key = check_cell(cell, self.shape)
        at = self._position().get(key)
        return Entry(key, 0.0, 0.0, 0.0) if at is None else Entry(key, *self._sums[:_E, at].tolist())

    def __iter__(self) -> Iterator[Entry]:
        for cell, sums in zip(pieces.rows(self.cells), pieces.rows(self._sums[:_E, : self._size].T), strict=True):
            yield Entry(tuple(cell), *sums)

    def __repr__(self) -> str:
        return f"Ledger(shape={self.shape}, cells={len(self)}, rounds={self.rounds:g})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ledger) and self.shape == other.shape and set(self) == set(other)

    __hash__ = None  # type: ignore[assignment]

    def part(self, cell: Cell) -> Self:
        """Return a ledger of the same shape with the rewards of one cell only.

        >>> ledger = Ledger((2, 3)); ledger.add([(0, 1), (1, 2)], [4.0, 1.0])
        >>> list(ledger.part((0, 1)))
        [Entry(cell=(0, 1), rounds=1.0, total=4.0, squares=16.0)]
        """
        part, at = self.empty(), self._position().get(cell)
        if at is not None:
            part._locate(cell, 0.0)
            part._sums[:, 0] = self._sums[:, at]
            part._rounds = part._received = self._sums.item(_N, at)
        return part

    def copy(self) -> Self:
        """Return an independent copy."""
        other = self.empty()
        for name in ("size", "rounds", "received", "version", "fadings", "log_faded"):
            setattr(other, f"_{name}", getattr(self, f"_{name}"))
        other._cells, other._sums, other._known = self._cells.copy(), self._sums.copy(), None
        other._by_levels = other._by_sizes = self._by_levels.copy()
        if self._by_sizes is not self._by_levels:
            other._by_sizes, other._sized = self._by_sizes.copy(), self._sized
        return other

    def __add__(self, other: Ledger) -> Self:
        """Merge two ledgers of the same space: counts, sums and squares add.

        >>> a, b = Ledger((2, 2)), Ledger((2, 2))
        >>> a.add((0, 0), 1.0); b.add((0, 0), 2.0); b.add((1, 1), 3.0)
        >>> (a + b)[0, 0].total, len(a + b)
        (3.0, 2)
        """
        if not isinstance(other, Ledger):
            return NotImplemented
        result = self.copy()
        result.merge(other)
        return result

    def dense(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return ``N, Y, Q`` as full arrays of the ledger's shape; refused above 10^8 cells.

        >>> ledger = Ledger((2, 2)); ledger.add((0, 1), 5.0)
        >>> ledger.dense()[1].tolist()
        [[0.0, 5.0], [0.0, 0.0]]
        """
        size = math.prod(self.shape)
        if size > _DENSE_LIMIT:
            raise ValueError(
                f"the space {self.shape} has {size:.3g} cells, too many for a full array (at most {_DENSE_LIMIT:.0e}); "
                "use .cells, .counts, .totals and .squares, which hold observed cells only"
            )
        result = np.zeros((3, *self.shape))
        result[(slice(None), *self.cells.T)] = self._sums[:_E, : len(self)]
        return result[0], result[1], result[2]

    @classmethod
    def of(
        cls,
        shape: Sequence[int],
        cells: ArrayLike,
        counts: ArrayLike,
        totals: ArrayLike,
        squares: ArrayLike,
        within: ArrayLike | None = None,
    ) -> Self:
        """Return the ledger of cells (n, d), each once, whose rewards are added up already: counts, sums, squares.

        ``within`` are the sums of squares about each cell's mean, where they are known. Worked out from the others,
        they are lost when the mean is far larger than the spread.

        >>> Ledger.of((2, 3), [(0, 1), (1, 2)], [2, 1], [3.0, 5.0], [5.0, 25.0])
        Ledger(shape=(2, 3), cells=2, rounds=3)
        """
        n = len(check_cells(cells, check_shape(shape)))
        named = {"counts": counts, "totals": totals, "squares": squares}
        N, Y, Q = (check_array(values, name, (n,)) for name, values in named.items())
        if not (N > 0).all():
            raise ValueError("counts that are not above 0 were given; leave out the cells that have no reward")
        E = np.maximum(Q - Y * (Y / N), 0.0) if within is None else check_array(within, "within", (n,))
        counters = {"log_faded": 0.0, "received": float(N.sum()), "fadings": 0, "version": 1}
        sums = np.array([N, Y, Q, E, Y / N])
        return cls.from_state({"shape": shape, "cells": cells, "sums": sums} | counters)

    def excerpt(self, shape: Sequence[int], names: Callable[[NDArray[np.int64]], NDArray[np.int64]]) -> Self:
        """Return the ledger of some cells under other names, over a shape: ``names`` maps cells (n, d) to those.

        A name with a level below 0 leaves a cell out.

        >>> ledger = Ledger((2,)); ledger.add([(0,), (1,)], [3.0, 5.0])
        >>> list(ledger.excerpt((4,), lambda cells: np.where(cells == 1, 3, -1)))
        [Entry(cell=(3,), rounds=1.0, total=5.0, squares=25.0)]
        """
        cells = names(self.cells)
        kept = (cells >= 0).all(axis=1)
        sums = (array[kept] for array in (self.counts, self.totals, self.squares, self.within))
        return self.of(shape, cells[kept], *sums)

    def standardised(self, centre: float, scale: float) -> Ledger:
        """Return the same rewards, each less ``centre`` and divided by ``scale``.

        >>> ledger = Ledger((2,)); ledger.add([(0,), (0,)], [3.0, 5.0])
        >>> ledger.standardised(3.0, 2.0)[0,]
        Entry(cell=(0,), rounds=2.0, total=1.0, squares=1.0)
        """
        totals, within = (self.totals - centre * self.counts) / scale, self.within / scale**2
        squares = within + totals * (totals / self.counts)
        return Ledger.of(self.shape, self.cells, self.counts, totals, squares, within)

    def state(self) -> dict[str, Any]:
        """Return the ledger as plain arrays and numbers: ``shape``, ``cells`` (n, d), ``sums`` (5, n), and counters."""
        n = len(self)
        return {
            "shape": np.array(self.shape),
            "cells": self._cells[:n].copy(),
            "sums": self._sums[:, :n].copy(),
            "rounds": self._rounds,
            "log_faded": self._log_faded,
            "received": self._received,
            "fadings": self._fadings,
            "version": self._version,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the ledger that :meth:`state` described."""
        parts = ("shape", "cells", "sums", "log_faded", "received", "fadings", "version")
        if not isinstance(state, Mapping) or (missing := [part for part in parts if part not in state]):
            lacks = f"lacks {missing}" if isinstance(state, Mapping) else f"is {state!r}"
            raise ValueError(f"the state of a ledger {lacks}; give what Ledger.state returned, whole")
        kind = Ledger._kinds.get(state.get("kind", ""), cls)
        if kind is not cls and issubclass(kind, cls):
            return kind.from_state(state)
        ledger = cls(np.asarray(state["shape"]).tolist())
        cells = check_cells(state["cells"], ledger.shape)
        sums = check_array(state["sums"], "a ledger's sums", (5, len(cells)))
        order = np.lexsort(cells.T[::-1]).astype(np.int64)
        if (cells[order[1:]] == cells[order[:-1]]).all(axis=1).any():
            raise ValueError("a ledger's state names a cell twice; merge such parts with + instead")
        N, Y, Q, E, a = sums
        if not ((N > 0) & (N <= _MOST_IN_ALL) & (E >= 0) & (N * Q >= (1 - 1e-6) * Y * Y)).all():
            raise ValueError(
                f"a ledger's state has counts that are not above 0 and at most {_MOST_IN_ALL:g}, or sums of squares "
                "that are smaller than those of the means"
            )
        if (np.maximum(np.abs(Y / N), np.abs(a)) > LARGEST_REWARD * (1 + 1e-9)).any():
            raise ValueError(f"a ledger's state has rewards larger than {LARGEST_REWARD:g}")
        ledger._make_room(len(cells))
        ledger._cells[: len(cells)], ledger._sums[:, : len(cells)] = cells, sums
        ledger._size, ledger._known = len(cells), None
        ledger._by_levels = ledger._by_sizes = _Sorting(ledger._by_levels.modes, order)
        whole = float(ledger.counts.sum())
        ledger._rounds = check_array(state.get("rounds", whole), "rounds", ()).item()  # states did not always have it
        if not abs(ledger._rounds - whole) <= _ROUNDING * whole:
            raise ValueError(
                f"a ledger's state says {ledger._rounds:g} rounds; its counts add up to {whole:g}: give what "
                "Ledger.state returned, whole"
            )
        ledger._log_faded = -check_at_least(-check_array(state["log_faded"], "log_faded", ()).item(), "-log_faded")
        ledger._received = check_at_least(check_array(state["received"], "received", ()).item(), "received")
        ledger._fadings, ledger._version = (check_count(state[name], name, 0) for name in ("fadings", "version"))
        return ledger

    def save(self, path: str | PathLike[str]) -> None:
        """Write the ledger to a file, whole or not at all."""
        codec.save(path, "ledger", _VERSION, self.state())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a ledger that :meth:`save` wrote."""
        saved = codec.load(path)
        if saved.kind != "ledger":
            raise ValueError(f"{path} is not a ledger but a {saved.kind!r}; give a file that Ledger.save wrote")
        if saved.version > _VERSION:
            raise ValueError(
                f"{path} is a ledger of version {saved.version}, written by a newer release; this one reads up to "
                f"{_VERSION}: upgrade tensorbandits"
            )
        return cls.from_state(saved.state)

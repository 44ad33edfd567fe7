"""The ledger of rewards that are mostly 0 and else an amount: beside their sums, how many are not 0, and how large.

What it keeps beyond a :class:`~tensorbandits.Ledger` are two of its kind over the same space: ``conversions``, where
each reward counts as 1 if it is not 0, and ``amounts``, where only those count, by their logarithms or, where amounts
may be negative, as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbandits.base.checks import Cell, check_array, check_cell, check_cells, check_reward, check_rewards
from tensorbandits.ledger import Ledger

_GONE = 1e-12  # what a cell counts for whose amounts were all taken back
_ALIKE = 1e-12  # share of a sum of squares that rounding may leave within a cell whose rewards are all the same
_ROUNDING = 1e-9  # of a count
_SLACK = 1e-3  # of a count that has faded and was corrected
_PARTS = ("conversions", "amounts")


class RevenueLedger(Ledger):
    """Counts, sums and sums of squares of rewards that are 0 or an amount above 0; and conversions and log-amounts.

    Parameters
    ----------
    shape : the number of levels of each mode.

    >>> ledger = RevenueLedger((2, 3))
    >>> ledger.add([(0, 1), (0, 1), (0, 1)], [0.0, 0.0, 20.0])
    >>> ledger[0, 1].total, ledger.conversions[0, 1].total, ledger.amounts[0, 1].rounds
    (20.0, 1.0, 1.0)
    """

    kind: ClassVar[str] = "revenue"
    signed: ClassVar[bool] = False

    def __init__(self, shape: Sequence[int]) -> None:
        super().__init__(shape)
        self.conversions = Ledger(self.shape)
        self.amounts = _Amounts(self.shape)

    def __repr__(self) -> str:
        sums = f"rounds={self.rounds:g}, conversions={self.amounts.rounds:g}"
        return f"{type(self).__name__}(shape={self.shape}, cells={len(self)}, {sums})"

    def __eq__(self, other: object) -> bool:
        """Sums of amounts are the same up to rounding, as logarithms are rounded."""
        if not isinstance(other, RevenueLedger) or self.signed != other.signed or not super().__eq__(other):
            return False
        return self.conversions == other.conversions and self.amounts.near(other.amounts)

    __hash__ = None

    @classmethod
    def size(cls, reward: float) -> float:
        """Return the size of an amount on the scale on which amounts are added up."""
        return math.log(reward)

    @classmethod
    def sizes(cls, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sizes of amounts."""
        return np.log(rewards)

    @classmethod
    def may_be(cls, rewards: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Say which finite numbers can be rewards."""
        return rewards >= 0.0

    @classmethod
    def of(cls, *sums: Any, **more: Any) -> Self:
        """Refuse sums that say nothing of conversions; use :meth:`of_sums`."""
        raise TypeError(f"sums of rewards say nothing of conversions and amounts; use {cls.__name__}.of_sums")

    @classmethod
    def of_sums(
        cls,
        shape: Sequence[int],
        cells: ArrayLike,
        counts: ArrayLike,
        conversions: ArrayLike,
        totals: ArrayLike,
        squares: ArrayLike,
        log_totals: ArrayLike | None = None,
        log_squares: ArrayLike | None = None,
    ) -> Self:
        """Return the ledger of cells (n, d), each once, whose rewards are added up already.

        ``counts`` are those of all rewards, ``conversions`` of those that are not 0; ``totals`` and ``squares`` add up
        rewards and their squares, ``log_totals`` and ``log_squares`` the logarithms of amounts and their squares.

        >>> logs = [np.log(5.0) + np.log(20.0)], [np.log(5.0) ** 2 + np.log(20.0) ** 2]
        >>> RevenueLedger.of_sums((2, 3), [(0, 1)], [100], [2], [25.0], [425.0], *logs)
        RevenueLedger(shape=(2, 3), cells=1, rounds=100, conversions=2)
        """
        plain = Ledger.of(shape, cells, counts, totals, squares)
        n, given = len(plain), [log_totals, log_squares]
        if cls.signed:
            if given != [None, None]:
                raise ValueError("amounts that may be negative have no logarithms; leave out log_totals, log_squares")
            sums = [plain.totals, plain.squares]
        else:
            if any(column is None for column in given):
                raise ValueError(
                    "give log_totals and log_squares: what the logarithms of amounts, and their squares, add up to"
                )
            sums = [check_array(c, name, (n,)) for c, name in zip(given, ("log_totals", "log_squares"), strict=True)]
            if not ((plain.totals >= 0) & (plain.squares <= plain.totals**2 * (1 + _ROUNDING))).all():
                raise ValueError("totals or squares that no amounts above 0 can have were given; check the columns")
        K = check_array(conversions, "conversions", (n,))
        if not ((K >= 0) & (plain.counts >= K) & ((K > 0) | (plain.squares == 0))).all():
            raise ValueError("conversions are rewards that are not 0: at least 0, and at most the counts, of each cell")
        if not ((K == 0) | (K * sums[1] >= (1 - 1e-6) * sums[0] ** 2)).all():
            raise ValueError("sums of squares are smaller than those of the means; check the columns")
        return cls.of_parts(plain, K, *sums)

    @classmethod
    def of_parts(
        cls, plain: Ledger, K: NDArray[np.float64], totals: NDArray[np.float64], squares: NDArray[np.float64]
    ) -> Self:
        """Return the ledger with the sums of a plain one, so many conversions (n,), and sums of their sizes (n,)."""
        made, some = cls(plain.shape), K > 0
        Ledger.merge(made, plain)
        made.conversions = Ledger.of(plain.shape, plain.cells, plain.counts, K, K)
        made.amounts = _Amounts.of(plain.shape, plain.cells[some], K[some], totals[some], squares[some])
        for part in (made, made.conversions, made.amounts):
            part._log_faded = plain.log_faded
        return made

    def add(self, cells: ArrayLike, rewards: ArrayLike, trials: ArrayLike | None = None) -> None:
        """Add one observation (a cell and a number) or many (an (n, d) array and n numbers).

        With ``trials``, an observation is so many rewards that are 0 or 1, of which as many are 1 as ``rewards`` says.
        """
        if trials is not None or not hasattr(rewards, "__len__") or np.ndim(np.asarray(rewards, dtype=object)) == 0:
            if trials is None:
                self._check(np.array([check_reward(rewards)]))
            super().add(cells, rewards, trials)  # one by one
            return
        array = check_cells(cells, self.shape)
        values = check_rewards(rewards, len(array))
        self._check(values)
        super().add(array, values)
        some = values != 0.0
        self.conversions.add(array, some.astype(np.float64))
        self.amounts.add(array[some], self.sizes(values[some]))

    def _check(self, values: NDArray[np.float64]) -> None:
        if not (fine := self.may_be(values)).all():
            row = int(np.flatnonzero(~fine)[0])
            raise ValueError(
                f"reward {row} is {values[row]:g}; revenue is 0 or an amount above 0: for amounts that may be negative "
                "use SignedRevenueLedger"
            )

    def record(self, cell: Cell, reward: float) -> None:
        """Add one observation that was checked already."""
        super().record(cell, reward)
        self.conversions.record(cell, float(reward != 0.0))
        if reward != 0.0:
            self.amounts.record(cell, self.size(reward))

    def record_trials(self, cell: Cell, clicks: float, trials: float) -> None:
        """Add many observations of a cell that are 0 or 1, checked already."""
        super().record_trials(cell, clicks, trials)
        self.conversions.record_trials(cell, clicks, trials)
        if clicks:
            self.amounts.gain(cell, self.size(1.0), clicks)

    def replace(self, cell: Sequence[int], old: float, new: float, weight: float = 1.0, *, known: bool = False) -> None:
        """Put another reward in the place of one that was told, in all sums; see :meth:`Ledger.replace`.

        >>> ledger = RevenueLedger((2,)); ledger.add([(0,), (0,)], [0.0, 2.0])
        >>> ledger.replace((0,), 0.0, 4.0)
        >>> ledger.conversions[0,].total, ledger.amounts.rounds
        (2.0, 2.0)
        """
        key = check_cell(cell, self.shape)
        self._check(np.array([check_reward(new)]))
        self.part(key)._replace(key, old, new, weight, known=known)  # which may refuse it
        self._replace(key, old, new, weight, known=known)

    def _replace(self, cell: Cell, old: float, new: float, weight: float, *, known: bool) -> None:
        super().replace(cell, old, new, weight, known=known)
        was, now = old != 0.0, new != 0.0
        try:
            if was and not self.may_be(np.array([old])).all():
                raise ValueError("no such reward can have been told")
            if was != now:
                self.conversions.replace(cell, float(was), float(now), weight, known=known)
            if was and now:
                self.amounts.replace(cell, self.size(old), self.size(new), weight, known=known)
            elif was:
                self.amounts.lose(cell, self.size(old), weight, known=known)
            elif now:
                self.amounts.gain(cell, self.size(new), weight)
        except ValueError:
            raise ValueError(
                f"cell {cell} holds no reward of {old:g} that still counts for {weight:.4g}; replace a reward that was "
                "told, and give the weight that fading has left of it"
            ) from None

    def taken(self, other: Ledger) -> RevenueLedger:
        """Return another ledger as one of this kind, or refuse one that does not say enough.

        Of a plain one conversions and amounts are known where all rewards of a cell are the same.
        """
        if isinstance(other, RevenueLedger) and (other.signed == self.signed or self.signed):
            return other if other.signed == self.signed else self._signed(other)
        if not self.says_enough(other.counts, other.totals, other.squares).all():
            raise ValueError(
                "the ledger has cells with several rewards that differ, of which it does not say how many are not 0, "
                f"nor how large each is; add them to a {type(self).__name__}, or make one with "
                f"{type(self).__name__}.of_sums"
            )
        means = other.means
        K = np.where(means != 0.0, other.counts, 0.0)
        sizes = np.zeros(len(means))
        sizes[means != 0.0] = self.sizes(means[means != 0.0])
        return self.of_parts(other, K, K * sizes, K * sizes**2)

    def _signed(self, other: RevenueLedger) -> Self:
        """Return what is known of amounts by their logarithms as sums of them: those of all rewards."""
        assert self.signed
        return self.of_parts(other, other.conversions.totals.copy(), other.totals, other.squares)

    @classmethod
    def says_enough(
        cls, counts: NDArray[np.float64], totals: NDArray[np.float64], squares: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Say of which cells (n,) the rewards are known by their sums: those where all are the same, and allowed."""
        alike = counts * squares - totals**2 <= _ALIKE * counts * squares
        return np.asarray(alike & cls.may_be(totals))

    def merge(self, other: Ledger) -> None:
        """Add all that another ledger of the same space holds, if it says enough."""
        if not isinstance(other, Ledger) or other.shape != self.shape:
            super().merge(other)  # which refuses it
        theirs = self.taken(other)
        super().merge(theirs)
        self.conversions.merge(theirs.conversions)
        self.amounts.merge(theirs.amounts)

    def take_over(self, other: Ledger) -> None:
        """Hold what another ledger of the same space holds, and nothing else, if it says enough."""
        theirs = self.taken(other)
        super().take_over(theirs)
        self.conversions.take_over(theirs.conversions)
        self.amounts.take_over(theirs.amounts)

    def gained(self, later: Ledger) -> RevenueLedger:
        """Return what a later ledger has more; see :meth:`Ledger.gained`."""
        theirs, made = self.taken(later), self.empty()
        Ledger.merge(made, _plain(self).gained(_plain(theirs)))
        rates = self.conversions.gained(theirs.conversions)
        possible = (rates.totals >= 0.0) & (rates.totals <= rates.counts)
        made.conversions = rates.excerpt(self.shape, lambda cells: np.where(possible[:, None], cells, -1))
        made.amounts.merge(self.amounts.gained(theirs.amounts))
        return made

    def fade(self, factor: float) -> None:
        """Let everything seen so far count ``factor`` times what it did."""
        super().fade(factor)
        self.conversions.fade(factor)
        self.amounts.fade(factor)

    def grow(self, mode: int, count: int = 1) -> None:
        """Give a mode more levels, after those that it has."""
        super().grow(mode, count)
        self.conversions.grow(mode, count)
        self.amounts.grow(mode, count)

    def part(self, cell: Cell) -> Self:
        """Return a ledger of the same shape with the rewards of one cell only."""
        part = super().part(cell)
        part.conversions, part.amounts = self.conversions.part(cell), self.amounts.part(cell)
        return part

    def copy(self) -> Self:
        """Return an independent copy."""
        other = super().copy()
        other.conversions, other.amounts = self.conversions.copy(), self.amounts.copy()
        return other

    def excerpt(self, shape: Sequence[int], names: Callable[[NDArray[np.int64]], NDArray[np.int64]]) -> Self:
        """Return the ledger of some cells under other names, over a shape."""
        made = self.empty(shape)
        Ledger.merge(made, _plain(self).excerpt(shape, names))
        made.conversions, made.amounts = self.conversions.excerpt(shape, names), self.amounts.excerpt(shape, names)
        return made

    def state(self) -> dict[str, Any]:
        """Return the ledger as plain arrays and numbers, with a state of each part."""
        return super().state() | {"kind": self.kind, **{name: getattr(self, name).state() for name in _PARTS}}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the ledger that :meth:`state` described."""
        if state.get("kind") != cls.kind or any(name not in state for name in _PARTS):
            raise ValueError(f"the state is not that of a {cls.__name__}; give what its state returned, whole")
        ledger = super().from_state(state)
        ledger.conversions = Ledger.from_state(state["conversions"])
        ledger.amounts = _Amounts.from_state(state["amounts"])
        ledger._check_parts()
        return ledger

    def _check_parts(self) -> None:
        rates, amounts = self.conversions, self.amounts
        same = rates.shape == amounts.shape == self.shape and np.array_equal(rates.cells, self.cells)
        same = same and np.allclose(rates.counts, self.counts, rtol=_SLACK)
        bought = {entry.cell: entry.total for entry in rates} if same else {}
        if not same or any(one.rounds > (1 + _SLACK) * bought.get(one.cell, -1.0) + _SLACK for one in amounts):
            raise ValueError("a ledger's conversions and amounts are not those of its rewards; give a whole state")


class SignedRevenueLedger(RevenueLedger):
    """The same for amounts that may be negative, such as returns: they are added up as they are.

    >>> ledger = SignedRevenueLedger((2, 3))
    >>> ledger.add([(0, 1), (0, 1), (0, 1)], [0.0, -5.0, 20.0])
    >>> ledger.conversions[0, 1].total, ledger.amounts[0, 1].total
    (2.0, 15.0)
    """

    kind: ClassVar[str] = "revenue-signed"
    signed: ClassVar[bool] = True

    @classmethod
    def size(cls, reward: float) -> float:
        """Return the amount."""
        return reward

    @classmethod
    def sizes(cls, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the amounts."""
        return rewards

    @classmethod
    def may_be(cls, rewards: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Take all numbers."""
        return np.ones(rewards.shape, dtype=bool)


class _Amounts(Ledger):
    """A ledger from which an observation can be taken again, or be added with a weight."""

    kind: ClassVar[str] = "amounts"

    def gain(self, cell: Cell, value: float, weight: float) -> None:
        """Add an observation that counts ``weight``."""
        at = self._locate(cell, value)
        off = value - self._sums.item(4, at)
        self._sums[:4, at] += weight, weight * value, weight * value * value, weight * off * off
        self._rounds += weight
        self._received += weight
        self._version += 1

    def lose(self, cell: Cell, value: float, weight: float, *, known: bool = False) -> None:
        """Take off an observation that counts ``weight``, or refuse to if there is none.

        A cell of which nothing is left keeps its place, at the mean of the others, and counts for next to nothing.
        """
        count, total = self[cell].rounds, self[cell].total
        rest = count - weight
        gone = rest <= max(_ROUNDING * weight, _GONE)
        others = [total / rounds for other, rounds, total, _ in self if other != cell and rounds > _GONE]
        mean = (float(np.mean(others)) if others else 0.0) if gone else (total - weight * value) / rest
        self.replace(cell, value, mean, weight, known=known)
        at = self._position()[cell]
        left, off = (_GONE if gone else rest), mean - self._sums.item(4, at)
        N, Y, Q, E, _ = self._sums[:, at].tolist()
        if gone:
            self._sums[:, at] = left, left * mean, left * mean * mean, 0.0, mean
        else:
            Y, E = Y - weight * mean, max(E - weight * off * off, 0.0)
            self._sums[:4, at] = left, Y, max(Q - weight * mean * mean, Y * (Y / left)), E
        self._rounds += left - N
        self._version += 1

    def near(self, other: Ledger) -> bool:
        """Say whether another ledger has the same sums, up to rounding, and cells that count for nothing aside."""
        mine, theirs = ({cell: sums for cell, *sums in one if sums[0] > 2 * _GONE} for one in (self, other))
        return mine.keys() == theirs.keys() and all(
            np.allclose(sums, theirs[cell], rtol=_ROUNDING, atol=_ROUNDING) for cell, sums in mine.items()
        )


def _plain(ledger: Ledger) -> Ledger:
    """Return a ledger with the sums of rewards alone."""
    return Ledger.from_state({name: part for name, part in Ledger.state(ledger).items() if name != "kind"})

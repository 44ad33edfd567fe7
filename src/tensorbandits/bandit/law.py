"""The distribution that a decision is drawn from, written down before it is drawn, so that its probability is exact.

With ``w`` the law of the policy, ``f`` the floors, ``b`` the baseline and ``h`` the share of the holdout, an arm has::

    p = h b + (1 - h) (f + (1 - sum f) w)

``w`` is uniform over the best arms of a ring of recent draws of the posterior. Ceilings move some of ``w`` from arms
that would get too much to the best of the others. A policy that does not sample draws by itself: one without chance has
``w = 1`` for its choice; of one with chance (elimination, epoch-greedy) no probability is known, and it is ``None``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorbandits.bandit.shares import Share, Shares
from tensorbandits.base.checks import Cell
from tensorbandits.model.sweep import Model
from tensorbandits.policies.approximate import ApproximateThompsonSampling, Draw, best_of
from tensorbandits.policies.base import Policy
from tensorbandits.policies.query import Query
from tensorbandits.tensor.allowed import Allowed
from tensorbandits.tensor.best import best_of_each

Partial = Mapping[int, int]

_COUNTED = 1_000_000  # arms that are counted one by one where combinations are forbidden
_TRIES = 100  # to meet an allowed arm, before all are listed
_OUTDATED = 2.0  # times as many rewards make all draws of the ring obsolete


class Group:
    """The allowed arms of a request that have some levels.

    >>> from tensorbandits import VectorizedUCB
    >>> group = Group.of(VectorizedUCB((2, 3), context=(0,)).query((1,), {1: [0, 2]}), {})
    >>> group.count, (1, 0) in group, (1, 1) in group, (0, 0) in group
    (2, True, False, False)
    """

    def __init__(self, query: Query, levels: list[Any]) -> None:
        self.query, self._levels = query, levels  # the levels of each mode: an int, or an array of those allowed
        self.count = math.prod(1 if isinstance(one, int) else len(one) for one in levels)
        if self._combined:
            if self.count > _COUNTED:
                raise ValueError(
                    f"a share of decisions is spread over {self.count:.3g} arms, some of which rules forbid by "
                    f"combination; at most {_COUNTED:,} can be counted: give the share to fewer arms"
                )
            self.count = len(self._arms())

    @classmethod
    def of(cls, query: Query, partial: Partial) -> Group | None:
        """Return the arms of a request that have some levels, or ``None`` if there are none."""
        masks = query.allowed.masks if query.allowed is not None else (None,) * len(query.shape)
        levels: list[Any] = []
        for j, (given, mask) in enumerate(zip(query.fixed.tolist(), masks, strict=True)):
            wanted = partial.get(j, given)
            if (0 <= given != wanted) or (wanted >= 0 and mask is not None and not mask[wanted]):
                return None
            free = np.arange(query.shape[j]) if mask is None else np.flatnonzero(mask)
            levels.append(int(wanted) if wanted >= 0 else free)
        group = cls(query, levels)
        return group if group.count else None

    @property
    def _combined(self) -> bool:
        return self.query.allowed is not None and self.query.allowed.combined

    def _arms(self) -> list[Cell]:
        assert self.query.allowed is not None
        axes = np.meshgrid(*([one] if isinstance(one, int) else one for one in self._levels), indexing="ij")
        cells = np.stack([axis.ravel() for axis in axes], axis=1).tolist()
        return [tuple(cell) for cell in cells if self.query.allowed.permits(tuple(cell))]

    def __contains__(self, cell: Cell) -> bool:
        """Say whether an allowed arm is one of the group."""
        pairs = zip(self._levels, cell, strict=True)
        return all(one == level if isinstance(one, int) else level in one for one, level in pairs) and (
            not self._combined or self.query.allowed is None or self.query.allowed.permits(cell)
        )

    def draw(self, rng: np.random.Generator) -> Cell:
        """Return one of the arms, each with the same probability."""
        for _ in range(_TRIES if self._combined else 1):
            cell = tuple(one if isinstance(one, int) else int(one[rng.integers(len(one))]) for one in self._levels)
            if not self._combined or (self.query.allowed is not None and self.query.allowed.permits(cell)):
                return cell
        arms = self._arms()
        return arms[int(rng.integers(len(arms)))]


class Spread:
    """Shares of the arms of one request: those of which no arm is allowed are left out."""

    def __init__(self, query: Query, shares: Sequence[Share], *, whole: bool = False) -> None:
        found = [(one.share, Group.of(query, one.levels), one.levels) for one in shares]
        self.parts = [(share, group, levels) for share, group, levels in found if group is not None and share > 0.0]
        self.total = math.fsum(share for share, _, _ in self.parts)
        if whole and self.parts:  # what is left out goes to the others
            self.parts = [(share / self.total, group, levels) for share, group, levels in self.parts]
            self.total = 1.0

    def probability(self, cell: Cell) -> float:
        """Return the share of an arm."""
        return math.fsum(share / group.count for share, group, _ in self.parts if cell in group)

    def of(self, query: Query, partial: Partial) -> float:
        """Return the share of all arms with some levels."""
        result = 0.0
        for share, group, levels in self.parts:
            if all(partial.get(mode, level) == level for mode, level in levels.items()):
                both = Group.of(query, {**partial, **levels})
                result += share * (both.count if both else 0) / group.count
        return result

    def draw(self, rng: np.random.Generator) -> Cell:
        """Return an arm, drawn by the shares."""
        at = rng.random() * self.total
        for share, group, _ in self.parts[:-1]:
            at -= share
            if at < 0.0:
                return group.draw(rng)
        return self.parts[-1][1].draw(rng)


class Ring:
    """The last draws of a policy that samples, each with a number of its own.

    >>> from tensorbandits import TensorThompsonSampling
    >>> ring = Ring(4)
    >>> policy = TensorThompsonSampling((3, 4), rank=1, seed=0)
    >>> ring.take(ring.fresh(policy), (3, 4)); [number for number, _ in ring.draws]
    [0, 1, 2, 3]
    >>> ring.take(ring.fresh(policy), (3, 4)); [number for number, _ in ring.draws]
    [1, 2, 3, 4]
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.draws: list[tuple[int, Draw]] = []
        # The cores and rows of draws that are models, by rank, each in a line of its own, to be searched in one call.
        self._packed: dict[Cell, tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]] = {}
        self._alike: tuple[Cell | None, int] = None, 0  # the rank of the newest draws, if models, and how many have it
        self._lines = np.arange(2 * size) % size  # so that lines that follow each other are a slice, wherever it begins
        self._next = 0
        self._shape: Cell = ()
        self._received = 0.0  # rewards that the last draw knows of

    def fresh(self, policy: ApproximateThompsonSampling, *, least: int = 1) -> list[Draw]:
        """Have the policy learn, unless another thread does, and return its new draws: as many as the ring needs."""
        received = policy.ledger.received
        old = received > _OUTDATED * self._received + self.size
        missing = self.size if old else max(self.size - len(self.draws), min(least, self.size))
        found = policy.fresh_draws(missing, wait=not self.draws)
        if found:
            self._received = received
        return found

    @property
    def last(self) -> int:
        """The number of the newest draw."""
        return self._next - 1

    def take(self, fresh: Sequence[Draw], shape: Cell) -> None:
        """Take in new draws, in the place of the oldest; draws of another shape are left behind."""
        if shape != self._shape:
            self.draws, self._packed, self._alike, self._shape = [], {}, (None, 0), shape
        for draw in fresh:
            if draw.shape != shape:
                continue
            self.draws.append((self._next, draw))
            if type(draw) is Model:
                self._pack(self._next, draw)
            else:  # which has a search of its own
                self._alike = None, 0
            self._next += 1
        del self.draws[: -self.size]

    def _pack(self, number: int, draw: Model) -> None:
        rank = draw.rank
        if rank not in self._packed:
            empty = np.empty((self.size, draw.core.size)), np.empty((self.size, draw.rows.size))
            self._packed[rank] = *empty, draw.dims
        cores, rows, _ = self._packed[rank]
        at = number % self.size
        cores[at], rows[at] = draw.core, draw.rows
        before, alike = self._alike
        self._alike = rank, alike + 1 if rank == before else 1

    def best(self, count: int, query: Query) -> list[Cell]:
        """Return the best allowed cells of the newest draws; of models of one rank, where all is allowed, in one call.

        They are in the order of the draws, the oldest first.
        """
        draws = self.draws[-count:]
        if query.allowed is not None:
            return [best_of(draw, query) for _, draw in draws]
        rank, alike = self._alike
        if rank is not None and count <= alike:
            first = draws[0][0] % self.size
            return self._best_alike(rank, self._lines[first : first + count], query)
        found = {number: best_of(draw, query) for number, draw in draws if type(draw) is not Model}
        groups: dict[Cell, list[int]] = {}
        for number, draw in draws:
            if type(draw) is Model:
                groups.setdefault(draw.rank, []).append(number)
        for rank, numbers in groups.items():
            found.update(zip(numbers, self._best_alike(rank, np.array(numbers) % self.size, query), strict=True))
        return [found[number] for number, _ in draws]

    def _best_alike(self, rank: Cell, lines: NDArray[np.int64], query: Query) -> list[Cell]:
        cores, rows, dims = self._packed[rank]
        return best_of_each(cores, rows, lines, dims, query.fixed)


class Drawn(NamedTuple):
    """What was drawn: the cell, its probability if that is known, by what, and the policy's note."""

    cell: Cell
    propensity: float | None
    by: str
    note: Any = None


class Request:
    """A request that may come again: what can be kept of it between decisions."""

    def __init__(self, query: Query, shares: Shares) -> None:
        self.query, self._shares = query, shares
        self.floors = Spread(query, shares.floors)
        self.baseline = Spread(query, shares.baseline if shares.holdout else (), whole=True)
        self.holdout = shares.holdout if self.baseline.parts else 0.0
        self._best: list[Cell] = []  # of each draw of the ring
        self._kept: dict[Cell, float] = {}
        self._law_of = -1  # the last draw of the ring when that was worked out
        self._others: dict[int, Cell | None] = {}  # best arms under no ceiling
        self._under: Query | None = None

    def draw(self, ring: Ring, rng: np.random.Generator) -> Drawn:
        """Draw from the ring, the floors and the baseline."""
        law = self._law(ring)
        by = self._by(rng)
        cell = self._pick(law, rng) if by == "policy" else self._spread(by).draw(rng)
        return Drawn(cell, self._mixed(cell, law.get(cell, 0.0)), by)

    def probability(self, ring: Ring, cell: Cell) -> float:
        """Return the probability that :meth:`draw` has for an arm."""
        return self._mixed(cell, self._law(ring).get(cell, 0.0))

    def ask(self, policy: Policy, rng: np.random.Generator) -> Drawn:
        """Draw from the floors and the baseline, or else have a policy choose by itself."""
        by = self._by(rng)
        choice = policy.choose(self.query) if by == "policy" or policy.deterministic else None
        if by == "policy":
            assert choice is not None
            cell, note = choice
        else:
            cell, note = self._spread(by).draw(rng), None
        known = None if choice is None or not policy.deterministic else self._mixed(cell, float(cell == choice.cell))
        return Drawn(cell, known, by, note)

    def _by(self, rng: np.random.Generator) -> str:
        if self.holdout and rng.random() < self.holdout:
            return "holdout"
        return "floor" if self.floors.parts and rng.random() < self.floors.total else "policy"

    def _spread(self, by: str) -> Spread:
        return self.baseline if by == "holdout" else self.floors

    def _mixed(self, cell: Cell, w: float) -> float:
        """The probability of an arm, of which the policy's is given."""
        p = (1.0 - self.floors.total) * w
        if self.floors.parts:
            p += self.floors.probability(cell)
        return p if not self.holdout else self.holdout * self.baseline.probability(cell) + (1.0 - self.holdout) * p

    def _law(self, ring: Ring) -> dict[Cell, float]:
        """The policy's probability of each arm that has one; worked out anew when there are new draws."""
        draws = len(ring.draws)
        new = min(ring.last - self._law_of, draws)
        if not new:
            return self._kept
        self._best = [*self._best, *ring.best(new, self.query)][-draws:]
        law: dict[Cell, float] = {}
        each = 1.0 / draws
        for cell in self._best:
            law[cell] = law.get(cell, 0.0) + each
        self._kept, self._law_of = self._lowered(law, ring) if self._shares.ceilings else law, ring.last
        return self._kept

    def _lowered(self, law: dict[Cell, float], ring: Ring) -> dict[Cell, float]:
        """The law with what arms have above a ceiling given to the best arms under none."""
        keep = {cell: 1.0 for cell in law}
        for levels, ceiling in self._shares.ceilings:
            inside = [cell for cell in law if all(cell[mode] == level for mode, level in levels.items())]
            mass = math.fsum(law[cell] for cell in inside)
            room = (self._room(levels, ceiling) / mass) if mass else 1.0
            keep.update({cell: min(keep[cell], room) for cell in inside})
        if min(keep.values()) >= 1.0:
            return law
        others = self._elsewhere(ring)
        lowered: dict[Cell, float] = {}
        each = 1.0 / len(ring.draws)
        for (number, _), cell in zip(ring.draws, self._best, strict=True):
            other = others[number]
            kept = keep[cell] if other is not None else 1.0
            lowered[cell] = lowered.get(cell, 0.0) + each * kept
            if other is not None and kept < 1.0:
                lowered[other] = lowered.get(other, 0.0) + each * (1.0 - kept)
        return lowered

    def _room(self, levels: Partial, ceiling: float) -> float:
        """How much of the policy's own law may go to some arms, beside what floors and baseline give them."""
        left = ceiling - (self.holdout * self.baseline.of(self.query, levels) if self.holdout else 0.0)
        left = left / (1.0 - self.holdout) - self.floors.of(self.query, levels)
        return max(left, 0.0) / max(1.0 - self.floors.total, 1e-300)

    def _elsewhere(self, ring: Ring) -> dict[int, Cell | None]:
        """The best arm of each draw among those under no ceiling; ``None`` where there is none."""
        if self._under is None:
            forbidden = Allowed(forbidden=[one.levels for one in self._shares.ceilings])
            try:
                self._under = self.query._replace(allowed=Allowed.of(forbidden, self.query.shape, self.query.allowed))
            except ValueError:
                self._under = self.query
        self._others = {
            n: self._others[n] if n in self._others else self._best_under(draw, self._under) for n, draw in ring.draws
        }
        return self._others

    def _best_under(self, draw: Draw, query: Query) -> Cell | None:
        if query is self.query:
            return None
        try:
            return best_of(draw, query)
        except ValueError:
            return None

    def _pick(self, law: dict[Cell, float], rng: np.random.Generator) -> Cell:
        at = rng.random() * math.fsum(law.values())
        for cell, share in law.items():
            at -= share
            if at < 0.0:
                return cell
        return next(reversed(law))

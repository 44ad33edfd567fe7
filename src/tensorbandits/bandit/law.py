"""The distribution that a decision is drawn from, written down before it is drawn, so that its probability is exact.

With ``w`` the law of the policy, ``f`` the floors, ``b`` the baseline and ``h`` the share of the holdout, an arm has::

    p = h b + (1 - h) (f + (1 - sum f) w)

``w`` is uniform over the best arms of a ring of recent draws of the posterior. Ceilings move some of ``w`` from arms
that would get too much to the best of the others. While a bandit is paused, ``h`` is 1. A policy that does not sample
draws by itself: one without chance has ``w = 1`` for its choice; of one with chance (elimination, epoch-greedy) no
probability is known, and it is ``None``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorbandits.bandit.commands import Drawn
from tensorbandits.bandit.draws import Draws
from tensorbandits.bandit.shares import Share, Shares
from tensorbandits.bandit.visitors import Place
from tensorbandits.base.checks import Cell
from tensorbandits.policies.approximate import Draw, best_of
from tensorbandits.policies.base import Policy
from tensorbandits.policies.query import Query
from tensorbandits.tensor.allowed import Allowed

Partial = Mapping[int, int]

_COUNTED = 1_000_000  # arms that are counted one by one where combinations are forbidden
_MASKED = 4_000_000  # cells of a mask, in bytes; where more are free, those of a group are looked at one by one
_TRIES = 100  # to meet an allowed arm, before all are listed


class Group:
    """The allowed arms of a request that have some levels.

    >>> from tensorbandits import VectorizedUCB
    >>> group = Group.of(VectorizedUCB((2, 3), context=(0,)).query((1,), {1: [0, 2]}), {})
    >>> group.count, (1, 0) in group, (1, 1) in group, (0, 0) in group
    (2, True, False, False)
    """

    def __init__(self, query: Query, levels: list[Any]) -> None:
        self.query, self._levels = query, levels  # the levels of each mode: an int, or an array of those allowed
        self._listed: list[Cell] | None = None  # of combined ones, when it is first needed
        self.count = math.prod(1 if isinstance(one, int) else len(one) for one in levels)
        if self.combined:
            if self.count > _COUNTED:
                raise ValueError(
                    f"a share of decisions is spread over {self.count:.3g} arms, some of which rules forbid by "
                    f"combination; at most {_COUNTED:,} can be counted: give the share to fewer arms"
                )
            self.count = int(self._permitted().sum())

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
    def combined(self) -> bool:
        """Whether rules forbid some of the arms by combination, so that they have to be listed to be numbered."""
        return self.query.allowed is not None and self.query.allowed.combined

    def _arms(self) -> list[Cell]:
        return list(map(tuple, self._cells()[self._permitted()].tolist()))

    def _cells(self) -> NDArray[np.int64]:
        """All cells of these levels, shape (n, d), whether they are allowed or not."""
        axes = np.meshgrid(*([one] if isinstance(one, int) else one for one in self._levels), indexing="ij")
        return np.stack([axis.ravel() for axis in axes], axis=1)

    def _permitted(self) -> NDArray[np.bool_]:
        """Which of all cells of these levels are allowed, shape (n,)."""
        allowed, shape = self.query.allowed, self.query.shape
        assert allowed is not None
        fixed = {mode: one for mode, one in enumerate(self._levels) if isinstance(one, int)}
        if math.prod(size for mode, size in enumerate(shape) if mode not in fixed) > _MASKED:
            return np.array([allowed.permits(tuple(cell)) for cell in self._cells().tolist()], dtype=bool)
        free = [one for one in self._levels if not isinstance(one, int)]
        mask = allowed.mask(shape, fixed)
        return np.asarray(mask[np.ix_(*free)] if free else mask).reshape(-1)

    def __contains__(self, cell: Cell) -> bool:
        """Say whether an allowed arm is one of the group."""
        pairs = zip(self._levels, cell, strict=True)
        return all(one == level if isinstance(one, int) else level in one for one, level in pairs) and (
            not self.combined or self.query.allowed is None or self.query.allowed.permits(cell)
        )

    def arm(self, number: int) -> Cell:
        """Return one of the arms by its number, from 0 to below ``count``."""
        if self.combined:
            if self._listed is None:
                self._listed = self._arms()
            return self._listed[number]
        cell = []
        for one in reversed(self._levels):
            if isinstance(one, int):
                cell.append(one)
            else:
                number, at = divmod(number, len(one))
                cell.append(int(one[at]))
        return tuple(reversed(cell))

    def draw(self, rng: np.random.Generator) -> Cell:
        """Return one of the arms, each with the same probability."""
        for _ in range(_TRIES if self.combined else 1):
            cell = tuple(one if isinstance(one, int) else int(one[rng.integers(len(one))]) for one in self._levels)
            if not self.combined or (self.query.allowed is not None and self.query.allowed.permits(cell)):
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


class OtherPart(NamedTuple):
    """A share of the decisions of one request that floors or holdout make, spread evenly over a group of arms.

    ``each`` is what floors and holdout give to each arm of the group, ``None`` if that is not the same for all.
    """

    share: float
    by: str
    group: Group
    each: float | None


class RequestLaw:
    """The law of one request, which may come again: what can be kept of it between decisions.

    Threads may share it: what is kept is replaced as a whole, never changed.
    """

    def __init__(self, query: Query, shares: Shares) -> None:
        self.query, self._shares = query, shares
        self.floors = Spread(query, shares.floors)
        self.paused = shares.paused and shares.rollout is None  # an apprentice goes on saying what it would have done
        self.baseline = Spread(query, shares.baseline if shares.holdout or self.paused else (), whole=True)
        if self.paused and not self.baseline.parts:  # nothing of it is allowed here, and the policy may not decide
            self.baseline = Spread(query, (Share({}, 1.0),), whole=True)
        self.holdout = 1.0 if self.paused else shares.holdout if self.baseline.parts else 0.0
        self._kept: tuple[tuple[Draws, dict[Cell, float]], ...] = ()  # the laws of the last two draws, newest first
        self._best: dict[int, Cell] = {}  # of each of them, by number
        self._others: dict[int, Cell | None] = {}  # best arms under no ceiling
        self._under: Query | None = None

    def draw(self, draws: Draws, rng: np.random.Generator, place: Place | None = None) -> Drawn:
        """Draw from the best arms of posterior draws, the floors and the baseline; who decides, by a known place."""
        if self.paused:
            return self.rest(rng)
        law = self.law(draws)
        by = self._by(rng, place)
        if by != "policy":
            cell = self._spread(by).draw(rng)
            return Drawn(cell, self._mixed(cell, law.get(cell, 0.0)), by, chances=self.chances)
        cell = self._pick(law, rng)
        return Drawn(cell, self._mixed(cell, law[cell]), by, draw=self._oldest(cell), chances=self.chances)

    def outcomes(self, draws: Draws) -> list[tuple[float, Drawn]]:
        """Return what the policy may draw, each with the probability that it does.

        These and :meth:`others` are together what :meth:`draw` draws from.
        """
        if self.paused:
            return []
        own = (1.0 - self.holdout) * (1.0 - self.floors.total)
        return [
            (own * w, Drawn(cell, self._mixed(cell, w), "policy", draw=self._oldest(cell), chances=self.chances))
            for cell, w in self.law(draws).items()
        ]

    def others(self) -> list[OtherPart]:
        """Return what floors and holdout draw."""
        held = [(self.holdout * share, "holdout", group, levels) for share, group, levels in self.baseline.parts]
        rest = 1.0 - self.holdout
        least = [(rest * share, "floor", group, levels) for share, group, levels in self.floors.parts]
        parts = [part for part in [*held, *least] if part[0] > 0.0]
        found = []
        for share, by, group, levels in parts:
            inside = [(other / theirs.count, _covers(wanted, levels)) for other, _, theirs, wanted in parts]
            known = all(covers is not None for _, covers in inside)
            each = math.fsum(chance for chance, covers in inside if covers) if known else None
            found.append(OtherPart(share, by, group, each))
        return found

    def other(self, part: OtherPart, cell: Cell, draws: Draws) -> Drawn:
        """Return what it is for floors or holdout to have drawn an arm of a part."""
        w = 0.0 if self.paused else self.law(draws).get(cell, 0.0)
        own = (1.0 - self.holdout) * (1.0 - self.floors.total) * w
        p = self._mixed(cell, w) if part.each is None else own + part.each
        return Drawn(cell, p, part.by, chances=self.chances)

    def rest(self, rng: np.random.Generator) -> Drawn:
        """Draw from the baseline alone, for which nothing need have been learned."""
        cell = self.baseline.draw(rng)
        return Drawn(cell, self.baseline.probability(cell), "holdout", chances=self.chances)

    def _oldest(self, cell: Cell) -> int | None:
        """The number of the oldest draw of the last ones whose best arm this is, or its best under no ceiling."""
        for found in (self._best, self._others):
            for number, arm in found.items():
                if arm == cell:
                    return number
        return None

    def probability(self, draws: Draws, cell: Cell) -> float:
        """Return the probability that :meth:`draw` has for an arm."""
        return self._mixed(cell, self.law(draws).get(cell, 0.0))

    def ask(self, policy: Policy, rng: np.random.Generator, place: Place | None = None) -> Drawn:
        """Draw from the floors and the baseline, or else have a policy choose by itself."""
        if self.paused:
            return self.rest(rng)
        by = self._by(rng, place)
        choice = policy.propose(self.query) if by == "policy" or policy.traits.deterministic else None
        if by == "policy":
            assert choice is not None
            cell, note = choice
        else:
            cell, note = self._spread(by).draw(rng), None
        known = (
            None if choice is None or not policy.traits.deterministic else self._mixed(cell, float(cell == choice.cell))
        )
        return Drawn(cell, known, by, note, chances=self.chances)

    @property
    def chances(self) -> tuple[float, float]:
        """The chances that the policy, floors included, and that the holdout decides; nothing may be allowed of it."""
        own = 1.0 if self._shares.rollout is None else 0.0 if self._shares.paused else self._shares.rollout
        return own * (1.0 - self.holdout), own * self.holdout

    def _by(self, rng: np.random.Generator, place: Place | None) -> str:
        if self.holdout and (rng.random() if place is None else place.holdout) < self.holdout:
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

    def law(self, draws: Draws) -> dict[Cell, float]:
        """Return the policy's probability of each arm that has one; worked out anew when there are new draws."""
        for known, law in self._kept:
            if known is draws:
                return law
        before, numbers = self._best, draws.numbers
        new = [number for number in numbers if number not in before]
        found = dict(zip(new, draws.best(new, self.query), strict=True))
        best = {number: found[number] if number in found else before[number] for number in numbers}
        law = {}
        each = 1.0 / len(numbers)
        for cell in best.values():
            law[cell] = law.get(cell, 0.0) + each
        law = self._lowered(law, draws, best) if self._shares.ceilings else law
        self._best, self._kept = best, ((draws, law), *self._kept[:1])
        return law

    def known(self, draws: Draws) -> bool:
        """Say whether the law of these draws has been worked out."""
        return any(known is draws for known, _ in self._kept)

    def _lowered(self, law: dict[Cell, float], draws: Draws, best: Mapping[int, Cell]) -> dict[Cell, float]:
        """The law with what arms have above a ceiling given to the best arms under none."""
        keep = {cell: 1.0 for cell in law}
        for levels, ceiling in self._shares.ceilings:
            inside = [cell for cell in law if all(cell[mode] == level for mode, level in levels.items())]
            mass = math.fsum(law[cell] for cell in inside)
            room = (self._room(levels, ceiling) / mass) if mass else 1.0
            keep.update({cell: min(keep[cell], room) for cell in inside})
        if min(keep.values()) >= 1.0:
            return law
        others = self._elsewhere(draws)
        lowered: dict[Cell, float] = {}
        each = 1.0 / len(best)
        for number, cell in best.items():
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

    def _elsewhere(self, draws: Draws) -> dict[int, Cell | None]:
        """The best arm of each draw among those under no ceiling; ``None`` where there is none."""
        under = self._under
        if under is None:
            forbidden = Allowed(forbidden=[one.levels for one in self._shares.ceilings])
            try:
                under = self.query._replace(allowed=Allowed.of(forbidden, self.query.shape, self.query.allowed))
            except ValueError:
                under = self.query
            self._under = under
        before = self._others
        found = {n: before[n] if n in before else self._best_under(draw, under) for n, draw in draws.entries}
        self._others = found
        return found

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


def _covers(wanted: Partial, levels: Partial) -> bool | None:
    """Say whether all arms with some ``levels`` have the ``wanted`` ones too, or none; ``None`` if only some have."""
    if any(levels.get(mode, level) != level for mode, level in wanted.items()):
        return False
    return True if wanted.keys() <= levels.keys() else None

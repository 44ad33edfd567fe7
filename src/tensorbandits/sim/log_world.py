"""Worlds made of a log: each reward that they pay is a real one, and most are of that cell, as often as it occurred.

A cell with few rewards is mostly luck, and the best cell of a log as it is would be the luckiest. So cells are
steadied: by default by empirical Bayes (:mod:`tensorbandits.sim.shrinkage`), toward what main effects say of them.

A *world* makes environments, one for each seed; an *environment* is what a policy plays in. A log is read by
:mod:`tensorbandits.data`, which knows nothing of both: the arrow goes from here to there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from tensorbandits.base.checks import Cell, check_at_least, check_cell, check_count
from tensorbandits.data.log import Log
from tensorbandits.model.effects import kind_of
from tensorbandits.sim.environment import TensorEnvironment
from tensorbandits.sim.shrinkage import fit_prior
from tensorbandits.tensor.tucker import Floats, Ints

_MOST_CELLS = 10**8
_HALVINGS = 50


class Pool(NamedTuple):
    """All rewards of a log in order of size, of which a cell draws from a window: all but the smallest, or the largest.

    So a draw has any mean that is asked for, and changes as little else as it can; of rewards of 0 and 1 a window is
    a rate. ``values`` (m,) are sorted, ``cumulative`` (m,) says how many rewards there are up to and with each,
    ``start`` and ``end`` (shape) are where the windows begin and end among all rewards, in fractions of one.
    """

    values: Floats
    cumulative: Ints
    start: Floats
    end: Floats

    @classmethod
    def of(cls, values: Floats, counts: Ints, mean: Floats) -> Self:
        """Return the pool whose windows have such means, of any shape, as far as the log has rewards of that size."""
        distinct, which = np.unique(values, return_inverse=True)
        number = np.zeros(len(distinct), dtype=np.int64)
        np.add.at(number, which, counts)
        cumulative = np.cumsum(number)
        pool = cls(distinct, cumulative, np.zeros_like(mean), np.full_like(mean, cumulative[-1]))
        total, above = float(cumulative[-1]), mean >= pool.means()
        low, high = np.zeros_like(mean), np.full_like(mean, total - 1.0)  # one reward is left at least
        for _ in range(_HALVINGS):  # how many rewards of the far end are left out
            out = (low + high) / 2
            tried = pool._replace(start=np.where(above, out, 0.0), end=np.where(above, total, total - out))
            more = np.where(above, tried.means() < mean, tried.means() > mean)
            low, high = np.where(more, out, low), np.where(more, high, out)
        return pool._replace(start=np.where(above, low, 0.0), end=np.where(above, total, total - low))

    def means(self) -> Floats:
        """Return the mean of each window, of shape."""
        steps = np.concatenate([[0], self.cumulative])
        sums = np.concatenate([[0.0], np.cumsum(np.diff(steps) * self.values)])
        return np.asarray(
            (np.interp(self.end, steps, sums) - np.interp(self.start, steps, sums)) / (self.end - self.start)
        )

    def draw(self, uniform: float, cell: Cell) -> float:
        """Return the reward of a cell's window that a number in [0, 1) stands for."""
        start, end = float(self.start[cell]), float(self.end[cell])
        rank = min(int(start + uniform * (end - start)), int(self.cumulative[-1]) - 1)
        return float(self.values[self.cumulative.searchsorted(rank, side="right")])


@dataclass(frozen=True, eq=False, repr=False)
class World:
    """What a log says of its cells, as plain arrays; called with a seed it gives a :class:`LogEnvironment`.

    It is made by :meth:`of`, or by :meth:`tensorbandits.data.Log.world`, which is the same, and is what
    :func:`tensorbandits.compare` takes as environment. ``mean`` (shape) holds the exact mean reward
    of each cell, ``noise`` is the standard deviation within cells, ``context`` the positions of the context modes and
    ``context_weights`` how often each context occurred. ``centre`` and ``scale`` say what rewards were shifted and
    divided by: 0 and 1 unless standardised. ``counts`` (shape) says how many rewards of its own each cell has, and
    ``shrinkage`` how many of others are mixed into each.

    >>> import pyarrow as pa
    >>> from tensorbandits.data import from_log
    >>> log = from_log(pa.table({"a": [0, 1, 1, 0], "b": [0, 0, 1, 1], "reward": [1, 2, 3, 4]}), ["a", "b"], "reward")
    >>> world = World.of(log, context=["b"], shrinkage=0)
    >>> world
    World(shape=(2, 2), context=(1,), rewards=4)
    >>> world.mean.tolist(), world(0).pull((1, 0))
    ([[1.0, 4.0], [2.0, 3.0]], 2.0)
    """

    mean: Floats
    noise: float
    context: Cell
    context_weights: Floats | None
    shrinkage: float
    centre: float
    scale: float
    counts: Ints  # of shape: how many rewards of its own a cell draws from
    before: Ints  # of shape: how many rewards come before the cell's in the order of `values`
    values: Floats  # (m,) sorted by cell
    cumulative: Ints  # (m,) how many rewards there are up to and with each value
    pool: Pool | None = None  # what is mixed in, if it is not all of the log's rewards alike

    @property
    def shape(self) -> Cell:
        """The number of levels of each mode."""
        return self.mean.shape

    def __call__(self, seed: int | np.random.SeedSequence | None = None) -> LogEnvironment:
        """Return an environment that draws with this seed."""
        return LogEnvironment(self, seed=seed)

    @classmethod
    def of(
        cls,
        log: Log,
        context: Sequence[str | int] = (),
        *,
        min_count: int = 1,
        shrinkage: float | None = None,
        standardise: bool = False,
    ) -> Self:
        """Return the world that pays a log's own rewards, to compare policies in.

        Parameters
        ----------
        log : what :func:`tensorbandits.data.from_log` read; its single rewards are counted in a second pass.
        context : names (or positions) of the modes that are given rather than decided. Contexts come as often as in
            the log.
        min_count : a cell with fewer rewards counts as having none of its own.
        shrinkage : of a cell with ``n`` rewards of its own, one draw in ``(n + shrinkage) / shrinkage`` comes from the
            rewards of other cells; of a cell with none, every draw. By default, ``None``, the number is estimated from
            the log (empirical Bayes), and these draws have the mean ``m`` that the main effects give the cell: its own
            is ``(sum + shrinkage * m) / (n + shrinkage)``. With a number of your own they come from all rewards of the
            log alike, and ``m`` is the overall mean; 0 mixes in nothing.
        standardise : shift rewards by the overall mean, and divide them by the standard deviation within cells.
        """
        if not isinstance(log, Log):
            raise TypeError(f"the log is a {type(log).__name__}; give one that from_log has read")
        positions, least = log.space.positions(context), check_count(min_count, "min_count")
        prior = None if shrinkage is None else check_at_least(shrinkage, "shrinkage")
        return cls(**_arrays(log, positions, least, prior, standardise))

    def __repr__(self) -> str:
        return f"World(shape={self.shape}, context={self.context}, rewards={int(self.cumulative[-1])})"


class LogEnvironment(TensorEnvironment):
    """An environment whose rewards are those of a log; made by calling a :class:`World` with a seed.

    Contexts and regret are as in :class:`tensorbandits.TensorEnvironment`. Each pull takes one uniform number from the
    stream of rewards, whatever is played.

    >>> import pyarrow as pa
    >>> from tensorbandits.data import from_log
    >>> log = from_log(pa.table({"a": [0, 1, 1, 0], "b": [0, 0, 1, 1], "reward": [1, 2, 3, 4]}), ["a", "b"], "reward")
    >>> env = World.of(log, shrinkage=0)(seed=0)
    >>> env.pull((0, 1)), env.regret((0, 0))
    (4.0, 3.0)
    """

    def __init__(self, world: World, *, seed: int | np.random.SeedSequence | None = None) -> None:
        weights = world.context_weights
        super().__init__(world.mean, noise=world.noise, context=world.context, context_weights=weights, seed=seed)
        self.world = world
        self.family = "log"  # rewards have the law that the log has
        self._total = int(world.cumulative[-1])

    def pull(self, cell: Sequence[int]) -> float:
        """Draw a reward of a cell, or now and then one of other cells, as the world's shrinkage says."""
        world, valid = self.world, check_cell(cell, self.shape)
        own, uniform = int(world.counts[valid]), self._reward_rng.random()
        position = uniform * (own + world.shrinkage)
        if position < own:
            rank = int(world.before[valid]) + int(position)
        else:  # what is left of the uniform number is one too
            rest = (position - own) / world.shrinkage if own else uniform
            if world.pool is not None:
                return world.pool.draw(rest, valid)
            rank = min(int(rest * self._total), self._total - 1)
        return float(world.values[world.cumulative.searchsorted(rank, side="right")])


def _arrays(log: Log, positions: Cell, least: int, shrinkage: float | None, standardise: bool) -> dict[str, Any]:
    """Return what a world holds, from values (m,) that occurred so often (m,) in cells (m, d), sorted by cell."""
    shape, (cells, values, counts) = log.shape, log.values()
    if math.prod(shape) > _MOST_CELLS:
        raise ValueError(
            f"the shape {shape} has {math.prod(shape):.3g} cells; a world writes the mean of each, at most "
            f"{_MOST_CELLS:.0e}: keep fewer levels with top= when reading the log"
        )
    at = np.ravel_multi_index(tuple(cells.T), shape)
    size = math.prod(shape)
    number = np.zeros(size, dtype=np.int64)
    np.add.at(number, at, counts)
    own = np.where(number >= least, number, 0)
    if not own.any():
        raise ValueError(
            f"no cell has at least min_count = {least} rewards, the fullest has {int(number.max())}; lower min_count"
        )
    overall = float(counts @ values) / float(counts.sum())
    sums = np.zeros(size)
    np.add.at(sums, at, counts * values)
    spread = _spread(at, values, counts, sums, number)
    centre, scale = (overall, spread or 1.0) if standardise else (0.0, 1.0)
    prior, pool = np.full(size, overall), None  # the means of what is mixed in, and what it is drawn from
    if shrinkage is None:
        expected, shrinkage = fit_prior(log.ledger, kind_of(log.ledger))
        pool = Pool.of(values, counts, expected)
        prior = pool.means().ravel()
        pool = pool._replace(values=(pool.values - centre) / scale)
    mean = np.divide(sums + shrinkage * prior, own + shrinkage, out=prior.copy(), where=own > 0)
    return dict(
        mean=((mean - centre) / scale).reshape(shape),
        noise=spread / scale,
        context=positions,
        context_weights=_context_weights(number.reshape(shape), positions),
        shrinkage=shrinkage,
        centre=centre,
        scale=scale,
        counts=own.reshape(shape),
        before=(np.cumsum(number) - number).reshape(shape),
        values=(values - centre) / scale,
        cumulative=np.cumsum(counts),
        pool=pool,
    )


def _spread(at: Ints, values: Floats, counts: Ints, sums: Floats, number: Ints) -> float:
    """Return the standard deviation within cells, pooled over them; 0 if no cell has two rewards."""
    freedom = int(number.sum()) - int(np.count_nonzero(number))
    within = float(counts @ (values - sums[at] / number[at]) ** 2)
    return math.sqrt(within / freedom) if freedom else 0.0


def _context_weights(number: Ints, positions: Cell) -> Floats | None:
    """Return how often each context occurred, its axes in the order of the positions."""
    if not positions:
        return None
    ordered = np.moveaxis(number, positions, range(len(positions)))
    return np.asarray(ordered.sum(axis=tuple(range(len(positions), number.ndim))), dtype=np.float64)


Log.make_world = staticmethod(World.of)  # for `log.world(...)`, which could not import this file

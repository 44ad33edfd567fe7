"""Worlds made of a log: each reward that they pay is a real one of that cell, drawn as often as it occurred.

A *world* makes environments, one for each seed; an *environment* is what a policy plays in. A log is read by
:mod:`tensorbandits.data`, which knows nothing of both: the arrow goes from here to there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tensorbandits.checks import Cell, check_cell, check_context, check_count, is_finite, is_sequence
from tensorbandits.data.log import Log
from tensorbandits.sim.environment import TensorEnvironment

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_MOST_CELLS = 10**8


@dataclass(frozen=True, eq=False, repr=False)
class World:
    """What a log says of its cells, as plain arrays; called with a seed it gives a :class:`LogEnvironment`.

    It is made by :meth:`of`, or by :meth:`tensorbandits.data.Log.world`, which is the same, and is what
    :func:`tensorbandits.compare` takes as environment. ``mean`` (shape) holds the exact mean reward
    of each cell, ``noise`` is the standard deviation within cells, ``context`` the positions of the context modes and
    ``context_weights`` how often each context occurred. ``centre`` and ``scale`` say what rewards were shifted and
    divided by: 0 and 1 unless standardised.

    >>> import pyarrow as pa
    >>> from tensorbandits.data import from_log
    >>> log = from_log(pa.table({"a": [0, 1, 1, 0], "b": [0, 0, 1, 1], "reward": [1, 2, 3, 4]}), ["a", "b"], "reward")
    >>> world = World.of(log, context=["b"])
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
    own: Ints  # of shape: how many rewards of its own a cell draws from
    before: Ints  # of shape: how many rewards come before the cell's in the order of `values`
    values: Floats  # (m,) sorted by cell
    cumulative: Ints  # (m,) how many rewards there are up to and with each value

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
        shrinkage: float = 0.0,
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
            pool of all rewards of the log; of a cell with none, every draw. So its mean is
            ``(sum + shrinkage * overall mean) / (n + shrinkage)``.
        standardise : shift rewards by the overall mean, and divide them by the standard deviation within cells.
        """
        if not isinstance(log, Log):
            raise TypeError(f"the log is a {type(log).__name__}; give one that from_log has read")
        if not is_sequence(context):
            raise TypeError(f"context is {context!r}; give a list of modes, of {list(log.modes)}")
        found = [_position(mode, log) for mode in context]
        if len(set(found)) < len(found):
            raise ValueError(f"context is {list(context)}, which names a mode twice; name each once")
        positions = check_context(found, log.shape)
        least, pseudo = check_count(min_count, "min_count"), _check_shrinkage(shrinkage)
        return cls(**_arrays(log.shape, *log.values(), positions, least, pseudo, standardise))

    def __repr__(self) -> str:
        return f"World(shape={self.shape}, context={self.context}, rewards={int(self.cumulative[-1])})"


class LogEnvironment(TensorEnvironment):
    """An environment whose rewards are those of a log; made by calling a :class:`World` with a seed.

    Contexts and regret are as in :class:`tensorbandits.TensorEnvironment`. Each pull takes one uniform number from the
    stream of rewards, whatever is played.

    >>> import pyarrow as pa
    >>> from tensorbandits.data import from_log
    >>> log = from_log(pa.table({"a": [0, 1, 1, 0], "b": [0, 0, 1, 1], "reward": [1, 2, 3, 4]}), ["a", "b"], "reward")
    >>> env = World.of(log)(seed=0)
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
        """Draw a reward of a cell, or now and then of the pool of all rewards, as the world's shrinkage says."""
        world, valid = self.world, check_cell(cell, self.shape)
        own, uniform = int(world.own[valid]), self._reward_rng.random()
        position = uniform * (own + world.shrinkage)
        if position < own:
            rank = int(world.before[valid]) + int(position)
        else:  # what is left of the uniform number is one too
            rest = (position - own) / world.shrinkage if own else uniform
            rank = min(int(rest * self._total), self._total - 1)
        return float(world.values[world.cumulative.searchsorted(rank, side="right")])


def _position(mode: Any, log: Log) -> int:
    if not isinstance(mode, str):
        return mode  # type: ignore[no-any-return]  # checked with the others by check_context
    if mode not in log.modes:
        raise ValueError(f"context names the mode {mode!r}; the modes are {list(log.modes)}: name some of them")
    return log.modes.index(mode)


def _arrays(
    shape: Cell,
    cells: Ints,
    values: Floats,
    counts: Ints,
    positions: Cell,
    least: int,
    pseudo: float,
    standardise: bool,
) -> dict[str, Any]:
    """Return what a world holds, from values (m,) that occurred so often (m,) in cells (m, d), sorted by cell."""
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
    mean = np.divide(sums + pseudo * overall, own + pseudo, out=np.full(size, overall), where=own > 0)
    return dict(
        mean=((mean - centre) / scale).reshape(shape),
        noise=spread / scale,
        context=positions,
        context_weights=_context_weights(number.reshape(shape), positions),
        shrinkage=pseudo,
        centre=centre,
        scale=scale,
        own=own.reshape(shape),
        before=(np.cumsum(number) - number).reshape(shape),
        values=(values - centre) / scale,
        cumulative=np.cumsum(counts),
    )


def _check_shrinkage(shrinkage: Any) -> float:
    if isinstance(shrinkage, bool) or not is_finite(shrinkage) or shrinkage < 0:
        raise ValueError(
            f"shrinkage is {shrinkage!r}; it is a number of pseudo-rewards: give a finite number of at least 0"
        )
    return float(shrinkage)


def _spread(at: Ints, values: Floats, counts: Ints, sums: Floats, number: Ints) -> float:
    """Return the standard deviation within cells, pooled over them; 0 if no cell has two rewards."""
    freedom = int(number.sum()) - int(np.count_nonzero(number))
    within = float(counts @ (values - sums[at] / number[at]) ** 2)
    return math.sqrt(within / freedom) if freedom else 0.0


def _context_weights(number: Ints, positions: Cell) -> Floats | None:
    """Return how often each context occurred, its axes in the order of the positions."""
    if not positions:
        return None
    others = tuple(mode for mode in range(number.ndim) if mode not in positions)
    kept = sorted(positions)
    return np.transpose(number.sum(axis=others), [kept.index(mode) for mode in positions]).astype(np.float64)


Log.make_world = staticmethod(World.of)  # for `log.world(...)`, which could not import this file

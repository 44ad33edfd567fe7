"""Environments: a tensor of mean rewards, the noise around it, and where the context comes from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from tensorbandits.base.checks import (
    Cell,
    check_at_least,
    check_cell,
    check_context,
    check_count,
    check_levels,
    check_positive,
    check_seed,
    check_shape,
)
from tensorbandits.tensor.allowed import Allowed, Levels
from tensorbandits.tensor.tucker import Floats, Tucker, best_cell, check_numbers, values_at

Family = Literal["gaussian", "bernoulli", "poisson"]

_ROUNDING = 1e-9  # how far a mean may lie outside its range by the rounding of a Tucker's products


def paper_tensor(p: int = 15, signal: float = 0.5, order: int = 3, rank: int = 2, seed: int = 0) -> Floats:
    """Return the paper's simulated mean rewards, a full array of shape (p, .., p).

    Each factor is the Q of the QR decomposition of a Gaussian (p, rank) matrix; the core is diagonal with
    entries ``signal * p^(order / 2)``, the paper's ``w p^1.5``. ``signal`` is the paper's ``w``.

    >>> mean = paper_tensor(p=15, signal=0.5)
    >>> mean.shape, round(float((mean**2).mean()), 3)  # rank * signal^2
    ((15, 15, 15), 0.5)
    """
    size, modes, columns = check_count(p, "p"), check_count(order, "order"), check_count(rank, "rank")
    strength = check_positive(signal, "signal") * size ** (modes / 2)
    if columns > size:
        raise ValueError(f"rank is {rank}; a mode of {p} levels allows at most {p}: lower the rank or raise p")
    rng = np.random.default_rng(seed)
    factors = tuple(np.linalg.qr(rng.standard_normal((size, columns)))[0] for _ in range(modes))
    core = np.zeros((columns,) * modes)
    core[(np.arange(columns),) * modes] = strength
    return Tucker(core, factors).full()


class TensorEnvironment:
    """What a policy plays in: draws contexts, pays noisy rewards, and knows the regret of each cell.

    Parameters
    ----------
    mean : the mean reward of each cell: an array of shape (p_1, .., p_d), or a ``Tucker``, whose cells are
        never all written out, so that a billion of them are no trouble.
    noise : standard deviation of Gaussian rewards, 0 or more. The other families have a spread of their own.
    family : ``"gaussian"``, ``"bernoulli"`` (means are probabilities) or ``"poisson"`` (means are rates).
    context : positions of the modes that are given rather than decided; ``()`` means none.
    context_weights : how often each context occurs. ``None`` is uniform; a list with one vector of weights
        per context mode draws the modes independently; one array over all context cells, its axes in the
        order of ``context``, is any joint distribution. Weights are 0 or more and are scaled to sum to 1.
    seed : an int, a ``SeedSequence``, or ``None`` for fresh randomness. Contexts and rewards are drawn from
        streams of their own: two policies meet the same contexts whatever they play.

    >>> env = TensorEnvironment(np.array([[0.0, 1.0], [3.0, 2.0]]), noise=0.0, context=(0,), seed=0)
    >>> env.context() in [(0,), (1,)]
    True
    >>> env.pull((1, 1)), env.best_mean((1,)), env.regret((1, 1))
    (2.0, 3.0, 1.0)
    """

    def __init__(
        self,
        mean: ArrayLike | Tucker,
        *,
        noise: float = 1.0,
        family: Family = "gaussian",
        context: Sequence[int] = (),
        context_weights: Sequence[ArrayLike] | Floats | None = None,
        seed: int | np.random.SeedSequence | None = None,
    ) -> None:
        self.mean = mean if isinstance(mean, Tucker) else _check_array(mean)
        self.shape: Cell = check_shape(self.mean.shape)
        self.context_modes: Cell = check_context(context, self.shape)
        self.noise = check_at_least(noise, "noise")
        _check_family(family, self.mean)
        self.family: str = family
        self._tables = _context_tables(context_weights, self.context_modes, self.shape)
        self._best: dict[Cell, float] = {}
        self._restricted: tuple[Allowed | None, dict[Cell, float]] = None, {}  # the same for what was allowed last
        # Far from each other, and from the numbers that paper_tensor draws with the same seed.
        source = np.random.PCG64(check_seed(seed))
        self._reward_rng, self._context_rng = (np.random.Generator(source.jumped(i)) for i in (1, 2))

    def context(self) -> Cell:
        """Draw the levels of the context modes, in the order of ``context``; ``()`` without context."""
        levels: list[int] = []
        for sizes, cumulative in self._tables:
            index = int(np.searchsorted(cumulative, self._context_rng.random(), side="right"))
            levels.extend(int(level) for level in np.unravel_index(index, sizes))
        return tuple(levels)

    def pull(self, cell: Sequence[int]) -> float:
        """Draw the reward of a cell."""
        mean = self.mean_at(cell)
        if self.family == "bernoulli":
            return float(self._reward_rng.random() < mean)
        if self.family == "poisson":
            return float(self._reward_rng.poisson(max(mean, 0.0)))
        return mean + self.noise * float(self._reward_rng.standard_normal())

    def mean_at(self, cell: Sequence[int]) -> float:
        """Return the mean reward of a cell."""
        return self._value(check_cell(cell, self.shape))

    def best_mean(self, levels: Sequence[int] = (), allowed: Allowed | Mapping[int, Levels] | None = None) -> float:
        """Return the largest mean reward of an allowed cell given the context levels.

        It is looked for once per context; of what was allowed, the last is remembered.
        """
        valid = check_levels(levels, self.context_modes, self.shape)
        return self._best_mean(valid, Allowed.of(allowed, self.shape))

    def regret(self, cell: Sequence[int], allowed: Allowed | Mapping[int, Levels] | None = None) -> float:
        """Return what a cell loses, in mean reward, to the best allowed cell of the same context.

        A cell that is not allowed itself is refused: its regret against the allowed ones would mean nothing.
        """
        valid, checked = check_cell(cell, self.shape), Allowed.of(allowed, self.shape)
        if checked is not None and not checked.permits(valid):
            raise ValueError(
                f"cell {valid} is not allowed, so it has no regret against the allowed cells; "
                "give a cell that is allowed, or leave allowed out"
            )
        return self._best_mean(tuple(valid[mode] for mode in self.context_modes), checked) - self._value(valid)

    def _best_mean(self, levels: Cell, allowed: Allowed | None) -> float:
        """Return the largest mean of a checked request; a policy asks the same again and again."""
        known = self._best
        if allowed is not None:
            if self._restricted[0] != allowed:
                self._restricted = allowed, {}
            known = self._restricted[1]
        if levels not in known:
            fixed = dict(zip(self.context_modes, levels, strict=True))
            known[levels] = self._value(best_cell(self.mean, fixed, allowed))
        return known[levels]

    def _value(self, cell: Cell) -> float:
        if isinstance(self.mean, np.ndarray):
            return float(self.mean[cell])
        return float(values_at(self.mean, np.array([cell]))[0])


def _check_array(mean: ArrayLike) -> Floats:
    array = np.array(check_numbers(mean, "mean"))
    if array.ndim == 0:
        raise ValueError(f"mean is the single number {array}; give an array with one axis per mode, or a Tucker")
    return array


def _check_family(family: Any, mean: Floats | Tucker) -> None:
    """Refuse means that are not possible for the family."""
    if family not in get_args(Family):
        raise ValueError(f"family is {family!r}; allowed are {', '.join(map(repr, get_args(Family)))}")
    if family == "gaussian":
        return
    negative = Tucker(-mean.core, mean.factors, -mean.offset) if isinstance(mean, Tucker) else -mean
    for extreme in (best_cell(negative), best_cell(mean)):
        value = float(values_at(mean, np.array([extreme]))[0])
        if value < -_ROUNDING or (family == "bernoulli" and value > 1 + _ROUNDING):
            allowed = "within 0 and 1" if family == "bernoulli" else "at least 0"
            raise ValueError(
                f"the mean of cell {extreme} is {value:.6g}; means of {family} rewards are {allowed}: "
                "rescale or clip the means, or use family='gaussian'"
            )


def _context_tables(weights: Any, modes: Cell, shape: Cell) -> list[tuple[Cell, Floats]]:
    """Return independent tables to draw from: the sizes of the modes, and cumulative probabilities."""
    sizes = tuple(shape[mode] for mode in modes)
    if weights is not None and not modes:
        raise ValueError(
            "context_weights was given to an environment without context; "
            "leave it out, or name the context modes: context=(0,)"
        )
    if isinstance(weights, np.ndarray):
        return [(sizes, _cumulative(weights, sizes, f"the cells of context modes {modes}"))]
    vectors = [np.ones(size) for size in sizes] if weights is None else weights
    if not isinstance(vectors, Sequence) or len(vectors) != len(sizes) or 0 in map(np.ndim, vectors):
        raise ValueError(
            f"context_weights is {weights!r}; give a list of one vector per context mode, lengths {sizes}, "
            f"or one numpy array of shape {sizes} over all context cells"
        )
    return [
        ((size,), _cumulative(vector, (size,), f"context mode {mode}"))
        for vector, size, mode in zip(vectors, sizes, modes, strict=True)
    ]


def _cumulative(weights: ArrayLike, sizes: Cell, what: str) -> Floats:
    array = np.asarray(weights, dtype=np.float64)
    if array.shape != sizes:
        raise ValueError(f"the weights of {what} have shape {array.shape}; give one weight per level: shape {sizes}")
    total = float(array.sum())
    if not math.isfinite(total) or (array < 0).any() or total <= 0:
        raise ValueError(
            f"the weights of {what} are {np.array2string(array, threshold=8)}, with sum {total:.6g}; "
            "give finite weights of at least 0, not all of them 0"
        )
    cumulative = np.cumsum(array.ravel())
    return np.asarray(cumulative / cumulative[-1])

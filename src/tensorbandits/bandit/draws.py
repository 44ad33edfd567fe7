"""The last posterior draws of a policy that samples, as an immutable value: what decisions are drawn from."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from tensorbandits.base.checks import Cell
from tensorbandits.model.sweep import Model
from tensorbandits.policies.approximate import Draw, best_of
from tensorbandits.policies.query import Query
from tensorbandits.tensor.best import best_of_each
from tensorbandits.tensor.packed import Packed, mean_rows
from tensorbandits.tensor.tucker import Tucker

_Packed = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64], dict[int, int]]


class Draws:
    """At most ``size`` draws of one shape, each with a number of its own, the oldest first.

    >>> from tensorbandits import TensorThompsonSampling
    >>> policy = TensorThompsonSampling((3, 4), rank=1, seed=0)
    >>> draws = Draws(4).joined(policy.fresh_draws(4), (3, 4)); draws.numbers
    (0, 1, 2, 3)
    >>> draws.joined(policy.fresh_draws(1), (3, 4)).numbers, draws.numbers
    ((1, 2, 3, 4), (0, 1, 2, 3))
    >>> draws.joined(policy.fresh_draws(1), (3, 4), first={2}).numbers
    (0, 1, 3, 4)
    """

    def __init__(self, size: int, shape: Cell = (), entries: tuple[tuple[int, Draw], ...] = (), last: int = -1) -> None:
        self.size, self.shape, self.entries = size, shape, entries
        self.last = last  # the number of the newest draw
        self.numbers = tuple(number for number, _ in entries)
        self._packed: dict[Cell, _Packed] | None = None  # made when it is first needed

    def __bool__(self) -> bool:
        return bool(self.entries)

    def joined(self, fresh: Sequence[Draw], shape: Cell, first: Collection[int] = ()) -> Draws:
        """Return these with new draws in the place of others: of those numbered in ``first``, and then of the oldest.

        Draws of another shape are left behind.
        """
        last, entries = self.last, list(self.entries) if shape == self.shape else []
        for draw in fresh:
            if draw.shape == shape:
                last += 1
                entries.append((last, draw))
        by = sorted(range(len(entries)), key=lambda at: entries[at][0] not in first)  # the oldest first otherwise
        left = set(by[max(len(entries) - self.size, 0) :])
        return Draws(self.size, shape, tuple(entry for at, entry in enumerate(entries) if at in left), last)

    def widened(self, shape: Cell) -> Draws:
        """Return these for modes that gained levels: a new level is as all others of its mode are on average.

        Decisions are made from them until the policy has drawn anew. Their numbers are below 0, so that none of the
        draws to come has one of them.
        """
        entries = tuple((-1 - number, _wide(draw, shape)) for number, draw in self.entries)
        return Draws(self.size, shape, entries, self.last)

    def beyond(self, shape: Cell) -> bool:
        """Say whether these are of levels that a shape does not have."""
        return bool(self) and any(mine > theirs for mine, theirs in zip(self.shape, shape, strict=True))

    def best(self, numbers: Sequence[int], query: Query) -> list[Cell]:
        """Return the best allowed cells of some draws; of models of one rank, where all is allowed, in one call."""
        wanted = set(numbers)
        draws = {number: draw for number, draw in self.entries if number in wanted}
        if query.allowed is not None:
            return [best_of(draws[number], query) for number in numbers]
        if len(numbers) < 2:
            return [best_of(draws[number], query) for number in numbers]
        found = {number: best_of(draw, query) for number, draw in draws.items() if type(draw) is not Model}
        for cores, rows, dims, lines in self._pack().values():
            some = [number for number in numbers if number in lines]
            if some:
                at = np.array([lines[number] for number in some])
                found.update(zip(some, best_of_each(cores, rows, at, dims, query.fixed), strict=True))
        return [found[number] for number in numbers]

    def _pack(self) -> dict[Cell, _Packed]:
        """The cores and rows of draws that are models, by rank, one in a line, to be searched in one call."""
        if self._packed is None:
            groups: dict[Cell, list[tuple[int, Model]]] = {}
            for number, draw in self.entries:
                if type(draw) is Model:  # others have a search of their own
                    groups.setdefault(draw.rank, []).append((number, draw))
            self._packed = {
                rank: (
                    np.array([model.core for _, model in models]),
                    np.array([model.rows for _, model in models]),
                    models[0][1].dims,
                    {number: line for line, (number, _) in enumerate(models)},
                )
                for rank, models in groups.items()
            }
        return self._packed


def _wide(draw: Draw, shape: Cell) -> Draw:
    """A draw of more levels, of which new ones are as the others of their mode on average."""
    if isinstance(draw, Packed):
        return draw.widened(shape)
    if isinstance(draw, Tucker):
        factors = tuple(mean_rows(U, size) for U, size in zip(draw.factors, shape, strict=True))
        return Tucker(draw.core, factors, draw.offset)
    for mode, size in enumerate(shape):
        more = np.repeat(draw.mean(axis=mode, keepdims=True), size - draw.shape[mode], axis=mode)
        draw = np.concatenate([draw, more], axis=mode)
    return draw

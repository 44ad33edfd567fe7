"""The features of the levels of one mode, along axes in which what they say of rewarded levels comes apart.

All chains of a policy share one object for each mode: its axes are worked out once for each set of rewarded levels.

Notation
--------
F (p, m)    features, a line for each level             Q (m, k)    orthonormal axes that span the lines of F
G (p, k)    features along the axes, F Q                s (k,)      squares of the columns of G over rewarded levels

A last column of ``G`` is 1, so that rows need not be about 0 where features are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaln

from tensorbandits.tensor.tucker import Floats, Ints

SHAPE = 0.125  # of the prior of the share that features explain, a beta law: much of it is near 0, and near 1 ...
OWN_SHAPE = 2.0  # ... little of it, as there are features that determine rows
SURE = 0.25  # how likely that is
NONE = 0.001  # tau, where they do
LEAST = 0.01  # tau and phi that are learned else: less says as much
_NOTHING = 1e-10  # of the largest square: an axis along which rewarded levels have no features


class Axes(NamedTuple):
    """Axes in which features of the rewarded levels are uncorrelated, those that these have features along first."""

    Q: Floats  # (m, k)
    G: Floats  # (p, k + 1): its last column is 1
    T: Floats  # (k + 1, p), the same turned
    squares: Floats  # (k,)
    told: int  # axes along which rewarded levels have features
    levels: Ints  # those that are rewarded


class ModeFeatures:
    """The features of the levels of one mode, and the share of rows that they explain: 0 learns it.

    >>> one = ModeFeatures(np.array([[1.0, 1.0], [0.0, 2.0], [5.0, 0.0]]))
    >>> axes = one.axes(np.array([True, True, False]))
    >>> axes.levels.tolist(), axes.told, axes.squares.round(2).tolist()
    ([0, 1], 2, [5.24, 0.76])
    >>> np.allclose(axes.G[:, :-1] @ axes.Q.T, one.features)
    True
    """

    def __init__(self, features: Floats, *, explained: float = 0.0) -> None:
        self.features, self.explained = features, explained
        p, m = features.shape
        self.first: Floats = np.linalg.svd(features, full_matrices=False)[2].T if m > p else np.eye(m)
        self._along = np.ascontiguousarray(features @ self.first)
        self._last: tuple[bytes, Axes] | None = None  # one assignment: threads that draw at once may share this

    def scales(self, rng: np.random.Generator, *, whole: bool = False) -> tuple[float, float]:
        """Return tau and phi, drawn from their prior: their squares add up to 1.

        Features may determine rows, but not those that are all drawn together, of the ``whole`` mode.
        """
        if self.explained:
            return math.sqrt(1.0 - self.explained), math.sqrt(self.explained)
        if not whole and rng.random() < SURE:
            return NONE, math.sqrt(1.0 - NONE**2)
        while True:
            share = float(rng.beta(SHAPE, SHAPE if whole else OWN_SHAPE))
            tau, phi = math.sqrt(1.0 - share), math.sqrt(share)
            if min(tau, phi) >= LEAST:
                return tau, phi

    @property
    def count(self) -> int:
        """How many features a level has."""
        return int(self.features.shape[1])

    def axes(self, rewarded: NDArray[np.bool_]) -> Axes:
        """Return the axes for the rewarded levels, a mask (p,)."""
        key, last = rewarded.tobytes(), self._last
        if last is None or last[0] != key:
            some = self._along[rewarded]
            squares, V = np.linalg.eigh(some.T @ some)
            squares, V = np.maximum(squares[::-1], 0.0), V[:, ::-1]
            told = int((squares > _NOTHING * max(float(squares[0]), 1e-30)).sum())
            squares[told:] = 0.0
            G = np.column_stack([self._along @ V, np.ones(len(self._along))])
            found = Axes(
                self.first @ V,
                G,
                np.ascontiguousarray(G.T),
                squares.copy(),
                told,
                np.flatnonzero(rewarded).astype(np.int64),
            )
            last = self._last = key, found
        return last[1]

    @cached_property
    def spectrum(self) -> tuple[Floats, Floats]:
        """The eigenvalues (p,) and eigenvectors (p, p) of what the features of two levels have in common, F F' / m."""
        values, vectors = np.linalg.eigh(self.features @ self.features.T / self.count)
        return np.maximum(values, 0.0), vectors

    def __deepcopy__(self, memo: Any) -> Self:
        return self  # nothing of it changes but what is worked out again when it is missing


@cache
def sure_odds() -> float:
    """Return the log of how likely it is that features determine rows, over the constant of the density else."""
    below, upto = betainc(SHAPE, OWN_SHAPE, (LEAST**2, 1.0 - LEAST**2))
    within = float(upto - below)
    return math.log(SURE / (1.0 - SURE) * within) + float(betaln(SHAPE, OWN_SHAPE))


DescribedModes = Mapping[int, ModeFeatures]  # by position of the mode
NOT_DESCRIBED: DescribedModes = {}


def described(features: Mapping[int, Floats], *, explained: float = 0.0) -> dict[int, ModeFeatures]:
    """Return the features (p_j, m_j) of some modes, by their position, as chains take them."""
    return {mode: ModeFeatures(one, explained=explained) for mode, one in features.items()}

"""What features say of the rows of a mode's levels: a regression that is learned together with the tensor.

With ``F`` (p, m) the features of the levels of a mode, standardised, and ``U`` (p, r) its rows::

    U  =  F B + tau E,    E ~ N(0, 1),    B = phi Z / sqrt(m),    Z ~ N(0, 1),    tau, phi ~ |N(0, 1/2)|

so that ``tau^2 + phi^2`` is 1 in the prior mean, and rows keep the scale that the core expects. With ``phi`` near 0
features say nothing, with ``tau`` near 0 they say everything; how much they say is learned. Every step draws from the
exact conditional law, or is a Metropolis step that leaves it alone. Those given the rows (*centred*) move when levels
have much of their own; those that move the rows too, given the rewards (*non-centred*), move when they have little.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, Self

import numpy as np
from scipy.special import ndtr, ndtri

from tensorbandits.base.checks import Cell, check_array, check_level, check_positive
from tensorbandits.tensor.tucker import Floats

Features = Mapping[int, Floats]  # those of the levels, standardised, (p_j, m_j), by position of the mode
NO_FEATURES: Features = {}
MOVING = 0.25  # how often a sweep moves rows together with what features say of them
MOST = 1_000  # features of a mode
HALF = 0.5  # the prior's variance of tau and phi before they are taken without their sign
_LEAST = 1e-3  # tau and phi: less says as much
_STEPS = 2  # of Metropolis on the logarithm of a scale
_AT_ONCE = 8  # coefficients that are redrawn together given the rewards, for each column
_LARGEST, _LARGEST_FEATURE = 1e60, 1e4  # coefficient; feature, whose size should be about 1
_FAR = 6.0  # deviations above the mean, beyond which a normal number is drawn as an exponential one


class FeaturePrior:
    """The prior of the rows (p, r) of a mode given features (p, m), and one draw of its coefficients and scales."""

    def __init__(self, features: Floats, B: Floats, tau: float, phi: float) -> None:
        self.features, self.B, self.tau, self.phi = features, B, tau, phi
        # F'F = V diag(s) V', in which the coefficients given the rows are independent.
        self._s, self._V = np.linalg.eigh(features.T @ features)

    @classmethod
    def drawn(cls, features: Floats, columns: int, rng: np.random.Generator) -> Self:
        """Draw coefficients and scales from their prior."""
        tau, phi = (max(math.sqrt(HALF) * abs(x), _LEAST) for x in rng.standard_normal(2).tolist())
        m = features.shape[1]
        return cls(features, phi / math.sqrt(m) * rng.standard_normal((m, columns)), tau, phi)

    @property
    def mean(self) -> Floats:
        """What the features say of the rows, (p, r)."""
        return np.asarray(self.features @ self.B)

    @property
    def precision(self) -> float:
        """The prior's precision of an entry of a row about that."""
        return 1.0 / (self.tau * self.tau)

    def rows(self, noise: Floats) -> Floats:
        """Return rows drawn from the prior, given standard normal noise of the last levels, (n, r)."""
        return np.asarray(self.mean[len(self.features) - len(noise) :] + self.tau * noise)

    def redraw(self, rows: Floats, rng: np.random.Generator) -> None:
        """Redraw coefficients and scales given the rows (p, r)."""
        p, r = rows.shape
        m = self.features.shape[1]
        variance = 1.0 / (self._s / self.tau**2 + m / self.phi**2)  # (m,), in the basis of V
        mean = variance[:, None] * (self._V.T @ (self.features.T @ rows)) / self.tau**2
        self.B = self._V @ (mean + np.sqrt(variance)[:, None] * rng.standard_normal((m, r)))
        own = rows - self.mean
        self.tau = _step(self.tau, p * r, float((own * own).sum()), rng)
        self.phi = _step(self.phi, m * r, m * float((self.B * self.B).sum()), rng)

    def redraw_with_rows(self, rows: Floats, A: Floats, b: Floats, rng: np.random.Generator) -> Floats:
        """Redraw scales and some coefficients together with the rows, and return these.

        ``A`` (p, r, r) and ``b`` (p, r) are the normal equations of the rows: what the rewards say of them.
        """
        mean = self.mean
        own = rows - mean
        self.tau, own = self._stretched(self.tau, own, mean, A, b, rng)  # what is a level's own keeps its ratios
        self.phi, mean = self._stretched(self.phi, mean, own, A, b, rng, coefficients=True)
        own, mean = self._shifted(own, mean, A, b, rng)
        return own + mean

    def _stretched(
        self,
        scale: float,
        part: Floats,
        rest: Floats,
        A: Floats,
        b: Floats,
        rng: np.random.Generator,
        *,
        coefficients: bool = False,
    ) -> tuple[float, Floats]:
        """Redraw a scale with all that it multiplies, given the ratios: a normal number above the least."""
        unit = part / scale
        moved = np.einsum("pij,pj->pi", A, unit)
        precision = float((unit * moved).sum()) + 1.0 / HALF
        slope = float((unit * b).sum() - (moved * rest).sum())
        found = _above(_LEAST, slope / precision, precision**-0.5, rng)
        if coefficients:
            self.B = self.B * (found / scale)
        return found, found * unit

    def _shifted(
        self, own: Floats, mean: Floats, A: Floats, b: Floats, rng: np.random.Generator
    ) -> tuple[Floats, Floats]:
        """Redraw some coefficients given what is each level's own."""
        m, r = self.B.shape
        some = np.sort(rng.choice(m, _AT_ONCE, replace=False)) if m > _AT_ONCE else np.arange(m)
        F = self.features[:, some]
        rest = mean - F @ self.B[some] + own
        left = b - np.einsum("pij,pj->pi", A, rest)
        precision = np.einsum("pa,pc,pij->aicj", F, F, A, optimize=True).reshape(len(some) * r, len(some) * r)
        precision[np.diag_indices_from(precision)] += m / self.phi**2
        L = np.linalg.cholesky(precision)
        half = np.linalg.solve(L, (F.T @ left).ravel())
        drawn = np.linalg.solve(L.T, half + rng.standard_normal(len(half)))
        self.B = self.B.copy()
        self.B[some] = drawn.reshape(len(some), r)
        return own, self.mean

    def sizes(self, column: Floats, at: int) -> tuple[int, float]:
        """Return the number of coefficients of a column, and the sum of squares that it says of its scale.

        That is of what is each level's own and of the coefficients, each in units of its prior deviation.
        """
        m, own = len(self.B), column - self.features @ self.B[:, at]
        return m, float(own @ own) / self.tau**2 + m * float(self.B[:, at] @ self.B[:, at]) / self.phi**2

    def explained(self) -> float:
        """Return the share of the rows' variance that features explain, as drawn."""
        guided = float(np.mean(self.mean**2))
        return guided / (guided + self.tau**2)

    def grown(self, features: Floats) -> FeaturePrior:
        """Return the same for other features of the levels, of which there may be more."""
        return FeaturePrior(features, self.B, self.tau, self.phi)

    def state(self) -> dict[str, Any]:
        """Return the draw as plain arrays and numbers."""
        return {"B": self.B.copy(), "tau": self.tau, "phi": self.phi}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], features: Floats, columns: int) -> Self:
        """Return the draw that :meth:`state` described, which must be of as many features and columns."""
        size = (features.shape[1], columns)
        B = check_array(state["B"], "the coefficients of the features", size, largest=_LARGEST)
        return cls(features, B.copy(), *_scales(state))


class FeatureCovariance:
    """The prior covariance of numbers of the levels (p,) of a mode given features, its coefficients averaged out.

    It is ``phi^2 F F' / m + tau^2``: what features say and what is each level's own. Numbers that are all drawn
    together have it, so that no chain has to find coefficients.
    """

    def __init__(self, features: Floats, tau: float, phi: float) -> None:
        self.features, self.tau, self.phi = features, tau, phi
        values, self._Q = np.linalg.eigh(features @ features.T / features.shape[1])
        self._values = np.maximum(values, 0.0)

    @classmethod
    def drawn(cls, features: Floats, rng: np.random.Generator) -> Self:
        """Draw the scales from their prior."""
        tau, phi = (max(math.sqrt(HALF) * abs(x), _LEAST) for x in rng.standard_normal(2).tolist())
        return cls(features, tau, phi)

    @property
    def precision(self) -> float:
        """The precision of a number given what features say of it."""
        return 1.0 / (self.tau * self.tau)

    @property
    def _variances(self) -> Floats:
        return np.asarray(self.phi**2 * self._values + self.tau**2)

    def inverse(self) -> Floats:
        """Return the inverse of the covariance, (p, p)."""
        return np.asarray((self._Q / self._variances) @ self._Q.T)

    def coloured(self, noise: Floats) -> Floats:
        """Return numbers drawn from the prior, given standard normal noise (p, n)."""
        return np.asarray(self._Q @ (np.sqrt(self._variances)[:, None] * noise))

    def whitened(self, numbers: Floats) -> Floats:
        """Return numbers (p, n) as the noise that they were made of."""
        return np.asarray((self._Q.T @ numbers) / np.sqrt(self._variances)[:, None])

    def redraw(self, noise: Floats, rng: np.random.Generator) -> None:
        """Redraw both scales by Metropolis steps, given numbers (p, n) as :meth:`whitened` returned them."""
        squares, n = (noise**2).sum(axis=1) * self._variances, noise.shape[1]
        length = 2.0 / math.sqrt(len(squares) * n + 1.0)

        def log_density(tau: float, phi: float) -> float:
            variances = phi**2 * self._values + tau**2
            fit = float((n * np.log(variances) + squares / variances).sum())
            return math.log(tau * phi) - 0.5 * (fit + (tau**2 + phi**2) / HALF)

        here = log_density(self.tau, self.phi)
        for step in range(3 * _STEPS):
            moves = length * (1.0, 4.0, 16.0)[step % 3] * rng.standard_normal(2)
            tau, phi = self.tau * math.exp(moves[0]), self.phi * math.exp(moves[1])
            if min(tau, phi) >= _LEAST and (there := log_density(tau, phi)) - here > -rng.standard_exponential():
                self.tau, self.phi, here = tau, phi, there

    def explained(self) -> float:
        """Return the share of the numbers' variance that features explain, as drawn."""
        guided = self.phi**2 * float(self._values.mean())
        return guided / (guided + self.tau**2)

    def grown(self, features: Floats) -> FeatureCovariance:
        """Return the same for other features of the levels, of which there may be more."""
        return FeatureCovariance(features, self.tau, self.phi)

    def state(self) -> dict[str, Any]:
        """Return the draw as plain numbers."""
        return {"tau": self.tau, "phi": self.phi}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], features: Floats, columns: int) -> Self:
        """Return the draw that :meth:`state` described."""
        return cls(features, *_scales(state))


def check_features(features: Any, shape: Cell) -> dict[int, Floats]:
    """Return the features of the levels of some modes, checked: numbers (levels, numbers) by position of the mode.

    >>> check_features({1: [[0.5], [-0.5]]}, (3, 2))
    {1: array([[ 0.5],
           [-0.5]])}
    >>> check_features({1: [[0.5], [-0.5]]}, (3, 4))
    Traceback (most recent call last):
    ...
    ValueError: the features of mode 1 have shape (2, 1); it has 4 levels: give one line of numbers for each
    """
    if not isinstance(features, Mapping):
        raise TypeError(f"features is {features!r}; give lines of numbers by mode: {{1: [[0.5, 1.2], [-0.3, 0.1]]}}")
    found = {}
    for name, numbers in features.items():
        mode = check_level(int(name) if isinstance(name, str) and name.isdigit() else name, len(shape), "a mode")
        found[mode] = check_described(numbers, mode, shape[mode])
    return dict(sorted(found.items()))


def check_described(features: Any, mode: int, levels: int) -> Floats:
    """Return the features of the levels of one mode, checked, (levels, numbers)."""
    numbers = np.asarray(features, dtype=np.float64)
    if numbers.ndim != 2 or len(numbers) != levels or not numbers.shape[1]:
        raise ValueError(
            f"the features of mode {mode} have shape {numbers.shape}; it has {levels} levels: give one line of numbers "
            "for each"
        )
    if numbers.shape[1] > MOST:
        raise ValueError(f"mode {mode} has {numbers.shape[1]:,} features; at most {MOST:,} are allowed: leave some out")
    return check_array(numbers, f"the features of mode {mode}", numbers.shape, largest=_LARGEST_FEATURE).copy()


def check_modes(state: Mapping[str, Any], modes: Collection[int]) -> Mapping[str, Any]:
    """Return the priors that a chain's state has, which must be those of just these modes."""
    found: Mapping[str, Any] = state.get("features", {})
    if set(found) != {str(mode) for mode in modes}:
        raise ValueError(f"the chain has features of the modes {sorted(found)}; the policy of {sorted(modes)}")
    return found


def _scales(state: Mapping[str, Any]) -> tuple[float, float]:
    """Return tau and phi of a state, checked."""
    tau, phi = (
        check_positive(check_array(state[name], f"{name} of the features", ()).item(), f"{name} of the features")
        for name in ("tau", "phi")
    )
    return tau, phi


def _step(scale: float, count: int, square: float, rng: np.random.Generator) -> float:
    """Return a scale after Metropolis steps on its logarithm, given ``count`` normal numbers of this sum of squares."""
    length = 2.0 / math.sqrt(count + 1.0)
    for _ in range(_STEPS):
        there = scale * math.exp(length * rng.standard_normal())
        gain = (1.0 - count) * math.log(there / scale)
        gain -= 0.5 * square * (there**-2.0 - scale**-2.0) + 0.5 * (there**2 - scale**2) / HALF
        if there >= _LEAST and gain > -rng.standard_exponential():
            scale = there
    return scale


def _above(least: float, mean: float, deviation: float, rng: np.random.Generator) -> float:
    """Return a normal number given that it is above the least.

    >>> rng = np.random.default_rng(0)
    >>> _above(1.0, -50.0, 0.5, rng) > 1.0, _above(1.0, 50.0, 0.5, rng) > 40.0
    (True, True)
    """
    start = (least - mean) / deviation
    if start > _FAR:  # far in the tail: an exponential number, tried until it is accepted
        while True:
            over = rng.standard_exponential() / start
            if 0.5 * over * over < rng.standard_exponential():
                return least + over * deviation
    below = float(ndtr(start))
    return max(least, mean + deviation * float(ndtri(below + (1.0 - below) * rng.random())))

"""What features say of the rows of a mode's levels: a regression that is learned together with the tensor.

With ``F`` (p, m) the features of the levels of a mode, standardised, and ``U`` (p, r) its rows::

    U  =  1 b' + F B + tau E,    E ~ N(0, 1),    b ~ N(0, 1),    B = phi Z / sqrt(m),    Z ~ N(0, 1)

where ``phi^2 = 1 - tau^2`` is the share of the rows that features explain: the core has a scale of its own, so that
rows need none. With probability 1/4 features determine rows (``tau`` is next to nothing), else the prior of the share
is a beta law with shapes 1/8 and 2, much of it near 0: features may well say everything, or nothing. Numbers that are
all drawn together have one with both shapes 1/8. Without the average row ``b``, features that are about 0 could not say
anything of rows that are not; and where structures have main effects, rows can be moved by the same with no value
changed.

Every step draws from the exact conditional law, or is a Metropolis step that leaves it alone. Those given the rows
(*centred*) move when levels have much of their own; those that move the rows too, given the rewards (*non-centred*),
move when they have little: the scales then with these rows averaged out. Those of levels without rewards always are,
and are redrawn next: else the scales could not leave them behind.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from tensorbandits.base.checks import Cell, check_array, check_level, check_positive
from tensorbandits.model.described import LEAST, NONE, OWN_SHAPE, SHAPE, ModeFeatures, sure_odds
from tensorbandits.tensor.tucker import Floats, Ints

Scales = Mapping[int, tuple[float, float]]  # tau and phi of the modes with features, by position
Features = Mapping[int, Floats]  # those of the levels, standardised, (p_j, m_j), by position of the mode
NO_FEATURES: Features = {}
MOVING = 0.15  # how often a sweep or two move rows together with what features say of them; of many, each time
MOST = 1_000  # features of a mode
_DETERMINED = 0.99  # a share that features explain, which leaves next to nothing for a level's own
_STEPS = 3  # of Metropolis on the scales
_AT_ONCE = 8  # coefficients that are redrawn together given the rewards, for each column
_LARGEST, _LARGEST_FEATURE = 1e60, 1e4  # coefficient; feature, whose size should be about 1


class RowPlace(NamedTuple):
    """Where the free rows of a mode are among the rows and precisions of all modes, and the sizes of their columns."""

    at: Ints  # where its rows start, how wide they are, how many columns are fixed, where its columns start
    sizes: Floats  # (q,)

    @classmethod
    def alone(cls, columns: int) -> Self:
        """Return that of rows (p, columns) by themselves."""
        return cls(np.array([0, columns, 0, 0], dtype=np.int64), np.ones(columns))


class FeaturePrior:
    """The prior of the rows (p, q) of a mode given its features, and one draw of its coefficients and scales."""

    def __init__(self, described: ModeFeatures, B: Floats, base: Floats, tau: float, phi: float) -> None:
        self.described = described
        prior = LEAST, SHAPE, OWN_SHAPE, NONE, sure_odds()
        self._numbers = np.array([tau, phi, described.count, *prior, float(not described.explained)])
        self._axes = described.axes(np.zeros(len(described.features), dtype=bool))
        self._C = np.column_stack([B.T @ self._axes.Q, base])  # (q, k + 1): along the axes, and the average row

    @classmethod
    def drawn(cls, described: ModeFeatures, columns: int, rng: np.random.Generator) -> Self:
        """Draw coefficients and scales from their prior."""
        tau, phi = described.scales(rng)
        m = described.count
        B, base = phi / math.sqrt(m) * rng.standard_normal((m, columns)), rng.standard_normal(columns)
        return cls(described, B, base, tau, phi)

    @property
    def tau(self) -> float:
        """The deviation of what is each level's own."""
        return float(self._numbers[0])

    @property
    def phi(self) -> float:
        """The deviation of what features say."""
        return float(self._numbers[1])

    @property
    def determined(self) -> bool:
        """Whether next to nothing is left that is a level's own, so that rows do not move by themselves."""
        return self.phi**2 > _DETERMINED

    @property
    def B(self) -> Floats:
        """The coefficients of the features, (m, q); along what no level has, there are none."""
        return np.asarray(self._axes.Q @ self._C[:, :-1].T)

    @property
    def base(self) -> Floats:
        """The average row, (q,)."""
        return self._C[:, -1].copy()

    @property
    def mean(self) -> Floats:
        """What the rows are about, (p, q): the average row, and what the features say."""
        return np.asarray(self._axes.G @ self._C.T)

    @property
    def precision(self) -> float:
        """The prior's precision of an entry of a row about that."""
        return 1.0 / (self.tau * self.tau)

    def rows(self, noise: Floats) -> Floats:
        """Return rows drawn from the prior, given standard normal noise of the last levels, (n, q)."""
        mean = self.mean
        return np.asarray(mean[len(mean) - len(noise) :] + self.tau * noise)

    def hold(self, scales: tuple[float, float] | None) -> None:
        """Keep tau and phi as given from now on, without redrawing them; ``None`` has them learned again."""
        self._numbers[-1] = float(scales is None and not self.described.explained)
        if scales is not None:
            self._numbers[:2] = scales

    def redraw(
        self,
        rewarded: NDArray[np.bool_],
        place: RowPlace,
        rows: Floats,
        means: Floats,
        precision: Floats,
        rng: np.random.Generator,
    ) -> None:
        """Redraw coefficients and scales given the ``rows`` of rewarded levels, a mask (p,), whatever others are.

        These must be redrawn next: ``means`` and ``precision``, those of the rows' prior, are set for that. All three
        are flat, and have other modes too.
        """
        from tensorbandits.model._features_kernels import redraw_coefficients

        axes = self._axes = self.described.axes(rewarded)
        noise = rng.standard_normal(self._C.size + _STEPS)
        redraw_coefficients(
            *(rows, *place, axes.levels, axes.G, axes.T, axes.squares, axes.told, self._numbers, self._C),
            *(noise, noise[self._C.size :], rng.standard_exponential(_STEPS), means, precision),
        )

    def follow(self, place: RowPlace, means: Floats, precision: Floats) -> None:
        """Set the means and the precision of the rows' prior, flat as :meth:`redraw` has them."""
        from tensorbandits.model._features_kernels import set_prior

        set_prior(*place, self._axes.T, self._numbers, self._C, means, precision)

    def move(
        self,
        place: RowPlace,
        rows: Floats,
        A: Floats,
        b: Floats,
        means: Floats,
        precision: Floats,
        rng: np.random.Generator,
        *,
        scales: bool = True,
    ) -> None:
        """Redraw ``scales`` and some coefficients together with the rows of rewarded levels; the others must be next.

        ``A`` (p, q, q) and ``b`` (p, q) are the normal equations of the rows in units of their columns' sizes: what the
        rewards say of them.
        """
        from tensorbandits.model._features_kernels import move_rows

        axes, (q, k) = self._axes, self._C.shape
        some = np.arange(min(axes.told, _AT_ONCE) + 1)
        if axes.told > _AT_ONCE:
            some = (some + rng.integers(axes.told)) % axes.told
        some[-1] = k - 1  # and the average row
        move_rows(
            *(rows, *place, A, b, axes.levels, axes.G, axes.T, self._numbers, self._C, some, int(scales)),
            *(rng.standard_normal(_STEPS + q * (len(axes.G) + len(some))), rng.standard_exponential(_STEPS + 2)),
            *(means, precision),
        )

    def fill(self, rows: Floats, rng: np.random.Generator) -> None:
        """Redraw the rows (p, q) of levels without rewards, in place, from their prior."""
        rest = np.ones(len(rows), dtype=bool)
        rest[self._axes.levels] = False
        rows[rest] = self.mean[rest] + self.tau * rng.standard_normal((int(rest.sum()), rows.shape[1]))

    def scale(self, column: int, factor: float) -> None:
        """Multiply the coefficients of a column, and its entry of the average row."""
        self._C[column] *= factor

    def sizes(self, column: Floats, at: int) -> tuple[int, float]:
        """Return the number of coefficients of a column, and the sum of squares that it says of its scale.

        That is of what is each level's own and of the coefficients, each in units of its prior deviation.
        """
        C, m = self._C[at], self.described.count
        own, base = column - self._axes.G @ C, float(C[-1])
        guided = float(C @ C) - base**2
        return len(C), float(own @ own) / self.tau**2 + m * guided / self.phi**2 + base**2

    def grown(self, described: ModeFeatures, rng: np.random.Generator | None = None) -> FeaturePrior:
        """Return the same for other features of the levels, of which there may be more.

        What is not known of a coefficient is drawn from the prior, or nothing at first, until all of them are redrawn.
        """
        B, Q = self.B, self._axes.Q
        if rng is not None and Q.shape[1] < len(Q):
            fresh = self.phi / math.sqrt(len(Q)) * rng.standard_normal(B.shape)
            B = B + fresh - Q @ (Q.T @ fresh)
        return FeaturePrior(described, B, self.base, self.tau, self.phi)

    def state(self) -> dict[str, Any]:
        """Return the draw as plain arrays and numbers."""
        along = {"along": self._C.copy(), "rewarded": self._axes.levels.copy()}
        return {"B": self.B, "base": self.base, "tau": self.tau, "phi": self.phi} | along

    @classmethod
    def from_state(cls, state: Mapping[str, Any], described: ModeFeatures, columns: int) -> Self:
        """Return the draw that :meth:`state` described, which must be of as many features and columns."""
        size = (described.count, columns)
        B = check_array(state["B"], "the coefficients of the features", size, largest=_LARGEST)
        base = check_array(state["base"], "the average row given features", (columns,), largest=_LARGEST)
        found = cls(described, B, base, *_scales(state))
        rewarded = np.zeros(len(described.features), dtype=bool)
        levels = np.asarray(state["rewarded"])
        if levels.ndim != 1 or levels.dtype.kind != "i" or np.any((levels < 0) | (levels >= len(rewarded))):
            raise ValueError(f"the levels with rewards are {levels!r}; each is one of {len(rewarded)} levels")
        rewarded[levels] = True
        axes, C = described.axes(rewarded), found._C
        along = check_array(state["along"], "coefficients along axes", C.shape, largest=_LARGEST)
        if np.allclose(axes.Q @ along[:, :-1].T, found.B, rtol=1e-9, atol=1e-9 * float(np.abs(B).max())):
            found._axes, found._C = axes, along.copy()  # the same to the bit, unless another machine chose other axes
        return found


def rewarded_levels(cells: Ints, mode: int, levels: int) -> NDArray[np.bool_]:
    """Return which levels of a mode the cells (n, d) have, (p,)."""
    found = np.zeros(levels, dtype=bool)
    found[cells[:, mode]] = True
    return found


class FeatureCovariance:
    """The prior covariance of numbers of the levels (p,) of a mode given features, its coefficients averaged out.

    It is ``phi^2 F F' / m + tau^2``: what features say and what is each level's own. Numbers that are all drawn
    together have it, so that no chain has to find coefficients.
    """

    def __init__(self, described: ModeFeatures, tau: float, phi: float) -> None:
        self.described, self.tau, self.phi = described, tau, phi
        self._learned = not described.explained
        self._values, self._Q = described.spectrum

    @classmethod
    def drawn(cls, described: ModeFeatures, rng: np.random.Generator) -> Self:
        """Draw the scales from their prior."""
        return cls(described, *described.scales(rng, whole=True))

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

    def hold(self, scales: tuple[float, float] | None) -> None:
        """Keep tau and phi as given from now on, without redrawing them; ``None`` has them learned again."""
        self._learned = scales is None and not self.described.explained
        if scales is not None:
            self.tau, self.phi = scales

    def redraw(self, noise: Floats, rng: np.random.Generator) -> None:
        """Redraw both scales by Metropolis steps, given numbers (p, n) as :meth:`whitened` returned them."""
        if not self._learned:
            return
        squares, n = (noise**2).sum(axis=1) * self._variances, noise.shape[1]
        length = 2.0 / math.sqrt(len(squares) * n + 1.0)

        def log_density(share: float) -> float:
            variances = share * self._values + 1.0 - share
            return SHAPE * math.log(share * (1.0 - share)) - 0.5 * float(
                (n * np.log(variances) + squares / variances).sum()
            )

        share = self.phi**2
        here = log_density(share)
        for step in range(3 * _STEPS):
            x = math.log(share / (1.0 - share)) + length * (1.0, 4.0, 16.0)[step % 3] * rng.standard_normal()
            moved = float(expit(x))
            outside = not LEAST**2 <= moved <= 1.0 - LEAST**2
            if not outside and (there := log_density(moved)) - here > -rng.standard_exponential():
                share, here = moved, there
        self.tau, self.phi = math.sqrt(1.0 - share), math.sqrt(share)

    def grown(self, described: ModeFeatures, rng: np.random.Generator | None = None) -> FeatureCovariance:
        """Return the same for other features of the levels, of which there may be more."""
        return FeatureCovariance(described, self.tau, self.phi)

    def state(self) -> dict[str, Any]:
        """Return the draw as plain numbers."""
        return {"tau": self.tau, "phi": self.phi}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], described: ModeFeatures, columns: int) -> Self:
        """Return the draw that :meth:`state` described."""
        return cls(described, *_scales(state))


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

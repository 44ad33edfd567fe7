"""Posterior sampling of a tensor of main effects and interactions of pairs of modes, from a ledger.

The prior, with ``m`` and ``s`` the centre and scale of the tensor's values::

    offset          ~ N(m, OFFSET_VARIANCE s^2)
    a_j[i]          ~ N(0, scale_j^2),       scale_j  ~ |N(0, M^2)|,   M ~ |N(0, s^2)|
    C_jk entries    ~ N(0, scale_jk^2),      scale_jk ~ |N(0, G^2)|,   G ~ |N(0, (PAIRS s)^2 / (d - 1))|
    u_j[i]          ~ N(0, I)                for a mode that is not complete

so that the modes and pairs that do nothing vanish, and how many do something is learned. Where levels have features,
main effects, rows and cores of complete modes are about what these say (``model/features.py``). Given the rows and the
scales, all other numbers are normal: offset, main effects of complete modes and all cores are drawn *together*, from
normal equations that are kept from sweep to sweep and changed only where a cell's precision did. So the sampler does
not crawl along what play leaves undecided: which of offset, effects and interactions a much-played cell owes its value
to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tensorbandits.base.checks import Cell, check_array, check_positive
from tensorbandits.ledger import Ledger
from tensorbandits.model.described import NOT_DESCRIBED, DescribedModes
from tensorbandits.model.features import (
    MOVING,
    FeatureCovariance,
    FeaturePrior,
    RowPlace,
    check_modes,
    rewarded_levels,
)
from tensorbandits.model.likelihood import NOISE_RATE, NOISE_SHAPE, Gaussian, Likelihood, Observations, Units, Values
from tensorbandits.model.residual import Residual
from tensorbandits.tensor.pairs import Pairs, PairsLayout
from tensorbandits.tensor.tucker import Floats, Ints

OFFSET_VARIANCE = 1.0
_PAIRS = 0.7  # prior size of interactions beside main effects
_LEAST = 1e-4  # of the values' scale: a scale
_STEPS = 2  # of each scale, a sweep
_GRAIN = 2.0**-24  # to which precisions are rounded, so that sums of them are exact and can be changed for ever
_MAINS, _PAIRWISE = 0, 1  # groups of scales


class Blocks:
    """Where the numbers that are drawn together stand: offset, main effects of complete modes, and all cores."""

    def __init__(self, layout: PairsLayout) -> None:
        d = len(layout.shape)
        self.mains: Ints = np.full(d, -1, dtype=np.int64)
        end, blocks = 1, []
        for j in range(d):
            if layout.complete[j]:
                self.mains[j] = end
                blocks.append((end, end + layout.columns[j], j))
                end += layout.columns[j]
        self.cores = end
        for number, (j, k) in enumerate(layout.pairs):
            size = layout.columns[j] * layout.columns[k]
            blocks.append((end, end + size, d + number))
            end += size
        self.size = end
        found = [block for block in blocks if block[1] > block[0]]
        self.blocks: Ints = np.array(found, dtype=np.int64).reshape(-1, 3)
        self.groups: Ints = np.array([_MAINS] * d + [_PAIRWISE] * len(layout.pairs), dtype=np.int64)
        self.counts: Ints = np.array(
            [layout.columns[j] if layout.complete[j] else layout.shape[j] for j in range(d)]
            + [layout.columns[j] * layout.columns[k] for j, k in layout.pairs],
            dtype=np.int64,
        )


class PairsChain:
    """The state of the sampler of a tensor of pairs: one draw of it, of the scales, and of the likelihood's parameters.

    ``scales`` has one for the main effects of each mode, then one for the core of each pair; ``hypers`` the deviations
    of both kinds.
    """

    def __init__(
        self,
        model: Pairs,
        scales: Floats,
        hypers: Floats,
        likelihood: Likelihood,
        residual: Residual | None = None,
        features: Mapping[int, FeaturePrior | FeatureCovariance] | None = None,
    ) -> None:
        self.model, self.scales, self.hypers = model, scales, hypers
        self.likelihood, self.residual = likelihood, residual
        self.features = dict(features or {})  # the priors of the modes whose levels have some
        self._lay_out()

    def _lay_out(self) -> None:
        layout = self.model.layout
        self._blocks = Blocks(layout)
        self._open = [j for j, whole in enumerate(layout.complete) if not whole]
        self._rowwise = {j: one for j, one in self.features.items() if isinstance(one, FeaturePrior)}
        self._shared = {j: one for j, one in self.features.items() if isinstance(one, FeatureCovariance)}
        self._A = np.zeros((self._blocks.size, self._blocks.size))
        self._counted: Floats = np.zeros(0)  # the precisions that A knows of

    @classmethod
    def from_prior(
        cls,
        shape: Cell,
        rank: Cell,
        units: Units,
        rng: np.random.Generator,
        *,
        likelihood: Likelihood | None = None,
        residual: bool = False,
        features: DescribedModes = NOT_DESCRIBED,
    ) -> Self:
        """Draw everything from the prior, the parameters of the likelihood too; by default it is Gaussian.

        ``features`` are those of the levels, by position of the mode.
        """
        layout = layout_of(shape, rank, features)
        hypers = _limits(units, len(shape))[1:] * np.abs(rng.standard_normal(2))
        groups = Blocks(layout).groups
        scales = np.maximum(hypers[groups] * np.abs(rng.standard_normal(len(groups))), _LEAST * units.scale)
        offset = units.centre + units.scale * math.sqrt(OFFSET_VARIANCE) * rng.standard_normal()
        likelihood = (likelihood or Gaussian(1.0, learned=True)).drawn(units, rng)
        likelihood.grow(shape, rng)
        tensor = Pairs(layout, np.zeros(layout.levels), layout.fixed_codes(), np.zeros(layout.entries), float(offset))
        priors: dict[int, FeaturePrior | FeatureCovariance] = {
            j: FeatureCovariance.drawn(one, rng)
            if layout.complete[j]
            else FeaturePrior.drawn(one, 1 + layout.columns[j], rng)
            for j, one in features.items()
        }
        chain = cls(tensor, scales, hypers, likelihood, Residual.start(units) if residual else None, priors)
        chain._fill(rng.standard_normal(layout.size))
        return chain

    def _fill(self, noise: Floats) -> None:
        """Draw effects, rows and cores from the prior, given the scales and standard normal numbers."""
        layout, blocks = self.model.layout, self._blocks
        beta = np.zeros(blocks.size)
        for start, end, which in blocks.blocks.tolist():
            beta[start:end] = self.scales[which] * self._each_side(which, noise[start:end], FeatureCovariance.coloured)
        self._put(beta, keep_offset=True)
        used = blocks.size
        for j in self._open:
            p, q = layout.shape[j], layout.columns[j]
            own = noise[used : used + p * (1 + q)].reshape(p, 1 + q)
            used += p * (1 + q)
            self._put_rows(j, self._rowwise[j].rows(own) if j in self._rowwise else own)

    def _sides(self, which: int) -> list[int]:
        """Return the modes of a block: one of main effects, two of a core."""
        d = len(self.model.shape)
        return [which] if which < d else list(self.model.layout.pairs[which - d])

    def _each_side(self, which: int, block: Floats, change: Callable[[FeatureCovariance, Floats], Floats]) -> Floats:
        """Return a block changed along each of its modes that has a covariance of levels, (m,)."""
        if not self._shared:
            return block
        for j in self._sides(which):
            if (one := self._shared.get(j)) is not None:
                block = self._along(which, j, change(one, self._along(which, j, block)), back=True)
        return block

    def _along(self, which: int, mode: int, block: Floats, *, back: bool = False) -> Floats:
        """Return a block (m,) as a table (p, m / p) with a line for each level of a mode, or turn that back."""
        sides = self._sides(which)
        size, axis = [self.model.layout.columns[j] for j in sides], sides.index(mode)
        if back:
            turned = [size[axis], *(n for k, n in enumerate(size) if k != axis)]
            return np.moveaxis(block.reshape(turned), 0, axis).ravel()
        return np.moveaxis(block.reshape(size), axis, 0).reshape(size[axis], -1)

    def _add_covariances(self, A: Floats, prior: Floats) -> None:
        """Move the prior precision of blocks whose levels have a covariance from the diagonal into ``A``."""
        columns = self.model.layout.columns
        for start, end, which in self._blocks.blocks.tolist():
            sides = self._sides(which)
            if any(j in self._shared for j in sides):
                each = [self._shared[j].inverse() if j in self._shared else np.eye(columns[j]) for j in sides]
                A[start:end, start:end] += self.scales[which] ** -2.0 * (each[0] if len(each) == 1 else np.kron(*each))
                prior[start:end] = 0.0

    def _rows(self, mode: int) -> Floats:
        """Return the main effects, in units of their scale, and the rows of a mode that is not complete, (p, 1 + q)."""
        return np.column_stack([self.model.effects_of(mode) / self.scales[mode], self.model.rows(mode)])

    def _put_rows(self, mode: int, rows: Floats) -> None:
        """Take over main effects, in units of their scale, and rows of a mode that is not complete."""
        layout = self.model.layout
        self.model.effects_of(mode)[:] = self.scales[mode] * rows[:, 0]
        self.model.codes[layout.codes[mode] : layout.codes[mode + 1]] = rows[:, 1:].ravel()

    @property
    def structure(self) -> str:
        """Its name: without any interaction it is main effects alone."""
        return "pairs" if self.model.layout.paired else "additive"

    @property
    def noise_variance(self) -> float:
        """The variance of a single reward about its mean."""
        return self.likelihood.variance

    @property
    def finite(self) -> bool:
        """Whether floats hold what was drawn last."""
        model = self.model
        return math.isfinite(float(model.cores.sum() + model.effects.sum() + model.codes.sum()) + model.offset)

    @property
    def joint(self) -> bool:
        """Whether all numbers but scales are drawn together, so that the chain cannot be stuck."""
        return not self._open

    @property
    def entries(self) -> int:
        """How many numbers all rows have."""
        return len(self.model.codes)

    def calm(self, units: Units) -> Self:
        """Start from nothing upward: a chain of clicks or counts far out in the prior's tail comes down too slowly."""
        self.model.effects[:] = 0.0
        self.model.cores[:] = 0.0
        self.model.offset = units.centre
        self.hypers[:] = 0.5 * _limits(units, len(self.model.shape))[1:]
        self.scales[:] = self.hypers[self._blocks.groups]
        for one in self._rowwise.values():
            one.scale(0, 0.0)
        return self

    def sweep(
        self,
        ledger: Ledger,
        units: Units,
        rng: np.random.Generator,
        *,
        sweeps: int,
        keep: int = 0,
        weight: float = 1.0,
    ) -> Floats:
        """Redraw, ``sweeps`` times, the rows that are learned, all else together, the scales, and the noise variance.

        Rewards count ``weight`` times. Returns the model's numbers after each of ``keep`` equal shares of the sweeps.
        """
        kept = np.empty((keep, self.model.layout.size))
        for done in range(1, sweeps + 1):
            self._sweep(ledger, units, rng, weight)
            if done * keep % sweeps < keep:
                kept[done * keep // sweeps - 1] = self.model.line()
        return kept

    def _sweep(self, ledger: Ledger, units: Units, rng: np.random.Generator, weight: float) -> None:
        model, likelihood, residual = self.model, self.likelihood, self.residual
        if residual is not None:
            residual.align(len(ledger))
        # Rewards that are all alike are weighed as a whole, so that the equations change only where there are new ones.
        alike = not likelihood.augmented and residual is None
        values = self._looked_at(ledger) if likelihood.augmented else np.zeros(0)
        seen = likelihood.observe(ledger, units, values, rng, weight=1.0 if alike else weight)
        times = weight if alike else 1.0
        fitted_to = seen
        if residual is not None:
            residual.redraw_variance(seen, model.at(ledger.cells), units, likelihood.variance, rng)
            fitted_to = residual.soften(seen, likelihood.variance)
        self._redraw(fitted_to, units, times / likelihood.variance, rng)
        if residual is not None:
            likelihood.variance = residual.redraw(seen, model.at(ledger.cells), units, likelihood, rng)
        elif likelihood.learned:
            at = model.at(ledger.cells) - seen.centre
            errors = seen.squares + float((at * (seen.precision * at - 2.0 * _centred(seen, seen.precision))).sum())
            rate = NOISE_RATE * units.scale**2 + times * max(errors, 0.0) / 2.0
            likelihood.variance = float(rate / rng.standard_gamma(NOISE_SHAPE + times * seen.rounds / 2.0))

    def _redraw(self, seen: Observations, units: Units, tau: float, rng: np.random.Generator) -> None:
        """Redraw rows, all else together, and scales, given observations whose precision is in units of ``tau``."""
        from tensorbandits.model import _pairs_kernels as kernels

        model, blocks, layout = self.model, self._blocks, self.model.layout
        plan = layout.plan, layout.slots, layout.pair
        cells, N = seen.cells, np.round(seen.precision / _GRAIN) * _GRAIN
        Y = _centred(seen, N)
        for j in self._open:
            p, q = layout.shape[j], 1 + layout.columns[j]
            sizes = np.array([self.scales[j], *(1.0,) * (q - 1)])
            precision, mean = sizes**-2.0, np.zeros((p, q))
            if (one := self._rowwise.get(j)) is not None:
                precision, mean = one.precision * precision, one.mean * sizes
            equations, says = np.zeros((p, q, q)), np.zeros((p, q))
            kernels.redraw_rows(
                *(j, cells, N, Y, tau, *plan, model.effects, model.codes, model.cores, model.offset - seen.centre),
                *(precision, mean, rng.standard_normal((p, q)), equations, says),
            )
            if one is not None:
                scaled = equations * np.multiply.outer(sizes, sizes), says * sizes
                self._redraw_features(j, one, rewarded_levels(cells, j, p), scaled, rng)
        if self._open:  # the features have changed with the rows
            self._A[:] = 0.0
            change = N
            heads = layout.heads
            Y = Y - N * sum(model.effects[heads[j] + cells[:, j]] for j in self._open)
        else:
            change = N.copy()
            change[: len(self._counted)] -= self._counted[: len(N)]
        kernels.add_precisions(cells, change, *plan, model.codes, blocks.mains, blocks.cores, self._A)
        self._counted = N
        b = np.zeros(blocks.size)
        kernels.add_targets(cells, Y, *plan, model.codes, blocks.mains, blocks.cores, b)
        prior = np.empty(blocks.size)
        prior[0] = 1.0 / (OFFSET_VARIANCE * units.scale**2)
        for start, end, which in blocks.blocks.tolist():
            prior[start:end] = self.scales[which] ** -2.0
        A = tau * self._A
        if self._shared:
            self._add_covariances(A, prior)
        beta = _draw(A, prior, tau * b, rng.standard_normal(blocks.size))
        self._redraw_scales(b, tau, beta, units, rng)
        self._put(beta, centre=seen.centre)

    def _redraw_features(
        self,
        mode: int,
        one: FeaturePrior,
        rewarded: NDArray[np.bool_],
        equations: tuple[Floats, Floats],
        rng: np.random.Generator,
    ) -> None:
        """Redraw what features say of rows given these, then together with them, then rows that no rewards say of."""
        rows = self._rows(mode)
        flat, place = rows.ravel(), RowPlace.alone(rows.shape[1])
        means, precision = np.empty(flat.size), np.empty(rows.shape[1])  # which the next sweep works out again
        one.redraw(rewarded, place, flat, means, precision, rng)
        if rng.random() < MOVING:
            one.move(place, flat, *equations, means, precision, rng)
        rows = flat.reshape(rows.shape)
        one.fill(rows, rng)
        self._put_rows(mode, rows)

    def _redraw_scales(self, b: Floats, tau: float, beta: Floats, units: Units, rng: np.random.Generator) -> None:
        """Redraw scales with their blocks of ``beta``, in place, then given them, then what they have in common."""
        from tensorbandits.model import _pairs_kernels as kernels

        blocks, limits = self._blocks, _limits(units, len(self.model.shape))
        kernels.stretch_blocks(
            *(self._A, b, tau, beta, blocks.blocks, self.scales, self.hypers[blocks.groups]),
            rng.standard_normal(len(blocks.blocks)),
        )
        squares = np.zeros(len(self.scales))
        for start, end, which in blocks.blocks.tolist():
            some = self._each_side(which, beta[start:end], FeatureCovariance.whitened)
            squares[which] = float(some @ some)
        counts = blocks.counts
        for j in self._open:
            effects = self.model.effects_of(j)
            squares[j] = float(effects @ effects)
            if (one := self._rowwise.get(j)) is not None:  # the scale is that of two parts, in units of their own
                counts = counts.copy() if counts is blocks.counts else counts
                count, square = one.sizes(effects / self.scales[j], 0)
                counts[j] += count
                squares[j] = self.scales[j] ** 2 * square
        before, lines = self.scales.copy(), len(self.scales) + len(self.hypers)
        kernels.step_scales(
            *(counts, squares, blocks.groups, self.scales, self.hypers, limits),
            *(rng.standard_normal((lines, _STEPS)), rng.standard_exponential((lines, _STEPS))),
        )
        for j, one in self._rowwise.items():
            one.scale(0, float(before[j] / self.scales[j]))  # effects and what features say of them stay what they are
        for j, shared in self._shared.items():
            shared.redraw(np.hstack(list(self._noise_of(j, beta))), rng)

    def _noise_of(self, mode: int, beta: Floats) -> Iterator[Floats]:
        """Yield the noise that the main effects and the lines of each core of a complete mode are made of, (p, n)."""
        for start, end, which in self._blocks.blocks.tolist():
            if mode in self._sides(which):
                some = beta[start:end] / self.scales[which]
                yield self._along(which, mode, self._each_side(which, some, FeatureCovariance.whitened))

    def _put(self, beta: Floats, centre: float = 0.0, *, keep_offset: bool = False) -> None:
        """Take over what was drawn together; its offset counts from the centre."""
        model, layout, blocks = self.model, self.model.layout, self._blocks
        if not keep_offset:
            model.offset = centre + float(beta[0])
        model.cores[:] = beta[blocks.cores :]
        for j, start in enumerate(blocks.mains.tolist()):
            if start >= 0 and layout.columns[j]:
                some = beta[start : start + layout.columns[j]]
                model.effects_of(j)[:] = some if layout.shape[j] > 2 else (-some[0], some[0])

    def values(self, ledger: Ledger) -> Floats:
        """Return the draw's values at the ledger's cells, shape (n,)."""
        values = self.model.at(ledger.cells)
        return values if self.residual is None else values + self.residual.align(len(ledger))

    def _looked_at(self, ledger: Ledger) -> Values:
        """Return the draw's values as the likelihood takes them: all, or where it looks."""
        if not self.likelihood.sparse or self.residual is not None:
            return self.values(ledger)
        return partial(self._at_some, ledger.cells)

    def _at_some(self, cells: Ints, some: Ints) -> Floats:
        """Return an array (n,) that has the values at some of the cells (n, d)."""
        values = np.zeros(len(cells))
        values[some] = self.model.at(cells[some])
        return values

    def log_likelihood(self, ledger: Ledger) -> float:
        """Return the logarithm of the rewards' density given the draw, up to a constant of the ledger."""
        return self.likelihood.log_density(ledger, self.values(ledger))

    def own_shares(self, seen: Observations) -> list[Floats]:
        """Return for each mode how much the levels' own rewards decide of their numbers, (p_j,).

        Those of a complete mode are its effect and its lines of the cores; else its effect and its row.
        """
        model, weights = self.model, seen.precision / self.likelihood.variance
        shape, cells = model.shape, seen.cells
        d, shares = len(shape), []
        number = {pair: d + n for n, pair in enumerate(model.layout.pairs)}
        for mode, size in enumerate(shape):
            rows = {k: model.rows(k)[cells[:, k]] for k in range(d) if k != mode and model.layout.paired}
            if model.layout.complete[mode]:
                slopes = [np.ones((len(cells), 1)), *rows.values()]
                scales = [self.scales[number[min(mode, k), max(mode, k)]] for k in rows]
                prior = np.repeat([self.scales[mode], *scales], [1, *(row.shape[1] for row in rows.values())]) ** -2.0
            else:
                width = model.layout.columns[mode]
                both = sum((rows[k] @ model.core(k, mode) for k in rows), np.zeros((len(cells), width)))
                slopes, prior = [np.ones((len(cells), 1)), both], np.r_[self.scales[mode] ** -2.0, np.ones(width)]
                prior = prior * (self.features[mode].precision if mode in self.features else 1.0)
            X = np.hstack(slopes)
            own = np.zeros((size, X.shape[1], X.shape[1]))
            np.add.at(own, cells[:, mode], weights[:, None, None] * X[:, :, None] * X[:, None, :])
            known = np.linalg.solve(np.diag(prior) + own, own)
            shares.append(np.trace(known, axis1=1, axis2=2) / X.shape[1])
        return shares

    def grow(self, shape: Cell, rank: Cell, rng: np.random.Generator, features: DescribedModes = NOT_DESCRIBED) -> None:
        """Give the modes more levels, whose effects, rows and cores are drawn from the prior; complete ones stay so."""
        before = self.model
        self.describe(features, rng)
        layout = layout_of(shape, rank if before.layout.paired else (0,) * len(shape), self.features)
        wide = Pairs(layout, np.zeros(layout.levels), layout.fixed_codes(), np.zeros(layout.entries), before.offset)
        self.likelihood.grow(shape, rng)
        fresh = PairsChain(wide, self.scales, self.hypers, self.likelihood, self.residual, self.features)
        fresh._fill(rng.standard_normal(layout.size))
        for j, size in enumerate(before.shape):
            wide.effects_of(j)[:size] = before.effects_of(j)
            if not layout.complete[j]:
                wide.codes[layout.codes[j] :][: before.rows(j).size] = before.rows(j).ravel()
        # A complete mode has a line of the cores for each level; those of the levels before are what their rows made.
        lines = [
            before.rows(j)
            if layout.complete[j] and layout.shape[j] > before.shape[j]
            else np.eye(before.rows(j).shape[1])
            for j in range(len(shape))
        ]
        for j, k in layout.pairs:
            known = lines[j] @ before.core(j, k) @ lines[k].T
            wide.core(j, k)[: known.shape[0], : known.shape[1]] = known
        self.model = wide
        self._lay_out()

    def describe(self, features: DescribedModes, rng: np.random.Generator | None = None) -> None:
        """Go on with other features of the levels, in as many columns; what was learned of the columns stays."""
        known = self.features.items()
        self.features = {mode: one.grown(features.get(mode, one.described), rng) for mode, one in known}
        self._lay_out()

    def state(self) -> dict[str, Any]:
        """Return the draw as plain arrays and numbers."""
        return self.model.state() | {
            "structure": self.structure,
            "scales": self.scales.copy(),
            "hypers": self.hypers.copy(),
            "likelihood": self.likelihood.state(),
            "residual": self.residual.state() if self.residual else {},
            **({"features": {str(j): one.state() for j, one in self.features.items()}} if self.features else {}),
        }

    @classmethod
    def from_state(
        cls,
        state: Mapping[str, Any],
        shape: Cell,
        rank: Cell,
        likelihood: Likelihood,
        features: DescribedModes = NOT_DESCRIBED,
    ) -> Self:
        """Return the draw that :meth:`state` described, which must be of this shape, rank and kind of likelihood."""
        layout = layout_of(shape, rank, features)
        model, found = Pairs.from_state(state, layout), check_modes(state, features)
        scales = check_array(state["scales"], "the chain's scales", (len(shape) + len(model.layout.pairs),))
        hypers = check_array(state["hypers"], "the deviations of the chain's scales", (2,))
        for scale in (*scales.tolist(), *hypers.tolist()):
            check_positive(scale, "a scale of the chain")
        residual = Residual.from_state(state["residual"]) if state["residual"] else None
        priors: dict[int, FeaturePrior | FeatureCovariance] = {
            j: (FeatureCovariance if layout.complete[j] else FeaturePrior).from_state(
                found[str(j)], one, 1 + layout.columns[j]
            )
            for j, one in features.items()
        }
        return cls(model, scales.copy(), hypers.copy(), likelihood.restored(state["likelihood"]), residual, priors)


def layout_of(shape: Cell, rank: Cell, features: Collection[int]) -> PairsLayout:
    """Return the layout of a sampler: a mode of two levels that have features has learned rows, not -1 and 1.

    >>> layout_of((4, 2), (3, 1), ()).complete, layout_of((4, 2), (3, 1), (0, 1)).complete
    ((True, True), (True, False))
    """
    usual = PairsLayout(shape, rank)
    two = [j in features and p == 2 for j, p in enumerate(shape)]
    if not any(two):
        return usual
    return PairsLayout(shape, rank, [whole and not few for whole, few in zip(usual.complete, two, strict=True)])


def _limits(units: Units, modes: int) -> Floats:
    """Return the least scale, and the prior's deviations of what the scales of main effects and of pairs share."""
    return units.scale * np.array([_LEAST, 1.0, _PAIRS / math.sqrt(max(modes - 1, 1))])


def _centred(seen: Observations, precision: Floats) -> Floats:
    """Return the targets about the centre, times precisions, (n,)."""
    return np.asarray(seen.target - seen.centre * precision)


def _draw(A: Floats, prior: Floats, b: Floats, noise: Floats) -> Floats:
    """Return a draw of precision ``A`` (lower triangle, lost) plus ``prior``, with mean its inverse times ``b``.

    By a kernel of ours: the threads of a linear-algebra library, which wait for each other at this size already, take a
    hundred times as long on cores that others use too, and round as their number has it.
    """
    from tensorbandits.model._solve_kernels import draw

    A[np.diag_indices_from(A)] += prior
    draw(A, b, noise, np.empty((len(b) + 4, len(b))))
    return b

"""The sampling policies on plain NumPy: the same draws as the compiled ones, for tests and for ratios of speed."""

from __future__ import annotations

import numpy as np

import tensorbandits as tb
from tensorbandits.model.sweep import Model
from tensorbandits.policies.ensemble import _SETTLED, EnsembleOracle
from tensorbandits.policies.thompson import GibbsOracle
from tests.plain.sweep import PlainChain, row_by_row, sweep


class WrittenOut(Model):
    """A tensor whose best cell is found by writing out all cells."""

    def __init__(self, tensor):
        self._tensor, self.shape = tensor, tensor.shape

    def copy(self):
        return self

    def tensor(self):
        return self._tensor

    def at(self, cells):
        return self._tensor.at(cells)

    def best(self, fixed, allowed=None):
        assert allowed is None
        free = fixed < 0
        full = self._tensor.full()[tuple(slice(None) if f else level for f, level in zip(free, fixed))]
        cell = fixed.copy()
        cell[free] = np.unravel_index(int(full.argmax()), full.shape)
        return tuple(cell.tolist())


class PlainGibbs(GibbsOracle):
    def advance(self, ledger, rng):
        return WrittenOut(super().advance(ledger, rng).tensor())


def _plain_start(sampler, rows):
    """Have a sampler start plain chains, on its ladder too."""
    start = sampler.start

    def plain_start(units, rng, **how):
        return PlainChain(start(units, rng, **how), rows)

    sampler.start = sampler.ladder._start = plain_start


class PlainEnsemble(EnsembleOracle):
    rows = staticmethod(row_by_row)

    def advance(self, ledger, rng):
        return WrittenOut(super().advance(ledger, rng).tensor())

    def _fit(self, model, prior, ledger, perturbation, units, steps=1):
        if self._affine:
            model.core[0] += model.offset - prior.offset
            model.offset = prior.offset
        tensor = model.tensor()
        precisions = [np.full(r, 1.0 / v) for r, v in zip(self._ranks, self.prior_variance)]
        held = units.scale**-2 if self.intercept else None
        ties = np.full(tensor.core.size, self.core_ridge / units.scale**2)
        if self._affine:  # by the number of free indices: none is the constant, several are no main effect
            orders = (np.indices(self._ranks) > 0).sum(axis=0).ravel()
            ties[orders == 0] = held
            ties[(orders > 1) & (self.structure == "additive")] = np.inf
        for _ in range(steps):
            before = tensor.at(ledger.cells)
            seen = self.likelihood.expect(ledger, units, before)
            push, slopes = self.likelihood.held(ledger, before, perturbation)
            target = seen.target + slopes * before + push
            for _ in range(self.sweeps):
                tensor = sweep(
                    *(tensor, prior.tensor(), precisions, ledger.cells, seen.precision + slopes, target),
                    self._no_noise[0],
                    variance=self.likelihood.variance,
                    core_precision=ties,
                    offset_precision=None if self._affine else held,
                    rows=self.rows,
                    constant=self._affine,
                )
            if np.abs(tensor.at(ledger.cells) - before).max() < _SETTLED * units.scale:
                break
        solved = Model.of(tensor)
        model.rows, model.core, model.offset = solved.rows, solved.core, solved.offset


def plain(policy: tb.Policy, rows=row_by_row) -> tb.Policy:
    """Turn a fresh sampling policy into its plain twin."""
    policy.oracle.__class__ = PlainGibbs if isinstance(policy.oracle, GibbsOracle) else PlainEnsemble
    policy.oracle.rows = rows
    for sampler in getattr(policy.oracle, "samplers", []):
        _plain_start(sampler, rows)
    return policy

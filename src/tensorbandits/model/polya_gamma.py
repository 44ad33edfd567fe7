"""Polya-Gamma variates, which make logistic rewards normal given one of them per observed cell.

``e^(a x) / (1 + e^x)^h`` is an average over ``omega ~ PG(h, 0)`` of ``exp((a - h/2) x - omega x^2 / 2)``, a normal
density in ``x`` of precision ``omega``; and given ``x`` the law of ``omega`` is ``PG(h, x)`` (Polson, Scott & Windle
2013).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from tensorbandits.base.checks import check_array, check_count
from tensorbandits.tensor.tucker import Floats, Ints

_FAR = 12.0  # a tilt beyond which the law is the inverse Gaussian one but for e^-12, and the package's draws go wrong
_SHARES = 8  # of all cells, of which the variates of one are redrawn
_MIDDLE = 4.0, 16.0  # shapes for which the method that the package takes is slower than another of its own ..
_STEEP = 2.0  # .. which is as exact from this tilt on
_NEAR = 1e-4  # of a whole number, to which a shape is then rounded: for 12.000000000000005 that method would never end
_SLIGHT = 0.01  # a shape below which the package draws nothing; the mean stands for what counts so little


@dataclass
class Weights:
    """One variate per cell, kept from sweep to sweep, of which a share is redrawn each time.

    Where the shape ``h`` has changed, because the cell has new rewards or they count otherwise, it is always redrawn.
    Given the tensor the variates are independent, so any order of redrawing them leaves their law alone.
    """

    h: Floats = field(default_factory=lambda: np.zeros(0))
    omega: Floats = field(default_factory=lambda: np.zeros(0))
    turn: int = 0

    def redraw(
        self, h: Floats, tilt: Callable[[Ints], Floats], order: Ints, rng: np.random.Generator, *, least: int
    ) -> Floats:
        """Return the variates of the cells, of laws ``PG(h, tilt)``, shape (n,); so many are redrawn at least.

        Shares go round in an ``order`` of the cells. ``tilt`` returns an array (n,) that has the tilts of some cells,
        given in that order.
        """
        n, share = len(h), max(least, len(h) // _SHARES)
        if share < n:
            from tensorbandits.model._weight_kernels import due

            cells = due(self.h, h, order, self.turn % n, share)
            if len(self.omega) != n:  # what is not there yet, or is of other cells, is redrawn
                before, self.omega = self.omega, np.empty(n)
                self.omega[: len(before)] = before[:n]
            self.omega[cells] = draw_weights(h[cells], tilt(cells)[cells], rng)
            self.turn = (self.turn + share) % n
        else:
            self.omega = draw_weights(h, tilt(order), rng)
        self.h = h.copy()
        return self.omega

    def state(self) -> dict[str, Any]:
        """Return the variates as plain arrays."""
        return {"h": self.h.copy(), "omega": self.omega.copy(), "turn": self.turn}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return what :meth:`state` described."""
        h = check_array(state["h"], "the shapes of the weights", (len(state["h"]),))
        omega = check_array(state["omega"], "the weights", h.shape)
        return cls(h.copy(), omega.copy(), check_count(state["turn"], "the turn of the weights", 0))


def draw_weights(h: Floats, tilt: Floats, rng: np.random.Generator) -> Floats:
    """Draw ``PG(h, tilt)`` for every shape ``h >= 0`` (n,), whole or not, and every tilt (n,).

    >>> draws = draw_weights(np.full(4000, 2.0), np.full(4000, -3.0), np.random.default_rng(0))
    >>> bool(abs(draws.mean() - mean_weights(np.array(2.0), np.array(-3.0))) < 0.01)
    True
    """
    from polyagamma import random_polyagamma  # a compiled package that Gaussian rewards need not wait for

    tilt = np.abs(tilt)
    middle = (h > _MIDDLE[0]) & (h <= _MIDDLE[1]) & (tilt >= _STEEP)
    few = not middle.any()
    if few and tilt.max(initial=0.0) <= _FAR and h.min(initial=_SLIGHT) >= _SLIGHT:
        return np.asarray(random_polyagamma(h, tilt, random_state=rng, disable_checks=True))
    omega, usual = mean_weights(h, tilt), (tilt <= _FAR) & (h >= _SLIGHT)
    middle &= usual
    some = usual & ~middle
    omega[some] = random_polyagamma(h[some], tilt[some], random_state=rng, disable_checks=True)
    near = np.rint(h[middle])
    shapes = np.where(np.abs(h[middle] - near) < _NEAR, near, h[middle])
    omega[middle] = random_polyagamma(shapes, tilt[middle], method="alternate", random_state=rng, disable_checks=True)
    far = ~usual & (h >= _SLIGHT)
    omega[far] = rng.wald(h[far] / (2.0 * tilt[far]), h[far] ** 2 / 4.0)
    return omega


def mean_weights(h: Floats, tilt: Floats) -> Floats:
    """Return the means ``h tanh(tilt / 2) / (2 tilt)`` of the same laws.

    >>> mean_weights(np.array([1.0, 8.0]), np.array([0.0, 2.0])).round(3).tolist()
    [0.25, 1.523]
    """
    half = np.maximum(np.abs(tilt) / 2.0, 1e-8)
    return np.asarray(h * np.tanh(half) / (4.0 * half))

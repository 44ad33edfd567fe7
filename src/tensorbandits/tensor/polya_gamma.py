"""Polya-Gamma variates, which make logistic rewards normal given one of them per observed cell.

``e^(a x) / (1 + e^x)^h`` is an average over ``omega ~ PG(h, 0)`` of ``exp((a - h/2) x - omega x^2 / 2)``, a normal
density in ``x`` of precision ``omega``; and given ``x`` the law of ``omega`` is ``PG(h, x)`` (Polson, Scott & Windle
2013).
"""

from __future__ import annotations

import numpy as np

from tensorbandits.tensor.tucker import Floats

_FAR = 12.0  # a tilt beyond which the law is the inverse Gaussian one but for e^-12, and the package's draws go wrong
_SLIGHT = 0.01  # a shape below which the package draws nothing; the mean stands for what counts so little


def draw_weights(h: Floats, tilt: Floats, rng: np.random.Generator) -> Floats:
    """Draw ``PG(h, tilt)`` for every shape ``h >= 0`` (n,), whole or not, and every tilt (n,).

    >>> draws = draw_weights(np.full(4000, 2.0), np.full(4000, -3.0), np.random.default_rng(0))
    >>> bool(abs(draws.mean() - mean_weights(np.array(2.0), np.array(-3.0))) < 0.01)
    True
    """
    from polyagamma import random_polyagamma  # a compiled package that Gaussian rewards need not wait for

    tilt = np.abs(tilt)
    usual = (tilt <= _FAR) & (h >= _SLIGHT)
    if usual.all():
        return np.asarray(random_polyagamma(h, tilt, random_state=rng, disable_checks=True))
    omega = mean_weights(h, tilt)
    omega[usual] = random_polyagamma(h[usual], tilt[usual], random_state=rng, disable_checks=True)
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

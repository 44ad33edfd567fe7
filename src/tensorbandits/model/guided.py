"""What of the difference between levels their features say, and what is each level's own, in draws of a tensor.

The rows of a draw, centred, are ``X = F B + tau E`` with ``B = phi Z / sqrt(m)`` (``model/features.py``). A chain draws
``tau`` and ``phi``; here coefficients are drawn given these and the rows, whatever structure the rows are of.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tensorbandits.base.pieces import gently
from tensorbandits.model.anova import Tensor, part, profiles
from tensorbandits.model.features import Scales
from tensorbandits.tensor.tucker import Floats


class Guided(NamedTuple):
    """Draws of what features say of the levels of a mode."""

    share: Floats  # (draws,) of the squared differences between levels
    parts: Floats  # (draws, features) of it, which add up to it
    said: Floats  # (draws, p) of the main effects
    own: Floats  # (draws, p) the rest of these


class Splitter:
    """Splits rows of levels into what each of their features says of them and the rest.

    >>> splitter = Splitter(np.array([[-1.0, 0.5], [0.0, -1.0], [1.0, 0.5]]), [slice(0, 1), slice(1, 2)])
    >>> first, second = splitter.split(np.array([[-2.0], [0.0], [2.0]]), 1e9, np.random.default_rng(0))
    >>> first.ravel().round(2).tolist(), bool(np.abs(second).max() < 1e-3)
    ([-2.0, 0.0, 2.0], True)
    """

    def __init__(self, features: Floats, places: Sequence[slice]) -> None:
        self.features, self.places = features - features.mean(axis=0), places
        self._Q, self._s, self._Vt = np.linalg.svd(self.features / math.sqrt(features.shape[1]), full_matrices=False)

    def split(self, rows: Floats, ratio: float, rng: np.random.Generator) -> Floats:
        """Return what each feature says of centred rows (p, q), drawn, (features, p, q).

        ``ratio`` is how often as large the variance of what features say is as of what is a level's own.
        """
        (p, q), m = rows.shape, self.features.shape[1]
        along, shrunk = self._Q.T @ rows, 1.0 / (1.0 + ratio * self._s**2)  # (k, q), (k,)
        rest = (rows**2).sum(axis=0) - (along**2).sum(axis=0) + (along**2 * shrunk[:, None]).sum(axis=0)
        tau = np.sqrt(np.maximum(rest, 0.0) / max(p - 1, 1))  # (q,)
        B = math.sqrt(ratio / m) * tau * rng.standard_normal((m, q))
        noise = tau * rng.standard_normal((p, q))
        left = self._Q.T @ (rows - self.features @ B - noise + noise.mean(axis=0))
        B += self._Vt.T @ ((ratio / math.sqrt(m) * self._s * shrunk)[:, None] * left)
        return np.array([self.features[:, place] @ B[place] for place in self.places])


def guided(
    draws: Sequence[Tensor],
    mode: int,
    features: Floats,
    places: Sequence[slice],
    scales: Sequence[Scales],
    rng: np.random.Generator,
) -> Guided:
    """Return what features (p, m) say of the levels of a mode, in draws of the tensor with ``scales`` of their own."""
    splitter, found = Splitter(features, places), []
    for draw, own in zip(gently(draws, every=8), scales, strict=True):
        tau, phi = own[mode]
        main = part(draw, (mode,))[:, None]
        rows = np.hstack([main, profiles(draw, mode)])
        rows[:, 1:] -= rows[:, 1:].mean(axis=0)
        parts = splitter.split(rows, (phi / tau) ** 2, rng)
        said = parts.sum(axis=0)
        total = float((said[:, 1:] ** 2).sum() + ((rows - said)[:, 1:] ** 2).sum())
        shares = (parts[:, :, 1:] * said[:, 1:]).sum(axis=(1, 2)) / max(total, 1e-300)
        found.append((float(shares.sum()), shares, said[:, 0], (rows - said)[:, 0]))
    share, each, effects, rest = (np.array(column) for column in zip(*found, strict=True))
    return Guided(share, each, effects, rest)

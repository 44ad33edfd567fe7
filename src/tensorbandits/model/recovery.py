"""Recovery of a matrix of low rank from a ledger of its entries, and the choice of its rank."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tensorbandits.ledger import Ledger
from tensorbandits.model.likelihood import noise_level
from tensorbandits.model.solve import row_equations, solve_spd
from tensorbandits.tensor.tucker import Tucker

MAX_RANK = 6  # the largest that is looked for
_SWEEPS = 30
_NULL_DRAWS = 10
_NULL_MARGIN = 1.1


def recover(ledger: Ledger, rank: int, *, method: str = "alternating") -> Tucker:
    """Recover a matrix of low rank from a ledger of its entries: orthonormal factors and a diagonal core.

    ``"spectral"`` keeps the leading singular values of the rescaled zero-filled matrix; ``"alternating"`` starts there
    and alternates ridge regressions of rows and columns on the observed entries.

    >>> rng = np.random.default_rng(0)
    >>> u, w = np.array([0.6, 0.8, 0.0, 0.0]), np.ones(9)
    >>> cells = np.argwhere(rng.random((4, 9)) < 0.8)
    >>> ledger = Ledger((4, 9)); ledger.add(cells, np.outer(u, w)[tuple(cells.T)])
    >>> fit = recover(ledger, 1)
    >>> bool(abs(fit.factors[0][:, 0] @ u) > 0.99)
    True
    """
    p, P = ledger.shape
    scale = math.sqrt(ledger.squares.sum() / max(ledger.rounds, 1.0))  # apart, so that it changes nothing else
    filled = np.zeros((p, P))
    if scale > 0.0:
        filled[tuple(ledger.cells.T)] = (p * P / ledger.rounds) * (ledger.totals / scale)
    U, s, Vt = np.linalg.svd(filled, full_matrices=False)
    U, s, V = U[:, :rank], s[:rank], Vt[:rank].T
    if method == "alternating" and scale > 0.0:
        penalty = max((noise_level(ledger) / scale) ** 2 * math.sqrt(rank), 1e-6) * np.eye(rank)
        factors = [U * np.sqrt(s), V * np.sqrt(s)]
        for sweep in range(2 * _SWEEPS):
            mode = sweep % 2
            target = ledger.totals / scale
            A, b = row_equations(np.eye(rank), factors, mode, ledger.cells, ledger.counts, target)
            factors[mode] = solve_spd(A + penalty, b)
        (Q, M), (H, N) = (np.linalg.qr(factor) for factor in factors)
        inner, s, outer = np.linalg.svd(M @ N.T)
        U, V = Q @ inner, H @ outer.T
    return Tucker(np.diag(s * scale), (U, V))


def matrix_rank(ledger: Ledger, *, max_rank: int = MAX_RANK, seed: int = 0) -> int:
    """Choose the rank of a matrix from a ledger of its entries, spread evenly: at least 1.

    A singular value of the zero-filled matrix counts while it exceeds what the rest, with random signs, would reach.
    (Completion's choice of rank is for independent draws, not for entries that are pulled once each.)

    >>> ledger = Ledger((20, 30)); cells = np.argwhere(np.ones((20, 30)))
    >>> ledger.add(cells, np.cos(cells[:, 0] - cells[:, 1]))  # cos(a - b) = cos a cos b + sin a sin b
    >>> matrix_rank(ledger)
    2
    """
    rest = np.zeros(ledger.shape)
    rest[tuple(ledger.cells.T)] = ledger.totals / ledger.counts
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(_NULL_DRAWS, *ledger.shape))
    U, s, Vt = np.linalg.svd(rest, full_matrices=False)
    for rank in range(min(max_rank, len(s))):
        # The rest has lost a row and a column per value, which random signs give back: the same energy, spread wider.
        lost = _edge(np.subtract(ledger.shape, rank)) / _edge(np.array(ledger.shape))
        if s[rank] <= _NULL_MARGIN * lost * max(np.linalg.norm(rest * sign, 2) for sign in signs):
            return max(rank, 1)
        rest = rest - s[rank] * np.outer(U[:, rank], Vt[rank])
    return min(max_rank, len(s))


def _edge(size: NDArray[np.int64]) -> float:
    """The largest singular value of a noise matrix of the given size and unit energy."""
    return float(np.sqrt(size).sum() / np.sqrt(size.prod()))

"""How much of what is believed of a level comes from its own rewards, and how much is borrowed from the other levels.

Given all else, the row of a level is normal with precision ``P = D + G``: ``D`` is the prior's, whose size the other
levels decide, and ``G`` is what the level's own rewards say. Of the ``r`` numbers of the row, the trace of ``P^-1 G``
are known from its own rewards: 0 for a level that was never tried, all of them for one that needs nobody's help.
"""

from __future__ import annotations

import numpy as np

from tensorbandits.model.likelihood import Observations
from tensorbandits.model.sweep import Model
from tensorbandits.tensor.tucker import Floats


def own_shares(model: Model, observations: Observations, variance: float, precision: Floats) -> list[Floats]:
    """Return for each mode the share of its rows, (p_j,), that the levels' own rewards decide.

    ``variance`` is that of a reward of precision 1; ``precision`` the prior's of every column, mode after mode.

    >>> model = Model((2, 1), (1, 1), np.array([1.0, 1.0, 2.0]), np.array([1.0]))
    >>> cells = np.array([[0, 0]])
    >>> told = Observations(np.zeros(1, dtype=np.int64), cells, np.ones(1), np.ones(1), 0.0, 1.0, 1.0)
    >>> [share.tolist() for share in own_shares(model, told, 1.0, np.ones(2))]
    [[0.8, 0.0], [0.5]]
    """
    tensor, cells = model.tensor(), observations.cells
    weights, start, shares = observations.precision / variance, 0, []
    rows = [U[cells[:, j]] for j, U in enumerate(tensor.factors)]  # (n, r_j)
    for mode, (size, rank) in enumerate(zip(model.shape, model.rank, strict=True)):
        slopes = np.moveaxis(tensor.core, mode, 0)[None]  # of the value at each cell in the row's numbers, (n, r_j)
        for j in reversed([j for j in range(len(rows)) if j != mode]):
            slopes = np.einsum("n...a,na->n...", np.broadcast_to(slopes, (len(cells), *slopes.shape[1:])), rows[j])
        fixed = int(model.affine)  # the constant column is not learned
        slopes = np.broadcast_to(slopes, (len(cells), rank))[:, fixed:]
        own = np.zeros((size, rank - fixed, rank - fixed))
        np.add.at(own, cells[:, mode], weights[:, None, None] * slopes[:, :, None] * slopes[:, None, :])
        prior = np.diag(precision[start + fixed : start + rank])
        start += rank
        known = np.linalg.solve(prior + own, own) if rank > fixed else own
        shares.append(np.trace(known, axis1=1, axis2=2) / max(rank - fixed, 1))
    return shares

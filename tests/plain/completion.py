"""Plain twins of completion's pass over the observed cells, with NumPy."""

from __future__ import annotations

import numpy as np

from tensorbandits.tensor.tucker import outer_rows


def project(cells, values, factors):
    """Return the sparse tensor projected on all factors, shape (r_1, .., r_d)."""
    return (values @ outer_rows(factors, cells)).reshape([U.shape[1] for U in factors])


def project_others(cells, values, factors, mode):
    """Return its unfolding along a mode, projected on all other factors, shape (p, product of other ranks)."""
    H = outer_rows(factors, cells, skip=mode) * values[:, None]
    size = len(factors[mode])
    return np.stack([np.bincount(cells[:, mode], weights=column, minlength=size) for column in H.T], axis=1)


def iterate(cells, values, factors, ranks, *, tolerance=1e-6, max_iterations=100):
    """Power iteration from given factors until the norm of the projected core settles; return core and factors."""
    factors = list(factors)
    norm = np.linalg.norm(project(cells, values, factors))
    for _ in range(max_iterations):
        for j, r in enumerate(ranks):
            factors[j] = np.linalg.svd(project_others(cells, values, factors, j), full_matrices=False)[0][:, :r]
        grown = np.linalg.norm(project(cells, values, factors))
        if grown - norm <= tolerance * grown:
            break
        norm = grown
    return project(cells, values, factors), factors

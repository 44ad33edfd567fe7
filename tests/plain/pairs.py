"""Plain twins of the tensor of pairs and of its sampler: design matrices spelled out, and all cells listed."""

from __future__ import annotations

from itertools import product

import numpy as np

from tests.plain.sweep import solve_spd


def value(tensor, cell):
    """The value of a tensor of pairs at a cell, term by term."""
    total = tensor.offset
    for j, i in enumerate(cell):
        total += tensor.effects_of(j)[i]
        for k in range(j + 1, len(cell)):
            total += tensor.rows(j)[i] @ tensor.core(j, k) @ tensor.rows(k)[cell[k]]
    return total


def best(tensor, fixed, allowed=None):
    """The largest value among allowed cells that agree with the fixed levels; -inf if there is none."""
    levels = [range(p) if level < 0 else [level] for p, level in zip(tensor.shape, fixed, strict=True)]
    found = [value(tensor, cell) for cell in product(*levels) if allowed is None or allowed.permits(cell)]
    return max(found, default=-np.inf)


def design(tensor, cells):
    """What multiplies offset, main effects of complete modes by column, and all cores, at each cell, (n, K)."""
    layout, columns = tensor.layout, [np.ones((len(cells), 1))]
    rows = [tensor.rows(j)[cells[:, j]] for j in range(len(tensor.shape))]
    columns += [rows[j] for j, whole in enumerate(layout.complete) if whole]
    columns += [np.einsum("na,nb->nab", rows[j], rows[k]).reshape(len(cells), -1) for j, k in layout.pairs]
    return np.hstack(columns)


def draw_together(tensor, scales, cells, N, Y, tau, offset_precision, noise):
    """Draw offset, main effects of complete modes and cores from their joint law given all else, (K,).

    ``Y`` are targets times precisions about the offset's prior mean.
    """
    X, layout = design(tensor, cells), tensor.layout
    open_modes = [j for j, whole in enumerate(layout.complete) if not whole]
    known = sum((tensor.effects_of(j)[cells[:, j]] for j in open_modes), np.zeros(len(cells)))
    precisions = [np.array([offset_precision])]
    precisions += [np.full(layout.columns[j], scales[j] ** -2.0) for j, whole in enumerate(layout.complete) if whole]
    precisions += [
        np.full(layout.columns[j] * layout.columns[k], scales[len(tensor.shape) + n] ** -2.0)
        for n, (j, k) in enumerate(layout.pairs)
    ]
    A = tau * X.T @ (X * N[:, None]) + np.diag(np.concatenate(precisions))
    return solve_spd(A, tau * X.T @ (Y - N * known), noise)


def draw_rows(tensor, mode, scale, cells, N, Y, tau, centre, noise):
    """Draw the main effects and rows of a mode that is not complete, (p, 1 + q), level by level."""
    others, q = [k for k in range(len(tensor.shape)) if k != mode], tensor.layout.columns[mode]
    found = np.empty((tensor.shape[mode], 1 + q))
    without = [
        value(tensor, cell)
        - centre
        - tensor.effects_of(mode)[cell[mode]]
        - sum(tensor.rows(mode)[cell[mode]] @ tensor.core(mode, k) @ tensor.rows(k)[cell[k]] for k in others)
        for cell in cells.tolist()
    ]
    for i in range(tensor.shape[mode]):
        here = np.flatnonzero(cells[:, mode] == i)
        z = np.array(
            [
                [1.0, *sum((tensor.core(mode, k) @ tensor.rows(k)[cells[c, k]] for k in others), np.zeros(q))]
                for c in here
            ]
        ).reshape(len(here), 1 + q)
        A = tau * z.T @ (z * N[here, None]) + np.diag([scale**-2.0] + [1.0] * q)
        found[i] = solve_spd(A, tau * z.T @ (Y[here] - N[here] * np.array(without)[here]), noise[i])
    return found


def stretch(A, b, tau, beta, blocks, scales, hypers, noise):
    """Return beta and scales after each block was multiplied by a factor, drawn together with its scale."""
    beta, scales = beta.copy(), scales.copy()
    for k, (start, end, which) in enumerate(blocks):
        block = beta[start:end]
        own = A[start:end, start:end] @ block
        others = A[start:end] @ beta - own
        precision = tau * block @ own + (scales[which] / hypers[which]) ** 2
        factor = tau * block @ (b[start:end] - others) / precision + noise[k] / np.sqrt(precision)
        scales[which] *= abs(factor)
        beta[start:end] *= factor
    return beta, scales

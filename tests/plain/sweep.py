"""Plain twins of the compiled sweeps: each block written as its own linear problem, as the mathematics states it.

``row_by_row`` takes the rows of a mode one at a time, with its design matrix spelled out. ``all_rows`` sets up the
equations of all rows at once with NumPy, as one would to make it fast without compiling; both are the same numbers.
"""

from __future__ import annotations

import numpy as np

from tensorbandits.ledger import by_sizes
from tensorbandits.model.gibbs import NOISE_RATE, NOISE_SHAPE, OFFSET_VARIANCE
from tensorbandits.model.solve import row_equations
from tensorbandits.model.sweep import Model
from tensorbandits.tensor.tucker import Tucker, outer_rows


def solve_spd(A, b, noise):
    """Return draws from N(A^-1 b, A^-1), given standard normal noise; zeros give the means. Batches are allowed."""
    try:
        L = np.linalg.cholesky(A)
    except np.linalg.LinAlgError:  # weights so large that rounding drowns the prior: raise the scaled diagonal
        scale = 1.0 / np.sqrt(np.einsum("...ii->...i", A))
        S = A * scale[..., :, None] * scale[..., None, :] + 4 * A.shape[-1] * np.finfo(float).eps * np.eye(A.shape[-1])
        return scale * solve_spd(S, b * scale, noise)
    half = np.linalg.solve(L, b[..., None]) + noise[..., None]
    return np.linalg.solve(np.swapaxes(L, -1, -2), half)[..., 0]


def core_equations(factors, cells, weight, target):
    """Return the normal equations of the offset and the flattened core, (1 + R, 1 + R) and (1 + R,)."""
    F = np.hstack([np.ones((len(cells), 1)), outer_rows(factors, cells)])
    return F.T @ (F * weight[:, None]), F.T @ target


def design_of_mode(tensor, mode, cells):
    """What multiplies the entries of the row of a mode at each cell, shape (n, r)."""
    others = outer_rows(tensor.factors, cells, skip=mode)
    return others @ np.moveaxis(tensor.core, mode, 0).reshape(tensor.core.shape[mode], -1).T


def row_by_row(tensor, mode, cells, N, Y, variance, precision, means, noise, constant=False):
    """Return the factor of a mode with each row drawn from (or, without noise, set to the mean of) its law.

    A ``constant`` first column stays as it is.
    """
    Z = design_of_mode(tensor, mode, cells)
    U, free = tensor.factors[mode].copy(), slice(int(constant), None)
    for i in range(len(U)):
        here = cells[:, mode] == i
        known = Z[here, 0] * U[i, 0] if constant else 0.0
        z = Z[here, free]
        A = z.T @ (z * N[here, None]) / variance + np.diag(precision[free])
        b = z.T @ (Y[here] - (tensor.offset + known) * N[here]) / variance + precision[free] * means[i, free]
        U[i, free] = solve_spd(A, b, noise[i, free])
    return U


def all_rows(tensor, mode, cells, N, Y, variance, precision, means, noise, constant=False):
    """The same for all rows at once."""
    A, b = row_equations(tensor.core, tensor.factors, mode, cells, N / variance, (Y - tensor.offset * N) / variance)
    U = tensor.factors[mode].copy()
    if constant:
        A, b = A[:, 1:, 1:], b[:, 1:] - A[:, 1:, 0] * U[:, :1]
        precision, means, noise = precision[1:], means[:, 1:], noise[:, 1:]
    U[:, int(constant) :] = solve_spd(A + np.diag(precision), b + precision * means, noise)
    return U


def sweep(
    tensor,
    prior,
    precisions,
    cells,
    N,
    Y,
    noise,
    *,
    variance,
    core_precision,
    offset_precision,
    rows=row_by_row,
    constant=False,
):
    """Return the tensor after one sweep: rows of the two largest modes, then of the others, then core and offset.

    ``precisions[j]`` (r_j,) and ``prior.factors[j]`` are the prior of mode j; ``core_precision`` is a number, or one
    for each entry, where an infinite one keeps it at 0; ``noise`` joins standard normals for all rows, the offset and
    the core, its smallest mode first; an ``offset_precision`` of ``None`` keeps the offset; with ``constant`` first
    columns stay as they are.
    """
    modes = by_sizes(tensor.shape)
    starts = np.cumsum([0, *(U.size for U in tensor.factors)])
    for j in (*modes[-2:], *modes[:-2]):
        U = tensor.factors[j]
        z = noise[starts[j] : starts[j + 1]].reshape(U.shape)
        U = rows(tensor, j, cells, N, Y, variance, precisions[j], prior.factors[j], z, constant)
        tensor = Tucker(tensor.core, (*tensor.factors[:j], U, *tensor.factors[j + 1 :]), tensor.offset)
    start, rank = starts[-1], tensor.core.shape
    means = np.concatenate([[prior.offset], prior.core.transpose(modes).ravel()])
    ties = np.append(0.0, np.broadcast_to(core_precision, prior.core.size).reshape(rank).transpose(modes))
    design = [tensor.factors[j] for j in modes], cells[:, modes], N / variance
    if offset_precision is None:
        A, b = core_equations(*design, (Y - tensor.offset * N) / variance)
        there = 1 + np.flatnonzero(np.isfinite(ties[1:]))
        x = np.zeros(len(ties) - 1)
        ties, A, b = ties[there], A[np.ix_(there, there)], b[there]
        x[there - 1] = solve_spd(A + np.diag(ties), b + ties * means[there], noise[start + there])
        offset = tensor.offset
    else:
        ties[0] = offset_precision
        A, b = core_equations(*design, Y / variance)
        offset, *x = solve_spd(A + np.diag(ties), b + ties * means, noise[start:])
    core = np.reshape(x, [rank[j] for j in modes]).transpose(np.argsort(modes))
    return Tucker(core, tensor.factors, float(offset))


def objective(tensor, prior, precisions, cells, N, Y, *, variance, core_precision, offset_precision):
    """Return what least squares minimises, up to a constant that depends on the data only."""
    fit = tensor.at(cells)
    loss = float((fit * (N * fit - 2.0 * Y)).sum()) / variance
    for U, M, precision in zip(tensor.factors, prior.factors, precisions):
        loss += float((precision * (U - M) ** 2).sum())
    loss += core_precision * float(((tensor.core - prior.core) ** 2).sum())
    return loss + (offset_precision or 0.0) * (tensor.offset - prior.offset) ** 2


class PlainChain:
    """The Gibbs chain of ``tensorbandits.model.gibbs`` in plain NumPy, started from the compiled one."""

    def __init__(self, chain, rows=row_by_row):
        self.tensor, self.rows = chain.model.tensor(), rows
        self.gammas, self.noise_variance, self.decay = chain.gammas.copy(), chain.likelihood.variance, chain.decay
        self.structure, self.learned = chain.structure, chain.likelihood.learned
        self.likelihood = chain.likelihood  # its kind; the variance here is the twin's own

    residual, finite, joint = None, True, False

    @property
    def entries(self):
        return sum(U.size for U in self.tensor.factors)

    @property
    def model(self):
        affine = self.structure != "tucker"
        flat = Model.of(self.tensor)
        return Model(flat.shape, flat.rank, flat.rows, flat.core, flat.offset, affine=affine)

    def _ties(self, offset_precision):
        """The precision of each entry of the core, flat: by the number of its free indices, but for plain Tucker."""
        if self.structure == "tucker":
            return np.full(self.tensor.core.size, self.gammas[0])
        most = 1 if self.structure == "additive" else self.tensor.core.ndim
        by_order = np.full(self.tensor.core.ndim + 1, np.inf)
        by_order[0], by_order[1 : most + 1] = offset_precision, self.gammas
        return by_order[self._orders()]

    def _orders(self):
        return np.count_nonzero(np.array(np.unravel_index(np.arange(self.tensor.core.size), self.tensor.rank)), axis=0)

    def sweep(self, ledger, units, rng, *, sweeps, weight=1.0):
        rank, affine = self.tensor.rank, self.structure != "tucker"
        zeros = tuple(np.zeros_like(U) for U in self.tensor.factors)
        prior = Tucker(np.zeros(rank), zeros, units.centre)
        precisions = [self.decay ** (-2.0 * np.maximum(np.arange(r) - affine, 0)) for r in rank]
        offset_precision = 1.0 / (OFFSET_VARIANCE * units.scale**2)
        if affine:  # the constant entry of the core is what the offset is above the centre
            core = self.tensor.core.copy()
            core.flat[0] += self.tensor.offset - units.centre
            self.tensor = Tucker(core, self.tensor.factors, units.centre)
        for _ in range(sweeps):
            noise = [rng.standard_normal(U.size) for U in self.tensor.factors] + [
                rng.standard_normal(1 + np.prod(rank))
            ]
            self.tensor = sweep(
                *(self.tensor, prior, precisions, ledger.cells, weight * ledger.counts, weight * ledger.totals),
                np.concatenate(noise),
                variance=self.noise_variance,
                core_precision=self._ties(offset_precision),
                offset_precision=None if affine else offset_precision,
                rows=self.rows,
                constant=affine,
            )
            for k in range(len(self.gammas)):
                entries = self.tensor.core.ravel()[self._orders() == k + 1] if affine else self.tensor.core
                rate = (units.scale**2 + float((entries**2).sum())) / 2
                self.gammas[k] = rng.gamma((1 + entries.size) / 2) / rate
            if self.learned:
                fit = self.tensor.at(ledger.cells)
                errors = np.maximum(ledger.squares - fit * (2 * ledger.totals - ledger.counts * fit), 0.0).sum()
                rate = NOISE_RATE * units.scale**2 + weight * float(errors) / 2
                self.noise_variance = float(rate / rng.gamma(NOISE_SHAPE + weight * ledger.rounds / 2))

    def log_likelihood(self, ledger):
        fit = self.tensor.at(ledger.cells)
        errors = (ledger.squares - 2 * fit * ledger.totals + ledger.counts * fit**2).sum()
        return -(ledger.rounds * np.log(self.noise_variance) + errors / self.noise_variance) / 2

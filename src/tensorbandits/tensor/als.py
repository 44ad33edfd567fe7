"""Alternating least squares for a Tucker tensor on weighted cells, each block anchored to a prior mean.

Minimises, over the offset ``c``, the core and all factors (the perturbed objective of the paper's section 4)::

    sum_i w_i (y_i - c - X[i])^2 + sum_j ||U_j - M_j||^2 / sigma_j^2 + ridge ||S - S_0||^2 + ridge_c (c - c_0)^2

Each block has an exact solution given the rest, so no step can raise the objective.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorbandits.tensor.solve import core_equations, row_equations, solve_spd
from tensorbandits.tensor.tucker import Floats, Ints, Tucker


@dataclass(frozen=True)
class Anchor:
    """The prior means of all blocks, and how strongly each block is held to its own."""

    mean: Tucker
    row_precision: tuple[float, ...]  # 1 / sigma_j^2 per mode
    core_precision: float
    offset_precision: float | None = None  # None: the offset stays where it is


def sweep(model: Tucker, anchor: Anchor, cells: Ints, weight: Floats, target: Floats) -> Tucker:
    """Return the model after one pass of exact solves: the rows of each mode, then the core with the offset.

    ``weight`` (n,) is the precision of each cell, ``target`` (n,) its precision times its mean.
    """
    factors = list(model.factors)
    centred = target - weight * model.offset
    for j, precision in enumerate(anchor.row_precision):
        A, b = row_equations(model.core, factors, j, cells, weight, centred)
        A += precision * np.eye(A.shape[-1])
        factors[j] = solve_spd(A, b + precision * anchor.mean.factors[j])
    free = anchor.offset_precision is not None
    A, b = core_equations(factors, cells, weight, target if free else centred)
    ties = np.full(len(b), anchor.core_precision)
    ties[0] = anchor.offset_precision or 0.0
    A[np.diag_indices(len(b))] += ties
    b += ties * np.concatenate([[anchor.mean.offset], anchor.mean.core.ravel()])
    if free:
        solution = solve_spd(A, b)
        return Tucker(solution[1:].reshape(model.core.shape), tuple(factors), float(solution[0]))
    return Tucker(solve_spd(A[1:, 1:], b[1:]).reshape(model.core.shape), tuple(factors), model.offset)


def objective(model: Tucker, anchor: Anchor, cells: Ints, weight: Floats, target: Floats) -> float:
    """Return the objective up to a constant that depends on the data only."""
    fit = model.at(cells)
    loss = float((fit * (weight * fit - 2.0 * target)).sum())
    for U, M, precision in zip(model.factors, anchor.mean.factors, anchor.row_precision, strict=True):
        loss += precision * float(((U - M) ** 2).sum())
    loss += anchor.core_precision * float(((model.core - anchor.mean.core) ** 2).sum())
    return loss + (anchor.offset_precision or 0.0) * (model.offset - anchor.mean.offset) ** 2

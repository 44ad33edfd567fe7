"""What a Tucker tensor says of single modes and of how they meet: its analysis of variance, in closed form.

A tensor is the sum, over all sets of modes, of a part that varies with exactly these modes and averages to 0 over the
levels of each of them: the overall mean, the main effects, what two modes have beyond their main effects, and so on.
The part of a set is the core times the factors of its modes, each less its mean row, and times the mean rows of all
others. So none of it needs the whole array.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tensorbandits.tensor.tucker import Floats, Tucker, multi_mode_dot

Part = tuple[int, ...]  # the modes with which a part varies, ascending


def part(tensor: Tucker, modes: Collection[int]) -> Floats:
    """Return the part that varies with exactly these modes, an axis for each, in their order; without modes, the mean.

    >>> tensor = Tucker(np.eye(2), (np.array([[1.0, 0], [3, 0]]), np.array([[1.0, 1], [1, 5]])), offset=10.0)
    >>> tensor.full().tolist()
    [[11.0, 11.0], [13.0, 13.0]]
    >>> part(tensor, ()).item(), part(tensor, (0,)).tolist(), part(tensor, (0, 1)).tolist()
    (12.0, [-1.0, 1.0], [[0.0, 0.0], [0.0, 0.0]])
    """
    means = [U.mean(axis=0) for U in tensor.factors]
    rows = [U - m if j in modes else m[None] for j, (U, m) in enumerate(zip(tensor.factors, means, strict=True))]
    values = multi_mode_dot(tensor.core, rows)
    return values.reshape([len(U) for j, U in enumerate(tensor.factors) if j in modes]) + tensor.offset * (not modes)


def variance(tensor: Tucker, modes: Collection[int]) -> float:
    """Return the mean square over all cells of the part that varies with exactly these modes.

    >>> tensor = Tucker(np.ones((1, 1)), (np.array([[1.0], [3]]), np.array([[1.0], [1], [4]])))
    >>> [round(variance(tensor, modes), 3) for modes in ((0,), (1,), (0, 1))], round(float(tensor.full().var()), 3)
    ([4.0, 8.0, 2.0], 14.0)
    """
    moments = []
    for j, U in enumerate(tensor.factors):
        mean = U.mean(axis=0)
        centred = U - mean
        moments.append(centred.T @ centred / len(U) if j in modes else np.outer(mean, mean))
    return max(float((tensor.core * multi_mode_dot(tensor.core, moments)).sum()), 0.0)


def total_variance(tensor: Tucker) -> float:
    """Return the variance of all values, which is the sum over all sets of modes of what their parts have.

    >>> round(total_variance(Tucker(np.ones((1, 1)), (np.array([[1.0], [3]]), np.array([[1.0], [1], [4]])))), 3)
    14.0
    """
    moments = [U.T @ U / len(U) for U in tensor.factors]
    mean = part(tensor, ()).item() - tensor.offset
    return max(float((tensor.core * multi_mode_dot(tensor.core, moments)).sum()) - mean**2, 0.0)


def distances(tensor: Tucker, mode: int) -> Floats:
    """Return how far the values of two levels of a mode are apart, root mean square over all others, shape (p, p).

    >>> tensor = Tucker(np.ones((1, 1)), (np.array([[1.0], [3], [1]]), np.array([[2.0], [0]])))
    >>> distances(tensor, 0).round(3).tolist()
    [[0.0, 2.828, 0.0], [2.828, 0.0, 2.828], [0.0, 2.828, 0.0]]
    """
    moments = [np.eye(U.shape[1]) if j == mode else U.T @ U / len(U) for j, U in enumerate(tensor.factors)]
    unfolded = np.moveaxis(tensor.core, mode, 0).reshape(tensor.rank[mode], -1)
    weighted = np.moveaxis(multi_mode_dot(tensor.core, moments), mode, 0).reshape(tensor.rank[mode], -1)
    rows = tensor.factors[mode] @ np.linalg.cholesky(_lifted(unfolded @ weighted.T))
    squares = (rows**2).sum(axis=1)
    return np.asarray(np.sqrt(np.maximum(squares[:, None] + squares - 2.0 * rows @ rows.T, 0.0)))


def _lifted(square: Floats) -> Floats:
    """Return a matrix that is positive but for rounding with a diagonal that makes it so."""
    return np.asarray(square + 1e-12 * (np.trace(square) + 1e-300) * np.eye(len(square)))

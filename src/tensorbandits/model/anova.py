"""What a Tucker tensor says of single modes and of how they meet: its analysis of variance, in closed form.

A tensor is the sum, over all sets of modes, of a part that varies with exactly these modes and averages to 0 over the
levels of each of them: the overall mean, the main effects, what two modes have beyond their main effects, and so on.
The part of a set is the core times the factors of its modes, each less its mean row, and times the mean rows of all
others. So none of it needs the whole array. A tensor of pairs has parts of one and two modes: ``model/pairs_anova.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from tensorbandits.model import pairs_anova
from tensorbandits.tensor.pairs import Pairs
from tensorbandits.tensor.tucker import Floats, Tucker, multi_mode_dot

Part = tuple[int, ...]  # the modes with which a part varies, ascending
Tensor = Tucker | Pairs


def part(tensor: Tensor, modes: Collection[int]) -> Floats:
    """Return the part that varies with exactly these modes, an axis for each, in their order; without modes, the mean.

    >>> tensor = Tucker(np.eye(2), (np.array([[1.0, 0], [3, 0]]), np.array([[1.0, 1], [1, 5]])), offset=10.0)
    >>> tensor.full().tolist()
    [[11.0, 11.0], [13.0, 13.0]]
    >>> part(tensor, ()).item(), part(tensor, (0,)).tolist(), part(tensor, (0, 1)).tolist()
    (12.0, [-1.0, 1.0], [[0.0, 0.0], [0.0, 0.0]])
    """
    if isinstance(tensor, Pairs):
        return pairs_anova.part(tensor, modes)
    means = [U.mean(axis=0) for U in tensor.factors]
    rows = [U - m if j in modes else m[None] for j, (U, m) in enumerate(zip(tensor.factors, means, strict=True))]
    values = multi_mode_dot(tensor.core, rows)
    return values.reshape([len(U) for j, U in enumerate(tensor.factors) if j in modes]) + tensor.offset * (not modes)


def variance(tensor: Tensor, modes: Collection[int]) -> float:
    """Return the mean square over all cells of the part that varies with exactly these modes.

    >>> tensor = Tucker(np.ones((1, 1)), (np.array([[1.0], [3]]), np.array([[1.0], [1], [4]])))
    >>> [round(variance(tensor, modes), 3) for modes in ((0,), (1,), (0, 1))], round(float(tensor.full().var()), 3)
    ([4.0, 8.0, 2.0], 14.0)
    """
    if isinstance(tensor, Pairs):
        return pairs_anova.variance(tensor, modes)
    moments = []
    for j, U in enumerate(tensor.factors):
        mean = U.mean(axis=0)
        centred = U - mean
        moments.append(centred.T @ centred / len(U) if j in modes else np.outer(mean, mean))
    return max(float((tensor.core * multi_mode_dot(tensor.core, moments)).sum()), 0.0)


def total_variance(tensor: Tensor) -> float:
    """Return the variance of all values, which is the sum over all sets of modes of what their parts have.

    >>> round(total_variance(Tucker(np.ones((1, 1)), (np.array([[1.0], [3]]), np.array([[1.0], [1], [4]])))), 3)
    14.0
    """
    if isinstance(tensor, Pairs):
        return pairs_anova.total_variance(tensor)
    moments = [U.T @ U / len(U) for U in tensor.factors]
    mean = part(tensor, ()).item() - tensor.offset
    return max(float((tensor.core * multi_mode_dot(tensor.core, moments)).sum()) - mean**2, 0.0)


def distances(tensor: Tensor, mode: int) -> Floats:
    """Return how far the values of two levels of a mode are apart, root mean square over all others, shape (p, p).

    >>> tensor = Tucker(np.ones((1, 1)), (np.array([[1.0], [3], [1]]), np.array([[2.0], [0]])))
    >>> distances(tensor, 0).round(3).tolist()
    [[0.0, 2.828, 0.0], [2.828, 0.0, 2.828], [0.0, 2.828, 0.0]]
    """
    rows = profiles(tensor, mode)
    squares = (rows**2).sum(axis=1)
    return np.asarray(np.sqrt(np.maximum(squares[:, None] + squares - 2.0 * rows @ rows.T, 0.0)))


def profiles(tensor: Tensor, mode: int) -> Floats:
    """Return rows of the levels of a mode (p, n) whose distances are how far the values of two levels are apart.

    >>> tensor = Tucker(np.ones((1, 1)), (np.array([[1.0], [3], [1]]), np.array([[2.0], [0]])))
    >>> profiles(tensor, 0).round(3).tolist()
    [[1.414], [4.243], [1.414]]
    """
    if isinstance(tensor, Pairs):
        return pairs_anova.profiles(tensor, mode)
    moments = [np.eye(U.shape[1]) if j == mode else U.T @ U / len(U) for j, U in enumerate(tensor.factors)]
    unfolded = np.moveaxis(tensor.core, mode, 0).reshape(tensor.rank[mode], -1)
    weighted = np.moveaxis(multi_mode_dot(tensor.core, moments), mode, 0).reshape(tensor.rank[mode], -1)
    return np.asarray(tensor.factors[mode] @ np.linalg.cholesky(_lifted(unfolded @ weighted.T)))


def coordinates(draws: Sequence[Tensor], mode: int, count: int) -> tuple[Floats, Floats]:
    """Return coordinates (p, count) of the levels of a mode in the mean of several tensors, and what each has (count,).

    Of tensors and tensors of pairs it is the mean of those that are more. They are the leading factors of the mean
    tensor's unfolding, less its mean row. With all of them the distance of two
    levels is how far their values are apart, root mean square over all others. What a coordinate has is its share of
    their squares; its sign is such that levels with more of it have more on average.

    >>> tensor = Tucker(np.ones((1, 1)), (np.array([[1.0], [3], [1]]), np.array([[2.0], [0]])))
    >>> rows, shares = coordinates([tensor, tensor], 0, 1)
    >>> rows.round(3).tolist(), shares.round(3).tolist()
    ([[-0.943], [1.886], [-0.943]], [1.0])
    """
    pairs = [one for one in draws if isinstance(one, Pairs)]
    if 2 * len(pairs) > len(draws):
        return pairs_anova.coordinates(pairs, mode, count)
    tensors = [one for one in draws if isinstance(one, Tucker)]
    order = (mode, *(j for j in range(len(tensors[0].factors)) if j != mode))
    ranks = [max(one.rank[j] for one in tensors) for j in order]
    cores = np.array([_padded(np.transpose(one.core, order), ranks) for one in tensors])
    factors = [
        np.array([_padded(one.factors[j], (len(one.factors[j]), rank)) for one in tensors])
        for j, rank in zip(order, ranks, strict=True)
    ]
    inner = np.empty((len(tensors), len(tensors), ranks[0], ranks[0]))  # of the rows of two cores, given all others
    for at, core in enumerate(cores):
        met = cores
        for j, U in enumerate(factors[1:], start=2):
            moments = (U.transpose(0, 2, 1) @ U[at] / U.shape[1])[(slice(None), *([None] * (met.ndim - 3)))]
            met = np.moveaxis(np.moveaxis(met, j, -1) @ moments, -1, j)
        inner[at] = core.reshape(ranks[0], -1) @ met.reshape(len(tensors), ranks[0], -1).transpose(0, 2, 1)
    centred = (factors[0] - factors[0].mean(axis=1, keepdims=True)) / len(tensors)
    basis, R = np.linalg.qr(np.hstack(list(centred)))
    square = inner.transpose(0, 2, 1, 3).reshape(R.shape[1], -1)
    values, vectors = np.linalg.eigh(R @ square @ R.T)
    squares = np.maximum(values[::-1], 0.0)
    rows = basis @ (vectors[:, ::-1] * np.sqrt(squares))[:, :count]
    main = np.mean([part(one, (mode,)) for one in tensors], axis=0)
    rows *= np.where(main @ rows < 0.0, -1.0, 1.0)
    room = [(0, 0), (0, count - rows.shape[1])]
    return np.pad(rows, room), np.pad(squares[:count] / max(squares.sum(), 1e-300), room[1])


def _padded(array: Floats, shape: Sequence[int]) -> Floats:
    """Return an array with zeros after what it has, of a larger shape."""
    return np.pad(array, [(0, size - have) for size, have in zip(shape, array.shape, strict=True)])


def _lifted(square: Floats) -> Floats:
    """Return a matrix that is positive but for rounding with a diagonal that makes it so."""
    return np.asarray(square + 1e-12 * (np.trace(square) + 1e-300) * np.eye(len(square)))

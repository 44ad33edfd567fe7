"""What a tensor of pairs says of single modes and of how two of them meet: its analysis of variance, in closed form.

The same functions as ``model/anova.py`` has for a Tucker tensor, which hands a tensor of pairs on to these.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from tensorbandits.tensor.pairs import Pairs
from tensorbandits.tensor.tucker import Floats


def _means(tensor: Pairs) -> list[Floats]:
    return [tensor.rows(j).mean(axis=0) for j in range(len(tensor.shape))]


def _beside(tensor: Pairs, mode: int, means: Sequence[Floats]) -> Floats:
    """What multiplies the rows of a mode, (q,), if all other modes have their mean rows."""
    others = [k for k in range(len(tensor.shape)) if k != mode]
    return sum((tensor.core(mode, k) @ means[k] for k in others), np.zeros(tensor.layout.columns[mode]))


def part(tensor: Pairs, modes: Collection[int]) -> Floats:
    """Return the part that varies with exactly these modes, an axis for each; of three modes and more it is 0."""
    chosen, means = sorted(modes), _means(tensor)
    if not chosen:
        total = tensor.offset + sum(float(tensor.effects_of(j).mean()) for j in range(len(tensor.shape)))
        return np.array(total + sum(float(means[j] @ tensor.core(j, k) @ means[k]) for j, k in tensor.layout.pairs))
    if len(chosen) == 1:
        (mode,) = chosen
        values = tensor.effects_of(mode) + tensor.rows(mode) @ _beside(tensor, mode, means)
        return np.asarray(values - values.mean())
    if len(chosen) == 2:
        left, right = (tensor.rows(j) - means[j] for j in chosen)
        return np.asarray(left @ tensor.core(*chosen) @ right.T)
    return np.zeros([tensor.shape[j] for j in chosen])


def variance(tensor: Pairs, modes: Collection[int]) -> float:
    """Return the mean square over all cells of the part that varies with exactly these modes."""
    if len(modes) != 2:
        return float((part(tensor, modes) ** 2).mean()) if modes else float(part(tensor, ()) ** 2)
    j, k = sorted(modes)
    C, left, right = tensor.core(j, k), _covariance(tensor.rows(j)), _covariance(tensor.rows(k))
    return max(float((C * (left @ C @ right)).sum()), 0.0)


def total_variance(tensor: Pairs) -> float:
    """Return the variance of all values."""
    modes = range(len(tensor.shape))
    return sum(variance(tensor, (j,)) for j in modes) + sum(variance(tensor, pair) for pair in tensor.layout.pairs)


def profiles(tensor: Pairs, mode: int) -> Floats:
    """Return rows of the levels of a mode (p, n) whose distances are how far the values of two levels are apart."""
    rows = [part(tensor, (mode,))[:, None]]
    for k in range(len(tensor.shape)):
        if k != mode:
            values, vectors = np.linalg.eigh(_covariance(tensor.rows(k)))
            rows.append(tensor.rows(mode) @ tensor.core(mode, k) @ (vectors * np.sqrt(np.maximum(values, 0.0))))
    return np.hstack(rows)


def coordinates(tensors: Sequence[Pairs], mode: int, count: int) -> tuple[Floats, Floats]:
    """Return coordinates (p, count) of the levels of a mode in the mean of tensors, and what each has (count,)."""
    others = [k for k in range(len(tensors[0].shape)) if k != mode]
    main = np.mean([part(one, (mode,)) for one in tensors], axis=0)
    tables = [np.mean([_table(one, mode, k) for one in tensors], axis=0) / np.sqrt(tensors[0].shape[k]) for k in others]
    left, sizes, _ = np.linalg.svd(np.hstack([main[:, None], *tables]), full_matrices=False)
    rows = (left * sizes)[:, :count]
    rows *= np.where(main @ rows < 0.0, -1.0, 1.0)
    room = [(0, 0), (0, count - rows.shape[1])]
    return np.pad(rows, room), np.pad(sizes[:count] ** 2 / max(float((sizes**2).sum()), 1e-300), room[1])


def _table(tensor: Pairs, mode: int, other: int) -> Floats:
    """What two modes have beyond their main effects, (p_mode, p_other)."""
    found = part(tensor, (mode, other))
    return found if mode < other else found.T


def _covariance(rows: Floats) -> Floats:
    """The covariance of the columns of rows (p, q), each level counting the same."""
    centred = rows - rows.mean(axis=0)
    return np.asarray(centred.T @ centred / len(rows))

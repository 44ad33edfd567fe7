"""Checks at the edge of the library: each error names the value, what is allowed, and the remedy."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from numbers import Integral, Real
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

Cell = tuple[int, ...]
Rank = int | Sequence[int] | str

_LARGEST_SIZE = 2**62  # levels are held as int64
MOST_REWARDS = 1e15  # of one cell
LARGEST_REWARD, SMALLEST_REWARD = 1e100, 1e-100  # in size, 0 aside: sums of rewards are squared
_RESCALE = (
    "allowed are 0 and sizes from 1e-100 to 1e100, as sums are squared: rescale, dividing every reward by one number"
)


def is_sequence(value: Any) -> TypeGuard[Sequence[Any]]:
    """Say whether a value has entries one can count: a sequence or an array, but no text and no 0-d array.

    >>> is_sequence([1, 2]), is_sequence("ab"), is_sequence(np.array(3))
    (True, False, False)
    """
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def nearest(name: Any, names: Iterable[Any]) -> str:
    """Return the question whether a name that is close was meant; nothing where none is.

    >>> nearest("ofer", ["segment", "offer"]), nearest("weather", [1, 2])
    ("did you mean 'offer'?", '')
    """
    known = {str(item): item for item in names}
    near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
    return f"did you mean {known[near[0]]!r}?" if near else ""


def check_shape(shape: Sequence[int]) -> Cell:
    """Return the shape as a tuple of ints, each from 1 to 2**62.

    >>> check_shape([3, 4])
    (3, 4)
    """
    if not is_sequence(shape):
        raise TypeError(f"shape is {shape!r}; give one size per mode, for example (15, 15, 15)")
    if len(shape) == 0:
        raise ValueError("shape is empty; give at least one mode, for example (10,)")
    for j, size in enumerate(shape):
        if isinstance(size, bool) or not isinstance(size, Integral):
            raise TypeError(f"mode {j} has size {size!r}; sizes are whole numbers of at least 1")
        if int(size) < 1:
            raise ValueError(f"mode {j} has size {size}; a mode needs at least one level: drop it or give it levels")
        if int(size) > _LARGEST_SIZE:
            raise ValueError(
                f"mode {j} has a size above 2**62 = {_LARGEST_SIZE:.2g}, the most allowed; give it fewer levels"
            )
    return tuple(int(size) for size in shape)


def check_context(context: Sequence[int], shape: Cell) -> Cell:
    """Return the positions of the context modes, sorted as given, each a distinct mode of the shape.

    >>> check_context([0, 2], (3, 4, 5))
    (0, 2)
    """
    if not is_sequence(context):
        raise TypeError(f"context is {context!r}; give the positions of the context modes, for example (0,)")
    modes: list[int] = []
    for mode in context:
        if isinstance(mode, bool) or not isinstance(mode, Integral):
            raise TypeError(f"context mode {mode!r} is not a whole number; give positions from 0 to {len(shape) - 1}")
        if not 0 <= int(mode) < len(shape):
            raise ValueError(f"context mode {mode} does not exist; the modes are 0 to {len(shape) - 1}")
        modes.append(int(mode))
    if len(set(modes)) < len(modes):
        raise ValueError(f"context {tuple(modes)} names a mode twice; name each context mode once")
    if len(modes) == len(shape):
        raise ValueError("every mode is context, so nothing is left to decide; leave at least one mode out")
    return tuple(modes)


def check_level(level: Any, size: int, what: str) -> int:
    """Return one level as an int within ``0 .. size - 1``."""
    if isinstance(level, bool) or not isinstance(level, Integral):
        raise TypeError(f"{what} is {level!r}; allowed are whole numbers from 0 to {size - 1}")
    index = int(level)
    if not 0 <= index < size:
        raise ValueError(f"{what} is {index}, out of range; allowed are 0 to {size - 1}")
    return index


def check_levels(levels: Sequence[int], context: Cell, shape: Cell) -> Cell:
    """Return the levels of the context modes, one per context mode in the order of ``context``.

    >>> check_levels((2,), (0,), (3, 4))
    (2,)
    """
    if not context and type(levels) is tuple and not levels:  # on the way of every decision, so without a detour
        return ()
    if not is_sequence(levels):
        raise TypeError(f"levels is {levels!r}; give a sequence with one level per context mode {context}")
    if len(levels) != len(context):
        if not context:
            raise ValueError(
                f"{len(levels)} context levels {tuple(levels)} given to a policy without context; "
                "call it without levels, or name the context modes when you make the policy: context=(0,)"
            )
        raise ValueError(
            f"{len(levels)} context levels {tuple(levels)} given; this policy has {len(context)} "
            f"context modes {context}: give one level for each, in that order"
        )
    return tuple(
        check_level(level, shape[mode], f"the level of context mode {mode}")
        for level, mode in zip(levels, context, strict=True)
    )


def check_cell(cell: Sequence[int], shape: Cell) -> Cell:
    """Return a whole cell as a tuple of ints, one level per mode.

    >>> check_cell(np.array([1, 2]), (3, 4))
    (1, 2)
    """
    if (  # what `ask` returned, told without a detour
        type(cell) is tuple
        and len(cell) == len(shape)
        and all(type(level) is int and 0 <= level < size for level, size in zip(cell, shape, strict=True))
    ):
        return cell
    if not is_sequence(cell):
        raise TypeError(f"cell is {cell!r}; give one level per mode of the shape {shape}")
    if len(cell) != len(shape):
        raise ValueError(
            f"cell {tuple(cell)} has {len(cell)} levels; the shape {shape} has {len(shape)} modes: "
            "give one level per mode, context modes included"
        )
    return tuple(
        check_level(level, size, f"the level of mode {j}")
        for j, (level, size) in enumerate(zip(cell, shape, strict=True))
    )


def check_cells(cells: ArrayLike, shape: Cell) -> NDArray[np.int64]:
    """Return many cells as an integer array of shape (n, d).

    >>> check_cells([(0, 1), (2, 3)], (3, 4)).shape
    (2, 2)
    """
    array = _as_array(cells, "cells")
    if array.size == 0:
        return np.zeros((0, len(shape)), dtype=np.int64)
    if array.ndim != 2 or array.shape[1] != len(shape):
        raise ValueError(
            f"cells has shape {array.shape}; give an array of shape (n, {len(shape)}), "
            f"one row per cell and one column per mode of {shape}"
        )
    if not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"cells has type {array.dtype}; levels are whole numbers: use an integer array")
    outside = (array < 0) | (array >= np.array(shape))
    if outside.any():
        row, mode = (int(i) for i in np.argwhere(outside)[0])
        check_level(int(array[row, mode]), shape[mode], f"in row {row}, the level of mode {mode}")
    return array.astype(np.int64)


def check_reward(reward: Any, what: str = "the reward") -> float:
    """Return a reward as a float that is 0 or of a size from 1e-100 to 1e100.

    >>> check_reward(1)
    1.0
    """
    if type(reward) is float and (SMALLEST_REWARD <= abs(reward) <= LARGEST_REWARD or reward == 0.0):
        return reward
    if isinstance(reward, np.ndarray) and reward.ndim == 0:
        reward = reward[()]
    if not isinstance(reward, (Real, np.bool_)):
        raise TypeError(f"{what} is {reward!r}, not a number; tell a finite number, or nothing if it is unknown")
    try:
        value = float(reward)
    except OverflowError:
        raise ValueError(f"{what} is too large for a float; {_RESCALE}") from None
    if SMALLEST_REWARD <= abs(value) <= LARGEST_REWARD or value == 0.0:
        return value
    if math.isfinite(value):
        raise ValueError(f"{what} is {value:g}; {_RESCALE}")
    raise ValueError(f"{what} is {value}; tell a finite number, or nothing if it is unknown")


def check_rewards(rewards: ArrayLike, count: int, what: str = "reward") -> NDArray[np.float64]:
    """Return many rewards as a float array of shape (count,), each as :func:`check_reward` wants it.

    >>> check_rewards([1, 2.5], 2).tolist()
    [1.0, 2.5]
    """
    array = _as_array(rewards, "rewards")
    if array.shape != (count,) and not (array.size == 0 and count == 0):
        raise ValueError(f"{count} cells but an array of shape {array.shape}; give one {what} per cell")
    if array.dtype.kind not in "biuf":
        if array.dtype.kind in "mM":
            raise TypeError(f"rewards have type {array.dtype}; give finite numbers")
        entries = array if array.dtype == object else np.asarray(rewards, dtype=object)
        return np.array([check_reward(reward, f"{what} {row}") for row, reward in enumerate(entries)])
    values = array.astype(np.float64).reshape(count)
    sizes = np.abs(values)
    allowed = ((sizes >= SMALLEST_REWARD) & (sizes <= LARGEST_REWARD)) | (values == 0.0)  # false for NaN
    if not allowed.all():
        row = int(np.flatnonzero(~allowed)[0])
        check_reward(values[row], f"{what} {row}")
    return values


def check_clicks(clicks: ArrayLike, trials: ArrayLike, count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return numbers of clicks and of trials as two float arrays of shape (count,), whole and with clicks <= trials.

    >>> [array.tolist() for array in check_clicks([3, 0], [10, 2], 2)]
    [[3.0, 0.0], [10.0, 2.0]]
    """
    values, of = check_rewards(clicks, count), check_rewards(trials, count, "number of trials")
    allowed = (values >= 0.0) & (values <= of) & (of >= 1.0) & (of <= MOST_REWARDS)
    allowed &= (values == np.floor(values)) & (of == np.floor(of))
    if not allowed.all():
        row = int(np.flatnonzero(~allowed)[0])
        raise ValueError(
            f"{values[row]:g} clicks of {of[row]:g} trials were told; give whole numbers, of trials from 1 to "
            f"{MOST_REWARDS:g}, of clicks from 0 to the trials"
        )
    return values, of


def _as_array(values: Any, name: str) -> NDArray[Any]:
    """Return values as an array, of one axis and objects where entries have different lengths."""
    if np.ma.isMaskedArray(values):  # NumPy would count what is masked
        raise TypeError(f"{name} is a masked array; give the entries that are not masked: {name}.compressed()")
    try:
        return np.asarray(values)
    except ValueError:
        return np.fromiter(values, dtype=object)


def check_array(
    values: Any, name: str, shape: Cell, *, integers: bool = False, largest: float = math.inf
) -> NDArray[Any]:
    """Return finite numbers of exactly this shape, none larger than allowed, as a new array of floats, or of integers.

    >>> check_array([1, 2], "counts", (2,)).tolist(), check_array(3, "phase", (), integers=True).item()
    ([1.0, 2.0], 3)
    """
    array = _as_array(values, name)
    kinds = "iu" if integers else "iuf"
    if array.shape != shape or (array.size and array.dtype.kind not in kinds):
        what = "whole numbers" if integers else "numbers"
        raise ValueError(f"{name} is of shape {array.shape} and type {array.dtype}; give {what} of shape {shape}")
    if not np.isfinite(array.astype(np.float64)).all():
        raise ValueError(f"{name} has entries that are no finite numbers; every one must be")
    if array.size and np.abs(array.astype(np.float64)).max() > largest:
        raise ValueError(f"{name} has entries larger than {largest:g}, the most allowed")
    return np.array(array, dtype=np.int64 if integers else np.float64)


def is_finite(value: Any) -> bool:
    """Say whether a value is a real number that a finite float can hold.

    >>> is_finite(np.float32(1)), is_finite(10**400), is_finite("1")
    (True, False, False)
    """
    try:
        return isinstance(value, Real) and math.isfinite(value)
    except OverflowError:
        return False


def check_weight(value: Any, name: str = "weight") -> float:
    """Return what is left of a reward that has faded, if it is above 0 and at most 1."""
    if isinstance(value, bool) or not is_finite(value) or not 0 < value <= 1:
        raise ValueError(f"{name} is {value!r}; it must be above 0 and at most 1 (1 forgets nothing)")
    return float(value)


def check_positive(value: Any, name: str) -> float:
    """Return a hyper-parameter as a finite float above 0."""
    if isinstance(value, bool) or not is_finite(value) or value <= 0:
        raise ValueError(f"{name} is {value!r}; it must be a finite number above 0")
    return float(value)


def check_noise(value: Any) -> float | None:
    """Return the standard deviation of a reward's noise, of a size that rewards may have; ``None`` if it is unknown."""
    if value is None:
        return None
    noise = check_positive(value, "noise")
    if not SMALLEST_REWARD <= noise <= LARGEST_REWARD:
        raise ValueError(f"noise is {noise:g}; {_RESCALE}")
    return noise


def check_probability(value: Any, name: str) -> float:
    """Return a number above 0 and below 1."""
    if isinstance(value, bool) or not is_finite(value) or not 0 < value < 1:
        raise ValueError(f"{name} is {value!r}; as a probability it must be above 0 and below 1, such as 0.9")
    return float(value)


def check_at_least(value: float, name: str, least: float = 0.0) -> float:
    """Return a finite number of at least ``least``."""
    if isinstance(value, bool) or not is_finite(value) or value < least:
        raise ValueError(f"{name} is {value!r}; it must be a finite number of at least {least:g}")
    return float(value)


def check_count(value: Any, name: str, least: int = 1) -> int:
    """Return a hyper-parameter as an int of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise ValueError(f"{name} is {value!r}; it must be a whole number of at least {least}")
    return int(value)


def check_flag(value: Any, name: str) -> bool:
    """Return a truth value; any text would be one too.

    >>> check_flag("no", "adds")
    Traceback (most recent call last):
    TypeError: adds is 'no'; give True or False
    """
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} is {value!r}; give True or False")
    return bool(value)


def check_seed(seed: Any) -> int | np.random.SeedSequence | None:
    """Return a seed: ``None`` for fresh randomness, a whole number of at least 0, or a ``SeedSequence``.

    >>> check_seed(np.int64(7)), check_seed(None)
    (7, None)
    """
    if seed is None or isinstance(seed, np.random.SeedSequence):
        return seed
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise TypeError(f"seed is {seed!r}; give a whole number of at least 0, a SeedSequence, or None for fresh draws")
    if seed < 0:
        raise ValueError(f"seed is {seed}; seeds are at least 0: give 0 or more, or None for fresh draws")
    return int(seed)


def check_installed(what: str, *packages: str, extra: str = "experiments") -> None:
    """Refuse to go on without packages of an extra, and say how to install them.

    >>> check_installed("this doctest", "numpy")
    """
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise ModuleNotFoundError(
            f"{what} needs {' and '.join(missing)}, not installed here; "
            f"install with: pip install 'tensorbandits[{extra}]'",
            name=missing[0],
        )


def check_weights(weights: Sequence[ArrayLike] | None, shape: Cell) -> list[NDArray[np.float64]] | None:
    """Return per-mode sampling weights normalised to sum to 1; ``None`` stands for uniform.

    >>> check_weights([[1, 3], [1, 1]], (2, 2))[0].tolist()
    [0.25, 0.75]
    """
    if weights is None:
        return None
    if not is_sequence(weights):
        raise TypeError(f"weights is {weights!r}; give a list of vectors of lengths {shape}, or None for uniform draws")
    if len(weights) != len(shape):
        raise ValueError(
            f"{len(weights)} weight vectors given for {len(shape)} modes; give one per mode to decide, "
            f"of lengths {shape}"
        )
    result = []
    for i, (weight, size) in enumerate(zip(weights, shape, strict=True)):
        wanted = f"weight vector {i} is {weight!r}; give {size} finite numbers above 0, one per level"
        if not is_sequence(weight):
            raise TypeError(wanted)
        try:
            w = np.asarray(weight, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(wanted) from None
        if w.shape != (size,) or not np.isfinite(w).all() or (w <= 0).any():
            raise ValueError(f"{wanted} (a level that is never drawn could never be estimated)")
        result.append(w / w.sum())
    return result


def resolve_rank(rank: Rank, shape: Cell) -> Cell | None:
    """Return the Tucker rank per mode; ``None`` stands for ``"auto"``.

    An int is a cap, lowered for modes that are smaller and until the rank is possible
    (``r_j`` at most the product of the others). A tuple is taken as given, and refused when impossible.

    >>> resolve_rank(2, (15, 1, 15)), resolve_rank((3, 2, 2), (9, 9, 9))
    ((2, 1, 2), (3, 2, 2))
    """
    if isinstance(rank, str):
        if rank != "auto":
            raise ValueError(f'rank is {rank!r}; give a whole number, one per mode, or "auto"')
        return None
    if isinstance(rank, Integral) and not isinstance(rank, bool):
        if rank < 1:
            raise ValueError(f'rank is {rank}; it must be at least 1: give 1 or more, or "auto"')
        return feasible_rank([min(int(rank), size) for size in shape])
    if not is_sequence(rank):
        raise TypeError(f'rank is {rank!r}; give a whole number, one per mode, or "auto"')
    if len(rank) != len(shape):
        raise ValueError(f"rank {tuple(rank)} has {len(rank)} entries; the shape {shape} has {len(shape)} modes")
    ranks = []
    for j, (r, size) in enumerate(zip(rank, shape, strict=True)):
        if isinstance(r, bool) or not isinstance(r, Integral):
            raise TypeError(f"the rank of mode {j} is {r!r}; ranks are whole numbers of at least 1")
        if not 1 <= int(r) <= size:
            raise ValueError(
                f"the rank of mode {j} is {r}; allowed are 1 to its size {size} (an int rank is lowered for you)"
            )
        ranks.append(int(r))
    for j, r in enumerate(ranks):
        others = math.prod(ranks) // r
        if r > others:
            raise ValueError(
                f"no tensor has rank {tuple(ranks)}: the rank {r} of mode {j} exceeds the product {others} "
                f"of the others; lower it to at most {others}, or raise the others"
            )
    return tuple(ranks)


def feasible_rank(ranks: Sequence[int]) -> Cell:
    """Lower ranks until each is at most the product of the others, as every tensor's are.

    >>> feasible_rank([5, 2, 1])
    (2, 2, 1)
    """
    result = list(ranks)
    for j in sorted(range(len(result)), key=lambda j: -result[j]):
        result[j] = min(result[j], math.prod(result) // result[j])
    return tuple(result)

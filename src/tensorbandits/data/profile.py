"""What a log says of its own rank: spectra beside noise, and how well models of each rank predict held-out rewards."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorbandits.checks import check_count, resolve_rank
from tensorbandits.data.log import Log
from tensorbandits.frames import to_frame
from tensorbandits.ledger import Ledger
from tensorbandits.tensor.completion import Completion, complete
from tensorbandits.tensor.tucker import unfold

Floats = NDArray[np.float64]

_MOST_CELLS = 10**6
_SPLITS = 6
_NOISE_DRAWS = 10
_QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
_FILLS = 20  # rounds of steadying cells with what was fitted


@dataclass(frozen=True, eq=False, repr=False)
class Profile:
    """How large, full and noisy a log is, and which rank it supports.

    ``rewards_per_cell`` are quantiles over observed cells, by share; ``spread`` is the standard deviation within cells.
    ``singular_values`` holds, per mode, those of the unfolding of centred cell means, with unobserved cells at the
    overall mean; ``noise_singular_values`` what noise alone would give on average.

    ``errors`` is, by model, the squared error of held-out cell means weighted by their rewards, averaged over splits of
    the log in halves; ``standard_errors`` are of its difference from the best rank's. ``noise`` is the part of each
    error that no model could remove. ``suggested_rank`` is the smallest within one standard error of the best, and
    ``gain`` the share of the excess error of raw cell means, above the noise, that it removes: 1 is all of it, and a
    negative gain says that raw means are better. It is ``None`` where raw means have no excess.

    >>> import pyarrow as pa
    >>> from tensorbandits.data import from_log
    >>> table = pa.table({"a": [0, 1, 1, 0] * 5, "b": [0, 0, 1, 1] * 5, "reward": range(20)})
    >>> facts = profile(from_log(table, ["a", "b"], "reward"), max_rank=1)
    >>> facts
    Profile(a: 2, b: 2; 20 rewards, 5 in the median cell; suggested rank 1)
    >>> facts.shape, facts.rewards_per_cell[0.5], facts.mean
    ((2, 2), 5.0, 9.5)
    """

    modes: tuple[str, ...]
    shape: tuple[int, ...]
    density: float
    rewards: float
    rewards_per_cell: dict[float, float]
    mean: float
    spread: float
    singular_values: tuple[Floats, ...]
    noise_singular_values: tuple[Floats, ...]
    errors: dict[str, float]
    standard_errors: dict[str, float]
    noise: float
    suggested_rank: int
    gain: float | None

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}: {size:,}" for name, size in zip(self.modes, self.shape, strict=True))
        rewards = f"{self.rewards:,.0f} rewards, {self.rewards_per_cell[0.5]:,.0f} in the median cell"
        return f"Profile({sizes}; {rewards}; suggested rank {self.suggested_rank})"

    def to_frame(self) -> Any:
        """Return how well each model predicts, one row per model, as a data frame of pandas, polars or pyarrow.

        The columns are ``model``, ``error``, ``standard_error`` and ``above_noise``, the error less what no model could
        remove.
        """
        return to_frame(
            {
                "model": list(self.errors),
                "error": list(self.errors.values()),
                "standard_error": list(self.standard_errors.values()),
                "above_noise": [error - self.noise for error in self.errors.values()],
            }
        )


def profile(log: Log, *, max_rank: int = 6, seed: int = 0) -> Profile:
    """Return the :class:`Profile` of a log: which rank its held-out rewards speak for, and what that gains.

    Parameters
    ----------
    log : at most 10^6 cells, as all of them are written out.
    max_rank : the largest rank to try, the same in each mode (lowered for modes with fewer levels).
    seed : of the splits and of the noise.

    >>> import pyarrow as pa
    >>> from tensorbandits.data import from_log
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.integers(0, 12, (2, 3000))
    >>> reward = np.cos(a) * np.sin(b) + rng.standard_normal(3000)
    >>> result = profile(from_log(pa.table({"a": a, "b": b, "reward": reward}), ["a", "b"], "reward"), max_rank=4)
    >>> result.suggested_rank, result.errors["rank 1"] < result.errors["cell means"]
    (1, True)
    """
    if not isinstance(log, Log):
        raise TypeError(f"the log is a {type(log).__name__}; give one that from_log has read")
    if math.prod(log.shape) > _MOST_CELLS:
        raise ValueError(
            f"the log has {math.prod(log.shape):.3g} cells; a profile writes out all of them, at most "
            f"{_MOST_CELLS:.0e}: keep fewer levels with top= when reading it"
        )
    most, ledger = check_count(max_rank, "max_rank"), log.ledger
    sources = np.random.SeedSequence(check_count(seed, "seed", least=0)).spawn(_SPLITS + 1)
    variance, errors, noises = _variance(ledger), [], []
    for source in sources[1:]:
        train, held_out = log.split(0.5, source)
        errors.append(_errors(train, held_out, most))
        noises.append(_noise(held_out, variance))
    names, noise = list(errors[0]), float(np.mean(noises))
    table = np.array([[error[name] for name in names] for error in errors])  # (splits, models)
    suggested, standard_errors = _choose(names, table)
    means = dict(zip(names, table.mean(axis=0).tolist(), strict=True))
    excess = means["cell means"] - noise
    within, freedom = ledger.repeats()
    spread = math.sqrt(within / freedom) if freedom else 0.0
    values, from_noise = _spectra(ledger, spread, np.random.default_rng(sources[0]))
    return Profile(
        modes=log.modes,
        shape=log.shape,
        density=log.density,
        rewards=ledger.rounds,
        rewards_per_cell={share: float(np.quantile(ledger.counts, share)) for share in _QUANTILES},
        mean=ledger.mean,
        spread=spread,
        singular_values=values,
        noise_singular_values=from_noise,
        errors=means,
        standard_errors=standard_errors,
        noise=noise,
        suggested_rank=suggested,
        gain=1.0 - (means[f"rank {suggested}"] - noise) / excess if excess > 0 else None,
    )


def _choose(names: list[str], table: Floats) -> tuple[int, dict[str, float]]:
    """Return the smallest rank within one standard error of the best, and the standard errors of all models.

    The errors of two models on one split share its noise, so that their differences are compared.
    """
    ranks = [i for i, name in enumerate(names) if name.startswith("rank ")]
    best = min(ranks, key=lambda i: float(table[:, i].mean()))
    differences = table - table[:, [best]]
    errors = differences.std(axis=0, ddof=1) / math.sqrt(len(table))
    chosen = next(i for i in ranks if differences[:, i].mean() <= errors[i])
    return int(names[chosen].split()[1]), dict(zip(names, errors.tolist(), strict=True))


def _errors(train: Ledger, held_out: Ledger, max_rank: int) -> dict[str, float]:
    """Return, by model, the weighted squared error of the held-out cell means."""
    at, weight = tuple(held_out.cells.T), held_out.counts / held_out.rounds
    means = held_out.totals / held_out.counts

    def error(full: Floats) -> float:
        return float(weight @ (means - full[at]) ** 2)

    result = {
        "overall mean": error(np.full(train.shape, train.mean)),
        "main effects": error(_main_effects(train)),
        "cell means": error(_cell_means(train)),
    }
    return result | {f"rank {rank}": error(full) for rank, full in _low_rank(train, max_rank)}


def _cell_means(ledger: Ledger) -> Floats:
    """Return the mean of each cell, and the overall mean where there is none."""
    full = np.full(ledger.shape, ledger.mean)
    full[tuple(ledger.cells.T)] = ledger.totals / ledger.counts
    return full


def _main_effects(ledger: Ledger) -> Floats:
    """Return the sum of one effect per level of each mode, by least squares weighted with the counts."""
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import lsqr

    shape, n = ledger.shape, len(ledger)
    starts = np.cumsum([0, *shape])
    columns = (ledger.cells + starts[:-1]).ravel()
    root = np.sqrt(ledger.counts)
    design = csr_array(
        (np.repeat(root, len(shape)), columns, np.arange(n + 1) * len(shape)), shape=(n, int(starts[-1]))
    )
    effects = lsqr(design, root * (ledger.totals / ledger.counts - ledger.mean), atol=1e-10, btol=1e-10)[0]
    full = np.full(shape, ledger.mean)
    for j, size in enumerate(shape):
        axis = [1] * len(shape)
        axis[j] = size
        full = full + effects[starts[j] : starts[j + 1]].reshape(axis)
    return full


def _low_rank(ledger: Ledger, max_rank: int) -> Iterator[tuple[int, Floats]]:
    """Yield the completions of each rank, as far as a larger one differs."""
    last = None
    for rank in range(1, max_rank + 1):
        resolved = resolve_rank(rank, ledger.shape)
        if resolved == last:
            return
        last = resolved
        yield rank, _complete_means(ledger, rank).full()


def _complete_means(ledger: Ledger, rank: int) -> Completion:
    """Return the completion of the cell means, weighted.

    A log's cells were not drawn uniformly. With its own frequencies as probabilities each observed cell stands for its
    mean, however few its rewards, and an unobserved one for the centre. So each cell is given pseudo-rewards of what
    was fitted, as many as the median cell has real ones, and fitted again, and again.
    """
    mean, pseudo = ledger.mean, float(np.median(ledger.counts))
    fit = complete(ledger, rank, probabilities=ledger.counts / ledger.rounds, centre=mean)
    N, Y, Q = (array.ravel() for array in ledger.dense())
    cells = np.indices(ledger.shape).reshape(len(ledger.shape), -1).T
    for _ in range(_FILLS):
        guess = fit.full().ravel()
        filled = Ledger.of(ledger.shape, cells, N + pseudo, Y + pseudo * guess, Q + pseudo * guess**2)
        probabilities = filled.counts / filled.rounds
        fit = complete(filled, rank, probabilities=probabilities, centre=mean, init=fit.factors, max_iterations=5)
    return fit


def _variance(ledger: Ledger) -> float:
    """Return the variance within a cell, averaged over the cells that have several rewards; 0 if none has."""
    several = ledger.counts > 1
    if not several.any():
        return 0.0
    return float((ledger.within[several] / (ledger.counts[several] - 1)).mean())


def _noise(held_out: Ledger, variance: float) -> float:
    """Return the weighted squared error of held-out cell means about the true ones: each adds one variance."""
    return len(held_out) * variance / held_out.rounds


def _spectra(ledger: Ledger, spread: float, rng: np.random.Generator) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
    """Return the singular values of each unfolding of the centred cell means, and of noise alone on average."""
    modes, at = range(len(ledger.shape)), tuple(ledger.cells.T)
    means = _cell_means(ledger) - ledger.mean
    draws = []
    for _ in range(_NOISE_DRAWS):
        noise = np.zeros(ledger.shape)
        noise[at] = spread * rng.standard_normal(len(ledger)) / np.sqrt(ledger.counts)
        draws.append([_singular_values(noise, mode) for mode in modes])
    averages = tuple(np.mean([draw[mode] for draw in draws], axis=0) for mode in modes)
    return tuple(_singular_values(means, mode) for mode in modes), averages


def _singular_values(tensor: Floats, mode: int) -> Floats:
    """Return all singular values of an unfolding, largest first; from its product with itself, as it may be wide."""
    matrix = unfold(tensor, mode)
    short = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    return np.asarray(np.sqrt(np.maximum(np.linalg.eigvalsh(short)[::-1], 0.0)))

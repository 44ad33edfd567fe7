"""What a log says of its own structure: spectra beside noise, and how well models predict as rewards come in."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorbandits.base.checks import check_count
from tensorbandits.base.frames import Backend, to_frame
from tensorbandits.data.log import Log
from tensorbandits.ledger import Ledger
from tensorbandits.model.curve import Curve, curve_sizes, learning_curve
from tensorbandits.model.effects import Kind, kind_of
from tensorbandits.model.scores import Form, structures
from tensorbandits.tensor.tucker import Floats, unfold

REWARDS = 10_000  # that a bandit is taken to have, unless one says otherwise
_MOST_CELLS = 10**6
_NOISE_DRAWS = 10
_QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


@dataclass(frozen=True, eq=False, repr=False)
class Profile:
    """How large, full and noisy a log is, and which structure its rewards speak for.

    ``rewards_per_cell`` are quantiles over observed cells, by share; ``spread`` is the standard deviation within cells;
    ``kind`` is what rewards look like: ``"bernoulli"`` (0 or 1), ``"count"`` or ``"gaussian"``.
    ``singular_values`` holds, per mode, those of the unfolding of centred cell means, with unobserved cells at the
    overall mean; ``noise_singular_values`` what noise alone would give on average.

    ``curve`` has the held-out scores of every model as rewards come in. What follows is said for a bandit that will
    have ``bandit_rewards`` of them: the ``suggested`` structure, which is ``"additive"`` where main effects suffice;
    the ``suggested_rank``, that of the best low-rank structure; and the ``gain``, by how much more low rank has learned
    there than the best model without it, as a share of all that can be learned; a negative gain says that it has
    learned less.

    >>> import pyarrow as pa
    >>> from tensorbandits.data import from_log
    >>> table = pa.table({"a": [0, 1, 1, 0] * 5, "b": [0, 0, 1, 1] * 5, "reward": range(20)})
    >>> facts = profile(from_log(table, ["a", "b"], "reward"), max_rank=1)
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
    kind: Kind
    singular_values: tuple[Floats, ...]
    noise_singular_values: tuple[Floats, ...]
    curve: Curve
    bandit_rewards: int

    @property
    def suggested(self) -> Form:
        """The structure to take for as many rewards as the bandit will have: low rank, or main effects alone."""
        return self.curve.suggested(self.curve.at(self.bandit_rewards))

    @property
    def suggested_rank(self) -> int:
        """The rank of the low-rank structure that predicts best then, for policies that need one in any case."""
        return self.low_rank.rank

    @property
    def low_rank(self) -> Form:
        """The low-rank structure that predicts best then, whether main effects suffice or not."""
        return self.curve.low_rank(self.curve.at(self.bandit_rewards))

    @property
    def gain(self) -> float:
        """By how much more low rank has learned than the best model without it, of all that can be learned."""
        return self.curve.lead(self.curve.at(self.bandit_rewards))[0]

    @property
    def worth_it(self) -> bool:
        """Whether low rank is surely ahead after some number of rewards."""
        return self.curve.worth_it

    @property
    def verdict(self) -> str:
        """Whether low rank is worth it, in words."""
        return self.curve.sentence(self.bandit_rewards)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}: {size:,}" for name, size in zip(self.modes, self.shape, strict=True))
        rewards = f"{self.rewards:,.0f} rewards, {self.rewards_per_cell[0.5]:,.0f} in the median cell"
        return f"Profile({sizes}; {rewards}; suggested {self.suggested})"

    def to_frame(self, backend: Backend | None = None) -> Any:
        """Return how well each model predicts, a row per number of rewards and model, as a data frame.

        The columns are ``rewards``, ``model``, ``score`` (the mean log density of a held-out reward) and ``learned``,
        the share of what can be learned. ``backend`` is ``"pandas"``, ``"polars"`` or ``"pyarrow"``; by default the
        first of these that is installed.
        """
        rows = [(point, model) for point in self.curve.points for model in point.models]
        return to_frame(
            {
                "rewards": [point.rewards for point, _ in rows],
                "model": [model for _, model in rows],
                "score": [point[model] for point, model in rows],
                "learned": [self.curve.learned(point, model) for point, model in rows],
            },
            backend,
        )


def profile(log: Log, *, rewards: int = REWARDS, max_rank: int = 3, seed: int = 0) -> Profile:
    """Return the :class:`Profile` of a log: which structure its rewards speak for, and what that gains.

    Parameters
    ----------
    log : at most 10^6 cells, as all of them are written out.
    rewards : how many a bandit will have, for which the structure is suggested.
    max_rank : the largest rank to try, the same in each mode (lowered for modes with fewer levels).
    seed : of what is held out, and of the draws.

    >>> import pyarrow as pa
    >>> from tensorbandits.data import from_log
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.integers(0, 12, (2, 3000))
    >>> reward = np.cos(a) * np.sin(b) + rng.standard_normal(3000)
    >>> result = profile(from_log(pa.table({"a": a, "b": b, "reward": reward}), ["a", "b"], "reward"), max_rank=2)
    >>> result.worth_it, result.suggested_rank
    (True, 1)
    """
    if not isinstance(log, Log):
        raise TypeError(f"the log is a {type(log).__name__}; give one that from_log has read")
    if math.prod(log.shape) > _MOST_CELLS:
        raise ValueError(
            f"the log has {math.prod(log.shape):.3g} cells; a profile writes out all of them, at most "
            f"{_MOST_CELLS:.0e}: keep fewer levels with top= when reading it"
        )
    wanted, candidates = check_count(rewards, "rewards"), structures(log.shape, check_count(max_rank, "max_rank"))
    ledger, kind = log.ledger, kind_of(log.ledger)
    source, noise = np.random.SeedSequence(check_count(seed, "seed", least=0)).spawn(2)
    sizes = curve_sizes(round(ledger.rounds), wanted)
    within, freedom = ledger.repeats()
    spread = math.sqrt(within / freedom) if freedom else 0.0
    values, from_noise = _spectra(ledger, spread, np.random.default_rng(noise))
    return Profile(
        modes=log.modes,
        shape=log.shape,
        density=log.density,
        rewards=ledger.rounds,
        rewards_per_cell={share: float(np.quantile(ledger.counts, share)) for share in _QUANTILES},
        mean=ledger.mean,
        spread=spread,
        kind=kind,
        singular_values=values,
        noise_singular_values=from_noise,
        curve=learning_curve(log.rewards(), kind, candidates, sizes, source),
        bandit_rewards=wanted,
    )


def _spectra(ledger: Ledger, spread: float, rng: np.random.Generator) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
    """Return the singular values of each unfolding of the centred cell means, and of noise alone on average."""
    modes, at = range(len(ledger.shape)), tuple(ledger.cells.T)
    means = np.zeros(ledger.shape)
    means[at] = ledger.means - ledger.mean
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

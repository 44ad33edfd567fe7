"""What a reward costs: about how many microseconds of one core a policy takes to decide and to learn from a reward.

The work of each policy is counted in a few terms, such as sweeps, and the observed cells that these go over; what one
of each takes was measured (suite ``cost`` of the benchmarks, which also says how far predictions are off).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from tensorbandits.base.checks import Cell, Rank, resolve_rank
from tensorbandits.model.chains import columns_of, draws_together
from tensorbandits.model.gibbs import Structure
from tensorbandits.model.likelihood import ENOUGH
from tensorbandits.model.rewards import Reward
from tensorbandits.policies.schedule import ladder_steps_per_reward, settled_from, sweeps_per_reward
from tensorbandits.policies.structures import Candidate, candidates, guardian
from tensorbandits.policies.tuning import USUAL
from tensorbandits.tensor.best import search_microseconds
from tensorbandits.tensor.pairs import PairsLayout
from tensorbandits.tensor.tucker import Floats
from tensorbandits.theory import inside_coordinates

Terms = dict[str, float]
RATE = 0.05  # of clicks and conversions, where nobody says
_NEEDED = 0.5  # rewards that say as much as a normal one of noise 1, for each number that is learned, ..
_PER_CONTEXT = 8.0  # .. and cells for each context: while there are fewer, most decisions are for new cells
_PLAYED = 2.0  # rate of cells that are played, over that of all
_LEAST = 1e-4  # information, of clicks that hardly come
_ONE_SWEEP = 500  # with more entries in all factors, one sweep per reward
_PER_REWARD = 2
_STEPS = 300  # of the sums over rewards


@dataclass(frozen=True)
class Workload:
    """A problem as far as it decides what a reward costs; ``rate`` is the mean of clicks, or of conversions."""

    shape: Cell
    horizon: int
    rank: Rank = "auto"
    context: Cell = ()
    reward: Reward = "gaussian"
    structure: Structure | None = None
    rate: float = RATE

    @property
    def arms(self) -> float:
        """How many arms there are to choose from."""
        return math.prod(float(size) for j, size in enumerate(self.shape) if j not in self.context)

    @property
    def contexts(self) -> float:
        """How many contexts there are."""
        return math.prod(float(self.shape[j]) for j in self.context)

    @property
    def information(self) -> float:
        """What a reward says of the value of its cell, beside a normal one of noise 1."""
        return max(self.rate * (1.0 - self.rate), _LEAST) if self.reward not in ("gaussian", "count") else 1.0

    @property
    def worth(self) -> float:
        """How many rewards say as much as one normal one, of the cells that are played: the better ones."""
        if self.reward in ("gaussian", "count"):
            return 1.0
        played = min(_PLAYED * self.rate, 0.5)
        return max(1.0, ENOUGH / max(played * (1.0 - played), _LEAST))

    def cells(self, rewards: Floats, numbers: int) -> Floats:
        """Return how many cells have rewards after so many, about: play settles as more of the numbers are learned.

        >>> Workload((15, 15, 15), 10_000).cells(np.array([10.0, 10_000.0]), numbers=99).round().tolist()
        [9.0, 253.0]
        """
        several = _NEEDED * numbers / self.information + (_PER_CONTEXT * self.contexts if self.context else 0.0)
        all_cells = self.arms * self.contexts
        return np.asarray(-all_cells * np.expm1(-several * np.log1p(rewards / several) / all_cells))


def _steps(rounds: float) -> tuple[Floats, Floats]:
    """Return the middles of the steps in which so many rewards are counted up, and how many each has."""
    ends = np.concatenate([[0.0], np.geomspace(1.0, max(rounds, 1.0), _STEPS)])
    return (ends[1:] + ends[:-1]) / 2.0, np.diff(ends)


def _thompson(work: Workload) -> Terms:
    """Count rounds, the levels that are searched, and what the sweeps of all structures go over."""
    if work.reward in ("revenue", "revenue-signed"):  # two oracles, of rates and of the amounts of those that convert
        rates = _sweeping(replace(work, reward="bernoulli"), work.horizon)
        amounts = _sweeping(replace(work, reward="gaussian"), work.rate * work.horizon)
        both = {name: rates.get(name, 0.0) + amounts.get(name, 0.0) for name in {**rates, **amounts}}
        return both | {"round": 2.0, "product": work.arms}
    return _sweeping(work, work.horizon) | {"round": 1.0} | _searching(work)


def _searching(work: Workload) -> Terms:
    """Count what the search for the best arm goes over, in the structure of the highest rank."""
    found = candidates(work.rank, work.structure, work.shape, None, work.reward)
    fixed = [0 if j in work.context else -1 for j in range(len(work.shape))]
    if _layout(found[0], work.shape) is not None:
        free = [size for size, level in zip(work.shape, fixed, strict=True) if level < 0]
        return {"pairs": float(sum(p * q for p, q in combinations(free, 2)))}
    return {"search": sum(search_microseconds(work.shape, one.rank, fixed) for one in found) / len(found)}


def _sweeping(work: Workload, rounds: float) -> Terms:
    """Count what the sweeps for so many rewards go over, for each reward of the horizon."""
    found = candidates(work.rank, work.structure, work.shape, None, work.reward)
    clicks = work.reward in ("bernoulli", "binomial")
    numbers = [one.numbers(work.shape) for one in found]
    pairs = [_layout(one, work.shape) for one in found]
    together = all(layout is not None and all(layout.complete) for layout in pairs)
    middles, rewards = _steps(rounds)
    schedule = settled_from(numbers, together=together, augmented=work.reward != "gaussian"), work.worth
    sweeps = rewards * sweeps_per_reward(middles, *schedule)
    cells = work.cells(middles, numbers[0])
    kept = (1.0 + (len(found) - 1) * USUAL.least_sweeps) / len(found)  # one decides, the others lag behind
    terms: Terms = {"judged": float(len(found) if len(found) > 1 else 0)}
    guard = guardian(found, work.shape)  # it judges play from when rewards count more than once
    guarded = middles > USUAL.sharpened_from * work.worth * numbers[0]
    for one, count, layout in (*zip(found, numbers, pairs, strict=True), (guard, None, _layout(guard, work.shape))):
        share = (1.0 if together else USUAL.guard_sweeps) * guarded if count is None else 1.0 if together else kept
        rows = sum(p * r for p, r in zip(work.shape, one.rank, strict=True)) if layout is None else layout.coded
        often = (1 if together or rows > _ONE_SWEEP else _PER_REWARD) * share * sweeps
        if count is not None and not together:
            often = often + rewards * ladder_steps_per_reward(middles, count, *schedule) / len(found)
        each = _row_by_row(one, work.shape, cells) if layout is None else _together(layout, cells)
        if work.reward != "gaussian":
            kind = "clicks" if clicks else "counts"
            each |= {f"sweep of {kind}": 1.0, f"weights of {kind}": cells}
        for name, amount in each.items():
            terms[name] = terms.get(name, 0.0) + float((often * amount).sum()) / work.horizon
    return terms


def _layout(one: Candidate, shape: Cell) -> PairsLayout | None:
    """Return where the numbers stand of a structure whose numbers are drawn together, as far as they are."""
    return (
        PairsLayout(shape, columns_of(one.structure, one.rank)) if draws_together(one.structure, len(shape)) else None
    )


def _row_by_row(one: Candidate, shape: Cell, cells: Floats) -> dict[str, Floats | float]:
    """What one sweep goes over in a chain that draws one row after the other, and then the core."""
    ranks = [r + (one.structure != "tucker") for r in one.rank]
    core = math.prod(ranks)
    rows = sum(p * r**2 for p, r in zip(shape, ranks, strict=True))
    return {
        "sweep": 1.0,
        "cells": cells * core,
        "core of cells": cells * core**2,
        "rows": float(rows),
        "core": float(core) ** 3,
    }


def _together(layout: PairsLayout, cells: Floats) -> dict[str, Floats | float]:
    """What one sweep goes over in a chain that draws most numbers together."""
    terms: dict[str, Floats | float]
    active = 1 + len(layout.shape) + sum(layout.width[j] * layout.width[k] for j, k in layout.pairs)
    size = float(layout.entries + sum(layout.columns))
    terms = {"joint cells": cells * active**2, "joint numbers": size**3}
    if loose := len(layout.shape) - sum(layout.complete):  # modes whose rows are drawn apart
        terms |= {"rows apart": loose * cells * len(layout.shape), "joint anew": size**2}
    return terms


def _ensemble(work: Workload) -> Terms:
    """Count rounds, and what the passes of one model go over."""
    one = candidates(work.rank, work.structure or "tucker", work.shape, None, work.reward)[-1]
    middles, rewards = _steps(work.horizon)
    cells = float((rewards * work.cells(middles, one.numbers(work.shape))).sum()) / work.horizon
    each = _row_by_row(one, work.shape, np.array(cells))
    terms = {name: float(amount) for name, amount in each.items() if name != "sweep"}
    return terms | {"round": 1.0, "weights": 0.0 if work.reward == "gaussian" else cells}


def _ucb(work: Workload) -> Terms:
    return {"round": 1.0, "arms": work.arms}


def _epoch_greedy(work: Workload) -> Terms:
    """Count rounds, and the cores of completions, which only follow the rounds that explore."""
    return {"round": 1.0, "completions": float(math.prod(_ranks(work)))}


def _elimination(work: Workload) -> Terms:
    """Count rounds, and the square of the coordinates inside the subspaces, which a design is made of."""
    return {"round": 1.0, "inside": float(inside_coordinates(work.shape, _ranks(work))) ** 2}


def _ranks(work: Workload) -> Cell:
    ranks = resolve_rank(2 if isinstance(work.rank, str) else work.rank, work.shape)
    assert ranks is not None
    return ranks


_COUNTED: dict[str, Callable[[Workload], Terms]] = {
    "thompson": _thompson,
    "ensemble": _ensemble,
    "elimination": _elimination,
    "epoch-greedy": _epoch_greedy,
    "ucb": _ucb,
}

# Microseconds of each term, as ``python -m benchmarks cost`` prints them.
MICROSECONDS: dict[str, dict[str, float]] = {
    "thompson": {
        "judged": 8.8,
        "sweep": 47.8,
        "cells": 0.00363,
        "core of cells": 2.95e-05,
        "rows": 0.0154,
        "round": 6.46,
        "search": 1.74,
        "sweep of clicks": 63.8,
        "weights of clicks": 0.0745,
        "sweep of counts": 96.9,
        "weights of counts": 0.281,
        "joint cells": 0.00054,
        "joint numbers": 1.7e-05,
        "pairs": 0.609,
        "rows apart": 0.14,
        "joint anew": 0.0223,
        "product": 1.1,
    },
    "ucb": {
        "round": 16.0,
        "arms": 6.32e-05,
    },
    "ensemble": {
        "cells": 0.0233,
        "rows": 0.00808,
        "core": 0.0038,
        "round": 58.0,
        "weights": 0.289,
    },
    "epoch-greedy": {
        "round": 31.1,
        "completions": 0.643,
    },
    "elimination": {
        "round": 20.0,
        "inside": 1.17e-05,
    },
}


def terms_of(policy: str, work: Workload) -> Terms | None:
    """Return the terms of a policy's work for one reward, or ``None`` if there is no model of it."""
    return _COUNTED[policy](work) if policy in _COUNTED else None


def words(cost: float) -> str:
    """Return a time in words, with the digits that such a prediction has.

    >>> words(86.4), words(2345.0), words(31e6)
    ('86 microseconds', '2.3 milliseconds', '31 seconds')
    """
    for unit, size in (("seconds", 1e6), ("milliseconds", 1e3)):
        if cost >= 0.995 * size:
            return f"{float(f'{cost / size:.2g}'):g} {unit}"
    return f"{float(f'{cost:.2g}'):g} microseconds"


def microseconds(
    policy: str, work: Workload, constants: Mapping[str, Mapping[str, float]] = MICROSECONDS
) -> float | None:
    """Return about how many microseconds of one core a reward costs, on average over the horizon.

    It is ``None`` where there is no model of the policy, or the policy cannot be made for the problem.

    >>> cheap, dear = (microseconds("ucb", Workload(shape, 1000)) for shape in ((9, 9), (90, 90, 90)))
    >>> cheap < dear, microseconds("estr", Workload((9, 9), 1000))
    (True, None)
    """
    if policy not in constants:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what is slow, which is what is said here
            terms = terms_of(policy, work)
    except ValueError:
        return None
    return None if terms is None else sum(constants[policy].get(name, 0.0) * n for name, n in terms.items())

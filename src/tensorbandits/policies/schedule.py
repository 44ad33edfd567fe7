"""How often the chains of Thompson sampling sweep while it plays, as a function of the rewards so far.

It is what the sampler's own rules come to when rewards come one by one; for batches there are fewer sweeps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from tensorbandits.policies.tuning import USUAL, Tuning
from tensorbandits.tensor.tucker import Floats


def settled_from(numbers: Sequence[int], *, together: bool, augmented: bool, tuning: Tuning = USUAL) -> float:
    """Return the rewards after which chains sweep for each share of them, given the numbers of each structure.

    ``together`` says whether a chain draws all numbers together, ``augmented`` whether rewards are clicks or counts.

    >>> [settled_from([98, 201], together=together, augmented=True) for together in (False, True)]
    [4000.0, 1000.0]
    """
    if together:
        return tuning.settled_together
    least = tuning.settled_of_clicks if augmented else tuning.settled
    return max(least, tuning.sharpened_from * max(numbers))


def sweeps_per_reward(rewards: ArrayLike, settled: float, worth: float = 1.0) -> Floats:
    """Return how often a chain is swept for each further reward, when there are so many.

    It is once for as many as say as much as one normal reward (``worth``), or as a share of all rewards once there are
    more than ``settled``; as rewards come whole, it is done when there are at least that many.

    >>> sweeps_per_reward([1000, 4000, 8000, 10_000], settled=4000.0).round(2).tolist()
    [1.0, 1.0, 0.5, 0.33]
    """
    return 1.0 / _together(rewards, settled, worth)


def ladder_steps_per_reward(
    rewards: ArrayLike, numbers: int, settled: float, worth: float = 1.0, tuning: Tuning = USUAL
) -> Floats:
    """Return how often a hotter chain is swept for each further reward, when there are so many.

    It is from as many rewards on as a tensor has numbers, and then when there is a share of them more.

    >>> ladder_steps_per_reward([50, 400, 4000], numbers=100, settled=4000.0).tolist()
    [0.0, 1.0, 0.1]
    """
    n = np.asarray(rewards, dtype=np.float64)
    together = _together(n, settled, worth)
    waits = together * np.ceil(np.maximum(1.0, n * tuning.ladder / together))  # until chains sweep anyway
    return np.asarray((n >= numbers) / waits)


def _together(rewards: ArrayLike, settled: float, worth: float) -> Floats:
    """Return how many rewards are swept for together."""
    return np.ceil(np.maximum(max(worth, 1.0), np.asarray(rewards, dtype=np.float64) / settled))

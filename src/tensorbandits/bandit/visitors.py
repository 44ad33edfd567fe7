"""Visitors who come back: who is on which side stays there, and intervals know that decisions of one go together.

Who decides for a visitor is worked out from an id, as by a draw that is made once: the same visitor is always with the
bandit, or with its baseline or the caller's rule, and who was with the bandit stays there when its share is raised. So
not each decision is drawn on its own, and a mean is worth fewer rewards than it has. How many fewer is measured: ids
are spread over 128 parts, and the spread of the sums of parts is held against what single rewards would give. Parts are
kept rather than people: nothing here grows with the number of visitors, and nobody is known by a part.

Notation: parts (strata, 128, 4) are decisions, rewards, their sum and that of their squares by stratum and part, of one
side; ``w`` (strata,) are the weights of strata.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

PARTS = 128
_STEP = 1 << 32  # from one part to the next, in the number of a group


class Place(NamedTuple):
    """Where a visitor stands: numbers from 0 to 1 that are held against the shares, and a part of all visitors."""

    holdout: float
    rollout: float
    part: int


def place_of(subject: str, salt: str) -> Place:
    """Return where a visitor stands, by an id; with another ``salt``, as of another bandit, that is another place.

    >>> place_of("customer-17", "shop") == place_of("customer-17", "shop")
    True
    >>> 0 <= place_of("customer-17", "shop").holdout < 1
    True
    """
    found = blake2b(f"{salt}\0{subject}".encode(), digest_size=15).digest()
    one, two = (int.from_bytes(found[at : at + 7], "big") >> 3 for at in (0, 7))
    return Place(one / (1 << 53), two / (1 << 53), found[14] % PARTS)


def salt_of(rng: np.random.Generator) -> str:
    """Return a salt for a bandit that has no name, from its generator, which stays as it is.

    >>> salt_of(np.random.default_rng(0)) == salt_of(np.random.default_rng(1))
    False
    """
    return blake2b(repr(rng.bit_generator.state).encode(), digest_size=8).hexdigest()


def grouped(group: int, part: int | None) -> int:
    """Return the number of a group with a part in it."""
    return group if part is None or group < 0 else group + (part + 1) * _STEP


def parted(group: int) -> tuple[int, int]:
    """Return the number of a group without its part, and the part; below 0 for none.

    >>> parted(grouped(4, 17)), parted(4), parted(-1)
    ((4, 17), (4, -1), (-1, -1))
    """
    return (group, -1) if group < 0 else (group % _STEP, group // _STEP - 1)


def spread(parts: Floats | None, weights: Floats, mean: float, residual: float, which: Any = (1, 2, 3)) -> float:
    """Return by how much the variance of a weighed mean is larger than if all rewards came by themselves, at least 1.

    ``residual`` is the weighed sum of squares around the mean of all rewards, of whomever; ``which`` columns of parts
    are counts, sums and sums of squares. It is infinite where all rewards are of one part. Where all are alike, as
    before the first click, it is how often a visitor came, by how uneven parts are.

    >>> alone, together = np.zeros((1, 128, 4)), np.zeros((1, 128, 4))
    >>> alone[0, :, 1:] = np.array([2.0, 1.0, 1.0])  # each part has one reward of 1, and one of 0
    >>> together[0, :, 1] = 2.0
    >>> together[0, ::2, 2:] = 2.0  # both are 1, or both are 0
    >>> one = np.ones(1)
    >>> spread(alone, one, 0.5, 64.0), round(spread(together, one, 0.5, 64.0), 2)
    (1.0, 2.02)
    """
    if parts is None or not np.isfinite(mean):
        return 1.0
    counts, sums, squares = (parts[..., column] for column in which)
    some = counts.any(axis=0)
    inside = float((weights**2) @ np.maximum(squares - 2.0 * mean * sums + mean**2 * counts, 0.0).sum(axis=1))
    if not some.any():
        return 1.0
    if (known := int(some.sum())) < 2:
        return float("inf")
    if inside <= 0.0 or residual <= 0.0:
        each = counts.sum(axis=0)
        return max(float(each.var(ddof=1) / each.mean()), 1.0)
    off = weights @ (sums - mean * counts)[:, some]
    seen = float(((off - off.mean()) ** 2).sum()) * known / (known - 1.0)
    return max(1.0 + (max(seen, inside) - inside) / max(residual, inside), 1.0)

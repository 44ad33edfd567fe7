"""What it costs to find the best *allowed* cell, beside the best of all: ``measure`` returns the numbers.

Rules are pairs of levels. *Random* ones rarely touch the best cell. *Hostile* ones are made by forbidding, over and
over, a pair of the best cell that is still allowed: of any two modes, or always of the first two.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

import tensorbandits as tb
from tensorbandits.model.sweep import Model

SIZE, ORDER, RULES = 1_000, 3, 1_000
REPEATS = 300
SECONDS = 1.0  # for one case, at least three calls


def tensor(rank: int, size: int = SIZE, seed: int = 0) -> tb.Tucker:
    """A tensor with Gaussian core and factors."""
    rng = np.random.default_rng(seed)
    factors = tuple(rng.standard_normal((size, rank)) for _ in range(ORDER))
    return tb.Tucker(rng.standard_normal((rank,) * ORDER), factors)


def random_pairs(count: int, size: int = SIZE, seed: int = 0) -> tb.Allowed:
    """Forbidden pairs of levels that have nothing to do with the tensor."""
    rng = np.random.default_rng(seed)
    pairs = [rng.choice(ORDER, 2, replace=False).tolist() for _ in range(count)]
    return _allowed([{j: int(rng.integers(size)) for j in pair} for pair in pairs], size)


def hostile_pairs(model: Model, count: int, first_modes: bool = False, seed: int = 0) -> tb.Allowed:
    """Pairs of the best cell still allowed, forbidden one after the other."""
    rng = np.random.default_rng(seed)
    fixed, pairs = np.full(ORDER, -1), []
    for _ in range(count):
        cell = model.best(fixed, _allowed(pairs, model.shape[0]) if pairs else None)
        modes = (0, 1) if first_modes else sorted(rng.choice(ORDER, 2, replace=False).tolist())
        pairs.append({j: cell[j] for j in modes})
    return _allowed(pairs, model.shape[0])


def _allowed(forbidden: list[dict[int, int]], size: int) -> tb.Allowed:
    allowed = tb.Allowed.of(tb.Allowed(forbidden=forbidden), (size,) * ORDER)
    assert allowed is not None
    return allowed


def microseconds(call: Callable[[], Any]) -> float:
    """The least time of many calls: other processes can only add to it."""
    call()
    times, stop = [], perf_counter() + SECONDS
    while len(times) < 3 or (len(times) < REPEATS and perf_counter() < stop):
        start = perf_counter()
        call()
        times.append(perf_counter() - start)
    return 1e6 * min(times)


def measure(rank: int = 2, rules: int = RULES, size: int = SIZE, seed: int = 0) -> dict[str, float]:
    """Return microseconds of the search at ``size^3`` cells, unrestricted and restricted, and of joining rules."""
    whole, half = Model.of(tensor(rank, size, seed)), np.random.default_rng(seed).random((ORDER, size)) < 0.5
    fixed, halves = np.full(ORDER, -1), {j: mask for j, mask in enumerate(half)}
    standing = random_pairs(rules, size, seed)
    cases = {
        "unrestricted": None,
        "random pairs": standing,
        "half of the levels": tb.Allowed.of(halves, (size,) * ORDER),
        "hostile pairs": hostile_pairs(whole, rules, seed=seed),
        "hostile pairs of two modes": hostile_pairs(whole, rules, first_modes=True, seed=seed),
    }
    result = {name: microseconds(lambda: whole.best(fixed, allowed)) for name, allowed in cases.items()}  # noqa: B023
    smaller = Model.of(tensor(rank, size // 2, seed))
    result["unrestricted, half the size"] = microseconds(lambda: smaller.best(fixed))
    shape, few, own = (size,) * ORDER, {0: [1, 2, 3]}, tb.Allowed(forbidden=[{0: 1, 1: 2}])
    result["join with levels"] = microseconds(lambda: tb.Allowed.of(few, shape, standing))
    result["join with a rule of one's own"] = microseconds(
        lambda: tb.Allowed.of(tb.Allowed(forbidden=own.forbidden), shape, standing)
    )
    result["join with what was joined last"] = microseconds(lambda: tb.Allowed.of(own, shape, standing))
    return result


if __name__ == "__main__":
    for rank, rules in ((2, RULES), (3, 100)):
        numbers = measure(rank, rules)
        print(f"rank {rank}, {rules:,} rules, {SIZE:,}^{ORDER} cells")
        for name, value in numbers.items():
            print(f"  {name:32} {value:10.1f} us  {value / numbers['unrestricted']:6.2f} x")

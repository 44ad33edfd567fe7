"""Cells drawn by a law among those that are allowed."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import tensorbandits as tb
from tensorbandits import Allowed


@pytest.mark.parametrize("weights", [None, [[1, 2, 7], [4, 3, 2, 1], [1, 1]]])
@pytest.mark.parametrize(
    "allowed",
    [
        {0: [0, 2]},
        {0: [1], 1: [3], 2: [0]},
        Allowed({0: [0, 2], 1: [1, 2, 3]}, forbidden=[{0: 0, 1: 1}]),
        Allowed(forbidden=[{0: 2}, {0: 1, 1: 2, 2: 1}]),
    ],
)
def test_allowed_cells_are_drawn_by_the_law_and_tries_are_what_it_takes(
    weights: list[list[float]] | None, allowed: object
) -> None:
    policy = tb.TensorEpochGreedy((3, 4, 2), 1, weights=weights, seed=0)
    query = policy.query((), allowed)
    rng, draws = np.random.default_rng(0), 4000
    seen, tries = np.zeros((3, 4, 2)), 0.0
    for _ in range(draws):
        cell, taken = policy._exploration.draw(query, rng)
        seen[cell] += 1.0 / draws
        tries += taken / draws
    law = [np.full(p, 1.0 / p) for p in (3, 4, 2)] if weights is None else [np.array(w) / np.sum(w) for w in weights]
    assert query.allowed is not None
    wanted = np.where(query.allowed.mask((3, 4, 2)), functools.reduce(np.multiply.outer, law), 0.0)
    np.testing.assert_allclose(seen, wanted / wanted.sum(), atol=0.03)
    assert tries == pytest.approx(1.0 / wanted.sum(), rel=0.1)


def test_few_allowed_levels_of_many_are_drawn_at_once_and_evenly() -> None:
    policy = tb.TensorEpochGreedy((1000, 1000, 1000), 1, seed=0)
    query = policy.query((), {0: [3, 8], 1: [4], 2: [5]})
    rng = np.random.default_rng(0)
    drawn = [policy._exploration.draw(query, rng) for _ in range(200)]
    assert all(tries == pytest.approx(5e8) for _, tries in drawn)
    assert 70 < sum(cell[0] == 3 for cell, _ in drawn) < 130


def test_a_given_level_that_is_not_allowed_is_named() -> None:
    policy = tb.TensorEpochGreedy((3, 4), 1, context=(0,), seed=0)
    with pytest.raises(ValueError, match="level 1 of mode 0 is given, but not allowed"):
        policy.ask((1,), allowed={0: [0, 2]})


def test_a_state_with_fewer_tries_than_rewards_is_refused() -> None:
    policy = tb.TensorEpochGreedy((3, 4), 1, seed=0)
    policy.tell(policy.ask(), 1.0)
    state = policy._exploration.state()
    with pytest.raises(ValueError, match="tries is -1"):
        policy._exploration.restore(state | {"tries": -1.0})
    policy._exploration.restore(state)
    assert policy._exploration.tries == 1.0

"""The parts of a tensor, against averages of the whole array."""

from itertools import combinations

import numpy as np
import pytest

from tensorbandits.model.anova import distances, part, total_variance, variance
from tensorbandits.tensor.tucker import Tucker


def tensor_of(shape, rank, seed=0):
    rng = np.random.default_rng(seed)
    factors = tuple(rng.standard_normal(size) + 0.5 for size in zip(shape, rank))
    return Tucker(rng.standard_normal(rank), factors, offset=2.0)


def plain_part(full, modes):
    """Averages over all other modes, less the parts of all smaller sets."""
    others = tuple(j for j in range(full.ndim) if j not in modes)
    mean = full.mean(axis=others, keepdims=True)
    for size in range(len(modes)):
        for fewer in combinations(modes, size):
            mean = mean - plain_part(full, fewer)
    return mean


CASES = [((4, 3), (2, 2)), ((3, 4, 2), (2, 1, 2)), ((2, 3, 2, 3), (2, 2, 1, 2)), ((5,), (1,))]


@pytest.mark.parametrize(("shape", "rank"), CASES)
def test_parts_are_those_of_the_whole_array_and_add_up(shape, rank):
    tensor = tensor_of(shape, rank)
    full, total = tensor.full(), 0.0
    for size in range(len(shape) + 1):
        for modes in combinations(range(len(shape)), size):
            plain = plain_part(full, modes)
            np.testing.assert_allclose(part(tensor, modes), plain.squeeze(), atol=1e-12)
            if modes:
                assert variance(tensor, modes) == pytest.approx((plain**2).mean(), abs=1e-12)
                total += variance(tensor, modes)
    assert total == pytest.approx(full.var()) == pytest.approx(total_variance(tensor))


@pytest.mark.parametrize(("shape", "rank"), CASES[:3])
def test_distances_are_those_of_slices(shape, rank):
    tensor = tensor_of(shape, rank)
    full = tensor.full()
    for mode in range(len(shape)):
        slices = np.moveaxis(full, mode, 0).reshape(shape[mode], -1)
        plain = np.sqrt(((slices[:, None] - slices) ** 2).mean(axis=2))
        np.testing.assert_allclose(distances(tensor, mode), plain, atol=1e-5)


def test_a_billion_cells_take_no_array():
    tensor = tensor_of((1000, 1000, 1000), (2, 2, 2))
    assert variance(tensor, (0, 2)) == pytest.approx((part(tensor, (0, 2)) ** 2).mean())

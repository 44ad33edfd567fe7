"""Tensors whose observed cells deviate: their values and their best cell, against brute force."""

import numpy as np
import pytest

from tensorbandits.model.residual import Deviating
from tensorbandits.model.sweep import Model
from tensorbandits.tensor.allowed import Allowed


def written_out(model):
    """All values, as they are told one by one."""
    full = model.tensor().full()
    for cell, value in zip(model.cells.tolist(), model.seen.tolist()):
        full[tuple(cell)] = value
    return full


def random_deviating(rng, shape):
    rank = tuple(int(rng.integers(1, 3)) for _ in shape)
    rows = rng.standard_normal(sum(p * r for p, r in zip(shape, rank)))
    model = Model(shape, rank, rows, rng.standard_normal(int(np.prod(rank))), 0.5)
    every = np.argwhere(np.ones(shape))
    cells = rng.permutation(every)[: int(rng.integers(0, len(every) + 1))]
    deviations = rng.choice([0.1, 3.0]) * rng.standard_normal(len(cells))
    return Deviating(model, cells, model.at(cells) + deviations)


def test_values_are_those_of_the_cells_that_were_seen_and_of_the_tensor_elsewhere():
    rng = np.random.default_rng(0)
    for _ in range(20):
        model = random_deviating(rng, (3, 4, 2))
        cells = rng.integers((3, 4, 2), size=(30, 3))
        np.testing.assert_allclose(model.at(cells), written_out(model)[tuple(cells.T)])


@pytest.mark.parametrize("shape", [(7,), (4, 3), (3, 4, 2)])
def test_the_best_cell_is_that_of_brute_force_whatever_is_given_and_allowed(shape):
    """Cells that the tensor overrates must not hide others that nobody has seen."""
    rng, restricted = np.random.default_rng(1), 0
    for _ in range(80):
        model = random_deviating(rng, shape)
        full, fixed = written_out(model), np.full(len(shape), -1)
        if len(shape) > 1 and rng.random() < 0.5:
            fixed[0] = rng.integers(shape[0])
        forbidden = [dict(enumerate(cell)) for cell in rng.integers(shape, size=(3, len(shape))).tolist()]
        levels = {len(shape) - 1: [0, 1]} if rng.random() < 0.5 else {}
        if shape == (7,):
            levels = {0: [0, *forbidden[0].values(), 5]}
            forbidden = forbidden[:1] if forbidden[0] != {0: 0} else []
        allowed = Allowed.of(Allowed(levels, forbidden), shape) if rng.random() < 0.7 else None
        mask = np.ones(shape, dtype=bool) if allowed is None else Allowed(levels, forbidden).mask(shape).copy()
        if fixed[0] >= 0:
            mask &= (np.arange(shape[0]) == fixed[0]).reshape(-1, *[1] * (len(shape) - 1))
        if not mask.any():
            continue
        restricted += allowed is not None
        cell = model.best(fixed, allowed)
        assert mask[cell]
        assert full[cell] == pytest.approx(full[mask].max(), abs=1e-12)
    assert restricted > 25

"""What features say of rows and what is a level's own: the two add up, and draws of them are calibrated."""

import numpy as np
import pytest
from scipy import stats

from tensorbandits import Tucker
from tensorbandits.model.guided import Splitter, guided

PLACES = [slice(0, 1), slice(1, 3)]


def rows(rng, F, ratio, columns=1):
    B = np.sqrt(ratio / F.shape[1]) * rng.standard_normal((F.shape[1], columns))
    said = F @ B
    found = said + rng.standard_normal((len(F), columns))
    return found - found.mean(axis=0), said - said.mean(axis=0)


@pytest.mark.parametrize("ratio", [0.1, 1.0, 30.0])
def test_draws_are_calibrated(ratio):
    rng, ranks = np.random.default_rng(0), []
    for _ in range(200):
        F = rng.standard_normal((30, 3))
        X, said = rows(rng, F, ratio)
        splitter = Splitter(F, PLACES)
        drawn = [splitter.split(X, ratio, rng).sum(axis=0)[0, 0] for _ in range(19)]
        ranks.append(int(np.sum(np.array(drawn) < said[0, 0])))
    counts = np.bincount(np.array(ranks) // 4, minlength=5)
    assert stats.chisquare(counts).pvalue > 0.001, counts


def test_their_mean_is_a_ridge_regression():
    rng = np.random.default_rng(1)
    F = rng.standard_normal((12, 3))
    X, _ = rows(rng, F, 2.0, columns=2)
    splitter, F = Splitter(F, PLACES), F - F.mean(axis=0)
    mean = np.mean([splitter.split(X, 2.0, rng) for _ in range(4_000)], axis=0)
    B = np.linalg.solve(F.T @ F + 3 / 2.0 * np.eye(3), F.T @ X)
    for part, place in zip(mean, PLACES, strict=True):
        assert np.allclose(part, F[:, place] @ B[place], atol=0.05)


def test_parts_of_a_tensor_add_up():
    rng = np.random.default_rng(2)
    F = rng.standard_normal((9, 3))
    sizes = (2, 2), (9, 2), (4, 2)
    draws = [Tucker(core, tuple(rows)) for core, *rows in [[rng.standard_normal(size) for size in sizes] for _ in "ab"]]
    found = guided(draws, 0, F, PLACES, [{0: (1.0, 1.0)}, {0: (0.5, 2.0)}], rng)
    assert found.parts.shape == (2, 2)
    assert np.allclose(found.parts.sum(axis=1), found.share)
    assert np.all((found.share > 0) & (found.share < 1))
    for draw, said, own in zip(draws, found.said, found.own, strict=True):
        values = draw.full().mean(axis=1)
        assert np.allclose(said + own, values - values.mean())

"""Block solves and the Gibbs sampler, against dense or brute-force twins and exact laws."""

import numpy as np
import pytest
from scipy import stats

from tensorbandits import Ledger
from tensorbandits.model.gibbs import OFFSET_VARIANCE, Chain, Units
from tensorbandits.model.likelihood import Gaussian
from tensorbandits.model.solve import row_equations, solve_spd
from tensorbandits.tensor import Tucker
from tests.plain import sweep as plain

SETTINGS = [
    ((4, 3, 5), (2, 2, 2)),
    ((6, 4), (2, 2)),
    ((5,), (1,)),
    ((3, 2, 3, 2), (2, 1, 2, 2)),
    ((4, 1, 3), (2, 1, 2)),
]


def make(shape, rank, n=40, seed=0):
    rng = np.random.default_rng(seed)
    model = Tucker(rng.standard_normal(rank), tuple(rng.standard_normal((p, r)) for p, r in zip(shape, rank)), 0.3)
    cells = np.stack([rng.integers(p, size=n) for p in shape], axis=1)
    weight, target = rng.uniform(0.5, 3.0, n), rng.standard_normal(n)
    return model, cells, weight, target, rng


@pytest.mark.parametrize(("shape", "rank"), SETTINGS)
def test_row_equations_are_those_of_the_linear_problem(shape, rank):
    model, cells, weight, target, _ = make(shape, rank)
    for j in range(len(shape)):
        A, b = row_equations(model.core, model.factors, j, cells, weight, target)
        for i in range(shape[j]):
            design = np.zeros((len(cells), rank[j]))
            for a in range(rank[j]):
                factors = list(model.factors)
                factors[j] = np.zeros_like(factors[j])
                factors[j][i, a] = 1.0
                design[:, a] = Tucker(model.core, tuple(factors)).at(cells)
            np.testing.assert_allclose(A[i], design.T @ np.diag(weight) @ design, atol=1e-10)
            np.testing.assert_allclose(b[i], design.T @ target, atol=1e-10)


def test_solve_spd_solves_and_draws():
    rng = np.random.default_rng(0)
    M = rng.standard_normal((3, 4, 4))
    A = M @ np.swapaxes(M, 1, 2) + np.eye(4)
    b = rng.standard_normal((3, 4))
    np.testing.assert_allclose(solve_spd(A, b), np.linalg.solve(A, b[..., None])[..., 0])
    draws = plain.solve_spd(np.tile(A[0], (40_000, 1, 1)), np.tile(b[0], (40_000, 1)), rng.standard_normal((40_000, 4)))
    np.testing.assert_allclose(np.cov(draws.T), np.linalg.inv(A[0]), atol=0.03)


def test_gibbs_arm_frequencies_match_the_exact_posterior_of_one_mode():
    """With one mode X_i = offset + S u_i: integrate offset and S on a grid, draw the rest exactly."""
    means, counts, variance = np.array([0.0, 0.9, 1.2, 0.4]), np.array([4.0, 3.0, 2.0, 5.0]), 1.0
    ledger = Ledger((4,))
    for i, (m, n) in enumerate(zip(means, counts)):
        ledger.add(np.full((int(n), 1), i), np.full(int(n), m))
    units, rng = Units(0.6, 1.0), np.random.default_rng(2)

    S, c = (g.ravel() for g in np.meshgrid(np.linspace(0.005, 15, 600), np.linspace(-3.5, 4.5, 161)))
    log = stats.cauchy.logpdf(S) + stats.norm.logpdf(c, units.centre, np.sqrt(OFFSET_VARIANCE))
    for m, n in zip(means, counts):
        log += stats.norm.logpdf(m, c, np.sqrt(S**2 + variance / n))
    pick = rng.choice(len(S), size=200_000, p=np.exp(log - log.max()) / np.exp(log - log.max()).sum())
    S, c = S[pick, None], c[pick, None]
    precision = 1 / S**2 + counts / variance
    X = (c / S**2 + counts * means / variance) / precision + rng.standard_normal((len(S), 4)) / np.sqrt(precision)
    exact = np.bincount(X.argmax(axis=1), minlength=4) / len(X)

    chain = Chain.from_prior((4,), (1,), units, rng, likelihood=Gaussian(variance, learned=False))
    best = []
    for _ in range(25_000):
        chain.sweep(ledger, units, rng, sweeps=1)
        best.append(chain.model.best(np.array([-1]))[0])
    np.testing.assert_allclose(np.bincount(best[1000:], minlength=4) / len(best[1000:]), exact, atol=0.03)


def test_units_follow_the_rewards():
    ledger = Ledger((3,))
    assert Units.of(ledger) == (0.0, 1.0, 0.0)
    ledger.add((0,), 4.0)
    assert Units.of(ledger) == (4.0, 4.0, 0.0)
    ledger.add((1,), 6.0)
    assert Units.of(ledger) == pytest.approx((5.0, 1.0, 2.0))
    ledger.add((1,), 8.0)
    assert Units.of(ledger) == pytest.approx((5.5, np.sqrt(33 - 5.5**2), 1.5**2 + 0.5**2 + 2.5**2))
    zeros = Ledger((2,))
    zeros.add((0,), 0.0)
    assert Units.of(zeros) == (0.0, 1.0, 0.0)

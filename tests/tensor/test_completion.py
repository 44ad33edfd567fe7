import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorbandits import Ledger, Tucker, complete, paper_tensor
from tensorbandits.tensor import choose_rank, second_moment
from tensorbandits.tensor._completion_kernels import project_others
from tensorbandits.tensor.completion import cell_probabilities
from tests.plain import completion as plain


def observe(mean, rounds, seed, noise=1.0, weights=None):
    rng = np.random.default_rng([seed, 77])
    if weights is None:
        cells = rng.integers(mean.shape, size=(rounds, mean.ndim))
    else:
        cells = np.stack([rng.choice(len(w), size=rounds, p=w) for w in weights], axis=1)
    ledger = Ledger(mean.shape)
    ledger.add(cells, mean[tuple(cells.T)] + noise * rng.standard_normal(rounds))
    return ledger, cells


def relative_error(fit, mean):
    return np.linalg.norm(fit.full() - mean) / np.linalg.norm(mean)


@pytest.mark.parametrize("shape", [(3, 4, 2), (5, 3), (4,), (2, 3, 1, 2)])
@pytest.mark.parametrize("weighted", [False, True])
def test_second_moment_is_the_u_statistic_over_all_pairs(shape, weighted):
    rng = np.random.default_rng(3)
    T = 17
    weights = [rng.dirichlet(np.full(p, 5.0)) for p in shape] if weighted else [np.full(p, 1 / p) for p in shape]
    cells = np.stack([rng.choice(p, size=T, p=w) for p, w in zip(shape, weights)], axis=1)
    y = rng.standard_normal(T)
    ledger = Ledger(shape)
    ledger.add(cells, y)
    pi = cell_probabilities(weights, ledger.cells, shape)
    for mode, size in enumerate(shape):
        expected = np.zeros((size, size))
        for s, t in itertools.permutations(range(T), 2):
            if all(cells[s, j] == cells[t, j] for j in range(len(shape)) if j != mode):
                w = 1 / (
                    cell_probabilities(weights, cells[[s]], shape) * cell_probabilities(weights, cells[[t]], shape)
                )
                expected[cells[s, mode], cells[t, mode]] += (w * y[s] * y[t] / (T * (T - 1))).item()
        np.testing.assert_allclose(
            second_moment(ledger, mode, pi), expected, atol=1e-9 * max(1, np.abs(expected).max())
        )


@pytest.mark.medium
def test_error_falls_like_one_over_the_root_of_the_rounds():
    rounds = np.array([10_000, 20_000, 50_000, 100_000])
    errors = np.zeros((6, len(rounds)))
    for seed in range(len(errors)):
        mean = paper_tensor(p=10, signal=0.8, seed=seed)
        for i, T in enumerate(rounds):
            errors[seed, i] = relative_error(complete(observe(mean, T, seed)[0], 2), mean)
    slope = np.polyfit(np.log(rounds), np.log(errors.mean(axis=0)), 1)[0]
    assert -0.6 <= slope <= -0.4


@pytest.mark.medium
def test_error_at_the_papers_size():
    means = [paper_tensor(p=15, signal=0.8, seed=seed) for seed in range(10)]
    errors = [relative_error(complete(observe(mean, 50_000, s)[0], 2), mean) for s, mean in enumerate(means)]
    assert np.mean(errors) < 0.12


def test_weights_undo_non_uniform_sampling():
    mean = paper_tensor(p=6, signal=1.0, rank=1, seed=0)
    weights = [np.array([5, 4, 3, 2, 1, 1]) / 16] * 3
    ledger, _ = observe(mean, 60_000, 0, weights=weights)
    weighted = complete(ledger, 1, probabilities=cell_probabilities(weights, ledger.cells, mean.shape))
    assert relative_error(weighted, mean) < 0.15
    assert relative_error(complete(ledger, 1), mean) > 0.3


def test_the_norm_of_the_core_never_falls_and_the_report_says_so():
    mean = paper_tensor(p=8, signal=0.5, seed=1)
    fit = complete(observe(mean, 500, 1)[0], 2, tolerance=1e-10)
    assert fit.info.rank == (2, 2, 2)
    assert fit.info.iterations == len(fit.info.increments) >= 2
    assert min(fit.info.increments[1:]) >= -1e-9 * np.linalg.norm(fit.core)
    assert fit.info.converged
    stopped = complete(observe(mean, 500, 1)[0], 2, tolerance=1e-12, max_iterations=1)
    assert stopped.info.iterations == 1
    assert not stopped.info.converged


def test_a_warm_start_ends_at_once_in_the_same_place():
    ledger, _ = observe(paper_tensor(p=8, signal=0.5, seed=1), 2000, 1)
    cold = complete(ledger, 2, tolerance=1e-10)
    warm = complete(ledger, 2, init=cold.factors)
    assert warm.info.iterations == 1
    np.testing.assert_allclose(warm.full(), cold.full(), atol=1e-3)
    with pytest.raises(ValueError, match=r"init has shapes.*needs"):
        complete(ledger, 1, init=cold.factors)


def test_factors_are_orthonormal():
    fit = complete(observe(paper_tensor(p=8, seed=1), 300, 1)[0], (3, 2, 2))
    for U in fit.factors:
        np.testing.assert_allclose(U.T @ U, np.eye(U.shape[1]), atol=1e-9)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_auto_rank_finds_the_rank(rank):
    found = []
    for seed in range(3):
        mean = paper_tensor(p=12, signal=1.0, rank=rank, seed=seed)
        found += list(choose_rank(observe(mean, 40_000, seed)[0]))
    assert np.mean(np.array(found) == rank) >= 0.8
    assert complete(observe(mean, 40_000, seed)[0], "auto").info.rank == choose_rank(observe(mean, 40_000, seed)[0])


def test_large_modes_use_few_eigenvectors_only(monkeypatch):
    from tensorbandits.tensor import completion

    ledger, _ = observe(paper_tensor(p=20, signal=0.8, seed=2), 5000, 2)
    dense = complete(ledger, 2)
    monkeypatch.setattr(completion, "_DENSE_EIGEN", 5)
    np.testing.assert_allclose(complete(ledger, 2).full(), dense.full(), atol=1e-4)


@pytest.mark.parametrize("shape", [(3,), (1, 1), (4, 1, 3), (2,) * 6, (10**4,) * 3])
@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_little_data_works(shape, rounds):
    ledger = Ledger(shape)
    for _ in range(rounds):
        ledger.add((0,) * len(shape), 3.0)
    fit = complete(ledger, 2)
    assert np.isfinite(fit.at(np.zeros((1, len(shape)), dtype=int))).all()


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_scale_carries_through(scale):
    mean = paper_tensor(p=6, seed=0)
    ledger, _ = observe(mean, 3000, 0)
    scaled = Ledger(mean.shape)
    for entry in ledger:
        scaled.add(
            np.tile(entry.cell, (int(entry.rounds), 1)), np.full(int(entry.rounds), scale * entry.total / entry.rounds)
        )
    assert relative_error(complete(scaled, 2), scale * mean) < 1.0


@pytest.mark.parametrize("probabilities", [[0.5], np.array([0.0, 0.5]), np.array([0.5, np.nan]), np.array([2.0, 0.5])])
def test_bad_probabilities_are_refused(probabilities):
    ledger = Ledger((2, 2))
    ledger.add([(0, 0), (1, 1)], [1.0, 2.0])
    with pytest.raises(ValueError, match="one number in"):
        complete(ledger, 1, probabilities=probabilities)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(0, 30))
def test_the_compiled_pass_is_that_of_the_plain_twin(seed, order, n):
    rng = np.random.default_rng(seed)
    shape, rank = rng.integers(1, 6, size=order), rng.integers(1, 6, size=order)
    factors = [rng.standard_normal((p, r)) for p, r in zip(shape, rank)]
    cells, values = rng.integers(shape, size=(n, order)), rng.standard_normal(n) * 10.0 ** rng.integers(-8, 9, size=n)
    rows = np.concatenate([U.ravel() for U in factors])
    for mode in range(order):
        H = project_others(cells, values, np.array([shape, rank]), rows, mode)
        expected = plain.project_others(cells, values, factors, mode)
        np.testing.assert_allclose(H, expected, rtol=1e-9, atol=1e-12 * np.abs(values).max(initial=1.0) * 1e4)


@pytest.mark.parametrize("shape", [(8, 6, 7), (9, 8), (4, 5, 3, 4), (7,)])
def test_a_completion_is_that_of_the_plain_twin(shape):
    """From the same start, core and factors are the twin's up to signs; the tensor is the same."""
    rng = np.random.default_rng(0)
    rank = (2,) * len(shape) if len(shape) > 1 else (1,)
    ledger, _ = observe(rng.standard_normal(shape), 400, 0)
    init = [np.linalg.qr(rng.standard_normal((p, r)))[0] for p, r in zip(shape, rank)]
    fit = complete(ledger, rank, init=init)
    values = ledger.totals * np.prod(shape) / ledger.rounds
    core, factors = plain.iterate(ledger.cells, values, init, rank)
    np.testing.assert_allclose(fit.full(), Tucker(core, tuple(factors)).full(), rtol=1e-8, atol=1e-9)


def test_a_centre_is_taken_off_and_comes_back_as_the_offset():
    mean = paper_tensor(8, 0.8, seed=0)
    (ledger, _), (moved, _) = observe(mean, 3000, 0), observe(mean + 5.0, 3000, 0)
    one, two = complete(ledger, 2), complete(moved, 2, centre=5.0)
    assert two.offset == 5.0
    np.testing.assert_allclose(two.full() - 5.0, one.full(), rtol=1e-6, atol=1e-6)
    assert choose_rank(moved, centre=5.0) == choose_rank(ledger)


@pytest.mark.parametrize(("shape", "rounds"), [((700, 2), 900), ((600,), 600), ((700, 3), 3), ((600, 4, 1), 50)])
def test_no_more_eigenvalues_are_asked_for_than_other_modes_allow(shape, rounds, monkeypatch):
    """The rest come in clusters, where the solver took minutes."""
    from scipy.sparse import linalg

    asked, solve = [], linalg.eigsh
    monkeypatch.setattr(linalg, "eigsh", lambda operator, k, **rest: asked.append(k) or solve(operator, k=k, **rest))
    rng = np.random.default_rng(0)
    ledger = Ledger(shape)
    ledger.add(rng.integers(shape, size=(rounds, len(shape))), rng.standard_normal(rounds))
    assert choose_rank(ledger)[0] <= np.prod(shape[1:])
    assert 1 <= max(asked) <= min(np.prod(shape[1:]), len(np.unique(ledger.cells[:, 1:], axis=0)))


def test_vectors_are_made_up_where_columns_are_too_few():
    ledger = Ledger((600, 5))
    ledger.add([(3, 1), (4, 1), (5, 1)], [1.0, 2.0, 3.0])
    fit = complete(ledger, (3, 3))
    np.testing.assert_allclose(fit.factors[0].T @ fit.factors[0], np.eye(3), atol=1e-10)


@pytest.mark.parametrize("centre", [np.nan, np.inf, "1", None, True])
def test_a_centre_is_a_finite_number(centre):
    ledger = Ledger((2, 2))
    ledger.add([(0, 0), (1, 1)], [1.0, 2.0])
    for call in (lambda: complete(ledger, 1, centre=centre), lambda: choose_rank(ledger, centre=centre)):
        with pytest.raises(ValueError, match=r"centre is .* finite number"):
            call()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda ledger: choose_rank(ledger, max_rank=0), "max_rank is 0"),
        (lambda ledger: choose_rank(ledger, max_rank=np.nan), "max_rank is nan"),
        (lambda ledger: choose_rank(ledger, seed=-1), "seed is -1"),
        (lambda ledger: second_moment(ledger, 2), "mode is 2, out of range"),
        (lambda ledger: second_moment(ledger, -1), "mode is -1, out of range"),
        (lambda ledger: complete(ledger, 1, init=[np.full((2, 1), np.nan)] * 2), "factor 0 of init holds NaN"),
        (lambda ledger: complete(ledger, 1, tolerance=np.nan), "tolerance is nan"),
    ],
)
def test_other_arguments_are_checked(call, words):
    ledger = Ledger((2, 2))
    ledger.add([(0, 0), (1, 1)], [1.0, 2.0])
    with pytest.raises(ValueError, match=words):
        call(ledger)

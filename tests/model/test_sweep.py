"""The compiled sweeps against their plain twins: the same numbers, whatever the order, ranks, cells and counts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorbandits import Ledger
from tensorbandits.model.gibbs import Chain, Units
from tensorbandits.model.likelihood import Gaussian, Observations
from tensorbandits.model.sweep import Model, Prior, sweep
from tensorbandits.tensor.tucker import values_at
from tests.plain import sweep as plain

SIZES = {1: 9, 2: 7, 3: 5, 4: 4, 5: 3}  # largest mode by order, so that the plain twin stays quick


@st.composite
def problems(draw):
    """A shape, ranks, a ledger and a generator: any order up to 5, modes of size 1, no cells at all, huge counts."""
    d = draw(st.integers(1, 5))
    shape = tuple(draw(st.lists(st.integers(1, SIZES[d]), min_size=d, max_size=d)))
    cap = {1: 5, 2: 5, 3: 5, 4: 3, 5: 2}[d]
    rank = tuple(draw(st.integers(1, cap)) for _ in shape)
    if d > 1 and draw(st.booleans()):
        rank = (draw(st.sampled_from([2, min(3, cap)])),) * d  # which have code of their own
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    cells = rng.integers(shape, size=(draw(st.integers(0, 40)), d))
    counts = rng.integers(1, draw(st.sampled_from([2, 10, 1000, 10**6])), size=len(cells))
    distinct = np.unique(cells, axis=0)
    counts = rng.permutation(counts)[: len(distinct)].astype(float)
    totals = counts * rng.standard_normal(len(distinct)) + np.sqrt(counts) * rng.standard_normal(len(distinct))
    sums = np.stack([counts, totals, totals**2 / counts + counts * rng.uniform(0.5, 2.0, len(counts))])
    shuffled = rng.permutation(len(distinct))  # a ledger keeps cells in order of first sight
    return shape, rank, Ledger.of(shape, distinct[shuffled], *sums[:, shuffled]), rng


def observed(ledger, prior, model, offset_precision):
    """What a sweep is fitted to: about the prior's offset, or about the model's if that stays."""
    centre = model.offset if offset_precision is None else prior.offset
    return Observations.of(ledger, ledger.totals, centre)


def random_model(shape, rank, rng):
    rows = rng.standard_normal(sum(p * r for p, r in zip(shape, rank)))
    return Model(shape, rank, rows, rng.standard_normal(int(np.prod(rank))), float(rng.standard_normal()))


def held_to(prior, columns, core_precision):
    """A prior whose core is of one kind."""
    kind, gammas = np.zeros(len(prior.core), dtype=np.int64), np.array([core_precision])
    means = prior.rows, prior.core, prior.offset
    return Prior(*means, np.concatenate(columns), kind, gammas)


def assert_same(model, tensor, ledger):
    """All numbers are the same; of huge counts, which drown the prior, those that the rewards determine: the fit."""
    other = Model.of(tensor)
    if ledger.counts.max(initial=0.0) > 1000:
        np.testing.assert_allclose(model.tensor().at(ledger.cells), tensor.at(ledger.cells), rtol=1e-4, atol=1e-4)
        return
    np.testing.assert_allclose(model.rows, other.rows, rtol=1e-5, atol=1e-6 * max(1.0, np.abs(other.rows).max()))
    np.testing.assert_allclose(model.core, other.core, rtol=1e-5, atol=1e-6 * max(1.0, np.abs(other.core).max()))
    np.testing.assert_allclose(model.offset, other.offset, rtol=1e-5, atol=1e-6)


@settings(max_examples=150, deadline=None)
@given(problems(), st.sampled_from([None, 0.7]), st.booleans(), st.sampled_from([0.1, 1.0, 10.0]))
def test_a_sweep_is_that_of_the_twin(problem, offset_precision, noisy, variance):
    shape, rank, ledger, rng = problem
    model, prior = random_model(shape, rank, rng), random_model(shape, rank, rng)
    size = len(model.rows) + 1 + len(model.core)
    noise = noisy * rng.standard_normal((1, size))
    columns = [rng.uniform(0.5, 2.0, r) for r in rank]
    held = {"variance": variance, "core_precision": 0.3, "offset_precision": offset_precision}
    data = ledger.cells, ledger.counts, ledger.totals
    expected = plain.sweep(model.tensor(), prior.tensor(), columns, *data, noise[0], **held)
    quick = plain.sweep(model.tensor(), prior.tensor(), columns, *data, noise[0], **held, rows=plain.all_rows)
    data = observed(ledger, prior, model, offset_precision)
    after, _ = sweep(
        model, held_to(prior, columns, 0.3), data, noise, variance=variance, offset_precision=offset_precision
    )
    assert after == variance
    assert_same(model, expected, ledger)
    assert_same(Model.of(quick), expected, ledger)


@settings(max_examples=60, deadline=None)
@given(
    problems(), st.booleans(), st.sampled_from([1.0, 0.6]), st.sampled_from(["tucker", "affine", "affine", "additive"])
)
@pytest.mark.medium
def test_a_chain_is_that_of_the_twin(problem, learn_noise, decay, structure):
    """Gammas, noise variance and offset too, from the same draws; the generator ends where the twin's does."""
    shape, rank, ledger, rng = problem
    units = Units.of(ledger)
    chain = Chain.from_prior(
        shape, rank, units, rng, structure=structure, likelihood=Gaussian(0.5, learn_noise), decay=decay
    )
    chain.likelihood.variance = max(
        chain.likelihood.variance, 0.1
    )  # heavy tails make the two drift apart within a sweep
    chain.gammas[:] = chain.gammas.clip(0.1, 10.0)
    twin = plain.PlainChain(chain)
    seeds = [np.random.default_rng(7), np.random.default_rng(7)]
    for one, generator in zip((chain, twin), seeds):
        one.sweep(ledger, units, generator, sweeps=1)
    assert_same(chain.model, twin.tensor, ledger)
    rounding = 1e-5 if ledger.counts.max(initial=0.0) <= 1000 else 0.1
    np.testing.assert_allclose(chain.gammas, twin.gammas, rtol=rounding)
    np.testing.assert_allclose(chain.noise_variance, twin.noise_variance, rtol=rounding)
    assert seeds[0].random() == seeds[1].random()


@settings(max_examples=60, deadline=None)
@given(problems())
def test_values_at_cells_are_those_of_the_tensor(problem):
    shape, rank, ledger, rng = problem
    model = Chain.from_prior(shape, rank, Units(3.0, 2.0), rng).model
    expected = values_at(model.tensor(), ledger.cells)
    for order in (None, ledger.order, ledger.order[::-1].copy(), ledger.order_by_sizes):
        np.testing.assert_allclose(model.at(ledger.cells, order), expected, rtol=1e-9, atol=1e-9)
    some = ledger.order_by_sizes[::3].copy()
    np.testing.assert_allclose(model.at(ledger.cells, some)[some], expected[some], rtol=1e-9, atol=1e-9)
    assert model.at(ledger.cells[:0]).shape == (0,)


def test_kept_draws_are_those_of_sweeping_step_by_step():
    rng = np.random.default_rng(0)
    ledger = Ledger((4, 3, 5))
    ledger.add(rng.integers((4, 3, 5), size=(30, 3)), 50.0 + rng.standard_normal(30))
    units = Units.of(ledger)
    chains = [Chain.from_prior((4, 3, 5), (2, 2, 2), units, np.random.default_rng(1)) for _ in range(2)]
    together = chains[0].sweep(ledger, units, np.random.default_rng(2), sweeps=6, keep=3)
    one_by_one = np.random.default_rng(2)
    for line in together:
        chains[1].sweep(ledger, units, one_by_one, sweeps=2)
        model = chains[1].model
        np.testing.assert_array_equal(line, np.concatenate([model.rows, model.core, [model.offset]]))
    assert chains[0].noise_variance == chains[1].noise_variance


def test_rounding_that_drowns_the_prior_is_survived():
    """One cell with 1e15 rewards: a matrix that is singular up to rounding."""
    ledger = Ledger.of((3, 3, 3), [[0, 0, 0]], [1e15], [2e15], [5e15])
    rng = np.random.default_rng(0)
    for rank in ((2, 2, 2), (3, 3, 3)):
        model, prior = random_model((3, 3, 3), rank, rng), random_model((3, 3, 3), rank, rng)
        noise = np.zeros((3, len(model.rows) + 1 + len(model.core)))
        data = observed(ledger, prior, model, None)
        sweep(model, held_to(prior, [np.ones(sum(rank))], 0.1), data, noise, variance=1e-3, offset_precision=None)
        assert np.isfinite(model.rows).all()
        assert model.tensor().at(ledger.cells) == pytest.approx(2.0, rel=1e-6)


@pytest.mark.parametrize("shape", [(4, 3, 5), (6, 4), (5,), (3, 2, 3, 2), (4, 1, 3)])
@pytest.mark.parametrize("offset_precision", [None, 2.0])
def test_least_squares_never_raises_its_objective(shape, offset_precision):
    rank = tuple(min(2, p) for p in shape)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        ledger = Ledger(shape)
        ledger.add(rng.integers(shape, size=(40, len(shape))), rng.standard_normal(40))
        model, prior = random_model(shape, rank, rng), random_model(shape, rank, rng)
        columns = [rng.uniform(0.1, 2.0, r) for r in rank]
        held = {"variance": 0.5, "core_precision": 0.01, "offset_precision": offset_precision}
        noise = np.zeros((1, len(model.rows) + 1 + len(model.core)))
        data = prior.tensor(), columns, ledger.cells, ledger.counts, ledger.totals
        values = [plain.objective(model.tensor(), *data, **held)]
        for _ in range(20):
            sweep(
                *(model, held_to(prior, columns, 0.01), observed(ledger, prior, model, offset_precision), noise),
                variance=0.5,
                offset_precision=offset_precision,
            )
            values.append(plain.objective(model.tensor(), *data, **held))
        assert (np.diff(values) <= 1e-9 * np.abs(values[0])).all()
        assert values[-1] < values[0]

"""The sampler of a tensor of pairs: each step is the plain one, and together they leave the posterior alone."""

import numpy as np
import pytest

from tensorbandits import Ledger
from tensorbandits.model import _pairs_kernels as kernels
from tensorbandits.model import anova
from tensorbandits.model.clicks import Clicks
from tensorbandits.model.likelihood import Gaussian, Units
from tensorbandits.model.pairs import Blocks, PairsChain
from tests.plain import pairs as plain

SHAPE, RANK = (4, 2, 5, 3), (3, 1, 2, 1)  # two complete modes, two with rows that are learned
UNITS = Units(0.5, 1.5)


def random_ledger(shape, rng, count=200, clicks=False):
    ledger = Ledger(shape)
    cells = np.stack([rng.integers(p, size=count) for p in shape], axis=1)
    ledger.add(cells, (rng.random(count) < 0.3).astype(float) if clicks else rng.standard_normal(count))
    return ledger


def from_prior(shape=SHAPE, rank=RANK, likelihood=None, seed=0, units=UNITS):
    return PairsChain.from_prior(shape, rank, units, np.random.default_rng(seed), likelihood=likelihood)


@pytest.mark.parametrize("rank", [RANK, (3, 1, 4, 2), (0, 0, 0, 0)])
def test_equations_are_those_of_the_design(rank):
    rng = np.random.default_rng(1)
    chain, ledger = from_prior(rank=rank), random_ledger(SHAPE, rng)
    model, layout = chain.model, chain.model.layout
    blocks = Blocks(layout)
    where = layout.plan, layout.slots, layout.pair, model.codes, blocks.mains, blocks.cores
    A, b, X = np.zeros((blocks.size, blocks.size)), np.zeros(blocks.size), plain.design(model, ledger.cells)
    kernels.add_precisions(ledger.cells, ledger.counts, *where, A)
    kernels.add_targets(ledger.cells, ledger.totals, *where, b)
    np.testing.assert_allclose(A, np.tril(X.T @ (X * ledger.counts[:, None])), atol=1e-10)
    np.testing.assert_allclose(b, X.T @ ledger.totals, atol=1e-10)


def test_rows_are_drawn_as_the_plain_ones():
    rng = np.random.default_rng(2)
    chain, ledger = from_prior(), random_ledger(SHAPE, rng)
    model, layout, tau = chain.model, chain.model.layout, 0.7
    Y = ledger.totals - UNITS.centre * ledger.counts
    for mode in (2, 3):
        size = SHAPE[mode], 1 + layout.columns[mode]
        noise, precision = rng.standard_normal(size), np.array([chain.scales[mode] ** -2.0, *(1.0,) * (size[1] - 1)])
        args = mode, chain.scales[mode], ledger.cells, ledger.counts, Y, tau, UNITS.centre, noise
        expected = plain.draw_rows(model, *args)
        kernels.redraw_rows(
            *(mode, ledger.cells, ledger.counts, Y, tau, layout.plan, layout.slots, layout.pair, model.effects),
            *(model.codes, model.cores, model.offset - UNITS.centre, precision, np.zeros(size), noise),
            *(np.zeros((*size, size[1])), np.zeros(size)),
        )
        np.testing.assert_allclose(model.effects_of(mode), expected[:, 0], atol=1e-8)
        np.testing.assert_allclose(model.rows(mode), expected[:, 1:], atol=1e-8)


@pytest.mark.parametrize("rank", [(3, 1, 4, 2), (0, 0, 0, 0)])
def test_all_else_is_drawn_together_as_plainly(rank, monkeypatch):
    """With scales that stay, a sweep of complete modes is one draw of everything."""
    monkeypatch.setattr(PairsChain, "_redraw_scales", lambda *_: None)
    rng, ledger = np.random.default_rng(3), random_ledger(SHAPE, np.random.default_rng(4))
    chain = from_prior(rank=rank, likelihood=Gaussian(0.8, learned=False))
    before, size = chain.model.copy(), Blocks(chain.model.layout).size
    Y = ledger.totals - UNITS.centre * ledger.counts
    noise = np.random.default_rng(3).standard_normal(size)
    expected = plain.draw_together(
        *(before, chain.scales, ledger.cells, ledger.counts, Y, 2.0 / 0.8, 1.0 / UNITS.scale**2, noise)
    )
    chain.sweep(ledger, UNITS, rng, sweeps=1, weight=2.0)
    assert chain.model.offset == pytest.approx(UNITS.centre + expected[0])
    np.testing.assert_allclose(chain.model.cores, expected[size - len(chain.model.cores) :], atol=1e-8)
    np.testing.assert_allclose(chain.model.effects_of(0), expected[1:5], atol=1e-8)
    np.testing.assert_allclose(chain.model.effects_of(1), [-expected[5], expected[5]], atol=1e-8)


def test_blocks_are_stretched_as_plainly():
    rng, n = np.random.default_rng(4), 17
    X, b, beta = rng.standard_normal((40, n)), rng.standard_normal(n), rng.standard_normal(n)
    blocks = np.array([(1, 4, 0), (4, 5, 2), (6, 12, 1), (12, 17, 4)])
    scales, hypers, noise = rng.uniform(0.5, 2.0, 5), rng.uniform(0.5, 2.0, 5), rng.standard_normal(4)
    A = X.T @ X
    expected = plain.stretch(A, b, 0.7, beta, blocks.tolist(), scales, hypers, noise)
    kernels.stretch_blocks(np.tril(A), b, 0.7, beta, blocks, scales, hypers, noise)
    for found, one in zip((beta, scales), expected):
        np.testing.assert_allclose(found, one, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("clicks", [False, True])
def test_equations_that_were_kept_are_those_made_anew_to_the_bit(clicks):
    """A chain that followed its rewards, and one that was saved on the way and has to count them again, go on alike."""
    likelihood, rng = Clicks() if clicks else Gaussian(1.0, learned=True), np.random.default_rng(5)
    ledger = random_ledger(SHAPE, rng, 500, clicks)
    chain = from_prior(rank=(3, 1, 4, 2), likelihood=likelihood)
    for _ in range(20):
        chain.sweep(ledger, UNITS, rng, sweeps=1, weight=1.7)
        ledger.add(rng.integers(0, 2, size=(3, 4)), [1.0, 0.0, 1.0])
    again = PairsChain.from_state(chain.state(), SHAPE, (3, 1, 4, 2), likelihood)
    lines = [one.sweep(ledger, UNITS, np.random.default_rng(6), sweeps=9, keep=3) for one in (chain, again)]
    np.testing.assert_array_equal(*lines)


def test_a_draw_that_rounding_would_spoil_is_still_a_draw():
    """A cell that was seen a thousand million times leaves no room for the prior in the equations."""
    chain, ledger = from_prior(rank=(3, 1, 4, 2), likelihood=Gaussian(1e-12, learned=False)), Ledger(SHAPE)
    ledger.add([(0, 0, 0, 0)] * 2, [1.0, 1.0])
    for _ in range(30):
        ledger = ledger + ledger
    chain.sweep(ledger, UNITS, np.random.default_rng(7), sweeps=3)
    assert chain.finite
    assert chain.model.at(np.array([(0, 0, 0, 0)]))[0] == pytest.approx(1.0, abs=1e-3)


def test_a_chain_grows_with_what_it_knew():
    rng = np.random.default_rng(8)
    for rank, more in ((RANK, (4, 1, 2, 1)), ((3, 1, 4, 2), (4, 2, 4, 2))):
        chain = from_prior(rank=rank)
        before = chain.model.full()
        wide = (5, 3, 5, 3) if rank != RANK else (5, 2, 6, 3)
        chain.grow(wide, more, rng)
        np.testing.assert_allclose(chain.model.full()[:4, :2, :5, :3], before, atol=1e-9)
        assert not np.allclose(chain.model.full()[4], 0.0)


def test_pairs_that_do_not_interact_vanish():
    """Main effects and one interaction: the scales of the other pairs are a small part of that one's."""
    rng = np.random.default_rng(9)
    shape = (4, 3, 5)
    effects, table = [rng.standard_normal(p) for p in shape], rng.standard_normal((4, 3))
    mean = sum(np.ix_(*effects)) + 2.0 * table[:, :, None]
    cells = np.argwhere(np.ones(shape)).repeat(30, axis=0)
    ledger = Ledger(shape)
    ledger.add(cells, mean[tuple(cells.T)] + rng.standard_normal(len(cells)))
    units = Units.of(ledger)
    chain = from_prior(shape, (3, 2, 4), units=units)
    chain.sweep(ledger, units, rng, sweeps=200)
    scales = []
    for _ in range(300):
        chain.sweep(ledger, units, rng, sweeps=2)
        scales.append(chain.scales[3:].copy())
    first, *others = np.median(scales, axis=0)
    assert first > 1.0
    assert max(others) < 0.1 * first
    np.testing.assert_allclose(chain.model.full(), mean, atol=0.7)


def test_the_posterior_of_main_effects_is_the_one_in_closed_form():
    """With scales that stay, the mean and the deviation of every number over draws are those of the normal law."""
    rng, shape = np.random.default_rng(10), (3, 2)
    ledger = random_ledger(shape, rng, 12)
    chain = from_prior(shape, (2, 1), Gaussian(0.5, learned=False))
    chain._redraw_scales = lambda *_: None
    lines = chain.sweep(ledger, UNITS, rng, sweeps=20_000, keep=20_000)
    values = np.array([chain.model.with_numbers(line).full().ravel() for line in lines])
    X = plain.design(chain.model, np.argwhere(np.ones(shape)))
    seen = plain.design(chain.model, ledger.cells)
    prior = np.r_[
        1 / UNITS.scale**2, np.full(3, chain.scales[0] ** -2), chain.scales[1] ** -2, np.full(3, chain.scales[2] ** -2)
    ]
    covariance = np.linalg.inv(seen.T @ (seen * ledger.counts[:, None]) / 0.5 + np.diag(prior))
    mean = UNITS.centre + X @ covariance @ seen.T @ (ledger.totals - UNITS.centre * ledger.counts) / 0.5
    deviation = np.sqrt(np.diag(X @ covariance @ X.T))
    np.testing.assert_allclose(values.mean(axis=0), mean, atol=5 * deviation.max() / np.sqrt(20_000))
    np.testing.assert_allclose(values.std(axis=0), deviation, rtol=0.04)


@pytest.mark.parametrize("rank", [RANK, (3, 1, 4, 2), (0, 0, 0, 0)])
def test_its_analysis_of_variance_is_that_of_the_array(rank):
    tensor = from_prior(rank=rank, seed=11).model
    full = tensor.full()
    assert anova.part(tensor, ()) == pytest.approx(full.mean())
    assert anova.total_variance(tensor) == pytest.approx(full.var())
    for mode in range(4):
        others = tuple(j for j in range(4) if j != mode)
        np.testing.assert_allclose(anova.part(tensor, (mode,)), full.mean(axis=others) - full.mean(), atol=1e-10)
        lines = np.moveaxis(full, mode, 0).reshape(SHAPE[mode], -1)
        apart = np.sqrt(((lines[:, None] - lines) ** 2).mean(axis=2))
        np.testing.assert_allclose(anova.distances(tensor, mode), apart, atol=1e-6)
        rows, shares = anova.coordinates([tensor] * 3, mode, 2)
        u, sizes, _ = np.linalg.svd(lines - lines.mean(axis=0), full_matrices=False)
        expected = np.abs(u * sizes)[:, :2] / np.sqrt(lines.shape[1])
        np.testing.assert_allclose(np.abs(rows), np.pad(expected, [(0, 0), (0, 2 - expected.shape[1])]), atol=1e-6)
        assert shares.sum() <= 1 + 1e-9
    for j, k in ((0, 2), (1, 3)):
        others = tuple(i for i in range(4) if i not in (j, k))
        both = full.mean(axis=others)
        both = both - both.mean(axis=0) - both.mean(axis=1, keepdims=True) + both.mean()
        np.testing.assert_allclose(anova.part(tensor, (j, k)), both, atol=1e-10)
        assert anova.variance(tensor, (j, k)) == pytest.approx((both**2).mean(), abs=1e-10)
    assert anova.part(tensor, (0, 1, 2)).tolist() == np.zeros((4, 2, 5)).tolist()


def test_own_rewards_decide_all_of_a_level_with_many_and_nothing_of_one_without():
    rng, shape = np.random.default_rng(12), (4, 5, 3)
    cells = np.argwhere(np.ones(shape))
    ledger = Ledger(shape)
    cells = cells[cells[:, 1] != 4].repeat(400, axis=0)
    ledger.add(cells, rng.standard_normal(len(cells)))
    for rank in ((3, 4, 2), (3, 2, 2), (0, 0, 0)):
        chain = from_prior(shape, rank, Gaussian(1.0, learned=False))
        shares = chain.own_shares(chain.likelihood.observe(ledger, UNITS, np.zeros(0), rng))
        assert [len(share) for share in shares] == list(shape)
        assert shares[1][4] == 0.0
        assert shares[1][:4].min() > 0.5

"""Likelihoods: their densities, their observations, and the posterior that a chain draws with them."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logit

from tensorbandits import Ledger, TensorThompsonSampling
from tensorbandits.model.clicks import Clicks
from tensorbandits.model.counts import Counts, estimate_dispersion
from tensorbandits.model.gibbs import Chain
from tensorbandits.model.likelihood import Gaussian, Units, within_reach
from tensorbandits.model.polya_gamma import Weights, draw_weights, mean_weights
from tensorbandits.model.rewards import likelihood_of


class KnownCounts(Counts):
    """Counts whose dispersion stays where it is: then every conditional is exact."""

    def drawn(self, units, rng):
        return type(self)(self.dispersion)

    def _redraw(self, *_):
        pass


def ledger_of(shape, cells, rewards):
    ledger = Ledger(shape)
    ledger.add(cells, rewards)
    return ledger


# Polya-Gamma weights.


@pytest.mark.parametrize("h", [0.02, 0.7, 1.0, 2.5, 9.0, 40.0, 1e6])
@pytest.mark.parametrize("tilt", [0.05, -3.0, 11.5, -30.0, 1e4])
def test_weights_have_the_moments_of_their_law(h, tilt):
    """The package's own draws are wrong by a factor of 2.7 and more where the tilt is large."""
    draws = draw_weights(np.full(20_000, h), np.full(20_000, tilt), np.random.default_rng(3))
    z = abs(tilt)
    mean = h / (2 * z) * np.tanh(z / 2)
    variance = h / (4 * z**3) * ((np.sinh(z) - z) / np.cosh(z / 2) ** 2 if z < 100 else 2.0)
    assert mean_weights(np.array([h]), np.array([tilt]))[0] == pytest.approx(mean)
    assert abs(draws.mean() - mean) < 5 * np.sqrt(variance / len(draws)) + 0.012 * mean  # fractions are drawn nearly
    if h >= 1:
        assert draws.var() == pytest.approx(variance, rel=0.12)


def test_weights_of_what_has_nearly_faded_are_their_means():
    rng = np.random.default_rng(0)
    h, tilt = np.array([1e-12, 0.0, 3.0]), np.array([1.0, 2.0, 2.0])
    draws = draw_weights(h, tilt, rng)
    np.testing.assert_array_equal(draws[:2], mean_weights(h, tilt)[:2])
    assert draws[2] > 0


@pytest.mark.parametrize("turn", [0, 200, 399])
def test_new_shapes_and_a_share_of_the_others_are_redrawn(turn):
    """The rest stays as it was; the share goes round in the order of the cells, and tilts are looked at there only."""
    rng = np.random.default_rng(0)
    before, omega, order = rng.integers(1, 5, 380).astype(float), rng.random(380), rng.permutation(400)
    h = np.append(before, np.ones(20))
    h[[3, 77, 310]] += 1.0
    weights, looked = Weights(before.copy(), omega.copy(), turn), []

    def tilt(cells):
        looked.append(cells.copy())
        values = np.full(400, np.nan)
        values[cells] = -1.0
        return values

    found = weights.redraw(h, tilt, order, rng, least=64).copy()
    due = {3, 77, 310, *range(380, 400), *order[(turn + np.arange(64)) % 400].tolist()}
    assert looked[0].tolist() == [c for c in order if c in due]
    assert set(np.flatnonzero(found[:380] != omega).tolist()) == {c for c in due if c < 380}
    assert (found > 0).all()
    assert weights.turn == (turn + 64) % 400
    weights.redraw(h, tilt, order, rng, least=64)
    assert (weights.omega != found).sum() == 64


def test_clicks_look_at_the_cells_that_are_redrawn_as_at_all():
    """A chain that works values out where they are looked at draws the same as one that is given them all."""
    shape, rng = (6, 7, 9), np.random.default_rng(1)
    ledger = ledger_of(shape, rng.integers(shape, size=(300, 3)), rng.integers(2, size=300))
    chain = Chain.from_prior(shape, (2, 2, 2), Units(0.0, 1.0), rng, likelihood=Clicks())
    seen = []
    for values in (chain.values(ledger), chain._looked_at(ledger)):
        likelihood, one = Clicks(), np.random.default_rng(3)
        likelihood.observe(ledger, Units(0.0, 1.0), chain.values(ledger), one)
        seen.append(likelihood.observe(ledger, Units(0.0, 1.0), values, one).precision.copy())
    np.testing.assert_allclose(*seen, rtol=1e-12)


@pytest.mark.parametrize(("h", "tilt"), [(4.2, 2.0), (9.85, 3.0), (15.9, 2.5), (10.0, -6.0), (9.85, 0.5)])
def test_weights_of_middle_shapes_have_their_mean_and_variance(h, tilt):
    draws, z = draw_weights(np.full(40_000, h), np.full(40_000, tilt), np.random.default_rng(0)), abs(tilt)
    variance = h * (np.sinh(z) - z) / (4 * z**3 * np.cosh(z / 2) ** 2)
    assert abs(draws.mean() - mean_weights(np.array(h), np.array(z))) < 4 * np.sqrt(variance / len(draws))
    assert draws.var() == pytest.approx(variance, rel=0.05)


# Densities.


def test_the_density_of_clicks_is_that_of_single_ones():
    rng = np.random.default_rng(0)
    cells, clicks = rng.integers(4, size=(50, 1)), rng.integers(2, size=50)
    ledger, values = ledger_of((4,), cells, clicks), np.array([-1.0, 0.3, 2.0, -40.0])
    rates = dict(zip(ledger.cells[:, 0].tolist(), 1 / (1 + np.exp(-values))))
    single = sum(np.log(rates[c] if y else 1 - rates[c]) for c, y in zip(cells[:, 0].tolist(), clicks))
    assert Clicks().log_density(ledger, values) == pytest.approx(single)


def test_the_density_of_counts_is_that_of_single_ones_where_cells_were_seen_once():
    rng = np.random.default_rng(0)
    counts, values = rng.integers(9, size=6), rng.standard_normal(6)
    ledger = ledger_of((6,), np.arange(6)[:, None], counts)

    def single(r, x):
        return stats.nbinom.logpmf(counts, r, r / (r + np.exp(x))).sum()

    for r, x in ((0.3, values), (5.0, values + 1), (1e4, values - 2)):
        difference = Counts(r).log_density(ledger, x) - Counts(1.0).log_density(ledger, values)
        assert difference == pytest.approx(single(r, x) - single(1.0, values), rel=1e-7)


def test_the_squares_within_cells_are_as_large_as_the_density_expects():
    """Given its sum, a cell's counts are Dirichlet-multinomial; at its mean the density of their squares is highest."""
    rng = np.random.default_rng(1)
    r, N, Y = 0.8, 5, 12
    splits = rng.dirichlet(np.full(N, r), size=40_000)
    squares = rng.multinomial(Y, splits).var(axis=1).mean() * N
    sums = np.full((1, 1), 0)
    ledger = Ledger.of((1,), sums, [N], [Y], [Y**2 / N + squares], within=[squares])
    grid = np.exp(np.linspace(-1, 1, 81)) * r
    values = np.log([Y / N])
    squares_only = [
        Counts(one).log_density(ledger, values) - stats.nbinom.logpmf(Y, one * N, one / (one + Y / N)) for one in grid
    ]
    assert grid[int(np.argmax(squares_only))] == pytest.approx(r, rel=0.08)


@pytest.mark.parametrize(
    ("reward", "values"), [("gaussian", np.asarray), ("bernoulli", logit), ("binomial", logit), ("count", np.log)]
)
def test_values_are_mapped_to_mean_rewards(reward, values):
    likelihood = likelihood_of(reward)
    rewards = np.array([1e-6, 0.2, 0.5, 0.999])
    np.testing.assert_allclose(likelihood.rewards(values(rewards)), rewards)
    assert np.isfinite(likelihood.rewards(np.array([-1e4, 1e4]))).all()
    again = likelihood.restored(likelihood.state())
    assert again == likelihood


def test_unknown_rewards_and_noise_without_use_are_refused():
    with pytest.raises(ValueError, match=r"reward is 'clicks'; allowed are gaussian, bernoulli, binomial, count"):
        likelihood_of("clicks")
    with pytest.raises(ValueError, match=r"noise is 0\.5, but bernoulli rewards have none"):
        likelihood_of("bernoulli", noise=0.5)


# Units.


def test_units_of_rare_clicks_are_those_of_the_rates():
    rng = np.random.default_rng(0)
    trials = np.full(200, 20_000)
    clicks = rng.binomial(trials, 1e-3)
    ledger = Ledger.of((200,), np.arange(200)[:, None], trials, clicks, clicks)
    assert Clicks().units(ledger).centre == pytest.approx(np.log(1e-3), abs=0.1)
    lucky = Ledger.of((201,), np.arange(201)[:, None], [*trials, 1], [*clicks, 1], [*clicks, 1])
    assert Clicks().units(lucky).centre == pytest.approx(np.log(1e-3), abs=0.1)  # one click of one trial moves nothing


@pytest.mark.parametrize("total", [0, 3])
def test_units_are_finite_whatever_was_seen(total):
    ledger = ledger_of((2,), [(0,)] * 3, [1.0] * total + [0.0] * (3 - total))
    for likelihood in (Clicks(), Counts()):
        assert likelihood.units(Ledger((2,))).scale > 0
        assert np.isfinite(likelihood.units(ledger)).all()


# Posteriors.

UNITS = Units(-0.5, 1.0)
GRID = np.linspace(-60, 60, 4001)


def exact_posterior(log_density, points=61):
    """Return the posterior means and variances of two values x_i ~ N(c, S^2), c ~ N(m, 1), S Cauchy, by quadrature.

    ``log_density[i](x)`` is that of the rewards of cell i.
    """
    z, w = np.polynomial.hermite_e.hermegauss(points)
    S, c = np.meshgrid(np.exp(np.linspace(-6, 6, 241)), UNITS.centre + np.linspace(-4, 4, 81), indexing="ij")
    weight = stats.cauchy.pdf(S) * S * stats.norm.pdf(c, UNITS.centre, 1.0)  # S on a logarithmic grid
    x = c[..., None] + S[..., None] * z
    evidence, first, second = [], [], []
    for log in log_density:
        density = np.exp(log(x)) * w
        evidence.append(density.sum(axis=-1))
        first.append((density * np.tanh(x)).sum(axis=-1))
        second.append((density * np.tanh(x) ** 2).sum(axis=-1))
    whole = (weight * evidence[0] * evidence[1]).sum()
    moments = [[(weight * moment[i] * evidence[1 - i]).sum() / whole for i in range(2)] for moment in (first, second)]
    return np.array(moments)


@pytest.mark.parametrize(("likelihood", "weight"), [(Clicks(), 1.0), (KnownCounts(1.5), 0.4)])
def test_a_chain_draws_from_the_exact_posterior_of_two_cells(likelihood, weight):
    N, Y = np.array([5.0, 8.0]), np.array([3.0, 2.0])
    ledger = Ledger.of((2,), [(0,), (1,)], N, Y, Y)
    single = [Ledger.of((2,), [(i,)], [N[i]], [Y[i]], [Y[i]]) for i in range(2)]

    def log_density(i):
        each = np.vectorize(lambda x: weight * likelihood.log_density(single[i], np.array([x])))
        return lambda x: np.interp(x, GRID, each(GRID))

    exact = exact_posterior([log_density(0), log_density(1)])
    rng = np.random.default_rng(4)
    chain = Chain.from_prior((2,), (1,), UNITS, rng, likelihood=likelihood)
    draws = []
    for _ in range(6000):
        chain.sweep(ledger, UNITS, rng, sweeps=1, weight=weight)
        draws.append(np.tanh(chain.model.at(ledger.cells)))
    draws = np.array(draws[500:])
    np.testing.assert_allclose([draws.mean(axis=0), (draws**2).mean(axis=0)], exact, atol=0.04)


# Dispersion.


@pytest.mark.parametrize("r", [0.3, 2.0, 1e6])
@pytest.mark.parametrize("repeats", [1, 30])
def test_the_dispersion_is_recovered(r, repeats):
    rng = np.random.default_rng(5)
    cells = np.argwhere(np.ones((20, 15)))
    values = np.log(4.0) + np.outer(rng.standard_normal(20), rng.standard_normal(15)) * 0.5
    means = np.exp(values[tuple(cells.T)])
    rewards = rng.negative_binomial(r, r / (r + means), size=(repeats, len(cells)))
    ledger = ledger_of((20, 15), np.tile(cells, (repeats, 1)), rewards.ravel())
    likelihood = Counts()
    units = likelihood.units(ledger)
    chain = Chain.from_prior((20, 15), (1, 1), units, rng, likelihood=likelihood)
    chain.sweep(ledger, units, rng, sweeps=150)
    drawn = []
    for _ in range(150):
        chain.sweep(ledger, units, rng, sweeps=1)
        drawn.append(chain.likelihood.dispersion)
    if r > 100:
        assert np.median(drawn) > 15  # Poisson counts
    else:
        assert np.median(drawn) == pytest.approx(r, rel=0.4 if repeats == 1 else 0.15)
        if repeats > 1:
            assert estimate_dispersion(ledger) == pytest.approx(r, rel=0.25)


def test_gaussian_observations_count_as_often_as_told():
    ledger = ledger_of((2,), [(0,), (1,), (1,)], [1.0, 2.0, 4.0])
    likelihood = Gaussian(1.0, learned=True)
    units, rng = likelihood.units(ledger), np.random.default_rng(0)
    model = Chain.from_prior((2,), (1,), units, rng).model
    once, half = (likelihood.observe(ledger, units, model, rng, weight=w) for w in (1.0, 0.5))
    for name in ("precision", "target", "squares", "rounds"):
        np.testing.assert_allclose(getattr(half, name), 0.5 * np.asarray(getattr(once, name)))
    assert half.centre == once.centre


def test_the_score_of_a_reward_far_from_all_that_was_expected_is_finite():
    scores = Gaussian(1.0, learned=True).log_scores(np.array([0.0, 1e-100]), 1.0, 1e100, 1e-200)
    assert np.isfinite(scores).all()


def test_perturbations_are_cut_far_out_and_nowhere_else():
    seen, values = np.array([-2.0, 0.0, 1.0]), np.array([-11.0, -7.5, -4.0, 3.0, 5.25, 99.0])
    perturbation = np.array([-3.0, 3.0, -3.0, 3.0, 3.0, -3.0])
    down, up = np.ones(6), np.full(6, 2.0)
    found, slopes = within_reach(seen, values, perturbation, down, up)
    assert found.tolist() == [-1.0, 2.0, -3.0, 3.0, 2.75, -2.0]  # from 3 beyond what was seen on, in full 5 later
    assert np.array_equal(within_reach(seen, values, -perturbation, down, up)[0], -found)  # no push on average
    later, _ = within_reach(seen, values + 1e-6, perturbation, down, up)
    assert slopes == pytest.approx(np.abs(later - found) / 1e-6, abs=1e-6)


def test_counts_far_above_their_dispersion_are_learned_from_as_soon_as_small_ones():
    """A share of the events is counted: nearly all that rewards say is left, and draws get about."""
    rng, shape = np.random.default_rng(5), (5, 4, 3)
    covered, errors = [], []
    for seed in range(3):
        mean = np.einsum("ia,ja,ka->ijk", *(rng.standard_normal((size, 2)) for size in shape)) / 2
        mean = 1e5 * np.exp(mean - mean.mean())
        cells, truth = np.argwhere(mean > 0), mean.ravel()
        rewards = rng.negative_binomial(2.0, 2.0 / (2.0 + truth), size=(15, len(cells))).astype(float)
        policy = TensorThompsonSampling(shape, 2, reward="count", seed=seed)
        policy.tell_many(np.tile(cells, (15, 1)), rewards.ravel())
        low, high = policy.interval(cells, 0.9).T
        covered.append(np.mean((low <= truth) & (truth <= high)))
        errors.append(
            np.abs(np.log(policy.estimate(cells) / truth)).mean() / np.abs(np.log(rewards.mean(0) / truth)).mean()
        )
    assert np.mean(covered) > 0.7
    assert np.mean(errors) < 0.8  # of the errors of raw means


@pytest.mark.parametrize("beyond", [1e-15, 1e-12, 1e-9, 1e-6, 1e-4, 1e-3, -1e-12, -1e-6])
def test_variates_of_shapes_next_to_whole_numbers_are_drawn(beyond):
    """As sums of rewards that count a part have them: with these, one method of the package never ends."""
    shapes, tilts = np.arange(1.0, 20.0) + beyond, np.linspace(0.0, 15.0, 19)
    drawn = np.array([draw_weights(shapes, np.roll(tilts, k), np.random.default_rng(k)) for k in range(19)])
    means = np.array([mean_weights(shapes, np.roll(tilts, k)) for k in range(19)])
    np.testing.assert_allclose(drawn.sum(), means.sum(), rtol=0.1)

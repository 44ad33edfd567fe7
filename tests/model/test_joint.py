"""Joint-distribution tests (Geweke 2004) of every likelihood and structure, with deviations of cells and without.

Redrawing rewards given the tensor and the tensor given the rewards must leave the prior as it is.
"""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from tensorbandits import Ledger
from tensorbandits.model import clicks
from tensorbandits.model import residual as residuals
from tensorbandits.model.chains import chain_from_prior
from tensorbandits.model.clicks import Clicks
from tensorbandits.model.counts import Counts
from tensorbandits.model.gibbs import Chain, Units
from tensorbandits.model.likelihood import Gaussian
from tensorbandits.model.residual import Residual
from tensorbandits.model.uneven import Uneven

CELLS = np.array([(0, 0, 1), (1, 1, 0), (2, 0, 0), (2, 1, 1)])  # each is seen twice


class KnownCounts(Counts):
    """Counts whose dispersion stays where it is: then every conditional is exact."""

    def drawn(self, units, rng):
        return type(self)(self.dispersion)

    def _redraw(self, *_):
        pass


LIKELIHOODS = {
    "gaussian": (Gaussian(1.0, learned=True), Units(0.5, 1.5)),
    "uneven": (Uneven(1.0, learned=True), Units(0.5, 1.5)),
    "clicks": (Clicks(), Units(-0.5, 1.0)),
    "counts": (KnownCounts(1.5), Units(-0.5, 0.2)),
}


def from_prior(likelihood, structure, units, rng, decay, residual):
    shape, rank = ((3, 2), (2, 1)) if decay < 1 else ((3, 2, 2), (1, 1, 1))
    chain = chain_from_prior(structure, shape, rank, units, rng, likelihood=likelihood, decay=decay)
    if residual:
        deviation = residuals._SMALL * units.scale * abs(rng.standard_cauchy())
        chain.residual = Residual(deviation**2, deviation * rng.standard_normal(len(CELLS)))
    return chain


def values(chain):
    deviations = chain.residual.delta if chain.residual else 0.0
    return chain.model.at(CELLS[:, : len(chain.model.shape)]) + deviations


def rewards_given(chain, rng):
    """Two rewards of each cell; the few counts in a thousand that are huge are drawn as normal ones, up to a limit."""
    x, likelihood = np.repeat(values(chain), 2), chain.likelihood
    if isinstance(likelihood, Gaussian):
        cells = np.repeat(CELLS[:, : len(chain.model.shape)], 2, axis=0).tolist()
        variances = likelihood.variances_at(np.array(cells))
        return x + np.sqrt(variances) * rng.standard_normal(len(x))
    if isinstance(likelihood, Clicks):
        return (rng.random(len(x)) < likelihood.rewards(x)).astype(float)
    means = likelihood.rewards(x) * rng.gamma(likelihood.dispersion, size=len(x)) / likelihood.dispersion
    large = np.round(means + np.sqrt(means) * rng.standard_normal(len(x)))
    return np.where(means < 1e9, rng.poisson(np.minimum(means, 1e9)), np.minimum(large, 1e15))


def statistics(chain, units):
    at = np.tanh((values(chain) - units.centre) / units.scale)
    sizes = [np.log(chain.residual.variance), np.log((chain.residual.delta**2).sum())] if chain.residual else []
    ratios = getattr(chain.likelihood, "ratios", [])
    return [
        *(np.log(ratio[0]) for ratio in ratios),
        *own_statistics(chain),
        np.log(chain.likelihood.variance),
        *at,
        at.mean(),
        *sizes,
    ]


def own_statistics(chain):
    model = chain.model
    if chain.structure == "pairs":
        sizes = [
            (model.rows(0) ** 2).sum(),
            (model.cores**2).sum(),
            *((model.effects_of(j) ** 2).sum() for j in (0, 1)),
        ]
        return [*np.log(chain.scales), *np.log(chain.hypers), np.arctan(model.offset), *np.log(sizes)]
    offset = np.arctan(model.offset + (model.affine and model.core[0]))
    return [*np.log(chain.gammas), offset, *(np.log((U**2).sum()) for U in model.tensor().factors)]


STRUCTURES = {"tucker": 0.6, "affine": 1.0, "additive": 1.0, "pairs": 1.0}  # with the decay of each


def every_case():
    """Every likelihood with every structure, with deviations and without, from so many chains each.

    Half of them are in every run, from fewer chains: every likelihood with every structure, and both of them with
    deviations and without.
    """
    for (i, name), (j, structure), residual in product(enumerate(LIKELIHOODS), enumerate(STRUCTURES), (False, True)):
        label = f"{name}-{structure}-{'deviating' if residual else ''}"
        given = (name, structure, STRUCTURES[structure], residual)
        yield pytest.param(*given, 250, marks=pytest.mark.slow, id=label)
        if (i + j + residual) % 2 == 0:
            yield pytest.param(*given, 80, id=f"{label}-short")


@pytest.mark.parametrize(("name", "structure", "decay", "residual", "chains"), list(every_case()))
def test_sweeps_leave_the_joint_law_of_tensor_and_rewards_alone(name, structure, decay, residual, chains, monkeypatch):
    monkeypatch.setattr(residuals, "_SMALL", 0.7)  # so that deviations matter
    likelihood, units = LIKELIHOODS[name]
    rng = np.random.default_rng(5)
    prior, ends = [], []
    for _ in range(8 * chains):
        prior.append(statistics(from_prior(likelihood, structure, units, rng, decay, residual), units))
    for _ in range(chains):
        chain = from_prior(likelihood, structure, units, rng, decay, residual)
        for _ in range(15):
            ledger = Ledger(chain.model.shape)
            ledger.add(np.repeat(CELLS[:, : len(ledger.shape)], 2, axis=0), rewards_given(chain, rng))
            squares = float((ledger.within + ledger.counts * (ledger.means - units.centre) ** 2).sum())
            chain.sweep(ledger, units._replace(squares=squares), rng, sweeps=1)
        ends.append(statistics(chain, units))
    p_values = [stats.ks_2samp(a, b).pvalue for a, b in zip(np.array(prior).T, np.array(ends).T)]
    assert min(p_values) > 0.001 / len(p_values), p_values


@pytest.mark.parametrize("chains", [80, pytest.param(250, marks=pytest.mark.slow)])
@pytest.mark.parametrize("structure", ["tucker", "affine", "pairs"])
def test_variates_of_clicks_that_are_redrawn_in_turn_leave_it_alone_too(structure, chains, monkeypatch):
    """One cell a sweep, in the order of sizes, and values are worked out there only."""
    monkeypatch.setattr(clicks, "_LEAST", 1)
    case = "clicks", structure, STRUCTURES[structure], False, chains
    test_sweeps_leave_the_joint_law_of_tensor_and_rewards_alone(*case, monkeypatch)


def test_a_cell_that_deviates_is_known_as_well_as_its_rewards_say():
    """Of a full-rank tensor with 100 rewards of each cell and a model of rank 1: the values vary by 1 / sqrt(100)."""
    rng, shape = np.random.default_rng(0), (3, 3)
    cells, mean = np.argwhere(np.ones(shape)), 2.0 * rng.standard_normal(9)
    ledger = Ledger(shape)
    ledger.add(np.tile(cells, (100, 1)), np.tile(mean, 100) + rng.standard_normal(900))
    units = Units.of(ledger)
    chain = Chain.from_prior(shape, (1, 1), units, rng, likelihood=Gaussian(1.0, learned=False), residual=True)
    draws = []
    for _ in range(1500):
        chain.sweep(ledger, units, rng, sweeps=1)
        draws.append(chain.values(ledger))
    np.testing.assert_allclose(np.std(draws[100:], axis=0), 0.1, rtol=0.15)
    np.testing.assert_allclose(np.mean(draws[100:], axis=0), ledger.means, atol=0.03)


@pytest.mark.parametrize("chains", [150, pytest.param(600, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("shape", "rank", "decay", "structure"),
    [
        pytest.param((3, 2, 2), (2, 2, 1), 1.0, "tucker", marks=pytest.mark.slow),
        ((3, 4), (2, 2), 0.6, "tucker"),
        pytest.param((3, 2, 2), (1, 1, 1), 1.0, "affine", marks=pytest.mark.slow),
        pytest.param((3, 4), (2, 2), 0.6, "affine", marks=pytest.mark.slow),
        ((3, 2, 2), (1, 1, 1), 1.0, "additive"),
    ],
)
def test_long_chains_of_larger_tensors_leave_the_prior_as_it_is(shape, rank, decay, structure, chains):
    """The same with more columns, more sweeps and more draws, for the likelihood that is swept most."""
    rng, (likelihood, units) = np.random.default_rng(5), LIKELIHOODS["gaussian"]
    cells = np.stack([rng.integers(p, size=6) for p in shape], axis=1)

    def start():
        return Chain.from_prior(shape, rank, units, rng, likelihood=likelihood, decay=decay, structure=structure)

    def told(chain):
        model = chain.model
        at = model.at(cells)
        sizes = [np.log((U**2).sum()) for U in model.tensor().factors]
        scales = np.log([*chain.gammas, chain.noise_variance])
        offset = model.offset + (model.affine and model.core[0])
        return [*scales, offset, np.tanh(at).mean(), np.tanh(at[0]), *sizes]

    prior, ends = [told(start()) for _ in range(10 * chains)], []
    for _ in range(chains):
        chain = start()
        for _ in range(40):
            ledger = Ledger(shape)
            ledger.add(cells, chain.model.at(cells) + np.sqrt(chain.noise_variance) * rng.standard_normal(len(cells)))
            squares = float((ledger.within + ledger.counts * (ledger.means - units.centre) ** 2).sum())
            chain.sweep(ledger, units._replace(squares=squares), rng, sweeps=1)
        ends.append(told(chain))
    p_values = [stats.ks_2samp(a, b).pvalue for a, b in zip(np.array(prior).T, np.array(ends).T)]
    assert min(p_values) > 0.001 / len(p_values), p_values

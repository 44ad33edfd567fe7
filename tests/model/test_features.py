"""What features say of rows: its conditionals leave the joint law alone, and it is learned how much they say."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from tensorbandits import Ledger
from tensorbandits.model import gibbs, pairs
from tensorbandits.model import residual as residuals
from tensorbandits.model.chains import chain_from_prior
from tensorbandits.model.described import described
from tensorbandits.model.residual import Residual
from tests.model.test_joint import LIKELIHOODS, rewards_given

CELLS = np.array([(0, 0, 1), (1, 1, 0), (2, 0, 0), (2, 1, 1), (3, 1, 0)])
SHAPE = (5, 2, 2)  # the last level of the first mode has no rewards
FEATURES = {0: np.array([[1.0, -0.5], [-1.0, 0.5], [0.3, 1.5], [-0.4, -1.0], [2.0, 0.0]]), 1: np.array([[1.0], [-1.0]])}
MANY = {0: np.random.default_rng(0).standard_normal((5, 7)), 1: FEATURES[1]}  # more features than levels
STRUCTURES = ["tucker", "affine", "additive", "pairs", "complete"]


def start(likelihood, structure, units, rng, *, features=FEATURES, residual=False):
    rank, decay = ((2, 1, 1), 0.6) if structure == "tucker" else ((1, 1, 1), 1.0)
    if structure == "complete":  # a mode of which every interaction can be told
        structure, rank = "pairs", (4, 1, 1)
    more = {"likelihood": likelihood, "decay": decay, "features": described(features)}
    chain = chain_from_prior(structure, SHAPE, rank, units, rng, **more)
    if residual:
        deviation = residuals._SMALL * units.scale * abs(rng.standard_cauchy())
        chain.residual = Residual(deviation**2, deviation * rng.standard_normal(len(CELLS)))
    return chain


def told(chain):
    sizes = [np.log(x) for one in chain.features.values() for x in (one.tau, one.phi)]
    for one in chain.features.values():
        if hasattr(one, "B"):
            sizes += [np.log((one.B**2).sum()), np.arctan(one.base[0])]
    rows = chain.model.rows(0) if chain.structure == "pairs" else chain.model.tensor().factors[0]
    if chain.structure == "pairs":
        sizes += [*np.log(chain.scales), *np.log(chain.hypers), *np.arctan(chain.model.effects_of(0)[[0, 4]])]
    if chain.residual:
        sizes += [np.log(chain.residual.variance)]
    return [*sizes, *np.log((rows[[0, 4]] ** 2).sum(axis=1)), *np.tanh(chain.model.at(CELLS))]


def every_case():
    """Every likelihood with every structure, with deviations and without, and more features than levels at times."""
    for (i, name), (j, structure), residual in product(enumerate(LIKELIHOODS), enumerate(STRUCTURES), (False, True)):
        features, label = (MANY if (i + j) % 3 == 1 else FEATURES), f"{name}-{structure}{'-deviating' * residual}"
        yield pytest.param(name, structure, features, residual, 400, marks=pytest.mark.slow, id=label)
        if not residual and (i, j) in ((0, 0), (0, 3), (2, 1), (0, 4)):
            yield pytest.param(name, structure, features, residual, 40, id=f"{label}-short")


@pytest.mark.parametrize(("name", "structure", "features", "residual", "chains"), list(every_case()))
def test_sweeps_leave_the_joint_law_alone(name, structure, features, residual, chains, monkeypatch):
    monkeypatch.setattr("tests.model.test_joint.CELLS", CELLS)
    monkeypatch.setattr(residuals, "_SMALL", 0.7)  # so that deviations matter
    for module in (gibbs, pairs):
        monkeypatch.setattr(module, "MOVING", 0.5)
    (likelihood, units), rng = LIKELIHOODS[name], np.random.default_rng(7)
    given = {"features": features, "residual": residual}
    prior = [told(start(likelihood, structure, units, rng, **given)) for _ in range(8 * chains)]
    ends = []
    for number in range(chains):
        chain = start(likelihood, structure, units, rng, **given)
        for _ in range(15):
            ledger = Ledger(SHAPE)
            ledger.add(np.repeat(CELLS, 2, axis=0), rewards_given(chain, rng))
            squares = float((ledger.within + ledger.counts * (ledger.means - units.centre) ** 2).sum())
            chain.sweep(ledger, units._replace(squares=squares), rng, sweeps=1 + 3 * (number % 2))
        ends.append(told(chain))
    p_values = [stats.ks_2samp(a, b).pvalue for a, b in zip(np.array(prior).T, np.array(ends).T)]
    assert min(p_values) > 0.001 / len(p_values), p_values

"""What features say of rows: its conditionals leave the joint law alone, and it is learned how much they say."""

import numpy as np
import pytest
from scipy import stats

from tensorbandits import Ledger
from tensorbandits.model import gibbs, pairs
from tensorbandits.model.chains import chain_from_prior
from tests.model.test_joint import LIKELIHOODS, rewards_given

CELLS = np.array([(0, 0, 1), (1, 1, 0), (2, 0, 0), (2, 1, 1), (3, 1, 0)])
SHAPE = (5, 2, 2)  # the last level of the first mode has no rewards
FEATURES = {0: np.array([[1.0, -0.5], [-1.0, 0.5], [0.3, 1.5], [-0.4, -1.0], [2.0, 0.0]]), 1: np.array([[1.0], [-1.0]])}


def start(likelihood, structure, units, rng):
    rank, decay = ((2, 1, 1), 0.6) if structure == "tucker" else ((1, 1, 1), 1.0)
    if structure == "complete":  # a mode of which every interaction can be told
        structure, rank = "pairs", (4, 1, 1)
    return chain_from_prior(structure, SHAPE, rank, units, rng, likelihood=likelihood, decay=decay, features=FEATURES)


def told(chain):
    sizes = [np.log(x) for one in chain.features.values() for x in (one.tau, one.phi)]
    sizes += [np.log((one.B**2).sum()) for one in chain.features.values() if hasattr(one, "B")]
    rows = chain.model.rows(0) if chain.structure == "pairs" else chain.model.tensor().factors[0]
    if chain.structure == "pairs":
        sizes += [*np.log(chain.scales), *np.log(chain.hypers), *np.arctan(chain.model.effects_of(0)[[0, 4]])]
    return [*sizes, *np.log((rows[[0, 4]] ** 2).sum(axis=1)), *np.tanh(chain.model.at(CELLS))]


@pytest.mark.parametrize("name", ["gaussian", "clicks"])
@pytest.mark.parametrize("structure", ["tucker", "affine", "additive", "pairs", "complete"])
@pytest.mark.parametrize("chains", [100, pytest.param(500, marks=pytest.mark.slow)])
def test_sweeps_leave_the_joint_law_alone(name, structure, chains, monkeypatch):
    monkeypatch.setattr("tests.model.test_joint.CELLS", CELLS)
    for module in (gibbs, pairs):
        monkeypatch.setattr(module, "MOVING", 0.5)
    (likelihood, units), rng = LIKELIHOODS[name], np.random.default_rng(7)
    prior = [told(start(likelihood, structure, units, rng)) for _ in range(8 * chains)]
    ends = []
    for _ in range(chains):
        chain = start(likelihood, structure, units, rng)
        for _ in range(15):
            ledger = Ledger(SHAPE)
            ledger.add(np.repeat(CELLS, 2, axis=0), rewards_given(chain, rng))
            squares = float((ledger.within + ledger.counts * (ledger.means - units.centre) ** 2).sum())
            chain.sweep(ledger, units._replace(squares=squares), rng, sweeps=1)
        ends.append(told(chain))
    p_values = [stats.ks_2samp(a, b).pvalue for a, b in zip(np.array(prior).T, np.array(ends).T)]
    assert min(p_values) > 0.001 / len(p_values), p_values

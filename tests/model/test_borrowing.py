"""Shares of own data: nothing told, all told, and the conditional law of a row by itself."""

import numpy as np
import pytest

from tensorbandits import Ledger
from tensorbandits.model.borrowing import own_shares
from tensorbandits.model.gibbs import Chain
from tensorbandits.model.likelihood import Units


@pytest.mark.parametrize("structure", ["tucker", "affine", "additive"])
def test_the_share_is_what_the_conditional_law_of_a_row_says(structure):
    rng, shape = np.random.default_rng(0), (4, 3, 2)
    ledger = Ledger(shape)
    cells = rng.integers((3, 3, 2), size=(40, 3))  # level 3 of the first mode is never tried
    ledger.add(cells, rng.standard_normal(40))
    units = Units.of(ledger)
    chain = Chain.from_prior(shape, (2, 2, 1), units, rng, structure=structure, decay=0.7)
    observations = chain.likelihood.observe(ledger, units, chain.values(ledger), rng)
    precision = chain.precision
    shares = own_shares(chain.model, observations, chain.noise_variance, precision)
    factor, start = chain.model.tensor().factors, 0
    for mode, (size, rank) in enumerate(zip(shape, chain.model.rank)):
        fixed = int(chain.model.affine)
        D = np.diag(precision[start + fixed : start + rank])
        start += rank
        for level in range(size):
            own = np.zeros_like(D)
            for cell, count in zip(ledger.cells, ledger.counts):
                if cell[mode] == level:
                    slope = chain.model.tensor().core
                    for j in reversed(range(3)):
                        if j != mode:
                            slope = np.tensordot(slope, factor[j][cell[j]], axes=(j, 0))
                    own += count / chain.noise_variance * np.outer(slope[fixed:], slope[fixed:])
            expected = np.trace(np.linalg.inv(D + own) @ own) / len(D)
            assert shares[mode][level] == pytest.approx(expected, abs=1e-9)
    assert shares[0][3] == 0.0
    assert all((share >= 0).all() and (share <= 1).all() for share in shares)


def test_more_rewards_need_less_help():
    rng = np.random.default_rng(1)
    found = []
    for count in (1, 10, 1000):
        ledger = Ledger((2, 2))
        ledger.add(np.repeat(np.argwhere(np.ones((2, 2))), count, axis=0), rng.standard_normal(4 * count))
        chain = Chain.from_prior((2, 2), (1, 1), Units(0.0, 1.0), np.random.default_rng(0))
        observations = chain.likelihood.observe(ledger, Units(0.0, 1.0), np.zeros(4), rng)
        found.append(own_shares(chain.model, observations, 1.0, np.ones(2))[0][0])
    assert found[0] < found[1] < found[2] > 0.9

"""Chains with features against an independent sampler: random walks over all numbers of a tiny problem at once.

The walks know nothing of conditionals: every number is made of standard normal ones, which take steps that leave their
law alone, and are accepted by the likelihood.
"""

import numpy as np
import pytest
from scipy import stats

from tensorbandits import Ledger
from tensorbandits.model.chains import chain_from_prior
from tensorbandits.model.clicks import Clicks
from tensorbandits.model.described import LEAST, NONE, OWN_SHAPE, SURE, described
from tensorbandits.model.described import SHAPE as SHARES
from tensorbandits.model.gibbs import OFFSET_VARIANCE
from tensorbandits.model.likelihood import Gaussian, Units
from tensorbandits.model.pairs import _PAIRS

FEATURES = np.array([[1.0, 0.3], [-1.0, 0.5], [0.4, -1.2], [1.2, -0.9]])  # nothing is known of the last level
SHAPE, UNITS = (4, 3), Units(0.2, 1.2)
CELLS = np.array([(i, j) for i in range(3) for j in range(3)])


def scales_of(z):
    """tau and phi from their prior: features determine rows, or phi^2 has a beta law, cut where a scale is nothing."""
    law, u = stats.beta(SHARES, OWN_SHAPE), stats.norm.cdf(z)
    below, upto = law.cdf([LEAST**2, 1.0 - LEAST**2])
    tau = np.sqrt(1.0 - law.ppf(below + (upto - below) * np.minimum(u / (1.0 - SURE), 1.0)))
    tau = np.where(u > 1.0 - SURE, NONE, tau)
    return tau, np.sqrt(1.0 - tau**2)


def tensors(z, structure):
    """Mean tensors (n, 4, 3), tau and phi, made of standard normal numbers (n, many), column by column."""
    columns = iter(z.T)

    def take(*shape):
        return np.stack([next(columns) for _ in range(int(np.prod(shape)))], axis=-1).reshape(len(z), *shape)

    s = UNITS.scale
    tau, phi = scales_of(take())

    def guided():
        B, base, own = take(2), take(), take(4)
        return base[:, None] + phi[:, None] / np.sqrt(2) * B @ FEATURES.T + tau[:, None] * own

    offset = UNITS.centre + s * np.sqrt(OFFSET_VARIANCE) * take()
    if structure == "pairs":
        M, G = s * abs(take()), s * _PAIRS * abs(take())
        first, second, both = M * abs(take()), M * abs(take()), G * abs(take())
        a, u, b, v = guided(), guided(), take(3), take(3)
        mean = (first[:, None] * a)[:, :, None] + (second[:, None] * b)[:, None, :]
        mean += (both * take())[:, None, None] * u[:, :, None] * v[:, None, :]
        return offset[:, None, None] + mean, tau, phi
    u, v = guided(), take(3)
    sizes = [s / np.maximum(abs(take()), 1e-9) for _ in range(2)]  # of main effects, and of the interaction
    mean = (sizes[1] * take())[:, None, None] * u[:, :, None] * v[:, None, :]
    if structure in ("affine", "additive"):
        mean *= structure == "affine"
        mean += (sizes[0] * take())[:, None, None] * u[:, :, None] + (sizes[0] * take())[:, None, None] * v[:, None, :]
    return offset[:, None, None] + mean, tau, phi


def walk(log_likelihood, structure, walkers, steps, rng):
    """Return where so many walks end, as tensors, tau and phi."""
    z = rng.standard_normal((walkers, 40))
    here = log_likelihood(tensors(z, structure)[0])
    for step in range(steps):
        length = (0.05, 0.15, 0.4, 0.8)[step % 4]
        some = rng.random(z.shape) < (0.15, 0.5, 1.0)[step % 3]
        moved = np.where(some, np.sqrt(1 - length**2) * z + length * rng.standard_normal(z.shape), z)
        there = log_likelihood(tensors(moved, structure)[0])
        accepted = there - here > -rng.standard_exponential(walkers)
        z[accepted], here[accepted] = moved[accepted], there[accepted]
    return tensors(z, structure)


def looked_at(mean, tau, phi):
    """What both samplers are compared by: tried and untried cells, and both scales."""
    return np.column_stack([np.arctan(mean[:, 3]), np.arctan(mean[:, 0, 0]), np.log(tau), np.log(phi)])


CASES = [("tucker", "gaussian"), ("affine", "gaussian"), ("additive", "gaussian"), ("pairs", "gaussian")]
CASES += [("tucker", "clicks"), ("pairs", "clicks")]


@pytest.mark.slow
@pytest.mark.parametrize(("structure", "name"), CASES)
def test_chains_end_where_random_walks_do(structure, name):
    rng = np.random.default_rng(3)
    truth = np.array([0.0, 1.2, -0.8, 0.0])[:, None] * np.array([1.0, -0.7, 0.4]) + 0.3
    rows = np.repeat(CELLS, 6, axis=0)
    values, ledger = truth[tuple(rows.T)], Ledger(SHAPE)
    ledger.add(
        rows, values + rng.standard_normal(54) if name == "gaussian" else rng.random(54) < 1 / (1 + np.exp(-values))
    )
    N, Y, _ = ledger.dense()

    def log_likelihood(mean):
        if name == "gaussian":
            return (Y * mean - 0.5 * N * mean**2).sum(axis=(1, 2))
        return (Y * mean - N * np.logaddexp(0.0, mean)).sum(axis=(1, 2))

    ends = looked_at(*walk(log_likelihood, structure, 600, 4_000, rng))
    likelihood, found = Gaussian(1.0, learned=False) if name == "gaussian" else Clicks(), []
    units = UNITS._replace(squares=float((ledger.within + ledger.counts * (ledger.means - UNITS.centre) ** 2).sum()))
    for number in range(300):
        chain = chain_from_prior(
            structure, SHAPE, (1, 1), units, rng, likelihood=likelihood, features=described({0: FEATURES})
        )
        chain.sweep(ledger, units, rng, sweeps=160 if number % 2 else 161)
        every = np.argwhere(np.ones(SHAPE))
        one = chain.features[0]
        found.append(looked_at(chain.model.at(every).reshape(1, *SHAPE), np.array([one.tau]), np.array([one.phi]))[0])
    p_values = [stats.ks_2samp(a, b).pvalue for a, b in zip(ends.T, np.array(found).T)]
    assert min(p_values) > 0.001 / len(p_values), p_values

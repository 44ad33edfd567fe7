"""Plain twins of the compiled steps of what features say of rows: matrices spelled out, one step after the other."""

from __future__ import annotations

import numpy as np
from scipy import stats

from tests.plain.sweep import solve_spd


def redraw(x, levels, G, told, numbers, base, noise, steps, tries):
    """Return coefficients (k, q), tau and phi given the rows (p, q) of some levels, by ridge regression."""
    tau, phi, m = numbers[:3]
    k, q = G.shape[1], x.shape[1]
    noise = noise.reshape(q, k)
    C = np.empty((k, q))
    F, u = G[levels][:, :told], x[levels] - base
    precision = F.T @ F / tau**2 + m / phi**2 * np.eye(told)
    for a in range(q):  # the columns of F are uncorrelated: the Cholesky factor is diagonal
        C[:told, a] = solve_spd(precision, F.T @ u[:, a] / tau**2, noise[a, :told])
    rest = x[levels] - G[levels, :told] @ C[:told]
    precision = len(levels) / tau**2 + 1.0
    C[-1] = rest.sum(axis=0) / tau**2 / precision + noise[:, -1] / np.sqrt(precision)
    own, guided = rest - C[-1], np.sqrt(m) * C[:told]

    def log_density(tau, phi):
        parts = stats.norm.logpdf(own, scale=tau).sum() + stats.norm.logpdf(guided, scale=phi).sum()
        return parts + log_prior(tau, phi, numbers)

    lengths = 2.0 / np.sqrt(own.size + guided.size + 1.0) * np.array([1.0, 3.0, 9.0])
    tau, phi = metropolis(tau, phi, log_density, lengths, numbers, steps, tries)
    C[told:-1] = phi / np.sqrt(m) * noise[:, told:-1].T
    return C, tau, phi


def log_prior(tau, phi, numbers):
    """The logarithm of the prior density of log(phi^2 / tau^2), but for a constant: the share phi^2 has a beta law."""
    return 2.0 * numbers[4] * np.log(phi) + 2.0 * numbers[5] * np.log(tau)


def metropolis(tau, phi, log_density, lengths, numbers, steps, tries):
    """Return both scales after Metropolis steps on the logarithm of the ratio of their squares."""
    for length, step, trial in zip(lengths, steps, tries):
        ratio = phi**2 / tau**2 * np.exp(length * step)
        moved = (1 / np.sqrt(1 + ratio), np.sqrt(ratio / (1 + ratio)))
        fine = tau > numbers[6] and min(moved) >= numbers[3]
        if fine and log_density(*moved) - log_density(tau, phi) > -trial:
            tau, phi = moved
    return tau, phi


def move(A, b, levels, G, numbers, C, axes, noise, tries, scales):
    """Return rows of the levels, coefficients, tau and phi redrawn given the rewards."""
    tau, phi, m = numbers[:3]
    q = b.shape[1]
    big = np.zeros((len(levels) * q, len(levels) * q))
    for n, i in enumerate(levels):
        big[n * q : (n + 1) * q, n * q : (n + 1) * q] = A[i]
    says, F = b[levels].ravel(), G[levels]
    base, mean = np.tile(C[-1], len(levels)), (F[:, :-1] @ C[:-1]).ravel()

    def evidence(t, p):
        """The density of what rewards say of rows, these averaged out."""
        about = p / phi * mean + base
        left, K = says - big @ about, big + np.eye(len(big)) / t**2
        value = says @ about - 0.5 * about @ big @ about + 0.5 * left @ np.linalg.solve(K, left)
        return value - 0.5 * np.linalg.slogdet(t**2 * K)[1]

    def log_density(t, p):
        return evidence(t, p) + log_prior(t, p, numbers)

    t, p = tau, phi
    if scales:
        t, p = metropolis(tau, phi, log_density, (0.2, 1.0, 5.0), numbers, noise[:3], tries)
        t, p = leap(t, p, evidence, numbers, *tries[3:])
    left = says - big @ (p / phi * mean + base)
    by_level = noise[3 : 3 + b.size].reshape(b.shape)[levels].ravel()
    own = solve_spd(big + np.eye(len(big)) / t**2, left, by_level)
    mean, C, tau, phi = p / phi * mean, np.vstack([p / phi * C[:-1], C[-1:]]), t, p
    design = np.kron(F[:, axes], np.eye(q))
    rest = own + mean + base - design @ C[axes].ravel()
    loose = np.where(np.array(axes) < len(C) - 1, m / phi**2, 1.0)
    precision = design.T @ big @ design + np.diag(np.repeat(loose, q))
    C = C.copy()
    C[axes] = solve_spd(precision, design.T @ (says - big @ rest), noise[3 + b.size :]).reshape(-1, q)
    return own.reshape(-1, q) + F @ C, C, tau, phi


def leap(tau, phi, evidence, numbers, trial, where):
    """Return both scales after a try to have features determine rows, or no longer."""
    least, none, odds = numbers[3], numbers[6], numbers[7]
    low, high = np.log(3.0), np.log((1 - least**2) / least**2)
    if tau > none:
        ratio, there = np.log(phi**2 / tau**2), (none, np.sqrt(1 - none**2))
        gain = odds - log_prior(tau, phi, numbers) - np.log(high - low)
        if not low <= ratio <= high:
            return tau, phi
    else:
        ratio = np.exp(low + (high - low) * np.exp(-where))
        there = (1 / np.sqrt(1 + ratio), np.sqrt(ratio / (1 + ratio)))
        gain = log_prior(*there, numbers) - odds + np.log(high - low)
    return there if gain + evidence(*there) - evidence(tau, phi) > -trial else (tau, phi)

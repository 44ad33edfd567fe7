"""Ridge regression over all cells with a dense inverse and one rank-one change per pull, as the papers write it.

Cells are unit vectors. ``V = A diag(lambda) A^T + diag(N)`` over all ``K`` cells, with ``A`` the Kronecker product of
the rotations ``[U_j, U_j_perp]`` and ``lambda_1`` for each coordinate with at least one index in a subspace.
"""

import math

import numpy as np

from tensorbandits.tensor.tucker import rotation


def penalty(shape, factors, lambda_1, lambda_2):
    """Return ``V`` without data, shape (K, K)."""
    K = math.prod(shape)
    if not factors:
        return lambda_1 * np.eye(K)
    A = np.ones((1, 1))
    for U in factors:
        A = np.kron(A, rotation(U))
    levels = np.indices(shape).reshape(len(shape), -1)
    inside = (levels < np.array([U.shape[1] for U in factors])[:, None]).any(axis=0)
    return A @ np.diag(np.where(inside, lambda_1, lambda_2)) @ A.T


def inverse(V):
    """Return ``V^-1``, scaled on the way so that counts of a million beside none do not blur it."""
    root = np.sqrt(V.diagonal())
    return np.linalg.inv(V / np.outer(root, root)) / np.outer(root, root)


def first_of_largest(values):
    return int(np.argmax(values >= values.max() - 1e-10 * np.abs(values).max()))


class DenseRidge:
    """``W = V^-1`` over all cells, and sums of rewards."""

    def __init__(self, V, counts=0.0):
        self.W = inverse(V + np.diag(np.zeros(len(V)) + counts))
        self.sums = np.zeros(len(V))
        self.logdet = 0.0  # since the start

    def count(self, arm, times=1.0):
        self.logdet += math.log1p(times * self.W[arm, arm])
        self.W = self.W - np.outer(self.W[arm], self.W[arm]) / (1.0 / times + self.W[arm, arm])

    def tell(self, arm, mean, times=1.0):
        self.count(arm, times)
        self.sums[arm] += times * mean

    @property
    def variance(self):
        return self.W.diagonal()

    @property
    def mean(self):
        return self.W @ self.sums

    def pull_widest(self, active):
        """Count a pull of the active arm of largest width, ties to the lowest, and return its position."""
        at = first_of_largest(self.variance[active])
        self.count(active[at])
        return at

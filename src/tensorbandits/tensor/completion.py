"""Tensor completion after Xia, Yuan and Zhang (2021), from a sparse ledger (the paper's section S.3.2).

Notation
--------
T           number of rewards           v_c = Y_c / (T pi_c)   X_ini at observed cell c
pi_c        probability of drawing c    R_j (p_j, p_j)         second moment of mode j, its diagonal bias removed
K           number of cells; uniform draws have pi_c = 1 / K, so X_ini = (K / T) Y
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tensorbandits.base.checks import (
    Cell,
    Rank,
    check_count,
    check_level,
    check_positive,
    check_seed,
    feasible_rank,
    is_finite,
    resolve_rank,
)
from tensorbandits.ledger import Ledger
from tensorbandits.tensor.tucker import Floats, Ints, Tucker, as_numbers, check_numbers

if TYPE_CHECKING:  # otherwise imported where it is used: it doubles the time of importing the library
    from scipy.sparse import csr_array

AUTO_RANK = 6  # the largest that is looked for
_DENSE_EIGEN = 500  # sizes up to this use a dense eigensolver
_NULL_DRAWS = 10
_NULL_MARGIN = 1.2


@dataclass(frozen=True)
class CompletionInfo:
    """How a completion went: ranks used, iterations, the growth of the core's norm in each, and whether it settled."""

    rank: Cell
    iterations: int
    increments: tuple[float, ...]
    converged: bool


@dataclass(frozen=True)
class Completion(Tucker):
    """A completed tensor: orthonormal ``factors``, ``core``, ``full()``, ``at(cells)``, ``best()`` and ``info``.

    >>> ledger = Ledger((2, 2)); ledger.add([(0, 0), (1, 1), (1, 0)], [1.0, 2.0, 3.0])
    >>> fit = complete(ledger, rank=1)
    >>> fit.core.shape, [U.shape for U in fit.factors], fit.full().shape, fit.info.rank
    ((1, 1), [(2, 1), (2, 1)], (2, 2), (1, 1))
    """

    info: CompletionInfo = field(default_factory=lambda: CompletionInfo((), 0, (), True))


@dataclass(frozen=True)
class _Draws:
    """The observed cells with their weighted sums: all that completion reads."""

    shape: Cell
    cells: Ints
    values: Floats  # v_c
    energy: Floats  # Q_c / (T pi_c)^2, the part of v_c^2 that comes from a reward paired with itself
    rounds: float


def _weigh(ledger: Ledger, probabilities: ArrayLike | None, centre: float = 0.0) -> _Draws:
    rounds = max(ledger.rounds, 1.0)
    totals, squares = ledger.totals, ledger.squares
    if centre:
        totals = totals - centre * ledger.counts
        squares = ledger.within + totals**2 / ledger.counts
    if probabilities is None:
        inverse = np.full(len(ledger), float(math.prod(ledger.shape)))
    else:
        inverse = 1.0 / _check_probabilities(probabilities, len(ledger))
    scale = inverse / rounds
    return _Draws(ledger.shape, ledger.cells, totals * scale, squares * scale**2, rounds)


def _check_probabilities(probabilities: ArrayLike, count: int) -> Floats:
    given = as_numbers(probabilities, "probabilities")
    outside = ~((given > 0) & (given <= 1))
    if given.shape != (count,) or outside.any():
        found = f"contains {given[outside][0]:g}" if outside.any() else f"has shape {given.shape}"
        raise ValueError(
            f"probabilities {found}; give one number in (0, 1] per observed cell, "
            f"shape ({count},), in the order of ledger.cells, or None for uniform draws"
        )
    return given


def _check_centre(centre: Any) -> float:
    if isinstance(centre, bool) or not is_finite(centre):
        raise ValueError(f"centre is {centre!r}; it is taken off every reward: give a finite number, 0 for nothing")
    return float(centre)


def cell_probabilities(weights: Sequence[Floats] | None, cells: Ints, shape: Cell) -> Floats:
    """Return the probability of each cell (n, d) when modes are drawn independently; ``None`` is uniform.

    >>> cell_probabilities([np.array([0.5, 0.5]), np.array([0.1, 0.9])], np.array([[0, 1]]), (2, 2)).tolist()
    [0.45]
    """
    if weights is None:
        return np.full(len(cells), 1.0 / math.prod(shape))
    return np.asarray(np.prod([w[cells[:, j]] for j, w in enumerate(weights)], axis=0))


def second_moment(ledger: Ledger, mode: int, probabilities: ArrayLike | None = None) -> Floats:
    """Return ``R_j`` (p_j, p_j), equal to the paper's U-statistic over all pairs of different rounds.

    >>> ledger = Ledger((2, 2)); ledger.add([(0, 0), (1, 0)], [1.0, 2.0])
    >>> second_moment(ledger, 0).tolist()
    [[0.0, 16.0], [16.0, 0.0]]
    """
    valid = check_level(mode, len(ledger.shape), "mode")
    M, diagonal, factor = _moment_parts(_weigh(ledger, probabilities), valid)
    return np.asarray(factor * ((M @ M.T).toarray() - np.diag(diagonal)))


def _moment_parts(draws: _Draws, mode: int) -> tuple[csr_array, Floats, float]:
    """Return ``M_j(X_ini)`` with its empty columns dropped, what to take off the diagonal, and ``T / (T - 1)``."""
    from scipy.sparse import csr_array

    others = draws.cells.copy()
    others[:, mode] = 0
    columns, at = _distinct(others, draws.shape)
    rows, size = draws.cells[:, mode], draws.shape[mode]
    M = csr_array((draws.values, (rows, at)), shape=(size, max(columns, 1)))
    diagonal = np.bincount(rows, weights=draws.energy, minlength=size).astype(np.float64)
    return M, diagonal, draws.rounds / max(draws.rounds - 1.0, 1.0)


def _distinct(cells: Ints, shape: Cell) -> tuple[int, Ints]:
    """Return how many distinct rows there are, and which of them each row (n, d) is."""
    if math.prod(shape) < 2**62:
        keys, at = np.unique(np.ravel_multi_index(tuple(cells.T), shape), return_inverse=True)
    else:
        keys, at = np.unique(cells, axis=0, return_inverse=True)
    return len(keys), at.ravel()


def _leading(draws: _Draws, mode: int, count: int) -> tuple[Floats, Floats]:
    """Return the ``count`` largest eigenvalues of ``R_j``, largest first, and their vectors (p_j, count)."""
    M, diagonal, factor = _moment_parts(draws, mode)
    size = draws.shape[mode]
    # R_j is M M^T less something positive, so no more eigenvalues are above 0 than M has columns. Those below come in
    # clusters, which would keep Lanczos busy for minutes.
    few = min(count, M.shape[1])
    if size <= _DENSE_EIGEN or count >= size - 1:
        values, vectors = np.linalg.eigh((M @ M.T).toarray() - np.diag(diagonal))
        values, vectors = values[-count:], vectors[:, -count:]
    else:
        from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

        operator = LinearOperator((size, size), matvec=lambda x: M @ (M.T @ x) - diagonal * x, dtype=np.float64)
        try:
            values, vectors = eigsh(operator, k=few, which="LA", v0=np.ones(size))
        except ArpackError:  # R_j is zero, as with no pair of rewards at all: any orthonormal vectors will do
            values, vectors = np.zeros(few), np.eye(size, few)
        if few < count:  # any vectors will do for what is not above 0
            more = np.linalg.qr(np.hstack([vectors, np.eye(size, count)]))[0][:, few:count]
            values, vectors = np.append(np.zeros(count - few), values), np.hstack([more, vectors])
    return factor * values[::-1], np.ascontiguousarray(vectors[:, ::-1])


def choose_rank(
    ledger: Ledger,
    probabilities: ArrayLike | None = None,
    *,
    centre: float = 0.0,
    max_rank: int = AUTO_RANK,
    seed: int = 0,
) -> Cell:
    """Choose a rank per mode from the spectra of ``R_j``: the paper's threshold ``delta``, found from the data.

    ``delta`` is what the largest eigenvalue reaches when the rewards have random signs, which leaves their sizes and
    cells but no structure (the largest of ten such draws, plus a margin). Each rank is at least 1. ``centre`` is taken
    off every reward first.

    >>> ledger = Ledger((4, 4))
    >>> choose_rank(ledger)
    (1, 1)
    """
    draws = _weigh(ledger, probabilities, _check_centre(centre))
    most = check_count(max_rank, "max_rank")
    if not len(ledger):
        return (1,) * len(ledger.shape)
    rng = np.random.default_rng(check_seed(seed))
    signs = rng.choice([-1.0, 1.0], size=(_NULL_DRAWS, len(ledger)))
    nulls = [_Draws(draws.shape, draws.cells, np.sqrt(draws.energy) * s, draws.energy, draws.rounds) for s in signs]
    ranks = []
    for mode, size in enumerate(ledger.shape):
        others = math.prod(ledger.shape) // size  # no rank is above the product of the other modes' sizes
        values, _ = _leading(draws, mode, min(most, size, others))
        delta = _NULL_MARGIN * max(_leading(null, mode, 1)[0][0] for null in nulls)
        ranks.append(max(1, int((values > delta).sum())))
    return feasible_rank(ranks)


def complete(
    ledger: Ledger,
    rank: Rank,
    *,
    probabilities: ArrayLike | None = None,
    centre: float = 0.0,
    init: Sequence[Floats] | None = None,
    tolerance: float = 1e-6,
    max_iterations: int = 100,
) -> Completion:
    """Complete a tensor from a ledger of independently drawn cells: spectral start, then power iteration.

    Parameters
    ----------
    ledger : rewards of cells drawn independently of what was learned.
    rank : an int (a cap), a tuple, or ``"auto"`` (from the spectra, see :func:`choose_rank`).
    probabilities : the probability with which each observed cell was drawn, in the order of ``ledger.cells``,
        shape (n,); ``None`` for uniform draws. Without it, non-uniform draws bias the result.
    centre : a constant to take off every reward; it is the ``offset`` of the result.
    init : orthonormal factors to start from instead of the spectral start.
    tolerance : stop when the norm of the projected core grows by less than this share of itself (``epsilon``).
    max_iterations : stop after this many iterations in any case.

    >>> rng = np.random.default_rng(0)
    >>> truth = np.outer(rng.standard_normal(8), rng.standard_normal(9))
    >>> cells = rng.integers((8, 9), size=(20_000, 2))
    >>> ledger = Ledger((8, 9)); ledger.add(cells, truth[tuple(cells.T)])
    >>> fit = complete(ledger, rank=1)
    >>> bool(np.linalg.norm(fit.full() - truth) < 0.1 * np.linalg.norm(truth)), fit.info.converged
    (True, True)
    """
    check_positive(tolerance, "tolerance")
    check_count(max_iterations, "max_iterations")
    centre = _check_centre(centre)
    resolved = resolve_rank(rank, ledger.shape)
    ranks = choose_rank(ledger, probabilities, centre=centre) if resolved is None else resolved
    draws = _weigh(ledger, probabilities, centre)
    if init is None:
        factors = [_leading(draws, j, r)[1] for j, r in enumerate(ranks)]
    else:
        factors = [check_numbers(U, f"factor {j} of init") for j, U in enumerate(init)]
        expected = [(p, r) for p, r in zip(ledger.shape, ranks, strict=True)]
        if [U.shape for U in factors] != expected:
            raise ValueError(f"init has shapes {[U.shape for U in factors]}; rank {ranks} needs {expected}")
    norm = float(np.linalg.norm(factors[0].T @ _project_others(draws, factors, 0)))
    increments: list[float] = []
    converged = False
    while not converged and len(increments) < max_iterations:
        for j, r in enumerate(ranks):
            projected = _project_others(draws, factors, j)
            left, singular, _ = np.linalg.svd(projected, full_matrices=False)
            factors[j] = left[:, :r]
        grown = float(np.linalg.norm(singular[: ranks[-1]]))  # of the core: its last unfolding has these
        increments.append(grown - norm)
        converged = grown - norm <= tolerance * grown
        norm = grown
    core = np.moveaxis((factors[-1].T @ projected).reshape(ranks[-1], *ranks[:-1]), 0, -1)
    info = CompletionInfo(ranks, len(increments), tuple(increments), converged)
    return Completion.trusted(np.ascontiguousarray(core), tuple(factors), centre, info=info)


def _project_others(draws: _Draws, factors: Sequence[Floats], mode: int) -> Floats:
    """Return the mode-j unfolding of ``X_ini`` projected on all other factors, shape (p_j, product of other ranks)."""
    from tensorbandits.tensor._completion_kernels import project_others

    dims = np.array([draws.shape, [U.shape[1] for U in factors]])
    return project_others(draws.cells, draws.values, dims, np.concatenate([U.ravel() for U in factors]), mode)

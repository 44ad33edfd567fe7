"""The best cell of a Tucker tensor without looking at the cells.

Given the context, an entry is linear in the row of each free mode, so one of the largest is found where every row is a
vertex of the convex hull of its factor's rows. Modes of rank 1 and 2 are reduced so by compiled code, modes of higher
rank by qhull here, each where the cost model says that it pays; all combinations of the rows left are then tried.

The cell is that of an argmax of the full tensor. Among equal rows the lowest level is returned, and so it is where the
level of a mode makes no difference. Of different cells that happen to have the same value it may be any.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tensorbandits.base.checks import Cell
from tensorbandits.tensor.allowed import Allowed, flat

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# The cost model, in microseconds, measured on one core of an AMD EPYC; only ratios matter. For a rank: a, b, c, e such
# that qhull takes a n^b for n Gaussian rows, of which c n^e are vertices; fitted to n = 100, 300, 1000, 3000, at rank 6
# to n <= 1000. Of 1000 rows, rank 3 leaves 34 after 0.3 ms, rank 4 83 after 1.1 ms, rank 5 152 after 9 ms, rank 6 302
# after 230 ms, rank 7 379 after 1.8 s, which is more than all billion cells of three such modes take.
_QHULL = {
    3: (11.0, 0.51, 11.0, 0.18),
    4: (31.0, 0.53, 13.0, 0.27),
    5: (73.0, 0.70, 11.5, 0.38),
    6: (112.0, 1.1, 10.0, 0.5),
}
# The search takes so much for each cell and rank of the innermost mode, and for each combination of all other modes.
_CELL, _COMBINATION = 0.7e-4, 14e-3
_PLANAR = 10  # about as many rows are left of a mode of rank 2
_FEW = 8  # if at least one of so many levels is in no rule, cells are tried without regard to the rules first
_NONE = np.zeros(0, dtype=np.int64)
_QUICK = 100.0  # qhull takes longer


def best_packed(
    core: Floats, rows: Floats, sizes: Ints, ranks: Ints, fixed: Ints, allowed: Allowed | None = None
) -> Cell:
    """Return the cell of the largest entry of a packed tensor, among those that are allowed.

    ``core`` is flat, ``rows`` holds the factors one after the other, both in C order and contiguous. ``sizes``,
    ``ranks`` and ``fixed`` have one number for each mode; ``fixed`` is -1 for a free mode. ``allowed`` was checked
    against the sizes.

    >>> sizes, ranks, rows = np.array([2, 3]), np.array([1, 1]), np.array([1.0, -2.0, 3.0, -4.0, 3.0])
    >>> best_packed(np.ones(1), rows, sizes, ranks, np.array([-1, -1]))
    (1, 1)
    >>> best_packed(np.ones(1), rows, sizes, ranks, np.array([-1, -1]), Allowed.of({0: [0]}, (2, 3)))
    (0, 0)
    """
    cell = np.empty(sizes.size, np.int64)
    if allowed is None:
        _best(core, rows, sizes, ranks, fixed, cell)
    else:
        _best_allowed(core, rows, sizes, ranks, fixed, allowed, cell)
    return tuple(cell.tolist())


def best_of_each(cores: Floats, rows: Floats, lines: Ints, dims: Ints, fixed: Ints) -> list[Cell]:
    """Return the cells of the largest entries of packed tensors of one shape and rank, in one call where that is quick.

    ``cores`` and ``rows`` have one tensor in each line, of which ``lines`` says which to search; ``dims`` has a line of
    sizes and one of ranks.

    >>> dims, rows = np.array([[2, 3], [1, 1]]), np.array([[1.0, -2, 3, -4, 3], [1, 2, 3, 5, 4]])
    >>> best_of_each(np.ones((2, 1)), rows, np.array([1, 0]), dims, np.array([-1, -1]))
    [(1, 1), (1, 1)]
    """
    from tensorbandits.tensor import _best_kernels

    sizes, ranks = dims[0], dims[1]
    if _hulls_pay(sizes.tolist(), ranks.tolist(), fixed.tolist()):
        return [best_packed(cores[line], rows[line], sizes, ranks, fixed) for line in lines]
    cells = np.empty((lines.size, sizes.size), np.int64)
    _best_kernels.best_indices(cores, rows, lines, sizes, ranks, fixed, cells)
    return list(map(tuple, cells.tolist()))


def search_microseconds(sizes: Sequence[int], ranks: Sequence[int], fixed: Sequence[int]) -> float:
    """Return about how long the search for the best cell takes, with all cells allowed.

    >>> round(search_microseconds([15, 15, 15], [2, 2, 2], [-1, -1, -1]), 1)
    1.5
    """
    counts, columns, total = _counts(list(sizes), list(ranks), list(fixed)), list(ranks), 0.0
    for j, n in enumerate(counts if _hulls_pay(list(sizes), columns, list(fixed)) else ()):
        if fixed[j] < 0 and _pays(counts, columns, j):
            a, b, c, e = _QHULL[columns[j]]
            total += a * n**b
            counts[j] = min(n, round(c * n**e))
    return total + _microseconds(counts, columns)


def _best(core: Floats, rows: Floats, sizes: Ints, ranks: Ints, fixed: Ints, cell: Ints) -> None:
    """Write the cell of the largest entry to ``cell`` (d,)."""
    from tensorbandits.tensor import _best_kernels

    kept = _reduce(rows, sizes.tolist(), ranks.tolist(), fixed.tolist())
    if not kept:
        _best_kernels.best_index(core, rows, sizes, ranks, fixed, cell)
        return
    index, heads = flat([kept.get(j, _NONE) for j in range(sizes.size)])
    fewer, counts = _best_kernels.take(rows, sizes, ranks, fixed, index, heads)
    _best_kernels.best_index(core, fewer, counts, ranks, fixed, cell)
    _best_kernels.put_back(fixed, index, heads, cell)
    _best_kernels.settle(core, rows, sizes, ranks, fixed, cell)


def _best_allowed(
    core: Floats, rows: Floats, sizes: Ints, ranks: Ints, fixed: Ints, allowed: Allowed, cell: Ints
) -> None:
    """Write the best allowed cell to ``cell`` (d,): the best of the allowed levels if no rule forbids it."""
    from tensorbandits.tensor import _allowed_kernels

    levels, shape = fixed.tolist(), tuple(sizes.tolist())
    if allowed.shape != shape:  # its levels could lie outside the tensor
        raise ValueError(f"what is allowed was checked against the shape {allowed.shape}, not {shape}; check it anew")
    allowed.check_fixed(levels)
    literals = allowed.rules.table.levels.size if allowed.combined else 0
    if not 0 < _FEW * literals < int(sizes.sum()):
        _best_levels(core, rows, sizes, ranks, fixed, allowed, cell)
        if allowed.permits(tuple(cell.tolist())):
            return
    hulls = _hulls(rows, sizes.tolist(), ranks.tolist(), levels, allowed)
    if not _allowed_kernels.best_allowed(
        *(core, rows, sizes, ranks, fixed, *hulls),
        *(allowed.opened, allowed.rules.table, cell),
    ):
        raise allowed.nothing_left(levels)


def _best_levels(
    core: Floats, rows: Floats, sizes: Ints, ranks: Ints, fixed: Ints, allowed: Allowed, cell: Ints
) -> None:
    """Write the best cell of the allowed levels to ``cell`` (d,), forbidden combinations left aside."""
    from tensorbandits.tensor import _best_kernels

    index, heads = allowed.kept
    if not index.size:
        _best(core, rows, sizes, ranks, fixed, cell)
        return
    fewer, counts = _best_kernels.take(rows, sizes, ranks, fixed, index, heads)
    _best(core, fewer, counts, ranks, fixed, cell)
    _best_kernels.put_back(fixed, index, heads, cell)


def _reduce(rows: Floats, sizes: list[int], ranks: list[int], fixed: list[int]) -> dict[int, Ints]:
    """Return, for each mode where that pays, which rows qhull leaves."""
    kept: dict[int, Ints] = {}
    if not _hulls_pay(sizes, ranks, fixed):
        return kept
    counts = _counts(sizes, ranks, fixed)
    start = 0
    for j, (n, r) in enumerate(zip(sizes, ranks, strict=True)):
        if fixed[j] < 0 and _pays(counts, ranks, j):
            kept[j] = _vertices(rows[start : start + n * r].reshape(n, r))
            counts[j] = len(kept[j])
        start += n * r
    return kept


def _hulls_pay(sizes: list[int], ranks: list[int], fixed: list[int]) -> bool:
    """Say whether qhull may be worth its while: not for low ranks, nor if the search is quick anyway."""
    return max(ranks) > 2 and _microseconds(_counts(sizes, ranks, fixed), ranks) >= _QUICK


def _counts(sizes: list[int], ranks: list[int], fixed: list[int]) -> list[int]:
    """Return how many rows of each mode the compiled search would try."""
    return [
        min(n, 2 if r == 1 else _PLANAR if r == 2 else n) if level < 0 else 1
        for n, r, level in zip(sizes, ranks, fixed, strict=True)
    ]


def _hulls(
    rows: Floats, sizes: list[int], ranks: list[int], fixed: list[int], allowed: Allowed
) -> tuple[Ints, Ints, Ints, Ints]:
    """Return the allowed levels that no rule names, and which candidates suffice for bounds, by qhull where that pays.

    Both are joined mode after mode, each with where the modes start. Candidates are the allowed levels that rules name,
    followed by the others.
    """
    free, heads = allowed.free
    if max(ranks) < 3:
        return free, heads, _NONE, np.zeros_like(heads)
    left, edges = np.split(free, heads[1:-1]), [_NONE] * len(sizes)
    counts, start, table = _counts([len(part) for part in left], ranks, fixed), 0, allowed.rules.table
    for j, (n, r) in enumerate(zip(sizes, ranks, strict=True)):
        if fixed[j] < 0 and r > 2:
            U = rows[start : start + n * r].reshape(n, r)
            if _pays(counts, ranks, j):
                left[j] = left[j][_vertices(U[left[j]])]
            here = slice(table.heads[j], table.heads[j + 1])
            candidates = np.concatenate([table.levels[here][allowed.opened[here]], left[j]])
            counts[j] = len(candidates)
            if _pays(counts, ranks, j):
                edges[j] = _vertices(U[candidates])
        start += n * r
    return *flat(left), *flat(edges)


def _pays(counts: list[int], ranks: list[int], j: int) -> bool:
    """Return whether qhull on mode j takes less time than it saves."""
    n = counts[j]
    if ranks[j] not in _QHULL or n <= ranks[j] + 1:
        return False
    a, b, c, e = _QHULL[ranks[j]]
    fewer = [*counts[:j], min(n, round(c * n**e)), *counts[j + 1 :]]
    return bool(a * n**b < _microseconds(counts, ranks) - _microseconds(fewer, ranks))


def _microseconds(counts: list[int], ranks: list[int]) -> float:
    """Return the time that the search takes among so many candidates."""
    cells = 1.0
    for n in counts:
        cells *= n
    widest, rank = max(zip(counts, ranks, strict=True))
    return cells * (_CELL * max(2, rank) + _COMBINATION / widest)


def _vertices(U: Floats) -> Ints:
    """Return the rows of ``U`` (n, r) that may be vertices of their hull, in order; all if the hull is flat.

    Columns that are constant, as one is in affine models, are left out, since any hull is flat with them.
    """
    from scipy.spatial import ConvexHull, QhullError  # slow to import

    U = U[:, (U[0] != U).any(axis=0)]
    if U.shape[1] < 2:
        ends = {int(U[:, 0].argmin()), int(U[:, 0].argmax())} if U.shape[1] else {0}
        return np.array(sorted(ends), dtype=np.int64)
    largest = np.abs(U).max(axis=0)
    points = np.ldexp(U, -np.frexp(largest)[1])  # powers of two move no vertex; qhull's tolerances are for such numbers
    try:
        hull = ConvexHull(points, qhull_options="Qt Qc" if U.shape[1] < 5 else "Qt Qx Qc")
    except (QhullError, ValueError):
        return np.arange(len(U))
    # Qc tells which rows qhull left out though rounding hides on which side of the hull they are.
    return np.union1d(hull.vertices, hull.coplanar[:, 0]).astype(np.int64)

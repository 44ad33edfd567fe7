"""Sums of floats that are exact, so that they depend neither on the order of what is added nor on how it is split.

A number is a short row of floats whose sum it is, the largest first, each the nearest float to what those before leave.
So a number has one row only, and rows may be added and taken off again without a trace.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_SPLIT = 2.0**27 + 1.0
_WHOLE = 2.0**53  # up to which every whole number is a float


def row_of(terms: list[float]) -> list[float]:
    """Return the row of floats of a sum.

    >>> row_of([1e16, 1.0, -1e16]), row_of([0.1] * 10), row_of([1.0, -1.0])
    ([1.0], [1.0, 5.551115123125783e-17], [])
    """
    row: list[float] = []
    while (part := math.fsum(terms)) != 0.0:
        row.append(part)
        terms = [*terms, -part]
    return row


def products(one: Floats, other: Floats) -> tuple[Floats, Floats]:
    """Return products, and what rounding took off each.

    >>> [part.tolist() for part in products(np.array([0.1]), np.array([0.1]))]
    [[0.010000000000000002], [-8.326672684688674e-19]]
    """
    product = one * other
    (a, b), (c, d) = _halves(one), _halves(other)
    return product, b * d - (((product - a * c) - b * c) - a * d)


def _halves(values: Floats) -> tuple[Floats, Floats]:
    scaled = _SPLIT * values
    high = scaled - (scaled - values)
    return high, values - high


def grouped(groups: NDArray[np.int64], count: int, terms: Iterable[Floats]) -> Floats:
    """Return the exact sums of terms by group, rows (count, k); ``groups`` (n,) and each of the terms (n,).

    >>> grouped(np.array([0, 1, 0]), 2, [np.array([0.5, 3.0, 1.0])]).tolist()
    [[1.5], [3.0]]
    """
    columns = [column for column in terms if column.any()]
    if all((column == np.floor(column)).all() for column in columns):
        sizes, sums = np.zeros(count), np.zeros(count)
        for column in columns:
            sizes += np.bincount(groups, np.abs(column), count)
            sums += np.bincount(groups, column, count)
        if (sizes < _WHOLE).all():  # nothing was rounded
            return sums.reshape(-1, 1)
    order = np.argsort(groups, kind="stable")
    ends = np.cumsum(np.bincount(groups, minlength=count))
    lists = [column[order].tolist() for column in columns]
    starts = np.concatenate([[0], ends[:-1]]).tolist()
    rows = [
        row_of([term for column in lists for term in column[start:end]])
        for start, end in zip(starts, ends.tolist(), strict=True)
    ]
    return padded(rows)


def padded(rows: list[list[float]]) -> Floats:
    """Return rows of floats as an array (n, k), with zeros at their ends; there is one column at least."""
    width = max([1, *map(len, rows)])
    return np.array([row + [0.0] * (width - len(row)) for row in rows], dtype=np.float64).reshape(-1, width)


def within(counts: Floats, totals: Floats, squares: Floats) -> Floats:
    """Return the sums of squares about the means, (n,), to the last bit: of counts (n,), and rows of exact sums."""
    found = [
        float(_exact(square) - _exact(total) ** 2 / Fraction(count))
        for count, total, square in zip(counts.tolist(), totals.tolist(), squares.tolist(), strict=True)
    ]
    return np.maximum(np.array(found, dtype=np.float64), 0.0)


def _exact(row: list[float]) -> Fraction:
    return sum((Fraction(part) for part in row), Fraction(0))

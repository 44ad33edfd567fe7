"""Rows of arrays and columns as Python objects, some at a time, so that other threads go on meanwhile.

One call that lists a hundred thousand rows keeps Python's lock for 10 milliseconds, for which every other thread of
the process stops: also the one that decides. The rows of a small piece take a fraction of one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

PIECE = 2_000  # rows that one call lists


class _Column(Protocol):
    """A column of a data frame, which can be sliced."""

    def __len__(self) -> int: ...
    def __getitem__(self, at: Any) -> Any: ...


def rows(array: NDArray[Any]) -> Iterator[Any]:
    """Yield what ``array.tolist()`` lists: numbers, or the rows of an array (n, d) as lists.

    >>> list(rows(np.eye(2)))
    [[1.0, 0.0], [0.0, 1.0]]
    """
    for start in range(0, len(array), PIECE):
        yield from array[start : start + PIECE].tolist()


def entries(column: _Column) -> Iterator[Any]:
    """Yield what ``column.to_list()`` lists, of a column of any data frame."""
    for start in range(0, len(column), PIECE):
        yield from column[start : start + PIECE].to_list()


def floats(column: _Column) -> NDArray[np.float64]:
    """Return a column of numbers as an array; NaN where it has none."""
    found = np.empty(len(column))
    for start in range(0, len(column), PIECE):
        found[start : start + PIECE] = np.asarray(column[start : start + PIECE].to_list(), dtype=np.float64)
    return found

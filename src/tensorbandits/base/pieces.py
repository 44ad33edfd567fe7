"""Long work in small pieces that leave Python's lock to other threads in between, also to those that decide.

One call that lists a hundred thousand rows keeps the lock for 10 milliseconds, and one that sorts them as records for
50. Many short calls, each of which gives it up for a moment, are as bad: before a thread that waits has woken up, the
lock is taken again, and that for 20 milliseconds and more. So there is a short pause between pieces.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

PIECE = 2_000  # rows that one call lists
_MOMENT = 5e-5  # seconds in which another thread wakes up

T = TypeVar("T")


class _Column(Protocol):
    """A column of a data frame, which can be sliced."""

    def __len__(self) -> int: ...
    def __getitem__(self, at: Any) -> Any: ...


def gently(some: Iterable[T], every: int = 1) -> Iterator[T]:
    """Yield some things, and let other threads have Python's lock after each, or after so many.

    >>> list(gently("abc", every=2))
    ['a', 'b', 'c']
    """
    for at, one in enumerate(some, 1):
        yield one
        if at % every == 0 and threading.active_count() > 1:
            time.sleep(_MOMENT)


def rows(array: NDArray[Any]) -> Iterator[Any]:
    """Yield what ``array.tolist()`` lists: numbers, or the rows of an array (n, d) as lists.

    >>> list(rows(np.eye(2)))
    [[1.0, 0.0], [0.0, 1.0]]
    """
    for start in gently(range(0, len(array), PIECE)):
        yield from array[start : start + PIECE].tolist()


def entries(column: _Column) -> Iterator[Any]:
    """Yield what ``column.to_list()`` lists, of a column of any data frame."""
    for start in gently(range(0, len(column), PIECE)):
        yield from column[start : start + PIECE].to_list()


def floats(column: _Column) -> NDArray[np.float64]:
    """Return a column of numbers as an array; NaN where it has none."""
    found = np.empty(len(column))
    for start in gently(range(0, len(column), PIECE)):
        found[start : start + PIECE] = np.asarray(column[start : start + PIECE].to_list(), dtype=np.float64)
    return found


def numbered(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a number for each of some cells (n, d), the same for equal ones, from 0 on in the order of their levels.

    ``np.unique(cells, axis=0, return_inverse=True)`` has it too, but keeps Python's lock as it sorts.

    >>> numbered(np.array([[1, 0], [0, 7], [1, 0]])).tolist()
    [1, 0, 1]
    """
    order = np.lexsort(cells.T[::-1])
    placed = cells[order]
    numbers = np.zeros(len(cells), dtype=np.int64)
    numbers[order[1:]] = np.cumsum((placed[1:] != placed[:-1]).any(axis=1))
    return numbers

"""Rows of contexts and of rewards, as a data frame or one by one, for those who ask and tell many at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from tensorbandits.base.checks import check_count
from tensorbandits.base.frames import columns_of, is_frame

_COUNTED = "(counted from 0)"
_LISTED = 6  # rows that an error lists

Found = TypeVar("Found")


def label_rows(rows: Any, modes: Sequence[str] | None, name: str) -> list[Mapping[str, Any]]:
    """Return one mapping of labels per row, of a data frame or of mappings; of a frame only the columns of ``modes``.

    A number stands for so many rows where there are no modes.

    >>> import pyarrow as pa
    >>> label_rows(pa.table({"segment": ["new", "old"], "user": [17, 4]}), ["segment"], "contexts")
    [{'segment': 'new'}, {'segment': 'old'}]
    """
    if is_frame(rows):
        found = columns_of(rows, modes, name)
        count = len(rows)
        return [{mode: column[at] for mode, column in found.items()} for at in range(count)]
    if not modes and isinstance(rows, (int, np.integer)) and not isinstance(rows, bool):
        return [{} for _ in range(check_count(rows, name, 0))]
    if isinstance(rows, (str, bytes, Mapping)) or not isinstance(rows, Iterable):
        raise TypeError(
            f"{name} is {rows!r}; give a list with a mapping of labels for each row, such as [{{'segment': 'new'}}], "
            "or a data frame with a column for each mode"
        )
    given = list(rows)
    for at, one in enumerate(given):
        if not isinstance(one, Mapping):
            raise TypeError(
                f"row {at} {_COUNTED} of {name} is {one!r}; give a mapping of labels, such as {{'segment': 'new'}}"
            )
    return given


def reward_rows(rewards: Any, id: str = "id", reward: str = "reward") -> list[tuple[Any, Any]]:
    """Return pairs of a decision, or its id, and its reward, of a data frame with these two columns or of pairs.

    >>> import pyarrow as pa
    >>> reward_rows(pa.table({"id": ["3f-0", "3f-1"], "clicked": [1, 0]}), reward="clicked")
    [('3f-0', 1), ('3f-1', 0)]
    """
    if is_frame(rewards):
        found = columns_of(rewards, [id, reward], "rewards")
        return list(zip(found[id], found[reward], strict=True))
    if isinstance(rewards, (str, bytes, Mapping)) or not isinstance(rewards, Iterable):
        raise TypeError(
            f"rewards is {rewards!r}; give pairs of a decision, or its id, and its reward, such as [('3f2a-7', 1)], or "
            f"a data frame with the columns {id!r} and {reward!r}"
        )
    return [_pair(at, one) for at, one in enumerate(rewards)]


def _pair(at: int, one: Any) -> tuple[Any, Any]:
    if isinstance(one, (str, bytes, Mapping)) or not isinstance(one, Sequence) or len(one) != 2:
        raise TypeError(
            f"row {at} {_COUNTED} of rewards is {one!r}; give pairs of a decision, or its id, and its reward"
        )
    return one[0], one[1]


def one_each(name: str, values: Any, count: int) -> list[Any]:
    """Return one entry per row; nothing given is ``None`` for each.

    >>> one_each("ids", None, 2), one_each("ids", ["a", "b"], 2)
    ([None, None], ['a', 'b'])
    """
    if values is None:
        return [None] * count
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise TypeError(f"{name} is {values!r}; give a list with one for each of the {count:,} contexts")
    found = list(values)
    if len(found) != count:
        raise ValueError(f"{name} has {len(found):,} entries for {count:,} contexts; give one for each")
    return found


def refusal(why: Mapping[int, Exception], undone: str) -> Exception:
    """Return the error of many rows, of which some were refused: that of the first, which names the others.

    >>> print(refusal({3: ValueError("the reward is 7"), 5: ValueError("the reward is 8")}, "nothing was told"))
    row 3 (counted from 0): the reward is 7. Refused too: row 5. As a call is all or nothing, nothing was told
    """
    (first, error), *others = why.items()
    more = ", ".join(str(at) for at, _ in others[:_LISTED])
    more += f" and {len(others) - _LISTED:,} more" if len(others) > _LISTED else ""
    also = f" Refused too: row{'s' * (len(others) > 1)} {more}." if others else ""
    return type(error)(f"row {first} {_COUNTED}: {error}.{also} As a call is all or nothing, {undone}")


def each_row(work: Callable[..., Found], *columns: Sequence[Any]) -> list[Found]:
    """Return what becomes of each row; refuse all rows where some cannot be."""
    found: list[Found] = []
    why: dict[int, Exception] = {}
    for at, row in enumerate(zip(*columns, strict=True)):
        try:
            found.append(work(*row))
        except (LookupError, TypeError, ValueError) as error:
            why[at] = error
    if why:
        raise refusal(why, "nothing was decided")
    return found

"""Data frames in and out: columns of one of any library, and one of whichever library is wanted, or is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Literal, get_args

from tensorbandits.base.checks import check_installed

Backend = Literal["pandas", "polars", "pyarrow"]


def to_frame(columns: Mapping[str, Any], backend: Backend | None = None) -> Any:
    """Return columns as a data frame of a library: by default pandas if it is installed, else polars, else pyarrow.

    >>> to_frame({"model": ["rank 1"], "error": [0.5]}, "pyarrow").column_names
    ['model', 'error']
    """
    check_installed("making a data frame", "narwhals", "pyarrow")
    import narwhals as nw

    wanted: Any = check_backend(backend)
    if wanted is None:
        wanted = next(name for name in get_args(Backend) if find_spec(name) is not None)
    return nw.from_dict(columns, backend=wanted).to_native()


def column(values: Sequence[Any]) -> list[Any]:
    """Return labels as one column of a frame; as text where they are of several kinds, which no column holds.

    >>> column([1, 2.5]), column([1, "a"])
    ([1, 2.5], ['1', 'a'])
    """
    kinds = {type(value) for value in values}
    return list(values) if len(kinds) <= 1 or kinds == {int, float} else [str(value) for value in values]


def check_backend(backend: Any) -> Backend | None:
    """Return the library of data frames that is wanted, if it is installed.

    >>> check_backend("pyarrow")
    'pyarrow'
    """
    if backend is None:
        return None
    if backend not in get_args(Backend):
        raise ValueError(
            f"backend is {backend!r}; allowed are {', '.join(map(repr, get_args(Backend)))}, and None for the first of "
            "these that is installed"
        )
    if find_spec(backend) is None:
        raise ModuleNotFoundError(
            f"backend is {backend!r}, which is not installed here; install it with: pip install {backend}", name=backend
        )
    return backend  # type: ignore[no-any-return]


def is_frame(value: Any) -> bool:
    """Say whether a value is a table with named columns, of whichever library.

    >>> is_frame({"offer": ["a"]})
    False
    """
    kind = type(value)  # which is asked rather than the value, as some would begin to work it out
    return any(hasattr(kind, name) for name in ("columns", "column_names")) and not isinstance(value, Mapping)


def columns_of(frame: Any, names: Sequence[str] | None, what: str) -> dict[str, list[Any]]:
    """Return columns of a data frame as lists, some of them by name or all.

    >>> import pyarrow as pa
    >>> columns_of(pa.table({"offer": ["a", "b"], "price": [1.5, None]}), ["price"], "the offers")
    {'price': [1.5, None]}
    """
    check_installed("reading a data frame", "narwhals")
    import narwhals as nw

    try:
        opened = nw.from_native(frame, eager_only=True)
    except nw.exceptions.DuplicateError as error:
        raise ValueError(f"{what} has columns of the same name ({' '.join(str(error).split())}); rename one") from None
    except TypeError:
        raise TypeError(
            f"{what} is a {type(frame).__module__}.{type(frame).__name__}; give a data frame of pandas or polars or a "
            "pyarrow table, whose rows are in an order: collect one that is evaluated later"
        ) from None
    if lacking := [name for name in names or () if name not in opened.columns]:
        raise ValueError(
            f"{what} has no column {lacking[0]!r}; it has {', '.join(map(repr, opened.columns)) or 'none'}: rename one"
        )
    return {name: opened[name].to_list() for name in (opened.columns if names is None else names)}

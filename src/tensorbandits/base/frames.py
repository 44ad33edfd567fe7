"""Data frames out: columns as a frame of whichever library is wanted, or is there."""

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

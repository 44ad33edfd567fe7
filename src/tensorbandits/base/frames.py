"""Data frames out: columns as a frame of whichever library is there."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from tensorbandits.base.checks import check_installed


def to_frame(columns: Mapping[str, Any]) -> Any:
    """Return columns as a data frame: of pandas if it is installed, else of polars, else a pyarrow table.

    >>> to_frame({"model": ["rank 1"], "error": [0.5]}).shape
    (1, 2)
    """
    check_installed("making a data frame", "narwhals", "pyarrow")
    import narwhals as nw

    backend = next(name for name in ("pandas", "polars", "pyarrow") if find_spec(name) is not None)
    return nw.from_dict(columns, backend=backend).to_native()  # type: ignore[arg-type]

"""Labels of levels: what they are looked up by, and how JSON holds them."""

from __future__ import annotations

from datetime import date, datetime
from enum import Enum
from typing import Any

import numpy as np

Label = str | int | float | bool | date | datetime | Enum
Key = tuple[str, Any]


def plain(label: Any) -> Any:
    """Return a label of NumPy's, of pandas' or of an enumeration as the Python value that it stands for.

    A member of an enumeration stands for its value if that is text, or if the member is text or a number itself, and
    else for its name: the numbers of ``auto()`` would say nothing in a file.

    >>> Offer, Tier = Enum("Offer", {"SPRING": "spring sale"}), Enum("Tier", ["GOLD", "SILVER"])
    >>> plain(Offer.SPRING), plain(Tier.GOLD)
    ('spring sale', 'GOLD')
    """
    if isinstance(label, Enum) and not isinstance(label, (str, int, float)):
        return label.value if isinstance(label.value, str) else label.name
    if isinstance(label, np.datetime64) and np.datetime_data(label)[0] != "D":
        return label.astype("datetime64[us]").item()  # as the item of nanoseconds is a number
    if isinstance(label, (np.generic, np.ndarray)) and np.ndim(label) == 0:
        return label.item()
    if isinstance(label, datetime):
        return datetime.fromisoformat(label.isoformat())
    if isinstance(label, str):
        return str.__str__(label)
    if isinstance(label, float):
        return float(label)
    return int(label) if isinstance(label, int) and not isinstance(label, bool) else label


def key(label: Any, mode: str) -> Key:
    """Return what a label is looked up by: its kind and its value, as Python takes True for 1."""
    if type(label) is str:  # nearly all are
        return "str", label
    value = plain(label)
    if isinstance(value, bool):
        return "truth", value
    if isinstance(value, (int, float)) and value == value:
        return "number", value
    for kind in (str, datetime, date):
        if isinstance(value, kind):
            return kind.__name__, value
    raise TypeError(
        f"mode {mode!r} has the label {label!r}, of type {type(label).__name__}; "
        "labels are text, numbers (not NaN), truth values, dates, times and members of an Enum: make it one of them"
    )


def written(label: Label) -> Any:
    """Return a label as JSON can hold it.

    >>> written(date(2024, 2, 29)), read(written(date(2024, 2, 29)))
    ({'date': '2024-02-29'}, datetime.date(2024, 2, 29))
    """
    if type(label) is str:  # nearly all are
        return label
    label = plain(label)
    if isinstance(label, datetime):
        return {"time": label.isoformat()}
    if isinstance(label, date):
        return {"date": label.isoformat()}
    if isinstance(label, float) and label in (float("inf"), float("-inf")):
        return {"number": repr(label)}
    return label


def read(written: Any) -> Label:
    """Return the label that :func:`written` wrote."""
    if not isinstance(written, dict):
        return written  # type: ignore[no-any-return]  # checked when it is added
    ((kind, text),) = written.items()
    readers: dict[str, Any] = {"time": datetime.fromisoformat, "date": date.fromisoformat, "number": float}
    return readers[kind](text)  # type: ignore[no-any-return]

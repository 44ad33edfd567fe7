"""Heat maps over two modes: of estimates, and of how uncertain they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorbandits.bandit.beliefs import table
from tensorbandits.bandit.figures.parts import (
    LETTER,
    LIGHT,
    MOST,
    ROW,
    Floats,
    View,
    inches,
    left_out,
    names,
    new_figure,
    percent,
    title,
)
from tensorbandits.base.checks import check_probability
from tensorbandits.base.drawing import as_written
from tensorbandits.space.labels import Label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CELL, _WIDE_CELL = 0.27, 0.45  # inches of a level, and of one with a number beside others
_WRITTEN = 12  # rows and columns up to which numbers are written into a map


def estimate(view: View, modes: Any = None, fixed: Mapping[str, Label] | None = None) -> Figure:
    """Draw mean rewards over the levels of two modes."""
    return _heat(view, modes, fixed, None)


def uncertainty(view: View, modes: Any = None, fixed: Mapping[str, Label] | None = None, level: float = 0.9) -> Figure:
    """Draw how wide the intervals of mean rewards are over the levels of two modes."""
    return _heat(view, modes, fixed, check_probability(level, "level"))


def _heat(view: View, modes: Any, fixed: Any, level: float | None) -> Figure:
    from matplotlib import colormaps

    found = table(view.space, view.policy, modes, fixed, level)
    values = found.estimate if found.width is None else found.width
    kept = [_largest(np.nan_to_num(values, nan=np.nanmin(values)).mean(axis=1 - at)) for at in (0, 1)]
    values = np.ma.masked_invalid(values[np.ix_(*kept)])
    rows, columns = (names([labels[at] for at in some]) for labels, some in zip(found.labels, kept, strict=True))
    written = max(values.shape) <= _WRITTEN
    cell = _WIDE_CELL if written else _CELL
    upright = sum(map(len, columns)) * LETTER > cell * len(columns)
    wide, high = inches(rows) + cell * max(len(columns), 8), _CELL * max(len(rows), 7) + upright * inches(columns)
    figure, (axes,) = new_figure(1, [high / ROW], width=wide + 1.6)
    colours = colormaps["viridis" if level is None else "magma"].with_extremes(bad=LIGHT)
    image = axes.imshow(values, aspect="auto", cmap=colours, interpolation="nearest")
    figure.colorbar(image, ax=axes, label="mean reward" if level is None else f"width of the {percent(level)} interval")
    axes.set_yticks(range(len(rows)), labels=rows, fontsize=8)
    axes.set_xticks(range(len(columns)), labels=columns, fontsize=8, rotation=90 if upright else 0)
    axes.tick_params(length=0)
    axes.set_ylabel(as_written(found.modes[0]))
    axes.set_xlabel(as_written(found.modes[1]))
    if written:
        _write_numbers(axes, values)
    words = [found.others, "grey: may not be chosen" if values.mask.any() else ""]
    cut = [left_out(len(some), len(labels)) for some, labels in zip(kept, found.labels, strict=True)]
    what = "Estimated mean rewards" if level is None else "Uncertainty of mean rewards"
    title(figure, what + "".join(cut), "; ".join(word for word in words if word))
    return figure


def _write_numbers(axes: Axes, values: Any) -> None:
    """Write numbers into a heat map, dark on light and light on dark."""
    low, high = float(values.min()), float(values.max())
    for at in np.argwhere(~np.ma.getmaskarray(values)):
        value = float(values[tuple(at)])
        dark = value < (low + high) / 2
        axes.text(
            at[1], at[0], f"{value:.3g}", ha="center", va="center", fontsize=7, color="white" if dark else "black"
        )


def _largest(values: Floats) -> NDArray[np.int64]:
    """The positions of as many of the largest values as can be shown, ascending."""
    return np.sort(np.argsort(-np.nan_to_num(values, nan=-np.inf), kind="stable")[:MOST])

"""What the figures of a bandit share: rows of labels, panels, titles."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorbandits.bandit.beliefs import Beliefs
from tensorbandits.bandit.timeline import Timeline
from tensorbandits.base.checks import is_sequence
from tensorbandits.base.drawing import COLOURS, as_written
from tensorbandits.policies.base import Policy
from tensorbandits.space import Space
from tensorbandits.space.labels import Label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

GREY, LIGHT = "#666666", "#D9D9D9"
MOST = 40  # rows of labels that a person can read
ROW = 0.21  # inches of a row
LETTERS = 24  # of a label
LETTER = 0.07  # inches of a letter
_TITLE_LETTER = 0.09  # inches of a letter of a title


class View(NamedTuple):
    """What is drawn of a bandit: its space as it was, its policy, and how to ask for its beliefs and its timeline."""

    space: Space
    policy: Policy
    explain: Callable[..., Beliefs]
    timeline: Callable[[], Timeline]


def new_figure(
    columns: int, rows: Sequence[float], *, width: float | None = None, sharex: bool = False, sharey: bool = False
) -> tuple[Figure, list[Axes]]:
    """A figure whose panels, row by row, are as high as so many rows of labels."""
    from matplotlib.figure import Figure as NewFigure  # none of pyplot's: nobody has to close it

    heights = [max(ROW * count, 0.8) + 0.7 for count in rows]
    figure = NewFigure(figsize=(width or 4.2 * columns, sum(heights) + 0.8), layout="constrained")
    grid = figure.subplots(len(rows), columns, squeeze=False, height_ratios=heights, sharex=sharex, sharey=sharey)
    return figure, list(grid.ravel())


def intervals(
    axes: Axes,
    labels: Sequence[Label],
    numbers: Floats,
    *,
    hollow: NDArray[np.bool_] | None = None,
    colours: Sequence[str] | None = None,
    longest: int = LETTERS,
) -> None:
    """Draw numbers with their bounds (n, 3), one row for each."""
    for at, (mean, low, high) in enumerate(numbers):
        colour = COLOURS[0] if colours is None else colours[at]
        axes.plot([low, high], [at, at], color=colour, linewidth=1.4, zorder=2)
        face = "white" if hollow is not None and hollow[at] else colour
        axes.plot(mean, at, marker="o", markersize=5, markeredgecolor=colour, markerfacecolor=face, zorder=3)
    name_rows(axes, labels, longest)
    axes.grid(axis="x", alpha=0.3)
    axes.tick_params(labelbottom=True)


def name_rows(axes: Axes, labels: Sequence[Label], longest: int = LETTERS) -> None:
    """Name the rows of a panel, the first on top."""
    axes.set_yticks(range(len(labels)), labels=names(labels, longest), fontsize=8)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", alpha=0.15)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def names(labels: Sequence[Label], longest: int = LETTERS) -> list[str]:
    """Labels as they are written, shortened as far as they can still be told apart."""
    distinct = len({str(label) for label in labels})
    while True:
        words = [as_written(str(label), longest) for label in labels]
        if len(set(words)) == distinct or longest >= 4 * LETTERS:
            return words
        longest += LETTERS // 2


def inches(labels: Sequence[Label], longest: int = LETTERS) -> float:
    """How wide the longest of some labels is."""
    return LETTER * max((len(name) for name in names(labels, longest)), default=0)


def legend(axes: Axes) -> None:
    """Say what a panel's lines are."""
    axes.legend(frameon=False, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)


def title(figure: Figure, title: str, words: str) -> None:
    """Give a figure its title, and below it words that explain it, on as many lines as its width asks for."""
    wide = int(figure.get_figwidth() / _TITLE_LETTER)
    lines = [*textwrap.wrap(as_written(title, longest=90), wide), *textwrap.wrap(as_written(words, longest=200), wide)]
    figure.suptitle("\n".join(lines), fontsize=11)


def percent(share: float) -> str:
    """Return a share in words."""
    return f"{100 * share:.0f} %" if share < 0.99 else f"{100 * share:.3g} %"


def left_out(shown: int, count: int) -> str:
    """Return the words for a part of what there is."""
    return "" if shown == count else f" ({shown} of {count:,})"


def positions(space: Space, modes: Any) -> list[int]:
    """Return the positions of some modes; if none are given, of all."""
    if modes is None:
        return list(range(len(space.modes)))
    if not is_sequence(modes) or not len(modes):
        raise TypeError(f"modes is {modes!r}; give a list of modes, of {list(space.modes)}")
    return [space.position(mode) for mode in modes]


def position(space: Space, mode: str | None) -> int:
    """Return the position of a mode; if none is given, of the first that is decided."""
    return next(j for j in range(len(space.modes)) if j not in space.context) if mode is None else space.position(mode)

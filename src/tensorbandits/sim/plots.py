"""Figures of regret: mean curves with confidence bands, in colours that any colour vision tells apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Literal, cast

import numpy as np

from tensorbandits.base.checks import check_installed
from tensorbandits.base.drawing import COLOURS, as_written, write
from tensorbandits.sim.compare import Comparison
from tensorbandits.tensor.tucker import Floats

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Line styles serve print in black and white, and tell apart more lines than there are colours.
_STYLES = (  # as matplotlib has them: (offset, (on, off, ..)) in units of the line width
    (0, ()),
    (0, (5, 1.5)),
    (0, (1, 1)),
    (0, (6, 1.5, 1, 1.5)),
    (0, (10, 3)),
    (0, (6, 1.5, 1, 1.5, 1, 1.5)),
)
_BAND = 4  # replications from which a band is drawn; with fewer, Student's is as wide as the figure
_NARROW = 25  # letters of a name, for each panel beside another, with which three names fit beside each other


@dataclass(frozen=True)
class Panel:
    """What one panel of a figure shows: some policies in one environment.

    ``policies`` defaults to all of the comparison; ``scale="log"`` is of both axes; ``unit`` is that of rewards.
    """

    comparison: Comparison
    environment: str
    title: str = ""
    policies: Sequence[str] | None = None
    scale: Literal["linear", "log y", "log"] = "linear"
    quantity: Literal["cumulative", "per round"] = "cumulative"
    unit: str = "units of reward"

    @property
    def names(self) -> list[str]:
        """The policies to draw, in order."""
        if self.policies is not None:
            return list(self.policies)
        here = {run.policy for run in self.comparison.runs if run.environment == self.environment}
        return [name for name in self.comparison.policies if name in here]

    def curve(self, policy: str) -> tuple[Floats, Floats, Floats]:
        """Rounds, mean and half-width of the 95 % band of what the panel shows of a policy."""
        if self.quantity == "cumulative":
            rounds, mean, half = self.comparison.curves(policy, self.environment)
            return rounds.astype(np.float64), mean, half
        return self.comparison.rates(policy, self.environment)


def regret_panels(
    comparison: Comparison,
    environment: str,
    title: str = "cumulative regret",
    policies: Sequence[str] | None = None,
    unit: str = "units of reward",
) -> list[Panel]:
    """Two panels of one environment: cumulative regret, and regret per round on logarithmic axes."""
    return [
        Panel(comparison, environment, title, policies, unit=unit),
        Panel(comparison, environment, "regret per round", policies, scale="log", quantity="per round", unit=unit),
    ]


def band_words(*comparisons: Comparison) -> str:
    """What curves of these comparisons are drawn with, as words for a title or a caption.

    >>> from tensorbandits.sim.jobs import Run
    >>> runs = tuple(Run("small", "ucb", i, np.array([1, 2]), np.array([1.0, 2 + i]), 0.1) for i in range(4))
    >>> band_words(Comparison(runs)), band_words(Comparison(runs[:3]))
    ('with 95 % confidence bands', 'without confidence bands, which need 4 replications')
    """
    rows = [row for comparison in comparisons for row in comparison.table()]
    if all(row.replications >= _BAND for row in rows):
        return "with 95 % confidence bands"
    return f"without confidence bands, which need {_BAND} replications"


def plot_regret(
    comparison: Comparison, path: str | PathLike[str] | None = None, title: str = "", *, axes: Axes | None = None
) -> Figure:
    """Return a figure of mean cumulative regret with 95 % confidence bands, and write it if a path is given.

    The suffix of the path says PNG or SVG. Bands are drawn from 4 replications on. One row of panels per environment: a
    linear scale on the left, and a logarithmic one on the right, where low curves can be told apart. With ``axes`` the
    linear panel alone is drawn into these, for a comparison of one environment.

    >>> import tempfile, pathlib
    >>> from tensorbandits.sim.jobs import Run
    >>> runs = tuple(Run("small", "ucb", i, np.array([1, 2]), np.array([1.0, 2 + i]), 0.1) for i in range(3))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     figure = plot_regret(Comparison(runs), pathlib.Path(folder, "regret.png"))
    ...     pathlib.Path(folder, "regret.png").stat().st_size > 10_000, len(figure.axes)
    (True, 2)
    """
    if axes is not None:
        return _plot_into(axes, comparison, path, title)
    several = len(comparison.environments) > 1
    rows = [
        [
            Panel(comparison, environment, environment if several else "linear scale"),
            Panel(comparison, environment, "logarithmic scale", scale="log y"),
        ]
        for environment in comparison.environments
    ]
    return plot_panels(rows, path, title)


def _plot_into(axes: Axes, comparison: Comparison, path: str | PathLike[str] | None, title: str) -> Figure:
    if len(comparison.environments) != 1:
        raise ValueError(
            f"axes show one environment, the comparison has {len(comparison.environments)}; leave out axes, or give "
            "Comparison(runs) with the runs of one"
        )
    panel = Panel(comparison, comparison.environments[0], title)
    lines = _draw(panel, {name: (i, i) for i, name in enumerate(panel.names)}, axes)
    axes.legend(list(lines.values()), list(map(as_written, lines)), frameon=False, handlelength=4)
    figure = cast("Figure", axes.get_figure(root=True))
    if path is not None:
        write(figure, path)
    return figure


def plot_panels(
    rows: Sequence[Sequence[Panel]],
    path: str | PathLike[str] | None = None,
    title: str = "",
    *,
    separate: bool = False,
    looks: Mapping[str, tuple[int, int]] | None = None,
) -> Figure:
    """Return, and write, a figure with a grid of panels and one legend; a policy looks the same in all of them.

    With ``separate`` each panel has a legend of its own, for panels that have no policy in common. ``looks`` may say
    which colour and line style each policy has, by number, so that it looks the same in several figures.
    """
    check_installed("drawing a figure", "matplotlib")
    from matplotlib.figure import Figure as NewFigure  # none of pyplot's: nobody has to close it

    columns = max(len(row) for row in rows)
    names = list(dict.fromkeys(name for row in rows for panel in row for name in panel.names))
    lines = 0 if separate else -(-len(names) // 3)
    figure = NewFigure(figsize=(5.5 * columns, 4.3 * len(rows) + 0.5 + 0.25 * lines), layout="constrained")
    grid = figure.subplots(len(rows), columns, squeeze=False)
    handles: dict[str, Artist] = {}
    for panels, axes_row in zip(rows, grid, strict=True):
        for axes in axes_row[len(panels) :]:
            axes.set_visible(False)
        for panel, axes in zip(panels, axes_row, strict=False):
            some = panel.names if separate else names
            drawn = _draw(panel, looks or {name: (i, i) for i, name in enumerate(some)}, axes)
            handles |= drawn
            if separate:
                axes.legend(list(drawn.values()), list(map(as_written, drawn)), frameon=False, handlelength=4)
    if not separate:
        shown = list(map(as_written, handles))
        columns = 3 if max(map(len, shown), default=0) <= _NARROW * columns else 1
        figure.legend(
            list(handles.values()), shown, loc="outside lower center", ncols=columns, frameon=False, handlelength=4
        )
    if title:
        figure.suptitle(as_written(title, longest=150), fontsize=12)
    if path is not None:
        write(figure, path)
    return figure


def _draw(panel: Panel, looks: Mapping[str, tuple[int, int]], axes: Axes) -> dict[str, Artist]:
    """Draw a panel and return the line of each policy."""
    lines: dict[str, Artist] = {}
    curves = {policy: panel.curve(policy) for policy in panel.names}
    for policy, (rounds, mean, half) in curves.items():
        colour, style = COLOURS[looks[policy][0] % len(COLOURS)], _STYLES[looks[policy][1] % len(_STYLES)]
        if panel.scale != "linear":
            mean = np.where(mean > 0, mean, np.nan)  # 0 has no logarithm
        (lines[policy],) = axes.plot(
            rounds, mean, color=colour, linestyle=style, linewidth=1.8, label=as_written(policy), zorder=3
        )
        if len(panel.comparison.select(policy, panel.environment)) >= _BAND:
            low = np.maximum(mean - half, 1e-3 * mean)  # a band that reaches below 0 has no logarithm
            axes.fill_between(rounds, low, mean + half, color=colour, alpha=0.18, linewidth=0)
    axes.set_xlabel("round")
    quantity = "cumulative regret" if panel.quantity == "cumulative" else "regret per round"
    axes.set_ylabel(f"{quantity} ({as_written(panel.unit)})")
    if panel.scale == "linear":
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter("{x:,g}")
    else:
        axes.set_ylim(*_limits([mean for _, mean, _ in curves.values()]))
        axes.set_yscale("log")
    if panel.scale == "log":
        axes.set_xscale("log")
        last = max((rounds[-1] for rounds, _, _ in curves.values() if len(rounds)), default=1)
        axes.set_xlim(left=max(1.0, min(10.0, last / 10), 1e-3 * last))
    else:
        axes.set_xlim(left=0)
        axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_title(as_written(panel.title), fontsize=10)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    return lines


def _limits(curves: Sequence[Floats]) -> tuple[float, float]:
    """The range of a logarithmic axis: from the least positive value after 1 % of the rounds to the most."""
    late = np.concatenate([curve[len(curve) // 100 :] for curve in curves] or [np.zeros(0)])
    positive = late[late > 0]
    return (0.7 * positive.min(), 1.5 * positive.max()) if positive.size else (0.1, 1.0)

"""Figures of regret."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from tensorbandits.checks import check_installed
from tensorbandits.sim.compare import Comparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette, told apart with any colour vision; line styles serve print in black and white.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000")
_STYLES = (  # as matplotlib has them: (offset, (on, off, ..)) in units of the line width
    (0, ()),
    (0, (5, 1.5)),
    (0, (1, 1)),
    (0, (6, 1.5, 1, 1.5)),
    (0, (10, 3)),
    (0, (6, 1.5, 1, 1.5, 1, 1.5)),
)


def plot_regret(comparison: Comparison, path: str | PathLike[str], title: str = "") -> None:
    """Write a figure of mean cumulative regret with 95 % confidence bands; the suffix says PNG or SVG.

    One row of panels per environment: a linear scale on the left, and a logarithmic one on the right, where
    low curves can be told apart.

    >>> import tempfile, pathlib
    >>> from tensorbandits.sim.compare import Run
    >>> runs = tuple(Run("small", "ucb", i, np.array([1, 2]), np.array([1.0, 2 + i]), 0.1) for i in range(3))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     plot_regret(Comparison(runs), pathlib.Path(folder, "regret.png"))
    ...     pathlib.Path(folder, "regret.png").stat().st_size > 10_000
    True
    """
    check_installed("drawing a figure", "matplotlib")
    from matplotlib.figure import Figure

    count = len(comparison.environments)
    figure = Figure(figsize=(11, 4.6 * count + 0.9), layout="constrained")
    panels = figure.subplots(count, 2, squeeze=False)
    for environment, (linear, logarithmic) in zip(comparison.environments, panels, strict=True):
        _draw(comparison, environment, linear)
        _draw(comparison, environment, logarithmic)
        linear.set_ylim(bottom=0)
        linear.yaxis.set_major_formatter("{x:,.0f}")
        logarithmic.set_ylim(*_limits(comparison, environment))
        logarithmic.set_yscale("log")
        linear.set_title(environment if count > 1 else "linear scale", fontsize=10)
        logarithmic.set_title("logarithmic scale", fontsize=10)
    handles, names = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=3, frameon=False, handlelength=4)
    if title:
        figure.suptitle(title, fontsize=12)
    figure.savefig(path, dpi=150)


def _draw(comparison: Comparison, environment: str, axes: Axes) -> None:
    for i, policy in enumerate(comparison.policies):
        rounds, mean, half = comparison.curves(policy, environment)
        colour, style = _COLOURS[i % len(_COLOURS)], _STYLES[i % len(_STYLES)]
        axes.plot(rounds, mean, color=colour, linestyle=style, linewidth=1.8, label=policy, zorder=3)
        low = np.maximum(mean - half, 1e-3 * mean)  # a band that reaches below 0 has no logarithm
        axes.fill_between(rounds, low, mean + half, color=colour, alpha=0.18, linewidth=0)
    axes.set_xlabel("round")
    axes.set_ylabel("cumulative regret (units of reward)")
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _limits(comparison: Comparison, environment: str) -> tuple[float, float]:
    """The range of a logarithmic axis: from the least positive regret after 1 % of the rounds to the most."""
    curves = [comparison.curves(policy, environment)[1] for policy in comparison.policies]
    late = np.concatenate([curve[len(curve) // 100 :] for curve in curves])
    positive = late[late > 0]
    return (0.7 * positive.min(), 1.5 * positive.max()) if positive.size else (0.1, 1.0)

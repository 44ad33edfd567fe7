"""Figures of what a bandit believes: effects, interactions, factors and best arms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorbandits.bandit.figures.parts import (
    GREY,
    LETTERS,
    MOST,
    Floats,
    View,
    inches,
    intervals,
    left_out,
    name_rows,
    new_figure,
    percent,
    position,
    positions,
    title,
)
from tensorbandits.base.checks import check_count
from tensorbandits.base.drawing import COLOURS, as_written
from tensorbandits.space.labels import Label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BEST = 20  # of the most rows, how many are the best where there are more; the others are the worst
_MARGIN = 0.5  # share below which what is believed of a level is mostly borrowed
_ARMS, _ARMS_EACH = 15, 3  # best arms that are drawn of one context, and of each of several


def effects(view: View, modes: Any = None, level: float = 0.9) -> Figure:
    """Draw the mean reward of every level with partners that have no effects, a panel for each mode."""
    found = view.explain(level=level, arms=1)
    shown = positions(view.space, modes)
    columns = min(len(shown), 3)
    sizes = [min(len(found.levels[mode]), MOST) for mode in shown]
    heights = [max(sizes[at : at + columns]) for at in range(0, len(shown), columns)]
    width = 3.0 + max(inches(found.levels[mode]) for mode in shown)
    figure, grid = new_figure(columns, heights, width=max(columns * width, 7.5), sharex=True)
    own = found.explanation.own
    for mode, axes in zip(shown, grid, strict=False):
        numbers = found.explanation.typical[mode]
        at = _extremes(numbers[:, 0])
        hollow = None if own is None else own[mode][at] < _MARGIN
        intervals(axes, [found.levels[mode][one] for one in at], numbers[at], hollow=hollow)
        axes.axvline(float(numbers[:, 0].mean()), color=GREY, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
        axes.set_title(as_written(found.modes[mode]) + left_out(len(at), len(numbers)), fontsize=10)
        axes.set_xlabel("mean reward")
    for axes in grid[len(shown) :]:
        axes.set_visible(False)
    words = f"mean reward with partners that have no effects, {percent(level)} intervals; dashed: their average"
    title(figure, "Main effects", words + ("" if own is None else "; hollow: known mostly from other levels"))
    return figure


def interactions(view: View, level: float = 0.9) -> Figure:
    """Draw how much of the variance between combinations single modes have, pairs beyond them, and the rest."""
    found = view.explain(level=level, arms=1)
    parts = found.parts()[:MOST]
    share, low, high = 100 * np.array([found.explanation.shares[part] for part in parts]).T
    rows = np.arange(len(parts))
    figure, (axes,) = new_figure(1, [len(parts)], width=8.0)
    kinds = {1: (COLOURS[0], "one mode"), 2: (COLOURS[1], "two modes, beyond each"), 0: (GREY, "three and more")}
    for number, (colour, words) in kinds.items():
        at = np.array([len(part) == number for part in parts])
        if at.any():
            axes.barh(rows[at], share[at], color=colour, label=words, height=0.7)
    beside = np.maximum([share - low, high - share], 0.0)  # a mean may lie outside its bounds
    axes.errorbar(share, rows, xerr=beside, fmt="none", ecolor="black", elinewidth=1, capsize=2)
    name_rows(axes, [found.part(part) for part in parts], longest=2 * LETTERS)
    axes.set_xlim(left=0)
    axes.set_xlabel("share of the variance between combinations (%)")
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    title(figure, "What matters, and which modes interact", f"{percent(level)} intervals")
    return figure


def features(view: View, level: float = 0.9) -> Figure:
    """Draw how much of what the levels of a mode differ by their features explain, all together and each."""
    found = view.explain(level=level, arms=1)
    said = sorted(found.explanation.features.items())
    if not said:
        raise ValueError(
            "no mode has features, or only rate and amount of revenue have them; describe the levels of one first: "
            "Space(modes, features={'offer': ...})"
        )
    sizes = [1 + min(len(one.parts), MOST) for _, one in said]
    figure, grid = new_figure(1, sizes, width=8.0, sharex=True)
    for (mode, one), axes in zip(said, grid, strict=True):
        at = np.argsort(-one.parts[:, 0], kind="stable")[:MOST]
        share, low, high = 100 * np.vstack([one.share, one.parts[at]]).T
        rows = np.arange(len(share))
        axes.barh(rows, share, color=[COLOURS[0], *[COLOURS[1]] * len(at)], height=0.7)
        beside = np.maximum([share - low, high - share], 0.0)
        axes.errorbar(share, rows, xerr=beside, fmt="none", ecolor="black", elinewidth=1, capsize=2)
        names = found.features_of(mode)
        name_rows(axes, ["all features", *(names[each] for each in at)], longest=2 * LETTERS)
        axes.set_title(as_written(found.modes[mode]) + left_out(len(at), len(names)), fontsize=10)
        axes.axvline(0, color=GREY, linewidth=0.8)
        axes.set_xlabel("share of what levels differ by (%)")
    title(figure, "What features of levels explain", f"{percent(level)} intervals; the rest is each level's own")
    return figure


def factors(view: View, mode: str | None = None) -> Figure:
    """Draw the coordinates of the levels of a mode: levels with the same in both behave alike."""
    found = view.explain(arms=1)
    at = position(view.space, mode)
    values, strengths = found.explanation.factors[at], found.explanation.strengths[at]
    kept = _extremes(values[:, 0])
    groups = {level: number for number, group in enumerate(found.explanation.alike[at]) for level in group}
    colours = [COLOURS[groups[level] % len(COLOURS)] if level in groups else GREY for level in kept.tolist()]
    figure, grid = new_figure(2, [len(kept)], width=7.0 + inches(found.levels[at]), sharex=True, sharey=True)
    for number, axes in enumerate(grid):
        axes.hlines(range(len(kept)), 0, values[kept, number], colors=colours, linewidth=1.2)
        axes.scatter(values[kept, number], range(len(kept)), color=colours, s=22, zorder=3)
        axes.axvline(0, color=GREY, linewidth=0.8)
        axes.set_title(f"factor {number + 1}: {percent(strengths[number])} of what levels differ by", fontsize=10)
        axes.set_xlabel(f"factor ({found.scale})")
        name_rows(axes, [found.levels[at][level] for level in kept])
    same = "of one colour: levels that are interchangeable, as far as is known; grey: others"
    words = same if groups else "no levels are known to be interchangeable"
    title(figure, f"Levels of {found.modes[at]}{left_out(len(kept), len(values))}", words)
    return figure


def arms(
    view: View, context: Mapping[str, Label] | None = None, count: int | None = None, level: float = 0.9
) -> Figure:
    """Draw the best arms with intervals, of a context, or a few of every context."""
    given = dict(context or {})
    listed = 1 if given else max(math.prod(view.space.shape[mode] for mode in view.space.context), 1)
    usual = _ARMS if listed == 1 else max(1, min(_ARMS_EACH, MOST // listed))
    found = view.explain(given or None, level=level, arms=usual if count is None else check_count(count, "count"))
    best = found.best()
    cells, lines = best.cells[:MOST], found.names(whole=not given)
    figure, (axes,) = new_figure(1, [len(cells)], width=6.5 + inches(lines[:MOST], 2 * LETTERS))
    where = [tuple(cell[list(found.context)]) for cell in cells]
    order = {one: number for number, one in enumerate(dict.fromkeys(where))}
    colours = [COLOURS[order[one] % 2] for one in where]  # to set neighbours apart
    intervals(axes, lines[:MOST], best.numbers[:MOST], colours=colours, longest=2 * LETTERS)
    axes.set_xlabel(f"mean reward, {percent(level)} intervals")
    shown = found.decided if given else (*found.context, *found.decided)
    words = " · ".join(found.modes[mode] for mode in shown)
    words += "".join(f"; {mode} = {label}" for mode, label in given.items())
    title(figure, f"Best arms{left_out(len(cells), len(lines))}", words)
    return figure


def _extremes(values: Floats) -> NDArray[np.int64]:
    """The order of values, largest first; of more than can be shown, the largest and the smallest."""
    order = np.argsort(-np.asarray(values), kind="stable")
    return order if len(order) <= MOST else np.concatenate([order[:_BEST], order[_BEST - MOST :]])

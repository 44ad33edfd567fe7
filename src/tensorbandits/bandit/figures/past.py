"""Figures of what a bandit did: traffic and reward over time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorbandits.bandit.comparison import SIDES
from tensorbandits.bandit.figures.parts import LIGHT, Floats, View, inches, legend, names, new_figure, position, title
from tensorbandits.bandit.timeline import Timeline, means
from tensorbandits.base.drawing import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_POINTS = 25  # over time
_REWARDS = 50  # of a point, at least, of which a mean is drawn
_NORMAL = 1.6449  # standard errors on each side that hold 90 %
_DATES = (1e8, 1e11)  # seconds between which a clock tells the time of day


def traffic(view: View, mode: str | None = None, against: str = "decisions") -> Figure:
    """Draw the share of decisions that each level of a mode had over time, without those of the holdout."""
    at = position(view.space, mode)
    record, labels = view.timeline(), view.space.levels[at]
    _some(record)
    group = _group(len(record))
    counts = _merged(record.levels(at)[:, 0, 0, : len(labels)], group)
    counts = np.pad(counts, [(0, 0), (0, len(labels) - counts.shape[1])])
    whole = counts.sum(axis=1, keepdims=True)
    share = np.divide(counts, whole, out=np.zeros_like(counts), where=whole > 0)
    order = np.argsort(-counts.sum(axis=0), kind="stable")
    named = order[: len(COLOURS)] if len(order) > len(COLOURS) + 1 else order
    left = [level for level in order if level not in named]
    parts = [share[:, level] for level in named] + ([share[:, left].sum(axis=1)] if left else [])
    words = names([labels[level] for level in named]) + ([f"{len(left)} others"] if left else [])
    colours = [*(*COLOURS, "#F0E442")[: len(named)], *([LIGHT] if left else [])]
    figure, (axes,) = new_figure(1, [16], width=7.5 + inches(words))
    edges = _edges(record, group, against)
    stepped = [np.repeat(100 * part, 2) for part in parts]
    axes.stackplot(_doubled(edges), *stepped, labels=words, colors=colours, linewidth=0)
    axes.set_ylim(0, 100)
    axes.set_ylabel("share of decisions (%)")
    _time_axis(axes, edges, against)
    handles, shown = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], shown[::-1], loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9)
    holdout = ", the holdout's left out" if record.totals[:, 1, 0].any() else ""
    title(figure, f"Traffic of {view.space.modes[at]}", f"{record.count:,} decisions{holdout}")
    return figure


def reward(view: View, against: str = "decisions") -> Figure:
    """Draw the mean reward of decisions over time, beside that of the holdout if there is one."""
    record = view.timeline()
    _some(record)
    totals = record.totals
    fewest = min((count for count in totals[:, :, 1].sum(axis=0) if count), default=0)
    group = _group(len(record), int(np.clip(fewest // _REWARDS, 5, _POINTS)))
    edges = _edges(record, group, against)
    figure, (axes,) = new_figure(1, [16], width=9.0)
    words = []
    middles = edges[:-1] + (edges[1:] - edges[:-1]) / 2
    for side, name in enumerate(SIDES):
        sums = _merged(totals[:, side], group)
        if not sums[:, 1].any():
            continue
        numbers, overall = means(sums), means(sums.sum(axis=0)[None])
        mean, half = numbers["mean"], _NORMAL * numbers["error"]
        axes.plot(
            middles,
            mean,
            color=COLOURS[side],
            marker="o",
            markersize=3.5,
            linewidth=1.8,
            label=name,
            linestyle="-" if not side else (0, (5, 1.5)),
        )
        axes.fill_between(middles, mean - half, mean + half, color=COLOURS[side], alpha=0.18, linewidth=0)
        bounds = "" if np.isnan(overall["error"][0]) else f" ± {_NORMAL * overall['error'][0]:.2g}"
        words.append(f"{name} {overall['mean'][0]:.3g}{bounds}")
    if not words:
        raise ValueError("no decision has a reward yet, so there is nothing to draw; tell some rewards first")
    axes.set_ylabel("mean reward of a decision")
    axes.grid(alpha=0.3)
    _time_axis(axes, edges, against)
    legend(axes)
    title(figure, "Reward over time", f"90 % bands; overall: {', '.join(words)}")
    return figure


def _some(record: Timeline) -> None:
    if not record.count:
        raise ValueError("no decision was made yet, so there is nothing to draw; ask for some first")


def _group(blocks: int, points: int = _POINTS) -> int:
    """How many blocks make a point, if there are to be so many points at most."""
    return -(-blocks // points)


def _merged(sums: Floats, group: int) -> Floats:
    """Sums over each so many neighbouring blocks, the first axis."""
    return np.asarray(np.add.reduceat(sums, np.arange(0, len(sums), group), axis=0))


def _edges(record: Timeline, group: int, against: str) -> Any:
    """Where the points of time begin and end: numbers of decisions, seconds, or dates."""
    if against == "decisions":
        return np.append(np.arange(0, len(record), group) * record.length, record.count).astype(float)
    if against != "time":
        raise ValueError(f"against is {against!r}; allowed are 'decisions' and 'time'")
    times = np.append(record.starts[::group], record.last)
    return _dated(times) if _DATES[0] < times[0] and times[-1] < _DATES[1] else times


def _dated(times: Floats) -> Any:
    return np.array([datetime.fromtimestamp(one, UTC).replace(tzinfo=None) for one in times], dtype="datetime64[us]")


def _doubled(edges: Any) -> Any:
    """Each point of time twice, but for the first and the last, so that shares are drawn as steps."""
    return np.repeat(edges, 2)[1:-1]


def _time_axis(axes: Axes, edges: Any, against: str) -> None:
    from matplotlib import dates

    if against == "decisions":
        axes.set_xlabel("decision")
        axes.xaxis.set_major_formatter("{x:,.0f}")
    elif edges.dtype.kind == "M":
        axes.set_xlabel("time (UTC)")
        untyped: Any = dates
        locator = untyped.AutoDateLocator(maxticks=8)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(untyped.ConciseDateFormatter(locator))
    else:
        axes.set_xlabel("time (seconds)")
    if edges[-1] > edges[0]:
        axes.set_xlim(edges[0], edges[-1])
    axes.spines[["top", "right"]].set_visible(False)

"""Figures of the benchmarks, each drawn from a suite's numbers, in the library's colours.

A policy has the colour that it has in the paper's figures; markers serve print in black and white.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.timing import POLICIES
from tensorbandits.base.drawing import COLOURS

if TYPE_CHECKING:  # otherwise imported where it is used: measurements need none of it
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = "osD^vPX"
LOOK = {name: (COLOURS[i % 7], MARKERS[i % 7]) for i, name in enumerate(POLICIES)}
Data = list[dict[str, Any]]


def _axes(width: float = 8.0, height: float = 5.0, panels: int = 1) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = list(figure.subplots(1, panels, squeeze=False)[0])
    for one in axes:
        one.grid(alpha=0.3, which="major")
        one.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _legend(figure: Figure, axes: Axes, twin: bool = False) -> None:
    from matplotlib.lines import Line2D

    handles, names = axes.get_legend_handles_labels()
    if twin:
        handles.append(Line2D([], [], color="0.4", linestyle=(0, (2, 2)), marker="o", markerfacecolor="white"))
        names.append("its plain NumPy twin")
    figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False)


def _line(axes: Axes, policy: str, x: list[float], y: list[float], *, twin: bool = False) -> None:
    if not x:
        return
    colour, marker = LOOK[policy]
    style = {"linestyle": (0, (2, 2)), "markerfacecolor": "white", "alpha": 0.9} if twin else {}
    axes.plot(
        *(x, y),
        color=colour,
        marker=marker,
        markersize=5.5,
        linewidth=1.6,
        label=None if twin else POLICIES[policy],
        **style,
    )


def rounds(data: Data, path: Path) -> None:
    """Time per round against the round, p = 15, d = 3, r = 2."""
    cases = [c for c in data if (c["settings"]["p"], c["settings"]["order"], c["settings"]["rank"]) == (15, 3, 2)]
    figure, (axes,) = _axes()
    for case in cases:
        policy = case["settings"]["policy"]
        _line(axes, policy, *_columns(case["points"], "microseconds"))
        _line(axes, policy, *_columns(case["points"], "twin"), twin=True)
    axes.set(xscale="log", yscale="log", xlabel="round", ylabel="microseconds per round (ask and tell)")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_title("15 x 15 x 15 cells, rank 2", fontsize=11)
    _legend(figure, axes, twin=True)
    figure.savefig(path, dpi=150)


def _columns(points: Data, name: str) -> tuple[list[float], list[float]]:
    chosen = [point for point in points if name in point]
    return [point["round"] for point in chosen], [point[name] for point in chosen]


def sizes(data: Data, path: Path) -> None:
    """Time per round against p, d = 3, r = 2, at the last round that most cases have."""
    cases = [c for c in data if (c["settings"]["order"], c["settings"]["rank"]) == (3, 2) and c["points"]]
    at, working = _shared_round(cases), _working_round(cases)
    figure, (axes,) = _axes()
    for policy in POLICIES:
        look = working if policy == "elimination" and working else at
        points = [
            {"round": case["settings"]["p"], **{k: v for k, v in point.items() if k != "round"}}
            for case in cases
            for point in case["points"]
            if case["settings"]["policy"] == policy and point["round"] == look
        ]
        _line(axes, policy, *_columns(points, "microseconds"))
        _line(axes, policy, *_columns(points, "twin"), twin=True)
    axes.set(xscale="log", yscale="log", xlabel="levels per mode, p", ylabel="microseconds per round (ask and tell)")
    ticks = sorted({case["settings"]["p"] for case in cases})
    axes.set_xticks(ticks, [str(p) for p in ticks])
    axes.set_xticks([], minor=True)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    note = f" (elimination: {working:,})" if working else ""
    axes.set_title(f"p x p x p cells, rank 2, at round {at:,}{note}", fontsize=11)
    _legend(figure, axes, twin=True)
    figure.savefig(path, dpi=150)


def _shared_round(cases: Data) -> int:
    """The last round up to 10,000 that most cases have."""
    reached = [point["round"] for case in cases for point in case["points"] if point["round"] <= 10_000]
    return max(at for at in reached if reached.count(at) >= 0.7 * len(cases))


def _working_round(cases: Data) -> int | None:
    """The round at which elimination neither explores nor is done at most sizes, which is when it has a twin."""
    mine = [case for case in cases if case["settings"]["policy"] == "elimination"]
    timed = [point["round"] for case in mine for point in case["points"] if "twin" in point]
    return max(sorted(timed, reverse=True), key=timed.count, default=None)


def scale(data: Data, path: Path) -> None:
    """Share of the best by round, the mean over seeds with a band from the least to the most."""
    figure, (axes,) = _axes()
    for size, colour, marker in zip(data, COLOURS, MARKERS):
        shares = np.array([run["share"] for run in size["runs"]])
        at, mean = size["runs"][0]["share_at"], shares.mean(axis=0)
        every = max(1, len(at) // 12)
        name = f"{size['p']:,} x {size['p']:,} x {size['p']:,} cells"
        axes.plot(at, 100 * mean, color=colour, marker=marker, markevery=every, markersize=5, linewidth=1.8, label=name)
        low, high = 100 * shares.min(axis=0), 100 * shares.max(axis=0)
        axes.fill_between(at, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.axhline(90, color="0.3", linewidth=1, linestyle=(0, (4, 3)))
    axes.annotate("90 %", (0.0, 90), xytext=(3, 3), textcoords="offset points", color="0.3", fontsize=9)
    axes.set(xlabel="round", ylabel="last 1,000 rounds, % of the best cell's reward", xlim=(0, None))
    axes.set_ylim(top=102)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    seeds = max(len(size["runs"]) for size in data)
    band = f", the mean and the range of {seeds} seeds" if seeds > 1 else ""
    axes.set_title(f"Thompson sampling, rank 2, signal 0.5, noise 1{band}", fontsize=11)
    _legend(figure, axes)
    figure.savefig(path, dpi=150)


def _ticks(axes: Axes) -> None:
    """Ticks at 1, 2 and 5 times powers of ten, as whole numbers."""
    from matplotlib.ticker import LogLocator, NullLocator

    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if axis is axes.yaxis else (1.0,)))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter("{x:,.0f}")


def peers(data: Data, path: Path) -> None:
    """Final regret against time per round; one panel per size, ours filled, numbered as in the legend."""
    shown = [row for row in data if row.get("mean") is not None]
    sizes_ = sorted({row["p"] for row in shown})
    figure, panels = _axes(5.2 * len(sizes_) + 1, 5.6, len(sizes_))
    ours = {name for row in shown for name in [row["name"]] if row["ours"]}
    others = enumerate(dict.fromkeys(row["key"] for row in shown if not row["ours"]))
    look = LOOK | {key: (COLOURS[i % 7], MARKERS[(i + i // 7) % 7]) for i, key in others}
    handles: dict[str, Any] = {}
    for p, axes in zip(sizes_, panels):
        for row in (row for row in shown if row["p"] == p):
            colour, marker = look[row["key"]]
            face = colour if row["name"] in ours else "white"
            bar = axes.errorbar(
                *(row["microseconds"], row["mean"]), yerr=row["standard_error"], fmt=marker, color=colour, markersize=9,
                markerfacecolor=face, markeredgewidth=1.8, capsize=3,
            )  # fmt: skip
            handles.setdefault(row["name"], bar)
        axes.set(xscale="log", yscale="log", xlabel="microseconds per round", ylabel="final regret")
        _ticks(axes)
        axes.set_title(f"{p} x {p} x {p} cells, {shown[0]['rounds']:,} rounds", fontsize=11)
    labels = [f"{name} (ours)" if name in ours else name for name in handles]
    figure.legend(handles.values(), labels, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    figure.savefig(path, dpi=150)


def trade(data: Data, path: Path) -> None:
    """Median and worst final regret against the temperature, one line per bed; the last bed is the mean of all."""
    figure, panels = _axes(11.0, 5.6, 2)
    beds = list(dict.fromkeys(row["bed"] for row in data))
    for i, bed in enumerate(beds):
        here = [row for row in data if row["bed"] == bed]
        at, last = [row["exploration"] for row in here], bed == beds[-1]
        look = {"color": "black", "linewidth": 3.0} if last else {"color": COLOURS[i % 6], "linewidth": 1.4}
        for axes, name in zip(panels, ("median_ratio", "worst_ratio"), strict=True):
            axes.plot(at, [row[name] for row in here], marker=MARKERS[i % 7], markersize=5, label=bed, **look)
    for axes, name in zip(panels, ("median", "worst"), strict=True):
        axes.set(xscale="log", yscale="log", xlabel="exploration (temperature)")
        axes.set_ylabel(f"{name} final regret over the median at {data[0]['exploration']:g}")
        ticks = sorted({row["exploration"] for row in data})
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.set_xticks([], minor=True)
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("{x:g}")
        axes.axhline(1.0, color="0.3", linewidth=1, linestyle=(0, (4, 3)))
    _legend(figure, panels[0])
    figure.savefig(path, dpi=150)


def change(lines: Data, path: Path) -> None:
    """What is earned of the best over the rounds, where a channel switches at half time."""
    figure, (axes,) = _axes()
    for at, line in enumerate(line for line in lines if line["switches"]):
        rounds = (np.arange(len(line["curve"])) + 0.5) * line["rounds"] / len(line["curve"])
        name = "no half-life" if line["half_life"] is None else f"half-life of {line['half_life']:,} rewards"
        axes.plot(rounds, line["curve"], color=COLOURS[at], marker=MARKERS[at], markersize=4, label=name)
        axes.axvline(line["rounds"] / 2, color="0.6", linewidth=1.0)
    axes.axhline(0.9, color="0.6", linewidth=1.0, linestyle=(0, (2, 2)))
    axes.set_xlabel("rounds; a channel switches at the line")
    axes.set_ylabel("earned, of the best of the time")
    _legend(figure, axes)
    figure.savefig(path, dpi=150)

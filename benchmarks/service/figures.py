"""Figures of the suites that measure the service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figures import _axes
from tensorbandits.base.drawing import COLOURS

WORDS = {"noop": "no-op", "ask": "ask", "keyed": "ask with a key"}


def load(ratios: list[tuple[str, Any]], path: Path) -> None:
    """Requests a second of each slice, and the 99th percentile of its answers."""
    figure, axes = _axes(10.0, 4.5, 2 * max(len(ratios), 1))
    for at, (store, result) in enumerate(ratios):
        for colour, (what, kind) in zip(COLOURS, result["kinds"].items(), strict=False):
            slices = np.arange(1, len(kind["rates"]) + 1)
            axes[2 * at].plot(slices, kind["rates"], color=colour, marker="o", markersize=3, label=WORDS[what])
            axes[2 * at + 1].plot(slices, kind["slice_p99"], color=colour, marker="o", markersize=3)
        axes[2 * at].set(xlabel="slice", ylabel="requests a second", title=store, ylim=(0, None))
        axes[2 * at + 1].set(xlabel="slice", ylabel="p99, milliseconds", title=store, ylim=(0, None))
    if ratios:
        handles, names = axes[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=150)


def soak(points: list[dict[str, Any]], path: Path) -> None:
    """Memory, and waits of single requests, over the rounds."""
    figure, (left, right) = _axes(10.0, 4.5, 2)
    rounds = [point["rounds"] for point in points]
    left.plot(rounds, [point["megabytes"] for point in points], color=COLOURS[0], marker="o", markersize=3)
    left.set(xlabel="rounds", ylabel="memory of the server, MB", ylim=(0, None))
    for colour, (what, which) in zip(COLOURS, [("asks", "p50"), ("asks", "p99"), ("tells", "p50")], strict=False):
        chosen = [(point["rounds"], point[what][which]) for point in points if point[what]]
        right.plot(*zip(*chosen, strict=True), color=colour, marker="o", markersize=3, label=f"{what[:-1]}, {which}")
    right.set(xlabel="rounds", ylabel="milliseconds", yscale="log")
    right.legend(frameon=False)
    for axes in (left, right):
        axes.xaxis.set_major_formatter("{x:,.0f}")
    figure.savefig(path, dpi=150)

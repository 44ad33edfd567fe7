"""Charts of a report as SVG: they are small, print sharply, need no other file, and no library."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tensorbandits.bandit.reporting.gathered import ModeFound, Point
from tensorbandits.bandit.reporting.since import shown

COLOURS = {"policy": "#0072b2", "holdout": "#b86e00", "caller": "#b86e00"}
_WIDTH, _LEFT, _RIGHT, _ROW = 720, 64, 16, 22
_LABELS = 190  # units of the names of levels
_LETTERS = 26  # of a name
Write = Callable[[float], str]


def over_time(lines: Mapping[str, Sequence[Point]], names: Mapping[str, str], write: Write) -> str:
    """Return means over time with their bands, one line for each side."""
    points = [point for line in lines.values() for point in line]
    first, last = min(one.start for one in points), max(one.end for one in points)
    width = max(last - first, 1e-9)
    low, high, ticks = _scale([one for p in points for one in (p.mean, p.low, p.high)], zero=True)
    height, top, bottom = 250, 30, 214

    def x(seconds: float) -> float:
        return _LEFT + (seconds - first) / width * (_WIDTH - _LEFT - _RIGHT)

    def y(value: float) -> float:
        return bottom - (min(max(value, low), high) - low) / (high - low) * (bottom - top)

    parts = [
        f'<path class="grid" d="M{_LEFT} {y(one):.1f}H{_WIDTH - _RIGHT}"/>'
        f'<text x="{_LEFT - 8}" y="{y(one) + 4:.1f}" text-anchor="end">{html.escape(write(one))}</text>'
        for one in ticks
    ]
    at = _LEFT
    for side, line in lines.items():
        colour = COLOURS[side]
        middles = [((p.start + p.end) / 2, p) for p in line]
        upper = [f"{x(t):.1f} {y(p.high if math.isfinite(p.high) else high):.1f}" for t, p in middles]
        lower = [f"{x(t):.1f} {y(p.low if math.isfinite(p.low) else low):.1f}" for t, p in reversed(middles)]
        parts.append(f'<path d="M{"L".join([*upper, *lower])}Z" fill="{colour}" opacity="0.16"/>')
        dash = "" if side == "policy" else ' stroke-dasharray="6 4"'
        path = "L".join(f"{x(t):.1f} {y(p.mean):.1f}" for t, p in middles)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2.2"{dash}/>')
        parts += [f'<circle cx="{x(t):.1f}" cy="{y(p.mean):.1f}" r="3.2" fill="{colour}"/>' for t, p in middles]
        name = names[side]
        parts.append(f'<path d="M{at} 14h22" stroke="{colour}" stroke-width="2.2"{dash}/>')
        parts.append(f'<text x="{at + 28}" y="18">{html.escape(name)}</text>')
        at += 48 + 8 * len(name)
    parts += [
        f'<text x="{_LEFT}" y="{height - 14}">{html.escape(shown(first))}</text>',
        f'<text x="{_WIDTH - _RIGHT}" y="{height - 14}" text-anchor="end">{html.escape(shown(last))}</text>',
    ]
    return _svg(height, parts, "Mean reward over time")


def levels(mode: ModeFound, write: Write) -> str:
    """Return what the levels of a mode earn with typical partners, one row for each."""
    rows = mode.levels
    low, high, ticks = _scale([one for row in rows for one in (row.mean, row.low, row.high)], zero=False)
    height = _ROW * len(rows) + 40

    def x(value: float) -> float:
        return _LABELS + (min(max(value, low), high) - low) / (high - low) * (_WIDTH - _LABELS - 30)

    parts = [
        f'<path class="grid" d="M{x(one):.1f} 8V{height - 28}"/>'
        f'<text x="{x(one):.1f}" y="{height - 12}" text-anchor="middle">{html.escape(write(one))}</text>'
        for one in ticks
    ]
    colour = COLOURS["policy"]
    for at, row in enumerate(rows):
        middle = 8 + _ROW * (at + 0.5)
        name = row.label if len(row.label) <= _LETTERS else f"{row.label[: _LETTERS - 1]}…"
        parts.append(f'<text x="{_LABELS - 12}" y="{middle + 4:.1f}" text-anchor="end">{html.escape(name)}</text>')
        parts.append(f'<path d="M{x(row.low):.1f} {middle:.1f}H{x(row.high):.1f}" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<circle cx="{x(row.mean):.1f}" cy="{middle:.1f}" r="4.5" fill="{colour}"/>')
    return _svg(height, parts, f"Mean reward of the levels of {mode.name}")


def _svg(height: int, parts: Sequence[str], title: str) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{html.escape(title, quote=True)}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )


def _scale(values: Sequence[float], *, zero: bool) -> tuple[float, float, list[float]]:
    """The ends of an axis, and round numbers along it; bounds that are not known, or very far, are cut off."""
    known = np.array([one for one in values if math.isfinite(one)])
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    if zero and low > 0 and low < 0.6 * high:
        low = 0.0
    if high <= low:
        low, high = low - 0.5 * abs(low) - 1e-9, high + 0.5 * abs(high) + 1e-9
    step = 10.0 ** math.floor(math.log10((high - low) / 4.0))
    step *= next(factor for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if (high - low) / (factor * step) <= 5.0)
    ticks = [step * at for at in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
    margin = 0.03 * (high - low)
    return low - (margin if low else 0.0), high + margin, [0.0 if abs(one) < step / 1e6 else one for one in ticks]

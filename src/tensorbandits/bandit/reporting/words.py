"""Numbers of a report as people read them: rates in percent, differences with their sign."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tensorbandits.bandit.intervals import RATES


def reward_of(kind: str | None) -> Callable[[float], str]:
    """Return what writes a mean reward.

    >>> reward_of("bernoulli")(0.0312), reward_of("gaussian")(12345.6), reward_of(None)(float("nan"))
    ('3.12 %', '12,346', 'not known')
    """

    def write(value: float) -> str:
        if not math.isfinite(value):
            return "not known" if math.isnan(value) else "∞" if value > 0 else "−∞"
        return f"{_digits(round(100.0 * value, 4))} %" if kind in RATES else _digits(value)

    return write


def difference_of(kind: str | None) -> Callable[[float], str]:
    """Return what writes a difference of mean rewards.

    >>> difference_of("bernoulli")(-0.0312), difference_of("gaussian")(1.5)
    ('−3.12 pp', '+1.50')
    """

    def write(value: float) -> str:
        if not math.isfinite(value):
            return "not known"
        sign = "+" if value > 0 else ""
        return f"{sign}{_digits(100.0 * value)} pp" if kind in RATES else f"{sign}{_digits(value)}"

    return write


def _digits(value: float) -> str:
    size = abs(value)
    if size >= 1e6 or 0 < size < 1e-4:
        return f"{value:.3g}".replace("-", "−")
    places = 0 if size >= 1000 or not size else 1 if size >= 10 else 2 if size >= 0.1 else 4
    return f"{value:,.{places}f}".replace("-", "−")


def between(low: float, high: float, write: Callable[[float], str]) -> str:
    """Return bounds in words.

    >>> between(0.1, math.inf, "{:.1f}".format), between(-math.inf, math.inf, str)
    ('from 0.1', 'not bounded')
    """
    if math.isfinite(low) and math.isfinite(high):
        return f"{write(low)} to {write(high)}"
    return (
        f"from {write(low)}" if math.isfinite(low) else f"up to {write(high)}" if math.isfinite(high) else "not bounded"
    )


def share(value: float) -> str:
    """Return a share in percent.

    >>> share(0.123), share(0.004), share(0.0)
    ('12 %', '0.4 %', '0 %')
    """
    return f"{100.0 * value:.1f} %" if 0 < value < 0.01 else f"{100.0 * value:.0f} %"


def duration(seconds: float) -> str:
    """Return a duration with the unit that fits.

    >>> duration(0.2), duration(90.0), duration(86_400.0 * 3)
    ('0.2 s', '90 s', '3 days')
    """
    if seconds < 0.1:
        return "less than 0.1 s"
    for limit, factor, unit in ((120.0, 1.0, "s"), (7_200.0, 60.0, "minutes"), (172_800.0, 3_600.0, "hours")):
        if seconds < limit:
            return f"{seconds / factor:.2g} {unit}"
    return f"{seconds / 86_400.0:,.2g} days" if seconds < 864_000.0 else f"{seconds / 86_400.0:,.0f} days"


def listed(words: Sequence[str], most: int = 8) -> str:
    """Return words as in a sentence, of many the first.

    >>> listed(["a", "b", "c"]), listed(list("abcd"), most=2)
    ('a, b and c', 'a, b and 2 others')
    """
    if len(words) > most:
        return f"{', '.join(words[:most])} and {len(words) - most:,} others"
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""

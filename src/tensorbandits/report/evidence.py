"""What the numbers say of a claim: paired tests, ratios with intervals, verdicts.

All policies of a replication meet the same tensor and the same noise, so differences are taken within replications.

One rule gives every verdict (``RULE`` says it to readers, :func:`decide` applies it). A claim that something is below a
number, be it 1 for an order or 0.25 for "75 % below", holds if its 95 % interval lies below that number, does not hold
if the interval lies above, and is not decided if the number lies within. Of several somethings all must be below: one
that lies above is enough against. A single replication has no interval and decides nothing. What is said of the runs
themselves, such as the worst of them, needs no interval; it is judged from ``FEW`` replications on.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from tensorbandits.report.page import Claim, Code, Section, Table, Text, Verdict, escape
from tensorbandits.sim.compare import Comparison, half_width
from tensorbandits.sim.plan import software
from tensorbandits.tensor.tucker import Floats

LEVEL = 0.05  # of a test
FEW = 10  # replications below which what has no interval is not judged
RULE = (
    "A claim holds if the 95 % interval (in brackets) of what it is about lies below the number claimed, which is 1 "
    "for an order and 0.25 for 75 % below; it does not hold here if the interval lies above, and is not decided if "
    "the number lies within."
)


class Pair(NamedTuple):
    """How ``low`` compares with ``high``: means, their ratio, and the standard error of its logarithm.

    ``interval`` is the ratio's 95 % interval, ``degrees`` the degrees of freedom; NaN where nothing can be said.
    """

    low: float
    high: float
    ratio: float
    error: float
    degrees: int
    interval: tuple[float, float]

    def against(self, most: float) -> tuple[float, float]:
        """Return t and the two-sided p of the ratio being ``most``; below it t is negative."""
        from scipy import stats

        distance = math.log(self.ratio / most) if self.ratio > 0 else math.nan
        t = distance / self.error if self.error else math.copysign(math.inf, distance) if distance else 0.0
        return t, float(2 * stats.t.sf(abs(t), self.degrees)) if self.degrees else math.nan


def paired(low: Floats, high: Floats) -> Pair:
    """Compare two samples of the same replications by the ratio of their means.

    The error of its logarithm is the jackknife's, over replications, the interval Student's. With one replication, or
    where a mean is 0, there is neither.

    >>> pair = paired(np.array([1.0, 1.1, 0.9]), np.array([2.0, 2.3, 1.9]))
    >>> round(pair.ratio, 2), pair.against(1.0)[1] < 0.05
    (0.48, True)
    """
    a, b, n = float(low.mean()), float(high.mean()), len(low)
    ratio = a / b if b else 1.0 if a == 0 else math.nan
    sums = low.sum() - low, high.sum() - high
    if n < 2 or min(part.min() for part in sums) <= 0:
        return Pair(a, b, ratio, math.nan, 0, (math.nan, math.nan))
    from scipy import stats

    left_out = np.log(sums[0] / sums[1])
    error = math.sqrt((n - 1) / n * float(((left_out - left_out.mean()) ** 2).sum()))
    error = 0.0 if error < 1e-12 else error  # the same ratio in every replication
    factor = math.exp(float(stats.t.ppf(1 - LEVEL / 2, n - 1)) * error)
    return Pair(a, b, ratio, error, n - 1, (ratio / factor, ratio * factor))


def student(values: Floats) -> tuple[float, float]:
    """The mean and the half-width of Student's 95 % interval; NaN for a single value.

    >>> [round(part, 2) for part in student(np.array([1.0, 2.0, 3.0]))]
    [2.0, 2.48]
    """
    return float(values.mean()), float(half_width(values))


def judge(pairs: Sequence[Pair], most: float = 1.0) -> Verdict:
    """Say whether all of the ratios are below ``most``, by the rule.

    >>> judge([paired(np.array([1.0, 1.1, 0.9]), np.array([2.0, 2.3, 1.9]))])
    'holds'
    """
    return decide([pair.interval for pair in pairs], most)


def decide(intervals: Sequence[tuple[float, float]], most: float = 0.0) -> Verdict:
    """Say whether numbers are below ``most``, all of them, given their intervals: the rule.

    >>> decide([(-2, -1), (-3, -2)]), decide([(-2, -1), (1, 2)]), decide([(-2, -1), (-1, 2)])
    ('holds', 'does not hold here', 'not decided')
    """
    if any(low > most for low, _ in intervals):
        return "does not hold here"
    return "holds" if all(high < most for _, high in intervals) else "not decided"


def below(
    words: str,
    source: str,
    comparison: Comparison,
    low: str,
    high: Sequence[str],
    *,
    environments: Sequence[str] | None = None,
    at: int | None = None,
    most: float = 1.0,
    why: str = "",
) -> Claim:
    """A claim that one policy's regret is below that of others, in all environments."""
    pairs, lines = [], []
    for environment in environments or comparison.environments:
        mine = comparison.at(low, environment, at)
        others = [paired(mine, comparison.at(name, environment, at)) for name in high]
        pairs += others
        beside = ", ".join(
            f"{escape(name)} {amount(pair.high)}, ratio {show_ratio(pair)}"
            for name, pair in zip(high, others, strict=True)
        )
        lines.append(f"{escape(environment)}: {escape(low)} {amount(float(mine.mean()))} against {beside}")
    verdict = judge(pairs, most)
    after = f" after {at:,} rounds" if at else ""
    return Claim(words, source, verdict, "; ".join(lines) + after, show_test(pairs, most), why)


def amount(value: float) -> str:
    """A number as text: whole from 100 on, three digits below.

    >>> amount(12345.6), amount(0.01234), amount(float("nan"))
    ('12,346', '0.0123', '–')
    """
    if math.isnan(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:.3g}"


def show_ratio(pair: Pair) -> str:
    """A ratio and its interval, as text.

    >>> show_ratio(Pair(1.0, 2.0, 0.5, 0.1, 29, (0.4, 0.6)))
    '0.50 (0.40 to 0.60)'
    """
    if math.isnan(pair.ratio):
        return "unknown"
    if math.isnan(pair.interval[0]):
        return f"{pair.ratio:.2f}"
    return f"{pair.ratio:.2f} ({pair.interval[0]:.2f} to {pair.interval[1]:.2f})"


def show_test(pairs: Sequence[Pair], most: float = 1.0) -> str:
    """The weakest of the tests, which decides when all must hold."""
    tested = [pair for pair in pairs if pair.degrees]
    if not tested:
        return "nothing can be tested: one replication, or no regret"
    t, p = max(pair.against(most) for pair in tested)
    which = "t-test" if len(tested) == 1 else f"weakest of {len(tested)} t-tests"
    return f"{which} of the ratio against {most:g}, paired: t = {t:.1f}, p = {p:.1g}"


def regret_table(comparison: Comparison, baseline: str, environment: str, names: Sequence[str]) -> Table:
    """Final regrets of some policies in one environment, lowest first, beside a baseline's."""
    rows = [row for row in comparison.table(baseline) if row.environment == environment and row.policy in names]
    lines = [
        [
            escape(row.policy),
            *(amount(value) for value in (row.mean, row.standard_error, row.median, row.worst)),
            "–" if row.ratio is None or math.isnan(row.ratio) else f"{row.ratio:.3f}",
        ]
        for row in sorted(rows, key=lambda row: row.mean)
    ]
    horizon = int(comparison.select(names[0], environment)[0].rounds[-1])
    header = ["policy", "mean", "standard error", "median", "worst", f"ratio to {escape(baseline)}"]
    count = rows[0].replications
    return Table(header, lines, f"{escape(environment)}: regret after {horizon:,} rounds, {count} replications")


def how_section(seed: int, seconds: float, command: str, *tables: Table) -> Section:
    """The section of a report that says how it came about: the command, if known, seeds and versions, and settings.

    It names the class of machine, not which one it was.
    """
    asked = [Code(command)] if command else []
    versions = ", ".join(f"{name} {version}" for name, version in software().items())
    words = (
        f"Finished on {datetime.now(UTC):%Y-%m-%d}; this call took {seconds / 60:.1f} minutes, less what it found "
        f"finished from earlier calls. Seeds: replication i plays in the environment of seed {seed} + i, with policies "
        f"seeded by child i of `SeedSequence({seed})`; all policies of a replication meet the same means, contexts and "
        f"stream of noise. {platform.system()} on {platform.machine()}, {os.cpu_count()} cores; {versions}."
    )
    return Section("How this was run", [*asked, Text(words), *tables])

"""What the numbers say of a claim: paired tests, ratios with intervals, verdicts.

All policies of a replication meet the same tensor and the same noise, so differences are taken within replications.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorbandits.report import Claim, Table, Verdict
from tensorbandits.sim.compare import Comparison
from tensorbandits.sim.plan import software

Floats = NDArray[np.float64]

LEVEL = 0.05  # of a test


class Pair(NamedTuple):
    """How ``low`` compares with ``high``: means, their ratio with its 95 % interval, and a paired one-sided t-test."""

    low: float
    high: float
    ratio: float
    interval: tuple[float, float]
    t: float
    p: float


def paired(low: Floats, high: Floats) -> Pair:
    """Compare two samples of the same replications; is the first one lower?

    The interval is Student's for the logarithm of the ratio of means, its variance by the jackknife. Nothing is tested
    with one replication: ``p`` is then NaN.

    >>> pair = paired(np.array([1.0, 1.1, 0.9]), np.array([2.0, 2.3, 1.9]))
    >>> round(pair.ratio, 2), pair.p < 0.05
    (0.48, True)
    """
    a, b, n = float(low.mean()), float(high.mean()), len(low)
    ratio = a / b if b else math.nan
    if n < 2 or not a > 0 or not b > 0:
        return Pair(a, b, ratio, (math.nan, math.nan), math.nan, math.nan)
    from scipy import stats

    left_out = np.log((low.sum() - low) / (high.sum() - high))
    half = float(stats.t.ppf(0.975, n - 1) * math.sqrt((n - 1) / n * ((left_out - left_out.mean()) ** 2).sum()))
    difference = low - high
    if np.ptp(difference) == 0:  # the same in every replication: no spread to test against
        t = 0.0 if difference[0] == 0 else math.copysign(math.inf, difference[0])
        return Pair(a, b, ratio, (ratio * math.exp(-half), ratio * math.exp(half)), t, 0.0 if t < 0 else 1.0)
    test = stats.ttest_rel(low, high, alternative="less")
    return Pair(
        a, b, ratio, (ratio * math.exp(-half), ratio * math.exp(half)), float(test.statistic), float(test.pvalue)
    )


def judge(pairs: Sequence[Pair], most: float = 1.0) -> Verdict:
    """Say whether all of the pairs have a ratio of at most ``most``, and whether the tests agree.

    With ``most`` below 1 the mean ratio decides, as such a claim is about a number and not about an order.

    >>> judge([paired(np.array([1.0, 1.1, 0.9]), np.array([2.0, 2.3, 1.9]))])
    'holds'
    """
    if any(not pair.ratio <= most for pair in pairs):
        return "does not hold here"
    if most < 1:
        return "holds"
    return "holds" if all(pair.p < LEVEL for pair in pairs) else "not decided"


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
            f"{name} {pair.high:,.0f} (ratio {show_ratio(pair)})" for name, pair in zip(high, others, strict=True)
        )
        lines.append(f"{environment}: {low} {mine.mean():,.0f} against {beside}")
    verdict = judge(pairs, most)
    after = f" after {at:,} rounds" if at else ""
    return Claim(words, source, verdict, "; ".join(lines) + after, show_test(pairs), "" if verdict == "holds" else why)


def show_ratio(pair: Pair) -> str:
    """A ratio and its interval, as text.

    >>> show_ratio(Pair(1.0, 2.0, 0.5, (0.4, 0.6), -3.0, 0.01))
    '0.50, 95 % interval 0.40 to 0.60'
    """
    if math.isnan(pair.interval[0]):
        return f"{pair.ratio:.2f}"
    return f"{pair.ratio:.2f}, 95 % interval {pair.interval[0]:.2f} to {pair.interval[1]:.2f}"


def show_test(pairs: Sequence[Pair]) -> str:
    """The weakest of the paired t-tests, which decides when all must hold."""
    tested = [pair for pair in pairs if not math.isnan(pair.p)]
    if not tested:
        return "no test with one replication"
    weakest = max(tested, key=lambda pair: pair.p)
    which = "paired t-test" if len(tested) == 1 else f"weakest of {len(tested)} paired t-tests"
    return f"{which}: t = {weakest.t:.1f}, one-sided p = {weakest.p:.1g}"


def regret_table(comparison: Comparison, baseline: str, environment: str, names: Sequence[str]) -> Table:
    """Final regrets of some policies in one environment, lowest first, beside a baseline's."""
    rows = [row for row in comparison.table(baseline) if row.environment == environment and row.policy in names]
    lines = [
        [
            row.policy,
            f"{row.mean:,.0f}",
            "–" if math.isnan(row.standard_error) else f"{row.standard_error:,.0f}",
            f"{row.median:,.0f}",
            f"{row.worst:,.0f}",
            "–" if row.ratio is None else f"{row.ratio:.3f}",
        ]
        for row in sorted(rows, key=lambda row: row.mean)
    ]
    horizon = int(comparison.select(names[0], environment)[0].rounds[-1])
    header = ["policy", "mean", "standard error", "median", "worst", f"ratio to {baseline}"]
    count = rows[0].replications
    return Table(header, lines, f"{environment}: regret after {horizon:,} rounds, {count} replications")


def how_it_was_run(seed: int, seconds: float) -> str:
    """When and how a report came about: date, time, seeds, versions; the class of machine, not which one.

    >>> how_it_was_run(0, 60.0)[:11]
    'Finished on'
    """
    versions = ", ".join(f"{name} {version}" for name, version in software().items())
    return (
        f"Finished on {datetime.now(UTC):%Y-%m-%d}; this call took {seconds / 60:.1f} minutes, less what it found "
        f"finished from earlier calls. Seeds: replication i plays in the environment of seed {seed} + i, with policies "
        f"seeded by child i of `SeedSequence({seed})`; all policies of a replication meet the same means, contexts and "
        f"stream of noise. {platform.system()} on {platform.machine()}, {os.cpu_count()} cores; {versions}."
    )

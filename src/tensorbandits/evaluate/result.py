"""What an evaluation found: estimates with intervals, differences between policies, and what to be wary of."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tensorbandits.base import html
from tensorbandits.base.checks import nearest
from tensorbandits.base.frames import Backend, to_frame
from tensorbandits.evaluate.estimators import effective_rows, interval
from tensorbandits.evaluate.targets import LOGGED
from tensorbandits.tensor.tucker import Floats

PREFERRED = ("mean", "DR", "direct", "SNIPS", "IPS", "replay")  # the first that there is speaks for a policy
METHODS = {
    "mean": "the mean of the log's own rewards",
    "replay": "rows on which the learner agrees with the log are its own run; it learns from these alone",
    "IPS": "inverse propensity scoring: rewards weighted by how much likelier the policy makes the decision",
    "SNIPS": "self-normalised IPS: the same, divided by the sum of weights",
    "DR": "doubly robust: a low-rank model that has not seen the row, corrected by its weighted errors",
    "direct": "what the low-rank model expects; it rests on the model, and propensities do not correct it",
}


@dataclass(frozen=True, eq=False)
class Estimate:
    """The value per decision of a policy by one method, with its interval.

    ``error`` is the standard error; ``effective_rows`` how many rows of equal weight would say as much, and
    ``largest_weight`` the weight of the row that counts most; a mean weight far from 1 speaks against the propensities.
    ``contributions`` (n,) are those of the rows, whose mean is the value; ``draws`` are of the value, if a model has
    its own.
    """

    policy: str
    method: str
    value: float
    error: float
    low: float
    high: float
    effective_rows: float
    largest_weight: float
    mean_weight: float
    contributions: Floats = field(repr=False)
    draws: Floats | None = field(repr=False, default=None)

    @classmethod
    def of(
        cls, policy: str, method: str, contributions: Floats, weights: Floats, level: float, draws: Floats | None = None
    ) -> Estimate:
        """Return the mean of contributions with its interval."""
        effective = effective_rows(weights)
        found = interval(contributions, effective, level, 0.0 if draws is None else float(draws.var(ddof=1)))
        largest, mean = float(weights.max()), float(weights.mean())
        return cls(policy, method, *found, effective, largest, mean, contributions, draws)


@dataclass(frozen=True)
class Difference:
    """By how much the value per decision of a policy is above another's, by the same rows and methods."""

    policy: str
    other: str
    method: str
    value: float
    low: float
    high: float

    @property
    def clear(self) -> bool:
        """Whether 0 is outside of the interval."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What :func:`tensorbandits.evaluate` found; ``warnings`` are sentences that say what not to trust.

    ``rows`` is how many decisions there were, ``level`` that of the intervals, ``reward`` the name of its column.

    >>> import pyarrow as pa
    >>> import tensorbandits as tb
    >>> rng = np.random.default_rng(0)
    >>> offer, channel = rng.integers(3, size=(2, 300))
    >>> table = pa.table({"offer": offer, "channel": channel, "paid": 1.0 * (offer == channel)})
    >>> log = tb.data.from_log(table, ["offer", "channel"], "paid")
    >>> found = tb.evaluate(log, {"ours": {"offer": 1, "channel": 1}}, logged="uniform")
    >>> found.policies, found.methods("ours"), found.of("ours", "SNIPS").value
    (('logged', 'ours'), ('IPS', 'SNIPS', 'DR', 'direct'), 1.0)
    """

    estimates: tuple[Estimate, ...]
    warnings: tuple[str, ...]
    rows: int
    level: float
    reward: str

    @property
    def policies(self) -> tuple[str, ...]:
        """The policies that were evaluated; the first is ``"logged"``."""
        return tuple(dict.fromkeys(estimate.policy for estimate in self.estimates))

    def methods(self, policy: str) -> tuple[str, ...]:
        """The methods by which a policy was evaluated."""
        return tuple(estimate.method for estimate in self.estimates if estimate.policy == self._known(policy))

    def of(self, policy: str, method: str | None = None) -> Estimate:
        """Return an estimate; without a method, the doubly robust one, or what there is instead."""
        there = {one.method: one for one in self.estimates if one.policy == self._known(policy)}
        if method is None:
            method = next(name for name in PREFERRED if name in there)
        if method not in there:
            raise ValueError(f"{policy!r} has no estimate by {method!r}; there are {', '.join(there)}")
        return there[method]

    def difference(self, policy: str, other: str = LOGGED, method: str | None = None) -> Difference:
        """Return how far the value of a policy is above another's: row by row, with an interval.

        A method is that of both, except that of the logged decisions, whose rewards need none.
        """
        ours = self.of(policy, method)
        theirs = self.of(other, None if other == LOGGED else ours.method)
        gap = _gap(ours.draws, theirs.draws)
        effective = min(ours.effective_rows, theirs.effective_rows)
        found = interval(ours.contributions - theirs.contributions, effective, self.level, gap)
        return Difference(policy, other, ours.method, found.value, found.low, found.high)

    def differences(self) -> list[Difference]:
        """Return the differences of each policy from the logged one and from each before it, by one method each pair.

        Policies without a method in common are not compared.
        """
        found, names = [], self.policies
        for j, policy in enumerate(names):
            for other in names[:j]:
                shared = set(self.methods(policy)) & set(self.methods(other))
                if other == LOGGED:
                    found.append(self.difference(policy))
                elif shared:
                    found.append(self.difference(policy, other, next(name for name in PREFERRED if name in shared)))
        return found

    def to_frame(self, backend: Backend | None = None) -> Any:
        """Return the estimates as a data frame, a row per policy and method.

        ``backend`` is ``"pandas"``, ``"polars"`` or ``"pyarrow"``; by default the first of these that is installed.
        """
        names = ["policy", "method", "value", "error", "low", "high", "effective_rows", "largest_weight", "mean_weight"]
        return to_frame({name: [getattr(one, name) for one in self.estimates] for name in names}, backend)

    def write(self, folder: str | os.PathLike[str] = "out/evaluate", command: str = "") -> tuple[Path, Path]:
        """Write a report as ``report.html``, which holds all that it shows, and ``report.md`` into a folder.

        ``command`` is what the report says of how it was made.
        """
        from tensorbandits.evaluate.sections import write_report

        return write_report(self, folder, command)

    def __repr__(self) -> str:
        lines = [f"Evaluation of {self.rows:,} rows, {self.level:.0%} intervals:"]
        width = max(map(len, self.policies))
        lines += [_line(self.of(policy), width) for policy in self.policies]
        return "\n".join([*lines, *(f"warning: {words}" for words in self.warnings)])

    def _repr_html_(self) -> str:
        rows = [
            [one.policy, html.bounded((one.value, one.low, one.high)), one.method, one.effective_rows]
            for one in map(self.of, self.policies)
        ]
        head = ["policy", f"{self.reward} per decision", "by", "effective rows"]
        words = [f"{self.rows:,} rows, {self.level:.0%} intervals", *(f"Warning: {one}" for one in self.warnings)]
        return html.block("Evaluation", html.table(head, rows, most=50, what="policies"), words=words)

    def _known(self, policy: str) -> str:
        if policy not in self.policies:
            hint = nearest(policy, self.policies) or "give one of them"
            raise ValueError(f"{policy!r} was not evaluated; there are {list(self.policies)}: {hint}")
        return policy


def _gap(ours: Floats | None, theirs: Floats | None) -> float:
    """Return the variance that a model adds to a difference; its draws are the same for both."""
    if ours is None:
        return 0.0
    return float(np.var(ours if theirs is None else ours - theirs, ddof=1))


def _line(one: Estimate, width: int) -> str:
    bounds = "no interval" if math.isnan(one.low) else f"{one.low:.4g} to {one.high:.4g}"
    return f"  {one.policy:<{width}}  {one.value:.4g} ({bounds}) by {one.method}"

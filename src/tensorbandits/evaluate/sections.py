"""The report of an evaluation: what each policy is worth, by each method, beside the others, and what to be wary of."""

from __future__ import annotations

import math
import os
from pathlib import Path

from tensorbandits.base.drawing import COLOURS, as_written
from tensorbandits.base.drawing import write as write_figure
from tensorbandits.evaluate.result import METHODS, Difference, Estimate, Evaluation
from tensorbandits.evaluate.targets import LOGGED
from tensorbandits.report.evidence import amount
from tensorbandits.report.page import Code, Part, Picture, Report, Section, Table, Text, escape, write

_MARKERS = "osD^vP"


def write_report(found: Evaluation, folder: str | os.PathLike[str], command: str = "") -> tuple[Path, Path]:
    """Write ``report.html`` and ``report.md`` into a folder, and return their paths."""
    sections = [_answer(found), _estimates(found), _differences(found), _how(found, command)]
    return write(Report(f"An evaluation of {escape(found.reward)} from a log", sections), folder)


def answer(found: Evaluation) -> list[str]:
    """Return a sentence for each policy, the logged one first and the others by their value."""
    logged = found.of(LOGGED)
    lines = [f"The log earned **{_bounds(logged)}** {escape(found.reward, 40)} per decision."]
    others = [policy for policy in found.policies if policy != LOGGED]
    for policy in sorted(others, key=lambda policy: _order(found.of(policy).value)):
        one, beside = found.of(policy), found.difference(policy)
        lines.append(f"**{escape(policy)}**: {_bounds(one)} by {one.method}; {_than_logged(beside)}.")
    return lines


def _order(value: float) -> float:
    return math.inf if math.isnan(value) else -value


def _than_logged(beside: Difference) -> str:
    if math.isnan(beside.low):
        return "nothing can be said of how it compares with the log"
    if not beside.clear:
        return f"not told from the log ({_spread(beside)})"
    return f"{'above' if beside.value > 0 else 'below'} the log by {amount(abs(beside.value))} ({_spread(beside)})"


def _answer(found: Evaluation) -> Section:
    parts: list[Part] = [Text("\n".join(f"- {line}" for line in answer(found)))]
    if found.warnings:
        warnings = "\n".join(f"- {escape(words, 500)}." for words in found.warnings)
        parts += [Text("To be wary of:"), Text(warnings)]
    return Section("The answer", parts)


def _estimates(found: Evaluation) -> Section:
    rows = [
        [
            escape(one.policy),
            one.method,
            amount(one.value),
            _spread(one),
            f"{one.effective_rows:,.0f}",
            amount(one.largest_weight),
            amount(one.mean_weight),
        ]
        for one in found.estimates
    ]
    header = ["policy", "method", "value", f"{found.level:.0%} interval", "effective rows", "largest weight", "mean"]
    return Section(
        "Values per decision",
        [
            Picture(
                "values",
                lambda path: _figure(found, path),
                f"Values per decision with {found.level:.0%} intervals, by method; dotted: what the log earned.",
            ),
            Table(header, rows, f"from {found.rows:,} decisions"),
            Text(
                "Weights are those of rows: how much likelier the policy makes a decision than the log did. They are 1 "
                "on average if propensities are right and the log shows all that the policy decides for."
            ),
        ],
    )


def _differences(found: Evaluation) -> Section:
    rows = [
        [
            escape(one.policy),
            escape(one.other),
            one.method,
            amount(one.value),
            _spread(one),
            "yes" if one.clear else "no",
        ]
        for one in found.differences()
    ]
    header = ["policy", "less", "method", "difference", f"{found.level:.0%} interval", "told apart"]
    words = "Differences are taken row by row, so that what two policies share, such as the luck of the log, drops out."
    return Section("Policies beside each other", [Text(words), Table(header, rows)])


def _how(found: Evaluation, command: str) -> Section:
    used = dict.fromkeys(one.method for one in found.estimates)
    return Section(
        "How this was estimated",
        [
            *([Code(command)] if command else []),
            Text("\n".join(f"- **{method}**: {METHODS[method]}." for method in used)),
            Text(
                "Intervals are Student's, from the spread of the rows' contributions, with as many degrees of freedom "
                "as there are effective rows, less one; those of the model alone add the spread of its posterior. A "
                "learner is told each row only after what it would have decided there: by replay it learns from the "
                "decisions that it shares with the log, by the other methods from all earlier rows."
            ),
        ],
    )


def _spread(one: Estimate | Difference) -> str:
    return "none" if math.isnan(one.low) else f"{amount(one.low)} to {amount(one.high)}"


def _bounds(one: Estimate) -> str:
    return f"{amount(one.value)} ({_spread(one)})"


def _figure(found: Evaluation, path: Path) -> None:
    """Draw the intervals, a line per policy and method."""
    from matplotlib.figure import Figure

    shown = [one for one in found.estimates if not math.isnan(one.low)]
    methods = list(dict.fromkeys(one.method for one in shown))
    figure = Figure(figsize=(9, 1.2 + 0.32 * len(shown)), layout="constrained")
    axes = figure.subplots()
    for k, one in enumerate(shown):
        at = methods.index(one.method)
        axes.errorbar(
            one.value,
            k,
            xerr=[[one.value - one.low], [one.high - one.value]],
            fmt=_MARKERS[at % len(_MARKERS)],
            color=COLOURS[at % len(COLOURS)],
            capsize=3,
        )
    axes.axvline(found.of(LOGGED).value, color="black", linestyle=":", linewidth=1)
    axes.set_yticks(range(len(shown)), [as_written(f"{one.policy[:40]}, {one.method}") for one in shown])
    axes.invert_yaxis()
    axes.set_xlabel(as_written(f"{found.reward[:40]} per decision"))
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    write_figure(figure, path)

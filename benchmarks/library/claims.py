"""Suite ``claims``: each ratio and bound that is required of the library, measured, with its verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.library import measured, scale
from benchmarks.report import Findings, command, dash
from benchmarks.store import Options, Result, Settings, Store
from tensorbandits.report.evidence import amount, decide, student
from tensorbandits.report.page import Part, Table, Text

NAME = "claims"
ALONE = True
TITLE = "Claims"
measure = measured.measure

# What is measured, at the size that the claims are stated for; a quick run makes some of it smaller.
FULL: dict[str, Settings] = {
    "thompson": {"p": 20, "rounds": 10_000, "timed": 1_000, "twin_budget": 10.0},
    "elimination": {"p": 20, "rounds": 10_000, "pulls": 20, "twin_budget": 30.0},
    "estr": {"p": 20, "rounds": 10_000, "pulls": 20, "twin_budget": 30.0},
    "ensemble": {"p": 15, "rounds": 10_000, "later": 100_000, "windows": 10},
    "import": {"times": 5},
    "compile": {},
}
QUICK: dict[str, Settings] = {
    "thompson": FULL["thompson"] | {"timed": 300, "twin_budget": 1.0},
    "elimination": {"p": 10, "rounds": 2_000, "pulls": 10, "twin_budget": 1.0},
    "estr": {"p": 10, "rounds": 2_000, "pulls": 10, "twin_budget": 1.0},
    "ensemble": {"p": 15, "rounds": 2_000, "later": 5_000, "windows": 3},
    "import": FULL["import"],
}
SIZE = ("p", "rounds", "later", "times")  # settings that say at which size something is measured


@dataclass(frozen=True)
class Claim:
    """A number that must be at most or at least a bound; without a bound it is only reported.

    ``value`` may give a number, which is judged as it was measured, or an array of one per seed, whose mean is judged
    by its 95 % interval.
    """

    group: str
    text: str
    source: str  # what is measured
    value: Callable[[Any], float | np.ndarray]
    most: float | None = None
    least: float | None = None
    unit: str = ""

    @property
    def bound(self) -> str:
        if self.most is not None:
            return f"at most {self.show(self.most)}"
        return f"at least {self.show(self.least)}" if self.least is not None else dash

    def show(self, value: float | np.ndarray) -> str:
        if isinstance(value, np.ndarray):
            mean, half = student(value)
            return self.show(mean) if np.isnan(half) else f"{self.show(mean)} ± {self.show(half)}"
        return f"{value:.1%}" if self.unit == "%" else f"{amount(value)} {self.unit}".strip()

    def verdict(self, value: float | np.ndarray) -> str:
        """``reported``, or what the evidence says of an interval, or whether the number is within."""
        if self.most is None and self.least is None:
            return "reported"
        if isinstance(value, np.ndarray):
            mean, half = student(value)
            interval = (mean - half, mean + half) if self.most is not None else (-mean - half, -mean + half)
            return decide([interval], self.most if self.most is not None else -(self.least or 0.0))
        within = value <= self.most if self.most is not None else value >= (self.least or 0.0)
        return "holds" if within else "does not hold here"


def _size(sizes: dict[int, Any], p: int, name: str) -> list[Any]:
    return [run[name] for run in sizes[p]]


def _growth(sizes: dict[int, Any]) -> float:
    """Rounds 4,001 to 5,000 on the largest over those on the smallest."""
    medians = [float(np.median([blocks[4] for blocks in _size(sizes, p, "by_1000")])) for p in (1_000, 100)]
    return medians[0] / medians[1]


DENSE = "a dense matrix over all cells with one rank-one change per pull"
AT_20 = "p = 20, d = 3, r = 2, after 10,000 rounds"
CLAIMS = [
    Claim("a", f"Thompson, {AT_20}: a round over UCB's `np.argmax(s / n + np.sqrt(2 * np.log(t) / n))` on 8,000 arms",
          "thompson", lambda r: r["round"] / r["argmax"], most=5),
    Claim("b", "the same round: times faster than plain NumPy, row by row",
          "thompson", lambda r: r["row_by_row"] / r["round"], least=100),
    Claim("b", "times faster than vectorised NumPy, which is what release 0.1.0 ran",
          "thompson", lambda r: r["all_rows"] / r["round"]),
    Claim("c", "1000 x 1000 x 1000 cells: median round, of the slowest seed",
          "scale", lambda s: max(_size(s, 1_000, "median")) / 1e3, most=2, unit="ms"),
    Claim("c", "1000 x 1000 x 1000 cells: peak memory, of the worst seed",
          "scale", lambda s: max(_size(s, 1_000, "peak_megabytes")), most=600, unit="MB"),
    Claim("c", "1000 x 1000 x 1000 cells: the 1,000 rounds before 15,000, share of the best, mean of 5 seeds",
          "scale", lambda s: np.array(_size(s, 1_000, "last")), least=0.9, unit="%"),
    Claim("c", "the same, of the worst seed",
          "scale", lambda s: min(_size(s, 1_000, "last")), least=0.85, unit="%"),
    Claim("d", "a round on 1000^3 cells over one on 100^3, where the sum of p_j is a tenth: rounds 4,001 to 5,000",
          "scale", _growth, most=10),
    Claim("e", f"elimination, p = 20, n = 10,000: times faster per round than {DENSE}",
          "elimination", lambda r: r["dense"] / r["round"], least=50),
    Claim("e", "elimination: share of the dense twin's pulls that are the same",
          "elimination", lambda r: r["agree"] / r["pulls"], least=1.0, unit="%"),
    Claim("e", "elimination: times faster than the same dense matrix changed in place by BLAS",
          "elimination", lambda r: r["dense_in_place"] / r["round"]),
    Claim("e", "elimination: peak memory", "elimination", lambda r: r["peak_megabytes"], most=1_000, unit="MB"),
    Claim("e", f"ESTR, p = 20, n = 10,000: times faster per round than {DENSE}",
          "estr", lambda r: r["dense"] / r["round"], least=30),
    Claim("e", "ESTR: share of the dense twin's pulls that are the same",
          "estr", lambda r: r["agree"] / r["pulls"], least=1.0, unit="%"),
    Claim("f", "ensemble, p = 15, at round 10,000: a round with 1,000 models over one with 100",
          "ensemble", lambda r: r["many"] / r["few"], most=1.3),
    Claim("f", "ensemble, p = 15: a round at 100,000 over one at 10,000",
          "ensemble", lambda r: r["later"] / r["few_again"], most=1.5),
    Claim("g", "`import tensorbandits` in a fresh process, interpreter included, median of 5",
          "import", lambda r: r["process"], most=0.5, unit="s"),
    Claim("g", "the import alone", "import", lambda r: r["import"], unit="s"),
    Claim("g", "first use of every policy in an empty cache folder: compiling",
          "compile", lambda r: r["empty"], unit="s"),
    Claim("g", "the same in the next process", "compile", lambda r: r["kept"], unit="s"),
]  # fmt: skip


def plan(options: Options) -> list[Settings]:
    return [{"task": task} | settings for task, settings in (QUICK if options.quick else FULL).items()]


def label(settings: Settings) -> str:
    return str(settings["task"])


def section(store: Store, options: Options) -> Findings:
    wanted = plan(options)
    found = {settings["task"]: (settings, store.get(settings)) for settings in wanted}
    sizes = None if options.quick else _sizes(store, options)
    verdicts = [_verdict(claim, found, sizes) for claim in CLAIMS]
    rows = [[f"{v['group']}. {v['claim']}", v["shown"], v["bound"], v["verdict"]] for v in verdicts]
    parts: list[Part] = [
        Text(
            "Each number is measured in one run, in a process of its own; what is compared is timed in turns in the "
            "same process, and medians are compared, but for elimination and ESTR, whose mean round after the "
            "exploration, while more than one arm is left, is compared. Those about 1000 x 1000 x 1000 cells come "
            "from the suite `scale`, which this command runs too; a mean of seeds is judged by its 95 % interval."
        ),
        command(NAME, *options.flags),
        Table(["claim", "value", "required", "verdict"], rows),
    ]
    if options.quick:
        parts.append(Text("A quick run gives no verdict on what it did not measure at the stated size."))
    others = Store(store.path.parent, "scale").others(scale.plan(options)) if sizes else 0
    if others:
        parts.append(Text(f"{others} of the measurements of `scale` come from other versions of the code."))
    message = (found.get("compile") or (None, None))[1]
    if message:
        parts.append(Text(f"Shown at first use: `{message['message']}`"))
    results = {task: result for task, (_, result) in found.items() if result is not None}
    return parts, {"verdicts": verdicts, "measured": results}


def _sizes(store: Store, options: Options) -> dict[int, list[Result]] | None:
    """The runs of the suite ``scale`` by size, if they are all there."""
    kept = Store(store.path.parent, "scale")
    wanted = scale.plan(options)
    if not all(settings in kept for settings in wanted):
        return None
    return {p: [kept.get(settings) or {} for settings in wanted if settings["p"] == p] for p in scale.ROUNDS}


def _verdict(claim: Claim, found: dict[str, Any], sizes: Any) -> dict[str, Any]:
    settings, result = ({}, sizes) if claim.source == "scale" else found.get(claim.source, ({}, None))
    value = None if result is None else claim.value(result)
    full = FULL.get(claim.source, {})
    if value is None:
        verdict = "not measured"
    elif all(settings.get(name) == full[name] for name in SIZE if name in full):
        verdict = claim.verdict(value)
    else:
        verdict = "none: measured at " + ", ".join(f"{name} = {settings[name]:,}" for name in SIZE if name in settings)
    number = None if value is None else float(np.mean(value))
    facts = {"group": claim.group, "claim": claim.text, "value": number, "bound": claim.bound, "verdict": verdict}
    return facts | {"shown": dash if value is None else claim.show(value)}

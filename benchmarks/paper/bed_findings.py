"""What the suite ``beds`` concludes: whether what is required holds, curves, and a table per bed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.paper.bed_lines import BEDS, LABELS, MENU, OTHERS, OURS, first_seed
from benchmarks.paper.regret import Requirement, judge, verdict_table
from benchmarks.report import Findings, command, dash
from benchmarks.store import Options, read_lines
from tensorbandits.report.evidence import Floats, amount, paired, student
from tensorbandits.report.page import Part, Picture, Table, Text
from tensorbandits.sim.compare import Comparison
from tensorbandits.sim.plots import Panel, band_words, plot_panels

REFERENCE = Path(__file__).parent / "reference" / "beds.jsonl"  # of Thompson sampling before it chose structures
BEST, BEFORE, LAST = "best of the menu", "told, before", "last tenth"
NEAR = 1.25  # times the regret of the best fixed structure
MOST = {"flights": 1_300, "bikes": 4_500, "bikes-given": 1_700}  # mean regret
LEAST = {"campaign-main": 0.85, "campaign-none": 0.75}  # share of the oracle's clicks in the last tenth
SHOWN = (OURS, "ensemble", "ucb", "arms", "additive", BEST)  # in the figure
COLUMNS = 3  # of the figure


def section(comparison: Comparison, options: Options) -> Findings:
    """Report verdicts, curves and one table per bed."""
    found = comparison.environments
    seed = first_seed(options.fresh_seed)
    given = [] if options.quick else [line for bed in found for line in judged(comparison, bed, seed)]
    parts: list[Part] = [_introduction(seed, keep=options.keep), command("beds", *options.flags, *_extra(options))]
    parts += [Text("A quick run is too short to judge anything by.")] if options.quick else []
    parts += [verdict_table(given)] if given else []
    words = f"Mean cumulative regret on each bed, {band_words(comparison)}; the axes are logarithmic."
    parts.append(Picture("beds", partial(draw, comparison), words))
    rows = {bed: numbers(comparison, bed, seed) for bed in found}
    parts += [table(bed, rows[bed]) for bed in found]
    return parts, {"seed": seed, "beds": rows, "requirements": given}


def _introduction(seed: int, *, keep: bool) -> Text:
    menu = ", ".join(key.replace("-", " ") for key in MENU)
    earlier = f" Runs of {', '.join(OTHERS)} may be of an earlier version of the code." if keep else ""
    return Text(
        "Thompson sampling with all its defaults, told the kind of reward (clicks, counts) and nothing else. Beside "
        "it: the paper's ensemble sampling, told the rank, vectorized UCB, Beta-Bernoulli arms (clicks), Thompson "
        f"sampling with main effects alone, and a menu of fixed structures ({menu}). Of clicks and counts, "
        "ensemble sampling and UCB are told the mean and spread, since their values suppose rewards of scale 1. "
        f"Replication i plays in the world of seed {seed:,} + i; all policies of a replication meet the "
        f"same means, contexts and stream of noise. Ratios are of mean regrets, paired by replication.{earlier}"
    )


def finals(comparison: Comparison, bed: str) -> dict[str, Floats]:
    """The final regrets of each line of a bed."""
    lines = dict.fromkeys(run.policy for run in comparison.runs if run.environment == bed)
    return {line: comparison.at(line, bed) for line in lines}


def best_of_menu(found: dict[str, Floats]) -> str | None:
    """The fixed structure with the lowest mean regret, if any was played; a true one that was told counts too."""
    return min((line for line in found if line in (*MENU, "told")), key=lambda line: found[line].mean(), default=None)


def shares(comparison: Comparison, bed: str, line: str, seed: int) -> tuple[Floats, Floats]:
    """What each replication earned of what the best cells would have, in the whole run and in its last tenth.

    Both are free of noise: of the means of the cells played, and of the best cells given the contexts that came.
    """
    runs = comparison.select(line, bed)
    rounds = int(runs[0].rounds[-1])
    cut = rounds * 9 // 10
    regret, before = comparison.at(line, bed), comparison.at(line, bed, cut)
    early, late = np.array([oracle(bed, seed + run.replication, rounds, cut) for run in runs]).T
    return 1 - regret / (early + late), 1 - (regret - before) / late


@cache
def oracle(bed: str, seed: int, rounds: int, cut: int) -> tuple[float, float]:
    """What the best cells earn in the world of a seed, up to a round and after it."""
    environment = BEDS[bed].world(seed)
    best = np.array([environment.best_mean(environment.context()) for _ in range(rounds)])
    return float(best[:cut].sum()), float(best[cut:].sum())


def judged(comparison: Comparison, bed: str, seed: int) -> list[dict[str, Any]]:
    """What is required of a bed, and whether it holds."""
    found = finals(comparison, bed)
    beside = {line: 1.0 for line in (*OTHERS, "additive")}
    if (best := best_of_menu(found)) is not None:
        found[BEST], beside[BEST] = found[best], NEAR
    if bed in LEAST and OURS in found:
        found[LAST] = shares(comparison, bed, OURS, seed)[1]
    if "told" in found:
        found |= _before(bed, seed, len(found["told"]))
    wanted = [
        Requirement(f"{bed}: told nothing, over {_named(line, best)}", OURS, "mean", most, over=line)
        for line, most in beside.items()
    ]
    wanted += [Requirement(f"{bed}: told nothing, mean", OURS, "mean", MOST[bed])] if bed in MOST else []
    if bed in LEAST:
        words = f"{bed}: told nothing, share of the oracle's clicks in the last tenth"
        wanted.append(Requirement(words, LAST, "mean", 1.0, least=LEAST[bed]))
    wanted.append(Requirement(f"{bed}: told the true rank, over the same before", "told", "mean", 1.0, over=BEFORE))
    wanted.append(Requirement(f"{bed}: told the true rank, worst over median", "told", "tail", 3.0))
    return judge(found, wanted)


def _named(line: str, best: str | None) -> str:
    return f"the {BEST} ({best})" if line == BEST else line


def _before(bed: str, seed: int, count: int) -> dict[str, Floats]:
    """The final regrets of the reference on the same worlds, if it has them all."""
    kept = {(line["bed"], line["seed"]): float(line["final"]) for line in read_lines(REFERENCE)}
    values = [kept.get((bed, seed + i)) for i in range(count)]
    return {} if None in values else {BEFORE: np.array(values)}


def numbers(comparison: Comparison, bed: str, seed: int) -> list[dict[str, Any]]:
    """One row per line of a bed, lowest mean first, as numbers."""
    found = finals(comparison, bed)
    rows = []
    for line, values in sorted(found.items(), key=lambda item: float(item[1].mean())):
        runs = comparison.select(line, bed)
        mean, half = student(values)
        row = {"line": line, "replications": len(values), "rounds": int(runs[0].rounds[-1]), "mean": mean}
        row |= {"half_width": half, "median": float(np.median(values)), "worst": float(values.max())}
        row["microseconds"] = float(np.mean([run.microseconds for run in runs]))
        if OURS in found and line != OURS:
            count = min(len(values), len(found[OURS]))
            pair = paired(values[:count], found[OURS][:count])
            row["ratio"], (row["ratio_low"], row["ratio_high"]) = pair.ratio, pair.interval
        if BEDS[bed].reward == "bernoulli":
            row["share"], row["last"] = (float(part.mean()) for part in shares(comparison, bed, line, seed))
        rows.append({name: value for name, value in row.items() if value == value})  # JSON has no NaN
    return rows


def table(bed: str, rows: list[dict[str, Any]]) -> Table:
    """The rows of a bed in words."""
    clicks = "share" in rows[0]
    header = ["policy", "replications", "mean", "95 % interval", "median", "worst", "worst / median", "over ours"]
    header += ["share of the oracle's clicks", LAST] if clicks else []
    lines = []
    for row in rows:
        half, middle = row.get("half_width"), row["median"]
        interval = dash if half is None else f"{amount(row['mean'] - half)} to {amount(row['mean'] + half)}"
        line = [LABELS[row["line"]], str(row["replications"]), amount(row["mean"]), interval, amount(middle)]
        line += [amount(row["worst"]), f"{row['worst'] / middle:.2f}" if middle else dash, _ratio(row)]
        lines.append(line + ([f"{row['share']:.3f}", f"{row['last']:.3f}"] if clicks else []))
    return Table(header, lines, f"{bed}: {BEDS[bed].words}; regret after {rows[0]['rounds']:,} rounds")


def _ratio(row: dict[str, Any]) -> str:
    if "ratio" not in row:
        return dash
    interval = f" ({row['ratio_low']:.2f} to {row['ratio_high']:.2f})" if "ratio_low" in row else ""
    return f"{row['ratio']:.2f}{interval}"


def draw(comparison: Comparison, path: Path) -> None:
    """One panel per bed: ours, the others, and the best fixed structure."""
    runs, panels = list(comparison.runs), []
    for bed in comparison.environments:
        best = best_of_menu(finals(comparison, bed))
        runs += [replace(run, policy=BEST) for run in comparison.select(best, bed)] if best else []
    known = Comparison(tuple(replace(run, policy=_label(run.policy)) for run in runs if run.policy in SHOWN))
    for bed in known.environments:
        here = {run.policy for run in known.runs if run.environment == bed}
        panels.append(Panel(known, bed, bed, [name for name in map(_label, SHOWN) if name in here], "log"))
    rows = [panels[i : i + COLUMNS] for i in range(0, len(panels), COLUMNS)]
    plot_panels(rows, path, looks={_label(line): (i, i) for i, line in enumerate(SHOWN)})


def _label(line: str) -> str:
    return LABELS.get(line, line)


def _extra(options: Options) -> Iterable[str]:
    usual = Options()
    names = ("beds", "only", "replications", "slow_replications", "menu_replications")
    given = {"--" + name.replace("_", "-"): (getattr(options, name), getattr(usual, name)) for name in names}
    given["--seed"] = options.fresh_seed, usual.fresh_seed
    words = [f"{flag} {value}" for flag, (value, default) in given.items() if value != default]
    return words + (["--keep"] if options.keep else [])

"""``python -m benchmarks``: measure what is missing, then write the page, the numbers and the figures."""

from __future__ import annotations

import shlex
import shutil
import sys
from enum import StrEnum
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown

from benchmarks import against, beside, claims, logs, regret, rounds, scale
from benchmarks.report import Chapter, chapter, write_all
from benchmarks.run import run_all
from benchmarks.store import Options, Store
from tensorbandits.report import Section

SUITES: dict[str, ModuleType] = {suite.NAME: suite for suite in (regret, rounds, scale, beside, logs, claims, against)}
Suite = StrEnum("Suite", list(SUITES))
FOR_REGRET = ("replications", "slow_replications", "rounds", "seed", "only")


def main(
    context: typer.Context,
    suites: Annotated[list[Suite] | None, typer.Argument(help="What to measure; none named: everything.")] = None,
    quick: Annotated[bool, typer.Option(help="Everything within about 3 minutes; small sizes, few verdicts.")] = False,
    out: Annotated[Path, typer.Option(help="Folder of the measurements and of the report.")] = Path("out/bench"),
    docs: Annotated[Path | None, typer.Option(help="Folder to write the report into as well.")] = None,
    fresh: Annotated[bool, typer.Option(help="Measure again what is kept from earlier.")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Processes of regret and peers; the others run alone.")] = 2,
    replications: Annotated[int, typer.Option(min=1, help="regret: of the quick policies.")] = 30,
    slow_replications: Annotated[int, typer.Option(min=1, help="regret: of elimination and ESTR.")] = 30,
    rounds_: Annotated[int, typer.Option("--rounds", min=1, help="regret: rounds of each run.")] = regret.ROUNDS,
    seed: Annotated[
        int, typer.Option(min=0, help="regret, scale: seed of the first tensor; the next ones follow.")
    ] = 0,
    only: Annotated[str, typer.Option(help=f"regret: comma-separated, of {', '.join(regret.ENTRIES)}.")] = "",
    commit: Annotated[str, typer.Option(help="against: the commit whose rounds are compared with.")] = "",
    machine: Annotated[str, typer.Option(help="What to call this machine in the report.")] = "cloud server",
) -> None:
    """Measure what is missing and report it: regret, rounds, scale, peers, logs, claims, against.

    Every measurement is kept as it finishes, so that an interrupted run goes on where it stopped.
    """
    chosen = [SUITES[name] for name in SUITES if not suites or Suite(name) in suites]
    given = [name for name in FOR_REGRET if _is_given(context, name)]
    if scale in chosen and "seed" in given and regret not in chosen:
        given.remove("seed")
    if given and regret not in chosen:
        raise typer.BadParameter(f"{_flags(given)} is for the suite regret, which is not among those named")
    if quick and set(given) - {"only", "seed"}:
        raise typer.BadParameter(f"--quick sets {_flags(sorted(set(given) - {'only', 'seed'}))} itself; leave one out")
    if commit and against not in chosen:
        raise typer.BadParameter("--commit is for the suite against, which is not among those named")
    for folder in (out, docs):
        if folder is not None and folder.exists() and not folder.is_dir():
            raise typer.BadParameter(f"{folder} is a file; name a folder for the report")
    options = Options(quick, commit, replications, slow_replications, rounds_, seed, only)
    try:  # before anything is measured, so that a mistake is known at once
        plans = {suite.NAME: suite.choose(options) if suite is regret else suite.plan(options) for suite in chosen}
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    try:
        start = perf_counter()
        chapters = [_measure(suite, plans[suite.NAME], options, out, fresh, jobs) for suite in chosen]
        line = shlex.join(["python", "-m", "benchmarks", *sys.argv[1:]])
        path = write_all(chapters, out, docs, line=line, word=machine, quick=quick, seconds=perf_counter() - start)
    except KeyboardInterrupt:
        typer.echo(f"\ninterrupted; what was measured is kept in {out}: the same command goes on from there", err=True)
        raise typer.Exit(code=130) from None
    Console().print(Markdown(path.read_text(encoding="utf-8"))) if sys.stdout.isatty() else print(path.read_text())
    Console(stderr=True).print(f"written to {path}, with report.html, results.json and figures beside it")


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source("rounds_" if name == "rounds" else name)
    return source is not None and source.name == "COMMANDLINE"


def _flags(names: list[str]) -> str:
    return ", ".join("--" + name.replace("_", "-") for name in names)


def _measure(suite: ModuleType, wanted: list, options: Options, out: Path, fresh: bool, jobs: int) -> Chapter:
    """Measure what is missing of a suite, and return its chapter."""
    console = Console(stderr=True)
    if suite is regret:
        folder = out / regret.NAME
        if fresh:
            shutil.rmtree(folder, ignore_errors=True)
        comparison = regret.run(options, folder, jobs)
        parts, data = regret.section(comparison, options)
        return Chapter(regret.NAME, Section(regret.TITLE, parts), data, sum(run.seconds for run in comparison.runs))
    if suite is claims and not options.quick:  # some claims are about measurements of that suite
        run_all(scale, scale.plan(options), Store(out, scale.NAME), jobs, console)
    store = Store(out, suite.NAME, fresh, getattr(suite, "MEASURED", "tensorbandits.sim.jobs"))
    run_all(suite, wanted, store, jobs, console)
    return chapter(suite, suite.section(store, options), store, wanted)


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    app.command()(main)
    app()

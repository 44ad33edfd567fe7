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

from benchmarks.library import (
    against,
    application,
    calibration,
    change,
    checkups,
    claims,
    cost,
    evaluation,
    features,
    feedback,
    kinds,
    logs,
    modes,
    numeric,
    programme,
    revenue,
    ring,
    rounds,
    scale,
    studies,
    trust,
)
from benchmarks.paper import beds, beside, exploration, locking, regret, sensitivity, stuck
from benchmarks.report import Chapter, chapter, write_all
from benchmarks.run import run_all
from benchmarks.service import deciders, durability, lake, load, replicas, soak, waits
from benchmarks.store import Options, Store
from tensorbandits.report.page import Section

SUITES: dict[str, ModuleType] = {
    suite.NAME: suite
    for suite in (
        regret,
        rounds,
        scale,
        beside,
        logs,
        claims,
        against,
        beds,
        exploration,
        stuck,
        locking,
        sensitivity,
        calibration,
        kinds,
        cost,
        revenue,
        programme,
        modes,
        ring,
        evaluation,
        feedback,
        features,
        application,
        change,
        numeric,
        studies,
        trust,
        checkups,
        durability,
        load,
        soak,
        replicas,
        waits,
        deciders,
        lake,
    )
}
Suite = StrEnum("Suite", list(SUITES))
WHEN_NAMED = (
    beds,
    exploration,
    stuck,
    locking,
    sensitivity,
    calibration,
    kinds,
    cost,
    revenue,
    programme,
    modes,
    ring,
    evaluation,
    feedback,
    features,
    application,
    change,
    numeric,
    trust,
    checkups,
    durability,
    load,
    soak,
    replicas,
    waits,
    deciders,
    lake,
)  # suites of many hours, or that need no repeating
PLAYED = (regret, beds, exploration)  # whose runs are those of `tensorbandits.compare`
# The options that not every suite takes, and those that do.
FOR = {
    "replications": (regret, beds, exploration, locking, sensitivity, programme, modes, ring, features, numeric),
    "slow_replications": (regret, beds, exploration),
    "menu_replications": (beds,),
    "rounds": (regret,),
    "seed": (
        *(regret, scale, beds, exploration, locking, sensitivity, calibration, evaluation, feedback, change, revenue),
        *(programme, modes, ring, features, trust, numeric),
    ),
    "only": (regret, beds, locking, sensitivity, programme),
    "beds": (beds, exploration, locking, sensitivity, ring),
    "keep": (beds,),
    "commit": (against, studies),
}
WITH_QUICK = ("only", "seed", "beds", "keep", "commit")


def main(
    context: typer.Context,
    suites: Annotated[list[Suite] | None, typer.Argument(help="What to measure; none named: everything.")] = None,
    quick: Annotated[bool, typer.Option(help="Everything within about 3 minutes; small sizes, few verdicts.")] = False,
    out: Annotated[Path, typer.Option(help="Folder of the measurements and of the report.")] = Path("out/bench"),
    docs: Annotated[Path | None, typer.Option(help="Folder to write the report into as well.")] = None,
    fresh: Annotated[bool, typer.Option(help="Measure again what is kept from earlier.")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Processes of regret and peers; the others run alone.")] = 2,
    replications: Annotated[int, typer.Option(min=1, help="regret: of the quick policies; others: of all.")] = 30,
    slow_replications: Annotated[
        int, typer.Option(min=1, help="regret: of elimination and ESTR; beds: at most, of long beds.")
    ] = 30,
    menu_replications: Annotated[int, typer.Option(min=1, help="beds: at most, of the menu of structures.")] = 30,
    rounds_: Annotated[int, typer.Option("--rounds", min=1, help="regret: rounds of each run.")] = regret.ROUNDS,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0,
            show_default=f"0; beds: {Options.fresh_seed}",
            help="regret, scale, beds: seed of the first world; the next ones follow.",
        ),
    ] = None,
    only: Annotated[
        str,
        typer.Option(
            help=f"Comma-separated; regret: of {', '.join(regret.ENTRIES)}; beds: of {', '.join(beds.LABELS)}; "
            "sensitivity: constants of Tuning."
        ),
    ] = "",
    beds_: Annotated[str, typer.Option("--beds", help=f"beds: comma-separated, of {', '.join(beds.BEDS)}.")] = "",
    keep: Annotated[
        bool, typer.Option(help="beds: keep runs of policies other than Thompson sampling though the code changed.")
    ] = False,
    commit: Annotated[str, typer.Option(help="against, studies: the commit to compare with.")] = "",
    machine: Annotated[str, typer.Option(help="What to call this machine in the report.")] = "cloud server",
) -> None:
    """Measure what is missing and report it: regret, rounds, scale, peers, logs, claims, against.

    The suites beds, exploration, stuck, locking, sensitivity, calibration, kinds, cost, revenue, programme, modes,
    ring, evaluation, feedback, features, application, change, numbers and trust run only when named, the first two and
    sensitivity for hours; so do durability, load, soak, replicas, waits, deciders and lake, which measure the service.
    Every measurement is kept as it finishes, so that an interrupted run goes on where it stopped.
    """
    chosen = [SUITES[name] for name in SUITES if (Suite(name) in suites if suites else SUITES[name] not in WHEN_NAMED)]
    given = [name for name in FOR if _is_given(context, name)]
    for name in given:
        if not any(suite in chosen for suite in FOR[name]):
            able = " and ".join(suite.NAME for suite in FOR[name])
            raise typer.BadParameter(f"{_flags([name])} is for the suite {able}, which is not among those named")
    if quick and set(given) - set(WITH_QUICK):
        fixed = sorted(set(given) - set(WITH_QUICK))
        raise typer.BadParameter(f"--quick sets {_flags(fixed)} itself; leave one out")
    for folder in (out, docs):
        if folder is not None and folder.exists() and not folder.is_dir():
            raise typer.BadParameter(f"{folder} is a file; name a folder for the report")
    options = Options(
        *(quick, commit, replications, slow_replications, rounds_, seed or 0, only),
        fresh_seed=seed if seed is not None else 0 if quick else Options.fresh_seed,
        beds=beds_,
        menu_replications=menu_replications,
        keep=keep,
    )
    try:  # before anything is measured, so that a mistake is known at once
        plans = {suite.NAME: (suite.choose if suite in PLAYED else suite.plan)(options) for suite in chosen}
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
    source = context.get_parameter_source(f"{name}_" if name in ("rounds", "beds") else name)
    return source is not None and source.name == "COMMANDLINE"


def _flags(names: list[str]) -> str:
    return ", ".join("--" + name.replace("_", "-") for name in names)


def _measure(suite: ModuleType, wanted: list, options: Options, out: Path, fresh: bool, jobs: int) -> Chapter:
    """Measure what is missing of a suite, and return its chapter."""
    console = Console(stderr=True)
    if suite in PLAYED:
        folder = out / suite.NAME
        if fresh:
            shutil.rmtree(folder, ignore_errors=True)
        comparison = suite.run(options, folder, jobs)
        parts, data = suite.section(comparison, options)
        return Chapter(suite.NAME, Section(suite.TITLE, parts), data, sum(run.seconds for run in comparison.runs))
    if suite is claims and not options.quick:  # some claims are about measurements of that suite
        run_all(scale, scale.plan(options), Store(out, scale.NAME), jobs, console)
    store = Store(out, suite.NAME, fresh, getattr(suite, "MEASURED", "tensorbandits.sim.jobs"))
    run_all(suite, wanted, store, jobs, console)
    return chapter(suite, suite.section(store, options), store, wanted)


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    app.command()(main)
    app()

"""Run items of the evaluation, and write the report."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tensorbandits.checks import check_count
from tensorbandits.evidence import FEW, how_it_was_run
from tensorbandits.paper import figure2, figure3, figure4, figure_s1, table1
from tensorbandits.paper.item import Item, Study
from tensorbandits.report import Claims, Code, Report, Section, Table, Text, write
from tensorbandits.sim.compare import Comparison, Where, compare
from tensorbandits.sim.progress import rounds_bar

ITEMS = {item.name: item for item in (module.ITEM for module in (figure2, figure3, figure4, figure_s1, table1))}
REPLICATIONS, QUICK_REPLICATIONS = 30, 3


def choose_items(names: Sequence[str]) -> list[Item]:
    """Return the items named, in their own order; ``all`` is every one.

    >>> [item.name for item in choose_items(["table1", "figure2"])]
    ['figure2', 'table1']
    """
    unknown = [name for name in names if name != "all" and name not in ITEMS]
    if unknown:
        raise ValueError(f"there is no item {unknown[0]!r}; choose from {', '.join(ITEMS)} and all")
    return [item for name, item in ITEMS.items() if not names or name in names or "all" in names]


def plan(items: Sequence[Item], quick: bool) -> list[Study]:
    """Return the studies of the items; one that two items share is run once.

    >>> [study.name for study in plan([ITEMS["figure2"]], quick=True)]
    ['figure2', 'figure2-long']
    """
    return list({study.name: study for item in items for study in item.studies(quick)}.values())


def reproduce(
    names: Sequence[str] = ("all",),
    folder: str | os.PathLike[str] = "out/reproduce",
    *,
    quick: bool = False,
    replications: int | None = None,
    seed: int = 0,
    where: Where | None = None,
    progress: bool = False,
    command: str = "",
) -> tuple[Path, Path]:
    """Run items of the paper's evaluation and write ``report.html`` and ``report.md`` into a folder.

    Every finished run is kept in ``folder/results``, so the same call again only reads them, and one that was stopped
    goes on. ``progress`` shows a bar on standard error, ``command`` is what the report says made it; the other
    arguments are those of :func:`tensorbandits.compare`.
    """
    items = choose_items(names)
    count = check_count(
        (QUICK_REPLICATIONS if quick else REPLICATIONS) if replications is None else replications, "replications"
    )
    place, start = Path(folder), time.perf_counter()
    studies = plan(items, quick)
    results: dict[str, Comparison] = {}
    rounds = sum(len(study.policies) * len(study.environments) * count * study.horizon for study in studies)
    with rounds_bar(rounds, progress) as advance:
        for study in studies:
            results[study.name] = compare(
                study.policies,
                study.environments,
                horizon=study.horizon,
                replications=count,
                seed=seed,
                folder=place / "results",
                where=where,
                progress=partial(advance, study.name),
            )
    sections = [item.analyse(results) for item in items]
    wall = time.perf_counter() - start
    how = _how(studies, results, count, seed, wall, command)
    title = "The paper's evaluation, reproduced"
    return write(Report(title, [_summary(sections, quick, count), *sections, how]), place)


def _summary(sections: Sequence[Section], quick: bool, count: int) -> Section:
    claims = [
        claim for section in sections for part in section.parts if isinstance(part, Claims) for claim in part.claims
    ]
    rows = [[claim.words, claim.source, claim.verdict] for claim in claims]
    if quick:
        warning = (
            f"This is the quick form, {count} replications and short horizons: it shows that everything runs. No "
            "verdict below should be believed; leave out `--quick` for those."
        )
    elif count < FEW:
        warning = f"Only {count} replications: verdicts and intervals below are rough; the paper, and we, take 30."
    else:
        warning = (
            "An order holds, or does not, if the 95 % interval (in brackets) of the ratio of mean regrets lies "
            "below, or above, 1; else it is not decided. A number, such as 75 % below, is judged by the means. The "
            "sections below have all of them."
        )
    return Section("Summary", [Text(warning), Table(["claim", "source", "verdict"], rows)])


def _how(
    studies: Sequence[Study], results: dict[str, Comparison], count: int, seed: int, wall: float, command: str
) -> Section:
    rows = [
        [
            study.name,
            f"{len(study.policies)}",
            f"{len(study.environments)}",
            f"{study.horizon:,}",
            f"{count}",
            f"{sum(run.seconds for run in results[study.name].runs) / 60:.1f}",
        ]
        for study in studies
    ]
    used: dict[tuple[str, str], list[str]] = {}
    for study in studies:
        for name, recipe in study.policies.items():
            used.setdefault((name, str(recipe)), []).append(study.name)
    recipes = [[name, settings, ", ".join(names)] for (name, settings), names in used.items()]
    return Section(
        "How this was run",
        [
            *([Code(command)] if command else []),
            Text(how_it_was_run(seed, wall)),
            Table(
                ["study", "policies", "environments", "rounds", "replications", "minutes inside policies"],
                rows,
                "The studies",
            ),
            Table(
                ["policy", "settings", "studies"],
                recipes,
                "The policies, as `tensorbandits simulate --policy` takes them",
            ),
        ],
    )

"""Run items of the evaluation, and write the report."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, get_args

from tensorbandits.base.checks import check_count
from tensorbandits.paper import figure2, figure3, figure4, figure_s1, table1
from tensorbandits.paper.item import Experiment, Item, Results
from tensorbandits.report.evidence import FEW, RULE, how_section
from tensorbandits.report.page import Claim, Claims, Report, Section, Table, Text, Verdict, write
from tensorbandits.sim.compare import Comparison, compare
from tensorbandits.sim.progress import rounds_bar
from tensorbandits.sim.where import Where

ITEMS: dict[str, Item] = {
    "figure2": figure2,
    "figure3": figure3,
    "figure4": figure4,
    "figureS1": figure_s1,
    "table1": table1,
}
REPLICATIONS, QUICK_REPLICATIONS = 30, 3


class Reproduction(NamedTuple):
    """What was written, ``report.html`` and ``report.md``, and the claims in them with their verdicts."""

    page: Path
    twin: Path
    claims: tuple[Claim, ...]

    def tally(self) -> str:
        """How many claims have each verdict, as words.

        >>> claims = [Claim("a is below b", "here", verdict, "") for verdict in ("holds", "not decided", "not decided")]
        >>> Reproduction(Path("report.html"), Path("report.md"), tuple(claims)).tally()
        'verdicts on 3 claims: holds 1, does not hold here 0, not decided 2'
        """
        counts = Counter(claim.verdict for claim in self.claims)
        numbers = ", ".join(f"{word} {counts[word]}" for word in get_args(Verdict))
        return f"verdicts on {len(self.claims)} claims: {numbers}"


def choose_items(names: Sequence[str]) -> dict[str, Item]:
    """Return the items named, in their own order; ``all`` is every one.

    >>> list(choose_items(["table1", "figure2"]))
    ['figure2', 'table1']
    """
    unknown = [name for name in names if name != "all" and name not in ITEMS]
    if unknown:
        raise ValueError(f"there is no item {unknown[0]!r}; choose from {', '.join(ITEMS)} and all")
    return {name: item for name, item in ITEMS.items() if not names or name in names or "all" in names}


def plan(items: Iterable[Item], quick: bool) -> dict[str, Experiment]:
    """Return the experiments of the items by name; one that two items share is run once.

    >>> list(plan([ITEMS["figure2"]], quick=True))
    ['figure2', 'figure2-long']
    """
    return {experiment.name: experiment for item in items for experiment in item.experiments(quick)}


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
) -> Reproduction:
    """Run items of the paper's evaluation and write ``report.html`` and ``report.md`` into a folder.

    Every finished run is kept in ``folder/results``, so the same call again only reads them, and one that was stopped
    goes on. ``progress`` shows a bar on standard error, ``command`` is what the report says made it; the other
    arguments are those of :func:`tensorbandits.compare`.
    """
    items = choose_items(names).values()
    count = check_count(
        (QUICK_REPLICATIONS if quick else REPLICATIONS) if replications is None else replications, "replications"
    )
    place, start = Path(folder), time.perf_counter()
    experiments = plan(items, quick)
    comparisons: dict[str, Comparison] = {}
    rounds = sum(len(e.policies) * len(e.environments) * count * e.horizon for e in experiments.values())
    with rounds_bar(rounds, progress) as advance:
        for name, experiment in experiments.items():
            comparisons[name] = compare(
                experiment.policies,
                experiment.environments,
                horizon=experiment.horizon,
                replications=count,
                seed=seed,
                where=where,
                folder=place / "results",
                progress=partial(advance, name),
            )
    results = Results(experiments, comparisons, seed)
    sections = [item.analyse(results) for item in items]
    claims = [
        claim for section in sections for part in section.parts if isinstance(part, Claims) for claim in part.claims
    ]
    how = _how(results, count, time.perf_counter() - start, command)
    title = "The paper's evaluation, reproduced"
    return Reproduction(*write(Report(title, [_summary(claims, quick, count), *sections, how]), place), tuple(claims))


def _summary(claims: Sequence[Claim], quick: bool, count: int) -> Section:
    rows = [[claim.words, claim.source, claim.verdict] for claim in claims]
    if quick:
        warning = (
            f"This is the quick form, {count} replications and short horizons: it shows that everything runs. No "
            "verdict below should be believed; leave out `--quick` for those."
        )
    elif count < FEW:
        warning = f"Only {count} replications: intervals below are rough; the paper, and we, take 30."
    else:
        warning = "The sections below have what was measured."
    return Section("Summary", [Text(f"{RULE} {warning}"), Table(["claim", "source", "verdict"], rows)])


def _how(results: Results, count: int, wall: float, command: str) -> Section:
    rows = [
        [
            name,
            f"{len(experiment.policies)}",
            f"{len(experiment.environments)}",
            f"{experiment.horizon:,}",
            f"{count}",
            f"{sum(run.seconds for run in results[name].runs) / 60:.1f}",
        ]
        for name, experiment in results.experiments.items()
    ]
    used: dict[tuple[str, str], list[str]] = {}
    for name, experiment in results.experiments.items():
        for policy, recipe in experiment.policies.items():
            used.setdefault((policy, str(recipe)), []).append(name)
    recipes = [[name, settings, ", ".join(names)] for (name, settings), names in used.items()]
    header = ["experiment", "policies", "environments", "rounds", "replications", "minutes inside policies"]
    words = "The policies, as `tensorbandits simulate --policy` takes them"
    return how_section(
        results.seed,
        wall,
        command,
        Table(header, rows, "The experiments"),
        Table(["policy", "settings", "experiments"], recipes, words),
    )

"""What is to be read: a chapter per suite, written with the library's own report, and the numbers beside it as JSON."""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.store import Settings, Store
from tensorbandits.report.page import Code, Part, Report, Section, Text, write
from tensorbandits.sim.plan import software

dash = "–"


Findings = tuple[list[Part], Any]  # what a suite reports, and its numbers


@dataclass(frozen=True)
class Chapter:
    """One suite's section of the page, its numbers, and how many seconds its measurements took."""

    name: str
    section: Section
    data: Any
    seconds: float


def command(suite: str, *more: str) -> Code:
    """The command that measures a suite."""
    return Code(" ".join(["python", "-m", "benchmarks", suite, *more]))


def duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"


def chapter(suite: Any, findings: Findings, store: Store, wanted: Iterable[Settings]) -> Chapter:
    """Add what is said of every suite: how much is of other code, whether times can be trusted, how long it took."""
    listed, (said, data) = list(wanted), findings
    others, seconds = store.others(listed), store.seconds(listed)
    if others:
        said.append(
            Text(
                f"{others} of these {len(listed)} measurements come from other versions of the code; `--fresh` renews."
            )
        )
    busy = store.busy(listed) if suite.ALONE and getattr(suite, "ONE_CORE", True) else 0
    if busy:
        said.append(
            Text(
                f"Other processes kept the machine busy during {busy} of these {len(listed)} measurements: their times "
                "are too long, and ratios of times less certain."
            )
        )
    said.append(Text(f"These measurements took {duration(seconds)} in all."))
    return Chapter(suite.NAME, Section(suite.TITLE, said), data, seconds)


def write_all(
    chapters: Sequence[Chapter], folder: Path, docs: Path | None, *, line: str, word: str, quick: bool, seconds: float
) -> Path:
    """Write the report, as HTML and Markdown, and the numbers into a folder; return the Markdown's path.

    ``docs`` gets the Markdown as ``index.md``, with its figures and numbers. ``line`` is the command line, ``word``
    what to call the machine: never a host's name.
    """
    facts = {
        "command": line,
        "quick": quick,
        "machine": f"{os.cpu_count()}-core {word}, {platform.system()} on {platform.machine()}",
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "versions": software(),
        "seconds": round(sum(chapter.seconds for chapter in chapters), 1),
    }
    sections = [_how(facts, seconds), *(chapter.section for chapter in chapters)]
    _, page = write(Report("Benchmarks", sections), folder)
    numbers = facts | {chapter.name: chapter.data for chapter in chapters}
    (folder / "results.json").write_text(json.dumps(numbers, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    if docs is not None:
        (docs / "figures").mkdir(parents=True, exist_ok=True)
        shutil.copy(page, docs / "index.md")
        shutil.copy(folder / "results.json", docs)
        for figure in (folder / "figures").glob("*.png"):
            shutil.copy(figure, docs / "figures")
    return page


def _how(facts: dict[str, Any], seconds: float) -> Section:
    listed = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    parts: list[Part] = [
        Code(facts["command"]),
        Text(
            f"Written on {facts['date']}, on a {facts['machine']}, with {listed}. The measurements took "
            f"{duration(facts['seconds'])}; this run, which made those that were missing, {duration(seconds)}. All "
            "numbers are in `results.json`."
        ),
    ]
    if facts["quick"]:
        parts.append(
            Text(
                "This was a quick run: fewer rounds, sizes and replications, to see that everything works. Its numbers "
                "are not to be quoted."
            )
        )
    return Section("How this was measured", parts)

"""What is to be read: sections of Markdown, numbers as JSON, figures, and the page that they make."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.store import Settings, Store
from tensorbandits.report import markdown_table as table

__all__ = ["Section", "dash", "duration", "finish", "number", "table", "whole", "write"]

PACKAGES = ("tensorbandits", "numpy", "scipy", "numba")
dash = "–"


@dataclass
class Section:
    """One suite's part of the page. A figure is drawn from ``data`` by a function of it and of a path."""

    name: str
    title: str
    parts: list[str]
    data: Any
    figures: dict[str, Callable[[Any, Path], str | None]] = field(default_factory=dict)
    seconds: float = 0.0


def whole(value: float | None) -> str:
    """A number without decimals, or one with three digits if it is small."""
    return dash if value is None else number(value)


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"


def finish(section: Section, store: Store, wanted: Iterable[Settings], *, alone: bool = False) -> Section:
    """Add what is said of every suite: how much is of other code, whether times can be trusted, how long it took."""
    listed = list(wanted)
    others = store.others(listed)
    section.seconds = store.seconds(listed)
    if others:
        section.parts.append(
            f"{others} of these {len(listed)} measurements come from other versions of the code; `--fresh` renews them."
        )
    busy = store.busy(listed) if alone else 0
    if busy:
        section.parts.append(
            f"Other processes kept the machine busy during {busy} of these {len(listed)} measurements: their times are "
            "too long, and ratios of times less certain."
        )
    section.parts.append(f"These measurements took {duration(section.seconds)} in all.")
    return section


def machine(word: str) -> str:
    """What the numbers were measured on: never a host's name."""
    return f"{os.cpu_count()}-core {word}, {platform.system()} on {platform.machine()}"


def versions() -> dict[str, str]:
    found = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {"python": platform.python_version()} | found


def write(sections: list[Section], folder: Path, *, command: str, word: str, quick: bool, seconds: float) -> Path:
    """Write the page, the numbers and the figures into a folder; return the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    facts = {
        "command": command,
        "quick": quick,
        "machine": machine(word),
        "date": time.strftime("%Y-%m-%d"),
        "versions": versions(),
        "seconds": round(sum(section.seconds for section in sections), 1),
    }
    page = [_head(facts, seconds)]
    for section in sections:
        page += [f"## {section.title}", *section.parts]
        for name, draw in section.figures.items():
            caption = draw(section.data, folder / f"{name}.png")
            if caption:
                page.append(f"![{caption}]({name}.png)")
    path = folder / "index.md"
    path.write_text("\n\n".join(page) + "\n", encoding="utf-8")
    numbers = facts | {section.name: section.data for section in sections}
    (folder / "results.json").write_text(json.dumps(numbers, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return path


def _head(facts: dict[str, Any], seconds: float) -> str:
    listed = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    lines = [
        "# Benchmarks",
        "",
        f"Written by `{facts['command']}` on {facts['date']}, on a {facts['machine']}, with {listed}. "
        f"The measurements took {duration(facts['seconds'])}; this run, which made those that were missing, "
        f"{duration(seconds)}. All numbers are in [results.json](results.json).",
    ]
    if facts["quick"]:
        lines += [
            "",
            "This was a quick run: fewer rounds, sizes and replications, to see that everything works. "
            "Its numbers are not to be quoted.",
        ]
    return "\n".join(lines)

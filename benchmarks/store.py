"""Measurements kept as they come: one JSON-lines file per suite, so that an interrupted run goes on where it stopped.

A measurement is known by its settings, which hold everything that decides it apart from the code and the machine. So
changed settings are never mixed with old results; results of other versions of the code are kept, and counted. Runs of
policies are kept by ``tensorbandits.compare`` instead; what is here are times, memory and the like.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensorbandits.sim.sources import source_digest

BUSY = 1.6  # processes running or waiting in the last minute; a measurement that runs alone makes 1
Settings = dict[str, Any]
Result = dict[str, Any]


@dataclass(frozen=True)
class Options:
    """What the command line asks for: the revision is for ``against``, what follows it for runs of policies."""

    quick: bool = False
    commit: str = ""
    replications: int = 30
    slow_replications: int = 30
    rounds: int = 10_000
    seed: int = 0
    only: str = ""
    fresh_seed: int = 9000  # of worlds on which no default was chosen
    beds: str = ""
    menu_replications: int = 30
    keep: bool = False

    @property
    def flags(self) -> tuple[str, ...]:
        """What a suite's command needs to be told of this."""
        return ("--quick",) if self.quick else ()


def key(settings: Settings) -> str:
    """The settings as text; a measurement is found again by it."""
    return json.dumps(settings, sort_keys=True, default=repr)


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield what a JSON-lines file holds; a line cut short by an interruption is left out."""
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(record, dict):
            yield record


class Store:
    """The measurements of one suite, of the library's code below a module.

    With ``fresh`` those made before count as missing; a later run without it goes on with the new ones.
    """

    def __init__(self, folder: Path, suite: str, fresh: bool = False, module: str = "tensorbandits.sim.jobs") -> None:
        self.path = folder / f"{suite}.jsonl"
        self.code = source_digest(module)
        kept = [] if fresh else read_lines(self.path)
        self._kept = {record["key"]: record for record in kept if {"key", "code", "result"} <= record.keys()}

    def __contains__(self, settings: Settings) -> bool:
        return key(settings) in self._kept

    def get(self, settings: Settings) -> Result | None:
        record = self._kept.get(key(settings))
        return record["result"] if record else None

    def add(self, settings: Settings, result: Result, seconds: float) -> None:
        """Keep a measurement, which took some seconds, in memory and on disk."""
        record = {"key": key(settings), "code": self.code, "seconds": round(seconds, 3), "result": result}
        record["load"] = round(os.getloadavg()[0], 2)
        self._kept[record["key"]] = record
        if "failed" in result:  # to be tried again by the next run
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as log:
            log.write("\n" + json.dumps(record, allow_nan=False))  # a new line first: the last one may be cut short

    def busy(self, settings: Iterable[Settings]) -> int:
        """How many of these measurements were made while other processes kept the machine busy."""
        return sum(record.get("load", 0.0) > BUSY for record in self._records(settings))

    def others(self, settings: Iterable[Settings]) -> int:
        """How many of these measurements come from other versions of the code."""
        return sum(record["code"] != self.code for record in self._records(settings))

    def seconds(self, settings: Iterable[Settings]) -> float:
        """How long these measurements took."""
        return float(sum(record["seconds"] for record in self._records(settings)))

    def _records(self, settings: Iterable[Settings]) -> list[dict[str, Any]]:
        return [self._kept[text] for text in map(key, settings) if text in self._kept]

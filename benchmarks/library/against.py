"""Suite ``against``: what a round costs beside another commit of this repository, and what a decision alone costs.

With ``--commit REV`` every policy plays the same rounds in two processes, one with the sources of that commit and one
with those here. They take turns, slice by slice, so that whatever slows the machine slows both.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.library import deciding
from benchmarks.report import Findings, command
from benchmarks.run import ONE_THREAD, ROOT
from benchmarks.store import Options, Result, Settings, Store
from benchmarks.timing import median_interval
from tensorbandits.policies.registry import PolicyRecord, records
from tensorbandits.report.evidence import amount, decide
from tensorbandits.report.page import Part, Table, Text

NAME = "against"
ALONE = True
TITLE = "Against another commit, and decisions alone"

MOST = 1.1  # times what a round cost at the other commit
P, RANK, HORIZON = 15, 2, 10_000
MORE_SIZES = {"thompson": (20, 100, 1_000)}
VARIANTS: dict[str, dict[str, Any]] = {"thompson": {"rank": "auto"}, "ensemble": {"paper": True}}
SLICES, QUICK_SLICES = 100, 20
FULL_ROUNDS, QUICK_ROUNDS = {P: 100, 20: 100, 100: 100, 1_000: 40}, {P: 40, 20: 40, 100: 40, 1_000: 20}  # of a slice
TREES = ROOT / "out" / "bench" / "trees"


def plan(options: Options) -> list[Settings]:
    """The rounds beside the commit, if one is given, then decisions."""
    slices, rounds = (QUICK_SLICES, QUICK_ROUNDS) if options.quick else (SLICES, FULL_ROUNDS)
    commit = resolve(options.commit) if options.commit else ""
    played = [
        {"task": "rounds", "commit": commit, "slices": slices, "rounds": rounds[case["p"]]} | case
        for case in (cases() if commit else ())
    ]
    return played + deciding.plan(options.quick)


def resolve(revision: str) -> str:
    """Return the whole name of a commit."""
    found = _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if found.returncode:
        raise ValueError(f"--commit: there is no commit {revision!r} in {ROOT}; name one that `git log` shows")
    return found.stdout.decode().strip()


def cases() -> Iterator[Settings]:
    """Every policy, and with context those that take it; some with other sizes or values too."""
    for record in records():
        for context in ((), (0,)) if record.context else ((),):
            sizes = (P, *MORE_SIZES.get(record.name, ())) if not context else (P,)
            yield from (_case(record, p, context) for p in sizes)
            if record.name in VARIANTS:
                yield _case(record, P, context, **VARIANTS[record.name])


def _case(record: PolicyRecord, p: int, context: tuple[int, ...], *, paper: bool = False, **more: Any) -> Settings:
    arguments: dict[str, Any] = {"context": list(context)} if context else {}
    arguments |= {"rank": RANK} if record.takes("rank") else {}
    arguments |= {"horizon": HORIZON} if record.takes("horizon") else {}
    return {"policy": record.name, "class": record.kind.__name__, "p": p, "paper": paper, "arguments": arguments | more}


def label(settings: Settings) -> str:
    if settings["task"] != "rounds":
        return deciding.label(settings)
    return f"{settings['policy']}{words(settings)}, p = {settings['p']:,}"


def words(settings: Settings) -> str:
    auto = settings["arguments"].get("rank") == "auto"
    given = ", context" if "context" in settings["arguments"] else ""
    return (" paper" if settings["paper"] else " auto" if auto else "") + given


def measure(settings: Settings) -> Result:
    if settings["task"] != "rounds":
        return deciding.measure(settings)
    case = {name: settings[name] for name in ("class", "p", "paper", "arguments")}
    times: dict[str, list[float]] = {"before": [], "now": []}
    with ExitStack() as stack:
        players = {
            name: stack.enter_context(playing(sources, case))
            for name, sources in (("before", tree(settings["commit"])), ("now", ROOT / "src"))
        }
        for i in range(settings["slices"]):
            for name in ("before", "now") if i % 2 else ("now", "before"):
                times[name].append(1e6 * players[name](settings["rounds"]) / settings["rounds"])
    return times


@contextmanager
def playing(sources: Path, case: Settings) -> Iterator[Callable[[int], float]]:
    """Start a player of :mod:`~benchmarks.library.slices` with some sources; it waits while another plays.

    Yields a function that has it play some rounds, and returns the seconds of the processor that they took.
    """
    with subprocess.Popen(
        [sys.executable, "-P", str(Path(__file__).with_name("slices.py"))],
        env=os.environ | ONE_THREAD | {"PYTHONPATH": str(sources)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:

        def answer(line: str) -> Any:
            print(line, file=process.stdin, flush=True)
            found = process.stdout.readline() if process.stdout else ""
            if not found:
                raise RuntimeError(f"a player ended ({process.wait()}); what it said is above")
            return json.loads(found)

        try:
            library = answer(json.dumps(case))
            if not Path(library).is_relative_to(sources):
                raise RuntimeError(f"the library of {sources} was to be timed, but Python took {library}")
            yield lambda rounds: float(answer(str(rounds)))
        finally:
            process.kill()


def tree(commit: str) -> Path:
    """The sources of a commit, taken out of the repository once, so that they are compiled once."""
    place = TREES / commit[:12]
    if not place.exists():
        TREES.mkdir(parents=True, exist_ok=True)
        archive = _git("archive", commit, "src")
        if archive.returncode:
            raise RuntimeError(f"the sources of {commit} cannot be read: {archive.stderr.decode().strip()}")
        aside = Path(tempfile.mkdtemp(dir=TREES))
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
            files.extractall(aside, filter="data")
        aside.rename(place)
    return place / "src"


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)


def section(store: Store, options: Options) -> Findings:
    found = [(settings, result) for settings in plan(options) if (result := store.get(settings)) is not None]
    flags = (*options.flags, *(("--commit", options.commit) if options.commit else ()))
    parts: list[Part] = [command(NAME, *flags)]
    compared = [compared_line(settings, result) for settings, result in found if settings["task"] == "rounds"]
    if compared:
        parts += [_introduction(found[0][0]), _table(compared)]
    else:
        parts.append(Text("No commit was named; `--commit` compares the time of a round with what it was there."))
    more, data = deciding.section([pair for pair in found if pair[0]["task"] != "rounds"])
    return parts + more, {"rounds": compared, **data}


def _introduction(settings: Settings) -> Text:
    return Text(
        f"A round (`ask` and `tell`, microseconds of processor time) beside commit {settings['commit'][:12]}: the same "
        f"policy, seed and tensor (w = 0.5, noise 1, rank {RANK}) in two processes that take turns, "
        f"{settings['slices']} slices each, of {settings['rounds']} rounds at p = {settings['p']}. The ratio is the "
        "median over slices of the time now over that before, with its 95 % interval, which the verdict goes by, and "
        "the quartiles; beside it the ratio of all rounds together."
    )


def compared_line(settings: Settings, result: Result) -> dict[str, Any]:
    before, now = np.array(result["before"]), np.array(result["now"])
    ratios = now / before
    interval = median_interval(ratios)
    return {
        "case": label(settings),
        "before": float(np.median(before)),
        "now": float(np.median(now)),
        "ratio": float(np.median(ratios)),
        "interval": list(interval),
        "quartiles": np.quantile(ratios, [0.25, 0.75]).tolist(),
        "total": float(now.sum() / before.sum()),
        "verdict": decide([interval], MOST),
    }


def _table(lines: list[dict[str, Any]]) -> Table:
    header = ["policy", "before", "now", "ratio", "95 % interval", "quartiles", "all rounds", "required", "verdict"]
    rows = [
        [
            line["case"],
            amount(line["before"]),
            amount(line["now"]),
            f"{line['ratio']:.3f}",
            *(" to ".join(f"{value:.3f}" for value in line[name]) for name in ("interval", "quartiles")),
            f"{line['total']:.3f}",
            f"at most {MOST}",
            line["verdict"],
        ]
        for line in lines
    ]
    return Table(header, rows, "A round now over a round then")

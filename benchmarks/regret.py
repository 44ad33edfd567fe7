"""Final regrets of every policy on the paper's smaller problem, beside what is required of them.

p = 15, w = 0.5, noise 1, true rank 2, n = 10,000 rounds; replication i plays on the tensor of seed i (with --seed s,
of seed s + i: tensors on which no default was chosen).
Results are kept in a JSON-lines file as they come: an interrupted run goes on where it stopped, and a run
with other settings (rounds, seed, or any argument of a policy) starts anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

import tensorbandits as tb
from tensorbandits.sim.compare import Comparison, Job, Row, Run, markdown_table, run_jobs

P, SIGNAL, NOISE, RANK, ROUNDS = 15, 0.5, 1.0, 2, 10_000
SHAPE = (P, P, P)
Kept = dict[tuple[str, int], dict[str, Any]]  # settings, replication -> result
Make = Callable[[int, np.random.SeedSequence | None], Any]  # rounds, seed -> policy


@dataclass(frozen=True)
class Entry:
    """One line of the table."""

    name: str
    make: Make
    slow: bool = False


def estr(multiplier: float) -> Make:
    return lambda n, seed: tb.MatricizedESTR(SHAPE, RANK, horizon=n, multiplier=multiplier, seed=seed)


def thompson(rank: int | str) -> Make:
    return lambda n, seed: tb.TensorThompsonSampling(SHAPE, rank, seed=seed)


ESTR_GRID = (0.1, 0.01, 0.001)
ENTRIES = {
    "thompson": Entry("Thompson, defaults", thompson(RANK)),
    "thompson-3": Entry("Thompson, rank 3", thompson(3)),
    "thompson-4": Entry("Thompson, rank 4", thompson(4)),
    "thompson-auto": Entry('Thompson, rank "auto"', thompson("auto")),
    "ensemble": Entry("ensemble, defaults", lambda n, seed: tb.TensorEnsembleSampling(SHAPE, RANK, seed=seed)),
    "ensemble-paper": Entry("ensemble, paper", lambda n, seed: tb.TensorEnsembleSampling.paper(SHAPE, RANK, seed=seed)),
    "epoch-greedy": Entry("epoch-greedy, defaults", lambda n, seed: tb.TensorEpochGreedy(SHAPE, RANK, seed=seed)),
    "epoch-greedy-paper": Entry(
        "epoch-greedy, paper", lambda n, seed: tb.TensorEpochGreedy.paper(SHAPE, RANK, seed=seed)
    ),
    "ucb": Entry("vectorized UCB", lambda n, seed: tb.VectorizedUCB(SHAPE, seed=seed)),
    "elimination": Entry(
        "elimination, defaults",
        lambda n, seed: tb.TensorElimination(SHAPE, RANK, horizon=n, seed=seed),
        slow=True,
    ),
    "elimination-paper": Entry(
        "elimination, paper",
        lambda n, seed: tb.TensorElimination.paper(SHAPE, RANK, horizon=n, seed=seed),
        slow=True,
    ),
    "estr": Entry("ESTR, radius x 1 (theory)", estr(1.0), slow=True),
} | {f"estr-{m}": Entry(f"ESTR, radius x {m}", estr(m), slow=True) for m in ESTR_GRID}


@dataclass(frozen=True)
class Requirement:
    """A statistic of a policy's final regrets, over another one if given, must lie within bounds."""

    text: str
    policy: str
    statistic: str
    most: float
    least: float = 0.0
    over: tuple[str, str] | None = None

    @property
    def policies(self) -> set[str]:
        return {self.policy, self.over[0]} if self.over else {self.policy}

    @property
    def bounds(self) -> str:
        return f"{self.least:,g} to {self.most:,g}" if self.least else f"at most {self.most:,g}"

    def measure(self, rows: dict[str, Row]) -> float:
        value = float(getattr(rows[self.policy], self.statistic))
        return value / float(getattr(rows[self.over[0]], self.over[1])) if self.over else value


REQUIREMENTS = [
    Requirement("Thompson: mean", "thompson", "mean", 1_900),
    Requirement("Thompson: worst over median", "thompson", "worst", 3, over=("thompson", "median")),
    Requirement("ensemble, paper: median", "ensemble-paper", "median", 2_300),
    Requirement("ensemble: mean", "ensemble", "mean", 2_700),
    Requirement("ensemble: worst over median", "ensemble", "worst", 3, over=("ensemble", "median")),
    Requirement("elimination: mean over that of UCB", "elimination", "mean", 0.5, over=("ucb", "mean")),
    Requirement("UCB: mean", "ucb", "mean", 24_000, least=19_000),
    Requirement("Thompson, rank 3: mean over rank 2's", "thompson-3", "mean", 2, over=("thompson", "mean")),
    Requirement("Thompson, rank 4: mean over rank 2's", "thompson-4", "mean", 2, over=("thompson", "mean")),
    Requirement(
        "Thompson, rank auto: mean over rank 2's",
        "thompson-auto",
        "mean",
        1.5,
        over=("thompson", "mean"),
    ),
]


def environment(seed: int) -> tb.TensorEnvironment:
    return tb.TensorEnvironment(tb.paper_tensor(P, SIGNAL, rank=RANK, seed=seed), noise=NOISE, seed=seed)


def settings(key: str, rounds: int, seed: int) -> str:
    """Everything that decides a result apart from the code and the replication, as text."""
    state = ENTRIES[key].make(rounds, None).state_dict()
    problem = {"p": P, "signal": SIGNAL, "noise": NOISE, "rank": RANK, "rounds": rounds, "seed": seed}
    return json.dumps(problem | {"policy": state["policy"], "arguments": state["arguments"]}, default=repr)


def code_version() -> str:
    """A digest of the package's source: results of different code can be told apart."""
    digest = hashlib.sha256()
    for path in sorted(Path(tb.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the results kept so far; a line cut short by an interruption is left out."""
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            continue


def run_missing(
    wanted: dict[str, tuple[str, int]], kept: Kept, rounds: int, seed: int, n_jobs: int, path: Path
) -> None:
    """Run the replications not kept yet, the quick policies first, and keep each as it finishes."""
    jobs = [
        Job("paper", key, i, environment, lambda seed, make=ENTRIES[key].make: make(rounds, seed), rounds, seed)
        for key, (text, count) in wanted.items()
        for i in range(count)
        if (text, i) not in kept
    ]
    jobs.sort(key=lambda job: (ENTRIES[job.policy].slow, job.replication))
    code = code_version()
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with (
        Progress("{task.description}", *columns, console=console) as bar,
        path.open("a", encoding="utf-8") as log,
    ):
        task = bar.add_task("runs", total=len(jobs))
        for run in run_jobs(jobs, n_jobs):
            text = wanted[run.policy][0]
            record = {"settings": text, "replication": run.replication, "code": code}
            record |= {"final": run.final, "seconds": run.seconds}
            log.write("\n" + json.dumps(record))  # a new line first, in case the last one was cut short
            log.flush()
            kept[text, run.replication] = record
            bar.update(task, advance=1, description=f"runs (last: {run.policy} {run.replication})")


def collect(wanted: dict[str, tuple[str, int]], kept: Kept, rounds: int) -> dict[str, Row]:
    """Return one row per policy, from the kept results."""
    runs = [
        Run("paper", key, i, np.array([rounds]), np.array([kept[text, i]["final"]]), kept[text, i]["seconds"])
        for key, (text, count) in wanted.items()
        for i in range(count)
        if (text, i) in kept
    ]
    return {row.policy: row for row in Comparison(tuple(runs)).table()}


def table(rows: dict[str, Row]) -> str:
    header = ["policy", "replications", "mean", "standard error", "median", "worst", "microseconds per round"]
    lines = []
    for key, row in rows.items():
        error = "–" if np.isnan(row.standard_error) else f"{row.standard_error:,.0f}"
        numbers = [
            f"{row.mean:,.0f}",
            error,
            f"{row.median:,.0f}",
            f"{row.worst:,.0f}",
            f"{row.microseconds:,.0f}",
        ]
        lines.append([ENTRIES[key].name, str(row.replications), *numbers])
    return markdown_table(header, lines)


def verdicts(rows: dict[str, Row], rounds: int) -> list[dict[str, Any]]:
    """Return each requirement that was measured, with its number and whether it holds."""
    result = []
    for requirement in REQUIREMENTS if rounds == ROUNDS else []:
        if requirement.policies <= rows.keys():
            value = requirement.measure(rows)
            result.append(
                {
                    "requirement": requirement.text,
                    "bounds": requirement.bounds,
                    "value": value,
                    "replications": min(rows[key].replications for key in requirement.policies),
                    "holds": requirement.least <= value <= requirement.most,
                }
            )
    return result


def report(rows: dict[str, Row], rounds: int, seed: int, others: int) -> str:
    """Return everything that is to be read, as Markdown."""
    parts = [
        f"# Final regrets: p = {P}, w = {SIGNAL}, noise {NOISE:g}, rank {RANK}, {rounds:,} rounds, seeds from {seed}",
        table(rows),
    ]
    tuned = {m: rows[f"estr-{m}"] for m in ESTR_GRID if f"estr-{m}" in rows}
    if tuned:
        best = min(tuned, key=lambda m: tuned[m].mean)
        parts.append(
            f"ESTR tuned in hindsight: of the radius multipliers {', '.join(map(str, tuned))} the best is "
            f"{best}, with mean {tuned[best].mean:,.0f} ({tuned[best].replications} replications).\n"
        )
    if others:
        parts.append(f"{others} of these results come from other versions of the code; --fresh renews them.")
    if rounds != ROUNDS:
        parts.append(f"The requirements are stated for {ROUNDS:,} rounds, so none is checked here.")
    for verdict in verdicts(rows, rounds):
        holds = "holds" if verdict["holds"] else "DOES NOT HOLD"
        number = f"{verdict['value']:,.0f}" if verdict["value"] >= 100 else f"{verdict['value']:.2f}"
        parts.append(
            f"- {verdict['requirement']}: {number}, required {verdict['bounds']}: "
            f"{holds} ({verdict['replications']} replications)"
        )
    return "\n\n".join(parts[:2]) + "\n\n" + "\n".join(parts[2:]) + "\n"


def choose(only: str) -> list[str]:
    keys = [key.strip() for key in only.split(",") if key.strip()] or list(ENTRIES)
    unknown = [key for key in keys if key not in ENTRIES]
    if unknown:
        raise typer.BadParameter(f"{', '.join(unknown)} unknown; choose from {', '.join(ENTRIES)}")
    return keys


def main(
    replications: Annotated[int, typer.Option(min=1, help="Replications of the quick policies.")] = 30,
    slow_replications: Annotated[int, typer.Option(min=1, help="Of elimination and ESTR.")] = 30,
    only: Annotated[str, typer.Option(help=f"Comma-separated, of: {', '.join(ENTRIES)}.")] = "",
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each run.")] = ROUNDS,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first tensor; the next ones follow.")] = 0,
    jobs: Annotated[int, typer.Option(help="Processes to use.")] = 2,
    quick: Annotated[bool, typer.Option(help="2,000 rounds, 3 replications, 1 of the slow.")] = False,
    fresh: Annotated[bool, typer.Option(help="Run again what is kept from earlier.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("out"),
) -> None:
    """Print the table of final regrets and whether each requirement holds."""
    if quick:
        rounds, replications, slow_replications = 2_000, 3, 1
    counts = {key: slow_replications if ENTRIES[key].slow else replications for key in choose(only)}
    try:
        wanted = {key: (settings(key, rounds, seed), count) for key, count in counts.items()}
    except ValueError as error:
        raise typer.BadParameter(f"--rounds {rounds}: {error}") from None
    out.mkdir(parents=True, exist_ok=True)
    log = out / "regret.jsonl"
    kept: Kept = {} if fresh else {(r["settings"], r["replication"]): r for r in read_records(log)}
    run_missing(wanted, kept, rounds, seed, jobs, log)
    rows = collect(wanted, kept, rounds)
    code = code_version()
    others = sum(kept[text, i]["code"] != code for text, count in wanted.values() for i in range(count))
    text = report(rows, rounds, seed, others)
    print(text)
    results = {  # JSON has no NaN, so a standard error of one replication is left out
        "rounds": rounds,
        "seed": seed,
        "rows": [{k: v for k, v in asdict(row).items() if v == v} for row in rows.values()],
        "requirements": verdicts(rows, rounds),
    }
    (out / "regret.md").write_text(text, encoding="utf-8")
    (out / "regret.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)

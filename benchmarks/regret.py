"""Suite ``regret``: final regrets of every policy on the paper's smaller problem, beside what is required of them.

p = 15, w = 0.5, noise 1, true rank 2, n = 10,000 rounds; replication i plays on the tensor of seed i (with --seed s,
of seed s + i: tensors on which no default was chosen).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tensorbandits as tb
from benchmarks.report import Section, dash, finish, number, table
from benchmarks.store import Options, Result, Settings, Store, read_lines
from benchmarks.timing import warm_up_all
from tensorbandits.sim.compare import Comparison, Job, Row, Run, run_job

NAME = MODULE = "regret"
ALONE = False
TITLE = "Final regret"

P, SIGNAL, NOISE, RANK, ROUNDS = 15, 0.5, 1.0, 2, 10_000
SHAPE = (P, P, P)
QUICK_ROUNDS, QUICK_REPLICATIONS, QUICK_SLOW = 2_000, 3, 1
REFERENCE = Path(__file__).parent / "reference" / "regret.jsonl"
SAME = 1e-9  # relative difference of final regrets that count as the same
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


def choose(only: str) -> list[str]:
    """Return the keys named, or all of them."""
    keys = [key.strip() for key in only.split(",") if key.strip()] or list(ENTRIES)
    unknown = [key for key in keys if key not in ENTRIES]
    if unknown:
        raise ValueError(f"--only: {', '.join(unknown)} unknown; choose from {', '.join(ENTRIES)}")
    return keys


def rounds_of(options: Options) -> int:
    return QUICK_ROUNDS if options.quick else options.rounds


def plan(options: Options) -> list[Settings]:
    """The quick policies first, and all policies' first replications before their second ones."""
    rounds, chosen = rounds_of(options), choose(options.only)
    quick = (QUICK_REPLICATIONS, QUICK_SLOW)
    counts = quick if options.quick else (options.replications, options.slow_replications)
    cases = [
        settings(key, rounds, options.seed) | {"replication": i}
        for key in chosen
        for i in range(counts[ENTRIES[key].slow])
    ]
    return sorted(cases, key=lambda case: (ENTRIES[case["key"]].slow, case["replication"]))


def settings(key: str, rounds: int, seed: int) -> Settings:
    """Everything that decides a result apart from the code and the replication."""
    try:
        state = ENTRIES[key].make(rounds, None).state_dict()
    except ValueError as error:
        raise ValueError(f"--rounds {rounds} is too few for {key}: {error}") from None
    problem = {"p": P, "signal": SIGNAL, "noise": NOISE, "rank": RANK, "rounds": rounds, "seed": seed}
    arguments = json.loads(json.dumps(state["arguments"], default=repr))
    return {"key": key, "policy": state["policy"], "arguments": arguments} | problem


def label(settings: Settings) -> str:
    return f"{settings['key']}, replication {settings['replication']}"


def environment(seed: int) -> tb.TensorEnvironment:
    return tb.TensorEnvironment(tb.paper_tensor(P, SIGNAL, rank=RANK, seed=seed), noise=NOISE, seed=seed)


def measure(settings: Settings) -> Result:
    warm_up_all()
    key, rounds = settings["key"], settings["rounds"]
    make = ENTRIES[key].make
    job = Job("paper", key, settings["replication"], environment, lambda s: make(rounds, s), rounds, settings["seed"])
    run = run_job(job)
    return {"final": run.final, "seconds": run.seconds}


def section(store: Store, options: Options) -> Section:
    wanted, rounds = plan(options), rounds_of(options)
    found = [(case, result) for case in wanted if (result := store.get(case)) is not None]
    rows, given = collect(found), verdicts(collect(found), rounds)
    command = _command(options)
    parts = [
        f"{P} x {P} x {P} cells, w = {SIGNAL}, noise {NOISE:g}, rank {RANK}, {rounds:,} rounds; replication i plays on "
        f"the tensor of seed {f'{options.seed} + ' if options.seed else ''}i, and every policy meets the same noise.",
        command,
        _table(rows),
    ]
    tuned = {m: rows[f"estr-{m}"] for m in ESTR_GRID if f"estr-{m}" in rows}
    if tuned:
        best = min(tuned, key=lambda m: tuned[m].mean)
        parts.append(
            f"ESTR tuned in hindsight: of the radius multipliers {', '.join(map(str, tuned))} the best is "
            f"{best}, with mean {tuned[best].mean:,.0f} ({tuned[best].replications} replications)."
        )
    if rounds != ROUNDS:
        parts.append(f"The requirements are stated for {ROUNDS:,} rounds, so none is checked here.")
    elif given:
        parts += ["What is required:", command, _verdict_table(given)]
    before = comparison(found, options)
    if before:
        parts += ["Beside the previous release, on the replications that both have:", command, _before_table(before)]
    # JSON has no NaN, so a standard error of one replication is left out
    lines = [{k: v for k, v in asdict(row).items() if v == v} for row in rows.values()]
    data = {"rounds": rounds, "seed": options.seed, "rows": lines, "requirements": given, "previous": before}
    return finish(Section(NAME, TITLE, parts, data), store, wanted)


def _command(options: Options) -> str:
    given = {"--only": options.only, "--rounds": options.rounds, "--seed": options.seed}
    given |= {"--replications": options.replications, "--slow-replications": options.slow_replications}
    usual = {"--only": "", "--rounds": ROUNDS, "--seed": 0, "--replications": 30, "--slow-replications": 30}
    extra = "".join(f" {name} {value}" for name, value in given.items() if value != usual[name])
    return f"```console\npython -m benchmarks regret{' --quick' if options.quick else ''}{extra}\n```"


def collect(found: list[tuple[Settings, Result]]) -> dict[str, Row]:
    """Return one row per policy, in the order of ENTRIES."""
    runs = [
        Run("paper", s["key"], s["replication"], np.array([s["rounds"]]), np.array([r["final"]]), r["seconds"])
        for s, r in found
    ]
    rows = {row.policy: row for row in Comparison(tuple(runs)).table()}
    return {key: rows[key] for key in ENTRIES if key in rows}


def _table(rows: dict[str, Row]) -> str:
    header = ["policy", "replications", "mean", "standard error", "median", "worst", "microseconds per round"]
    lines = []
    for key, row in rows.items():
        error = dash if np.isnan(row.standard_error) else number(row.standard_error)
        numbers = [number(row.mean), error, number(row.median), number(row.worst), number(row.microseconds)]
        lines.append([ENTRIES[key].name, str(row.replications), *numbers])
    return table(header, lines)


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


def _verdict_table(given: list[dict[str, Any]]) -> str:
    lines = []
    for verdict in given:
        holds = "holds" if verdict["holds"] else "**does not hold**"
        lines.append(
            [verdict["requirement"], number(verdict["value"]), verdict["bounds"], str(verdict["replications"]), holds]
        )
    return table(["requirement", "value", "required", "replications", "verdict"], lines)


def comparison(found: list[tuple[Settings, Result]], options: Options) -> list[dict[str, Any]]:
    """Return, per policy, final regrets beside those of the previous release, if its file is there."""
    if rounds_of(options) != ROUNDS or options.seed:
        return []
    old = {(r["policy"], int(r["replication"])): float(r["final"]) for r in read_lines(REFERENCE) if "final" in r}
    lines = []
    for key in ENTRIES:
        pairs = [
            (old[key, case["replication"]], result["final"])
            for case, result in found
            if case["key"] == key and (key, case["replication"]) in old
        ]
        if pairs:
            before, after = np.array(pairs).T
            same = int((np.abs(after - before) <= SAME * np.abs(before)).sum())
            line = {"policy": key, "replications": len(pairs), "same": same}
            lines.append(line | {"before": float(before.mean()), "after": float(after.mean())})
    return lines


def _before_table(lines: list[dict[str, Any]]) -> str:
    header = ["policy", "replications", "mean before", "mean now", "now / before", "the same to 1e-9"]
    rows = [
        [
            ENTRIES[line["policy"]].name,
            str(line["replications"]),
            number(line["before"]),
            number(line["after"]),
            f"{line['after'] / line['before']:.3f}",
            f"{line['same']} of {line['replications']}",
        ]
        for line in lines
    ]
    return table(header, rows)

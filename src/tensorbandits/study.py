"""A study of one log: what it holds, which rank it speaks for, and how the policies fare on its own rewards."""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorbandits.checks import check_count, check_installed
from tensorbandits.data.log import Log, from_log
from tensorbandits.data.profile import Profile, profile
from tensorbandits.evidence import below, how_it_was_run, regret_table
from tensorbandits.report import Claims, Code, Part, Picture, Report, Section, Table, Text, write
from tensorbandits.sim.compare import Comparison, Where, compare
from tensorbandits.sim.log_world import World
from tensorbandits.sim.plots import COLOURS, Panel, band_words, plot_panels
from tensorbandits.sim.recipes import PolicyRecipe

if TYPE_CHECKING:
    from matplotlib.axes import Axes

THOMPSON, ENSEMBLE, ELIMINATION = "Thompson sampling", "ensemble sampling", "elimination"
EPOCH_GREEDY, UCB = "epoch-greedy", "vectorized UCB"
LARGEST_RANK = 4  # that policies are told; more columns cost more rounds than they gain
_FEW_REWARDS = 10  # in the median cell, below which its own mean is mostly luck
_THIN = (
    "**Read this with care**: half of the cells have few rewards, and each pays only its own, so that the best cell "
    "of this world is partly the luckiest one, which no policy could know. Give `--shrinkage 10` or more to mix in "
    "the others'."
)
_MODELS = ("overall mean", "main effects", "cell means")


def read_file(path: str | os.PathLike[str]) -> Any:
    """Return a CSV or Parquet file as a relation of DuckDB, which reads it in pieces.

    >>> read_file("missing.csv")
    Traceback (most recent call last):
    FileNotFoundError: there is no file missing.csv; give the path of a .csv or .parquet file
    """
    check_installed("reading a log", "duckdb")
    import duckdb

    place = Path(path)
    kind = place.suffix.lower()
    if kind not in (".csv", ".parquet"):
        raise ValueError(f"{place} is neither a .csv nor a .parquet file; convert it to one of them")
    if not place.is_file():
        raise FileNotFoundError(f"there is no file {place}; give the path of a .csv or .parquet file")
    try:
        name = glob.escape(str(place))  # DuckDB takes names as patterns
        return duckdb.read_parquet(name) if kind == ".parquet" else duckdb.read_csv(name)
    except duckdb.Error as error:
        raise ValueError(f"{place} cannot be read as {kind[1:]}: {error}; see that the file is whole") from None


def read_log(path: str | os.PathLike[str], modes: Sequence[str], reward: str, **options: Any) -> Log:
    """Return the log in a CSV or Parquet file; ``options`` are those of :func:`tensorbandits.data.from_log`."""
    frame = read_file(path)
    import duckdb

    try:
        return from_log(frame, modes, reward, **options)
    except duckdb.Error as error:  # a line far down that does not fit what the first ones were
        what = "; ".join(str(error).splitlines()[:3])
        raise ValueError(f"{path} cannot be read: {what}. Mend that line, or leave it out") from None


def lineup(world: World, rank: int, horizon: int) -> tuple[dict[str, PolicyRecipe], dict[str, str]]:
    """Return the policies with our defaults that can play in a world, and why the others cannot, by name."""
    known = {"rank": rank}
    policies = {
        THOMPSON: PolicyRecipe("thompson", known),
        ENSEMBLE: PolicyRecipe("ensemble", known),
        EPOCH_GREEDY: PolicyRecipe("epoch-greedy", known),
        ELIMINATION: PolicyRecipe("elimination", known),
        UCB: PolicyRecipe("ucb"),
    }
    refused, environment = {}, world(0)
    for name, recipe in policies.items():
        try:
            recipe.make(environment, horizon)
        except ValueError as error:
            refused[name] = str(error)
    return {name: recipe for name, recipe in policies.items() if name not in refused}, refused


def study(
    log: Log,
    folder: str | os.PathLike[str] = "out/study",
    *,
    context: Sequence[str] = (),
    rank: int | None = None,
    rounds: int = 10_000,
    replications: int = 10,
    min_count: int = 1,
    shrinkage: float = 0.0,
    seed: int = 0,
    n_jobs: int | None = None,
    backend: str = "local",
    address: str | None = None,
    where: Where | None = None,
    progress: bool = False,
    command: str = "",
) -> tuple[Path, Path]:
    """Profile a log, let the policies play on its rewards, and write ``report.html`` and ``report.md`` into a folder.

    ``rank`` is what the policies are told, by default what :func:`tensorbandits.data.profile` suggests, at most 4.
    ``min_count`` and ``shrinkage`` are those of :meth:`tensorbandits.data.Log.world`, the rest those of
    :func:`tensorbandits.compare`. Finished runs are kept in ``folder/results``.
    """
    start = time.perf_counter()
    check_count(rounds, "rounds")
    place = Where.chosen(where, n_jobs, backend, address)
    world = World.of(log, list(context), min_count=min_count, shrinkage=shrinkage, standardise=True)
    facts = profile(log, seed=seed)
    told = min(facts.suggested_rank, LARGEST_RANK) if rank is None else check_count(rank, "rank")
    policies, refused = lineup(world, told, rounds)
    if UCB not in policies:
        raise ValueError(f"the log's combinations cannot be played: {refused[UCB]}")
    comparison = compare(
        policies,
        {"log": world},
        horizon=rounds,
        replications=replications,
        seed=seed,
        folder=Path(folder) / "results",
        where=place,
        progress=progress,
    )
    remarks = [f"{name.capitalize()} is left out: {why}." for name, why in refused.items()]
    if facts.rewards_per_cell[0.5] < _FEW_REWARDS and not shrinkage:
        remarks.append(_THIN)
    sections = [
        _contents(log, facts),
        _rank(facts, told),
        _policies(_in_rewards(comparison, world), log, context, told, (min_count, shrinkage), remarks),
        _how(comparison, policies, seed, time.perf_counter() - start, command),
    ]
    return write(Report(f"A study of {log.reward} by {', '.join(log.modes)}", sections), folder)


def _in_rewards(comparison: Comparison, world: World) -> Comparison:
    """The same regrets in units of the log's rewards; policies were given standardised ones."""
    return Comparison(tuple(replace(run, regret=world.scale * run.regret) for run in comparison.runs))


def _contents(log: Log, facts: Profile) -> Section:
    rows = [
        [mode, f"{len(levels):,}", ", ".join(map(str, levels[:6])) + (", .." if len(levels) > 6 else "")]
        for mode, levels in zip(log.modes, log.levels, strict=True)
    ]
    dropped = ", ".join(f"{count:,} ({why})" for why, count in log.dropped.items() if count) or "none"
    quantiles = ", ".join(f"{value:,.0f} ({share:.0%})" for share, value in facts.rewards_per_cell.items())
    kind = f"{log.reward} out of {log.trials}, so rewards are 0 or 1" if log.trials else log.reward
    return Section(
        "What the log holds",
        [
            Text(
                f"- Rewards: {kind}. {facts.rewards:,.0f} of them from {log.rows:,} rows; rows left out: "
                f"{dropped}.\n- Cells: {facts.density:.1%} of {int(np.prod(log.shape)):,} have rewards; rewards per "
                f"observed cell, by quantile: {quantiles}.\n- Mean {facts.mean:.4g}; standard deviation within cells "
                + (f"{facts.spread:.4g}." if _repeats(facts) else "unknown: no cell has two rewards.")
            ),
            Table(["mode", "levels", "which"], rows),
        ],
    )


def _rank(facts: Profile, told: int) -> Section:
    rows = [[model, f"{error:.4g}", f"{error - facts.noise:.4g}"] for model, error in facts.errors.items()]
    return Section(
        "Which rank it speaks for",
        [
            Text(
                "Half of the rewards predict the cell means of the other half, over several random halves. Suggested "
                f"rank: **{facts.suggested_rank}**, the smallest within one standard error of the best. "
                f"{verdict(facts)} The policies below are told rank {told}.{_too_few(facts, told)}"
            ),
            Picture("profile", lambda path: _profile_figure(facts, path), "Spectra beside noise, and held-out errors."),
            Table(["model", "held-out squared error", "above noise"], rows),
        ],
    )


def _too_few(facts: Profile, told: int) -> str:
    """A warning where policies are told a rank at which the model predicts worse than one without any."""
    rival = min(_MODELS, key=lambda model: facts.errors[model])
    if told >= facts.suggested_rank or facts.errors[f"rank {told}"] < facts.errors[rival]:
        return ""
    return f" That is fewer than the log asks for, and predicts worse than '{rival}'; `--rank` tells them more."


def _repeats(facts: Profile) -> bool:
    return facts.rewards_per_cell[1.0] > 1


def verdict(facts: Profile) -> str:
    """Say whether a low-rank model is worth it: whether it predicts better than all models without one."""
    rival = min(_MODELS, key=lambda model: facts.errors[model])
    theirs, ours = (facts.errors[model] - facts.noise for model in (rival, f"rank {facts.suggested_rank}"))
    if not _repeats(facts):
        return "No cell has two rewards, so noise cannot be told from signal, and errors below include it."
    if theirs <= 0:
        return f"The model '{rival}' predicts as well as noise allows, so nothing is left to gain by low rank."
    if ours >= theirs:
        return f"The model '{rival}' predicts at least as well: **low rank gains nothing in this log**."
    return (
        f"**Low rank is worth it here**: of the best other model's error ('{rival}'), above noise, which no model "
        f"removes, it takes away {1 - ours / theirs:.0%}."
    )


def _policies(
    comparison: Comparison,
    log: Log,
    context: Sequence[str],
    told: int,
    small: tuple[int, float],
    remarks: Sequence[str],
) -> Section:
    names = comparison.policies
    given = f"given {', '.join(context)}" if context else "with every mode decided"
    unit = f"units of {log.reward}"
    panels = [
        Panel(comparison, "log", "cumulative regret", names, unit=unit),
        Panel(comparison, "log", "regret per round", names, scale="log", quantity="per round", unit=unit),
    ]
    parts: list[Part] = [
        Text(
            f"Each policy plays on the log's own rewards, {given}, rank {told}, our defaults: a reward is drawn from "
            f"those of its cell (cells with fewer than {small[0]} rewards, and a share by shrinkage {small[1]:g}, "
            "draw from all). Policies see rewards shifted and divided by their spread; regrets are in units of the "
            "log's rewards."
        ),
        *map(Text, remarks),
        Picture(
            "regret", lambda path: plot_panels([panels], path), f"Mean cumulative regret {band_words(comparison)}."
        ),
        Claims(
            [
                below(f"{name} has lower regret than {UCB} at the end", "this study", comparison, name, [UCB])
                for name in names
                if name != UCB
            ]
        ),
        regret_table(comparison, UCB, "log", names),
    ]
    return Section("How the policies fare", parts)


def _how(comparison: Comparison, policies: dict[str, PolicyRecipe], seed: int, wall: float, command: str) -> Section:
    runs = comparison.select(UCB)
    return Section(
        "How this was run",
        [
            *([Code(command)] if command else []),
            Text(how_it_was_run(seed, wall)),
            Table(
                ["policy", "settings"],
                [[name, str(recipe)] for name, recipe in policies.items()],
                f"{int(runs[0].rounds[-1]):,} rounds, {len(runs)} replications",
            ),
        ],
    )


def _profile_figure(facts: Profile, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.4), layout="constrained")
    spectra, errors = figure.subplots(1, 2)
    for i, (mode, values, noise) in enumerate(
        zip(facts.modes, facts.singular_values, facts.noise_singular_values, strict=True)
    ):
        order, colour = np.arange(1, len(values) + 1), COLOURS[i % len(COLOURS)]
        spectra.plot(order, values, "osD^vP"[i % 6] + "-", color=colour, label=mode)
        spectra.plot(order, noise, "--", color=colour, label=f"{mode}, noise alone")
    spectra.xaxis.get_major_locator().set_params(integer=True)
    seen = max(values[0] for values in facts.singular_values) > 0
    scale = "log" if seen else "linear"
    spectra.set(xlabel="position", ylabel="singular value", yscale=scale, title="spectra of the unfoldings")
    spectra.legend(frameon=False, fontsize=8)
    names = list(facts.errors)
    colours = [COLOURS[1] if name in _MODELS else COLOURS[0] for name in names]
    errors.scatter([facts.errors[name] for name in names[::-1]], names[::-1], color=colours[::-1], zorder=3)
    if facts.noise > 0:
        errors.axvline(facts.noise, color="black", linestyle=":", label="noise, which no model removes")
    scale = "log" if min(facts.errors.values()) > 0 else "linear"
    errors.set(xlabel="held-out squared error", xscale=scale, title="how well models predict held-out cell means")
    if facts.noise > 0:
        errors.legend(frameon=False, fontsize=8)
    _tidy(spectra, errors)
    figure.savefig(path, dpi=150)


def _tidy(*panels: Axes) -> None:
    for axes in panels:
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)

"""A study of one log: what it holds, which rank it speaks for, and how the policies fare on its own rewards."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorbandits.checks import check_count, is_sequence
from tensorbandits.data.columns import shorten
from tensorbandits.data.file import read_log as read_log  # a study starts with it
from tensorbandits.data.log import Log
from tensorbandits.data.profile import Profile, profile
from tensorbandits.evidence import RULE, below, how_it_was_run, regret_table
from tensorbandits.policies.registry import records
from tensorbandits.report import Claims, Code, Part, Picture, Report, Section, Table, Text, escape, write
from tensorbandits.sim.compare import Comparison, Where, compare
from tensorbandits.sim.log_world import World
from tensorbandits.sim.plots import COLOURS, Panel, as_written, band_words, plot_panels
from tensorbandits.sim.recipes import PolicyRecipe

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BASELINE = "ucb"  # which the others are compared with
LARGEST_RANK = 4  # that policies are told; more columns cost more rounds than they gain
_FEW_REWARDS = 10  # in the median cell, below which its own mean is mostly luck
_THIN = (
    "**Read this with care**: half of the cells have few rewards, and each pays only its own, so that the best cell "
    "here is partly the luckiest one, which no policy could know. A shrinkage of 10 or more mixes in the others'."
)
_MODELS = ("overall mean", "main effects", "cell means")


def lineup(
    world: World, rank: int, horizon: int, policies: Sequence[Any] = ()
) -> tuple[dict[str, PolicyRecipe], dict[str, str]]:
    """Return the policies that can play in a world, by label, and why the others cannot.

    ``policies`` are names, texts such as ``"thompson:rank=3"``, classes or recipes; by default all that are registered,
    with our defaults. Each is told the rank unless it says one. The baseline joins if it is not among them.
    """
    if not is_sequence(policies):
        raise TypeError(f"policies is {policies!r}; give a list of names, classes or recipes: ['thompson', 'ucb']")
    asked = [_recipe(policy, rank) for policy in policies or [record.name for record in records()]]
    if all(recipe.policy != BASELINE for recipe in asked):
        asked.append(_recipe(BASELINE, rank))
    labels = [recipe.record.label for recipe in asked]
    named = {
        label if labels.count(label) == 1 else str(recipe): recipe for label, recipe in zip(labels, asked, strict=True)
    }
    refused, environment = {}, world(0)
    for name, recipe in named.items():
        try:
            recipe.make(environment, horizon)
        except ValueError as error:
            if policies or recipe.policy == BASELINE:
                raise ValueError(f"policy {str(recipe)!r} cannot play this log: {error}") from error
            refused[name] = str(error)
    return {name: recipe for name, recipe in named.items() if name not in refused}, refused


def _recipe(policy: Any, rank: int) -> PolicyRecipe:
    if isinstance(policy, str):
        policy = PolicyRecipe.parse(policy)
    recipe = policy if isinstance(policy, PolicyRecipe) else PolicyRecipe(policy)
    if not recipe.record.takes("rank"):
        return recipe
    return replace(recipe, settings={"rank": rank} | dict(recipe.settings))


def study(
    log: Log,
    folder: str | os.PathLike[str] = "out/study",
    *,
    context: Sequence[str | int] = (),
    policies: Sequence[Any] = (),
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

    ``policies`` are those that play: names, ``"module:Class"``, texts such as ``"thompson:rank=3"``, classes or
    recipes; by default all that are registered and can play the log. Vectorized UCB always does, as the baseline.
    ``rank`` is what they are told, by default what :func:`tensorbandits.data.profile` suggests, at most 4.
    ``min_count`` and ``shrinkage`` are those of :meth:`tensorbandits.sim.World.of`, the rest those of
    :func:`tensorbandits.compare`. Finished runs are kept in ``folder/results``.
    """
    start = time.perf_counter()
    check_count(rounds, "rounds")
    place = Where.chosen(where, n_jobs, backend, address)
    world = World.of(log, context, min_count=min_count, shrinkage=shrinkage, standardise=True)
    facts = profile(log, seed=seed)
    told = min(facts.suggested_rank, LARGEST_RANK) if rank is None else check_count(rank, "rank")
    playing, refused = lineup(world, told, rounds, policies)
    comparison = compare(
        playing,
        {"log": world},
        horizon=rounds,
        replications=replications,
        seed=seed,
        folder=Path(folder) / "results",
        where=place,
        progress=progress,
    )
    remarks = [f"{name[:1].upper()}{name[1:]} is left out: {escape(why, 500)}." for name, why in refused.items()]
    if facts.rewards_per_cell[0.5] < _FEW_REWARDS and not shrinkage:
        remarks.append(_THIN)
    sections = [
        _contents(log, facts),
        _rank(facts, told),
        _policies(_in_rewards(comparison, world), log, world.context, playing, told, (min_count, shrinkage), remarks),
        _how(comparison, playing, seed, time.perf_counter() - start, command),
    ]
    return write(Report(f"A study of {escape(log.reward)} by {', '.join(map(escape, log.modes))}", sections), folder)


def _in_rewards(comparison: Comparison, world: World) -> Comparison:
    """The same regrets in units of the log's rewards; policies were given standardised ones."""
    return Comparison(tuple(replace(run, regret=world.scale * run.regret) for run in comparison.runs))


def _contents(log: Log, facts: Profile) -> Section:
    rows = [
        [escape(mode), f"{len(levels):,}", ", ".join(map(escape, levels[:6])) + (", .." if len(levels) > 6 else "")]
        for mode, levels in zip(log.modes, log.levels, strict=True)
    ]
    dropped = ", ".join(f"{count:,} ({why})" for why, count in log.dropped.items() if count) or "none"
    quantiles = ", ".join(f"{value:,.0f} ({share:.0%})" for share, value in facts.rewards_per_cell.items())
    kind = f"{escape(log.reward)}{f' out of {escape(log.trials)}, so rewards are 0 or 1' if log.trials else ''}"
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
    return f" That is fewer than the log asks for, and predicts worse than '{rival}'; give a higher rank to mend that."


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
    context: Sequence[int],
    playing: Mapping[str, PolicyRecipe],
    told: int,
    small: tuple[int, float],
    remarks: Sequence[str],
) -> Section:
    names = comparison.policies
    baseline = next(name for name, recipe in playing.items() if recipe.policy == BASELINE)
    given = f"given {', '.join(escape(log.modes[j]) for j in context)}" if context else "with every mode decided"
    unit = f"units of {shorten(log.reward, 40)}"
    lower = f"has lower regret than {escape(baseline)} at the end"
    claims = [
        below(f"{escape(name)} {lower}", "this study", comparison, name, [baseline])
        for name in names
        if name != baseline
    ]
    judged: list[Part] = [Text(RULE), Claims(claims)] if claims else []
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
        *judged,
        regret_table(comparison, baseline, "log", names),
    ]
    return Section("How the policies fare", parts)


def _how(comparison: Comparison, playing: Mapping[str, PolicyRecipe], seed: int, wall: float, command: str) -> Section:
    runs = comparison.select(comparison.policies[0])
    return Section(
        "How this was run",
        [
            *([Code(command)] if command else []),
            Text(how_it_was_run(seed, wall)),
            Table(
                ["policy", "settings"],
                [[escape(name), escape(recipe, 200)] for name, recipe in playing.items()],
                f"{int(runs[0].rounds[-1]):,} rounds, {len(runs)} replications",
            ),
        ],
    )


def _profile_figure(facts: Profile, path: Path) -> None:
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator, NullFormatter

    figure = Figure(figsize=(11, 4.4), layout="constrained")
    spectra, errors = figure.subplots(1, 2)
    for i, (mode, values, noise) in enumerate(
        zip(facts.modes, facts.singular_values, facts.noise_singular_values, strict=True)
    ):
        order, colour = np.arange(1, len(values) + 1), COLOURS[i % len(COLOURS)]
        spectra.plot(order, values, "osD^vP"[i % 6] + "-", color=colour, label=as_written(shorten(mode, 40)))
        spectra.plot(order, noise, "--", color=colour, label=as_written(f"{shorten(mode, 40)}, noise alone"))
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
    low, high = min(facts.errors.values()), max(facts.errors.values())
    scale = "log" if low > 0 else "linear"
    errors.set(xlabel="held-out squared error", xscale=scale, title="how well models predict held-out cell means")
    if 0 < high < 10 * low:  # within a power of ten, every tick would be labelled, one over the other
        errors.xaxis.set_major_locator(MaxNLocator(6))
        errors.xaxis.set_major_formatter("{x:.3g}")
        errors.xaxis.set_minor_formatter(NullFormatter())
    if facts.noise > 0:
        errors.legend(frameon=False, fontsize=8)
    _tidy(spectra, errors)
    figure.savefig(path, dpi=150)


def _tidy(*panels: Axes) -> None:
    for axes in panels:
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)

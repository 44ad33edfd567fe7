"""The sections of a study's report below its answer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tensorbandits.base.drawing import COLOURS, as_written, write
from tensorbandits.data.columns import shorten
from tensorbandits.data.log import Log
from tensorbandits.data.profile import Profile
from tensorbandits.model.effects import Kind
from tensorbandits.model.scores import EFFECTS, PLAIN
from tensorbandits.report.evidence import RULE, amount, below, how_section, paired, show_ratio, student
from tensorbandits.report.page import Claims, Part, Picture, Section, Table, Text, escape
from tensorbandits.sim.compare import Comparison
from tensorbandits.sim.log_world import World
from tensorbandits.sim.plots import band_words, plot_panels, regret_panels
from tensorbandits.sim.recipes import PolicyRecipe
from tensorbandits.study.answer import earned
from tensorbandits.study.lineup import BASELINE, together
from tensorbandits.study.remarks import alike, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_KINDS = {"bernoulli": "which are 0 or 1", "count": "which are counts", "gaussian": "which are numbers of any size"}
_BEST = 5  # cells that are named
_MERGES = 200  # levels that cleaning would make, of which are told
_MARKERS = "osD^vPXh*"


def contents(log: Log, facts: Profile) -> Section:
    """What a log holds: levels, rewards, cells."""
    rows = [
        [escape(mode), f"{len(levels):,}", ", ".join(map(shown, levels[:6])) + (", .." if len(levels) > 6 else "")]
        for mode, levels in zip(log.modes, log.levels, strict=True)
    ]
    dropped = ", ".join(f"{count:,} ({why})" for why, count in log.dropped.items() if count) or "none"
    cleaned = [
        f"{escape(mode)} to {len(levels):,} levels, {sum(map(len, log.merged[mode].values())):,} of the log's "
        f"spellings to {len(log.merged[mode]):,} of them"
        for mode, levels in zip(log.modes, log.levels, strict=True)
        if mode in log.merged
    ]
    made_one = f"\n- Labels were cleaned ({escape(log.options['clean'])}): {'; '.join(cleaned)}." if cleaned else ""
    quantiles = ", ".join(f"{value:,.0f} ({share:.0%})" for share, value in facts.rewards_per_cell.items())
    kind = f"{escape(log.reward)}{f' out of {escape(log.trials)}' if log.trials else ''}, {_KINDS[facts.kind]}"
    return Section(
        "What the log holds",
        [
            Text(
                f"- Rewards: {kind}. {facts.rewards:,.0f} of them from {log.rows:,} rows; rows left out: "
                f"{dropped}.\n- Cells: {facts.density:.1%} of {int(np.prod(log.shape)):,} have rewards; rewards per "
                f"observed cell, by quantile: {quantiles}.\n- Mean {facts.mean:.4g}; standard deviation within cells "
                + (f"{facts.spread:.4g}." if facts.rewards_per_cell[1.0] > 1 else "unknown: no cell has two rewards.")
                + made_one
            ),
            Table(["mode", "levels", "which"], rows),
            *_alike(log),
        ],
    )


def _alike(log: Log) -> list[Part]:
    """Which levels cleaning would make one, with their rewards."""
    steps, found = alike(log)
    if not found:
        return []
    counts = {
        mode: dict(zip(levels, np.bincount(log.ledger.cells[:, j], log.ledger.counts, len(levels)), strict=True))
        for j, (mode, levels) in enumerate(zip(log.modes, log.levels, strict=True))
    }
    rows = [
        [
            escape(merge.mode),
            escape(f"'{merge.label}'"),
            ", ".join(f"{escape(repr(label))} ({counts[merge.mode][label]:,.0f})" for label in merge.labels),
        ]
        for merge in found[:_MERGES]
    ]
    more = f"; the first {_MERGES} of {len(found):,}" if len(found) > _MERGES else ""
    return [Table(["mode", "level", "instead of (rewards)"], rows, f"what --clean {','.join(steps)} would merge{more}")]


def evidence(facts: Profile, told: int) -> Section:
    """How well models predict as rewards come in, and what follows."""
    curve = facts.curve
    why = (
        "as low rank is not surely ahead of main effects there"
        if facts.suggested.kind == "additive"
        else "the smallest low-rank structure that is not surely behind the best"
    )
    suggestion = f" The suggestion for {facts.bandit_rewards:,} rewards is '{facts.suggested}', {why}."
    rows = [
        [model, *(_share(curve.learned(point, model)) for point in curve.points)] for model in curve.points[0].models
    ]
    return Section(
        "Is low rank worth it, and after how many rewards",
        [
            Text(
                f"{facts.verdict}{'' if curve.nothing_to_learn else suggestion} Policies that need a rank are told "
                f"{told}."
            ),
            Picture(
                "profile",
                lambda path: _figure(facts, path),
                "How much of what can be learned each model has learned from so many rewards (dotted: those that the "
                "bandit is taken to have); and the spectra of the unfoldings beside noise.",
            ),
            Table(
                ["model", *(f"{point.rewards:,}" for point in curve.points)],
                rows,
                "share of what can be learned, by number of rewards",
            ),
            Text(
                "One quarter of the rewards is held out after the other; models learn from so many of the others, and "
                "are scored by the mean log density of those held out. 0 % is the score of the overall mean of the "
                "most rewards, 100 % the best of all scores; below 0 % a model predicts worse than that mean, and "
                "below -100 % there is a dash."
            ),
        ],
    )


def _share(share: float) -> str:
    return f"{100 * share + 0.0:.0f} %".replace("-0 %", "0 %") if share > -1 else "–"


def cells(log: Log, world: World, settings: tuple[int, float | None]) -> Section:
    """How the cells were steadied, and which are the best."""
    total, own = world.counts.size, int((world.counts > 0).sum())
    mostly = int(((world.counts > 0) & (world.counts < world.shrinkage)).sum())
    toward = "the overall mean" if settings[1] is not None else "what main effects say of it"
    how = (
        f"set to {world.shrinkage:.3g}" if settings[1] is not None else f"{amount(world.shrinkage)} by empirical Bayes"
    )
    best = np.argsort(world.mean, axis=None)[::-1][:_BEST]
    rows = []
    for at in best:
        cell = tuple(int(level) for level in np.unravel_index(at, world.shape))
        raw = log.ledger[cell]
        mean = amount(raw.total / raw.rounds) if raw.rounds else "none"
        label = ", ".join(escape(level, 30) for level in log.label(cell).values())
        rows.append([label, f"{int(raw.rounds):,}", mean, amount(float(world.mean[cell]))])
    return Section(
        "The cells that policies play",
        [
            Text(
                f"A cell with few rewards is mostly luck, so each is drawn toward {toward}, as if that were so many "
                f"rewards of its own: {how}. Of {total:,} cells, {total - own:,} have no rewards of their own "
                f"(fewer than {settings[0]}) and {mostly:,} have fewer than are mixed in, so that they pay mostly what "
                "others did."
            ),
            Table(["cell", "rewards in the log", "their mean", "steadied mean"], rows, "the best cells"),
        ],
    )


def policies(
    comparison: Comparison,
    log: Log,
    world: World,
    playing: Mapping[str, PolicyRecipe],
    refused: Mapping[str, str],
    kind: Kind,
) -> Section:
    """What the policies earned, and their regrets."""
    names = comparison.policies
    baseline = next(name for name, recipe in playing.items() if recipe.policy == BASELINE)
    given = f"given {', '.join(escape(log.modes[j]) for j in world.context)}" if world.context else "all modes decided"
    unit = f"units of {shorten(log.reward, 40)}"
    claims = [
        below(
            f"{escape(name)} has lower regret than {escape(baseline)} at the end",
            "this study",
            together(comparison, name, baseline),
            name,
            [baseline],
        )
        for name in names
        if name != baseline
    ]
    judged: list[Part] = [Text(RULE), Claims(claims)] if claims else []
    panels = regret_panels(comparison, "log", policies=names, unit=unit)
    slow = [
        Text(
            f"{escape(name[:1].upper() + name[1:])} plays with rewards that are shifted and divided, though it can be "
            f"told what kind they are, as it may then take far longer. Name it with `reward={kind}` to have it told."
        )
        for name, recipe in playing.items()
        if kind != "gaussian" and recipe.record.takes("reward") and not {"reward", "paper"} & recipe.settings.keys()
    ]
    left_out = [f"{name[:1].upper()}{name[1:]} is left out: {escape(why, 500)}." for name, why in refused.items()]
    parts: list[Part] = [
        Text(
            f"Each policy plays on the log's own rewards, {given}: a reward is drawn from those of its cell, or now "
            "and then from others, as said above. Policies that are told what kind of reward there is see rewards as "
            "they are, the others shifted and divided by their spread; regrets are in units of the log's rewards. Who "
            "was told from the baseline, or was clearly behind the best, after a few runs was not run again."
        ),
        *slow,
        *map(Text, left_out),
        Picture(
            "regret", lambda path: plot_panels([panels], path), f"Mean cumulative regret {band_words(comparison)}."
        ),
        *judged,
        _table(comparison, log, world, baseline),
    ]
    return Section("How the policies fare", parts)


def _table(comparison: Comparison, log: Log, world: World, baseline: str) -> Table:
    """What each policy earned and its regret, the lowest first."""
    lines = []
    for name in sorted(comparison.policies, key=lambda name: float(comparison.at(name).mean())):
        regret, both = comparison.at(name), together(comparison, name, baseline)
        mean, half = student(regret)
        lines.append(
            [
                escape(name),
                f"{len(regret)}",
                str(earned(comparison, world, name)),
                f"{amount(mean)} ± {amount(half)}" if len(regret) > 1 else amount(mean),
                amount(float(regret.max())),
                show_ratio(paired(both.at(name), both.at(baseline))) if name != baseline else "1",
            ]
        )
    header = ["policy", "runs", f"{escape(log.reward, 40)} earned", "regret", "worst", f"ratio to {escape(baseline)}"]
    return Table(header, lines, f"after {comparison.horizon:,} rounds, with 95 % intervals")


def how(playing: Mapping[str, PolicyRecipe], comparison: Comparison, seed: int, wall: float, command: str) -> Section:
    """How a study was run."""
    runs = [len(comparison.select(name)) for name in playing]
    count = f"{min(runs)}" if min(runs) == max(runs) else f"{min(runs)} to {max(runs)}"
    rows = [[escape(name), escape(recipe, 200)] for name, recipe in playing.items()]
    caption = f"{comparison.horizon:,} rounds, {count} replications"
    return how_section(seed, wall, command, Table(["policy", "settings"], rows, caption))


def _figure(facts: Profile, path: Path) -> None:
    """Draw the learning curves beside the spectra."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.6), layout="constrained")
    curves, spectra = figure.subplots(1, 2, width_ratios=[3, 2])
    _draw_curves(facts, curves)
    _draw_spectra(facts, spectra)
    for axes in (curves, spectra):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    write(figure, path)


def _draw_curves(facts: Profile, axes: Axes) -> None:
    """Draw what each model has learned, in colour those without low rank and the one that is suggested."""
    from matplotlib.ticker import PercentFormatter

    curve = facts.curve
    rewards = [point.rewards for point in curve.points]
    suggested = EFFECTS if facts.suggested.kind == "additive" else str(facts.suggested)
    others = [str(structure) for structure in curve.candidates if structure != facts.low_rank]
    for i, model in enumerate([*PLAIN, str(facts.low_rank), *others]):
        plain, chosen = model in PLAIN, model == suggested
        axes.plot(
            rewards,
            [curve.learned(point, model) for point in curve.points],
            _MARKERS[i % len(_MARKERS)] + ("--" if plain else "-"),
            color=COLOURS[i % len(COLOURS)] if plain or chosen else "#999999",
            alpha=1.0 if plain or chosen else 0.6,
            linewidth=2.0 if chosen else 1.2,
            markersize=5 if plain or chosen else 3,
            label=f"{model} (suggested)" if chosen else model,
            zorder=3 if chosen else 2,
        )
    axes.axvline(facts.bandit_rewards, color="black", linestyle=":", linewidth=1)
    axes.set(xscale="log", xlabel="rewards learned from", ylabel="share of what can be learned")
    axes.set(ylim=(-0.3, 1.05), title="held-out scores")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.legend(frameon=False, fontsize=8, ncols=2)


def _draw_spectra(facts: Profile, spectra: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    for i, (mode, values, noise) in enumerate(
        zip(facts.modes, facts.singular_values, facts.noise_singular_values, strict=True)
    ):
        order, colour = np.arange(1, len(values) + 1), COLOURS[i % len(COLOURS)]
        spectra.plot(order, values, "osD^vP"[i % 6] + "-", color=colour, label=as_written(shorten(mode, 40)))
        spectra.plot(order, noise, "--", color=colour, label=as_written(f"{shorten(mode, 40)}, noise alone"))
    spectra.xaxis.set_major_locator(MaxNLocator(integer=True))
    seen = max(values[0] for values in facts.singular_values) > 0
    spectra.set(xlabel="position", ylabel="singular value", yscale="log" if seen else "linear")
    spectra.set(title="spectra of the unfoldings")
    spectra.legend(frameon=False, fontsize=8)

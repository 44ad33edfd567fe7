"""``tensorbandits demo``: a campaign with simulated people, and every policy on one problem of the paper."""

from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from tensorbandits.cli import campaign
from tensorbandits.cli.common import (
    check_experiments,
    check_least,
    check_out,
    check_where,
    one_line_errors,
    print_table,
)
from tensorbandits.cli.options import Replications, Rounds, TensorSeed
from tensorbandits.report.page import markdown_table
from tensorbandits.sim.compare import Comparison, compare
from tensorbandits.sim.plots import band_words, plot_regret
from tensorbandits.sim.recipes import PaperWorld, PolicyRecipe
from tensorbandits.sim.where import Where

_WORLD = PaperWorld(p=15, signal=0.5)  # the paper's smaller problem
_KNOWN = {"rank": _WORLD.rank}
_BASELINE = "Vectorized UCB"
POLICIES = {
    "Tensor Thompson sampling": PolicyRecipe("thompson", _KNOWN),
    "Tensor ensemble sampling": PolicyRecipe("ensemble", _KNOWN),
    "Tensor elimination": PolicyRecipe("elimination", _KNOWN),
    "Tensor epoch-greedy": PolicyRecipe("epoch-greedy", _KNOWN),
    "Matricized ESTR": PolicyRecipe("estr", _KNOWN),
    _BASELINE: PolicyRecipe("ucb"),
}
_ROUNDS = 3_000  # by default; enough for every policy
_VISITORS = 4_000
_HEADER = ["policy", "mean final regret", "standard error", "ratio to UCB", "microseconds per round"]


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the table and the figure.")] = Path("out"),
    rounds: Rounds = _ROUNDS,
    replications: Replications = 4,
    seed: TensorSeed = 0,
    jobs: Annotated[int, typer.Option(help="Processes to use.")] = 2,
    visitors: Annotated[int, typer.Option(help="Visitors of the campaign; 0 leaves it out.")] = _VISITORS,
) -> None:
    """Run a campaign with simulated people, and every policy on a problem of the paper; write what they did."""
    with one_line_errors():
        check_experiments("demo")
        check_least(rounds=(rounds, 1), replications=(replications, 1), seed=(seed, 0), visitors=(visitors, 0))
        where = check_where(jobs)
        short = too_short(rounds)
        if short:
            least = 1 + bisect_left(range(1, _ROUNDS), True, key=lambda number: not too_short(number))
            raise ValueError(f"--rounds is {rounds}, too few for {' and '.join(short)}; give {least} or more")
        folder = check_out(out)
        if visitors:
            _campaign(folder, visitors, seed)
        _demo(folder, rounds, replications, seed, where)


def too_short(rounds: int) -> list[str]:
    """The policies whose exploration leaves none of so many rounds."""
    refused, world = [], _WORLD(0)
    for name, recipe in POLICIES.items():
        try:
            recipe.make(world, rounds)
        except ValueError:
            refused.append(name)
    return refused


def _campaign(out: Path, visitors: int, seed: int) -> None:
    console = Console()
    bandit, lines = campaign.play(visitors, seed)
    title = f"A campaign: 8 segments given, 30 offers x 6 channels, {visitors:,} visitors; clicks per 100 of them"
    print_table(console, title, campaign.HEADER, lines)
    words = (
        "decided: what the bandit chose, learning from clicks that came 10 minutes late; held out: a tenth, chosen at "
        "random; possible: the best combination each time; learned: rewards so far\n"
        f"believed best at the end, for {'; '.join(campaign.beliefs(bandit))}"
    )
    console.print(words, highlight=False)
    text = f"{title}\n\n{markdown_table(campaign.HEADER, lines)}\n\n{words}\n"
    (out / "campaign.md").write_text(text, encoding="utf-8")
    bandit.plot("reward", path=out / "campaign.png")
    console.print(f"wrote {out / 'campaign.md'} and {out / 'campaign.png'}", highlight=False)


def _demo(out: Path, rounds: int, replications: int, seed: int, where: Where) -> None:
    comparison = compare(
        POLICIES, _WORLD, horizon=rounds, replications=replications, seed=seed, where=where, progress=True
    )
    title = (
        f"{' x '.join([str(_WORLD.p)] * _WORLD.order)} cells, signal {_WORLD.signal}, noise {_WORLD.noise:g}, "
        f"{rounds:,} rounds, {replications} replication{'s' if replications > 1 else ''}"
    )
    lines, console = _lines(comparison), Console()
    print_table(console, title, _HEADER, lines)
    (out / "demo.md").write_text(f"{title}\n\n{markdown_table(_HEADER, lines)}\n", encoding="utf-8")
    plot_regret(comparison, out / "demo.png", title=f"{title}: mean {band_words(comparison)}")
    console.print(f"wrote {out / 'demo.md'} and {out / 'demo.png'}", highlight=False)


def _lines(comparison: Comparison) -> list[Sequence[str]]:
    """The rows of the table as text, the lowest regret first."""
    return [
        (
            row.policy,
            f"{row.mean:,.0f}",
            "–" if np.isnan(row.standard_error) else f"{row.standard_error:,.0f}",
            f"{row.ratio:.3f}",
            f"{row.microseconds:,.0f}",
        )
        for row in sorted(comparison.table(baseline=_BASELINE), key=lambda row: row.mean)
    ]

"""Suite ``programme``: an e-mail and push programme of six modes, as an application plays it, beside plain models.

A bandit that is told nothing but ``reward="revenue"`` keeps rules, a ceiling and a holdout, learns two days late, and
gets new creatives on the way. Beside it, under the same rules and shares: linear and logistic Thompson sampling on main
effects, as teams write them. What is earned is counted by mean rewards, so that it has no noise of single purchases.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from time import process_time
from typing import Any, Protocol

import numpy as np

import tensorbandits as tb
from benchmarks.library.programme_rivals import LinearThompson, LogisticPrices
from benchmarks.paper.worlds import Floats, Programme, RevenueEnvironment
from benchmarks.report import Findings, command
from benchmarks.store import Options, Result, Settings, Store
from tensorbandits.base.checks import Cell
from tensorbandits.report.page import Part, Table, Text

NAME = "programme"
MEASURED = "tensorbandits.bandit.bandit"
ALONE = False
TITLE = "A programme of six modes: revenue, late, under rules, beside plain models"

ROUNDS, DAY, LATE = 40_000, 500, 2  # decisions in all and a day; days after which a reward is known
NEW = (0.2, 0.4, 0.6)  # of the rounds, after which a creative is added
HOLDOUT, CEILING = 0.05, 0.3  # the share of decisions at random; and the most of the largest discount
WORLDS = 4
BANDITS: dict[str, dict[str, Any]] = {
    "default": {},
    "normal": {"reward": "gaussian"},
}
RIVALS = {"linear": LinearThompson, "logistic": LogisticPrices}
LABELS = {
    "default": "tb.Bandit, told revenue",
    "normal": "tb.Bandit, told normal",
    "linear": "linear, main effects",
    "logistic": "logistic, main effects, times prices by level",
}
MODES = ("country", "device", "daypart", "creative", "discount", "channel")
DESKTOP, PUSH, PLAIN = 1, 2, 0  # a device, a channel, and a creative that has no place for the largest discount


def plan(options: Options) -> list[Settings]:
    only = [name.strip() for name in options.only.split(",") if name.strip()]
    if unknown := sorted(set(only) - set(LABELS)):
        raise ValueError(f"--only: {', '.join(unknown)} unknown in {NAME}; choose from {', '.join(LABELS)}")
    seeds = range(options.fresh_seed, options.fresh_seed + (1 if options.quick else min(WORLDS, options.replications)))
    rounds, day = (60, 5) if options.quick else (ROUNDS, DAY)
    return [
        {"player": player, "seed": seed, "rounds": rounds, "day": day} for seed in seeds for player in only or LABELS
    ]


def label(settings: Settings) -> str:
    return f"{settings['player']}, world {settings['seed']}"


class Player(Protocol):
    """Whoever plays: decides, and is told of a decision later."""

    def ask(self, levels: Cell) -> tuple[Any, Cell]:
        """Return what tells the decision from others, and its cell."""
        ...

    def tell(self, decision: Any, reward: float) -> None:
        """Learn the reward of a decision."""
        ...

    def add(self, creative: int) -> None:
        """Have one more creative."""
        ...


class BanditPlayer:
    """A bandit, by labels, as an application uses it."""

    def __init__(self, shape: Cell, creatives: int, seed: int, **told: Any) -> None:
        levels = {mode: [f"{mode} {i}" for i in range(size)] for mode, size in zip(MODES, shape, strict=True)}
        levels["creative"] = levels["creative"][:creatives]
        space = tb.Space(levels, context=MODES[:3])
        space.forbid(device=f"device {DESKTOP}", channel=f"channel {PUSH}")
        largest = f"discount {shape[4] - 1}"
        space.forbid(creative=f"creative {PLAIN}", discount=largest)
        told = {"reward": "revenue"} | told
        ceilings = [({"discount": largest}, CEILING)]
        self.bandit = tb.Bandit(space, ceilings=ceilings, holdout=HOLDOUT, seed=seed, **told)

    def ask(self, levels: Cell) -> tuple[str, Cell]:
        given = {mode: f"{mode} {level}" for mode, level in zip(MODES, levels, strict=False)}
        decision = self.bandit.ask(given)
        arm = [int(decision.arm[mode].rpartition(" ")[2]) for mode in MODES[3:]]  # type: ignore[union-attr]
        return decision.id, (*levels, *arm)

    def tell(self, decision: str, reward: float) -> None:
        self.bandit.tell(decision, reward)

    def add(self, creative: int) -> None:
        self.bandit.add_level("creative", f"creative {creative}")


class Shares:
    """The rules of the programme and its shares of decisions, for those who are no bandit, and for what is possible."""

    def __init__(self, shape: Cell, creatives: int) -> None:
        self.shape, self.creatives = shape, creatives

    def allowed(self, levels: Cell) -> Floats:
        """Return which arms are allowed, as a mask over creatives, discounts and channels."""
        mask = np.ones(self.shape[3:], dtype=bool)
        mask[self.creatives :] = False
        mask[PLAIN, -1] = False
        if levels[1] == DESKTOP:
            mask[:, :, PUSH] = False
        return mask

    def best(self, values: Floats, levels: Cell) -> list[tuple[float, Cell]]:
        """Return the arms that whoever has these values plays, with their probabilities; the rest is at random."""
        mask = self.allowed(levels)
        first = _largest(values, mask)
        if first[1] < self.shape[4] - 1:
            return [(1.0 - HOLDOUT, first)]
        room = (CEILING - HOLDOUT * mask[:, -1].sum() / mask.sum()) / (1.0 - HOLDOUT)
        mask[:, -1] = False
        return [((1.0 - HOLDOUT) * room, first), ((1.0 - HOLDOUT) * (1.0 - room), _largest(values, mask))]

    def draw(self, values: Floats, levels: Cell, rng: np.random.Generator) -> Cell:
        """Return the arm that is played by whoever has these values."""
        at = rng.random()
        for share, arm in self.best(values, levels):
            at -= share
            if at < 0.0:
                return arm
        arms = np.argwhere(self.allowed(levels))
        return tuple(arms[rng.integers(len(arms))].tolist())

    def earned(self, means: Floats, values: Floats, levels: Cell) -> tuple[float, float]:
        """Return what those values earn of means on average, and what is earned at random."""
        blind = float(means[self.allowed(levels)].mean())
        return sum(share * float(means[arm]) for share, arm in self.best(values, levels)) + HOLDOUT * blind, blind


def _largest(values: Floats, mask: Floats) -> tuple[int, int, int]:
    a, b, c = np.unravel_index(int(np.where(mask, values, -np.inf).argmax()), values.shape)
    return int(a), int(b), int(c)


class RivalPlayer:
    """A plain model, of which a draw of the mean rewards of all arms is played under the shares."""

    def __init__(self, model: Any, shares: Shares, seed: int) -> None:
        self.model, self.shares, self.rng = model, shares, np.random.default_rng([seed, 7])

    def ask(self, levels: Cell) -> tuple[Cell, Cell]:
        cell = (*levels, *self.shares.draw(self.model.values(levels, self.rng), levels, self.rng))
        return cell, cell

    def tell(self, decision: Cell, reward: float) -> None:
        self.model.tell(decision, reward)

    def add(self, creative: int) -> None:
        self.shares.creatives = creative + 1


def make(player: str, shape: Cell, creatives: int, seed: int) -> Player:
    if player in BANDITS:
        return BanditPlayer(shape, creatives, seed, **BANDITS[player])
    return RivalPlayer(RIVALS[player](shape), Shares(shape, creatives), seed)


def measure(settings: Settings) -> Result:
    """Play the programme; return what was earned, was possible and is earned at random, by tenths of the rounds."""
    env = Programme()(settings["seed"])
    return play(make(settings["player"], env.shape, first_creatives(env.shape), settings["seed"]), env, settings)


def first_creatives(shape: Cell) -> int:
    return shape[3] - len(NEW)


def play(player: Player, env: RevenueEnvironment, settings: Settings) -> Result:
    rounds, late = settings["rounds"], LATE * settings["day"]
    mean = np.asarray(env.mean)
    due = [int(share * rounds) for share in NEW]
    rules = Shares(env.shape, first_creatives(env.shape))
    waiting: deque[tuple[Any, float]] = deque()
    earned, possible, blind = np.zeros((3, rounds))
    spent = 0.0
    for t in range(rounds):
        levels = env.context()
        start = process_time()
        if t in due:
            rules.creatives += 1
            player.add(rules.creatives - 1)
        if t >= late:
            player.tell(*waiting.popleft())
        decision, cell = player.ask(levels)
        spent += process_time() - start
        waiting.append((decision, env.pull(cell)))
        earned[t] = mean[cell]
        possible[t], blind[t] = rules.earned(mean[levels], mean[levels], levels)
    tenths = {"earned": earned, "possible": possible, "random": blind}
    return {name: _tenths(values) for name, values in tenths.items()} | {"microseconds": 1e6 * spent / rounds}


def _tenths(values: Floats) -> list[float]:
    return [float(part.sum()) for part in np.array_split(values, 10)]


def section(store: Store, options: Options) -> Findings:
    wanted = plan(options)
    found = [(settings, result) for settings in wanted if (result := store.get(settings)) is not None]
    rows, by_world = [], []
    for player in dict.fromkeys(settings["player"] for settings in wanted):
        here = [result for settings, result in found if settings["player"] == player]
        if here:
            rows.append(_row(LABELS[player], here))
    worlds = sorted({settings["seed"] for settings in wanted})
    for seed in worlds:
        here = {settings["player"]: result for settings, result in found if settings["seed"] == seed}
        if here:
            by_world.append(_world(seed, here, list(dict.fromkeys(settings["player"] for settings in wanted))))
    players = list(dict.fromkeys(settings["player"] for settings in wanted))
    parts: list[Part] = [
        Text(
            f"Creatives (25, and 3 more on the way), 5 discounts and 3 channels for 12 countries, 3 devices and 4 "
            f"dayparts, which are given; {wanted[0]['rounds']:,} decisions, rewards are known {LATE} days of "
            f"{wanted[0]['day']} decisions later. Push is not for desktops, the largest discount goes to at most "
            f"{CEILING:.0%}, {HOLDOUT:.0%} are decided at random. About 3 % buy at random, amounts are log-normal. "
            f"Worlds of seeds {worlds[0]} to {worlds[-1]}. Revenue is by mean rewards, in thousands; possible is what "
            "the best arms earn under the same rules and shares."
        ),
        command(NAME, *options.flags),
        Table(["player", "worlds", "revenue", "of what is possible", "worst", "last tenth", "microseconds"], rows),
        Table(["world", *(LABELS[player] for player in players), "at random", "possible"], by_world),
    ]
    return parts, {"rows": rows, "worlds": by_world}


def _row(words: str, results: Sequence[Result]) -> list[str]:
    shares = [sum(one["earned"]) / sum(one["possible"]) for one in results]
    late = [one["earned"][-1] / one["possible"][-1] for one in results]
    revenue = np.mean([sum(one["earned"]) for one in results]) / 1e3
    microseconds = float(np.median([one["microseconds"] for one in results]))
    return [
        *(words, str(len(results)), f"{revenue:,.1f}", f"{np.mean(shares):.1%}", f"{min(shares):.1%}"),
        *(f"{np.mean(late):.1%}", f"{microseconds:,.0f}"),
    ]


def _world(seed: int, here: dict[str, Result], players: Sequence[str]) -> list[str]:
    def thousands(result: Result | None, name: str = "earned") -> str:
        return "–" if result is None else f"{sum(result[name]) / 1e3:,.1f}"

    any_ = next(iter(here.values()))
    own = [thousands(here.get(player)) for player in players]
    return [str(seed), *own, thousands(any_, "random"), thousands(any_, "possible")]

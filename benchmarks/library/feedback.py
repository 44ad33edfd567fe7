"""Suite ``feedback``: a bandit whose rewards come late, in batches, shuffled, twice or never, beside a perfect world.

Each way of feedback plays the same simulated campaigns. After the last decision all windows are let end; then the
ledger of the policy must be that of the distinct rewards plus the defaults of those that got lost, entry by entry.
Beside them plays the campaign of the tutorial, as it stands there.
"""

from __future__ import annotations

import contextlib
import heapq
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tensorbandits as tb
from benchmarks.report import Findings, command
from benchmarks.run import ROOT
from benchmarks.store import Options, Result, Settings, Store
from tensorbandits.report.page import Part, Table, Text

NAME = "feedback"
MEASURED = "tensorbandits.bandit.bandit"
ALONE = False
TITLE = "Feedback as it comes: late, in batches, shuffled, lost, doubled"

ROUNDS, SEEDS = 10_000, 10
PERFECT = "at once"
PAGE = ROOT / "docs" / "tutorial.md"
CAMPAIGN, CAMPAIGNS = "the tutorial's campaign", 20
SIMULATED = ("people = ", "now = ", "people.wait")  # lines that an application of one's own does not have
LEAST, LINES = 0.9, 25  # of what it earns with feedback at once, in so many lines
Delay = Callable[[int, np.random.Generator], int]


@dataclass(frozen=True)
class Way:
    """How rewards come: after how many rounds, which share is lost or doubled, and whether a 0 is sent at all."""

    delay: Delay
    window: int
    lost: float = 0.0
    twice: float = 0.0
    zeros: bool = True


WAYS: dict[str, Way] = {
    PERFECT: Way(lambda now, rng: 0, 1),
    "after 100 rounds": Way(lambda now, rng: 100, 200),
    "after 5,000 rounds": Way(lambda now, rng: 5_000, 6_000),
    "every 500 rounds": Way(lambda now, rng: 500 - now % 500, 1_000),
    "shuffled over 1,000 rounds": Way(lambda now, rng: int(rng.integers(1_000)), 1_500),
    "10 % lost, 10 % doubled": Way(lambda now, rng: int(rng.integers(100)), 200, 0.1, 0.1),
    "clicks only, the same": Way(lambda now, rng: int(rng.integers(100)), 200, 0.1, 0.1, zeros=False),
}


@dataclass
class Post:
    """Messages on their way: a heap of when, which decision, and its reward."""

    way: Way
    rng: np.random.Generator
    coming: list[tuple[int, int, str, int]] = field(default_factory=list)

    def send(self, now: int, decision: str, reward: int) -> bool:
        """Post a reward, perhaps twice; return whether it will arrive at all."""
        if (not reward and not self.way.zeros) or self.rng.random() < self.way.lost:
            return False
        for copy in range(1 + int(self.rng.random() < self.way.twice)):
            at = now + self.way.delay(now, self.rng) + copy
            heapq.heappush(self.coming, (at, int(self.rng.integers(2**62)), decision, reward))
        return True

    def due(self, now: int) -> list[tuple[str, int]]:
        """Take out what has arrived."""
        found = []
        while self.coming and self.coming[0][0] <= now:
            _, _, decision, reward = heapq.heappop(self.coming)
            found.append((decision, reward))
        return found


def plan(options: Options) -> list[Settings]:
    """Every way on every world."""
    seeds, rounds = (1, 300) if options.quick else (SEEDS, ROUNDS)
    campaigns = range(options.fresh_seed, options.fresh_seed + (0 if options.quick else CAMPAIGNS))
    return [
        {"way": way, "rounds": rounds, "seed": seed}
        for seed in range(options.fresh_seed, options.fresh_seed + seeds)
        for way in WAYS
    ] + [{"way": CAMPAIGN, "perfect": perfect, "seed": seed} for seed in campaigns for perfect in (False, True)]


def label(settings: Settings) -> str:
    """A measurement in words."""
    return f"{settings['way']}, campaign {settings['seed']}"


def measure(settings: Settings) -> Result:
    """Play a campaign; return what it earned, what was possible, and whether the ledger is the one it should be."""
    if settings["way"] == CAMPAIGN:
        return campaign(settings["seed"], perfect=settings["perfect"])
    way, rounds = WAYS[settings["way"]], settings["rounds"]
    segments, offers = [f"segment {k}" for k in range(8)], [f"offer {k}" for k in range(30)]
    space = tb.Space({"segment": segments, "offer": offers, "channel": list("abcdef")}, context=["segment"])
    people = tb.Audience(space, seed=settings["seed"])
    bandit = tb.Bandit(space, reward="bernoulli", window=way.window, default=0, seed=settings["seed"])
    post = Post(way, np.random.default_rng([settings["seed"], 1]))
    cells, rewards = [], []
    for now in range(rounds):
        decision = bandit.ask(people.visit())
        click = int(people.show(decision))
        cells.append(space.cell({**decision.context, **decision.arm}))
        rewards.append(click if post.send(now, decision.id, click) else 0)
        for number, reward in post.due(now):
            bandit.tell(number, reward)
    earned, possible = people.earned, people.possible
    for number, reward in post.due(10**9):  # what is still on its way
        bandit.tell(number, reward)
    for _ in range(way.window + 1):  # rounds that nobody counts, until the last window has ended
        bandit.cancel(bandit.ask(people.visit()))
    expected = tb.Ledger(space.shape)
    expected.add(cells, rewards)
    return {"earned": earned, "possible": possible, "exact": bool(bandit.policy.ledger == expected)}


def program() -> str:
    """Return the application of the tutorial: its blocks that are titled campaign.py."""
    text = PAGE.read_text(encoding="utf-8")
    return "".join(re.findall(r'^```python title="campaign.py"\n(.*?)^```', text, flags=re.MULTILINE | re.DOTALL))


def lines() -> list[str]:
    """Return the lines of the application that are the user's own."""
    return [line for line in program().splitlines() if line.strip() and not line.startswith(SIMULATED)]


def campaign(seed: int, *, perfect: bool) -> Result:
    """Run the application of the tutorial up to its evaluation, with people of another seed.

    With ``perfect`` feedback every reward is told at once, clicked or not, and told once.
    """
    source = program().split("import pyarrow")[0].replace("seed=0", f"seed={seed}")
    source = source.replace("Bandit.load(", "Bandit.load(fresh=False, path=")  # so that it can be run again
    if perfect:
        source = source.replace("people.show(decision)", "bandit.tell(decision, int(people.show(decision)))")
    names: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        exec(compile(source, str(PAGE), "exec"), names)
    return {"earned": names["people"].earned, "possible": names["people"].possible}


def section(store: Store, options: Options) -> Findings:
    """Report what each way earned beside feedback at once."""
    groups: dict[str, dict[int, Result]] = {way: {} for way in WAYS}
    played: dict[bool, dict[int, Result]] = {False: {}, True: {}}
    for settings in plan(options):
        if (result := store.get(settings)) is not None:
            its = played[settings["perfect"]] if settings["way"] == CAMPAIGN else groups[settings["way"]]
            its[settings["seed"]] = result
    rows = [_row(way, results, groups[PERFECT]) for way, results in groups.items() if results]
    rounds = plan(options)[0]["rounds"]
    parts: list[Part] = [
        Text(
            f"Simulated campaigns (8 segments given, 30 offers x 6 channels, {rounds:,} visitors), Thompson sampling "
            "told that rewards are clicks. The regret is in clicks on average; the share earned is that of what the "
            "same policy earns when rewards come at once, paired by campaign, with a standard error. The ledger is "
            "exact if it holds the distinct rewards, and the default of those that were lost, and nothing else."
        ),
        command(NAME, *options.flags),
        Table(["rewards come", "campaigns", "regret", "earned beside at once", "exact ledgers"], rows),
    ]
    if shares := shares_of(played[False], played[True]):
        parts += _campaign_parts(shares, played[True])
    return parts, {"groups": {way: list(results.values()) for way, results in groups.items()}, "campaign": shares}


def shares_of(late: dict[int, Result], perfect: dict[int, Result]) -> list[float]:
    """Return what campaigns earned of what they earn with perfect feedback, by seed."""
    return [late[seed]["earned"] / perfect[seed]["earned"] for seed in late if seed in perfect]


def _campaign_parts(shares: list[float], perfect: dict[int, Result]) -> list[Part]:
    possible = sum(one["earned"] for one in perfect.values()) / sum(one["possible"] for one in perfect.values())
    mean, error = float(np.mean(shares)), float(np.std(shares, ddof=1) / np.sqrt(len(shares)))
    verdict = "holds" if mean >= LEAST else "does not hold here"
    return [
        Text(
            f"The campaign of the tutorial, {len(lines())} lines beside those that simulate people (at most {LINES} "
            "are wanted): clicks late, lost and doubled, offers that come and go, a rule, a restart, floors and a "
            "holdout. What it earns is a share of what the same program earns when every reward is told at once and "
            f"once, paired by seed, with a standard error. Told so, it earns {possible:.2f} of what is possible."
        ),
        Table(
            ["campaigns", "earned beside at once", "least and most", "wanted", "verdict"],
            [
                [
                    str(len(shares)),
                    f"{mean:.3f} +- {error:.3f}",
                    f"{min(shares):.2f} and {max(shares):.2f}",
                    f"at least {LEAST:g}",
                    verdict,
                ]
            ],
            "The tutorial's campaign",
        ),
    ]


def _row(way: str, results: dict[int, Result], perfect: dict[int, Result]) -> list[str]:
    regrets = [one["possible"] - one["earned"] for one in results.values()]
    shares = [one["earned"] / perfect[seed]["earned"] for seed, one in results.items() if seed in perfect]
    error = f" +- {np.std(shares, ddof=1) / np.sqrt(len(shares)):.3f}" if len(shares) > 1 else ""
    exact = sum(one["exact"] for one in results.values())
    beside: Any = f"{np.mean(shares):.3f}{error}" if shares else "–"
    return [way, str(len(results)), f"{np.mean(regrets):,.0f}", beside, f"{exact} of {len(results)}"]

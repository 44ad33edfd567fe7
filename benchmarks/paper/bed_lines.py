"""The beds of the suite ``beds``: a world, how long it is played, and the policies that play in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from benchmarks.paper.worlds import Campaign, FullRank, Keywords, Layouts, OpenData, spread
from tensorbandits.sim.jobs import EnvironmentFactory
from tensorbandits.sim.recipes import PaperWorld, PolicyRecipe

OURS = "thompson"
LOGISTIC = {  # logistic Thompson sampling, with main effects or all pairs, and times the posterior's variance
    f"logistic-{name}{label}": (name == "pairs", variance)
    for name in ("main", "pairs")
    for label, variance in (("", 1.0), ("-half", 0.5))
}
OTHERS = ("ensemble", "ucb", "arms", *LOGISTIC)  # policies that are not Thompson sampling with a tensor
MENU = tuple(f"{structure}-{rank}" for structure in ("tucker", "affine") for rank in (1, 2, 3))
SEEN = 3_000  # seeds that were looked at, or passed over, before the defaults which play here were settled
LABELS = {
    OURS: "Thompson sampling, told nothing",
    "told": "Thompson sampling, told the true rank",
    "ensemble": "the paper's ensemble, told the rank",
    "ucb": "vectorized UCB",
    "arms": "Beta-Bernoulli arms",
    "additive": "Thompson sampling, main effects alone",
} | {key: f"Thompson sampling, {key.replace('-', ', rank ')}" for key in MENU}
LABELS |= {
    key: f"logistic, {'all pairs' if pairs else 'main effects'}, variance x {variance:g}"
    for key, (pairs, variance) in LOGISTIC.items()
}


@dataclass(frozen=True)
class Bed:
    """A world, how long it is played, and what those who are told something are told."""

    words: str
    world: EnvironmentFactory
    rank: int
    rounds: int = 10_000
    reward: str = "gaussian"
    usual: bool = True  # whether it is played without being named
    many: bool = False  # modes, so that logistic models are the rivals, and tensors of a rank are not
    rivals: bool = False  # whether logistic models play beside all others

    @cached_property
    def lines(self) -> dict[str, PolicyRecipe]:
        """Every policy that plays here."""
        kind = {} if self.reward == "gaussian" else {"reward": self.reward}
        structures = {} if self.many else {key: key.split("-") for key in MENU}
        found = {OURS: PolicyRecipe("thompson", kind)} | (self._logistic() if self.many else self._others())
        found |= self._logistic() if self.rivals else {}
        found["additive"] = PolicyRecipe("thompson", {"structure": "additive"} | kind)
        found |= {
            key: PolicyRecipe("thompson", {"structure": structure, "rank": int(rank)} | kind)
            for key, (structure, rank) in structures.items()
        }
        if isinstance(self.world, PaperWorld):  # there a structure of the menu is the truth
            found["told"] = PolicyRecipe("thompson", {"rank": self.world.rank})
            del found[f"tucker-{self.world.rank}"]
        return found

    def _logistic(self) -> dict[str, PolicyRecipe]:
        """Logistic models, and UCB and separate arms."""
        found = {
            key: PolicyRecipe("benchmarks.paper.logistic:LogisticThompson", {"pairs": pairs, "variance": variance})
            for key, (pairs, variance) in LOGISTIC.items()
        }
        others = self._others()
        return found | {key: others[key] for key in ("ucb", "arms")}

    def _others(self) -> dict[str, PolicyRecipe]:
        """The policies that know no likelihood but the normal; where rewards are not of scale 1 they are told it."""
        if self.reward == "gaussian":
            ensemble = PolicyRecipe("ensemble", {"rank": self.rank, "paper": True})
            return {"ensemble": ensemble, "ucb": PolicyRecipe("ucb")}
        centre, scale = (float(f"{value:.2g}") for value in spread(self.world(0)))
        told = {"rank": self.rank, "centre": centre, "scale": scale}
        found = {"ensemble": PolicyRecipe("benchmarks.paper.baselines:StandardisedEnsemble", told)}
        found["ucb"] = PolicyRecipe("ucb", {"scale": scale})
        if self.reward == "bernoulli":
            found["arms"] = PolicyRecipe("benchmarks.paper.baselines:BetaBernoulliArms")
        return found


_BIKES, _OFTEN, _RARE = ("time:weekday", "time:3h"), (0.005, 0.15), (0.002, 0.06)
BEDS: dict[str, Bed] = {
    f"paper-{p}-{signal}": Bed(f"the paper's tensors, p = {p}, w = {signal}, rank 2", PaperWorld(p, signal), 2)
    for p in (15, 20)
    for signal in (0.5, 0.8)
} | {
    "bikes": Bed("bikes, all decided", OpenData("bikes"), 3),
    "bikes-given": Bed("bikes, weekday and slot given", OpenData("bikes", _BIKES), 3),
    "flights": Bed("flights, all decided", OpenData("flights"), 3),
    "campaign-main": Bed(
        "clicks, rates 0.5-15 %, strong main effects", Campaign(*_OFTEN, main=True), 2, 100_000, "bernoulli"
    ),
    "campaign-none": Bed(
        "clicks, rates 0.2-6 %, no main effects", Campaign(*_RARE, main=False), 2, 100_000, "bernoulli"
    ),
    "full-rank": Bed("main effects and a residual per cell, of full rank", FullRank(), 3),
    "full-rank-long": Bed("the same, 200,000 rounds", FullRank(), 3, 200_000),
    "keywords": Bed("counts of keywords with a heavy tail, month and weekday given", Keywords(), 3, reward="count"),
    "campaign-main-rare": Bed(
        "clicks, rates 0.2-6 %, strong main effects", Campaign(*_RARE, main=True), 2, 100_000, "bernoulli", usual=False
    ),
    "campaign-four": Bed(
        "clicks, 10 x 6 given and 60 x 5 decided, rates 0.5-15 %, main effects and rank 2",
        Campaign(*_OFTEN, main=True, shape=(10, 6, 60, 5), context=(0, 1)),
        *(2, 50_000, "bernoulli"),
        usual=False,
        rivals=True,
    ),
    "campaign-none-often": Bed(
        "clicks, rates 0.5-15 %, no main effects", Campaign(*_OFTEN, main=False), 2, 100_000, "bernoulli", usual=False
    ),
}

_MODES = {5: (4, 3, 4, 2, 6), 8: (4, 3, 4, 2, 6, 3, 5, 2), 12: (4, 3, 4, 2, 6, 3, 5, 2, 3, 2, 2, 3)}
_KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "main": ("main effects alone", {"main": 1.2, "pairs": 0.0}),
    "pairs": ("main effects and pairs", {}),
    "low-rank": ("main effects and pairs of rank 1", {"rank": 1}),
    "triple": ("main effects, pairs, and one interaction of three modes", {"triple": 0.5}),
}
BEDS |= {
    f"layouts-{modes}-{name}": Bed(
        f"clicks on layouts of {modes} modes, {words}",
        Layouts(shape, **settings),
        *(1, 30_000, "bernoulli"),
        usual=False,
        many=True,
    )
    for modes, shape in _MODES.items()
    for name, (words, settings) in _KINDS.items()
}


def first_seed(seed: int) -> int:
    """Return the seed of the first world, given that of the first fresh one: past those that were looked at."""
    return seed + SEEN

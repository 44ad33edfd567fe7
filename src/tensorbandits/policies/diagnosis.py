"""Which structure a policy's own rewards speak for: how well each predicts rewards that it was not shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tensorbandits.base.checks import check_count
from tensorbandits.ledger import Ledger
from tensorbandits.model.curve import FEWEST, Verdict, curve_sizes, learning_curve
from tensorbandits.model.effects import Kind, kind_of, kind_of_reward
from tensorbandits.model.held_out import Rewards
from tensorbandits.model.scores import Form, structures

_MOSTLY = 0.5  # share of decisions that the structure makes which is suggested


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """How well models predict rewards of a policy that were held out from them.

    ``scores`` is by model the mean log density of a held-out reward, after learning from ``rewards`` others; of counts
    up to a constant. ``learned`` is the same as a share: 0 is the overall mean, 1 the best of the models. ``structure``
    and ``rank`` are what is suggested: ``"tucker"``, ``"affine"``, ``"pairs"``, or ``"additive"`` where main effects
    suffice; the last two have no rank, ``None``. Where the rewards tell nothing yet, nothing is suggested, and both are
    ``None``. ``words`` says it in a sentence. ``playing`` is how often each structure decides where a policy plays
    several, by what they predicted as rewards came: then the one that decides mostly is suggested, since it rests on
    all rewards, each of which it was not shown before.

    ``verdict`` is ``"too few"`` rewards to tell anything, ``"nothing"`` to learn, ``"alone"`` where main effects
    suffice, ``"open"`` where only they are known so far, or ``"together"`` where combinations of levels are surely
    better or worse than their levels say; ``needed`` is about how many rewards it takes to know more, 0 where nothing
    lacks.
    """

    kind: Kind
    rewards: int
    scores: dict[str, float]
    learned: dict[str, float]
    structure: str | None
    rank: int | None
    words: str
    playing: dict[str, float] = field(default_factory=dict)
    verdict: Verdict = "too few"
    needed: float = 0.0

    def __repr__(self) -> str:
        if not self.scores:
            return self.words
        width = max(map(len, self.scores))
        table = [f"  {name:<{width}}  {score:11.5g}  {self.learned[name]:5.0%}" for name, score in self.scores.items()]
        head = f"  {'model':<{width}}  {'score':>11}  learned"
        rank = "" if self.rank is None else f", rank {self.rank}"
        suggestion = [] if self.structure is None else [f"Suggested structure: {self.structure}{rank}."]
        return "\n".join([self.words, *suggestion, head, *table])


def diagnose(
    ledger: Ledger,
    reward: str | None = None,
    *,
    max_rank: int = 3,
    seed: int = 0,
    playing: Mapping[str, float] | None = None,
) -> Diagnosis:
    """Return how well structures predict the rewards of a ledger, each quarter of them held out in turn.

    Parameters
    ----------
    ledger : the rewards; what has faded counts as the nearest whole number of them.
    reward : what they are: ``"gaussian"``, ``"bernoulli"``, ``"binomial"`` or ``"count"``; ``None`` looks at them. Of
        revenue, which a :class:`~tensorbandits.RevenueLedger` holds, conversions are looked at.
    max_rank : the largest rank to try.
    seed : of what is held out, and of the draws.
    playing : by name, how often each structure decides in the policy whose rewards they are, if it plays several.

    >>> rng = np.random.default_rng(0)
    >>> cells = rng.integers(5, size=(900, 2))
    >>> ledger = Ledger((5, 5)); ledger.add(cells, np.cos(cells[:, 0]) * np.sin(cells[:, 1]))
    >>> found = diagnose(ledger, max_rank=1)
    >>> found.rewards, found.kind, max(found.scores, key=found.scores.get) in found.learned
    (675, 'gaussian', True)
    """
    if ledger.rounds < FEWEST:
        raise ValueError(
            f"there are {ledger.rounds:g} rewards; some are held out from what models learn from, so tell the policy "
            f"at least {FEWEST}"
        )
    kind, ledger = (kind_of(ledger), ledger) if reward is None else kind_of_reward(reward, ledger)
    drawn, source = np.random.SeedSequence(check_count(seed, "seed", least=0)).spawn(2)
    rewards = Rewards.of(ledger, np.random.default_rng(drawn), whole_numbers=kind == "count")
    most = curve_sizes(rewards.total)[-1:]
    curve = learning_curve(rewards, kind, structures(ledger.shape, check_count(max_rank, "max_rank")), most, source)
    (point,) = curve.points
    words = curve.sentence(point.rewards).replace("**", "")
    verdict, needed = curve.verdict(point.rewards)
    suggested = None if verdict in ("too few", "nothing") else curve.suggested(point)
    most_played = max(playing, key=lambda name: playing[name]) if playing else ""
    if suggested is not None and playing and playing[most_played] > _MOSTLY:
        words += f" The policy plays {most_played} in {playing[most_played]:.0%} of its decisions"
        words += "." if most_played == str(suggested) else f"; held-out rewards alone would suggest {suggested}."
        suggested = Form.named(most_played)
    return Diagnosis(
        kind=kind,
        rewards=point.rewards,
        scores=point.as_dict(),
        learned={model: curve.learned(point, model) for model in point.models},
        structure=None if suggested is None else suggested.kind,
        rank=None if suggested is None or suggested.kind in ("additive", "pairs") else suggested.rank,
        words=words,
        playing=dict(playing or {}),
        verdict=verdict,
        needed=needed,
    )

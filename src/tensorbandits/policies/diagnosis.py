"""Which structure a policy's own rewards speak for: how well each predicts rewards that it was not shown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorbandits.base.checks import check_count
from tensorbandits.ledger import Ledger
from tensorbandits.model.curve import FEWEST, curve_sizes, learning_curve
from tensorbandits.model.effects import Kind, kind_of, kind_of_reward
from tensorbandits.model.held_out import Rewards
from tensorbandits.model.scores import structures


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """How well models predict rewards of a policy that were held out from them.

    ``scores`` is by model the mean log density of a held-out reward, after learning from ``rewards`` others; of counts
    up to a constant. ``learned`` is the same as a share: 0 is the overall mean, 1 the best of the models. ``structure``
    and ``rank`` are what is suggested: ``"tucker"``, ``"affine"``, or ``"additive"`` where main effects suffice, whose
    rank is ``None``. ``words`` says it in a sentence.
    """

    kind: Kind
    rewards: int
    scores: dict[str, float]
    learned: dict[str, float]
    structure: str
    rank: int | None
    words: str

    def __repr__(self) -> str:
        width = max(map(len, self.scores))
        table = [f"  {name:<{width}}  {score:11.5g}  {self.learned[name]:5.0%}" for name, score in self.scores.items()]
        head = f"  {'model':<{width}}  {'score':>11}  learned"
        rank = "" if self.rank is None else f", rank {self.rank}"
        return "\n".join([self.words, f"Suggested structure: {self.structure}{rank}.", head, *table])


def diagnose(ledger: Ledger, reward: str | None = None, *, max_rank: int = 3, seed: int = 0) -> Diagnosis:
    """Return how well structures predict the rewards of a ledger, each quarter of them held out in turn.

    Parameters
    ----------
    ledger : the rewards; what has faded counts as the nearest whole number of them.
    reward : what they are: ``"gaussian"``, ``"bernoulli"``, ``"binomial"`` or ``"count"``; ``None`` looks at them. Of
        revenue, which a :class:`~tensorbandits.RevenueLedger` holds, conversions are looked at.
    max_rank : the largest rank to try.
    seed : of what is held out, and of the draws.

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
    suggested = curve.suggested(point)
    return Diagnosis(
        kind=kind,
        rewards=point.rewards,
        scores=point.as_dict(),
        learned={model: curve.learned(point, model) for model in point.models},
        structure=suggested.kind,
        rank=None if suggested.kind == "additive" else suggested.rank,
        words=curve.sentence(point.rewards).replace("**", ""),
    )

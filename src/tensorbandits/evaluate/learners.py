"""Policies that learn along a log: told each reward only after the decision that it came from."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorbandits.evaluate.rows import Rows
from tensorbandits.evaluate.targets import Choices, law_of
from tensorbandits.model.revenue import revenue_of
from tensorbandits.model.rewards import Reward
from tensorbandits.policies.base import Policy
from tensorbandits.policies.thompson import TensorThompsonSampling
from tensorbandits.sim.recipes import PolicyRecipe
from tensorbandits.tensor.tucker import Floats

_STEPS = 16  # times that a learner is brought up to date with the log


def start(recipe: PolicyRecipe, rows: Rows, kind: Reward, seed: np.random.SeedSequence) -> Policy:
    """Return a policy that knows nothing yet; it is told what kind of reward there is, if it takes that."""
    settings: dict[str, Any] = {"horizon": len(rows)}
    able = revenue_of(kind) is None or issubclass(recipe.record.kind, TensorThompsonSampling)
    if kind != "gaussian" and recipe.record.takes("reward") and able:
        settings["reward"] = kind
    settings |= dict(recipe.settings)
    policy = recipe.record.make(rows.shape, context=rows.space.context, seed=seed, **settings)
    if rows.space.forbidden:
        policy.forbid(*rows.space.forbidden)
    return policy


def along(policy: Policy, rows: Rows) -> list[Choices]:
    """Return what a policy would have done after it was told all earlier rows, in steps that grow longer.

    It learns from all of the log's decisions, not only from those that it would have made itself.
    """
    ends = np.unique(np.ceil(len(rows) * (np.arange(1, _STEPS + 1) / _STEPS) ** 2).astype(np.int64))
    pieces, begin = [], 0
    for end in ends.tolist():
        here = np.arange(begin, end)
        pieces.append(Choices.of(law_of(policy, rows), rows, here))
        policy.tell_many(rows.cells[here], rows.rewards[here])
        policy.learn()
        begin = end
    return pieces


def replay(policy: Policy, rows: Rows, rng: np.random.Generator) -> Floats:
    """Return which rows a policy agrees with, (n,): 1 where it decides as the log did, and is told the reward.

    Of rows whose decision was likelier than the least likely, only so many are looked at that all are as likely. So
    each of its decisions is met with the same chance, and what it meets is a run of its own. A decision that is not
    met stands until the policy is told something, as the chance that it is met next time is the same again.
    """
    assert rows.propensities is not None
    looked = np.flatnonzero(rng.random(len(rows)) * rows.propensities < rows.propensities.min())
    accepted, standing = np.zeros(len(rows)), {}
    contexts, which = [tuple(levels) for levels in rows.contexts.tolist()], rows.context_of
    for i in looked.tolist():
        context = which[i]
        if context not in standing:
            standing[context] = policy.ask(contexts[context])
        cell = tuple(rows.cells[i].tolist())
        if standing[context] == cell:
            policy.tell(cell, float(rows.rewards[i]))
            accepted[i], standing = 1.0, {}
    return accepted

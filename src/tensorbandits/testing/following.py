"""What a process that only reads the log of decisions and rewards knows of the policy that made them."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np

from tensorbandits.policies.base import Policy
from tensorbandits.policies.query import Choice
from tensorbandits.testing.case import SHAPE, Case, fitting, play, product_mean, random_levels, same, unchanged

_ROUNDS = 160
_AHEAD = 40  # decisions that are compared afterwards


def check_proposing_changes_nothing(case: Case) -> None:
    """A proposal changes nothing but the generator it is given; the same generator proposes the same cell."""
    context = (1,) if case.takes_context else ()
    policy = case.make(SHAPE, context=context)
    for rounds in (0, 3, 60, 60):
        play(policy, rounds, seed=rounds, delay=2)
        for number in range(5):
            levels = random_levels(policy, np.random.default_rng(number))
            query = policy.query(levels, {0: [0, 2]} if number % 2 else None)
            with unchanged(policy, f"a proposal has changed it after {rounds} rounds"):
                one, two = (policy.propose(query, np.random.default_rng(number)) for _ in range(2))
            assert one == two, f"after {rounds} rounds"
            assert json.loads(json.dumps(one.note)) == one.note, f"the note {one.note!r} is no plain data"


def check_follows_a_log(case: Case) -> None:
    """One copy decides; another, told of all decisions and rewards in their order, is where the first one is.

    What is learned by chance alone, such as a chain of posterior draws, follows no log: where a policy samples, both
    copies learn whenever one does.
    """
    context = (1,) if case.takes_context else ()
    decides = case.make(SHAPE, context=context, horizon=_ROUNDS + _AHEAD // 2)
    follows = copy.deepcopy(decides)
    rng, mean, waiting = np.random.default_rng(0), product_mean(SHAPE), []
    for t in range(_ROUNDS):
        decides.learn()
        if case.samples:
            follows.learn()
        query = decides.query(random_levels(decides, rng), {0: [0, 2]} if t % 5 == 4 else None)
        choice = decides.propose(query, rng) if case.samples else decides.decide(query)
        if case.samples:
            decides.issued(*choice)
        follows.issued(choice.cell, json.loads(json.dumps(choice.note)))
        waiting.append((choice, float(mean[choice.cell] + 0.3 * rng.standard_normal())))
        if len(waiting) > 4:
            told, reward = waiting.pop(int(rng.integers(len(waiting))))
            _both(decides, follows, told, reward, t)
    _alike(case, decides, follows)
    for t in range(_AHEAD):
        for policy in (decides, follows):
            policy.learn()
        query = decides.query(random_levels(decides, rng))
        one, two = (policy.propose(query, np.random.default_rng(t)) for policy in (decides, follows))
        assert one.cell == two.cell, f"decision {t} after the log is {one} of one policy, {two} of the other"
        for policy in (decides, follows):
            policy.issued(*one)
            policy.tell(one.cell, fitting(policy, float(mean[one.cell])), one.note)


def _both(decides: Policy, follows: Policy, told: Choice, reward: float, t: int) -> None:
    """Tell both policies a reward, correct it now and then, and let the past fade."""
    reward = fitting(decides, reward)
    for policy in (decides, follows):
        policy.tell(told.cell, reward, told.note)
        if t % 11 == 0:
            policy.correct(told.cell, reward, reward + 0.5, told.note)
        if t % 50 == 49:
            policy.fade(0.98)


def _alike(case: Case, decides: Policy, follows: Policy) -> None:
    """Both have the same rewards, and the same counts, phases and stages."""
    one, two = decides.state_dict(), follows.state_dict()
    assert same(one["ledger"], two["ledger"]), "the rewards are not the same"
    mine, theirs = _counts(one["state"]), _counts(two["state"])
    different = [name for name in mine if not same(mine[name], theirs.get(name))]
    learned = case.record.traits.learns_apart and not case.samples
    assert not different or (learned and "counters" not in different), f"{different} are not the same"


def _counts(state: Any) -> dict[str, Any]:
    return dict(state) if isinstance(state, dict) else {"state": state}

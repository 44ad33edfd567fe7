"""Requests that are made while another thread gives a mode more levels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import tensorbandits as tb
from tensorbandits.policies.turns import Turns


class _GrowsFirst(Turns):
    """Turns at which somebody else comes first, and gives mode 1 two more levels."""

    policy: tb.Policy | None = None

    def _come_first(self) -> None:
        if self.policy is not None:
            policy, self.policy = self.policy, None
            policy.grow(1, 2)

    @contextmanager
    def still(self) -> Iterator[None]:
        self._come_first()
        with super().still():
            yield

    def submit(self, change, *arguments, check=None):  # type: ignore[no-untyped-def]
        self._come_first()
        super().submit(change, *arguments, check=check)


def _overtaken(policy: tb.Policy) -> tb.Policy:
    turns = _GrowsFirst(policy.traits.learns_apart)
    policy._turns = turns
    turns.policy = policy
    return policy


@pytest.fixture(params=["ucb", "thompson", "ensemble", "epoch-greedy"])
def policy(request: pytest.FixtureRequest) -> tb.Policy:
    shape = (3, 4, 2)
    made = {
        "ucb": lambda: tb.VectorizedUCB(shape, seed=0),
        "thompson": lambda: tb.TensorThompsonSampling(shape, 2, draws=4, seed=0),
        "ensemble": lambda: tb.TensorEnsembleSampling(shape, 2, ensemble_size=4, seed=0),
        "epoch-greedy": lambda: tb.TensorEpochGreedy(shape, 2, initial=20, seed=0),
    }[request.param]()
    for _ in range(40):
        cell = made.ask()
        made.tell(cell, float(sum(cell)))
    return made


def test_answers_fit_the_levels_there_are_when_asked(policy: tb.Policy) -> None:
    allowed = {1: [0, 3], 2: [1]}
    cell = _overtaken(policy).best(allowed=allowed)
    assert policy.shape == (3, 6, 2)
    assert cell[1:] in [(0, 1), (3, 1)]
    assert all(cell[1:] in [(0, 1), (3, 1)] for cell in _overtaken(policy).ask_many(3, allowed=allowed))
    if policy.traits.samples:
        assert 0.0 <= _overtaken(policy).propensity(cell, allowed=allowed) <= 1.0


def test_a_ledger_told_before_a_mode_gained_levels_is_taken(policy: tb.Policy) -> None:
    log = tb.Ledger(policy.shape)
    log.add([(2, 3, 1), (0, 0, 0)], [5.0, 1.0])
    _overtaken(policy).tell_ledger(log)
    assert policy.shape == (3, 6, 2)
    assert policy.ledger.received == 42
    assert log.shape == (3, 4, 2)


def test_rules_hold_for_a_request_made_while_a_mode_gains_levels(policy: tb.Policy) -> None:
    policy.forbid({0: 1, 1: 2}, {2: 0})
    policy.grow(1)
    policy.shape, before = (3, 4, 2), policy.shape  # as seen by one who asks in the middle of it
    query = policy.query()
    policy.shape = before
    assert query.allowed is not None
    assert query.allowed.shape == query.shape == (3, 4, 2)
    assert policy.decide(query).cell[2] == 1


@pytest.mark.parametrize("query", [None, (), {}, (1, 2)])
def test_only_a_query_is_decided(policy: tb.Policy, query: object) -> None:
    with pytest.raises(TypeError, match="no Query; give what"):
        policy.decide(query)  # type: ignore[arg-type]

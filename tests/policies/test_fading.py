"""A past that counts less and less, however long that goes on."""

from __future__ import annotations

import numpy as np
import pytest

import tensorbandits as tb


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("grown", [False, True])
def test_what_has_faded_away_is_still_completed(grown: bool) -> None:
    policy = tb.TensorEpochGreedy((4, 3, 4), 2, initial=60, seed=0)
    for _ in range(60):
        cell = policy.ask(allowed={0: [0, 1, 3]})
        policy.tell(cell, float(sum(cell)))
    if grown:
        policy.grow(1)
        for _ in range(20):
            cell = policy.ask()
            policy.tell(cell, float(sum(cell)))
    before = policy._exploration.probabilities(policy.explored)
    for _ in range(9000):
        policy.fade(0.9)
    after = policy._exploration.probabilities(policy.explored)
    assert before is not None
    np.testing.assert_allclose(after, before, rtol=0.5)  # some cells, drawn several times, faded further than others
    assert np.isfinite(policy.estimate([policy.best()])).all()


@pytest.mark.filterwarnings("error")
def test_ucb_comes_back_to_an_arm_that_was_long_forbidden() -> None:
    policy, means = tb.VectorizedUCB((3,)), [0.0, 1.0, 2.0]
    for round in range(8500):
        if round == 50:
            policy.forbid({0: 2})
        if round == 8000:
            policy.permit({0: 2})
        (arm,) = policy.ask()
        policy.fade(0.9)
        policy.tell((arm,), means[arm])
    assert policy.best() == (2,)
    assert policy.ask_many(10).count((2,)) >= 5


def test_epoch_greedy_measures_its_error_again_while_the_past_fades() -> None:
    policy = tb.TensorEpochGreedy((4, 4, 4), 1, initial=100, seed=0)
    rng = np.random.default_rng(0)
    measured = set()
    for _ in range(1500):
        cell = policy.ask()
        policy.fade(0.99)
        policy.tell(cell, float(cell[0] * cell[1] * cell[2]) + rng.standard_normal())
        measured.add(policy._measured[1])
    assert len(measured) > 10


def test_the_ladder_keeps_stepping_while_the_past_fades() -> None:
    policy = tb.TensorThompsonSampling((3, 3), 1, seed=0)
    for round in range(1500):
        cell = policy.ask()
        policy.fade(0.9)
        policy.tell(cell, float(round % 3))
    assert policy.oracle.samplers[0].ladder_due - policy.ledger.received <= 1


def test_notes_that_no_decision_has_are_refused_before_anything_is_learned() -> None:
    policy = tb.TensorEpochGreedy((3, 4), 1, seed=0)
    for note in ("1", -1.5, 0.5, float("nan"), float("inf"), [1]):
        with pytest.raises(ValueError, match=r"the note is .*; give the one of the decision"):
            policy.tell((0, 0), 1.0, note)
    assert policy.ledger.rounds == policy.explored.rounds == 0

"""What happens when modes gain levels, when the past fades, and when many rewards come at once."""

from __future__ import annotations

import copy
import re
import warnings
from functools import reduce
from typing import Any

import numpy as np

from tensorbandits.ledger import Ledger
from tensorbandits.policies.base import Policy
from tensorbandits.tensor.tucker import Floats
from tensorbandits.testing.case import (
    SHAPE,
    Case,
    Skipped,
    all_cells,
    fitting,
    ledger_of,
    play,
    raises,
    random_log,
    unchanged,
)
from tensorbandits.testing.state import through_a_file


def check_growth(case: Case) -> None:
    """A mode that gains levels costs nothing that was learned, and its new levels are played and learned.

    A policy that cannot follow refuses, says what to do instead, and stays as it was.
    """
    if not case.grows:
        policy = case.make(SHAPE)
        play(policy, 30)
        with unchanged(policy), raises(ValueError, "cannot follow a mode that gains levels.*tell_ledger"):
            policy.grow(0)
        return
    _grow(case, (3, 4), (), 1)
    if case.takes_context:
        _grow(case, (3, 3), (0,), 0)
        _grow(case, (3, 3), (0,), 1)


def _grow(case: Case, shape: tuple[int, ...], context: tuple[int, ...], mode: int) -> None:
    grown = tuple(size + 2 * (j == mode) for j, size in enumerate(shape))
    mean = _growing(grown)
    policy = case.make(shape, context=context, rank=1)
    play(policy, case.rounds // 2, mean=mean)
    told, old = set(policy.ledger), all_cells(shape)
    before = policy.estimate(old)
    policy.grow(mode)
    policy.grow(mode)
    assert policy.shape == policy.ledger.shape == grown
    assert set(policy.ledger) == told, "the ledger has changed"
    rewards = [policy.ledger[tuple(cell)].rounds for cell in np.asarray(old).tolist()]  # what was learned, of each cell
    moved = np.sqrt(np.average((policy.estimate(old) - before) ** 2, weights=rewards)) / before.std()
    assert moved < 0.5, f"estimates of old cells moved by {moved:.3g} of their spread"
    again = through_a_file(policy)
    cells = play(policy, case.rounds, mean=mean, seed=2)
    assert cells == play(again, case.rounds, mean=mean, seed=2), "a file written after growing goes on otherwise"
    assert {cell[mode] for cell in cells} - set(range(shape[mode])), "no new level was played"
    best = policy.best(tuple(grown[j] - 1 for j in context))
    assert mean[best] > 0.8 * mean[tuple(grown[j] - 1 if j in context else slice(None) for j in range(2))].max()


def check_a_refusal_to_grow_is_known_beforehand(case: Case) -> None:
    """``refusal_to_grow`` is ``None`` exactly when a copy can grow, else what its error says, and changes nothing."""
    for shape in ((2, 3), (1, 4), SHAPE):
        policy = case.make(shape)
        play(policy, 30)
        with unchanged(policy, "asking whether it can grow has changed it"):
            for mode in range(len(shape)):
                for count in (1, 40, 10**5, 10**9):
                    _grows_as_said(policy, mode, count)
            for other in (shape[:-1], (*shape, 2), tuple(max(size - 1, 1) for size in shape)):
                if other and other != shape:
                    assert policy.refusal_to_grow(other) is not None, f"{shape} does not grow to {other}"


def _grows_as_said(policy: Policy, mode: int, count: int) -> None:
    larger = tuple(size + count * (j == mode) for j, size in enumerate(policy.shape))
    why, twin = policy.refusal_to_grow(larger), copy.deepcopy(policy)
    if why is not None:
        with raises(ValueError, re.escape(why)):
            twin.grow(mode, count)
    elif count <= 40:  # more may take much memory, but is not refused
        twin.grow(mode, count)
        assert twin.shape == larger


def _growing(shape: tuple[int, ...]) -> Floats:
    """Means of which the last two levels of each mode are the best."""
    return reduce(np.multiply.outer, [np.append(np.linspace(0.2, 1.0, size - 2), [1.5, 1.5]) for size in shape])


def check_bad_growth_is_refused(case: Case) -> None:
    """Modes that do not exist and numbers of levels that are none are refused."""
    policy = case.make(SHAPE)
    bad: list[tuple[Any, ...]] = [(3,), (-1,), ("a",), (0, 0), (0, -1), (0, 1.5)]
    for arguments in bad:
        with raises((ValueError, TypeError)):
            policy.grow(*arguments)
    assert policy.shape == SHAPE


def check_a_fading_past_stays_sound(case: Case) -> None:
    """Fading each round, and fading almost all at once, leave sound numbers and no warning; decisions go on."""
    with warnings.catch_warnings(), np.errstate(invalid="raise", divide="raise"):
        warnings.simplefilter("error")
        policy = case.make(SHAPE)
        play(policy, 200, fade=0.99)
        _sound(policy)
        for _ in range(60):
            policy.fade(0.5)
        _sound(policy)
        play(policy, 40)
        _sound(policy)
        policy.fade(1e-6)
        play(policy, 10, fade=0.5)
        _sound(policy)


def _sound(policy: Policy) -> None:
    squares, freedom = policy.ledger.repeats()
    assert squares >= 0 <= freedom, policy.ledger.repeats()
    assert (policy.ledger.counts > 0).all()
    assert np.isfinite(policy.estimate(all_cells(policy.shape))).all()
    assert len(policy.best()) == len(policy.shape)
    assert len(policy.ask()) == len(policy.shape)


def check_bad_factors_are_refused(case: Case) -> None:
    """A factor that is not above 0 and at most 1 is refused, and changes nothing."""
    policy = case.make(SHAPE)
    play(policy, 20)
    bad: list[Any] = [0, -0.5, 1.5, float("nan"), float("inf"), None, "0.5", True]
    for factor in bad:
        with unchanged(policy), raises((ValueError, TypeError)):
            policy.fade(factor)


def check_a_fading_past_follows_a_change(case: Case) -> None:
    """When the best cell turns bad, a policy whose past fades earns more afterwards than one that forgets nothing."""
    if not case.forgets:
        raise Skipped("this policy plans its exploration once")
    before, after = np.array([3.0, 0.0, 0.0, 0.0]), np.array([0.0, 0.0, 0.0, 3.0])
    rounds = 300
    earned = {1.0: 0.0, 0.97: 0.0}
    for factor in earned:
        for seed in range(4):
            policy = case.make((4,), rank=1, seed=seed, horizon=8 * rounds)
            play(policy, 2 * rounds, mean=before, seed=seed, fade=factor)
            cells = play(policy, rounds, mean=after, seed=10 + seed, fade=factor)
            earned[factor] += float(sum(after[cell] for cell in cells)) / rounds
    assert earned[0.97] > earned[1.0], f"earned by factor: {earned}"


def check_a_ledger_told_equals_its_rewards_told(case: Case) -> None:
    """``tell_ledger`` teaches what telling its rewards one by one does."""
    cells, rewards = random_log(SHAPE, 120)
    rewards = np.round(8.0 * rewards) / 8.0  # so that sums are exact, in whatever order
    rewards = np.array([fitting(case.make(SHAPE), reward) for reward in rewards.tolist()])
    log = ledger_of(case.make(SHAPE), cells, rewards)
    for rounds in (0, 40):
        one, many = case.make(SHAPE), case.make(SHAPE)
        for policy in (one, many):
            for _ in range(rounds):  # all are answered, so that no ask waits for the rewards of the log
                policy.tell(policy.ask(), 0.5)
        for cell, reward in zip(cells.tolist(), rewards.tolist(), strict=True):
            one.tell(cell, reward)
        many.tell_ledger(log)
        assert one.ledger.rounds == many.ledger.rounds == rounds + 120
        for entry in one.ledger:
            np.testing.assert_allclose(many.ledger[entry.cell][1:], entry[1:], rtol=1e-12, atol=1e-12)
        assert one.ledger == many.ledger
        if rounds and one.ledger.kind:  # what it keeps is rounded, as logarithms are, and draws make the most of it
            continue
        everywhere = all_cells(SHAPE)
        np.testing.assert_allclose(many.estimate(everywhere), one.estimate(everywhere), rtol=1e-9, atol=1e-9)
        assert one.best() == many.best()
        assert play(one, 20, seed=3) == play(many, 20, seed=3)
    assert ledger_of(case.make(SHAPE), cells, rewards) == log, "the ledger that was told has changed"


def check_a_corrected_reward_counts_as_if_it_had_been_told(case: Case) -> None:
    """Rewards that were told wrong and corrected teach what the right ones would have, at once and while playing."""
    cells, rewards = random_log(SHAPE, 120)
    rewards = np.round(8.0 * rewards) / 8.0  # so that sums are exact, in whatever order
    right, mended = case.make(SHAPE), case.make(SHAPE)
    told = [
        (cell, fitting(right, -one), fitting(right, one)) for cell, one in zip(cells.tolist(), rewards, strict=True)
    ]
    for cell, wrong, reward in told:
        right.tell(cell, reward)
        mended.tell(cell, wrong)
    for cell, wrong, reward in told:
        mended.correct(cell, wrong, reward)
    assert mended.ledger == right.ledger
    assert mended.ledger.rounds == mended.ledger.received == 120.0
    expected, found = (policy.estimate(all_cells(SHAPE)) for policy in (right, mended))
    if right.ledger.kind:  # it keeps more than the sums that are exact
        assert np.isfinite(found).all()
    elif case.samples:  # sums about another first reward are rounded otherwise, which draws make the most of
        assert np.sqrt(np.mean((found - expected) ** 2)) < 0.5 * expected.std()
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
        assert play(right, 20, seed=3) == play(mended, 20, seed=3)
    _correct_while_playing(case)


def check_a_corrected_reward_that_has_faded_counts_what_is_left_of_it(case: Case) -> None:
    """Rewards that were told wrong while the past fades, and are corrected later, count as the right ones would."""
    right, mended = case.make(SHAPE), case.make(SHAPE)
    rng, told = np.random.default_rng(0), []
    for _ in range(60):
        right.learn()
        choice = right.decide(right.query())
        reward = float(rng.integers(1, 9))
        for policy, value in ((right, reward), (mended, fitting(mended, -reward))):
            policy.fade(0.97)
            policy.tell(choice.cell, value, choice.note)
        told.append((choice, reward))
    for age, (choice, reward) in enumerate(reversed(told)):
        mended.correct(choice.cell, fitting(mended, -reward), reward, choice.note, weight=0.97**age)
    for entry in right.ledger:
        np.testing.assert_allclose(mended.ledger[entry.cell][1:], entry[1:], rtol=1e-9, atol=1e-9)
    if not case.samples and case.patient:  # what was not asked for does not count alike in all others
        everywhere = all_cells(SHAPE)
        np.testing.assert_allclose(mended.estimate(everywhere), right.estimate(everywhere), rtol=1e-3, atol=1e-3)
    with raises(ValueError, "that still counts"):
        mended.correct(told[0][0].cell, 99.0, 1.0, weight=1.0)


def _correct_while_playing(case: Case) -> None:
    """Play with rewards that are all wrong at first, and corrected ten rounds later; the best cell is found."""
    mean = np.multiply.outer([0.2, 1.0, 0.4], [0.1, 0.3, 1.0, 0.5])
    policy, right = case.make((3, 4), rank=1), Ledger((3, 4))
    rng = np.random.default_rng(0)
    waiting: list[tuple[Any, float]] = []
    for t in range(case.rounds):
        policy.learn()
        choice = policy.decide(policy.query())
        reward = fitting(policy, float(mean[choice.cell] + 0.1 * rng.standard_normal()))
        policy.tell(choice.cell, fitting(policy, -reward), choice.note)
        right.add(choice.cell, reward)
        waiting.append((choice, reward))
        if t >= 10:
            told, reward = waiting.pop(0)
            policy.correct(told.cell, fitting(policy, -reward), reward, told.note)
    for told, reward in waiting:
        policy.correct(told.cell, fitting(policy, -reward), reward, told.note)
    np.testing.assert_allclose([entry.total for entry in policy.ledger], [entry.total for entry in right], atol=1e-9)
    assert not case.patient or mean[policy.best()] >= 0.5, f"{policy.best()} is believed best"


def check_what_was_never_told_is_not_corrected(case: Case) -> None:
    """A cell without rewards, or without such a reward, is refused, as are bad numbers; nothing changes."""
    policy = case.make(SHAPE)
    policy.tell((0, 1, 0), 2.0)
    bad: list[tuple[Any, ...]] = [
        ((0, 0, 0), 2.0, 1.0),
        ((0, 1, 0), 1.0, 0.0),
        ((0, 1, 0), 2.0, float("nan")),
        ((0, 1, 0), None, 1.0),
        ((0, 1), 2.0, 1.0),
        ((0, 9, 0), 2.0, 1.0),
    ]
    for arguments in bad:
        with unchanged(policy), raises((ValueError, TypeError)):
            policy.correct(*arguments)


def check_a_ledger_of_another_shape_is_refused(case: Case) -> None:
    """What is no ledger of the policy's shape is refused, as is replacing the policy's own."""
    policy = case.make(SHAPE)
    with unchanged(policy):
        with raises(ValueError, "shape"):
            policy.tell_ledger(Ledger((3, 4)))
        not_a_ledger: Any = {"a": 1}
        with raises(TypeError, "no Ledger"):
            policy.tell_ledger(not_a_ledger)
        with raises(AttributeError, "tell_ledger"):
            policy.ledger = Ledger(SHAPE)

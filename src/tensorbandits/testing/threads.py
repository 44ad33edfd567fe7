"""What many threads, and asks that nobody answers, may do to one policy."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from tensorbandits.policies.base import Policy
from tensorbandits.testing.case import Case, Skipped, fitting, play, product_mean, raises

_THREADS = 4
_SHAPE = (2, 3)
_STUCK = 60.0  # seconds after which a thread is taken to wait for ever


def check_threads_lose_nothing(case: Case) -> None:
    """Four threads that ask and tell one policy at the same time: no error, and every reward is counted."""
    policy = case.make(_SHAPE, horizon=2 * _THREADS * case.threaded)
    mean = product_mean(_SHAPE)

    def total(number: int) -> float:
        rng, told = np.random.default_rng(number), 0.0
        for _ in range(case.threaded):
            cell = policy.ask()
            reward = fitting(policy, float(mean[cell] + rng.standard_normal()))
            policy.tell(cell, reward)
            told += reward
        return told

    with ThreadPoolExecutor(_THREADS) as pool:
        totals = list(pool.map(total, range(_THREADS)))  # raises what a thread has raised
    assert policy.ledger.rounds == _THREADS * case.threaded
    np.testing.assert_allclose(policy.ledger.totals.sum(), sum(totals), rtol=1e-9, atol=1e-6)
    again = Policy.from_state_dict(policy.state_dict())
    assert play(again, 10) == play(policy, 10)


def check_deciding_does_not_wait_for_learning(case: Case) -> None:
    """While one thread learns, others decide, ask, tell and correct; all that is counted once learning ends.

    A reward that was never told is not corrected, and that is said at once.
    """
    if not case.record.traits.learns_apart:
        raise Skipped("this policy learns as it is told")
    policy = case.make(_SHAPE)
    while not policy._ready() or policy.ledger.rounds < 30:
        play(policy, 10)
    policy.learn()
    started, finish, original = threading.Event(), threading.Event(), policy._learn
    told, total = policy.ledger.rounds, policy.ledger.totals.sum()

    def learn_slowly() -> None:
        started.set()
        assert finish.wait(_STUCK)
        original()

    policy._learn = learn_slowly  # type: ignore[method-assign]
    learner = threading.Thread(target=policy.learn)
    learner.start()
    assert started.wait(_STUCK)
    seen: list[Any] = []

    def others() -> None:
        seen.append(policy.decide(policy.query()).cell)
        seen.append(policy.ask())
        policy.issued(seen[-1])
        policy.tell(seen[-1], 1.0)
        policy.fade(1.0)
        policy.correct(seen[-1], 1.0, 0.25)
        with raises(ValueError, "holds no reward"):
            policy.correct(seen[-1], 1e6, 0.0)
        seen.append(policy.ledger.rounds)

    other = threading.Thread(target=others, daemon=True)
    other.start()
    other.join(_STUCK)
    stuck = other.is_alive()
    finish.set()
    learner.join()
    assert not stuck, "a decision, a reward or a correction waited for another thread to learn"
    assert len(seen) == 3, "a reward that was never told was corrected"
    assert policy.ledger.rounds == told + 1, "the reward told meanwhile is lost"
    np.testing.assert_allclose(policy.ledger.totals.sum(), total + 0.25, err_msg="its correction is lost")


def check_unanswered_asks_are_bounded(case: Case) -> None:
    """Asks that are never answered take no more than so much memory, however many there are."""
    policy = case.make(_SHAPE)
    play(policy, 10)
    half = 0
    for number in range(case.unanswered):
        if number == case.unanswered // 2:
            half = held(policy)
        policy.ask()
    assert held(policy) <= 1.01 * half + 10, f"{held(policy)} things are held, {half} half-way"
    assert len(policy._notes) <= 20_000


def held(thing: Any, seen: set[int] | None = None) -> int:
    """Return the number of entries of all containers and arrays that something holds, directly or not.

    >>> held({"a": [1, 2, 3], "b": np.ones(4)})
    9
    """
    seen = set() if seen is None else seen
    if id(thing) in seen or isinstance(thing, (str, bytes, int, float, type)) or callable(thing):
        return 0
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        return thing.size
    if isinstance(thing, dict):
        return len(thing) + sum(held(part, seen) for part in (*thing.keys(), *thing.values()))
    if isinstance(thing, (list, tuple, set, frozenset, deque)):
        return len(thing) + sum(held(part, seen) for part in thing)
    return held(vars(thing), seen) if hasattr(thing, "__dict__") else 0

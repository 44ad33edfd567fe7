"""What is worked out of requests is bounded, is let go of with its snapshot, and may be asked for by many threads."""

import gc
import itertools
import sys
import threading
import weakref

import numpy as np
import pytest

from tensorbandits.bandit.commands import Ask
from tensorbandits.bandit.snapshot import keep
from tensorbandits.decider import arms
from tensorbandits.decider.arms import ReadySnapshot
from tensorbandits.decider.tokens import TokenKeys
from tests.decider.published import told

KEYS = TokenKeys({"a": bytes(16)})


def test_arms_of_floors_that_are_kept_are_bounded_for_all_requests_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arms, "REST", 5)
    ready, rng = ReadySnapshot(told(floors=0.5, holdout=0.5).snapshot(), KEYS), np.random.default_rng(0)
    seen: dict[object, object] = {}
    for segment, at in itertools.product(range(5), rng.random(300).tolist()):
        drawn = ready.request(Ask((segment,))).draw(at, rng).drawn
        assert seen.setdefault((drawn.cell, drawn.by), drawn) == drawn  # the same whether it is kept or not
    kept = [others for request in ready._requests.values() for others in request._others]
    assert sum(len(others.known) for others in kept) == 5
    assert ready.names.room == 0


def test_arms_of_floors_that_came_of_late_are_ready_in_the_next_snapshot() -> None:
    bandit, rng = told(floors=0.5), np.random.default_rng(0)
    one = ReadySnapshot(bandit.snapshot(), KEYS)
    request = one.request(Ask((1,)))
    request.used = True
    for at in rng.random(200).tolist():
        request.draw(at, rng)
    bandit.tell(arm={"offer": "a", "channel": "mail"}, context={"segment": "s1"}, reward=1)
    two = ReadySnapshot(bandit.snapshot(), KEYS)
    two.prepare(one)
    [[before], [now]] = (each.request(Ask((1,)))._others for each in (one, two))
    assert before.known
    assert set(now.known) == set(before.known)
    fresh = ReadySnapshot(two.published, KEYS).request(Ask((1,)))
    for at in rng.random(200).tolist():
        assert two.request(Ask((1,))).draw(at, rng) == fresh.draw(
            at, rng
        )  # and the same as if drawn for the first time


def test_a_snapshot_is_gone_as_soon_as_nobody_decides_from_it() -> None:
    ready = ReadySnapshot(told(floors=0.5).snapshot(), KEYS)
    request = ready.request(Ask((1,)))
    ready.remember((("segment", "s1"),), request)
    gone = weakref.ref(ready)
    gc.disable()
    try:
        del ready
        assert gone() is None
        assert request.draw(0.5, np.random.default_rng(0)).labels  # and who still has a request goes on
    finally:
        gc.enable()


def test_an_arm_without_a_chance_is_never_drawn() -> None:
    bandit = told(ceilings=[({"offer": offer}, 0.0) for offer in ("a", "b", "c")], rounds=100)
    ready = ReadySnapshot(bandit.snapshot(), KEYS)
    for segment in range(5):
        request = ready.request(Ask((segment,)))
        assert all(arm.drawn.propensity for arm in request._arms)
        assert request.draw(np.nextafter(1.0, 0.0), np.random.default_rng(0)).drawn.propensity


def test_threads_that_keep_values_at_once_keep_the_last_ones() -> None:
    kept: dict[int, int] = {}
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for at in range(4_000):
                keep(kept, 4_000 * number + at, at, 10)
        except BaseException as error:
            failed.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not failed
    assert len(kept) <= 13  # as many as there are threads may be beyond the bound

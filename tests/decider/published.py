"""Bandits to publish, keys, and sinks that remember, for the tests of deciders."""

import threading
from typing import Any

import numpy as np

import tensorbandits as tb
from tensorbandits.decider.sending import EventBatch

KEYS = {"2026-11": b"a secret of sixteen bytes or more"}
MODES = {"segment": [f"s{i}" for i in range(5)], "offer": ["a", "b", "c", "video"], "channel": ["mail", "sms", "push"]}


def told(rounds: int = 40, seed: int = 0, **settings: Any) -> tb.Bandit:
    """Return a bandit with some rewards, and with a rule."""
    space = tb.Space(MODES, context=["segment"])
    space.forbid(offer="video", channel="sms")
    bandit = tb.Bandit(space, reward="bernoulli", rank=1, seed=seed, **settings)
    rng = np.random.default_rng(seed + 1)
    for _ in range(rounds):
        context = {"segment": f"s{rng.integers(5)}"}
        played = {"played": {"offer": "a", "channel": "mail"}} if settings.get("apprentice") else {}
        decision = bandit.ask(context, **played)  # type: ignore[arg-type]
        bandit.tell(decision.id, int(rng.random() < 0.2 + 0.4 * (decision.arm["offer"] == "b")))
    return bandit


class Kept:
    """A sink that keeps what it is given; it fails as often as ``fails`` says, and waits while ``gate`` is closed."""

    def __init__(self, rows: int = 1_000, seconds: float = 0.02) -> None:
        self.rows, self.seconds = rows, seconds
        self.batches: list[EventBatch] = []
        self.fails = 0
        self.gate = threading.Event()
        self.gate.set()
        self.closed = False

    def write(self, batch: EventBatch) -> int:
        self.gate.wait()
        if self.fails:
            self.fails -= 1
            raise OSError(28, "No space left on device")
        self.batches.append(batch)
        return 0

    def own_again(self) -> None:
        self.batches = []

    def close(self) -> None:
        self.closed = True

    def ids(self, kind: str = "decisions") -> list[str]:
        return [event.id for batch in self.batches if batch.kind == kind for event in batch.events]


def decider(source: Any, **settings: Any) -> tb.Decider:
    """Return a decider with the keys of the tests."""
    return tb.Decider(source, **{"keys": KEYS, "every": 0.02, "seed": 0, **settings})

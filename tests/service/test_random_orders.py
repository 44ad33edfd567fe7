"""Orders at random, many in one transaction: what was answered is what the log says, and the log can always be read.

Ids and keys come from small pools, so that they are taken, repeated and reused all the time; amounts are of all sizes;
levels come and go, settings change, and the log is folded, in between.
"""

from collections import Counter
from concurrent.futures import Future

import numpy as np
import pytest

from tensorbandits.bandit.commands import Ask, chosen
from tensorbandits.decider.tokens import Token
from tensorbandits.service.engine import loading, orders
from tensorbandits.service.engine.engine import Engine
from tensorbandits.service.metrics import Metrics
from tensorbandits.store import Store

SETTINGS = {"modes": {"segment": ["new", "old"], "offer": ["a", "b", "c"]}, "context": ["segment"], "remember": 20}
KINDS = [
    {"reward": "gaussian", "adds": True},
    {"reward": "bernoulli", "window": 10, "default": 0},
    {"reward": "gaussian", "half_life": 30, "window": 40, "default": 0.0, "holdout": 0.2},
]


class Tenant:
    """Makes orders at random, and remembers what it was answered."""

    def __init__(self, host, rng, clicks, elsewhere):
        self.host, self.rng, self.clicks, self.count = host, rng, clicks, 0
        self.elsewhere = elsewhere  # whether deciders decide too, whose tokens keep the log from being folded

    def one_of(self, *some):
        return some[int(self.rng.integers(len(some)))]

    def id(self):
        return f"d{int(self.rng.integers(40))}"

    def ask(self, at=None):
        level, own = int(self.rng.integers(2)), self.rng.random() < 0.6
        ask = Ask((level,), chosen({1: [0, 1]}) if self.rng.random() < 0.3 else (), self.id() if own else None)
        key = None if self.rng.random() < 0.6 else f"k{int(self.rng.integers(15))}"
        part = key if at is None or key is None else f"{key} {at}"
        return orders.ask(self.host, ask, part, f"{ask.levels}{ask.chosen}{ask.id}" if part or own else None)

    def many(self):
        made = [self.ask(at) for at in range(int(self.rng.integers(2, 6)))]
        for order in made:
            order.together, order.since = made, made[0].since
        return made

    def tell(self):
        reward = float(self.rng.integers(2)) if self.clicks else float(np.exp(self.rng.normal(3.0, 6.0)))
        given = {"id": self.id(), "reward": reward, "amend": bool(self.rng.random() < 0.7)}
        if self.rng.random() < 0.1:
            given = {"arm": {"offer": "a"}, "context": {"segment": "new"}, "reward": reward}
        return orders.tell(self.host, given)

    def token(self):
        """The id of a decision that was made elsewhere, and what it says, the same each time."""
        at = int(self.rng.integers(30))
        by, chances = ("policy", "holdout", "floor")[at % 3], ((1.0, 0.0), (0.7, 0.2))[at % 2]
        token = Token("00" * 8, 1.7e9 + at, 7, None, by, (at % 2, at % 3), None if at % 4 else 0.25, chances, b"")
        return f"token-{at}", token

    def adopt(self):
        return orders.adopt(self.host, dict(self.token() for _ in range(int(self.rng.integers(1, 5)))))

    def tell_of_token(self):
        number, token = self.token()
        key = None if self.rng.random() < 0.7 else f"k{int(self.rng.integers(15))}"
        if self.rng.random() < 0.2:
            return self.one_of(orders.cancel, orders.activate)(self.host, number, key, f"c{number}", token)
        given = {"id": number, "reward": float(self.rng.integers(2)), "amend": bool(self.rng.random() < 0.5)}
        return orders.tell(self.host, given, key, f"{given}", token)

    def batch(self):
        made = []
        for _ in range(int(self.rng.integers(1, 8))):
            what = self.rng.random()
            if what < 0.25:
                made += self.many()
            elif what < 0.5:
                made.append(self.ask())
            elif what < 0.75:
                made.append(self.tell())
            elif what < 0.93 and self.elsewhere:
                made.append(self.one_of(self.adopt, self.tell_of_token)())
            else:
                made.append(self.one_of(orders.cancel, orders.activate)(self.host, self.id()))
        return made

    def values(self):
        """Features of a level, some of which cannot be."""
        given = {"price": self.one_of(1, 2.5, 1e7, None, "much"), "brand": self.one_of("Acme", "Bolt", "Core")}
        return {name: given[name] for name in given if self.rng.random() < 0.7}

    def describe(self):
        labels = [str(label) for label in self.host.core.space.levels[1] if self.rng.random() < 0.7]
        levels = [{"label": label, "features": self.values()} for label in labels]
        key = None if self.rng.random() < 0.7 else f"k{int(self.rng.integers(15))}"
        anew = bool(self.rng.random() < 0.3)
        return orders.describe(self.host, {"mode": "offer", "levels": levels, "anew": anew}, key, f"{levels}{anew}")

    def added(self):
        features = self.values() if "offer" in self.host.core.space.features else None
        given = {"mode": "offer", "label": f"new {self.count}", "features": features}
        return orders.level(self.host, "LevelAdded", given)

    def rare(self):
        self.count += 1
        made = self.one_of(
            self.added,
            self.describe,
            lambda: orders.settings(self.host, {"holdout": float(self.rng.integers(3)) / 10}),
            lambda: orders.expire(self.host),
        )
        return [made()]


def play(seed, kind, steps):
    rng = np.random.default_rng(seed)
    with Store.open("sqlite://") as store:
        engine = Engine(store, Metrics(), snapshots=0)
        engine.writer.start()
        host = engine.create("b", SETTINGS | kind, None)
        host.refresh(wait=True)
        tenant = Tenant(host, rng, kind["reward"] == "bernoulli", seed % 2 == 0)
        for step in range(steps):
            made = tenant.rare() if rng.random() < 0.05 else tenant.batch()
            for order in made:
                order.done = Future()
            engine.writer.take(made)
            for order in made:
                order.done.exception(timeout=60)
            assert host.quarantined is None, f"step {step}: {host.quarantined}"
            for order in made:
                if order.together:  # all or none; what is repeated was made before
                    fresh = [one for one in order.together if one.before is None]
                    done = [one.done.exception() is None for one in fresh]
                    assert all(done) or not any(one.events for one in fresh), f"step {step}"
            if rng.random() < 0.2:
                host.refresh(wait=True)
            if rng.random() < 0.03:
                engine.fold(host, None)
        decided = Counter(one.decision for one in store.events(host.id) if one.kind == "Decided")
        assert max(decided.values(), default=1) == 1  # there are none right after a fold
        assert loading.trouble(store, host.row) is None
        again = loading.rebuild(store, host.row)
        assert again.space == host.core.space
        host.core.learner.take_in()
        assert again.policy.ledger == host.core.policy.ledger
        for ours, theirs in zip(again.frozen()()["book"].items(), host.core.frozen()()["book"].items(), strict=True):
            if ours[0] != "issued":
                np.testing.assert_equal(ours, theirs)
        engine.writer.stop()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(kind))
@pytest.mark.parametrize("seed", range(2))
def test_what_is_in_the_log_is_what_was_answered(seed, kind):
    play(seed, kind, 100)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(kind))
@pytest.mark.parametrize("seed", range(100, 104))
def test_what_is_in_the_log_is_what_was_answered_for_long(seed, kind):
    play(seed, kind, 1_000)

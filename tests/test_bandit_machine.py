"""A bandit driven through random calls, held to a model that is a dict of decisions and a list of rewards."""

import math
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

import tensorbandits as tb

REWARDS = st.sampled_from([0.0, 1.0, 2.0])
WINDOW = 10.0


class Machine(RuleBasedStateMachine):
    @initialize(default=st.sampled_from([None, 0.0]), half_life=st.sampled_from([None, 8, "5 s"]))
    def start(self, default, half_life):
        self.time, self.default, self.half_life = 0.0, default, half_life
        space = tb.Space({"s": ["x", "y"], "a": ["p", "q", "r"], "b": ["u", "v"]}, context=["s"])
        self.bandit = tb.Bandit(
            *(space, "ucb"),
            **{"window": "10 s", "default": default, "adds": True, "half_life": half_life, "floors": 0.2},
            **{"clock": lambda: self.time, "seed": 0},
        )
        self.model = {}  # by id: cell, state, reward, end of the window, era of fading when a reward was first told
        self.started = []  # of levels that started like another: cell, rewards, their sum, era of fading
        self.added = self.told = 0

    @property
    def era(self):
        passed = {None: 0, 8: self.told / 8, "5 s": self.time / 5.0}[self.half_life]
        return math.floor(64 * passed)

    def receive(self, known, state, reward):
        if reward is not None and known["reward"] is None:
            self.told += 1
            known["era"] = self.era
        known.update(state=state, reward=reward)

    def expire(self):
        for known in sorted(self.model.values(), key=lambda known: known["end"]):
            if known["state"] == "open" and self.time > known["end"]:
                self.receive(known, "timed out", self.default)

    def pick(self, data):
        return data.draw(st.sampled_from(sorted(self.model))) if self.model else None

    @rule(s=st.sampled_from("xy"), active=st.booleans(), wait=st.sampled_from([0.0, 1.0, 6.0]))
    def ask(self, s, active, wait):
        self.time += wait
        decision = self.bandit.ask(s=s, activate=active)
        cell = self.bandit.space.cell({**decision.arm, **decision.context})
        assert not any(all(cell[m] == i for m, i in partial.items()) for partial in self.bandit.space.forbidden)
        assert 0.0 < decision.propensity <= 1.0
        state = "open" if active else "inactive"
        self.model[decision.id] = {
            "cell": cell,
            "state": state,
            "reward": None,
            "end": self.time + WINDOW,
            "shown": active,
        }

    @rule(data=st.data(), reward=REWARDS, how=st.sampled_from(["plain", "amend", "add"]))
    def tell(self, data, reward, how):
        if (number := self.pick(data)) is None:
            return
        self.expire()
        known = self.model[number]
        more = {} if how == "plain" else {how: True}
        before = known["reward"] if known["state"] == "rewarded" else None
        if known["state"] == "cancelled" or (how == "plain" and before not in (None, reward)):
            with pytest.raises(ValueError, match=r"cancelled|already"):
                self.bandit.tell(number, reward, **more)
            return
        self.bandit.tell(number, reward, **more)
        self.receive(known, "rewarded", reward + (before or 0.0) * (how == "add"))

    @rule(data=st.data())
    def activate(self, data):
        if (number := self.pick(data)) is not None and self.model[number]["state"] != "cancelled":
            self.bandit.activate(number)
            if self.model[number]["state"] == "inactive":
                self.model[number].update(state="open", end=self.time + WINDOW, shown=True)

    @rule(data=st.data())
    def cancel(self, data):
        if (number := self.pick(data)) is None:
            return
        self.expire()
        if self.model[number]["reward"] is None:
            self.bandit.cancel(number)
            self.model[number]["state"] = "cancelled"

    @rule(a=st.sampled_from("pqr"), b=st.sampled_from("uv"), s=st.sampled_from("xy"))
    def forbid(self, a, b, s):
        if len(self.bandit.space.rules) < 4:  # of six arms or more, so that something is left
            self.bandit.space.forbid(a=a, b=b, s=s)

    @rule()
    def lift(self):
        for listed in self.bandit.space.rules[:1]:
            self.bandit.space.remove_rule(listed)

    @rule(like=st.sampled_from([None, "u"]))
    def add_level(self, like):
        if self.added == 3:
            return
        self.expire()
        its = {cell: sums for cell, sums in self.expected().items() if cell[2] == 0}
        self.bandit.add_level("b", self.added, like=like, rewards=None if like is None else 2.0)
        self.added += 1
        if like is not None and its:
            share = min(2.0 / sum(rounds for rounds, _ in its.values()), 1.0)
            for (s, a, _), (rounds, total) in its.items():
                self.started.append(((s, a, 1 + self.added), share * rounds, share * total, self.era))

    @rule()
    def retire_or_restore(self):
        try:
            if self.bandit.space.retired:
                self.bandit.restore_level("a", "p")
            else:
                self.bandit.retire_level("a", "p")
        except ValueError as error:
            if "nothing would be left" not in str(error):
                raise

    @rule()
    def save_and_load(self):
        self.expire()
        with TemporaryDirectory() as folder:
            self.bandit.save(f"{folder}/bandit.safetensors")
            self.bandit = tb.Bandit.load(f"{folder}/bandit.safetensors", clock=lambda: self.time)

    def expected(self):
        """What the ledger holds: by cell, the number of rewards and their sum, as far as they still count."""
        told = [known for known in self.model.values() if known["reward"] is not None]
        parts = [(known["cell"], 1.0, known["reward"], known["era"]) for known in told]
        found = {}
        for cell, count, reward, era in [*parts, *self.started]:
            weight = 2.0 ** ((era - self.era) / 64)
            rounds, total = found.get(cell, (0.0, 0.0))
            found[cell] = (rounds + weight * count, total + weight * reward)
        return found

    @invariant()
    def agrees(self):
        if not hasattr(self, "model"):
            return
        self.bandit.expire()
        self.expire()
        for number, known in self.model.items():
            assert self.bandit.status(number) == known["state"]
        expected = self.expected()
        ledger = self.bandit.policy.ledger
        assert {entry.cell for entry in ledger} == set(expected)
        for cell, sums in expected.items():
            np.testing.assert_allclose(ledger[cell][1:3], sums, rtol=1e-9, atol=1e-9)
        assert self.half_life or self.started or all(ledger[cell][1:3] == sums for cell, sums in expected.items())
        assert np.isclose(ledger.rounds, sum(rounds for rounds, _ in expected.values()))
        shown = [known for known in self.model.values() if known["shown"] and known["state"] != "cancelled"]
        rewards = [known["reward"] for known in shown if known["reward"] is not None]
        expected = [len(shown), len(rewards), sum(rewards), sum(reward**2 for reward in rewards)]
        assert np.allclose(self.bandit.timeline().totals.sum(axis=(0, 1)), expected)


@pytest.mark.parametrize(("runs", "steps"), [(10, 30), pytest.param(200, 50, marks=pytest.mark.slow)])
def test_a_bandit_agrees_with_a_simple_model(runs, steps):
    checks = list(HealthCheck)
    run_state_machine_as_test(
        Machine,
        settings=settings(max_examples=runs, stateful_step_count=steps, deadline=None, suppress_health_check=checks),
    )

"""A bandit driven through random calls, several at once, held to a model that is some dicts and a list of rewards.

Calls that are made at the same time must be answered as if they had been made one after the other, in some order: the
model looks for such an order.
"""

import copy
import itertools
import math
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

import tensorbandits as tb
from tensorbandits.bandit.book import (
    CancelledDecisionError,
    ClosedDecisionError,
    ExpiredDecisionError,
    UnknownDecisionError,
)

THREADS = 4
START, LIKE = 2.0, "u"  # rewards as which a level starts that is like another, and that one


class Model:
    """What a bandit should be: decisions by id, rewards, and rules, all by label."""

    def __init__(self, window, default, half_life, capacity, remember):
        self.window, self.default, self.half_life = window, default, half_life
        self.capacity, self.remember = capacity, remember
        self.time, self.rounds, self.told = 0.0, 0, 0
        self.known, self.forgotten = {}, set()
        self.inactive, self.open, self.closed = {}, {}, {}
        self.rewards = []  # of one or several: their cell, how many, their sum, and the era of fading when it was told
        self.line = np.zeros(4)  # of decisions that were shown: how many, rewards, their sum, their squares
        self.levels, self.retired, self.forbidden = ["u", "v"], set(), {}
        self.borrowed = False  # whether a level started like another

    # What happens by itself.

    @property
    def era(self):
        passed = {None: 0, 8: self.told / 8, "5 s": self.time / 5.0}[self.half_life]
        return math.floor(64 * passed)

    def entered(self, cell, count, total):
        self.rewards.append([cell, count, total, self.era])
        return len(self.rewards) - 1

    def rewarded(self, one, reward):
        if one["reward"] is None:
            self.told += 1
            one["at"] = self.entered(one["cell"], 1.0, reward)
        else:
            self.rewards[one["at"]][2] = reward
        if one["shown"]:
            before = one["reward"]
            self.line += [0, before is None, reward - (before or 0.0), reward**2 - (before or 0.0) ** 2]
        one["reward"] = reward

    def close(self, number, state):
        for held in (self.inactive, self.open, self.closed):
            held.pop(number, None)
        self.known[number]["state"] = state
        self.closed[number] = None
        while len(self.closed) > self.remember:
            self.forgotten.add(next(iter(self.closed)))
            del self.closed[next(iter(self.closed))]

    def show(self, number):
        one = self.known[number]
        self.rounds += 1
        self.line[0] += 1
        end = self.rounds + 4 if self.window == 4 else self.time + 10.0
        one.update(state="open", end=end, shown=True)
        self.open[number] = None

    def expire(self):
        now = self.rounds if self.window == 4 else self.time
        while self.open:
            number = next(iter(self.open))
            if len(self.open) <= self.capacity and now <= self.known[number]["end"]:
                break
            self.close(number, "timed out")
            if self.default is not None:
                self.rewarded(self.known[number], self.default)
        while len(self.inactive) > self.capacity:
            self.close(next(iter(self.inactive)), "cancelled")

    def arms(self, s, allowed="pqr"):
        pairs = itertools.product(allowed, self.levels)
        return {(a, b) for a, b in pairs if a not in self.retired and (s, a, b) not in self.forbidden}

    def find(self, number):
        self.expire()
        if number not in self.known:
            return UnknownDecisionError
        return ExpiredDecisionError if number in self.forgotten else self.known[number]

    # Calls. Each returns whether the answer, a value or the class of an error, is the right one.

    def ask(self, answer, s, active, allowed):
        arms = self.arms(s, allowed)
        if not arms:
            return answer is ValueError
        if not isinstance(answer, tb.Decision) or answer.context != {"s": s} or not 0.0 < answer.propensity <= 1.0:
            return False
        arm = answer.arm["a"], answer.arm["b"]
        self.known[answer.id] = {"cell": (s, *arm), "state": "inactive", "reward": None, "shown": False}
        self.inactive[answer.id] = None
        if active:
            del self.inactive[answer.id]
            self.show(answer.id)
        self.expire()
        return arm in arms

    def tell(self, answer, number, reward, how):
        one = self.find(number)
        if not isinstance(one, dict):
            return answer is one
        if one["state"] == "cancelled":
            return answer is CancelledDecisionError
        before = one["reward"] if one["state"] == "rewarded" else None
        if math.isnan(reward):
            return answer is ValueError
        if how == "plain" and before not in (None, reward):
            return answer is ClosedDecisionError
        after = reward + (before or 0.0) * (how == "add")
        changed = after != before
        self.rewarded(one, after)
        if changed:
            self.close(number, "rewarded")
        return answer is None

    def tell_arm(self, answer, s, a, reward):
        self.expire()
        self.told += 1
        self.entered((s, a, "v"), 1.0, reward)
        return answer is None

    def activate(self, answer, number):
        one = self.find(number)
        if not isinstance(one, dict):
            return answer is one
        if one["state"] == "cancelled":
            return answer is CancelledDecisionError
        if one["state"] == "inactive":
            del self.inactive[number]
            self.show(number)
        return answer is None

    def cancel(self, answer, number):
        one = self.find(number)
        if not isinstance(one, dict):
            return answer is one
        if one["reward"] is not None:
            return answer is ClosedDecisionError
        if one["state"] != "cancelled":
            self.line[0] -= one["shown"]
            self.close(number, "cancelled")
        return answer is None

    def status(self, answer, number):
        one = self.find(number)
        return answer == (one["state"], one["reward"]) if isinstance(one, dict) else answer is one

    def misspell(self, answer):
        return answer is ValueError

    def forbid(self, answer, s, a, b):
        if self.arms(s) <= {(a, b)}:
            return answer is ValueError
        self.forbidden[s, a, b] = None
        return answer is None

    def lift(self, answer, s, a, b):
        return answer is (None if self.forbidden.pop((s, a, b), "none") is None else ValueError)

    def retire(self, answer, a):
        if any(not {arm for arm in self.arms(s) if arm[0] != a} for s in "xy"):
            return answer is ValueError
        self.retired.add(a)
        return answer is None

    def restore(self, answer, a):
        if a not in self.retired:
            return answer is ValueError
        self.retired.remove(a)
        return answer is None

    def add_level(self, answer, label, like):
        self.expire()
        if label in self.levels:
            return answer is ValueError
        its = {cell: sums for cell, sums in self.sums().items() if cell[2] == LIKE}
        self.levels.append(label)
        if like and its:
            self.borrowed = True
            share = min(START / sum(rounds for rounds, _ in its.values()), 1.0)
            for (s, a, _), (rounds, total) in its.items():
                self.entered((s, a, label), share * rounds, share * total)
        return answer is None

    def snapshot(self, answer):
        return copy.deepcopy(self).differs(answer) is None

    # The whole.

    def sums(self):
        """By cell, the number of rewards and their sum, as far as they still count."""
        found = {}
        for cell, count, total, era in self.rewards:
            weight = 2.0 ** ((era - self.era) / 64)
            rounds, before = found.get(cell, (0.0, 0.0))
            found[cell] = (rounds + weight * count, before + weight * total)
        return found

    def differs(self, bandit):
        """Say what a bandit has otherwise, if anything, once all windows have ended that have."""
        bandit.expire()
        self.expire()
        space, ledger = bandit.space, bandit.policy.ledger
        if space.levels != (("x", "y"), ("p", "q", "r"), tuple(self.levels)):
            return space.levels
        if [set(space.retired.get("a", [])), *(tuple(one["forbid"].values()) for one in space.rules)] != [
            self.retired,
            *self.forbidden,
        ]:
            return space.rules, space.retired
        for number, one in self.known.items():
            if number not in self.forgotten and (state := answered(bandit, "status", [number])) != one["state"]:
                return number, state
        kept = (
            bandit.state_dict()["book"]["ids"].tobytes().decode().split("\n")
        )  # in order, of which much follows later
        if (kept if kept != [""] else []) != [*self.inactive, *self.open, *self.closed]:
            return kept
        expected = {space.cell(dict(zip("sab", cell))): sums for cell, sums in self.sums().items()}
        found = {entry.cell: (entry.rounds, entry.total) for entry in ledger}
        if set(found) != set(expected):
            return found
        near = 1e-9 if self.half_life or self.borrowed else 0.0
        if any(not np.allclose(found[cell], sums, rtol=near, atol=near) for cell, sums in expected.items()):
            return found
        line = bandit.timeline().totals.sum(axis=(0, 1))
        return None if np.allclose(line, self.line) and bandit.waiting == len(self.open) + len(self.inactive) else line


def answered(bandit, call, arguments):
    """Make a call; return its answer, or the class of the error."""
    names = dict(zip("sab", arguments))
    calls = {
        "ask": lambda s, active, allowed: bandit.ask(s=s, activate=active, allowed={"a": list(allowed)}),
        "tell": lambda number, reward, how: bandit.tell(number, reward, **({} if how == "plain" else {how: True})),
        "tell_arm": lambda s, a, reward: bandit.tell(arm={"a": a, "b": "v"}, context={"s": s}, reward=reward),
        "activate": bandit.activate,
        "cancel": bandit.cancel,
        "status": bandit.status,
        "misspell": lambda: bandit.ask(s="xx"),
        "forbid": lambda *_: bandit.space.forbid(names),
        "lift": lambda *_: bandit.space.remove_rule({"forbid": names}),
        "retire": lambda a: bandit.retire_level("a", a),
        "restore": lambda a: bandit.restore_level("a", a),
        "add_level": lambda label, like: bandit.add_level(
            "b", label, **({"like": LIKE, "rewards": START} if like else {})
        ),
        "snapshot": bandit.state_dict,
    }
    try:
        return calls[call](*arguments)
    except (LookupError, TypeError, ValueError) as error:
        return type(error)


REWARDS = st.sampled_from([0.0, 1.0, 2.0, float("nan")])
TOLD = st.sampled_from([0.0, 1.0, 2.0])
CONTEXTS, OFFERS = st.sampled_from("xy"), st.sampled_from("pqr")
CELLS = st.tuples(CONTEXTS, OFFERS, st.sampled_from("uv"))


RECENT = st.integers(0, 12)  # which of the last decisions: what is drawn must not depend on how threads were scheduled
CALLS = st.one_of(
    st.tuples(st.just("ask"), st.tuples(CONTEXTS, st.booleans(), st.sampled_from(["pqr", "pqr", "p", "qr"]))),
    st.tuples(st.just("ask"), st.tuples(CONTEXTS, st.just(True), st.just("pqr"))),
    st.tuples(st.just("tell"), st.tuples(RECENT, REWARDS, st.sampled_from(["plain", "amend", "add"]))),
    st.tuples(st.just("tell_arm"), st.tuples(CONTEXTS, OFFERS, TOLD)),
    st.tuples(st.sampled_from(["activate", "cancel"]), st.tuples(RECENT)),
    st.tuples(st.sampled_from(["forbid", "lift"]), CELLS),
    st.tuples(st.sampled_from(["retire", "restore"]), st.tuples(st.sampled_from("pq"))),
    st.tuples(st.just("add_level"), st.tuples(st.sampled_from([1, 2, 3]), st.booleans())),
    st.sampled_from([("misspell", ()), ("snapshot", ())]),
)


class Machine(RuleBasedStateMachine):
    steps = 0  # calls made, over all machines

    @initialize(
        policy=st.sampled_from(["ucb", "thompson"]),
        window=st.sampled_from([4, "10 s"]),
        default=st.sampled_from([None, 0.0]),
        half_life=st.sampled_from([None, 8, "5 s"]),
        bounds=st.sampled_from([(100, 100), (3, 5)]),
    )
    def start(self, policy, window, default, half_life, bounds):
        self.model = Model(window, default, half_life, *bounds)
        space = tb.Space({"s": ["x", "y"], "a": ["p", "q", "r"], "b": ["u", "v"]}, context=["s"])
        kept = {"window": window, "default": default, "half_life": half_life, "adds": True, "floors": 0.2}
        bounded = dict(zip(("capacity", "remember"), bounds))
        rank = {} if policy == "ucb" else {"rank": 1}
        self.bandit = tb.Bandit(space, policy, **kept, **bounded, **rank, clock=lambda: self.model.time, seed=0)

    def number(self, recent):
        """The id of one of the last decisions, or of none."""
        return dict(enumerate(reversed(self.model.known))).get(recent, "nobody")

    def meant(self, call, arguments):
        """A call as it is made: with the id of a decision."""
        named = call in ("tell", "activate", "cancel")
        return call, (self.number(arguments[0]), *arguments[1:]) if named else arguments

    def follow(self, made, answers):
        """Let the model make the calls in an order in which it gives the same answers."""
        answers = [
            tb.Bandit.from_state_dict(answer, clock=lambda: self.model.time) if call == "snapshot" else answer
            for (call, _), answer in zip(made, answers)
        ]
        differences = []
        for order in itertools.permutations(range(len(made))):
            model = copy.deepcopy(self.model)
            if all(getattr(model, made[k][0])(answers[k], *made[k][1]) for k in order):
                differences.append(copy.deepcopy(model).differs(self.bandit))
                if differences[-1] is None:
                    self.model = model
                    return
        raise AssertionError(f"no order of {made} gives the answers {answers}, and then {differences or 'the rest'}")

    @rule(call=CALLS, wait=st.sampled_from([0.0, 0.0, 1.0, 6.0]))
    def one(self, call, wait):
        """A call alone; some windows may just have ended."""
        self.model.time += wait
        Machine.steps += 1
        made = self.meant(*call)
        self.follow([made], [answered(self.bandit, *made)])

    @rule(drawn=st.lists(CALLS, min_size=2, max_size=THREADS), wait=st.sampled_from([0.0, 0.0, 6.0]))
    def several(self, drawn, wait):
        """Calls at once, each in a thread of its own."""
        self.model.time += wait
        Machine.steps += len(drawn)
        made = [self.meant(*call) for call in drawn]
        barrier, bandit = threading.Barrier(len(made)), self.bandit

        def make(call):
            barrier.wait()
            return answered(bandit, *call)

        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            with ThreadPoolExecutor(len(made)) as threads:
                answers = list(threads.map(make, made))
        finally:
            sys.setswitchinterval(interval)
        self.follow(made, answers)

    @rule(recent=RECENT)
    def look(self, recent):
        number = self.number(recent)
        Machine.steps += 1
        try:
            answer = self.bandit.status(number), self.bandit.reward(number)
        except LookupError as error:
            answer = type(error)
        assert self.model.status(answer, number)

    @rule()
    def save_and_load(self):
        Machine.steps += 1
        with TemporaryDirectory() as folder:
            self.bandit.save(f"{folder}/bandit.safetensors")
            self.bandit = tb.Bandit.load(f"{folder}/bandit.safetensors", clock=lambda: self.model.time)

    @invariant()
    def agrees(self):
        if hasattr(self, "model"):
            assert self.model.differs(self.bandit) is None


@pytest.mark.parametrize(("runs", "steps"), [(10, 400), pytest.param(200, 10_000, marks=pytest.mark.slow)])
def test_a_bandit_agrees_with_a_simple_model(runs, steps):
    Machine.steps = 0
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=runs,
            stateful_step_count=50,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],  # what threads did once they may not do again, so that nothing can be made smaller
        ),
    )
    assert Machine.steps >= steps

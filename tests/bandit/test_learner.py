"""The thread that learns: what it says of the rewards that its draws know of."""

import numpy as np

import tensorbandits as tb
from tensorbandits.bandit.commands import Ask
from tensorbandits.bandit.core import Core
from tensorbandits.bandit.learner import Learner
from tensorbandits.bandit.making import new_state


class Interrupted(Learner):
    """A learner to which another thread brings a lesson just when it looks how many there are."""

    lessons = 0
    brought = ()

    @property
    def taught(self):
        brought, self.brought = self.brought, ()
        self.leave(brought)
        return self.lessons

    @taught.setter
    def taught(self, lessons):
        self.lessons = lessons


def test_a_lesson_that_comes_meanwhile_is_learned_or_still_to_be_learned():
    learner = Interrupted(tb.TensorThompsonSampling((2, 2), rank=1, seed=0), 4, lambda draws, ahead: None)
    assert learner.refresh(wait=True)
    assert not learner.stale
    read = []
    learner.brought = [lambda policy: read.append(policy)]
    learner.refresh(wait=True)
    assert read or learner.stale


def learner(size, told=0):
    """A learner that has drawn, after some rewards."""
    policy = tb.TensorThompsonSampling((3, 4), rank=1, seed=0)
    one = Learner(policy, size, lambda draws, ahead: None)
    one.leave([lambda policy: policy.tell_many([(0, 1)] * told, [1.0] * told)] if told else [])
    assert one.refresh(wait=True)
    return one


def test_a_draw_that_has_decided_is_the_next_to_be_replaced():
    one = learner(4)
    one.play(2)
    assert one.refresh(wait=True)
    assert one.draws.numbers == (0, 1, 3, 4)
    one.play(0)
    one.play(4)
    for numbers in ((1, 3, 4, 5), (1, 3, 5, 6), (3, 5, 6, 7)):  # one after the other, and then the oldest
        one.refresh(wait=True)
        assert one.draws.numbers == numbers


def test_draws_that_know_less_than_nine_tenths_of_the_rewards_are_replaced_at_once():
    one = learner(4, told=100)
    one.leave([lambda policy: policy.tell_many([(0, 2)] * 10, [1.0] * 10)])
    one.refresh(wait=True)
    assert one.draws.numbers == (1, 2, 3, 4)  # three know of 100 of 110, which is enough
    one.leave([lambda policy: policy.tell_many([(0, 2)] * 9, [1.0] * 9)])
    one.play(4)
    one.refresh(wait=True)
    assert one.draws.numbers == (5, 6, 7, 8)  # those three, and the one that has decided
    one.refresh(wait=True)
    assert one.draws.numbers == (6, 7, 8, 9)


def test_no_draw_of_a_bandit_decides_twice_while_rewards_are_told():
    space = tb.Space({"a": range(3), "b": range(40), "c": range(40)}, context=["a"])
    bandit, cells = tb.Bandit(space, seed=0), []
    for k in range(60):
        decision = bandit.ask(a=k % 3)
        cells.append((decision.arm["b"], decision.arm["c"]))
        assert round(16 * decision.propensity) == 16 * decision.propensity
        bandit.tell(decision.id, 0.0)
    assert len(set(cells)) > 55  # where some draws of 16 decided several times, about 50


def test_the_baseline_s_decisions_leave_the_draws_alone():
    space = tb.Space({"a": range(3), "b": range(40)})
    core = Core(new_state(space, holdout=0.999, seed=0, time=0.0), 4)
    core.learner.refresh(wait=True)
    rng = np.random.default_rng(0)
    drawn = [core.decide(Ask(()), rng) for _ in range(20)]
    assert {one.by for one in drawn} == {"holdout"}
    assert {one.draw for one in drawn} == {None}

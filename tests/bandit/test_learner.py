"""The thread that learns: what it says of the rewards that its draws know of."""

import tensorbandits as tb
from tensorbandits.bandit.learner import Learner


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

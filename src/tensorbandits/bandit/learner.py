"""The learner: owns the policy, teaches it what events say, and makes the posterior draws that decisions come from.

It is the only part of a bandit that is ever slow. What it has to learn waits in an inbox, so that nobody who tells,
decides or plans waits for it. One thread at a time has the policy: whoever comes meanwhile leaves lessons in the inbox,
and whoever has it takes them in before letting go.
"""

from __future__ import annotations

import gc
import logging
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tensorbandits.bandit.draws import Draws
from tensorbandits.bandit.state import Lesson
from tensorbandits.policies.approximate import ApproximateThompsonSampling, Draw, as_sampling
from tensorbandits.policies.base import Policy

_LOG = logging.getLogger("tensorbandits.learn")
_OUTDATED = 0.1  # share of the rewards that a draw may be behind
_SHORT = 0.05  # seconds after which whoever waits for the first draws looks whether there are some
_IDLE = 1.0  # seconds after which a background thread looks whether anybody still needs it


class Learner:
    """The policy, its inbox, and its last draws.

    ``size`` is how many draws decisions are made from; ``published`` is called with new ones, by whoever made them, and
    told whether there is time to prepare decisions.
    """

    def __init__(self, policy: Policy, size: int, published: Callable[[Draws, bool], None]) -> None:
        self.policy, self.draws, self.published = policy, Draws(size), published
        self.sampling = as_sampling(policy)
        self.taught, self.learned = 0, -1  # lessons so far, and those that the draws know of
        self._inbox: deque[tuple[Lesson, Callable[[ValueError], None] | None]] = deque()
        self._taken = threading.RLock()  # by the thread that has the policy
        self._known: dict[int, float] = {}  # rewards that each draw knows of, by number
        self._played: set[int] = set()  # draws that have decided
        self._news, self._drawn = threading.Event(), threading.Event()
        self._working = False  # whether a thread learns
        self._failed: Exception | None = None  # what ended its last attempt

    # Lessons.

    def leave(self, lessons: Sequence[Lesson], refused: Callable[[ValueError], None] | None = None) -> None:
        """Leave lessons in the inbox, in order; ``refused`` is told if the policy refuses one of them."""
        for lesson in lessons:
            self._inbox.append((lesson, refused))
        if lessons:
            self.taught += 1
            self._news.set()

    def take_in(self) -> None:
        """Have the policy take in what is in the inbox, unless another thread has it, which will do so."""
        while self._inbox and self._taken.acquire(blocking=False):
            try:
                self._read()
            finally:
                self._taken.release()

    def _read(self) -> None:
        while self._inbox:
            lesson, refused = self._inbox.popleft()
            try:
                lesson(self.policy)
            except ValueError as error:  # its past was changed by other hands
                if refused is None:
                    raise
                refused(error)

    @contextmanager
    def still(self) -> Iterator[None]:
        """Have the policy to oneself, waiting for whoever has it, with all lessons taken in."""
        with self._taken:
            self._read()
            yield
        self.take_in()

    # Draws.

    @property
    def stale(self) -> bool:
        """Whether there are lessons that decisions do not know of yet, or no draws, though the policy samples."""
        news = self.taught != self.learned
        return news or not self.draws if self.sampling is not None else news and self.policy.traits.learns_apart

    @property
    def behind(self) -> int:
        """How many lessons the draws do not know of."""
        return max(self.taught - max(self.learned, 0), 0)

    def refresh(self, *, wait: bool, least: int = 1, ahead: bool = False) -> bool:
        """Make new draws, at least so many, and publish them; say whether that was possible without waiting for others.

        While another thread has the policy nothing is done, unless one waits for it. ``ahead`` is for threads in which
        nobody waits for a decision: they prepare those of others.
        """
        if not self.policy.traits.learns_apart or not self._taken.acquire(blocking=wait):
            return False
        try:
            start, behind, taught = time.perf_counter(), self.behind, self.taught
            self._read()
            if self.sampling is None:
                self.policy.learn()
                self.learned = taught
                self._said(start, behind, 0)
                return True
            fresh = self._fresh(self.sampling, least, wait)
            if fresh:
                self.learned = taught
                self._replace(fresh)
                self.published(self.draws, ahead)
                self._said(start, behind, len(fresh))
        finally:
            self._taken.release()
        self.take_in()
        return bool(fresh)

    def _said(self, start: float, behind: int, drawn: int) -> None:
        if _LOG.isEnabledFor(logging.DEBUG):
            _LOG.debug(
                "learned %d lessons in %.1f ms, and drew %d times; %g rewards count",
                *(behind, 1e3 * (time.perf_counter() - start), drawn, self.policy.ledger.rounds),
            )

    def _fresh(self, policy: ApproximateThompsonSampling, least: int, wait: bool) -> list[Draw]:
        """New draws: at least so many, as many as are missing, and for all that are outdated and one that decided."""
        size, outdated = self.draws.size, self._outdated()
        has = len(self.draws.entries) if self.draws.shape == policy.shape else 0  # others are left behind
        decided = bool(self._played - outdated)
        return policy.fresh_draws(max(size - has, min(max(least, len(outdated) + decided), size)), wait=wait)

    def _outdated(self) -> set[int]:
        """The draws that know too little of the rewards so far."""
        ledger = self.policy.ledger
        known = ledger.received - _OUTDATED * ledger.rounds
        return {number for number in self.draws.numbers if self._known.get(number, 0.0) < known}

    def _replace(self, fresh: Sequence[Draw]) -> None:
        """Have new draws in the place of those that are outdated, of those that have decided, and of the oldest.

        Were a draw to decide twice, its arm would often be tried again before much is known of others.
        """
        before = self.draws
        self.draws = before.joined(fresh, self.policy.shape, self._outdated() | self._played)
        new = dict.fromkeys(range(before.last + 1, self.draws.last + 1), self.policy.ledger.received)
        known = self._known | new
        self._known = {number: known.get(number, 0.0) for number in self.draws.numbers}
        self._played.intersection_update(self.draws.numbers)

    def play(self, number: int) -> None:
        """Take note that a draw has decided: it is replaced before others. Any thread may do so."""
        self._played.add(number)

    def own_again(self) -> None:
        """Be of use in a child process, in which no thread of the parent goes on: draw other random numbers."""
        self._taken, self._working = threading.RLock(), False
        self._news, self._drawn = threading.Event(), threading.Event()
        self.policy.own_again()

    # A thread that learns in the background.

    def work(self, *, wait: bool = False) -> None:
        """Have a thread learn from now on, for as long as anybody has this learner; wait for its first draws, if asked.

        A child process starts one of its own when it first needs it.
        """
        if not self._working:
            self._working = True
            threading.Thread(target=_work, args=(weakref.ref(self), self._news), name="learner", daemon=True).start()
        if not wait or self.sampling is None or self.draws:
            return
        while not self.draws:
            if self._failed is not None:
                raise self._failed
            self._drawn.wait(_SHORT)
        gc.collect()  # after all that was loaded; Python would do so soon by itself, and stop a later decision for it

    def attempt(self) -> None:
        """Learn if there is something to learn; what goes wrong is told to whoever waits."""
        try:
            if self.stale:
                self.refresh(wait=True, ahead=True)
            self._failed = None
        except Exception as error:
            if self._failed is None:  # and not each second again
                _LOG.exception("learning in the background failed; decisions go on from what was known before")
            self._failed = error
        self._drawn.set()


def _work(learner: weakref.ref[Learner], news: threading.Event) -> None:
    """Make new draws whenever there are lessons."""
    while (one := learner()) is not None:
        news.clear()
        one.attempt()
        del one
        news.wait(_IDLE)

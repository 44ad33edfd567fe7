"""A core that runs in this process: commands are carried out one after another, by a clock, also where it forks."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import numpy as np

from tensorbandits.bandit.actors import check_actor
from tensorbandits.bandit.commands import Command
from tensorbandits.bandit.core import Core
from tensorbandits.bandit.events import BanditEvent, Rewarded
from tensorbandits.bandit.rows import refusal
from tensorbandits.bandit.state import State
from tensorbandits.base.checks import is_finite
from tensorbandits.policies.base import Policy
from tensorbandits.space import Space

Learning = Literal["ask", "thread"]


class Running:
    """A core with a clock and random numbers: what asking, telling, looking and saving rest on."""

    learning: Learning
    _core: Core
    _clock: Callable[[], float]
    _rng: np.random.Generator

    def _own(self, core: Core) -> None:
        """Take a core as one's own."""
        self._core = core
        _ALIVE.add(self)

    @property
    def space(self) -> Space:
        """The modes, levels and rules."""
        return self._core.space

    @property
    def policy(self) -> Policy:
        """The policy, with what it has learned; for reading, and for learning from what the bandit did not decide."""
        return self._core.policy

    def _now(self) -> float:
        now = self._clock()
        if not is_finite(now):
            raise ValueError(f"the clock says {now!r}; it must return the time in seconds, a finite number")
        return float(now)

    def _do(self, command: Command | None, actor: str | None = None) -> list[BanditEvent]:
        """Carry out a command of somebody, after closing decisions whose window has ended; the policy learns of both.

        ``actor`` is who gave it, for the history of changes.
        """
        name = None if actor is None else check_actor(actor)
        return self._do_many([] if command is None else [command], actor=name)

    def _do_many(
        self, many: Sequence[Command], undone: str = "nothing was changed", actor: str | None = None
    ) -> list[BanditEvent]:
        """Carry out several commands, all or, if one is refused, none of them."""
        now, core = self._now(), self._core
        early = core.plan_early(many[0] if len(many) == 1 else None, now)
        planned: list[BanditEvent] = []
        why: list[Exception] = []  # it is refused
        with core.lock:
            core.sync()
            core.expire(now)
            try:
                planned = early() or _planned(core.state, many, now, undone)
                planned = [event.signed(actor) for event in planned]
            except (LookupError, TypeError, ValueError) as error:  # what has timed out is told all the same
                why.append(error)
            for event in planned:
                core.apply([event], self._reverts(event, why))
            core.learner.leave(core.state.fade(now))
        core.learner.take_in()
        if self.learning == "thread":
            core.learner.work()
        if why:
            raise why[0]
        return planned

    def _reverts(self, event: BanditEvent, why: list[Exception]) -> Callable[[ValueError], None] | None:
        """Return what takes back the reward of a decision that the policy refuses."""
        core = self._core
        before = core.state.book.get(event.decision)
        if before is None or not isinstance(event, Rewarded):
            return None

        def refused(error: ValueError) -> None:
            with core.lock:
                core.state.revert(event.id, before, event.reward)
            why.append(error)

        return refused

    def _learn(self) -> None:
        """Make new draws, unless another thread does."""
        learner = self._core.learner
        if self.learning == "thread":
            learner.work(wait=True)
        else:
            learner.refresh(wait=learner.sampling is not None and not learner.draws)
            self._core.current()
            if learner.draws and learner.draws.shape != self.policy.shape:  # a mode has gained levels by other hands
                learner.refresh(wait=False, least=learner.draws.size)


def _planned(state: State, many: Sequence[Command], now: float, undone: str) -> list[BanditEvent]:
    """Return the events of commands, each planned on the state after those before."""
    if len(many) < 2:
        return [event for command in many for event in state.plan(command, now)]
    planned: list[BanditEvent] = []
    why: dict[int, Exception] = {}
    with state.trial():
        for at, command in enumerate(many):
            try:
                events = state.plan(command, now)
            except (LookupError, TypeError, ValueError) as error:
                why[at] = error
                continue
            for event in events:
                state.enter(event)
            planned += events
    if why:
        raise refusal(why, undone)
    return planned


_ALIVE: weakref.WeakSet[Running] = weakref.WeakSet()  # that a child process has to make its own
_FORK = threading.Lock()  # held by the one thread that forks
_HELD: list[Any] = []  # locks of bandits that this thread holds meanwhile


def _before_fork() -> None:
    """Let no bandit be in the middle of a change when a child process gets its copy."""
    _FORK.acquire()
    for one in list(_ALIVE):
        one._core.lock.acquire()
        _HELD.append(one._core.lock)


def _after_fork_here() -> None:
    """Go on in the parent."""
    while _HELD:
        _HELD.pop().release()
    _FORK.release()


def _after_fork() -> None:
    """Have the bandits of a child process decide by other random numbers and ids, and wait for no thread of before."""
    _HELD.clear()
    _FORK.release()
    for one in list(_ALIVE):
        one._rng = np.random.default_rng()
        one._core.own_again()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_here, after_in_child=_after_fork)


def check_learning(learning: Any) -> Learning:
    """Return when to learn, if it is one of the two ways."""
    if learning not in get_args(Learning):
        raise ValueError(f"learning is {learning!r}; give 'ask' or 'thread'")
    return learning  # type: ignore[no-any-return]

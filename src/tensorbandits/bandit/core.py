"""The core of a bandit: its state, its learner, and the snapshot that decisions are drawn from, kept in step.

A :class:`~tensorbandits.Bandit` and a server's host each own one. Two locks, always taken in this order: the learner's,
by whoever has the policy, which may last; then ``lock``, over the state and the snapshot, for microseconds. Deciding
takes neither.
"""

from __future__ import annotations

import copy
import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tensorbandits.bandit import beliefs
from tensorbandits.bandit.beliefs import Beliefs
from tensorbandits.bandit.checkup import Checkup, Known, checkup
from tensorbandits.bandit.commands import Ask, Command, Drawn, Expire, Import
from tensorbandits.bandit.comparison import Compared
from tensorbandits.bandit.draws import Draws
from tensorbandits.bandit.events import BanditEvent, TimedOut
from tensorbandits.bandit.history import History
from tensorbandits.bandit.intervals import Looks
from tensorbandits.bandit.learner import Learner
from tensorbandits.bandit.snapshot import Snapshot
from tensorbandits.bandit.state import Lesson, State, restored
from tensorbandits.bandit.timeline import Timeline
from tensorbandits.bandit.uplift import Uplift, uplift
from tensorbandits.base.checks import Cell
from tensorbandits.base.frames import Backend
from tensorbandits.ledger import Ledger
from tensorbandits.policies import saving
from tensorbandits.policies.approximate import as_modelling
from tensorbandits.policies.base import Policy
from tensorbandits.space import Space
from tensorbandits.tensor.allowed import NothingAllowedError

_NOTHING = 1e-6  # rewards of a cell that has none
_PROVISIONAL = 0.1  # share of decisions without a reward yet from which on it is said
_CHECKED = 300.0  # seconds for which a checkup is good, if rewards have not grown by a tenth

_LOG = logging.getLogger("tensorbandits.decisions")


class Core:
    """A state with a learner and a snapshot; ``ring`` is how many posterior draws decisions are drawn from."""

    def __init__(self, state: State, ring: int) -> None:
        self.state, self.lock = state, threading.RLock()
        itself = weakref.ref(self)
        self.learner = Learner(state.policy, ring, lambda draws, ahead: _publish(itself, draws, ahead))
        self.snapshot = self._made()
        self._checking = threading.Lock()  # held while a checkup is made; whoever has it takes the others
        self._found: tuple[Checkup, float, float, Any] | None = None  # the last one, its time, rewards and version

    @property
    def space(self) -> Space:
        """The modes, levels and rules."""
        return self.state.space

    @property
    def policy(self) -> Policy:
        """The policy, with what it has learned."""
        return self.learner.policy

    @property
    def waiting(self) -> int:
        """How many decisions wait for a reward or for being shown."""
        return len(self.state.book)

    @property
    def provisional(self) -> float | None:
        """The share of decisions of which only a reward could be told so far, where it is large; else ``None``.

        Who earns something says so at once, who does not when the window ends. So what was learned is too high until
        then, most of all in the first window.
        """
        state, waits = self.state, self.state.book.open_count
        share = waits / (waits + state.rewards) if waits and state.book.default is not None else 0.0
        return share if share > _PROVISIONAL else None

    # Keeping in step.

    def plan_early(self, command: Command | None, time: float) -> Callable[[], list[BanditEvent]]:
        """Plan a command that takes long before the lock is taken; return what tells its events if they still hold."""
        version = self.state.version
        if not isinstance(command, Import):
            return list
        try:
            events = self.state.plan(command, time)
        except ValueError:  # which is said when it is planned again
            events = []
        return lambda: events if self.state.version == version else []

    def apply(self, events: Sequence[BanditEvent], refused: Callable[[ValueError], None] | None = None) -> None:
        """Apply events, leave what they teach to the learner, and decide by the new rules if there are any."""
        with self.lock:
            lessons: list[Lesson] = []
            for event in events:
                lessons += self.state.apply(event)
            self.learner.leave(lessons, refused)
            self.sync()

    def expire(self, time: float) -> None:
        """Close decisions whose window has ended, and those that are too many; the lock is held."""
        events = self.state.plan(Expire(), time)
        self.apply(events)
        if events and _LOG.isEnabledFor(logging.DEBUG):
            shown, default = sum(isinstance(event, TimedOut) for event in events), self.state.book.default
            told = "nothing is told of them" if default is None else f"each is told {default:g}"
            _LOG.debug("%d decisions expired without a reward, and %s", shown, told)
            if shown < len(events):
                _LOG.debug("%d decisions that were never shown were cancelled, as too many wait", len(events) - shown)

    def sync(self) -> None:
        """Follow levels, rules and settings, which other hands may have changed too; the lock is held."""
        if self.snapshot.version != self.state.version:
            self.learner.leave(self.state.grow())
            self.snapshot = self._made()

    def current(self) -> Snapshot:
        """Return the snapshot to decide from, which knows the rules as they are now."""
        if self.snapshot.version != self.state.version:
            with self.lock:
                self.sync()
            self.learner.take_in()
        if not self.snapshot.draws and self.learner.draws:  # which another thread is about to publish
            self.publish(self.learner.draws)
        return self.snapshot

    def decide(self, ask: Ask, rng: np.random.Generator) -> Drawn:
        """Draw a decision from the snapshot as it is now, and let its posterior draw be the next to be replaced."""
        return self.decide_among(ask, (), rng)[0]

    def decide_among(
        self, ask: Ask, cells: Sequence[Cell], rng: np.random.Generator
    ) -> tuple[Drawn, list[float | None]]:
        """Draw a decision as :meth:`decide` does; return also how probable each of some cells was."""
        snapshot = self.current()
        drawn = snapshot.decide(ask, rng)
        if drawn.draw is not None:
            self.learner.play(drawn.draw)
        return drawn, snapshot.chances(ask, cells) if cells else []

    def publish(self, draws: Draws, ahead: bool = False) -> None:
        """Decide from these draws from now on; ``ahead`` first works out what requests like the last ones need."""
        before = self.snapshot
        if ahead and not draws.beyond(before.shape):
            snapshot = before.with_draws(draws)
            snapshot.prepare(before.draws)
            draws = snapshot.draws
        with self.lock:  # under which the rules may be others by now
            self.snapshot = self.snapshot.with_draws(draws)

    def _made(self) -> Snapshot:
        state, learner = self.state, self.learner
        return Snapshot(
            *(state.version, state.space, learner.policy, state.shares, learner.draws),
            samples=learner.sampling is not None,
        )

    def go_on_from(self, other: Core) -> None:
        """Decide from the draws of another core, which knows less of the same log; what it drew is drawn anew."""
        self.state.changes = other.state.changes + 1
        if not other.learner.draws.beyond(self.state.shape):  # a level that was added may be left out now
            self.learner.draws = other.learner.draws
        with self.lock:
            self.sync()

    def own_again(self) -> None:
        """Be of use in a child process, in which no thread of the parent goes on."""
        self.lock, self._checking = threading.RLock(), threading.Lock()
        self.state.book.ids.renew()
        self.space.own_again()
        self.learner.own_again()

    # Looking.

    @contextmanager
    def known(self) -> Iterator[tuple[Space, Snapshot]]:
        """Have the policy to oneself; yield a copy of the space and the snapshot, of just the levels that it knows."""
        with self.learner.still():
            while True:
                space, snapshot = self.space.copy(), self.current()
                self.learner.take_in()
                if self.policy.shape == space.shape == snapshot.shape:  # else a mode has gained levels just now
                    break
            yield space, snapshot

    def best(self, ask: Ask) -> Cell:
        """Return the allowed cell believed best; explores and changes nothing."""
        with self.known() as (_, snapshot):
            try:
                return self.policy.best(ask.levels, snapshot.query(ask).allowed)
            except NothingAllowedError:
                raise ValueError(snapshot.nothing(ask)) from None

    def explain(self, levels: Cell | None, *, level: float, arms: int) -> Beliefs:
        """Return what is believed, with so many best arms of a context, or of every context."""
        policy = as_modelling(self.policy)
        if policy is None:
            raise ValueError(
                f"{type(self.policy).__name__} believes in no tensor that could be explained; use 'thompson' or "
                "'ensemble', whose tell_bandit takes over what was learned here"
            )
        with self.known() as (space, snapshot):
            wanted = beliefs.contexts(space) if levels is None else [levels]
            queries = None if wanted is None else [snapshot.query(Ask(one)) for one in wanted]
            return beliefs.believed(space, policy, queries, arms, level)

    def diagnose(self, *, max_rank: int = 3, seed: int = 0) -> Checkup:
        """Return which structure the rewards speak for, and which levels have moved; it takes some seconds."""
        with self.learner.still():
            with self.lock:
                self.learner.take_in()
                past, shape = self.state.history.state(), self.state.history.shape
            ledger, playing = _earned(self.policy.copy_ledger(), self.policy.pseudo), self.policy.playing()
        history = History.from_state(past, shape)
        if shape != ledger.shape:
            history.grow(ledger.shape)
        return checkup(self._known(ledger, history, playing), max_rank=max_rank, seed=seed)

    def _known(self, ledger: Ledger, history: History, playing: Mapping[str, float]) -> Known:
        policy, model = self.policy, as_modelling(self.policy)
        return Known(
            *(self.space.copy(), ledger, history, getattr(policy, "reward", None), playing),
            together=None if model is None or not ledger.rounds else model.acting_together(),
            structure=getattr(policy, "structure", None),
            forgets=None if policy.keeps() is not None else self.state.fading.half_life is not None,
            floors=bool(self.state.shares.floors),
        )

    def findings(self) -> Checkup:
        """Return a checkup that is not old: of five minutes ago, or of nine tenths of the rewards, at most.

        It is what all views of a page say of drift and structure, so that no two of them differ.
        """
        with self._checking:
            known = (self.state.rewards, self.state.version)
            kept, at, rewards, version = self._found or (None, 0.0, 0.0, None)
            fresh = known == (rewards, version) or (time.monotonic() - at < _CHECKED and known[0] < 1.1 * rewards)
            if kept is None or version != known[1] or not fresh:
                kept = self.diagnose()
                self._found = kept, time.monotonic(), *known
            return kept

    def timeline(self) -> Timeline:
        """Return a copy of what was decided and earned over time."""
        with self.lock:
            return copy.deepcopy(self.state.timeline)

    def compared(self, now: float) -> Compared:
        """Return a copy of what each side decided and earned, settled at a time, with the chances that it had."""
        with self.lock:
            self.state.comparison.settle(now, self.state.book.rounds)
            return self.state.comparison.compared()

    def uplift(self, now: float, *, over: str | None = None, level: float = 0.95, looks: Looks = "anytime") -> Uplift:
        """Return how much more the bandit earns than the side it is compared with now, or than another."""
        compared, kind, shares = self.compared(now), getattr(self.policy, "reward", None), self.state.shares
        beside = shares.rollout is not None and shares.rollout < 1.0
        usual = "caller" if beside else "holdout" if shares.holdout else None
        found = uplift(compared, kind, over=over or usual, level=level, looks=looks)
        return uplift(compared, kind, level=level, looks=looks) if over is None and found.verdict == "none" else found

    def history(self, mode: str | None = None, backend: Backend | None = None) -> Any:
        """Return decisions and rewards over time as a data frame, by side, and of each level if given a mode."""
        at = None if mode is None else self.space.position(mode)
        return self.timeline().frame(at, () if at is None else self.space.levels[at], backend)

    # Saving and making again.

    def frozen(self) -> Callable[[], dict[str, Any]]:
        """Return what makes everything into plain data, all as it is at one moment; to be called later, and elsewhere.

        It waits for the learner; meanwhile and afterwards others decide and tell.
        """
        with self.learner.still():
            with self.lock:
                self.learner.take_in()
                state = self.state.frozen()
            policy = saving.detached(self.policy.state_dict())
        ring = self.learner.draws.size
        return lambda: state() | {"policy": policy, "ring": ring}


def restored_core(state: dict[str, Any], time: float, ring: int, code: dict[str, Any]) -> Core:
    """Return the core that :meth:`Core.frozen` made into plain data; ``code`` are arguments that are no data."""
    policy = Policy.from_state_dict(saving.attached(dict(state["policy"]), code))
    return Core(restored(state, policy, time), ring)


def _earned(ledger: Ledger, pseudo: Ledger) -> Ledger:
    """Return the rewards of a ledger that were earned: held-out ones that nobody earned would be evidence of nothing.

    Of revenue, whose amounts have sums of their own, all are kept.
    """
    if not len(pseudo) or ledger.kind:
        return ledger
    places = {tuple(cell): at for at, cell in enumerate(ledger.cells.tolist())}
    at = np.array([places[tuple(cell)] for cell in pseudo.cells.tolist()])
    sums = np.array([ledger.counts, ledger.totals, ledger.squares])
    sums[:, at] -= np.array([pseudo.counts, pseudo.totals, pseudo.squares])
    sums = sums.round(9)  # what is left of a difference of sums is rounding
    kept = sums[0] > _NOTHING
    counts, totals, squares = sums[:, kept]
    within = np.maximum(squares - totals**2 / counts, 0.0)
    return Ledger.of(ledger.shape, ledger.cells[kept], counts, totals, squares, within)


def _publish(core: weakref.ref[Core], draws: Draws, ahead: bool) -> None:
    """Let a bandit decide from new draws."""
    if (one := core()) is not None:
        one.publish(draws, ahead)

"""A bandit whose state is the fold of a log of events: processes that have folded the same events know the same.

What a request would do is *planned* first, as events, which change nothing. Events that the log has taken are *folded*,
in the order of their numbers, whoever made them. Times are those of the events, never of a clock, so that folding a log
again gives the same ledger.
"""

from __future__ import annotations

import base64
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from tensorbandits.bandit.book import OPEN, Change
from tensorbandits.bandit.law import Drawn
from tensorbandits.base import codec
from tensorbandits.base.checks import Cell
from tensorbandits.ledger import Ledger
from tensorbandits.policies.approximate import ApproximateThompsonSampling, Draw
from tensorbandits.service.engine.apprentice import Apprentice, Shadow
from tensorbandits.service.engine.making import Settings, arguments, changed, read_rule
from tensorbandits.service.engine.planning import Drawing, Planner, change_rule
from tensorbandits.space.labels import Label, read
from tensorbandits.store import Event
from tensorbandits.tensor.allowed import NothingAllowedError

_VERSION = 1  # of a snapshot, which holds the state of a bandit; a base is one too, and must be read for ever
_LAGS = 2_000
_LEARNED_AT_ONCE = 4  # new draws each time that there are new rewards


class NotLearnedError(RuntimeError):
    """There is no draw yet to decide from; :meth:`Replica.refresh` makes some."""


class Replica(Planner):
    """A bandit that follows a log.

    Any thread may draw, plan and look; one thread folds. ``seq`` is the number of the last event that was folded.
    """

    seq: int
    closed: bool  # whether it was deleted

    @classmethod
    def created(cls, event: Event) -> Self:
        """Return the bandit that the first event of a log describes."""
        settings: Settings = event.body["settings"]
        self = cls(**arguments(settings), clock=lambda: event.time)
        self.begin(settings, event.seq, event.time)
        return self

    def begin(self, settings: Settings, seq: int, time: float, apprentice: Apprentice | None = None) -> None:
        """Stand at an event of the log."""
        self.settings, self.seq, self.closed = settings, seq, False
        self.moment = time  # of the last event
        self._clock = lambda: self.moment
        self.apprentice = apprentice or Apprentice()
        self.folding = threading.Lock()  # held while events are folded, or while everything is written down
        self.told = self.policy.ledger.received  # rewards that draws may not know of yet, when other than learned
        self.learned = -1.0
        self.rewards = self.policy.ledger.received  # that were folded; the policy may take in the last ones later
        self.decisions = 0
        self.lags: deque[float] = deque(maxlen=_LAGS)  # seconds from decision to reward, of the last ones

    # Deciding.

    def draw(
        self, context: Mapping[str, Label], allowed: Mapping[str, Sequence[Label]] | None, played: Any = None
    ) -> Drawing:
        """Draw an arm from the draws there are; ``played`` is what a caller's own rule plays, and its propensity."""
        levels = self.space.given(context)
        chosen = {} if allowed is None else self.space.allowed(allowed)
        with self._lock:
            self._ring.take((), self.policy.shape)
            if not self._ring.draws:
                raise NotLearnedError("nothing was learned yet")
            try:
                request = self._request(levels, chosen)
                drawn = request.draw(self._ring, self._rng)
            except NothingAllowedError:
                raise ValueError(self._nothing(levels, chosen)) from None
            version = self.space.version
            if played is None:
                return Drawing(drawn, version)
            arm, propensity = played
            cell = self.space.cell({**context, **arm})
            share = request.probability(self._ring, cell)
            draws = [draw for _, draw in self._ring.draws]
        return Drawing(
            Drawn(cell, propensity, "caller"), version, self._shadow(drawn.cell, cell, share, propensity, draws)
        )

    def _shadow(self, own: Cell, cell: Cell, share: float, propensity: float | None, draws: Sequence[Draw]) -> Shadow:
        """What is said of a decision beforehand that a caller's rule makes."""
        assert isinstance(self.policy, ApproximateThompsonSampling)
        both = np.array([own, cell], dtype=np.int64)
        means = np.mean([self.policy.mean_rewards(draw, both) for draw in draws], axis=0)
        return Shadow(own, share / (1.0 if propensity is None else propensity), *means.tolist())

    def refresh(self, *, wait: bool = False) -> bool:
        """Learn what was told, and decide from new draws from now on; say whether that was possible without waiting."""
        assert isinstance(self.policy, ApproximateThompsonSampling)
        told = self.told
        if wait and not self._ring.draws:
            fresh = self.policy.fresh_draws(self._ring.size)
        else:
            fresh = self._ring.fresh(self.policy, least=_LEARNED_AT_ONCE)
        with self._lock:
            self._ring.take(fresh, self.policy.shape)
        if fresh:
            self.learned = told
        return bool(fresh)

    @property
    def stale(self) -> bool:
        """Whether something was told that draws do not know of, or there are no draws."""
        return self.told != self.learned or not self._ring.draws

    def expire(self) -> None:
        """Do nothing: decisions time out by events."""

    def oldest(self, count: int) -> list[dict[str, Any]]:
        """Return the decisions that wait longest."""
        with self._lock:
            found = [(number, record.cell, record.time, record.state) for number, record in self._book.oldest(count)]
        return [{"id": one, "cell": cell, "time": when, "active": state == OPEN} for one, cell, when, state in found]

    # Folding.

    def fold(self, events: Sequence[Event]) -> None:
        """Take in the next events of the log; those that were folded already are left out."""
        if not events:
            return
        with self.folding:
            for event in events:
                if event.seq <= self.seq:
                    continue
                if event.seq != self.seq + 1:
                    raise ValueError(f"event {event.seq} is folded after event {self.seq}; the log has a gap there")
                if event.kind not in _FOLDS:
                    raise ValueError(
                        f"event {event.seq} is {event.kind!r}, of a newer release; upgrade this server too"
                    )
                self.moment = event.time
                _FOLDS[event.kind](self, event)
                self.seq = event.seq

    def become(self, other: Replica) -> None:
        """Know what another does, which has folded more of the log: where events between are no longer there."""
        own = ("folding", "_applying", "_lock", "_clock")  # others may be waiting for the locks
        with self.folding, self._applying, self._lock:
            if other.seq > self.seq:
                other.space._version += self.space.version + 1  # so that what was drawn before is drawn again
                self.__dict__.update({name: value for name, value in vars(other).items() if name not in own})

    def _told(self, change: Change | None, time: float) -> None:
        if change is not None:
            with self._applying:
                self._changes.append(change)
                self._drain(time)
            self.told = self.told + 1.0
            self.rewards += change.old is None

    def _fold_decided(self, event: Event) -> None:
        body = event.body
        by = body["by"]
        with self._lock:
            self._book.open(
                tuple(body["cell"]),
                time=event.time,
                active=body.get("active", True),
                held=by in ("holdout", "caller"),
                number=event.decision,
            )
        self.decisions += 1
        if "would" in body:
            self.apprentice.open(event.decision or "", Shadow.read(body["would"]), self._book.capacity)

    def _fold_activated(self, event: Event) -> None:
        with self._lock:
            self._book.activate(event.decision, time=event.time)

    def _fold_cancelled(self, event: Event) -> None:
        with self._lock:
            self._book.cancel(event.decision)
        self.apprentice.forget(event.decision)

    def _fold_rewarded(self, event: Event) -> None:
        with self._lock:
            self.lags.append(max(event.time - self._book.time(event.decision), 0.0))
            change = self._book.enter(event.decision, event.body["reward"])
        self._shadowed(event)
        self._told(change, event.time)

    def _fold_timed_out(self, event: Event) -> None:
        reward = event.body["reward"]
        with self._lock:
            change = self._book.time_out(event.decision or "", reward)
        if reward is None:
            self.apprentice.forget(event.decision)
        else:
            self._shadowed(event)
        self._told(change, event.time)

    def _shadowed(self, event: Event) -> None:
        in_order = self._book.window is not None and self._book.default is not None
        self.apprentice.reward(event.decision, event.body["reward"], in_order=in_order)

    def _fold_told(self, event: Event) -> None:
        cell, reward = tuple(event.body["cell"]), event.body["reward"]
        trials = event.body.get("trials")
        if trials is None:
            self._told(Change(cell, None, reward, None), event.time)
            return
        with self._applying:
            self._drain(event.time)
            self.policy.tell(cell, reward, trials=trials)
        self.told += trials
        self.rewards += trials

    def _fold_level_added(self, event: Event) -> None:
        body = event.body
        like = read(body["like"]) if "like" in body else None
        self.add_level(body["mode"], read(body["label"]), like=like, rewards=body.get("rewards"))
        self.told += 1.0
        self.rewards = self.policy.copy_ledger().received

    def _fold_level_retired(self, event: Event) -> None:
        self.retire_level(event.body["mode"], read(event.body["label"]))

    def _fold_level_restored(self, event: Event) -> None:
        self.restore_level(event.body["mode"], read(event.body["label"]))

    def _fold_rule(self, event: Event) -> None:
        with self._lock:
            change_rule(self.space, read_rule(event.body["rule"]), add=event.body["add"])
            self._sync()

    def _fold_changed(self, event: Event) -> None:
        with self._lock:
            self.settings, shares, window, default = changed(
                self.space, self.policy, self.settings, event.body["settings"]
            )
            self._shares, self._book.window, self._book.default = shares, window, default
            self._requests = {}

    def _fold_imported(self, event: Event) -> None:
        ledger = Ledger.from_state(codec.unpack(base64.b64decode(event.body["ledger"])).state)
        with self._applying:
            self._drain(event.time)
            with self._lock:
                for mode, labels in event.body["added"].items():
                    for label in labels:
                        self.space.add_level(mode, read(label))
                self._sync()
            self.policy.tell_ledger(ledger)
        self.told += ledger.rounds
        self.rewards += ledger.rounds

    def _fold_deleted(self, event: Event) -> None:
        self.closed = True

    # Snapshots.

    def snapshot(self) -> tuple[int, bytes]:
        """Return the number of the last event, and everything that was folded up to it."""
        with self.folding:
            state = self.state_dict() | {
                "seq": self.seq,
                "moment": self.moment,
                "decisions": self.decisions,
                "settings": self.settings,
                "apprentice": self.apprentice.state(),
            }
        return state["seq"], codec.pack("replica", _VERSION, state)

    @classmethod
    def restored(cls, packed: bytes) -> Self:
        """Return the bandit of a snapshot."""
        saved = codec.unpack(packed)
        if (saved.kind, saved.version) != ("replica", _VERSION):
            raise ValueError(f"the snapshot is a {saved.kind!r} of version {saved.version}; drop it, events have all")
        state = dict(saved.state)
        more = {name: state.pop(name) for name in ("seq", "moment", "decisions", "settings", "apprentice")}
        self = cls.from_state_dict(state)
        self.begin(more["settings"], more["seq"], more["moment"], Apprentice.restored(more["apprentice"]))
        self.decisions = more["decisions"]
        return self


_FOLDS: dict[str, Callable[[Replica, Event], None]] = {
    "Decided": Replica._fold_decided,
    "Activated": Replica._fold_activated,
    "Cancelled": Replica._fold_cancelled,
    "Rewarded": Replica._fold_rewarded,
    "Amended": Replica._fold_rewarded,
    "TimedOut": Replica._fold_timed_out,
    "Told": Replica._fold_told,
    "LevelAdded": Replica._fold_level_added,
    "LevelRetired": Replica._fold_level_retired,
    "LevelRestored": Replica._fold_level_restored,
    "RuleChanged": Replica._fold_rule,
    "Changed": Replica._fold_changed,
    "Imported": Replica._fold_imported,
    "Deleted": Replica._fold_deleted,
}

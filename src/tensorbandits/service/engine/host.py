"""A bandit as a server has it: its core, where its log stands, and what callers may know of it.

Two locks, taken in this order: ``turn``, by the one thread that adds to the log or follows it, which may last as long
as the database takes; and the core's, for microseconds. Requests on the event loop take neither.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorbandits.bandit import commands
from tensorbandits.bandit import events as e
from tensorbandits.bandit.actors import MARK, Actors
from tensorbandits.bandit.book import OPEN
from tensorbandits.bandit.commands import Ask, Drawn
from tensorbandits.bandit.core import Core
from tensorbandits.bandit.published import UID_BYTES
from tensorbandits.bandit.settings import written_rule
from tensorbandits.bandit.snapshot import refuse_propensity
from tensorbandits.bandit.visitors import place_of
from tensorbandits.base.checks import Cell
from tensorbandits.decider.tokens import Token
from tensorbandits.service.engine import loading
from tensorbandits.service.engine.deciders import SeenDeciders, TokenReader
from tensorbandits.service.engine.loading import CannotApplyError
from tensorbandits.space.labels import Label, written
from tensorbandits.store import BanditRow, Event, FoldedError, Head, Store
from tensorbandits.store.errors import QuarantinedError
from tensorbandits.store.events import SEAL

if TYPE_CHECKING:
    from tensorbandits.service.engine.orders import Order

_MANY, _SOME = 20_000, 1_000  # events after which a snapshot is kept, at once and after a while
_CELLS = 4_096  # of which the labels are kept
_RATE = 60  # seconds over which events are counted
_LEARNED_AT_ONCE = 4  # new draws each time that there are new rewards


class Host:
    """A bandit of the store, with its core here; or, if its log cannot be read, why it is quarantined."""

    def __init__(self, row: BanditRow, core: Core | None, quarantined: str | None = None) -> None:
        self.row, self.id, self.name, self.created = row, row.id, row.name, row.created
        self._core, self.quarantined = core, quarantined
        self.turn = threading.Lock()
        self.inbox: deque[Order] = deque()  # of the writer
        self.scheduled = False  # whether the writer knows that something is in it
        self.unsure = False  # whether the log may have events that are not known here
        self.tokens, self.deciders = TokenReader(), SeenDeciders()
        self.learned = 0  # the number of the last event that the posterior draws know
        self._learned_at = time.monotonic()
        self._ticks: deque[tuple[float, int]] = deque(maxlen=_RATE + 1)  # times, and where the log stood then
        self._rng = np.random.default_rng()
        self._labels = lru_cache(_CELLS)(self._written_labels)
        self.keep(0 if core is None else core.state.seq)

    @property
    def core(self) -> Core:
        """The core, if the log could be read."""
        if self._core is None or self.quarantined is not None:
            raise QuarantinedError(self.quarantined or f"bandit {self.name!r} is not served")
        return self._core

    @property
    def closed(self) -> bool:
        """Whether the bandit was deleted."""
        return self._core is not None and self._core.state.closed

    @property
    def head(self) -> Head:
        """Where the log stands, as far as it is known here."""
        return Head(self.core.state.seq, self.core.state.chain)

    @property
    def seq(self) -> int:
        """The number of the last event that is known here."""
        return 0 if self._core is None else self._core.state.seq

    @property
    def uid(self) -> str:
        """What tells this bandit from all others for deciders: also from one that has its name after it."""
        return blake2b(f"{self.name}\0{self.created!r}".encode(), digest_size=UID_BYTES).hexdigest()

    # The log.

    def follow(self, events: Sequence[Event]) -> int:
        """Take in the next events of the log; return how many were new. The turn is held.

        A :class:`FoldedError` says that a decision of theirs is known by another id here, as it was forgotten since.
        """
        core, before = self.core, self.seq
        try:
            for event in events:
                loading.step(core, event)
        except CannotApplyError as error:
            if any(SEAL in event.body for event in events if event.seq == error.seq):
                raise FoldedError(f"data were removed from event {error.seq}: start again from the base") from error
            self.quarantine(error.seq, error.why)
            raise QuarantinedError(str(self.quarantined)) from error
        self.taught()
        return self.seq - before

    def catch_up(self, store: Store) -> int:
        """Read and take in what others have added to the log; return how many events. The turn is held."""
        count = 0
        try:
            for page in loading.pages(store.events(self.id, after=self.head)):
                count += self.follow(page)
        except FoldedError:  # events that were not read here yet were folded into the base
            self.become(loading.rebuild(store, self.row))
        self.unsure = False
        return count

    def become(self, core: Core) -> None:
        """Go on from another core, which knows more of the log."""
        if self._core is not None:
            core.go_on_from(self._core)
        self._core, self.quarantined = core, None
        self._labels.cache_clear()  # a level that was added may be left out now

    def quarantine(self, seq: int, why: str) -> None:
        """Serve the bandit no more, until its log was repaired."""
        self.quarantined = (
            f"bandit {self.name!r} is not served: event {seq} of its log cannot be applied ({why}); 'tensorbandits "
            "repair' shows the event and can skip it. Other bandits are served"
        )

    # Deciding and learning.

    def request(
        self,
        context: Mapping[str, Label],
        allowed: Mapping[str, Sequence[Label]] | None = None,
        *,
        id: str | None = None,
        active: bool = True,
        played: Mapping[str, Label] | None = None,
        propensity: float | None = None,
        subject: str | None = None,
    ) -> Ask:
        """Return a request, given in labels, in the levels of this bandit."""
        space = self.core.space
        refuse_propensity(propensity, alone=played is None)
        chosen = () if allowed is None else commands.chosen(space.allowed(allowed))
        cell = None if played is None else space.cell({**context, **played})
        place = None if subject is None else place_of(subject, self.name)
        levels, numbers = space.given(context), space.numbers_to_learn(context)
        return Ask(levels, chosen, id, active, cell, propensity, subject, place, numbers)

    def draw(self, ask: Ask) -> Drawn:
        """Draw a decision from the present snapshot; it takes no lock."""
        return self.core.decide(ask, self._rng)

    def draw_among(self, ask: Ask, cells: Sequence[Cell]) -> tuple[Drawn, list[float | None]]:
        """Draw a decision from the present snapshot; return also how probable each of some cells was."""
        return self.core.decide_among(ask, cells, self._rng)

    def refresh(self, *, wait: bool = False) -> bool:
        """Have the policy learn, and decide from new draws from now on."""
        before, began = self.seq, time.monotonic()
        done = self.core.learner.refresh(wait=wait, least=_LEARNED_AT_ONCE, ahead=True)
        if done:
            self.learned, self._learned_at = before, began
        return done

    @property
    def learning_lag(self) -> float:
        """The seconds since when decisions do not know what happened; 0 if they know everything."""
        return time.monotonic() - self._learned_at if self.stale else 0.0

    def tick(self) -> None:
        """Take note of where the log stands now; called each second."""
        self._ticks.append((time.monotonic(), self.seq))

    @property
    def events_a_second(self) -> float:
        """How many events the log gained in a second, on average over the last minute."""
        if len(self._ticks) < 2:
            return 0.0
        (began, first), (ended, last) = self._ticks[0], self._ticks[-1]
        return (last - first) / (ended - began)

    def token_of(self, number: Any) -> Token | None:
        """Return what the id of a decision says that is not known here, if it is a token; refuse one that is forged."""
        if self.quarantined is not None or not self.tokens.could_be(number) or number in self.core.state.book:
            return None
        return self.tokens.read(number, self.uid)

    def taught(self) -> None:
        """Have a policy that decides by itself take in what was written; one that samples does so as it draws."""
        if not self.core.snapshot.samples:
            self.core.learner.take_in()

    @property
    def stale(self) -> bool:
        """Whether there is something to learn."""
        return self.quarantined is None and self._core is not None and self._core.learner.stale

    # Snapshots.

    def keep(self, seq: int) -> None:
        """Say that a snapshot has all up to an event, from now on."""
        self.kept, self._kept_at = seq, time.monotonic()

    def due(self, seconds: float) -> bool:
        """Say whether a snapshot should be kept: after many events, or after some time with a few."""
        more = self.seq - self.kept
        return more >= _MANY or (more >= _SOME and time.monotonic() - self._kept_at >= seconds)

    # What callers may know.

    @property
    def policy(self) -> str:
        """The name of the policy, as callers give it."""
        return self.core.state.settings.get("policy") or "thompson"

    def decision(self, event: Event) -> dict[str, Any]:
        """Return the decision of an event as plain data, as ``Decision.to_dict`` does."""
        body = event.body
        arm, given = self._labels(tuple(body["cell"]))
        answer = {"id": event.decision, "arm": arm, "context": given, "propensity": body["p"], "by": body["by"]}
        answer |= {"policy": self.policy, "time": body.get("made", event.time)}
        if "would" in body:
            answer["would"] = self._labels(tuple(body["would"]["cell"]))[0]
        return answer

    def _written_labels(self, cell: Cell) -> tuple[dict[str, Any], dict[str, Any]]:
        """The arm and the context of a cell, as JSON can hold them."""
        space = self.core.space
        arm = {mode: written(label) for mode, label in space.labels(cell).items()}
        return arm, {space.modes[mode]: arm.pop(space.modes[mode]) for mode in space.context}

    def actor(self, event: Event) -> str | None:
        """Return who did what an event says, if that was written down."""
        actors = Actors() if self.quarantined is not None or self._core is None else self._core.state.actors
        return actors.read(e.mark_of(event.kind, event.body))

    def shown(self, event: Event) -> dict[str, Any]:
        """Return an event as plain data, with the name of its actor in the place of the mark."""
        body = {name: value for name, value in event.body.items() if name != MARK}
        parts = {part: getattr(event, part) for part in ("seq", "time", "kind", "decision")}
        return {**parts, "actor": self.actor(event), "body": body}

    def story(self, events: Sequence[Event]) -> list[dict[str, Any]]:
        """Return what happened to a decision, and by whom, from its events."""
        return [
            {
                **{part: getattr(event, part) for part in ("seq", "time", "kind")},
                "actor": self.actor(event),
                "reward": event.body.get("reward"),
            }
            for event in events
        ]

    def status(self, number: str) -> dict[str, Any]:
        """Return what has become of a decision, as plain data."""
        with self.core.lock:  # not in the middle of what is only tried
            record = self.core.state.book[number]
        return {"id": number, "status": record.state, "reward": record.reward, "changed": False}

    def oldest(self, count: int) -> list[dict[str, Any]]:
        """Return the decisions that wait longest."""
        with self.core.lock:
            found = self.core.state.book.oldest(count)
        return [{"id": one, "cell": r.cell, "time": r.time, "active": r.state == OPEN} for one, r in found]

    def summary(self) -> dict[str, Any]:
        """Return what a list of bandits says of this one."""
        if self.quarantined is not None:
            unknown: dict[str, Any] = {"modes": {}, "context": [], "policy": None, "reward": None, "apprentice": False}
            numbers = dict.fromkeys(("decisions", "rewards", "waiting"), 0) | {"seq": self.seq}
            return {"name": self.name, **unknown, **numbers, "created": self.created, "quarantined": self.quarantined}
        state = self.core.state
        space = state.space
        return {
            "name": self.name,
            "modes": dict(zip(space.modes, space.shape, strict=True)),
            "context": [space.modes[mode] for mode in space.context],
            "policy": self.policy,
            "reward": state.settings.get("reward") or "gaussian",
            "apprentice": bool(state.settings.get("apprentice")),
            "rollout": state.shares.rollout,
            "paused": state.shares.paused,
            "decisions": state.decisions,
            "rewards": state.rewards,
            "waiting": len(state.book),
            "seq": state.seq,
            "created": self.created,
        }

    def detail(self) -> dict[str, Any]:
        """Return everything that a caller may know of how the bandit is made."""
        state = self.core.state
        space = state.space
        levels = {
            mode: [{"label": written(label), "retired": label in space.retired.get(mode, [])} for label in labels]
            for mode, labels in zip(space.modes, space.levels, strict=True)
        }
        hidden = ("name", "modes", "context", "rules", "features")
        return {
            **self.summary(),
            "levels": levels,
            "regions": {
                mode: {
                    "numbers": list(one.numbers),
                    "learning": one.learning,
                    "requests": one.requests,
                    "seen": len(state.seen.get(space.position(mode), ())),
                }
                for mode, one in space.regions.items()
            },
            "features": {mode: one.said() for mode, one in space.features.items()},
            "rules": [written_rule(rule) for rule in space.rules],
            "rule_shares": [space.forbidden_share(rule) for rule in space.rules],
            "settings": {name: value for name, value in state.settings.items() if name not in hidden},
        }


def became(events: Sequence[Event]) -> dict[str, Any]:
    """Return what became of a decision, as its events say."""
    words = {"Rewarded": "rewarded", "Amended": "rewarded", "TimedOut": "timed out", "Cancelled": "cancelled"}
    ends = [event for event in events if event.kind in words]
    return {"status": words[ends[-1].kind] if ends else "open", "reward": ends[-1].body.get("reward") if ends else None}


def changed(event: e.BanditEvent, number: str) -> dict[str, Any]:
    """Return what a decision is after an event that was just applied to it, as plain data."""
    status = {e.Activated: "open", e.Decided: "open", e.Cancelled: "cancelled"}.get(type(event), "rewarded")
    return {"id": number, "status": status, "reward": getattr(event, "reward", None), "changed": True}

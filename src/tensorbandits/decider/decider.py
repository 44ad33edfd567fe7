"""Deciding from published snapshots, in the application's own process: no server, no database, nothing to wait for."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, NamedTuple, Self

import numpy as np

from tensorbandits.bandit import commands
from tensorbandits.bandit.commands import Ask
from tensorbandits.bandit.decision import Decision, DecisionList, number_of
from tensorbandits.bandit.published import PublishedSnapshot
from tensorbandits.bandit.rows import each_row, label_rows, one_each, reward_rows
from tensorbandits.bandit.snapshot import refuse_propensity
from tensorbandits.bandit.spans import Span
from tensorbandits.base.checks import Cell, check_count, check_flag, check_positive, check_seed, is_finite
from tensorbandits.base.errors import TensorbanditsError
from tensorbandits.decider.arms import ReadyArm, ReadyRequest, ReadySnapshot
from tensorbandits.decider.following import Follower, NoSnapshotError
from tensorbandits.decider.sending import EventSender, Sink, ToldEvent
from tensorbandits.decider.sources import GivenSource, source_of
from tensorbandits.decider.tokens import Token, TokenKeys, looks_like_token, make_token
from tensorbandits.space.labels import Label

_NUMBERS = 4_096  # random numbers that are made at once
_CLOSING = 10.0  # seconds that the last events have to be sent


class DeciderClosedError(TensorbanditsError, RuntimeError):
    """The decider was closed, and neither decides nor takes rewards."""


@dataclass(frozen=True, slots=True, eq=False)
class SnapshotDecision(Decision):
    """A decision that was made from a snapshot; as plain data, or as JSON, it is like any other decision.

    ``snapshot`` is its version, ``draw`` the number of the posterior draw that decided, if one did, and ``would`` what
    an apprentice would have played.
    """

    snapshot: int = 0
    draw: int | None = None
    would: dict[str, Label] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the decision as plain data, which :class:`~tensorbandits.Decision` reads."""
        result = Decision.to_dict(self)
        for name in ("snapshot", "draw", "would"):
            del result[name]
        return result


class Question(NamedTuple):
    """What one of many decisions is asked with; see :meth:`Decider.ask`."""

    context: Mapping[str, Label]
    allowed: Mapping[str, Sequence[Label]] | None = None
    played: Mapping[str, Label] | None = None
    propensity: float | None = None


class Decider:
    """Decides from the snapshots that a bandit publishes, in this process, and hands decisions and rewards to a sink.

    Parameters
    ----------
    source : the address that the bandit publishes to (a folder, an address of fsspec, Redis), the address of a bandit
        of a service, ``"https://server/v1/bandits/NAME"``, or a snapshot, which is then the only one.
    keys : secrets that sign the ids of decisions, by name, of at least 16 bytes: the first signs, all are good for
        checking. By default those of the environment, ``TENSORBANDITS_TOKEN_KEYS=2026-11=SECRET``.
    sink : where decisions and rewards go; without one nothing is written, and no reward can be told.
    every : seconds between two looks for a new snapshot; a service says by itself that there is one.
    wait : seconds to wait for the first snapshot; with 0 a decider is made without one.
    expires : how long after a decision its reward is taken, or ``None`` for ever.
    buffer : how many decisions, and how many rewards, may wait for the sink, at about 500 bytes each. Beyond, decisions
        are made but dropped, and counted; rewards are refused.
    api_key, name : the API key of a service, and what its page calls this decider.
    seed : an int, or ``None`` for fresh randomness. Child processes always get fresh randomness.
    clock : returns the time in seconds.

    Any thread may use it. It follows new snapshots by itself, and goes on with the last one while there are none, or
    while what is found is damaged, of another bandit, or of a newer release: :meth:`status` says so. The id of a
    decision is a signed token that says what was decided, so that any decider with the same keys takes its reward.

    >>> from tensorbandits import Bandit, Decider, Space
    >>> space = Space({"segment": ["new", "old"], "offer": ["a", "b"]}, ["segment"])
    >>> bandit = Bandit(space, reward="bernoulli", seed=0)
    >>> decider = Decider(bandit.snapshot(name="offers"), keys={"2026-11": b"a secret of 16 bytes or more"}, seed=0)
    >>> decision = decider.ask(segment="new")
    >>> sorted(decision.arm), decision.context, 0 < decision.propensity <= 1, decision.snapshot
    (['offer'], {'segment': 'new'}, True, 1)
    """

    def __init__(
        self,
        source: str | PathLike[str] | PublishedSnapshot,
        *,
        keys: TokenKeys | Mapping[str, bytes] | str | None = None,
        sink: Sink | None = None,
        every: float = 1.0,
        wait: float = 10.0,
        expires: Any = "30 days",
        buffer: int = 100_000,
        api_key: str | None = None,
        name: str | None = None,
        seed: int | np.random.SeedSequence | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._keys, self._clock, self._expires = TokenKeys.of(keys), clock, Span.of(expires, "expires")
        if self._expires is not None and self._expires.rounds:
            raise ValueError(f"expires is {expires!r}; give a duration, such as '30 days'")
        room, pause = check_count(buffer, "buffer"), check_positive(every, "every")
        if isinstance(wait, bool) or not is_finite(wait) or wait < 0:
            raise ValueError(f"wait is {wait!r}; give the seconds to wait for the first snapshot, 0 for none")
        self._rng = np.random.default_rng(check_seed(seed))
        given = isinstance(source, PublishedSnapshot)
        found = (
            GivenSource(source) if isinstance(source, PublishedSnapshot) else source_of(source, key=api_key, name=name)
        )
        self._follower = follower = Follower(found, self._keys, pause)
        self._sender = None if sink is None else EventSender(sink, room, lambda: follower.about)
        self._add = None if self._sender is None else self._sender.add_decision
        self._closed = False
        self._own()
        _ALIVE.add(self)
        self._finalizer = weakref.finalize(self, _close, self._follower, self._sender)
        if given:
            follower.look()
        self._begin()
        if wait:
            self._follower.wait(float(wait))

    def _own(self) -> None:
        self._lock = threading.Lock()
        self._begun = False
        self._uniforms: list[float] = []
        self._randoms: list[bytes] = []

    def _begin(self) -> None:
        """Start the threads, in each process once: a child of a fork does so when it is first used."""
        with self._lock:
            if self._begun or self._closed:
                return
            self._begun = True
            if not isinstance(self._follower.source, GivenSource):
                self._follower.start()
            if self._sender is not None:
                self._sender.start()

    def _ready(self) -> ReadySnapshot:
        """Return what is decided from, or say why there is nothing."""
        if not self._begun:
            self._begin()
        ready = self._follower.ready
        if ready is None:
            raise self._missing()
        return ready

    def _own_again(self) -> None:
        """Be of use in a child process: other random numbers and ids, and threads of its own when it first decides."""
        self._own()
        self._rng = np.random.default_rng()
        self._follower.own_again()
        if self._sender is not None:
            self._sender.own_again()

    def _refill(self) -> None:
        """Make random numbers."""
        with self._lock:
            if not self._uniforms:
                self._uniforms.extend(self._rng.random(_NUMBERS).tolist())
            if not self._randoms:
                content = os.urandom(8 * _NUMBERS // 4)
                self._randoms.extend(content[at : at + 8] for at in range(0, len(content), 8))

    # Deciding.

    def ask(
        self,
        context: Mapping[str, Label | None] | None = None,
        /,
        *,
        allowed: Mapping[str, Sequence[Label]] | None = None,
        played: Mapping[str, Label] | None = None,
        propensity: float | None = None,
        **labels: Label | None,
    ) -> SnapshotDecision:
        """Decide, given the labels of the context modes: as keywords, or as a mapping.

        ``allowed`` lists labels that may be chosen, by mode. An apprentice is told which arm your own rule plays,
        ``played``, and with which ``propensity`` if the rule has chance in it; the decision says what to play.
        """
        ready = self._follower.ready
        if ready is None or not self._begun:
            ready = self._ready()
        words = (
            tuple(labels.items())
            if context is None
            else (*context.items(), *labels.items())
            if type(context) is dict
            else None
        )
        try:
            request = ready.by_words.get(words) if allowed is None and words is not None else None
        except TypeError:  # something that is no label
            request = None
        if request is None:
            request = ready.request(self._request(ready, context, labels, allowed))
            if allowed is None and words is not None:
                ready.remember(words, request)
        if played is not None or ready.rollout is not None:
            return self._beside(ready, request, played, propensity)
        return self._made(ready, request)

    def _missing(self) -> Exception:
        if self._closed:
            return DeciderClosedError("this decider is closed; make another one")
        return NoSnapshotError(self._follower.missing())

    def _request(self, ready: ReadySnapshot, context: Any, labels: Any, allowed: Any) -> Ask:
        space = ready.published.space
        levels = space.given(context, **labels)
        return Ask(levels, () if allowed is None else commands.chosen(space.allowed(allowed)))

    def _made(self, ready: ReadySnapshot, request: ReadyRequest) -> SnapshotDecision:
        """Draw an arm, and let it wait for the sink."""
        request.used = True
        return self._decided(ready, request, request.draw(self._uniform(), self._rng))

    def _uniform(self) -> float:
        while True:
            try:
                return self._uniforms.pop()
            except IndexError:
                self._refill()

    def _decided(
        self, ready: ReadySnapshot, request: ReadyRequest, arm: ReadyArm, would: dict[str, Label] | None = None
    ) -> SnapshotDecision:
        milliseconds = int(self._clock() * 1e3)
        while True:
            try:
                random = self._randoms.pop()
                break
            except IndexError:
                self._refill()
        token = make_token(arm.head, self._keys, milliseconds, random)
        if self._add is not None:
            self._add((token, milliseconds, arm))
        drawn = arm.drawn
        return SnapshotDecision(
            token,
            arm.labels.copy(),
            request.context.copy(),
            drawn.propensity,
            drawn.by,
            ready.policy,
            milliseconds / 1e3,
            ready.version,
            drawn.draw,
            {} if would is None else would,
        )

    def _beside(
        self, ready: ReadySnapshot, request: ReadyRequest, played: Mapping[str, Label] | None, propensity: float | None
    ) -> SnapshotDecision:
        """Decide beside a caller's own rule."""
        cell = self._check_played(ready, request, played, propensity)
        request.used = True
        own = request.draw(self._uniform(), self._rng)
        rollout = 0.0 if ready.published.shares.paused else ready.rollout
        arm = own if rollout and self._uniform() < rollout else request.played(cell, propensity)
        return self._decided(ready, request, arm, own.labels.copy())

    def _check_played(
        self, ready: ReadySnapshot, request: ReadyRequest, played: Mapping[str, Label] | None, propensity: float | None
    ) -> Cell:
        """Return the cell that a caller's own rule plays."""
        ready.snapshot.refuse_played(played is not None)
        refuse_propensity(propensity, alone=played is None)
        return ready.published.space.cell({**request.context, **(played or {})})

    def ask_many(
        self,
        contexts: Any,
        *,
        allowed: Mapping[str, Sequence[Label]] | None = None,
        played: Any = None,
        propensities: Iterable[float | None] | None = None,
    ) -> DecisionList:
        """Decide for many contexts, in their order, as asking one by one would; or, if one is refused, for none.

        ``contexts`` are a data frame of pandas, polars or pyarrow with a column for each context mode, or each of its
        numbers; or a list with a mapping of labels for each; without context modes also their number. The rest is as
        for :meth:`ask`.
        """
        ready = self._ready()
        rows = label_rows(contexts, ready.published.space.requested, "contexts")
        free = [name for _, name in ready.free]
        arms = one_each("played", None if played is None else label_rows(played, free, "played"), len(rows))
        shares = one_each("propensities", propensities, len(rows))
        found = zip(rows, arms, shares, strict=True)
        return DecisionList(self._each(ready, [Question(row, allowed, arm, share) for row, arm, share in found]))

    def ask_each(self, questions: Sequence[Question]) -> list[SnapshotDecision]:
        """Decide questions that each have an ``allowed`` of their own, in order, from one snapshot; or, if one is
        refused, none."""
        return self._each(self._ready(), questions)

    def _each(self, ready: ReadySnapshot, questions: Sequence[Question]) -> list[SnapshotDecision]:
        def checked(given: Question) -> ReadyRequest:
            request = ready.request(self._request(ready, given.context, {}, given.allowed))
            if given.played is not None or ready.rollout is not None:
                self._check_played(ready, request, given.played, given.propensity)
            return request

        requests = each_row(checked, questions)
        return [
            self._made(ready, request)
            if given.played is None and ready.rollout is None
            else self._beside(ready, request, given.played, given.propensity)
            for given, request in zip(questions, requests, strict=True)
        ]

    def best(
        self,
        context: Mapping[str, Label | None] | None = None,
        /,
        *,
        allowed: Mapping[str, Sequence[Label]] | None = None,
        **labels: Label | None,
    ) -> dict[str, Label]:
        """Return the allowed arm believed best by the posterior draws of the snapshot; explores and logs nothing."""
        ready = self._ready()
        return ready.request(self._request(ready, context, labels, allowed)).best()

    # Rewards.

    def tell(self, decision: str | Decision, reward: Any, *, amend: bool = False) -> None:
        """Hand the reward of a decision to the sink, by its id, which any decider of this bandit may have made.

        Whoever learns counts it once: the same again changes nothing, another one only with ``amend``. An id that was
        not signed with a known key, was altered, is of another bandit, or is too old, is refused. One that is no token
        goes on to a service that is the sink, which knows the ids of its own decisions.
        """
        ready = self._ready()
        self._sink().add_rewards([self._told(ready, decision, reward, check_flag(amend, "amend"))])

    def tell_many(self, rewards: Any, *, amend: bool = False, id: str = "id", reward: str = "reward") -> None:
        """Hand many rewards to the sink, or, if one is refused, none: pairs of a decision or id and its reward.

        Or a data frame of pandas, polars or pyarrow, with these in columns that are called ``id`` and ``reward``.
        """
        ready = self._ready()
        check_flag(amend, "amend")
        told = [self._told(ready, one, value, amend) for one, value in reward_rows(rewards, id, reward)]
        self._sink().add_rewards(told)

    def _told(self, ready: ReadySnapshot, decision: Any, reward: Any, amend: bool) -> ToldEvent:
        text, now = number_of(decision), self._clock()
        token = None
        if looks_like_token(text) or not getattr(self._sink().sink, "knows_ids", False):
            token = Token.read(text, self._keys, ready.published.uid, oldest=self._expires, now=now)
        return ToldEvent(text, now, ready.published.check_reward(reward), amend, token)

    def _sink(self) -> EventSender:
        if self._closed:
            raise DeciderClosedError("this decider is closed, and takes no rewards; make another one")
        if self._sender is None:
            raise ValueError(
                "this decider has no sink that a reward could be handed to; make it with one, such as "
                "sink=tb.ParquetSink('lake'), or tell the reward where there is one"
            )
        return self._sender

    # Looking, and the end.

    def status(self) -> dict[str, Any]:
        """Return which snapshot is decided from and how old it is, and what became of the events.

        ``age`` is how many seconds ago it was made, ``looked`` how many ago a look for a newer one went well, and
        ``problem`` why the last one did not, if so. ``sent`` are decisions and rewards that the sink has, ``waiting``
        those that are not sent yet, which are lost if the process dies, ``dropped`` decisions that were made and not
        logged, as too many waited, and ``refused`` events that the sink refused for good.
        """
        follower, sender, ready = self._follower, self._sender, self._follower.ready
        published = None if ready is None else ready.published
        looked = follower.looked
        found: dict[str, Any] = {
            "bandit": None if published is None else published.name,
            "uid": None if published is None else published.uid,
            "version": None if published is None else published.version,
            "event": None if published is None else published.event,
            "age": None if published is None else max(self._clock() - published.time, 0.0),
            "source": follower.source.shown,
            "looked": None if looked is None else time.monotonic() - looked,
            "problem": follower.problem,
            "snapshots": follower.swaps,
        }
        return found | {
            "sent": dict.fromkeys(("decisions", "rewards"), 0) if sender is None else dict(sender.sent),
            "waiting": 0 if sender is None else sender.backlog,
            "dropped": 0 if sender is None else sender.dropped,
            "refused": 0 if sender is None else sender.refused,
            "sink_problem": None if sender is None else sender.problem,
        }

    @property
    def snapshot(self) -> PublishedSnapshot | None:
        """The snapshot that is decided from, if there is one."""
        ready = self._follower.ready
        return None if ready is None else ready.published

    def refresh(self) -> bool:
        """Look for a new snapshot now; say whether there is one."""
        return self._follower.look()

    def flush(self, seconds: float = _CLOSING) -> bool:
        """Hand all that waits to the sink now; say whether it has it."""
        return self._sender is None or self._sender.flush(seconds)

    def close(self, seconds: float = _CLOSING) -> bool:
        """Hand over what waits and end; say whether nothing was lost. Programs that end by themselves do so too."""
        if self._closed:
            return True
        self._closed = True
        self._finalizer.detach()
        return _close(self._follower, self._sender, seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        snapshot = self.snapshot
        what = "no snapshot yet" if snapshot is None else f"{snapshot.name!r}, version {snapshot.version}"
        return f"Decider({what}, from {self._follower.source.shown})"


def _close(follower: Follower, sender: EventSender | None, seconds: float = _CLOSING) -> bool:
    follower.close()
    return sender is None or sender.close(seconds)


_ALIVE: weakref.WeakSet[Decider] = weakref.WeakSet()  # that a child process has to make its own


def _after_fork() -> None:
    for decider in list(_ALIVE):
        decider._own_again()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

"""What an application holds: named combinations, decisions with ids, feedback as it comes, all in one file.

A :class:`Bandit` joins a space, a policy, the law that decisions are drawn by, and the book of decisions. Labels become
cells here, and cells labels. It has two locks: one over the book and the draws, held for microseconds; one for handing
rewards to the policy in their order, which may wait until the policy has learned. Nobody holds the first while asking
for the second.
"""

from __future__ import annotations

import copy
import inspect
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tensorbandits.bandit import beliefs, figures, warm_start
from tensorbandits.bandit.beliefs import Beliefs
from tensorbandits.bandit.book import Book, Change, ClosedDecisionError, check_id
from tensorbandits.bandit.decision import Decision
from tensorbandits.bandit.law import Drawn, Request, Ring
from tensorbandits.bandit.shares import Shares
from tensorbandits.bandit.spans import Span
from tensorbandits.bandit.telling import Teller
from tensorbandits.bandit.timeline import Timeline
from tensorbandits.base import codec
from tensorbandits.base.checks import Cell, check_count, check_flag, check_seed, is_finite, nearest
from tensorbandits.data.log import Missing
from tensorbandits.policies import registry, saving
from tensorbandits.policies.approximate import ApproximateThompsonSampling, ModelSampling
from tensorbandits.policies.base import Policy
from tensorbandits.space import Space
from tensorbandits.space.labels import Label
from tensorbandits.tensor.allowed import Allowed, NothingAllowedError

if TYPE_CHECKING:
    from tensorbandits.bandit.checkup import Checkup

Part = tuple[Mapping[str, Label], float]

_VERSION = 3  # of a saved bandit
_STATE = (
    *("space", "policy", "rng", "ring", "shares", "holdout"),
    *("window", "default", "adds", "capacity", "remember", "book", "teller"),
)
_SALT = 0xBA4D17
_REQUESTS = 1024  # requests of which best arms are kept


class Bandit:
    """Decides among named combinations, and learns from rewards that come late, twice, changed, or never.

    Parameters
    ----------
    space : modes, levels and rules. Rules may change at any time, levels be added and retired.
    policy : the short name of a policy, its class, or a policy over the space's shape and context.
    ring : how many recent draws of a policy that samples a decision is drawn from; its probabilities are multiples of
        1 / ``ring``, and draws are as many decisions old.
    floors : shares of decisions that some arms get at least: a number, for all arms alike, or pairs of labels and a
        share, spread evenly over the allowed arms with these labels: ``[({"channel": "sms"}, 0.05)]``.
    ceilings : shares that some arms get at most, in the same way, wherever other arms are allowed. For policies that
        sample.
    holdout : the share of decisions that the baseline makes, to compare with.
    baseline : ``"uniform"``; an arm, as labels; or pairs of labels and shares that add up to 1, as a former policy had.
    window : how long a decision waits for its reward: a ``timedelta``, a text such as ``"10 min"``, or a whole number
        of rounds; ``None`` is for ever.
    default : the reward of a decision whose window has ended, such as 0 for clicks. A later reward takes its place.
    adds : whether rewards of one decision may add up, with ``tell(id, reward, add=True)``.
    half_life : after which a reward counts half, so that what is believed follows means that change: a duration, or a
        number of rewards; ``None`` forgets nothing.
    capacity, remember : decisions that may wait at once, and closed ones that are kept; they bound the memory, at about
        400 bytes each. Beyond ``capacity`` the oldest is closed as if its window had ended.
    clock : returns the time in seconds.
    seed : an int, a ``SeedSequence``, or ``None`` for fresh randomness.
    settings : further arguments of the policy: ``rank``, ``reward``, ...

    Any thread may use it. The propensity of a decision is the probability that it was drawn with. With a policy that
    follows without chance from what it was told (``"ucb"``, ``"estr"``) it is 1 unless there are floors or a holdout;
    with ``"elimination"`` and ``"epoch-greedy"``, which draw by themselves now and then, it is ``None``.

    >>> space = Space({"segment": ["new", "old"], "offer": ["a", "b", "c"], "channel": ["mail", "sms"]}, ["segment"])
    >>> space.forbid(offer="c", channel="sms")
    >>> bandit = Bandit(space, rank=1, reward="bernoulli", window="10 min", default=0, floors=0.1, seed=0)
    >>> decision = bandit.ask(segment="new", allowed={"offer": ["a", "b"]})
    >>> sorted(decision.arm), decision.context, 0 < decision.propensity <= 1
    (['channel', 'offer'], {'segment': 'new'}, True)
    >>> bandit.tell(decision.id, 1)
    >>> bandit.tell(decision.id, 1)  # again: nothing happens
    >>> bandit.policy.ledger.rounds, bandit.status(decision.id)
    (1.0, 'rewarded')
    """

    def __init__(
        self,
        space: Space,
        policy: Any = "thompson",
        *,
        ring: int = 16,
        floors: float | Sequence[Part] = (),
        ceilings: Sequence[Part] = (),
        holdout: float = 0.0,
        baseline: str | Mapping[str, Label] | Sequence[Part] = "uniform",
        window: Any = None,
        default: float | None = None,
        adds: bool = False,
        half_life: Any = None,
        capacity: int = 1_000_000,
        remember: int = 100_000,
        clock: Callable[[], float] = time.time,
        seed: int | np.random.SeedSequence | None = None,
        **settings: Any,
    ) -> None:
        if not isinstance(space, Space):
            raise TypeError(f"space is {space!r}; give a Space of named modes and levels")
        if not callable(clock):
            raise TypeError(f"clock is {clock!r}; give a function that returns the time in seconds, such as time.time")
        self.space, self._clock = space, clock
        checked = check_seed(seed)
        self.policy = _policy(space, policy, checked, settings)
        self._rng = np.random.default_rng([checked, _SALT] if isinstance(checked, int) else checked)
        samples = isinstance(self.policy, ApproximateThompsonSampling)
        self._ring = Ring(check_count(ring, "ring"))
        self._shares = Shares.of(space, floors=floors, ceilings=ceilings, baseline=baseline, holdout=holdout)
        if self._shares.ceilings and not samples:
            raise ValueError(
                f"ceilings are given, but {type(self.policy).__name__} draws by itself; use a policy that samples, "
                "such as 'thompson', or forbid arms"
            )
        length = Span.of(window, "window")
        if default is not None and length is None:
            raise ValueError(
                f"default is {default!r}, but no window is given, after which to tell it: give window='1 h'"
            )
        told = None if default is None else self.policy.check_reward(default)
        bounds = {"capacity": capacity, "remember": remember}
        self._book = Book(
            window=length, default=told, adds=check_flag(adds, "adds"), timeline=Timeline(len(space.shape)), **bounds
        )
        faded = Span.of(half_life, "half_life", whole=False)
        self._teller = Teller(self.policy, faded, self._now(), lambda: self._book.settled())
        self._prepare()

    def _prepare(self) -> None:
        """Start with nothing kept of the space."""
        self._lock, self._applying = threading.RLock(), threading.Lock()
        self._changes: deque[Change] = deque()  # that the policy has yet to be told, in order
        self._requests: dict[Any, Request] = {}
        self._seen = -1  # the version of the space that the rules below are of
        self._standing: Allowed | None = None
        self._sync()

    # Decisions.

    def ask(
        self,
        context: Mapping[str, Label] | None = None,
        /,
        *,
        allowed: Mapping[str, Sequence[Label]] | None = None,
        activate: bool = True,
        id: str | None = None,
        **labels: Label,
    ) -> Decision:
        """Decide, given the labels of the context modes: as keywords, or as a mapping.

        ``allowed`` lists labels that may be chosen, by mode. With ``activate=False`` the decision waits for nothing
        until :meth:`activate` says that it was shown. ``id`` is an id of yours that no other decision has; a mode of
        that name, or of that of another argument, is given in a mapping.
        """
        levels, shown = self.space.given(context, **labels), check_flag(activate, "activate")
        chosen = {} if allowed is None else self.space.allowed(allowed)
        try:
            return self._decide(levels, chosen, shown, id)
        except NothingAllowedError:
            raise ValueError(self._nothing(levels, chosen)) from None

    def _decide(self, levels: Cell, chosen: Mapping[int, Sequence[int]], shown: bool, id: str | None) -> Decision:
        now = self._now()
        if self._teller.overdue(now):
            self._apply(now)
        sampling = self.policy if isinstance(self.policy, ApproximateThompsonSampling) else None
        fresh = [] if sampling is None else self._ring.fresh(sampling)
        with self._lock:
            if id is not None and check_id(id) in self._book:
                raise ClosedDecisionError(f"a decision has the id {id!r} already; give each its own, or none")
            request = self._request(levels, chosen)
            if sampling is not None:
                self._ring.take(fresh, sampling.shape)
                if not self._ring.draws:  # a mode has gained levels since
                    self._ring.take(self._ring.fresh(sampling), sampling.shape)
                drawn = request.draw(self._ring, self._rng)
            else:
                drawn = request.ask(self.policy, self._rng)
            held = drawn.by == "holdout"
            number = self._book.open(drawn.cell, drawn.note, time=now, active=shown, held=held, number=id)
            self._changes.extend(self._book.expire(time=now))
        self._apply(now)
        return self._named(number, drawn, now)

    def _named(self, number: str, drawn: Drawn, time: float) -> Decision:
        """Return a decision by its labels."""
        named = self.space.labels(drawn.cell)
        given = {self.space.modes[mode]: named.pop(self.space.modes[mode]) for mode in self.space.context}
        return Decision(number, named, given, drawn.propensity, drawn.by, type(self.policy).__name__, time)

    def activate(self, decision: str | Decision) -> None:
        """Say that a decision was shown: its window begins now."""
        self._close(lambda now: self._book.activate(_id(decision), time=now))

    def cancel(self, decision: str | Decision) -> None:
        """Say that a decision was not carried out: it takes no reward, and none is told of it."""
        self._close(lambda now: self._book.cancel(_id(decision)))

    def tell(
        self,
        decision: str | Decision | None = None,
        reward: Any = None,
        *,
        amend: bool = False,
        add: bool = False,
        arm: Mapping[str, Label] | None = None,
        context: Mapping[str, Label] | None = None,
    ) -> None:
        """Learn the reward of a decision, by its id; the same again changes nothing.

        Another reward is refused, unless it is to ``amend`` the first or to ``add`` to it. Those who keep no ids tell
        ``arm`` and ``context`` instead, each time for one more reward.
        """
        if (decision is None) == (arm is None):
            raise TypeError("tell either the id of a decision and its reward, or arm=..., context=... and reward=...")
        if decision is None:
            if amend or add:
                raise ValueError("amend and add change the reward of a decision; give its id rather than an arm")
            for name, given in (("arm", arm), ("context", context)):
                if given is not None and not isinstance(given, Mapping):
                    raise TypeError(f"{name} is {given!r}; give labels by mode, such as {{'offer': 'a'}}")
            cell = self.space.cell(context, **(arm or {}))
            self._changes.append(Change(cell, None, self.policy.check_reward(reward), None))
            self._close(lambda now: None)
            return
        if amend and add:
            raise ValueError("amend and add are both True; the reward takes the place of the first, or adds to it")
        if context is not None:
            raise TypeError("context is given beside the id of a decision, which has one already; leave it out")
        number = _id(decision)
        self._close(lambda now: self._book.tell(number, reward, amend=amend, add=add, check=self.policy.check_reward))

    def tell_log(
        self,
        frame: Any,
        reward: str,
        *,
        trials: str | None = None,
        columns: Mapping[str, str] | None = None,
        fixed: Mapping[str, Label] | None = None,
        unknown: warm_start.Unknown = "error",
        missing: Missing = "error",
        weight: float = 1.0,
    ) -> warm_start.WarmStart:
        """Learn the rewards of a log, a data frame of any kind with one row per event; all of them, or none.

        Parameters
        ----------
        frame, reward, trials, missing : as for :func:`tensorbandits.data.from_log`.
        columns : the columns of modes that are named otherwise there, by mode; times with a bin: ``"time:weekday"``.
        fixed : the label that all rewards have, of modes of which there is no column.
        unknown : what becomes of labels that the space does not know: ``"error"`` names them, ``"skip"`` leaves their
            rewards out, and ``"add"`` adds them as levels.
        weight : what each reward counts for, above 0 and at most 1.

        >>> import pyarrow as pa
        >>> bandit = Bandit(Space({"offer": ["a", "b"], "channel": ["mail", "sms"]}), "ucb")
        >>> log = pa.table({"offer": ["a", "b", "c"], "clicks": [3, 1, 2], "shown": [90, 80, 70]})
        >>> bandit.tell_log(log, "clicks", trials="shown", fixed={"channel": "sms"}, unknown="skip")
        WarmStart(told 170 rewards of 2 cells, from 3 rows; skipped: offer 'c' (70))
        """
        past = warm_start.past_of_log(self.space, frame, reward, trials, columns, fixed, missing)
        return self._start(past, fixed, unknown, weight)

    def tell_bandit(
        self,
        other: Bandit,
        *,
        fixed: Mapping[str, Label] | None = None,
        unknown: warm_start.Unknown = "error",
        weight: float = 1.0,
    ) -> warm_start.WarmStart:
        """Learn all rewards that another bandit was told; modes and levels are matched by label, so they may differ.

        The arguments are those of :meth:`tell_log`. Decisions that wait there stay there.
        """
        if not isinstance(other, Bandit) or other is self:
            raise TypeError(f"{other!r} is not another Bandit; give one, or a data frame to tell_log")
        with other._applying:
            other._drain(other._now())
            past = warm_start.Past(
                dict(zip(other.space.modes, other.space.levels, strict=True)), other.policy.copy_ledger()
            )
        return self._start(past, fixed, unknown, weight)

    def status(self, decision: str | Decision) -> str:
        """Return the state of a decision: inactive, open, rewarded, timed out or cancelled."""
        self.expire()
        with self._lock:
            return self._book.status(_id(decision))

    def reward(self, decision: str | Decision) -> float | None:
        """Return the reward of a decision as it is now, the default after its window, or ``None`` if it has none."""
        self.expire()
        with self._lock:
            return self._book.reward(_id(decision))

    @property
    def waiting(self) -> int:
        """How many decisions wait for a reward or for being shown."""
        return len(self._book)

    def expire(self) -> None:
        """Tell the default of decisions whose window has ended; every other call does so too."""
        self._close(lambda now: None)

    def best(
        self,
        context: Mapping[str, Label] | None = None,
        /,
        *,
        allowed: Mapping[str, Sequence[Label]] | None = None,
        **labels: Label,
    ) -> dict[str, Label]:
        """Return the allowed arm believed best, given the labels of the context modes; explores and changes nothing."""
        levels = self.space.given(context, **labels)
        chosen = {} if allowed is None else self.space.allowed(allowed)
        try:
            with self._lock:
                query = self._request(levels, chosen).query
            named = self.space.labels(self.policy.best(levels, query.allowed))
        except NothingAllowedError:
            raise ValueError(self._nothing(levels, chosen)) from None
        return {name: label for name, label in named.items() if self.space.position(name) not in self.space.context}

    def diagnose(self, *, max_rank: int = 3, seed: int = 0) -> Checkup:
        """Return which structure the rewards speak for, and which levels have moved; it takes some seconds.

        Rewards of the same cells are compared early and late, at any time between, so that it does not matter how
        traffic has moved. Nothing is changed.
        """
        from tensorbandits.bandit.checkup import checkup

        now = self._now()
        with self._applying:
            self._drain(now)
            history, ledger = self._teller.past(), self.policy.copy_ledger()
        return checkup(self.space, ledger, history, getattr(self.policy, "reward", None), max_rank=max_rank, seed=seed)

    # Seeing what was decided and learned.

    def explain(
        self,
        context: Mapping[str, Label] | None = None,
        /,
        *,
        level: float = 0.9,
        arms: int = 10,
        **labels: Label,
    ) -> Beliefs:
        """Return what is believed: main effects, interactions, factors, levels that are alike, best arms; as frames.

        The best ``arms``, so many, are those of the context whose labels are given, or else of every context. ``level``
        is the probability that a number lies between its two bounds. For policies that sample a low-rank tensor.
        """
        if not isinstance(self.policy, ModelSampling):
            raise ValueError(
                f"{type(self.policy).__name__} believes in no tensor that could be explained; use 'thompson' or "
                "'ensemble', whose tell_bandit takes over what was learned here"
            )
        given = self.space.given(context, **labels) if context or labels else None
        self.expire()
        while True:
            with self._lock:
                self._sync()
                space = copy.deepcopy(self.space)
                wanted = beliefs.contexts(space) if given is None else [given]
                queries = None if wanted is None else [self._request(levels, {}).query for levels in wanted]
            with self.policy.still():
                if self.policy.shape == space.shape:  # else a mode has gained levels just now
                    return beliefs.believed(space, self.policy, queries, arms, level)

    def history(self, mode: str | None = None) -> Any:
        """Return decisions and rewards over time as a data frame, the holdout's apart; of each level if given a mode.

        One row per block of equally many decisions, of which there are at most 100: older ones are merged as time goes
        on. A reward counts in the block of its decision. Decisions that were cancelled, or not shown, do not count, and
        neither do rewards that were told without a decision.
        """
        at = None if mode is None else self.space.position(mode)
        return self.timeline().frame(at, () if at is None else self.space.levels[at])

    def timeline(self) -> Timeline:
        """Return a copy of what :meth:`history` is made from, by position of the mode and index of the level."""
        self.expire()
        with self._lock:
            timeline = copy.deepcopy(self._book.timeline)
        assert timeline is not None
        return timeline

    def plot(self, kind: str, *, path: str | PathLike[str] | None = None, **options: Any) -> Any:
        """Return a matplotlib figure, and write it if a path is given, whose suffix says PNG, SVG or PDF.

        Kinds, and their options:

        - ``"effects"``: main effects with intervals (``modes``, ``level``)
        - ``"interactions"``: what modes have alone, and two of them beyond that (``level``)
        - ``"factors"``: coordinates of the levels of a ``mode``, and which are alike
        - ``"arms"``: best arms with intervals (``context``, ``count``, ``level``)
        - ``"estimate"``, ``"uncertainty"``: heat maps of two ``modes``, the others at ``fixed`` labels or averaged
        - ``"traffic"``: share of the levels of a ``mode`` over time (``against="time"``, or decisions)
        - ``"reward"``: over time, beside that of the holdout (``against``)
        """
        with self._lock:
            self._sync()
            view = figures.View(copy.deepcopy(self.space), self.policy, self.explain, self.timeline)
        return figures.draw(view, kind, path, options)

    # Levels that come and go.

    def add_level(self, mode: str, label: Label, *, like: Label | None = None, rewards: float | None = None) -> None:
        """Give a mode another level; what was learned of the others stays, and the new one starts from the prior.

        Or it starts ``like`` another level: as if so many of that one's ``rewards`` had been its own, spread over cells
        as those are, or all of them if they are fewer. The policy's ledger counts these too. As many rewards of its own
        outweigh them, and they fade as all do. By default they say as much as 30 normal rewards: as 30, or, of rare
        clicks at rate r, as 3 / r.
        """
        now = self._now()
        with self._applying:
            self._drain(now)
            with self._lock:
                self._sync()
                Space.from_state(self.space.state()).add_level(mode, label)  # which refuses what is no new label
                at = self.space.position(mode)
                level = None if like is None else self.space.level(mode, like)
                start = warm_start.like(self.policy, at, level, rewards)
                self.policy.grow(at)  # which refuses where the policy cannot follow
                self.space.add_level(mode, label)
                self._sync()
                if start is not None:
                    self.policy.tell_ledger(start)

    def retire_level(self, mode: str, label: Label) -> None:
        """Choose a level no more; rewards of decisions that have it are still taken."""
        with self._lock:
            self.space.retire_level(mode, label)
            self._sync()

    def restore_level(self, mode: str, label: Label) -> None:
        """Choose a retired level again, with all that was learned of it."""
        with self._lock:
            self.space.restore_level(mode, label)
            self._sync()

    # Saving and making again.

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to one file, whole or not at all: space, rules, policy, open and recent decisions."""
        codec.save(path, "bandit", _VERSION, self.state_dict())

    def state_dict(self) -> dict[str, Any]:
        """Return everything as plain data: arrays, numbers, text, and dicts and lists of them."""
        now = self._now()
        with self._applying, self._lock:
            self._drain(now)
            window = self._book.window
            return {
                "space": self.space.state(),
                "policy": saving.detached(self.policy.state_dict()),
                "rng": self._rng.bit_generator.state,
                "ring": self._ring.size,
                "shares": self._shares.state(),
                "holdout": self._shares.holdout,
                "window": None if window is None else list(window),
                "default": self._book.default,
                "adds": self._book.adds,
                "capacity": self._book.capacity,
                "remember": self._book.remember,
                "book": self._book.state(),
                "teller": self._teller.state(),
            }

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        *,
        fresh: bool = True,
        clock: Callable[[], float] = time.time,
        **code: Any,
    ) -> Self:
        """Return the bandit that :meth:`save` wrote, which goes on from there.

        It does so with fresh randomness, as another process may go on from the same file; with ``fresh=False`` it takes
        up the saved generators, so that every load goes on alike. ``code`` are arguments of the policy that are code.
        """
        saved = codec.load(path)
        if saved.kind != "bandit" or saved.version > _VERSION:
            raise ValueError(
                f"{path} holds a {saved.kind!r} of version {saved.version}, not a bandit of version {_VERSION}; give a "
                "file that a bandit's save wrote, with this or an older release"
            )
        state = saved.state if saved.version > 1 else {**saved.state, "teller": None}  # which was not there yet
        return cls.from_state_dict(state, fresh=fresh, clock=clock, **code)

    @classmethod
    def from_state_dict(
        cls, state: Mapping[str, Any], *, fresh: bool = True, clock: Callable[[], float] = time.time, **code: Any
    ) -> Self:
        """Return the bandit that :meth:`state_dict` described."""
        if not isinstance(state, Mapping) or (missing := [part for part in _STATE if part not in state]):
            lacks = f"lacks {missing}" if isinstance(state, Mapping) else f"is {state!r}"
            raise ValueError(f"the state of a bandit {lacks}; give what state_dict returned, whole")
        try:
            space = Space.from_state(state["space"])
            policy = Policy.from_state_dict(saving.attached(dict(state["policy"]), code))
            self = cls(space, policy, ring=state["ring"], clock=clock)
            self._shares = Shares.from_state(state["shares"], state["holdout"])
            self._book = Book(
                window=Span.written(state["window"]),
                default=None if state["default"] is None else policy.check_reward(state["default"]),
                adds=bool(state["adds"]),
                capacity=state["capacity"],
                remember=state["remember"],
                timeline=Timeline(len(space.shape)),
            ).restore(state["book"], space.shape)
            if state["teller"] is not None:
                self._teller.restore(state["teller"], self._book.by_order)
            if fresh:
                policy.reseed(None)
            else:
                self._rng.bit_generator.state = state["rng"]
        except (KeyError, IndexError, AttributeError, OverflowError) as error:
            raise ValueError(
                f"this is no state of a bandit ({error!r}); give what state_dict returned, whole"
            ) from None
        return self

    def __repr__(self) -> str:
        return f"Bandit({self.space}, {self.policy}; {self.waiting:,} decisions wait)"

    # Inside.

    def _now(self) -> float:
        now = self._clock()
        if not is_finite(now):
            raise ValueError(f"the clock says {now!r}; it must return the time in seconds, a finite number")
        return float(now)

    def _close(self, change: Callable[[float], Change | None]) -> None:
        """Change the book after what has timed out, and have the policy learn of both."""
        now = self._now()
        with self._lock:
            self._changes.extend(self._book.expire(time=now))
            made, refused = None, None
            try:
                made = change(now)
            except (LookupError, TypeError, ValueError) as error:  # what has timed out is told all the same
                refused = error
            if made is not None:
                self._changes.append(made)
        self._apply(now)
        if refused is not None:
            raise refused

    def _start(
        self, past: warm_start.Past, fixed: Any, unknown: warm_start.Unknown, weight: float
    ) -> warm_start.WarmStart:
        now = self._now()
        with self._applying:
            self._drain(now)
            with self._lock:
                self._sync()
                ledger, start = warm_start.plan(
                    self.space, self.policy, past, fixed=fixed, unknown=unknown, weight=weight
                )
                for mode, labels in start.added.items():
                    self.policy.grow(self.space.position(mode), len(labels))  # which may refuse, the first time
                    for label in labels:
                        self.space.add_level(mode, label)
                self._sync()
            self.policy.tell_ledger(ledger)
        return start

    def _apply(self, now: float) -> None:
        """Let the past fade if that is due, and hand changes to the policy, in their order."""
        if self._changes or self._teller.overdue(now):
            with self._applying:
                self._drain(now)

    def _drain(self, now: float) -> None:
        self._teller.fade(now)
        while self._changes:
            change = self._changes.popleft()
            try:
                self._teller.tell(change, now)
            except ValueError:  # the policy's past was changed by other hands
                self._book.revert(change)
                raise

    def _sync(self) -> None:
        """Follow what has changed in the space: let the policy grow, and forget what was kept of requests."""
        if self._seen == self.space.version:
            return
        with self._lock:
            version, shape = self.space.version, self.space.shape
            for mode, (now, before) in enumerate(zip(shape, self.policy.shape, strict=True)):
                if now > before:
                    self.policy.grow(mode, now - before)
            self._standing = Allowed.of(Allowed(forbidden=self.space.forbidden), shape)
            self._requests, self._seen = {}, version

    def _request(self, levels: Cell, chosen: Mapping[int, Sequence[int]]) -> Request:
        """Return what is kept of a request, checked."""
        self._sync()
        key = (levels, tuple((mode, tuple(chosen[mode])) for mode in sorted(chosen)) if chosen else ())
        request = self._requests.get(key)
        if request is None:
            for mode, level in zip(self.space.context, levels, strict=True):
                name = self.space.modes[mode]
                if (label := self.space.levels[mode][level]) in self.space.retired.get(name, []):
                    raise ValueError(f"{label!r} of mode {name!r} is retired; give another, or restore it first")
            for mode, some in chosen.items():
                name, labels = self.space.modes[mode], [self.space.levels[mode][level] for level in some]
                if all(label in self.space.retired.get(name, []) for label in labels):
                    raise ValueError(f"all of mode {name!r} that is allowed, {labels}, is retired; allow others too")
            allowed = Allowed.of(dict(chosen) or None, self.policy.shape, self._standing)
            request = Request(self.policy.query(levels, allowed), self._shares)
            while len(self._requests) >= _REQUESTS:
                del self._requests[next(iter(self._requests))]
            self._requests[key] = request
        return request

    def _nothing(self, levels: Cell, chosen: Mapping[int, Sequence[int]]) -> str:
        """The words for a request that leaves nothing to choose."""
        names, labels = self.space.modes, self.space.levels
        given = {names[mode]: labels[mode][level] for mode, level in zip(self.space.context, levels, strict=True)}
        some = {names[mode]: [labels[mode][level] for level in these] for mode, these in chosen.items()}
        words = [f"given {given}" if given else "", f"with allowed={some}" if some else ""]
        return (
            f"nothing may be chosen {' and '.join(filter(None, words))}, as rules forbid the rest; allow more, or take "
            "back one of space.rules"
        )


def _policy(space: Space, policy: Any, seed: Any, settings: dict[str, Any]) -> Policy:
    """Return the policy itself, or one made for the space."""
    if not isinstance(policy, Policy):
        record = registry.find(policy)
        known = ["paper", *record.settings]
        for name in settings:
            if name not in known and not record.takes_any:
                own = [one for one in inspect.signature(Bandit).parameters if one != "settings"]
                hint = nearest(name, [*own, *known]) or f"allowed are {', '.join([*own, *known])}"
                raise TypeError(f"{name!r} is no argument of a bandit or of {record.kind.__name__}: {hint}")
        return record.make(space.shape, context=space.context, seed=seed, **settings)
    if settings:
        raise TypeError(f"{sorted(settings)} are settings of a policy that is made already; give its name instead")
    if (policy.shape, policy.context) != (space.shape, space.context):
        raise ValueError(
            f"the policy has shape {policy.shape} and context {policy.context}, the space {space.shape} and "
            f"{space.context}; make it with shape=space.shape and context=space.context"
        )
    return policy


def _id(decision: Any) -> Any:
    return decision.id if isinstance(decision, Decision) else decision

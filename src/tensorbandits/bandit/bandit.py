"""What an application holds: named combinations, decisions with ids, feedback as it comes, all in one file.

A :class:`Bandit` owns a state, a learner and the snapshot that decisions are drawn from (its :class:`Core`). Labels
become cells here, and cells labels. ``docs/explanation/architecture.md`` has the picture.
"""

from __future__ import annotations

import copy
import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np

from tensorbandits.bandit import commands, figures, warm_start
from tensorbandits.bandit.apprentice import Judged
from tensorbandits.bandit.beliefs import Beliefs
from tensorbandits.bandit.commands import Ask, Command, Drawn
from tensorbandits.bandit.core import Core, restored_core
from tensorbandits.bandit.decision import Advice, Decision
from tensorbandits.bandit.events import BanditEvent, Decided, Imported, Rewarded
from tensorbandits.bandit.intervals import Looks, check_looks
from tensorbandits.bandit.making import Part, new_state
from tensorbandits.bandit.settings import written_setting
from tensorbandits.bandit.snapshot import refuse_propensity
from tensorbandits.bandit.timeline import Timeline
from tensorbandits.bandit.uplift import Uplift
from tensorbandits.base import codec
from tensorbandits.base.checks import check_count, check_flag, check_probability, check_seed, is_finite
from tensorbandits.data.log import Missing
from tensorbandits.policies import saving
from tensorbandits.policies.base import Policy
from tensorbandits.space import Space
from tensorbandits.space.labels import Label

if TYPE_CHECKING:
    from tensorbandits.bandit.checkup import Checkup

Learning = Literal["ask", "thread"]

_VERSION = 5  # of a saved bandit
_STATE = (
    *("space", "policy", "rng", "ring", "shares", "holdout"),
    *("window", "default", "adds", "capacity", "remember", "book", "teller"),
)
_NEW = ("timeline", "unmarked", "learning")  # which states of before lack
_NEWER = ("comparison", "rollout", "apprentice", "rewards")  # and these, of before sides were compared
_OF_LOGS = (
    "seq",
    "chain",
    "moment",
    "decisions",
    "settings",
    "changes",
)  # of bandits that have one
_SALT = 0xBA4D17


class Bandit:
    """Decides among named combinations, and learns from rewards that come late, twice, changed, or never.

    Parameters
    ----------
    space : modes, levels and rules. Rules may change at any time, levels be added and retired.
    policy : the short name of a policy, its class, or a policy over the space's shape and context.
    ring : how many recent draws of a policy that samples a decision is drawn from; its probabilities are multiples of
        1 / ``ring``. The draw that decided is replaced at the next ``ask``, and so are all that know less than nine
        tenths of the rewards; the others are about as many decisions old.
    floors : shares of decisions that some arms get at least: a number, for all arms alike, or pairs of labels and a
        share, spread evenly over the allowed arms with these labels: ``[({"channel": "sms"}, 0.05)]``.
    ceilings : shares that some arms get at most, in the same way, wherever other arms are allowed. For policies that
        sample.
    holdout : the share of decisions that the baseline makes, to compare with.
    baseline : ``"uniform"``; an arm, as labels; or pairs of labels and shares that add up to 1, as a former policy had.
    apprentice : whether the bandit runs beside a rule of your own, which each ask is given what it plays.
    rollout : of an apprentice, the share of decisions that it makes itself; your rule makes the others, drawn at
        random, so that :meth:`uplift` compares both from the first day. 0 only watches.
    window : how long a decision waits for its reward: a ``timedelta``, a text such as ``"10 min"``, or a whole number
        of rounds; ``None`` is for ever.
    default : the reward of a decision whose window has ended, such as 0 for clicks. A later reward takes its place.
    adds : whether rewards of one decision may add up, with ``tell(id, reward, add=True)``.
    half_life : after which a reward counts half, so that what is believed follows means that change: a duration, or a
        number of rewards; ``None`` forgets nothing.
    capacity, remember : decisions that may wait at once, and closed ones that are kept; they bound the memory, at about
        400 bytes each. Beyond ``capacity`` the oldest is closed as if its window had ended.
    clock : returns the time in seconds.
    learning : ``"ask"`` learns what was told at the next ``ask``, unless another thread does so; ``"thread"`` learns in
        a thread of its own, so that no ``ask`` but the first waits for it.
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
        apprentice: bool = False,
        rollout: float | None = None,
        window: Any = None,
        default: float | None = None,
        adds: bool = False,
        half_life: Any = None,
        capacity: int = 1_000_000,
        remember: int = 100_000,
        clock: Callable[[], float] = time.time,
        learning: Learning = "ask",
        seed: int | np.random.SeedSequence | None = None,
        **settings: Any,
    ) -> None:
        if not callable(clock):
            raise TypeError(f"clock is {clock!r}; give a function that returns the time in seconds, such as time.time")
        self._clock, self.learning = clock, _check_learning(learning)
        checked = check_seed(seed)
        if not check_flag(apprentice, "apprentice") and rollout is not None:
            raise ValueError(f"rollout is {rollout!r}, but this bandit is no apprentice; give apprentice=True too")
        state = new_state(
            *(space, policy),
            floors=floors,
            ceilings=ceilings,
            holdout=holdout,
            baseline=baseline,
            rollout=(0.0 if rollout is None else rollout) if apprentice else None,
            window=window,
            default=default,
            adds=adds,
            half_life=half_life,
            capacity=capacity,
            remember=remember,
            seed=checked,
            time=self._now(),
            **settings,
        )
        self._own(Core(state, check_count(ring, "ring")))
        self._rng = np.random.default_rng([checked, _SALT] if isinstance(checked, int) else checked)

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

    # Decisions.

    def ask(
        self,
        context: Mapping[str, Label] | None = None,
        /,
        *,
        allowed: Mapping[str, Sequence[Label]] | None = None,
        activate: bool = True,
        id: str | None = None,
        played: Mapping[str, Label] | None = None,
        propensity: float | None = None,
        **labels: Label,
    ) -> Decision:
        """Decide, given the labels of the context modes: as keywords, or as a mapping.

        ``allowed`` lists labels that may be chosen, by mode. With ``activate=False`` the decision waits for nothing
        until :meth:`activate` says that it was shown. ``id`` is an id of yours that no other decision has; a mode of
        that name, or of that of another argument, is given in a mapping. An apprentice is told which arm your own rule
        plays, ``played``, and with which ``propensity`` if the rule has chance in it; the decision says what to play.
        """
        given, shown = self.space.given(context, **labels), check_flag(activate, "activate")
        chosen = () if allowed is None else commands.chosen(self.space.allowed(allowed))
        cell = None if played is None else self.space.cell({**self._context(given), **played})
        refuse_propensity(propensity, alone=played is None)
        now = self._now()
        if self._core.state.fading.due(now):
            self._do(None)
        if id is not None:
            self._core.state.book.refuse_taken(id)
        self._learn()
        event = None
        while event is None:  # but for levels and rules that change just now, once
            drawn = self._core.decide(Ask(given, chosen, played=cell, propensity=propensity), self._rng)
            event = self._entered(drawn, id, shown, now)
        return self._named(event)

    def _entered(self, drawn: Drawn, id: str | None, shown: bool, now: float) -> Decided | None:
        """Enter a decision and close those whose window has ended; ``None`` if it was drawn by rules of before."""
        core = self._core
        with core.lock:
            state = core.state
            if drawn.version != state.version:
                return None
            number = state.book.ids.issue(state.book) if id is None else id
            [event] = state.plan(commands.Decide(drawn, number, shown), now)
            core.apply([event])
            core.apply(state.plan(commands.Expire(), now))
        core.learner.take_in()
        assert isinstance(event, Decided)
        return event

    def _named(self, event: Decided) -> Decision:
        """Return a decision by its labels."""
        named = self.space.labels(event.cell)
        given = {self.space.modes[mode]: named.pop(self.space.modes[mode]) for mode in self.space.context}
        said = (event.id, named, given, event.propensity, event.by, type(self.policy).__name__, event.time)
        if event.would is None:
            return Decision(*said)
        would = self.space.labels(event.would.cell)
        return Advice(*said, would={mode: label for mode, label in would.items() if mode not in given})

    def _context(self, levels: Sequence[int]) -> dict[str, Label]:
        """The labels of the context modes."""
        modes = zip(self.space.context, levels, strict=True)
        return {self.space.modes[mode]: self.space.levels[mode][level] for mode, level in modes}

    def activate(self, decision: str | Decision) -> None:
        """Say that a decision was shown: its window begins now."""
        self._do(commands.Activate(_id(decision)))

    def cancel(self, decision: str | Decision) -> None:
        """Say that a decision was not carried out: it takes no reward, and none is told of it."""
        self._do(commands.Cancel(_id(decision)))

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
            self._do(commands.TellCell(self.space.cell(context, **(arm or {})), reward))
            return
        if amend and add:
            raise ValueError("amend and add are both True; the reward takes the place of the first, or adds to it")
        if context is not None:
            raise TypeError("context is given beside the id of a decision, which has one already; leave it out")
        self._do(commands.Tell(_id(decision), reward, amend, add))

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
        past = warm_start.past_of_log(self.space, self.policy, frame, reward, trials, columns, fixed, missing)
        return self._start(commands.Import(past, fixed, unknown, weight))

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
        other._do(None)
        with other._core.learner.still():
            ledger, levels = other.policy.copy_ledger(), other.space.levels
        past = warm_start.Past(dict(zip(other.space.modes, levels, strict=True)), ledger)
        return self._start(commands.Import(past, fixed, unknown, weight))

    def _start(self, command: commands.Import) -> warm_start.WarmStart:
        [event] = self._do(command)
        assert isinstance(event, Imported)
        assert event.start is not None
        return event.start

    def status(self, decision: str | Decision) -> str:
        """Return the state of a decision: inactive, open, rewarded, timed out or cancelled."""
        self._do(None)
        return self._core.state.book[_id(decision)].state

    def reward(self, decision: str | Decision) -> float | None:
        """Return the reward of a decision as it is now, the default after its window, or ``None`` if it has none."""
        self._do(None)
        return self._core.state.book[_id(decision)].reward

    @property
    def waiting(self) -> int:
        """How many decisions wait for a reward or for being shown."""
        return self._core.waiting

    def expire(self) -> None:
        """Tell the default of decisions whose window has ended; every other call does so too."""
        self._do(None)

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
        ask = Ask(levels, () if allowed is None else commands.chosen(self.space.allowed(allowed)))
        named = self.space.labels(self._core.best(ask))
        return {name: label for name, label in named.items() if self.space.position(name) not in self.space.context}

    def diagnose(self, *, max_rank: int = 3, seed: int = 0) -> Checkup:
        """Return which structure the rewards speak for, and which levels have moved; it takes some seconds.

        Rewards of the same cells are compared early and late, at any time between, so that it does not matter how
        traffic has moved. Nothing is changed.
        """
        self._do(None)
        return self._core.diagnose(max_rank=max_rank, seed=seed)

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
        given = self.space.given(context, **labels) if context or labels else None
        self._do(None)
        return self._core.explain(given, level=level, arms=arms)

    def history(self, mode: str | None = None) -> Any:
        """Return decisions and rewards over time as a data frame, the holdout's apart; of each level if given a mode.

        One row per block of equally many decisions, of which there are at most 100: older ones are merged as time goes
        on. A reward counts in the block of its decision. Decisions that were cancelled, or not shown, do not count, and
        neither do rewards that were told without a decision.
        """
        self._do(None)
        return self._core.history(mode)

    def uplift(self, *, over: str | None = None, level: float = 0.95, intervals: Looks = "anytime") -> Uplift:
        """Return how much more the bandit's decisions earn than the holdout's, or than those of your own rule.

        Both are drawn at random, so the difference is what the bandit makes. Its interval is valid however often one
        looks, or, with ``intervals="fixed"``, at one time that was fixed beforehand. ``over`` is ``"holdout"`` or
        ``"caller"`` (your rule); by default whichever the bandit is compared with now.

        >>> bandit = Bandit(Space({"offer": ["a", "b"]}), reward="bernoulli", holdout=0.5, seed=0)
        >>> for _ in range(30):
        ...     bandit.tell(bandit.ask(), 0)
        >>> found = bandit.uplift()
        >>> found.over, found.verdict, found.mean
        ('holdout', 'open', 0.0)
        """
        check_probability(level, "level")
        check_looks(intervals)
        self._do(None)
        return self._core.uplift(self._now(), over=over, level=level, looks=intervals)

    def judge(self, *, level: float = 0.95, intervals: Looks = "anytime") -> Judged:
        """Return what an apprentice would have earned beside your own rule, as far as what that plays can show it.

        Where the rule never plays what the bandit would, there is no estimate: bounds only. See :meth:`uplift` for
        what a gradual start measures.
        """
        check_probability(level, "level")
        check_looks(intervals)
        self._do(None)
        with self._core.lock:
            return self._core.state.apprentice.judged(
                getattr(self.policy, "reward", None), level=level, looks=intervals
            )

    def timeline(self) -> Timeline:
        """Return a copy of what :meth:`history` is made from, by position of the mode and index of the level."""
        self._do(None)
        return self._core.timeline()

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
        self._core.current()
        view = figures.View(copy.deepcopy(self.space), self.policy, self.explain, self.timeline)
        return figures.draw(view, kind, path, options)

    # Settings, and levels that come and go.

    def change(self, **settings: Any) -> None:
        """Change holdout, baseline, floors, ceilings, window, default, apprentice, rollout, half_life from now on.

        They mean what they do where a bandit is made; ``None`` takes one away. Decisions that were made keep the window
        that they began with.
        """
        self._do(commands.ChangeSettings({name: written_setting(name, value) for name, value in settings.items()}))

    def add_level(self, mode: str, label: Label, *, like: Label | None = None, rewards: float | None = None) -> None:
        """Give a mode another level; what was learned of the others stays, and the new one starts from the prior.

        Or it starts ``like`` another level: as if so many of that one's ``rewards`` had been its own, spread over cells
        as those are, or all of them if they are fewer. The policy's ledger counts these too. As many rewards of its own
        outweigh them, and they fade as all do. By default they say as much as 30 normal rewards: as 30, or, of rare
        clicks at rate r, as 3 / r.
        """
        self._do(commands.AddLevel(mode, label, like, rewards))

    def retire_level(self, mode: str, label: Label) -> None:
        """Choose a level no more; rewards of decisions that have it are still taken."""
        self._do(commands.RetireLevel(mode, label))

    def restore_level(self, mode: str, label: Label) -> None:
        """Choose a retired level again, with all that was learned of it."""
        self._do(commands.RestoreLevel(mode, label))

    # Saving and making again.

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to one file, whole or not at all: space, rules, policy, open and recent decisions."""
        codec.save(path, "bandit", _VERSION, self.state_dict())

    def state_dict(self) -> dict[str, Any]:
        """Return everything as plain data: arrays, numbers, text, and dicts and lists of them."""
        self._do(None)
        state = {name: part for name, part in self._core.frozen()().items() if name not in _OF_LOGS}
        return state | {"rng": copy.deepcopy(self._rng.bit_generator.state), "learning": self.learning}

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
        known = set(state) if isinstance(state, Mapping) else set()
        new = [part for parts in (_NEW, _NEWER) if known.intersection(parts) for part in parts]
        if not isinstance(state, Mapping) or (missing := [part for part in (*_STATE, *new) if part not in state]):
            lacks = f"lacks {missing}" if isinstance(state, Mapping) else f"is {state!r}"
            raise ValueError(f"the state of a bandit {lacks}; give what state_dict returned, whole")
        try:
            self = cls.__new__(cls)
            self._clock, self.learning = clock, _check_learning(state.get("learning", "ask"))
            self._own(restored_core(dict(state), self._now(), check_count(state["ring"], "ring"), code))
            self._rng = np.random.default_rng()
            if fresh:
                self.policy.reseed(None)
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

    def _do(self, command: Command | None) -> list[BanditEvent]:
        """Carry out a command, after closing decisions whose window has ended, and have the policy learn of both."""
        now, core = self._now(), self._core
        early = core.plan_early(command, now)
        planned: list[BanditEvent] = []
        why: list[Exception] = []  # it is refused
        with core.lock:
            core.sync()
            core.apply(core.state.plan(commands.Expire(), now))
            try:
                planned = [] if command is None else early() or core.state.plan(command, now)
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

    # Copies, and processes that fork.

    def __reduce__(self) -> Any:
        code = saving.code_of(self.policy)
        return _unpickled, (type(self), self.state_dict(), self._clock, code)

    def __deepcopy__(self, memo: Any) -> Self:
        code = saving.code_of(self.policy)
        return type(self).from_state_dict(copy.deepcopy(self.state_dict()), clock=self._clock, **code)


_ALIVE: weakref.WeakSet[Bandit] = weakref.WeakSet()  # that a child process has to make its own
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


def _unpickled(kind: type[Bandit], state: dict[str, Any], clock: Callable[[], float], code: dict[str, Any]) -> Bandit:
    return kind.from_state_dict(state, clock=clock, **code)


def _check_learning(learning: Any) -> Learning:
    if learning not in get_args(Learning):
        raise ValueError(f"learning is {learning!r}; give 'ask' or 'thread'")
    return learning  # type: ignore[no-any-return]


def _id(decision: Any) -> Any:
    return decision.id if isinstance(decision, Decision) else decision

"""The state of a bandit, folded from events: what is planned for a command, and what an event changes.

``plan`` answers a command with events and changes nothing. ``apply`` changes the state by an event; it cannot fail for
an event that ``plan`` returned on this very state. ``trial`` lets several commands be planned one after the other, each
on the state after those before, and takes everything back at the end. Times are those of commands and events: the state
knows no clock, and no randomness. What the policy has to learn comes out as *lessons*, in order.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from tensorbandits.bandit import commands as c
from tensorbandits.bandit import events as e
from tensorbandits.bandit import warm_start
from tensorbandits.bandit.actors import Actors
from tensorbandits.bandit.apprentice import Apprentice
from tensorbandits.bandit.book import CANCELLED, INACTIVE, OPEN, Book, Record, UnknownDecisionError
from tensorbandits.bandit.changes import ChangeLog
from tensorbandits.bandit.comparison import (
    CALLER,
    DECISIONS,
    EVENTS,
    HOLDOUT,
    NO_WINDOW,
    POLICY,
    REWARDS,
    ROUNDS,
    SECONDS,
    SQUARES,
    TOTAL,
    SideSums,
    Waits,
)
from tensorbandits.bandit.history import History
from tensorbandits.bandit.intervals import RATES
from tensorbandits.bandit.journal import Journal
from tensorbandits.bandit.settings import Settings, change_rule, changed, described, read_rule, written_rule
from tensorbandits.bandit.shares import Shares
from tensorbandits.bandit.spans import Fading, Span
from tensorbandits.bandit.timeline import Timeline
from tensorbandits.base.checks import Cell, check_array, check_cells, check_count
from tensorbandits.ledger import Ledger
from tensorbandits.policies.base import Policy
from tensorbandits.space import Space
from tensorbandits.space.features import levels_of, written_values
from tensorbandits.space.labels import read, written
from tensorbandits.space.partition import Partition

Lesson = Callable[[Policy], None]  # something that a policy has to learn

_SIDES = {"holdout": HOLDOUT, "caller": CALLER}  # by what decisions are made; the rest is the policy's
_SPARE = 1_000  # subjects of decisions that are kept no more
_LAGS = 2_000  # rewards of which it is known how late they came


class State:
    """Space, settings, decisions and what was counted of them.

    Parameters
    ----------
    space : modes, levels and rules.
    policy : says which rewards, levels and logs can be; nothing that it has learned is looked at.
    book : the decisions.
    shares : floors, ceilings, holdout and baseline.
    fading : how what was told fades.
    settings : as JSON describes them, of a bandit that was made from such.
    """

    def __init__(
        self,
        space: Space,
        policy: Policy,
        *,
        book: Book,
        shares: Shares,
        fading: Fading,
        settings: Settings | None = None,
    ) -> None:
        self.space, self.policy, self.book, self.shares, self.fading = space, policy, book, shares, fading
        self.settings: Settings = dict(settings or {})
        self.timeline = Timeline(len(space.shape))
        self.history = History(space.shape, conversions=bool(policy.ledger.kind))
        self.apprentice = Apprentice()
        self.comparison = SideSums()
        self.shape = space.shape  # that the policy was told of
        self.told_features = space.features  # which it was told too, by mode
        self.chain: str | None = None  # the checksum of the last event of its log, if that is known
        self.seq, self.moment, self.closed = 0, 0.0, False  # where its log stands, if it has one
        self.decisions, self.rewards, self.told = 0, 0.0, 0  # made; told, trials included; told one by one
        self.changes = 0  # of settings
        self.actors, self.changelog = Actors(), ChangeLog()
        self.subjects: dict[str, str] = {}  # by decision, where no log keeps them
        self.adopted = 0  # decisions that were made elsewhere
        self.seen: dict[int, list[list[float]]] = {}  # numbers that regions are to be learned from, by mode
        # Digests, with their salts, of the ids of decisions that were forgotten, by when these were made.
        self.forgotten: dict[float, list[tuple[str, str]]] = {}
        self.lags: deque[float] = deque(maxlen=_LAGS)  # seconds from decision to reward, of the last ones
        self._unmarked = 0  # decisions shown before there was a timeline
        self._early: dict[int, tuple[Cell, float, str]] = {}  # told, but not in the history yet, by order
        self._orders: list[int] = []  # of these, as a heap

    @property
    def version(self) -> tuple[int, int]:
        """Another value after every change of levels, rules and settings."""
        return self.space.version, self.changes

    # Planning.

    def plan(self, command: c.Command, time: float) -> list[e.BanditEvent]:
        """Return the events that carry out a command at a time, none if it changes nothing; raise why it cannot be."""
        return _PLANS[type(command)](self, command, time)

    @contextmanager
    def trial(self) -> Iterator[Journal]:
        """Take back at the end what :meth:`enter` does meanwhile."""
        with self.book.journal.trial():
            yield self.book.journal

    def enter(self, event: e.BanditEvent) -> None:
        """Let later commands of a trial see what an event does to decisions."""
        _APPLIES[type(event)](self, event)

    def _plan_decide(self, command: c.Decide, time: float) -> list[e.BanditEvent]:
        drawn = command.drawn
        number = self.book.refuse_taken(command.id)
        chances = None if drawn.chances == self.shares.chances else drawn.chances
        made = (drawn.cell, drawn.propensity, drawn.by, command.active, drawn.note, drawn.would, chances)
        return [e.Decided(time, number, *made, part=drawn.part, numbers=command.numbers)]

    def _plan_tell(self, command: c.Tell, time: float) -> list[e.BanditEvent]:
        check = self.policy.check_reward
        value = self.book.plan_tell(command.id, command.reward, amend=command.amend, add=command.add, check=check)
        if value is None:
            return []
        kind = e.Rewarded if self.book[command.id].reward is None else e.Amended
        return [kind(time, command.id, value)]

    def _plan_tell_cell(self, command: c.TellCell, time: float) -> list[e.BanditEvent]:
        if command.trials is None:
            return [e.Told(time, command.cell, self.policy.check_reward(command.reward))]
        probe = Ledger(self.space.shape)
        probe.add([command.cell], [command.reward], [command.trials])
        self.policy.check_ledger(probe)
        return [e.Told(time, command.cell, float(command.reward), int(command.trials))]

    def _plan_activate(self, command: c.Activate, time: float) -> list[e.BanditEvent]:
        return [e.Activated(time, command.id)] if self.book.plan_activate(command.id) else []

    def _plan_cancel(self, command: c.Cancel, time: float) -> list[e.BanditEvent]:
        return [e.Cancelled(time, command.id)] if self.book.plan_cancel(command.id) else []

    def _plan_adopt(self, command: c.Adopt, time: float) -> list[e.BanditEvent]:
        number, drawn, then = command.id, command.drawn, command.then
        found: list[e.BanditEvent] = []
        if number not in self.book:
            self._refuse_adoption(command)
            chances = None if drawn.chances == self.shares.chances else drawn.chances
            made = (drawn.cell, drawn.propensity, drawn.by, True, None, None, chances, min(command.time, time))
            found = [e.Decided(time, number, *made)]
        if then is None:
            return found
        with self.trial():
            for event in found:
                self.enter(event)
            return found + self.plan(then, time)

    def _refuse_adoption(self, command: c.Adopt) -> None:
        """Refuse a decision of levels that are not there, or of somebody whose data were removed."""
        number, cell, shape = self.book.refuse_taken(command.id), command.drawn.cell, self.space.shape
        if len(cell) != len(shape) or not all(0 <= at < size for at, size in zip(cell, shape, strict=True)):
            raise ValueError(
                f"the decision is of cell {cell}, but this bandit has the shape {shape}; is it of another?"
            )
        if any(e.digest_of(number, salt) == digest for digest, salt in self.forgotten.get(command.time, ())):
            raise UnknownDecisionError(
                f"decision {number!r} was removed, as somebody wanted a person's data forgotten; it takes no reward"
            )

    def _plan_forget(self, command: c.Forget, time: float) -> list[e.BanditEvent]:
        waiting = dict.fromkeys(name for number, name, _ in command.decisions if self._is_waiting(number))
        digests = [e.digest_of(number, command.salt) for number, _, _ in command.decisions]
        names, times = [name for _, name, _ in command.decisions], [made for _, _, made in command.decisions]
        forgotten = e.Forgotten(time, names, times, digests, command.salt, command.why)
        return [forgotten, *(e.Cancelled(time, name) for name in waiting)]

    def _is_waiting(self, number: str) -> bool:
        record = self.book.get(number)
        return record is not None and record.state in (INACTIVE, OPEN)

    def _plan_expire(self, command: c.Expire, time: float) -> list[e.BanditEvent]:
        ended, dropped = self.book.overdue(time=time)
        found: list[e.BanditEvent] = [e.TimedOut(time, number, self.book.default) for number in ended]
        found += [e.Cancelled(time, number) for number in dropped]
        return found[: command.most]

    def _plan_add_level(self, command: c.AddLevel, time: float) -> list[e.BanditEvent]:
        trial, mode, label = self.space.copy(), command.mode, command.label
        at = trial.position(mode)
        trial.add_level(mode, label, command.features)
        like = command.like
        if like is not None:
            self.space.level(mode, like)
        warm_start.check_like(self.policy, like is not None, command.rewards)
        self._refuse_growth(trial.shape)
        written_like = None if like is None else written(like)
        values = None if command.features is None else written_values(trial.features[mode].rows[-1])
        return [e.LevelAdded(time, self.space.modes[at], written(label), written_like, command.rewards, values)]

    def _plan_describe(self, command: c.Describe, time: float) -> list[e.BanditEvent]:
        mode, before = command.mode, self.space.features.get(command.mode)
        trial = self.space.copy()
        trial.describe(mode, command.features, anew=command.anew)
        if command.features is None:
            return [e.Described(time, mode, None)]
        warm_start.check_featured(self.policy)
        given = levels_of(command.features, mode)
        after, places = trial.features[mode], [self.space.level(mode, label) for label, _ in given]
        if before is None or command.anew:
            pairs = [[written(label), after.written(at)] for (label, _), at in zip(given, places, strict=True)]
            return [e.Described(time, mode, pairs, anew=True)]
        changed = [
            (label, at, {name: one for name, one in values.items() if before.rows[at].get(name) != one})
            for (label, values), at in zip(given, places, strict=True)
        ]
        pairs = [[written(label), written_values(values)] for label, _, values in changed if values]
        was = [
            written_values({name: before.rows[at].get(name) for name in values}) for _, at, values in changed if values
        ]
        return [e.Described(time, mode, pairs, was=was)] if pairs else []

    def _plan_retire(self, command: c.RetireLevel, time: float) -> list[e.BanditEvent]:
        trial = self.space.copy()
        before = trial.version
        trial.retire_level(command.mode, command.label)
        event = e.LevelRetired(time, command.mode, written(command.label))
        return [] if trial.version == before else [event]

    def _plan_restore(self, command: c.RestoreLevel, time: float) -> list[e.BanditEvent]:
        trial = self.space.copy()
        before = trial.version
        trial.restore_level(command.mode, command.label)
        event = e.LevelRestored(time, command.mode, written(command.label))
        return [] if trial.version == before else [event]

    def _plan_learn_regions(self, command: c.LearnRegions, time: float) -> list[e.BanditEvent]:
        partition = command.partition
        if partition is None:
            if command.mode not in self.regions_due():
                return []
            known = self.seen[self.space.position(command.mode)]
            partition = self.space.regions[command.mode].fit(known)
        trial = self.space.copy()
        trial.learn_regions(command.mode, partition)
        self._refuse_growth(trial.shape)
        return [e.RegionsLearned(time, command.mode, partition.state())]

    def _plan_split(self, command: c.SplitRegion, time: float) -> list[e.BanditEvent]:
        trial, mode = self.space.copy(), command.mode
        trial.split_region(mode, command.region, command.at, command.number)
        at, (*_, one) = trial.position(mode), trial.regions[mode].splits
        if any(part.levels.get(at) == one.level for some in self.shares[:3] for part in some):
            raise ValueError(
                f"floors, ceilings or the baseline name {command.region!r} of mode {mode!r}; change them first, as its "
                "parts would have other shares"
            )
        self._refuse_growth(trial.shape)
        return [e.RegionSplit(time, mode, command.region, one.at, trial.regions[mode].numbers[one.number])]

    def _plan_rule(self, command: c.ChangeRule, time: float) -> list[e.BanditEvent]:
        trial = self.space.copy()
        before = trial.version
        change_rule(trial, command.rule, add=command.add)
        event = e.RuleChanged(time, written_rule(command.rule), command.add)
        return [] if trial.version == before else [event]

    def _plan_settings(self, command: c.ChangeSettings, time: float) -> list[e.BanditEvent]:
        changed(self.space, self.policy, self.settings, command.given)
        return [e.Changed(time, dict(command.given), {name: self.settings.get(name) for name in command.given})]

    def _plan_import(self, command: c.Import, time: float) -> list[e.BanditEvent]:
        ledger, start, features = warm_start.plan(self.space, self.policy, command.past, **command.how())
        if start.added:
            self._refuse_growth(ledger.shape)
        added = {mode: [written(label) for label in labels] for mode, labels in start.added.items()}
        values = {mode: [written_values(one) for one in some] for mode, some in features.items()}
        return [e.Imported(time, ledger, added, start.said(), start, features=values, retired=list(start.retired))]

    def _refuse_growth(self, shape: Cell) -> None:
        if (why := self.policy.refusal_to_grow(shape)) is not None:
            raise ValueError(why)

    # Applying.

    def apply(self, event: e.BanditEvent) -> list[Lesson]:
        """Change the state by an event, and return what the policy has to learn."""
        lessons = _APPLIES[type(event)](self, event)
        if event.change and not isinstance(event, e.Created):  # which whoever made this state notes
            self.changelog.note(event)
        self.moment = event.time
        self.book.tidy()
        return lessons

    @property
    def _trying(self) -> bool:
        return self.book.journal.trying

    def _created(self, event: e.Created) -> list[Lesson]:
        return []

    def _decided(self, event: e.Decided) -> list[Lesson]:
        side = _SIDES.get(event.by, POLICY)
        chances = event.chances or self.shares.chances
        group = -1 if self._trying else self.comparison.group(chances, side, event.part)
        made = event.time if event.made is None else event.made
        self.book.open(*(event.id, event.cell, event.note), time=made, active=event.active, side=side, group=group)
        if self._trying:
            return []
        self.decisions += 1
        self.adopted += event.made is not None
        if event.numbers:
            self._see(event.numbers)
        if event.active:
            self._show(event.id, event.time, made)
        if event.would is not None:
            self.apprentice.open(event.id, event.would, event.cell, self.book.capacity)
        if event.by != "policy" or self.policy.traits.samples:
            return []
        cell, note = event.cell, event.note
        return [lambda policy: policy.issued(cell, note)]

    def _activated(self, event: e.Activated) -> list[Lesson]:
        if self.book.activate(event.id, time=event.time) is not None and not self._trying:
            self._show(event.id, event.time, event.time)
        return []

    def _show(self, number: str, time: float, shown: float) -> None:
        """Count a decision now that is shown now, or was shown elsewhere."""
        record = self.book[number]
        self.timeline.enter(record.cell, time=time, side=record.side, chances=self.shares.chances)
        clock = (SECONDS, ROUNDS)[record.in_rounds] if math.isfinite(record.due) else NO_WINDOW
        waits = Waits(record.due if clock else shown, clock)
        self.comparison.enter(record.order, record.group, waits, self.book.capacity)
        self.comparison.settle(time, self.book.rounds)

    @property
    def settled_marks(self) -> int:
        """How many decisions of the timeline, from the first on, are settled."""
        return self.timeline.count if not self.comparison.pending else self.comparison.settled - self._unmarked

    def _mark(self, record: Record) -> int:
        """Where the timeline counts a decision; below 0 for nowhere."""
        return record.order - 1 - self._unmarked if record.order else -1

    def _cancelled(self, event: e.Cancelled) -> list[Lesson]:
        before = self.book.cancel(event.id)
        if self._trying:
            return []
        if before.state != CANCELLED and (mark := self._mark(before)) >= 0:
            self.timeline.cancel(mark, before.cell, side=before.side)
            self.comparison.cancel(before.order, before.group)
        self.apprentice.forget(event.id)
        return self._settle()

    def _rewarded(self, event: e.Rewarded) -> list[Lesson]:
        before = self.book.enter(event.id, event.reward)
        if self._trying:
            return []
        self.lags.append(max(event.time - before.time, 0.0))
        if before.reward is None:
            self.comparison.lag(event.time - before.time)
        self._shadow(event.id, event.reward)
        return self._learn_reward(event.id, before, event.reward, event.time)

    def _timed_out(self, event: e.TimedOut) -> list[Lesson]:
        before = self.book.time_out(event.id, event.reward)
        if self._trying:
            return []
        if event.reward is None:
            self.apprentice.forget(event.id)
            self.comparison.end(before.order)
            return self._settle()
        self._shadow(event.id, event.reward)
        return self._learn_reward(event.id, before, event.reward, event.time)

    def _shadow(self, number: str, reward: float) -> None:
        self.apprentice.reward(number, reward, in_order=self._ends_all)

    def _forgotten(self, event: e.Forgotten) -> list[Lesson]:
        self.forget(event)
        for made, digest in zip(event.times, event.digests, strict=True):  # whose tokens may still be told
            self.forgotten.setdefault(made, []).append((digest, event.salt))
        return []

    def note_subject(self, number: str, subject: str) -> None:
        """Take note of whom a decision is for, for as long as the decision is kept."""
        if len(self.subjects) > 2 * self.book.kept + _SPARE:
            self.subjects = {one: who for one, who in self.subjects.items() if one in self.book}
        self.subjects[number] = subject

    def of_subject(self, subject: str) -> list[str]:
        """Return the decisions that were made for somebody."""
        return [number for number, one in self.subjects.items() if one == subject]

    def forget(self, event: e.Forgotten) -> None:
        """Put names in the place of ids; what was counted and learned stays."""
        if names := event.found(self.book.times()):
            self.book.rename(names)
            self.subjects = {one: who for one, who in self.subjects.items() if one not in names}
            self.apprentice.rename(names)
            self._early = {at: (cell, r, names.get(one, one)) for at, (cell, r, one) in self._early.items()}

    def _unchanged(self, event: e.Unchanged) -> list[Lesson]:
        return []

    def _told(self, event: e.Told) -> list[Lesson]:
        if self._trying:
            return []
        cell, reward, trials = event.cell, event.reward, event.trials
        lessons = self.fade(event.time)
        if trials is not None:
            self.rewards += trials
            return [*lessons, lambda policy: policy.tell(cell, reward, trials=trials)]
        lessons += self._tell(cell, reward, None, event.time)
        self._follow()
        self.history.record(cell, reward)
        return lessons

    def _level_added(self, event: e.LevelAdded) -> list[Lesson]:
        at = self.space.position(event.mode)
        level = None if event.like is None else self.space.level(event.mode, read(event.like))
        lessons, rewards = self.fade(event.time), event.rewards
        self.space.add_level(event.mode, read(event.label), event.features)

        def like(policy: Policy) -> None:
            start = warm_start.like(policy, at, level, rewards)
            policy.grow(at)
            if start is not None:
                policy.tell_ledger(start, pseudo=True)

        self.shape = tuple(size + (mode == at) for mode, size in enumerate(self.shape))
        self._follow()
        return [*lessons, like, *self._describe()]

    def _described(self, event: e.Described) -> list[Lesson]:
        given = None if event.features is None else [(read(label), values) for label, values in event.features]
        self.space.describe(event.mode, given, anew=event.anew)
        return self._describe()

    def _describe(self) -> list[Lesson]:
        """Have the policy know the features of the levels as they are now, of the modes where they are others."""
        now = self.space.features if self.policy.traits.featured else {}
        lessons: list[Lesson] = []
        for mode in dict.fromkeys([*self.told_features, *now]):
            if (new := now.get(mode)) is not self.told_features.get(mode):
                at, numbers = self.space.position(mode), None if new is None else new.numbers
                lessons.append(lambda policy, at=at, numbers=numbers: policy.describe(at, numbers))  # type: ignore[misc]
        self.told_features = now
        return lessons

    def _level_retired(self, event: e.LevelRetired) -> list[Lesson]:
        self.space.retire_level(event.mode, read(event.label))
        return []

    def _level_restored(self, event: e.LevelRestored) -> list[Lesson]:
        self.space.restore_level(event.mode, read(event.label))
        return []

    def _see(self, numbers: c.Numbers) -> None:
        """Keep the numbers of a request that regions are still to be learned from, if it lacks none."""
        learning = {self.space.position(mode): one for mode, one in self.space.regions.items() if one.learning}
        for at, values in numbers:
            if at in learning and None not in values:
                known = self.seen.setdefault(at, [])
                if len(known) < (learning[at].requests or 0):
                    known.append([float(x) for x in values if x is not None])

    def regions_due(self) -> list[str]:
        """Return the modes of numbers whose requests are enough to learn regions from."""
        if not self.seen:
            return []
        known = self.space.regions.items()
        return [mode for mode, one in known if len(self.seen.get(self.space.position(mode), ())) == one.requests]

    def _regions_learned(self, event: e.RegionsLearned) -> list[Lesson]:
        regions = self.space.regions[event.mode]
        partition = Partition.from_state(event.partition, len(regions.numbers))
        lessons, at = self.fade(event.time), self.space.position(event.mode)
        self.seen.pop(at, None)
        self.space.learn_regions(event.mode, partition)
        shares = partition.shares.tolist()
        more = self.space.shape[at] - self.shape[at]
        return [*lessons, self._parts(at, 0, [*shares, *[0.0] * (more - len(shares))])]

    def _region_split(self, event: e.RegionSplit) -> list[Lesson]:
        lessons, at = self.fade(event.time), self.space.position(event.mode)
        self.space.split_region(event.mode, event.region, event.at, event.of)
        return [*lessons, self._parts(at, self.space.level(event.mode, event.region), [0.5, 0.5])]

    def _parts(self, at: int, level: int, shares: list[float]) -> Lesson:
        """Return the lesson that levels were added to a mode which are parts of one, with shares of what was told."""
        features = self.space.regions[self.space.modes[at]].features

        def follow(policy: Policy) -> None:
            for share in shares:
                known = share > 0.0 and policy.traits.learns_from_logs
                start = warm_start.like(policy, at, level, None, share) if known else None
                policy.grow(at)
                if start is not None:
                    policy.tell_ledger(start, pseudo=True)
            if policy.traits.featured:
                policy.describe(at, features)

        self.shape = tuple(size + (mode == at) * len(shares) for mode, size in enumerate(self.shape))
        self._follow()
        return follow

    def _rule_changed(self, event: e.RuleChanged) -> list[Lesson]:
        change_rule(self.space, read_rule(event.rule), add=event.add)
        return []

    def _changed(self, event: e.Changed) -> list[Lesson]:
        lessons = self.fade(event.time)  # by the half-life of before
        new = changed(self.space, self.policy, self.settings, event.settings)
        self.settings, self.shares, self.book.window, self.book.default, half_life = new
        if "half_life" in event.settings:
            self.fading.change(half_life, self.told, event.time)
        if not self._ends_all:
            self.apprentice.count_all()
        self.changes += 1
        return lessons

    def _imported(self, event: e.Imported) -> list[Lesson]:
        lessons, ledger = self.fade(event.time), event.ledger
        added = {mode: list(map(read, labels)) for mode, labels in event.added.items()}
        warm_start.add_levels(self.space, added, event.features, event.retired)
        lessons += self.grow()
        self.rewards += ledger.rounds
        return [*lessons, lambda policy: policy.tell_ledger(ledger)]

    def _deleted(self, event: e.Deleted) -> list[Lesson]:
        self.closed = True
        return []

    def _skipped(self, event: e.Skipped) -> list[Lesson]:
        return []

    # What follows from rewards, time and levels.

    @property
    def _ends_all(self) -> bool:
        """Whether every decision gets a reward in the end: a default one, when its window ends."""
        return self.book.window is not None and self.book.default is not None

    def grow(self) -> list[Lesson]:
        """Have the policy follow modes of the space that gained levels or features."""
        lessons: list[Lesson] = []
        for mode, (now, before) in enumerate(zip(self.space.shape, self.shape, strict=True)):
            if now > before:
                lessons.append(lambda policy, mode=mode, more=now - before: policy.grow(mode, more))  # type: ignore[misc]
                one = self.space.regions.get(self.space.modes[mode])
                if one is not None and self.policy.traits.featured:
                    new = one.features
                    lessons.append(lambda policy, mode=mode, new=new: policy.describe(mode, new))  # type: ignore[misc]
        self.shape = self.space.shape
        self._follow()
        return lessons + self._describe()

    def fade(self, time: float, *, more: int = 0) -> list[Lesson]:
        """Let what was told so far fade as is due at a time, if so many more rewards are told."""
        factor = self.fading.step(self.told + more, time)
        return [lambda policy: policy.fade(factor)] if factor < 1.0 else []

    def _learn_reward(self, number: str, before: Record, reward: float, time: float) -> list[Lesson]:
        """Count the reward of a decision in the place of the one before, and tell the policy."""
        old = before.reward
        if (mark := self._mark(before)) >= 0:
            self.timeline.reward(mark, before.cell, old, reward, side=before.side)
            self.comparison.reward(before.order, before.group, old, reward)
        if reward == old:
            return self._settle()
        cell, note, lessons = before.cell, before.note, self.fade(time)
        if old is not None:
            weight = self.fading.weight(before.era)
            lessons.append(lambda policy: policy.correct(cell, old, reward, note, weight=weight, known=True))
            if before.order in self._early:
                self._early[before.order] = cell, reward, number
            else:
                self._follow()
                self.history.replace(before.number, cell, old, reward)
            return lessons + self._settle()
        lessons += self._tell(cell, reward, note, time)
        if before.order:
            self.book.mark(number, 0, self.fading.era)
            self._early[before.order] = cell, reward, number
            heapq.heappush(self._orders, before.order)
        else:
            self._follow()
            self.book.mark(number, self.history.record(cell, reward), self.fading.era)
        return lessons + self._settle()

    def _tell(self, cell: Cell, reward: float, note: Any, time: float) -> list[Lesson]:
        lessons = self.fade(time, more=1)
        self.told += 1
        self.rewards += 1
        return [*lessons, lambda policy: policy.tell(cell, reward, note)]

    def _settle(self) -> list[Lesson]:
        """Let the history have the rewards before which none is missing.

        It takes them in the order of decisions: what earned something is told sooner than what earned nothing, and
        would look as if the world had changed.
        """
        if self._orders:
            self._follow()
            settled = self.book.settled()
            while self._orders and self._orders[0] <= settled:
                cell, reward, number = self._early.pop(heapq.heappop(self._orders))
                told = self.history.record(cell, reward)
                if (record := self.book.get(number)) is not None:
                    self.book.mark(number, told, record.era)
        return []

    def _follow(self) -> None:
        if self.history.shape != self.shape:
            self.history.grow(self.shape)

    def revert(self, number: str, before: Record, reward: float) -> None:
        """Take back the reward of a decision that the policy refused, as its past was changed by other hands."""
        self.book.revert(number, before)
        if (mark := self._mark(before)) >= 0:
            self.timeline.reward(mark, before.cell, reward, before.reward, side=before.side)
            self.comparison.reward(before.order, before.group, reward, before.reward)
        if before.reward is not None:
            self.history.replace(before.number, before.cell, reward, before.reward)

    # Saving and making again.

    def frozen(self) -> Callable[[], dict[str, Any]]:
        """Return what makes the state into plain data; it may be called later, and elsewhere."""
        self._follow()
        book, space = self.book.copy(), self.space.state()
        orders = sorted(self._orders)
        rows = [self._early[order] for order in orders]
        rest = {
            "window": None if book.window is None else list(book.window),
            **{name: getattr(book, name) for name in ("default", "adds", "capacity", "remember")},
            "timeline": self.timeline.state(),
            "comparison": self.comparison.state(),
            "unmarked": self._unmarked,
            "shares": self.shares.state(),
            "holdout": self.shares.holdout,
            "rollout": self.shares.rollout,
            "paused": self.shares.paused,
            "teller": {
                "fading": self.fading.state(),
                "history": self.history.state(),
                "told": self.told,
                "early": {
                    "places": np.array(orders, dtype=np.int64),
                    "cells": np.array([cell for cell, _, _ in rows], dtype=np.int64).reshape(-1, len(self.shape)),
                    "rewards": np.array([reward for _, reward, _ in rows], dtype=np.float64),
                    "ids": [number for _, _, number in rows],
                },
            },
        }
        log: dict[str, Any] = {
            "chain": self.chain,
            "seq": self.seq,
            "moment": self.moment,
            "decisions": self.decisions,
            "settings": dict(self.settings),
        }
        log |= {"apprentice": self.apprentice.state(), "rewards": self.rewards, "changes": self.changes}
        log |= {
            "adopted": self.adopted,
            "forgotten": [[made, *one] for made, some in self.forgotten.items() for one in some],
        }
        if self.seen:
            rest["seen"] = {str(at): [list(row) for row in known] for at, known in self.seen.items()}
        log |= {"actors": self.actors.state(), "changelog": self.changelog.state(), "subjects": dict(self.subjects)}
        return lambda: {"space": space, "book": book.state(), **rest, **log}

    def _restore_counts(self, state: Mapping[str, Any]) -> None:
        """Take back the counts of a state: timeline, history, and what a log has folded so far."""
        line = state.get("timeline", state["book"].get("timeline"))  # it was a part of the book at first
        if line is not None:
            self.timeline.restore(line, self.space.shape)
        unmarked = self.book.rounds - self.timeline.count
        self._unmarked = check_count(state.get("unmarked", unmarked), "decisions without a timeline", 0)
        if any(record.order > self.book.rounds for record in self.book.records()):
            raise ValueError("a decision is counted in no block of the timeline; give what state returned, whole")
        if (teller := state.get("teller")) is not None:  # which was not there at first
            self._restore_told(teller)
        if "seq" in state:
            self.seq, self.moment, self.decisions = state["seq"], state["moment"], state["decisions"]
            self.settings, self.changes = dict(state["settings"]), state.get("changes", 0)
            self.chain = state.get("chain")
            self.adopted = check_count(state.get("adopted", 0), "adopted", 0)
            for made, digest, salt in state.get("forgotten", ()):
                self.forgotten.setdefault(made, []).append((digest, salt))
        if "changelog" in state:  # which was not there at first
            self.actors = Actors.from_state(state["actors"])
            self.changelog = ChangeLog.from_state(state["changelog"])
            self.subjects = {str(one): str(who) for one, who in state["subjects"].items()}
        else:
            self.changelog = ChangeLog(self.seq)
        if "apprentice" in state:
            self.apprentice = Apprentice.restored(state["apprentice"], self._cell_of)
        for at, known in state.get("seen", {}).items():
            numbers = len(self.space.regions[self.space.modes[int(at)]].numbers)
            self.seen[int(at)] = check_array(known, "numbers that were seen", (len(known), numbers)).tolist()
        self.rewards = float(state.get("rewards", self.policy.ledger.received))
        if (known := state.get("comparison")) is not None:
            self.comparison = SideSums.restored(known)
        else:
            self._compare_past()

    def _cell_of(self, number: str) -> Cell | None:
        record = self.book.get(number)
        return None if record is None else record.cell

    def _compare_past(self) -> None:
        """Compare what a state of before comparisons has: what its timeline counts, if shares were never changed.

        What a caller's own rule played was counted as the holdout's then.
        """
        beside = self.shares.rollout is not None or self.apprentice.count > 0
        if beside and not self.shares.holdout:
            self.timeline.give(HOLDOUT, CALLER)
            self.book.give(HOLDOUT, CALLER)
        sums = np.zeros((3, 5))
        sums[:, [DECISIONS, REWARDS, TOTAL, SQUARES]] = self.timeline.totals.sum(axis=0)
        sums[:, EVENTS] = sums[:, TOTAL if getattr(self.policy, "reward", None) in RATES else REWARDS]
        same = not self.changes and not beside
        groups = self.comparison.seed(sums, self.shares.chances if same else None)
        if self.timeline.count:
            self.timeline.epochs = [(0, *(self.shares.chances if same else (-1.0, 0.0)))]
        self.book.compare(groups)

    def _restore_told(self, state: Mapping[str, Any]) -> None:
        self.fading = Fading.from_state(state["fading"])
        self.history = History.from_state(state["history"], self.shape, conversions=self.history.conversions)
        self.told = check_count(state.get("told", self.history.told), "told", 0)
        if (early := state.get("early")) is None:  # which was not there at first
            return
        places = check_array(early["places"], "places", (len(early["places"]),), integers=True).tolist()
        cells = check_cells(early["cells"], self.shape).tolist()
        rewards = check_array(early["rewards"], "rewards", (len(places),)).tolist()
        ids = early["ids"] if "ids" in early else self.book.by_order(places)
        for place, cell, reward, number in zip(places, cells, rewards, ids, strict=True):
            self._early[place] = tuple(cell), reward, str(number)
        self._orders = sorted(places)


def restored(state: Mapping[str, Any], policy: Policy, time: float) -> State:
    """Return the state that :meth:`State.frozen` made into plain data, over a policy that has learned as much."""
    space = Space.from_state(state["space"])
    if policy.shape != space.shape or policy.context != space.context:
        raise ValueError(f"the policy has shape {policy.shape}, the space {space.shape}; give a whole state")
    book = Book(
        window=Span.written(state["window"]),
        default=None if state["default"] is None else policy.check_reward(state["default"]),
        adds=bool(state["adds"]),
        capacity=state["capacity"],
        remember=state["remember"],
    ).restore(state["book"], space.shape)
    usual = 0.0 if (state.get("settings") or {}).get("apprentice") else None
    beside, paused = state.get("rollout", usual), state.get("paused", False)
    shares = Shares.from_state(state["shares"], state["holdout"], space, beside, paused)
    fading = ((state.get("teller") or {}).get("fading") or {}).get("half_life")
    known = described(
        space, shares, book.window, book.default, Span.written(fading)
    )  # unless it has settings of its own
    made = State(space, policy, book=book, shares=shares, fading=Fading(None, time), settings=known)
    made._restore_counts(state)
    return made


_PLANS: dict[type, Callable[[State, Any, float], list[e.BanditEvent]]] = {
    c.Decide: State._plan_decide,
    c.Tell: State._plan_tell,
    c.TellCell: State._plan_tell_cell,
    c.Activate: State._plan_activate,
    c.Cancel: State._plan_cancel,
    c.Adopt: State._plan_adopt,
    c.Expire: State._plan_expire,
    c.Forget: State._plan_forget,
    c.AddLevel: State._plan_add_level,
    c.Describe: State._plan_describe,
    c.RetireLevel: State._plan_retire,
    c.RestoreLevel: State._plan_restore,
    c.LearnRegions: State._plan_learn_regions,
    c.SplitRegion: State._plan_split,
    c.ChangeRule: State._plan_rule,
    c.ChangeSettings: State._plan_settings,
    c.Import: State._plan_import,
}
_APPLIES: dict[type, Callable[[State, Any], list[Lesson]]] = {
    e.Created: State._created,
    e.Decided: State._decided,
    e.Activated: State._activated,
    e.Cancelled: State._cancelled,
    e.Rewarded: State._rewarded,
    e.Amended: State._rewarded,
    e.TimedOut: State._timed_out,
    e.Unchanged: State._unchanged,
    e.Forgotten: State._forgotten,
    e.Told: State._told,
    e.LevelAdded: State._level_added,
    e.Described: State._described,
    e.LevelRetired: State._level_retired,
    e.LevelRestored: State._level_restored,
    e.RegionsLearned: State._regions_learned,
    e.RegionSplit: State._region_split,
    e.RuleChanged: State._rule_changed,
    e.Changed: State._changed,
    e.Imported: State._imported,
    e.Deleted: State._deleted,
    e.Skipped: State._skipped,
}

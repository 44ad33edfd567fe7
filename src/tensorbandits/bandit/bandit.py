"""What an application holds: named combinations, decisions with ids, feedback as it comes, all in one file.

A :class:`Bandit` owns a state, a learner and the snapshot that decisions are drawn from (its :class:`Core`). Labels
become cells here, and cells labels. ``docs/explanation/architecture.md`` has the picture.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tensorbandits.bandit import commands
from tensorbandits.bandit.asking import Asking
from tensorbandits.bandit.book import INACTIVE, OPEN
from tensorbandits.bandit.changes import check_reason
from tensorbandits.bandit.copies import Copies
from tensorbandits.bandit.core import Core
from tensorbandits.bandit.decision import Decision, number_of
from tensorbandits.bandit.looking import Looking
from tensorbandits.bandit.making import Part, new_state
from tensorbandits.bandit.running import Learning, check_learning
from tensorbandits.bandit.settings import written_setting
from tensorbandits.bandit.sharing import PublishCount
from tensorbandits.bandit.telling import Telling
from tensorbandits.bandit.visitors import salt_of
from tensorbandits.base import html
from tensorbandits.base.checks import check_count, check_flag, check_seed
from tensorbandits.space import Space
from tensorbandits.space.labels import Label

_SALT = 0xBA4D17


class Bandit(Asking, Telling, Looking, Copies):
    """Decides among named combinations, and learns from rewards that come late, twice, changed, or never.

    Parameters
    ----------
    space : modes, levels, their features and rules. Rules may change at any time, levels be added and retired, and
        features change (:meth:`describe`). Features are for ``"thompson"``, which learns how much they say.
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
    paused : whether the baseline decides for now, or, of an apprentice, your rule; what it earns is learned from all
        the same. :meth:`change` pauses a bandit and lets it go on.
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
        paused: bool = False,
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
        self._clock, self.learning = clock, check_learning(learning)
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
            paused=paused,
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
        self._published = PublishCount.new()
        self._rng = np.random.default_rng([checked, _SALT] if isinstance(checked, int) else checked)
        state.comparison.salt = salt_of(self._rng)

    # Settings, and levels that come and go.

    def change(self, *, actor: str | None = None, **settings: Any) -> None:
        """Change holdout, baseline, floors, ceilings, window, default, half_life, apprentice, rollout or paused.

        They mean what they do where a bandit is made, from now on; ``None`` takes one away. Decisions that were made
        keep the window that they began with. ``change(paused=True)`` has the baseline decide, until
        ``change(paused=False)``. ``actor`` is who does it, for :meth:`changes`.
        """
        given = {name: written_setting(name, value) for name, value in settings.items()}
        self._do(commands.ChangeSettings(given), actor)

    def add_level(
        self,
        mode: str,
        label: Label,
        *,
        like: Label | None = None,
        rewards: float | None = None,
        features: Any = None,
        actor: str | None = None,
    ) -> None:
        """Give a mode another level; what was learned of the others stays, and the new one starts from the prior.

        Or it starts ``like`` another level: as if so many of that one's ``rewards`` had been its own, spread over cells
        as those are, or all of them if they are fewer. The policy's ledger counts these too. As many rewards of its own
        outweigh them, and they fade as all do. By default they say as much as 30 normal rewards: as 30, or, of rare
        clicks at rate r, as 3 / r.

        If the mode has ``features``, the level's values by name say what it resembles: it starts from what was learned
        of them. What is not given is missing.

        >>> offers = {"a": {"price": 5}, "b": {"price": 7}, "c": {"price": 9}}
        >>> bandit = Bandit(Space({"offer": list(offers)}, features={"offer": offers}), seed=0)
        >>> bandit.add_level("offer", "summer", features={"price": 6.5})
        >>> bandit.space.features["offer"].rows[-1]
        {'price': 6.5}
        """
        self._do(commands.AddLevel(mode, label, like, rewards, features), actor)

    def describe(self, mode: str, features: Any, *, anew: bool = False, actor: str | None = None) -> None:
        """Say what levels of a mode are like, from now on; what was told stays, and is learned over where it must.

        The arguments are those of :meth:`Space.describe <tensorbandits.Space.describe>`. With ``anew`` it is learned
        from all rewards what the new features say; else what was learned of the columns stays.
        """
        self._do(commands.Describe(mode, features, anew), actor)

    def retire_level(self, mode: str, label: Label, *, actor: str | None = None) -> None:
        """Choose a level no more; rewards of decisions that have it are still taken."""
        self._do(commands.RetireLevel(mode, label), actor)

    def restore_level(self, mode: str, label: Label, *, actor: str | None = None) -> None:
        """Choose a retired level again, with all that was learned of it."""
        self._do(commands.RestoreLevel(mode, label), actor)

    def split_region(
        self,
        mode: str,
        region: str,
        at: float | None = None,
        *,
        number: str | None = None,
        actor: str | None = None,
    ) -> None:
        """Split a region of a mode of numbers in two, at its middle unless a value of a ``number`` is given.

        Nothing is forgotten: each part starts like the region, with half of what was told of it, and at most as much as
        :meth:`add_level` has by default. The region stays as a retired level that has its own rewards, and those that
        are late. Rules that name it are those of its parts too.

        >>> from tensorbandits import Numeric
        >>> space = Space({"age": Numeric(cuts=[18, 35, 65]), "offer": ["a", "b"]}, context=["age"])
        >>> bandit = Bandit(space, rank=1, seed=0)
        >>> bandit.split_region("age", "age 18 to 35", 25)
        >>> bandit.ask(age=31.5).context
        {'age': 'age 25 to 35'}
        """
        self._do(commands.SplitRegion(mode, region, at, number), actor)

    def forget(
        self,
        *,
        decision: str | Decision | None = None,
        subject: str | None = None,
        why: str,
        dry_run: bool = False,
        actor: str | None = None,
    ) -> dict[str, Any]:
        """Remove a person's data: of one decision, or of all that were made for a ``subject``; return how many.

        The decisions get ids that mean nothing, and those that wait are cancelled. What was counted and learned stays,
        and files that were saved before are as they were. ``why`` and ``actor`` are for :meth:`changes`: do not name
        the person. With ``dry_run`` nothing is removed. Doing it again changes nothing.

        >>> bandit = Bandit(Space({"offer": ["a", "b"]}), "ucb")
        >>> bandit.tell(bandit.ask(subject="customer-17"), 1)
        >>> bandit.forget(subject="customer-17", why="they asked us to")
        {'decisions': 1, 'cancelled': 0, 'dry_run': False}
        >>> bandit.policy.ledger.rounds
        1.0
        """
        if (decision is None) == (subject is None):
            raise TypeError("give either a decision or a subject, whose decisions are all meant")
        reason, state = check_reason(why), self._core.state
        self._do(None)
        with self._core.lock:
            numbers = [number_of(decision)] if decision is not None else state.of_subject(str(subject))
            found = [(number, record) for number in numbers if (record := state.book.get(number)) is not None]
        waiting = sum(record.state in (INACTIVE, OPEN) for _, record in found)
        if found and not dry_run:
            named = [(number, f"forgotten-{os.urandom(8).hex()}", record.time) for number, record in found]
            self._do(commands.Forget(named, os.urandom(16).hex(), reason), actor)
        return {"decisions": len(found), "cancelled": waiting, "dry_run": bool(dry_run)}

    def __repr__(self) -> str:
        return f"Bandit({self.space}, {self.policy}; {self.waiting:,} decisions wait)"

    def _repr_html_(self) -> str:
        state = self._core.state
        words = f"{state.decisions:,} decisions, {state.rewards:,.0f} rewards, {self.waiting:,} wait for theirs"
        return html.block("Bandit", self.space._repr_html_(), words=[words, str(self.policy)])

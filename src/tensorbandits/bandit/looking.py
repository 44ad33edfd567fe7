"""Looking at a bandit: what is believed best, what was learned, decided and earned, and what has moved."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorbandits.bandit import commands, figures
from tensorbandits.bandit.apprentice import Judged
from tensorbandits.bandit.beliefs import Beliefs
from tensorbandits.bandit.changes import chosen, described
from tensorbandits.bandit.commands import Ask
from tensorbandits.bandit.intervals import Looks, check_looks
from tensorbandits.bandit.reporting import began, form_of, gather, write
from tensorbandits.bandit.running import Running
from tensorbandits.bandit.timeline import Timeline
from tensorbandits.bandit.uplift import Uplift
from tensorbandits.base.checks import check_probability
from tensorbandits.base.frames import Backend, check_backend
from tensorbandits.space.labels import Label

if TYPE_CHECKING:
    from tensorbandits.bandit.checkup import Checkup


class Looking(Running):
    """Shows what was learned, by name; :class:`~tensorbandits.Bandit` has these methods."""

    def best(
        self,
        context: Mapping[str, Label | None] | None = None,
        /,
        *,
        allowed: Mapping[str, Sequence[Label]] | None = None,
        **labels: Label | None,
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

    def explain(
        self,
        context: Mapping[str, Label | None] | None = None,
        /,
        *,
        level: float = 0.9,
        arms: int = 10,
        backend: Backend | None = None,
        **labels: Label | None,
    ) -> Beliefs:
        """Return what is believed: main effects, interactions, factors, levels that are alike, best arms; as frames.

        The best ``arms``, so many, are those of the context whose labels are given, or else of every context. ``level``
        is the probability that a number lies between its two bounds. ``backend`` is the library of the frames:
        ``"pandas"``, ``"polars"`` or ``"pyarrow"``. For policies that sample a low-rank tensor.
        """
        given = self.space.given(context, **labels) if context or labels else None
        check_backend(backend)
        self._do(None)
        return self._core.explain(given, level=level, arms=arms).in_frames_of(backend)

    def history(self, mode: str | None = None, *, backend: Backend | None = None) -> Any:
        """Return decisions and rewards over time as a data frame, the holdout's apart; of each level if given a mode.

        One row per block of equally many decisions, of which there are at most 100: older ones are merged as time goes
        on. A reward counts in the block of its decision. Decisions that were cancelled, or not shown, do not count, and
        neither do rewards that were told without a decision. ``backend`` is ``"pandas"``, ``"polars"`` or
        ``"pyarrow"``; by default the first of these that is installed.
        """
        check_backend(backend)
        self._do(None)
        return self._core.history(mode, backend)

    def changes(
        self,
        *,
        kinds: Sequence[str] = (),
        actor: str | None = None,
        since: float | None = None,
        until: float | None = None,
    ) -> list[dict[str, Any]]:
        """Return what was changed, apart from decisions and rewards, newest first: who, when, what, before and after.

        ``kinds`` are those of events: ``"Changed"`` (settings), ``"LevelAdded"``, ``"LevelRetired"``,
        ``"LevelRestored"``, ``"Imported"``; of a service's bandit also ``"Created"`` and ``"RuleChanged"``. Times are
        seconds of the clock. Rules that are made on ``bandit.space`` itself are not among them.

        >>> from tensorbandits import Bandit, Space
        >>> bandit = Bandit(Space({"offer": ["a", "b"]}), "ucb")
        >>> bandit.change(holdout=0.1, actor="Ann")
        >>> [(one["actor"], one["words"]) for one in bandit.changes()]
        [('Ann', 'holdout: from 0.0 to 0.1')]
        """
        self._do(None)
        with self._core.lock:
            rows = self._core.state.changelog.rows()
        found = chosen(rows, kinds=kinds, actor=actor, since=since, until=until)
        return [described(row) for row in reversed(found)]

    def uplift(self, *, over: str | None = None, level: float = 0.95, intervals: Looks = "anytime") -> Uplift:
        """Return how much more the bandit's decisions earn than the holdout's, or than those of your own rule.

        Both are drawn at random, so the difference is what the bandit makes. Its interval is valid however often one
        looks, or, with ``intervals="fixed"``, at one time that was fixed beforehand. ``over`` is ``"holdout"`` or
        ``"caller"`` (your rule); by default whichever the bandit is compared with now.

        >>> from tensorbandits import Bandit, Space
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

    def report(self, path: str | PathLike[str], *, since: Any = "7d", name: str = "bandit") -> Path:
        """Write a report for people who were not there, as one HTML or Markdown file; return its path.

        It says what was earned, with uplift and its interval, what was learned, what moved, which levels are
        interchangeable, and what to do next, ``since`` a duration before now, a date, or ``None`` for the start. It
        takes seconds. ``name`` is the bandit's in the title.

        >>> import tempfile
        >>> from tensorbandits import Bandit, Space
        >>> bandit = Bandit(Space({"offer": ["a", "b"]}), reward="bernoulli", seed=0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     written = bandit.report(f"{folder}/week.md")
        ...     print(written.read_text().splitlines()[0])
        # bandit: what it earned and learned
        """
        form_of(path)  # before any work
        begin = began(since, self._now())
        self._do(None)
        return write(gather(self._core, name=name, begin=begin, now=self._now()), path)

    def timeline(self) -> Timeline:
        """Return a copy of what :meth:`history` is made from, by position of the mode and index of the level."""
        self._do(None)
        return self._core.timeline()

    def plot(self, kind: str, *, path: str | PathLike[str] | None = None, **options: Any) -> Any:
        """Return a matplotlib figure, and write it if a path is given, whose suffix says PNG, SVG or PDF.

        Kinds, and their options:

        - ``"effects"``: main effects with intervals (``modes``, ``level``)
        - ``"interactions"``: what modes have alone, and two of them beyond that (``level``)
        - ``"features"``: how much of what levels differ by their features explain (``level``)
        - ``"factors"``: coordinates of the levels of a ``mode``, and which are alike
        - ``"arms"``: best arms with intervals (``context``, ``count``, ``level``)
        - ``"estimate"``, ``"uncertainty"``: heat maps of two ``modes``, the others at ``fixed`` labels or averaged
        - ``"traffic"``: share of the levels of a ``mode`` over time (``against="time"``, or decisions)
        - ``"reward"``: over time, beside that of the holdout (``against``)
        """
        self._core.current()
        view = figures.View(copy.deepcopy(self.space), self.policy, self.explain, self.timeline)
        return figures.draw(view, kind, path, options)

"""Asking a bandit: decisions by name, whether they were shown, and those that were not carried out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tensorbandits.bandit import commands
from tensorbandits.bandit.book import check_id
from tensorbandits.bandit.commands import Ask, Drawn
from tensorbandits.bandit.decision import Advice, Decision, DecisionList, number_of
from tensorbandits.bandit.events import Decided
from tensorbandits.bandit.rows import each_row, label_rows, one_each
from tensorbandits.bandit.running import Running
from tensorbandits.bandit.snapshot import refuse_propensity
from tensorbandits.bandit.visitors import place_of
from tensorbandits.base.checks import Cell, check_flag
from tensorbandits.space.labels import Label


class Asking(Running):
    """Decides by name; :class:`~tensorbandits.Bandit` has these methods."""

    def ask(
        self,
        context: Mapping[str, Label | None] | None = None,
        /,
        *,
        allowed: Mapping[str, Sequence[Label]] | None = None,
        activate: bool = True,
        id: str | None = None,
        played: Mapping[str, Label] | None = None,
        propensity: float | None = None,
        subject: str | None = None,
        **labels: Label | None,
    ) -> Decision:
        """Decide, given the labels of the context modes: as keywords, or as a mapping.

        ``allowed`` lists labels that may be chosen, by mode. With ``activate=False`` the decision waits for nothing
        until :meth:`activate` says that it was shown. ``id`` is an id of yours that no other decision has; a mode of
        that name, or of that of another argument, is given in a mapping. An apprentice is told which arm your own rule
        plays, ``played``, and with which ``propensity`` if the rule has chance in it; the decision says what to play.
        ``subject`` is whom it is for, by an id of yours: who decides is drawn once for each of them, and not anew for
        each decision, and :meth:`~tensorbandits.Bandit.forget` finds what is theirs.
        """
        person = _subject(subject)
        shown = check_flag(activate, "activate")
        ask = self._request(self.space.given(context, **labels), self._chosen(allowed), played, propensity)
        ask = ask._replace(numbers=self.space.numbers_to_learn(context, **labels))
        now = self._begin()
        if id is not None:
            self._core.state.book.refuse_taken(id)
        ask = self._placed(ask, person)
        event = self._answer(ask, id, shown, now)
        self._note(event, person)
        self._learn_regions()
        return self._named(event)

    def ask_many(
        self,
        contexts: Any,
        *,
        allowed: Mapping[str, Sequence[Label]] | None = None,
        activate: bool = True,
        ids: Iterable[str] | None = None,
        played: Any = None,
        propensities: Iterable[float | None] | None = None,
        subjects: Iterable[str | None] | None = None,
    ) -> DecisionList:
        """Decide for many contexts, in their order, as asking one by one would; or, if one is refused, for none.

        Parameters
        ----------
        contexts : a data frame of pandas, polars or pyarrow with a column for each context mode, others of which are
            left alone; or a list with a mapping of labels for each; without context modes also their number.
        allowed, activate : as for :meth:`ask`, of all of them.
        ids, propensities, subjects : one for each context.
        played : of an apprentice, what your own rule plays: a data frame, or a list of mappings.

        All rows are checked before the first decision is made, and an error names the first that is refused. If it is
        refused later all the same, as another thread forbids just now what was left, those made so far are cancelled.

        >>> from tensorbandits import Bandit, Space
        >>> import pyarrow as pa
        >>> space = Space({"segment": ["new", "old"], "offer": ["a", "b"]}, ["segment"])
        >>> bandit = Bandit(space, reward="bernoulli", seed=0)
        >>> decisions = bandit.ask_many(pa.table({"user": [17, 4, 9], "segment": ["old", "new", "old"]}))
        >>> [decision.context["segment"] for decision in decisions]
        ['old', 'new', 'old']
        >>> decisions.to_frame(backend="pyarrow").column_names
        ['id', 'segment', 'offer', 'propensity', 'by', 'time']
        """
        shown, chosen = check_flag(activate, "activate"), self._chosen(allowed)
        decided = [mode for at, mode in enumerate(self.space.modes) if at not in self.space.context]
        rows = label_rows(contexts, self.space.requested, "contexts")
        numbers = one_each("ids", ids, len(rows))
        arms = one_each("played", None if played is None else label_rows(played, decided, "played"), len(rows))
        shares = one_each("propensities", propensities, len(rows))
        people = each_row(_subject, one_each("subjects", subjects, len(rows)))
        asks = each_row(lambda row, *own: self._request(self.space.given(row), chosen, *own), rows, arms, shares)
        if any(one.learning for one in self.space.regions.values()):
            numbers_of = self.space.numbers_to_learn
            asks = [ask._replace(numbers=numbers_of(row)) for ask, row in zip(asks, rows, strict=True)]
        now = self._begin()
        self._refuse_ids(numbers)
        if asks:
            self._learn()
        self._refuse(asks)
        made: list[Decided] = []
        try:
            for ask, number, person in zip(asks, numbers, people, strict=True):
                made.append(self._answer(self._placed(ask, person), number, shown, now, learned=not made))
        except Exception:
            for event in made:
                self._do(commands.Cancel(event.id))
            raise
        for event, person in zip(made, people, strict=True):
            self._note(event, person)
        self._learn_regions()
        return DecisionList(map(self._named, made))

    def _placed(self, ask: Ask, person: str | None) -> Ask:
        """Return a request with the place of the visitor that it is for."""
        salt = self._core.state.comparison.salt
        return ask if person is None else ask._replace(place=place_of(person, salt))

    def _note(self, event: Decided, person: str | None) -> None:
        """Keep whom a decision is for."""
        if person is not None:
            with self._core.lock:
                self._core.state.note_subject(event.id, person)

    def _learn_regions(self) -> None:
        """Learn the regions of modes of numbers once enough requests have brought some."""
        for mode in self._core.state.regions_due():
            self._do(commands.LearnRegions(mode))

    def _begin(self) -> float:
        """Let what was told fade if that is due, and return the time."""
        now = self._now()
        if self._core.state.fading.due(now):
            self._do(None)
        return now

    def _chosen(self, allowed: Mapping[str, Sequence[Label]] | None) -> Any:
        return () if allowed is None else commands.chosen(self.space.allowed(allowed))

    def _request(self, given: Cell, chosen: Any, played: Mapping[str, Label] | None, propensity: float | None) -> Ask:
        """Return a request in levels, checked."""
        cell = None if played is None else self.space.cell({**self._context(given), **played})
        refuse_propensity(propensity, alone=played is None)
        return Ask(given, chosen, played=cell, propensity=propensity)

    def _refuse(self, asks: Sequence[Ask]) -> None:
        """Refuse requests that could not be decided; of those that are alike the first is looked at."""
        snapshot, fine = self._core.current(), set[Ask]()

        def could(ask: Ask) -> None:
            if ask not in fine:
                snapshot.refuse(ask)
                fine.add(ask)

        each_row(could, asks)

    def _refuse_ids(self, ids: Sequence[str | None]) -> None:
        """Refuse ids that decisions have already, or of which one is given twice."""
        taken: set[str] = set()

        def free(number: str | None) -> None:
            if number is not None and self._core.state.book.refuse_taken(number) in taken:
                raise ValueError(f"the id {number!r} is given twice; give each decision its own, or none")
            taken.add(str(number))

        each_row(free, ids)

    def _answer(self, ask: Ask, id: str | None, shown: bool, now: float, *, learned: bool = False) -> Decided:
        """Draw a decision for a request and enter it, from new draws unless they were made for it already."""
        if not learned:
            self._learn()
        event = None
        while event is None:  # but for levels and rules that change just now, once
            event = self._entered(self._core.decide(ask, self._rng), id, shown, now, ask.numbers)
        return event

    def _entered(
        self, drawn: Drawn, id: str | None, shown: bool, now: float, numbers: commands.Numbers
    ) -> Decided | None:
        """Enter a decision and close those whose window has ended; ``None`` if it was drawn by rules of before."""
        core = self._core
        with core.lock:
            state = core.state
            if drawn.version != state.version:
                return None
            number = state.book.ids.issue(state.book) if id is None else id
            [event] = state.plan(commands.Decide(drawn, number, shown, numbers), now)
            core.apply([event])
            core.expire(now)
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
        self._do(commands.Activate(number_of(decision)))

    def cancel(self, decision: str | Decision) -> None:
        """Say that a decision was not carried out: it takes no reward, and none is told of it."""
        self._do(commands.Cancel(number_of(decision)))


def _subject(given: Any) -> str | None:
    return None if given is None else check_id(given, "subject")

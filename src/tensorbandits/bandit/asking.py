"""Asking a bandit: decisions by name, whether they were shown, and those that were not carried out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorbandits.bandit import commands
from tensorbandits.bandit.commands import Ask, Drawn
from tensorbandits.bandit.decision import Advice, Decision, number_of
from tensorbandits.bandit.events import Decided
from tensorbandits.bandit.running import Running
from tensorbandits.bandit.snapshot import refuse_propensity
from tensorbandits.base.checks import check_flag
from tensorbandits.space.labels import Label


class Asking(Running):
    """Decides by name; :class:`~tensorbandits.Bandit` has these methods."""

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
        self._do(commands.Activate(number_of(decision)))

    def cancel(self, decision: str | Decision) -> None:
        """Say that a decision was not carried out: it takes no reward, and none is told of it."""
        self._do(commands.Cancel(number_of(decision)))

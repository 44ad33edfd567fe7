"""What a request would do to a bandit, as events: planned first, so that nothing is changed before the log has them."""

from __future__ import annotations

import base64
import copy
from collections.abc import Mapping
from typing import Any, NamedTuple

from tensorbandits.bandit import warm_start
from tensorbandits.bandit.bandit import Bandit
from tensorbandits.bandit.law import Drawn
from tensorbandits.base import codec
from tensorbandits.base.checks import Cell
from tensorbandits.ledger import Ledger
from tensorbandits.service.engine.apprentice import Shadow
from tensorbandits.service.engine.making import Settings, changed, written_rule
from tensorbandits.space import Space
from tensorbandits.space.labels import written
from tensorbandits.store import New


class Drawing(NamedTuple):
    """What was drawn for a request, of which version of the space, and what an apprentice would have played."""

    drawn: Drawn
    version: int
    shadow: Shadow | None = None


class Planner(Bandit):
    """A bandit that says what requests would do, and does nothing of it."""

    settings: Settings

    def decided(self, number: str, drawing: Drawing, *, time: float, active: bool, key: str | None) -> New:
        """Return the event of a decision."""
        drawn, shadow = drawing.drawn, drawing.shadow
        body: dict[str, Any] = {"cell": list(drawn.cell), "p": drawn.propensity, "by": drawn.by}
        if not active:
            body["active"] = False
        if shadow is not None:
            body["would"] = shadow.written()
        return New("Decided", time, body, number, key)

    def issue(self) -> str:
        """Return an id that no decision has had."""
        with self._lock:
            return self._book.issue()

    def knows(self, number: str) -> bool:
        """Say whether a decision with this id is kept in memory."""
        return number in self._book

    def plan_tell(self, number: str, reward: Any, *, amend: bool, add: bool, time: float, key: str | None) -> list[New]:
        """Return what telling a reward does: one event, or none if it was told that already."""
        with self._lock:
            value = self._book.plan(number, reward, amend=amend, add=add, check=self.policy.check_reward)
            if value is None:
                return []
            kind = "Rewarded" if self._book.reward(number) is None else "Amended"
            return [New(kind, time, {"reward": value}, number, key)]

    def plan_told(self, cell: Cell, reward: Any, trials: Any, *, time: float, key: str | None) -> list[New]:
        """Return what telling a reward without a decision does."""
        body: dict[str, Any] = {"cell": list(cell)}
        if trials is None:
            body["reward"] = self.policy.check_reward(reward)
        else:
            probe = Ledger(self.policy.shape)
            probe.add([cell], [reward], [trials])
            self.policy.check_ledger(probe)
            body |= {"reward": float(reward), "trials": int(trials)}
        return [New("Told", time, body, None, key)]

    def plan_activate(self, number: str, *, time: float, key: str | None) -> list[New]:
        """Return what showing a decision does."""
        with self._lock:
            return [New("Activated", time, {}, number, key)] if self._book.awaits_showing(number) else []

    def plan_cancel(self, number: str, *, time: float, key: str | None) -> list[New]:
        """Return what cancelling a decision does."""
        with self._lock:
            return [New("Cancelled", time, {}, number, key)] if self._book.may_cancel(number) else []

    def plan_expire(self, *, time: float) -> list[New]:
        """Return the events of decisions whose window has ended, and of those that are too many."""
        with self._lock:
            ended, dropped = self._book.overdue(time=time)
            reward = self._book.default
        events = [New("TimedOut", time, {"reward": reward}, number) for number in ended]
        return events + [New("Cancelled", time, {}, number) for number in dropped]

    def plan_level(
        self, what: str, mode: Any, label: Any, *, like: Any = None, rewards: Any = None, time: float, key: str | None
    ) -> list[New]:
        """Return the event of a level that is added, retired or restored; refuse what cannot be."""
        with self._lock:
            trial = Space.from_state(self.space.state())
            before, at = trial.version, trial.position(mode)
            body: dict[str, Any] = {"mode": mode, "label": written(label)}
            if what == "LevelAdded":
                trial.add_level(mode, label)
                level = None if like is None else self.space.level(mode, like)
                warm_start.like(self.policy, at, level, rewards)
                copy.deepcopy(self.policy).grow(at)  # which refuses where the policy cannot follow
                body |= {} if like is None else {"like": written(like), "rewards": rewards}
            elif what == "LevelRetired":
                trial.retire_level(mode, label)
            else:
                trial.restore_level(mode, label)
        return [] if trial.version == before else [New(what, time, body, None, key)]

    def plan_rule(self, rule: Mapping[str, Any], *, add: bool, time: float, key: str | None) -> list[New]:
        """Return the event of a rule that is made or taken back."""
        with self._lock:
            trial = Space.from_state(self.space.state())
            before = trial.version
            change_rule(trial, rule, add=add)
        if trial.version == before:
            return []
        return [New("RuleChanged", time, {"rule": written_rule(rule), "add": add}, None, key)]

    def plan_change(self, given: Mapping[str, Any], *, time: float, key: str | None) -> list[New]:
        """Return the event of other settings."""
        changed(self.space, self.policy, self.settings, given)
        return [New("Changed", time, {"settings": dict(given)}, None, key)]

    def plan_import(
        self, past: warm_start.Past, how: Mapping[str, Any], *, time: float, key: str | None
    ) -> tuple[list[New], warm_start.WarmStart]:
        """Return the event of a log that is told, and what is to be said of it."""
        with self._lock:
            ledger, start = warm_start.plan(self.space, self.policy, past, **how)
        body = {
            "ledger": base64.b64encode(codec.pack("ledger", 1, ledger.state())).decode(),
            "added": {mode: [written(label) for label in labels] for mode, labels in start.added.items()},
            "rows": start.rows,
        }
        return [New("Imported", time, body, None, key)], start


def change_rule(space: Space, rule: Mapping[str, Any], *, add: bool) -> None:
    """Make a rule, or take it back."""
    if len(rule) != 1 or not set(rule) <= {"forbid", "allow"}:
        raise ValueError(f"the rule is {dict(rule)!r}; give either 'forbid' or 'allow', with labels by mode")
    ((what, labels),) = rule.items()
    if not add:
        space.remove_rule(rule)
    elif what == "forbid":
        space.forbid(labels)
    else:
        space.allow(labels)

"""What a change, or a new bandit, would do: planned as it will be, and nothing done.

Whoever steers a bandit sees it before: what of its settings becomes what, who would decide how often, and which share
of combinations could be chosen. What cannot be is refused in the same words as the change itself would be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tensorbandits.bandit import commands
from tensorbandits.bandit.core import Core
from tensorbandits.bandit.settings import change_rule, changed, labels_of, pairs_of, read_rule
from tensorbandits.bandit.shares import Shares
from tensorbandits.service.page.views.parts import USUAL_RATE, needed
from tensorbandits.space import Space

KINDS = (
    *("settings", "add_level", "describe", "retire_level", "restore_level", "split_region", "add_rule"),
    "remove_rule",
)
_LEVELS: dict[str, type[Any]] = {"retire_level": commands.RetireLevel, "restore_level": commands.RestoreLevel}


def change(core: Core, kind: str, given: Mapping[str, Any], time: float) -> dict[str, Any]:
    """Return what a change would do to a bandit; raise for one that cannot be.

    ``settings`` has those that would be others, ``decides`` by whom decisions are made, ``space`` what could be chosen;
    each before and after.
    """
    command = _command(kind, given)
    with core.lock:
        state = core.state
        planned = state.plan(command, time)
        space, shares, settings = state.space.copy(), state.shares, dict(state.settings)
    if isinstance(command, commands.ChangeSettings):
        new = changed(space, core.policy, settings, command.given)
        after, rows = new.shares, _differences(settings, new.settings, given)
        spaces = [_space(space)] * 2
    else:
        before = _space(space)
        _enter(space, command)
        after, rows, spaces = shares, [], [before, _space(space)]
    differs = bool(rows) if kind == "settings" else bool(planned)
    found = {"kind": kind, "changes": differs, "settings": rows}
    pairs = {"decides": (_decides(shares), _decides(after)), "space": spaces}
    return {**found, **{name: {"before": one, "after": other} for name, (one, other) in pairs.items()}}


def _command(kind: str, given: Mapping[str, Any]) -> commands.Command:
    if kind == "settings":
        return commands.ChangeSettings(given)
    if kind in ("add_rule", "remove_rule"):
        return commands.ChangeRule(read_rule(given), kind == "add_rule")
    if kind == "split_region":
        return commands.SplitRegion(given["mode"], given["region"], given.get("at"), given.get("number"))
    if kind == "describe":
        return commands.Describe(given["mode"], pairs_of(given["levels"]), given.get("anew", False))
    mode, label = given["mode"], labels_of(given["label"])
    if kind == "add_level":
        like = None if given.get("like") is None else labels_of(given["like"])
        return commands.AddLevel(mode, label, like, given.get("rewards"), given.get("features"))
    made: commands.Command = _LEVELS[kind](mode, label)
    return made


def _enter(space: Space, command: commands.Command) -> None:
    """Do to a copy of a space what a command does."""
    if isinstance(command, commands.ChangeRule):
        change_rule(space, command.rule, add=command.add)
    elif isinstance(command, commands.AddLevel):
        space.add_level(command.mode, command.label, command.features)
    elif isinstance(command, commands.SplitRegion):
        space.split_region(command.mode, command.region, command.at, command.number)
    elif isinstance(command, commands.RetireLevel):
        space.retire_level(command.mode, command.label)
    elif isinstance(command, commands.RestoreLevel) and command.label in space.retired.get(command.mode, ()):
        space.restore_level(command.mode, command.label)


def _differences(before: Mapping[str, Any], after: Mapping[str, Any], given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The settings that would be others; what was never set is ``None``."""
    rows = [{"name": name, "before": before.get(name), "after": after.get(name)} for name in {**given, **before}]
    return [row for row in rows if row["before"] != row["after"]]


def _decides(shares: Shares) -> dict[str, float]:
    """Which share of decisions the policy, the baseline and the caller's rule make."""
    policy, holdout = shares.chances
    return {"policy": policy, "holdout": holdout, "caller": max(round(1.0 - policy - holdout, 12), 0.0)}


def _space(space: Space) -> dict[str, Any]:
    """How many combinations there are, and which share of them may be chosen."""
    return {"combinations": math.prod(space.shape), "allowed": 1.0 - space.forbidden_share()}


def new(core: Core, rate: float | None) -> dict[str, Any]:
    """Return what a bandit would be like that was made and is not kept.

    ``rate`` is the share of decisions that earn something, for clicks, conversions and counts.
    """
    space, kind = core.space, getattr(core.policy, "reward", None) or "gaussian"
    return {
        "modes": [
            {"mode": mode, "levels": len(space.levels[at]), "context": at in space.context}
            for at, mode in enumerate(space.modes)
        ],
        "arms": math.prod(len(labels) for at, labels in enumerate(space.levels) if at not in space.context),
        "contexts": math.prod(len(space.levels[at]) for at in space.context),
        **_space(space),
        "decides": _decides(core.state.shares),
        "rewards": needed(space, kind, rate),
        "rate": None if kind == "gaussian" else USUAL_RATE if rate is None else rate,
        "policy": type(core.policy).__name__,
        "kind": kind,
    }

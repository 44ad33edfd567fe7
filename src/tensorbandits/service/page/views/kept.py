"""Views of what a server keeps beside a bandit: settings, events, open decisions, an apprentice's sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tensorbandits.bandit.actors import Actors
from tensorbandits.bandit.apprentice import Estimated
from tensorbandits.bandit.changes import label_words, rule_words, setting_words
from tensorbandits.bandit.core import Core
from tensorbandits.bandit.events import mark_of
from tensorbandits.bandit.intervals import Looks
from tensorbandits.policies import registry
from tensorbandits.policies.approximate import as_sampling
from tensorbandits.service.page.views import past
from tensorbandits.service.page.views.parts import retired
from tensorbandits.space import Space
from tensorbandits.space.labels import written
from tensorbandits.store import Event

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_EDGES = (  # of the bars of lags, in seconds
    *(0, 0.1, 0.3, 1, 3, 10, 30, _MINUTE, 3 * _MINUTE, 10 * _MINUTE, 30 * _MINUTE),
    *(_HOUR, 3 * _HOUR, 12 * _HOUR, _DAY, 3 * _DAY, 7 * _DAY),
)
_SETTINGS = ("holdout", "window", "default", "half_life", "apprentice", "rollout", "paused")
STEPS = (0.01, 0.05, 0.2, 0.5, 1.0)  # of a gradual start
_RECENT = 2_000  # decisions of which the model says what it would have played
_POSTERIOR = (0.025, 0.975)


def space(bandit: Core) -> dict[str, Any]:
    """Return the modes in order, with their levels by index, the rules in words, and how the bandit is set.

    ``example`` is a context as a request gives it.
    """
    kept, settings = bandit.space, bandit.state.settings
    return {
        "modes": [
            {
                "mode": mode,
                "context": at in kept.context,
                "levels": [str(label) for label in kept.levels[at]],
                "retired": sorted(retired(kept, at)),
            }
            for at, mode in enumerate(kept.modes)
        ],
        "rules": [rule_words(rule) for rule in kept.rules],
        "policy": registry.find(type(bandit.policy)).name,
        "kind": getattr(bandit.policy, "reward", None),
        "settings": {name: settings.get(name) for name in _SETTINGS},
        "example": {kept.modes[at]: written(kept.levels[at][0]) for at in kept.context},
        "version": ".".join(map(str, bandit.state.version)),
    }


def events(bandit: Core, tail: Sequence[Event], count: int) -> dict[str, Any]:
    """Return the newest events of a tail, so many, with the labels of their cells, or of decisions that it has."""
    cells = {one.decision: one.body["cell"] for one in tail if one.kind == "Decided"}
    found = [_event(bandit.state.actors, bandit.space, one, cells.get(one.decision)) for one in tail[:count]]
    return {"modes": list(bandit.space.modes), "events": found}


def decisions(bandit: Core, oldest: Sequence[Mapping[str, Any]], now: float) -> dict[str, Any]:
    """Return how many decisions wait, those that wait longest, and the lags of rewards.

    ``bars`` count the last rewards by how long they took, in seconds; ``window`` is how long a decision waits.
    """
    space, lags = bandit.space, list(bandit.state.lags)
    return {
        "waiting": bandit.waiting,
        "window": bandit.state.settings.get("window"),
        "modes": list(space.modes),
        "oldest": [
            {
                "id": one["id"],
                "time": one["time"],
                "age": max(now - one["time"], 0.0),
                "active": one["active"],
                "labels": _cell(space, one["cell"]),
            }
            for one in oldest
        ],
        "lag": past.lag(lags),
        "bars": [
            {"from": low, "to": high, "count": sum(low <= one < (high or float("inf")) for one in lags)}
            for low, high in zip(_EDGES, (*_EDGES[1:], None), strict=True)
        ],
    }


def deciders(bandit: Core, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the newest snapshot and its age, who decides from snapshots elsewhere, and how fast learning follows.

    ``known`` is what the server knows of that; decisions are counted by where they were made.
    """
    adopted = bandit.state.adopted
    return {**known, "decisions": {"here": bandit.state.decisions - adopted, "elsewhere": adopted}}


def apprentice(bandit: Core, now: float, looks: Looks) -> dict[str, Any]:
    """Return what the bandit would have earned, what the caller's rule did, and the difference, with 95 % intervals.

    ``support`` is the share of what it would have played that the rule plays too: without it there is no estimate
    (``mean``), and the interval is as wide as rewards can be. ``model`` is what the bandit believes of what it would
    have played of late. ``verdict`` is better, worse, open, unsupported or too few. ``uplift`` is that of a gradual
    start, where the bandit decides for a share of visitors, ``rollout``.
    """
    state = bandit.state
    rollout = state.shares.rollout
    with bandit.lock:
        found, wanted = state.apprentice.judged(past.kind_of(bandit), looks=looks), state.apprentice.wanted[:_RECENT]
    shown: dict[str, Any] = {"on": rollout is not None, "rollout": rollout, "kind": past.kind_of(bandit)}
    shown |= {"waiting": bandit.waiting, "intervals": looks, "count": found.count, "verdict": found.verdict}
    shown |= {"model": None, "support": None, "steps": list(STEPS), "uplift": past.uplift_shown(bandit, now, looks)}
    shown |= dict.fromkeys(("bandit", "rule", "difference"))
    if found.count:
        shown |= {name: getattr(found, name)._asdict() for name in ("bandit", "rule", "difference")}
        shown |= {"support": found.support, "bounded": found.bounded, "model": _believed(bandit, wanted, found.rule)}
    return shown


def _believed(bandit: Core, wanted: Sequence[Any], rule: Estimated) -> dict[str, float] | None:
    """What the bandit believes that it would earn more than the rule, with 95 % of its posterior between the bounds."""
    policy = as_sampling(bandit.policy)
    if policy is None or not wanted:
        return None
    cells, counts = np.unique(np.array(wanted), axis=0, return_counts=True)
    with bandit.known():
        means = policy.samples(cells) @ (counts / counts.sum())
    low, high = np.quantile(means, _POSTERIOR, method="weibull")
    mean, reach = float(means.mean()), rule.high - rule.mean  # what the rule earns is not sure either
    below, above = (float(np.hypot(one, reach)) for one in (mean - low, high - mean))
    difference = mean - rule.mean
    return {"mean": difference, "low": difference - below, "high": difference + above}


def _event(actors: Actors, space: Space, event: Event, decided: Sequence[int] | None) -> dict[str, Any]:
    body = event.body
    cell = body.get("cell", decided)
    return {
        **{name: getattr(event, name) for name in ("seq", "time", "kind", "decision")},
        "labels": None if cell is None else _cell(space, cell),
        "would": _cell(space, body["would"]["cell"]) if "would" in body else None,
        "reward": body.get("reward"),
        "by": body.get("by"),
        "propensity": body.get("p"),
        "actor": actors.read(mark_of(event.kind, body)),
        "words": _said(event.kind, body),
    }


def _said(kind: str, body: Mapping[str, Any]) -> str:
    """What an event says besides a cell and a reward."""
    if kind.startswith("Level"):
        return f"{body['mode']}: {label_words(body['label'])}"
    if kind == "RuleChanged":
        return ("" if body.get("add", True) else "taken back: ") + rule_words(body["rule"])
    if kind == "Changed":
        return ", ".join(f"{name} = {setting_words(value)}" for name, value in body["settings"].items())
    if kind == "Imported":
        return f"{body['rows']} rows" if body.get("rows") is not None else ""
    return ""


def _cell(space: Space, cell: Sequence[int]) -> list[str]:
    return [str(labels[level]) for labels, level in zip(space.levels, cell, strict=True)]

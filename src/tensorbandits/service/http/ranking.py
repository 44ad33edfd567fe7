"""From requests of the rank and reward interface to asks: actions become levels, context features become labels.

The bandit decides one mode, whose levels are the actions. A context mode takes the feature that has its name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tensorbandits.base.checks import nearest
from tensorbandits.service.engine import orders
from tensorbandits.service.engine.host import Host
from tensorbandits.service.engine.orders import Order
from tensorbandits.service.http.fingerprint import fingerprint
from tensorbandits.service.http.rank_schemas import RankBody
from tensorbandits.space import Space
from tensorbandits.space.labels import Label, written

OTHER = "other"  # the level of a context mode that stands for values which are missing or unknown


class Ranked(NamedTuple):
    """The order of a rank request, and how probable each action was once it was drawn."""

    order: Order
    chances: dict[str, float | None]
    ignored: dict[str, Any]


def rank_order(host: Host, body: RankBody, key: str | None) -> Ranked:
    """Return the order of a decision among actions, drawn now."""
    space, mode = host.core.space, decided_mode(host.core.space)
    labels = _by_text(space, mode)
    ids, excluded = [action.id for action in body.actions], set(body.excluded_actions or ())
    if len(set(ids)) < len(ids):
        twice = next(one for one in ids if ids.count(one) > 1)
        raise ValueError(f"actions has {twice!r} twice; name each once")
    offered = [one for one in ids if one not in excluded]
    if not offered:
        raise ValueError("all actions are excluded; leave one that may be chosen")
    if unknown := [one for one in offered if one not in labels]:
        raise ValueError(_unknown(mode, unknown[0], labels))
    context, ignored = context_of(space, body.context_features or ())
    request = host.request(
        context,
        {mode: [labels[one] for one in offered]},
        id=body.event_id,
        active=not body.defer_activation,
        played={mode: labels[offered[0]]} if host.core.state.shares.rollout is not None else None,
    )
    cells = [space.cell({**context, mode: labels[one]}) for one in offered]
    chances: dict[str, float | None] = {}

    def draw(ask: Any) -> Any:
        drawn, found = host.draw_among(ask, cells)
        known = drawn.propensity if host.core.state.shares.rollout is None else None
        chances.update(dict.fromkeys(ids, 0.0), **dict(zip(offered, found, strict=True)))
        if known is not None:
            chances[offered[cells.index(drawn.cell)]] = known
        return drawn

    mark = fingerprint("rank", body.meant()) if key is not None or request.id is not None else None
    said = {
        "contextFeatures": ignored,
        "actionFeatures": sum(len(action.features or ()) for action in body.actions),
    }
    return Ranked(orders.ask(host, request, key, mark, draw), chances, said)


def answer_of(host: Host, body: RankBody, ranked: Ranked, decision: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to a rank request, from the decision that was made or that is repeated.

    Of a repeated one only the probability of what was chosen was kept, and that of an apprentice's is another.
    """
    (label,) = decision["arm"].values()
    chosen = _text(label)
    fresh, apprentice = bool(ranked.order.events), host.core.state.shares.rollout is not None
    if fresh:
        chances: dict[str, float | None] = ranked.chances
    else:
        chances = dict.fromkeys([action.id for action in body.actions])
        chances[chosen] = None if apprentice else decision["propensity"]
    ranking = sorted(chances.items(), key=lambda pair: (pair[0] != chosen, -(pair[1] or 0.0)))
    return {
        "eventId": decision["id"],
        "rewardActionId": chosen,
        "ranking": [{"id": one, "probability": chance} for one, chance in ranking],
        "ignored": ranked.ignored,
    }


def new_levels(host: Host, body: RankBody) -> list[Order]:
    """Return the orders that make unknown actions levels, where the bandit's settings let requests do so."""
    most = host.core.state.settings.get("new_actions")
    if not most:
        return []
    space, mode = host.core.space, decided_mode(host.core.space)
    known = {*_by_text(space, mode), *(body.excluded_actions or ())}
    names = dict.fromkeys(action.id for action in body.actions)
    return [_new_level(host, mode, one, most) for one in names if one not in known]


def _new_level(host: Host, mode: str, label: str, most: int) -> Order:
    order = orders.level(host, "LevelAdded", {"mode": mode, "label": label})
    add = order.plan

    def plan(now: float) -> Any:
        known = _by_text(host.core.space, mode)
        if label in known:  # another request was quicker
            return []
        if len(known) >= most:
            raise ValueError(
                f"action {label!r} is new, but mode {mode!r} has {len(known)} levels already, and requests may bring "
                f"it to {most} (newActions); raise that, or leave the action out"
            )
        return add(now)

    order.plan = plan
    return order


def decided_mode(space: Space) -> str:
    """Return the one mode that is decided, whose levels are the actions."""
    names = [mode for at, mode in enumerate(space.modes) if at not in space.context]
    if len(names) != 1:
        raise ValueError(
            f"this bandit decides {' and '.join(names)}, but rank chooses one action, a level of one mode; ask it for "
            "the combination through the route ask, or make a bandit that decides one mode"
        )
    return names[0]


def context_of(space: Space, features: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Label], list[str]]:
    """Return the label of each context mode, or its numbers, and the names of features that were ignored.

    >>> space = Space({"device": ["phone", "other"], "age": [1, 2], "offer": ["a", "b"]}, ["device", "age"])
    >>> context_of(space, [{"user": {"age": 2, "plan": "free"}}, {"device": "watch"}])
    ({'device': 'other', 'age': 2}, ['user.plan'])
    """
    values = _flat(features)
    used: set[str] = set()
    context: dict[str, Any] = {}
    numbers = {name for one in space.regions.values() for name in one.numbers}
    for name in space.requested:
        paths = [name] if name in values else [path for path in values if path.rpartition(".")[2] == name]
        used.update(paths)
        found = {path: values[path] for path in paths}
        context[name] = _number(name, found) if name in numbers else _label(space, name, found)
    return context, [path for path in values if path not in used]


def _flat(features: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """All values of features by their names; those of nested ones are joined by dots."""
    found: dict[str, list[Any]] = {}
    left = [("", one) for one in reversed(features)]
    while left:
        path, value = left.pop()
        if isinstance(value, Mapping):
            left += [(f"{path}.{name}" if path else name, part) for name, part in reversed(list(value.items()))]
        elif value is not None:
            found.setdefault(path, []).append(value)
    return found


def _number(name: str, found: Mapping[str, list[Any]]) -> Any:
    """The value of a number, from the features that have its name; ``None`` if there are none."""
    values = [value for some in found.values() for value in some]
    if len(set(map(_text, values))) > 1:
        raise ValueError(
            f"contextFeatures has several values for the number {name!r}: {values[:5]}; send one, or name the number "
            f"after one of {list(found)}"
        )
    return values[0] if values else None


def _label(space: Space, mode: str, found: Mapping[str, list[Any]]) -> Label:
    """The label of a context mode, from the features that have its name."""
    values = [value for some in found.values() for value in some]
    texts = list(dict.fromkeys(_text(value) for value in values if not isinstance(value, list)))
    labels = _by_text(space, mode)
    if len(texts) > 1:
        raise ValueError(
            f"contextFeatures has several values for the context mode {mode!r}: {texts[:5]}; send one, or name "
            f"the mode after one of {list(found)}"
        )
    if texts and texts[0] in labels:
        return labels[texts[0]]
    if OTHER in labels:
        return labels[OTHER]
    remedy = f"or give the mode the level {OTHER!r}, which stands for what is missing or unknown"
    if not texts:
        lists = " (a list is no label)" if values else ""
        raise ValueError(f"contextFeatures has no feature named {mode!r}{lists}, a context mode; send it, {remedy}")
    hint = nearest(texts[0], labels) or f"levels are {list(labels)[:10]}"
    raise ValueError(f"the feature {mode!r} is {texts[0][:60]!r}, which is no level of that mode; {hint}, {remedy}")


def _by_text(space: Space, mode: str) -> dict[str, Label]:
    """The labels of a mode by what requests call them."""
    labels = space.levels[space.position(mode)]
    return {_text(written(label)): label for label in sorted(labels, key=lambda label: isinstance(label, str))}


def _text(value: Any) -> str:
    """A label, or a value of a feature, as text: 3 and 3.0 are "3", and true is "true".

    >>> _text(3.0), _text("3"), _text(True), _text({"date": "2026-02-28"})
    ('3', '3', 'true', '2026-02-28')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and len(value) == 1:  # a date or a time, as JSON holds it
        return str(next(iter(value.values())))
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value)


def _unknown(mode: str, action: str, labels: Mapping[str, Label]) -> str:
    hint = nearest(action, labels) or f"the levels are {list(labels)[:10]}"
    return (
        f"action {action[:60]!r} is no level of mode {mode!r}: {hint}; add the level first, or let requests do so: "
        "newActions of the configuration is how many there may be"
    )

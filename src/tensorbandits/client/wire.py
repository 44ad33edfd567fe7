"""Requests as JSON, and what the service answers as values of the library."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any
from urllib.parse import quote, urlencode

from tensorbandits.bandit.decision import Advice, Decision
from tensorbandits.bandit.settings import written_setting
from tensorbandits.base.checks import is_sequence
from tensorbandits.client.errors import ServerError
from tensorbandits.client.messages import HttpRequest
from tensorbandits.space import Numeric, Space
from tensorbandits.space.features import levels_of, values_of, written_values
from tensorbandits.space.labels import Label, key, plain, read, written

_NEEDED = {one.name for one in fields(Decision)}
_OWN = {  # settings of a bandit; all others are its policy's
    *("policy", "reward", "rank", "structure", "ring", "floors", "ceilings", "holdout", "baseline", "window"),
    *("default", "adds", "half_life", "capacity", "remember", "apprentice", "rollout", "paused"),
}


def new_key() -> str:
    """Return a text that nobody else has: the key of a write, or the id of a decision."""
    return uuid.uuid4().hex


def get(path: str, **query: Any) -> HttpRequest:
    """Return a request that changes nothing."""
    return HttpRequest("GET", _with(path, query))


def write(path: str, data: Any = None, *, method: str = "POST", key: str | None = None) -> HttpRequest:
    """Return a request that changes something, with its key."""
    body = None if data is None else to_json(data)
    return HttpRequest(method, path, body, key=key or new_key())


def post(path: str, data: Any) -> HttpRequest:
    """Return a request without a key: one that changes nothing, but says more than a path can hold."""
    return HttpRequest("POST", path, to_json(data))


def place(*parts: str) -> str:
    """Return a path of the service, whatever characters names have.

    >>> place("bandits", "spring/summer", "ask")
    '/v1/bandits/spring%2Fsummer/ask'
    """
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def _with(path: str, query: Mapping[str, Any]) -> str:
    given = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


def upload(path: str, body: bytes, **query: Any) -> HttpRequest:
    """Return a request that sends a Parquet file."""
    return HttpRequest("POST", _with(path, query), body, "application/vnd.apache.parquet", new_key())


def to_json(data: Any) -> bytes:
    """Return data as JSON, labels of every kind included."""
    try:
        return json.dumps(data, default=_plain, allow_nan=False).encode()
    except ValueError:
        raise ValueError(f"{data!r} has numbers that are not finite, which no request can hold") from None


def _plain(value: Any) -> Any:
    found = written(plain(value))
    if found is value:
        raise TypeError(f"{value!r}, of type {type(value).__name__}, cannot be sent; give text, numbers and the like")
    return found


def merged(labels: Mapping[str, Any] | None, named: Mapping[str, Any], *, numbers: bool = False) -> dict[str, Any]:
    """Return labels by mode, given as a mapping and as keywords, as JSON can hold them.

    With ``numbers`` they may be numbers, of which ``None`` and NaN say that one is not known.
    """
    if labels is not None and not isinstance(labels, Mapping):
        raise TypeError(f"labels is {labels!r}; give labels by mode: {{'offer': 'a'}}, or offer='a'")
    if twice := sorted(set(labels or {}) & set(named)):
        raise ValueError(f"mode {twice[0]!r} is given twice; give it once")
    given = {**(labels or {}), **named}
    if numbers:
        lacking = [name for name, one in given.items() if one is None or (isinstance(one, float) and one != one)]
        known = {name: label_or_list(name, one) for name, one in given.items() if name not in lacking}
        return known | dict.fromkeys(lacking)
    return {mode: label_or_list(mode, label) for mode, label in given.items()}


def label_or_list(mode: str, label: Any) -> Any:
    """Return a label as JSON can hold it, or a list of them."""
    return [label_or_list(mode, one) for one in label] if is_sequence(label) else one_label(mode, label)


def one_label(mode: str, label: Any) -> Any:
    """Return a label as JSON can hold it."""
    key(label, mode)  # which refuses what is no label
    return written(plain(label))


def listed(allowed: Mapping[str, Iterable[Label]] | None) -> dict[str, Any] | None:
    """Return the labels that may be chosen, by mode, as JSON can hold them."""
    if allowed is None:
        return None
    if not isinstance(allowed, Mapping):
        raise TypeError(f"allowed is {allowed!r}; give the labels that may be chosen by mode: {{'offer': ['a', 'b']}}")
    for mode, labels in allowed.items():
        if isinstance(labels, (str, bytes, set, frozenset, Mapping)) or not isinstance(labels, Iterable):
            raise TypeError(f"the levels of mode {mode!r} are {labels!r}; give a list of labels")
    return {mode: [label_or_list(mode, label) for label in labels] for mode, labels in allowed.items()}


def unwritten(labels: Mapping[str, Any]) -> dict[str, Any]:
    """Return labels by mode, or lists of them, as they were before JSON held them.

    >>> unwritten({"day": {"date": "2024-02-29"}, "offer": ["a", "b"]})
    {'day': datetime.date(2024, 2, 29), 'offer': ['a', 'b']}
    """
    return {
        mode: [read(one) for one in label] if isinstance(label, list) else read(label) for mode, label in labels.items()
    }


def decision(data: Any) -> Decision:
    """Return the decision of an answer.

    What later releases of the service say beyond what this one's decisions have is left out.
    """
    if not isinstance(data, Mapping) or not set(data) >= _NEEDED:
        raise ServerError(f"{data!r} is no decision; check that the address is that of a tensorbandits service")
    known: dict[str, Any] = {
        name: unwritten(data[name]) if name in ("arm", "context") else data[name] for name in _NEEDED
    }
    return Decision(**known) if data.get("would") is None else Advice(**known, would=unwritten(data["would"]))


def create(name: str, space: Space, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body that makes a bandit."""
    given = dict(settings)
    own = {name: written_setting(name, given.pop(name)) for name in sorted(_OWN & set(given))}
    levels = dict(zip(space.modes, space.levels, strict=True))
    said = {
        mode: described(mode, list(zip(levels[mode], one.rows, strict=True))) for mode, one in space.features.items()
    }
    return {
        "name": name,
        "modes": {
            mode: Numeric.of(space.regions[mode]).written()
            if mode in space.regions
            else [label_or_list(mode, label) for label in labels]
            for mode, labels in levels.items()
        },
        "context": [space.modes[mode] for mode in space.context],
        "rules": [rule_body(rule) for rule in space.rules if not _of_before(space, rule)],
        **({"features": said} if said else {}),
        **own,
        **({"settings": given} if given else {}),
    }


def _of_before(space: Space, rule: Mapping[str, Mapping[str, Any]]) -> bool:
    """Say whether a rule is of the region for all numbers that there was before regions were learned."""
    ((_, labels),) = rule.items()
    return any(one.first and labels.get(mode) == one.labels[0] for mode, one in space.regions.items())


def values(mode: str, features: Any) -> dict[str, Any]:
    """Return the features of one level as JSON can hold them."""
    return written_values(values_of(features, mode))


def described(mode: str, features: Any) -> list[dict[str, Any]]:
    """Return the features of some levels as JSON can hold them."""
    pairs = levels_of(features, mode)
    return [{"label": one_label(mode, label), "features": written_values(one)} for label, one in pairs]


def rule_body(rule: Any) -> dict[str, Any]:
    """Return a rule, as ``space.rules`` lists it, as the service takes it."""
    if not isinstance(rule, Mapping) or len(rule) != 1 or set(rule) - {"forbid", "allow"}:
        raise ValueError(f"{rule!r} is no rule; give one as rules lists it, such as {{'forbid': {{'offer': 'a'}}}}")
    ((kind, labels),) = rule.items()
    return {kind: merged(labels, {})}

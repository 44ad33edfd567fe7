"""Fingerprints of requests: a short hash that two requests with the same Idempotency-Key must have in common."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def fingerprint(route: str, given: Mapping[str, Any]) -> str:
    """Return a hash of a route's name and of what the caller gave it, as plain data.

    The order of fields, and whether a whole number is written as 1 or 1.0, make no difference. Give it what
    :meth:`schemas.Body.meant` returns, so that fields which have their defaults, or are null, make none either.

    >>> fingerprint("tell", {"id": "a", "reward": 1}) == fingerprint("tell", {"reward": 1.0, "id": "a"})
    True
    >>> fingerprint("tell", {"id": "a", "reward": 1}) == fingerprint("tell", {"id": "a", "reward": True})
    False
    """
    return blake2b(_encode([route, _plain(given)]).encode(), digest_size=8).hexdigest()


def _plain(value: Any) -> Any:
    """The same for all ways to write a value."""
    if type(value) is str:  # nearly all are
        return value
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value

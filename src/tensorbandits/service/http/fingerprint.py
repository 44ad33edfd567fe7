"""Fingerprints of requests: a short hash that two requests with the same Idempotency-Key must have in common."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

_quoted = json.encoder.encode_basestring_ascii


def fingerprint(route: str, given: Mapping[str, Any]) -> str:
    """Return a hash of a route's name and of what the caller gave it, as plain data.

    The order of fields, and whether a whole number is written as 1 or 1.0, make no difference. Give it what
    :meth:`schemas.Body.meant` returns, so that fields which have their defaults, or are null, make none either.

    >>> fingerprint("tell", {"id": "a", "reward": 1}) == fingerprint("tell", {"reward": 1.0, "id": "a"})
    True
    >>> fingerprint("tell", {"id": "a", "reward": 1}) == fingerprint("tell", {"id": "a", "reward": True})
    False
    """
    return blake2b(f"[{_quoted(route)},{_json(given)}]".encode(), digest_size=8).hexdigest()


def _json(value: Any) -> str:
    """Return the JSON of a value with sorted fields, the same for all ways to write it."""
    if type(value) is str:  # nearly all are
        return _quoted(value)
    if isinstance(value, Mapping):
        return "{" + ",".join([f"{_quoted(name)}:{_json(value[name])}" for name in sorted(value)]) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join([_json(one) for one in value]) + "]"
    return json.dumps(int(value) if isinstance(value, float) and value.is_integer() else value)

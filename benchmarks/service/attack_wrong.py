"""Requests that a service must refuse, and must not suffer from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from benchmarks.service.attack_tenants import KINDS

if TYPE_CHECKING:
    from benchmarks.service.attack_clients import Client

_REFUSED = range(400, 500)
_HUGE = 0.02  # the share of wrong requests that are some megabytes long


def send(client: Client) -> None:
    """Send one wrong request, which must be refused."""
    rng, tenant = client.rng, client.tenant
    if rng.random() < _HUGE:
        _huge(client)
        return
    what, route, body, borrowed = rng.choice(_all(client))
    path = route if route.startswith("/") else tenant.path(route)
    key = client.fresh("wrong-") if rng.random() < 0.5 else None
    client.send(f"wrong: {what}", "POST", path, body, key=key, expects=_REFUSED, borrowed=borrowed)


def _huge(client: Client) -> None:
    """Send one label very often, or a very long list of requests."""
    modes = client.tenant.modes
    context = {"segment": modes["segment"][0]}
    count = client.rng.choice([20_000, 400_000])
    body = {"context": context, "allowed": {"offer": [modes["offer"][0]] * count}}
    if client.tenant.kind == "apprentice":
        body = {"requests": [{"context": context}] * (count // 10)}  # below what a body may have
    one = client.send("huge", "POST", client.tenant.path("ask"), body)
    one.body = {"context": context}  # the rest is not worth keeping


def _all(client: Client) -> list[tuple[str, str, Any, bool]]:
    """Return what can be wrong: a name, a route, a body, and whether it holds values of others."""
    rng, tenant = client.rng, client.tenant
    context = {"segment": rng.choice(tenant.modes["segment"])}
    number = rng.choice(tenant.decisions) if tenant.decisions else "none"
    ask, tell = json.dumps({"context": context}), json.dumps({"id": number, "reward": 1})
    other = rng.choice([kind for kind in KINDS if kind != tenant.kind])
    arm = {"offer": tenant.modes["offer"][0], "channel": tenant.modes["channel"][0]}
    unreal = ("NaN", "Infinity", "-Infinity", "1e999", '"1"', "null", "[1]", "{}", "true")
    wrong: list[tuple[str, str, Any, bool]] = [
        ("no JSON", "ask", ask[:-3].encode(), False),
        ("no UTF-8", "ask", ask.encode().replace(b"segment", b"\xff\xfe", 1), False),
        ("deep JSON", "ask", b'{"context": ' + b"[" * 5_000 + b"]" * 5_000 + b"}", False),
        ("no object", "ask", rng.choice([b"[]", b"1", b'"a"', b"null", b""]), False),
        ("no context", "ask", {"played": arm} if tenant.kind == "apprentice" else {}, False),
        ("unknown label", "ask", {"context": {"segment": "nobody"}}, False),
        ("unknown mode", "ask", {"context": {**context, "moon": "full"}}, False),
        ("unknown field", "ask", {"context": context, "alowed": {}}, False),
        ("nothing allowed", "ask", {"context": context, "allowed": {"offer": []}}, False),
        ("unknown allowed", "ask", {"context": context, "allowed": {"offer": ["nobody"]}}, False),
        ("half a character", "ask", ask[:-1].encode() + b', "id": "a\\ud800"}', False),
        ("a zero character", "ask", ask[:-1].encode() + b', "id": "a\\u0000b"}', False),
        ("a long id", "ask", {"context": context, "id": "x" * 201}, False),
        ("no probability", "ask", {"context": context, "played": arm, "propensity": rng.choice([0, -1, 1.1])}, False),
        ("an unreal probability", "ask", ask[:-1].encode() + b', "propensity": 1e309}', False),
        ("too many", "ask-many", {"requests": [{"context": context}] * 1_001}, False),
        ("one of many", "ask-many", {"requests": [{"context": context}, {"context": {}}]}, False),
        ("an unreal reward", "tell", tell.replace("1}", f"{rng.choice(unreal)}}}").encode(), False),
        ("id and arm", "tell", {"id": number, "arm": arm, "context": context, "reward": 1}, False),
        ("no decision", "tell", {"id": client.fresh("nobody-"), "reward": 1}, False),
        ("no trials", "tell", {"arm": arm, "context": context, "reward": 1, "trials": rng.choice([0, 2**54])}, False),
        ("no decision", rng.choice(["activate", "cancel"]), {"id": client.fresh("nobody-")}, False),
        ("another's bandit", f"/v1/bandits/{other}-bandit/ask", {"context": context}, True),
        ("no right", "levels", {"mode": "offer", "label": "more"}, False),
        ("no right", "fold", {}, False),
    ]  # fmt: skip
    return wrong

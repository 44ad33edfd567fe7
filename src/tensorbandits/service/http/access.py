"""Routes and roles: which API keys may use which route, and for which bandits. Data and pure functions.

The app names its routes by this table, so that a route which is missing here is refused; the tests try every cell of
it, and the documentation prints it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

DECIDE, READ, ADMIN = ROLES = ("decide", "read", "admin")

_ALL = frozenset(ROLES)
_DECIDE, _READ, _ADMIN = frozenset((DECIDE, ADMIN)), frozenset((READ, ADMIN)), frozenset((ADMIN,))
_NOBODY_ASKED: frozenset[str] = frozenset()


class Access(NamedTuple):
    """A route: its method, its path, and the roles that may use it; none if no key is needed.

    ``limited`` says whether a key that is limited to some bandits may use it at all; where the path names a bandit,
    only for those.
    """

    method: str
    path: str
    roles: frozenset[str]
    limited: bool = True


_ONE = "/v1/bandits/{name}"
_RANK = f"{_ONE}/personalizer/v1.0"  # what client libraries of that service add to the address that they are given

ACCESS: dict[str, Access] = {
    "page": Access("GET", "/", _NOBODY_ASKED),
    "docs": Access("GET", "/docs", _NOBODY_ASKED),
    "static": Access("GET", "/static/{file}", _NOBODY_ASKED),
    "healthz": Access("GET", "/healthz", _NOBODY_ASKED),
    "readyz": Access("GET", "/readyz", _NOBODY_ASKED),
    "openapi": Access("GET", "/openapi.json", _NOBODY_ASKED),
    "metrics": Access("GET", "/metrics", _READ, limited=False),  # which name every bandit
    "me": Access("GET", "/v1/me", _ALL),
    "list_bandits": Access("GET", "/v1/bandits", _ALL),  # the answer holds only those that the key may see
    "create_bandit": Access("POST", "/v1/bandits", _ADMIN, limited=False),
    "overviews": Access("GET", "/v1/overviews", _READ),  # and so does this one
    "preview_bandit": Access("POST", "/v1/preview", _ADMIN, limited=False),
    "get_bandit": Access("GET", _ONE, _ALL),
    "preview_change": Access("POST", f"{_ONE}/preview", _ADMIN),
    "change_bandit": Access("PATCH", _ONE, _ADMIN),
    "delete_bandit": Access("DELETE", _ONE, _ADMIN),
    "ask": Access("POST", f"{_ONE}/ask", _DECIDE),
    "ask_many": Access("POST", f"{_ONE}/ask-many", _DECIDE),
    "tell": Access("POST", f"{_ONE}/tell", _DECIDE),
    "tell_many": Access("POST", f"{_ONE}/tell-many", _DECIDE),
    "activate": Access("POST", f"{_ONE}/activate", _DECIDE),
    "cancel": Access("POST", f"{_ONE}/cancel", _DECIDE),
    "adopt": Access("POST", f"{_ONE}/decisions", _DECIDE),
    "get_decision": Access("GET", f"{_ONE}/decisions/{{id:path}}", _ALL),
    "rank": Access("POST", f"{_RANK}/rank", _DECIDE),
    "rank_reward": Access("POST", f"{_RANK}/events/{{id}}/reward", _DECIDE),
    "rank_activate": Access("POST", f"{_RANK}/events/{{id}}/activate", _DECIDE),
    "rank_configuration": Access("GET", f"{_RANK}/configurations/service", _ALL),
    "change_rank_configuration": Access("PUT", f"{_RANK}/configurations/service", _ADMIN),
    "best": Access("POST", f"{_ONE}/best", _ALL),
    "explain": Access("POST", f"{_ONE}/explain", _READ),
    "diagnose": Access("POST", f"{_ONE}/diagnose", _READ),
    "snapshot": Access("GET", f"{_ONE}/snapshot", _ALL),
    "add_level": Access("POST", f"{_ONE}/levels", _ADMIN),
    "retire_level": Access("POST", f"{_ONE}/levels/retire", _ADMIN),
    "restore_level": Access("POST", f"{_ONE}/levels/restore", _ADMIN),
    "split_region": Access("POST", f"{_ONE}/regions/split", _ADMIN),
    "get_features": Access("GET", f"{_ONE}/features", _READ),
    "export_features": Access("GET", f"{_ONE}/features/export", _READ),
    "describe_levels": Access("POST", f"{_ONE}/features", _ADMIN),
    "import_features": Access("POST", f"{_ONE}/features/import", _ADMIN),
    "add_rule": Access("POST", f"{_ONE}/rules", _ADMIN),
    "remove_rule": Access("POST", f"{_ONE}/rules/remove", _ADMIN),
    "history": Access("GET", f"{_ONE}/history", _READ),
    "report": Access("GET", f"{_ONE}/report", _READ),
    "list_events": Access("GET", f"{_ONE}/events", _READ),
    "list_changes": Access("GET", f"{_ONE}/changes", _READ),
    "export_changes": Access("GET", f"{_ONE}/changes/export", _READ),
    "stream": Access("GET", f"{_ONE}/stream", _READ),
    "export": Access("GET", f"{_ONE}/export", _READ),
    "import_log": Access("POST", f"{_ONE}/import", _ADMIN),
    "fold": Access("POST", f"{_ONE}/fold", _ADMIN),
    "forget": Access("POST", f"{_ONE}/forget", _ADMIN),
    "view": Access("GET", f"{_ONE}/view/{{what}}", _READ),
    "list_keys": Access("GET", "/v1/keys", _ADMIN, limited=False),
    "create_key": Access("POST", "/v1/keys", _ADMIN, limited=False),
    "revoke_key": Access("DELETE", "/v1/keys/{id}", _ADMIN, limited=False),
}


@dataclass(frozen=True, slots=True)
class Grant:
    """What a caller may do: the role, the bandits it is limited to (``None`` for all), and the key's id and name."""

    role: str
    bandits: frozenset[str] | None = None
    id: str = ""
    name: str = ""

    def sees(self, bandit: str) -> bool:
        """Say whether this bandit exists for the caller."""
        return self.bandits is None or bandit in self.bandits


EVERYBODY = Grant(ADMIN, name="everybody")  # while there are no keys


def may(grant: Grant | None, what: str, bandit: str | None = None) -> bool:
    """Say whether a caller may use a route, for a bandit where the route names one; no grant is a caller without key.

    >>> may(Grant("decide"), "ask", "shop"), may(Grant("read"), "ask", "shop"), may(None, "healthz")
    (True, False, True)
    >>> may(Grant("admin", frozenset({"shop"})), "fold", "news"), may(Grant("admin"), "no such route")
    (False, False)
    """
    access = ACCESS.get(what)
    if access is None:
        return False
    if not access.roles:
        return True
    if grant is None or grant.role not in access.roles:
        return False
    if grant.bandits is None:
        return True
    return access.limited and (bandit in grant.bandits if "{name}" in access.path else bandit is None)


def _pattern(path: str) -> re.Pattern[str]:
    """The paths that a template stands for; ``{id:path}`` takes slashes too."""
    return re.compile(re.sub(r"\{\w+\}", "[^/]+", re.sub(r"\{\w+:path\}", ".+", path)))


_PATHS = [(access.method, _pattern(access.path), name) for name, access in ACCESS.items()]


def route_name(method: str, path: str) -> str | None:
    """Return the name of the route that a request would have come to, if it was refused before.

    >>> route_name("POST", "/v1/bandits/shop/ask"), route_name("GET", "/elsewhere")
    ('ask', None)
    """
    return next((name for verb, pattern, name in _PATHS if verb == method and pattern.fullmatch(path)), None)


def methods(path: str) -> list[str]:
    """Return the methods that a path has; none if it is the path of no route.

    >>> methods("/v1/bandits/shop"), methods("/v1/bandits/shop/ask"), methods("/elsewhere")
    (['DELETE', 'GET', 'HEAD', 'PATCH'], ['POST'], [])
    """
    found = {verb for verb, pattern, _ in _PATHS if pattern.fullmatch(path)}
    return sorted(found | {"HEAD"} if "GET" in found else found)


def table() -> list[tuple[str, str, str]]:
    """Return the table for people: method and path, the roles, and whether a key limited to some bandits will do.

    >>> table()[-1]
    ('DELETE /v1/keys/{id}', 'admin', 'no')
    """
    rows = []
    for access in ACCESS.values():
        roles = ", ".join(role for role in ROLES if role in access.roles) or "no key needed"
        limited = "" if not access.roles else "for its bandits" if access.limited else "no"
        rows.append((f"{access.method} {access.path.replace(':path', '')}", roles, limited))
    return rows

"""Requests of deciders to a service: by the standard library alone, so that a decider needs nothing more for them."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from importlib.metadata import version
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tensorbandits.bandit.publishing import without_password

_LONGEST = 2**31  # bytes of an answer
_SAID = 500  # bytes of an error that are read


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, which would hand the API key to whoever it names."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPEN = urllib.request.build_opener(_NoRedirect).open


class ServiceAnswer(NamedTuple):
    """What a service answered: the content, and its ETag."""

    content: bytes
    tag: str


def bandit_address(address: str) -> str:
    """Return the address of a bandit of a service, checked.

    >>> bandit_address("https://server/v1/bandits/offers/snapshot")
    'https://server/v1/bandits/offers'
    """
    parts = urlsplit(address)
    found = address.rstrip("/").removesuffix("/snapshot")
    fine = parts.scheme in ("http", "https") and parts.hostname and not parts.query and not parts.fragment
    if not fine or parts.path.count("/v1/bandits/") != 1 or not found.partition("/v1/bandits/")[2]:
        raise ValueError(
            f"the address is {without_password(address)!r}; give that of a bandit: https://server/v1/bandits/NAME"
        )
    return found


def headers_of(key: str | None) -> dict[str, str]:
    """Return the headers of every request; ``key`` is an API key."""
    if key is not None and not (isinstance(key, str) and key.isascii() and key.isprintable() and key):
        raise ValueError("the API key is no key of a service, which are plain text such as 'tb_...'")
    found = {"user-agent": f"tensorbandits/{version('tensorbandits')}"}
    return found if key is None else {**found, "authorization": f"Bearer {key}"}


def call(url: str, headers: dict[str, str], body: Any = None, *, seconds: float, shown: str) -> ServiceAnswer | None:
    """Return the answer to a GET, or to a POST of a body as JSON; ``None`` if nothing has changed (304)."""
    content = None if body is None else json.dumps(body).encode()
    if content is not None:
        headers = {**headers, "content-type": "application/json"}
    try:
        with _OPEN(urllib.request.Request(url, content, headers), timeout=seconds) as answer:
            return ServiceAnswer(answer.read(_LONGEST), answer.headers.get("ETag") or "")
    except urllib.error.HTTPError as error:
        if error.code == 304:
            return None
        if 300 <= error.code < 400:
            where = without_password(error.headers.get("Location") or "elsewhere")
            raise ConnectionError(f"{shown} answers {error.code}: it has moved to {where}; give that address") from None
        raise ConnectionError(f"{shown} answers {error.code}: {_said(error)}") from None
    except (OSError, http.client.HTTPException) as error:
        why = getattr(error, "reason", None) or error
        raise ConnectionError(f"{shown} is not reached ({why or type(error).__name__})") from None


def _said(error: urllib.error.HTTPError) -> str:
    """What a problem says, in a few words."""
    try:
        content = error.read(_SAID).decode("utf-8", "replace").strip()
    except OSError:
        content = ""
    try:
        found = json.loads(content)
        return str(found.get("detail") or found.get("message") or content)
    except (AttributeError, ValueError):
        return content or str(error.reason)

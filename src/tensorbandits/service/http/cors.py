"""Cross-origin requests: web pages of named origins may use the API from a browser; all others may not."""

from __future__ import annotations

from collections.abc import Mapping

from tensorbandits.service.http.access import methods

Headers = list[tuple[bytes, bytes]]

_VARY = (b"vary", b"Origin")
_SHOWN = b"X-Request-Id, Retry-After, Traceparent, Content-Disposition"  # which a page may read of an answer
_SENT = b"Authorization, Content-Type, Idempotency-Key, X-Request-Id, X-Request-Timeout, Traceparent, Tracestate"
_SECONDS = b"600"  # for which a browser need not ask again


class Cors:
    """What browsers are told of other origins.

    >>> cors = Cors("https://shop.example")
    >>> cors.allowed(b"https://shop.example"), cors.allowed(b"https://elsewhere.example"), cors.allowed(b"")
    (True, False, False)
    """

    def __init__(self, origins: str) -> None:
        self._origins = frozenset(origin.encode() for origin in origins.split(",") if origin)

    def allowed(self, origin: bytes) -> bool:
        """Say whether pages of an origin may use the API."""
        return bool(self._origins) and origin.lower() in self._origins

    def headers(self, origin: bytes) -> Headers:
        """Return the headers of an answer to a page of an origin; none while there are no named origins."""
        if not self._origins:
            return []
        if not self.allowed(origin):
            return [_VARY]
        return [(b"access-control-allow-origin", origin), (b"access-control-expose-headers", _SHOWN), _VARY]

    def preflight(self, method: str, path: str, headers: Mapping[bytes, bytes]) -> Headers | None:
        """Return the answer to a browser that asks beforehand what it may send; ``None`` if it does not ask."""
        asks = method == "OPTIONS" and b"access-control-request-method" in headers
        if not asks or not self.allowed(headers.get(b"origin", b"")) or not (known := methods(path)):
            return None
        return [
            (b"access-control-allow-methods", ", ".join(known).encode()),
            (b"access-control-allow-headers", _SENT),
            (b"access-control-max-age", _SECONDS),
        ]

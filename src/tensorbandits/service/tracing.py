"""Traces across services: the W3C header ``traceparent``, and spans of OpenTelemetry if that is installed.

A caller's trace goes on here: the log has its id, and the answer names it, with the span of this request. Whether spans
are kept, and where they go, is up to the provider that the process was started with, for instance by
``opentelemetry-instrument tensorbandits serve``. Without the package, or without a provider, there is none.
"""

from __future__ import annotations

import re
from random import getrandbits
from typing import Any, NamedTuple

_HEADER = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")


class TraceContext(NamedTuple):
    """Where a request stands in a trace: ids of the trace and of the caller's span, whether it is kept, our span."""

    trace: str
    parent: str
    flags: str
    span: str

    @property
    def header(self) -> bytes:
        """The header ``traceparent`` that names the span of this request."""
        return f"00-{self.trace}-{self.span}-{self.flags}".encode()


def read_trace(header: bytes | None) -> TraceContext | None:
    """Return the trace of a header ``traceparent``; ``None`` if there is none, or it is none.

    >>> read_trace(b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").trace
    '0af7651916cd43dd8448eb211c80319c'
    >>> read_trace(b"00-00000000000000000000000000000000-b7ad6b7169203331-01") is read_trace(b"hello") is None
    True
    """
    found = _HEADER.fullmatch(header) if header else None
    if found is None:
        return None
    trace, parent, flags = (part.decode() for part in found.groups())
    return TraceContext(trace, parent, flags, f"{getrandbits(64) or 1:016x}")


class Spans:
    """Spans of requests, if OpenTelemetry is installed."""

    def __init__(self) -> None:
        try:
            from opentelemetry import trace
        except ImportError:
            self._api: Any = None
        else:
            self._api = trace

    def begin(self, method: str, trace: TraceContext | None) -> Any:
        """Begin the span of a request, below that of its caller; ``None`` where nobody keeps spans."""
        if self._api is None:
            return None
        context = None
        if trace is not None:
            flags = self._api.TraceFlags(int(trace.flags, 16))
            above = self._api.SpanContext(
                int(trace.trace, 16), int(trace.parent, 16), is_remote=True, trace_flags=flags
            )
            context = self._api.set_span_in_context(self._api.NonRecordingSpan(above))
        tracer = self._api.get_tracer("tensorbandits.service")
        span = tracer.start_span(method, context=context, kind=self._api.SpanKind.SERVER)
        return span if span.is_recording() else None

    def trace(self, span: Any, trace: TraceContext | None) -> TraceContext | None:
        """Return where the request stands, with the id of its span."""
        if span is None:
            return trace
        known = span.get_span_context()
        parent = "" if trace is None else trace.parent
        return TraceContext(f"{known.trace_id:032x}", parent, f"{int(known.trace_flags):02x}", f"{known.span_id:016x}")

    def end(self, span: Any, method: str, route: str, status: int, request: str) -> None:
        """End the span of a request."""
        if span is None:
            return
        span.update_name(f"{method} {route}")
        attributes = {"http.request.method": method, "http.route": route, "http.response.status_code": status}
        span.set_attributes({**attributes, "tensorbandits.request": request})
        if status >= 500:
            span.set_status(self._api.StatusCode.ERROR)
        span.end()

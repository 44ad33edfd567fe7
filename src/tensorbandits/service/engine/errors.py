"""Errors of the engine that callers are told of."""

from __future__ import annotations

from tensorbandits.base.errors import TensorbanditsError


class KeyReusedError(TensorbanditsError, ValueError):
    """An idempotency key, or an id that a caller chose, came again with another request."""


class DeadlineError(TensorbanditsError, TimeoutError):
    """The time that a request gave itself has passed."""

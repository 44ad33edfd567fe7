"""Who acts: set where a request comes in, and read where an order is made, so that no route can forget it."""

from __future__ import annotations

from contextvars import ContextVar

from tensorbandits.bandit.actors import SERVICE

ACTOR: ContextVar[str] = ContextVar("actor", default=SERVICE)  # the name of the caller's key, or whoever else it is

"""Append-only events and snapshots of bandits, in SQLite or PostgreSQL. It knows events, not policies."""

from tensorbandits.store.database import Store
from tensorbandits.store.errors import (
    ConflictError,
    FoldedError,
    NameTakenError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
    UnknownBanditError,
)
from tensorbandits.store.events import BanditRow, Event, KeyRow, New
from tensorbandits.store.turn import Turn

__all__ = [
    "BanditRow",
    "ConflictError",
    "Event",
    "FoldedError",
    "KeyRow",
    "NameTakenError",
    "New",
    "Store",
    "StoreError",
    "StoreFullError",
    "StoreReadOnlyError",
    "StoreUnavailableError",
    "Turn",
    "UnknownBanditError",
]

"""Append-only events and snapshots of bandits, in SQLite or PostgreSQL. It knows events, not policies."""

from tensorbandits.store.database import Store
from tensorbandits.store.errors import (
    BehindError,
    ConflictError,
    DamagedError,
    FoldedError,
    NameTakenError,
    RepeatedError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
    UnknownBanditError,
)
from tensorbandits.store.events import BanditRow, Event, Head, KeyRow, New

__all__ = [
    "BanditRow",
    "BehindError",
    "ConflictError",
    "DamagedError",
    "Event",
    "FoldedError",
    "Head",
    "KeyRow",
    "NameTakenError",
    "New",
    "RepeatedError",
    "Store",
    "StoreError",
    "StoreFullError",
    "StoreReadOnlyError",
    "StoreUnavailableError",
    "UnknownBanditError",
]

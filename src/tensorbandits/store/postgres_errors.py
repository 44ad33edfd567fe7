"""What the errors of PostgreSQL mean."""

from __future__ import annotations

import psycopg

from tensorbandits.store.backend import PATIENCE, REPEATED
from tensorbandits.store.errors import (
    BehindError,
    ConflictError,
    RepeatedError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
    UnknownBanditError,
)

# By the code of the error: the class, and what to say. The server's own words follow.
_CODES: dict[str, tuple[type[StoreError], str]] = {
    "53100": (StoreFullError, "no room is left on the disk of {url}; free some there"),
    "25006": (
        StoreReadOnlyError,
        "{url} takes no writes; give the address of the primary server, or end its read-only mode",
    ),
    "42501": (StoreReadOnlyError, "this user may not write to {url}; grant it all on the tables"),
    "42P01": (StoreError, "tables of {url} are missing; start again, which makes them, or restore a backup"),
    "53300": (StoreUnavailableError, "{url} has no connection left; raise its max_connections, or run fewer servers"),
    "55P03": (
        StoreUnavailableError,
        f"another process held {{url}} for {PATIENCE:g} seconds; ask again, or stop that process",
    ),
    "57014": (StoreUnavailableError, "{url} took too long and was interrupted; ask again, or see what slows it"),
    "57P03": (StoreUnavailableError, "{url} is starting or stopping; ask again in a moment"),
}

# Failures to connect have no code, only words.
_WORDS: dict[str, str] = {
    "password authentication failed": "{url} refuses this user and password; check both",
    "no password supplied": "{url} wants a password; give it in the URL, or in the variable PGPASSWORD",
    "does not exist": "{url} cannot be opened; make the database or the user, or name another",
    "starting up": "{url} is starting; ask again in a moment",
    "shutting down": "{url} is stopping; ask again in a moment",
    "too many clients": "{url} has no connection left; raise its max_connections, or run fewer servers",
    "remaining connection slots": "{url} has no connection left; raise its max_connections, or run fewer servers",
}


def explain(error: Exception, url: str, committing: bool) -> Exception:
    """Return what to raise for an error of the driver."""
    code = getattr(error, "sqlstate", None) or ""
    said = _words(error)
    if isinstance(error, psycopg.IntegrityError):
        return _conflict(error.diag.constraint_name, said)
    if code in _CODES:
        kind, words = _CODES[code]
        return kind(f"{words.format(url=url)} ({said})")
    if isinstance(error, psycopg.DataError):
        return ValueError(f"the store {url} cannot keep this value: {said}")
    if isinstance(error, psycopg.ProgrammingError):
        if "connection option" in said:
            return ValueError(f"the store's URL {url} has an option that PostgreSQL does not know: {said}")
        return error  # ours
    for part, words in _WORDS.items():
        if part in said:
            return StoreUnavailableError(f"{words.format(url=url)} ({said})")
    if committing:
        return StoreUnavailableError(
            f"{url} was lost in the middle of a commit, so that it is not known whether it was written ({said}); look "
            f"before you write it again"
        )
    return StoreUnavailableError(f"{url} cannot be reached; see that the server runs and the address is right ({said})")


def _conflict(constraint: str | None, said: str) -> Exception:
    """Return what to raise when a row is in the way of another."""
    if constraint == "events_pkey":
        return BehindError(f"an event of this number is in the log; nothing was written ({said})")
    if constraint in ("events_key", "events_decided"):
        return RepeatedError(REPEATED.format(said))
    if constraint == "events_bandit_fkey":
        return UnknownBanditError(f"there is no bandit of this number ({said})")
    return ConflictError(f"a name or an id is in use already; nothing was written ({said})")


def _words(error: Exception) -> str:
    """Return the first line of what the server said."""
    lines = str(error).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__

"""What a store's URL says."""

from __future__ import annotations

import os

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

FORMS = "'sqlite:///directory/file.db', a path, or 'postgresql://user:password@host/database'"
_POSTGRES = ("postgresql", "postgres", "postgresql+psycopg")


def parse(url: str | os.PathLike[str]) -> URL:
    """Return the parts of a URL, or of a path, which is SQLite's.

    >>> parse("events.db").render_as_string()
    'sqlite:///events.db'
    >>> parse("postgres://ann:secret@db/bandits").render_as_string()
    'postgresql+psycopg://ann:***@db/bandits'
    >>> parse("mysql://db/bandits")
    Traceback (most recent call last):
    ...
    ValueError: a store cannot be of kind 'mysql'; give 'sqlite:///directory/file.db', a path, or ...
    """
    text = os.fspath(url)
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise ValueError(f"the store is {url!r}; give {FORMS}")
    if "://" not in text:
        if text.startswith(("sqlite:", "postgres")) and ":" in text:
            raise ValueError(f"the store's URL starts with {text.split(':')[0] + ':'!r} but has no '//'; give {FORMS}")
        return URL.create("sqlite", database=text)
    kind = text.split("://", 1)[0].lower()
    if kind not in ("sqlite", *_POSTGRES):
        raise ValueError(f"a store cannot be of kind {kind!r}; give {FORMS}")
    try:
        parts = make_url(text)
    except (ArgumentError, ValueError):
        # The text may hold a password, so that it is not shown.
        raise ValueError(
            f"the store's URL, which starts with '{kind}://', cannot be read; give {FORMS}, and write special "
            f"characters of a password as %40 for @, %2F for /, %3A for :"
        ) from None
    return _postgres(parts) if kind in _POSTGRES else _sqlite(parts, text)


def _postgres(parts: URL) -> URL:
    """Return the URL with our driver."""
    if not parts.database:
        raise ValueError(f"the store's URL {parts.render_as_string()} names no database; give {FORMS}")
    return parts.set(drivername="postgresql+psycopg")


def _sqlite(parts: URL, text: str) -> URL:
    """Return the URL of a file, or of nothing that lasts."""
    if parts.host or parts.query:
        raise ValueError(
            f"the store's URL is {text!r}; SQLite has no host and no options: give 'sqlite:///file.db' for a file "
            f"here, 'sqlite:////directory/file.db' for one from the root"
        )
    return parts.set(database=None if parts.database in (None, "", ":memory:") else parts.database)


def shown(parts: URL) -> str:
    """Return a URL for messages, without a password.

    >>> shown(parse("postgresql://ann:secret@db/bandits?sslmode=require"))
    'postgresql://ann:***@db/bandits?sslmode=require'
    """
    if "password" in parts.query:
        parts = parts.update_query_dict({"password": "***"})
    return parts.set(drivername=parts.get_backend_name()).render_as_string(hide_password=True)

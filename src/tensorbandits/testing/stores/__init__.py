"""What every store must do, whatever database it is in; to be run over one of your own.

``run(make)`` runs all checks and says which failed; with pytest, parametrise over :data:`checks` and call
``check(make)`` for a function that opens a store: the first call a new and empty one, each further call the same one
again, as another process would. Nothing is timed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorbandits.testing.stores import log, upkeep
from tensorbandits.testing.stores.case import Make
from tensorbandits.testing.suite import Report, checks_of, run_each

Check = Callable[[Make], None]

checks: list[Check] = checks_of(log, upkeep)


def run(make: Callable[[], Make], only: Sequence[Check] | None = None, name: str = "store") -> Report:
    """Run all checks, or ``only`` some, each over a database of its own, and return which passed and failed.

    ``make()`` makes a new and empty database, and returns the function that opens it.

    >>> import tempfile
    >>> from tensorbandits.store import Store
    >>> def make():
    ...     path = tempfile.mkdtemp() + "/store.db"
    ...     return lambda: Store.open(path)
    >>> print(run(make, only=[log.check_names], name="SQLite"))
    SQLite: 1 passed, 0 skipped, 0 failed
    """
    return run_each(checks if only is None else only, lambda check: check(make()), name)

"""Following what is published: a thread that looks for new snapshots, and makes them ready before they are used."""

from __future__ import annotations

import logging
import threading
import time

from tensorbandits.bandit.published import PublishedSnapshot, SnapshotRefusedError
from tensorbandits.base.errors import TensorbanditsError
from tensorbandits.decider.arms import ReadySnapshot
from tensorbandits.decider.sources import FoundSnapshot, SnapshotSource
from tensorbandits.decider.tokens import TokenKeys

_LOG = logging.getLogger("tensorbandits.decider")
_LONGEST_PAUSE = 30.0  # seconds between two looks where they fail
_WAITED = 0.1  # seconds between two looks that wait themselves
_AWAY = (OSError, RuntimeError, ValueError, ImportError, LookupError)  # what a look may end with, of any library


class NoSnapshotError(TensorbanditsError, RuntimeError):
    """There is no snapshot to decide from yet."""


class Follower:
    """Keeps the newest snapshot of a source that could be read.

    ``every`` is how many seconds there are between two looks.
    """

    def __init__(self, source: SnapshotSource, keys: TokenKeys, every: float) -> None:
        self.source, self.every = source, every
        self.ready: ReadySnapshot | None = None
        self.looked: float | None = None  # when a look last went well, by the monotonic clock
        self.problem: str | None = None  # why the last one did not
        self.swaps = 0
        self.about = ("", "")  # name and uid of the bandit, once they are known
        self._keys = keys
        self._mark: str | None = None
        self._began()

    def _began(self) -> None:
        self._turn = threading.Lock()  # held while looking
        self._swap = threading.Lock()  # held for the moment in which a snapshot is swapped
        self._stop, self._first = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Look from now on, in a thread of its own."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._follow, name="snapshots", daemon=True)
            self._thread.start()

    def _follow(self) -> None:
        """Look again and again, less often where that fails."""
        failures, pause = 0, 0.0
        while not self._stop.wait(pause):
            new = self.look()
            failures = failures + 1 if self.problem else 0
            pause = min(self.every * 2.0 ** min(failures, 10), _LONGEST_PAUSE) if failures else self.every
            if self.source.waits and not failures and not new:
                pause = min(pause, _WAITED)

    def own_again(self) -> None:
        """Be of use in a child process, in which no thread of the parent goes on."""
        self._began()

    def wait(self, seconds: float) -> None:
        """Wait for the first snapshot, or raise why there is none."""
        if not self._first.wait(seconds) and self.ready is None:
            raise NoSnapshotError(self.missing())

    def missing(self) -> str:
        """Return the words for there being no snapshot yet."""
        why = f": {self.problem}" if self.problem else ": nothing is published there yet"
        return f"there is no snapshot at {self.source.shown} to decide from{why}; publish the bandit to this address"

    def look(self) -> bool:
        """Look once; say whether there is a new snapshot. What goes wrong is kept as the problem."""
        with self._turn:
            try:
                found = self.source.newer(self._mark)
                if found is not None:
                    self._take(found)
            except Exception as error:
                if not isinstance(error, _AWAY) and self.problem is None:  # and not each time again
                    _LOG.exception("looking for a snapshot at %s failed", self.source.shown)
                self._failed(error)
                return False
            if self.problem is not None:
                _LOG.info("snapshots are found again at %s", self.source.shown)
            self.problem, self.looked = None, time.monotonic()
            return found is not None

    def _failed(self, error: Exception) -> None:
        said = f"{error}" or type(error).__name__
        if self.problem is None:
            before = self.ready
            kept = "there is none yet" if before is None else f"version {before.published.version} is decided from"
            _LOG.warning("no new snapshot is found at %s (%s); %s", self.source.shown, said, kept)
        self.problem = said

    def _take(self, found: FoundSnapshot) -> None:
        """Decide from a snapshot from now on, if it is newer and of the same bandit."""
        snapshot, before = found.snapshot, self.ready
        if before is not None:
            _refuse_other(snapshot, before.published, self.source.shown)
            if (snapshot.version, snapshot.time) <= (before.published.version, before.published.time):
                self._mark = found.mark
                return
        ready = ReadySnapshot(snapshot, self._keys)
        if before is not None:
            ready.prepare(before)
        with self._swap:
            if self._stop.is_set():
                return
            self.about = (snapshot.name, snapshot.uid)
            self._mark, self.ready = found.mark, ready
            self.swaps += 1
        self._first.set()

    def close(self) -> None:
        """Look no more, and have nothing to decide from."""
        with self._swap:
            self._stop.set()
            self.ready = None


def _refuse_other(snapshot: PublishedSnapshot, before: PublishedSnapshot, shown: str) -> None:
    if snapshot.uid != before.uid:
        raise SnapshotRefusedError(
            f"{shown} has a snapshot of another bandit now, {snapshot.name!r} with the uid {snapshot.uid}, and this "
            f"decider decides for {before.name!r} with the uid {before.uid}; make a new decider if that is meant"
        )

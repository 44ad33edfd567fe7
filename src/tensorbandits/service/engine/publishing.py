"""Publishing the snapshots of bandits, so that deciders elsewhere decide from what is learned here.

Two threads of their own, so that neither decisions nor the log ever wait: one makes snapshots, where draws, rules or
settings are new, at most so often; the other puts them at their address, which may be slow or away. Several servers of
one store may publish to one address: each leaves it alone while what another has put there is new enough.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tensorbandits.bandit.published import DRAWS, CannotPublishError, PublishedSnapshot, SnapshotRefusedError
from tensorbandits.bandit.publishing import SnapshotPlace, checksum_of, place_of
from tensorbandits.service import logs
from tensorbandits.service.engine.host import Host
from tensorbandits.service.metrics import Metrics

_LOOK = 0.2  # seconds between two looks for what is new, at least
_WANTED = 600.0  # seconds for which snapshots are made after somebody has asked for one
_SOON = 0.9  # of the time between two publications, after which another server's is no more new enough
NAME = "{name}"


class Latest(NamedTuple):
    """A snapshot as deciders get it: its content, and what it knows."""

    content: bytes
    tag: str  # for HTTP, with its quotes
    snapshot: PublishedSnapshot


class MadeOf(NamedTuple):
    """What a snapshot was made of: the draws of the learner, by number, and the version of rules and settings.

    Where the draws are others, the snapshot gets new ones of its own; else those of the snapshot before.
    """

    draws: tuple[int, ...]
    version: Any


@dataclass(eq=False)
class Publication:
    """What one bandit publishes: the newest snapshot, what it was made of, and what went wrong at its address."""

    latest: Latest | None = None
    made_of: MadeOf | None = None
    made_at: float = -1e300  # by the monotonic clock, as the next
    wanted_at: float = -1e300
    put: int = 0  # the version that the address has from here
    place: SnapshotPlace | None = None
    failed: str | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)  # held while a snapshot is made


class Publisher:
    """Makes snapshots of bandits, and puts them at an address in which ``{name}`` stands for the bandit's name.

    Without an ``address`` they are made for those who ask over HTTP only. ``every`` are seconds between two of a
    bandit, at least; ``now`` returns the time as the store has it.
    """

    def __init__(
        self,
        hosts: Callable[[], Sequence[Host]],
        now: Callable[[], float],
        metrics: Metrics,
        *,
        address: str = "",
        every: float = 5.0,
    ) -> None:
        self._hosts, self._now, self._metrics, self.address, self.every = hosts, now, metrics, address, every
        self._stop, self._news = threading.Event(), threading.Event()
        self._log = logs.get("publishing")
        self._publications: dict[int, Publication] = {}  # by bandit
        self._wanted_at = -1e300  # when somebody asked for a snapshot of any bandit last
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Begin to publish."""
        for work in (self._make_all, *([self._put_all] if self.address else [])):
            thread = threading.Thread(target=work, name=work.__name__.strip("_"), daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """End; an address that does not answer is not waited for."""
        self._stop.set()
        self._news.set()
        for thread in self._threads:
            thread.join(2.0)

    def of(self, host: Host) -> Publication:
        """Return what a bandit publishes."""
        known = self._publications.get(host.id)
        return self._publications.setdefault(host.id, Publication()) if known is None else known

    def newest(self, host: Host) -> Latest:
        """Return the newest snapshot of a bandit, which may have to be made, and make them for a while from now on."""
        publication, now = self.of(host), time.monotonic()
        kept_up = bool(self.address) or now - publication.wanted_at < _WANTED
        publication.wanted_at = self._wanted_at = now
        return publication.latest if publication.latest is not None and kept_up else self.make(host)

    def make(self, host: Host) -> Latest:
        """Make the snapshot of a bandit as it is now, unless it is that of before; it waits for the learner."""
        publication, core = self.of(host), host.core
        with publication.lock:
            before = publication.latest
            if before is None and not core.learner.draws:
                host.refresh(wait=True)
            made_of, known = self._made_of(host), publication.made_of
            if before is None or known is None or made_of != known:
                now, last = self._now(), before.snapshot.version if before else 0
                snapshot = PublishedSnapshot.of(
                    core,
                    name=host.name,
                    uid=host.uid,
                    version=max(last + 1, int(1e3 * now)),  # which grows, whichever server publishes
                    event=host.learned,
                    time=now,
                    draws=before.snapshot.draws if before and known and made_of.draws == known.draws else DRAWS,
                    learn=False,
                )
                content = snapshot.to_bytes()
                tag = f'"{snapshot.version}-{checksum_of(content)[:16]}"'
                before = publication.latest = Latest(content, tag, snapshot)
                publication.made_of = made_of
                self._news.set()
            publication.made_at = time.monotonic()
            return before

    def _made_of(self, host: Host) -> MadeOf:
        return MadeOf(host.core.learner.draws.numbers, host.core.state.version)

    def _make_all(self) -> None:
        while not self._stop.wait(min(_LOOK, self.every)):
            if not self._is_wanted():
                continue
            hosts = self._hosts()
            for gone in set(list(self._publications)) - {host.id for host in hosts}:
                del self._publications[gone]
            for host in hosts:
                if self._is_due(host):
                    try:
                        self.make(host)
                    except CannotPublishError:
                        self.of(host).made_at = time.monotonic() + _WANTED  # its policy stays as it is
                    except Exception as error:
                        self._trouble(host, error)

    def _is_wanted(self) -> bool:
        """Whether somebody wants snapshots: an idle server looks for no news of hundreds of bandits."""
        return bool(self.address) or time.monotonic() - self._wanted_at < _WANTED

    def _is_due(self, host: Host) -> bool:
        publication, now = self.of(host), time.monotonic()
        wanted = bool(self.address) or now - publication.wanted_at < _WANTED
        if not wanted or host.quarantined is not None or now - publication.made_at < self.every:
            return False
        return bool(publication.latest is None or self._made_of(host) != publication.made_of)

    # At the address.

    def _put_all(self) -> None:
        while not self._stop.is_set():
            self._news.wait(self.every)
            self._news.clear()
            for host in self._hosts():
                publication = self.of(host)
                latest = publication.latest
                if latest is None or latest.snapshot.version <= publication.put or self._stop.is_set():
                    continue
                try:
                    self._put(host, publication, latest.snapshot)
                    publication.failed = None
                except Exception as error:
                    self._trouble(host, error)

    def _put(self, host: Host, publication: Publication, snapshot: PublishedSnapshot) -> None:
        """Put a snapshot at the address of its bandit, unless what another server has put there is new enough."""
        if publication.place is None:
            publication.place = place_of(self.address.replace(NAME, host.name))
        try:
            known = publication.place.pointer()
        except SnapshotRefusedError:  # what is damaged helps nobody
            known = None
        if known is not None and known.uid == snapshot.uid:
            newer = known.version != publication.put and snapshot.time - known.time < _SOON * self.every
            if newer or known.version >= snapshot.version:
                return
        of_before = known is not None and known.time < host.created  # of one that had the name, and was deleted
        publication.place.publish(snapshot, replace=of_before)
        publication.put = snapshot.version
        self._metrics.published(host.name)

    def _trouble(self, host: Host, error: Exception) -> None:
        publication, words = self.of(host), f"{type(error).__name__}: {error}"
        publication.made_at = time.monotonic()  # and not again at once
        self._metrics.unpublished(host.name)
        if publication.failed != words:  # and not each time again
            publication.failed = words
            self._log.warning("publishing failed; trying again", bandit=host.name, error=words)

    def age(self, host: Host) -> float | None:
        """Return the seconds since the newest snapshot of a bandit was made, if there is one."""
        latest = self.of(host).latest
        return None if latest is None else max(self._now() - latest.snapshot.time, 0.0)

    def said(self, host: Host) -> dict[str, Any]:
        """Return what the page shows of a bandit's snapshots."""
        publication = self.of(host)
        snapshot = None if publication.latest is None else publication.latest.snapshot
        return {
            "address": None if publication.place is None else publication.place.shown,
            "every": self.every,
            "version": None if snapshot is None else snapshot.version,
            "bytes": None if publication.latest is None else len(publication.latest.content),
            "age": self.age(host),
            "events_since": None if snapshot is None else max(host.seq - snapshot.event, 0),
            "failed": publication.failed,
        }

"""Loading a bandit from its log: from the newest snapshot on, event by event, each of which must apply.

A log that cannot be folded harms its own bandit only: :class:`QuarantinedError` says at which event, and why. An event
that somebody has decided to leave out (``tensorbandits repair --skip``) is left out.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from tensorbandits.bandit import events as e
from tensorbandits.bandit.changes import ChangeLog
from tensorbandits.bandit.core import Core, restored_core
from tensorbandits.bandit.making import new_state
from tensorbandits.bandit.settings import Settings, arguments, changed
from tensorbandits.base import codec
from tensorbandits.base.checks import check_count
from tensorbandits.base.errors import TensorbanditsError
from tensorbandits.service import logs
from tensorbandits.store import BanditRow, DamagedError, Event, FoldedError, Head, Store, StoreError
from tensorbandits.store.errors import QuarantinedError

_KIND, _VERSION = "replica", 2  # of a snapshot; a base is one too, and must be read for ever
_SHORT = b"zlib:"  # before a snapshot that is compressed; at first they were not
CHANGE_KINDS = tuple(name for name, kind in e.BanditEvent.kinds.items() if kind.change)
_RING = 16  # posterior draws that decisions are drawn from, unless told otherwise


class CannotApplyError(TensorbanditsError, ValueError):
    """An event of a log does not fit the state after the events before it."""

    def __init__(self, seq: int, why: str) -> None:
        super().__init__(f"event {seq} cannot be applied: {why}")
        self.seq, self.why = seq, why


def new_core(settings: Settings, time: float) -> Core:
    """Return the core of a bandit as settings describe it, or say what is wrong with them."""
    given = arguments(settings)
    ring = check_count(given.pop("ring", _RING), "ring")
    state = new_state(**given, time=time, settings=settings)
    changed(state.space, state.policy, settings, {})  # which refuses settings that do not go together
    return Core(state, ring)


def step(core: Core | None, event: Event) -> Core:
    """Take in the next event of a log; the first one makes the bandit."""
    try:
        typed = e.read_event(event.kind, event.time, event.decision, event.body)
        if core is None:
            if not isinstance(typed, e.Created):
                raise ValueError(f"it is {event.kind!r}, but the first event of a log makes the bandit")
            core = new_core(dict(typed.settings), event.time)
            core.state.changelog.note(typed.signed(_actor(core, event)))
        elif event.seq <= core.state.seq:
            return core
        else:
            core.apply([typed.signed(_actor(core, event))])
    except (LookupError, TypeError, ValueError, AttributeError, AssertionError) as error:
        words = f"{type(error).__name__}: {error}" if not isinstance(error, ValueError) else str(error)
        raise CannotApplyError(event.seq, words) from error
    core.state.seq, core.state.chain = event.seq, event.chain
    return core


def _actor(core: Core, event: Event) -> str | None:
    """Return who did what an event says, and let the state remember the name."""
    return core.state.actors.learn(e.mark_of(event.kind, event.body))


class Trouble(NamedTuple):
    """The event at which a log cannot be read, and why."""

    seq: int
    why: str


def rebuild(store: Store, row: BanditRow, until: int | None = None, *, caches: bool = True) -> Core:
    """Return the core of a bandit as its events say, from the newest snapshot before an event on, or from the base."""
    while True:
        base = store.base(row.id)
        try:
            found = _read(store, row, until, caches)
        except FoldedError:
            if store.base(row.id) == base:
                raise
            continue
        if not isinstance(found, Trouble):
            return found
        if store.base(row.id) == base:  # else events were folded while they were read
            raise QuarantinedError(_words(row.name, *found))


def unreadable(name: str, error: Exception) -> str:
    """Return the words for a bandit whose log, or base, cannot even be taken for one."""
    return (
        f"bandit {name!r} is not served, as its log cannot be read ({type(error).__name__}: {error}); restore a "
        "backup. Other bandits are served"
    )


def trouble(store: Store, row: BanditRow) -> Trouble | None:
    """Return what is wrong with the log of a bandit, read from the base on without caches; ``None`` if nothing is."""
    found = _read(store, row, None, caches=False)
    return found if isinstance(found, Trouble) else None


def raw_event(store: Store, row: BanditRow, seq: int) -> Event | None:
    """Return an event as it is stored, whatever is wrong with it, if it is there."""
    return next(iter(store.events(row.id, after=seq - 1, until=seq, verify=False)), None)


def _read(store: Store, row: BanditRow, until: int | None, caches: bool) -> Core | Trouble:
    core = _restored(store, row, until if caches else store.base(row.id))
    try:
        core = _folded(store, row, core, until)
    except DamagedError as error:
        return Trouble(error.seq, error.why)
    except CannotApplyError as error:
        return Trouble(error.seq, f"it cannot be applied ({error.why})")
    if core is None:
        return Trouble(1, "there are no events")
    try:
        core.learner.take_in()
    except ValueError as error:
        return Trouble(core.state.seq, f"what it and the events before it say cannot be learned ({error})")
    return core


def _words(name: str, seq: int, why: str) -> str:
    return (
        f"bandit {name!r} is not served, as its log cannot be read: at event {seq}, {why}; 'tensorbandits repair' "
        "shows the event and can skip it, or restore a backup. Other bandits are served"
    )


def _folded(store: Store, row: BanditRow, core: Core | None, until: int | None) -> Core | None:
    """Fold the events after what a core knows, but those that are to be left out."""
    after: int | Head = 0 if core is None else Head(core.state.seq, core.state.chain)
    while True:
        try:
            for event in store.events(row.id, after=after, until=until):
                core = step(core, event)
            return core
        except (DamagedError, CannotApplyError) as error:
            known = 0 if core is None else core.state.seq
            if error.seq - 1 > known:  # events before it were in the same page
                core = _folded(store, row, core, error.seq - 1)
            if core is None:
                raise
            if not _left_out(store, row, core, error, until):
                return core
        after = Head(core.state.seq, core.state.chain)


def _left_out(
    store: Store, row: BanditRow, core: Core, error: DamagedError | CannotApplyError, until: int | None
) -> bool:
    """Leave out the event that an error is of, and all that follow and are to be left out; take in the next one.

    Return whether there was one. Its checksum is not held against it, as it is about the event before.
    """
    seq, end = error.seq, store.head(row.id).seq
    while True:
        if not skipped(store, row.id, seq):
            raise error
        core.state.seq, core.state.chain = seq, None
        if seq >= end or (until is not None and seq >= until):
            return False
        seq += 1
        event = raw_event(store, row, seq)
        error = CannotApplyError(seq, "it is missing")
        if event is None:
            continue
        try:
            step(core, event)
            return True
        except CannotApplyError as other:
            error = other


def skipped(store: Store, bandit: int, seq: int) -> bool:
    """Say whether somebody has decided to leave out an event."""
    name = e.skip_name(seq)
    return any(event.kind == "Skipped" for event in store.of_decisions(bandit, [name]).get(name, []))


def _restored(store: Store, row: BanditRow, until: int | None) -> Core | None:
    """Return the core of the newest snapshot up to an event, if there is one."""
    found = store.snapshot(row.id, until)
    if found is None:
        return None
    try:
        return _recalled(store, row, unpack(found[1]))
    except StoreError:
        raise
    except Exception as error:
        if store.base(row.id) == found[0]:
            words = f"the base of bandit {row.name!r} cannot be read ({error}); restore a backup"
            raise QuarantinedError(words) from None
        logs.get("bandits").warning("snapshot cannot be read; folding events", bandit=row.name, error=str(error))
        store.drop_snapshots(row.id)
        return _restored(store, row, until)


def _recalled(store: Store, row: BanditRow, core: Core) -> Core:
    """Let a snapshot of an early release have the changes that its log still holds."""
    state, base = core.state, store.base(row.id)
    if state.changelog.since > base:
        state.changelog = ChangeLog(base)
        for event in store.of_kinds(row.id, CHANGE_KINDS, state.seq):
            typed = e.read_event(event.kind, event.time, event.decision, event.body)
            state.changelog.note(typed.signed(_actor(core, event)))
    return core


def pack(core: Core) -> tuple[int, bytes]:
    """Return a snapshot of a core, and the number of the last event that it knows.

    It is compressed, as a store that writes it keeps others waiting for as long as that takes.
    """
    state = core.frozen()()
    return state["seq"], _SHORT + zlib.compress(codec.pack(_KIND, _VERSION, state), 1)


def unpack(packed: bytes) -> Core:
    """Return the core of a snapshot."""
    try:
        whole = zlib.decompress(packed[len(_SHORT) :]) if packed.startswith(_SHORT) else packed
    except zlib.error as error:
        raise ValueError(f"the snapshot cannot be decompressed ({error}); drop it, events have all") from None
    saved = codec.unpack(whole)
    if saved.kind != _KIND or saved.version > _VERSION:
        raise ValueError(f"the snapshot is a {saved.kind!r} of version {saved.version}; drop it, events have all")
    state: dict[str, Any] = dict(saved.state)
    return restored_core(state, state["moment"], check_count(state["ring"], "ring"), {})


def agrees(store: Store, row: BanditRow, core: Core) -> bool:
    """Say whether the newest snapshot before it has learned the same as a core."""
    other = _restored(store, row, core.state.seq)
    if other is None:
        return True
    other = _folded(store, row, other, core.state.seq)
    assert other is not None
    with other.learner.still(), core.learner.still():
        return other.policy.copy_ledger() == core.policy.copy_ledger()


def pages(events: Iterable[Event], size: int = 1_000) -> Iterator[list[Event]]:
    """Yield lists of events."""
    page: list[Event] = []
    for event in events:
        page.append(event)
        if len(page) >= size:
            yield page
            page = []
    if page:
        yield page


class StoreClock:
    """The time as the store's machine has it, so that servers with wrong clocks agree on when windows end.

    >>> from tensorbandits.store import Store
    >>> with Store.open("sqlite://") as store:
    ...     abs(StoreClock(store).now() - store.clock()) < 1.0
    True
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._offset = time.time() - time.monotonic()
        self.adjust()

    def adjust(self) -> None:
        """Look at the store's clock again; where it cannot be reached, go on as before."""
        with suppress(StoreError, FoldedError):
            self.look()

    def look(self) -> None:
        """Look at the store's clock again; raise where it cannot be reached."""
        before = time.monotonic()
        there = self._store.clock()
        self._offset = there - (before + time.monotonic()) / 2

    def now(self) -> float:
        """Return the time in seconds since 1970."""
        return time.monotonic() + self._offset

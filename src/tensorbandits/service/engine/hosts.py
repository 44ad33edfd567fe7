"""All bandits of one process: loading them, following what other processes write, learning, and what time asks for.

Four threads, none of which a decision waits for: the *writer* commits; the *follower* folds what others have written;
the *learner* makes new draws where rewards came, for at most a share of the time; the *keeper* times decisions out and
keeps snapshots, so that a start reads few events.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import cache, partial
from typing import Any

from threadpoolctl import threadpool_limits

from tensorbandits.service import logs
from tensorbandits.service.engine.hosted import Hosted
from tensorbandits.service.engine.making import arguments
from tensorbandits.service.engine.replica import Replica
from tensorbandits.service.engine.writer import Order, Writer
from tensorbandits.service.http.errors import KeyReusedError
from tensorbandits.service.metrics import Metrics
from tensorbandits.store import (
    BanditRow,
    Event,
    FoldedError,
    NameTakenError,
    New,
    Store,
    StoreError,
    UnknownBanditError,
)

_POLL = 0.5  # seconds after which the store is looked at, if it said nothing
_TICK = 1.0  # seconds between two looks for decisions that have timed out
_REST = 0.005  # seconds that the learner rests at least
_IDLE = 0.02  # seconds after which the learner looks again


class Hosts:
    """The bandits of a store, in one process.

    ``learning`` is the share of time that the learner takes at most; ``snapshots`` are seconds after which a state is
    kept, unless it is that of before, or 0 to keep none.
    """

    def __init__(self, store: Store, metrics: Metrics, *, learning: float = 0.25, snapshots: float = 60.0) -> None:
        self.store, self._metrics, self._learning, self._snapshots = store, metrics, learning, snapshots
        self._log = logs.get("bandits")
        self._hosts: dict[str, Hosted] = {}
        self._loading = threading.Lock()
        self._stop = threading.Event()
        self._wake = threading.Event()  # for the learner
        self.ready = False
        self._writer = Writer(store, self._committed, self._renew)
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Load every bandit, and begin to write, follow, learn and keep."""
        _warm()
        self._writer.start()
        for row in self.store.bandits():
            self._load(row)
        self.ready = True
        for work in (self._follow, self._learn, self._keep):
            thread = threading.Thread(target=work, name=work.__name__.strip("_"), daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Write what is waiting, keep snapshots, and end."""
        self.ready = False
        self._stop.set()
        self._wake.set()
        for thread in self._threads:
            thread.join()
        self._writer.stop()
        for host in self.all():
            if host.replica.seq > host.kept and self._snapshots:
                self._guarded("snapshot", partial(self._snapshot, host))

    # Finding, making and ending bandits.

    def all(self) -> list[Hosted]:
        """Return all that were not deleted."""
        return [host for host in list(self._hosts.values()) if not host.replica.closed]

    def known(self, name: str) -> Hosted | None:
        """Return a bandit that is in memory."""
        host = self._hosts.get(name)
        return None if host is None or host.replica.closed else host

    def find(self, name: str) -> Hosted:
        """Return a bandit by its name, also one that another process has just made; may read the store."""
        host = self.known(name)
        if host is None:
            row = self.store.find(name)
            if row is None:
                raise UnknownBanditError(f"no bandit has the name {name!r}; GET /v1/bandits lists those there are")
            host = self._load(row)
        return host

    def create(self, name: str, settings: dict[str, Any], key: str | None) -> Hosted:
        """Make a bandit; raise for what cannot be."""
        Replica(**arguments(settings))  # which says what is wrong before anything is written
        try:
            row = self.store.create(name, [New("Created", time.time(), {"settings": settings}, None, key)])
        except NameTakenError:
            known = self._made_by(name, settings, key)
            if known is None:
                raise
            row = known
        return self._load(row)

    def _made_by(self, name: str, settings: dict[str, Any], key: str | None) -> BanditRow | None:
        """Return the bandit of a name if it was made by a request with this key."""
        row = self.store.find(name)
        if row is None or key is None or self.store.base(row.id):
            return None
        first = next(iter(self.store.events(row.id, limit=1)), None)
        if first is None or first.key != key:
            return None
        if first.body["settings"] != settings:
            raise KeyReusedError(f"the key {key!r} made {name!r} with other settings; give each write its own key")
        return row

    def fold(self, host: Hosted, before: int | None) -> tuple[int, int]:
        """Make what events up to one say the base, and remove them; return how many, and up to which."""
        row = BanditRow(host.id, host.name, host.created)
        last = host.replica.seq if before is None else min(before, host.replica.seq)
        if last <= (folded := self.store.base(host.id)):
            return 0, folded
        replica = self.rebuild(row, last)
        seq, state = replica.snapshot()
        return self.store.fold(host.id, seq, state), seq

    def delete(self, host: Hosted, key: str | None) -> None:
        """Let a bandit be no more; its events stay."""
        self.store.delete(host.id, New("Deleted", time.time(), {}, None, key))
        self._catch_up(host)
        self._metrics.forget(host.name)

    def submit(self, order: Order) -> Future[Any]:
        """Have an order written."""
        return self._writer.submit(order)

    def enter(self, order: Order) -> None:
        """Have an order written that somebody awaits."""
        self._writer.enter(order)

    def _committed(self, orders: Sequence[Order], seconds: float) -> None:
        """Count what was written."""
        counts = Counter((order.host.name, event.kind) for order in orders for event in order.events)
        if not counts:
            return
        self._metrics.committed(counts.total(), seconds)
        for (name, kind), count in counts.items():
            if kind == "Decided":
                self._metrics.decided(name, count)
            elif kind in ("Rewarded", "Told"):
                self._metrics.rewarded(name, count)

    def rebuild(self, row: BanditRow, until: int | None = None, *, caches: bool = True) -> Replica:
        """Return the state of a bandit as its events say, from the newest snapshot before an event on, or the base."""
        replica = self._restored(row, until if caches else self.store.base(row.id))
        for page in pages(self.store.events(row.id, after=0 if replica is None else replica.seq, until=until)):
            if replica is None:
                replica = Replica.created(page[0])
            replica.fold(page)
        if replica is None:
            raise StoreError(f"bandit {row.name!r} has no events; the store is damaged: restore a backup")
        return replica

    def agrees(self, row: BanditRow, replica: Replica) -> bool:
        """Say whether the newest snapshot before it has learned the same as a replica."""
        other = self._restored(row, replica.seq)
        if other is not None:
            other.fold(list(self.store.events(row.id, after=other.seq, until=replica.seq)))
        return other is None or other.policy.copy_ledger() == replica.policy.copy_ledger()

    def _restored(self, row: BanditRow, until: int | None) -> Replica | None:
        found = self.store.snapshot(row.id, until)
        if found is None:
            return None
        try:
            return Replica.restored(found[1])
        except (ValueError, KeyError, OSError) as error:
            if self.store.base(row.id) == found[0]:
                words = f"the base of bandit {row.name!r} cannot be read ({error}); restore a backup"
                raise StoreError(words) from None
            self._log.warning("snapshot cannot be read; folding events instead", bandit=row.name, error=str(error))
            self.store.drop_snapshots(row.id)
            return self._restored(row, until)

    def _load(self, row: BanditRow) -> Hosted:
        with self._loading:
            host = self._hosts.get(row.name)
            if host is None or host.id != row.id:
                host = self._hosts[row.name] = Hosted(row, self.rebuild(row))
                self._wake.set()
            return host

    # What the threads do.

    def _guarded(self, what: str, work: Callable[[], Any]) -> bool:
        """Do something that may fail for a while; say whether it went well."""
        try:
            work()
            return True
        except StoreError as error:
            self._metrics.failed(error)
            self._log.warning(f"{what} failed; trying again", error=str(error))
        except Exception:
            self._log.exception(f"{what} failed")
        return False

    def _follow(self) -> None:
        while not self._stop.is_set():
            if not self._guarded("following", self._look):
                self._stop.wait(_POLL)

    def _look(self) -> None:
        if self.store.wait(_POLL):
            self._catch_up_all()

    def _catch_up_all(self) -> None:
        heads = self.store.heads()
        if heads.keys() - {host.id for host in self.all()}:
            for row in self.store.bandits():  # some of which another process has made
                self._load(row)
        for host in self.all():
            behind = max(heads.get(host.id, host.replica.seq + 1) - host.replica.seq, 0)  # a deleted one has no head
            self._metrics.behind(host.name, behind)
            if behind:
                self._catch_up(host)

    def _catch_up(self, host: Hosted) -> None:
        try:
            for page in pages(self.store.events(host.id, after=host.replica.seq)):
                host.replica.fold(page)
                self._metrics.followed(len(page))
        except FoldedError:
            self._renew(host)
        if host.replica.closed:
            with self._loading:
                if self._hosts.get(host.name) is host:
                    del self._hosts[host.name]
        self._wake.set()

    def _renew(self, host: Hosted) -> None:
        """Start again from the base: events that were not read here yet were folded into it."""
        host.replica.become(self.rebuild(BanditRow(host.id, host.name, host.created)))

    def _learn(self) -> None:
        """Make new draws where rewards came, one bandit after the other."""
        with threadpool_limits(1):
            while not self._stop.is_set():
                stale = [host for host in self.all() if host.replica.stale]
                for host in stale:
                    started = time.perf_counter()
                    self._guarded("learning", partial(host.replica.refresh, wait=True))
                    spent = time.perf_counter() - started
                    self._metrics.learned(spent)
                    if self._stop.wait(max(_REST, spent * (1.0 / self._learning - 1.0))):
                        return
                if not stale:
                    self._wake.wait(_IDLE)
                    self._wake.clear()

    def _keep(self) -> None:
        while not self._stop.wait(_TICK):
            self._guarded("timing out", self._expire)
            self._metrics.serving(len(self.all()))
            for host in self.all():
                self._metrics.waiting(host.name, host.replica.waiting)
                if self._snapshots and host.due(self._snapshots):
                    self._guarded("snapshot", partial(self._snapshot, host))

    def _expire(self) -> None:
        for host in self.all():
            while not self._stop.is_set() and (order := host.expire(time.time())) is not None:
                self.submit(order).result()

    def _snapshot(self, host: Hosted) -> None:
        seq, state = host.replica.snapshot()
        self.store.put_snapshot(host.id, seq, state)
        host.keep(seq)


@cache
def _warm() -> None:
    """Have all that deciding and learning run loaded, or compiled, so that nobody waits for it later."""
    cells = [(0, 0, 0), (0, 1, 1), (1, 0, 1)] * 10
    for reward, residual in (("gaussian", None), ("gaussian", True), ("bernoulli", None), ("count", None)):
        settings = {"modes": {mode: ["x", "y"] for mode in "abc"}, "reward": reward, "residual": residual}
        replica = Replica(**arguments(settings))
        replica.begin({}, 0, 0.0)
        replica.refresh(wait=True)
        for _ in range(2):
            replica.policy.tell_many(cells, [1.0, 0.0, 1.0] * 10)
            replica.refresh(wait=True)
            replica.draw({}, None)
        replica.draw({}, {"a": ["x"]})


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

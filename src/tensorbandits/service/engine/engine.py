"""The engine: all bandits of one server process, and the threads that write, follow, learn and keep time.

None of them holds up a decision: the *writers* append; the *follower* takes in what other servers have written; the
*learner* makes new draws where rewards came, for at most a share of the time; the *keeper* times decisions out and
keeps snapshots, so that a start reads few events.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cache, partial
from typing import Any

from threadpoolctl import threadpool_limits

from tensorbandits.bandit.actors import MARK, Actors
from tensorbandits.bandit.commands import Ask, chosen
from tensorbandits.base.compiled import compilations
from tensorbandits.decider.tokens import TokenKeys
from tensorbandits.model.kernels import compile_ahead
from tensorbandits.service import logs
from tensorbandits.service.engine import loading, orders
from tensorbandits.service.engine.actor import ACTOR
from tensorbandits.service.engine.deciders import DAY, TokenReader
from tensorbandits.service.engine.errors import KeyReusedError
from tensorbandits.service.engine.health import Health
from tensorbandits.service.engine.host import Host
from tensorbandits.service.engine.loading import StoreClock, new_core
from tensorbandits.service.engine.orders import Order
from tensorbandits.service.engine.publishing import Publisher
from tensorbandits.service.engine.writer import Writer
from tensorbandits.service.metrics import Metrics
from tensorbandits.store import (
    BanditRow,
    BehindError,
    FoldedError,
    NameTakenError,
    New,
    RepeatedError,
    Store,
    StoreError,
    StoreUnavailableError,
    UnknownBanditError,
)
from tensorbandits.store.errors import QuarantinedError

_POLL = 0.5  # seconds after which the store is looked at, if it said nothing
TICK = 1.0  # seconds between two looks for decisions that have timed out
_REST = 0.005  # seconds that the learner rests at least
_IDLE = 0.02  # seconds that the learner waits for more, after it was woken
_LOOK = 1.0  # seconds after which the learner looks, if nobody woke it
_TELL = 2.0  # seconds between two lines of the log that say what the start waits for
_PATIENCE = 0.2  # seconds that the follower waits for a bandit that is being written


class Engine:
    """The bandits of a store, in one process.

    ``learning`` is the share of time that the learner takes at most; ``snapshots`` are seconds after which a state is
    kept, unless it is that of before, or 0 to keep none. Beyond ``away`` seconds without an answer of the store the
    process says that it is not ready. ``tokens`` are the keys of deciders' tokens, of which rewards are taken for
    ``token_age`` seconds; ``publish`` and ``publish_every`` say where and how often snapshots are published.
    """

    def __init__(
        self,
        store: Store,
        metrics: Metrics,
        *,
        learning: float = 0.25,
        snapshots: float = 60.0,
        away: float = 10.0,
        tokens: TokenKeys | None = None,
        token_age: float = 30 * DAY,
        publish: str = "",
        publish_every: float = 5.0,
    ) -> None:
        self.store, self._metrics, self._learning, self._snapshots = store, metrics, learning, snapshots
        self._log = logs.get("bandits")
        self._hosts: dict[str, Host] = {}
        self._attended: dict[int, int] = {}  # by bandit, where its log stood when the keeper looked at it last
        self._loading = threading.Lock()  # over the table of bandits
        self._stop = threading.Event()
        self._wake = threading.Event()  # for the learner
        self.ready = False
        self._compiled = 0  # kernels, before it was ready
        self.clock = StoreClock(store)
        self.health = Health(self.clock.look, self._try_to_write, away=away)
        self.tokens = TokenReader(tokens, token_age, self.clock.now)
        self.publisher = Publisher(self.all, self.clock.now, metrics, address=publish, every=publish_every)
        self.writer = Writer(store, self.clock.now, self._committed, self._failed)
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Check the store, load every bandit, and begin to write, follow, learn and keep time."""
        began = told = time.monotonic()
        _warm()
        for complaint in self.store.check():
            self._log.error("the database is damaged", complaint=complaint)
        self.writer.start()
        rows = self.store.bandits()
        for at, row in enumerate(rows):
            if time.monotonic() - told > _TELL:
                told = time.monotonic()
                self._log.info("not ready yet", waits_for=f"bandits to be loaded, {at} of {len(rows)} are")
            self._load(row)
        self._compiled = len(compilations())
        self.ready = True
        self._log.info("ready", bandits=len(rows), seconds=round(time.monotonic() - began, 1))
        for work in (self._follow, self._learn, self._keep):
            thread = threading.Thread(target=work, name=work.__name__.strip("_"), daemon=True)
            thread.start()
            self._threads.append(thread)
        self.health.start()
        self.publisher.start()

    def stop(self) -> None:
        """Write what is waiting, keep snapshots, and end."""
        self.ready = False
        self.health.stop()
        self.publisher.stop()
        self._stop.set()
        self._wake.set()
        for thread in self._threads:
            thread.join()
        self.writer.stop()
        for host in self.all():
            if host.quarantined is None and host.seq > host.kept and self._snapshots:
                self._guarded("snapshot", partial(self._snapshot, host))

    # Finding, making and ending bandits.

    def all(self) -> list[Host]:
        """Return all that were not deleted."""
        return [host for host in list(self._hosts.values()) if not host.closed]

    def quarantined(self) -> list[Host]:
        """Return those whose log cannot be read."""
        return [host for host in self.all() if host.quarantined is not None]

    def known(self, name: str) -> Host | None:
        """Return a bandit that is in memory."""
        host = self._hosts.get(name)
        return None if host is None or host.closed else host

    def find(self, name: str) -> Host:
        """Return a bandit by its name, also one that another process has just made; may read the store."""
        host = self.known(name)
        if host is None:
            row = self.store.find(name)
            if row is None:
                raise UnknownBanditError(f"no bandit has the name {name!r}; GET /v1/bandits lists those there are")
            host = self._load(row)
        return host

    def create(self, name: str, settings: dict[str, Any], key: str | None) -> Host:
        """Make a bandit; raise for what cannot be."""
        now = self.clock.now()
        new_core(settings, now)  # which says what is wrong before anything is written
        try:
            body = {"settings": settings, MARK: Actors().writer()(ACTOR.get())}
            row = self.store.create(name, [New("Created", now, body, None, key)])
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

    def fold(self, host: Host, before: int | None) -> tuple[int, int]:
        """Make what events up to one say the base, and remove them; return how many, and up to which."""
        last = host.core.state.seq if before is None else min(before, host.seq)
        if host.core.state.adopted:
            # The ids of younger events are what says that a token was told before.
            last = min(last, self.store.last_before(host.id, self.clock.now() - self.tokens.age))
        while last > (folded := self.store.base(host.id)):
            try:
                seq, state = loading.pack(loading.rebuild(self.store, host.row, last))
                return self.store.fold(host.id, seq, state), seq
            except (FoldedError, QuarantinedError, ValueError):
                if self.store.base(host.id) <= folded:  # else another server was first
                    raise
        return 0, folded

    def delete(self, host: Host, key: str | None) -> None:
        """Let a bandit be no more; its events stay."""
        event = New("Deleted", self.clock.now(), {MARK: ACTOR.get()}, None, key)
        with host.turn:
            while True:
                try:
                    head = None if host.quarantined is not None else host.head
                    deleted = self.store.delete(host.id, event, head)
                    break
                except BehindError:
                    host.catch_up(self.store)
                except RepeatedError:
                    words = f"the key {key!r} was used for another request of bandit {host.name!r}; give each its own"
                    raise KeyReusedError(words) from None
            if host.quarantined is None:
                host.follow([deleted])
        self._forget(host)
        self._metrics.forget(host.name)

    def successor(self, host: Host) -> Host | None:
        """Return the bandit that has the name of one that was deleted elsewhere, if there is one."""
        self._forget(host)
        found = self.find(host.name)
        return found if found.id != host.id else None

    def catch_up(self, host: Host) -> None:
        """Take in what other servers have written of a bandit."""
        with host.turn:
            host.catch_up(self.store)

    def submit(self, order: Order) -> Future[Any]:
        """Have an order written."""
        return self.writer.submit(order)

    def _committed(self, written: Sequence[Order], seconds: float) -> None:
        """Count what was written."""
        counts = Counter((order.host.name, event.kind) for order in written for event in order.events)
        if not counts:
            return
        self.health.wrote()
        self._wake.set()
        self._metrics.committed(counts.total(), seconds)
        for order in written:
            if adopted := sum(map(orders.adopts, order.planned)) if order.events else 0:
                self._metrics.adopted(order.host.name, adopted)
        for (name, kind), count in counts.items():
            if kind == "Decided":
                self._metrics.decided(name, count)
            elif kind in ("Rewarded", "Told"):
                self._metrics.rewarded(name, count)

    def _failed(self, error: BaseException) -> None:
        """Count what the store failed at."""
        if isinstance(error, StoreError):
            self._metrics.failed(error)
            self.health.failed(error)

    def _try_to_write(self) -> None:
        """Write a snapshot that is there already once more, which says whether the store can be written."""
        host = next((host for host in self.all() if host.quarantined is None), None)
        if host is not None:
            self._snapshot(host)

    def _load(self, row: BanditRow) -> Host:
        with self._loading:
            host = self._hosts.get(row.name)
            if host is None or host.id != row.id:
                try:
                    host = Host(row, loading.rebuild(self.store, row))
                except StoreUnavailableError:
                    raise
                except Exception as error:  # whatever is wrong with its log, the others are served
                    words = str(error) if isinstance(error, QuarantinedError) else loading.unreadable(row.name, error)
                    self._log.error("bandit is quarantined", bandit=row.name, error=words)
                    logging.getLogger(logs.OWN).error("bandit %r is quarantined: %s", row.name, words)
                    host = Host(row, None, words)
                host.tokens = self.tokens
                self._hosts[row.name] = host
                self._wake.set()
            return host

    def _forget(self, host: Host) -> None:
        with self._loading:
            if self._hosts.get(host.name) is host:
                del self._hosts[host.name]
            self._attended.pop(host.id, None)

    # What the threads do.

    def _guarded(self, what: str, work: Callable[[], Any]) -> bool:
        """Do something that may fail for a while; say whether it went well."""
        try:
            work()
            return True
        except StoreError as error:
            self._failed(error)
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
                self._guarded(f"loading {row.name}", partial(self._load, row))
        for host in self.all():
            if host.quarantined is not None:
                if host.id not in heads:
                    self._forget(host)
                continue
            self._guarded(f"following {host.name}", partial(self._follow_to, host, heads.get(host.id)))

    def _follow_to(self, host: Host, head: int | None) -> None:
        """Take in what others wrote of a bandit, if its log ends later than is known here; a deleted one has no end."""
        behind = 1 if head is None else max(head - host.seq, 0)
        self._metrics.behind(host.name, behind)
        if behind:
            self._catch_up(host)

    def _catch_up(self, host: Host) -> None:
        if not host.turn.acquire(timeout=_PATIENCE):
            return  # it is being written: who writes takes in what others wrote
        try:
            self._metrics.followed(host.catch_up(self.store))
        finally:
            host.turn.release()
        if host.closed:
            self._forget(host)
        self._wake.set()

    def _learn(self) -> None:
        """Make new draws where rewards came, one bandit after the other."""
        with threadpool_limits(1):
            while not self._stop.is_set():
                stale = [host for host in self.all() if host.stale]
                for host in stale:
                    started = time.perf_counter()
                    self._guarded("learning", partial(host.refresh, wait=True))
                    spent = time.perf_counter() - started
                    self._metrics.learned(spent)
                    if self._stop.wait(max(_REST, spent * (1.0 / self._learning - 1.0))):
                        return
                if not stale and self._wake.wait(_LOOK):  # idle, it costs nothing
                    self._wake.clear()
                    self._stop.wait(_IDLE)  # others may come, to be learned from together

    def _keep(self) -> None:
        while not self._stop.wait(TICK):
            self._metrics.serving(len(self.all()))
            self._metrics.ready(not self.health.troubles())
            self._metrics.quarantined(len(self.quarantined()))
            if (free := self.store.free_bytes()) is not None:
                self._metrics.free(free)
            self._note_compilations()
            for host in self.all():
                host.tick()
                if not self._is_quiet(host):
                    self._attend(host)
                if host.quarantined is None and self._snapshots and host.due(self._snapshots):
                    self._guarded("snapshot", partial(self._snapshot, host))

    def _is_quiet(self, host: Host) -> bool:
        """Whether nothing of a bandit has changed since it was looked at, and nothing of it waits: most, mostly."""
        if self._attended.get(host.id) != host.seq or host.quarantined is not None or host.stale:
            return False
        return not host.core.waiting and self.publisher.age(host) is None

    def _attend(self, host: Host) -> None:
        """Time out decisions of a bandit, and say how it is doing."""
        seq, went_well = host.seq, True
        self._metrics.learning_lag(host.name, 0.0 if host.quarantined else host.learning_lag)
        self._metrics.deciding_elsewhere(host.name, self.publisher.age(host), len(host.deciders.rows()))
        if host.quarantined is None:
            if host.core.waiting:
                went_well = self._guarded("timing out", partial(self._expire, host))
            went_well &= self._guarded("learning regions", partial(self._learn_regions, host))
        if host.quarantined is None:  # which timing out may have found that it must be
            self._guarded("counting what waits", lambda: self._metrics.waiting(host.name, host.core.waiting))
        if went_well:
            self._attended[host.id] = seq

    def _note_compilations(self) -> None:
        """Say what was compiled since the start: nothing should be, as it takes seconds in which nobody is answered."""
        late = compilations()[self._compiled :]
        if late:
            self._compiled += len(late)
            self._metrics.compiled(len(late))
            self._log.warning("compiled after the start, which delays answers; please report it", kernels=late)

    def _expire(self, host: Host) -> None:
        """Time out the decisions of a bandit whose window has ended, some at a time."""
        while not self._stop.is_set() and host.core.waiting:
            with host.core.lock:
                ended, dropped = host.core.state.book.overdue(time=self.clock.now())
            if (not ended and not dropped) or not self.submit(orders.expire(host)).result():
                break

    def _learn_regions(self, host: Host) -> None:
        """Have the regions of modes of numbers learned once enough requests have brought some."""
        for mode in host.core.state.regions_due():
            self.submit(orders.learn_regions(host, mode)).result()

    def _snapshot(self, host: Host) -> None:
        seq, state = loading.pack(host.core)
        self.store.put_snapshot(host.id, seq, state)
        host.keep(seq)


@cache
def _warm() -> None:
    """Have all that deciding and learning run loaded, or compiled, so that nobody waits for it later."""
    compile_ahead()
    cells = [(0, 0, 0), (0, 1, 1), (1, 0, 1)] * 10
    for reward, residual in (
        ("gaussian", None),
        ("gaussian", True),
        ("bernoulli", None),
        ("count", None),
        ("revenue", None),
    ):
        settings = {"modes": {mode: ["x", "y"] for mode in "abc"}, "reward": reward, "settings": {"residual": residual}}
        host = Host(BanditRow(0, "warm", 0.0), new_core(settings, 0.0))
        host.refresh(wait=True)
        for _ in range(2):
            host.core.policy.tell_many(cells, [1.0, 0.0, 1.0] * 10)
            host.refresh(wait=True)
            host.draw(Ask())
        host.draw(Ask((), chosen({0: [0]})))
